package preflight

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

var listNodes = cluster.Permission{Verb: "list", Resource: "nodes"}

// Nodes returns the cluster's nodes, sorted by name.
func Nodes(ctx context.Context, c Cluster) ([]corev1.Node, error) {
	objects, err := c.List(ctx, cluster.Nodes)
	if err != nil {
		return nil, err
	}
	nodes, err := decode[corev1.Node](objects)
	slices.SortFunc(nodes, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return nodes, err
}

// Toleration is a toleration of a pod spec (J28). tolerationSeconds is left out: how long a running pod stays on a
// node that becomes tainted says nothing of where a new one may go.
type Toleration struct {
	Key      string // "" is every key, and needs the operator Exists
	Operator string // Equal or Exists; "" is Equal
	Value    string // compared with the taint's where the operator is Equal
	Effect   string // NoSchedule, PreferNoSchedule or NoExecute; "" is every effect
}

func (t Toleration) tolerates(taint corev1.Taint) bool {
	if t.Effect != "" && t.Effect != string(taint.Effect) || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "", "Equal":
		return t.Key != "" && t.Value == taint.Value
	default:
		return t.Operator == "Exists"
	}
}

// Validate returns what the API server would refuse in the toleration.
func (t Toleration) Validate() error {
	switch {
	case !slices.Contains([]string{"", "Equal", "Exists"}, t.Operator):
		return fmt.Errorf("operator %q is neither Equal nor Exists", t.Operator)
	case !slices.Contains([]string{"", "NoSchedule", "PreferNoSchedule", "NoExecute"}, t.Effect):
		return fmt.Errorf("effect %q is none of NoSchedule, PreferNoSchedule, NoExecute", t.Effect)
	case t.Key == "" && t.Operator != "Exists":
		return errors.New("without a key the operator must be Exists, which tolerates every taint")
	case t.Operator == "Exists" && t.Value != "":
		return fmt.Errorf("the operator Exists compares no value, but value is %q", t.Value)
	}
	return nil
}

// Placement says which nodes a pod may land on. The zero value is the ordinary pod: every node that is not cordoned
// and has no NoSchedule or NoExecute taint, with no label asked for (J27).
type Placement struct {
	// Attribute is the configuration's attribute that holds the two below, such as "sandbox", for messages; "" when
	// they stand at the top.
	Attribute    string
	NodeSelector map[string]string
	Tolerations  []Toleration
}

// Validate returns what the API server would refuse in the tolerations, by position.
func (p Placement) Validate() error {
	var problems []error
	for i, toleration := range p.Tolerations {
		if err := toleration.Validate(); err != nil {
			problems = append(problems, fmt.Errorf("%s[%d]: %w", p.path("tolerations"), i, err))
		}
	}
	return errors.Join(problems...)
}

// Exclusion is the reason why the pod cannot land on the node; "" when it can. The order is fixed, so that a node with
// several reasons always shows the same: cordon, selector, taints (J32). PreferNoSchedule excludes nothing.
func (p Placement) Exclusion(node *corev1.Node) string {
	if node.Spec.Unschedulable {
		return "cordoned (spec.unschedulable)"
	}
	for _, key := range slices.Sorted(maps.Keys(p.NodeSelector)) {
		have, found := node.Labels[key]
		want := p.NodeSelector[key]
		if !found {
			return fmt.Sprintf("lacks the label %s that %s requires", key, p.path("node_selector"))
		}
		if have != want {
			return fmt.Sprintf("label %s=%s is not the %s=%s that %s requires", key, have, key, want, p.path("node_selector"))
		}
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect == corev1.TaintEffectPreferNoSchedule {
			continue
		}
		if !slices.ContainsFunc(p.Tolerations, func(t Toleration) bool { return t.tolerates(taint) }) {
			return fmt.Sprintf("taint %s is not tolerated by %s", taint.ToString(), p.path("tolerations"))
		}
	}
	return ""
}

// Excluded is a node that a pod cannot land on, and why.
type Excluded struct {
	Name   string
	Reason string
}

// Partition splits the nodes into those that the pod can land on and those that it cannot, in the order given.
func (p Placement) Partition(nodes []corev1.Node) (admitted []corev1.Node, excluded []Excluded) {
	for i := range nodes {
		if reason := p.Exclusion(&nodes[i]); reason != "" {
			excluded = append(excluded, Excluded{Name: nodes[i].Name, Reason: reason})
		} else {
			admitted = append(admitted, nodes[i])
		}
	}
	return admitted, excluded
}

func (p Placement) path(attribute string) string {
	if p.Attribute == "" {
		return attribute
	}
	return p.Attribute + "." + attribute
}

// subject is what the placed pod is called: "sandbox" for the attribute of that name, else "pod".
func (p Placement) subject() string {
	if p.Attribute == "" {
		return "pod"
	}
	return p.Attribute
}

