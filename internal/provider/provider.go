// Package provider is the Terraform surface of berth: schemas, models, plan checks, and CRUD that calls the domains.
// Nothing in it talks to a cluster by itself, and no Terraform type goes below it.
package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// New returns the constructor of the provider at a version.
func New(version string) func() provider.Provider {
	return func() provider.Provider { return &berth{version: version} }
}

type berth struct{ version string }

var (
	_ provider.Provider                       = (*berth)(nil)
	_ provider.ProviderWithEphemeralResources = (*berth)(nil)
	_ provider.ProviderWithFunctions          = (*berth)(nil)
	_ provider.ProviderWithValidateConfig     = (*berth)(nil)
)

// configured is what a configured provider hands to its resources and data sources.
type configured struct {
	fleet  *cluster.Fleet
	charts *charts
	// keepUnreachable is on_unreachable = "warn": the resources of a cluster that does not answer keep their state.
	keepUnreachable bool
	// turns lets resources that are one to the cluster (a replacement and what it replaces) write one after the other.
	turns turns
}

type providerModel struct {
	Owner         types.String `tfsdk:"owner"`
	Clusters      types.Map    `tfsdk:"clusters"`
	Charts        types.Object `tfsdk:"charts"`
	OnUnreachable types.String `tfsdk:"on_unreachable"`
	ProgressFile  types.String `tfsdk:"progress_file"`
}

func (*berth) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "berth"
}

func (*berth) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "berth makes Kubernetes clusters working members of a fleet: checked before anything is touched, kept from drifting, and taken apart in order. " +
			"One provider block serves any number of clusters.",
		Attributes: map[string]schema.Attribute{
			"owner": schema.StringAttribute{
				Required: true,
				MarkdownDescription: "Names this configuration on every ownership mark, for instance `platform-prod`. Use one for each state: objects that another owner marked are refused. " +
					"Changing it re-marks what the state holds, in place.",
				Validators: []validator.String{stringvalidator.LengthBetween(1, 200), noSlash()},
			},
			"clusters": clustersAttribute(),
			"charts":   chartsAttribute(),
			"on_unreachable": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "What a refresh does when a cluster cannot be reached (DNS, connection, TLS time-out, or 502 to 504): `error` (default), or `warn`, which keeps the prior state of that cluster's resources and skips its plan checks. " +
					"Wrong credentials, a wrong CA and a wrong cluster are errors always.",
				Validators: []validator.String{stringvalidator.OneOf("error", "warn")},
			},
			"progress_file": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "A file to which each step of long work is appended while it runs, as one JSON object a line (`time`, `cluster`, `object`, `action`, `reason`), for a `tail -f` or a CI job's summary. Default: none; the same lines are in the log at level INFO.",
			},
		},
	}
}

func (*berth) ValidateConfig(ctx context.Context, req provider.ValidateConfigRequest, resp *provider.ValidateConfigResponse) {
	var model providerModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	_, diagnostics := readClusters(ctx, model.Clusters)
	resp.Diagnostics.Append(diagnostics...)
}

func (p *berth) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var model providerModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	for name, value := range map[string]types.String{"owner": model.Owner, "on_unreachable": model.OnUnreachable, "progress_file": model.ProgressFile} {
		if value.IsUnknown() {
			resp.Diagnostics.AddAttributeError(path.Root(name), fmt.Sprintf("`%s` must be known at plan", name),
				fmt.Sprintf("The provider's `%s` depends on something that is created in the same apply. Every plan needs it: use a value that is known, such as a variable.", name))
		}
	}
	userAgent := "terraform-provider-berth/" + p.version
	settings, diagnostics := readClusters(ctx, model.Clusters)
	resp.Diagnostics.Append(diagnostics...)
	sources, diagnostics := readCharts(ctx, model.Charts, userAgent)
	resp.Diagnostics.Append(diagnostics...)
	if resp.Diagnostics.HasError() {
		return
	}
	progress, err := followProgress(model.ProgressFile.ValueString())
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root("progress_file"), "The progress file cannot be written",
			fmt.Sprintf("%s. Name a file in a folder that exists and can be written, or leave `progress_file` out.", err))
		return
	}
	settings.Owner = model.Owner.ValueString()
	settings.UserAgent = userAgent
	settings.Trace = func(ctx context.Context, message string, fields map[string]any) { tflog.Trace(ctx, message, fields) }
	settings.Progress = progress
	ready := &configured{fleet: cluster.NewFleet(settings), charts: sources, keepUnreachable: model.OnUnreachable.ValueString() == "warn"}
	resp.ResourceData, resp.DataSourceData, resp.EphemeralResourceData = ready, ready, ready
}

func (*berth) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{newPriorityClass, newInstance, newRelease, newKnativeServing, newClusterAccess, newRegistered, newHub}
}

func (*berth) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{newPreflight, newNodes, newQuota, newKnativeVersions, newClusterInventory, newClusters}
}

func (*berth) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return []func() ephemeral.EphemeralResource{newKubeconfigEphemeral}
}

func (*berth) Functions(context.Context) []func() function.Function {
	return []func() function.Function{newKubeconfig, newImageTag, newKnativeVersionsFunction}
}
