package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// Charts come from repositories by the provider's credentials and overrides; a chart that is in the cache is not asked
// for again, and a plan without a change asks for none.
func TestChartSources(t *testing.T) {
	t.Parallel()
	name := unique("source")
	repository := charts.Repository(t, charts.Package(t, paintChart(t, "1.0.0")), charts.Package(t, paintChart(t, "1.1.0")))
	repository.RequireBasicAuth("berth", "canary-of-the-repository")
	cache := t.TempDir()
	settings := func(password string) string {
		return fmt.Sprintf(`charts = {
  repository_overrides = { "https://charts.example.com" = %[1]q }
  cache_dir = %[2]q
  credentials = { %[1]q = { username = "berth", password = %[3]s } }
}`, repository.URL, cache, password)
	}
	release := func(version string) string {
		return releaseBlock("this", name, name, "create_namespace = true", fmt.Sprintf(`chart = { repository = "https://charts.example.com", name = "paint", version = %q }`, version))
	}
	b := newBench(t, tofutest.Options{}, settings(`"wrong"`))
	b.use(release("1.0.0"))
	b.Plan().Error(t, `access is denied \(401\)`, `charts.credentials`)

	right := newBenchOn(t, b.cluster, b.owner, tofutest.Options{}, settings(`"canary-of-the-repository"`))
	right.use(release("1.0.0"))
	right.MustApply()
	repository.Reset()
	right.PlanIsEmpty().NoWarnings(t)
	same(t, "requests of a plan", repository.Requests(), []string{})

	// A password that the same apply makes: what is in the cache can be planned, and the rest is put off.
	later := newBenchOn(t, b.cluster, b.owner, tofutest.Options{}, settings(`"canary-of-the-repository"`))
	later.use(release("1.0.0"))
	later.MustImport(rel, "shared/"+name+"/"+name)
	later.block = strings.Replace(later.block, `"canary-of-the-repository"`, "terraform_data.password.output", 1)
	password := "resource \"terraform_data\" \"password\" {\ninput = \"canary-of-the-repository\"\n}\n"
	later.use(password, release("1.1.0"))
	plan := later.MustPlan()
	plan.Warning(t, `^The checks of berth_release "`+name+`/`+name+`" on cluster "shared" are put off to the apply$`, "is not in the cache", "charts.credentials")
	same(t, "what is put off", plan.Change(t, rel).AfterUnknown["objects"], true)
	later.MustApply()
	same(t, "revision", later.Resource(rel)["revision"], 2)
	later.PlanIsEmpty()
	later.MustDestroy()
}

// What can never be a credential is refused.
func TestChartValidators(t *testing.T) {
	t.Parallel()
	refused := func(summary, detail, body string) {
		t.Helper()
		b := newBench(t, tofutest.Options{}, "charts = {\n"+body+"\n}")
		b.use(class("this", "unused"))
		b.Validate().Error(t, summary, detail)
	}
	refused("is half a credential", "belong together", `credentials = { "oci://r" = { username = "a" } }`)
	refused("has two credentials", "Set one of them", `credentials = { "oci://r" = { username = "a", password = "b", token = "c" } }`)
	refused("Invalid Attribute Value", "string length must be at least 1", `repository_overrides = { "https://charts.example.com" = "" }`)
	refused("is null", "has no meaning here", `repository_overrides = { "https://charts.example.com" = null }`)
}
