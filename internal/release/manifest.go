package release

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// The marks that Helm writes on what it renders. Source: Helm's ownership validation.
const (
	helmManagedBy    = "Helm"
	helmName         = "meta.helm.sh/release-name"
	helmNamespace    = "meta.helm.sh/release-namespace"
	helmHook         = "helm.sh/hook"
	helmPolicy       = "helm.sh/resource-policy"
	helmKeep         = "keep"
	helmSelector     = kube.LabelManagedBy + "=" + helmManagedBy
	annotationIgnore = "berth.dev/ignore-drift"
)

// kindOfCRD is that of CustomResourceDefinitions.
var kindOfCRD = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// object is one object of a release's manifest.
type object struct {
	*unstructured.Unstructured
	kind cluster.Kind
}

// key names the object as `objects` and `drift` do.
func (o object) key() string { return kube.Name(o.GetKind(), o.GetNamespace(), o.GetName()) }

// same tells whether two are one object to the API server, whatever version they are written in.
func (o object) same(other object) bool {
	return o.kind.Group == other.kind.Group && o.GetKind() == other.GetKind() && o.GetNamespace() == other.GetNamespace() && o.GetName() == other.GetName()
}

// keeps tells whether an uninstall leaves the object, because its manifest says so.
func keeps(one *unstructured.Unstructured) bool { return one.GetAnnotations()[helmPolicy] == helmKeep }

// parseManifest reads the objects of a manifest in its order, lists flattened. The error names the document.
func parseManifest(manifest string) ([]*unstructured.Unstructured, error) {
	documents := releaseutil.SplitManifests(manifest)
	keys := slices.Collect(maps.Keys(documents))
	slices.SortFunc(keys, func(a, b string) int { return manifestNumber(a) - manifestNumber(b) })
	var objects []*unstructured.Unstructured
	for _, key := range keys {
		var content map[string]any
		if err := yaml.Unmarshal([]byte(documents[key]), &content); err != nil {
			return nil, fmt.Errorf("document %d of the manifest is not YAML: %w", manifestNumber(key)+1, err)
		}
		if len(content) == 0 {
			continue
		}
		one := &unstructured.Unstructured{Object: content}
		if !one.IsList() {
			objects = append(objects, one)
			continue
		}
		// The function never fails, so the iteration does not.
		_ = one.EachListItem(func(item runtime.Object) error {
			objects = append(objects, item.(*unstructured.Unstructured))
			return nil
		})
	}
	for _, one := range objects {
		if one.GetKind() == "" || one.GetAPIVersion() == "" || one.GetName() == "" {
			return nil, fmt.Errorf("an object of the manifest has no apiVersion, kind or metadata.name (%s %q)", one.GetKind(), one.GetName())
		}
	}
	return objects, nil
}

// manifestNumber is the position of a document: SplitManifests calls the nth one manifest-n.
func manifestNumber(key string) int {
	number := 0
	_, _ = fmt.Sscanf(key, "manifest-%d", &number)
	return number
}

// resolve finds out what each object is to the API server, and puts those of namespaced kinds that name no namespace into
// the release's. A kind that the API server does not have yet is looked for among the CRDs that come with it, and among
// those that the plan being made brings; one that is nowhere is an error.
func resolve(ctx context.Context, c *cluster.Cluster, ref Ref, objects, crds []*unstructured.Unstructured) ([]object, error) {
	resolved, missing, err := resolveKnown(ctx, c, ref, objects, crds)
	if err == nil && len(missing) > 0 {
		err = kindsMissing(c, ref, missing)
	}
	return resolved, err
}

func kindsMissing(c *cluster.Cluster, ref Ref, missing []string) error {
	return &cluster.Problem{
		Summary: fmt.Sprintf("%s needs kinds that the cluster does not have", capital(ref.String())),
		Detail: fmt.Sprintf("refusing: %s does not serve %s, and the chart brings no CRD for it. Nothing was applied. Install first what brings the CRDs (with depends_on where it is in this configuration), or use a chart that is made for this version of Kubernetes.",
			c.Context(), strings.Join(missing, ", ")),
	}
}

