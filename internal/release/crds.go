package release

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// The verbs of a crdAction.
const (
	// crdCreate: there is none yet.
	crdCreate = "create"
	// crdUpdate: it is written as the chart has it, or just gets berth's marks.
	crdUpdate = "update"
	// crdNone: it is as it shall be, or the policy leaves it.
	crdNone = "none"
	// crdLeave: it is not this release's to write.
	crdLeave = "leave"
)

// crdAction is what will happen to one CRD, and why.
type crdAction struct {
	// object is the CRD as the chart has it; see chartCRDs.
	object *unstructured.Unstructured
	// verb is one of the constants above.
	verb string
	// keeper is who keeps it in place when it is left for that, in the words of kube.Keepers.
	keeper string
	// changes are what an update changes besides berth's marks.
	changes []kube.Difference

	// live is the CRD on the cluster, nil when there is none; wanted is what an update applies.
	live, wanted *unstructured.Unstructured
}

// judgeCRD tells what happens to a CRD of a release, from the one on the cluster (nil when there is none).
//
// What another owner keeps in place (kube.Keepers) is compared and never written; what carries the marks that Helm writes
// for this very release is the release's own, and what carries nobody's belongs to no one, as Helm leaves the CRDs of
// crds/ folders. All releases of one chart share these, so the CRD remembers from which chart and version it was last
// written: one that came from a higher version of the same chart is left, because older releases would take away what
// newer ones need.
//
// Under the policy upgrade everything in spec is taken; a label or an annotation that another manager holds by a
// server-side apply stays as that has it. The error is a *cluster.Problem for a CRD that is being deleted.
func judgeCRD(c *cluster.Cluster, crd, live *unstructured.Unstructured, policy CRDPolicy, ref Ref) (crdAction, []Warning, error) {
	action := crdAction{object: crd, live: live, verb: crdNone}
	switch {
	case policy == CRDsSkip:
		if live == nil && !c.Planned(crdKind, "", crd.GetName()) {
			return action, []Warning{skippedCRD(c, crd)}, nil
		}
		return action, nil, nil
	case live == nil:
		action.verb = crdCreate
		return action, nil, nil
	case live.GetDeletionTimestamp() != nil:
		return action, nil, deletedCRD(c, live)
	}
	if keepers := otherKeepers(live, ref); len(keepers) > 0 {
		action.verb, action.keeper = crdLeave, strings.Join(keepers, ", ")
		if lacks := lacksOfCRD(crd, live); lacks != "" {
			return action, []Warning{keptCRD(c, crd, action.keeper, lacks)}, nil
		}
		return action, nil, nil
	}
	action.wanted = appliedCRD(crd, live)
	changes := diffCRD(live, mergedCRD(action.wanted, live))
	if policy == CRDsInstall {
		if len(changes) > 0 {
			return action, []Warning{olderCRD(c, crd, changes)}, nil
		}
		return action, nil, nil
	}
	if higher := higherChart(crd, live); higher != "" {
		if len(changes) > 0 {
			action.verb = crdLeave
			return action, []Warning{newerCRD(c, crd, higher)}, nil
		}
		return action, nil, nil
	}
	if len(changes) > 0 || !marksAgree(crd, live) {
		action.verb, action.changes = crdUpdate, changes
	}
	return action, nil, nil
}

// otherKeepers are the keepers of a CRD without Helm on behalf of this release.
func otherKeepers(live *unstructured.Unstructured, ref Ref) []string {
	return slices.DeleteFunc(kube.Keepers(live), func(keeper string) bool { return keeper == "helm/"+ref.Namespace+"/"+ref.Name })
}

// higherChart returns what annotationCRDChart says of the live CRD when it is a higher version of the chart that the CRD
// at hand comes from, and "" otherwise.
func higherChart(crd, live *unstructured.Unstructured) string {
	stands := live.GetAnnotations()[annotationCRDChart]
	name, version, _ := strings.Cut(stands, " ")
	ourName, ourVersion, _ := strings.Cut(crd.GetAnnotations()[annotationCRDChart], " ")
	there, err := semver.NewVersion(version)
	if err != nil {
		return ""
	}
	ours, err := semver.NewVersion(ourVersion)
	if err != nil || name != ourName || !there.GreaterThan(ours) {
		return ""
	}
	return stands
}

func marksAgree(crd, live *unstructured.Unstructured) bool {
	return live.GetLabels()[labelCRD] == crd.GetLabels()[labelCRD] &&
		live.GetAnnotations()[annotationCRDChart] == crd.GetAnnotations()[annotationCRDChart]
}

