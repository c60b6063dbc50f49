package provider_test

import (
	"fmt"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// An import ID is the cluster's key and the name; whatever else it is, or leads to, is told (J70).
func TestPriorityClassImport(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		b := newBench(t, tofutest.Options{Runner: runner})
		name := unique("imported")
		theirs := b.foreign(name, 5, nil)
		b.use(class("this", name, "value = 5", `description = "theirs"`))
		b.Import(this, name).Error(t, `^"`+name+`" is not an import ID of berth_priority_class$`, `the cluster's key and the name with a slash between them, such as "shared/my-name"`, `The keys of the provider's .?clusters.? are: "shared"`)
		b.Import(this, "shared/a/b").Error(t, `^"shared/a/b" is not an import ID of berth_priority_class$`)
		b.Import(this, "eu/"+name).Error(t, `^No cluster "eu" in the provider configuration$`, `its keys are: "shared"`)
		b.Import(this, "shared/"+name+"-missing").Error(t, "^Cannot import non-existent remote object$")

		// What another tool installed is imported as it is: an empty plan, and nothing of it is touched.
		b.MustImport(this, "shared/"+name)
		b.PlanIsEmpty()
		same(t, "the imported class", b.mustClass(name).ResourceVersion, theirs.ResourceVersion)
		// The first change marks it, as found and not as created; so it stays in the end.
		b.use(class("this", name, "value = 5", `description = "ours"`))
		b.MustApply()
		same(t, "marks", marksOf(b.mustClass(name)), ownedBy(b.owner, name, false))
		b.PlanIsEmpty()
		b.MustDestroy().Warning(t, "^PriorityClass/"+name+" stays on the cluster$")
		same(t, "UID", b.mustClass(name).UID, theirs.UID)
	})
}

// Values that come from the same apply put the checks off; the apply runs them (X2).
func TestPriorityClassUnknownValues(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	known, late := unique("known"), unique("late")
	resources := func(input string) string {
		return fmt.Sprintf(`
resource "terraform_data" "late" { input = %q }
resource "berth_priority_class" "value" {
  name        = %q
  value       = 7
  description = terraform_data.late.output
}
resource "berth_priority_class" "name" {
  name  = terraform_data.late.output
  value = 7
}
`, input, known)
	}
	b.use(resources(late))
	plan := b.MustPlan()
	plan.Warning(t, "^The checks of PriorityClass/"+known+" are put off to the apply$", "A value of the class is not known yet")
	same(t, "id", plan.Change(t, "berth_priority_class.value").After["id"], "shared/"+known)
	same(t, "id of an unknown name", plan.Change(t, "berth_priority_class.name").AfterUnknown["id"], true)
	b.MustApply()
	same(t, "id", b.Resource("berth_priority_class.name")["id"], "shared/"+late)
	same(t, "description", b.mustClass(known).Description, late)
	b.PlanIsEmpty()
	b.MustDestroy()
	same(t, "what is left", b.ownedClasses(b.owner), []string{})
}

// The class for pods that name none changes in place, and drift in it is seen.
func TestPriorityClassGlobalDefault(t *testing.T) {
	t.Parallel()
	// Not the shared cluster: its pods would get the class.
	b := newBenchOn(t, otherCluster(t), unique("team"), tofutest.Options{})
	name := unique("default")
	b.use(class("this", name, "global_default = true"))
	b.MustApply()
	created := b.mustClass(name)
	same(t, "global default", created.GlobalDefault, true)
	b.PlanIsEmpty()
	b.use(class("this", name))
	if change := b.MustPlan().Change(t, this); !change.Is("update") {
		t.Errorf("global_default: %v", change.Actions)
	}
	b.MustApply()
	same(t, "no longer, in place", row(b.mustClass(name).GlobalDefault, b.mustClass(name).UID), row(false, created.UID))
	b.kubectl("patch", "priorityclass", name, "--type=merge", "-p", `{"globalDefault":true}`)
	same(t, "drift", b.MustPlan().Change(t, this).Before["drift"], map[string]any{"PriorityClass/" + name + " globalDefault": "true → false"})
	b.MustApply()
	same(t, "repaired", b.mustClass(name).GlobalDefault, false)
	b.PlanIsEmpty()
	b.MustDestroy()
}
