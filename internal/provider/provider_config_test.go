package provider_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// A resource names its cluster, unless there is only one (X1).
func TestClusterKey(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	entry := byPath(t, b.proxy.AdminKubeconfig())
	refused := func(block, resource, summary string, details ...string) {
		t.Helper()
		b.Write("main.tf", block+resource)
		b.Plan().Error(t, summary, details...)
	}
	two := providerBlock(b.owner, clusters{"eu": entry, "us": entry})
	refused(two, class("this", "a", `cluster = "ue"`), `^No cluster "ue" in the provider configuration$`,
		`its keys are: "eu", "us"\. Use one of them, or add an entry for "ue"`)
	refused(two, class("this", "a"), "^`cluster` is needed when several clusters are configured$",
		`has 2 entries, and nothing says which one is meant\. Set .?cluster.? to one of: "eu", "us"`)
	refused(providerBlock(b.owner, clusters{}), class("this", "a"), "^No cluster is configured$", `Add an entry to .?clusters.? in the provider "berth" block`)
	same(t, "requests", len(b.proxy.Requests()), 0)

	name := unique("default")
	b.use(class("this", name))
	b.MustApply()
	same(t, "cluster", b.Resource(this)["cluster"], "shared")
	b.MustDestroy()
}

// What an entry or the block can never mean is an error of validate, at its attribute.
func TestProviderValidation(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	refused := func(block, summary, detail string) {
		t.Helper()
		b.Write("main.tf", block+class("this", "a"))
		b.Plan().Error(t, summary, detail)
	}
	entry := func(body string) string { return providerBlock("team", clusters{"a": body}) }
	refused(entry(`context = "x"`), "The entry has no connection", "berth never falls back to KUBECONFIG, to a default file or to the pod it runs in")
	refused(entry(`kubeconfig_path = "~/.kube/config"`), "kubeconfig_path needs a context", "the next apply could reach another cluster")
	refused(entry("host = \"https://a.example\"\nkubeconfig = \"x\""), "The entry has more than one connection", "Keep exactly one of kubeconfig, kubeconfig_path and host")
	refused(entry("host = \"https://a.example\"\ntoken = \"abcdefgh\"\nclient_key = \"k\""), "The entry has more than one credential", "Keep exactly one of token, client_certificate with client_key, and exec")
	refused(entry(`host = "https://a.example"`), "host needs a credential", "Set exactly one of token, client_certificate with client_key, and exec")
	refused(entry("host = \"http://a.example\"\ntoken = \"abcdefgh\""), "host is not the address of an API server", "uses http, which would send the credential in clear text")
	refused(entry("host = \"https://10.0.0.1\"\ntoken = \"abcdefgh\"\npublic_only = true"), `^clusters\["a"\]: host is not a public address$`,
		`"10.0.0.1" is private \(10.0.0.0/8, RFC 1918\)\. Set host to the API server's public address, or remove public_only`)
	refused(entry("host = \"https://a.example\"\ntoken = \"abcdefgh\"\npublic_only = true\nproxy_url = \"http://p:1\""), "public_only and proxy_url exclude each other", "would dial in berth's place")
	refused(providerBlock("a/b", clusters{}), "`owner` is not valid", "has a slash, which parts the owner from the resource on ownership marks")
	refused(providerBlock("team", clusters{}, `on_unreachable = "ignore"`), "Invalid Attribute Value", `on_unreachable value must be one of`)
	refused(providerBlock("team", clusters{}, `progress_file = "/no/such/folder/file"`), "The progress file cannot be written", "Name a file in a folder that exists")
	refused(entry("kubeconfig_path = \"/no/such/kubeconfig\"\ncontext = \"x\""), `^clusters\["a"\]: the kubeconfig file does not exist`, `/no/such/kubeconfig`)
}

