package argocd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// mostTries is how often a write is tried again when the Application has changed meanwhile: Argo CD writes its status into
// the same object.
const mostTries = 10

// explainTime is what an explanation may take after a wait's own time is up.
const explainTime = 10 * time.Second

// mostReturns is how often an Application may come back after it was deleted, as one does whose Application above it was
// just syncing.
const mostReturns = 3

// root deletes the root Application, and below it those that only bring others, without what they brought: first every one
// of them is marked, so that it is known whose it is when nothing above it is left. One that brings other things too stays
// until those below it are gone, and only no longer syncs.
func (r *remover) root(ctx context.Context) error {
	for {
		t, err := r.tree(ctx)
		if err != nil {
			return err
		}
		if t.root != nil {
			// It may have changed while the steps before took their time.
			if problems := r.refusals(t); len(problems) > 0 {
				return join(problems)
			}
		}
		for _, one := range t.members {
			if err := r.mark(ctx, t, one); err != nil {
				return err
			}
		}
		uppermost := t.bringers()
		if len(uppermost) == 0 {
			return nil
		}
		var gone []*Application
		for _, one := range uppermost {
			if one.nested && !one.pure {
				if err := r.pause(ctx, one); err != nil {
					return err
				}
				continue
			}
			if err := r.deleteAlone(ctx, one); err != nil {
				return err
			}
			gone = append(gone, one)
		}
		if len(gone) > 0 {
			if err := r.awaitGone(ctx, "what only brings Applications", gone); err != nil {
				return err
			}
		}
	}
}

// bringers are the Applications that still bring others, nearest to the root: the root itself while it is there.
func (t *tree) bringers() []*Application {
	if t.root != nil {
		return []*Application{t.root}
	}
	var bringers []*Application
	for _, one := range t.members {
		if one.pure || one.nested && syncs(one.Live) {
			bringers = append(bringers, one)
		}
	}
	if len(bringers) == 0 {
		return nil
	}
	depth := len(slices.MinFunc(bringers, func(a, b *Application) int { return len(a.path) - len(b.path) }).path)
	return slices.DeleteFunc(bringers, func(one *Application) bool { return len(one.path) > depth })
}

// syncs tells whether an Application brings back by itself what is deleted.
func syncs(live *unstructured.Unstructured) bool {
	automated, found, _ := unstructured.NestedFieldNoCopy(live.Object, "spec", "syncPolicy", "automated")
	return found && automated != nil && live.GetDeletionTimestamp() == nil
}

// mark writes on an Application that the removal has it, and frees it of owners that are about to go.
func (r *remover) mark(ctx context.Context, t tree, one *Application) error {
	return r.change(ctx, one, func(live *unstructured.Unstructured) map[string]any {
		metadata, annotations := map[string]any{}, live.GetAnnotations()
		if annotations[AnnotationRemoval] != r.spec.Name || annotations[annotationRemovalPath] == "" {
			metadata["annotations"] = map[string]any{AnnotationRemoval: r.spec.Name, annotationRemovalPath: waveOf(one.path)}
		}
		owners := slices.DeleteFunc(live.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
			return slices.ContainsFunc(t.andRoot(), func(above *Application) bool { return above.UID == owner.UID })
		})
		if len(owners) < len(live.GetOwnerReferences()) {
			// The cluster would collect it with its owner.
			metadata["ownerReferences"] = owners
		}
		return metadata
	}, nil)
}

// pause has an Application bring nothing back any more.
func (r *remover) pause(ctx context.Context, one *Application) error {
	r.management().Progress(ctx, kube.Describe(one.Live), "stop syncing", "it stays until those below it are gone, because it brings other things too")
	return r.change(ctx, one, nil, func(live *unstructured.Unstructured) map[string]any {
		if !syncs(live) {
			return nil
		}
		return map[string]any{"syncPolicy": map[string]any{"automated": nil}}
	})
}

// deleteAlone deletes an Application without what it manages.
func (r *remover) deleteAlone(ctx context.Context, one *Application) error {
	r.management().Progress(ctx, kube.Describe(one.Live), "delete", "what it brought stays")
	err := r.setFinalizers(ctx, one, func(finalizers []string) []string { return slices.DeleteFunc(finalizers, isCascade) })
	if err != nil {
		return err
	}
	return r.management().Delete(ctx, Applications, one.Namespace, one.Name, one.UID)
}

// deleteCascading deletes an Application with what it deployed.
func (r *remover) deleteCascading(ctx context.Context, one *Application) error {
	r.management().Progress(ctx, kube.Describe(one.Live), "delete", "with what it deployed")
	if one.Live.GetDeletionTimestamp() == nil {
		// None can be added once it is being deleted.
		err := r.setFinalizers(ctx, one, func(finalizers []string) []string {
			if slices.ContainsFunc(finalizers, isCascade) {
				return finalizers
			}
			return append(finalizers, FinalizerCascade)
		})
		if err != nil {
			return err
		}
	}
	return r.management().Delete(ctx, Applications, one.Namespace, one.Name, one.UID)
}

