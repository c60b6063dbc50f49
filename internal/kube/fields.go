package kube

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Yield returns wanted as it may be written and compared: each field that another manager has rightly taken (see taken),
// or that ignore names, has live's value in it, or is taken out where live has none. The input is not changed.
//
// ours is the field manager under which we write. ignore are JSON pointers, each with all that is below it; an index in
// one is that of live's list, and "" is the whole object. A pointer that is none (see CheckPointer) names nothing.
//
// Fields that wanted does not have stay out of it, with two exceptions, both with live's value: list items of a
// controller in a list that wanted has, because some lists are compared and written as a whole; and what stands beside a
// field that Extra reports, in a map or list that wanted lacks, because a patch from WithExtra to this object would
// otherwise take the whole map or list away.
func Yield(wanted, live *unstructured.Unstructured, ours string, ignore []string) *unstructured.Unstructured {
	yielded := wanted.DeepCopy()
	f := newFields(wanted, live, ours, ignore)
	switch {
	case f == nil:
		return yielded
	case f.root.ignored:
		yielded = live.DeepCopy()
	default:
		f.extras(f.root, wanted.Object)
		f.yield(f.root, yielded.Object)
	}
	// To ignore all of metadata or of the object is not to write what only the server sets.
	for _, field := range serverFields {
		if _, found, _ := unstructured.NestedFieldNoCopy(wanted.Object, field...); !found {
			unstructured.RemoveNestedField(yielded.Object, field...)
		}
	}
	return yielded
}

// serverFields are what the server alone sets, with no meaning of its own for a comparison.
var serverFields = [][]string{
	{"status"},
	{"metadata", "managedFields"},
	{"metadata", "resourceVersion"},
	{"metadata", "generation"},
	{"metadata", "uid"},
	{"metadata", "creationTimestamp"},
	{"metadata", "selfLink"},
}

// yield puts into wanted, which is the map or list that field is in the wanted object, what it has to yield, and returns
// it: a list may have grown or shrunk.
func (f *fields) yield(field *node, wanted any) any {
	for _, child := range field.children {
		place, found, has := locate(wanted, child.element)
		switch {
		case child.ignored && child.absent:
			wanted = remove(wanted, place)
		case child.ignored:
			wanted = field.put(wanted, child, runtime.DeepCopyJSONValue(child.live))
		case has && !child.granular() && f.taken(child, found):
			if _, isMap := child.live.(map[string]any); isMap && empty(child.live) && !empty(found) {
				// It owns the map, and none of the fields that are gone from it.
				continue
			}
			wanted = field.put(wanted, child, runtime.DeepCopyJSONValue(child.live))
		case has:
			wanted = field.put(wanted, child, f.yield(child, found))
		case child.extraBelow() || child.mergedItem() && f.taken(child, nil):
			if rest := child.withoutExtra(); !empty(rest) {
				wanted = field.put(wanted, child, rest)
			}
		}
	}
	return wanted
}

// fields is what metadata.managedFields says of the fields of a live object.
type fields struct {
	kind string
	root *node
	// found are the fields that Extra reports.
	found []ExtraField
	show  func(path string, value any) string
}

// node is a field of the live object, or an item of a list in it, that somebody owns or that is ignored.
type node struct {
	parent *node
	// element leads from the parent to it, in any version of the object; place is where it is in the live one: the
	// name of a field or the index of an item.
	element fieldpath.PathElement
	place   any
	live    any
	// absent is set where the live object has no such field, and a pointer names it all the same.
	absent bool
	// owners own the field itself: its value, or of a map or list whose content others may own too its being there.
	owners   []*manager
	children []*node
	byPlace  map[any]*node
	// ignored is set where a pointer names the field, extra where Extra reports it.
	ignored, extra bool
}

// newFields reads who owns the fields of live; nil when nobody but us does, nor is anything ignored. An entry of
// managedFields, or a path in one, that cannot be read counts for nothing.
func newFields(wanted, live *unstructured.Unstructured, ours string, ignore []string) *fields {
	if live == nil || wanted.Object == nil {
		return nil
	}
	masking := comparison{secret: live.GetKind() == "Secret"}
	f := &fields{kind: live.GetKind(), root: &node{live: live.Object}, show: masking.show}
	metadata, _ := live.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	creation, _ := metadata["creationTimestamp"].(string)
	sets := map[*manager]map[string]any{}
	var all []*manager
	others, oursCreated := false, false
	for _, entry := range entries {
		entry, _ := entry.(map[string]any)
		m := managerOf(entry, ours, creation)
		if m == nil {
			continue
		}
		sets[m], _ = entry["fieldsV1"].(map[string]any)
		all = append(all, m)
		others = others || !m.ours
		oursCreated = oursCreated || m.ours && entry["time"] == creation
	}
	if !others && len(ignore) == 0 {
		return nil
	}
	for _, m := range all {
		m.created = m.created && !oursCreated
		f.root.own(sets[m], m)
	}
	for _, pointer := range ignore {
		f.root.ignore(pointer)
	}
	f.root.creators(wanted.Object)
	return f
}

