package provider_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// The first configuration that a newcomer writes (J6, J7, J8). Its cluster entry is the usual one, a path and a context.
func TestPreflightFirstExample(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		c := plainCluster(t)
		w := tofutest.New(t, tofutest.Options{Runner: runner, Env: map[string]string{"TF_VAR_kubeconfig_path": c.Kubeconfig()}})
		w.Write("main.tf", fmt.Sprintf(`
terraform {
  required_providers {
    berth = { source = "berthdev/berth" }
  }
}

variable "kubeconfig_path" {
  type = string
}

provider "berth" {
  owner = "demo"
  clusters = {
    shared = { kubeconfig_path = var.kubeconfig_path, context = %q }
  }
}

data "berth_preflight" "shared" {
  cluster            = "shared"
  kubernetes_version = ">= 1.35"
  features           = ["PodLevelResources", "ImageVolume"]
  on_failure         = "error"
}

output "report" {
  value = data.berth_preflight.shared.report
}
`, c.Name()))
		w.MustApply().NoWarnings(t)
		values := w.Resource("data.berth_preflight.shared")
		same(t, "checks", statuses(values), "[kubernetes_version pass features/PodLevelResources pass features/ImageVolume pass]")
		same(t, "outputs", fmt.Sprint(values["passed"], values["id"], values["cluster_uid"], values["context"], values["server"], values["server_version"], values["kubernetes_floor"]),
			fmt.Sprint(true, "shared", c.UID(), c.Name(), c.Server(), c.Version(), "1.35"))
		same(t, "report", w.Output("report"), strings.Join([]string{
			"pass  kubernetes_version          kubernetes: " + c.Version() + " (floor 1.35)",
			"pass  features/PodLevelResources  the API server of plain keeps pod-level resources",
			"pass  features/ImageVolume        the API server of plain keeps image volumes",
		}, "\n"))
		w.PlanIsEmpty()
	})
}

// Everything that can be asked, on a cluster where nothing fails: what is asked is read, dry run or reviewed, each kind
// once, and no value of a Secret goes into the state or the log (J9 to J11, J20, J22, J30, J34, J42, J59, X9; promise 1).
func TestPreflightAsksAndCreatesNothing(t *testing.T) {
	t.Parallel()
	const secretValue = "hunter2-is-the-value"
	b := newBenchOn(t, plainCluster(t), unique("team"), tofutest.Options{Trace: true})
	team := namespace(t, b.cluster, nil)
	secret(t, b.cluster, team, "git", "token", secretValue)
	endpoint := answering(t, 204)
	b.use(data("preflight", fmt.Sprintf(`
  kubernetes_version    = "1.35"
  namespaces            = [{ name = %[1]q, pod_security = "restricted" }, { name = "later", may_be_missing = true }]
  features              = ["ImageVolume"]
  permissions           = [{ verb = "create", resource = "namespaces" }, { verb = "patch", group = "apps", resource = "deployments", subresource = "status", namespace = %[1]q }]
  derive_platforms      = true
  node_selector         = {}
  container_runtime     = true
  sizes                 = { hold = { memory = "8Gi", cpu = "4" }, huge = { memory = "512Gi", cpu = "64" } }
  quota_namespace       = %[1]q
  storage_classes       = ["standard"]
  default_storage_class = true
  priority_classes      = ["system-cluster-critical"]
  secrets               = [{ namespace = %[1]q, name = "git", keys = ["token"] }]
  endpoints             = [{ url = %[2]q, required = true }]
`, team, endpoint)))
	before := b.cluster.Kubectl(t, "get", "namespaces,pods,events,priorityclasses", "-A", "-o", "name")
	result := b.MustApply()
	same(t, "checks", statuses(b.data("preflight")), fmt.Sprint([]string{
		"kubernetes_version pass",
		"namespaces/" + team + " pass", "pod_security/" + team + " pass", "namespaces/later pass",
		"features/ImageVolume pass", "permissions pass",
		"platforms warn", "nodes pass", "container_runtime pass", "sizes/hold pass", "sizes/huge warn",
		"quota/hold pass", "quota/huge pass",
		"storage_classes/standard pass", "default_storage_class pass", "priority_classes/system-cluster-critical pass",
		"secrets/" + team + "/git pass", "endpoints/" + endpoint + " pass",
	}))
	same(t, "passed", b.data("preflight")["passed"], true)
	result.Warning(t, `^Check platforms warns on cluster "shared"$`,
		`^platforms: linux/amd64, linux/arm64 \(from 3 schedulable node\(s\)\) skipping node arch s390x — berth knows no image for it`)
	huge := result.Warning(t, `^Check sizes/huge warns on cluster "shared"$`,
		`^no node right now has the allocatable for a size of memory 512Gi, cpu 64 \(size "huge"\) — its pod stays Pending until one does`, `make the size smaller`)
	if huge.Snippet == nil || !strings.Contains(huge.Snippet.Code, "sizes") {
		t.Errorf("the warning does not point at its size: %s", huge)
	}
	same(t, "warnings", len(result.Warnings()), 2)

	b.noWrites()
	for key, count := range b.proxy.Counts() {
		if strings.HasPrefix(key, "list ") && count > 1 {
			t.Errorf("%d times %s", count, key)
		}
	}
	same(t, "dry runs", b.proxy.Count("create pods"), 1)
	same(t, "what is on the cluster", b.cluster.Kubectl(t, "get", "namespaces,pods,events,priorityclasses", "-A", "-o", "name"), before)
	for where, text := range map[string]string{"log": b.TraceLog(), "state": string(b.StatePull())} {
		// In base64 too, which is how the API server sends it.
		for _, form := range []string{secretValue, "aHVudGVyMi1pcy10aGUtdmFsdWU="} {
			if strings.Contains(text, form) {
				t.Errorf("the value of the Secret is in the %s", where)
			}
		}
	}
}

