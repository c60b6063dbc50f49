package kube

import (
	"context"
	"slices"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// Prune removes what carries the owner's mark in a namespace but is no longer wanted, of the given kinds, and returns
// their names. It reads the list of what is ours, so it costs nothing where that is known.
func Prune(ctx context.Context, c *cluster.Cluster, owner Owner, namespace string, kinds []cluster.Kind, wanted []Object) ([]string, error) {
	var pruned []string
	for _, kind := range kinds {
		ours, err := c.OursIn(ctx, kind, namespace)
		if err != nil {
			return pruned, err
		}
		for _, live := range ours {
			if Inspect(live, owner).Standing != Ours || slices.ContainsFunc(wanted, func(object Object) bool {
				return object.Kind == kind && object.Desired.GetName() == live.GetName()
			}) {
				continue
			}
			if _, err := Remove(ctx, c, kind, namespace, live.GetName(), owner, false); err != nil {
				return pruned, err
			}
			pruned = append(pruned, Describe(live))
		}
	}
	return pruned, nil
}
