package release

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/chartutil"
	helm "helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// prepared is what is known of a release before the first write: plan and apply prepare alike.
type prepared struct {
	verdict Verdict
	adopts  bool
	records []record
	crds    []*unstructured.Unstructured
	// before are the objects of the current revision, unfinished those of revisions that were begun after it.
	before, unfinished []object
	rendering
	// noNamespace is the refusal of a namespace that is missing: the plan, before which it may come, just warns.
	noNamespace *cluster.Problem
	hidden      hider
	warnings    []Warning
}

// Plan checks a release against the cluster and says what its apply will do, without writing anything: whose the release
// and its objects are, whether the chart renders, what is added, changed and removed, and what the API server will refuse.
// The error is a *cluster.Problem when it must not be applied.
func Plan(ctx context.Context, c *cluster.Cluster, spec Spec, terms kube.Terms) (Outlook, error) {
	look := newest
	if !terms.Held {
		// A hundred releases that are to be created are looked for in one list; the apply reads the history of each.
		look = listed
	}
	records, err := look(ctx, c, spec.Ref)
	if err != nil {
		return Outlook{}, err
	}
	if len(records) > 0 && !slices.ContainsFunc(records, func(one record) bool { return one.Info.Status == helm.StatusDeployed }) {
		// What an apply will do depends on those that are superseded, too.
		if records, err = history(ctx, c, spec.Ref); err != nil {
			return Outlook{}, err
		}
	}
	if _, err := busy(c, spec.Ref, records, time.Now()); err != nil {
		return Outlook{}, err
	}
	whose, err := ownershipOf(ctx, c, spec.Ref, records, terms)
	if err != nil {
		return Outlook{}, err
	}
	p, err := prepare(ctx, c, spec, terms, records, whose)
	if err != nil {
		return Outlook{}, err
	}
	if err := p.noNamespace; err != nil {
		p.warn(err.Summary, "Unless it is there by then, the apply will be refused. %s", strings.TrimPrefix(err.Detail, "refusing: "))
	}
	if len(p.missing) > 0 {
		p.warn(fmt.Sprintf("%s needs kinds that the cluster does not have yet", capital(spec.String())),
			"%s does not serve %s, and nothing in this plan is known to bring them. Their objects were not checked. Unless they are there by then, the apply will be refused: see to it with depends_on that what brings the CRDs comes first.",
			c.Context(), strings.Join(p.missing, ", "))
	}
	bringing := kindsOf(p.crds)
	for _, one := range p.objects {
		maps.Copy(bringing, kindsOf([]*unstructured.Unstructured{one.Unstructured}))
	}
	c.PlanKinds(bringing)
	if err := claim(c, spec.Ref, p.objects); err != nil {
		return Outlook{}, err
	}
	if whose == ownOurs && !terms.Held {
		p.warn(fmt.Sprintf("%s was begun by an earlier apply", capital(spec.String())),
			"It is on %s with berth's mark (revision %d, %s), and the state does not hold it. The apply goes on from it.", c.Context(), records[0].Version, records[0].Info.Status)
	}
	if p.adopts {
		p.warn(fmt.Sprintf("%s exists and will be adopted", capital(spec.String())),
			"It is on %s (chart %s, revision %d). Its objects keep their UIDs, and destroying the resource leaves them there.", c.Context(), chartOf(records[0]), records[0].Version)
	}
	if p.verdict == Upgrade {
		if err := p.tryChanges(ctx, c, spec); err != nil {
			return Outlook{}, err
		}
	}
	outlook, err := p.tell(ctx, c, spec)
	outlook.Warnings = p.warnings
	return outlook, err
}

