package cluster_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// plane is the control plane that the tests of this package share; the first test that asks for it boots it.
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

func controlPlane(t *testing.T) *fleettest.Cluster {
	t.Helper()
	plane.once.Do(func() {
		plane.fleet, plane.err = fleettest.Start(context.Background(), fleettest.ClusterSpec{Name: "plane", ControlPlaneOnly: true})
	})
	if plane.err != nil {
		t.Fatal(plane.err)
	}
	return plane.fleet.Cluster("plane")
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
	c := controlPlane(t)
	f := &fixture{t: t, plane: c, proxy: c.Proxy(t, fleettest.ProxyOptions{}), namespace: namespace}
	_, err := c.Client().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.Cluster = f.as(f.proxy.AdminKubeconfig())
	return f
}

// as gives the cluster anew, with nothing known of it, for a credential.
func (f *fixture) as(config fleettest.Kubeconfig) *cluster.Cluster {
	f.t.Helper()
	fleet := cluster.NewFleet(cluster.Settings{Owner: "team", Entries: map[string]cluster.Entry{"plane": {Kubeconfig: config.Content()}}})
	c, err := fleet.Cluster("plane")
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// configMap creates a ConfigMap by other hands. It may be called from any goroutine.
func (f *fixture) configMap(name string, labels map[string]string) {
	f.t.Helper()
	_, err := f.plane.Client().CoreV1().ConfigMaps(f.namespace).Create(f.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Data: map[string]string{"key": "value"},
	}, metav1.CreateOptions{})
	if err != nil {
		f.t.Error(err)
	}
}

// allow lets a user do something with the ConfigMaps of the namespace, and returns when the API server knows.
func (f *fixture) allow(user string, verbs ...string) {
	f.t.Helper()
	roles := f.plane.Client().RbacV1()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: verbs}},
	}
	if _, err := roles.Roles(f.namespace).Create(f.t.Context(), role, metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}},
	}
	if _, err := roles.RoleBindings(f.namespace).Create(f.t.Context(), binding, metav1.CreateOptions{}); err != nil {
		f.t.Fatal(err)
	}
	question := []cluster.Permission{{Verb: verbs[0], Resource: "configmaps", Namespace: f.namespace}}
	fleettest.Eventually(f.t, func(ctx context.Context) error {
		missing, err := f.as(f.plane.UserKubeconfig(f.t, user)).Missing(ctx, question)
		if err == nil && len(missing) > 0 {
			err = fmt.Errorf("the authorizer does not know yet that %s may %v", user, verbs)
		}
		return err
	})
}

var ours = map[string]string{"app.kubernetes.io/managed-by": "berth"}

// requests fails the test unless exactly these have arrived, and forgets them.
func (f *fixture) requests(when string, want map[string]int) {
	f.t.Helper()
	if got := f.proxy.Counts(); fmt.Sprint(got) != fmt.Sprint(want) {
		f.t.Errorf("%s: requests\n got %v\nwant %v\n%v", when, got, want, f.proxy.Requests())
	}
	f.proxy.Reset()
}

