package provider

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/enroll"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

type hubModel struct {
	common
	TenantNamespace    types.String `tfsdk:"tenant_namespace"`
	WorkloadNamespaces types.List   `tfsdk:"workload_namespaces"`
	Frameworks         types.List   `tfsdk:"frameworks"`
	KueueNamespace     types.String `tfsdk:"kueue_namespace"`
	Scheduling         types.Object `tfsdk:"scheduling"`

	Origin            types.String `tfsdk:"origin"`
	AdmissionCheck    types.String `tfsdk:"admission_check"`
	MultiKueueConfig  types.String `tfsdk:"multikueue_config"`
	KueueVersion      types.String `tfsdk:"kueue_version"`
	JobSetVersion     types.String `tfsdk:"jobset_version"`
	Workers           types.List   `tfsdk:"workers"`
	SchedulingObjects types.List   `tfsdk:"scheduling_objects"`
}

// defaultFrameworks is what Kueue itself has on.
var defaultFrameworks = []string{"batch/job"}

// unknown names the arguments whose value is not known yet.
func (m *hubModel) unknown(ctx context.Context) []string {
	return unknownNames(ctx, map[string]attr.Value{
		"tenant_namespace": m.TenantNamespace, "workload_namespaces": m.WorkloadNamespaces, "frameworks": m.Frameworks, "kueue_namespace": m.KueueNamespace,
		"scheduling": m.Scheduling, "adopt": m.Adopt, "adopt_from": m.AdoptFrom,
	})
}

// spec is what the model describes; every argument is known.
func (m *hubModel) spec(ctx context.Context) enroll.HubSpec {
	spec := enroll.HubSpec{
		Tenant: m.TenantNamespace.ValueString(), WorkloadNamespaces: stringList(ctx, m.WorkloadNamespaces), Frameworks: stringList(ctx, m.Frameworks),
		KueueNamespace: m.KueueNamespace.ValueString(), Scheduling: schedulingOf(ctx, m.Scheduling),
	}
	if spec.WorkloadNamespaces == nil {
		spec.WorkloadNamespaces = []string{spec.Tenant}
	}
	if spec.Frameworks == nil {
		spec.Frameworks = defaultFrameworks
	}
	return spec
}

func (m *hubModel) terms(ctx context.Context, call *call[hubModel]) kube.Terms {
	return kube.Terms{Owner: call.owner, Adopt: m.Adopt.ValueBool(), AdoptFrom: m.adoptFrom(ctx), Held: call.state != nil}
}

// fill fills in the outputs that follow from the arguments alone.
func (m *hubModel) fill(spec enroll.HubSpec) {
	m.AdmissionCheck, m.MultiKueueConfig = types.StringValue(spec.Name()), types.StringValue(spec.Name())
}

// observe fills in the outputs that are seen.
func (m *hubModel) observe(ctx context.Context, seen *enroll.HubSeen) {
	m.Origin, m.KueueVersion, m.JobSetVersion = optionalString(seen.Origin), optionalString(seen.Kueue), optionalString(seen.JobSet)
	m.Workers, m.SchedulingObjects = namesValue(ctx, seen.Members), schedulingObjects(seen.Objects)
	m.setConditions(ctx, conditionsOf(seen.Conditions))
}

// importArguments fills in the arguments as a record has them, in the fewest words.
func (m *hubModel) importArguments(ctx context.Context, record *enroll.HubRecord) {
	m.WorkloadNamespaces, m.Frameworks = types.ListNull(types.StringType), types.ListNull(types.StringType)
	if !slices.Equal(record.WorkloadNamespaces, []string{record.Tenant}) {
		m.WorkloadNamespaces = namesValue(ctx, record.WorkloadNamespaces)
	}
	if !slices.Equal(record.Frameworks, defaultFrameworks) {
		m.Frameworks = namesValue(ctx, record.Frameworks)
	}
	m.KueueNamespace, m.Scheduling = types.StringValue(record.KueueNamespace), schedulingValue(ctx, record.Scheduling, hubSchedulingTypes)
}

// conditionsOf are conditions as a model has them.
func conditionsOf(seen map[string]enroll.Condition) map[string]condition {
	conditions := map[string]condition{}
	for name, one := range seen {
		conditions[name] = condition{Status: one.Status, Reason: one.Reason, Message: one.Message}
	}
	return conditions
}
