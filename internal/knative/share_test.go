package knative

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// servingCRD is the KnativeServing that a control plane without an operator serves: the API alone.
const servingCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: knativeservings.operator.knative.dev}
spec:
  group: operator.knative.dev
  scope: Namespaced
  names: {kind: KnativeServing, singular: knativeserving, plural: knativeservings}
  versions:
  - name: v1beta1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// newServing is a fixture with a KnativeServing of this spec; "" for none.
func newServing(t *testing.T, namespace, spec string) *fixture {
	t.Helper()
	f := testCluster(t, namespace)
	f.apply(servingCRD)
	f.plane.Kubectl(t, "wait", "crd/knativeservings.operator.knative.dev", "--for=condition=Established", "--timeout=60s")
	if spec != "" {
		f.apply("apiVersion: operator.knative.dev/v1beta1\nkind: KnativeServing\nmetadata: {name: knative-serving}\nspec: " + spec)
	}
	return f
}

func (f *fixture) serving() *unstructured.Unstructured {
	f.t.Helper()
	live, err := f.Fetch(f.t.Context(), Servings, f.namespace, "knative-serving")
	if err != nil || live == nil {
		f.t.Fatal(live, err)
	}
	return live
}

// config is the configuration of the KnativeServing.
func (f *fixture) config() string {
	f.t.Helper()
	config, _, _ := unstructured.NestedMap(f.serving().Object, "spec", "config")
	return yamlOf(f.t, config)
}

func (f *fixture) contribute(region string, part Part) {
	f.t.Helper()
	if err := Contribute(f.t.Context(), f.Cluster, f.namespace, region, part); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) withdraw(region string) {
	f.t.Helper()
	if err := Withdraw(f.t.Context(), f.Cluster, f.namespace, region); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) applyShared() Outcome {
	f.t.Helper()
	outcome, err := ApplyShared(f.t.Context(), f.Cluster, f.namespace, "knative-serving")
	if err != nil {
		f.t.Fatal(err)
	}
	return outcome
}

func (f *fixture) parts() map[string]Part {
	f.t.Helper()
	parts, err := Parts(f.t.Context(), f.Cluster, f.namespace)
	if err != nil {
		f.t.Fatal(err)
	}
	return parts
}

// The longest request of the regions counts, with what the entry points need beyond it, and Serving's maximum is never
// lowered (R79, R80).
func TestAggregate(t *testing.T) {
	none := Aggregate(nil)
	want(t, "no region", none, Shared{Domains: map[string]string{}})
	both := Aggregate(map[string]Part{
		"p/region.b": {RequestTimeout: 700, Domains: map[string]string{"b.example.com": "", "same.example.com": "b"}},
		"p/region.a": {RequestTimeout: 60, Domains: map[string]string{"a.example.com": "selector: {}", "same.example.com": "a"}},
	})
	want(t, "two regions", both, Shared{RequestTimeout: 700, Domains: map[string]string{"a.example.com": "selector: {}", "b.example.com": "", "same.example.com": "a"}})
	for timeout, entryPoint := range map[int]int{0: 120, 60: 120, 110: 120, 111: 121, 700: 710} {
		want(t, fmt.Sprint("entry points for ", timeout), Shared{RequestTimeout: timeout}.EntryPointTimeout(), entryPoint)
	}
	for _, row := range []struct{ request, live, maximum int }{
		{0, 0, 600}, {600, 0, 600}, {601, 0, 601}, {60, 900, 900}, {1200, 900, 1200}, {0, 300, 300}, {400, 300, 400},
	} {
		want(t, fmt.Sprint(row), Shared{RequestTimeout: row.request}.MaxRevisionTimeout(row.live), row.maximum)
	}
}

