package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// definition is what a resource file provides; the envelope does what all resources need: finding the cluster and
// making sure that it is the right one, decoding, time limits, what changed and whether it needs the cluster at all,
// and errors that say what was applied.
type definition[M any, P interface {
	*M
	base() *common
}] struct {
	// name is the type without the provider's prefix.
	name string
	// schema describes the resource.
	schema func(context.Context) schema.Schema
	// object returns namespace and name of what the resource is about, for its mark, ID and identity.
	object func(P) (namespace, name types.String)
	// nameAttribute is the attribute that holds the name; "name" unless it is set.
	nameAttribute string
	// namespaced is set where the name is one within its namespace, which is then a part of the ID.
	namespaced bool
	// manager is set where a resource spans two clusters. It gives the place of the one that manages the other: calls are
	// on that, while `cluster` and `cluster_uid` are of the other one, the member (see member.go).
	manager func(P) seat
	// memberDefault is the key that a resource with a manager means when it leaves `cluster` out, "" for none. Optional.
	memberDefault func(P) string
	// memberGuard is asked before the member is dialled for the first time. Optional.
	memberGuard func(ctx context.Context, model P, manager, member *cluster.Cluster) error
	// findMember finds the key of the member for an import by identity, which names only the manager. With a manager only.
	findMember func(ctx context.Context, fleet *cluster.Fleet, manager *cluster.Cluster, namespace, name string) (string, error)
	// deleteTimeout is what a destroy may take unless `timeouts` says otherwise; 0 is defaultTimeout.
	deleteTimeout time.Duration
	// knobs are attributes, besides the common ones, whose change touches only the state; `attribute.argument` is one of a
	// nested attribute.
	knobs []string
	// volatile are computed attributes that a change on the cluster may move; all others keep their value. The runner
	// plans once more right before it applies, and refuses a value that was known before and is another one then: what
	// is seen on the cluster is therefore unknown in every plan that changes something.
	volatile []string

	// settle puts arguments of the state back into an update's plan where the configuration says the same in other words,
	// before it is decided what changes. Optional.
	settle func(context.Context, *call[M]) error
	// plan checks a create or an update and fills in what is known already. It runs also when nothing changes, for
	// its warnings.
	plan func(context.Context, *call[M]) error
	// planDelete checks a destroy.
	planDelete func(context.Context, *call[M]) error
	// create makes it and fills plan's outputs. It finds whatever an interrupted create left and goes on from there.
	create func(context.Context, *call[M]) error
	// read brings state's outputs and drift up to date; false when the cluster answered NotFound.
	read func(context.Context, *call[M]) (bool, error)
	// update makes plan of what state says, and repairs drift.
	update func(context.Context, *call[M]) error
	// remove takes it apart.
	remove func(context.Context, *call[M]) error
	// adopt fills state from the cluster after an import; false when there is nothing to import.
	adopt func(context.Context, *call[M]) (bool, error)
	// movers turn the state of other providers' resources into one of ours, which knows no cluster: see common.adrift.
	movers []resource.StateMover
}

// call is one call of a definition's function.
type call[M any] struct {
	cluster *cluster.Cluster
	// member is the other cluster of a resource with a manager.
	member member
	// fleet are all clusters of the provider's configuration.
	fleet *cluster.Fleet
	// owner is who the marks of this resource name.
	owner kube.Owner
	// charts fetches charts.
	charts *charts
	// plan is what shall be, state what was (nil at create), config what the user wrote, its write-only arguments included
	// (at plan, create and update).
	plan, state, config *M
	// changing is false for a plan that changes nothing on the cluster.
	changing bool
	// stateOnly is set when only knobs of the state differ: the apply of such a plan does nothing else, so that what has
	// moved on the cluster since has to wait for the next plan.
	stateOnly bool
	// moved is set while the state is another provider's: nothing of it was ever looked at on the cluster.
	moved bool
	// replaced is set in the first half of a replacement: what the state holds goes, and a call of its own plans what comes.
	replaced bool
	// marked is set once berth has written its marks on the objects; after an import it has not.
	marked      bool
	private     private
	diagnostics *diag.Diagnostics
}