// prepare does what plan and apply have in common: every check, and nothing that writes.
func prepare(ctx context.Context, c *cluster.Cluster, spec Spec, terms kube.Terms, records []record, whose ownership) (*prepared, error) {
	p := &prepared{records: records, adopts: whose == ownAdopted, verdict: standingOf(records, whose, spec, terms.Held), hidden: hide(spec.Values, spec.Secrets)}
	var err error
	if len(records) > 0 {
		var paths []string
		if paths, err = secretPaths(ctx, c, spec.Ref, records[0]); err != nil {
			return nil, err
		}
		for _, one := range records {
			p.hidden = p.hidden.and(hide(one.Config, append(slices.Clone(paths), one.secrets()...)))
		}
	}
	if p.crds, err = spec.crds(); err != nil {
		return nil, err
	}
	if p.noNamespace, err = checkNamespace(ctx, c, spec); err != nil {
		return nil, err
	}
	_, warnings, err := planCRDs(ctx, c, p.crds, spec.CRDs, spec.Ref)
	if err != nil {
		return nil, err
	}
	p.warnings = append(p.warnings, warnings...)
	if err := p.readRevisions(ctx, c, spec.Ref); err != nil {
		return nil, err
	}
	if p.repairs() {
		// What is there is what shall be there: nothing is rendered anew, which a chart might do differently this time.
		p.objects = p.before
	} else {
		upgrade := p.verdict == Upgrade
		revision := 1
		if upgrade {
			revision = records[0].Version + 1
		}
		if p.rendering, err = render(ctx, c, spec, revision, upgrade, p.crds); err != nil {
			return nil, err
		}
	}
	added := slices.DeleteFunc(slices.Clone(p.objects), func(one object) bool { return slices.ContainsFunc(p.before, one.same) })
	if p.adopts {
		added = p.objects
	}
	clashes, err := existing(ctx, c, spec.Ref, added)
	if err != nil {
		return nil, err
	}
	if err := conflictsError(c, spec.Ref, conflicts(spec.Ref, terms, clashes)); err != nil {
		return nil, err
	}
	for _, one := range clashes {
		p.warn(fmt.Sprintf("%s exists and will be adopted by %s", one.object.key(), spec.Ref),
			"It is on %s, keeps its UID, and is made what the chart renders. Destroying the release leaves it there.", c.Context())
	}
	return p, p.checkLeaving(ctx, c, spec.Ref)
}

// crds are those in the crds/ folders of the chart and of those of its subcharts that the values turn on. Where somebody
// else sees to them, what cannot be read is none of the release's business.
func (s Spec) crds() ([]*unstructured.Unstructured, error) {
	ch, err := fresh(s.Chart.Chart)
	if err == nil {
		err = chartutil.ProcessDependenciesWithMerge(ch, deepCopy(s.Values))
	}
	if err != nil {
		return nil, renderProblem(s, hide(s.Values, s.Secrets), err)
	}
	crds, err := chartCRDs(ch)
	if s.CRDs == CRDsSkip && err != nil {
		return nil, nil //nolint:nilerr // see above
	}
	return crds, err
}

// repairs tells whether the apply writes no new revision.
func (p *prepared) repairs() bool {
	return p.verdict == Repair || p.verdict == Resume && len(p.records) > 0 && everDeployed(p.records)
}

func (p *prepared) warn(summary, format string, args ...any) {
	p.warnings = append(p.warnings, Warning{Summary: summary, Detail: fmt.Sprintf(format, args...)})
}

// readRevisions reads the objects of the current revision and of those that did not come to their end.
func (p *prepared) readRevisions(ctx context.Context, c *cluster.Cluster, ref Ref) error {
	if len(p.records) == 0 {
		return nil
	}
	one, after := current(p.records)
	if everDeployed(p.records) {
		var err error
		if p.before, err = objectsOfRecord(ctx, c, ref, one); err != nil {
			return err
		}
	} else {
		after = p.records
	}
	for _, left := range after {
		objects, err := objectsOfRecord(ctx, c, ref, left)
		if err != nil {
			return err
		}
		p.unfinished = append(p.unfinished, objects...)
	}
	return nil
}

// objectsOfRecord are the objects of a revision's manifest. Kinds that the cluster does not have any more had their
// objects deleted with them.
func objectsOfRecord(ctx context.Context, c *cluster.Cluster, ref Ref, one record) ([]object, error) {
	parsed, err := parseManifest(one.Manifest)
	if err != nil {
		return nil, &cluster.Problem{
			Summary: fmt.Sprintf("Revision %d of %s cannot be read", one.Version, ref),
			Detail:  fmt.Sprintf("Its record on %s is damaged: %s. `helm rollback` to an earlier revision, or delete the Secret %s.", c.Context(), err, one.secret.GetName()),
		}
	}
	objects, _, err := resolveKnown(ctx, c, ref, parsed, one.crds())
	return objects, err
}

