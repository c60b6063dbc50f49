package provider

import (
	"context"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/enroll"
)

func newHub() resource.Resource {
	return newEnvelope(definition[hubModel, *hubModel]{
		name:          "hub",
		schema:        hubSchema,
		object:        func(m *hubModel) (types.String, types.String) { return types.StringNull(), m.TenantNamespace },
		nameAttribute: "tenant_namespace",
		volatile:      movingHubOutputs,
		settle:        settleHub,
		plan:          planHub, planDelete: planDeleteHub,
		create: applyHub, read: readHub, update: applyHub, remove: removeHub,
		adopt: importHub,
	})
}

// movingHubOutputs are the outputs that follow from what moves by itself.
var movingHubOutputs = []string{"origin", "kueue_version", "jobset_version", "workers", "scheduling_objects", "conditions"}

// settleHub keeps arguments that say the same in other words.
func settleHub(ctx context.Context, call *call[hubModel]) error {
	call.plan.Scheduling = settleScheduling(ctx, call.plan.Scheduling, call.state.Scheduling)
	return nil
}

func planHub(ctx context.Context, call *call[hubModel]) error {
	plan := call.plan
	if call.replaced && call.state != nil {
		return nil
	}
	if call.stateOnly || !call.changing {
		return nil
	}
	if unknown := plan.unknown(ctx); len(unknown) > 0 {
		openOutputsNamed(plan, []string{"admission_check", "multikueue_config"})
		call.warn(fmt.Sprintf("The checks of a hub on cluster %q are put off to the apply", call.cluster.Name()),
			"Because %s is not known yet, this plan could not check it. The apply does so before it writes anything.", strings.Join(unknown, ", "))
		return nil
	}
	spec := plan.spec(ctx)
	plan.fill(spec)
	_, err := enroll.PlanHub(ctx, call.cluster, spec, plan.terms(ctx, call))
	return err
}

// applyHub is create and update alike.
func applyHub(ctx context.Context, call *call[hubModel]) error {
	plan := call.plan
	spec := plan.spec(ctx)
	seen, err := enroll.ApplyHub(ctx, call.cluster, spec, plan.terms(ctx, call))
	if err != nil {
		return err
	}
	promised := *plan
	plan.fill(spec)
	plan.observe(ctx, seen)
	keepPromises(&promised, plan)
	return nil
}

func readHub(ctx context.Context, call *call[hubModel]) (bool, error) {
	state := call.state
	spec := state.spec(ctx)
	terms := state.terms(ctx, call)
	terms.Held = call.marked
	seen, err := enroll.ReadHubState(ctx, call.cluster, spec, terms, call.marked)
	if err != nil || seen == nil {
		return false, err
	}
	state.fill(spec)
	state.observe(ctx, seen)
	state.Drift = stringsValue(seen.Drift)
	return true, nil
}

func planDeleteHub(ctx context.Context, call *call[hubModel]) error {
	problem, err := enroll.CheckRemoveHub(ctx, call.cluster, call.state.spec(ctx))
	if problem != nil {
		// What is enrolled or runs now may go first in the same apply.
		call.warn(problem.Summary, "%s", strings.Replace(problem.Detail, "refusing: ", "The destroy refuses as long as this is so: ", 1))
	}
	return err
}

func removeHub(ctx context.Context, call *call[hubModel]) error {
	terms := call.state.terms(ctx, call)
	terms.Held = call.marked
	return enroll.RemoveHub(ctx, call.cluster, call.state.spec(ctx), terms, call.state.DeletionPolicy.ValueString() == retain)
}

// importHub fills in the arguments from the hub's record.
func importHub(ctx context.Context, call *call[hubModel]) (bool, error) {
	record, _, err := enroll.ReadHub(ctx, call.cluster, call.state.TenantNamespace.ValueString())
	if err != nil {
		if _, is := err.(*cluster.Problem); is { //nolint:errorlint // it is that one itself
			return false, nil
		}
		return false, err
	}
	call.state.importArguments(ctx, record)
	return true, nil
}
