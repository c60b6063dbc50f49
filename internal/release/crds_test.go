package release

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// TestCRDs runs all that needs a control plane on one, each part with an API group of its own.
func TestCRDs(t *testing.T) {
	plane := fleettest.NewCluster(t, fleettest.ClusterSpec{Name: "crds", ControlPlaneOnly: true})
	for name, test := range map[string]func(*testing.T, *crdFixture){
		"created": testCRDCreated, "upgraded": testCRDUpgraded, "policy-install": testCRDInstall, "policy-skip": testCRDSkip,
		"kept": testCRDKept, "own": testCRDOwn, "held-label": testCRDHeldLabel, "stored": testCRDStored, "stored-only": testCRDStoredOnly,
		"bundle": testCRDBundle, "placeholder": testCRDPlaceholder, "drift": testCRDDrift, "imported": testCRDImported, "two-releases": testCRDTwoReleases, "race": testCRDRace,
		"deleted": testCRDDeleted, "refused": testCRDRefused, "names": testCRDNames, "objects": testCRDObjects,
	} {
		t.Run(name, func(t *testing.T) { test(t, newCRDFixture(t, plane, name+".example.com")) })
	}
}

// A CRD is created, Established and served when the call returns, and costs one list to look at afterwards (promise 12).
func testCRDCreated(t *testing.T, f *crdFixture) {
	crds := f.chart("1.0.0", f.gadgets(v("!v1", "size")), crdYAML("widget", f.group, v("!v1")))
	if _, err := f.KindOf(t.Context(), cluster.ConfigMaps.GVK()); err != nil {
		t.Fatal(err) // discovery is known from here on, without the new kinds
	}
	wantCRD(t, "plan", f.verbs(crds, CRDsUpgrade), []string{"create", "create"})
	wantCRD(t, "drift", f.drift(crds, CRDsUpgrade), map[string]string{
		"CustomResourceDefinition/" + f.name: "missing → present", "CustomResourceDefinition/widgets." + f.group: "missing → present",
	})
	wantCRD(t, "writes", f.proxy.Writes(), 0)
	f.plan(f.Cluster, crds, CRDsUpgrade)
	wantCRD(t, "registered in the plan", f.Planned(crdKind, "", f.name), true)
	if _, warnings := f.plan(f.Cluster, crds, CRDsSkip); len(warnings) > 0 {
		t.Errorf("what the plan creates is missing: %v", warnings)
	}

	warnings, err := applyCRDs(t.Context(), f.Cluster, crds, CRDsUpgrade, crdRef)
	wantCRD(t, "warnings", fmt.Sprint(warnings, err), "[] <nil>")
	kind, err := f.KindOf(t.Context(), gadgetKind(f.group, ""))
	wantCRD(t, "kind", fmt.Sprint(kind, err), fmt.Sprint(cluster.Kind{Group: f.group, Version: "v1", Resource: "gadgets", Kind: "Gadget", Namespaced: true}, nil))
	object := kind.New("default", "one")
	if _, err := f.Create(t.Context(), kind, object, kube.FieldManager); err != nil {
		t.Errorf("an object of it: %v", err)
	}
	wantCRD(t, "chart", f.read(f.name).GetAnnotations()[annotationCRDChart], "gadgets 1.0.0")

	f.proxy.Reset()
	wantCRD(t, "plan", f.verbs(crds, CRDsUpgrade), []string{"none", "none"})
	wantCRD(t, "its requests", f.proxy.Counts(), map[string]int{crdLists: 1})
	f.proxy.Reset()
	wantCRD(t, "drift", f.drift(crds, CRDsUpgrade), map[string]string{})
	wantCRD(t, "its requests", f.proxy.Counts(), map[string]int{crdLists: 1})
	f.proxy.Reset()
	if _, err := applyCRDs(t.Context(), f.Cluster, crds, CRDsUpgrade, crdRef); err != nil {
		t.Fatal(err)
	}
	wantCRD(t, "requests of another release in the same process", f.proxy.Counts(), map[string]int{})
}

