package knative

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

const someCRDs = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: services.serving.knative.dev }
---
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: routes.serving.knative.dev }
`

// The CRDs come from a URL or a file in which {version} is the release (R35), fetched again where the server fails for a
// moment (R34).
func TestReadCRDs_R34_R35(t *testing.T) {
	t.Parallel()
	failures := 1
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case failures > 0:
			failures--
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/knative-v1.15.0/serving-crds.yaml":
			_, _ = w.Write([]byte(someCRDs))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	folder := t.TempDir()
	for name, content := range map[string]string{"1.15.0.yaml": someCRDs, "1.16.0.yaml": "", "1.17.0.yaml": "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}\n", "1.18.0.yaml": "\t{"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	byURL, byFile := server.URL+"/knative-v{version}/serving-crds.yaml", filepath.Join(folder, "{version}.yaml")
	for _, source := range []string{byURL, byFile} {
		crds, err := ReadCRDs(t.Context(), source, Version{1, 15})
		if err != nil || len(crds) != 2 || crds[1].GetName() != "routes.serving.knative.dev" {
			t.Errorf("%s: %d CRDs, %v", source, len(crds), err)
		}
	}
	for _, wrong := range []struct {
		source  string
		version Version
		detail  string
	}{
		{byURL, Version{1, 16}, `knative-v1\.16\.0/serving-crds\.yaml: the server answers 404 Not Found\. Correct .crds_source.`},
		{byFile, Version{1, 16}, `1\.16\.0\.yaml: it holds no CRD\.`},
		{byFile, Version{1, 17}, `it holds ConfigMap/x, which is no CRD\.`},
		{byFile, Version{1, 18}, `1\.18\.0\.yaml: .*\. Correct .crds_source. .*set it to "operator"`},
		{byFile, Version{1, 19}, `no such file or directory`},
	} {
		_, err := ReadCRDs(t.Context(), wrong.source, wrong.version)
		problem, told := errors.AsType[*cluster.Problem](err)
		if !told || problem.Attribute != "crds_source" || !regexp.MustCompile(wrong.detail).MatchString(problem.Detail) {
			t.Errorf("%s of %s: %v; want %s", wrong.source, wrong.version, err, wrong.detail)
		}
	}
}
