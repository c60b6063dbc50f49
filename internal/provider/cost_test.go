package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

const (
	list = "list priorityclasses.scheduling.k8s.io"
	// review is a question about a permission: get, create, patch and delete, for all classes of a process.
	review = "create selfsubjectaccessreviews.authorization.k8s.io"
)

// What a plan asks the API server follows from the kinds, not from the number of objects; an apply asks for each
// object only what its write needs (promise 12).
func TestCostOfHundredClasses(t *testing.T) {
	t.Parallel()
	const count = 100
	b := newBench(t, tofutest.Options{})
	prefix := unique("many")
	many := func(description string) string {
		return fmt.Sprintf(`
resource "berth_priority_class" "many" {
  for_each    = toset([for i in range(%d) : tostring(i)])
  name        = "%s-${each.key}"
  value       = 1000 + tonumber(each.key)
  description = each.key == "7" ? %q : "first"
}
`, count, prefix, description)
	}

	b.use(many("first"))
	b.MustPlan()
	b.requests(map[string]int{"get namespaces": 1, list: 1, review: 4})
	same(t, "lists of metadata only", b.proxy.CountIf(func(r fleettest.Request) bool {
		return r.Verb == "list" && strings.Contains(r.Accept, "as=PartialObjectMetadataList")
	}), 1)
	b.connections()

	// An apply is a plan and then another process, in which the runner plans each object once more before its write.
	b.proxy.Reset()
	b.MustApply()
	b.requests(map[string]int{"get namespaces": 2, list: 2, review: 8, "get priorityclasses.scheduling.k8s.io": count, "create priorityclasses.scheduling.k8s.io": count})

	b.proxy.Reset()
	b.PlanIsEmpty()
	b.requests(map[string]int{"get namespaces": 1, list: 1})
	same(t, "lists of what is ours", b.proxy.CountIf(func(r fleettest.Request) bool {
		return r.Query.Get("labelSelector") == "app.kubernetes.io/managed-by=berth"
	}), 1)
	b.connections()

	// One that changes costs its own writes: what the create owns is turned into what applies own, and then applied.
	b.use(many("second"))
	b.proxy.Reset()
	b.MustApply()
	b.requests(map[string]int{"get namespaces": 2, list: 2, review: 8, "get priorityclasses.scheduling.k8s.io": 1, "patch priorityclasses.scheduling.k8s.io": 2})

	b.proxy.Reset()
	b.MustDestroy()
	counts := b.proxy.Counts()
	same(t, "deletions and lists of pods", row(counts["delete priorityclasses.scheduling.k8s.io"], counts["list pods"]), row(count, 1))
	same(t, "what is left", b.ownedClasses(b.owner), []string{})
}

// connections fails the test where the provider opened more than one connection for its one client, and one to spare.
func (b *bench) connections() {
	b.t.Helper()
	if n := b.proxy.Connections(); n > 2 {
		b.t.Errorf("%d connections, want 1 or 2", n)
	}
}
