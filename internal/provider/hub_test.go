package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// The life of a hub, under each runner: planned, applied, nothing to do, broken by hand and repaired, changed in place,
// imported elsewhere without a difference, and destroyed with Kueue, the namespaces and everybody else's queues left (K5,
// K12, K55, K56, K63, K71, K77, K78, X1, X5, X6).
func TestHubRhythm(t *testing.T) {
	t.Parallel()
	c := newHubCluster(t)
	c.KubectlInput(t, "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: theirs}\nspec: {namespaceSelector: {}}\n", "create", "-f", "-")
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		options := tofutest.Options{Runner: runner}
		b := newHubBench(t, c, options)
		b.use(b.hubBlock())
		plan := b.MustPlan()
		plan.NoWarnings(t)
		same(t, "the planned id", fmt.Sprint(plan.Change(t, hub).After["id"]), "hub/"+b.tenant)
		b.MustApply()
		b.PlanIsEmpty()
		same(t, "the check of the queue", b.get("clusterqueue/"+b.tenant, ".spec.admissionChecksStrategy.admissionChecks[*].name"), "berth-"+b.tenant)
		same(t, "the check", b.get("admissioncheck/berth-"+b.tenant, ".spec.controllerName")+" "+b.get("admissioncheck/berth-"+b.tenant, ".spec.parameters.name"), "kueue.x-k8s.io/multikueue berth-"+b.tenant)
		state := b.Resource(hub)
		for name, wanted := range map[string]string{
			"origin": "hub-of-test", "kueue_version": "0.17.0", "admission_check": "berth-" + b.tenant, "multikueue_config": "berth-" + b.tenant, "workers": "[]", "id": "hub/" + b.tenant,
		} {
			same(t, name, fmt.Sprint(state[name]), wanted)
		}
		if conditions := fmt.Sprint(state["conditions"]); !strings.Contains(conditions, "NoMembers") || !strings.Contains(conditions, "NotObserved") {
			t.Errorf("the conditions are %s", conditions)
		}

		b.kubectl("patch", "clusterqueue", b.tenant, "--type=json", "-p", `[{"op":"replace","path":"/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota","value":"9"}]`)
		b.kubectl("delete", "localqueue", "user-queue", "-n", b.tenant)
		b.kubectl("delete", "configmap", "berth-hub", "-n", b.tenant)
		drift := fmt.Sprint(b.MustPlan().Change(t, hub).Before["drift"])
		for _, part := range []string{"ClusterQueue/" + b.tenant + " spec.resourceGroups", "LocalQueue/" + b.tenant + "/user-queue:missing → present", "ConfigMap/" + b.tenant + "/berth-hub:missing → present"} {
			if !strings.Contains(drift, part) {
				t.Errorf("the drift does not have %q: %s", part, drift)
			}
		}
		b.MustApply()
		b.PlanIsEmpty()
		same(t, "the repaired quota", b.get("clusterqueue/"+b.tenant, ".spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"), "8")

		b.kubectl("create", "namespace", b.tenant+"-b")
		more := b.hubBlock(fmt.Sprintf("workload_namespaces = [%q, %q]", b.tenant, b.tenant+"-b"), fmt.Sprintf(
			"scheduling = {\nquotas = { cpu = \"16\", memory = \"32Gi\" }\nflavor = %[1]q\ncluster_queue = %[1]q\noverlays = [{ kind = \"ClusterQueue\", patch = \"spec: {cohortName: all}\" }]\n}", b.tenant))
		b.use(more)
		b.MustApply()
		b.PlanIsEmpty()
		same(t, "the overlay", b.get("clusterqueue/"+b.tenant, ".spec.cohortName"), "all")
		same(t, "the second LocalQueue", c.Kubectl(t, "get", "localqueues", "-n", b.tenant+"-b", "-o", "jsonpath={.items[*].metadata.name}"), "user-queue")

		other := b.beside(b.owner, options)
		other.block = b.block
		other.use(more)
		other.MustImport(hub, "hub/"+b.tenant)
		other.PlanIsEmpty()

		b.use(b.hubBlock(fmt.Sprintf("workload_namespaces = [%q]", b.tenant)))
		b.MustApply()
		same(t, "the LocalQueue that is wanted no more", c.Kubectl(t, "get", "localqueues", "-n", b.tenant+"-b", "-o", "jsonpath={.items[*].metadata.name}"), "")
		b.MustDestroy()
		same(t, "what is left", b.left(), "")
		same(t, "what is theirs", c.Kubectl(t, "get", "clusterqueue", "theirs", "-o", "jsonpath={.metadata.name}")+" "+c.Kubectl(t, "get", "deployment", "-n", b.kueue, "-o", "jsonpath={.items[*].metadata.name}"), "theirs kueue-controller-manager")
	})
}

