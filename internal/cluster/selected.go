package cluster

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Selected returns the objects of a kind that a label selector matches, in the whole cluster, sorted by namespace and
// name. One list serves all callers with the selector; written objects go through to it. The objects are shared: copy
// before changing one. Of Secrets, Helm's storage is listed only by a selector that asks for it (owner=helm).
func (c *Cluster) Selected(ctx context.Context, kind Kind, selector string) ([]*unstructured.Unstructured, error) {
	return c.sorted(ctx, scope{kind: kind, selector: selector})
}

// SelectedIn is Selected for one namespace: from the cluster-wide list, or from a list of that namespace where the
// credential may not list the whole cluster.
func (c *Cluster) SelectedIn(ctx context.Context, kind Kind, namespace, selector string) ([]*unstructured.Unstructured, error) {
	all, err := c.Selected(ctx, kind, selector)
	if apierrors.IsForbidden(err) {
		return c.sorted(ctx, scope{kind: kind, namespace: namespace, selector: selector})
	}
	if err != nil {
		return nil, err
	}
	var inside []*unstructured.Unstructured
	for _, object := range all {
		if object.GetNamespace() == namespace {
			inside = append(inside, object)
		}
	}
	return inside, nil
}

// LiveBy returns an object that should be in the list of a selector; nil when the cluster answered NotFound. One that
// the list lacks is asked for by name first, because a label is easily taken off.
func (c *Cluster) LiveBy(ctx context.Context, kind Kind, namespace, name, selector string) (*unstructured.Unstructured, error) {
	for _, at := range []scope{{kind: kind, selector: selector}, {kind: kind, namespace: namespace, selector: selector}} {
		listed, err := c.listed(ctx, at)
		if err == nil {
			if object := listed.get(namespace, name); object != nil {
				return object, nil
			}
			break
		}
		if !apierrors.IsForbidden(err) {
			return nil, err
		}
		if !kind.Namespaced {
			break
		}
	}
	return c.Fetch(ctx, kind, namespace, name)
}

// ofHelm tells whether a selector asks for Helm's storage.
func ofHelm(selector string) bool { return strings.Contains(selector, "owner=helm") }