// Regions that come and go at once never overwrite each other: in the end there is just what those that stay want, the
// maximum is the longest that there ever was, and the ingress was told the right timeout last (Y8, R78 to R81,
// R108).
func TestRegionsAtOnce(t *testing.T) {
	f := newServing(t, "at-once", `{config: {domain: {theirs.example.com: ""}}}`)
	const regions = 8
	name := func(i int) string { return fmt.Sprintf("owner-%d/region.r%d", i, i) }
	domain := func(i int) string { return fmt.Sprintf("r%d.example.com", i) }
	var (
		group sync.WaitGroup
		mutex sync.Mutex
		heard []int
	)
	for i := range regions {
		group.Go(func() {
			c := f.afresh(fmt.Sprintf("owner-%d", i), nil)
			apply := func() error {
				_, err := ApplyShared(t.Context(), c, f.namespace, "knative-serving", func(_ context.Context, shared Shared) error {
					mutex.Lock()
					defer mutex.Unlock()
					heard = append(heard, shared.EntryPointTimeout())
					return nil
				})
				return err
			}
			steps := []func() error{
				func() error {
					return Contribute(t.Context(), c, f.namespace, name(i), Part{RequestTimeout: 1000 + i, Domains: map[string]string{domain(i): ""}})
				},
				apply,
			}
			if i%2 == 1 {
				steps = append(steps, func() error { return Withdraw(t.Context(), c, f.namespace, name(i)) }, apply)
			}
			for _, step := range steps {
				if err := step(); err != nil {
					t.Errorf("%s: %v", name(i), err)
					return
				}
			}
		})
	}
	group.Wait()
	stay := map[string]Part{}
	for i := 0; i < regions; i += 2 {
		stay[name(i)] = Part{RequestTimeout: 1000 + i, Domains: map[string]string{domain(i): ""}}
	}
	want(t, "parts", f.parts(), stay)
	want(t, "configuration", f.config(), `defaults:
  max-revision-timeout-seconds: "1007"
domain:
  r0.example.com: ""
  r2.example.com: ""
  r4.example.com: ""
  r6.example.com: ""
  theirs.example.com: ""
`)
	want(t, "what the ingress was told", []int{len(heard), heard[len(heard)-1]}, []int{12, 1016})

	for i := range regions / 2 {
		group.Go(func() {
			if err := Withdraw(t.Context(), f.afresh("platform", nil), f.namespace, name(2*i)); err != nil {
				t.Errorf("%s leaves: %v", name(2*i), err)
			}
		})
	}
	group.Wait()
	want(t, "entry points without a region", f.applyShared().Shared.EntryPointTimeout(), 120)
	want(t, "configuration without a region", f.config(), `defaults:
  max-revision-timeout-seconds: "1007"
domain:
  theirs.example.com: ""
`)
	if _, marked := f.serving().GetAnnotations()[annotationDomains]; marked {
		t.Error("the mark of the domains stays")
	}
	for _, gone := range []struct {
		kind cluster.Kind
		name string
	}{{cluster.ConfigMaps, regionsName}, {Leases, leaseName}} {
		if live, err := f.Fetch(t.Context(), gone.kind, f.namespace, gone.name); live != nil || err != nil {
			t.Errorf("%s is left after the last region: %v", gone.name, err)
		}
	}
}