// Each fixed fact that is not so is an error of its own, at the argument that asked, with the way out (J6, J39, J48, J60,
// J62); with on_failure = "report" the same is only reported.
func TestPreflightFailures(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, plainCluster(t), unique("team"), tofutest.Options{})
	theirs := namespace(t, b.cluster, func(n *corev1.Namespace) { n.Annotations["berth.dev/owner"] = "red/instance.a" })
	strict := namespace(t, b.cluster, func(n *corev1.Namespace) { n.Labels["pod-security.kubernetes.io/enforce"] = "restricted" })
	secret(t, b.cluster, strict, "git", "password", "x")
	endpoint := answering(t, 500)
	config := fmt.Sprintf(`
  kubernetes_version = ">= 1.99"
  namespaces = [{ name = "nowhere" }, { name = %[1]q, owner = "blue/instance.a" }, { name = %[2]q, pod_security = "baseline" }]
  storage_classes    = ["standard", "fast"]
  priority_classes   = ["batch-low"]
  secrets            = [{ namespace = %[2]q, name = "absent" }, { namespace = %[2]q, name = "git", keys = ["password", "token"] }]
  endpoints          = [{ url = %[3]q, statuses = [200], required = true }]
`, theirs, strict, endpoint)
	b.use(data("preflight", config))
	result := b.Plan()
	failed := func(check, at string, details ...string) {
		t.Helper()
		found := result.Error(t, fmt.Sprintf(`^Check %s failed on cluster "shared"$`, check), details...)
		if found.Snippet == nil || !strings.Contains(found.Snippet.Code, at) {
			t.Errorf("%s\ndoes not point at %s", found, at)
		}
	}
	failed("kubernetes_version", "kubernetes_version", `^refusing: plain runs Kubernetes v1\.\S+; berth needs Kubernetes 1\.99 or newer\. Nothing was applied\.`, `Upgrade the cluster, or name one whose version fits\.$`)
	failed("namespaces/nowhere", "namespaces", `^namespace "nowhere" does not exist on plain`, `kubectl create namespace nowhere$`)
	failed("namespaces/"+theirs, "namespaces", `^refusing: namespace "`+theirs+`" on plain belongs to another owner \("red/instance.a"\)`, `Give a different namespace, or a different cluster\.$`)
	failed("pod_security/"+strict, "namespaces", `^namespace "`+strict+`" enforces the Pod Security level "restricted", which refuses pods that need "baseline"`)
	failed("storage_classes/fast", "storage_classes", `^storage_classes\[1\] names StorageClass "fast", which plain does not have`)
	failed("priority_classes/batch-low", "priority_classes", `^priority_classes\[0\] names PriorityClass "batch-low", which plain does not have: Kubernetes creates no pod that names a class`)
	failed("secrets/"+strict+"/absent", "secrets", `^secrets\[0\] names Secret "absent", which does not exist in namespace "`+strict+`"`, `kubectl -n `+strict+` create secret generic absent --from-literal=KEY=\.\.\.$`)
	failed("secrets/"+strict+"/git", "secrets", `^secrets\[1\] names key "token" of Secret "git" in namespace "`+strict+`", which it lacks; it has key "password"`)
	failed("endpoints/"+endpoint, "endpoints", `answers with status 500; expected was 200`)
	same(t, "errors", len(result.Errors()), 9)
	b.noWrites()

	b.use(data("preflight", config, `on_failure = "report"`))
	b.MustApply().NoWarnings(t)
	values := b.data("preflight")
	same(t, "passed", values["passed"], false)
	same(t, "checks", statuses(values), fmt.Sprint([]string{
		"kubernetes_version fail", "namespaces/nowhere fail", "namespaces/" + theirs + " fail",
		"namespaces/" + strict + " pass", "pod_security/" + strict + " fail",
		"storage_classes/standard pass", "storage_classes/fast fail", "priority_classes/batch-low fail",
		"secrets/" + strict + "/absent fail", "secrets/" + strict + "/git fail", "endpoints/" + endpoint + " fail",
	}))
	report := fmt.Sprint(values["report"])
	if !strings.Contains(report, "\nfail  namespaces/nowhere ") || !strings.Contains(report, "→ Create it first: kubectl create namespace nowhere\n") {
		t.Errorf("report:\n%s", report)
	}
}

