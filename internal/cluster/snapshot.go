package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// pageSize is how many objects one page of a list holds: client-go's own default for chunked lists.
	pageSize = 500
	// lookupsByName is how many foreign objects of a kind are asked for by name before their list is cheaper: a
	// plan that names two Secrets must not read every Secret of the cluster, one that names two hundred must.
	lookupsByName = 3
)

// OursSelector selects what berth applied, whichever configuration it was.
const OursSelector = "app.kubernetes.io/managed-by=berth"

// helmStorage is the type of the Secrets that hold Helm releases: megabytes that no check is interested in.
const helmStorage = "type!=helm.sh/release.v1"

// scope is what one list covers.
type scope struct {
	kind      Kind
	namespace string // "" for the whole cluster
	selector  string // label selector, "" for all
	metadata  bool   // metadata only
}

func (s scope) covers(object *unstructured.Unstructured) bool {
	if s.namespace != "" && s.namespace != object.GetNamespace() {
		return false
	}
	selector, err := labels.Parse(s.selector)
	return err == nil && selector.Matches(labels.Set(object.GetLabels()))
}

// listing is one list, or the one on its way.
type listing struct {
	ready   chan struct{}
	mutex   sync.Mutex
	objects map[types.NamespacedName]*unstructured.Unstructured
	// written are the objects that were written or deleted since the list began: what a page says of them is older.
	written map[types.NamespacedName]bool
	err     error
}

func newListing() *listing {
	return &listing{
		ready: make(chan struct{}), objects: map[types.NamespacedName]*unstructured.Unstructured{}, written: map[types.NamespacedName]bool{},
	}
}

// snapshot is what is known of a cluster's objects: each kind is listed once for all the resources of a process, and
// what is written goes through to it with the server's answer.
type snapshot struct {
	mutex    sync.Mutex
	listings map[scope]*listing
	lookups  map[Kind]int
}

// List returns every object of a kind in the whole cluster, sorted by namespace and name. One list, in pages, serves
// all callers. The objects are shared: copy before changing one.
func (c *Cluster) List(ctx context.Context, kind Kind) ([]*unstructured.Unstructured, error) {
	return c.sorted(ctx, scope{kind: kind})
}

// ListIn returns the objects of a kind in one namespace: from the cluster-wide list, or from a list of that namespace
// where the credential may not list the whole cluster.
func (c *Cluster) ListIn(ctx context.Context, kind Kind, namespace string) ([]*unstructured.Unstructured, error) {
	return c.SelectedIn(ctx, kind, namespace, "")
}

// Live returns an object that berth applied, from the list of what is ours; nil when the cluster answered NotFound.
// An object that the list lacks is asked for by name first, because a label is easily taken off.
func (c *Cluster) Live(ctx context.Context, kind Kind, namespace, name string) (*unstructured.Unstructured, error) {
	ours, err := c.listed(ctx, scope{kind: kind, selector: OursSelector})
	if apierrors.IsNotFound(err) {
		// The API server does not serve the kind: its CRD is gone, and its objects with it.
		return nil, nil
	}
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	if err == nil {
		if object := ours.get(namespace, name); object != nil {
			return object, nil
		}
	}
	return c.Fetch(ctx, kind, namespace, name)
}

// Ours returns what berth applied of a kind in the whole cluster, sorted by namespace and name. The objects are shared:
// copy before changing one.
func (c *Cluster) Ours(ctx context.Context, kind Kind) ([]*unstructured.Unstructured, error) {
	return c.Selected(ctx, kind, OursSelector)
}

