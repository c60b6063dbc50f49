package fleettest

import (
	"context"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// serviceCIDR is what the API server allocates ClusterIPs from, and serviceIP its first address, which is the API
// server's own.
const (
	serviceCIDR = "10.96.0.0/16"
	serviceIP   = "10.96.0.1"
)

// bootAttempts is how often a cluster is started anew when another process took one of its ports in between.
const bootAttempts = 3

// boot starts one cluster in dir and returns once it serves and holds what the spec asks for. The cluster is also
// returned with an error, for its processes to be stopped with the fleet.
func boot(ctx context.Context, s *supervisor, programs map[string]string, dir string, spec ClusterSpec) (*Cluster, error) {
	c := &Cluster{spec: spec, dir: dir, supervisor: s, programs: programs}
	c.background, c.stopBackground = context.WithCancel(context.Background())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return c, err
	}
	var err error
	if c.ca, err = newAuthority(spec.Name + "-ca"); err != nil {
		return c, err
	}
	if err := c.ca.writePKI(dir); err != nil {
		return c, err
	}
	if c.admin, err = c.ca.issue(pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}, false, inTenYears()); err != nil {
		return c, err
	}
	if err := c.startStore(ctx); err != nil {
		return c, err
	}
	if err := c.startEgress(); err != nil {
		return c, err
	}
	for attempt := 1; ; attempt++ {
		if c.port, err = freePort(); err != nil {
			return c, err
		}
		if err = c.startAPIServer(ctx); err == nil {
			break
		}
		if attempt == bootAttempts || !strings.Contains(err.Error(), "address already in use") {
			return c, err
		}
	}
	if err := c.connect(ctx); err != nil {
		return c, err
	}
	if err := c.startControllers(); err != nil {
		return c, err
	}
	if err := c.populate(ctx); err != nil {
		return c, err
	}
	if slices.Contains(spec.Engines, EngineKnative) {
		if c.knative, err = c.startKnative(ctx, programs[knativeProgram], KnativeNamespace); err != nil {
			return c, err
		}
	}
	c.startManagers()
	if slices.Contains(spec.Engines, EngineArgoCD) {
		if err := c.startArgoCD(ctx); err != nil {
			return c, err
		}
	}
	if spec.Proxy != nil {
		if c.front, err = c.StartProxy(*spec.Proxy); err != nil {
			return c, err
		}
	}
	return c, c.writeKubeconfigs()
}

func (c *Cluster) file(name string) string { return filepath.Join(c.dir, name) }

// run starts one of the cluster's programs.
func (c *Cluster) run(program string, args ...string) (*process, error) {
	return c.supervisor.run(program, c.file(strings.SplitN(program, "@", 2)[0]+".log"), c.programs[program], args...)
}

// startStore starts etcd and waits until it takes connections.
func (c *Cluster) startStore(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		err := c.tryStore(ctx)
		if err == nil || attempt == bootAttempts || !strings.Contains(err.Error(), "address already in use") {
			return err
		}
	}
}

func (c *Cluster) tryStore(ctx context.Context) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	peer, err := freePort()
	if err != nil {
		return err
	}
	c.etcd = fmt.Sprintf("http://127.0.0.1:%d", port)
	peerURL := fmt.Sprintf("http://127.0.0.1:%d", peer)
	etcd, err := c.run("etcd",
		"--name=default", "--data-dir="+c.file("etcd"),
		// What is lost when the machine stops is thrown away anyway.
		"--unsafe-no-fsync",
		"--listen-client-urls="+c.etcd, "--advertise-client-urls="+c.etcd,
		"--listen-peer-urls="+peerURL, "--initial-advertise-peer-urls="+peerURL, "--initial-cluster=default="+peerURL,
		"--log-level=error")
	if err != nil {
		return err
	}
	return waitFor(ctx, etcd, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.etcd+"/health", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultTransport.RoundTrip(request) // no proxy from the environment for loopback
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New("/health: " + response.Status)
		}
		return nil
	})
}