// An entry with public_only dials no private address, whatever on_unreachable says: it is no cluster that does not answer
// (I66).
func TestPublicOnly(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		b := newBench(t, tofutest.Options{Runner: runner})
		name := unique("public")
		admin := b.proxy.AdminKubeconfig()
		for what, body := range map[string]string{"content": byContent(admin), "path": byPath(t, admin)} {
			b.Write("main.tf", providerBlock(b.owner, clusters{"shared": body + "\npublic_only = true"}, `on_unreachable = "warn"`)+class("this", name, `cluster = "shared"`))
			plan := b.Plan()
			plan.Error(t, `^Cluster "shared" has no public address$`, `clusters\["shared"\] leads to https://`, `loopback`, "The entry has public_only", "Nothing was applied")
			same(t, "requests by "+what, len(b.proxy.Requests()), 0)
		}
		b.Write("main.tf", providerBlock(b.owner, clusters{"shared": byContent(admin) + "\npublic_only = false"})+class("this", name, `cluster = "shared"`))
		b.MustApply()
		b.PlanIsEmpty()
		b.MustDestroy()
	})
}

// Each kind of entry leads to the cluster, and the environment of one entry's plugin does not reach another's. What
// the environment says of clusters has no say (X1).
func TestEntryKinds(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		b := newBench(t, tofutest.Options{Runner: runner})
		ambient := b.cluster.Proxy(t, fleettest.ProxyOptions{})
		b.SetEnv("KUBECONFIG", ambient.Kubeconfig(t))
		b.SetEnv("KUBE_CONFIG_PATH", ambient.Kubeconfig(t))
		if err := os.Mkdir(filepath.Join(b.Home, ".kube"), 0o700); err != nil {
			t.Fatal(err)
		}
		for path, content := range map[string]string{".kube/config": ambient.AdminKubeconfig().Content(), "own.yaml": b.proxy.AdminKubeconfig().Content()} {
			if err := os.WriteFile(filepath.Join(b.Home, path), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}

		admin := b.proxy.AdminKubeconfig()
		tokens := map[string]string{}
		for _, account := range []string{"one", "two"} {
			tokens[account] = grantAll(t, b.cluster, "entries/"+account).Token
		}
		seen := filepath.Join(t.TempDir(), "seen")
		plugin := script(t, `echo "$TOKEN|$ONLY_ONE|$ONLY_TWO" >>"$1"
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}' "$TOKEN"
`)
		host := fmt.Sprintf("host = %q\ncluster_ca_certificate = %q\n", admin.Server, admin.CA)
		exec := func(account, variable string) string {
			return fmt.Sprintf("%sexec = {\napi_version = \"client.authentication.k8s.io/v1\"\ncommand = %q\nargs = [%q]\nenv = { TOKEN = %q, %s = \"set\" }\n}",
				host, plugin, seen, tokens[account], variable)
		}
		entries := clusters{
			"content":     byContent(admin),
			"path":        "kubeconfig_path = \"~/own.yaml\"\ncontext = \"shared\"",
			"token":       fmt.Sprintf("%stoken = %q", host, tokens["one"]),
			"certificate": fmt.Sprintf("%sclient_certificate = %q\nclient_key = %q", host, admin.ClientCertificate, admin.ClientKey),
			"exec-one":    exec("one", "ONLY_ONE"),
			"exec-two":    exec("two", "ONLY_TWO"),
		}
		var resources []string
		prefix := unique("entry")
		for key := range entries {
			resources = append(resources, class(key, prefix+"-"+key, fmt.Sprintf("cluster = %q", key)))
		}
		b.Write("main.tf", providerBlock(b.owner, entries)+strings.Join(resources, "\n"))
		b.MustApply()
		for key := range entries {
			name := prefix + "-" + key
			same(t, "marks of "+name, marksOf(b.mustClass(name)), ownedBy(b.owner, name, true))
			same(t, "cluster_uid by "+key, b.Resource("berth_priority_class." + key)["cluster_uid"], b.cluster.UID())
		}
		b.PlanIsEmpty()
		b.MustDestroy()

		same(t, "requests to the ambient cluster", len(ambient.Requests()), 0)
		content, err := os.ReadFile(seen)
		if err != nil {
			t.Fatal(err)
		}
		lines := map[string]bool{}
		for line := range strings.Lines(string(content)) {
			lines[strings.TrimSpace(line)] = true
		}
		same(t, "environments of the plugins", lines, map[string]bool{tokens["one"] + "|set|": true, tokens["two"] + "||set": true})
	})
}

// grantAll makes a ServiceAccount an administrator and gives its kubeconfig.
func grantAll(t *testing.T, c *fleettest.Cluster, account string) fleettest.Kubeconfig {
	t.Helper()
	config := c.ServiceAccountKubeconfig(t, account)
	namespace, name, _ := strings.Cut(account, "/")
	_, err := c.Client().RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "admin-" + name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return config
}