// Whoever asks for a kind, however many at once, is answered from one list; an object that the list lacks is asked for
// by name before it counts as missing, and what is written goes through to the list (promise 12).
func TestLive(t *testing.T) {
	f := newFixture(t, "live")
	f.configMap("labelled", ours)
	f.configMap("stripped", nil)
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			live, err := f.Live(t.Context(), cluster.ConfigMaps, "live", "labelled")
			if err != nil || live == nil {
				t.Errorf("the labelled object: %v, %v", live, err)
			}
		})
	}
	group.Wait()
	f.requests("twenty at once", map[string]int{"list configmaps": 1})

	if live, err := f.Live(t.Context(), cluster.ConfigMaps, "live", "stripped"); err != nil || live == nil {
		t.Errorf("the stripped object: %v, %v", live, err)
	}
	if live, err := f.Live(t.Context(), cluster.ConfigMaps, "live", "missing"); err != nil || live != nil {
		t.Errorf("the missing object: %v, %v", live, err)
	}
	f.requests("not in the list", map[string]int{"get configmaps": 2})

	object := cluster.ConfigMaps.New("live", "written")
	object.SetLabels(ours)
	if _, err := f.Create(t.Context(), cluster.ConfigMaps, object, "berth"); err != nil {
		t.Fatal(err)
	}
	object.Object["data"] = map[string]any{"key": "new"}
	if _, err := f.Apply(t.Context(), cluster.ConfigMaps, object, cluster.ApplyOptions{FieldManager: "berth", Force: true}); err != nil {
		t.Fatal(err)
	}
	live, err := f.Live(t.Context(), cluster.ConfigMaps, "live", "written")
	if err != nil || live == nil || fmt.Sprint(live.Object["data"]) != "map[key:new]" {
		t.Errorf("after the writes: %v, %v", live, err)
	}
	f.requests("after writes", map[string]int{"create configmaps": 1, "patch configmaps": 1})
	if err := f.Delete(t.Context(), cluster.ConfigMaps, "live", "written", live.GetUID()); err != nil {
		t.Fatal(err)
	}
	if live, err := f.Live(t.Context(), cluster.ConfigMaps, "live", "written"); err != nil || live != nil {
		t.Errorf("after the deletion: %v, %v", live, err)
	}
	f.requests("after a deletion", map[string]int{"delete configmaps": 1, "get configmaps": 1})
}

// Lists come in pages of 500, of metadata only where only existence matters; a list whose continue token expired
// starts again and misses nothing.
func TestPages(t *testing.T) {
	f := newFixture(t, "pages")
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := worker; i < 520; i += 8 {
				f.configMap(fmt.Sprintf("many-%d", i), ours)
			}
		})
	}
	group.Wait()
	for i := range 520 {
		if found, err := f.Exists(t.Context(), cluster.ConfigMaps, "pages", fmt.Sprintf("many-%d", i)); err != nil || found == nil {
			t.Fatalf("many-%d: %v, %v", i, found, err)
		} else if _, whole := found.Object["data"]; whole {
			t.Fatalf("many-%d came with its data", i)
		}
	}
	if found, err := f.Exists(t.Context(), cluster.ConfigMaps, "pages", "missing"); err != nil || found != nil {
		t.Errorf("missing: %v, %v", found, err)
	}
	pages := f.proxy.Requests()
	if len(pages) != 2 || pages[0].Limit != 500 || !strings.Contains(pages[1].Accept, "as=PartialObjectMetadataList") || pages[1].Continue == "" {
		t.Errorf("requests: %v", pages)
	}
	f.proxy.Reset()

	expired := fleettest.Failure{Status: 410, ContentType: "application/json", Body: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old","code":410}`}
	var once sync.Once
	f.proxy.Fail(func(r fleettest.Request) bool {
		first := false
		if r.Continue != "" {
			once.Do(func() { first = true })
		}
		return first
	}, expired)
	all, err := f.List(t.Context(), cluster.ConfigMaps)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, one := range all {
		if one.GetNamespace() == "pages" {
			count++
		}
	}
	if count != 520 {
		t.Errorf("%d objects after a restarted list, want 520", count)
	}
	f.requests("a restarted list", map[string]int{"list configmaps": 4})
}

// A few foreign objects are asked for by name, many are read from one list, in which no Helm release comes along.
func TestFind(t *testing.T) {
	f := newFixture(t, "find")
	secrets := f.plane.Client().CoreV1().Secrets("find")
	for name, kind := range map[string]corev1.SecretType{"a": "", "b": "", "c": "", "d": "", "e": "", "sh.helm.release.v1.x": "helm.sh/release.v1"} {
		if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: kind}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	find := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if found, err := f.Find(t.Context(), cluster.Secrets, "find", name); err != nil || found == nil {
				t.Errorf("%s: %v, %v", name, found, err)
			}
		}
	}
	find("a", "b", "c")
	f.requests("three", map[string]int{"get secrets": 3})
	find("d", "e", "a")
	if query := f.proxy.Requests()[0].Query.Get("fieldSelector"); query != "type!=helm.sh/release.v1" {
		t.Errorf("the list's field selector is %q", query)
	}
	f.requests("six", map[string]int{"list secrets": 1})
	find("sh.helm.release.v1.x")
	f.requests("what the list leaves out", map[string]int{"get secrets": 1})
}

