package provider

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/access"
	"github.com/berthdev/terraform-provider-berth/internal/argocd"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

type registeredModel struct {
	common
	Management          types.String `tfsdk:"management"`
	ManagementUID       types.String `tfsdk:"management_uid"`
	Name                types.String `tfsdk:"name"`
	ArgoCDNamespace     types.String `tfsdk:"argocd_namespace"`
	InCluster           types.Bool   `tfsdk:"in_cluster"`
	SecretName          types.String `tfsdk:"secret_name"`
	Server              types.String `tfsdk:"server"`
	Access              types.String `tfsdk:"access"`
	TokenLifetime       types.String `tfsdk:"token_lifetime"`
	StoreKubeconfig     types.Bool   `tfsdk:"store_kubeconfig"`
	KubeconfigNamespace types.String `tfsdk:"kubeconfig_namespace"`
	AppOfApps           types.Object `tfsdk:"app_of_apps"`
	SecretLabels        types.Map    `tfsdk:"secret_labels"`
	SecretAnnotations   types.Map    `tfsdk:"secret_annotations"`
	Project             types.String `tfsdk:"project"`
	Namespaces          types.List   `tfsdk:"namespaces"`
	ClusterResources    types.Bool   `tfsdk:"cluster_resources"`
	Shard               types.Int64  `tfsdk:"shard"`

	Org          types.String `tfsdk:"org"`
	ProviderName types.String `tfsdk:"provider_name"`
	Flavor       types.String `tfsdk:"flavor"`
	Region       types.String `tfsdk:"region"`
	Registration types.Object `tfsdk:"registration"`

	DeletionProtection types.Bool   `tfsdk:"deletion_protection"`
	Removal            types.Object `tfsdk:"removal"`
	ForceSteps         types.List   `tfsdk:"force_steps"`

	ArgoCDSecret      types.String `tfsdk:"argocd_secret"`
	KubeconfigSecret  types.String `tfsdk:"kubeconfig_secret"`
	RootApplication   types.String `tfsdk:"root_application"`
	ArgoCDServer      types.String `tfsdk:"argocd_server"`
	KubernetesVersion types.String `tfsdk:"kubernetes_version"`
	NodeCount         types.Int64  `tfsdk:"node_count"`
	TokenExpiresAt    types.String `tfsdk:"token_expires_at"`
	RemovalStep       types.String `tfsdk:"removal_step"`
	LastTransitions   types.Map    `tfsdk:"last_transitions"`
	GitOpsFiles       types.Map    `tfsdk:"gitops_files"`
}

type appOfAppsModel struct {
	RepoURL        types.String `tfsdk:"repo_url"`
	Revision       types.String `tfsdk:"revision"`
	Path           types.String `tfsdk:"path"`
	ManagementPath types.String `tfsdk:"management_path"`
	Project        types.String `tfsdk:"project"`
	Commit         types.Bool   `tfsdk:"commit"`
}

type registrationModel struct {
	Module       types.String `tfsdk:"module"`
	ProviderName types.String `tfsdk:"provider_name"`
	Flavor       types.String `tfsdk:"flavor"`
	Region       types.String `tfsdk:"region"`
}

type removalModel struct {
	StepTimeout           types.String `tfsdk:"step_timeout"`
	ReleaseCloudResources types.Bool   `tfsdk:"release_cloud_resources"`
	BackupDisks           types.Bool   `tfsdk:"backup_disks"`
	Controllers           types.List   `tfsdk:"controllers"`
}

// unknown names the arguments whose value is not known yet. Outputs that may be written as arguments are looked at in
// the configuration.
func (m *registeredModel) unknown(ctx context.Context, config *registeredModel) []string {
	arguments := map[string]attr.Value{
		"name": m.Name, "argocd_namespace": m.ArgoCDNamespace, "in_cluster": m.InCluster, "secret_name": config.SecretName, "server": m.Server, "access": m.Access,
		"store_kubeconfig": m.StoreKubeconfig, "kubeconfig_namespace": m.KubeconfigNamespace, "app_of_apps": m.AppOfApps, "secret_labels": m.SecretLabels,
		"secret_annotations": m.SecretAnnotations, "project": m.Project, "namespaces": m.Namespaces, "cluster_resources": m.ClusterResources, "shard": m.Shard,
		"org": m.Org, "provider_name": config.ProviderName, "flavor": config.Flavor, "region": config.Region, "registration": m.Registration, "adopt": m.Adopt, "adopt_from": m.AdoptFrom,
	}
	return unknownNames(ctx, arguments)
}

