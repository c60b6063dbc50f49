package kube

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// ExtraField is a field that somebody else set on an object of ours and that the wanted object does not have.
type ExtraField struct {
	// Path is the field, as in a Difference: spec.template.spec.containers[name=app].env[name=X].
	Path string
	// Manager is the field manager that set it, such as "kubectl-edit"; several are joined by commas.
	Manager string
	// Value is its value as text, masked where it is a Secret's.
	Value string

	elements fieldpath.Path
}

// Extra finds the fields of live that somebody added by hand, sorted by path: the topmost field of each addition, once.
// Of a list that is merged item by item that is the item, of labels, annotations and data the key. ours and ignore are
// as in Yield.
//
// An addition is a field that wanted does not have and that only managers own that are neither ours nor controllers (see
// taken), and that did not write it through the status or the scale subresource. These are none:
//
//   - what belongs to no manifest, and marks that tools leave (see ignoredMarks);
//   - what the API fills in by itself (see defaults): its manager is whoever touched the field above it;
//   - what Helm set under a name of its own, and what the object was created with: an object that was adopted came with
//     all of that, defaults included, and what Helm removes it knows from its own manifests.
func Extra(wanted, live *unstructured.Unstructured, ours string, ignore []string) []ExtraField {
	f := newFields(wanted, live, ours, ignore)
	if f == nil || f.root.ignored {
		return nil
	}
	f.extras(f.root, wanted.Object)
	slices.SortFunc(f.found, func(a, b ExtraField) int { return strings.Compare(a.Path, b.Path) })
	return f.found
}

// extras finds the additions below a field; wanted is what it is in the wanted object.
func (f *fields) extras(field *node, wanted any) {
	for _, child := range field.children {
		_, found, has := locate(wanted, child.element)
		has = has && found != nil
		switch {
		case child.ignored || child.absent || empty(child.live) || f.foreign(child):
		case has && !alike(found, child.live), !has && child.element.Index != nil:
			// All of the value, or of the list, is drift.
		case has && child.granular(), !has && child.granular() && (child.collects() || !child.added()):
			f.extras(child, found)
		case !child.addedItself() || !has && standard(child):
		case has:
			f.within(child, found, child.owners)
		case child.collects() || child.ignoredBelow():
			f.within(child, nil, child.owners)
		default:
			f.report(child, child.owners)
		}
	}
}

// within finds the additions in a field that one manager owns as a whole, such as a nodeSelector or the subjects of a
// RoleBinding: whoever adds to it owns what was there before, too. Lists whose items have no names are compared as a
// whole, so that an addition to one is drift.
func (f *fields) within(field *node, wanted any, owners []*manager) {
	var elements []fieldpath.PathElement
	switch live := field.live.(type) {
	case map[string]any:
		for _, name := range sortedKeys(live) {
			elements = append(elements, fieldpath.FieldNameElement(name))
		}
	case []any:
		items, _ := wanted.([]any)
		key := mergeKey(items)
		if key == "" || mergeKey(live) != key {
			return
		}
		for _, item := range live {
			elements = append(elements, fieldpath.KeyElementByFields(key, item.(map[string]any)[key]))
		}
	}
	for _, element := range elements {
		child := field.child(element)
		_, found, has := locate(wanted, element)
		switch {
		case child == nil || child.ignored || empty(child.live) || f.foreign(child):
		case has && found != nil && !alike(found, child.live):
		case has && found != nil || child.ignoredBelow():
			f.within(child, found, owners)
		case !standard(child):
			f.report(child, owners)
		}
	}
}

// alike tells whether two values are both maps, both lists, or neither.
func alike(a, b any) bool {
	_, aIsMap := a.(map[string]any)
	_, bIsMap := b.(map[string]any)
	_, aIsList := a.([]any)
	_, bIsList := b.([]any)
	return aIsMap == bIsMap && aIsList == bIsList
}

func (f *fields) report(field *node, owners []*manager) {
	field.extra = true
	var names []string
	for _, m := range owners {
		if !slices.Contains(names, m.name) {
			names = append(names, m.name)
		}
	}
	path := field.path()
	f.found = append(f.found, ExtraField{Path: path, Manager: strings.Join(names, ", "), Value: f.show(path, field.live), elements: field.elements()})
}

