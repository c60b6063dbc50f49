package fleettest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	// managerBackOff is the least time between two starts of a manager that dies.
	managerBackOff = time.Second
	// managerPatience is how long a call of a webhook waits for a manager that is starting; the API server itself gives
	// up after 10 s.
	managerPatience = 9 * time.Second
	// managerCertificates is where a manager's pod has the Secret with the certificate of its webhooks.
	managerCertificates = "/tmp/k8s-webhook-server/serving-certs"
)

// Manager plays the pod of a controller manager on one cluster: the real program runs as a process as long as its chart's
// Deployment, in whatever namespace, has a pod that is scheduled. The process has what the pod would have: the
// configuration of the mounted ConfigMap, other than the ports, the leader election, which is off, and the metrics, which
// are not served; the container's arguments and variables; the certificate of the mounted Secret; and the permissions of
// the ServiceAccount.
//
// Its pod is Ready only while the process says so itself, and so is the Deployment available. Webhooks, conversions of
// kinds and aggregated APIs that lead to a Service in front of the pod reach the process, with the certificates that the
// chart and the program agree on. Admission webhooks are called where the spec has AdmissionWebhooks.
//
// The process is started anew when it dies, when its pod goes, or when there is a pod of a changed template. A ConfigMap
// that changes by itself changes nothing before that, as the chart mounts it by a subPath.
type Manager struct {
	cluster *Cluster
	kind    managerKind

	mu         sync.Mutex
	deployment *appsv1.Deployment // that is played; nil without one
	running    *process
	pod        types.UID // that the process plays
	started    time.Time // the last time
	restarts   int       // of the pod
	ready      bool
	local      map[int]int // ports on loopback, by those of the container
	health     int         // the port of the process's health
	told       map[types.UID]string
	mounted    string // the version of the Secret that is in the process's files
}

var managerKinds = []managerKind{kueueKind, jobSetKind}

// managerKinds are the managers that the spec asks for.
func (s ClusterSpec) managerKinds() []managerKind {
	var asked []managerKind
	for _, kind := range managerKinds {
		if slices.Contains(s.Engines, kind.engine) {
			asked = append(asked, kind)
		}
	}
	return asked
}

// startManagers plays the pods of the managers in the background.
func (c *Cluster) startManagers() {
	for _, m := range c.managers {
		c.tasks.Go(func() { m.follow(c.background) })
	}
}

// manager is the cluster's manager of an engine, or nil.
func (c *Cluster) manager(engine Engine) *Manager {
	for _, m := range c.managers {
		if m.kind.engine == engine {
			return m
		}
	}
	return nil
}

// name is what the manager's files are called.
func (m *Manager) name() string { return m.kind.latest().name }

// Log is the path of the manager's log, to which each of its processes appends.
func (m *Manager) Log() string { return m.cluster.file(m.name() + ".log") }

// Running tells whether the manager's process runs and says that it is ready.
func (m *Manager) Running() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.alive() && m.ready
}

// Kill kills the manager's process, as a node that runs out of memory does, and fails the test when none runs. A new one
// follows within a second or two.
func (m *Manager) Kill(t testing.TB) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.alive() {
		t.Fatalf("fleettest: %s does not run", m.kind.deployment)
	}
	m.ready = false
	if err := m.running.signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-m.running.done
}

func (m *Manager) alive() bool {
	if m.running == nil {
		return false
	}
	select {
	case <-m.running.done:
		return false
	default:
		return true
	}
}

