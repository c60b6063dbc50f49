package provider_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
	"github.com/berthdev/terraform-provider-berth/internal/knative"
)

var (
	exampleCluster  = regexp.MustCompile(`(?m)^\s*cluster\s*=\s*"([^"]+)"`)
	exampleVariable = regexp.MustCompile(`\bvar\.(\w+)`)
)

// Every example is planned against a cluster that has what the examples speak of. What an example leaves to its reader
// (the provider's configuration, the value of a variable) is added here.
func TestExamples(t *testing.T) {
	t.Parallel()
	cluster := fleettest.NewCluster(t, fleettest.ClusterSpec{
		Name: "shared", ControlPlaneOnly: true, Controllers: true,
		StorageClasses: []fleettest.StorageClassSpec{{Name: "standard", Default: true}},
		Nodes: []fleettest.NodeSpec{
			{Name: "amd"},
			{
				Name: "agents-1", CPU: "16", Memory: "64Gi", Labels: map[string]string{"pool": "agents"},
				Taints: []corev1.Taint{{Key: "pool", Value: "agents", Effect: corev1.TaintEffectNoSchedule}},
			},
		},
	})
	cluster.Kubectl(t, "create", "priorityclass", "platform-critical", "--value=100000")
	cluster.Kubectl(t, "create", "namespace", "existing")

	mirror := exampleCharts(t)

	root, err := fleettest.Root()
	if err != nil {
		t.Fatal(err)
	}
	examples, folders := filepath.Join(root, "examples"), map[string]bool{}
	err = filepath.WalkDir(examples, func(path string, entry os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".tf") {
			folders[filepath.Dir(path)] = true
		}
		return err
	})
	if err != nil || len(folders) == 0 {
		t.Fatalf("no examples were found: %v", err)
	}
	for folder := range folders {
		name, err := filepath.Rel(examples, folder)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) { planExample(t, cluster, mirror, folder) })
	}
}

// exampleCharts is a folder with the charts that the examples name.
func exampleCharts(t *testing.T) string {
	t.Helper()
	mirror := t.TempDir()
	if err := charts.Serving(t.Context(), mirror); err != nil {
		t.Fatal(err)
	}
	for name, version := range map[string]string{"shop": "1.4.0", "cart": "0.9.2"} {
		folder := charts.Folder(t, name, version, map[string]string{"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n"})
		if err := os.CopyFS(filepath.Join(mirror, name), os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
	}
	return mirror
}

func planExample(t *testing.T, cluster *fleettest.Cluster, mirror, folder string) {
	w := tofutest.New(t, tofutest.Options{})
	config := cluster.AdminKubeconfig()
	var all strings.Builder
	files, err := filepath.Glob(filepath.Join(folder, "*.tf"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(content)
		w.Write(filepath.Base(file), string(content))
	}
	text := all.String()

	if !strings.Contains(text, `provider "berth"`) {
		entries := clusters{"shared": byPath(t, config)}
		for _, match := range exampleCluster.FindAllStringSubmatch(text, -1) {
			entries[match[1]] = byPath(t, config)
		}
		overrides := ""
		for _, repository := range []string{"https://charts.example.com", "oci://registry.example.com/charts", knative.OperatorRepository, knative.TraefikRepository} {
			overrides += fmt.Sprintf("%q = %q\n", repository, mirror)
		}
		w.Write("provider_test.tf", providerBlock("examples", entries, "charts = { repository_overrides = {\n"+overrides+"} }"))
	}
	values := map[string]string{
		"kubeconfig_path": cluster.Kubeconfig(), "kubeconfig": config.Content(), "host": cluster.Server(),
		"token": "not-a-token", "cluster_ca_certificate": string(cluster.CA()),
		"context": cluster.Name(), "charts": mirror, "serving_version": "1.14",
	}
	var variables strings.Builder
	declared := map[string]bool{}
	for _, match := range exampleVariable.FindAllStringSubmatch(text, -1) {
		name := match[1]
		value, known := values[name]
		if !known {
			// A certificate will do for whatever an example calls its CA.
			value = string(cluster.CA())
		}
		if strings.Contains(text, fmt.Sprintf("variable %q", name)) {
			w.SetEnv("TF_VAR_"+name, value)
		} else if !declared[name] {
			declared[name] = true
			fmt.Fprintf(&variables, "variable %q {\n  default = %q\n}\n", name, value)
		}
	}
	w.Write("variables_test.tf", variables.String())
	w.Write("kubeconfig.yaml", config.Content())
	w.MustPlan()
}