// planCRDs tells what applyCRDs would do to each CRD, without writing anything. What differs is put to the server as a
// dry run, so that a change which it refuses is known before the apply. The error is a *cluster.Problem for a CRD that is
// being deleted, that the server refuses, or whose new form lacks a version in which objects may be stored.
func planCRDs(ctx context.Context, c *cluster.Cluster, crds []*unstructured.Unstructured, policy CRDPolicy, ref Ref) ([]crdAction, []Warning, error) {
	var (
		actions  []crdAction
		warnings []Warning
	)
	for _, crd := range crds {
		live, err := readCRD(ctx, c, crd.GetName())
		if err != nil {
			return nil, nil, err
		}
		action, said, err := judgeCRD(c, crd, live, policy, ref)
		if err != nil {
			return nil, nil, err
		}
		switch action.verb {
		case crdCreate:
			c.Plan(crdKind, "", crd.GetName())
		case crdUpdate:
			if err := checkStored(c, action); err != nil {
				return nil, nil, err
			}
			changes, err := settleCRD(ctx, c, action)
			if err != nil && !apierrors.IsForbidden(err) {
				return nil, nil, refusedCRD(c, crd, err)
			}
			if err == nil {
				action.changes = changes
			}
		}
		actions, warnings = append(actions, action), append(warnings, said...)
	}
	return actions, warnings, nil
}

// readCRD reads a CRD for a plan or a refresh: what berth wrote from one list of it, and anything else from where
// cluster.Find has it, once the metadata of all CRDs, which are large, says that it exists.
func readCRD(ctx context.Context, c *cluster.Cluster, name string) (*unstructured.Unstructured, error) {
	ours, err := c.Selected(ctx, crdKind, labelCRD+"=true")
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	for _, crd := range ours {
		if crd.GetName() == name {
			return crd, nil
		}
	}
	if exists, err := c.Exists(ctx, crdKind, "", name); err != nil || exists == nil {
		return nil, err
	}
	return c.Find(ctx, crdKind, "", name)
}

// settleCRD asks the server, by a dry run, what an update would change: defaults and spellings are no difference, and a
// field that is no longer applied goes. A CRD that berth never wrote and that does not differ is not asked about.
func settleCRD(ctx context.Context, c *cluster.Cluster, action crdAction) ([]kube.Difference, error) {
	if len(action.changes) == 0 && action.live.GetAnnotations()[annotationCRDChart] == "" {
		return nil, nil
	}
	outcome, err := c.Apply(ctx, crdKind, action.wanted, cluster.ApplyOptions{FieldManager: kube.FieldManager, Force: true, DryRun: true})
	if err != nil {
		return nil, err
	}
	return diffCRD(action.live, outcome), nil
}

// checkStored refuses an update that takes away a version in which objects may be stored: they could not be read any more.
func checkStored(c *cluster.Cluster, action crdAction) error {
	stored, _, _ := unstructured.NestedStringSlice(action.live.Object, "status", "storedVersions")
	kept := crdVersions(action.wanted)
	dropped := slices.DeleteFunc(slices.Clone(stored), func(version string) bool { return kept[version] != nil })
	if len(dropped) > 0 {
		return storedCRD(c, action.live, dropped)
	}
	return nil
}

// crdAttempts is how often a CRD is looked at anew when others write it at the same moment, its controllers in the API
// server included, and crdPause how long to stand back before that, times the attempt, and up to as long again at random.
const (
	crdAttempts = 12
	crdPause    = 20 * time.Millisecond
)

// applyCRDs makes the CRDs of a release as its policy wants them (upgrade: by server-side apply; install: what is
// missing is created; skip: nothing) and waits until all of them are Established and discovery has them, so that objects
// of them can be written next. Everything is judged before the first write, from the snapshot, so that releases of one
// chart do not fetch its CRDs once each; a write is for the CRD that was judged and no other, and where somebody else was
// quicker it is judged anew. Running it again after an interruption converges. The errors are those of planCRDs, a name
// that another CRD has taken, and a wait that timed out.
func applyCRDs(ctx context.Context, c *cluster.Cluster, crds []*unstructured.Unstructured, policy CRDPolicy, ref Ref) ([]Warning, error) {
	if policy == CRDsSkip {
		return nil, nil
	}
	found := make([]*unstructured.Unstructured, len(crds))
	for i, crd := range crds {
		live, err := readCRD(ctx, c, crd.GetName())
		if err != nil {
			return nil, err
		}
		action, _, err := judgeCRD(c, crd, live, policy, ref)
		if err == nil && action.verb == crdUpdate {
			err = checkStored(c, action)
		}
		if err != nil {
			return nil, err
		}
		found[i] = live
	}
	var warnings []Warning
	for i, crd := range crds {
		live, said, err := convergeCRD(ctx, c, crd, found[i], policy, ref)
		if err != nil {
			return warnings, err
		}
		found[i], warnings = live, append(warnings, said...)
	}
	for _, live := range found {
		if err := waitServed(ctx, c, live); err != nil {
			return warnings, err
		}
	}
	return warnings, nil
}

