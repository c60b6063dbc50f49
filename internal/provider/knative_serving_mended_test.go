package provider_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/knative"
)

// What users do to Serving in the course of time, with CRDs that the operator brings: it cannot move, its operator never
// goes back although its Deployment is gone, an owner that was renamed destroys it whole, one whose operator somebody
// uninstalled is made anew, and what was retained is adopted again without a change to its spec (R98, R105, X7, X8).
func TestKnativeServingInTime_R98_R105_X8(t *testing.T) {
	t.Parallel()
	c := servingCluster(t, fleettest.LoadBalancerIP)
	b := newServingBench(t, c, unique("before"))
	b.crds = "operator"
	b.serve(`version = "1.14"`, `operator = { chart_version = "1.15.2" }`)
	b.MustApply()
	b.PlanIsEmpty()
	same(t, "operator", b.Resource(serving)["operator_version"], "1.15.2")

	for attribute, argument := range map[string]string{"name": `name = "other"`, "namespace": `namespace = "other"`, "operator.namespace": `operator = { namespace = "other" }`} {
		b.serve(`version = "1.14"`, argument)
		b.Plan().Error(t, `^Serving on cluster "shared" cannot move to another `+strings.ReplaceAll(attribute, ".", `\.`)+`$`, `^refusing: it is .*, and "other" is asked for\..* Nothing was applied\. Set .* back, or destroy the resource first`)
	}
	b.kubectl("delete", "deployment", "knative-operator", "-n", "knative-operator")
	b.serve(`version = "1.14"`, `operator = { chart_version = "1.15.1" }`)
	b.Plan().Error(t, `^The Knative operator is never downgraded$`, `version 1\.15\.2 runs on serving, and operator\.chart_version is 1\.15\.1\. Nothing was applied`)
	b.serve(`version = "1.14"`)
	b.MustApply()
	b.PlanIsEmpty()
	same(t, "operator after the repair", b.Resource(serving)["operator_version"], "1.15.2")

	// Another `owner`, and a destroy without an apply in between: what the state holds is ours by proof.
	after := newServingBench(t, c, unique("after"))
	b.block, b.owner = after.block, after.owner
	b.serve(`version = "1.14"`)
	b.MustDestroy()
	b.nothingLeft()

	// Its operator is uninstalled by somebody, and its CRD with all KnativeServings.
	b.serve(`version = "1.15"`)
	b.MustApply()
	b.kubectl("delete", "crd", "knativeservings.operator.knative.dev", "--wait=false")
	b.kubectl("delete", "deployment", "knative-operator", "-n", "knative-operator")
	b.kubectl("patch", "knativeserving", "knative-serving", "-n", "knative-serving", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	b.crdGone("knativeservings.operator.knative.dev")
	same(t, "drift without the CRD", b.MustPlan().Change(t, serving).Before["drift"].(map[string]any)["KnativeServing/knative-serving/knative-serving"], "missing → present")
	b.MustApply()
	b.PlanIsEmpty()

	// Retained, and adopted by another state.
	b.serve(`version = "1.15"`, `deletion_policy = "retain"`)
	b.MustApply()
	b.MustDestroy()
	left := b.knativeServing()
	same(t, "marks of what is left", marksOf(left), noMarks)
	again := newServingBench(t, c, unique("again"))
	again.serve("adopt = true")
	again.MustApply()
	again.PlanIsEmpty()
	now := again.knativeServing()
	same(t, "the spec of what was adopted", row(now.GetUID(), now.Object["spec"]), row(left.GetUID(), left.Object["spec"]))
	same(t, "adopted", again.Resource(serving)["adopted"], "[operator serving ingress]")
	again.MustDestroy()
	same(t, "marks after the destroy", marksOf(again.knativeServing()), noMarks)
}

// crdGone waits until a CRD is gone.
func (b *servingBench) crdGone(name string) {
	b.t.Helper()
	fleettest.Eventually(b.t, func(ctx context.Context) error {
		_, err := b.cluster.Dynamic().Resource(knative.CRDs.GVR()).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("%s is still there", name)
		}
		return err
	})
}