// Where the credential may not list the whole cluster, the namespace is listed, and where it may not list at all,
// objects are asked for by name; the refusal is asked for once.
func TestNarrowCredential(t *testing.T) {
	f := newFixture(t, "narrow")
	f.configMap("here", ours)
	allow := func(user string, verbs ...string) *cluster.Cluster {
		t.Helper()
		f.allow(user, verbs...)
		f.proxy.Reset()
		return f.as(f.proxy.Through(f.plane.UserKubeconfig(t, user)))
	}
	lister := allow("lister", "get", "list")
	for range 3 {
		if found, err := lister.Exists(t.Context(), cluster.ConfigMaps, "narrow", "here"); err != nil || found == nil {
			t.Fatalf("by namespace: %v, %v", found, err)
		}
		if all, err := lister.ListIn(t.Context(), cluster.ConfigMaps, "narrow"); err != nil || len(all) != 1 {
			t.Fatalf("the namespace's list: %v, %v", all, err)
		}
	}
	f.requests("listing a namespace", map[string]int{"list configmaps": 4})

	getter := allow("getter", "get")
	for range 3 {
		if found, err := getter.Exists(t.Context(), cluster.ConfigMaps, "narrow", "here"); err != nil || found == nil {
			t.Fatalf("by name: %v, %v", found, err)
		}
	}
	if live, err := getter.Live(t.Context(), cluster.ConfigMaps, "narrow", "here"); err != nil || live == nil {
		t.Fatalf("live by name: %v, %v", live, err)
	}
	f.requests("asking by name", map[string]int{"list configmaps": 3, "get configmaps": 4})

	nobody := f.as(f.proxy.Through(f.plane.UserKubeconfig(t, "stranger")))
	_, err := nobody.Exists(t.Context(), cluster.ConfigMaps, "narrow", "here")
	if !apierrors.IsForbidden(err) {
		t.Errorf("a stranger: %v", err)
	}
	if !strings.Contains(err.Error(), `On cluster "plane", user "stranger" may not get configmaps in namespace "narrow"`) {
		t.Errorf("a stranger is told %q", err)
	}
}

// A list that failed, or whose caller gave up, is no answer for the next one.
func TestFailedList(t *testing.T) {
	f := newFixture(t, "failed")
	f.configMap("here", ours)
	restore := f.proxy.Fail(nil, fleettest.BadGateway)
	if _, err := f.Live(t.Context(), cluster.ConfigMaps, "failed", "here"); !cluster.Unreachable(err) {
		t.Errorf("a bad gateway: %v", err)
	}
	restore()
	if live, err := f.Live(t.Context(), cluster.ConfigMaps, "failed", "here"); err != nil || live == nil {
		t.Errorf("after it: %v, %v", live, err)
	}

	second := f.as(f.proxy.AdminKubeconfig())
	f.proxy.Reset()
	restore = f.proxy.Fail(func(r fleettest.Request) bool { return r.Verb == "list" }, fleettest.Silence)
	impatient, giveUp := context.WithCancel(t.Context())
	answers := make(chan error, 2)
	go func() {
		_, err := second.Live(impatient, cluster.ConfigMaps, "failed", "here")
		answers <- err
	}()
	fleettest.Eventually(t, func(context.Context) error {
		if n := f.proxy.Count("list configmaps"); n != 1 {
			return fmt.Errorf("%d lists", n)
		}
		return nil
	})
	patient := make(chan error, 1)
	go func() {
		live, err := second.Live(t.Context(), cluster.ConfigMaps, "failed", "here")
		if err == nil && live == nil {
			err = fmt.Errorf("not found")
		}
		patient <- err
	}()
	restore()
	giveUp()
	if err := <-answers; err == nil {
		t.Error("the impatient caller got an answer")
	}
	if err := <-patient; err != nil {
		t.Errorf("the patient caller: %v", err)
	}
}
