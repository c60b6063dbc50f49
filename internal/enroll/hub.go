package enroll

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// HubSpec is the dispatching side for one tenant of a cluster.
type HubSpec struct {
	// Tenant is the namespace of the tenant, which is never created (K5).
	Tenant string
	// WorkloadNamespaces are those from which jobs are dispatched (K12).
	WorkloadNamespaces []string
	// Frameworks are the kinds of job, in Kueue's words.
	Frameworks     []string
	KueueNamespace string
	// Scheduling is what the hub's queues are, without what the hub itself adds.
	Scheduling Scheduling
}

// Name is that of the hub's AdmissionCheck and MultiKueueConfig.
func (s HubSpec) Name() string { return hubName(s.Tenant) }

func hubName(tenant string) string { return "berth-" + tenant }

// longestCheck is how long the name of a MultiKueueConfig can be that an AdmissionCheck refers to. Source: Kueue's CRDs.
const longestCheck = 63

func (s HubSpec) record(origin string) HubRecord {
	return HubRecord{
		Tenant: s.Tenant, WorkloadNamespaces: s.WorkloadNamespaces, Frameworks: slices.Sorted(slices.Values(s.Frameworks)), Origin: origin,
		KueueNamespace: s.KueueNamespace, Scheduling: s.Scheduling.WithDefaults(),
	}
}

func (s HubSpec) graph(terms kube.Terms) Graph {
	scheduling := s.Scheduling
	scheduling.Namespaces, scheduling.AdmissionCheck = s.WorkloadNamespaces, s.Name()
	return Graph{Scheduling: scheduling, Terms: terms}
}

// check is the AdmissionCheck by which the queue's Workloads are dispatched.
func (s HubSpec) check() kube.Object {
	desired := AdmissionChecks.New("", s.Name())
	desired.Object["spec"] = map[string]any{
		"controllerName": "kueue.x-k8s.io/multikueue",
		"parameters":     map[string]any{"apiGroup": MultiKueueConfigs.Group, "kind": MultiKueueConfigs.Kind, "name": s.Name()},
	}
	return kube.Object{Kind: AdmissionChecks, Desired: desired, Immutable: []string{"spec"}}
}

// HubOutlook is what a plan says of a hub.
type HubOutlook struct {
	Origin  string
	Objects []SchedulingObject
}

// PlanHub checks a hub without writing anything: the namespaces, Kueue and its configuration, and whose the objects are.
// The error is a *cluster.Problem when it must not be applied.
func PlanHub(ctx context.Context, c *cluster.Cluster, spec HubSpec, terms kube.Terms) (HubOutlook, error) {
	if problem := spec.checkNames(); problem != nil {
		return HubOutlook{}, problem
	}
	if err := spec.checkNamespaces(ctx, c); err != nil {
		return HubOutlook{}, err
	}
	kueue, err := spec.checkKueue(ctx, c)
	if err != nil {
		return HubOutlook{}, err
	}
	outlook := HubOutlook{Origin: kueue.Origin}
	if outlook.Objects, err = spec.graph(terms).Plan(ctx, c); err != nil {
		return HubOutlook{}, err
	}
	record, err := spec.record(kueue.Origin).object()
	if err != nil {
		return HubOutlook{}, err
	}
	for _, object := range []kube.Object{spec.check(), record} {
		if _, err := kube.Check(ctx, c, object, terms); err != nil {
			return HubOutlook{}, err
		}
	}
	if live, err := c.Exists(ctx, cluster.ConfigMaps, spec.Tenant, HubRecordName); err != nil || live != nil {
		return outlook, err
	}
	c.Plan(cluster.ConfigMaps, spec.Tenant, HubRecordName)
	return outlook, nil
}

func (s HubSpec) checkNames() *cluster.Problem {
	if name := s.Name(); len(name) > longestCheck || len(validation.IsDNS1123Label(name)) > 0 {
		return &cluster.Problem{
			Attribute: "tenant_namespace", Summary: fmt.Sprintf("The namespace %q is too long for a tenant", s.Tenant),
			Detail: fmt.Sprintf("refusing: the AdmissionCheck and the MultiKueueConfig are called %q, and Kueue takes at most %d characters without dots. Nothing was applied. Use a namespace with at most %d characters.",
				name, longestCheck, longestCheck-len("berth-")),
		}
	}
	if s.Scheduling.Preset == "gke-dws" {
		return &cluster.Problem{
			Attribute: "scheduling.preset", Summary: "The preset \"gke-dws\" is for workers",
			Detail: "refusing: Kueue takes a ClusterQueue with both MultiKueue's check and that of provisioning requests out of service (MultiKueueWithProvisioningRequest). Nothing was applied. Use the preset \"default\" on the hub, and such a check in the queues of the workers.",
		}
	}
	return nil
}

