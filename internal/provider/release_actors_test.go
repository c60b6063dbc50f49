package provider_test

import (
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// Two applies of one release at once: the second is refused, and told whose it is, whether it comes while the first is
// at work or at the very same moment (X6, X11).
func TestReleaseTwoAppliesAtOnce(t *testing.T) {
	t.Parallel()
	for _, owners := range []string{"one owner", "two owners"} {
		t.Run(owners, func(t *testing.T) {
			t.Parallel()
			first := newBench(t, tofutest.Options{})
			owner := first.owner
			if owners == "two owners" {
				owner = unique("team")
			}
			second, name, chart := first.beside(owner, tofutest.Options{}), unique("race"), paintChart(t, "1.0.0")
			config := func(color string) string {
				return releaseBlock("this", name, name, byFolder(chart), "create_namespace = true", `values = [yamlencode({ color = "`+color+`" })]`)
			}
			first.use(config("red"))
			second.use(config("blue"))

			// The first is in the middle of it when the second comes.
			reached, free := make(chan struct{}), make(chan struct{})
			var once sync.Once
			first.proxy.OnWrite(func(_ int, request fleettest.Request) {
				if request.Resource == "configmaps" {
					once.Do(func() { close(reached) })
					<-free
				}
			}, nil)
			run := first.ApplyAsync()
			select {
			case <-reached:
			case <-run.Done():
				t.Fatal(run.Wait().Log)
			}
			refused := second.Apply()
			refused.Error(t, "^Release "+name+"/"+name+" is being worked on$", `^refusing: another process of berth \(process \d+ on \S+\) is at revision 1 of it on shared \(pending-install\), and was alive at .* Nothing was applied\. Wait until it is done, then plan again\.`)
			second.inState(0)
			same(t, "writes of the second", second.proxy.Writes(), 0)
			close(free)
			if result := run.Wait(); result.ExitCode != 0 {
				t.Fatal(result.Log)
			}
			first.proxy.OnWrite(nil, nil)
			first.PlanIsEmpty().NoWarnings(t)
			same(t, "color", row(first.color(name, name), first.revisions(name)), "red [1 deployed]")

			if owners == "two owners" {
				second.Apply().Error(t, "^Release "+name+"/"+name+" belongs to another owner$", `it is marked as release\.`+name+"/"+name+` of the configuration with owner "`+first.owner+`"\. Nothing was applied`)
			} else {
				second.MustPlan().Warning(t, "^Release "+name+"/"+name+" was begun by an earlier apply$")
			}
			second.inState(0)
			first.MustDestroy()
		})
	}
}

// Two applies that both saw nothing write the first revision at the same moment: one gets it, the other says so.
func TestReleaseRaceForTheFirstRevision(t *testing.T) {
	t.Parallel()
	first := newBench(t, tofutest.Options{})
	second, name, chart := first.beside(unique("team"), tofutest.Options{}), unique("race"), paintChart(t, "1.0.0")
	first.kubectl("create", "namespace", name)
	config := releaseBlock("this", name, name, byFolder(chart))
	first.use(config)
	second.use(config)
	var meet sync.WaitGroup
	meet.Add(2)
	gate := func(n int, _ fleettest.Request) {
		if n == 1 {
			meet.Done()
			meet.Wait()
		}
	}
	first.proxy.OnWrite(gate, nil)
	second.proxy.OnWrite(gate, nil)
	runs := []*tofutest.Running{first.ApplyAsync(), second.ApplyAsync()}
	results := []*tofutest.Result{runs[0].Wait(), runs[1].Wait()}
	first.proxy.OnWrite(nil, nil)
	second.proxy.OnWrite(nil, nil)
	winner, loser, lost := first, second, results[1]
	if results[0].ExitCode != 0 {
		winner, loser, lost = second, first, results[0]
	}
	lost.Error(t, "^[Rr]elease "+name+"/"+name+" is being worked on by somebody else$", "On shared, another process has begun a revision of it since this one looked. It was left to them")
	loser.inState(0)
	same(t, "revisions", first.revisions(name), []string{"1 deployed"})
	winner.PlanIsEmpty().NoWarnings(t)
	loser.Apply().Error(t, "^Release "+name+"/"+name+" belongs to another owner$", `owner "`+winner.owner+`"`)
	winner.MustDestroy()
}

// A revision that another tool has begun is left to it as long as it may be at work, with its name; later it counts as
// interrupted, and the release is taken over and finished.
func TestReleasePendingByAnotherTool(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name, chart := unique("theirs"), paintChart(t, "1.0.0")
	b.helmInstall(chart, name, name, map[string]any{"color": "green"})
	b.helmBegins(name)
	same(t, "revisions", b.revisions(name), []string{"1 deployed", "2 pending-upgrade"})
	config := releaseBlock("this", name, name, byFolder(chart), `values = [yamlencode({ color = "blue" })]`, "adopt = true")
	b.use(config)
	const who = "Helm"
	refused := func(result *tofutest.Result) {
		t.Helper()
		result.Error(t, "^Release "+name+"/"+name+" is being worked on by "+who+"$",
			"^refusing: "+who+` began revision 2 of it on shared .* ago, and it is pending-upgrade since\. Nothing was applied\. Wait until it is done\.`,
			`If it was interrupted, plan again 10m0s after it began: from then on berth takes it for dead, and goes on from what is there\.`)
	}
	refused(b.Plan())
	refused(b.Apply())
	b.inState(0)
	same(t, "revisions", row(b.revisions(name), b.color(name, name), b.proxy.Writes()), "[1 deployed 2 pending-upgrade] green 0")

	b.age(name, "sh.helm.release.v1."+name+".v2", 11*time.Minute)
	b.MustPlan().Warning(t, "^Release "+name+"/"+name+" exists and will be adopted$", "revision 2")
	b.MustApply()
	b.PlanIsEmpty().NoWarnings(t)
	same(t, "color", b.color(name, name), "blue")
	b.settled(name)
	b.MustDestroy()
}

// helmBegins leaves a release as Helm's upgrade does when it is killed: with a further revision that is pending.
func (b *bench) helmBegins(name string) {
	b.t.Helper()
	config := b.helm(name)
	next, err := config.Releases.Last(name)
	if err != nil {
		b.t.Fatal(err)
	}
	next.Version++
	next.SetStatus(release.StatusPendingUpgrade, "Preparing upgrade")
	if err := config.Releases.Create(next); err != nil {
		b.t.Fatal(err)
	}
}

// age makes a Secret one that was written a while ago, by what the API server keeps of who wrote what and when. It takes
// such times over only with a change of the object, and dates a manager anew only for fields that it sets: so a field goes.
func (b *bench) age(namespace, name string, ago time.Duration) {
	b.t.Helper()
	secrets := b.cluster.Client().CoreV1().Secrets(namespace)
	b.kubectl("-n", namespace, "annotate", "secret", name, "example.com/passing=yes")
	secret := b.secret(namespace, name)
	delete(secret.Annotations, "example.com/passing")
	for i := range secret.ManagedFields {
		secret.ManagedFields[i].Time = new(metav1.NewTime(time.Now().Add(-ago)))
	}
	if _, err := secrets.Update(b.t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	for _, entry := range b.secret(namespace, name).ManagedFields {
		if age := time.Since(entry.Time.Time); age < ago-time.Minute {
			b.t.Fatalf("%s wrote Secret %s %s ago, by the API server's account", entry.Manager, name, age)
		}
	}
}

// helm is Helm's own access to a namespace.
func (b *bench) helm(namespace string) *action.Configuration {
	b.t.Helper()
	settings := cli.New()
	settings.KubeConfig = b.cluster.Kubeconfig()
	settings.SetNamespace(namespace)
	config := new(action.Configuration)
	if err := config.Init(settings.RESTClientGetter(), namespace, "secret", b.t.Logf); err != nil {
		b.t.Fatal(err)
	}
	return config
}
