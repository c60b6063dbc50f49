package provider_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// What a configuration can never mean, and what the cluster does not have (promise 1).
func TestClusterAccessRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := b.team()
	invalid := func(summary, detail string, body ...string) {
		t.Helper()
		b.use("resource \"berth_cluster_access\" \"this\" {\n" + strings.Join(body, "\n") + "\n}\n")
		b.Validate().Error(t, summary, detail)
	}
	invalid("`namespace` is not valid", `"Team.A" is not a name that a namespace can have`, `namespace = "Team.A"`)
	invalid("`service_account` is not valid", `"berth/x" is not a name that Kubernetes takes`, `service_account = "berth/x"`)
	invalid("Invalid Attribute Value Length", `service_account string length must be at most 200`, fmt.Sprintf("service_account = %q", strings.Repeat("x", 201)))
	invalid("Invalid Attribute Value", `token_version value must be at least 1`, "token_version = 0")
	invalid("Invalid Attribute Value Length", `cluster_role string length must be at least 1`, `cluster_role = ""`)

	b.use(accessBlock("this", name, `cluster_role = "nobody-has-this"`))
	b.Plan().Error(t, `^ClusterRole/nobody-has-this does not exist on cluster "shared"$`,
		"^refusing: ServiceAccount/"+name+`/berth on shared would be bound to ClusterRole/nobody-has-this, which does not exist, so its token could do nothing. Create the role first, or name one that exists, such as "cluster-admin". Nothing was applied.$`)
	// What the plan could not look at is refused by the apply.
	b.use(`resource "terraform_data" "late" { input = "nobody-has-this" }`, accessBlock("this", name, "cluster_role = terraform_data.late.output"))
	b.MustPlan()
	b.Apply().Error(t, `^ClusterRole/nobody-has-this does not exist on cluster "shared"$`, "Nothing was applied")
	b.unwritten()

	// A role that goes later stands in the way of no repair; the plan says that the token is of no use.
	role := unique("role")
	b.kubectl("create", "clusterrole", role, "--verb=get", "--resource=configmaps")
	b.use(accessBlock("this", name, fmt.Sprintf("cluster_role = %q", role)))
	b.MustApply()
	b.kubectl("delete", "clusterrole", role)
	b.PlanIsEmpty().Warning(t, "^ServiceAccount/"+name+`/berth on cluster "shared" is not ready$`, "^ClusterRole/"+role+" does not exist, so the tokens of ServiceAccount/"+name+"/berth can do nothing that it should allow.$")
	b.kubectl("-n", name, "delete", "secret", "berth-token")
	b.MustApply()
	same(t, "conditions", b.conditionsOf(thisAccess), map[string]string{"RoleFound": "False RoleMissing", "TokenIssued": "True Issued", "Ready": "False RoleMissing"})
	b.MustDestroy()
}

// A cluster that issues no tokens is waited for as long as the time limit says, and the error says what for; what was applied
// by then is gone on from (promises 5 and 8).
func TestClusterAccessTokenNotIssued(t *testing.T) {
	t.Parallel()
	// Nothing runs on this cluster that would.
	b := newBenchOn(t, otherCluster(t), unique("team"), tofutest.Options{})
	name := unique("unissued")
	b.kubectl("create", "namespace", name)
	b.use(accessBlock("this", name, `timeouts = { create = "3s" }`))
	b.Apply().Error(t, "^Secret/"+name+"/berth-token is not there yet: wait until its token is issued$",
		"^The time limit was reached after 3s: Secret/"+name+"/berth-token on other: kube-controller-manager, which issues the tokens of ServiceAccounts, has not written data.token yet.",
		"Applied before this: created ServiceAccount/"+name+"/berth, created ClusterRoleBinding/"+accessBinding(name)+", created Secret/"+name+"/berth-token")
	same(t, "instances in the state", len(b.Instances()), 0)
	b.use(accessBlock("this", name, "token_secret = false"))
	b.MustPlan().Warning(t, "^ServiceAccount/"+name+"/berth exists and carries this configuration's mark$", "If an earlier apply was interrupted, the apply goes on from it")
	b.MustApply()
	same(t, "what is ours", b.ofAccess(name), []string{"ClusterRoleBinding/" + accessBinding(name), "ServiceAccount/" + name + "/berth"})
	b.PlanIsEmpty()
	b.MustDestroy()
}