// A connection that is built in the same apply puts the checks off and says so; the apply runs them (X2, promise 2).
func TestUnknownConnection(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		for kind, expression := range map[string]string{
			"kubeconfig": `{ shared = { kubeconfig = terraform_data.cluster.output } }`,
			"host":       `{ shared = { host = terraform_data.host.output, cluster_ca_certificate = terraform_data.ca.output, client_certificate = file("cert.pem"), client_key = file("key.pem") } }`,
			"clusters":   `terraform_data.clusters.output`,
		} {
			t.Run(kind, func(t *testing.T) {
				b := newBench(t, tofutest.Options{Runner: runner})
				admin := b.proxy.AdminKubeconfig()
				b.Write("kubeconfig.yaml", admin.Content())
				b.Write("cert.pem", string(admin.ClientCertificate))
				b.Write("key.pem", string(admin.ClientKey))
				b.Write("built.tf", fmt.Sprintf(`
resource "terraform_data" "cluster" { input = file("kubeconfig.yaml") }
resource "terraform_data" "host" { input = %q }
resource "terraform_data" "ca" { input = %q }
resource "terraform_data" "clusters" { input = { shared = { kubeconfig = file("kubeconfig.yaml") } } }
`, admin.Server, admin.CA))
				taken, name := unique("taken"), unique("late")
				b.foreign(taken, 1000, nil)
				block := providerWith(b.owner, expression)

				b.Write("main.tf", block+class("this", name, `cluster = "shared"`)+class("taken", taken, `cluster = "shared"`))
				plan := b.MustPlan()
				plan.Warning(t, `^The checks of berth_priority_class "`+name+`" on cluster "shared" are put off to the apply$`,
					`the connection of cluster "shared" is not known yet, this plan could not look at the cluster`, "The apply checks them before it writes anything")
				same(t, "id", plan.Change(t, this).After["id"], "shared/"+name)
				same(t, "requests of the plan", len(b.proxy.Requests()), 0)

				b.Apply().Error(t, "^PriorityClass/"+taken+" exists already and is not berth's$", "Nothing was applied")
				same(t, "the other class", marksOf(b.mustClass(name)), ownedBy(b.owner, name, true))

				b.Write("main.tf", block+class("this", name, `cluster = "shared"`))
				b.MustApply()
				b.PlanIsEmpty()
				b.Write("main.tf", block)
				b.MustApply()
				if b.class(name) != nil {
					t.Error("the class is still there")
				}
			})
		}
	})
}

// Where not even the keys are known, a resource without `cluster` learns at the apply which one it is on.
func TestUnknownDefaultCluster(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("late")
	b.Write("kubeconfig.yaml", b.proxy.AdminKubeconfig().Content())
	b.Write("main.tf", providerWith(b.owner, "terraform_data.clusters.output")+
		`resource "terraform_data" "clusters" { input = { shared = { kubeconfig = file("kubeconfig.yaml") } } }`+"\n"+class("this", name))
	plan := b.MustPlan()
	plan.Warning(t, `^The checks of berth_priority_class "`+name+`" are put off to the apply$`, "it is not known yet which cluster it is on")
	unknown := plan.Change(t, this).AfterUnknown
	same(t, "unknown at plan", row(unknown["cluster"], unknown["id"], unknown["cluster_uid"]), row(true, true, true))
	b.MustApply()
	state := b.Resource(this)
	same(t, "known after it", row(state["cluster"], state["id"], state["cluster_uid"]), row("shared", "shared/"+name, b.cluster.UID()))
	b.PlanIsEmpty()
	b.kubectl("delete", "priorityclass", name)
}

// A connection that becomes unknown keeps the state as it is: nothing is replaced, and nothing dials a default.
func TestConnectionBecomesUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("kept")
	b.use(class("this", name, `cluster = "shared"`))
	b.MustApply()
	b.Write("kubeconfig.yaml", b.proxy.AdminKubeconfig().Content())
	b.Write("main.tf", providerWith(b.owner, `{ shared = { kubeconfig = terraform_data.cluster.output } }`)+
		`resource "terraform_data" "cluster" { input = file("kubeconfig.yaml") }`+"\n"+class("this", name, `cluster = "shared"`, `description = "new"`))
	b.proxy.Reset()
	plan := b.MustPlan()
	change, state := plan.Change(t, this), b.Resource(this)
	same(t, "plan", row(change.Actions, change.After["id"], change.After["cluster_uid"]), row([]string{"update"}, state["id"], state["cluster_uid"]))
	same(t, "requests of the plan", len(b.proxy.Requests()), 0)
	b.MustApply()
	same(t, "description", b.mustClass(name).Description, "new")
	b.PlanIsEmpty()
	b.kubectl("delete", "priorityclass", name)
}

