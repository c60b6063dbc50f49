package fleettest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

// Failure is what a client gets instead of the API server's answer.
type Failure struct {
	// Status, ContentType and Body make the answer. A Status of 0 means no answer: the connection is cut, or, with Hang,
	// stays open and silent.
	Status      int
	ContentType string
	Body        string
	Hang        bool
	// AfterForwarding has the API server do what was asked; only its answer is lost.
	AfterForwarding bool
}

// The failures that stand between a client and a cluster in practice.
var (
	// HTMLPage is the sign-in page of some proxy, with status 200.
	HTMLPage = Failure{Status: http.StatusOK, ContentType: "text/html; charset=utf-8", Body: "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>Please sign in.</body></html>\n"}
	// BadGateway is a load balancer without a backend.
	BadGateway = Failure{Status: http.StatusBadGateway, ContentType: "text/html", Body: "<html><body><h1>502 Bad Gateway</h1></body></html>\n"}
	// Unavailable is a load balancer whose backends are unhealthy.
	Unavailable = Failure{Status: http.StatusServiceUnavailable, ContentType: "text/plain", Body: "no healthy upstream"}
	// Unauthorized is the API server's own answer to credentials that it does not accept.
	Unauthorized = Failure{Status: http.StatusUnauthorized, ContentType: "application/json", Body: statusBody(http.StatusUnauthorized, "Unauthorized", "Unauthorized")}
	// Forbidden is the API server's answer to someone whom no role allows it.
	Forbidden = Failure{Status: http.StatusForbidden, ContentType: "application/json", Body: statusBody(http.StatusForbidden, "Forbidden", "forbidden by the test")}
	// Silence takes the request and never answers.
	Silence = Failure{Hang: true}
	// Cut closes the connection instead of an answer.
	Cut = Failure{}
)

func statusBody(code int, reason, message string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, code)
}

type fault struct {
	match   func(Request) bool
	failure Failure
}

// Fail answers every request that match accepts (all of them where it is nil) with the failure, until the function
// that it returns is called. The first failure that matches wins.
func (p *Proxy) Fail(match func(Request) bool, failure Failure) (restore func()) {
	f := &fault{match: match, failure: failure}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, f)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for i, other := range p.faults {
			if other == f {
				p.faults = append(p.faults[:i:i], p.faults[i+1:]...)
				return
			}
		}
	}
}

func (p *Proxy) failureFor(request Request) *Failure {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		if f.match == nil || f.match(request) {
			return &f.failure
		}
	}
	return nil
}

// Boundary is a side of a write.
type Boundary string

const (
	// BeforeWrite is the moment at which the client has sent a write and the API server has not got it.
	BeforeWrite Boundary = "before"
	// AfterWrite is the moment at which the API server has done a write and the client does not know.
	AfterWrite Boundary = "after"
)

// KillAt calls kill at one side of the n-th write from now on, in place of earlier OnWrite hooks, and starts the count
// anew. A write killed before is never forwarded, however fast its client was. fired tells whether it came to that.
func (p *Proxy) KillAt(n int, boundary Boundary, kill func()) (fired func() bool) {
	var reached atomic.Bool
	at := func(side Boundary) func(int, Request) {
		return func(i int, _ Request) {
			if i != n || side != boundary || !reached.CompareAndSwap(false, true) {
				return
			}
			kill()
			if side == BeforeWrite {
				// This one request, which is looked at next; a later write of the same number is another one's.
				var cut atomic.Bool
				p.Fail(func(r Request) bool { return r.Write == n && cut.CompareAndSwap(false, true) }, Cut)
			}
		}
	}
	p.Reset()
	p.OnWrite(at(BeforeWrite), at(AfterWrite))
	return reached.Load
}

func (p *Proxy) fail(w http.ResponseWriter, r *http.Request, entry *Request, failure Failure) {
	if failure.Status == 0 {
		if failure.Hang {
			select {
			case <-r.Context().Done():
			case <-p.closed:
			}
		}
		p.cut(r)
	}
	p.mu.Lock()
	entry.Status = failure.Status
	p.mu.Unlock()
	if failure.ContentType != "" {
		w.Header().Set("Content-Type", failure.ContentType)
	}
	w.WriteHeader(failure.Status)
	_, _ = io.Copy(w, strings.NewReader(failure.Body))
}
