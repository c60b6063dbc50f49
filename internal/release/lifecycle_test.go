package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/chart"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// whole is the cluster, with controllers and nodes, on which releases become ready; tests share it.
var whole = sync.OnceValues(func() (fleet *fleettest.Fleet, err error) {
	booted, err = fleettest.Start(context.Background(), charts.Cluster("whole"))
	return booted, err
})

// booted is the fleet of whole, once a test has asked for it.
var booted *fleettest.Fleet

func TestMain(m *testing.M) { exitAfter(m) }

// bench is a release on the cluster as berth sees it.
type bench struct {
	t     *testing.T
	plane *fleettest.Cluster
	proxy *fleettest.Proxy
	spec  Spec
	terms kube.Terms
}

func newBench(t *testing.T, name, folder string) *bench {
	t.Helper()
	fleet, err := whole()
	if err != nil {
		t.Fatal(err)
	}
	return newBenchOn(t, fleet.Cluster("whole"), name, folder)
}

func newBenchOn(t *testing.T, plane *fleettest.Cluster, name, folder string) *bench {
	t.Helper()
	b := &bench{t: t, plane: plane, terms: kube.Terms{Owner: kube.Owner{Configuration: "test", Resource: "release." + name}}}
	b.proxy = b.plane.Proxy(t, fleettest.ProxyOptions{})
	b.spec = Spec{
		Ref: Ref{Namespace: name, Name: name}, CreateNamespace: true, Wait: true, KeepHistory: 10, Source: "somewhere",
		Watch: Watch{CRDs: CRDsUpgrade, ExtraFields: ExtraWarn},
	}
	b.load(folder)
	b.values("{}")
	return b
}

func (b *bench) load(folder string) {
	b.t.Helper()
	loaded, err := loader.Load(folder)
	if err != nil {
		b.t.Fatal(err)
	}
	sum := sha256.New()
	files := slices.Clone(loaded.Raw)
	sort.Slice(files, func(i, j int) bool { return files[i].Name < files[j].Name })
	for _, file := range files {
		fmt.Fprintln(sum, file.Name, string(file.Data))
	}
	b.spec.Chart = chart.Chart{Chart: loaded, Digest: "sha256:" + hex.EncodeToString(sum.Sum(nil))}
}

