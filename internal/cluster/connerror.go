package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// Cause is why a connection failed.
type Cause string

// The causes. Unreachable says which of them `on_unreachable` is about.
const (
	CauseDNS               Cause = "DNS"
	CauseRefused           Cause = "ConnectionRefused"
	CauseReset             Cause = "ConnectionReset"
	CauseNetwork           Cause = "Network"
	CauseTimeout           Cause = "Timeout"
	CauseTLSTimeout        Cause = "TLSHandshakeTimeout"
	CauseGateway           Cause = "Gateway" // 502 to 504
	CauseUnknownAuthority  Cause = "UnknownAuthority"
	CauseHostname          Cause = "CertificateName"
	CauseServerCertificate Cause = "ServerCertificate" // expired, not yet valid, or otherwise unusable
	CauseTLS               Cause = "TLS"
	CausePlainHTTP         Cause = "PlainHTTP"
	CauseClientCertificate Cause = "ClientCertificate"
	CauseUnauthorized      Cause = "Unauthorized"
	CauseExecNotFound      Cause = "ExecNotFound"
	CauseExecFailed        Cause = "ExecFailed"
	CauseExecOutput        Cause = "ExecOutput"
	CauseProxy             Cause = "Proxy"
	CauseNotKubernetes     Cause = "NotKubernetes"
)

// ConnectionError is a failure to talk to a cluster at all, as against an answer that says no. Summary and Detail are
// fit for a diagnostic and hold no credential (X9); Err, which may quote what a server sent, is for errors.As only.
type ConnectionError struct {
	Cluster string // key in `clusters`
	Server  string // URL of the API server
	Cause   Cause
	Summary string
	Detail  string
	Err     error
}

// Error is the summary, then the detail, which ends with the remedy.
func (e *ConnectionError) Error() string { return e.Summary + ": " + e.Detail }

// Unwrap gives the error that the client returned.
func (e *ConnectionError) Unwrap() error { return e.Err }

// Unreachable tells whether the cluster could not be reached, which may pass by itself: DNS, dial, time-outs, and 502
// to 504. Everything else is wrong until somebody corrects it.
func (e *ConnectionError) Unreachable() bool {
	switch e.Cause {
	case CauseDNS, CauseRefused, CauseReset, CauseNetwork, CauseTimeout, CauseTLSTimeout, CauseGateway:
		return true
	}
	return false
}

// classification is one call of Classify.
type classification struct {
	cluster string
	server  string
	config  *rest.Config
	err     error
}

// Classify turns an error of a client of the named cluster into a *ConnectionError where it is about the connection,
// and returns any other error (a refusal, a conflict, an interrupt) as it is. The configuration is the one the client
// was made of; with nil, less can be said.
func Classify(clusterName string, config *rest.Config, err error) error {
	if refusal, ok := errors.AsType[*refusedDial](err); ok {
		return refusal.problem // without the request around it
	}
	var connection *ConnectionError
	var problem *Problem
	if err == nil || errors.As(err, &connection) || errors.As(err, &problem) || errors.Is(err, context.Canceled) {
		return err
	}
	c := classification{cluster: clusterName, server: "its API server", config: config, err: err}
	if config != nil && config.Host != "" {
		c.server = maskURL(config.Host)
	}
	for _, about := range []func() *ConnectionError{c.aboutPlugin, c.aboutAnswer, c.aboutTLS, c.aboutProxy, c.aboutNetwork} {
		if found := about(); found != nil {
			return found
		}
	}
	return err
}

func (c classification) fail(cause Cause, summary, format string, args ...any) *ConnectionError {
	return &ConnectionError{
		Cluster: c.cluster, Server: c.server, Cause: cause, Err: c.err,
		Summary: fmt.Sprintf("Cluster %q: %s", c.cluster, summary),
		Detail:  redact(fmt.Sprintf(format, args...), secretsOf(c.config)...),
	}
}

// reason is the innermost text of the error, without the URL of the request around it.
func (c classification) reason() string {
	if request, ok := errors.AsType[*url.Error](c.err); ok {
		return request.Err.Error()
	}
	return c.err.Error()
}

