package knative

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/release"
)

// Traefik's values have the chart's own keys for all that it has keys for, and arguments for the rest; nothing calls home
// (R25, R33, R47, R79).
func TestIngressValues(t *testing.T) {
	ingress := IngressSpec{
		Image: "registry.example.com:5000/mirror/traefik:v3.7.4", TrustedIPs: []string{"10.0.0.0/24", "2001:db8::/64"},
		ServiceAnnotations: map[string]string{"example.com/scheme": "internal"},
	}
	want(t, "values", yamlOf(t, ingress.Values("traefik-knative", "knative-serving", 130)), `additionalArguments:
- --providers.knative.publicEntrypoints=web,websecure
- --providers.knative.publicService.name=traefik
- --providers.knative.publicService.namespace=knative-serving
- --providers.knative.privateEntrypoints=private
- --providers.knative.privateService.name=traefik-private
- --providers.knative.privateService.namespace=knative-serving
experimental:
  knative: true
global:
  checkNewVersion: false
  sendAnonymousUsage: false
image:
  registry: registry.example.com:5000
  repository: mirror/traefik
  tag: v3.7.4
ingressClass:
  enabled: true
  isDefaultClass: false
  name: traefik-knative
ports:
  private:
    expose:
      default: false
      private: true
    exposedPort: 80
    port: 8081
    protocol: TCP
    transport:
      respondingTimeouts:
        readTimeout: 130s
        writeTimeout: 130s
  web:
    asDefault: true
    expose:
      default: true
    exposedPort: 80
    forwardedHeaders:
      trustedIPs:
      - 10.0.0.0/24
      - 2001:db8::/64
    proxyProtocol:
      trustedIPs:
      - 10.0.0.0/24
      - 2001:db8::/64
    transport:
      respondingTimeouts:
        readTimeout: 130s
        writeTimeout: 130s
  websecure:
    asDefault: true
    expose:
      default: true
    exposedPort: 443
    forwardedHeaders:
      trustedIPs:
      - 10.0.0.0/24
      - 2001:db8::/64
    proxyProtocol:
      trustedIPs:
      - 10.0.0.0/24
      - 2001:db8::/64
    transport:
      respondingTimeouts:
        readTimeout: 130s
        writeTimeout: 130s
providers:
  knative:
    enabled: true
  kubernetesCRD:
    ingressClass: traefik-knative
  kubernetesIngress:
    ingressClass: traefik-knative
service:
  additionalServices:
    private:
      spec:
        type: ClusterIP
  annotations:
    example.com/scheme: internal
  spec:
    type: LoadBalancer
`)
	plain := IngressSpec{}.Values("traefik", "knative-serving", 120)
	if _, set := plain["image"]; set {
		t.Error("without an image the chart's own is not left alone")
	}
	want(t, "IngressRoutes beside no other Traefik", yamlOf(t, plain["providers"].(map[string]any)["kubernetesCRD"]), "ingressClass: \"\"\n")
}

// An image is split where a container runtime splits it (R24).
func TestIngressImage(t *testing.T) {
	for image, values := range map[string]map[string]any{
		"":                                   nil,
		"traefik:v3.7.4":                     {"registry": "docker.io", "repository": "traefik", "tag": "v3.7.4"},
		"traefik":                            {"registry": "docker.io", "repository": "traefik"},
		"mirror/traefik:v3":                  {"registry": "docker.io", "repository": "mirror/traefik", "tag": "v3"},
		"ghcr.io/a/b/traefik:v3.7.4":         {"registry": "ghcr.io", "repository": "a/b/traefik", "tag": "v3.7.4"},
		"localhost/traefik:v3":               {"registry": "localhost", "repository": "traefik", "tag": "v3"},
		"localhost:5000/traefik":             {"registry": "localhost:5000", "repository": "traefik"},
		"ghcr.io/traefik@sha256:00":          {"registry": "ghcr.io", "repository": "traefik", "digest": "sha256:00"},
		"ghcr.io:443/traefik:v3.7@sha256:00": {"registry": "ghcr.io:443", "repository": "traefik", "tag": "v3.7@sha256:00"},
	} {
		want(t, image, imageValues(image), values)
	}
}

