package chart

import (
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	ok := Ref{Repository: "https://charts.example.com", Name: "demo", Version: "1.2.3"}
	with := func(change func(*Ref)) Ref {
		ref := ok
		change(&ref)
		return ref
	}
	for _, good := range []Ref{
		ok,
		{Path: "./charts/demo"},
		{Path: `C:\charts\demo`, Digest: "sha256:" + strings.Repeat("a0", 32)},
		with(func(r *Ref) { r.Version = "v1.2.3-rc.1+build" }), with(func(r *Ref) { r.Repository = "http://localhost:8080/" }),
		with(func(r *Ref) { r.Repository, r.Name = "oci://registry.example.com/charts", "team/demo" }),
		with(func(r *Ref) { r.Digest = "sha256:" + strings.Repeat("0", 64) }),
	} {
		if problems := good.Validate(); len(problems) > 0 {
			t.Errorf("%+v: %v", good, problems[0])
		}
	}
	for _, c := range []struct {
		ref                Ref
		attribute, summary string
		detail             string
	}{
		{Ref{}, "chart", "Chart: it is not said where it is", "Set either chart.repository with chart.name and chart.version, or chart.path."},
		{Ref{Path: "x", Name: "demo"}, "chart.path", `Chart "x": it is said twice where it is`, "Set either chart.path, or chart.repository"},
		{Ref{Path: "oci://x/y"}, "chart.path", `Chart "oci://x/y": its path is a URL`, "Set chart.repository to the URL"},
		{with(func(r *Ref) { r.Repository = "https://x y" }), "chart.repository", `Chart "demo": the URL of its repository is not usable`, "It is not a URL."},
		{with(func(r *Ref) { r.Repository = "./charts" }), "chart.repository", `Chart "demo": the URL of its repository is not usable`, `"./charts" is neither https:// nor oci://`},
		{with(func(r *Ref) { r.Repository = "https:///charts" }), "chart.repository", `Chart "demo": the URL of its repository is not usable`, "names no host"},
		{with(func(r *Ref) { r.Repository = "https://me:" + secret + "@x/charts" }), "chart.repository", `Chart "demo": the URL of its repository is not usable`, `"https://x/charts" has a user name or password in it, which would end up in the state`},
		{with(func(r *Ref) { r.Repository = "https://x/charts/index.yaml" }), "chart.repository", `Chart "demo": the URL of its repository is not usable`, "Leave index.yaml out."},
		{with(func(r *Ref) { r.Name = "" }), "chart.name", "Chart: its name is not usable", "Set chart.name to the name of the one that is wanted."},
		{with(func(r *Ref) { r.Name = "stable/demo" }), "chart.name", `Chart "stable/demo": its name is not usable`, "Set chart.name to the part after the slash"},
		{with(func(r *Ref) { r.Name = "demo:1.2.3" }), "chart.name", `Chart "demo:1.2.3": its name is not usable`, `"demo:1.2.3" is no name of a chart`},
		{with(func(r *Ref) { r.Repository, r.Name = "oci://x", "a/../b" }), "chart.name", `Chart "a/../b": its name is not usable`, "as the repository lists it"},
		{with(func(r *Ref) { r.Version = "" }), "chart.version", `Chart "demo": its version is missing`, "Set chart.version to an exact version"},
		{with(func(r *Ref) { r.Version = "1.2" }), "chart.version", `Chart "demo": its version is a range`, `"1.2" stands for more than one version`},
		{with(func(r *Ref) { r.Version = "^1.2.3" }), "chart.version", `Chart "demo": its version is a range`, "with all three numbers"},
		{with(func(r *Ref) { r.Version = ">= 1, < 2" }), "chart.version", `Chart "demo": its version is a range`, "somebody published something"},
		{with(func(r *Ref) { r.Version = "latest" }), "chart.version", `Chart "demo": its version is malformed`, `"latest" is no semantic version`},
		{with(func(r *Ref) { r.Digest = strings.Repeat("0", 64) }), "chart.digest", `Chart "demo": its digest is malformed`, `Set chart.digest to "sha256:" and 64 lower-case hexadecimal digits`},
	} {
		problems := c.ref.Validate()
		if len(problems) != 1 {
			t.Errorf("%+v has %d problems: %v", c.ref, len(problems), problems)
			continue
		}
		wants(t, problem(t, problems[0]), c.attribute, c.summary, c.detail)
		// Loading refuses the same, before it looks anywhere.
		wants(t, failure(t, source(t, nil), c.ref), c.attribute, c.summary, c.detail)
		if _, ok, err := source(t, nil).Cached(c.ref); ok || err == nil {
			t.Errorf("Cached accepts %+v", c.ref)
		}
	}
	// What is wrong in several places is said of each.
	if problems := (Ref{Repository: "ftp://x", Digest: "md5:0"}).Validate(); len(problems) != 4 {
		t.Errorf("%d problems: %v", len(problems), problems)
	}
}
