package provider_test

import (
	"fmt"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// A plan over 100 classes and 20 instances asks for one list of each kind, and a constant that does not depend on how
// many there are (promise 12).
func TestCostOfTwentyInstances(t *testing.T) {
	t.Parallel()
	c := fleettest.NewCluster(t, fleettest.ClusterSpec{Name: "many", ControlPlaneOnly: true, Controllers: true, Nodes: []fleettest.NodeSpec{{Name: "amd"}}})
	b := newBenchOn(t, c, "team", tofutest.Options{})
	many := func(classes, instances int, kit string) string {
		return fmt.Sprintf(`
resource "berth_priority_class" "many" {
  count = %d
  name  = "many-${count.index}"
  value = 1000 + count.index
}
resource "berth_instance" "many" {
  count            = %d
  name             = "many-${count.index}"
  kit_version      = %q
  registry         = "registry.example.com/team"
  sandbox_images   = { default = "sandbox:1" }
  sizes            = { hold = {} }
  priority_classes = { control = berth_priority_class.many[count.index].name }
}
`, classes, instances, kit)
	}
	b.use(many(100, 20, "1"))
	b.proxy.Reset()
	b.MustPlan()
	create := b.proxy.Counts()
	b.MustApply()
	b.proxy.Reset()
	b.PlanIsEmpty()
	b.requests(map[string]int{
		"get /version":    1,
		"get namespaces":  1, // kube-system, for the identity
		"list namespaces": 1, "list configmaps": 1, "list nodes": 1,
		"list priorityclasses.scheduling.k8s.io": 2, // what is ours, and all, for the classes that are named
		"get priorityclasses.scheduling.k8s.io":  3, // the first few that are named are asked for by name
	})
	b.connections()
	b.use(many(100, 20, "2"))
	b.proxy.Reset()
	b.MustPlan()
	update := b.proxy.Counts()

	// Half as many cost the same, whatever is planned.
	b.use(many(50, 10, "1"))
	b.MustApply()
	b.proxy.Reset()
	b.PlanIsEmpty()
	b.requests(map[string]int{
		"get /version": 1, "get namespaces": 1, "list namespaces": 1, "list configmaps": 1, "list nodes": 1,
		"list priorityclasses.scheduling.k8s.io": 2, "get priorityclasses.scheduling.k8s.io": 3,
	})
	b.use(many(50, 10, "2"))
	b.proxy.Reset()
	b.MustPlan()
	same(t, "requests of a plan that updates", b.proxy.Counts(), update)
	b.MustDestroy()
	b.use(many(50, 10, "1"))
	b.proxy.Reset()
	b.MustPlan()
	same(t, "requests of a plan that creates", b.proxy.Counts(), create)
	same(t, "what carries a mark", everything(t, c, anyMark), []string{})
}
