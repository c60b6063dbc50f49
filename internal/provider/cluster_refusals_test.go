package provider_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// Where each promise of the design is shown for registrations:
//
//  1. look before you touch: TestClusterRefusals, TestClusterCredentialKinds, TestClusterPermissions
//  2. unknown is not missing: TestClusterOrg, TestClusterUnknown
//  3. never touch what is not ours: TestClusterAdoption
//  4. right cluster: TestClusterEntryReplaced
//  5. the cluster is the journal: TestClusterKilledAtEveryWrite, TestClusterOrder, TestClusterRemovalKilled, TestClusterRemovalGivenUp
//  6. drift, field by field: TestClusterRhythm, TestClusterArguments, TestClusterMoves
//  7. secrets: TestClusterKeepsCredentialsOut
//  9. import ends in an empty plan: TestClusterRhythm, TestClusterImportsArgoCDs
// 10. destroy is ordered: the tests of the removal
// 11. a cluster that does not answer: TestClusterSilent

// What can never be meant is an error of validate, at its attribute, and nobody is asked anything (I15, I21, I92, I95, Y12).
func TestClusterValidation(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	built := `registration = { module = "eks-cluster" }`
	cases := []struct{ argument, summary, detail string }{
		{fmt.Sprintf("name = %q", strings.Repeat("a", 43)), "^`name` is not valid$", strings.Repeat("a", 43) + `" is not the name of a cluster: use lower-case letters, digits and hyphens, at most 42 characters`},
		{`name = "Edge"`, "^`name` is not valid$", `^"Edge" is not the name of a cluster`},
		{`name = "-edge"`, "^`name` is not valid$", `^"-edge" is not the name of a cluster`},
		{`name = "edge."`, "^`name` is not valid$", `^"edge\." is not the name of a cluster`},
		{`access = "edge/kube-system"`, "^`access` is not valid$", `^"edge/kube-system" is not the id of a berth_cluster_access: .* such as .edge/kube-system/berth.`},
		{`server = "http://10.0.0.1:6443"`, "^`server` is not valid$", `uses http, which would send the credential in clear text\. Write the https URL of the API server`},
		{`server = "10.0.0.1:6443"`, "^`server` is not valid$", `^"10.0.0.1:6443" has no scheme`},
		{`server = "https://user@10.0.0.1"`, "^`server` is not valid$", `has a user name in it`},
		{`server = "https://kubernetes.default.svc:443/"`, "^`server` is not valid$", `is the address of the cluster that Argo CD runs in\. To register that, set in_cluster = true`},
		{`secret_labels = { "berth.dev/provider" = "aws" }`, "^`secret_labels.*` is not valid$", `^"berth.dev/provider" is a key that berth or Argo CD keeps for itself`},
		{`secret_labels = { "argocd.argoproj.io/secret-type" = "repository" }`, "^`secret_labels.*` is not valid$", `^"argocd.argoproj.io/secret-type" is a key that berth or Argo CD keeps for itself`},
		{`secret_labels = { "app.kubernetes.io/managed-by" = "me" }`, "^`secret_labels.*` is not valid$", `^"app.kubernetes.io/managed-by" is a key that berth`},
		{`secret_labels = { tier = "a b" }`, "^`secret_labels.*` is not valid$", `^"a b" is not a value that a label can have`},
		{`secret_annotations = { "argocd.argoproj.io/skip-reconcile" = "true" }`, "^`secret_annotations.*` is not valid$", `is a key that berth or Argo CD keeps for itself`},
		{`removal = { release_cloud_resources = true }`, "^`removal.release_cloud_resources` needs a `registration`$", `^refusing: only of a cluster that a module of berth built .* A cluster that was only registered keeps them`},
		{`removal = { backup_disks = true }`, "^`removal.backup_disks` needs a `registration`$", `^refusing: only of a cluster that a module of berth built`},
		{`removal = { step_timeout = "soon" }`, "^`removal.step_timeout` is not valid$", `"soon"`},
		{`force_steps = ["environments"]`, "^`force_steps\\[0\\]` is not valid$", `^"environments" is never forced: an environment is somebody's running product\. Move or remove it first`},
		{`force_steps = ["disconnect"]`, "^`force_steps\\[0\\]` is not valid$", `^"disconnect" is not a step that can be forced: use backup, applications, release, confirm`},
		{`token_lifetime = "5m"`, "^`token_lifetime` is not valid$", `is shorter than the ten minutes that an API server gives a token for`},
		{p.root(`path = "a/../b"`), "^`app_of_apps.path` is not valid$", `it has an empty part, or one that is`},
		{p.root(`path = "/a"`), "^`app_of_apps.path` is not valid$", `write it relative to the root`},
		{`provider_name = "azure"`, "Invalid Attribute Value Match", `provider_name value must be one of`},
		{`flavor = "gke"`, "Invalid Attribute Value Match", `flavor value must be one of`},
		{`namespaces = []`, "Invalid Attribute Value", `namespaces list must contain at least 1 elements`},
	}
	var text strings.Builder
	for i, one := range cases {
		text.WriteString(p.blockOf(fmt.Sprintf("c%d", i), one.argument))
	}
	// What is allowed beside them.
	text.WriteString(p.blockOf("built", built, "removal = { release_cloud_resources = true, backup_disks = true }", `force_steps = ["backup", "applications", "release", "confirm"]`))
	p.use(text.String())
	plan := p.Plan()
	for _, one := range cases {
		plan.Error(t, one.summary, one.detail)
	}
	for _, found := range plan.Errors() {
		if found.Snippet != nil && strings.Contains(found.Snippet.Context, `"built"`) {
			t.Errorf("refused: %s", found)
		}
	}
	same(t, "requests", row(len(p.proxy.Requests()), len(p.edgeProxy.Requests())), row(0, 0))
}

