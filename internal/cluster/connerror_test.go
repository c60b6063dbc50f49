package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// ask sends one request as a Cluster does and gives the classified error.
func ask(t *testing.T, config *rest.Config) error {
	t.Helper()
	return askWithin(t, config, time.Minute)
}

func askWithin(t *testing.T, config *rest.Config, limit time.Duration) error {
	t.Helper()
	config.Wrap(WrapTransport)
	client, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_, err = client.Resource(Namespaces.GVR()).Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err == nil {
		t.Fatal("the request succeeded")
	}
	return Classify("eu-1", config, err)
}

// serve starts a TLS server and gives a configuration that trusts it.
func serve(t *testing.T, ca *authority, pair tls.Certificate, handler http.HandlerFunc) *rest.Config {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.Config.ErrorLog = quiet()
	server.StartTLS()
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, BearerToken: canary, TLSClientConfig: rest.TLSClientConfig{CAData: ca.pem}}
}

func requireConnection(t *testing.T, err error, cause Cause, unreachable bool, want ...string) {
	t.Helper()
	var failure *ConnectionError
	if !errors.As(err, &failure) {
		t.Fatalf("not a *ConnectionError: %v", err)
	}
	if failure.Cause != cause || failure.Unreachable() != unreachable || failure.Cluster != "eu-1" {
		t.Errorf("cause %s, unreachable %t, cluster %q; want %s, %t: %v", failure.Cause, failure.Unreachable(), failure.Cluster, cause, unreachable, err)
	}
	requireText(t, failure.Error(), append(want, `Cluster "eu-1": `)...)
}

func page(status int, title string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, "<html><head><title>\n %s </title></head><body>%s</body></html>", title, canary)
	}
}

