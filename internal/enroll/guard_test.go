package enroll

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
)

// jobs is a namespace in which jobs come and go.
type jobs struct {
	t         *testing.T
	plane     *fleettest.Cluster
	namespace string
}

func (j *jobs) kubectl(args ...string) string {
	j.t.Helper()
	return j.plane.Kubectl(j.t, append(args, "-n", j.namespace)...)
}

// job creates a Job with metadata and a spec in YAML's flow style.
func (j *jobs) job(name, metadata, spec string) { j.t.Helper(); j.pinned(name, metadata, spec, "any") }

// pinned is job for one whose pods run on the nodes of a pool only.
func (j *jobs) pinned(name, metadata, spec, pool string) {
	j.t.Helper()
	j.plane.KubectlInput(j.t, fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s, namespace: %s, %s}
spec: {%s, template: {spec: {restartPolicy: Never, nodeSelector: {pool: %s}, containers: [{name: example, image: "registry.example.com/example:1", resources: {requests: {cpu: "1", memory: 1Gi}}}]}}}
`, name, j.namespace, metadata, spec, pool), "create", "-f", "-")
}

func (j *jobs) jobSet(name, spec string) {
	j.t.Helper()
	j.plane.KubectlInput(j.t, fmt.Sprintf(`
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: %s, namespace: %s}
spec: {%s, replicatedJobs: [{name: a, template: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: example, image: "registry.example.com/example:1"}]}}}}}]}
`, name, j.namespace, spec), "create", "-f", "-")
}

// workload creates a Workload in the newest version that is served.
func (j *jobs) workload(name, metadata string) {
	j.t.Helper()
	served := strings.Fields(j.plane.Kubectl(j.t, "get", "crd", "workloads.kueue.x-k8s.io", "-o", "jsonpath={.spec.versions[?(@.served==true)].name}"))
	j.plane.KubectlInput(j.t, fmt.Sprintf(`
