package argocd

import (
	"fmt"
	"strings"
	"testing"
)

// brought is the metadata of an Application that another one brings, with its wave.
func brought(name, by string, wave int, more ...string) string {
	return fmt.Sprintf(`
metadata:
  %s
  annotations: {argocd.argoproj.io/tracking-id: "%s:argoproj.io/Application:argocd/%s", argocd.argoproj.io/sync-wave: "%d"}
`, strings.Join(more, "\n  "), by, name, wave)
}

const toEdge = "spec: {destination: {name: edge}}\n"

const toHome = "spec: {destination: {server: 'https://kubernetes.default.svc'}}\n"

// listing is a status that lists Applications of namespace argocd, and further resources as they are.
func listing(apps []string, more ...string) string {
	text := "status:\n  resources:\n"
	for _, app := range apps {
		text += fmt.Sprintf("  - {group: argoproj.io, kind: Application, namespace: argocd, name: %s}\n", app)
	}
	for _, one := range more {
		text += "  - " + one + "\n"
	}
	return text
}

func fleetOf(t *testing.T, manifests map[string]string) []Application {
	t.Helper()
	var all []Application
	for name, manifest := range manifests {
		all = append(all, applicationOf(t, name, manifest))
	}
	return all
}

func namesOf(all []*Application) string {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = one.Name
	}
	return strings.Join(names, " ")
}

// Only what the root brought belongs to the cluster, through any number of Applications between (Y25).
func TestBelonging(t *testing.T) {
	t.Parallel()
	const root = toHome
	for name, c := range map[string]struct {
		apps            map[string]string
		members, others string
	}{
		"tracked": {map[string]string{
			"registry-edge": root, "web": brought("web", "registry-edge", 0) + toEdge, "other": brought("other", "registry-north", 0) + toEdge,
		}, "web", "other"},
		"by label": {map[string]string{
			"registry-edge": root, "web": "metadata: {labels: {app.kubernetes.io/instance: registry-edge}}\n" + toEdge,
		}, "web", ""},
		"listed by the root": {map[string]string{
			"registry-edge": root + listing([]string{"web", "gone"}), "web": toEdge, "stray": toEdge,
		}, "web", "stray"},
		"listed by two, and tracked by the other": {map[string]string{
			"registry-edge": root + listing([]string{"web"}), "platform": toHome + listing([]string{"web"}), "web": brought("web", "platform", 0) + toEdge,
		}, "", "platform web"},
		"nested": {map[string]string{
			"registry-edge": root, "apps": brought("apps", "registry-edge", 1) + toHome, "web": brought("web", "apps", 5) + toEdge,
			"db": brought("db", "web", 0) + toEdge,
		}, "db web apps", ""},
		"the root is gone": {map[string]string{
			"web": brought("web", "registry-edge", 0) + toEdge,
		}, "web", ""},
		"marked, and what brought it is gone": {map[string]string{
			"web": "metadata: {annotations: {berth.dev/removal: edge}}\n" + toEdge, "db": "metadata: {annotations: {berth.dev/removal: north}}\n" + toEdge,
		}, "web", "db"},
		"marked once, and somebody else's since": {map[string]string{
			"platform": toHome,
			"web":      "metadata: {annotations: {berth.dev/removal: edge, argocd.argoproj.io/tracking-id: \"platform:argoproj.io/Application:argocd/web\"}}\n" + toEdge,
		}, "", "platform web"},
		"two that bring each other": {map[string]string{
			"registry-edge": root, "a": brought("a", "b", 0) + toHome, "b": brought("b", "a", 0) + toHome,
		}, "", "a b"},
		"the root brings itself": {map[string]string{
			"registry-edge": brought("registry-edge", "registry-edge", 0) + toHome + listing([]string{"registry-edge", "web"}), "web": brought("web", "registry-edge", 0) + toEdge,
		}, "web", ""},
		// Its Applications are those of the Argo CD on that cluster.
		"an Application that brings Applications to another cluster": {map[string]string{
			"registry-edge": root, "agent": brought("agent", "registry-edge", 0) + toEdge + listing([]string{"web"}), "web": toEdge,
		}, "agent", "web"},
	} {
		tree := belonging("edge", "argocd", fleetOf(t, c.apps), nil)
		want(t, name+": members", namesOf(tree.members), c.members)
		want(t, name+": others", namesOf(tree.others), c.others)
		_, has := c.apps["registry-edge"]
		want(t, name+": has a root", tree.root != nil, has)
	}
}

