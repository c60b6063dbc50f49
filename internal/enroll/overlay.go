package enroll

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// overlay patches the objects of a preset in place (K63).
func (s Scheduling) overlay(objects []kube.Object) error {
	for i, one := range s.Overlays {
		at := fmt.Sprintf("scheduling.overlays[%d]", i)
		patch, err := one.parse(at)
		if err != nil {
			return err
		}
		var there []string
		patched := false
		for j := range objects {
			desired := objects[j].Desired
			there = append(there, desired.GetKind()+"/"+desired.GetName())
			if desired.GetKind() != one.Kind || one.Name != "" && desired.GetName() != one.Name {
				continue
			}
			patched = true
			if objects[j].Desired, err = merge(desired, patch); err != nil {
				return &cluster.Problem{
					Attribute: at + ".patch", Summary: fmt.Sprintf("%s does not take the overlay", kube.Describe(desired)), Err: err,
					Detail: fmt.Sprintf("refusing: %s. Write a JSON merge patch: a map of what is to be otherwise. Nothing was applied.", err),
				}
			}
		}
		if !patched {
			slices.Sort(there)
			return &cluster.Problem{
				Attribute: at, Summary: fmt.Sprintf("The overlay patches nothing: there is no %s", strings.TrimSuffix(one.Kind+"/"+one.Name, "/")),
				Detail: fmt.Sprintf("refusing: the preset %q has %s. Set kind and name to one of them. Nothing was applied.", s.Preset, strings.Join(slices.Compact(there), ", ")),
			}
		}
	}
	return nil
}

// parse reads a patch as JSON. Only what is a policy can be patched: names are arguments of `scheduling`, and status is
// Kueue's.
func (o Overlay) parse(at string) ([]byte, error) {
	wrong := func(why string) error {
		return &cluster.Problem{
			Attribute: at + ".patch", Summary: "The overlay is not a patch of " + o.Kind,
			Detail: fmt.Sprintf("refusing: %s. Write a map with `spec`, and `metadata` with `labels` and `annotations`, of what is to be otherwise. Nothing was applied.", why),
		}
	}
	var patch map[string]any
	if err := yaml.UnmarshalStrict([]byte(o.Patch), &patch); err != nil {
		return nil, wrong("it is no map: " + err.Error())
	}
	for key, value := range patch {
		switch key {
		case "spec":
		case "metadata":
			metadata, ok := value.(map[string]any)
			if !ok {
				return nil, wrong("its metadata is no map")
			}
			for field := range metadata {
				if field != "labels" && field != "annotations" {
					return nil, wrong(fmt.Sprintf("it patches metadata.%s", field))
				}
			}
		default:
			return nil, wrong(fmt.Sprintf("it patches %s", key))
		}
	}
	return json.Marshal(patch)
}

func merge(object *unstructured.Unstructured, patch []byte) (*unstructured.Unstructured, error) {
	before, err := json.Marshal(object.Object)
	if err != nil {
		return nil, err
	}
	after, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		return nil, err
	}
	merged := &unstructured.Unstructured{}
	if err := merged.UnmarshalJSON(after); err != nil {
		return nil, err
	}
	if _, ok := merged.Object["spec"].(map[string]any); !ok && merged.Object["spec"] != nil {
		return nil, fmt.Errorf("its spec would be no map")
	}
	return merged, nil
}