apiVersion: %s
kind: Workload
metadata: {name: %s, namespace: %s, %s}
spec: {queueName: user-queue, podSets: [{name: main, count: 1, template: {spec: {restartPolicy: Never, containers: [{name: example, image: "registry.example.com/example:1"}]}}}]}
`, ClusterQueues.Group+"/"+served[len(served)-1], name, j.namespace, metadata), "create", "-f", "-")
}

// says sets a condition as the only one of an object.
func (j *jobs) says(object, kind, status, reason string) {
	j.t.Helper()
	j.kubectl("patch", object, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(
		`{"status":{"conditions":[{"type":%q,"status":%q,"reason":%q,"message":"as the test says","lastTransitionTime":%q}]}}`,
		kind, status, reason, time.Now().UTC().Format(time.RFC3339)))
}

// owned is the metadata of what belongs to an object.
func (j *jobs) owned(apiVersion, kind, name string) string {
	j.t.Helper()
	return fmt.Sprintf("ownerReferences: [{apiVersion: %s, kind: %s, name: %s, uid: %s, controller: true}]",
		apiVersion, kind, name, j.kubectl("get", kind+"/"+name, "-o", "jsonpath={.metadata.uid}"))
}

// started waits until the Job controller has started Jobs and made their pods.
func (j *jobs) started(names ...string) {
	j.t.Helper()
	for _, name := range names {
		j.kubectl("wait", "--for=jsonpath={.status.startTime}", "job/"+name, "--timeout=60s")
		j.kubectl("wait", "--for=jsonpath={.status.active}=1", "job/"+name, "--timeout=60s")
	}
}

// end has the pods of a Job end in a phase, and waits until the Job has a condition.
func (j *jobs) end(name, phase, condition string) {
	j.t.Helper()
	for pod := range strings.FieldsSeq(j.kubectl("get", "pods", "-l", "job-name="+name, "-o", "name")) {
		j.kubectl("patch", pod, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(`{"status":{"phase":%q}}`, phase))
	}
	j.kubectl("wait", "--for=condition="+condition, "job/"+name, "--timeout=60s")
}

func (j *jobs) uid(object string) string {
	j.t.Helper()
	return j.kubectl("get", object, "-o", "jsonpath={.metadata.uid}")
}

func snapshot(t *testing.T, c *cluster.Cluster, namespaces ...string) []Guarded {
	t.Helper()
	all, err := Snapshot(t.Context(), c, namespaces)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// recorded are the objects of a snapshot, in one line.
func recorded(all []Guarded) string {
	var lines []string
	for _, one := range all {
		lines = append(lines, fmt.Sprintf("%s/%s %s", one.Kind, one.Name, one.State))
	}
	return strings.Join(lines, ", ")
}

// What is active is recorded, each object once, with its UID and how it is (K37); and what goes on, begins, or ends well is
// as it should be, also where it is gone by the time (K39, K46).
func TestGuard(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	j := &jobs{t, f.plane, f.namespace}
	j.job("over", "labels: {}", "completions: 1")
	j.started("over")
	j.end("over", "Succeeded", "Complete")
	for _, name := range []string{"runs", "ends", "ends-and-goes"} {
		j.job(name, "labels: {}", "completions: 1")
	}
	j.job("queued", "labels: {}", "suspend: true")
	j.job("queued-of-hub", "labels: {"+LabelOrigin+": other}", "suspend: true")
	j.jobSet("set", "suspend: false")
	j.jobSet("set-that-goes", "suspend: false")
	j.jobSet("set-over", "suspend: false")
	j.says("jobset/set-over", "Completed", "True", "AllJobsCompleted")
	j.job("set-a-0", j.owned("jobset.x-k8s.io/v1alpha2", "JobSet", "set"), "completions: 1")
	j.job("set-a-1", j.owned("jobset.x-k8s.io/v1alpha2", "JobSet", "set"), "suspend: true")
	j.workload("admitted", j.owned("batch/v1", "Job", "runs"))
	j.says("workload/admitted", "Admitted", "True", "Admitted")
	j.workload("goes-too", j.owned("batch/v1", "Job", "ends-and-goes"))
	j.says("workload/goes-too", "Admitted", "True", "Admitted")
	// Of a kind that is not guarded itself, Kueue's word is all there is.
	j.plane.KubectlInput(t, `{apiVersion: v1, kind: Pod, metadata: {name: pod}, spec: {containers: [{name: example, image: "registry.example.com/example:1"}]}}`, "create", "-n", f.namespace, "-f", "-")
	j.workload("of-pod", j.owned("v1", "Pod", "pod"))
	j.says("workload/of-pod", "Admitted", "True", "Admitted")
	j.workload("waits", j.owned("batch/v1", "Job", "queued"))
	j.workload("not-chosen", "labels: {"+LabelOrigin+": other}")
	j.says("workload/not-chosen", "Admitted", "True", "Admitted")
	j.workload("prebuilt", "labels: {}")
	j.workload("finished", "labels: {}")
	j.says("workload/finished", "Finished", "True", "Succeeded")
	j.started("runs", "ends", "ends-and-goes", "set-a-0")

	before := snapshot(t, f.Cluster, f.namespace, f.namespace, "no-such-namespace")
	want(t, "what is guarded", recorded(before), "JobSet/set Running, JobSet/set-that-goes Running, Job/ends Running, Job/ends-and-goes Running, Job/queued Waiting, Job/runs Running, Job/set-a-0 Running, "+
		"Workload/admitted Running, Workload/goes-too Running, Workload/of-pod Running, Workload/prebuilt Waiting")
	for _, one := range before {
		want(t, one.Describe()+"'s UID", one.UID, j.uid(one.Kind+"/"+one.Name))
		want(t, one.Describe()+" has a time", one.Since != "", one.State == GuardRunning && one.Kind != "JobSet")
	}
	if err := Verify(t.Context(), f.Cluster, before); err != nil {
		t.Fatal(err)
	}

	j.end("ends", "Succeeded", "Complete")
	// A hub takes away what has finished, its Workload as well, and so does ttlSecondsAfterFinished.
	j.end("ends-and-goes", "Succeeded", "Complete")
	j.kubectl("delete", "job/ends-and-goes", "workload/goes-too", "--wait")
	j.kubectl("patch", "job", "queued", "--type=merge", "-p", `{"spec":{"suspend":false}}`)
	j.says("workload/prebuilt", "Admitted", "True", "Admitted")
	// A JobSet takes the Jobs with it that it does not need.
	j.kubectl("delete", "job/set-a-0", "--wait")
	j.says("jobset/set", "Completed", "True", "AllJobsCompleted")
	j.event("JobSet", "set-that-goes", "AllJobsCompleted")
	j.kubectl("delete", "jobset/set-that-goes", "--wait")
	j.event("Pod", "pod", "FinishedWorkload")
	j.kubectl("delete", "pod/pod", "workload/of-pod", "--grace-period=0", "--force", "--ignore-not-found", "--wait")
	j.kubectl("delete", "workload/not-chosen", "workload/waits", "job/queued-of-hub", "--wait")
	if err := Verify(t.Context(), f.Cluster, before); err != nil {
		t.Fatal(err)
	}
}

// event is the word of a controller that does not run here.
func (j *jobs) event(kind, name, reason string) {
	j.t.Helper()
	j.plane.KubectlInput(j.t, fmt.Sprintf(`
