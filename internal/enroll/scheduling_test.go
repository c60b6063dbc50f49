package enroll

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Each preset has the documented objects, under the documented names, with the hub's check where there is one (K55).
func TestPresets(t *testing.T) {
	want(t, "the presets", strings.Join(Presets(), ", "), "default, gke-dws")
	quotas := map[string]string{"cpu": "8", "nvidia.com/gpu": "4"}
	for preset, wanted := range map[string]string{
		"":        "ResourceFlavor//default-flavor, ClusterQueue//cluster-queue, LocalQueue/a/user-queue, LocalQueue/b/user-queue",
		"gke-dws": "ResourceFlavor//default-flavor, ProvisioningRequestConfig//dws-config, AdmissionCheck//dws-prov, ClusterQueue//cluster-queue, LocalQueue/a/user-queue, LocalQueue/b/user-queue",
	} {
		objects, err := Scheduling{Preset: preset, Quotas: quotas, Namespaces: []string{"a", "b"}, AdmissionCheck: "berth-a"}.Objects()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, object := range objects {
			names = append(names, fmt.Sprintf("%s/%s/%s", object.Desired.GetKind(), object.Desired.GetNamespace(), object.Desired.GetName()))
			if object.Kind != ClusterQueues {
				continue
			}
			checks, _, _ := unstructured.NestedSlice(object.Desired.Object, "spec", "admissionChecksStrategy", "admissionChecks")
			wantedChecks := map[string]string{"": "[map[name:berth-a]]", "gke-dws": "[map[name:dws-prov] map[name:berth-a]]"}[preset]
			want(t, preset+": the checks", fmt.Sprint(checks), wantedChecks)
			groups, _, _ := unstructured.NestedSlice(object.Desired.Object, "spec", "resourceGroups")
			want(t, preset+": the quotas", fmt.Sprint(groups), "[map[coveredResources:[cpu nvidia.com/gpu] flavors:[map[name:default-flavor resources:[map[name:cpu nominalQuota:8] map[name:nvidia.com/gpu nominalQuota:4]]]]]]")
		}
		want(t, preset+": the objects", strings.Join(names, ", "), wanted)
	}
}

// What `scheduling` gets wrong is refused with the argument, the cause and the remedy (K63).
func TestSchedulingRefusals(t *testing.T) {
	quotas := map[string]string{"cpu": "8"}
	overlay := func(kind, name, patch string) Scheduling {
		return Scheduling{Quotas: quotas, Overlays: []Overlay{{Kind: "ClusterQueue", Patch: "{spec: {cohortName: all}}"}, {Kind: kind, Name: name, Patch: patch}}}
	}
	for _, test := range []struct {
		of    Scheduling
		texts []string
	}{
		{Scheduling{Preset: "eks"}, []string{`There is no preset "eks"`, `the presets are "default", "gke-dws"`}},
		{Scheduling{}, []string{`ClusterQueue "cluster-queue" would have no quota`, "Set scheduling.quotas"}},
		{overlay("Cohort", "", "{}"), []string{"there is no Cohort", `the preset "default" has ClusterQueue/cluster-queue, ResourceFlavor/default-flavor`}},
		{overlay("ClusterQueue", "other", "{}"), []string{"there is no ClusterQueue/other"}},
		{overlay("ClusterQueue", "", "- a"), []string{"not a patch of ClusterQueue", "it is no map"}},
		{overlay("ClusterQueue", "", "{status: {}}"), []string{"it patches status"}},
		{overlay("ClusterQueue", "", "{metadata: {name: other}}"), []string{"it patches metadata.name"}},
		{overlay("ClusterQueue", "", "{metadata: x}"), []string{"its metadata is no map"}},
		{overlay("ClusterQueue", "", "{spec: 1}"), []string{"does not take the overlay", "its spec would be no map"}},
		{overlay("ClusterQueue", "", "{spec: {a: 1, a: 2}}"), []string{"it is no map"}},
	} {
		_, err := test.of.Objects()
		told(t, err, append(test.texts, "refusing: ", "Nothing was applied")...)
	}
}

// An overlay changes just what it names, in its order, and a null takes something away (K63).
func TestOverlays(t *testing.T) {
	objects, err := Scheduling{Quotas: map[string]string{"cpu": "8"}, Namespaces: []string{"a", "b"}, Overlays: []Overlay{
		{Kind: "ClusterQueue", Patch: "spec: {cohortName: all, preemption: {withinClusterQueue: LowerPriority}}"},
		{Kind: "ClusterQueue", Name: "cluster-queue", Patch: `{"spec": {"preemption": null, "namespaceSelector": {"matchLabels": {"team": "a"}}}}`},
		{Kind: "LocalQueue", Patch: "metadata: {labels: {tier: gold}}"},
	}}.Objects()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		switch object.Kind {
		case ClusterQueues:
			spec, _, _ := unstructured.NestedMap(object.Desired.Object, "spec")
			delete(spec, "resourceGroups")
			want(t, "the ClusterQueue", fmt.Sprint(spec), "map[cohortName:all namespaceSelector:map[matchLabels:map[team:a]]]")
		case LocalQueues:
			want(t, "the LocalQueue's labels", fmt.Sprint(object.Desired.GetLabels()), "map[tier:gold]")
		case ResourceFlavors:
			want(t, "the flavor's labels", len(object.Desired.GetLabels()), 0)
		}
	}
}
