package argocd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// systemNamespaces are a cluster's own, which a release never deletes (I84): Kubernetes', and those in which clouds and
// networks keep what nodes, volumes and load balancers need. A star stands for anything. Sources: the documentation of GKE
// ("managed namespaces"), EKS add-ons, AKS, Calico, Cilium, OpenShift.
var systemNamespaces = []string{
	metav1.NamespaceDefault, "kube-*",
	"gke-*", "gmp-*", "config-management-*", "cnrm-system", "configconnector-operator-system",
	"amazon-*", "aws-*",
	"aks-*", "azure-*", "app-routing-system",
	"calico-*", "tigera-operator", "cilium", "cilium-*",
	"openshift", "openshift-*",
}

// workloads are the kinds by which a controller is recognised that is on the cluster by other means than Argo CD.
var workloads = []cluster.Kind{cluster.Deployments, cluster.DaemonSets, cluster.StatefulSets}

// protected are the namespaces of a cluster that a release leaves alone: its own, those of the controllers that are removed
// last, and that of the account which Argo CD signs in with.
type protected struct {
	// controllers are those of the controllers, whose own volumes go only with them.
	controllers []string
	others      []string
	// services are the controllers' own, as namespace/name.
	services []string
}

// has tells whether a namespace is left alone.
func (p protected) has(namespace string) bool {
	return slices.ContainsFunc(systemNamespaces, func(pattern string) bool { return matches(pattern, namespace) }) ||
		slices.Contains(p.controllers, namespace) || slices.Contains(p.others, namespace)
}

// add adds a namespace of a controller. In default the claims and load balancers go, whoever else is there.
func (p *protected) add(namespace string) {
	if namespace != "" && namespace != metav1.NamespaceDefault && !slices.Contains(p.controllers, namespace) {
		p.controllers = append(p.controllers, namespace)
	}
}

// protect finds the protected namespaces.
func (r *remover) protect(ctx context.Context) (protected, error) {
	var p protected
	t, err := r.tree(ctx)
	if err != nil {
		return p, err
	}
	for _, one := range t.members {
		if !one.last || !one.deploysTo(r.spec.Name, r.server) {
			continue
		}
		p.add(one.DestinationNamespace)
		for _, resource := range one.Resources {
			p.add(resource.Namespace)
			if resource.Group == "" && resource.Kind == cluster.Services.Kind {
				p.services = append(p.services, resource.Namespace+"/"+resource.Name)
			}
			if resource.Group == "" && resource.Kind == cluster.Namespaces.Kind {
				p.add(resource.Name)
			}
		}
	}
	if r.spec.Access != nil {
		p.others = append(p.others, r.spec.Access.Namespace)
	}
	for _, kind := range workloads {
		objects, err := r.clusters.Workload.SelectMetadata(ctx, kind, "", "", "")
		if err != nil {
			return p, err
		}
		for _, object := range objects {
			if knownWorkload(object.GetName()) {
				p.add(object.GetNamespace())
			}
		}
	}
	return p, nil
}

// release deletes, while the controllers still run, what holds load balancers and disks: the namespaces outside the
// cluster's own system, and the load balancers and volume claims in default (I84).
func (r *remover) release(ctx context.Context) error {
	if r.clusters.Unreachable != nil {
		return r.unreached()
	}
	c := r.clusters.Workload
	p, err := r.protect(ctx)
	if err != nil {
		return err
	}
	var targets []kube.Target
	drop := func(kind cluster.Kind, objects []*unstructured.Unstructured) error {
		for _, object := range objects {
			if object.GetDeletionTimestamp() == nil {
				c.Progress(ctx, kube.Describe(object), "delete", "")
				if err := c.Delete(ctx, kind, object.GetNamespace(), object.GetName(), object.GetUID()); err != nil {
					return err
				}
			}
			targets = append(targets, kube.Target{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()})
		}
		return nil
	}
	namespaces, err := c.SelectMetadata(ctx, cluster.Namespaces, "", "", "")
	if err != nil {
		return err
	}
	namespaces = slices.DeleteFunc(namespaces, func(one *unstructured.Unstructured) bool { return p.has(one.GetName()) })
	if err := drop(cluster.Namespaces, namespaces); err != nil {
		return err
	}
	services, err := c.Select(ctx, cluster.Services, metav1.NamespaceDefault, "", "")
	if err != nil {
		return err
	}
	if err := drop(cluster.Services, slices.DeleteFunc(services, func(one *unstructured.Unstructured) bool {
		return !hasLoadBalancer(one) || slices.Contains(p.services, one.GetNamespace()+"/"+one.GetName())
	})); err != nil {
		return err
	}
	claims, err := c.SelectMetadata(ctx, cluster.PersistentVolumeClaims, metav1.NamespaceDefault, "", "")
	if err != nil {
		return err
	}
	if err := drop(cluster.PersistentVolumeClaims, claims); err != nil {
		return err
	}
	if len(targets) == 0 {
		return nil
	}
	return kube.WaitAllGone(ctx, c, "what is released of "+r.called(), targets)
}

func hasLoadBalancer(service *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(service.Object, "spec", "type")
	return kind == "LoadBalancer"
}

// unreached is the error of a step on a cluster that does not answer.
func (r *remover) unreached() error {
	return &hopeless{&cluster.Problem{
		Summary: fmt.Sprintf("Cluster %q does not answer", r.spec.Name), Detail: r.clusters.Unreachable.Error(),
	}}
}

