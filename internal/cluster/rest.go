package cluster

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ToRESTConfig is a configuration for libraries that make clients of their own: all of them go over the cluster's one
// HTTP client, which has the credentials. Together with ToDiscoveryClient and ToRESTMapper it makes a Cluster what the
// Helm SDK calls a RESTClientGetter.
func (c *Cluster) ToRESTConfig() (*rest.Config, error) {
	if err := c.connect(); err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: c.config.Host, Transport: c.transport, Dial: c.dial, Proxy: c.besides,
		UserAgent: c.config.UserAgent, QPS: -1, Timeout: requestTimeout,
	}, nil
}

// ToDiscoveryClient is the cluster's one discovery, which asks the API server once.
func (c *Cluster) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	if err := c.connect(); err != nil {
		return nil, err
	}
	return c.discovery, nil
}

// ToRESTMapper is the cluster's one mapper of kinds.
func (c *Cluster) ToRESTMapper() (meta.RESTMapper, error) {
	if err := c.connect(); err != nil {
		return nil, err
	}
	return c.mapper, nil
}

// Kinds are all kinds that the API server serves, as group/version to kinds, from the one discovery. Groups that do not
// answer are left out.
func (c *Cluster) Kinds(_ context.Context) (map[string][]string, error) {
	if err := c.connect(); err != nil {
		return nil, err
	}
	_, lists, err := c.discovery.ServerGroupsAndResources()
	if _, partly := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err); err != nil && !partly {
		return nil, c.classify(err)
	}
	kinds := map[string][]string{}
	for _, list := range lists {
		kinds[list.GroupVersion] = nil
		for _, resource := range list.APIResources {
			kinds[list.GroupVersion] = append(kinds[list.GroupVersion], resource.Kind)
		}
	}
	return kinds, nil
}

// Forget makes the next look at the API server's kinds a new one, because CRDs came or went.
func (c *Cluster) Forget() {
	if c.connect() == nil {
		c.mapper.Reset()
	}
}

// Patch sends a patch of any form to an object; with dryRun the server only says what would come of it. The answer is
// the whole object.
func (c *Cluster) Patch(ctx context.Context, kind Kind, namespace, name string, form types.PatchType, body []byte, fieldManager string, dryRun bool) (*unstructured.Unstructured, error) {
	if err := c.connect(); err != nil {
		return nil, err
	}
	options := metav1.PatchOptions{FieldManager: fieldManager}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return c.patch(ctx, kind, namespace, name, form, body, options)
}

// PatchStatus sends a patch of any form to the status of an object, which a patch of the object itself leaves alone.
func (c *Cluster) PatchStatus(ctx context.Context, kind Kind, namespace, name string, form types.PatchType, body []byte, fieldManager string) (*unstructured.Unstructured, error) {
	if err := c.connect(); err != nil {
		return nil, err
	}
	return c.patch(ctx, kind, namespace, name, form, body, metav1.PatchOptions{FieldManager: fieldManager}, "status")
}
