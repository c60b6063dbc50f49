// Package instance is an application's claim on one namespace of a shared cluster: its ownership, its node pool,
// platforms, sizes, priorities and required Secrets, the settings that its in-cluster readers need, and the workloads
// that belong to it.
package instance

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/preflight"
	"github.com/berthdev/terraform-provider-berth/internal/priority"
)

// Names of what an instance puts on a cluster.
const (
	SettingsName     = "berth-instance"
	OrchestratorName = "berth-orchestrator"
	RepoCacheName    = "berth-repo-cache"
	OperatorName     = "berth-operator"
	ControlClass     = "berth-control"
	SandboxClass     = "berth-sandbox"

	// LabelInstance names the instance that a namespace belongs to.
	LabelInstance = "berth.dev/instance"
	// LabelContentHash is the hash of what was rendered.
	LabelContentHash = "berth.dev/content-hash"
	// LabelVersion is the version of the shared operator.
	LabelVersion = "berth.dev/version"

	// FallbackUID is the user that a pod whose image declares none runs as (J51).
	FallbackUID = 1000
)

// The classes that an instance creates unless the configuration names its own (J36, J37): an ordinary pod (0) cannot
// preempt a sandbox, and a sandbox that waits for a node preempts nothing. Both are far below the system classes.
var (
	controlClass = priority.Class{
		Name: ControlClass, Value: 100000, PreemptionPolicy: priority.PreemptLowerPriority,
		Description: "What keeps instances running: operator, orchestrators and repo caches.",
	}
	sandboxClass = priority.Class{
		Name: SandboxClass, Value: 1000, PreemptionPolicy: priority.Never,
		Description: "Sandboxes: ordinary pods cannot preempt them, and they preempt nothing while they wait.",
	}
)

// Spec is an instance as a user states it. A nil map or slice was not set, an empty one was set to nothing (J2).
type Spec struct {
	Name      string
	Namespace string
	// NamespaceUID is that of the namespace which the state holds, "" where it holds none yet.
	NamespaceUID types.UID
	// KubernetesFloor is the floor or constraint of the cluster's version.
	KubernetesFloor string

	Registry      string
	SandboxImages map[string]string
	KitRegistry   string
	KitVersion    string

	// Platforms are the platforms to use; Derived says that they came from the nodes.
	Platforms []string
	Derived   bool

	NodeSelector map[string]string
	Tolerations  []preflight.Toleration
	// PlacementSet is whether `sandbox` was set at all.
	PlacementSet bool
	Sizes        map[string]Size

	// Control and Sandbox name PriorityClasses that exist; "" is the class that the instance creates.
	Control, Sandbox string
	PrioritySet      bool

	RequiredSecrets []SecretRef
	EnvFrom         []string
	Env             map[string]SecretKey
	GitCredentials  []GitCredential

	Operator *Operator
	// RemoveOperator uninstalls the shared operator when its last instance gives it up; it is no setting.
	RemoveOperator bool

	Orchestrator *Workload
	RepoCache    *Workload
}

// Size is what one sandbox may use, as quantities of Kubernetes.
type Size struct {
	Memory string `json:"memory"`
	CPU    string `json:"cpu"`
}

// SecretRef is a Secret that has to exist in the instance's namespace, with some keys.
type SecretRef struct {
	Name string   `json:"name"`
	Keys []string `json:"keys,omitempty"`
}

// SecretKey is one key of a Secret in the instance's namespace.
type SecretKey struct {
	Secret string `json:"secret"`
	Key    string `json:"key"`
}

// GitCredential names the Secrets with which repositories that match are read.
type GitCredential struct {
	Match        string     `json:"match"`
	Token        *SecretKey `json:"token,omitempty"`
	SSHKeySecret string     `json:"sshKeySecret,omitempty"`
}

// Workload is a component that the instance runs, off unless it has an image.
type Workload struct {
	Image string `json:"image"`
}

// Operator is the component that all instances of a cluster share.
type Operator struct {
	Image       string `json:"image"`
	Version     string `json:"version"`
	Namespace   string `json:"namespace"`
	ClusterRole string `json:"clusterRole,omitempty"`
}

// Placement is where sandboxes and the repo cache run.
func (s Spec) Placement() preflight.Placement {
	return preflight.Placement{Attribute: "sandbox", NodeSelector: s.NodeSelector, Tolerations: s.Tolerations}
}

// Classes are the PriorityClasses in use, and whether the instance creates them.
type Classes struct {
	Control, Sandbox Class
}

// Class is a PriorityClass in use.
type Class struct {
	Name    string `json:"name"`
	Managed bool   `json:"managed"`
}

// Classes returns the effective PriorityClasses (J38).
func (s Spec) Classes() Classes {
	pick := func(named, own string) Class {
		if named != "" {
			return Class{Name: named}
		}
		return Class{Name: own, Managed: true}
	}
	return Classes{Control: pick(s.Control, ControlClass), Sandbox: pick(s.Sandbox, SandboxClass)}
}