// entry is the place to correct, in the words of the configuration.
func (c classification) entry() string { return fmt.Sprintf("clusters[%q]", c.cluster) }

// aboutAnswer is about answers that are none of Kubernetes, and about 401 and 502 to 504.
func (c classification) aboutAnswer() *ConnectionError {
	if foreign, ok := errors.AsType[*ForeignAnswerError](c.err); ok {
		return c.foreign(foreign)
	}
	var status apierrors.APIStatus
	if !errors.As(c.err, &status) {
		return c.aboutDecoding()
	}
	switch code := int(status.Status().Code); code {
	case http.StatusUnauthorized:
		return c.unauthorized()
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return c.fail(CauseGateway, fmt.Sprintf("its API server does not answer (%d)", code),
			"%s answered %d %s: %s. The API server is down or overloaded, or something in front of it cannot reach it. Check that the control plane is up, and apply again.",
			c.server, code, http.StatusText(code), c.brief(status.Status().Message))
	case http.StatusForbidden, http.StatusNotFound, http.StatusOK:
		return c.unexpectedAnswer(status.Status())
	}
	return nil
}

// unexpectedAnswer is about a refusal that is no Kubernetes Status: a firewall or another web server wrote it.
func (c classification) unexpectedAnswer(status metav1.Status) *ConnectionError {
	if status.Details == nil {
		return nil
	}
	for _, cause := range status.Details.Causes {
		message := strings.TrimSpace(cause.Message)
		// Kubernetes itself answers a path it does not serve, such as a CRD that is not installed, with this text.
		if cause.Type != metav1.CauseTypeUnexpectedServerResponse || message == "" || message == "unknown" || message == "404 page not found" {
			continue
		}
		return c.fail(CauseNotKubernetes, "something other than a Kubernetes API server answered",
			"%s answered %d with %s, which no Kubernetes API server sends. A proxy, a firewall or another web server is in between. Check the address in %s, and proxy_url or HTTPS_PROXY.",
			c.server, status.Code, quoted(c.brief(message)), c.entry())
	}
	return nil
}

func (c classification) aboutDecoding() *ConnectionError {
	text := c.err.Error()
	if strings.Contains(text, "couldn't get version/kind") && strings.Contains(text, "unexpected end of JSON input") {
		return c.fail(CauseReset, "the connection is cut", "%s stopped in the middle of its answer. A firewall or load balancer may cut connections, or the API server is restarting. Apply again; if it stays, check what is in between.", c.server)
	}
	if runtime.IsMissingKind(c.err) || strings.Contains(text, "couldn't get version/kind; json parse error") || strings.Contains(text, "serializer for text/") {
		// What was received is not quoted: it may be anything.
		return c.fail(CauseNotKubernetes, "something other than a Kubernetes API server answered",
			"%s sent an answer that is no Kubernetes object. Check that the address in %s is that of an API server, and that no proxy answers in its place.", c.server, c.entry())
	}
	return nil
}

func (c classification) foreign(answer *ForeignAnswerError) *ConnectionError {
	page := "an HTML page"
	if answer.Title != "" {
		page += " titled " + quoted(answer.Title)
	}
	switch {
	case answer.Redirect != "":
		return c.fail(CauseNotKubernetes, "its address redirects to another host",
			"%s answered %d and redirects to %s, as a login page or a moved address does; no Kubernetes API server does that. The redirect was not followed, so no credential went there. Correct the address in %s, or log in to what is in front of the cluster.",
			answer.Host, answer.StatusCode, answer.Redirect, c.entry())
	case answer.StatusCode >= 502 && answer.StatusCode <= 504:
		return c.fail(CauseGateway, fmt.Sprintf("its API server does not answer (%d)", answer.StatusCode),
			"%s answered %d %s with %s: the proxy or load balancer in front of the API server cannot reach it. Check that the control plane is up, and apply again.",
			answer.Host, answer.StatusCode, http.StatusText(answer.StatusCode), page)
	}
	return c.fail(CauseNotKubernetes, "a web page answered instead of the API server",
		"%s answered %d with %s, so a login page, a proxy or another web server is in between. Check the address in %s, proxy_url or HTTPS_PROXY, and whether the network asks for a login.",
		answer.Host, answer.StatusCode, page, c.entry())
}

