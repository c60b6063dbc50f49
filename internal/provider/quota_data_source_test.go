package provider_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// quota creates a ResourceQuota and waits until its controller has counted what is used of it.
func quota(t testing.TB, c *fleettest.Cluster, namespace, name string, hard map[corev1.ResourceName]string, change func(*corev1.ResourceQuotaSpec)) {
	t.Helper()
	wanted := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
	for resourceName, quantity := range hard {
		wanted.Spec.Hard[resourceName] = resource.MustParse(quantity)
	}
	if change != nil {
		change(&wanted.Spec)
	}
	api := c.Client().CoreV1().ResourceQuotas(namespace)
	if _, err := api.Create(t.Context(), wanted, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	fleettest.Eventually(t, func(ctx context.Context) error {
		live, err := api.Get(ctx, name, metav1.GetOptions{})
		if err == nil && len(live.Status.Used) < len(hard) {
			err = fmt.Errorf("quota %s reports %v", name, live.Status.Used)
		}
		return err
	})
}

func podOf(memory, cpu string) corev1.PodSpec {
	amount := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourceCPU: resource.MustParse(cpu)}
	return corev1.PodSpec{Containers: []corev1.Container{{
		Name: "app", Image: "example.com/app", Resources: corev1.ResourceRequirements{Requests: amount, Limits: amount},
	}}}
}

// What a quota allows, what is used of it, what still fits and what waits, in the quota's words (J42, J43, J45).
func TestQuota(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		b := newBench(t, tofutest.Options{Runner: runner})
		team := namespace(t, b.cluster, nil)
		quota(t, b.cluster, team, "team-quota", map[corev1.ResourceName]string{"limits.memory": "10Gi", "requests.cpu": "8"}, nil)
		quota(t, b.cluster, team, "batch", map[corev1.ResourceName]string{"pods": "1"}, func(spec *corev1.ResourceQuotaSpec) {
			spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
				ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"batch-low"},
			}}}
		})
		// Two of the three replicas fit; the third is what waits.
		labels := map[string]string{"app": "web"}
		replicas := int32(3)
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podOf("4Gi", "1")},
		}}
		if _, err := b.cluster.Client().AppsV1().ReplicaSets(team).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		fleettest.Eventually(t, func(ctx context.Context) error {
			live, err := b.cluster.Client().AppsV1().ReplicaSets(team).Get(ctx, "web", metav1.GetOptions{})
			if err == nil && len(live.Status.Conditions) == 0 {
				err = fmt.Errorf("the ReplicaSet has not been refused a pod yet: %v", live.Status)
			}
			if err != nil {
				return err
			}
			counted, err := b.cluster.Client().CoreV1().ResourceQuotas(team).Get(ctx, "team-quota", metav1.GetOptions{})
			if err == nil && counted.Status.Used.Name("limits.memory", resource.BinarySI).String() != "8Gi" {
				err = fmt.Errorf("the quota reports %v", counted.Status.Used)
			}
			return err
		})
		// The scheduler's verdict on a pod that no node takes; nothing schedules on this cluster.
		pending, err := b.cluster.Client().CoreV1().Pods(team).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "ws-1"}, Spec: podOf("1Gi", "1")}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		since := metav1.NewTime(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
		pending.Status.Conditions = append(pending.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: since,
			Message: "0/4 nodes are available: 4 Insufficient cpu.",
		})
		if _, err := b.cluster.Client().CoreV1().Pods(team).UpdateStatus(t.Context(), pending, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		fleettest.Eventually(t, func(ctx context.Context) error {
			counted, err := b.cluster.Client().CoreV1().ResourceQuotas(team).Get(ctx, "team-quota", metav1.GetOptions{})
			if err == nil && counted.Status.Used.Name("limits.memory", resource.BinarySI).String() != "9Gi" {
				err = fmt.Errorf("the quota reports %v", counted.Status.Used)
			}
			return err
		})

		config := func(more string) string {
			return data("quota", fmt.Sprintf("namespace = %q", team), `sizes = { hold = { memory = "8Gi", cpu = "4" }, small = { memory = "512Mi", cpu = "250m" } }`, more)
		}
		b.use(config(""))
		result := b.MustApply()
		values := b.data("quota")
		same(t, "id", values["id"], "shared/"+team)
		same(t, "quotas", values["quotas"], []any{
			map[string]any{"name": "batch", "scopes": []string{"PriorityClass In (batch-low)"}, "resources": map[string]any{
				"pods": map[string]any{"hard": "1", "used": "0", "headroom": "1"},
			}},
			map[string]any{"name": "team-quota", "scopes": []string{}, "resources": map[string]any{
				"limits.memory": map[string]any{"hard": "10Gi", "used": "9Gi", "headroom": "1Gi"},
				"requests.cpu":  map[string]any{"hard": "8", "used": "3", "headroom": "5"},
			}},
		})
		memory := []string{`quota "team-quota" limits.memory`}
		same(t, "room", values["room"], map[string]any{
			"hold":  map[string]any{"limited": true, "count": 0, "limited_by": memory},
			"small": map[string]any{"limited": true, "count": 2, "limited_by": memory},
		})
		found := result.Warning(t, `^Check quota/hold warns on cluster "shared"$`,
			`^size "hold" \(memory 8Gi, cpu 4\) does not fit the quota of namespace "`+team+`" right now — a pod of it waits until it does: quota "team-quota" limits.memory: requested 8Gi, used 9Gi, limited 10Gi \(1Gi left\)`)
		same(t, "warnings", len(result.Warnings()), 1)
		same(t, "address", found.Address, "data.berth_quota.this")

		waiting := values["waiting"].([]any)
		if len(waiting) != 2 {
			t.Fatalf("waiting: %v", waiting)
		}
		same(t, "the pod", waiting[0], map[string]any{"object": "Pod ws-1", "on": "node", "message": "0/4 nodes are available: 4 Insufficient cpu.", "since": "2030-01-02T03:04:05Z"})
		refused := waiting[1].(map[string]any)
		same(t, "the ReplicaSet", fmt.Sprint(refused["object"], ": ", refused["on"]), "ReplicaSet web: quota")
		message := fmt.Sprint(refused["message"])
		if !strings.HasPrefix(message, `pods "web-`) || !strings.Contains(message, "is forbidden: exceeded quota: team-quota, requested: limits.memory=4Gi, used: limits.memory=") {
			t.Errorf("not the quota's words: %s", message)
		}
		report := fmt.Sprint(values["report"])
		for _, line := range []string{
			"team-quota  limits.memory  10Gi  9Gi   1Gi\n",
			"size \"small\" (memory 512Mi, cpu 250m): room for 2, by quota \"team-quota\" limits.memory\n",
			"Pod ws-1 waits for node: 0/4 nodes are available: 4 Insufficient cpu.\n",
		} {
			if !strings.Contains(report, line) {
				t.Errorf("the report has no line %q:\n%s", line, report)
			}
		}
		b.noWrites()
		b.PlanIsEmpty()

		// A class brings its own quota in.
		b.use(config(`priority_class = "batch-low"`))
		b.MustApply()
		small := b.data("quota")["room"].(map[string]any)["small"].(map[string]any)
		same(t, "room of the class", small, map[string]any{"limited": true, "count": 1, "limited_by": []string{`quota "batch" pods`}})
	})
}

