package provider_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// rhythm is a release of a chart, and what of it is changed by hand.
type rhythm struct {
	// name is that of the release and of its namespace.
	name, folder string
	body         []string
	// deployment has the container of the image; no autoscaler targets it, and scaled are its replicas, as drift shows them.
	deployment, container, image, scaled string
	// config is a ConfigMap, and key one of its keys.
	config, key string
	// gone is a ConfigMap that can go beside that; "" where the chart has just the one, which then goes in a round of its own.
	gone string
	// secret is a Secret, and password one of its keys; "" where the chart leaves filling it to what it installs.
	secret, password string
	role, service    string
}

func standinRhythm(t *testing.T, name string) rhythm {
	t.Helper()
	return rhythm{
		name: name, folder: charts.Standin(t, charts.Options{}),
		deployment: name + "-web", container: "web", image: "registry.example.com/standin/app:2.0.0", scaled: "4 → 2",
		config: name + "-config", key: "log-level", gone: name + "-extra", secret: name + "-password", password: "password",
		role: name, service: name + "-web",
	}
}

// realRhythms are those of the real charts, each under the name that its project gives the release.
func realRhythms(t *testing.T) (kueue, jobset, knative rhythm) {
	t.Helper()
	kueue = rhythm{
		name: "kueue", folder: charts.Module(t, "kueue"),
		// Its aggregated API is served by its pods, which are simulated: it never becomes available.
		body:       []string{"wait = false"},
		deployment: "kueue-controller-manager", container: "manager", image: "us-central1-docker.pkg.dev/k8s-staging-images/kueue/kueue:release-0.17", scaled: "4 → 1",
		config: "kueue-manager-config", key: "controller_manager_config.yaml", secret: "kueue-webhook-server-cert",
		role: "kueue-leader-election-role", service: "kueue-webhook-service",
	}
	jobset = rhythm{
		name: "jobset", folder: charts.Module(t, "jobset"),
		deployment: "jobset-controller", container: "controller", image: "us-central1-docker.pkg.dev/k8s-staging-images/jobset/jobset:main", scaled: "4 → 1",
		config: "jobset-controller-config", key: "controller_manager_config.yaml", secret: "jobset-webhook-server-cert",
		role: "jobset-controller", service: "jobset-webhook-service",
	}
	knative = rhythm{
		name: "knative-operator", folder: charts.Module(t, "knative-operator"),
		deployment: "knative-operator", container: "knative-operator", image: "gcr.io/knative-releases/knative.dev/operator/cmd/operator:v1.15.2", scaled: "4 → 1",
		config: "config-logging", key: "_example", gone: "config-observability", secret: "operator-webhook-certs",
		role: "knative-operator-webhook", service: "operator-webhook",
	}
	return kueue, jobset, knative
}

// block is the resource, with further arguments.
func (r rhythm) block(label string, more ...string) string {
	return releaseBlock(label, r.name, r.name, append([]string{byFolder(r.folder), "create_namespace = true"}, append(slices.Clone(r.body), more...)...)...)
}

func (r rhythm) of(kind, name string) string { return kind + "/" + r.name + "/" + name }

// broken is what the changes by hand come to: drift as the state shows it, the fields that somebody added with who did and
// as what, and the writes that put right what drifted and take away what was added.
type broken struct {
	drift          map[string]any
	extra          []string
	repairs, takes []string
}

