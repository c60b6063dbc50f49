package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/chart"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/release"
)

func newRelease() resource.Resource {
	return newEnvelope(definition[releaseModel, *releaseModel]{
		name:       "release",
		schema:     releaseSchema,
		object:     func(m *releaseModel) (types.String, types.String) { return m.Namespace, m.Name },
		namespaced: true,
		knobs:      []string{"wait", "keep_history", "create_namespace", "force_destroy"},
		volatile:   movingReleaseOutputs,
		settle:     settleRelease,
		plan:       planRelease, planDelete: planDeleteRelease,
		create: applyRelease, read: readRelease, update: applyRelease, remove: removeRelease,
		adopt:  importRelease,
		movers: []resource.StateMover{{StateMover: moveHelmRelease}},
	})
}

// movingReleaseOutputs are the outputs that an apply may change.
var movingReleaseOutputs = []string{"revision", "status", "app_version", "chart_digest", "objects", "changes", "conditions"}

// The keys of what is kept beside the state.
const (
	keySettled   = "settled"
	keySensitive = "sensitive"
)

// settleRelease keeps values that say the same in other words, and, as long as all that is known of the chart is what
// Helm's record says, a chart of that name and version: so that the plan after an import is empty.
func settleRelease(ctx context.Context, call *call[releaseModel]) error {
	plan, state := call.plan, call.state
	if sameValues(ctx, plan.Values, state.Values) {
		plan.Values = state.Values
	}
	if state.sourced(ctx) || hasUnknown(ctx, plan.Chart) {
		return nil
	}
	recorded, wanted, digest := state.chart(ctx), plan.chart(ctx), state.ChartDigest.ValueString()
	var loaded chart.Chart
	if wanted.Path != "" {
		var err error
		if loaded, _, err = call.charts.Cached(wanted); err != nil {
			return err
		}
		if digest != "" && digest != loaded.Digest {
			return nil
		}
	}
	if sameChart(wanted, loaded, recorded) && (wanted.Digest == "" || digest == "" || wanted.Digest == digest) {
		plan.Chart = state.Chart
	}
	return nil
}

func planRelease(ctx context.Context, call *call[releaseModel]) error {
	plan := call.plan
	if call.stateOnly {
		return nil
	}
	if call.replaced && call.moved {
		return &cluster.Problem{
			Attribute: "name", Summary: fmt.Sprintf("berth_release %q was moved here, and cannot be another one at once", call.state.title()),
			Detail: fmt.Sprintf("refusing: the configuration names %s. Apply the move first, with the name and the namespace as they were; then change them, which replaces the release.", plan.ref()),
		}
	}
	if call.replaced {
		return planReplacedRelease(ctx, call)
	}
	if call.moved && !hasUnknown(ctx, plan.Name) && !hasUnknown(ctx, plan.Namespace) {
		if err := checkMovedRelease(ctx, call); err != nil {
			return err
		}
	}
	if !call.changing {
		if err := planUnchangedRelease(ctx, call); err != nil || !call.changing {
			return err
		}
	}
	if plan.CreateNamespace.ValueBool() && !plan.Namespace.IsUnknown() {
		call.cluster.Plan(cluster.Namespaces, "", plan.Namespace.ValueString())
	}
	if unknown := plan.unknown(ctx, call.config); len(unknown) > 0 {
		call.warn(putOffRelease(call),
			"Not known yet: %s. So the chart was not rendered, and neither what changes nor whose the objects are could be looked at. The apply does so before it writes anything.", strings.Join(unknown, ", "))
		return nil
	}
	if !plan.sourced(ctx) {
		plan.Chart = call.config.Chart
	}
	loaded, missing, err := call.charts.load(ctx, plan.chart(ctx))
	if err != nil {
		return err
	}
	if missing != "" {
		call.warn(putOffRelease(call),
			"Its chart is not in the cache, and the provider's %s is not known yet, so it could not be fetched. The apply fetches it, and checks everything before it writes anything.", missing)
		return nil
	}
	spec, err := plan.spec(ctx, call.config, loaded, nil)
	if err != nil {
		return err
	}
	outlook, err := release.Plan(ctx, call.cluster, spec, plan.terms(ctx, call))
	call.warnings(outlook.Warnings)
	if err != nil {
		return err
	}
	plan.promise(call.state, spec, outlook)
	if outlook.Verdict == release.Repair && call.state != nil && !call.moved {
		return promiseRepair(ctx, call)
	}
	return nil
}

func putOffRelease(call *call[releaseModel]) string {
	return fmt.Sprintf("The checks of berth_release %q on cluster %q are put off to the apply", call.plan.title(), call.cluster.Name())
}

