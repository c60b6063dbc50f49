package provider_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/access"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// Where each promise of the design is shown for accesses:
//
//  1. look before you touch: TestClusterAccessRefusals, TestClusterAccessPermissions
//  2. unknown is not missing: TestClusterAccessUnknown
//  3. never touch what is not ours: TestClusterAccessAdoption, TestClusterAccessNamespace
//  4. right cluster: TestClusterAccessOnAnotherCluster
//  5. the cluster is the journal: TestClusterAccessKilledAtEveryWrite, TestClusterAccessNamespaceKilled
//  6. drift, field by field: TestClusterAccessRhythm
//  7. secrets: TestClusterAccessKeepsTokensOut
//  8. waits explain themselves: TestClusterAccessTokenNotIssued
//  9. import ends in an empty plan: TestClusterAccessRhythm, TestClusterAccessMadeByHand
// 10. destroy is honest: TestClusterAccessInUse, TestClusterAccessKnobs
// 12. cost follows kinds: TestCostOfTwentyAccesses

// thisAccess is the address of the access that tests with a single one have.
const thisAccess = "berth_cluster_access.this"

// accessBlock is a berth_cluster_access with a ServiceAccount "berth" in a namespace.
func accessBlock(label, namespace string, body ...string) string {
	return fmt.Sprintf("resource \"berth_cluster_access\" %q {\nnamespace = %q\n%s\n}\n", label, namespace, strings.Join(body, "\n"))
}

// ownedAccess are the marks on what belongs to an access that an owner's configuration created.
func ownedAccess(owner, namespace string) string {
	return fmt.Sprintf("managed-by=berth owner=%s/cluster_access.%s/berth created=true", owner, namespace)
}

// adoptedAccess are the marks on what it found.
func adoptedAccess(owner, namespace string) string {
	return strings.TrimSuffix(ownedAccess(owner, namespace), "true")
}

func accessBinding(namespace string) string { return "berth-" + namespace + "-berth" }

// team creates a namespace of the test's own, which goes with the test.
func (b *bench) team() string {
	b.t.Helper()
	return namespace(b.t, b.cluster, nil)
}

