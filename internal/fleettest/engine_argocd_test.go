package fleettest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

var applications = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}

// The real Argo CD deploys to another cluster of the fleet what an app of apps in git says (I6, I8, I63), follows a
// commit, prunes, repairs and goes on where it was killed; an app of apps that goes without its finalizer leaves what it
// manages (I83), one with it takes that down (I98). ApplicationSets have their controller.
func TestArgoCD(t *testing.T) {
	began := time.Now()
	step := func(what string) {
		t.Logf("%s: %s", what, time.Since(began).Round(100*time.Millisecond))
		began = time.Now()
	}
	fleet := fleettest.New(t,
		fleettest.ClusterSpec{Name: "hub", ControlPlaneOnly: true, Controllers: true, Engines: []fleettest.Engine{fleettest.EngineArgoCD}},
		fleettest.ClusterSpec{Name: "eu-1", ControlPlaneOnly: true, Controllers: true})
	hub, eu := fleet.Cluster("hub"), fleet.Cluster("eu-1")
	t.Cleanup(func() {
		for _, path := range hub.ArgoCD().Logs() {
			if t.Failed() {
				log, _ := os.ReadFile(path)
				t.Logf("%s ends with:\n%s", path, log[max(0, len(log)-4000):])
			}
		}
	})
	if eu.ArgoCD() != nil {
		t.Error("Argo CD runs on a cluster that did not ask for it")
	}
	step("booted")

	git := fleettest.NewGitRepository(t)
	git.Commit(t, "Begin", map[string]string{
		"root/child.yaml":  application("child", git.URL(), "child", "{name: eu-1, namespace: default}"),
		"child/one.yaml":   configMap("one", "1"),
		"child/extra.yaml": configMap("extra", "1"),
		"set/set.yaml":     configMap("set", "1"),
	})
	hub.KubectlInput(t, clusterSecret(t, eu, "eu-1"), "apply", "-f", "-")
	root := application("root", git.URL(), "root", "{server: 'https://kubernetes.default.svc', namespace: argocd}")
	hub.KubectlInput(t, root, "apply", "-f", "-")
	waitSynced(t, hub, "root")
	waitSynced(t, hub, "child")
	one := waitConfigMap(t, eu, "one", "1")
	waitConfigMap(t, eu, "extra", "1")
	if id := one.Annotations["argocd.argoproj.io/tracking-id"]; id != "child:/ConfigMap:default/one" {
		t.Errorf("what Argo CD deployed has the tracking ID %q", id)
	}
	step("deployed")

	hub.ArgoCD().Kill(t)
	hash := git.Commit(t, "Change one, drop extra", map[string]string{"child/one.yaml": configMap("one", "2"), "child/extra.yaml": ""})
	one = waitConfigMap(t, eu, "one", "2")
	waitNoConfigMap(t, eu, "extra")
	child := waitSynced(t, hub, "child")
	if revision, _, _ := unstructured.NestedString(child.Object, "status", "sync", "revision"); revision != hash {
		t.Errorf("the child is at revision %s, want %s", revision, hash)
	}
	step("killed, and followed a commit")
	eu.Kubectl(t, "patch", "configmap", "one", "--type=merge", "-p", `{"data":{"key":"by hand"}}`)
	waitConfigMap(t, eu, "one", "2")
	step("repaired")

	hub.KubectlInput(t, applicationSet(git.URL()), "apply", "-f", "-")
	waitConfigMap(t, eu, "set", "1")
	if owners := waitSynced(t, hub, "set-eu-1").GetOwnerReferences(); len(owners) != 1 || owners[0].Kind != "ApplicationSet" {
		t.Errorf("the owners of set-eu-1 are %v", owners)
	}
	hub.Kubectl(t, "delete", "applicationset", "set", "-n", "argocd")
	waitNoConfigMap(t, eu, "set")
	step("ApplicationSet came and went")

	hub.Kubectl(t, "patch", "application", "root", "-n", "argocd", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	hub.Kubectl(t, "delete", "application", "root", "-n", "argocd")
	left := waitSynced(t, hub, "child")
	if left.GetUID() != child.GetUID() || left.GetAnnotations()["argocd.argoproj.io/tracking-id"] != "root:argoproj.io/Application:argocd/child" {
		t.Errorf("the child is %v after its app of apps, want it as it was", left.Object["metadata"])
	}
	if now := waitConfigMap(t, eu, "one", "2"); now.UID != one.UID {
		t.Error("what the child deployed was deployed anew")
	}
	hub.KubectlInput(t, root, "apply", "-f", "-")
	waitSynced(t, hub, "root")
	step("app of apps removed alone, and put back")

	hub.Kubectl(t, "delete", "application", "root", "-n", "argocd", "--timeout=60s")
	waitNoConfigMap(t, eu, "one")
	fleettest.Eventually(t, func(ctx context.Context) error {
		list, err := hub.Dynamic().Resource(applications).List(ctx, metav1.ListOptions{})
		return unless(err, err == nil && len(list.Items) == 0, "there are still applications: %v", list)
	})
	step("taken down")
}

// waitSynced waits until an Application is Synced and Healthy, and returns it.
func waitSynced(t *testing.T, c *fleettest.Cluster, name string) *unstructured.Unstructured {
	t.Helper()
	var app *unstructured.Unstructured
	fleettest.Eventually(t, func(ctx context.Context) (err error) {
		app, err = c.Dynamic().Resource(applications).Namespace(fleettest.ArgoCDNamespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		sync, _, _ := unstructured.NestedString(app.Object, "status", "sync", "status")
		health, _, _ := unstructured.NestedString(app.Object, "status", "health", "status")
		return unless(nil, sync == "Synced" && health == "Healthy", "application %s is %s and %s: %v", name, sync, health, app.Object["status"])
	})
	return app
}

func waitConfigMap(t *testing.T, c *fleettest.Cluster, name, value string) *corev1.ConfigMap {
	t.Helper()
	var config *corev1.ConfigMap
	fleettest.Eventually(t, func(ctx context.Context) (err error) {
		config, err = c.Client().CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{})
		return unless(err, err == nil && config.Data["key"] == value, "config map %s is %v, want %s", name, config.Data, value)
	})
	return config
}

func waitNoConfigMap(t *testing.T, c *fleettest.Cluster, name string) {
	t.Helper()
	fleettest.Eventually(t, func(ctx context.Context) error {
		_, err := c.Client().CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{})
		return unless(nil, apierrors.IsNotFound(err), "config map %s: %v, want it gone", name, err)
	})
}

