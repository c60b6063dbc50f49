package release

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	helm "helm.sh/helm/v3/pkg/release"
	helmstorage "helm.sh/helm/v3/pkg/storage"
	helmtime "helm.sh/helm/v3/pkg/time"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// PlanRemoval says what a removal will leave or be refused for, without writing anything. What may be gone by the time of
// the destroy is a warning.
func PlanRemoval(ctx context.Context, c *cluster.Cluster, ref Ref, removal Removal) ([]Warning, error) {
	records, err := newest(ctx, c, ref)
	if err != nil || len(records) == 0 {
		return nil, err
	}
	if _, err := busy(c, ref, records, time.Now()); err != nil {
		return nil, err
	}
	if removal.stays(records) {
		return []Warning{staying(c, ref, records, removal)}, nil
	}
	objects, err := objectsOfRecord(ctx, c, ref, records[0])
	if err != nil {
		return nil, err
	}
	var warnings []Warning
	if err := refuseObjectsOf(ctx, c, ref, renderedCRDs(objects), "uninstalling it takes away"); err != nil {
		problem, told := asProblem(err)
		if !told {
			return nil, err
		}
		warnings = append(warnings, Warning{Summary: problem.Summary, Detail: "The destroy will be refused unless they are gone by then. " + problem.Detail})
	}
	for _, one := range objects {
		if keeps(one.Unstructured) {
			warnings = append(warnings, Warning{
				Summary: fmt.Sprintf("%s of %s stays", one.key(), ref),
				Detail:  "Its manifest asks to be kept (helm.sh/resource-policy: keep). Delete it by hand when it is no longer needed.",
			})
		}
	}
	return append(warnings, keptOf(records[0])...), nil
}

// keptOf tells of the CRDs in the chart's crds/ folder, which no uninstall deletes.
func keptOf(one record) []Warning {
	crds := one.crds()
	if len(crds) == 0 {
		return nil
	}
	return []Warning{keptCRDs(crds)}
}

func renderedCRDs(objects []object) []*unstructured.Unstructured {
	var crds []*unstructured.Unstructured
	for _, one := range objects {
		if one.GroupVersionKind().GroupKind() == kindOfCRD && !keeps(one.Unstructured) {
			crds = append(crds, one.Unstructured)
		}
	}
	return crds
}

// stays tells whether a release is left on the cluster.
func (r Removal) stays(records []record) bool { return r.Retain || records[0].adopted() }

func staying(c *cluster.Cluster, ref Ref, records []record, removal Removal) Warning {
	why := "deletion_policy is \"retain\""
	if !removal.Retain {
		why = "it was adopted, and berth uninstalls only what it installed"
	}
	return Warning{
		Summary: fmt.Sprintf("%s stays on cluster %q", capital(ref.String()), c.Name()),
		Detail:  fmt.Sprintf("Because %s, it keeps running (chart %s, revision %d) without berth's marks. `helm uninstall %s -n %s` removes it.", why, chartOf(records[0]), records[0].Version, ref.Name, ref.Namespace),
	}
}

// Remove takes a release away: its objects in order, and waited for; its history; and its namespace, where berth created
// that for it and nothing else is in it. A release that is gone already counts as removed. It returns what stays.
func Remove(ctx context.Context, c *cluster.Cluster, ref Ref, removal Removal) ([]Warning, error) {
	records, err := awaitQuiet(ctx, c, ref)
	if err != nil {
		return nil, err
	}
	if c.TakenByOther(ctx, cluster.Secrets, ref.Namespace, ref.Name, removal.Terms.Owner.String()) {
		return nil, nil // the resource that takes this one's place has it now
	}
	if len(records) == 0 {
		return removeNamespace(ctx, c, ref, removal, nil)
	}
	whose, err := ownershipOf(ctx, c, ref, records, removal.Terms)
	if err != nil || whose != ownOurs {
		return nil, err
	}
	if removal.stays(records) {
		warning := staying(c, ref, records, removal)
		if err := unmark(ctx, c, records); err != nil {
			return nil, err
		}
		return []Warning{warning}, unmarkNamespace(ctx, c, ref, removal)
	}
	return uninstall(ctx, c, ref, removal, records)
}

