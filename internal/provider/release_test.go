package provider_test

import (
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// The life of a release: plan, apply, nothing left to plan, a change by hand and its repair, an upgrade whose plan says
// what it changes, an import elsewhere, and the destroy with the namespace that was created for it (promises 1, 6, 9
// and 10 of the design).
func TestReleaseRhythm(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		b := newBench(t, tofutest.Options{Runner: runner})
		name, chart := unique("paint"), paintChart(t, "1.0.0")
		config := func(color string) string {
			return releaseBlock("this", name, name, byFolder(chart), "create_namespace = true", "keep_history = 3", `values = [yamlencode({ color = "`+color+`" })]`)
		}
		config1 := config("red")
		b.use(config1)
		plan := b.MustPlan()
		plan.NoWarnings(t)
		planned := plan.Change(t, rel)
		if !planned.Is("create") {
			t.Fatalf("plan:\n%s", plan.Describe())
		}
		same(t, "what is known at plan", row(planned.After["id"], planned.After["cluster_uid"], planned.After["drift"], planned.After["changes"], planned.After["app_version"]),
			row("shared/"+name+"/"+name, b.cluster.UID(), map[string]any{}, map[string]any{}, "1.0.0"))
		objects, _ := planned.After["objects"].(map[string]any)
		if len(objects) != 2 || objects["ConfigMap/"+name+"/"+name+"-paint"] == "" || objects["Secret/"+name+"/"+name+"-paint"] == "" {
			t.Errorf("objects: %v", objects)
		}
		if b.proxy.Writes() != 0 {
			t.Fatal("the plan wrote to the cluster")
		}

		b.MustApply().NoWarnings(t)
		same(t, "color", b.color(name, name), "red")
		state := b.Resource(rel)
		same(t, "outputs", row(state["revision"], state["status"], state["drift"], state["changes"]), row(1, "deployed", map[string]any{}, map[string]any{}))
		same(t, "conditions", state["conditions"], map[string]any{
			"Deployed": map[string]any{"status": "True", "reason": "Deployed", "message": "Revision 1 is deployed."},
			"Ready":    map[string]any{"status": "True", "reason": "Ready", "message": "Every object of the release is ready."},
		})
		b.PlanIsEmpty().NoWarnings(t)

		// The same in other words is no change.
		b.use(strings.Replace(config1, `[yamlencode({ color = "red" })]`, `["# comment\ncolor:   'red'"]`, 1))
		b.PlanIsEmpty()
		b.use(config1)

		b.kubectl("patch", "configmap", "-n", name, name+"-paint", "--type=merge", "-p", `{"data":{"color":"by hand"}}`)
		broken := b.MustPlan().Change(t, rel)
		same(t, "drift", broken.Before["drift"], map[string]any{"ConfigMap/" + name + "/" + name + "-paint data.color": "by hand → red"})
		b.MustApply()
		state = b.Resource(rel)
		same(t, "repaired", row(b.color(name, name), state["revision"]), "red 1")
		same(t, "what the repair changed", state["changes"], map[string]any{"ConfigMap/" + name + "/" + name + "-paint data.color": "by hand → red"})
		b.PlanIsEmpty().NoWarnings(t)

		b.use(config("blue"))
		upgrade := b.MustPlan().Change(t, rel)
		same(t, "what the upgrade will change", upgrade.After["changes"], map[string]any{"ConfigMap/" + name + "/" + name + "-paint data.color": "red → blue"})
		b.MustApply().NoWarnings(t)
		state = b.Resource(rel)
		same(t, "upgraded", row(b.color(name, name), state["revision"]), "blue 2")
		b.PlanIsEmpty().NoWarnings(t)

		// What decides only over the state touches nothing else.
		b.use(strings.Replace(config("blue"), "keep_history = 3", "keep_history = 4\nwait = false", 1))
		b.proxy.Reset()
		b.MustApply("-refresh=false").NoWarnings(t)
		same(t, "requests of a change of knobs", len(b.proxy.Requests()), 0)
		b.use(config("blue"))
		b.MustApply()

		imported := b.beside(b.owner, tofutest.Options{Runner: runner})
		imported.use(config("blue"))
		imported.MustImport(rel, "shared/"+name+"/"+name)
		imported.PlanIsEmpty().NoWarnings(t)
		had, has := b.Resource(rel), imported.Resource(rel)
		had["changes"] = map[string]any{}
		same(t, "imported", has, had)

		b.MustDestroy().NoWarnings(t)
		same(t, "color", b.color(name, name), "none")
		b.namespaceIsGone(name)
	})
}

