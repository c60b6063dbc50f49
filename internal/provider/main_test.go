package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// TestMain stops the clusters that tests have asked for. They are booted by the first test that needs them and shared
// by all: tests keep apart by unique names.
func TestMain(m *testing.M) {
	code := m.Run()
	for _, one := range []*lazyCluster{&shared, &other, &plain, &whole, &versionsCluster, &argoMgmt, &argoEdge} {
		if err := one.stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// lazyCluster is a cluster that the first test which asks for it boots.
type lazyCluster struct {
	spec  fleettest.ClusterSpec
	once  sync.Once
	fleet *fleettest.Fleet
	err   error
}

func (l *lazyCluster) get(t testing.TB) *fleettest.Cluster {
	t.Helper()
	l.once.Do(func() {
		// Not the test's context: the cluster outlives the test that booted it.
		l.fleet, l.err = fleettest.Start(context.Background(), l.spec)
	})
	if l.err != nil {
		t.Fatal(l.err)
	}
	return l.fleet.Cluster(l.spec.Name)
}

func (l *lazyCluster) stop() error {
	if l.fleet == nil {
		return nil
	}
	return l.fleet.Stop()
}

var (
	shared = lazyCluster{spec: fleettest.ClusterSpec{
		Name: "shared", ControlPlaneOnly: true, Controllers: true,
		Nodes: []fleettest.NodeSpec{
			{Name: "amd"},
			{Name: "arm", Architecture: "arm64"},
			{Name: "s390", Architecture: "s390x"},
			{
				Name: "pool", Labels: map[string]string{"pool": "agents"},
				Taints: []corev1.Taint{{Key: "pool", Value: "agents", Effect: corev1.TaintEffectNoSchedule}},
			},
		},
	}}
	other = lazyCluster{spec: fleettest.ClusterSpec{Name: "other", ControlPlaneOnly: true}}
)

// sharedCluster is the cluster that most tests share: an amd64 node "amd", an arm64 node "arm", an s390x node "s390",
// and a node "pool" that is labelled and tainted pool=agents. Nothing runs on it, but controllers do. Tests leave
// nothing behind that would disturb others, such as a default PriorityClass.
func sharedCluster(t testing.TB) *fleettest.Cluster { t.Helper(); return shared.get(t) }

// otherCluster is a second one, for tests that need another identity.
func otherCluster(t testing.TB) *fleettest.Cluster { t.Helper(); return other.get(t) }

var names atomic.Int64

// unique gives a name that no other test uses.
func unique(prefix string) string { return fmt.Sprintf("%s-%d", prefix, names.Add(1)) }

// clusters is what a test writes into the provider's `clusters`: the body of each entry by key.
type clusters map[string]string

// byPath is the body of an entry that leads to a kubeconfig's cluster by a file.
func byPath(t testing.TB, config fleettest.Kubeconfig) string {
	t.Helper()
	return fmt.Sprintf("kubeconfig_path = %q\ncontext = %q", config.Write(t), config.Name)
}

// byContent is the body of an entry that holds a kubeconfig.
func byContent(config fleettest.Kubeconfig) string {
	return fmt.Sprintf("kubeconfig = %q", config.Content())
}

// providerBlock is the provider's configuration, with further arguments of the block.
func providerBlock(owner string, entries clusters, more ...string) string {
	var text strings.Builder
	for key, body := range entries {
		fmt.Fprintf(&text, "%q = {\n%s\n}\n", key, body)
	}
	return providerWith(owner, "{\n"+text.String()+"}", more...)
}

// providerWith is the provider's configuration with an expression for `clusters`.
func providerWith(owner, clusters string, more ...string) string {
	return fmt.Sprintf(`
terraform {
  required_providers {
    berth = { source = "berthdev/berth" }
  }
}
provider "berth" {
  owner    = %q
  clusters = %s
  %s
}
`, owner, clusters, strings.Join(more, "\n"))
}

// class is a berth_priority_class. The value is 1000 unless the body sets it.
func class(label, name string, body ...string) string {
	text := strings.Join(body, "\n")
	if !strings.Contains(text, "value ") {
		text += "\nvalue = 1000"
	}
	return fmt.Sprintf("resource \"berth_priority_class\" %q {\nname = %q\n%s\n}\n", label, name, text)
}

// this is the address of the resource that tests with a single one have.
const this = "berth_priority_class.this"

// bench is a workspace whose provider reaches one cluster, as "shared", through a proxy of its own.
type bench struct {
	*tofutest.Workspace
	t       *testing.T
	cluster *fleettest.Cluster
	proxy   *fleettest.Proxy
	owner   string
	block   string // the provider's configuration
}

// newBench gives an empty workspace on the shared cluster, with an owner of its own.
func newBench(t *testing.T, options tofutest.Options, more ...string) *bench {
	t.Helper()
	return newBenchOn(t, sharedCluster(t), unique("team"), options, more...)
}

func newBenchOn(t *testing.T, c *fleettest.Cluster, owner string, options tofutest.Options, more ...string) *bench {
	t.Helper()
	proxy := c.Proxy(t, fleettest.ProxyOptions{})
	return &bench{
		Workspace: tofutest.New(t, options), t: t, cluster: c, proxy: proxy, owner: owner,
		block: providerBlock(owner, clusters{"shared": byPath(t, proxy.AdminKubeconfig())}, more...),
	}
}

// beside gives a further workspace on the same cluster, with an owner of the test's choice.
func (b *bench) beside(owner string, options tofutest.Options) *bench {
	b.t.Helper()
	return newBenchOn(b.t, b.cluster, owner, options)
}

// use writes the configuration: the provider's block and what the test adds.
func (b *bench) use(resources ...string) {
	b.t.Helper()
	b.Write("main.tf", b.block+strings.Join(resources, "\n"))
}

// kubectl changes the cluster by hand.
func (b *bench) kubectl(args ...string) {
	b.t.Helper()
	b.cluster.Kubectl(b.t, args...)
}

// class reads a PriorityClass past the proxy; nil when there is none.
func (b *bench) class(name string) *schedulingv1.PriorityClass {
	b.t.Helper()
	return readPriorityClass(b.t, b.cluster, name)
}

// mustClass is class for one that has to be there.
func (b *bench) mustClass(name string) *schedulingv1.PriorityClass {
	b.t.Helper()
	found := b.class(name)
	if found == nil {
		b.t.Fatalf("there is no PriorityClass %q on cluster %q", name, b.cluster.Name())
	}
	return found
}

func readPriorityClass(t testing.TB, c *fleettest.Cluster, name string) *schedulingv1.PriorityClass {
	t.Helper()
	found, err := c.Client().SchedulingV1().PriorityClasses().Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// foreign creates a PriorityClass that berth knows nothing of. It goes with the test.
func (b *bench) foreign(name string, value int32, change func(*schedulingv1.PriorityClass)) *schedulingv1.PriorityClass {
	b.t.Helper()
	wanted := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, Description: "theirs"}
	if change != nil {
		change(wanted)
	}
	api := b.cluster.Client().SchedulingV1().PriorityClasses()
	created, err := api.Create(b.t.Context(), wanted, metav1.CreateOptions{FieldManager: "somebody"})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		// The test's context has ended by now.
		if err := api.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			b.t.Error(err)
		}
	})
	return created
}

