package fleettest

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// populate creates what the spec lists and starts what plays the cloud.
func (c *Cluster) populate(ctx context.Context) error {
	for _, spec := range c.spec.Nodes {
		if err := c.addNode(ctx, spec); err != nil {
			return err
		}
	}
	for _, spec := range c.spec.StorageClasses {
		if err := c.addStorageClass(ctx, spec); err != nil {
			return err
		}
	}
	if c.spec.LoadBalancer != LoadBalancerNone {
		c.follow(c.client.CoreV1().RESTClient(), "services", &corev1.Service{}, func(object any) {
			c.balance(object.(*corev1.Service))
		})
	}
	if len(c.spec.StorageClasses) > 0 && c.spec.hasControllers() {
		c.follow(c.client.CoreV1().RESTClient(), "persistentvolumes", &corev1.PersistentVolume{}, func(object any) {
			// The controller manager creates a real, empty directory for each volume, at a path that is fixed in it.
			if source := object.(*corev1.PersistentVolume).Spec.HostPath; source != nil && strings.HasPrefix(source.Path, "/tmp/hostpath_pv/") {
				c.supervisor.removeToo(source.Path)
			}
		})
	}
	return nil
}

// follow calls handle for every object that exists or changes, until the cluster is closed.
func (c *Cluster) follow(client cache.Getter, resource string, kind runtime.Object, handle func(object any)) {
	source := cache.NewListWatchFromClient(client, resource, metav1.NamespaceAll, fields.Everything())
	_, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source,
		ObjectType:    kind,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    handle,
			UpdateFunc: func(_, now any) { handle(now) },
		},
		// What could not be written, because the API server was down, is tried again.
		ResyncPeriod: 5 * time.Second,
	})
	c.tasks.Go(func() { controller.RunWithContext(c.background) })
}

// balance gives a Service of type LoadBalancer its address.
func (c *Cluster) balance(service *corev1.Service) {
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer || len(service.Status.LoadBalancer.Ingress) > 0 || service.DeletionTimestamp != nil {
		return
	}
	ingress := corev1.LoadBalancerIngress{}
	switch c.spec.LoadBalancer {
	case LoadBalancerHostname:
		ingress.Hostname = fmt.Sprintf("%s.%s.%s.example.com", service.Name, service.Namespace, c.Name())
	default:
		c.mu.Lock()
		c.addresses++
		ingress.IP = fmt.Sprintf("192.0.2.%d", 1+(c.addresses-1)%254)
		c.mu.Unlock()
		ingress.IPMode = ptr.To(corev1.LoadBalancerIPModeVIP)
	}
	updated := service.DeepCopy()
	updated.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{ingress}
	// A conflict or a server that is down: the next event or resync tries again.
	_, _ = c.client.CoreV1().Services(service.Namespace).UpdateStatus(c.background, updated, metav1.UpdateOptions{})
}

// AddNode adds a node to a running cluster.
func (c *Cluster) AddNode(t testing.TB, spec NodeSpec) {
	t.Helper()
	if err := c.addNode(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
}

// addNode creates the node with its status, as a kubelet does when it registers.
func (c *Cluster) addNode(ctx context.Context, spec NodeSpec) error {
	architecture := or(spec.Architecture, "amd64")
	labels := map[string]string{
		corev1.LabelHostname:   spec.Name,
		corev1.LabelArchStable: architecture,
		corev1.LabelOSStable:   "linux",
	}
	maps.Copy(labels, spec.Labels)

	resources := corev1.ResourceList{}
	quantities := map[string]string{
		string(corev1.ResourceCPU):              or(spec.CPU, "8"),
		string(corev1.ResourceMemory):           or(spec.Memory, "32Gi"),
		string(corev1.ResourcePods):             or(spec.Pods, "110"),
		string(corev1.ResourceEphemeralStorage): "100Gi",
	}
	maps.Copy(quantities, spec.Extended)
	for name, value := range quantities {
		quantity, err := resource.ParseQuantity(value)
		if err != nil {
			return fmt.Errorf("node %q: %s = %q: %w", spec.Name, name, value, err)
		}
		resources[corev1.ResourceName(name)] = quantity
	}

	now := metav1.Now()
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: "simulated", LastHeartbeatTime: now, LastTransitionTime: now}
	}
	ready := condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady")
	if spec.NotReady {
		ready = condition(corev1.NodeReady, corev1.ConditionFalse, "KubeletNotReady")
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        spec.Name,
			Labels:      labels,
			Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
		},
		Spec: corev1.NodeSpec{Taints: spec.Taints, Unschedulable: spec.Unschedulable},
		Status: corev1.NodeStatus{
			Phase:       corev1.NodeRunning, // kwok's heartbeat looks for it
			Capacity:    resources,
			Allocatable: resources,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: "127.0.0.1"},
				{Type: corev1.NodeHostName, Address: spec.Name},
			},
			Conditions: []corev1.NodeCondition{
				ready,
				condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
				condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
				condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
			},
			NodeInfo: corev1.NodeSystemInfo{
				Architecture:            architecture,
				OperatingSystem:         "linux",
				OSImage:                 "simulated",
				KernelVersion:           "6.12.0",
				ContainerRuntimeVersion: or(spec.Runtime, "containerd://2.2.0"),
				KubeletVersion:          or(spec.KubeletVersion, c.version),
			},
		},
	}
	_, err := c.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	return err
}

func (c *Cluster) addStorageClass(ctx context.Context, spec StorageClassSpec) error {
	class := &storagev1.StorageClass{
		ObjectMeta:           metav1.ObjectMeta{Name: spec.Name},
		Provisioner:          or(spec.Provisioner, "kubernetes.io/host-path"),
		VolumeBindingMode:    new(or(spec.VolumeBindingMode, storagev1.VolumeBindingImmediate)),
		AllowVolumeExpansion: new(spec.AllowVolumeExpansion),
	}
	if spec.Default {
		class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	}
	_, err := c.client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{})
	return err
}

func or[T ~string](value, otherwise T) T {
	if value == "" {
		return otherwise
	}
	return value
}
