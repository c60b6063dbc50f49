package release

import (
	"maps"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
)

const workload = `apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  replicas: 2
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec:
      containers:
        - name: app
          image: example.com/app:1
          env: [{name: OURS, value: "1"}]
          resources: {requests: {cpu: 1000m}}
---
apiVersion: v1
kind: Secret
metadata: {name: app}
stringData: {password: from-the-chart}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: app}
data: {one: "1", two: "2"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: exempt, annotations: {berth.dev/ignore-drift: "true"}}
data: {one: "1"}
`

// What is drift of a release and what is not (promise 6): fields of ours that somebody changed are; what the cluster
// defaults, what controllers own, what was named in ignore_drift and what is exempt are not; and what somebody added is
// told, left, or taken away.
func TestWhatIsDrift(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, crashPlane(t), "drift", charts.Folder(t, "drift", "1.0.0", map[string]string{"templates/all.yaml": workload}))
	b.spec.Wait = false
	b.apply()
	b.noDrift("at first")
	drift := func(what string, want map[string]string) *Seen {
		t.Helper()
		seen := b.read(1)
		if !maps.Equal(seen.Drift, want) {
			t.Errorf("%s: drift %v, want %v", what, seen.Drift, want)
		}
		return seen
	}
	none := map[string]string{}

	b.kubectl("patch", "deployment", "app", "--subresource=scale", "--field-manager=kube-controller-manager", "--type=merge", "-p", `{"spec":{"replicas":5}}`)
	drift("an autoscaler's replicas", none)
	b.kubectl("scale", "deployment", "app", "--replicas=3")
	drift("replicas by hand", map[string]string{"Deployment/drift/app spec.replicas": "3 → 2"})

	b.kubectl("patch", "secret", "app", "-p", `{"stringData":{"password":"by-hand"}}`)
	b.kubectl("patch", "configmap", "app", "-p", `{"data":{"one":"by hand","added":"by hand"}}`)
	b.kubectl("patch", "configmap", "exempt", "-p", `{"data":{"one":"by hand"}}`)
	b.kubectl("set", "env", "deployment/app", "THEIRS=1")
	b.kubectl("annotate", "configmap", "app", "meta.helm.sh/release-name=another", "--overwrite")
	broken := map[string]string{
		"Deployment/drift/app spec.replicas":                                   "3 → 2",
		"Secret/drift/app data.password":                                       "(sensitive value) → (sensitive value)",
		"ConfigMap/drift/app data.one":                                         "by hand → 1",
		"ConfigMap/drift/app metadata.annotations.[meta.helm.sh/release-name]": "another → drift",
	}
	seen := drift("by hand", broken)
	var extra []string
	for _, warning := range seen.Warnings {
		extra = append(extra, warning.Summary)
	}
	for _, want := range []string{"ConfigMap/drift/app data.added (by kubectl-patch): by hand", "spec.template.spec.containers[name=app].env[name=THEIRS] (by kubectl-set)"} {
		if !strings.Contains(strings.Join(extra, "\n"), want) {
			t.Errorf("%q is not among the extra fields: %v", want, extra)
		}
	}
	if len(extra) != 2 {
		t.Errorf("extra fields: %v", extra)
	}

	b.spec.ExtraFields = ExtraIgnore
	if seen := drift("extra fields ignored", broken); len(seen.Warnings) > 0 {
		t.Errorf("warnings: %v", seen.Warnings)
	}
	b.spec.IgnoreDrift = []Ignore{{Kind: "Deployment", Paths: []string{"/spec/replicas"}}, {Kind: "Secret", Name: "app"}}
	drift("ignored", map[string]string{
		"ConfigMap/drift/app data.one": "by hand → 1", "ConfigMap/drift/app metadata.annotations.[meta.helm.sh/release-name]": "another → drift",
	})
	b.apply()
	if left := b.kubectl("get", "configmap", "app", "-o", "jsonpath={.data.one} {.data.added}"); left != "1 by hand" {
		t.Errorf("after the repair of what is not ignored: %s", left)
	}
	if left := b.kubectl("get", "deployment", "app", "-o", "jsonpath={.spec.replicas}"); left != "3" {
		t.Errorf("what is ignored was changed: %s", left)
	}

	b.spec.IgnoreDrift, b.spec.ExtraFields = nil, ExtraRemove
	drift("extra fields to be removed", map[string]string{
		"Deployment/drift/app spec.replicas":                                            "3 → 2",
		"Deployment/drift/app spec.template.spec.containers[name=app].env[name=THEIRS]": "`{\"name\":\"THEIRS\",\"value\":\"1\"}` → (none)",
		"Secret/drift/app data.password":                                                "(sensitive value) → (sensitive value)",
		"ConfigMap/drift/app data.added":                                                "by hand → (none)",
	})
	if seen := b.apply(); seen.Revision != 1 {
		t.Errorf("the repair made revision %d", seen.Revision)
	}
	b.noDrift("after the repair")
	if left := b.kubectl("get", "deployment", "app", "-o", "jsonpath={.spec.replicas} {.spec.template.spec.containers[0].env}"); left != `2 [{"name":"OURS","value":"1"}]` {
		t.Errorf("after the repair: %s", left)
	}
	if left := b.kubectl("get", "secret", "app", "-o", "jsonpath={.data.password}"); left != "ZnJvbS10aGUtY2hhcnQ=" {
		t.Errorf("after the repair: %s", left)
	}
	if left := b.kubectl("get", "configmap", "exempt", "-o", "jsonpath={.data.one}"); left != "by hand" {
		t.Errorf("what is exempt was changed: %s", left)
	}
}

