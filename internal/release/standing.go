package release

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	helm "helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// helmCharts is the kind by which k3s and rke2 keep releases of Helm.
var helmCharts = cluster.Kind{Group: "helm.cattle.io", Version: "v1", Resource: "helmcharts", Kind: "HelmChart", Namespaced: true}

// ownership is whose a release is.
type ownership int

const (
	ownNone    ownership = iota // there is no such release
	ownOurs                     // it carries our mark, or the state holds it
	ownAdopted                  // it is foreign, and adopt allows to take it
)

// ownershipOf tells whose a release is, from its newest revision. The error is the refusal to touch it.
func ownershipOf(ctx context.Context, c *cluster.Cluster, ref Ref, records []record, terms kube.Terms) (ownership, error) {
	if len(records) == 0 {
		return ownNone, nil
	}
	last := records[0]
	label := last.secret.GetLabels()[kube.MarkOwner]
	owner, named := kube.ParseOwner(last.secret)
	switch {
	case label == terms.Owner.Hash() || named && owner == terms.Owner:
		return ownOurs, nil
	case terms.Held:
		return ownOurs, nil
	case label != "":
		whose := "another resource of berth"
		if named {
			whose = fmt.Sprintf("%s of the configuration with owner %q", owner.Resource, owner.Configuration)
		}
		return ownNone, &cluster.Problem{
			Summary: fmt.Sprintf("%s belongs to another owner", capital(ref.String())),
			Detail: fmt.Sprintf("refusing: on %s it is marked as %s. Nothing was applied. Choose another name, or remove it from that configuration first (with deletion_policy = \"retain\" the release stays and loses its mark).",
				c.Context(), whose),
		}
	}
	keepers, err := keepersOf(ctx, c, ref, last)
	if err != nil {
		return ownNone, err
	}
	what := fmt.Sprintf("chart %s, revision %d, %s", chartOf(last), last.Version, last.Info.Status)
	if !terms.Adopt {
		remedy := "Set adopt = true to take it over as it is, import it, or choose another name."
		if len(keepers) > 0 {
			remedy = fmt.Sprintf("It is kept in place by %s, which would revert what berth changes: choose another name, or take it out of that first. To take it over all the same, set adopt = true and adopt_from = [%s].",
				strings.Join(keepers, ", "), kube.QuoteAll(keepers))
		}
		return ownNone, &cluster.Problem{
			Attribute: "name",
			Summary:   fmt.Sprintf("%s exists and is not berth's", capital(ref.String())),
			Detail:    fmt.Sprintf("refusing: there is such a release on %s (%s), installed by another tool. Nothing was applied. %s", c.Context(), what, remedy),
		}
	}
	if refused := kube.NotIn(keepers, terms.AdoptFrom); len(refused) > 0 {
		return ownNone, &cluster.Problem{
			Attribute: "adopt_from",
			Summary:   fmt.Sprintf("%s is kept by somebody else", capital(ref.String())),
			Detail: fmt.Sprintf("refusing: the release on %s (%s) is kept in place by %s, which would revert what berth changes. Nothing was applied. Take it out of that first, and then name it: adopt_from = [%s].",
				c.Context(), what, strings.Join(refused, ", "), kube.QuoteAll(refused)),
		}
	}
	return ownAdopted, nil
}

// keepersOf names the controllers that keep a release: those whose marks its manifest carries, and a HelmChart of k3s.
func keepersOf(ctx context.Context, c *cluster.Cluster, ref Ref, last record) ([]string, error) {
	var keepers []string
	objects, err := parseManifest(last.Manifest)
	if err != nil {
		return nil, nil //nolint:nilerr // what cannot be read names nobody; the plan says so where it matters
	}
	for _, one := range objects {
		keepers = append(keepers, kube.Keepers(one)...)
	}
	kind, err := c.KindOf(ctx, helmCharts.GVK())
	if err == nil {
		charts, err := c.List(ctx, kind)
		if err != nil {
			return nil, err
		}
		for _, chart := range charts {
			namespace, _, _ := unstructured.NestedString(chart.Object, "spec", "targetNamespace")
			if namespace == "" {
				namespace = chart.GetNamespace()
			}
			if chart.GetName() == ref.Name && namespace == ref.Namespace {
				keepers = append(keepers, "k3s/"+chart.GetNamespace()+"/"+chart.GetName())
			}
		}
	} else if !meta.IsNoMatchError(err) {
		return nil, err
	}
	slices.Sort(keepers)
	return slices.Compact(keepers), nil
}

