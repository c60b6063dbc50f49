package provider_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/knative"
)

// An operator and a Ready Serving that somebody else installed are refused, and with adopt used as they are: nothing of
// them is written but marks, and a destroy leaves both without these. A Serving that is not Ready is applied (R62, R96 to
// R98). What regions want goes under the spelling that is there, and never below what is there (R79, R80, R108, Y8).
func TestKnativeServingAdopted_R62_R96_R97_R98(t *testing.T) {
	t.Parallel()
	b := newServingBench(t, servingCluster(t, fleettest.LoadBalancerHostname), unique("adopting"))
	operatorByHand(t, b.cluster, "1.14.2")
	b.servingByHand()
	before, operator := b.knativeServing(), b.deploymentUID("knative-operator", "knative-operator")

	b.serve()
	b.proxy.Reset()
	b.Plan().Error(t, `^The Knative operator runs on cluster "shared" already$`,
		`^refusing: Deployment/knative-operator/knative-operator is there, installed without Helm, and berth did not create it\. Nothing was applied\. Set adopt = true`)
	b.serve(`operator = { namespace = "elsewhere" }`, "adopt = true")
	b.Plan().Error(t, `^The Knative operator runs in namespace "knative-operator" already$`, `a second one would fight with it\. Nothing was applied\. Set operator\.namespace`)
	b.serve("adopt = true", `name = "other"`)
	b.Plan().Error(t, `^Serving is installed on cluster "shared" already, under another name$`, `has KnativeServing/knative-serving/knative-serving, .*Set .namespace. and .name.`)
	b.unwritten()

	// Imported instead, it needs no adopt, and its plan is empty, with the operator where it was found.
	elsewhere := newServingBench(t, b.cluster, unique("imports"))
	elsewhere.serve(`ingress = { enabled = false }`)
	elsewhere.MustImport(serving, "shared/knative-serving/knative-serving")
	elsewhere.MustPlan()
	elsewhere.MustApply() // crds_source is in no cluster
	elsewhere.PlanIsEmpty()
	same(t, "writes of an import", elsewhere.proxy.Writes(), 0)

	b.serve("adopt = true")
	plan := b.MustPlan()
	same(t, "version", plan.Change(t, serving).After["version"], "1.14")
	b.tellsSteps(plan,
		"adopt the operator 1.14 in namespace knative-operator as it is",
		"install Traefik 40.3.0 in namespace knative-serving",
		"adopt KnativeServing/knative-serving/knative-serving (version 1.14.1) as it is")
	b.MustApply()
	b.PlanIsEmpty()
	state := b.Resource(serving)
	same(t, "outputs", row(state["version"], state["installed_version"], state["operator_version"], state["adopted"], state["external_address"]),
		"1.14 1.14.1 1.14 [operator serving] map[type:hostname value:traefik.knative-serving.serving.example.com]")
	after := b.knativeServing()
	same(t, "the adopted Serving", row(after.GetUID(), after.GetGeneration(), after.Object["spec"]), row(before.GetUID(), before.GetGeneration(), before.Object["spec"]))
	same(t, "its marks", marksOf(after), fmt.Sprintf("managed-by=berth owner=%s/knative_serving.knative-serving/knative-serving created=", b.owner))
	same(t, "the operator", b.deploymentUID("knative-operator", "knative-operator"), operator)

	b.regionsOfAdopted()

	b.MustDestroy().Warning(t, `^KnativeServing/knative-serving/knative-serving stays on cluster "shared"$`, `it was adopted, not created`)
	left := b.knativeServing()
	same(t, "what is left", row(left.GetUID(), marksOf(left), left.GetLabels(), readiness(left)), row(before.GetUID(), noMarks, before.GetLabels(), "True"))
	same(t, "the operator that is left", b.deploymentUID("knative-operator", "knative-operator"), operator)
	// Traefik's CRDs are from its chart's crds/, and stay with Traefik, which the adopted Serving still needs.
	same(t, "what carries a mark", everything(t, b.cluster, func(object metav1.Object) bool {
		return anyMark(object) && !strings.HasSuffix(object.GetName(), ".traefik.io")
	}), []string{})

	b.brokenIsApplied()
}

// regionsOfAdopted has a region share the adopted Serving.
func (b *servingBench) regionsOfAdopted() {
	b.t.Helper()
	c := b.library()
	const region = "regions/region.eu-1"
	if err := knative.Contribute(b.t.Context(), c, "knative-serving", region, knative.Part{RequestTimeout: 650, Domains: map[string]string{"eu-1.example.com": ""}}); err != nil {
		b.t.Fatal(err)
	}
	if _, err := knative.ApplyShared(b.t.Context(), c, "knative-serving", "knative-serving"); err != nil {
		b.t.Fatal(err)
	}
	same(b.t, "the configuration with a region", fieldOf(b.knativeServing(), "spec", "config"), map[string]any{
		"config-network":  map[string]any{"ingress-class": "traefik.ingress.networking.knative.dev"},
		"config-defaults": map[string]any{"revision-timeout-seconds": "120", "max-revision-timeout-seconds": "700"},
		"config-domain":   map[string]any{"theirs.example.com": "", "eu-1.example.com": ""},
	})
	if err := knative.Withdraw(b.t.Context(), c, "knative-serving", region); err != nil {
		b.t.Fatal(err)
	}
	if _, err := knative.ApplyShared(b.t.Context(), c, "knative-serving", "knative-serving"); err != nil {
		b.t.Fatal(err)
	}
	same(b.t, "the domains without it", fieldOf(b.knativeServing(), "spec", "config", "config-domain"), map[string]any{"theirs.example.com": ""})
	b.untilServing("True", "1.14.1")
}

// brokenIsApplied breaks the Serving, and adopts it: its spec is applied then, what is somebody else's in it stays, and so
// does all of it after a destroy (R98).
func (b *servingBench) brokenIsApplied() {
	b.t.Helper()
	uid := b.knativeServing().GetUID()
	b.kubectl("patch", "knativeserving", "knative-serving", "-n", "knative-serving", "--type=merge", "-p", `{"spec":{"version":"1.99","ingress":null}}`)
	b.untilServing("False", "1.14.1")
	b.serve("adopt = true")
	b.MustApply()
	b.PlanIsEmpty()
	state, live := b.Resource(serving), b.knativeServing()
	same(b.t, "outputs", row(state["version"], state["serving_status"], state["adopted"]), "1.14 ready [operator serving ingress]")
	same(b.t, "what was applied", row(live.GetUID(), fieldOf(live, "spec", "version"), fieldOf(live, "spec", "ingress", "istio", "enabled"), fieldOf(live, "spec", "config", "config-defaults")),
		row(uid, "1.14", false, map[string]any{"revision-timeout-seconds": "120", "max-revision-timeout-seconds": "700"}))
	b.MustDestroy()
	same(b.t, "what is left", row(b.knativeServing().GetUID(), marksOf(b.knativeServing())), row(uid, noMarks))
}
