package argocd

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// annotationRemovalPath stands beside AnnotationRemoval and keeps the waves from the root down to the Application, by which
// the order is still known when the Applications above it are gone.
const annotationRemovalPath = "berth.dev/removal-path"

// tree is what belongs to the root Application of a cluster (Y25).
type tree struct {
	// name is the cluster's, home Argo CD's namespace.
	name, home string
	// root is nil when there is none, or none any more.
	root *Application
	// members are all that belong to the root without itself, in the order in which they are taken down.
	members []*Application
	// others are the rest of Argo CD's Applications.
	others []*Application
}

// index finds Applications.
type index struct {
	ordered    []*Application            // by namespace and name
	byInstance map[string]*Application   // by what trackings call them
	byName     map[string]*Application   // by namespace/name
	tracked    map[string][]*Application // those that a tracking says are below one
}

func indexed(all []Application, home string) index {
	x := index{byInstance: map[string]*Application{}, byName: map[string]*Application{}, tracked: map[string][]*Application{}}
	for i := range all {
		one := &all[i]
		x.ordered = append(x.ordered, one)
		x.byInstance[one.instance(home)], x.byName[one.String()] = one, one
	}
	slices.SortFunc(x.ordered, func(a, b *Application) int { return strings.Compare(a.String(), b.String()) })
	for _, one := range x.ordered {
		if one.Parent != "" && one.Parent != one.instance(home) {
			x.tracked[one.Parent] = append(x.tracked[one.Parent], one)
		}
	}
	return x
}

// children are the Applications below one, which need not exist any more: those whose tracking names it, and those among its
// resources whose tracking names no other. What deploys to another cluster lists that one's Applications, not these. In
// another namespace than Argo CD's own a tracking may be that of another Argo CD, which has an Application of the same name:
// there it counts only for what is listed, too.
func (x index) children(home, instance string) []*Application {
	above := x.byInstance[instance]
	var children []*Application
	for _, one := range x.tracked[instance] {
		if above == nil || one.Namespace == home || above.home() && above.lists(*one) {
			children = append(children, one)
		}
	}
	if above == nil || !above.home() {
		return children
	}
	for _, resource := range above.Resources {
		one := x.byName[resource.Namespace+"/"+resource.Name]
		if !resource.isApplication() || one == nil || one == above || slices.Contains(children, one) {
			continue
		}
		if tracked := x.byInstance[one.Parent]; tracked == nil || tracked == one {
			children = append(children, one)
		}
	}
	return children
}

// lists tells whether another Application is among the resources of this one.
func (a Application) lists(other Application) bool {
	return slices.ContainsFunc(a.Resources, func(r Resource) bool {
		return r.isApplication() && r.Namespace == other.Namespace && r.Name == other.Name
	})
}

// belonging finds what belongs to a cluster's root, transitively: by the tracking of each Application, and by what the
// Applications above it list as their resources. An Application that a removal has marked belongs too, unless it has become
// a resource of another one that exists. last names the controllers of the configuration (see recognise).
func belonging(name, home string, all []Application, last []string) tree {
	t := tree{name: name, home: home}
	x := indexed(all, home)
	t.root = x.byInstance[RootName(name)]
	found, above := map[*Application]bool{}, map[*Application]*Application{}
	if t.root != nil {
		found[t.root] = true
	}
	var descend func(instance string, path []int)
	descend = func(instance string, path []int) {
		for _, one := range x.children(home, instance) {
			if found[one] {
				continue
			}
			found[one], above[one] = true, x.byInstance[instance]
			one.path = append(slices.Clone(path), one.Wave)
			descend(one.instance(home), one.path)
		}
	}
	// The root may be gone, and what it brought still names it.
	descend(RootName(name), nil)
	for _, one := range x.ordered {
		parent := x.byInstance[one.Parent]
		if found[one] || one.Live.GetAnnotations()[AnnotationRemoval] != name || parent != nil && parent != one && !found[parent] {
			continue
		}
		found[one], one.path = true, []int{one.Wave}
		descend(one.instance(home), one.path)
	}
	for _, one := range x.ordered {
		switch {
		case one == t.root:
		case !found[one]:
			t.others = append(t.others, one)
		default:
			if path, ok := recordedPath(one.Live); ok && one.Live.GetAnnotations()[AnnotationRemoval] == name {
				one.path = path
			}
			one.Controller, one.Why = recognise(*one, name, last)
			one.last = one.Controller
			t.members = append(t.members, one)
		}
	}
	for _, one := range t.members {
		// What has others below it goes after them, and so last where one of them does.
		for up := above[one]; up != nil && up != t.root; up = above[up] {
			up.nested, up.last = true, up.last || one.last
		}
	}
	for _, one := range t.members {
		one.pure = one.nested && len(one.Resources) > 0 && !slices.ContainsFunc(one.Resources, func(r Resource) bool { return !r.isApplication() })
	}
	slices.SortStableFunc(t.members, before)
	return t
}

