package cluster

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// claims are who of this process wants what there can only be one of.
type claims struct {
	mutex sync.Mutex
	by    map[string]string
}

// Claim registers that somebody wants what there can only be one of on the cluster, such as "namespace/team", and
// returns who wanted it first: by itself, or the other one. Two resources of one plan meet here, before either is
// written.
func (c *Cluster) Claim(what, by string) string {
	c.claims.mutex.Lock()
	defer c.claims.mutex.Unlock()
	if c.claims.by == nil {
		c.claims.by = map[string]string{}
	}
	if first, claimed := c.claims.by[what]; claimed {
		return first
	}
	c.claims.by[what] = by
	return by
}

// Labelled returns the metadata of the objects of a kind that carry a label, from the list that Exists reads, sorted by
// namespace and name; none where the credential may not list the kind.
func (c *Cluster) Labelled(ctx context.Context, kind Kind, key, value string) ([]*unstructured.Unstructured, error) {
	all, err := c.sorted(ctx, scope{kind: kind, metadata: true})
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	var found []*unstructured.Unstructured
	for _, object := range all {
		if object.GetLabels()[key] == value {
			found = append(found, object)
		}
	}
	return found, err
}
