package kube

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Difference is one field in which an object is not as it shall be.
type Difference struct {
	// Path is the field, dotted; a list item is named by its key, such as spec.containers[name=app].image.
	Path string
	// Found and Wanted are the values as text, "(none)" where there is none; secrets are masked.
	Found, Wanted string
}

// String is the difference as messages show it.
func (d Difference) String() string { return d.Path + ": " + d.change() }

func (d Difference) change() string { return d.Found + " → " + d.Wanted }

const (
	nothing = "(none)"
	masked  = "(sensitive value)"
	// longest is how much of a value a message shows.
	longest = 200
)

// Compare returns the fields that desired sets and that live has otherwise, sorted by path. Fields that desired does
// not set are not ours and do not count (promise 9 of the design).
func Compare(desired, live *unstructured.Unstructured) []Difference {
	return compareAs(desired, desired, live)
}

// compareAs compares wanted with live, but only in the fields that shape sets: wanted may be the server's answer to a
// dry run, which has everything that the server fills in.
func compareAs(shape, wanted, live *unstructured.Unstructured) []Difference {
	comparison := comparison{secret: shape.GetKind() == "Secret"}
	for _, field := range sortedKeys(shape.Object) {
		if field == "apiVersion" || field == "kind" || field == "status" {
			continue
		}
		comparison.value(field, shape.Object[field], wanted.Object[field], live.Object[field])
	}
	sort.Slice(comparison.found, func(i, j int) bool { return comparison.found[i].Path < comparison.found[j].Path })
	return comparison.found
}

type comparison struct {
	secret bool
	found  []Difference
}

func (c *comparison) value(path string, shape, wanted, live any) {
	switch shape := shape.(type) {
	case map[string]any:
		wantedMap, _ := wanted.(map[string]any)
		liveMap, _ := live.(map[string]any)
		for _, key := range sortedKeys(shape) {
			c.value(path+"."+field(key), shape[key], wantedMap[key], liveMap[key])
		}
		return
	case []any:
		if key := mergeKey(shape); key != "" {
			for _, item := range shape {
				name := item.(map[string]any)[key]
				c.value(fmt.Sprintf("%s[%s=%v]", path, key, name), item, itemNamed(wanted, key, name), itemNamed(live, key, name))
			}
			return
		}
	}
	if !same(path, wanted, live) {
		c.found = append(c.found, Difference{Path: path, Found: c.show(path, live), Wanted: c.show(path, wanted)})
	}
}

// mergeKeys are the keys by which the API merges the lists of built-in kinds: containers, environment variables and
// volumes by name, volume mounts by mountPath.
var mergeKeys = []string{"name", "mountPath"}

// mergeKey is the key that every item of a list has, with a value that no other item has; "" for a list that is
// compared as a whole.
func mergeKey(items []any) string {
	for _, key := range mergeKeys {
		seen := map[any]bool{}
		for _, item := range items {
			if fields, ok := item.(map[string]any); ok && fields[key] != nil && reflect.TypeOf(fields[key]).Comparable() {
				seen[fields[key]] = true
			}
		}
		if len(items) > 0 && len(seen) == len(items) {
			return key
		}
	}
	return ""
}

func itemNamed(list any, key string, name any) any {
	items, _ := list.([]any)
	for _, item := range items {
		if fields, ok := item.(map[string]any); ok && fields[key] == name {
			return item
		}
	}
	return nil
}

// same compares two values as the API would: nothing, {} and [] are one, numbers by value, quantities by amount.
func same(path string, a, b any) bool {
	if empty(a) && empty(b) {
		return true
	}
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x == y
	}
	if isQuantity(path) {
		return sameQuantity(a, b)
	}
	return reflect.DeepEqual(normal(a), normal(b))
}

func empty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	}
	return false
}

func number(value any) (float64, bool) {
	switch value := value.(type) {
	case int64:
		return float64(value), true
	case int:
		return float64(value), true
	case float64:
		return value, !math.IsNaN(value)
	}
	return 0, false
}

// normal makes numbers inside lists and maps comparable, whatever Go type they were decoded to.
func normal(value any) any {
	if value, ok := number(value); ok {
		return value
	}
	switch value := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, one := range value {
			out[key] = normal(one)
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, one := range value {
			out[i] = normal(one)
		}
		return out
	}
	return value
}

func isQuantity(path string) bool {
	return strings.Contains(path, ".limits.") || strings.Contains(path, ".requests.") || strings.HasPrefix(path, "spec.hard.")
}

func sameQuantity(a, b any) bool {
	x, errX := resource.ParseQuantity(fmt.Sprint(a))
	y, errY := resource.ParseQuantity(fmt.Sprint(b))
	if errX != nil || errY != nil {
		return reflect.DeepEqual(a, b)
	}
	return x.Cmp(y) == 0
}

func (c *comparison) show(path string, value any) string {
	if empty(value) {
		return nothing
	}
	if c.secret && (strings.HasPrefix(path, "data.") || strings.HasPrefix(path, "stringData.") || path == "data" || path == "stringData") {
		return masked
	}
	text, isText := value.(string)
	if !isText {
		encoded, err := json.Marshal(value)
		if err != nil {
			return fmt.Sprint(value)
		}
		text = string(encoded)
	}
	if runes := []rune(text); len(runes) > longest {
		text = string(runes[:longest]) + "…"
	}
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
		// In quotes, because a runner that takes the text for JSON shows just its first half.
		return "`" + text + "`"
	}
	return text
}

// field quotes a key that has dots or slashes, such as a label's, so that the path stays readable.
func field(key string) string {
	if strings.ContainsAny(key, "./") {
		return "[" + key + "]"
	}
	return key
}

func sortedKeys(values map[string]any) []string {
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
