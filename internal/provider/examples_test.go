package provider_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/argocd"
	"github.com/berthdev/terraform-provider-berth/internal/enroll"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
	"github.com/berthdev/terraform-provider-berth/internal/knative"
)

var (
	exampleCluster  = regexp.MustCompile(`(?m)^\s*(?:cluster|management)\s*=\s*"([^"]+)"`)
	exampleVariable = regexp.MustCompile(`\bvar\.(\w+)`)
)

// exampleBench is what the examples speak of: a cluster with Argo CD's kinds and Kueue, and another one that can be
// registered there.
type exampleBench struct {
	shared, second     *fleettest.Cluster
	mirror, kubeconfig string // the charts, and a file with a context for each cluster
}

// cluster is the one that an example means by a key.
func (b exampleBench) cluster(key string) *fleettest.Cluster {
	if key == "edge" || key == b.second.Name() {
		return b.second
	}
	return b.shared
}

func newExampleBench(t *testing.T) exampleBench {
	t.Helper()
	fleet := fleettest.New(t, fleettest.ClusterSpec{
		Name: "shared", ControlPlaneOnly: true, Controllers: true,
		StorageClasses: []fleettest.StorageClassSpec{{Name: "standard", Default: true}},
		Nodes: []fleettest.NodeSpec{
			{Name: "amd"},
			{
				Name: "agents-1", CPU: "16", Memory: "64Gi", Labels: map[string]string{"pool": "agents"},
				Taints: []corev1.Taint{{Key: "pool", Value: "agents", Effect: corev1.TaintEffectNoSchedule}},
			},
		},
	}, fleettest.ClusterSpec{Name: "eu-1", ControlPlaneOnly: true})
	b := exampleBench{shared: fleet.Cluster("shared"), second: fleet.Cluster("eu-1"), mirror: exampleCharts(t)}
	b.shared.Kubectl(t, "create", "priorityclass", "platform-critical", "--value=100000")
	b.shared.Kubectl(t, "create", "namespace", "existing")
	for _, namespace := range []string{"forecasting", "forecasting-batch", enroll.DefaultKueueNamespace} {
		b.shared.Kubectl(t, "create", "namespace", namespace)
	}
	b.shared.InstallKueueCRDs(t)
	b.shared.KubectlInput(t, kueueManifest(enroll.DefaultKueueNamespace, "v0.17.0", "hub-of-forecasting", "batch/job", "jobset.x-k8s.io/jobset"), "apply", "-f", "-")
	b.shared.InstallArgoCDCRDs(t)
	b.shared.CreateArgoCDNamespace(t, argocd.DefaultNamespace)
	var err error
	if b.kubeconfig, err = fleet.MergeKubeconfigs(); err != nil {
		t.Fatal(err)
	}
	return b
}

// register has the second cluster registered for one example.
func (b exampleBench) register(t *testing.T, name string) {
	t.Helper()
	secrets := b.shared.Client().CoreV1().Secrets(argocd.DefaultNamespace)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster-" + name, Labels: map[string]string{argocd.LabelSecretType: argocd.SecretTypeCluster}},
		StringData: map[string]string{"name": name, "server": b.second.Server(), "config": "{}"},
	}
	if _, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := secrets.Delete(context.Background(), secret.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// Every example is planned against clusters that have what the examples speak of. What an example leaves to its reader
// (the provider's configuration, the value of a variable) is added here.
func TestExamples(t *testing.T) {
	t.Parallel()
	b := newExampleBench(t)
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
		t.Run(name, func(t *testing.T) {
			if name == filepath.Join("data-sources", "berth_cluster_inventory") {
				b.register(t, "edge-us-east-1")
			}
			b.plan(t, folder)
		})
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

func (b exampleBench) plan(t *testing.T, folder string) {
	w := tofutest.New(t, tofutest.Options{})
	config := b.shared.AdminKubeconfig()
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
			entries[match[1]] = byPath(t, b.cluster(match[1]).AdminKubeconfig())
		}
		overrides := ""
		for _, repository := range []string{"https://charts.example.com", "oci://registry.example.com/charts", knative.OperatorRepository, knative.TraefikRepository} {
			overrides += fmt.Sprintf("%q = %q\n", repository, b.mirror)
		}
		w.Write("provider_test.tf", providerBlock("examples", entries, "charts = { repository_overrides = {\n"+overrides+"} }"))
	}
	values := map[string]string{
		"kubeconfig_path": b.kubeconfig, "kubeconfig": config.Content(), "host": b.shared.Server(),
		"token": "not-a-token", "cluster_ca_certificate": string(b.shared.CA()),
		"context": b.shared.Name(), "charts": b.mirror, "serving_version": "1.14",
		"repo_url": "https://git.example.com/platform/gitops.git", "deletion_protection": "true",
	}
	var variables strings.Builder
	declared := map[string]bool{}
	for _, match := range exampleVariable.FindAllStringSubmatch(text, -1) {
		name := match[1]
		value, known := values[name]
		if !known {
			// A certificate will do for whatever an example calls its CA.
			value = string(b.shared.CA())
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
