package fleettest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// KnativeNamespace is where the Knative operator is usually installed.
	KnativeNamespace = "knative-operator"

	knativeModule = "knative.dev/operator"
	// knativeProgram is the name in .bin, of the Deployment, of its container and of its ServiceAccount.
	knativeProgram = "knative-operator"
	// knativeNewest is the minor of Knative whose operator tools/knative pins.
	knativeNewest = 15
	// knativeMinors is how many minors of Serving an operator brings: its own and three older.
	knativeMinors = 4
	// knativeBackOff is the least time between two starts, for an operator that can't but die.
	knativeBackOff = time.Second
)

// Knative plays the pod of the Knative operator on one cluster.
type Knative struct {
	cluster   *Cluster
	program   string
	kodata    string // the module's manifests
	namespace string

	mu      sync.Mutex
	running *process
	as      string    // what the running process was started for
	started time.Time // the last time
}

// StartKnative runs the real Knative operator (tools/knative) on the cluster, from now on and in the background,
// whenever its chart's Deployment "knative-operator" in the namespace has an available pod, which is simulated. The
// process has the variables of the Deployment's container and the permissions of its ServiceAccount. It is started anew
// when it dies or when the Deployment's pod template changes, and ends with the Deployment and with the fleet.
//
// The process is always the operator of Knative 1.15, which brings Serving 1.12 to 1.15, but it sees those manifests only
// that an operator of the version in the Deployment's image tag brings: of its own minor and three older ones. So an
// operator 1.14 can't install Serving 1.15. A tag without a version brings all four. For the tag of a newer operator no
// process runs, and what one would do is left to the test.
//
// The pods of Serving are simulated: its Jobs, such as the migration of stored versions, complete and do nothing; its
// webhooks don't answer; and Knative Services get no status but what a test writes.
func (c *Cluster) StartKnative(t testing.TB, namespace string) *Knative {
	t.Helper()
	programs, err := Build(t.Context(), knativeProgram)
	if err != nil {
		t.Fatal(err)
	}
	k, err := c.startKnative(t.Context(), programs[knativeProgram], namespace)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (c *Cluster) startKnative(ctx context.Context, program, namespace string) (*Knative, error) {
	dir, err := ModuleDir(ctx, "knative", knativeModule)
	if err != nil {
		return nil, err
	}
	k := &Knative{cluster: c, program: program, namespace: namespace, kodata: filepath.Join(dir, "cmd", "operator", "kodata")}
	c.tasks.Go(func() { k.follow(c.background) })
	return k, nil
}

// Knative is the operator that the spec's engines ask for, in the namespace KnativeNamespace, or nil.
func (c *Cluster) Knative() *Knative { return c.knative }

// Log is the path of the operator's log, to which each of its processes appends.
func (k *Knative) Log() string { return k.cluster.file(knativeProgram + ".log") }

// Running tells whether the operator's process runs.
func (k *Knative) Running() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.alive()
}

// Kill kills the operator's process, as a node that dies does, and fails the test when none runs. A new one follows.
func (k *Knative) Kill(t testing.TB) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.alive() {
		t.Fatal("fleettest: the Knative operator does not run")
	}
	if err := k.running.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-k.running.done
}

func (k *Knative) alive() bool {
	if k.running == nil {
		return false
	}
	select {
	case <-k.running.done:
		return false
	default:
		return true
	}
}

