package provider_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// limited gives the bench a ServiceAccount that may do only what the rules say, cluster-wide, besides reading
// namespaces.
func (b *bench) limited(rules ...rbacv1.PolicyRule) (grant func(rules ...rbacv1.PolicyRule)) {
	b.t.Helper()
	name := unique("limited")
	account := b.cluster.ServiceAccountKubeconfig(b.t, name+"/berth")
	roles := b.cluster.Client().RbacV1()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	if _, err := roles.ClusterRoles().Create(b.t.Context(), role, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: name, Name: "berth"}},
	}
	if _, err := roles.ClusterRoleBindings().Create(b.t.Context(), binding, metav1.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	b.block = providerBlock(b.owner, clusters{"shared": byPath(b.t, b.proxy.Through(account))})
	return func(rules ...rbacv1.PolicyRule) {
		b.t.Helper()
		role.Rules = rules
		if _, err := roles.ClusterRoles().Update(b.t.Context(), role, metav1.UpdateOptions{}); err != nil {
			b.t.Fatal(err)
		}
	}
}

func rule(group string, verbs []string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Verbs: verbs, Resources: resources}
}

// What the credential may not do is refused before the first write, all of it at once, with the roles that would grant
// it; nothing is asked for that the configuration does not need (J11, J25).
func TestInstancePermissions(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	classes, name := b.ownClasses(), unique("limited")
	write := []string{"get", "create", "patch", "delete"}
	grant := b.limited(rule("", []string{"get"}, "namespaces"), rule("", []string{"list"}, "nodes"))

	b.use(instance("this", name, `operator = { image = "operator:1", version = "1.0.0", cluster_role = "view" }`))
	plan := b.Plan()
	plan.Error(t, `^permissions on cluster "shared"$`, `^refusing: the credential of shared may not: create namespaces patch namespaces delete namespaces `+
		`get configmaps in namespace `+name+` create configmaps in namespace `+name+` .*get priorityclasses\.scheduling\.k8s\.io .*create serviceaccounts in namespace berth-system `+
		`.*create clusterrolebindings\.rbac\.authorization\.k8s\.io .*create deployments\.apps in namespace berth-system .*Nothing was applied\. Have an administrator apply this and bind it to the credential's user: `,
		`kind: ClusterRole`, `kind: Role`)
	b.unwritten()

	// Without a right on nodes the way out is named.
	grant(rule("", write, "namespaces", "configmaps"))
	b.use(instance("this", name, classes))
	b.Plan().Error(t, `^The nodes of cluster "shared" cannot be listed$`, "The platforms of instance \""+name+"\" come from the nodes, and the credential may not list them: .*Grant it .list nodes., or set .platforms.: then the nodes are not read")

	// With both classes named and platforms set, rights on one namespace and one ConfigMap are all that is needed.
	b.use(instance("this", name, classes, `platforms = ["linux/amd64"]`))
	plan = b.MustPlan()
	plan.Warning(t, `^Instance "`+name+`" on cluster "shared": priority_classes/`, "^unknown: could not find out whether PriorityClass .* exists", "To have it checked, apply this and bind it")
	plan.Warning(t, `^Instance "`+name+`" on cluster "shared": features/PodLevelResources$`, "^unknown: could not find out which features the API server has by a dry run of a pod in namespace default")
	b.MustApply()
	same(t, "the settings", b.settings(name)["platforms"], "linux/amd64")
	b.PlanIsEmpty()
	b.kubectl("-n", name, "patch", "configmap", settings, "--type=merge", "-p", `{"data":{"platforms":"linux/arm64"}}`)
	same(t, "drift", b.MustPlan().Change(t, thisInstance).Before["drift"], map[string]any{"ConfigMap/" + name + "/" + settings + " data.platforms": "linux/arm64 → linux/amd64"})
	b.MustApply()

	// What is in the namespace cannot be seen, so it is not deleted.
	b.Destroy().Error(t, `^Planning berth_instance "`+name+`" on cluster "shared" failed$`,
		"^listing [a-z]+ in namespace "+name+`: On cluster "shared", user "system:serviceaccount:.*:berth" may not list [a-z0-9.]+ in namespace "`+name+`"\. Grant it by a Role and a RoleBinding in namespace "`+name+`" with the rule`)
	b.mustNamespace(name)
	b.use(instance("this", name, classes, `platforms = ["linux/amd64"]`, "force_destroy = true"))
	b.MustApply()
	b.MustDestroy()
	same(t, "what is left", b.ours(name), []string{})
}