// checkNamespace tells of a namespace that is not there.
func checkNamespace(ctx context.Context, c *cluster.Cluster, spec Spec) (*cluster.Problem, error) {
	if spec.CreateNamespace || c.Planned(cluster.Namespaces, "", spec.Namespace) {
		return nil, nil
	}
	live, err := c.Exists(ctx, cluster.Namespaces, "", spec.Namespace)
	if apierrors.IsForbidden(err) {
		return nil, nil // who may not look is told by the first write
	}
	if err != nil || live != nil {
		return nil, err
	}
	return &cluster.Problem{
		Attribute: "namespace",
		Summary:   fmt.Sprintf("Namespace %q of %s does not exist", spec.Namespace, spec.Ref),
		Detail:    fmt.Sprintf("refusing: there is no such namespace on %s. Nothing was applied. Set create_namespace = true, or create it first.", c.Context()),
	}, nil
}

// checkLeaving refuses to take CRDs away while objects of them exist, which would go with them.
func (p *prepared) checkLeaving(ctx context.Context, c *cluster.Cluster, ref Ref) error {
	var leaving []*unstructured.Unstructured
	for _, one := range append(slices.Clone(p.before), p.unfinished...) {
		if one.GroupVersionKind().GroupKind() == kindOfCRD && !slices.ContainsFunc(p.objects, one.same) && !among(p.crds, one) && !keeps(one.Unstructured) {
			leaving = append(leaving, one.Unstructured)
		}
	}
	return refuseObjectsOf(ctx, c, ref, leaving, "this change takes away")
}

// refuseObjectsOf refuses to delete CRDs of which objects exist.
func refuseObjectsOf(ctx context.Context, c *cluster.Cluster, ref Ref, crds []*unstructured.Unstructured, what string) error {
	if len(crds) == 0 {
		return nil
	}
	objects, err := objectsOfCRDs(ctx, c, crds, ref)
	if err != nil || len(objects) == 0 {
		return err
	}
	return &cluster.Problem{
		Summary: fmt.Sprintf("Objects of CRDs of %s still exist", ref),
		Detail: fmt.Sprintf("refusing: %s CRDs that the chart renders, and with a CRD Kubernetes deletes every object of it. On %s there are:\n  %s\nNothing was deleted. Delete them first (or whatever made them), or set deletion_policy = \"retain\" to leave the release as it is.",
			what, c.Context(), strings.Join(objects, "\n  ")),
	}
}

// PlanReplacement registers that the objects of a release will be gone before another takes its place in the same apply, so
// that the checks of the other pass.
func PlanReplacement(ctx context.Context, c *cluster.Cluster, ref Ref, removal Removal) error {
	records, err := newest(ctx, c, ref)
	if err != nil || len(records) == 0 || removal.stays(records) {
		return err
	}
	for _, revision := range unsuperseded(records) {
		objects, err := objectsOfRecord(ctx, c, ref, revision)
		if err != nil {
			return err
		}
		for _, one := range objects {
			if !keeps(one.Unstructured) {
				c.PlanRemoval(one.kind, one.GetNamespace(), one.GetName())
			}
		}
	}
	return nil
}

