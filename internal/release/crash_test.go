package release

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// task is what a child process does to a release, so that it can be killed.
type task struct {
	Do         string // apply or remove
	Kubeconfig string
	Cluster    string
	Folder     string
	Spec       Spec
	Terms      kube.Terms
}

const childVariable = "BERTH_RELEASE_TEST_TASK"

// work is the child process.
func (w task) work() error {
	fleet := cluster.NewFleet(cluster.Settings{Owner: "test", Entries: map[string]cluster.Entry{w.Cluster: {Kubeconfig: w.Kubeconfig}}})
	c, err := fleet.Cluster(w.Cluster)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ctx, _ = cluster.WithRecord(ctx)
	if w.Do == "remove" {
		_, err := Remove(ctx, c, w.Spec.Ref, Removal{Terms: w.Terms})
		return err
	}
	if w.Spec.Chart.Chart, err = loader.Load(w.Folder); err != nil {
		return err
	}
	_, _, err = Apply(ctx, c, w.Spec, w.Terms)
	return err
}

// child is what the test binary does when it is started as one; false when it was not.
func child() bool {
	text := os.Getenv(childVariable)
	if text == "" {
		return false
	}
	var w task
	err := json.Unmarshal([]byte(text), &w)
	if err == nil {
		err = w.work()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	return true
}

// start starts a child process.
func (b *bench) start(do, folder string) (*exec.Cmd, *strings.Builder) {
	b.t.Helper()
	spec := b.spec
	spec.Chart.Chart = nil
	text, err := json.Marshal(task{Do: do, Kubeconfig: b.proxy.AdminKubeconfig().Content(), Cluster: b.plane.Name(), Folder: folder, Spec: spec, Terms: b.terms})
	if err != nil {
		b.t.Fatal(err)
	}
	process := exec.CommandContext(b.t.Context(), os.Args[0])
	process.Env = append(os.Environ(), childVariable+"="+string(text))
	var output strings.Builder
	process.Stderr = &output
	if err := process.Start(); err != nil {
		b.t.Fatal(err)
	}
	return process, &output
}

// killedAt runs a child and kills it at one side of its n-th write; false when it had fewer writes, and came to its end.
func (b *bench) killedAt(n int, boundary fleettest.Boundary, do, folder string) bool {
	b.t.Helper()
	started := make(chan *exec.Cmd, 1)
	fired := b.proxy.KillAt(n, boundary, func() { _ = (<-started).Process.Kill() })
	process, output := b.start(do, folder)
	started <- process
	err := process.Wait()
	b.proxy.OnWrite(nil, nil)
	if fired() == (err == nil) || process.ProcessState.ExitCode() == 3 {
		b.t.Fatalf("%s, killed at write %d (%s): %v, %v\n%s", do, n, boundary, fired(), err, output)
	}
	return fired()
}

// crashing is a chart whose two versions differ in every way: an object changes, one comes, one goes, a field comes and one
// goes; with hooks, a CRD and an object of it.
func crashing(t *testing.T, group string) (one, two string) {
	t.Helper()
	hook := func(name, event string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-" + name + "\n  annotations:\n    helm.sh/hook: " + event + "\n    helm.sh/hook-delete-policy: hook-succeeded\n"
	}
	crd := strings.ReplaceAll(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Boat, listKind: BoatList, plural: boats, singular: boat}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, "GROUP", group)
	common := map[string]string{
		"crds/boats.yaml":     crd,
		"templates/boat.yaml": "apiVersion: " + group + "/v1\nkind: Boat\nmetadata: {name: {{ .Release.Name }}-boat}\nspec: {length: {{ .Values.length }}}\n",
		"templates/hooks.yaml": hook("pre", "pre-install,pre-upgrade") + "---\n" + hook("post", "post-install,post-upgrade") + "---\n" +
			hook("down", "pre-delete"),
		"templates/secret.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: {{ .Release.Name }}-secret}\nstringData: {password: \"{{ .Values.length }}\"}\n",
	}
	first := map[string]string{
		"values.yaml":         "length: 1\n",
		"templates/a.yaml":    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-a}\ndata: {stays: one, goes: one}\n",
		"templates/gone.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-gone}\ndata: {a: b}\n",
	}
	second := map[string]string{
		"values.yaml":         "length: 2\n",
		"templates/a.yaml":    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-a}\ndata: {stays: two, comes: two}\n",
		"templates/come.yaml": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: {{ .Release.Name }}-come}\n",
	}
	for name, content := range common {
		first[name], second[name] = content, content
	}
	return charts.Folder(t, "crashing", "1.0.0", first), charts.Folder(t, "crashing", "2.0.0", second)
}

