package provider_test

import (
	"fmt"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// calling is a configuration whose output "it" is what an expression gives; it needs no cluster.
func calling(expression string) string {
	return providerBlock("team", clusters{}) + fmt.Sprintf("output \"it\" {\nvalue = %s\n}\n", expression)
}

// A tag says what an image is made of and what it runs on (J50).
func TestImageTag(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		w := tofutest.New(t, tofutest.Options{Runner: runner})
		for expression, tag := range map[string]string{
			`provider::berth::image_tag("6389bdf72d50aa11bb22", ["linux/arm64", "linux/amd64"])`:      "6389bdf72d50-amd64-arm64",
			`provider::berth::image_tag("6389bdf72d50", ["linux/amd64"])`:                             "6389bdf72d50-amd64",
			`provider::berth::image_tag("sha256:6389BDF72D50FF", ["linux/amd64", "linux/amd64"])`:     "6389bdf72d50-amd64",
			`provider::berth::image_tag(sha256("Dockerfile"), toset(["linux/arm64", "linux/amd64"]))`: "dd2c0eb6ea5c-amd64-arm64",
		} {
			w.Write("main.tf", calling(expression))
			w.MustApply()
			same(t, expression, w.Output("it"), tag)
		}

		// Known only at the apply, like a hash of what the same apply builds.
		w.Write("main.tf", "resource \"terraform_data\" \"hash\" {\ninput = \"0123456789abcdef\"\n}\n"+
			calling(`provider::berth::image_tag(terraform_data.hash.output, ["linux/amd64"])`))
		w.MustApply()
		same(t, "unknown at plan", w.Output("it"), "0123456789ab-amd64")
	})
}

// What is no hash and no platform is refused, with what would do (J21, J64).
func TestImageTagRefusals(t *testing.T) {
	t.Parallel()
	w := tofutest.New(t, tofutest.Options{})
	for arguments, detail := range map[string]string{
		`"6389bdf72d5", ["linux/amd64"]`:                   `"hash" parameter: "6389bdf72d5" is not a content hash: it has to be hexadecimal and have 12 digits or more`,
		`"v1.2.3-not-a-hash", ["linux/amd64"]`:             `"hash" parameter: "v1.2.3-not-a-hash" is not a content hash`,
		`"6389bdf72d50", []`:                               `"platforms" parameter: no platform is named`,
		`"6389bdf72d50", ["linux/s390x", "linux/ppc64le"]`: "\"platforms\" parameter: `platforms` names linux/s390x, linux/ppc64le — berth knows images for linux/amd64, linux/arm64 and nothing else",
	} {
		w.Write("main.tf", calling("provider::berth::image_tag("+arguments+")"))
		w.Plan().Error(t, "function", detail)
	}
}
