package argocd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/preflight"
)

// Outlook is what a plan knows of an apply.
type Outlook struct {
	Warnings []Warning
	// Server is the address by which Argo CD will know the cluster.
	Server string
	// Provider, Flavor and Region are as they will be, detected where the configuration does not say them.
	Provider, Flavor, Region string
}

// prepared is a registration whose checks have passed.
type prepared struct {
	Spec
	clusters Clusters
	terms    Terms
	before   *Spec
	outlook  Outlook
	// What there is now; nil where it does not exist.
	secret, kubeconfig, root *unstructured.Unstructured
	// what the registration will find of the credential
	cred      credential
	haveCred  bool
	workloads facts
}

// Plan checks a registration without writing anything (I5 to I26): that Argo CD is there, that both clusters are what they
// are said to be, that nobody knows the cluster already, whose the objects are, and that there is a credential which Argo
// CD can store. before is what the state holds, nil for a new one. Errors are a *cluster.Problem or of the connection.
func Plan(ctx context.Context, clusters Clusters, spec Spec, before *Spec, terms Terms) (Outlook, error) {
	p, err := prepare(ctx, clusters, spec, before, terms)
	if p == nil {
		return Outlook{}, err
	}
	return p.outlook, err
}

func prepare(ctx context.Context, clusters Clusters, spec Spec, before *Spec, terms Terms) (*prepared, error) {
	p := &prepared{Spec: spec, clusters: clusters, terms: terms, before: before}
	for _, check := range []func(context.Context) error{p.checkArgoCD, p.checkClusters, p.checkObjects, p.checkCredential, p.checkPermissions} {
		if err := check(ctx); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (p *prepared) warn(summary, format string, args ...any) {
	p.outlook.Warnings = append(p.outlook.Warnings, Warning{Summary: summary, Detail: fmt.Sprintf(format, args...)})
}

// checkArgoCD looks for what every Argo CD has: its kinds, and the AppProject that the root Application is in.
func (p *prepared) checkArgoCD(ctx context.Context) error {
	management := p.clusters.Management
	if _, coming := management.PlannedKinds()[Applications.GVK()]; coming {
		return nil // it is installed in the same apply
	}
	project := "default"
	if p.AppOfApps != nil {
		project = p.AppOfApps.Project
	}
	live, err := management.Find(ctx, AppProjects, p.Namespace, project)
	if err != nil && !apierrors.IsNotFound(err) || live != nil || management.Planned(AppProjects, p.Namespace, project) {
		return err
	}
	attribute, what := "argocd_namespace", "Argo CD makes it when it starts, so that either it does not run there, or it runs in another namespace. Set argocd_namespace to its own, or install it first"
	if project != "default" {
		attribute, what = "app_of_apps.project", "Create it first, or set app_of_apps.project to one that is there"
	}
	return &cluster.Problem{
		Attribute: attribute, Summary: fmt.Sprintf("There is no AppProject %q in namespace %q", project, p.Namespace),
		Detail: fmt.Sprintf("refusing: AppProject/%s/%s does not exist on %s. %s.", p.Namespace, project, management.Context(), what),
	}
}

// checkClusters makes sure that both clusters are what they are said to be, and reads what the workload cluster says of
// itself.
func (p *prepared) checkClusters(ctx context.Context) error {
	if err := p.checkPlace(ctx, p.clusters); err != nil {
		return err
	}
	p.outlook.Server = p.argoServer(p.clusters.Workload)
	if p.clusters.Unreachable == nil {
		var err error
		if p.Spec, err = p.detect(ctx, p.clusters.Workload); err != nil {
			return err
		}
		if p.workloads, err = lookAtCluster(ctx, p.clusters.Workload); err != nil {
			return err
		}
	}
	p.outlook.Provider, p.outlook.Flavor, p.outlook.Region = p.Provider, p.Flavor, p.Region
	warnings, err := p.checkDuplicates(ctx, p.clusters, p.workloads.uid)
	p.outlook.Warnings = append(p.outlook.Warnings, warnings...)
	return err
}

// checkObjects looks at whose the objects are (promise 3 of the design).
func (p *prepared) checkObjects(ctx context.Context) error {
	var err error
	if p.secret, err = p.liveSecret(ctx, p.clusters.Management); err != nil {
		return err
	}
	if p.kubeconfig, err = p.liveKubeconfig(ctx, p.clusters.Management); err != nil {
		return err
	}
	if p.root, err = p.liveRoot(ctx, p.clusters.Management); err != nil {
		return err
	}
	if !p.InCluster {
		// The credential is compared when it is there; who owns the Secret comes first.
		bare := kube.Object{Kind: cluster.Secrets, Desired: cluster.Secrets.New(p.Namespace, p.SecretName)}
		if err := p.judge(bare, p.secret); err != nil {
			return err
		}
		if have := secretField(p.secret, "name"); p.secret != nil && p.before == nil && have != p.Name {
			return &cluster.Problem{
				Attribute: "name", Summary: fmt.Sprintf("Secret %s is of another cluster", p.ref()),
				Detail: fmt.Sprintf("refusing: on %s it is what Argo CD knows as %q, which its Applications name. Set name = %q, or secret_name to another name.", p.clusters.Management.Context(), have, have),
			}
		}
	}
	if p.storesKubeconfig() {
		bare := kube.Object{Kind: cluster.Secrets, Desired: cluster.Secrets.New(p.KubeconfigNamespace, KubeconfigSecretName(p.Name))}
		if err := p.judge(bare, p.kubeconfig); err != nil {
			return err
		}
	}
	return p.checkRoot(ctx)
}

// judge refuses an object that is not the registration's to take, and says what an adoption changes.
func (p *prepared) judge(object kube.Object, live *unstructured.Unstructured) error {
	outlook, err := kube.Judge(p.clusters.Management, object, p.terms, live)
	if err != nil {
		return err
	}
	where := p.clusters.Management.Context()
	switch outlook.Verdict {
	case kube.Adopt:
		changes := ""
		for _, change := range outlook.Changes {
			changes += "\n" + change.String()
		}
		if changes != "" {
			changes = " It changes:" + changes
		}
		p.warn(object.Describe()+" exists and will be adopted", "It is on %s, keeps its UID, and stays there when the registration is destroyed.%s", where, changes)
	case kube.Resume:
		p.warn(object.Describe()+" is there already and carries berth's mark", "It is on %s. An earlier apply was interrupted, or its state was lost; this one goes on from it.", where)
	case kube.Create, kube.Update:
	}
	return nil
}

func (p *prepared) checkRoot(context.Context) error {
	switch {
	case p.AppOfApps == nil:
		if p.before != nil && p.before.AppOfApps != nil && !p.before.AppOfApps.Commit {
			p.warn(fmt.Sprintf("The root Application of %q goes", p.Name),
				"app_of_apps was taken out: Application/%s/%s is deleted without what it deploys. Its Applications stay, and no longer follow the repository.", p.Namespace, RootName(p.Name))
		}
		return nil
	case p.AppOfApps.Commit:
		return nil
	}
	return p.judge(p.rootObject(), p.root)
}

// checkCredential makes sure that there is a credential which Argo CD can store (I12), as far as that can be known.
func (p *prepared) checkCredential(ctx context.Context) error {
	if p.InCluster {
		return nil
	}
	if p.Access != nil && p.clusters.Unreachable == nil {
		workload := p.clusters.Workload
		if workload.Planned(cluster.ServiceAccounts, p.Access.Namespace, p.Access.Name) {
			return nil // it comes in the same apply
		}
		live, err := workload.Find(ctx, cluster.ServiceAccounts, p.Access.Namespace, p.Access.Name)
		if err != nil {
			return err
		}
		if live == nil {
			return &cluster.Problem{
				Attribute: "access", Summary: fmt.Sprintf("There is no ServiceAccount %s/%s on cluster %q", p.Access.Namespace, p.Access.Name, workload.Name()),
				Detail: fmt.Sprintf("refusing: access = %q names it, and it does not exist on %s. Create it with a berth_cluster_access, and set access to its id.", p.Access, workload.Context()),
			}
		}
	}
	var err error
	if p.cred, p.haveCred, err = p.wanted(ctx, p.clusters, p.secret); err != nil {
		return err
	}
	if !p.haveCred {
		return nil
	}
	if p.cred.source == found && p.cred.refused != nil {
		return &cluster.Problem{
			Attribute: "access", Summary: fmt.Sprintf("The credential of %q does not work, and there is no other", p.Name),
			Detail: fmt.Sprintf("refusing: the one in Secret %s was there before berth, and is refused: %s. Set access to a berth_cluster_access, or give the cluster's entry a token or a client certificate.", p.ref(), reasonOf(p.cred.refused)),
			Err:    p.cred.refused,
		}
	}
	if p.storesKubeconfig() {
		if _, err := p.kubeconfigObject(p.outlook.Server, p.cred); err != nil {
			return err
		}
	}
	object, err := p.secretObject(p.outlook.Server, p.cred, p.workloads, p.secret)
	if err != nil || p.secret == nil || p.before != nil {
		return err
	}
	if changes := unwritten(object, false).Compare(p.secret); len(changes) > 0 && kube.Inspect(p.secret, p.terms.Owner).Standing == kube.Foreign {
		lines := make([]string, len(changes))
		for i, change := range changes {
			lines[i] = change.String()
		}
		p.warn(fmt.Sprintf("What adopting Secret %s changes", p.ref()), "%s", strings.Join(lines, "\n"))
	}
	return nil
}

// checkPermissions asks for what an apply needs on the management cluster, and for the tokens on the other one.
func (p *prepared) checkPermissions(ctx context.Context) error {
	var wanted []cluster.Permission
	writes := func(kind cluster.Kind, namespace string) {
		for _, verb := range []string{"get", "create", "patch", "delete"} {
			wanted = append(wanted, cluster.Permission{Verb: verb, Group: kind.Group, Resource: kind.Resource, Namespace: namespace})
		}
	}
	if !p.InCluster {
		writes(cluster.Secrets, p.Namespace)
	}
	if p.storesKubeconfig() {
		writes(cluster.Secrets, p.KubeconfigNamespace)
	}
	if p.AppOfApps != nil {
		writes(Applications, p.Namespace)
	}
	if err := p.permitted(ctx, p.clusters.Management, wanted); err != nil || p.clusters.Unreachable != nil {
		return err
	}
	return p.permitted(ctx, p.clusters.Workload, []cluster.Permission{{Verb: "list", Resource: "nodes"}})
}

func (p *prepared) permitted(ctx context.Context, c *cluster.Cluster, wanted []cluster.Permission) error {
	check := preflight.CheckPermissions(ctx, c, wanted)
	switch check.Status {
	case preflight.Fail:
		return &cluster.Problem{
			Summary: fmt.Sprintf("The credential of cluster %q lacks permissions for registering %q", c.Name(), p.Name),
			Detail:  "refusing: " + check.Detail(),
		}
	case preflight.Warn:
		p.warn(fmt.Sprintf("The permissions for registering %q on cluster %q were not checked", p.Name, c.Name()), "%s", check.Detail())
	case preflight.Pass, preflight.Skipped:
	}
	return nil
}

// reasonOf is an error in one line: of a failed connection what it came to, not the whole advice.
func reasonOf(err error) string {
	if connection, ok := errors.AsType[*cluster.ConnectionError](err); ok {
		return connection.Summary
	}
	if problem, ok := errors.AsType[*cluster.Problem](err); ok {
		return problem.Summary
	}
	return strings.TrimSuffix(err.Error(), ".")
}