// A newer chart brings a version and a field, and takes another field away (pain 17: CRDs are never upgraded).
func testCRDUpgraded(t *testing.T, f *crdFixture) {
	f.apply(f.chart("1.0.0", f.gadgets(v("!v1", "color", "size"))), CRDsUpgrade)
	uid := f.read(f.name).GetUID()
	newer := f.chart("1.1.0", f.gadgets(v("v1", "size", "weight"), v("!v2", "size")))
	f.proxy.Reset()
	field := "spec.versions[name=v1].schema.openAPIV3Schema.properties.spec.properties."
	lines := f.verbs(newer, CRDsUpgrade)
	wantCRD(t, "plan", lines[:4], []string{
		"update",
		field + "color: `{\"description\":\"The color.\",\"maxLength\":63,\"type\":\"string\"}` → (none)",
		field + "weight: (none) → `{\"description\":\"The weight.\",\"maxLength\":63,\"type\":\"string\"}`",
		"spec.versions[name=v1].storage: true → false",
	})
	wantCRD(t, "plan", len(lines), 5)
	wantCRDTexts(t, lines[4], "spec.versions[name=v2]: (none) → `{\"name\":\"v2\"")
	wantCRD(t, "writes", f.proxy.Writes(), 0)

	f.apply(newer, CRDsUpgrade)
	wantCRD(t, "versions", f.served(f.name), "v1: size weight, v2: size")
	wantCRD(t, "UID", f.read(f.name).GetUID(), uid)
	wantCRD(t, "chart", f.read(f.name).GetAnnotations()[annotationCRDChart], "gadgets 1.1.0")
	kind, err := f.KindOf(t.Context(), gadgetKind(f.group, "v2"))
	wantCRD(t, "v2", fmt.Sprintf("%s %v", kind.Version, err), "v2 <nil>")
	wantCRD(t, "plan", f.verbs(newer, CRDsUpgrade), []string{"none"})
	wantCRD(t, "drift", f.drift(newer, CRDsUpgrade), map[string]string{})

	// A label that the chart has no longer goes, because it was berth's alone; the next version of the chart is noted
	// without a change of the CRD's own.
	labelled := f.chart("1.2.0", strings.Replace(f.gadgets(v("v1", "size", "weight"), v("!v2", "size")), "metadata:\n", "metadata:\n  labels: {tier: edge}\n", 1))
	wantCRD(t, "plan", f.verbs(labelled, CRDsUpgrade), []string{"update", "metadata.labels.tier: (none) → edge"})
	f.apply(labelled, CRDsUpgrade)
	without := f.chart("1.3.0", f.gadgets(v("v1", "size", "weight"), v("!v2", "size")))
	wantCRD(t, "plan", f.verbs(without, CRDsUpgrade), []string{"update", "metadata.labels.tier: edge → (none)"})
	f.apply(without, CRDsUpgrade)
	wantCRD(t, "labels", f.read(f.name).GetLabels(), map[string]string{labelCRD: "true"})
	next := f.chart("1.4.0", f.gadgets(v("v1", "size", "weight"), v("!v2", "size")))
	wantCRD(t, "plan", f.verbs(next, CRDsUpgrade), []string{"update"})
	f.apply(next, CRDsUpgrade)
	wantCRD(t, "chart", f.read(f.name).GetAnnotations()[annotationCRDChart], "gadgets 1.4.0")

	var many []string
	for i := range 25 {
		many = append(many, fmt.Sprintf("f%02d", i))
	}
	lines = f.verbs(f.chart("1.5.0", f.gadgets(v("v1", "size", "weight"), v("!v2", append(many, "size")...))), CRDsUpgrade)
	wantCRD(t, "a plan with many fields", fmt.Sprintf("%d lines, %s", len(lines), lines[21]), "22 lines, spec.versions[name=v2]: 5 more fields otherwise → as the chart has them")
}

func testCRDInstall(t *testing.T, f *crdFixture) {
	older := f.chart("1.0.0", f.gadgets(v("!v1", "size")))
	wantCRD(t, "plan", f.verbs(older, CRDsInstall), []string{"create"})
	wantCRD(t, "drift", f.drift(older, CRDsInstall), map[string]string{"CustomResourceDefinition/" + f.name: "missing → present"})
	f.apply(older, CRDsInstall)
	wantCRD(t, "versions", f.served(f.name), "v1: size")

	newer := f.chart("1.1.0", f.gadgets(v("!v1", "size", "weight")))
	f.proxy.Reset()
	_, warnings := f.plan(f.afresh(), newer, CRDsInstall)
	wantCRDWarning(t, warnings, "CustomResourceDefinition/"+f.name+" is not as the chart has it",
		"differs from the chart's in spec.versions[name=v1].schema.openAPIV3Schema.properties.spec.properties.weight", "as with Helm, a CRD that exists is never upgraded", `Set crds = "upgrade"`)
	wantCRDWarning(t, f.apply(newer, CRDsInstall), "CustomResourceDefinition/"+f.name+" is not as the chart has it")
	wantCRD(t, "plan", f.verbs(newer, CRDsInstall), []string{"none"})
	wantCRD(t, "drift", f.drift(newer, CRDsInstall), map[string]string{})
	wantCRD(t, "writes", f.proxy.Writes(), 0)
	wantCRD(t, "versions", f.served(f.name), "v1: size")
}