// What may be different in a minute warns, whatever on_failure says (J10, J31, J34, X4), and so does what was not checked
// because `platforms` is set (J24, J25).
func TestPreflightWarnings(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, plainCluster(t), unique("team"), tofutest.Options{})
	b.use(data("preflight", `node_selector = { pool = "gpu" }`, fmt.Sprintf(`endpoints = [{ url = %q }]`, answering(t, 404))))
	result := b.MustPlan()
	result.Warning(t, `^Check nodes warns on cluster "shared"$`, `^no node right now — a pod stays Pending until one appears: amd: lacks the label pool that node_selector requires`,
		`cordoned: cordoned \(spec.unschedulable\)`, `pool: label pool=agents is not the pool=gpu that node_selector requires`, "set `node_selector` and `tolerations`, in the shapes of the pod spec")
	result.Warning(t, `^Check endpoints/http://127.0.0.1:\d+ warns on cluster "shared"$`, `answers with status 404; expected was 200 to 399`)

	b.use(data("preflight", `tolerations = [{ key = "pool", operator = "Exists" }]`, `node_selector = { pool = "agents" }`, `container_runtime = true`))
	b.MustPlan().Warning(t, `^Check container_runtime warns on cluster "shared"$`, `^container runtimes: containerd://1\.7\.27 is older than 2\.1\.0 \(pool\)`,
		`Image volumes need containerd 2\.1\.0 or newer, or CRI-O 1\.31 or newer\.`)

	b.proxy.Reset()
	b.use(data("preflight", `platforms = ["linux/arm64"]`, `node_selector = {}`, `sizes = { hold = {} }`))
	result = b.MustPlan()
	result.Warning(t, `^Check nodes was not made on cluster "shared"$`, "^not checked: `platforms` is set, so the nodes were not read$")
	result.Warning(t, `^Check sizes/hold was not made on cluster "shared"$`, "`platforms` is set")
	same(t, "lists of nodes", b.proxy.Count("list nodes"), 0)
}

