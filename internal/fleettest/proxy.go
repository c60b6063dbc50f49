package fleettest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"
)

// ProxyOptions say how a proxy differs from the API server behind it.
type ProxyOptions struct {
	// Latency is waited before each request is forwarded, as if the server were that far away (one round trip).
	Latency time.Duration
	// BeforeWrite is called before the n-th write (counted from 1, and anew after Reset) is forwarded, or fails because
	// of Fail. The request waits until it returns. See Request.IsWrite for what a write is.
	BeforeWrite func(n int, request Request)
	// AfterWrite is called when the server has answered the n-th write, with the status it gave, and before the client
	// sees anything of the answer.
	AfterWrite func(n int, request Request)
	// UID is the UID of the namespace kube-system as clients are told it, in every answer but a watch's: with one each,
	// several proxies in front of one API server are as many clusters. It is as long as any UID; "" is the cluster's own.
	UID string
}

// Proxy is a server in front of an API server that terminates TLS, logs, delays, fails and stops requests. It speaks
// HTTP/2 on both sides. A client is seen by the API server as who it is: bearer tokens are passed on, and for a client
// certificate of the cluster's authority the proxy has one with the same subject.
type Proxy struct {
	cluster  *Cluster
	options  ProxyOptions
	server   *http.Server
	address  string
	upstream *url.URL
	closed   chan struct{}
	close    sync.Once

	mu          sync.Mutex
	log         []*Request
	writes      int
	connections int
	open        map[net.Conn]bool
	faults      []*fault
	transports  map[string]*http.Transport
}

// Proxy starts one more proxy in front of the API server, which ends with the test.
func (c *Cluster) Proxy(t testing.TB, options ProxyOptions) *Proxy {
	t.Helper()
	p, err := c.StartProxy(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// StartProxy starts one more proxy in front of the API server, which ends with the fleet or by Close.
func (c *Cluster) StartProxy(options ProxyOptions) (*Proxy, error) {
	if n := len(options.UID); n != 0 && n != uidLength {
		return nil, fmt.Errorf("proxy: UID %q has %d characters; want %d, because it stands in for the cluster's own in answers of any encoding", options.UID, n, uidLength)
	}
	upstream, err := url.Parse(c.directServer())
	if err != nil {
		return nil, err
	}
	serving, err := c.ca.issue(pkix.Name{CommonName: "proxy"}, true, inTenYears())
	if err != nil {
		return nil, err
	}
	certificate, err := tls.X509KeyPair(serving.cert, serving.key)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{
		cluster: c, options: options, upstream: upstream, address: "https://" + listener.Addr().String(),
		closed: make(chan struct{}), open: map[net.Conn]bool{}, transports: map[string]*http.Transport{},
	}
	p.server = &http.Server{
		Handler: http.HandlerFunc(p.serve),
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{certificate},
			// As the API server does: ask for a certificate, and let authentication judge it.
			ClientAuth: tls.RequestClientCert,
			NextProtos: []string{"h2", "http/1.1"},
		},
		ConnState: p.connection,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
		ErrorLog: log.New(io.Discard, "", 0), // tests look at the request log
	}
	c.mu.Lock()
	c.proxies = append(c.proxies, p)
	c.mu.Unlock()
	c.tasks.Go(func() { _ = p.server.ServeTLS(listener, "", "") })
	return p, nil
}

type connKey struct{}

// Server is the URL of the proxy.
func (p *Proxy) Server() string { return p.address }

// AdminKubeconfig is the cluster's one, leading to the proxy; its context keeps the cluster's name.
func (p *Proxy) AdminKubeconfig() Kubeconfig { return p.Through(p.cluster.AdminKubeconfig()) }

// Through gives a kubeconfig of the cluster that leads to the proxy instead.
func (p *Proxy) Through(config Kubeconfig) Kubeconfig {
	config.Server = p.address
	return config
}

// Kubeconfig is the path of AdminKubeconfig as a file that lives as long as the test.
func (p *Proxy) Kubeconfig(t testing.TB) string {
	t.Helper()
	return p.AdminKubeconfig().Write(t)
}

// SetLatency changes ProxyOptions.Latency.
func (p *Proxy) SetLatency(latency time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.options.Latency = latency
}

// OnWrite changes ProxyOptions.BeforeWrite and AfterWrite; nil stands for none. The count of writes goes on.
func (p *Proxy) OnWrite(before, after func(n int, request Request)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.options.BeforeWrite, p.options.AfterWrite = before, after
}

// Close cuts all connections and stops the proxy.
func (p *Proxy) Close() {
	p.close.Do(func() {
		close(p.closed)
		_ = p.server.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, transport := range p.transports {
			transport.CloseIdleConnections()
		}
	})
}

func (p *Proxy) connection(conn net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch state {
	case http.StateNew:
		p.connections++
		p.open[conn] = true
	case http.StateClosed, http.StateHijacked:
		delete(p.open, conn)
	}
}

// CutConnections closes every open connection at once, as a load balancer that restarts does.
func (p *Proxy) CutConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		_ = conn.Close()
	}
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	entry := parseRequest(r)
	p.mu.Lock()
	p.log = append(p.log, entry)
	options := p.options
	n := 0
	if entry.IsWrite() {
		p.writes++
		n = p.writes
	}
	entry.Write = n
	request := *entry
	p.mu.Unlock()

	started := time.Now()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		entry.Duration = time.Since(started)
	}()
	if !p.pause(r.Context(), options.Latency) {
		p.cut(r)
	}
	if n > 0 && options.BeforeWrite != nil {
		options.BeforeWrite(n, request)
	}
	failure := p.failureFor(request)
	if failure != nil && !failure.AfterForwarding {
		p.fail(w, r, entry, *failure)
		return
	}
	transport, err := p.transportFor(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	// Read whole before it is forwarded: where a server refuses a request before it has read its body, as the API server
	// does for lack of a permission, net/http's reverse proxy at times never ends the answer.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		p.cut(r)
	}
	r.Body, r.ContentLength = http.NoBody, int64(len(body))
	if len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	(&httputil.ReverseProxy{
		Rewrite: func(out *httputil.ProxyRequest) {
			out.SetURL(p.upstream)
			out.Out.Host = p.upstream.Host
			if options.renames(request) {
				out.Out.Header.Del("Accept-Encoding") // what is compressed can't be read
			}
		},
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorLog:      p.server.ErrorLog,
		ModifyResponse: func(response *http.Response) error {
			p.mu.Lock()
			entry.Status = response.StatusCode
			request := *entry
			p.mu.Unlock()
			if n > 0 && options.AfterWrite != nil {
				options.AfterWrite(n, request)
			}
			if failure != nil {
				return errFailAfter
			}
			if options.renames(request) {
				return p.rename(response, options.UID)
			}
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(err, errFailAfter) {
				p.fail(w, r, entry, *failure)
				return
			}
			// The API server is down: no answer is the honest one.
			p.cut(r)
		},
	}).ServeHTTP(w, r)
}