// checkNamespaces makes sure that the namespaces exist: a hub creates none (K5, K12).
func (s HubSpec) checkNamespaces(ctx context.Context, c *cluster.Cluster) error {
	for i, namespace := range append([]string{s.Tenant}, s.WorkloadNamespaces...) {
		live, err := c.Exists(ctx, cluster.Namespaces, "", namespace)
		if err != nil {
			return err
		}
		if live != nil && live.GetDeletionTimestamp() == nil || c.Planned(cluster.Namespaces, "", namespace) {
			continue
		}
		attribute := "workload_namespaces"
		if i == 0 {
			attribute = "tenant_namespace"
		}
		return &cluster.Problem{
			Attribute: attribute, Summary: fmt.Sprintf("Namespace %q does not exist on the hub", namespace),
			Detail: fmt.Sprintf("refusing: on %s there is no namespace %q (or it is being deleted), and a hub creates and deletes none: whoever runs the cluster gives them out. Nothing was applied. Create it first, or correct %s.", c.Context(), namespace, attribute),
		}
	}
	return nil
}

// checkKueue makes sure that Kueue runs and is configured for what the hub dispatches.
func (s HubSpec) checkKueue(ctx context.Context, c *cluster.Cluster) (*Kueue, error) {
	kueue, err := requireKueue(ctx, c, s.KueueNamespace, "kueue_namespace")
	if err != nil {
		return nil, err
	}
	if kueue.Origin == sharedOrigin {
		return nil, &cluster.Problem{
			Attribute: "cluster", Summary: fmt.Sprintf("Kueue on cluster %q has the origin of every other hub", c.Name()),
			Detail: fmt.Sprintf("refusing: multiKueue.origin in the configuration of Kueue on %s is %q, which is its default: two hubs with one origin delete each other's jobs on a worker that they share. Nothing was applied. "+
				"Set multiKueue.origin in ConfigMap/%s/%s to a name of this hub's own, such as %q, and restart Kueue.", c.Context(), sharedOrigin, kueue.Namespace, kueue.ConfigMap, "hub-"+c.Name()),
		}
	}
	on := kueue.dispatches()
	wanted := slices.Sorted(slices.Values(s.Frameworks))
	if slices.Equal(on, wanted) {
		return kueue, nil
	}
	return nil, &cluster.Problem{
		Attribute: "frameworks", Summary: fmt.Sprintf("Kueue on cluster %q dispatches other kinds of job", c.Name()),
		Detail: fmt.Sprintf("refusing: integrations.frameworks in ConfigMap/%s/%s on %s has %s of those that MultiKueue dispatches, and frameworks asks for %s. Kueue watches each of them on every worker, and a worker that lacks one is lost to the hub. Nothing was applied. "+
			"Set frameworks to what is on, or change it there and restart Kueue.", kueue.Namespace, kueue.ConfigMap, c.Context(), kube.QuoteAll(on), kube.QuoteAll(wanted)),
	}
}

