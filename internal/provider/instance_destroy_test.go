package provider_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// Destroy refuses to take foreign objects along, volume claims included, with the list: the plan warns of it, because
// they may be gone by then, and the apply refuses. Then it does what force_destroy or deletion_policy say, which change by a state-only update (J69, Y1, promises 3 and 10).
func TestInstanceDestroy(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	classes, name := b.ownClasses(), unique("destroyed")
	b.use(instance("this", name, classes))
	b.MustApply()
	created := b.mustNamespace(name)
	b.kubectl("-n", name, "create", "configmap", "theirs", "--from-literal=a=b")
	b.cluster.KubectlInput(t, `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`,
		"-n", name, "create", "-f", "-")
	refused := []string{
		`^Namespace "` + name + `" still has objects that are not the instance's$`,
		`^refusing: namespace "` + name + `" on shared would be deleted with 2 object\(s\) that berth did not create: ConfigMap/theirs, PersistentVolumeClaim/data\. ` +
			`Remove them, or set force_destroy = true to delete them with the namespace, or deletion_policy = "retain" to leave the namespace\. Nothing was applied\.$`,
	}
	warned := `^Namespace "` + name + `" on shared has 2 object\(s\) that berth did not create: ConfigMap/theirs, PersistentVolumeClaim/data\. The destroy will be refused unless they are gone by then\. Remove them, or set force_destroy = true `
	b.proxy.Reset()
	b.MustPlan("-destroy").Warning(t, refused[0], warned)
	b.Destroy().Error(t, refused[0], refused[1])
	// A replacement begins with a destroy, which no other plan looks at.
	b.use(instance("this", unique("renamed"), classes))
	b.MustPlan().Warning(t, refused[0], warned)
	b.Apply().Error(t, refused[0], refused[1])
	b.unwritten()
	b.NoTaint()

	// What comes after the plan is seen by the apply.
	b.kubectl("-n", name, "delete", "configmap/theirs", "pvc/data", "--wait=false")
	b.kubectl("-n", name, "wait", "--for=delete", "pvc/data", "--timeout=60s")
	b.use(instance("this", name, classes))
	b.MustPlan("-destroy")
	b.kubectl("-n", name, "create", "secret", "generic", "late")
	b.Apply("tofutest.plan").Error(t, refused[0], `1 object\(s\) that berth did not create: Secret/late\.`)
	same(t, "the settings", b.settings(name)["name"], name)

	// The knobs are a matter of the state: no request is made.
	b.use(instance("this", name, classes, `deletion_policy = "retain"`, "remove_operator = true", "preflight = { image_pull = true }", `timeouts = { delete = "2m" }`))
	b.proxy.Reset()
	b.MustApply("-refresh=false")
	b.requests(map[string]int{})
	b.PlanIsEmpty()
	b.MustDestroy().Warning(t, `^Something of instance "`+name+`" stays on cluster "shared"$`, "ConfigMap/"+name+"/"+settings+`: deletion_policy is "retain"`, "Namespace/"+name+`: deletion_policy is "retain"`)
	left := b.mustNamespace(name)
	same(t, "what retain leaves", row(left.UID, b.settings(name)["name"], anyMark(left), b.ours(name)), row(created.UID, name, false, []string{}))

	// What was left is foreign now; adopted again it stays for good.
	b.use(instance("this", name, classes))
	b.Plan().Error(t, "^Namespace/"+name+" exists already and is not berth's$", "Set adopt = true")
	b.kubectl("delete", "namespace", name)
	b.MustApply()
	b.kubectl("-n", name, "create", "secret", "generic", "late")
	b.use(instance("this", name, classes, "force_destroy = true"))
	b.MustApply()
	b.MustDestroy().NoWarnings(t)
	same(t, "the namespace", b.namespace(name), (*corev1.Namespace)(nil))
}

// Already gone counts as success; a namespace that was deleted by hand is created again, and one that a stranger made in
// its place is not ours (J71, X6, promises 3 and 10).
func TestInstanceNamespaceDeletedByHand(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	classes, name := b.ownClasses(), unique("deleted")
	b.use(instance("this", name, classes))
	b.MustApply()
	b.kubectl("delete", "namespace", name)
	if change := b.MustPlan().Change(t, thisInstance); !change.Is("create") {
		t.Fatalf("after a deletion by hand: %v", change.Actions)
	}
	b.MustApply()
	b.PlanIsEmpty()
	same(t, "namespace_uid", b.Resource(thisInstance)["namespace_uid"], b.mustNamespace(name).UID)

	b.kubectl("delete", "namespace", name)
	b.kubectl("create", "namespace", name)
	refused := "^Namespace/" + name + " exists already and is not berth's$"
	b.Plan().Error(t, refused, "Set adopt = true")
	// Without a refresh the plan does not know; the apply looks before it writes.
	b.use(instance("this", name, classes, `sizes = { hold = {} }`))
	b.proxy.Reset()
	b.Apply("-refresh=false").Error(t, refused, "Nothing was applied")
	b.unwritten()
	b.Destroy("-refresh=false").Warning(t, `^Something of instance "`+name+`" stays on cluster "shared"$`, "Namespace/"+name+": it does not carry this configuration's mark")
	same(t, "their namespace", anyMark(b.mustNamespace(name)), false)
	b.kubectl("delete", "namespace", name)

	b.MustApply()
	b.kubectl("delete", "namespace", name)
	b.MustDestroy("-refresh=false").NoWarnings(t)
}

// The name and the namespace replace; without a namespace it is the name's (J49). A rename within one namespace goes
// through it being deleted.
func TestInstanceReplaced(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	classes, name, space := b.ownClasses(), unique("first"), unique("space")
	b.use(instance("this", name, classes))
	same(t, "namespace", b.MustPlan().Change(t, thisInstance).After["namespace"], name)
	b.MustApply()
	step := func(what, name, space string, body ...string) {
		t.Helper()
		b.use(instance("this", name, append(body, classes)...))
		change := b.MustPlan().Change(t, thisInstance)
		if !change.Is("delete", "create") {
			t.Errorf("%s: %v", what, change.Actions)
		}
		same(t, what, row(change.After["namespace"], change.After["id"]), row(space, "shared/"+name))
		b.MustApply()
		b.PlanIsEmpty()
		same(t, what+": whose namespace", b.mustNamespace(space).Labels["berth.dev/instance"], name)
	}
	renamed := unique("second")
	step("another namespace", name, space, `namespace = "`+space+`"`)
	same(t, "the first namespace", b.namespace(name), (*corev1.Namespace)(nil))
	step("another name in the same namespace", renamed, space, `namespace = "`+space+`"`)
	third := unique("third")
	step("another name and no namespace", third, third)
	same(t, "the second namespace", b.namespace(space), (*corev1.Namespace)(nil))
	b.MustDestroy()
	same(t, "what is left", b.ours(name, renamed, third), []string{})
}
