package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// Permissions are what the credential has to be allowed for an access. What it needs to bind the role is asked by MayBind.
func (s Spec) Permissions(ctx context.Context, c *cluster.Cluster) ([]cluster.Permission, error) {
	var permissions []cluster.Permission
	need := func(kind cluster.Kind, namespace string, verbs ...string) {
		for _, verb := range verbs {
			permissions = append(permissions, cluster.Permission{Verb: verb, Group: kind.Group, Resource: kind.Resource, Namespace: namespace})
		}
	}
	need(cluster.ServiceAccounts, s.Namespace, "get", "create", "patch", "delete")
	need(cluster.Secrets, s.Namespace, "get", "list", "create", "patch", "delete")
	need(cluster.ClusterRoleBindings, "", "get", "create", "patch", "delete")
	namespace, err := c.Exists(ctx, cluster.Namespaces, "", s.Namespace)
	if err == nil && namespace == nil {
		need(cluster.Namespaces, "", "get", "create", "patch", "delete")
	}
	return permissions, err
}

// ToBind is the permission with which everybody may bind the role.
func (s Spec) ToBind() cluster.Permission {
	return cluster.Permission{Verb: "bind", Group: cluster.ClusterRoles.Group, Resource: cluster.ClusterRoles.Resource, Name: s.ClusterRole}
}

// MayBind tells whether the credential may bind the role: because it has the verb for it, or because it has itself all that
// the role allows. The latter only the API server can tell, by a dry run.
func (s Spec) MayBind(ctx context.Context, c *cluster.Cluster) (bool, error) {
	missing, err := c.Missing(ctx, []cluster.Permission{s.ToBind()})
	if err != nil || len(missing) == 0 {
		return err == nil, err
	}
	_, err = c.DryRunCreate(ctx, s.binding().Desired, cluster.ClusterRoleBindings)
	if apierrors.IsForbidden(err) {
		return false, nil
	}
	// A name that is taken, or a role that is not there yet, is not what was asked.
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return true, nil
	}
	return err == nil, err
}

// Finding is what applying one object of an access would do.
type Finding struct {
	Object string
	kube.Outlook
}

// Findings are what the checks of an access found.
type Findings struct {
	Objects []Finding
	// Recreate is what has to be deleted and created again, and why; "" for nothing.
	Recreate string
	// Unread is why it could not be told whether the role exists; "" where it could.
	Unread string
	// Lost is the Secret that holds the token by the state and is gone; "" where it is there.
	Lost string
	// NewHandout tells whether the apply changes what the access hands out: then its consumers have to ask again.
	NewHandout bool
	// NewNamespace tells whether the namespace is missing, and Leaving whether that of an access in the state is being
	// deleted.
	NewNamespace, Leaving bool
}

// Check makes every check of an access that needs no write, and joins what refuses it, each a *cluster.Problem. before is
// the Spec that the state holds, nil at a create.
func (s Spec) Check(ctx context.Context, c *cluster.Cluster, terms kube.Terms, before *Spec) (Findings, error) {
	var findings Findings
	refusals := []error{s.checkVersion(before)}
	namespace, err := c.Exists(ctx, cluster.Namespaces, "", s.Namespace)
	if err != nil {
		return findings, err
	}
	findings.NewNamespace = namespace == nil
	if namespace != nil && namespace.GetDeletionTimestamp() != nil {
		// The plan may be the first half of a destroy that goes on where another one was interrupted.
		if findings.Leaving = before != nil; !findings.Leaving {
			refusals = append(refusals, s.namespaceLeaves(c))
		}
	}
	for _, object := range s.own(true) {
		outlook, err := s.checkObject(ctx, c, object, before.hold(terms, object))
		if err != nil {
			refusals = append(refusals, err)
			continue
		}
		findings.Objects = append(findings.Objects, Finding{Object: object.Describe(), Outlook: outlook})
	}
	refusals = append(refusals, s.checkRole(ctx, c, before, &findings), s.checkBinding(ctx, c, terms, before, &findings), s.checkHandout(ctx, c, before, &findings))
	return findings, errors.Join(refusals...)
}

func (s Spec) namespaceLeaves(c *cluster.Cluster) error {
	return &cluster.Problem{
		Attribute: "namespace", Summary: fmt.Sprintf("Namespace %q is being deleted", s.Namespace),
		Detail: fmt.Sprintf("refusing: namespace %q on %s is being deleted, and nothing can be created in it. Wait until it is gone, or choose another namespace.", s.Namespace, c.Context()),
	}
}

// checkVersion refuses to go back: Kubernetes makes a long-lived token of the names and the ServiceAccount's UID alone, so
// the Secret of an earlier version brings the token back that was revoked with it. (Signed with RSA it is the very same.)
func (s Spec) checkVersion(before *Spec) error {
	if before == nil || s.TokenVersion >= before.TokenVersion {
		return nil
	}
	return &cluster.Problem{
		Attribute: "token_version", Summary: fmt.Sprintf("The token version of %s cannot go down", s.Describe()),
		Detail: fmt.Sprintf("refusing: token_version is %d in the state and %d in the configuration. A Secret by the name of an earlier version can hold the very token that was revoked with it. Set token_version to %d, or higher for a new token.",
			before.TokenVersion, s.TokenVersion, before.TokenVersion),
	}
}

func (s Spec) checkObject(ctx context.Context, c *cluster.Cluster, object kube.Object, terms kube.Terms) (kube.Outlook, error) {
	outlook, err := kube.Check(ctx, c, object, terms)
	if err != nil || outlook.Verdict != kube.Adopt || object.Kind != cluster.ClusterRoleBindings {
		return outlook, err
	}
	// The list is the API's to replace as a whole: who else is bound would not be afterwards.
	live, err := c.Fetch(ctx, object.Kind, "", object.Desired.GetName())
	if err == nil && live != nil {
		if more := otherSubjects(live, object.Desired); len(more) > 0 {
			outlook.Changes = append(outlook.Changes, kube.Difference{Path: "subjects", Found: strings.Join(subjects(live), ", "), Wanted: strings.Join(subjects(object.Desired), ", ")})
		}
	}
	return outlook, err
}

