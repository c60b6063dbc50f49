package fleettest_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
)

func kueue(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: resource}
}

// A Job of the hub runs on the worker and comes back complete, by real Kueue on both, of which the hub's is killed
// meanwhile (K33). The hub calls Kueue's webhooks, which make the Job MultiKueue's, and the worker does not.
func TestKueue(t *testing.T) {
	nodes := []fleettest.NodeSpec{{Name: "n1"}}
	engines := []fleettest.Engine{fleettest.EngineKueue}
	fleet := fleettest.New(t,
		fleettest.ClusterSpec{Name: "hub", Nodes: nodes, Engines: engines, AdmissionWebhooks: true},
		fleettest.ClusterSpec{Name: "worker", Nodes: nodes, Engines: engines})
	hub, worker := fleet.Cluster("hub"), fleet.Cluster("worker")
	logged(t, hub.Kueue(), worker.Kueue())
	step := steps(t)

	archive := charts.Kueue(t, "0.17.0")[0]
	for _, c := range fleet.Clusters() {
		if c.Kueue().Running() {
			t.Error("Kueue runs before it is installed")
		}
		installChart(t, c, archive, "kueue", fleettest.KueueNamespace, map[string]any{
			"managerConfig": map[string]any{"controllerManagerConfigYaml": kueueConfig},
		})
	}
	step("Kueue is installed")
	for _, c := range fleet.Clusters() {
		c.Kubectl(t, "rollout", "status", "deployment/kueue-controller-manager", "-n", fleettest.KueueNamespace, "--timeout=3m")
		if !c.Kueue().Running() {
			t.Error("the Deployment is available and Kueue does not run")
		}
	}
	step("Kueue runs")

	// What the API server asks of Kueue it gets: conversions of kinds, and an API of its own.
	for _, c := range fleet.Clusters() {
		c.Kubectl(t, "create", "namespace", "team")
		c.KubectlInput(t, queues, "apply", "--server-side", "-f", "-")
		if old := c.Kubectl(t, "get", "clusterqueues.v1beta1.kueue.x-k8s.io", "team", "-o", "jsonpath={.apiVersion}"); old != "kueue.x-k8s.io/v1beta1" {
			t.Errorf("the ClusterQueue in v1beta1 is of %q", old)
		}
		c.Kubectl(t, "wait", "--for=condition=Available", "apiservice/v1beta2.visibility.kueue.x-k8s.io", "--timeout=60s")
		// It knows of the queue a moment after the API server does.
		fleettest.Eventually(t, func(ctx context.Context) error {
			return c.Client().Discovery().RESTClient().Get().AbsPath("/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/team/pendingworkloads").Do(ctx).Error()
		})
	}
	step("the queues are there")

	worker.KubectlInput(t, workerRights, "apply", "--server-side", "-f", "-")
	kubeconfig := worker.ServiceAccountKubeconfig(t, fleettest.KueueNamespace+"/multikueue").Content()
	hub.KubectlInput(t, fmt.Sprintf(members, base64.StdEncoding.EncodeToString([]byte(kubeconfig))), "apply", "--server-side", "-f", "-")
	hub.Kubectl(t, "patch", "clusterqueue", "team", "--type=merge", "-p", `{"spec":{"admissionChecksStrategy":{"admissionChecks":[{"name":"team"}]}}}`)
	for _, resource := range []string{"multikueueclusters", "admissionchecks", "clusterqueues"} {
		waitActive(t, hub, resource)
	}
	step("the worker is a member")

	hub.KubectlInput(t, job, "apply", "--server-side", "-f", "-")
	if by := hub.Kubectl(t, "get", "job", "example", "-n", "team", "-o", "jsonpath={.spec.managedBy} {.spec.suspend}"); by != "kueue.x-k8s.io/multikueue true" {
		t.Errorf("Kueue's webhook has made the Job one with managedBy and suspend %q", by)
	}
	fleettest.Eventually(t, func(ctx context.Context) error {
		list, err := worker.Dynamic().Resource(kueue("workloads")).Namespace("team").List(ctx, metav1.ListOptions{
			LabelSelector: "kueue.x-k8s.io/multikueue-origin=hub-of-test",
		})
		if err != nil || len(list.Items) != 1 {
			return unless(err, false, "the worker has %d Workloads of the hub", len(list.Items))
		}
		status, message := condition(&list.Items[0], "Admitted")
		return unless(nil, status == "True", "Admitted is %s: %s", status, message)
	})
	fleettest.Eventually(t, func(ctx context.Context) error {
		copied, err := worker.Client().BatchV1().Jobs("team").Get(ctx, "example", metav1.GetOptions{})
		if err != nil {
			return err
		}
		of := copied.Labels["kueue.x-k8s.io/multikueue-origin"]
		return unless(nil, of == "hub-of-test" && copied.Status.Active == 1, "the Job is of %q and has %d pods", of, copied.Status.Active)
	})
	step("the worker has admitted the Job, which waits for a node")

	hub.Kueue().Kill(t)
	worker.AddNode(t, fleettest.NodeSpec{Name: "n2", Labels: map[string]string{"pool": "late"}})
	hub.Kubectl(t, "wait", "--for=condition=Complete", "job/example", "-n", "team", "--timeout=60s")
	fleettest.Eventually(t, func(ctx context.Context) error {
		list, err := worker.Client().BatchV1().Jobs("team").List(ctx, metav1.ListOptions{})
		return unless(err, err == nil && len(list.Items) == 0, "the worker still has the Job")
	})
	step("Kueue was killed, and the Job is complete on the hub and gone from the worker")

	// A program that can't run has a pod that is not ready.
	worker.Kubectl(t, "patch", "configmap", "kueue-manager-config", "-n", fleettest.KueueNamespace, "--type=merge", "-p", `{"data":{"controller_manager_config.yaml":"kind: Nonsense"}}`)
	worker.Kueue().Kill(t)
	fleettest.Eventually(t, func(ctx context.Context) error {
		pods, err := worker.Client().CoreV1().Pods(fleettest.KueueNamespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(pods.Items) != 1 || len(pods.Items[0].Status.ContainerStatuses) != 1 {
			return unless(err, false, "there are not one pod and one container")
		}
		status := pods.Items[0].Status.ContainerStatuses[0]
		crashed := status.State.Waiting != nil && status.State.Waiting.Reason == "CrashLoopBackOff"
		return unless(nil, crashed && !status.Ready && status.RestartCount > 1, "the container is %+v", status)
	})
	deployment, err := worker.Client().AppsV1().Deployments(fleettest.KueueNamespace).Get(t.Context(), "kueue-controller-manager", metav1.GetOptions{})
	if err != nil || deployment.Status.AvailableReplicas != 0 {
		t.Errorf("%d replicas are available: %v", deployment.Status.AvailableReplicas, err)
	}

	hub.Kubectl(t, "delete", "deployment", "kueue-controller-manager", "-n", fleettest.KueueNamespace)
	fleettest.Eventually(t, func(context.Context) error { return unless(nil, !hub.Kueue().Running(), "Kueue still runs") })
	step("Kueue ends with its Deployment")
}

// kueueConfig is the configuration of a hub, and of a worker, whose only jobs are those of Kubernetes.
const kueueConfig = `
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health:
  healthProbeBindAddress: :8081
metrics:
  bindAddress: :8443
webhook:
  port: 9443
leaderElection:
  leaderElect: true
  resourceName: c1f6bfd2.kueue.x-k8s.io
clientConnection:
  qps: 50
  burst: 100
multiKueue:
  origin: hub-of-test
integrations:
  frameworks:
  - batch/job
`

const queues = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata:
  name: default
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata:
  name: team
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: default
      resources:
      - name: cpu
        nominalQuota: 4
      - name: memory
        nominalQuota: 8Gi
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata:
  name: team
  namespace: team
spec:
  clusterQueue: team
`

// workerRights are those of the hub on the worker.
const workerRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: multikueue
rules:
- apiGroups: [batch]
  resources: [jobs]
  verbs: [create, delete, get, list, watch]
- apiGroups: [batch]
  resources: [jobs/status]
  verbs: [get]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [create, delete, get, list, watch, update, patch]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads/status]
  verbs: [get, patch, update]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: multikueue
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: multikueue
subjects:
- kind: ServiceAccount
  name: multikueue
  namespace: kueue-system
`

// members make the worker a member of the hub. It takes the worker's kubeconfig.
const members = `
apiVersion: v1
kind: Secret
metadata:
  name: worker
  namespace: kueue-system
data:
  kubeconfig: %s
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueCluster
metadata:
  name: team
spec:
  clusterSource:
    kubeConfig:
      locationType: Secret
      location: worker
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueConfig
metadata:
  name: team
spec:
  clusters: [team]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata:
  name: team
spec:
  controllerName: kueue.x-k8s.io/multikueue
  parameters:
    apiGroup: kueue.x-k8s.io
    kind: MultiKueueConfig
    name: team
`

const job = `
apiVersion: batch/v1
kind: Job
metadata:
  name: example
  namespace: team
  labels:
    kueue.x-k8s.io/queue-name: team
spec:
  template:
    spec:
      restartPolicy: Never
      nodeSelector:
        pool: late
      containers:
      - name: example
        image: registry.example.com/example:1
        resources:
          requests:
            cpu: "1"
            memory: 1Gi
`

// waitActive waits until the object "team" of a resource of Kueue is Active.
func waitActive(t *testing.T, c *fleettest.Cluster, resource string) {
	t.Helper()
	fleettest.Eventually(t, func(ctx context.Context) error {
		object, err := c.Dynamic().Resource(kueue(resource)).Get(ctx, "team", metav1.GetOptions{})
		if err != nil {
			return err
		}
		status, message := condition(object, "Active")
		return unless(nil, status == "True", "%s: Active is %q: %s", resource, status, message)
	})
}

// installChart installs a chart with Helm, which does not wait for anything.
func installChart(t *testing.T, c *fleettest.Cluster, archive, release, namespace string, values map[string]any) {
	t.Helper()
	loaded, err := loader.Load(archive)
	if err != nil {
		t.Fatal(err)
	}
	settings := cli.New()
	settings.KubeConfig = c.Kubeconfig()
	settings.SetNamespace(namespace)
	configuration := new(action.Configuration)
	if err := configuration.Init(settings.RESTClientGetter(), namespace, "memory", func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(configuration)
	install.ReleaseName, install.Namespace, install.CreateNamespace = release, namespace, true
	if _, err := install.Run(loaded, values); err != nil {
		t.Fatal(err)
	}
}

// logged shows the ends of the managers' logs when the test fails.
func logged(t *testing.T, managers ...*fleettest.Manager) {
	t.Cleanup(func() {
		for _, m := range managers {
			if t.Failed() {
				log, _ := os.ReadFile(m.Log())
				t.Logf("%s ends with:\n%s", m.Log(), log[max(0, len(log)-4000):])
			}
		}
	})
}

// steps gives a function that logs how long each step took.
func steps(t *testing.T) func(what string) {
	began := time.Now()
	return func(what string) {
		t.Logf("%s: %s", what, time.Since(began).Round(100*time.Millisecond))
		began = time.Now()
	}
}
