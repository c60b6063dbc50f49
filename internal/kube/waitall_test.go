package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// whole is a cluster on which pods run, as kwok simulates them; what becomes of a pod is up to its image.
var whole = lazy{spec: fleettest.ClusterSpec{
	Name: "whole", Stages: imageStages, Nodes: []fleettest.NodeSpec{{Name: "node"}},
	StorageClasses: []fleettest.StorageClassSpec{{Name: "late", VolumeBindingMode: storagev1.VolumeBindingWaitForFirstConsumer}},
}}

// imageStages are kwok Stages for an image that cannot be pulled and for one whose program fails.
const imageStages = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: { name: image-broken }
spec:
  resourceRef: { apiGroup: v1, kind: Pod }
  selector:
    matchExpressions:
    - { key: '.metadata.deletionTimestamp', operator: DoesNotExist }
    - { key: '.spec.containers[].image', operator: In, values: ["broken.example.com/app:1"] }
  weight: 100
  next:
    statusTemplate: |
      phase: Pending
      containerStatuses:
      - { name: main, image: "broken.example.com/app:1", imageID: "", ready: false, restartCount: 0, state: { waiting: { reason: ErrImagePull, message: "failed to pull: 401 Unauthorized" } } }
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: { name: program-fails }
spec:
  resourceRef: { apiGroup: v1, kind: Pod }
  selector:
    matchExpressions:
    - { key: '.metadata.deletionTimestamp', operator: DoesNotExist }
    - { key: '.status.phase', operator: NotIn, values: ["Succeeded", "Failed"] }
    - { key: '.spec.containers[].image', operator: In, values: ["fails.example.com/app:1"] }
  weight: 100
  next:
    statusTemplate: |
      phase: Failed
      containerStatuses:
      - { name: main, image: "fails.example.com/app:1", imageID: "", ready: false, restartCount: 0, state: { terminated: { exitCode: 3, reason: Error, message: "no database" } } }
`

var (
	volumeClaims = cluster.Kind{Version: "v1", Resource: "persistentvolumeclaims", Kind: "PersistentVolumeClaim", Namespaced: true}
	stands       = "part=of-it"
)

// workload is the manifest of a workload with one container.
func workload(kind, name, image, spec string) string {
	version, selector := "apps/v1", fmt.Sprintf("selector: { matchLabels: { app: %s } }\n  ", name)
	policy := "Always"
	if kind == "Job" {
		version, selector, policy = "batch/v1", "", "Never"
	}
	return fmt.Sprintf(`
apiVersion: %s
kind: %s
metadata: { name: %s, labels: { part: of-it } }
spec:
  %s%s
  template:
    metadata: { labels: { app: %s } }
    spec:
      restartPolicy: %s
      containers: [ { name: main, image: %s, resources: { requests: { cpu: 10m } } } ]
