package provider_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// A null element is refused wherever a collection is written: it would be dropped, or read as an empty one (J2).
func TestInstanceNullElements(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	for _, one := range []struct{ body, path string }{
		{`sandbox_images = { a = null, b = "x:1" }`, `sandbox_images["a"]`},
		{`platforms = ["linux/amd64", null]`, `platforms[Value(<null>)]`},
		{`sandbox = { node_selector = { pool = null } }`, `sandbox.node_selector["pool"]`},
		{`sandbox = { tolerations = [null] }`, `sandbox.tolerations[0]`},
		{`sizes = { hold = null }`, `sizes["hold"]`},
		{`required_secrets = [null]`, `required_secrets[0]`},
		{`required_secrets = [{ name = "api", keys = ["a", null] }]`, `required_secrets[0].keys[1]`},
		{`env_from = [null]`, `env_from[0]`},
		{`env = { A = null }`, `env["A"]`},
		{`git_credentials = [null]`, `git_credentials[0]`},
		{`adopt_from = [null]`, `adopt_from[0]`},
		{`preflight = { image = "curl", endpoints = [null] }`, `preflight.endpoints[0]`},
	} {
		b.use(instance("this", "null", one.body))
		b.Validate().Error(t, quoted("`"+one.path+"` is null"), "^An element that is null has no meaning here")
	}
	for _, one := range []struct{ body, path string }{
		{`features = [null]`, `features[0]`},
		{`node_selector = { pool = null }`, `node_selector["pool"]`},
		{`tolerations = [null]`, `tolerations[0]`},
		{`secrets = [null]`, `secrets[0]`},
		{`sizes = { hold = null }`, `sizes["hold"]`},
	} {
		b.use("data \"berth_preflight\" \"this\" {\n" + one.body + "\n}")
		b.Validate().Error(t, quoted("`"+one.path+"` is null"), "^An element that is null has no meaning here")
	}
	same(t, "requests", len(b.proxy.Requests()), 0)
}

// What can be known before the apply is refused at plan: settings that a ConfigMap cannot hold, or that somebody made
// immutable, and a namespace that admits none of the instance's pods (promise 1).
func TestInstanceUnfitNamespace(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	classes, name := b.ownClasses(), unique("unfit")
	// Two values of half the limit each: the limit is on what they have together.
	b.use(`locals { long = join("", [for i in range(1000) : "kkkkkkkkkk"]) }
`, instance("this", name, classes, `env = { for i in range(60) : "A_${i}" => { secret = "s", key = local.long } }`,
		`required_secrets = [for i in range(60) : { name = "s-${i}", keys = [local.long] }]`))
	b.Plan().Error(t, `^The settings of instance "`+name+`" are too long$`, `have 1[0-9]{6} bytes, and ConfigMap/`+name+`/berth-instance on shared holds 1048576 at most.*Nothing was applied\.$`)
	b.unwritten()

	b.use(instance("this", name, classes))
	b.MustApply()
	b.kubectl("-n", name, "patch", "configmap", settings, "--type=merge", "-p", `{"immutable":true}`)
	b.use(instance("this", name, classes, `kit_version = "2"`))
	b.proxy.Reset()
	b.Plan().Error(t, "^ConfigMap/"+name+"/"+settings+" is immutable$", "has immutable: true, so Kubernetes never lets the settings in it change.*kubectl -n "+name+" delete configmap berth-instance")
	b.unwritten()
	b.kubectl("-n", name, "delete", "configmap", settings)
	b.MustApply()
	b.PlanIsEmpty()

	b.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
	b.PlanIsEmpty()
	b.use(instance("this", name, classes, `kit_version = "2"`, `orchestrator = { image = "registry.example.com/kit/orchestrator:1" }`))
	b.proxy.Reset()
	b.Plan().Error(t, "^pod_security/"+name+` on cluster "shared"$`, `enforces the Pod Security level "restricted", which refuses pods that need "baseline".*Nothing was applied\..*kubectl label --overwrite namespace `+name)
	b.unwritten()
	b.use(instance("this", name, classes, `kit_version = "2"`))
	b.MustDestroy()
}

