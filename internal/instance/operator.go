package instance

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/go-version"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/preflight"
)

// operatorElsewhere is the way out when something else has taken a name of the operator's.
const operatorElsewhere = "Choose another `operator.namespace`, or delete it."

// operator are the objects of the component that all instances of a cluster share, in the order in which they are
// applied; none where the instance has no part in it.
func (s Spec) operator() []kube.Object {
	if s.Operator == nil {
		return nil
	}
	namespace := cluster.Namespaces.New("", s.Operator.Namespace)
	account := cluster.ServiceAccounts.New(s.Operator.Namespace, OperatorName)
	objects := []kube.Object{
		{Kind: cluster.Namespaces, Desired: namespace},
		{Kind: cluster.ServiceAccounts, Desired: account},
	}
	if s.Operator.ClusterRole != "" {
		binding := cluster.ClusterRoleBindings.New("", OperatorName)
		binding.Object["roleRef"] = map[string]any{"apiGroup": cluster.ClusterRoles.Group, "kind": "ClusterRole", "name": s.Operator.ClusterRole}
		binding.Object["subjects"] = []any{map[string]any{"kind": "ServiceAccount", "name": OperatorName, "namespace": s.Operator.Namespace}}
		objects = append(objects, kube.Object{Kind: cluster.ClusterRoleBindings, Desired: binding})
	}
	pod := s.controlPod(OperatorName, s.KitImages()["operator"], "50m", "256Mi")
	pod["serviceAccountName"] = OperatorName
	deployment := workload(cluster.Deployments, s.Operator.Namespace, OperatorName, map[string]any{"replicas": int64(1)}, pod)
	deployment.SetLabels(map[string]string{"app": OperatorName, LabelVersion: s.Operator.Version})
	return append(objects, kube.Object{Kind: cluster.Deployments, Desired: deployment})
}

// sharing is on whose behalf the instance shares an object.
func (s Spec) sharing(owner kube.Owner) kube.Sharing {
	return kube.Sharing{User: owner, Name: s.Name, Remedy: nameYourOwn}
}

// sharingOf is sharing for any shared object; those of the operator are not changed against the will of their other
// users. before is the Spec that the state holds.
func (s Spec) sharingOf(c *cluster.Cluster, object kube.Object, owner kube.Owner, before *Spec) kube.Sharing {
	sharing := s.sharing(owner)
	switch object.Kind {
	case cluster.Namespaces, cluster.ServiceAccounts:
		sharing.Remedy = operatorElsewhere
	case cluster.ClusterRoleBindings:
		sharing.Remedy = operatorElsewhere
		sharing.Decide = func(live *unstructured.Unstructured) (kube.Decision, error) {
			return s.decideBinding(c, object, live, owner)
		}
	case cluster.Deployments:
		sharing.Remedy = operatorElsewhere
		sharing.Decide = func(live *unstructured.Unstructured) (kube.Decision, error) {
			return s.decideDeployment(c, object, live, owner, before)
		}
	}
	return sharing
}

// decideDeployment tells what an instance does to the operator that runs: a newer one it leaves as it is (J12), an older
// one it upgrades. At its own version it repairs what was changed by hand, but wishes of its own only where it is the
// only user: with others, two wishes at one version would overwrite each other forever.
func (s Spec) decideDeployment(c *cluster.Cluster, object kube.Object, live *unstructured.Unstructured, owner kube.Owner, before *Spec) (kube.Decision, error) {
	switch order := compareVersions(live.GetLabels()[LabelVersion], s.Operator.Version); {
	case order > 0:
		return kube.Leave, nil
	case order < 0:
		return kube.Repair, nil
	}
	others, differences := kube.OtherUsers(live, owner), object.Compare(live)
	if len(others) == 0 || len(differences) == 0 || wanted(before, object) {
		return kube.Repair, nil
	}
	attribute, remedy := "operator", "Set what differs as they have it"
	var texts []string
	for _, difference := range differences {
		texts = append(texts, difference.String())
		if strings.HasSuffix(difference.Path, ".image") {
			attribute, remedy = "operator.image", fmt.Sprintf("Set `operator.image` so that the image is %s", difference.Found)
		}
	}
	return kube.Leave, &cluster.Problem{
		Attribute: attribute, Summary: fmt.Sprintf("Version %s of the operator is in use as something else", s.Operator.Version),
		Detail: fmt.Sprintf("refusing: %s on %s has version %s already and is used by %s, but instance %q wants it otherwise: %s. "+
			"%s, or raise `operator.version` to change it for all of them.",
			object.Describe(), c.Context(), s.Operator.Version, strings.Join(others, ", "), s.Name, strings.Join(texts, "; "), remedy),
	}
}

