package provider_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// inventoryFleet is a management cluster that knows Argo CD's Applications, although no Argo CD runs on it, and a workload
// cluster: what is there stays as the test has written it.
func inventoryFleet(t *testing.T) (management, workload *fleettest.Cluster) {
	t.Helper()
	fleet := fleettest.New(t,
		fleettest.ClusterSpec{Name: "mgmt", ControlPlaneOnly: true, Nodes: []fleettest.NodeSpec{{Name: "one"}}},
		fleettest.ClusterSpec{Name: "edge", ControlPlaneOnly: true, Controllers: true, LoadBalancer: fleettest.LoadBalancerHostname, Nodes: []fleettest.NodeSpec{{Name: "a"}, {Name: "b"}}},
	)
	management, workload = fleet.Cluster("mgmt"), fleet.Cluster("edge")
	dir, err := fleettest.ModuleDir(t.Context(), "argocd", "github.com/argoproj/argo-cd/v3")
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(dir, "manifests", "crds", "application-crd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(manifest, &crd.Object); err != nil {
		t.Fatal(err)
	}
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := management.Dynamic().Resource(crds).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	fleettest.Eventually(t, func(ctx context.Context) error {
		_, err := management.Dynamic().Resource(schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}).List(ctx, metav1.ListOptions{})
		return err
	})
	management.Kubectl(t, "create", "namespace", "argocd")
	management.KubectlInput(t, registeredByHand(workload.UID()), "apply", "-f", "-")
	workload.Kubectl(t, "create", "service", "loadbalancer", "web", "--tcp=80")
	workload.KubectlInput(t, `
apiVersion: v1
kind: PersistentVolume
metadata: {name: pv-1}
spec: {capacity: {storage: 10Gi}, accessModes: [ReadWriteOnce], storageClassName: gp3, claimRef: {namespace: shop, name: data}, csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1}}
`, "apply", "-f", "-")
	return management, workload
}

