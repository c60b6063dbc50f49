package provider_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// The smallest instance: a name. It imports into an empty plan like any other (J2, J38, J49, J70, promise 9), also when
// everything that can be empty is (null is not empty).
func TestInstanceMinimal(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	for what, body := range map[string]string{
		"minimal": "",
		"empty":   "sandbox_images = {}\nsandbox = {}\nrequired_secrets = []\nenv_from = []\nenv = {}\ngit_credentials = []\npriority_classes = {}",
	} {
		name := unique(what)
		b.use(instance("this", name, body), "output \"nodes\" {\nvalue = berth_instance.this.sandbox_nodes\n}")
		b.MustApply()
		b.PlanIsEmpty()
		imported := b.beside(b.owner, tofutest.Options{})
		imported.use(instance("this", name, body))
		imported.MustImport(thisInstance, "shared/"+name)
		imported.PlanIsEmpty()
		had, has := b.Resource(thisInstance), imported.Resource(thisInstance)
		delete(had, "server") // each workspace has a proxy of its own
		delete(has, "server")
		same(t, what+", imported", has, had)
		b.MustDestroy()
		same(t, "what is left", b.ours(name), []string{})
	}
	// What cannot be imported says why.
	b.use(instance("this", "nothing"))
	if missing := b.Import(thisInstance, "shared/nothing"); missing.ExitCode == 0 {
		t.Error("an instance that does not exist was imported")
	}
	bare, twice := unique("bare"), unique("twice")
	namespace(t, b.cluster, func(one *corev1.Namespace) { one.Labels = map[string]string{"berth.dev/instance": bare} })
	b.use(instance("this", bare))
	b.Import(thisInstance, "shared/"+bare).Error(t, `^Instance "`+bare+`" has no settings$`, "ConfigMap/.*/berth-instance, from which an import reads its settings, does not exist")
	for range 2 {
		namespace(t, b.cluster, func(one *corev1.Namespace) { one.Labels = map[string]string{"berth.dev/instance": twice} })
	}
	b.use(instance("this", twice))
	b.Import(thisInstance, "shared/"+twice).Error(t, `^Several namespaces belong to instance "`+twice+`"$`, "Take the label off all but one")
}

// The content hash moves with the settings and with nothing else; an update keeps every output that it does not change,
// so that references never cascade, and has those that it changes (J13, J14, J18, J38, J50, J52, J55, X12).
func TestInstanceContentHash(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	classes, name := b.ownClasses(), unique("hashed")
	tag := `provider::berth::image_tag(sha256("inputs"), ["linux/arm64", "linux/amd64"])`
	output := "output \"seen\" {\nvalue = [berth_instance.this.content_hash, berth_instance.this.image_refs, berth_instance.this.sandbox_nodes, berth_instance.this.effective_priority_classes]\n}"
	hash := func(body ...string) string {
		t.Helper()
		b.use(instance("this", name, append(body, classes)...), output)
		b.MustApply()
		b.PlanIsEmpty()
		found := fmt.Sprint(b.Resource(thisInstance)["content_hash"])
		same(t, "the label", b.cluster.Kubectl(t, "-n", name, "get", "configmap", settings, "-o", `jsonpath={.metadata.labels.berth\.dev/content-hash}`), found)
		return found
	}
	images := fmt.Sprintf("registry = \"registry.example.com/team\"\nsandbox_images = { default = \"sandbox:${%s}\" }", tag)
	base := hash(images)
	same(t, "length", len(base), 12)
	same(t, "image_refs", b.Resource(thisInstance)["image_refs"], map[string]any{"default": "registry.example.com/team/sandbox:32381523e631-amd64-arm64"})
	for what, more := range map[string]string{"knobs": "force_destroy = true\nremove_operator = true\ntimeouts = { create = \"5m\" }", "the pod tests": "preflight = { image_pull = false }"} {
		same(t, "the hash after a change of "+what, hash(images, more), base)
	}
	seen := map[string]string{base: "the base"}
	for what, body := range map[string]string{
		"sizes": images + "\nsizes = { hold = {} }", "the placement": images + "\n" + pool, "the kit": images + "\nkit_version = \"2\"",
		"a mirror": images + "\nkit_registry = \"mirror.example.com\"", "no images": "",
	} {
		found := hash(body)
		if other, taken := seen[found]; taken {
			t.Errorf("%s has the hash of %s", what, other)
		}
		seen[found] = what
	}
	same(t, "the hash of equal settings", hash(images), base)
	b.MustDestroy()
}

// Secrets are made when the namespace is there: the plan says that they are not checked, the apply says which are
// missing, and the conditions tell when they are found (J59, J74).
func TestInstanceSecretsLater(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name := unique("later")
	classes := b.ownClasses()
	b.use(instance("this", name, classes, `required_secrets = [{ name = "api", keys = ["token"] }]`))
	b.MustPlan().Warning(t, `^Instance "`+name+`" on cluster "shared": secrets/`+name+`/api$`, `^namespace "`+name+`" does not exist yet, so Secret "api" is checked when the run applies$`)
	b.MustApply().Warning(t, `^Instance "`+name+`" on cluster "shared": secrets/`+name+`/api$`,
		`^required_secrets\[0\] names Secret "api", which does not exist in namespace "`+name+`" Create it first: kubectl -n `+name+` create secret generic api --from-literal=token=\.\.\.$`)
	same(t, "conditions", row(b.conditionsOf(thisInstance)["SecretsFound"], b.conditionsOf(thisInstance)["Ready"]), "False Missing False NotConverged")
	// A missing Secret stands in the way of nothing: a drift beside it is repaired.
	b.kubectl("label", "namespace", name, "berth.dev/instance-")
	b.MustApply()
	same(t, "the label", b.mustNamespace(name).Labels["berth.dev/instance"], name)
	b.PlanIsEmpty()
	secret(t, b.cluster, name, "api", "token", "canary-in-a-secret")
	b.PlanIsEmpty()
	b.MustApply()
	same(t, "conditions", row(b.conditionsOf(thisInstance)["SecretsFound"], b.conditionsOf(thisInstance)["Ready"]), "True Found True Converged")
	// One that is added to the configuration now is refused while it is missing.
	b.use(instance("this", name, classes, `required_secrets = [{ name = "api", keys = ["token"] }]`, `env_from = ["more"]`))
	b.Plan().Error(t, "^secrets/"+name+`/more on cluster "shared"$`, `^refusing: env_from\[0\] names Secret "more"`)
	b.kubectl("-n", name, "delete", "secret", "api")
	b.use(instance("this", name, classes))
	b.MustDestroy()
}
