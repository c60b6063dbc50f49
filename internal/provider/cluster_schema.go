package provider

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berthdev/terraform-provider-berth/internal/access"
	"github.com/berthdev/terraform-provider-berth/internal/argocd"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

const (
	// defaultTokenLifetime is long beside the schedule of any pipeline: a token is renewed in the last third of its life,
	// by an apply and by nothing else.
	defaultTokenLifetime = "720h"
	// defaultStepTimeout is when a step of a removal counts as stuck (I93).
	defaultStepTimeout = "15m"
)

func clusterSchema(ctx context.Context) schema.Schema {
	own := clusterArguments()
	maps.Copy(own, clusterPlacement())
	maps.Copy(own, clusterRemoval())
	maps.Copy(own, clusterOutputs())
	own["cluster"] = schema.StringAttribute{
		Optional: true, Computed: true,
		MarkdownDescription: "The key of the workload cluster in the provider's `clusters`. Needed, unless `in_cluster` is set. Changing it replaces the registration only where the new key leads to another cluster.",
		Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
	}
	own["cluster_uid"] = schema.StringAttribute{Computed: true, MarkdownDescription: "The UID of the workload cluster's `kube-system` namespace, to which the registration is pinned: a key, or a credential, that leads to another cluster is an error."}
	attributes := withCommon(ctx, "the cluster's Secret, its kubeconfig Secret and its root Application, each", "management/cluster/name", own)
	if limits, ok := attributes["timeouts"].(schema.SingleNestedAttribute); ok {
		limits.MarkdownDescription += " A destroy, whose steps have limits of their own in `removal.step_timeout`, has `2h` unless it is set here."
		attributes["timeouts"] = limits
	}
	return schema.Schema{
		MarkdownDescription: "A workload cluster registered with the Argo CD of a management cluster: Argo CD's own Secret with a credential that it can store, a kubeconfig Secret, and a root Application that brings whatever the repository says is to run there. " +
			"Credentials are tried before Argo CD gets them, are never in the state, and can be rotated without a diff. " +
			"Destroy takes the cluster's Applications down in order, highest sync wave first and the controllers that own cloud resources last, and only then lets Argo CD forget the cluster; it waits for environments to be moved away and never forces them.",
		Attributes: attributes,
	}
}

func replacedString(description string, validators ...validator.String) schema.StringAttribute {
	return schema.StringAttribute{
		Optional: true, MarkdownDescription: description + " Changing it replaces the registration.", Validators: validators,
		PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
	}
}

