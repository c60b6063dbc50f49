package fleettest_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
)

var servings = schema.GroupVersionResource{Group: "operator.knative.dev", Version: "v1beta1", Resource: "knativeservings"}

// The real operator installs Serving 1.14 and moves it to 1.15 as soon as its own chart says 1.15 (R101, R102); it goes on
// where it was killed, and ends with its Deployment.
func TestKnative(t *testing.T) {
	nodes := []fleettest.NodeSpec{{Name: "n1", CPU: "64", Memory: "256Gi"}}
	fleet := fleettest.New(t,
		fleettest.ClusterSpec{Name: "a", Nodes: nodes},
		fleettest.ClusterSpec{Name: "b", Nodes: nodes, Engines: []fleettest.Engine{fleettest.EngineKnative}})
	c, b := fleet.Cluster("a"), fleet.Cluster("b")
	operator := c.StartKnative(t, "operators")
	t.Cleanup(func() {
		for _, k := range []*fleettest.Knative{operator, b.Knative()} {
			if t.Failed() {
				log, _ := os.ReadFile(k.Log())
				t.Logf("the operator's log %s ends with:\n%s", k.Log(), log[max(0, len(log)-4000):])
			}
		}
	})
	if operator.Running() {
		t.Error("the operator runs before it is installed")
	}
	began := time.Now()
	step := func(what string) {
		t.Logf("%s: %s", what, time.Since(began).Round(100*time.Millisecond))
		began = time.Now()
	}
	archives := charts.KnativeOperator(t, "1.14.2", "1.15.2", "1.16.0")

	c.Kubectl(t, "create", "namespace", "operators")
	c.Kubectl(t, "create", "namespace", "knative-serving")
	install(t, c, archives[0], "operators")
	fleettest.Eventually(t, func(context.Context) error { return unless(nil, operator.Running(), "the operator does not run") })
	step("operator 1.14 runs")

	c.KubectlInput(t, serving, "apply", "--server-side", "-f", "-")
	waitReady(t, c, "1.14.1")
	step("Serving 1.14 is ready")

	// The operator of 1.14 has no 1.15.
	setVersion(t, c, "1.15")
	fleettest.Eventually(t, func(ctx context.Context) error {
		object, err := c.Dynamic().Resource(servings).Namespace("knative-serving").Get(ctx, "knative-serving", metav1.GetOptions{})
		if err != nil {
			return err
		}
		status, message := condition(object, "InstallSucceeded")
		return unless(nil, status == "False" && strings.Contains(message, "version 1.15 are not available to this release"), "InstallSucceeded is %s: %s", status, message)
	})
	step("operator 1.14 refuses 1.15")
	operator.Kill(t)
	install(t, c, archives[1], "operators")
	waitReady(t, c, "1.15.2")
	step("operator and Serving 1.15 are ready")

	// Two operators run on one machine.
	b.Kubectl(t, "create", "namespace", "knative-operator")
	b.Kubectl(t, "create", "namespace", "knative-serving")
	install(t, b, archives[1], "knative-operator")
	b.KubectlInput(t, strings.ReplaceAll(serving, `"1.14"`, `"1.15"`), "apply", "--server-side", "-f", "-")
	waitReady(t, b, "1.15.2")
	if !operator.Running() || !b.Knative().Running() {
		t.Error("an operator has ended")
	}
	step("operator and Serving 1.15 are ready on the other cluster")
	install(t, b, archives[2], "knative-operator")
	fleettest.Eventually(t, func(context.Context) error {
		return unless(nil, !b.Knative().Running(), "the operator of 1.15 runs in the place of one of 1.16")
	})

	c.Kubectl(t, "delete", "knativeserving", "knative-serving", "-n", "knative-serving", "--timeout=60s")
	fleettest.Eventually(t, func(ctx context.Context) error {
		_, err := c.Client().AppsV1().Deployments("knative-serving").Get(ctx, "controller", metav1.GetOptions{})
		return unless(nil, apierrors.IsNotFound(err), "the controller's Deployment: %v", err)
	})
	step("Serving is gone")
	c.Kubectl(t, "delete", "deployment", "knative-operator", "-n", "operators")
	fleettest.Eventually(t, func(context.Context) error { return unless(nil, !operator.Running(), "the operator still runs") })
}

// serving is a KnativeServing without an ingress of its own.
const serving = `
apiVersion: operator.knative.dev/v1beta1
kind: KnativeServing
metadata:
  name: knative-serving
  namespace: knative-serving
spec:
  version: "1.14"
  ingress:
    istio:
      enabled: false
    kourier:
      enabled: false
    contour:
      enabled: false
  config:
    network:
      ingress-class: traefik.ingress.networking.knative.dev
`

// install applies what Helm would: the objects of the chart at its default values.
func install(t *testing.T, c *fleettest.Cluster, archive, namespace string) {
	t.Helper()
	loaded, err := loader.Load(archive)
	if err != nil {
		t.Fatal(err)
	}
	render := action.NewInstall(new(action.Configuration))
	render.ReleaseName, render.Namespace = "knative-operator", namespace
	render.DryRun, render.ClientOnly, render.Replace = true, true, true
	render.KubeVersion = &chartutil.KubeVersion{Version: c.Version(), Major: "1", Minor: "36"}
	rendered, err := render.Run(loaded, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.KubectlInput(t, rendered.Manifest, "apply", "--server-side", "--force-conflicts", "-f", "-")
}

func setVersion(t *testing.T, c *fleettest.Cluster, version string) {
	t.Helper()
	c.Kubectl(t, "patch", "knativeserving", "knative-serving", "-n", "knative-serving", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"version":%q}}`, version))
}

// waitReady waits until the KnativeServing is Ready at a version.
func waitReady(t *testing.T, c *fleettest.Cluster, version string) {
	t.Helper()
	fleettest.Eventually(t, func(ctx context.Context) error {
		object, err := c.Dynamic().Resource(servings).Namespace("knative-serving").Get(ctx, "knative-serving", metav1.GetOptions{})
		if err != nil {
			return err
		}
		installed, _, _ := unstructured.NestedString(object.Object, "status", "version")
		observed, _, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
		status, message := condition(object, "Ready")
		ready := installed == version && observed == object.GetGeneration() && status == "True"
		return unless(nil, ready, "version %q, want %s; Ready is %s: %s", installed, version, status, message)
	})
}

func condition(object *unstructured.Unstructured, kind string) (status, message string) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, each := range conditions {
		if c, ok := each.(map[string]any); ok && c["type"] == kind {
			status, _ = c["status"].(string)
			message, _ = c["message"].(string)
		}
	}
	return status, message
}