func plain(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

func refusal(code int, reason metav1.StatusReason) http.HandlerFunc {
	return plain(code, "application/json", fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"no","reason":%q,"code":%d}`, reason, code))
}

// TestAnswers covers what a server that can be reached may answer.
func TestAnswers(t *testing.T) {
	ca := newAuthority(t, "kube-ca")
	pair := ca.pair(t, "127.0.0.1", -time.Hour, time.Hour)
	certificate, key := ca.issue(t, "me", -time.Hour, time.Hour)
	expired, expiredKey := ca.issue(t, "me", -2*time.Hour, -time.Hour)
	past := time.Now().Add(-time.Hour).Truncate(time.Second)
	unauthorized := refusal(http.StatusUnauthorized, metav1.StatusReasonUnauthorized)

	for name, test := range map[string]struct {
		handler     http.HandlerFunc
		change      func(*rest.Config)
		cause       Cause
		unreachable bool
		want        []string
	}{
		"login page":     {page(200, "Sign in &amp; go on"), nil, CauseNotKubernetes, false, []string{"a web page answered", "answered 200", `titled "Sign in & go on"`, "127.0.0.1:", `clusters["eu-1"]`, "HTTPS_PROXY"}},
		"page of 401":    {page(401, strings.Repeat("x", 500)), nil, CauseNotKubernetes, false, []string{"answered 401", strings.Repeat("x", 100) + "…"}},
		"page of 502":    {page(502, "Bad Gateway"), nil, CauseGateway, true, []string{"does not answer (502)", `"Bad Gateway"`, "control plane"}},
		"503":            {plain(503, "text/plain", "no healthy upstream"), nil, CauseGateway, true, []string{"does not answer (503)", "control plane"}},
		"504":            {refusal(504, metav1.StatusReasonTimeout), nil, CauseGateway, true, []string{"does not answer (504)"}},
		"other 404":      {plain(404, "text/plain", "default backend - 404"), nil, CauseNotKubernetes, false, []string{"other than a Kubernetes API server", `404 with "default backend - 404"`}},
		"firewall":       {plain(403, "text/plain", "blocked, token="+canary), nil, CauseNotKubernetes, false, []string{"403 with", "blocked"}},
		"other JSON":     {plain(200, "application/json", `{"hello":"`+canary+`"}`), nil, CauseNotKubernetes, false, []string{"no Kubernetes object", `clusters["eu-1"]`}},
		"half an answer": {plain(200, "application/json", `{"kind":`), nil, CauseReset, true, []string{"connection is cut", "in the middle of its answer"}},
		"other text":     {plain(200, "text/plain", canary), nil, CauseNotKubernetes, false, []string{"no Kubernetes object"}},
		"other host": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://login.example.com/start?state="+canary, http.StatusFound)
		}, nil, CauseNotKubernetes, false, []string{"redirects to another host", "https://login.example.com, as", "no credential went there"}},
		"401 of a token":       {unauthorized, nil, CauseUnauthorized, false, []string{"does not accept the credential (401)", "revoked", "fresh token"}},
		"401 of an old JWT":    {unauthorized, func(c *rest.Config) { c.BearerToken = newJWT(t, past) }, CauseUnauthorized, false, []string{"token has expired", "the token expired at " + moment(past), "1h0m", "Use exec"}},
		"401 of an old EKS":    {unauthorized, func(c *rest.Config) { c.BearerToken = newEKSToken(past) }, CauseUnauthorized, false, []string{"the token expired at " + moment(past.Add(15*time.Minute))}},
		"401 of a certificate": {unauthorized, func(c *rest.Config) { c.BearerToken, c.CertData, c.KeyData = "", certificate, key }, CauseUnauthorized, false, []string{"client certificate", "not signed by the authority"}},
		"401 of an old one":    {unauthorized, func(c *rest.Config) { c.BearerToken, c.CertData, c.KeyData = "", expired, expiredKey }, CauseUnauthorized, false, []string{"client certificate expired at 2"}},
		"401 of nobody":        {unauthorized, func(c *rest.Config) { c.BearerToken = "" }, CauseUnauthorized, false, []string{"no credential was sent"}},
	} {
		t.Run(name, func(t *testing.T) {
			config := serve(t, ca, pair, test.handler)
			if test.change != nil {
				test.change(config)
			}
			requireConnection(t, ask(t, config), test.cause, test.unreachable, test.want...)
		})
	}
}

// TestRefusalsAreNotConnectionErrors: what Kubernetes itself says no to comes back as it is.
func TestRefusalsAreNotConnectionErrors(t *testing.T) {
	ca := newAuthority(t, "kube-ca")
	pair := ca.pair(t, "127.0.0.1", -time.Hour, time.Hour)
	for name, handler := range map[string]http.HandlerFunc{
		"not found":         refusal(404, metav1.StatusReasonNotFound),
		"path not served":   plain(404, "text/plain; charset=utf-8", "404 page not found\n"),
		"forbidden":         refusal(403, metav1.StatusReasonForbidden),
		"conflict":          refusal(409, metav1.StatusReasonConflict),
		"invalid":           refusal(422, metav1.StatusReasonInvalid),
		"internal":          refusal(500, metav1.StatusReasonInternalError),
		"too many requests": refusal(429, metav1.StatusReasonTooManyRequests),
	} {
		t.Run(name, func(t *testing.T) {
			var failure *ConnectionError
			var status apierrors.APIStatus
			if err := ask(t, serve(t, ca, pair, handler)); errors.As(err, &failure) || !errors.As(err, &status) {
				t.Errorf("got %T %v", err, err)
			}
		})
	}
	for _, err := range []error{nil, context.Canceled, context.DeadlineExceeded, errors.New("x"), &Problem{Summary: "x"}, fmt.Errorf("a: %w", &ConnectionError{Summary: "x"})} {
		if got := Classify("eu-1", nil, err); got != err { //nolint:errorlint // the very same error is what is asked for
			t.Errorf("%v became %v", err, got)
		}
	}
}

// TestCertificates covers trust, both ways, with real handshakes.
func TestCertificates(t *testing.T) {
	ca, other, rebuilt := newAuthority(t, "kube-ca"), newAuthority(t, "other-ca"), newAuthority(t, "kube-ca")
	never := func(http.ResponseWriter, *http.Request) { t.Error("the request got through") }
	good := ca.pair(t, "127.0.0.1", -time.Hour, time.Hour)

	config := serve(t, ca, good, never)
	config.CAData = other.pem
	requireConnection(t, ask(t, config), CauseUnknownAuthority, false, "signed by an unknown authority", `issued by "CN=kube-ca"`, "another cluster's", "Set cluster_ca_certificate")

	config = serve(t, ca, good, never)
	config.CAData = rebuilt.pem
	requireConnection(t, ask(t, config), CauseUnknownAuthority, false, "another key", "built anew", "its present CA")

	config = serve(t, ca, good, never)
	config.CAData = nil
	requireConnection(t, ask(t, config), CauseUnknownAuthority, false, "names no CA of its own", "Set cluster_ca_certificate")

	config = serve(t, ca, ca.pair(t, "kubernetes.example.com", -time.Hour, time.Hour), never)
	requireConnection(t, ask(t, config), CauseHostname, false, "for another name", `not valid for "127.0.0.1"`, `"kubernetes.example.com"`, "set tls_server_name")

	config = serve(t, ca, ca.pair(t, "127.0.0.1", -2*time.Hour, -time.Hour), never)
	requireConnection(t, ask(t, config), CauseServerCertificate, false, "certificate has expired", "expired at 2", "Renew it")

	config = serve(t, ca, ca.pair(t, "127.0.0.1", time.Hour, 2*time.Hour), never)
	requireConnection(t, ask(t, config), CauseServerCertificate, false, "not valid yet", "Check the clock")

	// A server that wants client certificates of its own authority.
	server := httptest.NewUnstartedServer(http.HandlerFunc(never))
	pool := x509.NewCertPool()
	pool.AddCert(ca.certificate)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{good}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	server.Config.ErrorLog = quiet()
	server.StartTLS()
	defer server.Close()
	certificate, key := other.issue(t, "me", -time.Hour, time.Hour)
	config = &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca.pem, CertData: certificate, KeyData: key}}
	requireConnection(t, ask(t, config), CauseClientCertificate, false, "rejects the client certificate", "a client certificate of this cluster")
	config = &rest.Config{Host: server.URL, BearerToken: canary, TLSClientConfig: rest.TLSClientConfig{CAData: ca.pem}}
	requireConnection(t, ask(t, config), CauseClientCertificate, false, "asks for a client certificate", "client_certificate and client_key")
}

// TestNetwork covers servers that cannot be reached, or that are no TLS servers.
func TestNetwork(t *testing.T) {
	http1 := httptest.NewServer(http.NotFoundHandler())
	defer http1.Close()
	secure := "https://" + http1.Listener.Addr().String()
	requireConnection(t, ask(t, &rest.Config{Host: secure, BearerToken: canary}), CausePlainHTTP, false, "speaks plain HTTP", "6443")

	requireConnection(t, ask(t, &rest.Config{Host: listen(t, func(c net.Conn) { _, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.9\r\n")) })}), CauseTLS, false, "does not speak TLS")

	requireConnection(t, ask(t, &rest.Config{Host: "https://api.berth-test.invalid:6443", BearerToken: canary}), CauseDNS, true, "does not resolve", `"api.berth-test.invalid"`, "DNS")

	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	requireConnection(t, ask(t, &rest.Config{Host: "https://" + closed.Addr().String()}), CauseRefused, true, "connection is refused", closed.Addr().String(), "inside a container")

	// It accepts and cuts. client-go would try again for ten seconds, so this one asks without it.
	cut := &rest.Config{Host: listen(t, func(net.Conn) {}), BearerToken: canary}
	client, err := rest.HTTPClientFor(cut)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Get(cut.Host)
	if err == nil {
		_ = response.Body.Close()
	}
	requireConnection(t, Classify("eu-1", cut, err), CauseReset, true, "connection is cut", "load balancer")

	// It accepts and says nothing until the client has gone.
	silent := listen(t, func(c net.Conn) {
		for buffer := make([]byte, 1024); ; {
			if _, err := c.Read(buffer); err != nil {
				return
			}
		}
	})
	requireConnection(t, askWithin(t, &rest.Config{Host: silent}, 200*time.Millisecond), CauseTimeout, true, "does not answer in time", silent, "VPN")

	transport := &http.Transport{TLSHandshakeTimeout: 100 * time.Millisecond}
	defer transport.CloseIdleConnections()
	requireConnection(t, ask(t, &rest.Config{Host: silent, Transport: transport}), CauseTLSTimeout, true, "TLS handshake timeout", "control plane")

	// It takes the request and never answers it.
	ca := newAuthority(t, "kube-ca")
	hanging := serve(t, ca, ca.pair(t, "127.0.0.1", -time.Hour, time.Hour), func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	requireConnection(t, askWithin(t, hanging, 300*time.Millisecond), CauseTimeout, true, "does not answer in time")

	// It stops in the middle of its answer.
	halting := serve(t, ca, ca.pair(t, "127.0.0.1", -time.Hour, time.Hour), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":`))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // or the server would end the answer properly, in a race with the client's giving up
	})
	requireConnection(t, askWithin(t, halting, 300*time.Millisecond), CauseTimeout, true, "does not answer in time")
}

