package argocd

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// What a volume is known by outside the cluster, for every kind of source that a cloud has (I78, I94).
func TestVolumes(t *testing.T) {
	t.Parallel()
	volume := func(source, more string) *unstructured.Unstructured {
		return objectOf(t, `{apiVersion: v1, kind: PersistentVolume, metadata: {name: pv, annotations: {pv.kubernetes.io/provisioned-by: x}}, spec: {capacity: {storage: 10Gi}, `+
			`persistentVolumeReclaimPolicy: Delete, storageClassName: gp3, claimRef: {namespace: shop, name: data}, `+source+more+`}}`)
	}
	for source, text := range map[string]string{
		"csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1}": "ebs.csi.aws.com vol-1",
		"awsElasticBlockStore: {volumeID: vol-2}":             "awsElasticBlockStore vol-2",
		"gcePersistentDisk: {pdName: disk}":                   "gcePersistentDisk disk",
		"azureDisk: {diskName: d, diskURI: /disks/d}":         "azureDisk /disks/d",
		"nfs: {server: 192.0.2.1, path: /x}":                  "nfs 192.0.2.1:/x",
		"hostPath: {path: /data}":                             "hostPath /data",
		"local: {path: /mnt}":                                 "local /mnt",
		"fc: {lun: 1}":                                        "pv",
	} {
		all, err := volumes([]*unstructured.Unstructured{volume(source, "")})
		if err != nil {
			t.Fatal(err)
		}
		want(t, source, all[0].String(), "shop/data (10Gi, gp3): "+text)
		want(t, source+" was made for its claim", all[0].Dynamic, true)
		want(t, source+" goes with it", all[0].Policy, "Delete")
	}
	free := volume("hostPath: {path: /data}", "")
	unstructured.RemoveNestedField(free.Object, "spec", "claimRef")
	all, err := volumes([]*unstructured.Unstructured{free})
	want(t, "a volume that no claim has", fmt.Sprint(len(all), err), "0 <nil>")
	odd := volume("hostPath: {path: 7}", "")
	_, err = volumes([]*unstructured.Unstructured{odd})
	if err == nil || !strings.Contains(err.Error(), "reading PersistentVolume pv") {
		t.Errorf("a volume that can't be read: %v", err)
	}
}

