package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/argocd"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// managed are the attributes of the data sources that ask a management cluster's Argo CD. Each model embeds it.
type managed struct {
	ID              types.String `tfsdk:"id"`
	Management      types.String `tfsdk:"management"`
	ManagementUID   types.String `tfsdk:"management_uid"`
	ArgoCDNamespace types.String `tfsdk:"argocd_namespace"`
}

func (m *managed) managing() *managed { return m }

// withManaged adds these attributes to a data source's own.
func withManaged(own map[string]schema.Attribute) map[string]schema.Attribute {
	own["id"] = schema.StringAttribute{Computed: true, MarkdownDescription: "The management cluster's key; for a data source about one cluster, that cluster's name after a slash."}
	own["management"] = schema.StringAttribute{
		Required: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
		MarkdownDescription: "The key in the provider's `clusters` of the cluster that Argo CD runs in.",
	}
	own["management_uid"] = schema.StringAttribute{Computed: true, MarkdownDescription: "The UID of the management cluster's `kube-system` namespace; null while its connection is not known."}
	own["argocd_namespace"] = schema.StringAttribute{
		Optional: true, Computed: true, Validators: []validator.String{dnsLabel()},
		MarkdownDescription: "The namespace of Argo CD. Default `" + argocd.DefaultNamespace + "`.",
	}
	return own
}

// managementSource is a data source that asks a management cluster. It does for those what dataSource does for all others.
type managementSource[M any, P interface {
	*M
	managing() *managed
}] struct {
	name   string
	schema func() schema.Schema
	// object is which of its clusters it is about, "" for all.
	object func(P) string
	read   func(context.Context, *cluster.Fleet, *cluster.Cluster, P, *diag.Diagnostics) error
	// unread says what is not known while the management cluster is not.
	unread   string
	provider *configured
}

func (s *managementSource[M, P]) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + s.name
}

func (s *managementSource[M, P]) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = s.schema()
}

func (s *managementSource[M, P]) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	s.provider, _ = req.ProviderData.(*configured)
}

// Read answers from the management cluster. While its connection is unknown nothing is asked, and a warning says so (X2). One
// that cannot be reached is an error: there is no prior answer to keep.
func (s *managementSource[M, P]) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var model M
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	at := P(&model).managing()
	if at.ArgoCDNamespace.IsNull() {
		at.ArgoCDNamespace = types.StringValue(argocd.DefaultNamespace)
	}
	at.ID = at.Management
	called := fmt.Sprintf("data source berth_%s on cluster %q", s.name, at.Management.ValueString())
	if object := s.object(&model); object != "" {
		at.ID = types.StringValue(at.Management.ValueString() + "/" + object)
		called = fmt.Sprintf("data source berth_%s %q on cluster %q", s.name, object, at.Management.ValueString())
	}
	err := s.ask(ctx, at, &model, &resp.Diagnostics)
	if errors.Is(err, cluster.ErrDeferred) {
		resp.Diagnostics.AddWarning(fmt.Sprintf("%s was not read", capital(called)),
			fmt.Sprintf("Because the connection of cluster %q is not known yet, this plan could not look at it. Not looked at: %s. The next plan looks, once the cluster exists.", at.Management.ValueString(), s.unread))
		err = nil
	}
	if err != nil {
		addError(&resp.Diagnostics, fmt.Sprintf("Reading %s failed", called), err, nil)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

func (s *managementSource[M, P]) ask(ctx context.Context, at *managed, model P, diagnostics *diag.Diagnostics) error {
	management, err := s.provider.fleet.Cluster(at.Management.ValueString())
	if problem, ok := errors.AsType[*cluster.Problem](err); ok {
		problem.Attribute = "management"
	}
	if err != nil {
		return err
	}
	uid, err := management.UID(ctx)
	if err != nil {
		return err
	}
	at.ManagementUID = types.StringValue(uid)
	return s.read(ctx, s.provider.fleet, management, model, diagnostics)
}

type clustersModel struct {
	managed
	Clusters []fleetMemberModel `tfsdk:"clusters"`
	Report   types.String       `tfsdk:"report"`
}

type fleetMemberModel struct {
	Name                types.String `tfsdk:"name"`
	Type                types.String `tfsdk:"type"`
	Server              types.String `tfsdk:"server"`
	Secret              types.String `tfsdk:"argocd_secret"`
	Provider            types.String `tfsdk:"provider"`
	Flavor              types.String `tfsdk:"flavor"`
	Region              types.String `tfsdk:"region"`
	Org                 types.String `tfsdk:"org"`
	KubernetesVersion   types.String `tfsdk:"kubernetes_version"`
	NodeCount           types.Int64  `tfsdk:"node_count"`
	ManagedByBerth      types.Bool   `tfsdk:"managed_by_berth"`
	Zones               types.Int64  `tfsdk:"zones"`
	HealthyZones        types.Int64  `tfsdk:"healthy_zones"`
	Applications        types.Int64  `tfsdk:"applications"`
	HealthyApplications types.Int64  `tfsdk:"healthy_applications"`
	Health              types.String `tfsdk:"health"`
	RemovalStep         types.String `tfsdk:"removal_step"`
}

func newClusters() datasource.DataSource {
	return &managementSource[clustersModel, *clustersModel]{
		name: "clusters", schema: clustersSchema, read: readClustersList,
		object: func(*clustersModel) string { return "" },
		unread: "the clusters that its Argo CD deploys to",
	}
}

func clustersSchema() schema.Schema {
	text := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	number := func(description string) schema.Int64Attribute {
		return schema.Int64Attribute{Computed: true, MarkdownDescription: description}
	}
	return schema.Schema{
		MarkdownDescription: "Every cluster that a management cluster's Argo CD deploys to, whoever registered it, from Argo CD's own Secrets and Applications. No workload cluster is asked anything, so that one which is down costs nothing. " +
			"While the connection of the management cluster is not known yet, every output is null.",
		Attributes: withManaged(map[string]schema.Attribute{
			"clusters": schema.ListNestedAttribute{
				Computed: true, MarkdownDescription: "The clusters: the management cluster first, then the others by name.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"name":                 text("What Argo CD calls it: `destination.name` of Applications."),
					"type":                 text("`management` or `workload`."),
					"server":               text("The address by which Argo CD reaches it."),
					"argocd_secret":        text("The Secret that registers it; null for a management cluster without one."),
					"provider":             text("Where it runs, as its registration says."),
					"flavor":               text("What kind of Kubernetes it is, as its registration says."),
					"region":               text("In which region, as its registration says."),
					"org":                  text("The organization that it belongs to; null for the platform's."),
					"kubernetes_version":   text("Its version when its registration was applied last; that of now for the management cluster."),
					"node_count":           number("How many nodes it had then; those of now for the management cluster."),
					"managed_by_berth":     schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether a configuration of berth applied the registration."},
					"zones":                number("How many environments are on it."),
					"healthy_zones":        number("How many of them are healthy."),
					"applications":         number("How many Applications deploy to it, its zones included."),
					"healthy_applications": number("How many of them are healthy."),
					"health":               text("The worst health among its Applications, in Argo CD's words; null where it has none."),
					"removal_step":         text("The step that a removal has got to; null when none was begun."),
				}},
			},
			"report": text("All this as text, for an output."),
		}),
	}
}

