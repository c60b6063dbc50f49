package provider

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/defaults"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// change is what a plan asks of the cluster.
type change int

const (
	// none: nothing differs.
	none change = iota
	// stateOnly: only knobs of the state differ, the cluster is not called.
	stateOnly
	// onCluster: the cluster has to change.
	onCluster
)

// ModifyPlan finds the cluster, says what is known already, runs the resource's checks, and decides what an update may
// change: outputs that it cannot change keep their value, so that references never cascade.
func (e *envelope[M, P]) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if e.provider == nil {
		return
	}
	if req.Plan.Raw.IsNull() {
		e.planDestroy(ctx, req, resp)
		return
	}
	var plan, config M
	var state *M
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if !req.State.Raw.IsNull() {
		state = new(M)
		resp.Diagnostics.Append(req.State.Get(ctx, state)...)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	kept := private{had: req.Private}
	call := &call[M]{
		fleet:  e.provider.fleet,
		charts: e.provider.charts, plan: &plan, state: state, config: &config, changing: true,
		marked: kept.recall(ctx, keyMarked) != nil, private: kept, diagnostics: &resp.Diagnostics,
	}
	P(&plan).base().Drift = noDrift
	kind := onCluster
	if state != nil {
		call.moved = P(state).base().adrift()
		if e.settle != nil {
			if err := e.settle(ctx, call); err != nil {
				e.planError(&plan, true, err, resp)
				return
			}
		}
		kind = e.changeOf(&config, &plan, state)
		call.changing = kind == onCluster
	}
	e.planCluster(ctx, call, kind, resp)
	if e.manager != nil && !resp.Diagnostics.HasError() && (kind != stateOnly || !e.samePlace(&plan, state)) {
		e.planMember(ctx, call, resp)
		if call.state == nil {
			P(&plan).base().ID = e.importID(&plan)
		}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	if state != nil && !call.moved {
		// A key that was renamed differs only now that it is settled.
		renamed := kind == none && !e.samePlace(&plan, state)
		call.stateOnly = kind == stateOnly || renamed
		e.keepOutputs(call)
		if call.changing {
			openOutputsNamed(&plan, e.volatile)
		}
	}
	if call.cluster != nil {
		call.owner = e.owner(call.cluster, &plan)
		call.replaced = call.replaced || e.replaces(call)
		if err := e.plan(ctx, call); err != nil {
			e.planError(&plan, call.changing, err, resp)
			e.openOutputs(call)
		}
	} else {
		e.openOutputs(call)
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
}

// planError shows what a plan check found. A cluster that cannot be reached is a warning where the user said so.
func (e *envelope[M, P]) planError(plan P, changing bool, err error, resp *resource.ModifyPlanResponse) {
	if e.provider.keepUnreachable && cluster.Unreachable(err) {
		if !changing {
			// The refresh has said that its cluster is out of reach, and nothing is to be checked.
			return
		}
		resp.Diagnostics.AddWarning(fmt.Sprintf("The checks of %s were not run", e.describe(plan)),
			fmt.Sprintf("Its cluster cannot be reached, and on_unreachable is \"warn\". They run at the apply. %s", err))
		return
	}
	addError(&resp.Diagnostics, fmt.Sprintf("Planning %s failed", e.describe(plan)), err, nil)
}

// planCluster settles `cluster`, `cluster_uid` and `id`, and connects where the connection is known.
func (e *envelope[M, P]) planCluster(ctx context.Context, call *call[M], kind change, resp *resource.ModifyPlanResponse) {
	at, base := e.home(call.plan), P(call.plan).base()
	if e.home(call.config).key.IsNull() {
		key, err := e.provider.fleet.Default()
		switch {
		case errors.Is(err, cluster.ErrDeferred):
			if call.state != nil {
				*at.key = *e.home(call.state).key
			}
		case err != nil:
			addError(&resp.Diagnostics, "No cluster", err, nil)
			return
		default:
			*at.key = types.StringValue(key)
		}
	}
	if at.key.IsUnknown() || at.key.IsNull() {
		e.putOff(call, "it is not known yet which cluster it is on")
		return
	}
	if kind == stateOnly && at.key.Equal(*e.home(call.state).key) {
		// The cluster may be dead: knobs must be changeable all the same.
		return
	}
	if call.state == nil || call.moved {
		base.ID = e.importID(call.plan)
	}
	c, err := e.provider.fleet.Cluster(at.key.ValueString())
	if errors.Is(err, cluster.ErrDeferred) {
		e.putOff(call, fmt.Sprintf("the connection of cluster %q is not known yet", at.key.ValueString()))
		return
	}
	var uid string
	if err == nil {
		uid, err = c.UID(ctx)
	}
	if err != nil {
		e.planError(call.plan, call.changing, err, resp)
		return
	}
	if call.state != nil && !call.moved {
		e.planMove(call, c, at, e.home(call.state), uid, resp)
	} else {
		*at.uid = types.StringValue(uid)
	}
	call.cluster = c
}

// replaces tells whether what the state holds is another object than what the plan is about.
func (e *envelope[M, P]) replaces(call *call[M]) bool {
	if call.state == nil {
		return false
	}
	namespace, name := e.object(call.plan)
	within, was := e.object(call.state)
	return !name.Equal(was) || e.namespaced && !namespace.Equal(within)
}

// putOff says which checks were not run, and why.
func (e *envelope[M, P]) putOff(call *call[M], why string) {
	if !call.changing {
		return
	}
	call.warn(fmt.Sprintf("The checks of %s are put off to the apply", e.describe(call.plan)),
		"Because %s, this plan could not look at the cluster: ownership, permissions and everything else were not checked. The apply checks them before it writes anything.", why)
}

func (e *envelope[M, P]) planDestroy(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if e.planDelete == nil {
		return
	}
	state := new(M)
	resp.Diagnostics.Append(req.State.Get(ctx, state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	c, where, err := e.find(ctx, state)
	if err != nil {
		e.planError(state, true, err, resp)
		return
	}
	if where != reached {
		return
	}
	var other member
	if e.manager != nil {
		if other, where, err = e.findOther(ctx, state, true); err != nil {
			e.planError(state, true, err, resp)
			return
		}
		if where != reached {
			return
		}
	}
	kept := private{had: req.Private}
	call := &call[M]{
		fleet:   e.provider.fleet,
		cluster: c, member: other, owner: e.owner(c, state), state: state, changing: true, marked: kept.recall(ctx, keyMarked) != nil,
		private: kept, diagnostics: &resp.Diagnostics,
	}
	if err := e.planDelete(ctx, call); err != nil {
		e.planError(state, true, err, resp)
	}
}

// keepOutputs lets outputs keep their value.
func (e *envelope[M, P]) keepOutputs(call *call[M]) {
	plan, state, config := fieldsOf(call.plan), fieldsOf(call.state), fieldsOf(call.config)
	for name := range e.shape.Attributes {
		if !e.isOutput(name, config) || name == "drift" || e.isKey(name) {
			continue
		}
		plan[name].Set(state[name])
	}
}

// openOutputsNamed makes some outputs of a model unknown.
func openOutputsNamed(model any, names []string) {
	fields := fieldsOf(model)
	for _, name := range names {
		fields[name].Set(unknownLike(fields[name]))
	}
}

// openOutputs makes every output that an update could change unknown, because the cluster could not be asked what it
// will be: a promise that the apply cannot keep would be an error there.
func (e *envelope[M, P]) openOutputs(call *call[M]) {
	if call.state == nil || !call.changing {
		return
	}
	plan, config := fieldsOf(call.plan), fieldsOf(call.config)
	for name := range e.shape.Attributes {
		if e.isOutput(name, config) && !e.isKey(name) && !e.isKey(strings.TrimSuffix(name, "_uid")) && !slices.Contains([]string{"id", "drift", "namespace"}, name) {
			plan[name].Set(unknownLike(plan[name]))
		}
	}
}

// changeOf tells whether what differs between plan and state needs the cluster.
func (e *envelope[M, P]) changeOf(config, plan, state *M) change {
	if !P(plan).base().Drift.Equal(P(state).base().Drift) {
		return onCluster
	}
	kind := none
	planned, had, written := fieldsOf(plan), fieldsOf(state), fieldsOf(config)
	for name := range e.shape.Attributes {
		if !e.isKey(name) && e.isOutput(name, written) {
			continue
		}
		if planned[name].Interface().(attr.Value).Equal(had[name].Interface().(attr.Value)) {
			continue
		}
		if !slices.Contains(knobs, name) && !slices.Contains(e.knobs, name) && !e.isKey(name) && !e.differInKnobs(name, planned[name], had[name]) {
			return onCluster
		}
		kind = stateOnly
	}
	return kind
}

// differInKnobs tells whether two values of a nested attribute differ in nothing but knobs, which then are named as
// `attribute.argument`.
func (e *envelope[M, P]) differInKnobs(name string, planned, had reflect.Value) bool {
	now, ok := reflect.TypeAssert[types.Object](planned)
	was, too := reflect.TypeAssert[types.Object](had)
	if !ok || !too || now.IsNull() || now.IsUnknown() || was.IsNull() || was.IsUnknown() {
		return false
	}
	for argument, value := range now.Attributes() {
		if !value.Equal(was.Attributes()[argument]) && !slices.Contains(e.knobs, name+"."+argument) {
			return false
		}
	}
	return true
}

// isOutput tells whether the value of an attribute is the provider's: computed, without a default, and not written in
// the configuration.
func (e *envelope[M, P]) isOutput(name string, config map[string]reflect.Value) bool {
	attribute := e.shape.Attributes[name]
	if !attribute.IsComputed() || !config[name].Interface().(attr.Value).IsNull() {
		return false
	}
	switch attribute := attribute.(type) {
	case interface{ StringDefaultValue() defaults.String }:
		return attribute.StringDefaultValue() == nil
	case interface{ BoolDefaultValue() defaults.Bool }:
		return attribute.BoolDefaultValue() == nil
	case interface{ Int64DefaultValue() defaults.Int64 }:
		return attribute.Int64DefaultValue() == nil
	case interface{ ObjectDefaultValue() defaults.Object }:
		return attribute.ObjectDefaultValue() == nil
	}
	return true
}

// fieldsOf are the fields of a model by attribute name, those of embedded structs included. Every field of a model is
// an attr.Value.
func fieldsOf(model any) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	var add func(reflect.Value)
	add = func(structure reflect.Value) {
		for i := range structure.NumField() {
			field := structure.Type().Field(i)
			if field.Anonymous {
				add(structure.Field(i))
				continue
			}
			if name := field.Tag.Get("tfsdk"); name != "" && name != "-" {
				fields[name] = structure.Field(i)
			}
		}
	}
	add(reflect.ValueOf(model).Elem())
	return fields
}

// keepPromises puts back into a model whatever was known in it before.
func keepPromises(promised, model any) {
	before, after := fieldsOf(promised), fieldsOf(model)
	for name, value := range before {
		if !value.Interface().(attr.Value).IsUnknown() {
			after[name].Set(value)
		}
	}
}

// unknownLike is the unknown value of a field's own type.
func unknownLike(field reflect.Value) reflect.Value {
	switch value := field.Interface().(type) {
	case types.String:
		return reflect.ValueOf(types.StringUnknown())
	case types.Bool:
		return reflect.ValueOf(types.BoolUnknown())
	case types.Int64:
		return reflect.ValueOf(types.Int64Unknown())
	case types.List:
		return reflect.ValueOf(types.ListUnknown(value.ElementType(context.Background())))
	case types.Set:
		return reflect.ValueOf(types.SetUnknown(value.ElementType(context.Background())))
	case types.Map:
		return reflect.ValueOf(types.MapUnknown(value.ElementType(context.Background())))
	case types.Object:
		return reflect.ValueOf(types.ObjectUnknown(value.AttributeTypes(context.Background())))
	}
	panic(fmt.Sprintf("a model has a field of type %s, which no output can have", field.Type()))
}

func stringValue(text string) types.String { return types.StringValue(text) }
