package provider_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// An old cluster is refused before anything else is looked at, whatever its vendor's suffix, and the refusal says that
// nothing was applied (J6, J7, X3). The floor is an argument.
func TestInstanceVersionFloor(t *testing.T) {
	t.Parallel()
	c := fleettest.NewCluster(t, fleettest.ClusterSpec{Name: "old", ControlPlaneOnly: true, Version: "v1.34.2-gke.100", FeatureGates: map[string]bool{"ImageVolume": true}, Nodes: []fleettest.NodeSpec{{Name: "amd"}}})
	b := newBenchOn(t, c, "team", tofutest.Options{})
	b.use(instance("this", "app"))
	refusal := []string{
		`^kubernetes_version on cluster "shared"$`,
		`^refusing: old runs Kubernetes v1\.34\.2-gke\.100; berth needs Kubernetes 1\.35 or newer \(every sandbox mounts its runtime as an image volume\)\. Nothing was applied\. Upgrade the cluster`,
	}
	b.Plan().Error(t, refusal[0], refusal[1])
	b.Apply().Error(t, refusal[0], refusal[1])
	b.unwritten()
	b.use(instance("this", "app", `kubernetes_floor = ">= 1.30, < 1.34"`))
	b.Plan().Error(t, refusal[0], `^refusing: old runs Kubernetes v1\.34\.2-gke\.100; this configuration needs Kubernetes >= 1\.30, ?< 1\.34\. Nothing was applied\.`)

	b.use(instance("this", "app", `kubernetes_floor = "1.34"`))
	b.MustApply()
	same(t, "kubernetes_version", b.Resource(thisInstance)["kubernetes_version"], "v1.34.2-gke.100")
	b.PlanIsEmpty()
}

// An API server that drops pod-level resources is refused, asked by a dry run, so that nothing is written (J8, Y4).
func TestInstancePodLevelResources(t *testing.T) {
	t.Parallel()
	c := fleettest.NewCluster(t, fleettest.ClusterSpec{
		Name: "gateless", ControlPlaneOnly: true, EmulatedVersion: "1.35", FeatureGates: map[string]bool{"PodLevelResources": false},
		Nodes: []fleettest.NodeSpec{{Name: "amd"}},
	})
	b := newBenchOn(t, c, "team", tofutest.Options{})
	b.use(instance("this", "app"))
	summary, detail := `^features/PodLevelResources on cluster "shared"$`,
		`^refusing: gateless \(Kubernetes v1\.3.*\) drops pod-level resources — the PodLevelResources feature gate is off, and the size of a sandbox, which is one limit for its whole pod, cannot hold\. Nothing was applied\. Enable the gate PodLevelResources on the API server and the kubelets\.`
	b.Plan().Error(t, summary, detail)
	b.Apply().Error(t, summary, detail)
	b.unwritten()
	same(t, "namespaces", b.namespace("app"), (*corev1.Namespace)(nil))
	if n := b.proxy.CountIf(func(r fleettest.Request) bool { return r.Resource == "pods" && r.DryRun }); n == 0 {
		t.Error("no dry run was asked for")
	}
}

