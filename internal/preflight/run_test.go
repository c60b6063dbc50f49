package preflight

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// everything asks every kind of check once.
func everything() Spec {
	return Spec{
		KubernetesVersion: ">= 1.35", Features: both, Permissions: []cluster.Permission{createMaps},
		Namespaces:      []Namespace{{Name: "my-instance", PodSecurity: "baseline"}},
		DerivePlatforms: true, Placement: &agents, ContainerRuntime: true, Sizes: map[string]Size{"hold": oneGi(), "big": {Memory: resource.MustParse("512Gi"), CPU: resource.MustParse("64")}},
		QuotaNamespace: "my-instance", QuotaPriorityClass: "batch-low",
		StorageClasses: []ObjectRef{{"storage_classes[0]", "std"}}, DefaultStorageClass: true,
		PriorityClasses: []ObjectRef{{"priority_classes.sandbox", "batch-low"}},
		Secrets:         []SecretRef{{"required_secrets[0]", "my-instance", "git", []string{"token"}}},
	}
}

var everyName = []string{
	"kubernetes_version", "namespaces/my-instance", "pod_security/my-instance", "features/PodLevelResources", "features/ImageVolume", "permissions",
	"platforms", "nodes", "container_runtime", "sizes/big", "sizes/hold", "quota/big", "quota/hold",
	"storage_classes/std", "default_storage_class", "priority_classes/batch-low", "secrets/my-instance/git",
}

func names(report Report) (list []string) {
	for _, check := range report.Checks {
		list = append(list, check.Name)
	}
	return list
}

func statuses(report Report) (list []string) {
	for _, check := range report.Checks {
		list = append(list, check.Name+" "+string(check.Status))
	}
	return list
}

func run(t *testing.T, c Cluster, spec Spec) Report {
	t.Helper()
	report, err := Run(t.Context(), c, spec)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func healthy(t *testing.T) *fake {
	t.Helper()
	c := newFake(t,
		namespace("default"), namespace("my-instance"), node("web-1", "amd64"),
		node("agent-1", "arm64", labeled("pool", "agents"), tainted("pool", "agents", "NoSchedule")), storageClass("std", true),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "my-instance", Name: "git"}, Data: map[string][]byte{"token": []byte("x")}},
	)
	c.planned["PriorityClass /batch-low"] = true
	return c
}

func TestRunReportsInOrder_J9_X4(t *testing.T) {
	c := healthy(t)
	report := run(t, c, everything())
	equal(t, names(report), everyName)
	equal(t, report.Passed(), true)
	equal(t, names(Report{report.Warnings()}), []string{"sizes/big"})
	check, found := report.Check("nodes")
	equal(t, found, true)
	expect(t, check, "nodes", Pass, "sandbox nodes: agent-1", "")
	_, found = report.Check("node")
	equal(t, found, false)
	for question, count := range c.requests {
		if strings.HasPrefix(question, "list ") && count > 1 || question == "create pods" && count != 1 {
			t.Errorf("%s: asked %d times", question, count)
		}
	}
}

func TestRunFailsStaticFactsAndWarnsOfMovingOnes_X4(t *testing.T) {
	c := newFake(t, node("web-1", "amd64", runs("docker://28.1.1")), namespace("default"), namespace("my-instance", enforces("restricted")), resourceQuota(t, "q", "pods 1 1"))
	c.version.GitVersion = "v1.34.2"
	c.lacks = []cluster.Permission{createMaps}
	c.admit = func(pod *corev1.Pod) error { pod.Spec.Resources, pod.Spec.Volumes = nil, nil; return nil }
	report := run(t, c, everything())
	equal(t, report.Passed(), false)
	equal(t, statuses(report), []string{
		"kubernetes_version fail", "namespaces/my-instance pass", "pod_security/my-instance fail", "features/PodLevelResources fail", "features/ImageVolume fail", "permissions fail",
		"platforms pass", "nodes warn", "container_runtime skipped", "sizes/big skipped", "sizes/hold skipped", "quota/big warn", "quota/hold warn",
		"storage_classes/std fail", "default_storage_class fail", "priority_classes/batch-low fail", "secrets/my-instance/git fail",
	})
	equal(t, len(report.Failures()), 9)
	equal(t, len(report.Warnings()), 6)
}

