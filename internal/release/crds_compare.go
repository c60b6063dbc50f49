package release

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// crdVersions are the versions in a CRD's spec, by name; they are the CRD's own, not copies.
func crdVersions(crd *unstructured.Unstructured) map[string]map[string]any {
	list, _, _ := unstructured.NestedFieldNoCopy(crd.Object, "spec", "versions")
	return versionsByName(list)
}

// crdField is a text in a CRD's spec, "" when there is none.
func crdField(crd *unstructured.Unstructured, path ...string) string {
	text, _, _ := unstructured.NestedString(crd.Object, append([]string{"spec"}, path...)...)
	return text
}

// appliedCRD is what is applied over a live CRD: the chart's, without the labels and annotations that another manager
// holds otherwise by a server-side apply, and for the one object that was looked at.
func appliedCRD(crd, live *unstructured.Unstructured) *unstructured.Unstructured {
	// Only the metadata is a copy: the schemas are large.
	wanted := &unstructured.Unstructured{Object: maps.Clone(crd.Object)}
	wanted.Object["metadata"] = runtime.DeepCopyJSONValue(crd.Object["metadata"])
	for _, field := range []string{"labels", "annotations"} {
		values, _, _ := unstructured.NestedStringMap(wanted.Object, "metadata", field)
		there, _, _ := unstructured.NestedStringMap(live.Object, "metadata", field)
		for key, value := range values {
			if there[key] != value && heldByApply(live, field, key) {
				unstructured.RemoveNestedField(wanted.Object, "metadata", field, key)
			}
		}
	}
	wanted.SetUID(live.GetUID())
	return wanted
}

// heldByApply tells whether somebody else's server-side apply holds a label or an annotation.
func heldByApply(live *unstructured.Unstructured, field, key string) bool {
	entries, _, _ := unstructured.NestedSlice(live.Object, "metadata", "managedFields")
	return slices.ContainsFunc(entries, func(one any) bool {
		entry, ok := one.(map[string]any)
		if !ok || entry["operation"] != "Apply" || entry["manager"] == kube.FieldManager {
			return false
		}
		_, found, _ := unstructured.NestedFieldNoCopy(entry, "fieldsV1", "f:metadata", "f:"+field, "f:"+key)
		return found
	})
}

// awaitsBundle tells whether a CRD's conversion webhook has a placeholder for a CA bundle, as a chart brings it that another
// tool installed. Such a CRD is neither Established nor served until somebody puts a bundle in.
func awaitsBundle(live *unstructured.Unstructured) bool {
	bundle, _, _ := unstructured.NestedString(live.Object, "spec", "conversion", "webhook", "clientConfig", "caBundle")
	decoded, err := base64.StdEncoding.DecodeString(bundle)
	return bundle != "" && (err != nil || isPlaceholder(decoded))
}

// isPlaceholder tells whether a CA bundle has no certificate: it is empty, or a blank that an injector fills.
func isPlaceholder(bundle []byte) bool { return !bytes.Contains(bundle, []byte("CERTIFICATE")) }

// mergedCRD is a live CRD as an apply of wanted would leave it, but for what the server knows better: fields that wanted
// does not set stay, and lists, all of which are atomic in a CRD, become wanted's, the versions among them.
func mergedCRD(wanted, live *unstructured.Unstructured) *unstructured.Unstructured {
	merged := merge(live.Object, wanted.Object)
	return &unstructured.Unstructured{Object: merged.(map[string]any)}
}

func merge(live, wanted any) any {
	from, ok := wanted.(map[string]any)
	if !ok {
		return wanted
	}
	merged := map[string]any{}
	if into, ok := live.(map[string]any); ok {
		maps.Copy(merged, into)
	}
	for key, value := range from {
		merged[key] = merge(merged[key], value)
	}
	return merged
}

// diffCRD are the differences between a live CRD and what it shall be, in spec, labels and annotations, berth's marks
// aside. What only one of them has is one difference, however much is in it.
func diffCRD(live, wanted *unstructured.Unstructured) []kube.Difference {
	var changes []kube.Difference
	for _, path := range [][]string{{"metadata", "annotations"}, {"metadata", "labels"}, {"spec"}} {
		found, _, _ := unstructured.NestedFieldNoCopy(live.Object, path...)
		wants, _, _ := unstructured.NestedFieldNoCopy(wanted.Object, path...)
		differ(strings.Join(path, "."), withoutMarks(found), withoutMarks(wants), &changes)
	}
	return changes
}

