package argocd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// Inventory is what is on a registered cluster, as far as Argo CD deployed it or a removal has to do with it (I72, I78).
type Inventory struct {
	// Name is the registration's, Server the address by which Argo CD reaches the cluster.
	Name, Server string
	// Version and Nodes are the cluster's own; "" and -1 where they are not known.
	Version string
	Nodes   int
	// Root is the root Application, nil when there is none.
	Root *Application
	// Zones are the environments on the cluster, whoever brought them (I75).
	Zones []Application
	// Waves are the Applications of the root in the order in which Argo CD brings them up (I74).
	Waves []Wave
	// Foreign are Applications on the cluster that do not belong to the root, or that an ApplicationSet makes (Y25).
	Foreign []Application
	// Generators are the ApplicationSets that the root brings.
	Generators []string
	// Volumes and LoadBalancers are what holds disks and addresses outside the cluster.
	Volumes       []Volume
	LoadBalancers []LoadBalancer
	// Step is where a removal that was begun has got to, "" when there is none.
	Step string
	// Skipped says what could not be looked at, and why.
	Skipped []string
}

// Wave are the Applications that come up together.
type Wave struct {
	// Path are the sync waves from the root down to them; one number, except below an Application that brings others.
	Path []int
	// Last tells that they are controllers, which are removed after all others.
	Last         bool
	Applications []Application
}

// String is the path as messages show it.
func (w Wave) String() string { return waveOf(w.Path) }

// Volume is a PersistentVolume that a claim has.
type Volume struct {
	Name string
	// Claim is the claim's namespace/name.
	Claim, Size, StorageClass string
	// Driver and Handle are by what, and as what, its storage is known outside the cluster.
	Driver, Handle string
	// Policy is what becomes of the storage when the claim goes, Delete or Retain; Dynamic tells that it was made for the
	// claim.
	Policy  string
	Dynamic bool
}

// String is the volume in one line.
func (v Volume) String() string {
	text := fmt.Sprintf("%s (%s", v.Claim, v.Size)
	if v.StorageClass != "" {
		text += ", " + v.StorageClass
	}
	return text + "): " + v.identifier()
}

// identifier is by what the storage is found outside the cluster.
func (v Volume) identifier() string {
	handle := v.Handle
	if handle == "" {
		handle = v.Name
	}
	if v.Driver != "" {
		handle = v.Driver + " " + handle
	}
	return handle
}

// LoadBalancer is a Service of type LoadBalancer.
type LoadBalancer struct {
	Namespace, Name string
	// Addresses are its addresses and host names, none while nothing has given it any.
	Addresses []string
}

// String is the load balancer in one line.
func (l LoadBalancer) String() string {
	addresses := "no address yet"
	if len(l.Addresses) > 0 {
		addresses = strings.Join(l.Addresses, ", ")
	}
	return l.Namespace + "/" + l.Name + ": " + addresses
}

// TakeInventory looks at a registered cluster, without writing anything. last names the controllers of the configuration.
// What the workload cluster can't be asked is in Skipped; an error is about the management cluster.
func TakeInventory(ctx context.Context, clusters Clusters, spec Spec, last []string) (Inventory, error) {
	i := Inventory{Name: spec.Name, Nodes: -1}
	if spec.SecretName == "" {
		spec.SecretName = SecretNameOf(spec.Name)
	}
	if err := i.registered(ctx, clusters, spec); err != nil {
		return i, err
	}
	all, served, err := listApplications(ctx, fromSnapshot(clusters.Management), spec.Namespace)
	if err != nil {
		return i, err
	}
	if !served {
		i.skip(fmt.Sprintf("Applications: cluster %q does not serve their kind, so Argo CD is not installed there", clusters.Management.Name()))
	}
	t := belonging(spec.Name, spec.Namespace, all, last)
	i.applications(t, spec)
	for _, one := range t.andRoot() {
		if i.Step == "" {
			i.Step = one.Live.GetAnnotations()[AnnotationRemovalStep]
		}
	}
	i.workload(ctx, clusters)
	return i, nil
}

