package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// listsAtOnce bounds how many kinds of a namespace are listed at the same time.
const listsAtOnce = 8

// everyNamespaceHas are the objects that Kubernetes itself puts into every namespace, of the core group.
var everyNamespaceHas = []string{"ServiceAccount/default", "ConfigMap/kube-root-ca.crt"}

// byproducts are kinds that come with other objects and go with them: nobody loses anything with them alone. The group
// counts: a CRD may call its kind Lease too.
var byproducts = []schema.GroupKind{
	{Kind: "Event"},
	{Group: "events.k8s.io", Kind: "Event"},
	{Kind: "Endpoints"},
	{Group: "discovery.k8s.io", Kind: "EndpointSlice"},
	{Group: "coordination.k8s.io", Kind: "Lease"},
}

// Leftovers lists what in a namespace is not ours, volume claims included, each as Kind/name, sorted. An object is ours
// when it carries the resource's mark, or when its owner references lead to one that does. What Kubernetes itself puts
// into every namespace does not count, nor what is being deleted already. going tells of further objects that count as ours. A kind that cannot be listed is an error, since nothing is known of its objects.
func Leftovers(ctx context.Context, c *cluster.Cluster, namespace string, terms Terms, going ...func(*unstructured.Unstructured) bool) ([]string, error) {
	kinds, silent, err := c.NamespacedKinds(ctx)
	if err != nil {
		return nil, err
	}
	if len(silent) > 0 {
		return nil, &cluster.Problem{
			Summary: fmt.Sprintf("What is in namespace %s cannot be known", namespace),
			Detail: fmt.Sprintf("These API groups are registered on %s but do not answer: %s. Their objects would be lost with the namespace. "+
				"Bring the groups back, or remove their APIServices.", c.Context(), strings.Join(silent, ", ")),
		}
	}
	all, err := metadataOf(ctx, c, kinds, namespace)
	if err != nil {
		return nil, err
	}
	ours := map[types.UID]bool{}
	for _, object := range all {
		if terms.Marked(object) || slices.ContainsFunc(going, func(goes func(*unstructured.Unstructured) bool) bool { return goes(object) }) {
			ours[object.GetUID()] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, object := range all {
			if !ours[object.GetUID()] && slices.ContainsFunc(object.GetOwnerReferences(), ownedBy(ours)) {
				ours[object.GetUID()], grown = true, true
			}
		}
	}
	var foreign []string
	for _, object := range all {
		name, core := object.GetKind()+"/"+object.GetName(), object.GroupVersionKind().Group == ""
		if object.GetDeletionTimestamp() != nil {
			continue // somebody has decided already that it goes
		}
		if ours[object.GetUID()] || core && slices.Contains(everyNamespaceHas, name) {
			continue
		}
		foreign = append(foreign, name)
	}
	slices.Sort(foreign)
	return slices.Compact(foreign), nil
}

func metadataOf(ctx context.Context, c *cluster.Cluster, kinds []cluster.Kind, namespace string) ([]*unstructured.Unstructured, error) {
	var (
		group sync.WaitGroup
		mutex sync.Mutex
		all   []*unstructured.Unstructured
		first error
		slots = make(chan struct{}, listsAtOnce)
	)
	for _, kind := range kinds {
		if slices.Contains(byproducts, schema.GroupKind{Group: kind.Group, Kind: kind.Kind}) {
			continue
		}
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			objects, err := c.MetadataIn(ctx, kind, namespace)
			mutex.Lock()
			defer mutex.Unlock()
			switch {
			case err == nil:
				all = append(all, objects...)
			case apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err):
				// The CRD went in the meantime, or the kind only pretends to be listable.
			case first == nil:
				first = fmt.Errorf("listing %s in namespace %s: %w", kind.Resource, namespace, err)
			}
		})
	}
	group.Wait()
	return all, first
}

func ownedBy(uids map[types.UID]bool) func(reference metav1.OwnerReference) bool {
	return func(reference metav1.OwnerReference) bool { return uids[reference.UID] }
}
