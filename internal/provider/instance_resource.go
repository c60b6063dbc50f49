package provider

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	apitypes "k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/instance"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/preflight"
)

func newInstance() resource.Resource {
	return newEnvelope(definition[instanceModel, *instanceModel]{
		name:     "instance",
		schema:   instanceSchema,
		object:   func(m *instanceModel) (types.String, types.String) { return m.Namespace, m.Name },
		knobs:    []string{"force_destroy", "remove_operator", "preflight"},
		volatile: movingOutputs,
		plan:     planInstance, planDelete: planDeleteInstance,
		create: convergeInstance, read: readInstance, update: convergeInstance, remove: removeInstance,
		adopt: importInstance,
	})
}

// movingOutputs are the outputs that follow from what moves on the cluster by itself: its nodes first of all.
var movingOutputs = []string{
	"conditions", "operator_version", "kubernetes_version", "created_namespace", "namespace_uid", "effective_platforms", "content_hash",
	"sandbox_nodes", "excluded_nodes", "schedulable_nodes", "skipped_architectures",
}

func (m *instanceModel) terms(ctx context.Context, owner kube.Owner) kube.Terms {
	return kube.Terms{Owner: owner, Adopt: m.Adopt.ValueBool(), AdoptFrom: m.adoptFrom(ctx)}
}

// held is the Spec that the state holds, nil at a create.
func held(ctx context.Context, call *call[instanceModel]) *instance.Spec {
	if call.state == nil {
		return nil
	}
	spec := call.state.spec(ctx, stringList(ctx, call.state.EffectivePlatforms))
	spec.NamespaceUID = apitypes.UID(call.state.NamespaceUID.ValueString())
	return &spec
}

func planInstance(ctx context.Context, call *call[instanceModel]) error {
	plan := call.plan
	if call.stateOnly {
		warnUnready(ctx, call)
		return nil
	}
	if call.config.Namespace.IsNull() && call.state == nil {
		plan.Namespace = plan.Name
	}
	if call.state != nil && (!plan.Name.Equal(call.state.Name) || !plan.Namespace.Equal(call.state.Namespace)) {
		return planReplacedInstance(ctx, call)
	}
	if !plan.known(ctx) {
		return planUnknownInstance(ctx, call)
	}
	spec := plan.spec(ctx, nil)
	inUse := platformsInUse(ctx, call)
	platforms, err := spec.PlatformsOf(ctx, call.cluster, inUse)
	if err != nil {
		return err
	}
	spec.Platforms = platforms
	if !call.changing && call.state.ContentHash.ValueString() != spec.ContentHash() {
		call.changing = true
		openOutputsNamed(plan, movingOutputs)
		if grown := instance.Union(inUse, platforms); len(grown) > len(inUse) {
			call.warn(fmt.Sprintf("The platforms of instance %q on cluster %q grow", plan.Name.ValueString(), call.cluster.Name()),
				"Its nodes are of more platforms now than are in use: %s becomes %s.", strings.Join(inUse, ", "), strings.Join(grown, ", "))
		}
	}
	plan.setDerived(ctx, spec)
	if !call.changing {
		warnUnready(ctx, call)
		return nil
	}
	if spec.Derived {
		// Which nodes there will be at the apply is not known.
		openOutputsNamed(plan, []string{"effective_platforms", "content_hash"})
	} else {
		plan.setNodes(ctx, instance.NodesSeen{})
	}
	if spec.Operator == nil {
		plan.OperatorVersion = types.StringNull()
	}
	findings, err := spec.Check(ctx, call.cluster, plan.terms(ctx, call.owner), held(ctx, call), plan.tests(ctx))
	warnChecks(call.diagnostics, call.cluster, plan.Name.ValueString(), findings.Warnings)
	if err != nil {
		return err
	}
	call.cluster.Plan(cluster.Namespaces, "", spec.Namespace)
	if call.state == nil {
		planNewInstance(call, spec, findings)
	}
	return nil
}

// platformsInUse are those that the state's apply read from the nodes, to which others are added.
func platformsInUse(ctx context.Context, call *call[instanceModel]) []string {
	if call.state == nil || !call.state.Platforms.IsNull() {
		return nil
	}
	return stringList(ctx, call.state.EffectivePlatforms)
}

