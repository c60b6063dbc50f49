package provider

import (
	"context"
	"reflect"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/enroll"
)

// schedulingOf is what an argument `scheduling` says; every value in it is known.
func schedulingOf(ctx context.Context, value types.Object) enroll.Scheduling {
	model := schedulingFrom(value)
	scheduling := enroll.Scheduling{
		Preset: model.Preset.ValueString(), Quotas: stringMap(ctx, model.Quotas),
		Flavor: model.Flavor.ValueString(), ClusterQueue: model.ClusterQueue.ValueString(), LocalQueue: model.LocalQueue.ValueString(),
	}
	var overlays []overlayModel
	// The element type is the schema's own, so the conversion cannot fail.
	model.Overlays.ElementsAs(ctx, &overlays, false)
	for _, one := range overlays {
		scheduling.Overlays = append(scheduling.Overlays, enroll.Overlay{Kind: one.Kind.ValueString(), Name: one.Name.ValueString(), Patch: one.Patch.ValueString()})
	}
	return scheduling.WithDefaults()
}

// schedulingFrom reads the argument of a hub or, without local_queue, of a worker.
func schedulingFrom(value types.Object) schedulingModel {
	model := schedulingModel{Quotas: types.MapNull(types.StringType), Overlays: types.ListNull(overlayType)}
	for name, attribute := range value.Attributes() {
		switch value := attribute.(type) {
		case types.Map:
			model.Quotas = value
		case types.List:
			model.Overlays = value
		case types.String:
			*map[string]*types.String{
				"preset": &model.Preset, "flavor": &model.Flavor, "cluster_queue": &model.ClusterQueue, "local_queue": &model.LocalQueue,
			}[name] = value
		}
	}
	return model
}

// schedulingValue is the argument that says a Scheduling in the fewest words.
func schedulingValue(ctx context.Context, scheduling enroll.Scheduling, attributes map[string]attr.Type) types.Object {
	usual := enroll.Scheduling{}.WithDefaults()
	text := func(value, usual string) types.String {
		if value == usual {
			return types.StringNull()
		}
		return optionalString(value)
	}
	var overlays []overlayModel
	for _, one := range scheduling.Overlays {
		overlays = append(overlays, overlayModel{Kind: types.StringValue(one.Kind), Name: optionalString(one.Name), Patch: types.StringValue(one.Patch)})
	}
	values := map[string]attr.Value{
		"preset": text(scheduling.Preset, usual.Preset), "quotas": mapValue(ctx, types.StringType, scheduling.Quotas),
		"flavor": text(scheduling.Flavor, usual.Flavor), "cluster_queue": text(scheduling.ClusterQueue, usual.ClusterQueue),
		"overlays": listValue(ctx, overlayType, overlays),
	}
	if _, hub := attributes["local_queue"]; hub {
		values["local_queue"] = text(scheduling.LocalQueue, usual.LocalQueue)
	}
	return types.ObjectValueMust(attributes, values)
}

// settleScheduling is the state's `scheduling` where the plan's says the same in other words.
func settleScheduling(ctx context.Context, plan, state types.Object) types.Object {
	if hasUnknown(ctx, plan) || state.IsNull() || !reflect.DeepEqual(schedulingOf(ctx, plan), schedulingOf(ctx, state)) {
		return plan
	}
	return state
}

// schedulingObjects is the output `scheduling_objects`.
func schedulingObjects(objects []enroll.SchedulingObject) types.List {
	values := []attr.Value{}
	for _, one := range objects {
		values = append(values, types.ObjectValueMust(schedulingObjectType.AttrTypes, map[string]attr.Value{
			"kind": types.StringValue(one.Kind), "namespace": optionalString(one.Namespace), "name": types.StringValue(one.Name),
			"uid": optionalString(one.UID), "state": types.StringValue(one.State),
		}))
	}
	return types.ListValueMust(schedulingObjectType, values)
}
