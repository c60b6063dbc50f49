package provider_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/berthdev/terraform-provider-berth/internal/argocd"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// service is a Service of type LoadBalancer, and claim a claim on a volume.
const (
	balancer = "apiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: default}\nspec: {type: LoadBalancer, ports: [{port: 80}]}\n"
	claim    = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: %s, namespace: default}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n"
)

// registered registers the bench's cluster with Applications of two waves and a controller, and waits until they are synced.
func (b *argoBench) registered(arguments ...string) {
	b.t.Helper()
	first, second, controller := b.name+"-first", b.name+"-second", b.name+"-external-dns"
	b.git.Commit(b.t, "two waves and a controller", map[string]string{
		b.components("first.yaml"):      b.application(first, "apps/first", 1),
		b.components("second.yaml"):     b.application(second, "apps/second", 2),
		b.components("controller.yaml"): b.application(controller, "apps/controller", 5, `labels: {team: dns}`),
		"apps/first/config.yaml":        configMap("default", first, "one"),
		"apps/first/claim.yaml":         fmt.Sprintf(claim, first),
		"apps/second/config.yaml":       configMap("default", second, "two"),
		"apps/second/service.yaml":      fmt.Sprintf(balancer, second),
		"apps/controller/config.yaml":   configMap("default", controller, "three"),
	})
	b.use(b.accessBlock() + b.clusterBlock(append([]string{byAccess, b.root()}, arguments...)...))
	b.MustApply()
	for _, name := range []string{"registry-" + b.name, second, controller} {
		b.awaitSynced(name)
	}
	for _, name := range []string{first, second, controller} {
		b.awaitOnEdge("default", name, map[string]string{first: "one", second: "two", controller: "three"}[name])
	}
}

// deletions follows in which order Applications, and what they deployed, go.
type deletions struct {
	mu   sync.Mutex
	gone []string
}

func (b *argoBench) followDeletions() *deletions {
	b.t.Helper()
	d := &deletions{}
	apps, err := b.mgmt.Dynamic().Resource(argocd.Applications.GVR()).Namespace("argocd").Watch(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	secrets, err := b.mgmt.Client().CoreV1().Secrets("argocd").Watch(b.t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=cluster-" + b.name})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, one := range []watch.Interface{apps, secrets} {
		b.t.Cleanup(one.Stop)
		go func() {
			for event := range one.ResultChan() {
				if object, ok := event.Object.(metav1.Object); ok && event.Type == watch.Deleted {
					d.mu.Lock()
					d.gone = append(d.gone, strings.TrimPrefix(object.GetName(), b.name+"-"))
					d.mu.Unlock()
				}
			}
		}()
	}
	return d
}

func (d *deletions) order() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.gone)
}

