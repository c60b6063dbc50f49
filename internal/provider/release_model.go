package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"sigs.k8s.io/yaml"

	"github.com/berthdev/terraform-provider-berth/internal/chart"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/release"
)

type releaseModel struct {
	common
	Name                  types.String `tfsdk:"name"`
	Namespace             types.String `tfsdk:"namespace"`
	CreateNamespace       types.Bool   `tfsdk:"create_namespace"`
	Chart                 types.Object `tfsdk:"chart"`
	Values                types.List   `tfsdk:"values"`
	SetSensitiveWO        types.Map    `tfsdk:"set_sensitive_wo"`
	SetSensitiveWOVersion types.Int64  `tfsdk:"set_sensitive_wo_version"`
	CRDs                  types.String `tfsdk:"crds"`
	Wait                  types.Bool   `tfsdk:"wait"`
	KeepHistory           types.Int64  `tfsdk:"keep_history"`
	IgnoreDrift           types.List   `tfsdk:"ignore_drift"`
	ExtraFields           types.String `tfsdk:"extra_fields"`
	ForceDestroy          types.Bool   `tfsdk:"force_destroy"`

	Revision    types.Int64  `tfsdk:"revision"`
	Status      types.String `tfsdk:"status"`
	AppVersion  types.String `tfsdk:"app_version"`
	ChartDigest types.String `tfsdk:"chart_digest"`
	Objects     types.Map    `tfsdk:"objects"`
	Changes     types.Map    `tfsdk:"changes"`
}

type chartModel struct {
	Repository types.String `tfsdk:"repository"`
	Name       types.String `tfsdk:"name"`
	Version    types.String `tfsdk:"version"`
	Path       types.String `tfsdk:"path"`
	Digest     types.String `tfsdk:"digest"`
}

type targetModel struct {
	Kind      types.String `tfsdk:"kind"`
	Name      types.String `tfsdk:"name"`
	Namespace types.String `tfsdk:"namespace"`
}

type ignoreModel struct {
	Target targetModel `tfsdk:"target"`
	Paths  types.List  `tfsdk:"paths"`
}

// The object types of the model's nested values.
var (
	chartType = types.ObjectType{AttrTypes: map[string]attr.Type{
		"repository": types.StringType, "name": types.StringType, "version": types.StringType, "path": types.StringType, "digest": types.StringType,
	}}
	targetType = types.ObjectType{AttrTypes: map[string]attr.Type{"kind": types.StringType, "name": types.StringType, "namespace": types.StringType}}
	ignoreType = types.ObjectType{AttrTypes: map[string]attr.Type{"target": targetType, "paths": types.ListType{ElemType: types.StringType}}}
)

func (m chartModel) ref() chart.Ref {
	return chart.Ref{
		Repository: m.Repository.ValueString(), Name: m.Name.ValueString(), Version: m.Version.ValueString(),
		Path: m.Path.ValueString(), Digest: m.Digest.ValueString(),
	}
}

func chartValue(ctx context.Context, ref chart.Ref) types.Object {
	// The type is the schema's own, so the conversion cannot fail.
	value, _ := types.ObjectValueFrom(ctx, chartType.AttrTypes, chartModel{
		Repository: optionalString(ref.Repository), Name: optionalString(ref.Name), Version: optionalString(ref.Version),
		Path: optionalString(ref.Path), Digest: optionalString(ref.Digest),
	})
	return value
}

func (m *releaseModel) ref() release.Ref {
	return release.Ref{Namespace: m.Namespace.ValueString(), Name: m.Name.ValueString()}
}

// title is how messages name the release.
func (m *releaseModel) title() string { return m.Namespace.ValueString() + "/" + m.Name.ValueString() }

func (m *releaseModel) chart(ctx context.Context) chart.Ref {
	model, _ := objectAs[chartModel](ctx, m.Chart)
	return model.ref()
}

// sourced tells whether it is known where the chart comes from: Helm's record, which an import reads, does not say so.
func (m *releaseModel) sourced(ctx context.Context) bool {
	ref := m.chart(ctx)
	return ref.Repository != "" || ref.Path != "" || hasUnknown(ctx, m.Chart)
}

// chartOf is where the chart comes from: as the configuration says, where the state does not know it and the plan, which
// could not look at the cluster, has kept it so.
func (m *releaseModel) chartOf(ctx context.Context, config *releaseModel) chart.Ref {
	if !m.sourced(ctx) {
		return config.chart(ctx)
	}
	return m.chart(ctx)
}

