package release

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// A CRD that is a hook is changed and never made anew, whatever its policy says, by an upgrade as by one that goes on from
// another: with it would go all objects of it, whoever made them (promises 3 and 5).
func testHookCRD(b *bench) {
	const group, hook = "hook-crd.example.com", `helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-delete-policy: "before-hook-creation,hook-succeeded,hook-failed", `
	load := func(version string, fields ...string) string {
		return b.chart(version, map[string]string{"templates/crd.yaml": boats(group, hook, fields...), "values.yaml": "text: " + version + "\n"})
	}
	load("1.0.0", "one")
	b.apply()
	b.established("boats." + group)
	b.create("apiVersion: " + group + "/v1\nkind: Boat\nmetadata: {name: theirs, namespace: default}\nspec: {one: a}\n")
	uids := func() string {
		return b.plane.Kubectl(b.t, "get", "crd/boats."+group, "-o", "jsonpath={.metadata.uid} ") + b.plane.Kubectl(b.t, "get", "boats."+group, "theirs", "-n", "default", "-o", "jsonpath={.metadata.uid}")
	}
	fields := func() string {
		return b.plane.Kubectl(b.t, "get", "crd/boats."+group, "-o", "go-template={{range $name, $x := (index .spec.versions 0).schema.openAPIV3Schema.properties.spec.properties}}{{$name}} {{end}}")
	}
	before := uids()
	same := func(what, want string) {
		b.t.Helper()
		if now := uids(); now != before {
			b.t.Fatalf("after %s the CRD and its object are %s, were %s", what, now, before)
		}
		if now := fields(); now != want {
			b.t.Errorf("after %s the CRD has the fields %s, want %s", what, now, want)
		}
	}
	load("1.1.0", "one", "two")
	if seen := b.apply(); seen.Revision != 2 {
		b.t.Errorf("after the upgrade: %+v", seen)
	}
	same("an upgrade", "one two ")
	b.noDrift("after the upgrade")

	// Killed after the hook and before the first object: the record, the start of the hook, the CRD, and then the ConfigMap.
	folder := load("1.2.0", "one", "three")
	if !b.killedAt(4, fleettest.BeforeWrite, "apply", folder) {
		b.t.Fatal("the upgrade had fewer writes")
	}
	same("a killed upgrade", "one three ")
	if status := b.label(3, labelStatus); status != "pending-upgrade" {
		b.t.Fatalf("the killed revision is %s", status)
	}
	if seen := b.apply(); seen.Revision != 4 || seen.Status != "deployed" {
		b.t.Errorf("after the next apply: %+v", seen)
	}
	same("the next apply", "one three ")

	b.remove(Removal{Terms: b.terms})
	same("an uninstall", "one three ")
	b.terms.Held = false
	load("1.3.0", "one")
	b.apply()
	same("another install", "one ")
}

// Objects that an uninstall would leave (adopted ones, and ones whose manifest asks to be kept) would go with their CRD all
// the same: it is refused (promise 3). Where the CRD itself stays, they do.
func testKeptObjects(b *bench) {
	const group, kind = "kept-objects.example.com", "Boat/kept-objects/"
	boat := func(name, annotations string) string {
		return "apiVersion: " + group + "/v1\nkind: Boat\nmetadata: {name: " + name + ", annotations: {" + annotations + "}}\nspec: {}\n"
	}
	crd := map[string]string{"templates/crd.yaml": boats(group, "")}
	b.chart("1.0.0", crd)
	b.apply()
	b.established("boats." + group)
	for _, name := range []string{"adopted", "by-hand"} {
		b.create(strings.Replace(boat(name, ""), "metadata: {", "metadata: {namespace: kept-objects, ", 1))
	}
	adopted := b.uid("boats."+group, "adopted")
	crd["templates/boats.yaml"] = strings.Join([]string{boat("adopted", ""), boat("kept", "helm.sh/resource-policy: keep"), boat("by-hand", ""), boat("ours", "")}, "---\n")
	b.chart("1.1.0", crd)
	b.terms.Adopt = true
	b.apply()
	b.kubectl("annotate", "boats."+group, "by-hand", "berth.dev/adopted-", "helm.sh/resource-policy=keep")
	b.noDriftBut(1)
	summary := "Objects of CRDs of release kept-objects/kept-objects still exist"
	planned := b.planRemoval(Removal{Terms: b.terms})
	if len(planned) == 0 || planned[0].Summary != summary {
		b.t.Fatalf("plan of the removal: %v", planned)
	}
	_, err := Remove(b.context(), b.afresh(), b.spec.Ref, Removal{Terms: b.terms})
	refused(b.t, err, "", summary, "Nothing was deleted", kind+"adopted", kind+"kept", kind+"by-hand")
	for _, text := range []string{planned[0].Detail, err.Error()} {
		if strings.Contains(text, kind+"ours") {
			b.t.Errorf("an object that just goes is in the way: %s", text)
		}
	}
	b.load(small(b.t, "1.2.0", nil))
	refused(b.t, b.planError(), "", "this change takes away CRDs", kind+"adopted", kind+"kept", kind+"by-hand")
	if left := b.names("boats." + group); left != "adopted by-hand kept ours" || b.uid("boats."+group, "adopted") != adopted {
		b.t.Errorf("after the refusals there is %s", left)
	}

	// With a CRD that stays, what is to be kept is kept, and nothing is in the way.
	b.plane.Kubectl(b.t, "annotate", "crd", "boats."+group, "helm.sh/resource-policy=keep")
	stays := fmt.Sprint(b.remove(Removal{Terms: b.terms}))
	for _, name := range []string{"CustomResourceDefinition/boats." + group, kind + "adopted", kind + "kept", kind + "by-hand"} {
		if !strings.Contains(stays, name+": ") {
			b.t.Errorf("%s is not said to stay: %s", name, stays)
		}
	}
	if left := b.names("boats." + group); left != "adopted by-hand kept" || b.uid("boats."+group, "adopted") != adopted {
		b.t.Errorf("after the uninstall there is %s", left)
	}
}

