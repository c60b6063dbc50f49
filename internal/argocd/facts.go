package argocd

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// facts are what a workload cluster says of itself (I5).
type facts struct {
	uid, version string
	nodes        int
}

// lookAtCluster asks the workload cluster. The nodes are listed without what is in them.
func lookAtCluster(ctx context.Context, workload *cluster.Cluster) (facts, error) {
	uid, err := workload.UID(ctx)
	if err != nil {
		return facts{}, err
	}
	version, err := workload.Version(ctx)
	if err != nil {
		return facts{}, err
	}
	nodes, err := workload.MetadataIn(ctx, cluster.Nodes, "")
	if err != nil {
		return facts{}, err
	}
	return facts{uid: uid, version: version.GitVersion, nodes: len(nodes)}, nil
}

// The clouds by the scheme of a node's providerID (I45). Sources: the cloud providers' controllers.
var clouds = map[string]string{"aws": "aws", "gce": "gcp", "linode": "linode", "kind": "local", "k3s": "local"}

// The flavors by what their API servers put into their version (I18): v1.33.1+k3s1, v1.33.1-eks-1234567.
var flavors = []struct{ mark, flavor string }{{"+k3s", "k3s"}, {"-eks-", "eks"}}

// regionLabel is the well-known label of a node's region.
const regionLabel = "topology.kubernetes.io/region"

// detect fills in where the cluster runs, as far as the configuration does not say it: from the providerID and labels of
// its nodes, of which one is as good as the other, and from its version (I45). What can't be told stays empty.
func (s Spec) detect(ctx context.Context, workload *cluster.Cluster) (Spec, error) {
	if s.InCluster || s.Placed || s.Provider != "" && s.Flavor != "" && s.Region != "" {
		return s, nil
	}
	nodes, err := workload.List(ctx, cluster.Nodes)
	if err != nil {
		return s, err
	}
	version, err := workload.Version(ctx)
	if err != nil {
		return s, err
	}
	provider, flavor, region := detected(nodes, version.GitVersion)
	if s.Provider == "" {
		s.Provider = provider
	}
	if s.Flavor == "" {
		s.Flavor = flavor
	}
	if s.Region == "" {
		s.Region = region
	}
	return s, nil
}

func detected(nodes []*unstructured.Unstructured, version string) (provider, flavor, region string) {
	for _, node := range nodes {
		id, _, _ := unstructured.NestedString(node.Object, "spec", "providerID")
		scheme, _, _ := strings.Cut(id, "://")
		if provider == "" {
			provider = clouds[scheme]
		}
		if region == "" {
			region = node.GetLabels()[regionLabel]
		}
	}
	for _, one := range flavors {
		if strings.Contains(version, one.mark) {
			flavor = one.flavor
		}
	}
	return provider, flavor, region
}

// checkPlace refuses to register the management cluster as if it were another one, and another one as if it were that
// (I23, I76).
func (s Spec) checkPlace(ctx context.Context, clusters Clusters) error {
	management, err := clusters.Management.UID(ctx)
	if err != nil || clusters.Unreachable != nil {
		return err
	}
	workload, err := clusters.Workload.UID(ctx)
	if err != nil {
		return err
	}
	switch same := management == workload; {
	case same && !s.InCluster:
		return &cluster.Problem{
			Attribute: "cluster", Summary: fmt.Sprintf("%q is the management cluster itself", clusters.Workload.Name()),
			Detail: fmt.Sprintf("refusing: clusters[%q] and clusters[%q] lead to the same cluster (UID %s), which Argo CD knows already as %q. To give it an app-of-apps of its own, set in_cluster = true.",
				clusters.Management.Name(), clusters.Workload.Name(), management, InClusterName),
		}
	case !same && s.InCluster:
		return &cluster.Problem{
			Attribute: "in_cluster", Summary: fmt.Sprintf("%q is not the management cluster", clusters.Workload.Name()),
			Detail: fmt.Sprintf("refusing: in_cluster registers the cluster that Argo CD runs in, and clusters[%q] (UID %s) is another one than clusters[%q] (UID %s). Leave in_cluster out, or leave `cluster` out.",
				clusters.Workload.Name(), workload, clusters.Management.Name(), management),
		}
	}
	return nil
}