// own notes a manager's set of fields, in the form of FieldsV1, below a field.
func (n *node) own(set map[string]any, m *manager) {
	for _, name := range sortedKeys(set) {
		element, err := fieldpath.DeserializePathElement(name)
		if err != nil { // "." too, which the caller has looked at
			continue
		}
		below, isSet := set[name].(map[string]any)
		child := n.child(element)
		if child == nil || !isSet {
			continue
		}
		if _, itself := below["."]; itself || len(below) == 0 {
			child.owners = append(child.owners, m)
		}
		child.own(below, m)
	}
}

// child is the field or item that an element leads to; nil when the live object has none.
func (n *node) child(element fieldpath.PathElement) *node {
	place, found, ok := locate(n.live, element)
	if !ok {
		return nil
	}
	return n.at(place, &node{element: element, live: found})
}

func (n *node) at(place any, otherwise *node) *node {
	if child := n.byPlace[place]; child != nil {
		return child
	}
	otherwise.parent, otherwise.place = n, place
	if n.byPlace == nil {
		n.byPlace = map[any]*node{}
	}
	n.byPlace[place] = otherwise
	n.children = append(n.children, otherwise)
	return otherwise
}

// ignore marks what a JSON pointer names.
func (n *node) ignore(pointer string) {
	if CheckPointer(pointer) != nil {
		return
	}
	for _, token := range strings.Split(pointer, "/")[1:] {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch live := n.live.(type) {
		case []any:
			index, err := strconv.Atoi(token)
			if err != nil || index < 0 || index >= len(live) {
				return
			}
			element := fieldpath.IndexElement(index)
			if key := mergeKey(live); key != "" {
				element = fieldpath.KeyElementByFields(key, live[index].(map[string]any)[key])
			}
			n = n.at(index, &node{element: element, live: live[index]})
		default:
			if _, isMap := live.(map[string]any); !isMap && live != nil {
				return
			}
			element := fieldpath.FieldNameElement(token)
			_, found, ok := locate(live, element)
			n = n.at(token, &node{element: element, live: found, absent: !ok})
		}
	}
	n.ignored = true
}

// creators finds the managers that created the object, before it was ours: their entry is as old as it, and they own a
// field outside of metadata that wanted has, as nobody does who only added one. They added nothing to an object of ours.
func (n *node) creators(wanted any) {
	for _, child := range n.children {
		_, found, has := locate(wanted, child.element)
		if !has || child.fieldNames() == "metadata" {
			continue
		}
		for _, m := range child.owners {
			if m.created && !child.granular() {
				m.adds = false
			}
		}
		child.creators(found)
	}
}

// granular tells whether somebody owns a field below, so that owning this one is no more than owning its being there.
func (n *node) granular() bool {
	return slices.ContainsFunc(n.children, func(child *node) bool { return len(child.owners) > 0 || child.granular() })
}

// mergedItem tells whether it is an item of a list that the API merges item by item.
func (n *node) mergedItem() bool { return n.element.Key != nil || n.element.Value != nil }

// path is the field as messages show it, as in a Difference.
func (n *node) path() string {
	if n.parent == nil {
		return ""
	}
	return strings.TrimPrefix(n.parent.path()+elementText(n.element), ".")
}

// fieldNames is the path without the items of lists, such as webhooks.clientConfig.caBundle.
func (n *node) fieldNames() string {
	if n.parent == nil {
		return ""
	}
	if n.element.FieldName == nil {
		return n.parent.fieldNames()
	}
	return strings.TrimPrefix(n.parent.fieldNames()+"."+*n.element.FieldName, ".")
}

// elements is the path as managedFields has it.
func (n *node) elements() fieldpath.Path {
	if n.parent == nil {
		return nil
	}
	return append(n.parent.elements(), n.element)
}

// put sets a child of the field in wanted, which is the map or list that the field is in the wanted object. An item that
// wanted lacks goes where it is in the live list: behind the nearest one before it that both have.
func (n *node) put(wanted any, child *node, set any) any {
	place, _, has := locate(wanted, child.element)
	switch wanted := wanted.(type) {
	case map[string]any:
		if name, ok := place.(string); ok {
			wanted[name] = set
		}
	case []any:
		if has {
			wanted[place.(int)] = set
			return wanted
		}
		before, ok := child.place.(int)
		if !ok {
			return wanted
		}
		if child.element.Index != nil {
			if before != len(wanted) {
				return wanted // what is before it is missing, too
			}
			return append(wanted, set)
		}
		for before--; before >= 0; before-- {
			if at, _, ok := locate(wanted, likewise(child.element, n.live.([]any)[before])); ok {
				return slices.Insert(wanted, at.(int)+1, set)
			}
		}
		return slices.Insert(wanted, 0, set)
	}
	return wanted
}
