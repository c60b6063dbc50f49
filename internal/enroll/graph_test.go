package enroll

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// byHand creates what another tool, or another person, has made, and returns the UIDs by kind.
func (f *fixture) byHand(queueSpec string, labels string) {
	f.t.Helper()
	f.plane.KubectlInput(f.t, fmt.Sprintf(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: %[1]s, labels: {%[3]s}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %[1]s, labels: {%[3]s}}
spec: {%[2]s}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: user-queue, namespace: %[1]s, labels: {%[3]s}}
spec: {clusterQueue: %[1]s}
`, f.namespace, queueSpec, labels), "create", "-f", "-")
}

// equalQueue is the ClusterQueue of the fixture's graph in other words: quantities and defaults written out.
func (f *fixture) equalQueue(more string) string {
	return fmt.Sprintf("namespaceSelector: {}, queueingStrategy: BestEffortFIFO, resourceGroups: [{coveredResources: [cpu, memory], flavors: [{name: %s, resources: [{name: cpu, nominalQuota: 8000m}, {name: memory, nominalQuota: 32Gi}]}]}]%s", f.namespace, more)
}

func (f *fixture) uids() string {
	f.t.Helper()
	return f.plane.Kubectl(f.t, "get", "resourceflavor/"+f.namespace, "clusterqueue/"+f.namespace, "-o", "jsonpath={.items[*].metadata.uid}") +
		f.plane.Kubectl(f.t, "get", "localqueue", "user-queue", "-n", f.namespace, "-o", "jsonpath={.metadata.uid}")
}

func (f *fixture) get(object, path string) string {
	f.t.Helper()
	return f.plane.Kubectl(f.t, "get", object, "-n", f.namespace, "-o", "jsonpath={"+path+"}")
}

// The life of a worker's objects: made, labelled, in order, repaired, pruned to what a changed preset has, and left in place
// at the end without marks (K55, K56, K57, K62, K71, X5, X6).
func TestGraph(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	g := f.graph()
	seen, err := g.Plan(t.Context(), f.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "before", states(seen), "ResourceFlavor missing, ClusterQueue missing, LocalQueue missing")
	f.apply(g)
	for _, object := range []string{"resourceflavor/" + f.namespace, "clusterqueue/" + f.namespace, "localqueue/user-queue"} {
		want(t, object+"'s labels", f.get(object, `.metadata.labels.berth\.dev/managed-by`)+" "+f.get(object, `.metadata.labels.berth\.dev/worker-cluster`), "worker-scheduling "+g.Identity)
	}
	uids := f.uids()
	f.afresh()
	seen, drift, err := g.Read(t.Context(), f.Cluster, true)
	if err != nil || len(drift) > 0 {
		t.Fatalf("after the apply: %v, %v", drift, err)
	}
	want(t, "after", states(seen), "ResourceFlavor match, ClusterQueue match, LocalQueue match")

	// A cordon's Hold is no drift, a changed quota and a label that was taken off are.
	f.plane.Kubectl(t, "patch", "clusterqueue", f.namespace, "--type=json", "-p", `[{"op":"replace","path":"/spec/stopPolicy","value":"Hold"},{"op":"replace","path":"/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota","value":"9"}]`)
	f.plane.Kubectl(t, "label", "localqueue", "user-queue", "-n", f.namespace, "berth.dev/worker-cluster-")
	f.afresh()
	if seen, drift, err = g.Read(t.Context(), f.Cluster, true); err != nil {
		t.Fatal(err)
	}
	want(t, "with drift", states(seen), "ResourceFlavor match, ClusterQueue differs, LocalQueue differs")
	want(t, "the drift", len(drift), 2)
	f.apply(g)
	want(t, "the repaired quota", f.get("clusterqueue/"+f.namespace, ".spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"), "8")
	want(t, "the policy that the cordon steers", f.get("clusterqueue/"+f.namespace, ".spec.stopPolicy"), "Hold")
	want(t, "the UIDs", f.uids(), uids)

	// Another preset brings its objects, and the way back deletes them again.
	dws := g
	dws.Preset = "gke-dws"
	f.apply(dws)
	want(t, "the check", f.get("admissioncheck/dws-prov", ".spec.parameters.name"), "dws-config")
	want(t, "the queue's checks", f.get("clusterqueue/"+f.namespace, ".spec.admissionChecksStrategy.admissionChecks[*].name"), "dws-prov")
	f.apply(g)
	want(t, "what is left of the preset", f.plane.Kubectl(t, "get", "admissionchecks,provisioningrequestconfigs", "-o", "name"), "")
	want(t, "the queue's checks", f.get("clusterqueue/"+f.namespace, ".spec.admissionChecksStrategy"), "")
	want(t, "the UIDs", f.uids(), uids)

	f.afresh()
	if err := g.Remove(t.Context(), f.Cluster, false); err != nil {
		t.Fatal(err)
	}
	want(t, "the UIDs of what stays", f.uids(), uids)
	want(t, "its labels", f.get("clusterqueue/"+f.namespace, ".metadata.labels")+f.get("localqueue/user-queue", ".metadata.labels"), "")
}

// A hub's objects go with it where it made them, and stay with deletion_policy "retain" (Y1).
func TestGraphOfHub(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	g := f.graph()
	g.Identity = ""
	f.apply(g)
	want(t, "the labels of K57", f.get("clusterqueue/"+f.namespace, `.metadata.labels.berth\.dev/worker-cluster`), "")
	f.afresh()
	if err := g.Remove(t.Context(), f.Cluster, false); err != nil {
		t.Fatal(err)
	}
	want(t, "what is left", f.plane.Kubectl(t, "get", "clusterqueue,resourceflavor", f.namespace, "--ignore-not-found", "-o", "name")+f.plane.Kubectl(t, "get", "localqueues", "-n", f.namespace, "-o", "name"), "")
	f.apply(g)
	f.afresh()
	if err := g.Remove(t.Context(), f.Cluster, true); err != nil {
		t.Fatal(err)
	}
	want(t, "what stays", f.get("clusterqueue/"+f.namespace, ".metadata.labels"), "")
}

// What is there already is refused with the phrase and the list, adopted where it is equal, with its UIDs, and refused
// with every difference where it is not: what the preset does not say is one, too (K47, K54, K56, K59, K61).
func TestAdoption(t *testing.T) {
	t.Parallel()
	const phrase = "refuse to adopt existing object not owned by this WorkerCluster"
	f := newFixture(t)
	g := f.graph()
	f.byHand(f.equalQueue(", stopPolicy: Hold"), "team: a")
	uids := f.uids()
	plan := func(g Graph) ([]SchedulingObject, error) {
		f.afresh()
		return g.Plan(t.Context(), f.Cluster)
	}
	seen, err := plan(g)
	told(t, err, phrase, "ResourceFlavor/"+f.namespace, "ClusterQueue/"+f.namespace, "user-queue", "UID ", "Set adopt = true", "Nothing was applied")
	want(t, "the states", states(seen), "ResourceFlavor foreign, ClusterQueue foreign, LocalQueue foreign")
	if _, err := g.Apply(t.Context(), f.Cluster); err == nil || f.get("clusterqueue/"+f.namespace, ".metadata.labels") != `{"team":"a"}` {
		t.Fatalf("an apply that is refused wrote something, or was not refused: %v", err)
	}

	g.Terms.Adopt = true
	other := g
	other.Quotas = map[string]string{"cpu": "9", "memory": "32Gi"}
	_, err = plan(other)
	told(t, err, phrase, "nominalQuota", "scheduling.overlays", "Nothing was applied")
	f.plane.Kubectl(t, "patch", "clusterqueue", f.namespace, "--type=merge", "-p", `{"spec":{"cohortName":"shared"}}`)
	_, err = plan(g)
	told(t, err, phrase, "spec.cohortName", "shared")
	g.Overlays = []Overlay{{Kind: "ClusterQueue", Patch: "spec: {cohortName: shared}"}}

	f.apply(g)
	want(t, "the UIDs", f.uids(), uids)
	want(t, "the label that was there", f.get("clusterqueue/"+f.namespace, ".metadata.labels.team"), "a")
	want(t, "the label", f.get("clusterqueue/"+f.namespace, `.metadata.labels.berth\.dev/worker-cluster`), g.Identity)
	want(t, "the policy that was found", f.get("clusterqueue/"+f.namespace, ".spec.stopPolicy"), "Hold")

	moved := g
	moved.ClusterQueue, moved.Overlays = f.namespace+"-2", nil
	_, err = plan(moved)
	told(t, err, `leads to ClusterQueue "`+f.namespace+`" for good`, "Set scheduling.cluster_queue back", "Nothing was applied")
	// What was adopted is let go, not deleted, when the preset has it no more.
	f.plane.Kubectl(t, "delete", "localqueue", "user-queue", "-n", f.namespace)
	f.apply(moved)
	want(t, "the queue that was adopted", f.get("clusterqueue/"+f.namespace, ".metadata.labels"), `{"team":"a"}`)
}

// Labels of another worker are never overridden, those of this very worker make an object its own, also below another
// prefix, and what another controller keeps is refused with its name (K48, K57, X6, promise 3).
func TestAdoptionOfLabelled(t *testing.T) {
	t.Parallel()
	const phrase = "refuse to adopt existing object not owned by this WorkerCluster"
	f := newFixture(t)
	g := f.graph()
	g.LabelPrefix, g.Terms.Adopt = "trainy.ai", true
	f.byHand(f.equalQueue(""), "trainy.ai/managed-by: worker-scheduling, trainy.ai/worker-cluster: 5-other-us")
	_, err := g.Plan(t.Context(), f.Cluster)
	told(t, err, phrase, "of 5-other-us", "which adopt does not change")

	for _, object := range []string{"resourceflavor/" + f.namespace, "clusterqueue/" + f.namespace, "localqueue/user-queue"} {
		f.plane.Kubectl(t, "label", "-n", f.namespace, "--overwrite", object, "trainy.ai/worker-cluster="+g.Identity)
	}
	g.Terms.Adopt = false
	uids := f.uids()
	f.apply(g)
	want(t, "the UIDs", f.uids(), uids)
	f.afresh()
	if err := g.Remove(t.Context(), f.Cluster, false); err != nil {
		t.Fatal(err)
	}
	want(t, "the labels at the end", f.get("clusterqueue/"+f.namespace, ".metadata.labels"), "")

	f.plane.Kubectl(t, "annotate", "clusterqueue", f.namespace, "argocd.argoproj.io/tracking-id=queues:kueue.x-k8s.io/ClusterQueue:/"+f.namespace)
	g.Terms.Adopt = true
	f.afresh()
	_, err = g.Plan(t.Context(), f.Cluster)
	told(t, err, "kept in place by argocd/queues", "adopt_from")
	g.Terms.AdoptFrom = []string{"argocd/queues"}
	f.apply(g)

	second := g
	second.Terms.Owner = kube.Owner{Configuration: "platform", Resource: "worker_enrollment.team-9/eu"}
	f.afresh()
	_, err = second.Plan(t.Context(), f.Cluster)
	told(t, err, phrase, f.owner.Resource)
	if strings.Contains(err.Error(), "Set adopt") {
		t.Fatalf("the refusal offers adopt: %s", err)
	}
}
