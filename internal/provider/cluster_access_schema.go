package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/access"
)

type clusterAccessModel struct {
	common
	Namespace       types.String `tfsdk:"namespace"`
	ServiceAccount  types.String `tfsdk:"service_account"`
	ClusterRole     types.String `tfsdk:"cluster_role"`
	TokenSecret     types.Bool   `tfsdk:"token_secret"`
	TokenVersion    types.Int64  `tfsdk:"token_version"`
	TokenSecretName types.String `tfsdk:"token_secret_name"`
	UID             types.String `tfsdk:"uid"`
}

// longestAccount leaves room for what the names of the Secrets with tokens have behind the ServiceAccount's.
const longestAccount = 200

func clusterAccessSchema(ctx context.Context) schema.Schema {
	return schema.Schema{
		MarkdownDescription: "A ServiceAccount on a cluster, with rights and with a token that others can store: Argo CD and Kueue outlive every cloud sign-in, and refuse credentials that need a plugin or a file. " +
			"Its `id` is what `berth_cluster`, `berth_worker_enrollment` and `berth_kubeconfig` take as `access`; the token itself is in no state and no output.\n\n" +
			"It consists of the ServiceAccount, the ClusterRoleBinding `berth-<namespace>-<service_account>`, and, with `token_secret`, the Secret `<service_account>-token` (`<service_account>-token-<version>` from version 2 on). A namespace that is missing is created, and goes with the access when nothing else is in it.\n\n" +
			"Whoever stores a token says so on its Secret. Destroying the access is refused, with a list, while somebody does: destroy the consumers first, which the reference to `id` takes care of in one configuration.",
		Attributes: withCommon(ctx, "the ServiceAccount, its binding and the token's Secret", "cluster/namespace/service_account", map[string]schema.Attribute{
			"namespace": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(access.DefaultNamespace),
				MarkdownDescription: "The namespace of the ServiceAccount. Default `" + access.DefaultNamespace + "`. Changing it replaces the access.",
				Validators:          []validator.String{dnsLabel()},
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
			},
			"service_account": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(access.DefaultServiceAccount),
				MarkdownDescription: "The name of the ServiceAccount. Default `" + access.DefaultServiceAccount + "`. Changing it replaces the access.",
				Validators:          []validator.String{dnsSubdomain(), stringvalidator.LengthAtMost(longestAccount)},
				PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
			},
			"cluster_role": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(access.DefaultClusterRole),
				MarkdownDescription: "The ClusterRole that the ServiceAccount is bound to in the whole cluster. It has to exist. Default `" + access.DefaultClusterRole + "`, which Argo CD needs where it deploys whatever it is given. " +
					"Kubernetes never lets the role of a binding change, so a change deletes the ClusterRoleBinding and creates it again, which the plan warns of: for that moment the tokens can do nothing. " +
					"The provider's own credential has to have all that the role allows, or the verb `bind` on it.",
				Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
			},
			"token_secret": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(true),
				MarkdownDescription: "`true` (default): a token that does not expire, in a Secret; consumers store it as it is. `false`: none; each consumer mints an expiring token of its own and renews it at an apply in the last third of its life, so something has to apply that often. " +
					"Changing it has the consumers change over at their next apply; the long-lived token is revoked when the last of them has. To have it again later, raise `token_version` too.",
			},
			"token_version": schema.Int64Attribute{
				Optional: true, Computed: true, Default: int64default.StaticInt64(1),
				MarkdownDescription: "The version of the long-lived token. Default `1`. Raising it makes a new token: it is created, the consumers move to it at their own update, and the old one is revoked when nobody uses it any more. " +
					"It cannot be lowered. Deleting the Secret by hand revokes the token only until the next apply makes the Secret again: Kubernetes derives the token from names and the ServiceAccount alone, so it can be the same one. Raise the version instead.",
				Validators: []validator.Int64{int64validator.AtLeast(1)},
			},
			"token_secret_name": schema.StringAttribute{Computed: true, MarkdownDescription: "The name of the Secret with the long-lived token, in `namespace`; null without one."},
			"uid":               schema.StringAttribute{Computed: true, MarkdownDescription: "The UID of the ServiceAccount. It changes only when the ServiceAccount is deleted and created again, and all its tokens with it."},
		}),
	}
}
