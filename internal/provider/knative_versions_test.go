package provider_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
	"github.com/berthdev/terraform-provider-berth/internal/knative"
)

// versionsCluster is a cluster whose Kubernetes, with a vendor's suffix, supports Knative 1.23 and older (R10).
var versionsCluster = lazyCluster{spec: fleettest.ClusterSpec{Name: "knative", ControlPlaneOnly: true, Version: "v1.34.2-gke.100"}}

// operatorArchives are archives of the operator's chart, of which only the name and the version matter here.
func operatorArchives(t testing.TB, versions ...string) []string {
	t.Helper()
	var archives []string
	for _, version := range versions {
		archives = append(archives, charts.Package(t, charts.Folder(t, knative.OperatorRelease, version, map[string]string{
			"templates/config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n",
		})))
	}
	return archives
}

// overriding is the provider's `charts` with one repository in another's place, and what else `charts` has.
func overriding(from, to string, more ...string) string {
	return fmt.Sprintf("charts = {\nrepository_overrides = { %q = %q }\n%s\n}", from, to, strings.Join(more, "\n"))
}

// The table by itself, as an expression (R10, R11), with the example of the requirements (R12).
func TestKnativeVersionsFunction_R12(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		w := tofutest.New(t, tofutest.Options{Runner: runner})
		for kubernetes, want := range map[string]string{
			"1.32": "[1.20 1.19 1.18 1.17 1.16]", "v1.32.4": "[1.20 1.19 1.18 1.17 1.16]", "v1.32.4-gke.100": "[1.20 1.19 1.18 1.17 1.16]",
			"1.30": "[1.17 1.16 1.15 1.14 1.13]", "1.34": "[1.23 1.22 1.21 1.20 1.19]", "1.20": "[]",
		} {
			w.Write("main.tf", calling(fmt.Sprintf("provider::berth::knative_versions(%q)", kubernetes)))
			w.MustApply()
			same(t, kubernetes, w.Output("it"), want)
		}
	})
}

func TestKnativeVersionsFunctionRefusals(t *testing.T) {
	t.Parallel()
	w := tofutest.New(t, tofutest.Options{})
	for _, text := range []string{"", "newest", "1", ">= 1.32", "1.32.x"} {
		w.Write("main.tf", calling(fmt.Sprintf("provider::berth::knative_versions(%q)", text)))
		w.Plan().Error(t, "function", fmt.Sprintf(`"kubernetes_version" parameter: %q is not a version: It has to begin with major.minor, such as 1\.32, v1\.32\.4 or v1\.32\.4-gke\.100\.`, text))
	}
}

// What the cluster supports and the repository has, the newest first (R11), each with its chart (R13). The index is
// asked for once in a run, with the provider's credentials, in the place that its overrides name.
func TestKnativeVersions_R11_R13(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		repository := charts.Repository(t, operatorArchives(t, "1.14.0", "1.15.2", "1.19.0", "1.19.3", "1.20.0-rc.1", "1.21.1", "1.22.0", "1.23.0", "1.24.0")...)
		repository.RequireBasicAuth("berth", "canary-of-the-index")
		b := newBenchOn(t, versionsCluster.get(t), unique("team"), tofutest.Options{Runner: runner}, overriding(knative.OperatorRepository, repository.URL,
			fmt.Sprintf(`credentials = { %q = { username = "berth", password = "canary-of-the-index" } }`, repository.URL)))
		b.use(data("knative_versions"))
		b.MustApply().NoWarnings(t)
		values := b.data("knative_versions")
		same(t, "versions", values["versions"], "[1.23 1.22 1.21 1.19 1.15]")
		same(t, "charts", values["charts"], map[string]any{"1.23": "1.23.0", "1.22": "1.22.0", "1.21": "1.21.1", "1.19": "1.19.3", "1.15": "1.15.2"})
		same(t, "the rest", row(values["source"], values["kubernetes_version"], values["id"], values["cluster_uid"]), row("index", "v1.34.2-gke.100", "shared", b.cluster.UID()))
		b.noWrites()

		repository.Reset()
		b.use(data("knative_versions"), strings.Replace(data("knative_versions"), `"this"`, `"again"`, 1))
		b.MustApply()
		requests := repository.Requests()
		slices.Sort(requests)
		// A run of the runner is a plan and an apply; it is the plan that reads.
		same(t, "requests", slices.Compact(requests), "[GET /charts/index.yaml]")
		b.PlanIsEmpty()
		if strings.Contains(fmt.Sprint(values), "canary") {
			t.Errorf("the state holds the password: %v", values)
		}
	})
}