// adjective goes before the word node: "sandbox ", or nothing for an ordinary pod.
func (p Placement) adjective() string {
	if p.Attribute == "" {
		return ""
	}
	return p.Attribute + " "
}

// CheckNodes names the nodes that a pod so placed can land on (J30). With none it warns and lists every node with its
// reason (J31); it never fails, because an autoscaler may bring one.
func CheckNodes(placement Placement, nodes []corev1.Node) Check {
	const name = "nodes"
	subject := placement.subject()
	admitted, excluded := placement.Partition(nodes)
	if len(admitted) > 0 {
		return passed(name, "%snodes: %s", placement.adjective(), strings.Join(nodeNames(admitted), ", "))
	}
	lines := []string{fmt.Sprintf("no %snode right now — a %s stays Pending until one appears:", placement.adjective(), subject)}
	for _, node := range excluded {
		lines = append(lines, fmt.Sprintf("  %s: %s", node.Name, node.Reason))
	}
	if len(excluded) == 0 {
		lines = append(lines, "  the cluster has no node at all")
	}
	set := "`node_selector` and `tolerations`"
	if placement.Attribute != "" {
		set = fmt.Sprintf("`%s = { node_selector, tolerations }`", placement.Attribute)
	}
	return Check{
		Name: name, Status: Warn, Message: strings.Join(lines, "\n"),
		Remedy: fmt.Sprintf("A %s lands where an ordinary pod lands; to admit a tainted or labeled node, set %s, in the shapes of the pod spec.", subject, set),
	}
}

func nodeNames(nodes []corev1.Node) []string {
	names := make([]string, len(nodes))
	for i := range nodes {
		names[i] = nodes[i].Name
	}
	return names
}

// imageVolumeRuntimes is the oldest version of each container runtime that mounts image volumes (J10).
var imageVolumeRuntimes = map[string]string{"containerd": "2.1.0", "cri-o": "1.31.0"}

// CheckRuntimes tells which of the nodes have a container runtime that is known to mount image volumes, and warns of
// the others: the version is what the kubelet reports, and a vendor may have patched an older one (J10).
func CheckRuntimes(nodes []corev1.Node) Check {
	const name = "container_runtime"
	if len(nodes) == 0 {
		return skipped(name, "there is no node right now whose container runtime could be read")
	}
	names := map[string][]string{} // by runtime and problem
	unfit := false
	for i := range nodes {
		runtime := nodes[i].Status.NodeInfo.ContainerRuntimeVersion
		line := runtime
		if problem := runtimeProblem(runtime); problem != "" {
			unfit = true
			line = problem
		}
		names[line] = append(names[line], nodes[i].Name)
	}
	var lines []string
	for _, line := range slices.Sorted(maps.Keys(names)) {
		lines = append(lines, fmt.Sprintf("%s (%s)", line, strings.Join(names[line], ", ")))
	}
	check := passed(name, "container runtimes: %s", strings.Join(lines, "; "))
	if unfit {
		check.Status = Warn
		check.Remedy = "Image volumes need containerd 2.1.0 or newer, or CRI-O 1.31 or newer. On an older runtime the first pod that mounts one fails, and its events give the cause."
	}
	return check
}

func runtimeProblem(runtime string) string {
	kind, version, _ := strings.Cut(runtime, "://")
	minimum, known := imageVolumeRuntimes[kind]
	switch {
	case runtime == "":
		return "a runtime that is not reported"
	case !known:
		return runtime + " is not known to mount image volumes"
	}
	have, err := parseVersion(version)
	if err != nil {
		return runtime + " states no version"
	}
	want, err := parseVersion(minimum)
	if err != nil || have.LessThan(want) {
		return fmt.Sprintf("%s is older than %s", runtime, minimum)
	}
	return ""
}

// CheckRollout tells whether the rollout of a DaemonSet proved anything: one that matches no node is complete with no
// pod at all, which is no evidence that it works (J33). It takes the DaemonSet as the cluster shows it after the
// rollout, and is for an apply.
func CheckRollout(daemonSet *unstructured.Unstructured) Check {
	name := fmt.Sprintf("rollout/%s/%s", daemonSet.GetNamespace(), daemonSet.GetName())
	sets, err := decode[appsv1.DaemonSet]([]*unstructured.Unstructured{daemonSet})
	if err != nil {
		return unanswered(name, "how many pods it has", err, nil)
	}
	set := sets[0]
	selector := metav1.FormatLabelSelector(set.Spec.Selector)
	if set.Status.CurrentNumberScheduled == 0 {
		return Check{
			Name: name, Status: Warn,
			Message: fmt.Sprintf("%s: the rollout succeeded but no pod matched %s (nothing verified)", set.Name, selector),
			Remedy:  "It has a pod on each node that its node selector and its tolerations admit, and right now they admit none.",
		}
	}
	return passed(name, "%s: %d pod(s) match %s", set.Name, set.Status.CurrentNumberScheduled, selector)
}
