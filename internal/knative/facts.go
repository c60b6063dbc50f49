package knative

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/preflight"
	"github.com/berthdev/terraform-provider-berth/internal/release"
)

func asProblem(err error) (*cluster.Problem, bool) { return errors.AsType[*cluster.Problem](err) }

// facts are what there is of Serving on a cluster.
type facts struct {
	kubernetes Version
	// deployment is the operator's, claim whose its Helm release is, and operator its version; all zero where there is none.
	deployment *unstructured.Unstructured
	claim      release.Claim
	operator   Version
	// serving is the KnativeServing, and others are those of other names.
	serving *unstructured.Unstructured
	others  []string
	traefik release.Claim
}

// labelVersion is Kubernetes' recommended label for the version of what an object belongs to.
const labelVersion = "app.kubernetes.io/version"

// labelName is the recommended one for what an object belongs to; of Serving's own objects it is "knative-serving".
const labelName = "app.kubernetes.io/name"

// look reads what there is.
func (s Spec) look(ctx context.Context, c *cluster.Cluster, terms kube.Terms) (facts, error) {
	var found facts
	text, err := preflight.KubernetesVersion(ctx, c)
	if err != nil {
		return found, err
	}
	if found.kubernetes, err = ParseRelease(text); err != nil {
		return found, err
	}
	if err := s.lookAtOperator(ctx, c, terms, &found); err != nil {
		return found, err
	}
	servings, err := listOf(ctx, c, Servings)
	if err != nil {
		return found, err
	}
	for _, one := range servings {
		if one.GetNamespace() == s.Namespace && one.GetName() == s.Name {
			found.serving = one
			continue
		}
		found.others = append(found.others, kube.Describe(one))
	}
	found.traefik, err = release.ClaimOf(ctx, c, s.traefikRef(), terms)
	return found, err
}

func (s Spec) lookAtOperator(ctx context.Context, c *cluster.Cluster, terms kube.Terms, found *facts) error {
	var err error
	if found.claim, err = release.ClaimOf(ctx, c, s.operatorRef(), terms); err != nil {
		return err
	}
	if found.deployment, err = c.Fetch(ctx, cluster.Deployments, s.Operator.Namespace, OperatorRelease); err != nil {
		return err
	}
	if found.deployment == nil {
		found.operator = minorOf(found.claim.ChartVersion)
		return nil
	}
	for _, text := range []string{found.deployment.GetLabels()[labelVersion], imageTag(found.deployment), found.claim.ChartVersion} {
		if found.operator = minorOf(text); found.operator != (Version{}) {
			break
		}
	}
	return nil
}

// imageTag is the tag of a Deployment's first image; empty where it has none.
func imageTag(deployment *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if len(containers) == 0 {
		return ""
	}
	first, _ := containers[0].(map[string]any)
	image, _ := first["image"].(string)
	image, _, _ = strings.Cut(image, "@")
	_, tag, tagged := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	if !tagged {
		return ""
	}
	return tag
}

// operatorElsewhere finds an operator in another namespace than the one that is asked for.
func (s Spec) operatorElsewhere(ctx context.Context, c *cluster.Cluster) ([]string, error) {
	deployments, err := c.SelectMetadata(ctx, cluster.Deployments, "", "", "metadata.name="+OperatorRelease)
	var elsewhere []string
	for _, one := range deployments {
		if one.GetNamespace() != s.Operator.Namespace {
			elsewhere = append(elsewhere, one.GetNamespace())
		}
	}
	return elsewhere, err
}

// FindOperator gives the namespace of the Knative operator that runs on a cluster; empty where there is none.
func FindOperator(ctx context.Context, c *cluster.Cluster) (string, error) {
	elsewhere, err := Spec{}.operatorElsewhere(ctx, c)
	if err != nil || len(elsewhere) == 0 {
		return "", err
	}
	return elsewhere[0], nil
}

// servingElsewhere refuses a second Serving: its CRDs, webhooks and roles exist once on a cluster.
func (s Spec) servingElsewhere(c *cluster.Cluster, found facts) error {
	if found.serving != nil || len(found.others) == 0 {
		return nil
	}
	slices.Sort(found.others)
	return &cluster.Problem{
		Attribute: "namespace", Summary: fmt.Sprintf("Serving is installed on cluster %q already, under another name", c.Name()),
		Detail: fmt.Sprintf("refusing: %s has %s, and a second Serving would fight with it over the same CRDs and webhooks. Nothing was applied. Set `namespace` and `name` to the one that is there, and adopt = true to take it over.",
			c.Context(), strings.Join(found.others, ", ")),
	}
}
