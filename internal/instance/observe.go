package instance

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/preflight"
)

// Observation is what is seen of an instance on its cluster, besides what was applied.
type Observation struct {
	KubernetesVersion string
	NodesSeen
	// OperatorVersion is the version of the shared operator, "" when there is none or the instance has no part in it.
	OperatorVersion string
	Conditions      []Condition
}

// NodesSeen is what is seen of the nodes.
type NodesSeen struct {
	// NodesRead is false when `platforms` is set: then the nodes are not read (J25).
	NodesRead            bool
	SandboxNodes         []string
	ExcludedNodes        []preflight.Excluded
	SchedulableNodes     int
	SkippedArchitectures []string
}

// Condition is one aspect of an instance's state, in the form of Kubernetes' conditions.
type Condition struct {
	Type    string
	Good    bool
	Reason  string
	Message string
}

// PlatformsOf returns the platforms to use: those of the configuration, or those of the nodes, to which those in use
// (before) are added, since nodes come and go. Where the nodes have none, those in use are kept; without any the error
// is a *cluster.Problem (J65).
func (s Spec) PlatformsOf(ctx context.Context, c *cluster.Cluster, before []string) ([]string, error) {
	if !s.Derived {
		return s.Platforms, nil
	}
	nodes, err := s.nodes(ctx, c)
	if err != nil {
		return nil, err
	}
	derived, err := preflight.DerivePlatforms(s.Placement(), nodes)
	if err != nil {
		if len(before) > 0 {
			return before, nil
		}
		return nil, &cluster.Problem{
			Attribute: "platforms", Summary: fmt.Sprintf("No platform for instance %q", s.Name), Detail: "refusing: " + err.Error(), Err: err,
		}
	}
	return Union(before, derived.Names), nil
}

// nodes are the cluster's nodes. Without the permission to list them the way out is to say what they would.
func (s Spec) nodes(ctx context.Context, c *cluster.Cluster) ([]corev1.Node, error) {
	nodes, err := preflight.Nodes(ctx, c)
	if apierrors.IsForbidden(err) {
		return nil, &cluster.Problem{
			Attribute: "platforms", Summary: fmt.Sprintf("The nodes of cluster %q cannot be listed", c.Name()),
			Detail: fmt.Sprintf("The platforms of instance %q come from the nodes, and the credential may not list them: %s. Grant it `list nodes`, or set `platforms`: then the nodes are not read.", s.Name, err),
			Err:    err,
		}
	}
	return nodes, err
}

// Observe looks at an instance.
func (s Spec) Observe(ctx context.Context, c *cluster.Cluster) (Observation, error) {
	var seen Observation
	var err error
	if seen.KubernetesVersion, err = preflight.KubernetesVersion(ctx, c); err != nil {
		return seen, err
	}
	if seen.NodesSeen, err = s.ObserveNodes(ctx, c); err != nil {
		return seen, err
	}
	if s.Operator != nil {
		live, err := c.Live(ctx, cluster.Deployments, s.Operator.Namespace, OperatorName)
		if err != nil {
			return seen, err
		}
		if live != nil {
			seen.OperatorVersion = live.GetLabels()[LabelVersion]
		}
	}
	seen.Conditions, err = s.conditions(ctx, c, seen)
	return seen, err
}

// ObserveNodes looks at the nodes, unless `platforms` is set.
func (s Spec) ObserveNodes(ctx context.Context, c *cluster.Cluster) (NodesSeen, error) {
	if !s.Derived {
		return NodesSeen{}, nil
	}
	nodes, err := s.nodes(ctx, c)
	if err != nil {
		return NodesSeen{}, err
	}
	admitted, excluded := s.Placement().Partition(nodes)
	seen := NodesSeen{NodesRead: true, ExcludedNodes: excluded, SandboxNodes: []string{}}
	for _, node := range admitted {
		seen.SandboxNodes = append(seen.SandboxNodes, node.Name)
	}
	if derived, err := preflight.DerivePlatforms(s.Placement(), nodes); err == nil {
		seen.SchedulableNodes, seen.SkippedArchitectures = derived.SchedulableNodes, derived.SkippedArchitectures
	}
	return seen, nil
}

