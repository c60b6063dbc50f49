package argocd

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// ComponentsPath is where a cluster's Applications are in the repository unless the configuration says otherwise (I8).
func ComponentsPath(name string) string { return path.Join("registry", "clusters", name, "components") }

// rootObject is the root Application (I8): it brings every Application of a directory to the management cluster, keeps
// and prunes them, and leaves their finalizers alone, which Argo CD's own deletion and berth's removal set. It has no
// finalizer itself, so that nobody who deletes it takes the cluster's Applications along (I98).
func (s Spec) rootObject() kube.Object {
	app := s.AppOfApps
	object := Applications.New(s.Namespace, RootName(s.Name))
	object.Object["spec"] = map[string]any{
		"project": app.Project,
		"source":  map[string]any{"repoURL": app.RepoURL, "targetRevision": app.Revision, "path": app.Path},
		// The Applications themselves live beside Argo CD; their own destination is the workload cluster.
		"destination": map[string]any{"server": InClusterServer, "namespace": s.Namespace},
		"syncPolicy": map[string]any{
			"automated":   map[string]any{"prune": true, "selfHeal": true},
			"syncOptions": []any{"RespectIgnoreDifferences=true"},
			"retry":       map[string]any{"limit": int64(5), "backoff": map[string]any{"duration": "10s", "factor": int64(2), "maxDuration": "3m"}},
		},
		"ignoreDifferences": []any{map[string]any{"group": Applications.Group, "kind": Applications.Kind, "jsonPointers": []any{"/metadata/finalizers"}}},
	}
	return kube.Object{Kind: Applications, Desired: object}
}

// liveRoot is the root Application; nil when there is none, or the registration has none.
func (s Spec) liveRoot(ctx context.Context, management *cluster.Cluster) (*unstructured.Unstructured, error) {
	if s.AppOfApps == nil {
		return nil, nil
	}
	return management.Live(ctx, Applications, s.Namespace, RootName(s.Name))
}

var readme = template.Must(template.New("README.md").Parse(`# {{.Name}}

Every Application in this directory is deployed by the root Application ` + "`{{.Root}}`" + ` of the management cluster's Argo CD:
a file that is added is created, one that is changed is synced, one that is removed is pruned.

An Application that shall run on this cluster names it as its destination:

` + "```yaml" + `
spec:
  destination:
    {{if .InCluster}}server: {{.Server}}{{else}}name: {{.Name}}{{end}}
    namespace: my-namespace
` + "```" + `

- Sync waves order them: ` + "`{{.Wave}}`" + `, lowest first. A removal of the cluster goes through them from the highest to the lowest.
- Controllers that own load balancers, DNS records or volumes are removed last. Mark one that is not recognised by itself
  with the annotation ` + "`{{.Last}}: \"true\"`" + `.
- An Application with the label ` + "`{{.Zone}}`" + ` is an environment: the cluster is not removed before it is gone.
`))

// GitOpsFiles are the files of the registration for who commits them: path to content (I7, I105). They follow from the
// configuration alone; nil without an app-of-apps.
func (s Spec) GitOpsFiles() (map[string]string, error) {
	if s.AppOfApps == nil {
		return nil, nil
	}
	root, err := yaml.Marshal(s.rootObject().Desired.Object)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = readme.Execute(&text, map[string]any{
		"Name": s.Name, "Root": RootName(s.Name), "InCluster": s.InCluster, "Server": InClusterServer, "Wave": AnnotationWave,
		"Last": AnnotationRemoveLast, "Zone": LabelZone,
	})
	if err != nil {
		return nil, err
	}
	return map[string]string{
		path.Join(s.AppOfApps.ManagementPath, RootName(s.Name)+".yaml"): string(root),
		path.Join(s.AppOfApps.Path, "README.md"):                        text.String(),
	}, nil
}

// rootCondition is the state of the root Application in Argo CD's words.
func rootCondition(root *unstructured.Unstructured) Condition {
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(root.Object, fields...)
		return value
	}
	sync, health := text("status", "sync", "status"), text("status", "health", "status")
	message := text("status", "operationState", "message")
	conditions, _, _ := unstructured.NestedSlice(root.Object, "status", "conditions")
	for _, one := range conditions {
		if fields, ok := one.(map[string]any); ok {
			message = fmt.Sprintf("%v: %v", fields["type"], fields["message"])
			break
		}
	}
	switch {
	case sync == "":
		return Condition{Status: "Unknown", Reason: "NotSeen", Message: "Argo CD has not looked at the root Application yet"}
	case sync == "Synced" && (health == "Healthy" || health == ""):
		return Condition{Status: "True", Reason: sync, Message: message}
	case sync == "Synced":
		return Condition{Status: "False", Reason: health, Message: message}
	}
	return Condition{Status: "False", Reason: sync, Message: message}
}
