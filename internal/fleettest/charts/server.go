package charts

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// Server is what serves charts, on loopback, until the test ends.
type Server struct {
	// URL is what a release calls the repository.
	URL string
	// CA is the PEM certificate that signed the server's own; empty without TLS.
	CA string

	http   *httptest.Server
	closed chan struct{}

	mu                 sync.Mutex
	requests           []string
	username, password string
	overrides          []*override
}

// override answers some requests in place of the server.
type override struct {
	match  func(*http.Request) bool
	answer http.HandlerFunc
}

// serve starts a server of what the handler serves.
func serve(t testing.TB, handler http.Handler, tls bool) *Server {
	t.Helper()
	s := &Server{closed: make(chan struct{})}
	s.http = httptest.NewUnstartedServer(s.wrap(handler))
	s.http.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that refuse the certificate or go away are the tests' own
	if tls {
		s.http.StartTLS()
		s.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw}))
	} else {
		s.http.Start()
	}
	t.Cleanup(func() {
		close(s.closed) // lets go of requests that hang, for which Close waits
		s.http.Close()
	})
	return s
}

func (s *Server) wrap(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
		answer := handler.ServeHTTP
		for _, o := range s.overrides {
			if o.match == nil || o.match(r) {
				answer = o.answer
				break
			}
		}
		username, password := s.username, s.password
		s.mu.Unlock()

		if username != "" {
			if u, p, _ := r.BasicAuth(); u != username || p != password {
				w.Header().Set("WWW-Authenticate", `Basic realm="charts"`)
				http.Error(w, "authentication required", http.StatusUnauthorized)
				return
			}
		}
		answer(w, r)
	})
}

// Requests gives what has been asked since the start or the last Reset, such as "GET /charts/index.yaml", in the order of
// arrival.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Reset forgets the requests.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

// RequireBasicAuth answers 401 to whoever does not send these from now on; an empty username lets everybody in again.
func (s *Server) RequireBasicAuth(username, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.username, s.password = username, password
}

// Handle has answer take the requests that match accepts (all of them where it is nil), until the function that it
// returns is called. The first match wins.
func (s *Server) Handle(match func(*http.Request) bool, answer http.HandlerFunc) (restore func()) {
	o := &override{match: match, answer: answer}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overrides = append(s.overrides, o)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.overrides = slices.DeleteFunc(s.overrides, func(other *override) bool { return other == o })
	}
}

// Fail is Handle with one of fleettest's failures, such as fleettest.HTMLPage.
func (s *Server) Fail(match func(*http.Request) bool, failure fleettest.Failure) (restore func()) {
	return s.Handle(match, func(w http.ResponseWriter, r *http.Request) {
		if failure.Hang {
			select {
			case <-r.Context().Done():
			case <-s.closed:
			}
		}
		if failure.Status == 0 {
			panic(http.ErrAbortHandler) // cuts the connection
		}
		w.Header().Set("Content-Type", failure.ContentType)
		w.WriteHeader(failure.Status)
		_, _ = io.WriteString(w, failure.Body) // a client that has gone needs no answer
	})
}