// What the credential may not do is refused before the first write, all of it at once, with the role that grants it. Who may
// not bind the role has to have what it allows (I71).
func TestClusterAccessPermissions(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := b.team()
	role := unique("granted")
	b.kubectl("create", "clusterrole", role, "--verb=get", "--resource=configmaps")
	write := []string{"get", "create", "patch", "delete"}
	grant := b.limited(rule("", []string{"get"}, "namespaces"))
	b.use(accessBlock("this", name, fmt.Sprintf("cluster_role = %q", role)))
	summary := "^ServiceAccount/" + name + `/berth on cluster "shared": permissions$`
	b.Plan().Error(t, summary, `^refusing: the credential of shared may not: get serviceaccounts in namespace `+name+` create serviceaccounts in namespace `+name+` .*list secrets in namespace `+name+` .*create clusterrolebindings\.rbac\.authorization\.k8s\.io .*`+
		`bind clusterroles\.rbac\.authorization\.k8s\.io `+role+` Nothing was applied\. Have an administrator apply this and bind it to the credential's user:`, `kind: ClusterRole`, `kind: Role`)

	rights := []rbacv1.PolicyRule{rule("", []string{"get"}, "namespaces"), rule("", append(write, "list"), "serviceaccounts", "secrets"), rule("rbac.authorization.k8s.io", write, "clusterrolebindings")}
	grant(rights...)
	b.Plan().Error(t, summary, `^refusing: the credential of shared may not: bind clusterroles\.rbac\.authorization\.k8s\.io `+role+` Nothing was applied\.`, "resourceNames: - "+role+" resources: - clusterroles verbs: - bind")
	b.unwritten()

	// Who may not see roles, but has what this one allows, may bind it; whether it exists is said to be unknown.
	grant(append(rights, rule("", []string{"get"}, "configmaps"))...)
	b.MustPlan().Warning(t, "^Whether the role of ServiceAccount/"+name+`/berth exists on cluster "shared" could not be checked$`, "may not get clusterroles")
	b.MustApply()
	b.PlanIsEmpty()
	same(t, "conditions", b.conditionsOf(thisAccess), map[string]string{"RoleFound": "Unknown Forbidden", "TokenIssued": "True Issued", "Ready": "True Converged"})
	b.MustDestroy()
	same(t, "what is left", b.ofAccess(name), []string{})
}