func (c *call[M]) warn(summary, format string, args ...any) {
	c.diagnostics.AddWarning(summary, fmt.Sprintf(format, args...))
}

// envelope is the resource that the framework sees.
type envelope[M any, P interface {
	*M
	base() *common
}] struct {
	definition[M, P]
	provider *configured
	shape    schema.Schema
}

func newEnvelope[M any, P interface {
	*M
	base() *common
}](d definition[M, P],
) resource.Resource {
	return &envelope[M, P]{definition: d, shape: d.schema(context.Background())}
}

// keyMarked is the private state's key for "berth has written its marks".
const keyMarked = "marked"

var yes = []byte(`true`)

func (e *envelope[M, P]) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + e.name
	// The UID of its cluster is learnt only after the move.
	resp.ResourceBehavior.MutableIdentity = len(e.movers) > 0
}

func (e *envelope[M, P]) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = e.shape
}

func (e *envelope[M, P]) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	e.provider, _ = req.ProviderData.(*configured)
}

func (e *envelope[M, P]) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan, config M
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	base := P(&plan).base()
	limit, diagnostics := base.Timeouts.Create(ctx, defaultTimeout)
	resp.Diagnostics.Append(diagnostics...)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ctx, record := cluster.WithRecord(ctx)

	doing := fmt.Sprintf("Creating %s failed", e.describe(&plan))
	c, other, err := e.connectAll(ctx, &plan, nil)
	if err != nil {
		addError(&resp.Diagnostics, doing, err, nil)
		return
	}
	uid := e.home(&plan).uid.ValueString()
	base.ID, base.Drift = e.importID(&plan), noDrift
	call := &call[M]{
		fleet:   e.provider.fleet,
		cluster: c, member: other, owner: e.owner(c, &plan), charts: e.provider.charts, plan: &plan, config: &config, changing: true, diagnostics: &resp.Diagnostics,
	}
	defer e.provider.turns.take(uid + "/" + call.owner.String())()
	if err := ended(ctx, doing, limit, e.create(ctx, call)); err != nil {
		// No state: a create that fails and returns state is tainted and replaced, which would be destruction.
		written := record.Lines()
		addError(&resp.Diagnostics, doing, err, written)
		if len(written) > 0 {
			resp.Diagnostics.AddWarning(fmt.Sprintf("%s is unfinished", e.describe(&plan)),
				"What was applied carries berth's marks, and the next apply goes on from it. To give it up instead, delete it by hand.")
		}
		return
	}
	call.private.remember(keyMarked, yes)
	resp.Diagnostics.Append(call.private.write(ctx, resp.Private)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	namespace, name := e.object(&plan)
	setIdentity(ctx, resp.Identity, &resp.Diagnostics, *e.home(&plan).uid, namespace, name)
}