func withoutMarks(value any) any {
	values, ok := value.(map[string]any)
	if !ok {
		return map[string]any{} // no labels are as good as an empty map of them
	}
	values = maps.Clone(values)
	delete(values, labelCRD)
	delete(values, annotationCRDChart)
	return values
}

func differ(path string, found, wanted any, into *[]kube.Difference) {
	if reflect.DeepEqual(found, wanted) {
		return
	}
	a, isMap := found.(map[string]any)
	b, areMaps := wanted.(map[string]any)
	if isMap && areMaps {
		for _, key := range union(a, b) {
			switch {
			case key == "versions" && path == "spec":
				differVersions(path+".versions", a[key], b[key], into)
			case strings.ContainsAny(key, "./"):
				differ(path+".["+key+"]", a[key], b[key], into)
			default:
				differ(path+"."+key, a[key], b[key], into)
			}
		}
		return
	}
	*into = append(*into, kube.Difference{Path: path, Found: textOf(found), Wanted: textOf(wanted)})
}

// mostPerVersion is how many fields of one version are told: a new release of a large CRD changes hundreds.
const mostPerVersion = 20

// differVersions compares versions by name, since their order means nothing.
func differVersions(path string, found, wanted any, into *[]kube.Difference) {
	a, b := versionsByName(found), versionsByName(wanted)
	for _, name := range union(a, b) {
		var changes []kube.Difference
		at := fmt.Sprintf("%s[name=%s]", path, name)
		differ(at, orNil(a[name]), orNil(b[name]), &changes)
		if more := len(changes) - mostPerVersion; more > 0 {
			changes = append(changes[:mostPerVersion], kube.Difference{Path: at, Found: fmt.Sprintf("%d more fields otherwise", more), Wanted: "as the chart has them"})
		}
		*into = append(*into, changes...)
	}
}

// orNil is a version, or the nil that says there is none.
func orNil(version map[string]any) any {
	if version == nil {
		return nil
	}
	return version
}

func versionsByName(list any) map[string]map[string]any {
	versions := map[string]map[string]any{}
	items, _ := list.([]any)
	for _, item := range items {
		if version, ok := item.(map[string]any); ok {
			versions[fmt.Sprint(version["name"])] = version
		}
	}
	return versions
}

// union are the keys of both maps, sorted.
func union[V any](a, b map[string]V) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// longestText is how much of a value a difference shows: schemas are long.
const longestText = 200

func textOf(value any) string {
	if value == nil {
		return "(none)"
	}
	if text, ok := value.(string); ok {
		return cut(text)
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return cut(fmt.Sprint(value))
	}
	if text := cut(string(encoded)); strings.ContainsAny(text[:1], "{[") {
		// In quotes, because a runner that takes the text for JSON shows just its first half.
		return "`" + text + "`"
	}
	return cut(string(encoded))
}

func cut(text string) string {
	if runes := []rune(text); len(runes) > longestText {
		return string(runes[:longestText]) + "…"
	}
	return text
}

// lacksOfCRD says what a CRD that another owner keeps lacks of what the chart brings: versions that it does not serve,
// or else the versions whose schemas differ, descriptions aside; "" when it has all.
func lacksOfCRD(crd, live *unstructured.Unstructured) string {
	ours, theirs := crdVersions(crd), crdVersions(live)
	var missing, differing []string
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if ours[name]["served"] != true {
			continue
		}
		if theirs[name]["served"] != true {
			missing = append(missing, name)
		} else if !reflect.DeepEqual(undescribed(ours[name]["schema"]), undescribed(theirs[name]["schema"])) {
			differing = append(differing, name)
		}
	}
	switch {
	case len(missing) > 0:
		return "it does not serve " + strings.Join(missing, ", ")
	case len(differing) > 0:
		return "its schema of " + strings.Join(differing, ", ") + " is another one"
	}
	return ""
}

// undescribed is a schema without descriptions, which refuse and default nothing. A field that is called description
// has a schema, and stays.
func undescribed(value any) any {
	switch value := value.(type) {
	case map[string]any:
		plain := map[string]any{}
		for key, one := range value {
			if _, text := one.(string); key != "description" || !text {
				plain[key] = undescribed(one)
			}
		}
		return plain
	case []any:
		plain := make([]any, len(value))
		for i, one := range value {
			plain[i] = undescribed(one)
		}
		return plain
	}
	return value
}
