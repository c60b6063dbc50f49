package provider_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// The life of a registration with the real Argo CD: plan, apply, what Argo CD makes of it, nothing left to plan, changes
// by hand and their repair, import elsewhere, and a destroy in order (I1, I5 to I10, I13, I17 to I20, I22, I42, I45, I73, I79,
// I83, I87, I98, I100, I101, I104, I105; promises 1, 3, 6, 9 and 10 of the design).
func TestClusterRhythm(t *testing.T) {
	t.Parallel()
	fleet := newArgoFleet(t, "edge")
	b := newArgoBench(t, fleet, "edge", unique("team"), tofutest.Options{})
	b.git.Commit(t, "the cluster's first Application", map[string]string{
		b.components("app.yaml"): b.application(b.name+"-app", "apps/first", 1),
		"apps/first/config.yaml": configMap("default", "first", "one"),
	})
	config := b.accessBlock() + b.clusterBlock(byAccess, b.root(), `secret_labels = { tier = "edge" }`)
	b.use(config)

	plan := b.MustPlan()
	planned := plan.Change(t, edge)
	same(t, "what is known at plan", row(planned.After["id"], planned.After["cluster_uid"], planned.After["management_uid"], planned.After["argocd_secret"], planned.After["kubeconfig_secret"], planned.After["root_application"], planned.After["region"]),
		row("mgmt/edge/"+b.name, b.edge.UID(), b.mgmt.UID(), "argocd/cluster-"+b.name, "berth-clusters/cluster-"+b.name+"-kubeconfig", "argocd/registry-"+b.name, "us-east-1"))
	if b.proxy.Writes() != 0 || b.edgeProxy.Writes() != 0 {
		t.Fatal("the plan wrote to a cluster")
	}

	b.MustApply()
	secret := b.clusterSecret()
	same(t, "Argo CD's Secret", row(secret.Labels["argocd.argoproj.io/secret-type"], secret.Labels["tier"], string(secret.Data["name"]), string(secret.Data["server"])),
		row("cluster", "edge", b.name, b.edge.AdminKubeconfig().Server))
	found := b.config()
	same(t, "its TLS", row(string(found.TLSClientConfig.CAData) == string(b.edge.CA()), found.TLSClientConfig.Insecure, len(found.TLSClientConfig.KeyData)), row(true, false, 0))
	token := secretOn(t, b.edge, "kube-system", b.name+"-token").Data["token"]
	same(t, "its token is the access's", found.BearerToken, string(token))
	b.kubeconfigWorks()
	if state := string(b.StatePull()); strings.Contains(state, found.BearerToken) {
		t.Fatal("the token is in the state (X9)")
	}
	state := b.Resource(edge)
	same(t, "what the cluster says", row(state["kubernetes_version"], state["node_count"], state["argocd_server"]), row(b.edge.Version(), 1, b.edge.AdminKubeconfig().Server))
	same(t, "Connected", state["conditions"].(map[string]any)["Connected"].(map[string]any)["status"], "True")
	same(t, "Registered", state["conditions"].(map[string]any)["Registered"].(map[string]any)["status"], "True")
	files := state["gitops_files"].(map[string]any)
	if len(files) != 2 || !strings.Contains(fmt.Sprint(files["registry/clusters/mgmt/components/registry-"+b.name+".yaml"]), "RespectIgnoreDifferences=true") {
		t.Fatalf("gitops_files: %v", files)
	}
	b.awaitSynced("registry-" + b.name)
	b.awaitSynced(b.name + "-app")
	b.awaitOnEdge("default", "first", "one")
	// A refresh sees what Argo CD has done since.
	b.PlanIsEmpty()
	b.Refresh()
	same(t, "Synced", b.Resource(edge)["conditions"].(map[string]any)["Synced"].(map[string]any)["status"], "True")

	b.kubectl("label", "secret", "-n", "argocd", "cluster-"+b.name, "tier=core", "team=a", "--overwrite")
	b.kubectl("patch", "application", "-n", "argocd", "registry-"+b.name, "--type=merge", "-p", `{"spec":{"source":{"path":"elsewhere"}}}`)
	b.kubectl("delete", "secret", "-n", "berth-clusters", "cluster-"+b.name+"-kubeconfig")
	broken := b.MustPlan().Change(t, edge)
	same(t, "drift", broken.Before["drift"], map[string]any{
		"Secret/argocd/cluster-" + b.name + " metadata.labels.tier":   "core → edge",
		"Application/argocd/registry-" + b.name + " spec.source.path": "elsewhere → registry/clusters/" + b.name + "/components",
		"Secret/berth-clusters/cluster-" + b.name + "-kubeconfig":     "missing → present",
	})
	b.MustApply()
	b.PlanIsEmpty()
	repaired := b.clusterSecret()
	same(t, "repaired, and what is not ours is left", row(repaired.Labels["tier"], repaired.Labels["team"], repaired.UID), row("edge", "a", secret.UID))
	b.kubectl("label", "secret", "-n", "argocd", "cluster-"+b.name, "team-")

	imported := newArgoBench(t, fleet, "edge", b.owner, tofutest.Options{})
	imported.name, imported.git = b.name, b.git
	// Without what an import can't know: deletion_protection is true where nobody says otherwise.
	imported.use(b.accessBlock() + b.clusterBlock(byAccess, b.root(), `secret_labels = { tier = "edge" }`, "deletion_protection = true"))
	imported.MustImport("berth_cluster_access.edge", "edge/kube-system/"+b.name)
	imported.MustImport(edge, "mgmt/edge/"+b.name)
	imported.PlanIsEmpty()

	b.use(b.accessBlock() + b.clusterBlock(byAccess, b.root(), `secret_labels = { tier = "edge" }`, "deletion_protection = true"))
	b.MustApply()
	b.Destroy().Error(t, `^Cluster ".*" is protected from being removed$`, `refusing: .*Nothing was deleted\. Set deletion_protection = false`)
	b.use(config)
	b.MustApply()
	warned := b.MustPlan("-destroy")
	if text := fmt.Sprint(warned.Warnings()); !strings.Contains(text, b.name+"-app") {
		t.Fatalf("the plan of the destroy does not tell of the Application:\n%s", text)
	}
	b.MustDestroy()
	b.gone()
	same(t, "what the Application had deployed", b.onEdge("default", "first"), "")
}

