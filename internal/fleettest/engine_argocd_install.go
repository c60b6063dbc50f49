package fleettest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// argoCDInstalls are the kinds of Argo CD's manifests that are installed. The others are what would run in pods, and
// what leads to those.
var argoCDInstalls = map[string]schema.GroupVersionResource{
	"CustomResourceDefinition": crds,
	"ServiceAccount":           {Version: "v1", Resource: "serviceaccounts"},
	"ConfigMap":                {Version: "v1", Resource: "configmaps"},
	"Secret":                   {Version: "v1", Resource: "secrets"},
	"Role":                     {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"RoleBinding":              {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	"ClusterRole":              {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding":       {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
}

var appProjects = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "appprojects"}

// argoCDObjects are the objects of the project's own manifests that the engine needs, in their order. They are read from
// the module that the binary was built from, so they always fit it.
var argoCDObjects = sync.OnceValues(func() ([]*unstructured.Unstructured, error) {
	dir, err := ModuleDir(context.Background(), "argocd", argoCDModule)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(filepath.Join(dir, "manifests", "core-install.yaml"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 1<<16); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name(), err)
		}
		if _, wanted := argoCDInstalls[object.GetKind()]; wanted {
			objects = append(objects, object)
		}
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("%s: there is nothing to install in it", file.Name())
	}
	return objects, nil
})

// installArgoCD creates Argo CD's objects: the kinds, the accounts with their permissions, and the settings as upstream
// ships them.
func (c *Cluster) installArgoCD(ctx context.Context) error {
	objects, err := argoCDObjects()
	if err != nil {
		return err
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ArgoCDNamespace},
	}}
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	if _, err := c.dynamic.Resource(namespaces).Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, object := range objects {
		var in string
		switch object.GetKind() {
		case "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding":
		default:
			in = ArgoCDNamespace
		}
		if object.GetName() == "argocd-secret" {
			// The key with which Argo CD's API server, which does not run here, signs its sessions. Without one no
			// program finds its settings complete.
			object = object.DeepCopy()
			object.Object["stringData"] = map[string]any{"server.secretkey": rand.Text()}
		}
		client := c.dynamic.Resource(argoCDInstalls[object.GetKind()])
		if _, err := client.Namespace(in).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// argoCDServes waits until the API server serves Argo CD's kinds and tells of them in both forms of its discovery, which
// come later: a controller that does not find its kind looks again only after ten seconds.
func (c *Cluster) argoCDServes(ctx context.Context) error {
	group := appProjects.GroupVersion()
	return eventually(ctx, bootTimeout, func(ctx context.Context) error {
		_, lists, err := c.client.Discovery().ServerGroupsAndResources()
		if err != nil {
			return err
		}
		alone, err := c.client.Discovery().ServerResourcesForGroupVersion(group.String())
		if err != nil {
			return err
		}
		told := map[string]int{}
		for _, list := range append(lists, alone) {
			for _, resource := range list.APIResources {
				if list.GroupVersion == group.String() {
					told[resource.Name]++
				}
			}
		}
		for _, name := range []string{"applications", "applicationsets", "appprojects"} {
			if told[name] < 2 {
				return fmt.Errorf("discovery does not tell of %s", name)
			}
			if _, err := c.dynamic.Resource(group.WithResource(name)).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
				return err
			}
		}
		return nil
	})
}

// createDefaultProject creates the project "default" as Argo CD's API server, which does not run here, would. It takes
// two seconds, for which the API server holds up the first objects of a new kind.
func (c *Cluster) createDefaultProject(ctx context.Context) error {
	project := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": map[string]any{"name": "default"},
		"spec": map[string]any{
			"sourceRepos":              []any{"*"},
			"destinations":             []any{map[string]any{"server": "*", "namespace": "*"}},
			"clusterResourceWhitelist": []any{map[string]any{"group": "*", "kind": "*"}},
		},
	}}
	return eventually(ctx, bootTimeout, func(ctx context.Context) error {
		_, err := c.dynamic.Resource(appProjects).Namespace(ArgoCDNamespace).Create(ctx, project, metav1.CreateOptions{})
		return err
	})
}
