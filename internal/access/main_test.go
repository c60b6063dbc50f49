package access

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// longestToken is what the tests' API server gives at most.
const longestToken = time.Hour

// plane is a control plane whose controllers issue tokens. The first test that asks for it boots it.
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

// The marks of the tests: an access, and two that store its tokens.
var (
	us    = kube.Owner{Configuration: "platform", Resource: "cluster_access.team/berth"}
	first = kube.Owner{Configuration: "platform", Resource: "cluster.edge-1"}
	other = kube.Owner{Configuration: "elsewhere", Resource: "worker_enrollment.tenant/edge-1"}
)

// fixture is a cluster as berth sees it, through a proxy that counts, and an access on it in a namespace of the test's own.
type fixture struct {
	*cluster.Cluster
	t     *testing.T
	plane *fleettest.Cluster
	proxy *fleettest.Proxy
	spec  Spec
	ref   Ref
}

// newFixture gives an access that is not applied yet; its namespace exists.
func newFixture(t *testing.T, namespace string) *fixture {
	t.Helper()
	plane.once.Do(func() {
		plane.fleet, plane.err = fleettest.Start(context.Background(), fleettest.ClusterSpec{
			Name: "plane", ControlPlaneOnly: true, Controllers: true,
			ExtraAPIServerArgs: []string{"--service-account-max-token-expiration=" + longestToken.String()},
		})
	})
	if plane.err != nil {
		t.Fatal(plane.err)
	}
	c := plane.fleet.Cluster("plane")
	f := &fixture{
		t: t, plane: c, proxy: c.Proxy(t, fleettest.ProxyOptions{}),
		spec: Spec{Namespace: namespace, ServiceAccount: "berth", ClusterRole: "view", TokenSecret: true, TokenVersion: 1},
		ref:  Ref{Cluster: "plane", Namespace: namespace, Name: "berth"},
	}
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
	return f.as(f.proxy.AdminKubeconfig())
}

func (f *fixture) as(kubeconfig fleettest.Kubeconfig) *cluster.Cluster {
	f.t.Helper()
	fleet := cluster.NewFleet(cluster.Settings{Owner: us.Configuration, Entries: map[string]cluster.Entry{"plane": {Kubeconfig: kubeconfig.Content()}}})
	c, err := fleet.Cluster("plane")
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// converge applies a Spec; before is what was applied last, nil for nothing.
func (f *fixture) converge(spec Spec, before *Spec) {
	f.t.Helper()
	if _, err := spec.Converge(f.t.Context(), f.Cluster, kube.Terms{Owner: us}, before); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) secret(name string) *corev1.Secret {
	f.t.Helper()
	found, err := f.plane.Client().CoreV1().Secrets(f.spec.Namespace).Get(f.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return found
}

// secrets are the names of all Secrets in the namespace, with the random part of minted ones left out.
func (f *fixture) secrets() []string {
	f.t.Helper()
	all, err := f.plane.Client().CoreV1().Secrets(f.spec.Namespace).List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	names := []string{}
	for _, one := range all.Items {
		name, _, minted := strings.Cut(one.Name, "-minted-")
		if minted {
			name += "-minted"
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (f *fixture) account() *corev1.ServiceAccount {
	f.t.Helper()
	found, err := f.plane.Client().CoreV1().ServiceAccounts(f.spec.Namespace).Get(f.t.Context(), f.spec.ServiceAccount, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return found
}

func (f *fixture) binding() *rbacv1.ClusterRoleBinding {
	f.t.Helper()
	found, err := f.plane.Client().RbacV1().ClusterRoleBindings().Get(f.t.Context(), f.spec.BindingName(), metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return found
}

// take is Take that must succeed.
func (f *fixture) take(consumer kube.Owner) Token {
	f.t.Helper()
	token, err := Take(f.t.Context(), f.Cluster, f.ref, consumer, longestToken)
	if err != nil {
		f.t.Fatal(err)
	}
	return token
}

func (f *fixture) leave(consumer kube.Owner, keep string) {
	f.t.Helper()
	if err := Leave(f.t.Context(), f.Cluster, f.ref, consumer, keep); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) inUse() []string {
	f.t.Helper()
	users, err := InUse(f.t.Context(), f.Cluster, f.ref)
	if err != nil {
		f.t.Fatal(err)
	}
	return users
}

// signIn dials with a token and tells who the API server says that is.
func (f *fixture) signIn(ctx context.Context, token string) (string, error) {
	config := f.plane.AdminKubeconfig()
	config.ClientCertificate, config.ClientKey, config.Token = nil, nil, token
	connection, err := clientcmd.RESTConfigFromKubeConfig([]byte(config.Content()))
	if err != nil {
		return "", err
	}
	client, err := kubernetes.NewForConfig(connection)
	if err != nil {
		return "", err
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return review.Status.UserInfo.Username, nil
}

// accepted waits until the API server takes a token, which it does as soon as its caches know the Secret.
func (f *fixture) accepted(token string) {
	f.t.Helper()
	fleettest.Eventually(f.t, func(ctx context.Context) error {
		user, err := f.signIn(ctx, token)
		if err == nil && user != "system:serviceaccount:"+f.spec.Namespace+":berth" {
			err = fmt.Errorf("the token is of %q", user)
		}
		return err
	})
}

// refused waits until the API server refuses a token: it keeps the answer about one for 10 s.
func (f *fixture) refused(token string) {
	f.t.Helper()
	fleettest.Eventually(f.t, func(ctx context.Context) error {
		user, err := f.signIn(ctx, token)
		if err == nil {
			return fmt.Errorf("the token is still taken, as one of %q", user)
		}
		if !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("refused for another reason: %w", err)
		}
		return nil
	})
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// problem is an error as it reads, for one that has to be a *cluster.Problem.
func problem(t testing.TB, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error is\n%v\nwant %q in it", err, part)
		}
	}
}

func unstructuredOf(t testing.TB, object any) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}