func clusterArguments() map[string]schema.Attribute {
	namespace := defaulted(argocd.DefaultNamespace, "Argo CD's namespace on the management cluster. Default `argocd`. Changing it replaces the registration.", dnsLabel())
	namespace.PlanModifiers = []planmodifier.String{stringplanmodifier.RequiresReplace()}
	return map[string]schema.Attribute{
		"management": schema.StringAttribute{
			Required:            true,
			MarkdownDescription: "The key of the management cluster, where Argo CD runs, in the provider's `clusters`. Changing it replaces the registration only where the new key leads to another cluster.",
			Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"management_uid": schema.StringAttribute{Computed: true, MarkdownDescription: "The UID of the management cluster's `kube-system` namespace."},
		"name": schema.StringAttribute{
			Required: true, MarkdownDescription: "What Argo CD calls the cluster: Applications name it as `destination.name`. Lower-case letters, digits and hyphens, at most 42 characters. Changing it replaces the registration.",
			Validators: []validator.String{clusterName()}, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
		},
		"argocd_namespace": namespace,
		"in_cluster": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(false),
			MarkdownDescription: "Register the management cluster itself under another name, with an app-of-apps of its own and without a Secret: Argo CD reaches the cluster that it runs in as `" + argocd.InClusterServer + "`, which the README in `gitops_files` says. Needs `app_of_apps`. Default `false`. Changing it replaces the registration.",
			PlanModifiers:       []planmodifier.Bool{boolplanmodifier.RequiresReplace()},
		},
		"secret_name": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "The name of the cluster's Secret in Argo CD's namespace. Default `cluster-<name>`, or that of a Secret which was imported. Set it, with `adopt`, to take over a registration that another tool made under its own name. Changing it later is refused.",
			Validators:          []validator.String{dnsSubdomain()},
		},
		"server": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "The https URL at which Argo CD reaches the API server, where it is not the one of the cluster's entry. Default: that. Changing it is in place, but Argo CD tells clusters apart by their server: Applications that name the old one as `destination.server` have to follow.",
			Validators:          []validator.String{serverURL()},
		},
		"access": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "The `id` of a `berth_cluster_access`, whose token Argo CD gets: its long-lived one, or else one that is minted, with an end, and renewed by whichever apply comes in the last third of its life. " +
				"Default: the credential of the cluster's own entry, which then has to be a token or a client certificate that lasts: exec plugins, cloud sign-ins and files are refused, because Argo CD needs a credential that it can store. What an import or an adoption found stays as long as it works. Changing it is in place: the new credential is tried, given to Argo CD, and only then is the old one taken back.",
			Validators: []validator.String{accessID()},
		},
		"token_lifetime": defaulted(defaultTokenLifetime, "How long a minted token shall last, such as `720h` (default); the API server may give less. Only an apply renews it: let one run at least twice in a third of this time. Changing it touches only the state, and counts from the next renewal on.", goDuration(), tokenLifetime()),
		"store_kubeconfig": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(true),
			MarkdownDescription: "Keep a kubeconfig with the same address and credential as Secret `cluster-<name>-kubeconfig` on the management cluster, with nothing in it but this cluster. Default `true`. Changing it is in place.",
		},
		"kubeconfig_namespace": defaulted(argocd.DefaultKubeconfigNamespace, "The namespace of that Secret; created when it is missing, and deleted with the last registration that uses it. Default `"+argocd.DefaultKubeconfigNamespace+"`. Changing it is in place.", dnsLabel()),
		"app_of_apps": schema.SingleNestedAttribute{
			Optional:            true,
			MarkdownDescription: "The root Application `registry-<name>`, which deploys every Application in a directory of a repository, and prunes and repairs them. Default: none. Changing it is in place; taking it out deletes the root Application, and leaves what it deployed.",
			Validators:          nil,
			Attributes: map[string]schema.Attribute{
				"repo_url":        schema.StringAttribute{Required: true, MarkdownDescription: "The repository's URL, for which Argo CD has credentials where it needs them.", Validators: []validator.String{stringvalidator.LengthAtLeast(1)}},
				"revision":        schema.StringAttribute{Optional: true, MarkdownDescription: "The branch, tag or commit. Default `HEAD`.", Validators: []validator.String{stringvalidator.LengthAtLeast(1)}},
				"path":            schema.StringAttribute{Optional: true, MarkdownDescription: "The directory with the cluster's Applications. Default `registry/clusters/<name>/components`.", Validators: []validator.String{repositoryPath()}},
				"management_path": schema.StringAttribute{Optional: true, MarkdownDescription: "The directory of the management cluster's own Applications, for `gitops_files`. Default `registry/clusters/<management>/components`.", Validators: []validator.String{repositoryPath()}},
				"project":         schema.StringAttribute{Optional: true, MarkdownDescription: "The AppProject of the root Application, which has to exist. Default `default`.", Validators: []validator.String{dnsSubdomain()}},
				"commit":          schema.BoolAttribute{Optional: true, MarkdownDescription: "You commit `gitops_files` yourself, and Argo CD makes the root Application from them; berth only watches it. Default `false`: berth applies it."},
			},
		},
		"secret_labels": schema.MapAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Labels of the cluster's Secret, which the cluster generator of an ApplicationSet selects by. Default: none, beside berth's own `berth.dev/provider`, `flavor`, `region` and `org`. Changing them is in place.",
			Validators:          []validator.Map{noNulls{}, mapvalidator.KeysAre(labelKey()), mapvalidator.ValueStringsAre(labelValue())},
		},
		"secret_annotations": schema.MapAttribute{
			Optional: true, ElementType: types.StringType, MarkdownDescription: "Annotations of the cluster's Secret. Default: none. Changing them is in place.",
			Validators: []validator.Map{noNulls{}, mapvalidator.KeysAre(labelKey())},
		},
		"project": schema.StringAttribute{Optional: true, MarkdownDescription: "The AppProject to which the cluster is limited, in Argo CD's sense. Default: none. Changing it is in place.", Validators: []validator.String{stringvalidator.LengthAtLeast(1)}},
		"namespaces": schema.ListAttribute{
			Optional: true, ElementType: types.StringType, MarkdownDescription: "The namespaces to which Argo CD limits itself on the cluster. Default: all. Changing them is in place.",
			Validators: []validator.List{noNulls{}, listvalidator.SizeAtLeast(1), listvalidator.ValueStringsAre(dnsLabel())},
		},
		"cluster_resources": schema.BoolAttribute{Optional: true, MarkdownDescription: "Whether Argo CD, limited to `namespaces`, manages resources outside of namespaces too. Default: Argo CD's own, `false`. Changing it is in place.", Validators: nil},
		"shard":             schema.Int64Attribute{Optional: true, MarkdownDescription: "The shard of Argo CD's application controller that the cluster is given to. Default: Argo CD's choice. Changing it is in place.", Validators: []validator.Int64{int64validator.AtLeast(0)}},
	}
}