// orphan deletes an Application without Argo CD's doing anything, and records what it may leave.
func (r *remover) orphan(ctx context.Context, one *Application) error {
	r.management().Progress(ctx, kube.Describe(one.Live), "forget", "what it deployed may stay")
	if err := r.record(ctx, one.remains()); err != nil {
		return err
	}
	err := r.setFinalizers(ctx, one, func(finalizers []string) []string { return slices.DeleteFunc(finalizers, isOfArgoCD) })
	if err != nil {
		return err
	}
	return r.management().Delete(ctx, Applications, one.Namespace, one.Name, one.UID)
}

func (r *remover) setFinalizers(ctx context.Context, one *Application, set func([]string) []string) error {
	return r.change(ctx, one, func(live *unstructured.Unstructured) map[string]any {
		have := live.GetFinalizers()
		finalizers := set(slices.Clone(have))
		if slices.Equal(have, finalizers) {
			return nil
		}
		return map[string]any{"finalizers": finalizers}
	}, nil)
}

// change patches metadata and spec of an Application as it is now, as often as somebody else was quicker. One that is gone,
// or was made anew, is left alone; a change of nothing is no write.
func (r *remover) change(ctx context.Context, one *Application, metadata, spec func(*unstructured.Unstructured) map[string]any) error {
	live := one.Live
	var err error
	for range mostTries {
		if live == nil || live.GetUID() != one.UID {
			return nil
		}
		patch, changes := map[string]any{}, map[string]any{}
		if metadata != nil {
			changes = metadata(live)
		}
		if spec != nil {
			if fields := spec(live); len(fields) > 0 {
				patch["spec"] = fields
			}
		}
		if len(changes)+len(patch) == 0 {
			one.Live = live
			return nil
		}
		if changes == nil {
			changes = map[string]any{}
		}
		changes["uid"], changes["resourceVersion"] = string(live.GetUID()), live.GetResourceVersion()
		patch["metadata"] = changes
		var body []byte
		if body, err = (&unstructured.Unstructured{Object: patch}).MarshalJSON(); err != nil {
			return err
		}
		var changed *unstructured.Unstructured
		changed, err = r.management().MergePatch(ctx, Applications, one.Namespace, one.Name, body, kube.FieldManager)
		switch {
		case err == nil:
			one.Live = changed
			return nil
		case apierrors.IsNotFound(err):
			return nil
		case !apierrors.IsConflict(err):
			return err
		}
		if live, err = r.management().Fetch(ctx, Applications, one.Namespace, one.Name); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s changes faster than it can be written: %w", kube.Describe(one.Live), err)
}

// takeDown deletes what belongs to the cluster with what it deployed, wave by wave from the highest down, and waits for each
// wave: all but the controllers, or the controllers too. It looks afresh before each wave, so what came late goes as well.
func (r *remover) takeDown(ctx context.Context, controllers bool) error {
	returns := map[string]int{}
	deleted := map[string]types.UID{}
	for {
		t, err := r.tree(ctx)
		if err != nil {
			return err
		}
		if problem := r.checkEnvironments(t); problem != nil {
			return problem
		}
		group := t.next(controllers)
		if len(group) == 0 {
			return nil
		}
		known, err := r.destinations(ctx)
		if err != nil {
			return err
		}
		for _, one := range group {
			if uid, before := deleted[one.String()]; before && uid != one.UID {
				if returns[one.String()]++; returns[one.String()] >= mostReturns {
					return r.comesBack(one)
				}
			}
			if err := r.takeDownOne(ctx, one, known); err != nil {
				return err
			}
			deleted[one.String()] = one.UID
		}
		if err := r.awaitGone(ctx, "Applications of wave "+waveOf(group[0].path), group); err != nil {
			return err
		}
	}
}

// next is the wave that is taken down next; empty when all are gone.
func (t *tree) next(controllers bool) []*Application {
	all := groups(t.members)
	if len(all) == 0 || all[0][0].last && !controllers {
		return nil
	}
	return all[0]
}

// takeDownOne deletes one Application. Where Argo CD can't delete what it deployed, because it does not know the cluster or
// the cluster does not answer, it would orphan that or wait for ever: then only a forced removal goes on.
func (r *remover) takeDownOne(ctx context.Context, one *Application, known destinations) error {
	switch {
	case r.clusters.Unreachable != nil && one.deploysTo(r.spec.Name, r.server):
		return r.orphan(ctx, one) // without "applications" in force_steps it did not come to this
	case known.has(*one):
		return r.deleteCascading(ctx, one)
	case r.removal.forces(StepApplications):
		return r.orphan(ctx, one)
	}
	return &cluster.Problem{
		Attribute: "force_steps", Summary: fmt.Sprintf("Application %s deploys to a cluster that Argo CD does not know", one),
		Detail: fmt.Sprintf("Its destination is %s, for which there is no Secret in namespace %s on %s. Argo CD would drop it and leave what it deployed: %s. "+
			"Register that cluster again, or delete the Application by hand.", one.destination(), r.spec.Namespace, r.management().Context(), one.remains()),
	}
}

func (r *remover) comesBack(one *Application) error {
	keepers := kube.Keepers(one.Live)
	by := "Nothing on it says by whom"
	if len(keepers) > 0 {
		by = "It is kept by " + strings.Join(keepers, ", ")
	}
	return &cluster.Problem{
		Summary: fmt.Sprintf("Application %s comes back as often as it is deleted", one),
		Detail:  fmt.Sprintf("It was deleted %d times on %s, and each time there was another of its name. %s: take it out there.", mostReturns, r.management().Context(), by),
	}
}

// destinations are the clusters that Argo CD knows.
type destinations struct{ names, servers []string }

func (r *remover) destinations(ctx context.Context) (destinations, error) {
	secrets, err := r.management().Select(ctx, cluster.Secrets, r.spec.Namespace, clusterSelector, "")
	var known destinations
	for _, secret := range secrets {
		if secret.GetDeletionTimestamp() == nil {
			known.names = append(known.names, secretField(secret, "name"))
			known.servers = append(known.servers, secretField(secret, "server"))
		}
	}
	return known, err
}

func (d destinations) has(one Application) bool {
	if one.home() || slices.Contains(d.names, one.DestinationName) && one.DestinationName != "" {
		return true
	}
	return one.DestinationName == "" && one.DestinationServer != "" && slices.ContainsFunc(d.servers, func(server string) bool { return cluster.SameServer(server, one.DestinationServer) })
}

// abandon has what is left go without what it deployed, after recording what that is.
func (r *remover) abandon(ctx context.Context, controllers bool) error {
	t, err := r.tree(ctx)
	if err != nil {
		return err
	}
	if problem := r.checkEnvironments(t); problem != nil {
		return problem
	}
	var left []*Application
	for _, one := range t.members {
		if !one.last || controllers {
			left = append(left, one)
		}
	}
	for _, one := range left {
		if err := r.orphan(ctx, one); err != nil {
			return err
		}
	}
	if len(left) == 0 {
		return nil
	}
	return r.awaitGone(ctx, "Applications without Argo CD's finalizers", left)
}

// explained adds to the error of a wait what Argo CD says of the Applications that are still there.
func (r *remover) explained(ctx context.Context, err error, all []*Application) error {
	problem, ok := asProblem(err)
	if !ok {
		return err
	}
	again, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTime)
	defer cancel()
	var lines []string
	for _, one := range all {
		live, err := r.management().Fetch(again, Applications, one.Namespace, one.Name)
		if err == nil && live != nil && live.GetUID() == one.UID {
			lines = append(lines, readApplication(live).heldUp()...)
		}
	}
	if len(lines) == 0 {
		return err
	}
	if more := len(lines) - mostNamed; more > 0 {
		lines = append(lines[:mostNamed], fmt.Sprintf("and %d more lines", more))
	}
	return &cluster.Problem{
		Attribute: problem.Attribute, Summary: problem.Summary, Err: problem.Err,
		Detail: problem.Detail + "\nWhat Argo CD says:\n" + strings.Join(lines, "\n"),
	}
}

// heldUp says in Argo CD's words why an Application that is being deleted is still there.
func (a Application) heldUp() []string {
	var reasons []string
	conditions, _, _ := unstructured.NestedSlice(a.Live.Object, "status", "conditions")
	for _, entry := range conditions {
		if fields, ok := entry.(map[string]any); ok {
			reasons = append(reasons, fmt.Sprintf("%v: %v", fields["type"], fields["message"]))
		}
	}
	if strings.EqualFold(a.Live.GetAnnotations()[annotationSkipReconcile], "true") {
		reasons = append(reasons, "the annotation "+annotationSkipReconcile+" has Argo CD leave it alone, its deletion included: take it off")
	}
	for _, resource := range a.Resources {
		if resource.Confirm {
			reasons = append(reasons, resource.String()+" is deleted only when somebody confirms it (Delete=confirm): set the annotation argocd.argoproj.io/deletion-approved of the Application to the time of now in RFC 3339")
		}
	}
	if len(reasons) == 0 {
		reasons = append(reasons, "nothing yet; the log of its application controller may tell")
	}
	lines := make([]string, len(reasons))
	for i, reason := range reasons {
		lines[i] = fmt.Sprintf("  %s: %s", a, reason)
	}
	return lines
}