// formerOperator are the operator's objects of the Spec that the state holds, nil at a create.
func formerOperator(before *Spec) []kube.Object {
	if before == nil {
		return nil
	}
	return before.operator()
}

// wanted tells whether the Spec that the state holds, or another instance's, has an object of the operator just so.
func wanted(before *Spec, object kube.Object) bool {
	return slices.ContainsFunc(formerOperator(before), func(one kube.Object) bool { return reflect.DeepEqual(one.Desired.Object, object.Desired.Object) })
}

// decideBinding tells what an instance does to the operator's ClusterRoleBinding: Kubernetes never lets its role change,
// so the only user creates it anew, and with others the role is theirs too.
func (s Spec) decideBinding(c *cluster.Cluster, object kube.Object, live *unstructured.Unstructured, owner kube.Owner) (kube.Decision, error) {
	role, _, _ := unstructured.NestedString(live.Object, "roleRef", "name")
	if role == s.Operator.ClusterRole {
		return kube.Repair, nil
	}
	others := kube.OtherUsers(live, owner)
	if len(others) == 0 {
		return kube.Recreate, nil
	}
	return kube.Leave, &cluster.Problem{
		Attribute: "operator.cluster_role", Summary: fmt.Sprintf("The operator is bound to ClusterRole %q", role),
		Detail: fmt.Sprintf("refusing: %s on %s binds the operator to ClusterRole %q, is used by %s, and Kubernetes never lets its role change. "+
			"Set `operator.cluster_role` to %q, or take `cluster_role` out of the other instances first.",
			object.Describe(), c.Context(), role, strings.Join(others, ", "), role),
	}
}

// compareVersions orders the version on a live operator's label and the one that an instance wants. A label that is no
// version is older than any, so that a readable one takes its place; the one that is wanted was validated.
func compareVersions(have, want string) int {
	live, err := version.NewVersion(have)
	if err != nil {
		return -1
	}
	wanted, err := version.NewVersion(want)
	if err != nil {
		return 1
	}
	return live.Compare(wanted)
}

// checkOperator refuses, each with a *cluster.Problem, an operator whose names something else has taken, that would be a
// second one on the cluster, or that others use otherwise. It warns of a ClusterRole that does not exist.
func (s Spec) checkOperator(ctx context.Context, c *cluster.Cluster, owner kube.Owner, before *Spec) ([]preflight.Check, error) {
	if s.Operator == nil {
		return nil, nil
	}
	if s.Operator.Namespace == s.Namespace {
		return nil, &cluster.Problem{
			Attribute: "operator.namespace", Summary: "The operator cannot live in an instance's namespace",
			Detail: fmt.Sprintf("refusing: namespace %q is instance %q's own, and would take the operator of all instances along when it goes. "+
				"Set `operator.namespace` to another one, or leave it out.", s.Namespace, s.Name),
		}
	}
	refusals := []error{s.checkOtherOperators(ctx, c, owner), s.checkOperatorPlans(ctx, c)}
	for _, object := range s.operator() {
		sharing := s.sharingOf(c, object, owner, before)
		// What is decided on is more than the metadata that tells whether it exists.
		look := c.Exists
		if sharing.Decide != nil {
			look = c.Live
		}
		live, err := look(ctx, object.Kind, object.Desired.GetNamespace(), object.Desired.GetName())
		if err != nil {
			return nil, err
		}
		err = kube.CheckShared(c, object, live, sharing.Remedy)
		if err == nil && live != nil && live.GetDeletionTimestamp() == nil && sharing.Decide != nil {
			_, err = sharing.Decide(live)
		}
		refusals = append(refusals, err)
	}
	warnings, err := s.checkClusterRole(ctx, c)
	return warnings, errors.Join(append(refusals, err)...)
}

// checkClusterRole warns of a ClusterRole that does not exist, which Kubernetes lets a binding name: it may come later.
func (s Spec) checkClusterRole(ctx context.Context, c *cluster.Cluster) ([]preflight.Check, error) {
	name := s.Operator.ClusterRole
	if name == "" || c.Planned(cluster.ClusterRoles, "", name) {
		return nil, nil
	}
	role, err := c.Find(ctx, cluster.ClusterRoles, "", name)
	if role != nil || apierrors.IsForbidden(err) {
		return nil, nil
	}
	return []preflight.Check{{
		Name: "operator.cluster_role", Status: preflight.Warn,
		Message: fmt.Sprintf("ClusterRole %q does not exist on %s, so the operator may do nothing until it does.", name, c.Context()),
		Remedy:  "Create it, or name another one in `operator.cluster_role`.",
	}}, err
}