func testCRDSkip(t *testing.T, f *crdFixture) {
	crds := f.chart("1.0.0", f.gadgets(v("!v1", "size")))
	actions, warnings := f.plan(f.Cluster, crds, CRDsSkip)
	wantCRD(t, "verb", actions[0].verb, crdNone)
	wantCRDWarning(t, warnings, "CustomResourceDefinition/"+f.name+" is missing", `crds = "skip" leaves it to somebody else`, `set crds = "upgrade"`)
	wantCRD(t, "warnings", f.apply(crds, CRDsSkip), []Warning(nil))
	wantCRD(t, "drift", f.drift(crds, CRDsSkip), map[string]string{})
	wantCRD(t, "writes", f.proxy.Writes(), 0)
	f.foreign(f.gadgets(v("!v2")), nil)
	_, warnings = f.plan(f.afresh(), crds, CRDsSkip)
	wantCRD(t, "warnings", warnings, []Warning(nil))
}

// What another owner keeps is compared and never written (promise 3).
func testCRDKept(t *testing.T, f *crdFixture) {
	wanted := f.chart("9.0.0", f.gadgets(v("!v1", "size", "weight"), v("v2", "size")))
	f.foreign(f.gadgets(v("!v1", "size")), nil)
	summary := "CustomResourceDefinition/" + f.name + " is kept by %s and not as the chart has it"
	for keeper, marks := range map[string]string{
		"helm/other/app":                 `{"annotations": {"meta.helm.sh/release-name": "app", "meta.helm.sh/release-namespace": "other"}}`,
		"k3s/kube-system/traefik-crd":    `{"annotations": {"objectset.rio.cattle.io/owner-name": "traefik-crd", "objectset.rio.cattle.io/owner-namespace": "kube-system"}}`,
		"argocd/guestbook":               `{"annotations": {"argocd.argoproj.io/tracking-id": "guestbook:apiextensions.k8s.io/CustomResourceDefinition:/` + f.name + `"}}`,
		"flux/flux-system/infra":         `{"labels": {"kustomize.toolkit.fluxcd.io/name": "infra", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}}`,
		"installer/the-one-that-made-it": `{"ownerReferences": [{"apiVersion": "example.com/v1", "kind": "Installer", "name": "the-one-that-made-it", "uid": "a-b-c", "controller": true}]}`,
	} {
		f.patch(f.name, "their-tool", `{"metadata": {"annotations": null, "labels": null, "ownerReferences": null}}`)
		f.patch(f.name, "their-tool", `{"metadata": `+marks+`}`)
		before := f.read(f.name).GetResourceVersion()
		wantCRD(t, "plan", f.verbs(wanted, CRDsUpgrade), []string{"leave " + keeper})
		_, warnings := f.plan(f.afresh(), wanted, CRDsUpgrade)
		wantCRDWarning(t, warnings, fmt.Sprintf(summary, keeper), "kept in place by "+keeper, "it does not serve v2", "Bring it up to date where it is kept")
		wantCRDWarning(t, f.apply(wanted, CRDsUpgrade), fmt.Sprintf(summary, keeper))
		wantCRDWarning(t, f.apply(wanted, CRDsInstall), fmt.Sprintf(summary, keeper))
		wantCRD(t, "drift", f.drift(wanted, CRDsUpgrade), map[string]string{})
		wantCRD(t, keeper+": version of the object", f.read(f.name).GetResourceVersion(), before)
	}
	_, warnings := f.plan(f.afresh(), f.chart("9.0.0", f.gadgets(v("!v1", "size", "weight"))), CRDsUpgrade)
	if len(warnings) != 1 || !strings.Contains(warnings[0].Detail, "its schema of v1 is another one") {
		t.Errorf("another schema: %v", warnings)
	}
	described := strings.ReplaceAll(f.gadgets(v("!v1", "size")), "The size.", "How large it is.")
	_, warnings = f.plan(f.afresh(), f.chart("9.0.0", described), CRDsUpgrade)
	wantCRD(t, "other descriptions", warnings, []Warning(nil))
}

