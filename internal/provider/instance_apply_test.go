package provider_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// A create asks everything before it writes anything, and then writes in order: namespace, settings, workloads (J9,
// X3). It returns when the rollouts were observed, not before (J56).
func TestInstanceOrder(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, wholeCluster(t), unique("team"), tofutest.Options{})
	classes, name := b.ownClasses(), unique("ordered")
	b.use(instance("this", name, classes, pool, `
  sizes        = { hold = {} }
  orchestrator = { image = "example.com/orchestrator:1" }
  repo_cache   = { image = "example.com/repo-cache:1" }
`))
	b.MustPlan("-out=tofutest.plan")
	b.proxy.Reset()
	b.MustApply("tofutest.plan").NoWarnings(t)
	step := "patch namespaces /" + name
	same(t, "writes", strings.Join(b.writes(), "\n"), strings.Join([]string{
		"create namespaces /",
		step, step, // the step priority-classes, in which there is nothing to do, and settings
		"create configmaps " + name + "/",
		step, // workloads
		"create deployments.apps " + name + "/", "create daemonsets.apps " + name + "/",
		step, // done
	}, "\n"))
	requests := b.proxy.Requests()
	first := slices.IndexFunc(requests, fleettest.Request.IsWrite)
	last := func(match func(fleettest.Request) bool) int {
		for i, request := range slices.Backward(requests) {
			if match(request) {
				return i
			}
		}
		t.Fatalf("something was not asked:\n%s", requestLines(b.proxy))
		return 0
	}
	for what, match := range map[string]func(fleettest.Request) bool{
		"version":            func(r fleettest.Request) bool { return r.Path == "/version" },
		"permissions":        func(r fleettest.Request) bool { return r.Resource == "selfsubjectaccessreviews" },
		"nodes":              func(r fleettest.Request) bool { return r.Resource == "nodes" },
		"pod-level features": func(r fleettest.Request) bool { return r.Resource == "pods" && r.DryRun },
	} {
		if at := last(match); at > first {
			t.Errorf("%s was asked (%d) after the first write (%d)", what, at, first)
		}
	}
	same(t, "rollouts", b.conditionsOf(thisInstance)["RolledOut"], "True Available")
	b.PlanIsEmpty()

	// A component that the configuration no longer has goes; one that it gets is rolled out.
	b.use(instance("this", name, classes, `repo_cache = { image = "example.com/repo-cache:2" }`))
	b.MustApply()
	deployments, err := b.cluster.Client().AppsV1().Deployments(name).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "deployments", len(deployments.Items), 0)
	cache, err := b.cluster.Client().AppsV1().DaemonSets(name).Get(t.Context(), repoCache, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// J29: the selector and the toleration went from the sandboxes, and so from the repo cache.
	spec := cache.Spec.Template.Spec
	same(t, "the repo cache", row(spec.Containers[0].Image, len(spec.NodeSelector), len(spec.Tolerations)), "example.com/repo-cache:2 0 0")
	b.PlanIsEmpty()

	// A foreign object by the name of a component that is new to the configuration is not taken.
	b.kubectl("-n", name, "create", "deployment", orchestrator, "--image=theirs")
	b.use(instance("this", name, classes, `repo_cache = { image = "example.com/repo-cache:2" }`, `orchestrator = { image = "example.com/orchestrator:1" }`))
	b.Plan().Error(t, "^Deployment/"+name+"/"+orchestrator+" exists already and is not berth's$", "Set adopt = true")
	b.kubectl("-n", name, "delete", "deployment", orchestrator)
	b.use(instance("this", name, classes, `repo_cache = { image = "example.com/repo-cache:2" }`))
	b.MustDestroy()
	same(t, "what is left", b.ours(name), []string{})
}

