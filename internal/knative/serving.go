package knative

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/chart"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/release"
)

// Spec is what Serving of a cluster shall be.
type Spec struct {
	// Namespace and Name are those of the KnativeServing.
	Namespace, Name string
	// Version is Serving's minor version; the zero value leaves the choice to the plan: that of a Serving that is adopted,
	// or else the newest that the cluster and the operator's repository offer.
	Version  Version
	Operator OperatorSpec
	// Ingress is Traefik; nil leaves the ingress of Serving to somebody else.
	Ingress *IngressSpec
	// CRDSource is where Serving's CRDs come from: see ReadCRDs.
	CRDSource string
	// MinKubernetes is the lowest minor version of Kubernetes 1 that is accepted (R9).
	MinKubernetes int
	// AddressTimeout is how long an apply waits for the external address, which is no error when it does not come (R25).
	AddressTimeout time.Duration
}

// OperatorSpec is what the operator shall be.
type OperatorSpec struct {
	Namespace string
	// Repository and ChartVersion name its chart. An empty version leaves the choice to the plan: the newest of Serving's
	// minor version in the repository (R13).
	Repository, ChartVersion string
}

// IngressSpec is what Traefik as the ingress of Serving shall be.
type IngressSpec struct {
	// Repository and ChartVersion name its chart.
	Repository, ChartVersion string
	// Image replaces the chart's own image: registry/repository:tag; empty for the chart's.
	Image string
	// TrustedIPs are the CIDRs of load balancers in front, whose PROXY protocol and X-Forwarded-* headers count (R33).
	TrustedIPs []string
	// ServiceAnnotations are those of Traefik's Service (R25), such as a cloud's load balancer reads.
	ServiceAnnotations map[string]string
}

// PutOff is the error of what cannot be known before the apply: What names it.
type PutOff struct{ What string }

// Error is part of error.
func (p *PutOff) Error() string { return p.What + " is not known yet" }

// Charts gives charts and says which there are. The error of what cannot be known before the apply is a *PutOff.
type Charts interface {
	Load(ctx context.Context, ref chart.Ref) (chart.Chart, error)
	Versions(ctx context.Context, ref chart.Ref) ([]string, error)
}

func (s Spec) operatorRef() release.Ref {
	return release.Ref{Namespace: s.Operator.Namespace, Name: OperatorRelease}
}

func (s Spec) traefikRef() release.Ref {
	return release.Ref{Namespace: s.Namespace, Name: TraefikRelease}
}

// annotationWhole stands on a KnativeServing that was adopted and whose spec is ours all the same, because it was not Ready
// (R98). Of one without it only the version is.
const annotationWhole = "berth.dev/applied-in-full"

// serving is the KnativeServing as it shall be. live is the one that is there (nil when there is none), and whole says
// that its spec is ours; otherwise just the version is, and that only where it is set already or has to change.
func (s Spec) serving(live *unstructured.Unstructured, whole bool) kube.Object {
	desired := Servings.New(s.Namespace, s.Name)
	spec := map[string]any{}
	desired.Object["spec"] = spec
	switch set := specVersion(live); {
	case whole:
		spec["version"] = s.Version.String()
	case minorOf(set) == s.Version:
		spec["version"] = set
	case minorOf(set) != (Version{}) || minorOf(installedVersion(live)) != s.Version:
		spec["version"] = s.Version.String()
	}
	if !whole {
		carryOwned(desired, live)
		return kube.Object{Kind: Servings, Desired: desired}
	}
	if live != nil && !kube.Created(live) {
		kube.SetAnnotation(desired, annotationWhole, "true")
	}
	// Left out, the operator would install Istio's ingress.
	off := func() map[string]any { return map[string]any{"enabled": false} }
	spec["ingress"] = map[string]any{"istio": off(), "kourier": off(), "contour": off()}
	if s.Ingress != nil {
		spec["config"] = map[string]any{networkConfig(live): map[string]any{"ingress-class": ingressClassOfTraefik}}
	}
	return kube.Object{Kind: Servings, Desired: desired}
}

// ingressClassOfTraefik is the class by which Serving's own Ingresses are Traefik's (R107).
const ingressClassOfTraefik = "traefik.ingress.networking.knative.dev"

