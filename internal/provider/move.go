package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// MoveState takes over the state of another provider's resource, for a `moved` block.
func (e *envelope[M, P]) MoveState(context.Context) []resource.StateMover { return e.movers }

// takeOver fills what a state that was moved here lacks, from the cluster that the plan has found for it. It writes
// nothing there.
func (e *envelope[M, P]) takeOver(ctx context.Context, call *call[M]) error {
	seen := *call.plan
	reading := *call
	reading.plan, reading.state = nil, &seen
	found, err := e.read(ctx, &reading)
	if err != nil {
		return err
	}
	if !found {
		return notThere(e.describe(call.plan), call.cluster)
	}
	keepPromises(call.plan, &seen)
	*call.plan = seen
	call.private = reading.private
	return nil
}

// notThere is the refusal to pin a state that was moved here to a cluster where nothing of it is.
func notThere(what string, c *cluster.Cluster) error {
	return &cluster.Problem{
		Attribute: "cluster", Summary: fmt.Sprintf("%s was moved here, and is not on that cluster", what),
		Detail: fmt.Sprintf("refusing: the state that it was moved from names no cluster, and %s has no such object. Set `cluster` to the one that has it. If it is gone for good, forget it (a `removed` block, or `state rm`), and it is created afresh.", c.Context()),
	}
}
