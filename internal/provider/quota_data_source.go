package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/preflight"
)

type quotaDataModel struct {
	located
	Namespace     types.String         `tfsdk:"namespace"`
	PriorityClass types.String         `tfsdk:"priority_class"`
	Sizes         types.Map            `tfsdk:"sizes"`
	Quotas        []quotaModel         `tfsdk:"quotas"`
	Room          map[string]roomModel `tfsdk:"room"`
	Waiting       []waitingModel       `tfsdk:"waiting"`
	Report        types.String         `tfsdk:"report"`
}

type quotaModel struct {
	Name      types.String                  `tfsdk:"name"`
	Scopes    []string                      `tfsdk:"scopes"`
	Resources map[string]quotaResourceModel `tfsdk:"resources"`
}

type quotaResourceModel struct {
	Hard     types.String `tfsdk:"hard"`
	Used     types.String `tfsdk:"used"`
	Headroom types.String `tfsdk:"headroom"`
}

type roomModel struct {
	Limited   types.Bool  `tfsdk:"limited"`
	Count     types.Int64 `tfsdk:"count"`
	LimitedBy []string    `tfsdk:"limited_by"`
}

type waitingModel struct {
	Object  types.String `tfsdk:"object"`
	On      types.String `tfsdk:"on"`
	Message types.String `tfsdk:"message"`
	Since   types.String `tfsdk:"since"`
}

func newQuota() datasource.DataSource {
	return newDataSource(question[quotaDataModel, *quotaDataModel]{
		name:   "quota",
		schema: quotaSchema,
		object: func(m *quotaDataModel) string { return m.Namespace.ValueString() },
		read:   readQuota,
		skip: func(_ context.Context, m *quotaDataModel, _ string) []string {
			return []string{fmt.Sprintf("the quotas of namespace %q, the room for sizes, and what waits", m.Namespace.ValueString())}
		},
	})
}

func quotaSchema() schema.Schema {
	return schema.Schema{
		MarkdownDescription: "The ResourceQuotas of a namespace: hard, used and headroom, how many pods of each size still fit, and what waits there, in the quota's or the scheduler's own words. " +
			"berth never writes a quota. A size without headroom is a warning: its pod waits, without a limit. While the cluster's connection is not known yet, every output is null.",
		Attributes: withLocated(map[string]schema.Attribute{
			"namespace": schema.StringAttribute{Required: true, MarkdownDescription: "The namespace. One that does not exist has no quota, and a warning says so.", Validators: []validator.String{dnsLabel()}},
			"priority_class": schema.StringAttribute{
				Optional: true, MarkdownDescription: "The PriorityClass of the pods, which may decide which quotas count them. Default: pods without one.",
				Validators: []validator.String{dnsSubdomain()},
			},
			"sizes": sizesAttribute("What one pod reserves as a whole, by name; see `room`."),
			"quotas": schema.ListNestedAttribute{
				Computed: true, MarkdownDescription: "The ResourceQuotas of the namespace, sorted by name.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"name":   schema.StringAttribute{Computed: true, MarkdownDescription: "The name."},
					"scopes": schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "What limits it to some pods, such as `PriorityClass In (batch-low)`. Empty: it counts every pod."},
					"resources": schema.MapNestedAttribute{
						Computed: true, MarkdownDescription: "By resource, such as `limits.memory`.",
						NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
							"hard":     schema.StringAttribute{Computed: true, MarkdownDescription: "The limit."},
							"used":     schema.StringAttribute{Computed: true, MarkdownDescription: "What is used of it; null while nothing is reported."},
							"headroom": schema.StringAttribute{Computed: true, MarkdownDescription: "What is left of it, not below zero; null while nothing is reported."},
						}},
					},
				}},
			},
			"room": schema.MapNestedAttribute{
				Computed: true, MarkdownDescription: "For each size, how many more pods of it the quotas have headroom for.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"limited":    schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether any quota counts such a pod."},
					"count":      schema.Int64Attribute{Computed: true, MarkdownDescription: "How many more fit; null when no quota limits it, or while none reports its use."},
					"limited_by": schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "The quota lines that set this count, such as `quota \"team\" limits.memory`."},
				}},
			},
			"waiting": schema.ListNestedAttribute{
				Computed: true, MarkdownDescription: "What cannot run yet. Such a wait has no limit and is no failure.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"object":  schema.StringAttribute{Computed: true, MarkdownDescription: "Kind and name, such as `Pod ws-1` or `ReplicaSet web-5d`."},
					"on":      schema.StringAttribute{Computed: true, MarkdownDescription: "`node` or `quota`."},
					"message": schema.StringAttribute{Computed: true, MarkdownDescription: "The scheduler's or the quota's own words."},
					"since":   schema.StringAttribute{Computed: true, MarkdownDescription: "Since when, as far as the cluster remembers, in RFC 3339."},
				}},
			},
			"report": schema.StringAttribute{Computed: true, MarkdownDescription: "All this as text, for an output."},
		}),
	}
}