// A region's part is its own field manager's, so that what it no longer wants goes and nothing of another's (Y8).
func TestContribute(t *testing.T) {
	f := testCluster(t, "contribute")
	a, b := Part{RequestTimeout: 60, Domains: map[string]string{"a.example.com": ""}}, Part{RequestTimeout: 90}
	f.contribute("p/region.a", a)
	f.contribute("q/region.b", b)
	f.contribute("p/region.a", a)
	want(t, "parts", f.parts(), map[string]Part{"p/region.a": a, "q/region.b": b})
	live, err := f.Fetch(t.Context(), cluster.ConfigMaps, f.namespace, regionsName)
	if err != nil {
		t.Fatal(err)
	}
	managers := map[string]string{}
	for _, entry := range live.GetManagedFields() {
		managers[entry.Manager] = string(entry.Operation)
	}
	want(t, "managers", managers, map[string]string{regionManager + hashOf("p/region.a"): "Apply", regionManager + hashOf("q/region.b"): "Apply"})

	err = Contribute(t.Context(), f.Cluster, f.namespace, "q/region.b", Part{Domains: map[string]string{"a.example.com": "selector: {app: b}"}})
	told(t, err, `Domain a.example.com belongs to another region of cluster "plane"`, "refusing: p/region.a on plane has domain a.example.com", "q/region.b")
	f.contribute("q/region.b", Part{Domains: map[string]string{"a.example.com": ""}})
	f.withdraw("p/region.a")
	want(t, "parts without a", f.parts(), map[string]Part{"q/region.b": {Domains: map[string]string{"a.example.com": ""}}})
	live, err = f.Fetch(t.Context(), cluster.ConfigMaps, f.namespace, regionsName)
	if err != nil || len(live.GetManagedFields()) != 1 || live.GetLabels()["berth.dev/shared"] != "true" {
		t.Errorf("after a left: %v, %v", live, err)
	}
	f.withdraw("p/region.a")
	f.withdraw("q/region.b")
	f.withdraw("q/region.b")
	want(t, "parts without any", f.parts(), map[string]Part{})

	err = Contribute(t.Context(), f.Cluster, "nowhere", "p/region.a", a)
	told(t, err, `Namespace nowhere is not on cluster "plane"`, "Install Serving first (berth_knative_serving)")
	f.plane.Kubectl(t, "-n", f.namespace, "create", "configmap", regionsName)
	err = Contribute(t.Context(), f.Cluster, f.namespace, "p/region.a", a)
	told(t, err, "ConfigMap/contribute/berth-knative-regions exists already and is not shared", "refusing: ", "Rename or delete it.")
	f.plane.Kubectl(t, "-n", f.namespace, "annotate", "configmap", regionsName, regionPrefix+"x=?")
	_, err = Parts(t.Context(), f.Cluster, f.namespace)
	told(t, err, "ConfigMap/contribute/berth-knative-regions has a part that cannot be read", "The annotation regions.berth.dev/x")
	if err := removeShared(t.Context(), f.Cluster, f.namespace); err != nil {
		t.Fatal(err)
	}
	f.plane.Kubectl(t, "-n", f.namespace, "get", "configmap", regionsName) // a stranger's stays
}

// The spelling that is there is used, since the other would be ignored; what is foreign stays, and the maximum is neither
// lowered nor set below the default of a request (R80, R108).
func TestSharedConfiguration(t *testing.T) {
	region := Part{RequestTimeout: 900, Domains: map[string]string{"r.example.com": "selector: {app: r}"}}
	for _, row := range []struct{ name, spec, after, withdrawn string }{
		{
			"short", `{config: {defaults: {revision-timeout-seconds: "300"}, domain: {x.example.com: ""}}}`,
			"defaults:\n  max-revision-timeout-seconds: \"900\"\n  revision-timeout-seconds: \"300\"\ndomain:\n  r.example.com: 'selector: {app: r}'\n  x.example.com: \"\"\n",
			"defaults:\n  max-revision-timeout-seconds: \"900\"\n  revision-timeout-seconds: \"300\"\ndomain:\n  x.example.com: \"\"\n",
		},
		{
			"long", `{config: {config-defaults: {a: b}, config-domain: {x.example.com: ""}, domain: {ignored: ""}}}`,
			"config-defaults:\n  a: b\n  max-revision-timeout-seconds: \"900\"\nconfig-domain:\n  r.example.com: 'selector: {app: r}'\n  x.example.com: \"\"\ndomain:\n  ignored: \"\"\n",
			"config-defaults:\n  a: b\n  max-revision-timeout-seconds: \"900\"\nconfig-domain:\n  x.example.com: \"\"\ndomain:\n  ignored: \"\"\n",
		},
		{
			"higher", `{config: {defaults: {max-revision-timeout-seconds: "1800"}}}`,
			"defaults:\n  max-revision-timeout-seconds: \"1800\"\ndomain:\n  r.example.com: 'selector: {app: r}'\n", "defaults:\n  max-revision-timeout-seconds: \"1800\"\ndomain: {}\n",
		},
		{
			"default-above", `{config: {defaults: {revision-timeout-seconds: "1000"}}}`,
			"defaults:\n  max-revision-timeout-seconds: \"1000\"\n  revision-timeout-seconds: \"1000\"\ndomain:\n  r.example.com: 'selector: {app: r}'\n",
			"defaults:\n  max-revision-timeout-seconds: \"1000\"\n  revision-timeout-seconds: \"1000\"\ndomain: {}\n",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := newServing(t, "config-"+row.name, row.spec)
			f.contribute("p/region.r", region)
			outcome := f.applyShared()
			want(t, "outcome", outcome, Outcome{Shared: Aggregate(map[string]Part{"p/region.r": region})})
			want(t, "after", f.config(), row.after)
			before := f.serving().GetResourceVersion()
			f.applyShared()
			want(t, "written again", f.serving().GetResourceVersion(), before)
			f.withdraw("p/region.r")
			f.applyShared()
			want(t, "withdrawn", f.config(), row.withdrawn)
		})
	}
}

