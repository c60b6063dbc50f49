package provider_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// A registration connects first, then tells Argo CD of the cluster, and the root Application comes last. Where one of these
// fails, none of what follows is written, the error says what is there, no state is left, and the next apply goes on from
// that (I5, I9, X3, X11).
func TestClusterOrder(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	p.use(p.clusterBlock(p.root()))
	p.MustPlan()
	p.reset()
	restore := p.edgeProxy.Fail(nil, fleettest.BadGateway)
	p.Apply("tofutest.plan").Error(t, `^Cluster "edge": its API server does not answer \(502\)$`)
	p.unwritten()
	restore()

	restore = p.proxy.Fail(func(r fleettest.Request) bool { return r.Resource == "applications" && r.IsWrite() }, fleettest.Forbidden)
	root, secret, kubeconfig := "Application/"+p.space+"/registry-"+p.name, "Secret/"+p.space+"/cluster-"+p.name, "Secret/"+p.store+"/cluster-"+p.name+"-kubeconfig"
	p.Apply().Error(t, "^"+root+" could not be written$", "Applied before this: created Namespace/"+p.store+", .*created "+kubeconfig+", created "+secret+quoted("."))
	restore()
	p.NoTaint()
	same(t, "instances", len(p.Instances()), 0)
	same(t, "what is there", row(p.secret() != nil, p.kubeconfig() != nil, p.app("registry-"+p.name) == nil), row(true, true, true))
	uids := row(p.secret().UID, p.kubeconfig().UID)
	var written []string
	for _, request := range p.proxy.Requests() {
		if request.IsWrite() {
			written = append(written, request.Resource)
		}
	}
	same(t, "the order", slices.Compact(written), []string{"namespaces", "secrets", "applications"})

	plan := p.MustPlan()
	for _, object := range []string{secret, kubeconfig} {
		plan.Warning(t, "^"+object+" is there already and carries berth's mark$", "An earlier apply was interrupted, or its state was lost; this one goes on from it")
	}
	p.MustApply()
	p.PlanIsEmpty().NoWarnings(t)
	same(t, "gone on from", row(p.secret().UID, p.kubeconfig().UID), uids)
	same(t, "conditions", p.conditions(), map[string]string{"Connected": "True Reached", "Registered": "True Applied", "Synced": "Unknown NotSeen"})
	p.MustDestroy()
}

// newPairAlone is a pair whose workload cluster is the test's own, with one node.
func newPairAlone(t *testing.T) *pair {
	t.Helper()
	p := newPair(t, tofutest.Options{})
	p.edge = fleettest.NewCluster(t, fleettest.ClusterSpec{Name: "edge", ControlPlaneOnly: true, Nodes: []fleettest.NodeSpec{{Name: "one"}}})
	p.edgeProxy = p.edge.Proxy(t, fleettest.ProxyOptions{})
	p.entries(nil)
	return p
}

// What moves by itself on the workload cluster is seen and plans nothing, a cluster without a node included; what it was when
// it was applied last stands on its Secret. A Secret that is gone is written again (I10, I19, I101, X4).
func TestClusterMoves(t *testing.T) {
	t.Parallel()
	p := newPairAlone(t)
	seen := func(what string, want string) {
		t.Helper()
		p.PlanIsEmpty().NoWarnings(t)
		p.Refresh().NoWarnings(t)
		state := p.Resource(edge)
		same(t, what, row(state["kubernetes_version"], state["node_count"], p.conditions()["Connected"], state["drift"]), want)
	}
	noted := func(what string, version string, nodes int) {
		t.Helper()
		annotations := p.secret().Annotations
		same(t, what+", noted on the Secret", row(annotations["berth.dev/kubernetes-version"], annotations["berth.dev/node-count"], annotations["berth.dev/cluster-uid"]), row(version, nodes, p.edge.UID()))
	}
	p.use(p.clusterBlock())
	p.MustApply()
	seen("at first", row(p.edge.Version(), 1, "True Reached", map[string]any{}))
	noted("at first", p.edge.Version(), 1)
	state := p.Resource(edge)
	connected := state["conditions"].(map[string]any)["Connected"].(map[string]any)
	same(t, "what Connected says", connected["message"], "The API server answers, and Argo CD has a credential for it")
	changes := state["last_transitions"].(map[string]any)
	same(t, "what has changed once", slices.Sorted(maps.Keys(changes)), []string{"Connected", "Registered"})
	if when, err := time.Parse(time.RFC3339, fmt.Sprint(changes["Connected"])); err != nil || time.Since(when) > time.Hour {
		t.Errorf("Connected changed at %v: %v", changes["Connected"], err)
	}

	p.edge.AddNode(t, fleettest.NodeSpec{Name: "two"})
	// As an upgrade has it: an API server of another version is no other cluster.
	restore := p.edgeProxy.Fail(func(r fleettest.Request) bool { return r.Path == "/version" },
		fleettest.Failure{Status: http.StatusOK, ContentType: "application/json", Body: `{"major":"1","minor":"99","gitVersion":"v1.99.0"}`})
	seen("upgraded, with another node", row("v1.99.0", 2, "True Reached", map[string]any{}))
	noted("upgraded, with another node", p.edge.Version(), 1)
	same(t, "nothing of the conditions has changed", p.Resource(edge)["last_transitions"], changes)
	p.use(p.clusterBlock(`secret_labels = { tier = "edge" }`))
	p.MustApply()
	noted("at the next apply", "v1.99.0", 2)
	restore()

	p.edge.Kubectl(t, "delete", "nodes", "--all")
	seen("without nodes", row(p.edge.Version(), 0, "True Reached", map[string]any{}))
	gone := p.secret()
	p.kubectl("-n", p.space, "delete", "secret", gone.Name)
	change := p.MustPlan().Change(t, edge)
	same(t, "the Secret is gone", row(change.Actions, change.Before["drift"]), row([]string{"update"}, map[string]any{"Secret/" + p.space + "/" + gone.Name: "missing → present"}))
	p.MustApply().NoWarnings(t)
	p.PlanIsEmpty()
	again := p.secret()
	same(t, "written again", row(again.UID == gone.UID, string(again.Data["config"]) == string(gone.Data["config"]), again.Labels["tier"], marksOf(again)), row(false, true, "edge", p.owned(true)))
	p.MustDestroy()
}

