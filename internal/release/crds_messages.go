package release

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

func skippedCRD(c *cluster.Cluster, crd *unstructured.Unstructured) Warning {
	return Warning{
		Summary: fmt.Sprintf("%s is missing", kube.Describe(crd)),
		Detail: fmt.Sprintf("The chart brings %s, there is none on %s, and crds = \"skip\" leaves it to somebody else. Objects of it will be refused until it is there. "+
			"Apply it first, or set crds = \"upgrade\".", kube.Describe(crd), c.Context()),
	}
}

func keptCRD(c *cluster.Cluster, crd *unstructured.Unstructured, keeper, lacks string) Warning {
	return Warning{
		Summary: fmt.Sprintf("%s is kept by %s and not as the chart has it", kube.Describe(crd), keeper),
		Detail: fmt.Sprintf("%s on %s is kept in place by %s, so it is compared and never written. Against the chart's, %s. Objects that need what the chart brings may be refused. "+
			"Bring it up to date where it is kept, or use a version of the chart that goes with it.", kube.Describe(crd), c.Context(), keeper, lacks),
	}
}

func olderCRD(c *cluster.Cluster, crd *unstructured.Unstructured, changes []kube.Difference) Warning {
	return Warning{
		Summary: fmt.Sprintf("%s is not as the chart has it", kube.Describe(crd)),
		Detail: fmt.Sprintf("%s on %s differs from the chart's in %s, and stays so: with crds = \"install\", as with Helm, a CRD that exists is never upgraded. "+
			"Set crds = \"upgrade\" to have it applied.", kube.Describe(crd), c.Context(), fields(changes)),
	}
}

func newerCRD(c *cluster.Cluster, crd *unstructured.Unstructured, higher string) Warning {
	ours := crd.GetAnnotations()[annotationCRDChart]
	return Warning{
		Summary: fmt.Sprintf("%s stays as %s has it", kube.Describe(crd), higher),
		Detail: fmt.Sprintf("%s on %s was written from the chart %s, this release's is %s: it stays, because going back would take away what other releases need. "+
			"Upgrade this release's chart. To go back all the same, take the mark off: kubectl --context %s annotate crd %s %s-",
			kube.Describe(crd), c.Context(), higher, ours, c.Context(), crd.GetName(), annotationCRDChart),
	}
}

// mostFields is how many fields a message names.
const mostFields = 5

func fields(changes []kube.Difference) string {
	var paths []string
	for _, change := range changes {
		paths = append(paths, change.Path)
	}
	return strings.Join(firstOf(paths, mostFields), ", ")
}

func deletedCRD(c *cluster.Cluster, live *unstructured.Unstructured) error {
	why := "Nothing is known to hold it up."
	if finalizers := live.GetFinalizers(); len(finalizers) > 0 {
		why = fmt.Sprintf("It waits for its finalizers: %s.", strings.Join(finalizers, ", "))
	}
	if terminating, found := crdCondition(live, "Terminating"); found && terminating["status"] == "True" {
		why += fmt.Sprintf(" The API server says: %v: %v.", terminating["reason"], strings.TrimSuffix(fmt.Sprint(terminating["message"]), "."))
	}
	return &cluster.Problem{
		Summary: fmt.Sprintf("%s is being deleted", kube.Describe(live)),
		Detail: fmt.Sprintf("refusing: %s on %s is being deleted since %s, with all its objects. %s "+
			"Wait until it is gone (kubectl --context %s wait --for=delete crd/%s) and apply again.",
			kube.Describe(live), c.Context(), live.GetDeletionTimestamp().UTC().Format("2006-01-02 15:04:05 UTC"), why, c.Context(), live.GetName()),
	}
}

func storedCRD(c *cluster.Cluster, live *unstructured.Unstructured, dropped []string) error {
	versions, resource := strings.Join(dropped, ", "), crdField(live, "names", "plural")+"."+crdField(live, "group")
	migrate := fmt.Sprintf("Write each of them once more, upon which it is stored in the current version (kubectl --context %s get %s -A -o json | kubectl --context %s replace -f -)",
		c.Context(), resource, c.Context())
	remain, _, _ := unstructured.NestedStringSlice(live.Object, "status", "storedVersions")
	remain = slices.DeleteFunc(remain, func(version string) bool { return slices.Contains(dropped, version) })
	if storage := storageVersion(live); slices.Contains(dropped, storage) {
		migrate = fmt.Sprintf("They are stored in %s to this day: upgrade to a version of the chart first that still has it and stores another one. Then w%s", storage, migrate[1:])
	} else if !slices.Contains(remain, storage) {
		remain = append(remain, storage)
	}
	left := `["` + strings.Join(remain, `","`) + `"]`
	if len(remain) == 0 {
		left = "[the version that is stored by then]"
	}
	return &cluster.Problem{
		Attribute: "chart",
		Summary:   fmt.Sprintf("%s would lose the stored version %s", kube.Describe(live), versions),
		Detail: fmt.Sprintf("refusing: status.storedVersions of %s on %s has %s, which the chart's no longer has, so objects stored in it could not be read any more. "+
			"The CRD was not written. %s, then take %s out of status.storedVersions (kubectl --context %s patch crd %s --subresource=status --type=merge -p '{\"status\":{\"storedVersions\":%s}}') and apply again.",
			kube.Describe(live), c.Context(), versions, migrate, versions, c.Context(), live.GetName(), left),
	}
}

// storageVersion is the version in which a CRD's objects are stored.
func storageVersion(crd *unstructured.Unstructured) string {
	for name, version := range crdVersions(crd) {
		if version["storage"] == true {
			return name
		}
	}
	return ""
}

// takenNames is what is wrong with a CRD whose names another CRD of its group has; nil when that is not so.
func takenNames(c *cluster.Cluster, live *unstructured.Unstructured) error {
	accepted, found := crdCondition(live, "NamesAccepted")
	if !found || accepted["status"] != "False" {
		return nil
	}
	return &cluster.Problem{
		Summary: fmt.Sprintf("%s has names that another CRD has taken", kube.Describe(live)),
		Detail: fmt.Sprintf("%s on %s is not served, %v: %v. Remove the other CRD of group %s, or leave this one out of the chart.",
			kube.Describe(live), c.Context(), accepted["reason"], strings.TrimSuffix(fmt.Sprint(accepted["message"]), "."), crdField(live, "group")),
	}
}

func crdCondition(crd *unstructured.Unstructured, kind string) (map[string]any, bool) {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, one := range conditions {
		if condition, ok := one.(map[string]any); ok && condition["type"] == kind {
			return condition, true
		}
	}
	return nil, false
}

// refusedCRD puts the CRD before a refusal of the API server. A missing permission speaks for itself.
func refusedCRD(c *cluster.Cluster, crd *unstructured.Unstructured, err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsForbidden(err) {
		return err
	}
	return &cluster.Problem{
		Attribute: "chart",
		Summary:   fmt.Sprintf("%s could not be written", kube.Describe(crd)),
		Detail: fmt.Sprintf("The API server of %s refused the chart's %s: %s. "+
			"Use a version of the chart that goes with what is there, or set crds = \"skip\" and keep its CRDs by other means.",
			c.Context(), kube.Describe(crd), strings.TrimSuffix(err.Error(), ".")),
		Err: err,
	}
}
