package cluster

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Entry is one entry of the provider's `clusters`: exactly one of Kubeconfig, KubeconfigPath and Host says where the
// cluster is, and nothing outside the entry (KUBECONFIG, the current-context of a file, a service account of the pod
// we run in) ever has a say (X1). An empty field counts as not set.
type Entry struct {
	Kubeconfig     string // the content of a kubeconfig
	KubeconfigPath string // a kubeconfig file; a leading ~ is the home folder
	Context        string // a context of either; required with KubeconfigPath

	Host                 string // https URL, or host:port, of the API server
	ClusterCACertificate string // PEM, or PEM in base64
	Insecure             bool   // do not verify the API server's certificate
	TLSServerName        string // name to verify the certificate against, instead of Host's
	ProxyURL             string // http, https or socks5
	Token                string
	ClientCertificate    string // PEM
	ClientKey            string // PEM
	Exec                 *Exec

	UID string // UID of the kube-system namespace that the entry must lead to

	// PublicOnly forbids every address that is not a public one, when it is dialled too (I66), and proxies, which would
	// dial in our place.
	PublicOnly bool

	disableCompression bool // as a kubeconfig has it; no attribute
	bothCredentials    bool // a token may stand beside a client certificate, as others store them; no attribute
}

// Exec is a credential plugin in the sense of client.authentication.k8s.io. Env reaches this plugin only: it is never
// set on our own process, so two entries may give one variable different values.
type Exec struct {
	APIVersion string
	Command    string
	Args       []string
	Env        map[string]string
}

// execAPIVersions are the versions of the plugin protocol that client-go v0.37 speaks; v1alpha1 was removed from it in
// Kubernetes 1.24.
var execAPIVersions = []string{"client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"}

// proxySchemes are the schemes that client-go documents for proxy-url.
var proxySchemes = []string{"http", "https", "socks5"}

// Validate checks the shape of an entry whose values are all known: which attributes go together, and how each is
// written. It reads no file, asks no plugin and looks at no clock; RESTConfig does.
func (e Entry) Validate() []Problem {
	var problems []Problem
	report := func(attribute, summary, format string, args ...any) {
		problems = append(problems, Problem{Attribute: attribute, Summary: summary, Detail: fmt.Sprintf(format, args...)})
	}

	var sources []string
	for _, source := range []struct{ name, value string }{{"kubeconfig", e.Kubeconfig}, {"kubeconfig_path", e.KubeconfigPath}, {"host", e.Host}} {
		if strings.TrimSpace(source.value) != "" {
			sources = append(sources, source.name)
		}
	}
	if len(sources) == 0 {
		report("", "The entry has no connection",
			"None of kubeconfig, kubeconfig_path and host is set (an empty string counts as not set). berth never falls back to KUBECONFIG, to a default file or to the pod it runs in. Set exactly one of the three.")
		return problems
	}
	if len(sources) > 1 {
		report(sources[1], "The entry has more than one connection",
			"%s are set, and they may lead to different clusters. Keep exactly one of kubeconfig, kubeconfig_path and host.", listAnd(sources))
		return problems
	}

	if sources[0] == "host" {
		return append(problems, e.validateHost()...)
	}
	for _, name := range e.hostOnly() {
		report(name, name+" does not go with "+sources[0],
			"A kubeconfig brings its own server, trust and credentials, so %s would say the same thing twice. Put it into the kubeconfig, or describe the connection with host instead.", name)
	}
	if sources[0] == "kubeconfig_path" && e.Context == "" {
		report("context", "kubeconfig_path needs a context",
			"The current-context of a file changes whenever somebody switches it, so berth does not use it: the next apply could reach another cluster. Set context to the name of the context in %s.", quoted(e.KubeconfigPath))
	}
	return problems
}

// hostOnly are the attributes set on the entry that have a meaning only next to host.
func (e Entry) hostOnly() []string {
	var names []string
	for _, attribute := range []struct {
		name string
		set  bool
	}{
		{"cluster_ca_certificate", e.ClusterCACertificate != ""},
		{"insecure", e.Insecure},
		{"tls_server_name", e.TLSServerName != ""},
		{"proxy_url", e.ProxyURL != ""},
		{"token", e.Token != ""},
		{"client_certificate", e.ClientCertificate != ""},
		{"client_key", e.ClientKey != ""},
		{"exec", e.Exec != nil},
	} {
		if attribute.set {
			names = append(names, attribute.name)
		}
	}
	return names
}

