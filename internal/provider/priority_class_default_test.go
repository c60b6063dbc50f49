package provider_test

import (
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// A second default class is refused at plan, by name; without it the plan goes through (X3).
func TestSecondDefaultClass(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, otherCluster(t), unique("team"), tofutest.Options{})
	first, second := unique("default"), unique("default")
	b.use(class("this", first, "global_default = true"))
	b.MustApply()
	b.PlanIsEmpty()
	b.use(class("this", first, "global_default = true"), class("second", second, "global_default = true"))
	b.Plan().Error(t, `^PriorityClass/`+second+` cannot be the default too$`,
		`refusing: PriorityClass/`+first+` on \S+ is the default already, and Kubernetes admits only one\. Leave global_default out, or take it from the other class first\. Nothing was applied\.`)
	b.use(class("this", first, "global_default = true"), class("second", second))
	b.MustApply()
	b.MustDestroy()
}
