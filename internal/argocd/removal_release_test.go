package argocd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// A cluster that a module built is released before its controllers go, with backups first where they are asked for. The
// tests share a cluster and empty it, so they come one after the other.
func TestRelease(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, kind := range []cluster.Kind{volumeSnapshots, volumeSnapshotContents, volumeSnapshotClasses} {
		scope := "Cluster"
		if kind.Namespaced {
			scope = "Namespaced"
		}
		installCRD(t, s.workload, snapshotCRD(kind.Kind, kind.Resource, scope), kind.GVR())
	}
	s.workload.KubectlInput(t, `{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshotClass, metadata: {name: a-first}, driver: `+ebs+`, deletionPolicy: Delete}
---
{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshotClass, metadata: {name: disks, annotations: {snapshot.storage.kubernetes.io/is-default-class: "true"}}, driver: `+ebs+`, deletionPolicy: Delete}
---
{apiVersion: snapshot.storage.k8s.io/v1, kind: VolumeSnapshotClass, metadata: {name: a-other}, driver: other.example.com, deletionPolicy: Delete}
`, "apply", "-f", "-")
	for _, one := range []struct {
		name string
		test func(*built)
	}{
		{"Released", testReleased},
		{"RegisteredOnly", testRegisteredOnly},
		{"ReleaseStuck", testReleaseStuck},
		{"ConfirmStuck", testConfirmStuck},
		{"KeptInSystem", testKeptInSystem},
		{"ControllersBegun", testControllersBegun},
		{"NoSnapshotClass", testNoSnapshotClass},
		{"BackupResumed", testBackupResumed},
		{"BackupStuck", testBackupStuck},
	} {
		t.Run(one.name, func(t *testing.T) { one.test(s.built(t)) })
	}
}

// built is a scene of a cluster that a module built, with the test in the cloud's place too.
type built struct {
	*scene
	cloud *cloud
}

func (s *stage) built(t *testing.T) *built {
	t.Helper()
	x := s.scene(t)
	x.spec.Built, x.removal.ReleaseCloudResources = true, true
	x.removal.RemovedServiceAccount = true
	s.namespaces(t, "external-dns")
	x.register()
	x.add(x.application("external-dns", RootName(x.spec.Name), 0))
	b := &built{scene: x, cloud: &cloud{t: t, stage: s, held: map[string]bool{}, event: func(text string) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.events = append(x.events, text)
	}}}
	return b
}

func (b *built) remove(ctx context.Context) ([]Warning, error) {
	b.t.Helper()
	stop := b.cloud.work()
	defer stop()
	return b.scene.remove(ctx)
}

// there are the namespaces of the workload cluster.
func (b *built) there() []string {
	b.t.Helper()
	all, err := b.stage.workload.Client().CoreV1().Namespaces().List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	var names []string
	for _, one := range all.Items {
		names = append(names, one.Name)
	}
	return names
}

var systemAndControllers = []string{"berth-access", "default", "external-dns", "gke-managed-system", "kube-node-lease", "kube-public", "kube-system", "storage"}