// checkOtherOperators refuses a second operator beside one in another namespace. The only user moves it, but to no lower
// version.
func (s Spec) checkOtherOperators(ctx context.Context, c *cluster.Cluster, owner kube.Owner) error {
	deployments, err := c.Ours(ctx, cluster.Deployments)
	if apierrors.IsForbidden(err) {
		// Who may not list all Deployments cannot know of one elsewhere.
		return nil
	}
	if err != nil {
		return err
	}
	for _, live := range deployments {
		if live.GetName() != OperatorName || live.GetNamespace() == s.Operator.Namespace || !kube.IsShared(live) || live.GetDeletionTimestamp() != nil {
			continue
		}
		problem := &cluster.Problem{
			Attribute: "operator.namespace", Summary: fmt.Sprintf("The operator runs in namespace %q already", live.GetNamespace()),
		}
		running := fmt.Sprintf("refusing: the operator that all instances of %s share runs in namespace %q", c.Context(), live.GetNamespace())
		have := live.GetLabels()[LabelVersion]
		switch others := kube.OtherUsers(live, owner); {
		case len(others) > 0:
			problem.Detail = fmt.Sprintf("%s and is used by %s, so another one in %q would fight with it. Set `operator.namespace` to %q.",
				running, strings.Join(others, ", "), s.Operator.Namespace, live.GetNamespace())
		case !kube.IsUser(live, owner):
			problem.Detail = fmt.Sprintf("%s, though no instance uses it any more, so another one in %q would fight with it. "+
				"Set `operator.namespace` to %q, or delete %s.", running, s.Operator.Namespace, live.GetNamespace(), kube.Describe(live))
		case compareVersions(have, s.Operator.Version) > 0:
			problem.Attribute, problem.Summary = "operator.version", "The operator is never downgraded"
			problem.Detail = fmt.Sprintf("%s with version %s, and moving it to %q would put the older %s there. Set `operator.version` and `operator.image` to the newer one.",
				running, have, s.Operator.Namespace, s.Operator.Version)
		default:
			continue
		}
		return problem
	}
	return nil
}

// checkOperatorPlans refuses two instances of one configuration that want the operator in different namespaces, or as
// different things at one version, which nothing on the cluster can tell before the first of them is applied.
func (s Spec) checkOperatorPlans(ctx context.Context, c *cluster.Cluster) error {
	mine := func() (Spec, error) { return s, nil }
	first, err := cluster.Once(ctx, c, "operator", mine)
	if err != nil {
		return err
	}
	if first.Operator.Namespace != s.Operator.Namespace {
		return &cluster.Problem{
			Attribute: "operator.namespace", Summary: "Two instances want the operator in different namespaces",
			Detail: fmt.Sprintf("refusing: all instances of %s share one operator, and instance %q of this configuration wants it in %q. Set `operator.namespace` to the same in both.",
				c.Context(), first.Name, first.Operator.Namespace),
		}
	}
	if first, err = cluster.Once(ctx, c, "operator "+s.Operator.Version, mine); err != nil {
		return err
	}
	objects := s.operator()
	deployment := objects[len(objects)-1]
	if wanted(&first, deployment) {
		return nil
	}
	attribute := "operator"
	if first.KitImages()["operator"] != s.KitImages()["operator"] {
		attribute = "operator.image"
	}
	return &cluster.Problem{
		Attribute: attribute, Summary: fmt.Sprintf("Two instances want version %s of the operator as different things", s.Operator.Version),
		Detail: fmt.Sprintf("refusing: all instances of %s share one operator, and instance %q of this configuration wants the same version with image %s and PriorityClass %s. "+
			"Set the same in both, or raise `operator.version` in one.", c.Context(), first.Name, first.KitImages()["operator"], first.Classes().Control.Name),
	}
}