// A cluster below the floor, with a vendor's suffix in its version (J6, J7).
func TestPreflightVersionFloor(t *testing.T) {
	t.Parallel()
	c := fleettest.NewCluster(t, fleettest.ClusterSpec{Name: "old", ControlPlaneOnly: true, Version: "v1.34.2-gke.100"})
	b := newBenchOn(t, c, "team", tofutest.Options{})
	b.use(data("preflight", `kubernetes_version = "1.35"`))
	b.Plan().Error(t, `^Check kubernetes_version failed on cluster "shared"$`,
		`^refusing: old runs Kubernetes v1\.34\.2-gke\.100; berth needs Kubernetes 1\.35 or newer \(every sandbox mounts its runtime as an image volume\)\. Nothing was applied\.`)
	b.use(data("preflight", `kubernetes_version = "1.34.2"`))
	b.MustApply()
	same(t, "server_version", b.data("preflight")["server_version"], "v1.34.2-gke.100")
	same(t, "kubernetes_floor", b.data("preflight")["kubernetes_floor"], "1.34.2")
	b.use(data("preflight", `kubernetes_version = "< 1.34"`))
	b.Plan().Error(t, `^Check kubernetes_version failed`, `this configuration needs Kubernetes < 1\.34\. Nothing was applied\.`)
}

// A cluster without the features, with no node that images are known for (J8, J22, J65), and with two default
// StorageClasses.
func TestPreflightUnfitCluster(t *testing.T) {
	t.Parallel()
	c := fleettest.NewCluster(t, fleettest.ClusterSpec{
		Name: "unfit", ControlPlaneOnly: true, EmulatedVersion: "1.35", FeatureGates: map[string]bool{"ImageVolume": false, "PodLevelResources": false},
		Nodes:          []fleettest.NodeSpec{{Name: "z", Architecture: "s390x"}},
		StorageClasses: []fleettest.StorageClassSpec{{Name: "a", Default: true}, {Name: "b", Default: true}},
	})
	b := newBenchOn(t, c, "team", tofutest.Options{})
	b.use(data("preflight", `features = ["PodLevelResources", "ImageVolume"]`, `derive_platforms = true`, `default_storage_class = true`))
	result := b.Plan()
	result.Error(t, `^Check features/PodLevelResources failed on cluster "shared"$`,
		`^refusing: unfit \(Kubernetes v1\.\S+\) drops pod-level resources — the PodLevelResources feature gate is off, and .*Nothing was applied\.`, `Enable the gate PodLevelResources on the API server and the kubelets\.$`)
	result.Error(t, `^Check features/ImageVolume failed on cluster "shared"$`, `drops image volumes — the ImageVolume feature gate is off, and a sandbox cannot mount its runtime\.`)
	result.Error(t, `^Check platforms failed on cluster "shared"$`, "^this cluster's schedulable nodes report s390x — berth knows images for linux/amd64, linux/arm64 and nothing else.* Set `platforms`")
	result.Warning(t, `^Check default_storage_class warns on cluster "shared"$`, `^unfit has several default StorageClasses \("a", "b"\)`)
	same(t, "errors", len(result.Errors()), 3)
	b.noWrites()
}

// A cluster with nothing on it (J31, J65).
func TestPreflightEmptyCluster(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, otherCluster(t), unique("team"), tofutest.Options{})
	b.use(data("preflight", `derive_platforms = true`, `node_selector = {}`, `sizes = { hold = {} }`, `default_storage_class = true`))
	result := b.Plan()
	result.Error(t, `^Check platforms failed`, "^this cluster has no schedulable node right now to read a platform from — .* Set `platforms`")
	result.Error(t, `^Check default_storage_class failed`, `^other has no StorageClass: a volume claim that names no class would stay Pending`)
	result.Warning(t, `^Check nodes warns`, `the cluster has no node at all`)
	result.Warning(t, `^Check sizes/hold was not made`, `there is no node right now to compare the size "hold" \(memory 2Gi, cpu 1\) with`)
}

