package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// endingTime is how long after a Job has gone its last event is waited for: events are sent after the fact.
const endingTime = 5 * time.Second

// selectedNode is the annotation by which the scheduler has a volume made for a claim (Kubernetes, "Volume binding mode").
const selectedNode = "volume.kubernetes.io/selected-node"

// Target names an object to wait for.
type Target struct {
	Kind            cluster.Kind
	Namespace, Name string
	// UID is that of the object that is meant, where it is known; without it, it is the object that is met first. A wait
	// until it is gone is over when another object has its name; any other wait goes on with that one.
	UID types.UID
}

// String names the target as messages do.
func (t Target) String() string { return Name(t.Kind.Kind, t.Namespace, t.Name) }

// WaitAll waits until all targets are ready by the rules of their kinds (see Ready), each once: what has been ready is
// not looked at again. Targets of kinds without a rule (see HasRule) are ready on creation and never asked for. `what` is
// the whole that they belong to, as messages call it, such as "release team/app". selector is a label selector that all
// of them carry ("" for none): a look costs one list for each kind and namespace in which something is still not ready,
// and no more, however many objects that are.
//
// A claim whose StorageClass binds with the first consumer counts as ready until the scheduler has chosen a node for a
// pod that uses it: nothing makes its volume before that, and there may never be such a pod. The pod's own workload is
// what is waited for.
//
// A Job that has completed and was removed since (ttlSecondsAfterFinished) counts as complete.
//
// The error is a *cluster.Problem: at once when an object can no longer become ready (a Job or Pod that failed, a CRD
// whose names are taken), and when the context ends first, with what each object that is not ready waits for.
func WaitAll(ctx context.Context, c *cluster.Cluster, what string, targets []Target, selector string) error {
	w := newWaiting(c, what, targets, selector)
	w.open = slices.DeleteFunc(w.open, func(one *awaited) bool { return !HasRule(one.Kind) })
	return w.until(ctx, "wait until its objects are ready", "not ready", c.Select, w.ready)
}

// WaitAllGone waits until the cluster has none of the targets any more, nor lists them. What holds one up (finalizers,
// what a namespace still contains) is in the error, which is like WaitAll's; so are `what` and the cost.
func WaitAllGone(ctx context.Context, c *cluster.Cluster, what string, targets []Target) error {
	w := newWaiting(c, what, targets, "")
	list := func(ctx context.Context, kind cluster.Kind, namespace, labels, fields string) ([]*unstructured.Unstructured, error) {
		// Only a Namespace says in its status what holds it up.
		if kind == cluster.Namespaces {
			return c.Select(ctx, kind, namespace, labels, fields)
		}
		return c.SelectMetadata(ctx, kind, namespace, labels, fields)
	}
	return w.until(ctx, "wait until its objects are gone", "still there", list, gone)
}

// WaitDone waits until a Job is complete or a Pod has succeeded; other kinds are done at once. When it failed, the error
// is a *cluster.Problem with the reasons of its pods (exit code, reason, message) and the last events; when the context
// ends first, it is like WaitReady's. A Job that was removed when it had completed is done.
func WaitDone(ctx context.Context, c *cluster.Cluster, target Target) error {
	if !ends(target.Kind) {
		return nil
	}
	one := &awaited{Target: target}
	const action = "wait until it is done"
	return poll(ctx, c, target.String(), action, func() (bool, string, error) {
		live, err := c.Fetch(ctx, target.Kind, target.Namespace, target.Name)
		if err != nil {
			return false, "", err
		}
		if live == nil {
			done, err := missing(ctx, c, one)
			return done, one.reason, err
		}
		one.UID = live.GetUID()
		ended, has := outcome(live)
		if ended.Failed {
			return false, "", failure(ctx, c, target.String(), target.Kind, live, ended.Reason)
		}
		reason := Ready(live).Reason
		if reason == "" {
			reason = fmt.Sprintf("its phase is %q", phase(live))
		}
		return has, reason, nil
	}, overdue(c, target.Kind, target.Namespace, target.Name, action))
}

// awaited is a target and what the last look found of it.
type awaited struct {
	Target
	live   *unstructured.Unstructured // nil when there is none
	reason string
	lostAt time.Time // when it was first found gone
}

// place is what one list covers.
type place struct {
	kind      cluster.Kind
	namespace string
}

// lister is cluster.Select, or its like.
type lister func(ctx context.Context, kind cluster.Kind, namespace, labelSelector, fieldSelector string) ([]*unstructured.Unstructured, error)

