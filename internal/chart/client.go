package chart

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

const (
	// maxRetries and maxRetryWait: a plan that waits longer for a repository looks hung. Our choice.
	maxRetries   = 3
	maxRetryWait = 5 * time.Second
	// maxRedirects is what net/http allows by itself.
	maxRedirects = 10
	// answerTimeout is how long a server may take to begin its answer. Our choice.
	answerTimeout = 30 * time.Second
)

// client is the HTTP client for repositories with a CA certificate, with connections that all of them share.
func (s *Source) client(repository string, credential Credential) (*http.Client, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if known := s.clients[credential.CACertificate]; known != nil {
		return known, nil
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = answerTimeout
	// An archive is compressed already, and some servers call that a Content-Encoding: it must arrive as it is.
	transport.DisableCompression = true
	if credential.CACertificate != "" {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM([]byte(credential.CACertificate)) {
			return nil, &cluster.Problem{
				Attribute: "charts.credentials",
				Summary:   "Chart repository " + quoted(shown(repository)) + ": its ca_certificate holds no certificate",
				Detail:    "Nothing in it is a certificate in PEM form. Set it to the content of the CA's certificate file, which begins with -----BEGIN CERTIFICATE-----.",
			}
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	retrying := &retryablehttp.Client{
		HTTPClient:   &http.Client{Transport: transport, CheckRedirect: redirect},
		RetryMax:     maxRetries,
		RetryWaitMin: s.retryWait,
		RetryWaitMax: maxRetryWait,
		CheckRetry:   worthRetrying,
		Backoff: func(least, most time.Duration, attempt int, response *http.Response) time.Duration {
			return min(retryablehttp.DefaultBackoff(least, most, attempt, response), most) // a Retry-After may ask for hours
		},
		ErrorHandler: retryablehttp.PassthroughErrorHandler, // the last answer says more than "giving up"
	}
	s.clients[credential.CACertificate] = retrying.StandardClient()
	return s.clients[credential.CACertificate], nil
}

// redirect follows redirects, but takes the credential along only within one server: net/http alone would take it to
// subdomains and to other ports.
func redirect(request *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	if !sameOrigin(request.URL, via[0].URL) {
		request.Header.Del("Authorization")
	}
	return nil
}

// worthRetrying is the retry policy: what may pass by itself is tried again. That is a server's error and a broken
// connection, and neither an answer of 4xx, nor a certificate, nor a host that does not exist.
func worthRetrying(ctx context.Context, response *http.Response, err error) (bool, error) {
	switch dns, isDNS := errors.AsType[*net.DNSError](err); {
	case ctx.Err() != nil, aboutTLS(err) != "", isDNS && dns.IsNotFound:
		return false, nil //nolint:nilerr // retryablehttp then returns the request's own error
	case response != nil && response.StatusCode >= 400 && response.StatusCode < 500:
		return false, nil
	}
	retry, _ := retryablehttp.DefaultRetryPolicy(ctx, response, err)
	return retry, nil
}

// request is a GET for a repository.
type request struct {
	*remote
	url *url.URL
	// what is what is asked for, as the summary of an error names it.
	what string
	// absent and missing are the rest of the summary and the detail where the answer is 404.
	absent, missing string
	// limit is the most bytes that are read of the answer.
	limit int64
}

// do sends the request and gives the body of the answer. The credential goes along only where the repository itself is.
func (q request) do(ctx context.Context) ([]byte, error) {
	get, err := http.NewRequestWithContext(ctx, http.MethodGet, q.url.String(), nil)
	if err != nil {
		return nil, q.unreachable(err)
	}
	get.Header.Set("User-Agent", q.agent)
	if sameOrigin(q.url, q.remote.url) {
		if q.credential.Token != "" {
			get.Header.Set("Authorization", "Bearer "+q.credential.Token)
		} else if q.credential.Username != "" || q.credential.Password != "" {
			get.SetBasicAuth(q.credential.Username, q.credential.Password)
		}
	}
	response, err := q.client.Do(get)
	if err != nil {
		return nil, q.unreachable(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, q.refused(response.StatusCode)
	}
	if response.ContentLength > q.limit {
		return nil, q.tooLarge()
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, q.limit+1))
	switch {
	case err != nil:
		return nil, q.unreachable(err)
	case int64(len(body)) > q.limit:
		return nil, q.tooLarge()
	case isHTML(body):
		return nil, q.webPage(response.Request.URL)
	}
	return body, nil
}