const classManifest = `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: %s, annotations: {meta.helm.sh/release-name: %s, meta.helm.sh/release-namespace: %s}}
spec: {controller: traefik.io/ingress-controller}
`

// Traefik serves the class that its release has, and never one that somebody else has (R47).
func TestCheckIngress(t *testing.T) {
	f := testCluster(t, "classes")
	ref := release.Ref{Namespace: "classes", Name: TraefikRelease}
	class := func(name, release, namespace string) {
		t.Helper()
		f.apply(fmt.Sprintf(classManifest, name, release, namespace))
		t.Cleanup(func() { f.plane.Kubectl(t, "delete", "ingressclass", name, "--ignore-not-found") })
	}
	check := func(what, served string) {
		t.Helper()
		got, err := CheckIngress(t.Context(), f.Cluster, ref)
		if err != nil {
			t.Fatal(err)
		}
		want(t, what, got, served)
	}
	check("nobody has a class", "traefik")
	class("traefik", "traefik", "classes")
	check("our release has it", "traefik")
	class("traefik", "traefik", "kube-system")
	check("k3s has it", "traefik-knative")
	class("traefik-knative", "traefik", "classes")
	check("our release has the other", "traefik-knative")
	f.plane.Kubectl(t, "delete", "ingressclass", "traefik")
	check("k3s' has gone since, and what names ours still finds it", "traefik-knative")
	class("traefik", "traefik", "kube-system")
	class("traefik-knative", "edge", "edge")
	_, err := CheckIngress(t.Context(), f.Cluster, ref)
	told(t, err, `Cluster "plane" has no IngressClass left for Traefik`,
		"refusing: on plane", "IngressClass/traefik (controller traefik.io/ingress-controller, kept by helm/kube-system/traefik)",
		"IngressClass/traefik-knative (controller traefik.io/ingress-controller, kept by helm/edge/edge)", "Nothing was applied")
}

