package provider_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// What takes a release of the helm provider (3.1) out of reach for good, or out of the state, and berth has to pass: a
// kill, an interrupt, a wait that ends, a cluster that does not answer, a credential that has expired, and somebody else
// who is at work.

// shopChart writes a chart whose release has a ConfigMap "<release>-shop" with a color and a Deployment "<release>-shop"
// of one pod, which becomes ready unless its image is brokenImage or no node is in its zone; with a quota, the namespace
// may have that many pods.
func shopChart(t testing.TB) string {
	t.Helper()
	return charts.Folder(t, "shop", "1.0.0", map[string]string{
		"values.yaml": "color: white\nimage: example.com/shop:1\nzone: \"\"\nquota: \"\"\n",
		"templates/config.yaml": `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-shop
data:
  color: {{ .Values.color }}
`,
		"templates/quota.yaml": `{{- with .Values.quota }}
apiVersion: v1
kind: ResourceQuota
metadata:
  name: {{ $.Release.Name }}-shop
spec:
  hard:
    pods: {{ . | quote }}
{{- end }}
`,
		"templates/deployment.yaml": `apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .Release.Name }}-shop
spec:
  selector:
    matchLabels:
      app: {{ .Release.Name }}
  template:
    metadata:
      labels:
        app: {{ .Release.Name }}
    spec:
      {{- with .Values.zone }}
      nodeSelector:
        zone: {{ . }}
      {{- end }}
      containers:
        - name: shop
          image: {{ .Values.image }}
`,
	})
}

// brokenImage is one that no node can pull; see podStages.
const brokenImage = "broken.example.com/app:1"

// shop is a release of a shopChart with values, in a namespace of its name.
func shop(chart, name, values string, body ...string) string {
	return releaseBlock("this", name, name, append([]string{byFolder(chart), "create_namespace = true", "values = [yamlencode({ " + values + " })]"}, body...)...)
}

// newShop is a bench on the cluster on which pods run, a shopChart, and the name of a release of it.
func newShop(t *testing.T) (b *bench, chart, name string) {
	t.Helper()
	return newBenchOn(t, wholeCluster(t), unique("team"), tofutest.Options{}), shopChart(t), unique("shop")
}

// revisions are Helm's records of a release in their order, as "<revision> <status>".
func (b *bench) revisions(name string) []string {
	b.t.Helper()
	secrets, err := b.cluster.Client().CoreV1().Secrets(name).List(b.t.Context(), metav1.ListOptions{LabelSelector: "owner=helm,name=" + name})
	if err != nil {
		b.t.Fatal(err)
	}
	revisions := []string{}
	for _, secret := range secrets.Items {
		revisions = append(revisions, secret.Labels["version"]+" "+secret.Labels["status"])
	}
	slices.Sort(revisions)
	return revisions
}

// inState is how many resources the state holds. None of them is tainted.
func (b *bench) inState(want int) {
	b.t.Helper()
	held := 0
	if len(b.StatePull()) > 0 { // tofu makes an empty file before it has anything to write
		b.NoTaint()
		held = len(b.Instances())
	}
	same(b.t, "resources in the state", held, want)
}

// shopColor is what the ConfigMap of a shopChart's release has; "none" where there is none.
func (b *bench) shopColor(name string) string {
	b.t.Helper()
	if found := b.configMap(name, name+"-shop"); found != nil {
		return found.Data["color"]
	}
	return "none"
}

// cutShort starts a command and ends it in some way once the API server has done its first write of a resource.
func (b *bench) cutShort(resource string, start func(...string) *tofutest.Running, end func(*tofutest.Running) error) *tofutest.Result {
	b.t.Helper()
	running, ended := make(chan *tofutest.Running, 1), make(chan error, 1)
	var first sync.Once
	b.proxy.OnWrite(nil, func(_ int, request fleettest.Request) {
		if request.Resource == resource {
			first.Do(func() { ended <- end(<-running) })
		}
	})
	run := start()
	running <- run
	result := run.Wait()
	b.proxy.OnWrite(nil, nil)
	first.Do(func() { ended <- errors.New("there was no write of " + resource) })
	if err := <-ended; err != nil {
		b.t.Fatalf("%v\n%s", err, result.Log)
	}
	return result
}

