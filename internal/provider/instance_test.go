package provider_test

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// rich sets every argument that is about the cluster.
const rich = `
  namespace        = "rich-space"
  kubernetes_floor = ">= 1.35, < 2.0"
  registry         = "registry.example.com/team"
  kit_registry     = "mirror.example.com:5000/kit"
  kit_version      = "1.4.0"
  sandbox_images   = { default = "sandbox:1", tools = "other.example.com/tools@sha256:0123456789012345678901234567890123456789012345678901234567890123" }
  sandbox = {
    node_selector = { pool = "agents" }
    tolerations = [
      { key = "pool", value = "agents", effect = "NoSchedule" },
      { key = "spot", operator = "Exists" },
    ]
  }
  sizes            = { hold = { memory = "8Gi", cpu = "4" }, small = {} }
  required_secrets = [{ name = "api", keys = ["token"] }, { name = "plain" }]
  env_from         = ["environment"]
  env              = { MODEL_KEY = { secret = "model", key = "key" } }
  git_credentials  = [{ match = "github.com/team", token = { secret = "git", key = "token" } }, { match = "*", ssh_key_secret = "git-ssh" }]
  operator         = { image = "upstream.example.com/kit/operator:1.4.0", version = "1.4.0", cluster_role = "view" }
  orchestrator     = { image = "upstream.example.com/kit/orchestrator:1.4.0" }
  repo_cache       = { image = "upstream.example.com/kit/repo-cache:1.4.0" }
`

// The life of an instance with everything set: plan, apply, nothing left to plan, everything broken by hand and its
// repair, import, destroy (J2, J3, J36, J69, J70, J71, J72, X5, X12; promises 1, 3, 6, 9 and 10 of the design).
func TestInstanceRhythm(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		c := fleettest.NewCluster(t, fleettest.ClusterSpec{Name: "own", Nodes: []fleettest.NodeSpec{
			{Name: "amd"},
			{Name: "arm", Architecture: "arm64"},
			{Name: "s390", Architecture: "s390x"},
			{Name: "pool", Labels: map[string]string{"pool": "agents"}, Taints: []corev1.Taint{{Key: "pool", Value: "agents", Effect: corev1.TaintEffectNoSchedule}}},
		}})
		b := newBenchOn(t, c, "rhythm", tofutest.Options{Runner: runner})
		theirs := b.foreign("theirs", 7, nil)
		before := everything(t, c, func(object metav1.Object) bool { return object.GetNamespace() == "" })
		b.use(instance("this", "rich", rich))

		plan := b.MustPlan()
		planned := plan.Change(t, thisInstance)
		if !planned.Is("create") || b.proxy.Writes() != 0 {
			t.Fatalf("%d writes; plan:\n%s", b.proxy.Writes(), plan.Describe())
		}
		same(t, "what is known at plan", row(planned.After["id"], planned.After["cluster_uid"], planned.After["drift"], planned.After["context"], planned.After["server"]),
			row("shared/rich", c.UID(), map[string]any{}, "own", b.proxy.Server()))
		// Which nodes there will be at the apply is not known.
		same(t, "platforms at plan", planned.AfterUnknown["effective_platforms"], true)
		b.MustApply()
		b.checkRich(c)
		b.PlanIsEmpty()

		// The Secrets come afterwards: the namespace did not exist (J74).
		for name, key := range map[string]string{"api": "token", "plain": "any", "environment": "A", "model": "key", "git": "token", "git-ssh": "id"} {
			secret(t, c, "rich-space", name, key, "canary-in-a-secret")
		}
		b.PlanIsEmpty().NoWarnings(t)
		b.MustApply()
		same(t, "conditions with the Secrets", b.conditionsOf(thisInstance), map[string]string{
			"SandboxNodes": "True Found", "NamespaceActive": "True Active", "SecretsFound": "True Found",
			"PriorityClassesFound": "True Found", "RolledOut": "True Available", "Ready": "True Converged",
		})
		b.breakRich(c)

		imported := b.beside(b.owner, tofutest.Options{Runner: runner})
		imported.use(instance("this", "rich", rich))
		imported.MustImport(thisInstance, "shared/rich")
		imported.PlanIsEmpty().NoWarnings(t)

		b.destroyRich(c)
		after := everything(t, c, func(object metav1.Object) bool { return object.GetNamespace() == "" })
		same(t, "what the cluster holds at the end", after, before)
		same(t, "the foreign class", b.mustClass("theirs").ResourceVersion, theirs.ResourceVersion)
	})
}

