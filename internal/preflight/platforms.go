package preflight

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ReleasedPlatforms are the platforms that the images next to a sandbox are released for; there are no others (J21).
var ReleasedPlatforms = []string{"linux/amd64", "linux/arm64"}

// nothingElse is the reason that both refusals of a platform give, and the way out.
const nothingElse = "berth knows images for linux/amd64, linux/arm64 and nothing else, so an image built for anything else could not be " +
	"joined by one of them in the same pod. Set `platforms` (docker platform strings, e.g. \"linux/arm64\") to name the set to build for."

// ValidatePlatforms refuses platforms that nothing is released for, naming each of them (J64).
func ValidatePlatforms(platforms []string) error {
	var unknown []string
	for _, platform := range platforms {
		if !slices.Contains(ReleasedPlatforms, platform) {
			unknown = append(unknown, platform)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return fmt.Errorf("`platforms` names %s — %s", strings.Join(unknown, ", "), nothingElse)
}

// RequireRegistry refuses several platforms without a registry: their images are joined by a manifest list, and only a
// registry holds one (J23).
func RequireRegistry(platforms []string, registry string) error {
	if len(platforms) < 2 || registry != "" {
		return nil
	}
	return fmt.Errorf("images for %s need `registry`: images of several platforms are one manifest list, which only a registry can hold. "+
		"Set `registry`, or name one platform in `platforms`", strings.Join(platforms, ", "))
}

// Platforms is what the nodes of a cluster need images for.
type Platforms struct {
	Names                []string // released platforms among the nodes, sorted, such as linux/amd64
	SchedulableNodes     int      // nodes that were read, those with a skipped architecture included (J22)
	SkippedArchitectures []string // architectures that nothing is released for, sorted; windows/amd64 where it is not Linux
}

// DerivePlatforms reads the platforms of the nodes that an ordinary pod can land on and of those that the placement
// admits (J20). What nothing is released for is skipped (J22). When nothing is left, also because there is no such
// node, the error is the refusal (J65).
func DerivePlatforms(placement Placement, nodes []corev1.Node) (Platforms, error) {
	var derived Platforms
	var reported []string
	for i := range nodes {
		if (Placement{}).Exclusion(&nodes[i]) != "" && placement.Exclusion(&nodes[i]) != "" {
			continue
		}
		derived.SchedulableNodes++
		architecture, platform := platformOf(&nodes[i])
		reported = append(reported, architecture)
		if slices.Contains(ReleasedPlatforms, platform) {
			derived.Names = append(derived.Names, platform)
		} else {
			derived.SkippedArchitectures = append(derived.SkippedArchitectures, architecture)
		}
	}
	derived.Names = sortedSet(derived.Names)
	derived.SkippedArchitectures = sortedSet(derived.SkippedArchitectures)
	switch {
	case len(derived.Names) > 0:
		return derived, nil
	case derived.SchedulableNodes == 0:
		return derived, errors.New("this cluster has no schedulable node right now to read a platform from — " + nothingElse)
	}
	return derived, fmt.Errorf("this cluster's schedulable nodes report %s — %s", strings.Join(sortedSet(reported), ", "), nothingElse)
}

// PlatformOf is the docker platform string of a node, such as linux/amd64.
func PlatformOf(node *corev1.Node) string {
	_, platform := platformOf(node)
	return platform
}

func platformOf(node *corev1.Node) (architecture, platform string) {
	system, architecture := node.Status.NodeInfo.OperatingSystem, node.Status.NodeInfo.Architecture
	if architecture == "" {
		architecture = "unknown"
	}
	if system == "" || system == "linux" {
		return architecture, "linux/" + architecture
	}
	return system + "/" + architecture, system + "/" + architecture
}

func sortedSet(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// String is the line that says which platforms were found and where, and one line for each architecture that was
// skipped (J22).
func (p Platforms) String() string {
	lines := []string{fmt.Sprintf("platforms: %s (from %d schedulable node(s))", strings.Join(p.Names, ", "), p.SchedulableNodes)}
	for _, architecture := range p.SkippedArchitectures {
		lines = append(lines, fmt.Sprintf("  skipping node arch %s — berth knows no image for it, so no pod there could run", architecture))
	}
	return strings.Join(lines, "\n")
}

// checkPlatforms reports the derived platforms: a warning where an architecture was skipped, so that it is seen.
func checkPlatforms(placement Placement, nodes []corev1.Node) Check {
	const name = "platforms"
	derived, err := DerivePlatforms(placement, nodes)
	if err != nil {
		return Check{Name: name, Status: Fail, Message: err.Error()}
	}
	check := passed(name, "%s", derived)
	if len(derived.SkippedArchitectures) > 0 {
		check.Status = Warn
	}
	return check
}
