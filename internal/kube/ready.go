package kube

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// Readiness is whether an object has become what it shall be, and if not, why in its own words.
type Readiness struct {
	Ready bool
	// Failed is set where it never will: nothing that the cluster does by itself makes it ready any more.
	Failed bool
	Reason string
}

// rules are the kinds that are not ready by merely existing. The group counts: a CRD may call its kind Service too.
var rules = map[schema.GroupKind]func(*unstructured.Unstructured) Readiness{
	{Group: "apps", Kind: "Deployment"}:                               deploymentReady,
	{Group: "apps", Kind: "StatefulSet"}:                              statefulSetReady,
	{Group: "apps", Kind: "DaemonSet"}:                                daemonSetReady,
	{Group: "apps", Kind: "ReplicaSet"}:                               replicaSetReady,
	{Kind: "ReplicationController"}:                                   replicaSetReady,
	{Group: "batch", Kind: "Job"}:                                     jobReady,
	{Kind: "Pod"}:                                                     podReady,
	{Kind: "PersistentVolumeClaim"}:                                   phaseReady("Bound"),
	{Kind: "Namespace"}:                                               phaseReady("Active"),
	{Kind: "Service"}:                                                 serviceReady,
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: crdReady,
	{Group: "apiregistration.k8s.io", Kind: "APIService"}:             conditioned("Available"),
}

// HasRule tells whether objects of a kind are waited for after they were created: workloads, Jobs, Pods, claims,
// Services, Namespaces, CRDs and APIServices. Every other kind, custom resources included, is ready on creation, as it
// is for Helm: whether a custom resource has a Ready condition, and what it means, is up to a controller that may not
// even be there yet.
func HasRule(kind cluster.Kind) bool {
	_, found := rules[schema.GroupKind{Group: kind.Group, Kind: kind.Kind}]
	return found
}

// Ready tells whether an object is ready, by the rules of its kind: what has ended for good first, then the observed
// generation, then what its kind reports. The rules are those of Helm 3's --wait and --wait-for-jobs or stricter: every
// replica of a Deployment and every pod of a DaemonSet has to be available, and a CRD whose names are taken has failed.
// Unlike there, a Pod that has succeeded is ready. An object of a kind without a rule is ready when its Ready condition,
// if it has one, is true.
func Ready(object *unstructured.Unstructured) Readiness {
	if ended, has := outcome(object); has {
		return ended
	}
	if object.GetDeletionTimestamp() != nil {
		return Readiness{Reason: "it is being deleted"}
	}
	if paused, _, _ := unstructured.NestedBool(object.Object, "spec", "paused"); paused && isKind(object, cluster.Deployments) {
		// It goes no further until somebody resumes it, so that there is nothing to wait for.
		return Readiness{Ready: true}
	}
	if observed, found, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration"); found && observed < object.GetGeneration() {
		return Readiness{Reason: fmt.Sprintf("its controller has seen generation %d of %d", observed, object.GetGeneration())}
	}
	if rule, found := rules[object.GroupVersionKind().GroupKind()]; found {
		return rule(object)
	}
	if _, found := condition(object, "Ready"); !found {
		return Readiness{Ready: true}
	}
	return conditioned("Ready")(object)
}

// outcome is how a Job or a Pod ended, while that is known: from then on nothing changes it, not even its deletion.
func outcome(object *unstructured.Unstructured) (Readiness, bool) {
	switch {
	case isKind(object, cluster.Jobs):
		if done, found := condition(object, "Complete"); found && done["status"] == "True" {
			return Readiness{Ready: true}, true
		}
		if failed, found := condition(object, "Failed"); found && failed["status"] == "True" {
			return Readiness{Failed: true, Reason: because("it has failed", failed["reason"], failed["message"])}, true
		}
	case isKind(object, cluster.Pods):
		switch phase(object) {
		case "Succeeded":
			return Readiness{Ready: true}, true
		case "Failed":
			status, _, _ := unstructured.NestedMap(object.Object, "status")
			return Readiness{Failed: true, Reason: because("it has failed", status["reason"], status["message"], containersReason(object))}, true
		}
	}
	return Readiness{}, false
}