// requireKueue is Kueue on a cluster, in a version whose kinds berth reads.
func requireKueue(ctx context.Context, c *cluster.Cluster, namespace, attribute string) (*Kueue, error) {
	kueue, err := FindKueue(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	if kueue == nil {
		return nil, &cluster.Problem{
			Attribute: attribute, Summary: fmt.Sprintf("Kueue does not run on cluster %q", c.Name()),
			Detail: fmt.Sprintf("refusing: in namespace %q on %s no Deployment has an image called kueue. Nothing was applied. Install Kueue 0.15 or later there, for instance with a berth_release of its chart, or name the namespace that it runs in.", namespace, c.Context()),
		}
	}
	served, err := serves(ctx, c, ClusterQueues)
	if err != nil {
		return nil, err
	}
	if !served {
		return nil, &cluster.Problem{
			Attribute: attribute, Summary: fmt.Sprintf("Kueue on cluster %q is too old", c.Name()),
			Detail: fmt.Sprintf("refusing: Kueue %s on %s does not serve %s, which it does from 0.15 on. Nothing was applied. Upgrade it first.", kueue.Version, c.Context(), ClusterQueues.Group+"/"+ClusterQueues.Version),
		}
	}
	return kueue, nil
}

// ApplyHub makes a hub what it shall be. The checks of PlanHub are repeated first. The MultiKueueConfig comes with the
// first member: until then the AdmissionCheck is inactive, which is no error.
func ApplyHub(ctx context.Context, c *cluster.Cluster, spec HubSpec, terms kube.Terms) (*HubSeen, error) {
	outlook, err := PlanHub(ctx, c, spec, terms)
	if err != nil {
		return nil, err
	}
	if _, err := kube.Converge(ctx, c, spec.check(), terms); err != nil {
		return nil, err
	}
	if _, err := spec.graph(terms).Apply(ctx, c); err != nil {
		return nil, err
	}
	record, err := spec.record(outlook.Origin).object()
	if err != nil {
		return nil, err
	}
	if _, err := kube.Converge(ctx, c, record, terms); err != nil {
		return nil, err
	}
	seen, err := ReadHubState(ctx, c, spec, terms, true)
	if err == nil && seen == nil {
		err = &cluster.Problem{
			Summary: fmt.Sprintf("The hub of %q is gone again", spec.Tenant),
			Detail:  fmt.Sprintf("It was applied on %s, and somebody has deleted it since. Apply again.", c.Context()),
		}
	}
	return seen, err
}

// RemoveHub takes a hub apart. It refuses while Workloads are in its queue.
func RemoveHub(ctx context.Context, c *cluster.Cluster, spec HubSpec, terms kube.Terms, retain bool) error {
	if problem, err := CheckRemoveHub(ctx, c, spec); err != nil || problem != nil {
		if err == nil {
			err = problem
		}
		return err
	}
	if err := spec.graph(terms).Remove(ctx, c, retain); err != nil {
		return err
	}
	if _, err := kube.Remove(ctx, c, AdmissionChecks, "", spec.Name(), terms, retain); err != nil {
		return err
	}
	_, err := kube.Remove(ctx, c, cluster.ConfigMaps, spec.Tenant, HubRecordName, terms, retain)
	return err
}

// CheckRemoveHub tells why a hub must not be taken apart now; nil when it may.
func CheckRemoveHub(ctx context.Context, c *cluster.Cluster, spec HubSpec) (*cluster.Problem, error) {
	served, err := serves(ctx, c, Workloads)
	if err != nil || !served {
		return nil, err
	}
	all, err := c.List(ctx, Workloads)
	if err != nil {
		return nil, err
	}
	queue := spec.Scheduling.WithDefaults().ClusterQueue
	var busy []string
	for _, workload := range all {
		if at, _, _ := unstructured.NestedString(workload.Object, "status", "admission", "clusterQueue"); at == queue && !finished(workload) {
			busy = append(busy, workload.GetNamespace()+"/"+workload.GetName())
		}
	}
	if len(busy) == 0 {
		return nil, nil
	}
	return &cluster.Problem{
		Summary: fmt.Sprintf("%d Workload(s) are in ClusterQueue %q", len(busy), queue),
		Detail:  fmt.Sprintf("refusing: on %s these hold quota of the hub's queue: %s. Nothing was deleted. Wait until they are finished, or delete their jobs.", c.Context(), strings.Join(busy, ", ")),
	}, nil
}

// conditionOf is a condition in an object's status.
func conditionOf(object *unstructured.Unstructured, kind string) (condition Condition, found bool) {
	if object == nil {
		return Condition{}, false
	}
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range all {
		one, _ := item.(map[string]any)
		if one["type"] == kind {
			text := func(key string) string { value, _ := one[key].(string); return value }
			return Condition{Status: text("status"), Reason: text("reason"), Message: text("message")}, true
		}
	}
	return Condition{}, false
}

// is tells whether a condition of an object is True.
func is(object *unstructured.Unstructured, kind string) bool {
	one, _ := conditionOf(object, kind)
	return one.Status == "True"
}

func finished(workload *unstructured.Unstructured) bool { return is(workload, "Finished") }