// A chart that comes out differently each time is planned without a promise, and is no drift (X8 of helm's own pains: a
// random password must not make a plan that never ends).
func TestRandomCharts(t *testing.T) {
	t.Parallel()
	plane := crashPlane(t)
	b := newBenchOn(t, plane, "random-chart", charts.Random(t))
	if outlook := b.plan(); outlook.Objects["Secret/random-chart/random-chart-random"] != "" {
		t.Errorf("promised: %v", outlook.Objects)
	}
	b.apply()
	b.noDrift("a random password")
	if outlook := b.plan(); outlook.Verdict != Repair || len(outlook.Changes) > 0 {
		t.Errorf("the next plan: %+v", outlook)
	}
	l := newBenchOn(t, plane, "lookup-chart", charts.Lookup(t))
	l.apply()
	password := l.kubectl("get", "secret", "lookup-chart-lookup", "-o", "jsonpath={.data.password}")
	l.values("changed: true")
	if outlook := l.plan(); outlook.Verdict != Upgrade || len(outlook.Changes) > 0 {
		t.Errorf("a change that changes no object: %+v", outlook)
	}
	l.apply()
	if now := l.kubectl("get", "secret", "lookup-chart-lookup", "-o", "jsonpath={.data.password}"); now != password {
		t.Error("lookup did not find the password")
	}
	l.noDrift("a password that was looked up")
}

// Secret values appear in no plan, no drift and no digest that a table would know (promise 7).
func TestSecretValues(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, crashPlane(t), "secret-values", charts.Folder(t, "secrets", "1.0.0", map[string]string{
		"templates/all.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {url: \"postgres://app:{{ .Values.db.password }}@db\"}\n",
	}))
	set := func(secret string) {
		values, err := MergeValues([]string{"a: 1"}, map[string]string{"db.password": secret})
		if err != nil {
			t.Fatal(err)
		}
		b.spec.Values, b.spec.Secrets = values, []string{"db.password"}
	}
	set("hunter-2-first")
	seen := b.apply()
	if _, there := seen.Values["db"].(map[string]any)["password"]; there {
		t.Errorf("values: %v", seen.Values)
	}
	b.kubectl("patch", "configmap", "app", "-p", `{"data":{"url":"none"}}`)
	if drift := b.read(1).Drift["ConfigMap/secret-values/app data.url"]; drift != "none → postgres://app:(sensitive value)@db" {
		t.Errorf("drift: %s", drift)
	}
	b.apply()
	set("hunter-2-second")
	if change := b.plan().Changes["ConfigMap/secret-values/app data.url"]; strings.Contains(change, "hunter") || !strings.Contains(change, "(sensitive value)") {
		t.Errorf("change: %s", change)
	}
}
