package kube

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// elementText is an element as messages show it: a field after a dot, a list item in brackets.
func elementText(element fieldpath.PathElement) string {
	switch {
	case element.FieldName != nil:
		return "." + field(*element.FieldName)
	case element.Key != nil:
		parts := make([]string, len(*element.Key))
		for i, part := range *element.Key {
			parts[i] = fmt.Sprintf("%s=%v", part.Name, part.Value.Unstructured())
		}
		return "[" + strings.Join(parts, ",") + "]"
	case element.Value != nil:
		return fmt.Sprintf("[%v]", (*element.Value).Unstructured())
	}
	return fmt.Sprintf("[%d]", *element.Index)
}

// likewise is the element that leads to another item of the same list.
func likewise(element fieldpath.PathElement, item any) fieldpath.PathElement {
	if element.Key == nil {
		return fieldpath.ValueElement(value.NewValueInterface(item))
	}
	fields, _ := item.(map[string]any)
	key := make(value.FieldList, 0, len(*element.Key))
	for _, part := range *element.Key {
		key = append(key, value.Field{Name: part.Name, Value: value.NewValueInterface(fields[part.Name])})
	}
	return fieldpath.PathElement{Key: &key}
}

// remove takes a field or item out of a map or list.
func remove(from, place any) any {
	switch from := from.(type) {
	case map[string]any:
		if name, ok := place.(string); ok {
			delete(from, name)
		}
	case []any:
		if index, ok := place.(int); ok && index < len(from) {
			return slices.Delete(from, index, index+1)
		}
	}
	return from
}

// locate finds what an element of a path leads to in a map or list; place is its name or index.
func locate(in any, element fieldpath.PathElement) (place, found any, ok bool) {
	if element.FieldName != nil {
		fields, isMap := in.(map[string]any)
		found, ok = fields[*element.FieldName]
		if !isMap {
			return nil, nil, false
		}
		return *element.FieldName, found, ok
	}
	items, _ := in.([]any)
	index := -1
	switch {
	case element.Key != nil:
		index = slices.IndexFunc(items, func(item any) bool { return hasKey(item, *element.Key, false) })
		if index < 0 {
			index = slices.IndexFunc(items, func(item any) bool { return hasKey(item, *element.Key, true) })
		}
	case element.Value != nil:
		index = slices.IndexFunc(items, func(item any) bool { return same("", item, (*element.Value).Unstructured()) })
	case element.Index != nil && *element.Index >= 0 && *element.Index < len(items):
		index = *element.Index
	}
	if index < 0 {
		return nil, nil, false
	}
	return index, items[index], true
}

// keyDefaults are the fields of list keys that the API fills in: the protocol of a container's or a Service's port.
var keyDefaults = map[string]any{"protocol": "TCP"}

// hasKey tells whether an item of a list is the one with a key. A lenient look takes it, too, where the item leaves out
// a part of the key: the server fills that in.
func hasKey(item any, key value.FieldList, lenient bool) bool {
	fields, _ := item.(map[string]any)
	matched := 0
	for _, part := range key {
		want := part.Value.Unstructured()
		have, ok := fields[part.Name]
		switch {
		case ok && same("", have, want):
			matched++
		case ok || !lenient:
			return false
		default:
			if standard, known := keyDefaults[part.Name]; known && !same("", standard, want) {
				return false
			}
		}
	}
	return matched > 0
}

// CheckPointer tells whether a text is a JSON pointer (RFC 6901): empty, or parts that each begin with a slash, in which
// "~" is written "~0" and "/" is written "~1". The error is a *cluster.Problem without an attribute.
func CheckPointer(pointer string) error {
	summary := fmt.Sprintf("%q is not a JSON pointer", pointer)
	if pointer != "" && !strings.HasPrefix(pointer, "/") {
		return &cluster.Problem{
			Summary: summary,
			Detail: fmt.Sprintf("A JSON pointer (RFC 6901) begins with a slash, such as \"/spec/replicas\"; "+
				"the empty one is the whole object. Write %q.", "/"+strings.NewReplacer("[", "/", "]", "", ".", "/").Replace(pointer)),
		}
	}
	if rest := strings.NewReplacer("~0", "", "~1", "").Replace(pointer); strings.Contains(rest, "~") {
		return &cluster.Problem{
			Summary: summary,
			Detail: "In a JSON pointer (RFC 6901) a \"~\" is followed by 0 or 1: \"~1\" stands for a slash in a name and \"~0\" for the \"~\" itself. " +
				"Write it so, such as \"/metadata/annotations/example.com~1note\".",
		}
	}
	return nil
}