// warnUnready says of an instance that the plan leaves as it is what keeps it from being ready.
func warnUnready(ctx context.Context, call *call[instanceModel]) {
	conditions := map[string]condition{}
	// The element type is that of the schema, so the conversion cannot fail.
	call.state.Conditions.ElementsAs(ctx, &conditions, false)
	if ready, seen := conditions["Ready"]; seen && ready.Status != "True" {
		call.warn(fmt.Sprintf("Instance %q on cluster %q is not ready", call.state.Name.ValueString(), call.cluster.Name()), "%s", ready.Message)
	}
}

// warnForeign says what a destroy would be refused for. It is no error at plan: what depends on the instance, such as a
// Secret in its namespace, may be destroyed before it in the same run.
func warnForeign(ctx context.Context, call *call[instanceModel], spec *instance.Spec, removal instance.Removal) error {
	foreign, err := spec.Foreign(ctx, call.cluster, removal)
	if len(foreign) > 0 {
		call.warn(spec.Left(), "Namespace %q on %s has %d object(s) that berth did not create: %s. The destroy will be refused unless they are gone by then. %s",
			spec.Namespace, call.cluster.Context(), len(foreign), strings.Join(foreign, ", "), instance.WaysOut)
	}
	return err
}

// planReplacedInstance checks the first half of a replacement, which no other call does: what is there has to go. The
// create that follows it is planned by a call of its own.
func planReplacedInstance(ctx context.Context, call *call[instanceModel]) error {
	before := held(ctx, call)
	removal := call.state.removal(before.Owner(call.cluster.Owner()), call.marked)
	if err := warnForeign(ctx, call, before, removal); err != nil {
		return err
	}
	before.PlanRemoval(call.cluster)
	if !removal.Retain && call.state.CreatedNamespace.ValueBool() {
		call.cluster.PlanRemoval(cluster.Namespaces, "", before.Namespace)
	}
	return nil
}

// planNewInstance says what a create will find, and fills in what only the cluster knows.
func planNewInstance(call *call[instanceModel], spec instance.Spec, findings instance.Findings) {
	call.plan.Context, call.plan.Server = types.StringValue(call.cluster.Context()), types.StringValue(call.cluster.Server())
	switch findings.Outlook.Verdict {
	case kube.Adopt:
		call.warn(fmt.Sprintf("Namespace %q exists and will be adopted", spec.Namespace),
			"It is on %s and keeps its UID.%s Destroying the instance leaves it there.", call.cluster.Context(), changesOf(findings.Outlook))
	case kube.Resume:
		warnResume(call.diagnostics, call.cluster, kube.Name("Namespace", "", spec.Namespace))
	}
}

// planUnknownInstance checks what can be checked while arguments are unknown, and says what could not.
func planUnknownInstance(ctx context.Context, call *call[instanceModel]) error {
	plan := call.plan
	call.warn(fmt.Sprintf("Checks of instance %q on cluster %q are put off to the apply", plan.Name.ValueString(), call.cluster.Name()),
		"Some of its arguments are not known yet. Permissions, nodes, platforms, sizes, priorities, Secrets and quota were not checked; the apply checks them before it writes anything.")
	openOutputsNamed(plan, movingOutputs)
	openOutputsNamed(plan, []string{"image_refs", "kit_images", "effective_priority_classes"})
	if plan.Name.IsUnknown() || plan.Namespace.IsUnknown() || plan.KubernetesFloor.IsUnknown() {
		return nil
	}
	call.cluster.Plan(cluster.Namespaces, "", plan.Namespace.ValueString())
	place := instance.Spec{Name: plan.Name.ValueString(), Namespace: plan.Namespace.ValueString(), KubernetesFloor: plan.KubernetesFloor.ValueString()}
	return place.CheckPlace(ctx, call.cluster, plan.terms(ctx, call.owner), held(ctx, call))
}

func planDeleteInstance(ctx context.Context, call *call[instanceModel]) error {
	before, removal := held(ctx, call), call.state.removal(call.owner, call.marked)
	warnings, err := before.WarnLeaving(ctx, call.cluster, removal)
	warnChecks(call.diagnostics, call.cluster, before.Name, warnings)
	if err != nil {
		return err
	}
	return warnForeign(ctx, call, before, removal)
}