// A credential that may do little learns what it lacks, as RBAC to apply, and what it could not find out (J11).
func TestPreflightMissingPermissions(t *testing.T) {
	t.Parallel()
	c := plainCluster(t)
	team := namespace(t, c, nil)
	user := unique("limited")
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}}}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	if _, err := c.Client().RbacV1().Roles(team).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client().RbacV1().RoleBindings(team).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	proxy := c.Proxy(t, fleettest.ProxyOptions{})
	limited := proxy.Through(c.UserKubeconfig(t, user))
	w := tofutest.New(t, tofutest.Options{})
	provider := providerBlock(unique("team"), clusters{"shared": byPath(t, limited)})
	w.Write("main.tf", provider+data("preflight", fmt.Sprintf(`
  permissions = [
    { verb = "create", resource = "configmaps", namespace = %[1]q },
    { verb = "patch", resource = "secrets", namespace = %[1]q },
    { verb = "create", group = "scheduling.k8s.io", resource = "priorityclasses" },
  ]
  features      = ["ImageVolume"]
  node_selector = {}
`, team)))
	result := w.Plan()
	result.Error(t, `^Check permissions failed on cluster "shared"$`,
		`^the credential of plain may not: patch secrets in namespace `+team+` create priorityclasses.scheduling.k8s.io Have an administrator apply this`,
		`kind: ClusterRole metadata: name: berth rules: - apiGroups: - scheduling.k8s.io resources: - priorityclasses verbs: - create --- `,
		`kind: Role metadata: name: berth namespace: `+team+` rules: - apiGroups: - "" resources: - secrets verbs: - patch$`)
	result.Warning(t, `^Check features/ImageVolume warns`, `^unknown: could not find out which features the API server has by a dry run of a pod`, `kind: Role metadata: name: berth-create-pods namespace: default`)
	result.Warning(t, `^Check nodes warns`, `^unknown: could not find out which nodes plain has`, `name: berth-list-nodes`)
	result.Warning(t, `^The identity of cluster "shared" is not known to the credential$`, "`cluster_uid` is null", `On cluster "shared", user "`+user+`" may not get namespaces`)
	same(t, "errors", len(result.Errors()), 1)

	// The other two cannot answer at all then, and say what to grant.
	w.Write("main.tf", provider+data("nodes"))
	w.Plan().Error(t, `^Reading data source berth_nodes on cluster "shared" failed$`, `On cluster "shared", user "`+user+`" may not list nodes in the whole cluster\. Grant it by a ClusterRole`)
	w.Write("main.tf", provider+data("quota", fmt.Sprintf("namespace = %q", team)))
	w.Plan().Error(t, `^Reading data source berth_quota "`+team+`" on cluster "shared" failed$`, `may not list resourcequotas in namespace "`+team+`"`)
}

// What a credential may not see does not stop what a pinned entry is for: knowing that it is the right cluster.
func TestPreflightPinnedUID(t *testing.T) {
	t.Parallel()
	c := plainCluster(t)
	w := tofutest.New(t, tofutest.Options{})
	entry := func(config fleettest.Kubeconfig, uid string) clusters {
		return clusters{"shared": byPath(t, config) + fmt.Sprintf("\nuid = %q", uid)}
	}
	w.Write("main.tf", providerBlock("team", entry(c.AdminKubeconfig(), "another"))+data("preflight"))
	w.Plan().Error(t, "^Cluster \"shared\" is not the cluster that `uid` names$", `says kube-system has UID another, but the cluster at \S+ has `+c.UID())
	w.Write("main.tf", providerBlock("team", entry(c.UserKubeconfig(t, unique("limited")), c.UID()))+data("preflight"))
	w.Plan().Error(t, `^Reading data source berth_preflight on cluster "shared" failed$`, `may not get namespaces`)
}
