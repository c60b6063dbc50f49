package provider_test

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthdev/terraform-provider-berth/internal/argocd"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// BenchmarkClusters measures what a user waits for with 50 clusters registered with Argo CD, half of them by an access: a
// plan without a change while all of them answer, while five of them are cut off at once, and while five take connections
// and never answer, each without and with 50 ms of latency to the API servers.
func BenchmarkClusters(b *testing.B) {
	m := newManyClusters(b, 50)
	m.Write("main.tf", m.provider()+m.resources())
	m.MustApply()
	load := &releaseLoad{Workspace: m.Workspace, proxies: append([]*fleettest.Proxy{m.management}, m.workloads...)}
	each := func(name string) {
		for _, latency := range []time.Duration{0, 50 * time.Millisecond} {
			b.Run(fmt.Sprintf("%s/latency=%s", name, latency), func(b *testing.B) {
				for _, proxy := range load.proxies {
					proxy.SetLatency(latency)
				}
				load.measure(b, "plan", nil)
			})
		}
	}
	each("50-clusters")
	ends := m.end(b, 5, 14, 23, 32, 41)
	each("50-clusters-5-cut-off")
	for _, end := range ends {
		end.silent.Store(true)
	}
	each("50-clusters-5-silent")
}

// manyClusters is a workspace with a management cluster that knows Argo CD, on which no Argo CD runs, and many workload
// clusters, which are proxies in front of one API server, each with a UID of its own.
type manyClusters struct {
	*tofutest.Workspace
	mgmt       *fleettest.Cluster
	management *fleettest.Proxy
	workloads  []*fleettest.Proxy
	entries    clusters
}

func newManyClusters(t testing.TB, n int) *manyClusters {
	t.Helper()
	fleet := fleettest.New(t,
		fleettest.ClusterSpec{Name: "mgmt", ControlPlaneOnly: true},
		fleettest.ClusterSpec{Name: "work", ControlPlaneOnly: true, Controllers: true, Nodes: []fleettest.NodeSpec{
			{Name: "one", Labels: map[string]string{"topology.kubernetes.io/region": "us-east-1"}}, {Name: "two"},
		}},
	)
	m := &manyClusters{Workspace: tofutest.New(t, tofutest.Options{}), mgmt: fleet.Cluster("mgmt"), entries: clusters{}}
	m.mgmt.InstallArgoCDCRDs(t)
	m.mgmt.CreateArgoCDNamespace(t, argocd.DefaultNamespace)
	m.management = m.mgmt.Proxy(t, fleettest.ProxyOptions{})
	m.entries["mgmt"] = byPath(t, m.management.AdminKubeconfig())
	for i := range n {
		proxy := fleet.Cluster("work").Proxy(t, fleettest.ProxyOptions{UID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i)})
		m.workloads = append(m.workloads, proxy)
		m.entries[edgeName(i)] = byPath(t, proxy.AdminKubeconfig())
	}
	return m
}

// edgeName is the key and the name of a workload cluster, of which the odd ones have an access.
func edgeName(i int) string { return fmt.Sprintf("edge-%02d", i) }

func hasAccess(i int) bool { return i%2 == 1 }

// registrationOf is the address of a workload cluster's berth_cluster.
func registrationOf(i int) string {
	if hasAccess(i) {
		return fmt.Sprintf("berth_cluster.by_access[%q]", edgeName(i))
	}
	return fmt.Sprintf("berth_cluster.by_entry[%q]", edgeName(i))
}

func (m *manyClusters) provider() string {
	return providerBlock("platform", m.entries, `on_unreachable = "warn"`)
}

// resources registers every cluster, with a root Application: the even ones by the client certificate of their entry, the
// odd ones by the token of an access.
func (m *manyClusters) resources() string {
	names := [2][]string{}
	for i := range m.workloads {
		names[i%2] = append(names[i%2], fmt.Sprintf("%q", edgeName(i)))
	}
	registration := func(label, more string) string {
		return fmt.Sprintf(`
resource "berth_cluster" %q {
  for_each            = local.%s
  management          = "mgmt"
  cluster             = each.key
  name                = each.key
  app_of_apps         = { repo_url = "https://git.example.com/platform.git" }
  secret_labels       = { tier = "edge" }
  deletion_protection = false
  %s
}
`, label, label, more)
	}
	return fmt.Sprintf(`
locals {
  by_entry  = toset([%s])
  by_access = toset([%s])
}
resource "berth_cluster_access" "this" {
  for_each        = local.by_access
  cluster         = each.key
  service_account = each.key
}
`, strings.Join(names[0], ", "), strings.Join(names[1], ", ")) +
		registration("by_entry", "") + registration("by_access", "access = berth_cluster_access.this[each.key].id")
}

// deadEnd is what is left at the address of a cluster: it takes each connection and closes it at once, as a load balancer
// without a backend does, or, once it is silent, says nothing until it ends.
type deadEnd struct {
	dials  atomic.Int64
	silent atomic.Bool
}

// end puts dead ends in the place of some workload clusters.
func (m *manyClusters) end(t testing.TB, which ...int) []*deadEnd {
	t.Helper()
	var ends []*deadEnd
	for _, i := range which {
		address := strings.TrimPrefix(m.workloads[i].Server(), "https://")
		m.workloads[i].Close()
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		end := &deadEnd{}
		ends = append(ends, end)
		done := make(chan struct{})
		go func() {
			defer close(done)
			var held []net.Conn
			for {
				connection, err := listener.Accept()
				if err != nil {
					break
				}
				end.dials.Add(1)
				if end.silent.Load() {
					held = append(held, connection)
					continue
				}
				connection.Close()
			}
			for _, connection := range held {
				connection.Close()
			}
		}()
		t.Cleanup(func() {
			listener.Close()
			<-done
		})
	}
	return ends
}