// A repository of one's own choice may be an OCI registry or, by an override, a folder; both say what they have.
func TestKnativeVersionsElsewhere_R11(t *testing.T) {
	t.Parallel()
	archives := operatorArchives(t, "1.20.1", "1.22.0", "1.22.4")
	registry := charts.Registry(t, archives...)
	folder := t.TempDir()
	for _, archive := range archives[:2] {
		content, err := os.ReadFile(archive)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(archive)), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const mirror = "https://charts.example.com/knative"
	b := newBenchOn(t, versionsCluster.get(t), unique("team"), tofutest.Options{}, overriding(mirror, folder))
	for repository, charts := range map[string]map[string]any{
		registry.URL: {"1.22": "1.22.4", "1.20": "1.20.1"},
		mirror:       {"1.22": "1.22.0", "1.20": "1.20.1"},
	} {
		b.use(data("knative_versions", fmt.Sprintf("repository = %q", repository)))
		b.MustApply().NoWarnings(t)
		values := b.data("knative_versions")
		same(t, repository+": versions", values["versions"], "[1.22 1.20]")
		same(t, repository+": charts", values["charts"], charts)
		same(t, repository+": source", values["source"], "index")
	}
}

// Where the repository cannot be read, the table answers, and a warning says why (Y17).
func TestKnativeVersionsOffline_Y17(t *testing.T) {
	t.Parallel()
	for name, repository := range map[string]string{
		"access is denied (403)": answering(t, http.StatusForbidden), "it has no index (404)": answering(t, http.StatusNotFound),
	} {
		b := newBenchOn(t, versionsCluster.get(t), unique("team"), tofutest.Options{}, overriding(knative.OperatorRepository, repository))
		b.use(data("knative_versions"))
		warning := b.MustApply().Warning(t, `^The Knative versions for cluster "shared" are from the table alone$`,
			`^The operator's charts could not be listed, so which of these versions can be installed is not known\. Chart repository "`+repository+`": `+strings.NewReplacer("(", `\(`, ")", `\)`).Replace(name)+`: `)
		if strings.Contains(warning.Detail, "chart.") {
			t.Errorf("this data source has no `chart`: %s", warning.Detail)
		}
		values := b.data("knative_versions")
		same(t, "versions", values["versions"], "[1.23 1.22 1.21 1.20 1.19]")
		same(t, "the rest", fmt.Sprint(values["source"], values["charts"], values["kubernetes_version"]), fmt.Sprint("table", nil, "v1.34.2-gke.100"))
		b.PlanIsEmpty()
	}
}

// A repository that was read decides: without the chart it is an error, and without a version that fits the list is
// empty. The table would offer what cannot be installed (R11).
func TestKnativeVersionsNotThere_R11(t *testing.T) {
	t.Parallel()
	repository := charts.Repository(t, charts.Package(t, paintChart(t, "1.0.0")))
	b := newBenchOn(t, versionsCluster.get(t), unique("team"), tofutest.Options{}, overriding("https://mirror.example.com", t.TempDir()))
	use := func(url string) { b.use(data("knative_versions", fmt.Sprintf("repository = %q", url))) }
	use(repository.URL)
	b.Plan().Error(t, `^Chart repository "`+repository.URL+`" has no chart of Knative's operator$`, `the chart "knative-operator" is not there\. Set repository to one that has the chart, or leave it out for https://knative\.github\.io/operator\.`)
	use("https://mirror.example.com")
	b.Plan().Error(t, `^Chart "knative-operator": it is not in the folder that overrides its repository$`, `neither an archive "knative-operator-<version>\.tgz" nor`)

	for _, archive := range operatorArchives(t, "1.24.0", "1.23.0-rc.1") {
		repository.Add(t, archive)
	}
	use(repository.URL)
	b.MustApply().Warning(t, `^No Knative version is on offer for cluster "shared"$`,
		`^Kubernetes 1\.34 supports 1\.23, 1\.22, 1\.21, 1\.20, 1\.19, and `+repository.URL+` has these charts of the operator: 1\.24\.0, 1\.23\.0-rc\.1\. Name a repository`)
	values := b.data("knative_versions")
	same(t, "outputs", fmt.Sprint(values["versions"], values["charts"], values["source"]), fmt.Sprint([]string{}, map[string]string{}, "index"))
}

