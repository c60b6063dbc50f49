package provider_test

import (
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// What a configuration can never mean is refused before anything is asked (J21, J28, J34, J40, J64, J73).
func TestInstanceValidators(t *testing.T) {
	t.Parallel()
	b := newBench(t, tofutest.Options{})
	for _, one := range []struct{ body, summary, detail string }{
		// J40: both classes are names.
		{`priority_classes = { control = "" }`, "^`priority_classes.control` is not valid$", `^"" is not a name that Kubernetes takes: a lowercase RFC 1123 subdomain`},
		{`priority_classes = { sandbox = "Batch_Low" }`, "^`priority_classes.sandbox` is not valid$", `^"Batch_Low" is not a name that Kubernetes takes`},
		// J21, J64: all that is wrong in one message.
		{
			`platforms = ["linux/s390x", "linux/amd64", "windows/amd64"]`, "^`platforms` names a platform that no image is released for$",
			`platforms. names .*linux/s390x.*windows/amd64.*linux/amd64, linux/arm64 and nothing else`,
		},
		{`platforms = []`, "Invalid Attribute Value", "platforms set must contain at least 1 elements"},
		// J73: a prefix, and nothing more.
		{`registry = "https://registry.example.com/team"`, "^`registry` is not valid$", `^"https://registry.example.com/team" has a scheme\. Write the host, an optional port and an optional path`},
		{`registry = "registry.example.com/team/"`, "^`registry` is not valid$", `ends with a slash\.`},
		{`registry = "registry.example.com/team:v1"`, "^`registry` is not valid$", `is not a registry prefix\.`},
		{`registry = "registry.example.com/team@sha256:0123456789012345678901234567890123456789012345678901234567890123"`, "^`registry` is not valid$", `has a digest\.`},
		{`registry = "team"`, "^`registry` is not valid$", `does not begin with a registry's host\.`},
		{`kit_registry = "Mirror.example.com/KIT"`, "^`kit_registry` is not valid$", `is not a registry prefix\.`},
		{`sandbox_images = { default = "no such image" }`, "^`sandbox_images\\[\"default\"\\]` is not valid$", `is not an image reference`},
		{`sandbox_images = { "Not/A_Label" = "image" }`, "is not valid$", `is not a name that a namespace can have`},
		// J34: quantities.
		{`sizes = { hold = { memory = "8 gigs" } }`, "^`sizes\\[\"hold\"\\].memory` is not valid$", `^"8 gigs" is not a quantity above zero, such as "8Gi" or "512Mi"\.$`},
		{`sizes = { hold = { cpu = "0" } }`, "^`sizes\\[\"hold\"\\].cpu` is not valid$", `^"0" is not a quantity above zero, such as "4" or "500m"\.$`},
		// J28: tolerations as the pod spec has them.
		{`sandbox = { tolerations = [{ operator = "Equal", value = "a" }] }`, "^`sandbox.tolerations\\[0\\]` is not a toleration$", `without a key the operator must be Exists, which tolerates every taint\.$`},
		{`sandbox = { tolerations = [{ key = "a", operator = "Exists", value = "b" }] }`, "^`sandbox.tolerations\\[0\\]` is not a toleration$", `the operator Exists compares no value, but value is "b"\.$`},
		{`sandbox = { tolerations = [{ key = "a", effect = "Never" }] }`, "^`sandbox.tolerations\\[0\\]` is not a toleration$", `effect "Never" is none of NoSchedule, PreferNoSchedule, NoExecute\.$`},
		{`sandbox = { tolerations = [{ key = "a", operator = "In" }] }`, "^`sandbox.tolerations\\[0\\]` is not a toleration$", `operator "In" is neither Equal nor Exists\.$`},
		{`namespace = "Not_A_Label"`, "^`namespace` is not valid$", `is not a name that a namespace can have`},
		{`kubernetes_floor = "newest"`, "^`kubernetes_floor` is not valid$", `"newest"`},
		{`required_secrets = [{ name = "api", keys = [] }]`, "Invalid Attribute Value", "at least 1 elements"},
		{`operator = { image = "a", version = "latest" }`, "^`operator.version` is not valid$", `^"latest" is not a version that can be compared, such as 1\.4\.0\.$`},
		{`operator = { image = "a", version = "1.4.0+build.5" }`, "^`operator.version` is not valid$", `^"1.4.0\+build\.5" has build metadata, which the label that holds the version on the cluster cannot have\. Leave out what begins with "\+"\.$`},
		{`preflight = { endpoints = ["ftp://example.com"], image = "curl" }`, "^`preflight.endpoints\\[0\\]` is not valid$", `is not an http or https URL`},
		// J19: without an image there is nothing to ask with.
		{`preflight = { endpoints = ["http://example.com"] }`, "Invalid Attribute Combination", `preflight\.image`},
	} {
		b.use(instance("this", "valid", one.body))
		result := b.Validate()
		result.Error(t, one.summary, one.detail)
	}
	same(t, "requests", len(b.proxy.Requests()), 0)
}