// checkMovedRelease refuses to pin a release that was moved here to a cluster that does not have it.
func checkMovedRelease(ctx context.Context, call *call[releaseModel]) error {
	seen, err := release.Read(ctx, call.cluster, call.plan.ref(), call.plan.watch(ctx, nil), 0)
	if err == nil && seen == nil {
		err = notThere(fmt.Sprintf("berth_release %q", call.plan.title()), call.cluster)
	}
	return err
}

// planUnchangedRelease looks at a release of which no argument changes: what its local chart holds may have changed, and
// so may its secret values.
func planUnchangedRelease(ctx context.Context, call *call[releaseModel]) error {
	plan, state := call.plan, call.state
	if !hasUnknown(ctx, call.config.SetSensitiveWO) && broken(ctx, call.private.recall(ctx, keySensitive), call.config.SetSensitiveWO) {
		call.warn(fmt.Sprintf("The secret values of berth_release %q on cluster %q have changed", plan.title(), call.cluster.Name()),
			"`set_sensitive_wo` is not what it was when the release was last applied, and `set_sensitive_wo_version` is still %d: nothing is changed. Raise the version to apply them.", plan.SetSensitiveWOVersion.ValueInt64())
	}
	wanted := plan.chart(ctx)
	if wanted.Path == "" {
		return nil
	}
	loaded, _, err := call.charts.Cached(wanted)
	if err != nil {
		return err
	}
	if applied := state.ChartDigest.ValueString(); applied != "" && applied != loaded.Digest {
		call.changing = true
		openOutputsNamed(plan, movingReleaseOutputs)
	}
	return nil
}

// planReplacedRelease checks the first half of a replacement, which no other call does: what is there has to go.
func planReplacedRelease(ctx context.Context, call *call[releaseModel]) error {
	state := call.state
	uid, err := call.cluster.UID(ctx)
	if err != nil || uid != state.ClusterUID.ValueString() {
		// It goes from another cluster, which this call does not know.
		return err
	}
	warnings, err := release.PlanRemoval(ctx, call.cluster, state.ref(), state.removal(ctx, call))
	call.warnings(warnings)
	if err != nil {
		return err
	}
	return release.PlanReplacement(ctx, call.cluster, state.ref(), state.removal(ctx, call))
}

// promise fills in what the apply will make of the outputs, as far as a plan can tell.
func (m *releaseModel) promise(state *releaseModel, spec release.Spec, outlook release.Outlook) {
	m.AppVersion, m.ChartDigest = optionalString(outlook.AppVersion), types.StringValue(spec.Chart.Digest)
	if outlook.Incomplete {
		m.Objects, m.Changes = types.MapUnknown(types.StringType), types.MapUnknown(types.StringType)
		return
	}
	objects := make(map[string]attr.Value, len(outlook.Objects))
	for key, digest := range outlook.Objects {
		objects[key] = types.StringValue(digest)
		if digest == "" {
			objects[key] = types.StringUnknown()
		}
	}
	m.Objects = types.MapValueMust(types.StringType, objects)
	switch {
	case state == nil:
		m.Changes = noDrift
	case outlook.Verdict == release.Upgrade:
		m.Changes = stringsValue(outlook.Changes)
	}
}

// promiseRepair fills in what of the outputs a repair does not change. It says what will be put right that the refresh,
// which looked by the arguments of the state, could not show. Where something drifted, what became of it is told by the
// apply: it may be another thing by then.
func promiseRepair(ctx context.Context, call *call[releaseModel]) error {
	plan, state := call.plan, call.state
	if len(state.Drift.Elements()) == 0 {
		plan.Revision = state.Revision
		if state.Status.ValueString() == statusDeployed {
			plan.Status = state.Status
		}
	}
	var lines []string
	if !plan.IgnoreDrift.Equal(state.IgnoreDrift) || !plan.ExtraFields.Equal(state.ExtraFields) || !plan.CRDs.Equal(state.CRDs) {
		seen, err := release.Read(ctx, call.cluster, plan.ref(), plan.watch(ctx, settledOf(ctx, call)), int(state.Revision.ValueInt64()))
		if err != nil || seen == nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(seen.Drift)) {
			if _, shown := state.Drift.Elements()[key]; !shown {
				lines = append(lines, key+": "+seen.Drift[key])
			}
		}
	}
	switch {
	case len(lines) > 0:
		call.warn(fmt.Sprintf("More of berth_release %q on cluster %q will be put right", plan.title(), call.cluster.Name()),
			"By the new arguments this is drift too, and the apply repairs it:\n%s", strings.Join(lines, "\n"))
	case len(state.Drift.Elements()) == 0:
		plan.Changes = noDrift
	}
	return nil
}

