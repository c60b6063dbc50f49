package argocd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// The kinds of CSI's snapshots. Source: kubernetes-csi/external-snapshotter, v1 since its release 4.0.
var (
	volumeSnapshots        = cluster.Kind{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshots", Kind: "VolumeSnapshot", Namespaced: true}
	volumeSnapshotContents = cluster.Kind{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshotcontents", Kind: "VolumeSnapshotContent"}
	volumeSnapshotClasses  = cluster.Kind{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshotclasses", Kind: "VolumeSnapshotClass"}
)

const (
	// annotationDefaultSnapshotClass marks the class that is meant for a driver where none is named.
	annotationDefaultSnapshotClass = "snapshot.storage.kubernetes.io/is-default-class"
	// labelBackup stands on the snapshots of a removal and names the cluster.
	labelBackup = "berth.dev/backup"
)

// disk is a volume that is backed up, with the snapshot of it.
type disk struct {
	Volume
	class, snapshot string
	// content is the VolumeSnapshotContent that the snapshot is kept as.
	content string
}

func (d disk) namespace() string { namespace, _, _ := strings.Cut(d.Claim, "/"); return namespace }

func (d disk) claim() string { _, claim, _ := strings.Cut(d.Claim, "/"); return claim }

// backup makes a snapshot of each volume that a claim has, waits until all can be used, and has the snapshots outlive the
// cluster (I81, I96). A volume of which there can be none is an error, before any is made.
func (r *remover) backup(ctx context.Context) error {
	if r.clusters.Unreachable != nil {
		return r.unreached()
	}
	disks, without, err := r.disks(ctx)
	if err != nil {
		return err
	}
	if len(without) > 0 && r.removal.forces(StepBackup) {
		if err := r.recordWithout(ctx, without); err != nil {
			return err
		}
	} else if len(without) > 0 {
		return &hopeless{&cluster.Problem{
			Attribute: "removal.backup_disks", Summary: fmt.Sprintf("%d volume(s) of cluster %q can't be backed up", len(without), r.spec.Name),
			Detail: "A snapshot needs a volume of a CSI driver and a VolumeSnapshotClass of that driver:\n  " + strings.Join(without, "\n  ") +
				"\nNo snapshot was made. Create the VolumeSnapshotClass, or back these volumes up by other means.",
		}}
	}
	if err := r.snapshot(ctx, disks); err != nil {
		return err
	}
	for i := range disks {
		if err := r.awaitSnapshot(ctx, &disks[i]); err != nil {
			return err
		}
	}
	return r.keepSnapshots(ctx, disks)
}

// abandonBackup makes what snapshots there can be without waiting for them, keeps those, and records what is not backed up.
func (r *remover) abandonBackup(ctx context.Context) error {
	if r.clusters.Unreachable != nil {
		return r.record(ctx, fmt.Sprintf("No backup of the volumes of cluster %q: it does not answer", r.spec.Name))
	}
	disks, without, err := r.disks(ctx)
	if err != nil {
		return err
	}
	if err := r.recordWithout(ctx, without); err != nil {
		return err
	}
	if err := r.snapshot(ctx, disks); err != nil {
		return err
	}
	var kept []disk
	var lines []string
	for _, one := range disks {
		live, err := r.clusters.Workload.Fetch(ctx, volumeSnapshots, one.namespace(), one.snapshot)
		if err != nil {
			return err
		}
		if ready, reason := one.usable(live); !ready {
			lines = append(lines, fmt.Sprintf("No finished backup of volume %s: VolumeSnapshot %s: %s", one.Volume, one.snapshot, reason))
		}
		if one.content != "" {
			kept = append(kept, one)
		}
	}
	if err := r.record(ctx, lines...); err != nil {
		return err
	}
	return r.keepSnapshots(ctx, kept)
}

// recordWithout records the volumes of which there can be no snapshot.
func (r *remover) recordWithout(ctx context.Context, without []string) error {
	lines := make([]string, len(without))
	for i, text := range without {
		lines[i] = "No backup of volume " + text
	}
	return r.record(ctx, lines...)
}

// disks are the volumes that can be backed up, and, in words, those that can't.
func (r *remover) disks(ctx context.Context) (disks []disk, without []string, err error) {
	c := r.clusters.Workload
	objects, err := c.Select(ctx, cluster.PersistentVolumes, "", "", "")
	if err != nil {
		return nil, nil, err
	}
	objects = slices.DeleteFunc(objects, func(one *unstructured.Unstructured) bool {
		phase, _, _ := unstructured.NestedString(one.Object, "status", "phase")
		return phase != string(corev1.VolumeBound)
	})
	all, err := volumes(objects)
	if err != nil || len(all) == 0 {
		return nil, nil, err
	}
	classes, err := c.Select(ctx, volumeSnapshotClasses, "", "", "")
	if err != nil && !apierrors.IsNotFound(err) { // without their kind there are none
		return nil, nil, err
	}
	csi := map[string]bool{}
	for _, object := range objects {
		_, csi[object.GetName()], _ = unstructured.NestedMap(object.Object, "spec", "csi")
	}
	for _, volume := range all {
		class := ""
		if csi[volume.Name] {
			class = classOf(classes, volume.Driver)
		}
		if class == "" {
			without = append(without, volume.String())
			continue
		}
		disks = append(disks, disk{Volume: volume, class: class})
	}
	return disks, without, nil
}

// classOf is the VolumeSnapshotClass of a driver: the default one, or else the first by name.
func classOf(classes []*unstructured.Unstructured, driver string) string {
	found := ""
	for _, class := range classes {
		if class.Object["driver"] != driver {
			continue
		}
		if class.GetAnnotations()[annotationDefaultSnapshotClass] == "true" {
			return class.GetName()
		}
		if found == "" {
			found = class.GetName()
		}
	}
	return found
}

// snapshot makes the snapshots, except those that an earlier call of the same removal has made.
func (r *remover) snapshot(ctx context.Context, disks []disk) error {
	if len(disks) == 0 {
		return nil
	}
	c := r.clusters.Workload
	if err := r.nameSnapshots(ctx, disks); err != nil {
		return err
	}
	for _, one := range disks {
		wanted := volumeSnapshots.New(one.namespace(), one.snapshot)
		wanted.SetLabels(map[string]string{labelBackup: r.spec.Name})
		wanted.Object["spec"] = map[string]any{
			"volumeSnapshotClassName": one.class,
			"source":                  map[string]any{"persistentVolumeClaimName": one.claim()},
		}
		terms := Terms{Owner: r.removal.Terms.Owner}
		if _, err := kube.Converge(ctx, c, kube.Object{Kind: volumeSnapshots, Desired: wanted}, terms); err != nil {
			return err
		}
	}
	return nil
}

// nameSnapshots gives each volume the name of its snapshot, berth-<cluster>-<time>-<n>: that of an earlier call where there
// is one, and a number that is not taken for all others. The time is when the removal began.
func (r *remover) nameSnapshots(ctx context.Context, disks []disk) error {
	prefix := fmt.Sprintf("berth-%s-%s-", r.spec.Name, r.started.Format("20060102150405"))
	made, err := r.clusters.Workload.Select(ctx, volumeSnapshots, "", labelBackup+"="+r.spec.Name, "")
	if err != nil {
		return err
	}
	last, named := 0, map[string]string{}
	for _, one := range made {
		number, isOurs := strings.CutPrefix(one.GetName(), prefix)
		n, err := strconv.Atoi(number)
		if !isOurs || err != nil {
			continue
		}
		claim, _, _ := unstructured.NestedString(one.Object, "spec", "source", "persistentVolumeClaimName")
		named[one.GetNamespace()+"/"+claim] = one.GetName()
		last = max(last, n)
	}
	for i := range disks {
		if disks[i].snapshot = named[disks[i].Claim]; disks[i].snapshot == "" {
			last++
			disks[i].snapshot = prefix + strconv.Itoa(last)
		}
	}
	return nil
}

// awaitSnapshot waits until a snapshot can be used.
func (r *remover) awaitSnapshot(ctx context.Context, one *disk) error {
	return kube.Wait(ctx, r.clusters.Workload, volumeSnapshots, one.namespace(), one.snapshot, "wait until the snapshot can be used", one.usable)
}

// usable tells whether a volume can be made from a snapshot, and if not, why. It learns as what the snapshot is kept.
func (d *disk) usable(live *unstructured.Unstructured) (bool, string) {
	if live == nil {
		return false, "it does not exist"
	}
	d.content, _, _ = unstructured.NestedString(live.Object, "status", "boundVolumeSnapshotContentName")
	if ready, _, _ := unstructured.NestedBool(live.Object, "status", "readyToUse"); ready && d.content != "" {
		return true, ""
	}
	if message, found, _ := unstructured.NestedString(live.Object, "status", "error", "message"); found {
		return false, message
	}
	return false, "the driver has not finished it"
}

// keepSnapshots has what snapshots are kept as outlive them, and with them their namespaces, and tells by what they are
// found.
func (r *remover) keepSnapshots(ctx context.Context, disks []disk) error {
	if len(disks) == 0 {
		return nil
	}
	var lines []string
	for _, one := range disks {
		patch := []byte(`{"spec":{"deletionPolicy":"Retain"}}`)
		live, err := r.clusters.Workload.MergePatch(ctx, volumeSnapshotContents, "", one.content, patch, kube.FieldManager)
		if err != nil {
			return err
		}
		handle, _, _ := unstructured.NestedString(live.Object, "status", "snapshotHandle")
		if handle == "" {
			handle = one.content
		}
		lines = append(lines, fmt.Sprintf("%s: %s (VolumeSnapshot %s)", one.Volume, handle, one.snapshot))
	}
	r.warnings = append(r.warnings, Warning{
		Summary: fmt.Sprintf("%d volume(s) of cluster %q were backed up", len(disks), r.spec.Name),
		Detail:  "The snapshots outlive the cluster, and cost money until they are deleted where they are kept:\n" + strings.Join(lines, "\n"),
	})
	return nil
}
