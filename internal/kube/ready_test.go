package kube

import "testing"

// Each kind is ready by what it reports itself, never before its controller has seen it, and says why it is not
// (promise 8 of the design).
func TestReady(t *testing.T) {
	for text, want := range map[string]string{
		"kind: ConfigMap": "",
		"kind: ConfigMap\nmetadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}":                                                "it is being deleted",
		"kind: Widget\nstatus: {conditions: [{type: Ready, status: 'True'}]}":                                                   "",
		"kind: Widget\nstatus: {conditions: [{type: Ready, status: 'False', reason: NoQuota, message: over}]}":                  "Ready is False: NoQuota: over",
		"kind: Widget\nmetadata: {generation: 3}\nstatus: {observedGeneration: 2, conditions: [{type: Ready, status: 'True'}]}": "its controller has seen generation 2 of 3",

		"kind: Deployment\nspec: {replicas: 1}": "its controller has not seen it yet",
		"kind: Deployment\nmetadata: {generation: 2}\nspec: {replicas: 2}\nstatus: {observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 1}": "2 of 2 replicas updated, 1 available",
		"kind: Deployment\nspec: {replicas: 2}\nstatus: {observedGeneration: 1, replicas: 3, updatedReplicas: 2, availableReplicas: 3}":                            "1 old replicas still run",
		"kind: Deployment\nspec: {replicas: 2}\nstatus: {observedGeneration: 1, replicas: 2, updatedReplicas: 2, availableReplicas: 2}":                            "",
		"kind: Deployment\nstatus: {observedGeneration: 1}":                      "0 of 1 replicas updated, 0 available",
		"kind: Deployment\nspec: {replicas: 0}\nstatus: {observedGeneration: 1}": "",
		"kind: Deployment\nstatus: {observedGeneration: 1, conditions: [{type: ReplicaFailure, status: 'True', reason: FailedCreate, message: exceeded quota}]}": "ReplicaFailure: FailedCreate: exceeded quota",
		"kind: StatefulSet\nspec: {replicas: 1}\nstatus: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1}":                             "",
		"kind: StatefulSet\nspec: {replicas: 1}\nstatus: {observedGeneration: 1, replicas: 1, updatedReplicas: 1}":                                               "1 of 1 replicas updated, 0 available",

		"kind: DaemonSet": "its controller has not seen it yet",
		"kind: DaemonSet\nstatus: {observedGeneration: 1, desiredNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 2}": "3 of 3 nodes updated, 2 available",
		// A pool at zero is no failure.
		"kind: DaemonSet\nstatus: {observedGeneration: 1, desiredNumberScheduled: 0}": "",

		"kind: Namespace\nstatus: {phase: Active}":                                                        "",
		"kind: Namespace\nstatus: {phase: Terminating}":                                                   `its phase is "Terminating"`,
		"kind: PersistentVolumeClaim\nstatus: {phase: Pending}":                                           `its phase is "Pending"`,
		"kind: PersistentVolumeClaim\nstatus: {phase: Bound}":                                             "",
		"kind: CustomResourceDefinition\nstatus: {}":                                                      "it has no condition Established yet",
		"kind: CustomResourceDefinition\nstatus: {conditions: [{type: Established, status: 'True'}]}":     "",
		"kind: Job\nstatus: {conditions: [{type: Complete, status: 'True'}]}":                             "",
		"kind: Service\nspec: {type: ClusterIP}":                                                          "",
		"kind: Service\nspec: {type: LoadBalancer}":                                                       "no address has been assigned to it",
		"kind: Service\nspec: {type: LoadBalancer}\nstatus: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}": "",
	} {
		got := Ready(object(t, text))
		if got.Reason != want || got.Ready != (want == "") {
			t.Errorf("%s\n got %v %q\nwant %q", text, got.Ready, got.Reason, want)
		}
	}
}
