package enroll

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// The labels that say whose a worker's scheduling objects are, below a prefix (K57).
const (
	DefaultLabelPrefix = "berth.dev"
	suffixManagedBy    = "/managed-by"
	suffixWorker       = "/worker-cluster"
	managedScheduling  = "worker-scheduling"
)

// The states of a scheduling object (K56).
const (
	StateMissing = "missing"
	StateMatch   = "match"
	StateDiffers = "differs"
	StateForeign = "foreign"
)

// SchedulingObject is one object of a preset as it is on the cluster.
type SchedulingObject struct {
	Kind, Namespace, Name string
	// UID is "" for one that is missing.
	UID string
	// State is one of the states above.
	State string
}

// Describe names the object as messages do.
func (o SchedulingObject) Describe() string { return kube.Name(o.Kind, o.Namespace, o.Name) }

// Graph is a Scheduling on a cluster, and whose it is.
type Graph struct {
	Scheduling
	// Identity is the worker's, by which its objects are labelled; "" on a hub, whose objects carry berth's marks alone.
	Identity string
	// LabelPrefix is what the labels begin with.
	LabelPrefix string
	Terms       kube.Terms
}

// labels are those of every object.
func (g Graph) labels() map[string]string {
	if g.Identity == "" {
		return nil
	}
	return map[string]string{g.LabelPrefix + suffixManagedBy: managedScheduling, g.LabelPrefix + suffixWorker: g.Identity}
}

// whose is how the refusal of K47 calls the owner of the objects.
func (g Graph) whose() string {
	if g.Identity == "" {
		return "hub"
	}
	return "WorkerCluster"
}

// objects are those of the Scheduling with the labels.
func (g Graph) objects() ([]kube.Object, error) {
	objects, err := g.Objects()
	for _, object := range objects {
		labels := object.Desired.GetLabels()
		if labels == nil && g.Identity != "" {
			labels = map[string]string{}
		}
		maps.Copy(labels, g.labels())
		object.Desired.SetLabels(labels)
	}
	return objects, err
}

// Plan checks every object without writing anything, cluster-scoped ones first, and tells how each is (K56). The error is
// a *cluster.Problem when one is not ours to take: of another worker, foreign without adopt, or foreign and different
// (K47, K48, K54). Where Kueue's kinds are not served yet, every object is missing.
func (g Graph) Plan(ctx context.Context, c *cluster.Cluster) ([]SchedulingObject, error) {
	objects, err := g.objects()
	if err != nil {
		return nil, err
	}
	judged := make([]judged, len(objects))
	for i, object := range objects {
		if judged[i], err = g.judge(ctx, c, object); err != nil {
			return nil, err
		}
	}
	return seenOf(judged), g.refuse(c, judged)
}

// judged is an object and how it stands.
type judged struct {
	kube.Object
	live *unstructured.Unstructured
	// foreign is set for one that is not ours: owner is then another worker, or another resource of berth, that has it, and
	// problem why it cannot be taken at all.
	foreign bool
	owner   string
	problem error
	// differences are those of the whole spec, for a foreign object, and those of what we set, for ours.
	differences []kube.Difference
}

func seenOf(all []judged) []SchedulingObject {
	var seen []SchedulingObject
	for _, one := range all {
		object := SchedulingObject{Kind: one.Kind.Kind, Namespace: one.Desired.GetNamespace(), Name: one.Desired.GetName(), State: StateMissing}
		if one.live != nil {
			object.UID = string(one.live.GetUID())
			switch {
			case one.foreign:
				object.State = StateForeign
			case len(one.differences) > 0:
				object.State = StateDiffers
			default:
				object.State = StateMatch
			}
		}
		seen = append(seen, object)
	}
	return seen
}

