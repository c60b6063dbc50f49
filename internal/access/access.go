// Package access is a ServiceAccount on a cluster with rights, and the tokens of it that others store: Argo CD and Kueue
// outlive every cloud sign-in.
package access

import (
	"fmt"
	"strings"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// Ref names the ServiceAccount of an access, as the ID of berth_cluster_access does.
type Ref struct {
	// Cluster is the key of the cluster in the provider's configuration.
	Cluster string
	// Namespace and Name are the ServiceAccount's.
	Namespace, Name string
}

// String is the ID: cluster/namespace/name.
func (r Ref) String() string { return r.Cluster + "/" + r.Namespace + "/" + r.Name }

// ParseRef reads an ID of berth_cluster_access. Its error is a *cluster.Problem about the attribute `access`.
func ParseRef(id string) (Ref, error) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return Ref{}, &cluster.Problem{
			Attribute: "access", Summary: fmt.Sprintf("%q names no access", id),
			Detail: "It has to be the id of a berth_cluster_access: the cluster's key, the namespace and the ServiceAccount with slashes between them, such as \"edge/kube-system/berth\".",
		}
	}
	return Ref{Cluster: parts[0], Namespace: parts[1], Name: parts[2]}, nil
}
