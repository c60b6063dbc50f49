package access

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// Live returns the ServiceAccount of the access, nil when it is gone, also when somebody else has since created another one
// by its name; and whether anything of the access is left: what a destroy that was interrupted has yet to take away.
func (s Spec) Live(ctx context.Context, c *cluster.Cluster, owner kube.Owner) (account *unstructured.Unstructured, left bool, err error) {
	account, err = c.Live(ctx, cluster.ServiceAccounts, s.Namespace, s.ServiceAccount)
	if err != nil {
		return nil, false, err
	}
	if account != nil && s.UID != "" && s.UID != account.GetUID() && kube.Inspect(account, owner).Standing != kube.Ours {
		account = nil
	}
	if account != nil {
		return account, true, nil
	}
	objects := []kube.Object{s.binding(), s.namespace()}
	if s.TokenSecret {
		objects = append(objects, s.secret(s.SecretName()))
	}
	for _, object := range objects {
		live, err := c.Live(ctx, object.Kind, object.Desired.GetNamespace(), object.Desired.GetName())
		if err != nil || kube.Inspect(live, owner).Standing == kube.Ours {
			return nil, err == nil, err
		}
	}
	return nil, false, nil
}

// Drift returns what is no longer as it was applied. marked says that berth has written its marks.
func (s Spec) Drift(ctx context.Context, c *cluster.Cluster, owner kube.Owner, marked bool) (map[string]string, error) {
	drift, err := kube.Drift(ctx, c, owner, s.own(marked), marked)
	if err != nil {
		return nil, err
	}
	binding := s.binding()
	live, err := c.Live(ctx, binding.Kind, "", s.BindingName())
	if err != nil {
		return nil, err
	}
	// Items of the list are compared by name; who was added to it is nobody's.
	if live != nil && len(otherSubjects(live, binding.Desired)) > 0 {
		drift[binding.Describe()+" subjects"] = strings.Join(subjects(live), ", ") + " → " + strings.Join(subjects(binding.Desired), ", ")
	}
	if !marked {
		return drift, nil
	}
	secrets, err := c.Ours(ctx, cluster.Secrets)
	if apierrors.IsForbidden(err) {
		return drift, nil
	}
	for _, secret := range secrets {
		if secret.GetNamespace() == s.Namespace && s.isSpent(secret, owner) {
			drift[kube.Describe(secret)] = "superseded and unused → gone"
		}
	}
	return drift, err
}

// Condition is one condition of an access.
type Condition struct {
	Type string
	// Status is True, False or Unknown.
	Status          string
	Reason, Message string
}

// Observe tells how the access stands.
func (s Spec) Observe(ctx context.Context, c *cluster.Cluster) ([]Condition, error) {
	role, err := s.observeRole(ctx, c)
	if err != nil {
		return nil, err
	}
	token, err := s.observeToken(ctx, c)
	if err != nil {
		return nil, err
	}
	ready := Condition{Type: "Ready", Status: "True", Reason: "Converged", Message: fmt.Sprintf("%s is bound to ClusterRole/%s.", s.Describe(), s.ClusterRole)}
	for _, one := range []Condition{token, role} {
		if one.Status == "False" {
			ready.Status, ready.Reason, ready.Message = one.Status, one.Reason, one.Message
		}
	}
	return []Condition{role, token, ready}, nil
}

func (s Spec) observeRole(ctx context.Context, c *cluster.Cluster) (Condition, error) {
	condition := Condition{Type: "RoleFound", Status: "True", Reason: "Found", Message: fmt.Sprintf("ClusterRole/%s exists.", s.ClusterRole)}
	role, err := c.Exists(ctx, cluster.ClusterRoles, "", s.ClusterRole)
	switch {
	case apierrors.IsForbidden(err):
		condition.Status, condition.Reason, condition.Message = "Unknown", "Forbidden", "The credential may not read ClusterRoles."
	case err != nil:
		return condition, err
	case role == nil:
		condition.Status, condition.Reason = "False", "RoleMissing"
		condition.Message = fmt.Sprintf("ClusterRole/%s does not exist, so the tokens of %s can do nothing that it should allow.", s.ClusterRole, s.Describe())
	}
	return condition, nil
}

func (s Spec) observeToken(ctx context.Context, c *cluster.Cluster) (Condition, error) {
	condition := Condition{Type: "TokenIssued", Status: "True"}
	if !s.TokenSecret {
		condition.Reason, condition.Message = "Minted", "Whoever needs a token mints an expiring one."
		return condition, nil
	}
	name := s.secret(s.SecretName()).Describe()
	account, err := c.Live(ctx, cluster.ServiceAccounts, s.Namespace, s.ServiceAccount)
	if err != nil {
		return condition, err
	}
	secret, err := c.Live(ctx, cluster.Secrets, s.Namespace, s.SecretName())
	switch {
	case err != nil:
		return condition, err
	case secret == nil || account == nil:
		condition.Status, condition.Reason, condition.Message = "False", "TokenMissing", fmt.Sprintf("%s does not exist.", name)
	case issuedIn(secret, account) == "":
		condition.Status, condition.Reason, condition.Message = "False", "NotIssued", fmt.Sprintf("%s holds no token of %s yet.", name, s.Describe())
	default:
		condition.Reason, condition.Message = "Issued", fmt.Sprintf("%s holds the token.", name)
	}
	return condition, nil
}

// Find reads an access from the cluster, for an import; found is false when there is no such ServiceAccount. Of one that
// was made by hand it takes the role of whatever binding names it.
func Find(ctx context.Context, c *cluster.Cluster, namespace, serviceAccount string) (spec Spec, found bool, err error) {
	account, err := c.Live(ctx, cluster.ServiceAccounts, namespace, serviceAccount)
	if err != nil || account == nil {
		return Spec{}, false, err
	}
	spec = Spec{Namespace: namespace, ServiceAccount: serviceAccount, TokenVersion: 1, UID: account.GetUID()}
	if spec.ClusterRole, err = spec.roleOf(ctx, c); err != nil {
		return Spec{}, false, err
	}
	if name := account.GetAnnotations()[AnnotationTokenSecret]; name != "" {
		spec.TokenSecret, spec.TokenVersion = true, max(versionOf(serviceAccount, name), 1)
		return spec, true, nil
	}
	if _, managed := kube.ParseOwner(account); managed {
		return spec, true, nil
	}
	by := spec
	by.TokenSecret = true
	secret, err := c.Live(ctx, cluster.Secrets, namespace, by.SecretName())
	if err != nil {
		return Spec{}, false, err
	}
	spec.TokenSecret = secret != nil && isLongLived(secret, serviceAccount)
	return spec, true, nil
}

// roleOf is the role that the ServiceAccount is bound to; the default where nothing binds it.
func (s Spec) roleOf(ctx context.Context, c *cluster.Cluster) (string, error) {
	binding, err := c.Live(ctx, cluster.ClusterRoleBindings, "", s.BindingName())
	if err != nil {
		return "", err
	}
	if binding == nil {
		all, err := c.List(ctx, cluster.ClusterRoleBindings)
		if err != nil && !apierrors.IsForbidden(err) {
			return "", err
		}
		for _, one := range all {
			if len(kube.NotIn([]string{s.Describe()}, subjects(one))) == 0 {
				binding = one
				break
			}
		}
	}
	if binding == nil {
		return DefaultClusterRole, nil
	}
	role, _, err := unstructured.NestedString(binding.Object, "roleRef", "name")
	return role, err
}
