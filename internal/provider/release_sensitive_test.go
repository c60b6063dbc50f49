package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// Write-only values reach the cluster, are nowhere else, and change with their version only; a change without it is
// warned of (promise 7 of the design).
func TestReleaseSensitiveValues(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		b := newBench(t, tofutest.Options{Runner: runner})
		name, chart := unique("secret"), paintChart(t, "1.0.0")
		const first, second, third = "canary-the-first", "canary-the-second", "canary-the-third"
		config := func(password string, version int, color string) string {
			return releaseBlock("this", name, name, byFolder(chart), "create_namespace = true", fmt.Sprintf(`values = ["color: %s"]`, color),
				fmt.Sprintf("set_sensitive_wo = { password = %q }\nset_sensitive_wo_version = %d", password, version))
		}
		var log strings.Builder
		see := func(result *tofutest.Result) *tofutest.Result { log.WriteString(result.Log); return result }
		password := func() string { return string(b.secret(name, name+"-paint").Data["password"]) }

		b.use(config(first, 1, "red"))
		see(b.MustPlan())
		see(b.MustApply()).NoWarnings(t)
		same(t, "password", password(), first)
		see(b.PlanIsEmpty()).NoWarnings(t)

		b.use(config(second, 1, "red"))
		see(b.PlanIsEmpty()).Warning(t, `^The secret values of berth_release "`+name+`/`+name+`" on cluster "shared" have changed$`, "still 1: nothing is changed. Raise the version to apply them")
		b.use(config(second, 2, "red"))
		changed := see(b.MustPlan())
		same(t, "changes", changed.Change(t, rel).After["changes"], map[string]any{"Secret/" + name + "/" + name + "-paint data.password": "(sensitive value) → (sensitive value)"})
		see(b.MustApply()).NoWarnings(t)
		same(t, "password", password(), second)
		see(b.PlanIsEmpty()).NoWarnings(t)

		b.kubectl("patch", "secret", "-n", name, name+"-paint", "--type=merge", "-p", `{"stringData":{"password":"`+third+`"}}`)
		broken := see(b.MustPlan())
		drift, _ := broken.Change(t, rel).Before["drift"].(map[string]any)
		if len(drift) != 1 {
			t.Errorf("drift: %v", drift)
		}
		see(b.MustApply())
		same(t, "password", password(), second)

		imported := b.beside(b.owner, tofutest.Options{Runner: runner})
		imported.use(config(second, 2, "red"))
		imported.MustImport(rel, "shared/"+name+"/"+name)
		see(imported.PlanIsEmpty())

		log.Write(b.StatePull())
		log.Write(imported.StatePull())
		for _, canary := range []string{first, second, third} {
			if strings.Contains(log.String(), canary) {
				t.Errorf("%s was printed or kept", canary)
			}
		}
		b.MustDestroy()
	})
}

// What is unknown at plan puts checks off, and the apply makes up for them (promise 2 of the design).
func TestReleaseUnknowns(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		b := newBench(t, tofutest.Options{Runner: runner})
		name, chart := unique("later"), paintChart(t, "1.0.0")
		config := func(color string) string {
			return fmt.Sprintf("resource \"terraform_data\" \"color\" {\ninput = %q\n}\n", color) +
				releaseBlock("this", name, name, byFolder(chart), "create_namespace = true", "values = [yamlencode({ color = terraform_data.color.output })]")
		}
		b.use(config("red"))
		plan := b.MustPlan()
		plan.Warning(t, `^The checks of berth_release "`+name+`/`+name+`" on cluster "shared" are put off to the apply$`, "Not known yet: .?values.?")
		same(t, "unknown", plan.Change(t, rel).AfterUnknown["objects"], true)
		b.MustApply()
		same(t, "color", b.color(name, name), "red")
		b.PlanIsEmpty().NoWarnings(t)
		b.use(config("blue"))
		b.MustPlan()
		b.MustApply()
		same(t, "color", b.color(name, name), "blue")
		b.PlanIsEmpty().NoWarnings(t)
		b.MustDestroy()
	})
}
