package provider_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// kubeconfigBlock is an ephemeral berth_kubeconfig "this" of the access "this".
func kubeconfigBlock(body ...string) string {
	return "ephemeral \"berth_kubeconfig\" \"this\" {\naccess = berth_cluster_access.this.id\n" + strings.Join(body, "\n") + "\n}\n"
}

// byUID has the runner wait until the access is there.
const byUID = "uid = berth_cluster_access.this.uid"

// lentProvider is a second configuration of the provider whose only cluster is reached with what was lent, and a class that
// it creates.
func lentProvider(owner, name string) string {
	return fmt.Sprintf(`
provider "berth" {
  alias    = "lent"
  owner    = "%s-lent"
  clusters = { lent = { kubeconfig = ephemeral.berth_kubeconfig.this.kubeconfig } }
}
resource "berth_priority_class" "lent" {
  provider = berth.lent
  cluster  = "lent"
  name     = %q
  value    = 1000
}
`, owner, name)
}

// written has a provisioner write what was lent into a file of the workspace, which is what a test can look at.
const written = `
resource "terraform_data" "written" {
  provisioner "local-exec" {
    command = "printf '%s' \"$CONTENT\" > lent.yaml; printf '%s\\n%s\\n%s\\n' \"$EXPIRES\" \"$HOST\" \"$CA\" > lent.txt"
    environment = {
      CONTENT = ephemeral.berth_kubeconfig.this.kubeconfig
      EXPIRES = ephemeral.berth_kubeconfig.this.expires_at
      HOST    = ephemeral.berth_kubeconfig.this.host
      CA      = ephemeral.berth_kubeconfig.this.cluster_ca_certificate
    }
  }
}
`

// jwt is how every token of a ServiceAccount begins: {"alg": in base64.
const jwt = "eyJhbGciOi"

// minted are the Secrets that minted tokens of an access are bound to.
func (b *bench) minted(namespace string) []string {
	b.t.Helper()
	all, err := b.cluster.Client().CoreV1().Secrets(namespace).List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	names := []string{}
	for _, one := range all.Items {
		if strings.HasPrefix(one.Name, "berth-minted-") {
			names = append(names, one.Name)
		}
	}
	return names
}

// whoIs tells who the API server says a kubeconfig is.
func whoIs(c ctx, content []byte) (string, error) {
	connection, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return "", err
	}
	client, err := kubernetes.NewForConfig(connection)
	if err != nil {
		return "", err
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(c, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return review.Status.UserInfo.Username, nil
}

// A second provider configuration is given a credential for the run: it works, is in no state and no plan, and is revoked
// when the run ends (K22, X9).
func TestLentKubeconfigForAnotherProvider(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		b := newBench(t, tofutest.Options{Runner: runner})
		name, created := b.team(), unique("lent")
		// All in one apply: what it is of is created first.
		b.use(accessBlock("this", name), kubeconfigBlock(byUID), lentProvider(b.owner, created))
		plan := b.MustPlan()
		plan.Warning(t, `^The checks of berth_priority_class "`+created+`" on cluster "lent" are put off to the apply$`)
		same(t, "writes of the plan", b.proxy.Writes(), 0)
		b.MustApply()
		same(t, "marks of what it created", marksOf(b.mustClass(created)), ownedBy(b.owner+"-lent", created, true))
		same(t, "Secrets after the run", b.minted(name), []string{})
		asks := b.proxy.CountIf(func(r fleettest.Request) bool { return r.Subresource == "token" })
		same(t, "tokens that were minted by the apply", asks, 1)

		// From now on a plan has one too, for its own time.
		b.proxy.Reset()
		b.PlanIsEmpty()
		same(t, "Secrets after the plan", b.minted(name), []string{})
		if writes := b.writes(); len(writes) != 2 || !strings.HasPrefix(writes[0], "create secrets "+name) || !strings.HasPrefix(writes[1], "delete secrets "+name) {
			t.Errorf("a plan wrote %v", writes)
		}
		for _, secret := range []string{jwt, "berth-minted-"} {
			if strings.Contains(string(b.StatePull()), secret) {
				t.Errorf("the state holds %q", secret)
			}
		}

		// What it created goes with it, before the access does.
		b.MustDestroy()
		same(t, "the class", b.class(created) == nil, true)
		same(t, "what is left", append(b.ofAccess(name), b.minted(name)...), []string{})
	})
}

