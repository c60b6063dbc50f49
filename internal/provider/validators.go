package provider

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"k8s.io/apimachinery/pkg/util/validation"
)

// stringCheck is a string validator made of one function, which returns what is wrong or nothing.
type stringCheck struct {
	describe string
	wrong    func(string) string
}

func (c stringCheck) Description(context.Context) string         { return c.describe }
func (c stringCheck) MarkdownDescription(context.Context) string { return c.describe }

func (c stringCheck) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if wrong := c.wrong(req.ConfigValue.ValueString()); wrong != "" {
		resp.Diagnostics.AddAttributeError(req.Path, fmt.Sprintf("`%s` is not valid", req.Path), fmt.Sprintf("%q %s", req.ConfigValue.ValueString(), wrong))
	}
}

// noNulls refuses null elements of a list, set or map, which would otherwise be read as empty ones, or not at all.
type noNulls struct{}

func (noNulls) Description(context.Context) string { return "no null elements" }

func (v noNulls) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

func (noNulls) ValidateList(_ context.Context, req validator.ListRequest, resp *validator.ListResponse) {
	for i, element := range req.ConfigValue.Elements() {
		refuseNull(&resp.Diagnostics, req.Path.AtListIndex(i), element)
	}
}

func (noNulls) ValidateSet(_ context.Context, req validator.SetRequest, resp *validator.SetResponse) {
	for _, element := range req.ConfigValue.Elements() {
		refuseNull(&resp.Diagnostics, req.Path.AtSetValue(element), element)
	}
}

func (noNulls) ValidateMap(_ context.Context, req validator.MapRequest, resp *validator.MapResponse) {
	for key, element := range req.ConfigValue.Elements() {
		refuseNull(&resp.Diagnostics, req.Path.AtMapKey(key), element)
	}
}

func refuseNull(diagnostics *diag.Diagnostics, at path.Path, element attr.Value) {
	if element.IsNull() {
		diagnostics.AddAttributeError(at, fmt.Sprintf("`%s` is null", at), "An element that is null has no meaning here. Take it out, or give it a value.")
	}
}

// dnsSubdomain is the form of most names in Kubernetes.
func dnsSubdomain() validator.String {
	return stringCheck{"a DNS subdomain: lower-case letters, digits, '-' and '.'", func(value string) string {
		if problems := validation.IsDNS1123Subdomain(value); len(problems) > 0 {
			return "is not a name that Kubernetes takes: " + strings.Join(problems, "; ") + "."
		}
		return ""
	}}
}

// dnsLabel is the form of a namespace's name.
func dnsLabel() validator.String {
	return stringCheck{"a DNS label: lower-case letters, digits and '-', at most 63", func(value string) string {
		if problems := validation.IsDNS1123Label(value); len(problems) > 0 {
			return "is not a name that a namespace can have: " + strings.Join(problems, "; ") + "."
		}
		return ""
	}}
}

// notSystem refuses the names that Kubernetes keeps for itself.
func notSystem() validator.String {
	return stringCheck{"not a name that begins with system-", func(value string) string {
		if strings.HasPrefix(value, "system-") {
			return "begins with \"system-\", which Kubernetes keeps for its own classes. Choose another name."
		}
		return ""
	}}
}

// noSlash keeps a value usable as one part of an ownership mark.
func noSlash() validator.String {
	return stringCheck{"without a slash", func(value string) string {
		if strings.Contains(value, "/") {
			return "has a slash, which parts the owner from the resource on ownership marks. Take it out."
		}
		return ""
	}}
}

// semanticVersion is a version that can be compared and that a label can hold, which is where the cluster keeps it.
func semanticVersion() validator.String {
	return stringCheck{"a version such as 1.4.0", func(value string) string {
		if _, err := version.NewSemver(value); err != nil {
			return "is not a version that can be compared, such as 1.4.0."
		}
		if strings.Contains(value, "+") {
			return "has build metadata, which the label that holds the version on the cluster cannot have. Leave out what begins with \"+\"."
		}
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			return "is not a value that the label which holds the version on the cluster can have: " + strings.Join(problems, "; ") + ". Use a shorter version, such as 1.4.0."
		}
		return ""
	}}
}

// httpURL is an address that a pod can be asked to reach.
func httpURL() validator.String {
	return stringCheck{"an http or https URL", func(value string) string {
		if parsed, err := url.Parse(value); err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
			return "is not an http or https URL. Write it with its scheme and host."
		}
		return ""
	}}
}

// envName is a name that a pod's environment variable can have.
func envName() validator.String {
	return stringCheck{"the name of an environment variable", func(value string) string {
		if problems := validation.IsEnvVarName(value); len(problems) > 0 {
			return "is not a name that an environment variable can have: " + strings.Join(problems, "; ") + "."
		}
		return ""
	}}
}

// gitCredentialCheck refuses a git credential that names no Secret.
type gitCredentialCheck struct{}

func (gitCredentialCheck) Description(context.Context) string { return "a token, an SSH key, or both" }

func (c gitCredentialCheck) MarkdownDescription(ctx context.Context) string {
	return c.Description(ctx)
}

func (gitCredentialCheck) ValidateObject(_ context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	values := req.ConfigValue.Attributes()
	if values["token"].IsNull() && values["ssh_key_secret"].IsNull() {
		resp.Diagnostics.AddAttributeError(req.Path, fmt.Sprintf("`%s` names no Secret", req.Path),
			"A git credential needs a `token`, an `ssh_key_secret`, or both. Set one, or take the credential out.")
	}
}