// registeredByHand are the Secrets and Applications of two clusters.
func registeredByHand(uid string) string {
	app := func(name, spec, metadata, status string) string {
		return fmt.Sprintf("---\n{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {name: %s, namespace: argocd, %s}, spec: {project: default, source: {repoURL: x, path: x}, destination: {%s}}, status: {%s}}\n", name, metadata, spec, status)
	}
	const healthy, degraded = "sync: {status: Synced}, health: {status: Healthy}", "sync: {status: OutOfSync}, health: {status: Degraded}"
	below := func(name string, wave int) string {
		return fmt.Sprintf(`annotations: {argocd.argoproj.io/tracking-id: "registry-edge-1:argoproj.io/Application:argocd/%s", argocd.argoproj.io/sync-wave: "%d"}`, name, wave)
	}
	return fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata:
  name: cluster-edge-1
  namespace: argocd
  labels: {argocd.argoproj.io/secret-type: cluster, berth.dev/provider: aws, berth.dev/flavor: eks, berth.dev/region: us-east-1, berth.dev/org: acme}
  annotations: {berth.dev/cluster-uid: %s, berth.dev/kubernetes-version: v1.33.1, berth.dev/node-count: "7", berth.dev/owner: "platform/cluster.edge", berth.dev/removal-step: applications}
stringData: {name: edge-1, server: "https://edge.example.com", config: '{"bearerToken":"t0ken-of-edge"}'}
---
{apiVersion: v1, kind: Secret, metadata: {name: by-hand, namespace: argocd, labels: {argocd.argoproj.io/secret-type: cluster}}, stringData: {name: north, server: "https://north.example.com", config: '{}'}}
`, uid) +
		app("registry-edge-1", "server: https://kubernetes.default.svc", "", healthy) +
		app("web", "name: edge-1, namespace: web", below("web", 2), healthy) + app("db", "name: edge-1, namespace: db", below("db", -1), degraded) +
		app("external-dns", "name: edge-1, namespace: dns", below("external-dns", 0), healthy) +
		app("shop-eu", "name: edge-1, namespace: shop", "labels: {berth.dev/zone: eu, berth.dev/product: shop, berth.dev/environment: release, berth.dev/org: acme}", healthy) +
		app("stray", "server: https://edge.example.com", "ownerReferences: [{apiVersion: argoproj.io/v1alpha1, kind: ApplicationSet, name: everywhere, uid: u}]", "")
}

// What is on a registered cluster, with nothing written and no secret told (I72, I74, I75, I78, X9, X12).
func TestClusterInventory(t *testing.T) {
	t.Parallel()
	management, workload := inventoryFleet(t)
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		b := newBenchOn(t, management, unique("team"), tofutest.Options{Runner: runner})
		entries := clusters{"mgmt": byPath(t, b.proxy.AdminKubeconfig()), "edge": byPath(t, workload.AdminKubeconfig())}
		b.block = providerBlock(b.owner, entries)
		inventory := func(arguments ...string) string {
			return data("cluster_inventory", append([]string{`management = "mgmt"`, `name = "edge-1"`}, arguments...)...)
		}
		b.use(inventory(`cluster = "edge"`, `controllers = ["web"]`))
		result := b.MustApply()
		result.NoWarnings(t)
		values := b.data("cluster_inventory")
		same(t, "id and UIDs", row(values["id"], values["management_uid"], values["cluster_uid"], values["argocd_namespace"]), row("mgmt/edge-1", management.UID(), workload.UID(), "argocd"))
		same(t, "the cluster", row(values["server"], values["kubernetes_version"], values["node_count"], values["removal_step"]), row("https://edge.example.com", workload.Version(), 2, "applications"))
		root := values["root"].(map[string]any)
		same(t, "root", row(root["name"], root["sync"], root["destination"]), "registry-edge-1 Synced https://kubernetes.default.svc")
		same(t, "zones", values["zones"], []map[string]any{{
			"zone": "eu", "product": "shop", "org": "acme", "environment": "release", "namespace": "shop", "application": "argocd/shop-eu", "sync": "Synced", "health": "Healthy",
		}})
		var waves []string
		for _, one := range values["waves"].([]any) {
			wave := one.(map[string]any)
			for _, app := range wave["applications"].([]any) {
				app := app.(map[string]any)
				waves = append(waves, row(wave["wave"], wave["last"], app["name"], app["health"], app["controller"], app["parent"]))
			}
		}
		same(t, "waves", strings.Join(waves, "\n"), strings.Join([]string{
			row(0, true, "external-dns", "Healthy", "external-dns owns DNS records", "registry-edge-1"),
			row(2, true, "web", "Healthy", "removal.controllers names it", "registry-edge-1"),
			row(-1, false, "db", "Degraded", nil, "registry-edge-1"),
		}, "\n"))
		foreign := values["foreign"].([]any)[0].(map[string]any)
		same(t, "foreign", row(len(values["foreign"].([]any)), foreign["name"], foreign["application_set"], foreign["destination"]), "1 stray everywhere https://edge.example.com")
		same(t, "volumes", values["volumes"], []map[string]any{{
			"claim": "shop/data", "name": "pv-1", "size": "10Gi", "storage_class": "gp3", "driver": "ebs.csi.aws.com", "handle": "vol-1", "reclaim_policy": "Retain",
		}})
		same(t, "load balancers", values["load_balancers"], []map[string]any{{"namespace": "default", "name": "web", "addresses": []string{"web.default.edge.example.com"}}})
		same(t, "skipped", values["skipped"], "[]")
		for _, line := range []string{"Environments (1):\n  zone eu of product shop", "Controllers of wave 2, removed last (1):\n  argocd/web, to edge-1, namespace web: Synced, Healthy", "Volumes (1):\n  shop/data (10Gi, gp3): ebs.csi.aws.com vol-1"} {
			if !strings.Contains(fmt.Sprint(values["report"]), line) {
				t.Errorf("the report has no %q:\n%v", line, values["report"])
			}
		}
		if strings.Contains(string(b.StatePull())+result.Log, "t0ken-of-edge") {
			t.Error("the token of the registration is in the state or the log")
		}
		b.noWrites()
		b.PlanIsEmpty()

		// Without the cluster itself, what it alone knows is not looked at.
		b.use(inventory())
		b.MustApply()
		values = b.data("cluster_inventory")
		same(t, "without the cluster", row(values["cluster_uid"], values["kubernetes_version"], values["node_count"], len(values["waves"].([]any))), row(nil, nil, nil, 3))
		same(t, "skipped", values["skipped"], "[version, nodes, volumes and load balancers: no connection to the cluster was given]")
		// Nor where it does not answer.
		gone := clusters{"mgmt": entries["mgmt"], "edge": "host = \"https://127.0.0.1:1\"\ninsecure = true\ntoken = \"x\""}
		b.block = providerBlock(b.owner, gone)
		b.use(inventory(`cluster = "edge"`))
		b.MustApply().Warning(t, `^Cluster "edge" was not looked at$`, "Its version, nodes, volumes and load balancers are not known: .*the connection is refused")
		same(t, "waves", len(b.data("cluster_inventory")["waves"].([]any)), 3)
		// Another cluster than the registered one would tell of its own volumes.
		b.block = providerBlock(b.owner, clusters{"mgmt": entries["mgmt"], "edge": entries["mgmt"]})
		b.use(inventory(`cluster = "edge"`))
		b.Plan().Error(t, `^Cluster "edge-1" is not the one that is registered$`, "registers the cluster with UID "+workload.UID()+", and mgmt leads to one with UID "+management.UID())
		// One that nobody registered is told as such.
		b.use(data("cluster_inventory", `management = "mgmt"`, `name = "nobody"`))
		b.MustApply()
		values = b.data("cluster_inventory")
		same(t, "one that is not registered", row(values["server"], values["root"], values["waves"], values["skipped"]),
			row(nil, nil, "[]", `[the registration: Secret argocd/cluster-nobody is not on cluster "mgmt" version, nodes, volumes and load balancers: no connection to the cluster was given]`))
	})
}

// Every cluster that Argo CD knows, from one list of each kind (I3, I72, X12, promise 12).
func TestClusters(t *testing.T) {
	t.Parallel()
	management, _ := inventoryFleet(t)
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		b := newBenchOn(t, management, unique("team"), tofutest.Options{Runner: runner})
		b.block = providerBlock(b.owner, clusters{"mgmt": byPath(t, b.proxy.AdminKubeconfig())})
		b.use(data("clusters", `management = "mgmt"`))
		b.proxy.Reset()
		plan := b.MustPlan()
		plan.NoWarnings(t)
		b.requests(map[string]int{"get namespaces": 1, "list secrets": 1, "list applications.argoproj.io": 1, "list nodes": 1, "get /version": 1})
		b.MustApply()
		values := b.data("clusters")
		same(t, "id", row(values["id"], values["management_uid"], values["argocd_namespace"]), row("mgmt", management.UID(), "argocd"))
		var lines []string
		for _, one := range values["clusters"].([]any) {
			c := one.(map[string]any)
			lines = append(lines, row(c["name"], c["type"], c["server"], c["argocd_secret"], c["provider"], c["flavor"], c["region"], c["org"], c["kubernetes_version"], c["node_count"], c["managed_by_berth"],
				c["zones"], c["healthy_zones"], c["applications"], c["healthy_applications"], c["health"], c["removal_step"]))
		}
		same(t, "clusters", strings.Join(lines, "\n"), strings.Join([]string{
			row("in-cluster", "management", "https://kubernetes.default.svc", nil, nil, nil, nil, nil, management.Version(), 1, false, 0, 0, 1, 1, "Healthy", nil),
			row("edge-1", "workload", "https://edge.example.com", "cluster-edge-1", "aws", "eks", "us-east-1", "acme", "v1.33.1", 7, true, 1, 1, 5, 3, "Degraded", "applications"),
			row("north", "workload", "https://north.example.com", "by-hand", nil, nil, nil, nil, nil, nil, false, 0, 0, 0, 0, nil, nil),
		}, "\n"))
		for _, line := range []string{"cluster     type        runs on            version  nodes  zones  applications  health    removal\n", "\nedge-1      workload    aws eks us-east-1  v1.33.1  7      1/1    3/5           Degraded  applications\n", "\nnorth       workload                                ?      0/0    0/0"} {
			if !strings.Contains(fmt.Sprint(values["report"]), line) {
				t.Errorf("the report has no line %q:\n%v", line, values["report"])
			}
		}
		b.noWrites()
		b.PlanIsEmpty()
	})
}

// Who asks a cluster without Argo CD, an unknown key or one whose connection is not known yet is told so (X1, X2).
func TestClustersWhere(t *testing.T) {
	t.Parallel()
	kinds := map[string]string{
		"clusters": data("clusters", `management = "shared"`), "cluster_inventory": data("cluster_inventory", `management = "shared"`, `name = "edge"`),
	}
	b := newBenchOn(t, plainCluster(t), unique("team"), tofutest.Options{})
	b.use(kinds["clusters"])
	found := b.Plan().Error(t, `^There is no Argo CD on cluster "shared"$`, `does not serve Applications \(argoproj.io/v1alpha1\). Name the cluster that Argo CD runs in`)
	same(t, "the attribute", strings.Contains(found.Snippet.Code, "management"), true)
	b.use(kinds["cluster_inventory"])
	b.MustApply()
	same(t, "skipped", strings.Contains(fmt.Sprint(b.data("cluster_inventory")["skipped"]), `Applications: cluster "shared" does not serve their kind`), true)
	for kind, config := range kinds {
		b.use(strings.ReplaceAll(config, `"shared"`, `"elsewhere"`))
		found := b.Plan().Error(t, `^No cluster "elsewhere" in the provider configuration$`, `its keys are: "shared"`)
		if !strings.Contains(found.Snippet.Code, `management = "elsewhere"`) {
			t.Errorf("%s: the error does not point at the attribute: %s", kind, found)
		}
		w := tofutest.New(t, tofutest.Options{})
		w.Write("main.tf", providerBlock(unique("team"), clusters{"shared": "kubeconfig = terraform_data.kubeconfig.output"})+
			fmt.Sprintf("resource \"terraform_data\" \"kubeconfig\" {\ninput = %q\n}\n", b.proxy.AdminKubeconfig().Content())+config)
		w.MustPlan().Warning(t, "^Data source berth_"+kind+`.* on cluster "shared" was not read$`, `the connection of cluster "shared" is not known yet`, "Not looked at: ")
		w.MustApply()
		same(t, kind+": what is not known", row(w.Resource("data.berth_" + kind + ".this")["report"]), row(nil))
	}
}