func uninstall(ctx context.Context, c *cluster.Cluster, ref Ref, removal Removal, records []record) ([]Warning, error) {
	var all []object
	for _, one := range unsuperseded(records) {
		objects, err := objectsOfRecord(ctx, c, ref, one)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	if err := refuseObjectsOf(ctx, c, ref, renderedCRDs(all), "uninstalling it takes away"); err != nil {
		return nil, err
	}
	last := records[0]
	hidden := hide(last.Config, last.secrets())
	k := &client{ctx: ctx, cluster: c, ref: ref, terms: removal.Terms, hidden: hidden, crds: last.crds(), unfinished: all}
	history := newStorage(ctx, c, ref, records, marks{})
	history.works(last.secret.GetName())
	config := helmConfiguration(c, chartutil.DefaultCapabilities)
	config.KubeClient, config.Releases = k, helmstorage.Init(history)
	c.Progress(ctx, ref.String(), "uninstall", "")
	defer history.beat()()
	if last.pending() {
		if err := sweepHooks(ctx, c, ref, last); err != nil {
			return nil, err
		}
	}
	if last.Info.Status == helm.StatusUninstalling {
		skipHooks(last)
	}
	// Before the first hook runs: Helm itself says so only after it.
	last.Info.Deleted = helmtime.Now()
	last.SetStatus(helm.StatusUninstalling, "Uninstall underway")
	if err := history.Update(last.secret.GetName(), last.Release); err != nil {
		return nil, err
	}
	history.putOff = true
	action := action.NewUninstall(config)
	action.Wait, action.Timeout = true, longest
	_, err := action.Run(ref.Name)
	if err != nil || history.failure != nil {
		p := prepared{hidden: hidden}
		return nil, p.outcome(ctx, Spec{Ref: ref}, k, history, err)
	}
	if err := k.finish(all); err != nil {
		return nil, err
	}
	warnings := keptOf(last)
	if len(k.stays) > 0 {
		slices.Sort(k.stays)
		warnings = append(warnings, Warning{
			Summary: fmt.Sprintf("Something of %s stays on cluster %q", ref, c.Name()),
			Detail:  strings.Join(k.stays, "\n") + "\nDelete by hand what is no longer needed.",
		})
	}
	more, err := removeNamespace(ctx, c, ref, removal, all)
	if err != nil {
		return warnings, err
	}
	// The records go last: as long as they are there, what is left of the release is known to be its.
	return append(warnings, more...), history.purge()
}

// skipHooks takes out the hooks before an uninstall that had come to their end when it was cut short: what they need may be
// gone by now.
func skipHooks(last record) {
	for _, hook := range last.Hooks {
		if hook.LastRun.Phase == helm.HookPhaseSucceeded && !hook.LastRun.StartedAt.Before(last.Info.Deleted) {
			hook.Events = slices.DeleteFunc(hook.Events, func(event helm.HookEvent) bool { return event == helm.HookPreDelete })
		}
	}
}

// finish deletes the objects of a release where Helm did not, because its newest manifest has none, and waits until those
// of all its revisions are gone.
func (k *client) finish(all []object) error {
	if !k.removed {
		if _, failures := k.DeleteWithPropagationPolicy(nil, metav1.DeletePropagationBackground); len(failures) > 0 {
			return failures[0]
		}
	}
	return k.awaitGone(all)
}

// unsuperseded are the revisions whose objects may be on the cluster: the current one, and those begun after it.
func unsuperseded(records []record) []record {
	one, after := current(records)
	return append(slices.Clone(after), one)
}

// removeNamespace deletes the namespace that berth created for the release, unless something is left in it. removed are the
// objects that went with the release.
func removeNamespace(ctx context.Context, c *cluster.Cluster, ref Ref, removal Removal, removed []object) ([]Warning, error) {
	if removal.KeepNamespace {
		return nil, nil
	}
	live, err := c.Fetch(ctx, cluster.Namespaces, "", ref.Namespace)
	if err != nil || live == nil || !kube.Created(live) || !removal.Terms.Marked(live) {
		return nil, err
	}
	if removal.Retain {
		return nil, kube.Unmark(ctx, c, cluster.Namespaces, live)
	}
	left, err := leftovers(ctx, c, ref, removal, removed)
	if err != nil {
		return nil, err
	}
	if len(left) > 0 && !removal.Force {
		return []Warning{{
			Summary: fmt.Sprintf("Namespace %q of %s stays on cluster %q", ref.Namespace, ref, c.Name()),
			Detail: fmt.Sprintf("berth created it, but there are %d object(s) in it that are not the release's: %s. It stays without berth's marks. Delete it by hand, or set force_destroy = true beforehand.",
				len(left), strings.Join(firstOf(left, 20), ", ")),
		}}, kube.Unmark(ctx, c, cluster.Namespaces, live)
	}
	_, err = kube.Remove(ctx, c, cluster.Namespaces, "", ref.Namespace, removal.Terms, false)
	return nil, err
}

// aggregatorTime is how long an API group may still be listed after its APIService was deleted.
const aggregatorTime = 15 * time.Second

// leftovers lists what is left in the release's namespace. Where the release itself served an API, its group takes a moment
// to go, in which nothing can be said of the group's objects.
func leftovers(ctx context.Context, c *cluster.Cluster, ref Ref, removal Removal, removed []object) ([]string, error) {
	served := slices.ContainsFunc(removed, func(one object) bool { return one.GetKind() == "APIService" })
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for end := time.Now().Add(aggregatorTime); ; {
		left, err := kube.Leftovers(ctx, c, ref.Namespace, removal.Terms)
		if _, unknown := asProblem(err); !unknown || !served || time.Now().After(end) {
			return left, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-ticker.C:
		}
	}
}

func unmarkNamespace(ctx context.Context, c *cluster.Cluster, ref Ref, removal Removal) error {
	if removal.KeepNamespace {
		return nil
	}
	live, err := c.Fetch(ctx, cluster.Namespaces, "", ref.Namespace)
	if err != nil || live == nil || !removal.Terms.Marked(live) {
		return err
	}
	return kube.Unmark(ctx, c, cluster.Namespaces, live)
}