// addedItself tells whether only managers own the field whose fields count as additions.
func (n *node) addedItself() bool {
	return len(n.owners) > 0 && !slices.ContainsFunc(n.owners, func(m *manager) bool { return !m.adds })
}

// added tells whether the field was added with all that is in it. An item of a list is, whatever others have put into it
// since: it goes as a whole.
func (n *node) added() bool {
	if !n.addedItself() || n.ignoredBelow() {
		return false
	}
	return n.element.Key != nil || !slices.ContainsFunc(n.children, func(child *node) bool { return !child.onlyAdditions() })
}

func (n *node) onlyAdditions() bool {
	return !slices.ContainsFunc(n.owners, func(m *manager) bool { return !m.adds }) &&
		!slices.ContainsFunc(n.children, func(child *node) bool { return !child.onlyAdditions() })
}

// collects tells whether the field holds things of several hands, each an addition of its own: the items of a list that
// is merged item by item, labels and annotations, and the keys of ConfigMaps and Secrets.
func (n *node) collects() bool {
	switch name := n.fieldNames(); {
	case slices.Contains([]string{"data", "stringData", "binaryData"}, name),
		slices.ContainsFunc([]string{".metadata.labels", ".metadata.annotations"}, func(end string) bool { return strings.HasSuffix("."+name, end) }):
		_, isMap := n.live.(map[string]any)
		return isMap && n.element.FieldName != nil
	}
	return slices.ContainsFunc(n.children, (*node).mergedItem)
}

func (n *node) ignoredBelow() bool {
	return slices.ContainsFunc(n.children, func(child *node) bool { return child.ignored || child.ignoredBelow() })
}

func (n *node) extraBelow() bool {
	return slices.ContainsFunc(n.children, func(child *node) bool { return child.extra || child.extraBelow() })
}

// withoutExtra is the live value of a field without the additions in it.
func (n *node) withoutExtra() any {
	rest := runtime.DeepCopyJSONValue(n.live)
	// From the back, so that the items before one that goes stay in their places.
	children := slices.SortedFunc(slices.Values(n.children), func(a, b *node) int {
		before, _ := a.place.(int)
		after, _ := b.place.(int)
		return after - before
	})
	for _, child := range children {
		if !child.extra && !child.extraBelow() {
			continue
		}
		below := any(nil)
		if !child.extra {
			below = child.withoutExtra()
		}
		if empty(below) {
			rest = remove(rest, child.place)
		} else {
			rest = n.put(rest, child, below)
		}
	}
	return rest
}

// ignoredMarks are the beginnings of labels and annotations that are never additions: kubectl's memory of what it
// applied, the time of a `kubectl rollout restart`, which was meant, the Deployment controller's, Helm's, and our own.
var ignoredMarks = []string{
	"kubectl.kubernetes.io/last-applied-configuration", "kubectl.kubernetes.io/restartedAt", "deployment.kubernetes.io/",
	"meta.helm.sh/", LabelManagedBy, markPrefix, UserPrefix,
}

// foreign tells whether a field is never an addition: the status, all of the object's metadata but labels and
// annotations, marks of tools, and the key of a list item, which comes and goes with it.
func (f *fields) foreign(field *node) bool {
	if field.element.FieldName == nil {
		return false
	}
	name := *field.element.FieldName
	switch above := field.parent.fieldNames(); {
	case field.parent.element.Key != nil && slices.ContainsFunc(*field.parent.element.Key, func(part value.Field) bool { return part.Name == name }):
		return true
	case field.parent.parent == nil:
		return slices.Contains([]string{"apiVersion", "kind", "status"}, name)
	case above == "metadata":
		return name != "labels" && name != "annotations"
	case strings.HasSuffix("."+above, ".metadata.labels"), strings.HasSuffix("."+above, ".metadata.annotations"):
		return slices.ContainsFunc(ignoredMarks, func(begin string) bool { return strings.HasPrefix(name, begin) })
	}
	return false
}

