package provider

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/chart"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/knative"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

func newKnativeServing() resource.Resource {
	return newEnvelope(definition[knativeServingModel, *knativeServingModel]{
		name:       "knative_serving",
		schema:     knativeServingSchema,
		object:     func(m *knativeServingModel) (types.String, types.String) { return m.Namespace, m.Name },
		namespaced: true,
		knobs:      []string{"min_kubernetes_minor", "remove_traefik", "force_destroy", "crds_source", "operator.repository", "ingress.repository", "ingress.address_timeout"},
		volatile:   movingServingOutputs,
		settle:     settleKnativeServing,
		plan:       planKnativeServing, planDelete: planDeleteKnativeServing,
		create: applyKnativeServing, read: readKnativeServing, update: applyKnativeServing, remove: removeKnativeServing,
		adopt: importKnativeServing,
	})
}

// movingServingOutputs are the outputs that an apply may change.
var movingServingOutputs = []string{
	"installed_version", "operator_version", "operator_status", "serving_status", "ingress_class", "external_address", "adopted", "regions", "steps", "conditions",
}

// knativeCharts are the provider's charts as the domain wants them.
type knativeCharts struct{ *charts }

// Load is part of knative.Charts.
func (k knativeCharts) Load(ctx context.Context, ref chart.Ref) (chart.Chart, error) {
	loaded, missing, err := k.load(ctx, ref)
	if missing != "" {
		return loaded, &knative.PutOff{What: "the provider's " + missing}
	}
	return loaded, err
}

// Versions is part of knative.Charts.
func (k knativeCharts) Versions(ctx context.Context, ref chart.Ref) ([]string, error) {
	if missing := k.missing(ref); missing != "" {
		return nil, &knative.PutOff{What: "the provider's " + missing}
	}
	return k.Source.Versions(ctx, ref)
}

func planKnativeServing(ctx context.Context, call *call[knativeServingModel]) error {
	plan := call.plan
	if call.stateOnly || !call.changing {
		return nil
	}
	if call.state != nil {
		if err := refuseMove(ctx, call); err != nil {
			return err
		}
	}
	if call.replaced {
		// What there is goes first; what comes is checked by the call that creates it.
		return nil
	}
	if unknown := plan.unknown(ctx, call.config); len(unknown) > 0 {
		putOffServing(call, strings.Join(unknown, ", ")+" is not known yet")
		return nil
	}
	spec, err := plan.spec(ctx)
	if err != nil {
		return err
	}
	outlook, err := knative.Plan(ctx, call.cluster, spec, knativeCharts{call.charts}, plan.terms(ctx, call))
	if put, off := errors.AsType[*knative.PutOff](err); off {
		putOffServing(call, put.Error())
		return nil
	}
	call.warnings(outlook.Warnings)
	if err != nil {
		return err
	}
	plan.Version = types.StringValue(outlook.Version)
	if outlook.Moves() {
		// Not as the output's value: the operator works by itself, so that the steps may be other ones a moment later, which
		// the runner would take for a fault.
		lines := make([]string, 0, len(outlook.Steps))
		for i, text := range outlook.Steps {
			lines = append(lines, fmt.Sprintf("%d. %s", i+1, text))
		}
		call.warn(fmt.Sprintf("What the apply does to Serving on cluster %q", call.cluster.Name()), "%s", strings.Join(lines, "\n"))
	}
	return nil
}

// settleKnativeServing keeps arguments that say the same in other words: of the state, an import has read them as they are
// on the cluster.
func settleKnativeServing(ctx context.Context, call *call[knativeServingModel]) error {
	plan, state := call.plan, call.state
	if now, set := objectAs[servingOperatorModel](ctx, plan.Operator); set && !hasUnknown(ctx, plan.Operator) {
		was, _ := objectAs[servingOperatorModel](ctx, state.Operator)
		installed := state.OperatorVersion.ValueString()
		if was.ChartVersion.IsNull() && strings.TrimPrefix(now.ChartVersion.ValueString(), "v") == installed && installed != "" {
			now.ChartVersion = types.StringNull()
			if now == was {
				plan.Operator = state.Operator
			}
		}
	}
	if now, set := objectAs[ingressModel](ctx, plan.Ingress); set && !hasUnknown(ctx, plan.Ingress) {
		was, _ := objectAs[ingressModel](ctx, state.Ingress)
		if reflect.DeepEqual(now.plain(ctx), was.plain(ctx)) {
			plan.Ingress = state.Ingress
		}
	}
	return nil
}

// refuseMove refuses to put Serving somewhere else: nothing that runs on it could come along.
func refuseMove(ctx context.Context, call *call[knativeServingModel]) error {
	plan, state := call.plan, call.state
	if uid, err := call.cluster.UID(ctx); err != nil || uid != state.ClusterUID.ValueString() {
		return err // it goes from another cluster, and is made anew on this one
	}
	now, _ := objectAs[servingOperatorModel](ctx, plan.Operator)
	was, _ := objectAs[servingOperatorModel](ctx, state.Operator)
	for _, one := range []struct {
		attribute string
		now, was  types.String
	}{{"namespace", plan.Namespace, state.Namespace}, {"name", plan.Name, state.Name}, {"operator.namespace", now.Namespace, was.Namespace}} {
		if one.now.Equal(one.was) || one.now.IsUnknown() || one.was.IsNull() {
			continue
		}
		return &cluster.Problem{
			Attribute: one.attribute, Summary: fmt.Sprintf("Serving on cluster %q cannot move to another %s", call.cluster.Name(), one.attribute),
			Detail: fmt.Sprintf("refusing: it is %q, and %q is asked for. A cluster has one Serving and one operator, and what runs on them would not come along. Nothing was applied. Set `%s` back, or destroy the resource first and create it anew.",
				one.was.ValueString(), one.now.ValueString(), one.attribute),
		}
	}
	return nil
}