func (c classification) unauthorized() *ConnectionError {
	const summary = "its API server does not accept the credential (401)"
	if c.config == nil {
		return c.fail(CauseUnauthorized, summary, "%s answered 401 Unauthorized. Check the credential in %s.", c.server, c.entry())
	}
	if plugin := pluginOf(c.config); plugin != nil {
		return c.fail(CauseUnauthorized, summary,
			"%s answered 401 Unauthorized to the credential that the exec plugin %s gave. The plugin works, but for this cluster its identity counts for nothing: check which account it is logged in as, that it asks for this cluster, and that the cluster maps that identity.",
			c.server, quoted(plugin.Command))
	}
	if token := tokenNow(c.config.BearerToken, c.config.BearerTokenFile); token != "" {
		if expiry, known := tokenExpiry(token); known && time.Now().After(expiry) {
			return c.fail(CauseUnauthorized, "its token has expired (401)",
				"%s answered 401 Unauthorized: the token expired at %s, %s ago. Use exec in %s, which gets a new token whenever one is needed, or give a token that outlives the apply.",
				c.server, moment(expiry), time.Since(expiry).Round(time.Second), c.entry())
		}
		return c.fail(CauseUnauthorized, summary,
			"%s answered 401 Unauthorized to the token. It was revoked, has expired, or belongs to another cluster. Give %s a fresh token of this cluster.", c.server, c.entry())
	}
	if len(c.config.CertData) > 0 {
		if certificate, err := firstCertificate(c.config.CertData); err == nil && time.Now().After(certificate.NotAfter) {
			return c.fail(CauseUnauthorized, "its client certificate has expired (401)",
				"%s answered 401 Unauthorized: the client certificate expired at %s. Have it renewed, and give %s the new one.", c.server, moment(certificate.NotAfter), c.entry())
		}
		return c.fail(CauseUnauthorized, summary,
			"%s answered 401 Unauthorized to the client certificate: it is not signed by the authority that this cluster trusts for clients, as after the cluster was rebuilt. Give %s a client certificate of this cluster.", c.server, c.entry())
	}
	return c.fail(CauseUnauthorized, summary, "%s answered 401 Unauthorized, and no credential was sent. Give %s one.", c.server, c.entry())
}

// aboutNetwork is about names, addresses, dials and time-outs.
func (c classification) aboutNetwork() *ConnectionError {
	via := c.server
	var operation *net.OpError
	if errors.As(c.err, &operation) && (operation.Op == "proxyconnect" || operation.Op == "socks connect") {
		via = "the proxy on the way to " + c.server
		if proxy := proxyOf(c.config); proxy != nil {
			via = "the proxy " + maskURL(proxy.String()) + " on the way to " + c.server
		}
	}
	var lookup *net.DNSError
	var network net.Error
	text := c.reason()
	switch {
	case errors.As(c.err, &lookup):
		return c.fail(CauseDNS, "its address does not resolve",
			"The name %s of %s cannot be resolved: %s. Check the name in %s, and that this machine uses the DNS server that knows it (a private cluster's name often resolves only inside its network).",
			quoted(lookup.Name), via, lookup.Err, c.entry())
	case strings.Contains(text, "TLS handshake timeout"):
		return c.fail(CauseTLSTimeout, "its API server does not answer (TLS handshake timeout)",
			"%s accepted the connection but did not finish the TLS handshake in time. Check that the control plane is up, and that what listens there is the API server.", via)
	case isRefused(c.err):
		hint := ""
		if config := c.config; config != nil {
			if host, err := url.Parse(config.Host); err == nil && isLoopback(host.Hostname()) {
				hint = " The address is this machine itself: inside a container or on a CI runner that is not where the cluster runs."
			}
		}
		return c.fail(CauseRefused, "the connection is refused", "Nothing listens at %s, or a firewall refuses.%s Check that the control plane is up and the address and port in %s.", via, hint, c.entry())
	case isReset(c.err, text):
		return c.fail(CauseReset, "the connection is cut", "The connection to %s was closed before it answered (%s). A firewall or load balancer may cut it, or the API server is restarting. Apply again; if it stays, check what is in between.", via, c.brief(text))
	// Without a request around it, a deadline may be that of a wait for something else.
	case errors.As(c.err, &network) && network.Timeout() && (operation != nil || inRequest(c.err)):
		return c.fail(CauseTimeout, "its API server does not answer in time", "No answer came from %s in time (%s). Check that the control plane is up, and that this machine can reach it (VPN, firewall, allowed networks, proxy_url).", via, c.brief(text))
	case operation != nil && (operation.Op == "dial" || operation.Op == "proxyconnect" || operation.Op == "socks connect"):
		return c.fail(CauseNetwork, "the network does not lead to its API server", "%s cannot be reached: %s. Check the network of this machine (VPN, routes, firewall) and the address in %s.", via, c.brief(text), c.entry())
	}
	return nil
}