func readQuota(ctx context.Context, c *cluster.Cluster, model *quotaDataModel, diagnostics *diag.Diagnostics) error {
	namespace, class := model.Namespace.ValueString(), model.PriorityClass.ValueString()
	sizes, err := sizesOf(ctx, model.Sizes)
	if err != nil {
		return err
	}
	quotas, err := preflight.Quotas(ctx, c, namespace)
	if err != nil {
		return err
	}
	model.fillQuotas(quotas)
	summary := model.fillRoom(quotas, sizes, class)

	// Whoever may list the quotas but not read namespaces gets the answer without this remark.
	if object, err := c.Find(ctx, cluster.Namespaces, "", namespace); err == nil && object == nil {
		diagnostics.AddAttributeWarning(path.Root("namespace"), fmt.Sprintf("Namespace %q does not exist on cluster %q", namespace, c.Name()),
			"So it has no quota and nothing waits in it. Once it exists, its owner may have given it a quota: look again then.")
	} else {
		for _, check := range preflight.CheckQuota(ctx, c, namespace, class, sizes) {
			addCheck(diagnostics, c, check, path.Root("sizes").AtMapKey(strings.TrimPrefix(check.Name, "quota/")))
		}
	}
	waiting, err := preflight.Waits(ctx, c, namespace)
	if err != nil {
		diagnostics.AddWarning(fmt.Sprintf("What waits in namespace %q of cluster %q is not known in full", namespace, c.Name()), err.Error())
	}
	model.Waiting = []waitingModel{}
	for _, wait := range waiting {
		model.Waiting = append(model.Waiting, waitingModel{
			Object: types.StringValue(wait.Object), On: types.StringValue(wait.On),
			Message: types.StringValue(wait.Message), Since: types.StringValue(wait.Since.UTC().Format(time.RFC3339)),
		})
		summary = append(summary, fmt.Sprintf("%s waits for %s: %s", wait.Object, wait.On, wait.Message))
	}
	model.Report = types.StringValue(strings.TrimSpace(quotasTable(quotas) + "\n\n" + strings.Join(summary, "\n")))
	return nil
}

func (m *quotaDataModel) fillQuotas(quotas []preflight.Quota) {
	m.Quotas = []quotaModel{}
	for _, quota := range quotas {
		resources := map[string]quotaResourceModel{}
		for _, line := range quota.Resources {
			resources[line.Name] = quotaResourceModel{Hard: types.StringValue(line.Hard.String()), Used: quantityValue(line.Used), Headroom: quantityValue(line.Headroom)}
		}
		m.Quotas = append(m.Quotas, quotaModel{Name: types.StringValue(quota.Name), Scopes: append([]string{}, quota.Scopes...), Resources: resources})
	}
}

// fillRoom sets `room` and returns the same as sentences.
func (m *quotaDataModel) fillRoom(quotas []preflight.Quota, sizes map[string]preflight.Size, class string) []string {
	m.Room = map[string]roomModel{}
	var sentences []string
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		room := preflight.RoomFor(quotas, sizes[name], class)
		model := roomModel{Limited: types.BoolValue(room.Limited), LimitedBy: append([]string{}, room.By...)}
		text := "not limited by a quota"
		switch {
		case len(room.By) > 0:
			model.Count = types.Int64Value(room.Count)
			text = fmt.Sprintf("room for %d, by %s", room.Count, strings.Join(room.By, ", "))
		case room.Limited:
			text = "limited, but no use is reported yet for " + strings.Join(room.Unknown, ", ")
		}
		m.Room[name] = model
		sentences = append(sentences, fmt.Sprintf("size %q (%s): %s", name, sizes[name], text))
	}
	return sentences
}

func quantityValue(quantity *resource.Quantity) types.String {
	if quantity == nil {
		return types.StringNull()
	}
	return types.StringValue(quantity.String())
}

func quotasTable(quotas []preflight.Quota) string {
	if len(quotas) == 0 {
		return "no quota"
	}
	shown := func(quantity *resource.Quantity) string {
		if quantity == nil {
			return "?"
		}
		return quantity.String()
	}
	rows := [][]string{{"quota", "resource", "hard", "used", "headroom", "scopes"}}
	for _, quota := range quotas {
		for _, line := range quota.Resources {
			rows = append(rows, []string{quota.Name, line.Name, line.Hard.String(), shown(line.Used), shown(line.Headroom), strings.Join(quota.Scopes, ", ")})
		}
	}
	return table(rows)
}
