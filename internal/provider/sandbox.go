package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/preflight"
)

// Node selectors, tolerations and sizes have the same shape wherever they are written: that of the pod spec (J28).

// tolerationModel is one element of `tolerations`.
type tolerationModel struct {
	Key      types.String `tfsdk:"key"`
	Operator types.String `tfsdk:"operator"`
	Value    types.String `tfsdk:"value"`
	Effect   types.String `tfsdk:"effect"`
}

// sizeModel is one element of `sizes`.
type sizeModel struct {
	Memory types.String `tfsdk:"memory"`
	CPU    types.String `tfsdk:"cpu"`
}

// tolerationType and sizeType are the element types of `tolerations` and `sizes`.
var (
	tolerationType = types.ObjectType{AttrTypes: map[string]attr.Type{
		"key": types.StringType, "operator": types.StringType, "value": types.StringType, "effect": types.StringType,
	}}
	sizeType = types.ObjectType{AttrTypes: map[string]attr.Type{"memory": types.StringType, "cpu": types.StringType}}
)

// placementOf reads where a pod may land from `node_selector` and `tolerations`. attribute is the attribute that holds
// the two, such as "sandbox", or empty when they stand at the top; messages name it. All of it has to be known, because
// half a placement answers another question.
func placementOf(ctx context.Context, attribute string, selector types.Map, tolerations types.List) preflight.Placement {
	placement := preflight.Placement{Attribute: attribute}
	for key, value := range selector.Elements() {
		if text, ok := value.(types.String); ok {
			if placement.NodeSelector == nil {
				placement.NodeSelector = map[string]string{}
			}
			placement.NodeSelector[key] = text.ValueString()
		}
	}
	for _, value := range tolerations.Elements() {
		if object, ok := value.(types.Object); ok {
			placement.Tolerations = append(placement.Tolerations, tolerationOf(ctx, object))
		}
	}
	return placement
}

func tolerationOf(ctx context.Context, object types.Object) preflight.Toleration {
	var model tolerationModel
	// The object's type is that of the schema, so the conversion cannot fail.
	object.As(ctx, &model, basetypes.ObjectAsOptions{UnhandledNullAsEmpty: true})
	return preflight.Toleration{
		Key: model.Key.ValueString(), Operator: model.Operator.ValueString(),
		Value: model.Value.ValueString(), Effect: model.Effect.ValueString(),
	}
}

// sizesOf reads `sizes`; what a size leaves out is that of preflight.DefaultSize. All of them have to be
// known. The error names the size that holds no quantity.
func sizesOf(ctx context.Context, sizes types.Map) (map[string]preflight.Size, error) {
	read := map[string]preflight.Size{}
	for name, value := range sizes.Elements() {
		object, ok := value.(types.Object)
		if !ok {
			continue
		}
		var model sizeModel
		object.As(ctx, &model, basetypes.ObjectAsOptions{UnhandledNullAsEmpty: true})
		memory, cpu := preflight.DefaultSize.Memory.String(), preflight.DefaultSize.CPU.String()
		if !model.Memory.IsNull() {
			memory = model.Memory.ValueString()
		}
		if !model.CPU.IsNull() {
			cpu = model.CPU.ValueString()
		}
		size, err := preflight.ParseSize(memory, cpu)
		if err != nil {
			return nil, fmt.Errorf("size %q: %w", name, err)
		}
		read[name] = size
	}
	return read, nil
}

// leastMemory is the least that a container can be limited to: the kubelet and runc refuse less than a few MiB.
var leastMemory = resource.MustParse("4Mi")

// memoryQuantity and cpuQuantity are the forms of a size's parts.
func memoryQuantity() validator.String {
	return stringCheck{"a Kubernetes quantity above zero, such as 8Gi", func(value string) string {
		size, err := preflight.ParseSize(value, preflight.DefaultSize.CPU.String())
		switch {
		case err != nil:
			return "is not a quantity above zero, such as \"8Gi\" or \"512Mi\"."
		case size.Memory.Cmp(leastMemory) < 0:
			return fmt.Sprintf("is %d byte(s) of memory, in which no container starts. Add a unit, such as \"8Gi\".", size.Memory.Value())
		}
		return ""
	}}
}

func cpuQuantity() validator.String {
	return stringCheck{"a Kubernetes quantity above zero, such as 4 or 500m", func(value string) string {
		if _, err := preflight.ParseSize(preflight.DefaultSize.Memory.String(), value); err != nil {
			return "is not a quantity above zero, such as \"4\" or \"500m\"."
		}
		return ""
	}}
}

// tolerationCheck refuses what the API server would refuse in one toleration.
type tolerationCheck struct{}

func (tolerationCheck) Description(context.Context) string {
	return "a toleration as the pod spec has it"
}

func (c tolerationCheck) MarkdownDescription(ctx context.Context) string { return c.Description(ctx) }

func (tolerationCheck) ValidateObject(ctx context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse) {
	if req.ConfigValue.IsNull() || hasUnknown(ctx, req.ConfigValue) {
		return
	}
	if err := tolerationOf(ctx, req.ConfigValue).Validate(); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, fmt.Sprintf("`%s` is not a toleration", req.Path), fmt.Sprintf("%s: %s.", req.Path, err))
	}
}

// platformsCheck refuses platforms that nothing is released for, all of them in one message (J64). It is for a list
// and for a set.
type platformsCheck struct{}

func (platformsCheck) Description(context.Context) string {
	return "platforms that berth knows images for: " + kube.QuoteAll(preflight.ReleasedPlatforms)
}

func (c platformsCheck) MarkdownDescription(ctx context.Context) string { return c.Description(ctx) }

func (platformsCheck) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	if summary, detail := platformsProblem(req.Path, req.ConfigValue.Elements()); detail != "" {
		resp.Diagnostics.AddAttributeError(req.Path, summary, detail)
	}
}

func (platformsCheck) ValidateSet(_ context.Context, req validator.SetRequest, resp *validator.SetResponse) {
	if summary, detail := platformsProblem(req.Path, req.ConfigValue.Elements()); detail != "" {
		resp.Diagnostics.AddAttributeError(req.Path, summary, detail)
	}
}

func platformsProblem(at path.Path, values []attr.Value) (summary, detail string) {
	var platforms []string
	for _, value := range values {
		if text, ok := value.(types.String); ok && !text.IsNull() && !text.IsUnknown() {
			platforms = append(platforms, text.ValueString())
		}
	}
	if err := preflight.ValidatePlatforms(platforms); err != nil {
		return fmt.Sprintf("`%s` names a platform that no image is released for", at), err.Error()
	}
	return "", ""
}
