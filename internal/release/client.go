package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	helmkube "helm.sh/helm/v3/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// atOnce bounds how many objects of a kind are written at the same time.
const atOnce = 8

// client writes the objects of a release for Helm's actions, whose kube client it is: with one field manager, through
// the cluster's one connection and its snapshot, interruptible, and never over what is somebody else's.
type client struct {
	ctx     context.Context
	cluster *cluster.Cluster
	ref     Ref
	terms   kube.Terms
	watch   Watch
	hidden  hider
	// crds are those in the chart's crds/ folder.
	crds []*unstructured.Unstructured
	// before are the objects of the current revision. Helm has them too, but among those that it is to adopt.
	before []object
	// unfinished are the objects of revisions that were begun after the one that Helm takes for the current one: what
	// they brought has to go, too, unless it is wanted.
	unfinished []object
	mutex      sync.Mutex
	// problem is the first diagnostic: Helm keeps just its text.
	problem error
	// removed is set once the objects of the release were deleted; stays says what that left, and why.
	removed bool
	stays   []string
}

var (
	_ helmkube.Interface                    = (*client)(nil)
	_ helmkube.InterfaceExt                 = (*client)(nil)
	_ helmkube.InterfaceThreeWayMerge       = (*client)(nil)
	_ helmkube.InterfaceDeletionPropagation = (*client)(nil)
)

// IsReachable is asked by each action first; every request finds out by itself.
func (*client) IsReachable() error { return nil }

// Build reads the objects of a manifest.
func (k *client) Build(reader io.Reader, _ bool) (helmkube.ResourceList, error) {
	data, err := io.ReadAll(reader)
	if err != nil {
		return nil, err
	}
	parsed, err := parseManifest(string(data))
	if err != nil {
		return nil, k.note(err)
	}
	objects, err := resolve(k.ctx, k.cluster, k.ref, parsed, k.crds)
	if err != nil {
		return nil, k.note(err)
	}
	list := make(helmkube.ResourceList, len(objects))
	for i, one := range objects {
		list[i] = k.info(one)
	}
	return list, nil
}

// info is an object as Helm passes it around.
func (k *client) info(one object) *resource.Info {
	reach := meta.RESTScopeRoot
	if one.kind.Namespaced {
		reach = meta.RESTScopeNamespace
	}
	return &resource.Info{
		Client: &existence{client: k, object: one}, Mapping: &meta.RESTMapping{Resource: one.kind.GVR(), GroupVersionKind: one.kind.GVK(), Scope: reach},
		Namespace: one.GetNamespace(), Name: one.GetName(), Object: one.Unstructured,
	}
}

func objectsOf(list helmkube.ResourceList) []object {
	objects := make([]object, 0, len(list))
	for _, info := range list {
		content, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		gvr, gvk := info.Mapping.Resource, info.Mapping.GroupVersionKind
		objects = append(objects, object{Unstructured: content, kind: cluster.Kind{
			Group: gvr.Group, Version: gvr.Version, Resource: gvr.Resource, Kind: gvk.Kind, Namespaced: info.Namespaced(),
		}})
	}
	return objects
}

// Create makes objects of a first install, or of a hook.
func (k *client) Create(list helmkube.ResourceList) (*helmkube.Result, error) {
	objects := objectsOf(list)
	if len(objects) > 0 && objects[0].GetAnnotations()[helmHook] == "" {
		// What an unfinished install made under other names has to go.
		return k.Update(nil, list, false)
	}
	return &helmkube.Result{Created: list}, k.write(objects, k.putHook)
}

// Update makes of the release's objects what target says: what is missing is created, what differs is patched, and what is no longer
// wanted is deleted.
func (k *client) Update(_, target helmkube.ResourceList, _ bool) (*helmkube.Result, error) {
	wanted := objectsOf(target)
	before := append(slices.Clone(k.before), k.unfinished...)
	result := &helmkube.Result{Updated: target}
	err := k.write(wanted, func(one object) error {
		var originals []*unstructured.Unstructured
		for _, old := range before {
			if old.same(one) {
				originals = append(originals, old.Unstructured)
			}
		}
		return k.put(one, originals)
	})
	if err != nil {
		return result, err
	}
	var gone []object
	for _, old := range before {
		if !slices.ContainsFunc(wanted, old.same) && !slices.ContainsFunc(gone, old.same) && !among(k.crds, old) {
			gone = append(gone, old)
		}
	}
	slices.Reverse(gone)
	return result, k.remove(gone)
}

// among tells whether an object is one of the CRDs in the chart's crds/ folder: a chart may have moved it there, and it is
// not to go with the template that it was.
func among(crds []*unstructured.Unstructured, one object) bool {
	return one.GroupVersionKind().GroupKind() == kindOfCRD && slices.ContainsFunc(crds, func(crd *unstructured.Unstructured) bool {
		return crd.GetName() == one.GetName()
	})
}

