package charts

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"helm.sh/helm/v3/pkg/chartutil"
)

// traefikVersions are the Traefik of some charts (appVersion in the Chart.yaml of that release of
// github.com/traefik/traefik-helm-chart), which is also the newest that the chart takes.
var traefikVersions = map[string]string{
	"40.0.0": "v3.7.0", "40.1.0": "v3.7.1", "40.2.0": "v3.7.1", "40.3.0": "v3.7.4", "41.0.0": "v3.7.5",
}

// traefikCRDs are the kinds of traefik.io/v1alpha1 by their plural.
var traefikCRDs = map[string]string{
	"ingressroutes": "IngressRoute", "ingressroutetcps": "IngressRouteTCP", "ingressrouteudps": "IngressRouteUDP",
	"middlewares": "Middleware", "middlewaretcps": "MiddlewareTCP",
	"serverstransports": "ServersTransport", "serverstransporttcps": "ServersTransportTCP",
	"tlsoptions": "TLSOption", "tlsstores": "TLSStore", "traefikservices": "TraefikService",
}

// Traefik gives archives of a stand-in for Traefik's chart under the given versions, such as "40.3.0", in their order.
// See TraefikFolder.
func Traefik(t tester, versions ...string) []string {
	t.Helper()
	var archives []string
	for _, version := range versions {
		archives = append(archives, Package(t, TraefikFolder(t, version)))
	}
	return archives
}

// TraefikFolder writes a stand-in for Traefik's chart and gives its folder. It takes the values of the real one, 40.x,
// and refuses keys and Traefik versions that the real one refuses. From image, deployment, ports, providers,
// experimental.knative, service, ingressClass, rbac, serviceAccount and additionalArguments it makes the same
// arguments and objects under the same names: a Deployment, Service and ServiceAccount that are called as the release
// is (where that has "traefik" in it, otherwise <release>-traefik), an IngressClass of that name or of ingressClass.name,
// a ClusterRole with its binding (<name>-<namespace>), and the CRDs of traefik.io, which lie in crds/ and have no schema.
func TraefikFolder(t tester, version string) string {
	t.Helper()
	traefik, err := fs.Sub(testdata, "testdata/traefik")
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "traefik")
	if err := os.CopyFS(folder, traefik); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, chartutil.ChartfileName)
	meta, err := chartutil.LoadChartfile(file)
	if err != nil {
		t.Fatal(err)
	}
	meta.Version, meta.AppVersion = version, or(traefikVersions[version], meta.AppVersion)
	if err := chartutil.SaveChartfile(file, meta); err != nil {
		t.Fatal(err)
	}
	for plural, kind := range traefikCRDs {
		write(t, filepath.Join(folder, "crds", "traefik.io_"+plural+".yaml"), fmt.Sprintf(traefikCRD, plural, kind))
	}
	return folder
}

const traefikCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %[1]s.traefik.io
spec:
  group: traefik.io
  scope: Namespaced
  names:
    kind: %[2]s
    listKind: %[2]sList
    plural: %[1]s
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          x-kubernetes-preserve-unknown-fields: true
`
