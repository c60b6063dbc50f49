package enroll

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// How something guarded is when it is recorded.
const (
	// GuardRunning is a Job or JobSet that is not suspended, or a Workload that is admitted.
	GuardRunning = "Running"
	// GuardWaiting is what has not begun, or waits to go on.
	GuardWaiting = "Waiting"
)

// mostGuarded bounds how many objects an error lists.
const mostGuarded = 50

// lastWord is how long the last events of a job that is gone are waited for: they are sent after the fact.
const lastWord = 5 * time.Second

// Guarded is a job that berth found on a worker and that has to be there and to run as before when berth is done (K37).
type Guarded struct {
	Kind, Namespace, Name, UID string
	// State is GuardRunning or GuardWaiting.
	State string
	// Since is when the one that runs was started, as far as its kind tells: one that was stopped meanwhile and runs again
	// has lost what its pods did.
	Since string
	// Owners are the UIDs of the objects that it belongs to.
	Owners []string
}

// Describe names the object as messages do.
func (g Guarded) Describe() string { return kube.Name(g.Kind, g.Namespace, g.Name) }

// guardedKinds are the kinds that are guarded, owners first.
var guardedKinds = []cluster.Kind{JobSets, Jobs, Workloads}

// Snapshot records the active JobSets, Jobs and Workloads of some namespaces, past everything that is known of them
// (K37). What does not run and has an owner is left out, since the owner may make it anew at any time; so is a copy that a
// hub has not chosen yet, which goes as soon as another worker is.
func Snapshot(ctx context.Context, c *cluster.Cluster, namespaces []string) ([]Guarded, error) {
	namespaces = slices.Clone(namespaces)
	slices.Sort(namespaces)
	var all []Guarded
	for _, namespace := range slices.Compact(namespaces) {
		for _, kind := range guardedKinds {
			objects, err := listServed(ctx, c, kind, namespace)
			if err != nil {
				return nil, err
			}
			for _, object := range objects {
				if one, active := guard(kind, object); active {
					all = append(all, one)
				}
			}
		}
	}
	return all, nil
}

// guard records an object; it is not active when nothing would be lost with it.
func guard(kind cluster.Kind, object *unstructured.Unstructured) (one Guarded, active bool) {
	now := standingOf(kind, object)
	one = Guarded{
		Kind: kind.Kind, Namespace: object.GetNamespace(), Name: object.GetName(), UID: string(object.GetUID()),
		State: GuardWaiting, Since: now.since,
	}
	for _, owner := range object.GetOwnerReferences() {
		one.Owners = append(one.Owners, string(owner.UID))
	}
	if now.ended || object.GetDeletionTimestamp() != nil {
		return one, false
	}
	copied := object.GetLabels()[LabelOrigin] != ""
	if !now.running {
		return one, len(one.Owners) == 0 && !copied
	}
	one.State = GuardRunning
	// A hub has chosen a worker when it has made the job there, which the copy of the Workload then belongs to.
	return one, kind != Workloads || !copied || len(one.Owners) > 0
}

