package knative

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// Version is a minor version, of Knative or of Kubernetes.
type Version struct{ Major, Minor int }

// String is the version as `version` has it (R76).
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Compare is negative where v is the older one, and zero where both are the same.
func (v Version) Compare(other Version) int {
	return cmp.Or(cmp.Compare(v.Major, other.Major), cmp.Compare(v.Minor, other.Minor))
}

// Less tells whether v is older.
func (v Version) Less(other Version) bool { return v.Compare(other) < 0 }

// next is the minor version after v.
func (v Version) next() Version { return Version{v.Major, v.Minor + 1} }

// MinKubernetesMinor is the default of min_kubernetes_minor: the lowest minor version of Kubernetes 1 that is accepted
// (R9).
const MinKubernetesMinor = 30

// mostOffered is how many versions are offered at most (R11).
const mostOffered = 5

// operatorReach is how many minor versions before its own an operator can install: it carries their manifests.
const operatorReach = 3

// compatible are the versions of Knative that are known, the newest first, each with the lowest Kubernetes that it
// accepts (R10). Up to 1.23 it is what each release of knative.dev/serving checks when it starts: minimumVersion in the
// package version of the knative.dev/pkg that its go.mod names. For 1.24 it is the lowest version that its own end-to-end
// tests run on, as in 1.20 to 1.23 the two were the same. There are no upper bounds.
var compatible = []struct{ knative, kubernetes Version }{
	{Version{1, 24}, Version{1, 35}},
	{Version{1, 23}, Version{1, 34}},
	{Version{1, 22}, Version{1, 34}},
	{Version{1, 21}, Version{1, 33}},
	{Version{1, 20}, Version{1, 32}},
	{Version{1, 19}, Version{1, 32}},
	{Version{1, 18}, Version{1, 31}},
	{Version{1, 17}, Version{1, 30}},
	{Version{1, 16}, Version{1, 28}},
	{Version{1, 15}, Version{1, 28}},
	{Version{1, 14}, Version{1, 28}},
	{Version{1, 13}, Version{1, 27}},
	{Version{1, 12}, Version{1, 26}},
}

var (
	minorForm   = regexp.MustCompile(`^(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})$`)
	releaseForm = regexp.MustCompile(`^v?(0|[1-9]\d{0,3})\.(0|[1-9]\d{0,3})(\.\d+)?([-+].*)?$`)
)

// ParseVersion reads a version as a configuration has it: major.minor and nothing else, such as "1.15" (R76). The error
// is a *cluster.Problem about `version`.
func ParseVersion(text string) (Version, error) {
	found := minorForm.FindStringSubmatch(text)
	if found == nil {
		return Version{}, &cluster.Problem{
			Attribute: "version",
			Summary:   fmt.Sprintf("%q is not a minor version of Knative", text),
			Detail:    "It has to be major.minor, such as 1.15, without a patch: the operator installs the newest patch that it has. Set version to such a value.",
		}
	}
	return numbersOf(found), nil
}

// ParseRelease reads the minor version of what clusters, operators and charts say of themselves: "1.32", "v1.15.2",
// "v1.32.4-gke.100", "v1.36.1+k3s1". The error is a *cluster.Problem about no attribute.
func ParseRelease(text string) (Version, error) {
	found := releaseForm.FindStringSubmatch(text)
	if found == nil {
		return Version{}, &cluster.Problem{
			Summary: fmt.Sprintf("%q is not a version", text),
			Detail:  "It has to begin with major.minor, such as 1.32, v1.32.4 or v1.32.4-gke.100.",
		}
	}
	return numbersOf(found), nil
}

// numbersOf are the first two groups of a match, of at most four digits each.
func numbersOf(match []string) Version {
	major, _ := strconv.Atoi(match[1])
	minor, _ := strconv.Atoi(match[2])
	return Version{major, minor}
}

// kubernetesFor is the lowest Kubernetes that a version of Knative accepts, and whether the version is known.
func kubernetesFor(version Version) (Version, bool) {
	for _, row := range compatible {
		if row.knative == version {
			return row.kubernetes, true
		}
	}
	return Version{}, false
}

// Offered are the newest versions of Knative that a cluster of this Kubernetes supports, at most five, the newest first
// (R11). With charts, which are the versions of the operator's chart in its repository, only those count of which there
// is a chart (R13); nil charts mean that the repository is not known.
func Offered(kubernetes Version, charts []string) []Version {
	newest := newestCharts(charts)
	var offered []Version
	for _, row := range compatible {
		if _, has := newest[row.knative]; charts != nil && !has || kubernetes.Less(row.kubernetes) {
			continue
		}
		if offered = append(offered, row.knative); len(offered) == mostOffered {
			break
		}
	}
	return offered
}

// CheckFloor refuses a Kubernetes older than 1.minor, in which min_kubernetes_minor counts (R9). The error is a
// *cluster.Problem about it.
func CheckFloor(kubernetes Version, minor int) error {
	floor := Version{1, minor}
	if !kubernetes.Less(floor) {
		return nil
	}
	return &cluster.Problem{
		Attribute: "min_kubernetes_minor",
		Summary:   fmt.Sprintf("Kubernetes %s is too old for Knative", kubernetes),
		Detail: fmt.Sprintf("refusing: the cluster runs Kubernetes %s, and min_kubernetes_minor = %d accepts %s and newer. Upgrade the cluster, or set min_kubernetes_minor to %d.",
			kubernetes, minor, floor, kubernetes.Minor),
	}
}

