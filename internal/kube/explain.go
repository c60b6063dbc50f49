package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// mostShown bounds how many objects, pods and events an explanation lists.
const mostShown = 5

// Explain gathers what the cluster says of an object that is not ready: of a workload's pods, which are not running
// and why (image, scheduling, probe, exit code), and the last events of the object, of its ReplicaSets, of those pods
// and of their volume claims. It ends with the command to look further. What cannot be read is left out.
func Explain(ctx context.Context, c *cluster.Cluster, kind cluster.Kind, namespace, name string) []string {
	live, err := c.Fetch(ctx, kind, namespace, name)
	if err != nil || live == nil {
		return nil
	}
	return append(explaining(c).about(ctx, live), lookAt(c, kind, namespace, name))
}

// lookAt is the command that shows objects of one kind and namespace.
func lookAt(c *cluster.Cluster, kind cluster.Kind, namespace, name string) string {
	return command(c, namespace, singular(kind)+" "+name)
}

func command(c *cluster.Cluster, namespace, objects string) string {
	look := fmt.Sprintf("Look at: kubectl --context %s describe %s", c.Context(), objects)
	if namespace != "" {
		look += " -n " + namespace
	}
	return look
}

// singular is how kubectl calls a kind. The group is needed where a CRD calls its kind as one of Kubernetes' own, so a
// group that is not Kubernetes' is named.
func singular(kind cluster.Kind) string {
	name := strings.ToLower(kind.Kind)
	if strings.Contains(kind.Group, ".") && !strings.HasSuffix(kind.Group, ".k8s.io") {
		name += "." + kind.Group
	}
	return name
}

// explanation explains objects. The events of a namespace are listed once, however many objects of it are explained.
type explanation struct {
	c      *cluster.Cluster
	events map[string][]*unstructured.Unstructured
}

func explaining(c *cluster.Cluster) *explanation {
	return &explanation{c: c, events: map[string][]*unstructured.Unstructured{}}
}

// about is what the cluster says of an object, without the command.
func (e *explanation) about(ctx context.Context, live *unstructured.Unstructured) []string {
	owners := e.replicaSets(ctx, live)
	var troubled []*unstructured.Unstructured
	for _, pod := range e.pods(ctx, live, owners) {
		if podReason(pod) != "" {
			troubled = append(troubled, pod)
		}
	}
	involved := []involvement{involve(live)}
	for _, set := range owners {
		involved = append(involved, involve(set))
	}
	for _, pod := range troubled {
		involved = append(involved, involve(pod))
		for _, claim := range claims(pod) {
			involved = append(involved, involvement{kind: "PersistentVolumeClaim", name: claim})
		}
	}
	lines := podReasons(troubled)
	return append(lines, e.lastEvents(ctx, live, involved, strings.Join(lines, "\n"))...)
}

// replicaSets are the ReplicaSets of a Deployment: it is they that create its pods, and that a quota refuses.
func (e *explanation) replicaSets(ctx context.Context, live *unstructured.Unstructured) []*unstructured.Unstructured {
	selector, found := podSelector(live)
	if !found || !isKind(live, cluster.Deployments) {
		return nil
	}
	sets, err := e.c.Select(ctx, cluster.ReplicaSets, live.GetNamespace(), selector, "")
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(sets, func(set *unstructured.Unstructured) bool {
		return !controlledBy(set, []*unstructured.Unstructured{live}) || replicas(set) == 0
	})
}

// pods are the pods of a workload, the newest first.
func (e *explanation) pods(ctx context.Context, live *unstructured.Unstructured, sets []*unstructured.Unstructured) []*unstructured.Unstructured {
	if isKind(live, cluster.Pods) {
		// Its own reason has been told.
		return nil
	}
	selector, found := podSelector(live)
	if !found {
		return nil
	}
	pods, err := e.c.Select(ctx, cluster.Pods, live.GetNamespace(), selector, "")
	if err != nil {
		return nil
	}
	if owners := append([]*unstructured.Unstructured{live}, sets...); len(sets) > 0 || !isKind(live, cluster.Deployments) {
		pods = slices.DeleteFunc(pods, func(pod *unstructured.Unstructured) bool { return !controlledBy(pod, owners) })
	}
	slices.SortStableFunc(pods, func(a, b *unstructured.Unstructured) int {
		return b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time)
	})
	return pods
}

// podSelector selects the pods of a workload of Kubernetes' own, as far as it has any.
func podSelector(live *unstructured.Unstructured) (string, bool) {
	if group := live.GroupVersionKind().Group; group != cluster.Deployments.Group && group != cluster.Jobs.Group {
		return "", false
	}
	content, found, _ := unstructured.NestedMap(live.Object, "spec", "selector")
	if !found {
		return "", false
	}
	var selector metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &selector); err != nil {
		return "", false
	}
	return metav1.FormatLabelSelector(&selector), true
}

