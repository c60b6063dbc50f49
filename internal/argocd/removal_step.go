package argocd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// annotationRemovalLeft keeps what forced steps may leave behind, so that it is told even when the call that forced them
// does not live to tell it.
const annotationRemovalLeft = "berth.dev/removal-left"

const (
	// moveOnTime is what moving on from a stuck step may take.
	moveOnTime = time.Minute
	// mostKept bounds what annotationRemovalLeft holds: an object's annotations end at 256 KiB.
	mostKept = 128 << 10
)

// hopeless is an error that no waiting would change, so that a forced step is moved on from at once.
type hopeless struct{ *cluster.Problem }

func (h *hopeless) Unwrap() error { return h.Problem }

// take takes one step.
func (r *remover) take(ctx context.Context, steps []step, i int) error {
	one := steps[i]
	r.management().Progress(ctx, "Cluster/"+r.spec.Name, "remove: "+one.name, "")
	if err := r.note(ctx, one.name); err != nil {
		return r.stuck(ctx, ctx, steps, i, err)
	}
	limited, cancel := context.WithTimeout(ctx, r.removal.StepTimeout)
	defer cancel()
	err := one.run(limited)
	_, pointless := errors.AsType[*hopeless](err)
	if err != nil && one.abandon != nil && r.removal.forces(one.name) && ctx.Err() == nil && (pointless || limited.Err() != nil) {
		r.management().Progress(ctx, "Cluster/"+r.spec.Name, "remove: "+one.name, "moving on, because force_steps names it: "+err.Error())
		more, cancel := context.WithTimeout(ctx, min(moveOnTime, r.removal.StepTimeout))
		defer cancel()
		limited, err = more, one.abandon(more)
	}
	if err != nil {
		return r.stuck(ctx, limited, steps, i, err)
	}
	return nil
}

// stuck is the error of a step: what it waited for, what has not been touched, and the way on.
func (r *remover) stuck(ctx, limited context.Context, steps []step, i int, err error) error {
	one, how := steps[i], "failed"
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		how = "was interrupted"
	case ctx.Err() != nil:
		how = "ran out of time"
	case limited.Err() != nil:
		how = "is stuck"
	}
	why := err.Error()
	if problem, ok := asProblem(err); ok {
		why = problem.Summary + ".\n" + problem.Detail
	}
	lines := []string{why}
	var rest []string
	for _, later := range steps[i+1:] {
		rest = append(rest, later.name)
	}
	if len(rest) > 0 {
		lines = append(lines, fmt.Sprintf("Nothing else was taken down; after this step come %s.", strings.Join(rest, ", ")))
	}
	switch _, pointless := errors.AsType[*hopeless](err); {
	case ctx.Err() != nil:
		lines = append(lines, "Destroy again: it goes on from this step. The whole destroy may take what timeouts.delete says.")
	case one.abandon == nil || r.removal.forces(one.name) || !pointless && limited.Err() == nil:
		lines = append(lines, "Mend this and destroy again: it goes on from this step.")
	default:
		lines = append(lines, fmt.Sprintf("Mend this and destroy again: it goes on from this step; removal.step_timeout gives it more time than %s. "+
			"Or set force_steps = [%q], apply that, which changes the state alone, and destroy again: the step is then moved on from when its time is up. In that case %s.",
			r.removal.StepTimeout, forcedBy(one.name), one.leaves))
	}
	return &cluster.Problem{
		Summary: fmt.Sprintf("Removing cluster %q %s at the step %q", r.spec.Name, how, one.name),
		Detail:  strings.Join(lines, "\n"), Err: err,
	}
}

// open reads when the removal began, how far it got and what it has left so far, from where an earlier call wrote it.
func (r *remover) open(t tree) {
	r.started = time.Now().UTC().Truncate(time.Second)
	places := []*unstructured.Unstructured{r.secret}
	for _, one := range t.andRoot() {
		places = append(places, one.Live)
	}
	for _, place := range places {
		if place == nil {
			continue
		}
		annotations := place.GetAnnotations()
		begun, err := time.Parse(time.RFC3339, annotations[AnnotationRemovalStarted])
		if err != nil {
			continue
		}
		r.started, r.reached = begun.UTC(), annotations[AnnotationRemovalStep]
		// What is no list was not written by us, and tells nothing.
		_ = json.Unmarshal([]byte(annotations[annotationRemovalLeft]), &r.left)
		return
	}
}

