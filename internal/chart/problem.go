package chart

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// subject is how errors name the chart.
func (r Ref) subject() string {
	switch {
	case r.Path != "":
		return "Chart " + quoted(filepath.ToSlash(r.Path))
	case r.Name != "":
		return "Chart " + quoted(r.Name)
	}
	return "Chart"
}

// attribute is the attribute that says where the chart is.
func (r Ref) attribute() string {
	if r.Path != "" {
		return "chart.path"
	}
	return "chart.repository"
}

// fail makes an error about the chart.
func (r Ref) fail(attribute, summary, format string, args ...any) error {
	return &cluster.Problem{Attribute: attribute, Summary: r.subject() + ": " + summary, Detail: fmt.Sprintf(format, args...)}
}

// fail makes an error about what was asked for. Its text holds no credential, whatever the server sent.
func (q request) fail(err error, summary, format string, args ...any) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the URL of the request may hold a secret in its query
	}
	return &cluster.Problem{
		Attribute: "chart.repository",
		Summary:   q.what + ": " + summary,
		Detail:    q.credential.scrub(fmt.Sprintf(format, args...)),
		Err:       err,
	}
}

// scrub takes a credential out of a text that somebody else wrote.
func (c Credential) scrub(text string) string {
	for _, secret := range []string{base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password)), c.Password, c.Token} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return text
}

// secretsInURL are the parts of a URL that may be secrets: the user information, and the query, by which storage services
// sign what they redirect to.
var secretsInURL = regexp.MustCompile(`(://)[^/\s"@]*@|\?[^\s"]+`)

// reason is the innermost text of an error, without the URL of the request around it.
func reason(err error) string {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return cut(secretsInURL.ReplaceAllString(err.Error(), "$1"))
}

// interrupted is the error of somebody who was cancelled, or who ran out of time.
func interrupted(what string, err error) error {
	summary, detail := "fetching it was cancelled", "Nothing was changed. Run it again."
	if errors.Is(err, context.DeadlineExceeded) {
		summary, detail = "there was no time left to fetch it", "The operation's own timeout ended before the chart was there. Nothing was changed. Check the network, or allow more time in timeouts."
	}
	return &cluster.Problem{Attribute: "chart.repository", Summary: what + ": " + summary, Detail: detail, Err: err}
}

// unreachable is about a request that got no whole answer.
func (q request) unreachable(err error) error {
	server := q.url.Host
	operation, _ := errors.AsType[*net.OpError](err)
	dns, isDNS := errors.AsType[*net.DNSError](err)
	timeout, _ := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.Canceled):
		return interrupted(q.what, context.Canceled)
	case operation != nil && operation.Op == "proxyconnect", strings.Contains(err.Error(), http.StatusText(http.StatusProxyAuthRequired)):
		return q.fail(err, "the proxy does not let it through", "The proxy on the way to %s: %s. Check HTTPS_PROXY, HTTP_PROXY and NO_PROXY.", server, reason(err))
	case isDNS && dns.IsNotFound:
		return q.fail(err, "its host was not found", "The DNS has no host %q. Correct its name in chart.repository or in the provider's charts.repository_overrides, or check the DNS of this machine.", dns.Name)
	case isDNS:
		return q.fail(err, "the DNS does not answer", "The host %q could not be looked up: %s. Check the DNS and the network of this machine, and run it again.", dns.Name, cut(dns.Err))
	case aboutTLS(err) != "":
		return q.untrusted(err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return q.fail(err, "it refuses the connection", "Nothing listens at %s. Correct the host and port in chart.repository or in the provider's charts.repository_overrides, or check that it is up; then run it again.", server)
	case errors.Is(err, context.DeadlineExceeded), timeout != nil && timeout.Timeout():
		return q.fail(err, "it does not answer in time", "%s was asked and did not finish its answer. Check the network and HTTPS_PROXY, and run it again.", server)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return q.fail(err, "the connection was cut", "%s stopped in the middle of its answer. Run it again; if it stays, check what is in between.", server)
	}
	return q.fail(err, "it cannot be fetched", "%s could not be asked: %s. Correct chart.repository, or check the network, and run it again.", server, reason(err))
}

// What is wrong with a TLS connection.
const (
	tlsAuthority   = "authority"
	tlsName        = "name"
	tlsCertificate = "certificate"
	tlsPlain       = "plain"
	tlsHandshake   = "handshake"
)

// aboutTLS says what of TLS an error is about; empty when it is about something else.
func aboutTLS(err error) string {
	if err == nil {
		return ""
	}
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		header    tls.RecordHeaderError
		operation *net.OpError
	)
	switch {
	case errors.As(err, &authority):
		return tlsAuthority
	case errors.As(err, &name):
		return tlsName
	case errors.As(err, &invalid), errors.As(err, &verify):
		return tlsCertificate
	case errors.Is(err, http.ErrSchemeMismatch):
		return tlsPlain
	case errors.As(err, &header), errors.As(err, &operation) && operation.Op == "remote error":
		return tlsHandshake
	}
	return ""
}

