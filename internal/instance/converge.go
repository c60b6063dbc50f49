package instance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/preflight"
	"github.com/berthdev/terraform-provider-berth/internal/priority"
)

// rolloutTime is how long a rollout may take (J56).
const rolloutTime = 180 * time.Second

// The steps of an apply, as the namespace's berth.dev/step names them while they run.
const (
	stepPriorities = "priority-classes"
	stepSettings   = "settings"
	stepOperator   = "operator"
	stepWorkloads  = "workloads"
	stepPreflight  = "preflight"
)

// Outcome is what an apply has to tell.
type Outcome struct {
	// Namespace is the live namespace.
	Namespace *unstructured.Unstructured
	// Warnings are what an apply found that is no reason to fail.
	Warnings []preflight.Check
}

// Converge makes the instance what the Spec says. Each step is create-or-update and is named on the namespace before
// it begins, so that whoever comes after an interruption goes on, and knows from where. It returns only when rollouts
// were observed (J56). before is the Spec that the state holds, nil at a create.
func (s Spec) Converge(ctx context.Context, c *cluster.Cluster, terms kube.Terms, before *Spec, tests Tests) (Outcome, error) {
	var outcome Outcome
	live, err := c.Fetch(ctx, cluster.Namespaces, "", s.Namespace)
	if err != nil {
		return outcome, err
	}
	if err := s.checkOccupant(c, live); err != nil {
		return outcome, err
	}
	if err := s.takeShares(ctx, c, terms.Owner, before, live); err != nil {
		return outcome, err
	}
	if outcome.Namespace, err = kube.Converge(ctx, c, s.namespace(), before.hold(terms, s.namespace())); err != nil {
		return outcome, err
	}
	steps := []struct {
		name string
		skip bool
		do   func(context.Context) error
	}{
		{name: stepPriorities, do: func(ctx context.Context) error { return s.sharePriorities(ctx, c, terms.Owner) }},
		{name: stepSettings, do: func(ctx context.Context) error {
			_, err := kube.Converge(ctx, c, s.configMap(), before.hold(terms, s.configMap()))
			return err
		}},
		{name: stepOperator, skip: len(s.operator())+len(formerOperator(before)) == 0, do: func(ctx context.Context) error {
			return s.convergeOperator(ctx, c, terms, before, &outcome)
		}},
		{name: stepWorkloads, do: func(ctx context.Context) error { return s.convergeWorkloads(ctx, c, terms, before, &outcome) }},
		{name: stepPreflight, skip: tests.empty(), do: func(ctx context.Context) error { return s.runTests(ctx, c, terms.Owner, tests, &outcome) }},
	}
	for _, step := range steps {
		if step.skip {
			continue
		}
		if err := s.journal(ctx, c, &outcome, step.name); err != nil {
			return outcome, err
		}
		if err := step.do(ctx); err != nil {
			return outcome, err
		}
	}
	if live == nil {
		outcome.Warnings = append(outcome.Warnings, s.lateSecrets(ctx, c)...)
	}
	return outcome, s.journal(ctx, c, &outcome, "")
}

// takeShares moves the parts in what instances share from the owner that the namespace names to the one that the
// configuration has now, before the namespace is marked anew and the old name is lost.
func (s Spec) takeShares(ctx context.Context, c *cluster.Cluster, owner kube.Owner, before *Spec, namespace *unstructured.Unstructured) error {
	if before == nil || namespace == nil {
		return nil
	}
	previous, ok := kube.ParseOwner(namespace)
	if !ok || previous == owner || previous.Resource != owner.Resource {
		return nil
	}
	for _, object := range append(before.operator(), before.defaultClasses()...) {
		live, err := c.Fetch(ctx, object.Kind, object.Desired.GetNamespace(), object.Desired.GetName())
		if err != nil || !kube.IsUser(live, previous) {
			if err != nil {
				return err
			}
			continue
		}
		claim := kube.Sharing{User: owner, Name: s.Name, Remedy: nameYourOwn, Decide: kube.Untouched}
		if _, err := kube.Share(ctx, c, object, claim); err != nil {
			return err
		}
		stays := func(context.Context) (string, error) { return "it has a user", nil }
		if _, err := kube.Unshare(ctx, c, object.Kind, live.GetNamespace(), live.GetName(), previous, stays); err != nil {
			return err
		}
	}
	return nil
}

// lateSecrets are the Secrets that could not be looked for before the namespace was there, and are not in it yet: they
// are made afterwards, because they need the namespace (J59, J74).
func (s Spec) lateSecrets(ctx context.Context, c *cluster.Cluster) []preflight.Check {
	var missing []preflight.Check
	for _, ref := range s.secretRefs() {
		if check := preflight.CheckSecret(ctx, c, ref); check.Status != preflight.Pass {
			check.Status = preflight.Warn
			missing = append(missing, check)
		}
	}
	return missing
}

