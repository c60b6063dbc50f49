package provider

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/preflight"
)

// imageTag is the function image_tag: the tag of an image whose name says what is in it (J50).
type imageTag struct{}

func newImageTag() function.Function { return imageTag{} }

// hashDigits is how much of a content hash is in a tag: 48 bits, so that two of a thousand images share a tag with a
// probability of about one to five hundred million.
const hashDigits = 12

var contentHash = regexp.MustCompile(`^[0-9A-Fa-f]{12,}$`)

func (imageTag) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "image_tag"
}

func (imageTag) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "The tag of a content-addressed image",
		MarkdownDescription: "Names an image by what it is made of and what it runs on: the first 12 digits of a content hash, then the architectures, sorted. " +
			"`image_tag(\"6389bdf72d50…\", [\"linux/arm64\", \"linux/amd64\"])` is `6389bdf72d50-amd64-arm64`. Equal inputs give an equal tag, so an image that exists under its tag need not be built again.",
		Parameters: []function.Parameter{
			function.StringParameter{Name: "hash", MarkdownDescription: "A hash of everything that the image is made of, in hexadecimal, 12 digits or more; a `sha256:` before it is left out."},
			function.ListParameter{Name: "platforms", ElementType: types.StringType, MarkdownDescription: "The platforms that it is built for: `" + strings.Join(preflight.ReleasedPlatforms, "`, `") + "`. The order does not matter."},
		},
		Return: function.StringReturn{},
	}
}

func (imageTag) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var hash string
	var platforms []string
	if resp.Error = req.Arguments.Get(ctx, &hash, &platforms); resp.Error != nil {
		return
	}
	digits := strings.TrimPrefix(hash, "sha256:")
	if !contentHash.MatchString(digits) {
		resp.Error = function.NewArgumentFuncError(0, fmt.Sprintf("%q is not a content hash: it has to be hexadecimal and have %d digits or more, such as the result of sha256(...).", hash, hashDigits))
		return
	}
	if len(platforms) == 0 {
		resp.Error = function.NewArgumentFuncError(1, "no platform is named. Name those that the image is built for, such as [\"linux/amd64\"].")
		return
	}
	if err := preflight.ValidatePlatforms(platforms); err != nil {
		resp.Error = function.NewArgumentFuncError(1, err.Error())
		return
	}
	architectures := make([]string, len(platforms))
	for i, platform := range platforms {
		_, architectures[i], _ = strings.Cut(platform, "/")
	}
	slices.Sort(architectures)
	tag := strings.ToLower(digits[:hashDigits]) + "-" + strings.Join(slices.Compact(architectures), "-")
	resp.Error = resp.Result.Set(ctx, tag)
}
