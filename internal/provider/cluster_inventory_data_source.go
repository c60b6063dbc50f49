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
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/argocd"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

type clusterInventoryModel struct {
	managed
	Cluster           types.String                 `tfsdk:"cluster"`
	ClusterUID        types.String                 `tfsdk:"cluster_uid"`
	Name              types.String                 `tfsdk:"name"`
	Controllers       []string                     `tfsdk:"controllers"`
	Server            types.String                 `tfsdk:"server"`
	KubernetesVersion types.String                 `tfsdk:"kubernetes_version"`
	NodeCount         types.Int64                  `tfsdk:"node_count"`
	Root              *inventoryApplicationModel   `tfsdk:"root"`
	Zones             []inventoryZoneModel         `tfsdk:"zones"`
	Waves             []inventoryWaveModel         `tfsdk:"waves"`
	Foreign           []inventoryApplicationModel  `tfsdk:"foreign"`
	ApplicationSets   []string                     `tfsdk:"application_sets"`
	Volumes           []inventoryVolumeModel       `tfsdk:"volumes"`
	LoadBalancers     []inventoryLoadBalancerModel `tfsdk:"load_balancers"`
	RemovalStep       types.String                 `tfsdk:"removal_step"`
	Skipped           []string                     `tfsdk:"skipped"`
	Report            types.String                 `tfsdk:"report"`
}

type inventoryApplicationModel struct {
	Namespace            types.String `tfsdk:"namespace"`
	Name                 types.String `tfsdk:"name"`
	Wave                 types.Int64  `tfsdk:"wave"`
	Project              types.String `tfsdk:"project"`
	Destination          types.String `tfsdk:"destination"`
	DestinationNamespace types.String `tfsdk:"destination_namespace"`
	Sync                 types.String `tfsdk:"sync"`
	Health               types.String `tfsdk:"health"`
	Controller           types.String `tfsdk:"controller"`
	Parent               types.String `tfsdk:"parent"`
	ApplicationSet       types.String `tfsdk:"application_set"`
}

type inventoryZoneModel struct {
	Zone        types.String `tfsdk:"zone"`
	Product     types.String `tfsdk:"product"`
	Org         types.String `tfsdk:"org"`
	Environment types.String `tfsdk:"environment"`
	Namespace   types.String `tfsdk:"namespace"`
	Application types.String `tfsdk:"application"`
	Sync        types.String `tfsdk:"sync"`
	Health      types.String `tfsdk:"health"`
}

type inventoryWaveModel struct {
	Wave         types.String                `tfsdk:"wave"`
	Last         types.Bool                  `tfsdk:"last"`
	Applications []inventoryApplicationModel `tfsdk:"applications"`
}

type inventoryVolumeModel struct {
	Claim         types.String `tfsdk:"claim"`
	Name          types.String `tfsdk:"name"`
	Size          types.String `tfsdk:"size"`
	StorageClass  types.String `tfsdk:"storage_class"`
	Driver        types.String `tfsdk:"driver"`
	Handle        types.String `tfsdk:"handle"`
	ReclaimPolicy types.String `tfsdk:"reclaim_policy"`
}

type inventoryLoadBalancerModel struct {
	Namespace types.String `tfsdk:"namespace"`
	Name      types.String `tfsdk:"name"`
	Addresses []string     `tfsdk:"addresses"`
}

func newClusterInventory() datasource.DataSource {
	return &managementSource[clusterInventoryModel, *clusterInventoryModel]{
		name: "cluster_inventory", schema: clusterInventorySchema, read: readClusterInventory,
		object: func(m *clusterInventoryModel) string { return m.Name.ValueString() },
		unread: "its Applications, zones, volumes and load balancers",
	}
}

