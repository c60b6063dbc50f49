package fleettest

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Request is one request that went through a proxy, in Kubernetes' terms.
type Request struct {
	Time time.Time
	// Verb is get, list, watch, create, update, patch, delete or deletecollection; for a path that is no resource (such as
	// /version) the method in lower case.
	Verb                     string
	Group, Version, Resource string
	Subresource              string
	Namespace, Name          string
	Path                     string
	Query                    url.Values
	UserAgent                string
	// ContentType is that of the request's body; of a patch it tells the kind.
	ContentType string
	Accept      string
	DryRun      bool
	// Continue and Limit are those of a page of a list.
	Continue string
	Limit    int
	Protocol string // such as HTTP/2.0
	// Write is the number of this write, from 1, or 0 for what is none.
	Write int
	// Status is 0 while there is no answer, and for good where the connection was cut.
	Status   int
	Duration time.Duration
}

// IsWrite tells whether the request asks to change what the cluster holds. Dry runs and the reviews of
// authentication.k8s.io and authorization.k8s.io store nothing.
func (r Request) IsWrite() bool {
	if r.DryRun || r.Resource == "" || r.Group == "authentication.k8s.io" || r.Group == "authorization.k8s.io" {
		return false
	}
	if r.Resource == "serviceaccounts" && r.Subresource == "token" {
		return false
	}
	switch r.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// Key is "<verb> <resource>[/<subresource>]", with the group after a dot where there is one: "list pods",
// "patch deployments.apps", "update nodes/status". For a path that is no resource it is "<method> <path>".
func (r Request) Key() string {
	if r.Resource == "" {
		return r.Verb + " " + r.Path
	}
	key := r.Verb + " " + r.Resource
	if r.Group != "" {
		key += "." + r.Group
	}
	if r.Subresource != "" {
		key += "/" + r.Subresource
	}
	return key
}

// String is for failure messages.
func (r Request) String() string {
	object := r.Name
	if r.Namespace != "" {
		object = r.Namespace + "/" + object
	}
	line := strings.TrimSpace(r.Key() + " " + object)
	if len(r.Query) > 0 {
		line += " ?" + r.Query.Encode()
	}
	return fmt.Sprintf("%s -> %d", line, r.Status)
}

// Requests gives what has been asked since the start or the last Reset, in the order of arrival.
func (p *Proxy) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	requests := make([]Request, 0, len(p.log))
	for _, r := range p.log {
		requests = append(requests, *r)
	}
	return requests
}

// Counts gives the number of requests for each Key.
func (p *Proxy) Counts() map[string]int {
	counts := map[string]int{}
	for _, r := range p.Requests() {
		counts[r.Key()]++
	}
	return counts
}

// Count gives the number of requests with that Key.
func (p *Proxy) Count(key string) int { return p.Counts()[key] }

// CountIf gives the number of requests that match accepts.
func (p *Proxy) CountIf(match func(Request) bool) int {
	n := 0
	for _, r := range p.Requests() {
		if match(r) {
			n++
		}
	}
	return n
}

// Writes gives the number of writes; see Request.IsWrite.
func (p *Proxy) Writes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes
}

// Connections gives the number of connections that clients have opened since the start or the last Reset.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.connections
}

// Summary lists the counts, one a line and sorted, for failure messages and benchmarks.
func (p *Proxy) Summary() string {
	var lines []string
	for key, n := range p.Counts() {
		lines = append(lines, fmt.Sprintf("%6d %s", n, key))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[7:], b[7:]) })
	return strings.Join(lines, "\n")
}

// Reset empties the log and starts the counts of writes and connections anew. Open connections stay open and are
// not counted again.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log, p.writes, p.connections = nil, 0, 0
}

// parseRequest reads a request as the API server does:
// /api/v1/[namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]], the same below /apis/GROUP/VERSION, or some other path.
func parseRequest(r *http.Request) *Request {
	query := r.URL.Query()
	contentType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		contentType = r.Header.Get("Content-Type")
	}
	entry := &Request{
		Time: time.Now(), Verb: strings.ToLower(r.Method), Path: r.URL.Path, Query: query, UserAgent: r.UserAgent(),
		ContentType: contentType, Accept: r.Header.Get("Accept"), Protocol: r.Proto,
		DryRun: query.Has("dryRun"), Continue: query.Get("continue"),
	}
	entry.Limit, _ = strconv.Atoi(query.Get("limit"))

	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		entry.Version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		entry.Group, entry.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return entry
	}
	// A namespace itself is a resource, and these are its subresources.
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		entry.Namespace, parts = parts[1], parts[2:]
	}
	entry.Resource = parts[0]
	if len(parts) > 1 {
		entry.Name = parts[1]
	}
	if len(parts) > 2 {
		entry.Subresource = strings.Join(parts[2:], "/")
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		entry.Verb = "get"
		if entry.Name == "" {
			entry.Verb = "list"
		}
		if watch := query.Get("watch"); watch == "true" || watch == "1" {
			entry.Verb = "watch"
		}
	case http.MethodPost:
		entry.Verb = "create"
	case http.MethodPut:
		entry.Verb = "update"
	case http.MethodPatch:
		entry.Verb = "patch"
	case http.MethodDelete:
		entry.Verb = "delete"
		if entry.Name == "" {
			entry.Verb = "deletecollection"
		}
	}
	return entry
}