func putOffServing(call *call[knativeServingModel], why string) {
	if call.plan.Version.IsNull() {
		call.plan.Version = types.StringUnknown()
	}
	call.warn(fmt.Sprintf("The checks of berth_knative_serving on cluster %q are put off to the apply", call.cluster.Name()),
		"Because %s, this plan could not settle versions and charts, nor look at whose the parts are. The apply does so before it writes anything.", why)
}

// applyKnativeServing is create and update alike: it makes of whatever is there what shall be.
func applyKnativeServing(ctx context.Context, call *call[knativeServingModel]) error {
	plan := call.plan
	spec, err := plan.spec(ctx)
	if err != nil {
		return err
	}
	seen, warnings, err := knative.Apply(ctx, call.cluster, spec, knativeCharts{call.charts}, plan.terms(ctx, call))
	call.warnings(warnings)
	if err != nil {
		return err
	}
	promised := *plan
	plan.observe(ctx, &seen)
	plan.Steps = namesValue(ctx, seen.Steps)
	keepPromises(&promised, plan)
	return nil
}

func readKnativeServing(ctx context.Context, call *call[knativeServingModel]) (bool, error) {
	state := call.state
	spec, err := state.spec(ctx)
	if err != nil {
		return false, err
	}
	terms := state.terms(ctx, call)
	terms.Held = call.marked
	seen, err := knative.Read(ctx, call.cluster, spec, terms, call.marked)
	if err != nil || seen == nil {
		return false, err
	}
	if changed := knative.AddressChanged(call.cluster, state.address(ctx), seen.Address); changed != nil {
		call.diagnostics.AddWarning(changed.Summary, changed.Detail)
	}
	state.observe(ctx, seen)
	if state.Steps.IsNull() {
		state.Steps = namesValue(ctx, nil)
	}
	state.Drift = stringsValue(seen.Drift)
	call.warnings(seen.Warnings)
	return true, nil
}

func (m *knativeServingModel) removal(ctx context.Context, call *call[knativeServingModel]) knative.Removal {
	terms := m.terms(ctx, call)
	terms.Held = call.marked
	return knative.Removal{
		Terms: terms, Retain: m.DeletionPolicy.ValueString() == retain,
		RemoveTraefik: m.RemoveTraefik.ValueBool(), Force: m.ForceDestroy.ValueBool(),
	}
}

func planDeleteKnativeServing(ctx context.Context, call *call[knativeServingModel]) error {
	spec, err := call.state.spec(ctx)
	if err != nil {
		return err
	}
	warnings, err := knative.PlanRemoval(ctx, call.cluster, spec, call.state.removal(ctx, call))
	call.warnings(warnings)
	return err
}

func removeKnativeServing(ctx context.Context, call *call[knativeServingModel]) error {
	spec, err := call.state.spec(ctx)
	if err != nil {
		return err
	}
	warnings, err := knative.Remove(ctx, call.cluster, spec, call.state.removal(ctx, call))
	call.warnings(warnings)
	return err
}

// importKnativeServing fills in the arguments as a configuration has them that says no more than what is there.
func importKnativeServing(ctx context.Context, call *call[knativeServingModel]) (bool, error) {
	state := call.state
	namespace, err := knative.FindOperator(ctx, call.cluster)
	if err != nil {
		return false, err
	}
	if namespace == "" {
		namespace = operatorNamespace
	}
	state.Operator = operatorValue(namespace, knative.OperatorRepository, "")
	state.CRDsSource = types.StringValue(knative.CRDsOfRelease)
	state.MinKubernetesMinor = types.Int64Value(knative.MinKubernetesMinor)
	state.RemoveTraefik, state.ForceDestroy = types.BoolValue(false), types.BoolValue(false)
	ingress := ingressModel{
		Enabled: types.BoolValue(false), Repository: types.StringValue(knative.TraefikRepository), ChartVersion: types.StringValue(knative.TraefikChartVersion),
		TrustedIPs: types.ListNull(types.StringType), ServiceAnnotations: types.MapNull(types.StringType), AddressTimeout: types.StringValue(defaultAddressTimeout),
	}
	state.Ingress = ingressValue(ctx, ingress)
	spec, err := state.spec(ctx)
	if err != nil {
		return false, err
	}
	seen, err := knative.Read(ctx, call.cluster, spec, kube.Terms{Owner: call.owner}, false)
	if err != nil || seen == nil {
		return false, err
	}
	asked, err := knative.ReadIngress(ctx, call.cluster, spec)
	if err != nil {
		return false, err
	}
	if asked != nil {
		ingress.Enabled, ingress.ChartVersion, ingress.Image = types.BoolValue(true), types.StringValue(asked.ChartVersion), optionalString(asked.Image)
		ingress.TrustedIPs = listValue(ctx, types.StringType, asked.TrustedIPs)
		ingress.ServiceAnnotations = mapValue(ctx, types.StringType, asked.ServiceAnnotations)
		state.Ingress = ingressValue(ctx, ingress)
	}
	state.Version = optionalString(seen.Version)
	return true, nil
}