// A removal that was begun shows in the state, and an apply that keeps the cluster ends it: no mark is left, on the cluster's
// Applications neither, by which the next removal would take along what is not the cluster's any more (I23, I80, Y13).
func TestClusterRemovalGivenUp(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	begin := func(kind, name string) {
		t.Helper()
		p.kubectl("-n", p.space, "annotate", kind, name, "berth.dev/removal-step=applications", "berth.dev/removal-started=2026-01-01T00:00:00Z", `berth.dev/removal-left=["web"]`)
	}
	marked := func(name, cluster string) {
		t.Helper()
		p.application(name, "")
		p.kubectl("-n", p.space, "annotate", "application", "registry-"+name, "berth.dev/removal="+cluster, "berth.dev/removal-path=0")
	}
	left := func(object metav1.Object) []string {
		var keys []string
		for key := range object.GetAnnotations() {
			if strings.HasPrefix(key, "berth.dev/removal") {
				keys = append(keys, key)
			}
		}
		return keys
	}
	begun := func(what string, more ...string) {
		t.Helper()
		p.Refresh()
		same(t, what+", begun", p.Resource(edge)["removal_step"], "applications")
		p.PlanIsEmpty()
		p.use(p.clusterBlock(more...))
		p.MustApply()
		p.PlanIsEmpty()
		same(t, what+", ended", p.Resource(edge)["removal_step"], nil)
	}
	p.use(p.clusterBlock())
	p.MustApply()
	same(t, "at first", p.Resource(edge)["removal_step"], nil)
	begin("secret", "cluster-"+p.name)
	marked("web", p.name)
	marked("other", "another-cluster")
	begun("noted on the Secret", `secret_labels = { tier = "edge" }`)
	same(t, "marks", row(left(p.secret()), left(p.app("registry-web")), len(left(p.app("registry-other")))), row([]string(nil), []string(nil), 2))
	p.kubectl("-n", p.space, "delete", "application", "registry-web")
	p.MustDestroy()

	// Without a Secret it is noted on the root.
	inside := func(revision string) []string {
		return []string{"in_cluster = true", `cluster = "mgmt"`, p.root(fmt.Sprintf("revision = %q", revision))}
	}
	p.use(p.clusterBlock(inside("v1")...))
	p.MustApply()
	secrets, err := p.mgmt.Client().CoreV1().Secrets(p.space).List(t.Context(), metav1.ListOptions{LabelSelector: "argocd.argoproj.io/secret-type"})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "Secrets", row(len(secrets.Items), p.kubeconfig() == nil), row(0, true))
	begin("application", "registry-"+p.name)
	marked("web", p.name)
	begun("noted on the root", inside("v2")...)
	same(t, "marks", row(left(p.app("registry-"+p.name)), left(p.app("registry-web"))), row([]string(nil), []string(nil)))
	// The root goes first, and with it what was noted.
	p.kubectl("-n", p.space, "annotate", "application", "registry-web", "berth.dev/removal="+p.name)
	p.kubectl("-n", p.space, "delete", "application", "registry-"+p.name)
	change := p.MustPlan().Change(t, edge)
	same(t, "without its root", row(change.Actions, change.Before["removal_step"]), row([]string{"update"}, "root"))
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "marks", left(p.app("registry-web")), []string(nil))
	p.kubectl("-n", p.space, "delete", "application", "registry-web")
	p.MustDestroy()
}

// One cluster at two addresses is what Argo CD can't tell apart, so that the plan says it; both registrations work (I102).
func TestClusterTwice(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	p.use(p.clusterBlock())
	p.MustApply()
	twin := p.blockOf("twin", fmt.Sprintf("name = %q\nserver = %q", p.name+"-twin", p.edge.AdminKubeconfig().Server))
	p.use(p.clusterBlock(), twin)
	p.MustPlan().Warning(t, `^Cluster "edge" is registered twice$`,
		"^Secret/?.?"+p.space+"/cluster-"+p.name+` on mgmt registers the same cluster \(UID `+p.edge.UID()+`\) as "`+p.name+`" at another address, `+quoted(p.edgeProxy.Server()))
	p.MustApply()
	p.PlanIsEmpty()
	p.MustDestroy()
}