// unknown names the arguments whose value is not known yet, the write-only ones of the configuration included.
func (m *releaseModel) unknown(ctx context.Context, config *releaseModel) []string {
	arguments := map[string]attr.Value{
		"name": m.Name, "namespace": m.Namespace, "create_namespace": m.CreateNamespace, "chart": m.Chart, "values": m.Values,
		"set_sensitive_wo": config.SetSensitiveWO, "set_sensitive_wo_version": m.SetSensitiveWOVersion, "crds": m.CRDs, "wait": m.Wait,
		"keep_history": m.KeepHistory, "ignore_drift": m.IgnoreDrift, "extra_fields": m.ExtraFields,
	}
	return unknownNames(ctx, arguments)
}

// spec is the release that the model describes, with the secret values of the configuration. Every argument is known.
func (m *releaseModel) spec(ctx context.Context, config *releaseModel, loaded chart.Chart, settled map[string]string) (release.Spec, error) {
	secrets := stringMap(ctx, config.SetSensitiveWO)
	values, err := release.MergeValues(stringList(ctx, m.Values), secrets)
	if err != nil {
		return release.Spec{}, err
	}
	source := m.source(ctx)
	source.Chart = m.chartOf(ctx, config)
	return release.Spec{
		Ref: m.ref(), CreateNamespace: m.CreateNamespace.ValueBool(), Chart: loaded, Values: values,
		Secrets: slices.Sorted(maps.Keys(secrets)), Wait: m.Wait.ValueBool(), Source: source.String(),
		KeepHistory: int(m.KeepHistory.ValueInt64()), Watch: m.watch(ctx, settled),
	}, nil
}

func (m *releaseModel) watch(ctx context.Context, settled map[string]string) release.Watch {
	watch := release.Watch{CRDs: release.CRDPolicy(m.CRDs.ValueString()), ExtraFields: release.ExtraFields(m.ExtraFields.ValueString()), Settled: settled}
	for _, element := range m.IgnoreDrift.Elements() {
		if one, set := objectAs[ignoreModel](ctx, element); set {
			watch.IgnoreDrift = append(watch.IgnoreDrift, release.Ignore{
				Kind: one.Target.Kind.ValueString(), Namespace: one.Target.Namespace.ValueString(), Name: one.Target.Name.ValueString(),
				Paths: stringList(ctx, one.Paths),
			})
		}
	}
	return watch
}

func (m *releaseModel) terms(ctx context.Context, call *call[releaseModel]) kube.Terms {
	return kube.Terms{Owner: call.owner, Adopt: m.Adopt.ValueBool(), AdoptFrom: m.adoptFrom(ctx), Held: call.state != nil}
}

// observe fills the outputs from what is on the cluster.
func (m *releaseModel) observe(ctx context.Context, seen *release.Seen) {
	m.Revision, m.Status = types.Int64Value(int64(seen.Revision)), types.StringValue(seen.Status)
	m.AppVersion, m.ChartDigest = optionalString(seen.AppVersion), optionalString(seen.ChartDigest)
	m.Objects = stringsValue(seen.Objects)
	deployed := condition{Status: "False", Reason: camel(seen.Status), Message: fmt.Sprintf("Revision %d is %s.", seen.Revision, seen.Status)}
	if seen.Status == statusDeployed {
		deployed.Status = "True"
	}
	m.setConditions(ctx, map[string]condition{"Deployed": deployed, "Ready": condition(seen.Ready)})
}

// statusDeployed is Helm's word for a revision that came to its end.
const statusDeployed = "deployed"

