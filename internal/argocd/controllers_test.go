package argocd

import "testing"

// Which Applications are controllers that own cloud resources (I83), and which are not.
func TestRecognise(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		app, manifest string
		last          []string
		why           string // "" for none
	}{
		"by annotation":         {"own", `metadata: {annotations: {berth.dev/remove-last: "true"}}`, nil, "it carries berth.dev/remove-last"},
		"annotation of no":      {"own", `metadata: {annotations: {berth.dev/remove-last: "false"}}`, nil, ""},
		"by configuration":      {"own", `{}`, []string{"other", "own"}, "removal.controllers names it"},
		"with its namespace":    {"own", `{}`, []string{"argocd/own"}, "removal.controllers names it"},
		"another namespace":     {"own", `{}`, []string{"team/own"}, ""},
		"by CSIDriver":          {"storage", listing(nil, "{group: storage.k8s.io, kind: CSIDriver, name: ebs.csi.aws.com}"), nil, "it brings the CSIDriver ebs.csi.aws.com"},
		"by StorageClass":       {"storage", listing(nil, "{group: storage.k8s.io, kind: StorageClass, name: gp3}"), nil, ""},
		"by name":               {"external-dns", `{}`, nil, "external-dns owns DNS records"},
		"the cluster before it": {"edge-external-dns", `{}`, nil, "external-dns owns DNS records"},
		"the cluster after it":  {"aws-load-balancer-controller-edge", `{}`, nil, "aws-load-balancer-controller owns load balancers"},
		"another one's name":    {"north-external-dns", `{}`, nil, ""},
		"by chart":              {"dns", `spec: {source: {repoURL: https://charts.example.com, chart: external-dns}}`, nil, "external-dns owns DNS records"},
		"by one of its charts":  {"dns", `spec: {sources: [{repoURL: https://git.example.com/values.git, ref: values}, {repoURL: https://charts.example.com, chart: aws-ebs-csi-driver}]}`, nil, "aws-ebs-csi-driver owns volumes"},
		"by folder":             {"dns", `spec: {source: {repoURL: https://git.example.com/x.git, path: infra/karpenter/}}`, nil, "karpenter owns nodes"},
		"by OCI artifact":       {"lb", `spec: {source: {repoURL: "oci://registry.example.com/charts/aws-load-balancer-controller", path: .}}`, nil, "aws-load-balancer-controller owns load balancers"},
		"by pattern":            {"hcloud-cloud-controller-manager", `{}`, nil, "hcloud-cloud-controller-manager owns load balancers and routes"},
		"crossplane":            {"crossplane", `{}`, nil, "crossplane owns cloud resources"},
		// Its load balancer is one of its own resources, and has to go while the controllers still run.
		"an ingress controller": {"ingress-nginx", `spec: {source: {chart: ingress-nginx}}`, nil, ""},
		"traefik":               {"traefik", `{}`, nil, ""},
		"what only sounds like": {"external-dns-dashboard", `{}`, nil, ""},
		"cluster-autoscaler":    {"cluster-autoscaler", `{}`, nil, ""},
	} {
		is, why := recognise(applicationOf(t, c.app, c.manifest), "edge", c.last)
		want(t, name+": is one", is, c.why != "")
		want(t, name+": why", why, c.why)
	}
}

// Controllers that are on a cluster by other means are known by their workloads (I84).
func TestKnownWorkload(t *testing.T) {
	t.Parallel()
	for name, is := range map[string]bool{
		"ebs-csi-controller": true, "ebs-csi-node": true, "csi-azuredisk-node": true, "aws-load-balancer-controller": true,
		"external-dns": true, "longhorn-manager": true, "snapshot-controller": true, "aws-cloud-controller-manager": true,
		"web": false, "ingress-nginx-controller": false, "redis": false, "policsi": false,
	} {
		want(t, name, knownWorkload(name), is)
	}
}

// A release never touches a cluster's own namespaces (I84).
func TestProtectedNamespaces(t *testing.T) {
	t.Parallel()
	var p protected
	p.add("external-dns")
	p.add("")
	p.add("default")
	p.others = append(p.others, "berth-access")
	for name, is := range map[string]bool{
		"kube-system": true, "kube-node-lease": true, "default": true, "gke-managed-system": true, "amazon-cloudwatch": true, "calico-system": true,
		"external-dns": true, "berth-access": true, "shop": false, "monitoring": false, "ingress": false, "kubeflow": false,
	} {
		want(t, name, p.has(name), is)
	}
	want(t, "the controllers' namespaces", p.controllers, []string{"external-dns"})
}
