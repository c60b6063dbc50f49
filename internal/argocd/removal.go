package argocd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// Removal says how a cluster is taken apart.
type Removal struct {
	Terms Terms
	// Retain takes berth's marks off and leaves everything else.
	Retain bool
	// StepTimeout is what one step may take (I93); 0 is DefaultStepTimeout.
	StepTimeout time.Duration
	// ReleaseCloudResources deletes what holds load balancers and disks before the controllers go (I84), and BackupDisks
	// makes snapshots first (I81). Both are for clusters that a module of ours built, and left undone for all others.
	ReleaseCloudResources, BackupDisks bool
	// Controllers are names of Applications that are removed last, besides those that are recognised (I83).
	Controllers []string
	// Force are the steps that are moved on from when they are stuck, of ForceableSteps (I94).
	Force []string
	// RemovedServiceAccount tells that the ServiceAccount which Argo CD used goes too, and needs no word (I92).
	RemovedServiceAccount bool
}

// DefaultStepTimeout is when a step of a removal counts as stuck (I93, X10).
const DefaultStepTimeout = 15 * time.Minute

// The steps of a removal, in their order. Each is written on the cluster before it begins.
const (
	StepEnvironments = "environments"
	StepBackup       = "backup"
	StepRoot         = "root"
	StepApplications = "applications"
	StepRelease      = "release"
	StepConfirm      = "confirm"
	StepControllers  = "controllers"
	StepDisconnect   = "disconnect"
)

// ForceableSteps are the steps that force_steps may name. The controllers are forced with the Applications; the
// environments are never (I95).
var ForceableSteps = []string{StepBackup, StepApplications, StepRelease, StepConfirm}

// CheckForce refuses names in force_steps that are no steps, or none that can be forced.
func CheckForce(steps []string) error {
	for _, name := range steps {
		if slices.Contains(ForceableSteps, name) {
			continue
		}
		why := "there is no such step"
		switch name {
		case StepEnvironments:
			why = "environments are never taken down for their cluster's sake; move or remove them first"
		case StepControllers:
			why = "the controllers are forced together with \"" + StepApplications + "\""
		case StepRoot, StepDisconnect:
			why = "this step leaves nothing undone that could be moved on from"
		}
		return &cluster.Problem{
			Attribute: "force_steps", Summary: fmt.Sprintf("force_steps can't name %q", name),
			Detail: fmt.Sprintf("refusing: %s. The steps that can be forced are %s.", why, kube.QuoteAll(ForceableSteps)),
		}
	}
	return nil
}

// forces tells whether a step may be moved on from.
func (r Removal) forces(step string) bool { return slices.Contains(r.Force, forcedBy(step)) }

// forcedBy is what force_steps has to name for a step.
func forcedBy(step string) string {
	if step == StepControllers {
		return StepApplications
	}
	return step
}

// step is one step of a removal.
type step struct {
	name string
	// does says what it does, for a plan.
	does string
	run  func(ctx context.Context) error
	// abandon moves on from the step once its time is up; nil where it can't be forced. It records what may be left.
	abandon func(ctx context.Context) error
	// leaves says what it leaves when it is forced.
	leaves string
}

// remover takes one cluster apart.
type remover struct {
	clusters Clusters
	spec     Spec
	removal  Removal
	// secret is the cluster's, as it was when the removal began; nil when there is none.
	secret *unstructured.Unstructured
	// server is the address by which Argo CD reaches the cluster.
	server string
	// started is when the removal began, whichever call that was.
	started time.Time
	// reached is the step at which an earlier call has ended; "" when there was none.
	reached string
	// left is what forced steps may leave behind, those of earlier calls included.
	left     []string
	warnings []Warning
}

// Remove takes a registered cluster apart (I80 to I97): environments have to be gone, then the disks are backed up, the root
// Application is deleted without what it brought, its Applications wave by wave from the highest down, what holds load
// balancers and disks is released and gone, the controllers that see to this follow, and last Argo CD forgets the cluster.
// Everything that stands against it is looked for before the first write. Each step is written on the cluster before it
// begins and can be run again: after an error, an interruption or a kill the next call goes on from there. The warnings are
// to be told whether or not there is an error.
func Remove(ctx context.Context, clusters Clusters, spec Spec, removal Removal) ([]Warning, error) {
	if err := CheckForce(removal.Force); err != nil {
		return nil, err
	}
	r := newRemover(clusters, spec, removal)
	t, err := r.look(ctx)
	if err != nil {
		return nil, err
	}
	if why := r.stays(t); why != "" {
		return r.leave(ctx, t, why)
	}
	if err := r.check(ctx, t); err != nil {
		return nil, err
	}
	r.open(t)
	if warning, needed := r.rootKeeps(t); needed {
		r.warnings = append(r.warnings, warning)
	}
	steps := r.steps(t)
	for i := range steps {
		if err := r.take(ctx, steps, i); err != nil {
			return r.told(), err
		}
	}
	r.farewell()
	return r.told(), nil
}

