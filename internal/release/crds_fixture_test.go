package release

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	helmchart "helm.sh/helm/v3/pkg/chart"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// crdFixture is a cluster as berth sees it, through a proxy that counts, and the API group of one test.
type crdFixture struct {
	*cluster.Cluster
	t     *testing.T
	plane *fleettest.Cluster
	proxy *fleettest.Proxy
	group string
	// name is that of the CRD which the tests mostly work with.
	name string
}

func newCRDFixture(t *testing.T, plane *fleettest.Cluster, group string) *crdFixture {
	f := &crdFixture{t: t, plane: plane, proxy: plane.Proxy(t, fleettest.ProxyOptions{}), group: group, name: "gadgets." + group}
	f.Cluster = f.afresh()
	return f
}

// afresh gives the cluster with nothing known of it, as a new process has it.
func (f *crdFixture) afresh() *cluster.Cluster {
	f.t.Helper()
	fleet := cluster.NewFleet(cluster.Settings{Owner: "crds", Entries: map[string]cluster.Entry{"crds": {Kubeconfig: f.proxy.AdminKubeconfig().Content()}}})
	c, err := fleet.Cluster("crds")
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

var (
	crdRef   = Ref{Namespace: "team", Name: "app"}
	crdLists = "list customresourcedefinitions.apiextensions.k8s.io"
	crdGets  = "get customresourcedefinitions.apiextensions.k8s.io"
)

// crdVersion is one version of a CRD: its name, with "!" in front of the one that is stored, and the fields of its spec.
type crdVersion struct {
	name   string
	fields []string
}

func v(name string, fields ...string) crdVersion { return crdVersion{name, fields} }

// gadgets is the CRD that the tests work with, as a file of a chart.
func (f *crdFixture) gadgets(versions ...crdVersion) string {
	return crdYAML("gadget", f.group, versions...)
}

func crdYAML(singular, group string, versions ...crdVersion) string {
	kind := strings.ToUpper(singular[:1]) + singular[1:]
	text := fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[1]ss.%[2]s
  creationTimestamp: null
  annotations: {controller-gen.kubebuilder.io/version: v0.20.0}
spec:
  group: %[2]s
  scope: Namespaced
  preserveUnknownFields: false
  names: {kind: %[3]s, singular: %[1]s, plural: %[1]ss}
  versions:
`, singular, group, kind)
	for _, version := range versions {
		name, stored := strings.CutPrefix(version.name, "!")
		text += fmt.Sprintf(`  - name: %s
    served: true
    storage: %t
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
`, name, stored)
		for _, field := range version.fields {
			text += fmt.Sprintf("              %s: {type: string, nullable: false, maxLength: 63, description: The %s.}\n", field, field)
		}
	}
	return text
}

// chart is a chart with files in its crds/ folder, as chartCRDs reads it.
func (f *crdFixture) chart(version string, files ...string) []*unstructured.Unstructured {
	f.t.Helper()
	ch := &helmchart.Chart{Metadata: &helmchart.Metadata{Name: "gadgets", Version: version}}
	for i, content := range files {
		ch.Files = append(ch.Files, &helmchart.File{Name: fmt.Sprintf("crds/%d.yaml", i), Data: []byte(content)})
	}
	crds, err := chartCRDs(ch)
	if err != nil {
		f.t.Fatal(err)
	}
	return crds
}

func (f *crdFixture) plan(c *cluster.Cluster, crds []*unstructured.Unstructured, policy CRDPolicy) ([]crdAction, []Warning) {
	f.t.Helper()
	actions, warnings, err := planCRDs(f.t.Context(), c, crds, policy, crdRef)
	if err != nil {
		f.t.Fatal(err)
	}
	return actions, warnings
}

// verbs plans with nothing known of the cluster and returns what would happen, as "verb path: found → wanted".
func (f *crdFixture) verbs(crds []*unstructured.Unstructured, policy CRDPolicy) (lines []string) {
	f.t.Helper()
	actions, _ := f.plan(f.afresh(), crds, policy)
	for _, action := range actions {
		lines = append(lines, strings.TrimSpace(action.verb+" "+action.keeper))
		for _, change := range action.changes {
			lines = append(lines, change.String())
		}
	}
	return lines
}

// apply applies with nothing known of the cluster, as an apply begins; f.Cluster knows what it knows afterwards.
func (f *crdFixture) apply(crds []*unstructured.Unstructured, policy CRDPolicy) []Warning {
	f.t.Helper()
	f.Cluster = f.afresh()
	warnings, err := applyCRDs(f.t.Context(), f.Cluster, crds, policy, crdRef)
	if err != nil {
		f.t.Fatal(err)
	}
	return warnings
}

func (f *crdFixture) drift(crds []*unstructured.Unstructured, policy CRDPolicy) map[string]string {
	f.t.Helper()
	drift, err := driftCRDs(f.t.Context(), f.afresh(), crds, policy, crdRef)
	if err != nil {
		f.t.Fatal(err)
	}
	return drift
}

// read reads a CRD past the proxy.
func (f *crdFixture) read(name string) *unstructured.Unstructured {
	f.t.Helper()
	crd, err := f.plane.Dynamic().Resource(crdKind.GVR()).Get(f.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return crd
}

// served is the versions of a CRD on the cluster with the fields that they have.
func (f *crdFixture) served(name string) string {
	f.t.Helper()
	var lines []string
	for version, one := range crdVersions(f.read(name)) {
		fields, _, _ := unstructured.NestedMap(one, "schema", "openAPIV3Schema", "properties", "spec", "properties")
		lines = append(lines, version+": "+strings.Join(slices.Sorted(maps.Keys(fields)), " "))
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

// patch changes a CRD as somebody else: by a merge patch under a field manager.
func (f *crdFixture) patch(name, manager, body string) {
	f.t.Helper()
	_, err := f.plane.Dynamic().Resource(crdKind.GVR()).Patch(f.t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: manager})
	if err != nil {
		f.t.Fatal(err)
	}
}

// foreign creates a CRD as Helm, or somebody else, does, and waits until it can be used.
func (f *crdFixture) foreign(file string, annotations map[string]string) {
	f.t.Helper()
	crd := f.chart("1.0.0", file)[0].DeepCopy()
	crd.SetLabels(nil)
	crd.SetAnnotations(annotations)
	f.installed(crd)
	fleettest.Eventually(f.t, func(context.Context) error {
		if readiness := kube.Ready(f.read(crd.GetName())); !readiness.Ready {
			return errors.New(readiness.Reason)
		}
		return nil
	})
}

// installed creates a CRD as somebody else does.
func (f *crdFixture) installed(crd *unstructured.Unstructured) {
	f.t.Helper()
	if _, err := f.plane.Dynamic().Resource(crdKind.GVR()).Create(f.t.Context(), crd, metav1.CreateOptions{FieldManager: "helm"}); err != nil {
		f.t.Fatal(err)
	}
}

// gadget creates an object of the CRD, and waits until the API server takes it.
func (f *crdFixture) gadget(version, namespace, name string, annotations map[string]string) {
	f.t.Helper()
	object := cluster.Kind{Group: f.group, Version: version, Kind: "Gadget", Namespaced: true}.New(namespace, name)
	object.SetAnnotations(annotations)
	gadgets := f.plane.Dynamic().Resource(schema.GroupVersionResource{Group: f.group, Version: version, Resource: "gadgets"}).Namespace(namespace)
	fleettest.Eventually(f.t, func(ctx context.Context) error {
		_, err := gadgets.Create(ctx, object, metav1.CreateOptions{})
		return err
	})
}

func wantCRD(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// wantCRDProblem fails the test unless the error is a problem with this summary and these parts of its detail.
func wantCRDProblem(t *testing.T, err error, summary string, details ...string) {
	t.Helper()
	problem, ok := errors.AsType[*cluster.Problem](err)
	if !ok || problem.Summary != summary {
		t.Errorf("got %v\nwant the problem %q", err, summary)
		return
	}
	wantCRDTexts(t, problem.Detail, details...)
}

func wantCRDWarning(t *testing.T, warnings []Warning, summary string, details ...string) {
	t.Helper()
	if len(warnings) != 1 || warnings[0].Summary != summary {
		t.Errorf("got %v\nwant just the warning %q", warnings, summary)
		return
	}
	wantCRDTexts(t, warnings[0].Detail, details...)
}

func wantCRDTexts(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("the detail lacks %q:\n%s", part, text)
		}
	}
}

func gadgetKind(group, version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: version, Kind: "Gadget"}
}