// Each thing that stands against a registration is refused at plan, with what it is and the way out, all of them in one plan;
// nothing is written (I5, I6, I15, I23, I42, I76, I102, X1, X3, X6, Y12, Y13).
func TestClusterRefusals(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	taken := unique("argo")
	p.mgmt.CreateArgoCDNamespace(t, taken)
	server := p.edgeProxy.Server()
	p.bySomebody(taken, "cluster-1234567890", "theirs", strings.ToUpper(server[:8])+server[8:]+"/")
	p.bySomebody(p.space, "their-cluster", "popular", "https://203.0.113.10:6443")
	foreign, marked := unique("edge"), unique("edge")
	p.bySomebody(p.space, "cluster-"+foreign, foreign, "https://203.0.113.11:6443")
	p.bySomebody(p.space, "cluster-"+marked, marked, "https://203.0.113.12:6443")
	p.kubectl("-n", p.space, "label", "secret", "cluster-"+marked, "app.kubernetes.io/managed-by=berth")
	p.kubectl("-n", p.space, "annotate", "secret", "cluster-"+marked, "berth.dev/owner=another-team/cluster."+marked)
	config, rooted := unique("edge"), unique("edge")
	p.kubectl("create", "namespace", p.store)
	p.kubectl("-n", p.store, "create", "secret", "generic", "cluster-"+config+"-kubeconfig", "--from-literal=kubeconfig=theirs")
	p.application(rooted, "")
	token := p.lastingToken()
	p.entries(clusters{"edge": p.tokenEntry(token)})
	// One server can be planned once: each of the others would be at an address of its own.
	address := 0
	elsewhere := func(more ...string) string {
		address++
		return fmt.Sprintf("server = \"https://198.51.100.%d:6443\"\n%s", address, strings.Join(more, "\n"))
	}
	named := func(name string) string { return fmt.Sprintf("name = %q", name) }
	fresh := func() string { return named(unique("edge")) }

	cases := []struct {
		arguments string
		summary   string
		details   []string
	}{
		{
			fmt.Sprintf("argocd_namespace = %q", taken), `^Argo CD on mgmt knows ` + quoted(server) + ` already, as "theirs"$`,
			[]string{quoted("refusing: Secret " + taken + "/cluster-1234567890 on mgmt registers the same server"), `To take that registration over, set secret_name = "cluster-1234567890", name = "theirs" and adopt = true, or import it; otherwise remove it first\.`},
		},
		{elsewhere(named("popular")), `^Argo CD on mgmt has a cluster called "popular" already$`, []string{quoted("refusing: Secret " + p.space + "/their-cluster on mgmt has this name for https://203.0.113.10:6443"), "Choose another name"}},
		{elsewhere(named(foreign)), "^Secret/" + p.space + "/cluster-" + foreign + " exists already and is not berth's$", []string{"Set adopt = true to take it over as it is, or choose another name"}},
		{elsewhere(named(marked), "adopt = true"), "^Secret/" + p.space + "/cluster-" + marked + " belongs to another owner$", []string{`is marked as cluster\.` + marked + ` of the configuration with owner "another-team"`}},
		{elsewhere(fresh(), `secret_name = "their-cluster"`, "adopt = true"), "^Secret " + p.space + "/their-cluster is of another cluster$", []string{`it is what Argo CD knows as "popular".* Set name = "popular", or secret_name to another name`}},
		{elsewhere(named(config)), "^Secret/" + p.store + "/cluster-" + config + "-kubeconfig exists already and is not berth's$", []string{"Set adopt = true"}},
		{elsewhere(named(rooted), p.root()), "^Application/" + p.space + "/registry-" + rooted + " exists already and is not berth's$", []string{"Set adopt = true"}},
		{elsewhere(fresh(), `argocd_namespace = "default"`), `^There is no AppProject "default" in namespace "default"$`, []string{"^refusing: AppProject/default/default does not exist on mgmt.*Set argocd_namespace to its own, or install it first"}},
		{elsewhere(fresh(), p.root(`project = "nobody"`)), `^There is no AppProject "nobody" in namespace "` + p.space + `"$`, []string{"Create it first, or set app_of_apps.project to one that is there"}},
		{`management = "edge"` + "\ncluster = \"mgmt\"\n" + fresh(), `^There is no AppProject "default" in namespace "` + p.space + `"$`, []string{"does not exist on edge.*either it does not run there, or it runs in another namespace"}},
		{"cluster = \"mgmt\"\n" + fresh(), `^"mgmt" is the management cluster itself$`, []string{`^refusing: clusters\["mgmt"\] and clusters\["mgmt"\] lead to the same cluster \(UID ` + p.mgmt.UID() + `\), which Argo CD knows already as "in-cluster"\..*set in_cluster = true`}},
		{"in_cluster = true\n" + fresh() + "\n" + p.root(), `^"edge" is not the management cluster$`, []string{`clusters\["edge"\] \(UID ` + p.edge.UID() + `\) is another one than clusters\["mgmt"\] \(UID ` + p.mgmt.UID() + `\)\. Leave in_cluster out, or leave .?cluster.? out`}},
		{"in_cluster = true\ncluster = \"mgmt\"\n" + fresh(), `would be nothing at all$`, []string{"with in_cluster the registration is an app-of-apps and nothing else.*Set app_of_apps"}},
		{"in_cluster = true\ncluster = \"mgmt\"\n" + fresh() + "\n" + p.root() + "\nshard = 1\nsecret_labels = { a = \"b\" }", `has no Secret that could have secret_labels, shard$`, []string{"in_cluster makes no Secret for it. Take out secret_labels, shard"}},
		{elsewhere(`name = "in-cluster"`), `^"in-cluster" is the name of the cluster that Argo CD runs in$`, []string{"Choose another name"}},
		{elsewhere(fresh(), `access = "mgmt/kube-system/default"`), `^"mgmt/kube-system/default" is on another cluster than "edge-`, []string{`^refusing: the token of a ServiceAccount is good for its own cluster only.*Set access to the id of a berth_cluster_access on "edge"`}},
		{elsewhere(fresh(), `access = "nowhere/kube-system/default"`), `^No cluster "nowhere" in the provider configuration$`, []string{`its keys are: "edge", "mgmt"`}},
		{elsewhere(fresh(), `access = "edge/kube-system/nobody"`), `^There is no ServiceAccount kube-system/nobody on cluster "edge"$`, []string{`refusing: access = "edge/kube-system/nobody" names it, and it does not exist on edge\. Create it with a berth_cluster_access, and set access to its id`}},
	}
	var text strings.Builder
	for i, one := range cases {
		text.WriteString(p.blockOf(fmt.Sprintf("c%d", i), one.arguments))
	}
	text.WriteString("resource \"berth_cluster\" \"nowhere\" {\nmanagement = \"mgmt\"\nname = \"nowhere\"\n}\n")
	text.WriteString(p.blockOf("unmanaged", `management = "elsewhere"`, elsewhere(fresh())))
	p.use(text.String())
	p.reset()
	plan := p.Plan()
	for _, one := range cases {
		found := plan.Error(t, one.summary, one.details...)
		if strings.HasPrefix(found.Detail, "refusing:") && !strings.Contains(found.Detail, "Nothing was applied.") {
			t.Errorf("it does not say that nothing was applied: %s", found)
		}
	}
	plan.Error(t, "^berth_cluster needs a `cluster`$", "Set .?cluster.? to its key")
	plan.Error(t, `^No cluster "elsewhere" in the provider configuration$`, `its keys are: "edge", "mgmt"`)
	same(t, "errors", len(plan.Errors()), len(cases)+2)
	p.unwritten()
	if strings.Contains(plan.Log, token) {
		t.Error("the token is in a diagnostic (X9)")
	}

	// The longest name, and two of one plan for one server.
	longest := p.name + strings.Repeat("x", 42-len(p.name))
	p.use(p.blockOf("longest", named(longest)))
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "its Secrets", row(secretOn(t, p.mgmt, p.space, "cluster-"+longest) != nil, secretOn(t, p.mgmt, p.store, "cluster-"+longest+"-kubeconfig") != nil), row(true, true))
	p.MustDestroy()
	p.use(p.blockOf("one", fresh()), p.blockOf("two", fresh()))
	p.Plan().Error(t, "^Two resources register "+quoted(server)+" with Argo CD on mgmt$", "would have the same server.*Take one of the two resources out. Nothing was applied")
}

