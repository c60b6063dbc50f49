package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/release"
)

// longestReleaseName is Helm's limit, which leaves room for what charts append to the name.
const longestReleaseName = 53

func releaseName() validator.String {
	return stringCheck{"the name of a release: lower-case letters, digits, '-' and '.', at most 53", func(value string) string {
		if len(value) > longestReleaseName {
			return fmt.Sprintf("is longer than the %d characters that Helm allows a release. Choose a shorter name.", longestReleaseName)
		}
		if problems := validation.IsDNS1123Subdomain(value); len(problems) > 0 {
			return "is not a name that Helm takes: " + strings.Join(problems, "; ") + "."
		}
		return ""
	}}
}

// valuesDocument is one document of `values`. What is wrong is said without quoting it.
func valuesDocument() validator.String {
	return quietCheck{"a YAML document with a map at its top", func(value string) string {
		if _, err := release.ParseValues(value); err != nil {
			return fmt.Sprintf("The document %s. It is what one would put into a values.yaml; yamlencode() writes one.", err)
		}
		return ""
	}}
}

// valuePath is a key of `set_sensitive_wo`.
func valuePath() validator.String {
	return quietCheck{"a path in the notation of Helm's --set", func(value string) string {
		_, err := release.MergeValues(nil, map[string]string{value: "x"})
		if problem, ok := errors.AsType[*cluster.Problem](err); ok {
			return problem.Summary + ". " + problem.Detail
		}
		return ""
	}}
}

func jsonPointer() validator.String {
	return quietCheck{"a JSON pointer, such as /spec/replicas", func(value string) string {
		if problem, ok := errors.AsType[*cluster.Problem](kube.CheckPointer(value)); ok {
			return problem.Summary + ". " + problem.Detail
		}
		return ""
	}}
}

// quietCheck is a stringCheck whose message is the function's alone: the value may be long, or secret.
type quietCheck stringCheck

func (c quietCheck) Description(context.Context) string         { return c.describe }
func (c quietCheck) MarkdownDescription(context.Context) string { return c.describe }

func (c quietCheck) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if wrong := c.wrong(req.ConfigValue.ValueString()); wrong != "" {
		resp.Diagnostics.AddAttributeError(req.Path, fmt.Sprintf("`%s` is not valid", req.Path), wrong)
	}
}

// chartCheck refuses what can never be a chart, once all of it is known.
type chartCheck struct{}

func (chartCheck) Description(context.Context) string {
	return "a repository, a name and an exact version, or a path"
}

func (c chartCheck) MarkdownDescription(ctx context.Context) string { return c.Description(ctx) }

func (chartCheck) ValidateObject(ctx context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse) {
	if hasUnknown(ctx, req.ConfigValue) {
		return
	}
	model, set := objectAs[chartModel](ctx, req.ConfigValue)
	if !set {
		return
	}
	for _, problem := range model.ref().Validate() {
		addError(&resp.Diagnostics, "", problem, nil)
	}
}

// targetCheck refuses a target that is every object.
type targetCheck struct{}

func (targetCheck) Description(context.Context) string { return "a kind, a name or a namespace" }

func (c targetCheck) MarkdownDescription(ctx context.Context) string { return c.Description(ctx) }

func (targetCheck) ValidateObject(ctx context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse) {
	if hasUnknown(ctx, req.ConfigValue) {
		return
	}
	if target, set := objectAs[targetModel](ctx, req.ConfigValue); set && target.Kind.IsNull() && target.Name.IsNull() && target.Namespace.IsNull() {
		resp.Diagnostics.AddAttributeError(req.Path, fmt.Sprintf("`%s` names no object", req.Path),
			"Without a kind, a name or a namespace it would be every object of the release. Set at least one of them.")
	}
}
