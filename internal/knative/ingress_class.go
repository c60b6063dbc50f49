package knative

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/release"
)

const (
	// ingressClassFirst is the IngressClass that Traefik serves where nobody else has it, and ingressClassSecond where
	// somebody has, such as k3s' own Traefik (R47).
	ingressClassFirst  = "traefik"
	ingressClassSecond = "traefik-knative"

	// Helm's marks on what belongs to a release, and the annotation by which an Ingress named its class before
	// spec.ingressClassName.
	annotationReleaseName      = "meta.helm.sh/release-name"
	annotationReleaseNamespace = "meta.helm.sh/release-namespace"
	annotationIngressClass     = "kubernetes.io/ingress.class"
)

// CheckIngress tells which IngressClass Traefik will serve (R47): the one that its release ref has already; "traefik"
// where nobody has it; or else "traefik-knative", so that the other controller and its class are left alone. The error is
// a *cluster.Problem where both are somebody else's. It reads the cluster and writes nothing.
func CheckIngress(ctx context.Context, c *cluster.Cluster, ref release.Ref) (class string, err error) {
	var free, taken []string
	for _, name := range []string{ingressClassFirst, ingressClassSecond} {
		live, err := c.Fetch(ctx, IngressClasses, "", name)
		if err != nil {
			return "", err
		}
		switch {
		case live == nil:
			free = append(free, name)
		case belongsTo(live, ref):
			return name, nil
		default:
			taken = append(taken, fmt.Sprintf("%s (%s)", kube.Describe(live), whose(live)))
		}
	}
	if len(free) > 0 {
		return free[0], nil
	}
	return "", &cluster.Problem{
		Attribute: "ingress",
		Summary:   fmt.Sprintf("Cluster %q has no IngressClass left for Traefik", c.Name()),
		Detail: fmt.Sprintf("refusing: on %s, %s belong to others, and Traefik as the ingress of Serving (%s) would serve what is theirs. Nothing was applied. "+
			"Delete the class that is no longer used, or take Serving's ingress over from the release that has it.", c.Context(), strings.Join(taken, " and "), ref),
	}
}

// belongsTo tells whether an object is one of a Helm release's.
func belongsTo(live *unstructured.Unstructured, ref release.Ref) bool {
	marks := live.GetAnnotations()
	return marks[annotationReleaseName] == ref.Name && marks[annotationReleaseNamespace] == ref.Namespace
}

// whose says who serves an IngressClass and who keeps it in place.
func whose(class *unstructured.Unstructured) string {
	controller, _, _ := unstructured.NestedString(class.Object, "spec", "controller")
	text := "controller " + controller
	if keepers := kube.Keepers(class); len(keepers) > 0 {
		text += ", kept by " + strings.Join(keepers, ", ")
	}
	return text
}

// ForeignIngresses are the Ingresses of a class that others have and that need Traefik, the release ref, to stay (R104),
// each as Ingress/namespace/name, sorted. They are read as they are now, since a removal depends on it.
func ForeignIngresses(ctx context.Context, c *cluster.Cluster, class string, ref release.Ref) ([]string, error) {
	all, err := c.Select(ctx, Ingresses, "", "", "")
	if err != nil {
		return nil, err
	}
	var foreign []string
	for _, one := range all {
		if classOf(one) == class && !belongsTo(one, ref) {
			foreign = append(foreign, kube.Describe(one))
		}
	}
	return foreign, nil
}

// classOf is the class of an Ingress: the annotation wins, as Kubernetes has it ("Deprecated annotation", Ingress).
func classOf(ingress *unstructured.Unstructured) string {
	if class := ingress.GetAnnotations()[annotationIngressClass]; class != "" {
		return class
	}
	class, _, _ := unstructured.NestedString(ingress.Object, "spec", "ingressClassName")
	return class
}
