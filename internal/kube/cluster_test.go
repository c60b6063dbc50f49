package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// lazy is a cluster that tests of this package share; the first test that asks for it boots it.
type lazy struct {
	spec  fleettest.ClusterSpec
	once  sync.Once
	fleet *fleettest.Fleet
	err   error
}

func (l *lazy) get(t *testing.T) *fleettest.Cluster {
	t.Helper()
	l.once.Do(func() { l.fleet, l.err = fleettest.Start(context.Background(), l.spec) })
	if l.err != nil {
		t.Fatal(l.err)
	}
	return l.fleet.Cluster(l.spec.Name)
}

// plane is a control plane alone: nothing happens there but what a test does.
var plane = lazy{spec: fleettest.ClusterSpec{Name: "plane", ControlPlaneOnly: true}}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, one := range []*lazy{&plane, &whole} {
		if one.fleet == nil {
			continue
		}
		if err := one.fleet.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// fixture is a cluster as berth sees it, through a proxy that counts, and a namespace of the test's own.
type fixture struct {
	*cluster.Cluster
	t         *testing.T
	plane     *fleettest.Cluster
	proxy     *fleettest.Proxy
	namespace string
}

func newFixture(t *testing.T, namespace string) *fixture {
	t.Helper()
	return newFixtureOn(t, &plane, namespace)
}

func newFixtureOn(t *testing.T, on *lazy, namespace string) *fixture {
	t.Helper()
	c := on.get(t)
	f := &fixture{t: t, plane: c, proxy: c.Proxy(t, fleettest.ProxyOptions{}), namespace: namespace}
	_, err := c.Client().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.Cluster = f.afresh()
	return f
}

// afresh gives the cluster with nothing known of it, as a new process has it.
func (f *fixture) afresh() *cluster.Cluster {
	f.t.Helper()
	return f.as(f.proxy.AdminKubeconfig(), nil)
}

// as gives the cluster as somebody sees it, and reports the progress of what is done there.
func (f *fixture) as(kubeconfig fleettest.Kubeconfig, progress func(context.Context, cluster.Step)) *cluster.Cluster {
	f.t.Helper()
	name := f.plane.Name()
	fleet := cluster.NewFleet(cluster.Settings{
		Owner: us.Configuration, Progress: progress,
		Entries: map[string]cluster.Entry{name: {Kubeconfig: kubeconfig.Content()}},
	})
	c, err := fleet.Cluster(name)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// settings is a ConfigMap that a test wants.
func (f *fixture) settings(name string, data map[string]any) Object {
	desired := cluster.ConfigMaps.New(f.namespace, name)
	desired.Object["data"] = data
	return Object{Kind: cluster.ConfigMaps, Desired: desired}
}

func (f *fixture) converge(object Object, terms Terms) *unstructured.Unstructured {
	f.t.Helper()
	live, err := Converge(f.t.Context(), f.Cluster, object, terms)
	if err != nil {
		f.t.Fatal(err)
	}
	return live
}

// read reads a ConfigMap past the proxy; nil when there is none.
func (f *fixture) read(name string) *corev1.ConfigMap {
	f.t.Helper()
	all, err := f.plane.Client().CoreV1().ConfigMaps(f.namespace).List(f.t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		f.t.Fatal(err)
	}
	if len(all.Items) == 0 {
		return nil
	}
	return &all.Items[0]
}

// refused fails the test unless the error is a problem with this summary and these parts of its detail.
func refused(t *testing.T, err error, summary string, details ...string) {
	t.Helper()
	var problem *cluster.Problem
	if !errors.As(err, &problem) || problem.Summary != summary {
		t.Errorf("got %v\nwant the problem %q", err, summary)
		return
	}
	for _, detail := range details {
		if !strings.Contains(problem.Detail, detail) {
			t.Errorf("the detail lacks %q:\n%s", detail, problem.Detail)
		}
	}
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// An object is created, compared at the price of one list, repaired where it drifted, and loses a field that is no
// longer wanted, but none that is not ours (promises 6, 9 and 12).
func TestConvergeAndDrift(t *testing.T) {
	f := newFixture(t, "converge")
	terms := Terms{Owner: us, Held: true}
	f.converge(f.settings("a", map[string]any{"one": "1", "two": "2"}), Terms{Owner: us})
	created := f.read("a")
	want(t, "data", created.Data, map[string]string{"one": "1", "two": "2"})
	want(t, "created", created.Annotations[AnnotationCreated], "true")

	drift := func(object Object) map[string]string {
		t.Helper()
		found, err := Drift(t.Context(), f.afresh(), us, []Object{object}, true)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	f.proxy.Reset()
	want(t, "no drift", drift(f.settings("a", map[string]any{"one": "1", "two": "2"})), map[string]string{})
	want(t, "its requests", f.proxy.Counts(), map[string]int{"list configmaps": 1})

	f.plane.Kubectl(t, "-n", "converge", "patch", "configmap", "a", "--type=merge", "-p", `{"data":{"one":"by hand","theirs":"3"}}`)
	f.proxy.Reset()
	want(t, "drift", drift(f.settings("a", map[string]any{"one": "1", "two": "2"})), map[string]string{"ConfigMap/converge/a data.one": "by hand → 1"})
	want(t, "its requests", f.proxy.Counts(), map[string]int{"list configmaps": 1, "patch configmaps": 1})
	want(t, "writes", f.proxy.Writes(), 0)

	f.converge(f.settings("a", map[string]any{"one": "1"}), terms)
	want(t, "repaired, without what is no longer wanted", f.read("a").Data, map[string]string{"one": "1", "theirs": "3"})
	want(t, "UID", f.read("a").UID, created.UID)

	f.plane.Kubectl(t, "-n", "converge", "delete", "configmap", "a")
	want(t, "missing", drift(f.settings("a", map[string]any{"one": "1"})), map[string]string{"ConfigMap/converge/a": "missing → present"})
}

// Defaults that the server fills in and quantities that it writes otherwise are no drift.
func TestDriftOfDefaults(t *testing.T) {
	f := newFixture(t, "defaults")
	desired := object(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: app, namespace: defaults}
spec:
  selector: {matchLabels: {app: app}}
  template:
    metadata: {labels: {app: app}}
    spec:
      containers:
      - {name: app, image: example.com/app, resources: {limits: {cpu: 1000m, memory: 1024Mi}}, ports: [{containerPort: 80, name: http}]}
`)
	deployment := Object{Kind: cluster.Deployments, Desired: desired}
	f.converge(deployment, Terms{Owner: us})
	f.proxy.Reset()
	drift, err := Drift(t.Context(), f.afresh(), us, []Object{deployment}, true)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "drift", drift, map[string]string{})
	want(t, "requests", f.proxy.Counts(), map[string]int{"list deployments.apps": 1})
}

// What is not ours is refused before anything is written, and an object that was replaced in the meantime is not the
// one that was checked (X6, promise 3).
func TestConvergeRefuses(t *testing.T) {
	f := newFixture(t, "refuses")
	wanted := f.settings("theirs", map[string]any{"one": "1"})
	f.plane.Kubectl(t, "-n", "refuses", "create", "configmap", "theirs", "--from-literal=one=2")
	before := f.read("theirs")
	_, err := Converge(t.Context(), f.Cluster, wanted, Terms{Owner: us})
	refused(t, err, "ConfigMap/refuses/theirs exists already and is not berth's", "Set adopt = true")
	_, err = Converge(t.Context(), f.Cluster, wanted, Terms{Owner: us, Held: true, UID: "another"})
	refused(t, err, "ConfigMap/refuses/theirs exists already and is not berth's", "Set adopt = true")
	want(t, "their object", f.read("theirs").ResourceVersion, before.ResourceVersion)

	f.converge(wanted, Terms{Owner: us, Adopt: true})
	want(t, "adopted", row(f.read("theirs").UID, f.read("theirs").Annotations[AnnotationCreated], f.read("theirs").Data), row(before.UID, "", map[string]string{"one": "1"}))
	_, err = Converge(t.Context(), f.Cluster, wanted, Terms{Owner: them, Adopt: true})
	refused(t, err, "ConfigMap/refuses/theirs belongs to another owner", `owner "platform"`)
	// Held by a state whose owner was renamed, it is ours.
	f.converge(wanted, Terms{Owner: them, Held: true})

	stale, err := f.Fetch(t.Context(), cluster.ConfigMaps, "refuses", "theirs")
	if err != nil {
		t.Fatal(err)
	}
	f.plane.Kubectl(t, "-n", "refuses", "delete", "configmap", "theirs")
	f.plane.Kubectl(t, "-n", "refuses", "create", "configmap", "theirs", "--from-literal=one=3")
	_, err = ConvergeFrom(t.Context(), f.Cluster, wanted, Terms{Owner: them, Held: true}, stale)
	refused(t, err, "ConfigMap/refuses/theirs could not be written", "uid")
	want(t, "the replaced object", f.read("theirs").Data, map[string]string{"one": "3"})
}

func row(values ...any) string { return fmt.Sprintln(values...) }

// Only what berth created is deleted; what it found stays, without its marks (X6, promise 10).
func TestRemove(t *testing.T) {
	f := newFixture(t, "remove")
	remove := func(name string, owner Owner, retain bool) Removal {
		t.Helper()
		removal, err := Remove(t.Context(), f.Cluster, cluster.ConfigMaps, "remove", name, Terms{Owner: owner}, retain)
		if err != nil {
			t.Fatal(err)
		}
		return removal
	}
	f.converge(f.settings("created", nil), Terms{Owner: us})
	want(t, "another owner's", remove("created", them, false), NotOurs)
	want(t, "retained", remove("created", us, true), Kept)
	want(t, "its marks", row(f.read("created").Labels, f.read("created").Annotations), row(map[string]string{}, map[string]string{}))
	want(t, "without a mark", remove("created", us, false), NotOurs)

	f.converge(f.settings("created", nil), Terms{Owner: us, Adopt: true})
	want(t, "adopted", remove("created", us, false), Kept)
	f.converge(f.settings("own", nil), Terms{Owner: us})
	want(t, "created", remove("own", us, false), Deleted)
	want(t, "gone", remove("own", us, false), Gone)
	if f.read("own") != nil || f.read("created") == nil {
		t.Error("the wrong one was deleted")
	}
}

// Users of a shared object never overwrite each other, whenever they come, and the last one takes it along (X7).
func TestShared(t *testing.T) {
	f := newFixture(t, "shared")
	object := f.settings("common", map[string]any{"one": "1"})
	users := make([]Owner, 6)
	var group sync.WaitGroup
	for i := range users {
		users[i] = Owner{Configuration: us.Configuration, Resource: fmt.Sprintf("instance.i%d", i)}
		group.Go(func() {
			if _, err := Share(t.Context(), f.afresh(), object, Sharing{User: users[i], Name: fmt.Sprintf("i%d", i), Remedy: "Rename it."}); err != nil {
				t.Errorf("user %d: %v", i, err)
			}
		})
	}
	group.Wait()
	live, err := f.Fetch(t.Context(), cluster.ConfigMaps, "shared", "common")
	if err != nil {
		t.Fatal(err)
	}
	want(t, "users", Users(live), []string{"i0", "i1", "i2", "i3", "i4", "i5"})

	f.plane.Kubectl(t, "-n", "shared", "patch", "configmap", "common", "--type=merge", "-p", `{"data":{"one":"by hand"}}`)
	drift, err := SharedDrift(t.Context(), f.afresh(), object, Sharing{User: users[0], Name: "i0"})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "drift", drift, map[string]string{"ConfigMap/shared/common data.one": "by hand → 1"})
	if _, err := Share(t.Context(), f.Cluster, object, Sharing{User: users[0], Name: "i0", Remedy: "Rename it."}); err != nil {
		t.Fatal(err)
	}
	want(t, "repaired by one, for all", row(f.read("common").Data, len(Users(live))), row(map[string]string{"one": "1"}, 6))

	agree := func(context.Context) (string, error) { return "", nil }
	leave := func(c *cluster.Cluster, user Owner, mayDelete func(context.Context) (string, error)) string {
		t.Helper()
		stays, err := Unshare(t.Context(), c, cluster.ConfigMaps, "shared", "common", user, mayDelete)
		if err != nil {
			t.Error(err)
		}
		return stays
	}
	want(t, "the first leaves", leave(f.Cluster, users[0], agree), "it is still used by i1, i2, i3, i4, i5")
	for _, user := range users[1:5] {
		group.Go(func() { leave(f.afresh(), user, agree) })
	}
	group.Wait()
	want(t, "the last leaves, but may not delete", leave(f.Cluster, users[5], func(context.Context) (string, error) { return "somebody said no", nil }), "somebody said no")
	want(t, "one comes as the last leaves", leave(f.Cluster, users[5], func(ctx context.Context) (string, error) {
		_, err := Share(ctx, f.afresh(), object, Sharing{User: users[3], Name: "i3", Remedy: "Rename it."})
		return "", err
	}), "it is still used by i3")
	want(t, "the last leaves", leave(f.Cluster, users[3], agree), "")
	if f.read("common") != nil {
		t.Error("the shared object is still there")
	}
	want(t, "gone already", leave(f.Cluster, users[3], agree), "")

	f.plane.Kubectl(t, "-n", "shared", "create", "configmap", "common")
	_, err = Share(t.Context(), f.Cluster, object, Sharing{User: users[0], Name: "i0", Remedy: "Rename it."})
	refused(t, err, "ConfigMap/shared/common exists already and is not shared", "berth did not create it. Rename it.")
	want(t, "a stranger's", leave(f.Cluster, users[0], agree), "it is not a shared object of berth's")
}

// A wait that runs out says what it waited for in the cluster's words; one that is cut off for a moment goes on
// (promise 8).
func TestWait(t *testing.T) {
	f := newFixture(t, "wait")
	f.converge(f.settings("held", nil), Terms{Owner: us})
	f.plane.Kubectl(t, "-n", "wait", "patch", "configmap", "held", "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/hold"]}}`)
	f.plane.Kubectl(t, "-n", "wait", "delete", "configmap", "held", "--wait=false")
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := WaitGone(short, f.Cluster, cluster.ConfigMaps, "wait", "held", "")
	if err == nil || !strings.Contains(err.Error(), "The time limit was reached after 1s: ConfigMap/wait/held on plane: finalizers: example.com/hold") ||
		!strings.Contains(err.Error(), "Look at: kubectl --context plane describe configmap held -n wait") || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}

	restore := f.proxy.Fail(nil, fleettest.BadGateway)
	done := make(chan error, 1)
	f.proxy.Reset()
	go func() { done <- WaitGone(t.Context(), f.Cluster, cluster.ConfigMaps, "wait", "held", "") }()
	fleettest.Eventually(t, func(context.Context) error {
		if n := f.proxy.Count("get configmaps"); n < 2 {
			return fmt.Errorf("%d looks", n)
		}
		return nil
	})
	restore()
	f.plane.Kubectl(t, "-n", "wait", "patch", "configmap", "held", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	if err := <-done; err != nil {
		t.Errorf("a wait through an outage: %v", err)
	}
}
