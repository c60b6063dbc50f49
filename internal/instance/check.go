package instance

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
	"github.com/berthdev/terraform-provider-berth/internal/preflight"
	"github.com/berthdev/terraform-provider-berth/internal/priority"
)

// Findings are what the checks of an instance found.
type Findings struct {
	// Outlook is what applying the namespace would do.
	Outlook kube.Outlook
	// Warnings are what moves by itself and what could not be checked.
	Warnings []preflight.Check
}

// Check makes every check of an instance that needs no write, in the order in which an apply depends on them: version,
// ownership, permissions, pod-level resources, platforms, nodes and sizes, registry, priorities, Secrets, quota. Static
// facts refuse (the error joins all of them, each a *cluster.Problem), facts that move by themselves warn. before is
// the Spec that the state holds, nil at a create; tests are those that the apply will run.
func (s Spec) Check(ctx context.Context, c *cluster.Cluster, terms kube.Terms, before *Spec, tests Tests) (Findings, error) {
	if err := s.checkLength(c); err != nil {
		return Findings{}, err
	}
	version := preflight.CheckVersion(ctx, c, s.KubernetesFloor)
	if version.Status == preflight.Fail {
		return Findings{}, problem(c, version)
	}
	var findings Findings
	if version.Status == preflight.Warn {
		findings.Warnings = append(findings.Warnings, version)
	}
	outlook, going, err := s.checkNamespace(ctx, c, before.hold(terms, s.namespace()), before)
	if err != nil {
		return findings, err
	}
	findings.Outlook = outlook
	findings.Warnings = append(findings.Warnings, going...)
	if outlook.Verdict != kube.Create {
		err := errors.Join(s.checkOwn(ctx, c, terms, before), s.checkImmutable(ctx, c), s.checkPodSecurity(ctx, c))
		if err != nil {
			return findings, err
		}
	}

	sizes, err := s.preflightSizes()
	if err != nil {
		return findings, err
	}
	placement := s.Placement()
	request := preflight.Spec{
		Permissions: s.permissions(tests), PriorityClasses: s.namedClasses(), Sizes: sizes, Placement: &placement,
		QuotaPriorityClass: s.Classes().Sandbox.Name, DerivePlatforms: s.Derived, ContainerRuntime: s.Derived,
		Secrets: s.newSecretRefs(before),
	}
	if !s.Derived {
		request.Platforms = s.Platforms
	}
	if outlook.Verdict != kube.Create {
		request.QuotaNamespace = s.Namespace
	}
	report, err := preflight.Run(ctx, c, request)
	if err != nil {
		return findings, err
	}
	features, err := cluster.Once(ctx, c, "pod features", func() ([]preflight.Check, error) {
		return preflight.CheckFeatures(ctx, c, preflight.Features()), nil
	})
	if err != nil {
		return findings, err
	}
	report.Checks = append(report.Checks, features...)

	var refusals []error
	for _, check := range report.Failures() {
		refusals = append(refusals, problem(c, check))
	}
	warnings, err := s.checkOperator(ctx, c, terms.Owner, before)
	refusals = append(refusals, s.checkRegistry(c), s.checkClasses(ctx, c), err)
	findings.Warnings = append(append(findings.Warnings, report.Warnings()...), warnings...)
	return findings, errors.Join(refusals...)
}

// newSecretRefs are the Secrets that the state does not know of yet. One that went missing later is told by the
// conditions and refuses nothing: it must not stand in the way of a repair.
func (s Spec) newSecretRefs(before *Spec) []preflight.SecretRef {
	if before == nil {
		return s.secretRefs()
	}
	known := before.secretRefs()
	return slices.DeleteFunc(s.secretRefs(), func(ref preflight.SecretRef) bool {
		return slices.ContainsFunc(known, func(one preflight.SecretRef) bool {
			return one.Name == ref.Name && slices.Equal(one.Keys, ref.Keys)
		})
	})
}

// CheckPlace checks what can be checked while most of the instance is unknown: the version and the namespace.
func (s Spec) CheckPlace(ctx context.Context, c *cluster.Cluster, terms kube.Terms, before *Spec) error {
	if version := preflight.CheckVersion(ctx, c, s.KubernetesFloor); version.Status == preflight.Fail {
		return problem(c, version)
	}
	_, _, err := s.checkNamespace(ctx, c, before.hold(terms, s.namespace()), before)
	return err
}

