package fleettest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// ArgoCDNamespace is where Argo CD is installed.
	ArgoCDNamespace = "argocd"

	argoCDModule = "github.com/argoproj/argo-cd/v3"
	// argoCDProgram and redisProgram are names in .bin.
	argoCDProgram = "argocd"
	redisProgram  = "redis"

	// Argo CD's programs are one binary, which takes its role from its name, or from a variable.
	argoCDController     = "argocd-application-controller"
	argoCDApplicationSet = "argocd-applicationset-controller"
	argoCDRepoServer     = "argocd-repo-server"
	argoCDRedis          = "argocd-redis"

	// argoCDBackOff is the least time between two starts of a program.
	argoCDBackOff = time.Second
)

// ArgoCD is Argo CD on one cluster: its application controller, ApplicationSet controller, repository server and cache,
// each a process that is started anew when it dies, with the permissions that upstream gives its ServiceAccount. Its
// settings are upstream's. There is no API server of it, and no Helm and no Kustomize but those on the PATH.
//
// Applications that an ApplicationSet made are deleted with it by the cluster's garbage collector, which a
// ControlPlaneOnly cluster has only with Controllers.
type ArgoCD struct {
	cluster *Cluster

	mu       sync.Mutex
	programs []*argoCDService // in the order in which they start
}

// argoCDService is one of the programs.
type argoCDService struct {
	name, path string
	env, args  []string
	ready      func(context.Context) error

	running *process
	started time.Time // the last time
}

// ArgoCD is the Argo CD that the spec's engines ask for, or nil.
func (c *Cluster) ArgoCD() *ArgoCD { return c.argoCD }

// Log is the path of the application controller's log, to which each of its processes appends.
func (a *ArgoCD) Log() string { return a.log(argoCDController) }

// Logs are the paths of the logs of all programs, the application controller's first.
func (a *ArgoCD) Logs() []string {
	return []string{a.Log(), a.log(argoCDRepoServer), a.log(argoCDApplicationSet), a.log(argoCDRedis)}
}

func (a *ArgoCD) log(name string) string { return a.cluster.file(name + ".log") }

// Kill kills the application controller, as a node that dies does, and fails the test when it does not run. A new one
// follows within a second.
func (a *ArgoCD) Kill(t testing.TB) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, service := range a.programs {
		if service.name != argoCDController {
			continue
		}
		if !service.alive() {
			t.Fatal("fleettest: the application controller does not run")
		}
		if err := service.running.signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-service.running.done
	}
}

// startArgoCD installs Argo CD and returns once all its programs serve.
func (c *Cluster) startArgoCD(ctx context.Context) error {
	if err := c.installArgoCD(ctx); err != nil {
		return fmt.Errorf("install Argo CD: %w", err)
	}
	project := make(chan error, 1)
	go func() { project <- c.createDefaultProject(ctx) }()
	if err := c.argoCDServes(ctx); err != nil {
		return fmt.Errorf("install Argo CD: %w", err)
	}
	a := &ArgoCD{cluster: c}
	for attempt := 1; ; attempt++ {
		err := a.start(ctx)
		if err == nil {
			break
		}
		a.end()
		if attempt == bootAttempts || !strings.Contains(err.Error(), "address already in use") {
			return err
		}
	}
	c.argoCD = a
	c.tasks.Go(func() { a.follow(c.background) })
	if err := <-project; err != nil {
		return fmt.Errorf("create Argo CD's default project: %w", err)
	}
	return nil
}

// start starts all programs on ports of their own and waits for them.
func (a *ArgoCD) start(ctx context.Context) error {
	var err error
	if a.programs, err = a.services(); err != nil {
		return err
	}
	for _, service := range a.programs {
		if err := a.run(service); err != nil {
			return err
		}
	}
	for _, service := range a.programs {
		if err := waitFor(ctx, service.running, service.ready); err != nil {
			return err
		}
	}
	return nil
}

func (a *ArgoCD) end() {
	for _, service := range a.programs {
		if service.running != nil {
			a.cluster.supervisor.kill(service.running)
		}
	}
}

func (a *ArgoCD) run(service *argoCDService) error {
	var err error
	service.running, err = a.cluster.supervisor.runWith(service.env, service.name, a.log(service.name), service.path, service.args...)
	service.started = time.Now()
	return err
}

func (s *argoCDService) alive() bool {
	if s.running == nil {
		return false
	}
	select {
	case <-s.running.done:
		return false
	default:
		return true
	}
}

// follow starts what has died until ctx ends.
func (a *ArgoCD) follow(ctx context.Context) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		a.mu.Lock()
		for _, service := range a.programs {
			if !service.alive() && time.Since(service.started) > argoCDBackOff {
				_ = a.run(service) // the next tick tries again
			}
		}
		a.mu.Unlock()
	}
}