// networkConfig is the key of the network's configuration: the operator takes it with and without a prefix, and of two
// the one with it wins, so that the spelling that is there is kept.
func networkConfig(live *unstructured.Unstructured) string {
	if live != nil {
		if _, found, _ := unstructured.NestedMap(live.Object, "spec", "config", "config-network"); found {
			return "config-network"
		}
	}
	return "network"
}

// ingressClassOf is the class by which Serving's own Ingresses are served; the default of Serving 1.15 where none is set.
func ingressClassOf(live *unstructured.Unstructured) string {
	if live != nil {
		entries, _ := section(live, "network")
		for _, key := range []string{"ingress-class", "ingress.class"} {
			if class := entries[key]; class != "" {
				return class
			}
		}
	}
	return "istio.ingress.networking.knative.dev"
}

// isWhole tells whether the spec of a KnativeServing is ours, or just its version.
func isWhole(live *unstructured.Unstructured, terms kube.Terms) bool {
	switch {
	case live == nil || kube.Created(live):
		return true
	case !terms.Marked(live):
		// It is foreign, or was imported: what is Ready is left as it is.
		return !isReady(live)
	}
	return live.GetAnnotations()[annotationWhole] == "true"
}

// carryOwned takes over what berth has applied before of the spec, beyond the version: a server-side apply of less would
// take it away, and Serving's ingress with it.
func carryOwned(desired, live *unstructured.Unstructured) {
	if live == nil {
		return
	}
	var owned []map[string]any
	for _, entry := range live.GetManagedFields() {
		// By creating it too: the next apply takes that for its own.
		fields := map[string]any{}
		if entry.Manager == kube.FieldManager && entry.FieldsV1 != nil && json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) == nil {
			owned = append(owned, fields)
		}
	}
	for _, field := range [][]string{
		{"ingress", "istio", "enabled"},
		{"ingress", "kourier", "enabled"},
		{"ingress", "contour", "enabled"},
		{"config", "network", "ingress-class"},
		{"config", "config-network", "ingress-class"},
	} {
		keys := []string{"f:spec"}
		for _, name := range field {
			keys = append(keys, "f:"+name)
		}
		ours := slices.ContainsFunc(owned, func(fields map[string]any) bool {
			_, found, _ := unstructured.NestedFieldNoCopy(fields, keys...)
			return found
		})
		if !ours {
			continue
		}
		path := append([]string{"spec"}, field...)
		if value, found, _ := unstructured.NestedFieldCopy(live.Object, path...); found {
			// The fields above are maps all the way, so it cannot fail.
			_ = unstructured.SetNestedField(desired.Object, value, path...)
		}
	}
}

func specVersion(live *unstructured.Unstructured) string {
	if live == nil {
		return ""
	}
	version, _, _ := unstructured.NestedString(live.Object, "spec", "version")
	return version
}

// installedVersion is the patch version that the operator says it has installed; empty before it has.
func installedVersion(live *unstructured.Unstructured) string {
	if live == nil {
		return ""
	}
	version, _, _ := unstructured.NestedString(live.Object, "status", "version")
	return version
}

// minorOf is the minor version of a release; the zero value for what is none, such as "latest".
func minorOf(text string) Version {
	version, err := ParseRelease(text)
	if err != nil {
		return Version{}
	}
	return version
}

func isReady(live *unstructured.Unstructured) bool {
	return status(live, "Ready") == "True" && observed(live)
}

func observed(live *unstructured.Unstructured) bool {
	seen, _, _ := unstructured.NestedInt64(live.Object, "status", "observedGeneration")
	return seen >= live.GetGeneration()
}

// status is that of a condition; empty where there is none.
func status(live *unstructured.Unstructured, name string) string {
	for _, one := range conditions(live) {
		if one.Type == name {
			return one.Status
		}
	}
	return ""
}

// Condition is one of a KnativeServing's conditions.
type Condition struct{ Type, Status, Reason, Message string }

func conditions(live *unstructured.Unstructured) []Condition {
	if live == nil {
		return nil
	}
	list, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
	var all []Condition
	for _, item := range list {
		fields, _ := item.(map[string]any)
		text := func(key string) string {
			value, _ := fields[key].(string)
			return value
		}
		all = append(all, Condition{Type: text("type"), Status: text("status"), Reason: text("reason"), Message: text("message")})
	}
	return all
}