func (b *bench) values(documents ...string) {
	b.t.Helper()
	values, err := MergeValues(documents, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	b.spec.Values = values
}

// afresh is the cluster with nothing known of it, as a new process has it.
func (b *bench) afresh() *cluster.Cluster {
	b.t.Helper()
	fleet := cluster.NewFleet(cluster.Settings{Owner: "test", Entries: map[string]cluster.Entry{
		b.plane.Name(): {Kubeconfig: b.proxy.AdminKubeconfig().Content()},
	}})
	c, err := fleet.Cluster(b.plane.Name())
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

func (b *bench) context() context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	b.t.Cleanup(cancel)
	ctx, _ = cluster.WithRecord(ctx)
	return ctx
}

func (b *bench) plan() Outlook {
	b.t.Helper()
	outlook, err := Plan(b.context(), b.afresh(), b.spec, b.terms)
	if err != nil {
		b.t.Fatal(err)
	}
	return outlook
}

func (b *bench) apply() Seen {
	b.t.Helper()
	seen, _, err := Apply(b.context(), b.afresh(), b.spec, b.terms)
	if err != nil {
		b.t.Fatal(err)
	}
	b.terms.Held, b.spec.Settled = true, seen.Settled
	return seen
}

func (b *bench) remove(removal Removal) []Warning {
	b.t.Helper()
	warnings, err := Remove(b.context(), b.afresh(), b.spec.Ref, removal)
	if err != nil {
		b.t.Fatal(err)
	}
	return warnings
}

func (b *bench) read(revision int) *Seen {
	b.t.Helper()
	seen, err := Read(b.context(), b.afresh(), b.spec.Ref, b.spec.Watch, revision)
	if err != nil {
		b.t.Fatal(err)
	}
	return seen
}

func (b *bench) kubectl(args ...string) string {
	b.t.Helper()
	return b.plane.Kubectl(b.t, append([]string{"-n", b.spec.Namespace}, args...)...)
}

func (b *bench) noDrift(what string) *Seen {
	b.t.Helper()
	seen := b.read(0)
	if seen == nil {
		b.t.Fatalf("%s: there is no release", what)
	}
	if len(seen.Drift) > 0 || len(seen.Warnings) > 0 {
		b.t.Errorf("%s: drift %v, extra %v", what, seen.Drift, seen.Warnings)
	}
	return seen
}

// The life of a release with hooks, CRDs and objects of them: install, no drift, drift by hand shown and repaired without a
// new revision, upgrade, uninstall.
func TestLife(t *testing.T) {
	b := newBench(t, "life", charts.Standin(t, charts.Options{}))
	if outlook := b.plan(); outlook.Verdict != Install || len(outlook.Objects) < 30 {
		t.Errorf("plan: %v, %d objects, %v", outlook.Verdict, len(outlook.Objects), outlook.Warnings)
	}
	seen := b.apply()
	if seen.Revision != 1 || seen.Status != "deployed" || seen.Ready.Status != "True" {
		t.Errorf("after the install: %+v", seen)
	}
	b.noDrift("after the install")
	b.proxy.Reset()
	b.noDrift("again")
	for request, n := range b.proxy.Counts() {
		// Helm's records are a list of their own, beside the Secrets that the release made.
		if n > 1 && request != "list secrets" || n > 2 {
			t.Errorf("a look at a release that has not changed: %d times %q", n, request)
		}
	}

	b.kubectl("set", "env", "deployment/life-worker", "-c", "worker", "BY_HAND=1")
	b.kubectl("set", "image", "deployment/life-worker", "worker=registry.example.com/other:1")
	b.kubectl("delete", "configmap", "life-config", "--wait")
	broken := b.read(1)
	want := map[string]string{
		"ConfigMap/life/life-config": "missing → present",
		"Deployment/life/life-worker spec.template.spec.containers[name=worker].image": "registry.example.com/other:1 → registry.example.com/standin/app:2.0.0",
	}
	if !maps.Equal(broken.Drift, want) {
		t.Errorf("drift: %v, want %v", broken.Drift, want)
	}
	if len(broken.Warnings) != 1 || !strings.Contains(broken.Warnings[0].Summary, "Deployment/life/life-worker spec.template.spec.containers[name=worker].env[name=BY_HAND] (by kubectl-set)") {
		t.Errorf("extra fields: %v", broken.Warnings)
	}
	if outlook := b.plan(); outlook.Verdict != Repair || len(outlook.Changes) != 0 {
		t.Errorf("plan of the repair: %+v", outlook)
	}
	if seen := b.apply(); seen.Revision != 1 || len(seen.Drift) > 0 {
		t.Errorf("after the repair: %+v", seen)
	}
	b.kubectl("set", "env", "deployment/life-worker", "-c", "worker", "BY_HAND-")

	b.values("image: {tag: \"2\"}\n")
	if outlook := b.plan(); outlook.Verdict != Upgrade || outlook.Changes["Deployment/life/life-worker spec.template.spec.containers[name=worker].image"] != "registry.example.com/standin/app:2.0.0 → registry.example.com/standin/app:2" {
		t.Errorf("plan of the upgrade: %+v", outlook)
	}
	if seen := b.apply(); seen.Revision != 2 {
		t.Errorf("after the upgrade: %+v", seen)
	}
	b.noDrift("after the upgrade")

	warnings := b.remove(Removal{Terms: b.terms, Force: true})
	if len(warnings) != 1 || warnings[0].Summary != "CustomResourceDefinition/gadgets.standin.example.com stays" {
		t.Errorf("what stays: %v", warnings)
	}
	if seen := b.read(0); seen != nil {
		t.Errorf("after the uninstall: %+v", seen)
	}
	if _, err := b.plane.Client().CoreV1().Namespaces().Get(t.Context(), "life", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace is left: %v", err)
	}
}
