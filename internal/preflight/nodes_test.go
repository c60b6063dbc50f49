package preflight

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

var (
	agents     = Placement{Attribute: "sandbox", NodeSelector: map[string]string{"pool": "agents"}, Tolerations: []Toleration{agentTaint}}
	agentTaint = Toleration{Key: "pool", Operator: "Equal", Value: "agents", Effect: "NoSchedule"}
)

func TestExclusion_J27_J32(t *testing.T) {
	for _, test := range []struct {
		name      string
		placement Placement
		node      *corev1.Node
		reason    string
	}{
		{"J27 ordinary", Placement{}, node("n", "amd64"), ""},
		{"J27 no label is needed", Placement{}, node("n", "amd64", labeled("pool", "other")), ""},
		{"J27 PreferNoSchedule does not exclude", Placement{}, node("n", "amd64", tainted("slow", "", "PreferNoSchedule")), ""},
		{"J27 cordoned", Placement{}, node("n", "amd64", cordoned), "cordoned (spec.unschedulable)"},
		{"J27 NoSchedule", Placement{}, node("n", "amd64", tainted("pool", "agents", "NoSchedule")), "taint pool=agents:NoSchedule is not tolerated by tolerations"},
		{"J27 NoExecute without a value", Placement{Attribute: "sandbox"}, node("n", "amd64", tainted("down", "", "NoExecute")), "taint down:NoExecute is not tolerated by sandbox.tolerations"},
		{"J32 label missing", agents, node("n", "amd64"), "lacks the label pool that sandbox.node_selector requires"},
		{"J32 label differs", agents, node("n", "amd64", labeled("pool", "web")), "label pool=web is not the pool=agents that sandbox.node_selector requires"},
		{"J32 cordon comes first", agents, node("n", "amd64", cordoned, tainted("a", "", "NoSchedule")), "cordoned (spec.unschedulable)"},
		{"J32 selector before taints", agents, node("n", "amd64", tainted("a", "", "NoSchedule")), "lacks the label pool that sandbox.node_selector requires"},
		{"J32 the first label by name", Placement{NodeSelector: map[string]string{"b": "1", "a": "1"}}, node("n", "amd64"), "lacks the label a that node_selector requires"},
		{"J32 the first taint not tolerated", agents, node("n", "amd64", labeled("pool", "agents"), tainted("pool", "agents", "NoSchedule"), tainted("gpu", "yes", "NoSchedule")), "taint gpu=yes:NoSchedule is not tolerated by sandbox.tolerations"},
		{"J28 admitted", agents, node("n", "amd64", labeled("pool", "agents"), tainted("pool", "agents", "NoSchedule")), ""},
		{"J28 a toleration does not cancel a cordon", Placement{Tolerations: []Toleration{{Operator: "Exists"}}}, node("n", "amd64", cordoned), "cordoned (spec.unschedulable)"},
	} {
		t.Run(test.name, func(t *testing.T) { equal(t, test.placement.Exclusion(test.node), test.reason) })
	}
}

func TestTolerates_J28(t *testing.T) {
	taint := corev1.Taint{Key: "pool", Value: "agents", Effect: corev1.TaintEffectNoSchedule}
	bare := corev1.Taint{Key: "pool", Effect: corev1.TaintEffectNoExecute}
	for _, test := range []struct {
		toleration Toleration
		taint      corev1.Taint
		tolerates  bool
	}{
		{Toleration{Key: "pool", Operator: "Equal", Value: "agents", Effect: "NoSchedule"}, taint, true},
		{Toleration{Key: "pool", Value: "agents", Effect: "NoSchedule"}, taint, true},
		{Toleration{Key: "pool", Value: "agents"}, taint, true},
		{Toleration{Key: "pool", Operator: "Exists"}, taint, true},
		{Toleration{Operator: "Exists"}, taint, true},
		{Toleration{Operator: "Exists", Effect: "NoSchedule"}, taint, true},
		{Toleration{Operator: "Exists", Effect: "NoExecute"}, taint, false},
		{Toleration{Key: "pool", Value: "web"}, taint, false},
		{Toleration{Key: "pool"}, taint, false},
		{Toleration{Key: "pool"}, bare, true},
		{Toleration{Key: "pool", Value: "agents"}, bare, false},
		{Toleration{Key: "other", Operator: "Exists"}, taint, false},
		{Toleration{}, bare, false},
		{Toleration{Key: "pool", Operator: "Gt", Value: "agents"}, taint, false},
	} {
		if got := test.toleration.tolerates(test.taint); got != test.tolerates {
			t.Errorf("%+v of %s: got %v", test.toleration, test.taint.ToString(), got)
		}
	}
}