// The Ingresses of others that name our class keep Traefik, by either way to name it (R104).
func TestForeignIngresses(t *testing.T) {
	f := testCluster(t, "ingresses")
	for _, one := range []struct{ name, marks, class string }{
		{"by-field", "", "ingressClassName: ours, "},
		{"by-annotation", "kubernetes.io/ingress.class: ours", ""},
		{"another", "", "ingressClassName: theirs, "},
		{"without", "", ""},
		{"of-the-release", "meta.helm.sh/release-name: traefik, meta.helm.sh/release-namespace: ingresses", "ingressClassName: ours, "},
	} {
		f.apply(fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %s, annotations: {%s}}
spec: {%sdefaultBackend: {service: {name: app, port: {number: 80}}}}
`, one.name, one.marks, one.class))
	}
	foreign, err := ForeignIngresses(t.Context(), f.Cluster, "ours", release.Ref{Namespace: "ingresses", Name: "traefik"})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "foreign", foreign, []string{"Ingress/ingresses/by-annotation", "Ingress/ingresses/by-field"})
}

// The external address is an IP or a hostname, and warns when it changes (R26).
func TestAddress(t *testing.T) {
	f := testCluster(t, "addresses")
	read := func() (*Address, *release.Warning) {
		t.Helper()
		address, warning, err := ReadAddress(t.Context(), f.Cluster, f.namespace, "edge")
		if err != nil {
			t.Fatal(err)
		}
		return address, warning
	}
	address, warning := read()
	want(t, "no Service", address, (*Address)(nil))
	contains(t, warning.Detail, "Service/addresses/edge on plane: it does not exist.")

	f.balancer("edge", corev1.ServiceTypeLoadBalancer)
	_, warning = read()
	want(t, "its summary", warning.Summary, "Service/addresses/edge has no external address")
	contains(t, warning.Detail, "no load balancer has given it an external address", "service_annotations")

	f.balance("edge", corev1.LoadBalancerIngress{Hostname: "edge.example.com"})
	byName, warning := read()
	want(t, "hostname", *byName, Address{AddressHostname, "edge.example.com"})
	f.balance("edge", corev1.LoadBalancerIngress{IP: "192.0.2.7"}, corev1.LoadBalancerIngress{IP: "2001:db8::7"})
	byIP, after := read()
	want(t, "IP", *byIP, Address{AddressIP, "192.0.2.7"})
	if warning != nil || after != nil {
		t.Errorf("an address that is there warns: %v, %v", warning, after)
	}

	contains(t, AddressChanged(f.Cluster, byName, byIP).Detail, "It was hostname edge.example.com and is ip 192.0.2.7 now.", "DNS")
	contains(t, AddressChanged(f.Cluster, byName, nil).Summary, `The external address of cluster "plane" is gone`)
	want(t, "the same", AddressChanged(f.Cluster, byIP, &Address{AddressIP, "192.0.2.7"}), (*release.Warning)(nil))
	want(t, "the first", AddressChanged(f.Cluster, nil, byIP), (*release.Warning)(nil))
}

// An address that does not come is a warning with the Service's own events, and no error (R25); an apply that ends first is
// an error, and what never gets one is not waited for.
func TestWaitAddress(t *testing.T) {
	f := testCluster(t, "waiting")
	service := f.balancer("edge", corev1.ServiceTypeLoadBalancer)
	_, err := f.plane.Client().CoreV1().Events("waiting").Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "edge.1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Service", Namespace: "waiting", Name: "edge", UID: service.UID},
		Type:           corev1.EventTypeWarning, Reason: "SyncLoadBalancerFailed", Message: "no subnet has a free address",
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	address, warning, err := WaitAddress(t.Context(), f.Cluster, "waiting", "edge", 2*time.Second)
	if address != nil || warning == nil || err != nil {
		t.Fatalf("got %v, %v, %v", address, warning, err)
	}
	want(t, "summary", warning.Summary, "Service/waiting/edge has no external address")
	contains(t, warning.Detail, "The time limit was reached", "no load balancer has given it", "SyncLoadBalancerFailed: no subnet has a free address",
		"Look at: kubectl --context plane describe service edge -n waiting", "MetalLB")

	looking := make(chan struct{}, 1)
	waiting := f.afresh("platform", func(context.Context, cluster.Step) {
		select {
		case looking <- struct{}{}:
		default:
		}
	})
	type result struct {
		address *Address
		warning *release.Warning
		err     error
	}
	done := make(chan result, 1)
	go func() {
		address, warning, err := WaitAddress(t.Context(), waiting, "waiting", "edge", time.Minute)
		done <- result{address, warning, err}
	}()
	<-looking
	f.balance("edge", corev1.LoadBalancerIngress{IP: "192.0.2.9"})
	if got := <-done; got.address == nil || *got.address != (Address{AddressIP, "192.0.2.9"}) || got.warning != nil || got.err != nil {
		t.Errorf("an address that comes: %+v", got)
	}

	ended, end := context.WithCancel(t.Context())
	end()
	if _, warning, err := WaitAddress(ended, f.Cluster, "waiting", "other", time.Minute); err == nil || warning != nil {
		t.Errorf("an apply that ended: %v, %v", warning, err)
	}
	f.balancer("inside", corev1.ServiceTypeClusterIP)
	if _, warning, err = WaitAddress(t.Context(), f.Cluster, "waiting", "inside", time.Minute); err != nil || warning == nil {
		t.Fatalf("got %v, %v", warning, err)
	}
	contains(t, warning.Detail, "Service/waiting/inside on plane: its type is ClusterIP, not LoadBalancer")
}

// balancer creates a Service.
func (f *fixture) balancer(name string, kind corev1.ServiceType) *corev1.Service {
	f.t.Helper()
	service, err := f.plane.Client().CoreV1().Services(f.namespace).Create(f.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return service
}

// balance plays the load balancer's controller.
func (f *fixture) balance(name string, ingress ...corev1.LoadBalancerIngress) {
	f.t.Helper()
	fleettest.Eventually(f.t, func(ctx context.Context) error {
		services := f.plane.Client().CoreV1().Services(f.namespace)
		service, err := services.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		service.Status.LoadBalancer.Ingress = ingress
		_, err = services.UpdateStatus(ctx, service, metav1.UpdateOptions{})
		return err
	})
}