func isKind(object *unstructured.Unstructured, kind cluster.Kind) bool {
	return object.GroupVersionKind().GroupKind() == kind.GVK().GroupKind()
}

const unseen = "its controller has not seen it yet"

// seen tells whether a workload's controller has looked at it: until then its counts are those of nobody.
func seen(object *unstructured.Unstructured) bool {
	_, observed, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration")
	return observed
}

// replicas is how many replicas a workload wants: one, where it says nothing.
func replicas(object *unstructured.Unstructured) int64 {
	if wanted, found, _ := unstructured.NestedInt64(object.Object, "spec", "replicas"); found {
		return wanted
	}
	return 1
}

func deploymentReady(object *unstructured.Unstructured) Readiness {
	if !seen(object) {
		return Readiness{Reason: unseen}
	}
	wanted, updated, available := replicas(object), count(object, "updatedReplicas"), count(object, "availableReplicas")
	if updated < wanted || available < wanted {
		if failed, found := condition(object, "ReplicaFailure"); found && failed["status"] == "True" {
			return Readiness{Reason: because("ReplicaFailure", failed["reason"], failed["message"])}
		}
		reason := fmt.Sprintf("%d of %d replicas updated, %d available", updated, wanted, available)
		if progressing, found := condition(object, "Progressing"); found && progressing["status"] == "False" {
			reason += fmt.Sprintf(" (%v)", progressing["reason"])
		}
		return Readiness{Reason: reason}
	}
	if all := count(object, "replicas"); all > updated {
		return Readiness{Reason: fmt.Sprintf("%d old replicas still run", all-updated)}
	}
	return Readiness{Ready: true}
}

func replicaSetReady(object *unstructured.Unstructured) Readiness {
	if !seen(object) {
		return Readiness{Reason: unseen}
	}
	wanted, available := replicas(object), count(object, "availableReplicas")
	if available >= wanted {
		return Readiness{Ready: true}
	}
	if failed, found := condition(object, "ReplicaFailure"); found && failed["status"] == "True" {
		return Readiness{Reason: because("ReplicaFailure", failed["reason"], failed["message"])}
	}
	return Readiness{Reason: fmt.Sprintf("%d of %d replicas available", available, wanted)}
}

// replacesPods tells whether the workload's controller replaces its pods by itself. With OnDelete somebody has to delete
// them, and may do so after the wait, so that such a workload is ready as soon as its controller has seen it.
func replacesPods(object *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(object.Object, "spec", "updateStrategy", "type")
	return kind != "OnDelete"
}

func statefulSetReady(object *unstructured.Unstructured) Readiness {
	if !seen(object) {
		return Readiness{Reason: unseen}
	}
	if !replacesPods(object) {
		return Readiness{Ready: true}
	}
	// Replicas with an ordinal below the partition keep their old revision.
	partition, _, _ := unstructured.NestedInt64(object.Object, "spec", "updateStrategy", "rollingUpdate", "partition")
	wanted, updated, ready := replicas(object), count(object, "updatedReplicas"), count(object, "readyReplicas")
	if toUpdate := max(0, wanted-partition); updated < toUpdate || ready < wanted {
		return Readiness{Reason: fmt.Sprintf("%d of %d replicas updated, %d available", updated, toUpdate, ready)}
	}
	if all := count(object, "replicas"); all > wanted || partition == 0 && all > updated {
		return Readiness{Reason: fmt.Sprintf("%d old replicas still run", all-min(wanted, updated))}
	}
	current, _, _ := unstructured.NestedString(object.Object, "status", "currentRevision")
	update, _, _ := unstructured.NestedString(object.Object, "status", "updateRevision")
	if partition == 0 && current != update {
		return Readiness{Reason: fmt.Sprintf("revision %s has not replaced %s yet", update, current)}
	}
	return Readiness{Ready: true}
}

