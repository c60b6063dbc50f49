package knative

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/release"
)

// The values of a component's status (R109).
const (
	StatusInstalling   = "installing"
	StatusReady        = "ready"
	StatusError        = "error"
	StatusNotInstalled = "not_installed"
)

// The parts of Serving, as Seen.Adopted names them.
const (
	PartOperator = "operator"
	PartServing  = "serving"
	PartIngress  = "ingress"
)

// Seen is Serving as it is on the cluster.
type Seen struct {
	// Version is the minor version that shall be, or, where nothing says so, the one that is installed; InstalledVersion is
	// the patch release that the operator says it has installed.
	Version, InstalledVersion string
	// OperatorVersion is that of the operator's chart, or of the operator where it is no Helm release.
	OperatorVersion string
	// OperatorStatus and ServingStatus are of the values above.
	OperatorStatus, ServingStatus string
	// HasIngress tells whether Traefik is installed in Serving's namespace; IngressChart is the version of its chart,
	// IngressClass the class that it serves, and Address where it is reached from outside.
	HasIngress                 bool
	IngressChart, IngressClass string
	Address                    *Address
	// Adopted are the parts that berth found and did not create: it never uninstalls them.
	Adopted []string
	// Regions are those that contribute to this Serving.
	Regions    []string
	Conditions []Condition
	// Steps are what an apply has done, in words; a read gives none.
	Steps []string
	// Drift maps object and field to "found → wanted".
	Drift    map[string]string
	Warnings []release.Warning
}

// Read is Serving as it is on the cluster; nil when nothing of it is there. Of spec, the namespaces and names are read,
// and what drift is judged by: the version, and whether there is an ingress. marked says that berth has written its marks.
func Read(ctx context.Context, c *cluster.Cluster, spec Spec, terms kube.Terms, marked bool) (*Seen, error) {
	var found facts
	if err := spec.lookAtOperator(ctx, c, terms, &found); err != nil {
		return nil, err
	}
	var err error
	if found.serving, err = spec.live(ctx, c); err != nil {
		return nil, err
	}
	if found.traefik, err = release.ClaimOf(ctx, c, spec.traefikRef(), terms); err != nil {
		return nil, err
	}
	if found.serving == nil && found.claim.Standing != kube.Ours && found.traefik.Standing != kube.Ours {
		if left, err := spec.leftBehind(ctx, c, terms); err != nil || !left {
			return nil, err
		}
	}
	seen := &Seen{
		InstalledVersion: installedVersion(found.serving), OperatorVersion: bare(found.claim.ChartVersion),
		OperatorStatus: found.operatorStatus(), ServingStatus: found.servingStatus(),
		HasIngress: found.traefik.Standing != kube.Absent, IngressChart: found.traefik.ChartVersion,
		Conditions: conditions(found.serving), Drift: map[string]string{},
	}
	if seen.OperatorVersion == "" && found.deployment != nil {
		seen.OperatorVersion = found.operator.String()
	}
	if spec.Version == (Version{}) {
		if spec.Version = minorOf(seen.InstalledVersion); spec.Version == (Version{}) {
			spec.Version = minorOf(specVersion(found.serving))
		}
	}
	if spec.Version != (Version{}) {
		seen.Version = spec.Version.String()
	}
	seen.Adopted = found.adopted()
	parts, err := Parts(ctx, c, spec.Namespace)
	if err != nil {
		return nil, err
	}
	seen.Regions = regionsOf(parts)
	if err := spec.readIngress(ctx, c, seen); err != nil {
		return nil, err
	}
	return seen, spec.drift(ctx, c, terms, marked, found, seen)
}

// leftBehind tells whether the last of what a removal takes away is still there, of one that was cut short: the namespace,
// or CRDs, that berth created.
func (s Spec) leftBehind(ctx context.Context, c *cluster.Cluster, terms kube.Terms) (bool, error) {
	created := func(kind cluster.Kind, name string) (bool, error) {
		live, err := c.Live(ctx, kind, "", name)
		return live != nil && live.GetDeletionTimestamp() == nil && kube.Created(live) && terms.Marked(live), err
	}
	left, err := created(cluster.Namespaces, s.Namespace)
	for _, name := range crdNames {
		if left || err != nil {
			break
		}
		left, err = created(CRDs, name)
	}
	return left, err
}

func regionsOf(parts map[string]Part) []string { return slices.Sorted(maps.Keys(parts)) }

func (s Spec) readIngress(ctx context.Context, c *cluster.Cluster, seen *Seen) error {
	if !seen.HasIngress {
		return nil
	}
	class, err := CheckIngress(ctx, c, s.traefikRef())
	if _, told := asProblem(err); told {
		err = nil // both names are somebody else's; the next plan that changes something says so
	}
	if err != nil {
		return err
	}
	seen.IngressClass = class
	seen.Address, _, err = ReadAddress(ctx, c, s.Namespace, serviceName)
	return err
}