// bySomebody makes the Secret of a cluster as somebody without berth does.
func (p *pair) bySomebody(namespace, secret, name, server string) {
	p.t.Helper()
	p.kubectl("-n", namespace, "create", "secret", "generic", secret, "--from-literal=name="+name, "--from-literal=server="+server, `--from-literal=config={"bearerToken":"canary-of-somebody","tlsClientConfig":{"insecure":true}}`)
	p.kubectl("-n", namespace, "label", "secret", secret, "argocd.argoproj.io/secret-type=cluster")
}

// application makes a root Application as somebody without berth does; tracked names the Application that keeps it.
func (p *pair) application(name, tracked string) {
	p.t.Helper()
	annotations := ""
	if tracked != "" {
		annotations = fmt.Sprintf("annotations: {argocd.argoproj.io/tracking-id: \"%s:argoproj.io/Application:%s/registry-%s\"}", tracked, p.space, name)
	}
	p.cluster.KubectlInput(p.t, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: registry-%s
  namespace: %s
  %s
spec:
  project: default
  source: {repoURL: "https://git.example.com/theirs.git", targetRevision: HEAD, path: there}
  destination: {server: "https://kubernetes.default.svc", namespace: %s}
`, name, p.space, annotations, p.space), "create", "-f", "-")
}

// Argo CD needs a credential that it can store: each kind that it can't is refused with a text of its own (I12, I14, I104).
func TestClusterCredentialKinds(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	admin := p.edgeProxy.AdminKubeconfig()
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	changed := func(change func(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo)) string {
		config, err := clientcmd.Load([]byte(admin.Content()))
		if err != nil {
			t.Fatal(err)
		}
		change(config.Clusters["edge"], config.AuthInfos["edge-user"])
		content, err := clientcmd.Write(*config)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("kubeconfig = %q", content)
	}
	lasting := p.lastingToken()
	signedIn := func(token string) string {
		return changed(func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			*user = clientcmdapi.AuthInfo{Token: token}
		})
	}
	// The cluster is shared with other tests, whose ServiceAccounts must get no rights by this one.
	hourly := unique("hour")
	hour := p.edge.ServiceAccountKubeconfig(t, hourly+"/berth").Token
	p.edge.Kubectl(t, "create", "clusterrolebinding", hourly, "--clusterrole=cluster-admin", "--serviceaccount="+hourly+":berth")
	plugin := script(t, `printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}' "`+lasting+`"`)
	cases := []struct{ key, entry, summary, detail string }{
		{
			"exec", fmt.Sprintf("host = %q\ncluster_ca_certificate = %q\nexec = {\napi_version = \"client.authentication.k8s.io/v1\"\ncommand = %q\n}", admin.Server, admin.CA, plugin),
			"it comes from an exec plugin", "has the exec plugin .*, which runs on this machine",
		},
		{"file", changed(func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			*user = clientcmdapi.AuthInfo{TokenFile: file("token", []byte(lasting))}
		}), "it is in a token file", "has the tokenFile .*, a file of this machine whose content changes"},
		{"certificate", changed(func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			user.ClientCertificateData, user.ClientCertificate = nil, file("client.crt", admin.ClientCertificate)
		}), "client-certificate is the path of a file", "kubectl config view --raw --flatten.*client-certificate-data"},
		{"key", changed(func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			user.ClientKeyData, user.ClientKey = nil, file("client.key", admin.ClientKey)
		}), "client-key is the path of a file", "client-key-data"},
		{"authority", changed(func(cluster *clientcmdapi.Cluster, _ *clientcmdapi.AuthInfo) {
			cluster.CertificateAuthorityData, cluster.CertificateAuthority = nil, file("ca.crt", admin.CA)
		}), "certificate-authority is the path of a file", "certificate-authority-data"},
		{"aws", signedIn(awsSignIn), "it is a sign-in token of AWS", "one that .aws eks get-token. makes, and EKS takes it for 15 minutes"},
		{"google", signedIn(googleSignIn), "it is a sign-in token of Google Cloud", "an access token of a Google account, which lasts about an hour"},
		{"hour", signedIn(hour), "it ends at 20..-..-..T..:..:..Z", "what is stored has to last for more than a day"},
		{"as", changed(func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
			user.Impersonate, user.ImpersonateGroups = "somebody", []string{"system:masters"}
		}), "it acts as another user", "only the credential itself could be stored, which may do other things"},
	}
	entries, text := clusters{}, strings.Builder{}
	for _, one := range cases {
		entries[one.key] = one.entry
		text.WriteString(p.blockOf(one.key, fmt.Sprintf("cluster = %q\nname = %q\nserver = \"https://%s.example.com\"", one.key, one.key, one.key)))
	}
	// These do not even connect.
	entries["auth-provider"] = changed(func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
		*user = clientcmdapi.AuthInfo{AuthProvider: &clientcmdapi.AuthProviderConfig{Name: "gcp"}}
	})
	entries["nowhere"] = fmt.Sprintf("kubeconfig = %q", strings.Replace(admin.Content(), "current-context: edge", "current-context: missing", 1))
	text.WriteString(p.blockOf("auth", `cluster = "auth-provider"`, `name = "auth"`))
	text.WriteString(p.blockOf("nowhere", `cluster = "nowhere"`, `name = "nowhere"`))
	p.entries(entries)
	p.use(text.String())
	p.reset()
	plan := p.Plan()
	for _, one := range cases {
		found := plan.Error(t, `^The credential of cluster "`+one.key+`" cannot be stored: `+one.summary+"$", "^refusing: ", one.detail,
			`Argo CD needs a credential that it can store .*Create a berth_cluster_access on the cluster and set access to its id, or give clusters\["`+one.key+`"\] such a credential\. Nothing was applied\.$`)
		for what, canary := range map[string]string{"token": lasting, "hour": hour} {
			if strings.Contains(found.Detail, canary) {
				t.Errorf("the %s is in %s", what, found)
			}
		}
	}
	plan.Error(t, `auth-provider is not supported`, `has auth-provider "gcp"`)
	plan.Error(t, "context", `missing`)
	same(t, "errors", len(plan.Errors()), len(cases)+2)
	p.unwritten()

	// With an access any of them will do (I13).
	p.use(strings.Replace(p.accessBlock(), `cluster = "edge"`, `cluster = "exec"`, 1) + p.clusterBlock(`cluster = "exec"`, byAccess))
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "the token is the access's", p.argo().BearerToken == lasting, false)
	p.MustDestroy()
}