// inRequest tells whether an error came from a request: before its answer, or in the middle of it, as client-go says.
func inRequest(err error) bool {
	var request *url.Error
	return errors.As(err, &request) || strings.Contains(err.Error(), "when reading response body")
}

// brief is a text that others wrote, fit for a message. Credentials go first: half of one would not be recognised.
func (c classification) brief(text string) string {
	return brief(redact(text, secretsOf(c.config)...))
}

// brief is a text on one line and not endless.
func brief(text string) string {
	const longest = 300
	text = strings.TrimSuffix(strings.Join(strings.Fields(text), " "), ".")
	if runes := []rune(text); len(runes) > longest {
		text = string(runes[:longest]) + "…"
	}
	return text
}

// forbiddenMessage is how the RBAC authorizer words a refusal.
var forbiddenMessage = regexp.MustCompile(`User "([^"]*)" cannot ([\w-]+) (resource|path) "([^"]*)"(?: in API group "([^"]*)")?(?: in the namespace "([^"]*)")?`)

// Forbidden explains a 403 of the API server's authorizer: who may not do what on which cluster, and the RBAC rule that
// would allow it. It returns false for any other error, a 403 from admission or quota included.
func Forbidden(clusterName string, err error) (string, bool) {
	if !apierrors.IsForbidden(err) {
		return "", false
	}
	match := forbiddenMessage.FindStringSubmatch(err.Error())
	if match == nil {
		return "", false
	}
	user, verb, kind, what, group, namespace := match[1], match[2], match[3], match[4], match[5], match[6]
	if kind == "path" {
		return fmt.Sprintf("On cluster %q, user %q may not %s the path %s. Grant it by a ClusterRole with the rule {nonResourceURLs: [%q], verbs: [%q]}.", clusterName, user, verb, what, what, verb), true
	}
	resource := what
	if group != "" {
		name, subresource, has := strings.Cut(what, "/")
		if resource = name + "." + group; has {
			resource += "/" + subresource
		}
	}
	where, role := "in the whole cluster", "a ClusterRole and a ClusterRoleBinding"
	if namespace != "" {
		where, role = fmt.Sprintf("in namespace %q", namespace), fmt.Sprintf("a Role and a RoleBinding in namespace %q", namespace)
	}
	text := fmt.Sprintf("On cluster %q, user %q may not %s %s %s. Grant it by %s with the rule {apiGroups: [%q], resources: [%q], verbs: [%q]}.",
		clusterName, user, verb, resource, where, role, group, what, verb)
	if user == "system:anonymous" {
		text += fmt.Sprintf(" But system:anonymous means that no credential arrived: check first that clusters[%q] has the right one, and that no proxy drops it.", clusterName)
	}
	return text, true
}