// drift fills in what is not as it was applied, of the parts that are ours.
func (s Spec) drift(ctx context.Context, c *cluster.Cluster, terms kube.Terms, marked bool, found facts, seen *Seen) error {
	switch {
	case found.serving == nil:
		seen.Drift[s.Describe()] = "missing → present"
	case s.Version != (Version{}):
		object := s.serving(found.serving, isWhole(found.serving, terms))
		drift, err := kube.Drift(ctx, c, terms.Owner, []kube.Object{object}, marked)
		if err != nil {
			return err
		}
		maps.Copy(seen.Drift, drift)
	}
	for _, part := range []struct {
		ref    release.Ref
		claim  release.Claim
		wanted bool
	}{
		{s.operatorRef(), found.claim, true},
		{s.traefikRef(), found.traefik, s.Ingress != nil},
	} {
		if err := driftOfPart(ctx, c, part.ref, part.claim, seen); err != nil {
			return err
		}
		gone := part.claim.Standing == kube.Absent && part.wanted && marked
		if part.ref == s.operatorRef() && found.deployment != nil {
			gone = false // another tool keeps it, without Helm
		}
		if gone {
			seen.Drift["Release/"+part.ref.Namespace+"/"+part.ref.Name] = "missing → present"
		}
	}
	if found.serving == nil || !marked {
		return nil
	}
	missing, err := missingCRDs(ctx, c)
	for _, name := range missing {
		seen.Drift[kube.Name(CRDs.Kind, "", name)] = "missing → present"
	}
	return err
}

func driftOfPart(ctx context.Context, c *cluster.Cluster, ref release.Ref, claim release.Claim, seen *Seen) error {
	if claim.Standing != kube.Ours {
		return nil
	}
	part, err := release.Read(ctx, c, ref, watch, 0)
	if err != nil || part == nil {
		return err
	}
	maps.Copy(seen.Drift, part.Drift)
	seen.Warnings = append(seen.Warnings, part.Warnings...)
	return nil
}

// adopted are the parts that are there and that berth did not create.
func (f facts) adopted() []string {
	var parts []string
	installed := func(claim release.Claim) bool { return claim.Standing == kube.Ours && !claim.Adopted }
	if f.deployment != nil && !installed(f.claim) {
		parts = append(parts, PartOperator)
	}
	if f.serving != nil && !kube.Created(f.serving) {
		parts = append(parts, PartServing)
	}
	if f.traefik.Standing != kube.Absent && !installed(f.traefik) {
		parts = append(parts, PartIngress)
	}
	return parts
}

func (f facts) operatorStatus() string {
	switch {
	case f.deployment == nil && f.claim.Standing == kube.Absent:
		return StatusNotInstalled
	case f.claim.Status == "failed":
		return StatusError
	case f.deployment != nil && kube.Ready(f.deployment).Ready:
		return StatusReady
	case f.deployment != nil && kube.Ready(f.deployment).Failed:
		return StatusError
	}
	return StatusInstalling
}

func (f facts) servingStatus() string {
	if f.serving == nil {
		return StatusNotInstalled
	}
	for _, name := range []string{"InstallSucceeded", "VersionMigrationEligible"} {
		if status(f.serving, name) == "False" {
			return StatusError
		}
	}
	if isReady(f.serving) {
		return StatusReady
	}
	return StatusInstalling
}

// Describe is how messages call the Serving of a Spec.
func (s Spec) Describe() string { return kube.Name(Servings.Kind, s.Namespace, s.Name) }

// ReadIngress is Traefik as its release says that it was asked for, whoever installed it; nil where there is no release.
// What the release does not tell, such as where its chart came from, is left empty.
func ReadIngress(ctx context.Context, c *cluster.Cluster, spec Spec) (*IngressSpec, error) {
	found, err := release.Read(ctx, c, spec.traefikRef(), release.Watch{CRDs: release.CRDsSkip, ExtraFields: release.ExtraIgnore}, 0)
	if err != nil || found == nil {
		return nil, err
	}
	ingress := &IngressSpec{ChartVersion: found.ChartVersion, Image: imageOf(found.Values)}
	trusted, _, _ := unstructured.NestedStringSlice(found.Values, "ports", entryPointWeb, "proxyProtocol", "trustedIPs")
	annotations, _, _ := unstructured.NestedStringMap(found.Values, "service", "annotations")
	if len(trusted) > 0 {
		ingress.TrustedIPs = trusted
	}
	if len(annotations) > 0 {
		ingress.ServiceAnnotations = annotations
	}
	return ingress, nil
}

// PlainImage is an image with its registry written out, as a release's values have it; empty for none.
func PlainImage(image string) string {
	return imageOf(map[string]any{"image": anyMap(imageValues(image))})
}

func anyMap(values map[string]any) map[string]any {
	if values == nil {
		return map[string]any{}
	}
	return values
}

// imageOf puts together the image that imageValues has split; empty for the chart's own.
func imageOf(values map[string]any) string {
	text := func(field string) string {
		value, _, _ := unstructured.NestedString(values, "image", field)
		return value
	}
	if text("repository") == "" {
		return ""
	}
	image := text("repository")
	if registry := text("registry"); registry != "" {
		image = registry + "/" + image
	}
	if tag := text("tag"); tag != "" {
		image += ":" + tag
	}
	if digest := text("digest"); digest != "" {
		image += "@" + digest
	}
	return image
}