// A domain that somebody else has is left as it is and told; what was set by hand past the KnativeServing is not lowered;
// and what was changed by hand of ours is put right (R80, R108).
func TestSharedBesideOthers(t *testing.T) {
	f := newServing(t, "beside", `{config: {domain: {same.example.com: "", other.example.com: "selector: {app: x}"}}}`)
	f.plane.Kubectl(t, "-n", f.namespace, "create", "configmap", "config-defaults", "--from-literal="+keyMaxTimeout+"=3600")
	f.contribute("p/region.r", Part{RequestTimeout: 900, Domains: map[string]string{"same.example.com": "", "other.example.com": "", "mine.example.com": ""}})
	outcome := f.applyShared()
	if len(outcome.Warnings) != 1 {
		t.Fatalf("warnings: %v", outcome.Warnings)
	}
	want(t, "warning", outcome.Warnings[0].Summary, "Domain other.example.com of KnativeServing/beside/knative-serving is somebody else's")
	contains(t, outcome.Warnings[0].Detail, `for "selector: {app: x}", and a region wants it for every Service`)
	const theirs = "domain:\n  other.example.com: 'selector: {app: x}'\n  same.example.com: \"\"\n"
	want(t, "configuration", f.config(), "domain:\n  mine.example.com: \"\"\n  other.example.com: 'selector: {app: x}'\n  same.example.com: \"\"\n")

	f.plane.Kubectl(t, "-n", f.namespace, "patch", "knativeserving", "knative-serving", "--type=merge", "-p", `{"spec":{"config":{"domain":{"mine.example.com":"by hand"}}}}`)
	f.applyShared()
	want(t, "repaired", f.config(), "domain:\n  mine.example.com: \"\"\n  other.example.com: 'selector: {app: x}'\n  same.example.com: \"\"\n")
	f.withdraw("p/region.r")
	f.applyShared()
	want(t, "withdrawn", f.config(), theirs)

	f.plane.Kubectl(t, "-n", f.namespace, "delete", "knativeserving", "knative-serving")
	_, err := ApplyShared(t.Context(), f.Cluster, f.namespace, "knative-serving")
	told(t, err, `KnativeServing/beside/knative-serving is not on cluster "plane"`, "Nothing was applied to it", "berth_knative_serving")
}

// leased writes the Lease of a run that died.
func (f *fixture) leased(renewed time.Time, seconds int) {
	f.t.Helper()
	f.apply(fmt.Sprintf(`
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: %s}
spec: {holderIdentity: gone, leaseDurationSeconds: %d, acquireTime: %q, renewTime: %q}
`, leaseName, seconds, microTime(renewed), microTime(renewed)))
}

