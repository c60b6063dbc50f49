package provider_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// plain is a cluster on which nothing but the tests changes anything, its nodes least of all: with a controller manager
// and without kubelets, nodes would soon count as unreachable and be tainted for it.
var plain = lazyCluster{spec: fleettest.ClusterSpec{
	Name: "plain", ControlPlaneOnly: true,
	StorageClasses: []fleettest.StorageClassSpec{{Name: "standard", Default: true}},
	Nodes: []fleettest.NodeSpec{
		{Name: "amd"},
		{Name: "arm", Architecture: "arm64"},
		{Name: "cordoned", Labels: map[string]string{"pool": "agents"}, Unschedulable: true},
		{
			Name: "pool", Labels: map[string]string{"pool": "agents"}, CPU: "64", Memory: "256Gi", Runtime: "containerd://1.7.27",
			Taints: []corev1.Taint{{Key: "pool", Value: "agents", Effect: corev1.TaintEffectNoSchedule}},
		},
		{Name: "s390", Architecture: "s390x"},
	},
}}

func plainCluster(t testing.TB) *fleettest.Cluster { t.Helper(); return plain.get(t) }

// data is a data source named "this".
func data(kind string, body ...string) string {
	return fmt.Sprintf("data \"berth_%s\" \"this\" {\n%s\n}\n", kind, strings.Join(body, "\n"))
}

func (b *bench) data(kind string) map[string]any {
	b.t.Helper()
	return b.Resource("data.berth_" + kind + ".this")
}

// statuses are the checks of a preflight in their order, each as "<name> <status>".
func statuses(values map[string]any) []string {
	var lines []string
	for _, check := range checks(values) {
		lines = append(lines, fmt.Sprint(check["name"], " ", check["status"]))
	}
	return lines
}

func checks(values map[string]any) []map[string]any {
	var found []map[string]any
	list, _ := values["checks"].([]any)
	for _, check := range list {
		found = append(found, check.(map[string]any))
	}
	return found
}

// namespace creates a namespace of a unique name.
func namespace(t testing.TB, c *fleettest.Cluster, change func(*corev1.Namespace)) string {
	t.Helper()
	wanted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: unique("team"), Labels: map[string]string{}, Annotations: map[string]string{}}}
	if change != nil {
		change(wanted)
	}
	if _, err := c.Client().CoreV1().Namespaces().Create(t.Context(), wanted, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return wanted.Name
}

// secret creates a Secret with one key.
func secret(t testing.TB, c *fleettest.Cluster, namespace, name, key, value string) {
	t.Helper()
	wanted := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{key: value}}
	if _, err := c.Client().CoreV1().Secrets(namespace).Create(t.Context(), wanted, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// answering is an address that always answers with one status.
func answering(t testing.TB, status int) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(server.Close)
	return server.URL
}

// noWrites fails the test where anything but reads, dry runs and reviews has gone through the proxy (promise 1).
func (b *bench) noWrites() {
	b.t.Helper()
	for _, request := range b.proxy.Requests() {
		reads := request.Verb == "get" || request.Verb == "list"
		asks := request.Verb == "create" && (request.Group == "authorization.k8s.io" || request.DryRun && request.Query.Get("dryRun") == "All")
		if request.IsWrite() || !reads && !asks {
			b.t.Errorf("this was sent to the cluster: %s", request)
		}
	}
	same(b.t, "writes", b.proxy.Writes(), 0)
}

// A data source of each kind, for rules that hold for all of them.
var everyKind = map[string]string{
	"preflight": data("preflight", `kubernetes_version = "1.35"`, `default_storage_class = true`, `sizes = { hold = { memory = "8Gi", cpu = "4" } }`),
	"nodes":     data("nodes", `sizes = { hold = {} }`),
	"quota":     data("quota", `namespace = "default"`, `sizes = { hold = {} }`),

	"knative_versions": data("knative_versions"),
}

// A data source has no prior answer to keep, so a cluster that does not answer is an error whatever on_unreachable says.
func TestDataSourceUnreachable(t *testing.T) {
	t.Parallel()
	// A port that was free a moment ago refuses.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	entry := fmt.Sprintf("host = \"https://%s\"\ninsecure = true\ntoken = \"t0ken-of-nobody\"", address)
	for kind, config := range everyKind {
		w := tofutest.New(t, tofutest.Options{})
		w.Write("main.tf", providerBlock(unique("team"), clusters{"gone": entry}, `on_unreachable = "warn"`)+config)
		result := w.Plan()
		same(t, kind+": exit code", result.ExitCode, 1)
		found := result.Error(t, `^Cluster "gone": the connection is refused$`, `^Nothing listens at https://`, `clusters\["gone"\]`)
		same(t, kind+": address", found.Address, "data.berth_"+kind+".this")
		if strings.Contains(result.Log, "t0ken-of-nobody") {
			t.Errorf("%s: the token is in the log", kind)
		}
	}
}