func (r Resource) isApplication() bool {
	return r.Group == Applications.Group && r.Kind == Applications.Kind
}

// before orders for taking down: the controllers after all others, and otherwise the reverse of how they came up, which is
// by the waves from the root down; what is below another one comes before it.
func before(a, b *Application) int {
	if a.last != b.last {
		if a.last {
			return 1
		}
		return -1
	}
	if order := comparePaths(b.path, a.path); order != 0 {
		return order
	}
	return strings.Compare(a.String(), b.String())
}

// comparePaths orders paths of waves as Argo CD brings them up.
func comparePaths(a, b []int) int {
	for i := range min(len(a), len(b)) {
		if order := cmp.Compare(a[i], b[i]); order != 0 {
			return order
		}
	}
	return cmp.Compare(len(a), len(b))
}

// groups are the members in the order of taking down, those of one wave together.
func groups(members []*Application) [][]*Application {
	var all [][]*Application
	for _, one := range members {
		if n := len(all); n > 0 && all[n-1][0].last == one.last && slices.Equal(all[n-1][0].path, one.path) {
			all[n-1] = append(all[n-1], one)
			continue
		}
		all = append(all, []*Application{one})
	}
	return all
}

// waveOf is a path of waves as messages show it, such as "2" or "0/5".
func waveOf(path []int) string {
	texts := make([]string, len(path))
	for i, wave := range path {
		texts[i] = strconv.Itoa(wave)
	}
	return strings.Join(texts, "/")
}

func recordedPath(live *unstructured.Unstructured) ([]int, bool) {
	text, ok := live.GetAnnotations()[annotationRemovalPath]
	if !ok {
		return nil, false
	}
	var path []int
	for part := range strings.SplitSeq(text, "/") {
		wave, err := strconv.Atoi(part)
		if err != nil {
			return nil, false
		}
		path = append(path, wave)
	}
	return path, true
}

// onCluster are the Applications that deploy to a registered cluster; server is the address by which Argo CD reaches it. Of a
// cluster that Argo CD runs in, only what belongs to the root counts.
func (t *tree) onCluster(spec Spec, server string) []*Application {
	if spec.InCluster {
		return slices.Clone(t.members)
	}
	var on []*Application
	for _, one := range slices.Concat(t.members, t.others) {
		if one.deploysTo(spec.Name, server) {
			on = append(on, one)
		}
	}
	return on
}

func (a Application) deploysTo(name, server string) bool {
	if a.DestinationName != "" {
		return a.DestinationName == name
	}
	return server != "" && cluster.SameServer(a.DestinationServer, server)
}

// zones are the Applications of environments on the cluster, whoever brought them, in the order of their names.
func (t *tree) zones(spec Spec, server string) []*Application {
	zones := slices.DeleteFunc(t.onCluster(spec, server), func(one *Application) bool { return one.Zone == "" })
	// A zone of the root's that deploys elsewhere would be taken down too.
	for _, one := range t.members {
		if one.Zone != "" && !slices.Contains(zones, one) {
			zones = append(zones, one)
		}
	}
	slices.SortFunc(zones, func(a, b *Application) int { return strings.Compare(a.String(), b.String()) })
	return zones
}

// foreign are the Applications on the cluster that the removal may not take down: those that do not belong to the root, and
// those that an ApplicationSet makes. Zones are told of by themselves.
func (t *tree) foreign(spec Spec, server string) []*Application {
	var foreign []*Application
	for _, one := range t.others {
		if !spec.InCluster && one.Zone == "" && one.deploysTo(spec.Name, server) {
			foreign = append(foreign, one)
		}
	}
	for _, one := range t.members {
		if one.ApplicationSet != "" && one.Zone == "" {
			foreign = append(foreign, one)
		}
	}
	slices.SortFunc(foreign, func(a, b *Application) int { return strings.Compare(a.String(), b.String()) })
	return foreign
}

// generators are the ApplicationSets that the root, or one below it, brings.
func (t *tree) generators() []string {
	var names []string
	for _, one := range t.andRoot() {
		if !one.home() {
			continue
		}
		for _, resource := range one.Resources {
			if resource.Group == Applications.Group && resource.Kind == "ApplicationSet" {
				names = append(names, resource.Namespace+"/"+resource.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (t *tree) andRoot() []*Application {
	if t.root == nil {
		return t.members
	}
	return append([]*Application{t.root}, t.members...)
}
