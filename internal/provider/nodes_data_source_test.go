package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// Who can run an ordinary pod and who can't, and why (J20, J22, J27, J30, J32, J34).
func TestNodesOrdinaryPod(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		b := newBenchOn(t, plainCluster(t), unique("team"), tofutest.Options{Runner: runner})
		b.use(data("nodes", `sizes = { hold = { memory = "8Gi", cpu = "4" }, small = {}, huge = { memory = "64Gi", cpu = "16" } }`),
			"output \"report\" {\nvalue = data.berth_nodes.this.report\n}\n")
		result := b.MustApply()
		values := b.data("nodes")
		same(t, "id", values["id"], "shared")
		same(t, "cluster_uid", values["cluster_uid"], b.cluster.UID())
		same(t, "admitted", values["admitted"], "[amd arm s390]")
		same(t, "excluded", values["excluded"], []map[string]any{
			{"name": "cordoned", "reason": "cordoned (spec.unschedulable)"},
			{"name": "pool", "reason": "taint pool=agents:NoSchedule is not tolerated by tolerations"},
		})
		same(t, "platforms", values["platforms"], "[linux/amd64 linux/arm64]")
		same(t, "skipped_architectures", values["skipped_architectures"], "[s390x]")
		same(t, "schedulable_nodes", values["schedulable_nodes"], 3)
		same(t, "fits", values["fits"], map[string]any{"hold": []string{"amd", "arm", "s390"}, "small": []string{"amd", "arm", "s390"}, "huge": []string{}})
		nodes := values["nodes"].([]any)
		same(t, "nodes", len(nodes), 5)
		pool := nodes[3].(map[string]any)
		same(t, "a node", pool, map[string]any{
			"name": "pool", "platform": "linux/amd64", "container_runtime": "containerd://1.7.27",
			"allocatable": map[string]any{"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi"},
		})
		result.Warning(t, `^Nodes of architecture s390x are skipped on cluster "shared"$`, `^platforms: linux/amd64, linux/arm64 \(from 3 schedulable node\(s\)\) skipping node arch s390x — `)
		result.Warning(t, `^Check sizes/huge warns on cluster "shared"$`, `^no node right now has the allocatable for a size of memory 64Gi, cpu 16 \(size "huge"\)`,
			`The nodes are: amd \(memory 32Gi, cpu 8\), arm \(memory 32Gi, cpu 8\), s390 \(memory 32Gi, cpu 8\)\.$`)
		same(t, "warnings", len(result.Warnings()), 2)
		report := fmt.Sprint(b.Output("report"))
		for _, line := range []string{
			"node      platform     runtime              memory  cpu  admitted\n",
			"\namd       linux/amd64  containerd://2.2.0   32Gi    8    yes\n",
			"\npool      linux/amd64  containerd://1.7.27  256Gi   64   no: taint pool=agents:NoSchedule is not tolerated by tolerations\n",
			"\nsize \"hold\" (memory 8Gi, cpu 4) fits amd, arm, s390\n",
		} {
			if !strings.Contains(report, line) {
				t.Errorf("the report has no line %q:\n%s", line, report)
			}
		}
		b.noWrites()
		b.PlanIsEmpty()
	})
}

// A selector and a toleration as the pod spec has them lead to the pool (J28, J32), whose nodes count for the platforms
// beside those of ordinary pods (J20).
func TestNodesPlacement(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, plainCluster(t), unique("team"), tofutest.Options{})
	b.use(data("nodes", `
  node_selector = { pool = "agents" }
  tolerations   = [{ key = "pool", operator = "Equal", value = "agents", effect = "NoSchedule" }]
  sizes         = { hold = { memory = "128Gi", cpu = "32" } }
`))
	b.MustApply()
	values := b.data("nodes")
	same(t, "admitted", values["admitted"], "[pool]")
	same(t, "fits", values["fits"], map[string]any{"hold": []string{"pool"}})
	same(t, "schedulable_nodes", values["schedulable_nodes"], 4)
	same(t, "excluded", values["excluded"], []map[string]any{
		{"name": "amd", "reason": "lacks the label pool that node_selector requires"},
		{"name": "arm", "reason": "lacks the label pool that node_selector requires"},
		{"name": "cordoned", "reason": "cordoned (spec.unschedulable)"},
		{"name": "s390", "reason": "lacks the label pool that node_selector requires"},
	})
	// The value of a toleration is compared: another one tolerates nothing here.
	b.use(data("nodes", `tolerations = [{ key = "pool", value = "builders" }]`))
	b.MustApply()
	same(t, "admitted", b.data("nodes")["admitted"], "[amd arm s390]")
}

// No node, no room and no platform are results, each with its warning (J31, J34, J65).
func TestNodesNeverFails(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, otherCluster(t), unique("team"), tofutest.Options{})
	b.use(data("nodes", `sizes = { hold = {} }`))
	result := b.MustApply()
	result.Warning(t, `^No platform can be read from the nodes of cluster "shared"$`, "^this cluster has no schedulable node right now to read a platform from — .* Set `platforms`")
	result.Warning(t, `^Check nodes warns on cluster "shared"$`, `^no node right now — a pod stays Pending until one appears: the cluster has no node at all`)
	result.Warning(t, `^Check sizes/hold was not made on cluster "shared"$`, `there is no node right now`)
	values := b.data("nodes")
	for _, output := range []string{"nodes", "admitted", "excluded", "platforms", "skipped_architectures"} {
		same(t, output, values[output], "[]")
	}
	same(t, "schedulable_nodes", values["schedulable_nodes"], 0)
	same(t, "fits", values["fits"], map[string]any{"hold": []string{}})
	b.PlanIsEmpty()
}