// UpdateThreeWayMerge is Update: ours always merges three ways.
func (k *client) UpdateThreeWayMerge(original, target helmkube.ResourceList, force bool) (*helmkube.Result, error) {
	return k.Update(original, target, force)
}

// write writes objects in their order, and waits for CRDs before it goes on.
func (k *client) write(objects []object, put func(object) error) error {
	return k.each(objects, put, k.established)
}

// each does something to objects in their order, several of one kind at a time, and then something with all of the kind.
func (k *client) each(objects []object, do func(object) error, after func([]object) error) error {
	for len(objects) > 0 {
		same := 1
		for same < len(objects) && objects[same].kind == objects[0].kind {
			same++
		}
		batch := objects[:same]
		objects = objects[same:]
		var group sync.WaitGroup
		slots := make(chan struct{}, atOnce)
		failures := make([]error, len(batch))
		for i, one := range batch {
			slots <- struct{}{}
			group.Go(func() {
				defer func() { <-slots }()
				failures[i] = do(one)
			})
		}
		group.Wait()
		if err := errors.Join(failures...); err != nil {
			for _, failure := range failures {
				_ = k.note(failure)
			}
			return err
		}
		if err := after(batch); err != nil {
			return k.note(err)
		}
	}
	return nil
}

// established waits until CRDs are served, so that objects of them can be written.
func (k *client) established(batch []object) error {
	if batch[0].GroupVersionKind().GroupKind() != kindOfCRD {
		return nil
	}
	for _, crd := range batch {
		if _, err := kube.WaitReady(k.ctx, k.cluster, crd.kind, "", crd.GetName()); err != nil {
			return err
		}
	}
	k.cluster.Forget()
	return nil
}

// put creates an object, or patches the one that is there. originals are its manifests in earlier revisions.
func (k *client) put(one object, originals []*unstructured.Unstructured) error {
	wanted := owned(one, k.ref)
	live, err := k.current(wanted, len(originals) > 0)
	if err != nil {
		return err
	}
	if live == nil {
		_, err := k.cluster.Create(k.ctx, wanted.kind, wanted.Unstructured, kube.FieldManager)
		if !apierrors.IsAlreadyExists(err) {
			return k.refused(wanted, "created", err)
		}
		if live, err = k.cluster.Fetch(k.ctx, wanted.kind, wanted.GetNamespace(), wanted.GetName()); err != nil || live == nil {
			return err
		}
	}
	if live.GetDeletionTimestamp() != nil {
		// What is being deleted cannot be kept: it is made anew as soon as it is gone.
		if err := kube.WaitGone(k.ctx, k.cluster, wanted.kind, wanted.GetNamespace(), wanted.GetName(), live.GetUID()); err != nil {
			return err
		}
		_, err := k.cluster.Create(k.ctx, wanted.kind, wanted.Unstructured, kube.FieldManager)
		return k.refused(wanted, "created", err)
	}
	settled := k.settle(wanted, live)
	if len(originals) == 0 {
		originals = []*unstructured.Unstructured{wanted.Unstructured}
		if !belongs(live, k.ref) {
			if err := k.mayTake(wanted, live); err != nil {
				return err
			}
			// It was there before the release was: an uninstall leaves it.
			kube.SetAnnotation(settled.wanted, labelAdopted, "true")
		}
	}
	for _, original := range originals {
		form, patch, err := threeWay(settled.from(original, live), settled.wanted, live)
		if err != nil {
			return err
		}
		if patch == nil {
			continue
		}
		if live, err = k.cluster.Patch(k.ctx, wanted.kind, wanted.GetNamespace(), wanted.GetName(), form, patch, kube.FieldManager, false); err != nil {
			return k.refused(wanted, "changed", err)
		}
	}
	return nil
}

// current is the live object. Where nothing says that there should be one, the list of its kind is asked, and not the
// API server for each object.
func (k *client) current(one object, expected bool) (*unstructured.Unstructured, error) {
	if !expected {
		known, err := k.cluster.Exists(k.ctx, one.kind, one.GetNamespace(), one.GetName())
		if known == nil && (err == nil || apierrors.IsNotFound(err)) {
			return nil, nil
		}
	}
	return k.cluster.Fetch(k.ctx, one.kind, one.GetNamespace(), one.GetName())
}

// mayTake tells whether a live object that is not the release's may become it.
func (k *client) mayTake(wanted object, live *unstructured.Unstructured) error {
	return conflictsError(k.cluster, k.ref, conflicts(k.ref, k.terms, []clash{{object: wanted, live: live}}))
}

