package provider

import (
	"context"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/release"
)

func releaseSchema(ctx context.Context) schema.Schema {
	own := releaseArguments()
	maps.Copy(own, releaseOutputs())
	return schema.Schema{
		MarkdownDescription: "A Helm release whose plan says what changes, object by object and field by field, before anything is touched; whose drift is shown and repaired; that goes on from whatever a killed apply left; and that can be imported, adopted, or moved here from `helm_release`. " +
			"Every object has one writer, Helm's own patch, and what other controllers have rightly taken (replicas under an autoscaler, injected fields) is left to them. Hooks run at install, upgrade and uninstall as Helm runs them, and not at a repair. " +
			"See the guides [Drift of a release](../guides/release-drift.md) and [From helm_release](../guides/from-helm-release.md).",
		Attributes: withCommon(ctx, "the release, and objects that it renders,", "cluster/namespace/name", own),
	}
}

// defaultHistory is how many revisions Helm itself keeps.
const defaultHistory = 10

func releaseArguments() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required:            true,
			MarkdownDescription: "The name of the release, at most 53 characters. Changing it replaces the release.",
			Validators:          []validator.String{releaseName()},
			PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
		},
		"namespace": schema.StringAttribute{
			Required:            true,
			MarkdownDescription: "The namespace that the release is kept in, and that its objects go to unless the chart says otherwise. Changing it replaces the release.",
			Validators:          []validator.String{dnsLabel()},
			PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
		},
		"create_namespace": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(false),
			MarkdownDescription: "Create the namespace when it is missing; it then goes with the release, unless something else is in it. One that exists is used as it is, and stays. Default `false`: a namespace that is still missing at the apply is refused; the plan only warns, because another resource may create it. Changing it later touches only the state.",
		},
		"chart": schema.SingleNestedAttribute{
			Required: true,
			MarkdownDescription: "The chart: `repository`, `name` and `version`, or `path`. The runners silently drop a misspelt argument of a nested value: check the plan. " +
				"Changing it upgrades the release in place; where only the place of the same chart changes, nothing is written but berth's own mark.",
			Validators: []validator.Object{chartCheck{}},
			Attributes: map[string]schema.Attribute{
				"repository": schema.StringAttribute{Optional: true, MarkdownDescription: "The URL of a Helm repository (`https://…`) or of a folder in an OCI registry (`oci://…`, without the chart's name). Mirrors are set once, in the provider's `charts.repository_overrides`."},
				"name":       schema.StringAttribute{Optional: true, MarkdownDescription: "The chart's name in the repository."},
				"version":    schema.StringAttribute{Optional: true, MarkdownDescription: "The exact version, such as `1.2.3`. A range is refused: a plan must not change because somebody published something."},
				"path":       schema.StringAttribute{Optional: true, MarkdownDescription: "A local folder or archive, in the place of `repository`, `name` and `version`. A change of its content upgrades the release."},
				"digest":     schema.StringAttribute{Optional: true, MarkdownDescription: "The digest that the chart has to have, `sha256:` and 64 hexadecimal digits, such as the output `chart_digest` gives: of the chart's archive (`digest` in a repository's index), not of an OCI manifest. Another one is refused at plan. Default: any."},
			},
		},
		"values": schema.ListAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Values for the chart, as YAML documents that are merged in order; `yamlencode()` writes one. They are stored in the state and shown in plans, so nothing secret belongs in them: that goes into `set_sensitive_wo`. " +
				"Documents that say the same in other words (order of keys, quotes, comments) are no change. Default: the chart's own values. Changing them upgrades the release in place.",
			Validators: []validator.List{noNulls{}, listvalidator.ValueStringsAre(valuesDocument())},
		},
		"set_sensitive_wo": schema.MapAttribute{
			Optional: true, WriteOnly: true, Sensitive: true, ElementType: types.StringType,
			MarkdownDescription: "Secret values by their path, in the notation of Helm's `--set` (`auth.password`, `users[0].token`; a dot in a key is written `\\.`); each is a string, and wins over `values`. " +
				"They are write-only: in no plan and no state, and masked wherever the chart puts them. Helm keeps them in the release's Secret on the cluster. Needs `set_sensitive_wo_version`. Default: none.",
			Validators: []validator.Map{noNulls{}, mapvalidator.KeysAre(valuePath()), mapvalidator.AlsoRequires(path.MatchRoot("set_sensitive_wo_version"))},
		},
		"set_sensitive_wo_version": schema.Int64Attribute{
			Optional:            true,
			MarkdownDescription: "Raise it whenever `set_sensitive_wo` changes: only that plans an update by itself, because write-only values are kept in no state. A change without it is warned of, and goes along with the next upgrade. Needs `set_sensitive_wo`. Default: none.",
			Validators:          []validator.Int64{int64validator.AlsoRequires(path.MatchRoot("set_sensitive_wo"))},
		},
		"crds": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(string(release.CRDsUpgrade)),
			MarkdownDescription: "What happens to the CRDs in the chart's `crds/` folder: `upgrade` (default) applies them before everything else, at install and at upgrade, waits until they are established, and shows their drift; `install` creates those that are missing and never touches them again, as Helm does; `skip` leaves them to somebody else. " +
				"One that another owner keeps is compared and never written, and none is ever deleted. Changed in place.",
			Validators: []validator.String{stringvalidator.OneOf(string(release.CRDsUpgrade), string(release.CRDsInstall), string(release.CRDsSkip))},
		},
		"wait": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(true),
			MarkdownDescription: "Wait until every object is ready by the rules of its kind, Jobs until they are complete. A wait that times out says which object, which pod and which reason. Default `true`. Changing it touches only the state.",
		},
		"keep_history": schema.Int64Attribute{
			Optional: true, Computed: true, Default: int64default.StaticInt64(defaultHistory),
			MarkdownDescription: "How many revisions the cluster keeps, the current one included. Default `10`. Changing it touches only the state; the next revision keeps to it.",
			Validators:          []validator.Int64{int64validator.AtLeast(1)},
		},
		"ignore_drift": schema.ListNestedAttribute{
			Optional:            true,
			MarkdownDescription: "Fields whose drift does not count, and that an apply leaves as they are. What the cluster and its controllers have rightly taken needs no entry. A single object is exempted by the annotation `berth.dev/ignore-drift: \"true\"`. Default: none. Changed in place; what is no longer ignored is put right by the same apply.",
			Validators:          []validator.List{noNulls{}},
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"target": schema.SingleNestedAttribute{
					Required: true, MarkdownDescription: "The objects, by at least one of:",
					Validators: []validator.Object{targetCheck{}},
					Attributes: map[string]schema.Attribute{
						"kind":      schema.StringAttribute{Optional: true, MarkdownDescription: "The kind, such as `Deployment`. Default: any.", Validators: nonEmpty()},
						"name":      schema.StringAttribute{Optional: true, MarkdownDescription: "The name. Default: any.", Validators: nonEmpty()},
						"namespace": schema.StringAttribute{Optional: true, MarkdownDescription: "The namespace. Default: any.", Validators: nonEmpty()},
					},
				},
				"paths": schema.ListAttribute{
					Optional: true, ElementType: types.StringType,
					MarkdownDescription: "JSON pointers to the fields, such as `/spec/replicas`, each with all that is below it; an item of a list by its index, `/` in a key as `~1`. Default: the whole object, which is also what a misspelt `paths` means, since the runners drop it silently: check the plan.",
					Validators:          []validator.List{noNulls{}, listvalidator.SizeAtLeast(1), listvalidator.ValueStringsAre(jsonPointer())},
				},
			}},
		},
		"extra_fields": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(string(release.ExtraWarn)),
			MarkdownDescription: "What happens to fields that somebody added by hand to an object of the release (an environment variable, a ConfigMap key, a label): `warn` (default) leaves them, and every plan names them with who set them; `ignore` says nothing; `remove` counts them as drift and takes them away. Changed in place, by the same apply.",
			Validators:          []validator.String{stringvalidator.OneOf(string(release.ExtraWarn), string(release.ExtraIgnore), string(release.ExtraRemove))},
		},
		"force_destroy": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(false),
			MarkdownDescription: "Let destroy delete a namespace that berth created although objects that are not the release's are left in it. Default `false`: the release goes, the namespace stays, and a warning lists what is in it (volume claims count). Changing it touches only the state.",
		},
	}
}

func releaseOutputs() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"revision":     schema.Int64Attribute{Computed: true, MarkdownDescription: "The revision on the cluster. A repair of objects makes none."},
		"status":       schema.StringAttribute{Computed: true, MarkdownDescription: "Helm's word for the state of the revision, such as `deployed`."},
		"app_version":  schema.StringAttribute{Computed: true, MarkdownDescription: "The `appVersion` of the chart."},
		"chart_digest": schema.StringAttribute{Computed: true, MarkdownDescription: "The digest of the chart that berth installed: of its archive, or of a local chart's content. Null where another tool installed it, until berth's first revision."},
		"objects": schema.MapAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Every object of the release: `Kind/namespace/name` (`Kind/name` for one without a namespace) to the digest of its manifest. Digests of Secrets are salted. A plan knows them, except where the chart renders an object differently each time.",
		},
		"changes": schema.MapAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "In a plan what it changes, and afterwards what the last apply changed: object and field to `before → after`, secrets masked. Empty after a create.",
		},
	}
}
