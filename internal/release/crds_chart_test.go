package release

import (
	"fmt"
	"strings"
	"testing"

	helmchart "helm.sh/helm/v3/pkg/chart"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The CRDs of a chart are those of all its crds/ folders, as the API server would store them; what cannot be one names
// its file.
func TestChartCRDs(t *testing.T) {
	file := func(name, content string) *helmchart.File { return &helmchart.File{Name: name, Data: []byte(content)} }
	ch := &helmchart.Chart{Metadata: &helmchart.Metadata{Name: "top", Version: "1.2.3"}, Files: []*helmchart.File{
		file("crds/two.yaml", "# a comment\n---\n"+crdYAML("b", "example.com", v("!v1", "one"))+"---\n"+crdYAML("a", "example.com", v("!v1"))+"\n---\n# nothing\n"),
		file("crds/list.json", `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": {"name": "c.example.com", "labels": {"tier": "edge"}}, "spec": {"group": "example.com", "unheardOf": true}, "status": {"storedVersions": []}}]}`),
		file("crds/README.md", "no manifest"), file("files/d.yaml", "kind: [no CRD"),
	}}
	ch.AddDependency(&helmchart.Chart{Metadata: &helmchart.Metadata{Name: "sub", Version: "0.1.0"}, Files: []*helmchart.File{
		file("crds/all.yaml", crdYAML("d", "example.com", v("!v1"))+"---\n"+crdYAML("b", "example.com", v("!v1", "another"))),
	}})
	crds, err := chartCRDs(ch)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, crd := range crds {
		found = append(found, crd.GetName()+" of "+crd.GetAnnotations()[annotationCRDChart])
	}
	wantCRD(t, "CRDs", strings.Join(found, ", "), "as.example.com of top 1.2.3, bs.example.com of top 1.2.3, c.example.com of top 1.2.3, ds.example.com of sub 0.1.0")
	fields, _, _ := unstructured.NestedMap(crdVersions(crds[1])["v1"], "schema", "openAPIV3Schema", "properties", "spec", "properties")
	wantCRD(t, "the first of two with one name, without what is omitted", fields, map[string]any{
		"one": map[string]any{"type": "string", "maxLength": int64(63), "description": "The one."},
	})
	wantCRD(t, "labels", crds[2].GetLabels(), map[string]string{"tier": "edge", labelCRD: "true"})
	for _, gone := range [][]string{{"status"}, {"metadata", "creationTimestamp"}, {"spec", "unheardOf"}, {"spec", "preserveUnknownFields"}} {
		for _, crd := range crds {
			if _, there, _ := unstructured.NestedFieldNoCopy(crd.Object, gone...); there {
				t.Errorf("%s has %v", crd.GetName(), gone)
			}
		}
	}

	for content, want := range map[string][2]string{
		"apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\nmetadata: {name: old.example.com}": {
			"top/crds/x.yaml holds CustomResourceDefinition/old.example.com of apiextensions.k8s.io/v1beta1", "which no Kubernetes since 1.22 serves. Use a version of the chart",
		},
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}":                                                {"top/crds/x.yaml holds ConfigMap/settings", "only a CustomResourceDefinition belongs in a chart's crds/ folder. Move it to templates/"},
		"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition":                                        {"top/crds/x.yaml cannot be read", "has no metadata.name"},
		"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\nspec: {group: 1}": {"top/crds/x.yaml cannot be read", "CustomResourceDefinition/a"},
		"a: [":    {"top/crds/x.yaml cannot be read", "correct the file in a copy of it"},
		"- a\n":   {"top/crds/x.yaml cannot be read", "is not a file of CustomResourceDefinitions"},
		"name: x": {"top/crds/x.yaml cannot be read", "Kind"},
	} {
		_, err := chartCRDs(&helmchart.Chart{Metadata: &helmchart.Metadata{Name: "top"}, Files: []*helmchart.File{file("crds/x.yaml", content)}})
		wantCRDProblem(t, err, want[0], want[1])
	}
}

// What an uninstall leaves is said, with the first CRD in the summary.
func TestKeptCRDs(t *testing.T) {
	f := crdFixture{t: t}
	kept := keptCRDs(f.chart("1", crdYAML("a", "example.com", v("!v1"))))
	wantCRD(t, "summary", kept.Summary, "CustomResourceDefinition/as.example.com stays")
	kept = keptCRDs(f.chart("1", crdYAML("a", "example.com", v("!v1")), crdYAML("b", "example.com", v("!v1"))))
	wantCRD(t, "summary", kept.Summary, "CustomResourceDefinition/as.example.com and 1 more stay")
	wantCRDTexts(t, kept.Detail, "as with Helm", "as.example.com, bs.example.com", "kubectl delete crd as.example.com")
}

// An uninstall sees the objects of the CRDs that it would delete, of whatever version, but for the release's own.
func testCRDObjects(t *testing.T, f *crdFixture) {
	things := strings.Replace(crdYAML("thing", f.group, v("!v1")), "scope: Namespaced", "scope: Cluster", 1)
	rendered := f.chart("1.0.0", f.gadgets(v("!v1", "size"), v("v2", "size")), things)
	list := func(crds []*unstructured.Unstructured) []string {
		t.Helper()
		names, err := objectsOfCRDs(t.Context(), f.Cluster, crds, crdRef)
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	wantCRD(t, "without the CRDs", list(rendered), []string{})
	f.apply(rendered, CRDsUpgrade)
	wantCRD(t, "without objects", list(rendered), []string{})
	f.gadget("v1", "default", "ours", map[string]string{helmName: crdRef.Name, helmNamespace: crdRef.Namespace})
	f.gadget("v2", "kube-system", "theirs", nil)
	f.gadget("v1", "default", "of-another-release", map[string]string{helmName: crdRef.Name, helmNamespace: "other"})
	f.plane.KubectlInput(t, "apiVersion: "+f.group+"/v1\nkind: Thing\nmetadata: {name: wide}\n", "create", "-f", "-")
	f.proxy.Reset()
	wantCRD(t, "objects", list(rendered), []string{"Gadget/default/of-another-release", "Gadget/kube-system/theirs", "Thing/wide"})
	wantCRD(t, "requests", f.proxy.Counts(), map[string]int{crdGets: 2, "list gadgets." + f.group: 1, "list things." + f.group: 1})

	kept := rendered[0].DeepCopy()
	kept.SetAnnotations(map[string]string{helmPolicy: "keep"})
	wantCRD(t, "of one that Helm keeps", list([]*unstructured.Unstructured{kept}), []string{})
	f.patch(f.name, "test", `{"metadata": {"annotations": {"`+helmName+`": "another", "`+helmNamespace+`": "team"}}}`)
	wantCRD(t, "of one that another release has", list(rendered), []string{"Thing/wide"})
	f.patch(f.name, "test", `{"metadata": {"annotations": {"`+helmName+`": "app", "`+helmNamespace+`": "team"}}}`)

	for i := range 21 {
		f.gadget("v1", "default", fmt.Sprintf("one-%02d", i), nil)
	}
	names := list(rendered)
	wantCRD(t, "of many", fmt.Sprintf("%d, %s", len(names), names[20]), "21, and 4 more")

	f.patch(f.name, "test", `{"spec": {"versions": [
		{"name": "v1", "served": false, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}}`)
	_, err := objectsOfCRDs(t.Context(), f.Cluster, rendered, crdRef)
	wantCRDProblem(t, err, "Whether CustomResourceDefinition/"+f.name+" has objects cannot be known", "serves no version", "Set served: true")
}
