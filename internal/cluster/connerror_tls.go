package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

// TLS alerts by which a server rejects a client's certificate. Source: RFC 8446, section 6.
const (
	alertBadCertificate         tls.AlertError = 42
	alertUnsupportedCertificate tls.AlertError = 43
	alertRevokedCertificate     tls.AlertError = 44
	alertExpiredCertificate     tls.AlertError = 45
	alertUnknownCertificate     tls.AlertError = 46
	alertUnknownCA              tls.AlertError = 48
	alertUnrecognizedName       tls.AlertError = 112
	alertCertificateRequired    tls.AlertError = 116
)

var clientCertificateAlerts = []tls.AlertError{
	alertBadCertificate, alertUnsupportedCertificate, alertRevokedCertificate, alertExpiredCertificate,
	alertUnknownCertificate, alertUnknownCA, alertCertificateRequired,
}

// alertOf is the text of the alert with which a server ended a handshake, empty without one. Over TCP crypto/tls does not
// give it the type AlertError, but the same text.
func alertOf(err error) string {
	var operation *net.OpError
	if errors.As(err, &operation) && operation.Op == "remote error" {
		return operation.Err.Error()
	}
	return ""
}

// aboutTLS is about certificates, the server's and ours, and about servers that speak no TLS.
func (c classification) aboutTLS() *ConnectionError {
	who, trust := c.server, "cluster_ca_certificate or certificate-authority-data"
	var operation *net.OpError
	if errors.As(c.err, &operation) && operation.Op == "proxyconnect" {
		who, trust = "the proxy on the way to "+c.server, "the certificates that this machine trusts"
	}
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
		verify  *tls.CertificateVerificationError
		header  tls.RecordHeaderError
	)
	alert := alertOf(c.err)
	switch {
	case errors.As(c.err, &unknown):
		return c.unknownAuthority(who, trust, unknown)
	case errors.As(c.err, &name):
		return c.wrongName(who, name)
	case errors.As(c.err, &invalid) && invalid.Reason == x509.Expired:
		return c.expired(who, invalid.Cert)
	case errors.As(c.err, &invalid), errors.As(c.err, &verify):
		return c.fail(CauseServerCertificate, "its API server's certificate cannot be used", "The certificate of %s was refused: %s. Have the API server's certificate issued again.", who, c.brief(c.reason()))
	case errors.Is(c.err, http.ErrSchemeMismatch), strings.Contains(c.err.Error(), "server gave HTTP response to HTTPS client"):
		return c.fail(CausePlainHTTP, "its address speaks plain HTTP", "%s answers without TLS, so it is not an API server, or not its secure port. Nothing was sent to it. Correct the port in %s (6443 and 443 are usual).", who, c.entry())
	case errors.As(c.err, &header):
		return c.fail(CauseTLS, "its address does not speak TLS", "What listens at %s answers with something other than TLS. Correct the address and port in %s (6443 and 443 are usual).", who, c.entry())
	case alert == alertUnrecognizedName.Error():
		return c.fail(CauseHostname, "its API server does not know the name it is called by", "%s refused the TLS server name (%s). Set tls_server_name in %s to a name that the API server has a certificate for.", who, c.brief(c.reason()), c.entry())
	case slices.ContainsFunc(clientCertificateAlerts, func(a tls.AlertError) bool { return a.Error() == alert }):
		return c.rejectedCertificate(who)
	case alert != "":
		return c.fail(CauseTLS, "the TLS handshake failed", "%s ended the TLS handshake: %s. Check that the address in %s is that of the API server, and what terminates TLS in front of it.", who, c.brief(c.reason()), c.entry())
	}
	return nil
}

func (c classification) unknownAuthority(who, trust string, failure x509.UnknownAuthorityError) *ConnectionError {
	issuer := "an unknown authority"
	if failure.Cert != nil && failure.Cert.Issuer.String() != "" {
		issuer = quoted(failure.Cert.Issuer.String())
	}
	why := "which is not the certificate authority that " + c.entry() + " names: the CA is another cluster's, or a proxy that inspects TLS is in between. Set " + trust + " to the CA of this cluster."
	switch {
	case c.config != nil && len(c.config.CAData) == 0 && c.config.CAFile == "":
		why = "which this machine does not trust, and " + c.entry() + " names no CA of its own. Set " + trust + " to the CA of the cluster."
	case strings.Contains(failure.Error(), "candidate authority certificate"):
		why = "which has the name of the CA in " + c.entry() + " but another key, as after the cluster was built anew. Set " + trust + " to its present CA, and check that it is the cluster you mean."
	}
	return c.fail(CauseUnknownAuthority, "its API server's certificate is signed by an unknown authority", "The certificate of %s is issued by %s, %s", who, issuer, why)
}