func controlledBy(object *unstructured.Unstructured, owners []*unstructured.Unstructured) bool {
	controller := metav1.GetControllerOf(object)
	return controller != nil && slices.ContainsFunc(owners, func(owner *unstructured.Unstructured) bool { return owner.GetUID() == controller.UID })
}

// podReasons tells why pods are not ready, those with the same reason in one line.
func podReasons(pods []*unstructured.Unstructured) []string {
	names := map[string][]string{}
	var reasons []string
	for _, pod := range pods {
		reason := podReason(pod)
		if reason == "" {
			continue
		}
		if names[reason] == nil {
			reasons = append(reasons, reason)
		}
		names[reason] = append(names[reason], pod.GetName())
	}
	var lines []string
	for _, reason := range reasons[:min(len(reasons), mostShown)] {
		what := "Pod "
		if len(names[reason]) > 1 {
			what = "Pods "
		}
		lines = append(lines, what+some(names[reason], ", ")+": "+reason)
	}
	return lines
}

// some joins the first few of many.
func some(all []string, separator string) string {
	if len(all) <= mostShown {
		return strings.Join(all, separator)
	}
	return strings.Join(all[:mostShown], separator) + fmt.Sprintf(" and %d more", len(all)-mostShown)
}

// podReason tells why a pod is not ready; "" where it is, or where it has done its work.
func podReason(pod *unstructured.Unstructured) string {
	if pod.GetDeletionTimestamp() != nil {
		return because("it is being deleted", strings.Join(pod.GetFinalizers(), ", "))
	}
	if ready, found := condition(pod, "Ready"); found && ready["status"] == "True" || phase(pod) == "Succeeded" {
		return ""
	}
	if reason := containersReason(pod); reason != "" {
		return reason
	}
	if failed, ended := outcome(pod); ended {
		return failed.Reason
	}
	for _, kind := range []string{"PodScheduled", "Ready"} {
		if have, found := condition(pod, kind); found && have["status"] == "False" {
			return because(kind+" is False", have["reason"], have["message"])
		}
	}
	return ""
}

// containersReason is the reason of the first container that is at fault: init containers come first, and while one of
// them has not ended, the others only wait for it.
func containersReason(pod *unstructured.Unstructured) string {
	inits, _, _ := unstructured.NestedSlice(pod.Object, "status", "initContainerStatuses")
	statuses, _, _ := unstructured.NestedSlice(pod.Object, "status", "containerStatuses")
	initialized, known := condition(pod, "Initialized")
	for i, one := range append(inits, statuses...) {
		status, _ := one.(map[string]any)
		if reason := containerReason(status); reason != "" {
			return reason
		}
		if started, _ := status["started"].(bool); i < len(inits) && known && initialized["status"] == "False" && !started {
			if _, running, _ := unstructured.NestedMap(status, "state", "running"); running {
				return fmt.Sprintf("init container %v is still running", status["name"])
			}
		}
	}
	for _, one := range statuses {
		status, _ := one.(map[string]any)
		ready, _ := status["ready"].(bool)
		if _, running, _ := unstructured.NestedMap(status, "state", "running"); running && !ready {
			return fmt.Sprintf("container %v runs but is not ready%s", status["name"], before(status))
		}
	}
	return ""
}

// containerReason is why a container does not run; "" where it does, or has ended well.
func containerReason(status map[string]any) string {
	if waiting, found, _ := unstructured.NestedMap(status, "state", "waiting"); found {
		if waiting["reason"] == "PodInitializing" {
			return "" // an init container has the reason
		}
		return because(fmt.Sprintf("container %v waits", status["name"]), waiting["reason"], waiting["message"]) + before(status)
	}
	if ended, found, _ := unstructured.NestedMap(status, "state", "terminated"); found && !zero(ended["exitCode"]) {
		return fmt.Sprintf("container %v ended with %s", status["name"], ending(ended))
	}
	return ""
}

// before is how a container that was restarted ended the time before.
func before(status map[string]any) string {
	ended, found, _ := unstructured.NestedMap(status, "lastState", "terminated")
	if !found {
		return ""
	}
	return fmt.Sprintf("; it was restarted %v times and last ended with %s", status["restartCount"], ending(ended))
}

// ending is how a container ended: exit code, or signal, reason (such as OOMKilled) and message.
func ending(ended map[string]any) string {
	code := fmt.Sprintf("exit code %v", ended["exitCode"])
	if signal := ended["signal"]; signal != nil && !zero(signal) {
		code = fmt.Sprintf("signal %v", signal)
	}
	return strings.TrimSpace(because(code, ended["reason"], ended["message"]))
}

