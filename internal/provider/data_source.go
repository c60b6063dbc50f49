package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/preflight"
)

// located are the attributes that every data source has. Each model embeds it.
type located struct {
	ID         types.String `tfsdk:"id"`
	Cluster    types.String `tfsdk:"cluster"`
	ClusterUID types.String `tfsdk:"cluster_uid"`
}

func (l *located) where() *located { return l }

// withLocated adds the common attributes to a data source's own.
func withLocated(own map[string]schema.Attribute) map[string]schema.Attribute {
	own["id"] = schema.StringAttribute{Computed: true, MarkdownDescription: "The cluster's key; for a data source about one namespace, that after a slash."}
	own["cluster"] = schema.StringAttribute{
		Optional: true, Computed: true,
		MarkdownDescription: "The key of the cluster in the provider's `clusters`. May be left out when there is exactly one.",
		Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
	}
	own["cluster_uid"] = schema.StringAttribute{
		Computed:            true,
		MarkdownDescription: "The UID of the cluster's `kube-system` namespace; null while the connection is not known, and when the credential may not read that namespace.",
	}
	return own
}

// question is what a data source file provides; the envelope does what all of them need: finding the cluster, and what
// happens when it is not known yet or cannot be reached.
type question[M any, P interface {
	*M
	where() *located
}] struct {
	// name is the type without the provider's prefix.
	name string
	// schema describes the data source.
	schema func() schema.Schema
	// object is what is looked at on the cluster, for the ID; empty for the cluster as a whole.
	object func(P) string
	// read asks the cluster and fills the model's outputs.
	read func(context.Context, *cluster.Cluster, P, *diag.Diagnostics) error
	// skip fills what can be said without the cluster, and returns what was not looked at.
	skip func(ctx context.Context, model P, why string) []string
}

// dataSource is the data source that the framework sees.
type dataSource[M any, P interface {
	*M
	where() *located
}] struct {
	question[M, P]
	provider *configured
}

func newDataSource[M any, P interface {
	*M
	where() *located
}](q question[M, P],
) datasource.DataSource {
	return &dataSource[M, P]{question: q}
}

func (s *dataSource[M, P]) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + s.name
}

func (s *dataSource[M, P]) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = s.schema()
}

func (s *dataSource[M, P]) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	s.provider, _ = req.ProviderData.(*configured)
}

