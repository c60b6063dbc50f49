package preflight

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	goversion "github.com/hashicorp/go-version"
	"k8s.io/apimachinery/pkg/version"
)

// Floor is the oldest Kubernetes that can run a sandbox: image volumes are on by default from it (J6).
const Floor = "1.35"

var (
	numbers    = regexp.MustCompile(`^v?(\d+)\.(\d+)(?:\.(\d+))?`)
	preRelease = regexp.MustCompile(`^v?[\d.]+-(alpha|beta|rc)\.\d+`)
)

// ParseConstraint reads what a configuration says of the Kubernetes version: a constraint in Terraform's syntax
// (">= 1.35, < 1.38", "~> 1.35"), or a bare version ("1.35"), which is a floor. The error says what is wrong with it.
func ParseConstraint(text string) (goversion.Constraints, error) {
	constraint := text
	if _, err := goversion.NewVersion(strings.TrimSpace(text)); err == nil {
		constraint = ">= " + strings.TrimSpace(text)
	}
	constraints, err := goversion.NewConstraint(constraint)
	if err != nil {
		return nil, fmt.Errorf("%q is no version constraint: write one such as \"1.35\" (that or newer) or \">= 1.35, < 1.38\"", text)
	}
	return constraints, nil
}

// parseVersion reads the numbers of a version and nothing else. Vendors append theirs as semantic versioning's
// pre-release (v1.35.2-gke.100, v1.35.3-eks-abcdef) or build (v1.36.1+k3s1); neither makes it older than 1.35.2.
func parseVersion(text string) (*goversion.Version, error) {
	found := numbers.FindString(text)
	if found == "" {
		return nil, fmt.Errorf("%q holds no version", text)
	}
	return goversion.NewVersion(found)
}

// serverVersion is a server's version for messages and for comparison. Some servers state only major and minor, and
// some of those write the minor as "35+".
func serverVersion(info *version.Info) (string, *goversion.Version, error) {
	if parsed, err := parseVersion(info.GitVersion); err == nil {
		return info.GitVersion, parsed, nil
	}
	text := info.Major + "." + info.Minor
	parsed, err := parseVersion(text)
	if err != nil {
		return "", nil, fmt.Errorf("the API server states the version as gitVersion %q, major %q, minor %q", info.GitVersion, info.Major, info.Minor)
	}
	return text, parsed, nil
}

// KubernetesVersion is the version in the server's own words, such as v1.35.2-gke.100 (J7). It fails when the cluster
// does not answer or states no version.
func KubernetesVersion(ctx context.Context, c Cluster) (string, error) {
	text, _, err := askVersion(ctx, c)
	return text, err
}

func askVersion(ctx context.Context, c Cluster) (string, *goversion.Version, error) {
	info, err := c.Version(ctx)
	if err != nil {
		return "", nil, err
	}
	return serverVersion(info)
}

// CheckVersion compares the cluster's version with a constraint, as ParseConstraint reads it, and fails when it lies
// outside (J6). A pre-release of Kubernetes itself counts as the release that it precedes, with a warning.
func CheckVersion(ctx context.Context, c Cluster, constraint string) Check {
	const name = "kubernetes_version"
	constraints, err := ParseConstraint(constraint)
	if err != nil {
		return Check{Name: name, Status: Fail, Message: err.Error()}
	}
	text, number, err := askVersion(ctx, c)
	if err != nil {
		return unanswered(name, "the version of "+c.Context(), err, nil)
	}
	floor, isFloor := floorOf(constraints)
	if !constraints.Check(number) {
		needs := fmt.Sprintf("this configuration needs Kubernetes %s", constraints)
		if isFloor {
			needs = fmt.Sprintf("berth needs Kubernetes %s or newer", floor)
		}
		if isFloor && floor == Floor {
			needs += " (every sandbox mounts its runtime as an image volume)"
		}
		return Check{
			Name: name, Status: Fail,
			Message: fmt.Sprintf("refusing: %s runs Kubernetes %s; %s. Nothing was applied.", c.Context(), text, needs),
			Remedy:  "Upgrade the cluster, or name one whose version fits.",
		}
	}
	wanted := fmt.Sprintf("needs %s", constraints)
	if isFloor {
		wanted = "floor " + floor
	}
	check := passed(name, "kubernetes: %s (%s)", text, wanted)
	if preRelease.MatchString(text) {
		check.Status = Warn
		check.Message += fmt.Sprintf("; a pre-release, compared as if it were %s", number)
	}
	return check
}

// floorOf is the version of a constraint that is a floor and nothing else.
func floorOf(constraints goversion.Constraints) (string, bool) {
	if len(constraints) != 1 {
		return "", false
	}
	floor, isFloor := strings.CutPrefix(constraints.String(), ">=")
	return strings.TrimSpace(floor), isFloor
}