// uidLength is how long the UIDs are that an API server gives.
const uidLength = 36

// renames tells whether the answer to a request may hold the UID of kube-system, which is to be another one.
func (o ProxyOptions) renames(r Request) bool {
	return o.UID != "" && r.Group == "" && r.Resource == "namespaces" && r.Verb != "watch"
}

// rename puts a UID in the place of the cluster's own. Both are equally long, so that this is right for JSON and protobuf
// alike, for whole objects and for their metadata alone.
func (p *Proxy) rename(response *http.Response, uid string) error {
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	_ = response.Body.Close() // it was read to its end
	response.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte(p.cluster.uid), []byte(uid))))
	return nil
}

var errFailAfter = errors.New("injected after forwarding")

// pause waits, and tells whether the client is still there.
func (p *Proxy) pause(ctx context.Context, latency time.Duration) bool {
	if latency <= 0 {
		return true
	}
	timer := time.NewTimer(latency)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-p.closed:
	}
	return false
}

// transportFor gives the upstream transport of the client: one for each subject, so that the API server sees who it
// is, and one for all that have no certificate.
func (p *Proxy) transportFor(r *http.Request) (http.RoundTripper, error) {
	roots := x509.NewCertPool()
	roots.AddCert(p.cluster.ca.cert)
	identity := ""
	var client *x509.Certificate
	if len(r.TLS.PeerCertificates) > 0 && r.Header.Get("Authorization") == "" {
		client = r.TLS.PeerCertificates[0]
		identity = client.Subject.String() + client.Issuer.String() + client.NotAfter.String()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if transport := p.transports[identity]; transport != nil {
		return transport, nil
	}
	config := &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}}
	if client != nil {
		issuer := p.cluster.ca
		if client.CheckSignatureFrom(issuer.cert) != nil {
			// One of a stranger stays one, for the API server to refuse.
			var err error
			if issuer, err = newAuthority("stranger"); err != nil {
				return nil, err
			}
		}
		issued, err := issuer.issue(client.Subject, false, client.NotAfter)
		if err != nil {
			return nil, err
		}
		certificate, err := tls.X509KeyPair(issued.cert, issued.key)
		if err != nil {
			return nil, err
		}
		// Given whatever the server says it accepts: it would not be sent to one that names other authorities.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil }
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DisableCompression: true}
	p.transports[identity] = transport
	return transport, nil
}

// cut closes the client's connection without an answer. Of a request that the client itself has given up only the stream
// ends: the others on the connection go on.
func (p *Proxy) cut(r *http.Request) {
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		_ = conn.Close()
	}
	panic(http.ErrAbortHandler)
}
