package argocd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/access"
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
	// What the registration will find of the credential.
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
	for _, check := range []func(context.Context) error{p.checkPermissions, p.checkArgoCD, p.checkClusters, p.checkObjects, p.checkCredential} {
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
	if err := p.checkServer(ctx); err != nil {
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

// checkServer refuses to have Argo CD dial a private address for an organization's cluster, as berth itself doesn't (I66).
func (p *prepared) checkServer(ctx context.Context) error {
	if p.Org == "" || p.Server == "" {
		return nil
	}
	server, err := url.Parse(p.Server)
	if err != nil {
		return err // it was validated
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", server.Hostname())
	if err != nil {
		return &cluster.Problem{
			Attribute: "server", Summary: fmt.Sprintf("Where the server of %q leads cannot be told", p.Name), Err: err,
			Detail: fmt.Sprintf("refusing: %s is to be dialled for organization %q, whose clusters must have a public address, and its name does not resolve here. Set server to the API server's public address, or leave it out.", p.Server, p.Org),
		}
	}
	for _, address := range addresses {
		address = address.Unmap()
		if reason := cluster.PublicAddress(address); reason != nil {
			return &cluster.Problem{
				Attribute: "server", Summary: fmt.Sprintf("The server of %q has no public address", p.Name),
				Detail: fmt.Sprintf("refusing: %s leads to %s, which %s. Argo CD would dial it for organization %q, whose clusters must have a public address. Set server to that, or leave it out.", p.Server, address, reason, p.Org),
			}
		}
	}
	return nil
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
	if p.before == nil {
		// What the first half of a replacement takes away is as good as gone.
		for _, one := range []struct {
			kind            cluster.Kind
			namespace, name string
			live            **unstructured.Unstructured
		}{
			{cluster.Secrets, p.Namespace, p.SecretName, &p.secret},
			{cluster.Secrets, p.KubeconfigNamespace, KubeconfigSecretName(p.Name), &p.kubeconfig},
			{Applications, p.Namespace, RootName(p.Name), &p.root},
		} {
			if p.clusters.Management.Leaving(one.kind, one.namespace, one.name) {
				*one.live = nil
			}
		}
	}
	p.outlook.Server = inItsWords(p.outlook.Server, p.secret)
	if !p.InCluster {
		// The credential is compared when it is there; who owns the Secret comes first.
		if err := p.judge(p.bareSecret(), p.secret); err != nil {
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
		if err := p.judge(p.bareKubeconfig(), p.kubeconfig); err != nil {
			return err
		}
		if err := p.checkNamespace(ctx); err != nil {
			return err
		}
	}
	return p.checkRoot(ctx)
}

// bareSecret and bareKubeconfig are the two Secrets without what is in them.
func (s Spec) bareSecret() kube.Object {
	return kube.Object{Kind: cluster.Secrets, Desired: cluster.Secrets.New(s.Namespace, s.SecretName)}
}

func (s Spec) bareKubeconfig() kube.Object {
	return kube.Object{Kind: cluster.Secrets, Desired: cluster.Secrets.New(s.KubeconfigNamespace, KubeconfigSecretName(s.Name))}
}

// hold are the terms for one object. What the state holds is the registration's by proof; what the configuration has only
// just asked for may meet something foreign by its name.
func (p *prepared) hold(object kube.Object) Terms {
	terms := p.terms
	terms.Held = terms.Held && p.before != nil && p.before.has(object)
	return terms
}

// has tells whether an object is one that berth applies for the registration.
func (s Spec) has(object kube.Object) bool {
	switch object.Describe() {
	case s.bareSecret().Describe():
		return !s.InCluster
	case s.bareKubeconfig().Describe():
		return s.storesKubeconfig()
	case kube.Name(Applications.Kind, s.Namespace, RootName(s.Name)):
		return s.AppOfApps != nil && !s.AppOfApps.Commit
	}
	return false
}

// checkNamespace makes sure that the kubeconfig's namespace is there or can be made.
func (p *prepared) checkNamespace(ctx context.Context) error {
	management := p.clusters.Management
	live, err := management.Find(ctx, cluster.Namespaces, "", p.KubeconfigNamespace)
	if err != nil || live != nil || management.Planned(cluster.Namespaces, "", p.KubeconfigNamespace) {
		return err
	}
	return p.permitted(ctx, management, permissions(nil, cluster.Namespaces, "", "create", "patch", "delete"))
}

// judge refuses an object that is not the registration's to take, and says what an adoption changes.
func (p *prepared) judge(object kube.Object, live *unstructured.Unstructured) error {
	outlook, err := kube.Judge(p.clusters.Management, object, p.hold(object), live)
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
			return p.tellAdoption() // it comes in the same apply
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
	if p.Access != nil && !p.haveCred {
		return p.mayMint(ctx)
	}
	if p.cred.source == found && p.cred.refused != nil {
		return &cluster.Problem{
			Attribute: "access", Summary: fmt.Sprintf("The credential of %q does not work, and there is no other", p.Name),
			Detail: fmt.Sprintf("refusing: the one in Secret %s was there before berth, and is refused: %s. Set access to a berth_cluster_access, or give the cluster's entry a token or a client certificate.", p.ref(), reasonOf(p.cred.refused)),
			Err:    p.cred.refused,
		}
	}
	if p.storesKubeconfig() && p.haveCred {
		if _, err := p.kubeconfigObject(p.outlook.Server, p.cred); err != nil {
			return err
		}
	}
	return p.tellAdoption()
}

// tellAdoption says what becomes of the fields of Secrets that are adopted.
func (p *prepared) tellAdoption() error {
	object, err := p.secretObject(p.outlook.Server, p.cred, p.workloads, p.secret)
	if err != nil {
		return err
	}
	p.tellChanges(unwritten(object, false), p.secret)
	if !p.storesKubeconfig() {
		return nil
	}
	if config, err := p.kubeconfigObject(p.outlook.Server, p.cred); err == nil {
		object = config
	} else {
		// It is known only at the apply, and another one than whatever is there.
		object = p.bareKubeconfig()
		object.Desired.Object["data"] = map[string]any{kubeconfigKey: ""}
	}
	p.tellChanges(object, p.kubeconfig)
	return nil
}

func (p *prepared) tellChanges(object kube.Object, live *unstructured.Unstructured) {
	if live == nil || p.hold(object).Held || kube.Inspect(live, p.terms.Owner).Standing != kube.Foreign {
		return
	}
	changes := object.Compare(live)
	if len(changes) == 0 {
		return
	}
	lines := make([]string, len(changes))
	for i, change := range changes {
		lines[i] = change.String()
	}
	p.warn("What adopting "+object.Describe()+" changes", "%s", strings.Join(lines, "\n"))
}

// writing are the verbs that an object of ours needs.
var writing = []string{"get", "create", "patch", "delete"}

// permissions adds what a kind needs in a namespace.
func permissions(to []cluster.Permission, kind cluster.Kind, namespace string, verbs ...string) []cluster.Permission {
	for _, verb := range verbs {
		to = append(to, cluster.Permission{Verb: verb, Group: kind.Group, Resource: kind.Resource, Namespace: namespace})
	}
	return to
}

// checkPermissions asks for what an apply needs on both clusters, before anything is read: all that is missing is told at
// once.
func (p *prepared) checkPermissions(ctx context.Context) error {
	management := permissions(nil, AppProjects, p.Namespace, "get")
	if !p.InCluster {
		management = permissions(management, cluster.Secrets, p.Namespace, append([]string{"list"}, writing...)...)
	}
	if p.storesKubeconfig() {
		management = permissions(management, cluster.Secrets, p.KubeconfigNamespace, writing...)
		management = append(management, cluster.Permission{Verb: "get", Resource: cluster.Namespaces.Resource, Name: p.KubeconfigNamespace})
	}
	if p.AppOfApps != nil {
		management = permissions(management, Applications, p.Namespace, writing...)
	}
	if err := p.permitted(ctx, p.clusters.Management, management); err != nil || p.clusters.Unreachable != nil {
		return err
	}
	workload := permissions(nil, cluster.Nodes, "", "list")
	if p.Access != nil && !p.InCluster {
		workload = permissions(workload, cluster.ServiceAccounts, p.Access.Namespace, "get")
		workload = permissions(workload, cluster.Secrets, p.Access.Namespace, "get", "list", "patch", "delete")
	}
	return p.permitted(ctx, p.clusters.Workload, workload)
}

// mayMint asks for what the minting of a token needs, where the access has no long-lived one.
func (p *prepared) mayMint(ctx context.Context) error {
	handout, err := access.Look(ctx, p.clusters.Workload, *p.Access)
	if err != nil || handout.LongLived {
		return errors.Join(err, p.tellAdoption())
	}
	needs := permissions(nil, cluster.Secrets, p.Access.Namespace, "create")
	needs = append(needs, cluster.Permission{Verb: "create", Resource: cluster.ServiceAccounts.Resource, Subresource: "token", Namespace: p.Access.Namespace})
	return errors.Join(p.permitted(ctx, p.clusters.Workload, needs), p.tellAdoption())
}

func (p *prepared) permitted(ctx context.Context, c *cluster.Cluster, wanted []cluster.Permission) error {
	check := preflight.CheckPermissions(ctx, c, wanted)
	switch check.Status {
	case preflight.Fail:
		return &cluster.Problem{
			Summary: fmt.Sprintf("The credential of cluster %q lacks permissions for registering %q", c.Name(), p.Name),
			Detail:  "refusing: " + check.Message + "\nNothing was applied. " + check.Remedy,
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