// Everything outside the cluster's own system goes while the controllers still run, then they do, and only then is the
// cluster disconnected (I81, I84, I85, I86, I94, Y3).
func testReleased(b *built) {
	s := b.stage
	s.namespaces(b.t, "shop", "storage", "berth-access", "gke-managed-system")
	s.volume(b.t, "shop", "data", ebs, corev1.PersistentVolumeReclaimDelete)
	s.volume(b.t, "shop", "kept", ebs, corev1.PersistentVolumeReclaimRetain)
	s.volume(b.t, "default", "loose", ebs, corev1.PersistentVolumeReclaimDelete)
	s.volume(b.t, "external-dns", "own", ebs, corev1.PersistentVolumeReclaimDelete)
	s.balanced(b.t, "shop", "web")
	s.balanced(b.t, "default", "lb")
	s.workload.Kubectl(b.t, "create", "service", "clusterip", "inside", "--tcp=80")
	s.workload.Kubectl(b.t, "create", "deployment", "ebs-csi-controller", "-n", "storage", "--image=example.com/csi:1")
	b.removal.BackupDisks = true
	b.add(b.application("web", RootName(b.spec.Name), 0))

	planned, err := PlanRemoval(b.t.Context(), b.clusters(), b.spec, b.removal)
	if err != nil {
		b.t.Fatal(err)
	}
	warned(b.t, planned, fmt.Sprintf("Destroying cluster %q takes this apart", b.spec.Name),
		"Volumes (4):\n  default/loose (10Gi, gp3): "+ebs+" vol-default-loose\n", "Load balancers (2):\n  default/lb: lb.default.work.example.com\n  shop/web: web.shop.work.example.com",
		"1. backup: ", "2. root: ", "3. applications: ", "4. release: ", "5. confirm: ", "6. controllers: ", "7. disconnect: ")
	want(b.t, "the plan's warnings", len(planned), 1)

	warnings, err := b.remove(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	happened := b.happened()
	for _, event := range []string{"freed shop/web", "freed default/lb", "deleted the disk of shop-data", "deleted the disk of default-loose"} {
		contains(b.t, happened, event)
		if strings.Index(happened, event) > strings.Index(happened, "deleted external-dns") {
			b.t.Errorf("%s only after the controllers: %s", event, happened)
		}
	}
	if strings.Index(happened, "deleted web") > strings.Index(happened, "freed shop/web") {
		b.t.Errorf("released before the Applications were gone: %s", happened)
	}
	want(b.t, "namespaces", b.there(), systemAndControllers)
	want(b.t, "what is left", b.left(), []string(nil))
	services, err := s.workload.Client().CoreV1().Services("default").List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	want(b.t, "services of default", slices.ContainsFunc(services.Items, func(one corev1.Service) bool { return one.Name == "inside" }), true)
	warned(b.t, warnings, fmt.Sprintf("1 volume(s) of cluster %q keep their disks", b.spec.Name), "shop/kept (10Gi, gp3): "+ebs+" vol-shop-kept, reclaim policy Retain")
	warned(b.t, warnings, fmt.Sprintf("4 volume(s) of cluster %q were backed up", b.spec.Name), "shop/data (10Gi, gp3): "+ebs+" vol-shop-data: snap-data (VolumeSnapshot berth-"+b.spec.Name+"-")
	want(b.t, "warnings", len(warnings), 2)
	_, policies := s.backups(b.t)
	want(b.t, "contents", len(policies), 4)
	for _, one := range policies {
		contains(b.t, one, "berth-"+b.spec.Name+"-", "=Retain")
	}
	s.workload.Kubectl(b.t, "delete", "volumesnapshotcontents", "--all")
	s.workload.Kubectl(b.t, "delete", "pvc", "-n", "external-dns", "--all")
	s.workload.Kubectl(b.t, "delete", "volumesnapshots", "-A", "--all")
	s.workload.Kubectl(b.t, "delete", "pv", "--all")
	s.workload.Kubectl(b.t, "delete", "deployment", "-n", "storage", "--all")
}

// Of a cluster that was only registered nothing is backed up or released, whatever else is set (I92).
func testRegisteredOnly(b *built) {
	b.stage.namespaces(b.t, "shop")
	b.stage.volume(b.t, "shop", "data", ebs, corev1.PersistentVolumeReclaimDelete)
	b.stage.balanced(b.t, "shop", "web")
	before := b.there()
	b.spec.Built, b.removal.BackupDisks = false, true
	warnings, err := b.remove(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	want(b.t, "namespaces", b.there(), before)
	want(b.t, "what happened", b.happened(), "dropped "+RootName(b.spec.Name)+", deleted external-dns")
	warned(b.t, warnings, fmt.Sprintf("Cluster %q keeps its disks and load balancers", b.spec.Name))
	snapshots, _ := b.stage.backups(b.t)
	want(b.t, "snapshots", snapshots, []string(nil))
	b.empty()
}

// empty has the cluster released as a test has left it.
func (b *built) empty() {
	b.t.Helper()
	stop := b.cloud.work()
	defer stop()
	b.stage.workload.Kubectl(b.t, "delete", "namespace", "shop", "--ignore-not-found")
	b.stage.workload.Kubectl(b.t, "delete", "volumesnapshotcontents", "--all")
	b.stage.workload.Kubectl(b.t, "delete", "pv", "--all")
}

// A load balancer that the cloud does not let go of holds up the release; forced, it is listed by its address, and the
// volumes by their handles (I93, I94).
func testReleaseStuck(b *built) {
	b.stage.namespaces(b.t, "shop")
	b.stage.balanced(b.t, "shop", "web")
	b.stage.volume(b.t, "default", "loose", ebs, corev1.PersistentVolumeReclaimDelete)
	b.cloud.hold("service shop/web", true)
	b.cloud.hold("volume default-loose", true)
	b.removal.StepTimeout = stuckAfter
	_, err := b.remove(b.t.Context())
	told(b.t, err, fmt.Sprintf(`Removing cluster %q is stuck at the step "release"`, b.spec.Name), "Namespace/shop", "finalizers remaining", lbCleanup,
		"Nothing else was taken down; after this step come confirm, controllers, disconnect.", `set force_steps = ["release"]`, "load balancers and disks may stay in the cloud and cost money")
	contains(b.t, strings.Join(b.left(), " "), "external-dns")

	b.removal.Force = []string{StepRelease, StepConfirm}
	warnings, err := b.remove(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	warned(b.t, warnings, fmt.Sprintf("2 thing(s) of cluster %q may be left behind", b.spec.Name),
		"Load balancer of Service shop/web: web.shop.work.example.com", "Volume "+ebs+" vol-default-loose of claim default/loose")
	want(b.t, "what is left", b.left(), []string(nil))
	b.cloud.hold("service shop/web", false)
	b.cloud.hold("volume default-loose", false)
	b.empty()
}

// A disk that the driver does not delete holds up the confirmation (I86).
func testConfirmStuck(b *built) {
	b.stage.volume(b.t, "default", "data", ebs, corev1.PersistentVolumeReclaimDelete)
	b.cloud.hold("volume default-data", true)
	b.removal.StepTimeout = stuckAfter
	_, err := b.remove(b.t.Context())
	told(b.t, err, fmt.Sprintf(`Removing cluster %q is stuck at the step "confirm"`, b.spec.Name), "PersistentVolume/default-data", "after this step come controllers, disconnect", `set force_steps = ["confirm"]`)
	b.cloud.hold("volume default-data", false)
	b.removal.StepTimeout = time.Minute
	if _, err := b.remove(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	contains(b.t, b.happened(), "deleted the disk of default-data, deleted external-dns")
}

// What is in a namespace of the cluster's own is not released, and the confirmation says so at once (I84, I86, I94).
func testKeptInSystem(b *built) {
	b.stage.balanced(b.t, "kube-system", "entry")
	b.stage.volume(b.t, "kube-system", "logs", ebs, corev1.PersistentVolumeReclaimDelete)
	_, err := b.remove(b.t.Context())
	told(b.t, err, fmt.Sprintf("Removing cluster %q failed at the step \"confirm\"", b.spec.Name), fmt.Sprintf("2 volume(s) or load balancer(s) of cluster %q don't go by themselves", b.spec.Name),
		"Service kube-system/entry: entry.kube-system.work.example.com", "PersistentVolumeClaim kube-system/logs, which has the volume "+ebs+" vol-kube-system-logs",
		"Delete them by hand while the controllers still run.", `set force_steps = ["confirm"]`)
	// Forced, it is moved on from at once.
	b.removal.Force, b.removal.StepTimeout = []string{StepConfirm}, time.Hour
	warnings, err := b.remove(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	warned(b.t, warnings, fmt.Sprintf("2 thing(s) of cluster %q may be left behind", b.spec.Name), "Service kube-system/entry", "vol-kube-system-logs")
	stop := b.cloud.work()
	defer stop()
	b.stage.workload.Kubectl(b.t, "delete", "service", "-n", "kube-system", "entry")
	b.stage.workload.Kubectl(b.t, "delete", "pvc", "-n", "kube-system", "logs")
	b.stage.workload.Kubectl(b.t, "delete", "pv", "--all")
}

// Once the controllers have begun to go, their namespaces are still not released by the call that goes on.
func testControllersBegun(b *built) {
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	b.proxy.OnWrite(nil, func(_ int, request fleettest.Request) {
		if request.Verb == "delete" && request.Name == "external-dns" {
			cancel()
		}
	})
	if _, err := b.remove(ctx); err == nil {
		b.t.Fatal("it was not interrupted")
	}
	b.proxy.OnWrite(nil, nil)
	if _, err := b.remove(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	contains(b.t, strings.Join(b.there(), " "), "external-dns")
	want(b.t, "what is left", b.left(), []string(nil))
}

// A volume that can't be backed up stops the removal before anything is deleted; forced, it is listed (I81, I94).
func testNoSnapshotClass(b *built) {
	b.stage.volume(b.t, "default", "data", ebs, corev1.PersistentVolumeReclaimDelete)
	b.stage.volume(b.t, "default", "nfs", "nfs.example.com", corev1.PersistentVolumeReclaimDelete)
	b.removal.BackupDisks = true
	_, err := b.remove(b.t.Context())
	told(b.t, err, fmt.Sprintf("Removing cluster %q failed at the step \"backup\"", b.spec.Name), fmt.Sprintf("1 volume(s) of cluster %q can't be backed up", b.spec.Name),
		"default/nfs (10Gi, gp3): nfs.example.com vol-default-nfs", "No snapshot was made.", `set force_steps = ["backup"]`, "volumes without a snapshot go with their data")
	want(b.t, "what is left", b.left(), b.everything("external-dns"))
	snapshots, _ := b.stage.backups(b.t)
	want(b.t, "snapshots", snapshots, []string(nil))

	b.removal.Force = []string{StepBackup}
	warnings, err := b.remove(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	warned(b.t, warnings, fmt.Sprintf("1 thing(s) of cluster %q may be left behind", b.spec.Name), "No backup of volume default/nfs")
	b.stage.workload.Kubectl(b.t, "delete", "volumesnapshotcontents", "--all")
}

// A removal that goes on finds the snapshots that it has made (I96, I97).
func testBackupResumed(b *built) {
	for _, claim := range []string{"a", "b", "c"} {
		b.stage.volume(b.t, "default", claim, ebs, corev1.PersistentVolumeReclaimDelete)
	}
	b.removal.BackupDisks = true
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	b.progress = func(step cluster.Step) {
		if strings.HasPrefix(step.Object, "VolumeSnapshot/") && strings.HasSuffix(step.Object, "-2") {
			cancel()
		}
	}
	_, err := b.remove(ctx)
	told(b.t, err, fmt.Sprintf("Removing cluster %q was interrupted at the step \"backup\"", b.spec.Name))
	began := b.secret().GetAnnotations()[AnnotationRemovalStarted]
	at, err := time.Parse(time.RFC3339, began)
	if err != nil {
		b.t.Fatal(err)
	}
	prefix := "berth-" + b.spec.Name + "-" + at.Format("20060102150405") + "-"
	snapshots, _ := b.stage.backups(b.t)
	want(b.t, "snapshots of the first call", len(snapshots) < 3 && len(snapshots) > 0, true)
	b.progress = nil
	warnings, err := b.remove(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	warned(b.t, warnings, fmt.Sprintf("3 volume(s) of cluster %q were backed up", b.spec.Name))
	_, policies := b.stage.backups(b.t)
	want(b.t, "contents", policies, []string{prefix + "1=Retain", prefix + "2=Retain", prefix + "3=Retain"})
	b.stage.workload.Kubectl(b.t, "delete", "volumesnapshotcontents", "--all")
}

// A snapshot that does not get ready holds up everything; forced, those that did are kept and the others listed (I81, I94, I96).
func testBackupStuck(b *built) {
	for _, claim := range []string{"a", "b"} {
		b.stage.volume(b.t, "default", claim, ebs, corev1.PersistentVolumeReclaimDelete)
	}
	b.removal.BackupDisks, b.removal.StepTimeout = true, stuckAfter
	b.cloud.hold("snapshot a", true)
	_, err := b.remove(b.t.Context())
	told(b.t, err, fmt.Sprintf("Removing cluster %q is stuck at the step \"backup\"", b.spec.Name), "wait until the snapshot can be used", "the disk is busy", "after this step come root, applications, release, confirm, controllers, disconnect")
	want(b.t, "what is left", b.left(), b.everything("external-dns"))
	b.removal.Force = []string{StepBackup}
	warnings, err := b.remove(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	warned(b.t, warnings, fmt.Sprintf("1 volume(s) of cluster %q were backed up", b.spec.Name), "default/b")
	warned(b.t, warnings, fmt.Sprintf("1 thing(s) of cluster %q may be left behind", b.spec.Name), "No finished backup of volume default/a", "the disk is busy")
	_, policies := b.stage.backups(b.t)
	want(b.t, "contents", len(policies), 1)
	contains(b.t, policies[0], "-2=Retain")
	b.stage.workload.Kubectl(b.t, "delete", "volumesnapshotcontents", "--all")
}