func (g Graph) judge(ctx context.Context, c *cluster.Cluster, object kube.Object) (judged, error) {
	one := judged{Object: object}
	served, err := serves(ctx, c, object.Kind)
	if err != nil || !served {
		return one, err
	}
	if one.live, err = c.Find(ctx, object.Kind, object.Desired.GetNamespace(), object.Desired.GetName()); err != nil || one.live == nil {
		return one, err
	}
	labelled := one.live.GetLabels()[g.LabelPrefix+suffixWorker]
	if g.Identity != "" && labelled != "" && labelled != g.Identity {
		one.foreign, one.owner = true, labelled
		return one, nil
	}
	claim := kube.Inspect(one.live, g.Terms.Owner)
	one.foreign = claim.Standing == kube.Foreign && !g.Terms.Held && labelled == ""
	terms := g.Terms
	terms.Adopt = true
	if _, one.problem = kube.Judge(c, object, terms, one.live); one.problem != nil {
		one.foreign = true
		if claim.Standing == kube.Others {
			one.owner = claim.Owner.String()
		}
		return one, nil
	}
	if one.foreign {
		one.differences, err = g.compareWhole(ctx, c, object, one.live)
		return one, err
	}
	if err := g.checkQueue(c, object, one.live); err != nil {
		return one, err
	}
	drift, err := kube.Drift(ctx, c, g.Terms.Owner, []kube.Object{object}, false)
	if err != nil {
		return one, err
	}
	for path, change := range drift {
		one.differences = append(one.differences, kube.Difference{Path: path, Found: change})
	}
	return one, nil
}

// checkQueue refuses to lead a LocalQueue of ours to another ClusterQueue, which Kueue never lets change.
func (g Graph) checkQueue(c *cluster.Cluster, object kube.Object, live *unstructured.Unstructured) error {
	if object.Kind != LocalQueues {
		return nil
	}
	was, _, _ := unstructured.NestedString(live.Object, "spec", "clusterQueue")
	if now, _, _ := unstructured.NestedString(object.Desired.Object, "spec", "clusterQueue"); was != now {
		return &cluster.Problem{
			Attribute: "scheduling.cluster_queue", Summary: fmt.Sprintf("%s leads to ClusterQueue %q for good", kube.Describe(live), was),
			Detail: fmt.Sprintf("refusing: on %s Kueue never lets a LocalQueue lead to another ClusterQueue, and %q is asked for. Set scheduling.cluster_queue back to %q, or, once nothing waits in the LocalQueue, delete it and apply again. Nothing was applied.",
				c.Context(), now, was),
		}
	}
	return nil
}

// refuse is the refusal of what is not ours to take; nil when all is.
func (g Graph) refuse(c *cluster.Cluster, all []judged) error {
	var foreign, owned, differing []string
	for _, one := range all {
		if !one.foreign {
			continue
		}
		if one.owner != "" {
			owned = append(owned, fmt.Sprintf("%s (of %s)", kube.Describe(one.live), one.owner))
			continue
		}
		if one.problem != nil {
			return one.problem
		}
		foreign = append(foreign, fmt.Sprintf("%s (UID %s)", kube.Describe(one.live), one.live.GetUID()))
		for _, difference := range one.differences {
			differing = append(differing, kube.Describe(one.live)+" "+difference.String())
		}
	}
	phrase := fmt.Sprintf("refuse to adopt existing object not owned by this %s", g.whose())
	switch {
	case len(owned) > 0:
		return &cluster.Problem{
			Summary: phrase,
			Detail: fmt.Sprintf("On %s these are somebody else's, which adopt does not change: %s. Nothing was applied. "+
				"Take them out there first, or use other names in `scheduling`.", c.Context(), strings.Join(owned, ", ")),
		}
	case len(foreign) > 0 && len(differing) > 0:
		return &cluster.Problem{
			Attribute: "scheduling", Summary: phrase,
			Detail: fmt.Sprintf("On %s these exist already: %s. They are not as the preset %q has them, found → wanted:\n  %s\n"+
				"Nothing was applied. Adopting one means that berth changes it from then on, so it has to be equal first: say the policy that is there by `scheduling.quotas` and `scheduling.overlays`%s.",
				c.Context(), strings.Join(foreign, ", "), g.WithDefaults().Preset, strings.Join(differing, "\n  "), g.andAdopt()),
		}
	case len(foreign) > 0 && !g.Terms.Adopt:
		return &cluster.Problem{
			Attribute: "adopt", Summary: phrase,
			Detail: fmt.Sprintf("On %s these exist already, as the preset has them: %s. Nothing was applied. "+
				"Set adopt = true to have berth keep them so, label them in place and leave their UIDs as they are.", c.Context(), strings.Join(foreign, ", ")),
		}
	}
	return nil
}

