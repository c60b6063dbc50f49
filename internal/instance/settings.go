package instance

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/preflight"
)

// The keys of the settings ConfigMap. In-cluster readers read it, since the configuration is not there (J4); an import
// reads it back. A key is absent when its attribute was not set.
const (
	keyName         = "name"
	keyFloor        = "kubernetes-floor"
	keyRegistry     = "registry"
	keyKitRegistry  = "kit-registry"
	keyKitVersion   = "kit-version"
	keyImages       = "sandbox-images.json"
	keyPlatforms    = "platforms"
	keyPlatformsBy  = "platforms-from"
	keySandbox      = "sandbox.json"
	keySizes        = "sizes.json"
	keyDefaultSize  = "default-size.json"
	keyPriorities   = "priority-classes.json"
	keySecrets      = "required-secrets.json"
	keyEnvFrom      = "env-from.json"
	keyEnv          = "env.json"
	keyGit          = "git-credentials.json"
	keyOperator     = "operator.json"
	keyOrchestrator = "orchestrator.json"
	keyRepoCache    = "repo-cache.json"
	keyPodTemplate  = "sandbox-pod.json"
	keyFallbackUID  = "fallback-uid"

	fromNodes         = "nodes"
	fromConfiguration = "configuration"
)

// podToleration and sandboxSettings have the shapes of the pod spec, which is what readers put into pods.
type podToleration struct {
	Key      string `json:"key,omitempty"`
	Operator string `json:"operator,omitempty"`
	Value    string `json:"value,omitempty"`
	Effect   string `json:"effect,omitempty"`
}

type sandboxSettings struct {
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	Tolerations  []podToleration   `json:"tolerations,omitempty"`
}

type prioritySettings struct {
	Control Class `json:"control"`
	Sandbox Class `json:"sandbox"`
	// Named tells whether the configuration had `priority_classes` at all, for an import.
	Named bool `json:"named,omitempty"`
}

// settings render the ConfigMap's data. They hold names of Secrets, never what is in them (J54).
func (s Spec) settings() map[string]string {
	data := map[string]string{
		keyName: s.Name, keyFloor: s.KubernetesFloor, keyPlatforms: strings.Join(s.Platforms, ","), keyPlatformsBy: fromConfiguration,
		keyFallbackUID: strconv.Itoa(FallbackUID),
		keyDefaultSize: encode(Size{Memory: preflight.DefaultSize.Memory.String(), CPU: preflight.DefaultSize.CPU.String()}),
		keyPriorities:  encode(prioritySettings{Control: s.Classes().Control, Sandbox: s.Classes().Sandbox, Named: s.PrioritySet}),
		keyPodTemplate: encode(s.sandboxPod()),
	}
	if s.Derived {
		data[keyPlatformsBy] = fromNodes
	}
	for key, text := range map[string]string{keyRegistry: s.Registry, keyKitRegistry: s.KitRegistry, keyKitVersion: s.KitVersion} {
		if text != "" {
			data[key] = text
		}
	}
	set := func(key string, isSet bool, value any) {
		if isSet {
			data[key] = encode(value)
		}
	}
	set(keyImages, s.SandboxImages != nil, s.SandboxImages)
	set(keySandbox, s.PlacementSet, s.sandboxSettings())
	set(keySizes, s.Sizes != nil, s.Sizes)
	set(keySecrets, s.RequiredSecrets != nil, s.RequiredSecrets)
	set(keyEnvFrom, s.EnvFrom != nil, s.EnvFrom)
	set(keyEnv, s.Env != nil, s.Env)
	set(keyGit, s.GitCredentials != nil, s.GitCredentials)
	set(keyOperator, s.Operator != nil, s.Operator)
	set(keyOrchestrator, s.Orchestrator != nil, s.Orchestrator)
	set(keyRepoCache, s.RepoCache != nil, s.RepoCache)
	return data
}

