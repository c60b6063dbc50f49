package provider_test

import (
	"fmt"
	"testing"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// A foreign class is refused, adopted when asked, keeps its UID, and stays when the resource goes (X5, X6, promise 3).
func TestPriorityClassAdoption(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("adopted")
	theirs := b.foreign(name, 1000, func(class *schedulingv1.PriorityClass) { class.Labels = map[string]string{"team": "a"} })

	b.use(class("this", name, `description = "ours"`))
	refusal := b.Plan().Error(t, "^PriorityClass/"+name+" exists already and is not berth's$",
		"^refusing: PriorityClass/"+name+` exists on shared and berth did not create it\. Set adopt = true to take it over as it is, or choose another name\. Nothing was applied\.$`)
	if refusal.Address != this {
		t.Errorf("the refusal is about %q", refusal.Address)
	}

	b.use(class("this", name, `description = "ours"`, "adopt = true"))
	b.MustPlan().Warning(t, "^PriorityClass/"+name+" exists and will be adopted$",
		`^It is on shared and keeps its UID\. What will change: description: theirs → ours\. Destroying the resource leaves it there\.$`)
	same(t, "their class after the plan", b.mustClass(name).ResourceVersion, theirs.ResourceVersion)
	b.MustApply()
	adopted := b.mustClass(name)
	same(t, "adopted", row(adopted.UID, adopted.Description, adopted.Labels["team"], marksOf(adopted)),
		row(theirs.UID, "ours", "a", ownedBy(b.owner, name, false)))
	b.PlanIsEmpty().NoWarnings(t)

	// What cannot change cannot be had by deleting what we did not create; the plan says so already.
	b.use(class("this", name, "value = 5", "adopt = true"))
	b.Plan().Error(t, "^PriorityClass/"+name+" was adopted and cannot be replaced$",
		`^refusing: .* was found, not created, by berth, so it is never deleted; but the change needs that: value: 1000 → 5\. Use a new name .*Nothing was applied\.$`)
	b.use(class("this", name, `description = "ours"`, "adopt = true"))

	b.MustDestroy().Warning(t, "^PriorityClass/"+name+" stays on the cluster$", "It was adopted")
	left := b.mustClass(name)
	same(t, "what an adoption leaves", row(left.UID, marksOf(left), left.Labels), row(theirs.UID, noMarks, map[string]string{"team": "a"}))
}

// Adoption changes nothing that cannot change, and takes nothing from a controller that would take it back, unless
// the configuration names that controller (X6).
func TestPriorityClassAdoptionRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	differs := unique("differs")
	b.foreign(differs, 5, nil)

	kept := []struct {
		keeper string
		mark   func(*schedulingv1.PriorityClass)
	}{
		{"helm/kube-system/traefik", func(class *schedulingv1.PriorityClass) {
			class.Annotations = map[string]string{"meta.helm.sh/release-name": "traefik", "meta.helm.sh/release-namespace": "kube-system"}
		}},
		{"argocd/guestbook", func(class *schedulingv1.PriorityClass) {
			class.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "guestbook:scheduling.k8s.io/PriorityClass:/x"}
		}},
		{"flux/flux-system/apps", func(class *schedulingv1.PriorityClass) {
			class.Labels = map[string]string{"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}
		}},
		{"k3s/kube-system/addons", func(class *schedulingv1.PriorityClass) {
			class.Annotations = map[string]string{"objectset.rio.cattle.io/owner-name": "addons", "objectset.rio.cattle.io/owner-namespace": "kube-system"}
		}},
		{"applicationset/fleet", func(class *schedulingv1.PriorityClass) {
			class.OwnerReferences = []metav1.OwnerReference{{APIVersion: "argoproj.io/v1alpha1", Kind: "ApplicationSet", Name: "fleet", UID: "1", Controller: new(true)}}
		}},
	}
	resources := func(body func(keeper string) string) []string {
		texts := []string{class("differs", differs, "adopt = true")}
		for i, one := range kept {
			texts = append(texts, class(fmt.Sprintf("kept%d", i), fmt.Sprintf("%s-kept%d", differs, i), body(one.keeper)))
		}
		return texts
	}
	for i, one := range kept {
		b.foreign(fmt.Sprintf("%s-kept%d", differs, i), 1000, one.mark)
	}

	b.use(resources(func(string) string { return "" })...)
	plan := b.Plan()
	for i, one := range kept {
		plan.Error(t, fmt.Sprintf("^PriorityClass/%s-kept%d exists already and is not berth's$", differs, i),
			"It is kept in place by "+one.keeper+", which would revert what berth changes", `adopt = true and adopt_from = \["`+one.keeper+`"\]`)
	}

	b.use(resources(func(string) string { return "adopt = true" })...)
	plan = b.Plan()
	plan.Error(t, "^PriorityClass/"+differs+" cannot be adopted$",
		`^refusing: .* differs in fields that Kubernetes never lets change: value: 5 → 1000\. Set the configuration to what is there, or choose another name\. Nothing was applied\.$`)
	for i, one := range kept {
		plan.Error(t, fmt.Sprintf("^PriorityClass/%s-kept%d is kept in place by %s$", differs, i, one.keeper),
			`^refusing: .*would revert what berth changes\. Take it out of that first, or name it in adopt_from = \["`+one.keeper+`"\]\. Nothing was applied\.$`)
	}
	same(t, "writes", b.proxy.Writes(), 0)

	b.use(resources(func(keeper string) string { return fmt.Sprintf("adopt = true\nadopt_from = [%q]", keeper) })[1:]...)
	b.MustApply()
	for i := range kept {
		name := fmt.Sprintf("%s-kept%d", differs, i)
		same(t, "marks of "+name, marksOf(b.mustClass(name)), ownedBy(b.owner, name, false))
	}
	b.PlanIsEmpty()
	b.MustDestroy()
}

