package provider_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// ferryChart writes a chart with hooks whose two versions differ in every way: an object changes, one comes and one goes, a
// field comes and one goes. With the value class, a claim of that StorageClass has to be bound before the release is ready.
func ferryChart(t *testing.T) (one, two string) {
	t.Helper()
	hook := func(name, event string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-" + name + "\n  annotations:\n    helm.sh/hook: " + event + "\n    helm.sh/hook-delete-policy: hook-succeeded\n"
	}
	first := map[string]string{
		"values.yaml":        "class: \"\"\n",
		"templates/old.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-old}\n",
		"templates/all.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-all}\ndata: {stays: one, goes: one}\n",
	}
	second := map[string]string{
		"values.yaml":        "class: \"\"\n",
		"templates/new.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: {{ .Release.Name }}-new}\n",
		"templates/all.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-all}\ndata: {stays: two, comes: two}\n",
	}
	for name, content := range map[string]string{
		"templates/hooks.yaml": hook("pre", "pre-install,pre-upgrade") + "---\n" + hook("post", "post-install,post-upgrade") + "---\n" +
			hook("down", "pre-delete"),
		"templates/secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: {{ .Release.Name }}-pass}\nstringData: {version: {{ .Chart.Version }}}\n",
		"templates/claim.yaml": "{{- with .Values.class }}\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: {{ $.Release.Name }}-claim}\n" +
			"spec: {storageClassName: {{ . }}, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n{{- end }}\n",
	} {
		first[name], second[name] = content, content
	}
	return charts.Folder(t, "ferry", "1.0.0", first), charts.Folder(t, "ferry", "2.0.0", second)
}