func (e Entry) validateHost() []Problem {
	var problems []Problem
	report := func(attribute, summary, format string, args ...any) {
		problems = append(problems, Problem{Attribute: attribute, Summary: summary, Detail: fmt.Sprintf(format, args...)})
	}

	if e.Context != "" {
		report("context", "context does not go with host",
			"A context is a name inside a kubeconfig, and the entry has none. Remove context, or set kubeconfig or kubeconfig_path instead of host.")
	}
	if _, err := parseServer(e.Host); err != nil {
		report("host", "host is not the address of an API server",
			"%s %s. Set it to an https URL such as https://203.0.113.10:6443, or to host:port.", quoted(maskURL(e.Host)), err)
	}
	problems = append(problems, e.validatePublic()...)
	if e.Insecure && e.ClusterCACertificate != "" {
		report("insecure", "insecure and cluster_ca_certificate exclude each other",
			"insecure turns off the verification that cluster_ca_certificate is for. Remove insecure to verify the API server, which is what you want anywhere but on a throw-away cluster.")
	} else if e.ClusterCACertificate != "" {
		if _, err := parseCA(e.ClusterCACertificate); err != nil {
			report("cluster_ca_certificate", "cluster_ca_certificate holds no CA certificate",
				"The value %s. Set it to PEM (-----BEGIN CERTIFICATE-----), or to the same in base64 as cloud providers give it.", err)
		}
	}
	if e.ProxyURL != "" {
		if _, err := parseProxy(e.ProxyURL); err != nil {
			report("proxy_url", "proxy_url is not the URL of a proxy",
				"%s %s. Set it to a URL with scheme http, https or socks5, such as http://proxy.example.com:3128.", quoted(maskURL(e.ProxyURL)), err)
		}
	}
	return append(problems, e.validateCredential()...)
}

// validatePublic finds what public_only excludes on the face of it.
func (e Entry) validatePublic() []Problem {
	var problems []Problem
	if !e.PublicOnly {
		return nil
	}
	if e.ProxyURL != "" {
		problems = append(problems, Problem{
			Attribute: "proxy_url", Summary: "public_only and proxy_url exclude each other",
			Detail: "The proxy would dial in berth's place, so berth could not see whether the address is public. Remove one of the two.",
		})
	}
	if server, err := parseServer(e.Host); err == nil {
		if parsed, err := url.Parse(server); err == nil {
			if err := publicHost(parsed.Hostname()); err != nil {
				problems = append(problems, Problem{
					Attribute: "host", Summary: "host is not a public address",
					Detail: fmt.Sprintf("The entry has public_only, but %s %s. Set host to the API server's public address, or remove public_only.", quoted(parsed.Hostname()), err),
				})
			}
		}
	}
	return problems
}

func (e Entry) validateCredential() []Problem {
	var problems []Problem
	report := func(attribute, summary, format string, args ...any) {
		problems = append(problems, Problem{Attribute: attribute, Summary: summary, Detail: fmt.Sprintf(format, args...)})
	}

	var kinds []string
	if e.Token != "" {
		kinds = append(kinds, "token")
	}
	if e.ClientCertificate != "" || e.ClientKey != "" {
		kinds = append(kinds, "client_certificate")
	}
	if e.Exec != nil {
		kinds = append(kinds, "exec")
	}
	switch {
	case len(kinds) == 0:
		report("host", "host needs a credential",
			"The entry says where the API server is but not who asks. Set exactly one of token, client_certificate with client_key, and exec.")
	case len(kinds) > 1 && !e.bothCredentials:
		report(kinds[1], "The entry has more than one credential",
			"%s are set, and the API server would take one and ignore the other. Keep exactly one of token, client_certificate with client_key, and exec.", listAnd(kinds))
	}
	switch {
	case e.ClientCertificate != "" && e.ClientKey == "":
		report("client_key", "client_certificate needs client_key",
			"The certificate says who asks, and the key proves it. Set client_key to the private key of client_certificate, in PEM.")
	case e.ClientKey != "" && e.ClientCertificate == "":
		report("client_certificate", "client_key needs client_certificate",
			"A private key alone names nobody. Set client_certificate to the certificate of client_key, in PEM.")
	}
	if e.Token != "" && strings.ContainsFunc(strings.TrimSpace(e.Token), notInToken) {
		report("token", "token is not a bearer token",
			"The value holds white space or control characters in its middle, which no bearer token has. Set token to the token alone, without \"Bearer \" before it.")
	}
	if e.Exec != nil {
		if strings.TrimSpace(e.Exec.Command) == "" {
			report("exec.command", "exec needs a command",
				"Without a command there is no plugin to ask for a credential. Set exec.command to the name of the plugin on the PATH, or to its path.")
		}
		if !slices.Contains(execAPIVersions, e.Exec.APIVersion) {
			report("exec.api_version", "exec.api_version is not a version of the plugin protocol",
				"%s is not supported. Set it to the version that the plugin speaks: %s.", quoted(e.Exec.APIVersion), listOr(execAPIVersions))
		}
		for _, name := range sortedKeys(e.Exec.Env) {
			if name == "" || strings.ContainsAny(name, "=\x00") {
				report("exec.env", "exec.env has a name that no variable can have",
					"%s is not the name of an environment variable. Rename it.", quoted(name))
			}
		}
	}
	return problems
}