apiVersion: v1
kind: Event
metadata: {name: %s, namespace: %s}
involvedObject: {kind: %s, name: %s, namespace: %s, uid: %s}
reason: %s
type: Normal
`, name, j.namespace, kind, name, j.namespace, j.uid(kind+"/"+name), reason), "create", "-f", "-")
}

// Whatever is gone, stopped, started anew or failed is listed, with its UID and what is the matter, and nothing else is
// (K39).
func TestGuardTells(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	j := &jobs{t, f.plane, f.namespace}
	for _, name := range []string{"deleted", "replaced", "stopped", "restarted", "fails", "leaves", "goes-on"} {
		j.job(name, "labels: {}", "backoffLimit: 0")
	}
	j.job("queued", "labels: {}", "suspend: true")
	j.jobSet("set", "suspend: false")
	for _, name := range []string{"evicted", "fails", "lost", "readmitted"} {
		j.workload(name, j.owned("batch/v1", "Job", "goes-on"))
		j.says("workload/"+name, "Admitted", "True", "Admitted")
	}
	j.started("deleted", "replaced", "stopped", "restarted", "fails", "leaves", "goes-on")
	before := snapshot(t, f.Cluster, f.namespace)
	want(t, "how many are guarded", len(before), 13)
	// The times of Kubernetes have seconds.
	<-time.After(1100 * time.Millisecond)

	j.kubectl("delete", "job/deleted", "job/replaced", "job/queued", "workload/lost", "--wait")
	j.job("replaced", "labels: {}", "completions: 1")
	j.kubectl("patch", "job/stopped", "--type=merge", "-p", `{"spec":{"suspend":true}}`)
	j.kubectl("patch", "job/restarted", "--type=merge", "-p", `{"spec":{"suspend":true}}`)
	j.kubectl("wait", "--for=condition=Suspended", "job/restarted", "--timeout=60s")
	j.kubectl("patch", "job/restarted", "--type=merge", "-p", `{"spec":{"suspend":false}}`)
	j.started("restarted")
	j.end("fails", "Failed", "Failed")
	j.kubectl("patch", "job/leaves", "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/held"]}}`)
	j.kubectl("delete", "job/leaves", "--wait=false")
	t.Cleanup(func() {
		j.kubectl("patch", "job/leaves", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	})
	j.says("jobset/set", "Failed", "True", "FailedJobs")
	j.says("workload/evicted", "Evicted", "True", "ClusterQueueStopped")
	j.says("workload/fails", "Finished", "True", "Failed")
	j.says("workload/readmitted", "Admitted", "True", "Admitted")

	err := Verify(t.Context(), f.Cluster, before)
	for name, trouble := range map[string]string{
		"Job deleted":         "it is gone, and no event says that it had ended well",
		"Job replaced":        "it is gone, and another one has its name (UID " + j.uid("job/replaced") + ")",
		"Job queued":          "it is gone, and no event says",
		"Job stopped":         "it was stopped: it is suspended",
		"Job restarted":       "it was stopped and started again: it has run since ",
		"Job fails":           "it has failed: BackoffLimitExceeded: ",
		"Job leaves":          "it is being deleted",
		"JobSet set":          "it has failed: FailedJobs: as the test says",
		"Workload evicted":    "it was stopped: it is not admitted: Evicted is True: ClusterQueueStopped: as the test says",
		"Workload fails":      "it has not finished well: Failed: as the test says",
		"Workload lost":       "it is gone, and no event says",
		"Workload readmitted": "it was stopped and started again: it has run since ",
	} {
		kind, name, _ := strings.Cut(name, " ")
		at := slices.IndexFunc(before, func(one Guarded) bool { return one.Kind == kind && one.Name == name })
		told(t, err, fmt.Sprintf("%s/%s/%s (UID %s, was %s): %s", kind, f.namespace, name, before[at].UID, before[at].State, trouble))
	}
	told(t, err, `12 of 13 jobs on cluster "plane" are not as they were`, "nothing more was applied", "apply again")
	if strings.Contains(err.Error(), "goes-on") {
		t.Errorf("what goes on is listed:\n%s", err)
	}
	// What is active now is another matter: the next apply starts from there.
	if err := Verify(t.Context(), f.Cluster, snapshot(t, f.Cluster, f.namespace)); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Verify(ctx, f.Cluster, before); err == nil {
		t.Error("an interrupted look found everything in order")
	}
}