// What the credential may not do is told before anything is read, all of it at once and with the roles that grant it; with
// these and no more it works (I13, X3).
func TestClusterPermissions(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	p.kubectl("create", "namespace", p.store)
	name := unique("limited")
	bind := func(onEdge bool) string {
		c, proxy := p.mgmt, p.proxy
		if onEdge {
			c, proxy = p.edge, p.edgeProxy
		}
		account := c.ServiceAccountKubeconfig(t, name+"/berth")
		api := c.Client().RbacV1()
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule("", []string{"get"}, "namespaces")}}
		if _, err := api.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		c.Kubectl(t, "create", "clusterrolebinding", name, "--clusterrole="+name, "--serviceaccount="+name+":berth")
		return byPath(t, proxy.Through(account))
	}
	robot := unique("robot")
	lastingToken(t, p.edge, robot)
	p.edge.Kubectl(t, "-n", "kube-system", "annotate", "serviceaccount", robot, "berth.dev/token-secret="+robot+"-token")
	p.entries(clusters{"mgmt": bind(false), "edge": bind(true)})
	p.use(p.clusterBlock(fmt.Sprintf("access = \"edge/kube-system/%s\"", robot), p.root()))
	for _, one := range []struct {
		key   string
		c     *fleettest.Cluster
		wants []string
	}{
		{"mgmt", p.mgmt, []string{
			"get appprojects.argoproj.io in namespace " + p.space, "list secrets in namespace " + p.space, "create secrets in namespace " + p.space,
			"patch secrets in namespace " + p.store, "delete applications.argoproj.io in namespace " + p.space,
		}},
		{"edge", p.edge, []string{"list nodes", "get serviceaccounts in namespace kube-system", "patch secrets in namespace kube-system"}},
	} {
		p.reset()
		found := p.Plan().Error(t, `^The credential of cluster "`+one.key+`" lacks permissions for registering "`+p.name+`"$`, "^refusing: the credential of .* may not:", "Nothing was applied")
		for _, want := range one.wants {
			if !strings.Contains(found.Detail, "  "+want+"\n") {
				t.Errorf("it does not name %q:\n%s", want, found.Detail)
			}
		}
		p.unwritten()
		grantAsTold(t, one.c, found.Detail, name)
	}
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "its token", p.argo().BearerToken, string(secretOn(t, p.edge, "kube-system", robot+"-token").Data["token"]))
}

// grantAsTold creates the roles of a refusal, and binds them to the ServiceAccount "berth" of a namespace.
func grantAsTold(t *testing.T, c *fleettest.Cluster, detail, account string) {
	t.Helper()
	_, roles, found := strings.Cut(detail, "bind it to the credential's user:\n")
	if !found {
		t.Fatalf("there are no roles in it:\n%s", detail)
	}
	for role := range strings.SplitSeq(roles, "---\n") {
		role = strings.Replace(role, "name: berth\n", "name: "+account+"-told\n", 1)
		fields := strings.Split(strings.TrimSpace(c.KubectlInput(t, role, "create", "-f", "-", "-o", "jsonpath={.kind}/{.metadata.namespace}")), "/")
		if fields[0] == "Role" {
			c.Kubectl(t, "-n", fields[1], "create", "rolebinding", account+"-told", "--role="+account+"-told", "--serviceaccount="+account+":berth")
			continue
		}
		c.Kubectl(t, "create", "clusterrolebinding", account+"-told", "--clusterrole="+account+"-told", "--serviceaccount="+account+":berth")
	}
}
