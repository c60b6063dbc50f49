package cluster

import (
	"context"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Permission is one thing that a credential may or may not do.
type Permission struct {
	Verb        string // get, list, create, patch, delete, ...
	Group       string // "" is the core group
	Resource    string // plural
	Subresource string
	Namespace   string // "" is the whole cluster
	Name        string // "" is any
}

// String is the permission in the words of `kubectl auth can-i`.
func (p Permission) String() string {
	text := p.Verb + " " + p.Resource
	if p.Group != "" {
		text += "." + p.Group
	}
	if p.Subresource != "" {
		text += "/" + p.Subresource
	}
	if p.Name != "" {
		text += " " + p.Name
	}
	if p.Namespace != "" {
		text += " in namespace " + p.Namespace
	}
	return text
}

// reviews is the kind that answers permission questions; its objects are never stored.
var reviews = Kind{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews", Kind: "SelfSubjectAccessReview"}

// Missing asks the API server which of the permissions its credential lacks, in the order given. Each question is
// asked once per process, and one about a namespace only where the cluster-wide answer is no: twenty instances of an
// administrator cost what one costs.
func (c *Cluster) Missing(ctx context.Context, permissions []Permission) ([]Permission, error) {
	if err := c.connect(); err != nil {
		return nil, err
	}
	lacking := make([]bool, len(permissions))
	failures := make([]error, len(permissions))
	var group sync.WaitGroup
	for i, permission := range permissions {
		group.Go(func() {
			allowed, err := c.may(ctx, permission)
			lacking[i], failures[i] = err == nil && !allowed, err
		})
	}
	group.Wait()
	var missing []Permission
	for i, permission := range permissions {
		if failures[i] != nil {
			return nil, failures[i]
		}
		if lacking[i] {
			missing = append(missing, permission)
		}
	}
	return missing, nil
}

func (c *Cluster) may(ctx context.Context, permission Permission) (bool, error) {
	wider := permission
	wider.Namespace, wider.Name = "", ""
	if wider != permission {
		if allowed, err := c.may(ctx, wider); err != nil || allowed {
			return allowed, err
		}
	}
	return c.allowed.get(ctx, permission, func() (bool, error) { return c.review(ctx, permission) })
}

func (c *Cluster) review(ctx context.Context, permission Permission) (bool, error) {
	question := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: permission.Verb, Group: permission.Group, Resource: permission.Resource, Subresource: permission.Subresource,
			Namespace: permission.Namespace, Name: permission.Name,
		},
	}}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(question)
	if err != nil {
		return false, err
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(reviews.GVK())
	answer, err := c.resource(reviews, "").Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return false, c.classify(err)
	}
	allowed, _, err := unstructured.NestedBool(answer.Object, "status", "allowed")
	return allowed, err
}