// marksOf are berth's marks on an object, for comparison.
func marksOf(object metav1.Object) string {
	return fmt.Sprintf("managed-by=%s owner=%s created=%s",
		object.GetLabels()["app.kubernetes.io/managed-by"], object.GetAnnotations()["berth.dev/owner"], object.GetAnnotations()["berth.dev/created-by-berth"])
}

// ownedBy are the marks of a class that an owner's configuration created or adopted.
func ownedBy(owner, class string, created bool) string {
	mark := ""
	if created {
		mark = "true"
	}
	return fmt.Sprintf("managed-by=berth owner=%s/priority_class.%s created=%s", owner, class, mark)
}

// noMarks is what marksOf gives for a stranger.
const noMarks = "managed-by= owner= created="

// row is values on one line, for same.
func row(values ...any) string { return strings.TrimSpace(fmt.Sprintln(values...)) }

// same fails the test where what is there is not what is wanted.
func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// ownedClasses are the names of all PriorityClasses that carry the mark of an owner: what an orphan would be found by.
func (b *bench) ownedClasses(owner string) []string {
	b.t.Helper()
	all, err := b.cluster.Client().SchedulingV1().PriorityClasses().List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	var owned []string
	for _, one := range all.Items {
		if strings.HasPrefix(one.Annotations["berth.dev/owner"], owner+"/") {
			owned = append(owned, one.Name)
		}
	}
	return owned
}

// requests fails the test unless exactly these requests have arrived since the last Reset.
func (b *bench) requests(want map[string]int) {
	b.t.Helper()
	if got := b.proxy.Counts(); !maps.Equal(got, want) {
		b.t.Errorf("requests:\n got %v\nwant %v\nthe request log:\n%v", got, want, requestLines(b.proxy))
	}
}

func requestLines(proxy *fleettest.Proxy) string {
	var lines []string
	for _, request := range proxy.Requests() {
		lines = append(lines, request.String())
	}
	return strings.Join(lines, "\n")
}

// script writes an executable shell script that lives as long as the test.
func script(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// progressSteps are the lines of a progress file as "cluster object action reason".
func progressSteps(t testing.TB, file string) []string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	for line := range strings.Lines(string(content)) {
		var step struct {
			Time                            time.Time
			Cluster, Object, Action, Reason string
		}
		if err := json.Unmarshal([]byte(line), &step); err != nil || step.Time.IsZero() {
			t.Fatalf("%q is not a line of progress: %v", line, err)
		}
		steps = append(steps, fmt.Sprintf("%s %s %s %s", step.Cluster, step.Object, step.Action, step.Reason))
	}
	return steps
}
