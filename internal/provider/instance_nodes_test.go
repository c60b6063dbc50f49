package provider_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// What follows from the nodes, as they come: none, one that nothing is released for, an ordinary one, a cordoned one,
// an old runtime, a pool (J10, J20 to J25, J27, J30 to J32, J34, J35, J65, X4).
func TestInstanceNodes(t *testing.T) {
	t.Parallel()
	c := fleettest.NewCluster(t, fleettest.ClusterSpec{Name: "nodes", ControlPlaneOnly: true})
	b := newBenchOn(t, c, "team", tofutest.Options{})
	titled := func(check string) string { return `^Instance "app" on cluster "shared": ` + check + "$" }

	// J65: an empty intersection refuses; without a node at all the way out is to name the platforms.
	b.use(instance("this", "app", pool))
	b.Plan().Error(t, `^No platform for instance "app"$`, `^refusing: this cluster has no schedulable node right now to read a platform from — .*linux/amd64, linux/arm64 and nothing else.*[Ss]et .platforms.*Nothing was applied\.$`)
	c.AddNode(t, fleettest.NodeSpec{Name: "s390", Architecture: "s390x"})
	b.Plan().Error(t, `^No platform for instance "app"$`, `^refusing: this cluster's schedulable nodes report s390x — .*Nothing was applied\.$`)
	b.unwritten()

	// J31, J32, J22: no sandbox node is a warning that lists every node and its reason, never an error (X4).
	c.AddNode(t, fleettest.NodeSpec{Name: "amd"})
	c.AddNode(t, fleettest.NodeSpec{Name: "cordoned", Unschedulable: true, Labels: map[string]string{"pool": "agents"}})
	c.AddNode(t, fleettest.NodeSpec{Name: "builders", Labels: map[string]string{"pool": "builders"}})
	c.AddNode(t, fleettest.NodeSpec{
		Name: "tainted", Labels: map[string]string{"pool": "agents"},
		Taints: []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoExecute}, {Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule}},
	})
	plan := b.MustPlan()
	plan.Warning(t, titled("nodes"), `^no sandbox node right now — a sandbox stays Pending until one appears: amd: lacks the label pool that sandbox\.node_selector requires `+
		`builders: label pool=builders is not the pool=agents that sandbox\.node_selector requires cordoned: cordoned \(spec\.unschedulable\) `+
		`s390: lacks the label pool that sandbox\.node_selector requires tainted: taint gpu=yes:NoExecute is not tolerated by sandbox\.tolerations `+
		`A sandbox lands where an ordinary pod lands; to admit a tainted or labeled node, set .sandbox = \{ node_selector, tolerations \}., in the shapes of the pod spec\.$`)
	plan.Warning(t, titled("platforms"), `^platforms: linux/amd64 \(from 3 schedulable node\(s\)\) skipping node arch s390x — berth knows no image for it, so no pod there could run$`)
	b.MustApply()
	state := b.Resource(thisInstance)
	same(t, "nodes", row(state["sandbox_nodes"], state["schedulable_nodes"], state["skipped_architectures"], state["effective_platforms"]), "[] 3 [s390x] [linux/amd64]")
	same(t, "excluded_nodes", len(state["excluded_nodes"].([]any)), 5)
	// J35: an instance without a node is ready, and waits.
	same(t, "conditions", row(b.conditionsOf(thisInstance)["SandboxNodes"], b.conditionsOf(thisInstance)["Ready"]), "False NoSandboxNode True Converged")
	b.PlanIsEmpty()

	// J10: an old runtime warns and never refuses; J34: so does a size that no node holds.
	c.AddNode(t, fleettest.NodeSpec{Name: "old", Labels: map[string]string{"pool": "agents"}, Runtime: "containerd://1.7.27", CPU: "4", Memory: "16Gi"})
	b.use(instance("this", "app", pool, `sizes = { huge = { memory = "512Gi", cpu = "64" }, wide = { cpu = "8", memory = "1Gi" }, fits = {} }`))
	plan = b.MustPlan()
	plan.Warning(t, titled("container_runtime"), `^container runtimes: containerd://1\.7\.27 is older than 2\.1\.0 \(old\) Image volumes need containerd 2\.1\.0 or newer, or CRI-O 1\.31 or newer\. On an older runtime the first pod that mounts one fails, and its events give the cause\.$`)
	plan.Warning(t, titled("sizes/huge"), `^no sandbox node right now has the allocatable for a size of memory 512Gi, cpu 64 \(size "huge"\) — its sandbox stays Pending until one does .*The sandbox nodes are: old \(memory 16Gi, cpu 4\)\.$`)
	plan.Warning(t, titled("sizes/wide"), `cpu 8 \(size "wide"\)`)
	for _, warning := range plan.Warnings() {
		if warning.Summary == `Instance "app" on cluster "shared": sizes/fits` {
			t.Errorf("a size that fits: %s", warning.Detail)
		}
	}
	b.MustApply()
	b.PlanIsEmpty()

	// The set only grows: nodes come and go by themselves.
	c.AddNode(t, fleettest.NodeSpec{Name: "arm", Architecture: "arm64"})
	plan = b.MustPlan()
	plan.Warning(t, `^The platforms of instance "app" on cluster "shared" grow$`, "^Its nodes are of more platforms now than are in use: linux/amd64 becomes linux/amd64, linux/arm64\\.$")
	change := plan.Change(t, thisInstance)
	same(t, "one more platform", row(change.Actions, change.Before["effective_platforms"], change.AfterUnknown["effective_platforms"]), "[update] [linux/amd64] true")
	b.MustApply()
	for _, name := range []string{"arm", "amd", "builders", "old", "tainted"} {
		b.kubectl("delete", "node", name)
	}
	b.PlanIsEmpty()
	same(t, "the platforms", b.settings("app")["platforms"], "linux/amd64,linux/arm64")

	// J24, J25, Y19: `platforms` replaces what the nodes say; they are not read, and that is said.
	b.proxy.Reset()
	b.use(instance("this", "app", pool, `sizes = { huge = { memory = "512Gi", cpu = "64" } }`, `platforms = ["linux/arm64"]`))
	plan = b.MustPlan("-refresh=false")
	for _, check := range []string{"nodes", "sizes/huge"} {
		plan.Warning(t, titled(check), "^not checked: .platforms. is set, so the nodes were not read$")
	}
	same(t, "reads of nodes", b.proxy.CountIf(func(r fleettest.Request) bool { return r.Resource == "nodes" }), 0)
	b.MustApply()
	state = b.Resource(thisInstance)
	same(t, "platforms", row(state["effective_platforms"], state["sandbox_nodes"], state["schedulable_nodes"], b.conditionsOf(thisInstance)["SandboxNodes"]), "[linux/arm64] <nil> <nil> True NotRead")
	b.PlanIsEmpty()
	// Back to the nodes, what was set by hand does not linger.
	c.AddNode(t, fleettest.NodeSpec{Name: "new"})
	b.use(instance("this", "app", pool))
	b.MustApply()
	same(t, "platforms", b.Resource(thisInstance)["effective_platforms"], "[linux/amd64]")
	b.PlanIsEmpty()
}

// A toleration without a value, an effect or a key tolerates what Kubernetes says (J28), and the repo cache follows
// (J29).
func TestInstanceTolerations(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	classes, name := b.ownClasses(), unique("tolerant")
	for body, want := range map[string]string{
		``: "[amd arm s390]",
		`sandbox = { tolerations = [{ key = "pool", operator = "Exists" }] }`:                                   "[amd arm pool s390]",
		`sandbox = { tolerations = [{ operator = "Exists" }] }`:                                                 "[amd arm pool s390]",
		`sandbox = { tolerations = [{ key = "pool", value = "agents", effect = "NoExecute" }] }`:                "[amd arm s390]",
		`sandbox = { tolerations = [{ key = "pool", value = "builders" }] }`:                                    "[amd arm s390]",
		`sandbox = { node_selector = { pool = "agents" }, tolerations = [{ key = "pool", value = "agents" }] }`: "[pool]",
	} {
		b.use(instance("this", name, classes, body))
		b.MustApply()
		same(t, body, b.Resource(thisInstance)["sandbox_nodes"], want)
	}
	b.MustDestroy()
}
