package instance

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/preflight"
)

// full is an instance with everything set.
func full() Spec {
	return Spec{
		Name: "app", Namespace: "space", KubernetesFloor: ">= 1.35",
		Registry: "registry.example.com/team", KitRegistry: "mirror.example.com:5000/kit", KitVersion: "1.4.0",
		SandboxImages: map[string]string{"default": "sandbox:1", "tools": "other.example.com/tools:2", "local": "localhost/tools:3", "path": "team/tools:4"},
		Platforms:     []string{"linux/amd64", "linux/arm64"}, Derived: true,
		NodeSelector: map[string]string{"pool": "agents"}, PlacementSet: true,
		Tolerations: []preflight.Toleration{{Key: "pool", Operator: "Equal", Value: "agents", Effect: "NoSchedule"}, {Operator: "Exists"}},
		Sizes:       map[string]Size{"hold": {Memory: "8Gi", CPU: "4"}},
		Sandbox:     "batch-low", PrioritySet: true,
		RequiredSecrets: []SecretRef{{Name: "api", Keys: []string{"token"}}, {Name: "plain"}},
		EnvFrom:         []string{"environment"}, Env: map[string]SecretKey{"B": {"model", "key"}, "A": {"model", "url"}},
		GitCredentials: []GitCredential{{Match: "github.com", Token: &SecretKey{"git", "token"}}, {Match: "*", SSHKeySecret: "git-ssh"}},
		Operator:       &Operator{Image: "example.com/kit/operator:1", Version: "1.0.0", Namespace: "berth-system", ClusterRole: "view"},
		Orchestrator:   &Workload{Image: "example.com/kit/orchestrator:1"}, RepoCache: &Workload{Image: "repo-cache@sha256:00"},
	}
}

// empty is an instance in which everything is set to nothing.
func empty() Spec {
	return Spec{
		Name: "app", Namespace: "space", KubernetesFloor: "1.35", Platforms: []string{"linux/amd64"}, PlacementSet: true, PrioritySet: true,
		SandboxImages: map[string]string{}, Sizes: map[string]Size{}, RequiredSecrets: []SecretRef{}, EnvFrom: []string{},
		Env: map[string]SecretKey{}, GitCredentials: []GitCredential{},
	}
}

func live(t *testing.T, spec Spec, change func(data map[string]any)) *unstructured.Unstructured {
	t.Helper()
	object := spec.configMap().Desired
	data, ok := object.Object["data"].(map[string]any)
	if !ok {
		t.Fatalf("the settings have no data: %v", object.Object)
	}
	if change != nil {
		change(data)
	}
	return object
}

// What the settings hold is what an import reads, and what was not set is not what is empty (J2, J70).
func TestSettingsRoundTrip(t *testing.T) {
	for name, spec := range map[string]Spec{
		"full": full(), "empty": empty(), "minimal": {Name: "app", Namespace: "space", KubernetesFloor: "1.35", Platforms: []string{"linux/amd64"}, Derived: true},
	} {
		read, err := FromSettings(nil, live(t, spec, nil))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(read, spec) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, read, spec)
		}
		if read.ContentHash() != spec.ContentHash() {
			t.Errorf("%s: the hash changed", name)
		}
	}
}

// Settings that somebody has spoilt are an error that names the key, not a guess.
func TestSettingsSpoilt(t *testing.T) {
	fleet := cluster.NewFleet(cluster.Settings{Owner: "team", Entries: map[string]cluster.Entry{"shared": {}}})
	c, err := fleet.Cluster("shared")
	if err != nil {
		t.Fatal(err)
	}
	_, err = FromSettings(c, live(t, full(), func(data map[string]any) { data[keySizes] = `{"hold": 5}` }))
	var problem *cluster.Problem
	if !errors.As(err, &problem) || problem.Summary != "The settings of ConfigMap/space/berth-instance cannot be read" || !strings.Contains(problem.Detail, `The key "sizes.json" on shared is not as berth writes it`) {
		t.Errorf("got %v", err)
	}
}

// The hash is 12 digits, the same for equal settings, and another one for each thing that readers see (J52).
func TestContentHash(t *testing.T) {
	base := full().ContentHash()
	if len(base) != 12 || base != full().ContentHash() {
		t.Errorf("hash %q, again %q", base, full().ContentHash())
	}
	seen := map[string]string{base: "nothing"}
	for what, change := range map[string]func(*Spec){
		"registry": func(s *Spec) { s.Registry = "x" }, "platforms": func(s *Spec) { s.Platforms = s.Platforms[:1] }, "their origin": func(s *Spec) { s.Derived = false },
		"images": func(s *Spec) { s.SandboxImages["default"] = "sandbox:2" }, "toleration": func(s *Spec) { s.Tolerations = s.Tolerations[:1] },
		"size": func(s *Spec) { s.Sizes["hold"] = Size{"8Gi", "5"} }, "class": func(s *Spec) { s.Sandbox = "" }, "secret": func(s *Spec) { s.RequiredSecrets[0].Keys = nil },
		"env": func(s *Spec) { s.EnvFrom = nil }, "floor": func(s *Spec) { s.KubernetesFloor = "1.36" }, "operator": func(s *Spec) { s.Operator.Version = "1.0.1" },
	} {
		spec := full()
		change(&spec)
		if other, taken := seen[spec.ContentHash()]; taken {
			t.Errorf("a change of %s has the hash of a change of %s", what, other)
		}
		seen[spec.ContentHash()] = what
	}
	spec := full()
	spec.NamespaceUID = "1"
	if spec.ContentHash() != base {
		t.Error("what is only known of the cluster moved the hash")
	}
}

