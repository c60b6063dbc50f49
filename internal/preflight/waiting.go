package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// What something waits on.
const (
	OnNode  = "node"
	OnQuota = "quota"
)

// Waiting is something that cannot run yet: a pod that no node has room for, or the owner of a pod that a quota refused
// (J43). There is no limit to such a wait, and it is no failure (J35).
type Waiting struct {
	Object  string    // kind and name, such as Pod ws-1 or ReplicaSet web-5d
	On      string    // OnNode or OnQuota
	Message string    // in the scheduler's or the quota's own words
	Since   time.Time // since when, as far as the cluster remembers
}

// Waits returns what waits in a namespace, sorted by object. An error says which kinds could not be read; what the
// others show is returned all the same.
func Waits(ctx context.Context, c Cluster, namespace string) ([]Waiting, error) {
	pods, podsErr := listTyped[corev1.Pod](ctx, c, cluster.Pods, namespace)
	sets, setsErr := listTyped[appsv1.ReplicaSet](ctx, c, cluster.ReplicaSets, namespace)
	events, eventsErr := listTyped[corev1.Event](ctx, c, cluster.Events, namespace)

	waiting := append(unscheduled(pods), refusedSets(sets)...)
	refusals, err := refusedOwners(ctx, c, events, pods)
	waiting = append(waiting, refusals...)
	slices.SortFunc(waiting, func(a, b Waiting) int { return cmp.Or(strings.Compare(a.Object, b.Object), a.Since.Compare(b.Since)) })
	return waiting, errors.Join(podsErr, setsErr, eventsErr, err)
}

func listTyped[T any](ctx context.Context, c Cluster, kind cluster.Kind, namespace string) ([]T, error) {
	objects, err := c.ListIn(ctx, kind, namespace)
	if err != nil {
		return nil, fmt.Errorf("reading the %s of namespace %q: %w", kind.Resource, namespace, err)
	}
	return decode[T](objects)
}

// unscheduled are the pods that the scheduler finds no node for, with its message.
func unscheduled(pods []corev1.Pod) (waiting []Waiting) {
	for i := range pods {
		pod := &pods[i]
		if pod.Status.Phase != corev1.PodPending || pod.DeletionTimestamp != nil {
			continue
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Reason == corev1.PodReasonUnschedulable {
				waiting = append(waiting, Waiting{Object: "Pod " + pod.Name, On: OnNode, Message: condition.Message, Since: condition.LastTransitionTime.Time})
			}
		}
	}
	return waiting
}

// quotaRefusal is what the API server writes into its refusal of a pod that exceeds a quota.
const quotaRefusal = "exceeded quota:"

// refusedSets are the ReplicaSets whose last pod a quota refused; they say so in a condition until a pod is created.
func refusedSets(sets []appsv1.ReplicaSet) (waiting []Waiting) {
	for i := range sets {
		for _, condition := range sets[i].Status.Conditions {
			if condition.Type == appsv1.ReplicaSetReplicaFailure && condition.Status == corev1.ConditionTrue && strings.Contains(condition.Message, quotaRefusal) {
				waiting = append(waiting, Waiting{Object: "ReplicaSet " + sets[i].Name, On: OnQuota, Message: condition.Message, Since: condition.LastTransitionTime.Time})
			}
		}
	}
	return waiting
}

// refusedOwners are the objects, other than ReplicaSets, whose pods a quota refused according to events. An event tells
// of the past: it counts only while its object exists, has not finished, and has had no newer pod.
func refusedOwners(ctx context.Context, c Cluster, events []corev1.Event, pods []corev1.Pod) (waiting []Waiting, err error) {
	latest := map[corev1.ObjectReference]*corev1.Event{}
	for i := range events {
		event := &events[i]
		about := event.InvolvedObject
		about.ResourceVersion, about.FieldPath = "", ""
		if about.Kind == cluster.ReplicaSets.Kind || !strings.Contains(event.Message, quotaRefusal) {
			continue
		}
		if seen := latest[about]; seen == nil || lastSeen(seen).Before(lastSeen(event)) {
			latest[about] = event
		}
	}
	var problems []error
	for _, event := range slices.SortedFunc(maps.Values(latest), byObject) {
		about := event.InvolvedObject
		if hasNewerPod(event, pods) {
			continue
		}
		waits, err := stillWaits(ctx, c, about)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if waits {
			_, words, found := strings.Cut(event.Message, "Error creating: ")
			if !found {
				words = event.Message
			}
			waiting = append(waiting, Waiting{Object: about.Kind + " " + about.Name, On: OnQuota, Message: words, Since: firstSeen(event)})
		}
	}
	return waiting, errors.Join(problems...)
}

func byObject(a, b *corev1.Event) int {
	return cmp.Or(strings.Compare(a.InvolvedObject.Kind, b.InvolvedObject.Kind), strings.Compare(a.InvolvedObject.Name, b.InvolvedObject.Name),
		strings.Compare(string(a.InvolvedObject.UID), string(b.InvolvedObject.UID)))
}

func hasNewerPod(event *corev1.Event, pods []corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
		owner := metav1.GetControllerOf(&pod)
		its := owner != nil && owner.UID == event.InvolvedObject.UID || strings.Contains(event.Message, fmt.Sprintf("pods %q is forbidden", pod.Name))
		return its && pod.CreationTimestamp.After(lastSeen(event))
	})
}

// stillWaits looks at the object of an event. Of kinds that berth does not know, the event has to do.
func stillWaits(ctx context.Context, c Cluster, about corev1.ObjectReference) (bool, error) {
	known := []cluster.Kind{cluster.Jobs, cluster.StatefulSets, cluster.DaemonSets}
	i := slices.IndexFunc(known, func(kind cluster.Kind) bool {
		return kind.Kind == about.Kind && strings.HasPrefix(about.APIVersion, kind.Group+"/")
	})
	if i < 0 {
		return true, nil
	}
	object, err := c.Find(ctx, known[i], about.Namespace, about.Name)
	if err != nil {
		return false, fmt.Errorf("reading %s %s/%s, which a quota refused a pod: %w", about.Kind, about.Namespace, about.Name, err)
	}
	if object == nil || about.UID != "" && object.GetUID() != about.UID {
		return false, nil
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	finished := slices.ContainsFunc(conditions, func(condition any) bool {
		fields, _ := condition.(map[string]any)
		return (fields["type"] == "Complete" || fields["type"] == "Failed") && fields["status"] == "True"
	})
	return !finished, nil
}

func firstSeen(event *corev1.Event) time.Time {
	for _, at := range []time.Time{event.FirstTimestamp.Time, event.EventTime.Time} {
		if !at.IsZero() {
			return at
		}
	}
	return event.CreationTimestamp.Time
}

func lastSeen(event *corev1.Event) time.Time {
	last := event.CreationTimestamp.Time
	if event.Series != nil && event.Series.LastObservedTime.After(last) {
		last = event.Series.LastObservedTime.Time
	}
	for _, at := range []time.Time{event.EventTime.Time, event.LastTimestamp.Time} {
		if at.After(last) {
			last = at
		}
	}
	return last
}