func (c classification) wrongName(who string, failure x509.HostnameError) *ConnectionError {
	var names []string
	if certificate := failure.Certificate; certificate != nil {
		names = append(names, certificate.DNSNames...)
		for _, address := range certificate.IPAddresses {
			names = append(names, address.String())
		}
	}
	const most = 8
	valid := "no name at all"
	if len(names) > most {
		valid = quoteAll(names[:most]) + " and more"
	} else if len(names) > 0 {
		valid = quoteAll(names)
	}
	return c.fail(CauseHostname, "its API server's certificate is for another name",
		"%s has a certificate that is not valid for %s, only for %s. Use one of these in the address, or set tls_server_name (tls-server-name in a kubeconfig) of %s to one of them.", who, quoted(failure.Host), valid, c.entry())
}

func (c classification) expired(who string, certificate *x509.Certificate) *ConnectionError {
	if now := time.Now(); certificate != nil && now.Before(certificate.NotBefore) {
		return c.fail(CauseServerCertificate, "its API server's certificate is not valid yet",
			"A certificate of %s is valid from %s, and the clock here says %s. Check the clock of this machine and of the control plane.", who, moment(certificate.NotBefore), moment(now))
	}
	when := ""
	if certificate != nil {
		when = " at " + moment(certificate.NotAfter)
	}
	return c.fail(CauseServerCertificate, "its API server's certificate has expired",
		"A certificate of %s expired%s. Renew it on the control plane (kubeadm certs renew, or your provider's way); the clock of this machine may also be wrong.", who, when)
}

func (c classification) rejectedCertificate(who string) *ConnectionError {
	if c.config != nil && len(c.config.CertData) == 0 && c.config.ExecProvider == nil {
		return c.fail(CauseClientCertificate, "it asks for a client certificate", "%s ended the TLS handshake because no client certificate was sent (%s). Give %s client_certificate and client_key.", who, c.brief(c.reason()), c.entry())
	}
	return c.fail(CauseClientCertificate, "its API server rejects the client certificate",
		"%s ended the TLS handshake over the client certificate (%s): it has expired, was revoked, or is signed by an authority that the API server does not trust. Give %s a client certificate of this cluster.", who, c.brief(c.reason()), c.entry())
}

// proxyOf is the proxy that requests of a configuration go through; nil is none.
func proxyOf(config *rest.Config) *url.URL {
	if config == nil {
		return nil
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, config.Host, nil)
	if err != nil {
		return nil
	}
	find := config.Proxy
	if find == nil {
		find = http.ProxyFromEnvironment
	}
	proxy, err := find(request)
	if err != nil {
		return nil
	}
	return proxy
}

// aboutProxy is about a proxy that refuses to connect. net/http gives no type for that: its error is the status text.
func (c classification) aboutProxy() *ConnectionError {
	proxy := proxyOf(c.config)
	var request *url.Error
	if proxy == nil || !errors.As(c.err, &request) {
		return nil
	}
	text, code := request.Err.Error(), 0
	for candidate := 400; candidate < 600; candidate++ {
		if name := http.StatusText(candidate); name != "" && strings.EqualFold(text, name) {
			code = candidate
		}
	}
	shown := maskURL(proxy.String())
	switch {
	case code == http.StatusProxyAuthRequired:
		return c.fail(CauseProxy, "the proxy asks for a login (407)", "The proxy %s wants a user name and password before it connects to %s. Put them into proxy_url, or leave the cluster out of the proxy (NO_PROXY).", shown, c.server)
	case code >= 502 && code <= 504:
		return c.fail(CauseGateway, "the proxy cannot reach its API server", "The proxy %s answered %d %s when asked to connect to %s. Check that the control plane is up and that the proxy may reach it, or leave the cluster out of the proxy (NO_PROXY).", shown, code, http.StatusText(code), c.server)
	case code != 0:
		return c.fail(CauseProxy, "the proxy refuses to connect", "The proxy %s answered %d %s when asked to connect to %s. Have the proxy allow it, or leave the cluster out of the proxy (NO_PROXY).", shown, code, http.StatusText(code), c.server)
	}
	return nil
}

// Windows has its own numbers for these, which syscall.ECONNREFUSED does not match there.
const (
	wsaConnectionReset   = syscall.Errno(10054)
	wsaConnectionRefused = syscall.Errno(10061)
)

func isRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, wsaConnectionRefused)
}

func isReset(err error, text string) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, wsaConnectionReset) ||
		inRequest(err) && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) ||
		strings.Contains(text, "http2: client connection lost") || strings.Contains(text, "server sent GOAWAY and closed the connection")
}