// registered reads what the cluster's Secret says; the management cluster itself has none. Where the connection leads to
// another cluster than is registered, everything else would be that one's.
func (i *Inventory) registered(ctx context.Context, clusters Clusters, spec Spec) error {
	if spec.InCluster {
		i.Server = InClusterServer
		return nil
	}
	secret, err := clusters.Management.LiveBy(ctx, cluster.Secrets, spec.Namespace, spec.SecretName, clusterSelector)
	if err != nil {
		return err
	}
	if secret == nil {
		i.Server = spec.Server
		i.skip(fmt.Sprintf("the registration: Secret %s is not on cluster %q", spec.ref(), clusters.Management.Name()))
		return nil
	}
	i.Server, i.Step = secretField(secret, "server"), secret.GetAnnotations()[AnnotationRemovalStep]
	registered := secret.GetAnnotations()[AnnotationClusterUID]
	if registered == "" || !clusters.answers() {
		return nil
	}
	uid, err := clusters.Workload.UID(ctx)
	if err != nil {
		i.skip("whether it is the registered cluster: " + err.Error())
		uid = registered // the rest may be readable all the same
	}
	if uid != registered {
		return otherCluster(clusters, spec, registered, uid)
	}
	return nil
}

// answers tells whether the workload cluster can be asked.
func (c Clusters) answers() bool { return c.Workload != nil && c.Unreachable == nil }

func (i *Inventory) skip(text string) { i.Skipped = append(i.Skipped, text) }

// applications sorts the Applications in.
func (i *Inventory) applications(t tree, spec Spec) {
	i.Root = t.root
	i.Zones, i.Foreign, i.Generators = values(t.zones(spec, i.Server)), values(t.foreign(spec, i.Server)), t.generators()
	for _, group := range slices.Backward(groups(t.members)) {
		i.Waves = append(i.Waves, Wave{Path: group[0].path, Last: group[0].last, Applications: values(group)})
	}
}

func values(all []*Application) []Application {
	out := make([]Application, len(all))
	for i, one := range all {
		out[i] = *one
	}
	return out
}

// workload asks the workload cluster itself.
func (i *Inventory) workload(ctx context.Context, clusters Clusters) {
	const asked = "version, nodes, volumes and load balancers"
	if clusters.Unreachable != nil {
		i.skip(asked + ": " + clusters.Unreachable.Error())
		return
	}
	c := clusters.Workload
	if c == nil {
		i.skip(asked + ": no connection to the cluster was given")
		return
	}
	for _, part := range []struct {
		what string
		read func() error
	}{
		{"version", func() error {
			info, err := c.Version(ctx)
			if err == nil {
				i.Version = info.GitVersion
			}
			return err
		}},
		{"nodes", func() error {
			nodes, err := c.List(ctx, cluster.Nodes)
			if err == nil {
				i.Nodes = len(nodes)
			}
			return err
		}},
		{"volumes", func() error {
			all, err := c.List(ctx, cluster.PersistentVolumes)
			if err == nil {
				i.Volumes, err = volumes(all)
			}
			return err
		}},
		{"load balancers", func() error {
			all, err := c.List(ctx, cluster.Services)
			if err == nil {
				i.LoadBalancers, err = loadBalancers(all)
			}
			return err
		}},
	} {
		err := part.read()
		if cluster.Unreachable(err) {
			// The others would wait as long, for the same answer.
			i.skip(asked + ": " + err.Error())
			return
		}
		if err != nil {
			i.skip(part.what + ": " + err.Error())
		}
	}
}

