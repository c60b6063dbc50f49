package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

const (
	// firstPoll and slowestPoll bound how often a wait looks: quickly at first, because most things are quick.
	firstPoll   = 100 * time.Millisecond
	slowestPoll = 2 * time.Second
	// explainTime is what an explanation may take after the wait's own time is up.
	explainTime = 10 * time.Second
)

// WaitReady waits until an object is ready by the rules of its kind and returns it. When the context ends first, the
// error is a *cluster.Problem that says in the cluster's words what it waited for: the object's reason, its pods'
// reasons and the last events. One that can no longer become ready, such as a Job that failed, ends the wait at once.
func WaitReady(ctx context.Context, c *cluster.Cluster, kind cluster.Kind, namespace, name string) (*unstructured.Unstructured, error) {
	var ready *unstructured.Unstructured
	err := poll(ctx, c, Name(kind.Kind, namespace, name), "wait until it is ready", func() (bool, string, error) {
		live, err := c.Fetch(ctx, kind, namespace, name)
		if err != nil {
			return false, "", err
		}
		if live == nil {
			return false, "it does not exist", nil
		}
		readiness := Ready(live)
		if readiness.Failed {
			return false, "", failure(ctx, c, Name(kind.Kind, namespace, name), kind, live, readiness.Reason)
		}
		ready = live
		return readiness.Ready, readiness.Reason, nil
	}, overdue(c, kind, namespace, name, "wait until it is ready"))
	return ready, err
}

// Wait waits until look says that a live object has what is waited for; action says what that is. An object that does
// not exist is waited for too. The error is like WaitReady's.
func Wait(ctx context.Context, c *cluster.Cluster, kind cluster.Kind, namespace, name, action string, look func(*unstructured.Unstructured) (done bool, reason string)) error {
	return poll(ctx, c, Name(kind.Kind, namespace, name), action, func() (bool, string, error) {
		live, err := c.Fetch(ctx, kind, namespace, name)
		if err != nil || live == nil {
			return false, "it does not exist", err
		}
		done, reason := look(live)
		return done, reason, nil
	}, overdue(c, kind, namespace, name, action))
}

// WaitGone waits until the cluster answers NotFound for an object, or has one with another UID by its name; without a uid
// it is the object that is met first. What holds it up (finalizers, what a namespace still contains) is in the error.
func WaitGone(ctx context.Context, c *cluster.Cluster, kind cluster.Kind, namespace, name string, uid types.UID) error {
	return poll(ctx, c, Name(kind.Kind, namespace, name), "wait until it is gone", func() (bool, string, error) {
		live, err := c.Fetch(ctx, kind, namespace, name)
		if err != nil {
			// No answer is not the answer NotFound.
			return false, "", err
		}
		if live == nil {
			return true, "", nil
		}
		if uid == "" {
			uid = live.GetUID()
		}
		return live.GetUID() != uid, heldUp(live), nil
	}, overdue(c, kind, namespace, name, "wait until it is gone"))
}

// heldUp says why an object that is being deleted is still there.
func heldUp(live *unstructured.Unstructured) string {
	var reasons []string
	if finalizers := live.GetFinalizers(); len(finalizers) > 0 {
		reasons = append(reasons, "finalizers: "+strings.Join(finalizers, ", "))
	}
	for _, kind := range []string{"NamespaceContentRemaining", "NamespaceFinalizersRemaining", "NamespaceDeletionContentFailure", "NamespaceDeletionDiscoveryFailure"} {
		if have, found := condition(live, kind); found && have["status"] == "True" {
			reasons = append(reasons, fmt.Sprint(have["message"]))
		}
	}
	if len(reasons) == 0 {
		return "it is still there"
	}
	return strings.Join(reasons, "; ")
}

// poll looks again and again until done. An API server that does not answer for a moment is waited for like anything
// else; any other error ends the wait. When the context ends first, late makes the error: of when and after how long
// that was, and of the last reason.
func poll(ctx context.Context, c *cluster.Cluster, object, action string, look func() (done bool, reason string, err error), late func(ctx context.Context, when, reason string) error) error {
	start, pause, last := time.Now(), firstPoll, ""
	for {
		done, reason, err := look()
		if _, decided := errors.AsType[*cluster.Problem](err); decided || err != nil && ctx.Err() == nil && !passing(err) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			reason = err.Error()
		}
		if done {
			return nil
		}
		if reason != "" && reason != last {
			c.Progress(ctx, object, action, reason)
			last = reason
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			why := "The time limit was reached"
			if errors.Is(ctx.Err(), context.Canceled) {
				why = "It was interrupted"
			}
			return late(ctx, fmt.Sprintf("%s after %s", why, time.Since(start).Round(time.Second)), last)
		case <-timer.C:
		}
		pause = min(pause*3/2, slowestPoll)
	}
}

// passing tells whether an error is that of an API server which is down, overloaded or changing its leader.
func passing(err error) bool {
	return cluster.Unreachable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsInternalError(err)
}

// overdue is the error of a wait for one object that took too long.
func overdue(c *cluster.Cluster, kind cluster.Kind, namespace, name, action string) func(ctx context.Context, when, reason string) error {
	return func(ctx context.Context, when, reason string) error {
		again, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTime)
		defer cancel()
		object := Name(kind.Kind, namespace, name)
		lines := []string{fmt.Sprintf("%s: %s on %s: %s.", when, object, c.Context(), orNothing(reason))}
		return &cluster.Problem{
			Summary: fmt.Sprintf("%s is not there yet: %s", object, action),
			Detail:  strings.Join(append(lines, Explain(again, c, kind, namespace, name)...), "\n"),
			Err:     ctx.Err(),
		}
	}
}

// failure is the error of a wait that is in vain, because an object failed for good; called is how the summary calls it.
func failure(ctx context.Context, c *cluster.Cluster, called string, kind cluster.Kind, live *unstructured.Unstructured, reason string) error {
	again, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTime)
	defer cancel()
	lines := []string{fmt.Sprintf("%s on %s: %s.", Describe(live), c.Context(), orNothing(reason))}
	lines = append(lines, explaining(c).about(again, live)...)
	return &cluster.Problem{
		Summary: called + " has failed",
		Detail:  strings.Join(append(lines, lookAt(c, kind, live.GetNamespace(), live.GetName())), "\n"),
	}
}

func orNothing(reason string) string {
	if reason == "" {
		return "the cluster gave no reason"
	}
	return strings.TrimSuffix(reason, ".")
}