// apiServer answers what the data source asks of a cluster, as one of a version would that no test can boot any more.
func apiServer(t testing.TB, version string) string {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := fmt.Sprintf(`{"gitVersion": %q}`, version)
		if r.URL.Path != "/version" {
			answer = `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "uid": "7f1c"}}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	return fmt.Sprintf("host = %q\ninsecure = true\ntoken = \"of-nobody\"", server.URL)
}

// The floor under Kubernetes is 1.30 unless min_kubernetes_minor says otherwise (R9). A cluster below it is refused
// before the repository is asked.
func TestKnativeVersionsFloor_R9(t *testing.T) {
	t.Parallel()
	repository := charts.Repository(t, operatorArchives(t, "1.14.0", "1.15.0", "1.16.2", "1.17.0")...)
	w := tofutest.New(t, tofutest.Options{})
	use := func(version string, body ...string) {
		w.Write("main.tf", providerBlock("team", clusters{"old": apiServer(t, version)}, overriding(knative.OperatorRepository, repository.URL))+data("knative_versions", body...))
	}
	use("v1.29.8+k3s1")
	w.Plan().Error(t, `^Kubernetes 1\.29 is too old for Knative$`,
		`^refusing: the cluster runs Kubernetes 1\.29, and min_kubernetes_minor = 30 accepts 1\.30 and newer\. Upgrade the cluster, or set min_kubernetes_minor to 29\. Nothing was applied\.$`)
	use("v1.30.2", "min_kubernetes_minor = 31")
	w.Plan().Error(t, `^Kubernetes 1\.30 is too old for Knative$`, `min_kubernetes_minor = 31 accepts 1\.31`)
	same(t, "requests", repository.Requests(), []string{})
	use("v1.30.0")
	w.MustApply()
	same(t, "on 1.30", w.Resource("data.berth_knative_versions.this")["versions"], "[1.17 1.16 1.15 1.14]")
	use("v1.29.8+k3s1", "min_kubernetes_minor = 29")
	w.MustApply()
	same(t, "on 1.29", w.Resource("data.berth_knative_versions.this")["versions"], "[1.16 1.15 1.14]")
}

// What is not known yet is not asked for: neither of the cluster (X2, promise 2), nor of the repository that an unknown
// override may replace. The outputs are null, and the next run answers.
func TestKnativeVersionsUnknown(t *testing.T) {
	t.Parallel()
	upstream := charts.Repository(t, operatorArchives(t, "1.22.0")...)
	mirror := charts.Repository(t, operatorArchives(t, "1.21.0")...)
	entry := byPath(t, versionsCluster.get(t).AdminKubeconfig())
	later := func(value string) string {
		return fmt.Sprintf("resource \"terraform_data\" \"later\" {\ninput = %q\n}\n", value)
	}
	asked := data("knative_versions", fmt.Sprintf("repository = %q", upstream.URL))
	outputs := func(w *tofutest.Workspace) string {
		values := w.Resource("data.berth_knative_versions.this")
		return fmt.Sprint(values["versions"], values["charts"], values["source"], values["kubernetes_version"])
	}

	w := tofutest.New(t, tofutest.Options{})
	w.Write("main.tf", providerBlock(unique("team"), clusters{"new": "kubeconfig = terraform_data.later.output"})+later(versionsCluster.get(t).AdminKubeconfig().Content())+asked)
	w.MustApply().Warning(t, `^Data source berth_knative_versions on cluster "new" was not read$`, `Not looked at: the version of Kubernetes, and the versions of Knative that it supports\.`)
	same(t, "requests while the cluster is not known", upstream.Requests(), []string{})
	same(t, "outputs", outputs(w), fmt.Sprint(nil, nil, nil, nil))
	w.MustApply()
	same(t, "outputs", outputs(w), fmt.Sprint([]string{"1.22"}, map[string]string{"1.22": "1.22.0"}, "index", "v1.34.2-gke.100"))

	upstream.Reset()
	w = tofutest.New(t, tofutest.Options{})
	w.Write("main.tf", providerBlock(unique("team"), clusters{"shared": entry}, fmt.Sprintf("charts = {\nrepository_overrides = { %q = terraform_data.later.output }\n}", upstream.URL))+later(mirror.URL)+asked)
	w.MustApply().Warning(t, `^The Knative versions for cluster "shared" are not known yet$`,
		"^Because `charts.repository_overrides` is not known yet, this plan could not ask "+upstream.URL+" for the operator's charts, and `versions`, `charts` and `source` are null\\.")
	same(t, "requests to what may be overridden", upstream.Requests(), []string{})
	same(t, "outputs", outputs(w), fmt.Sprint(nil, nil, nil, "v1.34.2-gke.100"))
	w.MustApply().NoWarnings(t)
	same(t, "outputs", outputs(w), fmt.Sprint([]string{"1.21"}, map[string]string{"1.21": "1.21.0"}, "index", "v1.34.2-gke.100"))
}

// What a configuration can never mean is refused at validate, and a password is in no message (X9).
func TestKnativeVersionsValidators(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, versionsCluster.get(t), unique("team"), tofutest.Options{})
	refusals := map[string]string{
		"ftp://charts.example.com":              `"ftp://charts\.example\.com" is neither https:// nor oci://.* goes into the provider's charts\.repository_overrides`,
		"./charts":                              `is neither https:// nor oci://`,
		"https://me:pa55word@example.com":       `"https://example\.com" has a user name or password in it`,
		"https://charts.example.com/index.yaml": `Leave index\.yaml out`,
	}
	for _, url := range slices.Sorted(maps.Keys(refusals)) {
		b.use(data("knative_versions", fmt.Sprintf("repository = %q", url)))
		found := b.Validate().Error(t, "^`repository` is not valid$", refusals[url])
		if strings.Contains(found.Summary+found.Detail, "pa55word") {
			t.Errorf("the password is shown: %s", found)
		}
	}
	b.use(data("knative_versions", "min_kubernetes_minor = 0"))
	b.Validate().Error(t, "Invalid Attribute Value", "min_kubernetes_minor value must be at least 1")
	same(t, "requests", requestLines(b.proxy), "")
}
