package argocd

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/berthdev/terraform-provider-berth/internal/access"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// Apply registers the cluster, or brings its registration to what it shall be (I5 to I9, I24, I25): it connects, tries the
// credential, writes the kubeconfig and Argo CD's Secret, then the root Application, and last takes back the tokens that
// nobody uses any more. The checks of Plan are repeated before the first write. Each step finds by its marks what an
// interrupted apply left, so that a second apply goes on from there (X11).
func Apply(ctx context.Context, clusters Clusters, spec Spec, before *Spec, terms Terms) (Seen, []Warning, error) {
	p, err := prepare(ctx, clusters, spec, before, terms)
	if err != nil {
		return Seen{}, p.outlook.Warnings, err
	}
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"connect to the cluster, and try the credential", p.connect},
		{"store the kubeconfig", p.applyKubeconfig},
		{"tell Argo CD of the cluster", p.applySecret},
		{"apply the root Application", p.applyRoot},
		{"take back what is not used any more", p.leave},
	} {
		clusters.Management.Progress(ctx, "cluster "+p.Name, "step", step.name)
		if err := step.run(ctx); err != nil {
			return Seen{}, p.outlook.Warnings, err
		}
	}
	seen, err := Read(ctx, clusters, p.Spec, terms, true)
	if err == nil && seen == nil {
		err = &cluster.Problem{
			Summary: fmt.Sprintf("The registration of %q is gone again", p.Name),
			Detail:  fmt.Sprintf("It was applied on %s, and somebody has deleted it since. Apply again.", clusters.Management.Context()),
		}
	}
	if err != nil {
		return Seen{}, p.outlook.Warnings, err
	}
	return *seen, p.outlook.Warnings, nil
}

func (p *prepared) connect(ctx context.Context) error {
	if p.InCluster {
		return nil
	}
	var err error
	p.cred, err = p.obtain(ctx, p.clusters, p.secret, p.terms.Owner)
	return err
}

// applyKubeconfig stores the kubeconfig. One that is moved is in its new place before it leaves the old one.
func (p *prepared) applyKubeconfig(ctx context.Context) error {
	management := p.clusters.Management
	if p.storesKubeconfig() {
		object, err := p.kubeconfigObject(p.outlook.Server, p.cred)
		if err != nil {
			return err
		}
		if err := p.ensureKubeconfigNamespace(ctx, management, p.terms.Owner); err != nil {
			return err
		}
		if _, err := kube.Converge(ctx, management, object, p.hold(object)); err != nil {
			return err
		}
	}
	if p.before != nil && p.before.storesKubeconfig() && p.before.kubeconfigRef() != p.kubeconfigRef() {
		return p.before.dropKubeconfig(ctx, management, p.terms, false)
	}
	return nil
}

func (p *prepared) applySecret(ctx context.Context) error {
	if p.InCluster {
		return nil
	}
	management := p.clusters.Management
	live, err := management.Fetch(ctx, cluster.Secrets, p.Namespace, p.SecretName)
	if err != nil {
		return err
	}
	object, err := p.secretObject(p.outlook.Server, p.cred, p.workloads, live)
	if err != nil {
		return err
	}
	kube.SetAnnotation(object.Desired, AnnotationVersion, p.workloads.version)
	kube.SetAnnotation(object.Desired, AnnotationNodes, strconv.Itoa(p.workloads.nodes))
	_, err = kube.ConvergeFrom(ctx, management, object, p.hold(object), live)
	return err
}

// endRemoval takes back the marks of a removal that was begun and given up, off the cluster's Applications too: by those the
// next one would take along what has left the root since.
func (p *prepared) endRemoval(ctx context.Context) error {
	step := ""
	if p.InCluster {
		var err error
		if step, err = p.removalInside(ctx, p.clusters.Management, p.root); err != nil {
			return err
		}
	} else if p.secret != nil {
		step = p.secret.GetAnnotations()[AnnotationRemovalStep]
	}
	if step == "" {
		return nil
	}
	return forgetRemoval(ctx, p.clusters, p.Spec)
}

func (p *prepared) applyRoot(ctx context.Context) error {
	management := p.clusters.Management
	had := p.before != nil && p.before.AppOfApps != nil && !p.before.AppOfApps.Commit
	switch {
	case p.AppOfApps == nil && had:
		return dropRoot(ctx, management, p.Spec, p.terms)
	case p.AppOfApps == nil || p.AppOfApps.Commit && !had:
		return nil
	case p.AppOfApps.Commit:
		// From here on it is the repository's.
		live, err := management.Fetch(ctx, Applications, p.Namespace, RootName(p.Name))
		if err != nil || live == nil || !p.terms.Ours(live) {
			return err
		}
		return kube.Unmark(ctx, management, Applications, live)
	}
	object := p.rootObject()
	_, err := kube.Converge(ctx, management, object, p.hold(object))
	return err
}

// dropRoot deletes the root Application, where berth made it, and nothing of what it deploys. One that was adopted stays as
// it is, without berth's marks.
func dropRoot(ctx context.Context, management *cluster.Cluster, spec Spec, terms Terms) error {
	live, err := management.Fetch(ctx, Applications, spec.Namespace, RootName(spec.Name))
	if err != nil || live == nil || !terms.Ours(live) {
		return err
	}
	if kube.Created(live) {
		one := readApplication(live)
		alone := &remover{clusters: Clusters{Management: management}, spec: spec}
		err = alone.setFinalizers(ctx, &one, func(finalizers []string) []string { return slices.DeleteFunc(finalizers, isCascade) })
		if err != nil {
			return err
		}
	}
	_, err = kube.Remove(ctx, management, Applications, spec.Namespace, RootName(spec.Name), terms, false)
	return err
}

// leave ends a removal that was given up, and takes the registration's use off tokens that it no longer stores, once the new
// one is with Argo CD.
func (p *prepared) leave(ctx context.Context) error {
	if err := p.endRemoval(ctx); err != nil {
		return err
	}
	if p.InCluster {
		return nil
	}
	if p.Access != nil {
		if err := access.Leave(ctx, p.clusters.Workload, *p.Access, p.terms.Owner, p.cred.token.SecretName); err != nil {
			return err
		}
	}
	if p.before == nil || p.before.Access == nil || p.Access != nil && p.before.Access.Namespace == p.Access.Namespace && p.before.Access.Name == p.Access.Name {
		return nil
	}
	return access.Leave(ctx, p.clusters.Workload, *p.before.Access, p.terms.Owner, "")
}
