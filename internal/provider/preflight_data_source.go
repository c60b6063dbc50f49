package provider

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/preflight"
)

type preflightModel struct {
	located
	KubernetesVersion   types.String              `tfsdk:"kubernetes_version"`
	Features            []string                  `tfsdk:"features"`
	Permissions         []permissionModel         `tfsdk:"permissions"`
	Namespaces          []preflightNamespaceModel `tfsdk:"namespaces"`
	Platforms           []string                  `tfsdk:"platforms"`
	DerivePlatforms     types.Bool                `tfsdk:"derive_platforms"`
	NodeSelector        types.Map                 `tfsdk:"node_selector"`
	Tolerations         types.List                `tfsdk:"tolerations"`
	ContainerRuntime    types.Bool                `tfsdk:"container_runtime"`
	Sizes               types.Map                 `tfsdk:"sizes"`
	QuotaNamespace      types.String              `tfsdk:"quota_namespace"`
	QuotaPriorityClass  types.String              `tfsdk:"quota_priority_class"`
	StorageClasses      []string                  `tfsdk:"storage_classes"`
	DefaultStorageClass types.Bool                `tfsdk:"default_storage_class"`
	PriorityClasses     []string                  `tfsdk:"priority_classes"`
	Secrets             []preflightSecretModel    `tfsdk:"secrets"`
	Endpoints           []preflightEndpointModel  `tfsdk:"endpoints"`
	OnFailure           types.String              `tfsdk:"on_failure"`
	Context             types.String              `tfsdk:"context"`
	Server              types.String              `tfsdk:"server"`
	ServerVersion       types.String              `tfsdk:"server_version"`
	KubernetesFloor     types.String              `tfsdk:"kubernetes_floor"`
	Checks              []checkModel              `tfsdk:"checks"`
	Passed              types.Bool                `tfsdk:"passed"`
	Report              types.String              `tfsdk:"report"`
}

type permissionModel struct {
	Verb        types.String `tfsdk:"verb"`
	Group       types.String `tfsdk:"group"`
	Resource    types.String `tfsdk:"resource"`
	Subresource types.String `tfsdk:"subresource"`
	Namespace   types.String `tfsdk:"namespace"`
	Name        types.String `tfsdk:"name"`
}

type preflightNamespaceModel struct {
	Name         types.String `tfsdk:"name"`
	Owner        types.String `tfsdk:"owner"`
	PodSecurity  types.String `tfsdk:"pod_security"`
	MayBeMissing types.Bool   `tfsdk:"may_be_missing"`
}

type preflightSecretModel struct {
	Namespace types.String `tfsdk:"namespace"`
	Name      types.String `tfsdk:"name"`
	Keys      []string     `tfsdk:"keys"`
}

type preflightEndpointModel struct {
	URL      types.String `tfsdk:"url"`
	Statuses []int64      `tfsdk:"statuses"`
	Required types.Bool   `tfsdk:"required"`
}

type checkModel struct {
	Name    types.String `tfsdk:"name"`
	Status  types.String `tfsdk:"status"`
	Message types.String `tfsdk:"message"`
	Remedy  types.String `tfsdk:"remedy"`
}

// The values of on_failure.
const (
	onFailureError  = "error"
	onFailureReport = "report"
)

func newPreflight() datasource.DataSource {
	return newDataSource(question[preflightModel, *preflightModel]{
		name:   "preflight",
		schema: preflightSchema,
		object: func(*preflightModel) string { return "" },
		read:   readPreflight,
		skip:   skipPreflight,
	})
}

