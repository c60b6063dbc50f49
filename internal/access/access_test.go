package access

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

func (f *fixture) drift(spec Spec) map[string]string {
	f.t.Helper()
	drift, err := spec.Drift(f.t.Context(), f.afresh(), us, true)
	if err != nil {
		f.t.Fatal(err)
	}
	return drift
}

func (f *fixture) conditions(spec Spec) string {
	f.t.Helper()
	conditions, err := spec.Observe(f.t.Context(), f.afresh())
	if err != nil {
		f.t.Fatal(err)
	}
	var texts []string
	for _, one := range conditions {
		texts = append(texts, fmt.Sprintf("%s=%s %s", one.Type, one.Status, one.Reason))
	}
	return strings.Join(texts, ", ")
}

func (f *fixture) namespaceGone() {
	f.t.Helper()
	fleettest.Eventually(f.t, func(ctx context.Context) error {
		_, err := f.plane.Client().CoreV1().Namespaces().Get(ctx, f.spec.Namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("namespace %s is still there", f.spec.Namespace))
	})
}

// The life of an access in a namespace that it brings along: made, made again without a change, broken and repaired, and
// taken apart until nothing is left (I42; promises 3, 6 and 10).
func TestLife(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "life-before")
	f.spec.Namespace, f.ref.Namespace = "life", "life"
	f.proxy.Reset()
	f.converge(f.spec, nil)
	same(t, "writes of a create: the namespace and three objects", f.proxy.Writes(), 4)
	same(t, "the account names its token", f.account().Annotations[AnnotationTokenSecret], "berth-token")
	binding := f.binding()
	same(t, "the binding", fmt.Sprint(binding.RoleRef, binding.Subjects), "{rbac.authorization.k8s.io ClusterRole view} [{ServiceAccount  berth life}]")
	token := f.take(first)
	f.accepted(token.Value)
	f.leave(first, "")
	same(t, "drift", f.drift(f.spec), map[string]string{})
	same(t, "conditions", f.conditions(f.spec), "RoleFound=True Found, TokenIssued=True Issued, Ready=True Converged")
	uid := f.account().UID
	f.converge(f.spec, &f.spec)
	same(t, "the account", f.account().UID, uid)
	same(t, "the binding", f.binding().UID, binding.UID)

	f.plane.Kubectl(t, "-n", "life", "delete", "secret", "berth-token")
	f.plane.Kubectl(t, "-n", "life", "annotate", "serviceaccount", "berth", AnnotationTokenSecret+"-")
	f.plane.Kubectl(t, "patch", "clusterrolebinding", f.spec.BindingName(), "--type=json", "-p", `[{"op":"add","path":"/subjects/-","value":{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"eve"}}]`)
	same(t, "drift", f.drift(f.spec), map[string]string{
		"Secret/life/berth-token": "missing → present",
		"ServiceAccount/life/berth metadata.annotations.[berth.dev/token-secret]": "(none) → berth-token",
		"ClusterRoleBinding/berth-life-berth subjects":                            "ServiceAccount/life/berth, User/eve → ServiceAccount/life/berth",
	})
	same(t, "conditions", f.conditions(f.spec), "RoleFound=True Found, TokenIssued=False TokenMissing, Ready=False TokenMissing")
	f.Cluster = f.afresh()
	f.converge(f.spec, &f.spec)
	same(t, "drift", f.drift(f.spec), map[string]string{})
	same(t, "subjects", len(f.binding().Subjects), 1)

	stays, err := f.spec.Remove(t.Context(), f.Cluster, Removal{Owner: us, Held: true})
	if err != nil || len(stays) > 0 {
		t.Fatalf("%v, %v", stays, err)
	}
	f.namespaceGone()
	if _, left, err := f.spec.Live(t.Context(), f.afresh(), us); err != nil || left {
		t.Errorf("left %t, %v", left, err)
	}
	if stays, err = f.spec.Remove(t.Context(), f.afresh(), Removal{Owner: us, Held: true}); err != nil || len(stays) > 0 {
		t.Errorf("already gone: %v, %v", stays, err)
	}
}

// A ServiceAccount that was made anew has other tokens: the Secret of the one before it is replaced, although its name is
// the same, however soon.
func TestAccountMadeAnew(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "anew")
	f.converge(f.spec, nil)
	before, old := f.take(first), f.account().UID
	f.plane.Kubectl(t, "-n", "anew", "delete", "serviceaccount", "berth")
	f.Cluster = f.afresh()
	f.converge(f.spec, &f.spec)
	after := f.take(first)
	if f.account().UID == old || after.Value == before.Value || after.SecretUID == before.SecretUID {
		t.Error("the account or its token is the old one")
	}
	f.refused(before.Value)
	f.accepted(after.Value)
	same(t, "drift", f.drift(f.spec), map[string]string{})
}