// Exists returns the metadata of an object, ours or not, from a metadata-only list of its kind; nil when there is none.
// It is what a plan asks before it says that something will be created: one list, however many objects are planned.
func (c *Cluster) Exists(ctx context.Context, kind Kind, namespace, name string) (*unstructured.Unstructured, error) {
	for _, at := range []scope{{kind: kind, metadata: true}, {kind: kind, namespace: namespace, metadata: true}} {
		all, err := c.listed(ctx, at)
		if err == nil {
			return all.get(namespace, name), nil
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

// Find returns an object that somebody else keeps, such as a Secret that a configuration names; nil when the cluster
// answered NotFound. The first few of a kind are asked for by name, more of them are read from one list.
func (c *Cluster) Find(ctx context.Context, kind Kind, namespace, name string) (*unstructured.Unstructured, error) {
	if c.countLookup(kind) {
		all, err := c.listed(ctx, scope{kind: kind})
		if err == nil {
			if object := all.get(namespace, name); object != nil {
				return object, nil
			}
		} else if !apierrors.IsForbidden(err) {
			return nil, err
		}
	}
	return c.Fetch(ctx, kind, namespace, name)
}

// countLookup counts a look-up by name and tells whether the list of the kind is the better answer.
func (c *Cluster) countLookup(kind Kind) bool {
	c.snapshot.mutex.Lock()
	defer c.snapshot.mutex.Unlock()
	if _, listed := c.snapshot.listings[scope{kind: kind}]; listed {
		return true
	}
	c.snapshot.lookups[kind]++
	return c.snapshot.lookups[kind] > lookupsByName
}

// Fetch asks the cluster for one object by name, past the snapshot, and lets the snapshot know; nil when the cluster
// answered NotFound. It is what a write is preceded by.
func (c *Cluster) Fetch(ctx context.Context, kind Kind, namespace, name string) (*unstructured.Unstructured, error) {
	if err := c.connect(); err != nil {
		return nil, err
	}
	object, err := c.resource(kind, namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		c.forget(kind, namespace, name)
		return nil, nil
	case err != nil:
		return nil, c.classify(err)
	}
	c.remember(kind, object)
	return object, nil
}

// MetadataIn lists the metadata of one kind in one namespace, past the snapshot: what is left in a namespace that is
// about to be deleted must be seen as it is now.
func (c *Cluster) MetadataIn(ctx context.Context, kind Kind, namespace string) ([]*unstructured.Unstructured, error) {
	fresh := newListing()
	if err := c.fill(ctx, scope{kind: kind, namespace: namespace, metadata: true}, fresh); err != nil {
		return nil, err
	}
	return fresh.sorted(), nil
}

// Select lists the objects of one namespace that match selectors, past the snapshot, in pages, sorted by name. Without a
// namespace it is the whole cluster.
func (c *Cluster) Select(ctx context.Context, kind Kind, namespace, labelSelector, fieldSelector string) ([]*unstructured.Unstructured, error) {
	return c.selectFresh(ctx, scope{kind: kind, namespace: namespace, selector: labelSelector}, fieldSelector)
}

// SelectMetadata is Select for the metadata alone.
func (c *Cluster) SelectMetadata(ctx context.Context, kind Kind, namespace, labelSelector, fieldSelector string) ([]*unstructured.Unstructured, error) {
	return c.selectFresh(ctx, scope{kind: kind, namespace: namespace, selector: labelSelector, metadata: true}, fieldSelector)
}

func (c *Cluster) selectFresh(ctx context.Context, at scope, fieldSelector string) ([]*unstructured.Unstructured, error) {
	if err := c.connect(); err != nil {
		return nil, err
	}
	fresh := newListing()
	if err := c.pages(ctx, at, metav1.ListOptions{Limit: pageSize, LabelSelector: at.selector, FieldSelector: fieldSelector}, fresh); err != nil {
		return nil, err
	}
	return fresh.sorted(), nil
}

func (c *Cluster) sorted(ctx context.Context, at scope) ([]*unstructured.Unstructured, error) {
	all, err := c.listed(ctx, at)
	if err != nil {
		return nil, err
	}
	return all.sorted(), nil
}

// listed returns the listing of a scope, listing it when nobody has yet. Who comes second waits for the first; a list
// that failed is tried again by the next caller, except that a refusal stays one.
func (c *Cluster) listed(ctx context.Context, at scope) (*listing, error) {
	for {
		c.snapshot.mutex.Lock()
		one, found := c.snapshot.listings[at]
		if !found {
			one = newListing()
			c.snapshot.listings[at] = one
		}
		c.snapshot.mutex.Unlock()

		if !found {
			one.err = c.fill(ctx, at, one)
			if one.err != nil && !apierrors.IsForbidden(one.err) {
				c.snapshot.mutex.Lock()
				delete(c.snapshot.listings, at)
				c.snapshot.mutex.Unlock()
			}
			close(one.ready)
			return one, one.err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-one.ready:
		}
		if one.err == nil || apierrors.IsForbidden(one.err) || Unreachable(one.err) {
			return one, one.err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		// The first caller was interrupted, or the list broke: ask again for ourselves.
		if err := one.err; !isInterrupted(err) {
			return nil, err
		}
	}
}

// fill lists a scope.
func (c *Cluster) fill(ctx context.Context, at scope, into *listing) error {
	if err := c.connect(); err != nil {
		return err
	}
	options := metav1.ListOptions{Limit: pageSize, LabelSelector: at.selector}
	if at.kind == Secrets && !ofHelm(at.selector) {
		options.FieldSelector = helmStorage
	}
	return c.pages(ctx, at, options, into)
}

// pages lists a scope page by page. A continue token that expired restarts the list, as the API prescribes.
func (c *Cluster) pages(ctx context.Context, at scope, options metav1.ListOptions, into *listing) error {
	restarted := false
	for {
		token, err := c.page(ctx, at, options, into)
		if apierrors.IsResourceExpired(err) && !restarted {
			restarted = true
			options.Continue = ""
			into.clear()
			continue
		}
		if err != nil {
			return c.classify(err)
		}
		if token == "" {
			return nil
		}
		options.Continue = token
	}
}

func (c *Cluster) page(ctx context.Context, at scope, options metav1.ListOptions, into *listing) (string, error) {
	if at.metadata {
		page, err := c.metadata.Resource(at.kind.GVR()).Namespace(at.namespace).List(ctx, options)
		if err != nil {
			return "", err
		}
		for i := range page.Items {
			object, err := metadataObject(at.kind, &page.Items[i])
			if err != nil {
				return "", err
			}
			into.add(object)
		}
		return page.Continue, nil
	}
	page, err := c.resource(at.kind, at.namespace).List(ctx, options)
	if err != nil {
		return "", err
	}
	for i := range page.Items {
		into.add(&page.Items[i])
	}
	return page.GetContinue(), nil
}

func metadataObject(kind Kind, partial *metav1.PartialObjectMetadata) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(partial)
	if err != nil {
		return nil, fmt.Errorf("reading the metadata of %s %s: %w", kind.Kind, partial.GetName(), err)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(kind.GVK())
	return object, nil
}

// remember writes an object through to every list that covers it.
func (c *Cluster) remember(kind Kind, object *unstructured.Unstructured) {
	c.eachListing(kind, func(at scope, one *listing) {
		if at.covers(object) {
			one.put(object)
		} else {
			one.remove(object.GetNamespace(), object.GetName())
		}
	})
}

// forget takes an object out of every list.
func (c *Cluster) forget(kind Kind, namespace, name string) {
	c.eachListing(kind, func(_ scope, one *listing) { one.remove(namespace, name) })
}

func (c *Cluster) eachListing(kind Kind, do func(scope, *listing)) {
	c.snapshot.mutex.Lock()
	defer c.snapshot.mutex.Unlock()
	for at, one := range c.snapshot.listings {
		if at.kind == kind {
			do(at, one)
		}
	}
}

func (l *listing) get(namespace, name string) *unstructured.Unstructured {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.objects[types.NamespacedName{Namespace: namespace, Name: name}]
}

// add takes an object from a page of the list.
func (l *listing) add(object *unstructured.Unstructured) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	if !l.written[key] {
		l.objects[key] = object
	}
}

// put takes an object as the server answered to a read by name or a write.
func (l *listing) put(object *unstructured.Unstructured) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	l.objects[key], l.written[key] = object, true
}

func (l *listing) remove(namespace, name string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	delete(l.objects, key)
	l.written[key] = true
}

func (l *listing) clear() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for key := range l.objects {
		if !l.written[key] {
			delete(l.objects, key)
		}
	}
}

func (l *listing) sorted() []*unstructured.Unstructured {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	all := make([]*unstructured.Unstructured, 0, len(l.objects))
	for _, object := range l.objects {
		all = append(all, object)
	}
	slices.SortFunc(all, func(a, b *unstructured.Unstructured) int { return compareNames(a, b) })
	return all
}

// planned is what the plan that is being made is about to create.
type planned struct {
	mutex   sync.Mutex
	objects map[plannedKey]bool
	leaving map[plannedKey]bool
	kinds   map[schema.GroupVersionKind]Kind
}

type plannedKey struct {
	kind            Kind
	namespace, name string
}

// Plan registers that the plan being made will create an object, so that the checks of what depends on it pass.
func (c *Cluster) Plan(kind Kind, namespace, name string) {
	c.planned.mutex.Lock()
	defer c.planned.mutex.Unlock()
	if c.planned.objects == nil {
		c.planned.objects = map[plannedKey]bool{}
	}
	c.planned.objects[plannedKey{kind, namespace, name}] = true
}

// done takes an object off the plan, because it is there now: from here on the checks look at the cluster.
func (c *Cluster) done(kind Kind, namespace, name string) {
	c.planned.mutex.Lock()
	defer c.planned.mutex.Unlock()
	delete(c.planned.objects, plannedKey{kind, namespace, name})
}

// PlanKinds registers kinds that the plan being made will bring, so that what depends on it can plan objects of them.
func (c *Cluster) PlanKinds(kinds map[schema.GroupVersionKind]Kind) {
	c.planned.mutex.Lock()
	defer c.planned.mutex.Unlock()
	if c.planned.kinds == nil {
		c.planned.kinds = map[schema.GroupVersionKind]Kind{}
	}
	maps.Copy(c.planned.kinds, kinds)
}

// PlannedKinds are the kinds that the plan being made will bring.
func (c *Cluster) PlannedKinds() map[schema.GroupVersionKind]Kind {
	c.planned.mutex.Lock()
	defer c.planned.mutex.Unlock()
	return maps.Clone(c.planned.kinds)
}

// PlanRemoval registers that the plan being made will delete an object before it creates another by its name.
func (c *Cluster) PlanRemoval(kind Kind, namespace, name string) {
	c.planned.mutex.Lock()
	defer c.planned.mutex.Unlock()
	if c.planned.leaving == nil {
		c.planned.leaving = map[plannedKey]bool{}
	}
	c.planned.leaving[plannedKey{kind, namespace, name}] = true
}

// Leaving tells whether the plan being made will delete an object.
func (c *Cluster) Leaving(kind Kind, namespace, name string) bool {
	c.planned.mutex.Lock()
	defer c.planned.mutex.Unlock()
	return c.planned.leaving[plannedKey{kind, namespace, name}]
}

// Planned tells whether the plan being made will create an object.
func (c *Cluster) Planned(kind Kind, namespace, name string) bool {
	c.planned.mutex.Lock()
	defer c.planned.mutex.Unlock()
	return c.planned.objects[plannedKey{kind, namespace, name}]
}