func clusterInventorySchema() schema.Schema {
	text := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	application := schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
		"namespace":             text("The namespace of the Application, on the management cluster."),
		"name":                  text("The name of the Application."),
		"wave":                  schema.Int64Attribute{Computed: true, MarkdownDescription: "Its own sync wave."},
		"project":               text("Its AppProject."),
		"destination":           text("The cluster that it deploys to: its name in Argo CD, or its address."),
		"destination_namespace": text("The namespace that it deploys to."),
		"sync":                  text("Argo CD's word, such as `Synced`; null while it has none."),
		"health":                text("Argo CD's word, such as `Healthy`; null while it has none."),
		"controller":            text("Why it counts as one of the controllers that own cloud resources, which are removed last; null for all others."),
		"parent":                text("The Application whose resource it is; null for none."),
		"application_set":       text("The ApplicationSet that makes it; null for none."),
	}}
	return schema.Schema{
		MarkdownDescription: "What is on a registered cluster: its zones, the Applications of its root by sync wave, what deploys to it from elsewhere, its volumes and load balancers. " +
			"It is what the destroy of a `berth_cluster` takes apart, in the reverse of the order shown here. What could not be looked at is in `skipped`. While the connection of the management cluster is not known yet, every output is null.",
		Attributes: withManaged(map[string]schema.Attribute{
			"name": schema.StringAttribute{Required: true, MarkdownDescription: "What Argo CD calls the cluster.", Validators: []validator.String{stringvalidator.LengthAtLeast(1)}},
			"cluster": schema.StringAttribute{
				Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
				MarkdownDescription: "The key of the cluster itself in the provider's `clusters`. Without it, or while it does not answer, version, nodes, volumes and load balancers are not looked at. The management cluster's key stands for a registration with `in_cluster`.",
			},
			"cluster_uid": text("The UID of the cluster's `kube-system` namespace; null where it is not known."),
			"controllers": schema.ListAttribute{
				Optional: true, ElementType: types.StringType, Validators: namesAttribute("").Validators,
				MarkdownDescription: "Names of Applications that are removed last, as in `removal.controllers` of `berth_cluster`, besides those that are recognised.",
			},
			"server":             text("The address by which Argo CD reaches it; null where it is not registered."),
			"kubernetes_version": text("The version of its API server."),
			"node_count":         schema.Int64Attribute{Computed: true, MarkdownDescription: "How many nodes it has."},
			"root":               schema.SingleNestedAttribute{Computed: true, MarkdownDescription: "Its root Application; null for none.", Attributes: application.Attributes},
			"zones": schema.ListNestedAttribute{
				Computed: true, MarkdownDescription: "The environments on it, whoever placed them. A removal waits until there are none.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"zone": text("The zone."), "product": text("Its product."), "org": text("Its organization."), "environment": text("Its environment, such as `release`."),
					"namespace": text("The namespace that it runs in."), "application": text("Its Application, as namespace/name."),
					"sync": text("Argo CD's word, such as `Synced`."), "health": text("Argo CD's word, such as `Healthy`."),
				}},
			},
			"waves": schema.ListNestedAttribute{
				Computed: true, MarkdownDescription: "What belongs to its root, in the order in which Argo CD brings it up, except that the controllers which are removed last come first.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"wave":         text("The sync wave; below an Application that brings others, the waves down to it with slashes between them, such as `1/0`."),
					"last":         schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether these are removed after all others."},
					"applications": schema.ListNestedAttribute{Computed: true, MarkdownDescription: "The Applications.", NestedObject: application},
				}},
			},
			"foreign": schema.ListNestedAttribute{
				Computed: true, NestedObject: application,
				MarkdownDescription: "Applications on it that do not belong to its root, or that an ApplicationSet makes. They block a removal.",
			},
			"application_sets": schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "The ApplicationSets that the root brings, as namespace/name. They block a removal."},
			"volumes": schema.ListNestedAttribute{
				Computed: true, MarkdownDescription: "The volumes that claims have.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"claim": text("The claim, as namespace/name."), "name": text("The PersistentVolume."), "size": text("Its size."), "storage_class": text("Its StorageClass."),
					"driver": text("What its storage is kept by."), "handle": text("By what its storage is found there."), "reclaim_policy": text("What becomes of the storage when the claim goes: `Delete` or `Retain`."),
				}},
			},
			"load_balancers": schema.ListNestedAttribute{
				Computed: true, MarkdownDescription: "The Services with a load balancer.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"namespace": text("The namespace of the Service."), "name": text("Its name."),
					"addresses": schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Its addresses and host names."},
				}},
			},
			"removal_step": text("The step that a removal has got to; null when none was begun."),
			"skipped":      schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "What could not be looked at, and why."},
			"report":       text("All this as text, for an output."),
		}),
	}
}

func readClusterInventory(ctx context.Context, fleet *cluster.Fleet, management *cluster.Cluster, model *clusterInventoryModel, diagnostics *diag.Diagnostics) error {
	spec := argocd.Spec{Name: model.Name.ValueString(), Namespace: model.ArgoCDNamespace.ValueString(), AppOfApps: &argocd.AppOfApps{}}
	secret, err := argocd.FindSecret(ctx, management, spec.Namespace, spec.Name)
	if err != nil {
		return err
	}
	if secret != nil {
		spec.SecretName = secret.GetName()
	}
	clusters := argocd.Clusters{Management: management}
	if !model.Cluster.IsNull() {
		if err := model.reach(ctx, fleet, &clusters); err != nil {
			return err
		}
		spec.InCluster = secret == nil && model.ClusterUID.ValueString() != "" && model.ClusterUID.Equal(model.ManagementUID)
	}
	inventory, err := argocd.TakeInventory(ctx, clusters, spec, model.Controllers)
	if err != nil {
		return err
	}
	if clusters.Unreachable != nil {
		diagnostics.AddAttributeWarning(path.Root("cluster"), fmt.Sprintf("Cluster %q was not looked at", model.Cluster.ValueString()),
			fmt.Sprintf("Its version, nodes, volumes and load balancers are not known: %s", clusters.Unreachable))
	}
	model.fill(inventory)
	return nil
}