// breaks does the nine changes by hand, as people do them.
func (r rhythm) breaks(b *bench) broken {
	b.t.Helper()
	do := func(args ...string) { b.t.Helper(); b.kubectl(append([]string{"-n", r.name}, args...)...) }
	was := b.configMap(r.name, r.config).Data[r.key]
	if runes := []rune(was); len(runes) > 200 {
		was = string(runes[:200]) + "…"
	}
	field := "data." + r.key
	if strings.Contains(r.key, ".") {
		field = "data.[" + r.key + "]"
	}
	do("scale", "deployment", r.deployment, "--replicas=4")
	do("set", "image", "deployment/"+r.deployment, r.container+"=registry.example.com/by/hand:1")
	do("set", "env", "deployment/"+r.deployment, "-c", r.container, "BY_HAND=1")
	do("patch", "configmap", r.config, "--type=merge", "-p", fmt.Sprintf(`{"data":{%q:"changed by hand","by-hand":"added"}}`, r.key))
	do("delete", "role", r.role)
	do("label", "service", r.service, "by-hand=yes")
	container := "spec.template.spec.containers[name=" + r.container + "]"
	done := broken{
		drift: map[string]any{
			r.of("Deployment", r.deployment) + " spec.replicas":           r.scaled,
			r.of("Deployment", r.deployment) + " " + container + ".image": "registry.example.com/by/hand:1 → " + r.image,
			r.of("ConfigMap", r.config) + " " + field:                     "changed by hand → " + was,
			r.of("Role", r.role): "missing → present",
		},
		extra: []string{
			r.of("ConfigMap", r.config) + " data.by-hand (by kubectl-patch): added",
			r.of("Deployment", r.deployment) + " " + container + ".env[name=BY_HAND] (by kubectl-set): `{\"name\":\"BY_HAND\",\"value\":\"1\"}`",
			r.of("Service", r.service) + " metadata.labels.by-hand (by kubectl-label): yes",
		},
		repairs: []string{
			"create roles.rbac.authorization.k8s.io", "patch configmaps " + r.config, "patch deployments.apps " + r.deployment,
		},
		takes: []string{
			"patch configmaps " + r.config, "patch deployments.apps " + r.deployment, "patch services " + r.service,
			// The arguments are kept with Helm's record, for an import.
			"patch secrets sh.helm.release.v1." + r.name + ".v1",
		},
	}
	const canary = `{"stringData":{%q:"canary-by-hand"}}`
	if r.password != "" {
		do("patch", "secret", r.secret, "--type=merge", "-p", fmt.Sprintf(canary, r.password))
		done.drift[r.of("Secret", r.secret)+" data."+r.password] = "(sensitive value) → (sensitive value)"
		done.repairs = append(done.repairs, "patch secrets "+r.secret)
	} else {
		do("patch", "secret", r.secret, "--type=merge", "-p", fmt.Sprintf(canary, "by-hand"))
		done.extra = append(done.extra, r.of("Secret", r.secret)+" data.by-hand (by kubectl-patch): (sensitive value)")
		done.takes = append(done.takes, "patch secrets "+r.secret)
	}
	if r.gone != "" {
		do("delete", "configmap", r.gone)
		done.drift[r.of("ConfigMap", r.gone)] = "missing → present"
		done.repairs = append(done.repairs, "create configmaps")
	}
	slices.Sort(done.extra)
	slices.Sort(done.repairs)
	slices.Sort(done.takes)
	return done
}