// kubeconfigWorks fails the test unless the stored kubeconfig holds this one cluster and is accepted there.
func (b *argoBench) kubeconfigWorks() {
	b.t.Helper()
	content := secretOn(b.t, b.mgmt, "berth-clusters", "cluster-"+b.name+"-kubeconfig").Data["kubeconfig"]
	config, err := clientcmd.Load(content)
	if err != nil {
		b.t.Fatal(err)
	}
	same(b.t, "the kubeconfig", row(len(config.Clusters), len(config.AuthInfos), len(config.Contexts), config.CurrentContext), row(1, 1, 1, b.name))
	rest, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		b.t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		b.t.Fatal(err)
	}
	namespace, err := client.CoreV1().Namespaces().Get(b.t.Context(), "kube-system", metav1.GetOptions{})
	if err != nil || string(namespace.UID) != b.edge.UID() {
		b.t.Fatalf("the kubeconfig leads to %v: %v", namespace, err)
	}
}

// gone fails the test unless nothing of the registration is left on either cluster.
func (b *argoBench) gone() {
	b.t.Helper()
	if b.clusterSecret() != nil || secretOn(b.t, b.mgmt, "berth-clusters", "cluster-"+b.name+"-kubeconfig") != nil || b.app("registry-"+b.name) != nil {
		b.t.Fatal("something of the registration is left on the management cluster")
	}
	fleettest.Eventually(b.t, func(ctx context.Context) error {
		_, err := b.edge.Client().CoreV1().ServiceAccounts("kube-system").Get(ctx, b.name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the ServiceAccount is still there: %w", err)
		}
		return nil
	})
}
