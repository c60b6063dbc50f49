package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
// reasons and the last events.
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
		ready = live
		return readiness.Ready, readiness.Reason, nil
	}, func(ctx context.Context) []string { return Explain(ctx, c, kind, namespace, name) })
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
	}, func(ctx context.Context) []string { return Explain(ctx, c, kind, namespace, name) })
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
	}, func(ctx context.Context) []string { return Explain(ctx, c, kind, namespace, name) })
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
// else; any other error ends the wait.
func poll(ctx context.Context, c *cluster.Cluster, object, action string, look func() (done bool, reason string, err error), explain func(context.Context) []string) error {
	start, pause, last := time.Now(), firstPoll, ""
	for {
		done, reason, err := look()
		if err != nil && ctx.Err() == nil && !cluster.Unreachable(err) {
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
			return timedOut(ctx, c, object, action, last, time.Since(start), explain)
		case <-timer.C:
		}
		pause = min(pause*3/2, slowestPoll)
	}
}

func timedOut(ctx context.Context, c *cluster.Cluster, object, action, reason string, waited time.Duration, explain func(context.Context) []string) error {
	again, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTime)
	defer cancel()
	why := "The time limit was reached"
	if errors.Is(ctx.Err(), context.Canceled) {
		why = "It was interrupted"
	}
	lines := []string{fmt.Sprintf("%s after %s: %s on %s: %s.", why, waited.Round(time.Second), object, c.Context(), orNothing(reason))}
	lines = append(lines, explain(again)...)
	return &cluster.Problem{
		Summary: fmt.Sprintf("%s is not there yet: %s", object, action),
		Detail:  strings.Join(lines, "\n"),
		Err:     ctx.Err(),
	}
}

func orNothing(reason string) string {
	if reason == "" {
		return "the cluster gave no reason"
	}
	return strings.TrimSuffix(reason, ".")
}

// Explain gathers what the cluster says of an object that is not ready: of a workload's pods, which are not running
// and why (image, scheduling, quota, probe), and the last events. What cannot be read is left out.
func Explain(ctx context.Context, c *cluster.Cluster, kind cluster.Kind, namespace, name string) []string {
	var lines []string
	live, err := c.Fetch(ctx, kind, namespace, name)
	if err != nil || live == nil {
		return nil
	}
	if selector, found, _ := unstructured.NestedStringMap(live.Object, "spec", "selector", "matchLabels"); found {
		pods, err := c.Select(ctx, cluster.Pods, namespace, labelSelector(selector), "")
		if err == nil {
			lines = append(lines, podReasons(pods)...)
		}
	}
	where := namespace
	if where == "" {
		where = "default"
	}
	events, err := c.Select(ctx, cluster.Events, where, "", "involvedObject.name="+name+",involvedObject.kind="+kind.Kind)
	if err == nil {
		lines = append(lines, lastEvents(events)...)
	}
	look := fmt.Sprintf("Look at: kubectl --context %s describe %s %s", c.Context(), strings.ToLower(kind.Kind), name)
	if namespace != "" {
		look += " -n " + namespace
	}
	return append(lines, look)
}

// mostShown bounds how many pods and events an explanation lists.
const mostShown = 5

func podReasons(pods []*unstructured.Unstructured) []string {
	var lines []string
	for _, pod := range pods {
		if reason := podReason(pod); reason != "" {
			lines = append(lines, fmt.Sprintf("Pod %s: %s", pod.GetName(), reason))
		}
	}
	return slices.Clip(lines[:min(len(lines), mostShown)])
}

func podReason(pod *unstructured.Unstructured) string {
	statuses, _, _ := unstructured.NestedSlice(pod.Object, "status", "containerStatuses")
	inits, _, _ := unstructured.NestedSlice(pod.Object, "status", "initContainerStatuses")
	for _, one := range append(inits, statuses...) {
		status, _ := one.(map[string]any)
		if waiting, found, _ := unstructured.NestedMap(status, "state", "waiting"); found {
			return fmt.Sprintf("container %v waits: %v: %v", status["name"], waiting["reason"], waiting["message"])
		}
	}
	for _, kind := range []string{"PodScheduled", "Ready"} {
		if have, found := condition(pod, kind); found && have["status"] == "False" {
			return fmt.Sprintf("%s is False: %v: %v", kind, have["reason"], have["message"])
		}
	}
	return ""
}

func lastEvents(events []*unstructured.Unstructured) []string {
	slices.SortFunc(events, func(a, b *unstructured.Unstructured) int { return strings.Compare(eventTime(a), eventTime(b)) })
	var lines []string
	for _, event := range events[max(0, len(events)-mostShown):] {
		lines = append(lines, fmt.Sprintf("Event %v: %v: %v", event.Object["type"], event.Object["reason"], event.Object["message"]))
	}
	return lines
}

func eventTime(event *unstructured.Unstructured) string {
	for _, field := range []string{"lastTimestamp", "eventTime"} {
		if when, _ := event.Object[field].(string); when != "" {
			return when
		}
	}
	return event.GetCreationTimestamp().UTC().Format(time.RFC3339)
}

func labelSelector(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for key, value := range labels {
		pairs = append(pairs, key+"="+value)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}