// defaults are values that the API fills in by itself, by the name of the field. Source: the API reference of
// Kubernetes 1.36, for workloads, Services, volumes and role bindings. A value that is the default of one kind and a
// choice in another is not among them.
var defaults = map[string][]string{
	"allocateLoadBalancerNodePorts": {"true"},
	"apiGroup":                      {"rbac.authorization.k8s.io"},
	"apiVersion":                    {"v1"},
	"backoffLimit":                  {"6"},
	"completionMode":                {"NonIndexed"},
	"completions":                   {"1"},
	"concurrencyPolicy":             {"Allow"},
	"defaultMode":                   {"420"},
	"dnsPolicy":                     {"ClusterFirst"},
	"enableServiceLinks":            {"true"},
	"externalTrafficPolicy":         {"Cluster"},
	"failedJobsHistoryLimit":        {"1"},
	"failureThreshold":              {"3"},
	"internalTrafficPolicy":         {"Cluster"},
	"ipFamilyPolicy":                {"SingleStack"},
	"maxSurge":                      {"25%"},
	"maxUnavailable":                {"25%"},
	"minReadySeconds":               {"0"},
	"parallelism":                   {"1"},
	"partition":                     {"0"},
	"periodSeconds":                 {"10"},
	"podManagementPolicy":           {"OrderedReady"},
	"podReplacementPolicy":          {"TerminatingOrFailed"},
	"preemptionPolicy":              {"PreemptLowerPriority"},
	"progressDeadlineSeconds":       {"600"},
	"protocol":                      {"TCP"},
	"replicas":                      {"1"},
	"restartPolicy":                 {"Always"},
	"revisionHistoryLimit":          {"10"},
	"schedulerName":                 {"default-scheduler"},
	"scheme":                        {"HTTP"},
	"sessionAffinity":               {"None"},
	"successThreshold":              {"1"},
	"successfulJobsHistoryLimit":    {"3"},
	"suspend":                       {"false"},
	"terminationGracePeriodSeconds": {"30"},
	"terminationMessagePath":        {"/dev/termination-log"},
	"terminationMessagePolicy":      {"File"},
	"timeoutSeconds":                {"1"},
	"type":                          {"ClusterIP", "RollingUpdate", "Opaque"},
	"volumeMode":                    {"Filesystem"},
	"whenDeleted":                   {"Retain"},
	"whenScaled":                    {"Retain"},
}

// standard tells whether a field has no more in it than the API fills in by itself.
func standard(field *node) bool {
	if field.element.FieldName == nil {
		return false
	}
	name := *field.element.FieldName
	if name == "serviceAccount" {
		// The old name of a field, which the API sets along with the new one.
		above, _ := field.parent.live.(map[string]any)
		return same(name, above["serviceAccountName"], field.live)
	}
	return isDefault(name, field.live)
}

func isDefault(name string, value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for name, below := range value {
			if !isDefault(name, below) {
				return false
			}
		}
		return true
	case []any:
		return len(value) == 0
	}
	return value == nil || slices.Contains(defaults[name], fmt.Sprint(value))
}

// WithExtra returns base with the extra fields of live added to it, so that a three-way merge takes them away whose
// original is this object, whose modified one is Yield's, and whose current one is live. base is the manifest.
func WithExtra(base, live *unstructured.Unstructured, extra []ExtraField) *unstructured.Unstructured {
	out := base.DeepCopy()
	if live == nil {
		return out
	}
	for _, one := range extra {
		var found any = live.Object
		ok := true
		for _, element := range one.elements {
			if _, found, ok = locate(found, element); !ok {
				break
			}
		}
		if ok {
			out.Object, _ = add(out.Object, one.elements, runtime.DeepCopyJSONValue(found)).(map[string]any)
		}
	}
	return out
}

// add sets what is at the end of a path and makes what the path leads through where it is missing; it returns the map or
// list, which may have grown.
func add(in any, path fieldpath.Path, set any) any {
	if len(path) == 0 {
		return set
	}
	element := path[0]
	place, found, has := locate(in, element)
	if element.FieldName != nil {
		fields, ok := in.(map[string]any)
		switch {
		case in != nil && !ok:
			return in
		case fields == nil:
			fields = map[string]any{}
		}
		fields[*element.FieldName] = add(found, path[1:], set)
		return fields
	}
	items, ok := in.([]any)
	switch {
	case !ok && in != nil:
		return in
	case has:
		items[place.(int)] = add(found, path[1:], set)
		return items
	}
	var item any
	if element.Key != nil && len(path) > 1 {
		item = keyed(*element.Key)
	}
	return append(items, add(item, path[1:], set))
}

// keyed is a list item that has its key and nothing else.
func keyed(key value.FieldList) map[string]any {
	item := map[string]any{}
	for _, part := range key {
		item[part.Name] = runtime.DeepCopyJSONValue(part.Value.Unstructured())
	}
	return item
}
