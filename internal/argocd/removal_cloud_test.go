package argocd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// snapshotCRD is a CustomResourceDefinition of CSI's snapshots, as far as berth sees them.
func snapshotCRD(kind, plural, scope string) string {
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[2]s.snapshot.storage.k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-csi/external-snapshotter/pull/814"}
spec:
  group: snapshot.storage.k8s.io
  scope: %[3]s
  names: {kind: %[1]s, plural: %[2]s}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, kind, plural, scope)
}

// ebs is the CSI driver of the tests' volumes.
const ebs = "ebs.csi.example.com"

// lbCleanup is the finalizer by which a cloud's controller sees a Service with a load balancer go (Kubernetes, "Garbage
// collecting load balancers").
const lbCleanup = "service.kubernetes.io/load-balancer-cleanup"

// volume gives a claim a volume that is called like it, of a driver and with a reclaim policy.
func (s *stage) volume(t *testing.T, namespace, claim, driver string, policy corev1.PersistentVolumeReclaimPolicy) {
	t.Helper()
	ctx, name := t.Context(), namespace+"-"+claim
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{annotationProvisionedBy: driver}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, StorageClassName: "gp3", PersistentVolumeReclaimPolicy: policy,
			ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: namespace, Name: claim},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "vol-" + name}},
		},
	}
	if _, err := s.workload.Client().CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	class := "gp3"
	pvc := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claim},
		Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: modes, StorageClassName: &class, VolumeName: name, Resources: corev1.VolumeResourceRequirements{Requests: size}},
	}
	if _, err := s.workload.Client().CoreV1().PersistentVolumeClaims(namespace).Create(ctx, pvc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	fleettest.Eventually(t, func(ctx context.Context) error {
		live, err := s.workload.Client().CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
		if err == nil && live.Status.Phase != corev1.VolumeBound {
			err = fmt.Errorf("PersistentVolume %s is %s", name, live.Status.Phase)
		}
		return err
	})
}

// balanced creates a Service with a load balancer, which the cloud has to let go of.
func (s *stage) balanced(t *testing.T, namespace, name string) {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{lbCleanup}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if _, err := s.workload.Client().CoreV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	fleettest.Eventually(t, func(ctx context.Context) error {
		live, err := s.workload.Client().CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && len(live.Status.LoadBalancer.Ingress) == 0 {
			err = fmt.Errorf("Service %s has no address", name)
		}
		return err
	})
}

func (s *stage) namespaces(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		wanted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := s.workload.Client().CoreV1().Namespaces().Create(t.Context(), wanted, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
}

// cloud does on a workload cluster what a cloud's controllers do there: it lets go of load balancers, deletes the disks of
// volumes whose claims are gone, and finishes snapshots.
type cloud struct {
	t     *testing.T
	stage *stage
	event func(string)

	mu   sync.Mutex
	held map[string]bool // what it never lets go of, or finishes: "service namespace/name", "volume name", "snapshot claim"
}

func (c *cloud) hold(what string, yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[what] = yes
}

func (c *cloud) holds(what string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[what]
}

// work begins, and returns what ends it.
func (c *cloud) work() func() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			for _, look := range []func(context.Context) error{c.services, c.volumes, c.snapshots} {
				if err := look(ctx); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
					c.t.Errorf("the test in the cloud's place: %v", err)
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (c *cloud) services(ctx context.Context) error {
	api := c.stage.workload.Client().CoreV1()
	all, err := api.Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range all.Items {
		one := &all.Items[i]
		called := one.Namespace + "/" + one.Name
		if one.DeletionTimestamp == nil || !slices.Contains(one.Finalizers, lbCleanup) || c.holds("service "+called) {
			continue
		}
		c.event("freed " + called)
		one.Finalizers = nil
		if _, err := api.Services(one.Namespace).Update(ctx, one, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (c *cloud) volumes(ctx context.Context) error {
	api := c.stage.workload.Client().CoreV1().PersistentVolumes()
	all, err := api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range all.Items {
		one := &all.Items[i]
		if one.Status.Phase != corev1.VolumeReleased || one.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || one.DeletionTimestamp != nil || c.holds("volume "+one.Name) {
			continue
		}
		c.event("deleted the disk of " + one.Name)
		if err := api.Delete(ctx, one.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (c *cloud) snapshots(ctx context.Context) error {
	client := c.stage.workload.Dynamic()
	all, err := client.Resource(volumeSnapshots.GVR()).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range all.Items {
		one := &all.Items[i]
		claim, _, _ := unstructured.NestedString(one.Object, "spec", "source", "persistentVolumeClaimName")
		status := `{"status":{"error":{"message":"the disk is busy"}}}`
		if _, found, _ := unstructured.NestedString(one.Object, "status", "boundVolumeSnapshotContentName"); found || one.GetDeletionTimestamp() != nil {
			continue
		}
		if !c.holds("snapshot " + claim) {
			content := objectOf(c.t, fmt.Sprintf(`{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshotContent, metadata: {name: content-%s}, spec: {deletionPolicy: Delete, driver: %s}}`, one.GetName(), ebs))
			if _, err := client.Resource(volumeSnapshotContents.GVR()).Create(ctx, content, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
			handle := fmt.Sprintf(`{"status":{"snapshotHandle":"snap-%s"}}`, claim)
			if _, err := client.Resource(volumeSnapshotContents.GVR()).Patch(ctx, content.GetName(), types.MergePatchType, []byte(handle), metav1.PatchOptions{}, "status"); err != nil {
				return err
			}
			status = fmt.Sprintf(`{"status":{"boundVolumeSnapshotContentName":%q,"readyToUse":true,"error":null}}`, content.GetName())
		}
		if _, err := client.Resource(volumeSnapshots.GVR()).Namespace(one.GetNamespace()).Patch(ctx, one.GetName(), types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
			return err
		}
	}
	return nil
}

// backups are the snapshots that there are, each as namespace/claim=name, and what becomes of the contents.
func (s *stage) backups(t *testing.T) (snapshots, policies []string) {
	t.Helper()
	all, err := s.workload.Dynamic().Resource(volumeSnapshots.GVR()).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all.Items {
		claim, _, _ := unstructured.NestedString(one.Object, "spec", "source", "persistentVolumeClaimName")
		snapshots = append(snapshots, one.GetNamespace()+"/"+claim+"="+one.GetName())
	}
	if all, err = s.workload.Dynamic().Resource(volumeSnapshotContents.GVR()).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, one := range all.Items {
		policy, _, _ := unstructured.NestedString(one.Object, "spec", "deletionPolicy")
		policies = append(policies, strings.TrimPrefix(one.GetName(), "content-")+"="+policy)
	}
	slices.Sort(snapshots)
	slices.Sort(policies)
	return snapshots, policies
}
