package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

type clusterModel struct {
	Kubeconfig           types.String `tfsdk:"kubeconfig"`
	KubeconfigPath       types.String `tfsdk:"kubeconfig_path"`
	Context              types.String `tfsdk:"context"`
	Host                 types.String `tfsdk:"host"`
	ClusterCACertificate types.String `tfsdk:"cluster_ca_certificate"`
	Insecure             types.Bool   `tfsdk:"insecure"`
	TLSServerName        types.String `tfsdk:"tls_server_name"`
	ProxyURL             types.String `tfsdk:"proxy_url"`
	Token                types.String `tfsdk:"token"`
	ClientCertificate    types.String `tfsdk:"client_certificate"`
	ClientKey            types.String `tfsdk:"client_key"`
	Exec                 *execModel   `tfsdk:"exec"`
	UID                  types.String `tfsdk:"uid"`
	PublicOnly           types.Bool   `tfsdk:"public_only"`
}

type execModel struct {
	APIVersion types.String            `tfsdk:"api_version"`
	Command    types.String            `tfsdk:"command"`
	Args       []types.String          `tfsdk:"args"`
	Env        map[string]types.String `tfsdk:"env"`
}

func clustersAttribute() schema.Attribute {
	text := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Optional: true, MarkdownDescription: description}
	}
	secret := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Optional: true, Sensitive: true, MarkdownDescription: description}
	}
	return schema.MapNestedAttribute{
		Required: true,
		MarkdownDescription: "The clusters by name. Resources say which one they mean with `cluster`; no ambient context, environment variable or default host is ever used. " +
			"Each entry is one of: `kubeconfig`; `kubeconfig_path` with `context`; or `host` with one credential. Values may be ephemeral, or unknown until the apply: then the checks on that cluster are put off to it. " +
			"Credentials are in no resource, so they can be rotated without a diff.",
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"kubeconfig":             secret("The content of a kubeconfig. Its own `current-context` is used unless `context` is set."),
			"kubeconfig_path":        text("The path of a kubeconfig file; a leading `~` is the home folder. Needs `context`, because the file's current context changes by other hands. The file is never written."),
			"context":                text("The context of the kubeconfig. Needed with `kubeconfig_path`."),
			"host":                   text("The API server's URL, `https://…`."),
			"cluster_ca_certificate": text("The PEM certificates that the API server's certificate is verified with; also accepted in base64, as clouds hand it out. Default: the system's."),
			"insecure":               schema.BoolAttribute{Optional: true, MarkdownDescription: "Do not verify the API server's certificate. Default `false`; cannot stand beside `cluster_ca_certificate`."},
			"tls_server_name":        text("The name that the API server's certificate is verified for. Default: the name in `host`."),
			"proxy_url":              text("The proxy to reach the API server through: `http://`, `https://` or `socks5://`."),
			"token":                  secret("A bearer token."),
			"client_certificate":     secret("A client certificate in PEM, with `client_key`."),
			"client_key":             secret("The key of `client_certificate` in PEM."),
			"exec": schema.SingleNestedAttribute{
				Optional:            true,
				MarkdownDescription: "A credential plugin that client-go runs, again whenever its token expires.",
				Attributes: map[string]schema.Attribute{
					"api_version": schema.StringAttribute{Required: true, MarkdownDescription: "`client.authentication.k8s.io/v1` or `client.authentication.k8s.io/v1beta1`."},
					"command":     schema.StringAttribute{Required: true, MarkdownDescription: "The program: a path, or a name on the PATH."},
					"args":        schema.ListAttribute{Optional: true, ElementType: types.StringType, MarkdownDescription: "Its arguments.", Validators: []validator.List{noNulls{}}},
					"env": schema.MapAttribute{
						Optional: true, Sensitive: true, ElementType: types.StringType,
						MarkdownDescription: "Environment variables for this plugin alone, on top of the provider's own environment.",
						Validators:          []validator.Map{noNulls{}},
					},
				},
			},
			"uid": text("The UID of the cluster's `kube-system` namespace. When set, the entry refuses to lead to any other cluster. " +
				"When a cluster was rebuilt, set it to the new UID: what was pinned to the old one leaves the state and is created afresh."),
			"public_only": schema.BoolAttribute{
				Optional: true,
				MarkdownDescription: "Dial public addresses only: never a private, loopback, link-local or otherwise special one, whatever the API server's name resolves to at that moment. For clusters that others bring. " +
					"A proxy would dial in berth's place, so `proxy_url`, a kubeconfig's `proxy-url` and a proxy of the environment (`HTTPS_PROXY`) are refused; `NO_PROXY` takes the cluster out of the latter. " +
					"What an `exec` plugin connects to is not looked at. Default `false`.",
			},
		}},
	}
}

