package release

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// clash is an object that a release wants and that is there already, without the release's marks.
type clash struct {
	object object
	live   *unstructured.Unstructured
}

// existing finds the objects that are on the cluster and not the release's, from metadata-only lists, one for each kind.
func existing(ctx context.Context, c *cluster.Cluster, ref Ref, objects []object) ([]clash, error) {
	var found []clash
	for _, one := range objects {
		if c.Leaving(one.kind, one.GetNamespace(), one.GetName()) {
			continue
		}
		live, err := c.Exists(ctx, one.kind, one.GetNamespace(), one.GetName())
		if apierrors.IsNotFound(err) {
			continue // its CRD comes with the release
		}
		if err != nil {
			return nil, err
		}
		if live != nil && !belongs(live, ref) {
			found = append(found, clash{object: one, live: live})
		}
	}
	return found, nil
}

// conflicts tells of each clash that forbids the release why, sorted; none where all of them may be adopted.
func conflicts(ref Ref, terms kube.Terms, clashes []clash) []string {
	var lines []string
	for _, one := range clashes {
		keepers := slices.DeleteFunc(kube.Keepers(one.live), func(keeper string) bool { return keeper == "helm/"+ref.Namespace+"/"+ref.Name })
		owner, marked := kube.ParseOwner(one.live)
		switch refused := kube.NotIn(keepers, terms.AdoptFrom); {
		case marked:
			lines = append(lines, fmt.Sprintf("%s belongs to %s of the configuration with owner %q, and cannot be adopted", one.object.key(), owner.Resource, owner.Configuration))
		case !terms.Adopt && len(keepers) > 0:
			lines = append(lines, fmt.Sprintf("%s is kept in place by %s", one.object.key(), strings.Join(keepers, ", ")))
		case !terms.Adopt:
			lines = append(lines, one.object.key()+" exists, and was put there by somebody else")
		case len(refused) > 0:
			lines = append(lines, fmt.Sprintf("%s is kept in place by %s, which adopt_from does not name", one.object.key(), strings.Join(refused, ", ")))
		}
	}
	slices.Sort(lines)
	return lines
}

// conflictsError is the refusal; nil when there is nothing to refuse.
func conflictsError(c *cluster.Cluster, ref Ref, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	const shown = 20
	return &cluster.Problem{
		Attribute: "adopt",
		Summary:   fmt.Sprintf("%s wants %d object(s) that are somebody else's", capital(ref.String()), len(lines)),
		Detail: fmt.Sprintf("refusing, on %s:\n  %s\nThese objects were left as they are. Set adopt = true to take them over as they are (and name in adopt_from the controllers that keep them, once they are out of those), "+
			"or change the chart's values so that it makes others.", c.Context(), strings.Join(firstOf(lines, shown), "\n  ")),
	}
}
