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
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// listsAtOnce bounds how many kinds of a namespace are listed at the same time.
const listsAtOnce = 8

// everyNamespaceHas are the objects that Kubernetes itself puts into every namespace.
var everyNamespaceHas = []string{"ServiceAccount/default", "ConfigMap/kube-root-ca.crt"}

// byproducts are kinds that come with other objects and go with them: nobody loses anything with them alone.
var byproducts = []string{"Event", "Endpoints", "EndpointSlice", "Lease"}

// Leftovers lists what in a namespace is not ours, volume claims included, each as Kind/name, sorted. An object is ours
// when it carries the owner's mark, or when its owner references lead to one that does. What Kubernetes itself puts
// into every namespace does not count. A kind that cannot be listed is an error, since nothing is known of its objects.
func Leftovers(ctx context.Context, c *cluster.Cluster, namespace string, owner Owner) ([]string, error) {
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
		if Inspect(object, owner).Standing == Ours {
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
		name := object.GetKind() + "/" + object.GetName()
		if ours[object.GetUID()] || slices.Contains(everyNamespaceHas, name) || slices.Contains(byproducts, object.GetKind()) {
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
		if slices.Contains(byproducts, kind.Kind) {
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