// services describes the programs. Each decision that Argo CD takes after minutes, to spare real clusters, it takes here
// after seconds: it looks for changes every 2 s, believes what it knows of a git repository for 1 s, and goes on trying
// what failed.
func (a *ArgoCD) services() ([]*argoCDService, error) {
	var ports [7]int
	for i := range ports {
		var err error
		if ports[i], err = freePort(); err != nil {
			return nil, err
		}
	}
	at := func(i int) string { return "127.0.0.1:" + strconv.Itoa(ports[i]) }
	redis, repository := at(0), at(1)

	temporary := a.cluster.file("argocd")
	if err := os.MkdirAll(temporary, 0o700); err != nil {
		return nil, err
	}
	controller, err := a.cluster.componentKubeconfig(argoCDController, ArgoCDNamespace, argoCDController)
	if err != nil {
		return nil, err
	}
	applicationSet, err := a.cluster.componentKubeconfig(argoCDApplicationSet, ArgoCDNamespace, argoCDApplicationSet)
	if err != nil {
		return nil, err
	}
	program := a.cluster.programs[argoCDProgram]
	role := func(name, kubeconfig string, more ...string) []string {
		return append([]string{
			"ARGOCD_BINARY_NAME=" + name,
			// Git asks a program called "argocd" for passwords.
			"PATH=" + filepath.Dir(program) + string(filepath.ListSeparator) + os.Getenv("PATH"),
			"TMPDIR=" + temporary,
			// The destination https://kubernetes.default.svc is the cluster of KUBECONFIG.
			"KUBECONFIG=" + kubeconfig, "ARGOCD_FAKE_IN_CLUSTER=true",
			"ARGOCD_K8S_CLIENT_QPS=500", "ARGOCD_K8S_CLIENT_BURST=1000",
		}, more...)
	}
	return []*argoCDService{
		{
			name: argoCDRedis, path: a.cluster.programs[redisProgram],
			args:  []string{"-address=" + redis},
			ready: dials(redis),
		},
		{
			name: argoCDRepoServer, path: program,
			env: role(argoCDRepoServer, os.DevNull,
				"ARGOCD_GPG_ENABLED=false",
				// Relative to the working directory, since a socket's path may not be long.
				"ARGOCD_ASK_PASS_SOCK="+a.cluster.Name()+"-ask-pass.sock",
				// After three failures it would not try again for an hour.
				"ARGOCD_PAUSE_GEN_AFTER_FAILED_ATTEMPTS=0"),
			args: []string{
				"--address=127.0.0.1", "--port=" + strconv.Itoa(ports[1]), "--disable-tls",
				"--metrics-address=127.0.0.1", "--metrics-port=" + strconv.Itoa(ports[2]),
				"--redis=" + redis, "--revision-cache-expiration=1s", "--logformat=text",
			},
			ready: answers("http://" + at(2) + "/healthz"),
		},
		{
			name: argoCDController, path: program,
			env: role(argoCDController, controller, "ARGOCD_SYNC_WAVE_DELAY=0"),
			args: []string{
				"--kubeconfig=" + controller, "--namespace=" + ArgoCDNamespace,
				"--redis=" + redis, "--repo-server=" + repository, "--repo-server-plaintext",
				"--metrics-port=" + strconv.Itoa(ports[3]),
				"--app-resync=2", "--app-resync-jitter=0", "--repo-error-grace-period-seconds=0",
				"--self-heal-backoff-timeout-seconds=1", "--self-heal-backoff-factor=1", "--self-heal-backoff-cap-seconds=1",
				"--logformat=text",
			},
			ready: answers("http://" + at(3) + "/healthz"),
		},
		{
			name: argoCDApplicationSet, path: program,
			env: role(argoCDApplicationSet, applicationSet, "ARGOCD_APPLICATIONSET_CONTROLLER_REQUEUE_AFTER=2s"),
			args: []string{
				"--namespace=" + ArgoCDNamespace,
				"--argocd-repo-server=" + repository, "--repo-server-plaintext",
				"--metrics-addr=" + at(4), "--probe-addr=" + at(5), "--webhook-addr=" + at(6),
				"--logformat=text",
			},
			ready: answers("http://" + at(4) + "/metrics"),
		},
	}, nil
}

// dials checks that something listens on an address.
func dials(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return connection.Close()
	}
}

// answers checks that a URL does.
func answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultTransport.RoundTrip(request) // no proxy from the environment for loopback
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(url + ": " + response.Status)
		}
		return nil
	}
}
