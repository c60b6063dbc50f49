package fleettest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Cluster is one running cluster. Its methods are safe for concurrent use, except those that stop, start or freeze
// the API server.
type Cluster struct {
	spec       ClusterSpec
	dir        string
	supervisor *supervisor
	programs   map[string]string

	ca    *authority
	admin pair
	etcd  string
	port  int

	apiServer *process
	config    *rest.Config
	client    *kubernetes.Clientset
	dynamic   *dynamic.DynamicClient
	uid       string
	version   string
	front     *Proxy
	knative   *Knative
	argoCD    *ArgoCD
	egress    *egress
	managers  []*Manager

	background     context.Context
	stopBackground context.CancelFunc
	tasks          sync.WaitGroup

	mu        sync.Mutex
	proxies   []*Proxy
	addresses int // of load balancers given out
}

// Name is the name of the spec, of the kubeconfig's context and of its cluster.
func (c *Cluster) Name() string { return c.spec.Name }

// UID is the UID of the namespace kube-system, which is the cluster's identity.
func (c *Cluster) UID() string { return c.uid }

// Version is what the API server reports, such as "v1.36.3".
func (c *Cluster) Version() string { return c.version }

// Dir holds the cluster's files, its logs (<program>.log) among them. It goes with the fleet.
func (c *Cluster) Dir() string { return c.dir }

// CA is the PEM-encoded certificate authority of the API server and of its proxies.
func (c *Cluster) CA() []byte { return c.ca.pem }

// Server is the URL of the API server, or of the proxy in front of it where the spec asked for one.
func (c *Cluster) Server() string {
	if c.front != nil {
		return c.front.Server()
	}
	return c.directServer()
}

func (c *Cluster) directServer() string { return fmt.Sprintf("https://127.0.0.1:%d", c.port) }

// Kubeconfig is the path of the administrator's kubeconfig, for Server.
func (c *Cluster) Kubeconfig() string { return c.file("kubeconfig") }

// FrontProxy is the proxy that the spec asked for, or nil. The harness itself goes past it.
func (c *Cluster) FrontProxy() *Proxy { return c.front }

// RESTConfig is an administrator's connection straight to the API server, a copy of its own for each caller.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.config) }

// Client is an administrator's typed client, straight to the API server.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// Dynamic is an administrator's dynamic client, straight to the API server.
func (c *Cluster) Dynamic() dynamic.Interface { return c.dynamic }

// Kubectl runs kubectl as the administrator and returns its standard output. It fails the test, with what kubectl
// said, when kubectl fails.
func (c *Cluster) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	return c.KubectlInput(t, "", args...)
}

// KubectlInput is Kubectl with standard input, as for "apply", "-f", "-".
func (c *Cluster) KubectlInput(t testing.TB, input string, args ...string) string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // cleanups use it too
	programs, err := Build(ctx, "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	direct := c.file("direct.kubeconfig")
	cmd := exec.CommandContext(ctx, programs["kubectl"], append([]string{"--kubeconfig=" + direct, "--cache-dir=" + c.file("kubectl-cache")}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl %s on cluster %q: %v\n%s", strings.Join(args, " "), c.Name(), err, stderr.String())
	}
	return string(out)
}

// StopAPIServer kills the API server: connections are refused until StartAPIServer.
func (c *Cluster) StopAPIServer(t testing.TB) {
	t.Helper()
	c.supervisor.kill(c.apiServer)
}

// StartAPIServer starts the API server after StopAPIServer, on the same port and data, and waits until it is ready.
func (c *Cluster) StartAPIServer(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bootTimeout)
	defer cancel()
	if err := c.startAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
}

// Freeze stops the API server in its tracks: connections are taken by the kernel and never answered.
func (c *Cluster) Freeze(t testing.TB) {
	t.Helper()
	if err := c.apiServer.signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

// Thaw lets a frozen API server go on.
func (c *Cluster) Thaw(t testing.TB) {
	t.Helper()
	if err := c.apiServer.signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// Eventually calls check until it returns nil, and fails the test with its last error after a minute.
func Eventually(t testing.TB, check func(ctx context.Context) error) {
	t.Helper()
	if err := eventually(t.Context(), time.Minute, check); err != nil {
		t.Fatal(err)
	}
}

func eventually(ctx context.Context, timeout time.Duration, check func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not so after %s: %w", timeout, err)
		case <-tick.C:
		}
	}
}

// close ends what the cluster does inside this process.
func (c *Cluster) close() {
	c.stopBackground()
	c.mu.Lock()
	proxies := c.proxies
	c.proxies = nil
	c.mu.Unlock()
	for _, p := range proxies {
		p.Close()
	}
	c.tasks.Wait()
}

// writeKubeconfigs writes the administrator's kubeconfig and the one that goes past the proxy.
func (c *Cluster) writeKubeconfigs() error {
	config := c.AdminKubeconfig()
	if _, err := config.write(c.file("direct.kubeconfig")); err != nil {
		return err
	}
	config.Server = c.Server()
	_, err := config.write(c.Kubeconfig())
	return err
}

// MergeKubeconfigs writes one kubeconfig with the contexts of all clusters of the fleet to a file of the fleet's
// directory, the first cluster's context being the current one, and returns its path.
func (f *Fleet) MergeKubeconfigs() (string, error) {
	var configs []Kubeconfig
	for _, c := range f.clusters {
		config := c.AdminKubeconfig()
		config.Server = c.Server()
		configs = append(configs, config)
	}
	content, err := mergeKubeconfigs(configs)
	if err != nil {
		return "", err
	}
	path := filepath.Join(f.Dir, "kubeconfig")
	// Whoever waits for the file finds it whole.
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return "", err
	}
	return path, os.Rename(path+".new", path)
}
