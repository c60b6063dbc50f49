package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/chart"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/knative"
	"github.com/berthdev/terraform-provider-berth/internal/preflight"
)

type knativeVersionsModel struct {
	located
	Repository         types.String      `tfsdk:"repository"`
	MinKubernetesMinor types.Int64       `tfsdk:"min_kubernetes_minor"`
	KubernetesVersion  types.String      `tfsdk:"kubernetes_version"`
	Versions           []string          `tfsdk:"versions"`
	Charts             map[string]string `tfsdk:"charts"`
	Source             types.String      `tfsdk:"source"`
}

// The values of source.
const (
	fromIndex = "index"
	fromTable = "table"
)

// knativeVersionsSource is a data source that asks a chart repository, too.
type knativeVersionsSource struct {
	*dataSource[knativeVersionsModel, *knativeVersionsModel]
}

func newKnativeVersions() datasource.DataSource {
	source := &knativeVersionsSource{}
	source.dataSource = &dataSource[knativeVersionsModel, *knativeVersionsModel]{question: question[knativeVersionsModel, *knativeVersionsModel]{
		name:   "knative_versions",
		schema: knativeVersionsSchema,
		object: func(*knativeVersionsModel) string { return "" },
		read:   source.read,
		skip: func(context.Context, *knativeVersionsModel, string) []string {
			return []string{"the version of Kubernetes, and the versions of Knative that it supports"}
		},
	}}
	return source
}

func knativeVersionsSchema() schema.Schema {
	return schema.Schema{
		MarkdownDescription: "The versions of Knative Serving on offer for a cluster: the newest, at most five, that its Kubernetes supports and for which the operator's chart repository has a chart. " +
			"Where the repository cannot be read, a warning says why, and the versions are those that Kubernetes supports. While the cluster's connection is not known yet, every output is null.",
		Attributes: withLocated(map[string]schema.Attribute{
			"repository": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "The URL of the repository that has the operator's chart, `" + knative.OperatorRelease + "`: `https://…` or `oci://…`. " +
					"The provider's `charts` (overrides, credentials) hold for it. Default `" + knative.OperatorRepository + "`.",
				Validators: []validator.String{repositoryURL()},
			},
			"min_kubernetes_minor": schema.Int64Attribute{
				Optional:            true,
				MarkdownDescription: fmt.Sprintf("The lowest minor version of Kubernetes 1 that is accepted; a cluster with an older one is an error. Default `%d`.", knative.MinKubernetesMinor),
				Validators:          []validator.Int64{int64validator.AtLeast(1)},
			},
			"kubernetes_version": schema.StringAttribute{Computed: true, MarkdownDescription: "The version of Kubernetes in the cluster's own words, such as `v1.34.2-gke.100`."},
			"versions": schema.ListAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "The versions on offer, such as `1.20`, the newest first. Empty where there is none, with a warning; null while the provider's `charts` are not known yet.",
			},
			"charts": schema.MapAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "For each version, the version of the operator's chart that installs it: the newest patch of the same minor version. Null unless `source` is `" + fromIndex + "`.",
			},
			"source": schema.StringAttribute{
				Computed: true,
				MarkdownDescription: "Where `versions` come from: `" + fromIndex + "`, the table of what Kubernetes supports and the repository; or `" + fromTable + "`, the table alone, because the repository could not be read. " +
					"Null like `versions`.",
			},
		}),
	}
}

// repositoryURL is the URL of a chart repository. One with a password in it is refused without quoting it.
func repositoryURL() validator.String {
	return quietCheck{"the URL of a Helm repository or of a folder in an OCI registry", func(value string) string {
		for _, problem := range operatorChart(value).Validate() {
			return aboutRepository(problem.Detail)
		}
		return ""
	}}
}

// operatorChart is the operator's chart in a repository; the version is any.
func operatorChart(repository string) chart.Ref {
	return chart.Ref{Repository: repository, Name: knative.OperatorRelease, Version: "0.0.0"}
}