// everything lists what a release has in its namespace, the records of Helm with their status included.
func (b *bench) everything() string {
	b.t.Helper()
	lines := strings.Fields(b.kubectl("get", "configmaps,serviceaccounts,boats", "-o", "name"))
	secrets, err := b.plane.Client().CoreV1().Secrets(b.spec.Namespace).List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	deployed := 0
	for _, secret := range secrets.Items {
		status, record := secret.Labels["status"]
		switch {
		case !record:
			lines = append(lines, "secret/"+secret.Name)
		case status == "deployed":
			deployed++
		case strings.HasPrefix(status, "pending") || status == "uninstalling":
			b.t.Errorf("revision %s is left %s", secret.Name, status)
		}
		if secret.Annotations[annotationActor] != "" {
			b.t.Errorf("revision %s says that somebody works on it", secret.Name)
		}
	}
	if deployed > 1 {
		b.t.Errorf("%d revisions are deployed", deployed)
	}
	var ours []string
	for _, line := range lines {
		if !strings.HasSuffix(line, "/kube-root-ca.crt") && !strings.HasSuffix(line, "/default") {
			ours = append(ours, line[strings.LastIndex(line, "-")+1:])
		}
	}
	return strings.Join(ours, " ")
}

// rescued checks that a release is what its chart says, after a killed run and one more.
func (b *bench) rescued(what, objects string) {
	b.t.Helper()
	b.apply()
	seen := b.noDrift(what)
	if seen.Status != "deployed" || seen.ChartVersion != b.spec.Chart.Metadata.Version {
		b.t.Errorf("%s: %s, chart %s", what, seen.Status, seen.ChartVersion)
	}
	if outlook := b.plan(); outlook.Verdict != Repair || len(outlook.Changes) > 0 {
		b.t.Errorf("%s: the next plan is %+v", what, outlook)
	}
	if found := b.everything(); found != objects {
		b.t.Errorf("%s: there is %s, want %s", what, found, objects)
	}
	if b.t.Failed() {
		b.t.FailNow()
	}
}

const (
	ofOne = "a gone boat secret"
	ofTwo = "a come boat secret"
)

// Killed at any write of an install, an upgrade or an uninstall, a release converges in the next run: no revision is stuck,
// no object of either version is missing or orphaned, no field of a half-done upgrade is left (X11, promise 5).
func TestKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	one, two := crashing(t, "every.example.com")
	b := newBenchOn(t, crashPlane(t), "every", one)
	b.spec.CreateNamespace = false
	b.plane.Kubectl(t, "create", "namespace", "every")
	n, boundary := 1, fleettest.BeforeWrite
	for {
		killed := 0
		run := func(do, folder string) {
			t.Helper()
			if b.killedAt(n, boundary, do, folder) {
				killed++
			}
		}
		at := func(what string) string { return fmt.Sprintf("%s killed %s write %d", what, boundary, n) }
		b.load(one)
		b.terms.Held = false
		run("apply", one)
		b.rescued(at("install"), ofOne)
		b.load(two)
		run("apply", two)
		b.rescued(at("upgrade"), ofTwo)
		if seen := b.kubectl("get", "configmap", "every-a", "-o", "jsonpath={.data}"); seen != `{"comes":"two","stays":"two"}` {
			t.Fatalf("%s: the ConfigMap holds %s", at("upgrade"), seen)
		}
		run("remove", "")
		b.remove(Removal{Terms: b.terms})
		if found := b.everything(); found != "" {
			t.Fatalf("%s: there is still %s", at("uninstall"), found)
		}
		if killed == 0 {
			break
		}
		if boundary == fleettest.BeforeWrite {
			boundary = fleettest.AfterWrite
			continue
		}
		n++
	}
	if n < 8 {
		t.Errorf("the longest run had %d writes; an install has the records, hooks and objects", n-1)
	}
}

// killsAtRandom is how often TestKilledAtRandom kills.
const killsAtRandom = 50

// The same at random moments, and with a change of mind: after the kill another version is wanted than the one that was
// being installed.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("BERTH_TEST_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("BERTH_TEST_SEED=%d repeats the moments", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	one, two := crashing(t, "random.example.com")
	folders, objects := []string{one, two}, []string{ofOne, ofTwo}
	b := newBenchOn(t, crashPlane(t), "random", one)
	b.spec.CreateNamespace = false
	b.plane.Kubectl(t, "create", "namespace", "random")
	b.terms.Held = true
	for n := range killsAtRandom {
		do, version := "apply", random.IntN(2)
		if random.IntN(4) == 0 {
			do = "remove"
		}
		b.load(folders[version])
		process, _ := b.start(do, folders[version])
		kill := time.AfterFunc(time.Duration(random.IntN(700))*time.Millisecond, func() { _ = process.Process.Kill() })
		_ = process.Wait() // killed, or done before
		kill.Stop()
		version = random.IntN(2)
		b.load(folders[version])
		b.rescued(fmt.Sprintf("kill %d, in %s", n, do), objects[version])
	}
	b.remove(Removal{Terms: b.terms})
	if found := b.everything(); found != "" {
		t.Errorf("there is still %s", found)
	}
}

// crashPlane is a control plane on which nothing happens but what a test does.
func crashPlane(t *testing.T) *fleettest.Cluster {
	t.Helper()
	return fleettest.NewCluster(t, fleettest.ClusterSpec{Name: "crash", ControlPlaneOnly: true})
}
