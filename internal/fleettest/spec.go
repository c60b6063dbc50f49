package fleettest

import (
	"errors"
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// ClusterSpec says what one cluster is like. The zero value, with a name, is a whole cluster without nodes.
type ClusterSpec struct {
	// Name is the name of the cluster, of its kubeconfig's context, and of its directory.
	Name string

	// ControlPlaneOnly boots etcd and the API server alone, which is the quicker and lighter form. Nothing reconciles
	// there: pods stay Pending, namespaces stay Terminating, quotas are not counted, and no default ServiceAccount
	// appears in a namespace (so pods are admitted without one).
	ControlPlaneOnly bool

	// Controllers adds kube-controller-manager to a ControlPlaneOnly cluster: namespaces go, quotas are counted, volume
	// claims bind, default ServiceAccounts appear; still nothing is scheduled or runs.
	Controllers bool

	// Version is what the API server reports instead of the version that it is, such as "v1.34.2-gke.100". The first use
	// of a version links the API server once more.
	Version string

	// FeatureGates are set on the API server. A gate that the version has locked, or that another enabled gate needs,
	// stops the boot with a message that says so; EmulatedVersion is the way round both.
	FeatureGates map[string]bool

	// EmulatedVersion has the API server behave as an older minor does, such as "1.35", in which gates that have been
	// locked since can still be turned off. At most three minors back.
	EmulatedVersion string

	// ExtraAPIServerArgs come after the harness's own flags, and so win over them.
	ExtraAPIServerArgs []string

	// AdmissionWebhooks lets the API server call admission webhooks. It is off by default because pods are simulated: a
	// webhook that an installed component registers could not answer and would block its kinds. Those of a Manager do
	// answer.
	AdmissionWebhooks bool

	Nodes          []NodeSpec
	StorageClasses []StorageClassSpec

	// LoadBalancer says what Services of type LoadBalancer get as their address.
	LoadBalancer LoadBalancerKind

	// Engines are the controllers that run as real processes: Knative's as soon as what installs it is on the cluster,
	// Argo CD, which the harness installs, from the start.
	Engines []Engine

	// Stages is YAML with kwok Stage objects beside those that make nodes and pods ready, for pods that fail or wait.
	// A stage that should win over them gives a higher spec.weight.
	Stages string

	// Proxy puts a proxy in front of the API server, to which Kubeconfig then leads. See Cluster.FrontProxy.
	Proxy *ProxyOptions
}

// NodeSpec describes one node. Nodes are always Ready; see Cluster.AddNode to add one later.
type NodeSpec struct {
	Name   string
	Labels map[string]string
	Taints []corev1.Taint
	// CPU, Memory and Pods are allocatable and capacity alike; "8", "32Gi" and "110" where empty.
	CPU, Memory, Pods string
	// Extended are further allocatable resources, such as "nvidia.com/gpu": "1".
	Extended map[string]string
	// Architecture is "amd64" where empty. It becomes the label kubernetes.io/arch too.
	Architecture string
	// Runtime is the containerRuntimeVersion, "containerd://2.2.0" where empty.
	Runtime string
	// KubeletVersion is the API server's version where empty.
	KubeletVersion string
	Unschedulable  bool
	// NotReady nodes carry the Ready condition False. Only in a ControlPlaneOnly cluster: kwok makes nodes Ready.
	NotReady bool
}

// StorageClassSpec describes one StorageClass, whose claims are bound to host directories by the controller manager.
type StorageClassSpec struct {
	Name    string
	Default bool
	// Provisioner is kubernetes.io/host-path where empty. Claims of any other one stay Pending.
	Provisioner string
	// VolumeBindingMode is Immediate where empty.
	VolumeBindingMode storagev1.VolumeBindingMode
	// AllowVolumeExpansion is passed on as it is.
	AllowVolumeExpansion bool
}

// LoadBalancerKind says what kind of address a Service of type LoadBalancer gets.
type LoadBalancerKind string

const (
	// LoadBalancerNone leaves such Services without an address, as a bare cluster does.
	LoadBalancerNone LoadBalancerKind = ""
	// LoadBalancerIP gives addresses from 192.0.2.0/24 (TEST-NET-1, RFC 5737).
	LoadBalancerIP LoadBalancerKind = "ip"
	// LoadBalancerHostname gives <service>.<namespace>.<cluster>.example.com (RFC 2606).
	LoadBalancerHostname LoadBalancerKind = "hostname"
)

var clusterName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

func validate(specs []ClusterSpec) error {
	if len(specs) == 0 {
		return errors.New("fleettest: no cluster asked for")
	}
	seen := map[string]bool{}
	for _, s := range specs {
		if !clusterName.MatchString(s.Name) {
			return fmt.Errorf("fleettest: cluster name %q: want lower-case letters, digits, dots and dashes", s.Name)
		}
		if seen[s.Name] {
			return fmt.Errorf("fleettest: two clusters are named %q", s.Name)
		}
		seen[s.Name] = true
		if err := s.validateEngines(); err != nil {
			return fmt.Errorf("fleettest: cluster %q: %w", s.Name, err)
		}
		if s.ControlPlaneOnly && s.Stages != "" {
			return fmt.Errorf("fleettest: cluster %q has stages but, being ControlPlaneOnly, no kwok to follow them", s.Name)
		}
		if !s.ControlPlaneOnly {
			for _, n := range s.Nodes {
				if n.NotReady {
					return fmt.Errorf("fleettest: node %q of cluster %q: only a ControlPlaneOnly cluster keeps a node not ready; elsewhere kwok makes it Ready", n.Name, s.Name)
				}
			}
		}
	}
	return nil
}

// runs tells whether the cluster has a controller manager.
func (s ClusterSpec) hasControllers() bool { return !s.ControlPlaneOnly || s.Controllers }
