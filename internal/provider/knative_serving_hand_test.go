package provider_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/repo"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
)

// operatorByHand installs the operator as somebody does who renders its chart and applies that: no Helm release is left.
func operatorByHand(t *testing.T, c *fleettest.Cluster, version string) {
	t.Helper()
	loaded, err := loader.Load(charts.KnativeOperator(t, version)[0])
	if err != nil {
		t.Fatal(err)
	}
	render := action.NewInstall(new(action.Configuration))
	render.ReleaseName, render.Namespace = "knative-operator", "knative-operator"
	render.DryRun, render.ClientOnly, render.Replace = true, true, true
	render.KubeVersion = &chartutil.KubeVersion{Version: c.Version(), Major: "1", Minor: "36"}
	rendered, err := render.Run(loaded, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Kubectl(t, "create", "namespace", "knative-operator")
	c.KubectlInput(t, rendered.Manifest, "apply", "--server-side", "-f", "-")
	c.Kubectl(t, "wait", "--for=condition=Established", "crd/knativeservings.operator.knative.dev", "--timeout=60s")
}

// handmade is a KnativeServing with configuration that berth knows nothing of.
const handmade = `
apiVersion: operator.knative.dev/v1beta1
kind: KnativeServing
metadata:
  name: knative-serving
  namespace: knative-serving
  labels: { team: functions }
spec:
  version: "1.14"
  ingress:
    istio: { enabled: false }
    kourier: { enabled: false }
    contour: { enabled: false }
  config:
    config-network: { ingress-class: traefik.ingress.networking.knative.dev }
    config-defaults: { revision-timeout-seconds: "120", max-revision-timeout-seconds: "700" }
    config-domain: { theirs.example.com: "" }
`

// servingByHand installs Serving with an operator that is there, and waits until it is Ready.
func (b *servingBench) servingByHand() {
	b.t.Helper()
	b.kubectl("create", "namespace", "knative-serving")
	b.cluster.KubectlInput(b.t, handmade, "apply", "--server-side", "--field-manager=somebody", "-f", "-")
	b.untilServing("True", "1.14.1")
}

// untilServing waits until the operator has seen the KnativeServing as it is, and says this of its condition Ready and of
// the version that is installed.
func (b *servingBench) untilServing(ready, installed string) {
	b.t.Helper()
	fleettest.Eventually(b.t, func(context.Context) error {
		live := b.knativeServing()
		if got := row(fieldOf(live, "status", "observedGeneration"), readiness(live), fieldOf(live, "status", "version")); got != row(live.GetGeneration(), ready, installed) {
			return fmt.Errorf("generation, Ready and version: %s", got)
		}
		return nil
	})
}

// readiness is the condition Ready of a KnativeServing.
func readiness(live *unstructured.Unstructured) any {
	conditions, _ := fieldOf(live, "status", "conditions").([]any)
	for _, one := range conditions {
		if fields, _ := one.(map[string]any); fields["type"] == "Ready" {
			return fields["status"]
		}
	}
	return nil
}

// deploymentUID tells whether a Deployment is still the one that it was.
func (b *bench) deploymentUID(namespace, name string) string {
	b.t.Helper()
	return b.cluster.Kubectl(b.t, "get", "deployment", name, "-n", namespace, "-o", "jsonpath={.metadata.uid}")
}

// publish adds one more version of the operator's chart to the repository, under a name as its index has them.
func (b *servingBench) publish(version string) {
	b.t.Helper()
	b.operators.Add(b.t, charts.KnativeOperator(b.t, version)[0])
	b.operators.EditIndex(b.t, func(index *repo.IndexFile) {
		for _, entry := range index.Entries["knative-operator"] {
			entry.Version = "v" + strings.TrimPrefix(entry.Version, "v")
		}
	})
}

// library is the cluster as a region's part of berth opens it.
func (b *servingBench) library() *cluster.Cluster {
	b.t.Helper()
	c, err := cluster.NewFleet(cluster.Settings{
		Owner: unique("regions"), Entries: map[string]cluster.Entry{"shared": {Kubeconfig: b.cluster.AdminKubeconfig().Content()}},
	}).Cluster("shared")
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}