func (g Graph) andAdopt() string {
	if g.Terms.Adopt {
		return ""
	}
	return ", and set adopt = true"
}

// compareWhole compares the whole spec of a foreign object with what a new one of ours would be, defaults included (K54):
// what the preset does not say is a difference, too. Whether a ClusterQueue is stopped is no part of a policy.
func (g Graph) compareWhole(ctx context.Context, c *cluster.Cluster, object kube.Object, live *unstructured.Unstructured) ([]kube.Difference, error) {
	trial := object.Desired.DeepCopy()
	trial.SetName(object.Desired.GetName() + "-berth-dry-run")
	normal, err := c.DryRunCreate(ctx, trial, object.Kind)
	if err != nil {
		return nil, err
	}
	return kube.Diff(policyOf(live, object.Desired), policyOf(normal, object.Desired)), nil
}

// policyOf is the spec of an object, without what the cordon steers unless it is asked for.
func policyOf(object, desired *unstructured.Unstructured) *unstructured.Unstructured {
	spec, _, _ := unstructured.NestedMap(object.Object, "spec")
	if spec == nil {
		spec = map[string]any{}
	}
	if _, asked, _ := unstructured.NestedString(desired.Object, "spec", "stopPolicy"); !asked {
		delete(spec, "stopPolicy")
	}
	if groups, ok := spec["resourceGroups"]; ok {
		spec["resourceGroups"] = inQuantities(groups)
	}
	return &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
}

// quotaFields are the quantities of a ClusterQueue's resourceGroups, which the API server keeps as they were written.
var quotaFields = []string{"nominalQuota", "borrowingLimit", "lendingLimit"}

