package provider_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/argocd"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// The clusters of the tests that need none of what Argo CD does: one that knows its kinds, and one to register there. Each
// test has a namespace of Argo CD of its own.
var (
	argoMgmt = lazyCluster{spec: fleettest.ClusterSpec{Name: "mgmt", ControlPlaneOnly: true, Controllers: true, Nodes: []fleettest.NodeSpec{{Name: "mgmt-node-1"}}}}
	argoEdge = lazyCluster{spec: fleettest.ClusterSpec{
		Name: "edge", ControlPlaneOnly: true, Controllers: true,
		Nodes: []fleettest.NodeSpec{{Name: "edge-node-1", Labels: map[string]string{"topology.kubernetes.io/region": "us-east-1"}}},
	}}
	argoKinds, argoTokens sync.Once
)

// The tokens that the workload cluster takes beside its own: they look like those with which somebody signs in to a cloud.
const (
	awsSignIn    = "k8s-aws-v1.aHR0cHM6Ly9zdHMuZXhhbXBsZS5jb20"
	googleSignIn = "ya29.not-a-real-one"
)

// workloadCluster boots the workload cluster with these tokens.
func workloadCluster(t *testing.T) *fleettest.Cluster {
	t.Helper()
	argoTokens.Do(func() {
		file := filepath.Join(t.TempDir(), "tokens.csv") // read when the API server starts, and not again
		lines := awsSignIn + ",aws,1,\"system:masters\"\n" + googleSignIn + ",google,2,\"system:masters\"\n"
		if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		argoEdge.spec.ExtraAPIServerArgs = []string{"--token-auth-file=" + file}
		argoEdge.get(t)
	})
	return argoEdge.get(t)
}

// pair is an argoBench on those clusters.
type pair struct {
	*argoBench
	// space is the namespace of the test's Argo CD, store that of its kubeconfigs.
	space, store string
}

// newPair gives a workspace with the entries "mgmt" and "edge", each by a proxy of its own.
func newPair(t *testing.T, options tofutest.Options, more ...string) *pair {
	t.Helper()
	space := unique("argo")
	mgmt := argoMgmt.get(t)
	argoKinds.Do(func() { mgmt.InstallArgoCDCRDs(t) })
	mgmt.CreateArgoCDNamespace(t, space)
	return pairIn(t, space, unique("team"), options, more...)
}

func pairIn(t *testing.T, space, owner string, options tofutest.Options, more ...string) *pair {
	t.Helper()
	mgmt, edge := argoMgmt.get(t), workloadCluster(t)
	mgmtProxy, edgeProxy := mgmt.Proxy(t, fleettest.ProxyOptions{}), edge.Proxy(t, fleettest.ProxyOptions{})
	p := &pair{space: space, store: space + "-configs", argoBench: &argoBench{
		bench: &bench{Workspace: tofutest.New(t, options), t: t, cluster: mgmt, proxy: mgmtProxy, owner: owner},
		mgmt:  mgmt, edge: edge, edgeProxy: edgeProxy, name: unique("edge"),
	}}
	p.entries(nil, more...)
	return p
}

// entries makes the provider's configuration anew, with the bodies of entries that are not the usual ones.
func (p *pair) entries(changed clusters, more ...string) {
	p.t.Helper()
	all := clusters{"mgmt": byPath(p.t, p.proxy.AdminKubeconfig()), "edge": byPath(p.t, p.edgeProxy.AdminKubeconfig())}
	maps.Copy(all, changed)
	p.block = providerBlock(p.owner, all, more...)
}

// beside is a further workspace on the same Argo CD, with the same name of a cluster.
func (p *pair) beside(owner string) *pair {
	p.t.Helper()
	other := pairIn(p.t, p.space, owner, tofutest.Options{})
	other.name, other.store = p.name, p.store
	return other
}

// tokenEntry is the body of an entry that leads to the workload cluster with a ServiceAccount's lasting token, as it is in
// the Secret "<account>-token" of kube-system.
func (p *pair) tokenEntry(token string) string {
	p.t.Helper()
	config := p.edgeProxy.AdminKubeconfig()
	config.ClientCertificate, config.ClientKey, config.Token = nil, nil, token
	return byContent(config)
}

