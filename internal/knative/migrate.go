package knative

import (
	"context"
	"encoding/json"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// migrate has every object of Serving's CRDs stored in the version that its CRD now stores, and then takes the former
// versions out of status.storedVersions: otherwise a later release could not drop them. Knative's own Job for this does
// the same; where it was quicker, nothing is left to do.
func migrate(ctx context.Context, c *cluster.Cluster) error {
	names, err := former(ctx, c)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := retried(ctx, func() error { return migrateCRD(ctx, c, name) }); err != nil {
			return err
		}
	}
	return nil
}

// former are the CRDs of Serving that say of more than one version that objects may be stored in it.
func former(ctx context.Context, c *cluster.Cluster) ([]string, error) {
	crds, err := c.Select(ctx, CRDs, "", labelName+"=knative-serving", "")
	var names []string
	for _, crd := range crds {
		if stored, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions"); len(stored) > 1 {
			names = append(names, crd.GetName())
		}
	}
	return names, err
}

// migrateCRD migrates one CRD; the error satisfies IsConflict where the CRD changed in the meantime.
func migrateCRD(ctx context.Context, c *cluster.Cluster, name string) error {
	crd, err := c.Fetch(ctx, CRDs, "", name)
	if err != nil || crd == nil {
		return err
	}
	kind, stored := storageOf(crd)
	former, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
	if kind.Version == "" || !stored || len(former) == 1 && former[0] == kind.Version {
		return nil
	}
	c.Progress(ctx, kube.Describe(crd), "migrate", "its objects are stored anew as "+kind.Version)
	if err := storeAnew(ctx, c, kind); err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": crd.GetResourceVersion()},
		"status":   map[string]any{"storedVersions": []string{kind.Version}},
	})
	if err != nil {
		return err
	}
	_, err = c.PatchStatus(ctx, CRDs, "", name, types.MergePatchType, patch, kube.FieldManager)
	return err
}

// storageOf is the kind that a CRD stores, and whether its storage version is in its status yet.
func storageOf(crd *unstructured.Unstructured) (kind cluster.Kind, stored bool) {
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(crd.Object, append([]string{"spec"}, fields...)...)
		return value
	}
	kind = cluster.Kind{Group: text("group"), Resource: text("names", "plural"), Kind: text("names", "kind"), Namespaced: text("scope") == "Namespaced"}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, item := range versions {
		version, _ := item.(map[string]any)
		if version["storage"] == true {
			kind.Version, _ = version["name"].(string)
		}
	}
	have, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
	return kind, slices.Contains(have, kind.Version)
}

// storeAnew writes every object of a kind as it is: the API server stores it in the current version.
func storeAnew(ctx context.Context, c *cluster.Cluster, kind cluster.Kind) error {
	objects, err := c.SelectMetadata(ctx, kind, "", "", "")
	if err != nil {
		return err
	}
	for _, one := range objects {
		_, err := c.MergePatch(ctx, kind, one.GetNamespace(), one.GetName(), []byte(`{}`), kube.FieldManager)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