// CheckSupported refuses a version of Knative that a cluster of this Kubernetes cannot run, or of which it is not known
// (R10), and names those that it can. The error is a *cluster.Problem about `version`.
func CheckSupported(version, kubernetes Version) error {
	needs, known := kubernetesFor(version)
	if known && !kubernetes.Less(needs) {
		return nil
	}
	summary := fmt.Sprintf("Knative %s does not run on Kubernetes %s", version, kubernetes)
	why := fmt.Sprintf("Knative %s needs Kubernetes %s or newer, and the cluster runs %s", version, needs, kubernetes)
	remedy := fmt.Sprintf("Upgrade the cluster to Kubernetes %s", needs)
	if !known {
		oldest, newest := compatible[len(compatible)-1].knative, compatible[0].knative
		summary = fmt.Sprintf("Knative %s is not known to this release of berth", version)
		why = fmt.Sprintf("it knows Knative %s to %s, and of no other which Kubernetes it needs", oldest, newest)
		remedy = "Use a release of berth that knows it"
	}
	if offered := Offered(kubernetes, nil); len(offered) > 0 {
		remedy = fmt.Sprintf("Set version to one that Kubernetes %s supports: %s. Or %s", kubernetes, listed(offered), strings.ToLower(remedy[:1])+remedy[1:])
	}
	return &cluster.Problem{Attribute: "version", Summary: summary, Detail: fmt.Sprintf("refusing: %s. %s.", why, remedy)}
}

// CheckUpgrade refuses a change of Serving's version that is not to the next minor version which the cluster supports
// (R100, X8): an older one, a skip, which it answers with the steps that lead there, and one that needs a newer
// Kubernetes. The same version is no change. The error is a *cluster.Problem about `version`.
func CheckUpgrade(from, to, kubernetes Version) error {
	needs, known := kubernetesFor(to)
	problem := &cluster.Problem{Attribute: "version", Summary: fmt.Sprintf("Knative Serving is not upgraded from %s to %s", from, to)}
	switch next := from.next(); {
	case to == from:
		return nil
	case to.Less(from):
		problem.Summary = fmt.Sprintf("Knative Serving is not downgraded from %s to %s", from, to)
		problem.Detail = fmt.Sprintf("refusing: the cluster runs Serving %s, and Serving is never downgraded: %s may not understand what %s has stored. Set version to %s, or to %s after it.",
			from, to, from, from, next)
	case !known:
		return CheckSupported(to, kubernetes)
	case to != next:
		problem.Detail = fmt.Sprintf("refusing: the cluster runs Serving %s, and Serving is upgraded one minor version at a time. To get to %s: %s.", from, to, steps(from, to, kubernetes))
	case kubernetes.Less(needs):
		problem.Detail = fmt.Sprintf("refusing: Knative %s needs Kubernetes %s or newer, and the cluster runs %s. Upgrade the cluster to Kubernetes %s first, and leave version at %s until then.",
			to, needs, kubernetes, needs, from)
	default:
		return nil
	}
	return problem
}

// steps is the way from one version to a later one, on a cluster that runs this Kubernetes: "apply 1.13, then 1.14".
func steps(from, to, kubernetes Version) string {
	var way []string
	apply := "apply "
	for step := from.next(); !to.Less(step); step = step.next() {
		if needs, _ := kubernetesFor(step); kubernetes.Less(needs) {
			way = append(way, "upgrade the cluster to Kubernetes "+needs.String())
			kubernetes, apply = needs, "apply "
		}
		way = append(way, apply+step.String())
		apply = ""
	}
	return strings.Join(way, ", then ")
}

// ChartFor is the version of the operator's chart for a version of Serving, among those that the repository has: the
// newest patch of the same minor version (R13). Pre-releases do not count. The error is a *cluster.Problem about
// `version` that lists what there is.
func ChartFor(version Version, charts []string) (string, error) {
	newest := newestCharts(charts)
	if chart, has := newest[version]; has {
		return chart.Original(), nil
	}
	minors := make([]Version, 0, len(newest))
	for minor := range newest {
		minors = append(minors, minor)
	}
	slices.SortFunc(minors, func(a, b Version) int { return b.Compare(a) })
	has := "It has no release of the chart at all. Correct the operator's repository"
	if len(minors) > 0 {
		const most = 10
		has = "It has charts of " + listed(minors[:min(len(minors), most)])
		if len(minors) > most {
			has += fmt.Sprintf(" and %d older ones", len(minors)-most)
		}
		has += ". Set version to one of them, or name a repository that has the chart"
	}
	return "", &cluster.Problem{
		Attribute: "version",
		Summary:   fmt.Sprintf("There is no operator for Knative %s", version),
		Detail:    fmt.Sprintf("refusing: the operator's repository has no chart %s of version %s. %s.", OperatorRelease, version, has),
	}
}

// newestCharts are the newest versions of a chart by their minor version, without pre-releases.
func newestCharts(charts []string) map[Version]*semver.Version {
	newest := map[Version]*semver.Version{}
	for _, text := range charts {
		chart, err := semver.NewVersion(text)
		if err != nil || chart.Prerelease() != "" {
			continue
		}
		minor := Version{int(chart.Major()), int(chart.Minor())}
		if known := newest[minor]; known == nil || chart.GreaterThan(known) {
			newest[minor] = chart
		}
	}
	return newest
}

// OperatorServes tells whether an operator can install and keep a version of Serving: its own minor version and the
// three before it, whose manifests it carries.
func OperatorServes(operator, serving Version) bool {
	behind := operator.Minor - serving.Minor
	return operator.Major == serving.Major && behind >= 0 && behind <= operatorReach
}

// listed is a sentence's list of versions.
func listed(versions []Version) string {
	texts := make([]string, len(versions))
	for i, version := range versions {
		texts[i] = version.String()
	}
	return strings.Join(texts, ", ")
}