// volumes are those of PersistentVolumes that claims have.
func volumes(objects []*unstructured.Unstructured) ([]Volume, error) {
	var all []Volume
	for _, object := range objects {
		var pv corev1.PersistentVolume
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &pv); err != nil {
			return nil, fmt.Errorf("reading PersistentVolume %s: %w", object.GetName(), err)
		}
		if pv.Spec.ClaimRef == nil {
			continue
		}
		volume := Volume{
			Name: pv.Name, Claim: pv.Spec.ClaimRef.Namespace + "/" + pv.Spec.ClaimRef.Name, Size: pv.Spec.Capacity.Storage().String(),
			StorageClass: pv.Spec.StorageClassName, Policy: string(pv.Spec.PersistentVolumeReclaimPolicy),
			Dynamic: pv.Annotations[annotationProvisionedBy] != "",
		}
		volume.Driver, volume.Handle = source(pv.Spec.PersistentVolumeSource)
		all = append(all, volume)
	}
	slices.SortFunc(all, func(a, b Volume) int {
		if order := strings.Compare(a.Claim, b.Claim); order != 0 {
			return order
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all, nil
}

// annotationProvisionedBy stands on a volume that was made for its claim (Kubernetes, "Dynamic volume provisioning").
const annotationProvisionedBy = "pv.kubernetes.io/provisioned-by"

// source is by what driver, and as what, the storage of a volume is known.
func source(s corev1.PersistentVolumeSource) (driver, handle string) {
	switch {
	case s.CSI != nil:
		return s.CSI.Driver, s.CSI.VolumeHandle
	case s.AWSElasticBlockStore != nil:
		return "awsElasticBlockStore", s.AWSElasticBlockStore.VolumeID
	case s.GCEPersistentDisk != nil:
		return "gcePersistentDisk", s.GCEPersistentDisk.PDName
	case s.AzureDisk != nil:
		return "azureDisk", s.AzureDisk.DataDiskURI
	case s.NFS != nil:
		return "nfs", s.NFS.Server + ":" + s.NFS.Path
	case s.HostPath != nil:
		return "hostPath", s.HostPath.Path
	case s.Local != nil:
		return "local", s.Local.Path
	}
	return "", ""
}

// loadBalancers are those of Services that have one.
func loadBalancers(objects []*unstructured.Unstructured) ([]LoadBalancer, error) {
	var all []LoadBalancer
	for _, object := range objects {
		if kind, _, _ := unstructured.NestedString(object.Object, "spec", "type"); kind != string(corev1.ServiceTypeLoadBalancer) {
			continue
		}
		var service corev1.Service
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &service); err != nil {
			return nil, fmt.Errorf("reading Service %s/%s: %w", object.GetNamespace(), object.GetName(), err)
		}
		one := LoadBalancer{Namespace: service.Namespace, Name: service.Name}
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			for _, address := range []string{ingress.Hostname, ingress.IP} {
				if address != "" {
					one.Addresses = append(one.Addresses, address)
				}
			}
		}
		all = append(all, one)
	}
	return all, nil
}

// mostNamed is how many of a kind a message lists.
const mostNamed = 40

// Lines are the inventory for a message, a heading and what is below it for each part that has anything.
func (i Inventory) Lines() []string {
	var lines []string
	if i.Step != "" {
		lines = append(lines, "A removal of it was begun and has got to the step "+i.Step+".")
	}
	if i.Root != nil {
		lines = append(lines, fmt.Sprintf("Root Application %s: %s.", i.Root, i.Root.state()))
	}
	lines = append(lines, section("Environments", i.Zones, func(a Application) string { return a.environment() + ": " + a.state() })...)
	for _, wave := range i.Waves {
		title := "Applications of wave " + wave.String()
		if wave.Last {
			title = "Controllers of wave " + wave.String() + ", removed last"
		}
		lines = append(lines, section(title, wave.Applications, func(a Application) string {
			return fmt.Sprintf("%s, to %s: %s", a, a.destination(), a.state())
		})...)
	}
	lines = append(lines, section("Applications from elsewhere", i.Foreign, Application.whose)...)
	lines = append(lines, section("Volumes", i.Volumes, Volume.String)...)
	lines = append(lines, section("Load balancers", i.LoadBalancers, LoadBalancer.String)...)
	lines = append(lines, section("Not looked at", i.Skipped, func(text string) string { return text })...)
	if len(lines) == 0 {
		lines = append(lines, "There is no Application, volume or load balancer on it.")
	}
	return lines
}

// whose says where an Application that is not the root's comes from.
func (a Application) whose() string {
	from := "of no other Application"
	switch {
	case a.ApplicationSet != "":
		from = "of ApplicationSet " + a.Namespace + "/" + a.ApplicationSet
	case a.Parent != "":
		from = "of Application " + a.Parent
	}
	return a.String() + ", " + from + ", to " + a.destination()
}

// section is a heading with lines below it; nothing where there are none.
func section[T any](title string, all []T, text func(T) string) []string {
	if len(all) == 0 {
		return nil
	}
	lines := []string{fmt.Sprintf("%s (%d):", title, len(all))}
	for _, one := range all[:min(len(all), mostNamed)] {
		lines = append(lines, "  "+text(one))
	}
	if more := len(all) - mostNamed; more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more", more))
	}
	return lines
}

// asProblem tells whether an error says already what is wrong and what to do.
func asProblem(err error) (*cluster.Problem, bool) { return errors.AsType[*cluster.Problem](err) }
