package kube

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Readiness is whether an object has become what it shall be, and if not, why in its own words.
type Readiness struct {
	Ready  bool
	Reason string
}

// Ready tells whether an object is ready, by the rules of its kind: observed generation first, then what its kind
// reports. A kind without a rule is ready when its Ready condition, if it has one, is true.
func Ready(object *unstructured.Unstructured) Readiness {
	if object.GetDeletionTimestamp() != nil {
		return Readiness{Reason: "it is being deleted"}
	}
	if observed, found, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration"); found && observed < object.GetGeneration() {
		return Readiness{Reason: fmt.Sprintf("its controller has seen generation %d of %d", observed, object.GetGeneration())}
	}
	switch object.GetKind() {
	case "Deployment", "StatefulSet":
		return replicasReady(object)
	case "DaemonSet":
		return daemonSetReady(object)
	case "Namespace", "PersistentVolume", "PersistentVolumeClaim":
		return phaseReady(object)
	case "CustomResourceDefinition":
		return conditionReady(object, "Established")
	case "Job":
		return conditionReady(object, "Complete")
	case "Service":
		return serviceReady(object)
	}
	if _, found := condition(object, "Ready"); !found {
		return Readiness{Ready: true}
	}
	return conditionReady(object, "Ready")
}

func replicasReady(object *unstructured.Unstructured) Readiness {
	wanted, found, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
	if !found {
		wanted = 1
	}
	if _, observed, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration"); !observed {
		return Readiness{Reason: "its controller has not seen it yet"}
	}
	if failed, found := condition(object, "ReplicaFailure"); found && failed["status"] == "True" {
		return Readiness{Reason: fmt.Sprintf("ReplicaFailure: %v: %v", failed["reason"], failed["message"])}
	}
	updated, available := count(object, "updatedReplicas"), count(object, "availableReplicas")
	if object.GetKind() == "StatefulSet" {
		available = count(object, "readyReplicas")
	}
	if updated < wanted || available < wanted {
		return Readiness{Reason: fmt.Sprintf("%d of %d replicas updated, %d available", updated, wanted, available)}
	}
	if all := count(object, "replicas"); all > updated {
		return Readiness{Reason: fmt.Sprintf("%d old replicas still run", all-updated)}
	}
	return Readiness{Ready: true}
}

func daemonSetReady(object *unstructured.Unstructured) Readiness {
	if _, observed, _ := unstructured.NestedInt64(object.Object, "status", "observedGeneration"); !observed {
		return Readiness{Reason: "its controller has not seen it yet"}
	}
	wanted, updated, available := count(object, "desiredNumberScheduled"), count(object, "updatedNumberScheduled"), count(object, "numberAvailable")
	if updated < wanted || available < wanted {
		return Readiness{Reason: fmt.Sprintf("%d of %d nodes updated, %d available", updated, wanted, available)}
	}
	return Readiness{Ready: true}
}

func phaseReady(object *unstructured.Unstructured) Readiness {
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	switch phase {
	case "Active", "Bound", "Available":
		return Readiness{Ready: true}
	}
	return Readiness{Reason: fmt.Sprintf("its phase is %q", phase)}
}

func serviceReady(object *unstructured.Unstructured) Readiness {
	if kind, _, _ := unstructured.NestedString(object.Object, "spec", "type"); kind != "LoadBalancer" {
		return Readiness{Ready: true}
	}
	if addresses, _, _ := unstructured.NestedSlice(object.Object, "status", "loadBalancer", "ingress"); len(addresses) > 0 {
		return Readiness{Ready: true}
	}
	return Readiness{Reason: "no address has been assigned to it"}
}

func conditionReady(object *unstructured.Unstructured, kind string) Readiness {
	have, found := condition(object, kind)
	if !found {
		return Readiness{Reason: fmt.Sprintf("it has no condition %s yet", kind)}
	}
	if have["status"] == "True" {
		return Readiness{Ready: true}
	}
	return Readiness{Reason: fmt.Sprintf("%s is %v: %v: %v", kind, have["status"], have["reason"], have["message"])}
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
