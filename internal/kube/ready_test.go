package kube

import (
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// builtIn are the versions of the kinds that have a rule.
var builtIn = map[string]string{
	"Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "ReplicaSet": "apps/v1", "Job": "batch/v1",
	"CustomResourceDefinition": "apiextensions.k8s.io/v1", "APIService": "apiregistration.k8s.io/v1", "Widget": "example.com/v1",
	"Pod": "v1", "Service": "v1", "Namespace": "v1", "PersistentVolumeClaim": "v1", "ReplicationController": "v1", "ConfigMap": "v1",
}

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
		"kind: Deployment\nmetadata: {generation: 3}\nspec: {replicas: 1}\nstatus: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, availableReplicas: 1}": "its controller has seen generation 2 of 3",
		"kind: Deployment\nmetadata: {generation: 2}\nspec: {replicas: 2}\nstatus: {observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 1}": "2 of 2 replicas updated, 1 available",
		"kind: Deployment\nspec: {replicas: 2}\nstatus: {observedGeneration: 1, replicas: 3, updatedReplicas: 2, availableReplicas: 3}":                            "1 old replicas still run",
		"kind: Deployment\nspec: {replicas: 2}\nstatus: {observedGeneration: 1, replicas: 2, updatedReplicas: 2, availableReplicas: 2}":                            "",
		"kind: Deployment\nstatus: {observedGeneration: 1}":                                                                                                      "0 of 1 replicas updated, 0 available",
		"kind: Deployment\nspec: {replicas: 0}\nstatus: {observedGeneration: 1}":                                                                                 "",
		"kind: Deployment\nmetadata: {generation: 2}\nspec: {paused: true, replicas: 2}\nstatus: {}":                                                             "",
		"kind: Deployment\nmetadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}\nspec: {paused: true}":                                                          "it is being deleted",
		"kind: Deployment\nstatus: {observedGeneration: 1, conditions: [{type: Progressing, status: 'False', reason: ProgressDeadlineExceeded}]}":                "0 of 1 replicas updated, 0 available (ProgressDeadlineExceeded)",
		"kind: Deployment\nstatus: {observedGeneration: 1, conditions: [{type: ReplicaFailure, status: 'True', reason: FailedCreate, message: exceeded quota}]}": "ReplicaFailure: FailedCreate: exceeded quota",

		"kind: StatefulSet\nspec: {replicas: 1}": "its controller has not seen it yet",
		"kind: StatefulSet\nspec: {replicas: 1}\nstatus: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1}":                                                                                                                  "",
		"kind: StatefulSet\nspec: {replicas: 1}\nstatus: {observedGeneration: 1, replicas: 1, updatedReplicas: 1}":                                                                                                                                    "1 of 1 replicas updated, 0 available",
		"kind: StatefulSet\nspec: {replicas: 1}\nstatus: {observedGeneration: 1, replicas: 2, updatedReplicas: 1, readyReplicas: 2}":                                                                                                                  "1 old replicas still run",
		"kind: StatefulSet\nspec: {replicas: 1}\nstatus: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1, currentRevision: a-1, updateRevision: a-2}":                                                                       "revision a-2 has not replaced a-1 yet",
		"kind: StatefulSet\nspec: {replicas: 3, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 2}}}\nstatus: {observedGeneration: 1, replicas: 3, updatedReplicas: 1, readyReplicas: 3, currentRevision: a-1, updateRevision: a-2}": "",
		"kind: StatefulSet\nspec: {replicas: 3, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1}}}\nstatus: {observedGeneration: 1, replicas: 3, updatedReplicas: 1, readyReplicas: 3}":                                            "1 of 2 replicas updated, 3 available",
		"kind: StatefulSet\nspec: {replicas: 1, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 5}}}\nstatus: {observedGeneration: 1, replicas: 1, readyReplicas: 1}":                                                                "",
		"kind: StatefulSet\nmetadata: {generation: 2}\nspec: {updateStrategy: {type: OnDelete}}\nstatus: {observedGeneration: 2}":                                                                                                                     "",
		"kind: StatefulSet\nmetadata: {generation: 2}\nspec: {updateStrategy: {type: OnDelete}}\nstatus: {observedGeneration: 1}":                                                                                                                     "its controller has seen generation 1 of 2",

		"kind: DaemonSet": "its controller has not seen it yet",
		"kind: DaemonSet\nspec: {updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}}}\nstatus: {observedGeneration: 1, desiredNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 2}": "3 of 3 nodes updated, 2 available",
		// A pool at zero is no failure.
		"kind: DaemonSet\nstatus: {observedGeneration: 1, desiredNumberScheduled: 0}":                                           "",
		"kind: DaemonSet\nspec: {updateStrategy: {type: OnDelete}}\nstatus: {observedGeneration: 1, desiredNumberScheduled: 3}": "",

		"kind: ReplicaSet": "its controller has not seen it yet",
		"kind: ReplicaSet\nspec: {replicas: 2}\nstatus: {observedGeneration: 1, availableReplicas: 1}":                                                           "1 of 2 replicas available",
		"kind: ReplicaSet\nspec: {replicas: 2}\nstatus: {observedGeneration: 1, availableReplicas: 2}":                                                           "",
		"kind: ReplicaSet\nstatus: {observedGeneration: 1, conditions: [{type: ReplicaFailure, status: 'True', reason: FailedCreate, message: exceeded quota}]}": "ReplicaFailure: FailedCreate: exceeded quota",
		"kind: ReplicationController\nstatus: {observedGeneration: 1}":                                                                                           "0 of 1 replicas available",

		"kind: Job\nstatus: {conditions: [{type: Complete, status: 'True'}]}":                                                        "",
		"kind: Job\nmetadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}\nstatus: {conditions: [{type: Complete, status: 'True'}]}": "",
		"kind: Job":                        "it has no condition Complete yet: 0 of 1 pods succeeded, 0 active, 0 failed",
		"kind: Job\nspec: {suspend: true}": "it is suspended",
		"kind: Job\nspec: {completions: 3}\nstatus: {active: 1, succeeded: 1, failed: 2}":                                                    "it has no condition Complete yet: 1 of 3 pods succeeded, 1 active, 2 failed",
		"kind: Job\nstatus: {conditions: [{type: Failed, status: 'True', reason: BackoffLimitExceeded, message: limit}]}":                    "failed: it has failed: BackoffLimitExceeded: limit",
		"kind: Pod\nstatus: {phase: Running, conditions: [{type: Ready, status: 'True'}]}":                                                   "",
		"kind: Pod\nstatus: {phase: Succeeded, conditions: [{type: Ready, status: 'False', reason: PodCompleted}]}":                          "",
		"kind: Pod\nstatus: {phase: Failed, reason: Evicted, message: low on memory}":                                                        "failed: it has failed: Evicted: low on memory",
		"kind: Pod\nstatus: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: no nodes}]}": "PodScheduled is False: Unschedulable: no nodes",
		"kind: Pod\nstatus: {phase: Pending}": "it has no condition Ready yet",

		"kind: Namespace\nstatus: {phase: Active}":              "",
		"kind: Namespace\nstatus: {phase: Terminating}":         `its phase is "Terminating"`,
		"kind: PersistentVolumeClaim\nstatus: {phase: Pending}": `its phase is "Pending"`,
		"kind: PersistentVolumeClaim\nstatus: {phase: Lost}":    `its phase is "Lost"`,
		"kind: PersistentVolumeClaim\nstatus: {phase: Bound}":   "",

		"kind: CustomResourceDefinition\nstatus: {}":                                                  "it has no condition Established yet",
		"kind: CustomResourceDefinition\nstatus: {conditions: [{type: Established, status: 'True'}]}": "",
		"kind: CustomResourceDefinition\nstatus: {conditions: [{type: NamesAccepted, status: 'False', reason: PluralConflict, message: \"x is in use\"}, {type: Established, status: 'False'}]}": "failed: NamesAccepted is False: PluralConflict: x is in use",
		"kind: APIService\nstatus: {conditions: [{type: Available, status: 'True'}]}":                                                                                                            "",
		"kind: APIService\nstatus: {conditions: [{type: Available, status: 'False', reason: MissingEndpoints, message: none}]}":                                                                  "Available is False: MissingEndpoints: none",

		"kind: Service\nspec: {type: ClusterIP}":                                                          "",
		"kind: Service\nspec: {type: ExternalName, externalName: example.com}":                            "",
		"kind: Service\nspec: {type: LoadBalancer}":                                                       "no address has been assigned to it",
		"kind: Service\nspec: {type: LoadBalancer, externalIPs: [192.0.2.1]}":                             "",
		"kind: Service\nspec: {type: LoadBalancer}\nstatus: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}": "",
	} {
		live := object(t, text)
		live.SetAPIVersion(builtIn[live.GetKind()])
		got := Ready(live)
		reason := got.Reason
		if got.Failed {
			reason = "failed: " + reason
		}
		if reason != want || got.Ready != (want == "") {
			t.Errorf("%s\n got %v %q\nwant %q", text, got.Ready, reason, want)
		}
	}

	// The group counts: a CRD may call its kind as Kubernetes does.
	for text, want := range map[string]string{
		"apiVersion: serving.knative.dev/v1\nkind: Service\nstatus: {conditions: [{type: Ready, status: 'False', reason: NoImage, message: none}]}": "Ready is False: NoImage: none",
		"apiVersion: batch.example.com/v1\nkind: Job": "",
	} {
		if got := Ready(object(t, text)); got.Reason != want {
			t.Errorf("%s: %q", text, got.Reason)
		}
	}
	for kind, want := range map[cluster.Kind]bool{
		cluster.Deployments: true, cluster.Jobs: true, cluster.Namespaces: true, cluster.ConfigMaps: false, cluster.Secrets: false,
		{Kind: "Service"}: true, {Group: "serving.knative.dev", Kind: "Service"}: false, {Group: "example.com", Kind: "Widget"}: false,
	} {
		if HasRule(kind) != want {
			t.Errorf("HasRule(%v) is %v", kind, !want)
		}
	}
}

