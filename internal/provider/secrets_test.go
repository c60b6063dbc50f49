package provider_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// What is secret in the provider's configuration is in no state, no plan, no diagnostic and no log, whatever the level
// and whatever goes wrong (X9, promise 7).
func TestSecretsStayOut(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		log := filepath.Join(t.TempDir(), "provider.log")
		b := newBench(t, tofutest.Options{Runner: runner, Env: map[string]string{"TF_LOG_PROVIDER": "TRACE", "TF_LOG_PATH": log}})
		name := unique("secret")
		admin := b.proxy.AdminKubeconfig()
		token := grantAll(t, b.cluster, "secrets/berth").Token
		plugin := script(t, `if [ -n "$FAIL" ]; then echo "cannot log in with $CANARY --password $2 at once" >&2; exit 1; fi
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}' "$TOKEN"
`)
		const environment, argument = "canary-in-the-environment", "canary-in-an-argument"
		host := fmt.Sprintf("host = %q\ncluster_ca_certificate = %q\n", admin.Server, admin.CA)
		exec := func(more string) string {
			return fmt.Sprintf("%sexec = {\napi_version = \"client.authentication.k8s.io/v1\"\ncommand = %q\nargs = [\"--password\", %q]\nenv = { TOKEN = %q, CANARY = %q%s }\n}",
				host, plugin, argument, token, environment, more)
		}
		block, _ := pem.Decode(admin.ClientKey)
		if block == nil {
			t.Fatal("the administrator's key is not PEM")
		}
		keyLine := strings.Split(string(admin.ClientKey), "\n")[1]
		const badToken = "canary-token-that-is-refused"
		canaries := map[string]string{
			"the token": token, "the token's signature": token[strings.LastIndex(token, ".")+1:], "the client key": keyLine,
			"the plugin's environment": environment, "the refused token": badToken,
		}

		entries := clusters{
			"content":     byContent(admin),
			"token":       fmt.Sprintf("%stoken = %q", host, token),
			"certificate": fmt.Sprintf("%sclient_certificate = %q\nclient_key = %q", host, admin.ClientCertificate, admin.ClientKey),
			"exec":        exec(""),
		}
		var resources string
		for key := range entries {
			resources += class(key, name+"-"+key, fmt.Sprintf("cluster = %q", key))
		}
		b.Write("main.tf", providerBlock(b.owner, entries)+resources)
		searched := map[string]string{}
		add := func(what string, text []byte) { searched[what] += string(text) }
		planned := b.MustPlan()
		add("the plan", []byte(planned.Log))
		add("the plan's JSON", withoutConfiguration(t, b.Command("show", "-json", "tofutest.plan").Raw))
		add("the apply", []byte(b.MustApply().Log))
		add("the state", b.StatePull())

		// Everything that can go wrong with a credential.
		entries["token"] = fmt.Sprintf("%stoken = %q", host, badToken)
		entries["exec"] = exec(`, FAIL = "1"`)
		b.Write("main.tf", providerBlock(b.owner, entries)+resources)
		failed := b.Plan()
		failed.Error(t, `^Cluster "token": its API server does not accept the credential \(401\)$`)
		failed.Error(t, `^Cluster "exec": its exec plugin failed`, "cannot log in with ")
		add("the failed plan", []byte(failed.Log))
		entries["token"], entries["exec"] = fmt.Sprintf("%stoken = %q", host, token), exec("")
		b.Write("main.tf", providerBlock(b.owner, entries)+resources)
		restore := b.proxy.Fail(func(r fleettest.Request) bool { return r.Verb == "list" }, fleettest.HTMLPage)
		add("the failed refresh", []byte(b.Plan().Log))
		restore()
		add("the destroy", []byte(b.Destroy().Log))

		content, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		add("the provider's log", content)
		if !strings.Contains(string(content), "request to the API server") {
			t.Error("the provider logged no request at TRACE, so there was nothing to search")
		}
		for where, text := range searched {
			for what, canary := range canaries {
				if strings.Contains(text, canary) {
					at := strings.Index(text, canary)
					t.Errorf("%s is in %s: …%s…", what, where, text[max(0, at-200):min(len(text), at+len(canary)+80)])
				}
			}
		}
		if strings.Contains(failed.Log, argument) {
			t.Errorf("the value of the plugin's --password is in a diagnostic:\n%s", failed.Log)
		}
	})
}

// withoutConfiguration is a plan's JSON without its copy of the configuration, which is where the test's secrets are
// written.
func withoutConfiguration(t *testing.T, raw []byte) []byte {
	t.Helper()
	var plan map[string]json.RawMessage
	if err := json.Unmarshal(raw, &plan); err != nil {
		t.Fatal(err)
	}
	if len(plan["configuration"]) == 0 || len(plan["resource_changes"]) == 0 {
		t.Fatalf("the plan's JSON is not what was expected: %s", raw)
	}
	delete(plan, "configuration")
	rest, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	return rest
}
