package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/knative"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

type knativeServingModel struct {
	common
	Namespace          types.String `tfsdk:"namespace"`
	Name               types.String `tfsdk:"name"`
	Version            types.String `tfsdk:"version"`
	Operator           types.Object `tfsdk:"operator"`
	Ingress            types.Object `tfsdk:"ingress"`
	CRDsSource         types.String `tfsdk:"crds_source"`
	MinKubernetesMinor types.Int64  `tfsdk:"min_kubernetes_minor"`
	RemoveTraefik      types.Bool   `tfsdk:"remove_traefik"`
	ForceDestroy       types.Bool   `tfsdk:"force_destroy"`

	InstalledVersion types.String `tfsdk:"installed_version"`
	OperatorVersion  types.String `tfsdk:"operator_version"`
	OperatorStatus   types.String `tfsdk:"operator_status"`
	ServingStatus    types.String `tfsdk:"serving_status"`
	IngressClass     types.String `tfsdk:"ingress_class"`
	ExternalAddress  types.Object `tfsdk:"external_address"`
	Adopted          types.List   `tfsdk:"adopted"`
	Regions          types.List   `tfsdk:"regions"`
	Steps            types.List   `tfsdk:"steps"`
}

type servingOperatorModel struct {
	Namespace    types.String `tfsdk:"namespace"`
	Repository   types.String `tfsdk:"repository"`
	ChartVersion types.String `tfsdk:"chart_version"`
}

type ingressModel struct {
	Enabled            types.Bool   `tfsdk:"enabled"`
	Repository         types.String `tfsdk:"repository"`
	ChartVersion       types.String `tfsdk:"chart_version"`
	Image              types.String `tfsdk:"image"`
	TrustedIPs         types.List   `tfsdk:"trusted_ips"`
	ServiceAnnotations types.Map    `tfsdk:"service_annotations"`
	AddressTimeout     types.String `tfsdk:"address_timeout"`
}

// The types are the schema's own, so the conversions cannot fail.
func operatorValue(namespace, repository, version string) types.Object {
	return types.ObjectValueMust(servingOperatorType.AttrTypes, map[string]attr.Value{
		"namespace": types.StringValue(namespace), "repository": types.StringValue(repository), "chart_version": optionalString(version),
	})
}

func ingressValue(ctx context.Context, model ingressModel) types.Object {
	value, _ := types.ObjectValueFrom(ctx, ingressType.AttrTypes, model)
	return value
}

// plainIngress is an ingress in one form: an image with its registry, and what is empty left out.
type plainIngress struct {
	enabled, repository, chart, image, timeout string
	trusted                                    []string
	annotations                                map[string]string
}

func (m ingressModel) plain(ctx context.Context) plainIngress {
	plain := plainIngress{
		enabled: m.Enabled.String(), repository: m.Repository.ValueString(), chart: m.ChartVersion.ValueString(),
		image: knative.PlainImage(m.Image.ValueString()), timeout: m.AddressTimeout.ValueString(),
	}
	if trusted := stringList(ctx, m.TrustedIPs); len(trusted) > 0 {
		plain.trusted = trusted
	}
	if annotations := stringMap(ctx, m.ServiceAnnotations); len(annotations) > 0 {
		plain.annotations = annotations
	}
	return plain
}

// unknown names the arguments whose value is not known yet. That of the version is an output's where the configuration
// leaves it out.
func (m *knativeServingModel) unknown(ctx context.Context, config *knativeServingModel) []string {
	arguments := map[string]attr.Value{
		"namespace": m.Namespace, "name": m.Name, "version": config.Version, "operator": m.Operator, "ingress": m.Ingress, "crds_source": m.CRDsSource,
		"min_kubernetes_minor": m.MinKubernetesMinor,
	}
	return unknownNames(ctx, arguments)
}

// spec is what the model describes. Every argument is known; the version may still be to be chosen.
func (m *knativeServingModel) spec(ctx context.Context) (knative.Spec, error) {
	operator, _ := objectAs[servingOperatorModel](ctx, m.Operator)
	spec := knative.Spec{
		Namespace: m.Namespace.ValueString(), Name: m.Name.ValueString(),
		Operator:  knative.OperatorSpec{Namespace: operator.Namespace.ValueString(), Repository: operator.Repository.ValueString(), ChartVersion: operator.ChartVersion.ValueString()},
		CRDSource: m.CRDsSource.ValueString(), MinKubernetes: int(m.MinKubernetesMinor.ValueInt64()),
	}
	if text := m.Version.ValueString(); text != "" {
		version, err := knative.ParseVersion(text)
		if err != nil {
			return spec, err
		}
		spec.Version = version
	}
	ingress, _ := objectAs[ingressModel](ctx, m.Ingress)
	if !ingress.Enabled.ValueBool() {
		return spec, nil
	}
	spec.Ingress = &knative.IngressSpec{
		Repository: ingress.Repository.ValueString(), ChartVersion: ingress.ChartVersion.ValueString(), Image: ingress.Image.ValueString(),
		TrustedIPs: stringList(ctx, ingress.TrustedIPs), ServiceAnnotations: stringMap(ctx, ingress.ServiceAnnotations),
	}
	// It was validated.
	spec.AddressTimeout, _ = time.ParseDuration(ingress.AddressTimeout.ValueString())
	return spec, nil
}

func (m *knativeServingModel) terms(ctx context.Context, call *call[knativeServingModel]) kube.Terms {
	return kube.Terms{Owner: call.owner, Adopt: m.Adopt.ValueBool(), AdoptFrom: m.adoptFrom(ctx), Held: call.state != nil}
}

// observe fills in the outputs from what was seen.
func (m *knativeServingModel) observe(ctx context.Context, seen *knative.Seen) {
	m.Version = optionalString(seen.Version)
	m.InstalledVersion, m.OperatorVersion = optionalString(seen.InstalledVersion), optionalString(seen.OperatorVersion)
	m.OperatorStatus, m.ServingStatus = types.StringValue(seen.OperatorStatus), types.StringValue(seen.ServingStatus)
	m.IngressClass = optionalString(seen.IngressClass)
	m.Adopted, m.Regions = namesValue(ctx, seen.Adopted), namesValue(ctx, seen.Regions)
	m.ExternalAddress = types.ObjectNull(addressType.AttrTypes)
	if seen.Address != nil {
		m.ExternalAddress = types.ObjectValueMust(addressType.AttrTypes, map[string]attr.Value{
			"type": types.StringValue(string(seen.Address.Type)), "value": types.StringValue(seen.Address.Value),
		})
	}
	conditions := map[string]condition{}
	for _, one := range seen.Conditions {
		conditions[one.Type] = condition{Status: one.Status, Reason: one.Reason, Message: one.Message}
	}
	m.setConditions(ctx, conditions)
}

// address is the external address that the state holds; nil where there is none.
func (m *knativeServingModel) address(ctx context.Context) *knative.Address {
	object, set := objectAs[struct {
		Type  types.String `tfsdk:"type"`
		Value types.String `tfsdk:"value"`
	}](ctx, m.ExternalAddress)
	if !set {
		return nil
	}
	return &knative.Address{Type: knative.AddressType(object.Type.ValueString()), Value: object.Value.ValueString()}
}

// namesValue is a list of an output, which is empty and not null where there is nothing.
func namesValue(ctx context.Context, names []string) types.List {
	if names == nil {
		names = []string{}
	}
	return listValue(ctx, types.StringType, names)
}