// untrusted is about TLS.
func (q request) untrusted(err error) error {
	server := q.url.Host
	switch aboutTLS(err) {
	case tlsAuthority:
		return q.fail(err, "its certificate is signed by an unknown authority", "The certificate of %s is signed by an authority that this machine does not trust. Set ca_certificate for %s in the provider's charts.credentials to the CA's certificate; where a proxy inspects TLS, to the proxy's.", server, quoted(shown(q.remote.url.String())))
	case tlsName:
		return q.fail(err, "its certificate is for another name", "%s. Use a name that the certificate is for, or have it issued for %s.", capital(reason(err)), q.url.Hostname())
	case tlsCertificate:
		return q.fail(err, "its certificate is not valid", "The certificate of %s was refused: %s. Have it renewed, and check the clock of this machine.", server, reason(err))
	case tlsPlain:
		return q.fail(err, "it speaks plain HTTP", "%s answers https:// without TLS. Correct the port. A Helm repository without TLS needs http:// in its URL; an OCI registry without TLS is used on this machine only (localhost, 127.0.0.1, ::1).", server)
	}
	return q.fail(err, "the TLS handshake failed", "%s ended the TLS handshake or speaks no TLS: %s. Correct the host and port in chart.repository or in the provider's charts.repository_overrides.", server, reason(err))
}

// refused is about an answer that is not 200.
func (q request) refused(status int) error {
	answer := fmt.Sprintf("%d %s", status, http.StatusText(status))
	server := q.url.Host
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return q.denied(answer)
	case status == http.StatusNotFound:
		return q.fail(nil, q.absent, "%s", q.missing)
	case status == http.StatusTooManyRequests:
		return q.fail(nil, "it was asked too often (429)", "%s answered %s. Wait for as long as its limit lasts; credentials in the provider's charts.credentials often have a higher one, and charts.repository_overrides can name a mirror.", server, answer)
	case status >= 500:
		return q.fail(nil, fmt.Sprintf("it is out of order (%d)", status), "%s answered %s, also when asked again. Wait until it works again, or name a mirror in the provider's charts.repository_overrides.", server, answer)
	}
	return q.fail(nil, fmt.Sprintf("it gave an unexpected answer (%d)", status), "%s answered %s. Check the URL in chart.repository and in the provider's charts.repository_overrides.", server, answer)
}

// denied is about 401 and 403.
func (q request) denied(answer string) error {
	summary := "access is denied (" + answer[:3] + ")"
	server, repository := q.url.Host, quoted(shown(q.remote.url.String()))
	const hidden = "Some also answer so where the chart does not exist: check chart.repository and chart.name."
	switch {
	case q.remote.url.Scheme != "oci" && !sameOrigin(q.url, q.remote.url):
		return q.fail(nil, summary, "%s answered %s. It is another server than that of the repository, %s, so no credential was sent to it. Name a mirror in the provider's charts.repository_overrides, or put the archive's folder into chart.path.", server, answer, repository)
	case q.credential.Username == "" && q.credential.Password == "" && q.credential.Token == "":
		return q.fail(nil, summary, "%s answered %s, and the provider's charts.credentials have nothing for %s. Set username and password, or token, for it there. %s", server, answer, repository, hidden)
	}
	return q.fail(nil, summary, "%s answered %s to the credential that the provider's charts.credentials have for %s. Check that it is right, has not expired and may read this chart. %s", server, answer, repository, hidden)
}

// tooLarge is about an answer of more bytes than anything good has.
func (q request) tooLarge() error {
	return q.fail(nil, "it is too large", "%s sends more than %d MiB, which is the most that is read. Check that the URL is that of a chart repository.", q.url.Host, q.limit>>20)
}

// webPage is about HTML in place of what was asked for; from is who sent it, after redirects.
func (q request) webPage(from *url.URL) error {
	who := from.Host
	if from.Host != q.url.Host {
		who = fmt.Sprintf("%s redirects to %s, which", q.url.Host, from.Host)
	}
	return q.fail(nil, "a web page came in its place", "%s answered %s with HTML: the URL is that of a page for people, or a proxy or a network's login page answers in its place. Correct chart.repository (a Helm repository has index.yaml below its URL), or log in to the network.", who, quoted(shown(q.url.String())))
}

// isHTML tells whether an answer is a web page, whatever its headers say.
func isHTML(body []byte) bool { return strings.HasPrefix(http.DetectContentType(body), "text/html") }

// quoted is a value as messages show it.
func quoted(value string) string { return strconv.Quote(cut(value)) }

// cut shortens a text that somebody else wrote, such as a name that is a whole file.
func cut(text string) string {
	const longest = 300
	if runes := []rune(text); len(runes) > longest {
		return string(runes[:longest]) + "…"
	}
	return text
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// list is a sentence's list of names, at most five.
func list(names []string) string {
	quotes := slices.Clone(names[:min(len(names), 5)])
	for i := range quotes {
		quotes[i] = quoted(quotes[i])
	}
	return strings.Join(quotes, ", ")
}
