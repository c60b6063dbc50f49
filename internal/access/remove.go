package access

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// Removal is how an access is taken apart.
type Removal struct {
	Owner kube.Owner
	// Held is set when the state's own apply has marked the objects: they are the access's by proof.
	Held bool
	// Retain leaves everything on the cluster and only takes the marks off.
	Retain bool
}

func (r Removal) terms() kube.Terms { return kube.Terms{Owner: r.Owner, Held: r.Held} }

// CheckRemove tells why the access must not be taken apart now; nil when it may. What is only let go, or was adopted, takes
// no token away.
func (s Spec) CheckRemove(ctx context.Context, c *cluster.Cluster, removal Removal) (*cluster.Problem, error) {
	if removal.Retain || c.TakenByOther(ctx, cluster.ServiceAccounts, s.Namespace, s.ServiceAccount, removal.Owner.String()) {
		return nil, nil
	}
	uses, err := usesOf(ctx, c, Ref{Cluster: c.Name(), Namespace: s.Namespace, Name: s.ServiceAccount})
	if err != nil || len(uses) == 0 {
		return nil, err
	}
	if deletes, err := s.deletes(ctx, c, removal); err != nil || !deletes {
		return nil, err
	}
	names := make([]string, len(uses))
	for i, one := range uses {
		names[i] = fmt.Sprintf("%s (%s)", one.consumer, one.secret)
	}
	return &cluster.Problem{
		Summary: fmt.Sprintf("Tokens of %s are in use on cluster %q", s.Describe(), c.Name()),
		Detail: fmt.Sprintf("refusing: %d consumer(s) store a token of %s on %s, which would be revoked: %s. Nothing was deleted. "+
			"Destroy them first, or set deletion_policy = \"retain\" to leave the access. Where a consumer no longer exists, delete its Secret, or take its label users.berth.dev/… off the Secret, by hand.",
			len(uses), s.Describe(), c.Context(), strings.Join(names, ", ")),
	}, nil
}

// deletes tells whether a removal takes anything away that a token needs.
func (s Spec) deletes(ctx context.Context, c *cluster.Cluster, removal Removal) (bool, error) {
	objects, _, err := secretsOf(ctx, c, s.Namespace, s.ServiceAccount)
	if err != nil {
		return false, err
	}
	for _, object := range []kube.Object{s.account(""), s.binding()} {
		live, err := c.Fetch(ctx, object.Kind, object.Desired.GetNamespace(), object.Desired.GetName())
		if err != nil {
			return false, err
		}
		if live != nil {
			objects = append(objects, live)
		}
	}
	return slices.ContainsFunc(objects, func(live *unstructured.Unstructured) bool {
		return kube.Created(live) && removal.terms().Ours(live)
	}), nil
}

// Remove takes the access apart: first the binding, and with it the rights, then the tokens, the ServiceAccount, and the
// namespace where berth created it and nothing else is in it. It is refused while somebody stores a token. It returns what
// stays and why.
func (s Spec) Remove(ctx context.Context, c *cluster.Cluster, removal Removal) (stays []string, err error) {
	if c.TakenByOther(ctx, cluster.ServiceAccounts, s.Namespace, s.ServiceAccount, removal.Owner.String()) {
		return []string{s.Describe() + ": the resource that takes this one's place has it now"}, nil
	}
	refusal, err := s.CheckRemove(ctx, c, removal)
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		return nil, refusal
	}
	remove := func(kind cluster.Kind, namespace, name string, terms kube.Terms) error {
		what, err := kube.Remove(ctx, c, kind, namespace, name, terms, removal.Retain)
		if why := reasonOf(what, removal); why != "" {
			stays = append(stays, kube.Name(kind.Kind, namespace, name)+": "+why)
		}
		return err
	}
	if err := remove(cluster.ClusterRoleBindings, "", s.BindingName(), removal.terms()); err != nil {
		return stays, err
	}
	if err := s.removeSecrets(ctx, c, removal, remove); err != nil {
		return stays, err
	}
	terms := removal.terms()
	terms.UID = s.UID
	if err := remove(cluster.ServiceAccounts, s.Namespace, s.ServiceAccount, terms); err != nil {
		return stays, err
	}
	left, err := s.removeNamespace(ctx, c, removal)
	return append(stays, left...), err
}

func reasonOf(what kube.Removal, removal Removal) string {
	switch what {
	case kube.Kept:
		if removal.Retain {
			return "deletion_policy is \"retain\""
		}
		return "it was adopted, not created"
	case kube.NotOurs:
		return "it does not carry this configuration's mark"
	case kube.Replaced:
		return "the resource that takes this one's place has it now"
	}
	return ""
}

// removeSecrets removes the tokens: the current one, those before it, and what was lent.
func (s Spec) removeSecrets(ctx context.Context, c *cluster.Cluster, removal Removal, remove func(kind cluster.Kind, namespace, name string, terms kube.Terms) error) error {
	longLived, minted, err := secretsOf(ctx, c, s.Namespace, s.ServiceAccount)
	if err != nil {
		return err
	}
	for _, secret := range longLived {
		// What another resource, or nobody, has marked is named only where the state says that it is this one's.
		if !removal.terms().Ours(secret) && secret.GetName() != s.SecretName() {
			continue
		}
		if err := remove(cluster.Secrets, s.Namespace, secret.GetName(), removal.terms()); err != nil {
			return err
		}
	}
	if removal.Retain {
		return nil
	}
	for _, secret := range minted {
		if !kube.Created(secret) || !isLent(secret) && !isExpired(secret) {
			continue
		}
		if err := c.Delete(ctx, cluster.Secrets, s.Namespace, secret.GetName(), secret.GetUID()); err != nil {
			return err
		}
	}
	return nil
}

// removeNamespace deletes the namespace that berth created for the access, unless something is left in it.
func (s Spec) removeNamespace(ctx context.Context, c *cluster.Cluster, removal Removal) (stays []string, err error) {
	live, err := c.Fetch(ctx, cluster.Namespaces, "", s.Namespace)
	if err != nil || live == nil || !kube.Created(live) || !removal.terms().Marked(live) {
		return nil, err
	}
	left := []string(nil)
	if !removal.Retain {
		if left, err = kube.Leftovers(ctx, c, s.Namespace, removal.terms()); err != nil {
			return nil, err
		}
	}
	switch {
	case removal.Retain:
		stays = append(stays, kube.Describe(live)+": deletion_policy is \"retain\"")
	case len(left) > 0:
		stays = append(stays, fmt.Sprintf("%s: there are %d object(s) in it that are not the access's: %s", kube.Describe(live), len(left), some(left)))
	default:
		_, err := kube.Remove(ctx, c, cluster.Namespaces, "", s.Namespace, removal.terms(), false)
		return nil, err
	}
	return stays, kube.Unmark(ctx, c, cluster.Namespaces, live)
}

// mostNamed is how many objects a message lists.
const mostNamed = 10

func some(names []string) string {
	if len(names) <= mostNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNamed], ", "), len(names)-mostNamed)
}
