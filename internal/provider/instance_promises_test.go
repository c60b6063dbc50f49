package provider_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// Where each promise of the design is shown for instances:
//
//  1. look before you touch: instance_refusals_test.go, TestInstanceOrder
//  2. unknown is not missing: TestInstanceUnknown
//  3. never touch what is not ours: TestInstanceAdoption, TestInstanceDestroy, TestInstanceNamespaceDeletedByHand, TestInstanceShared
//  4. right cluster: TestInstanceOnAnotherCluster
//  5. the cluster is the journal: instance_crash_test.go
//  6. drift, field by field: TestInstanceRhythm
//  7. secrets: TestInstanceKeepsSecretsOut
//  8. waits explain themselves: TestInstanceRolloutFails
//  9. import ends in an empty plan: TestInstanceRhythm, TestInstanceMinimal
// 10. destroy is ordered and honest: TestInstanceDestroy, TestInstanceShared
// 11. one provider, any number of clusters: TestInstanceOnAnotherCluster
// 12. cost follows kinds: TestCostOfTwentyInstances

// A connection or an argument that is not known at plan puts the checks off to the apply, which makes them before it
// writes; the plan says so (X2, promise 2).
func TestInstanceUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	classes, name, taken := b.ownClasses(), unique("unknown"), namespace(t, b.cluster, nil)
	b.Write("kubeconfig.yaml", b.proxy.AdminKubeconfig().Content())
	b.Write("built.tf", `resource "terraform_data" "cluster" { input = file("kubeconfig.yaml") }`)
	known := b.block
	b.block = providerWith(b.owner, `{ shared = { kubeconfig = terraform_data.cluster.output } }`)
	b.use(instance("this", name, classes), instance("taken", taken, classes))
	plan := b.MustPlan()
	plan.Warning(t, `^The checks of berth_instance "`+name+`" on cluster "shared" are put off to the apply$`, `the connection of cluster "shared" is not known yet`)
	same(t, "requests of the plan", len(b.proxy.Requests()), 0)
	b.Apply().Error(t, "^Namespace/"+taken+" exists already and is not berth's$", "Nothing was applied")
	b.use(instance("this", name, classes))
	b.MustApply()
	same(t, "namespace", b.Resource(thisInstance)["namespace"], name)
	b.PlanIsEmpty()
	b.use()
	b.MustApply()

	// Arguments: what is known is checked at plan, the rest at the apply.
	b.Remove("built.tf")
	b.block = known
	prefix := func(value string) string {
		return fmt.Sprintf("resource \"terraform_data\" \"late\" { input = %q }\n", value)
	}
	unknown := []string{`registry = terraform_data.late.output`, `sandbox_images = { default = "sandbox:1" }`, classes}
	b.use(prefix("registry.example.com/team"), instance("this", name, unknown...), instance("taken", taken, unknown...))
	plan = b.Plan()
	plan.Error(t, "^Namespace/"+taken+" exists already and is not berth's$", "Nothing was applied")
	plan.Warning(t, `^Checks of instance "`+name+`" on cluster "shared" are put off to the apply$`, `^Some of its arguments are not known yet\. Permissions, nodes, platforms, sizes, priorities, Secrets and quota were not checked; the apply checks them before it writes anything\.$`)
	b.use(prefix("registry.example.com/team"), instance("this", name, unknown...))
	b.MustApply()
	same(t, "image_refs", b.Resource(thisInstance)["image_refs"], map[string]any{"default": "registry.example.com/team/sandbox:1"})
	b.PlanIsEmpty()
	// In an update too, and a check that fails then has written nothing.
	b.use(prefix("other.example.com/team"), instance("this", name, append(unknown, "env_from = [terraform_data.late.output == \"\" ? \"a\" : \"missing\"]")...))
	b.MustPlan()
	b.proxy.Reset()
	b.Apply().Error(t, "^secrets/"+name+`/missing on cluster "shared"$`, "Nothing was applied")
	b.unwritten()
	b.use(prefix("other.example.com/team"), instance("this", name, unknown...))
	b.MustApply()
	same(t, "image_refs", b.Resource(thisInstance)["image_refs"], map[string]any{"default": "other.example.com/team/sandbox:1"})
	b.PlanIsEmpty()
	// An unknown name: its namespace is known when the name is.
	late := unique("late")
	b.use(prefix(late), instance("this", name, classes), strings.Replace(instance("late", "NAME", classes), `"NAME"`, "terraform_data.late.output", 1))
	b.MustApply()
	same(t, "namespace and id", row(b.Resource("berth_instance.late")["namespace"], b.Resource("berth_instance.late")["id"]), late+" shared/"+late)
	b.PlanIsEmpty()
	b.MustDestroy()
	same(t, "what is left", b.ours(name, late), []string{})
}

