package preflight

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

func namespace(name string, options ...func(*corev1.Namespace)) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, option := range options {
		option(n)
	}
	return n
}

func terminating(n *corev1.Namespace) {
	now := metav1.Now()
	n.DeletionTimestamp = &now
}

var both = []string{"PodLevelResources", "ImageVolume"}

func TestFeatures_J8(t *testing.T) {
	const refusal = "refusing: shared (Kubernetes v1.36.1) drops "
	keeps := map[string]string{"PodLevelResources": "the API server of shared keeps pod-level resources", "ImageVolume": "the API server of shared keeps image volumes"}
	drops := map[string]string{
		"PodLevelResources": refusal + "pod-level resources — the PodLevelResources feature gate is off, and the size of a sandbox, which is one limit for its whole pod, cannot hold. Nothing was applied.",
		"ImageVolume":       refusal + "image volumes — the ImageVolume feature gate is off, and a sandbox cannot mount its runtime. Nothing was applied.",
	}
	// What API servers with a gate off do to a pod: the field goes, and an image volume goes with its mounts, or, where
	// the server has never heard of it, becomes an emptyDir.
	noResources := func(pod *corev1.Pod) { pod.Spec.Resources = nil }
	noVolume := func(pod *corev1.Pod) { pod.Spec.Volumes, pod.Spec.Containers[0].VolumeMounts = nil, nil }
	oldServer := func(pod *corev1.Pod) {
		pod.Spec.Resources = nil
		pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	}
	for _, test := range []struct {
		name    string
		server  func(*corev1.Pod)
		dropped []string
	}{
		{"keeps both", func(*corev1.Pod) {}, nil},
		{"drops pod-level resources", noResources, both[:1]},
		{"drops image volumes", noVolume, both[1:]},
		{"is too old for either", oldServer, both},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newFake(t, namespace("default"))
			c.admit = func(pod *corev1.Pod) error { test.server(pod); return nil }
			checks := CheckFeatures(t.Context(), c, both)
			equal(t, len(checks), 2)
			for i, gate := range both {
				if strings.Contains(strings.Join(test.dropped, " "), gate) {
					expect(t, checks[i], "features/"+gate, Fail, drops[gate], "Enable the gate "+gate+" on the API server and the kubelets.")
				} else {
					expect(t, checks[i], "features/"+gate, Pass, keeps[gate], "")
				}
			}
			equal(t, c.requests["create pods"], 1)
		})
	}
}

func TestFeaturesUnknownWarns_J8(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, refusal := range map[string]error{
		"webhook":      apierrors.NewInternalError(errorText(`failed calling webhook "policy.example.com": connection refused`)),
		"denial":       apierrors.NewForbidden(pods, "", errorText(`admission webhook "policy.example.com" denied the request`)),
		"quota":        apierrors.NewForbidden(pods, "", errorText("exceeded quota: team-quota, requested: pods=1, used: pods=5, limited: pods=5")),
		"Pod Security": apierrors.NewForbidden(pods, "", errorText(`violates PodSecurity "restricted:latest"`)),
		"LimitRange":   apierrors.NewForbidden(pods, "", errorText("minimum memory usage per Container is 64Mi")),
	} {
		t.Run(name, func(t *testing.T) {
			c := newFake(t, namespace("default"))
			c.admit = func(*corev1.Pod) error { return refusal }
			for i, check := range CheckFeatures(t.Context(), c, both) {
				expect(t, check, "features/"+both[i], Warn,
					"unknown: could not find out which features the API server has by a dry run of a pod in namespace default: "+refusal.Error(),
					"Nothing was created. If a policy refused the pod")
			}
		})
	}
	t.Run("permission", func(t *testing.T) {
		c := newFake(t, namespace("default"))
		c.refuse["create pods"] = forbidden("pods")
		c.lacks = []cluster.Permission{{Verb: "create", Resource: "pods", Namespace: "default"}}
		check := CheckFeatures(t.Context(), c, both[:1])[0]
		if check.Status != Warn || !strings.Contains(check.Remedy, "To have it checked, apply this and bind it to the credential's user:\n") || !strings.Contains(check.Remedy, "  - pods\n  verbs:\n  - create\n") {
			t.Errorf("got %+v", check)
		}
	})
}

func TestFeaturesUseAnExistingNamespace_J8_Y4(t *testing.T) {
	for _, test := range []struct {
		name      string
		cluster   *fake
		namespace string
	}{
		{"default", newFake(t, namespace("a"), namespace("default")), "default"},
		{"another when default is missing", newFake(t, namespace("a", terminating), namespace("b")), "b"},
		{"another when default goes away", newFake(t, namespace("default", terminating), namespace("kube-system")), "kube-system"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, check := range CheckFeatures(t.Context(), test.cluster, both) {
				equal(t, check.Status, Pass)
			}
			equal(t, test.cluster.probes[0].Namespace, test.namespace)
			equal(t, test.cluster.probes[0].Name, "")
			equal(t, test.cluster.probes[0].GenerateName, "berth-preflight-")
		})
	}
	none := CheckFeatures(t.Context(), newFake(t, namespace("a", terminating)), both[:1])[0]
	expect(t, none, "features/PodLevelResources", Warn,
		"unknown: could not find out which features the API server has, for want of a namespace for a dry run: shared has no namespace that is not terminating", "")

	unreadable := newFake(t)
	unreadable.refuse["get namespaces"] = forbidden("namespaces")
	equal(t, CheckFeatures(t.Context(), unreadable, both[:1])[0].Status, Pass)
	equal(t, unreadable.probes[0].Namespace, "default")
}

func TestFeaturesAskOnlyWhatIsAsked(t *testing.T) {
	c := newFake(t, namespace("default"))
	CheckFeatures(t.Context(), c, both[:1])
	equal(t, len(c.probes[0].Spec.Volumes), 0)
	equal(t, len(CheckFeatures(t.Context(), c, nil)), 0)
	equal(t, c.requests["create pods"], 1)
	expect(t, CheckFeatures(t.Context(), c, []string{"DynamicResourceAllocation"})[0], "features/DynamicResourceAllocation", Fail,
		`berth has no test for the feature "DynamicResourceAllocation"; it knows "ImageVolume", "PodLevelResources"`, "")
}
