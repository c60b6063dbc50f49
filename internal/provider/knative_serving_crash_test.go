package provider_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
	"github.com/berthdev/terraform-provider-berth/internal/knative"
)

// stepWrites are the writes of an undisturbed run by which its steps are told apart, each with the side on which it is
// killed: the first and last of a step, and between the steps.
type stepWrite struct {
	name     string
	boundary fleettest.Boundary
	match    func(fleettest.Request) bool
}

func writeOf(verb, resource, name string) func(fleettest.Request) bool {
	return func(r fleettest.Request) bool {
		return r.Verb == verb && r.Resource == resource && (name == "" || r.Name == name) && r.Subresource == ""
	}
}

// Killed between any two steps of an install, of an upgrade or of a destroy, Serving converges in the next run: no taint,
// no second release or Serving, nothing stuck, nothing left to plan (X11, promise 5; acceptance 3 of issue 4). An upgrade of
// the operator is one in place: the KnativeServing keeps its UID (R99). A life is
// killed again and again at one boundary after the other, each of which the run before has not come to.
func TestKnativeServingKilled_R104_X11(t *testing.T) {
	t.Parallel()
	b := newServingBench(t, servingCluster(t, fleettest.LoadBalancerIP), unique("killed"))
	b.serve(`version = "1.14"`, "remove_traefik = true")
	b.killed(b.ApplyAsync, []stepWrite{
		{"before anything", fleettest.BeforeWrite, writeOf("create", "namespaces", "")},
		{"after the operator's record", fleettest.AfterWrite, writeOf("create", "secrets", "")},
		{"after the operator's Deployment", fleettest.AfterWrite, writeOf("create", "deployments", "")},
		{"before the CRDs", fleettest.BeforeWrite, writeOf("create", "customresourcedefinitions", "")},
		{"among the CRDs", fleettest.AfterWrite, writeOf("create", "customresourcedefinitions", "")},
		{"in Traefik's namespace", fleettest.AfterWrite, writeOf("create", "namespaces", "")},
		{"among Traefik's objects", fleettest.AfterWrite, writeOf("create", "ingressclasses", "")},
		{"before the KnativeServing", fleettest.BeforeWrite, writeOf("create", "knativeservings", "")},
		{"after the KnativeServing", fleettest.AfterWrite, writeOf("create", "knativeservings", "")},
	})
	same(t, "instances in the state", len(b.Instances()), 0)
	b.converges("1.14.1 1.14.2")
	uid := b.knativeServing().GetUID()

	b.serve(`version = "1.15"`, "remove_traefik = true")
	b.killed(b.ApplyAsync, []stepWrite{
		{"after the operator's record", fleettest.AfterWrite, writeOf("create", "secrets", "")},
		{"after the operator's Deployment", fleettest.AfterWrite, writeOf("patch", "deployments", "")},
		{"among the CRDs", fleettest.AfterWrite, writeOf("patch", "customresourcedefinitions", "services.serving.knative.dev")},
		{"before the KnativeServing", fleettest.BeforeWrite, writeOf("patch", "knativeservings", "")},
		{"after the KnativeServing", fleettest.AfterWrite, writeOf("patch", "knativeservings", "")},
	})
	b.converges("1.15.2 1.15.2")
	same(t, "the KnativeServing", b.knativeServing().GetUID(), uid)

	// It goes although it serves somebody's Ingress (R104).
	b.kubectl("create", "ingress", "shop", "--class=traefik", "--rule=shop.example.com/=shop:80")
	b.killed(b.DestroyAsync, []stepWrite{
		{"before the KnativeServing", fleettest.BeforeWrite, writeOf("delete", "knativeservings", "")},
		{"after the KnativeServing", fleettest.AfterWrite, writeOf("delete", "knativeservings", "")},
		{"among Traefik's objects", fleettest.AfterWrite, writeOf("delete", "services", "")},
		{"after the namespace", fleettest.AfterWrite, writeOf("delete", "namespaces", "knative-serving")},
		{"among the CRDs", fleettest.AfterWrite, writeOf("delete", "customresourcedefinitions", "images.caching.internal.knative.dev")},
		{"among the operator's objects", fleettest.AfterWrite, writeOf("delete", "deployments", "")},
		{"after the operator's namespace", fleettest.AfterWrite, writeOf("delete", "namespaces", "knative-operator")},
	})
	b.MustDestroy()
	b.nothingLeft()
	same(t, "the Ingress", b.kubectlGet("ingress", "shop", "{.metadata.name}"), "shop")
}

// killed kills one run after the other, each at the first write that matches.
func (b *servingBench) killed(start func(...string) *tofutest.Running, at []stepWrite) {
	b.t.Helper()
	for _, one := range at {
		var run *tofutest.Running
		started, hit := make(chan struct{}), make(chan error, 1)
		once := make(chan struct{}, 1)
		once <- struct{}{}
		restore := func() {}
		kill := func(side fleettest.Boundary) func(int, fleettest.Request) {
			return func(_ int, request fleettest.Request) {
				if side != one.boundary || !one.match(request) {
					return
				}
				select {
				case <-once:
				default:
					return
				}
				<-started
				_, err := run.KillProvider()
				if side == fleettest.BeforeWrite {
					number := request.Write
					restore = b.proxy.Fail(func(r fleettest.Request) bool { return r.Write == number }, fleettest.Cut)
				}
				hit <- err
			}
		}
		b.proxy.Reset()
		b.proxy.OnWrite(kill(fleettest.BeforeWrite), kill(fleettest.AfterWrite))
		run = start()
		close(started)
		result := run.Wait()
		b.proxy.OnWrite(nil, nil)
		if len(once) > 0 {
			b.t.Fatalf("%s: it was not killed; it wrote\n%v\n%s", one.name, b.writes(), result.Log)
		}
		if err := <-hit; err != nil {
			b.t.Fatalf("%s: %v", one.name, err)
		}
		restore()
		b.NoTaint()
	}
}

// converges applies, and fails the test where anything is left to do, is double or is stuck.
func (b *servingBench) converges(versions string) {
	b.t.Helper()
	b.MustApply()
	b.PlanIsEmpty().NoWarnings(b.t)
	state := b.Resource(serving)
	same(b.t, "outputs", row(state["installed_version"], state["operator_version"], state["adopted"], state["drift"]), versions+" [] map[]")
	for _, kind := range []string{"knative-operator", "knative-serving"} {
		secrets, err := b.cluster.Client().CoreV1().Secrets(kind).List(b.t.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
		if err != nil {
			b.t.Fatal(err)
		}
		var statuses []string
		for _, secret := range secrets.Items {
			if status := secret.Labels["status"]; status != "superseded" && status != "failed" {
				statuses = append(statuses, status)
			}
		}
		same(b.t, "current revisions in "+kind, statuses, "[deployed]")
	}
	all, err := b.cluster.Dynamic().Resource(knative.Servings.GVR()).List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	same(b.t, "KnativeServings", len(all.Items), 1)
	same(b.t, "created by berth", slices.ContainsFunc(all.Items, func(one unstructured.Unstructured) bool {
		return one.GetAnnotations()["berth.dev/created-by-berth"] != "true"
	}), false)
}