func chartOf(one record) string {
	if one.Chart == nil || one.Chart.Metadata == nil {
		return "unknown"
	}
	return one.Chart.Metadata.Name + " " + one.Chart.Metadata.Version
}

// busy tells whether somebody is at work on a release right now: the error says who. quiet is set where a berth process
// elsewhere may be, and only time will tell.
func busy(c *cluster.Cluster, ref Ref, records []record, now time.Time) (maybe bool, err error) {
	if len(records) == 0 || !records[0].pending() {
		return false, nil
	}
	last := records[0]
	manager, since := last.writer()
	if last.secret.GetAnnotations()[annotationActor] != "" {
		switch livenessOf(last, now) {
		case dead:
			return false, nil
		case quiet:
			return true, nil
		}
		return false, workedOn(c, ref, last)
	}
	if manager == kube.FieldManager {
		return false, nil // its beat was cleared, or its Secret restored from somewhere: nobody works on it
	}
	if began := now.Sub(since); began < foreignFor {
		return false, &cluster.Problem{
			Summary: fmt.Sprintf("%s is being worked on by %s", capital(ref.String()), manager),
			Detail: fmt.Sprintf("refusing: %s began revision %d of it on %s %s ago, and it is %s since. Nothing was applied. Wait until it is done. "+
				"If it was interrupted, plan again %s after it began: from then on berth takes it for dead, and goes on from what is there.",
				manager, last.Version, c.Context(), began.Round(time.Second), last.Info.Status, foreignFor),
		}
	}
	return false, nil
}

// actorName is the host of a berth process, and its number.
func actorName(one record) string {
	host, process, _ := strings.Cut(one.secret.GetAnnotations()[annotationActor], "/")
	host, _, _ = strings.Cut(host, ":")
	number, _, _ := strings.Cut(process, "/")
	return "process " + number + " on " + host
}

// settleHistory reads the history of a release once nobody is at work on it. A revision that was left half done counts as
// failed, so that Helm's actions go on from it; takeOver writes that down, after the checks.
func settleHistory(ctx context.Context, c *cluster.Cluster, ref Ref, terms kube.Terms) ([]record, ownership, error) {
	records, err := awaitQuiet(ctx, c, ref)
	if err != nil {
		return nil, ownNone, err
	}
	whose, err := ownershipOf(ctx, c, ref, records, terms)
	if err != nil || len(records) == 0 || !records[0].pending() {
		return records, whose, err
	}
	records[0].SetStatus(helm.StatusFailed, interrupted)
	return records, whose, nil
}

// interrupted describes a revision that was left half done.
const interrupted = "Interrupted; berth goes on from it"

// takeOver cleans up after an interrupted revision and writes down that it failed: it is the first write of an apply.
func (p *prepared) takeOver(ctx context.Context, c *cluster.Cluster, ref Ref) error {
	if len(p.records) == 0 || p.records[0].Info.Description != interrupted {
		return nil
	}
	last := p.records[0]
	if err := sweepHooks(ctx, c, ref, last); err != nil {
		return err
	}
	left := newStorage(ctx, c, ref, p.records, marks{})
	if err := left.Update(last.secret.GetName(), last.Release); err != nil {
		return err
	}
	p.records[0] = left.records[last.secret.GetName()]
	return nil
}