func (e *envelope[M, P]) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state M
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	base := P(&state).base()
	// First, because a runner may have kept none, and then refuses any read that gives none, one that ends early included.
	home := e.home(&state)
	namespace, name := e.object(&state)
	setIdentity(ctx, resp.Identity, &resp.Diagnostics, *home.uid, namespace, name)
	if base.adrift() {
		return
	}
	doing := fmt.Sprintf("Reading %s failed", e.describe(&state))
	imported := home.uid.IsNull()
	c, standing, err := e.find(ctx, &state)
	pinned, at := home, c
	var other member
	if err == nil && standing == reached && e.manager != nil {
		if other, standing, err = e.findOther(ctx, &state, false); standing == rebuilt {
			pinned, at = memberSeat(base), other.cluster
		}
	}
	switch {
	case err != nil && e.provider.keepUnreachable && cluster.Unreachable(err):
		resp.Diagnostics.AddWarning(fmt.Sprintf("%s was not refreshed", e.describe(&state)),
			fmt.Sprintf("Its cluster cannot be reached, and on_unreachable is \"warn\": the state is kept as it was. %s", err))
		return
	case err != nil:
		addError(&resp.Diagnostics, doing, err, nil)
		return
	case standing == deferred:
		return
	case standing == rebuilt:
		resp.Diagnostics.AddWarning(fmt.Sprintf("%s leaves the state", e.describe(&state)),
			fmt.Sprintf("It was pinned to the cluster with UID %s, and clusters[%q].uid now says that the cluster was rebuilt as %s. It is created afresh there.",
				pinned.uid.ValueString(), at.Name(), at.PinnedUID()))
		resp.State.RemoveResource(ctx)
		return
	}
	kept := private{had: req.Private}
	call := &call[M]{
		fleet:   e.provider.fleet,
		cluster: c, member: other, owner: e.owner(c, &state), charts: e.provider.charts, state: &state, marked: kept.recall(ctx, keyMarked) != nil,
		private: kept, diagnostics: &resp.Diagnostics,
	}
	found := true
	if imported {
		uid, err := c.UID(ctx)
		if err == nil {
			*home.uid = types.StringValue(uid)
			base.setDefaults()
			found, err = e.adopt(ctx, call)
		}
		if err != nil {
			addError(&resp.Diagnostics, doing, err, nil)
			return
		}
	}
	if found {
		base.Drift = noDrift
		if found, err = e.read(ctx, call); err != nil {
			if e.provider.keepUnreachable && cluster.Unreachable(err) {
				resp.Diagnostics.AddWarning(fmt.Sprintf("%s was not refreshed", e.describe(&state)), err.Error())
				return
			}
			addError(&resp.Diagnostics, doing, err, nil)
			return
		}
	}
	if !found {
		resp.State.RemoveResource(ctx)
		return
	}
	resp.Diagnostics.Append(call.private.write(ctx, resp.Private)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
	// Again, because an import learns the UID and the namespace from the cluster.
	namespace, name = e.object(&state)
	setIdentity(ctx, resp.Identity, &resp.Diagnostics, *home.uid, namespace, name)
}

func (e *envelope[M, P]) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state, config M
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	base, was := P(&plan).base(), P(&state).base()
	namespace, name := e.object(&plan)
	setIdentity(ctx, resp.Identity, &resp.Diagnostics, *e.home(&state).uid, namespace, name)
	kind := e.changeOf(&config, &plan, &state)
	if kind == stateOnly && e.samePlace(&plan, &state) {
		resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
		return
	}
	limit, diagnostics := base.Timeouts.Update(ctx, defaultTimeout)
	resp.Diagnostics.Append(diagnostics...)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ctx, record := cluster.WithRecord(ctx)

	doing := fmt.Sprintf("Updating %s failed", e.describe(&plan))
	pinned := &state
	if was.adrift() {
		pinned = nil
	}
	c, other, err := e.connectAll(ctx, &plan, pinned)
	if err != nil {
		addError(&resp.Diagnostics, doing, err, nil)
		return
	}
	uid := e.home(&plan).uid.ValueString()
	if kind == stateOnly && !was.adrift() {
		// The same cluster under another key.
		resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
		return
	}
	kept := private{had: req.Private}
	base.Drift = noDrift
	call := &call[M]{
		fleet:   e.provider.fleet,
		cluster: c, member: other, owner: e.owner(c, &plan), charts: e.provider.charts, plan: &plan, state: &state, config: &config,
		changing: true, moved: was.adrift(), marked: kept.recall(ctx, keyMarked) != nil, private: kept, diagnostics: &resp.Diagnostics,
	}
	if call.moved {
		base.ID = e.importID(&plan)
	}
	defer e.provider.turns.take(uid + "/" + call.owner.String())()
	act := e.update
	if kind == stateOnly {
		act = e.takeOver
	} else {
		call.private.remember(keyMarked, yes)
	}
	if err := ended(ctx, doing, limit, act(ctx, call)); err != nil {
		addError(&resp.Diagnostics, doing, err, record.Lines())
		return
	}
	resp.Diagnostics.Append(call.private.write(ctx, resp.Private)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
	setIdentity(ctx, resp.Identity, &resp.Diagnostics, *e.home(&plan).uid, namespace, name)
}

