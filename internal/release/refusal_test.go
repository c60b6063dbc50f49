package release

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// small is a chart of one ConfigMap, and what else a test adds.
func small(t *testing.T, version string, files map[string]string) string {
	t.Helper()
	all := map[string]string{"templates/settings.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-settings}\ndata: {text: \"{{ .Values.text }}\"}\n", "values.yaml": "text: hello\n"}
	maps.Copy(all, files)
	return charts.Folder(t, "small", version, all)
}

// refused checks that an error is a diagnostic with these texts in it.
func refused(t *testing.T, err error, attribute string, texts ...string) {
	t.Helper()
	problem, told := asProblem(err)
	if !told {
		t.Fatalf("no diagnostic but %v", err)
	}
	if problem.Attribute != attribute {
		t.Errorf("attribute %q, want %q", problem.Attribute, attribute)
	}
	for _, text := range texts {
		if !strings.Contains(problem.Error(), text) {
			t.Errorf("%q is not in: %s", text, problem.Error())
		}
	}
}

func (b *bench) planError() error {
	b.t.Helper()
	_, err := Plan(b.context(), b.afresh(), b.spec, b.terms)
	if err == nil {
		b.t.Fatal("the plan is not refused")
	}
	_, _, applied := Apply(b.context(), b.afresh(), b.spec, b.terms)
	if applied == nil || applied.Error() != err.Error() {
		b.t.Errorf("the apply says %v, the plan %v", applied, err)
	}
	return err
}