// A reference without a registry is below the instance's; a mirror takes the place of the registry and the path of the
// components' images, and of no sandbox image (J13, J18).
func TestImages(t *testing.T) {
	if got, want := full().ImageRefs(), map[string]string{
		"default": "registry.example.com/team/sandbox:1", "tools": "other.example.com/tools:2", "local": "localhost/tools:3", "path": "registry.example.com/team/team/tools:4",
	}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := full().KitImages(), map[string]string{
		"operator": "mirror.example.com:5000/kit/operator:1", "orchestrator": "mirror.example.com:5000/kit/orchestrator:1", "repo_cache": "mirror.example.com:5000/kit/repo-cache@sha256:00",
	}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	spec := full()
	spec.Registry, spec.KitRegistry = "", ""
	if got := spec.ImageRefs()["default"] + " " + spec.KitImages()["operator"]; got != "sandbox:1 example.com/kit/operator:1" {
		t.Errorf("without registries: %s", got)
	}
}

// Nothing that is rendered has a pull secret, and every pod has the class that it belongs to (J17, J36, J72).
func TestRendered(t *testing.T) {
	text, err := json.Marshal(full().settings())
	if err != nil {
		t.Fatal(err)
	}
	all := string(text)
	for _, object := range append(full().own(), full().operator()...) {
		content, err := object.Desired.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		all += string(content)
		if object.Kind == cluster.Deployments || object.Kind == cluster.DaemonSets {
			if class, _, _ := unstructured.NestedString(object.Desired.Object, "spec", "template", "spec", "priorityClassName"); class != ControlClass {
				t.Errorf("%s has class %q", object.Describe(), class)
			}
		}
	}
	if strings.Contains(all, "imagePullSecrets") {
		t.Error("there is a pull secret")
	}
	if !strings.Contains(full().settings()[keyPodTemplate], `"priorityClassName":"batch-low"`) {
		t.Errorf("the sandbox pod: %s", full().settings()[keyPodTemplate])
	}
}

// Rights are asked for what is written and no more: on PriorityClasses only for the default ones, on nodes only when
// they are read, on workloads only when there are any (J11, J25).
func TestPermissions(t *testing.T) {
	asks := func(spec Spec, text string) bool {
		for _, permission := range spec.permissions(Tests{}) {
			if permission.String() == text {
				return true
			}
		}
		return false
	}
	for _, one := range []struct {
		text           string
		full, explicit bool
	}{
		{"create namespaces", true, true},
		{"patch configmaps in namespace space", true, true},
		{"create priorityclasses.scheduling.k8s.io", true, false},
		{"list nodes", true, false},
		{"get secrets in namespace space", true, false},
		{"create daemonsets.apps in namespace space", true, false},
		{"create deployments.apps in namespace berth-system", true, false},
		{"create clusterrolebindings.rbac.authorization.k8s.io", true, false},
		{"create resourcequotas in namespace space", false, false},
	} {
		explicit := Spec{Namespace: "space", Platforms: []string{"linux/amd64"}, Control: "a", Sandbox: "b"}
		if got := [2]bool{asks(full(), one.text), asks(explicit, one.text)}; got != [2]bool{one.full, one.explicit} {
			t.Errorf("%s: %v, want %v", one.text, got, [2]bool{one.full, one.explicit})
		}
	}
}

// Each Secret is named with the argument that wants it (J58 to J62), in an order that never changes.
func TestSecretRefs(t *testing.T) {
	var got []string
	for _, ref := range full().secretRefs() {
		got = append(got, ref.Attribute+" "+ref.Namespace+"/"+ref.Name+" "+strings.Join(ref.Keys, ","))
	}
	want := []string{
		"required_secrets[0] space/api token", "required_secrets[1] space/plain ", "env_from[0] space/environment ", `env["A"] space/model url`, `env["B"] space/model key`,
		"git_credentials[0].token space/git token", "git_credentials[1].ssh_key_secret space/git-ssh ",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	// Only what is new is refused; what went missing later must not stand in the way of a repair.
	before := full()
	spec := full()
	spec.EnvFrom = []string{"environment", "more"}
	if fresh := spec.newSecretRefs(&before); len(fresh) != 1 || fresh[0].Attribute != "env_from[1]" {
		t.Errorf("new: %v", fresh)
	}
}

// Versions are compared as versions, not as text (J12, X8).
func TestCompareVersions(t *testing.T) {
	for _, one := range []struct {
		a, b string
		want int
	}{{"1.10.0", "1.9.0", 1}, {"1.4.0", "1.4.0", 0}, {"1.4.0-rc.1", "1.4.0", -1}, {"v2.0.0", "1.9.9", 1}, {"latest", "1.0.0", -1}} {
		if got := compareVersions(one.a, one.b); got != one.want {
			t.Errorf("%s and %s: %d", one.a, one.b, got)
		}
	}
}
