package enroll

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// Condition is one of Kubernetes' conditions.
type Condition struct{ Status, Reason, Message string }

// HubSeen is a hub as it is.
type HubSeen struct {
	Origin string
	// Kueue and JobSet are the versions that run; "" where they cannot be told, or nothing runs.
	Kueue, JobSet string
	Objects       []SchedulingObject
	// Members are the workers that the hub dispatches to, by their identities.
	Members []string
	// Conditions are KueueReady, QueueActive and Dispatching.
	Conditions map[string]Condition
	Drift      map[string]string
}

// ReadHubState is a hub as it is on the cluster, with what drifted; nil when nothing of it is left.
func ReadHubState(ctx context.Context, c *cluster.Cluster, spec HubSpec, terms kube.Terms, marked bool) (*HubSeen, error) {
	kueue, err := FindKueue(ctx, c, spec.KueueNamespace)
	if err != nil {
		return nil, err
	}
	seen := &HubSeen{Conditions: map[string]Condition{}}
	origin := ""
	if kueue != nil {
		seen.Origin, seen.Kueue, origin = kueue.Origin, kueue.Version, kueue.Origin
	}
	if seen.JobSet, _, err = FindJobSet(ctx, c, DefaultJobSetNamespace); err != nil {
		return nil, err
	}
	graph := spec.graph(terms)
	if seen.Objects, seen.Drift, err = graph.Read(ctx, c, marked); err != nil {
		return nil, err
	}
	record, err := spec.record(origin).object()
	if err != nil {
		return nil, err
	}
	others := []kube.Object{record}
	served, err := serves(ctx, c, AdmissionChecks)
	if err != nil {
		return nil, err
	}
	check := spec.check()
	if served {
		others = append(others, check)
	} else {
		seen.Drift[check.Describe()] = "missing → present"
	}
	drift, err := kube.Drift(ctx, c, terms.Owner, others, marked)
	if err != nil {
		return nil, err
	}
	maps.Copy(seen.Drift, drift)
	gone := func(o SchedulingObject) bool { return o.State == StateMissing }
	if slices.IndexFunc(seen.Objects, func(o SchedulingObject) bool { return !gone(o) }) < 0 &&
		seen.Drift[record.Describe()] != "" && seen.Drift[check.Describe()] != "" {
		live, err := c.Live(ctx, cluster.ConfigMaps, spec.Tenant, HubRecordName)
		if err != nil || live == nil {
			return nil, err
		}
	}
	if !served {
		seen.Conditions["KueueReady"] = Condition{"False", "NotInstalled", fmt.Sprintf("%s is not served on %s", ClusterQueues.Group, c.Context())}
		return seen, nil
	}
	return seen, seen.observe(ctx, c, spec, kueue)
}

// observe fills in members and conditions.
func (h *HubSeen) observe(ctx context.Context, c *cluster.Cluster, spec HubSpec, kueue *Kueue) error {
	switch {
	case kueue == nil:
		h.Conditions["KueueReady"] = Condition{"False", "NotInstalled", fmt.Sprintf("in namespace %q on %s no Deployment has an image called kueue", spec.KueueNamespace, c.Context())}
	case kueue.Ready < kueue.Wanted:
		h.Conditions["KueueReady"] = Condition{"False", "NotReady", fmt.Sprintf("%d of %d replicas of Kueue are ready", kueue.Ready, kueue.Wanted)}
	default:
		h.Conditions["KueueReady"] = Condition{"True", "Ready", "Kueue " + kueue.Version + " runs"}
	}
	config, err := c.Find(ctx, MultiKueueConfigs, "", spec.Name())
	if err != nil {
		return err
	}
	h.Members = members(config)
	queue, err := c.Find(ctx, ClusterQueues, "", spec.Scheduling.WithDefaults().ClusterQueue)
	if err != nil {
		return err
	}
	if condition, found := conditionOf(queue, "Active"); found {
		h.Conditions["QueueActive"] = condition
	} else {
		h.Conditions["QueueActive"] = Condition{"Unknown", "NotObserved", "Kueue has not looked at the ClusterQueue yet"}
	}
	check, err := c.Find(ctx, AdmissionChecks, "", spec.Name())
	if err != nil {
		return err
	}
	condition, found := conditionOf(check, "Active")
	switch {
	case len(h.Members) == 0:
		condition = Condition{"False", "NoMembers", "no worker is a member yet, so nothing is dispatched"}
	case !found:
		condition = Condition{"Unknown", "NotObserved", "Kueue has not looked at the AdmissionCheck yet"}
	}
	h.Conditions["Dispatching"] = condition
	return nil
}

// members are the names in a MultiKueueConfig; none where there is no such object.
func members(config *unstructured.Unstructured) []string {
	if config == nil {
		return nil
	}
	names, _, _ := unstructured.NestedStringSlice(config.Object, "spec", "clusters")
	return names
}
