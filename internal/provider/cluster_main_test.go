package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berthdev/terraform-provider-berth/internal/argocd"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// edge is the address of the berth_cluster of a test.
const edge = "berth_cluster.edge"

// argoBench is a workspace with a management cluster, on which the real Argo CD runs, and a workload cluster, each
// reached through a proxy of its own, and a repository that Argo CD deploys from.
type argoBench struct {
	*bench     // on the management cluster
	mgmt, edge *fleettest.Cluster
	// edgeProxy is the workload cluster's; that of the management cluster is the bench's.
	edgeProxy *fleettest.Proxy
	git       *fleettest.GitRepository
	name      string
}

// newArgoFleet boots a management cluster with Argo CD, and workload clusters by their names.
func newArgoFleet(t testing.TB, names ...string) *fleettest.Fleet {
	t.Helper()
	specs := []fleettest.ClusterSpec{{Name: "mgmt", Engines: []fleettest.Engine{fleettest.EngineArgoCD}}}
	for _, name := range names {
		specs = append(specs, fleettest.ClusterSpec{
			Name: name, LoadBalancer: fleettest.LoadBalancerIP, Nodes: []fleettest.NodeSpec{{Name: name + "-node-1", Labels: map[string]string{"topology.kubernetes.io/region": "us-east-1"}}},
			StorageClasses: []fleettest.StorageClassSpec{{Name: "standard", Default: true}},
		})
	}
	fleet := fleettest.New(t, specs...)
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(fleet.Cluster("mgmt").ArgoCD().Log())
			t.Logf("Argo CD's log ends with:\n%s", log[max(0, len(log)-3000):])
		}
	})
	return fleet
}

// newArgoBench is a workspace on such a fleet, whose entries are "mgmt" and "edge". The registered cluster has a name of
// its own.
func newArgoBench(t *testing.T, fleet *fleettest.Fleet, workload, owner string, options tofutest.Options, more ...string) *argoBench {
	t.Helper()
	mgmt, edge := fleet.Cluster("mgmt"), fleet.Cluster(workload)
	mgmtProxy, edgeProxy := mgmt.Proxy(t, fleettest.ProxyOptions{}), edge.Proxy(t, fleettest.ProxyOptions{})
	b := &argoBench{
		bench: &bench{Workspace: tofutest.New(t, options), t: t, cluster: mgmt, proxy: mgmtProxy, owner: owner},
		mgmt:  mgmt, edge: edge, edgeProxy: edgeProxy, git: fleettest.NewGitRepository(t), name: unique("edge"),
	}
	b.block = providerBlock(owner, clusters{"mgmt": byPath(t, mgmtProxy.AdminKubeconfig()), "edge": byPath(t, edgeProxy.AdminKubeconfig())}, more...)
	return b
}

// accessBlock is a berth_cluster_access on the workload cluster with a ServiceAccount of the test's own.
func (b *argoBench) accessBlock(arguments ...string) string {
	return fmt.Sprintf("resource \"berth_cluster_access\" \"edge\" {\ncluster = \"edge\"\nservice_account = %q\n%s\n}\n", b.name, strings.Join(arguments, "\n"))
}

// clusterBlock is a berth_cluster of the workload cluster. server is set to the workload cluster's own address, since
// Argo CD must not depend on a proxy of the test.
func (b *argoBench) clusterBlock(arguments ...string) string {
	text := strings.Join(arguments, "\n")
	for attribute, value := range map[string]string{"deletion_protection": "false", "server": fmt.Sprintf("%q", b.edge.AdminKubeconfig().Server)} {
		if !strings.Contains(text, attribute+" ") {
			text += fmt.Sprintf("\n%s = %s", attribute, value)
		}
	}
	return fmt.Sprintf("resource \"berth_cluster\" \"edge\" {\nmanagement = \"mgmt\"\ncluster = \"edge\"\nname = %q\n%s\n}\n", b.name, text)
}

// byAccess is the argument that has Argo CD get the token of accessBlock's.
const byAccess = "access = berth_cluster_access.edge.id"

// root is the argument for an app-of-apps of the test's repository.
func (b *argoBench) root() string {
	return fmt.Sprintf("app_of_apps = {\nrepo_url = %q\nrevision = \"main\"\n}", b.git.URL())
}

// components is a file of the cluster's directory in the repository.
func (b *argoBench) components(file string) string {
	return argocd.ComponentsPath(b.name) + "/" + file
}

