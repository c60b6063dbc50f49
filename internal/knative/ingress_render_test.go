package knative

import (
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
)

// What the chart makes of the values is Traefik as Serving's ingress: its Services, its class and its arguments (R25, R33,
// R47, R79).
func TestIngressRendered(t *testing.T) {
	loaded, err := loader.Load(charts.TraefikFolder(t, TraefikChartVersion))
	if err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(new(action.Configuration))
	install.ReleaseName, install.Namespace = TraefikRelease, "knative-serving"
	install.DryRun, install.ClientOnly, install.Replace = true, true, true
	install.KubeVersion = &chartutil.KubeVersion{Version: "v1.36.3", Major: "1", Minor: "36"}
	ingress := IngressSpec{Image: "ghcr.io/mirror/traefik:v3.7.4", TrustedIPs: []string{"10.0.0.0/24", "10.0.1.0/24"}, ServiceAnnotations: map[string]string{"example.com/scheme": "internal"}}
	rendered, err := install.Run(loaded, ingress.Values("traefik-knative", "knative-serving", 130))
	if err != nil {
		t.Fatal(err)
	}
	contains(t, rendered.Manifest,
		"name: "+serviceName+"\n", "type: LoadBalancer", "example.com/scheme: internal",
		"name: traefik-knative\n", `ingressclass.kubernetes.io/is-default-class: "false"`, "networking.internal.knative.dev", "ghcr.io/mirror/traefik:v3.7.4",
		"--providers.kubernetesingress.ingressClass=traefik-knative", "--experimental.knative", "--providers.knative.privateService.name="+privateServiceName,
		"--entryPoints.web.proxyProtocol.trustedIPs=10.0.0.0/24,10.0.1.0/24", "--entryPoints.websecure.forwardedHeaders.trustedIPs=10.0.0.0/24,10.0.1.0/24",
		"--entryPoints.web.transport.respondingTimeouts.readTimeout=130s", "--entryPoints.websecure.transport.respondingTimeouts.writeTimeout=130s",
	)
}
