package fleettest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// clientOf gives a client, with connections of its own, for a kubeconfig.
func clientOf(t *testing.T, config fleettest.Kubeconfig) (*kubernetes.Clientset, *rest.Config) {
	t.Helper()
	restConfig, err := clientcmd.RESTConfigFromKubeConfig([]byte(config.Content()))
	if err != nil {
		t.Fatal(err)
	}
	restConfig.QPS = -1
	client, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		t.Fatal(err)
	}
	return client, restConfig
}

func TestProxy(t *testing.T) {
	c := fleettest.NewCluster(t, fleettest.ClusterSpec{ControlPlaneOnly: true, Proxy: &fleettest.ProxyOptions{}})
	if c.Server() != c.FrontProxy().Server() {
		t.Errorf("the kubeconfig leads to %s, past the proxy", c.Server())
	}
	t.Run("log", func(t *testing.T) { testLog(t, c) })
	t.Run("identity", func(t *testing.T) { testIdentity(t, c) })
	t.Run("uid", func(t *testing.T) { testUID(t, c) })
	t.Run("writes", func(t *testing.T) { testWrites(t, c) })
	t.Run("failures", func(t *testing.T) { testFailures(t, c) })
	t.Run("refused", func(t *testing.T) { testRefused(t, c) })
	t.Run("frozen", func(t *testing.T) { testFrozen(t, c) })
}

