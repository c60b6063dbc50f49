package knative

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// version is a version that a test writes down.
func version(t *testing.T, text string) Version {
	t.Helper()
	parsed, err := ParseVersion(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// refusedVersion checks an error's attribute, summary and detail.
func refusedVersion(t *testing.T, err error, attribute, summary, detail string) {
	t.Helper()
	found, ok := err.(*cluster.Problem) //nolint:errorlint // the error itself, not a cause, has to be the diagnostic
	if !ok {
		t.Fatalf("%T is no problem: %v", err, err)
	}
	if found.Attribute != attribute || found.Summary != summary || found.Detail != detail {
		t.Errorf("got %s: %s\n%s\nwant %s: %s\n%s", found.Attribute, found.Summary, found.Detail, attribute, summary, detail)
	}
}

// A version is major.minor, and nothing else (R76).
func TestParseVersion_R76(t *testing.T) {
	for text, want := range map[string]Version{"1.15": {1, 15}, "1.0": {1, 0}, "2.103": {2, 103}} {
		if got, err := ParseVersion(text); err != nil || got != want || got.String() != text {
			t.Errorf("%s is read as %v (%v)", text, got, err)
		}
	}
	for _, text := range []string{"", "1", "v1.15", "1.15.2", "1.015", "1.15 ", " 1.15", "1.x", "latest", "1.-5", "1.99999", "1.15\n"} {
		_, err := ParseVersion(text)
		refusedVersion(t, err, "version", fmt.Sprintf("%q is not a minor version of Knative", text),
			"It has to be major.minor, such as 1.15, without a patch: the operator installs the newest patch that it has. Set version to such a value.")
	}
}

// Clusters, operators and charts have versions with patches, and vendors append theirs.
func TestParseRelease(t *testing.T) {
	for text, want := range map[string]Version{
		"1.32": {1, 32}, "v1.32.4": {1, 32}, "v1.32.4-gke.100": {1, 32}, "v1.36.1+k3s1": {1, 36}, "1.32+": {1, 32}, "v1.35.3-eks-abcdef": {1, 35},
		"1.15.2": {1, 15}, "v1.15.0-rc1": {1, 15},
	} {
		if got, err := ParseRelease(text); err != nil || got != want {
			t.Errorf("%s is read as %v (%v)", text, got, err)
		}
	}
	for _, text := range []string{"", "v1", "one.two", "latest", "1.32.x", "1.32rc1", "vv1.32", "1.32.4.5", "99999.1"} {
		_, err := ParseRelease(text)
		refusedVersion(t, err, "", fmt.Sprintf("%q is not a version", text), "It has to begin with major.minor, such as 1.32, v1.32.4 or v1.32.4-gke.100.")
	}
}

// The table has each version once, in order, and a newer Knative never accepts an older Kubernetes (R10).
func TestCompatible_R10(t *testing.T) {
	for i, row := range compatible[1:] {
		if newer := compatible[i]; row.knative.next() != newer.knative || row.kubernetes.Compare(newer.kubernetes) > 0 {
			t.Errorf("%v follows %v", row, newer)
		}
	}
}

// Up to five, the newest first (R11), with the example of the requirements (R12).
func TestOffered_R11_R12(t *testing.T) {
	for kubernetes, want := range map[string]string{
		"1.32": "1.20, 1.19, 1.18, 1.17, 1.16", // R12
		"1.30": "1.17, 1.16, 1.15, 1.14, 1.13",
		"1.31": "1.18, 1.17, 1.16, 1.15, 1.14",
		"1.33": "1.21, 1.20, 1.19, 1.18, 1.17",
		"1.34": "1.23, 1.22, 1.21, 1.20, 1.19",
		"1.35": "1.24, 1.23, 1.22, 1.21, 1.20",
		"1.40": "1.24, 1.23, 1.22, 1.21, 1.20",
		"1.29": "1.16, 1.15, 1.14, 1.13, 1.12",
		"1.27": "1.13, 1.12",
		"1.25": "",
	} {
		if got := listed(Offered(version(t, kubernetes), nil)); got != want {
			t.Errorf("Kubernetes %s is offered %s, not %s", kubernetes, got, want)
		}
	}
}

// Only what the operator's repository has is offered (R11): a minor version of the chart, in any spelling, that is no
// pre-release. An empty repository offers nothing, which is not the same as one that is not known.
func TestOfferedByCharts_R11(t *testing.T) {
	kubernetes := Version{1, 32}
	for want, charts := range map[string][]string{
		"1.19, 1.16, 1.14":             {"1.14.0", "v1.19.1", "1.19.0", "1.16.3", "1.20.0-rc.1", "1.22.0", "0.9.0", "latest"},
		"1.18, 1.17, 1.16, 1.15, 1.14": {"1.12.0", "1.13.0", "1.14.0", "1.15.0", "1.16.0", "1.17.0", "1.18.0"},
		"":                             {},
	} {
		if got := listed(Offered(kubernetes, charts)); got != want {
			t.Errorf("%v offers %s, not %s", charts, got, want)
		}
	}
}

// The floor under Kubernetes (R9).
func TestCheckFloor_R9(t *testing.T) {
	for kubernetes, minor := range map[string]int{"1.30": MinKubernetesMinor, "1.36": MinKubernetesMinor, "1.27": 27, "2.0": MinKubernetesMinor} {
		if err := CheckFloor(version(t, kubernetes), minor); err != nil {
			t.Errorf("%s: %v", kubernetes, err)
		}
	}
	refusedVersion(t, CheckFloor(Version{1, 29}, MinKubernetesMinor), "min_kubernetes_minor", "Kubernetes 1.29 is too old for Knative",
		"refusing: the cluster runs Kubernetes 1.29, and min_kubernetes_minor = 30 accepts 1.30 and newer. Upgrade the cluster, or set min_kubernetes_minor to 29.")
}

// A version that the cluster cannot run is refused with those that it can (R10).
func TestCheckSupported_R10(t *testing.T) {
	for knative, kubernetes := range map[string]string{"1.20": "1.32", "1.12": "1.36", "1.24": "1.35", "1.13": "1.27"} {
		if err := CheckSupported(version(t, knative), version(t, kubernetes)); err != nil {
			t.Errorf("%s on %s: %v", knative, kubernetes, err)
		}
	}
	refusedVersion(t, CheckSupported(Version{1, 22}, Version{1, 32}), "version", "Knative 1.22 does not run on Kubernetes 1.32",
		"refusing: Knative 1.22 needs Kubernetes 1.34 or newer, and the cluster runs 1.32. Set version to one that Kubernetes 1.32 supports: 1.20, 1.19, 1.18, 1.17, 1.16. Or upgrade the cluster to Kubernetes 1.34.")
	refusedVersion(t, CheckSupported(Version{1, 12}, Version{1, 25}), "version", "Knative 1.12 does not run on Kubernetes 1.25",
		"refusing: Knative 1.12 needs Kubernetes 1.26 or newer, and the cluster runs 1.25. Upgrade the cluster to Kubernetes 1.26.")
	for _, unknown := range []Version{{1, 25}, {1, 11}, {2, 0}} {
		refusedVersion(t, CheckSupported(unknown, Version{1, 36}), "version", "Knative "+unknown.String()+" is not known to this release of berth",
			"refusing: it knows Knative 1.12 to 1.24, and of no other which Kubernetes it needs. Set version to one that Kubernetes 1.36 supports: 1.24, 1.23, 1.22, 1.21, 1.20. Or use a release of berth that knows it.")
	}
}

// One minor version at a time, never back (R100, X8).
func TestCheckUpgrade_R100_X8(t *testing.T) {
	check := func(from, to, kubernetes string) error {
		return CheckUpgrade(version(t, from), version(t, to), version(t, kubernetes))
	}
	// The same is no change, also where the table knows nothing of it; and the next one.
	for _, step := range [][3]string{{"1.14", "1.14", "1.36"}, {"1.9", "1.9", "1.20"}, {"1.25", "1.25", "1.36"}, {"1.14", "1.15", "1.36"}, {"1.11", "1.12", "1.26"}, {"1.20", "1.21", "1.33"}} {
		if err := check(step[0], step[1], step[2]); err != nil {
			t.Errorf("%v: %v", step, err)
		}
	}
	const skipped = "refusing: the cluster runs Serving %s, and Serving is upgraded one minor version at a time. To get to %s: %s."
	for _, skip := range []struct{ from, to, kubernetes, way string }{
		{"1.12", "1.14", "1.36", "apply 1.13, then 1.14"},
		{"1.11", "1.14", "1.36", "apply 1.12, then 1.13, then 1.14"},
		{"1.9", "1.12", "1.36", "apply 1.10, then 1.11, then 1.12"},
		{"1.19", "1.23", "1.32", "apply 1.20, then upgrade the cluster to Kubernetes 1.33, then apply 1.21, then upgrade the cluster to Kubernetes 1.34, then apply 1.22, then 1.23"},
		{"1.20", "1.22", "1.32", "upgrade the cluster to Kubernetes 1.33, then apply 1.21, then upgrade the cluster to Kubernetes 1.34, then apply 1.22"},
	} {
		refusedVersion(t, check(skip.from, skip.to, skip.kubernetes), "version", fmt.Sprintf("Knative Serving is not upgraded from %s to %s", skip.from, skip.to),
			fmt.Sprintf(skipped, skip.from, skip.to, skip.way))
	}
	refusedVersion(t, check("1.15", "1.14", "1.36"), "version", "Knative Serving is not downgraded from 1.15 to 1.14",
		"refusing: the cluster runs Serving 1.15, and Serving is never downgraded: 1.14 may not understand what 1.15 has stored. Set version to 1.15, or to 1.16 after it.")
	refusedVersion(t, check("1.20", "1.21", "1.32"), "version", "Knative Serving is not upgraded from 1.20 to 1.21",
		"refusing: Knative 1.21 needs Kubernetes 1.33 or newer, and the cluster runs 1.32. Upgrade the cluster to Kubernetes 1.33 first, and leave version at 1.20 until then.")
	for _, unknown := range []string{"1.25", "2.0"} {
		refusedVersion(t, check("1.24", unknown, "1.36"), "version", "Knative "+unknown+" is not known to this release of berth",
			"refusing: it knows Knative 1.12 to 1.24, and of no other which Kubernetes it needs. Set version to one that Kubernetes 1.36 supports: 1.24, 1.23, 1.22, 1.21, 1.20. Or use a release of berth that knows it.")
	}
}

// The operator's chart is the newest patch of Serving's minor version (R13).
func TestChartFor_R13(t *testing.T) {
	charts := []string{"1.15.2", "v1.15.10", "1.15.9", "1.15.11-rc.1", "1.16.0-rc.1", "1.14.0", "1.1.0", "newest"}
	for serving, want := range map[string]string{"1.15": "v1.15.10", "1.14": "1.14.0", "1.1": "1.1.0"} {
		if got, err := ChartFor(version(t, serving), charts); err != nil || got != want {
			t.Errorf("the chart for %s is %s (%v)", serving, got, err)
		}
	}
	_, err := ChartFor(Version{1, 16}, charts)
	refusedVersion(t, err, "version", "There is no operator for Knative 1.16",
		"refusing: the operator's repository has no chart knative-operator of version 1.16. It has charts of 1.15, 1.14, 1.1. Set version to one of them, or name a repository that has the chart.")
	_, err = ChartFor(Version{1, 16}, []string{"1.16.0-rc.1"})
	refusedVersion(t, err, "version", "There is no operator for Knative 1.16",
		"refusing: the operator's repository has no chart knative-operator of version 1.16. It has no release of the chart at all. Correct the operator's repository.")
	var many []string
	for minor := range 14 {
		many = append(many, fmt.Sprintf("1.%d.0", minor))
	}
	_, err = ChartFor(Version{1, 16}, many)
	if err == nil || !strings.Contains(err.Error(), "It has charts of 1.13, 1.12, 1.11, 1.10, 1.9, 1.8, 1.7, 1.6, 1.5, 1.4 and 4 older ones. Set version") {
		t.Errorf("got %v", err)
	}
}

// An operator carries its own minor version and three before it.
func TestOperatorServes(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"1.15", "1.15"}: true, {"1.15", "1.12"}: true, {"1.15", "1.11"}: false, {"1.15", "1.16"}: false, {"2.15", "1.15"}: false,
	} {
		if got := OperatorServes(version(t, pair[0]), version(t, pair[1])); got != want {
			t.Errorf("operator %s serves %s: %v", pair[0], pair[1], got)
		}
	}
}