// spec is what the model describes; every argument is known, and what is to be detected is empty.
func (m *registeredModel) spec(ctx context.Context) (argocd.Spec, error) {
	spec := argocd.Spec{
		Name: m.Name.ValueString(), Namespace: m.ArgoCDNamespace.ValueString(), InCluster: m.InCluster.ValueBool(), SecretName: m.SecretName.ValueString(),
		Server: m.Server.ValueString(), Org: m.Org.ValueString(), Provider: m.ProviderName.ValueString(), Flavor: m.Flavor.ValueString(), Region: m.Region.ValueString(),
		Labels: stringMap(ctx, m.SecretLabels), Annotations: stringMap(ctx, m.SecretAnnotations), Project: m.Project.ValueString(), Namespaces: stringList(ctx, m.Namespaces),
		ClusterResources: m.ClusterResources.ValueBoolPointer(), Shard: m.Shard.ValueInt64Pointer(),
		StoreKubeconfig: m.StoreKubeconfig.ValueBool(), KubeconfigNamespace: m.KubeconfigNamespace.ValueString(),
	}
	if spec.SecretName == "" {
		spec.SecretName = argocd.SecretNameOf(spec.Name)
	}
	// It was validated.
	spec.TokenLifetime, _ = time.ParseDuration(m.TokenLifetime.ValueString())
	if id := m.Access.ValueString(); id != "" {
		ref, err := access.ParseRef(id)
		if err != nil {
			return spec, err
		}
		spec.Access = &ref
	}
	if registration, set := objectAs[registrationModel](ctx, m.Registration); set {
		spec.Built = true
		spec.Provider = first(spec.Provider, registration.ProviderName.ValueString())
		spec.Flavor = first(spec.Flavor, registration.Flavor.ValueString())
		spec.Region = first(spec.Region, registration.Region.ValueString())
	}
	spec.AppOfApps = m.appOfApps(ctx)
	return spec, nil
}

func first(values ...string) string {
	for _, value := range values {
		if value != "" {
			return value
		}
	}
	return ""
}

func (m *registeredModel) appOfApps(ctx context.Context) *argocd.AppOfApps {
	app, set := objectAs[appOfAppsModel](ctx, m.AppOfApps)
	if !set {
		return nil
	}
	return &argocd.AppOfApps{
		RepoURL: app.RepoURL.ValueString(), Revision: first(app.Revision.ValueString(), "HEAD"),
		Path:           first(app.Path.ValueString(), argocd.ComponentsPath(m.Name.ValueString())),
		ManagementPath: first(app.ManagementPath.ValueString(), argocd.ComponentsPath(m.Management.ValueString())),
		Project:        first(app.Project.ValueString(), "default"), Commit: app.Commit.ValueBool(),
	}
}

func (m *registeredModel) terms(ctx context.Context, call *call[registeredModel]) kube.Terms {
	return kube.Terms{Owner: call.owner, Adopt: m.Adopt.ValueBool(), AdoptFrom: m.adoptFrom(ctx), Held: call.state != nil}
}

// fill fills in the outputs that follow from the arguments alone.
func (m *registeredModel) fill(spec argocd.Spec) error {
	m.SecretName = types.StringValue(spec.SecretName)
	m.ArgoCDSecret, m.KubeconfigSecret, m.RootApplication = types.StringNull(), types.StringNull(), types.StringNull()
	if !spec.InCluster {
		m.ArgoCDSecret = types.StringValue(spec.Namespace + "/" + spec.SecretName)
		if spec.StoreKubeconfig {
			m.KubeconfigSecret = types.StringValue(spec.KubeconfigNamespace + "/" + argocd.KubeconfigSecretName(spec.Name))
		}
	}
	m.GitOpsFiles = types.MapNull(types.StringType)
	if spec.AppOfApps == nil {
		return nil
	}
	m.RootApplication = types.StringValue(spec.Namespace + "/" + argocd.RootName(spec.Name))
	files, err := spec.GitOpsFiles()
	m.GitOpsFiles = stringsValue(files)
	return err
}

// observe fills in the outputs that are seen.
func (m *registeredModel) observe(ctx context.Context, seen *argocd.Seen) {
	m.ArgoCDServer = optionalString(seen.ArgoServer)
	m.KubernetesVersion, m.NodeCount = optionalString(seen.Version), types.Int64Value(int64(seen.Nodes))
	m.TokenExpiresAt = types.StringNull()
	if !seen.TokenExpires.IsZero() {
		m.TokenExpiresAt = types.StringValue(seen.TokenExpires.UTC().Format(time.RFC3339))
	}
	m.RemovalStep = optionalString(seen.RemovalStep)
	before, changed := map[string]condition{}, stringMap(ctx, m.LastTransitions)
	// The element type is the schema's own, so the conversion cannot fail.
	m.Conditions.ElementsAs(ctx, &before, false)
	conditions, transitions := map[string]condition{}, map[string]string{}
	for name, one := range seen.Conditions {
		conditions[name] = condition{Status: one.Status, Reason: one.Reason, Message: one.Message}
		transitions[name] = changed[name]
		if before[name].Status != one.Status || changed[name] == "" {
			transitions[name] = time.Now().UTC().Format(time.RFC3339)
		}
	}
	m.setConditions(ctx, conditions)
	m.LastTransitions = stringsValue(transitions)
}

func (m *registeredModel) removal(ctx context.Context, call *call[registeredModel]) argocd.Removal {
	terms := m.terms(ctx, call)
	terms.Held = call.marked
	knobs, _ := objectAs[removalModel](ctx, m.Removal)
	// It was validated.
	limit, _ := time.ParseDuration(first(knobs.StepTimeout.ValueString(), defaultStepTimeout))
	return argocd.Removal{
		Terms: terms, Retain: m.DeletionPolicy.ValueString() == retain, StepTimeout: limit,
		ReleaseCloudResources: knobs.ReleaseCloudResources.ValueBool(), BackupDisks: knobs.BackupDisks.ValueBool(),
		Controllers: stringList(ctx, knobs.Controllers), Force: stringList(ctx, m.ForceSteps), RemovedServiceAccount: !m.Access.IsNull(),
	}
}
