package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/chart"
	"github.com/berthdev/terraform-provider-berth/internal/release"
)

// helmRelease is what of a helm_release's state is of use here. Its attributes have had these names in every version of
// the helm provider; `metadata` was a list of one until its version 3.
type helmRelease struct {
	Name       string          `json:"name"`
	Namespace  string          `json:"namespace"`
	Repository string          `json:"repository"`
	Chart      string          `json:"chart"`
	Version    string          `json:"version"`
	Values     []string        `json:"values"`
	Metadata   json.RawMessage `json:"metadata"`
}

type helmMetadata struct {
	Chart   string `json:"chart"`
	Version string `json:"version"`
}

// moveHelmRelease makes a berth_release of the state of a helm_release. Which cluster it is on only the plan finds out.
func moveHelmRelease(ctx context.Context, req resource.MoveStateRequest, resp *resource.MoveStateResponse) {
	if req.SourceTypeName != "helm_release" || !strings.HasSuffix(req.SourceProviderAddress, "hashicorp/helm") {
		return
	}
	var source helmRelease
	if err := json.Unmarshal(req.SourceRawState.JSON, &source); err != nil || source.Name == "" {
		resp.Diagnostics.AddError("The state of helm_release cannot be read",
			fmt.Sprintf("It is not what the helm provider writes (schema version %d). Import the release instead: `cluster/namespace/name`.", req.SourceSchemaVersion))
		return
	}
	model := releaseModel{
		Name: types.StringValue(source.Name), Namespace: types.StringValue(orDefault(source.Namespace)),
		Chart: chartValue(ctx, source.ref()), Values: listValue(ctx, types.StringType, source.Values),
		SetSensitiveWO: types.MapNull(types.StringType), IgnoreDrift: types.ListNull(ignoreType),
		CreateNamespace: types.BoolValue(false), Wait: types.BoolValue(true), ForceDestroy: types.BoolValue(false),
		CRDs: types.StringValue(string(release.CRDsUpgrade)), ExtraFields: types.StringValue(string(release.ExtraWarn)),
		KeepHistory: types.Int64Value(defaultHistory),
		Objects:     types.MapNull(types.StringType), Changes: types.MapNull(types.StringType),
	}
	model.setDefaults()
	model.Drift, model.Conditions = noDrift, types.MapNull(conditionType)
	model.Timeouts = timeouts.Value{Object: types.ObjectNull(map[string]attr.Type{"create": types.StringType, "update": types.StringType, "delete": types.StringType})}
	resp.Diagnostics.Append(resp.TargetState.Set(ctx, &model)...)
	setIdentity(ctx, resp.TargetIdentity, &resp.Diagnostics, types.StringNull(), model.Namespace, model.Name)
}

// ref is the chart in berth's words: the helm provider takes a path or the whole URL in the place of the name.
func (h helmRelease) ref() chart.Ref {
	said := h.metadata()
	version := h.Version
	if version == "" {
		version = said.Version
	}
	switch {
	case h.Repository != "":
		return chart.Ref{Repository: h.Repository, Name: h.Chart, Version: version}
	case strings.HasPrefix(h.Chart, "oci://"):
		folder, name := path.Split(strings.TrimPrefix(h.Chart, "oci://"))
		return chart.Ref{Repository: "oci://" + strings.TrimSuffix(folder, "/"), Name: name, Version: version}
	case said.Chart == "" || strings.HasPrefix(h.Chart, ".") || strings.HasPrefix(h.Chart, "/"):
		return chart.Ref{Path: h.Chart}
	}
	// The URL of an archive, or a repository that only this machine's Helm knows by name.
	return chart.Ref{Name: said.Chart, Version: version}
}

func (h helmRelease) metadata() helmMetadata {
	var one helmMetadata
	if json.Unmarshal(h.Metadata, &one) == nil {
		return one
	}
	var several []helmMetadata
	// What is neither says nothing of the chart.
	_ = json.Unmarshal(h.Metadata, &several)
	if len(several) == 0 {
		return helmMetadata{}
	}
	return several[0]
}

// orDefault is the namespace that the helm provider uses where none is set.
func orDefault(namespace string) string {
	if namespace == "" {
		return "default"
	}
	return namespace
}
