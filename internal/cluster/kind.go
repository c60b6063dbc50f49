package cluster

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is a kind of object as the API serves it: what to ask for (group, version and plural resource), what the
// objects call themselves, and whether they live in a namespace. The kinds below are built into every API server, so
// naming one costs no discovery.
type Kind struct {
	Group      string
	Version    string
	Resource   string // plural, lower case, as in the URL
	Kind       string
	Namespaced bool
}

// The built-in kinds that berth reads or writes.
var (
	Namespaces             = Kind{Version: "v1", Resource: "namespaces", Kind: "Namespace"}
	Nodes                  = Kind{Version: "v1", Resource: "nodes", Kind: "Node"}
	Pods                   = Kind{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}
	Secrets                = Kind{Version: "v1", Resource: "secrets", Kind: "Secret", Namespaced: true}
	ConfigMaps             = Kind{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true}
	Services               = Kind{Version: "v1", Resource: "services", Kind: "Service", Namespaced: true}
	ServiceAccounts        = Kind{Version: "v1", Resource: "serviceaccounts", Kind: "ServiceAccount", Namespaced: true}
	Events                 = Kind{Version: "v1", Resource: "events", Kind: "Event", Namespaced: true}
	ResourceQuotas         = Kind{Version: "v1", Resource: "resourcequotas", Kind: "ResourceQuota", Namespaced: true}
	Deployments            = Kind{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespaced: true}
	DaemonSets             = Kind{Group: "apps", Version: "v1", Resource: "daemonsets", Kind: "DaemonSet", Namespaced: true}
	ReplicaSets            = Kind{Group: "apps", Version: "v1", Resource: "replicasets", Kind: "ReplicaSet", Namespaced: true}
	StatefulSets           = Kind{Group: "apps", Version: "v1", Resource: "statefulsets", Kind: "StatefulSet", Namespaced: true}
	Jobs                   = Kind{Group: "batch", Version: "v1", Resource: "jobs", Kind: "Job", Namespaced: true}
	PriorityClasses        = Kind{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses", Kind: "PriorityClass"}
	StorageClasses         = Kind{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses", Kind: "StorageClass"}
	PersistentVolumes      = Kind{Version: "v1", Resource: "persistentvolumes", Kind: "PersistentVolume"}
	PersistentVolumeClaims = Kind{Version: "v1", Resource: "persistentvolumeclaims", Kind: "PersistentVolumeClaim", Namespaced: true}
	ClusterRoles           = Kind{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles", Kind: "ClusterRole"}
	ClusterRoleBindings    = Kind{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings", Kind: "ClusterRoleBinding"}
)

// GVR is the group, version and resource by which client-go names the kind.
func (k Kind) GVR() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.Resource}
}

// GVK is the group, version and kind that objects of the kind carry.
func (k Kind) GVK() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
}

// New returns an empty object of the kind, with its apiVersion, kind, name and (where the kind has one) namespace.
func (k Kind) New(namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(k.GVK())
	object.SetName(name)
	if k.Namespaced {
		object.SetNamespace(namespace)
	}
	return object
}