// camel makes a reason of one of Helm's words: "PendingUpgrade" of "pending-upgrade".
func camel(word string) string {
	var text strings.Builder
	for part := range strings.SplitSeq(word, "-") {
		if part != "" {
			text.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return text.String()
}

// stringsValue is a map of strings, never null.
func stringsValue(values map[string]string) types.Map {
	elements := make(map[string]attr.Value, len(values))
	for key, value := range values {
		elements[key] = types.StringValue(value)
	}
	return types.MapValueMust(types.StringType, elements)
}

// releaseSource is what berth keeps on the cluster of a release's arguments beside Helm's own record, so that an import
// finds all of them.
type releaseSource struct {
	Chart           chart.Ref           `json:"chart"`
	Values          []string            `json:"values"`
	WriteOnly       *int64              `json:"set_sensitive_wo_version,omitempty"`
	CreateNamespace bool                `json:"create_namespace"`
	CRDs            release.CRDPolicy   `json:"crds"`
	Wait            bool                `json:"wait"`
	KeepHistory     int64               `json:"keep_history"`
	IgnoreDrift     []release.Ignore    `json:"ignore_drift"`
	ExtraFields     release.ExtraFields `json:"extra_fields"`
}

func (m *releaseModel) source(ctx context.Context) releaseSource {
	watch := m.watch(ctx, nil)
	return releaseSource{
		Chart: m.chart(ctx), Values: stringList(ctx, m.Values), WriteOnly: m.SetSensitiveWOVersion.ValueInt64Pointer(),
		CreateNamespace: m.CreateNamespace.ValueBool(), CRDs: watch.CRDs, Wait: m.Wait.ValueBool(), KeepHistory: m.KeepHistory.ValueInt64(),
		IgnoreDrift: watch.IgnoreDrift, ExtraFields: watch.ExtraFields,
	}
}

// String is the source as JSON. Strings, numbers and lists of them always have one.
func (s releaseSource) String() string {
	data, _ := json.Marshal(s)
	return string(data)
}

// setArguments fills the arguments from what is on the cluster, for an import: from what berth kept there, and otherwise
// what Helm's record says and the defaults.
func (m *releaseModel) setArguments(ctx context.Context, seen *release.Seen) error {
	source := releaseSource{
		Chart: chart.Ref{Name: seen.ChartName, Version: seen.ChartVersion}, CRDs: release.CRDsUpgrade, Wait: true,
		KeepHistory: defaultHistory, ExtraFields: release.ExtraWarn,
	}
	kept := releaseSource{}
	if json.Unmarshal([]byte(seen.Source), &kept) == nil && kept.KeepHistory > 0 {
		source = kept
	} else if len(seen.Values) > 0 {
		document, err := yaml.Marshal(seen.Values)
		if err != nil {
			return fmt.Errorf("the values of the release cannot be told: %w", err)
		}
		source.Values = []string{string(document)}
	}
	m.Chart, m.Values = chartValue(ctx, source.Chart), listValue(ctx, types.StringType, source.Values)
	m.SetSensitiveWO, m.SetSensitiveWOVersion = types.MapNull(types.StringType), types.Int64PointerValue(source.WriteOnly)
	m.CreateNamespace, m.Wait, m.ForceDestroy = types.BoolValue(source.CreateNamespace), types.BoolValue(source.Wait), types.BoolValue(false)
	m.CRDs, m.ExtraFields = types.StringValue(string(source.CRDs)), types.StringValue(string(source.ExtraFields))
	m.KeepHistory = types.Int64Value(source.KeepHistory)
	var ignores []ignoreModel
	if source.IgnoreDrift != nil {
		ignores = []ignoreModel{}
	}
	for _, one := range source.IgnoreDrift {
		ignores = append(ignores, ignoreModel{
			Target: targetModel{Kind: optionalString(one.Kind), Name: optionalString(one.Name), Namespace: optionalString(one.Namespace)},
			Paths:  listValue(ctx, types.StringType, one.Paths),
		})
	}
	m.IgnoreDrift, m.Changes = listValue(ctx, ignoreType, ignores), noDrift
	return nil
}

// sameValues tells whether two lists of documents, each known and not null, come to the same.
func sameValues(ctx context.Context, a, b types.List) bool {
	if a.IsNull() || b.IsNull() || hasUnknown(ctx, a) || hasUnknown(ctx, b) {
		return false
	}
	left, err := release.MergeValues(stringList(ctx, a), nil)
	right, wrong := release.MergeValues(stringList(ctx, b), nil)
	return err == nil && wrong == nil && reflect.DeepEqual(left, right)
}

// sameChart tells whether a chart is the one that Helm's record names, where that is all that is known of it: by name and
// version, because a record does not say where its chart came from.
func sameChart(wanted chart.Ref, loaded chart.Chart, recorded chart.Ref) bool {
	name, version := path.Base(wanted.Name), wanted.Version
	if loaded.Chart != nil {
		name, version = loaded.Name(), loaded.Metadata.Version
	}
	return name == recorded.Name && strings.TrimPrefix(version, "v") == strings.TrimPrefix(recorded.Version, "v")
}
