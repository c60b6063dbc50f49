package cluster

import (
	"fmt"
	"html"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// ForeignAnswerError is an answer that no Kubernetes API server gives: an HTML page, or a redirect to another host.
type ForeignAnswerError struct {
	StatusCode int
	Host       string // who answered
	Title      string // of the page; empty when it has none
	Redirect   string // scheme and host that it redirects to; empty for a page
}

// Error says who answered with what.
func (e *ForeignAnswerError) Error() string {
	if e.Redirect != "" {
		return fmt.Sprintf("%s answered %d with a redirect to %s", e.Host, e.StatusCode, e.Redirect)
	}
	return fmt.Sprintf("%s answered %d with an HTML page %s", e.Host, e.StatusCode, quoted(e.Title))
}

const (
	// pageLimit is how much of a page is read in search of its title.
	pageLimit = 64 << 10
	// titleLimit is how much of a title a message has room for.
	titleLimit = 100
)

var pageTitle = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

// WrapTransport gives a transport that turns HTML pages and redirects to other hosts into a *ForeignAnswerError: an API
// server sends neither, client-go cannot make sense of the one, and would send the credential after the other.
func WrapTransport(next http.RoundTripper) http.RoundTripper { return &kubernetesOnly{next: next} }

type kubernetesOnly struct{ next http.RoundTripper }

// WrappedRoundTripper lets client-go find the transport underneath, for closing idle connections.
func (t *kubernetesOnly) WrappedRoundTripper() http.RoundTripper { return t.next }

var _ utilnet.RoundTripperWrapper = &kubernetesOnly{}

func (t *kubernetesOnly) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if err != nil || isProxied(request.URL.Path) {
		return response, err
	}
	if response.StatusCode >= 300 && response.StatusCode < 400 {
		location, err := response.Location()
		if err != nil || sameHost(location, request.URL) {
			return response, nil
		}
		_ = response.Body.Close() // nothing in it is of interest
		return nil, &ForeignAnswerError{StatusCode: response.StatusCode, Host: request.URL.Host, Redirect: location.Scheme + "://" + location.Host}
	}
	mediaType, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if mediaType != "text/html" && mediaType != "application/xhtml+xml" {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	page, _ := io.ReadAll(io.LimitReader(response.Body, pageLimit)) // half a page may have its title, too
	return nil, &ForeignAnswerError{StatusCode: response.StatusCode, Host: request.URL.Host, Title: titleOf(page)}
}

// isProxied tells whether the API server passes a request on to a pod, a Service or a node, which may answer anything.
func isProxied(path string) bool {
	return strings.HasSuffix(path, "/proxy") || strings.Contains(path, "/proxy/")
}

// sameHost compares the scheme too: https to http would take the credential out of TLS.
func sameHost(a, b *url.URL) bool { return a.Scheme == b.Scheme && strings.EqualFold(a.Host, b.Host) }

func titleOf(page []byte) string {
	match := pageTitle.FindSubmatch(page)
	if match == nil {
		return ""
	}
	title := redact(strings.Join(strings.Fields(html.UnescapeString(string(match[1]))), " "))
	if runes := []rune(title); len(runes) > titleLimit {
		title = string(runes[:titleLimit]) + "…"
	}
	return title
}