func (e *envelope[M, P]) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state M
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	base := P(&state).base()
	usual := defaultTimeout
	if e.deleteTimeout > 0 {
		usual = e.deleteTimeout
	}
	limit, diagnostics := base.Timeouts.Delete(ctx, usual)
	resp.Diagnostics.Append(diagnostics...)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ctx, record := cluster.WithRecord(ctx)

	doing := fmt.Sprintf("Destroying %s failed", e.describe(&state))
	home := e.home(&state)
	c, where, err := e.find(ctx, &state)
	var other member
	if err == nil && where == reached && e.manager != nil {
		// One that was rebuilt is as gone as one that is dead: what the manager has of it goes all the same.
		var its standing
		if other, its, err = e.findOther(ctx, &state, true); its == deferred {
			where, home = deferred, memberSeat(base)
		}
	}
	if err == nil && where == deferred {
		err = &cluster.Problem{
			Attribute: home.attribute, Summary: doing,
			Detail: fmt.Sprintf("The connection of cluster %q is not known, so nothing can be destroyed on it. Keep its entry in `clusters` known until its resources are destroyed.", home.key.ValueString()),
		}
	}
	if err != nil {
		addError(&resp.Diagnostics, doing, err, nil)
		return
	}
	if where == rebuilt {
		// What was pinned to the old cluster went with it.
		return
	}
	kept := private{had: req.Private}
	call := &call[M]{
		fleet:   e.provider.fleet,
		cluster: c, member: other, owner: e.owner(c, &state), state: &state, changing: true, marked: kept.recall(ctx, keyMarked) != nil,
		private: kept, diagnostics: &resp.Diagnostics,
	}
	defer e.provider.turns.take(e.home(&state).uid.ValueString() + "/" + call.owner.String())()
	if err := ended(ctx, doing, limit, e.remove(ctx, call)); err != nil {
		addError(&resp.Diagnostics, doing, err, record.Lines())
	}
}

// owner is who the marks of a resource name.
func (e *envelope[M, P]) owner(c *cluster.Cluster, model P) kube.Owner {
	return kube.Owner{Configuration: c.Owner(), Resource: e.name + "." + e.nameOf(model)}
}

// nameOf is what tells a resource from others of its type on a cluster.
func (e *envelope[M, P]) nameOf(model P) string {
	namespace, name := e.object(model)
	if e.namespaced && name.ValueString() != "" {
		return namespace.ValueString() + "/" + name.ValueString()
	}
	return name.ValueString()
}

// describe names a resource in messages, which must differ between resources: the runners fold equal ones together.
func (e *envelope[M, P]) describe(model P) string {
	where := ""
	if key := e.home(model).key.ValueString(); key != "" {
		where = fmt.Sprintf(" on cluster %q", key)
	}
	if name := e.nameOf(model); name != "" {
		return fmt.Sprintf("berth_%s %q%s", e.name, name, where)
	}
	return "berth_" + e.name + where
}

// importID is the ID of a resource; unknown as long as a part of it is.
func (e *envelope[M, P]) importID(model P) types.String {
	namespace, name := e.object(model)
	key, member := *e.home(model).key, model.base().Cluster
	if key.IsUnknown() || member.IsUnknown() || name.IsUnknown() || e.namespaced && namespace.IsUnknown() {
		return types.StringUnknown()
	}
	id := key.ValueString() + "/"
	if e.manager != nil {
		id += member.ValueString() + "/"
	}
	return types.StringValue(id + e.nameOf(model))
}
