package provider_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// loaded is the cluster that benchmarks run against: one with 300 CRDs, which is what a fleet's clusters have.
var loaded = lazyCluster{spec: fleettest.ClusterSpec{
	Name: "loaded", ControlPlaneOnly: true, Controllers: true, Nodes: []fleettest.NodeSpec{{Name: "amd"}, {Name: "arm", Architecture: "arm64"}},
}}

const benchCRDs = 300

// BenchmarkFleet measures what a user waits for: a plan that creates, an apply, a plan that refreshes, and a destroy,
// of 100 priority classes alone and with 20 instances, without and with 50 ms of latency to the API server. Besides
// the time it reports requests, connections, and the provider's peak memory.
func BenchmarkFleet(b *testing.B) {
	cluster := loaded.get(b)
	b.Cleanup(func() {
		if err := loaded.stop(); err != nil {
			b.Error(err)
		}
	})
	cluster.InstallCRDs(b, benchCRDs)
	for _, load := range []struct {
		name               string
		classes, instances int
	}{{"100-classes", 100, 0}, {"100-classes-20-instances", 100, 20}} {
		for _, latency := range []time.Duration{0, 50 * time.Millisecond} {
			b.Run(fmt.Sprintf("%s/latency=%s", load.name, latency), func(b *testing.B) {
				benchLoad(b, cluster, latency, load.classes, load.instances)
			})
		}
	}
}

func benchLoad(b *testing.B, cluster *fleettest.Cluster, latency time.Duration, classes, instances int) {
	proxy := cluster.Proxy(b, fleettest.ProxyOptions{Latency: latency})
	w := tofutest.New(b, tofutest.Options{})
	w.Write("main.tf", providerBlock(unique("bench"), clusters{"loaded": byPath(b, proxy.AdminKubeconfig())})+fmt.Sprintf(`
resource "berth_priority_class" "this" {
  count = %d
  name  = "bench-${count.index}"
  value = 1000 + count.index
}

resource "berth_instance" "this" {
  count            = %d
  name             = "bench-${count.index}"
  registry         = "registry.example.com/team"
  sandbox_images   = { default = "sandbox:1" }
  sizes            = { hold = { memory = "1Gi", cpu = "1" } }
  priority_classes = { control = berth_priority_class.this[count.index].name }
}
`, classes, instances))

	measure := func(b *testing.B, args []string, after func()) {
		b.Helper()
		requests, connections := 0, 0
		program, err := tofutest.Provider()
		if err != nil {
			b.Fatal(err)
		}
		memory := watchMemory(program)
		for b.Loop() {
			proxy.Reset()
			if result := w.Command(args...); result.ExitCode != 0 {
				b.Fatal(result.Describe())
			}
			b.StopTimer()
			requests, connections = len(proxy.Requests()), proxy.Connections()
			after()
			b.StartTimer()
		}
		b.ReportMetric(float64(requests), "requests/op")
		b.ReportMetric(float64(connections), "connections/op")
		b.ReportMetric(memory(), "provider-MB")
	}
	none := func() {}
	plan := []string{"plan", "-input=false", "-no-color"}
	apply := []string{"apply", "-input=false", "-no-color", "-auto-approve"}
	destroy := []string{"destroy", "-input=false", "-no-color", "-auto-approve"}

	b.Run("plan-create", func(b *testing.B) { measure(b, plan, none) })
	b.Run("apply", func(b *testing.B) { measure(b, apply, func() { w.MustDestroy() }) })
	w.MustApply()
	b.Run("plan-refresh", func(b *testing.B) { measure(b, plan, none) })
	b.Run("destroy", func(b *testing.B) { measure(b, destroy, func() { w.MustApply() }) })
	w.MustDestroy()
}

var peak = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// watchMemory watches the processes of a program and returns what stops it and gives their peak memory in MB; NaN where
// the system has no /proc.
func watchMemory(program string) (stop func() float64) {
	var most atomic.Int64
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				most.Store(max(most.Load(), peakMemory(program)))
			}
		}
	}()
	return func() float64 {
		close(done)
		<-stopped
		return float64(most.Load()) / 1024
	}
}

func peakMemory(program string) int64 {
	var most int64
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || target != program {
			continue
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(link), "status"))
		if err != nil {
			continue
		}
		if match := peak.FindSubmatch(status); match != nil {
			kilobytes, _ := strconv.ParseInt(string(match[1]), 10, 64)
			most = max(most, kilobytes)
		}
	}
	return most
}