// A key that the provider does not have, and none where several could be meant (X1).
func TestDataSourceWhichCluster(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, plainCluster(t), unique("team"), tofutest.Options{})
	for kind, config := range everyKind {
		b.use(strings.Replace(config, "{\n", "{\ncluster = \"elsewhere\"\n", 1))
		found := b.Plan().Error(t, `^No cluster "elsewhere" in the provider configuration$`, `its keys are: "shared"`)
		if found.Snippet == nil || !strings.Contains(found.Snippet.Code, `cluster = "elsewhere"`) {
			t.Errorf("%s: the error does not point at the attribute: %s", kind, found)
		}
	}
	entry := byPath(t, b.proxy.AdminKubeconfig())
	b.Write("main.tf", providerBlock(b.owner, clusters{"a": entry, "b": entry})+everyKind["nodes"])
	b.Plan().Error(t, "^`cluster` is needed when several clusters are configured$", `Set cluster to one of: "a", "b"|Set .cluster. to one of: "a", "b"`)
}

// While the connection is not known, what can be said is said, and the rest is put off with a warning that names it (X2,
// promise 2). Nothing is asked of any other cluster.
func TestDataSourceUnknownConnection(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		proxy := plainCluster(t).Proxy(t, fleettest.ProxyOptions{})
		w := tofutest.New(t, tofutest.Options{Runner: runner})
		config := fmt.Sprintf("resource \"terraform_data\" \"kubeconfig\" {\ninput = %q\n}\n", proxy.AdminKubeconfig().Content())
		for _, kind := range []string{"preflight", "nodes", "quota"} {
			config += everyKind[kind]
		}
		w.Write("main.tf", providerBlock(unique("team"), clusters{"new": "kubeconfig = terraform_data.kubeconfig.output"})+config)

		plan := w.MustPlan()
		same(t, "requests of the first plan", requestLines(proxy), "")
		plan.Warning(t, `^Data source berth_preflight on cluster "new" was not read$`, `the connection of cluster "new" is not known yet`,
			`Not looked at: kubernetes_version, sizes/hold, default_storage_class\.`)
		plan.Warning(t, `^Data source berth_nodes on cluster "new" was not read$`, `Not looked at: the nodes`)
		plan.Warning(t, `^Data source berth_quota "default" on cluster "new" was not read$`, `Not looked at: the quotas of namespace "default"`)

		w.MustApply()
		b := &bench{Workspace: w, t: t}
		first := b.data("preflight")
		same(t, "checks", statuses(first), "[kubernetes_version skipped sizes/hold skipped default_storage_class skipped]")
		same(t, "the rest", fmt.Sprint(first["passed"], first["id"], first["cluster"], first["cluster_uid"], first["server_version"]), fmt.Sprint(nil, "new", "new", nil, nil))
		same(t, "message", checks(first)[0]["message"], `not checked: the connection of cluster "new" is not known yet`)
		same(t, "nodes", b.data("nodes")["nodes"], nil)

		for _, warning := range w.MustApply().Warnings() {
			if strings.Contains(warning.Summary, "was not read") {
				t.Errorf("the connection is known by now: %s", warning)
			}
		}
		second := b.data("preflight")
		same(t, "checks", statuses(second), "[kubernetes_version pass sizes/hold pass default_storage_class pass]")
		same(t, "the rest", fmt.Sprint(second["passed"], second["cluster_uid"]), fmt.Sprint(true, plainCluster(t).UID()))
	})
}

// Not even the keys are known: then it is not known which cluster is meant (X2).
func TestDataSourceUnknownClusters(t *testing.T) {
	t.Parallel()
	w := tofutest.New(t, tofutest.Options{})
	w.Write("main.tf", providerWith(unique("team"), "{ for name in [terraform_data.name.output] : name => { "+
		strings.ReplaceAll(byPath(t, plainCluster(t).AdminKubeconfig()), "\n", ", ")+" } }")+
		"resource \"terraform_data\" \"name\" {\ninput = \"new\"\n}\n"+everyKind["nodes"])
	w.MustPlan().Warning(t, `^Data source berth_nodes was not read$`, `it is not known yet which cluster it is about`)
	w.MustApply()
	values := w.Resource("data.berth_nodes.this")
	same(t, "cluster and nodes", fmt.Sprint(values["cluster"], values["id"], values["nodes"]), fmt.Sprint(nil, nil, nil))
	w.MustApply()
	values = w.Resource("data.berth_nodes.this")
	same(t, "cluster", values["cluster"], "new")
	same(t, "admitted", values["admitted"], "[amd arm s390]")
}