// A Lease whose holder died is taken over: at first sight when it expired long ago, and otherwise when it was watched for
// its whole duration, whatever the clocks of the two say. Afterwards it is gone.
func TestStaleLease(t *testing.T) {
	for _, row := range []struct {
		name    string
		renewed time.Duration
		seconds int
	}{{"long-ago", -time.Hour, 30}, {"just-now", 0, 1}, {"in-the-future", time.Hour, 1}} {
		t.Run(row.name, func(t *testing.T) {
			f := testCluster(t, "stale-"+row.name)
			f.leased(time.Now().Add(row.renewed), row.seconds)
			ran := false
			err := UnderLease(t.Context(), f.Cluster, f.namespace, func(ctx context.Context) error {
				ran = true
				live, err := f.Fetch(ctx, Leases, f.namespace, leaseName)
				if err == nil {
					contains(t, termOf(live).holder, "platform on ")
				}
				return err
			})
			if err != nil || !ran {
				t.Fatalf("ran: %v, %v", ran, err)
			}
			if live, err := f.Fetch(t.Context(), Leases, f.namespace, leaseName); live != nil || err != nil {
				t.Errorf("the Lease stays: %v, %v", live, err)
			}
		})
	}
}

// A Lease that another run renews is waited for beyond its duration, and at the deadline the message says whose it is; once
// that run is over, the next one has it (promise 8).
func TestLiveLease(t *testing.T) {
	f := testCluster(t, "live-lease")
	holds, release, over := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		over <- newLease(f.afresh("other", nil), f.namespace, time.Second).guard(t.Context(), func(context.Context) error {
			close(holds)
			<-release
			return nil
		})
	}()
	<-holds
	short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var reasons []string
	waiting := f.afresh("platform", func(_ context.Context, step cluster.Step) {
		reasons = append(reasons, step.Object+" "+step.Action+" "+step.Reason)
	})
	never := func(context.Context) error { t.Error("two runs at once"); return nil }
	err := UnderLease(short, waiting, f.namespace, never)
	told(t, err, "Lease/live-lease/berth-knative-shared is held by another run", "it is still the turn of other on ", "Apply again when that run is over",
		"kubectl --context plane get lease berth-knative-shared -n live-lease")
	if len(reasons) == 0 {
		t.Fatal("the wait was not told")
	}
	contains(t, reasons[0], "Lease/live-lease/berth-knative-shared wait until it is free held by other on ")

	next := make(chan error, 1)
	go func() {
		next <- UnderLease(t.Context(), f.Cluster, f.namespace, func(context.Context) error { return nil })
	}()
	close(release)
	for _, done := range []chan error{over, next} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A run that lost its Lease stops, says so, and leaves the Lease to whoever has it now.
func TestLostLease(t *testing.T) {
	f := testCluster(t, "lost-lease")
	err := newLease(f.Cluster, f.namespace, time.Second).guard(t.Context(), func(ctx context.Context) error {
		leases := f.plane.Dynamic().Resource(Leases.GVR()).Namespace(f.namespace)
		// The run itself may renew it at the same moment.
		fleettest.Eventually(t, func(context.Context) error {
			live, err := leases.Get(t.Context(), leaseName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			_ = unstructured.SetNestedField(live.Object, "thief", "spec", "holderIdentity")
			_, err = leases.Update(t.Context(), live, metav1.UpdateOptions{})
			return err
		})
		<-ctx.Done()
		return ctx.Err()
	})
	told(t, err, "Lease/lost-lease/berth-knative-shared was lost", "What was written before stays. Apply again")
	live, fetched := f.Fetch(t.Context(), Leases, f.namespace, leaseName)
	if fetched != nil || live == nil || termOf(live).holder != "thief" {
		t.Errorf("the thief's Lease: %v, %v", live, fetched)
	}
}
