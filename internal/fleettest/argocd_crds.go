package fleettest

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// InstallArgoCDCRDs creates Argo CD's kinds without Argo CD, for tests that need none of what it does, and waits until they
// are served. Those that exist stay.
func (c *Cluster) InstallArgoCDCRDs(t testing.TB) {
	t.Helper()
	if err := c.createArgoCDCRDs(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (c *Cluster) createArgoCDCRDs(ctx context.Context) error {
	objects, err := argoCDObjects()
	if err != nil {
		return err
	}
	for _, object := range objects {
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		if _, err := c.dynamic.Resource(crds).Create(ctx, object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return c.argoCDServes(ctx)
}

// CreateArgoCDNamespace creates a namespace with the AppProject "default", as Argo CD has it where it runs. The kinds have
// to be there.
func (c *Cluster) CreateArgoCDNamespace(t testing.TB, name string) {
	t.Helper()
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	if _, err := c.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	project := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": map[string]any{"name": "default"}, "spec": map[string]any{},
	}}
	// The API server holds up the first objects of a new kind for a moment.
	err := eventually(t.Context(), time.Minute, func(ctx context.Context) error {
		_, err := c.dynamic.Resource(appProjects).Namespace(name).Create(ctx, project, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
