package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/knative"
)

// knativeVersions is the function knative_versions: what a Kubernetes version is offered, by the table alone (R10, R11).
type knativeVersions struct{}

func newKnativeVersionsFunction() function.Function { return knativeVersions{} }

func (knativeVersions) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "knative_versions"
}

func (knativeVersions) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "The Knative versions for a Kubernetes version",
		MarkdownDescription: "The newest versions of Knative Serving, at most five and the newest first, that a version of Kubernetes supports: " +
			"`knative_versions(\"1.32\")` is `[\"1.20\", \"1.19\", \"1.18\", \"1.17\", \"1.16\"]`. It asks nobody, so it does not know which of them the operator's chart repository has; " +
			"the data source `berth_knative_versions` does. A Kubernetes that is too old for all of them has an empty list.",
		Parameters: []function.Parameter{
			function.StringParameter{Name: "kubernetes_version", MarkdownDescription: "The version of Kubernetes, as a cluster states it or shorter: `1.32`, `v1.32.4`, `v1.32.4-gke.100`."},
		},
		Return: function.ListReturn{ElementType: types.StringType},
	}
}

func (knativeVersions) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var text string
	if resp.Error = req.Arguments.Get(ctx, &text); resp.Error != nil {
		return
	}
	kubernetes, err := knative.ParseRelease(text)
	if err != nil {
		resp.Error = function.NewArgumentFuncError(0, err.Error())
		return
	}
	resp.Error = resp.Result.Set(ctx, versionTexts(knative.Offered(kubernetes, nil)))
}

// versionTexts are versions as configurations have them; no version is an empty list.
func versionTexts(versions []knative.Version) []string {
	texts := make([]string, len(versions))
	for i, version := range versions {
		texts[i] = version.String()
	}
	return texts
}
