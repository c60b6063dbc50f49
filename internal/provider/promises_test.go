package provider_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// Where each promise of the design is shown for priority classes:
//
//  1. look before you touch: the refusals of priority_class_ownership_test.go, which count writes
//  2. unknown is not missing: TestUnknownConnection, TestConnectionBecomesUnknown
//  3. never touch what is not ours: priority_class_ownership_test.go, TestPriorityClassDeletedByHand
//  4. right cluster: provider_identity_test.go
//  5. the cluster is the journal: TestKilledAtEveryWrite, TestKilledAtRandom, TestSilenceInTheMiddle
//  6. drift, field by field: TestPriorityClassRhythm, TestPriorityClassMarksTakenOff
//  7. secrets: secrets_test.go
//  8. waits explain themselves: TestSilenceInTheMiddle, TestPriorityClassHeldByFinalizer
//  9. import ends in an empty plan: TestPriorityClassRhythm
// 10. destroy is honest: TestPriorityClassInUse, TestPriorityClassKnobs, TestPriorityClassAlreadyGone
// 11. one provider, any number of clusters: TestUnreachable
// 12. cost follows kinds: cost_test.go

// crash is one apply or destroy during which the provider is killed.
type crash struct {
	name string
	// prepare makes what the apply starts from; nil for an empty cluster.
	prepare func(b *bench, class string)
	// resource is the configuration that is applied; "" destroys.
	resource func(class string) string
	// writes is how many writes the apply makes: each is a boundary before and after.
	writes int
	// end is how the class has to be at the end, "" for gone.
	end string
}

var crashes = []crash{
	{
		name:     "create",
		resource: func(name string) string { return class("this", name, `description = "new"`) },
		writes:   1, end: "1000 new true",
	},
	{
		name:     "update",
		prepare:  func(b *bench, name string) { b.use(class("this", name)); b.MustApply() },
		resource: func(name string) string { return class("this", name, `description = "new"`) },
		// What the create owns is turned into what applies own, and then applied.
		writes: 2, end: "1000 new true",
	},
	{
		name:     "recreate",
		prepare:  func(b *bench, name string) { b.use(class("this", name)); b.MustApply() },
		resource: func(name string) string { return class("this", name, "value = 2000", `description = "new"`) },
		writes:   2, end: "2000 new true",
	},
	{
		name:     "adopt",
		prepare:  func(b *bench, name string) { b.foreign(name, 1000, nil) },
		resource: func(name string) string { return class("this", name, `description = "new"`, "adopt = true") },
		writes:   1, end: "1000 new ",
	},
	{
		name:     "destroy",
		prepare:  func(b *bench, name string) { b.use(class("this", name)); b.MustApply() },
		resource: func(string) string { return "" },
		writes:   1, end: "",
	},
	{
		name: "release",
		prepare: func(b *bench, name string) {
			b.foreign(name, 1000, nil)
			b.use(class("this", name, "adopt = true"))
			b.MustApply()
		},
		resource: func(string) string { return "" },
		writes:   1, end: "1000 theirs ",
	},
}

// Killed at any write, before it is forwarded or after the server has done it, the next apply converges: no taint, no
// duplicate, no orphan, nothing left to plan (X11, promise 5).
func TestKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	for _, one := range crashes {
		for n := 1; n <= one.writes; n++ {
			for _, when := range []string{"before", "after"} {
				t.Run(fmt.Sprintf("%s/%s write %d", one.name, when, n), func(t *testing.T) {
					t.Parallel()
					b := newBench(t, tofutest.Options{})
					name := unique("crash")
					if one.prepare != nil {
						one.prepare(b, name)
					}
					b.use(one.resource(name))

					b.killAt(n, when, b.ApplyAsync)
					b.NoTaint()
					if left := len(b.ownedClasses(b.owner)); left > 1 {
						t.Errorf("%d classes after the crash", left)
					}

					b.MustApply()
					b.PlanIsEmpty()
					b.checkEnd(one, name)
				})
			}
		}
		t.Run(one.name+"/writes", func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tofutest.Options{})
			name := unique("crash")
			if one.prepare != nil {
				one.prepare(b, name)
			}
			b.use(one.resource(name))
			b.proxy.Reset()
			b.MustApply()
			same(t, "writes of an undisturbed apply", b.proxy.Writes(), one.writes)
			b.checkEnd(one, name)
		})
	}
}

// killAt starts an apply and kills its provider at the n-th write.
func (b *bench) killAt(n int, when string, start func(...string) *tofutest.Running) {
	b.t.Helper()
	var (
		running = make(chan *tofutest.Running, 1)
		once    sync.Once
		killed  error
		reached bool
	)
	hook := func(at int, _ fleettest.Request) {
		if at == n {
			once.Do(func() {
				reached = true
				_, killed = (<-running).KillProvider()
			})
		}
	}
	b.proxy.Reset()
	if when == "before" {
		b.proxy.OnWrite(hook, nil)
	} else {
		b.proxy.OnWrite(nil, hook)
	}
	run := start()
	running <- run
	result := run.Wait()
	b.proxy.OnWrite(nil, nil)
	once.Do(func() {}) // the hook has ended, or will do nothing
	if !reached || killed != nil {
		b.t.Fatalf("the provider was not killed %s write %d: %v\n%s", when, n, killed, result.Log)
	}
	if result.ExitCode == 0 {
		b.t.Fatalf("the apply succeeded although the provider was killed:\n%s", result.Log)
	}
}

