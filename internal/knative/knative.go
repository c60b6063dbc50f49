// Package knative keeps Knative Serving on a cluster: its operator, Serving itself and Traefik as its ingress. It chooses
// versions, installs or adopts each part, upgrades them one minor at a time, lets the regions of a cluster share them, and
// takes them apart in order.
package knative

import "github.com/berthdev/terraform-provider-berth/internal/cluster"

// The kinds that this package reads and writes besides the built-in ones.
var (
	// Servings is what the operator installs Serving from.
	Servings = cluster.Kind{Group: "operator.knative.dev", Version: "v1beta1", Resource: "knativeservings", Kind: "KnativeServing", Namespaced: true}
	// Eventings is the operator's other kind: whoever has one needs the operator.
	Eventings = cluster.Kind{Group: "operator.knative.dev", Version: "v1beta1", Resource: "knativeeventings", Kind: "KnativeEventing", Namespaced: true}
	// Services are what runs on Serving.
	Services = cluster.Kind{Group: "serving.knative.dev", Version: "v1", Resource: "services", Kind: "Service", Namespaced: true}
	// CRDs describe kinds.
	CRDs = cluster.Kind{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions", Kind: "CustomResourceDefinition"}
	// IngressClasses say which controller serves an Ingress, and Ingresses are what it serves.
	IngressClasses = cluster.Kind{Group: "networking.k8s.io", Version: "v1", Resource: "ingressclasses", Kind: "IngressClass"}
	Ingresses      = cluster.Kind{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses", Kind: "Ingress", Namespaced: true}
	// Leases guard what several regions change.
	Leases = cluster.Kind{Group: "coordination.k8s.io", Version: "v1", Resource: "leases", Kind: "Lease", Namespaced: true}
)

const (
	// OperatorRelease is the name of the operator's Helm release, and of its chart and Deployment.
	OperatorRelease = "knative-operator"
	// TraefikRelease is the name of Traefik's Helm release and of its chart.
	TraefikRelease = "traefik"
)

// The charts' upstream repositories and the pinned version of Traefik's (R24).
const (
	OperatorRepository  = "https://knative.github.io/operator"
	TraefikRepository   = "https://traefik.github.io/charts"
	TraefikChartVersion = "40.3.0"
)