func testLog(t *testing.T, c *fleettest.Cluster) {
	p := c.Proxy(t, fleettest.ProxyOptions{})
	client, _ := clientOf(t, p.AdminKubeconfig())
	ctx, maps := t.Context(), client.CoreV1().ConfigMaps("default")
	for i := range 5 {
		if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%d", i), Labels: map[string]string{"log": ""}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	options := metav1.ListOptions{Limit: 2, LabelSelector: "log"}
	for {
		page, err := maps.List(ctx, options)
		if err != nil {
			t.Fatal(err)
		}
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	if _, err := maps.Patch(ctx, "m0", types.ApplyPatchType, []byte(`{"apiVersion":"v1","kind":"ConfigMap"}`), metav1.PatchOptions{FieldManager: "test", DryRun: []string{"All"}}); err != nil {
		t.Fatal(err)
	}
	watch, err := maps.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watch.Stop()
	if _, err := maps.Get(ctx, "absent", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "log"}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Discovery().ServerVersion(); err != nil {
		t.Fatal(err)
	}

	want := map[string]int{
		"create configmaps": 5, "list configmaps": 3, "patch configmaps": 1, "watch configmaps": 1, "get configmaps": 1,
		"deletecollection configmaps": 1, "get /version": 1,
	}
	if got := p.Counts(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("counts\n got %v\nwant %v", got, want)
	}
	if p.Writes() != 6 || p.Connections() != 1 {
		t.Errorf("%d writes and %d connections; want 6, the dry run not counted, and 1", p.Writes(), p.Connections())
	}
	requests := p.Requests()
	if r := requests[6]; r.Limit != 2 || r.Continue == "" || r.Namespace != "default" || r.Status != 200 || r.Protocol != "HTTP/2.0" || r.Query.Get("labelSelector") != "log" {
		t.Errorf("second page %+v", r)
	}
	if r := requests[8]; !r.DryRun || r.ContentType != "application/apply-patch+yaml" || r.Name != "m0" {
		t.Errorf("patch %+v", r)
	}
	if r := requests[10]; r.Status != 404 || r.Name != "absent" || !strings.Contains(r.String(), "get configmaps default/absent") {
		t.Errorf("get %v", r)
	}
	p.Reset()
	if len(p.Requests()) != 0 || p.Writes() != 0 || p.Connections() != 0 {
		t.Error("Reset left something")
	}

	p.SetLatency(200 * time.Millisecond)
	before := time.Now()
	if _, err := client.Discovery().ServerVersion(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(before); took < 200*time.Millisecond {
		t.Errorf("answer after %s; want the latency of 200 ms", took)
	}
}

// Two proxies with UIDs of their own are two clusters, whatever form of answer a client asks for; all else is the one
// API server's.
func testUID(t *testing.T, c *fleettest.Cluster) {
	if _, err := c.StartProxy(fleettest.ProxyOptions{UID: "short"}); err == nil || !strings.Contains(err.Error(), `UID "short" has 5 characters; want 36`) {
		t.Errorf("a UID that is none: %v", err)
	}
	own, err := c.Client().CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"} {
		p := c.Proxy(t, fleettest.ProxyOptions{UID: want})
		client, config := clientOf(t, p.AdminKubeconfig())
		whole, err := client.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// As protobuf, and only the metadata.
		partial, err := metadata.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		namespaces := partial.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
		alone, err := namespaces.Get(t.Context(), "kube-system", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		listed, err := namespaces.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		told := map[string]string{}
		for _, one := range listed.Items {
			told[one.Name] = string(one.UID)
		}
		if got := fmt.Sprint(whole.UID, alone.UID, told["kube-system"], told["default"]); got != fmt.Sprint(want, want, want, own.UID) {
			t.Errorf("UIDs of kube-system (whole, its metadata, in a list) and of default:\n got %s\nwant %s three times, and %s", got, want, own.UID)
		}
		update, err := namespaces.Patch(t.Context(), "kube-system", types.MergePatchType, []byte(`{"metadata":{"labels":{"renamed":"true"}}}`), metav1.PatchOptions{})
		if err != nil || string(update.UID) != want {
			t.Errorf("the answer to a write: %v, %v", update, err)
		}
		if protocol := p.Requests()[1].Accept; !strings.Contains(protocol, "protobuf;as=PartialObjectMetadata") {
			t.Errorf("the metadata was asked for as %q", protocol)
		}
	}
}

// The API server sees the client, not the proxy.
func testIdentity(t *testing.T, c *fleettest.Cluster) {
	p := c.Proxy(t, fleettest.ProxyOptions{})
	anonymous := p.AdminKubeconfig()
	anonymous.ClientCertificate, anonymous.ClientKey = nil, nil
	badToken := anonymous
	badToken.Token = "wrong"
	for name, test := range map[string]struct {
		config fleettest.Kubeconfig
		want   string // in the error; "" where the list succeeds
	}{
		"admin":     {p.AdminKubeconfig(), ""},
		"user":      {p.Through(c.UserKubeconfig(t, "jane", "devs")), `User "jane" cannot list resource "secrets"`},
		"account":   {p.Through(c.ServiceAccountKubeconfig(t, "default/robot")), `User "system:serviceaccount:default:robot" cannot list`},
		"anonymous": {anonymous, `User "system:anonymous" cannot list`},
		"bad token": {badToken, "Unauthorized"},
		"expired":   {p.Through(c.ExpiringKubeconfig(t, time.Now().Add(-time.Hour), "admin", "system:masters")), "Unauthorized"},
	} {
		client, _ := clientOf(t, test.config)
		_, err := client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", name, err, test.want)
		}
	}
}

func testWrites(t *testing.T, c *fleettest.Cluster) {
	var calls []string
	exists := func(name string) bool {
		_, err := c.Client().CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
		return err == nil
	}
	p := c.Proxy(t, fleettest.ProxyOptions{
		BeforeWrite: func(n int, r fleettest.Request) {
			calls = append(calls, fmt.Sprintf("before %d %s exists=%t", n, r.Key(), exists("w")))
		},
		AfterWrite: func(n int, r fleettest.Request) {
			calls = append(calls, fmt.Sprintf("after %d %s %d exists=%t", n, r.Key(), r.Status, exists("w")))
		},
	})
	client, _ := clientOf(t, p.AdminKubeconfig())
	maps := client.CoreV1().ConfigMaps("default")
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "w"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(t.Context(), "w", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"before 1 create configmaps exists=false", "after 1 create configmaps 201 exists=true",
		"before 2 delete configmaps exists=true", "after 2 delete configmaps 200 exists=false",
	}
	if !slices.Equal(calls, want) {
		t.Errorf("calls\n got %q\nwant %q", calls, want)
	}

	// A client that ends at a write: what came before it has happened, and the write itself on one side only.
	for _, boundary := range []fleettest.Boundary{fleettest.BeforeWrite, fleettest.AfterWrite} {
		ctx, cancel := context.WithCancel(t.Context())
		fired := p.KillAt(2, boundary, cancel)
		var err error
		for i := range 3 {
			if err == nil {
				_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", boundary, i)}}, metav1.CreateOptions{})
			}
		}
		if err == nil || !fired() {
			t.Errorf("%s: error %v, fired %t", boundary, err, fired())
		}
		got := []bool{exists(string(boundary) + "-0"), exists(string(boundary) + "-1"), exists(string(boundary) + "-2")}
		if want := []bool{true, boundary == fleettest.AfterWrite, false}; !slices.Equal(got, want) {
			t.Errorf("%s: objects exist %v, want %v", boundary, got, want)
		}
	}
}

func testFailures(t *testing.T, c *fleettest.Cluster) {
	p := c.Proxy(t, fleettest.ProxyOptions{})
	_, config := clientOf(t, p.AdminKubeconfig())
	get := func() (int, string, string, error) {
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Server()+"/version", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			return 0, "", "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return response.StatusCode, response.Header.Get("Content-Type"), string(body), err
	}
	for name, f := range map[string]fleettest.Failure{
		"HTML page": fleettest.HTMLPage, "502": fleettest.BadGateway, "503": fleettest.Unavailable, "401": fleettest.Unauthorized, "403": fleettest.Forbidden,
	} {
		restore := p.Fail(func(r fleettest.Request) bool { return r.Path == "/version" }, f)
		if status, kind, body, err := get(); err != nil || status != f.Status || kind != f.ContentType || body != f.Body {
			t.Errorf("%s: %d %q %q %v", name, status, kind, body, err)
		}
		restore()
	}
	restore := p.Fail(nil, fleettest.Silence)
	if _, _, _, err := get(); !strings.Contains(fmt.Sprint(err), "context deadline exceeded") {
		t.Errorf("silence: %v", err)
	}
	restore()
	restore = p.Fail(nil, fleettest.Cut)
	if _, _, _, err := get(); err == nil || strings.Contains(err.Error(), "context deadline exceeded") {
		t.Errorf("cut: %v", err)
	}
	restore()
	// The server does it, and the answer is lost.
	restore = p.Fail(fleettest.Request.IsWrite, fleettest.Failure{Status: 504, AfterForwarding: true})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "lost"}}, metav1.CreateOptions{})
	if !apierrors.IsTimeout(err) {
		t.Errorf("lost answer: %v", err)
	}
	restore()
	if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "lost", metav1.GetOptions{}); err != nil {
		t.Errorf("what was forwarded: %v", err)
	}
	if status, _, _, err := get(); err != nil || status != http.StatusOK {
		t.Errorf("after all failures: %d %v", status, err)
	}
}

func testFrozen(t *testing.T, c *fleettest.Cluster) {
	c.Freeze(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := c.Client().CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}); err == nil {
		t.Error("a frozen API server answered")
	}
	c.Thaw(t)
	if _, err := c.Client().CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// A request that the API server refuses before it has read the body gets its answer, each time: with a body that was
// passed on while it came in, one answer in some 1,600 never ended.
func testRefused(t *testing.T, c *fleettest.Cluster) {
	p := c.Proxy(t, fleettest.ProxyOptions{})
	config := p.Through(c.UserKubeconfig(t, "nobody"))
	var clients errgroup.Group
	for range 8 {
		clients.Go(func() error {
			client, _ := clientOf(t, config)
			for range 400 {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				_, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "refused"}}, metav1.CreateOptions{})
				cancel()
				if !apierrors.IsForbidden(err) {
					return fmt.Errorf("not refused: %w", err)
				}
			}
			return nil
		})
	}
	if err := clients.Wait(); err != nil {
		t.Error(err)
	}
}