// Two instances that would meet on the cluster are refused at plan, before either is written (J46, J47).
func TestInstanceMeets(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	classes, name, other := b.ownClasses(), unique("meets"), unique("other")
	b.use(instance("this", name, classes), instance("that", other, classes, fmt.Sprintf("namespace = %q", name)))
	b.Plan().Error(t, `^Namespace "`+name+`" is claimed by two instances$`, `"`+name+`"`, `"`+other+`"`, `of this configuration both claim namespace "`+name+`" on shared, and a namespace belongs to one instance.*Nothing was applied\.$`)
	b.use(instance("this", name, classes), instance("that", name, classes, fmt.Sprintf("namespace = %q", other)))
	b.Plan().Error(t, `^Instance "`+name+`" is in namespace "(`+name+`|`+other+`)" too$`, `would carry the same owner mark.*Choose another .name..*Nothing was applied\.$`)
	b.unwritten()

	b.use(instance("this", name, classes))
	b.MustApply()
	b.use(instance("this", name, classes), instance("that", name, classes, fmt.Sprintf("namespace = %q", other)))
	b.proxy.Reset()
	b.Plan().Error(t, `^Instance "`+name+`" is in namespace "`+name+`" too$`, `set .namespace. to "`+name+`": the apply goes on from it\. Nothing was applied\.$`)
	b.unwritten()
	// Another configuration learns whose it is.
	stranger := b.beside(unique("stranger"), tofutest.Options{})
	stranger.use(instance("this", other, classes, fmt.Sprintf("namespace = %q", name)))
	stranger.Plan().Error(t, `^Namespace "`+name+`" belongs to another instance$`, quoted(fmt.Sprintf(`belongs to another instance (%q, owner %q)`, name, b.owner)))
	// A move to another namespace leaves the first one before.
	b.use(instance("this", name, classes, fmt.Sprintf("namespace = %q", other)))
	b.MustApply()
	b.PlanIsEmpty()
	b.MustDestroy()
	same(t, "what is left", b.ours(name), []string{})
}

// A plan that changes nothing says what keeps an instance from being ready (J59).
func TestInstanceUnready(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	classes, name := b.ownClasses(), unique("unready")
	b.use(instance("this", name, classes, `required_secrets = [{ name = "api" }]`))
	b.MustApply()
	b.PlanIsEmpty().Warning(t, `^Instance "`+name+`" on cluster "shared" is not ready$`, `^SecretsFound: required_secrets\[0\] names Secret "api", which does not exist in namespace "`+name+`"`)
	secret(t, b.cluster, name, "api", "token", "value")
	b.PlanIsEmpty().NoWarnings(t)
	b.kubectl("-n", name, "delete", "secret", "api")
	b.MustDestroy()
}

// A destroy with a Secret in the namespace that depends on the instance is possible: the plan warns, and the Secret is
// gone when the instance's turn comes (promise 10).
func TestInstanceDestroyWithDependants(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	classes, name := b.ownClasses(), unique("dependants")
	programs, err := fleettest.Build(t.Context(), "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	kubectl := strings.Join([]string{programs["kubectl"], "--kubeconfig", b.cluster.AdminKubeconfig().Write(t), "-n", name}, " ")
	b.use(instance("this", name, classes), fmt.Sprintf(`
resource "terraform_data" "secret" {
  input = [berth_instance.this.namespace, %q]
  provisioner "local-exec" { command = "${self.input[1]} create secret generic theirs" }
  provisioner "local-exec" {
    when    = destroy
    command = "${self.input[1]} delete secret theirs"
  }
}
`, kubectl))
	b.MustApply()
	plan := b.MustPlan("-destroy")
	plan.Warning(t, `^Namespace "`+name+`" still has objects that are not the instance's$`, `has 1 object\(s\) that berth did not create: Secret/theirs\. The destroy will be refused unless they are gone by then\.`)
	b.MustDestroy()
	same(t, "the namespace", b.namespace(name), (*corev1.Namespace)(nil))
}

// What a destroy and the pod tests need is asked for at plan, and so is what a class needs (J11).
func TestMorePermissions(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	classes, name := b.ownClasses(), unique("limited")
	write := []string{"get", "create", "patch", "delete"}
	grant := b.limited(rule("", write, "namespaces", "configmaps"), rule("", []string{"list"}, "nodes"), rule("scheduling.k8s.io", write, "priorityclasses"))
	summary := `^permissions on cluster "shared"$`
	b.use(instance("this", name))
	b.Plan().Error(t, summary, `may not: list pods Nothing was applied\.`)
	b.use(instance("this", name, classes, `preflight = { image_pull = true }`))
	b.Plan().Error(t, summary, `may not: get pods in namespace `+name+` create pods in namespace `+name+` delete pods in namespace `+name+` Nothing was applied\.`)
	grant(rule("", []string{"get"}, "namespaces"), rule("scheduling.k8s.io", []string{"get", "list"}, "priorityclasses"))
	b.use(class("this", name))
	b.Plan().Error(t, "^PriorityClass/"+name+` on cluster "shared": permissions$`, `^refusing: the credential of shared may not: create priorityclasses\.scheduling\.k8s\.io patch priorityclasses\.scheduling\.k8s\.io delete priorityclasses\.scheduling\.k8s\.io `+
		`Nothing was applied\. Have an administrator apply this and bind it to the credential's user: .*kind: ClusterRole`)
	b.unwritten()
}
