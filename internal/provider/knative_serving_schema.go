package provider

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/objectdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/knative"
)

// The defaults of what berth creates for Serving (design, "Names of what we create").
const (
	servingName           = "knative-serving"
	operatorNamespace     = "knative-operator"
	defaultAddressTimeout = "3m"
)

func knativeServingSchema(ctx context.Context) schema.Schema {
	own := knativeServingArguments()
	maps.Copy(own, knativeServingOutputs())
	return schema.Schema{
		MarkdownDescription: "Knative Serving on a cluster, for all the regions that share it: the Knative operator, Serving itself and Traefik as its ingress, each installed, or adopted where it is there already. " +
			"Versions move one minor at a time and never back: the operator first, then Serving's CRDs, then Serving, with Knative Services running all the while. Destroy takes it apart in order, refuses while Knative Services or regions are left, and never uninstalls what was adopted. " +
			"One resource for each cluster.",
		Attributes: withCommon(ctx, "the operator, Serving and Traefik, each", "cluster/namespace/name", own),
	}
}

func defaulted(value, description string, validators ...validator.String) schema.StringAttribute {
	return schema.StringAttribute{Optional: true, Computed: true, Default: stringdefault.StaticString(value), MarkdownDescription: description, Validators: validators}
}

func knativeServingArguments() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"namespace": defaulted(servingName, "The namespace of Serving, and of Traefik with it. Default `knative-serving`. It is created when it is missing, and goes with Serving when nothing else is in it. Changing it is refused: destroy the resource first.", dnsLabel()),
		"name":      defaulted(servingName, "The name of the KnativeServing. Default `knative-serving`. Changing it is refused: destroy the resource first.", dnsLabel()),
		"version": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "The minor version of Serving, such as `1.15`; the operator installs the newest patch release that it carries. Default: that of a Serving which is there; or else that of the operator which is there, or of `operator.chart_version`; or else the newest that the cluster and the operator's repository offer (see `berth_knative_versions`). It is chosen once, at create, and kept. " +
				"The next minor version upgrades in place; a skipped or lower one is refused at plan, with the steps that would work.",
			Validators: []validator.String{minorVersion()},
		},
		"operator": schema.SingleNestedAttribute{
			Optional: true, Computed: true, Default: objectdefault.StaticValue(operatorValue(operatorNamespace, knative.OperatorRepository, "")),
			MarkdownDescription: "The Knative operator, which installs Serving. One that is adopted is left as it is as long as it installs Serving's version. Default: as its arguments say.",
			Attributes: map[string]schema.Attribute{
				"namespace":     defaulted(operatorNamespace, "The operator's namespace. Default `knative-operator`. Changing it is refused: destroy the resource first.", dnsLabel()),
				"repository":    defaulted(knative.OperatorRepository, "The Helm repository of its chart. Default `"+knative.OperatorRepository+"`. Changing it touches only the state; it is asked the next time that something else changes.", stringvalidator.LengthAtLeast(1)),
				"chart_version": schema.StringAttribute{Optional: true, MarkdownDescription: "The version of its chart. An operator installs its own minor version of Serving and the three before it. Default: the newest of Serving's minor version, chosen when the operator is installed or has to be upgraded, and kept otherwise. A newer one upgrades it in place, one of an older minor version is refused. It does not count for an operator that was adopted and installs Serving's version.", Validators: []validator.String{releaseVersion()}},
			},
		},
		"ingress": schema.SingleNestedAttribute{
			Optional: true, Computed: true, Default: objectdefault.StaticValue(ingressValue(context.Background(), ingressModel{
				Enabled: types.BoolValue(true), Repository: types.StringValue(knative.TraefikRepository), ChartVersion: types.StringValue(knative.TraefikChartVersion),
				TrustedIPs: types.ListNull(types.StringType), ServiceAnnotations: types.MapNull(types.StringType), AddressTimeout: types.StringValue(defaultAddressTimeout),
			})),
			MarkdownDescription: "Traefik, the ingress of Serving, as the Helm release `traefik` in its namespace. One that is adopted is brought to these arguments. Default: as its arguments say.",
			Attributes: map[string]schema.Attribute{
				"enabled":       schema.BoolAttribute{Optional: true, Computed: true, Default: booldefault.StaticBool(true), MarkdownDescription: "Whether berth sees to Traefik. `false` leaves the ingress of Serving to somebody else, and takes away a Traefik that berth installed, unless it serves Ingresses of others. Default `true`. Changed in place."},
				"repository":    defaulted(knative.TraefikRepository, "The Helm repository of its chart. Default `"+knative.TraefikRepository+"`. Changing it touches only the state; it is asked the next time that something else changes.", stringvalidator.LengthAtLeast(1)),
				"chart_version": defaulted(knative.TraefikChartVersion, "The version of its chart. Default `"+knative.TraefikChartVersion+"`. Changed in place.", releaseVersion()),
				"image":         schema.StringAttribute{Optional: true, MarkdownDescription: "Another image of Traefik, such as `registry.example.com/traefik:v3.7.4`. Default: the chart's. Changed in place.", Validators: nonEmpty()},
				"trusted_ips": schema.ListAttribute{
					Optional: true, ElementType: types.StringType,
					MarkdownDescription: "The CIDRs of load balancers in front of Traefik, whose PROXY protocol and `X-Forwarded-*` headers are believed, such as `10.0.0.0/24`; nobody else's are. Default: none. Changed in place.",
					Validators:          []validator.List{noNulls{}, listvalidator.ValueStringsAre(cidr())},
				},
				"service_annotations": schema.MapAttribute{
					Optional: true, ElementType: types.StringType,
					MarkdownDescription: "Annotations of Traefik's Service of type LoadBalancer, which a cloud's load balancer reads. Default: none. Changed in place.",
					Validators:          []validator.Map{noNulls{}},
				},
				"address_timeout": defaulted(defaultAddressTimeout, "How long an apply waits for the external address, such as `5m`. One that does not come is a warning with the Service's events, and `external_address` is null. Default `3m`. Changing it touches only the state.", goDuration()),
			},
		},
		"crds_source": defaulted(knative.CRDsOfRelease,
			"Where Serving's CRDs come from before Serving is installed or upgraded: a URL or the path of a file, in which `{version}` stands for the first release of the minor version, such as `1.15.0`; or `operator`, which leaves them to the operator, as a network without the internet needs it: a destroy then leaves them. Default: Knative's release on GitHub. Read at an apply only, when a CRD is missing or Serving is upgraded. Changing it touches only the state.",
			stringvalidator.LengthAtLeast(1)),
		"min_kubernetes_minor": schema.Int64Attribute{
			Optional: true, Computed: true, Default: int64default.StaticInt64(knative.MinKubernetesMinor),
			MarkdownDescription: fmt.Sprintf("The lowest minor version of Kubernetes 1 that is accepted. Default `%d`. Changing it touches only the state.", knative.MinKubernetesMinor),
			Validators:          []validator.Int64{int64validator.AtLeast(1)},
		},
		"remove_traefik": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(false),
			MarkdownDescription: "Let destroy uninstall Traefik although it serves Ingresses that are not Serving's. Default `false`: Traefik stays then, and a warning lists them. Changing it touches only the state.",
		},
		"force_destroy": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(false),
			MarkdownDescription: "Let destroy delete Serving although Knative Services or regions are left: the Knative Services go first, and the namespaces with whatever is left in them. Default `false`: refused, with a list. Changing it touches only the state.",
		},
	}
}