`, version, kind, name, selector, spec, name, policy, image)
}

const good = "good.example.com/app:1"

// apply applies manifests to the fixture's namespace, past the proxy.
func (f *fixture) apply(manifests ...string) {
	f.t.Helper()
	f.plane.KubectlInput(f.t, strings.Join(manifests, "\n---\n"), "-n", f.namespace, "apply", "-f", "-")
}

func (f *fixture) target(kind cluster.Kind, name string) Target {
	return Target{Kind: kind, Namespace: f.namespace, Name: name}
}

// patient is for a wait that ends well: it fails, and does not hang, when it does not end.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// steps collects progress.
type steps struct {
	mutex sync.Mutex
	all   []cluster.Step
}

func (s *steps) add(_ context.Context, step cluster.Step) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.all = append(s.all, step)
}

// A wait ends when all are ready, tells how it goes, and costs lists by kind, not requests by object (promises 8 and 12).
func TestWaitAll(t *testing.T) {
	f := newFixtureOn(t, &whole, "ready")
	manifests := []string{
		workload("StatefulSet", "db", good, "serviceName: db"), workload("Job", "migrate", good, ""), workload("DaemonSet", "agent", good, ""),
		"apiVersion: v1\nkind: ConfigMap\nmetadata: { name: settings, labels: { part: of-it } }",
		"apiVersion: v1\nkind: Service\nmetadata: { name: web, labels: { part: of-it } }\nspec: { ports: [ { port: 80 } ] }",
		"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: { name: data, labels: { part: of-it } }\nspec: { storageClassName: late, accessModes: [ReadWriteOnce], resources: { requests: { storage: 1Gi } } }",
		"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: { name: more, labels: { part: of-it } }\nspec: { storageClassName: late, accessModes: [ReadWriteOnce], resources: { requests: { storage: 1Gi } } }",
	}
	targets := []Target{
		f.target(cluster.StatefulSets, "db"), f.target(cluster.Jobs, "migrate"), f.target(cluster.DaemonSets, "agent"),
		f.target(cluster.ConfigMaps, "settings"), f.target(cluster.Services, "web"), f.target(volumeClaims, "data"), f.target(volumeClaims, "more"),
		// A kind without a rule is not even looked for.
		f.target(cluster.Secrets, "of-a-hook"), f.target(cluster.Kind{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true}, "none"),
	}
	for i := range 10 {
		name := fmt.Sprintf("web-%d", i)
		manifests = append(manifests, workload("Deployment", name, good, "replicas: 2"))
		targets = append(targets, f.target(cluster.Deployments, name))
	}
	var progress steps
	done := make(chan error, 1)
	go func() {
		done <- WaitAll(patient(t), f.as(f.proxy.AdminKubeconfig(), progress.add), "release ready/app", targets, stands)
	}()
	f.apply(manifests...)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for i, step := range progress.all {
		if step.Object != "release ready/app" || step.Action != "wait until its objects are ready" || i > 0 && step.Reason == progress.all[i-1].Reason {
			t.Errorf("step %d: %+v", i, step)
		}
	}
	if !slices.ContainsFunc(progress.all, func(step cluster.Step) bool { return strings.Contains(step.Reason, "StatefulSet/ready/db: ") }) {
		t.Errorf("no step tells of the StatefulSet: %v", progress.all)
	}

	f.proxy.Reset()
	if err := WaitAll(patient(t), f.afresh(), "release ready/app", targets, stands); err != nil {
		t.Fatal(err)
	}
	want(t, "a look at what is ready", f.proxy.Counts(), map[string]int{
		"list deployments.apps": 1, "list statefulsets.apps": 1, "list daemonsets.apps": 1, "list jobs.batch": 1, "list services": 1,
		"list persistentvolumeclaims": 1, "get storageclasses.storage.k8s.io": 1,
	})

	// A label is easily taken off, and who may not list may still get.
	f.plane.Kubectl(t, "-n", "ready", "label", "deployment", "web-3", "part-")
	f.proxy.Reset()
	if err := WaitAll(patient(t), f.afresh(), "release ready/app", targets, stands); err != nil {
		t.Fatal(err)
	}
	want(t, "looks by name", f.proxy.Count("get deployments.apps"), 1)
	defer f.proxy.Fail(func(r fleettest.Request) bool { return r.Verb == "list" || r.Resource == "storageclasses" }, fleettest.Forbidden)()
	limited, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	deployments := slices.DeleteFunc(slices.Clone(targets), func(target Target) bool { return target.Kind != cluster.Deployments })
	if err := WaitAll(limited, f.afresh(), "release ready/app", deployments, stands); err != nil {
		t.Error(err)
	}
}

// A time-out names each object that is not ready, with the reason that only its ReplicaSet or its pods know: image,
// scheduling, quota, probe (promise 8).
func TestWaitAllTimesOut(t *testing.T) {
	f := newFixtureOn(t, &whole, "late")
	f.apply(
		"apiVersion: v1\nkind: ResourceQuota\nmetadata: { name: small }\nspec: { hard: { requests.cpu: 500m } }",
		workload("Deployment", "image", "broken.example.com/app:1", ""),
		strings.Replace(workload("Deployment", "nowhere", good, ""), "restartPolicy", "nodeSelector: { pool: gpu }\n      restartPolicy", 1),
		workload("Deployment", "ready", good, ""),
	)
	// The quota controller has to have seen the quota before it holds.
	fleettest.Eventually(t, func(ctx context.Context) error {
		quota, err := f.plane.Client().CoreV1().ResourceQuotas("late").Get(ctx, "small", metav1.GetOptions{})
		if err == nil && quota.Status.Hard == nil {
			err = errors.New("the quota is not counted yet")
		}
		return err
	})
	f.apply(strings.Replace(workload("Deployment", "quota", good, ""), "10m", "10", 1))
	targets := []Target{
		f.target(cluster.Deployments, "image"), f.target(cluster.Deployments, "nowhere"), f.target(cluster.Deployments, "quota"),
		f.target(cluster.Deployments, "ready"), f.target(cluster.ConfigMaps, "settings"),
	}
	// The wait is ended when the cluster has said everything, so that no clock decides.
	fleettest.Eventually(t, func(context.Context) error {
		said := f.plane.Kubectl(t, "-n", "late", "get", "events,pods,deployments", "-o", "jsonpath={range .items[*]}{.reason}{.status}{\"\\n\"}{end}")
		for _, word := range []string{"FailedCreate\n", "FailedScheduling\n", "ErrImagePull", "Unschedulable", "ReplicaFailure"} {
			if !strings.Contains(said, word) {
				return fmt.Errorf("nobody says %s", word)
			}
		}
		return nil
	})
	pods, err := f.plane.Client().CoreV1().Pods("late").List(t.Context(), metav1.ListOptions{LabelSelector: "app=image"})
	if err != nil || len(pods.Items) != 1 {
		t.Fatal(err, len(pods.Items))
	}
	pod := pods.Items[0]
	_, err = f.plane.Client().CoreV1().Events("late").Create(t.Context(), &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Type: "Warning", Reason: "Unhealthy", Message: "Readiness probe failed: HTTP probe failed with statuscode: 503",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "late", Name: pod.Name, UID: pod.UID}, Count: 7, LastTimestamp: metav1.Now(),
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	c := f.as(f.proxy.AdminKubeconfig(), func(_ context.Context, step cluster.Step) {
		if strings.Count(step.Reason, "Deployment/") == 3 && strings.Contains(step.Reason, "ReplicaFailure") {
			cancel()
		}
	})
	err = WaitAll(ctx, c, "release late/app", targets, stands)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the cause is %v", err)
	}
	refused(t, err, "3 of 5 objects of release late/app are not ready",
		"It was interrupted after ", "s: 3 of 5 objects of release late/app are not ready on whole.\n",
		"Deployment/late/image: 1 of 1 replicas updated, 0 available.\n  Pod "+pod.Name+": container main waits: ErrImagePull: failed to pull: 401 Unauthorized\n",
		"  Event Warning of Pod "+pod.Name+": Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 503 (7 times)\n",
		"Deployment/late/nowhere: 1 of 1 replicas updated, 0 available.\n  Pod nowhere-", ": PodScheduled is False: Unschedulable: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector",
		"Deployment/late/quota: ReplicaFailure: FailedCreate: pods \"quota-", "exceeded quota: small, requested: requests.cpu=10",
		"  Event Warning of ReplicaSet quota-", ": FailedCreate: Error creating: pods \"quota-",
		"\nLook at: kubectl --context whole describe deployment/image deployment/nowhere deployment/quota -n late")
	for _, word := range []string{"Deployment/late/ready", "FailedScheduling"} {
		if strings.Contains(err.Error(), word) {
			t.Errorf("%s is named, which is ready or has been told:\n%v", word, err)
		}
	}
	want(t, "lines about a quota that refuses again and again", strings.Count(err.Error(), "Error creating: "), 1)
}

// More than a handful is counted, not listed, and a time limit is called one.
func TestWaitAllManyMissing(t *testing.T) {
	f := newFixture(t, "missing")
	var targets []Target
	for i := range 7 {
		targets = append(targets, f.target(cluster.Deployments, fmt.Sprintf("web-%d", i)))
	}
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := WaitAll(short, f.Cluster, "release missing/app", targets, "")
	refused(t, err, "7 of 7 objects of release missing/app are not ready",
		"The time limit was reached after 1s: ", "Deployment/missing/web-4: it does not exist.\n… and 2 more.\nLook at: kubectl --context plane describe deployment/web-0 ")
	if strings.Contains(err.Error(), "web-5") {
		t.Error(err)
	}
}

// What failed for good ends the wait at once, with the pod's own words: nobody waits for a Job that will not complete.
func TestWaitAllFails(t *testing.T) {
	f := newFixtureOn(t, &whole, "fails")
	f.apply(workload("Job", "migrate", "fails.example.com/app:1", "backoffLimit: 0"), workload("Deployment", "web", "broken.example.com/app:1", ""))
	err := WaitAll(patient(t), f.Cluster, "release fails/app", []Target{f.target(cluster.Deployments, "web"), f.target(cluster.Jobs, "migrate")}, stands)
	details := []string{
		"Job/fails/migrate on whole: it has failed: BackoffLimitExceeded: Job has reached the specified backoff limit.\n",
		"Pod migrate-", ": container main ended with exit code 3: Error: no database\n",
		"Look at: kubectl --context whole describe job migrate -n fails",
	}
	refused(t, err, "Job/fails/migrate of release fails/app has failed", details...)
	refused(t, WaitDone(patient(t), f.Cluster, f.target(cluster.Jobs, "migrate")), "Job/fails/migrate has failed", details...)
	_, err = WaitReady(patient(t), f.Cluster, cluster.Jobs, "fails", "migrate")
	refused(t, err, "Job/fails/migrate has failed", details...)

	f.apply("apiVersion: v1\nkind: Pod\nmetadata: { name: once }\nspec: { restartPolicy: Never, containers: [ { name: main, image: fails.example.com/app:1, resources: { requests: { cpu: 10m } } } ] }")
	refused(t, WaitDone(patient(t), f.Cluster, f.target(cluster.Pods, "once")), "Pod/fails/once has failed",
		"Pod/fails/once on whole: it has failed: container main ended with exit code 3: Error: no database.\n")
}

// A claim that waits for its first consumer holds nothing up until a pod that uses it has a node; any other one is waited
// for. Who may not look at StorageClasses has the volume controller's event instead.
func TestWaitAllClaims(t *testing.T) {
	f := newFixture(t, "claims")
	class := func(name, mode string) string {
		return "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: { name: " + name + " }\nprovisioner: example.com/none\nvolumeBindingMode: " + mode
	}
	claim := func(name, class, annotations string) string {
		return "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: { name: " + name + ", annotations: {" + annotations + "} }\n" +
			"spec: { storageClassName: " + class + ", accessModes: [ReadWriteOnce], resources: { requests: { storage: 1Gi } } }"
	}
	f.apply(class("of-consumer", "WaitForFirstConsumer"), class("at-once", "Immediate"),
		claim("unused", "of-consumer", ""), claim("used", "of-consumer", selectedNode+": node"), claim("pending", "at-once", ""))
	wait := func(names ...string) error {
		var targets []Target
		for _, name := range names {
			targets = append(targets, f.target(volumeClaims, name))
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return WaitAll(short, f.afresh(), "release claims/app", targets, "")
	}
	refused(t, wait("unused", "used", "pending"), "2 of 3 objects of release claims/app are not ready",
		`PersistentVolumeClaim/claims/used: its phase is "Pending".`, `PersistentVolumeClaim/claims/pending: its phase is "Pending".`,
		"Look at: kubectl --context plane describe persistentvolumeclaim/used persistentvolumeclaim/pending -n claims")

	defer f.proxy.Fail(func(r fleettest.Request) bool { return r.Resource == "storageclasses" }, fleettest.Forbidden)()
	refused(t, wait("unused"), "1 of 1 objects of release claims/app are not ready")
	_, err := f.plane.Client().CoreV1().Events("claims").Create(t.Context(), &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "first"}, Type: "Normal", Reason: "WaitForFirstConsumer", Message: "waiting for first consumer to be created before binding",
		InvolvedObject: corev1.ObjectReference{
			Kind: "PersistentVolumeClaim", Namespace: "claims", Name: "unused",
			UID: types.UID(f.plane.Kubectl(t, "-n", "claims", "get", "pvc", "unused", "-o", "jsonpath={.metadata.uid}")),
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := wait("unused"); err != nil {
		t.Error(err)
	}
}

// A Job that is done counts, also when it has removed itself before anybody looked, and nothing else is waited for.
func TestWaitDone(t *testing.T) {
	f := newFixtureOn(t, &whole, "done")
	f.apply(workload("Job", "stays", good, ""), workload("Job", "goes", good, "ttlSecondsAfterFinished: 0"), workload("Job", "broken", "broken.example.com/app:1", ""))
	uid := func(name string) types.UID {
		t.Helper()
		return types.UID(f.plane.Kubectl(t, "-n", "done", "get", "jobs", name, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}"))
	}
	if err := WaitDone(patient(t), f.Cluster, f.target(cluster.Jobs, "stays")); err != nil {
		t.Error(err)
	}
	if err := WaitDone(patient(t), f.Cluster, f.target(cluster.ConfigMaps, "none")); err != nil {
		t.Error(err)
	}
	// The event tells the UID of a Job that may be gone already.
	var gone Target
	fleettest.Eventually(t, func(ctx context.Context) error {
		events, err := f.plane.Client().CoreV1().Events("done").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Job,involvedObject.name=goes"})
		if err != nil || len(events.Items) == 0 || uid("goes") != "" {
			return fmt.Errorf("it is still there: %w", err)
		}
		gone = f.target(cluster.Jobs, "goes")
		gone.UID = events.Items[0].InvolvedObject.UID
		return nil
	})
	if err := WaitDone(patient(t), f.Cluster, gone); err != nil {
		t.Error(err)
	}
	if err := WaitAll(patient(t), f.Cluster, "release done/app", []Target{gone, f.target(cluster.Jobs, "stays")}, stands); err != nil {
		t.Error(err)
	}

	removed := f.target(cluster.Jobs, "broken")
	removed.UID = uid("broken")
	f.plane.Kubectl(t, "-n", "done", "delete", "job", "broken")
	refused(t, WaitDone(patient(t), f.Cluster, removed), "Job/done/broken was removed before it had ended",
		"Job/done/broken on whole was removed, and no event says that it had completed.\n", "SuccessfulCreate: Created pod: broken-", "Find out who removed it")

	f.apply(workload("Job", "broken", "broken.example.com/app:1", ""))
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	refused(t, WaitDone(short, f.Cluster, f.target(cluster.Jobs, "broken")), "Job/done/broken is not there yet: wait until it is done",
		"The time limit was reached after 1s: Job/done/broken on whole: it has no condition Complete yet: 0 of 1 pods succeeded, ")
}

// What has gone is gone, however many others its kind has; what a finalizer holds is named with it; what took an object's
// name is another one; and an API server that is away for a moment is waited for (promises 8 and 10).
func TestWaitAllGone(t *testing.T) {
	f := newFixture(t, "gone")
	client := f.plane.Client().CoreV1()
	var group sync.WaitGroup
	for worker := range 10 {
		group.Go(func() {
			for i := range 60 {
				_, err := client.ConfigMaps("gone").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c-%d-%d", worker, i)}}, metav1.CreateOptions{})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	f.apply(
		"apiVersion: v1\nkind: ConfigMap\nmetadata: { name: z-1, finalizers: [example.com/hold] }", "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: z-2 }",
		"apiVersion: v1\nkind: Secret\nmetadata: { name: key, finalizers: [example.com/hold] }\ntype: helm.sh/release.v1",
	)
	replaced := f.target(cluster.ConfigMaps, "z-2")
	replaced.UID = f.read("z-2").UID
	f.plane.Kubectl(t, "-n", "gone", "delete", "configmap", "z-1", "z-2", "--wait=false")
	f.plane.Kubectl(t, "-n", "gone", "delete", "secret", "key", "--wait=false")
	f.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: { name: z-2 }")
	targets := []Target{
		f.target(cluster.ConfigMaps, "z-1"), replaced, f.target(cluster.ConfigMaps, "never"), f.target(cluster.Secrets, "key"),
		f.target(cluster.Kind{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true}, "of-a-crd-that-went"),
	}
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	f.proxy.Reset()
	err := WaitAllGone(short, f.Cluster, "release gone/app", targets)
	refused(t, err, "2 of 5 objects of release gone/app are still there",
		"ConfigMap/gone/z-1: finalizers: example.com/hold.\n", "Secret/gone/key: finalizers: example.com/hold.\n",
		"Look at: kubectl --context plane describe configmap/z-1 secret/key -n gone")
	pages := slices.DeleteFunc(f.proxy.Requests(), func(r fleettest.Request) bool {
		return r.Resource != "configmaps" || r.Query.Get("fieldSelector") != ""
	})
	if len(pages) < 2 || pages[0].Limit != 500 || pages[1].Continue == "" || !strings.Contains(pages[0].Accept, "PartialObjectMetadata") {
		t.Errorf("the list of ConfigMaps: %v", pages)
	}

	restore := f.proxy.Fail(nil, fleettest.BadGateway)
	done := make(chan error, 1)
	f.proxy.Reset()
	go func() { done <- WaitAllGone(patient(t), f.Cluster, "release gone/app", targets) }()
	fleettest.Eventually(t, func(context.Context) error {
		if n := f.proxy.Count("list configmaps"); n < 2 {
			return fmt.Errorf("%d looks", n)
		}
		return nil
	})
	restore()
	for _, object := range []string{"configmap/z-1", "secret/key"} {
		f.plane.Kubectl(t, "-n", "gone", "patch", object, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	}
	if err := <-done; err != nil {
		t.Errorf("a wait through an outage: %v", err)
	}
}

// A wait that the API server leaves without an answer says that what it knows may be old.
func TestWaitAllUnanswered(t *testing.T) {
	f := newFixture(t, "unanswered")
	defer f.proxy.Fail(nil, fleettest.Unavailable)()
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := WaitAll(short, f.Cluster, "release unanswered/app", []Target{f.target(cluster.Deployments, "web")}, "")
	refused(t, err, "1 of 1 objects of release unanswered/app are not ready",
		"Deployment/unanswered/web: nothing is known of it.", `The last look failed, so this may be out of date: Cluster "plane": its API server does not answer (503)`)
}
