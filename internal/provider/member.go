package provider

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// seat is a cluster's place in a model: the attribute that names its key, the key, and the UID that it is pinned to.
type seat struct {
	attribute string
	key, uid  *types.String
}

// memberSeat is the place of `cluster`.
func memberSeat(base *common) seat {
	return seat{attribute: "cluster", key: &base.Cluster, uid: &base.ClusterUID}
}

// home is the place of the cluster that a resource's calls are on: that of its manager where it has one.
func (e *envelope[M, P]) home(model P) seat {
	if e.manager != nil {
		return e.manager(model)
	}
	return memberSeat(model.base())
}

// seats are the places of all clusters of a resource, the home first.
func (e *envelope[M, P]) seats(model P) []seat {
	if e.manager == nil {
		return []seat{e.home(model)}
	}
	return []seat{e.home(model), memberSeat(model.base())}
}

// isKey tells whether an attribute is the key of a cluster.
func (e *envelope[M, P]) isKey(name string) bool {
	return name == "cluster" || e.manager != nil && name == e.manager(P(new(M))).attribute
}

// samePlace tells whether two models name their clusters by the same keys.
func (e *envelope[M, P]) samePlace(a, b P) bool {
	others := e.seats(b)
	for i, one := range e.seats(a) {
		if !one.key.Equal(*others[i].key) {
			return false
		}
	}
	return true
}

// member is the cluster that a manager manages, which may be silent or gone while the manager is well.
type member struct {
	// cluster is nil while its connection is not known yet.
	cluster *cluster.Cluster
	// err is why it can't be asked anything; nil when it answers.
	err error
	// rebuilt is set at a destroy when the entry's `uid` says that another cluster stands in its place.
	rebuilt bool
}

// answers tells whether the member's connection is known and it can be asked.
func (m member) answers() bool { return m.cluster != nil && m.err == nil }

// connectAll connects to all clusters of a resource for a write, makes sure that they are the ones that the plan was
// made for, or that the state is pinned to (nil where there is none), and fills their UIDs in.
func (e *envelope[M, P]) connectAll(ctx context.Context, plan, state P) (*cluster.Cluster, member, error) {
	var found []*cluster.Cluster
	for i, one := range e.seats(plan) {
		if i > 0 {
			if err := e.guard(ctx, plan); err != nil {
				return nil, member{}, err
			}
		}
		c, uid, err := e.connect(ctx, one)
		if err != nil {
			return nil, member{}, err
		}
		pinned := *one.uid
		if state != nil {
			pinned = *e.seats(state)[i].uid
		}
		if !pinned.IsUnknown() && pinned.ValueString() != uid {
			return nil, member{}, wrongCluster(c, one, pinned.ValueString(), uid)
		}
		*one.uid = types.StringValue(uid)
		found = append(found, c)
	}
	if len(found) == 1 {
		return found[0], member{}, nil
	}
	return found[0], member{cluster: found[1]}, nil
}

// findOther is find for the member. That it can't be reached is no error but a part of the answer: the manager holds what
// there is to read and to take away. At a destroy, which may come after the end of the cluster, it may refuse us too, and
// may be another cluster by the word of its entry.
func (e *envelope[M, P]) findOther(ctx context.Context, model P, destroying bool) (member, standing, error) {
	at := memberSeat(model.base())
	if err := e.guard(ctx, model); err != nil {
		return member{}, reached, err
	}
	c, where, err := e.findAt(ctx, at)
	var connection *cluster.ConnectionError
	if err != nil && (cluster.Unreachable(err) || destroying && c != nil && errors.As(err, &connection)) {
		return member{cluster: c, err: err}, reached, nil
	}
	if err != nil {
		return member{}, where, err
	}
	if where == rebuilt && destroying {
		return member{cluster: c, rebuilt: true, err: &cluster.Problem{
			Attribute: at.attribute, Summary: fmt.Sprintf("Cluster %q was rebuilt", c.Name()),
			Detail: fmt.Sprintf("The entry's uid says that the cluster with UID %s is gone, and that %s stands in its place.", at.uid.ValueString(), c.PinnedUID()),
		}}, reached, nil
	}
	if where == reached && at.uid.IsNull() {
		uid, err := c.UID(ctx)
		if err != nil {
			return member{cluster: c, err: err}, reached, nil //nolint:nilerr // that it can't be asked is a part of the answer
		}
		*at.uid = types.StringValue(uid)
	}
	return member{cluster: c}, where, nil
}

// guard asks the resource whether its member may be dialled at all.
func (e *envelope[M, P]) guard(ctx context.Context, model P) error {
	c, err := e.provider.fleet.Cluster(model.base().Cluster.ValueString())
	if e.memberGuard == nil || err != nil {
		return nil //nolint:nilerr // a key without a cluster is not dialled, and told elsewhere
	}
	manager, err := e.provider.fleet.Cluster(e.home(model).key.ValueString())
	if err != nil {
		return nil //nolint:nilerr // nothing goes on without a manager, which is told elsewhere
	}
	return e.memberGuard(ctx, model, manager, c)
}

// planMember settles `cluster` and `cluster_uid` of a resource with a manager, and connects where that is possible. A
// member that can't be reached is left to the resource's own checks.
func (e *envelope[M, P]) planMember(ctx context.Context, call *call[M], resp *resource.ModifyPlanResponse) {
	base, written := P(call.plan).base(), P(call.config).base()
	at := memberSeat(base)
	if written.Cluster.IsNull() {
		key := ""
		if e.memberDefault != nil {
			key = e.memberDefault(call.plan)
		}
		if key == "" {
			addError(&resp.Diagnostics, "No cluster", &cluster.Problem{
				Attribute: "cluster", Summary: fmt.Sprintf("berth_%s needs a `cluster`", e.name),
				Detail: "It is on two clusters, and nothing says which one is the other. Set `cluster` to its key in the provider's `clusters`.",
			}, nil)
			return
		}
		base.Cluster = types.StringValue(key)
	}
	if base.Cluster.IsUnknown() {
		e.putOff(call, "it is not known yet which cluster it is about")
		return
	}
	c, err := e.provider.fleet.Cluster(base.Cluster.ValueString())
	if errors.Is(err, cluster.ErrDeferred) {
		e.putOff(call, fmt.Sprintf("the connection of cluster %q is not known yet", base.Cluster.ValueString()))
		return
	}
	var uid string
	if err == nil {
		err = e.guard(ctx, call.plan)
	}
	if err == nil {
		uid, err = c.UID(ctx)
	}
	if err != nil && cluster.Unreachable(err) && call.state != nil {
		call.member = member{cluster: c, err: err}
		return
	}
	if err != nil {
		e.planError(call.plan, call.changing, err, resp)
		return
	}
	if call.state != nil {
		e.planMove(call, c, at, memberSeat(P(call.state).base()), uid, resp)
	} else {
		base.ClusterUID = types.StringValue(uid)
	}
	call.member = member{cluster: c}
}

// planMove handles an update: the same cluster under another key is a change in place, another cluster replaces.
func (e *envelope[M, P]) planMove(call *call[M], c *cluster.Cluster, at, was seat, uid string, resp *resource.ModifyPlanResponse) {
	if uid == was.uid.ValueString() {
		return
	}
	if at.key.Equal(*was.key) {
		addError(&resp.Diagnostics, "Wrong cluster", wrongCluster(c, at, was.uid.ValueString(), uid), nil)
		return
	}
	call.replaced = true
	resp.RequiresReplace = append(resp.RequiresReplace, path.Root(at.attribute))
}
