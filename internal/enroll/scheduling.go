package enroll

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// The presets, each a file of plain manifests (K55).
//
//go:embed presets/*.yaml
var presets embed.FS

// The names of what a preset makes, unless the configuration says otherwise (K55).
const (
	DefaultPreset       = "default"
	DefaultFlavor       = "default-flavor"
	DefaultClusterQueue = "cluster-queue"
	DefaultLocalQueue   = "user-queue"
)

// Presets are the names of the presets, sorted.
func Presets() []string {
	entries, _ := presets.ReadDir("presets") // embedded: it cannot fail
	var names []string
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".yaml"))
	}
	return names
}

// schedulingKinds are the kinds that a preset can have, in the order in which they are made: what others name comes first.
var schedulingKinds = []cluster.Kind{ResourceFlavors, ProvisioningRequestConfigs, AdmissionChecks, ClusterQueues, LocalQueues}

// Scheduling says which Kueue objects a cluster is to have: those of a preset, with its overlays.
type Scheduling struct {
	Preset string `json:"preset"`
	// Quotas are the nominal quotas of the ClusterQueue: resource to quantity, as Kubernetes writes them.
	Quotas       map[string]string `json:"quotas,omitempty"`
	Flavor       string            `json:"flavor"`
	ClusterQueue string            `json:"clusterQueue"`
	LocalQueue   string            `json:"localQueue"`
	Overlays     []Overlay         `json:"overlays,omitempty"`
	// Namespaces get a LocalQueue each.
	Namespaces []string `json:"-"`
	// AdmissionCheck is put on the ClusterQueue beside those of the preset: MultiKueue's, on a hub. "" for none.
	AdmissionCheck string `json:"-"`
}

// Overlay is a patch of objects of a preset (K63).
type Overlay struct {
	Kind string `json:"kind"`
	// Name is the object's; "" for every one of the kind.
	Name string `json:"name,omitempty"`
	// Patch is a JSON merge patch, as YAML or JSON, of spec and of metadata's labels and annotations.
	Patch string `json:"patch"`
}

// WithDefaults fills in what was left out.
func (s Scheduling) WithDefaults() Scheduling {
	for value, usual := range map[*string]string{&s.Preset: DefaultPreset, &s.Flavor: DefaultFlavor, &s.ClusterQueue: DefaultClusterQueue, &s.LocalQueue: DefaultLocalQueue} {
		if *value == "" {
			*value = usual
		}
	}
	return s
}

// Objects are the objects, in the order in which they are made. The error is a *cluster.Problem about the argument of
// `scheduling` that is at fault.
func (s Scheduling) Objects() ([]kube.Object, error) {
	s = s.WithDefaults()
	manifests, err := readPreset(s.Preset)
	if err != nil {
		return nil, err
	}
	var objects []kube.Object
	for _, manifest := range manifests {
		switch manifest.GetKind() {
		case ResourceFlavors.Kind:
			manifest.SetName(s.Flavor)
		case ClusterQueues.Kind:
			manifest.SetName(s.ClusterQueue)
			s.fillQueue(manifest)
		case LocalQueues.Kind:
			manifest.SetName(s.LocalQueue)
			manifest.Object["spec"].(map[string]any)["clusterQueue"] = s.ClusterQueue
			for _, namespace := range s.Namespaces {
				one := manifest.DeepCopy()
				one.SetNamespace(namespace)
				objects = append(objects, kube.Object{Kind: LocalQueues, Desired: one})
			}
			continue
		}
		kind := schedulingKinds[slices.IndexFunc(schedulingKinds, func(k cluster.Kind) bool { return k.Kind == manifest.GetKind() })]
		objects = append(objects, kube.Object{Kind: kind, Desired: manifest})
	}
	if err := s.overlay(objects); err != nil {
		return nil, err
	}
	for _, object := range objects {
		if groups, _, _ := unstructured.NestedSlice(object.Desired.Object, "spec", "resourceGroups"); object.Kind == ClusterQueues && len(groups) == 0 {
			return nil, &cluster.Problem{
				Attribute: "scheduling.quotas", Summary: fmt.Sprintf("ClusterQueue %q would have no quota", s.ClusterQueue),
				Detail: "refusing: a ClusterQueue without quotas admits nothing. Set scheduling.quotas, such as { cpu = \"100\", memory = \"400Gi\" }, or an overlay of the ClusterQueue with spec.resourceGroups. Nothing was applied.",
			}
		}
	}
	return objects, nil
}

// fillQueue fills in a ClusterQueue's quotas and checks.
func (s Scheduling) fillQueue(queue *unstructured.Unstructured) {
	spec := queue.Object["spec"].(map[string]any)
	if s.AdmissionCheck != "" {
		checks, _, _ := unstructured.NestedSlice(spec, "admissionChecksStrategy", "admissionChecks")
		spec["admissionChecksStrategy"] = map[string]any{"admissionChecks": append(checks, map[string]any{"name": s.AdmissionCheck})}
	}
	if len(s.Quotas) == 0 {
		return
	}
	var covered, resources []any
	for _, name := range slices.Sorted(maps.Keys(s.Quotas)) {
		covered = append(covered, name)
		resources = append(resources, map[string]any{"name": name, "nominalQuota": s.Quotas[name]})
	}
	spec["resourceGroups"] = []any{map[string]any{"coveredResources": covered, "flavors": []any{map[string]any{"name": s.Flavor, "resources": resources}}}}
}

// readPreset reads the manifests of a preset.
func readPreset(name string) ([]*unstructured.Unstructured, error) {
	content, err := presets.ReadFile("presets/" + name + ".yaml")
	if err != nil {
		return nil, &cluster.Problem{
			Attribute: "scheduling.preset", Summary: fmt.Sprintf("There is no preset %q", name),
			Detail: fmt.Sprintf("refusing: the presets are %s. Use one of them, and overlays for what differs. Nothing was applied.", kube.QuoteAll(Presets())),
		}
	}
	var manifests []*unstructured.Unstructured
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
		one := &unstructured.Unstructured{}
		if err := decoder.Decode(&one.Object); errors.Is(err, io.EOF) {
			return manifests, nil
		} else if err != nil {
			return nil, fmt.Errorf("the preset %q: %w", name, err)
		}
		manifests = append(manifests, one)
	}
}
