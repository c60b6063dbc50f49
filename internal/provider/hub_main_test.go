package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/enroll"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// hub is the address of the berth_hub of a test.
const hub = "berth_hub.main"

// hubBench is a workspace with a cluster that has Kueue's kinds and its Deployment, which runs nothing.
type hubBench struct {
	*bench
	// kueue is the namespace of Kueue, tenant that of the tenant, and what names the tenant's queue and flavor.
	kueue, tenant string
}

// newHubCluster boots a cluster on which several tests can have hubs: each in namespaces of its own.
func newHubCluster(t *testing.T) *fleettest.Cluster {
	t.Helper()
	c := fleettest.NewCluster(t, fleettest.ClusterSpec{Name: "hub", ControlPlaneOnly: true, Controllers: true})
	c.InstallKueueCRDs(t)
	return c
}

func newHubBench(t *testing.T, c *fleettest.Cluster, options tofutest.Options) *hubBench {
	t.Helper()
	proxy := c.Proxy(t, fleettest.ProxyOptions{})
	b := &hubBench{
		bench: &bench{Workspace: tofutest.New(t, options), t: t, cluster: c, proxy: proxy, owner: unique("team")},
		kueue: unique("kueue"), tenant: unique("tenant"),
	}
	b.block = providerBlock(b.owner, clusters{"hub": byPath(t, proxy.AdminKubeconfig())})
	c.Kubectl(t, "create", "namespace", b.tenant)
	c.Kubectl(t, "create", "namespace", b.kueue)
	b.installKueue("v0.17.0", "hub-of-test", "batch/job")
	return b
}

// installKueue makes the Deployment and the ConfigMap by which Kueue is found.
func (b *hubBench) installKueue(version, origin string, frameworks ...string) {
	b.t.Helper()
	b.cluster.KubectlInput(b.t, kueueManifest(b.kueue, version, origin, frameworks...), "apply", "-f", "-")
}

// kueueManifest is a Deployment of Kueue that runs nothing, and its configuration.
func kueueManifest(namespace, version, origin string, frameworks ...string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata: {name: kueue-manager-config, namespace: %[1]s}
data:
  controller_manager_config.yaml: |
    apiVersion: config.kueue.x-k8s.io/v1beta2
    kind: Configuration
    multiKueue: {origin: %[3]s}
    integrations: {frameworks: [%[4]s]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: kueue-controller-manager, namespace: %[1]s}
spec:
  replicas: 0
  selector: {matchLabels: {app: kueue}}
  template:
    metadata: {labels: {app: kueue}}
    spec:
      containers: [{name: manager, image: "registry.k8s.io/kueue/kueue:%[2]s"}]
      volumes: [{name: config, configMap: {name: kueue-manager-config}}]
`, namespace, version, origin, strings.Join(frameworks, ","))
}

// hubBlock is the hub of the bench's tenant, with queues of its own.
func (b *hubBench) hubBlock(arguments ...string) string {
	text := strings.Join(arguments, "\n")
	if !strings.Contains(text, "scheduling ") {
		text += fmt.Sprintf("\nscheduling = { quotas = { cpu = \"8\", memory = \"32Gi\" }, flavor = %[1]q, cluster_queue = %[1]q }", b.tenant)
	}
	return fmt.Sprintf("resource \"berth_hub\" \"main\" {\ntenant_namespace = %q\nkueue_namespace = %q\n%s\n}\n", b.tenant, b.kueue, text)
}

func (b *hubBench) get(object, path string) string {
	b.t.Helper()
	return b.cluster.Kubectl(b.t, "get", object, "-n", b.tenant, "--ignore-not-found", "-o", "jsonpath={"+path+"}")
}

// left is what is left of the bench's hub.
func (b *hubBench) left() string {
	b.t.Helper()
	return strings.TrimSpace(b.get("clusterqueue/"+b.tenant, ".metadata.name") + b.get("resourceflavor/"+b.tenant, ".metadata.name") + b.get("admissioncheck/berth-"+b.tenant, ".metadata.name") +
		b.get("configmap/"+enroll.HubRecordName, ".metadata.name") + b.cluster.Kubectl(b.t, "get", "localqueues", "-n", b.tenant, "-o", "jsonpath={.items[*].metadata.name}"))
}