func newRemover(clusters Clusters, spec Spec, removal Removal) *remover {
	if removal.StepTimeout <= 0 {
		removal.StepTimeout = DefaultStepTimeout
	}
	if spec.SecretName == "" {
		spec.SecretName = SecretNameOf(spec.Name)
	}
	return &remover{clusters: clusters, spec: spec, removal: removal}
}

// management is where Argo CD, its Secrets and its Applications are.
func (r *remover) management() *cluster.Cluster { return r.clusters.Management }

// called names the cluster as messages do.
func (r *remover) called() string { return fmt.Sprintf("cluster %q", r.spec.Name) }

// look reads the cluster's Secret and Argo CD's Applications as they are now.
func (r *remover) look(ctx context.Context) (tree, error) {
	r.server = InClusterServer
	if !r.spec.InCluster {
		secret, err := r.management().Fetch(ctx, cluster.Secrets, r.spec.Namespace, r.spec.SecretName)
		if err != nil {
			return tree{}, err
		}
		r.know(secret)
	}
	return r.tree(ctx)
}

// know takes what the cluster's Secret says.
func (r *remover) know(secret *unstructured.Unstructured) {
	r.secret, r.server = secret, r.spec.Server
	if secret != nil {
		r.server = secretField(secret, "server")
	} else if r.server == "" && r.clusters.Workload != nil {
		r.server = r.clusters.Workload.Server()
	}
}

// tree reads the Applications as they are now.
func (r *remover) tree(ctx context.Context) (tree, error) {
	all, _, err := listApplications(ctx, asOfNow(r.management()), r.spec.Namespace)
	if err != nil {
		return tree{}, err
	}
	return belonging(r.spec.Name, r.spec.Namespace, all, r.removal.Controllers), nil
}

// stays tells why nothing is taken apart: because that is what the configuration asks for, or because the registration is
// not berth's own work. Whoever registered the cluster decides, as for every object that was adopted (Y1).
func (r *remover) stays(t tree) string {
	switch {
	case r.removal.Retain:
		return "deletion_policy is \"retain\""
	case r.secret != nil && !r.removal.Terms.Ours(r.secret):
		return fmt.Sprintf("Secret %s %s", r.spec.ref(), whose(r.secret))
	case r.secret != nil && !kube.Created(r.secret):
		return "it was adopted, not registered by berth"
	case r.spec.InCluster && t.root != nil && r.rootTerms().Ours(t.root.Live) && !kube.Created(t.root.Live):
		return "its root Application was adopted, not made by berth"
	}
	return ""
}

// whose says by whom an object that is not ours is marked.
func whose(live *unstructured.Unstructured) string {
	if owner, ok := kube.ParseOwner(live); ok {
		return fmt.Sprintf("is marked as %s of the configuration with owner %q", owner.Resource, owner.Configuration)
	}
	return "carries no mark of this configuration"
}

// rootTerms are the Terms for the root Application, whose UID no state holds.
func (r *remover) rootTerms() Terms {
	terms := r.removal.Terms
	terms.UID = ""
	return terms
}

// leave takes berth's marks off the registration and what belongs to it, and nothing else.
func (r *remover) leave(ctx context.Context, t tree, why string) ([]Warning, error) {
	if err := r.unmark(ctx, t); err != nil {
		return nil, err
	}
	if t.root != nil {
		if _, err := kube.Remove(ctx, r.management(), Applications, t.root.Namespace, t.root.Name, r.rootTerms(), true); err != nil {
			return nil, err
		}
	}
	removal := r.removal
	removal.Retain = true
	return []Warning{r.staying(why)}, disconnect(ctx, r.clusters, r.spec, removal)
}

func (r *remover) staying(why string) Warning {
	return Warning{
		Summary: fmt.Sprintf("Cluster %q stays registered", r.spec.Name),
		Detail:  fmt.Sprintf("Because %s, its Applications and its registration with the Argo CD on %s stay as they are, without the marks of this configuration.", why, r.management().Context()),
	}
}

// builds tells whether the steps for clusters that a module of ours built are taken (I92). What holds the load balancers and
// disks of the cluster that Argo CD itself runs in is never released.
func (r *remover) builds() bool { return r.spec.Built && !r.spec.InCluster }

// releases tells whether what holds load balancers and disks is taken away.
func (r *remover) releases() bool { return r.builds() && r.removal.ReleaseCloudResources }

// order are all steps.
var order = []string{StepEnvironments, StepBackup, StepRoot, StepApplications, StepRelease, StepConfirm, StepControllers, StepDisconnect}

// behind tells whether an earlier call is done with a step. Those on the workload cluster are not taken again: once its
// controllers have begun to go, what they need would count as something to release.
func (r *remover) behind(step string) bool {
	return slices.Index(order, r.reached) > slices.Index(order, step)
}