// application is an Application that deploys a directory of the repository to the workload cluster.
func (b *argoBench) application(name, path string, wave int, more ...string) string {
	return fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: %s
  namespace: argocd
  annotations:
    argocd.argoproj.io/sync-wave: "%d"
  finalizers: [resources-finalizer.argocd.argoproj.io]
  %s
spec:
  project: default
  source: {repoURL: %q, targetRevision: main, path: %s}
  destination: {name: %s, namespace: default}
  syncPolicy: {automated: {prune: true, selfHeal: true}}
`, name, wave, strings.Join(more, "\n  "), b.git.URL(), path, b.name)
}

// configMap is a manifest with one value.
func configMap(namespace, name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s}\ndata: {value: %q}\n", name, namespace, value)
}

// secret reads a Secret past the proxies; nil when there is none.
func secretOn(t testing.TB, c *fleettest.Cluster, namespace, name string) *corev1.Secret {
	t.Helper()
	found, err := c.Client().CoreV1().Secrets(namespace).Get(context.Background(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// clusterSecret reads the cluster's Secret past the proxy; nil when there is none.
func (b *argoBench) clusterSecret() *corev1.Secret {
	b.t.Helper()
	return secretOn(b.t, b.mgmt, "argocd", "cluster-"+b.name)
}

// argoConfig is the config of a cluster's Secret.
type argoConfig struct {
	BearerToken     string `json:"bearerToken"`
	TLSClientConfig struct {
		Insecure bool   `json:"insecure"`
		CAData   []byte `json:"caData"`
		CertData []byte `json:"certData"`
		KeyData  []byte `json:"keyData"`
	} `json:"tlsClientConfig"`
}

func (b *argoBench) config() argoConfig {
	b.t.Helper()
	var config argoConfig
	if err := json.Unmarshal(b.clusterSecret().Data["config"], &config); err != nil {
		b.t.Fatal(err)
	}
	return config
}

// app reads an Application past the proxy; nil when there is none.
func (b *argoBench) app(name string) *unstructured.Unstructured {
	b.t.Helper()
	found, err := b.mgmt.Dynamic().Resource(argocd.Applications.GVR()).Namespace("argocd").Get(b.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return found
}

// awaitSynced waits until Argo CD says that an Application is synced and healthy.
func (b *argoBench) awaitSynced(name string) {
	b.t.Helper()
	fleettest.Eventually(b.t, func(context.Context) error {
		app := b.app(name)
		if app == nil {
			return fmt.Errorf("there is no Application %s", name)
		}
		if sync, health := fieldOf(app, "status", "sync", "status"), fieldOf(app, "status", "health", "status"); sync != "Synced" || health != "Healthy" {
			return fmt.Errorf("application %s is %v and %v: %v", name, sync, health, fieldOf(app, "status", "conditions"))
		}
		return nil
	})
}

// onEdge reads a value of a ConfigMap on the workload cluster; "" when there is none.
func (b *argoBench) onEdge(namespace, name string) string {
	b.t.Helper()
	found, err := b.edge.Client().CoreV1().ConfigMaps(namespace).Get(b.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return found.Data["value"]
}

// awaitOnEdge waits until a ConfigMap on the workload cluster has a value; "" waits until it is gone.
func (b *argoBench) awaitOnEdge(namespace, name, value string) {
	b.t.Helper()
	fleettest.Eventually(b.t, func(context.Context) error {
		if have := b.onEdge(namespace, name); have != value {
			return fmt.Errorf("ConfigMap %s/%s has %q, not %q", namespace, name, have, value)
		}
		return nil
	})
}

// accepted tells whether the workload cluster takes a token.
func (b *argoBench) accepted(token string) bool {
	b.t.Helper()
	config := b.edge.AdminKubeconfig()
	config.ClientCertificate, config.ClientKey, config.Token = nil, nil, token
	ctx, cancel := context.WithTimeout(b.t.Context(), 10*time.Second)
	defer cancel()
	rest, err := clientcmd.RESTConfigFromKubeConfig([]byte(config.Content()))
	if err != nil {
		b.t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		b.t.Fatal(err)
	}
	_, err = client.CoreV1().Namespaces().Get(ctx, "kube-system", metav1.GetOptions{})
	if err != nil && !apierrors.IsUnauthorized(err) {
		b.t.Fatal(err)
	}
	return err == nil
}