// convergeInstance repeats the checks of the plan before the first write, and then makes the instance what the plan
// says. Platforms that the plan knew are kept, whatever nodes came or went since.
func convergeInstance(ctx context.Context, call *call[instanceModel]) error {
	platforms := stringList(ctx, call.plan.EffectivePlatforms)
	plan, before := call.plan, held(ctx, call)
	if plan.Namespace.IsUnknown() {
		// The plan knew neither the cluster nor, perhaps, the name.
		plan.Namespace = plan.Name
	}
	spec := plan.spec(ctx, platforms)
	if platforms == nil {
		var err error
		if spec.Platforms, err = spec.PlatformsOf(ctx, call.cluster, platformsInUse(ctx, call)); err != nil {
			return err
		}
	}
	terms := plan.terms(ctx, call.owner)
	findings, err := spec.Check(ctx, call.cluster, terms, before, plan.tests(ctx))
	if findings.Outlook.Verdict == kube.Create {
		// They are looked for when the namespace is there.
		findings.Warnings = slices.DeleteFunc(findings.Warnings, func(check preflight.Check) bool { return strings.HasPrefix(check.Name, "secrets/") })
	}
	warnChecks(call.diagnostics, call.cluster, spec.Name, findings.Warnings)
	if err != nil {
		return err
	}
	outcome, err := spec.Converge(ctx, call.cluster, terms, before, plan.tests(ctx))
	warnChecks(call.diagnostics, call.cluster, spec.Name, outcome.Warnings)
	if err != nil {
		return err
	}
	plan.setDerived(ctx, spec)
	if plan.CreatedNamespace.IsUnknown() {
		plan.CreatedNamespace = types.BoolValue(kube.Created(outcome.Namespace))
	}
	if plan.NamespaceUID.IsUnknown() {
		plan.NamespaceUID = types.StringValue(string(outcome.Namespace.GetUID()))
	}
	return observeInstance(ctx, call, plan, spec)
}

// observeInstance fills the outputs that are seen on the cluster. What the plan promised already is kept: the next
// refresh brings it up to date.
func observeInstance(ctx context.Context, call *call[instanceModel], model *instanceModel, spec instance.Spec) error {
	seen, err := spec.Observe(ctx, call.cluster)
	if err != nil {
		return err
	}
	promised := *model
	model.setObserved(ctx, seen)
	model.Context, model.Server = types.StringValue(call.cluster.Context()), types.StringValue(call.cluster.Server())
	if model == call.plan {
		keepPromises(&promised, model)
	}
	return nil
}

func readInstance(ctx context.Context, call *call[instanceModel]) (bool, error) {
	state := call.state
	spec := *held(ctx, call)
	live, err := spec.Live(ctx, call.cluster, call.owner)
	if err != nil {
		return false, err
	}
	if live == nil {
		if shares, err := spec.Shares(ctx, call.cluster, call.owner); err != nil || !shares {
			return false, err
		}
	} else {
		state.CreatedNamespace, state.NamespaceUID = types.BoolValue(kube.Created(live)), types.StringValue(string(live.GetUID()))
	}
	drift, err := spec.Drift(ctx, call.cluster, call.owner, call.marked)
	if err != nil {
		return false, err
	}
	if state.Drift, err = driftValue(ctx, drift); err != nil {
		return false, err
	}
	return true, observeInstance(ctx, call, state, spec)
}

func (m *instanceModel) removal(owner kube.Owner, marked bool) instance.Removal {
	return instance.Removal{
		Owner: owner, Held: marked, Retain: m.DeletionPolicy.ValueString() == retain,
		Force: m.ForceDestroy.ValueBool(), RemoveOperator: m.RemoveOperator.ValueBool(),
	}
}

func removeInstance(ctx context.Context, call *call[instanceModel]) error {
	stays, err := held(ctx, call).Remove(ctx, call.cluster, call.state.removal(call.owner, call.marked))
	if len(stays) > 0 {
		call.warn(fmt.Sprintf("Something of instance %q stays on cluster %q", call.state.Name.ValueString(), call.cluster.Name()), "%s.", strings.Join(stays, ".\n"))
	}
	return err
}

func importInstance(ctx context.Context, call *call[instanceModel]) (bool, error) {
	spec, found, err := instance.Find(ctx, call.cluster, call.state.Name.ValueString())
	if err != nil || !found {
		return false, err
	}
	call.state.setArguments(ctx, spec)
	call.state.setDerived(ctx, spec)
	return true, nil
}

// warnChecks shows what checks warn of, each under a summary of its own, because the runners fold equal ones together.
func warnChecks(diagnostics *diag.Diagnostics, c *cluster.Cluster, name string, checks []preflight.Check) {
	for _, check := range checks {
		diagnostics.AddWarning(fmt.Sprintf("Instance %q on cluster %q: %s", name, c.Name(), check.Name), check.Detail())
	}
}
