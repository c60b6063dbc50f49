package preflight

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const tail = " — berth knows images for linux/amd64, linux/arm64 and nothing else, so an image built for anything else could not be joined " +
	"by one of them in the same pod. Set `platforms` (docker platform strings, e.g. \"linux/arm64\") to name the set to build for."

func TestDerivePlatforms_J20_J22_J65(t *testing.T) {
	windows := func(n *corev1.Node) { n.Status.NodeInfo.OperatingSystem = "windows" }
	silent := func(n *corev1.Node) { n.Status.NodeInfo = corev1.NodeSystemInfo{} }
	pool := node("agent", "arm64", labeled("pool", "agents"), tainted("pool", "agents", "NoSchedule"))
	for _, test := range []struct {
		name      string
		placement Placement
		nodes     []corev1.Node
		platforms Platforms
		text      string
		refusal   string
	}{
		{
			"one",
			Placement{},
			nodes(node("a", "amd64")),
			Platforms{Names: []string{"linux/amd64"}, SchedulableNodes: 1},
			"platforms: linux/amd64 (from 1 schedulable node(s))", "",
		},
		{
			"Y18 the count is before skipping",
			Placement{},
			nodes(node("a", "amd64"), node("z", "s390x")),
			Platforms{Names: []string{"linux/amd64"}, SchedulableNodes: 2, SkippedArchitectures: []string{"s390x"}},
			"platforms: linux/amd64 (from 2 schedulable node(s))\n  skipping node arch s390x — berth knows no image for it, so no pod there could run", "",
		},
		{
			"J20 union with the sandbox nodes", agents, nodes(node("a", "amd64"), node("b", "amd64"), pool),
			Platforms{Names: []string{"linux/amd64", "linux/arm64"}, SchedulableNodes: 3},
			"platforms: linux/amd64, linux/arm64 (from 3 schedulable node(s))", "",
		},
		{
			"J20 a pool that is not asked for is not read",
			Placement{},
			nodes(node("a", "amd64"), pool),
			Platforms{Names: []string{"linux/amd64"}, SchedulableNodes: 1},
			"platforms: linux/amd64 (from 1 schedulable node(s))", "",
		},
		{
			"J20 a cordoned node is not read",
			Placement{},
			nodes(node("a", "amd64"), node("b", "arm64", cordoned)),
			Platforms{Names: []string{"linux/amd64"}, SchedulableNodes: 1},
			"platforms: linux/amd64 (from 1 schedulable node(s))", "",
		},
		{
			"a Windows node is no linux/amd64",
			Placement{},
			nodes(node("a", "arm64"), node("w", "amd64", windows)),
			Platforms{Names: []string{"linux/arm64"}, SchedulableNodes: 2, SkippedArchitectures: []string{"windows/amd64"}},
			"platforms: linux/arm64 (from 2 schedulable node(s))\n  skipping node arch windows/amd64 — berth knows no image for it, so no pod there could run", "",
		},
		{
			"J65 nothing released",
			Placement{},
			nodes(node("z", "s390x"), node("y", "s390x"), node("p", "ppc64le"), node("q", "", silent)),
			Platforms{SchedulableNodes: 4, SkippedArchitectures: []string{"ppc64le", "s390x", "unknown"}},
			"", "this cluster's schedulable nodes report ppc64le, s390x, unknown" + tail,
		},
		{
			"J65 no schedulable node",
			Placement{},
			nodes(node("a", "amd64", cordoned)),
			Platforms{},
			"",
			"this cluster has no schedulable node right now to read a platform from" + tail,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			platforms, err := DerivePlatforms(test.placement, test.nodes)
			equal(t, platforms, test.platforms)
			if test.refusal != "" {
				equal(t, err.Error(), test.refusal)
				expect(t, checkPlatforms(test.placement, test.nodes), "platforms", Fail, test.refusal, "")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			equal(t, platforms.String(), test.text)
			status := Pass
			if len(test.platforms.SkippedArchitectures) > 0 {
				status = Warn
			}
			expect(t, checkPlatforms(test.placement, test.nodes), "platforms", status, test.text, "")
		})
	}
}

func TestValidatePlatforms_J21_J64(t *testing.T) {
	if err := ValidatePlatforms([]string{"linux/arm64", "linux/amd64"}); err != nil {
		t.Error(err)
	}
	err := ValidatePlatforms([]string{"linux/s390x", "linux/arm64", "arm64"})
	equal(t, err.Error(), "`platforms` names linux/s390x, arm64"+tail)
}

func TestRequireRegistry_J23(t *testing.T) {
	both := []string{"linux/amd64", "linux/arm64"}
	equal(t, RequireRegistry(both, "").Error(), "images for linux/amd64, linux/arm64 need `registry`: images of several platforms are one manifest list, "+
		"which only a registry can hold. Set `registry`, or name one platform in `platforms`")
	if err := RequireRegistry(both, "registry.example.com/team"); err != nil {
		t.Error(err)
	}
	if err := RequireRegistry(both[:1], ""); err != nil {
		t.Error(err)
	}
}
