package instance

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// namespace is the instance's namespace. Only our label is declared: everything else in it is its owner's.
func (s Spec) namespace() kube.Object {
	desired := cluster.Namespaces.New("", s.Namespace)
	desired.SetLabels(map[string]string{LabelInstance: s.Name})
	return kube.Object{Kind: cluster.Namespaces, Desired: desired}
}

// configMap holds the settings.
func (s Spec) configMap() kube.Object {
	desired := cluster.ConfigMaps.New(s.Namespace, SettingsName)
	desired.SetLabels(map[string]string{LabelInstance: s.Name, LabelContentHash: s.ContentHash()})
	data := map[string]any{}
	for key, value := range s.settings() {
		data[key] = value
	}
	desired.Object["data"] = data
	return kube.Object{Kind: cluster.ConfigMaps, Desired: desired}
}

// workloads are the components that are the instance's own. The repo cache runs where sandboxes run (J29); both carry
// the control class (J36, J72).
func (s Spec) workloads() []kube.Object {
	var objects []kube.Object
	images := s.KitImages()
	if s.Orchestrator != nil {
		pod := withSettings(s.controlPod(OrchestratorName, images["orchestrator"], "500m", "1Gi"))
		objects = append(objects, kube.Object{
			Kind:    cluster.Deployments,
			Desired: workload(cluster.Deployments, s.Namespace, OrchestratorName, map[string]any{"replicas": int64(1)}, pod),
		})
	}
	if s.RepoCache != nil {
		pod := withSettings(s.controlPod(RepoCacheName, images["repo_cache"], "50m", "128Mi"))
		if len(s.NodeSelector) > 0 {
			selector := map[string]any{}
			for key, value := range s.NodeSelector {
				selector[key] = value
			}
			pod["nodeSelector"] = selector
		}
		if tolerations := s.sandboxSettings().Tolerations; len(tolerations) > 0 {
			list := make([]any, len(tolerations))
			for i, one := range tolerations {
				list[i] = tolerationMap(one)
			}
			pod["tolerations"] = list
		}
		objects = append(objects, kube.Object{
			Kind:    cluster.DaemonSets,
			Desired: workload(cluster.DaemonSets, s.Namespace, RepoCacheName, nil, pod),
		})
	}
	return objects
}

// controlPod is a pod spec of one container with the control class and requests as the components are known to need.
func (s Spec) controlPod(name, image, cpu, memory string) map[string]any {
	return map[string]any{
		"priorityClassName": s.Classes().Control.Name,
		"containers": []any{map[string]any{
			"name": name, "image": image,
			"resources": map[string]any{"requests": map[string]any{"cpu": cpu, "memory": memory}},
		}},
	}
}

// withSettings mounts the settings into the pod, where its readers find them.
func withSettings(pod map[string]any) map[string]any {
	container := pod["containers"].([]any)[0].(map[string]any)
	container["volumeMounts"] = []any{map[string]any{"name": "settings", "mountPath": "/etc/berth", "readOnly": true}}
	pod["volumes"] = []any{map[string]any{"name": "settings", "configMap": map[string]any{"name": SettingsName}}}
	return pod
}

func tolerationMap(toleration podToleration) map[string]any {
	fields := map[string]any{}
	for key, value := range map[string]string{
		"key": toleration.Key, "operator": toleration.Operator, "value": toleration.Value, "effect": toleration.Effect,
	} {
		if value != "" {
			fields[key] = value
		}
	}
	return fields
}

func workload(kind cluster.Kind, namespace, name string, spec, pod map[string]any) *unstructured.Unstructured {
	desired := kind.New(namespace, name)
	desired.SetLabels(map[string]string{"app": name})
	full := map[string]any{
		"selector": map[string]any{"matchLabels": map[string]any{"app": name}},
		"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": name}}, "spec": pod},
	}
	maps.Copy(full, spec)
	desired.Object["spec"] = full
	return desired
}

// own are all objects that only this instance uses, in the order in which they are applied.
func (s Spec) own() []kube.Object {
	return append([]kube.Object{s.namespace(), s.configMap()}, s.workloads()...)
}
