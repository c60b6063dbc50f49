package charts

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// published is a real chart as its project publishes it, in several versions.
type published struct {
	module, folder, name string
	// versions are there of the module, from the oldest to the latest, each with the folder of tools/ that pins it.
	versions []publishedVersion
	// edit fills in what the project fills in when it publishes a version, such as "0.17.0".
	edit func(t tester, folder, version string)
}

type publishedVersion struct{ version, tool string }

var kueue = published{
	module: "sigs.k8s.io/kueue", folder: "charts/kueue", name: "kueue",
	versions: []publishedVersion{{"0.15.0", "kueue-0.15"}, {"0.17.0", "charts"}},
	// hack/helm-chart-package.sh of the module.
	edit: func(t tester, folder, version string) {
		editLines(t, filepath.Join(folder, chartutil.ValuesfileName), func(line string) string {
			const staging, registry = "us-central1-docker.pkg.dev/k8s-staging-images/kueue/", "registry.k8s.io/kueue/"
			switch key, value, _ := strings.Cut(line, ": "); {
			case strings.HasSuffix(key, " repository"):
				return strings.Replace(line, staging, registry, 1)
			case strings.HasSuffix(key, " tag") && strings.Contains(value, "-0."):
				return key + ": v" + version
			case strings.HasSuffix(key, " pullPolicy"):
				return key + ": IfNotPresent"
			}
			return line
		})
	},
}

// Kueue gives archives of Kueue's real chart in the given versions ("0.17.0"), in their order, as its releases publish
// them: the images are those of registry.k8s.io with the tag v0.17.0. The versions 0.15.0 and 0.17.0 are the modules' own
// charts. Any other one has the templates and values of the next later of these, or of the latest, with its own number.
func Kueue(t tester, versions ...string) []string { return kueue.archives(t, versions) }

// The versions of the charts that Queueing writes: those of Kueue for which there is a program, to upgrade from one to the
// other, and that of JobSet.
var (
	QueueingKueue  = []string{"0.15.0", "0.17.0"}
	QueueingJobSet = "0.10.1"
)

// Queueing writes Kueue's and JobSet's charts (see Kueue and JobSet) into a folder, as Serving does.
func Queueing(ctx context.Context, folder string) error {
	return writeArchives(ctx, folder, func(t tester) []string {
		return append(Kueue(t, QueueingKueue...), JobSet(t, QueueingJobSet)...)
	})
}

// KueueRegistry serves Kueue's chart in the given versions as its project does: the chart kueue in a folder of an OCI
// registry, oci://registry.k8s.io/kueue/charts.
func KueueRegistry(t testing.TB, versions ...string) *OCIRegistry {
	t.Helper()
	return Registry(t, Kueue(t, versions...)...)
}

// KueueRepository is KueueRegistry as a repository with an index.
func KueueRepository(t testing.TB, versions ...string) *HTTPRepository {
	t.Helper()
	return Repository(t, Kueue(t, versions...)...)
}

func (p published) archives(t tester, versions []string) []string {
	t.Helper()
	var archives []string
	for _, version := range versions {
		version = strings.TrimPrefix(version, "v")
		folder := p.copy(t, version)
		file := filepath.Join(folder, chartutil.ChartfileName)
		meta, err := chartutil.LoadChartfile(file)
		if err != nil {
			t.Fatal(err)
		}
		meta.Version, meta.AppVersion = version, "v"+version
		if err := chartutil.SaveChartfile(file, meta); err != nil {
			t.Fatal(err)
		}
		p.edit(t, folder, version)
		archives = append(archives, Package(t, folder))
	}
	return archives
}

// copy writes the module's chart from which one of a version is made.
func (p published) copy(t tester, version string) string {
	t.Helper()
	from := p.versions[len(p.versions)-1]
	asked, err := semver.NewVersion(version)
	if err != nil {
		t.Fatalf("charts: version %q: %v", version, err)
	}
	for _, each := range p.versions {
		if !semver.MustParse(each.version).LessThan(asked) {
			from = each
			break
		}
	}
	dir, err := fleettest.ModuleDir(t.Context(), from.tool, p.module)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), p.name)
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(dir, filepath.FromSlash(p.folder)))); err != nil {
		t.Fatal(err)
	}
	return folder
}

// editLines changes each line of a file.
func editLines(t tester, file string, change func(line string) string) {
	t.Helper()
	var edited strings.Builder
	for line := range strings.Lines(read(t, file)) {
		text := strings.TrimSuffix(line, "\n")
		edited.WriteString(change(text) + line[len(text):])
	}
	write(t, file, edited.String())
}