// waiting is one wait for many objects.
type waiting struct {
	c        *cluster.Cluster
	what     string
	all      int
	selector string
	open     []*awaited
	// late tells for a StorageClass that it binds with the first consumer.
	late map[string]bool
}

func newWaiting(c *cluster.Cluster, what string, targets []Target, selector string) *waiting {
	w := &waiting{c: c, what: what, all: len(targets), selector: selector, late: map[string]bool{}}
	for _, target := range targets {
		w.open = append(w.open, &awaited{Target: target, reason: "nothing is known of it"})
	}
	return w
}

// until looks until judge says of every object that it is done; state says what those are of which it has not.
func (w *waiting) until(ctx context.Context, action, state string, list lister, judge func(context.Context, *awaited) (bool, error)) error {
	var unanswered error
	return poll(ctx, w.c, w.what, action, func() (bool, string, error) {
		err := w.look(ctx, list, judge)
		if err != nil {
			if ctx.Err() == nil {
				unanswered = err
			}
			return false, "", err
		}
		unanswered = nil
		reasons := make([]string, len(w.open))
		for i, one := range w.open {
			reasons[i] = one.String() + ": " + one.reason
		}
		return len(w.open) == 0, some(reasons, "; "), nil
	}, func(ctx context.Context, when, _ string) error { return w.overdue(ctx, when, state, unanswered) })
}

// look looks once at everything that is open, and takes off what is done.
func (w *waiting) look(ctx context.Context, list lister, judge func(context.Context, *awaited) (bool, error)) error {
	places := map[place][]*awaited{}
	for _, one := range w.open {
		at := place{one.Kind, one.Namespace}
		places[at] = append(places[at], one)
	}
	var (
		group  sync.WaitGroup
		mutex  sync.Mutex
		failed = map[place]error{}
		slots  = make(chan struct{}, listsAtOnce)
	)
	for at, targets := range places {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := w.read(ctx, at, targets, list); err != nil {
				mutex.Lock()
				defer mutex.Unlock()
				failed[at] = err
			}
		})
	}
	group.Wait()

	var first error
	var open []*awaited
	for _, one := range w.open {
		done, err := false, failed[place{one.Kind, one.Namespace}]
		if err == nil {
			done, err = judge(ctx, one)
		}
		// What ends the wait comes before what passes.
		if err != nil && (first == nil || passing(first) && !passing(err)) {
			first = err
		}
		if !done {
			open = append(open, one)
		}
	}
	w.open = open
	return first
}

// read lists one kind in one namespace. An object that the list lacks is asked for by name when a selector could have
// hidden it (a label is easily taken off), and so is everything where the credential may not list.
func (w *waiting) read(ctx context.Context, at place, targets []*awaited, list lister) error {
	labels, fields := w.selector, ""
	if len(targets) == 1 {
		labels, fields = "", "metadata.name="+targets[0].Name
	}
	found, err := list(ctx, at.kind, at.namespace, labels, fields)
	unlisted := apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err)
	// A kind that is not served any more has no objects.
	if err != nil && !unlisted && !apierrors.IsNotFound(err) {
		return err
	}
	named := map[string]*unstructured.Unstructured{}
	for _, object := range found {
		named[object.GetName()] = object
	}
	for _, one := range targets {
		live := named[one.Name]
		if live == nil && (unlisted || labels != "") {
			if live, err = w.c.Fetch(ctx, at.kind, at.namespace, one.Name); err != nil {
				return err
			}
		}
		one.live = live
	}
	return nil
}

// ready judges a target of WaitAll.
func (w *waiting) ready(ctx context.Context, one *awaited) (bool, error) {
	if one.live == nil {
		return missing(ctx, w.c, one)
	}
	one.UID = one.live.GetUID()
	readiness := Ready(one.live)
	one.reason = readiness.Reason
	if readiness.Failed {
		return false, failure(ctx, w.c, fmt.Sprintf("%s of %s", one, w.what), one.Kind, one.live, readiness.Reason)
	}
	if !readiness.Ready && one.Kind.Kind == "PersistentVolumeClaim" && one.live.GetDeletionTimestamp() == nil {
		return w.unconsumed(ctx, one.live)
	}
	return readiness.Ready, nil
}

