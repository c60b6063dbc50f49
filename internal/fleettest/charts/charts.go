// Package charts has the Helm charts that tests, the demo and the benchmark install: a stand-in that has an object of
// most kinds, small ones that each make one thing hard, and real ones from their modules; and the repositories and
// registries that serve them.
package charts

import (
	"embed"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// Cluster is a cluster on which every object of the stand-in becomes ready, twenty times over: two nodes, and a default
// StorageClass whose claims bind.
func Cluster(name string) fleettest.ClusterSpec {
	return fleettest.ClusterSpec{
		Name: name,
		Nodes: []fleettest.NodeSpec{
			{Name: "node-1", CPU: "64", Memory: "256Gi", Pods: "500"},
			{Name: "node-2", CPU: "64", Memory: "256Gi", Pods: "500"},
		},
		StorageClasses: []fleettest.StorageClassSpec{{Name: "standard", Default: true}},
	}
}

// source is where a real chart lies.
type source struct {
	module, folder string
	// replace fills in what the project fills in when it publishes the chart, in these files.
	files   []string
	replace *strings.Replacer
}

var sources = map[string]source{
	"kueue":  {module: "sigs.k8s.io/kueue", folder: "charts/kueue"},
	"jobset": {module: "sigs.k8s.io/jobset", folder: "charts/jobset"},
	"knative-operator": {
		module: "knative.dev/operator", folder: "config/charts/knative-operator",
		// hack/generate-helm.sh of the module; its v0.42.2 is the operator of Knative 1.15.2.
		files:   []string{"Chart.yaml", "values.yaml"},
		replace: strings.NewReplacer("{{ version }}", knativeVersion, "{{ tag }}", "v"+knativeVersion),
	},
}

// Module gives the folder of a real chart ("kueue", "jobset" or "knative-operator"): a writable copy from the module
// that tools/charts pins, which is downloaded where the module cache does not have it.
func Module(t tester, name string) string {
	t.Helper()
	from, known := sources[name]
	if !known {
		t.Fatalf("charts: no module has a chart %q", name)
	}
	dir, err := fleettest.ModuleDir(t.Context(), "charts", from.module)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(dir, filepath.FromSlash(from.folder)))); err != nil {
		t.Fatal(err)
	}
	for _, file := range from.files {
		file = filepath.Join(folder, file)
		write(t, file, from.replace.Replace(read(t, file)))
	}
	return folder
}

// Options make a stand-in of its own.
type Options struct {
	// Name, Version and AppVersion are "standin", "1.0.0" and "2.0.0" where empty.
	Name, Version, AppVersion string
	// Values are laid over those of the chart's values.yaml, whose comments say what each does.
	Values map[string]any
	// Files are written beside or over the chart's own, by their path; one that is empty is left out.
	Files map[string]string
}

//go:embed all:testdata/standin all:testdata/traefik
var testdata embed.FS

// Standin writes the stand-in chart and gives its folder. With the values that it has, a release of it is 30 objects of
// 24 kinds, all of which become ready on a Cluster, with one CRD in crds/ (which all stand-ins share) and four hooks.
// Two releases share no object. By its values it can be made to fail: see testdata/standin/values.yaml.
func Standin(t testing.TB, options Options) string {
	t.Helper()
	standin, err := fs.Sub(testdata, "testdata/standin")
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), or(options.Name, "standin"))
	if err := os.CopyFS(folder, standin); err != nil {
		t.Fatal(err)
	}

	file := filepath.Join(folder, chartutil.ChartfileName)
	meta, err := chartutil.LoadChartfile(file)
	if err != nil {
		t.Fatal(err)
	}
	meta.Name = or(options.Name, meta.Name)
	meta.Version = or(options.Version, meta.Version)
	meta.AppVersion = or(options.AppVersion, meta.AppVersion)
	if err := chartutil.SaveChartfile(file, meta); err != nil {
		t.Fatal(err)
	}
	if len(options.Values) > 0 {
		file := filepath.Join(folder, chartutil.ValuesfileName)
		own, over := map[string]any{}, map[string]any{}
		unmarshal(t, []byte(read(t, file)), &own)
		// There and back, so that a map[string]string is merged as any other.
		unmarshal(t, marshal(t, options.Values), &over)
		write(t, file, string(marshal(t, chartutil.CoalesceTables(over, own))))
	}
	for name, content := range options.Files {
		file := filepath.Join(folder, filepath.FromSlash(name))
		if content == "" {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			continue
		}
		write(t, file, content)
	}
	return folder
}

// Folder writes a chart of the given files, by their path in it, with a Chart.yaml where they have none, and gives its
// folder.
func Folder(t testing.TB, name, version string, files map[string]string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), name)
	meta := chart.Metadata{APIVersion: chart.APIVersionV2, Name: name, Version: version, AppVersion: version}
	write(t, filepath.Join(folder, chartutil.ChartfileName), string(marshal(t, meta)))
	for file, content := range files {
		write(t, filepath.Join(folder, filepath.FromSlash(file)), content)
	}
	return folder
}

// Edit replaces text in one of a chart's files; the text has to be there.
func Edit(t tester, folder, file, from, to string) {
	t.Helper()
	file = filepath.Join(folder, filepath.FromSlash(file))
	content := read(t, file)
	if !strings.Contains(content, from) {
		t.Fatalf("charts: %s has no %q", file, from)
	}
	write(t, file, strings.ReplaceAll(content, from, to))
}

// Package gives the archive of the chart in the folder, a file named <name>-<version>.tgz.
func Package(t tester, folder string) string {
	t.Helper()
	loaded, err := loader.LoadDir(folder)
	if err != nil {
		t.Fatalf("charts: %s: %v", folder, err)
	}
	archive, err := chartutil.Save(loaded, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

// Digest gives the digest of a file, "sha256:" and 64 hexadecimal digits.
func Digest(t testing.TB, file string) string {
	t.Helper()
	return digest.FromString(read(t, file)).String()
}

// archive is a chart's archive in memory.
type archive struct {
	name    string // of the file
	content []byte
	meta    *chart.Metadata
}

func open(t testing.TB, file string) archive {
	t.Helper()
	loaded, err := loader.LoadFile(file)
	if err != nil {
		t.Fatalf("charts: %s: %v", file, err)
	}
	return archive{name: path.Base(filepath.ToSlash(file)), content: []byte(read(t, file)), meta: loaded.Metadata}
}

func read(t tester, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func write(t tester, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func marshal(t testing.TB, value any) []byte {
	t.Helper()
	content, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func unmarshal(t testing.TB, content []byte, into any) {
	t.Helper()
	if err := yaml.Unmarshal(content, into); err != nil {
		t.Fatal(err)
	}
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
