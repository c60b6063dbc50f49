package provider_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
	"github.com/berthdev/terraform-provider-berth/internal/knative"
)

// serving is the address of the berth_knative_serving of a test.
const serving = "berth_knative_serving.this"

// servingBench is a workspace whose cluster has the real Knative operator, and whose charts come from repositories of the
// test in the place of the upstream ones.
type servingBench struct {
	*bench
	crds string
	// operators serves the operator's chart.
	operators *charts.HTTPRepository
}

// servingCluster boots a cluster on which the operator, Serving and Traefik become ready.
func servingCluster(t testing.TB, loadBalancer fleettest.LoadBalancerKind) *fleettest.Cluster {
	t.Helper()
	spec := charts.Cluster("serving")
	spec.Engines, spec.LoadBalancer = []fleettest.Engine{fleettest.EngineKnative}, loadBalancer
	c := fleettest.NewCluster(t, spec)
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(c.Knative().Log())
			t.Logf("the operator's log ends with:\n%s", log[max(0, len(log)-3000):])
		}
	})
	return c
}

// newServingBench is a workspace on such a cluster, with the operator's chart in some versions.
func newServingBench(t *testing.T, c *fleettest.Cluster, owner string, operators ...string) *servingBench {
	t.Helper()
	if len(operators) == 0 {
		operators = []string{"1.13.1", "1.14.2", "1.15.2"}
	}
	operator := charts.KnativeRepository(t, operators...)
	traefik := charts.Repository(t, charts.Traefik(t, "40.2.0", knative.TraefikChartVersion)...)
	module, err := fleettest.ModuleDir(t.Context(), "knative", "knative.dev/operator")
	if err != nil {
		t.Fatal(err)
	}
	b := newBenchOn(t, c, owner, tofutest.Options{}, fmt.Sprintf(`
charts = {
  cache_dir = %q
  repository_overrides = { %q = %q, %q = %q }
}`, t.TempDir(), knative.OperatorRepository, operator.URL, knative.TraefikRepository, traefik.URL))
	return &servingBench{bench: b, operators: operator, crds: filepath.Join(module, "cmd", "operator", "kodata", "knative-serving", "{version}", "1-serving-crds.yaml")}
}

// serve writes a configuration with a berth_knative_serving of these arguments.
func (b *servingBench) serve(arguments ...string) {
	b.t.Helper()
	b.use(fmt.Sprintf("resource \"berth_knative_serving\" \"this\" {\ncrds_source = %q\n%s\n}\n", b.crds, strings.Join(arguments, "\n")))
}

// knativeServing reads the KnativeServing past the proxy; nil when there is none.
func (b *servingBench) knativeServing() *unstructured.Unstructured {
	b.t.Helper()
	list, err := b.cluster.Dynamic().Resource(knative.Servings.GVR()).Namespace("knative-serving").List(b.t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return nil
	}
	return &list.Items[0]
}

// fieldOf reads a field of an object; nil where it has none.
func fieldOf(object *unstructured.Unstructured, fields ...string) any {
	if object == nil {
		return nil
	}
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, fields...)
	return value
}

// service creates a Knative Service that is Ready, as its controllers would have it, which are simulated here.
func (b *servingBench) service(name string) *unstructured.Unstructured {
	b.t.Helper()
	api := b.cluster.Dynamic().Resource(knative.Services.GVR()).Namespace("default")
	object := knative.Services.New("default", name)
	object.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"image": "registry.example.com/function:1"}}}}}
	created, err := api.Create(b.t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	created.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
	created, err = api.UpdateStatus(b.t.Context(), created, metav1.UpdateOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return created
}

// function reads a Knative Service past the proxy.
func (b *servingBench) function(name string) *unstructured.Unstructured {
	b.t.Helper()
	found, err := b.cluster.Dynamic().Resource(knative.Services.GVR()).Namespace("default").Get(b.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return found
}

// nothingLeft fails the test unless everything of Serving is gone: both namespaces, the CRDs and the cluster-wide objects.
func (b *servingBench) nothingLeft() {
	b.t.Helper()
	for _, kind := range []string{"namespaces", "crds", "clusterroles", "clusterrolebindings", "ingressclasses", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		fleettest.Eventually(b.t, func(context.Context) error {
			for name := range strings.FieldsSeq(b.cluster.Kubectl(b.t, "get", kind, "-o", "name")) {
				if strings.Contains(name, "knative") || strings.Contains(name, "traefik") && kind != "crds" {
					return fmt.Errorf("%s is still there", name)
				}
			}
			return nil
		})
	}
}

// tellsSteps fails the test unless a plan says that its apply takes just these steps.
func (b *servingBench) tellsSteps(plan *tofutest.Result, steps ...string) {
	b.t.Helper()
	var lines []string
	for i, text := range steps {
		lines = append(lines, fmt.Sprintf("%d. %s", i+1, text))
	}
	said := plan.Warning(b.t, `^What the apply does to Serving on cluster "shared"$`).Detail
	same(b.t, "steps", said, strings.Join(lines, "\n"))
}