// A namespace of another instance is refused, in the same configuration and in another one, also with adopt (J48).
func TestInstanceNamespaceOfAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	classes, first, second := b.ownClasses(), unique("first"), unique("second")
	b.use(instance("this", first, classes))
	b.MustApply()
	summary, detail := `^Namespace "`+first+`" belongs to another instance$`,
		`^refusing: namespace "`+first+`" on shared belongs to another instance \("`+first+`"\)\. Choose another .namespace., or another .cluster.\. Nothing was applied\.$`
	b.use(instance("this", first, classes), instance("second", second, classes, `namespace = "`+first+`"`, "adopt = true"))
	if refusal := b.Plan().Error(t, summary, detail); refusal.Address != "berth_instance.second" {
		t.Errorf("the refusal is about %q", refusal.Address)
	}
	stranger := b.beside(unique("team"), tofutest.Options{})
	stranger.use(instance("this", second, classes, `namespace = "`+first+`"`, "adopt = true"))
	// Of another configuration the owner is named too.
	stranger.Plan().Error(t, summary, `^refusing: namespace "`+first+`" on shared belongs to another instance \("`+first+`", owner "`+b.owner+`"\)\. Choose another .namespace.`, `Nothing was applied\.$`)
	stranger.unwritten()
	// The same name in another configuration is another owner's.
	stranger.use(instance("this", first, classes, "adopt = true"))
	stranger.Plan().Error(t, "^Namespace/"+first+" belongs to another owner$", `is marked as instance\.`+first+` of the configuration with owner "`+b.owner+`"\..*Nothing was applied\.$`)

	// Somebody gives the namespace to another instance by hand: an error, and nothing is overwritten.
	b.use(instance("this", first, classes))
	b.kubectl("label", "--overwrite", "namespace", first, "berth.dev/instance="+second)
	b.proxy.Reset()
	b.Plan().Error(t, summary, `belongs to another instance \("`+second+`"\)`)
	b.Apply().Error(t, summary, `belongs to another instance \("`+second+`"\)`)
	b.unwritten()
	same(t, "the label", b.mustNamespace(first).Labels["berth.dev/instance"], second)
	b.kubectl("label", "--overwrite", "namespace", first, "berth.dev/instance="+first)
	b.PlanIsEmpty()
	b.MustDestroy()
}

// A namespace that exists is somebody's: refused, or adopted when that is asked for; then it keeps its UID and its own
// labels, and outlives the instance (J46, J47, X6).
func TestInstanceAdoption(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	classes := b.ownClasses()
	name := namespace(t, b.cluster, func(one *corev1.Namespace) { one.Labels = map[string]string{"team": "a"} })
	b.kubectl("-n", name, "create", "configmap", "theirs", "--from-literal=a=b")
	theirs := b.mustNamespace(name)

	b.use(instance("this", name, classes))
	b.Plan().Error(t, "^Namespace/"+name+" exists already and is not berth's$",
		"^refusing: Namespace/"+name+` exists on shared and berth did not create it\. Set adopt = true to take it over as it is, or choose another name\. Nothing was applied\.$`)
	b.unwritten()
	b.use(instance("this", name, classes, "adopt = true"))
	b.MustPlan().Warning(t, `^Namespace "`+name+`" exists and will be adopted$`,
		`^It is on shared and keeps its UID\. What will change: metadata\.labels\.\[berth\.dev/instance\]: \(none\) → `+name+`\. Destroying the instance leaves it there\.$`)
	b.MustApply()
	adopted := b.mustNamespace(name)
	same(t, "adopted", row(adopted.UID, adopted.Labels["team"], adopted.Labels["berth.dev/instance"], marksOf(adopted), b.Resource(thisInstance)["created_namespace"]),
		row(theirs.UID, "a", name, "managed-by=berth owner="+b.owner+"/instance."+name+" created=", false))
	b.PlanIsEmpty()
	b.MustDestroy().Warning(t, `^Something of instance "`+name+`" stays on cluster "shared"$`, "Namespace/"+name+": it was adopted, not created")
	left := b.mustNamespace(name)
	same(t, "what stays", row(left.UID, left.Labels, left.Annotations), row(theirs.UID, theirs.Labels, theirs.Annotations))
	same(t, "our marks", b.ours(name), []string{})
	b.kubectl("-n", name, "get", "configmap", "theirs")

	// What another tool keeps in place is refused even so, by the tool's name (promise 3).
	kept := namespace(t, b.cluster, func(one *corev1.Namespace) {
		one.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "guestbook:/Namespace:/x"}
	})
	b.use(instance("this", kept, classes, "adopt = true"))
	b.Plan().Error(t, "^Namespace/"+kept+" is kept in place by argocd/guestbook$", `name it in adopt_from = \["argocd/guestbook"\]\. Nothing was applied\.$`)
	// A foreign object by one of our names inside an adopted namespace is adopted with it, and never without.
	settled := namespace(t, b.cluster, nil)
	b.kubectl("-n", settled, "create", "configmap", settings, "--from-literal=name=theirs")
	b.use(instance("this", settled, classes, "adopt = true"))
	b.MustApply()
	same(t, "the settings", b.settings(settled)["name"], settled)
	b.MustDestroy()
	same(t, "the settings are left", row(b.settings(settled)["name"], b.ours(settled)), row(settled, []string{}))
}