// A provisioner is given one, as a file: it is good during the run, for as long as was asked, and for no longer than the
// run.
func TestLentKubeconfigForAProvisioner(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		b := newBench(t, tofutest.Options{Runner: runner})
		name := b.team()
		b.use(accessBlock("this", name, `cluster_role = "view"`))
		b.MustApply()
		b.use(accessBlock("this", name, `cluster_role = "view"`), kubeconfigBlock(`lifetime = "20m"`), written)
		content := func() []byte {
			t.Helper()
			text, err := os.ReadFile(filepath.Join(b.Dir, "lent.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		// The apply's last write is what ends the token: before it is forwarded, the token is good.
		var during string
		var failed error
		b.proxy.OnWrite(func(_ int, request fleettest.Request) {
			if _, err := os.Stat(filepath.Join(b.Dir, "lent.yaml")); err == nil && request.Key() == "delete secrets" && during == "" {
				during, failed = whoIs(t.Context(), content())
			}
		}, nil)
		b.MustApply()
		b.proxy.OnWrite(nil, nil)
		if failed != nil {
			t.Fatal(failed)
		}
		same(t, "who it is during the run", during, "system:serviceaccount:"+name+":berth")
		fleettest.Eventually(t, func(c ctx) error {
			if who, err := whoIs(c, content()); err == nil {
				return fmt.Errorf("the token is still taken, as %s", who)
			}
			return nil
		})
		text, err := os.ReadFile(filepath.Join(b.Dir, "lent.txt"))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitN(string(text), "\n", 3)
		expires, err := time.Parse(time.RFC3339, lines[0])
		if left := time.Until(expires); err != nil || left < 15*time.Minute || left > 20*time.Minute {
			t.Errorf("it expires at %s: %v", lines[0], err)
		}
		same(t, "host and CA", row(lines[1], strings.TrimSpace(lines[2])), row(b.proxy.Server(), strings.TrimSpace(string(b.cluster.CA()))))
		config, err := clientcmd.Load(content())
		if err != nil {
			t.Fatal(err)
		}
		same(t, "the kubeconfig", row(config.CurrentContext, len(config.Contexts), len(config.AuthInfos), config.Clusters["shared"].Server), row("shared", 1, 1, b.proxy.Server()))
		b.MustDestroy()
	})
}

// Another address, and another key than the access was created by.
func TestLentKubeconfigElsewhere(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := b.team()
	b.use(accessBlock("this", name))
	b.MustApply()
	b.block = strings.ReplaceAll(b.block, `"shared" = {`, `"renamed" = {`)
	b.use(accessBlock("this", name), kubeconfigBlock(`server = "https://kubernetes.default.svc"`, `cluster = "renamed"`), written)
	b.MustApply()
	text, err := os.ReadFile(filepath.Join(b.Dir, "lent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the kubeconfig", row(config.CurrentContext, config.Clusters["renamed"].Server), "renamed https://kubernetes.default.svc")
	b.use(accessBlock("this", name), kubeconfigBlock(), written)
	b.Plan().Error(t, `^No cluster "shared" in the provider configuration$`, `its keys are: "renamed"`)
	b.use(accessBlock("this", name))
	b.MustDestroy()
}

// What cannot be had yet, or never, is told with what to do.
func TestLentKubeconfigRefusals(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		b := newBench(t, tofutest.Options{Runner: runner})
		name := b.team()
		refused := func(summary, detail string, resources ...string) {
			t.Helper()
			b.use(resources...)
			b.Plan().Error(t, summary, detail)
		}
		ephemeral := func(body string) string { return "ephemeral \"berth_kubeconfig\" \"this\" {\n" + body + "\n}\n" }
		refused(`^"berth" names no access$`, "It has to be the id of a berth_cluster_access", ephemeral(`access = "berth"`))
		refused("`lifetime` is not valid", `"an hour" is not a length of time above zero`, ephemeral("access = \"shared/a/b\"\nlifetime = \"an hour\""))
		refused("`lifetime` is not valid", `"5m" is shorter than the ten minutes that an API server gives a token for at least`, ephemeral("access = \"shared/a/b\"\nlifetime = \"5m\""))
		refused("`server` is not valid", `"10.0.0.1" is not the address of an API server`, ephemeral("access = \"shared/a/b\"\nserver = \"10.0.0.1\""))
		refused(`^No cluster "elsewhere" in the provider configuration$`, `its keys are: "shared"`, ephemeral(`access = "elsewhere/kube-system/berth"`))
		refused("^ServiceAccount/"+name+`/nobody does not exist on cluster "shared"$`, "Create it with berth_cluster_access, and set access to the id of that resource, which orders the two. Nothing was applied.", ephemeral(fmt.Sprintf("access = \"shared/%s/nobody\"", name)))
		// OpenTofu waits for what a reference leads to, Terraform for what is unknown.
		if runner == tofutest.Terraform {
			refused(`^Access "shared/`+name+`/berth" does not exist yet$`, "this plan is about to create the access.*Set uid to the uid of the berth_cluster_access", accessBlock("this", name), kubeconfigBlock())
		}

		known := b.block
		b.Write("kubeconfig.yaml", b.proxy.AdminKubeconfig().Content())
		b.block = providerWith(b.owner, `{ shared = { kubeconfig = terraform_data.built.output } }`) + "resource \"terraform_data\" \"built\" { input = file(\"kubeconfig.yaml\") }\n"
		refused(`^The connection of cluster "shared" is not known yet$`, "Have an argument of this berth_kubeconfig depend on the same value, such as .server.: then the runner opens it at the apply",
			ephemeral(`access = "shared/kube-system/berth"`))
		same(t, "writes", b.proxy.Writes(), 0)
		// As it says: everything in one apply, the connection included.
		b.use(accessBlock("this", name, `cluster = "shared"`), kubeconfigBlock(byUID), written)
		b.MustApply()
		if text, err := os.ReadFile(filepath.Join(b.Dir, "lent.yaml")); err != nil || !strings.Contains(string(text), "token: ") {
			t.Errorf("what was written: %v", err)
		}
		b.block = known
		b.use(accessBlock("this", name), kubeconfigBlock(`uid = "0"`))
		b.Plan().Error(t, `^Access "shared/`+name+`/berth" has another ServiceAccount now$`, "^refusing: uid is 0, but ServiceAccount/"+name+"/berth on shared has the UID "+string(b.account(name).UID))
		b.use()
		b.MustApply()
		same(t, "what is left", append(b.ofAccess(name), b.minted(name)...), []string{})
	})
}