// A removal with the real Argo CD takes everything down in order, and nothing is orphaned (I78 to I87, I92, I94, I95, I98,
// Y3, Y25): environments and what is foreign block it before anything is deleted, the plan tells what goes, the root goes
// without what it brought, then wave by wave from the highest, controllers last, and Argo CD's Secret at the very end. On
// the second cluster, which was registered by the same configuration, nothing happens.
func TestClusterRemoval(t *testing.T) {
	t.Parallel()
	fleet := newArgoFleet(t, "edge", "core")
	b := newArgoBench(t, fleet, "edge", unique("team"), tofutest.Options{})
	b.registered()
	beside := newArgoBench(t, fleet, "core", b.owner, tofutest.Options{})
	beside.registered()

	// An environment, by the label that a zone has, and an Application that does not belong to the root.
	b.kubectl("label", "application", "-n", "argocd", b.name+"-first", "berth.dev/zone=shop", "berth.dev/product=store", "berth.dev/environment=release")
	b.cluster.KubectlInput(t, b.application("stranger-"+b.name, "apps/first", 0), "apply", "-f", "-")
	b.Destroy().Error(t, `^1 environment\(s\) are placed on cluster "`+b.name+`"$`, `refusing: environments go first\. Nothing was deleted`, `shop`, `force_steps never skips them`)
	b.Destroy().Error(t, `^1 Application\(s\) and 0 ApplicationSet\(s\) on cluster "`+b.name+`" are not its root's`, `stranger-`+b.name, `Nothing was deleted`)
	if b.app("registry-"+b.name) == nil || b.onEdge("default", b.name+"-second") != "two" {
		t.Fatal("a refused destroy deleted something")
	}
	b.kubectl("label", "application", "-n", "argocd", b.name+"-first", "berth.dev/zone-", "berth.dev/product-", "berth.dev/environment-")
	b.kubectl("patch", "application", "-n", "argocd", "stranger-"+b.name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	b.kubectl("delete", "application", "-n", "argocd", "stranger-"+b.name)

	plan := b.MustPlan("-destroy")
	told := fmt.Sprint(plan.Warnings())
	for _, part := range []string{b.name + "-first", b.name + "-second", b.name + "-external-dns", "1Gi", "192.0.2."} {
		if !strings.Contains(told, part) {
			t.Errorf("the plan of the destroy does not tell of %q:\n%s", part, told)
		}
	}
	follow := b.followDeletions()
	b.MustDestroy()
	b.gone()
	var order []string
	fleettest.Eventually(t, func(context.Context) error {
		if order = follow.order(); len(order) < 5 {
			return fmt.Errorf("only %v are seen to go", order)
		}
		return nil
	})
	same(t, "the order", order, []string{"registry-" + b.name, "second", "first", "external-dns", "cluster-" + b.name})
	for _, name := range []string{b.name + "-first", b.name + "-second", b.name + "-external-dns"} {
		same(t, name, b.onEdge("default", name), "")
	}
	left := b.edge.Kubectl(t, "get", "services,pvc,configmaps", "-n", "default", "-o", "name")
	if strings.Contains(left, b.name) {
		t.Fatalf("orphaned on the workload cluster:\n%s", left)
	}

	beside.awaitSynced(beside.name + "-second")
	same(t, "what runs beside it", beside.onEdge("default", beside.name+"-second"), "two")
	beside.PlanIsEmpty()
	beside.MustDestroy()
	beside.gone()
}

// A cluster that is dead can only be removed with its Applications forced, and that lists exactly what they leave (I94; the
// issue's "a dead workload cluster can still be removed, with what that leaves said"). Its access is no longer to be read.
func TestClusterRemovalOfDead(t *testing.T) {
	t.Parallel()
	fleet := newArgoFleet(t, "edge")
	b := newArgoBench(t, fleet, "edge", unique("team"), tofutest.Options{}, `on_unreachable = "warn"`)
	b.registered()
	b.edge.StopAPIServer(t)
	b.Destroy("-target=berth_cluster.edge").Error(t, `^Cluster "`+b.name+`" can't be taken apart in order$`, `it does not answer`, `force_steps = \["applications"\]`, `ConfigMap/default/`+b.name+`-first`)
	if b.app("registry-"+b.name) == nil || b.clusterSecret() == nil {
		t.Fatal("a refused destroy deleted something")
	}
	b.use(b.accessBlock() + b.clusterBlock(byAccess, b.root(), `force_steps = ["applications"]`, `removal = { step_timeout = "1m" }`))
	b.MustApply()
	result := b.MustDestroy("-target=berth_cluster.edge")
	told := result.Warning(t, `may be left behind`).Detail
	for _, part := range []string{"ConfigMap/default/" + b.name + "-first", "PersistentVolumeClaim/default/" + b.name + "-first", "Service/default/" + b.name + "-second", "ConfigMap/default/" + b.name + "-external-dns"} {
		if !strings.Contains(told, part) {
			t.Errorf("what is left behind does not name %q:\n%s", part, told)
		}
	}
	if b.app("registry-"+b.name) != nil || b.app(b.name+"-first") != nil || b.clusterSecret() != nil {
		t.Fatal("something of the registration is left on the management cluster")
	}
	b.edge.StartAPIServer(t)
	same(t, "what was told to be left is there", b.onEdge("default", b.name+"-first"), "one")
}

// Killed at each step of a removal, the next destroy goes on from there, in order, with nothing orphaned (I80, I97, X11;
// promise 5).
func TestClusterRemovalKilled(t *testing.T) {
	t.Parallel()
	fleet := newArgoFleet(t, "edge")
	for _, step := range []string{"root", "applications", "controllers", "disconnect"} {
		t.Run(step, func(t *testing.T) {
			b := newArgoBench(t, fleet, "edge", unique("team"), tofutest.Options{})
			b.registered()
			var running *tofutest.Running
			killed := make(chan struct{})
			var once sync.Once
			ready := make(chan struct{})
			b.proxy.OnWrite(nil, func(_ int, request fleettest.Request) {
				if request.Name != "cluster-"+b.name || b.secretAnnotation("berth.dev/removal-step") != step {
					return
				}
				once.Do(func() {
					<-ready
					if _, err := running.KillProvider(); err != nil {
						t.Error(err)
					}
					close(killed)
				})
			})
			running = b.DestroyAsync()
			close(ready)
			select {
			case <-killed:
			case <-time.After(2 * time.Minute):
				t.Fatalf("the step %q was never written", step)
			}
			if len(running.Wait().Errors()) == 0 {
				t.Fatal("the destroy ended well although its provider was killed")
			}
			b.proxy.OnWrite(nil, nil)
			b.NoTaint()
			same(t, "the step on the Secret", b.secretAnnotation("berth.dev/removal-step"), step)
			b.MustDestroy()
			b.gone()
			left := b.edge.Kubectl(t, "get", "services,pvc,configmaps", "-n", "default", "-o", "name")
			if strings.Contains(left, b.name) {
				t.Fatalf("orphaned on the workload cluster:\n%s", left)
			}
		})
	}
}

func (b *argoBench) secretAnnotation(key string) string {
	b.t.Helper()
	secret := b.clusterSecret()
	if secret == nil {
		return ""
	}
	return secret.Annotations[key]
}
