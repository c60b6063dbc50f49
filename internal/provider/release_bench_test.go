package provider_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// BenchmarkReleases measures what a user waits for with releases of 30 objects: 20 on a cluster with 300 CRDs, whose
// apply waits until all is ready, and 200 on 10 clusters; without and with 50 ms of latency to the API servers. Besides
// the time it reports requests and connections, and peak memory and CPU time of the provider.
func BenchmarkReleases(b *testing.B) {
	chart := func(b *testing.B) *charts.HTTPRepository {
		b.Helper()
		return charts.Repository(b, charts.Package(b, charts.Many(b, 30)))
	}
	b.Run("20-releases", func(b *testing.B) {
		cluster := fleettest.NewCluster(b, charts.Cluster("releases"))
		cluster.InstallCRDs(b, benchCRDs)
		repository := chart(b)
		for _, latency := range []time.Duration{0, 50 * time.Millisecond} {
			b.Run(fmt.Sprintf("latency=%s", latency), func(b *testing.B) {
				load := newReleaseLoad(b, latency, cluster)
				load.Write("main.tf", load.provider+manyReleases(20, repository))
				b.Run("apply", func(b *testing.B) { load.measure(b, "apply", func() { load.MustDestroy() }) })
				load.MustApply()
				b.Run("plan", func(b *testing.B) { load.measure(b, "plan", nil) })
				cluster.Kubectl(b, "-n", "many-7", "patch", "configmap", "many-7-0", "--type=merge", "-p", `{"data":{"text":"by hand"}}`)
				b.Run("plan-with-drift", func(b *testing.B) { load.measure(b, "plan", nil) })
				load.MustDestroy()
			})
		}
	})
	b.Run("200-releases-10-clusters", func(b *testing.B) {
		var specs []fleettest.ClusterSpec
		for i := range 10 {
			specs = append(specs, fleettest.ClusterSpec{Name: fmt.Sprintf("c%d", i), ControlPlaneOnly: true})
		}
		fleet := fleettest.New(b, specs...)
		repository := chart(b)
		for i, latency := range []time.Duration{0, 50 * time.Millisecond} {
			b.Run(fmt.Sprintf("latency=%s", latency), func(b *testing.B) {
				load := newReleaseLoad(b, latency, fleet.Clusters()...)
				// Nothing takes a namespace away on these clusters, so each latency has its own.
				load.Write("main.tf", load.provider+fmt.Sprintf(`
resource "berth_release" "many" {
  count            = 200
  cluster          = "c${count.index %% 10}"
  name             = "many-${floor(count.index / 10)}"
  namespace        = "many-%d-${floor(count.index / 10)}"
  create_namespace = true
  wait             = false
  chart            = { repository = %q, name = "many", version = "1.0.0" }
}
`, i, repository.URL))
				load.MustApply()
				b.Run("plan", func(b *testing.B) { load.measure(b, "plan", nil) })
			})
		}
	})
}

// releaseLoad is a workspace whose provider reaches clusters, by their names, each through a proxy of its own.
type releaseLoad struct {
	*tofutest.Workspace
	provider string
	proxies  []*fleettest.Proxy
}

func newReleaseLoad(b *testing.B, latency time.Duration, fleet ...*fleettest.Cluster) *releaseLoad {
	b.Helper()
	load, entries := &releaseLoad{Workspace: tofutest.New(b, tofutest.Options{})}, clusters{}
	for _, one := range fleet {
		proxy := one.Proxy(b, fleettest.ProxyOptions{Latency: latency})
		load.proxies = append(load.proxies, proxy)
		entries[one.Name()] = byPath(b, proxy.AdminKubeconfig())
	}
	load.provider = providerBlock(unique("bench"), entries)
	return load
}

// measure runs a plan or an apply again and again, and something after each that is not measured.
func (l *releaseLoad) measure(b *testing.B, command string, after func()) {
	b.Helper()
	args := []string{command, "-input=false", "-no-color"}
	if command == "apply" {
		args = append(args, "-auto-approve")
	}
	program, err := tofutest.Provider()
	if err != nil {
		b.Fatal(err)
	}
	if program, err = filepath.EvalSymlinks(program); err != nil {
		b.Fatal(err)
	}
	requests, connections, megabytes, seconds := 0, 0, 0.0, 0.0
	for b.Loop() {
		for _, proxy := range l.proxies {
			proxy.Reset()
		}
		memory, cpu := watchMemory(program), watchCPU(program)
		result := l.Command(args...)
		b.StopTimer()
		megabytes, seconds = max(megabytes, memory()), seconds+cpu()
		if result.ExitCode != 0 {
			b.Fatal(result.Describe())
		}
		requests, connections = 0, 0
		for _, proxy := range l.proxies {
			requests, connections = requests+len(proxy.Requests()), connections+proxy.Connections()
		}
		if after != nil {
			after()
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(requests), "requests/op")
	b.ReportMetric(float64(connections), "connections/op")
	b.ReportMetric(megabytes, "provider-MB")
	b.ReportMetric(seconds/float64(b.N), "provider-CPU-s/op")
}

// ticksPerSecond is the unit of times in /proc on every Linux (USER_HZ, proc(5)).
const ticksPerSecond = 100

// watchCPU watches the processes of a program and returns what stops it and gives the seconds of CPU that all of them
// together have used, but for what the last ones used after the last look; 0 where the system has no /proc.
func watchCPU(program string) (stop func() float64) {
	used := map[string]int64{}
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
				links, _ := filepath.Glob("/proc/[0-9]*/exe")
				for _, link := range links {
					if target, err := os.Readlink(link); err == nil && target == program {
						used[link] = max(used[link], ticksOf(filepath.Join(filepath.Dir(link), "stat")))
					}
				}
			}
		}
	}()
	return func() float64 {
		close(done)
		<-stopped
		var all int64
		for _, ticks := range used {
			all += ticks
		}
		return float64(all) / ticksPerSecond
	}
}

// ticksOf is the time that a process has used, in user and in kernel mode: fields 14 and 15 of its stat, of which the
// name, in parentheses, may hold spaces (proc(5)).
func ticksOf(file string) int64 {
	stat, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return user + system
}
