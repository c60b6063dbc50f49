package chart

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

func TestUnreachable(t *testing.T) {
	// A port that was just free is closed.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	listener.Close()
	for _, scheme := range []string{"http", "oci"} {
		repository := scheme + "://" + closed + "/charts"
		got := failure(t, source(t, nil), demo(repository))
		wants(t, got, "chart.repository", `Chart repository "`+repository+`": it refuses the connection`, "Nothing listens at "+closed, "charts.repository_overrides")
	}
	// The name is reserved for this (RFC 6761). Where there is no DNS at all, that is what the error says.
	got := failure(t, source(t, nil), demo("https://charts.invalid/stable?token="+secret))
	if got.Summary == `Chart repository "https://charts.invalid/stable": the DNS does not answer` {
		wants(t, got, "chart.repository", got.Summary, `The host "charts.invalid" could not be looked up`, "Check the DNS and the network")
	} else {
		wants(t, got, "chart.repository", `Chart repository "https://charts.invalid/stable": its host was not found`, `The DNS has no host "charts.invalid"`, "Correct its name in chart.repository")
	}
}

// What the resolver says is made up here, because the DNS of the machine that tests is not ours.
func TestDNS(t *testing.T) {
	s := source(t, nil)
	where, err := s.locate(demo("https://charts.example.com"))
	if err != nil {
		t.Fatal(err)
	}
	q := request{remote: where.remote, url: where.remote.url, what: where.remote.name()}
	wants(t, problem(t, q.unreachable(&net.DNSError{Err: "no such host", Name: "charts.example.com", IsNotFound: true})), "chart.repository",
		`Chart repository "https://charts.example.com": its host was not found`, `no host "charts.example.com"`)
	wants(t, problem(t, q.unreachable(&net.DNSError{Err: "server misbehaving", Name: "charts.example.com", IsTemporary: true})), "chart.repository",
		`Chart repository "https://charts.example.com": the DNS does not answer`, "server misbehaving", "run it again")
	for err, again := range map[error]bool{
		&net.DNSError{IsNotFound: true}: false, &net.DNSError{IsTemporary: true}: true, io.ErrUnexpectedEOF: true, http.ErrSchemeMismatch: false, x509.UnknownAuthorityError{}: false,
	} {
		if got, _ := worthRetrying(t.Context(), nil, err); got != again {
			t.Errorf("%T %v is retried: %v", err, err, got)
		}
	}
}

func TestProxy(t *testing.T) {
	s := source(t, nil)
	where, err := s.locate(demo("https://charts.example.com"))
	if err != nil {
		t.Fatal(err)
	}
	proxy, _ := serve(t, answer(http.StatusProxyAuthRequired, ""), plain)
	at, _ := proxyURL(proxy)
	transport := &http.Transport{Proxy: http.ProxyURL(at)}
	where.remote.client = &http.Client{Transport: transport}
	_, err = s.fetch(t.Context(), where.remote, demo("https://charts.example.com"))
	wants(t, problem(t, err), "chart.repository", `Chart repository "https://charts.example.com": the proxy does not let it through`, "Proxy Authentication Required", "HTTPS_PROXY")
	proxy.Close()
	_, err = s.fetch(t.Context(), where.remote, demo("https://charts.example.com"))
	wants(t, problem(t, err), "chart.repository", `Chart repository "https://charts.example.com": the proxy does not let it through`, "connection refused", "HTTPS_PROXY")
}

func TestTLS(t *testing.T) {
	server, counted, _ := repository(t, secure)
	ref := demo(server.URL + "/charts")
	who := `Chart repository "` + server.URL + `/charts": `
	got := failure(t, source(t, nil), ref)
	wants(t, got, "chart.repository", who+"its certificate is signed by an unknown authority", server.URL[8:], `Set ca_certificate for "`+server.URL+`/charts" in the provider's charts.credentials`)
	if counted.count() != 0 {
		t.Error("a server that is not trusted got a request")
	}
	trusting := func(pem string) *Source {
		return source(t, func(settings *Settings) {
			settings.Credentials = map[string]Credential{server.URL: {CACertificate: pem, Token: secret}}
		})
	}
	load(t, trusting(certificate(server)), ref)
	wants(t, failure(t, trusting("no PEM"), ref), "charts.credentials", who+"its ca_certificate holds no certificate", "-----BEGIN CERTIFICATE-----")
	// httptest's certificate is for 127.0.0.1, ::1 and example.com.
	named := demo("https://localhost:" + server.URL[len("https://127.0.0.1:"):] + "/charts")
	s := source(t, func(settings *Settings) {
		settings.Credentials = map[string]Credential{canonical(named.Repository): {CACertificate: certificate(server)}}
	})
	wants(t, failure(t, s, named), "chart.repository", `Chart repository "`+named.Repository+`": its certificate is for another name`, "localhost", "have it issued for localhost")

	expired := selfSigned(t, time.Now().Add(-time.Hour))
	old, _ := serve(t, answer(http.StatusOK, ""), func(server *httptest.Server) {
		server.TLS = &tls.Config{Certificates: []tls.Certificate{expired}}
		server.StartTLS()
	})
	s = source(t, func(settings *Settings) {
		settings.Credentials = map[string]Credential{old.URL: {CACertificate: certificate(old)}}
	})
	wants(t, failure(t, s, demo(old.URL)), "chart.repository", `Chart repository "`+old.URL+`": its certificate is not valid`, "expired", "check the clock")

	open, _ := serve(t, answer(http.StatusOK, ""), plain)
	wants(t, failure(t, source(t, nil), demo("https"+open.URL[4:])), "chart.repository", `Chart repository "https`+open.URL[4:]+`": it speaks plain HTTP`, "answers https:// without TLS")

	picky, _ := serve(t, answer(http.StatusOK, ""), func(server *httptest.Server) {
		server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, errors.New("no") }}
		server.StartTLS()
	})
	wants(t, failure(t, source(t, nil), demo(picky.URL)), "chart.repository", `Chart repository "`+picky.URL+`": the TLS handshake failed`, "ended the TLS handshake", "Correct the host and port")
}

