package provider_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// A size for which the quota of the namespace has no headroom is a warning in the quota's numbers; berth neither writes
// a quota nor changes one (J42, J43, X4).
func TestInstanceQuota(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := namespace(t, b.cluster, nil)
	quota(t, b.cluster, name, "team-quota", map[corev1.ResourceName]string{"limits.memory": "12Gi", "pods": "10"}, nil)
	quotas := b.cluster.Client().CoreV1().ResourceQuotas(name)
	fleettest.Eventually(t, func(ctx context.Context) error {
		live, err := quotas.Get(ctx, "team-quota", metav1.GetOptions{})
		if err == nil && len(live.Status.Used) < 2 {
			err = errors.New("the quota is not counted yet")
		}
		return err
	})
	live, err := quotas.Get(t.Context(), "team-quota", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b.use(instance("this", name, b.ownClasses(), "adopt = true", `sizes = { hold = { memory = "16Gi", cpu = "4" }, small = {} }`))
	plan := b.MustPlan()
	plan.Warning(t, `^Instance "`+name+`" on cluster "shared": quota/hold$`,
		`^size "hold" \(memory 16Gi, cpu 4\) does not fit the quota of namespace "`+name+`" right now — a pod of it waits until it does: quota "team-quota" limits\.memory: requested 16Gi, used 0, limited 12Gi \(12Gi left\) Free some of the quota`)
	for _, warning := range plan.Warnings() {
		if warning.Summary == `Instance "`+name+`" on cluster "shared": quota/small` {
			t.Errorf("a size that fits the quota: %s", warning.Detail)
		}
	}
	b.MustApply()
	b.PlanIsEmpty()
	b.MustDestroy()
	after, err := quotas.Get(t.Context(), "team-quota", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the quota", row(after.UID, after.ResourceVersion), row(live.UID, live.ResourceVersion))
	same(t, "requests about quotas that write", b.proxy.CountIf(func(r fleettest.Request) bool { return r.Resource == "resourcequotas" && r.IsWrite() }), 0)
}