// problem is a failed check as an error. Checks come before the first write, so it says that nothing was applied (X3);
// what to do stands after that, on lines that can be copied.
func problem(c *cluster.Cluster, check preflight.Check) error {
	if !strings.HasPrefix(check.Message, "refusing:") {
		space := ". "
		if strings.Contains(check.Message, "\n") {
			space = "\n"
		}
		check.Message = "refusing: " + strings.TrimSuffix(check.Message, ".") + space + "Nothing was applied."
	}
	return &cluster.Problem{
		Attribute: attributeOf(check.Name),
		Summary:   fmt.Sprintf("%s on cluster %q", check.Name, c.Name()),
		Detail:    check.Detail(),
	}
}

// attributeOf is the argument that a check is about, where it is one.
func attributeOf(check string) string {
	if name, ok := strings.CutPrefix(check, "priority_classes/"); ok && name != "" {
		return "priority_classes"
	}
	if check == "platforms" {
		return "platforms"
	}
	return ""
}

// checkNamespace refuses a namespace that belongs to another instance, that is being deleted, or that is foreign and
// not to be adopted (J46 to J48). Of a namespace that the state holds it only warns that it is being deleted: the plan
// may be the first half of a destroy that goes on where another one was interrupted, and an apply is refused anyway.
func (s Spec) checkNamespace(ctx context.Context, c *cluster.Cluster, terms kube.Terms, before *Spec) (outlook kube.Outlook, warnings []preflight.Check, err error) {
	if err := s.checkAlone(ctx, c, before); err != nil {
		return kube.Outlook{}, nil, err
	}
	if c.Leaving(cluster.Namespaces, "", s.Namespace) {
		return kube.Outlook{Verdict: kube.Create}, nil, nil
	}
	live, err := c.Exists(ctx, cluster.Namespaces, "", s.Namespace)
	if err != nil {
		return kube.Outlook{}, nil, err
	}
	if terms.Held && live != nil && live.GetDeletionTimestamp() != nil {
		warnings = []preflight.Check{{
			Name: "namespace", Status: preflight.Warn,
			Message: fmt.Sprintf("namespace %q on %s is being deleted, so an apply is refused until it is gone", s.Namespace, c.Context()),
		}}
	} else if err := s.checkOccupant(c, live); err != nil {
		return kube.Outlook{}, nil, err
	}
	outlook, err = kube.Check(ctx, c, s.namespace(), terms)
	return outlook, warnings, err
}

// checkOwn refuses objects by our names in the namespace that are not ours.
func (s Spec) checkOwn(ctx context.Context, c *cluster.Cluster, terms kube.Terms, before *Spec) error {
	var refusals []error
	for _, object := range s.own()[1:] {
		_, err := kube.Check(ctx, c, object, before.hold(terms, object))
		refusals = append(refusals, err)
	}
	return errors.Join(refusals...)
}

func (s Spec) checkOccupant(c *cluster.Cluster, live *unstructured.Unstructured) error {
	if live == nil {
		return nil
	}
	if live.GetDeletionTimestamp() != nil {
		return &cluster.Problem{
			Attribute: "namespace", Summary: fmt.Sprintf("Namespace %q is being deleted", s.Namespace),
			Detail: fmt.Sprintf("refusing: namespace %q on %s is being deleted, and nothing can be created in it. Wait until it is gone, or choose another namespace.", s.Namespace, c.Context()),
		}
	}
	occupant, whose := live.GetLabels()[LabelInstance], ""
	if owner, ok := kube.ParseOwner(live); ok && strings.HasPrefix(owner.Resource, ownerPrefix) {
		occupant = strings.TrimPrefix(owner.Resource, ownerPrefix)
		if label := live.GetLabels()[LabelInstance]; label != "" && label != s.Name {
			occupant = label
		}
		if owner.Configuration != c.Owner() {
			whose = fmt.Sprintf(", owner %q", owner.Configuration)
		}
	}
	if occupant == "" || occupant == s.Name {
		return nil
	}
	return &cluster.Problem{
		Attribute: "namespace", Summary: fmt.Sprintf("Namespace %q belongs to another instance", s.Namespace),
		Detail: fmt.Sprintf("refusing: namespace %q on %s belongs to another instance (%q%s). Choose another `namespace`, or another `cluster`.", s.Namespace, c.Context(), occupant, whose),
	}
}

