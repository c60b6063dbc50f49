package release

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// mostObjects is how many objects objectsOfCRDs lists.
const mostObjects = 20

// objectsOfCRDs lists what an uninstall would take along unasked: it deletes the CRDs of the rendered manifest, and with
// a CRD go all its objects, whoever made them. The list has each as Kind/namespace/name, sorted, at most 20 and then
// "and n more"; what belongs to the release itself is not in it. A CRD that an uninstall leaves (helm.sh/resource-policy:
// keep, another keeper's marks, or because it was there before the release), that is gone, or that is being deleted takes
// nothing along. The lists are of metadata alone, and made afresh.
//
// The error is a *cluster.Problem for a CRD of which no version is served: nobody knows what is stored of it.
func objectsOfCRDs(ctx context.Context, c *cluster.Cluster, crds []*unstructured.Unstructured, ref Ref) ([]string, error) {
	var names []string
	for _, rendered := range crds {
		if keeps(rendered) {
			continue
		}
		crd, err := c.Fetch(ctx, crdKind, "", rendered.GetName())
		if err != nil {
			return nil, err
		}
		if crd == nil || crd.GetDeletionTimestamp() != nil || keeps(crd) || crd.GetAnnotations()[labelAdopted] == "true" || len(otherKeepers(crd, ref)) > 0 {
			continue
		}
		kind, served := servedKind(crd)
		if !served {
			return nil, &cluster.Problem{
				Summary: fmt.Sprintf("Whether %s has objects cannot be known", kube.Describe(crd)),
				Detail: fmt.Sprintf("refusing: %s on %s serves no version, so its objects cannot be listed, and they would be lost with it. "+
					"Set served: true on one of its versions, or delete the CRD.", kube.Describe(crd), c.Context()),
			}
		}
		objects, err := c.MetadataIn(ctx, kind, "")
		if err != nil {
			return nil, fmt.Errorf("listing the objects of %s: %w", kube.Describe(crd), err)
		}
		for _, object := range objects {
			marks := object.GetAnnotations()
			if marks[helmName] != ref.Name || marks[helmNamespace] != ref.Namespace || marks[labelAdopted] == "true" || keeps(object) {
				names = append(names, kube.Describe(object))
			}
		}
	}
	slices.Sort(names)
	return firstOf(names, mostObjects), nil
}

// servedKind is the kind of a CRD in one of the versions that it serves: each of them has all the objects.
func servedKind(crd *unstructured.Unstructured) (kind cluster.Kind, served bool) {
	versions := crdVersions(crd)
	for _, version := range slices.Sorted(maps.Keys(versions)) {
		if versions[version]["served"] == true {
			return cluster.Kind{
				Group: crdField(crd, "group"), Version: version, Resource: crdField(crd, "names", "plural"),
				Kind: crdField(crd, "names", "kind"), Namespaced: crdField(crd, "scope") == "Namespaced",
			}, true
		}
	}
	return cluster.Kind{}, false
}

// keptCRDs says that an uninstall leaves the CRDs of a chart's crds/ folders, as with Helm; there has to be at least one.
func keptCRDs(crds []*unstructured.Unstructured) Warning {
	names := make([]string, len(crds))
	for i, crd := range crds {
		names[i] = crd.GetName()
	}
	summary := fmt.Sprintf("%s stays", kube.Describe(crds[0]))
	if more := len(names) - 1; more > 0 {
		summary = fmt.Sprintf("%s and %d more stay", kube.Describe(crds[0]), more)
	}
	return Warning{
		Summary: summary,
		Detail: fmt.Sprintf("An uninstall leaves the CRDs of a chart's crds/ folder, as with Helm: other releases may need them, and with a CRD go all its objects, whoever made them. "+
			"On the cluster stay: %s. To remove one that nobody needs: kubectl delete crd %s", strings.Join(firstOf(names, mostObjects), ", "), names[0]),
	}
}