func preflightSchema() schema.Schema {
	return schema.Schema{
		MarkdownDescription: "Checks whether a cluster can take what a configuration is about to put on it, and reports each check. What is left out is not checked. " +
			"Nothing is created on the cluster, not even for a moment: features are found out by a dry run, permissions by SelfSubjectAccessReviews, which store nothing.\n\n" +
			"A fact that stays as it is until somebody changes it (a version, a feature gate, a missing Secret) fails. A fact that moves by itself (nodes, capacity, quota, DNS) warns. " +
			"While the cluster's connection is not known yet, every check is `skipped` and `passed` is null.",
		Attributes: withLocated(map[string]schema.Attribute{
			"kubernetes_version": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "The version that is needed: a floor (`1.35`), or a constraint in Terraform's syntax (`>= 1.35, < 1.38`). Suffixes of vendors, as in `v1.35.2-gke.100`, don't matter.",
				Validators:          []validator.String{versionConstraint()},
			},
			"features": namesAttribute("The Kubernetes features that the API server must have, by their gates: `"+strings.Join(preflight.Features(), "`, `")+"`. Found out by a dry run of one pod.",
				stringvalidator.OneOf(preflight.Features()...)),
			"permissions": preflightPermissions(),
			"namespaces":  preflightNamespaces(),
			"platforms": schema.ListAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "The platforms that images are built for, such as `linux/arm64`. It replaces what the nodes would say: they are then not read, and the checks of nodes, container runtime and sizes are skipped and say so.",
				Validators:          []validator.List{noNulls{}, listvalidator.UniqueValues(), platformsCheck{}},
			},
			"derive_platforms": schema.BoolAttribute{Optional: true, MarkdownDescription: "Read the platforms from the nodes that an ordinary pod, or one of the placement below, can land on. Fails when there is none that images are known for. Default `false`."},
			"node_selector":    nodeSelectorAttribute("The labels that a node must have. Set it, or `tolerations`, to have the nodes checked; `{}` is the ordinary pod."),
			"tolerations":      tolerationsAttribute("The taints that are tolerated, in the shape of the pod spec. Set it, or `node_selector`, to have the nodes checked."),
			"container_runtime": schema.BoolAttribute{
				Optional:            true,
				MarkdownDescription: "Whether the container runtimes of the nodes mount image volumes. It only warns, because a vendor may have patched an older version. Default `false`.",
			},
			"sizes": sizesAttribute("What one pod reserves as a whole, by name: each is compared with what one of the nodes has as allocatable, and with the quota of `quota_namespace`."),
			"quota_namespace": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "The namespace whose ResourceQuotas the `sizes` are compared with. A size without headroom warns: its pod waits.",
				Validators:          []validator.String{dnsLabel(), stringvalidator.AlsoRequires(path.MatchRoot("sizes"))},
			},
			"quota_priority_class": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "The PriorityClass of the pods, which may decide which quotas count them.",
				Validators:          []validator.String{dnsSubdomain(), stringvalidator.AlsoRequires(path.MatchRoot("quota_namespace"))},
			},
			"storage_classes":       namesAttribute("The StorageClasses that must exist.", dnsSubdomain()),
			"default_storage_class": schema.BoolAttribute{Optional: true, MarkdownDescription: "Whether there must be a default StorageClass. Several warn. Default `false`."},
			"priority_classes":      namesAttribute("The PriorityClasses that must exist, or be created by the same run.", dnsSubdomain()),
			"secrets":               preflightSecrets(),
			"endpoints":             preflightEndpoints(),
			"on_failure": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "What a failed check does: `error` (default) makes it an error; `report` only reports it in `checks` and `passed`. Warnings are shown in either case.",
				Validators:          []validator.String{stringvalidator.OneOf(onFailureError, onFailureReport)},
			},
			"context":          schema.StringAttribute{Computed: true, MarkdownDescription: "The kubeconfig context that leads to the cluster, or the key when the entry has no kubeconfig."},
			"server":           schema.StringAttribute{Computed: true, MarkdownDescription: "The URL of the API server."},
			"server_version":   schema.StringAttribute{Computed: true, MarkdownDescription: "The cluster's version in its own words, such as `v1.35.2-gke.100`."},
			"kubernetes_floor": schema.StringAttribute{Computed: true, MarkdownDescription: "The oldest version that `kubernetes_version` admits; null when it names none."},
			"checks": schema.ListNestedAttribute{
				Computed: true, MarkdownDescription: "The checks, in the order in which an apply depends on them.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"name":    schema.StringAttribute{Computed: true, MarkdownDescription: "What was checked and, after a slash, its key, such as `sizes/hold`."},
					"status":  schema.StringAttribute{Computed: true, MarkdownDescription: "`pass`, `fail`, `warn` or `skipped`."},
					"message": schema.StringAttribute{Computed: true, MarkdownDescription: "What was found."},
					"remedy":  schema.StringAttribute{Computed: true, MarkdownDescription: "What to do about it; empty when there is nothing to do."},
				}},
			},
			"passed": schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether no check failed; null when every check was skipped."},
			"report": schema.StringAttribute{Computed: true, MarkdownDescription: "The checks as text, for an output."},
		}),
	}
}

