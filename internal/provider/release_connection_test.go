package provider_test

import (
	"fmt"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// A cluster that is built in the same apply: the plan asks nobody and says what it put off, the apply looks before it
// writes, and a connection that becomes unknown again keeps the state (promises 1 and 2).
func TestReleaseOnUnknownCluster(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name, chart := unique("late"), paintChart(t, "1.0.0")
	b.Write("kubeconfig.yaml", b.proxy.AdminKubeconfig().Content())
	config := func(round int, body string) string {
		return providerWith(b.owner, `{ shared = { kubeconfig = terraform_data.cluster.output.kubeconfig } }`) +
			fmt.Sprintf("resource \"terraform_data\" \"cluster\" {\ninput = { kubeconfig = file(\"kubeconfig.yaml\"), round = %d }\n}\n", round) +
			releaseBlock("this", name, name, byFolder(chart), `cluster = "shared"`, body)
	}
	putOff := func() *tofutest.Result {
		t.Helper()
		plan := b.MustPlan()
		plan.Warning(t, `^The checks of berth_release "`+name+"/"+name+`" on cluster "shared" are put off to the apply$`, `the connection of cluster "shared" is not known yet, this plan could not look at the cluster`)
		return plan
	}

	b.Write("main.tf", config(1, ""))
	change := putOff().Change(t, rel)
	same(t, "planned", row(change.After["id"], change.AfterUnknown["objects"], change.AfterUnknown["revision"]), row("shared/"+name+"/"+name, true, true))
	same(t, "requests of the plan", len(b.proxy.Requests()), 0)
	b.Apply().Error(t, `^Namespace "`+name+`" of release `+name+"/"+name+" does not exist$", "Nothing was applied")
	same(t, "writes of a refused apply", b.proxy.Writes(), 0)
	b.Write("main.tf", config(1, "create_namespace = true"))
	b.MustApply()
	b.PlanIsEmpty().NoWarnings(t)

	before := b.Resource(rel)
	b.Write("main.tf", config(2, "create_namespace = true\nvalues = [\"color: red\"]"))
	change = putOff().Change(t, rel)
	if !change.Is("update") {
		t.Errorf("planned: %v", change.Actions)
	}
	same(t, "the state is kept", row(change.Before["revision"], change.Before["objects"]), row(before["revision"], before["objects"]))
	b.MustApply()
	same(t, "color", b.color(name, name), "red")
	b.PlanIsEmpty().NoWarnings(t)
	b.MustDestroy()
}

// Under on_unreachable = "warn" a release of a cluster that does not answer stays as the state has it, and nothing is planned
// for it; without it, and when something is to be written, that is an error (promise 11).
func TestReleaseOnUnreachableCluster(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name, chart := unique("reach"), paintChart(t, "1.0.0")
	config := func(color string) string {
		return releaseBlock("this", name, name, byFolder(chart), "create_namespace = true", fmt.Sprintf("values = [\"color: %s\"]", color))
	}
	failing := b.block
	b.use(config("red"))
	b.MustApply()
	state := b.Resource(rel)
	restore := b.proxy.Fail(nil, fleettest.BadGateway)
	b.Plan().Error(t, `^Cluster "shared": its API server does not answer \(502\)$`)
	b.Destroy().Error(t, `^Cluster "shared": its API server does not answer \(502\)$`)
	same(t, "instances in the state", len(b.Instances()), 1)

	b.block = providerBlock(b.owner, clusters{"shared": byPath(t, b.proxy.AdminKubeconfig())}, `on_unreachable = "warn"`)
	b.use(config("red"))
	b.PlanIsEmpty().Warning(t, `^berth_release "`+name+"/"+name+`" on cluster "shared" was not refreshed$`, `on_unreachable is "warn": the state is kept as it was`)
	b.use(config("blue"))
	apply := b.Apply()
	apply.Error(t, `^Cluster "shared": its API server does not answer \(502\)$`)
	apply.Warning(t, `^The checks of berth_release "`+name+"/"+name+`" on cluster "shared" were not run$`)
	same(t, "the state", b.Resource(rel), state)

	restore()
	b.block = failing
	b.use(config("blue"))
	b.MustApply()
	same(t, "color", row(b.color(name, name), b.Resource(rel)["revision"]), "blue 2")
	b.PlanIsEmpty().NoWarnings(t)
	b.MustDestroy()
}

// A cluster swapped under the same name is an error with both UIDs and the ways out, and neither cluster is written to; one
// that was rebuilt gets the release afresh (promise 4).
func TestReleaseOnSwappedCluster(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	second := otherCluster(t).Proxy(t, fleettest.ProxyOptions{})
	name, chart := unique("swapped"), paintChart(t, "1.0.0")
	// On a cluster without controllers no namespace goes, so the release does not make one.
	b.kubectl("create", "namespace", name)
	otherCluster(t).Kubectl(t, "create", "namespace", name)
	home, away := byPath(t, b.proxy.AdminKubeconfig()), byPath(t, second.AdminKubeconfig())
	use := func(entry string) {
		t.Helper()
		b.Write("main.tf", providerBlock(b.owner, clusters{"eu": entry})+releaseBlock("this", name, name, byFolder(chart)))
	}
	use(home)
	b.MustApply()
	b.proxy.Reset()
	use(away)
	texts := []string{"with UID " + b.cluster.UID(), "with UID " + otherCluster(t).UID(), "Nothing was applied", `set clusters\["eu"\]\.uid`}
	b.Plan().Error(t, `^Cluster "eu" is another cluster now$`, texts...)
	b.Apply("-refresh=false").Error(t, `^Cluster "eu" is another cluster now$`, texts...)
	b.Destroy("-refresh=false").Error(t, `^Cluster "eu" is another cluster now$`, texts...)
	same(t, "instances and writes", row(len(b.Instances()), b.proxy.Writes(), second.Writes()), row(1, 0, 0))

	use(away + "\nuid = \"" + otherCluster(t).UID() + `"`)
	plan := b.MustPlan()
	plan.Warning(t, `^berth_release "`+name+"/"+name+`" on cluster "eu" leaves the state$`, "pinned to the cluster with UID "+b.cluster.UID())
	if change := plan.Change(t, rel); !change.Is("create") {
		t.Errorf("a rebuilt cluster: %v", change.Actions)
	}
	b.MustApply()
	b.PlanIsEmpty().NoWarnings(t)
	same(t, "cluster_uid and color", row(b.Resource(rel)["cluster_uid"], b.color(name, name)), row(otherCluster(t).UID(), "white"))
	b.MustDestroy()
}
