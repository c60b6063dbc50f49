package charts

import (
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
)

var jobSet = published{
	module: "sigs.k8s.io/jobset", folder: "charts/jobset", name: "jobset",
	versions: []publishedVersion{{"0.10.1", "charts"}},
	// hack/helm-chart-package.sh of the module.
	edit: func(t tester, folder, version string) {
		editLines(t, filepath.Join(folder, chartutil.ValuesfileName), func(line string) string {
			switch key, _, _ := strings.Cut(line, ": "); key {
			case "  repository":
				return key + ": registry.k8s.io/jobset/jobset"
			case "  tag":
				return key + ": v" + version
			case "  pullPolicy":
				return key + ": IfNotPresent"
			}
			return line
		})
	},
}

// JobSet gives archives of JobSet's real chart in the given versions ("0.10.1"), in their order, as its releases publish
// them: the image is registry.k8s.io/jobset/jobset with the tag v0.10.1. The version 0.10.1 is the module's own chart, and
// all others have its CRD, templates and values with a number of their own.
func JobSet(t tester, versions ...string) []string { return jobSet.archives(t, versions) }

// JobSetRegistry serves JobSet's chart in the given versions as its project does: the chart jobset in a folder of an OCI
// registry, oci://registry.k8s.io/jobset/charts.
func JobSetRegistry(t testing.TB, versions ...string) *OCIRegistry {
	t.Helper()
	return Registry(t, JobSet(t, versions...)...)
}

// JobSetRepository is JobSetRegistry as a repository with an index.
func JobSetRepository(t testing.TB, versions ...string) *HTTPRepository {
	t.Helper()
	return Repository(t, JobSet(t, versions...)...)
}
