package fleettest_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// A light cluster has its nodes, as described and ready, admits pods, and gives kubectl and users their access.
func TestControlPlaneOnly(t *testing.T) {
	c := fleettest.NewCluster(t, fleettest.ClusterSpec{
		ControlPlaneOnly: true,
		Nodes: []fleettest.NodeSpec{{
			Name: "arm", Architecture: "arm64", CPU: "4", Memory: "16Gi", Runtime: "containerd://1.7.20",
			Labels:   map[string]string{"pool": "agents"},
			Taints:   []corev1.Taint{{Key: "pool", Value: "agents", Effect: corev1.TaintEffectNoSchedule}},
			Extended: map[string]string{"nvidia.com/gpu": "2"},
		}},
	})
	node, err := c.Client().CoreV1().Nodes().Get(t.Context(), "arm", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	gpus := node.Status.Allocatable["nvidia.com/gpu"]
	got := fmt.Sprint(node.Labels["pool"], " ", node.Labels[corev1.LabelArchStable], " ", node.Spec.Taints, " ",
		node.Status.Allocatable.Cpu(), " ", node.Status.Allocatable.Memory(), " ", gpus.String(), " ",
		node.Status.NodeInfo.ContainerRuntimeVersion, " ", node.Status.NodeInfo.KubeletVersion, " ",
		node.Status.Conditions[0].Type, "=", node.Status.Conditions[0].Status)
	want := "agents arm64 [{pool agents NoSchedule <nil>}] 4 16Gi 2 containerd://1.7.20 " + c.Version() + " Ready=True"
	if got != want {
		t.Errorf("node\n got %s\nwant %s", got, want)
	}
	if _, err := c.Client().CoreV1().Pods("default").Create(t.Context(), pod("p"), metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if out := c.Kubectl(t, "get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}"); out != c.UID() {
		t.Errorf("kube-system has UID %s, want %s", out, c.UID())
	}
	c.InstallCRDs(t, 12)

	// An API server that stops and comes back keeps its port and its data.
	c.StopAPIServer(t)
	if _, err := c.Client().CoreV1().Nodes().Get(t.Context(), "arm", metav1.GetOptions{}); err == nil {
		t.Error("the stopped API server answered")
	}
	c.StartAPIServer(t)
	if _, err := c.Client().CoreV1().Nodes().Get(t.Context(), "arm", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// Two whole clusters boot at once, and what runs on a real cluster runs there.
func TestWholeClusters(t *testing.T) {
	spec := func(name string, balancer fleettest.LoadBalancerKind) fleettest.ClusterSpec {
		return fleettest.ClusterSpec{
			Name:           name,
			Nodes:          []fleettest.NodeSpec{{Name: "n1"}},
			StorageClasses: []fleettest.StorageClassSpec{{Name: "standard", Default: true}},
			LoadBalancer:   balancer,
			Stages:         failingPods,
		}
	}
	fleet := fleettest.New(t, spec("a", fleettest.LoadBalancerIP), spec("b", fleettest.LoadBalancerHostname))
	a, b := fleet.Cluster("a"), fleet.Cluster("b")
	if a.UID() == b.UID() || a.UID() == "" {
		t.Errorf("UIDs %q and %q", a.UID(), b.UID())
	}
	path, err := fleet.MergeKubeconfigs()
	if err != nil {
		t.Fatal(err)
	}
	if out := a.Kubectl(t, "--kubeconfig="+path, "config", "get-contexts", "-o", "name"); out != "a\nb\n" {
		t.Errorf("merged contexts %q", out)
	}

	client := a.Client()
	for _, create := range []func() error{
		func() error {
			_, err := client.AppsV1().Deployments("default").Create(t.Context(), deployment(), metav1.CreateOptions{})
			return err
		},
		func() error {
			_, err := client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), claim(), metav1.CreateOptions{})
			return err
		},
		func() error {
			failing := pod("failing")
			failing.Labels = map[string]string{"fails": "yes"}
			_, err := client.CoreV1().Pods("default").Create(t.Context(), failing, metav1.CreateOptions{})
			return err
		},
		func() error {
			_, err := client.CoreV1().Services("default").Create(t.Context(), balanced(), metav1.CreateOptions{})
			return err
		},
		func() error {
			_, err := b.Client().CoreV1().Services("default").Create(t.Context(), balanced(), metav1.CreateOptions{})
			return err
		},
	} {
		// Default ServiceAccounts come with the controller manager, a moment after the boot.
		fleettest.Eventually(t, func(context.Context) error { return create() })
	}

	fleettest.Eventually(t, func(ctx context.Context) error {
		d, err := client.AppsV1().Deployments("default").Get(ctx, "web", metav1.GetOptions{})
		return unless(err, d.Status.AvailableReplicas == 2, "deployment: %+v", d.Status)
	})
	var volume *corev1.PersistentVolume
	fleettest.Eventually(t, func(ctx context.Context) error {
		pvc, err := client.CoreV1().PersistentVolumeClaims("default").Get(ctx, "data", metav1.GetOptions{})
		if err := unless(err, pvc.Status.Phase == corev1.ClaimBound, "claim: %+v", pvc.Status); err != nil {
			return err
		}
		volume, err = client.CoreV1().PersistentVolumes().Get(ctx, pvc.Spec.VolumeName, metav1.GetOptions{})
		return err
	})
	fleettest.Eventually(t, func(ctx context.Context) error {
		p, err := client.CoreV1().Pods("default").Get(ctx, "failing", metav1.GetOptions{})
		return unless(err, p.Status.Phase == corev1.PodFailed && p.Status.Reason == "Simulated", "pod: %s %s", p.Status.Phase, p.Status.Reason)
	})
	for cluster, want := range map[*fleettest.Cluster]corev1.LoadBalancerIngress{
		a: {IP: "192.0.2.1", IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}, b: {Hostname: "web.default.b.example.com"},
	} {
		fleettest.Eventually(t, func(ctx context.Context) error {
			s, err := cluster.Client().CoreV1().Services("default").Get(ctx, "web", metav1.GetOptions{})
			got := s.Status.LoadBalancer.Ingress
			return unless(err, len(got) == 1 && got[0].IP == want.IP && got[0].Hostname == want.Hostname, "service on %s: %+v", cluster.Name(), got)
		})
	}

	// Pods go, although nothing but kwok plays their kubelet, and so do namespaces.
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "failing", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	fleettest.Eventually(t, func(ctx context.Context) error {
		_, err := client.CoreV1().Pods("default").Get(ctx, "failing", metav1.GetOptions{})
		return unless(nil, apierrors.IsNotFound(err), "pod: %v", err)
	})
	a.Kubectl(t, "create", "namespace", "gone")
	a.Kubectl(t, "delete", "namespace", "gone", "--timeout=60s")

	if err := fleet.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fleet.Dir, volume.Spec.HostPath.Path} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
}

// The same binary reports another version, and a gate that it has turned off refuses what the gate brings.
func TestVersionAndFeatureGates(t *testing.T) {
	fleet := fleettest.New(t,
		fleettest.ClusterSpec{Name: "old", ControlPlaneOnly: true, Version: "v1.34.2-gke.100"},
		fleettest.ClusterSpec{Name: "gates", ControlPlaneOnly: true, EmulatedVersion: "1.35", FeatureGates: map[string]bool{
			"ImageVolume": false, "PodLevelResources": false,
		}},
	)
	if got := fleet.Cluster("old").Version(); got != "v1.34.2-gke.100" {
		t.Errorf("version %s", got)
	}
	p := pod("p")
	p.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}
	p, err := fleet.Cluster("gates").Client().CoreV1().Pods("default").Create(t.Context(), p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || p.Spec.Resources != nil {
		t.Errorf("pod-level resources without their gate: %v, %v; want them dropped", p.Spec.Resources, err)
	}
}

// failingPods has every pod that is labelled fails=yes fail instead of running.
const failingPods = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata:
  name: pod-fails
spec:
  resourceRef:
    apiGroup: v1
    kind: Pod
  selector:
    matchLabels:
      fails: "yes"
    matchExpressions:
    - key: '.metadata.deletionTimestamp'
      operator: DoesNotExist
    - key: '.status.phase'
      operator: In
      values: [Pending]
  weight: 100
  next:
    statusTemplate: |
      phase: Failed
      reason: Simulated
`

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.example.com/app:1"}}},
	}
}

func deployment() *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod("").Spec},
		},
	}
}

func claim() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

func balanced() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

// unless gives err, or an error of its own where ok is false.
func unless(err error, ok bool, format string, args ...any) error {
	if err == nil && !ok {
		err = fmt.Errorf(format, args...)
	}
	return err
}
