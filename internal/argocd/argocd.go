// Package argocd registers a workload cluster with the Argo CD of a management cluster, keeps the registration as it was
// written, and takes it apart again in the documented order.
package argocd

import (
	"time"

	"github.com/berthdev/terraform-provider-berth/internal/access"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// The kinds of Argo CD that berth reads or writes. Source: Argo CD's CRDs, v1alpha1 in every release so far.
var (
	Applications = cluster.Kind{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications", Kind: "Application", Namespaced: true}
	AppProjects  = cluster.Kind{Group: "argoproj.io", Version: "v1alpha1", Resource: "appprojects", Kind: "AppProject", Namespaced: true}
)

const (
	// DefaultNamespace is where Argo CD is usually installed.
	DefaultNamespace = "argocd"
	// DefaultKubeconfigNamespace is where kubeconfigs are stored unless the configuration says otherwise (I17).
	DefaultKubeconfigNamespace = "berth-clusters"
	// InClusterServer is the address by which Argo CD deploys to the cluster that it runs in; it needs no Secret (I23, Y13).
	InClusterServer = "https://kubernetes.default.svc"
	// InClusterName is the name that Argo CD itself gives to that destination.
	InClusterName = "in-cluster"

	// LabelSecretType marks the Secrets that Argo CD reads as clusters (I6).
	LabelSecretType = "argocd.argoproj.io/secret-type"
	// SecretTypeCluster is the label's value.
	SecretTypeCluster = "cluster"
	// AnnotationWave holds the sync wave of a resource, 0 where there is none.
	AnnotationWave = "argocd.argoproj.io/sync-wave"
	// AnnotationTracking names the Application that a resource belongs to: application:group/kind:namespace/name.
	AnnotationTracking = "argocd.argoproj.io/tracking-id"
	// LabelInstance is where Argo CD keeps the name of the Application with the tracking method "label".
	LabelInstance = "app.kubernetes.io/instance"
	// FinalizerCascade on an Application makes its deletion delete what it deployed; without it that stays (I98).
	FinalizerCascade = "resources-finalizer.argocd.argoproj.io"

	// LabelZone marks the Application of a zone: whoever places an environment on a cluster sets it, and a removal waits
	// until none is left (I82).
	LabelZone = "berth.dev/zone"
	// LabelProduct names the zone's product.
	LabelProduct = "berth.dev/product"
	// LabelEnvironment names the zone's environment.
	LabelEnvironment = "berth.dev/environment"
	// LabelOrg names the organization of a zone's Application or of a registered cluster.
	LabelOrg = "berth.dev/org"
	// LabelProvider, and the two that follow, say on a cluster's Secret where it runs, for ApplicationSet generators and
	// for data sources (I19).
	LabelProvider = "berth.dev/provider"
	// LabelFlavor names the flavor.
	LabelFlavor = "berth.dev/flavor"
	// LabelRegion names the region.
	LabelRegion = "berth.dev/region"
	// AnnotationClusterUID, and the two that follow, say on a cluster's Secret what it was when it was applied last.
	AnnotationClusterUID = "berth.dev/cluster-uid"
	// AnnotationVersion holds the version of Kubernetes.
	AnnotationVersion = "berth.dev/kubernetes-version"
	// AnnotationNodes holds the number of nodes.
	AnnotationNodes = "berth.dev/node-count"
	// AnnotationRemoveLast on an Application ("true") says that it is one of the controllers which own cloud resources and
	// are removed last (I83).
	AnnotationRemoveLast = "berth.dev/remove-last"
	// AnnotationRemoval marks an Application that a removal has begun to take down; its value is the name of the cluster.
	AnnotationRemoval = "berth.dev/removal"
	// AnnotationRemovalStep stands on the cluster's Secret while it is being removed.
	AnnotationRemovalStep = "berth.dev/removal-step"
	// AnnotationRemovalStarted says since when.
	AnnotationRemovalStarted = "berth.dev/removal-started"
)

// Spec is a registration as the configuration has it.
type Spec struct {
	// Name is what Argo CD calls the cluster: destination.name of Applications.
	Name string
	// Namespace is Argo CD's.
	Namespace string
	// InCluster registers the management cluster itself once more: an app-of-apps of its own and no Secret (I23).
	InCluster bool
	// SecretName is the cluster's Secret; "cluster-<name>" unless one of another name was imported or adopted.
	SecretName string
	// Server is the address at which Argo CD reaches the API server, where it is not the one of the connection (I21).
	Server string
	// Org is the organization that the cluster belongs to, "" the platform (I16).
	Org string
	// Provider, Flavor and Region say where it runs; empty where they are detected (I45) or not known.
	Provider, Flavor, Region string
	// Placed says that this was settled when the cluster was registered: what is empty is not detected any more.
	Placed bool
	// Labels and Annotations are put on the Secret, for what selects clusters by them.
	Labels, Annotations map[string]string
	// Project, Namespaces, ClusterResources and Shard are Argo CD's own fields of a cluster.
	Project          string
	Namespaces       []string
	ClusterResources *bool
	Shard            *int64
	// StoreKubeconfig keeps a minimised kubeconfig as Secret "cluster-<name>-kubeconfig" in KubeconfigNamespace (I17).
	StoreKubeconfig     bool
	KubeconfigNamespace string
	// Access is the ServiceAccount whose token Argo CD gets, nil for the credential of the cluster's own connection.
	Access *access.Ref
	// TokenLifetime is what is asked for where the token is minted.
	TokenLifetime time.Duration
	// AppOfApps is the root Application, nil for none.
	AppOfApps *AppOfApps
	// Built says that a module of ours built the cluster, and with it which steps of a removal are allowed (I92).
	Built bool
}

// AppOfApps is the root Application "registry-<name>", which brings every Application of a directory (I8).
type AppOfApps struct {
	RepoURL, Revision, Path string
	// ManagementPath is the directory of the management cluster's own Applications, where the file of the root belongs for
	// who commits it instead of having it applied.
	ManagementPath string
	// Project is the AppProject of the root.
	Project string
	// Commit says that the root is committed by hand and not applied by berth (I7).
	Commit bool
}

// Clusters are the two clusters of a registration.
type Clusters struct {
	// Management is where Argo CD runs.
	Management *cluster.Cluster
	// Workload is the registered one. It is the management cluster itself for Spec.InCluster.
	Workload *cluster.Cluster
	// Unreachable is why the workload cluster can't be asked anything now; nil when it answers.
	Unreachable error
}

// silent tells whether the workload cluster can't be asked anything now.
func (c Clusters) silent() bool { return c.Unreachable != nil }

// Warning is something that a person should know and that stops nothing.
type Warning struct{ Summary, Detail string }

// Terms are on whose behalf, and how far, objects may be taken.
type Terms = kube.Terms

// RootName is the name of a cluster's root Application (I8).
func RootName(name string) string { return "registry-" + name }

// SecretNameOf is the name of a cluster's Secret in Argo CD's namespace (I6).
func SecretNameOf(name string) string { return "cluster-" + name }

// KubeconfigSecretName is the name of the Secret with a cluster's kubeconfig (I17).
func KubeconfigSecretName(name string) string { return "cluster-" + name + "-kubeconfig" }