func knativeServingOutputs() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"installed_version": schema.StringAttribute{Computed: true, MarkdownDescription: "The patch release of Serving that the operator says it has installed."},
		"operator_version":  schema.StringAttribute{Computed: true, MarkdownDescription: "The version of the operator's chart, or of the operator where it is no Helm release."},
		"operator_status":   schema.StringAttribute{Computed: true, MarkdownDescription: "`installing`, `ready`, `error` or `not_installed`."},
		"serving_status":    schema.StringAttribute{Computed: true, MarkdownDescription: "`installing` until the operator reports the version as ready, then `ready`; `error` or `not_installed`."},
		"ingress_class":     schema.StringAttribute{Computed: true, MarkdownDescription: "The IngressClass that Traefik serves: `traefik`, or `traefik-knative` where the first is somebody else's, which is left alone. Null without Traefik."},
		"external_address": schema.SingleNestedAttribute{
			Computed: true, MarkdownDescription: "Where Traefik is reached from outside, for DNS. Null as long as nothing has given its Service an address.",
			Attributes: map[string]schema.Attribute{
				"type":  schema.StringAttribute{Computed: true, MarkdownDescription: "`ip` or `hostname`."},
				"value": schema.StringAttribute{Computed: true, MarkdownDescription: "The address."},
			},
		},
		"adopted": schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "The parts that were there before berth, adopted or imported (`operator`, `serving`, `ingress`), which destroy leaves."},
		"regions": schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "The regions that share this Serving."},
		"steps":   schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "What the last apply did, in order. Unknown in a plan that changes something, which tells the steps in a warning."},
	}
}

// minorVersion accepts a version as R76 has it.
func minorVersion() validator.String {
	return stringCheck{"a minor version, such as 1.15", func(text string) string {
		if _, err := knative.ParseVersion(text); err != nil {
			return "is not a minor version: write major.minor, such as `1.15`, without a patch. The operator installs the newest patch release that it carries."
		}
		return ""
	}}
}

// releaseVersion accepts the exact version of a chart.
func releaseVersion() validator.String {
	return stringCheck{"the exact version of a chart, such as 1.15.2", func(text string) string {
		if _, err := knative.ParseRelease(text); err != nil {
			return "is not the exact version of a chart, such as `1.15.2`. A range is refused: a plan must not change because somebody published something."
		}
		return ""
	}}
}

// cidr accepts a network.
func cidr() validator.String {
	return stringCheck{"a network in CIDR notation", func(text string) string {
		if _, err := netip.ParsePrefix(text); err != nil {
			return "is not a network in CIDR notation: write one such as `10.0.0.0/24`, or `10.0.0.7/32` for a single address."
		}
		return ""
	}}
}

// goDuration accepts a positive length of time as Go writes it.
func goDuration() validator.String {
	return stringCheck{"a length of time, such as 5m", func(text string) string {
		if length, err := time.ParseDuration(text); err != nil || length <= 0 {
			return "is not a length of time above zero: write one such as `90s` or `5m`."
		}
		return ""
	}}
}

var (
	servingOperatorType = types.ObjectType{AttrTypes: map[string]attr.Type{"namespace": types.StringType, "repository": types.StringType, "chart_version": types.StringType}}
	ingressType         = types.ObjectType{AttrTypes: map[string]attr.Type{
		"enabled": types.BoolType, "repository": types.StringType, "chart_version": types.StringType, "image": types.StringType,
		"trusted_ips": types.ListType{ElemType: types.StringType}, "service_annotations": types.MapType{ElemType: types.StringType}, "address_timeout": types.StringType,
	}}
	addressType = types.ObjectType{AttrTypes: map[string]attr.Type{"type": types.StringType, "value": types.StringType}}
)
