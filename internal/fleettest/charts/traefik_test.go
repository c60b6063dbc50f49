package charts

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func arguments(t *testing.T, object *unstructured.Unstructured) []string {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatalf("containers are %v: %v", containers, err)
	}
	arguments, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	if err != nil {
		t.Fatal(err)
	}
	return arguments
}

// The arguments are those of Traefik, from the keys of its chart (R79, R107).
func TestTraefikArguments(t *testing.T) {
	folder := TraefikFolder(t, "40.3.0")
	plain := mustRender(t, folder, "traefik", "knative-serving", nil)
	names := []string{
		"ClusterRole/traefik-knative-serving", "ClusterRoleBinding/traefik-knative-serving", "Deployment/traefik",
		"IngressClass/traefik", "Service/traefik", "ServiceAccount/traefik",
	}
	if have := slices.Sorted(maps.Keys(plain)); !slices.Equal(have, names) {
		t.Errorf("objects are %v, want %v", have, names)
	}
	trust := map[string]any{"trustedIPs": []any{"10.0.0.0/24", "10.1.0.0/24"}}
	set := mustRender(t, folder, "berth", "knative-serving", map[string]any{
		"experimental":        map[string]any{"knative": true},
		"providers":           map[string]any{"knative": map[string]any{"enabled": true}, "kubernetesCRD": map[string]any{"enabled": false}},
		"additionalArguments": []any{"--providers.knative.publicService.name=berth-traefik"},
		"ingressClass":        map[string]any{"name": "berth"},
		"service":             map[string]any{"annotations": map[string]any{"a": "b"}, "spec": map[string]any{"loadBalancerClass": "example.com/lb"}},
		"ports": map[string]any{
			"web": map[string]any{
				"proxyProtocol": trust, "forwardedHeaders": trust,
				"transport": map[string]any{"respondingTimeouts": map[string]any{"readTimeout": "600s", "writeTimeout": 0}},
			},
			"websecure": map[string]any{"exposedPort": 8443},
		},
	})
	before := arguments(t, plain["Deployment/traefik"])
	now := arguments(t, set["Deployment/berth-traefik"])
	added := slices.DeleteFunc(slices.Clone(now), func(argument string) bool { return slices.Contains(before, argument) })
	want := []string{
		"--providers.kubernetesingress.ingressendpoint.publishedservice=knative-serving/berth-traefik",
		"--experimental.knative",
		"--providers.knative",
		"--entryPoints.web.forwardedHeaders.trustedIPs=10.0.0.0/24,10.1.0.0/24",
		"--entryPoints.web.proxyProtocol.trustedIPs=10.0.0.0/24,10.1.0.0/24",
		"--entryPoints.web.transport.respondingTimeouts.readTimeout=600s",
		"--entryPoints.web.transport.respondingTimeouts.writeTimeout=0",
		"--providers.knative.publicService.name=berth-traefik",
	}
	if !slices.Equal(added, want) {
		t.Errorf("new arguments are\n%s\nwant\n%s", strings.Join(added, "\n"), strings.Join(want, "\n"))
	}
	for _, argument := range []string{"--entryPoints.web.address=:8000/tcp", "--entryPoints.websecure.http.tls=true", "--ping=true"} {
		if !slices.Contains(before, argument) || !slices.Contains(now, argument) {
			t.Errorf("no argument %s", argument)
		}
	}
	if slices.Contains(now, "--providers.kubernetescrd") || !slices.Contains(before, "--providers.kubernetescrd") {
		t.Error("providers.kubernetesCRD.enabled does nothing")
	}

	service := set["Service/berth-traefik"].Object
	spec := service["spec"].(map[string]any)
	if spec["type"] != "LoadBalancer" || spec["loadBalancerClass"] != "example.com/lb" {
		t.Errorf("the Service's spec is %v", spec)
	}
	if ports := spec["ports"].([]any); len(ports) != 2 || ports[1].(map[string]any)["port"] != float64(8443) && ports[1].(map[string]any)["port"] != int64(8443) {
		t.Errorf("the Service's ports are %v, want web and websecure at 8443", ports)
	}
	controller, _, _ := unstructured.NestedString(set["IngressClass/berth"].Object, "spec", "controller")
	if controller != "traefik.io/ingress-controller" {
		t.Errorf("the IngressClass's controller is %q", controller)
	}
}

func TestTraefikRefuses(t *testing.T) {
	folder := TraefikFolder(t, "40.3.0")
	for want, values := range map[string]map[string]any{
		"needs experimental.knative":    {"providers": map[string]any{"knative": map[string]any{"enabled": true}}},
		"as new as v3.7.5":              {"image": map[string]any{"tag": "v3.7.5"}},
		"as old as v3.5.0":              {"image": map[string]any{"tag": "v3.5.0"}},
		"publicEntrypoints":             {"providers": map[string]any{"knative": map[string]any{"publicEntrypoints": []any{"web"}}}},
		"arguments":                     {"arguments": []any{"--ping"}},
		"trustedips":                    {"ports": map[string]any{"web": map[string]any{"trustedips": []any{}}}},
		"additional properties 'class'": {"ingressClass": map[string]any{"class": "x"}},
	} {
		_, err := render(t, folder, "traefik", "traefik", values)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v gives %v, want %q", values, err, want)
		}
	}
}

func TestTraefikVersions(t *testing.T) {
	archives := Traefik(t, "40.0.0", "40.3.0")
	for i, want := range []string{"traefik-40.0.0.tgz v3.7.0", "traefik-40.3.0.tgz v3.7.4"} {
		opened := open(t, archives[i])
		if have := filepath.Base(archives[i]) + " " + opened.meta.AppVersion; have != want {
			t.Errorf("the archive is %s, want %s", have, want)
		}
	}
	rendered, err := render(t, archives[0], "traefik", "traefik", nil)
	if err != nil {
		t.Fatal(err)
	}
	if crds := rendered.Chart.CRDObjects(); len(crds) != 10 {
		t.Errorf("%d CRDs, want 10", len(crds))
	}
}

// The index and the charts call a version differently, as those of the project do (R13, R100).
func TestKnativeRepository(t *testing.T) {
	served := KnativeRepository(t, "v1.14.2", "1.15.2")
	index := string(marshal(t, served.index))
	for _, want := range []string{"version: v1.14.2", "appVersion: 1.14.2", "version: v1.15.2", "- knative-operator-v1.15.2.tgz"} {
		if !strings.Contains(index, want) {
			t.Errorf("the index has no %q:\n%s", want, index)
		}
	}
	archives := KnativeOperator(t, "1.14.2")
	if have := open(t, archives[0]).meta.Version; have != "1.14.2" {
		t.Errorf("the chart is of version %q", have)
	}
	operator := mustRender(t, archives[0], "knative-operator", "knative-operator", nil)["Deployment/knative-operator"]
	containers, _, _ := unstructured.NestedSlice(operator.Object, "spec", "template", "spec", "containers")
	if image := containers[0].(map[string]any)["image"]; image != "gcr.io/knative-releases/knative.dev/operator/cmd/operator:v1.14.2" {
		t.Errorf("the image is %s", image)
	}
}
