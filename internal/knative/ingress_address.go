package knative

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/release"
)

// AddressType is what an external address is.
type AddressType string

// The values of AddressType.
const (
	AddressIP       AddressType = "ip"
	AddressHostname AddressType = "hostname"
)

// Address is where the functions of a cluster are reached from outside (R26).
type Address struct {
	Type  AddressType
	Value string
}

// String is the address as messages name it.
func (a Address) String() string { return string(a.Type) + " " + a.Value }

// ReadAddress reads the external address from a Service's status (R26). Where there is none yet, address is nil and the
// warning says why; that is no error (R25).
func ReadAddress(ctx context.Context, c *cluster.Cluster, namespace, name string) (address *Address, warning *release.Warning, err error) {
	live, err := c.Fetch(ctx, cluster.Services, namespace, name)
	if err != nil {
		return nil, nil, err
	}
	reason := "it does not exist"
	if live != nil {
		address, reason = addressOf(live)
	}
	if address == nil {
		warning = withoutAddress(namespace, name, fmt.Sprintf("%s on %s: %s.", kube.Name(cluster.Services.Kind, namespace, name), c.Context(), reason))
	}
	return address, warning, nil
}

// WaitAddress waits up to limit for the external address of a Service. When it does not come, address is nil and the
// warning tells the Service's last events and what to do (R25). The error is for a cluster that does not answer and for
// ctx, which ended before the limit.
func WaitAddress(ctx context.Context, c *cluster.Cluster, namespace, name string, limit time.Duration) (address *Address, warning *release.Warning, err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	never := ""
	err = kube.Wait(limited, c, cluster.Services, namespace, name, "wait for an external address", func(live *unstructured.Unstructured) (bool, string) {
		found, reason := addressOf(live)
		if address = found; found == nil && !balanced(live) {
			never = reason
		}
		return found != nil || never != "", reason
	})
	switch problem, told := asProblem(err); {
	case err == nil && never != "":
		warning = withoutAddress(namespace, name, fmt.Sprintf("%s on %s: %s.", kube.Name(cluster.Services.Kind, namespace, name), c.Context(), never))
	case told && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		address, warning, err = nil, withoutAddress(namespace, name, problem.Detail), nil
	}
	return address, warning, err
}

// AddressChanged warns that the external address is another one than before: DNS still leads to the old one (R26). It is
// nil where nothing changed, and where there was none before.
func AddressChanged(c *cluster.Cluster, before, now *Address) *release.Warning {
	if before == nil || now != nil && *now == *before {
		return nil
	}
	if now == nil {
		return &release.Warning{
			Summary: fmt.Sprintf("The external address of cluster %q is gone", c.Name()),
			Detail:  fmt.Sprintf("It was %s, and DNS may still lead there. Look at the load balancer of the ingress.", before),
		}
	}
	return &release.Warning{
		Summary: fmt.Sprintf("The external address of cluster %q has changed", c.Name()),
		Detail:  fmt.Sprintf("It was %s and is %s now. DNS records of the function domains have to follow, or nobody reaches the functions.", before, now),
	}
}

// addressOf is the address that a Service has, or why it has none. A load balancer with several has them all serve the
// same, so the first will do.
func addressOf(service *unstructured.Unstructured) (address *Address, reason string) {
	entries, _, _ := unstructured.NestedSlice(service.Object, "status", "loadBalancer", "ingress")
	for _, one := range entries {
		entry, _ := one.(map[string]any)
		if ip, _ := entry["ip"].(string); ip != "" {
			return &Address{Type: AddressIP, Value: ip}, ""
		}
		if hostname, _ := entry["hostname"].(string); hostname != "" {
			return &Address{Type: AddressHostname, Value: hostname}, ""
		}
	}
	if !balanced(service) {
		kind, _, _ := unstructured.NestedString(service.Object, "spec", "type")
		return nil, fmt.Sprintf("its type is %s, not LoadBalancer, so that nothing gives it an external address", kind)
	}
	return nil, "no load balancer has given it an external address"
}

func balanced(service *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(service.Object, "spec", "type")
	return kind == "LoadBalancer"
}

func withoutAddress(namespace, name, why string) *release.Warning {
	return &release.Warning{
		Summary: kube.Name(cluster.Services.Kind, namespace, name) + " has no external address",
		Detail: why + "\nServing works, but nothing reaches it from outside. The cluster needs a controller that serves Services of type LoadBalancer " +
			"(a cloud's, or MetalLB or kube-vip); the annotations that it reads go into service_annotations. The address is looked for again at every refresh.",
	}
}