// The load balancers among Services, with every address that they have.
func TestLoadBalancers(t *testing.T) {
	t.Parallel()
	service := func(name, spec, status string) *unstructured.Unstructured {
		return objectOf(t, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: %s}, spec: {%s}, status: {loadBalancer: {ingress: [%s]}}}`, name, spec, status))
	}
	all, err := loadBalancers([]*unstructured.Unstructured{
		service("inside", "type: ClusterIP", ""),
		service("web", "type: LoadBalancer", "{hostname: web.example.com}, {ip: 192.0.2.7}"),
		service("new", "type: LoadBalancer", ""),
	})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "load balancers", fmt.Sprint(all), "[shop/web: web.example.com, 192.0.2.7 shop/new: no address yet]")
}

// A long inventory is cut, and says so; an empty one says that.
func TestInventoryLines(t *testing.T) {
	t.Parallel()
	want(t, "nothing", Inventory{}.Lines(), []string{"There is no Application, volume or load balancer on it."})
	var many Inventory
	for i := range 45 {
		many.LoadBalancers = append(many.LoadBalancers, LoadBalancer{Namespace: "shop", Name: fmt.Sprint(i)})
	}
	many.Skipped = []string{"nodes: no rights"}
	lines := many.Lines()
	want(t, "lines", len(lines), 44)
	want(t, "the heading", lines[0], "Load balancers (45):")
	want(t, "the last lines", lines[41:], []string{"  and 5 more", "Not looked at (1):", "  nodes: no rights"})
}

// Every cluster that Argo CD knows, the management cluster first, with what its registration and its Applications say (I3).
func testClusters(x *scene) {
	x.register()
	secret := func(name, data string) {
		x.stage.management.KubectlInput(x.t, fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: %s, namespace: %s, labels: {argocd.argoproj.io/secret-type: cluster}}, stringData: {%s}}`, name, x.spec.Namespace, data), "apply", "-f", "-")
	}
	secret("by-hand", "name: a-north, server: 'https://north.example.com', config: '{}'")
	secret("nameless", "server: 'https://south.example.com', config: '{}'")
	health := func(health string) string { return "status: {health: {status: " + health + "}}" }
	x.add(
		x.application("web", RootName(x.spec.Name), 0, health("Healthy")), x.application("db", RootName(x.spec.Name), 0, health("Progressing")),
		x.application("shop", "", 0, zoned, health("Healthy")),
		x.application("north", "", 0, "spec: {destination: {server: 'https://NORTH.example.com:443'}}", health("Degraded")),
	)
	x.patch(RootName(x.spec.Name), `{"status":{"health":{"status":"Healthy"}}}`)
	// Other tests have Applications in the management cluster too, which count for none of these.
	all, err := ListClusters(x.t.Context(), x.clusters().Management, x.spec.Namespace)
	if err != nil {
		x.t.Fatal(err)
	}
	want(x.t, "clusters", len(all), 4)
	self := all[0]
	want(x.t, "the first", fmt.Sprint(self.Name, self.Management, self.Server, self.Version, self.Nodes, self.Berth, self.Secret), fmt.Sprint("in-cluster", true, InClusterServer, x.stage.management.Version(), 1, false, ""))
	want(x.t, "by hand", all[1], Registered{Name: "a-north", Secret: "by-hand", Server: "https://north.example.com", Nodes: -1, Applications: 1, Health: "Degraded"})
	want(x.t, "ours", all[2], Registered{
		Name: x.spec.Name, Secret: x.spec.SecretName, Server: x.server(), Provider: "aws", Flavor: "eks", Region: "us-east-1", Org: "acme", Version: "v1.33.1", Nodes: 7, Berth: true,
		Applications: 3, HealthyApplications: 2, Zones: 1, HealthyZones: 1, Health: "Progressing",
	})
	want(x.t, "nameless", all[3], Registered{Name: "https://south.example.com", Secret: "nameless", Server: "https://south.example.com", Nodes: -1})

	// Where the management cluster has a Secret of its own, that is its name.
	secret("self", "name: hub, server: 'https://kubernetes.default.svc', config: '{}'")
	if all, err = ListClusters(x.t.Context(), x.clusters().Management, x.spec.Namespace); err != nil {
		x.t.Fatal(err)
	}
	want(x.t, "the first, registered", fmt.Sprintf("%s %v %s %d", all[0].Name, all[0].Management, all[0].Secret, len(all)), "hub true self 4")
	x.proxy.Reset()
	if _, err := ListClusters(x.t.Context(), x.clusters().Management, x.spec.Namespace); err != nil {
		x.t.Fatal(err)
	}
	want(x.t, "the cost", x.proxy.Counts(), map[string]int{"list secrets": 1, "list applications.argoproj.io": 1, "list nodes": 1, "get /version": 1})

	_, err = ListClusters(x.t.Context(), x.clusters().Workload, x.spec.Namespace)
	told(x.t, err, `There is no Argo CD on cluster "work"`, "does not serve Applications", "Name the cluster that Argo CD runs in.")
	x.readOnly()
}

// readOnly is the inventory for who may read only Argo CD's own namespace, and nothing of the nodes.
func (x *scene) readOnly() {
	x.t.Helper()
	user := "reader-" + x.spec.Name
	x.stage.management.KubectlInput(x.t, fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: %[1]s}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [get, list]}
- {apiGroups: [argoproj.io], resources: [applications], verbs: [get, list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[2]s}]
`, x.spec.Namespace, user), "apply", "-f", "-")
	config := x.stage.management.UserKubeconfig(x.t, user)
	fleet := cluster.NewFleet(cluster.Settings{Owner: "reader", Entries: map[string]cluster.Entry{"mgmt": {Kubeconfig: config.Content()}}})
	limited, err := fleet.Cluster("mgmt")
	if err != nil {
		x.t.Fatal(err)
	}
	all, err := ListClusters(x.t.Context(), limited, x.spec.Namespace)
	if err != nil {
		x.t.Fatal(err)
	}
	want(x.t, "clusters for who may read one namespace", fmt.Sprint(len(all), all[0].Nodes), "4 -1")
	inventory, err := TakeInventory(x.t.Context(), Clusters{Management: limited, Workload: limited}, x.spec, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	want(x.t, "waves for who may read one namespace", len(inventory.Waves), 1)
	want(x.t, "what is not known", len(inventory.Skipped), 4)
	contains(x.t, strings.Join(inventory.Skipped, "\n"), "whether it is the registered cluster: ", "nodes: ", "volumes: ", "load balancers: ", "persistentvolumes")
}
