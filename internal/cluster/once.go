package cluster

import "context"

// Once answers a question about the cluster once per process, however many resources ask it, such as whether a dry-run
// pod kept its fields. A question that could not be answered is asked again by the next caller.
func Once[T any](ctx context.Context, c *Cluster, question string, ask func() (T, error)) (T, error) {
	answer, err := c.answers.get(ctx, question, func() (any, error) { return ask() })
	if err != nil {
		var none T
		return none, err
	}
	return answer.(T), nil
}