// zero tells whether a number of a decoded JSON document is zero.
func zero(number any) bool {
	switch number := number.(type) {
	case int64:
		return number == 0
	case float64:
		return number == 0
	}
	return false
}

// claims are the volume claims that a pod names.
func claims(pod *unstructured.Unstructured) []string {
	volumes, _, _ := unstructured.NestedSlice(pod.Object, "spec", "volumes")
	var names []string
	for _, one := range volumes {
		volume, _ := one.(map[string]any)
		if name, found, _ := unstructured.NestedString(volume, "persistentVolumeClaim", "claimName"); found {
			names = append(names, name)
		}
	}
	return names
}

// involvement is an object that events are about. Without a uid it is whatever has the name.
type involvement struct {
	kind, name string
	uid        types.UID
}

func involve(object *unstructured.Unstructured) involvement {
	return involvement{kind: object.GetKind(), name: object.GetName(), uid: object.GetUID()}
}

func involved(event *unstructured.Unstructured) involvement {
	about, _, _ := unstructured.NestedMap(event.Object, "involvedObject")
	kind, _ := about["kind"].(string)
	name, _ := about["name"].(string)
	uid, _ := about["uid"].(string)
	return involvement{kind: kind, name: name, uid: types.UID(uid)}
}

func (i involvement) is(other involvement) bool {
	return i.kind == other.kind && i.name == other.name && (i.uid == "" || other.uid == "" || i.uid == other.uid)
}

// lastEvents are the last events about some objects, oldest first, without those that say what was told already. What is
// normal is shown only where there is no warning: it is there that a refusal or a failing probe is told.
func (e *explanation) lastEvents(ctx context.Context, live *unstructured.Unstructured, about []involvement, told string) []string {
	var events []*unstructured.Unstructured
	for _, event := range e.eventsIn(ctx, live.GetNamespace()) {
		if slices.ContainsFunc(about, involved(event).is) {
			events = append(events, event)
		}
	}
	slices.SortStableFunc(events, func(a, b *unstructured.Unstructured) int { return strings.Compare(eventTime(b), eventTime(a)) })
	warns := func(event *unstructured.Unstructured) bool { return event.Object["type"] == corev1.EventTypeWarning }
	if slices.ContainsFunc(events, warns) {
		events = slices.DeleteFunc(events, func(event *unstructured.Unstructured) bool { return !warns(event) })
	}
	var lines []string
	known := map[string]bool{}
	for _, event := range events {
		// Ten pods that meet one refusal say one thing, and so does a ReplicaSet that tries again with other pod names: of
		// its messages, the first word tells them apart, as "Readiness probe failed" and "Liveness probe failed".
		message, _ := event.Object["message"].(string)
		first, _, _ := strings.Cut(message, " ")
		same, again := fmt.Sprint(event.Object["reason"], message), fmt.Sprint(involved(event), event.Object["reason"], first)
		if !known[same] && !known[again] && (message == "" || !strings.Contains(told, message)) && len(lines) < mostShown {
			lines = append(lines, eventLine(event, involve(live)))
		}
		known[same], known[again] = true, true
	}
	slices.Reverse(lines)
	return lines
}

func (e *explanation) eventsIn(ctx context.Context, namespace string) []*unstructured.Unstructured {
	if namespace == "" {
		namespace = metav1.NamespaceDefault // where those of objects without a namespace are
	}
	events, known := e.events[namespace]
	if !known {
		var err error
		if events, err = e.c.Select(ctx, cluster.Events, namespace, "", ""); err != nil {
			events = nil
		}
		e.events[namespace] = events
	}
	return events
}

func eventLine(event *unstructured.Unstructured, of involvement) string {
	line := fmt.Sprintf("Event %v", event.Object["type"])
	if about := involved(event); !about.is(of) {
		line += " of " + about.kind + " " + about.name
	}
	line = because(line, event.Object["reason"], event.Object["message"])
	if times, _, _ := unstructured.NestedInt64(event.Object, "count"); times > 1 {
		line += fmt.Sprintf(" (%d times)", times)
	}
	return line
}

func eventTime(event *unstructured.Unstructured) string {
	if when, _, _ := unstructured.NestedString(event.Object, "series", "lastObservedTime"); when != "" {
		return when
	}
	for _, field := range []string{"lastTimestamp", "eventTime"} {
		if when, _ := event.Object[field].(string); when != "" {
			return when
		}
	}
	return event.GetCreationTimestamp().UTC().Format(time.RFC3339)
}