// listen accepts TCP connections, hands each to serve, and closes it; it gives the https URL of the address.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = connection.Close() }()
				serve(connection)
			}()
		}
	}()
	return "https://" + listener.Addr().String()
}

// TestProxy covers proxies that refuse; the password in the proxy's URL is a canary.
func TestProxy(t *testing.T) {
	for status, test := range map[int]struct {
		cause Cause
		want  []string
	}{
		http.StatusProxyAuthRequired:  {CauseProxy, []string{"asks for a login (407)", "NO_PROXY"}},
		http.StatusForbidden:          {CauseProxy, []string{"refuses to connect", "403"}},
		http.StatusServiceUnavailable: {CauseGateway, []string{"the proxy cannot reach", "503"}},
	} {
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		defer proxy.Close()
		address := &url.URL{Scheme: "http", User: url.UserPassword("me", canary), Host: proxy.Listener.Addr().String()}
		config := &rest.Config{Host: "https://api.berth-test.invalid:6443", BearerToken: canary, Proxy: http.ProxyURL(address)}
		requireConnection(t, ask(t, config), test.cause, test.cause == CauseGateway, append(test.want, "http://***@"+address.Host, "https://api.berth-test.invalid:6443")...)
	}
	address := &url.URL{Scheme: "http", User: url.UserPassword("me", canary), Host: "proxy.berth-test.invalid:3128"}
	config := &rest.Config{Host: "https://127.0.0.2:6443", Proxy: http.ProxyURL(address)}
	requireConnection(t, ask(t, config), CauseDNS, true, "http://***@proxy.berth-test.invalid:3128", "on the way to https://127.0.0.2:6443")
}