func clusterPlacement() map[string]schema.Attribute {
	text := func(description string, validators ...validator.String) schema.StringAttribute {
		return schema.StringAttribute{Optional: true, Computed: true, MarkdownDescription: description + " Changing it is in place.", Validators: validators}
	}
	return map[string]schema.Attribute{
		"org":           replacedString("The organization that the cluster belongs to. Its API server then needs a public https address: no private one is ever dialled, whatever DNS says (set `public_only` in the cluster's entry too, so that nothing else dials it before). Default: none, it is the platform's.", labelValue(), stringvalidator.LengthAtLeast(1)),
		"provider_name": text("Where the cluster runs: `aws`, `gcp`, `linode` or `local`. Default: `registration`'s, or as its nodes say when it is registered.", stringvalidator.OneOf("aws", "gcp", "linode", "local")),
		"flavor":        text("What it is: `k3s` or `eks`. Default: `registration`'s, or as its API server says; a cluster of another kind, such as GKE, has none.", stringvalidator.OneOf("k3s", "eks")),
		"region":        text("The region that it is in. Default: `registration`'s, or as its nodes say.", labelValue()),
		"registration": schema.SingleNestedAttribute{
			Optional:            true,
			MarkdownDescription: "The output `register` of the module that built the cluster: it says what the cluster is, and that its cloud resources may be released when it is removed. Leave it out for a cluster that was built by other means. Default: none. Changing it is in place.",
			Attributes: map[string]schema.Attribute{
				"module":        schema.StringAttribute{Required: true, MarkdownDescription: "The module, such as `gke-cluster`.", Validators: []validator.String{stringvalidator.LengthAtLeast(1)}},
				"provider_name": schema.StringAttribute{Optional: true, MarkdownDescription: "See `provider_name` of the resource.", Validators: []validator.String{stringvalidator.OneOf("aws", "gcp", "linode", "local")}},
				"flavor":        schema.StringAttribute{Optional: true, MarkdownDescription: "See `flavor` of the resource.", Validators: []validator.String{stringvalidator.OneOf("k3s", "eks")}},
				"region":        schema.StringAttribute{Optional: true, MarkdownDescription: "See `region` of the resource.", Validators: []validator.String{labelValue()}},
			},
		},
	}
}