// lives is a release from its plan to its destroy: what is planned is done and nothing more, what is changed by hand is
// shown and nothing else, and put right in place (promises 1, 3, 6, 9 and 10).
func (r rhythm) lives(b *bench, runner string) {
	b.t.Helper()
	t := b.t
	b.use(r.block("this"))
	planned := b.MustPlan()
	planned.NoWarnings(t)
	if change := planned.Change(t, rel); !change.Is("create") || b.proxy.Writes() != 0 {
		t.Fatalf("%d writes by the plan:\n%s", b.proxy.Writes(), planned.Describe())
	}
	b.MustApply().NoWarnings(t)
	same(t, "outputs", row(b.Resource(rel)["revision"], b.Resource(rel)["status"], b.Resource(rel)["drift"]), "1 deployed map[]")
	same(t, "objects as planned", b.Resource(rel)["objects"], planned.Change(t, rel).After["objects"])
	b.PlanIsEmpty().NoWarnings(t)
	theirs := b.foreignBeside(r.name)
	installed := r.content(b)

	done := r.breaks(b)
	plan := r.plansJust(b, done.drift)
	r.warns(b, plan, done.extra)
	b.proxy.Reset()
	r.warns(b, b.MustApply(), done.extra)
	same(t, "writes of the repair", writesOf(b.proxy), done.repairs)
	same(t, "after the repair", row(b.Resource(rel)["revision"], b.Resource(rel)["drift"], b.Resource(rel)["changes"]), row(1, map[string]any{}, done.drift))
	r.warns(b, b.PlanIsEmpty(), done.extra)
	if left := different(installed, r.content(b)); len(left) != len(done.takes)-1 {
		t.Errorf("beside the additions something differs from what was installed:\n%s", strings.Join(left, "\n"))
	}

	imported := b.beside(b.owner, tofutest.Options{Runner: runner})
	imported.use(r.block("this"))
	imported.MustImport(rel, "shared/"+r.name+"/"+r.name)
	r.warns(imported, imported.PlanIsEmpty(), done.extra)

	b.use(r.block("this", `extra_fields = "remove"`))
	plan = b.MustPlan()
	patterns := make([]string, len(done.extra))
	for i, line := range done.extra {
		object, _, _ := strings.Cut(line, " (by ")
		patterns[i] = regexp.QuoteMeta(object) + ": .* → \\(none\\)"
	}
	plan.Warning(t, `^More of berth_release "`+r.name+"/"+r.name+`" on cluster "shared" will be put right$`, patterns...)
	b.proxy.Reset()
	b.MustApply()
	same(t, "writes that take away", writesOf(b.proxy), done.takes)
	same(t, "revision", b.Resource(rel)["revision"], 1)
	b.PlanIsEmpty().NoWarnings(t)
	if left := different(installed, r.content(b)); len(left) > 0 {
		t.Errorf("it is not what was installed:\n%s", strings.Join(left, "\n"))
	}
	if r.gone == "" {
		b.kubectl("-n", r.name, "delete", "configmap", r.config)
		r.plansJust(b, map[string]any{r.of("ConfigMap", r.config): "missing → present"})
		b.MustApply()
		b.PlanIsEmpty().NoWarnings(t)
	}

	r.dies(b, theirs)
}

// dies destroys the release: its objects go, and what is not its own stays, with the namespace.
func (r rhythm) dies(b *bench, theirs string) {
	b.t.Helper()
	objects := r.objects(b)
	b.MustDestroy().Warning(b.t, `^Namespace "`+r.name+`" of release `+r.name+"/"+r.name+` stays on cluster "shared"$`, "ConfigMap/.*theirs")
	if left := b.get(r.name, objects); len(left) > 0 {
		b.t.Errorf("destroy left %v", slices.Sorted(maps.Keys(left)))
	}
	same(b.t, "what is theirs", string(b.configMap(r.name, "theirs").UID), theirs)
	if left := b.cluster.Kubectl(b.t, "-n", r.name, "get", "secrets", "-l", "owner=helm", "-o", "name"); left != "" {
		b.t.Errorf("destroy left the records %s", left)
	}
}

// plansJust plans an update that shows this drift, and turns to nothing but what an apply finds out.
func (r rhythm) plansJust(b *bench, drift map[string]any) *tofutest.Result {
	b.t.Helper()
	plan := b.MustPlan()
	change := plan.Change(b.t, rel)
	if !change.Is("update") || len(plan.Changes) != 1 {
		b.t.Fatalf("drift:\n%s", plan.Describe())
	}
	same(b.t, "drift", pretty(change.Before["drift"]), pretty(drift))
	same(b.t, "planned drift", change.After["drift"], map[string]any{})
	for name, before := range change.Before {
		_, unknown := change.AfterUnknown[name]
		moves := slices.Contains([]string{"drift", "changes", "revision", "status", "conditions"}, name)
		if after := change.After[name]; !moves && (unknown && change.AfterUnknown[name] == true || fmt.Sprint(before) != fmt.Sprint(after)) {
			b.t.Errorf("the plan changes %q, too:\n%s", name, plan.Describe())
		}
	}
	return plan
}

