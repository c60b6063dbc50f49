package argocd

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

func nodeOf(providerID, region string) *unstructured.Unstructured {
	node := cluster.Nodes.New("", "node")
	if providerID != "" {
		node.Object["spec"] = map[string]any{"providerID": providerID}
	}
	if region != "" {
		node.SetLabels(map[string]string{"topology.kubernetes.io/region": region})
	}
	return node
}

// Where a cluster runs follows from its nodes and its version (I18, I45).
func TestDetected(t *testing.T) {
	t.Parallel()
	type place struct{ provider, flavor, region string }
	for what, one := range map[string]struct {
		nodes   []*unstructured.Unstructured
		version string
		want    place
	}{
		"EKS":                      {[]*unstructured.Unstructured{nodeOf("aws:///us-east-1a/i-0123", "us-east-1")}, "v1.33.1-eks-7308294", place{"aws", "eks", "us-east-1"}},
		"kubeadm on AWS":           {[]*unstructured.Unstructured{nodeOf("aws:///us-east-1a/i-0123", "")}, "v1.33.1", place{"aws", "", ""}},
		"GKE has no flavor":        {[]*unstructured.Unstructured{nodeOf("gce://project/europe-west1-b/node", "europe-west1")}, "v1.34.2-gke.100", place{"gcp", "", "europe-west1"}},
		"LKE":                      {[]*unstructured.Unstructured{nodeOf("linode://12345", "us-ord")}, "v1.33.0", place{"linode", "", "us-ord"}},
		"k3s on Linode":            {[]*unstructured.Unstructured{nodeOf("linode://12345", "")}, "v1.33.1+k3s1", place{"linode", "k3s", ""}},
		"k3s by itself":            {[]*unstructured.Unstructured{nodeOf("k3s://node-1", "")}, "v1.33.1+k3s1", place{"local", "k3s", ""}},
		"kind":                     {[]*unstructured.Unstructured{nodeOf("kind://docker/kind/kind-control-plane", "")}, "v1.33.1", place{"local", "", ""}},
		"a cloud without a name":   {[]*unstructured.Unstructured{nodeOf("azure:///subscriptions/x", "westeurope")}, "v1.33.1", place{"", "", "westeurope"}},
		"the first node that says": {[]*unstructured.Unstructured{nodeOf("", ""), nodeOf("nonsense", ""), nodeOf("aws:///a/i-1", ""), nodeOf("", "eu-1"), nodeOf("gce://b", "eu-2")}, "v1.33.1", place{"aws", "", "eu-1"}},
		"no nodes":                 {nil, "v1.33.1+k3s1", place{"", "k3s", ""}},
		"nothing to go by":         {[]*unstructured.Unstructured{nodeOf("", "")}, "", place{}},
	} {
		provider, flavor, region := detected(one.nodes, one.version)
		want(t, what, place{provider, flavor, region}, one.want)
	}
}

// What was settled is not asked again, nor is the cluster that Argo CD runs in.
func TestNothingToDetect(t *testing.T) {
	t.Parallel()
	for _, spec := range []Spec{{InCluster: true}, {Placed: true}, {Provider: "aws", Flavor: "eks", Region: "eu-1"}} {
		// A cluster that is not there would make a panic of any question.
		found, err := spec.detect(t.Context(), nil)
		want(t, "detected", []any{found.Provider, found.Flavor, found.Region, err}, []any{spec.Provider, spec.Flavor, spec.Region, error(nil)})
	}
}

// Argo CD is not made to dial a private address for an organization's cluster either (I21, I66).
func TestServerOfAnOrganization(t *testing.T) {
	t.Parallel()
	check := func(org, server string) error {
		p := prepared{Spec: Spec{Name: "edge", Org: org, Server: server}}
		return p.checkServer(t.Context())
	}
	told(t, check("acme", "https://10.0.0.1:6443"), `The server of "edge" has no public address`, "refusing: https://10.0.0.1:6443 leads to 10.0.0.1, which is private", `Argo CD would dial it for organization "acme"`, "Set server to that, or leave it out")
	told(t, check("acme", "https://localhost"), `The server of "edge" has no public address`, "is loopback")
	told(t, check("acme", "https://edge.invalid"), `Where the server of "edge" leads cannot be told`, "its name does not resolve here")
	for _, one := range [][2]string{{"", "https://10.0.0.1:6443"}, {"acme", ""}, {"acme", "https://1.1.1.1"}, {"acme", "https://[2606:4700::1]:6443"}} {
		want(t, one[0]+" "+one[1], check(one[0], one[1]), error(nil))
	}
}