func selfSigned(t *testing.T, until time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: until.Add(-time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		status     int
		credential Credential
		summary    string
		details    []string
		requests   int
	}{
		{401, Credential{}, "access is denied (401)", []string{"answered 401 Unauthorized, and the provider's charts.credentials have nothing for", "Set username and password, or token"}, 1},
		{403, Credential{}, "access is denied (403)", []string{"answered 403 Forbidden, and the provider's charts.credentials have nothing for"}, 1},
		{401, Credential{Username: "me", Password: secret}, "access is denied (401)", []string{"answered 401 Unauthorized to the credential", "has not expired and may read this chart"}, 1},
		{403, Credential{Token: secret}, "access is denied (403)", []string{"answered 403 Forbidden to the credential"}, 1},
		{429, Credential{}, "it was asked too often (429)", []string{"429 Too Many Requests", "mirror"}, 1},
		{410, Credential{}, "it gave an unexpected answer (410)", []string{"410 Gone", "Check the URL"}, 1},
		{503, Credential{}, "it is out of order (503)", []string{"503 Service Unavailable, also when asked again", "mirror"}, 1 + maxRetries},
	} {
		server, counted := serve(t, answer(c.status, "no"), plain)
		s := source(t, func(settings *Settings) { settings.Credentials = map[string]Credential{server.URL: c.credential} })
		wants(t, failure(t, s, demo(server.URL)), "chart.repository", `Chart repository "`+server.URL+`": `+c.summary, c.details...)
		if counted.count() != c.requests {
			t.Errorf("%d was asked %d times, not %d", c.status, counted.count(), c.requests)
		}
	}
}

func TestRetriesUntilItWorks(t *testing.T) {
	good, _, _ := repository(t, plain)
	var asked atomic.Int32
	server, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) <= maxRetries {
			w.Header().Set("Retry-After", "86400") // nobody waits for a day
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		http.Redirect(w, r, good.URL+r.URL.Path, http.StatusFound)
	}), plain)
	load(t, source(t, nil), demo(server.URL+"/charts"))
}

func TestWaitsNoLongerThanTheMost(t *testing.T) {
	s := NewSource(Settings{})
	client, err := s.client("https://charts.example.com", Credential{})
	if err != nil {
		t.Fatal(err)
	}
	backoff := retrying(t, client).Backoff
	long := &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"86400"}}}
	for attempt := range maxRetries + 1 {
		for _, response := range []*http.Response{nil, long} {
			if wait := backoff(s.retryWait, maxRetryWait, attempt, response); wait <= 0 || wait > 5*time.Second {
				t.Errorf("attempt %d waits for %s", attempt, wait)
			}
		}
	}
}

func TestCut(t *testing.T) {
	server, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, "apiVersion: v1")
	}), plain)
	wants(t, failure(t, source(t, nil), demo(server.URL)), "chart.repository", `Chart repository "`+server.URL+`": the connection was cut`, "stopped in the middle of its answer", "Run it again")
}

func TestContext(t *testing.T) {
	arrived, leave := make(chan struct{}, 10), make(chan struct{})
	server, _ := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-leave:
		case <-r.Context().Done():
		}
	}), plain)
	t.Cleanup(func() { close(leave) })
	for _, scheme := range []string{"http", "oci"} {
		repository := scheme + server.URL[4:]
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := source(t, nil).Load(ctx, demo(repository))
			failed <- err
		}()
		<-arrived
		cancel()
		err := <-failed
		wants(t, problem(t, err), "chart.repository", `Chart "demo": fetching it was cancelled`, "Run it again")
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v is not context.Canceled", err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := source(t, nil).Load(ctx, demo(server.URL))
	wants(t, problem(t, err), "chart.repository", `Chart "demo": there was no time left to fetch it`, "allow more time in timeouts")
	where, err := source(t, nil).locate(demo(server.URL))
	if err != nil {
		t.Fatal(err)
	}
	q := request{remote: where.remote, url: where.remote.url, what: where.remote.name()}
	wants(t, problem(t, q.unreachable(context.DeadlineExceeded)), "chart.repository", `Chart repository "`+server.URL+`": it does not answer in time`, "did not finish its answer")
}