// The two ways in which a process dies: the provider alone, and all that runs on the machine.
func killProvider(run *tofutest.Running) error { _, err := run.KillProvider(); return err }
func killAll(run *tofutest.Running) error      { return run.Kill() }

// Killed in the middle of an install, of an upgrade and of an uninstall, a release is gone on with by the next apply of
// the same configuration; Helm itself says "cannot re-use a name that is still in use" and "another operation is in
// progress" for ever (X11, promise 5 of the design).
func TestReleaseKilled(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(*tofutest.Running) error{"the provider": killProvider, "the machine": killAll} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b, chart, name := newShop(t)
			b.use(shop(chart, name, `color = "red"`))
			b.cutShort("deployments", b.ApplyAsync, end)
			b.inState(0)
			same(t, "what the kill left", b.revisions(name), []string{"1 pending-install"})
			plan := b.MustPlan()
			plan.Warning(t, "^Release "+name+"/"+name+" was begun by an earlier apply$", `berth's mark \(revision 1, pending-install\), and the state does not hold it\. The apply goes on from it\.`)
			same(t, "the plan", plan.Change(t, rel).Is("create"), true)
			b.MustApply()
			b.PlanIsEmpty().NoWarnings(t)
			same(t, "installed", row(b.shopColor(name), b.Resource(rel)["status"]), "red deployed")

			b.use(shop(chart, name, `color = "blue", image = "example.com/shop:2"`))
			before := b.revisions(name)
			b.cutShort("configmaps", b.ApplyAsync, end)
			b.inState(1)
			if left := b.revisions(name); len(left) != len(before)+1 || !strings.HasSuffix(left[len(left)-1], " pending-upgrade") {
				t.Errorf("the kill left %v", left)
			}
			change := b.MustPlan().Change(t, rel)
			same(t, "the plan", change.Is("update"), true)
			b.MustApply()
			b.PlanIsEmpty().NoWarnings(t)
			same(t, "upgraded", row(b.shopColor(name), b.Resource(rel)["status"]), "blue deployed")
			b.settled(name)

			b.cutShort("deployments", b.DestroyAsync, end)
			b.inState(1)
			b.MustDestroy()
			same(t, "what is left", row(b.shopColor(name), b.revisions(name)), "none []")
			b.namespaceIsGone(name)
		})
	}
}

// settled fails the test unless exactly one revision of a release is deployed, the newest, and none is pending.
func (b *bench) settled(name string) {
	b.t.Helper()
	all := b.revisions(name)
	for i, one := range all {
		_, status, _ := strings.Cut(one, " ")
		if last := i == len(all)-1; last != (status == "deployed") || strings.HasPrefix(status, "pending") || status == "uninstalling" {
			b.t.Errorf("revisions: %v", all)
			return
		}
	}
}

