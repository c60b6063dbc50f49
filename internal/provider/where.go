package provider

import (
	"context"
	"errors"
	"fmt"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// standing is how a resource in the state stands to the cluster that its key leads to now.
type standing int

const (
	// reached: it is the right cluster.
	reached standing = iota
	// deferred: the connection is not known yet.
	deferred
	// rebuilt: the entry's `uid` says that the cluster was rebuilt, so what was pinned to the old one is gone.
	rebuilt
)

// connect returns the cluster of a place and its UID.
func (e *envelope[M, P]) connect(ctx context.Context, at seat) (*cluster.Cluster, string, error) {
	key := at.key.ValueString()
	c, err := e.provider.fleet.Cluster(key)
	if err != nil {
		if errors.Is(err, cluster.ErrDeferred) {
			err = &cluster.Problem{
				Attribute: at.attribute, Summary: fmt.Sprintf("The connection of cluster %q is still not known", key),
				Detail: fmt.Sprintf("clusters[%q] has a value that is unknown even now, at the apply. Make sure that the resource it comes from is created before this one.", key),
			}
		}
		return nil, "", err
	}
	uid, err := c.UID(ctx)
	return c, uid, err
}

// find returns the cluster of a resource in the state and makes sure that it is the one the resource is pinned to. A
// key that was renamed is found again by the UID, and written to the state under its new name.
func (e *envelope[M, P]) find(ctx context.Context, model P) (*cluster.Cluster, standing, error) {
	if model.base().adrift() {
		return nil, reached, &cluster.Problem{
			Attribute: "cluster", Summary: fmt.Sprintf("%s was moved here, and its cluster is not known yet", e.describe(model)),
			Detail: "refusing: the state that it was moved from names no cluster, so nothing can be destroyed on it. Apply it once with its resource block in place, which pins it to its cluster; then take it out.",
		}
	}
	return e.findAt(ctx, e.home(model))
}

// findAt is find for one place of a model.
func (e *envelope[M, P]) findAt(ctx context.Context, at seat) (*cluster.Cluster, standing, error) {
	pinned, key := at.uid.ValueString(), at.key.ValueString()
	c, err := e.provider.fleet.Cluster(key)
	if errors.Is(err, cluster.ErrDeferred) {
		return nil, deferred, nil
	}
	if err != nil {
		if pinned == "" {
			return nil, reached, err
		}
		renamed, again := e.provider.fleet.ByUID(ctx, pinned)
		if errors.Is(again, cluster.ErrDeferred) {
			return nil, deferred, nil
		}
		if renamed == nil {
			return nil, reached, goneKey(e.provider.fleet, at, pinned)
		}
		*at.key = stringValue(renamed.Name())
		return renamed, reached, nil
	}
	uid, err := c.UID(ctx)
	if err != nil {
		return c, reached, err
	}
	if pinned != "" && pinned != uid {
		if c.PinnedUID() == uid {
			return c, rebuilt, nil
		}
		return c, reached, wrongCluster(c, at, pinned, uid)
	}
	return c, reached, nil
}

func goneKey(fleet *cluster.Fleet, at seat, uid string) error {
	key := at.key.ValueString()
	return &cluster.Problem{
		Attribute: at.attribute, Summary: fmt.Sprintf("Cluster %q is no longer in the provider configuration", key),
		Detail: fmt.Sprintf("The state has a resource on cluster %q (UID %s), which is not in the provider's `clusters` map, and no other entry leads to a cluster with that UID. The keys are: %s. "+
			"Keep the entry until the cluster's resources are destroyed, then take it out.", key, uid, kube.QuoteAll(fleet.Names())),
	}
}

func wrongCluster(c *cluster.Cluster, at seat, pinned, found string) error {
	return &cluster.Problem{
		Attribute: at.attribute, Summary: fmt.Sprintf("Cluster %q is another cluster now", c.Name()),
		Detail: fmt.Sprintf("refusing: the resource was applied to the cluster with UID %s, but clusters[%q] now leads to the one with UID %s at %s. Nothing was applied. "+
			"Point the entry back at the first cluster. If that one was rebuilt and this is it, set clusters[%q].uid = %q: what was pinned to the old cluster then leaves the state and is created afresh.",
			pinned, c.Name(), found, c.Server(), c.Name(), found),
	}
}