func notInToken(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

// parseServer turns the address of an API server into an https URL. Plain http is refused everywhere: it would carry
// the credential in clear text. The error completes a sentence about the value and quotes none of it.
func parseServer(raw string) (string, error) {
	raw = strings.TrimSpace(raw)
	if raw == "" {
		return "", errors.New("is empty")
	}
	scheme, rest, hasScheme := strings.Cut(raw, "://")
	switch {
	case !hasScheme:
		if strings.ContainsAny(raw, "/?#") {
			return "", errors.New("is neither an https URL nor host:port")
		}
		rest = raw
	case strings.EqualFold(scheme, "http"):
		return "", errors.New("uses http, which would send the credential in clear text")
	case !strings.EqualFold(scheme, "https"):
		return "", errors.New("has a scheme other than https")
	}
	parsed, err := url.Parse("https://" + rest)
	if err != nil || parsed.Hostname() == "" || strings.ContainsFunc(parsed.Hostname(), notInHostname) || strings.HasSuffix(parsed.Host, ":") {
		return "", errors.New("is neither an https URL nor host:port")
	}
	if port := parsed.Port(); port != "" {
		if number, err := strconv.Atoi(port); err != nil || number < 1 || number > 65535 {
			return "", errors.New("has a port outside 1 to 65535")
		}
	}
	if parsed.User != nil {
		return "", errors.New("has a user name in it, which the API server does not read")
	}
	if parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "" {
		return "", errors.New("has a query or a fragment")
	}
	return strings.TrimSuffix(parsed.String(), "/"), nil
}

func notInHostname(r rune) bool {
	// ':' and '%' are in IPv6 addresses and their zones.
	return r > unicode.MaxASCII || !(unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(".-_:%", r))
}

// parseProxy reads the URL of a proxy. Its error quotes nothing of it: it may hold a password.
func parseProxy(raw string) (*url.URL, error) {
	parsed, err := url.Parse(strings.TrimSpace(raw))
	switch {
	case err != nil:
		return nil, errors.New("is not a URL")
	case !slices.Contains(proxySchemes, strings.ToLower(parsed.Scheme)):
		return nil, errors.New("has a scheme other than http, https and socks5")
	case parsed.Hostname() == "":
		return nil, errors.New("names no host")
	}
	return parsed, nil
}

// parseCA returns the PEM of a bundle of CA certificates that was given as PEM or as PEM in base64. The error completes
// a sentence about the value and quotes none of it.
func parseCA(text string) ([]byte, error) {
	data := []byte(strings.TrimSpace(text))
	if !strings.Contains(text, "-----BEGIN") {
		decoded, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
		if err != nil {
			return nil, errors.New("is neither PEM nor base64")
		}
		if _, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(decoded))); err == nil {
			return nil, errors.New("is in base64 twice")
		}
		data = decoded
	}
	return data, checkCA(data)
}

// checkCA says whether data is a PEM bundle with nothing but readable certificates in it.
func checkCA(data []byte) error {
	found := false
	for rest := data; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("holds a PEM block of type %s, not CERTIFICATE", quoted(block.Type))
		}
		if _, err := parseCertificate(block.Bytes); err != nil {
			return errors.New("holds a certificate that cannot be parsed")
		}
		found = true
	}
	if !found {
		return errors.New("is not PEM")
	}
	return nil
}

// maskURL is a URL fit to be shown: without user name, password, query and fragment, any of which may be a secret.
func maskURL(raw string) string {
	raw = strings.TrimSpace(raw)
	raw, _, _ = strings.Cut(raw, "?")
	raw, _, _ = strings.Cut(raw, "#")
	scheme, rest, found := strings.Cut(raw, "://")
	if !found {
		scheme, rest = "", raw
	}
	// The last @ is taken, wherever it stands: a password may hold anything.
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		rest = "***@" + rest[at+1:]
	}
	if found {
		return scheme + "://" + rest
	}
	return rest
}

// isLoopback tells whether a host name or address is this machine itself.
func isLoopback(host string) bool {
	address := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || address != nil && address.IsLoopback()
}