// A change of a local chart's content upgrades the release, although no argument changes.
func TestReleaseOfLocalChart(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name, chart := unique("local"), paintChart(t, "1.0.0")
	b.use(releaseBlock("this", name, name, byFolder(chart), "create_namespace = true"))
	b.MustApply()
	b.PlanIsEmpty()
	edit(t, chart, "templates/config.yaml", "color: {{ .Values.color }}", "color: dark-{{ .Values.color }}")
	planned := b.MustPlan().Change(t, rel)
	same(t, "changes", planned.After["changes"], map[string]any{"ConfigMap/" + name + "/" + name + "-paint data.color": "white → dark-white"})
	b.MustApply()
	same(t, "color", b.color(name, name), "dark-white")
	b.PlanIsEmpty()
	b.MustDestroy()
}

// What can never be is refused before anything is asked.
func TestReleaseValidators(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	refused := func(summary, detail string, body ...string) {
		t.Helper()
		text := strings.Join(body, "\n")
		if !strings.Contains(text, "chart =") {
			text += "\nchart = { path = \"./chart\" }"
		}
		if !strings.Contains(text, "\nname =") && !strings.HasPrefix(text, "name =") {
			text += "\nname = \"a\""
		}
		b.use("resource \"berth_release\" \"this\" {\nnamespace = \"a\"\n" + text + "\n}")
		b.Validate().Error(t, summary, detail)
	}
	refused("`name` is not valid", "longer than the 53 characters that Helm allows", `name = "`+strings.Repeat("a", 54)+`"`)
	refused("`name` is not valid", "is not a name that Helm takes", `name = "Shop"`)
	refused("it is not said where it is", "Set either chart.repository with chart.name and chart.version, or chart.path", "chart = {}")
	refused("it is said twice", "Set either chart.path, or chart.repository", `chart = { path = "./c", repository = "https://charts.example.com", name = "c", version = "1.0.0" }`)
	refused("its version is missing", "because somebody published something", `chart = { repository = "https://charts.example.com", name = "c" }`)
	refused("its version is a range", "stands for more than one version", `chart = { repository = "https://charts.example.com", name = "c", version = "^1.0" }`)
	refused("the URL of its repository is not usable", "neither https:// nor oci://", `chart = { repository = "ftp://charts.example.com", name = "c", version = "1.0.0" }`)
	refused("its name is not usable", "has a slash in it", `chart = { repository = "https://charts.example.com", name = "a/c", version = "1.0.0" }`)
	refused("its digest is malformed", "64 lower-case hexadecimal digits", `chart = { path = "./c", digest = "sha256:abc" }`)
	refused(`values\[0\].* is not valid`, `The document has no map at its top`, `values = ["- a"]`)
	refused(`values\[1\].* is not valid`, `The document is not YAML \(line 2`, `values = ["a: 1", "a: 1\nb: : secret"]`)
	refused("set_sensitive_wo", "is no path into the values", `set_sensitive_wo = { "a=b" = "x" }`, "set_sensitive_wo_version = 1")
	refused("Invalid Attribute Combination", "set_sensitive_wo_version", `set_sensitive_wo = { "a.b" = "x" }`)
	refused("is not valid", `"spec/replicas" is not a JSON pointer`, `ignore_drift = [{ target = { kind = "Deployment" }, paths = ["spec/replicas"] }]`)
	refused("names no object", "Set at least one of them", `ignore_drift = [{ target = {} }]`)
	refused("Invalid Attribute Value", "keep_history value must be at least 1", "keep_history = 0")
	refused("Invalid Attribute Value", "crds value must be one of", `crds = "delete"`)
	refused("Invalid Attribute Value", "extra_fields value must be one of", `extra_fields = "keep"`)
	same(t, "requests", len(b.proxy.Requests()), 0)
}

