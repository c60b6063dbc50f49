package provider

import (
	"maps"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// schedulingModel is the argument `scheduling` of a hub and of an enrollment.
type schedulingModel struct {
	Preset       types.String `tfsdk:"preset"`
	Quotas       types.Map    `tfsdk:"quotas"`
	Flavor       types.String `tfsdk:"flavor"`
	ClusterQueue types.String `tfsdk:"cluster_queue"`
	LocalQueue   types.String `tfsdk:"local_queue"`
	Overlays     types.List   `tfsdk:"overlays"`
}

// overlayModel is one of `scheduling.overlays`.
type overlayModel struct {
	Kind  types.String `tfsdk:"kind"`
	Name  types.String `tfsdk:"name"`
	Patch types.String `tfsdk:"patch"`
}

var overlayType = types.ObjectType{AttrTypes: map[string]attr.Type{"kind": types.StringType, "name": types.StringType, "patch": types.StringType}}

// workerSchedulingTypes and hubSchedulingTypes are the types of `scheduling`.
var (
	workerSchedulingTypes = map[string]attr.Type{
		"preset": types.StringType, "quotas": types.MapType{ElemType: types.StringType}, "flavor": types.StringType, "cluster_queue": types.StringType,
		"overlays": types.ListType{ElemType: overlayType},
	}
	hubSchedulingTypes = with(workerSchedulingTypes, "local_queue", types.StringType)
)

func with(attributes map[string]attr.Type, name string, kind attr.Type) map[string]attr.Type {
	all := maps.Clone(attributes)
	all[name] = kind
	return all
}

// schedulingObjectType is an element of the output `scheduling_objects`.
var schedulingObjectType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"kind": types.StringType, "namespace": types.StringType, "name": types.StringType, "uid": types.StringType, "state": types.StringType,
}}

// schedulingAttribute is `scheduling`, of a hub or of a worker. A worker's LocalQueues have the hub's name, so it takes none.
func schedulingAttribute(hub bool) schema.Attribute {
	attributes := map[string]schema.Attribute{
		"preset": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "The Kueue objects that there are to be, by the name of a preset: `default` (a ResourceFlavor, a ClusterQueue with `quotas`, a LocalQueue in each workload namespace) or `gke-dws` (the same, with the AdmissionCheck and the ProvisioningRequestConfig of GKE's Dynamic Workload Scheduler; on workers only). Default `default`. Changing it deletes what berth made and the new preset has not, and leaves what was adopted.",
			Validators:          []validator.String{stringvalidator.OneOf("default", "gke-dws")},
		},
		"quotas": schema.MapAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "The nominal quota of the ClusterQueue, resource to quantity, such as `{ cpu = \"1000\", memory = \"4000Gi\" }`. Needed where the ClusterQueue is not adopted as it is with an overlay.",
			Validators:          []validator.Map{noNulls{}, mapvalidator.KeysAre(resourceName()), mapvalidator.ValueStringsAre(quantity())},
		},
		"flavor":        schema.StringAttribute{Optional: true, MarkdownDescription: "The name of the ResourceFlavor. Default `default-flavor`.", Validators: []validator.String{dnsSubdomain()}},
		"cluster_queue": schema.StringAttribute{Optional: true, MarkdownDescription: "The name of the ClusterQueue. Default `cluster-queue`.", Validators: []validator.String{dnsSubdomain()}},
		"local_queue":   schema.StringAttribute{Optional: true, MarkdownDescription: "The name of the LocalQueues. Default `user-queue`.", Validators: []validator.String{dnsSubdomain()}},
		"overlays": schema.ListNestedAttribute{
			Optional:            true,
			MarkdownDescription: "Patches of the preset's objects, in their order: how a policy that differs is said. Default: none.",
			Validators:          []validator.List{noNulls{}, listvalidator.SizeAtLeast(1)},
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"kind":  schema.StringAttribute{Required: true, MarkdownDescription: "The kind, such as `ClusterQueue`.", Validators: []validator.String{stringvalidator.LengthAtLeast(1)}},
				"name":  schema.StringAttribute{Optional: true, MarkdownDescription: "The name. Default: every object of the kind that the preset has.", Validators: []validator.String{stringvalidator.LengthAtLeast(1)}},
				"patch": schema.StringAttribute{Required: true, MarkdownDescription: "A JSON merge patch, as YAML or JSON, of `spec` or of `metadata.labels` and `metadata.annotations`.", Validators: []validator.String{stringvalidator.LengthAtLeast(1)}},
			}},
		},
	}
	who := "the hub"
	if !hub {
		who = "the worker"
		maps.DeleteFunc(attributes, func(name string, _ schema.Attribute) bool { return name == "local_queue" })
	}
	return schema.SingleNestedAttribute{
		Required: true, Attributes: attributes,
		MarkdownDescription: "The Kueue objects of " + who + ", as a preset with its quotas and overlays. Changing it is in place.",
	}
}

// schedulingObjectsAttribute is the output `scheduling_objects` (K56).
func schedulingObjectsAttribute() schema.Attribute {
	text := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	return schema.ListNestedAttribute{
		Computed: true, MarkdownDescription: "The Kueue objects of the preset as they are.",
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"kind": text("The kind."), "namespace": text("The namespace; null for what is in none."), "name": text("The name."), "uid": text("The UID; null for one that is missing."),
			"state": text("`missing`, `match`, `differs` or `foreign`."),
		}},
	}
}

// quantity is an amount as Kubernetes writes it.
func quantity() validator.String {
	return stringCheck{"a quantity", func(text string) string {
		amount, err := resource.ParseQuantity(text)
		if err != nil {
			return "is not a quantity: write it as Kubernetes does, such as `8`, `500m` or `64Gi`."
		}
		if amount.Sign() < 0 {
			return "is less than nothing. A quota is 0 or more."
		}
		return ""
	}}
}

// resourceName is the name of a resource, such as cpu or nvidia.com/gpu.
func resourceName() validator.String {
	return stringCheck{"the name of a resource", func(text string) string {
		if problems := validation.IsQualifiedName(text); len(problems) > 0 {
			return "is not the name of a resource, such as `cpu` or `nvidia.com/gpu`: " + strings.Join(problems, "; ") + "."
		}
		return ""
	}}
}
