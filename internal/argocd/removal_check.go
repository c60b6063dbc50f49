package argocd

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// check refuses a removal that something stands against. It writes nothing.
func (r *remover) check(ctx context.Context, t tree) error {
	if err := r.checkIdentity(ctx); err != nil {
		return err
	}
	return join(r.refusals(t))
}

// join makes one error of several problems, which are shown one by one.
func join(problems []*cluster.Problem) error {
	var all []error
	for _, problem := range problems {
		all = append(all, problem)
	}
	if len(all) == 1 {
		return all[0]
	}
	return errors.Join(all...)
}

// checkIdentity refuses to take apart the cluster that Argo CD runs in (I76), and one that is not the registered one: what
// is released on it would be another cluster's.
func (r *remover) checkIdentity(ctx context.Context) error {
	if r.spec.InCluster {
		return nil
	}
	management, err := r.management().UID(ctx)
	if err != nil {
		return err
	}
	registered := ""
	if r.secret != nil {
		registered = r.secret.GetAnnotations()[AnnotationClusterUID]
	}
	uid := registered
	if r.clusters.Unreachable == nil {
		if uid, err = r.clusters.Workload.UID(ctx); err != nil {
			return err
		}
	}
	if uid != "" && uid == management {
		return &cluster.Problem{
			Attribute: "cluster", Summary: fmt.Sprintf("Cluster %q is the management cluster", r.spec.Name),
			Detail: fmt.Sprintf("refusing: it has the UID %s of the cluster on which Argo CD runs (%s), which can't be taken apart. Nothing was deleted. "+
				"To register it once more beside itself, and be able to end that, use in_cluster = true.", management, r.management().Context()),
		}
	}
	if registered != "" && uid != registered {
		return otherCluster(r.clusters, r.spec, registered, uid)
	}
	return nil
}

// otherCluster is the error of a connection that leads to another cluster than the registered one.
func otherCluster(clusters Clusters, spec Spec, registered, uid string) error {
	return &cluster.Problem{
		Attribute: "cluster", Summary: fmt.Sprintf("Cluster %q is not the one that is registered", spec.Name),
		Detail: fmt.Sprintf("refusing: Secret %s on %s registers the cluster with UID %s, and %s leads to one with UID %s. Nothing was deleted. Point clusters[%q] at the registered cluster.",
			spec.ref(), clusters.Management.Context(), registered, clusters.Workload.Context(), uid, clusters.Workload.Name()),
	}
}

// refusals are what stands against the removal now and may be put right.
func (r *remover) refusals(t tree) []*cluster.Problem {
	var problems []*cluster.Problem
	for _, look := range []func(tree) *cluster.Problem{r.checkRoot, r.checkForeign, r.checkEnvironments, r.checkReach} {
		if problem := look(t); problem != nil {
			problems = append(problems, problem)
		}
	}
	return problems
}