func (b *bench) checkEnd(one crash, name string) {
	b.t.Helper()
	live := b.class(name)
	if one.end == "" {
		if live != nil {
			b.t.Errorf("the class is still there: %v", live)
		}
	} else if live == nil {
		b.t.Error("the class is gone")
	} else {
		same(b.t, "the class at the end", fmt.Sprintf("%d %s %s", live.Value, live.Description, live.Annotations["berth.dev/created-by-berth"]), one.end)
	}
	var want []string
	if one.resource(name) != "" {
		want = []string{name}
	}
	same(b.t, "what is ours", b.ownedClasses(b.owner), want)
	same(b.t, "instances in the state", len(b.Instances()), len(want))
}

// The same at random moments of an apply that creates, changes, recreates and removes several classes at once.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	b := newBench(t, tofutest.Options{})
	prefix := unique("random")
	// Each round turns one of these into the next.
	shape := func(round int) string {
		var text strings.Builder
		for i := range 12 {
			if (i+round)%4 == 0 {
				continue // created in the next round, or destroyed in this one
			}
			text.WriteString(class(fmt.Sprintf("c%d", i), fmt.Sprintf("%s-%d", prefix, i), fmt.Sprintf("value = %d", 1+(i+round)/3), fmt.Sprintf("description = \"round %d\"", round)))
		}
		return text.String()
	}
	b.use(shape(0))
	started := time.Now()
	b.MustApply()
	usual := time.Since(started)
	for round := 1; round <= 3; round++ {
		b.use(shape(round))
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
		want := map[string]bool{}
		for i := range 12 {
			if (i+round)%4 != 0 {
				want[fmt.Sprintf("%s-%d", prefix, i)] = true
			}
		}
		got := map[string]bool{}
		for _, name := range b.ownedClasses(b.owner) {
			got[name] = true
			if live := b.mustClass(name); live.Description != fmt.Sprintf("round %d", round) {
				t.Errorf("round %d: %s is %q", round, name, live.Description)
			}
		}
		same(t, fmt.Sprintf("round %d: what is ours", round), got, want)
	}
	b.MustDestroy()
	same(t, "what is ours at the end", b.ownedClasses(b.owner), []string{})
}

// Two applies at the same moment, from two states, that both want one class: one gets it, the other says so, and the
// class is never two things at once (X6, X11).
func TestTwoAppliesAtOnce(t *testing.T) {
	t.Parallel()
	for _, owners := range []string{"one owner", "two owners"} {
		t.Run(owners, func(t *testing.T) {
			t.Parallel()
			first := newBench(t, tofutest.Options{})
			owner := first.owner
			if owners == "two owners" {
				owner = unique("team")
			}
			second := first.beside(owner, tofutest.Options{})
			name := unique("race")
			first.use(class("this", name, `description = "first"`))
			second.use(class("this", name, `description = "second"`))

			// Neither write is forwarded before both have come.
			var meet sync.WaitGroup
			meet.Add(2)
			gate := func(int, fleettest.Request) { meet.Done(); meet.Wait() }
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
			lost.Error(t, "^PriorityClass/"+name+" was created by somebody else at the same moment$",
				"did not exist on shared when it was checked, and did when it was to be created. It was left as it is. Plan again to see whose it is")
			same(t, "instances in the loser's state", len(loser.Instances()), 0)
			winner.PlanIsEmpty()
			same(t, "the winner's class", marksOf(first.mustClass(name)), ownedBy(winner.owner, name, true))

			if owners == "two owners" {
				loser.Apply().Error(t, "^PriorityClass/"+name+" belongs to another owner$", "Nothing was applied")
			} else {
				loser.MustPlan().Warning(t, "^PriorityClass/"+name+" exists and carries this configuration's mark$", "Two resources must not have the same name")
			}
			winner.MustDestroy()
			same(t, "what is left", len(first.ownedClasses(first.owner))+len(first.ownedClasses(owner)), 0)
		})
	}
}

// A deletion that the cluster holds up is waited for, says why when its time is up or it is interrupted, and goes on in
// the next apply (promises 5 and 8).
func TestPriorityClassHeldByFinalizer(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("held")
	b.use(class("this", name, `timeouts = { delete = "2s" }`))
	b.MustApply()
	b.kubectl("patch", "priorityclass", name, "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/hold"]}}`)
	const unfinished = " is not there yet: wait until it is gone$"
	b.Destroy().Error(t, "^PriorityClass/"+name+unfinished,
		"The time limit was reached after 2s: PriorityClass/"+name+` on shared: finalizers: example\.com/hold`,
		"Look at: kubectl --context shared describe priorityclass "+name, "Applied before this: deleted PriorityClass/"+name)
	same(t, "instances in the state", len(b.Instances()), 1)

	b.use(class("this", name))
	b.MustApply("-refresh=false")
	b.proxy.Reset()
	run := b.DestroyAsync("-refresh=false")
	fleettest.Eventually(t, func(context.Context) error {
		if n := b.proxy.Count("delete priorityclasses.scheduling.k8s.io"); n == 0 {
			return errors.New("the deletion has not been asked for")
		}
		return nil
	})
	if err := run.Interrupt(); err != nil {
		t.Fatal(err)
	}
	// While it waits, or, a moment earlier, while the deletion is being answered.
	run.Wait().Error(t, "^PriorityClass/"+name+unfinished+`|^Destroying berth_priority_class "`+name+`" on cluster "shared" failed$`, "It was interrupted (after|before the cluster had answered)")
	same(t, "instances in the state", len(b.Instances()), 1)
	b.kubectl("patch", "priorityclass", name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	b.MustDestroy()
}