func preflightPermissions() schema.Attribute {
	return schema.ListNestedAttribute{
		Optional: true, MarkdownDescription: "What the credential must be allowed to do. The roles that grant what is missing are in the remedy.", Validators: []validator.List{noNulls{}},
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"verb":        schema.StringAttribute{Required: true, MarkdownDescription: "Such as `get`, `list`, `create`, `patch` or `delete`.", Validators: []validator.String{stringvalidator.LengthAtLeast(1)}},
			"group":       schema.StringAttribute{Optional: true, MarkdownDescription: "The API group, such as `apps`. Default: the core group."},
			"resource":    schema.StringAttribute{Required: true, MarkdownDescription: "The plural, such as `deployments`.", Validators: []validator.String{stringvalidator.LengthAtLeast(1)}},
			"subresource": schema.StringAttribute{Optional: true, MarkdownDescription: "Such as `status`."},
			"namespace":   schema.StringAttribute{Optional: true, MarkdownDescription: "The namespace. Default: the whole cluster."},
			"name":        schema.StringAttribute{Optional: true, MarkdownDescription: "One object's name. Default: any."},
		}},
	}
}

func preflightNamespaces() schema.Attribute {
	return schema.ListNestedAttribute{
		Optional: true, MarkdownDescription: "The namespaces that must exist and be fit to be used.", Validators: []validator.List{noNulls{}},
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"name":           schema.StringAttribute{Required: true, MarkdownDescription: "The name.", Validators: []validator.String{dnsLabel()}},
			"owner":          schema.StringAttribute{Optional: true, MarkdownDescription: "The owner that its mark `berth.dev/owner` must name, if it has one: `<owner of the provider>/<resource>.<name>`. Default: any."},
			"pod_security":   schema.StringAttribute{Optional: true, MarkdownDescription: "The Pod Security level that the pods to come need: `privileged`, `baseline` or `restricted`. Fails when the namespace enforces a stricter one.", Validators: []validator.String{stringvalidator.OneOf(preflight.PodSecurityLevels...)}},
			"may_be_missing": schema.BoolAttribute{Optional: true, MarkdownDescription: "Whether it is created later, so that its absence is no failure. Default `false`."},
		}},
	}
}

func preflightSecrets() schema.Attribute {
	return schema.ListNestedAttribute{
		Optional: true, MarkdownDescription: "The Secrets that must exist. Their values are never shown or stored.", Validators: []validator.List{noNulls{}},
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"namespace": schema.StringAttribute{Required: true, MarkdownDescription: "The namespace.", Validators: []validator.String{dnsLabel()}},
			"name":      schema.StringAttribute{Required: true, MarkdownDescription: "The name.", Validators: []validator.String{dnsSubdomain()}},
			"keys":      namesAttribute("The keys that it must have. Default: any."),
		}},
	}
}

func preflightEndpoints() schema.Attribute {
	return schema.ListNestedAttribute{
		Optional: true, MarkdownDescription: "HTTP addresses outside the cluster that must answer where berth runs.", Validators: []validator.List{noNulls{}},
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"url": schema.StringAttribute{
				Required: true, MarkdownDescription: "An `http://` or `https://` address, asked with GET. It is stored in the state, so it must hold no password.",
				Validators: []validator.String{endpointAddress{}},
			},
			"statuses": schema.ListAttribute{
				Optional: true, ElementType: types.Int64Type, MarkdownDescription: "The statuses that count as an answer. Default: 200 to 399.",
				Validators: []validator.List{noNulls{}, listvalidator.SizeAtLeast(1), listvalidator.ValueInt64sAre(int64validator.Between(100, 599))},
			},
			"required": schema.BoolAttribute{Optional: true, MarkdownDescription: "Fail instead of warn. Default `false`."},
		}},
	}
}