// An unknown connection or argument puts the checks off to the apply; the plan says so (X2, promise 2).
func TestClusterAccessUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name, taken := b.team(), b.team()
	b.byHand(taken)
	known := b.block
	b.Write("kubeconfig.yaml", b.proxy.AdminKubeconfig().Content())
	b.Write("built.tf", `resource "terraform_data" "cluster" { input = file("kubeconfig.yaml") }`)
	b.block = providerWith(b.owner, `{ shared = { kubeconfig = terraform_data.cluster.output } }`)
	b.use(accessBlock("this", name), accessBlock("taken", taken))
	plan := b.MustPlan()
	plan.Warning(t, `^The checks of berth_cluster_access "`+name+`/berth" on cluster "shared" are put off to the apply$`)
	same(t, "id", plan.Change(t, thisAccess).After["id"], "shared/"+name+"/berth")
	same(t, "requests of the plan", len(b.proxy.Requests()), 0)
	b.Apply().Error(t, "^ServiceAccount/"+taken+"/berth exists already and is not berth's$", "Nothing was applied")
	b.use(accessBlock("this", name))
	b.MustApply()
	b.PlanIsEmpty()
	b.Remove("built.tf")
	b.block = known

	late := func(value string, body ...string) string {
		return fmt.Sprintf("resource \"terraform_data\" \"late\" { input = %q }\n", value) + accessBlock("this", name, body...)
	}
	b.use(late("view", "cluster_role = terraform_data.late.output"))
	plan = b.MustPlan()
	plan.Warning(t, "^The checks of ServiceAccount/"+name+`/berth on cluster "shared" are put off to the apply$`, "Some of its arguments are not known yet")
	b.MustApply()
	same(t, "the role", b.accessBinding(name).RoleRef.Name, "view")
	b.PlanIsEmpty()
	b.use(late("2", "cluster_role = \"view\"", "token_version = tonumber(terraform_data.late.output)"))
	same(t, "unknown at plan", b.MustPlan().Change(t, thisAccess).AfterUnknown["token_secret_name"], true)
	b.MustApply()
	same(t, "token_secret_name", b.Resource(thisAccess)["token_secret_name"], "berth-token-2")
	b.PlanIsEmpty()
	b.MustDestroy()
	b.kubectl("delete", "clusterrolebinding", accessBinding(taken))
}

// A resource knows its cluster: a key that leads elsewhere replaces (X1, promises 4 and 11).
func TestClusterAccessOnAnotherCluster(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := b.team()
	entries := func(one, two *fleettest.Cluster) string {
		return providerBlock(b.owner, clusters{"one": byPath(t, one.AdminKubeconfig()), "two": byPath(t, two.AdminKubeconfig())})
	}
	b.block = entries(b.cluster, otherCluster(t))
	// The other cluster has no controllers that would issue a token, or end a namespace.
	otherCluster(t).Kubectl(t, "create", "namespace", name)
	block := func(key string) string {
		return accessBlock("this", name, fmt.Sprintf("cluster = %q", key), "token_secret = false")
	}
	b.use(block("one"))
	b.MustApply()
	b.consumer(name, "edge").take()
	b.use(block("two"))
	change := b.MustPlan().Change(t, thisAccess)
	same(t, "on another cluster", row(change.Is("delete", "create"), change.After["id"]), row(true, "two/"+name+"/berth"))
	b.Apply().Error(t, "^Tokens of ServiceAccount/"+name+`/berth are in use on cluster "one"$`)
	b.consumer(name, "edge").leave("")
	b.MustApply()
	same(t, "what is left on the first", b.ofAccess(name), []string{})
	b.PlanIsEmpty()
	b.MustDestroy()
}

// Killed at any write of its create, of a rotation with a new role, or of its destroy, an access converges in the next run:
// no taint, no duplicate, no orphan, nothing left to plan (X11, promise 5). Each round is a whole life in which each of the
// three is killed at its n-th write, until none has that many.
func TestClusterAccessKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := b.team()
	first := accessBlock("this", name)
	second := accessBlock("this", name, "token_version = 2", `cluster_role = "view"`)
	n, boundary := 1, fleettest.BeforeWrite
	for {
		killed := 0
		run := func(resources string, start func(...string) *tofutest.Running) {
			t.Helper()
			b.use(resources)
			if b.killedAt(n, boundary, start) {
				killed++
			}
			b.NoTaint()
		}
		run(first, b.ApplyAsync)
		b.MustApply()
		b.PlanIsEmpty()
		run(second, b.ApplyAsync)
		b.MustApply()
		b.PlanIsEmpty()
		same(t, "what is ours", b.ofAccess(name), []string{"ClusterRoleBinding/" + accessBinding(name), "Secret/" + name + "/berth-token-2", "ServiceAccount/" + name + "/berth"})
		same(t, "the token and the role", row(b.account(name).Annotations["berth.dev/token-secret"], b.accessBinding(name).RoleRef.Name), "berth-token-2 view")
		run(second, b.DestroyAsync)
		b.MustDestroy()
		same(t, "what is ours at the end", b.ofAccess(name), []string{})
		if t.Failed() {
			t.Fatalf("killed %s write %d", boundary, n)
		}
		if killed == 0 {
			break
		}
		if boundary == fleettest.BeforeWrite {
			boundary = fleettest.AfterWrite
			continue
		}
		n++
	}
	if n < 6 {
		t.Errorf("the longest apply had %d writes; a rotation with a new role deletes and creates the binding, creates a Secret, changes the ServiceAccount, and deletes a Secret", n-1)
	}
}