// lastingToken makes a ServiceAccount with every right on the workload cluster, and its token.
func (p *pair) lastingToken() string {
	p.t.Helper()
	return lastingToken(p.t, p.edge, unique("robot"))
}

func lastingToken(t *testing.T, c *fleettest.Cluster, name string) string {
	t.Helper()
	c.Kubectl(t, "-n", "kube-system", "create", "serviceaccount", name)
	c.Kubectl(t, "create", "clusterrolebinding", name, "--clusterrole=cluster-admin", "--serviceaccount=kube-system:"+name)
	c.KubectlInput(t, "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/service-account-token\nmetadata: {name: "+name+"-token, namespace: kube-system, annotations: {kubernetes.io/service-account.name: "+name+"}}\n", "create", "-f", "-")
	var token string
	fleettest.Eventually(t, func(ctx) error {
		if token = string(secretOn(t, c, "kube-system", name+"-token").Data["token"]); token == "" {
			return fmt.Errorf("Secret/kube-system/%s-token has no token yet", name)
		}
		return nil
	})
	return token
}

// clusterBlock is a berth_cluster of the test's own Argo CD.
func (p *pair) clusterBlock(arguments ...string) string {
	return p.blockOf("edge", append(arguments, "management = \"mgmt\"")...)
}

// blockOf is clusterBlock by another label; what the arguments leave out has the values of the test.
func (p *pair) blockOf(label string, arguments ...string) string {
	text := strings.Join(arguments, "\n")
	for _, one := range []struct{ attribute, value string }{
		{"cluster", `"edge"`},
		{"management", `"mgmt"`},
		{"name", fmt.Sprintf("%q", p.name)},
		{"deletion_protection", "false"},
		{"argocd_namespace", fmt.Sprintf("%q", p.space)},
		{"kubeconfig_namespace", fmt.Sprintf("%q", p.store)},
	} {
		if !strings.Contains("\n"+text, "\n"+one.attribute+" ") {
			text += fmt.Sprintf("\n%s = %s", one.attribute, one.value)
		}
	}
	return fmt.Sprintf("resource \"berth_cluster\" %q {\n%s\n}\n", label, text)
}

// root is an app-of-apps, with further arguments of it.
func (p *pair) root(more ...string) string {
	return "app_of_apps = {\nrepo_url = \"https://git.example.com/platform/gitops.git\"\n" + strings.Join(more, "\n") + "\n}"
}

// secret reads the cluster's Secret past the proxy; nil when there is none.
func (p *pair) secret() *corev1.Secret {
	p.t.Helper()
	return secretOn(p.t, p.mgmt, p.space, "cluster-"+p.name)
}

// argo is the config of the cluster's Secret.
func (p *pair) argo() argoConfig {
	p.t.Helper()
	return configIn(p.t, p.secret())
}

func configIn(t *testing.T, secret *corev1.Secret) (config argoConfig) {
	t.Helper()
	if secret == nil {
		t.Fatal("there is no Secret")
	}
	if err := json.Unmarshal(secret.Data["config"], &config); err != nil {
		t.Fatal(err)
	}
	return config
}

// bearer is the token in a cluster's Secret.
func bearer(t *testing.T, secret *corev1.Secret) string {
	t.Helper()
	return configIn(t, secret).BearerToken
}

// kubeconfig reads the Secret with the kubeconfig; nil when there is none.
func (p *pair) kubeconfig() *corev1.Secret {
	p.t.Helper()
	return secretOn(p.t, p.mgmt, p.store, "cluster-"+p.name+"-kubeconfig")
}

// app reads an Application of the test's Argo CD; nil when there is none.
func (p *pair) app(name string) *unstructured.Unstructured {
	p.t.Helper()
	return applicationOn(p.t, p.mgmt, p.space, name)
}

// unwritten fails the test when something was written to either cluster since the last Reset.
func (p *pair) unwritten() {
	p.t.Helper()
	for where, proxy := range map[string]*fleettest.Proxy{"the management cluster": p.proxy, "the workload cluster": p.edgeProxy} {
		if proxy.Writes() > 0 {
			p.t.Errorf("%d write(s) to %s:\n%s", proxy.Writes(), where, requestLines(proxy))
		}
	}
}