// note writes the step that begins on the cluster: on its Secret, or where there is none on the root Application, or on the
// Application that goes last. With all of them gone there is nothing left to go on with either.
func (r *remover) note(ctx context.Context, step string) error {
	if r.behind(step) {
		return nil // what is only looked at once more
	}
	return r.write(ctx, map[string]any{AnnotationRemovalStep: step, AnnotationRemovalStarted: r.started.Format(time.RFC3339)})
}

// record notes what a forced step may leave behind, before it does.
func (r *remover) record(ctx context.Context, lines ...string) error {
	if len(lines) == 0 {
		return nil
	}
	for _, line := range lines {
		if !slices.Contains(r.left, line) {
			r.left = append(r.left, line)
		}
	}
	kept := r.left
	for {
		text, err := json.Marshal(kept)
		if err != nil {
			return err
		}
		if len(text) <= mostKept {
			return r.write(ctx, map[string]any{annotationRemovalLeft: string(text)})
		}
		kept = kept[:len(kept)/2]
	}
}

// write writes annotations to the place where the removal is noted.
func (r *remover) write(ctx context.Context, annotations map[string]any) error {
	kind, object, err := r.journal(ctx)
	if err != nil || object == nil {
		return err
	}
	err = r.annotate(cluster.Unrecorded(ctx), kind, object, annotations)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it went in this moment
	}
	return err
}

// journal is the object on which the removal is noted; nil when there is none.
func (r *remover) journal(ctx context.Context) (cluster.Kind, *unstructured.Unstructured, error) {
	if !r.spec.InCluster {
		secret, err := r.management().Fetch(ctx, cluster.Secrets, r.spec.Namespace, r.spec.SecretName)
		if err != nil || secret != nil {
			return cluster.Secrets, secret, err
		}
	}
	t, err := r.tree(ctx)
	if err != nil || len(t.andRoot()) == 0 {
		return Applications, nil, err
	}
	if t.root != nil {
		return Applications, t.root.Live, nil
	}
	return Applications, t.members[len(t.members)-1].Live, nil
}

// annotate sets annotations of an object, or takes those away that are nil. One that was deleted and made anew is left
// alone: the error satisfies apierrors.IsConflict.
func (r *remover) annotate(ctx context.Context, kind cluster.Kind, live *unstructured.Unstructured, annotations map[string]any) error {
	patch := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"uid": string(live.GetUID()), "annotations": annotations}}}
	body, err := patch.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = r.management().MergePatch(ctx, kind, live.GetNamespace(), live.GetName(), body, kube.FieldManager)
	return err
}

// told are the warnings, with the one that lists what forced steps may have left (I94).
func (r *remover) told() []Warning {
	if len(r.left) == 0 {
		return r.warnings
	}
	return append(r.warnings, Warning{
		Summary: fmt.Sprintf("%d thing(s) of cluster %q may be left behind", len(r.left), r.spec.Name),
		Detail: "Steps were forced, so nothing made sure that these went. Look for each by its identifier, and delete it by hand:\n" +
			strings.Join(r.left, "\n"),
	})
}

// removalAnnotations are what a removal writes on objects that it does not delete at once.
var removalAnnotations = []string{AnnotationRemoval, annotationRemovalPath, AnnotationRemovalStep, AnnotationRemovalStarted, annotationRemovalLeft}

// forgetRemoval takes the marks of a removal that was begun and given up off the registration and its Applications.
func forgetRemoval(ctx context.Context, clusters Clusters, spec Spec) error {
	r := newRemover(clusters, spec, Removal{})
	t, err := r.look(ctx)
	if err != nil {
		return err
	}
	return r.unmark(ctx, t)
}

func (r *remover) unmark(ctx context.Context, t tree) error {
	if r.secret != nil {
		if err := r.clean(ctx, cluster.Secrets, r.secret); err != nil {
			return err
		}
	}
	for _, one := range slices.Concat(t.andRoot(), t.others) {
		belongs := one == t.root || slices.Contains(t.members, one)
		if mark := one.Live.GetAnnotations()[AnnotationRemoval]; mark != r.spec.Name && (mark != "" || !belongs) {
			continue // nothing of this cluster's removal
		}
		if err := r.clean(ctx, Applications, one.Live); err != nil {
			return err
		}
	}
	return nil
}

func (r *remover) clean(ctx context.Context, kind cluster.Kind, live *unstructured.Unstructured) error {
	off := map[string]any{}
	for _, key := range removalAnnotations {
		if _, has := live.GetAnnotations()[key]; has {
			off[key] = nil
		}
	}
	if len(off) == 0 {
		return nil
	}
	err := r.annotate(ctx, kind, live, off)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
