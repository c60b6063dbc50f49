package release

import (
	"context"
	"fmt"
	"maps"

	helm "helm.sh/helm/v3/pkg/release"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// Read is a release as it is on the cluster, with all that drifted; nil when the cluster answered that there is none.
// revision is the one that the state holds (0 where it holds none): a newer one that another tool wrote is drift. It needs
// no chart: what was applied is in the release's record.
func Read(ctx context.Context, c *cluster.Cluster, ref Ref, watch Watch, revision int) (*Seen, error) {
	records, err := newest(ctx, c, ref)
	if err != nil || len(records) == 0 || records[0].Info.Status == helm.StatusUninstalled {
		return nil, err
	}
	last := records[0]
	paths, err := secretPaths(ctx, c, ref, last)
	if err != nil {
		return nil, err
	}
	hidden := hide(last.Config, paths)
	objects, err := objectsOfRecord(ctx, c, ref, last)
	if err != nil {
		return nil, err
	}
	salt, err := saltOf(ctx, c, ref)
	if err != nil {
		return nil, err
	}
	seen := &Seen{
		Revision: last.Version, Status: last.Info.Status.String(), ChartDigest: last.digest(), Source: last.source(),
		Values: without(last.Config, paths), Objects: digests(objects, salt, hidden),
	}
	if last.Chart != nil && last.Chart.Metadata != nil {
		seen.ChartName, seen.ChartVersion, seen.AppVersion = last.Chart.Name(), last.Chart.Metadata.Version, last.Chart.AppVersion()
	}
	found, err := watch.look(ctx, c, ref, objects, hidden)
	if err != nil {
		return nil, err
	}
	seen.Drift, seen.Settled, seen.Ready = found.drift, found.settled, found.ready
	drift, err := driftCRDs(ctx, c, last.crds(), watch.CRDs, ref)
	if err != nil {
		return nil, err
	}
	maps.Copy(seen.Drift, drift)
	name := "Release/" + ref.Namespace + "/" + ref.Name
	if last.Info.Status != helm.StatusDeployed {
		seen.Drift[name+" status"] = fmt.Sprintf("%s → %s", last.Info.Status, helm.StatusDeployed)
	}
	if manager, _ := last.writer(); revision != 0 && last.Version != revision && last.digest() == "" {
		seen.Drift[name+" revision"] = fmt.Sprintf("%d (chart %s, by %s) → what revision %d was", last.Version, chartOf(last), manager, revision)
	}
	for _, line := range found.extra {
		seen.Warnings = append(seen.Warnings, Warning{
			Summary: fmt.Sprintf("A field that the chart of %s does not set: %s", ref, line),
			Detail: fmt.Sprintf("Somebody else set it on %s. It is left as it is. Set extra_fields = \"remove\" to have it taken away, \"ignore\" to hear no more of it, or name it in ignore_drift.",
				c.Context()),
		})
	}
	return seen, nil
}

// secretPaths are the paths of a revision's values that are secret. Another tool's upgrade or rollback carries the mark of
// berth over, and not the paths: they are those of the revisions before it.
func secretPaths(ctx context.Context, c *cluster.Cluster, ref Ref, last record) ([]string, error) {
	paths := last.secrets()
	if last.digest() != "" || last.secret.GetLabels()[kube.MarkOwner] == "" {
		return paths, nil
	}
	all, err := history(ctx, c, ref)
	for _, one := range all {
		paths = append(paths, one.secrets()...)
	}
	return paths, err
}
