package preflight

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// How patient CheckEndpoint is. An endpoint that needs longer than this would be no help to anyone who waits for it.
const (
	endpointTimeout = 5 * time.Second // for each attempt
	endpointRetries = 2
	endpointPause   = 200 * time.Millisecond
)

// Endpoint is an HTTP address that has to answer where berth runs. It is never asked through the cluster.
type Endpoint struct {
	URL      string // http or https; user information and query are sent but never shown
	Statuses []int  // the statuses that count as an answer; none means any from 200 to 399
	Required bool   // fail instead of warn
}

// shown is the address without what may be secret in it, and whether it is an address at all.
func (e Endpoint) shown() (string, error) {
	parsed, err := url.Parse(e.URL)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return "", errors.New("an endpoint is no http:// or https:// address (not shown, since it may hold a password)")
	}
	return (&url.URL{Scheme: parsed.Scheme, Host: parsed.Host, Path: parsed.Path}).String(), nil
}

func (e Endpoint) expects(status int) bool {
	if len(e.Statuses) == 0 {
		return status >= 200 && status < 400
	}
	return slices.Contains(e.Statuses, status)
}

func (e Endpoint) expectation() string {
	if len(e.Statuses) == 0 {
		return "200 to 399"
	}
	return strings.Trim(fmt.Sprint(e.Statuses), "[]")
}

// CheckEndpoint asks the endpoint with GET, following redirects, and compares the status. What goes wrong warns, since
// a network or a DNS name may be different in a minute, or fails where the endpoint is required.
func CheckEndpoint(ctx context.Context, endpoint Endpoint) Check {
	shown, err := endpoint.shown()
	check := Check{Name: "endpoints/" + shown, Status: Warn}
	if endpoint.Required {
		check.Status = Fail
	}
	if err != nil {
		check.Message = err.Error()
		return check
	}
	status, err := endpoint.ask(ctx)
	switch {
	case err != nil:
		check.Message = fmt.Sprintf("%s does not answer: %v", shown, err)
		check.Remedy = "It is asked from where berth runs: look at the DNS name, the firewall and the proxy settings there."
	case !endpoint.expects(status):
		check.Message = fmt.Sprintf("%s answers with status %d; expected was %s", shown, status, endpoint.expectation())
		check.Remedy = "Look at what serves the address, or name the status that it gives when it is well."
	default:
		check.Status, check.Message = Pass, fmt.Sprintf("%s answers with status %d", shown, status)
	}
	return check
}

func (e Endpoint) client() *retryablehttp.Client {
	client := retryablehttp.NewClient()
	client.Logger = nil // it would log the whole address
	client.RetryMax, client.RetryWaitMin, client.RetryWaitMax = endpointRetries, endpointPause, 2*endpointPause
	client.Backoff = func(shortest, longest time.Duration, attempt int, _ *http.Response) time.Duration {
		return retryablehttp.DefaultBackoff(shortest, longest, attempt, nil) // without the response: its Retry-After may be hours
	}
	client.HTTPClient.Timeout = endpointTimeout
	client.ErrorHandler = retryablehttp.PassthroughErrorHandler
	client.CheckRetry = func(ctx context.Context, response *http.Response, err error) (bool, error) {
		if err == nil && e.expects(response.StatusCode) {
			return false, nil
		}
		return retryablehttp.DefaultRetryPolicy(ctx, response, err)
	}
	return client
}

// ask returns the status of the last attempt. The error is without the address.
func (e Endpoint) ask(ctx context.Context) (int, error) {
	client := e.client()
	defer client.HTTPClient.CloseIdleConnections()
	request, err := retryablehttp.NewRequestWithContext(ctx, http.MethodGet, e.URL, nil)
	if err != nil {
		return 0, withoutAddress(err)
	}
	response, err := client.Do(request)
	if response != nil {
		_ = response.Body.Close() // only the status is of interest
		return response.StatusCode, nil
	}
	return 0, withoutAddress(err)
}

func withoutAddress(err error) error {
	if addressed, ok := errors.AsType[*url.Error](err); ok {
		return addressed.Err
	}
	return err
}