// spec is what the configuration asks, with everything known.
func (m *preflightModel) spec(ctx context.Context) (preflight.Spec, error) {
	spec := preflight.Spec{
		KubernetesVersion: m.KubernetesVersion.ValueString(), Features: m.Features,
		Platforms: m.Platforms, DerivePlatforms: m.DerivePlatforms.ValueBool(), ContainerRuntime: m.ContainerRuntime.ValueBool(),
		QuotaNamespace: m.QuotaNamespace.ValueString(), QuotaPriorityClass: m.QuotaPriorityClass.ValueString(),
		DefaultStorageClass: m.DefaultStorageClass.ValueBool(),
		StorageClasses:      objectRefs("storage_classes", m.StorageClasses), PriorityClasses: objectRefs("priority_classes", m.PriorityClasses),
	}
	for _, permission := range m.Permissions {
		spec.Permissions = append(spec.Permissions, cluster.Permission{
			Verb: permission.Verb.ValueString(), Group: permission.Group.ValueString(),
			Resource: permission.Resource.ValueString(), Subresource: permission.Subresource.ValueString(),
			Namespace: permission.Namespace.ValueString(), Name: permission.Name.ValueString(),
		})
	}
	for _, namespace := range m.Namespaces {
		spec.Namespaces = append(spec.Namespaces, preflight.Namespace{
			Name: namespace.Name.ValueString(), Owner: namespace.Owner.ValueString(),
			PodSecurity: namespace.PodSecurity.ValueString(), MayBeMissing: namespace.MayBeMissing.ValueBool(),
		})
	}
	for i, secret := range m.Secrets {
		spec.Secrets = append(spec.Secrets, preflight.SecretRef{
			Attribute: fmt.Sprintf("secrets[%d]", i), Namespace: secret.Namespace.ValueString(), Name: secret.Name.ValueString(), Keys: secret.Keys,
		})
	}
	for _, endpoint := range m.Endpoints {
		asked := preflight.Endpoint{URL: endpoint.URL.ValueString(), Required: endpoint.Required.ValueBool()}
		for _, status := range endpoint.Statuses {
			asked.Statuses = append(asked.Statuses, int(status))
		}
		spec.Endpoints = append(spec.Endpoints, asked)
	}
	if !m.NodeSelector.IsNull() || !m.Tolerations.IsNull() {
		placement := placementOf(ctx, "", m.NodeSelector, m.Tolerations)
		spec.Placement = &placement
	}
	var err error
	spec.Sizes, err = sizesOf(ctx, m.Sizes)
	return spec, err
}

func objectRefs(attribute string, names []string) []preflight.ObjectRef {
	refs := make([]preflight.ObjectRef, len(names))
	for i, name := range names {
		refs[i] = preflight.ObjectRef{Attribute: fmt.Sprintf("%s[%d]", attribute, i), Name: name}
	}
	return refs
}

func readPreflight(ctx context.Context, c *cluster.Cluster, model *preflightModel, diagnostics *diag.Diagnostics) error {
	spec, err := model.spec(ctx)
	if err != nil {
		return err
	}
	report, err := preflight.Run(ctx, c, spec)
	if err != nil {
		return err
	}
	model.Context, model.Server = types.StringValue(c.Context()), types.StringValue(c.Server())
	// A credential that may not read the version gets no report of it, which the check, if asked for, has said.
	if version, err := preflight.KubernetesVersion(ctx, c); err == nil {
		model.ServerVersion = types.StringValue(version)
	}
	model.fill(report)
	for _, check := range report.Checks {
		if check.Status != preflight.Fail || model.OnFailure.ValueString() != onFailureReport {
			addCheck(diagnostics, c, check, model.askedBy(check.Name))
		}
	}
	return nil
}

