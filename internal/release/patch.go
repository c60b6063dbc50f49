package release

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
)

// threeWay is Helm's patch of a live object: what original sets and wanted does not goes, what wanted sets is set, and
// what neither knows stays. Built-in kinds are merged item by item where the API merges lists so, custom resources as
// plain JSON. An empty patch (nil) changes nothing.
func threeWay(original, wanted, live *unstructured.Unstructured) (types.PatchType, []byte, error) {
	before, err := json.Marshal(original.Object)
	if err != nil {
		return "", nil, err
	}
	after, err := json.Marshal(wanted.Object)
	if err != nil {
		return "", nil, err
	}
	now, err := json.Marshal(live.Object)
	if err != nil {
		return "", nil, err
	}
	gvk := wanted.GroupVersionKind()
	form := types.StrategicMergePatchType
	var patch []byte
	typed, unknown := scheme.Scheme.New(gvk)
	if unknown != nil || gvk.GroupKind() == kindOfCRD {
		form = types.MergePatchType
		patch, err = jsonmergepatch.CreateThreeWayJSONMergePatch(before, after, now)
	} else {
		var shape strategicpatch.PatchMetaFromStruct
		if shape, err = strategicpatch.NewPatchMetaFromStruct(typed); err == nil {
			patch, err = strategicpatch.CreateThreeWayMergePatch(before, after, now, shape, true)
		}
	}
	if err != nil {
		return "", nil, fmt.Errorf("comparing %s %s: %w", wanted.GetKind(), wanted.GetName(), err)
	}
	var content map[string]any
	if err := json.Unmarshal(patch, &content); err != nil {
		return "", nil, err
	}
	if hollow(content) || form == types.StrategicMergePatchType && idle(patch, now, typed) {
		return form, nil, nil
	}
	return form, patch, nil
}

// idle tells whether a strategic patch gives a live object just what it has: a field that is replaced as a whole (the
// selector of a PodDisruptionBudget) is in every patch, whether it differs or not.
func idle(patch, live []byte, typed any) bool {
	after, err := strategicpatch.StrategicMergePatch(live, patch, typed)
	if err != nil {
		return false // the API server tells what is wrong with it
	}
	var had, has map[string]any
	return json.Unmarshal(live, &had) == nil && json.Unmarshal(after, &has) == nil && reflect.DeepEqual(had, has)
}

// hollow tells whether a patch changes nothing: directives about the order of lists come also where just somebody
// else's items stand between ours.
func hollow(patch any) bool {
	inside, isMap := patch.(map[string]any)
	if !isMap {
		return false
	}
	for key, value := range inside {
		if !strings.HasPrefix(key, "$setElementOrder/") && !hollow(value) {
			return false
		}
	}
	return true
}

// plainSecret puts what a manifest gives a Secret as text (stringData, which the API server never shows) where the API
// server puts it.
func plainSecret(one *unstructured.Unstructured) {
	text, found, _ := unstructured.NestedMap(one.Object, "stringData")
	if one.GetKind() != "Secret" || one.GetAPIVersion() != "v1" || !found {
		return
	}
	data, _, _ := unstructured.NestedMap(one.Object, "data")
	if data == nil {
		data = map[string]any{}
	}
	for key, value := range text {
		if value, isText := value.(string); isText {
			data[key] = base64.StdEncoding.EncodeToString([]byte(value))
		} else {
			return // the API server says what is wrong with it
		}
	}
	one.Object["data"] = data
	delete(one.Object, "stringData")
}
