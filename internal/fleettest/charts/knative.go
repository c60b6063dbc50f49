package charts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/repo"
)

// knativeVersion is that of the operator, and of its chart, in the module; see sources.
const knativeVersion = "1.15.2"

// KnativeOperator gives archives of the Knative operator's real chart under the given versions ("1.14.2" or "v1.14.2"),
// in their order, as its releases publish them: the file is called knative-operator-v1.14.2.tgz, its Chart.yaml says
// 1.14.2, and the tags of the images are v1.14.2 (hack/generate-helm.sh and hack/generate-yamls.sh of the module). The
// templates of all are those of the module, which are 1.15's.
func KnativeOperator(t tester, versions ...string) []string {
	t.Helper()
	var archives []string
	for _, version := range versions {
		version = strings.TrimPrefix(version, "v")
		folder := Module(t, "knative-operator")
		Edit(t, folder, chartutil.ChartfileName, knativeVersion, version)
		Edit(t, folder, chartutil.ValuesfileName, "v"+knativeVersion, "v"+version)
		packed := Package(t, folder)
		archive := filepath.Join(filepath.Dir(packed), "knative-operator-v"+version+".tgz")
		if err := os.Rename(packed, archive); err != nil {
			t.Fatal(err)
		}
		archives = append(archives, archive)
	}
	return archives
}

// KnativeRepository serves the operator's chart in the given versions. Its index is like the project's own, on the
// branch gh-pages of github.com/knative/operator: it calls the versions "v1.14.2", other than the charts themselves do,
// and each has an appVersion, "1.14.2", which the charts have not.
func KnativeRepository(t testing.TB, versions ...string) *HTTPRepository {
	t.Helper()
	served := Repository(t, KnativeOperator(t, versions...)...)
	served.EditIndex(t, func(index *repo.IndexFile) {
		for _, entry := range index.Entries["knative-operator"] {
			entry.APIVersion, entry.AppVersion, entry.Version = chart.APIVersionV2, entry.Version, "v"+entry.Version
		}
	})
	return served
}