// checkRich compares the state and the cluster with what rich says.
func (b *bench) checkRich(c *fleettest.Cluster) {
	t := b.t
	state := b.Resource(thisInstance)
	for name, want := range map[string]any{
		"kubernetes_version": c.Version(), "created_namespace": true, "namespace_uid": b.mustNamespace("rich-space").UID, // J7
		"schedulable_nodes": 4, "skipped_architectures": "[s390x]", "sandbox_nodes": "[pool]", // J20, J22, J30
		"image_refs": map[string]any{ // J13
			"default": "registry.example.com/team/sandbox:1",
			"tools":   "other.example.com/tools@sha256:0123456789012345678901234567890123456789012345678901234567890123",
		},
		"kit_images": map[string]any{ // J18, J55
			"operator": "mirror.example.com:5000/kit/operator:1.4.0", "orchestrator": "mirror.example.com:5000/kit/orchestrator:1.4.0",
			"repo_cache": "mirror.example.com:5000/kit/repo-cache:1.4.0",
		},
		"effective_priority_classes": map[string]any{ // J38
			"control": map[string]any{"name": controlClass, "managed": true}, "sandbox": map[string]any{"name": sandboxClass, "managed": true},
		},
		"operator_version": "1.4.0", "kit_version": "1.4.0",
		"excluded_nodes": []map[string]any{ // J32
			{"name": "amd", "reason": "lacks the label pool that sandbox.node_selector requires"},
			{"name": "arm", "reason": "lacks the label pool that sandbox.node_selector requires"},
			{"name": "s390", "reason": "lacks the label pool that sandbox.node_selector requires"},
		},
	} {
		same(t, name, state[name], want)
	}
	same(t, "conditions without the Secrets", b.conditionsOf(thisInstance)["SecretsFound"], "False Missing")

	// Ownership is on the objects (X5).
	space := b.mustNamespace("rich-space")
	same(t, "the namespace", row(marksOf(space), space.Labels["berth.dev/instance"], space.Annotations["berth.dev/step"]), row(ownedInstance("rhythm", "rich"), "rich", ""))
	api := c.Client()
	config, err := api.CoreV1().ConfigMaps("rich-space").Get(t.Context(), settings, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the settings' marks", marksOf(config), ownedInstance("rhythm", "rich"))
	same(t, "the settings' hash", config.Labels["berth.dev/content-hash"], state["content_hash"])
	// J4, J51: what in-cluster readers need is in the cluster.
	for key, want := range map[string]string{
		"name": "rich", "registry": "registry.example.com/team", "platforms": "linux/amd64,linux/arm64", "platforms-from": "nodes",
		"fallback-uid": "1000", "default-size.json": `{"memory":"2Gi","cpu":"1"}`, "sizes.json": `{"hold":{"memory":"8Gi","cpu":"4"},"small":{"memory":"2Gi","cpu":"1"}}`,
		"sandbox.json":  `{"nodeSelector":{"pool":"agents"},"tolerations":[{"key":"pool","operator":"Equal","value":"agents","effect":"NoSchedule"},{"key":"spot","operator":"Exists"}]}`,
		"env-from.json": `["environment"]`, "env.json": `{"MODEL_KEY":{"secret":"model","key":"key"}}`,
		"git-credentials.json":  `[{"match":"github.com/team","token":{"secret":"git","key":"token"}},{"match":"*","sshKeySecret":"git-ssh"}]`,
		"priority-classes.json": `{"control":{"name":"berth-control","managed":true},"sandbox":{"name":"berth-sandbox","managed":true}}`,
	} {
		same(t, "setting "+key, config.Data[key], want)
	}
	var pod corev1.Pod
	if err := json.Unmarshal([]byte(config.Data["sandbox-pod.json"]), &pod); err != nil {
		t.Fatal(err)
	}
	same(t, "the sandbox pod", row(pod.Spec.PriorityClassName, *pod.Spec.SecurityContext.RunAsUser, pod.Spec.NodeSelector, len(pod.Spec.Tolerations), pod.Spec.ImagePullSecrets), // J17, J51, J72
		row(sandboxClass, 1000, map[string]string{"pool": "agents"}, 2, []corev1.LocalObjectReference(nil)))

	// J36, J37: the default classes.
	for name, want := range map[string]string{controlClass: "100000 PreemptLowerPriority", sandboxClass: "1000 Never"} {
		class := b.mustClass(name)
		same(t, name, row(class.Value, *class.PreemptionPolicy, class.GlobalDefault, class.Labels[userLabel("rhythm", "rich")]), want+" false rich")
	}
	// J29, J72: the repo cache runs where sandboxes run; the components carry the control class and no pull secret.
	cache, err := api.AppsV1().DaemonSets("rich-space").Get(t.Context(), repoCache, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	spec := cache.Spec.Template.Spec
	same(t, "the repo cache", row(spec.PriorityClassName, spec.NodeSelector, len(spec.Tolerations), spec.ImagePullSecrets, cache.Status.NumberAvailable),
		row(controlClass, map[string]string{"pool": "agents"}, 2, []corev1.LocalObjectReference(nil), 1))
	for namespace, name := range map[string]string{"rich-space": orchestrator, "berth-system": operator} {
		deployment, err := api.AppsV1().Deployments(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		spec := deployment.Spec.Template.Spec
		same(t, name, row(spec.PriorityClassName, spec.ImagePullSecrets, deployment.Status.AvailableReplicas), row(controlClass, []corev1.LocalObjectReference(nil), 1)) // J17, J36, J56
	}
	// J42: no quota is ever written.
	quotas, err := api.CoreV1().ResourceQuotas("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "quotas", len(quotas.Items), 0)
}

// breakRich breaks by hand everything that rich put on the cluster; the plan shows exactly that, and the apply repairs
// it (J71, promise 6).
func (b *bench) breakRich(c *fleettest.Cluster) {
	t := b.t
	b.kubectl("-n", "rich-space", "patch", "configmap", settings, "--type=merge", "-p", `{"data":{"registry":"elsewhere.example.com","theirs":"stays"}}`)
	b.kubectl("label", "namespace", "rich-space", "berth.dev/instance-")
	b.kubectl("annotate", "namespace", "rich-space", "berth.dev/step=settings")
	b.kubectl("delete", "priorityclass", sandboxClass)
	b.kubectl("patch", "priorityclass", controlClass, "--type=merge", "-p", `{"description":"by hand"}`)
	b.kubectl("-n", "rich-space", "patch", "daemonset", repoCache, "--type=json", "-p", `[
		{"op":"replace","path":"/spec/template/spec/nodeSelector","value":{"pool":"builders"}},
		{"op":"replace","path":"/spec/template/spec/tolerations","value":[{"operator":"Exists"}]},
		{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"evil.example.com/cache:1"}]`)
	b.kubectl("-n", "rich-space", "delete", "deployment", orchestrator)
	b.kubectl("-n", "berth-system", "label", "deployment", operator, userLabel("rhythm", "rich")+"-")
	plan := b.MustPlan()
	change := plan.Change(t, thisInstance)
	if !change.Is("update") {
		t.Fatalf("drift:\n%s", plan.Describe())
	}
	cache := "DaemonSet/rich-space/" + repoCache + " spec.template.spec."
	same(t, "drift", change.Before["drift"], map[string]any{
		"ConfigMap/rich-space/" + settings + " data.registry":                                            "elsewhere.example.com → registry.example.com/team",
		"Namespace/rich-space metadata.labels.[berth.dev/instance]":                                      "(none) → rich",
		"Namespace/rich-space apply":                                                                     "interrupted at step settings → finished",
		"PriorityClass/" + sandboxClass:                                                                  "missing → present",
		"PriorityClass/" + controlClass + " description":                                                 "by hand → What keeps instances running: operator, orchestrators and repo caches.",
		"Deployment/rich-space/" + orchestrator:                                                          "missing → present",
		"Deployment/berth-system/" + operator + " metadata.labels.[" + userLabel("rhythm", "rich") + "]": "(none) → rich",
		cache + "nodeSelector.pool":                                                                      "builders → agents",
		cache + "tolerations":                                                                            "`[{\"operator\":\"Exists\"}]` → `[{\"effect\":\"NoSchedule\",\"key\":\"pool\",\"operator\":\"Equal\",\"value\":\"agents\"},{\"key\":\"spot\",\"operator\":\"Exists\"}]`",
		cache + "containers[name=" + repoCache + "].image":                                               "evil.example.com/cache:1 → mirror.example.com:5000/kit/repo-cache:1.4.0",
	})
	same(t, "drift to be", change.After["drift"], map[string]any{})
	same(t, "references never cascade", row(change.After["cluster_uid"], change.After["id"], len(change.ReplacePaths)), row(c.UID(), "shared/rich", 0))
	b.MustApply()
	same(t, "what is not ours", b.settings("rich-space")["theirs"], "stays")
	b.checkRepaired()
	b.PlanIsEmpty().NoWarnings(t)

	b.kubectl("-n", "rich-space", "delete", "configmap", settings)
	same(t, "drift", b.MustPlan().Change(t, thisInstance).Before["drift"], map[string]any{"ConfigMap/rich-space/" + settings: "missing → present"})
	b.MustApply()
	b.PlanIsEmpty()
}

func (b *bench) checkRepaired() {
	t := b.t
	same(t, "the label", b.mustNamespace("rich-space").Labels["berth.dev/instance"], "rich")
	same(t, "the step", b.mustNamespace("rich-space").Annotations["berth.dev/step"], "")
	same(t, "the class", b.mustClass(sandboxClass).Value, 1000)
	cache, err := b.cluster.Client().AppsV1().DaemonSets("rich-space").Get(t.Context(), repoCache, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the repo cache", row(cache.Spec.Template.Spec.NodeSelector, cache.Spec.Template.Spec.Containers[0].Image),
		row(map[string]string{"pool": "agents"}, "mirror.example.com:5000/kit/repo-cache:1.4.0"))
}

// destroyRich destroys what rich made: the plan warns of Secrets of somebody else in the namespace, and the apply
// refuses, with the list (J69, promise 3).
func (b *bench) destroyRich(c *fleettest.Cluster) {
	t := b.t
	refused := `^refusing: namespace "rich-space" on own would be deleted with 6 object\(s\) that berth did not create: ` +
		`Secret/api, Secret/environment, Secret/git, Secret/git-ssh, Secret/model, Secret/plain\. Remove them, or set force_destroy = true .*Nothing was applied\.$`
	b.MustPlan("-destroy").Warning(t, `^Namespace "rich-space" still has objects that are not the instance's$`, `has 6 object\(s\) that berth did not create: Secret/api, .*The destroy will be refused unless they are gone by then`)
	b.proxy.Reset()
	b.Destroy().Error(t, `^Namespace "rich-space" still has objects that are not the instance's$`, refused)
	same(t, "writes", b.writes(), []string(nil))
	for _, name := range []string{"api", "plain", "environment", "model", "git", "git-ssh"} {
		b.kubectl("-n", "rich-space", "delete", "secret", name)
	}
	b.use(instance("this", "rich", rich, "remove_operator = true"))
	b.MustApply()
	b.MustDestroy().NoWarnings(t)
	same(t, "what carries a mark", everything(t, c, anyMark), []string{})
}