// Read answers from the cluster. While its connection is unknown nothing is asked, and a warning says so (X2). A
// cluster that cannot be reached is an error also under on_unreachable = "warn": there is no prior answer to keep.
func (s *dataSource[M, P]) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var model M
	resp.Diagnostics.Append(req.Config.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	at := P(&model).where()
	c, err := s.locate(ctx, at, &resp.Diagnostics)
	at.ID = at.Cluster
	if object := s.object(&model); object != "" && !at.Cluster.IsNull() {
		at.ID = types.StringValue(at.Cluster.ValueString() + "/" + object)
	}
	if errors.Is(err, cluster.ErrDeferred) {
		s.putOff(ctx, &model, resp)
		return
	}
	if err == nil {
		err = s.read(ctx, c, &model, &resp.Diagnostics)
	}
	if err != nil {
		addError(&resp.Diagnostics, fmt.Sprintf("Reading %s failed", s.describe(&model)), err, nil)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

// putOff answers without the cluster.
func (s *dataSource[M, P]) putOff(ctx context.Context, model P, resp *datasource.ReadResponse) {
	why := "it is not known yet which cluster it is about"
	if key := model.where().Cluster; !key.IsNull() {
		why = fmt.Sprintf("the connection of cluster %q is not known yet", key.ValueString())
	}
	skipped := s.skip(ctx, model, "not checked: "+why)
	detail := fmt.Sprintf("Because %s, this plan could not look at it.", why)
	if len(skipped) > 0 {
		detail += fmt.Sprintf(" Not looked at: %s.", strings.Join(skipped, ", "))
	}
	resp.Diagnostics.AddWarning(fmt.Sprintf("%s was not read", capital(s.describe(model))),
		detail+" The next plan looks, once the cluster exists; resources make their own checks before they write.")
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// locate finds the cluster and fills in what identifies it.
func (s *dataSource[M, P]) locate(ctx context.Context, at *located, diagnostics *diag.Diagnostics) (*cluster.Cluster, error) {
	if at.Cluster.IsNull() {
		key, err := s.provider.fleet.Default()
		if err != nil {
			return nil, err
		}
		at.Cluster = types.StringValue(key)
	}
	c, err := s.provider.fleet.Cluster(at.Cluster.ValueString())
	if err != nil {
		return nil, err
	}
	uid, err := c.UID(ctx)
	// What a credential lacks is a question to be answered, not a reason for no answer, as long as nothing pins the
	// cluster that has to answer.
	if apierrors.IsForbidden(err) && c.PinnedUID() == "" {
		diagnostics.AddWarning(fmt.Sprintf("The identity of cluster %q is not known to the credential", c.Name()),
			"`cluster_uid` is null, because it is the UID of the namespace kube-system. Resources need it. "+err.Error())
		return c, nil
	}
	if err == nil {
		at.ClusterUID = types.StringValue(uid)
	}
	return c, err
}

// describe names a data source in messages, which must differ between them: the runners fold equal ones together.
func (s *dataSource[M, P]) describe(model P) string {
	text := "data source berth_" + s.name
	if object := s.object(model); object != "" {
		text += fmt.Sprintf(" %q", object)
	}
	if key := model.where().Cluster; !key.IsNull() {
		text += fmt.Sprintf(" on cluster %q", key.ValueString())
	}
	return text
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// addCheck shows a check as a diagnostic at the attribute that asked for it.
func addCheck(diagnostics *diag.Diagnostics, c *cluster.Cluster, check preflight.Check, at path.Path) {
	switch check.Status {
	case preflight.Fail:
		diagnostics.AddAttributeError(at, fmt.Sprintf("Check %s failed on cluster %q", check.Name, c.Name()), check.Detail())
	case preflight.Warn:
		diagnostics.AddAttributeWarning(at, fmt.Sprintf("Check %s warns on cluster %q", check.Name, c.Name()), check.Detail())
	case preflight.Skipped:
		diagnostics.AddAttributeWarning(at, fmt.Sprintf("Check %s was not made on cluster %q", check.Name, c.Name()), check.Detail())
	}
}

// table lays out rows in columns for a person. A cell of several lines goes on below itself.
func table(rows [][]string) string {
	var lines [][]string
	for _, row := range rows {
		for n := 0; ; n++ {
			line, more := make([]string, len(row)), false
			for i, cell := range row {
				if parts := strings.Split(cell, "\n"); n < len(parts) {
					line[i], more = parts[n], true
				}
			}
			if !more {
				break
			}
			lines = append(lines, line)
		}
	}
	var widths []int
	for _, line := range lines {
		for i, cell := range line {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	var text strings.Builder
	for _, line := range lines {
		var padded strings.Builder
		for i, cell := range line {
			fmt.Fprintf(&padded, "%-*s  ", widths[i], cell)
		}
		text.WriteString(strings.TrimRight(padded.String(), " ") + "\n")
	}
	return strings.TrimSuffix(text.String(), "\n")
}

func nodeSelectorAttribute(description string) schema.Attribute {
	return schema.MapAttribute{
		Optional: true, ElementType: types.StringType, MarkdownDescription: description,
		Validators: []validator.Map{noNulls{}},
	}
}

func tolerationsAttribute(description string) schema.Attribute {
	return schema.ListNestedAttribute{
		Optional: true, MarkdownDescription: description, Validators: []validator.List{noNulls{}},
		NestedObject: schema.NestedAttributeObject{
			Validators: []validator.Object{tolerationCheck{}},
			Attributes: map[string]schema.Attribute{
				"key":      schema.StringAttribute{Optional: true, MarkdownDescription: "The taint's key; every key when left out, which needs the operator `Exists`."},
				"operator": schema.StringAttribute{Optional: true, MarkdownDescription: "`Equal` (default) or `Exists`."},
				"value":    schema.StringAttribute{Optional: true, MarkdownDescription: "The taint's value, with the operator `Equal`."},
				"effect":   schema.StringAttribute{Optional: true, MarkdownDescription: "`NoSchedule`, `PreferNoSchedule` or `NoExecute`; every effect when left out."},
			},
		},
	}
}

func sizesAttribute(description string) schema.Attribute {
	return schema.MapNestedAttribute{
		Optional: true, MarkdownDescription: description,
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"memory": schema.StringAttribute{
				Optional: true, MarkdownDescription: "Memory of the whole pod, such as `8Gi`. Default `" + preflight.DefaultSize.Memory.String() + "`.",
				Validators: []validator.String{memoryQuantity()},
			},
			"cpu": schema.StringAttribute{
				Optional: true, MarkdownDescription: "CPU of the whole pod, such as `4` or `500m`. Default `" + preflight.DefaultSize.CPU.String() + "`.",
				Validators: []validator.String{cpuQuantity()},
			},
		}},
		Validators: []validator.Map{noNulls{}},
	}
}

// namesAttribute is an optional list of different names.
func namesAttribute(description string, each ...validator.String) schema.ListAttribute {
	each = append([]validator.String{stringvalidator.LengthAtLeast(1)}, each...)
	return schema.ListAttribute{
		Optional: true, ElementType: types.StringType, MarkdownDescription: description,
		Validators: []validator.List{noNulls{}, listvalidator.UniqueValues(), listvalidator.ValueStringsAre(each...)},
	}
}