// A rollout that never completes ends with the time limit and the cluster's own words; what was applied is said, no
// state is kept, and the next apply goes on from there (J56, X11, promises 5 and 8).
func TestInstanceRolloutFails(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, wholeCluster(t), unique("team"), tofutest.Options{})
	classes, name := b.ownClasses(), unique("stuck")
	b.use(instance("this", name, classes, `orchestrator = { image = "broken.example.com/app:1" }`, `timeouts = { create = "15s" }`))
	failed := b.Apply()
	failed.Error(t, "^Deployment/"+name+"/"+orchestrator+" is not there yet: wait until it is ready$",
		`^The time limit was reached after \d+s: Deployment/`+name+"/"+orchestrator+` on whole: \d of 1 replicas updated, 0 available\.`,
		`Pod `+orchestrator+`-\S+: container `+orchestrator+` waits: ErrImagePull: failed to pull: 401 Unauthorized`,
		"Look at: kubectl --context whole describe deployment "+orchestrator+" -n "+name,
		"Applied before this: created Namespace/"+name+", .*created ConfigMap/"+name+"/"+settings+", .*created Deployment/"+name+"/"+orchestrator)
	failed.Warning(t, `^berth_instance "`+name+`" on cluster "shared" is unfinished$`, "the next apply goes on from it")
	same(t, "instances in the state", len(b.Instances()), 0)
	same(t, "the step", b.mustNamespace(name).Annotations["berth.dev/step"], "workloads")

	b.use(instance("this", name, classes, `orchestrator = { image = "example.com/app:1" }`))
	b.MustPlan().Warning(t, "^Namespace/"+name+" exists and carries this configuration's mark$", "If an earlier apply was interrupted, the apply goes on from it")
	b.MustApply()
	b.PlanIsEmpty().NoWarnings(t)

	// The same in an update: the state is kept, untainted.
	b.use(instance("this", name, classes, `orchestrator = { image = "broken.example.com/app:1" }`, `timeouts = { update = "10s" }`))
	b.Apply().Error(t, "^Deployment/"+name+"/"+orchestrator+" is not there yet", "ErrImagePull")
	b.NoTaint()
	b.use(instance("this", name, classes))
	b.MustApply()
	b.PlanIsEmpty()
	b.MustDestroy()
}

// A DaemonSet that matches no node is rolled out with no pod, which proves nothing and is said (J33).
func TestInstanceRepoCacheWithoutPods(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("empty")
	b.use(instance("this", name, b.ownClasses(), `sandbox = { node_selector = { pool = "nowhere" } }`, `repo_cache = { image = "example.com/repo-cache:1" }`))
	b.MustApply().Warning(t, `^Instance "`+name+`" on cluster "shared": rollout/`+name+"/"+repoCache+"$",
		"^"+repoCache+`: the rollout succeeded but no pod matched app=`+repoCache+` \(nothing verified\)`)
	b.PlanIsEmpty()
	b.MustDestroy()
}

// The checks that need a pod run when they are asked for, in the apply: an image that cannot be pulled without a pull
// secret fails it, an endpoint that cannot be reached warns; the pods are gone afterwards (J17, J19, J57).
func TestInstancePodTests(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, wholeCluster(t), unique("team"), tofutest.Options{})
	classes, name := b.ownClasses(), unique("tested")
	images := func(ref, tests string) string {
		return instance("this", name, classes, pool, `registry = "registry.example.com/team"`, `sandbox_images = { default = "`+ref+`" }`, "preflight = { "+tests+" }")
	}
	noPods := func() {
		t.Helper()
		same(t, "pods", b.cluster.Kubectl(t, "-n", name, "get", "pods", "-o", "name"), "")
	}
	b.use(images("broken.example.com/app:1", "image_pull = true"))
	failed := b.Apply()
	refusal := failed.Error(t, `^Image "broken\.example\.com/app:1" cannot be pulled$`,
		`^A pod without a pull secret could not pull broken\.example\.com/app:1 on whole: ErrImagePull: failed to pull: 401 Unauthorized\. berth sets no pull secret: give the nodes credentials for the registry, or allow anonymous pulls\.`)
	same(t, "the refusal is about", refusal.Address, thisInstance)
	same(t, "instances in the state", len(b.Instances()), 0)
	noPods()
	b.use(images("good:1", `image_pull = true, image = "curl.example.com/well:1", endpoints = ["http://model.example.com/v1"]`))
	b.MustApply()
	noPods()
	b.PlanIsEmpty().NoWarnings(t)
	sent := b.proxy.CountIf(func(r fleettest.Request) bool { return r.Key() == "create pods" && !r.DryRun })
	same(t, "test pods", sent, 3)

	b.use(images("good:2", `image = "curl.example.com/fails:1", endpoints = ["https://user:secret@model.example.com/v1?key=secret"]`))
	b.MustApply().Warning(t, `^Instance "`+name+`" on cluster "shared": endpoints/https://model\.example\.com/v1$`,
		`^A pod in namespace "`+name+`" on whole could not reach https://model\.example\.com/v1: curl ended with exit code 7\. An address that works from your computer can fail from the cluster`)
	noPods()
	// Off by default, and a change of it alone runs nothing.
	b.use(instance("this", name, classes, pool, `registry = "registry.example.com/team"`, `sandbox_images = { default = "good:2" }`))
	b.proxy.Reset()
	b.MustApply("-refresh=false")
	b.unwritten()
	b.MustDestroy()
}
