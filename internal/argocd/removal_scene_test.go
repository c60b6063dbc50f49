package argocd

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/terraform-provider-berth/internal/access"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// stage is a management cluster, which knows Argo CD's Applications, and a workload cluster.
type stage struct {
	management, workload *fleettest.Cluster
	scenes               atomic.Int64
}

var (
	resourceCRDs         = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	resourceApplications = Applications.GVR()
)

func newStage(t *testing.T) *stage {
	t.Helper()
	fleet := fleettest.New(t,
		fleettest.ClusterSpec{Name: "mgmt", ControlPlaneOnly: true, Nodes: []fleettest.NodeSpec{{Name: "one"}}},
		fleettest.ClusterSpec{Name: "work", ControlPlaneOnly: true, Controllers: true, LoadBalancer: fleettest.LoadBalancerHostname, Nodes: []fleettest.NodeSpec{{Name: "a"}, {Name: "b"}}},
	)
	s := &stage{management: fleet.Cluster("mgmt"), workload: fleet.Cluster("work")}
	dir, err := fleettest.ModuleDir(t.Context(), "argocd", "github.com/argoproj/argo-cd/v3")
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(dir, "manifests", "crds", "application-crd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	installCRD(t, s.management, string(manifest), resourceApplications)
	return s
}

// installCRD installs a CustomResourceDefinition and waits until its kind is served.
func installCRD(t *testing.T, c *fleettest.Cluster, manifest string, serves schema.GroupVersionResource) {
	t.Helper()
	if _, err := c.Dynamic().Resource(resourceCRDs).Create(t.Context(), objectOf(t, manifest), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	fleettest.Eventually(t, func(ctx context.Context) error {
		_, err := c.Dynamic().Resource(serves).List(ctx, metav1.ListOptions{})
		return err
	})
}

func objectOf(t testing.TB, manifest string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	body, err := yaml.YAMLToJSON([]byte(manifest))
	if err == nil {
		err = json.Unmarshal(body, &object.Object) // with whole numbers as Kubernetes has them
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, manifest)
	}
	return object
}

// stuckAfter is the time limit of a step that is to get stuck; what comes before it has to be quicker, on a busy machine too.
const stuckAfter = 6 * time.Second

// scene is one registered cluster, in a namespace of Argo CD of its own, with the test in Argo CD's place.
type scene struct {
	*argo
	t       *testing.T
	stage   *stage
	proxy   *fleettest.Proxy
	spec    Spec
	removal Removal
	// progress is called with each step of progress.
	progress func(cluster.Step)
}

func (s *stage) scene(t *testing.T) *scene {
	t.Helper()
	name := fmt.Sprintf("edge-%d", s.scenes.Add(1))
	x := &scene{
		t: t, stage: s, proxy: s.management.Proxy(t, fleettest.ProxyOptions{}),
		spec: Spec{
			Name: name, Namespace: "argocd-" + name, SecretName: SecretNameOf(name), KubeconfigNamespace: "keep-" + name, StoreKubeconfig: true,
			AppOfApps: &AppOfApps{ManagementPath: "registry/clusters/mgmt/components"},
			Access:    &access.Ref{Cluster: "work", Namespace: "berth-access", Name: "berth"},
		},
		removal: Removal{
			Terms:       Terms{Owner: kube.Owner{Configuration: "platform", Resource: "cluster." + name}, Held: true},
			StepTimeout: time.Minute,
		},
	}
	for _, namespace := range []string{x.spec.Namespace, x.spec.KubeconfigNamespace} {
		wanted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		if _, err := s.management.Client().CoreV1().Namespaces().Create(t.Context(), wanted, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	x.argo = &argo{t: t, client: s.management.Dynamic(), namespace: x.spec.Namespace, held: map[string]bool{}, brings: map[string][]*unstructured.Unstructured{}, how: map[types.UID]string{}}
	return x
}

// clusters are both, with nothing known of them, as a new process has them.
func (x *scene) clusters() Clusters {
	x.t.Helper()
	fleet := cluster.NewFleet(cluster.Settings{
		Owner: "platform",
		Progress: func(_ context.Context, step cluster.Step) {
			if x.progress != nil {
				x.progress(step)
			}
		},
		Entries: map[string]cluster.Entry{
			"mgmt": {Kubeconfig: x.proxy.AdminKubeconfig().Content()},
			"work": {Kubeconfig: x.stage.workload.AdminKubeconfig().Content()},
		},
	})
	management, err := fleet.Cluster("mgmt")
	if err != nil {
		x.t.Fatal(err)
	}
	workload, err := fleet.Cluster("work")
	if err != nil {
		x.t.Fatal(err)
	}
	return Clusters{Management: management, Workload: workload}
}

// register writes what an apply does: both Secrets and the root Application, with the resource's marks.
func (x *scene) register() {
	x.t.Helper()
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	secret := cluster.Secrets.New(x.spec.Namespace, x.spec.SecretName)
	secret.SetLabels(map[string]string{LabelSecretType: SecretTypeCluster, LabelProvider: "aws", LabelFlavor: "eks", LabelRegion: "us-east-1", LabelOrg: "acme"})
	secret.SetAnnotations(map[string]string{AnnotationClusterUID: x.stage.workload.UID(), AnnotationVersion: "v1.33.1", AnnotationNodes: "7"})
	secret.Object["data"] = map[string]any{"name": encoded(x.spec.Name), "server": encoded(x.server()), "config": encoded("{}")}
	kubeconfig := cluster.Secrets.New(x.spec.KubeconfigNamespace, KubeconfigSecretName(x.spec.Name))
	kubeconfig.Object["data"] = map[string]any{"kubeconfig": encoded("{}")}
	objects := []kube.Object{{Kind: cluster.Secrets, Desired: secret}, {Kind: cluster.Secrets, Desired: kubeconfig}}
	if x.spec.InCluster {
		objects = nil
	}
	if x.spec.AppOfApps != nil && !x.spec.AppOfApps.Commit {
		objects = append(objects, kube.Object{Kind: Applications, Desired: x.application(RootName(x.spec.Name), "", 0, bringing)})
	}
	for _, object := range objects {
		if _, err := kube.Converge(x.t.Context(), x.clusters().Management, object, x.removal.Terms); err != nil {
			x.t.Fatal(err)
		}
	}
}

// server is the address by which Argo CD knows the cluster.
func (x *scene) server() string { return "https://" + x.spec.Name + ".example.com" }

// bringing makes an Application one that brings others, as the root does.
const bringing = `
spec:
  destination: {server: https://kubernetes.default.svc, namespace: argocd}
  syncPolicy: {automated: {prune: true, selfHeal: true}}
`

// application is one as Argo CD has it: brought by another one, unless that is "", with its wave, and changed by manifests.
func (x *scene) application(name, by string, wave int, changes ...string) *unstructured.Unstructured {
	x.t.Helper()
	object := Applications.New(x.spec.Namespace, name)
	object.Object["spec"] = map[string]any{
		"project": "default", "source": map[string]any{"repoURL": "https://git.example.com/apps.git", "path": name},
		"destination": map[string]any{"name": x.spec.Name, "namespace": name},
	}
	if x.spec.InCluster {
		object.Object["spec"].(map[string]any)["destination"] = map[string]any{"server": InClusterServer, "namespace": name}
	}
	if by != "" {
		object.SetAnnotations(map[string]string{
			AnnotationTracking: fmt.Sprintf("%s:argoproj.io/Application:%s/%s", by, x.spec.Namespace, name), AnnotationWave: fmt.Sprint(wave),
		})
	}
	for _, change := range changes {
		merge(object.Object, objectOf(x.t, strings.ReplaceAll(change, "NAMESPACE", x.spec.Namespace)).Object)
	}
	return object
}

// merge puts what one object has into another. A destination is taken as a whole.
func merge(into, from map[string]any) {
	for key, value := range from {
		inner, isMap := value.(map[string]any)
		have, both := into[key].(map[string]any)
		if isMap && both && key != "destination" {
			merge(have, inner)
			continue
		}
		into[key] = value
	}
}

// add creates Applications. One that names another as what brings it is brought back by that while it syncs.
func (x *scene) add(objects ...*unstructured.Unstructured) {
	x.t.Helper()
	for _, object := range objects {
		if by := parentOf(object); by != "" {
			x.bring(by, object)
		}
		if _, err := x.apps().Create(x.t.Context(), object.DeepCopy(), metav1.CreateOptions{}); err != nil {
			x.t.Fatal(err)
		}
	}
}

func (x *scene) apps() dynamic.ResourceInterface {
	return x.client.Resource(resourceApplications).Namespace(x.spec.Namespace)
}

// patch changes an Application as somebody else does.
func (x *scene) patch(name, body string) {
	x.t.Helper()
	if _, err := x.apps().Patch(x.t.Context(), name, types.MergePatchType, []byte(strings.ReplaceAll(body, "NAMESPACE", x.spec.Namespace)), metav1.PatchOptions{}); err != nil {
		x.t.Fatal(err)
	}
}

// left are the objects of the registration that are there: Secrets and Applications.
func (x *scene) left() []string {
	x.t.Helper()
	var names []string
	for _, namespace := range []string{x.spec.Namespace, x.spec.KubeconfigNamespace} {
		secrets, err := x.stage.management.Client().CoreV1().Secrets(namespace).List(x.t.Context(), metav1.ListOptions{})
		if err != nil {
			x.t.Fatal(err)
		}
		for _, one := range secrets.Items {
			names = append(names, "Secret/"+strings.TrimPrefix(one.Name, "cluster-"+x.spec.Name))
		}
	}
	apps, err := x.apps().List(x.t.Context(), metav1.ListOptions{})
	if err != nil {
		x.t.Fatal(err)
	}
	for _, one := range apps.Items {
		names = append(names, one.GetName())
	}
	slices.Sort(names)
	return names
}

// everything is what register and the Applications of a scene are.
func (x *scene) everything(apps ...string) []string {
	all := append([]string{"Secret/", "Secret/-kubeconfig", RootName(x.spec.Name)}, apps...)
	slices.Sort(all)
	return all
}

// remove runs a removal with the test in Argo CD's place.
func (x *scene) remove(ctx context.Context) ([]Warning, error) {
	x.t.Helper()
	stop := x.work()
	defer stop()
	return Remove(ctx, x.clusters(), x.spec, x.removal)
}

// refused fails the test unless a removal is refused with this, and without a write.
func (x *scene) refused(summary string, details ...string) {
	x.t.Helper()
	before := x.left()
	writes := x.proxy.Writes()
	_, err := Remove(x.t.Context(), x.clusters(), x.spec, x.removal)
	told(x.t, err, summary, details...)
	want(x.t, "writes of a removal that is refused", x.proxy.Writes()-writes, 0)
	want(x.t, "what is there after it", x.left(), before)
}

// argo does with Applications what Argo CD's controller does: it deletes what they deployed before it lets go of them,
// orphans that where it does not know their cluster, and has those that sync bring back what is missing.
type argo struct {
	t         *testing.T
	client    dynamic.Interface
	namespace string

	mu     sync.Mutex
	held   map[string]bool // those of which it never lets go
	brings map[string][]*unstructured.Unstructured
	there  map[string]*unstructured.Unstructured
	how    map[types.UID]string // how those went that it let go of
	events []string
}

func (a *argo) bring(by string, object *unstructured.Unstructured) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.brings[by] = append(a.brings[by], object)
}

func (a *argo) hold(name string, yes bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held[name] = yes
}

// happened are its events so far: "deleted x" with what x deployed, "orphaned x", "dropped x" for what went without it, and
// "restored x".
func (a *argo) happened() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Join(a.events, ", ")
}

// work begins, and returns what ends it, once what went has been seen to go; more calls of that do nothing.
func (a *argo) work() func() {
	ctx, cancel := context.WithCancel(context.Background())
	apps := a.client.Resource(resourceApplications).Namespace(a.namespace)
	all, err := apps.List(ctx, metav1.ListOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	changes, err := apps.Watch(ctx, metav1.ListOptions{ResourceVersion: all.GetResourceVersion()})
	if err != nil {
		a.t.Fatal(err)
	}
	a.mu.Lock()
	was := a.there
	a.there = map[string]*unstructured.Unstructured{}
	for i := range all.Items {
		a.there[all.Items[i].GetName()] = &all.Items[i]
	}
	for name, one := range was {
		if a.there[name] == nil {
			a.went(one)
		}
	}
	a.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			a.act(ctx, apps)
			select {
			case <-ctx.Done():
				return
			case event, open := <-changes.ResultChan():
				if !open {
					if ctx.Err() == nil {
						a.t.Error("the watch ended")
					}
					return
				}
				if one, ok := event.Object.(*unstructured.Unstructured); ok {
					a.see(event.Type, one)
				}
			case <-tick.C:
			}
		}
	}()
	return sync.OnceFunc(func() {
		// What is gone by now has been seen to go.
		fleettest.Eventually(a.t, func(ctx context.Context) error {
			all, err := apps.List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			for i := range all.Items {
				if one := a.there[all.Items[i].GetName()]; one == nil || one.GetUID() != all.Items[i].GetUID() {
					return fmt.Errorf("it does not know of Application %s yet", all.Items[i].GetName())
				}
			}
			if len(a.there) != len(all.Items) {
				return fmt.Errorf("it knows of %d Applications, and there are %d", len(a.there), len(all.Items))
			}
			return nil
		})
		cancel()
		changes.Stop()
		<-done
	})
}

