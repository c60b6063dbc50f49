package release

import (
	"context"

	helm "helm.sh/helm/v3/pkg/release"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// Claim is whose a release is, and which, for a resource that has it as one of its parts.
type Claim struct {
	// Standing is Absent, Ours, Others or Foreign.
	Standing kube.Standing
	// Adopted is set on one that is ours, but that another tool installed: it is never uninstalled.
	Adopted bool
	// Chart and ChartVersion are those of the newest revision, and Status is Helm's word for it.
	Chart, ChartVersion, Status string
}

// ClaimOf reads whose a release is from its newest revision: Ours where it carries the mark that the terms name, or the one
// of the same resource under another `owner` where the state holds it. It writes nothing.
func ClaimOf(ctx context.Context, c *cluster.Cluster, ref Ref, terms kube.Terms) (Claim, error) {
	records, err := newest(ctx, c, ref)
	if err != nil || len(records) == 0 || records[0].Info.Status == helm.StatusUninstalled {
		return Claim{Standing: kube.Absent}, err
	}
	last := records[0]
	claim := Claim{Standing: kube.Inspect(last.secret, terms.Owner).Standing, Adopted: last.adopted(), Status: last.Info.Status.String()}
	if terms.Marked(last.secret) {
		claim.Standing = kube.Ours
	}
	if last.Chart != nil && last.Chart.Metadata != nil {
		claim.Chart, claim.ChartVersion = last.Chart.Name(), last.Chart.Metadata.Version
	}
	return claim, nil
}