// A token that cannot be revoked does not spoil the run: it is said to be good until it expires.
func TestLentKubeconfigNotRevoked(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := b.team()
	b.use(accessBlock("this", name))
	b.MustApply()
	b.use(accessBlock("this", name), kubeconfigBlock(), written)
	restore := b.proxy.Fail(func(r fleettest.Request) bool { return r.Key() == "delete secrets" }, fleettest.Unavailable)
	b.MustApply().Warning(t, `^The token of access "shared/`+name+`/berth" could not be revoked$`, "^It is good until it expires at 20", "delete the Secret berth-minted-… that is marked as kubeconfig.[0-9a-f]{16}, in namespace "+name)
	restore()
	b.MustDestroy()
	same(t, "what is left", append(b.ofAccess(name), b.minted(name)...), []string{})
}

// A run that is killed leaves a Secret with which nothing is stopped: the next run works, the access can be destroyed, and
// the Secret goes with it.
func TestLentKubeconfigOfAKilledRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := b.team()
	b.use(accessBlock("this", name))
	b.MustApply()
	b.use(accessBlock("this", name), kubeconfigBlock(), written)
	if !b.killedAt(1, fleettest.AfterWrite, b.ApplyAsync) {
		t.Fatal("the run made no write")
	}
	left := b.minted(name)
	same(t, "Secrets after the kill", len(left), 1)
	b.MustApply()
	same(t, "Secrets after the next run", b.minted(name), left)
	b.MustPlan("-destroy").NoWarnings(t)
	b.MustDestroy().NoWarnings(t)
	same(t, "what is left", append(b.ofAccess(name), b.minted(name)...), []string{})
}
