package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// The runner plans once more right before it applies. Nodes that come and go in between, and objects that vanish, never
// contradict the plan that was approved: what they decide was unknown in it, and nothing else was (X4, X5).
func TestInstanceMovesAfterPlan(t *testing.T) {
	t.Parallel()
	c := fleettest.NewCluster(t, fleettest.ClusterSpec{Name: "moving", ControlPlaneOnly: true, Controllers: true, Nodes: []fleettest.NodeSpec{{Name: "amd"}}})
	b := newBenchOn(t, c, "team", tofutest.Options{})
	arm := fleettest.NodeSpec{Name: "arm", Architecture: "arm64"}
	known := func(result *tofutest.Result, names ...string) {
		t.Helper()
		for _, name := range names {
			if marks := fmt.Sprint(result.Change(t, thisInstance).AfterUnknown[name]); strings.Contains(marks, "true") {
				t.Errorf("%s is unknown: %s", name, marks)
			}
		}
	}
	unknown := func(result *tofutest.Result, names ...string) {
		t.Helper()
		for _, name := range names {
			same(t, name+" is unknown", result.Change(t, thisInstance).AfterUnknown[name], true)
		}
	}

	// A create.
	b.use(instance("this", "app"))
	unknown(b.MustPlan(), "effective_platforms", "content_hash", "sandbox_nodes", "created_namespace")
	c.AddNode(t, arm)
	b.MustApply("tofutest.plan")
	same(t, "platforms of the create", b.Resource(thisInstance)["effective_platforms"], "[linux/amd64 linux/arm64]")
	b.PlanIsEmpty()

	// An update: what follows from the arguments stays known.
	b.use(instance("this", "app", `kit_version = "2"`))
	plan := b.MustPlan()
	unknown(plan, "schedulable_nodes", "excluded_nodes", "conditions")
	known(plan, "namespace", "image_refs", "kit_images", "effective_priority_classes", "context", "server", "id", "cluster_uid")
	b.kubectl("delete", "node", "arm")
	b.MustApply("tofutest.plan")
	same(t, "nodes after the update", row(b.Resource(thisInstance)["sandbox_nodes"], b.Resource(thisInstance)["effective_platforms"]), "[amd] [linux/amd64 linux/arm64]")
	b.PlanIsEmpty()

	// With platforms set, what follows from them is known, and nodes that move matter to nothing.
	b.use(instance("this", "app", `platforms = ["linux/amd64"]`))
	known(b.MustPlan(), "effective_platforms", "content_hash", "sandbox_nodes")
	c.AddNode(t, arm)
	b.MustApply("tofutest.plan")
	b.PlanIsEmpty()

	// The namespace goes between plan and apply: it is made anew.
	b.use(instance("this", "app", `platforms = ["linux/amd64"]`, `kit_version = "3"`))
	b.MustPlan()
	b.kubectl("delete", "namespace", "app")
	b.MustApply("tofutest.plan")
	same(t, "namespace_uid", b.Resource(thisInstance)["namespace_uid"], b.mustNamespace("app").UID)
	b.PlanIsEmpty()
	b.MustDestroy()

	// The set would grow, and then it would not: an approved update that became nothing.
	b.kubectl("delete", "node", "arm")
	b.use(instance("this", "app"))
	b.MustApply()
	c.AddNode(t, arm)
	plan = b.MustPlan()
	plan.Warning(t, `^The platforms of instance "app" on cluster "shared" grow$`, `linux/amd64 becomes linux/amd64, linux/arm64`)
	unknown(plan, "effective_platforms", "content_hash", "conditions")
	b.kubectl("delete", "node", "arm")
	b.MustApply("tofutest.plan")
	same(t, "platforms that did not grow", b.Resource(thisInstance)["effective_platforms"], "[linux/amd64]")
	b.PlanIsEmpty()

	// A key that is renamed while the set grows is a matter of the state; the next plan sees the nodes.
	b.block = providerBlock(b.owner, clusters{"renamed": byPath(t, b.proxy.AdminKubeconfig())})
	b.use(instance("this", "app"))
	plan = b.MustPlan("-refresh=false")
	same(t, "a renamed key", plan.Change(t, thisInstance).Actions, "[update]")
	known(plan, "effective_platforms", "content_hash", "conditions", "sandbox_nodes", "namespace_uid")
	c.AddNode(t, arm)
	b.MustApply("tofutest.plan")
	c.AddNode(t, fleettest.NodeSpec{Name: "arm-2", Architecture: "arm64"})
	b.block = providerBlock(b.owner, clusters{"again": byPath(t, b.proxy.AdminKubeconfig())})
	b.use(instance("this", "app"))
	b.MustApply("-refresh=false")
	same(t, "key", b.Resource(thisInstance)["cluster"], "again")
	b.MustApply()
	same(t, "platforms after the rename", b.Resource(thisInstance)["effective_platforms"], "[linux/amd64 linux/arm64]")
	b.PlanIsEmpty()
	b.MustDestroy()
	same(t, "what carries a mark", everything(t, c, anyMark), []string{})
}

// A class that is deleted, or made anew, between plan and apply of an update is created by the apply (X5).
func TestPriorityClassGoesAfterPlan(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("gone")
	b.use(class("this", name))
	b.MustApply()
	b.use(class("this", name, `description = "second"`))
	b.MustPlan()
	b.kubectl("delete", "priorityclass", name)
	b.MustApply("tofutest.plan")
	made := b.mustClass(name)
	same(t, "the class", row(made.Description, made.UID, marksOf(made)), row("second", b.Resource(this)["uid"], ownedBy(b.owner, name, true)))
	b.PlanIsEmpty()
	b.MustDestroy()
}