func TestPlacementValidate_J28(t *testing.T) {
	placement := Placement{Attribute: "sandbox", Tolerations: []Toleration{
		agentTaint,
		{Key: "a", Operator: "Gt"},
		{Key: "a", Effect: "NoRun"},
		{Value: "x"},
		{Key: "a", Operator: "Exists", Value: "x"},
	}}
	equal(t, placement.Validate().Error(), strings.Join([]string{
		`sandbox.tolerations[1]: operator "Gt" is neither Equal nor Exists`,
		`sandbox.tolerations[2]: effect "NoRun" is none of NoSchedule, PreferNoSchedule, NoExecute`,
		`sandbox.tolerations[3]: without a key the operator must be Exists, which tolerates every taint`,
		`sandbox.tolerations[4]: the operator Exists compares no value, but value is "x"`,
	}, "\n"))
	if err := agents.Validate(); err != nil {
		t.Error(err)
	}
}

func TestCheckNodes_J30_J31(t *testing.T) {
	pool := node("agent-1", "arm64", labeled("pool", "agents"), tainted("pool", "agents", "NoSchedule"))
	expect(t, CheckNodes(agents, nodes(node("web-1", "amd64"), pool)), "nodes", Pass, "sandbox nodes: agent-1", "")
	expect(t, CheckNodes(Placement{}, nodes(node("web-1", "amd64"), node("web-2", "amd64"), pool)), "nodes", Pass, "nodes: web-1, web-2", "")

	empty := CheckNodes(agents, nodes(node("web-1", "amd64"), node("web-2", "amd64", cordoned)))
	expect(t, empty, "nodes", Warn, strings.Join([]string{
		"no sandbox node right now — a sandbox stays Pending until one appears:",
		"  web-1: lacks the label pool that sandbox.node_selector requires",
		"  web-2: cordoned (spec.unschedulable)",
	}, "\n"), "A sandbox lands where an ordinary pod lands; to admit a tainted or labeled node, set `sandbox = { node_selector, tolerations }`, in the shapes of the pod spec.")

	expect(t, CheckNodes(Placement{}, nil), "nodes", Warn,
		"no node right now — a pod stays Pending until one appears:\n  the cluster has no node at all",
		"set `node_selector` and `tolerations`, in the shapes of the pod spec")
}

func TestPartition_J32(t *testing.T) {
	admitted, excluded := Placement{}.Partition(nodes(node("a", "amd64"), node("b", "amd64", cordoned), node("c", "amd64")))
	equal(t, nodeNames(admitted), []string{"a", "c"})
	equal(t, excluded, []Excluded{{"b", "cordoned (spec.unschedulable)"}})
}

func TestNodesAreOneSortedList(t *testing.T) {
	c := newFake(t, node("b", "amd64"), node("a", "amd64"))
	list, err := Nodes(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, nodeNames(list), []string{"a", "b"})
	equal(t, c.requests, map[string]int{"list nodes": 1})
}

func TestRuntimes_J10(t *testing.T) {
	for _, test := range []struct {
		runtime string
		status  Status
		line    string
	}{
		{"containerd://2.1.0", Pass, "containerd://2.1.0"},
		{"containerd://2.2.1-k3s1", Pass, "containerd://2.2.1-k3s1"},
		{"containerd://v2.1.3", Pass, "containerd://v2.1.3"},
		{"cri-o://1.31.0", Pass, "cri-o://1.31.0"},
		{"cri-o://1.34.2", Pass, "cri-o://1.34.2"},
		{"containerd://2.0.7", Warn, "containerd://2.0.7 is older than 2.1.0"},
		{"containerd://1.7.27", Warn, "containerd://1.7.27 is older than 2.1.0"},
		{"cri-o://1.30.9", Warn, "cri-o://1.30.9 is older than 1.31.0"},
		{"docker://28.1.1", Warn, "docker://28.1.1 is not known to mount image volumes"},
		{"kwok-v0.8.0", Warn, "kwok-v0.8.0 is not known to mount image volumes"},
		{"containerd://Unknown", Warn, "containerd://Unknown states no version"},
		{"", Warn, "a runtime that is not reported"},
	} {
		t.Run(test.runtime, func(t *testing.T) {
			remedy := ""
			if test.status == Warn {
				remedy = "containerd 2.1.0 or newer, or CRI-O 1.31 or newer"
			}
			expect(t, CheckRuntimes(nodes(node("n", "amd64", runs(test.runtime)))), "container_runtime", test.status, "container runtimes: "+test.line+" (n)", remedy)
		})
	}
	many := CheckRuntimes(nodes(node("a", "amd64"), node("b", "amd64", runs("containerd://1.7.27")), node("c", "amd64")))
	expect(t, many, "container_runtime", Warn, "container runtimes: containerd://1.7.27 is older than 2.1.0 (b); containerd://2.1.4 (a, c)", "Image volumes need")
	expect(t, CheckRuntimes(nil), "container_runtime", Skipped, "there is no node right now whose container runtime could be read", "")
}