// claim registers the objects of a release, so that checks of what depends on them pass, and two releases of one plan that
// want the same object are told so.
func claim(c *cluster.Cluster, ref Ref, objects []object) error {
	var lines []string
	for _, one := range objects {
		c.Plan(one.kind, one.GetNamespace(), one.GetName())
		if first := c.Claim("release object "+one.kind.Group+"/"+one.key(), ref.String()); first != ref.String() {
			lines = append(lines, fmt.Sprintf("%s is also rendered by %s", one.key(), first))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return &cluster.Problem{
		Attribute: "chart",
		Summary:   fmt.Sprintf("%s wants objects of another release", capital(ref.String())),
		Detail:    fmt.Sprintf("refusing: %s. Each would overwrite what the other wrote. Nothing was applied. Change the values of one of them.", strings.Join(firstOf(lines, 10), "; ")),
	}
}

// tell is what the plan shows.
func (p *prepared) tell(ctx context.Context, c *cluster.Cluster, spec Spec) (Outlook, error) {
	salt, err := saltOf(ctx, c, spec.Ref)
	if err != nil {
		return Outlook{}, err
	}
	outlook := Outlook{Verdict: p.verdict, Adopts: p.adopts, AppVersion: spec.Chart.AppVersion(), Objects: digests(p.objects, salt, hide(spec.Values, spec.Secrets))}
	for key := range p.unsettled {
		outlook.Objects[key] = ""
	}
	outlook.Incomplete = len(p.missing) > 0
	if p.verdict == Install || p.verdict == Resume && !p.repairs() {
		return outlook, nil
	}
	outlook.Changes = map[string]string{}
	for _, one := range p.objects {
		at := slices.IndexFunc(p.before, one.same)
		if at < 0 {
			outlook.Changes[one.key()] = "will be created"
			continue
		}
		for _, difference := range kube.Diff(p.before[at].Unstructured, one.Unstructured) {
			outlook.Changes[one.key()+" "+difference.Path] = p.hidden.text(difference.Found) + " → " + p.hidden.text(difference.Wanted)
		}
	}
	for _, one := range p.unfinished {
		if !slices.ContainsFunc(p.objects, one.same) && !slices.ContainsFunc(p.before, one.same) && !among(p.crds, one) && !keeps(one.Unstructured) {
			outlook.Changes[one.key()] = "will be deleted (an unfinished revision left it)"
		}
	}
	for _, one := range p.before {
		if !slices.ContainsFunc(p.objects, one.same) {
			outlook.Changes[one.key()] = "will be deleted"
			if keeps(one.Unstructured) {
				outlook.Changes[one.key()] = "will be left on the cluster (helm.sh/resource-policy: keep)"
			}
		}
	}
	return outlook, nil
}

// saltOf is what tells the digests of this release's secrets from all others.
func saltOf(ctx context.Context, c *cluster.Cluster, ref Ref) (string, error) {
	uid, err := c.UID(ctx)
	return uid + "/" + ref.Namespace + "/" + ref.Name, err
}

// tryChanges asks the API server, without writing, what it makes of the objects that change: a field that can never change
// is warned of, because the user may delete the object before the apply.
func (p *prepared) tryChanges(ctx context.Context, c *cluster.Cluster, spec Spec) error {
	for _, one := range p.objects {
		at := slices.IndexFunc(p.before, one.same)
		if at < 0 || p.unsettled[one.key()] || len(kube.Diff(p.before[at].Unstructured, one.Unstructured)) == 0 {
			continue
		}
		live, err := c.LiveBy(ctx, one.kind, one.GetNamespace(), one.GetName(), helmSelector)
		if err != nil || live == nil {
			if err = ignoreNotFound(err); err != nil {
				return err
			}
			continue
		}
		settled := spec.settle(owned(one, spec.Ref), live, spec.Ref)
		form, patch, err := threeWay(p.before[at].Unstructured, settled.wanted, live)
		if err != nil {
			return err
		}
		if patch == nil {
			continue
		}
		_, err = c.Patch(ctx, one.kind, one.GetNamespace(), one.GetName(), form, patch, kube.FieldManager, true)
		switch {
		case err == nil:
		case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
			p.warn(fmt.Sprintf("The API server will refuse the change of %s of %s", one.key(), spec.Ref),
				"Asked on %s without writing anything, it says: %s\nWhere a field can never change, delete the object before the apply (kubectl --context %s delete %s %s%s), which then creates it anew; otherwise change the values.",
				c.Context(), p.hidden.text(err.Error()), c.Context(), strings.ToLower(one.GetKind()), one.GetName(), inNamespace(one))
		case apierrors.IsForbidden(err):
			p.warn(fmt.Sprintf("%s of %s may not be changed", one.key(), spec.Ref), "%s", p.hidden.text(err.Error()))
		case cluster.Unreachable(err) || ctx.Err() != nil:
			return err
		default:
			// A webhook that this very change repairs, or an object that went in the meantime.
			p.warn(fmt.Sprintf("The change of %s of %s could not be tried", one.key(), spec.Ref), "%s", p.hidden.text(err.Error()))
		}
	}
	return nil
}
