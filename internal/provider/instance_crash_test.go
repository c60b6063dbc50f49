package provider_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// Killed at any write of its create, of an update or of its destroy, an instance with the default classes converges in
// the next run: no taint, no duplicate, no orphan, nothing left to plan (X11, promise 5). Each round is a whole life in
// which each of the three is killed when its n-th write was done, until none has that many. That is also what a kill
// before the next write leaves, so only the first one is killed before it.
func TestInstanceKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	c := fleettest.NewCluster(t, fleettest.ClusterSpec{Name: "crash", ControlPlaneOnly: true, Controllers: true, Nodes: []fleettest.NodeSpec{{Name: "amd"}}})
	b := newBenchOn(t, c, "team", tofutest.Options{})
	theirs := b.foreign("theirs", 600, func(class *classSpec) { class.PreemptionPolicy = never })
	first := instance("this", "app")
	second := instance("this", "app", `sizes = { hold = {} }`, `priority_classes = { sandbox = "theirs" }`)
	n, boundary := 1, fleettest.BeforeWrite
	for {
		killed := 0
		run := func(resources string, start func(...string) *tofutest.Running) {
			t.Helper()
			b.use(resources)
			if b.killedAt(n, boundary, start) {
				killed++
			}
			b.NoTaint()
		}
		run(first, b.ApplyAsync)
		b.MustApply()
		run(second, b.ApplyAsync)
		b.MustApply()
		b.PlanIsEmpty()
		same(t, "what carries a mark", everything(t, c, anyMark), []string{"ConfigMap/app/berth-instance", "Namespace/app", "PriorityClass/berth-control"})
		same(t, "the step", b.mustNamespace("app").Annotations["berth.dev/step"], "")
		same(t, "the setting", b.settings("app")["sizes.json"], `{"hold":{"memory":"2Gi","cpu":"1"}}`)
		run(second, b.DestroyAsync)
		b.MustDestroy()
		same(t, "what carries a mark at the end", everything(t, c, anyMark), []string{})
		same(t, "the foreign class", b.mustClass("theirs").ResourceVersion, theirs.ResourceVersion)
		if t.Failed() {
			t.Fatalf("killed %s write %d", boundary, n)
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
	if n < 10 {
		t.Errorf("the longest apply had %d writes; a create has the namespace, two classes and their users, the settings and the steps", n-1)
	}
}

// killedAt runs a command and kills its provider at one side of its n-th write; false when it had fewer.
func (b *bench) killedAt(n int, boundary fleettest.Boundary, start func(...string) *tofutest.Running) bool {
	b.t.Helper()
	running := make(chan *tofutest.Running, 1)
	var failed error
	fired := b.proxy.KillAt(n, boundary, func() { _, failed = (<-running).KillProvider() })
	run := start()
	running <- run
	result := run.Wait()
	b.proxy.OnWrite(nil, nil)
	if failed != nil {
		b.t.Fatal(failed)
	}
	if fired() == (result.ExitCode == 0) {
		b.t.Fatalf("killed: %v, %s ended with %d:\n%s", fired(), result.Command, result.ExitCode, result.Log)
	}
	return fired()
}

// The same at random moments, with the operator and the components, whose rollouts take their time.
func TestInstanceKilledAtRandom(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	c := fleettest.NewCluster(t, fleettest.ClusterSpec{Name: "random", Nodes: []fleettest.NodeSpec{{Name: "amd"}}})
	b := newBenchOn(t, c, "team", tofutest.Options{})
	shape := func(round int) string {
		var text strings.Builder
		for i := range 3 {
			if (i+round)%3 == 0 {
				continue // created in the next round, or destroyed in this one
			}
			text.WriteString(instance(fmt.Sprintf("i%d", i), fmt.Sprintf("app-%d", i), fmt.Sprintf("kit_version = \"%d\"", round), "remove_operator = true",
				`repo_cache = { image = "example.com/cache:1" }`, fmt.Sprintf(`operator = { image = "example.com/operator:1.%[1]d.0", version = "1.%[1]d.0" }`, round)))
		}
		return text.String()
	}
	b.use(shape(0))
	started := time.Now()
	b.MustApply()
	usual := time.Since(started)
	for round := 1; round <= 4; round++ {
		config := shape(round)
		if round == 4 {
			config = ""
		}
		b.use(config)
		run := b.ApplyAsync()
		select {
		case <-run.Done():
		case <-time.After(time.Duration(random.Int64N(int64(usual)))):
			// Where the provider is gone already, or not there yet, that was the moment.
			if pids, err := run.ProviderPIDs(); err == nil && len(pids) > 0 {
				if _, err := run.KillProvider(); err != nil {
					t.Logf("round %d: %v", round, err)
				}
			}
		}
		run.Wait()
		b.NoTaint()
		b.MustApply()
		b.PlanIsEmpty()
	}
	same(t, "what carries a mark", everything(t, c, anyMark), []string{})
}

// What an apply stands on goes away under it: the apply says so, and the next one converges (X11).
func TestInstanceDeletedInTheMiddle(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	classes, name := b.ownClasses(), unique("undermined")
	b.use(instance("this", name, classes))
	// The last write of a create takes the step off the namespace.
	b.proxy.OnWrite(func(n int, request fleettest.Request) {
		if n == 3 {
			b.cluster.Kubectl(t, "delete", "namespace", name)
		}
	}, nil)
	b.Apply().Error(t, `^Namespace "`+name+`" was deleted during the apply$`, `^Somebody deleted namespace "`+name+`" on shared while the instance was being applied\. Apply again to create it anew\.`, "Applied before this: created Namespace/"+name)
	b.proxy.OnWrite(nil, nil)
	same(t, "instances in the state", len(b.Instances()), 0)
	b.MustApply()
	b.PlanIsEmpty()

	// An update finds the settings gone between its checks and its write.
	b.use(instance("this", name, classes, `sizes = { hold = {} }`))
	b.proxy.Reset()
	b.proxy.OnWrite(func(n int, request fleettest.Request) {
		if n == 1 {
			b.cluster.Kubectl(t, "-n", name, "delete", "configmap", settings)
		}
	}, nil)
	b.MustApply()
	b.proxy.OnWrite(nil, nil)
	b.PlanIsEmpty()
	same(t, "the setting", b.settings(name)["sizes.json"], `{"hold":{"memory":"2Gi","cpu":"1"}}`)
	b.MustDestroy()
}

// Two applies at the same moment, from two states, that both want one namespace: one gets it, the other says so (X6,
// X11, J48).
func TestInstanceTwoAppliesAtOnce(t *testing.T) {
	t.Parallel()
	first := newBench(t, tofutest.Options{})
	second := first.beside(unique("team"), tofutest.Options{})
	classes, name := first.ownClasses(), unique("race")
	first.use(instance("this", name, classes))
	second.use(instance("this", name, classes))
	// Neither first write is forwarded before both have come.
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
	lost.Error(t, "^Namespace/"+name+" was created by somebody else at the same moment$", "It was left as it is. Plan again to see whose it is")
	same(t, "instances in the loser's state", len(loser.Instances()), 0)
	winner.PlanIsEmpty()
	same(t, "the winner's namespace", marksOf(first.mustNamespace(name)), ownedInstance(winner.owner, name))
	same(t, "what the loser has", loser.ours(name), []string{})
	loser.Apply().Error(t, "^Namespace/"+name+" belongs to another owner$", "Nothing was applied")
	winner.MustDestroy()
}