// inQuantities is a value with every quota in the one form that stands for all others: 8 for 8000m.
func inQuantities(value any) any {
	switch value := value.(type) {
	case []any:
		out := make([]any, len(value))
		for i, item := range value {
			out[i] = inQuantities(item)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, field := range value {
			out[key] = inQuantities(field)
			if amount, err := resource.ParseQuantity(fmt.Sprint(field)); err == nil && slices.Contains(quotaFields, key) {
				out[key] = amount.String()
			}
		}
		return out
	}
	return value
}

// serves tells whether the API server serves a kind: the apply may bring it.
func serves(ctx context.Context, c *cluster.Cluster, kind cluster.Kind) (bool, error) {
	_, err := c.KindOf(ctx, kind.GVK())
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// Apply makes the objects what they shall be, in place, and proves that none was replaced (K59, K61); then it deletes
// what an earlier preset of the same owner had and this one has not (K62). The checks of Plan are repeated first.
func (g Graph) Apply(ctx context.Context, c *cluster.Cluster) ([]SchedulingObject, error) {
	before, err := g.Plan(ctx, c)
	if err != nil {
		return nil, err
	}
	objects, err := g.objects()
	if err != nil {
		return nil, err
	}
	terms := g.Terms
	terms.Adopt = true // what may not be adopted was refused
	var after []SchedulingObject
	for i, object := range objects {
		live, err := kube.Converge(ctx, c, object, terms)
		if err != nil {
			return nil, err
		}
		if was := before[i].UID; was != "" && was != string(live.GetUID()) {
			return nil, &cluster.Problem{
				Summary: fmt.Sprintf("%s was replaced while it was adopted", kube.Describe(live)),
				Detail:  fmt.Sprintf("Its UID was %s and is %s: somebody deleted it and made it anew on %s. Look at what it says now, and apply again.", was, live.GetUID(), c.Context()),
			}
		}
		after = append(after, SchedulingObject{Kind: object.Kind.Kind, Namespace: live.GetNamespace(), Name: live.GetName(), UID: string(live.GetUID()), State: StateMatch})
	}
	return after, g.prune(ctx, c, objects)
}

// prune takes away what carries our marks and is not wanted any more, what names others first.
func (g Graph) prune(ctx context.Context, c *cluster.Cluster, wanted []kube.Object) error {
	for _, kind := range slices.Backward(schedulingKinds) {
		if served, err := serves(ctx, c, kind); err != nil || !served {
			if err != nil {
				return err
			}
			continue
		}
		ours, err := c.Ours(ctx, kind)
		if err != nil {
			return err
		}
		for _, live := range ours {
			if owner, marked := kube.ParseOwner(live); !marked || owner != g.Terms.Owner || g.isMultiKueue(live) {
				continue
			}
			if slices.ContainsFunc(wanted, func(o kube.Object) bool {
				return o.Kind == kind && o.Desired.GetNamespace() == live.GetNamespace() && o.Desired.GetName() == live.GetName()
			}) {
				continue
			}
			if err := g.drop(ctx, c, kind, live, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// isMultiKueue tells whether an object is the hub's check, which no preset has.
func (g Graph) isMultiKueue(live *unstructured.Unstructured) bool {
	return live.GetKind() == AdmissionChecks.Kind && g.AdmissionCheck != "" && live.GetName() == g.AdmissionCheck
}

// drop deletes an object that berth created, and lets go of one that it adopted; with retain, of either.
func (g Graph) drop(ctx context.Context, c *cluster.Cluster, kind cluster.Kind, live *unstructured.Unstructured, retain bool) error {
	became, err := kube.Remove(ctx, c, kind, live.GetNamespace(), live.GetName(), g.Terms, retain)
	if err != nil || became != kube.Kept || g.Identity == "" {
		return err
	}
	return g.unlabel(ctx, c, kind, live)
}

// unlabel takes the labels of K57 off an object that stays, where berth's own prefix has not taken them with it.
func (g Graph) unlabel(ctx context.Context, c *cluster.Cluster, kind cluster.Kind, live *unstructured.Unstructured) error {
	gone := map[string]any{}
	for key := range g.labels() {
		gone[key] = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": gone}})
	if err != nil {
		return err
	}
	_, err = c.MergePatch(ctx, kind, live.GetNamespace(), live.GetName(), patch, kube.FieldManager)
	return err
}

// Read tells how the objects are, and what of them is not as it was applied.
func (g Graph) Read(ctx context.Context, c *cluster.Cluster, marked bool) ([]SchedulingObject, map[string]string, error) {
	objects, err := g.objects()
	if err != nil {
		return nil, nil, err
	}
	drift := map[string]string{}
	all := make([]judged, len(objects))
	for i, object := range objects {
		all[i] = judged{Object: object}
		served, err := serves(ctx, c, object.Kind)
		if err != nil {
			return nil, nil, err
		}
		if !served {
			drift[object.Describe()] = "missing → present"
			continue
		}
		if all[i].live, err = c.Live(ctx, object.Kind, object.Desired.GetNamespace(), object.Desired.GetName()); err != nil {
			return nil, nil, err
		}
		found, err := kube.Drift(ctx, c, g.Terms.Owner, []kube.Object{object}, marked)
		if err != nil {
			return nil, nil, err
		}
		for path, change := range found {
			drift[path] = change
			all[i].differences = append(all[i].differences, kube.Difference{Path: path})
		}
	}
	return seenOf(all), drift, nil
}

// Remove takes the objects away: a hub's go where berth created them, unless retain is set; a worker's stay, because its
// local work needs them, and lose the marks and labels (K71).
func (g Graph) Remove(ctx context.Context, c *cluster.Cluster, retain bool) error {
	for _, kind := range slices.Backward(schedulingKinds) {
		served, err := serves(ctx, c, kind)
		if err != nil {
			return err
		}
		if !served {
			continue
		}
		ours, err := c.Ours(ctx, kind)
		if err != nil {
			return err
		}
		for _, live := range ours {
			if owner, marked := kube.ParseOwner(live); !marked || owner != g.Terms.Owner || g.isMultiKueue(live) {
				continue
			}
			if err := g.drop(ctx, c, kind, live, retain || g.Identity != ""); err != nil {
				return err
			}
		}
	}
	return nil
}
