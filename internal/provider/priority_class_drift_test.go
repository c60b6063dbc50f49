package provider_test

import (
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// Marks that somebody takes off are drift like any other, and are put back (J71, promise 6).
func TestPriorityClassMarksTakenOff(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("stripped")
	b.use(class("this", name))
	b.MustApply()
	created := b.mustClass(name)

	b.kubectl("label", "priorityclass", name, "app.kubernetes.io/managed-by-", "berth.dev/owner-")
	b.kubectl("annotate", "priorityclass", name, "berth.dev/owner-")
	drift := b.MustPlan().Change(t, this).Before["drift"].(map[string]any)
	object := "PriorityClass/" + name + " metadata."
	same(t, "drift", drift, map[string]any{
		object + "labels.[app.kubernetes.io/managed-by]": "(none) → berth",
		object + "labels.[berth.dev/owner]":              "(none) → " + created.Labels["berth.dev/owner"],
		object + "annotations.[berth.dev/owner]":         "(none) → " + b.owner + "/priority_class." + name,
	})
	b.MustApply()
	repaired := b.mustClass(name)
	same(t, "repaired", row(marksOf(repaired), repaired.UID), row(ownedBy(b.owner, name, true), created.UID))
	b.PlanIsEmpty()
	b.MustDestroy()
}

// A class that is gone is created again; one that a stranger made in its place is not ours, whatever its name
// (J71, X6, promise 3).
func TestPriorityClassDeletedByHand(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("deleted")
	b.use(class("this", name))
	b.MustApply()
	b.kubectl("delete", "priorityclass", name)
	if change := b.MustPlan().Change(t, this); !change.Is("create") {
		t.Fatalf("after a deletion by hand: %v", change.Actions)
	}
	b.MustApply()
	same(t, "created again", marksOf(b.mustClass(name)), ownedBy(b.owner, name, true))
	b.PlanIsEmpty()

	b.kubectl("delete", "priorityclass", name)
	theirs := b.foreign(name, 1000, nil)
	refused := "^PriorityClass/" + name + " exists already and is not berth's$"
	b.Plan().Error(t, refused, `^refusing: .* exists on shared and berth did not create it\. Set adopt = true`)
	// Without a refresh the plan does not know; the apply looks before it writes.
	b.use(class("this", name, `description = "ours"`))
	b.Apply("-refresh=false").Error(t, refused, "Nothing was applied")
	b.use(class("this", name, "value = 2000"))
	b.Apply("-refresh=false").Error(t, refused, "Nothing was applied")
	b.Destroy("-refresh=false")
	left := b.mustClass(name)
	same(t, "their class", row(left.UID, left.ResourceVersion), row(theirs.UID, theirs.ResourceVersion))
}

// What Kubernetes never lets change is changed by deleting and creating, with a plan that says what that means for
// pods (J37, Y21).
func TestPriorityClassRecreated(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("moved")
	b.use(class("this", name))
	b.MustApply()
	first := b.mustClass(name)

	b.use(class("this", name, "value = 2000", `preemption_policy = "Never"`))
	plan := b.MustPlan()
	warning := plan.Warning(t, "^PriorityClass/"+name+" will be deleted and created again$",
		"Kubernetes never lets this change: ", "preemptionPolicy: PreemptLowerPriority → Never", "value: 1000 → 2000",
		"Pods that run keep the value they were admitted with", "pods that name the class are rejected while it is gone", "The safe way is a class with a new name")
	if strings.Contains(warning.Detail, "%!") {
		t.Error(warning.Detail)
	}
	change := plan.Change(t, this)
	if !change.Is("update") || change.AfterUnknown["uid"] != true || change.After["id"] != "shared/"+name {
		t.Errorf("the plan is not an update in place:\n%s", plan.Describe())
	}
	b.MustApply()
	second := b.mustClass(name)
	same(t, "recreated", row(second.Value, *second.PreemptionPolicy, marksOf(second)), row(2000, "Never", ownedBy(b.owner, name, true)))
	if second.UID == first.UID {
		t.Error("the class was not recreated")
	}
	same(t, "uid in the state", b.Resource(this)["uid"], second.UID)
	b.PlanIsEmpty()

	// The same by other hands: drift, and the warning with it.
	b.kubectl("delete", "priorityclass", name)
	b.create(strings.ReplaceAll(`
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: NAME
  labels: {app.kubernetes.io/managed-by: berth, berth.dev/owner: HASH}
  annotations: {berth.dev/owner: OWNER/priority_class.NAME, berth.dev/created-by-berth: "true"}
value: 3
preemptionPolicy: Never
`, "NAME", name), "OWNER", b.owner, "HASH", first.Labels["berth.dev/owner"])
	plan = b.MustPlan()
	same(t, "drift", plan.Change(t, this).Before["drift"], map[string]any{"PriorityClass/" + name + " value": "3 → 2000"})
	plan.Warning(t, "^PriorityClass/"+name+" will be deleted and created again$", "value: 3 → 2000")
	b.MustApply()
	same(t, "value", b.mustClass(name).Value, 2000)
	b.PlanIsEmpty()

	// A new name is a replacement, and the old class goes.
	renamed := unique("moved")
	b.use(class("this", renamed, "value = 2000", `preemption_policy = "Never"`))
	if change := b.MustPlan().Change(t, this); !change.Is("delete", "create") || change.After["id"] != "shared/"+renamed {
		t.Errorf("a new name: %v, id %v", change.Actions, change.After["id"])
	}
	b.MustApply()
	same(t, "what is ours", b.ownedClasses(b.owner), []string{renamed})
	b.MustDestroy()
}

// create makes what YAML says, with pairs of words replaced in it.
func (b *bench) create(yaml string, replace ...string) {
	b.t.Helper()
	b.cluster.KubectlInput(b.t, strings.NewReplacer(replace...).Replace(yaml), "create", "-f", "-")
}