func clusterRemoval() map[string]schema.Attribute {
	flag := func(description string) schema.BoolAttribute {
		return schema.BoolAttribute{Optional: true, MarkdownDescription: description}
	}
	return map[string]schema.Attribute{
		"deletion_protection": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(true),
			MarkdownDescription: "Refuse every destroy, one that is part of a replacement too. Default `true`: set it to `false`, and apply, before the cluster is removed. Changing it touches only the state.",
		},
		"removal": schema.SingleNestedAttribute{
			Optional: true, MarkdownDescription: "How destroy takes the cluster apart. Changing it touches only the state.",
			Validators: []validator.Object{needsRegistration{}},
			Attributes: map[string]schema.Attribute{
				"step_timeout":            schema.StringAttribute{Optional: true, MarkdownDescription: "How long one step may take before it counts as stuck. Default `15m`.", Validators: []validator.String{goDuration()}},
				"release_cloud_resources": flag("Delete the namespaces outside of the cluster's own system, and the load balancers and volumes in `default`, while their controllers still run, so that the cloud keeps nothing when the cluster goes. Default `false`; refused without `registration`."),
				"backup_disks":            flag("Take a snapshot of every volume first, and keep it when the cluster is gone. Default `false`; refused without `registration`."),
				"controllers": schema.ListAttribute{
					Optional: true, ElementType: types.StringType, Validators: []validator.List{noNulls{}},
					MarkdownDescription: "Names of Applications that own cloud resources and are removed last, beside those which are recognised or marked with `berth.dev/remove-last: \"true\"`. Default: none.",
				},
			},
		},
		"force_steps": schema.ListAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "The steps of a removal that are given up when their time is over, instead of stopping there: `" + strings.Join(argocd.ForceableSteps, "`, `") + "`. What each may leave behind is listed. Environments are never forced. A cluster that does not answer any more can only be removed with `applications` forced. Default: none. Changing it touches only the state.",
			Validators:          []validator.List{noNulls{}, listvalidator.UniqueValues(), listvalidator.ValueStringsAre(forceableStep())},
		},
	}
}

func clusterOutputs() map[string]schema.Attribute {
	text := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	return map[string]schema.Attribute{
		"argocd_secret":      text("The cluster's Secret, `namespace/name`; null with `in_cluster`."),
		"kubeconfig_secret":  text("The Secret with its kubeconfig, `namespace/name`; null where none is stored."),
		"root_application":   text("The root Application, `namespace/name`; null without `app_of_apps`."),
		"argocd_server":      text("The address by which Argo CD knows the cluster."),
		"kubernetes_version": text("The version of the workload cluster, as it said last."),
		"node_count":         schema.Int64Attribute{Computed: true, MarkdownDescription: "How many nodes it had then."},
		"token_expires_at":   text("When the token that Argo CD has ends (RFC 3339); null for a credential without an end. From the last third of its life on, a plan shows an update that renews it."),
		"removal_step":       text("The step of a removal that was begun and has not ended; null for none."),
		"last_transitions":   schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "When each of `conditions` changed its status last, as far as berth has seen it (RFC 3339)."},
		"gitops_files":       schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "The files of the registration for who commits them, path to content: the root Application and a README for the cluster's directory. Null without `app_of_apps`."},
	}
}

var clusterNameForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$`)

// clusterName is the form of a cluster's name (I15, Y12).
func clusterName() validator.String {
	return stringCheck{"lower-case letters, digits and hyphens, at most 42 characters", func(text string) string {
		if !clusterNameForm.MatchString(text) {
			return "is not the name of a cluster: use lower-case letters, digits and hyphens, at most 42 characters, and a letter or digit at both ends. The names of its Secrets are made of it."
		}
		return ""
	}}
}

func serverURL() validator.String {
	return stringCheck{"the https URL of an API server", func(text string) string {
		if _, err := cluster.ParseServer(text); err != nil {
			return fmt.Sprintf("%s. Write the https URL of the API server, such as `https://203.0.113.10:6443`.", err)
		}
		if !strings.HasPrefix(text, "https://") {
			return "has no scheme. Write the https URL of the API server, such as `https://203.0.113.10:6443`."
		}
		if cluster.SameServer(text, argocd.InClusterServer) {
			return "is the address of the cluster that Argo CD runs in. To register that, set in_cluster = true instead."
		}
		return ""
	}}
}

func labelKey() validator.String {
	return stringCheck{"a label's key that is not berth's or Argo CD's", func(text string) string {
		if problems := validation.IsQualifiedName(text); len(problems) > 0 {
			return "is not a key that Kubernetes takes: " + strings.Join(problems, "; ") + "."
		}
		domain, _, prefixed := strings.Cut(text, "/")
		if prefixed && (domain == "berth.dev" || strings.HasSuffix(domain, ".berth.dev") || strings.HasSuffix(domain, "argoproj.io")) || text == "app.kubernetes.io/managed-by" {
			return "is a key that berth or Argo CD keeps for itself. Use a key of your own."
		}
		return ""
	}}
}