// convergeCRD writes one CRD, where there is something to write, and returns it as the server has it.
func convergeCRD(ctx context.Context, c *cluster.Cluster, crd, live *unstructured.Unstructured, policy CRDPolicy, ref Ref) (*unstructured.Unstructured, []Warning, error) {
	for attempt := 1; ; attempt++ {
		action, warnings, err := judgeCRD(c, crd, live, policy, ref)
		if err == nil && action.verb == crdUpdate {
			err = checkStored(c, action)
		}
		if err != nil {
			return nil, warnings, err
		}
		written := live
		switch action.verb {
		case crdCreate:
			c.Progress(ctx, kube.Describe(crd), "create", "")
			written, err = c.Create(ctx, crdKind, crd, kube.FieldManager)
		case crdUpdate:
			c.Progress(ctx, kube.Describe(crd), "apply", "")
			written, err = updateCRD(ctx, c, action)
		}
		if err == nil {
			return written, warnings, nil
		}
		if !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) || attempt == crdAttempts {
			return nil, warnings, refusedCRD(c, crd, err)
		}
		select {
		case <-ctx.Done():
			return nil, warnings, ctx.Err()
		case <-time.After(wait.Jitter(time.Duration(attempt)*crdPause, 1)):
		}
		if live, err = c.Fetch(ctx, crdKind, "", crd.GetName()); err != nil {
			return nil, warnings, err
		}
	}
}

// updateCRD applies a CRD over the one that was judged and no other: one of a higher chart version, or a version in which
// objects have just been stored, must not be overwritten by a judgement from before. What berth owns by having created it
// becomes its to apply first, which makes the CRD another one, so that the apply conflicts and everything is judged anew.
func updateCRD(ctx context.Context, c *cluster.Cluster, action crdAction) (*unstructured.Unstructured, error) {
	if err := c.TakeFields(ctx, crdKind, action.live, kube.FieldManager); err != nil {
		return nil, err
	}
	action.wanted.SetResourceVersion(action.live.GetResourceVersion())
	return c.Apply(ctx, crdKind, action.wanted, cluster.ApplyOptions{FieldManager: kube.FieldManager, Force: true})
}

// waitServed waits until a CRD is Established and the API server's discovery has its versions, which comes a moment later.
// One that awaits the CA bundle of an injector is not waited for: the injector may be part of this very release.
func waitServed(ctx context.Context, c *cluster.Cluster, crd *unstructured.Unstructured) error {
	if served, _ := servedCRD(ctx, c, crd); served {
		return nil
	}
	var never error
	err := kube.Wait(ctx, c, crdKind, "", crd.GetName(), "wait until it is Established and served", func(live *unstructured.Unstructured) (bool, string) {
		if live.GetDeletionTimestamp() != nil {
			never = deletedCRD(c, live)
		} else {
			never = takenNames(c, live)
		}
		if never != nil {
			return true, ""
		}
		return servedCRD(ctx, c, live)
	})
	return cmp.Or(never, err)
}

func servedCRD(ctx context.Context, c *cluster.Cluster, live *unstructured.Unstructured) (served bool, reason string) {
	if awaitsBundle(live) {
		return true, ""
	}
	if readiness := kube.Ready(live); !readiness.Ready {
		return false, readiness.Reason
	}
	versions := crdVersions(live)
	for _, version := range slices.Sorted(maps.Keys(versions)) {
		if versions[version]["served"] != true {
			continue
		}
		wanted := schema.GroupVersionKind{Group: crdField(live, "group"), Version: version, Kind: crdField(live, "names", "kind")}
		// The mapper answers with another version where it does not know this one.
		if kind, err := c.KindOf(ctx, wanted); err != nil || kind.Version != version {
			c.Forget()
			return false, fmt.Sprintf("the API server's discovery does not list %s %s yet", wanted.GroupVersion(), wanted.Kind)
		}
	}
	return true, ""
}

// driftCRDs returns what of a release's CRDs is no longer as the policy wants it: "CustomResourceDefinition/name path" to
// "found → wanted", and "missing → present" for one that is gone or going. Under the policy install only a missing one
// counts, under skip nothing; what another owner keeps or a newer chart wrote never does. That berth's marks are missing
// is no drift: after an import they are.
func driftCRDs(ctx context.Context, c *cluster.Cluster, crds []*unstructured.Unstructured, policy CRDPolicy, ref Ref) (map[string]string, error) {
	drift := map[string]string{}
	if policy == CRDsSkip {
		return drift, nil
	}
	for _, crd := range crds {
		live, err := readCRD(ctx, c, crd.GetName())
		if err != nil {
			return nil, err
		}
		if live == nil || live.GetDeletionTimestamp() != nil {
			drift[kube.Describe(crd)] = "missing → present"
			continue
		}
		action, _, err := judgeCRD(c, crd, live, policy, ref)
		if err != nil {
			return nil, err
		}
		if len(action.changes) == 0 {
			continue
		}
		changes, err := settleCRD(ctx, c, action)
		if cluster.Unreachable(err) {
			return nil, err
		}
		if err != nil {
			// The server refuses what we want, or us: what was seen is shown as it is.
			changes = action.changes
		}
		for _, change := range changes {
			drift[kube.Describe(crd)+" "+change.Path] = change.Found + " → " + change.Wanted
		}
	}
	return drift, nil
}
