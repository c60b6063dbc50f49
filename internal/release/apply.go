package release

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"helm.sh/helm/v3/pkg/action"
	helmstorage "helm.sh/helm/v3/pkg/storage"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// longest is the time that Helm's actions are given: the context ends them.
const longest = 24 * time.Hour

func asProblem(err error) (*cluster.Problem, bool) { return errors.AsType[*cluster.Problem](err) }

// Apply makes a release what it shall be, whatever is there: it installs, goes on from an install or upgrade that was cut
// short, upgrades, adopts, or puts right what drifted without a new revision. The checks of Plan are repeated before the
// first write. When it fails, everything that was written carries Helm's and berth's marks, and the next Apply goes on.
func Apply(ctx context.Context, c *cluster.Cluster, spec Spec, terms kube.Terms) (Seen, []Warning, error) {
	records, whose, err := settleHistory(ctx, c, spec.Ref, terms)
	if err != nil {
		return Seen{}, nil, err
	}
	if whose == ownOurs && !terms.Held && c.TakenByOther(ctx, cluster.Secrets, spec.Namespace, spec.Name, terms.Owner.String()) {
		return Seen{}, nil, &cluster.Problem{
			Attribute: "name",
			Summary:   fmt.Sprintf("Two resources want %s", spec.Ref),
			Detail:    fmt.Sprintf("refusing: another resource of this configuration has just applied it on %s, and both would change and uninstall it. Take one of them out, or give it another name.", c.Context()),
		}
	}
	p, err := prepare(ctx, c, spec, terms, records, whose)
	switch {
	case err != nil:
		return Seen{}, nil, err
	case p.noNamespace != nil:
		return Seen{}, nil, p.noNamespace
	case len(p.missing) > 0:
		return Seen{}, nil, kindsMissing(c, spec.Ref, p.missing)
	}
	if err := p.write(ctx, c, spec, terms); err != nil {
		return Seen{}, p.warnings, err
	}
	c.Take(ctx, cluster.Secrets, spec.Namespace, spec.Name, terms.Owner.String())
	seen, err := Read(ctx, c, spec.Ref, spec.Watch, 0)
	switch {
	case err != nil:
		return Seen{}, p.warnings, err
	case seen == nil:
		return Seen{}, p.warnings, &cluster.Problem{
			Summary: fmt.Sprintf("%s is gone again", capital(spec.String())),
			Detail:  fmt.Sprintf("It was applied on %s, and somebody has deleted it since. Apply again.", c.Context()),
		}
	}
	return *seen, p.warnings, nil
}

func (p *prepared) write(ctx context.Context, c *cluster.Cluster, spec Spec, terms kube.Terms) error {
	if err := p.takeOver(ctx, c, spec.Ref); err != nil {
		return err
	}
	if spec.CreateNamespace {
		if err := EnsureNamespace(ctx, c, spec.Namespace, terms.Owner); err != nil {
			return err
		}
	}
	if _, err := applyCRDs(ctx, c, p.crds, spec.CRDs, spec.Ref); err != nil {
		return err
	}
	m := marks{owner: terms.Owner, adopted: p.adopts || p.adoptedBefore(), digest: spec.Chart.Digest, source: spec.Source, secrets: spec.Secrets}
	k := &client{
		ctx: ctx, cluster: c, ref: spec.Ref, terms: terms, watch: spec.Watch, hidden: p.hidden,
		crds: p.crds, before: p.before, unfinished: p.unfinished,
	}
	if p.repairs() {
		return p.repair(ctx, c, spec, k, m)
	}
	return p.release(ctx, c, spec, k, m)
}

// EnsureNamespace creates the namespace of a release, or of a resource that has releases among its parts, where it is
// missing. It is marked as created, so that it goes with its owner when nothing else is in it.
func EnsureNamespace(ctx context.Context, c *cluster.Cluster, name string, owner kube.Owner) error {
	live, err := c.Exists(ctx, cluster.Namespaces, "", name)
	if err != nil || live != nil && live.GetDeletionTimestamp() == nil {
		return err
	}
	namespace := kube.Object{Kind: cluster.Namespaces, Desired: cluster.Namespaces.New("", name)}
	_, err = kube.Converge(ctx, c, namespace, kube.Terms{Owner: owner})
	return err
}

