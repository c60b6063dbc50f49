package preflight

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func TestEndpoint(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch count := asked.Add(1); r.URL.Path {
		case "/ok":
			w.WriteHeader(http.StatusNoContent)
		case "/moved":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case "/busy-once":
			if count == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		case "/down":
			w.Header().Set("Retry-After", "3600")
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/secret":
			if user, password, _ := r.BasicAuth(); user != "me" || password != "hunter2" || r.URL.Query().Get("token") != "hunter3" {
				w.WriteHeader(http.StatusUnauthorized)
			}
		case "/cut":
			panic(http.ErrAbortHandler)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	withSecrets := strings.Replace(server.URL, "://", "://me:hunter2@", 1)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()

	for _, test := range []struct {
		name     string
		endpoint Endpoint
		status   Status
		message  string // after the address
		requests int32
	}{
		{"answers", Endpoint{URL: server.URL + "/ok"}, Pass, "/ok answers with status 204", 1},
		{"redirects", Endpoint{URL: server.URL + "/moved"}, Pass, "/moved answers with status 204", 2},
		{"is tried again", Endpoint{URL: server.URL + "/busy-once"}, Pass, "/busy-once answers with status 200", 2},
		{"stays down", Endpoint{URL: server.URL + "/down"}, Warn, "/down answers with status 503; expected was 200 to 399", 3},
		{"stays down and is required", Endpoint{URL: server.URL + "/down", Required: true}, Fail, "/down answers with status 503; expected was 200 to 399", 3},
		{"is expected to be down", Endpoint{URL: server.URL + "/down", Statuses: []int{503}}, Pass, "/down answers with status 503", 1},
		{"wants a login, which is an answer", Endpoint{URL: server.URL + "/v2/", Statuses: []int{200, 401}}, Pass, "/v2/ answers with status 401", 1},
		{"wants a login", Endpoint{URL: server.URL + "/v2/"}, Warn, "/v2/ answers with status 401; expected was 200 to 399", 1},
		{"X9 credentials are sent", Endpoint{URL: withSecrets + "/secret?token=hunter3"}, Pass, "/secret answers with status 200", 1},
		{"X9 and not shown", Endpoint{URL: withSecrets + "/secret?token=hunter3", Statuses: []int{418}}, Warn, "/secret answers with status 200; expected was 418", 1},
		{"cuts the connection", Endpoint{URL: withSecrets + "/cut?token=hunter3"}, Warn, "/cut does not answer: EOF", 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked.Store(0)
			check := CheckEndpoint(t.Context(), test.endpoint)
			remedy := map[Status]string{Pass: ""}[test.status]
			if test.status != Pass {
				remedy = "."
			}
			path, _, _ := strings.Cut(test.message, " ")
			expect(t, check, "endpoints/"+server.URL+path, test.status, server.URL+test.message, remedy)
			equal(t, asked.Load(), test.requests)
			if strings.Contains(check.Name+check.Detail(), "hunter") {
				t.Errorf("X9: a secret is shown: %+v", check)
			}
		})
	}
	t.Run("does not listen", func(t *testing.T) {
		address := strings.Replace(closed.URL, "://", "://me:hunter2@", 1)
		check := CheckEndpoint(t.Context(), Endpoint{URL: address + "/?token=hunter3", Required: true})
		if check.Status != Fail || !strings.Contains(check.Message, "connection refused") || strings.Contains(check.Detail(), "hunter") {
			t.Errorf("got %+v", check)
		}
	})
	t.Run("is not waited for when the caller has gone", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		check := CheckEndpoint(ctx, Endpoint{URL: server.URL + "/ok"})
		expect(t, check, "endpoints/"+server.URL+"/ok", Warn, server.URL+"/ok does not answer: context canceled", "where berth runs")
	})
	t.Run("is no address", func(t *testing.T) {
		for _, address := range []string{"registry.example.com", "ftp://me:hunter2@host", "https://me:hunter2@ho st", ""} {
			check := CheckEndpoint(t.Context(), Endpoint{URL: address, Required: true})
			expect(t, check, "endpoints/", Fail, "an endpoint is no http:// or https:// address (not shown, since it may hold a password)", "")
		}
	})
}

func TestEndpointIsNotLogged_X9(t *testing.T) {
	if logger := (Endpoint{}).client().Logger; logger != nil {
		t.Errorf("the client logs addresses to %T", logger)
	}
}
