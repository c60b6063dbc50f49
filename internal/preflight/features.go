package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// Features returns the Kubernetes features that CheckFeatures can find out about, by the names of their gates.
func Features() []string { return slices.Sorted(maps.Keys(features)) }

// feature is how a feature gate shows in a pod: an API server that lacks it drops the fields without a word.
type feature struct {
	fields  string // what the server keeps or drops
	without string // what does not work then
	ask     func(*corev1.PodSpec)
	kept    func(*corev1.PodSpec) bool
}

var features = map[string]feature{
	"PodLevelResources": {
		fields:  "pod-level resources",
		without: "the size of a sandbox, which is one limit for its whole pod, cannot hold",
		ask:     func(spec *corev1.PodSpec) { spec.Resources = probeResources() },
		kept:    func(spec *corev1.PodSpec) bool { return spec.Resources != nil && len(spec.Resources.Limits) > 0 },
	},
	"ImageVolume": {
		fields:  "image volumes",
		without: "a sandbox cannot mount its runtime",
		ask: func(spec *corev1.PodSpec) {
			source := corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: probeImage, PullPolicy: corev1.PullIfNotPresent}}
			spec.Volumes = []corev1.Volume{{Name: probeVolume, VolumeSource: source}}
			spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: probeVolume, MountPath: "/runtime", ReadOnly: true}}
		},
		kept: func(spec *corev1.PodSpec) bool {
			return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == probeVolume && v.Image != nil })
		},
	},
}

const (
	probeImage  = "registry.k8s.io/pause:3.10" // never pulled: the pod is only ever a dry run
	probeVolume = "berth-runtime"
)

// CheckFeatures tells which features the API server has (J8), by the names that Features gives. One pod that uses all
// of them is sent as a dry run, and what comes back is what the server keeps. The pod goes into a namespace that
// exists, so that nothing is created, not even for a moment. Where the pod is refused for a reason of its own (a
// webhook, Pod Security, a quota, a LimitRange, a missing permission) the answer is unknown, and the checks warn. The
// gates of the kubelets cannot be asked.
func CheckFeatures(ctx context.Context, c Cluster, names []string) []Check {
	if len(names) == 0 {
		return nil
	}
	probe, unknown := dryRunProbe(ctx, c, names)
	checks := make([]Check, len(names))
	for i, gate := range names {
		name := "features/" + gate
		feature, known := features[gate]
		switch {
		case !known:
			checks[i] = Check{Name: name, Status: Fail, Message: fmt.Sprintf("berth has no test for the feature %q; it knows %s", gate, quoted(Features()))}
		case unknown != nil:
			checks[i] = *unknown
			checks[i].Name = name
		case feature.kept(&probe.Spec):
			checks[i] = passed(name, "the API server of %s keeps %s", c.Context(), feature.fields)
		default:
			checks[i] = Check{
				Name: name, Status: Fail,
				Message: fmt.Sprintf("refusing: %s%s drops %s — the %s feature gate is off, and %s. Nothing was applied.",
					c.Context(), versionSuffix(ctx, c), feature.fields, gate, feature.without),
				Remedy: fmt.Sprintf("Enable the gate %s on the API server and the kubelets.", gate),
			}
		}
	}
	return checks
}

// dryRunProbe returns the probe as the API server gave it back, or the check that says why it is not known.
func dryRunProbe(ctx context.Context, c Cluster, names []string) (*corev1.Pod, *Check) {
	namespace, err := probeNamespace(ctx, c)
	if err != nil {
		check := unanswered("", "which features the API server has, for want of a namespace for a dry run", err, &cluster.Permission{Verb: "list", Resource: "namespaces"})
		return nil, &check
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(probePod(namespace, names))
	if err != nil {
		check := unanswered("", "which features the API server has", err, nil)
		return nil, &check
	}
	answer, err := c.DryRunCreate(ctx, &unstructured.Unstructured{Object: content}, cluster.Pods)
	if err == nil {
		pods, decodeErr := decode[corev1.Pod]([]*unstructured.Unstructured{answer})
		if err = decodeErr; err == nil {
			return &pods[0], nil
		}
	}
	create := cluster.Permission{Verb: "create", Resource: "pods", Namespace: namespace}
	check := unanswered("", "which features the API server has by a dry run of a pod in namespace "+namespace, err, nil)
	if missing, askErr := c.Missing(ctx, []cluster.Permission{create}); apierrors.IsForbidden(err) && askErr == nil && len(missing) > 0 {
		check.Remedy = toAsk(create)
	} else {
		check.Remedy = "Nothing was created. If a policy refused the pod, ask the cluster's administrator for the feature gates instead."
	}
	return nil, &check
}

// probeNamespace is `default`, which nearly every cluster has, or else the first namespace that is not about to go.
func probeNamespace(ctx context.Context, c Cluster) (string, error) {
	object, err := c.Find(ctx, cluster.Namespaces, "", metav1.NamespaceDefault)
	if object != nil && object.GetDeletionTimestamp() == nil || apierrors.IsForbidden(err) {
		return metav1.NamespaceDefault, nil // one who may not read namespaces may still create pods in it
	}
	if err != nil {
		return "", err
	}
	namespaces, err := c.List(ctx, cluster.Namespaces)
	if err != nil {
		return "", err
	}
	for _, namespace := range namespaces {
		if namespace.GetDeletionTimestamp() == nil {
			return namespace.GetName(), nil
		}
	}
	return "", fmt.Errorf("%s has no namespace that is not terminating", c.Context())
}

// probePod is a pod that the strictest Pod Security level admits and that states its resources per container too, so
// that a quota or a LimitRange has little reason to refuse it.
func probePod(namespace string, names []string) *corev1.Pod {
	no, yes, nobody := false, true, int64(65534)
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: "berth-preflight-", Namespace: namespace},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: &no,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: &yes, RunAsUser: &nobody,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "probe", Image: probeImage, Resources: *probeResources(),
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no,
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
	for _, name := range names {
		if feature, known := features[name]; known {
			feature.ask(&pod.Spec)
		}
	}
	return pod
}

func probeResources() *corev1.ResourceRequirements {
	amount := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi")}
	return &corev1.ResourceRequirements{Requests: amount, Limits: amount.DeepCopy()}
}

// versionSuffix is the cluster's version for the middle of a sentence; nothing when it is not known.
func versionSuffix(ctx context.Context, c Cluster) string {
	version, err := KubernetesVersion(ctx, c)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (Kubernetes %s)", version)
}