// subjects are the subjects of a binding, as kind/namespace/name.
func subjects(binding *unstructured.Unstructured) []string {
	list, _, _ := unstructured.NestedSlice(binding.Object, "subjects")
	var names []string
	for _, one := range list {
		subject, _ := one.(map[string]any)
		kind, _ := subject["kind"].(string)
		namespace, _ := subject["namespace"].(string)
		name, _ := subject["name"].(string)
		names = append(names, kube.Name(kind, namespace, name))
	}
	return names
}

// otherSubjects are the subjects that a binding has beside those it shall have.
func otherSubjects(live, desired *unstructured.Unstructured) []string {
	return kube.NotIn(subjects(live), subjects(desired))
}

// checkRole refuses a role that does not exist: what is bound to it may do nothing. A role that the state's binding named
// already does not stand in the way of a repair.
func (s Spec) checkRole(ctx context.Context, c *cluster.Cluster, before *Spec, findings *Findings) error {
	if before != nil && before.ClusterRole == s.ClusterRole || c.Planned(cluster.ClusterRoles, "", s.ClusterRole) {
		return nil
	}
	role, err := c.Exists(ctx, cluster.ClusterRoles, "", s.ClusterRole)
	if apierrors.IsForbidden(err) {
		findings.Unread = err.Error()
		return nil
	}
	if err != nil || role != nil {
		return err
	}
	return &cluster.Problem{
		Attribute: "cluster_role", Summary: fmt.Sprintf("ClusterRole/%s does not exist on cluster %q", s.ClusterRole, c.Name()),
		Detail: fmt.Sprintf("refusing: %s on %s would be bound to ClusterRole/%s, which does not exist, so its token could do nothing. Create the role first, or name one that exists, such as %q.",
			s.Describe(), c.Context(), s.ClusterRole, DefaultClusterRole),
	}
}

// checkBinding tells whether the binding has to be made anew, and refuses it for one that was adopted.
func (s Spec) checkBinding(ctx context.Context, c *cluster.Cluster, terms kube.Terms, before *Spec, findings *Findings) error {
	object := s.binding()
	if terms := before.hold(terms, object); before == nil || !terms.Held {
		return nil
	}
	live, err := c.Live(ctx, object.Kind, "", object.Desired.GetName())
	if err != nil || live == nil {
		return err
	}
	fixed := fixedIn(object, live)
	if len(fixed) == 0 {
		return nil
	}
	findings.Recreate = describe(fixed)
	return checkRecreate(c, object, live, fixed)
}

// checkHandout tells what becomes of the token, and whether its Secret was deleted by hand.
func (s Spec) checkHandout(ctx context.Context, c *cluster.Cluster, before *Spec, findings *Findings) error {
	for _, one := range findings.Objects {
		if one.Object == s.Describe() && one.Verdict == kube.Create {
			findings.NewHandout = true
			return nil
		}
	}
	handout, err := Look(ctx, c, Ref{Cluster: c.Name(), Namespace: s.Namespace, Name: s.ServiceAccount})
	if err != nil {
		return err
	}
	findings.NewHandout = !handout.Exists || handout.SecretName != s.SecretName() || handout.LongLived && handout.Token == ""
	if before != nil && s.TokenSecret && before.SecretName() == s.SecretName() && handout.SecretName == s.SecretName() && handout.SecretUID == "" {
		findings.Lost = s.secret(s.SecretName()).Describe()
	}
	return nil
}

// Plan registers what an apply will make, so that the checks of what depends on it pass, and its consumers know that they
// have to ask again.
func (s Spec) Plan(c *cluster.Cluster, findings Findings) {
	for _, one := range findings.Objects {
		if one.Verdict == kube.Create && one.Object == s.DescribeBinding() {
			c.Plan(cluster.ClusterRoleBindings, "", s.BindingName())
		}
	}
	if findings.NewHandout {
		c.Plan(cluster.ServiceAccounts, s.Namespace, s.ServiceAccount)
		if s.TokenSecret {
			c.Plan(cluster.Secrets, s.Namespace, s.SecretName())
		}
	}
	if findings.NewNamespace {
		c.Plan(cluster.Namespaces, "", s.Namespace)
	}
}

// fixedIn are the differences in fields that Kubernetes never lets change.
func fixedIn(object kube.Object, live *unstructured.Unstructured) []kube.Difference {
	return slices.DeleteFunc(object.Compare(live), func(difference kube.Difference) bool {
		field, _, _ := strings.Cut(difference.Path, ".")
		return !slices.Contains(object.Immutable, field)
	})
}

func describe(differences []kube.Difference) string {
	texts := make([]string, len(differences))
	for i, difference := range differences {
		texts[i] = difference.String()
	}
	return strings.Join(texts, "; ")
}

func checkRecreate(c *cluster.Cluster, object kube.Object, live *unstructured.Unstructured, fixed []kube.Difference) error {
	if kube.Created(live) {
		return nil
	}
	return &cluster.Problem{
		Attribute: "cluster_role", Summary: fmt.Sprintf("%s was adopted and cannot be replaced", object.Describe()),
		Detail: fmt.Sprintf("refusing: %s on %s was found, not created, by berth, so it is never deleted; but the change needs that: %s. "+
			"Use another service_account, or delete the binding by hand.", object.Describe(), c.Context(), describe(fixed)),
	}
}