// A worker's Kueue may serve none of the versions that berth writes, and an upgrade may take the old one away: the UIDs are
// the same (K37, K46). Without JobSet and Kueue there are only Jobs, and a kind that is gone has lost its objects.
func TestGuardAcrossVersions(t *testing.T) {
	t.Parallel()
	plane := fleettest.NewCluster(t, fleettest.ClusterSpec{Name: "old", ControlPlaneOnly: true, Controllers: true})
	fleet := cluster.NewFleet(cluster.Settings{Owner: "platform", Entries: map[string]cluster.Entry{"old": {Kubeconfig: plane.AdminKubeconfig().Content()}}})
	c, err := fleet.Cluster("old")
	if err != nil {
		t.Fatal(err)
	}
	j := &jobs{t, plane, "default"}
	j.job("plain", "labels: {}", "completions: 1")
	j.started("plain")
	want(t, "without Kueue", recorded(snapshot(t, c, "default")), "Job/plain Running")

	plane.InstallKueueCRDs(t)
	const crd = "workloads.kueue.x-k8s.io"
	serve := func(old, current bool) {
		t.Helper()
		for name, served := range map[string]bool{"v1beta1": old, "v1beta2": current} {
			at := slices.Index(strings.Fields(plane.Kubectl(t, "get", "crd", crd, "-o", "jsonpath={.spec.versions[*].name}")), name)
			plane.Kubectl(t, "patch", "crd", crd, "--type=json", "-p", fmt.Sprintf(`[{"op":"replace","path":"/spec/versions/%d/served","value":%t}]`, at, served))
		}
	}
	served := func(version string) {
		t.Helper()
		fleettest.Eventually(t, func(ctx context.Context) error {
			_, err := plane.Client().Discovery().RESTClient().Get().AbsPath("/apis/kueue.x-k8s.io/" + version + "/workloads").DoRaw(ctx)
			return err
		})
	}
	serve(true, false)
	served("v1beta1")
	j.workload("old", "labels: {}")
	j.says("workload/old", "Admitted", "True", "Admitted")
	c.Forget()
	before := snapshot(t, c, "default")
	want(t, "with an old Kueue", recorded(before), "Job/plain Running, Workload/old Running")
	serve(false, true)
	served("v1beta2")
	fleettest.Eventually(t, func(context.Context) error { return Verify(t.Context(), c, before) })

	plane.Kubectl(t, "delete", "crd", crd, "--wait")
	c.Forget()
	told(t, Verify(t.Context(), c, before), "Workload/default/old (UID "+before[1].UID, "it is gone", "1 of 2 jobs")
}