// see takes note of a change.
func (a *argo) see(what watch.EventType, one *unstructured.Unstructured) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if what == watch.Deleted {
		a.went(one)
		delete(a.there, one.GetName())
		return
	}
	a.there[one.GetName()] = one
}

// went notes how one went.
func (a *argo) went(one *unstructured.Unstructured) {
	how := a.how[one.GetUID()]
	if how == "" {
		how = "dropped"
	}
	a.events = append(a.events, how+" "+one.GetName())
}

// act does what there is to do.
func (a *argo) act(ctx context.Context, apps dynamic.ResourceInterface) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, err := a.knows(ctx)
	if err != nil {
		a.failed(ctx, err)
		return
	}
	for _, one := range a.there {
		if one.GetDeletionTimestamp() == nil || !slices.ContainsFunc(one.GetFinalizers(), isCascade) {
			continue
		}
		read, how := readApplication(one), "deleted"
		if !read.home() && !known[read.DestinationName] {
			how = "orphaned"
		} else if a.held[one.GetName()] {
			continue
		}
		changed := one.DeepCopy()
		changed.SetFinalizers(slices.DeleteFunc(changed.GetFinalizers(), isCascade))
		if _, err := apps.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
			a.failed(ctx, err)
			continue
		}
		a.how[one.GetUID()] = how
	}
	for by, objects := range a.brings {
		if a.there[by] == nil || !syncs(a.there[by]) {
			continue
		}
		for _, object := range objects {
			if a.there[object.GetName()] != nil {
				continue
			}
			if _, err := apps.Create(ctx, object.DeepCopy(), metav1.CreateOptions{}); err != nil {
				a.failed(ctx, err)
				continue
			}
			a.events = append(a.events, "restored "+object.GetName())
		}
	}
}

// failed fails the test for an error that is not one of having seen something late.
func (a *argo) failed(ctx context.Context, err error) {
	if ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
		a.t.Errorf("the test in Argo CD's place: %v", err)
	}
}

// knows are the names of the clusters that it has a Secret of.
func (a *argo) knows(ctx context.Context) (map[string]bool, error) {
	secrets, err := a.client.Resource(cluster.Secrets.GVR()).Namespace(a.namespace).List(ctx, metav1.ListOptions{LabelSelector: clusterSelector})
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for i := range secrets.Items {
		known[secretField(&secrets.Items[i], "name")] = true
	}
	return known, nil
}