func (s Spec) conditions(ctx context.Context, c *cluster.Cluster, seen Observation) ([]Condition, error) {
	conditions := []Condition{s.nodesCondition(seen)}
	for _, of := range []func(context.Context, *cluster.Cluster) (Condition, error){s.namespaceCondition, s.secretsCondition, s.classesCondition, s.rolloutCondition} {
		one, err := of(ctx, c)
		if err != nil {
			return nil, err
		}
		if one.Type != "" {
			conditions = append(conditions, one)
		}
	}
	ready := Condition{Type: "Ready", Good: true, Reason: "Converged", Message: "The instance is as it was applied."}
	var bad []string
	for _, one := range conditions {
		// Nodes come and go by themselves: an instance without one is ready and waits.
		if !one.Good && one.Type != "SandboxNodes" {
			bad = append(bad, one.Type+": "+one.Message)
		}
	}
	if len(bad) > 0 {
		ready = Condition{Type: "Ready", Reason: "NotConverged", Message: strings.Join(bad, " ")}
	}
	return append(conditions, ready), nil
}

func (s Spec) nodesCondition(seen Observation) Condition {
	switch {
	case !seen.NodesRead:
		return Condition{Type: "SandboxNodes", Good: true, Reason: "NotRead", Message: "`platforms` is set, so the nodes are not read."}
	case len(seen.SandboxNodes) == 0:
		return Condition{Type: "SandboxNodes", Reason: "NoSandboxNode", Message: "No sandbox node right now: a sandbox stays Pending until one appears."}
	}
	return Condition{Type: "SandboxNodes", Good: true, Reason: "Found", Message: fmt.Sprintf("%d sandbox node(s).", len(seen.SandboxNodes))}
}

func (s Spec) namespaceCondition(ctx context.Context, c *cluster.Cluster) (Condition, error) {
	live, err := c.Live(ctx, cluster.Namespaces, "", s.Namespace)
	if err != nil || live == nil {
		return Condition{Type: "NamespaceActive", Reason: "Missing", Message: "The namespace does not exist."}, err
	}
	if live.GetDeletionTimestamp() != nil {
		return Condition{Type: "NamespaceActive", Reason: "Terminating", Message: "The namespace is being deleted."}, nil
	}
	return Condition{Type: "NamespaceActive", Good: true, Reason: "Active", Message: "The namespace is there."}, nil
}

func (s Spec) secretsCondition(ctx context.Context, c *cluster.Cluster) (Condition, error) {
	refs := s.secretRefs()
	if len(refs) == 0 {
		return Condition{}, nil
	}
	var missing []string
	for _, ref := range refs {
		if check := preflight.CheckSecret(ctx, c, ref); check.Status != preflight.Pass {
			missing = append(missing, check.Message)
		}
	}
	if len(missing) > 0 {
		return Condition{Type: "SecretsFound", Reason: "Missing", Message: strings.Join(missing, " ")}, nil
	}
	return Condition{Type: "SecretsFound", Good: true, Reason: "Found", Message: fmt.Sprintf("%d Secret(s) found.", len(refs))}, nil
}

func (s Spec) classesCondition(ctx context.Context, c *cluster.Cluster) (Condition, error) {
	var missing []string
	for _, name := range []string{s.Classes().Control.Name, s.Classes().Sandbox.Name} {
		live, err := c.Find(ctx, cluster.PriorityClasses, "", name)
		if apierrors.IsForbidden(err) {
			return Condition{}, nil
		}
		if err != nil {
			return Condition{}, err
		}
		if live == nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return Condition{Type: "PriorityClassesFound", Reason: "Missing", Message: "Kubernetes creates no pod that names a PriorityClass which does not exist: " + strings.Join(missing, ", ") + "."}, nil
	}
	return Condition{Type: "PriorityClassesFound", Good: true, Reason: "Found", Message: "Both PriorityClasses exist."}, nil
}

func (s Spec) rolloutCondition(ctx context.Context, c *cluster.Cluster) (Condition, error) {
	workloads := s.workloads()
	if len(workloads) == 0 {
		return Condition{}, nil
	}
	var waiting []string
	for _, object := range workloads {
		live, err := c.Live(ctx, object.Kind, s.Namespace, object.Desired.GetName())
		if err != nil {
			return Condition{}, err
		}
		if live == nil {
			waiting = append(waiting, object.Describe()+" is missing.")
			continue
		}
		if readiness := kube.Ready(live); !readiness.Ready {
			waiting = append(waiting, object.Describe()+": "+readiness.Reason+".")
		}
	}
	if len(waiting) > 0 {
		return Condition{Type: "RolledOut", Reason: "Progressing", Message: strings.Join(waiting, " ")}, nil
	}
	return Condition{Type: "RolledOut", Good: true, Reason: "Available", Message: fmt.Sprintf("%d workload(s) available.", len(workloads))}, nil
}