// sweepHooks deletes what the hooks of an interrupted revision left: objects that Helm deletes as soon as a hook is done.
func sweepHooks(ctx context.Context, c *cluster.Cluster, ref Ref, interrupted record) error {
	k := &client{ctx: ctx, cluster: c, ref: ref}
	for _, hook := range interrupted.Hooks {
		if hook.Kind == kindOfCRD.Kind || !slices.Contains(hook.DeletePolicies, helm.HookSucceeded) && !slices.Contains(hook.DeletePolicies, helm.HookFailed) {
			continue
		}
		objects, err := k.Build(strings.NewReader(hook.Manifest), false)
		if _, missing := asProblem(err); missing {
			continue // without its kind there is no such object
		}
		if err != nil {
			return err
		}
		for _, one := range objectsOf(objects) {
			live, err := c.Fetch(ctx, one.kind, one.GetNamespace(), one.GetName())
			if err != nil {
				return err
			}
			if live == nil || live.GetAnnotations()[helmHook] == "" {
				continue
			}
			if err := c.Delete(ctx, one.kind, one.GetNamespace(), one.GetName(), live.GetUID()); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitQuiet reads the history of a release, and waits while a process elsewhere may be at work on it: one that is gives a
// sign of life before the wait is over, and ends it with the error that says who.
func awaitQuiet(ctx context.Context, c *cluster.Cluster, ref Ref) ([]record, error) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	renewed := ""
	for {
		records, err := history(ctx, c, ref)
		if err != nil {
			return nil, err
		}
		maybe, err := busy(c, ref, records, time.Now())
		if err != nil || !maybe {
			return records, err
		}
		sign := records[0].secret.GetAnnotations()[annotationRenewed]
		if renewed != "" && sign != renewed {
			return nil, workedOn(c, ref, records[0])
		}
		if renewed == "" {
			c.Progress(ctx, ref.String(), "wait", actorName(records[0])+" may be at work on it")
		}
		renewed = sign
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ticker.C:
		}
	}
}

// workedOn is the refusal to touch what another process of berth is at.
func workedOn(c *cluster.Cluster, ref Ref, last record) error {
	return &cluster.Problem{
		Summary: fmt.Sprintf("%s is being worked on", capital(ref.String())),
		Detail: fmt.Sprintf("refusing: another process of berth (%s) is at revision %d of it on %s (%s), and was alive at %s. Nothing was applied. Wait until it is done, then plan again.",
			actorName(last), last.Version, c.Context(), last.Info.Status, last.secret.GetAnnotations()[annotationRenewed]),
	}
}

// standingOf is what an apply has to do, given the revisions of the release.
func standingOf(records []record, whose ownership, spec Spec, held bool) Verdict {
	if len(records) == 0 {
		return Install
	}
	last := records[0]
	switch {
	case !everDeployed(records):
		return Resume
	case last.Info.Status != helm.StatusDeployed:
		return Upgrade
	case !sameChart(last, spec) || !sameValues(last, spec):
		return Upgrade
	case whose == ownOurs && !held:
		return Resume
	}
	return Repair
}

// everDeployed tells whether an install of the release ever came to its end, and no uninstall was begun since: otherwise
// it is an install that is to be done.
func everDeployed(records []record) bool {
	return records[0].Info.Deleted.IsZero() && slices.ContainsFunc(records, func(one record) bool {
		return one.Info.Status == helm.StatusDeployed || one.Info.Status == helm.StatusSuperseded
	})
}

// current is the revision from which an upgrade starts: the newest that was deployed, or where none says so any more the
// newest of all. The second result are the revisions after it, which were begun and did not come to their end.
func current(records []record) (record, []record) {
	for i, one := range records {
		if one.Info.Status == helm.StatusDeployed {
			return one, records[:i]
		}
	}
	for i, one := range records[1:] {
		if one.Info.Status == helm.StatusSuperseded {
			return records[0], records[1 : i+1]
		}
	}
	return records[0], records[1:]
}

// sameChart tells whether a revision is of the wanted chart: by the digest where berth wrote the revision, otherwise by
// name and version.
func sameChart(one record, spec Spec) bool {
	if digest := one.digest(); digest != "" {
		return digest == spec.Chart.Digest
	}
	return one.Chart != nil && one.Chart.Metadata != nil && one.Chart.Metadata.Name == spec.Chart.Metadata.Name && one.Chart.Metadata.Version == spec.Chart.Metadata.Version
}

// sameValues tells whether a revision has the wanted values, as JSON sees them.
func sameValues(one record, spec Spec) bool {
	return reflect.DeepEqual(deepCopy(one.Config), deepCopy(spec.Values))
}
