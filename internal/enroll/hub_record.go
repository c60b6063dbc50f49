package enroll

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// HubRecordName is the ConfigMap in the tenant's namespace by which an enrollment finds the hub.
const HubRecordName = "berth-hub"

// recordKey is the key of a record's ConfigMap.
const recordKey = "record.json"

// HubRecord is what a hub is to its enrollments. It is kept on the hub, so that they may be in another state, and of
// another person.
type HubRecord struct {
	Tenant             string   `json:"tenant"`
	WorkloadNamespaces []string `json:"workloadNamespaces"`
	Frameworks         []string `json:"frameworks"`
	Origin             string   `json:"origin"`
	KueueNamespace     string   `json:"kueueNamespace"`
	// Scheduling is the hub's own, for an import; its LocalQueue has the same name on every worker.
	Scheduling Scheduling `json:"scheduling"`
}

// object is the record's ConfigMap.
func (r HubRecord) object() (kube.Object, error) {
	content, err := json.Marshal(r)
	if err != nil {
		return kube.Object{}, err
	}
	desired := cluster.ConfigMaps.New(r.Tenant, HubRecordName)
	desired.Object["data"] = map[string]any{recordKey: string(content)}
	return kube.Object{Kind: cluster.ConfigMaps, Desired: desired}, nil
}

// ReadHub reads the record of a tenant's hub. planned is set where the plan being made will write it: then nothing of it is
// known yet. The error is a *cluster.Problem about `hub` where there is none.
func ReadHub(ctx context.Context, hub *cluster.Cluster, tenant string) (record *HubRecord, planned bool, err error) {
	if hub.Planned(cluster.ConfigMaps, tenant, HubRecordName) {
		return nil, true, nil
	}
	live, err := hub.Live(ctx, cluster.ConfigMaps, tenant, HubRecordName)
	if err != nil {
		return nil, false, err
	}
	if live == nil || live.GetDeletionTimestamp() != nil {
		return nil, false, &cluster.Problem{
			Attribute: "hub", Summary: fmt.Sprintf("There is no hub in namespace %q", tenant),
			Detail: fmt.Sprintf("refusing: on %s there is no %s, which a berth_hub writes. Nothing was applied. Set hub to the id of a berth_hub, and apply that first.",
				hub.Context(), kube.Name(cluster.ConfigMaps.Kind, tenant, HubRecordName)),
		}
	}
	record = &HubRecord{}
	return record, false, readRecord(hub, live, record)
}

// readRecord reads what a record's ConfigMap holds.
func readRecord(c *cluster.Cluster, live *unstructured.Unstructured, into any) error {
	text, _, _ := unstructured.NestedString(live.Object, "data", recordKey)
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return &cluster.Problem{
			Summary: fmt.Sprintf("%s cannot be read", kube.Describe(live)), Err: err,
			Detail: fmt.Sprintf("refusing: key %s of %s on %s is not what berth wrote: %s. Apply the resource that owns it, which writes it again.", recordKey, kube.Describe(live), c.Context(), err),
		}
	}
	return nil
}