// Credentials are in no resource: they may be ephemeral, and change without a diff.
func TestCredentialsRotate(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		b := newBench(t, tofutest.Options{Runner: runner})
		name := unique("rotated")
		admin := b.proxy.AdminKubeconfig()
		resource := class("this", name, `cluster = "shared"`)
		b.Write("main.tf", providerBlock(b.owner, clusters{"shared": fmt.Sprintf("host = %q\ncluster_ca_certificate = %q\ntoken = var.token", admin.Server, admin.CA)})+
			"variable \"token\" {\ntype = string\nephemeral = true\n}\n"+resource)
		token := "-var=token=" + grantAll(t, b.cluster, "rotation/first").Token
		b.MustApply(token)
		b.PlanIsEmpty(token)
		b.PlanIsEmpty("-var=token=" + grantAll(t, b.cluster, "rotation/second").Token)

		b.Write("main.tf", providerBlock(b.owner, clusters{"shared": byContent(admin)})+resource)
		b.PlanIsEmpty()
		b.MustDestroy()
	})
}

// Long work can be followed in a file, a JSON object a line.
func TestProgressFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "progress.jsonl")
	b := newBench(t, tofutest.Options{}, fmt.Sprintf("progress_file = %q", file))
	name := unique("followed")
	b.use(class("this", name))
	b.MustApply()
	b.use(class("this", name, "value = 5"))
	b.MustApply()
	b.MustDestroy()
	same(t, "steps", progressSteps(t, file), []string{
		"shared PriorityClass/" + name + " create ",
		"shared PriorityClass/" + name + " delete it is created again, because Kubernetes never lets this change: value: 1000 → 5",
		"shared PriorityClass/" + name + " create ",
		"shared PriorityClass/" + name + " delete ",
	})
}

// What the API server's certificate, credential and permissions are is told apart, and is an error always, also where
// unreachable clusters are only warned of.
func TestRefusedConnections(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("refused")
	admin := b.proxy.AdminKubeconfig()
	resource := class("this", name, `cluster = "shared"`)
	b.Write("main.tf", providerBlock(b.owner, clusters{"shared": byContent(admin)})+resource)
	b.MustApply()

	stranger := otherCluster(t).AdminKubeconfig()
	with := func(change func(*fleettest.Kubeconfig)) fleettest.Kubeconfig {
		config := admin
		change(&config)
		return config
	}
	refused := func(config fleettest.Kubeconfig, summary string, details ...string) {
		t.Helper()
		b.Write("main.tf", providerBlock(b.owner, clusters{"shared": byContent(config)}, `on_unreachable = "warn"`)+resource)
		b.Plan().Error(t, summary, details...)
	}
	refused(with(func(k *fleettest.Kubeconfig) { k.CA = stranger.CA }), `^Cluster "shared": its API server's certificate is signed by an unknown authority$`, "certificate")
	refused(with(func(k *fleettest.Kubeconfig) {
		k.ClientCertificate, k.ClientKey, k.Token = nil, nil, "not-a-token-of-this-cluster"
	}),
		`^Cluster "shared": its API server does not accept the credential \(401\)$`, "401 Unauthorized to the token")
	refused(b.proxy.Through(b.cluster.UserKubeconfig(t, "nobody")), `^Reading berth_priority_class "`+name+`" on cluster "shared" failed$`,
		`user "nobody" may not get namespaces .*Grant it by a .*Role.* verbs: \["get"\]`)
	restore := b.proxy.Fail(nil, fleettest.HTMLPage)
	refused(admin, `^Cluster "shared": a web page answered instead of the API server$`, `an HTML page titled "Sign in"`)
	restore()
	b.Write("main.tf", providerBlock(b.owner, clusters{"shared": byContent(admin)})+resource)
	b.PlanIsEmpty()
	b.MustDestroy()
}
