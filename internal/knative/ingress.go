package knative

import (
	"fmt"
	"strings"
)

const (
	// entryPointWeb, entryPointSecure and entryPointPrivate are Traefik's entry points: the first two are the chart's, which
	// its Service shows to the world, the last is ours, for what Serving calls cluster-local.
	entryPointWeb     = "web"
	entryPointSecure  = "websecure"
	entryPointPrivate = "private"
	// privatePort is the container port of the private entry point; the chart's own are 8000, 8080, 8443 and 9100.
	privatePort = 8081
	// serviceName is the Service of the release, and of the load balancer; the chart names it after the release.
	serviceName = TraefikRelease
	// privateServiceName is how the chart names an additional Service.
	privateServiceName = serviceName + "-" + entryPointPrivate
	// hubRegistry is where an image without a registry comes from, as for a container runtime.
	hubRegistry = "docker.io"
)

// Values are the Helm values by which Traefik's upstream chart (40.0.0 and later) makes Traefik the ingress of Serving.
// class is the IngressClass that it creates and serves (R47), namespace that of the release, and timeoutSeconds the read
// and write timeout of both public entry points (R79; see Shared.EntryPointTimeout).
//
// The keys are those of the chart's values.yaml at v40.3.0. Its values for the Knative provider end at the namespaces and
// labels to watch, so that the entry points and Services are arguments; its ClusterRole grants what the provider needs as
// soon as providers.knative is enabled.
func (i IngressSpec) Values(class, namespace string, timeoutSeconds int) map[string]any {
	values := map[string]any{
		"experimental": map[string]any{"knative": true},
		"providers": map[string]any{
			"knative":           map[string]any{"enabled": true},
			"kubernetesIngress": map[string]any{"ingressClass": class},
			"kubernetesCRD":     map[string]any{"ingressClass": routeClass(class)},
		},
		"ingressClass":        map[string]any{"enabled": true, "name": class, "isDefaultClass": false},
		"global":              map[string]any{"checkNewVersion": false, "sendAnonymousUsage": false},
		"additionalArguments": knativeArguments(namespace),
		"ports": map[string]any{
			entryPointWeb:    i.publicPort(80, timeoutSeconds),
			entryPointSecure: i.publicPort(443, timeoutSeconds),
			entryPointPrivate: map[string]any{
				"port": privatePort, "exposedPort": 80, "protocol": "TCP",
				"expose":    map[string]any{"default": false, entryPointPrivate: true},
				"transport": transport(timeoutSeconds),
			},
		},
		"service": map[string]any{
			"annotations": texts(i.ServiceAnnotations),
			"spec":        map[string]any{"type": "LoadBalancer"},
			"additionalServices": map[string]any{
				entryPointPrivate: map[string]any{"spec": map[string]any{"type": "ClusterIP"}},
			},
		},
	}
	if image := imageValues(i.Image); image != nil {
		values["image"] = image
	}
	return values
}

// knativeArguments tell Traefik's Knative provider on which entry points a Service of Serving is reached. What is
// cluster-local has an entry point of its own: on the public ones, whoever sends its name as the Host would reach it, and
// with none at all Serving would wait for it forever.
func knativeArguments(namespace string) []any {
	const provider = "--providers.knative."
	return []any{
		provider + "publicEntrypoints=" + entryPointWeb + "," + entryPointSecure,
		provider + "publicService.name=" + serviceName,
		provider + "publicService.namespace=" + namespace,
		provider + "privateEntrypoints=" + entryPointPrivate,
		provider + "privateService.name=" + privateServiceName,
		provider + "privateService.namespace=" + namespace,
	}
}

// publicPort is an entry point that the load balancer shows. Being the default, it and not the private one takes the
// Ingresses that name none.
func (i IngressSpec) publicPort(exposed, timeoutSeconds int) map[string]any {
	trusted := func() map[string]any {
		ips := []any{}
		for _, ip := range i.TrustedIPs {
			ips = append(ips, ip)
		}
		return map[string]any{"trustedIPs": ips}
	}
	return map[string]any{
		"asDefault": true, "exposedPort": exposed, "expose": map[string]any{"default": true},
		"forwardedHeaders": trusted(), "proxyProtocol": trusted(),
		"transport": transport(timeoutSeconds),
	}
}

func transport(timeoutSeconds int) map[string]any {
	timeout := fmt.Sprintf("%ds", timeoutSeconds)
	return map[string]any{"respondingTimeouts": map[string]any{"readTimeout": timeout, "writeTimeout": timeout}}
}

// routeClass is the class of the IngressRoutes that Traefik serves. Beside another Traefik (R47) it takes just those that
// name our class; without a class it takes those that name none, as its users expect.
func routeClass(class string) string {
	if class == ingressClassFirst {
		return ""
	}
	return class
}

// imageValues splits an image into what the chart puts together again; nil for none, which leaves the chart's own. What
// stands before the first slash is a registry when it has a dot or a port or is localhost, as for a container runtime. A
// digest beside a tag stays with it: the chart reads the version of Traefik from the tag.
func imageValues(image string) map[string]any {
	if image == "" {
		return nil
	}
	registry, rest, found := strings.Cut(image, "/")
	if !found || registry != "localhost" && !strings.ContainsAny(registry, ".:") {
		registry, rest = hubRegistry, image
	}
	name, digest, _ := strings.Cut(rest, "@")
	repository, tag, _ := strings.Cut(name, ":")
	values := map[string]any{"registry": registry, "repository": repository}
	switch {
	case tag != "" && digest != "":
		values["tag"] = tag + "@" + digest
	case tag != "":
		values["tag"] = tag
	case digest != "":
		values["digest"] = digest
	}
	return values
}

// texts is a map of strings as values have it.
func texts(from map[string]string) map[string]any {
	to := map[string]any{}
	for key, value := range from {
		to[key] = value
	}
	return to
}