// steps are what the removal does, in order; those that don't apply are left out.
func (r *remover) steps(t tree) []step {
	var steps []step
	if waiting := r.blocking(t); len(waiting) > 0 {
		steps = append(steps, step{
			name: StepEnvironments, does: "wait until environments, and Applications from elsewhere, are gone",
			run: func(ctx context.Context) error { return r.awaitGone(ctx, "what is in the way", waiting) },
		})
	}
	if r.builds() && r.removal.BackupDisks && !r.behind(StepBackup) {
		steps = append(steps, step{
			name: StepBackup, does: "make a snapshot of each volume that stays", run: r.backup, abandon: r.abandonBackup,
			leaves: "volumes without a snapshot go with their data",
		})
	}
	steps = append(steps,
		step{name: StepRoot, does: "delete the root Application and those that only bring others, without what they brought", run: r.root},
		step{
			name: StepApplications, does: "delete the Applications with what they deployed, wave by wave from the highest down",
			run:     func(ctx context.Context) error { return r.takeDown(ctx, false) },
			abandon: func(ctx context.Context) error { return r.abandon(ctx, false) },
			leaves:  "the Applications that are left go without what they deployed, which keeps running on the cluster, and with it whatever it holds in the cloud",
		})
	const leaves = "load balancers and disks may stay in the cloud and cost money; they are listed by their identifiers"
	if r.releases() && !r.behind(StepRelease) {
		steps = append(steps, step{
			name: StepRelease, does: "delete the namespaces outside the cluster's own system, and the load balancers and volume claims in default",
			run: r.release, abandon: r.abandonRelease, leaves: leaves,
		})
	}
	if r.releases() && !r.behind(StepConfirm) {
		steps = append(steps, step{
			name: StepConfirm, does: "wait until the cluster's load balancers and disks are gone", run: r.confirm, abandon: r.abandonConfirm, leaves: leaves,
		})
	}
	return append(steps,
		step{
			name: StepControllers, does: "delete the controllers that own cloud resources, in the same way",
			run:     func(ctx context.Context) error { return r.takeDown(ctx, true) },
			abandon: func(ctx context.Context) error { return r.abandon(ctx, true) },
			leaves:  "the controllers that are left go without what they deployed, which keeps running on the cluster",
		},
		step{
			name: StepDisconnect, does: "delete the Secrets by which Argo CD knows the cluster",
			run: func(ctx context.Context) error { return disconnect(ctx, r.clusters, r.spec, r.removal) },
		})
}

// farewell says what stays on a cluster that goes on without us.
func (r *remover) farewell() {
	if !r.releases() {
		r.warnings = append(r.warnings, r.keepsRunning())
	}
	if warning, needed := r.serviceAccount(); needed {
		r.warnings = append(r.warnings, warning)
	}
}

// keepsRunning is the word about disks and load balancers of a cluster of which nothing is released.
func (r *remover) keepsRunning() Warning {
	return Warning{
		Summary: fmt.Sprintf("Cluster %q keeps its disks and load balancers", r.spec.Name),
		Detail: "Only what the Applications of its root deployed is taken down. Volumes and load balancers that are not theirs stay, and so do the CustomResourceDefinitions that they brought, " +
			"which Argo CD never deletes.",
	}
}

// rootKeeps is the word about what the root Application brought besides Applications: it goes without that, too.
func (r *remover) rootKeeps(t tree) (Warning, bool) {
	if t.root == nil {
		return Warning{}, false
	}
	kept := slices.DeleteFunc(slices.Clone(t.root.Resources), Resource.isApplication)
	if len(kept) == 0 {
		return Warning{}, false
	}
	return Warning{
		Summary: fmt.Sprintf("The root Application of cluster %q leaves %d object(s) on %s", r.spec.Name, len(kept), r.management().Context()),
		Detail: "It is deleted without what it brought, of which only the Applications are taken down. Delete by hand what nothing else needs:\n" +
			strings.Join(section("Left", kept, Resource.String), "\n"),
	}, true
}

// serviceAccount is the word about the account that Argo CD signed in with (I92).
func (r *remover) serviceAccount() (Warning, bool) {
	if r.spec.InCluster || r.removal.RemovedServiceAccount {
		return Warning{}, false
	}
	account := "the account whose credential Argo CD had for it"
	if r.spec.Access != nil {
		account = fmt.Sprintf("ServiceAccount %s/%s", r.spec.Access.Namespace, r.spec.Access.Name)
	}
	return Warning{
		Summary: fmt.Sprintf("The account that Argo CD used stays on cluster %q", r.spec.Name),
		Detail:  fmt.Sprintf("Delete %s there when nothing else uses it: whoever has a copy of its credential can still sign in. A berth_cluster_access deletes its ServiceAccount when it is destroyed.", account),
	}, true
}