// warns fails the test unless these are the fields warned of, each in a warning of its own.
func (r rhythm) warns(b *bench, result *tofutest.Result, extra []string) {
	b.t.Helper()
	var found []string
	for _, warning := range result.Warnings() {
		line, _ := strings.CutPrefix(warning.Summary, "A field that the chart of release "+r.name+"/"+r.name+" does not set: ")
		found = append(found, line)
		if !strings.HasPrefix(warning.Detail, "Somebody else set it on shared. It is left as it is. Set extra_fields = \"remove\" to have it taken away") {
			b.t.Errorf("%s: %s", line, warning.Detail)
		}
	}
	slices.Sort(found)
	if found = slices.Compact(found); !slices.Equal(found, extra) {
		b.t.Errorf("%s warned of\n%s\nwant\n%s", result.Command, strings.Join(found, "\n"), strings.Join(extra, "\n"))
	}
}

// objects are the keys of what the release made.
func (r rhythm) objects(b *bench) []string {
	b.t.Helper()
	all, _ := b.Resource(rel)["objects"].(map[string]any)
	return slices.Sorted(maps.Keys(all))
}

// content is what the release made, as JSON without what only the server sets, by Kind/name.
func (r rhythm) content(b *bench) map[string]string {
	b.t.Helper()
	return b.get(r.name, r.objects(b))
}

// get reads objects by their keys, without what only the server or an autoscaler sets.
func (b *bench) get(namespace string, keys []string) map[string]string {
	b.t.Helper()
	args := []string{"-n", namespace, "get", "--ignore-not-found", "-o", "json"}
	for _, key := range keys {
		parts := strings.Split(key, "/")
		args = append(args, parts[0]+"/"+parts[len(parts)-1])
	}
	var list struct{ Items []map[string]any }
	if text := b.cluster.Kubectl(b.t, args...); text != "" {
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			b.t.Fatal(err)
		}
	}
	all := map[string]string{}
	for _, one := range list.Items {
		metadata := one["metadata"].(map[string]any)
		for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
			delete(metadata, field)
		}
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			delete(annotations, "deployment.kubernetes.io/revision")
		}
		delete(one, "status")
		name := fmt.Sprintf("%v/%v", one["kind"], metadata["name"])
		if spec, ok := one["spec"].(map[string]any); ok && strings.HasPrefix(name, "Deployment/") && strings.HasSuffix(name, "-worker") {
			delete(spec, "replicas")
		}
		text, err := json.Marshal(one)
		if err != nil {
			b.t.Fatal(err)
		}
		all[name] = string(text)
	}
	return all
}

// different are the objects that are not the same in both.
func different(before, after map[string]string) []string {
	var lines []string
	for name, text := range before {
		if after[name] != text {
			lines = append(lines, fmt.Sprintf("%s was %s\nand is %s", name, text, after[name]))
		}
	}
	slices.Sort(lines)
	return lines
}

// foreignBeside puts a ConfigMap that is nobody's beside a release, and returns its UID.
func (b *bench) foreignBeside(namespace string) string {
	b.t.Helper()
	b.kubectl("-n", namespace, "create", "configmap", "theirs")
	return string(b.configMap(namespace, "theirs").UID)
}

// writesOf are the writes that went through a proxy, sorted: "<verb> <resource> <name>".
func writesOf(proxy *fleettest.Proxy) []string {
	var lines []string
	for _, request := range proxy.Requests() {
		if request.Write > 0 {
			lines = append(lines, strings.TrimSpace(request.Key()+" "+request.Name))
		}
	}
	slices.Sort(lines)
	return lines
}

// pretty is a map on lines of their own, for messages.
func pretty(value any) string {
	text, _ := json.MarshalIndent(value, "", "  ")
	return string(text)
}

// The rhythm of the stand-in chart: 30 objects of 24 kinds, hooks, a CRD and objects of it.
func TestReleaseRhythmOfStandin(t *testing.T) {
	t.Parallel()
	c := fleettest.NewCluster(t, charts.Cluster("shared"))
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		r := standinRhythm(t, "on-"+runner)
		b := newBenchOn(t, c, unique("team"), tofutest.Options{Runner: runner})
		r.lives(b, runner)
	})
}