// hold returns the terms for one object: what the state holds is ours by proof, but a component that a configuration
// has only just asked for may meet a foreign object by its name, and so may a namespace that was deleted by hand.
func (s *Spec) hold(terms kube.Terms, object kube.Object) kube.Terms {
	if s != nil && object.Kind == cluster.Namespaces {
		terms.UID = s.NamespaceUID
	}
	terms.Held = s != nil && slices.ContainsFunc(s.own(), func(held kube.Object) bool { return held.Describe() == object.Describe() })
	return terms
}

// journal names the step that begins on the namespace, or takes the name off when all are done.
func (s Spec) journal(ctx context.Context, c *cluster.Cluster, outcome *Outcome, step string) error {
	if outcome.Namespace.GetAnnotations()[kube.AnnotationStep] == step {
		return nil
	}
	live, err := kube.Annotate(ctx, c, cluster.Namespaces, "", s.Namespace, kube.AnnotationStep, step)
	if apierrors.IsNotFound(err) || err == nil && live.GetDeletionTimestamp() != nil {
		return &cluster.Problem{
			Summary: fmt.Sprintf("Namespace %q was deleted during the apply", s.Namespace),
			Detail:  fmt.Sprintf("Somebody deleted namespace %q on %s while the instance was being applied. Apply again to create it anew.", s.Namespace, c.Context()),
			Err:     err,
		}
	}
	if err != nil {
		return err
	}
	outcome.Namespace = live
	return nil
}

// sharePriorities makes sure of the default classes, and lets go of those that the configuration has replaced.
func (s Spec) sharePriorities(ctx context.Context, c *cluster.Cluster, owner kube.Owner) error {
	for _, class := range s.managedClasses() {
		if _, err := kube.Share(ctx, c, class.Object(), s.sharing(owner)); err != nil {
			return err
		}
	}
	for _, name := range s.unmanagedDefaults() {
		// Who may not read PriorityClasses has no part in a default one: nothing is to be let go (J11).
		if _, err := releaseClass(ctx, c, name, owner, false); err != nil && !apierrors.IsForbidden(err) {
			return err
		}
	}
	return nil
}

// unmanagedDefaults are the default classes that this Spec does not use.
func (s Spec) unmanagedDefaults() []string {
	var names []string
	if s.Control != "" {
		names = append(names, ControlClass)
	}
	if s.Sandbox != "" {
		names = append(names, SandboxClass)
	}
	return names
}

// releaseClass takes the instance's label off a default class and deletes the class when nobody uses it any more.
func releaseClass(ctx context.Context, c *cluster.Cluster, name string, owner kube.Owner, retain bool) (stays string, err error) {
	live, err := c.Live(ctx, cluster.PriorityClasses, "", name)
	if err != nil || live == nil || !kube.IsShared(live) {
		return "", err
	}
	return kube.Unshare(ctx, c, cluster.PriorityClasses, "", name, owner, func(ctx context.Context) (string, error) {
		if retain {
			return "deletion_policy is \"retain\"", nil
		}
		users, err := priority.Users(ctx, c, name)
		if err != nil || len(users) == 0 {
			return "", err
		}
		return "pods still name it: " + priority.Some(users), nil
	})
}

// convergeWorkloads applies the instance's own components, removes those that are no longer wanted, and waits for the
// rollouts.
func (s Spec) convergeWorkloads(ctx context.Context, c *cluster.Cluster, terms kube.Terms, before *Spec, outcome *Outcome) error {
	workloads := s.workloads()
	if err := s.removeUnwanted(ctx, c, terms.Owner); err != nil {
		return err
	}
	for _, object := range workloads {
		if _, err := kube.Converge(ctx, c, object, before.hold(terms, object)); err != nil {
			return err
		}
	}
	for _, object := range workloads {
		if err := s.rolledOut(ctx, c, object.Kind, s.Namespace, object.Desired.GetName()); err != nil {
			return err
		}
		if object.Kind == cluster.DaemonSets {
			live, err := c.Fetch(ctx, object.Kind, s.Namespace, object.Desired.GetName())
			if err != nil {
				return err
			}
			if live == nil {
				continue
			}
			if check := preflight.CheckRollout(live); check.Status == preflight.Warn {
				outcome.Warnings = append(outcome.Warnings, check)
			}
		}
	}
	return nil
}

// removeUnwanted removes the components that the configuration no longer has. They are asked for by name, because an
// interrupted apply may have left one that the state knows nothing of.
func (s Spec) removeUnwanted(ctx context.Context, c *cluster.Cluster, owner kube.Owner) error {
	for _, unwanted := range []struct {
		kind   cluster.Kind
		name   string
		wanted bool
	}{{cluster.Deployments, OrchestratorName, s.Orchestrator != nil}, {cluster.DaemonSets, RepoCacheName, s.RepoCache != nil}} {
		if unwanted.wanted {
			continue
		}
		_, err := kube.Remove(ctx, c, unwanted.kind, s.Namespace, unwanted.name, kube.Terms{Owner: owner}, false)
		// Who may not read the kind has not created one either: rights on it are asked for only with a component.
		if err != nil && !apierrors.IsForbidden(err) {
			return err
		}
	}
	return nil
}