// managedClasses are the classes that the instance creates, for the keys that name none.
func (s Spec) managedClasses() []priority.Class {
	var classes []priority.Class
	if s.Control == "" {
		classes = append(classes, controlClass)
	}
	if s.Sandbox == "" {
		classes = append(classes, sandboxClass)
	}
	return classes
}

// namedClasses are the classes that the configuration names, by attribute.
func (s Spec) namedClasses() []preflight.ObjectRef {
	var named []preflight.ObjectRef
	if s.Control != "" {
		named = append(named, preflight.ObjectRef{Attribute: "priority_classes.control", Name: s.Control})
	}
	if s.Sandbox != "" {
		named = append(named, preflight.ObjectRef{Attribute: "priority_classes.sandbox", Name: s.Sandbox})
	}
	return named
}

// ImageRefs are the references of the sandbox images: one without a registry is below the instance's (J13).
func (s Spec) ImageRefs() map[string]string {
	refs := map[string]string{}
	for name, ref := range s.SandboxImages {
		if s.Registry != "" && !hasRegistry(ref) {
			ref = s.Registry + "/" + ref
		}
		refs[name] = ref
	}
	return refs
}

// KitImages are the references of the components' images: the mirror, where there is one, takes the place of the
// registry and path that an image has at home (J18, J55).
func (s Spec) KitImages() map[string]string {
	images := map[string]string{}
	if s.Operator != nil {
		images["operator"] = s.mirrored(s.Operator.Image)
	}
	if s.Orchestrator != nil {
		images["orchestrator"] = s.mirrored(s.Orchestrator.Image)
	}
	if s.RepoCache != nil {
		images["repo_cache"] = s.mirrored(s.RepoCache.Image)
	}
	return images
}

func (s Spec) mirrored(ref string) string {
	if s.KitRegistry == "" {
		return ref
	}
	return s.KitRegistry + "/" + ref[strings.LastIndex(ref, "/")+1:]
}

// hasRegistry tells whether an image reference names its registry: the first part has a dot or a port, or is
// localhost, which is how container runtimes tell it from a repository's path.
func hasRegistry(ref string) bool {
	first, _, found := strings.Cut(ref, "/")
	return found && (strings.ContainsAny(first, ".:") || first == "localhost")
}

// Owner is whose mark the instance's objects carry.
func (s Spec) Owner(configuration string) kube.Owner {
	return kube.Owner{Configuration: configuration, Resource: ownerPrefix + s.Name}
}

// ownerPrefix begins the resource part of every instance's mark.
const ownerPrefix = "instance."

// secretRefs are all Secrets that the instance needs, each with the attribute that names it (J58 to J62).
func (s Spec) secretRefs() []preflight.SecretRef {
	var refs []preflight.SecretRef
	add := func(attribute, name string, keys ...string) {
		refs = append(refs, preflight.SecretRef{Attribute: attribute, Namespace: s.Namespace, Name: name, Keys: keys})
	}
	for i, ref := range s.RequiredSecrets {
		add(index("required_secrets", i), ref.Name, ref.Keys...)
	}
	for i, name := range s.EnvFrom {
		add(index("env_from", i), name)
	}
	for _, variable := range sortedKeys(s.Env) {
		add(`env["`+variable+`"]`, s.Env[variable].Secret, s.Env[variable].Key)
	}
	for i, credential := range s.GitCredentials {
		if credential.Token != nil {
			add(index("git_credentials", i)+".token", credential.Token.Secret, credential.Token.Key)
		}
		if credential.SSHKeySecret != "" {
			add(index("git_credentials", i)+".ssh_key_secret", credential.SSHKeySecret)
		}
	}
	return refs
}

// preflightSizes are the sizes with their defaults; their form was validated.
func (s Spec) preflightSizes() (map[string]preflight.Size, error) {
	sizes := map[string]preflight.Size{}
	for name, size := range s.Sizes {
		parsed, err := preflight.ParseSize(size.Memory, size.CPU)
		if err != nil {
			return nil, err
		}
		sizes[name] = parsed
	}
	return sizes, nil
}

// ContentHash is the first 12 hexadecimal digits of the hash of the settings: it moves when they do, and with it the
// instance is updated (J52).
func (s Spec) ContentHash() string {
	data := s.settings()
	hash := sha256.New()
	for _, key := range sortedKeys(data) {
		hash.Write([]byte(key + "\x00" + data[key] + "\x00"))
	}
	return hex.EncodeToString(hash.Sum(nil))[:12]
}

// Union returns the platforms of both, sorted: what is derived from the nodes only grows, because nodes come and go.
func Union(a, b []string) []string {
	all := append(slices.Clone(a), b...)
	sort.Strings(all)
	return slices.Compact(all)
}

func sortedKeys[V any](values map[string]V) []string {
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