// checkRegistry refuses images without a registry where the nodes could not get them (J15, J16, J23, J63).
func (s Spec) checkRegistry(c *cluster.Cluster) error {
	if len(s.SandboxImages) == 0 || s.Registry != "" {
		return nil
	}
	// A kind cluster, whose nodes can be loaded with images, is a context that begins with kind-.
	if !strings.HasPrefix(c.Context(), "kind-") {
		return &cluster.Problem{
			Attribute: "registry", Summary: fmt.Sprintf("Instance %q needs a registry", s.Name),
			Detail: fmt.Sprintf("refusing: context %s is not a kind cluster and no `registry` is configured, but the instance has sandbox images. "+
				"Set `registry` to the prefix that images are pushed to and the nodes can pull from, such as \"registry.example.com/team\".", c.Context()),
		}
	}
	if err := preflight.RequireRegistry(s.Platforms, s.Registry); err != nil {
		return &cluster.Problem{Attribute: "registry", Summary: fmt.Sprintf("Instance %q needs a registry", s.Name), Detail: "refusing: " + err.Error(), Err: err}
	}
	return nil
}

// checkClasses refuses a class named for sandboxes that preempts (J37), and default classes whose names are taken.
func (s Spec) checkClasses(ctx context.Context, c *cluster.Cluster) error {
	var refusals []error
	if s.Sandbox != "" && !c.Planned(cluster.PriorityClasses, "", s.Sandbox) {
		live, err := c.Find(ctx, cluster.PriorityClasses, "", s.Sandbox)
		// Who may not read it has been warned that it could not be checked.
		if err != nil && !apierrors.IsForbidden(err) {
			return err
		}
		if live != nil {
			if class := priority.FromLive(live); class.PreemptionPolicy != priority.Never {
				refusals = append(refusals, &cluster.Problem{
					Attribute: "priority_classes.sandbox", Summary: fmt.Sprintf("PriorityClass %q preempts other pods", s.Sandbox),
					Detail: fmt.Sprintf("refusing: PriorityClass %q on %s has preemptionPolicy %s, so a sandbox that waits for a node would evict other pods. "+
						"Name a class with preemptionPolicy Never, or leave `priority_classes.sandbox` out.", s.Sandbox, c.Context(), class.PreemptionPolicy),
				})
			}
		}
	}
	for _, class := range s.managedClasses() {
		live, err := c.Exists(ctx, cluster.PriorityClasses, "", class.Name)
		if err != nil {
			return err
		}
		if err := kube.CheckShared(c, class.Object(), live, nameYourOwn); err != nil {
			refusals = append(refusals, err)
		}
	}
	return errors.Join(refusals...)
}

// nameYourOwn is the way out when something else has taken the name of a default class.
const nameYourOwn = "Name the classes to use in `priority_classes`, or delete it."

// permissions are what the credential has to be allowed for this instance (J11). Rights on PriorityClasses are needed
// only when the instance creates some, and a destroy has to see which pods name them; rights on pods of the namespace
// only when the apply runs some.
func (s Spec) permissions(tests Tests) []cluster.Permission {
	var permissions []cluster.Permission
	need := func(kind cluster.Kind, namespace string, verbs ...string) {
		for _, verb := range verbs {
			permissions = append(permissions, cluster.Permission{Verb: verb, Group: kind.Group, Resource: kind.Resource, Namespace: namespace})
		}
	}
	write := []string{"get", "create", "patch", "delete"}
	need(cluster.Namespaces, "", write...)
	need(cluster.ConfigMaps, s.Namespace, write...)
	if s.Derived {
		need(cluster.Nodes, "", "list")
	}
	if len(s.managedClasses()) > 0 {
		need(cluster.PriorityClasses, "", write...)
		need(cluster.Pods, "", "list")
	}
	if !tests.empty() {
		need(cluster.Pods, s.Namespace, "get", "create", "delete")
	}
	if len(s.secretRefs()) > 0 {
		need(cluster.Secrets, s.Namespace, "get")
	}
	for _, object := range append(s.workloads(), s.operator()...) {
		if object.Kind != cluster.Namespaces {
			need(object.Kind, object.Desired.GetNamespace(), write...)
		}
	}
	return permissions
}
