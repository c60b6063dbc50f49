package knative

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

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

// plane is a control plane alone: nothing happens there but what a test does, and no operator is ever installed.
var plane = lazy{spec: fleettest.ClusterSpec{Name: "plane", ControlPlaneOnly: true}}

// clusters are those to stop at the end.
var clusters = []*lazy{&plane}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, one := range clusters {
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

// fixture is a cluster as berth sees it, and a namespace of the test's own.
type fixture struct {
	*cluster.Cluster
	t         *testing.T
	plane     *fleettest.Cluster
	namespace string
}

// testCluster gives the shared control plane, with a new namespace on it.
func testCluster(t *testing.T, namespace string) *fixture {
	t.Helper()
	return testClusterOn(t, &plane, namespace)
}

// testClusterOn is testCluster for another of the shared clusters.
func testClusterOn(t *testing.T, on *lazy, namespace string) *fixture {
	t.Helper()
	f := &fixture{t: t, plane: on.get(t), namespace: namespace}
	_, err := f.plane.Client().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.Cluster = f.afresh("platform", nil)
	return f
}

// afresh gives the cluster with nothing known of it, as a new process of an owner has it, and reports the progress of what
// is done there.
func (f *fixture) afresh(owner string, progress func(context.Context, cluster.Step)) *cluster.Cluster {
	f.t.Helper()
	name := f.plane.Name()
	fleet := cluster.NewFleet(cluster.Settings{
		Owner: owner, Progress: progress,
		Entries: map[string]cluster.Entry{name: {Kubeconfig: f.plane.AdminKubeconfig().Content()}},
	})
	c, err := fleet.Cluster(name)
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// apply applies a manifest in the fixture's namespace, or without one.
func (f *fixture) apply(manifest string) {
	f.t.Helper()
	f.plane.KubectlInput(f.t, manifest, "apply", "-n", f.namespace, "-f", "-")
}

// yamlOf writes what a test compares.
func yamlOf(t *testing.T, value any) string {
	t.Helper()
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// told fails the test unless the error is a problem with this summary and these parts of its detail.
func told(t *testing.T, err error, summary string, details ...string) {
	t.Helper()
	problem, ok := errors.AsType[*cluster.Problem](err)
	if !ok || problem.Summary != summary {
		t.Errorf("got %v\nwant the problem %q", err, summary)
		return
	}
	contains(t, problem.Detail, details...)
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("it lacks %q:\n%s", part, text)
		}
	}
}