func readClustersList(ctx context.Context, _ *cluster.Fleet, management *cluster.Cluster, model *clustersModel, _ *diag.Diagnostics) error {
	all, err := argocd.ListClusters(ctx, management, model.ArgoCDNamespace.ValueString())
	if err != nil {
		return err
	}
	model.Clusters = []fleetMemberModel{}
	rows := [][]string{{"cluster", "type", "runs on", "version", "nodes", "zones", "applications", "health", "removal"}}
	for _, one := range all {
		kind, nodes := "workload", types.Int64Null()
		if one.Management {
			kind = "management"
		}
		if one.Nodes >= 0 {
			nodes = types.Int64Value(int64(one.Nodes))
		}
		model.Clusters = append(model.Clusters, fleetMemberModel{
			Name: types.StringValue(one.Name), Type: types.StringValue(kind), Server: types.StringValue(one.Server), Secret: optionalString(one.Secret),
			Provider: optionalString(one.Provider), Flavor: optionalString(one.Flavor), Region: optionalString(one.Region), Org: optionalString(one.Org),
			KubernetesVersion: optionalString(one.Version), NodeCount: nodes, ManagedByBerth: types.BoolValue(one.Berth),
			Zones: types.Int64Value(int64(one.Zones)), HealthyZones: types.Int64Value(int64(one.HealthyZones)),
			Applications: types.Int64Value(int64(one.Applications)), HealthyApplications: types.Int64Value(int64(one.HealthyApplications)),
			Health: optionalString(one.Health), RemovalStep: optionalString(one.Step),
		})
		count := "?"
		if one.Nodes >= 0 {
			count = fmt.Sprint(one.Nodes)
		}
		rows = append(rows, []string{
			one.Name, kind, strings.Join(strings.Fields(one.Provider+" "+one.Flavor+" "+one.Region), " "), one.Version, count,
			fmt.Sprintf("%d/%d", one.HealthyZones, one.Zones), fmt.Sprintf("%d/%d", one.HealthyApplications, one.Applications), one.Health, one.Step,
		})
	}
	model.Report = types.StringValue(table(rows))
	return nil
}