// held is what the cluster holds outside itself.
type held struct {
	volumes       []Volume
	loadBalancers []LoadBalancer
	// targets are both, to be waited for.
	targets []kube.Target
	// stays are those of them that nobody is deleting.
	stays []string
}

// holding lists the volumes whose disks go with them and the load balancers, those of the controllers left out: they go
// with them.
func (r *remover) holding(ctx context.Context) (held, error) {
	var h held
	c := r.clusters.Workload
	p, err := r.protect(ctx)
	if err != nil {
		return h, err
	}
	objects, err := c.Select(ctx, cluster.PersistentVolumes, "", "", "")
	if err != nil {
		return h, err
	}
	all, err := volumes(objects)
	if err != nil {
		return h, err
	}
	for _, volume := range all {
		namespace, claim, _ := strings.Cut(volume.Claim, "/")
		if !volume.Dynamic || volume.Policy != "Delete" || slices.Contains(p.controllers, namespace) {
			continue
		}
		h.volumes = append(h.volumes, volume)
		h.targets = append(h.targets, kube.Target{Kind: cluster.PersistentVolumes, Name: volume.Name})
		live, err := c.Fetch(ctx, cluster.PersistentVolumeClaims, namespace, claim)
		if err != nil {
			return h, err
		}
		if live != nil && live.GetDeletionTimestamp() == nil {
			h.stays = append(h.stays, fmt.Sprintf("PersistentVolumeClaim %s, which has the volume %s", volume.Claim, volume.identifier()))
		}
	}
	objects, err = c.Select(ctx, cluster.Services, "", "", "")
	if err != nil {
		return h, err
	}
	objects = slices.DeleteFunc(objects, func(one *unstructured.Unstructured) bool {
		return !hasLoadBalancer(one) || slices.Contains(p.services, one.GetNamespace()+"/"+one.GetName())
	})
	if h.loadBalancers, err = loadBalancers(objects); err != nil {
		return h, err
	}
	for i, object := range objects {
		h.targets = append(h.targets, kube.Target{Kind: cluster.Services, Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID()})
		if object.GetDeletionTimestamp() == nil {
			h.stays = append(h.stays, "Service "+h.loadBalancers[i].String())
		}
	}
	return h, nil
}

// lines are what is held, by the identifiers that it has outside the cluster (I94).
func (h held) lines() []string {
	var lines []string
	for _, volume := range h.volumes {
		lines = append(lines, fmt.Sprintf("Volume %s of claim %s", volume.identifier(), volume))
	}
	for _, one := range h.loadBalancers {
		lines = append(lines, fmt.Sprintf("Load balancer of Service %s", one))
	}
	return lines
}

// confirm waits until the volumes and load balancers are gone (I86).
func (r *remover) confirm(ctx context.Context) error {
	if r.clusters.Unreachable != nil {
		return r.unreached()
	}
	h, err := r.holding(ctx)
	if err != nil {
		return err
	}
	if len(h.stays) > 0 {
		return &hopeless{&cluster.Problem{
			Attribute: "force_steps", Summary: fmt.Sprintf("%d volume(s) or load balancer(s) of cluster %q don't go by themselves", len(h.stays), r.spec.Name),
			Detail: "They are in namespaces of the cluster's own system, of which nothing is released, and nobody deletes them:\n  " + strings.Join(h.stays, "\n  ") +
				"\nDelete them by hand while the controllers still run.",
		}}
	}
	if len(h.targets) > 0 {
		if err := kube.WaitAllGone(ctx, r.clusters.Workload, "what "+r.called()+" holds in the cloud", h.targets); err != nil {
			return err
		}
	}
	return r.keepsDisks(ctx)
}

func (r *remover) abandonRelease(ctx context.Context) error { return r.recordHeld(ctx, StepRelease) }

func (r *remover) abandonConfirm(ctx context.Context) error { return r.recordHeld(ctx, StepConfirm) }

// recordHeld records what is still held, as far as the cluster can be asked.
func (r *remover) recordHeld(ctx context.Context, step string) error {
	if r.clusters.Unreachable != nil {
		return r.record(ctx, fmt.Sprintf("Whatever volumes and load balancers cluster %q holds: it does not answer (step %q)", r.spec.Name, step))
	}
	h, err := r.holding(ctx)
	if err != nil && (cluster.Unreachable(err) || apierrors.IsForbidden(err)) {
		return r.record(ctx, fmt.Sprintf("Whatever volumes and load balancers cluster %q holds, which could not be listed (step %q): %s", r.spec.Name, step, err))
	}
	if err != nil {
		return err
	}
	return r.record(ctx, h.lines()...)
}

// keepsDisks tells of the disks that stay because their volumes say so: those that are kept on purpose, and those that were
// not made for their claims.
func (r *remover) keepsDisks(ctx context.Context) error {
	objects, err := r.clusters.Workload.Select(ctx, cluster.PersistentVolumes, "", "", "")
	if err != nil {
		return err
	}
	all, err := volumes(objects)
	if err != nil {
		return err
	}
	var kept []string
	for _, volume := range all {
		if !volume.Dynamic || volume.Policy != "Delete" {
			kept = append(kept, volume.String()+", reclaim policy "+volume.Policy)
		}
	}
	if len(kept) > 0 {
		r.warnings = append(r.warnings, Warning{
			Summary: fmt.Sprintf("%d volume(s) of cluster %q keep their disks", len(kept), r.spec.Name),
			Detail:  "Their reclaim policy says so, or they were not made for their claims. The disks outlive the cluster:\n" + strings.Join(kept, "\n"),
		})
	}
	return nil
}
