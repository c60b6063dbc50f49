package provider_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// A key that was renamed is found again by the cluster's UID, and the state follows it in place; two keys of one
// cluster are one place (promise 4).
func TestKeyRenamed(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	entry := byPath(t, b.proxy.AdminKubeconfig())
	name := unique("renamed")
	use := func(entries clusters, key string) {
		t.Helper()
		b.Write("main.tf", providerBlock(b.owner, entries)+class("this", name, fmt.Sprintf("cluster = %q", key)))
	}
	use(clusters{"eu": entry}, "eu")
	b.MustApply()
	before := b.mustClass(name)
	b.proxy.Reset()

	use(clusters{"eu-1": entry}, "eu-1")
	for _, change := range b.MustPlan().Changes {
		if !change.Is("update") {
			t.Errorf("a renamed key: %v", change.Actions)
		}
	}
	b.MustApply()
	state := b.Resource(this)
	same(t, "cluster, id and uid", row(state["cluster"], state["id"], state["uid"]), row("eu-1", "eu/"+name, before.UID))
	b.PlanIsEmpty()

	use(clusters{"eu-1": entry, "eu-2": entry}, "eu-2")
	plan := b.MustPlan()
	if change := plan.Change(t, this); !change.Is("update") || len(change.AfterUnknown) > 0 {
		t.Errorf("another key of the same cluster:\n%s", plan.Describe())
	}
	b.MustApply()
	same(t, "cluster", b.Resource(this)["cluster"], "eu-2")
	b.PlanIsEmpty()
	same(t, "writes", b.proxy.Writes(), 0)
	same(t, "the class", b.mustClass(name).ResourceVersion, before.ResourceVersion)
	b.MustDestroy()
}

// A key that is gone is an error that says to keep it; nothing leaves the state until the cluster was asked.
func TestKeyRemoved(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	home, away := byPath(t, b.proxy.AdminKubeconfig()), byPath(t, otherCluster(t).AdminKubeconfig())
	name := unique("removed")
	b.Write("main.tf", providerBlock(b.owner, clusters{"eu": home, "us": away})+class("this", name, `cluster = "eu"`))
	b.MustApply()

	b.Write("main.tf", providerBlock(b.owner, clusters{"us": away}))
	b.Apply().Error(t, `^Cluster "eu" is no longer in the provider configuration$`,
		`The state has a resource on cluster "eu" \(UID `+b.cluster.UID()+`\)`, `no other entry leads to a cluster with that UID\. The keys are: "us"\.`,
		"Keep the entry until the cluster's resources are destroyed, then take it out")
	same(t, "instances in the state", len(b.Instances()), 1)
	b.mustClass(name)

	b.Write("main.tf", providerBlock(b.owner, clusters{"eu": home, "us": away}))
	b.MustApply()
	if b.class(name) != nil {
		t.Error("the class is still there")
	}
	b.Write("main.tf", providerBlock(b.owner, clusters{"us": away}))
	b.PlanIsEmpty()
}

// An entry that leads to another cluster under the same name is an error with both UIDs and the ways out; setting
// `uid` says that the cluster was rebuilt (promise 4).
func TestClusterSwapped(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		b := newBench(t, tofutest.Options{Runner: runner})
		second := otherCluster(t)
		name := unique("swapped")
		resource := class("this", name, `cluster = "eu"`)
		use := func(entry string) {
			t.Helper()
			b.Write("main.tf", providerBlock(b.owner, clusters{"eu": entry})+resource)
		}
		home, away := byPath(t, b.proxy.AdminKubeconfig()), byPath(t, second.AdminKubeconfig())
		use(home)
		b.MustApply()

		use(away)
		texts := []string{
			"^refusing: the resource was applied to the cluster with UID " + b.cluster.UID() + `, but clusters\["eu"\] now leads to the one with UID ` + second.UID(),
			"Nothing was applied", "Point the entry back at the first cluster", `set clusters\["eu"\]\.uid = "` + second.UID() + `"`,
			"leaves the state and is created afresh",
		}
		b.Plan().Error(t, `^Cluster "eu" is another cluster now$`, texts...)
		b.Apply("-refresh=false").Error(t, `^Cluster "eu" is another cluster now$`, texts...)
		b.Destroy("-refresh=false").Error(t, `^Cluster "eu" is another cluster now$`, texts...)
		same(t, "instances in the state", len(b.Instances()), 1)
		if readPriorityClass(t, second, name) != nil {
			t.Error("the class was created on the wrong cluster")
		}

		use(home + "\nuid = \"" + second.UID() + `"`)
		b.Plan().Error(t, "^Cluster \"eu\" is not the cluster that `uid` names$", "says kube-system has UID "+second.UID(), "has "+b.cluster.UID(), "Nothing was read or applied")

		use(away + "\nuid = \"" + second.UID() + `"`)
		plan := b.MustPlan()
		plan.Warning(t, `^berth_priority_class "`+name+`" on cluster "eu" leaves the state$`, "pinned to the cluster with UID "+b.cluster.UID(), "rebuilt as "+second.UID())
		if change := plan.Change(t, this); !change.Is("create") {
			t.Errorf("a rebuilt cluster: %v", change.Actions)
		}
		b.MustApply()
		same(t, "marks on the new cluster", marksOf(readPriorityClass(t, second, name)), ownedBy(b.owner, name, true))
		same(t, "cluster_uid", b.Resource(this)["cluster_uid"], second.UID())
		b.PlanIsEmpty()
		b.MustDestroy()
		b.kubectl("delete", "priorityclass", name)
	})
}