func (s *knativeVersionsSource) read(ctx context.Context, c *cluster.Cluster, model *knativeVersionsModel, diagnostics *diag.Diagnostics) error {
	text, err := preflight.KubernetesVersion(ctx, c)
	if err != nil {
		return err
	}
	model.KubernetesVersion = types.StringValue(text)
	kubernetes, err := knative.ParseRelease(text)
	if err != nil {
		return err
	}
	floor := int64(knative.MinKubernetesMinor)
	if !model.MinKubernetesMinor.IsNull() {
		floor = model.MinKubernetesMinor.ValueInt64()
	}
	if err := knative.CheckFloor(kubernetes, int(floor)); err != nil {
		return err
	}
	repository := knative.OperatorRepository
	if !model.Repository.IsNull() {
		repository = model.Repository.ValueString()
	}
	if missing := s.provider.charts.missing(operatorChart(repository)); missing != "" {
		diagnostics.AddAttributeWarning(path.Root("repository"), fmt.Sprintf("The Knative versions for cluster %q are not known yet", c.Name()),
			fmt.Sprintf("Because %s is not known yet, this plan could not ask %s for the operator's charts, and `versions`, `charts` and `source` are null. The next plan asks, once it is known.", missing, repository))
		return nil
	}
	operators, err := s.provider.charts.Versions(ctx, operatorChart(repository))
	if err != nil {
		return model.unread(c, kubernetes, repository, err, diagnostics)
	}
	model.fill(kubernetes, operators)
	if len(model.Versions) == 0 {
		diagnostics.AddAttributeWarning(path.Root("repository"), fmt.Sprintf("No Knative version is on offer for cluster %q", c.Name()),
			fmt.Sprintf("Kubernetes %s supports %s, and %s has these charts of the operator: %s. Name a repository that has charts of versions which fit.",
				kubernetes, namesOrNone(versionTexts(knative.Offered(kubernetes, nil))), repository, namesOrNone(operators)))
	}
	return nil
}

// fill sets the outputs by the table and what the repository has.
func (m *knativeVersionsModel) fill(kubernetes knative.Version, operators []string) {
	offered := knative.Offered(kubernetes, operators)
	m.Versions, m.Charts, m.Source = versionTexts(offered), map[string]string{}, types.StringValue(fromIndex)
	for _, version := range offered {
		// What is on offer has a chart.
		if chosen, err := knative.ChartFor(version, operators); err == nil {
			m.Charts[version.String()] = chosen
		}
	}
}

// unread answers by the table alone where the repository could not be read, with a warning. That it could be read and
// has no such chart, or that the provider's `charts` are wrong, is an error: what the table has could not be installed.
func (m *knativeVersionsModel) unread(c *cluster.Cluster, kubernetes knative.Version, repository string, err error, diagnostics *diag.Diagnostics) error {
	problem, _ := errors.AsType[*cluster.Problem](err)
	switch {
	case problem != nil && problem.Attribute == "chart.name":
		return &cluster.Problem{
			Attribute: "repository",
			Summary:   fmt.Sprintf("Chart repository %q has no chart of Knative's operator", repository),
			Detail: fmt.Sprintf("It, or what the provider's charts.repository_overrides has in its place, was read, and the chart %q is not there. Set repository to one that has the chart, or leave it out for %s.",
				knative.OperatorRelease, knative.OperatorRepository),
			Err: err,
		}
	case problem == nil || problem.Attribute != "chart.repository" || errors.Is(err, context.Canceled):
		return err
	}
	m.Versions, m.Source = versionTexts(knative.Offered(kubernetes, nil)), types.StringValue(fromTable)
	diagnostics.AddAttributeWarning(path.Root("repository"), fmt.Sprintf("The Knative versions for cluster %q are from the table alone", c.Name()),
		fmt.Sprintf("The operator's charts could not be listed, so which of these versions can be installed is not known. %s: %s", problem.Summary, aboutRepository(problem.Detail)))
	return nil
}

// aboutRepository is what is said of a chart's repository, for an argument `repository` that has no `chart` around it.
func aboutRepository(text string) string {
	return strings.NewReplacer(
		"chart.repository and chart.name", "repository",
		"chart.repository", "repository",
		"goes into chart.path", "goes into the provider's charts.repository_overrides",
	).Replace(text)
}

// namesOrNone is a sentence's list, at most ten long.
func namesOrNone(names []string) string {
	const most = 10
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