// What a hub is refused for, before anything is written, with the argument, the cause and the remedy (K5, K12, K47, K54,
// K78, X3, X6).
func TestHubRefusals(t *testing.T) {
	t.Parallel()
	c := newHubCluster(t)
	b := newHubBench(t, c, tofutest.Options{})
	refused := func(summary string, details ...string) {
		t.Helper()
		b.Plan().Error(t, summary, append(details, "refusing: ", "Nothing was applied")...)
		same(t, "what there is after a refusal", b.left(), "")
	}
	b.use(strings.Replace(b.hubBlock(), fmt.Sprintf("tenant_namespace = %q", b.tenant), `tenant_namespace = "nowhere"`, 1))
	refused(`^Namespace "nowhere" does not exist on the hub$`, "creates and deletes none")
	b.use(b.hubBlock(`workload_namespaces = ["elsewhere"]`))
	refused(`^Namespace "elsewhere" does not exist on the hub$`, "correct workload_namespaces")
	b.use(strings.Replace(b.hubBlock(), fmt.Sprintf("kueue_namespace = %q", b.kueue), `kueue_namespace = "default"`, 1))
	refused(`^Kueue does not run on cluster "hub"$`, `in namespace "default"`, "Install Kueue 0.15 or later")
	b.use(b.hubBlock(`scheduling = { preset = "gke-dws", quotas = { cpu = "1" } }`))
	refused(`^The preset "gke-dws" is for workers$`, "MultiKueueWithProvisioningRequest")
	b.use(b.hubBlock(`scheduling = {}`))
	refused(`would have no quota$`, "Set scheduling.quotas")
	b.use(b.hubBlock(`frameworks = ["batch/job", "jobset.x-k8s.io/jobset"]`))
	refused(`^Kueue on cluster "hub" dispatches other kinds of job$`, `has "batch/job" of those`, `asks for "batch/job", "jobset.x-k8s.io/jobset"`)

	b.use(b.hubBlock())
	b.installKueue("v0.17.0", "multikueue", "batch/job")
	refused(`^Kueue on cluster "hub" has the origin of every other hub$`, "Set multiKueue.origin in ConfigMap/"+b.kueue+"/kueue-manager-config")
	b.installKueue("v0.17.0", "hub-of-test", "batch/job", "pod")
	refused(`dispatches other kinds of job$`, `has "batch/job", "pod" of those`)
	b.installKueue("v0.17.0", "hub-of-test", "batch/job", "deployment")

	c.KubectlInput(t, fmt.Sprintf("apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: %s}\n", b.tenant), "create", "-f", "-")
	b.Plan().Error(t, `^refuse to adopt existing object not owned by this hub$`, "ResourceFlavor/"+b.tenant, "Set adopt = true")
	b.use(b.hubBlock("adopt = true"))
	b.MustApply()
	b.PlanIsEmpty()

	// A second hub of the same tenant, and one whose queue is another hub's.
	second := b.beside(unique("team"), tofutest.Options{})
	second.block = providerBlock(second.owner, clusters{"hub": byPath(t, b.proxy.AdminKubeconfig())})
	second.use(b.hubBlock("adopt = true"))
	second.Plan().Error(t, `^refuse to adopt existing object not owned by this hub$`, "which adopt does not change", b.owner)

	// Destroyed only once nothing is in its queue.
	c.KubectlInput(t, fmt.Sprintf("apiVersion: kueue.x-k8s.io/v1beta2\nkind: Workload\nmetadata: {name: busy, namespace: %s}\nspec: {queueName: user-queue, podSets: [{name: main, count: 1, template: {spec: {restartPolicy: Never, containers: [{name: c, image: a}]}}}]}\n", b.tenant), "create", "-f", "-")
	b.kubectl("patch", "workload", "busy", "-n", b.tenant, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(`{"status":{"admission":{"clusterQueue":%q,"podSetAssignments":[{"name":"main"}]}}}`, b.tenant))
	b.MustPlan("-destroy").Warning(t, `^1 Workload\(s\) are in ClusterQueue "`+b.tenant+`"$`, "The destroy refuses as long as this is so", b.tenant+"/busy")
	b.Destroy().Error(t, `^1 Workload\(s\) are in ClusterQueue`, "refusing: ", "Nothing was deleted", "Wait until they are finished")
	b.kubectl("delete", "workload", "busy", "-n", b.tenant)
	b.MustDestroy()
	same(t, "the flavor that was adopted", b.get("resourceflavor/"+b.tenant, ".metadata.labels"), "")
}