// aboard lists what a release has in its namespace; it fails the test where one of Helm's records is of a revision that did
// not come to its end, or more than one says that it is the current.
func (b *bench) aboard(namespace string) string {
	b.t.Helper()
	var names []string
	for line := range strings.FieldsSeq(b.cluster.Kubectl(b.t, "-n", namespace, "get", "configmaps,serviceaccounts,persistentvolumeclaims", "-o", "name")) {
		if !strings.HasSuffix(line, "/kube-root-ca.crt") && !strings.HasSuffix(line, "/default") {
			names = append(names, line[strings.LastIndex(line, "-")+1:])
		}
	}
	secrets, err := b.cluster.Client().CoreV1().Secrets(namespace).List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	deployed := 0
	for _, secret := range secrets.Items {
		status, record := secret.Labels["status"]
		switch {
		case !record:
			names = append(names, secret.Name[strings.LastIndex(secret.Name, "-")+1:])
		case status == "deployed":
			deployed++
		case status != "superseded" && status != "failed":
			b.t.Errorf("%s is %s", secret.Name, status)
		}
	}
	if deployed > 1 {
		b.t.Errorf("%d revisions are deployed", deployed)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// whenKilled is where in its writes an apply is killed: a boundary of a write, which is told from the undisturbed writes.
type whenKilled struct {
	name     string
	boundary fleettest.Boundary
	write    func(writes []fleettest.Request) int
}

var whensKilled = []whenKilled{
	{"at the first write", fleettest.BeforeWrite, func([]fleettest.Request) int { return 1 }},
	{"after the first write", fleettest.AfterWrite, func([]fleettest.Request) int { return 1 }},
	// A create, or of an uninstall an update, of what Helm keeps of the release.
	{"after its record was written", fleettest.AfterWrite, func(writes []fleettest.Request) int {
		return 1 + slices.IndexFunc(writes, func(r fleettest.Request) bool { return r.Resource == "secrets" })
	}},
	{"in the middle of the objects", fleettest.AfterWrite, func(writes []fleettest.Request) int { return (len(writes) + 1) / 2 }},
	{"at the last write", fleettest.BeforeWrite, func(writes []fleettest.Request) int { return len(writes) }},
	{"after the last write", fleettest.AfterWrite, func(writes []fleettest.Request) int { return len(writes) }},
}

// What is on the cluster of each version of the ferry.
const (
	ofFerryOne = "all old pass"
	ofFerryTwo = "all new pass"
)

// Killed at a write of an install, an upgrade or a destroy, a release converges in the next run of tofu: no taint, no
// revision that is stuck, nothing of either version missing or orphaned, nothing left to plan (X11, promise 5). Every
// boundary, and moments between them, are tested below the provider.
func TestReleaseKilledAtWrites(t *testing.T) {
	t.Parallel()
	one, two := ferryChart(t)
	config := func(name, chart string) string {
		return releaseBlock("this", name, name, byFolder(chart), "create_namespace = true")
	}
	undisturbed := func(b *bench, run func(...string) *tofutest.Result) []fleettest.Request {
		b.proxy.Reset()
		run()
		return slices.DeleteFunc(b.proxy.Requests(), func(r fleettest.Request) bool { return r.Write == 0 })
	}
	b, name := newBench(t, tofutest.Options{}), unique("ferry")
	b.use(config(name, one))
	install := undisturbed(b, b.MustApply)
	b.use(config(name, two))
	upgrade := undisturbed(b, b.MustApply)
	destroy := undisturbed(b, b.MustDestroy)
	if len(install) < 8 || len(upgrade) < 8 || len(destroy) < 8 {
		t.Errorf("there are records, hooks and objects to write, and there were %d, %d and %d writes", len(install), len(upgrade), len(destroy))
	}

	for _, when := range whensKilled {
		t.Run(when.name, func(t *testing.T) {
			t.Parallel()
			b, name := newBench(t, tofutest.Options{}), unique("ferry")
			kill := func(writes []fleettest.Request, start func(...string) *tofutest.Running) {
				t.Helper()
				if n := when.write(writes); !b.killedAt(n, when.boundary, start) {
					t.Fatalf("it ended before write %d", n)
				}
				b.NoTaint()
			}
			saved := func(what, objects string) {
				t.Helper()
				b.MustApply()
				b.PlanIsEmpty().NoWarnings(t)
				same(t, what, row(b.aboard(name), b.Resource(rel)["status"], b.Resource(rel)["drift"]), row(objects, "deployed", map[string]any{}))
			}
			b.use(config(name, one))
			kill(install, b.ApplyAsync)
			same(t, "instances in the state", len(b.Instances()), 0)
			saved("installed", ofFerryOne)

			b.use(config(name, two))
			kill(upgrade, b.ApplyAsync)
			saved("upgraded", ofFerryTwo)
			same(t, "fields", fmt.Sprint(b.configMap(name, name+"-all").Data), fmt.Sprint(map[string]string{"comes": "two", "stays": "two"}))

			// What the kills have left of its history goes, too: two revisions without them.
			more := strings.Count(b.cluster.Kubectl(t, "-n", name, "get", "secrets", "-l", "owner=helm", "-o", "name"), "\n") - 2
			kill(append(slices.Clone(destroy), make([]fleettest.Request, more)...), b.DestroyAsync)
			b.MustDestroy()
			b.namespaceIsGone(name)
		})
	}
}

// The same while it waits: for a claim that is not bound, and for an object that a finalizer holds.
func TestReleaseKilledWaiting(t *testing.T) {
	t.Parallel()
	b, name := newBench(t, tofutest.Options{}), unique("ferry")
	one, two := ferryChart(t)
	config := func(chart, class string) string {
		return releaseBlock("this", name, name, byFolder(chart), "create_namespace = true", fmt.Sprintf("values = [%q]", "class: "+class))
	}
	killWhen := func(run *tofutest.Running, request string) {
		t.Helper()
		b.untilAsked(run, request)
		if _, err := run.KillProvider(); err != nil {
			t.Fatal(err)
		}
		if result := run.Wait(); result.ExitCode == 0 {
			t.Fatalf("it succeeded although the provider was killed:\n%s", result.Log)
		}
		b.NoTaint()
	}
	first, second := name+"-one", name+"-two"

	b.use(config(one, first))
	b.proxy.Reset()
	killWhen(b.ApplyAsync(), "create persistentvolumeclaims")
	same(t, "instances in the state", len(b.Instances()), 0)
	b.volume(first)
	b.MustApply()
	b.PlanIsEmpty().NoWarnings(t)
	same(t, "installed", b.aboard(name), "all claim old pass")

	// A claim can't change its class, so it goes first.
	b.use(config(one, `""`))
	b.MustApply()
	b.use(config(two, second))
	b.proxy.Reset()
	killWhen(b.ApplyAsync(), "create persistentvolumeclaims")
	b.volume(second)
	b.MustApply()
	b.PlanIsEmpty().NoWarnings(t)
	same(t, "upgraded", b.aboard(name), "all claim new pass")

	hold := func(finalizers string) {
		t.Helper()
		b.kubectl("-n", name, "patch", "configmap", name+"-all", "--type=merge", "-p", `{"metadata":{"finalizers":`+finalizers+`}}`)
	}
	hold(`["example.com/hold"]`)
	b.proxy.Reset()
	killWhen(b.DestroyAsync(), "delete configmaps")
	same(t, "instances in the state", len(b.Instances()), 1)
	hold("null")
	b.MustDestroy()
	b.namespaceIsGone(name)
}

// untilAsked waits until a running command has had an answer to a request, and has asked for something after it.
func (b *bench) untilAsked(run *tofutest.Running, request string) {
	b.t.Helper()
	fleettest.Eventually(b.t, func(context.Context) error {
		select {
		case <-run.Done():
			b.t.Fatalf("it ended:\n%s", run.Wait().Log)
		default:
		}
		all := b.proxy.Requests()
		at := slices.IndexFunc(all, func(r fleettest.Request) bool { return r.Key() == request && r.Status != 0 })
		if at < 0 || at == len(all)-1 {
			return errors.New("it has not yet: " + request)
		}
		return nil
	})
}

// volume makes a volume to which a claim of the class is bound. It goes with the test.
func (b *bench) volume(class string) {
	b.t.Helper()
	b.cluster.KubectlInput(b.t, fmt.Sprintf(`{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":%q},"spec":{"storageClassName":%q,
"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"hostPath":{"path":"/nowhere"}}}`, class, class), "create", "-f", "-")
	b.t.Cleanup(func() { b.kubectl("delete", "persistentvolume", class, "--ignore-not-found", "--wait=false") })
}

// Killed when everything is gone but the namespace that was made for the release, a destroy leaves it to the next one: the
// release is in the state as long as something of it is on the cluster (promises 5 and 10).
func TestReleaseKilledBeforeItsNamespaceGoes(t *testing.T) {
	t.Parallel()
	b, name := newBench(t, tofutest.Options{}), unique("ferry")
	one, _ := ferryChart(t)
	b.use(releaseBlock("this", name, name, byFolder(one), "create_namespace = true"))
	b.MustApply()
	running, killed := make(chan *tofutest.Running, 1), make(chan error, 1)
	last := func(request fleettest.Request) bool { return request.Key() == "delete namespaces" }
	restore := b.proxy.Fail(last, fleettest.Cut)
	b.proxy.OnWrite(func(_ int, request fleettest.Request) {
		select {
		case run := <-running:
			if last(request) {
				_, err := run.KillProvider()
				killed <- err
				return
			}
			running <- run
		default: // killed already
		}
	}, nil)
	run := b.DestroyAsync()
	running <- run
	result := run.Wait()
	if result.ExitCode == 0 {
		t.Fatalf("it was not killed at the namespace:\n%s", result.Log)
	}
	if err := <-killed; err != nil {
		t.Fatal(err)
	}
	b.proxy.OnWrite(nil, nil)
	restore()
	same(t, "instances in the state", len(b.Instances()), 1)
	b.MustDestroy()
	b.namespaceIsGone(name)
}