// Under real Kueue: a Job that is dispatched to the worker and one of the worker's own are guarded while Kueue is killed
// there; the first ends well and is taken away by its hub, and the second is stopped by a queue that is drained, which its
// Workload tells, and started again (K37, K39, K46).
func TestGuardUnderKueue(t *testing.T) {
	nodes := []fleettest.NodeSpec{{Name: "n1"}}
	fleet := fleettest.New(t,
		fleettest.ClusterSpec{Name: "hub", Nodes: nodes, Engines: []fleettest.Engine{fleettest.EngineKueue}, AdmissionWebhooks: true},
		fleettest.ClusterSpec{Name: "worker", Nodes: nodes, Engines: []fleettest.Engine{fleettest.EngineKueue}, AdmissionWebhooks: true})
	hub, worker := fleet.Cluster("hub"), fleet.Cluster("worker")
	for _, c := range fleet.Clusters() {
		kueueFromChart(t, c)
	}
	for _, c := range fleet.Clusters() {
		c.Kubectl(t, "rollout", "status", "deployment/kueue-controller-manager", "-n", fleettest.KueueNamespace, "--timeout=3m")
		c.Kubectl(t, "create", "namespace", "team")
		c.KubectlInput(t, guardQueues, "apply", "--server-side", "-f", "-")
	}
	worker.Kubectl(t, "create", "serviceaccount", "multikueue", "-n", fleettest.KueueNamespace)
	worker.Kubectl(t, "create", "clusterrolebinding", "multikueue", "--clusterrole=cluster-admin", "--serviceaccount="+fleettest.KueueNamespace+":multikueue")
	kubeconfig := worker.ServiceAccountKubeconfig(t, fleettest.KueueNamespace+"/multikueue").Content()
	hub.KubectlInput(t, fmt.Sprintf(guardMember, base64.StdEncoding.EncodeToString([]byte(kubeconfig))), "apply", "--server-side", "-f", "-")
	hub.Kubectl(t, "patch", "clusterqueue", "team", "--type=merge", "-p", `{"spec":{"admissionChecksStrategy":{"admissionChecks":[{"name":"team"}]}}}`)
	hub.Kubectl(t, "wait", "--for=condition=Active", "admissioncheck/team", "clusterqueue/team", "--timeout=60s")

	of := func(c *fleettest.Cluster) *cluster.Cluster {
		entries := map[string]cluster.Entry{c.Name(): {Kubeconfig: c.AdminKubeconfig().Content()}}
		known, err := cluster.NewFleet(cluster.Settings{Owner: "platform", Entries: entries}).Cluster(c.Name())
		if err != nil {
			t.Fatal(err)
		}
		return known
	}
	// Neither finds a node yet. The pods of the queue's own Job never do.
	queued := "labels: {kueue.x-k8s.io/queue-name: team}"
	late := &jobs{t, hub, "team"}
	late.pinned("dispatched", queued, "completions: 1", "late")
	own := &jobs{t, worker, "team"}
	own.pinned("own", queued, "completions: 1", "never")
	own.kubectl("wait", "--for=create", "job/dispatched", "--timeout=60s")
	own.started("dispatched", "own")
	c := of(worker)
	var before []Guarded
	fleettest.Eventually(t, func(context.Context) error {
		if before = snapshot(t, c, "team"); len(before) != 4 {
			return fmt.Errorf("guarded are %s", recorded(before))
		}
		return nil
	})

	worker.Kueue().Kill(t)
	worker.Kubectl(t, "rollout", "status", "deployment/kueue-controller-manager", "-n", fleettest.KueueNamespace, "--timeout=3m")
	if err := Verify(t.Context(), c, before); err != nil {
		t.Fatal(err)
	}
	worker.AddNode(t, fleettest.NodeSpec{Name: "n2", Labels: map[string]string{"pool": "late"}})
	hub.Kubectl(t, "wait", "--for=condition=Complete", "job/dispatched", "-n", "team", "--timeout=60s")
	own.kubectl("wait", "--for=delete", "job/dispatched", "--timeout=60s")
	fleettest.Eventually(t, func(context.Context) error {
		if now := snapshot(t, c, "team"); len(now) != 2 {
			return fmt.Errorf("guarded are %s", recorded(now))
		}
		return nil
	})
	if err := Verify(t.Context(), c, before); err != nil {
		t.Fatal(err)
	}

	worker.Kubectl(t, "patch", "clusterqueue", "team", "--type=merge", "-p", `{"spec":{"stopPolicy":"HoldAndDrain"}}`)
	own.kubectl("wait", "--for=condition=Suspended", "job/own", "--timeout=60s")
	told(t, Verify(t.Context(), c, before), "2 of 4 jobs", "Job/team/own (UID "+own.uid("job/own")+", was Running): it was stopped: it is suspended", "Evicted is True: ClusterQueueStopped")
	worker.Kubectl(t, "patch", "clusterqueue", "team", "--type=merge", "-p", `{"spec":{"stopPolicy":"None"}}`)
	own.kubectl("wait", "--for=condition=Suspended=false", "job/own", "--timeout=60s")
	own.started("own")
	told(t, Verify(t.Context(), c, before), "2 of 4 jobs", "it was stopped and started again")
}

