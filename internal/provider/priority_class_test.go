package provider_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// The life of a class: plan, apply, nothing left to plan, a change by hand and its repair, import, destroy
// (J36, J37, J70, J71, X12; promises 1, 3, 6, 9 and 10 of the design).
func TestPriorityClassRhythm(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		b := newBench(t, tofutest.Options{Runner: runner})
		theirs := b.foreign(unique("theirs"), 7, nil)
		name := unique("sandbox")
		config := class("this", name, `preemption_policy = "Never"`, `description = "Sandboxes"`)
		b.use(config)

		plan := b.MustPlan()
		plan.NoWarnings(t)
		planned := plan.Change(t, this)
		if !planned.Is("create") {
			t.Fatalf("plan:\n%s", plan.Describe())
		}
		same(t, "what is known at plan", row(planned.After["id"], planned.After["cluster"], planned.After["cluster_uid"], planned.After["drift"], planned.After["global_default"]),
			row("shared/"+name, "shared", b.cluster.UID(), map[string]any{}, false))
		same(t, "what is not known at plan", planned.AfterUnknown["uid"], true)
		if b.class(name) != nil || b.proxy.Writes() != 0 {
			t.Fatal("the plan wrote to the cluster")
		}

		b.MustApply().NoWarnings(t)
		live := b.mustClass(name)
		same(t, "value and policy", row(live.Value, *live.PreemptionPolicy, live.Description, live.GlobalDefault), "1000 Never Sandboxes false")
		same(t, "marks", marksOf(live), ownedBy(b.owner, name, true))
		state := b.Resource(this)
		same(t, "uid", state["uid"], live.UID)
		same(t, "cluster_uid", state["cluster_uid"], b.cluster.UID())
		same(t, "conditions", state["conditions"], map[string]any{"Ready": map[string]any{"status": "True", "reason": "Exists", "message": "The PriorityClass is on the cluster."}})
		b.PlanIsEmpty().NoWarnings(t)

		// By hand: one field that we set, and one that we do not and that is therefore not ours.
		b.kubectl("patch", "priorityclass", name, "--type=merge", "-p", `{"description":"by hand","metadata":{"labels":{"team":"a"}}}`)
		plan = b.MustPlan()
		broken := plan.Change(t, this)
		if !broken.Is("update") {
			t.Fatalf("drift:\n%s", plan.Describe())
		}
		same(t, "drift", broken.Before["drift"], map[string]any{"PriorityClass/" + name + " description": "by hand → Sandboxes"})
		same(t, "drift to be", broken.After["drift"], map[string]any{})
		// Whether it is still the same class can only be told at the apply.
		same(t, "an output that waits for the repair", broken.AfterUnknown["uid"], true)
		b.MustApply()
		repaired := b.mustClass(name)
		same(t, "repaired", row(repaired.Description, repaired.UID, repaired.Labels["team"]), row("Sandboxes", live.UID, "a"))
		b.PlanIsEmpty()

		imported := b.beside(b.owner, tofutest.Options{Runner: runner})
		imported.use(config)
		imported.MustImport(this, "shared/"+name)
		imported.PlanIsEmpty()
		had, has := b.Resource(this), imported.Resource(this)
		same(t, "imported", has, had)

		b.MustDestroy().NoWarnings(t)
		if b.class(name) != nil {
			t.Error("the class is still there")
		}
		same(t, "the foreign class", b.mustClass(theirs.Name).ResourceVersion, theirs.ResourceVersion)
		same(t, "what carries our mark", b.ownedClasses(b.owner), []string{})
	})
}

// What a configuration can never mean is refused before anything is asked (J37, J40).
func TestPriorityClassValidators(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	refused := func(summary, detail string, body ...string) {
		t.Helper()
		b.use(fmt.Sprintf("resource \"berth_priority_class\" \"this\" {\n%s\n}", strings.Join(body, "\n")))
		b.Validate().Error(t, summary, detail)
	}
	refused("`name` is not valid", `"Batch_Low" is not a name that Kubernetes takes: a lowercase RFC 1123 subdomain`, `name = "Batch_Low"`, `value = 1`)
	refused("`name` is not valid", `"system-mine" begins with "system-", which Kubernetes keeps for its own classes\. Choose another name\.`, `name = "system-mine"`, `value = 1`)
	refused("Invalid Attribute Value", `value must be between -2147483648 and 1000000000, got: 1000000001`, `name = "a"`, `value = 1000000001`)
	refused("Invalid Attribute Value", `preemption_policy value must be one of:? .*"PreemptLowerPriority".*"Never"`, `name = "a"`, `value = 1`, `preemption_policy = "Sometimes"`)
	refused("Invalid Attribute Value", `deletion_policy value must be one of:? .*"uninstall".*"retain"`, `name = "a"`, `value = 1`, `deletion_policy = "keep"`)
	refused("Invalid Attribute Value", `cluster string length must be at least 1`, `name = "a"`, `value = 1`, `cluster = ""`)
	same(t, "requests", len(b.proxy.Requests()), 0)
}

// Kubernetes creates no pod that names a class which does not exist, so a class in use stays (J72).
func TestPriorityClassInUse(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("used")
	b.use(class("this", name))
	b.MustApply()
	pods := b.cluster.Client().CoreV1().Pods("default")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: unique("pod")},
		Spec:       corev1.PodSpec{PriorityClassName: name, Containers: []corev1.Container{{Name: "app", Image: "example.com/app"}}},
	}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.Destroy().Error(t, "^PriorityClass/"+name+" is in use$",
		`^refusing: PriorityClass/`+name+` on shared is named by 1 pod\(s\): default/`+pod.Name+`\. .*Remove them first, or set deletion_policy = "retain" .*Nothing was applied\.$`)
	b.NoTaint()
	same(t, "marks after the refusal", marksOf(b.mustClass(name)), ownedBy(b.owner, name, true))

	if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.MustDestroy()
	if b.class(name) != nil {
		t.Error("the class is still there")
	}
}

// The knobs of destruction change without a request, whether the cluster is alive or not; `retain` leaves the class
// without our marks (Y1).
func TestPriorityClassKnobs(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("kept")
	b.use(class("this", name))
	b.MustApply()
	created := b.mustClass(name)

	b.use(class("this", name, `deletion_policy = "retain"`, `adopt = true`, `adopt_from = ["helm/a/b"]`, `timeouts = { delete = "2m" }`))
	b.proxy.Reset()
	plan := b.MustPlan("-refresh=false")
	if change := plan.Change(t, this); !change.Is("update") || len(change.AfterUnknown) != 0 {
		t.Errorf("a change of knobs:\n%s", plan.Describe())
	}
	b.MustApply("-refresh=false")
	b.requests(map[string]int{})
	same(t, "deletion_policy", b.Resource(this)["deletion_policy"], "retain")
	b.PlanIsEmpty()

	b.MustDestroy().Warning(t, "^PriorityClass/"+name+" stays on the cluster$", `deletion_policy is "retain": it stays on shared, without berth's marks`)
	left := b.mustClass(name)
	same(t, "what retain leaves", row(left.UID, marksOf(left), left.Labels["berth.dev/owner"]), row(created.UID, noMarks, ""))
	b.kubectl("delete", "priorityclass", name)
}

// Already gone counts as success (promise 10).
func TestPriorityClassAlreadyGone(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("gone")
	b.use(class("this", name))
	b.MustApply()
	b.kubectl("delete", "priorityclass", name)
	b.MustDestroy("-refresh=false").NoWarnings(t)
	if left := b.Instances(); len(left) != 0 {
		t.Errorf("the state still holds %v", left)
	}
}