// The role of a binding never changes, so the binding is made anew; one that was adopted is not.
func TestRoleChanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "role")
	f.converge(f.spec, nil)
	before := f.binding()
	wider := f.spec
	wider.ClusterRole = "edit"
	findings, err := wider.Check(t.Context(), f.Cluster, kube.Terms{Owner: us}, &f.spec)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "said beforehand", findings.Recreate, "roleRef.name: view → edit")
	f.converge(wider, &f.spec)
	same(t, "the role", f.binding().RoleRef.Name, "edit")
	same(t, "made anew", f.binding().UID == before.UID, false)

	missing := wider
	missing.ClusterRole = "nobody-has-this"
	_, err = missing.Check(t.Context(), f.Cluster, kube.Terms{Owner: us}, &wider)
	problem(t, err, `ClusterRole/nobody-has-this does not exist on cluster "plane"`, "so its token could do nothing. Create the role first, or name one that exists")
	f.Plan(cluster.ClusterRoles, "", "nobody-has-this")
	if _, err := missing.Check(t.Context(), f.Cluster, kube.Terms{Owner: us}, &wider); err != nil {
		t.Errorf("a role that the same apply creates: %v", err)
	}

	adopted := newFixture(t, "role-adopted")
	adopted.plane.Kubectl(t, "create", "clusterrolebinding", adopted.spec.BindingName(), "--clusterrole=view", "--serviceaccount=role-adopted:berth", "--user=somebody")
	terms := kube.Terms{Owner: us, Adopt: true}
	findings, err = adopted.spec.Check(t.Context(), adopted.Cluster, terms, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range findings.Objects {
		if one.Verdict == kube.Adopt {
			same(t, "what an adoption changes", fmt.Sprint(one.Changes), "[subjects: User/somebody, ServiceAccount/role-adopted/berth → ServiceAccount/role-adopted/berth]")
		}
	}
	if _, err := adopted.spec.Converge(t.Context(), adopted.Cluster, terms, nil); err != nil {
		t.Fatal(err)
	}
	wider = adopted.spec
	wider.ClusterRole = "edit"
	_, err = wider.Check(t.Context(), adopted.afresh(), terms, &adopted.spec)
	problem(t, err, "ClusterRoleBinding/berth-role-adopted-berth was adopted and cannot be replaced", "roleRef.name: view → edit")
	stays, err := adopted.spec.Remove(t.Context(), adopted.afresh(), Removal{Owner: us, Held: true})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "what stays", stays, []string{"ClusterRoleBinding/berth-role-adopted-berth: it was adopted, not created"})
	same(t, "the binding's role", adopted.binding().RoleRef.Name, "view")
}

// A Secret with somebody else's token is never taken for this one's, not even with adopt.
func TestForeignTokenIsNotAdopted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "foreign")
	f.plane.Kubectl(t, "-n", "foreign", "create", "serviceaccount", "another")
	f.plane.KubectlInput(t, "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/service-account-token\nmetadata: {name: berth-token, annotations: {kubernetes.io/service-account.name: another}}\n", "-n", "foreign", "create", "-f", "-")
	_, err := f.spec.Check(t.Context(), f.Cluster, kube.Terms{Owner: us, Adopt: true}, nil)
	problem(t, err, "Secret/foreign/berth-token cannot be adopted", "metadata.annotations.[kubernetes.io/service-account.name]: another → berth")
}

// Who may not bind the role is told beforehand; who has all that it allows may, without the verb (as the API server says).
func TestMayBind(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "binding")
	roles := f.plane.Client().RbacV1()
	grant := func(user string, rules ...rbacv1.PolicyRule) *cluster.Cluster {
		t.Helper()
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterrolebindings"}, Verbs: []string{"create"}})
		if _, err := roles.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
			Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}},
		}
		if _, err := roles.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return f.as(f.proxy.Through(f.plane.UserKubeconfig(t, user)))
	}
	small := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}
	if _, err := roles.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "small"}, Rules: []rbacv1.PolicyRule{small}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	spec := f.spec
	spec.ClusterRole = "small"
	for user, one := range map[string]struct {
		rules []rbacv1.PolicyRule
		may   bool
	}{
		"has-nothing":  {nil, false},
		"has-the-role": {[]rbacv1.PolicyRule{small}, true},
		"has-the-verb": {[]rbacv1.PolicyRule{{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: []string{"small"}, Verbs: []string{"bind"}}}, true},
	} {
		may, err := spec.MayBind(t.Context(), grant(user, one.rules...))
		if err != nil {
			t.Fatal(err)
		}
		same(t, user, may, one.may)
	}
	same(t, "writes", f.proxy.Writes(), 0)
}