// gone judges a target of WaitAllGone.
func gone(_ context.Context, one *awaited) (bool, error) {
	if one.live == nil || one.UID != "" && one.UID != one.live.GetUID() {
		return true, nil
	}
	one.UID, one.reason = one.live.GetUID(), heldUp(one.live)
	return false, nil
}

// ends tells whether objects of a kind come to an end by themselves.
func ends(kind cluster.Kind) bool { return kind == cluster.Jobs || kind == cluster.Pods }

// missing judges an object that is not there. A Job that ended may have been removed before anybody looked: its last
// event tells how it ended. A Pod leaves no such word.
func missing(ctx context.Context, c *cluster.Cluster, one *awaited) (bool, error) {
	one.reason = "it does not exist"
	if !ends(one.Kind) || one.UID == "" {
		return false, nil
	}
	events, err := c.Select(ctx, cluster.Events, one.Namespace, "", "involvedObject.uid="+string(one.UID))
	if err != nil && !apierrors.IsForbidden(err) {
		return false, err
	}
	// The words of Kubernetes' Job controller, when it sets the condition Complete.
	if slices.ContainsFunc(events, func(event *unstructured.Unstructured) bool { return event.Object["reason"] == "Completed" }) {
		return true, nil
	}
	one.reason = "it was removed before it was known how it ended"
	if one.lostAt.IsZero() {
		one.lostAt = time.Now()
	}
	if time.Since(one.lostAt) < endingTime {
		return false, nil
	}
	lines := []string{fmt.Sprintf("%s on %s was removed, and no event says that it had completed.", one, c.Context())}
	for _, event := range events {
		lines = append(lines, eventLine(event, involved(event)))
	}
	return false, &cluster.Problem{
		Summary: fmt.Sprintf("%s was removed before it had ended", one),
		Detail:  strings.Join(append(lines, "Find out who removed it, and apply again."), "\n"),
	}
}

// unconsumed tells whether a claim waits for a pod that uses it, and nothing else makes its volume.
func (w *waiting) unconsumed(ctx context.Context, claim *unstructured.Unstructured) (bool, error) {
	class, _, _ := unstructured.NestedString(claim.Object, "spec", "storageClassName")
	if class == "" || claim.GetAnnotations()[selectedNode] != "" || phase(claim) != "Pending" {
		return false, nil
	}
	if late, known := w.late[class]; known {
		return late, nil
	}
	found, err := w.c.Fetch(ctx, cluster.StorageClasses, "", class)
	if apierrors.IsForbidden(err) {
		// Who may not look at StorageClasses has the word of the volume controller.
		events, err := w.c.Select(ctx, cluster.Events, claim.GetNamespace(), "", "reason=WaitForFirstConsumer,involvedObject.uid="+string(claim.GetUID()))
		return len(events) > 0, err
	}
	if err != nil || found == nil {
		return false, err
	}
	w.late[class] = found.Object["volumeBindingMode"] == "WaitForFirstConsumer"
	return w.late[class], nil
}

// overdue is the error of a wait for many objects that took too long.
func (w *waiting) overdue(ctx context.Context, when, state string, unanswered error) error {
	again, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTime)
	defer cancel()
	counted := fmt.Sprintf("%d of %d objects of %s are %s", len(w.open), w.all, w.what, state)
	lines := []string{fmt.Sprintf("%s: %s on %s.", when, counted, w.c.Context())}
	if unanswered != nil {
		lines = append(lines, "The last look failed, so this may be out of date: "+sentence(unanswered.Error()))
	}
	explain, places := explaining(w.c), []string{}
	shown := w.open[:min(len(w.open), mostShown)]
	objects := map[string][]string{}
	for _, one := range shown {
		lines = append(lines, one.String()+": "+sentence(orNothing(one.reason)))
		// Of an object that has to go, only the metadata is at hand.
		if live, err := w.c.Fetch(again, one.Kind, one.Namespace, one.Name); err == nil && live != nil {
			for _, line := range explain.about(again, live) {
				lines = append(lines, "  "+line)
			}
		}
		if objects[one.Namespace] == nil {
			places = append(places, one.Namespace)
		}
		objects[one.Namespace] = append(objects[one.Namespace], singular(one.Kind)+"/"+one.Name)
	}
	if more := len(w.open) - len(shown); more > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more.", more))
	}
	for _, namespace := range places {
		lines = append(lines, command(w.c, namespace, strings.Join(objects[namespace], " ")))
	}
	return &cluster.Problem{Summary: counted, Detail: strings.Join(lines, "\n"), Err: ctx.Err()}
}
