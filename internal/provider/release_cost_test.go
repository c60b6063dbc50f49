package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// What twenty releases of thirty objects may cost: as many requests as the helm provider (3.1) needs for a plan that
// looks at no object, and half of what its apply needs. Measured with the same load on the same cluster.
const (
	mostRequestsOfPlan  = 80
	mostRequestsOfApply = 1506
)

// manyReleases are n releases of the chart "many", each in a namespace of its own.
func manyReleases(n int, repository *charts.HTTPRepository, body ...string) string {
	return fmt.Sprintf(`
resource "berth_release" "many" {
  count            = %d
  name             = "many-${count.index}"
  namespace        = "many-${count.index}"
  create_namespace = true
  chart            = { repository = %q, name = "many", version = "1.0.0" }
  %s
}
`, n, repository.URL, strings.Join(body, "\n"))
}

// A plan without a change looks at all 600 objects of 20 releases with one list of each kind: what it costs depends on
// the kinds, not on the releases, and is no more than a plan costs that looks at none. No OpenAPI document is loaded, and
// no chart fetched (promises 6 and 12 of the design).
func TestCostOfTwentyReleases(t *testing.T) {
	t.Parallel()
	c := fleettest.NewCluster(t, charts.Cluster("cost"))
	c.InstallCRDs(t, benchCRDs)
	b := newBenchOn(t, c, "team", tofutest.Options{})
	repository := charts.Repository(t, charts.Package(t, charts.Many(t, 30)))
	asked := func(what string, most int, run func()) map[string]int {
		t.Helper()
		b.proxy.Reset()
		run()
		counts := b.proxy.Counts()
		n := len(b.proxy.Requests())
		t.Logf("%s: %d requests, %d connections\n%s", what, n, b.proxy.Connections(), b.proxy.Summary())
		if n > most {
			t.Errorf("%s: %d requests, want at most %d", what, n, most)
		}
		if n := b.proxy.CountIf(func(r fleettest.Request) bool { return strings.HasPrefix(r.Path, "/openapi") }); n > 0 {
			t.Errorf("%s: %d requests for OpenAPI documents", what, n)
		}
		b.connections()
		return counts
	}

	b.use(manyReleases(20, repository))
	asked("a plan that creates 20 releases", mostRequestsOfPlan, func() {
		same(t, "releases in the plan", len(b.MustPlan().Changes), 20)
	})
	same(t, "writes of a plan", b.proxy.Writes(), 0)
	asked("an apply of 20 releases", mostRequestsOfApply, func() { b.MustApply().NoWarnings(t) })
	repository.Reset()
	twenty := asked("a plan without a change of 20 releases", mostRequestsOfPlan, func() { b.PlanIsEmpty().NoWarnings(t) })
	same(t, "connections of a plan without a change", b.proxy.Connections(), 1)

	// What it is worth: a change by hand anywhere among the objects is seen, for one request more.
	b.kubectl("-n", "many-7", "patch", "configmap", "many-7-0", "--type=merge", "-p", `{"data":{"text":"by hand"}}`)
	drifted := asked("a plan with a drift in 20 releases", mostRequestsOfPlan, func() {
		plan := b.MustPlan()
		same(t, "drift", plan.Change(t, "berth_release.many[7]").Before["drift"], map[string]any{"ConfigMap/many-7/many-7-0 data.text": "by hand → hello"})
		same(t, "changes", len(plan.Changes), 1)
	})
	same(t, "confirmations of the drift", drifted["patch configmaps"], 1)
	asked("the repair of a drift in 20 releases", 2*mostRequestsOfPlan, func() { b.MustApply() })
	same(t, "chart fetches since the first apply", len(repository.Requests()), 0)

	b.use(manyReleases(2, repository))
	b.MustApply()
	two := asked("a plan without a change of 2 releases", mostRequestsOfPlan, func() { b.PlanIsEmpty().NoWarnings(t) })
	same(t, "requests of a plan without a change: of 2 releases, and of 20", two, twenty)
}