func skipPreflight(ctx context.Context, model *preflightModel, why string) []string {
	spec, err := model.spec(ctx)
	if err != nil {
		return nil
	}
	report := spec.Skip(why)
	model.fill(report)
	names := make([]string, len(report.Checks))
	for i, check := range report.Checks {
		names[i] = check.Name
	}
	return names
}

func (m *preflightModel) fill(report preflight.Report) {
	m.KubernetesFloor = constraintFloor(m.KubernetesVersion)
	m.Checks = []checkModel{}
	var rows [][]string
	answered := len(report.Checks) == 0 && !m.ServerVersion.IsNull()
	for _, check := range report.Checks {
		m.Checks = append(m.Checks, checkModel{
			Name: types.StringValue(check.Name), Status: types.StringValue(string(check.Status)),
			Message: types.StringValue(check.Message), Remedy: types.StringValue(check.Remedy),
		})
		answered = answered || check.Status != preflight.Skipped
		text := strings.TrimSpace(check.Message)
		if remedy := strings.TrimSpace(check.Remedy); remedy != "" {
			text += "\n→ " + strings.ReplaceAll(remedy, "\n", "\n  ")
		}
		rows = append(rows, []string{string(check.Status), check.Name, text})
	}
	m.Report, m.Passed = types.StringValue(table(rows)), types.BoolNull()
	if answered {
		m.Passed = types.BoolValue(report.Passed())
	}
}

// constraintFloor is the oldest version that a constraint admits, where it names one (J7).
func constraintFloor(text types.String) types.String {
	constraints, err := preflight.ParseConstraint(text.ValueString())
	if err != nil {
		return types.StringNull()
	}
	for _, constraint := range constraints {
		for _, operator := range []string{">=", "~>"} {
			if floor, found := strings.CutPrefix(constraint.String(), operator); found {
				return types.StringValue(strings.TrimSpace(floor))
			}
		}
	}
	return types.StringNull()
}

// askedBy is the attribute that asked for a check.
func (m *preflightModel) askedBy(check string) path.Path {
	section, key, _ := strings.Cut(check, "/")
	switch section {
	case "pod_security":
		section = "namespaces"
	case "platforms":
		if len(m.Platforms) == 0 {
			section = "derive_platforms"
		}
	case "nodes":
		section = "node_selector"
		if m.NodeSelector.IsNull() {
			section = "tolerations"
		}
	case "quota":
		section = "quota_namespace"
	case "sizes":
		return path.Root(section).AtMapKey(key)
	}
	return path.Root(section)
}

// versionConstraint is the form of kubernetes_version.
func versionConstraint() validator.String {
	return stringCheck{"a version such as 1.35, or a constraint such as \">= 1.35, < 1.38\"", func(value string) string {
		if _, err := preflight.ParseConstraint(value); err != nil {
			return "is neither a version such as \"1.35\", which is a floor, nor a constraint such as \">= 1.35, < 1.38\"."
		}
		return ""
	}}
}

// endpointAddress is the form of an endpoint's URL. What it refuses is not shown, since it may hold a password (X9).
type endpointAddress struct{}

func (endpointAddress) Description(context.Context) string { return "an http:// or https:// address" }

func (a endpointAddress) MarkdownDescription(ctx context.Context) string { return a.Description(ctx) }

func (endpointAddress) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	address := req.ConfigValue.ValueString()
	if err := (preflight.Spec{Endpoints: []preflight.Endpoint{{URL: address}}}).Validate(); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, fmt.Sprintf("`%s` is not an address", req.Path), err.Error()+".")
		return
	}
	if parsed, err := url.Parse(address); err == nil && parsed.User != nil {
		resp.Diagnostics.AddAttributeError(req.Path, fmt.Sprintf("`%s` holds a user name or a password", req.Path),
			"The state would keep it. Leave it out: where the address then answers with 401, name that in `statuses`.")
	}
}