func (b *bench) account(namespace string) *corev1.ServiceAccount {
	b.t.Helper()
	found, err := b.cluster.Client().CoreV1().ServiceAccounts(namespace).Get(b.t.Context(), "berth", metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return found
}

func (b *bench) accessBinding(namespace string) *rbacv1.ClusterRoleBinding {
	b.t.Helper()
	found, err := b.cluster.Client().RbacV1().ClusterRoleBindings().Get(b.t.Context(), accessBinding(namespace), metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return found
}

// accessSecret reads a Secret past the proxy; nil when there is none.
func (b *bench) accessSecret(namespace, name string) *corev1.Secret {
	b.t.Helper()
	found, err := b.cluster.Client().CoreV1().Secrets(namespace).Get(b.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return found
}

// ofAccess is what an access of this bench's owner has on the cluster.
func (b *bench) ofAccess(namespace string) []string {
	b.t.Helper()
	return everything(b.t, b.cluster, func(object metav1.Object) bool {
		return object.GetAnnotations()["berth.dev/owner"] == b.owner+"/cluster_access."+namespace+"/berth"
	})
}

// consumer takes tokens of an access as berth_cluster does.
type consumer struct {
	t     *testing.T
	c     *cluster.Cluster
	ref   access.Ref
	owner kube.Owner
}

func (b *bench) consumer(namespace, name string) consumer {
	b.t.Helper()
	config := b.cluster.AdminKubeconfig()
	fleet := cluster.NewFleet(cluster.Settings{Owner: b.owner, Entries: map[string]cluster.Entry{"shared": {Kubeconfig: config.Content()}}})
	c, err := fleet.Cluster("shared")
	if err != nil {
		b.t.Fatal(err)
	}
	return consumer{
		t: b.t, c: c, ref: access.Ref{Cluster: "shared", Namespace: namespace, Name: "berth"},
		owner: kube.Owner{Configuration: b.owner, Resource: "cluster." + name},
	}
}

func (c consumer) take() access.Token {
	c.t.Helper()
	token, err := access.Take(c.t.Context(), c.c, c.ref, c.owner, 3600e9)
	if err != nil {
		c.t.Fatal(err)
	}
	return token
}

func (c consumer) leave(keep string) {
	c.t.Helper()
	if err := access.Leave(c.t.Context(), c.c, c.ref, c.owner, keep); err != nil {
		c.t.Fatal(err)
	}
}

// The life of an access: plan, apply, nothing left to plan, everything broken by hand and its repair, import, destroy (I12,
// I13, I42, I71, X12; promises 1, 3, 6, 9 and 10 of the design).
func TestClusterAccessRhythm(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		b := newBench(t, tofutest.Options{Runner: runner})
		name := b.team()
		binding := accessBinding(name)
		config := accessBlock("this", name)
		b.use(config)
		plan := b.MustPlan()
		plan.NoWarnings(t)
		planned := plan.Change(t, thisAccess)
		if !planned.Is("create") || b.proxy.Writes() != 0 {
			t.Fatalf("%d writes; plan:\n%s", b.proxy.Writes(), plan.Describe())
		}
		same(t, "what is known at plan", row(planned.After["id"], planned.After["cluster_uid"], planned.After["service_account"], planned.After["cluster_role"], planned.After["token_secret"], planned.After["token_version"], planned.After["token_secret_name"], planned.After["drift"]),
			row("shared/"+name+"/berth", b.cluster.UID(), "berth", "cluster-admin", true, 1, "berth-token", map[string]any{}))
		same(t, "what is not", row(planned.AfterUnknown["uid"], planned.AfterUnknown["conditions"]), row(true, true))

		b.MustApply().NoWarnings(t)
		account, bound, secret := b.account(name), b.accessBinding(name), b.accessSecret(name, "berth-token")
		for what, object := range map[string]metav1.Object{"ServiceAccount": account, "ClusterRoleBinding": bound, "Secret": secret} {
			same(t, "marks of the "+what, marksOf(object), ownedAccess(b.owner, name))
		}
		same(t, "the binding", row(bound.RoleRef.Name, len(bound.Subjects), bound.Subjects[0].Namespace, bound.Subjects[0].Name), row("cluster-admin", 1, name, "berth"))
		same(t, "the token", row(secret.Type, len(secret.Data["token"]) > 0, account.Annotations["berth.dev/token-secret"]), row("kubernetes.io/service-account-token", true, "berth-token"))
		state := b.Resource(thisAccess)
		same(t, "uid", state["uid"], account.UID)
		same(t, "conditions", b.conditionsOf(thisAccess), map[string]string{"RoleFound": "True Found", "TokenIssued": "True Issued", "Ready": "True Converged"})
		b.PlanIsEmpty().NoWarnings(t)

		// By hand: the role and whom it binds, the token, a label of ours and one that is not.
		b.kubectl("delete", "clusterrolebinding", binding)
		b.kubectl("create", "clusterrolebinding", binding, "--clusterrole=view", "--serviceaccount="+name+":berth", "--user=eve")
		b.kubectl("-n", name, "delete", "secret", "berth-token")
		b.kubectl("-n", name, "annotate", "serviceaccount", "berth", "berth.dev/token-secret=other", "--overwrite")
		b.kubectl("-n", name, "label", "serviceaccount", "berth", "team=a", "app.kubernetes.io/managed-by-")
		plan = b.Plan()
		// What a stranger made in place of the binding is not berth's to delete.
		plan.Error(t, "^ClusterRoleBinding/"+binding+" was adopted and cannot be replaced$", "was found, not created, by berth, so it is never deleted; but the change needs that: roleRef.name: view → cluster-admin", "Nothing was applied")
		b.kubectl("annotate", "clusterrolebinding", binding, "berth.dev/created-by-berth=true")
		plan = b.MustPlan()
		broken := plan.Change(t, thisAccess)
		same(t, "actions", broken.Actions, []string{"update"})
		drift := broken.Before["drift"].(map[string]any)
		same(t, "drift of the role and the subjects", row(drift["ClusterRoleBinding/"+binding+" roleRef.name"], drift["ClusterRoleBinding/"+binding+" subjects"]),
			row("view → cluster-admin", "User/eve, ServiceAccount/"+name+"/berth → ServiceAccount/"+name+"/berth"))
		same(t, "drift of the token", row(drift["Secret/"+name+"/berth-token"], drift["ServiceAccount/"+name+"/berth metadata.annotations.[berth.dev/token-secret]"]), row("missing → present", "other → berth-token"))
		same(t, "drift of a mark", drift["ServiceAccount/"+name+"/berth metadata.labels.[app.kubernetes.io/managed-by]"], "(none) → berth")
		same(t, "drift to be", broken.After["drift"], map[string]any{})
		plan.Warning(t, "^ClusterRoleBinding/"+binding+" will be deleted and created again$", "^Kubernetes never lets this change: roleRef.name: view → cluster-admin. For the moment in between, the tokens of the ServiceAccount can do nothing.$")
		b.MustApply()
		same(t, "repaired", row(b.account(name).UID, b.account(name).Labels["team"], b.accessBinding(name).RoleRef.Name, len(b.accessBinding(name).Subjects), len(b.accessSecret(name, "berth-token").Data["token"]) > 0),
			row(account.UID, "a", "cluster-admin", 1, true))
		b.PlanIsEmpty().NoWarnings(t)

		imported := b.beside(b.owner, tofutest.Options{Runner: runner})
		imported.use(config)
		imported.MustImport(thisAccess, "shared/"+name+"/berth")
		imported.PlanIsEmpty()
		same(t, "imported", imported.Resource(thisAccess), b.Resource(thisAccess))

		b.MustDestroy().NoWarnings(t)
		same(t, "what is left", b.ofAccess(name), []string{})
		same(t, "the Secret", b.accessSecret(name, "berth-token"), (*corev1.Secret)(nil))
		b.mustNamespace(name)
	})
}

// A deleted token is drift, and so is a deleted ServiceAccount, with which every token goes; what was deleted to revoke a
// token is said to need a new version.
func TestClusterAccessRevokedByHand(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := b.team()
	b.use(accessBlock("this", name))
	b.MustApply()
	first := b.accessSecret(name, "berth-token")
	b.kubectl("-n", name, "delete", "secret", "berth-token")
	plan := b.MustPlan()
	same(t, "drift", plan.Change(t, thisAccess).Before["drift"], map[string]any{"Secret/" + name + "/berth-token": "missing → present"})
	plan.Warning(t, "^Secret/"+name+"/berth-token is gone and will be created again$", "The token in it can be the same as before", "If it was deleted to revoke the token, raise token_version instead")
	same(t, "conditions before the repair", plan.Change(t, thisAccess).Before["conditions"].(map[string]any)["Ready"].(map[string]any)["reason"], "TokenMissing")
	b.MustApply()
	if repaired := b.accessSecret(name, "berth-token"); repaired == nil || repaired.UID == first.UID || len(repaired.Data["token"]) == 0 {
		t.Errorf("the Secret was not repaired: %v", repaired)
	}
	b.PlanIsEmpty().NoWarnings(t)

	uid := b.account(name).UID
	b.kubectl("-n", name, "delete", "serviceaccount", "berth")
	change := b.MustPlan().Change(t, thisAccess)
	if !change.Is("update") {
		t.Fatalf("without the ServiceAccount: %v", change.Actions)
	}
	same(t, "drift", change.Before["drift"].(map[string]any)["ServiceAccount/"+name+"/berth"], "missing → present")
	b.MustApply()
	if b.account(name).UID == uid || b.Resource(thisAccess)["uid"] != string(b.account(name).UID) {
		t.Error("the ServiceAccount is the old one, or the state says so")
	}
	b.PlanIsEmpty()

	// All of it gone: it is created again.
	b.kubectl("-n", name, "delete", "serviceaccount", "berth")
	b.kubectl("delete", "clusterrolebinding", accessBinding(name))
	b.kubectl("-n", name, "delete", "secret", "berth-token", "--ignore-not-found")
	if change := b.MustPlan().Change(t, thisAccess); !change.Is("create") {
		t.Fatalf("with nothing left: %v", change.Actions)
	}
	b.MustApply()
	b.PlanIsEmpty()

	// A ServiceAccount that a stranger made in its place is not ours.
	b.kubectl("-n", name, "delete", "serviceaccount", "berth")
	b.kubectl("-n", name, "create", "serviceaccount", "berth")
	b.Plan().Error(t, "^ServiceAccount/"+name+"/berth exists already and is not berth's$", "Set adopt = true", "Nothing was applied")
	b.use(accessBlock("this", name, `cluster_role = "edit"`))
	b.proxy.Reset()
	b.Apply("-refresh=false").Error(t, "^ServiceAccount/"+name+"/berth exists already and is not berth's$", "Nothing was applied")
	b.unwritten()
	b.MustDestroy("-refresh=false").Warning(t, "^Something of ServiceAccount/"+name+`/berth stays on cluster "shared"$`, "ServiceAccount/"+name+"/berth: it does not carry this configuration's mark")
	same(t, "their ServiceAccount", anyMark(b.account(name)), false)
}

// A new version of the token, while consumers store the old one (I24).
func TestClusterAccessRotation(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := b.team()
	b.use(accessBlock("this", name))
	b.MustApply()
	edge := b.consumer(name, "edge")
	old := edge.take()
	b.PlanIsEmpty().NoWarnings(t)

	b.use(accessBlock("this", name, "token_version = 2"))
	plan := b.MustPlan()
	plan.NoWarnings(t)
	same(t, "plan", row(plan.Change(t, thisAccess).Actions, plan.Change(t, thisAccess).After["token_secret_name"]), row([]string{"update"}, "berth-token-2"))
	b.MustApply()
	b.PlanIsEmpty().NoWarnings(t)
	same(t, "the new one is named", b.account(name).Annotations["berth.dev/token-secret"], "berth-token-2")
	same(t, "the old one is still in use", string(b.accessSecret(name, "berth-token").Data["token"]), old.Value)
	moved := edge.take()
	same(t, "the consumer has the new one", row(moved.SecretName, moved.Value == old.Value), row("berth-token-2", false))
	edge.leave(moved.SecretName)
	same(t, "the old one", b.accessSecret(name, "berth-token"), (*corev1.Secret)(nil))
	b.PlanIsEmpty().NoWarnings(t)

	b.use(accessBlock("this", name))
	b.Plan().Error(t, "^The token version of ServiceAccount/"+name+"/berth cannot go down$", "^refusing: token_version is 2 in the state and 1 in the configuration.*Set token_version to 2, or higher for a new token. Nothing was applied.$")

	// Without a long-lived token the consumers mint, and the old token goes with its last one.
	b.use(accessBlock("this", name, "token_version = 2", "token_secret = false"))
	b.MustApply()
	b.PlanIsEmpty().NoWarnings(t)
	same(t, "token_secret_name", b.Resource(thisAccess)["token_secret_name"], nil)
	same(t, "the condition", b.conditionsOf(thisAccess)["TokenIssued"], "True Minted")
	minted := edge.take()
	edge.leave(minted.SecretName)
	same(t, "the old one", b.accessSecret(name, "berth-token-2"), (*corev1.Secret)(nil))
	edge.leave("")
	b.use(accessBlock("this", name, "token_version = 3"))
	b.MustApply()
	same(t, "a token again", b.Resource(thisAccess)["token_secret_name"], "berth-token-3")
	b.PlanIsEmpty()
	imported := b.beside(b.owner, tofutest.Options{})
	imported.use(accessBlock("this", name, "token_version = 3"))
	imported.MustImport(thisAccess, "shared/"+name+"/berth")
	imported.PlanIsEmpty()
	b.MustDestroy().NoWarnings(t)
	same(t, "what is left", b.ofAccess(name), []string{})
}

// As long as somebody stores a token, the access stays; the plan warns of it, because the consumer may be destroyed first
// (I92, promise 10).
func TestClusterAccessInUse(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := b.team()
	b.use(accessBlock("this", name))
	b.MustApply()
	edge := b.consumer(name, "edge")
	edge.take()
	summary := "^Tokens of ServiceAccount/" + name + `/berth are in use on cluster "shared"$`
	who := "1 consumer(s) store a token of ServiceAccount/" + name + "/berth on shared, which would be revoked: " + b.owner + "/cluster.edge (Secret/" + name + "/berth-token)."
	b.proxy.Reset()
	b.MustPlan("-destroy").Warning(t, summary, quoted("The destroy will be refused unless they are gone by then. refusing: "+who))
	b.Destroy().Error(t, summary, quoted("refusing: "+who+" Nothing was deleted."), `set deletion_policy = "retain" to leave the access`)
	b.NoTaint()
	// A replacement begins with a destroy, which no other plan looks at.
	b.use(accessBlock("this", name, `service_account = "another"`))
	b.MustPlan().Warning(t, summary, "The destroy will be refused unless they are gone by then")
	b.Apply().Error(t, summary, quoted(who))
	b.unwritten()
	b.use(accessBlock("this", name))
	b.PlanIsEmpty()

	edge.leave("")
	b.MustPlan("-destroy").NoWarnings(t)
	b.MustDestroy().NoWarnings(t)
	same(t, "what is left", b.ofAccess(name), []string{})
}

// A replacement by another ServiceAccount, and one that is created first.
func TestClusterAccessReplaced(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := b.team()
	b.use(accessBlock("this", name))
	b.MustApply()
	b.use(accessBlock("this", name, `service_account = "another"`))
	if change := b.MustPlan().Change(t, thisAccess); !change.Is("delete", "create") || change.After["id"] != "shared/"+name+"/another" {
		t.Errorf("another ServiceAccount: %v, id %v", change.Actions, change.After["id"])
	}
	b.MustApply()
	same(t, "what is left of the first", b.ofAccess(name), []string{})
	b.PlanIsEmpty()
	b.use(accessBlock("this", name, `service_account = "another"`, "lifecycle {\ncreate_before_destroy = true\n}"))
	b.MustApply()
	uid := b.Resource(thisAccess)["uid"]
	b.MustApply("-replace="+thisAccess).Warning(t, "^Something of ServiceAccount/"+name+`/another stays on cluster "shared"$`, "the resource that takes this one's place has it now")
	same(t, "the account", b.Resource(thisAccess)["uid"], uid)
	b.PlanIsEmpty()
	b.MustDestroy().NoWarnings(t)
}

// The knobs of destruction change without a request; retain leaves everything without our marks (Y1).
func TestClusterAccessKnobs(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := b.team()
	b.use(accessBlock("this", name))
	b.MustApply()
	b.consumer(name, "edge").take()
	b.use(accessBlock("this", name, `deletion_policy = "retain"`, "adopt = true", `timeouts = { delete = "2m" }`))
	b.proxy.Reset()
	b.MustApply("-refresh=false")
	b.requests(map[string]int{})
	b.PlanIsEmpty()
	b.MustDestroy().Warning(t, "^Something of ServiceAccount/"+name+`/berth stays on cluster "shared"$`,
		"ClusterRoleBinding/"+accessBinding(name)+`: deletion_policy is "retain"`, "Secret/"+name+`/berth-token: deletion_policy is "retain"`, "ServiceAccount/"+name+`/berth: deletion_policy is "retain"`)
	same(t, "what is ours", b.ofAccess(name), []string{})
	same(t, "marks", row(anyMark(b.account(name)), anyMark(b.accessBinding(name)), len(b.accessSecret(name, "berth-token").Data["token"]) > 0), row(false, false, true))
	b.kubectl("delete", "clusterrolebinding", accessBinding(name))
}

// A namespace that is missing is created, and goes with the access unless something else is in it.
func TestClusterAccessNamespace(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("brought")
	b.use(accessBlock("this", name))
	b.MustApply()
	same(t, "marks of the namespace", marksOf(b.mustNamespace(name)), ownedAccess(b.owner, name))
	b.PlanIsEmpty()
	b.MustDestroy().NoWarnings(t)
	same(t, "the namespace", b.namespace(name), (*corev1.Namespace)(nil))

	b.MustApply()
	b.kubectl("-n", name, "create", "configmap", "theirs")
	b.MustDestroy().Warning(t, "^Something of ServiceAccount/"+name+`/berth stays on cluster "shared"$`, "^Namespace/"+name+`: there are 1 object\(s\) in it that are not the access's: ConfigMap/theirs\.$`)
	same(t, "the namespace", anyMark(b.mustNamespace(name)), false)
	same(t, "what is left", b.ofAccess(name), []string{})

	b.kubectl("patch", "namespace", name, "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/hold"]}}`)
	b.kubectl("delete", "namespace", name, "--wait=false")
	b.Plan().Error(t, `^Namespace "`+name+`" is being deleted$`, "Wait until it is gone, or choose another namespace. Nothing was applied")
	b.kubectl("patch", "namespace", name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
}

// What is there already is refused by name, and taken over when asked: with its UIDs, and left there by a destroy, except
// what berth had to add (X5, X6).
func TestClusterAccessAdoption(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := b.team()
	b.byHand(name)
	account, token := b.account(name), b.awaitToken(name)
	b.use(accessBlock("this", name))
	plan := b.Plan()
	for _, object := range []string{"ServiceAccount/" + name + "/berth", "ClusterRoleBinding/" + accessBinding(name), "Secret/" + name + "/berth-token"} {
		plan.Error(t, "^"+object+" exists already and is not berth's$", "Set adopt = true to take it over as it is, or choose another name. Nothing was applied.$")
	}
	b.use(accessBlock("this", name, "adopt = true"))
	plan = b.MustPlan()
	for _, object := range []string{"ServiceAccount/" + name + "/berth", "ClusterRoleBinding/" + accessBinding(name), "Secret/" + name + "/berth-token"} {
		plan.Warning(t, "^"+object+" exists and will be adopted$", "^It is on shared and keeps its UID\\..*Destroying the resource leaves it there\\.$")
	}
	b.MustApply()
	same(t, "adopted", row(b.account(name).UID, marksOf(b.account(name)), string(b.accessSecret(name, "berth-token").Data["token"]) == string(token)), row(account.UID, adoptedAccess(b.owner, name), true))
	b.PlanIsEmpty().NoWarnings(t)
	// Nothing of it would be deleted, so nobody's token stands in the way.
	b.consumer(name, "edge").take()
	b.MustDestroy().Warning(t, "^Something of ServiceAccount/"+name+`/berth stays on cluster "shared"$`, "ServiceAccount/"+name+"/berth: it was adopted, not created", "Secret/"+name+"/berth-token: it was adopted, not created")
	same(t, "marks", row(anyMark(b.account(name)), b.account(name).UID), row(false, account.UID))

	// A role that differs can never be had by adoption.
	b.use(accessBlock("this", name, "adopt = true", `cluster_role = "edit"`))
	b.Plan().Error(t, "^ClusterRoleBinding/"+accessBinding(name)+" cannot be adopted$", "differs in fields that Kubernetes never lets change: roleRef.name: cluster-admin → edit")
	b.kubectl("delete", "clusterrolebinding", accessBinding(name))
}

// byHand makes what an access consists of.
func (b *bench) byHand(name string) {
	b.t.Helper()
	b.kubectl("-n", name, "create", "serviceaccount", "berth")
	b.kubectl("create", "clusterrolebinding", accessBinding(name), "--clusterrole=cluster-admin", "--serviceaccount="+name+":berth")
	b.cluster.KubectlInput(b.t, "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/service-account-token\nmetadata: {name: berth-token, annotations: {kubernetes.io/service-account.name: berth}}\n", "-n", name, "create", "-f", "-")
}

func (b *bench) awaitToken(name string) (token []byte) {
	b.t.Helper()
	fleettest.Eventually(b.t, func(ctx) error {
		if token = b.accessSecret(name, "berth-token").Data["token"]; len(token) == 0 {
			return fmt.Errorf("Secret/%s/berth-token has no token yet", name)
		}
		return nil
	})
	return token
}

// What was made by hand is imported as it is, with an empty plan and no write; the first change marks it, as found and not
// as created.
func TestClusterAccessMadeByHand(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := b.team()
	b.byHand(name)
	b.awaitToken(name)
	version := b.account(name).ResourceVersion
	b.use(accessBlock("this", name))
	b.MustImport(thisAccess, "shared/"+name+"/berth")
	b.PlanIsEmpty()
	same(t, "the account", b.account(name).ResourceVersion, version)
	b.unwritten()
	b.use(accessBlock("this", name, "token_version = 2"))
	b.MustApply()
	same(t, "marks", marksOf(b.account(name)), adoptedAccess(b.owner, name))
	same(t, "marks of what it added", marksOf(b.accessSecret(name, "berth-token-2")), ownedAccess(b.owner, name))
	b.PlanIsEmpty()
	b.MustDestroy().Warning(t, "^Something of ServiceAccount/"+name+`/berth stays on cluster "shared"$`, "ServiceAccount/"+name+"/berth: it was adopted, not created")
	same(t, "what berth added", b.accessSecret(name, "berth-token-2"), (*corev1.Secret)(nil))
	b.kubectl("delete", "clusterrolebinding", accessBinding(name))

	// Without a token, and bound by a binding of another name: that is missing, and said to be.
	other := b.team()
	b.kubectl("-n", other, "create", "serviceaccount", "berth")
	b.kubectl("create", "clusterrolebinding", other, "--clusterrole=edit", "--serviceaccount="+other+":berth")
	b.use(accessBlock("this", other, `cluster_role = "edit"`, "token_secret = false"))
	b.MustImport(thisAccess, "shared/"+other+"/berth")
	same(t, "drift", b.MustPlan().Change(t, thisAccess).Before["drift"], map[string]any{"ClusterRoleBinding/" + accessBinding(other): "missing → present"})
	b.MustApply()
	b.PlanIsEmpty()
	b.MustDestroy()
	b.Import(thisAccess, "shared/"+other+"/nobody").Error(t, "^Cannot import non-existent remote object$")
	b.Import(thisAccess, "shared/berth").Error(t, `^"shared/berth" is not an import ID of berth_cluster_access$`, "the cluster's key, the namespace and the name with slashes between them")
	b.kubectl("delete", "clusterrolebinding", other)
}
