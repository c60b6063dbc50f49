package cluster

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// quiet keeps the failed handshakes of test servers out of the output.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

func script(t *testing.T, body string) string {
	t.Helper()
	return writeFile(t, filepath.Join(t.TempDir(), "plugin"), "#!/bin/sh\n"+body+"\n", 0o700)
}

// credentialOf is a line of a script that prints a credential with a token.
func credentialOf(token string) string {
	return fmt.Sprintf(`printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%%s"}}' "%s"`, token)
}

// TestExecEnvironmentIsItsOwn: two entries run one plugin with one variable at two values; each request carries the
// token of its own entry, and our own environment has neither.
func TestExecEnvironmentIsItsOwn(t *testing.T) {
	const variable = "BERTH_TEST_PROFILE"
	plugin := script(t, credentialOf("token-of-$"+variable))
	ca := newAuthority(t, "kube-ca")
	var mutex sync.Mutex
	var seen []string
	target := serve(t, ca, ca.pair(t, "127.0.0.1", -time.Hour, time.Hour), func(w http.ResponseWriter, r *http.Request) {
		mutex.Lock()
		seen = append(seen, r.Header.Get("Authorization"))
		mutex.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{"name":"kube-system","uid":"u"}}`))
	})
	for _, value := range []string{"one", "two", ""} {
		entry := Entry{Host: target.Host, ClusterCACertificate: string(ca.pem), Exec: &Exec{APIVersion: execAPIVersions[0], Command: plugin}}
		if value != "" {
			entry.Exec.Env = map[string]string{variable: value}
		}
		config, _, err := entry.RESTConfig("eu-1")
		if err != nil {
			t.Fatal(err)
		}
		client, err := metadata.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Resource(Namespaces.GVR()).Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"Bearer token-of-one", "Bearer token-of-two", "Bearer token-of-"}; !slices.Equal(seen, want) {
		t.Errorf("the server saw %q", seen)
	}
	if value, set := os.LookupEnv(variable); set {
		t.Errorf("our own environment has %s=%s", variable, value)
	}
}

func TestExecFailures(t *testing.T) {
	ca := newAuthority(t, "kube-ca")
	target := serve(t, ca, ca.pair(t, "127.0.0.1", -time.Hour, time.Hour), refusal(http.StatusUnauthorized, metav1.StatusReasonUnauthorized))
	status := func(body string) string { return "echo '" + body + "'" }

	for name, test := range map[string]struct {
		body  string
		cause Cause
		want  []string
	}{
		"fails": {`printf '{"status":{"token":"%s"}}' "$SECRET"
			echo "line one" >&2
			echo "Session of profile $PROFILE has expired; secret $SECRET, key $2, leaked $SECRET" >&2
			exit 7`, CauseExecFailed, []string{"its exec plugin failed", "exit code 7", "$NAME and $1 stand for", "Session of profile $PROFILE has expired", "line one / ", "Run it by hand"}},
		"fails silently": {"exit 3", CauseExecFailed, []string{"exit code 3", "wrote nothing to stderr"}},
		"fails at length": {
			"i=0; while [ $i -lt 40 ]; do echo \"line $i\" >&2; i=$((i+1)); done; exit 1", CauseExecFailed,
			[]string{"It wrote: line 35 / line 36 / line 37 / line 38 / line 39"},
		},
		"prints no JSON":         {status(canary), CauseExecOutput, []string{"not an ExecCredential", "Its output is not shown"}},
		"prints another object":  {status(`{"token":"` + canary + `"}`), CauseExecOutput, []string{"not an ExecCredential"}},
		"prints nothing":         {"true", CauseExecOutput, []string{"gave no credential"}},
		"prints another version": {status(`{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","status":{"token":"` + canary + `"}}`), CauseExecOutput, []string{"another version", execAPIVersions[0], "api_version"}},
		"prints no status":       {status(`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential"}`), CauseExecOutput, []string{"no token and no certificate"}},
		"prints no token":        {status(`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{}}`), CauseExecOutput, []string{"no token and no certificate"}},
		"prints half a pair":     {status(`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"clientKeyData":"` + canary + `"}}`), CauseExecOutput, []string{"but not both"}},
		"prints a bad pair":      {status(`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"clientKeyData":"` + canary + `","clientCertificateData":"x"}}`), CauseExecOutput, []string{"do not fit together"}},
		"is refused":             {credentialOf(canary), CauseUnauthorized, []string{"(401)", "the exec plugin", "logged in as"}},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := script(t, test.body)
			config, _, err := Entry{Host: target.Host, ClusterCACertificate: string(ca.pem), Exec: &Exec{
				APIVersion: execAPIVersions[0], Command: plugin, Args: []string{"--api-key", canary}, Env: map[string]string{"SECRET": canary, "PROFILE": "production"},
			}}.RESTConfig("eu-1")
			if err != nil {
				t.Fatal(err)
			}
			requireConnection(t, ask(t, config), test.cause, false, append(test.want, plugin)...)
		})
	}
	t.Run("vanished", func(t *testing.T) {
		plugin := script(t, "true")
		config, _, err := Entry{Host: target.Host, ClusterCACertificate: string(ca.pem), Exec: &Exec{APIVersion: execAPIVersions[0], Command: plugin}}.RESTConfig("eu-1")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(plugin); err != nil {
			t.Fatal(err)
		}
		// A path that is gone and a name that is on no PATH fail differently in os/exec.
		for _, command := range []string{plugin, "no-such-plugin-of-berth"} {
			if config.ExecProvider, err = quietPlugin(clientcmdapi.ExecConfig{
				APIVersion: execAPIVersions[0], Command: command, InstallHint: "brew install it", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
			}); err != nil {
				t.Fatal(err)
			}
			requireConnection(t, ask(t, config), CauseExecNotFound, false, "its exec plugin is not there", command, "brew install it")
		}
	})
	t.Run("we vanished", func(t *testing.T) {
		config, _, err := Entry{Host: target.Host, ClusterCACertificate: string(ca.pem), Exec: &Exec{APIVersion: execAPIVersions[0], Command: script(t, "true")}}.RESTConfig("eu-1")
		if err != nil {
			t.Fatal(err)
		}
		config.ExecProvider.Command = filepath.Join(t.TempDir(), "terraform-provider-berth")
		requireConnection(t, ask(t, config), CauseExecFailed, false, "the provider's own program", "terraform-provider-berth", "apply again")
	})
	t.Run("not a program", func(t *testing.T) {
		plugin := writeFile(t, filepath.Join(t.TempDir(), "plugin"), "\x7fELF"+canary, 0o700)
		config, _, err := Entry{Host: target.Host, ClusterCACertificate: string(ca.pem), Exec: &Exec{APIVersion: execAPIVersions[0], Command: plugin}}.RESTConfig("eu-1")
		if err != nil {
			t.Fatal(err)
		}
		requireConnection(t, ask(t, config), CauseExecFailed, false, "could not be run", "program for this machine")
	})
}