func (p *pair) reset() {
	p.proxy.Reset()
	p.edgeProxy.Reset()
}

// owned are the marks on what a configuration made for the cluster.
func (p *pair) owned(created bool) string {
	mark := ""
	if created {
		mark = "true"
	}
	return fmt.Sprintf("managed-by=berth owner=%s/cluster.%s created=%s", p.owner, p.name, mark)
}

// conditions are those of the resource as "status reason".
func (p *pair) conditions() map[string]string {
	p.t.Helper()
	return p.conditionsOf(edge)
}

// Two configurations register two clusters at the same moment: they share the namespace of the kubeconfigs, which goes with
// the last of them (X6, X7).
func TestClusterTwoAtOnce(t *testing.T) {
	t.Parallel()
	one := newPair(t, tofutest.Options{})
	other := one.beside(unique("team"))
	other.name = unique("edge")
	// Each has an address of its own, since each goes by a proxy of its own.
	for _, p := range []*pair{one, other} {
		p.use(p.accessBlock() + p.clusterBlock(byAccess))
	}
	// Neither goes on with its first write before both have come to it.
	var meet sync.WaitGroup
	meet.Add(2)
	gate := func(n int, _ fleettest.Request) {
		if n == 1 {
			meet.Done()
			meet.Wait()
		}
	}
	one.proxy.OnWrite(gate, nil)
	other.proxy.OnWrite(gate, nil)
	runs := []*tofutest.Running{one.ApplyAsync(), other.ApplyAsync()}
	for _, run := range runs {
		if result := run.Wait(); result.ExitCode != 0 {
			t.Fatalf("%s\n%s", result.Command, result.Log)
		}
	}
	namespace, err := one.mgmt.Client().CoreV1().Namespaces().Get(t.Context(), one.store, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	users := map[string]bool{}
	for key, user := range namespace.Labels {
		if strings.HasPrefix(key, "users.berth.dev/") {
			users[user] = true
		}
	}
	same(t, "who uses the namespace", users, map[string]bool{one.name: true, other.name: true})
	for _, p := range []*pair{one, other} {
		p.proxy.OnWrite(nil, nil)
		p.PlanIsEmpty()
		same(t, "marks", row(marksOf(p.secret()), marksOf(p.kubeconfig())), row(p.owned(true), p.owned(true)))
	}
	one.MustDestroy()
	if other.kubeconfig() == nil || other.secret() == nil {
		t.Error("the Secrets of the other are gone")
	}
	other.PlanIsEmpty()
	other.MustDestroy()
	same(t, "the namespace", namespaceGone(t, one.mgmt, one.store), true)
}

// namespaceGone tells whether a namespace goes, or is gone.
func namespaceGone(t *testing.T, c *fleettest.Cluster, name string) bool {
	t.Helper()
	left, err := c.Client().CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	return len(left.Items) == 0 || left.Items[0].DeletionTimestamp != nil
}

// An Application past any proxy; nil when there is none.
func applicationOn(t *testing.T, c *fleettest.Cluster, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	all, err := c.Dynamic().Resource(argocd.Applications.GVR()).Namespace(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	if len(all.Items) == 0 {
		return nil
	}
	return &all.Items[0]
}

// The life of a registration by both runners, without Argo CD: every argument of the Secret, set, changed and taken out again
// (I6, I20, I21, I25, I26, I73).
func TestClusterArguments(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		p := newPair(t, tofutest.Options{Runner: runner})
		p.use(p.accessBlock() + p.clusterBlock(byAccess))
		p.MustApply().NoWarnings(t)
		p.PlanIsEmpty().NoWarnings(t)
		bare := p.secret()
		same(t, "what a bare registration has", row(slices.Sorted(maps.Keys(bare.Data)), string(bare.Data["server"]), marksOf(bare), bare.Labels["berth.dev/region"], bare.Annotations["berth.dev/cluster-uid"]),
			row([]string{"config", "name", "server"}, p.edgeProxy.Server(), p.owned(true), "us-east-1", p.edge.UID()))
		state := p.Resource(edge)
		same(t, "outputs", row(state["argocd_secret"], state["kubeconfig_secret"], state["root_application"], state["argocd_server"], state["gitops_files"], state["provider_name"], state["flavor"], state["region"], state["token_expires_at"], state["node_count"]),
			row(p.space+"/cluster-"+p.name, p.store+"/cluster-"+p.name+"-kubeconfig", nil, p.edgeProxy.Server(), nil, nil, nil, "us-east-1", nil, 1))

		p.use(p.accessBlock() + p.clusterBlock(byAccess, `secret_labels = { tier = "edge" }`, `secret_annotations = { "example.com/contact" = "ops" }`, `project = "edge-only"`,
			`namespaces = ["shop", "web"]`, "cluster_resources = true", "shard = 2", `provider_name = "aws"`, `flavor = "eks"`, `region = "eu-1"`, fmt.Sprintf("server = %q", p.edge.AdminKubeconfig().Server)))
		change := p.MustPlan().Change(t, edge)
		same(t, "actions", change.Actions, []string{"update"})
		p.MustApply()
		p.PlanIsEmpty()
		full := p.secret()
		same(t, "fields", row(string(full.Data["project"]), string(full.Data["namespaces"]), string(full.Data["clusterResources"]), string(full.Data["shard"]), string(full.Data["server"]), full.UID),
			row("edge-only", "shop,web", "true", "2", p.edge.AdminKubeconfig().Server, bare.UID))
		same(t, "labels and annotations", row(full.Labels["tier"], full.Annotations["example.com/contact"], full.Labels["berth.dev/provider"], full.Labels["berth.dev/flavor"], full.Labels["berth.dev/region"]),
			row("edge", "ops", "aws", "eks", "eu-1"))
		same(t, "the kubeconfig follows the server", strings.Contains(string(p.kubeconfig().Data["kubeconfig"]), "server: "+p.edge.AdminKubeconfig().Server), true)
		same(t, "argocd_server", p.Resource(edge)["argocd_server"], p.edge.AdminKubeconfig().Server)

		// By hand: each is drift, and what was added to it is not.
		p.kubectl("-n", p.space, "patch", "secret", full.Name, "--type=merge", "-p", `{"stringData":{"shard":"3","extra":"theirs"},"metadata":{"labels":{"team":"a"}}}`)
		drift := p.MustPlan().Change(t, edge).Before["drift"].(map[string]any)
		same(t, "drift", drift, map[string]any{"Secret/" + p.space + "/" + full.Name + " data.shard": "(sensitive value) → (sensitive value)"})
		p.MustApply()
		same(t, "repaired", row(string(p.secret().Data["shard"]), string(p.secret().Data["extra"]), p.secret().Labels["team"]), row("2", "theirs", "a"))

		// What is taken out goes; where it runs stays as it was said (I26).
		p.use(p.accessBlock() + p.clusterBlock(byAccess))
		p.MustApply()
		p.PlanIsEmpty()
		again := p.secret()
		same(t, "fields that are left", row(slices.Sorted(maps.Keys(again.Data)), again.Labels["tier"], again.Annotations["example.com/contact"], string(again.Data["server"])), row([]string{"config", "extra", "name", "server"}, "", "", p.edgeProxy.Server()))
		same(t, "where it runs", row(again.Labels["berth.dev/provider"], again.Labels["berth.dev/region"], p.Resource(edge)["provider_name"]), row("aws", "eu-1", "aws"))

		// The kubeconfig moves, and is not kept any more (I17).
		second := p.store + "-2"
		p.use(p.accessBlock() + p.clusterBlock(byAccess, fmt.Sprintf("kubeconfig_namespace = %q", second)))
		p.MustApply()
		p.PlanIsEmpty()
		same(t, "the first namespace", row(p.kubeconfig() == nil, namespaceGone(t, p.mgmt, p.store)), row(true, true))
		first := p.store
		p.store = second
		if p.kubeconfig() == nil {
			t.Error("the kubeconfig is not in its new namespace")
		}
		p.use(p.accessBlock() + p.clusterBlock(byAccess, "store_kubeconfig = false"))
		p.MustApply()
		p.PlanIsEmpty()
		same(t, "no kubeconfig", row(p.kubeconfig() == nil, namespaceGone(t, p.mgmt, second), p.Resource(edge)["kubeconfig_secret"]), row(true, true, nil))
		p.store = first
		p.MustDestroy()
		same(t, "the Secret", p.secret() == nil, true)
	})
}
