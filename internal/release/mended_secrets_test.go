package release

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
)

// leaks fails the test where a text holds a part of a secret: what is shorter than a secret can be is none.
func leaks(t *testing.T, what, text string, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))} {
			for line := range strings.Lines(form) {
				runes := []rune(strings.TrimSpace(line))
				for i := 0; i+2*shortestHidden <= len(runes); i++ {
					if part := string(runes[i : i+2*shortestHidden]); strings.Contains(text, part) {
						t.Errorf("%s shows %q of a secret: %s", what, part, text)
						return
					}
				}
			}
		}
	}
}

// letters are n letters, from a seed, that no message has by chance.
func letters(seed string, first rune, n int) string {
	var text strings.Builder
	for i := 0; n > 0; i++ {
		for _, b := range sha256.Sum256([]byte(fmt.Sprint(seed, i))) {
			if n--; n >= 0 {
				text.WriteRune(first + rune(b%26))
			}
		}
	}
	return text.String()
}

// Of a secret that is longer than a message shows of a value, not even the beginning is in a plan, in drift, or in what is
// said of fields that somebody added: not within another text, in base64, in a list, or line by line (promise 7, X9).
func testLongSecrets(b *bench) {
	b.load(charts.Folder(b.t, "long", "1.0.0", map[string]string{
		"templates/all.yaml": `apiVersion: v1
kind: ConfigMap
metadata: {name: app}
data:
  plain: {{ .Values.password }}
  url: postgres://app:{{ .Values.password }}@db
  late: {{ repeat 196 "-" }}{{ .Values.password }}
  encoded: {{ .Values.password | b64enc }}
  key: |
    indented:
    {{- .Values.key | nindent 6 }}
  json: '{"password": "{{ .Values.password }}"}'
---
` + strings.Replace(idleDeployment("app", ""), "image: example.com/a", `image: example.com/a, args: ["--password={{ .Values.password }}"], env: [{name: PASSWORD, value: "{{ .Values.password }}"}]`, 1),
	}))
	b.spec.Wait = false
	set := func(seed string) []string {
		secrets := []string{letters(seed, 'а', 300), ""}
		var key []string
		for i := range 12 {
			key = append(key, letters(fmt.Sprint(seed, i), 'A', 64))
		}
		secrets[1] = "-----BEGIN PRIVATE KEY-----\n" + strings.Join(key, "\n") + "\n-----END PRIVATE KEY-----\n"
		values, err := MergeValues(nil, map[string]string{"password": secrets[0], "key": secrets[1]})
		if err != nil {
			b.t.Fatal(err)
		}
		b.spec.Values, b.spec.Secrets = values, []string{"password", "key"}
		return secrets
	}
	old := set("one")
	b.apply()
	secrets := append(set("two"), old...)
	paths := []string{
		"ConfigMap/long-secrets/app data.encoded", "ConfigMap/long-secrets/app data.json", "ConfigMap/long-secrets/app data.key", "ConfigMap/long-secrets/app data.late",
		"ConfigMap/long-secrets/app data.plain", "ConfigMap/long-secrets/app data.url",
		"Deployment/long-secrets/app spec.template.spec.containers[name=a].args", "Deployment/long-secrets/app spec.template.spec.containers[name=a].env[name=PASSWORD].value",
	}
	masked := func(what string, changes map[string]string) {
		b.t.Helper()
		if len(changes) != len(paths) {
			b.t.Errorf("%s: %d fields, want %d", what, len(changes), len(paths))
		}
		for _, path := range paths {
			if !strings.Contains(changes[path], sensitive) {
				b.t.Errorf("%s of %s does not say that it is hidden: %q", what, path, changes[path])
			}
			leaks(b.t, what+" of "+path, changes[path], secrets...)
		}
	}
	masked("change", b.plan().Changes)
	b.apply()

	b.kubectl("patch", "configmap", "app", "-p", `{"data":{"plain":"x","url":"x","late":"x","encoded":"x","key":"x","json":"x","copied":"`+secrets[0]+`"}}`)
	b.kubectl("patch", "deployment", "app", "-p", `{"spec":{"template":{"spec":{"containers":[{"name":"a","args":["x"],"env":[{"name":"PASSWORD","value":"x"}]}]}}}}`)
	seen := b.read(2)
	masked("drift", seen.Drift)
	if len(seen.Warnings) != 1 || !strings.Contains(seen.Warnings[0].Summary, sensitive) {
		b.t.Errorf("extra fields: %v", seen.Warnings)
	}
	leaks(b.t, "what is said of extra fields", fmt.Sprint(seen.Warnings), secrets...)
	leaks(b.t, "what is kept of the values", fmt.Sprint(seen.Values), secrets...)
}

