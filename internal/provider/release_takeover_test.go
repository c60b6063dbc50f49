package provider_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// helmInstall installs a release as Helm itself does, with the namespace.
func (b *bench) helmInstall(folder, namespace, name string, values map[string]any) {
	b.t.Helper()
	chart, err := loader.Load(folder)
	if err != nil {
		b.t.Fatal(err)
	}
	settings := cli.New()
	settings.KubeConfig = b.cluster.Kubeconfig()
	settings.SetNamespace(namespace)
	config := new(action.Configuration)
	if err := config.Init(settings.RESTClientGetter(), namespace, "secret", b.t.Logf); err != nil {
		b.t.Fatal(err)
	}
	install := action.NewInstall(config)
	install.ReleaseName, install.Namespace, install.CreateNamespace = name, namespace, true
	if _, err := install.Run(chart, values); err != nil {
		b.t.Fatal(err)
	}
}

// A release that another tool installed is imported, and the plan is empty where chart and values are the same, although
// a record of Helm does not say where the chart came from (promise 9 of the design).
func TestReleaseImportFromHelm(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		b := newBench(t, tofutest.Options{Runner: runner})
		name, folder := unique("theirs"), paintChart(t, "1.0.0")
		repository := charts.Repository(t, charts.Package(t, folder))
		b.helmInstall(folder, name, name, map[string]any{"color": "green", "more": true})
		secret := b.secret(name, "sh.helm.release.v1."+name+".v1")
		config := func(color string) string {
			return releaseBlock("this", name, name, fmt.Sprintf(`chart = { repository = %q, name = "paint", version = "1.0.0" }`, repository.URL),
				fmt.Sprintf("values = [<<-YAML\n  more: true # as it was\n  color: %s\n  YAML\n]", color))
		}
		b.use(config("green"))
		b.Plan().Error(t, "exists and is not berth's", "adopt = true")
		b.MustImport(rel, "shared/"+name+"/"+name)
		b.PlanIsEmpty().NoWarnings(t)
		same(t, "the record", b.secret(name, secret.Name).ResourceVersion, secret.ResourceVersion)

		b.use(config("blue"))
		planned := b.MustPlan().Change(t, rel)
		same(t, "changes", planned.After["changes"], map[string]any{"ConfigMap/" + name + "/" + name + "-paint data.color": "green → blue"})
		b.MustApply()
		same(t, "color", b.color(name, name), "blue")
		chart, _ := b.Resource(rel)["chart"].(map[string]any)
		same(t, "chart", row(chart["repository"], b.Resource(rel)["revision"]), row(repository.URL, 2))
		b.PlanIsEmpty().NoWarnings(t)
		b.MustDestroy()
		same(t, "color", b.color(name, name), "none")
	})
}