// listServed lists a kind in a namespace, in the version that the API server prefers: a worker's Kueue may be older than
// v1beta2. Nothing is there where the kind is not served.
func listServed(ctx context.Context, c *cluster.Cluster, kind cluster.Kind, namespace string) ([]*unstructured.Unstructured, error) {
	for range 2 {
		served, err := c.KindOf(ctx, schema.GroupVersionKind{Group: kind.Group, Kind: kind.Kind})
		if meta.IsNoMatchError(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		objects, err := c.Select(ctx, served, namespace, "", "")
		if !apierrors.IsNotFound(err) {
			return objects, err
		}
		// An upgrade has taken the version away.
		c.Forget()
	}
	return nil, nil
}

// standing is how a job is at the moment.
type standing struct {
	running, ended bool
	// well is set for one that ended as it should.
	well  bool
	since string
	// why is the reason of one that neither runs nor has ended well.
	why string
}

// standingOf judges an object by the conditions of its kind.
func standingOf(kind cluster.Kind, object *unstructured.Unstructured) standing {
	if kind == Workloads {
		return workloadStanding(object)
	}
	// Source: the conditions of batch/v1 and of JobSet v1alpha2.
	completed := "Complete"
	if kind == JobSets {
		completed = "Completed"
	}
	if is(object, completed) {
		return standing{ended: true, well: true}
	}
	if failed, _ := conditionOf(object, "Failed"); failed.Status == "True" {
		return standing{ended: true, why: "it has failed" + because(failed)}
	}
	if suspended, _, _ := unstructured.NestedBool(object.Object, "spec", "suspend"); suspended {
		return standing{why: "it is suspended"}
	}
	// A JobSet has no such time; the Jobs that it consists of do.
	since, _, _ := unstructured.NestedString(object.Object, "status", "startTime")
	return standing{running: true, since: since}
}

// workloadStanding judges a Workload. Source: the conditions of Kueue 0.15 to 0.17 and their reasons.
func workloadStanding(object *unstructured.Unstructured) standing {
	if finished, _ := conditionOf(object, "Finished"); finished.Status == "True" {
		switch finished.Reason {
		case "Failed", "OutOfSync", "FailedToStart":
			return standing{ended: true, why: "it has not finished well" + because(finished)}
		}
		return standing{ended: true, well: true}
	}
	if is(object, "Admitted") {
		return standing{running: true, since: transition(object, "Admitted")}
	}
	for _, kind := range []string{"Evicted", "Admitted", "QuotaReserved"} {
		if found, ok := conditionOf(object, kind); ok && (found.Status == "True") == (kind == "Evicted") {
			return standing{why: fmt.Sprintf("it is not admitted: %s is %s%s", kind, found.Status, because(found))}
		}
	}
	return standing{why: "it is not admitted"}
}

// because is what a condition says, to follow what it is about.
func because(condition Condition) string {
	said := []string{""}
	for _, part := range []string{condition.Reason, condition.Message} {
		if part != "" {
			said = append(said, part)
		}
	}
	return strings.Join(said, ": ")
}

// transition is when a condition became what it is.
func transition(object *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		if one, _ := item.(map[string]any); one["type"] == kind {
			when, _ := one["lastTransitionTime"].(string)
			return when
		}
	}
	return ""
}

// Verify makes sure that everything that was recorded is there with the same UID, runs as it did, or has ended well (K39,
// K46). What is gone has ended well when its last events, or its owner, say so. The error is a *cluster.Problem that lists
// the others; the caller stops upon it, so that no further step does more harm.
func Verify(ctx context.Context, c *cluster.Cluster, before []Guarded) error {
	lost, err := lostOf(ctx, c, before)
	if err != nil || len(lost) == 0 {
		return err
	}
	c.Progress(ctx, fmt.Sprintf("%d running jobs", len(lost)), "look at them once more", lost[0])
	select {
	case <-ctx.Done():
	case <-time.After(lastWord):
		if lost, err = lostOf(ctx, c, before); err != nil || len(lost) == 0 {
			return err
		}
	}
	count := len(lost)
	if count > mostGuarded {
		lost = append(lost[:mostGuarded], fmt.Sprintf("and %d more", count-mostGuarded))
	}
	return &cluster.Problem{
		Summary: fmt.Sprintf("%d of %d jobs on cluster %q are not as they were", count, len(before), c.Name()),
		Detail: fmt.Sprintf("stopped: on %s these were active before berth's first step and neither go on as they did nor have ended well:\n  %s\nWhat was applied so far stays, and nothing more was applied. Look at each of them. Where its own user has ended it, or when it is mended, apply again: it goes on from here.",
			c.Context(), strings.Join(lost, "\n  ")),
	}
}

// lostOf tells of everything recorded that is not as it has to be what is the matter.
func lostOf(ctx context.Context, c *cluster.Cluster, before []Guarded) ([]string, error) {
	now, err := observeGuarded(ctx, c, before)
	if err != nil {
		return nil, err
	}
	words, err := now.words(ctx, c, before)
	if err != nil {
		return nil, err
	}
	var lost []string
	for _, one := range before {
		if trouble := now.trouble(one, words); trouble != "" {
			lost = append(lost, fmt.Sprintf("%s (UID %s, was %s): %s", one.Describe(), one.UID, one.State, trouble))
		}
	}
	return lost, nil
}

