package argocd

import (
	"context"

	"github.com/berthdev/terraform-provider-berth/internal/access"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// disconnect deletes the Secrets by which the management cluster knows the cluster: Argo CD's, and that of the kubeconfig
// (I20, I87). What was adopted loses berth's marks and stays. The one that Argo CD reads goes last: the removal is noted on
// it.
func disconnect(ctx context.Context, clusters Clusters, spec Spec, removal Removal) error {
	if spec.InCluster {
		return nil
	}
	if spec.KubeconfigNamespace == "" {
		spec.KubeconfigNamespace = DefaultKubeconfigNamespace
	}
	named := removal.Terms
	named.UID = "" // that of Argo CD's Secret
	if err := spec.dropKubeconfig(ctx, clusters.Management, named, removal.Retain); err != nil {
		return err
	}
	if spec.Access != nil && clusters.Unreachable == nil && clusters.Workload != nil && !removal.Retain {
		// Nothing that Argo CD deployed is left, so that it needs its token no more.
		if err := access.Leave(ctx, clusters.Workload, *spec.Access, removal.Terms.Owner, ""); err != nil {
			return err
		}
	}
	_, err := kube.Remove(ctx, clusters.Management, cluster.Secrets, spec.Namespace, spec.SecretName, removal.Terms, removal.Retain)
	return err
}
