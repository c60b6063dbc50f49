package argocd

import (
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// knownControllers are the controllers that own cloud resources, or that other objects need in order to go: they are taken
// down last, so that they can delete what they made (I83). name is a chart, or an Application that is called like it; a
// star stands for anything.
//
// An ingress controller (ingress-nginx, traefik, an Istio gateway) is not among them: its Service of type LoadBalancer is
// one of its own Application's resources, and has to go while what made the load balancer for it still runs. Nor is what
// only changes what others own, such as cluster-autoscaler, or gives out addresses that are no cloud's, such as metallb.
var knownControllers = []struct{ name, owns string }{
	// Load balancers. Sources: aws/eks-charts, aws/aws-application-networking-k8s, Azure/alb-controller, and Kubernetes'
	// "Cloud Controller Manager Administration" with the charts of kubernetes/cloud-provider-* and of the clouds.
	{"aws-load-balancer-controller", "load balancers"},
	{"aws-gateway-controller-chart", "load balancers"},
	{"aws-gateway-api-controller", "load balancers"},
	{"alb-controller", "load balancers"},
	{"*cloud-controller-manager", "load balancers and routes"},
	{"cloud-provider-azure", "load balancers and routes"},
	{"ccm-linode", "load balancers"},
	{"vsphere-cpi", "nodes' addresses"},
	// DNS records. Source: kubernetes-sigs/external-dns.
	{"external-dns", "DNS records"},
	// Volumes: a claim stays until its driver has deleted the disk, and a VolumeSnapshot until its controller has let go of
	// it. Sources: the charts of kubernetes-sigs and kubernetes-csi, of the clouds, Longhorn, OpenEBS, Rook and Rancher.
	{"*-csi-driver", "volumes"},
	{"*-csi", "volumes"},
	{"csi-*", "volumes"},
	{"*-csi-driver-operator", "volumes"},
	{"snapshot-controller", "volume snapshots"},
	{"longhorn", "volumes"},
	{"openebs", "volumes"},
	{"rook-ceph", "volumes"},
	{"local-path-provisioner", "volumes"},
	{"nfs-subdir-external-provisioner", "volumes"},
	// Nodes. Source: aws/karpenter-provider-aws, Azure/karpenter-provider-azure.
	{"karpenter", "nodes"},
	// Anything of a cloud, by objects of their own. Sources: crossplane/crossplane, aws-controllers-k8s/*-controller,
	// Azure/azure-service-operator, GoogleCloudPlatform/k8s-config-connector.
	{"crossplane", "cloud resources"},
	{"ack-*-controller", "cloud resources"},
	{"azure-service-operator", "cloud resources"},
	{"configconnector-operator", "cloud resources"},
}

// csiDriver is the kind by which a volume driver registers with a cluster.
const csiDriver = "CSIDriver"

// recognise tells whether an Application is one of the controllers that are removed last, and why. Besides the table it is
// the annotation on the Application, the configuration's removal.controllers (last, names with or without a namespace), and
// whatever brings a CSIDriver. cluster is the name of the registered cluster, which the names of Applications often carry
// so that they differ.
func recognise(a Application, cluster string, last []string) (bool, string) {
	switch {
	case a.Live.GetAnnotations()[AnnotationRemoveLast] == "true":
		return true, "it carries " + AnnotationRemoveLast
	case slices.Contains(last, a.Name) || slices.Contains(last, a.String()):
		return true, "removal.controllers names it"
	}
	for _, resource := range a.Resources {
		if resource.Group == "storage.k8s.io" && resource.Kind == csiDriver {
			return true, "it brings the CSIDriver " + resource.Name
		}
	}
	for _, name := range a.calledLike(cluster) {
		for _, known := range knownControllers {
			if matches(known.name, name) {
				return true, name + " owns " + known.owns
			}
		}
	}
	return false, ""
}

// matches tells whether a name is one of the table's.
func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok
}

// calledLike are the names by which an Application can be recognised: its own, without the cluster's before or after it, and
// those of its charts.
func (a Application) calledLike(cluster string) []string {
	names := []string{a.Name}
	for _, without := range []string{strings.TrimPrefix(a.Name, cluster+"-"), strings.TrimSuffix(a.Name, "-"+cluster)} {
		if without != a.Name {
			names = append(names, without)
		}
	}
	return append(names, charts(a.Live)...)
}

// charts are the names of the charts that an Application is made of: from a chart repository, or a folder or an OCI artifact
// that is called like one.
func charts(live *unstructured.Unstructured) []string {
	sources, _, _ := unstructured.NestedSlice(live.Object, "spec", "sources")
	if one, found, _ := unstructured.NestedMap(live.Object, "spec", "source"); found {
		sources = append(sources, one)
	}
	var names []string
	for _, entry := range sources {
		source, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		chart, _ := source["chart"].(string)
		folder, _ := source["path"].(string)
		repository, _ := source["repoURL"].(string)
		if !strings.HasPrefix(repository, "oci://") {
			repository = ""
		}
		for _, name := range []string{chart, folder, repository} {
			if base := path.Base(name); base != "." && base != "/" {
				names = append(names, base)
			}
		}
	}
	return names
}

// knownWorkload tells whether a workload on a cluster, by its name, is one of the known controllers or a part of one,
// installed by whatever means.
func knownWorkload(name string) bool {
	// Volume drivers come as <driver>-csi-controller and <driver>-csi-node.
	if matches("*-csi-*", name) {
		return true
	}
	for _, known := range knownControllers {
		if matches(known.name, name) || matches(known.name+"-*", name) {
			return true
		}
	}
	return false
}