// apiServerArgs are the flags of the API server.
func (c *Cluster) apiServerArgs() []string {
	enabled := []string{"NodeRestriction", "ResourceQuota", "Priority"}
	// New nodes would be tainted as not ready until a controller takes that back; ours are ready from the start.
	disabled := []string{"TaintNodesByCondition"}
	if !c.spec.AdmissionWebhooks {
		disabled = append(disabled, "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
	}
	if !c.spec.hasControllers() {
		disabled = append(disabled, "ServiceAccount") // nothing creates the default accounts
	}
	args := []string{
		"--etcd-servers=" + c.etcd,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + strconv.Itoa(c.port),
		// The endpoint of the kubernetes Service must not be on loopback.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + serviceCIDR,
		"--cert-dir=" + c.file("apiserver-certs"),
		"--tls-cert-file=" + c.file("apiserver.crt"), "--tls-private-key-file=" + c.file("apiserver.key"),
		"--client-ca-file=" + c.file("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.file("service-account.key"),
		"--service-account-signing-key-file=" + c.file("service-account.key"),
		"--authorization-mode=Node,RBAC", "--allow-privileged",
		"--enable-admission-plugins=" + strings.Join(enabled, ","),
		"--disable-admission-plugins=" + strings.Join(disabled, ","),
	}
	if len(c.spec.FeatureGates) > 0 {
		var gates []string
		for _, gate := range slices.Sorted(maps.Keys(c.spec.FeatureGates)) {
			gates = append(gates, fmt.Sprintf("%s=%t", gate, c.spec.FeatureGates[gate]))
		}
		args = append(args, "--feature-gates="+strings.Join(gates, ","))
	}
	if c.spec.EmulatedVersion != "" {
		args = append(args, "--emulated-version="+c.spec.EmulatedVersion)
	}
	args = append(args, c.egress.args()...)
	return append(args, c.spec.ExtraAPIServerArgs...)
}

// startAPIServer starts the API server on the cluster's port and waits until it is ready.
func (c *Cluster) startAPIServer(ctx context.Context) error {
	// The harness's own client is not held back; the server's priority and fairness is the limit.
	c.config = &rest.Config{
		Host:            c.directServer(),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.pem, CertData: c.admin.cert, KeyData: c.admin.key},
		QPS:             -1,
		UserAgent:       "fleettest",
	}
	transport, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	if c.apiServer, err = c.run(c.spec.apiServer(), c.apiServerArgs()...); err != nil {
		return err
	}
	return waitFor(ctx, c.apiServer, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.directServer()+"/readyz", nil)
		if err != nil {
			return err
		}
		response, err := transport.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New("/readyz: " + response.Status)
		}
		return nil
	})
}

// connect makes the harness's clients and learns who the cluster is.
func (c *Cluster) connect(ctx context.Context) error {
	var err error
	if c.client, err = kubernetes.NewForConfig(c.config); err != nil {
		return err
	}
	if c.dynamic, err = dynamic.NewForConfig(c.config); err != nil {
		return err
	}
	version, err := c.client.Discovery().ServerVersion()
	if err != nil {
		return err
	}
	c.version = version.GitVersion
	// Namespaces of the system are created in the background of a ready server.
	return waitFor(ctx, c.apiServer, func(ctx context.Context) error {
		system, err := c.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c.uid = string(system.UID)
		_, err = c.client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
		return err
	})
}