// A CRD that was there before the release stays, with all objects of it: they are in the way of nothing (promise 3).
func testAdoptedCRD(b *bench) {
	const group = "adopted-crd.example.com"
	crd := boats(group, "")
	b.create(crd)
	b.established("boats." + group)
	b.create("apiVersion: " + group + "/v1\nkind: Boat\nmetadata: {name: theirs, namespace: default}\nspec: {}\n")
	uids := func() string {
		return b.uid("crd", "boats."+group) + b.plane.Kubectl(b.t, "get", "boats."+group, "theirs", "-n", "default", "-o", "jsonpath={.metadata.uid}")
	}
	before := uids()
	b.chart("1.0.0", map[string]string{"templates/crd.yaml": crd})
	b.terms.Adopt = true
	b.apply()
	if planned := b.planRemoval(Removal{Terms: b.terms}); len(planned) > 0 {
		b.t.Errorf("plan of the removal: %v", planned)
	}
	if stays := fmt.Sprint(b.remove(Removal{Terms: b.terms})); !strings.Contains(stays, "CustomResourceDefinition/boats."+group+": it was there before the release was") {
		b.t.Errorf("what stays: %s", stays)
	}
	if now := uids(); now != before {
		b.t.Errorf("after the uninstall the CRD and its object are %s, were %s", now, before)
	}
	b.nothingLeft()
}

// noDriftBut checks that there is no drift; fields that somebody added are told of.
func (b *bench) noDriftBut(extra int) {
	b.t.Helper()
	if seen := b.read(0); len(seen.Drift) > 0 || len(seen.Warnings) != extra {
		b.t.Errorf("drift %v, extra %v", seen.Drift, seen.Warnings)
	}
}

// A webhook that does not work stands in the way of no plan: the change that cannot be tried may be what repairs it
// (promise 1: what moves by itself warns).
func testBrokenWebhook(b *bench) {
	const group = "webhook.example.com"
	var healthy atomic.Bool
	healthy.Store(true)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !healthy.Load() {
			http.Error(w, "out of order, last seen with very-secret", http.StatusInternalServerError)
			return
		}
		var review struct {
			Request struct{ UID types.UID }
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":true}}`, review.Request.UID)
	}))
	b.t.Cleanup(server.Close)
	load := func(version, image string) {
		b.chart(version, map[string]string{
			"crds/boats.yaml": boats(group, "", "length"), "templates/webhook.yaml": strings.Replace(idleDeployment("webhook", ""), "example.com/a", image, 1),
			"templates/boat.yaml": "apiVersion: " + group + "/v1\nkind: Boat\nmetadata: {name: boat}\nspec: {length: \"" + version + "\"}\n",
		})
	}
	b.spec.Wait = false
	load("1.0.0", "example.com/broken")
	b.apply()
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	b.create(fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: boats.%[1]s}
webhooks:
  - name: boats.%[1]s
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: Fail
    clientConfig: {url: %[2]s, caBundle: %[3]s}
    rules: [{apiGroups: [%[1]s], apiVersions: [v1], resources: [boats], operations: [CREATE, UPDATE]}]
`, group, server.URL, ca))
	healthy.Store(false)
	try := b.plane.Dynamic().Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: "boats"}).Namespace("webhook")
	fleettest.Eventually(b.t, func(ctx context.Context) error {
		_, err := try.Patch(ctx, "boat", types.MergePatchType, []byte(`{"spec":{"length":"a"}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("the API server does not ask the webhook yet")
		}
		return nil
	})

	load("1.1.0", "example.com/mended")
	values, err := MergeValues(nil, map[string]string{"password": "very-secret"})
	if err != nil {
		b.t.Fatal(err)
	}
	b.spec.Values, b.spec.Secrets = values, []string{"password"}
	outlook := b.plan()
	if outlook.Verdict != Upgrade || outlook.Changes["Boat/webhook/boat spec.length"] != "1.0.0 → 1.1.0" {
		b.t.Errorf("the plan: %+v", outlook)
	}
	if len(outlook.Warnings) != 1 || outlook.Warnings[0].Summary != "The change of Boat/webhook/boat of release webhook/webhook could not be tried" ||
		!strings.Contains(outlook.Warnings[0].Detail, "boats."+group) || strings.Contains(outlook.Warnings[0].Detail, "very-secret") {
		b.t.Errorf("warnings: %v", outlook.Warnings)
	}
	b.applyFails("Boat/webhook/boat of release webhook/webhook cannot be changed", "boats."+group, "apply again")

	// A cluster that does not answer is still no warning.
	restore := b.proxy.Fail(func(r fleettest.Request) bool { return r.DryRun }, fleettest.BadGateway)
	if _, err := Plan(b.context(), b.afresh(), b.spec, b.terms); !cluster.Unreachable(err) {
		b.t.Errorf("a plan without the cluster: %v", err)
	}
	restore()

	// The webhook runs in the release's Deployment, which is written before the object.
	load("1.2.0", "example.com/really-mended")
	b.proxy.OnWrite(nil, func(_ int, r fleettest.Request) {
		if r.Resource == "deployments" {
			healthy.Store(true)
		}
	})
	if seen := b.apply(); seen.Status != "deployed" || !healthy.Load() {
		b.t.Errorf("after the apply: %+v", seen)
	}
	b.noDrift("after the apply")
}