// follow keeps the process and the status of its pods as the Deployment wants them until ctx ends.
func (m *Manager) follow(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var noted string
	for {
		remark, err := m.reconcile(ctx)
		if err != nil {
			remark = err.Error()
		}
		if remark != noted && ctx.Err() == nil {
			noted = remark
			m.note(remark)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// note writes a remark of the harness into the manager's log, where who looks for it will look.
func (m *Manager) note(remark string) {
	if remark == "" {
		return
	}
	log, failed := os.OpenFile(m.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if failed != nil {
		return // the fleet's directory is going
	}
	defer func() { _ = log.Close() }()
	fmt.Fprintf(log, "fleettest: %s\n", remark)
}

// reconcile does what is due, and gives a remark for the log.
func (m *Manager) reconcile(ctx context.Context) (string, error) {
	deployment, err := m.find(ctx)
	if err != nil {
		return "", nil // the API server is down, and pods go on without it
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deployment = deployment
	if deployment == nil {
		m.end()
		return "", nil
	}
	pods, err := m.pods(ctx, deployment)
	if err != nil {
		return "", nil // as above
	}
	container, err := m.container(deployment)
	if err != nil {
		m.end()
		return "", err
	}
	program, remark := m.kind.choose(container.Image)
	if program.name == "" {
		m.end()
		return remark, m.tell(ctx, pods, podReady)
	}
	if i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.UID == m.pod }); i < 0 {
		if len(pods) == 0 && m.hasOld(ctx) {
			return remark, nil // until there is a pod of the new template, the old one runs on
		}
		m.end()
		if len(pods) == 0 {
			return remark, nil
		}
		m.pod, m.restarts = pods[0].UID, 0
	} else {
		pods[0], pods[i] = pods[i], pods[0]
	}
	if m.running != nil && !m.alive() {
		m.ready, m.running = false, nil
		m.restarts++
		if err := m.tell(ctx, pods[:1], podCrashed); err != nil {
			return remark, err
		}
	}
	// A pod starts when what it mounts is there.
	if m.kind.tend != nil {
		if err := m.kind.tend(ctx, m); err != nil {
			return remark, err
		}
	}
	if err := m.mount(ctx, deployment, container); err != nil {
		return remark, err
	}
	if m.running == nil {
		if time.Since(m.started) < managerBackOff {
			return remark, nil
		}
		m.started = time.Now()
		if err := m.start(ctx, deployment, container, program); err != nil {
			return remark, err
		}
	}
	if !m.ready {
		m.ready = isReady(ctx, m.health)
	}
	if m.ready {
		return remark, m.tell(ctx, pods, podReady)
	}
	return remark, nil
}

// find gives the Deployment to play, or nil. Of several, which no chart makes, it is the first one.
func (m *Manager) find(ctx context.Context) (*appsv1.Deployment, error) {
	list, err := m.cluster.client.AppsV1().Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, m.kind.deployment).String(),
	})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if wantsPod(&list.Items[i]) {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// container is the manager's container.
func (m *Manager) container(d *appsv1.Deployment) (corev1.Container, error) {
	for _, container := range d.Spec.Template.Spec.Containers {
		if container.Name == m.kind.container {
			return container, nil
		}
	}
	return corev1.Container{}, fmt.Errorf("the Deployment %s/%s has no container %q", d.Namespace, d.Name, m.kind.container)
}

func (m *Manager) end() {
	if m.alive() {
		m.cluster.supervisor.kill(m.running)
	}
	m.running, m.pod, m.ready, m.mounted = nil, "", false, ""
	clear(m.told)
}

func (m *Manager) start(ctx context.Context, deployment *appsv1.Deployment, container corev1.Container, program managerProgram) error {
	programs, err := Build(ctx, program.name)
	if err != nil {
		return err
	}
	account := or(deployment.Spec.Template.Spec.ServiceAccountName, "default")
	kubeconfig, err := m.cluster.componentKubeconfig(m.name(), deployment.Namespace, account)
	if err != nil {
		return err
	}
	args, err := m.configured(ctx, deployment, container, program)
	if err != nil {
		return err
	}
	dir := m.cluster.file(m.name())
	env := []string{"TMPDIR=" + dir}
	for _, variable := range container.Env {
		if variable.ValueFrom == nil {
			env = append(env, variable.Name+"="+variable.Value)
		}
	}
	// In a directory of its own, in place of the pod's own file system.
	args = append([]string{"-c", `cd "$1" && shift && exec "$@"`, m.name(), dir, programs[program.name], "--kubeconfig=" + kubeconfig}, args...)
	m.running, err = m.cluster.supervisor.runWith(env, m.name(), m.Log(), "/bin/sh", args...)
	return err
}

// mount writes the Secret with the certificate of the webhooks, which the manager may write itself, into files.
func (m *Manager) mount(ctx context.Context, deployment *appsv1.Deployment, container corev1.Container) error {
	volume, _ := mountedAt(deployment, container, managerCertificates)
	if volume.Secret == nil {
		return fmt.Errorf("the container %q has no Secret at %s", container.Name, managerCertificates)
	}
	secret, err := m.cluster.client.CoreV1().Secrets(deployment.Namespace).Get(ctx, volume.Secret.SecretName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if secret.ResourceVersion == m.mounted {
		return nil
	}
	dir := filepath.Join(m.cluster.file(m.name()), "certificates")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// By name backwards: a program takes tls.crt as the sign that the other files are there.
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(secret.Data))) {
		if len(secret.Data[name]) == 0 {
			continue
		}
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file+".new", secret.Data[name], 0o600); err != nil {
			return err
		}
		if err := os.Rename(file+".new", file); err != nil {
			return err
		}
	}
	m.mounted = secret.ResourceVersion
	return nil
}

// mountedAt gives the volume that a container has at a path, and which part of it.
func mountedAt(deployment *appsv1.Deployment, container corev1.Container, path string) (volume corev1.Volume, part string) {
	for _, mount := range container.VolumeMounts {
		if mount.MountPath != path {
			continue
		}
		for _, volume := range deployment.Spec.Template.Spec.Volumes {
			if volume.Name == mount.Name {
				return volume, mount.SubPath
			}
		}
	}
	return corev1.Volume{}, ""
}

// serves gives the address of what a port of the pods that a Service selects leads to, once the process listens there,
// or tells that the pods are not the manager's.
func (m *Manager) serves(ctx context.Context, service corev1.Service, target intstr.IntOrString) (address string, ours bool) {
	deadline := time.After(managerPatience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		m.mu.Lock()
		deployment, started, ready := m.deployment, m.running != nil, m.ready
		local := m.local
		m.mu.Unlock()
		if deployment == nil || !started || deployment.Namespace != service.Namespace || len(service.Spec.Selector) == 0 ||
			!labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(deployment.Spec.Template.Labels)) {
			return "", false
		}
		port, known := local[containerPort(deployment.Spec.Template.Spec.Containers, target)]
		if !known {
			return "", false
		}
		if ready {
			return fmt.Sprintf("127.0.0.1:%d", port), true
		}
		select {
		case <-ctx.Done():
			return "", false
		case <-deadline:
			return "", false
		case <-tick.C:
		}
	}
}

// probes makes no connection that it does not use: a program that wants to stop serving would wait for it.
var probes = &http.Transport{DisableKeepAlives: true}

// isReady tells whether a process says so on the port of its health.
func isReady(ctx context.Context, port int) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/readyz", port), nil)
	if err != nil {
		return false
	}
	response, err := probes.RoundTrip(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}