// listOf lists a kind that the cluster may not have: then there is nothing of it.
func listOf(ctx context.Context, c *cluster.Cluster, kind cluster.Kind) ([]*unstructured.Unstructured, error) {
	objects, err := c.Select(ctx, kind, "", "", "")
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return objects, err
}

// awaitServing waits until the operator reports the version as installed and ready (R102).
func (s Spec) awaitServing(ctx context.Context, c *cluster.Cluster) error {
	refused := false
	err := kube.Wait(ctx, c, Servings, s.Namespace, s.Name, fmt.Sprintf("wait until Serving %s is ready", s.Version), func(live *unstructured.Unstructured) (bool, string) {
		switch {
		case observed(live) && status(live, "VersionMigrationEligible") == "False":
			refused = true
			return true, unmet(live)
		case !observed(live):
			return false, "the operator has not seen it yet"
		case minorOf(installedVersion(live)) != s.Version:
			return false, fmt.Sprintf("the operator says that version %q is installed: %s", installedVersion(live), unmet(live))
		}
		return isReady(live), unmet(live)
	})
	if err == nil && refused {
		live, err := c.Fetch(ctx, Servings, s.Namespace, s.Name)
		if err != nil {
			return err
		}
		return &cluster.Problem{
			Attribute: "version", Summary: fmt.Sprintf("The operator refuses Serving %s", s.Version),
			Detail: fmt.Sprintf("%s on %s: %s. It was applied, and the operator leaves Serving as it was. Set `version` to one that follows on the one that is installed.", s.Describe(), c.Context(), unmet(live)),
		}
	}
	problem, told := asProblem(err)
	if !told {
		return err
	}
	// What the wait was for is mostly a Deployment of Serving's that does not come up.
	again, cancel := context.WithTimeout(context.WithoutCancel(ctx), explainTime)
	defer cancel()
	return &cluster.Problem{Summary: problem.Summary, Detail: strings.Join(append([]string{problem.Detail}, s.stuck(again, c)...), "\n"), Err: problem.Err}
}

const (
	// explainTime is what an explanation may take after a wait's own time is up.
	explainTime = 10 * time.Second
	// mostStuck is how many Deployments an explanation looks into.
	mostStuck = 3
)

// stuck explains the operator and the Deployments of Serving, where they are not ready.
func (s Spec) stuck(ctx context.Context, c *cluster.Cluster) []string {
	deployments, err := c.Select(ctx, cluster.Deployments, s.Namespace, "", "")
	if err != nil {
		return nil
	}
	var lines []string
	switch operator, err := c.Fetch(ctx, cluster.Deployments, s.Operator.Namespace, OperatorRelease); {
	case err != nil:
	case operator == nil:
		lines = append(lines, fmt.Sprintf("There is no operator: Deployment/%s/%s does not exist.", s.Operator.Namespace, OperatorRelease))
	default:
		if replicas, set, _ := unstructured.NestedInt64(operator.Object, "spec", "replicas"); set && replicas == 0 {
			lines = append(lines, kube.Describe(operator)+" is scaled to 0, so that nobody installs Serving.")
		}
		deployments = append([]*unstructured.Unstructured{operator}, deployments...)
	}
	for _, one := range deployments {
		readiness := kube.Ready(one)
		if readiness.Ready || len(lines) >= 4*mostStuck {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: %s", kube.Describe(one), readiness.Reason))
		lines = append(lines, kube.Explain(ctx, c, cluster.Deployments, one.GetNamespace(), one.GetName())...)
	}
	return lines
}

// unmet are the conditions that are not true, in the operator's words.
func unmet(live *unstructured.Unstructured) string {
	var reasons []string
	for _, one := range conditions(live) {
		if one.Status == "True" || one.Type == "Ready" {
			continue
		}
		reason := one.Type + " is " + one.Status
		if text := strings.TrimSpace(one.Reason + " " + one.Message); text != "" {
			reason += " (" + text + ")"
		}
		reasons = append(reasons, reason)
	}
	if len(reasons) == 0 {
		return "no condition is reported yet"
	}
	return strings.Join(reasons, "; ")
}
