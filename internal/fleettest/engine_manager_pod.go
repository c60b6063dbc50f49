package fleettest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The states of a pod that the harness tells.
const (
	podReady   = "ready"
	podCrashed = "crashed"
)

// pods are the Deployment's pods that a kubelet would run, of its current template.
func (m *Manager) pods(ctx context.Context, deployment *appsv1.Deployment) ([]corev1.Pod, error) {
	const revision = "deployment.kubernetes.io/revision"
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return nil, err
	}
	options := metav1.ListOptions{LabelSelector: selector.String()}
	sets, err := m.cluster.client.AppsV1().ReplicaSets(deployment.Namespace).List(ctx, options)
	if err != nil {
		return nil, err
	}
	var hash string
	for _, set := range sets.Items {
		if metav1.IsControlledBy(&set, deployment) && set.Annotations[revision] == deployment.Annotations[revision] {
			hash = set.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
		}
	}
	if hash == "" || deployment.Status.ObservedGeneration < deployment.Generation {
		return nil, nil
	}
	list, err := m.cluster.client.CoreV1().Pods(deployment.Namespace).List(ctx, options)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool {
		return pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] != hash || pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil
	}), nil
}

// hasOld tells whether the pod that the process plays is still there.
func (m *Manager) hasOld(ctx context.Context) bool {
	if m.pod == "" {
		return false
	}
	list, err := m.cluster.client.CoreV1().Pods(m.deployment.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return true
	}
	return slices.ContainsFunc(list.Items, func(pod corev1.Pod) bool { return pod.UID == m.pod && pod.DeletionTimestamp == nil })
}

// tell writes the status of pods as a kubelet does. kwok has made them Running, and not yet ready; see managerStage.
func (m *Manager) tell(ctx context.Context, pods []corev1.Pod, state string) error {
	for _, pod := range pods {
		told := fmt.Sprintf("%s after %d restarts", state, m.restarts)
		if m.told[pod.UID] == told {
			continue
		}
		patch, err := podStatus(pod, m.kind.container, state == podReady, m.restarts)
		if err != nil {
			return err
		}
		_, err = m.cluster.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil {
			return err
		}
		m.told[pod.UID] = told
	}
	return nil
}

// stages are the kwok Stages that the cluster has beside kwok's own.
func (s ClusterSpec) stages() (string, error) {
	added := []string{s.Stages}
	for _, kind := range s.managerKinds() {
		stage, err := managerStage(kind)
		if err != nil {
			return "", err
		}
		added = append(added, stage)
	}
	return strings.TrimSpace(strings.Join(added, "\n")), nil
}

// managerStage is a kwok Stage by which the pods of a manager start without being ready, which the harness then sees to.
func managerStage(kind managerKind) (string, error) {
	selected, err := json.Marshal(kind.labels)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: %s-starts
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  weight: 1000
  selector:
    matchLabels: %s
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: .status.phase, operator: In, values: [Pending]}
  next:
    statusTemplate: |
      {{ $now := Now }}
      phase: Running
      startTime: {{ $now | Quote }}
      conditions:
      - {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
      - {type: Ready, status: "False", reason: ContainersNotReady, lastTransitionTime: {{ $now | Quote }}}
      - {type: ContainersReady, status: "False", reason: ContainersNotReady, lastTransitionTime: {{ $now | Quote }}}
      containerStatuses:
      {{ range .spec.containers }}
      - name: {{ .name | Quote }}
        image: {{ .image | Quote }}
        imageID: ""
        ready: false
        started: true
        restartCount: 0
        state: {running: {startedAt: {{ $now | Quote }}}}
      {{ end }}
      {{ range NodeIPsWith .spec.nodeName }}
      hostIP: {{ . | Quote }}
      {{ end }}
      {{ range PodIPsWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" ) ( or .metadata.name "" ) ( or .metadata.namespace "" ) }}
      podIP: {{ . | Quote }}
      {{ end }}
`, kind.engine, selected), nil
}

// podStatus is a patch to the status of a pod all of whose containers are ready, or of which one has ended.
func podStatus(pod corev1.Pod, container string, ready bool, restarts int) ([]byte, error) {
	now := metav1.Now()
	condition := func(kind corev1.PodConditionType) corev1.PodCondition {
		if ready {
			return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now}
		}
		return corev1.PodCondition{
			Type: kind, Status: corev1.ConditionFalse, LastTransitionTime: now,
			Reason: "ContainersNotReady", Message: "containers with unready status: [" + container + "]",
		}
	}
	statuses := slices.Clone(pod.Status.ContainerStatuses)
	for i := range statuses {
		status := &statuses[i]
		if status.Name != container {
			continue
		}
		status.Ready, status.Started, status.RestartCount = ready, new(ready), int32(restarts)
		if ready {
			status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
			continue
		}
		ended := &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", StartedAt: metav1.NewTime(now.Add(-time.Second)), FinishedAt: now}
		status.LastTerminationState = corev1.ContainerState{Terminated: ended}
		status.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: "CrashLoopBackOff", Message: "back-off restarting failed container " + container,
		}}
	}
	return json.Marshal(map[string]any{"status": map[string]any{
		"conditions":        []corev1.PodCondition{condition(corev1.PodReady), condition(corev1.ContainersReady)},
		"containerStatuses": statuses,
	}})
}