// Nothing can be created in a namespace that is being deleted.
func TestInstanceNamespaceTerminating(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := namespace(t, b.cluster, nil)
	core := b.cluster.Client().CoreV1()
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/hold"}}}
	if _, err := core.ConfigMaps(name).Create(t.Context(), held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := core.ConfigMaps(name).Patch(context.Background(), "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	})
	b.kubectl("delete", "namespace", name, "--wait=false")
	b.use(instance("this", name, b.ownClasses(), "adopt = true"))
	b.Plan().Error(t, `^Namespace "`+name+`" is being deleted$`,
		`^refusing: namespace "`+name+`" on shared is being deleted, and nothing can be created in it\. Wait until it is gone, or choose another namespace\. Nothing was applied\.$`)
	b.unwritten()
}

// Images need a registry wherever nodes cannot be loaded with them, and with several platforms even there; without
// images none is needed (J15, J16, J23, J63).
func TestInstanceRegistryNeeded(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	classes, name := b.ownClasses(), unique("images")
	images := `sandbox_images = { default = "sandbox:1" }`
	b.use(instance("this", name, classes, images))
	b.Plan().Error(t, `^Instance "`+name+`" needs a registry$`,
		`^refusing: context shared is not a kind cluster and no .registry. is configured, but the instance has sandbox images\. Set .registry. to the prefix .*Nothing was applied\.$`)

	kind := b.proxy.AdminKubeconfig()
	kind.Name = "kind-dev"
	b.block = providerBlock(b.owner, clusters{"shared": byPath(t, kind)})
	b.use(instance("this", name, classes, images))
	b.Plan().Error(t, `^Instance "`+name+`" needs a registry$`, `^refusing: .*linux/amd64.*linux/arm64.*Nothing was applied\.$`)
	b.use(instance("this", name, classes, images, `platforms = ["linux/amd64"]`))
	b.MustPlan()
	// A registry wins on kind too: references are below it.
	b.use(instance("this", name, classes, images, `registry = "registry.example.com:5000/team"`))
	same(t, "image_refs", b.MustPlan().Change(t, thisInstance).After["image_refs"], map[string]any{"default": "registry.example.com:5000/team/sandbox:1"})
	b.use(instance("this", name, classes))
	b.MustPlan()
	b.unwritten()
}

// A class that is named has to exist, or be created by the same run, and sandboxes must not preempt (J37, J39, J72).
func TestInstancePriorityClasses(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name, missing := unique("classes"), unique("missing")
	b.use(instance("this", name, `priority_classes = { control = "`+missing+`", sandbox = "`+missing+`-low" }`))
	plan := b.Plan()
	plan.Error(t, `^priority_classes/`+missing+` on cluster "shared"$`,
		`^refusing: priority_classes\.control names PriorityClass "`+missing+`", which shared does not have: Kubernetes creates no pod that names a class that the cluster does not have\. Nothing was applied\. Create it first, name it by reference`)
	plan.Error(t, `^priority_classes/`+missing+`-low on cluster "shared"$`, `^refusing: priority_classes\.sandbox names PriorityClass "`+missing+`-low"`)

	preempting := b.foreign(unique("preempting"), 500, nil)
	b.use(instance("this", name, `priority_classes = { sandbox = "`+preempting.Name+`" }`))
	preempts := `^refusing: PriorityClass "` + preempting.Name + `" on shared has preemptionPolicy PreemptLowerPriority, so a sandbox that waits for a node would evict other pods\. Name a class with preemptionPolicy Never.*Nothing was applied\.$`
	b.Plan().Error(t, `^PriorityClass "`+preempting.Name+`" preempts other pods$`, preempts)
	b.unwritten()

	// Planned in the same run it passes, and is looked at again before the instance is written.
	both := func(policy string) []string {
		return []string{class("low", missing, `preemption_policy = "`+policy+`"`), instance("this", name, `priority_classes = { sandbox = berth_priority_class.low.name, control = berth_priority_class.low.name }`)}
	}
	b.use(both("PreemptLowerPriority")...)
	b.MustPlan()
	b.Apply().Error(t, `^PriorityClass "`+missing+`" preempts other pods$`, "Nothing was applied")
	same(t, "the namespace", b.namespace(name), (*corev1.Namespace)(nil))
	b.use(both("Never")...)
	b.MustApply()
	same(t, "effective_priority_classes", b.Resource(thisInstance)["effective_priority_classes"], map[string]any{
		"control": map[string]any{"name": missing, "managed": false}, "sandbox": map[string]any{"name": missing, "managed": false},
	})
	b.PlanIsEmpty()
	// It is gone by hand: the conditions tell, and nothing is refused that repairs.
	b.MustDestroy()

	// A default class whose name somebody has taken is refused, on a cluster where nobody uses it.
	alone := newBenchOn(t, otherCluster(t), b.owner, tofutest.Options{})
	alone.foreign(sandboxClass, 5, func(one *schedulingv1.PriorityClass) {})
	alone.use(instance("this", name, `platforms = ["linux/amd64"]`))
	alone.Plan().Error(t, "^PriorityClass/"+sandboxClass+" exists already and is not shared$",
		"^refusing: PriorityClass/"+sandboxClass+` exists on other and berth did not create it\. Name the classes to use in .priority_classes., or delete it\. Nothing was applied\.$`)
	alone.unwritten()
}

// Secrets that are named have to be in the namespace, with their keys; each refusal names the argument, the Secret, the
// key and the command that makes it (J58 to J62). What is in them is in no message (X9).
func TestInstanceSecretsMissing(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := namespace(t, b.cluster, nil)
	b.use(instance("this", name, b.ownClasses(), "adopt = true", `
  required_secrets = [{ name = "plain" }, { name = "api", keys = ["token", "url"] }]
  env_from         = ["environment"]
  env              = { MODEL_KEY = { secret = "model", key = "key" } }
  git_credentials  = [{ match = "*", token = { secret = "git", key = "token" } }, { match = "x", ssh_key_secret = "git-ssh" }]
`))
	secret(t, b.cluster, name, "api", "url", "canary-in-a-secret")
	plan := b.Plan()
	absent := func(attribute, of, hint string) {
		t.Helper()
		plan.Error(t, "^secrets/"+name+"/"+of+` on cluster "shared"$`, "^refusing: "+quoted(attribute)+` names Secret "`+of+`", which does not exist in namespace "`+name+`"\. Nothing was applied\. `+
			`Create it first: kubectl -n `+name+` create secret generic `+of+` `+quoted(hint)+`$`)
	}
	absent("required_secrets[0]", "plain", "--from-literal=KEY=...")
	absent("env_from[0]", "environment", "--from-literal=KEY=...")
	absent(`env["MODEL_KEY"]`, "model", "--from-literal=key=...")
	absent("git_credentials[0].token", "git", "--from-literal=token=...")
	absent("git_credentials[1].ssh_key_secret", "git-ssh", "--from-literal=KEY=...")
	plan.Error(t, "^secrets/"+name+`/api on cluster "shared"$`, `^refusing: required_secrets\[1\] names key "token" of Secret "api" in namespace "`+name+`", which it lacks; it has key "url"\. Nothing was applied\. `+
		quoted(`Add it: kubectl -n `+name+` patch secret api --type=merge -p '{"stringData":{"token":"..."}}'`))
	same(t, "errors", len(plan.Errors()), 6)
	b.unwritten()
}