// follow keeps the process as the Deployment wants it until ctx ends.
func (k *Knative) follow(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var noted string
	for {
		err := k.reconcile(ctx)
		if err == nil {
			noted = ""
		} else if ctx.Err() == nil && err.Error() != noted {
			noted = err.Error()
			k.note(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// note writes an error of the harness into the operator's log, where who looks for it will look.
func (k *Knative) note(err error) {
	log, failed := os.OpenFile(k.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if failed != nil {
		return // the fleet's directory is going
	}
	defer func() { _ = log.Close() }()
	fmt.Fprintf(log, "fleettest: %v\n", err)
}

func (k *Knative) reconcile(ctx context.Context) error {
	deployment, err := k.cluster.client.AppsV1().Deployments(k.namespace).Get(ctx, knativeProgram, metav1.GetOptions{})
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		return nil // the API server is down, and pods go on without it
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if gone || !wantsPod(deployment) || imageMinor(operator(deployment).Image) > knativeNewest {
		k.end()
		return nil
	}
	as := deployment.Spec.Template.String()
	if k.alive() && k.as == as || !hasPod(deployment) || !k.hasWhatItNeeds(ctx) {
		return nil
	}
	if time.Since(k.started) < knativeBackOff {
		return nil
	}
	k.end()
	if err := k.start(deployment); err != nil {
		return err
	}
	k.as, k.started = as, time.Now()
	return nil
}

func wantsPod(d *appsv1.Deployment) bool {
	return d.DeletionTimestamp == nil && (d.Spec.Replicas == nil || *d.Spec.Replicas > 0)
}

// operator is the container of the operator, or an empty one.
func operator(d *appsv1.Deployment) corev1.Container {
	for _, container := range d.Spec.Template.Spec.Containers {
		if container.Name == knativeProgram {
			return container
		}
	}
	return corev1.Container{}
}

// hasPod tells whether a pod of the current template is available.
func hasPod(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas > 0 && d.Status.AvailableReplicas > 0
}

// hasWhatItNeeds tells whether the operator would start: without a ConfigMap or a CRD it ends at once.
func (k *Knative) hasWhatItNeeds(ctx context.Context) bool {
	for _, name := range []string{"config-logging", "config-observability"} {
		if _, err := k.cluster.client.CoreV1().ConfigMaps(k.namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return false
		}
	}
	for _, name := range []string{"knativeservings.operator.knative.dev", "knativeeventings.operator.knative.dev"} {
		crd, err := k.cluster.dynamic.Resource(crds).Get(ctx, name, metav1.GetOptions{})
		if err != nil || !isEstablished(*crd) {
			return false
		}
	}
	return true
}

func (k *Knative) end() {
	if k.alive() {
		k.cluster.supervisor.kill(k.running)
	}
	k.running, k.as = nil, ""
}

func (k *Knative) start(deployment *appsv1.Deployment) error {
	container := operator(deployment)
	kodata, err := k.bundle(container.Image)
	if err != nil {
		return err
	}
	account := or(deployment.Spec.Template.Spec.ServiceAccountName, "default")
	kubeconfig, err := k.cluster.componentKubeconfig(knativeProgram, k.namespace, account)
	if err != nil {
		return err
	}
	metrics, err := freePort()
	if err != nil {
		return err
	}
	profiling, err := freePort()
	if err != nil {
		return err
	}
	env := []string{
		"KO_DATA_PATH=" + kodata,
		"METRICS_PROMETHEUS_HOST=127.0.0.1", "METRICS_PROMETHEUS_PORT=" + strconv.Itoa(metrics),
		"PROFILING_PORT=" + strconv.Itoa(profiling),
	}
	for _, variable := range container.Env {
		env = append(env, variable.Name+"="+k.value(variable))
	}
	k.running, err = k.cluster.supervisor.runWith(env, knativeProgram, k.Log(), k.program,
		"--kubeconfig="+kubeconfig, "--disable-ha",
		// Its default of 10 requests per second would take a minute for what it installs.
		"--kube-api-qps=500", "--kube-api-burst=1000")
	return err
}

// value is what a kubelet would make of a variable; of the fields of a pod the chart uses the name and the namespace.
func (k *Knative) value(variable corev1.EnvVar) string {
	if variable.ValueFrom == nil || variable.ValueFrom.FieldRef == nil {
		return variable.Value
	}
	if variable.ValueFrom.FieldRef.FieldPath == "metadata.namespace" {
		return k.namespace
	}
	return knativeProgram + "-0"
}

// bundle gives the folder with the manifests that an operator of the image's version brings. It is the same folder for
// all versions, as in the image, since the status of a KnativeServing holds paths in it.
func (k *Knative) bundle(image string) (string, error) {
	to := k.cluster.file("kodata")
	if err := os.RemoveAll(to); err != nil {
		return "", err
	}
	newest := imageMinor(image)
	components, err := os.ReadDir(k.kodata)
	if err != nil {
		return "", err
	}
	for _, component := range components {
		versions, err := os.ReadDir(filepath.Join(k.kodata, component.Name()))
		if err != nil {
			return "", err
		}
		if err := os.MkdirAll(filepath.Join(to, component.Name()), 0o700); err != nil {
			return "", err
		}
		for _, version := range versions {
			if minor := minorOf(version.Name()); newest > 0 && minor > 0 && (minor > newest || minor <= newest-knativeMinors) {
				continue
			}
			path := filepath.Join(component.Name(), version.Name())
			if err := os.Symlink(filepath.Join(k.kodata, path), filepath.Join(to, path)); err != nil {
				return "", err
			}
		}
	}
	if found, err := os.ReadDir(filepath.Join(to, "knative-serving")); err != nil || len(found) == 0 {
		return "", errors.Join(fmt.Errorf("%s is of a version for which there are no manifests of Serving", image), err)
	}
	return to, nil
}

// imageMinor is the minor of the version that an image's tag names, and 0 where it names none.
func imageMinor(image string) int {
	tagged, _, _ := strings.Cut(image, "@")
	return minorOf(tagged[strings.LastIndex(tagged, ":")+1:])
}

// minorOf is the minor of a version 1.x, such as 14 of "v1.14.2", and 0 of anything else.
func minorOf(version string) int {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) < 2 || parts[0] != "1" {
		return 0
	}
	minor, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0
	}
	return minor
}