// repair puts right what drifted, and writes the marks of a release that is adopted or gone on with.
func (p *prepared) repair(ctx context.Context, c *cluster.Cluster, spec Spec, k *client, m marks) error {
	found, err := spec.look(ctx, c, spec.Ref, p.objects, p.hidden)
	if err != nil {
		return err
	}
	err = k.write(found.drifted, func(one object) error {
		c.Progress(ctx, one.key(), "repair", "")
		return k.put(one, []*unstructured.Unstructured{one.Unstructured})
	})
	if err != nil {
		return err
	}
	last := p.records[0]
	if last.digest() != spec.Chart.Digest || last.source() != spec.Source || !slices.Equal(last.secrets(), spec.Secrets) || last.secret.GetAnnotations()[kube.MarkOwner] != m.owner.String() {
		if err := mark(ctx, c, last, m); err != nil {
			return err
		}
	}
	if !spec.Wait {
		return nil
	}
	awaited := slices.DeleteFunc(slices.Clone(p.objects), func(one object) bool { return expires(one) || spec.exempt(one, nil) })
	return kube.WaitAll(ctx, c, spec.String(), targetsOf(awaited), helmSelector)
}

// adoptedBefore tells whether an earlier apply adopted the release: an install that is begun again carries no labels over.
func (p *prepared) adoptedBefore() bool {
	return len(p.records) > 0 && p.records[0].adopted() && p.records[0].Info.Deleted.IsZero()
}

// release writes a new revision through Helm's action for it.
func (p *prepared) release(ctx context.Context, c *cluster.Cluster, spec Spec, k *client, m marks) error {
	caps, err := capabilities(ctx, c, p.crds)
	if err != nil {
		return err
	}
	records := newStorage(ctx, c, spec.Ref, p.records, m)
	config := helmConfiguration(c, caps)
	config.KubeClient = k
	config.Releases = helmstorage.Init(records)
	config.Releases.MaxHistory = spec.KeepHistory
	ch, err := fresh(spec.Chart.Chart)
	if err != nil {
		return err
	}
	defer records.beat()()
	// Helm forgets old revisions before it stores the new one: they may be all that tells of what they left.
	records.putOff = true
	if p.verdict == Upgrade {
		c.Progress(ctx, spec.String(), "upgrade", "to chart "+spec.Chart.Name()+" "+spec.Chart.Metadata.Version)
		upgrade := action.NewUpgrade(config)
		upgrade.Namespace, upgrade.MaxHistory, upgrade.Timeout = spec.Namespace, spec.KeepHistory, longest
		upgrade.SkipCRDs, upgrade.ResetValues, upgrade.TakeOwnership, upgrade.DisableOpenAPIValidation = true, true, true, true
		upgrade.Wait, upgrade.WaitForJobs = spec.Wait, spec.Wait
		_, err = upgrade.Run(spec.Name, ch, deepCopy(spec.Values))
	} else {
		c.Progress(ctx, spec.String(), "install", "chart "+spec.Chart.Name()+" "+spec.Chart.Metadata.Version)
		install := action.NewInstall(config)
		install.ReleaseName, install.Namespace, install.Timeout = spec.Name, spec.Namespace, longest
		install.SkipCRDs, install.Replace, install.TakeOwnership, install.DisableOpenAPIValidation = true, true, true, true
		install.Wait, install.WaitForJobs = spec.Wait, spec.Wait
		_, err = install.Run(ch, deepCopy(spec.Values))
	}
	if err := p.outcome(ctx, spec, k, records, err); err != nil {
		return err
	}
	return records.prune()
}

// outcome is what became of one of Helm's actions: Helm keeps of an error just its text, and of a record that could not be
// stored nothing.
func (p *prepared) outcome(ctx context.Context, spec Spec, k *client, records *storage, err error) error {
	switch {
	case err == nil && records.failure == nil:
		return nil
	case k.problem != nil:
		return k.problem
	case records.failure != nil:
		return records.failure
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if _, told := asProblem(err); told {
		return err
	}
	return renderProblem(spec, p.hidden, err)
}