// What is ignored stays; what is no longer ignored, and what is not to be added any more, is put right by the same apply,
// and the plan names it.
func TestReleaseWatching(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name, chart := unique("watch"), paintChart(t, "1.0.0")
	paint := "ConfigMap/" + name + "/" + name + "-paint"
	config := func(body ...string) string {
		return releaseBlock("this", name, name, append(body, byFolder(chart), "create_namespace = true")...)
	}
	b.use(config(`ignore_drift = [{ target = { kind = "ConfigMap" }, paths = ["/data/color"] }]`))
	b.MustApply()
	b.kubectl("patch", "configmap", "-n", name, name+"-paint", "--type=merge", "-p", `{"data":{"color":"by hand"}}`)
	b.PlanIsEmpty().NoWarnings(t)

	b.use(config())
	plan := b.MustPlan()
	plan.Warning(t, `^More of berth_release "`+name+`/`+name+`" on cluster "shared" will be put right$`, paint+` data.color: by hand → white`)
	same(t, "what will be repaired", plan.Change(t, rel).AfterUnknown["changes"], true)
	b.MustApply()
	same(t, "repaired", row(b.color(name, name), b.Resource(rel)["revision"], b.Resource(rel)["changes"]), row("white", 1, map[string]any{paint + " data.color": "by hand → white"}))
	b.PlanIsEmpty().NoWarnings(t)

	b.kubectl("patch", "configmap", "-n", name, name+"-paint", "--type=merge", "-p", `{"data":{"added":"by hand"}}`)
	b.PlanIsEmpty().Warning(t, "A field that the chart of release "+name+"/"+name+" does not set", "It is left as it is")
	b.use(config(`extra_fields = "ignore"`))
	b.MustApply() // whose refresh still warns, by the state's argument
	b.PlanIsEmpty().NoWarnings(t)
	same(t, "what was added", b.configMap(name, name+"-paint").Data["added"], "by hand")
	b.use(config(`extra_fields = "remove"`))
	b.MustPlan().Warning(t, "will be put right", "data.added")
	b.MustApply()
	if _, there := b.configMap(name, name+"-paint").Data["added"]; there {
		t.Error("what was added is still there")
	}
	b.PlanIsEmpty().NoWarnings(t)
	b.MustDestroy()
}

// Another name is another release: the old one goes, and the plan says what of it stays.
func TestReleaseReplaced(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	name, chart := unique("renamed"), paintChart(t, "1.0.0")
	b.use(releaseBlock("this", name, name, byFolder(chart), "create_namespace = true"))
	b.MustApply()
	b.use(releaseBlock("this", name, name+"-b", byFolder(chart), "create_namespace = true"))
	if planned := b.MustPlan().Change(t, rel); !planned.Is("delete", "create") {
		t.Fatalf("%v", planned)
	}
	b.MustApply()
	same(t, "colors", row(b.color(name, name), b.color(name, name+"-b")), "none white")
	same(t, "id", b.Resource(rel)["id"], "shared/"+name+"/"+name+"-b")
	b.PlanIsEmpty()
	b.MustDestroy()
}

// An import ID has three parts.
func TestReleaseImportID(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	b.use(releaseBlock("this", "a", "b", "chart = { path = \"./chart\" }"))
	b.Import(rel, "shared/b").Error(t, `^"shared/b" is not an import ID of berth_release$`, `the cluster's key, the namespace and the name with slashes between them, such as "shared/my-namespace/my-name"`)
	b.Import(rel, "elsewhere/a/b").Error(t, `No cluster "elsewhere"`)
	b.Import(rel, "shared/default/nothing").Error(t, "non-existent|Cannot import")
}
