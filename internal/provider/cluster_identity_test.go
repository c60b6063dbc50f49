package provider

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berthdev/terraform-provider-berth/internal/argocd"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// An import by identity, which the runners of the other tests do not know yet, names the management cluster alone: the entry
// of the registered one is found by the UID that berth has noted, or else by the address that Argo CD has (I100).
func TestFindRegistered(t *testing.T) {
	t.Parallel()
	fleet := fleettest.New(t, fleettest.ClusterSpec{Name: "mgmt", ControlPlaneOnly: true}, fleettest.ClusterSpec{Name: "edge", ControlPlaneOnly: true})
	mgmt, edge := fleet.Cluster("mgmt"), fleet.Cluster("edge")
	mgmt.Kubectl(t, "create", "namespace", "argocd")
	secret := func(name, server, uid string) {
		t.Helper()
		mgmt.Kubectl(t, "-n", "argocd", "create", "secret", "generic", "s-"+name, "--from-literal=name="+name, "--from-literal=server="+server)
		mgmt.Kubectl(t, "-n", "argocd", "label", "secret", "s-"+name, "argocd.argoproj.io/secret-type=cluster")
		if uid != "" {
			mgmt.Kubectl(t, "-n", "argocd", "annotate", "secret", "s-"+name, argocd.AnnotationClusterUID+"="+uid)
		}
	}
	address := edge.AdminKubeconfig().Server
	secret("noted", "https://203.0.113.10:6443", edge.UID())
	secret("found", strings.Replace(address, "https", "HTTPS", 1)+"/", "")
	secret("gone", "https://203.0.113.11:6443", "no-such-uid")
	entries := func(deferred ...string) (*cluster.Fleet, *cluster.Cluster) {
		t.Helper()
		all := cluster.NewFleet(cluster.Settings{Owner: "platform", Deferred: deferred, Entries: map[string]cluster.Entry{
			"hub": {Kubeconfig: mgmt.AdminKubeconfig().Content()}, "edge-1": {Kubeconfig: edge.AdminKubeconfig().Content()},
		}})
		management, err := all.Cluster("hub")
		if err != nil {
			t.Fatal(err)
		}
		return all, management
	}
	for _, deferred := range [][]string{nil, {"later"}} {
		all, management := entries(deferred...)
		for name, want := range map[string]string{"noted": "edge-1", "found": "edge-1", "never-registered": "hub"} {
			if key, err := findRegistered(t.Context(), all, management, "argocd", name); err != nil || key != want {
				t.Errorf("%s with %v deferred: %q, %v; want %q", name, deferred, key, err, want)
			}
		}
		_, err := findRegistered(t.Context(), all, management, "argocd", "gone")
		problem, is := errors.AsType[*cluster.Problem](err)
		if !is || problem.Summary != `No entry leads to cluster "gone"` || !strings.Contains(problem.Detail, "https://203.0.113.11:6443") || !strings.Contains(problem.Detail, "import it by its ID, management/cluster/name") {
			t.Errorf("with %v deferred: %v", deferred, err)
		}
	}
}

func refuses(t *testing.T, one validator.String, value string) bool {
	t.Helper()
	var resp validator.StringResponse
	one.ValidateString(t.Context(), validator.StringRequest{Path: path.Root("a"), ConfigValue: types.StringValue(value)}, &resp)
	return resp.Diagnostics.HasError()
}

// A name that passes makes names that Kubernetes takes, of at most 63 characters where a label holds them; no name makes a
// panic, since an import takes any (I15, Y12).
func FuzzClusterName(f *testing.F) {
	for _, name := range []string{"edge", strings.Repeat("a", 42), strings.Repeat("a", 43), "Edge", "-a", "a-", "a/b", "../a", "", "é", "a\n", "in-cluster"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		m := registeredModel{Name: types.StringValue(name), Management: types.StringValue("mgmt"), StoreKubeconfig: types.BoolValue(true)}
		m.AppOfApps = types.ObjectUnknown(appOfAppsType.AttrTypes)
		spec, err := m.spec(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		spec.AppOfApps = &argocd.AppOfApps{RepoURL: "https://a", Path: argocd.ComponentsPath(name), ManagementPath: argocd.ComponentsPath("mgmt")}
		if err := m.fill(spec); err != nil {
			t.Fatal(err)
		}
		if refuses(t, clusterName(), name) {
			return
		}
		if len(name) > 42 {
			t.Errorf("%q is too long", name)
		}
		for _, made := range []string{argocd.SecretNameOf(name), argocd.KubeconfigSecretName(name), argocd.RootName(name)} {
			if problems := validation.IsDNS1123Label(made); len(problems) > 0 {
				t.Errorf("%q makes %q: %v", name, made, problems)
			}
		}
	})
}

var hasUser = regexp.MustCompile(`^[^/]*//[^/]*@`)

// A server that passes is an https URL that Argo CD can be given, and one that means the cluster which Argo CD runs in is
// none (I21, Y13).
func FuzzServerAddress(f *testing.F) {
	for _, server := range []string{"https://203.0.113.10:6443", "http://a", "a:1", "https://", "https://kubernetes.default.svc:443/", "https://user@a", "https://a?b", "https://[::1]", "https://a:0", "https://\x00", "https://kubernetes.default.svc.", "HTTPS://a/%2f"} {
		f.Add(server)
	}
	f.Fuzz(func(t *testing.T, server string) {
		if refuses(t, serverURL(), server) {
			return
		}
		if !strings.HasPrefix(server, "https://") || hasUser.MatchString(server) || cluster.SameServer(server, argocd.InClusterServer) {
			t.Errorf("%q passes", server)
		}
		if written, err := cluster.ParseServer(server); err != nil || !cluster.SameServer(written, server) {
			t.Errorf("%q passes and is not what it is written as: %q, %v", server, written, err)
		}
	})
}

// The texts of the refusals of keys name berth's own ones, in whatever form.
func TestLabelKey(t *testing.T) {
	t.Parallel()
	for key, refused := range map[string]bool{
		"tier": false, "example.com/tier": false, "berth.dev/x": true, "users.berth.dev/x": true, "argocd.argoproj.io/x": true, "argoproj.io/x": true, "app.kubernetes.io/managed-by": true,
		"app.kubernetes.io/name": false, "not a key": true, "": true,
	} {
		if refuses(t, labelKey(), key) != refused {
			t.Errorf("%q: refused is not %t", key, refused)
		}
	}
}
