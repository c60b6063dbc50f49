package provider_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// operatorOf is an `operator` argument with an image of that name.
func operatorOf(image, version, more string) string {
	return fmt.Sprintf(`operator = { image = "example.com/operator:%s", version = %q%s }`, image, version, more)
}

// deployment reads the operator's Deployment past the proxy; nil when there is none.
func (b *bench) deployment(namespace string) *appsv1.Deployment {
	b.t.Helper()
	found, err := b.cluster.Client().AppsV1().Deployments(namespace).Get(b.t.Context(), operator, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return found
}

// role is the ClusterRole that the operator is bound to, "" when there is no binding, and the namespace of its subject.
func (b *bench) role() (role, namespace string) {
	b.t.Helper()
	found, err := b.cluster.Client().RbacV1().ClusterRoleBindings().Get(b.t.Context(), operator, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", ""
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return found.RoleRef.Name, found.Subjects[0].Namespace
}

func operatorCluster(t *testing.T, name string) *fleettest.Cluster {
	t.Helper()
	return fleettest.NewCluster(t, fleettest.ClusterSpec{Name: name, Nodes: []fleettest.NodeSpec{{Name: "amd"}}})
}

// The only instance with the operator does with it as it likes: another image or class at the same version, another
// role, another namespace, and none at all; nothing of what was before is left (J12, X7, X8).
func TestInstanceOperatorAlone(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, operatorCluster(t, "alone"), "team", tofutest.Options{})
	b.use(instance("this", "a", operatorOf("first", "1.4.0", `, cluster_role = "view"`)))
	b.MustApply()
	b.PlanIsEmpty()

	// Its own namespace is none for what all share.
	b.use(instance("this", "a", operatorOf("first", "1.4.0", `, namespace = "a"`)))
	b.Plan().Error(t, "^The operator cannot live in an instance's namespace$", `^refusing: namespace "a" is instance "a"'s own, and would take the operator of all instances along when it goes\. Set .operator\.namespace. to another one, or leave it out\. Nothing was applied\.$`)

	// The same version as something else; what was changed by hand comes back.
	b.use(instance("this", "a", operatorOf("second", "1.4.0", `, cluster_role = "view"`)))
	b.MustApply()
	same(t, "the image", b.deployment("berth-system").Spec.Template.Spec.Containers[0].Image, "example.com/operator:second")
	b.PlanIsEmpty()
	b.kubectl("-n", "berth-system", "patch", "deployment", operator, "--type=json", "-p",
		`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example.com/by-hand"},{"op":"replace","path":"/spec/replicas","value":0}]`)
	if plan := b.MustPlan(); !plan.Change(t, thisInstance).Is("update") {
		t.Errorf("after a change by hand:\n%s", plan.Describe())
	}
	b.MustApply()
	live := b.deployment("berth-system")
	same(t, "the image and the replicas", row(live.Spec.Template.Spec.Containers[0].Image, *live.Spec.Replicas), "example.com/operator:second 1")

	// Another role needs another binding.
	b.use(instance("this", "a", operatorOf("second", "1.4.0", `, cluster_role = "no-such-role"`)))
	b.MustPlan().Warning(t, `^Instance "a" on cluster "shared": operator\.cluster_role$`, `^ClusterRole "no-such-role" does not exist on alone`)
	b.MustApply()
	role, _ := b.role()
	same(t, "the role", role, "no-such-role")
	b.PlanIsEmpty()

	// It moves, but not to a lower version.
	b.use(instance("this", "a", operatorOf("second", "1.3.0", `, namespace = "elsewhere"`)))
	b.Plan().Error(t, "^The operator is never downgraded$", `runs in namespace "berth-system" with version 1\.4\.0, and moving it to "elsewhere" would put the older 1\.3\.0 there`)
	b.use(instance("this", "a", operatorOf("second", "1.4.0", `, namespace = "elsewhere", cluster_role = "view"`)))
	b.MustApply().NoWarnings(t)
	role, subject := b.role()
	same(t, "what moved", row(role, subject, b.deployment("elsewhere") != nil, b.deployment("berth-system") == nil, b.namespace("berth-system") == nil), row("view", "elsewhere", true, true, true))
	b.PlanIsEmpty()

	// Taken out, it stays unless its removal is asked for.
	b.use(instance("this", "a"))
	b.MustApply().Warning(t, `^Instance "a" on cluster "shared": what the operator leaves$`,
		`^The instance has given up the operator in namespace "elsewhere" on alone, but something of it stays:`, "Deployment/elsewhere/"+operator+": remove_operator is false", "take it out together with remove_operator = true")
	same(t, "who uses it", b.deployment("elsewhere").Labels[userLabel("team", "a")], "")
	b.PlanIsEmpty()
	b.use(instance("this", "a", operatorOf("second", "1.4.0", "")))
	b.Plan().Error(t, `^The operator runs in namespace "elsewhere" already$`, "though no instance uses it any more", `or delete Deployment/elsewhere/`+operator)
	b.use(instance("this", "a", operatorOf("second", "1.4.0", `, namespace = "elsewhere", cluster_role = "view"`)))
	b.MustApply()
	b.use(instance("this", "a", "remove_operator = true"))
	b.MustApply().NoWarnings(t)
	role, _ = b.role()
	same(t, "what is left", row(role == "", b.deployment("elsewhere") == nil, b.namespace("elsewhere") == nil), row(true, true, true))
	b.MustDestroy()
	same(t, "what carries a mark", everything(t, b.cluster, anyMark), []string{})
}

// With others the operator is theirs too: what would take it from them is refused at the plan, by name and with the way
// out, and nobody puts back an older one (J12, X7, X11).
func TestInstanceOperatorOthers(t *testing.T) {
	t.Parallel()
	c := operatorCluster(t, "others")
	first, second := newBenchOn(t, c, "first", tofutest.Options{}), newBenchOn(t, c, "second", tofutest.Options{})
	first.use(instance("this", "a", operatorOf("first", "1.4.0", `, cluster_role = "view"`)))
	first.MustApply()
	for what, one := range map[string]struct{ body, summary, detail string }{
		"another image": {
			operatorOf("other", "1.4.0", ""), `^Version 1\.4\.0 of the operator is in use as something else$`,
			`^refusing: Deployment/berth-system/` + operator + ` on others has version 1\.4\.0 already and is used by a, but instance "b" wants it otherwise: .*example\.com/operator:first → .*example\.com/operator:other.*Set .operator\.image. so that the image is .*example\.com/operator:first.*, or raise .operator\.version. to change it for all of them\. Nothing was applied\.$`,
		},
		"another namespace": {
			operatorOf("first", "1.5.0", `, namespace = "elsewhere"`), `^The operator runs in namespace "berth-system" already$`,
			`^refusing: the operator that all instances of others share runs in namespace "berth-system" and is used by a, so another one in "elsewhere" would fight with it\. Set .operator\.namespace. to "berth-system"\. Nothing was applied\.$`,
		},
		"another role": {
			operatorOf("first", "1.4.0", `, cluster_role = "edit"`), `^The operator is bound to ClusterRole "view"$`,
			`^refusing: ClusterRoleBinding/` + operator + ` on others binds the operator to ClusterRole "view", is used by a, and Kubernetes never lets its role change\. Set .operator\.cluster_role. to "view", or take .cluster_role. out of the other instances first\. Nothing was applied\.$`,
		},
	} {
		t.Log(what)
		second.proxy.Reset()
		second.use(instance("this", "b", one.body))
		second.Plan().Error(t, one.summary, one.detail)
		second.unwritten()
	}
	// Two of one configuration are told from each other before either is there.
	second.use(instance("this", "b", operatorOf("x", "1.5.0", "")), instance("that", "c", operatorOf("y", "1.5.0", "")))
	second.Plan().Error(t, `^Two instances want version 1\.5\.0 of the operator as different things$`, `Set the same in both, or raise .operator\.version. in one\. Nothing was applied\.$`)

	// The older of many at once never wins.
	second.use(instance("b", "b", operatorOf("b", "1.5.0", "")), instance("c", "c", operatorOf("c", "1.7.0", "")), instance("d", "d", operatorOf("d", "1.6.0", "")))
	second.MustApply()
	live := second.deployment("berth-system")
	same(t, "the newest", row(live.Labels["berth.dev/version"], live.Spec.Template.Spec.Containers[0].Image), "1.7.0 example.com/operator:c")
	second.PlanIsEmpty()
	first.PlanIsEmpty()

	// To a newer one an older user adds its own label and nothing else, whatever was done to it by hand.
	second.kubectl("-n", "berth-system", "label", "deployment", operator, "app.kubernetes.io/managed-by-", userLabel("first", "a")+"-")
	first.MustApply()
	live = second.deployment("berth-system")
	same(t, "the newest", row(live.Labels[userLabel("first", "a")], live.Spec.Template.Spec.Containers[0].Image), "a example.com/operator:c")
	second.MustApply()
	second.PlanIsEmpty()
	second.MustDestroy()
	first.PlanIsEmpty()
}

// An operator that stays keeps using its control class, whose destroy is refused for that: the plan says so (J69).
func TestInstanceOperatorKeepsClass(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, operatorCluster(t, "keeps"), "team", tofutest.Options{})
	body := func(remove bool) []string {
		return []string{
			"resource \"berth_priority_class\" \"ctl\" {\nname = \"ctl\"\nvalue = 1000\n}\n",
			instance("this", "a", operatorOf("1", "1.4.0", ""), "priority_classes = { control = berth_priority_class.ctl.name }", fmt.Sprintf("remove_operator = %t", remove)),
		}
	}
	b.use(body(false)...)
	b.MustApply()
	warned := `^The operator stays and keeps using PriorityClass "ctl" on keeps, so destroying that class is refused\. Set remove_operator = true and apply before the destroy`
	b.MustPlan("-destroy").Warning(t, `^Instance "a" on cluster "shared": operator$`, warned)
	fleettest.Eventually(t, func(ctx ctx) error {
		pods, err := b.cluster.Client().CoreV1().Pods("berth-system").List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items) == 0 {
			err = fmt.Errorf("the operator has no pod yet")
		}
		return err
	})
	b.Destroy("-target=berth_priority_class.ctl").Error(t, "^PriorityClass/ctl is in use$", "stays after the last of them unless it has remove_operator = true")
	b.use(body(true)...)
	b.MustApply()
	b.MustDestroy().NoWarnings(t)
	same(t, "the operator's namespace", b.namespace("berth-system"), (*corev1.Namespace)(nil))
}
