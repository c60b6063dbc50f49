package enroll

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// sharedOrigin is the origin of every hub that sets none: two such hubs with one worker delete each other's jobs. Source:
// Kueue's defaults, v1beta1 and v1beta2.
const sharedOrigin = "multikueue"

// configKey is the key of the ConfigMap that holds the manager's configuration. Source: Kueue's chart and manifests.
const configKey = "controller_manager_config.yaml"

// framework is a kind of job that Kueue dispatches to workers. Source: the MultiKueue adapters of Kueue 0.17; deployments
// and Spark applications have none.
type framework struct{ group, resource string }

var dispatched = map[string]framework{
	"batch/job":                                {"batch", "jobs"},
	"jobset.x-k8s.io/jobset":                   {"jobset.x-k8s.io", "jobsets"},
	"kubeflow.org/jaxjob":                      {"kubeflow.org", "jaxjobs"},
	"kubeflow.org/mpijob":                      {"kubeflow.org", "mpijobs"},
	"kubeflow.org/paddlejob":                   {"kubeflow.org", "paddlejobs"},
	"kubeflow.org/pytorchjob":                  {"kubeflow.org", "pytorchjobs"},
	"kubeflow.org/tfjob":                       {"kubeflow.org", "tfjobs"},
	"kubeflow.org/xgboostjob":                  {"kubeflow.org", "xgboostjobs"},
	"leaderworkerset.x-k8s.io/leaderworkerset": {"leaderworkerset.x-k8s.io", "leaderworkersets"},
	"pod":                               {"", "pods"},
	"ray.io/raycluster":                 {"ray.io", "rayclusters"},
	"ray.io/rayjob":                     {"ray.io", "rayjobs"},
	"ray.io/rayservice":                 {"ray.io", "rayservices"},
	"statefulset":                       {"apps", "statefulsets"},
	"trainer.kubeflow.org/trainjob":     {"trainer.kubeflow.org", "trainjobs"},
	"workload.codeflare.dev/appwrapper": {"workload.codeflare.dev", "appwrappers"},
}

// Frameworks are the kinds of job that a hub can dispatch, in Kueue's words, sorted.
func Frameworks() []string {
	var names []string
	for name := range dispatched {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Kueue is what runs of Kueue on a cluster.
type Kueue struct {
	Namespace string
	// Version is that of the image, such as 0.17.0; "" where its tag is no version.
	Version string
	// Ready and Wanted are the replicas of the manager.
	Ready, Wanted int64
	// ConfigMap holds the manager's configuration; "" where there is none that can be read.
	ConfigMap string
	// Origin marks what a hub has on its workers.
	Origin string
	// Frameworks are the integrations that are on.
	Frameworks []string
}

// dispatches are the frameworks that are on and that MultiKueue watches on every worker.
func (k Kueue) dispatches() []string {
	on := slices.DeleteFunc(slices.Clone(k.Frameworks), func(name string) bool { _, ok := dispatched[name]; return !ok })
	slices.Sort(on)
	return on
}

// FindKueue reads what runs of Kueue in a namespace; nil when nothing does.
func FindKueue(ctx context.Context, c *cluster.Cluster, namespace string) (*Kueue, error) {
	deployment, version, err := managerOf(ctx, c, namespace, "kueue")
	if err != nil || deployment == nil {
		return nil, err
	}
	found := &Kueue{Namespace: namespace, Version: version, Origin: sharedOrigin}
	found.Ready, _, _ = unstructured.NestedInt64(deployment.Object, "status", "readyReplicas")
	found.Wanted, _, _ = unstructured.NestedInt64(deployment.Object, "spec", "replicas")
	volumes, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "volumes")
	for _, item := range volumes {
		volume, _ := item.(map[string]any)
		name, mounted, _ := unstructured.NestedString(volume, "configMap", "name")
		if !mounted {
			continue
		}
		config, err := c.Find(ctx, cluster.ConfigMaps, namespace, name)
		if err != nil {
			return nil, err
		}
		if config == nil {
			continue
		}
		text, ok, _ := unstructured.NestedString(config.Object, "data", configKey)
		if !ok {
			continue
		}
		found.ConfigMap = name
		if err := found.read(text); err != nil {
			return nil, &cluster.Problem{
				Summary: fmt.Sprintf("The configuration of Kueue on cluster %q cannot be read", c.Name()), Err: err,
				Detail: fmt.Sprintf("refusing: %s on %s, key %s: %s. Nothing was applied. Mend it first.", kube.Describe(config), c.Context(), configKey, err),
			}
		}
	}
	return found, nil
}

func (k *Kueue) read(text string) error {
	var config struct {
		MultiKueue struct {
			Origin string `json:"origin"`
		} `json:"multiKueue"`
		Integrations struct {
			Frameworks []string `json:"frameworks"`
		} `json:"integrations"`
	}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return err
	}
	if config.MultiKueue.Origin != "" {
		k.Origin = config.MultiKueue.Origin
	}
	// Source: Kueue's default is batch/job alone.
	if k.Frameworks = config.Integrations.Frameworks; len(k.Frameworks) == 0 {
		k.Frameworks = []string{"batch/job"}
	}
	return nil
}

// FindJobSet is the version of the JobSet controller in a namespace, and whether it runs there at all (K38).
func FindJobSet(ctx context.Context, c *cluster.Cluster, namespace string) (version string, found bool, err error) {
	deployment, version, err := managerOf(ctx, c, namespace, "jobset")
	return version, deployment != nil, err
}

// managerOf is the Deployment in a namespace that runs an image of a name, such as …/kueue:v0.17.0, and the image's version.
func managerOf(ctx context.Context, c *cluster.Cluster, namespace, image string) (*unstructured.Unstructured, string, error) {
	all, err := c.ListIn(ctx, cluster.Deployments, namespace)
	if err != nil {
		return nil, "", err
	}
	for _, deployment := range all {
		containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
		for _, item := range containers {
			container, _ := item.(map[string]any)
			text, _ := container["image"].(string)
			text, _, _ = strings.Cut(text, "@")
			name, tag, _ := strings.Cut(text[strings.LastIndex(text, "/")+1:], ":")
			if name == image {
				return deployment, versionOf(tag), nil
			}
		}
	}
	return nil, "", nil
}

// versionOf is the version that an image's tag stands for, "" for one that is none.
func versionOf(tag string) string {
	if version, err := semver.NewVersion(tag); err == nil {
		return version.String()
	}
	return ""
}