// kueueFromChart installs Kueue with Helm, which does not wait for anything.
func kueueFromChart(t *testing.T, c *fleettest.Cluster) {
	t.Helper()
	loaded, err := loader.Load(charts.Kueue(t, "0.17.0")[0])
	if err != nil {
		t.Fatal(err)
	}
	settings := cli.New()
	settings.KubeConfig = c.Kubeconfig()
	settings.SetNamespace(fleettest.KueueNamespace)
	configuration := new(action.Configuration)
	if err := configuration.Init(settings.RESTClientGetter(), fleettest.KueueNamespace, "memory", func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(configuration)
	install.ReleaseName, install.Namespace, install.CreateNamespace = "kueue", fleettest.KueueNamespace, true
	if _, err := install.Run(loaded, map[string]any{"managerConfig": map[string]any{"controllerManagerConfigYaml": guardKueueConfig}}); err != nil {
		t.Fatal(err)
	}
}

// guardKueueConfig is the configuration of a hub, and of a worker, whose only jobs are those of Kubernetes.
const guardKueueConfig = `
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {healthProbeBindAddress: ":8081"}
metrics: {bindAddress: ":8443"}
webhook: {port: 9443}
leaderElection: {leaderElect: true, resourceName: c1f6bfd2.kueue.x-k8s.io}
clientConnection: {qps: 50, burst: 100}
multiKueue: {origin: hub-of-test}
integrations: {frameworks: [batch/job]}
`

const guardQueues = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors: [{name: default, resources: [{name: cpu, nominalQuota: 4}, {name: memory, nominalQuota: 8Gi}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team, namespace: team}
spec: {clusterQueue: team}
`

// guardMember makes the worker a member of the hub. It takes the worker's kubeconfig.
const guardMember = `
apiVersion: v1
kind: Secret
metadata: {name: worker, namespace: kueue-system}
data: {kubeconfig: %s}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueCluster
metadata: {name: team}
spec: {clusterSource: {kubeConfig: {locationType: Secret, location: worker}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueConfig
metadata: {name: team}
spec: {clusters: [team]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: team}
spec:
  controllerName: kueue.x-k8s.io/multikueue
  parameters: {apiGroup: kueue.x-k8s.io, kind: MultiKueueConfig, name: team}
`