func labelValue() validator.String {
	return stringCheck{"a label's value", func(text string) string {
		if problems := validation.IsValidLabelValue(text); len(problems) > 0 {
			return "is not a value that a label can have: " + strings.Join(problems, "; ") + "."
		}
		return ""
	}}
}

// repositoryPath is a directory of a repository.
func repositoryPath() validator.String {
	return stringCheck{"a directory of a repository", func(text string) string {
		if text == "" || strings.HasPrefix(text, "/") || strings.HasSuffix(text, "/") || strings.Contains(text, "\\") {
			return "is not a directory of a repository: write it relative to the root, with slashes between its parts and none at either end."
		}
		for part := range strings.SplitSeq(text, "/") {
			if part == "" || part == "." || part == ".." {
				return "is not a directory of a repository: it has an empty part, or one that is `.` or `..`."
			}
		}
		return ""
	}}
}

// forceableStep names what can be forced, and says why environments can't (I95).
func forceableStep() validator.String {
	return stringCheck{"one of " + strings.Join(argocd.ForceableSteps, ", "), func(text string) string {
		if slices.Contains(argocd.ForceableSteps, text) {
			return ""
		}
		if text == "environments" {
			return "is never forced: an environment is somebody's running product. Move or remove it first."
		}
		return "is not a step that can be forced: use " + strings.Join(argocd.ForceableSteps, ", ") + "."
	}}
}

// needsRegistration refuses to release what no module of ours built (I92).
type needsRegistration struct{}

func (needsRegistration) Description(context.Context) string {
	return "cloud resources are only released of a cluster with a registration"
}

func (v needsRegistration) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

func (needsRegistration) ValidateObject(ctx context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	var registration types.Object
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("registration"), &registration)...)
	if resp.Diagnostics.HasError() || !registration.IsNull() {
		return
	}
	for _, name := range []string{"release_cloud_resources", "backup_disks"} {
		if value, ok := req.ConfigValue.Attributes()[name].(types.Bool); ok && value.ValueBool() {
			resp.Diagnostics.AddAttributeError(req.Path.AtName(name), fmt.Sprintf("`%s.%s` needs a `registration`", req.Path, name),
				"refusing: only of a cluster that a module of berth built is it known that nothing else needs its disks and load balancers. A cluster that was only registered keeps them. Take it out, or set `registration` to the module's output.")
		}
	}
}

var (
	appOfAppsType = types.ObjectType{AttrTypes: map[string]attr.Type{
		"repo_url": types.StringType, "revision": types.StringType, "path": types.StringType, "management_path": types.StringType, "project": types.StringType, "commit": types.BoolType,
	}}
	registrationType = types.ObjectType{AttrTypes: map[string]attr.Type{
		"module": types.StringType, "provider_name": types.StringType, "flavor": types.StringType, "region": types.StringType,
	}}
	removalType = types.ObjectType{AttrTypes: map[string]attr.Type{
		"step_timeout": types.StringType, "release_cloud_resources": types.BoolType, "backup_disks": types.BoolType, "controllers": types.ListType{ElemType: types.StringType},
	}}
)

// accessID is the ID of a berth_cluster_access.
func accessID() validator.String {
	return stringCheck{"the id of a berth_cluster_access", func(text string) string {
		if _, err := access.ParseRef(text); err != nil {
			return "is not the id of a berth_cluster_access: the cluster's key, the namespace and the ServiceAccount with slashes between them, such as `edge/kube-system/berth`."
		}
		return ""
	}}
}

// tokenLifetime is a length of time that an API server gives a token for: ten minutes at least (TokenRequest).
func tokenLifetime() validator.String {
	return stringCheck{"ten minutes or more", func(text string) string {
		if length, err := time.ParseDuration(text); err == nil && length < 10*time.Minute {
			return "is shorter than the ten minutes that an API server gives a token for at least."
		}
		return ""
	}}
}