// Two configurations with different owners never share a class; what one lets go, the other may adopt (promise 3).
func TestPriorityClassOfAnotherOwner(t *testing.T) {
	t.Parallel()
	first := newBench(t, tofutest.Options{})
	name := unique("contested")
	first.use(class("this", name))
	first.MustApply()
	held := first.mustClass(name)

	second := first.beside(unique("team"), tofutest.Options{})
	second.use(class("this", name, "adopt = true"))
	second.Plan().Error(t, "^PriorityClass/"+name+" belongs to another owner$",
		`^refusing: .* is marked as priority_class\.`+name+` of the configuration with owner "`+first.owner+`"\. Choose another name, or remove it from that configuration first .*Nothing was applied\.$`)
	same(t, "the first one's class", first.mustClass(name).ResourceVersion, held.ResourceVersion)

	first.use(class("this", name, `deletion_policy = "retain"`))
	first.MustApply()
	first.MustDestroy()
	second.MustApply()
	same(t, "marks", marksOf(first.mustClass(name)), ownedBy(second.owner, name, false))
	second.PlanIsEmpty()
	second.MustDestroy()
	first.kubectl("delete", "priorityclass", name)
}

// A create that finds its own mark goes on from it and says so (X11, promise 5). What the state holds is ours, also
// after the owner changed: it is marked anew, in place.
func TestPriorityClassOwnMark(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("resumed")
	b.use(class("this", name))
	b.MustApply()
	created := b.mustClass(name)
	b.Remove("terraform.tfstate")
	b.MustPlan().Warning(t, "^PriorityClass/"+name+" exists and carries this configuration's mark$", "It is on shared but not in the state at this address. If an earlier apply was interrupted, the apply goes on from it")
	b.MustApply()
	same(t, "resumed", row(b.mustClass(name).UID, marksOf(b.mustClass(name))), row(created.UID, ownedBy(b.owner, name, true)))
	b.PlanIsEmpty().NoWarnings(t)

	renamed := b.beside(unique("team"), tofutest.Options{})
	renamed.Write("terraform.tfstate", string(b.StatePull()))
	renamed.use(class("this", name))
	change := renamed.MustPlan().Change(t, this)
	if !change.Is("update") {
		t.Errorf("a new owner: %v", change.Actions)
	}
	renamed.MustApply()
	same(t, "marked anew", row(b.mustClass(name).UID, marksOf(b.mustClass(name))), row(created.UID, ownedBy(renamed.owner, name, true)))
	renamed.PlanIsEmpty()
	renamed.MustDestroy()
	if b.class(name) != nil {
		t.Error("the class is still there")
	}
}