// Applications of other namespaces than Argo CD's own have their namespace in the tracking. There may be another Argo CD
// there, whose Applications are called the same.
func TestBelongingInNamespaces(t *testing.T) {
	t.Parallel()
	const team = "metadata: {namespace: team, annotations: {argocd.argoproj.io/tracking-id: \"%s:argoproj.io/Application:team/%s\"}}\n"
	all := fleetOf(t, map[string]string{
		"registry-edge": toHome + "status: {resources: [{group: argoproj.io, kind: Application, namespace: team, name: apps}]}",
		"apps":          fmt.Sprintf(team, "registry-edge", "apps") + toHome,
		"web":           brought("web", "team_apps", 0) + toEdge,
		"db":            brought("db", "apps", 0) + toEdge,
		"twin":          fmt.Sprintf(team, "registry-edge", "twin") + toEdge,
	})
	tree := belonging("edge", "argocd", all, nil)
	want(t, "members", namesOf(tree.members), "web apps")
	want(t, "others", namesOf(tree.others), "db twin")
}

// The order of taking down (I83, Y3): the reverse of how Argo CD brings them up, by the waves from the root down, and the
// controllers after all others, with whatever brought them.
func TestOrder(t *testing.T) {
	t.Parallel()
	csi := listing(nil, "{group: storage.k8s.io, kind: CSIDriver, name: ebs.csi.aws.com}")
	other := "{kind: ConfigMap, namespace: argocd, name: settings}"
	for name, c := range map[string]struct {
		apps map[string]string
		last []string
		want string // wave:names, a star after the wave for the controllers
	}{
		"waves": {map[string]string{
			"a": brought("a", "registry-edge", 2), "b": brought("b", "registry-edge", 10), "c": brought("c", "registry-edge", -1), "d": brought("d", "registry-edge", 2),
		}, nil, "10:b 2:a,d -1:c"},
		"below another": {map[string]string{
			"late": brought("late", "registry-edge", 1), "apps": brought("apps", "registry-edge", 0) + toHome,
			"x": brought("x", "apps", 7), "y": brought("y", "apps", -7), "flat": brought("flat", "registry-edge", 0),
		}, nil, "1:late 0/7:x 0/-7:y 0:apps,flat"},
		"controllers": {map[string]string{
			"external-dns": brought("external-dns", "registry-edge", 9), "driver": brought("driver", "registry-edge", 3) + csi,
			"mine": brought("mine", "registry-edge", 5), "web": brought("web", "registry-edge", -5), "db": brought("db", "registry-edge", 0),
		}, []string{"mine"}, "0:db -5:web 9*:external-dns 5*:mine 3*:driver"},
		"a controller below one that brings more": {map[string]string{
			"platform": brought("platform", "registry-edge", 0) + toHome + listing([]string{"external-dns", "web"}, other),
			"web":      brought("web", "platform", 1), "external-dns": brought("external-dns", "platform", 0), "late": brought("late", "registry-edge", 4),
		}, nil, "4:late 0/1:web 0/0*:external-dns 0*:platform"},
		"the waves as they were noted": {map[string]string{
			"x": "metadata: {annotations: {berth.dev/removal: edge, berth.dev/removal-path: 3/1, argocd.argoproj.io/sync-wave: '1'}}",
			"y": "metadata: {annotations: {berth.dev/removal: edge, berth.dev/removal-path: '2', argocd.argoproj.io/sync-wave: '2'}}",
			"z": "metadata: {annotations: {berth.dev/removal: edge, berth.dev/removal-path: broken, argocd.argoproj.io/sync-wave: '5'}}",
		}, nil, "5:z 3/1:x 2:y"},
	} {
		tree := belonging("edge", "argocd", fleetOf(t, c.apps), c.last)
		var order []string
		for _, group := range groups(tree.members) {
			star := ""
			if group[0].last {
				star = "*"
			}
			order = append(order, waveOf(group[0].path)+star+":"+strings.ReplaceAll(namesOf(group), " ", ","))
		}
		want(t, name, strings.Join(order, " "), c.want)
	}
}