// besideHelm is a configuration of the runner under which there is a provider hashicorp/helm, too: the runners ask for one
// as long as the state has something of it. It is berth under another name, which has none of its resources.
func besideHelm(t *testing.T) string {
	t.Helper()
	binary, err := tofutest.Provider()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, name := range []string{"berth", "helm"} {
		if err := os.Symlink(binary, filepath.Join(folder, "terraform-provider-"+name)); err != nil {
			t.Fatal(err)
		}
	}
	var overrides strings.Builder
	for _, registry := range []string{"registry.opentofu.org", "registry.terraform.io"} {
		fmt.Fprintf(&overrides, "%q = %q\n%q = %q\n", registry+"/berthdev/berth", folder, registry+"/hashicorp/helm", folder)
	}
	file := filepath.Join(folder, "cli.tfrc")
	if err := os.WriteFile(file, fmt.Appendf(nil, "provider_installation {\n dev_overrides {\n%s}\n direct {}\n}\n", &overrides), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// helmState writes a state that has helm_release.shop, as the helm provider leaves it.
func (b *bench) helmState(runner, name, folder string) {
	b.t.Helper()
	registry := "registry.opentofu.org"
	if runner == tofutest.Terraform {
		registry = "registry.terraform.io"
	}
	b.Write("terraform.tfstate", fmt.Sprintf(`{
  "version": 4, "terraform_version": "1.11.0", "serial": 1, "lineage": "5b7c1f0e-6e3f-4d7c-9d8e-0d3c7b1f2a10", "outputs": {},
  "resources": [{
    "mode": "managed", "type": "helm_release", "name": "shop", "provider": "provider[\"%[1]s/hashicorp/helm\"]",
    "instances": [{"schema_version": 2, "attributes": {
      "id": %[2]q, "name": %[2]q, "namespace": %[2]q, "chart": %[3]q, "repository": null, "version": "1.0.0", "values": ["color: green\n"],
      "set_sensitive": [{"name": "password", "value": "from set_sensitive", "type": ""}],
      "metadata": {"chart": "paint", "version": "1.0.0", "revision": 1, "name": %[2]q, "namespace": %[2]q}, "status": "deployed"
    }}]
  }], "check_results": null
}`, registry, name, folder))
}

const movedHere = `
moved {
  from = helm_release.shop
  to   = berth_release.this
}
`

// A `moved` block makes a berth_release of a helm_release: its state knows no cluster, the plan fills it in, and nothing
// is written to the cluster.
func TestReleaseMovedFromHelm(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		b := newBench(t, tofutest.Options{Runner: runner, Env: map[string]string{"TF_CLI_CONFIG_FILE": besideHelm(t)}})
		name, folder := unique("moved"), paintChart(t, "1.0.0")
		b.helmInstall(folder, name, name, map[string]any{"color": "green", "password": "from set_sensitive"})
		secret := b.secret(name, "sh.helm.release.v1."+name+".v1")
		b.helmState(runner, name, folder)
		config := releaseBlock("this", name, name, byFolder(folder), `values = ["color: green"]`)
		b.use(config, movedHere)
		b.use(config, movedHere)
		planned := b.MustPlan().Change(t, rel)
		if !planned.Is("update") {
			t.Fatalf("%v", planned)
		}
		same(t, "what is filled in", row(planned.Before["cluster_uid"], planned.After["cluster"], planned.After["cluster_uid"], planned.After["id"]),
			row(nil, "shared", b.cluster.UID(), "shared/"+name+"/"+name))
		b.proxy.Reset()
		b.MustApply()
		same(t, "writes", b.proxy.Writes(), 0)
		same(t, "the record", b.secret(name, secret.Name).ResourceVersion, secret.ResourceVersion)
		same(t, "outputs", row(b.Resource(rel)["revision"], b.Resource(rel)["status"]), "1 deployed")
		b.PlanIsEmpty()

		// The secret value stays what it was: the record has the same one.
		b.use(releaseBlock("this", name, name, byFolder(folder), `values = ["color: green"]`, `set_sensitive_wo = { password = "from set_sensitive" }`, "set_sensitive_wo_version = 1"))
		same(t, "changes", b.MustPlan().Change(t, rel).After["changes"], map[string]any{})
		b.MustApply()
		same(t, "revision", b.Resource(rel)["revision"], 1)
		b.PlanIsEmpty()
		b.MustDestroy()
		same(t, "color", b.color(name, name), "none")
	})
}

// What was moved here is pinned to a cluster that has it, under the name that it has, or not at all.
func TestReleaseMovedRefusals(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{Env: map[string]string{"TF_CLI_CONFIG_FILE": besideHelm(t)}})
	name, folder := unique("ghost"), paintChart(t, "1.0.0")
	b.helmState(tofutest.Tofu, name, folder)
	b.use(releaseBlock("this", name, name, byFolder(folder), `values = ["color: green"]`), movedHere)
	b.Plan().Error(t, `^berth_release "`+name+`/`+name+`" was moved here, and is not on that cluster$`, "Set .?cluster.? to the one that has it", `Nothing was applied\.`)
	b.use(releaseBlock("this", "default", name, byFolder(folder)), movedHere)
	b.Plan().Error(t, `^berth_release "`+name+`/`+name+`" was moved here, and cannot be another one at once$`, "Apply the move first")
	// A refresh keeps the move in the state, and knows no cluster either.
	b.use(releaseBlock("this", name, name, byFolder(folder)), movedHere)
	b.Refresh()
	b.use()
	b.Apply().Error(t, `^berth_release "`+name+`/`+name+`" was moved here, and its cluster is not known yet$`, "Apply it once with its resource block in place")
	same(t, "writes", b.proxy.Writes(), 0)
}