func daemonSetReady(object *unstructured.Unstructured) Readiness {
	if !seen(object) {
		return Readiness{Reason: unseen}
	}
	if !replacesPods(object) {
		return Readiness{Ready: true}
	}
	// maxUnavailable is what a rollout may cost on its way, not what it may leave behind: it is 1 by default, so that on
	// a cluster of one node a DaemonSet would be ready without a pod.
	wanted, updated, available := count(object, "desiredNumberScheduled"), count(object, "updatedNumberScheduled"), count(object, "numberAvailable")
	if updated < wanted || available < wanted {
		return Readiness{Reason: fmt.Sprintf("%d of %d nodes updated, %d available", updated, wanted, available)}
	}
	return Readiness{Ready: true}
}

// jobReady is about a Job that has not ended; see outcome.
func jobReady(object *unstructured.Unstructured) Readiness {
	if suspended, _, _ := unstructured.NestedBool(object.Object, "spec", "suspend"); suspended {
		return Readiness{Reason: "it is suspended"}
	}
	wanted, found, _ := unstructured.NestedInt64(object.Object, "spec", "completions")
	if !found {
		wanted = 1
	}
	return Readiness{Reason: fmt.Sprintf("it has no condition Complete yet: %d of %d pods succeeded, %d active, %d failed",
		count(object, "succeeded"), wanted, count(object, "active"), count(object, "failed"))}
}

// podReady is about a Pod that has not ended; see outcome.
func podReady(object *unstructured.Unstructured) Readiness {
	readiness := conditioned("Ready")(object)
	if readiness.Ready {
		return readiness
	}
	if reason := podReason(object); reason != "" {
		return Readiness{Reason: reason}
	}
	return readiness
}

func phase(object *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	return phase
}

func phaseReady(wanted string) func(*unstructured.Unstructured) Readiness {
	return func(object *unstructured.Unstructured) Readiness {
		if phase := phase(object); phase != wanted {
			return Readiness{Reason: fmt.Sprintf("its phase is %q", phase)}
		}
		return Readiness{Ready: true}
	}
}

func serviceReady(object *unstructured.Unstructured) Readiness {
	if kind, _, _ := unstructured.NestedString(object.Object, "spec", "type"); kind != "LoadBalancer" {
		return Readiness{Ready: true}
	}
	if addresses, _, _ := unstructured.NestedSlice(object.Object, "status", "loadBalancer", "ingress"); len(addresses) > 0 {
		return Readiness{Ready: true}
	}
	if addresses, _, _ := unstructured.NestedSlice(object.Object, "spec", "externalIPs"); len(addresses) > 0 {
		return Readiness{Ready: true}
	}
	return Readiness{Reason: "no address has been assigned to it"}
}

func crdReady(object *unstructured.Unstructured) Readiness {
	readiness := conditioned("Established")(object)
	if names, found := condition(object, "NamesAccepted"); found && names["status"] == "False" && !readiness.Ready {
		return Readiness{Failed: true, Reason: because("NamesAccepted is False", names["reason"], names["message"])}
	}
	return readiness
}

// conditioned is the rule of a kind that is ready by a condition.
func conditioned(kind string) func(*unstructured.Unstructured) Readiness {
	return func(object *unstructured.Unstructured) Readiness {
		have, found := condition(object, kind)
		if !found {
			return Readiness{Reason: fmt.Sprintf("it has no condition %s yet", kind)}
		}
		if have["status"] == "True" {
			return Readiness{Ready: true}
		}
		return Readiness{Reason: because(fmt.Sprintf("%s is %v", kind, have["status"]), have["reason"], have["message"])}
	}
}

func condition(object *unstructured.Unstructured, kind string) (map[string]any, bool) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, one := range conditions {
		if have, ok := one.(map[string]any); ok && have["type"] == kind {
			return have, true
		}
	}
	return nil, false
}

func count(object *unstructured.Unstructured, field string) int64 {
	value, _, _ := unstructured.NestedInt64(object.Object, "status", field)
	return value
}

// because joins what is the matter with the reason and the message that an object gives for it, where it gives them.
func because(what string, details ...any) string {
	for _, detail := range details {
		if text, _ := detail.(string); text != "" {
			what += ": " + text
		}
	}
	return what
}
