package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// gone is the drift of an object that somebody deleted.
const gone = "missing → present"

// settlement is an object as it may be compared and written: what others have rightly taken is as they have it.
type settlement struct {
	wanted *unstructured.Unstructured
	extra  []kube.ExtraField
	remove bool
}

// settle finds out which fields of a live object are the release's to decide.
func (w Watch) settle(one object, live *unstructured.Unstructured, ref Ref) settlement {
	pointers := w.pointers(one)
	yielded := object{Unstructured: kube.Yield(one.Unstructured, live, kube.FieldManager, pointers), kind: one.kind}
	// Nobody takes the marks by which Helm knows its own.
	result := settlement{wanted: owned(yielded, ref).Unstructured, remove: w.ExtraFields == ExtraRemove}
	if w.ExtraFields != ExtraIgnore {
		result.extra = kube.Extra(one.Unstructured, live, kube.FieldManager, pointers)
	}
	return result
}

func (k *client) settle(one object, live *unstructured.Unstructured) settlement {
	return k.watch.settle(one, live, k.ref)
}

// from is the manifest from which a three-way merge starts: with the extra fields in it where they shall go.
func (s settlement) from(original, live *unstructured.Unstructured) *unstructured.Unstructured {
	if !s.remove || len(s.extra) == 0 {
		return original
	}
	return kube.WithExtra(original, live, s.extra)
}

// pointers are the JSON pointers to ignore in an object.
func (w Watch) pointers(one object) []string {
	var pointers []string
	for _, ignore := range w.IgnoreDrift {
		if !ignore.matches(one) {
			continue
		}
		if len(ignore.Paths) == 0 {
			return []string{""}
		}
		pointers = append(pointers, ignore.Paths...)
	}
	return pointers
}

func (i Ignore) matches(one object) bool {
	return (i.Kind == "" || i.Kind == one.GetKind()) && (i.Namespace == "" || i.Namespace == one.GetNamespace()) && (i.Name == "" || i.Name == one.GetName())
}

// exempt tells whether an object's drift does not count at all.
func (w Watch) exempt(one object, live *unstructured.Unstructured) bool {
	return one.GetAnnotations()[annotationIgnore] == "true" || live != nil && live.GetAnnotations()[annotationIgnore] == "true" ||
		slices.Contains(w.pointers(one), "")
}

// findings are what a look at the objects of a release found.
type findings struct {
	drift   map[string]string
	extra   []string
	settled map[string]string
	ready   Condition
	// drifted are the objects that a repair writes.
	drifted []object
}

// look compares the objects of a release with the cluster. Locally first, with the lists that all releases share; only an
// object that seems to differ is put to the API server as a dry run of the patch that would repair it, which settles
// defaults and quantities. What it says is remembered, so that it is asked once.
func (w Watch) look(ctx context.Context, c *cluster.Cluster, ref Ref, objects []object, hidden hider) (findings, error) {
	found := findings{drift: map[string]string{}, settled: map[string]string{}, ready: Condition{Status: "True", Reason: "Ready", Message: "Every object of the release is ready."}}
	var unready []string
	for _, one := range objects {
		live, err := c.LiveBy(ctx, one.kind, one.GetNamespace(), one.GetName(), helmSelector)
		if err != nil && !apierrors.IsNotFound(err) {
			return findings{}, err
		}
		if live == nil || live.GetDeletionTimestamp() != nil {
			if !w.exempt(one, nil) && !expires(one) {
				unready = append(unready, one.key()+": it is missing")
				found.drift[one.key()] = gone
				found.drifted = append(found.drifted, one)
			}
			continue
		}
		if readiness := kube.Ready(live); !readiness.Ready && kube.HasRule(one.kind) {
			unready = append(unready, one.key()+": "+readiness.Reason)
		}
		if w.exempt(one, live) {
			continue
		}
		if err := w.lookAt(ctx, c, ref, owned(one, ref), live, hidden, &found); err != nil {
			return findings{}, err
		}
	}
	if len(unready) > 0 {
		slices.Sort(unready)
		found.ready = Condition{Status: "False", Reason: "NotReady", Message: strings.Join(firstOf(unready, 5), "; ")}
	}
	slices.Sort(found.extra)
	return found, nil
}

func (w Watch) lookAt(ctx context.Context, c *cluster.Cluster, ref Ref, one object, live *unstructured.Unstructured, hidden hider, found *findings) error {
	settled := w.settle(one, live, ref)
	for _, field := range settled.extra {
		if !settled.remove {
			found.extra = append(found.extra, fmt.Sprintf("%s %s (by %s): %s", one.key(), field.Path, field.Manager, hidden.text(field.Value)))
		}
	}
	if len(kube.Compare(settled.wanted, live)) == 0 && (!settled.remove || len(settled.extra) == 0) {
		return nil
	}
	form, patch, err := threeWay(settled.from(settled.wanted, live), settled.wanted, live)
	if err != nil || patch == nil {
		return err
	}
	sum := sha256.Sum256(append([]byte(live.GetUID()), patch...))
	digest := hex.EncodeToString(sum[:8])
	if w.Settled[one.key()] == digest {
		found.settled[one.key()] = digest
		return nil
	}
	after, err := c.Patch(ctx, one.kind, one.GetNamespace(), one.GetName(), form, patch, kube.FieldManager, true)
	var differences []kube.Difference
	switch {
	case cluster.Unreachable(err) || ctx.Err() != nil:
		return err
	case err != nil:
		// The API server refuses what is wanted (a field that cannot change, no permission to write): what was seen is
		// shown as it is.
		differences = kube.Compare(settled.wanted, live)
	default:
		differences = kube.Diff(live, after)
	}
	if len(differences) == 0 {
		found.settled[one.key()] = digest
		return nil
	}
	for _, difference := range differences {
		found.drift[one.key()+" "+difference.Path] = hidden.text(difference.Found) + " → " + hidden.text(difference.Wanted)
	}
	found.drifted = append(found.drifted, one)
	return nil
}

// expires tells whether the cluster deletes an object by itself in the course of things: a Job that has a time to live.
func expires(one object) bool {
	_, found, _ := unstructured.NestedFieldNoCopy(one.Object, "spec", "ttlSecondsAfterFinished")
	return one.GetKind() == "Job" && found
}

// firstOf is the first of some lines, and how many more there are.
func firstOf(lines []string, most int) []string {
	if len(lines) <= most {
		return lines
	}
	return append(slices.Clone(lines[:most]), fmt.Sprintf("and %d more", len(lines)-most))
}