// readClusters turns the `clusters` map into settings. An entry with any unknown value is put off as a whole: half a
// connection is none, and nothing may dial a default in its place (X1, X2).
func readClusters(ctx context.Context, clusters types.Map) (cluster.Settings, diag.Diagnostics) {
	settings := cluster.Settings{Entries: map[string]cluster.Entry{}}
	var diagnostics diag.Diagnostics
	if clusters.IsUnknown() {
		settings.AllDeferred = true
		return settings, diagnostics
	}
	for name, value := range clusters.Elements() {
		if hasUnknown(ctx, value) {
			settings.Deferred = append(settings.Deferred, name)
			continue
		}
		var model clusterModel
		object, ok := value.(types.Object)
		if !ok {
			continue
		}
		if problems := object.As(ctx, &model, basetypes.ObjectAsOptions{}); problems.HasError() {
			diagnostics.Append(problems...)
			continue
		}
		entry := model.entry()
		at := path.Root("clusters").AtMapKey(name)
		for _, problem := range entry.Validate() {
			diagnostics.AddAttributeError(attributePath(at, problem.Attribute), fmt.Sprintf("clusters[%q]: %s", name, problem.Summary), problem.Detail)
		}
		settings.Entries[name] = entry
	}
	return settings, diagnostics
}

func (m clusterModel) entry() cluster.Entry {
	entry := cluster.Entry{
		Kubeconfig: m.Kubeconfig.ValueString(), KubeconfigPath: m.KubeconfigPath.ValueString(), Context: m.Context.ValueString(),
		Host: m.Host.ValueString(), ClusterCACertificate: m.ClusterCACertificate.ValueString(), Insecure: m.Insecure.ValueBool(),
		TLSServerName: m.TLSServerName.ValueString(), ProxyURL: m.ProxyURL.ValueString(), Token: m.Token.ValueString(),
		ClientCertificate: m.ClientCertificate.ValueString(), ClientKey: m.ClientKey.ValueString(), UID: m.UID.ValueString(),
		PublicOnly: m.PublicOnly.ValueBool(),
	}
	if m.Exec != nil {
		entry.Exec = &cluster.Exec{APIVersion: m.Exec.APIVersion.ValueString(), Command: m.Exec.Command.ValueString(), Env: map[string]string{}}
		for _, arg := range m.Exec.Args {
			entry.Exec.Args = append(entry.Exec.Args, arg.ValueString())
		}
		for key, value := range m.Exec.Env {
			entry.Exec.Env[key] = value.ValueString()
		}
	}
	return entry
}

// hasUnknown tells whether a value is unknown anywhere inside.
func hasUnknown(ctx context.Context, value attr.Value) bool {
	if value.IsUnknown() {
		return true
	}
	raw, err := value.ToTerraformValue(ctx)
	return err == nil && !raw.IsFullyKnown()
}

// unknownNames names the arguments whose value is not known yet, as messages do.
func unknownNames(ctx context.Context, arguments map[string]attr.Value) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		if hasUnknown(ctx, arguments[name]) {
			names = append(names, "`"+name+"`")
		}
	}
	return names
}