// Every example is a valid configuration.
func TestDataSourceExamples(t *testing.T) {
	t.Parallel()
	root, err := fleettest.Root()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := plainCluster(t).AdminKubeconfig()
	kubeconfig.Name = "shared"
	for _, name := range []string{
		"data-sources/berth_preflight/data-source.tf", "data-sources/berth_nodes/data-source.tf", "data-sources/berth_quota/data-source.tf",
		"data-sources/berth_knative_versions/data-source.tf",
		"functions/kubeconfig/function.tf", "functions/image_tag/function.tf", "functions/knative_versions/function.tf",
	} {
		example, err := os.ReadFile(filepath.Join(root, "examples", name))
		if err != nil {
			t.Fatal(err)
		}
		w := tofutest.New(t, tofutest.Options{})
		w.Write("kubeconfig.yaml", kubeconfig.Content())
		w.Write("main.tf", providerBlock("demo", clusters{})+"variable \"eu_1_ca\" {}\n"+string(example))
		if result := w.Validate(); result.ExitCode != 0 {
			t.Errorf("%s: %s", name, result.Log)
		}
	}
}

// What a configuration can never mean is refused at validate, at its attribute, and nothing is asked.
func TestDataSourceValidators(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, plainCluster(t), unique("team"), tofutest.Options{})
	refused := func(config, at, summary, detail string) {
		t.Helper()
		b.use(config)
		found := b.Validate().Error(t, summary, detail)
		if found.Snippet == nil || !strings.Contains(found.Snippet.Code, at) {
			t.Errorf("%s\n does not point at %s", found, at)
		}
	}
	// The runners cannot point into an attribute's value: there the summary alone has the path.
	const block = "data \"berth_"
	preflight := func(line string) string { return data("preflight", line) }
	refused(preflight(`kubernetes_version = "newest"`), `kubernetes_version`, "`kubernetes_version` is not valid", `"newest" is neither a version such as "1\.35", which is a floor, nor a constraint`)
	refused(preflight(`features = ["ImageVolumes"]`), `features`, "Invalid Attribute Value", `features\[0\] value must be one of:? .*"ImageVolume".*"PodLevelResources"`)
	// J64
	refused(preflight(`platforms = ["linux/arm64", "linux/s390x", "windows/amd64"]`), `platforms`, "`platforms` names a platform that no image is released for",
		"^`platforms` names linux/s390x, windows/amd64 — berth knows images for linux/amd64, linux/arm64 and nothing else")
	// J28
	refused(preflight(`tolerations = [{ key = "a", operator = "Exists" }, { key = "pool", operator = "Exists", value = "agents" }]`), `tolerations`,
		"`tolerations\\[1\\]` is not a toleration", `the operator Exists compares no value, but value is "agents"`)
	refused(data("nodes", `tolerations = [{ value = "agents" }]`), `tolerations`, "`tolerations\\[0\\]` is not a toleration", `without a key the operator must be Exists`)
	refused(data("nodes", `tolerations = [{ key = "pool", effect = "Never" }]`), `tolerations`, "is not a toleration", `effect "Never" is none of NoSchedule, PreferNoSchedule, NoExecute`)
	// J34
	refused(preflight(`sizes = { hold = { memory = "8 GB", cpu = "4" } }`), block, "`sizes\\[\"hold\"\\].memory` is not valid", `^"8 GB" is not a quantity above zero, such as "8Gi"`)
	refused(data("quota", `namespace = "a"`, `sizes = { hold = { cpu = "0" } }`), block, "`sizes\\[\"hold\"\\].cpu` is not valid", `^"0" is not a quantity above zero, such as "4"`)
	refused(data("quota", `namespace = "Team"`), `namespace`, "`namespace` is not valid", `"Team" is not a name that a namespace can have`)
	refused(preflight(`namespaces = [{ name = "a", pod_security = "strict" }]`), block, "Invalid Attribute Value", `namespaces\[0\].pod_security value must be one of`)
	refused(preflight(`quota_namespace = "a"`), `quota_namespace`, "Invalid Attribute Combination", `"sizes" must be specified when "quota_namespace" is specified`)
	refused(preflight(`on_failure = "ignore"`), `on_failure`, "Invalid Attribute Value", `value must be one of`)
	refused(preflight(`endpoints = [{ url = "ftp://example.com" }]`), block, "`endpoints\\[0\\].url` is not an address", `no http:// or https:// address`)
	refused(preflight("endpoints = [{\n url = \"https://example.com\"\n statuses = [42]\n}]"), block, "Invalid Attribute Value", `statuses\[0\] value must be between 100 and 599`)

	// X9: what may be a password is in no message.
	b.use("variable \"url\" {}\n", preflight(`endpoints = [{ url = var.url }]`))
	b.SetEnv("TF_VAR_url", "https://ci:pa55word@example.com")
	result := b.Plan()
	result.Error(t, "`endpoints\\[0\\].url` holds a user name or a password", "The state would keep it")
	for _, found := range result.Diagnostics {
		if strings.Contains(found.Summary+found.Detail, "pa55word") {
			t.Errorf("the password is shown: %s", found)
		}
	}
	same(t, "requests", requestLines(b.proxy), "")
}