// convergeOperator makes sure of the shared operator, and then gives up what of it the configuration no longer has: in
// another namespace, or all of it.
func (s Spec) convergeOperator(ctx context.Context, c *cluster.Cluster, terms kube.Terms, before *Spec, outcome *Outcome) error {
	objects := s.operator()
	for _, object := range objects {
		live, err := kube.Share(ctx, c, object, s.sharingOf(c, object, terms.Owner, before))
		if err != nil {
			return err
		}
		if object.Kind != cluster.Deployments {
			continue
		}
		if err := s.rolledOut(ctx, c, cluster.Deployments, s.Operator.Namespace, OperatorName); err != nil {
			return err
		}
		have := live.GetLabels()[LabelVersion]
		if compareVersions(have, s.Operator.Version) > 0 {
			outcome.Warnings = append(outcome.Warnings, preflight.Check{
				Name: "operator", Status: preflight.Warn,
				Message: fmt.Sprintf("The operator on %s has version %s, which is newer than %s. It is never downgraded and was left as it is.", c.Context(), have, s.Operator.Version),
				Remedy:  "Set `operator.version` and `operator.image` to the newer one.",
			})
		}
	}
	former := slices.DeleteFunc(formerOperator(before), func(object kube.Object) bool {
		return slices.ContainsFunc(objects, func(one kube.Object) bool { return one.Describe() == object.Describe() })
	})
	keep, remedy := "", "Delete it by hand when nobody needs it."
	if s.Operator == nil && !s.RemoveOperator {
		keep, remedy = "remove_operator is false", "To uninstall it, put `operator` back, and take it out together with remove_operator = true."
	}
	stays, err := giveUp(ctx, c, former, terms, keep)
	if len(stays) > 0 {
		outcome.Warnings = append(outcome.Warnings, preflight.Check{
			Name: "what the operator leaves", Status: preflight.Warn,
			Message: fmt.Sprintf("The instance has given up the operator in namespace %q on %s, but something of it stays:\n%s.", before.Operator.Namespace, c.Context(), strings.Join(stays, ".\n")),
			Remedy:  remedy,
		})
	}
	return err
}

// leaveOperator takes the instance's label off the shared operator, and uninstalls it after its last instance when
// that was asked for.
func (s Spec) leaveOperator(ctx context.Context, c *cluster.Cluster, removal Removal, stays []string) ([]string, error) {
	keep := ""
	if removal.Retain || !removal.RemoveOperator {
		keep = "remove_operator is false"
	}
	left, err := giveUp(ctx, c, s.operator(), removal.terms(""), keep)
	return append(stays, left...), err
}

// giveUp takes a user's label off objects of the operator, last first, and deletes those that nobody else uses, unless
// keep says why they stay. It returns what stays and why.
func giveUp(ctx context.Context, c *cluster.Cluster, objects []kube.Object, terms kube.Terms, keep string) (stays []string, err error) {
	for _, object := range slices.Backward(objects) {
		name, namespace := object.Desired.GetName(), object.Desired.GetNamespace()
		reason, err := kube.Unshare(ctx, c, object.Kind, namespace, name, terms.Owner, func(ctx context.Context) (string, error) {
			if keep != "" || object.Kind != cluster.Namespaces {
				return keep, nil
			}
			foreign, err := kube.Leftovers(ctx, c, name, terms)
			if err != nil || len(foreign) == 0 {
				return "", err
			}
			return "it still has " + strings.Join(foreign, ", "), nil
		})
		if err != nil {
			return stays, err
		}
		if reason != "" {
			stays = append(stays, object.Describe()+": "+reason)
			continue
		}
		if err := kube.WaitGone(ctx, c, object.Kind, namespace, name, ""); err != nil {
			return stays, err
		}
	}
	return stays, nil
}

// WarnLeaving warns before a destroy of an operator that stays and goes on using a PriorityClass of the same
// configuration, whose own destroy would be refused for that.
func (s Spec) WarnLeaving(ctx context.Context, c *cluster.Cluster, removal Removal) ([]preflight.Check, error) {
	if s.Operator == nil || s.Control == "" || removal.RemoveOperator && !removal.Retain {
		return nil, nil
	}
	live, err := c.Live(ctx, cluster.Deployments, s.Operator.Namespace, OperatorName)
	if err != nil || live == nil {
		return nil, err
	}
	if used, _, _ := unstructured.NestedString(live.Object, "spec", "template", "spec", "priorityClassName"); used != s.Control {
		return nil, nil
	}
	class, err := c.Live(ctx, cluster.PriorityClasses, "", s.Control)
	if err != nil || class == nil {
		return nil, err
	}
	if owner, ok := kube.ParseOwner(class); !ok || owner.Configuration != removal.Owner.Configuration {
		return nil, nil
	}
	return []preflight.Check{{
		Name: "operator", Status: preflight.Warn,
		Message: fmt.Sprintf("The operator stays and keeps using PriorityClass %q on %s, so destroying that class is refused.", s.Control, c.Context()),
		Remedy:  "Set remove_operator = true and apply before the destroy, or set deletion_policy = \"retain\" on the class.",
	}}, nil
}