func TestRollout_J33(t *testing.T) {
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "my-instance", Name: "repo-cache"}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "repo-cache"}}
	expect(t, CheckRollout(toUnstructured(t, cluster.DaemonSets, set)), "rollout/my-instance/repo-cache", Warn,
		"repo-cache: the rollout succeeded but no pod matched app=repo-cache (nothing verified)", "right now they admit none")
	set.Status.CurrentNumberScheduled = 2
	expect(t, CheckRollout(toUnstructured(t, cluster.DaemonSets, set)), "rollout/my-instance/repo-cache", Pass,
		"repo-cache: 2 pod(s) match app=repo-cache", "")
}

func TestSizes_J34(t *testing.T) {
	size := func(memory, cpu string) Size {
		parsed, err := ParseSize(memory, cpu)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	sandbox := Placement{Attribute: "sandbox"}
	small := node("small", "amd64", holds("4Gi", "2"))
	large := node("large", "amd64", holds("64Gi", "16"))
	for _, test := range []struct {
		name    string
		size    Size
		nodes   []corev1.Node
		status  Status
		message string
		remedy  string
	}{
		{"fits", size("8Gi", "4"), nodes(small, large), Pass, `size "hold" (memory 8Gi, cpu 4) fits large`, ""},
		{"fits exactly", size("64Gi", "16"), nodes(small, large), Pass, `size "hold" (memory 64Gi, cpu 16) fits large`, ""},
		{
			"too large", size("512Gi", "64"), nodes(small, large), Warn,
			`no sandbox node right now has the allocatable for a size of memory 512Gi, cpu 64 (size "hold") — its sandbox stays Pending until one does`,
			"The sandbox nodes are: small (memory 4Gi, cpu 2), large (memory 64Gi, cpu 16).",
		},
		{
			"both on one node", size("8Gi", "8"), nodes(node("memory", "amd64", holds("64Gi", "1")), node("cpu", "amd64", holds("1Gi", "64"))), Warn,
			`no sandbox node right now has the allocatable for a size of memory 8Gi, cpu 8 (size "hold") — its sandbox stays Pending until one does`,
			"Add a node that is large enough",
		},
		{
			"unknown is not no", size("8Gi", "4"), nodes(small, node("silent", "amd64", holds("", ""))), Skipped,
			`whether size "hold" (memory 8Gi, cpu 4) fits is unknown: silent reports no allocatable, and no other sandbox node is large enough`, "",
		},
		{
			"half unknown but too small", size("8Gi", "4"), nodes(node("half", "amd64", holds("4Gi", ""))), Warn,
			`no sandbox node right now has the allocatable for a size of memory 8Gi, cpu 4 (size "hold") — its sandbox stays Pending until one does`,
			"Add a node",
		},
		{"no node", size("8Gi", "4"), nil, Skipped, `there is no sandbox node right now to compare the size "hold" (memory 8Gi, cpu 4) with`, ""},
		{"default", DefaultSize, nodes(small), Pass, `size "hold" (memory 2Gi, cpu 1) fits small`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			expect(t, CheckSize(sandbox, "hold", test.size, test.nodes), "sizes/hold", test.status, test.message, test.remedy)
		})
	}
}

func TestParseSize_J34(t *testing.T) {
	size, err := ParseSize("8Gi", "500m")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, size.Memory.Cmp(resource.MustParse("8192Mi")), 0)
	equal(t, size.String(), "memory 8Gi, cpu 500m")
	for text, want := range map[[2]string]string{
		{"8 GB", "1"}: `memory "8 GB" is not a quantity such as "8Gi" or "500m"`,
		{"8Gi", ""}:   `cpu "" is not a quantity such as "8Gi" or "500m"`,
		{"0", "1"}:    `memory "0" is not above zero`,
		{"8Gi", "-1"}: `cpu "-1" is not above zero`,
	} {
		if _, err := ParseSize(text[0], text[1]); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
