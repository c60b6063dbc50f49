package cluster

import (
	"context"
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/csaupgrade"
)

// ApplyOptions say how a server-side apply is done.
type ApplyOptions struct {
	// FieldManager owns the fields that are applied.
	FieldManager string
	// Force takes fields that another manager owns.
	Force bool
	// DryRun asks the server for the outcome without writing anything.
	DryRun bool
}

// Create posts a new object. The error satisfies apierrors.IsAlreadyExists when one has taken its name.
func (c *Cluster) Create(ctx context.Context, kind Kind, object *unstructured.Unstructured, fieldManager string) (*unstructured.Unstructured, error) {
	if err := c.connect(); err != nil {
		return nil, err
	}
	created, err := c.resource(kind, object.GetNamespace()).Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil {
		return nil, c.classify(err)
	}
	record(ctx, "created", kind, created.GetNamespace(), created.GetName())
	c.remember(kind, created)
	c.done(kind, created.GetNamespace(), created.GetName())
	return created, nil
}

// DryRunCreate asks what the server would make of an object, without writing it.
func (c *Cluster) DryRunCreate(ctx context.Context, object *unstructured.Unstructured, kind Kind) (*unstructured.Unstructured, error) {
	if err := c.connect(); err != nil {
		return nil, err
	}
	outcome, err := c.resource(kind, object.GetNamespace()).Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return nil, c.classify(err)
	}
	return outcome, nil
}

// Apply is a server-side apply of an object. Where `uid` is in its metadata, an object that was deleted and made anew
// in the meantime answers with a conflict.
func (c *Cluster) Apply(ctx context.Context, kind Kind, object *unstructured.Unstructured, options ApplyOptions) (*unstructured.Unstructured, error) {
	if err := c.connect(); err != nil {
		return nil, err
	}
	body, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	patch := metav1.PatchOptions{FieldManager: options.FieldManager, Force: &options.Force}
	if options.DryRun {
		patch.DryRun = []string{metav1.DryRunAll}
	}
	return c.patch(ctx, kind, object.GetNamespace(), object.GetName(), types.ApplyPatchType, body, patch)
}

// MergePatch changes just the fields that a JSON merge patch names.
func (c *Cluster) MergePatch(ctx context.Context, kind Kind, namespace, name string, patch []byte, fieldManager string) (*unstructured.Unstructured, error) {
	if err := c.connect(); err != nil {
		return nil, err
	}
	return c.patch(ctx, kind, namespace, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
}

// TakeFields turns what a field manager owns by having created the object into what it owns by server-side apply, so
// that a field which is no longer applied goes away. It writes only when there is something to turn.
func (c *Cluster) TakeFields(ctx context.Context, kind Kind, live *unstructured.Unstructured, fieldManager string) error {
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(fieldManager), fieldManager)
	if err != nil || patch == nil {
		return err
	}
	if err := c.connect(); err != nil {
		return err
	}
	_, err = c.patch(ctx, kind, live.GetNamespace(), live.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

func (c *Cluster) patch(ctx context.Context, kind Kind, namespace, name string, form types.PatchType, body []byte, options metav1.PatchOptions, subresources ...string) (*unstructured.Unstructured, error) {
	outcome, err := c.resource(kind, namespace).Patch(ctx, name, form, body, options, subresources...)
	if err != nil {
		return nil, c.classify(err)
	}
	if len(options.DryRun) == 0 {
		record(ctx, "changed", kind, namespace, name)
		c.remember(kind, outcome)
		c.done(kind, namespace, name)
	}
	return outcome, nil
}

// Delete asks for the deletion of the object with a UID, a workload with its pods, and counts one that is already
// gone, or whose name another object has taken since, as deleted.
func (c *Cluster) Delete(ctx context.Context, kind Kind, namespace, name string, uid types.UID) error {
	if err := c.connect(); err != nil {
		return err
	}
	options := metav1.DeleteOptions{PropagationPolicy: propagation(kind)}
	if uid != "" {
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	err := c.resource(kind, namespace).Delete(ctx, name, options)
	if err != nil && !apierrors.IsNotFound(err) && !(uid != "" && apierrors.IsConflict(err)) {
		return c.classify(err)
	}
	record(ctx, "deleted", kind, namespace, name)
	c.forget(kind, namespace, name)
	return nil
}

// DeleteAsSeen deletes an object only if nothing of it changed since it was read; the error satisfies
// apierrors.IsConflict when something did. A workload goes with its pods: the object is there until they are gone.
func (c *Cluster) DeleteAsSeen(ctx context.Context, kind Kind, seen *unstructured.Unstructured) error {
	if err := c.connect(); err != nil {
		return err
	}
	uid, version := seen.GetUID(), seen.GetResourceVersion()
	options := metav1.DeleteOptions{PropagationPolicy: propagation(kind), Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}}
	err := c.resource(kind, seen.GetNamespace()).Delete(ctx, seen.GetName(), options)
	if err != nil && !apierrors.IsNotFound(err) {
		return c.classify(err)
	}
	record(ctx, "deleted", kind, seen.GetNamespace(), seen.GetName())
	c.forget(kind, seen.GetNamespace(), seen.GetName())
	return nil
}

// propagation is how the dependants of an object go. A workload is there until its pods are gone: without it they would
// be ownerless for a moment, and look like somebody else's.
func propagation(kind Kind) *metav1.DeletionPropagation {
	policy := metav1.DeletePropagationBackground
	if kind.Group == Deployments.Group {
		policy = metav1.DeletePropagationForeground
	}
	return &policy
}

func (c *Cluster) resource(kind Kind, namespace string) dynamic.ResourceInterface {
	if kind.Namespaced && namespace != "" {
		return c.dynamic.Resource(kind.GVR()).Namespace(namespace)
	}
	return c.dynamic.Resource(kind.GVR())
}

func isInterrupted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func compareNames(a, b *unstructured.Unstructured) int {
	if order := strings.Compare(a.GetNamespace(), b.GetNamespace()); order != 0 {
		return order
	}
	return strings.Compare(a.GetName(), b.GetName())
}
