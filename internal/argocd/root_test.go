package argocd

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// The files of a registration, for who commits them: they follow from the configuration, and the root's is what berth itself
// would apply (I7, I8, I105).
func TestGitOpsFiles(t *testing.T) {
	t.Parallel()
	spec := Spec{Name: "edge", Namespace: "argocd", AppOfApps: &AppOfApps{
		RepoURL: "https://git.example.com/a.git", Revision: "main", Path: ComponentsPath("edge"), ManagementPath: ComponentsPath("mgmt"), Project: "fleet", Commit: true,
	}}
	files, err := spec.GitOpsFiles()
	if err != nil {
		t.Fatal(err)
	}
	want(t, "paths", slices.Sorted(maps.Keys(files)), []string{"registry/clusters/edge/components/README.md", "registry/clusters/mgmt/components/registry-edge.yaml"})
	root := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(files["registry/clusters/mgmt/components/registry-edge.yaml"]), &root.Object); err != nil {
		t.Fatal(err)
	}
	if differences := spec.rootObject().Compare(root); len(differences) > 0 {
		t.Errorf("the file is not what berth applies: %v", differences)
	}
	readme := files["registry/clusters/edge/components/README.md"]
	want(t, "the README begins", strings.HasPrefix(readme, "# edge\n\nEvery Application in this directory is deployed by the root Application `registry-edge`"), true)
	want(t, "the destination", strings.Contains(readme, "  destination:\n    name: edge\n    namespace: my-namespace\n"), true)
	spec.InCluster = true
	if files, err = spec.GitOpsFiles(); err != nil {
		t.Fatal(err)
	}
	readme = files["registry/clusters/edge/components/README.md"]
	want(t, "the destination of the management cluster itself", strings.Contains(readme, "  destination:\n    server: https://kubernetes.default.svc\n    namespace: my-namespace\n"), true)
	spec.AppOfApps = nil
	files, err = spec.GitOpsFiles()
	want(t, "without an app-of-apps", []any{files, err}, []any{map[string]string(nil), error(nil)})
}

// Synced is what Argo CD says, in its words (I10).
func TestRootCondition(t *testing.T) {
	t.Parallel()
	for what, one := range map[string]struct {
		status string
		want   Condition
	}{
		"not looked at": {`{}`, Condition{"Unknown", "NotSeen", "Argo CD has not looked at the root Application yet"}},
		"well":          {`{"sync":{"status":"Synced"},"health":{"status":"Healthy"},"operationState":{"message":"successfully synced"}}`, Condition{"True", "Synced", "successfully synced"}},
		"no health yet": {`{"sync":{"status":"Synced"}}`, Condition{"True", "Synced", ""}},
		"degraded":      {`{"sync":{"status":"Synced"},"health":{"status":"Degraded"}}`, Condition{"False", "Degraded", ""}},
		"out of sync":   {`{"sync":{"status":"OutOfSync"},"health":{"status":"Healthy"},"operationState":{"message":"one of them failed"}}`, Condition{"False", "OutOfSync", "one of them failed"}},
		"an error":      {`{"sync":{"status":"Unknown"},"conditions":[{"type":"ComparisonError","message":"repository not found"}],"operationState":{"message":"old"}}`, Condition{"False", "Unknown", "ComparisonError: repository not found"}},
	} {
		root := Applications.New("argocd", "registry-edge")
		var status map[string]any
		if err := yaml.Unmarshal([]byte(one.status), &status); err != nil {
			t.Fatal(err)
		}
		root.Object["status"] = status
		want(t, what, rootCondition(root), one.want)
	}
}