// observed is what is there now.
type observed struct {
	byUID map[string]standing
	// leaving are the UIDs of what is being deleted.
	leaving map[string]bool
	// named are the UIDs by the names of the objects.
	named map[string]string
}

// observeGuarded looks at each kind once in each namespace of what was recorded.
func observeGuarded(ctx context.Context, c *cluster.Cluster, before []Guarded) (*observed, error) {
	now := &observed{byUID: map[string]standing{}, leaving: map[string]bool{}, named: map[string]string{}}
	for _, kind := range guardedKinds {
		for _, namespace := range namespacesOf(before, func(one Guarded) bool { return one.Kind == kind.Kind }) {
			objects, err := listServed(ctx, c, kind, namespace)
			if err != nil {
				return nil, err
			}
			for _, object := range objects {
				uid := string(object.GetUID())
				now.byUID[uid] = standingOf(kind, object)
				now.leaving[uid] = object.GetDeletionTimestamp() != nil
				now.named[kube.Name(kind.Kind, namespace, object.GetName())] = uid
			}
		}
	}
	return now, nil
}

func namespacesOf(all []Guarded, which func(Guarded) bool) []string {
	var namespaces []string
	for _, one := range all {
		if which(one) && !slices.Contains(namespaces, one.Namespace) {
			namespaces = append(namespaces, one.Namespace)
		}
	}
	slices.Sort(namespaces)
	return namespaces
}

// endings are the reasons of the events by which controllers say that a job has ended, and whether they say that it ended
// well. Source: Kubernetes' Job controller, JobSet's constants, and Kueue's job reconciler, which says the last one of jobs
// of every kind, of those that failed as well.
var endings = map[string]bool{"Completed": true, "AllJobsCompleted": true, "FinishedWorkload": false}

// words are the UIDs of jobs that have ended by their last events: true for those that ended well. Only the namespaces are
// asked in which something is gone: a hub removes its copies as soon as they have finished, and a Job with
// ttlSecondsAfterFinished goes by itself.
func (o *observed) words(ctx context.Context, c *cluster.Cluster, before []Guarded) (map[string]bool, error) {
	words := map[string]bool{}
	gone := func(one Guarded) bool { _, there := o.byUID[one.UID]; return !there }
	for _, namespace := range namespacesOf(before, gone) {
		for reason, well := range endings {
			events, err := c.Select(ctx, cluster.Events, namespace, "", "reason="+reason)
			if err != nil && !apierrors.IsForbidden(err) {
				return nil, err
			}
			for _, event := range events {
				uid, _, _ := unstructured.NestedString(event.Object, "involvedObject", "uid")
				words[uid] = words[uid] || well
			}
		}
	}
	return words, nil
}

// trouble is what is the matter with something recorded; "" when it goes on, or has ended well.
func (o *observed) trouble(one Guarded, words map[string]bool) string {
	now, there := o.byUID[one.UID]
	switch {
	case !there:
		return o.missing(one, words)
	case now.ended && now.well:
		return ""
	case now.ended:
		return now.why
	case o.leaving[one.UID]:
		return "it is being deleted"
	case one.State != GuardRunning:
		return ""
	case !now.running:
		return "it was stopped: " + now.why
	case one.Since != "" && one.Since != now.since:
		return fmt.Sprintf("it was stopped and started again: it has run since %s, and ran since %s before", cmp.Or(now.since, "just now"), one.Since)
	}
	return ""
}

// missing is what is the matter with something that is gone.
func (o *observed) missing(one Guarded, words map[string]bool) string {
	if words[one.UID] {
		return ""
	}
	for _, owner := range one.Owners {
		// With a JobSet that has ended go the Jobs that it did not need any more, and with every job its Workload.
		_, told := words[owner]
		if o.byUID[owner].well || words[owner] || told && one.Kind == Workloads.Kind {
			return ""
		}
	}
	if other := o.named[one.Describe()]; other != "" {
		return fmt.Sprintf("it is gone, and another one has its name (UID %s)", other)
	}
	return "it is gone, and no event says that it had ended well"
}