// startControllers starts what the spec asks for beside the API server.
func (c *Cluster) startControllers() error {
	if !c.spec.hasControllers() {
		return nil
	}
	manager, err := c.systemKubeconfig("system:kube-controller-manager")
	if err != nil {
		return err
	}
	controllers := "*"
	if c.spec.ControlPlaneOnly {
		// Without kwok no node reports itself, and the controller would taint all of them as unreachable.
		controllers = "*,-node-lifecycle-controller"
	}
	if _, err := c.run("kube-controller-manager", "--controllers="+controllers,
		"--kubeconfig="+manager, "--authentication-kubeconfig="+manager, "--authorization-kubeconfig="+manager,
		"--secure-port=0", "--leader-elect=false", "--use-service-account-credentials",
		"--root-ca-file="+c.file("ca.crt"), "--service-account-private-key-file="+c.file("service-account.key"),
		"--cluster-signing-cert-file="+c.file("ca.crt"), "--cluster-signing-key-file="+c.file("ca.key"),
		"--enable-hostpath-provisioner=true",
		// The defaults are made for clusters in which most claims and quotas wait for something slow.
		"--pvclaimbinder-sync-period=1s",
		"--kube-api-qps=500", "--kube-api-burst=1000"); err != nil {
		return err
	}
	if c.spec.ControlPlaneOnly {
		return nil
	}
	scheduler, err := c.systemKubeconfig("system:kube-scheduler")
	if err != nil {
		return err
	}
	if _, err := c.run("kube-scheduler",
		"--kubeconfig="+scheduler, "--authentication-kubeconfig="+scheduler, "--authorization-kubeconfig="+scheduler,
		"--secure-port=0", "--leader-elect=false", "--kube-api-qps=500", "--kube-api-burst=1000"); err != nil {
		return err
	}
	kubelets, err := c.AdminKubeconfig().write(c.file("kwok.kubeconfig"))
	if err != nil {
		return err
	}
	files, err := stages()
	if err != nil {
		return err
	}
	added, err := c.spec.stages()
	if err != nil {
		return err
	}
	if added != "" {
		own := c.file("stages.yaml")
		if err := os.WriteFile(own, []byte(added), 0o600); err != nil {
			return err
		}
		files = append(slices.Clone(files), own)
	}
	args := []string{
		"--kubeconfig=" + kubelets, "--manage-all-nodes=true",
		// Without a lease the controller manager would call the nodes unreachable.
		"--node-lease-duration-seconds=40",
	}
	for _, file := range files {
		args = append(args, "--config="+file)
	}
	_, err = c.run("kwok", args...)
	return err
}

// systemKubeconfig writes the kubeconfig of a component of the control plane.
func (c *Cluster) systemKubeconfig(user string) (string, error) {
	issued, err := c.ca.issue(pkix.Name{CommonName: user}, false, inTenYears())
	if err != nil {
		return "", err
	}
	config := c.AdminKubeconfig()
	config.ClientCertificate, config.ClientKey = issued.cert, issued.key
	return config.write(c.file(strings.TrimPrefix(user, "system:") + ".kubeconfig"))
}

// componentKubeconfig writes a kubeconfig with which a program may do what its ServiceAccount may. It has a certificate in
// the account's name, since a token would expire in a fleet that stays up.
func (c *Cluster) componentKubeconfig(program, namespace, account string) (string, error) {
	issued, err := c.ca.issue(pkix.Name{
		CommonName:   "system:serviceaccount:" + namespace + ":" + account,
		Organization: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace},
	}, false, inTenYears())
	if err != nil {
		return "", err
	}
	config := c.AdminKubeconfig()
	config.ClientCertificate, config.ClientKey = issued.cert, issued.key
	return config.write(c.file(program + ".kubeconfig"))
}

// waitFor calls check until it succeeds, p ends, or ctx does.
func waitFor(ctx context.Context, p *process, check func(context.Context) error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := check(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return p.failure()
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w; last answer: %w; its log ends with:\n%s", p.name, context.Cause(ctx), err, tail(p.log, 2000))
		case <-tick.C:
		}
	}
}

// freePort gives a loopback port that nothing listens on. It stays below the ranges from which Linux (32768) and
// macOS (49152) take the ports of outgoing connections, so that a server which is stopped finds its port free again.
func freePort() (int, error) {
	for range 100 {
		port := 20000 + rand.IntN(12000)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		return port, listener.Close()
	}
	return 0, errors.New("no free port found between 20000 and 32000 on 127.0.0.1")
}
