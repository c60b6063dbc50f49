package fleettest_test

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
)

// Real Kueue 0.15, which stores v1beta1, is upgraded in place to 0.17, which stores v1beta2, under a running Job (K36,
// K45): what was stored before is read through the new one's conversion, and the Job goes on.
func TestKueueUpgrade(t *testing.T) {
	c := fleettest.NewCluster(t, fleettest.ClusterSpec{
		Nodes:             []fleettest.NodeSpec{{Name: "n1"}},
		Engines:           []fleettest.Engine{fleettest.EngineKueue},
		AdmissionWebhooks: true,
	})
	logged(t, c.Kueue())
	step := steps(t)
	archives := charts.Kueue(t, "0.15.0", "0.17.0")
	values := map[string]any{"managerConfig": map[string]any{"controllerManagerConfigYaml": kueueConfig}}
	const namespace = "queueing"
	release := installChart(t, c, archives[0], "kueue", namespace, values)
	c.Kubectl(t, "rollout", "status", "deployment/kueue-controller-manager", "-n", namespace, "--timeout=60s")
	step("Kueue 0.15 runs")

	c.Kubectl(t, "create", "namespace", "team")
	c.KubectlInput(t, queues, "apply", "--server-side", "-f", "-")
	c.KubectlInput(t, job, "apply", "--server-side", "-f", "-")
	uid := admitted(t, c)
	if stored := storedVersions(t, c, "workloads.kueue.x-k8s.io"); !slices.Equal(stored, []string{"v1beta1"}) {
		t.Errorf("0.15 stores Workloads as %v", stored)
	}
	step("the Job is admitted, and waits for a node")

	upgradeChart(t, release, archives[1], values)
	c.Kubectl(t, "rollout", "status", "deployment/kueue-controller-manager", "-n", namespace, "--timeout=60s")
	step("Kueue 0.17 runs")
	if stored := storedVersions(t, c, "workloads.kueue.x-k8s.io"); !slices.Equal(stored, []string{"v1beta1", "v1beta2"}) {
		t.Errorf("0.17 stores Workloads as %v", stored)
	}
	if now := admitted(t, c); now != uid {
		t.Errorf("the Workload was %s and is %s", uid, now)
	}
	c.AddNode(t, fleettest.NodeSpec{Name: "n2", Labels: map[string]string{"pool": "late"}})
	c.Kubectl(t, "wait", "--for=condition=Complete", "job/example", "-n", "team", "--timeout=60s")
	fleettest.Eventually(t, func(ctx context.Context) error {
		list, err := c.Dynamic().Resource(kueue("workloads")).Namespace("team").List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			return unless(err, false, "there are %d Workloads", len(list.Items))
		}
		status, message := condition(&list.Items[0], "Finished")
		return unless(nil, status == "True", "Finished is %q: %s", status, message)
	})
	step("the Job is complete")
}

// admitted waits until the only Workload of the team is admitted and gives its UID.
func admitted(t *testing.T, c *fleettest.Cluster) (uid string) {
	t.Helper()
	fleettest.Eventually(t, func(ctx context.Context) error {
		list, err := c.Dynamic().Resource(kueue("workloads")).Namespace("team").List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			return unless(err, false, "there are %d Workloads", len(list.Items))
		}
		uid = string(list.Items[0].GetUID())
		status, message := condition(&list.Items[0], "Admitted")
		return unless(nil, status == "True", "Admitted is %q: %s", status, message)
	})
	return uid
}

func storedVersions(t *testing.T, c *fleettest.Cluster, crd string) []string {
	t.Helper()
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	object, err := c.Dynamic().Resource(crds).Get(t.Context(), crd, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored, _, err := unstructured.NestedStringSlice(object.Object, "status", "storedVersions")
	if err != nil {
		t.Fatal(err)
	}
	return stored
}