func (s Spec) sandboxSettings() sandboxSettings {
	settings := sandboxSettings{NodeSelector: s.NodeSelector}
	for _, toleration := range s.Tolerations {
		settings.Tolerations = append(settings.Tolerations, podToleration(toleration))
	}
	return settings
}

// sandboxPod is what every sandbox pod has in common: where it runs, its priority, the user it falls back to, and that
// autoscalers must not move it. It has no imagePullSecrets: nodes pull with their own credentials (J17).
func (s Spec) sandboxPod() map[string]any {
	spec := map[string]any{
		"priorityClassName": s.Classes().Sandbox.Name,
		"securityContext":   map[string]any{"runAsUser": FallbackUID},
	}
	if len(s.NodeSelector) > 0 {
		spec["nodeSelector"] = s.NodeSelector
	}
	if tolerations := s.sandboxSettings().Tolerations; len(tolerations) > 0 {
		spec["tolerations"] = tolerations
	}
	return map[string]any{"metadata": map[string]any{"annotations": unmoved()}, "spec": spec}
}

// unmoved are the annotations by which the cluster autoscaler and Karpenter leave a pod where it is.
func unmoved() map[string]any {
	return map[string]any{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "karpenter.sh/do-not-disrupt": "true"}
}

// encode renders plain data as JSON with sorted keys; nothing that a Spec holds can fail to encode.
func encode(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("settings of type %T cannot be written as JSON: %v", value, err))
	}
	return string(text)
}

// FromSettings reads a Spec back from the settings ConfigMap of a namespace, for an import. The error is a
// *cluster.Problem that names the key which is not as berth writes it.
func FromSettings(c *cluster.Cluster, live *unstructured.Unstructured) (Spec, error) {
	data, _, _ := unstructured.NestedStringMap(live.Object, "data")
	spec := Spec{
		Name: data[keyName], Namespace: live.GetNamespace(), KubernetesFloor: data[keyFloor],
		Registry: data[keyRegistry], KitRegistry: data[keyKitRegistry], KitVersion: data[keyKitVersion],
		Derived: data[keyPlatformsBy] == fromNodes,
	}
	if data[keyPlatforms] != "" {
		spec.Platforms = strings.Split(data[keyPlatforms], ",")
	}
	var sandbox sandboxSettings
	var priorities prioritySettings
	for key, into := range map[string]any{
		keyImages: &spec.SandboxImages, keySandbox: &sandbox, keySizes: &spec.Sizes, keyPriorities: &priorities,
		keySecrets: &spec.RequiredSecrets, keyEnvFrom: &spec.EnvFrom, keyEnv: &spec.Env, keyGit: &spec.GitCredentials,
		keyOperator: &spec.Operator, keyOrchestrator: &spec.Orchestrator, keyRepoCache: &spec.RepoCache,
	} {
		if data[key] == "" {
			continue
		}
		if err := json.Unmarshal([]byte(data[key]), into); err != nil {
			return Spec{}, &cluster.Problem{
				Summary: fmt.Sprintf("The settings of ConfigMap/%s/%s cannot be read", live.GetNamespace(), live.GetName()),
				Detail:  fmt.Sprintf("The key %q on %s is not as berth writes it: %v. Mend it by hand, or delete the ConfigMap and create the instance with adopt = true.", key, c.Context(), err),
				Err:     err,
			}
		}
	}
	_, spec.PlacementSet = data[keySandbox]
	spec.NodeSelector = sandbox.NodeSelector
	for _, toleration := range sandbox.Tolerations {
		spec.Tolerations = append(spec.Tolerations, preflight.Toleration(toleration))
	}
	spec.PrioritySet = priorities.Named
	if !priorities.Control.Managed {
		spec.Control = priorities.Control.Name
	}
	if !priorities.Sandbox.Managed {
		spec.Sandbox = priorities.Sandbox.Name
	}
	return spec, nil
}

func index(attribute string, i int) string { return attribute + "[" + strconv.Itoa(i) + "]" }
