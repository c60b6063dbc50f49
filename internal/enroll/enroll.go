// Package enroll makes a cluster a worker of a hub that dispatches jobs to it through Kueue's MultiKueue, without stopping
// what runs there, and makes and keeps the hub itself.
package enroll

import (
	"fmt"
	"strconv"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// The kinds of Kueue, JobSet and batch that berth reads or writes. Source: the CRDs of Kueue 0.15 to 0.17, which serve
// v1beta2, and of JobSet, v1alpha2 in every release so far.
var (
	ResourceFlavors            = kueueKind("resourceflavors", "ResourceFlavor", false)
	ClusterQueues              = kueueKind("clusterqueues", "ClusterQueue", false)
	LocalQueues                = kueueKind("localqueues", "LocalQueue", true)
	AdmissionChecks            = kueueKind("admissionchecks", "AdmissionCheck", false)
	ProvisioningRequestConfigs = kueueKind("provisioningrequestconfigs", "ProvisioningRequestConfig", false)
	MultiKueueConfigs          = kueueKind("multikueueconfigs", "MultiKueueConfig", false)
	MultiKueueClusters         = kueueKind("multikueueclusters", "MultiKueueCluster", false)
	Workloads                  = kueueKind("workloads", "Workload", true)
	JobSets                    = cluster.Kind{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets", Kind: "JobSet", Namespaced: true}
	Jobs                       = cluster.Kind{Group: "batch", Version: "v1", Resource: "jobs", Kind: "Job", Namespaced: true}
)

func kueueKind(resource, kind string, namespaced bool) cluster.Kind {
	return cluster.Kind{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: resource, Kind: kind, Namespaced: namespaced}
}

const (
	// DefaultKueueNamespace is where Kueue's chart is usually installed.
	DefaultKueueNamespace = "kueue-system"
	// DefaultJobSetNamespace is where JobSet's chart is usually installed.
	DefaultJobSetNamespace = "jobset-system"
	// LabelWorker on a record, and on what belongs to it on the hub, holds the worker's identity.
	LabelWorker = "berth.dev/worker-cluster"
	// LabelOrigin is on the copies of Workloads that a hub keeps on its workers; its value is the hub's origin.
	LabelOrigin = "kueue.x-k8s.io/multikueue-origin"
	// longestIdentity is how long the value of a label can be (K58, Y11).
	longestIdentity = 63
)

// Identity is what a worker is called in labels and on the hub (K58): the length of the tenant's namespace, the namespace
// and the worker, such as 11-forecasting-forecasting-us. It fails for one that is longer than a label's value (Y11).
func Identity(tenant, worker string) (string, error) {
	identity := strconv.Itoa(len(tenant)) + "-" + tenant + "-" + worker
	if over := len(identity) - longestIdentity; over > 0 {
		return "", &cluster.Problem{
			Attribute: "name", Summary: fmt.Sprintf("The worker's name %q is too long", worker),
			Detail: fmt.Sprintf("refusing: the worker is known as %q, which is the value of a label and %d character(s) too long: %d at most. In the tenant %q a worker's name has at most %d. Nothing was applied.",
				identity, over, longestIdentity, tenant, len(worker)-over),
		}
	}
	return identity, nil
}
