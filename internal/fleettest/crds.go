package fleettest

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// crds is the resource of CustomResourceDefinitions.
var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// InstallCRDs creates n CustomResourceDefinitions, widget0 and so on, spread over groups of ten
// (group0.fleettest.example.com), as a cluster with many operators has, and waits until all are Established. Those
// that exist stay.
func (c *Cluster) InstallCRDs(t testing.TB, n int) {
	t.Helper()
	client := c.dynamic.Resource(crds)
	for i := range n {
		_, err := client.Create(t.Context(), widget(i), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	Eventually(t, func(ctx context.Context) error {
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		established := map[string]bool{}
		for _, crd := range list.Items {
			established[crd.GetName()] = isEstablished(crd)
		}
		for i := range n {
			if name := widget(i).GetName(); !established[name] {
				return fmt.Errorf("CustomResourceDefinition %q is not Established", name)
			}
		}
		return nil
	})
}

func isEstablished(crd unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, condition := range conditions {
		if c, ok := condition.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
			return true
		}
	}
	return false
}

func widget(i int) *unstructured.Unstructured {
	singular := fmt.Sprintf("widget%d", i)
	group := fmt.Sprintf("group%d.fleettest.example.com", i/10)
	text := map[string]any{"type": "string"}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1",
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": singular + "s." + group},
		"spec": map[string]any{
			"group": group,
			"scope": "Namespaced",
			"names": map[string]any{"kind": fmt.Sprintf("Widget%d", i), "singular": singular, "plural": singular + "s"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object",
					"properties": map[string]any{
						"spec": map[string]any{"type": "object", "properties": map[string]any{"color": text, "size": text}},
					},
				}},
			}},
		},
	}}
}