func TestRunOfACredentialThatMayNothingPassesNothingSilently_X4(t *testing.T) {
	c := newFake(t)
	for _, question := range []string{
		"get version", "create selfsubjectaccessreviews", "list nodes", "list namespaces", "get namespaces", "create pods",
		"list resourcequotas", "get storageclasses", "list storageclasses", "get priorityclasses", "get secrets",
	} {
		c.refuse[question] = forbidden("things")
	}
	report := run(t, c, everything())
	equal(t, names(report), everyName)
	for _, check := range report.Checks {
		if check.Status != Warn && check.Status != Skipped || check.Message == "" {
			t.Errorf("got %+v", check)
		}
	}
	check, _ := report.Check("sizes/hold")
	if !strings.Contains(check.Remedy, "To have it checked, apply this and bind it to the credential's user:\n") || !strings.Contains(check.Remedy, "  - nodes\n  verbs:\n  - list\n") {
		t.Errorf("got %+v", check)
	}
}

func TestPlatformsDisableNodeReads_J24_J25_Y19(t *testing.T) {
	c := healthy(t)
	c.refuse["list nodes"] = errors.New("the nodes must not be read")
	spec := everything()
	spec.Platforms = []string{"linux/arm64"}
	report := run(t, c, spec)
	equal(t, names(report), everyName)
	platforms, _ := report.Check("platforms")
	expect(t, platforms, "platforms", Pass, "platforms: linux/arm64 (set; not read from the nodes)", "")
	for _, name := range []string{"nodes", "container_runtime", "sizes/big", "sizes/hold"} {
		check, _ := report.Check(name)
		expect(t, check, name, Skipped, "not checked: `platforms` is set, so the nodes were not read", "")
	}
	equal(t, names(Report{report.Warnings()}), []string{"nodes", "container_runtime", "sizes/big", "sizes/hold"})
	equal(t, c.requests["list nodes"], 0)
}

func TestSizesAloneUseTheOrdinaryPod_J27(t *testing.T) {
	report := run(t, healthy(t), Spec{Sizes: map[string]Size{"hold": oneGi()}})
	equal(t, len(report.Checks), 1)
	expect(t, report.Checks[0], "sizes/hold", Pass, `size "hold" (memory 1Gi, cpu 1) fits web-1`, "")
}

func TestSkipNamesEveryCheck_X2(t *testing.T) {
	spec := everything()
	spec.Endpoints = []Endpoint{{URL: "https://me:hunter2@registry.example.com/v2/?token=hunter3"}}
	const why = "the connection of cluster \"eu-1\" is not known until apply"
	report := spec.Skip(why)
	equal(t, names(report), append(append([]string{}, everyName...), "endpoints/https://registry.example.com/v2/"))
	for _, check := range report.Checks {
		equal(t, check.Status, Skipped)
		equal(t, check.Message, why)
	}
	equal(t, len((Spec{}).Skip(why).Checks), 0)
}

func TestRunFailsWhenTheClusterDoesNotAnswer(t *testing.T) {
	c := healthy(t)
	down := errors.New("dial tcp 10.0.0.1:6443: connect: connection refused")
	c.refuse["get version"] = down
	report, err := Run(t.Context(), c, everything())
	if !errors.Is(err, down) || len(report.Checks) != 0 {
		t.Errorf("got %v, %v", report, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, healthy(t), everything()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestValidate(t *testing.T) {
	if err := everything().Validate(); err != nil {
		t.Error(err)
	}
	spec := Spec{
		KubernetesVersion: "newest", Features: []string{"Magic"}, Platforms: []string{"linux/s390x"},
		Placement: &Placement{Tolerations: []Toleration{{}}}, Namespaces: []Namespace{{Name: "a", PodSecurity: "strict"}},
		Sizes: map[string]Size{"none": {}}, Endpoints: []Endpoint{{URL: "localhost"}},
	}
	err := spec.Validate()
	equal(t, strings.Split(err.Error(), "\n"), []string{
		"`platforms` names linux/s390x" + tail,
		`"newest" is no version constraint: write one such as "1.35" (that or newer) or ">= 1.35, < 1.38"`,
		`berth has no test for the feature "Magic"; it knows "ImageVolume", "PodLevelResources"`,
		"tolerations[0]: without a key the operator must be Exists, which tolerates every taint",
		`"strict" is no Pod Security level: write one of "privileged", "baseline", "restricted"`,
		`size "none" (memory 0, cpu 0) needs a memory and a cpu above zero`,
		"an endpoint is no http:// or https:// address (not shown, since it may hold a password)",
	})
	if _, runErr := Run(t.Context(), newFake(t), spec); runErr == nil || runErr.Error() != err.Error() {
		t.Errorf("got %v", runErr)
	}
}

func TestDetail(t *testing.T) {
	equal(t, Check{Message: "a"}.Detail(), "a")
	equal(t, Check{Message: "a", Remedy: "b"}.Detail(), "a\n\nb")
}
