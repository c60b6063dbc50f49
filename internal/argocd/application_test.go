package argocd

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// applicationOf reads an Application from YAML; kind, namespace argocd and what else every one has are added.
func applicationOf(t *testing.T, name, manifest string) Application {
	t.Helper()
	live := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal([]byte(manifest), &live.Object); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if live.Object == nil {
		live.Object = map[string]any{}
	}
	live.SetAPIVersion("argoproj.io/v1alpha1")
	live.SetKind("Application")
	live.SetName(name)
	if live.GetNamespace() == "" {
		live.SetNamespace("argocd")
	}
	// As JSON has numbers, and so the API server.
	body, err := live.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	read := &unstructured.Unstructured{}
	if err := read.UnmarshalJSON(body); err != nil {
		t.Fatal(err)
	}
	return readApplication(read)
}

// What an inventory and a removal read of an Application (I74, I75, Y25).
func TestReadApplication(t *testing.T) {
	t.Parallel()
	a := applicationOf(t, "web", `
metadata:
  uid: 1-2-3
  labels: {berth.dev/zone: eu, berth.dev/product: shop, berth.dev/environment: release, berth.dev/org: acme}
  annotations: {argocd.argoproj.io/sync-wave: "-3"}
  ownerReferences: [{apiVersion: argoproj.io/v1alpha1, kind: ApplicationSet, name: everything, uid: u}]
spec:
  project: shop
  destination: {name: edge, namespace: shop}
status:
  sync: {status: OutOfSync}
  health: {status: Degraded}
  resources:
  - {kind: Service, version: v1, namespace: shop, name: web}
  - {group: apps, kind: Deployment, version: v1, namespace: shop, name: web, requiresDeletionConfirmation: true}
  - {group: apiextensions.k8s.io, kind: CustomResourceDefinition, version: v1, name: shops.example.com}
`)
	for what, pair := range map[string][2]any{
		"uid": {string(a.UID), "1-2-3"}, "wave": {a.Wave, -3}, "project": {a.Project, "shop"},
		"destination": {a.destination(), "edge, namespace shop"}, "state": {a.state(), "OutOfSync, Degraded"},
		"set": {a.ApplicationSet, "everything"}, "parent": {a.Parent, ""},
		"zone": {a.environment(), "zone eu of product shop (environment release, namespace shop, Application argocd/web)"},
		"org":  {a.Org, "acme"}, "resources": {len(a.Resources), 3},
		"remains": {a.remains(), "Application argocd/web (to edge, namespace shop): Service/shop/web, Deployment.apps/shop/web, CustomResourceDefinition.apiextensions.k8s.io/shops.example.com"},
		"whose":   {a.whose(), "argocd/web, of ApplicationSet argocd/everything, to edge, namespace shop"},
		"confirm": {a.Resources[1].Confirm && !a.Resources[0].Confirm, true},
	} {
		want(t, what, pair[0], pair[1])
	}
	bare := applicationOf(t, "bare", `{}`)
	want(t, "the state of one that Argo CD has not seen", bare.state(), "not compared yet, health unknown")
	want(t, "the destination of one without", bare.destination(), "no cluster")
	want(t, "remains of one without status", bare.remains(), "Application argocd/bare (to no cluster): no resource that Argo CD knew of")
	want(t, "a wave that is no number", applicationOf(t, "odd", `metadata: {annotations: {argocd.argoproj.io/sync-wave: first}}`).Wave, 0)
}

// Whose resource an Application is, by Argo CD's tracking: an annotation that was copied along names another object.
func TestParent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ metadata, parent string }{
		"annotation":          {`annotations: {argocd.argoproj.io/tracking-id: "registry-edge:argoproj.io/Application:argocd/web"}`, "registry-edge"},
		"other namespace":     {`annotations: {argocd.argoproj.io/tracking-id: "team_apps:argoproj.io/Application:argocd/web"}`, "team_apps"},
		"copied name":         {`annotations: {argocd.argoproj.io/tracking-id: "registry-edge:argoproj.io/Application:argocd/other"}`, ""},
		"copied kind":         {`annotations: {argocd.argoproj.io/tracking-id: "registry-edge:/ConfigMap:argocd/web"}`, ""},
		"garbage":             {`annotations: {argocd.argoproj.io/tracking-id: "registry-edge"}`, ""},
		"label":               {`labels: {app.kubernetes.io/instance: registry-edge}`, "registry-edge"},
		"label and copy":      {`{labels: {app.kubernetes.io/instance: registry-edge}, annotations: {argocd.argoproj.io/tracking-id: "x:argoproj.io/Application:argocd/other"}}`, ""},
		"nothing":             {`labels: {}`, ""},
		"annotation on label": {`{labels: {app.kubernetes.io/instance: theirs}, annotations: {argocd.argoproj.io/tracking-id: "registry-edge:argoproj.io/Application:argocd/web"}}`, "registry-edge"},
	} {
		metadata := c.metadata
		if !strings.HasPrefix(metadata, "{") {
			metadata = "{" + metadata + "}"
		}
		want(t, name, applicationOf(t, "web", "metadata: "+metadata).Parent, c.parent)
	}
}

// Which finalizers make a deletion cascade, and which ones Argo CD works on at all (I98).
func TestFinalizers(t *testing.T) {
	t.Parallel()
	for finalizer, c := range map[string]struct{ cascade, argo bool }{
		"resources-finalizer.argocd.argoproj.io":            {true, true},
		"resources-finalizer.argocd.argoproj.io/background": {true, true},
		"resources-finalizer.argocd.argoproj.io/foreground": {true, true},
		"post-delete-finalizer.argocd.argoproj.io":          {false, true},
		"post-delete-finalizer.argocd.argoproj.io/cleanup":  {false, true},
		"resources-finalizer.argocd.argoproj.iox":           {false, false},
		"example.com/theirs":                                {false, false},
	} {
		want(t, finalizer+" cascades", isCascade(finalizer), c.cascade)
		want(t, finalizer+" is Argo CD's", isOfArgoCD(finalizer), c.argo)
	}
}
