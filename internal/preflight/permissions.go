package preflight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// CheckPermissions asks for each permission whether the credential has it (J11), and fails with those that it lacks;
// the remedy holds the roles that grant exactly them.
func CheckPermissions(ctx context.Context, c Cluster, permissions []cluster.Permission) Check {
	const name = "permissions"
	missing, err := c.Missing(ctx, permissions)
	if err != nil {
		return unanswered(name, "what the credential of "+c.Context()+" may do", err, nil)
	}
	if len(missing) == 0 {
		return passed(name, "the credential has all of the %d permission(s)", len(permissions))
	}
	lines := make([]string, len(missing))
	for i, permission := range missing {
		lines[i] = "  " + permission.String()
	}
	return Check{
		Name: name, Status: Fail,
		Message: fmt.Sprintf("the credential of %s may not:\n%s", c.Context(), strings.Join(lines, "\n")),
		Remedy:  "Have an administrator apply this and bind it to the credential's user:\n" + RBAC("berth", missing),
	}
}

// RBAC is the YAML of the roles that grant the permissions and nothing else: a ClusterRole for those of the whole
// cluster, and a Role for each namespace, all of the name given. Equal permissions are given once.
func RBAC(name string, permissions []cluster.Permission) string {
	byNamespace := map[string][]cluster.Permission{}
	var namespaces []string
	for _, permission := range permissions {
		if !slices.Contains(namespaces, permission.Namespace) {
			namespaces = append(namespaces, permission.Namespace)
		}
		byNamespace[permission.Namespace] = append(byNamespace[permission.Namespace], permission)
	}
	slices.Sort(namespaces)
	documents := make([]string, len(namespaces))
	for i, namespace := range namespaces {
		documents[i] = role(name, namespace, byNamespace[namespace])
	}
	return strings.Join(documents, "---\n")
}

func role(name, namespace string, permissions []cluster.Permission) string {
	var object any = rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      rules(permissions),
	}
	if namespace != "" {
		object = rbacv1.Role{
			TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
			Rules:      rules(permissions),
		}
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		panic(err) // a role holds only strings
	}
	return string(text)
}

// toAsk is the remedy for a question that a missing permission left open. Each permission has a role of its own name,
// so that applying the remedies of several checks adds up instead of overwriting.
func toAsk(needed cluster.Permission) string {
	name := "berth-" + needed.Verb + "-" + needed.Resource
	if needed.Name != "" {
		name += "-" + needed.Name
	}
	return "To have it checked, apply this and bind it to the credential's user:\n" + RBAC(name, []cluster.Permission{needed})
}

// rules groups permissions: first the verbs of each resource, then the resources of a group that have the same verbs.
func rules(permissions []cluster.Permission) []rbacv1.PolicyRule {
	type target struct{ group, resource, name string }
	verbs := map[target][]string{}
	for _, permission := range permissions {
		at := target{permission.Group, permission.Resource, permission.Name}
		if permission.Subresource != "" {
			at.resource += "/" + permission.Subresource
		}
		// RBAC cannot limit these to a name, because the request doesn't carry one.
		if permission.Verb == "create" || permission.Verb == "deletecollection" {
			at.name = ""
		}
		verbs[at] = append(verbs[at], permission.Verb)
	}
	type grant struct{ group, name, verbs string }
	resources := map[grant][]string{}
	for at, each := range verbs {
		key := grant{at.group, at.name, strings.Join(sortedSet(each), ",")}
		resources[key] = append(resources[key], at.resource)
	}
	granted := make([]rbacv1.PolicyRule, 0, len(resources))
	for key, each := range resources {
		rule := rbacv1.PolicyRule{APIGroups: []string{key.group}, Resources: sortedSet(each), Verbs: strings.Split(key.verbs, ",")}
		if key.name != "" {
			rule.ResourceNames = []string{key.name}
		}
		granted = append(granted, rule)
	}
	slices.SortFunc(granted, func(a, b rbacv1.PolicyRule) int {
		return cmp.Or(slices.Compare(a.APIGroups, b.APIGroups), slices.Compare(a.Resources, b.Resources), slices.Compare(a.ResourceNames, b.ResourceNames))
	})
	return granted
}
