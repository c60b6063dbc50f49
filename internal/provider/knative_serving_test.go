package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// The life of Serving with the real operator: planned without a write, installed at 1.14, put right after changes by
// hand, upgraded to 1.15 while a Knative Service runs, imported elsewhere with an empty plan, and destroyed in order
// (R9 to R13, R24 to R26, R62 to R65, R76, R100 to R107, R109, X8; acceptance 1 of issue 4).
func TestKnativeServingRhythm(t *testing.T) {
	t.Parallel()
	b := newServingBench(t, servingCluster(t, fleettest.LoadBalancerIP), unique("platform"))
	ingress := `ingress = { trusted_ips = ["10.0.0.0/24"], service_annotations = { "example.com/lb" = "internal" } }`
	b.serve(`version = "1.14"`, ingress)
	plan := b.MustPlan()
	same(t, "writes of a plan", b.proxy.Writes(), 0)
	b.tellsSteps(plan,
		"install the operator 1.14.2 in namespace knative-operator",
		"apply the CRDs of Serving 1.14",
		"create Namespace/knative-serving",
		"install Traefik 40.3.0 in namespace knative-serving",
		"create KnativeServing/knative-serving/knative-serving with version 1.14 and wait until it is ready")
	b.MustApply()
	b.PlanIsEmpty()
	state := b.Resource(serving)
	same(t, "outputs", row(state["version"], state["installed_version"], state["operator_version"], state["operator_status"], state["ingress_class"], state["serving_status"], state["adopted"], state["external_address"]),
		"1.14 1.14.1 1.14.2 ready traefik ready [] map[type:ip value:192.0.2.1]")
	same(t, "the ingress class of Serving", fieldOf(b.knativeServing(), "spec", "config", "network", "ingress-class"), "traefik.ingress.networking.knative.dev")
	same(t, "annotations of Traefik's Service", b.cluster.Kubectl(t, "get", "service", "traefik", "-n", "knative-serving", "-o", `jsonpath={.metadata.annotations.example\.com/lb}`), "internal")

	b.repairs()

	// An upgrade, with something that runs (R101, R102).
	function := b.service("hello")
	b.serve(`version = "1.15"`, ingress)
	plan = b.MustPlan()
	b.tellsSteps(plan,
		"upgrade the operator from 1.14.2 to 1.15.2",
		"move the CRDs of Serving to 1.15",
		"make sure of Traefik 40.3.0",
		"upgrade KnativeServing/knative-serving/knative-serving from 1.14 to 1.15 and wait until it is ready",
		"migrate the stored versions of Serving's CRDs")
	b.MustApply()
	b.PlanIsEmpty()
	same(t, "version after the upgrade", row(b.Resource(serving)["installed_version"], b.Resource(serving)["operator_version"]), "1.15.2 1.15.2")
	now := b.function("hello")
	same(t, "the Knative Service", row(now.GetUID(), fieldOf(now, "status", "conditions")), row(function.GetUID(), fieldOf(function, "status", "conditions")))

	// No step back, and none that is skipped (R100).
	b.serve(`version = "1.14"`, ingress)
	b.Plan().Error(t, `^Knative Serving is not downgraded from 1\.15 to 1\.14$`, `never downgraded`)
	b.serve(`version = "1.17"`, ingress)
	b.Plan().Error(t, `^Knative Serving is not upgraded from 1\.15 to 1\.17$`, `apply 1\.16, then 1\.17`)

	// Another configuration imports it, with an empty plan.
	elsewhere := newServingBench(t, b.cluster, unique("elsewhere"))
	elsewhere.use(fmt.Sprintf("resource \"berth_knative_serving\" \"this\" {\nversion = \"1.15\"\n%s\n}\n", ingress))
	elsewhere.MustImport(serving, "shared/knative-serving/knative-serving")
	elsewhere.PlanIsEmpty()

	// Destroy refuses while something runs on it (R104, R105), and then goes in order.
	b.serve(`version = "1.15"`, ingress)
	b.Destroy().Error(t, `^1 Knative Service\(s\) still run on cluster "shared"$`, `refusing: .* would end default/hello\. Nothing was deleted\. .*force_destroy = true`)
	b.kubectl("delete", "services.serving.knative.dev", "hello", "-n", "default")
	b.MustDestroy()
	b.nothingLeft()
}

// repairs breaks each part by hand, and asserts that the plan shows exactly that and the apply mends it.
func (b *servingBench) repairs() {
	b.t.Helper()
	for _, broken := range []struct {
		args  []string
		drift string
	}{
		{
			[]string{"patch", "knativeserving", "knative-serving", "-n", "knative-serving", "--type=merge", "-p", `{"spec":{"config":{"network":{"ingress-class":"other"}}}}`},
			`map[KnativeServing/knative-serving/knative-serving spec.config.network.ingress-class:other → traefik.ingress.networking.knative.dev]`,
		},
		{
			[]string{"delete", "deployment", "traefik", "-n", "knative-serving"},
			`map[Deployment/knative-serving/traefik:missing → present]`,
		},
		{
			[]string{"annotate", "service", "traefik", "-n", "knative-serving", "--overwrite", "example.com/lb=other"},
			`map[Service/knative-serving/traefik metadata.annotations.[example.com/lb]:other → internal]`,
		},
	} {
		b.kubectl(broken.args...)
		same(b.t, "drift after "+strings.Join(broken.args, " "), b.MustPlan().Change(b.t, serving).Before["drift"], broken.drift)
		b.MustApply()
		b.PlanIsEmpty()
	}
}