// `cluster` that names another cluster replaces: created there, destroyed here.
func TestClusterChanged(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	second := otherCluster(t)
	entries := clusters{"eu": byPath(t, b.proxy.AdminKubeconfig()), "us": byPath(t, second.AdminKubeconfig())}
	name := unique("moving")
	use := func(key string) {
		t.Helper()
		b.Write("main.tf", providerBlock(b.owner, entries)+class("this", name, fmt.Sprintf("cluster = %q", key)))
	}
	use("eu")
	b.MustApply()
	use("us")
	change := b.MustPlan().Change(t, this)
	if !change.Is("delete", "create") {
		t.Fatalf("another cluster: %v", change.Actions)
	}
	same(t, "replaced because of", change.ReplacePaths, []string{"cluster"})
	same(t, "id and cluster_uid", row(change.After["id"], change.After["cluster_uid"]), row("us/"+name, second.UID()))
	b.MustApply()
	if b.class(name) != nil {
		t.Error("the class is still on the first cluster")
	}
	same(t, "marks on the second cluster", marksOf(readPriorityClass(t, second, name)), ownedBy(b.owner, name, true))
	b.PlanIsEmpty()
	b.MustDestroy()
}

// A cluster that cannot be reached is an error, or, where the configuration says so, a warning that keeps the state;
// either way it spoils only its own resources (promise 11).
func TestUnreachable(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		b := newBench(t, tofutest.Options{Runner: runner})
		dead := otherCluster(t).Proxy(t, fleettest.ProxyOptions{})
		entries := clusters{"shared": byPath(t, b.proxy.AdminKubeconfig()), "dead": byPath(t, dead.AdminKubeconfig())}
		name := unique("reach")
		use := func(description string, more ...string) {
			t.Helper()
			b.Write("main.tf", providerBlock(b.owner, entries, more...)+
				class("here", name+"-here", `cluster = "shared"`, description)+class("there", name+"-there", `cluster = "dead"`, description))
		}
		use("")
		b.MustApply()

		restore := dead.Fail(nil, fleettest.BadGateway)
		use(`description = "new"`)
		b.Plan().Error(t, `^Cluster "dead": its API server does not answer \(502\)$`, "cannot reach it. Check that the control plane is up, and apply again")
		b.MustApply("-target=berth_priority_class.here")
		same(t, "the reachable cluster's class", b.mustClass(name+"-here").Description, "new")

		use("", `on_unreachable = "warn"`)
		plan := b.MustPlan()
		plan.Warning(t, `^berth_priority_class "`+name+`-there" on cluster "dead" was not refreshed$`, `on_unreachable is "warn": the state is kept as it was`, `does not answer \(502\)`)
		if change := plan.Change(t, "berth_priority_class.here"); !change.Is("update") {
			t.Errorf("here: %v", change.Actions)
		}
		same(t, "changes", len(plan.Changes), 1)
		b.MustApply()
		same(t, "the reachable cluster's class", b.mustClass(name+"-here").Description, "")
		same(t, "instances in the state", len(b.Instances()), 2)

		// A write is never only warned of, and what it was for stays in the state.
		use(`description = "newer"`, `on_unreachable = "warn"`)
		apply := b.Apply()
		apply.Error(t, `^Cluster "dead": its API server does not answer \(502\)$`)
		apply.Warning(t, `^The checks of berth_priority_class "`+name+`-there" on cluster "dead" were not run$`, "They run at the apply")
		same(t, "the reachable cluster's class", b.mustClass(name+"-here").Description, "newer")

		restore()
		b.MustApply()
		same(t, "the other cluster's class", readPriorityClass(t, otherCluster(t), name+"-there").Description, "newer")
		b.PlanIsEmpty().NoWarnings(t)

		// Refused, cut and silent are unreachable, too.
		dead.Close()
		b.MustPlan().Warning(t, "was not refreshed", "Nothing listens at ")
		dead = otherCluster(t).Proxy(t, fleettest.ProxyOptions{})
		entries["dead"] = byPath(t, dead.AdminKubeconfig())
		use(`description = "newer"`, `on_unreachable = "warn"`)
		dead.Fail(nil, fleettest.Cut)
		b.MustPlan().Warning(t, "was not refreshed", "was closed before it answered")
		b.Write("main.tf", providerBlock(b.owner, clusters{"shared": entries["shared"], "dead": byPath(t, otherCluster(t).AdminKubeconfig())}))
		b.MustApply()
	})
}