// checkRoot refuses a root Application that is not ours, or that something else would bring back.
func (r *remover) checkRoot(t tree) *cluster.Problem {
	if t.root == nil || t.root.Live.GetDeletionTimestamp() != nil {
		return nil
	}
	called := fmt.Sprintf("Application %s on %s", t.root, r.management().Context())
	committed := r.spec.AppOfApps != nil && r.spec.AppOfApps.Commit
	keepers := slices.DeleteFunc(kube.Keepers(t.root.Live), func(keeper string) bool { return strings.HasPrefix(keeper, "argocd/") })
	// What tracks it may be gone, and then nothing brings it back; nor does it bring back itself.
	parent := t.root.Parent
	tracked := parent != t.root.instance(t.home) && slices.ContainsFunc(slices.Concat(t.members, t.others), func(one *Application) bool { return one.instance(t.home) == parent })
	if tracked {
		keepers = append([]string{"argocd/" + parent}, keepers...)
	}
	if keepers = kube.NotIn(keepers, r.removal.Terms.AdoptFrom); len(keepers) > 0 {
		remedy := "Take it out of that first"
		if tracked {
			remedy = fmt.Sprintf("Remove %s from the repository of Application %s", r.rootFile(), parent)
		}
		if t.root.cascades() {
			remedy += ", but take its finalizer off before, or everything that it brought is deleted with it in no order: " +
				fmt.Sprintf("kubectl --context %s -n %s patch applications.argoproj.io %s --type merge -p '{\"metadata\":{\"finalizers\":null}}'", r.management().Context(), t.root.Namespace, t.root.Name)
		}
		return &cluster.Problem{
			Summary: fmt.Sprintf("The root Application of cluster %q is kept by %s", r.spec.Name, strings.Join(keepers, ", ")),
			Detail:  fmt.Sprintf("refusing: %s would be brought back as often as it is deleted, and with it all that it brings. Nothing was deleted. %s; what it brought stays and is taken down when you destroy again.", called, remedy),
		}
	}
	if !committed && !r.rootTerms().Ours(t.root.Live) {
		return &cluster.Problem{
			Summary: fmt.Sprintf("The root Application of cluster %q is not this configuration's", r.spec.Name),
			Detail:  fmt.Sprintf("refusing: %s %s. Nothing was deleted. Delete it without what it brought, or have this configuration adopt it first.", called, whose(t.root.Live)),
		}
	}
	return nil
}

// rootFile is the file of the root Application in the repository.
func (r *remover) rootFile() string {
	file := RootName(r.spec.Name) + ".yaml"
	if r.spec.AppOfApps != nil && r.spec.AppOfApps.ManagementPath != "" {
		file = path.Join(r.spec.AppOfApps.ManagementPath, file)
	}
	return file
}

// blocking are the Applications that stand against the removal. Once nothing refuses it any more they are all being deleted,
// so that it is enough to wait for them.
func (r *remover) blocking(t tree) []*Application {
	return slices.Concat(t.foreign(r.spec, r.server), t.zones(r.spec, r.server))
}

// staying are those of Applications that nobody is deleting.
func staying(all []*Application) []*Application {
	return slices.DeleteFunc(slices.Clone(all), func(one *Application) bool { return one.Live.GetDeletionTimestamp() != nil })
}

// checkForeign refuses while Applications from elsewhere deploy to the cluster, or ApplicationSets would bring back what is
// taken down (Y25).
func (r *remover) checkForeign(t tree) *cluster.Problem {
	foreign, generators := staying(t.foreign(r.spec, r.server)), t.generators()
	if len(foreign)+len(generators) == 0 {
		return nil
	}
	lines := []string{fmt.Sprintf("refusing: a removal takes down only what belongs to the root Application %s. Nothing was deleted.", RootName(r.spec.Name))}
	lines = append(lines, section("These Applications deploy to the cluster and do not belong to it, or would be made again", foreign, func(one *Application) string { return one.whose() })...)
	lines = append(lines, section("These ApplicationSets come with the root, and could make Applications at any time", generators, func(name string) string { return name })...)
	lines = append(lines, "Delete the Applications, or move them to another cluster, where they are declared. Take what an ApplicationSet makes out of its generators (they may select the cluster by the labels of its Secret), "+
		"or the ApplicationSet out of the repository. This can't be forced.")
	return &cluster.Problem{
		Summary: fmt.Sprintf("%d Application(s) and %d ApplicationSet(s) on cluster %q are not its root's to take down", len(foreign), len(generators), r.spec.Name),
		Detail:  strings.Join(lines, "\n"),
	}
}

