package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	apitypes "k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/preflight"
	"github.com/berthdev/terraform-provider-berth/internal/priority"
)

type priorityClassModel struct {
	common
	Name             types.String `tfsdk:"name"`
	Value            types.Int64  `tfsdk:"value"`
	PreemptionPolicy types.String `tfsdk:"preemption_policy"`
	Description      types.String `tfsdk:"description"`
	GlobalDefault    types.Bool   `tfsdk:"global_default"`
	UID              types.String `tfsdk:"uid"`
}

func newPriorityClass() resource.Resource {
	return newEnvelope(definition[priorityClassModel, *priorityClassModel]{
		name:   "priority_class",
		schema: priorityClassSchema,
		object: func(m *priorityClassModel) (types.String, types.String) { return types.StringNull(), m.Name },
		// A class that was deleted since the plan is made anew by the apply.
		volatile: []string{"uid"},
		plan:     planPriorityClass,
		create:   applyPriorityClass, read: readPriorityClass, update: applyPriorityClass, remove: removePriorityClass,
		adopt: importPriorityClass,
	})
}

func priorityClassSchema(ctx context.Context) schema.Schema {
	return schema.Schema{
		MarkdownDescription: "A PriorityClass, created or adopted. Destroying it is refused while pods name it, because Kubernetes creates no pod that names a class which does not exist.",
		Attributes: withCommon(ctx, "the PriorityClass", "cluster/name", map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "The name of the PriorityClass. Changing it replaces the class. Names that begin with `system-` are Kubernetes' own and refused.",
				Validators:          []validator.String{dnsSubdomain(), notSystem()},
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
			},
			"value": schema.Int64Attribute{
				Required: true,
				MarkdownDescription: "The priority: the higher, the earlier a pod is scheduled. At most 1000000000; higher values are Kubernetes' own. " +
					"Kubernetes never lets it change, so a change deletes the class and creates it again, which the plan warns of: pods that run keep the value they came with, and pods that name the class are rejected in between. A new name is the safe way.",
				Validators: []validator.Int64{int64validator.Between(-2147483648, priority.HighestUserValue)},
			},
			"preemption_policy": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(priority.PreemptLowerPriority),
				MarkdownDescription: "`PreemptLowerPriority` (default): a pod of this class that finds no room evicts pods of lower priority. `Never`: it waits. Like `value`, a change deletes the class and creates it again.",
				Validators:          []validator.String{stringvalidator.OneOf(priority.PreemptLowerPriority, priority.Never)},
			},
			"description": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "What the class is for. Changed in place.",
				Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
			},
			"global_default": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				MarkdownDescription: "Whether pods that name no class get this one. Default `false`. Changed in place.",
			},
			"uid": schema.StringAttribute{Computed: true, MarkdownDescription: "The UID of the PriorityClass. It changes only when the class is deleted and created again."},
		}),
	}
}

func (m *priorityClassModel) class() priority.Class {
	return priority.Class{
		Name: m.Name.ValueString(), Value: m.Value.ValueInt64(), PreemptionPolicy: m.PreemptionPolicy.ValueString(),
		Description: m.Description.ValueString(), GlobalDefault: m.GlobalDefault.ValueBool(),
	}
}

func (m *priorityClassModel) known() bool {
	return !m.Name.IsUnknown() && !m.Value.IsUnknown() && !m.PreemptionPolicy.IsUnknown() && !m.Description.IsUnknown() && !m.GlobalDefault.IsUnknown()
}

func (m *priorityClassModel) terms(ctx context.Context, call *call[priorityClassModel]) kube.Terms {
	terms := kube.Terms{Owner: call.owner, Adopt: m.Adopt.ValueBool(), AdoptFrom: m.adoptFrom(ctx)}
	if call.state != nil {
		terms.Held, terms.UID = true, apitypes.UID(call.state.UID.ValueString())
	}
	return terms
}

func planPriorityClass(ctx context.Context, call *call[priorityClassModel]) error {
	plan := call.plan
	if !plan.known() {
		// A value that turns out to be another makes another object of the class.
		plan.UID = types.StringUnknown()
		if plan.Name.IsUnknown() {
			return nil
		}
		call.cluster.Plan(cluster.PriorityClasses, "", plan.Name.ValueString())
		call.warn(fmt.Sprintf("The checks of PriorityClass/%s are put off to the apply", plan.Name.ValueString()),
			"A value of the class is not known yet, so it could not be compared with what is on the cluster.")
		return nil
	}
	class := plan.class()
	if call.changing {
		if err := checkClassPermissions(ctx, call); err != nil {
			return err
		}
	}
	if call.changing && (call.state == nil || !call.state.GlobalDefault.ValueBool()) {
		if err := priority.CheckDefault(ctx, call.cluster, class); err != nil {
			return err
		}
	}
	if call.state == nil {
		return planNewPriorityClass(ctx, call, class)
	}
	if !call.changing {
		return nil
	}
	live, err := call.cluster.Live(ctx, cluster.PriorityClasses, "", class.Name)
	if err != nil {
		return err
	}
	if live == nil {
		return nil
	}
	if _, err := kube.Judge(call.cluster, class.Object(), plan.terms(ctx, call), live); err != nil {
		return err
	}
	fixed := class.Fixed(live)
	if len(fixed) == 0 {
		return nil
	}
	if err := priority.CheckRecreate(call.cluster, class, live); err != nil {
		return err
	}
	// What depends on it is to be judged by what it will be.
	call.cluster.Plan(cluster.PriorityClasses, "", class.Name)
	users, err := priority.Users(ctx, call.cluster, class.Name)
	if err != nil {
		return err
	}
	call.warn(fmt.Sprintf("PriorityClass/%s will be deleted and created again", class.Name),
		"Kubernetes never lets this change: %s. Pods that run keep the value they were admitted with (%d name the class now), and pods that name the class are rejected while it is gone. "+
			"The safe way is a class with a new name.", priority.Describe(fixed), len(users))
	return nil
}