// An API server that stops answering in the middle of an apply is an error that says what happened; the next apply
// goes on, whether the write was done or not (X11, promises 5 and 8).
func TestSilenceInTheMiddle(t *testing.T) {
	t.Parallel()
	for _, forwarded := range []bool{false, true} {
		t.Run(fmt.Sprintf("forwarded=%v", forwarded), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tofutest.Options{})
			name := unique("silent")
			b.use(class("this", name, `timeouts = { create = "3s", update = "3s", delete = "3s" }`))
			silence := fleettest.Silence
			silence.AfterForwarding = forwarded
			silent := func(verb string) func() {
				return b.proxy.Fail(func(r fleettest.Request) bool { return r.Verb == verb && r.IsWrite() }, silence)
			}
			restore := silent("create")
			b.Apply().Error(t, `^Cluster "shared": its API server does not answer in time$`, `^No answer came from https://127\.0\.0\.1:\d+ in time .*Check that the control plane is up`)
			restore()
			b.NoTaint()
			same(t, "the class is there", b.class(name) != nil, forwarded)
			b.MustApply()
			b.PlanIsEmpty()

			b.use(class("this", name, `description = "new"`, `timeouts = { create = "3s", update = "3s", delete = "3s" }`))
			restore = silent("patch")
			b.Apply().Error(t, `^Cluster "shared": its API server does not answer in time$`, `^No answer came from https://127\.0\.0\.1:\d+ in time .*Check that the control plane is up`)
			restore()
			b.NoTaint()
			b.MustApply()
			same(t, "description", b.mustClass(name).Description, "new")
			b.PlanIsEmpty()

			restore = silent("delete")
			b.Destroy().Error(t, `^Cluster "shared": its API server does not answer in time$`, `^No answer came from https://127\.0\.0\.1:\d+ in time .*Check that the control plane is up`)
			restore()
			same(t, "instances in the state", len(b.Instances()), 1)
			b.MustDestroy()
		})
	}
}

// An apply that is interrupted while the cluster is silent says so, keeps no half of a resource, and is gone on from
// (promise 5).
func TestInterruptedWrite(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("interrupted")
	b.use(class("this", name))
	silence := fleettest.Silence
	silence.AfterForwarding = true
	restore := b.proxy.Fail(func(r fleettest.Request) bool { return r.Verb == "create" && r.Resource == "priorityclasses" }, silence)
	run := b.ApplyAsync()
	fleettest.Eventually(t, func(context.Context) error {
		if b.class(name) == nil {
			return errors.New("the class has not been created")
		}
		return nil
	})
	if err := run.Interrupt(); err != nil {
		t.Fatal(err)
	}
	run.Wait().Error(t, `^Creating berth_priority_class "`+name+`" on cluster "shared" failed$`,
		`^It was interrupted before the cluster had answered \(.*\)\. What was asked for last may or may not have been done; the next apply looks, and goes on from there\.$`)
	restore()
	same(t, "instances in the state", len(b.Instances()), 0)
	b.MustPlan().Warning(t, "^PriorityClass/"+name+" exists and carries this configuration's mark$", "an earlier apply was interrupted")
	b.MustApply()
	b.PlanIsEmpty()
	b.MustDestroy()
}
