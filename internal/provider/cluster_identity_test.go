package provider

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berthdev/terraform-provider-berth/internal/argocd"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
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

// When a condition changed last is kept as long as it says the same, and noted anew when its status changes; a new one
// begins then (I10).
func TestLastTransitions(t *testing.T) {
	t.Parallel()
	seen := func(connected string) *argocd.Seen {
		return &argocd.Seen{Conditions: map[string]argocd.Condition{
			argocd.ConditionConnected: {Status: connected, Reason: "r", Message: "m"}, argocd.ConditionRegistered: {Status: "True"},
		}}
	}
	m := registeredModel{LastTransitions: types.MapNull(types.StringType)}
	m.Conditions = types.MapNull(conditionType)
	began := time.Now().Truncate(time.Second)
	at := func(name string) time.Time {
		t.Helper()
		when, err := time.Parse(time.RFC3339, stringMap(t.Context(), m.LastTransitions)[name])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return when
	}
	m.observe(t.Context(), seen("True"))
	for _, name := range []string{argocd.ConditionConnected, argocd.ConditionRegistered} {
		if at(name).Before(began) {
			t.Errorf("%s changed at %s, before it was seen at all", name, at(name))
		}
	}
	old := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m.LastTransitions = stringsValue(map[string]string{argocd.ConditionConnected: old.Format(time.RFC3339), argocd.ConditionRegistered: old.Format(time.RFC3339), "Synced": old.Format(time.RFC3339)})
	m.observe(t.Context(), seen("True"))
	if len(m.LastTransitions.Elements()) != 2 || !at(argocd.ConditionConnected).Equal(old) || !at(argocd.ConditionRegistered).Equal(old) {
		t.Errorf("nothing has changed: %v", m.LastTransitions)
	}
	m.observe(t.Context(), seen("False"))
	if at(argocd.ConditionConnected).Before(began) || !at(argocd.ConditionRegistered).Equal(old) {
		t.Errorf("Connected alone has changed: %v", m.LastTransitions)
	}
}

// What a configuration may say of where a cluster runs, and nothing else (I18).
func TestPlacementValues(t *testing.T) {
	t.Parallel()
	attributes := clusterPlacement()
	registration, is := attributes["registration"].(schema.SingleNestedAttribute)
	if !is {
		t.Fatalf("registration is a %T", attributes["registration"])
	}
	for name, values := range map[string]map[string]bool{
		"provider_name": {"aws": true, "gcp": true, "linode": true, "local": true, "azure": false, "AWS": false, "": false},
		"flavor":        {"k3s": true, "eks": true, "gke": false, "": false},
	} {
		for where, attribute := range map[string]schema.Attribute{"": attributes[name], "registration.": registration.Attributes[name]} {
			text, is := attribute.(schema.StringAttribute)
			if !is || len(text.Validators) != 1 {
				t.Fatalf("%s%s: %T", where, name, attribute)
			}
			for value, good := range values {
				if refuses(t, text.Validators[0], value) == good {
					t.Errorf("%s%s = %q: good is not %t", where, name, value, good)
				}
			}
		}
	}
}

// A removal without a word of the configuration: a step is stuck after 15 minutes, nothing is forced, and nothing of what the
// cluster holds in the cloud is touched (I92, I93, I103, X10).
func TestRemovalDefaults(t *testing.T) {
	t.Parallel()
	call := &call[registeredModel]{owner: kube.Owner{Configuration: "platform", Resource: "cluster.edge"}}
	for argument, want := range map[string]time.Duration{"": 15 * time.Minute, "45m": 45 * time.Minute} {
		m := registeredModel{Removal: types.ObjectNull(removalType.AttrTypes), ForceSteps: types.ListNull(types.StringType)}
		m.AdoptFrom = types.ListNull(types.StringType)
		if argument != "" {
			m.Removal = types.ObjectValueMust(removalType.AttrTypes, map[string]attr.Value{
				"step_timeout": types.StringValue(argument), "release_cloud_resources": types.BoolNull(), "backup_disks": types.BoolNull(), "controllers": types.ListNull(types.StringType),
			})
		}
		removal := m.removal(t.Context(), call)
		if removal.StepTimeout != want || removal.Retain || removal.ReleaseCloudResources || removal.BackupDisks || len(removal.Controllers)+len(removal.Force) > 0 {
			t.Errorf("step_timeout %q: %+v", argument, removal)
		}
	}
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
