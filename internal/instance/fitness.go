package instance

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/preflight"
)

// settingsLimit is how many bytes the values of a ConfigMap may have in all, as the API server validates it.
const settingsLimit = 1 << 20

// instanceKind is the kind under which the plan remembers instances that it takes apart: what is said of them is about
// their marks, which is not the same as that of their namespace, because one that was adopted stays.
var instanceKind = cluster.Kind{Kind: "berth_instance", Namespaced: true}

// PlanRemoval registers that the plan being made takes this instance apart before it creates another.
func (s Spec) PlanRemoval(c *cluster.Cluster) { c.PlanRemoval(instanceKind, s.Namespace, s.Name) }

// checkAlone refuses a second instance for a namespace that another one of the same plan claims, and a second namespace
// for the name of an instance: both would carry one owner mark, and the destroy of one would take the other along.
// before is the Spec that the state holds, nil at a create.
func (s Spec) checkAlone(ctx context.Context, c *cluster.Cluster, before *Spec) error {
	if other := c.Claim("namespace/"+s.Namespace, s.Name); other != s.Name {
		return &cluster.Problem{
			Attribute: "namespace", Summary: fmt.Sprintf("Namespace %q is claimed by two instances", s.Namespace),
			Detail: fmt.Sprintf("refusing: instances %q and %q of this configuration both claim namespace %q on %s, and a namespace belongs to one instance. Give one of them another `namespace`.",
				other, s.Name, s.Namespace, c.Context()),
		}
	}
	if other := c.Claim("instance/"+s.Name, s.Namespace); other != s.Namespace {
		return s.twice(c, other)
	}
	if before != nil {
		return nil
	}
	namespaces, err := c.Labelled(ctx, cluster.Namespaces, LabelInstance, s.Name)
	if err != nil {
		return err
	}
	for _, live := range namespaces {
		owner, marked := kube.ParseOwner(live)
		if marked && owner == s.Owner(c.Owner()) && live.GetName() != s.Namespace && live.GetDeletionTimestamp() == nil && !c.Leaving(instanceKind, live.GetName(), s.Name) {
			return s.twice(c, live.GetName())
		}
	}
	return nil
}

func (s Spec) twice(c *cluster.Cluster, other string) error {
	return &cluster.Problem{
		Attribute: "name", Summary: fmt.Sprintf("Instance %q is in namespace %q too", s.Name, other),
		Detail: fmt.Sprintf("refusing: namespace %q on %s belongs to an instance %q of this configuration, and one in namespace %q would carry the same owner mark. "+
			"Choose another `name`; or, if it is the one that is there, set `namespace` to %q: the apply goes on from it.", other, c.Context(), s.Name, s.Namespace, other),
	}
}

// checkLength refuses settings that the API server would not store.
func (s Spec) checkLength(c *cluster.Cluster) error {
	length := 0
	for _, value := range s.settings() {
		length += len(value)
	}
	if length <= settingsLimit {
		return nil
	}
	return &cluster.Problem{
		Summary: fmt.Sprintf("The settings of instance %q are too long", s.Name),
		Detail: fmt.Sprintf("refusing: the settings of instance %q have %d bytes, and ConfigMap/%s/%s on %s holds %d at most. Take out some of its images, sizes, Secrets or variables.",
			s.Name, length, s.Namespace, SettingsName, c.Context(), settingsLimit),
	}
}

// checkImmutable refuses to change settings that somebody made immutable, which Kubernetes never lets be undone.
func (s Spec) checkImmutable(ctx context.Context, c *cluster.Cluster) error {
	if exists, err := c.Exists(ctx, cluster.ConfigMaps, s.Namespace, SettingsName); err != nil || exists == nil {
		return err
	}
	live, err := c.Live(ctx, cluster.ConfigMaps, s.Namespace, SettingsName)
	if err != nil || live == nil {
		return err
	}
	immutable, _, _ := unstructured.NestedBool(live.Object, "immutable")
	data, _, _ := unstructured.NestedStringMap(live.Object, "data")
	if !immutable || maps.Equal(data, s.settings()) {
		return nil
	}
	return &cluster.Problem{
		Summary: fmt.Sprintf("ConfigMap/%s/%s is immutable", s.Namespace, SettingsName),
		Detail: fmt.Sprintf("refusing: ConfigMap/%s/%s on %s has immutable: true, so Kubernetes never lets the settings in it change. "+
			"Delete it, and the apply creates it anew: kubectl -n %s delete configmap %s", s.Namespace, SettingsName, c.Context(), s.Namespace, SettingsName),
	}
}

// checkPodSecurity refuses a namespace that admits no pod of the instance's own components: they set no security
// context, which the level baseline admits and restricted does not.
func (s Spec) checkPodSecurity(ctx context.Context, c *cluster.Cluster) error {
	if len(s.workloads()) == 0 {
		return nil
	}
	live, err := c.Exists(ctx, cluster.Namespaces, "", s.Namespace)
	if err != nil || live == nil {
		return err
	}
	check := preflight.CheckPodSecurity("pod_security/"+s.Namespace, preflight.Namespace{Name: s.Namespace, PodSecurity: "baseline"}, live)
	if check.Status != preflight.Fail {
		return nil
	}
	return problem(c, check)
}
