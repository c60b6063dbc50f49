package cluster

import (
	"context"
	"errors"
	"sort"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
)

// askAgainAfter is how old an answer is that knows nothing of a kind before the API server is asked again: the kind's CRD
// may be new, and a hundred objects of an unknown kind must not mean a hundred discoveries.
const askAgainAfter = 2 * time.Second

// KindOf resolves a group and kind to what the API server serves, in its preferred version when none is given. The
// answer comes from one aggregated discovery per process, without OpenAPI; a kind that is unknown makes it ask again,
// since its CRD may be new. The error satisfies meta.IsNoMatchError when there is no such kind.
func (c *Cluster) KindOf(_ context.Context, gvk schema.GroupVersionKind) (Kind, error) {
	if err := c.connect(); err != nil {
		return Kind{}, err
	}
	var versions []string
	if gvk.Version != "" {
		versions = append(versions, gvk.Version)
	}
	mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), versions...)
	if meta.IsNoMatchError(err) && c.stale() {
		mapping, err = c.mapper.RESTMapping(gvk.GroupKind(), versions...)
	}
	if meta.IsNoMatchError(err) {
		return Kind{}, err
	}
	if err != nil {
		return Kind{}, c.classify(err)
	}
	return Kind{
		Group: mapping.Resource.Group, Version: mapping.Resource.Version, Resource: mapping.Resource.Resource,
		Kind: mapping.GroupVersionKind.Kind, Namespaced: mapping.Scope.Name() == "namespace",
	}, nil
}

// stale forgets what is known of the kinds, if that is not new; false when it is.
func (c *Cluster) stale() bool {
	c.asked.Lock()
	defer c.asked.Unlock()
	if time.Since(c.askedAt) < askAgainAfter {
		return false
	}
	c.askedAt = time.Now()
	c.mapper.Reset()
	return true
}

// NamespacedKinds are all kinds whose objects live in namespaces and can be listed and deleted, from one discovery.
// Groups that did not answer (an aggregated API that is down) are named in the second result: nothing is known of
// their objects.
func (c *Cluster) NamespacedKinds(_ context.Context) (kinds []Kind, silent []string, err error) {
	if err := c.connect(); err != nil {
		return nil, nil, err
	}
	lists, err := discovery.ServerPreferredNamespacedResources(c.discovery)
	if _, partly := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err); partly {
		// What did not answer before may do so now, or be gone.
		c.discovery.Invalidate()
		lists, err = discovery.ServerPreferredNamespacedResources(c.discovery)
	}
	if failed, ok := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err); ok {
		for group := range failed.Groups {
			silent = append(silent, group.String())
		}
		sort.Strings(silent)
	} else if err != nil {
		return nil, nil, c.classify(err)
	}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, resource := range list.APIResources {
			if resource.Namespaced && hasVerbs(resource.Verbs, "list", "delete") {
				kinds = append(kinds, Kind{
					Group: version.Group, Version: version.Version, Resource: resource.Name, Kind: resource.Kind, Namespaced: true,
				})
			}
		}
	}
	return kinds, silent, nil
}

func hasVerbs(have metav1.Verbs, wanted ...string) bool {
	return sets.New(have...).HasAll(wanted...)
}