// Interrupted while it waits, an install ends soon, says what it waited for and what there is, leaves neither a pending
// revision nor a half of a resource, and is gone on with by the next apply (promises 5 and 8 of the design).
func TestReleaseInterrupted(t *testing.T) {
	t.Parallel()
	b, chart, name := newShop(t)
	b.use(shop(chart, name, `image = "`+brokenImage+`"`))
	run := b.ApplyAsync()
	b.untilPodWaits(name, "ErrImagePull")
	interrupted := time.Now()
	if err := run.Interrupt(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-run.Done():
	case <-time.After(time.Minute):
		t.Errorf("the apply still runs a minute after it was interrupted: %v", run.Kill())
	}
	result := run.Wait()
	t.Logf("it ended %s after the interrupt", time.Since(interrupted).Round(100*time.Millisecond))
	result.Error(t, `^\d of 2 objects of release `+name+"/"+name+" are not ready$", `^It was interrupted after \d+s`,
		"container shop waits: ErrImagePull: failed to pull: 401 Unauthorized",
		"Applied before this: created Namespace/"+name+".*created ConfigMap/"+name+"/"+name+"-shop.*created Deployment/"+name+"/"+name+"-shop")
	result.Warning(t, `^berth_release "`+name+"/"+name+`" on cluster "shared" is unfinished$`, "the next apply goes on from it")
	b.inState(0)
	same(t, "what the interrupt left", b.revisions(name), []string{"1 failed"})

	b.use(shop(chart, name, `color = "red"`))
	b.MustPlan().Warning(t, "^Release "+name+"/"+name+" was begun by an earlier apply$", `revision 1, failed`)
	b.MustApply()
	b.PlanIsEmpty().NoWarnings(t)
	b.settled(name)

	// The same in an upgrade: the state is kept.
	b.use(shop(chart, name, `color = "blue", image = "`+brokenImage+`"`))
	run = b.ApplyAsync()
	b.untilPodWaits(name, "ErrImagePull")
	if err := run.Interrupt(); err != nil {
		t.Fatal(err)
	}
	run.Wait().Error(t, "objects of release "+name+"/"+name+" are not ready$", "^It was interrupted after", "ErrImagePull")
	b.inState(1)
	b.use(shop(chart, name, `color = "blue"`))
	b.MustApply()
	b.PlanIsEmpty().NoWarnings(t)
	b.settled(name)
	b.MustDestroy()
}

// untilPodWaits waits until a pod in a namespace waits for a reason.
func (b *bench) untilPodWaits(namespace, reason string) {
	b.t.Helper()
	fleettest.Eventually(b.t, func(ctx context.Context) error {
		pods, err := b.cluster.Client().CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, pod := range pods.Items {
			for _, container := range pod.Status.ContainerStatuses {
				if container.State.Waiting != nil && container.State.Waiting.Reason == reason {
					return nil
				}
			}
		}
		return fmt.Errorf("none of %d pods waits for %s", len(pods.Items), reason)
	})
}

// A wait that times out says which object, which pod and which reason; an install leaves no state, an upgrade keeps it,
// and the next apply converges (promises 5 and 8 of the design).
func TestReleaseWaitTimesOut(t *testing.T) {
	t.Parallel()
	b, chart, name := newShop(t)
	b.use(shop(chart, name, `zone = "nowhere"`, `timeouts = { create = "15s" }`))
	failed := b.Apply()
	failed.Error(t, `^1 of 2 objects of release `+name+"/"+name+" are not ready$",
		`^The time limit was reached after \d+s: 1 of 2 objects of release `+name+"/"+name+` are not ready on whole\.`,
		"Deployment/"+name+"/"+name+"-shop: ",
		"Pod "+name+`-shop-\S+: .*0/2 nodes are available: .*didn't match Pod's node affinity/selector`,
		"Look at: kubectl --context whole describe deployment/"+name+"-shop -n "+name,
		"Applied before this: created Namespace/"+name+".*created Deployment/"+name+"/"+name+"-shop")
	failed.Warning(t, `^berth_release "`+name+"/"+name+`" on cluster "shared" is unfinished$`, "the next apply goes on from it")
	b.inState(0)
	same(t, "what the time-out left", b.revisions(name), []string{"1 failed"})

	b.use(shop(chart, name, `color = "red"`))
	b.MustApply()
	b.PlanIsEmpty().NoWarnings(t)
	b.settled(name)

	// In an upgrade, and by a quota that refuses the new pod.
	b.use(shop(chart, name, `color = "blue", image = "example.com/shop:2", quota = "1"`, `timeouts = { update = "15s" }`))
	b.Apply().Error(t, `^1 of 3 objects of release `+name+"/"+name+" are not ready$", "^The time limit was reached after",
		"Deployment/"+name+"/"+name+"-shop: ", "exceeded quota: "+name+"-shop")
	b.inState(1)
	planned := b.MustPlan().Change(t, rel)
	same(t, "drift", row(planned.Is("update"), planned.Before["drift"].(map[string]any)["Release/"+name+"/"+name+" status"]), "true failed → deployed")
	b.use(shop(chart, name, `color = "blue", image = "example.com/shop:2", quota = "10"`))
	b.MustApply()
	b.PlanIsEmpty().NoWarnings(t)
	same(t, "upgraded", row(b.shopColor(name), b.Resource(rel)["status"]), "blue deployed")
	b.settled(name)
	b.MustDestroy()
}

