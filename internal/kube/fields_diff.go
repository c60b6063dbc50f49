package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Diff returns the fields in which two objects of the server differ, such as a live object and the outcome of a dry run,
// sorted by path: Found is before's value and Wanted is after's, "(none)" in the one that lacks the field. What only the
// server sets does not count. A nil object has no fields at all.
func Diff(before, after *unstructured.Unstructured) []Difference {
	d := diff{}
	for _, object := range []*unstructured.Unstructured{before, after} {
		d.secret = d.secret || object != nil && object.GetKind() == "Secret"
	}
	d.value("", serverless(before), serverless(after))
	slices.SortFunc(d.found, func(a, b Difference) int { return strings.Compare(a.Path, b.Path) })
	return d.found
}

// serverless is an object without what only the server sets. Only the maps on the way there are copied.
func serverless(object *unstructured.Unstructured) map[string]any {
	if object == nil {
		return nil
	}
	out := maps.Clone(object.Object)
	delete(out, "apiVersion")
	delete(out, "kind")
	if metadata, ok := out["metadata"].(map[string]any); ok {
		out["metadata"] = maps.Clone(metadata)
	}
	for _, field := range serverFields {
		unstructured.RemoveNestedField(out, field...)
	}
	return out
}

type diff struct{ comparison }

// value compares a field. Maps are compared field by field and lists item by item, also where one side has none. An item
// that only one side has is told as a whole.
func (d *diff) value(path string, before, after any) {
	beforeMap, beforeIsMap := before.(map[string]any)
	afterMap, afterIsMap := after.(map[string]any)
	if (beforeIsMap || before == nil) && (afterIsMap || after == nil) && (before != nil || after != nil) {
		for _, name := range union(beforeMap, afterMap) {
			d.value(strings.TrimPrefix(path+"."+field(name), "."), beforeMap[name], afterMap[name])
		}
		return
	}
	beforeItems, beforeIsList := before.([]any)
	afterItems, afterIsList := after.([]any)
	if (beforeIsList || before == nil) && (afterIsList || after == nil) && (before != nil || after != nil) {
		if beforeByKey, afterByKey, ok := byKey(beforeItems, afterItems); ok {
			for _, key := range union(beforeByKey, afterByKey) {
				before, inBefore := beforeByKey[key]
				after, inAfter := afterByKey[key]
				if inBefore && inAfter {
					d.value(path+key, before, after)
				} else {
					d.tell(path+key, before, after)
				}
			}
			return
		}
	}
	d.tell(path, before, after)
}

func (d *diff) tell(path string, before, after any) {
	if same(path, before, after) {
		return
	}
	difference := Difference{Path: path, Found: d.show(path, before), Wanted: d.show(path, after)}
	if d.secret && strings.HasPrefix(path, "metadata.annotations.[kubectl.kubernetes.io/last-applied-configuration]") {
		// kubectl keeps the whole Secret in there.
		for _, text := range []*string{&difference.Found, &difference.Wanted} {
			if *text != nothing {
				*text = masked
			}
		}
	}
	d.found = append(d.found, difference)
}

// itemKeys are the fields, alone or in pairs, that the API tells the items of a list apart by, in the order in which
// they are tried. Source: the list map keys in the API reference.
var itemKeys = [][]string{
	{mergeKeys[0]},
	{mergeKeys[1]},
	{"devicePath"},
	{"containerPort", "protocol"},
	{"port", "protocol"},
	{"topologyKey", "whenUnsatisfiable"},
	{"ip"},
}

// byKey maps the items of two lists by the first key that tells the items of both apart, written as in a path.
func byKey(a, b []any) (aByKey, bByKey map[string]any, ok bool) {
	for _, key := range itemKeys {
		if aByKey, ok = keyedBy(a, key); !ok {
			continue
		}
		if bByKey, ok = keyedBy(b, key); ok {
			return aByKey, bByKey, true
		}
	}
	return nil, nil, false
}

func keyedBy(items []any, key []string) (map[string]any, bool) {
	keyed := map[string]any{}
	for _, item := range items {
		fields, _ := item.(map[string]any)
		parts := make([]string, len(key))
		for i, name := range key {
			if _, isText := fields[name].(string); !isText {
				if _, isNumber := number(fields[name]); !isNumber {
					return nil, false
				}
			}
			parts[i] = fmt.Sprintf("%s=%v", name, fields[name])
		}
		keyed["["+strings.Join(parts, ",")+"]"] = item
	}
	return keyed, len(keyed) == len(items)
}

func union(a, b map[string]any) []string {
	names := append(sortedKeys(a), sortedKeys(b)...)
	slices.Sort(names)
	return slices.Compact(names)
}