// checkClassPermissions refuses what the credential may not do, with the role that grants it. All classes of a process
// share the answers.
func checkClassPermissions(ctx context.Context, call *call[priorityClassModel]) error {
	var needed []cluster.Permission
	for _, verb := range []string{"get", "create", "patch", "delete"} {
		needed = append(needed, cluster.Permission{Verb: verb, Group: cluster.PriorityClasses.Group, Resource: cluster.PriorityClasses.Resource})
	}
	check := preflight.CheckPermissions(ctx, call.cluster, needed)
	switch check.Status {
	case preflight.Fail:
		return &cluster.Problem{
			Summary: fmt.Sprintf("PriorityClass/%s on cluster %q: permissions", call.plan.Name.ValueString(), call.cluster.Name()),
			Detail:  "refusing: " + check.Message + "\n" + nothingApplied + " " + check.Remedy,
		}
	case preflight.Warn:
		call.warn(fmt.Sprintf("PriorityClass/%s on cluster %q: permissions", call.plan.Name.ValueString(), call.cluster.Name()), "%s", check.Detail())
	}
	return nil
}

func planNewPriorityClass(ctx context.Context, call *call[priorityClassModel], class priority.Class) error {
	outlook, err := kube.Check(ctx, call.cluster, class.Object(), call.plan.terms(ctx, call))
	if err != nil {
		return err
	}
	switch outlook.Verdict {
	case kube.Adopt:
		call.warn(fmt.Sprintf("PriorityClass/%s exists and will be adopted", class.Name),
			"It is on %s and keeps its UID.%s Destroying the resource leaves it there.", call.cluster.Context(), changesOf(outlook))
	case kube.Resume:
		warnResume(call.diagnostics, call.cluster, class.Object().Describe())
	}
	call.cluster.Plan(cluster.PriorityClasses, "", class.Name)
	return nil
}

// applyPriorityClass is create and update alike: it makes of whatever is there what shall be.
func applyPriorityClass(ctx context.Context, call *call[priorityClassModel]) error {
	live, err := priority.Apply(ctx, call.cluster, call.plan.class(), call.plan.terms(ctx, call))
	if err != nil {
		return err
	}
	call.plan.fill(ctx, string(live.GetUID()))
	return nil
}

func readPriorityClass(ctx context.Context, call *call[priorityClassModel]) (bool, error) {
	state := call.state
	live, err := call.cluster.Live(ctx, cluster.PriorityClasses, "", state.Name.ValueString())
	if err != nil || live == nil {
		return false, err
	}
	if was := state.UID.ValueString(); was != "" && was != string(live.GetUID()) && kube.Inspect(live, call.owner).Standing != kube.Ours {
		// Somebody else made it after ours was deleted.
		return false, nil
	}
	drift, err := kube.Drift(ctx, call.cluster, call.owner, []kube.Object{state.class().Object()}, call.marked)
	if err != nil {
		return false, err
	}
	if state.Drift, err = driftValue(ctx, drift); err != nil {
		return false, err
	}
	state.fill(ctx, string(live.GetUID()))
	return true, nil
}

func removePriorityClass(ctx context.Context, call *call[priorityClassModel]) error {
	name, keep := call.state.Name.ValueString(), call.state.DeletionPolicy.ValueString() == retain
	live, err := call.cluster.Fetch(ctx, cluster.PriorityClasses, "", name)
	if err != nil || live == nil {
		return err
	}
	terms := kube.Terms{Owner: call.owner, Held: call.marked, UID: apitypes.UID(call.state.UID.ValueString())}
	replaced := call.cluster.TakenByOther(ctx, cluster.PriorityClasses, "", name, call.owner.String())
	if !keep && !replaced && kube.Created(live) && terms.Ours(live) {
		if err := priority.CheckUnused(ctx, call.cluster, name); err != nil {
			return err
		}
	}
	removal, err := kube.Remove(ctx, call.cluster, cluster.PriorityClasses, "", name, terms, keep)
	if err != nil {
		return err
	}
	warnStays(call.diagnostics, removal, kube.Name("PriorityClass", "", name), call.cluster)
	return nil
}

func importPriorityClass(ctx context.Context, call *call[priorityClassModel]) (bool, error) {
	live, err := call.cluster.Live(ctx, cluster.PriorityClasses, "", call.state.Name.ValueString())
	if err != nil || live == nil {
		return false, err
	}
	class := priority.FromLive(live)
	call.state.Value = types.Int64Value(class.Value)
	call.state.PreemptionPolicy = types.StringValue(class.PreemptionPolicy)
	call.state.GlobalDefault = types.BoolValue(class.GlobalDefault)
	call.state.Description = optionalString(class.Description)
	return true, nil
}

func (m *priorityClassModel) fill(ctx context.Context, uid string) {
	m.UID = types.StringValue(uid)
	m.setConditions(ctx, map[string]condition{"Ready": {Status: "True", Reason: "Exists", Message: "The PriorityClass is on the cluster."}})
}