// What is refused is refused at plan and, in the same words, before the first write of an apply (promises 1 and 3).
func TestRefusals(t *testing.T) {
	plane := crashPlane(t)
	chartOn := func(t *testing.T, name string, files map[string]string) *bench {
		return newBenchOn(t, plane, name, small(t, "1.0.0", files))
	}
	t.Run("no namespace", func(t *testing.T) {
		b := chartOn(t, "no-namespace", nil)
		b.spec.CreateNamespace = false
		if outlook := b.plan(); len(outlook.Warnings) != 1 || outlook.Warnings[0].Summary != `Namespace "no-namespace" of release no-namespace/no-namespace does not exist` {
			t.Errorf("warnings: %v", outlook.Warnings)
		}
		_, _, err := Apply(b.context(), b.afresh(), b.spec, b.terms)
		refused(t, err, "namespace", `Namespace "no-namespace" of release no-namespace/no-namespace does not exist`, "Nothing was applied", "create_namespace = true")
	})
	t.Run("no kind", func(t *testing.T) {
		b := chartOn(t, "no-kind", map[string]string{"templates/x.yaml": "apiVersion: unheard.example.com/v1\nkind: Thing\nmetadata: {name: x}\n"})
		if outlook := b.plan(); !outlook.Incomplete || len(outlook.Warnings) != 1 || !strings.Contains(outlook.Warnings[0].Summary, "needs kinds that the cluster does not have yet") {
			t.Errorf("the plan: %+v", outlook)
		}
		_, _, err := Apply(b.context(), b.afresh(), b.spec, b.terms)
		refused(t, err, "", "needs kinds that the cluster does not have", `unheard.example.com/v1 (of Thing "x")`, "Install first what brings the CRDs")
	})
	t.Run("schema", func(t *testing.T) {
		b := chartOn(t, "schema", map[string]string{"values.schema.json": `{"properties": {"text": {"type": "integer"}}}`})
		refused(t, b.planError(), "values", "The values of release schema/schema do not fit the chart", "text", "Nothing was applied")
	})
	t.Run("template", func(t *testing.T) {
		b := chartOn(t, "template", map[string]string{"templates/x.yaml": `{{ fail (printf "no such thing: %s" .Values.password) }}`})
		values, err := MergeValues([]string{"text: hello"}, map[string]string{"password": "very-secret"})
		if err != nil {
			t.Fatal(err)
		}
		b.spec.Values, b.spec.Secrets = values, []string{"password"}
		err = b.planError()
		refused(t, err, "chart", "does not render", "no such thing: (sensitive value)", "templates/x.yaml", "Nothing was applied")
		if strings.Contains(err.Error(), "very-secret") {
			t.Errorf("a secret is in the error: %v", err)
		}
	})
	t.Run("kubernetes version", func(t *testing.T) {
		b := chartOn(t, "old", map[string]string{"Chart.yaml": "apiVersion: v2\nname: small\nversion: 1.0.0\nkubeVersion: \">= 99\"\n"})
		refused(t, b.planError(), "chart", "Chart small 1.0.0 is not made for this cluster", ">= 99", "Nothing was applied")
	})
	t.Run("twice", func(t *testing.T) {
		b := chartOn(t, "twice", map[string]string{"templates/x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-settings}\n"})
		refused(t, b.planError(), "chart", "renders ConfigMap/twice/twice-settings twice")
	})
	t.Run("foreign objects", func(t *testing.T) {
		b := chartOn(t, "foreign", map[string]string{"templates/x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kept}\n"})
		b.plane.Kubectl(t, "create", "namespace", "foreign")
		b.kubectl("create", "configmap", "foreign-settings")
		b.kubectl("create", "configmap", "kept")
		b.kubectl("annotate", "configmap", "kept", "argocd.argoproj.io/tracking-id=guestbook:/ConfigMap:foreign/kept")
		refused(t, b.planError(), "adopt", "wants 2 object(s) that are somebody else's",
			"ConfigMap/foreign/foreign-settings exists, and was put there by somebody else", "ConfigMap/foreign/kept is kept in place by argocd/guestbook", "Set adopt = true")
		b.terms.Adopt = true
		refused(t, b.planError(), "adopt", "wants 1 object(s)", "argocd/guestbook, which adopt_from does not name")
		b.terms.AdoptFrom = []string{"argocd/guestbook"}
		uid := b.kubectl("get", "configmap", "foreign-settings", "-o", "jsonpath={.metadata.uid}")
		if outlook := b.plan(); len(outlook.Warnings) != 2 || !strings.Contains(outlook.Warnings[0].Summary, "exists and will be adopted by release foreign/foreign") {
			t.Errorf("warnings: %v", outlook.Warnings)
		}
		b.apply()
		b.noDrift("after the adoption")
		if now := b.kubectl("get", "configmap", "foreign-settings", "-o", "jsonpath={.metadata.uid} {.data.text}"); now != uid+" hello" {
			t.Errorf("adopted: %s, was %s", now, uid)
		}
		// What was there before stays, without the marks of Helm.
		b.terms.Held = true
		if stays := b.remove(Removal{Terms: b.terms}); len(stays) == 0 || !strings.Contains(fmt.Sprint(stays), "ConfigMap/foreign/foreign-settings: it was there before the release was") {
			t.Errorf("what stays: %v", stays)
		}
		if left := b.kubectl("get", "configmap", "foreign-settings", "-o", "jsonpath={.metadata.labels}{.metadata.annotations}"); left != "" {
			t.Errorf("marks left: %s", left)
		}
	})
	t.Run("foreign release", func(t *testing.T) {
		b := chartOn(t, "theirs", nil)
		ours := b.terms.Owner
		b.terms.Owner = kube.Owner{Configuration: "other", Resource: "release.theirs"}
		b.apply()
		b.terms = kube.Terms{Owner: ours}
		refused(t, b.planError(), "", "Release theirs/theirs belongs to another owner", `release.theirs of the configuration with owner "other"`, "Nothing was applied")
		// Without berth's marks it is one of Helm's.
		b.kubectl("label", "secret", "sh.helm.release.v1.theirs.v1", "berth.dev/owner-", "berth.dev/revision-")
		b.kubectl("annotate", "secret", "sh.helm.release.v1.theirs.v1", "berth.dev/owner-")
		refused(t, b.planError(), "name", "Release theirs/theirs exists and is not berth's", "chart small 1.0.0, revision 1, deployed", "Set adopt = true")
		b.terms.Adopt = true
		outlook := b.plan()
		if !outlook.Adopts || outlook.Verdict != Repair || len(outlook.Changes) > 0 {
			t.Errorf("the adoption: %+v", outlook)
		}
		if seen := b.apply(); seen.Revision != 1 || seen.ChartDigest != b.spec.Chart.Digest {
			t.Errorf("adopted: %+v", seen)
		}
		if stays := b.remove(Removal{Terms: b.terms}); len(stays) != 1 || !strings.Contains(stays[0].Detail, "it was adopted, and berth uninstalls only what it installed") {
			t.Errorf("what stays: %v", stays)
		}
		if labels := b.kubectl("get", "secret", "sh.helm.release.v1.theirs.v1", "-o", "jsonpath={.metadata.labels}"); strings.Contains(labels, "berth") {
			t.Errorf("marks left: %s", labels)
		}
	})
	t.Run("k3s", func(t *testing.T) {
		b := chartOn(t, "k3s", nil)
		b.apply()
		b.kubectl("label", "secret", "sh.helm.release.v1.k3s.v1", "berth.dev/owner-", "berth.dev/revision-")
		b.kubectl("annotate", "secret", "sh.helm.release.v1.k3s.v1", "berth.dev/owner-")
		b.create(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: helmcharts.helm.cattle.io}
spec:
  group: helm.cattle.io
  scope: Namespaced
  names: {kind: HelmChart, plural: helmcharts, singular: helmchart, listKind: HelmChartList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`)
		b.plane.Kubectl(t, "wait", "--for=condition=Established", "crd/helmcharts.helm.cattle.io")
		b.create("apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {name: k3s, namespace: kube-system}\nspec: {targetNamespace: k3s}\n")
		b.terms.Held, b.terms.Adopt = false, true
		refused(t, b.planError(), "adopt_from", "is kept by somebody else", `k3s/kube-system/k3s`, `adopt_from = ["k3s/kube-system/k3s"]`)
	})
	t.Run("objects of a CRD", func(t *testing.T) {
		b := newBenchOn(t, plane, "valves", charts.TemplateCRD(t))
		// Without controllers no namespace ever goes.
		b.spec.CreateNamespace = false
		b.plane.Kubectl(t, "create", "namespace", "valves")
		b.apply()
		b.create("apiVersion: template.example.com/v1\nkind: Valve\nmetadata: {name: theirs, namespace: default}\n")
		warnings, err := PlanRemoval(b.context(), b.afresh(), b.spec.Ref, Removal{Terms: b.terms})
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0].Detail, "will be refused unless they are gone by then") {
			t.Errorf("plan of the removal: %v, %v", warnings, err)
		}
		_, err = Remove(b.context(), b.afresh(), b.spec.Ref, Removal{Terms: b.terms})
		refused(t, err, "", "Objects of CRDs of release valves/valves still exist", "Valve/default/theirs", "Nothing was deleted")
		b.load(small(t, "1.0.0", nil))
		refused(t, b.planError(), "", "this change takes away CRDs", "Valve/default/theirs")
		b.plane.Kubectl(t, "delete", "valve", "theirs")
		b.load(charts.TemplateCRD(t))
		b.remove(Removal{Terms: b.terms})
		if left := b.plane.Kubectl(t, "get", "crd", "-o", "name"); strings.Contains(left, "valves") {
			t.Errorf("the CRD is left: %v", left)
		}
	})
	t.Run("immutable", func(t *testing.T) {
		deployment := func(label string) map[string]string {
			return map[string]string{"templates/x.yaml": fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: fixed}\nspec:\n  selector: {matchLabels: {app: %[1]s}}\n  template: {metadata: {labels: {app: %[1]s}}, spec: {containers: [{name: a, image: example.com/a}]}}\n", label)}
		}
		b := chartOn(t, "immutable", deployment("one"))
		b.spec.Wait = false
		b.apply()
		b.load(small(t, "1.1.0", deployment("two")))
		outlook := b.plan()
		if len(outlook.Warnings) != 1 || !strings.Contains(outlook.Warnings[0].Summary, "The API server will refuse the change of Deployment/immutable/fixed") || !strings.Contains(outlook.Warnings[0].Detail, "field is immutable") {
			t.Errorf("warnings: %v", outlook.Warnings)
		}
		_, _, err := Apply(b.context(), b.afresh(), b.spec, b.terms)
		refused(t, err, "", "Deployment/immutable/fixed of release immutable/immutable cannot be changed", "field is immutable", "kubectl --context")
		b.kubectl("delete", "deployment", "fixed")
		b.apply()
		b.noDrift("after the object was made anew")
	})
	t.Run("busy", func(t *testing.T) {
		b := chartOn(t, "busy", nil)
		b.apply()
		b.kubectl("label", "secret", "sh.helm.release.v1.busy.v1", "status=pending-upgrade", "--overwrite")
		pend := func(manager string) {
			secret, err := b.plane.Client().CoreV1().Secrets("busy").Get(t.Context(), "sh.helm.release.v1.busy.v1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			records, err := history(b.context(), b.afresh(), b.spec.Ref)
			if err != nil {
				t.Fatal(err)
			}
			records[0].Info.Status = "pending-upgrade"
			body, err := encode(records[0].Release)
			if err != nil {
				t.Fatal(err)
			}
			secret.Data["release"] = []byte(decodeOnce(t, body))
			if _, err := b.plane.Client().CoreV1().Secrets("busy").Update(t.Context(), secret, metav1.UpdateOptions{FieldManager: manager}); err != nil {
				t.Fatal(err)
			}
		}
		pend("helm")
		err := b.planError2()
		refused(t, err, "", "Release busy/busy is being worked on by helm", "began revision 1 of it", "Nothing was applied", "plan again 10m0s after it began")
		records, err := history(b.context(), b.afresh(), b.spec.Ref)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := busy(b.afresh(), b.spec.Ref, records, time.Now().Add(foreignFor+time.Second)); err != nil {
			t.Errorf("after ten minutes: %v", err)
		}
	})
}

// create creates objects by hand.
func (b *bench) create(manifest string) {
	b.t.Helper()
	b.plane.KubectlInput(b.t, manifest, "apply", "-f", "-")
}

// decodeOnce takes the base64 of a Secret off.
func decodeOnce(t *testing.T, text string) string {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// planError2 is planError for a refusal that tells the time.
func (b *bench) planError2() error {
	b.t.Helper()
	_, err := Plan(b.context(), b.afresh(), b.spec, b.terms)
	if _, _, applied := Apply(b.context(), b.afresh(), b.spec, b.terms); applied == nil || err == nil {
		b.t.Fatalf("not refused: the plan says %v, the apply %v", err, applied)
	}
	return err
}

// A berth process that lives is not disturbed; what it leaves is gone on with (promise 5).
func TestTwoAtOnce(t *testing.T) {
	b := newBenchOn(t, crashPlane(t), "two", small(t, "1.0.0", map[string]string{
		// Nothing completes it, so that the install goes on for as long as the test wants.
		"templates/hook.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: hook, annotations: {helm.sh/hook: post-install}}\nspec: {containers: [{name: a, image: example.com/a}]}\n",
	}))
	b.spec.CreateNamespace = false
	b.plane.Kubectl(t, "create", "namespace", "two")
	b.plane.Kubectl(t, "-n", "two", "create", "serviceaccount", "default")
	process, output := b.start("apply", small(t, "1.0.0", map[string]string{"templates/hook.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: hook, annotations: {helm.sh/hook: post-install}}\nspec: {containers: [{name: a, image: example.com/a}]}\n"}))
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := b.plane.Client().CoreV1().Pods("two").Get(ctx, "hook", metav1.GetOptions{})
		return err == nil, nil
	}); err != nil {
		t.Fatal(err, output)
	}
	ctx, cancel := context.WithTimeout(b.context(), 30*time.Second)
	defer cancel()
	_, _, err := Apply(ctx, b.afresh(), b.spec, b.terms)
	refused(t, err, "", "Release two/two is being worked on", "another process of berth (process ", "at revision 1", "pending-install", "Nothing was applied")
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait()
	b.load(small(t, "1.0.0", nil))
	if seen := b.apply(); seen.Status != "deployed" || seen.Revision != 2 {
		t.Errorf("after the first was killed: %+v", seen)
	}
	b.noDrift("after the first was killed")
}