// Those that only bring others are deleted like the root; those that bring other things too are kept until the others are
// gone, so that nothing of theirs is orphaned.
func TestNested(t *testing.T) {
	t.Parallel()
	tree := belonging("edge", "argocd", fleetOf(t, map[string]string{
		"pure":    brought("pure", "registry-edge", 0) + toHome + listing([]string{"a"}),
		"mixed":   brought("mixed", "registry-edge", 0) + toHome + listing([]string{"b"}, "{group: argoproj.io, kind: AppProject, namespace: argocd, name: team}"),
		"unknown": brought("unknown", "registry-edge", 0) + toHome,
		"a":       brought("a", "pure", 0), "b": brought("b", "mixed", 0), "c": brought("c", "unknown", 0),
	}), nil)
	for _, one := range tree.members {
		want(t, one.Name+" has others below it", one.nested, len(one.Name) > 1)
		want(t, one.Name+" has nothing else", one.pure, one.Name == "pure")
	}
}

// What is on the cluster, which of it is an environment, and what may not be taken down (I82, Y25).
func TestOnCluster(t *testing.T) {
	t.Parallel()
	zone := func(name string) string {
		return "metadata: {labels: {berth.dev/zone: " + name + ", berth.dev/product: shop}}\n"
	}
	apps := map[string]string{
		"registry-edge": toHome + listing(nil, "{group: argoproj.io, kind: ApplicationSet, namespace: argocd, name: generated}"),
		"web":           brought("web", "registry-edge", 0) + toEdge,
		"addressed":     "spec: {destination: {server: 'https://EDGE.example.com:443/'}}",
		"stray":         toEdge,
		"elsewhere":     "spec: {destination: {name: north}}",
		"set":           brought("set", "registry-edge", 0, "ownerReferences: [{apiVersion: argoproj.io/v1alpha1, kind: ApplicationSet, name: generated, uid: u}]") + toEdge,
		"zone-a":        zone("a") + toEdge,
		"zone-b":        brought("zone-b", "registry-edge", 0, "labels: {berth.dev/zone: b}") + toEdge,
		"zone-c":        zone("c") + "spec: {destination: {name: north}}",
		"zone-d":        brought("zone-d", "registry-edge", 0, "labels: {berth.dev/zone: d}") + "spec: {destination: {name: north}}",
	}
	tree := belonging("edge", "argocd", fleetOf(t, apps), nil)
	spec, server := Spec{Name: "edge"}, "https://edge.example.com"
	want(t, "zones", namesOf(tree.zones(spec, server)), "zone-a zone-b zone-d")
	want(t, "foreign", namesOf(tree.foreign(spec, server)), "addressed set stray")
	want(t, "generators", tree.generators(), []string{"argocd/generated"})
	want(t, "foreign without a server", namesOf(tree.foreign(spec, "")), "set stray")
	// Beside the management cluster itself, everything else there is none of its business (I23).
	inside := Spec{Name: "edge", InCluster: true}
	want(t, "zones in the management cluster", namesOf(tree.zones(inside, InClusterServer)), "zone-b zone-d")
	want(t, "foreign in the management cluster", namesOf(tree.foreign(inside, InClusterServer)), "set")
}