// After an upgrade and a rollback by another tool, which carries berth's marks over and not what is secret, secrets are
// hidden as before (promise 7, X9).
func testOtherTool(b *bench) {
	b.chart("1.0.0", map[string]string{"templates/app.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {url: \"postgres://app:{{ .Values.db.password }}@db\"}\n"})
	set := func(secret string) {
		values, err := MergeValues([]string{"text: hello"}, map[string]string{"db.password": secret})
		if err != nil {
			b.t.Fatal(err)
		}
		b.spec.Values, b.spec.Secrets = values, []string{"db.password"}
	}
	sum := sha256.Sum256([]byte("other-tool"))
	first, second := hex.EncodeToString(sum[:16]), hex.EncodeToString(sum[16:])
	set(first)
	b.apply()
	ch, err := fresh(b.spec.Chart.Chart)
	if err != nil {
		b.t.Fatal(err)
	}
	upgrade := action.NewUpgrade(b.helm())
	upgrade.Namespace, upgrade.ReuseValues = b.spec.Namespace, true
	if _, err := upgrade.Run(b.spec.Name, ch, map[string]any{"text": "by hand"}); err != nil {
		b.t.Fatal(err)
	}
	set(second)
	hidden := func(what string, revision int) {
		b.t.Helper()
		b.kubectl("patch", "configmap", "app", "-p", `{"data":{"url":"none"}}`)
		seen := b.read(1)
		if seen.Revision != revision || seen.ChartDigest != "" {
			b.t.Fatalf("%s: %+v", what, seen)
		}
		if drift := seen.Drift["ConfigMap/other-tool/app data.url"]; drift != "none → postgres://app:(sensitive value)@db" {
			b.t.Errorf("drift after %s: %s", what, drift)
		}
		if by := seen.Drift["Release/other-tool/other-tool revision"]; !strings.Contains(by, "what revision 1 was") {
			b.t.Errorf("drift after %s: %v", what, seen.Drift)
		}
		leaks(b.t, "what was seen after "+what, fmt.Sprint(seen), first, second)
		outlook := b.plan()
		if change := outlook.Changes["ConfigMap/other-tool/app data.url"]; change != "postgres://app:(sensitive value)@db → postgres://app:(sensitive value)@db" {
			b.t.Errorf("change after %s: %s", what, change)
		}
		leaks(b.t, "the plan after "+what, fmt.Sprint(outlook), first, second)
	}
	hidden("an upgrade by Helm", 2)
	rollback := action.NewRollback(b.helm())
	rollback.Version = 1
	if err := rollback.Run(b.spec.Name); err != nil {
		b.t.Fatal(err)
	}
	hidden("a rollback by Helm", 3)
	if seen := b.apply(); seen.Revision != 4 || len(seen.Drift) > 0 {
		b.t.Errorf("after the apply: %+v", seen)
	}
}

// A value that was open and is declared secret is hidden from then on, though nothing of the release changes (promise 7).
func testSecretSince(b *bench) {
	b.values("text: hunter-2")
	if seen := b.apply(); seen.Values["text"] != "hunter-2" {
		b.t.Fatalf("values: %v", seen.Values)
	}
	b.spec.Secrets = []string{"text"}
	if outlook := b.plan(); outlook.Verdict != Repair {
		b.t.Errorf("the plan: %+v", outlook)
	}
	hidden := func(what string, seen *Seen) {
		b.t.Helper()
		if seen.Revision != 1 {
			b.t.Errorf("%s: revision %d", what, seen.Revision)
		}
		leaks(b.t, what, fmt.Sprint(seen), "hunter-2")
	}
	seen := b.apply()
	hidden("the apply", &seen)
	b.kubectl("patch", "configmap", "secret-since-settings", "-p", `{"data":{"text":"none"}}`)
	found := b.read(1)
	hidden("the next look", found)
	b.same("drift", found.Drift, map[string]string{"ConfigMap/secret-since/secret-since-settings data.text": "none → (sensitive value)"})
	records, err := history(b.context(), b.afresh(), b.spec.Ref)
	if err != nil || len(records) != 1 || records[0].Config["text"] != "hunter-2" {
		b.t.Fatalf("the records: %v, %v", records, err)
	}
	// As Helm leaves it that writes it anew.
	b.kubectl("annotate", "secret", secretName("secret-since", 1), annotationSecrets+"-")
	hidden("a look at the record without annotations", b.read(1))
}