// TestCredentialNeverFollowsARedirect: the other host must not even be asked.
func TestCredentialNeverFollowsARedirect(t *testing.T) {
	ca := newAuthority(t, "kube-ca")
	pair := ca.pair(t, "127.0.0.1", -time.Hour, time.Hour)
	other := serve(t, ca, pair, func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other host was asked, with %q", r.Header.Get("Authorization"))
	})
	config := serve(t, ca, pair, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.Host+"/", http.StatusTemporaryRedirect)
	})
	requireConnection(t, ask(t, config), CauseNotKubernetes, false, other.Host)
}

func TestProxiedPagesPass(t *testing.T) {
	ca := newAuthority(t, "kube-ca")
	config := serve(t, ca, ca.pair(t, "127.0.0.1", -time.Hour, time.Hour), page(200, "a dashboard"))
	config.Wrap(WrapTransport)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Get(config.Host + "/api/v1/namespaces/x/services/y/proxy/")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
}

func TestForbidden(t *testing.T) {
	refused := func(message string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New(message))
	}
	for message, want := range map[string][]string{
		`User "ci" cannot list resource "pods" in API group "" in the namespace "apps"`:                {`cluster "eu-1"`, `user "ci" may not list pods in namespace "apps"`, `a Role and a RoleBinding`, `{apiGroups: [""], resources: ["pods"], verbs: ["list"]}`},
		`User "ci" cannot patch resource "deployments/scale" in API group "apps" at the cluster scope`: {"may not patch deployments.apps/scale in the whole cluster", "a ClusterRole", `apiGroups: ["apps"], resources: ["deployments/scale"]`},
		`User "system:anonymous" cannot get path "/version"`:                                           {"the path /version", `nonResourceURLs: ["/version"]`},
		`User "system:anonymous" cannot get resource "pods" in API group "" at the cluster scope`:      {"no credential arrived", `clusters["eu-1"]`},
	} {
		text, ok := Forbidden("eu-1", refused(message))
		if !ok {
			t.Errorf("not explained: %s", message)
		}
		requireText(t, text, want...)
	}
	for _, err := range []error{errors.New("x"), refused("exceeded quota: q"), apierrors.NewNotFound(schema.GroupResource{}, "x")} {
		if text, ok := Forbidden("eu-1", err); ok {
			t.Errorf("%v: %s", err, text)
		}
	}
}

func TestRedact(t *testing.T) {
	for _, text := range []string{
		"Authorization: Bearer " + canary, `{"token": "` + canary + `"}`, "password=" + canary, "--client-secret " + canary, "https://u:" + canary + "@proxy:1 is down",
		"-----BEGIN PRIVATE KEY-----\n" + canary + "\n-----END PRIVATE KEY-----", "got " + newJWT(t, time.Now()), newEKSToken(time.Now()), "aws_secret_access_key = " + canary,
		"the password is " + canary, "secret was: '" + canary + "'",
	} {
		if got := redact(text); strings.Contains(got, canary) || !strings.Contains(got, "***") {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := redact("the token has expired, run aws sso login"); got != "the token has expired, run aws sso login" {
		t.Errorf("words were taken for a secret: %q", got)
	}
	if got := redact("x "+canary, canary); got != "x ***" {
		t.Errorf("a known secret stays: %q", got)
	}
}
