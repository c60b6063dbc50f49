package provider_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

const operatorBlock = `operator = { image = "example.com/operator:%[1]s", version = "%[1]s" }
remove_operator = %[2]t`

// The default classes and the operator belong to all instances of a cluster, of whichever configuration; the last one
// takes them along (J12, J36, J38, J69, X7, X8). This test has a cluster of its own, since it counts who is left.
func TestInstanceShared(t *testing.T) {
	t.Parallel()
	c := fleettest.NewCluster(t, fleettest.ClusterSpec{Name: "mine", Nodes: []fleettest.NodeSpec{{Name: "amd"}}})
	first := newBenchOn(t, c, "first", tofutest.Options{})
	second := newBenchOn(t, c, "second", tofutest.Options{})
	first.use(instance("a", "a", fmt.Sprintf(operatorBlock, "1.4.0", true)), instance("b", "b"))
	first.MustApply()
	// The same name in another configuration is another user.
	second.use(instance("this", "c", fmt.Sprintf(operatorBlock, "1.3.9", true)))
	second.MustPlan()
	second.MustApply().Warning(t, `^Instance "c" on cluster "shared": operator$`,
		`^The operator on mine has version 1\.4\.0, which is newer than 1\.3\.9\. It is never downgraded and was left as it is\. Set .operator\.version. and .operator\.image. to the newer one\.$`)
	same(t, "operator_version", second.Resource(thisInstance)["operator_version"], "1.4.0")
	same(t, "the operator's image", operatorImage(t, c), "example.com/operator:1.4.0")
	for _, bench := range []*bench{first, second} {
		bench.PlanIsEmpty()
	}
	users := func(object metav1.Object) []string {
		found := []string{}
		for _, user := range []string{userLabel("first", "a"), userLabel("first", "b"), userLabel("second", "c")} {
			if name := object.GetLabels()[user]; name != "" {
				found = append(found, name)
			}
		}
		return found
	}
	same(t, "users of a class", users(first.mustClass(sandboxClass)), "[a b c]")
	same(t, "users of the operator's namespace", users(first.mustNamespace("berth-system")), "[a c]")

	// A newer one upgrades it; who has the older version follows without a fight.
	second.use(instance("this", "c", fmt.Sprintf(operatorBlock, "1.10.0", true)))
	second.MustApply()
	same(t, "the operator's image", operatorImage(t, c), "example.com/operator:1.10.0")
	first.PlanIsEmpty()
	second.PlanIsEmpty()

	// An instance that names classes of its own gives up its part in the default ones.
	theirs := first.foreign("theirs", 600, func(class *classSpec) { class.PreemptionPolicy = never })
	first.use(instance("a", "a", fmt.Sprintf(operatorBlock, "1.4.0", true)), instance("b", "b", `priority_classes = { sandbox = "theirs" }`))
	first.MustApply()
	same(t, "users of the classes", row(users(first.mustClass(sandboxClass)), users(first.mustClass(controlClass))), "[a c] [a b c]")
	first.PlanIsEmpty()

	// Who leaves says what stays and for whom.
	first.MustDestroy().Warning(t, `^Something of instance "a" stays on cluster "shared"$`, "PriorityClass/"+sandboxClass+": it is still used by c", "Deployment/berth-system/"+operator+": it is still used by c", "Namespace/berth-system: it is still used by c")
	same(t, "users of a class", users(first.mustClass(sandboxClass)), "[c]")
	second.PlanIsEmpty()

	// A class that a pod still names stays, and says for whom (J69); what is left is taken up again.
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "straggler"}, Spec: corev1.PodSpec{PriorityClassName: sandboxClass, Containers: []corev1.Container{{Name: "app", Image: "example.com/app"}}}}
	fleettest.Eventually(t, func(ctx ctx) error {
		_, err := c.Client().CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	second.MustDestroy().Warning(t, `^Something of instance "c" stays on cluster "shared"$`, "^PriorityClass/"+sandboxClass+`: pods still name it: default/straggler\.$`)
	same(t, "the classes", row(first.mustClass(sandboxClass).Value, first.class(controlClass) == nil), "1000 true")
	same(t, "what carries a mark", everything(t, c, anyMark), []string{"PriorityClass/" + sandboxClass})
	first.kubectl("delete", "pod", "straggler", "--now")
	first.use(instance("a", "a"))
	first.MustApply()
	first.MustDestroy().NoWarnings(t)
	same(t, "what carries a mark", everything(t, c, anyMark), []string{})
	same(t, "the foreign class", first.mustClass("theirs").ResourceVersion, theirs.ResourceVersion)

	// The operator stays unless its removal is asked for, and somebody else's by its name is refused.
	first.use(instance("a", "a", fmt.Sprintf(operatorBlock, "1.4.0", false)))
	first.MustApply()
	first.MustDestroy().Warning(t, `^Something of instance "a" stays`, "Deployment/berth-system/"+operator+": remove_operator is false")
	same(t, "the operator's image", operatorImage(t, c), "example.com/operator:1.4.0")
	first.kubectl("create", "namespace", "theirs-system")
	first.use(instance("a", "a", `operator = { image = "example.com/operator:1", version = "1.0.0", namespace = "theirs-system" }`))
	first.Plan().Error(t, "^Namespace/theirs-system exists already and is not shared$", `^refusing: Namespace/theirs-system exists on mine and berth did not create it\. Choose another .operator\.namespace., or delete it\. Nothing was applied\.$`)
}

func operatorImage(t *testing.T, c *fleettest.Cluster) string {
	t.Helper()
	live, err := c.Client().AppsV1().Deployments("berth-system").Get(t.Context(), operator, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return live.Spec.Template.Spec.Containers[0].Image
}

// Instances that come, repair, go and follow each other in one apply never trip over what they share (X7, X11).
func TestInstanceSharedAtOnce(t *testing.T) {
	t.Parallel()
	c := fleettest.NewCluster(t, fleettest.ClusterSpec{Name: "busy", ControlPlaneOnly: true, Controllers: true, Nodes: []fleettest.NodeSpec{{Name: "amd"}}})
	b := newBenchOn(t, c, "team", tofutest.Options{})
	many := func(names string) string {
		return fmt.Sprintf("resource \"berth_instance\" \"many\" {\nfor_each = toset(%s)\nname = each.key\n}\n", names)
	}
	b.use(many(`["a", "b", "c", "d", "e"]`))
	b.MustApply()
	b.PlanIsEmpty()
	count := 0
	for key := range b.mustClass(sandboxClass).Labels {
		if len(key) > len("users.berth.dev/") && key[:16] == "users.berth.dev/" {
			count++
		}
	}
	same(t, "users of a class", count, 5)

	// All of them find the same damage and repair it at once.
	b.kubectl("patch", "priorityclass", sandboxClass, "--type=merge", "-p", `{"description":"by hand"}`)
	b.kubectl("delete", "priorityclass", controlClass)
	b.MustApply()
	b.PlanIsEmpty()
	// The only users go while new ones come.
	for _, names := range []string{`["f"]`, `["g"]`, `["h", "i"]`, `["j"]`} {
		b.use(many(names))
		b.MustApply()
		b.PlanIsEmpty()
	}
	b.MustDestroy()
	same(t, "what carries a mark", everything(t, c, anyMark), []string{})
}
