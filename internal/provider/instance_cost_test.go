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
	plan := func(classes, instances int, kit string) map[string]int {
		t.Helper()
		b.use(many(classes, instances, kit))
		b.proxy.Reset()
		b.MustPlan()
		b.connections()
		return b.proxy.Counts()
	}
	asked := map[int][3]map[string]int{}
	for _, instances := range []int{4, 20} {
		create := plan(5*instances, instances, "1")
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
		asked[instances] = [3]map[string]int{create, b.proxy.Counts(), plan(5*instances, instances, "2")}
		if instances == 4 {
			b.MustDestroy()
		}
	}
	for i, what := range []string{"creates", "changes nothing", "updates"} {
		same(t, "requests of a plan that "+what, asked[20][i], asked[4][i])
	}
}