// putHook makes the object of a hook anew. One that an interrupted run left is replaced: a Job cannot be changed, and has
// to run again.
func (k *client) putHook(one object) error {
	live, err := k.cluster.Fetch(k.ctx, one.kind, one.GetNamespace(), one.GetName())
	if err != nil {
		return err
	}
	if live != nil && one.GroupVersionKind().GroupKind() == kindOfCRD && live.GetAnnotations()[helmHook] != "" {
		// With a CRD would go all its objects, whoever made them.
		form, patch, err := threeWay(one.Unstructured, one.Unstructured, live)
		if err != nil || patch == nil {
			return err
		}
		_, err = k.cluster.Patch(k.ctx, one.kind, "", one.GetName(), form, patch, kube.FieldManager, false)
		return k.refused(one, "changed", err)
	}
	if live != nil {
		if err := k.deleteHook(one, live); err != nil {
			return err
		}
		if err := kube.WaitGone(k.ctx, k.cluster, one.kind, one.GetNamespace(), one.GetName(), live.GetUID()); err != nil {
			return err
		}
	}
	created, err := k.cluster.Create(k.ctx, one.kind, one.Unstructured, kube.FieldManager)
	if err == nil {
		// By it the wait knows the object, also when it removes itself as soon as it is done.
		one.SetUID(created.GetUID())
	}
	return k.refused(one, "created", err)
}

func (k *client) deleteHook(one object, live *unstructured.Unstructured) error {
	if live.GetAnnotations()[helmHook] == "" {
		return &cluster.Problem{
			Summary: fmt.Sprintf("%s is not a hook of %s", one.key(), k.ref),
			Detail: fmt.Sprintf("The chart has a hook of this name, but what is on %s was put there by somebody else, and would have to be deleted. "+
				"It was left. Rename or remove it, or turn the hook off in the chart's values.", k.cluster.Context()),
		}
	}
	return k.cluster.Delete(k.ctx, one.kind, one.GetNamespace(), one.GetName(), live.GetUID())
}

// refused tells why the API server did not take an object.
func (k *client) refused(one object, what string, err error) error {
	if err == nil {
		return nil
	}
	text := k.hidden.text(err.Error())
	switch {
	case apierrors.IsInvalid(err) && what == "changed":
		return &cluster.Problem{
			Summary: fmt.Sprintf("%s of %s cannot be changed", one.key(), k.ref),
			Detail: fmt.Sprintf("The API server says: %s\nWhere a field can never change, the object has to be made anew: delete it (kubectl --context %s delete %s %s%s), and the next apply creates it.",
				text, k.cluster.Context(), strings.ToLower(one.GetKind()), one.GetName(), inNamespace(one)),
			Err: err,
		}
	case cluster.Unreachable(err) || k.ctx.Err() != nil:
		return err
	}
	return &cluster.Problem{Summary: fmt.Sprintf("%s of %s cannot be %s", one.key(), k.ref, what), Detail: text + "\nPut that right and apply again: the apply goes on from what is there.", Err: err}
}

func inNamespace(one object) string {
	if one.GetNamespace() == "" {
		return ""
	}
	return " -n " + one.GetNamespace()
}

// Wait waits until objects are ready by the rules of their kinds.
func (k *client) Wait(list helmkube.ResourceList, _ time.Duration) error {
	return k.note(kube.WaitAll(k.ctx, k.cluster, k.ref.String(), targetsOf(objectsOf(list)), helmSelector))
}

// WaitWithJobs is Wait: Jobs are ready when they are complete.
func (k *client) WaitWithJobs(list helmkube.ResourceList, limit time.Duration) error {
	return k.Wait(list, limit)
}

// WatchUntilReady waits for a hook: a Job or a Pod until it has done its work.
func (k *client) WatchUntilReady(list helmkube.ResourceList, _ time.Duration) error {
	for _, target := range targetsOf(objectsOf(list)) {
		if err := kube.WaitDone(k.ctx, k.cluster, target); err != nil {
			return k.note(err)
		}
	}
	return nil
}

// WaitForDelete waits until the cluster has none of the objects any more. What a removal left on purpose is not waited for.
func (k *client) WaitForDelete(list helmkube.ResourceList, _ time.Duration) error {
	return k.awaitGone(objectsOf(list))
}

// WaitAndGetCompletedPodPhase is what Helm's tests use, which berth does not run.
func (*client) WaitAndGetCompletedPodPhase(string, time.Duration) (corev1.PodPhase, error) {
	return "", errors.New("berth runs no tests of a chart")
}

// note keeps the first diagnostic.
func (k *client) note(err error) error {
	if err == nil {
		return nil
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.problem == nil {
		k.problem = err
	}
	return err
}

func targetsOf(objects []object) []kube.Target {
	targets := make([]kube.Target, len(objects))
	for i, one := range objects {
		targets[i] = kube.Target{Kind: one.kind, Namespace: one.GetNamespace(), Name: one.GetName(), UID: one.GetUID()}
	}
	return targets
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return err
}
