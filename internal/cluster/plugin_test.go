package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// pluginTarget is a server that asks for client certificates and remembers who came.
type pluginTarget struct {
	*httptest.Server

	ca   *authority
	mu   sync.Mutex
	seen []string
}

func newPluginTarget(t *testing.T) *pluginTarget {
	t.Helper()
	target := &pluginTarget{ca: newAuthority(t, "kube-ca")}
	target.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := r.Header.Get("Authorization")
		if len(r.TLS.PeerCertificates) > 0 {
			who += "certificate of " + r.TLS.PeerCertificates[0].Subject.CommonName
		}
		target.mu.Lock()
		target.seen = append(target.seen, who)
		target.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{"name":"kube-system","uid":"u"}}`))
	}))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(target.ca.pem)
	target.TLS = &tls.Config{
		Certificates: []tls.Certificate{target.ca.pair(t, "127.0.0.1", -time.Hour, time.Hour)}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool,
	}
	target.Config.ErrorLog = quiet()
	target.StartTLS()
	t.Cleanup(target.Close)
	return target
}

func (p *pluginTarget) config(t *testing.T, plugin *Exec) *rest.Config {
	t.Helper()
	plugin.APIVersion = execAPIVersions[0]
	config, _, err := Entry{Host: p.URL, ClusterCACertificate: string(p.ca.pem), Exec: plugin}.RESTConfig("eu-1")
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// get sends requests through one client.
func get(t *testing.T, config *rest.Config, times int) error {
	t.Helper()
	client, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	var failures []error
	for range times {
		_, err := client.Resource(Namespaces.GVR()).Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// stderrOf gives what is written to the stderr of this process, by itself and by whom it starts, while a function runs.
func stderrOf(t *testing.T, run func()) string {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	written := make(chan string)
	go func() {
		text, _ := io.ReadAll(read)
		written <- string(text)
	}()
	before := os.Stderr
	os.Stderr = write
	func() {
		defer func() { os.Stderr = before }()
		run()
	}()
	if err := write.Close(); err != nil {
		t.Error(err)
	}
	return <-written
}

// TestPluginStderrStaysOut: what a plugin writes to stderr does not reach ours, which is the runner's log (X9), however
// the plugin ends, and not by way of our diagnostic either.
func TestPluginStderrStaysOut(t *testing.T) {
	const say = `echo "the password is ` + canary + `; $SECRET $2" >&2; `
	target := newPluginTarget(t)
	exec := func(body string) *Exec {
		return &Exec{Command: script(t, say+body), Args: []string{"--token", canary + "-argument"}, Env: map[string]string{"SECRET": canary + "-variable"}}
	}
	for name, body := range map[string]string{"fails": "exit 1", "succeeds": credentialOf("t"), "prints nonsense": "echo " + canary} {
		t.Run(name, func(t *testing.T) {
			var failure error
			said := stderrOf(t, func() {
				config := target.config(t, exec(body))
				if failure = get(t, config, 2); failure != nil {
					failure = Classify("eu-1", config, failure)
				}
			})
			if said != "" {
				t.Errorf("our stderr has:\n%s", said)
			}
			if (failure == nil) != (name == "succeeds") {
				t.Errorf("the requests ended with %v", failure)
			}
			if failure != nil {
				requireText(t, failure.Error(), "its exec plugin")
			}
		})
	}
	t.Run("without us", func(t *testing.T) { // or this test would see nothing, whatever happens
		said := stderrOf(t, func() {
			config := target.config(t, exec("exit 1"))
			plain := pluginOf(config).ExecConfig
			config.ExecProvider = &plain
			_ = get(t, config, 1)
		})
		if !strings.Contains(said, canary+"-variable "+canary+"-argument") {
			t.Errorf("client-go keeps a plugin's stderr to itself now: %q", said)
		}
	})
}

// TestPluginRefresh: credentials are asked for again when they have expired, and only then.
func TestPluginRefresh(t *testing.T) {
	for name, test := range map[string]struct {
		expiry time.Duration
		want   []string
	}{
		// The first connection asks once more, for a certificate.
		"expired": {-time.Minute, []string{"Bearer token-1", "Bearer token-3", "Bearer token-4"}},
		"valid":   {time.Hour, []string{"Bearer token-1", "Bearer token-1", "Bearer token-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			target := newPluginTarget(t)
			runs := filepath.Join(t.TempDir(), "runs")
			config := target.config(t, &Exec{Command: script(t, fmt.Sprintf(`echo run >>%q; n=$(wc -l <%q)
				printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"token-%%d","expirationTimestamp":"%s"}}' $n`,
				runs, runs, time.Now().Add(test.expiry).UTC().Format(time.RFC3339)))})
			if err := get(t, config, 3); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(target.seen, test.want) {
				t.Errorf("the server saw %q", target.seen)
			}
		})
	}
}