// A pod says why it is not ready, whatever the stage that it hangs in: scheduling, init, image, crash, probe (promise 8).
func TestPodReason(t *testing.T) {
	for text, want := range map[string]string{
		"phase: Running\nconditions: [{type: Ready, status: 'True'}]":                                                                                                                                               "",
		"phase: Succeeded\nconditions: [{type: Ready, status: 'False'}]\ncontainerStatuses: [{name: a, state: {terminated: {exitCode: 0}}}]":                                                                        "",
		"phase: Pending\nconditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: '0/1 nodes'}]":                                                                                          "PodScheduled is False: Unschedulable: 0/1 nodes",
		"phase: Pending\ncontainerStatuses: [{name: a, state: {waiting: {reason: ErrImagePull, message: 'no such image'}}}]":                                                                                        "container a waits: ErrImagePull: no such image",
		"phase: Pending\ncontainerStatuses: [{name: a, state: {waiting: {reason: ContainerCreating}}}]":                                                                                                             "container a waits: ContainerCreating",
		"phase: Running\ncontainerStatuses: [{name: a, restartCount: 4, state: {waiting: {reason: CrashLoopBackOff, message: back-off}}, lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]":             "container a waits: CrashLoopBackOff: back-off; it was restarted 4 times and last ended with exit code 137: OOMKilled",
		"phase: Failed\ncontainerStatuses: [{name: a, state: {terminated: {exitCode: 3, reason: Error, message: no database}}}]":                                                                                    "container a ended with exit code 3: Error: no database",
		"phase: Running\ncontainerStatuses: [{name: a, state: {terminated: {exitCode: 0, reason: Completed}}}, {name: b, ready: false, state: {running: {}}}]":                                                      "container b runs but is not ready",
		"phase: Running\ncontainerStatuses: [{name: a, restartCount: 2, ready: false, state: {running: {}}, lastState: {terminated: {exitCode: 0, signal: 15}}}]":                                                   "container a runs but is not ready; it was restarted 2 times and last ended with signal 15",
		"phase: Pending\nconditions: [{type: Initialized, status: 'False'}]\ninitContainerStatuses: [{name: i, state: {running: {}}}]\ncontainerStatuses: [{name: a, state: {waiting: {reason: PodInitializing}}}]": "init container i is still running",
		"phase: Pending\ninitContainerStatuses: [{name: i, state: {terminated: {exitCode: 1, reason: Error}}}]\ncontainerStatuses: [{name: a, state: {waiting: {reason: PodInitializing}}}]":                        "container i ended with exit code 1: Error",
		"phase: Failed\nreason: Evicted\nmessage: The node was low on memory.":                                                                                                                                      "it has failed: Evicted: The node was low on memory.",
	} {
		pod := object(t, "apiVersion: v1\nkind: Pod")
		pod.Object["status"] = object(t, text).Object
		if got := podReason(pod); got != want {
			t.Errorf("%s\n got %q\nwant %q", text, got, want)
		}
	}
	leaving := object(t, "apiVersion: v1\nkind: Pod\nmetadata: {deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [example.com/hold]}")
	want(t, "a pod that is leaving", podReason(leaving), "it is being deleted: example.com/hold")
}
