package enroll

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// plane is a control plane with the kinds of Kueue and JobSet, and without their managers. The first test that asks for it
// boots it.
var plane struct {
	once  sync.Once
	fleet *fleettest.Fleet
	err   error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if plane.fleet != nil {
		if err := plane.fleet.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// fixture is a cluster as berth sees it, with names that no other test has.
type fixture struct {
	*cluster.Cluster
	t         *testing.T
	plane     *fleettest.Cluster
	namespace string
	owner     kube.Owner
}

var fixtures atomic.Int64

func newFixture(t *testing.T) *fixture {
	t.Helper()
	plane.once.Do(func() {
		if plane.fleet, plane.err = fleettest.Start(context.Background(), fleettest.ClusterSpec{Name: "plane", ControlPlaneOnly: true, Controllers: true}); plane.err == nil {
			plane.fleet.Cluster("plane").InstallKueueCRDs(t)
		}
	})
	if plane.err != nil {
		t.Fatal(plane.err)
	}
	n := fixtures.Add(1)
	f := &fixture{
		t: t, plane: plane.fleet.Cluster("plane"), namespace: fmt.Sprintf("team-%d", n),
		owner: kube.Owner{Configuration: "platform", Resource: fmt.Sprintf("worker_enrollment.team-%d/us", n)},
	}
	_, err := f.plane.Client().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.afresh()
	return f
}

// afresh has nothing known of the cluster, as in a new process.
func (f *fixture) afresh() {
	f.t.Helper()
	fleet := cluster.NewFleet(cluster.Settings{Owner: f.owner.Configuration, Entries: map[string]cluster.Entry{"plane": {Kubeconfig: f.plane.AdminKubeconfig().Content()}}})
	var err error
	if f.Cluster, err = fleet.Cluster("plane"); err != nil {
		f.t.Fatal(err)
	}
}

// graph is a worker's graph with the default preset.
func (f *fixture) graph() Graph {
	return Graph{
		Identity: "6-" + f.namespace + "-us", LabelPrefix: DefaultLabelPrefix, Terms: kube.Terms{Owner: f.owner},
		Scheduling: Scheduling{
			Quotas: map[string]string{"cpu": "8", "memory": "32Gi"}, Flavor: f.namespace, ClusterQueue: f.namespace, LocalQueue: DefaultLocalQueue, Namespaces: []string{f.namespace},
		},
	}
}

func (f *fixture) apply(g Graph) []SchedulingObject {
	f.t.Helper()
	f.afresh()
	seen, err := g.Apply(f.t.Context(), f.Cluster)
	if err != nil {
		f.t.Fatal(err)
	}
	return seen
}

// states are the states of the objects in their order.
func states(seen []SchedulingObject) string {
	var all []string
	for _, one := range seen {
		all = append(all, one.Kind+" "+one.State)
	}
	return strings.Join(all, ", ")
}

func want[T comparable](t *testing.T, what string, got, wanted T) {
	t.Helper()
	if got != wanted {
		t.Fatalf("%s:\n got %v\nwant %v", what, got, wanted)
	}
}

// told makes sure that an error says all of some texts.
func told(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; it should say %q", texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Fatalf("the error does not say %q:\n%s", text, err)
		}
	}
}