// The same for a namespace that the access brings along: it is made first, and goes last.
func TestClusterAccessNamespaceKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("killed")
	b.use(accessBlock("this", name))
	for _, boundary := range []fleettest.Boundary{fleettest.BeforeWrite, fleettest.AfterWrite} {
		if !b.killedAt(1, boundary, b.ApplyAsync) {
			t.Fatal("the apply made no write")
		}
		b.MustApply()
		b.PlanIsEmpty()
		same(t, "marks", marksOf(b.mustNamespace(name)), ownedAccess(b.owner, name))
		// The binding, the Secret and the ServiceAccount are gone by then.
		if !b.killedAt(4, boundary, b.DestroyAsync) {
			t.Fatal("the destroy made less than four writes")
		}
		b.NoTaint()
		b.MustDestroy()
		same(t, "the namespace", b.namespace(name), (*corev1.Namespace)(nil))
		same(t, "what is left", b.ofAccess(name), []string{})
	}
}

// The token is in no state, no plan, no diagnostic and no log, whatever the level (X9, promise 7).
func TestClusterAccessKeepsTokensOut(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{Trace: true})
	name := b.team()
	b.use(accessBlock("this", name), kubeconfigBlock(byUID), written)
	var all strings.Builder
	see := func(result *tofutest.Result) { all.WriteString(result.Log); all.Write(result.Raw) }
	see(b.MustPlan())
	see(b.MustApply())
	token := string(b.accessSecret(name, "berth-token").Data["token"])
	b.kubectl("-n", name, "patch", "secret", "berth-token", "--type=merge", "-p", `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"somebody"}}}`)
	see(b.MustPlan())
	see(b.Command("show", "-json", "tofutest.plan"))
	see(b.MustApply())
	b.consumer(name, "edge").take()
	see(b.Destroy())
	all.Write(b.StatePull())
	all.WriteString(b.TraceLog())
	text := all.String()
	for what, canary := range map[string]string{"the token": token, "the token as the Secret has it": base64.StdEncoding.EncodeToString([]byte(token)), "a token": jwt} {
		if at := strings.Index(text, canary); at >= 0 {
			t.Errorf("%s is in …%s…", what, text[max(0, at-300):at])
		}
	}
	if !strings.Contains(text, "berth-token") {
		t.Error("nothing was searched")
	}
	b.consumer(name, "edge").leave("")
	b.MustDestroy()
}

// What a refresh asks follows from the kinds (promise 12).
func TestCostOfTwentyAccesses(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := b.team()
	b.use(fmt.Sprintf(`
resource "berth_cluster_access" "many" {
  for_each        = toset([for i in range(20) : tostring(i)])
  namespace       = %q
  service_account = "many-${each.key}"
  cluster_role    = "view"
}
`, name))
	b.MustApply()
	b.proxy.Reset()
	b.PlanIsEmpty()
	b.requests(map[string]int{
		"get namespaces": 1, "list serviceaccounts": 1, "list secrets": 1, "list clusterrolebindings.rbac.authorization.k8s.io": 1, "list clusterroles.rbac.authorization.k8s.io": 1,
	})
	b.connections()
	b.MustDestroy()
	same(t, "what is left", everything(t, b.cluster, func(object metav1.Object) bool {
		return strings.HasPrefix(object.GetAnnotations()["berth.dev/owner"], b.owner+"/")
	}), []string{})
}
