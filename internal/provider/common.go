package provider

import (
	"context"
	"maps"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// common are the arguments and outputs that every resource has. Each model embeds it.
type common struct {
	ID             types.String   `tfsdk:"id"`
	Cluster        types.String   `tfsdk:"cluster"`
	ClusterUID     types.String   `tfsdk:"cluster_uid"`
	Adopt          types.Bool     `tfsdk:"adopt"`
	AdoptFrom      types.List     `tfsdk:"adopt_from"`
	DeletionPolicy types.String   `tfsdk:"deletion_policy"`
	Drift          types.Map      `tfsdk:"drift"`
	Conditions     types.Map      `tfsdk:"conditions"`
	Timeouts       timeouts.Value `tfsdk:"timeouts"`
}

func (c *common) base() *common { return c }

// adrift tells whether a state was another provider's until a `moved` block made it ours: it knows no cluster, so reads
// leave it as it is, and the plan fills the cluster in.
func (c *common) adrift() bool { return c.Cluster.IsNull() && c.ClusterUID.IsNull() }

// The values of deletion_policy.
const (
	uninstall = "uninstall"
	retain    = "retain"
)

// conditionType is what `conditions` maps a type to.
var conditionType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"status": types.StringType, "reason": types.StringType, "message": types.StringType,
}}

// condition is one entry of `conditions`, in the words of Kubernetes' conditions.
type condition struct {
	Status  string `tfsdk:"status"`
	Reason  string `tfsdk:"reason"`
	Message string `tfsdk:"message"`
}

// setDefaults gives what an import cannot read from the cluster the value that a configuration without it has, so that
// the plan after an import is empty.
func (c *common) setDefaults() {
	c.Adopt = types.BoolValue(false)
	c.AdoptFrom = types.ListNull(types.StringType)
	c.DeletionPolicy = types.StringValue(uninstall)
}

func (c *common) setConditions(ctx context.Context, conditions map[string]condition) {
	// The element type is fixed, so the conversion cannot fail.
	c.Conditions, _ = types.MapValueFrom(ctx, conditionType, conditions)
}

func (c *common) adoptFrom(ctx context.Context) []string {
	var names []string
	c.AdoptFrom.ElementsAs(ctx, &names, false)
	return names
}

var noDrift = types.MapValueMust(types.StringType, map[string]attr.Value{})

// knobs are the common arguments whose change is a matter of the state alone: destroy knows only the state, and the
// cluster may be dead.
var knobs = []string{"adopt", "adopt_from", "deletion_policy", "timeouts"}

// withCommon adds the common attributes to a resource's own. what names the object in descriptions ("the
// PriorityClass"), idFormat the form of its import ID.
func withCommon(ctx context.Context, what, idFormat string, own map[string]schema.Attribute) map[string]schema.Attribute {
	shared := map[string]schema.Attribute{
		"id": schema.StringAttribute{Computed: true, MarkdownDescription: "The import ID, `" + idFormat + "`; known at plan and kept through updates."},
		"cluster": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "The key of the cluster in the provider's `clusters`. May be left out when there is exactly one. " +
				"Changing it replaces the resource only where the new key leads to another cluster.",
			Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"cluster_uid": schema.StringAttribute{Computed: true, MarkdownDescription: "The UID of the cluster's `kube-system` namespace, to which the resource is pinned: a key that leads to another cluster is an error."},
		"adopt": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(false),
			MarkdownDescription: "Take over " + what + " when it exists already and berth did not create it. It is compared first, keeps its UID, and is never deleted. Default `false`: refused, with what is there. Changing it later touches only the state.",
		},
		"adopt_from": schema.ListAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "The controllers from which it may be adopted although they keep it in place, in the words of the refusal, such as `helm/kube-system/traefik` or `argocd/guestbook`. Default: none. Changing it later touches only the state.",
			Validators:          []validator.List{noNulls{}, listvalidator.ValueStringsAre(stringvalidator.LengthAtLeast(1))},
		},
		"deletion_policy": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(uninstall),
			MarkdownDescription: "What destroy does: `uninstall` (default) deletes what berth created (and a Helm release that was imported or moved here); `retain` leaves everything and takes berth's marks off. What was adopted stays in either case. Changing it touches only the state.",
			Validators:          []validator.String{stringvalidator.OneOf(uninstall, retain)},
		},
		"drift": schema.MapAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "What on the cluster is not as it was applied: object and field to `found → wanted`, secrets masked. Empty after every apply; when it is not, the next apply repairs exactly that.",
		},
		"conditions": schema.MapNestedAttribute{
			Computed: true, MarkdownDescription: "The state in Kubernetes' words: condition type to status, reason and message.",
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"status":  schema.StringAttribute{Computed: true, MarkdownDescription: "`True`, `False` or `Unknown`."},
				"reason":  schema.StringAttribute{Computed: true, MarkdownDescription: "The reason, in one CamelCase word."},
				"message": schema.StringAttribute{Computed: true, MarkdownDescription: "The reason, in a sentence."},
			}},
		},
		"timeouts": timeoutsAttribute(ctx),
	}
	maps.Copy(shared, own)
	return shared
}

func timeoutsAttribute(ctx context.Context) schema.Attribute {
	limit := func(what string) string {
		return "How long " + what + " may take, such as `30m`. Default `10m`."
	}
	attribute := timeouts.Attributes(ctx, timeouts.Opts{
		Create: true, Update: true, Delete: true,
		CreateDescription: limit("a create"), UpdateDescription: limit("an update"), DeleteDescription: limit("a destroy"),
	})
	if nested, ok := attribute.(schema.SingleNestedAttribute); ok {
		nested.MarkdownDescription = "Time limits. One that ends says what it waited for, and the next apply goes on from there. Changing them touches only the state."
		return nested
	}
	return attribute
}

// defaultTimeout is what a create, update or delete may take unless `timeouts` says otherwise: three times the 180 s
// that a rollout is given (J56), and some.
const defaultTimeout = 10 * time.Minute
