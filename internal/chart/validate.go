package chart

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"github.com/Masterminds/semver/v3"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// digestPattern is the form of every digest here: the archives of Helm repositories and the layers of OCI registries
// both use SHA-256.
var digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Validate says what is wrong with a Ref as such, without looking at any repository or file: what a plan can refuse
// before anything is read. It gives nothing where nothing is wrong.
func (r Ref) Validate() []*cluster.Problem {
	var problems []*cluster.Problem
	add := func(attribute, summary, format string, args ...any) {
		problems = append(problems, &cluster.Problem{Attribute: attribute, Summary: r.subject() + ": " + summary, Detail: fmt.Sprintf(format, args...)})
	}
	switch {
	case r.Path == "" && r.Repository == "":
		add("chart", "it is not said where it is", "Set either chart.repository with chart.name and chart.version, or chart.path.")
	case r.Path != "" && (r.Repository != "" || r.Name != "" || r.Version != ""):
		add("chart.path", "it is said twice where it is", "chart.path is a chart of its own: a repository, a name or a version beside it would be ignored. Set either chart.path, or chart.repository with chart.name and chart.version.")
	case r.Path != "":
		if strings.Contains(r.Path, "://") {
			add("chart.path", "its path is a URL", "chart.path is a local folder or archive. Set chart.repository to the URL of the repository, with chart.name and chart.version.")
		}
	default:
		if why := badRepository(r.Repository); why != "" {
			add("chart.repository", "the URL of its repository is not usable", "%s", why)
		}
		if why := r.badName(); why != "" {
			add("chart.name", "its name is not usable", "%s", why)
		}
		if summary, why := badVersion(r.Version); summary != "" {
			add("chart.version", summary, "%s", why)
		}
	}
	if r.Digest != "" && !digestPattern.MatchString(r.Digest) {
		add("chart.digest", "its digest is malformed", `%q is no digest. Set chart.digest to "sha256:" and 64 lower-case hexadecimal digits, or leave it out.`, cut(r.Digest))
	}
	return problems
}

// badRepository is why a repository's URL cannot be used; empty when it can. What it shows holds no user information.
func badRepository(repository string) string {
	u, err := url.Parse(repository)
	if err != nil {
		return "It is not a URL. Set it to the URL of a Helm repository (https://…) or of a folder in an OCI registry (oci://…)."
	}
	switch u.Scheme = strings.ToLower(u.Scheme); {
	case u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "oci":
		return fmt.Sprintf("%s is neither https:// nor oci://. Set it to the URL of a Helm repository or of a folder in an OCI registry; a local folder goes into chart.path.", quoted(shown(repository)))
	case u.Host == "":
		return fmt.Sprintf("%s names no host. Set it to the URL of a Helm repository (https://…) or of a folder in an OCI registry (oci://…).", quoted(shown(repository)))
	case u.User != nil:
		return fmt.Sprintf("%s has a user name or password in it, which would end up in the state. Take them out, and set username and password for this repository in the provider's charts.credentials.", quoted(shown(repository)))
	case strings.HasSuffix(u.Path, "/index.yaml"):
		return fmt.Sprintf("%s is the index of a repository. Leave index.yaml out.", quoted(shown(repository)))
	}
	return ""
}

func (r Ref) badName() string {
	switch {
	case r.Name == "":
		return "A repository holds many charts. Set chart.name to the name of the one that is wanted."
	case strings.ContainsFunc(r.Name, func(c rune) bool {
		return unicode.IsSpace(c) || unicode.IsControl(c) || strings.ContainsRune(`\:@?#%`, c)
	}), strings.Contains("/"+r.Name+"/", "/../"), strings.HasPrefix(r.Name, "/"):
		return fmt.Sprintf("%q is no name of a chart. Set chart.name to the name as the repository lists it.", cut(r.Name))
	case strings.Contains(r.Name, "/") && !strings.HasPrefix(strings.ToLower(r.Repository), "oci://"):
		return fmt.Sprintf("%q has a slash in it, as names in an HTTP repository never have. Set chart.name to the part after the slash, and chart.repository to the URL of the repository.", cut(r.Name))
	}
	return ""
}

// badVersion is why a version is not an exact one: what is wrong in a few words, and the whole of it.
func badVersion(version string) (summary, why string) {
	if version == "" {
		return "its version is missing", "Without a version, a plan would change because somebody published something. Set chart.version to an exact version, such as 1.2.3."
	}
	// As in Helm, a "v" before the number changes nothing.
	if _, err := semver.StrictNewVersion(strings.TrimPrefix(version, "v")); err == nil {
		return "", ""
	}
	if _, err := semver.NewConstraint(version); err == nil {
		return "its version is a range", fmt.Sprintf("%q stands for more than one version, so a plan would change because somebody published something. Set chart.version to an exact version with all three numbers, such as 1.2.3.", cut(version))
	}
	return "its version is malformed", fmt.Sprintf("%q is no semantic version. Set chart.version to an exact version, such as 1.2.3.", cut(version))
}

// sameVersion tells whether two spellings mean one version, the build metadata after "+" included.
func sameVersion(a, b string) bool {
	if a == b {
		return true
	}
	x, errX := semver.NewVersion(a)
	y, errY := semver.NewVersion(b)
	return errX == nil && errY == nil && x.Equal(y) && x.Metadata() == y.Metadata()
}