// A resource knows its cluster: another one under the same key is an error, the same one under another key is nothing,
// and a key that leads elsewhere replaces (J1, J68, X1, promises 4 and 11).
func TestInstanceOnAnotherCluster(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("moved")
	body := []string{`platforms = ["linux/amd64"]`, `cluster = "one"`}
	entries := func(one, two *fleettest.Cluster) string {
		return providerBlock(b.owner, clusters{"one": byPath(t, one.AdminKubeconfig()), "two": byPath(t, two.AdminKubeconfig())})
	}
	b.block = entries(b.cluster, otherCluster(t))
	b.use(instance("this", name, body...))
	b.MustApply()
	same(t, "pinned", row(b.Resource(thisInstance)["cluster_uid"], b.Resource(thisInstance)["context"], b.Resource(thisInstance)["server"]), row(b.cluster.UID(), "shared", b.cluster.Server()))

	b.block = entries(otherCluster(t), b.cluster)
	b.use(instance("this", name, body...))
	b.Plan().Error(t, `^Cluster "one" is another cluster now$`, b.cluster.UID(), otherCluster(t).UID(), "Nothing was applied")
	b.use(instance("this", name, `platforms = ["linux/amd64"]`, `cluster = "two"`))
	if change := b.MustPlan("-refresh=false").Change(t, thisInstance); !change.Is("update") {
		t.Errorf("the same cluster under another key: %v", change.Actions)
	}
	b.MustApply("-refresh=false")
	b.PlanIsEmpty()

	b.block = entries(b.cluster, otherCluster(t))
	b.use(instance("this", name, body...))
	b.MustApply("-refresh=false")
	b.use(instance("this", name, `platforms = ["linux/amd64"]`, `cluster = "two"`))
	change := b.MustPlan().Change(t, thisInstance)
	if !change.Is("delete", "create") {
		t.Errorf("a key that leads to another cluster: %v", change.Actions)
	}
	same(t, "id", change.After["id"], "two/"+name)
	b.MustApply()
	same(t, "on the first", b.ours(name), []string{})
	moved, err := otherCluster(t).Client().CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "on the second", marksOf(moved), ownedInstance(b.owner, name))
	b.PlanIsEmpty()
	// Nothing deletes a namespace on a cluster without controllers: it is let go instead.
	b.use(instance("this", name, `platforms = ["linux/amd64"]`, `cluster = "two"`, `deletion_policy = "retain"`))
	b.MustApply()
	b.MustDestroy()
}

// A lost state is found again by the marks, and a configuration that changed its owner takes its marks along, on what
// instances share too (X5, X7, X11, promises 3 and 5).
func TestInstanceOwner(t *testing.T) {
	t.Parallel()
	c := fleettest.NewCluster(t, fleettest.ClusterSpec{Name: "owned", ControlPlaneOnly: true, Controllers: true, Nodes: []fleettest.NodeSpec{{Name: "amd"}}})
	b := newBenchOn(t, c, "before", tofutest.Options{})
	b.use(instance("this", "app"))
	b.MustApply()
	uid := b.mustNamespace("app").UID
	b.Remove("terraform.tfstate")
	b.MustPlan().Warning(t, "^Namespace/app exists and carries this configuration's mark$", "It is on owned but not in the state at this address\\. If an earlier apply was interrupted, the apply goes on from it\\.")
	b.MustApply()
	b.PlanIsEmpty().NoWarnings(t)

	renamed := b.beside("after", tofutest.Options{})
	renamed.Write("terraform.tfstate", string(b.StatePull()))
	renamed.use(instance("this", "app"))
	if change := renamed.MustPlan().Change(t, thisInstance); !change.Is("update") {
		t.Errorf("a new owner: %v", change.Actions)
	}
	renamed.MustApply()
	same(t, "marked anew", row(b.mustNamespace("app").UID, marksOf(b.mustNamespace("app"))), row(uid, ownedInstance("after", "app")))
	for _, name := range []string{controlClass, sandboxClass} {
		labels := b.mustClass(name).Labels
		same(t, "users of "+name, row(labels[userLabel("before", "app")], labels[userLabel("after", "app")]), row("", "app"))
	}
	renamed.PlanIsEmpty()
	renamed.MustDestroy().NoWarnings(t)
	same(t, "what carries a mark", everything(t, c, anyMark), []string{})
}

// What is in the Secrets that an instance names is in no state, no plan, no message and no log; their names are all
// that is recorded (J54, X9, promise 7).
func TestInstanceKeepsSecretsOut(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "provider.log")
	b := newBench(t, tofutest.Options{Env: map[string]string{"TF_LOG_PROVIDER": "TRACE", "TF_LOG_PATH": log}})
	name := namespace(t, b.cluster, nil)
	const canary = "canary-in-a-secret"
	secret(t, b.cluster, name, "api", "token", canary)
	config := func(more string) string {
		return instance("this", name, b.ownClasses(), "adopt = true", `required_secrets = [{ name = "api", keys = ["token"] }]`, more)
	}
	var searched strings.Builder
	b.use(config(`env = { A = { secret = "api", key = "other" } }`))
	failed := b.Plan()
	failed.Error(t, "^secrets/"+name+`/api on cluster "shared"$`, `names key "other" of Secret "api"`)
	searched.WriteString(failed.Log)
	b.use(config(`env = { A = { secret = "api", key = "token" } }`))
	searched.WriteString(b.MustPlan().Log)
	searched.Write(b.Command("show", "-json", "tofutest.plan").Raw)
	searched.WriteString(b.MustApply().Log)
	searched.Write(b.StatePull())
	same(t, "the setting", b.settings(name)["env.json"], `{"A":{"secret":"api","key":"token"}}`)
	searched.WriteString(b.Destroy().Log)
	content, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	searched.Write(content)
	if !strings.Contains(searched.String(), "request to the API server") {
		t.Error("the provider logged no request at TRACE, so there was nothing to search")
	}
	if at := strings.Index(searched.String(), canary); at >= 0 {
		t.Errorf("the Secret's value was shown: …%s…", searched.String()[max(0, at-300):at+len(canary)])
	}
	same(t, "the Secret", b.cluster.Kubectl(t, "-n", name, "get", "secret", "api", "-o", "name"), "secret/api\n")
	same(t, "the namespace", b.mustNamespace(name).Status.Phase, corev1.NamespaceActive)
}