// reach finds the workload cluster. One that does not answer, or is not known yet, is told of and not asked.
func (m *clusterInventoryModel) reach(ctx context.Context, fleet *cluster.Fleet, clusters *argocd.Clusters) error {
	key := m.Cluster.ValueString()
	workload, err := fleet.Cluster(key)
	if errors.Is(err, cluster.ErrDeferred) {
		clusters.Unreachable = fmt.Errorf("the connection of cluster %q is not known yet", key)
		return nil
	}
	if err != nil {
		return err
	}
	clusters.Workload = workload
	uid, err := workload.UID(ctx)
	switch {
	case cluster.Unreachable(err):
		clusters.Unreachable = err
	case err != nil:
		return err
	default:
		m.ClusterUID = types.StringValue(uid)
	}
	return nil
}

func (m *clusterInventoryModel) fill(inventory argocd.Inventory) {
	m.Server, m.KubernetesVersion = optionalString(inventory.Server), optionalString(inventory.Version)
	m.RemovalStep, m.Report = optionalString(inventory.Step), types.StringValue(strings.Join(inventory.Lines(), "\n"))
	if inventory.Nodes >= 0 {
		m.NodeCount = types.Int64Value(int64(inventory.Nodes))
	}
	if inventory.Root != nil {
		root := inventoryApplication(*inventory.Root)
		m.Root = &root
	}
	m.Zones, m.Waves, m.Volumes, m.LoadBalancers = []inventoryZoneModel{}, []inventoryWaveModel{}, []inventoryVolumeModel{}, []inventoryLoadBalancerModel{}
	for _, zone := range inventory.Zones {
		m.Zones = append(m.Zones, inventoryZoneModel{
			Zone: types.StringValue(zone.Zone), Product: optionalString(zone.Product), Org: optionalString(zone.Org), Environment: optionalString(zone.Environment),
			Namespace: optionalString(zone.DestinationNamespace), Application: types.StringValue(zone.String()), Sync: optionalString(zone.Sync), Health: optionalString(zone.Health),
		})
	}
	for _, wave := range inventory.Waves {
		m.Waves = append(m.Waves, inventoryWaveModel{Wave: types.StringValue(wave.String()), Last: types.BoolValue(wave.Last), Applications: inventoryApplications(wave.Applications)})
	}
	m.Foreign = inventoryApplications(inventory.Foreign)
	m.ApplicationSets, m.Skipped = append([]string{}, inventory.Generators...), append([]string{}, inventory.Skipped...)
	for _, volume := range inventory.Volumes {
		m.Volumes = append(m.Volumes, inventoryVolumeModel{
			Claim: types.StringValue(volume.Claim), Name: types.StringValue(volume.Name), Size: types.StringValue(volume.Size), StorageClass: optionalString(volume.StorageClass),
			Driver: optionalString(volume.Driver), Handle: optionalString(volume.Handle), ReclaimPolicy: optionalString(volume.Policy),
		})
	}
	for _, one := range inventory.LoadBalancers {
		m.LoadBalancers = append(m.LoadBalancers, inventoryLoadBalancerModel{
			Namespace: types.StringValue(one.Namespace), Name: types.StringValue(one.Name), Addresses: append([]string{}, one.Addresses...),
		})
	}
}

func inventoryApplications(all []argocd.Application) []inventoryApplicationModel {
	models := make([]inventoryApplicationModel, len(all))
	for i, one := range all {
		models[i] = inventoryApplication(one)
	}
	return models
}

func inventoryApplication(one argocd.Application) inventoryApplicationModel {
	destination := one.DestinationName
	if destination == "" {
		destination = one.DestinationServer
	}
	return inventoryApplicationModel{
		Namespace: types.StringValue(one.Namespace), Name: types.StringValue(one.Name), Wave: types.Int64Value(int64(one.Wave)), Project: optionalString(one.Project),
		Destination: optionalString(destination), DestinationNamespace: optionalString(one.DestinationNamespace), Sync: optionalString(one.Sync), Health: optionalString(one.Health),
		Controller: optionalString(one.Why), Parent: optionalString(one.Parent), ApplicationSet: optionalString(one.ApplicationSet),
	}
}