func (s Spec) rolledOut(ctx context.Context, c *cluster.Cluster, kind cluster.Kind, namespace, name string) error {
	ctx, cancel := context.WithTimeout(ctx, rolloutTime)
	defer cancel()
	_, err := kube.WaitReady(ctx, c, kind, namespace, name)
	return err
}

// Drift returns what is no longer as it was applied.
func (s Spec) Drift(ctx context.Context, c *cluster.Cluster, owner kube.Owner, marked bool) (map[string]string, error) {
	drift, err := kube.Drift(ctx, c, owner, s.own(), marked)
	if err != nil {
		return nil, err
	}
	for _, object := range append(s.defaultClasses(), s.operator()...) {
		differences, err := kube.SharedDrift(ctx, c, object, s.sharingOf(c, object, owner, &s))
		if err != nil {
			return nil, err
		}
		maps.Copy(drift, differences)
	}
	if live, err := c.Live(ctx, cluster.Namespaces, "", s.Namespace); err != nil {
		return nil, err
	} else if live != nil && live.GetAnnotations()[kube.AnnotationStep] != "" {
		drift[kube.Name("Namespace", "", s.Namespace)+" apply"] = "interrupted at step " + live.GetAnnotations()[kube.AnnotationStep] + " → finished"
	}
	return drift, nil
}

// Live returns the live namespace of the instance; nil when it is gone, also when somebody else has since created
// another one by its name.
func (s Spec) Live(ctx context.Context, c *cluster.Cluster, owner kube.Owner) (*unstructured.Unstructured, error) {
	live, err := c.Live(ctx, cluster.Namespaces, "", s.Namespace)
	if err != nil || live == nil {
		return nil, err
	}
	if s.NamespaceUID != "" && s.NamespaceUID != live.GetUID() && kube.Inspect(live, owner).Standing != kube.Ours {
		return nil, nil
	}
	return live, nil
}

// Shares tells whether the instance still has a part in what instances share: a destroy that was interrupted after the
// namespace was gone has yet to give it up.
func (s Spec) Shares(ctx context.Context, c *cluster.Cluster, owner kube.Owner) (bool, error) {
	for _, object := range append(s.operator(), s.defaultClasses()...) {
		live, err := c.Live(ctx, object.Kind, object.Desired.GetNamespace(), object.Desired.GetName())
		if err != nil || kube.IsUser(live, owner) {
			return err == nil, err
		}
	}
	return false, nil
}

// defaultClasses are the managed classes as objects.
func (s Spec) defaultClasses() []kube.Object {
	var objects []kube.Object
	for _, class := range s.managedClasses() {
		objects = append(objects, class.Object())
	}
	return objects
}

// Find looks for the namespace of an instance by its label, for an import, and reads its settings. found is false when
// no namespace has it; the error is a *cluster.Problem when several have, or when the settings cannot be read.
func Find(ctx context.Context, c *cluster.Cluster, name string) (spec Spec, found bool, err error) {
	namespaces, err := c.List(ctx, cluster.Namespaces)
	if err != nil {
		return Spec{}, false, err
	}
	var claimed []string
	for _, namespace := range namespaces {
		if namespace.GetLabels()[LabelInstance] == name {
			claimed = append(claimed, namespace.GetName())
		}
	}
	switch len(claimed) {
	case 0:
		return Spec{}, false, nil
	case 1:
	default:
		return Spec{}, false, &cluster.Problem{
			Summary: fmt.Sprintf("Several namespaces belong to instance %q", name),
			Detail:  fmt.Sprintf("On %s these namespaces carry the label %s=%s: %s. Take the label off all but one.", c.Context(), LabelInstance, name, strings.Join(claimed, ", ")),
		}
	}
	settings, err := c.Fetch(ctx, cluster.ConfigMaps, claimed[0], SettingsName)
	if err != nil {
		return Spec{}, false, err
	}
	if settings == nil {
		return Spec{}, false, &cluster.Problem{
			Summary: fmt.Sprintf("Instance %q has no settings", name),
			Detail: fmt.Sprintf("Namespace %q on %s belongs to instance %q, but ConfigMap/%s/%s, from which an import reads its settings, does not exist. "+
				"Create the instance with the same name and namespace instead: it goes on from what is there.", claimed[0], c.Context(), name, claimed[0], SettingsName),
		}
	}
	spec, err = FromSettings(c, settings)
	return spec, err == nil, err
}