// Helm's marks for the release itself make a CRD its own: one that was a template before, say.
func testCRDOwn(t *testing.T, f *crdFixture) {
	f.foreign(f.gadgets(v("!v1", "size")), map[string]string{helmName: crdRef.Name, helmNamespace: crdRef.Namespace})
	f.apply(f.chart("1.0.0", f.gadgets(v("!v1", "size", "weight"))), CRDsUpgrade)
	wantCRD(t, "versions", f.served(f.name), "v1: size weight")
}

// Everything of spec is taken; a label that somebody's server-side apply holds is not, and is no drift.
func testCRDHeldLabel(t *testing.T, f *crdFixture) {
	f.apply(f.chart("1.0.0", f.gadgets(v("!v1", "size"))), CRDsUpgrade)
	f.plane.KubectlInput(t, fmt.Sprintf(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": %q, "labels": {"tier": "theirs"}}}`, f.name),
		"apply", "--server-side", "--field-manager=platform", "-f", "-")
	crds := f.chart("1.1.0", strings.Replace(f.gadgets(v("!v1", "size", "weight")), "metadata:\n", "metadata:\n  labels: {tier: ours}\n", 1))
	f.apply(crds, CRDsUpgrade)
	wantCRD(t, "versions", f.served(f.name), "v1: size weight")
	wantCRD(t, "label", f.read(f.name).GetLabels()["tier"], "theirs")
	wantCRD(t, "plan", f.verbs(crds, CRDsUpgrade), []string{"none"})
	wantCRD(t, "drift", f.drift(crds, CRDsUpgrade), map[string]string{})
}

// A version in status.storedVersions is never dropped: not in a plan, and before anything of the release is written.
func testCRDStored(t *testing.T, f *crdFixture) {
	f.apply(f.chart("1.0.0", f.gadgets(v("!v1alpha1", "size"))), CRDsUpgrade)
	f.gadget("v1alpha1", "default", "old", nil)
	f.apply(f.chart("1.1.0", f.gadgets(v("v1alpha1", "size"), v("!v1", "size"))), CRDsUpgrade)
	without := f.chart("2.0.0", f.gadgets(v("!v1", "size")), crdYAML("widget", f.group, v("!v1")), crdYAML("apple", f.group, v("!v1")))
	summary := "CustomResourceDefinition/" + f.name + " would lose the stored version v1alpha1"
	f.proxy.Reset()
	_, _, err := planCRDs(t.Context(), f.afresh(), without, CRDsUpgrade, crdRef)
	resource := "gadgets." + f.group
	wantCRDProblem(t, err, summary, "status.storedVersions of CustomResourceDefinition/"+f.name+" on crds has v1alpha1", "The CRD was not written",
		"kubectl --context crds get "+resource+" -A -o json | kubectl --context crds replace -f -", "take v1alpha1 out of status.storedVersions", `{"status":{"storedVersions":["v1"]}}`)
	_, err = applyCRDs(t.Context(), f.Cluster, without, CRDsUpgrade, crdRef)
	wantCRDProblem(t, err, summary)
	wantCRD(t, "writes, the other CRDs included", f.proxy.Writes(), 0)
	if drift := f.drift(without, CRDsUpgrade); len(drift) != 3 {
		t.Errorf("a refresh does not fail for it: %v", drift)
	}

	// What the message advises is the way out.
	objects := f.plane.Kubectl(t, "get", resource, "-A", "-o", "json")
	f.plane.KubectlInput(t, objects, "replace", "-f", "-")
	f.plane.Kubectl(t, "patch", "crd", f.name, "--subresource=status", "--type=merge", "-p", `{"status":{"storedVersions":["v1"]}}`)
	f.apply(without, CRDsUpgrade)
	wantCRD(t, "versions", f.served(f.name), "v1: size")
	f.plane.Kubectl(t, "get", resource, "-n", "default", "old")
}

// A chart that drops the very version in which objects are stored needs a version of the chart in between.
func testCRDStoredOnly(t *testing.T, f *crdFixture) {
	f.apply(f.chart("1.0.0", f.gadgets(v("!v1alpha1", "size"))), CRDsUpgrade)
	_, _, err := planCRDs(t.Context(), f.afresh(), f.chart("2.0.0", f.gadgets(v("!v1", "size"))), CRDsUpgrade, crdRef)
	wantCRDProblem(t, err, "CustomResourceDefinition/"+f.name+" would lose the stored version v1alpha1",
		"They are stored in v1alpha1 to this day: upgrade to a version of the chart first that still has it and stores another one. Then write each of them once more")
}

// A CA bundle that an injector has put in stays, whether the chart has none or a placeholder, and is no drift.
func testCRDBundle(t *testing.T, f *crdFixture) {
	webhook := func(bundle string, fields ...string) string {
		return f.gadgets(v("!v1", fields...)) + `  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {service: {name: convert, namespace: default, path: /convert}` + bundle + "}\n"
	}
	bundle := base64.StdEncoding.EncodeToString(f.plane.CA())
	bundleOf := func() string {
		bundle, _, _ := unstructured.NestedString(f.read(f.name).Object, "spec", "conversion", "webhook", "clientConfig", "caBundle")
		return bundle
	}
	f.apply(f.chart("1.0.0", webhook(`, caBundle: Cg==`, "size")), CRDsUpgrade)
	wantCRD(t, "placeholder", bundleOf(), "")
	f.patch(f.name, "cert-manager-cainjector", `{"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": "`+bundle+`"}}}}}`)
	for version, chart := range map[string]string{"1.1.0": ``, "1.2.0": `, caBundle: Cg==`} {
		crds := f.chart(version, webhook(chart, "size", "f"+version[2:3]))
		f.apply(crds, CRDsUpgrade)
		wantCRD(t, "bundle", bundleOf(), bundle)
		wantCRD(t, "plan", f.verbs(crds, CRDsUpgrade), []string{"none"})
		wantCRD(t, "drift", f.drift(crds, CRDsUpgrade), map[string]string{})
		f.patch(f.name, "test", `{"metadata": {"annotations": {"`+annotationCRDChart+`": null}}}`)
	}
}

// A CRD that another tool installed with a placeholder is not served until an injector has been: nothing waits for that.
func testCRDPlaceholder(t *testing.T, f *crdFixture) {
	file := f.gadgets(v("!v1", "size")) + `  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: "https://127.0.0.1:9/convert"}}}` + "\n"
	theirs := f.chart("1.0.0", file)[0].DeepCopy()
	theirs.SetLabels(nil)
	theirs.SetAnnotations(nil)
	if err := unstructured.SetNestedField(theirs.Object, "Cg==", "spec", "conversion", "webhook", "clientConfig", "caBundle"); err != nil {
		t.Fatal(err)
	}
	f.installed(theirs)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	newer := f.chart("1.1.0", strings.Replace(file, "size:", "weight:", 1))
	for _, policy := range []CRDPolicy{CRDsInstall, CRDsUpgrade} {
		if _, err := applyCRDs(ctx, f.afresh(), newer, policy, crdRef); err != nil {
			t.Error(err)
		}
	}
	wantCRD(t, "versions", f.served(f.name), "v1: weight")
}

// Drift is shown field by field and repaired, with nothing else changed (promise 6).
func testCRDDrift(t *testing.T, f *crdFixture) {
	crds := f.chart("1.0.0", f.gadgets(v("!v1", "size", "weight")))
	f.apply(crds, CRDsUpgrade)
	uid, named := f.read(f.name).GetUID(), "CustomResourceDefinition/"+f.name+" "
	f.plane.Kubectl(t, "patch", "crd", f.name, "--type=json", "-p", `[
		{"op": "remove", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/weight"},
		{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/extra", "value": {"type": "integer"}},
		{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/maxLength", "value": 7},
		{"op": "add", "path": "/spec/versions/-", "value": {"name": "v0", "served": false, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}}},
		{"op": "replace", "path": "/metadata/annotations/controller-gen.kubebuilder.io~1version", "value": "v0.1.0"},
		{"op": "add", "path": "/metadata/annotations/theirs", "value": "stays"}]`)
	path := named + "spec.versions[name=v1].schema.openAPIV3Schema.properties.spec.properties."
	f.proxy.Reset()
	wantCRD(t, "drift", f.drift(crds, CRDsUpgrade), map[string]string{
		named + "metadata.annotations.[controller-gen.kubebuilder.io/version]": "v0.1.0 → v0.20.0",
		named + "spec.versions[name=v0]":                                       "`{\"name\":\"v0\",\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\"}},\"served\":false,\"storage\":false}` → (none)",
		path + "extra":                                                         "`{\"type\":\"integer\"}` → (none)",
		path + "size.maxLength":                                                "7 → 63",
		path + "weight":                                                        "(none) → `{\"description\":\"The weight.\",\"maxLength\":63,\"type\":\"string\"}`",
	})
	wantCRD(t, "writes", f.proxy.Writes(), 0)
	f.apply(crds, CRDsUpgrade)
	wantCRD(t, "drift", f.drift(crds, CRDsUpgrade), map[string]string{})
	wantCRD(t, "versions", f.served(f.name), "v1: size weight")
	wantCRD(t, "theirs", f.read(f.name).GetAnnotations()["theirs"], "stays")
	wantCRD(t, "UID", f.read(f.name).GetUID(), uid)

	f.plane.Kubectl(t, "delete", "crd", f.name)
	wantCRD(t, "drift", f.drift(crds, CRDsUpgrade), map[string]string{"CustomResourceDefinition/" + f.name: "missing → present"})
	f.apply(crds, CRDsUpgrade)
	wantCRD(t, "drift", f.drift(crds, CRDsUpgrade), map[string]string{})
}

// What plain Helm installed is no drift for lack of berth's marks (promise 9), and no request more for each release than
// it takes to see that; the next apply writes the marks.
func testCRDImported(t *testing.T, f *crdFixture) {
	crds := f.chart("1.0.0", f.gadgets(v("!v1", "size")))
	f.foreign(f.gadgets(v("!v1", "size")), map[string]string{"controller-gen.kubebuilder.io/version": "v0.20.0"})
	f.proxy.Reset()
	wantCRD(t, "drift", f.drift(crds, CRDsUpgrade), map[string]string{})
	wantCRD(t, "plan", f.verbs(crds, CRDsUpgrade), []string{"update"})
	wantCRD(t, "requests of both", f.proxy.Counts(), map[string]int{crdLists: 4, crdGets: 2})
	f.apply(crds, CRDsUpgrade)
	wantCRD(t, "plan", f.verbs(crds, CRDsUpgrade), []string{"none"})
	wantCRD(t, "mark", f.read(f.name).GetLabels()[labelCRD], "true")
}

// Two releases share the CRDs of one chart: the older chart does not lower what the newer one brought.
func testCRDTwoReleases(t *testing.T, f *crdFixture) {
	older, newer := f.chart("1.9.0", f.gadgets(v("!v1", "size"))), f.chart("1.10.0", f.gadgets(v("!v1", "size", "weight"), v("v2", "size")))
	f.apply(older, CRDsUpgrade)
	f.apply(newer, CRDsUpgrade)
	f.proxy.Reset()
	summary := "CustomResourceDefinition/" + f.name + " stays as gadgets 1.10.0 has it"
	_, warnings := f.plan(f.afresh(), older, CRDsUpgrade)
	wantCRDWarning(t, warnings, summary, "was written from the chart gadgets 1.10.0, this release's is gadgets 1.9.0", "Upgrade this release's chart",
		"kubectl --context crds annotate crd "+f.name+" "+annotationCRDChart+"-")
	wantCRDWarning(t, f.apply(older, CRDsUpgrade), summary)
	wantCRD(t, "plan", f.verbs(older, CRDsUpgrade), []string{"leave"})
	wantCRD(t, "drift", f.drift(older, CRDsUpgrade), map[string]string{})
	wantCRD(t, "drift of the newer", f.drift(newer, CRDsUpgrade), map[string]string{})
	wantCRD(t, "writes", f.proxy.Writes(), 0)

	same := f.chart("1.9.1", f.gadgets(v("!v1", "size", "weight"), v("v2", "size")))
	_, warnings = f.plan(f.afresh(), same, CRDsUpgrade)
	wantCRD(t, "nothing to say where nothing differs", warnings, []Warning(nil))

	f.plane.Kubectl(t, "annotate", "crd", f.name, annotationCRDChart+"-")
	f.apply(older, CRDsUpgrade)
	wantCRD(t, "lowered, as advised", f.served(f.name), "v1: size")
}

// Releases that write one CRD at the same moment end with the highest version of the chart.
func testCRDRace(t *testing.T, f *crdFixture) {
	var group sync.WaitGroup
	for i := range 8 {
		fields := make([]string, i+1)
		for n := range fields {
			fields[n] = fmt.Sprintf("f%d", n)
		}
		crds := f.chart(fmt.Sprintf("1.%d.0", i), f.gadgets(v("!v1", fields...)))
		group.Go(func() {
			if _, err := applyCRDs(t.Context(), f.afresh(), crds, CRDsUpgrade, crdRef); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	wantCRD(t, "versions", f.served(f.name), "v1: f0 f1 f2 f3 f4 f5 f6 f7")
	wantCRD(t, "chart", f.read(f.name).GetAnnotations()[annotationCRDChart], "gadgets 1.7.0")
}

// A CRD that is being deleted is refused with what holds it up.
func testCRDDeleted(t *testing.T, f *crdFixture) {
	crds := f.chart("1.0.0", f.gadgets(v("!v1", "size")))
	f.apply(crds, CRDsUpgrade)
	f.patch(f.name, "test", `{"metadata": {"finalizers": ["example.com/hold"]}}`)
	t.Cleanup(func() {
		f.plane.Kubectl(t, "patch", "crd", f.name, "--type=merge", "-p", `{"metadata": {"finalizers": null}}`)
	})
	f.plane.Kubectl(t, "delete", "crd", f.name, "--wait=false")
	summary := "CustomResourceDefinition/" + f.name + " is being deleted"
	for _, policy := range []CRDPolicy{CRDsUpgrade, CRDsInstall} {
		_, _, err := planCRDs(t.Context(), f.afresh(), crds, policy, crdRef)
		wantCRDProblem(t, err, summary, "It waits for its finalizers: example.com/hold", "wait --for=delete crd/"+f.name)
		_, err = applyCRDs(t.Context(), f.afresh(), crds, policy, crdRef)
		wantCRDProblem(t, err, summary)
	}
	wantCRD(t, "drift", f.drift(crds, CRDsUpgrade), map[string]string{"CustomResourceDefinition/" + f.name: "missing → present"})
}

// A change that the API server refuses is known at plan (promise 1).
func testCRDRefused(t *testing.T, f *crdFixture) {
	f.apply(f.chart("1.0.0", f.gadgets(v("!v1", "size"))), CRDsUpgrade)
	bad := f.chart("1.1.0", strings.Replace(f.gadgets(v("!v1", "size")), "scope: Namespaced", "scope: Cluster", 1))
	f.proxy.Reset()
	summary := "CustomResourceDefinition/" + f.name + " could not be written"
	_, _, err := planCRDs(t.Context(), f.afresh(), bad, CRDsUpgrade, crdRef)
	wantCRDProblem(t, err, summary, "The API server of crds refused", "spec.scope", "field is immutable", `set crds = "skip"`)
	wantCRD(t, "writes", f.proxy.Writes(), 0)
	_, err = applyCRDs(t.Context(), f.Cluster, bad, CRDsUpgrade, crdRef)
	wantCRDProblem(t, err, summary)
	wantCRD(t, "drift", f.drift(bad, CRDsUpgrade), map[string]string{"CustomResourceDefinition/" + f.name + " spec.scope": "Namespaced → Cluster"})
}

// A CRD whose names another one has is never Established: the wait ends at once.
func testCRDNames(t *testing.T, f *crdFixture) {
	f.apply(f.chart("1.0.0", f.gadgets(v("!v1", "size"))), CRDsUpgrade)
	other := strings.Replace(strings.Replace(crdYAML("tool", f.group, v("!v1")), "kind: Tool", "kind: Gadget", 1), "singular: tool", "singular: gadget", 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := applyCRDs(ctx, f.Cluster, f.chart("1.0.0", other), CRDsUpgrade, crdRef)
	wantCRDProblem(t, err, "CustomResourceDefinition/tools."+f.group+" has names that another CRD has taken", "already in use", "Remove the other CRD of group "+f.group)
}