func TestPluginCertificate(t *testing.T) {
	target := newPluginTarget(t)
	certificate, key := target.ca.issue(t, "me", -time.Hour, time.Hour)
	inJSON := func(pem []byte) string { return strings.ReplaceAll(string(pem), "\n", `\n`) }
	answer := writeFile(t, filepath.Join(t.TempDir(), "answer"), fmt.Sprintf(
		`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"clientCertificateData":"%s","clientKeyData":"%s"}}`, inJSON(certificate), inJSON(key)), 0o600)
	if err := get(t, target.config(t, &Exec{Command: script(t, `cat "$1"`), Args: []string{answer}}), 2); err != nil {
		t.Fatal(err)
	}
	if want := []string{"certificate of me", "certificate of me"}; !slices.Equal(target.seen, want) {
		t.Errorf("the server saw %q", target.seen)
	}
}

// TestPluginIsRunAsWritten: what stands between client-go and the plugin changes nothing that the plugin sees.
func TestPluginIsRunAsWritten(t *testing.T) {
	target := newPluginTarget(t)
	folder := t.TempDir()
	writeFile(t, filepath.Join(folder, "plugin-of-berth"), "#!/bin/sh\n"+`
		test -z "$(cat)" || exit 3
		case "$KUBERNETES_EXEC_INFO" in *'"interactive":false'*) ;; *) exit 4 ;; esac
		`+credentialOf("$#|$1|$2|$PATH|$A")+"\n", 0o700)
	t.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	// The plugin's own PATH is for the plugin: it is looked up on ours.
	config := target.config(t, &Exec{Command: "plugin-of-berth", Args: []string{"", "a b"}, Env: map[string]string{"PATH": "/usr/bin:/bin", "A": "1"}})
	if config.ExecProvider.InteractiveMode != clientcmdapi.NeverExecInteractiveMode || !config.ExecProvider.StdinUnavailable {
		t.Errorf("interactive: %v", config.ExecProvider)
	}
	if err := get(t, config, 1); err != nil {
		t.Fatal(err)
	}
	if want := []string{"Bearer 2||a b|/usr/bin:/bin|1"}; !slices.Equal(target.seen, want) {
		t.Errorf("the server saw %q", target.seen)
	}
}

// TestPluginWords: no secret is in what is shown of a plugin's stderr, and the sentences that help are.
func TestPluginWords(t *testing.T) {
	t.Setenv("BERTH_TEST_INHERITED_SECRET", "inherited-hunter")
	plugin := &credentialPlugin{ExecConfig: clientcmdapi.ExecConfig{
		Args: []string{"get-token", "--cluster", "prod-eu", "--client-secret=hunter-flag", "-c", "SECRET=hunter-script run", "hunter-positional"},
		Env:  []clientcmdapi.ExecEnvVar{{Name: "PIECE", Value: "hunter"}, {Name: "WHOLE", Value: "hunter-whole/+"}, {Name: "LINES", Value: "hunter-one\nhunter-two"}, {Name: "KIND", Value: "token"}},
	}}
	for text, want := range map[string]string{
		"password is hunt3r":                             "password is ***",
		"password: hunt3r":                               "password: ***",
		"your secret hunt3r was used":                    "your secret *** was used",
		"hunt3r is not a valid password":                 "*** is not a valid password",
		"run me with --token hunt3r":                     "run *** with --token ***",
		"TOKEN=hunt3r":                                   "TOKEN=***",
		"key 'hunt3r', it was":                           "key ***, it was",
		"the password is:\n\n  hunt3r\nnot found":        "the password is:\n***\nnot found",
		"passphrase correct horse battery":               "passphrase ***",
		"got hunt3rhunt3rhunt3r from the cache":          "got *** from the cache",
		"pass\x1b[31mword\x1b[0m hunt3r":                 "password ***",
		"saw hunter-whole/+ and hunter":                  "saw $WHOLE and $PIECE",
		"saw hunter-whole%2F%2B, aHVudGVyLXdob2xlLys=":   "saw $WHOLE, $WHOLE",
		"saw hunter-two":                                 "saw $LINES",
		"saw hunter-flag hunter-script inherited-hunter": "*** $BERTH_TEST_INHERITED_SECRET",
		"saw printed-hunt3r":                             "saw ***",
		"cluster prod-eu not found, hunter-positional":   "cluster $3 not found, $7",
		"the token for $PIECE has expired":               "the token for $PIECE has expired",
		"get-token: unknown command":                     "get-token: *** command",
		"dial tcp 10.0.0.1:443: connect: no route":       "dial tcp 10.0.0.1:443: connect: no route",
		"Unable to locate credentials. Run 'aws login'.": "Unable to locate credentials. Run 'aws login'.",
		"The SSO session token associated with this profile has expired or is invalid": "The SSO session token associated with this profile has expired or is invalid",
	} {
		if got := plugin.words([]byte(`{"status":{"token":"printed-hunt3r"}}`), text); strings.TrimSpace(got) != want {
			t.Errorf("%q became\n%q, want\n%q", text, got, want)
		}
	}
}

// TestTailDropsTheCutLine: of an endless output the end is kept, without the half of a line, which may be half a secret.
func TestTailDropsTheCutLine(t *testing.T) {
	var end tail
	for _, part := range []string{"start " + canary, strings.Repeat("x", pluginOutput-len("\nlast\n")-4), "\nlast\n"} {
		if n, err := end.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if len(end.data) != pluginOutput || end.lines() != "last\n" {
		t.Errorf("%d bytes, lines %q", len(end.data), end.lines())
	}
}
