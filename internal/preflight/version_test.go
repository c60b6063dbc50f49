package preflight

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/version"
)

func TestVersion_J6_J7(t *testing.T) {
	git := func(text string) *version.Info { return &version.Info{GitVersion: text} }
	const refusal = "refusing: shared runs Kubernetes "
	const floor = "; berth needs Kubernetes 1.35 or newer (every sandbox mounts its runtime as an image volume). Nothing was applied."
	for _, test := range []struct {
		info       *version.Info
		constraint string
		status     Status
		message    string
	}{
		{git("v1.36.1"), "1.35", Pass, "kubernetes: v1.36.1 (floor 1.35)"},
		{git("v1.36.1"), Floor, Pass, "kubernetes: v1.36.1 (floor 1.35)"},
		{git("v1.35.0"), ">= 1.35", Pass, "kubernetes: v1.35.0 (floor 1.35)"},
		{git("v1.35.2-gke.100"), "1.35.2", Pass, "kubernetes: v1.35.2-gke.100 (floor 1.35.2)"},
		{git("v1.36.1+k3s1"), ">= 1.36.1", Pass, "kubernetes: v1.36.1+k3s1 (floor 1.36.1)"},
		{git("v1.35.3-eks-abcdef"), ">= 1.35, < 1.38", Pass, "kubernetes: v1.35.3-eks-abcdef (needs >= 1.35, < 1.38)"},
		{git("v1.36.3-dirty"), "~> 1.35", Pass, "kubernetes: v1.36.3-dirty (needs ~> 1.35)"},
		{&version.Info{Major: "1", Minor: "35+"}, "1.35", Pass, "kubernetes: 1.35+ (floor 1.35)"},
		{&version.Info{Major: "1", Minor: "34+"}, "1.35", Fail, refusal + "1.34+" + floor},
		{git("v1.34.9"), "1.35", Fail, refusal + "v1.34.9" + floor},
		{git("v1.34.9-gke.3000"), ">= 1.35", Fail, refusal + "v1.34.9-gke.3000" + floor},
		{git("v1.9.11"), "1.35", Fail, refusal + "v1.9.11" + floor},
		{git("v1.30.0"), "1.32", Fail, "refusing: shared runs Kubernetes v1.30.0; berth needs Kubernetes 1.32 or newer. Nothing was applied."},
		{git("v1.38.0-gke.1"), ">= 1.35, < 1.38", Fail, "refusing: shared runs Kubernetes v1.38.0-gke.1; this configuration needs Kubernetes >= 1.35, < 1.38. Nothing was applied."},
		{git("v1.35.0-rc.1"), "1.35", Warn, "kubernetes: v1.35.0-rc.1 (floor 1.35); a pre-release, compared as if it were 1.35.0"},
		{git("v1.36.0-alpha.2.14+abc"), "1.35", Warn, "kubernetes: v1.36.0-alpha.2.14+abc (floor 1.35); a pre-release, compared as if it were 1.36.0"},
		{git(""), "1.35", Warn, `unknown: could not find out the version of shared: the API server states the version as gitVersion "", major "", minor ""`},
	} {
		t.Run(test.info.GitVersion+test.info.Minor+" "+test.constraint, func(t *testing.T) {
			c := newFake(t)
			c.version = test.info
			check := CheckVersion(t.Context(), c, test.constraint)
			remedy := ""
			if test.status == Fail {
				remedy = "Upgrade the cluster"
			}
			expect(t, check, "kubernetes_version", test.status, test.message, remedy)
		})
	}
}

func TestVersionForbiddenIsUnknown_X4(t *testing.T) {
	c := newFake(t)
	c.refuse["get version"] = forbidden("version")
	check := CheckVersion(t.Context(), c, "1.35")
	if check.Status != Warn || !strings.HasPrefix(check.Message, "unknown: could not find out the version of shared: ") {
		t.Errorf("got %+v", check)
	}
}

func TestParseConstraintRefuses(t *testing.T) {
	for _, text := range []string{"", "newest", ">= one", "1.35 or newer"} {
		if _, err := ParseConstraint(text); err == nil || !strings.Contains(err.Error(), `is no version constraint: write one such as "1.35"`) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestKubernetesVersion_J7(t *testing.T) {
	c := newFake(t)
	c.version = &version.Info{Major: "1", Minor: "35+", GitVersion: "v1.35.2-gke.100"}
	text, err := KubernetesVersion(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, text, "v1.35.2-gke.100")
}