// No quota limits nothing, and a namespace that does not exist yet has none (J42).
func TestQuotaWithout(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, plainCluster(t), unique("team"), tofutest.Options{})
	team := namespace(t, b.cluster, nil)
	b.use(data("quota", fmt.Sprintf("namespace = %q", team), `sizes = { hold = {} }`))
	b.MustApply().NoWarnings(t)
	values := b.data("quota")
	same(t, "room", values["room"], map[string]any{"hold": map[string]any{"limited": false, "count": nil, "limited_by": []string{}}})
	same(t, "quotas and waiting", fmt.Sprint(values["quotas"], values["waiting"]), "[] []")
	same(t, "report", values["report"], "no quota\n\nsize \"hold\" (memory 2Gi, cpu 1): not limited by a quota")

	b.use(data("quota", `namespace = "later"`, `sizes = { hold = {} }`))
	result := b.MustApply()
	result.Warning(t, `^Namespace "later" does not exist on cluster "shared"$`, `it has no quota and nothing waits in it`)
	same(t, "warnings", len(result.Warnings()), 1)
}

// A quota that nobody has counted yet is unknown, which is neither room nor none (J42, X4).
func TestQuotaNotCounted(t *testing.T) {
	t.Parallel()
	// Nothing counts quotas on this cluster.
	b := newBenchOn(t, plainCluster(t), unique("team"), tofutest.Options{})
	team := namespace(t, b.cluster, nil)
	wanted := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("3")}}}
	if _, err := b.cluster.Client().CoreV1().ResourceQuotas(team).Create(t.Context(), wanted, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.use(data("quota", fmt.Sprintf("namespace = %q", team), `sizes = { hold = {} }`))
	b.MustApply().Warning(t, `^Check quota/hold warns on cluster "shared"$`, `^unknown: whether size "hold" \(memory 2Gi, cpu 1\) fits the quota of namespace "`+team+`": no use is reported yet for quota "q" pods`)
	values := b.data("quota")
	same(t, "room", values["room"], map[string]any{"hold": map[string]any{"limited": true, "count": nil, "limited_by": []string{}}})
	same(t, "quotas", values["quotas"], []any{map[string]any{"name": "q", "scopes": []string{}, "resources": map[string]any{"pods": map[string]any{"hard": "3", "used": nil, "headroom": nil}}}})
}