// An access whose tokens are in use is not taken apart, whoever has marked them; one that only lets go is (Y1).
func TestRemovalOfWhatIsInUse(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "used")
	f.converge(f.spec, nil)
	token := f.take(first)
	removal := Removal{Owner: us, Held: true}
	f.proxy.Reset()
	_, err := f.spec.Remove(t.Context(), f.Cluster, removal)
	problem(t, err, `Tokens of ServiceAccount/used/berth are in use on cluster "plane"`,
		"1 consumer(s) store a token of ServiceAccount/used/berth on plane, which would be revoked: platform/cluster.edge-1 (Secret/used/berth-token). Nothing was deleted.")
	same(t, "writes of a refusal", f.proxy.Writes(), 0)

	f.spec.TokenSecret = false
	f.converge(f.spec, &f.spec)
	minted := f.take(other)
	_, err = f.spec.Remove(t.Context(), f.Cluster, removal)
	problem(t, err, "2 consumer(s)", "elsewhere/worker_enrollment.tenant/edge-1 (Secret/used/"+minted.SecretName+"), platform/cluster.edge-1 (Secret/used/berth-token)")

	removal.Retain = true
	stays, err := f.spec.Remove(t.Context(), f.Cluster, removal)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "what stays", stays, []string{
		`ClusterRoleBinding/berth-used-berth: deletion_policy is "retain"`, `Secret/used/berth-token: deletion_policy is "retain"`, `ServiceAccount/used/berth: deletion_policy is "retain"`,
	})
	f.accepted(token.Value)
	f.accepted(minted.Value)
	// Who used them can still let go.
	f.leave(first, "")
	f.leave(other, "")
	same(t, "Secrets", f.secrets(), []string{"berth-token"})
	same(t, "marks", len(f.secret("berth-token").Labels[kube.LabelManagedBy])+len(usersOf(unstructuredOf(t, f.secret("berth-token")))), 0)
}

// Of an access that was adopted berth deletes what it added: a token among it stands in the way as long as it is in use.
func TestRemovalOfWhatWasAdopted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "adopted")
	f.plane.Kubectl(t, "-n", "adopted", "create", "serviceaccount", "berth")
	f.plane.Kubectl(t, "create", "clusterrolebinding", f.spec.BindingName(), "--clusterrole=view", "--serviceaccount=adopted:berth")
	terms := kube.Terms{Owner: us, Adopt: true}
	if _, err := f.spec.Converge(t.Context(), f.Cluster, terms, nil); err != nil {
		t.Fatal(err)
	}
	f.take(first)
	without := f.spec
	without.TokenSecret = false
	f.converge(without, &f.spec)
	removal := Removal{Owner: us, Held: true}
	_, err := without.Remove(t.Context(), f.afresh(), removal)
	problem(t, err, "platform/cluster.edge-1 (Secret/adopted/berth-token)")
	f.leave(first, "")
	f.take(other)
	stays, err := without.Remove(t.Context(), f.afresh(), removal)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "what stays", stays, []string{"ClusterRoleBinding/berth-adopted-berth: it was adopted, not created", "ServiceAccount/adopted/berth: it was adopted, not created"})
	same(t, "Secrets", f.secrets(), []string{"berth-minted"})
	f.leave(other, "")
}

// What an interrupted replacement left is drift, and goes with the next apply.
func TestSpentTokens(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "spent")
	f.converge(f.spec, nil)
	second := f.spec
	second.TokenVersion = 2
	// Killed when the ServiceAccount names the new token.
	restore := f.proxy.Fail(func(r fleettest.Request) bool { return r.Verb == "delete" }, fleettest.Cut)
	if _, err := second.Converge(t.Context(), f.Cluster, kube.Terms{Owner: us}, &f.spec); err == nil {
		t.Fatal("nothing failed although no deletion got through")
	}
	restore()
	same(t, "Secrets", f.secrets(), []string{"berth-token", "berth-token-2"})
	same(t, "drift", f.drift(second), map[string]string{"Secret/spent/berth-token": "superseded and unused → gone"})
	f.Cluster = f.afresh()
	f.converge(second, &second)
	same(t, "Secrets", f.secrets(), []string{"berth-token-2"})
	same(t, "drift", f.drift(second), map[string]string{})
}