// A cluster that does not answer, or refuses a credential, during a refresh is an error: the release stays in the state,
// and once the cluster answers again there is nothing to plan. Only the answer NotFound takes it out (promise 5 of the
// design).
func TestReleaseStaysInTheState(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("stays")
	config := releaseBlock("this", name, name, byFolder(paintChart(t, "1.0.0")), "create_namespace = true")
	b.use(config)
	b.MustApply()
	state := string(b.StatePull())

	stays := func(what, summary string, details ...string) {
		t.Helper()
		b.Refresh().Error(t, summary, details...)
		b.inState(1)
		same(t, what+": the state", string(b.StatePull()), state)
	}
	helms := func(r fleettest.Request) bool { return r.Resource == "secrets" }
	objects := func(r fleettest.Request) bool { return r.Resource == "configmaps" }
	for what, one := range map[string]struct {
		failure fleettest.Failure
		summary string
	}{
		"a load balancer without a backend": {fleettest.BadGateway, `^Cluster "shared": its API server does not answer \(502\)$`},
		"backends that are unhealthy":       {fleettest.Unavailable, `^Cluster "shared": its API server does not answer \(503\)$`},
		"a connection that is cut":          {fleettest.Cut, `^Cluster "shared": `},
		"a credential that has expired":     {fleettest.Unauthorized, `^Cluster "shared": .*credential`},
		"a sign-in page":                    {fleettest.HTMLPage, `^Cluster "shared": `},
		"a role that was taken":             {fleettest.Forbidden, `.`},
	} {
		for part, match := range map[string]func(fleettest.Request) bool{"everything": nil, "Helm's records": helms, "the objects": objects} {
			restore := b.proxy.Fail(match, one.failure)
			stays(what+", for "+part, one.summary)
			restore()
		}
	}
	b.PlanIsEmpty().NoWarnings(t)

	// A real credential that the API server knows no more, and one that may do nothing.
	expired := b.cluster.AdminKubeconfig()
	expired.ClientCertificate, expired.ClientKey, expired.Token = nil, nil, "expired"
	b.Write("main.tf", providerBlock(b.owner, clusters{"shared": byPath(t, expired)})+config)
	stays("a wrong token", `^Cluster "shared": `, "401|Unauthorized|credential")
	b.Plan().Error(t, `^Cluster "shared": `, "401|Unauthorized|credential")
	b.use(config)
	b.PlanIsEmpty().NoWarnings(t)

	// An API server that is down.
	b.proxy.Close()
	stays("nobody listens", `^Cluster "shared": `, "Nothing listens at ")
	b.Plan().Error(t, `^Cluster "shared": `, "Nothing listens at ")
	b.Write("main.tf", providerBlock(b.owner, clusters{"shared": byPath(t, b.cluster.AdminKubeconfig())})+config)
	b.PlanIsEmpty().NoWarnings(t)

	// And what the cluster says is gone, is gone.
	b.kubectl("-n", name, "delete", "secret", "sh.helm.release.v1."+name+".v1")
	same(t, "planned anew", b.MustPlan().Change(t, rel).Is("create"), true)
	b.MustApply()
	b.MustDestroy()
}