// applyRelease is create and update alike: it makes of whatever is there what shall be.
func applyRelease(ctx context.Context, call *call[releaseModel]) error {
	plan := call.plan
	loaded, missing, err := call.charts.load(ctx, plan.chartOf(ctx, call.config))
	if err != nil {
		return err
	}
	if missing != "" {
		return fmt.Errorf("the provider's %s is still not known, at the apply", missing)
	}
	spec, err := plan.spec(ctx, call.config, loaded, settledOf(ctx, call))
	if err != nil {
		return err
	}
	repaired := map[string]string{}
	if call.state != nil && plan.Changes.IsUnknown() {
		before, err := release.Read(ctx, call.cluster, spec.Ref, spec.Watch, int(call.state.Revision.ValueInt64()))
		if err != nil {
			return err
		}
		if before != nil {
			repaired = before.Drift
		}
	}
	seen, warnings, err := release.Apply(ctx, call.cluster, spec, plan.terms(ctx, call))
	call.warnings(warnings)
	if err != nil {
		return err
	}
	promised := *plan
	plan.observe(ctx, &seen)
	plan.Changes = stringsValue(repaired)
	plan.Objects = fulfil(promised.Objects, plan.Objects)
	promised.Objects = types.MapUnknown(types.StringType)
	keepPromises(&promised, plan)
	keepSettled(call, seen.Settled)
	call.private.remember(keySensitive, newSeal(ctx, call.config.SetSensitiveWO))
	return nil
}

// fulfil puts what was seen in the place of what a plan could not know of a map.
func fulfil(promised, seen types.Map) types.Map {
	if promised.IsUnknown() {
		return seen
	}
	elements := maps.Clone(promised.Elements())
	for key, value := range elements {
		if value.IsUnknown() {
			elements[key] = types.StringValue("")
			if now, found := seen.Elements()[key]; found {
				elements[key] = now
			}
		}
	}
	return types.MapValueMust(types.StringType, elements)
}

func readRelease(ctx context.Context, call *call[releaseModel]) (bool, error) {
	state := call.state
	seen, err := release.Read(ctx, call.cluster, state.ref(), state.watch(ctx, settledOf(ctx, call)), int(state.Revision.ValueInt64()))
	if err != nil || seen == nil {
		return false, err
	}
	held := state.Revision
	state.observe(ctx, seen)
	if seen.ChartDigest == "" && held.ValueInt64() != 0 {
		// A revision that another tool wrote since stays drift until an apply has put it right.
		state.Revision = held
	}
	if state.Changes.IsNull() || state.Changes.IsUnknown() {
		state.Changes = noDrift
	}
	state.Drift = stringsValue(seen.Drift)
	call.warnings(seen.Warnings)
	keepSettled(call, seen.Settled)
	return true, nil
}

func (m *releaseModel) removal(ctx context.Context, call *call[releaseModel]) release.Removal {
	return release.Removal{Terms: m.terms(ctx, call), Retain: m.DeletionPolicy.ValueString() == retain, Force: m.ForceDestroy.ValueBool()}
}

func planDeleteRelease(ctx context.Context, call *call[releaseModel]) error {
	warnings, err := release.PlanRemoval(ctx, call.cluster, call.state.ref(), call.state.removal(ctx, call))
	call.warnings(warnings)
	return err
}

func removeRelease(ctx context.Context, call *call[releaseModel]) error {
	warnings, err := release.Remove(ctx, call.cluster, call.state.ref(), call.state.removal(ctx, call))
	call.warnings(warnings)
	return err
}

func importRelease(ctx context.Context, call *call[releaseModel]) (bool, error) {
	seen, err := release.Read(ctx, call.cluster, call.state.ref(), release.Watch{CRDs: release.CRDsSkip, ExtraFields: release.ExtraIgnore}, 0)
	if err != nil || seen == nil {
		return false, err
	}
	return true, call.state.setArguments(ctx, seen)
}

// settledOf is what earlier looks at a release found out, and keepSettled keeps it for the next: so that the API server
// is asked once.
func settledOf(ctx context.Context, call *call[releaseModel]) map[string]string {
	var settled map[string]string
	if json.Unmarshal(call.private.recall(ctx, keySettled), &settled) != nil {
		return nil
	}
	return settled
}

func keepSettled(call *call[releaseModel], settled map[string]string) {
	// A map of strings always has JSON.
	data, _ := json.Marshal(settled)
	call.private.remember(keySettled, data)
}

// warnings shows what a domain warns of.
func (c *call[M]) warnings(warnings []release.Warning) {
	for _, one := range warnings {
		c.diagnostics.AddWarning(one.Summary, one.Detail)
	}
}