// checkEnvironments refuses while an environment is placed on the cluster (I82); no force changes that (I95).
func (r *remover) checkEnvironments(t tree) *cluster.Problem {
	zones := staying(t.zones(r.spec, r.server))
	if len(zones) == 0 {
		return nil
	}
	lines := []string{"refusing: environments go first. Nothing was deleted."}
	for _, one := range zones {
		lines = append(lines, "  "+one.environment())
	}
	lines = append(lines, "Move each to another cluster, or remove it with its data, and destroy again. force_steps never skips them.")
	if r.builds() && r.removal.BackupDisks {
		lines = append(lines, "The disks are backed up after they have gone: what a removed environment stored goes with it.")
	}
	return &cluster.Problem{
		Summary: fmt.Sprintf("%d environment(s) are placed on cluster %q", len(zones), r.spec.Name),
		Detail:  strings.Join(lines, "\n"),
	}
}

// checkReach refuses to begin with a cluster that does not answer, or that Argo CD can't know any more, unless what can't be
// done there is forced.
func (r *remover) checkReach(t tree) *cluster.Problem {
	on := slices.DeleteFunc(slices.Clone(t.members), func(one *Application) bool { return !one.deploysTo(r.spec.Name, r.server) })
	var needed []string
	why := ""
	switch {
	case r.clusters.Unreachable != nil:
		why = "it does not answer: " + strings.TrimSuffix(r.clusters.Unreachable.Error(), ".")
		if r.builds() && r.removal.BackupDisks {
			needed = append(needed, StepBackup)
		}
		if len(on) > 0 {
			needed = append(needed, StepApplications)
		}
		if r.releases() {
			needed = append(needed, StepRelease, StepConfirm)
		}
	case !r.spec.InCluster && r.secret == nil && len(on) > 0:
		why = fmt.Sprintf("Argo CD does not know it: Secret %s is not there", r.spec.ref())
		needed = append(needed, StepApplications)
	}
	if needed = kube.NotIn(needed, r.removal.Force); len(needed) == 0 {
		return nil
	}
	lines := []string{fmt.Sprintf("refusing: %s. So nothing can be deleted on it in order, and nothing was.", why)}
	if r.clusters.Unreachable != nil {
		lines = append(lines, fmt.Sprintf("Bring it back and destroy again. Where it is gone for good, set force_steps = [%s], apply that, which changes the state alone, and destroy again.", kube.QuoteAll(append(slices.Clone(r.removal.Force), needed...))))
	} else {
		lines = append(lines, fmt.Sprintf("Apply, so that it is registered again, and destroy then. Where the cluster is gone, set force_steps = [%s], apply that, and destroy again.", kube.QuoteAll(append(slices.Clone(r.removal.Force), needed...))))
	}
	lines = append(lines, "Argo CD then forgets these Applications, and whatever they deployed stays on the cluster, if there still is one, with what it holds in the cloud:")
	for _, one := range on {
		lines = append(lines, "  "+one.remains())
	}
	if len(on) == 0 {
		lines = append(lines, "  (none)")
	}
	return &cluster.Problem{
		Attribute: "force_steps", Summary: fmt.Sprintf("Cluster %q can't be taken apart in order", r.spec.Name),
		Detail: strings.Join(lines, "\n"),
	}
}

// mostResources is how many resources of an Application a message lists.
const mostResources = 25

// remains is an Application with what it manages, which may stay behind.
func (a Application) remains() string {
	names := make([]string, 0, len(a.Resources))
	for _, resource := range a.Resources[:min(len(a.Resources), mostResources)] {
		names = append(names, resource.String())
	}
	if more := len(a.Resources) - mostResources; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	if len(names) == 0 {
		names = append(names, "no resource that Argo CD knew of")
	}
	return fmt.Sprintf("Application %s (to %s): %s", a, a.destination(), strings.Join(names, ", "))
}

// awaitGone waits until Applications are gone that somebody else deletes.
func (r *remover) awaitGone(ctx context.Context, what string, all []*Application) error {
	var targets []kube.Target
	for _, one := range all {
		targets = append(targets, target(one))
	}
	return r.explained(ctx, kube.WaitAllGone(ctx, r.management(), what+" on "+r.called(), targets), all)
}

func target(one *Application) kube.Target {
	return kube.Target{Kind: Applications, Namespace: one.Namespace, Name: one.Name, UID: one.UID}
}
