package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// Killed at any write of its create or of a rotation, to either cluster, a registration converges in the next run: no taint,
// one token, nothing left to plan (X11, promise 5). Each round is a life in which both are killed when the n-th write to the
// cluster was done, until neither has that many. That is also what a kill before the next write leaves, so only the first
// one is killed before it.
func TestClusterKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	// Not by berth, whose writes would be among those that are counted.
	p.edge.Kubectl(t, "-n", "kube-system", "create", "serviceaccount", p.name)
	p.edge.Kubectl(t, "create", "clusterrolebinding", p.name, "--clusterrole=cluster-admin", "--serviceaccount=kube-system:"+p.name)
	p.use(p.clusterBlock(fmt.Sprintf("access = \"edge/kube-system/%s\"", p.name), p.root()))
	most := map[string]int{}
	for where, proxy := range map[string]*fleettest.Proxy{"mgmt": p.proxy, "edge": p.edgeProxy} {
		n, boundary := 1, fleettest.BeforeWrite
		for {
			killed := 0
			run := func() {
				t.Helper()
				if killedAt(t, proxy, n, boundary, p.ApplyAsync) {
					killed++
				}
				p.NoTaint()
				p.MustApply()
				p.PlanIsEmpty()
				if tokens := p.minted(); len(tokens) != 1 || p.secret().Annotations["berth.dev/token"] != tokens[0] {
					t.Errorf("tokens: %v, of which Argo CD has that of %s", tokens, p.secret().Annotations["berth.dev/token"])
				}
				same(t, "the kubeconfig has Argo CD's token", strings.Contains(string(p.kubeconfig().Data["kubeconfig"]), p.argo().BearerToken), true)
				same(t, "marks", row(marksOf(p.secret()), marksOf(p.kubeconfig()), marksOf(p.app("registry-"+p.name))), row(p.owned(true), p.owned(true), p.owned(true)))
			}
			run()
			first := p.argo().BearerToken
			p.age()
			run()
			same(t, "rotated", p.argo().BearerToken == first, false)
			p.MustDestroy()
			same(t, "what is left", row(p.secret() == nil, p.kubeconfig() == nil, p.app("registry-"+p.name) == nil, p.minted(), namespaceGone(t, p.mgmt, p.store)), row(true, true, true, []string(nil), true))
			if t.Failed() {
				t.Fatalf("killed %s write %d to %s", boundary, n, where)
			}
			if killed == 0 {
				break
			}
			if boundary == fleettest.BeforeWrite {
				boundary = fleettest.AfterWrite
				continue
			}
			n++
		}
		most[where] = n - 1
	}
	// The namespace and its use, the two Secrets and the root; and a Secret for each token, of which one goes.
	if most["mgmt"] < 4 || most["edge"] != 2 {
		t.Errorf("writes: %v", most)
	}
}

// killedAt runs a command and kills its provider at one side of its n-th write through a proxy; false when it had fewer.
func killedAt(t *testing.T, proxy *fleettest.Proxy, n int, boundary fleettest.Boundary, start func(...string) *tofutest.Running) bool {
	t.Helper()
	return (&bench{t: t, proxy: proxy}).killedAt(n, boundary, start)
}

// Killed when Argo CD has the new token and before the old one was taken back, the next plan shows the old one, and the next
// apply takes it back: a long-lived one that the access has replaced, too (I24, X11).
func TestClusterKilledBeforeRevoking(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	p.use(p.accessBlock() + p.clusterBlock(byAccess))
	p.MustApply()
	first := p.argo().BearerToken
	p.use(p.accessBlock("token_version = 2") + p.clusterBlock(byAccess))
	running := make(chan *tofutest.Running, 1)
	var failed error
	p.edgeProxy.OnWrite(func(_ int, request fleettest.Request) {
		if request.Name == p.name+"-token" && request.Verb == "delete" && p.argo().BearerToken != first {
			_, failed = (<-running).KillProvider()
			p.edgeProxy.Fail(func(r fleettest.Request) bool { return r.Write == request.Write }, fleettest.Cut)
		}
	}, nil)
	run := p.ApplyAsync()
	running <- run
	result := run.Wait()
	p.edgeProxy.OnWrite(nil, nil)
	p.edgeProxy.Reset()
	if result.ExitCode == 0 || failed != nil {
		t.Fatalf("not killed: %v\n%s", failed, result.Log)
	}
	p.NoTaint()
	same(t, "left behind", secretOn(t, p.edge, "kube-system", p.name+"-token") != nil, true)
	plan := p.MustPlan()
	same(t, "drift", plan.Change(t, edge).Before["drift"], map[string]any{"Secret/kube-system/" + p.name + "-token": "superseded → revoked"})
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "taken back", secretOn(t, p.edge, "kube-system", p.name+"-token") == nil, true)
	p.awaitRefused(first)
	p.MustDestroy()
}

// A workload cluster that does not answer spoils nothing: what Argo CD has of it is still read, the rest stays as it was, and
// the condition says so. A change is refused, or with on_unreachable = "warn" put off, and nothing is written (I101, promise 11).
func TestClusterSilent(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	p.use(p.clusterBlock(p.root()))
	p.MustApply()
	before := p.Resource(edge)
	restore := p.edgeProxy.Fail(nil, fleettest.BadGateway)
	for _, unreachable := range []string{"error", "warn"} {
		more := fmt.Sprintf("on_unreachable = %q", unreachable)
		p.entries(nil, more)
		p.use(p.clusterBlock(p.root()))
		p.reset()
		plan := p.PlanIsEmpty()
		plan.Warning(t, `^Cluster "`+p.name+`" does not answer$`, "What Argo CD has of it was read from mgmt; its credential, version and nodes were not")
		p.Refresh()
		now := p.Resource(edge)
		same(t, "what is kept", row(now["kubernetes_version"], now["node_count"], now["cluster_uid"], now["argocd_server"], now["region"], now["drift"]),
			row(before["kubernetes_version"], before["node_count"], before["cluster_uid"], before["argocd_server"], before["region"], map[string]any{}))
		same(t, "conditions", p.conditions(), map[string]string{"Connected": "False Unreachable", "Registered": "True Applied", "Synced": "Unknown NotSeen"})
		if message := fmt.Sprint(now["conditions"]); !strings.Contains(message, `Cluster "edge"`) {
			t.Errorf("conditions: %s", message)
		}

		// A change, and drift on the management cluster.
		p.use(p.clusterBlock(p.root(), `secret_labels = { tier = "edge" }`))
		if unreachable == "error" {
			p.Plan().Error(t, `^Cluster "edge": `)
		} else {
			p.MustPlan().Warning(t, `^The checks of berth_cluster "`+p.name+`" on cluster "mgmt" were not run$`, `on_unreachable is "warn"\. They run at the apply`)
		}
		p.Apply().Error(t, `^Cluster "edge": `)
		p.unwritten()
		same(t, "the state", p.Resource(edge)["secret_labels"], nil)
	}
	restore()
	p.entries(nil)
	p.use(p.clusterBlock(p.root(), `secret_labels = { tier = "edge" }`))
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "again", row(p.conditions()["Connected"], p.secret().Labels["tier"]), row("True Reached", "edge"))
	p.MustDestroy()
}