// resolveKnown is resolve for objects some of whose kinds may be gone: those are named in the second result.
func resolveKnown(ctx context.Context, c *cluster.Cluster, ref Ref, objects, crds []*unstructured.Unstructured) (resolved []object, missing []string, err error) {
	brought := kindsOf(append(slices.Clone(crds), objects...))
	maps.Copy(brought, c.PlannedKinds())
	for _, one := range objects {
		gvk := one.GroupVersionKind()
		kind, found := brought[gvk]
		if !found {
			kind, err = c.KindOf(ctx, gvk)
			if meta.IsNoMatchError(err) {
				missing = append(missing, fmt.Sprintf("%s (of %s %q)", gvk.GroupVersion(), gvk.Kind, one.GetName()))
				continue
			}
			if err != nil {
				return nil, nil, err
			}
		}
		one = one.DeepCopy()
		plainSecret(one)
		switch {
		case kind.Namespaced && one.GetNamespace() == "":
			one.SetNamespace(ref.Namespace)
		case !kind.Namespaced:
			one.SetNamespace("")
		}
		resolved = append(resolved, object{Unstructured: one, kind: kind})
	}
	slices.Sort(missing)
	return resolved, slices.Compact(missing), nil
}

// kindsOf are the kinds that CRDs define.
func kindsOf(objects []*unstructured.Unstructured) map[schema.GroupVersionKind]cluster.Kind {
	kinds := map[schema.GroupVersionKind]cluster.Kind{}
	for _, crd := range objects {
		if crd.GroupVersionKind().GroupKind() != kindOfCRD {
			continue
		}
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		name, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
		reach, _, _ := unstructured.NestedString(crd.Object, "spec", "scope")
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		for _, one := range versions {
			version, _ := one.(map[string]any)
			text, _ := version["name"].(string)
			if served, _ := version["served"].(bool); !served {
				continue
			}
			gvk := schema.GroupVersionKind{Group: group, Version: text, Kind: name}
			kinds[gvk] = cluster.Kind{Group: group, Version: text, Resource: plural, Kind: name, Namespaced: reach == "Namespaced"}
		}
	}
	return kinds
}

// owned is an object as Helm writes it: with the marks by which Helm knows its release.
func owned(one object, ref Ref) object {
	marked := one.DeepCopy()
	labels, annotations := marked.GetLabels(), marked.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[kube.LabelManagedBy] = helmManagedBy
	annotations[helmName], annotations[helmNamespace] = ref.Name, ref.Namespace
	marked.SetLabels(labels)
	marked.SetAnnotations(annotations)
	return object{Unstructured: marked, kind: one.kind}
}

// belongs tells whether a live object carries the marks of a release.
func belongs(live *unstructured.Unstructured, ref Ref) bool {
	annotations := live.GetAnnotations()
	return live.GetLabels()[kube.LabelManagedBy] == helmManagedBy && annotations[helmName] == ref.Name && annotations[helmNamespace] == ref.Namespace
}

// digests maps each object to the digest of its manifest. That of a Secret, and of whatever holds a secret value, is
// salted with what tells this release from all others, so that no table of digests helps.
func digests(objects []object, salt string, hidden hider) map[string]string {
	all := map[string]string{}
	for _, one := range objects {
		// Maps are written in the order of their keys.
		data, err := json.Marshal(one.Object)
		if err != nil {
			continue
		}
		key := []byte("manifest")
		if one.GetKind() == "Secret" || hidden.holds(string(data)) {
			key = []byte(salt)
		}
		sum := hmac.New(sha256.New, key)
		sum.Write(data)
		all[one.key()] = "sha256:" + hex.EncodeToString(sum.Sum(nil)[:16])
	}
	return all
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