// application is an Application that follows a folder of a repository and takes down what it deployed.
func application(name, repository, path, destination string) string {
	return fmt.Sprintf(`
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: %s
  namespace: argocd
  finalizers: [resources-finalizer.argocd.argoproj.io]
spec:
  project: default
  source: {repoURL: %s, path: %s, targetRevision: main}
  destination: %s
  syncPolicy: {automated: {prune: true, selfHeal: true}}
`, name, repository, path, destination)
}

// applicationSet deploys the folder "set" to each cluster that has a Secret.
func applicationSet(repository string) string {
	return fmt.Sprintf(`
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata:
  name: set
  namespace: argocd
spec:
  generators:
  - clusters: {selector: {matchLabels: {argocd.argoproj.io/secret-type: cluster}}}
  template:
    metadata:
      name: 'set-{{name}}'
      finalizers: [resources-finalizer.argocd.argoproj.io]
    spec:
      project: default
      source: {repoURL: %s, path: set, targetRevision: main}
      destination: {name: '{{name}}', namespace: default}
      syncPolicy: {automated: {}}
`, repository)
}

func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {key: %q}\n", name, value)
}

// clusterSecret registers a cluster as Argo CD wants it, with a token that may do everything there.
func clusterSecret(t *testing.T, c *fleettest.Cluster, name string) string {
	t.Helper()
	access := c.ServiceAccountKubeconfig(t, "kube-system/argocd-manager")
	c.Kubectl(t, "create", "clusterrolebinding", "argocd-manager", "--clusterrole=cluster-admin", "--serviceaccount=kube-system:argocd-manager")
	config, err := json.Marshal(map[string]any{
		"bearerToken": access.Token, "tlsClientConfig": map[string]any{"caData": access.CA},
	})
	if err != nil {
		t.Fatal(err)
	}
	secret, err := json.Marshal(&corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "cluster-" + name, Namespace: fleettest.ArgoCDNamespace,
			Labels: map[string]string{"argocd.argoproj.io/secret-type": "cluster"},
		},
		StringData: map[string]string{"name": name, "server": access.Server, "config": string(config)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(secret)
}
