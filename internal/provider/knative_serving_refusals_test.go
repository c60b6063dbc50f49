package provider_test

import (
	"fmt"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
	"github.com/berthdev/terraform-provider-berth/internal/knative"
)

// What a value can never be is refused before anything is asked of a cluster (R33, R76).
func TestKnativeServingValidators_R33_R76(t *testing.T) {
	t.Parallel()
	b := newBenchOn(t, versionsCluster.get(t), unique("team"), tofutest.Options{})
	for argument, detail := range map[string]string{
		`version = "1.15.2"`:                       `is not a minor version: write major\.minor, such as .1\.15., without a patch`,
		`version = "latest"`:                       `is not a minor version`,
		`version = "v1.15"`:                        `is not a minor version`,
		`operator = { chart_version = ">= 1.15" }`: `is not the exact version of a chart, such as .1\.15\.2.\. A range is refused`,
		`ingress = { trusted_ips = ["10.0.0.7"] }`: `is not a network in CIDR notation: write one such as .10\.0\.0\.0/24.`,
		`ingress = { address_timeout = "soon" }`:   `is not a length of time above zero`,
		`ingress = { address_timeout = "0s" }`:     `is not a length of time above zero`,
		`namespace = "Knative"`:                    `lower-case|lower case`,
		`crds_source = ""`:                         `at least 1`,
		`min_kubernetes_minor = 0`:                 `at least 1`,
	} {
		b.use(fmt.Sprintf("resource \"berth_knative_serving\" \"this\" {\n%s\n}\n", argument))
		b.Validate().Error(t, "", detail)
	}
}

// What the cluster cannot run, or the repositories do not have, is refused at plan with what would work, and nothing is
// written (R9 to R13, R24, R100, X8; promise 1). Kubernetes is 1.34, and the control plane has nothing else.
func TestKnativeServingRefusals_R9_R10_R13(t *testing.T) {
	t.Parallel()
	b := newServingBench(t, versionsCluster.get(t), unique("refused"))
	for _, refused := range []struct{ arguments, summary, detail string }{
		{`min_kubernetes_minor = 35`, `^Kubernetes 1\.34 is too old for Knative$`, `min_kubernetes_minor = 35 accepts 1\.35 and newer\. Upgrade the cluster, or set min_kubernetes_minor to 34\.`},
		{`version = "1.24"`, `^Knative 1\.24 does not run on Kubernetes 1\.34$`, `needs Kubernetes 1\.35 or newer, and the cluster runs 1\.34\. Set version to one that Kubernetes 1\.34 supports: 1\.23, 1\.22, 1\.21, 1\.20, 1\.19\. Or upgrade the cluster to Kubernetes 1\.35\.`},
		{`version = "1.11"`, `^Knative 1\.11 is not known to this release of berth$`, `it knows Knative 1\.12 to 1\.24`},
		{`version = "1.16"`, `^There is no operator for Knative 1\.16$`, `has no chart knative-operator of version 1\.16\. It has charts of 1\.15, 1\.14, 1\.13\. Set version to one of them`},
		{`operator = { chart_version = "1.15.9" }`, `^Chart "knative-operator": version 1\.15\.9 is not in its repository$`, `The nearest: "v1\.15\.2", "v1\.14\.2", "v1\.13\.1"\. Set operator\.chart_version to one of them\.`},
		{"version = \"1.15\"\noperator = { chart_version = \"1.14.2\" }", `^Operator 1\.14\.2 does not install Serving 1\.15$`, `installs its own minor version and the three before it\. Nothing was applied\. Set operator\.chart_version to a 1\.15`},
		{`ingress = { chart_version = "40.9.0" }`, `^Chart "traefik": version 40\.9\.0 is not in its repository$`, `The nearest: "40\.3\.0", "40\.2\.0"\. Set ingress\.chart_version to one of them\.`},
		{`operator = { repository = "http://127.0.0.1:1/charts" }`, `^Chart repository "http://127\.0\.0\.1:1/charts": it refuses the connection$`, `Nothing listens at 127\.0\.0\.1:1\. Correct the host and port in operator\.repository`},
	} {
		b.serve(refused.arguments)
		b.Plan().Error(t, refused.summary, refused.detail)
	}
	// What an apply alone reads is read before its first write.
	for source, detail := range map[string]string{
		"/nowhere/{version}.yaml":                `^/nowhere/1\.15\.0\.yaml: .*no such file or directory\. Correct .crds_source. .*or set it to "operator"`,
		b.operators.URL + "/crds-{version}.yaml": `/crds-1\.15\.0\.yaml: the server answers 404`,
		b.operators.URL + "/index.yaml":          `it holds .*, which is no CRD`,
	} {
		b.use(fmt.Sprintf("resource \"berth_knative_serving\" \"this\" {\ncrds_source = %q\n}\n", source))
		b.Apply().Error(t, `^The CRDs of Serving are not to be had`, detail)
	}
	b.unwritten()
	same(t, "instances in the state", len(b.Instances()), 0)

	b.classesTaken()
}

// classesTaken has both names of an IngressClass be somebody else's (R47).
func (b *servingBench) classesTaken() {
	b.t.Helper()
	for _, name := range []string{"traefik", "traefik-knative"} {
		b.cluster.KubectlInput(b.t, foreignClass(name), "create", "-f", "-")
		b.t.Cleanup(func() { b.kubectl("delete", "ingressclass", name) })
	}
	b.serve()
	b.Plan().Error(b.t, `^Cluster "shared" has no IngressClass left for Traefik$`,
		`IngressClass/traefik \(controller traefik\.io/ingress-controller, kept by k3s/traefik\) and IngressClass/traefik-knative \(.*belong to others.*Nothing was applied`)
	b.serve(`ingress = { enabled = false }`)
	b.MustPlan()
	b.unwritten()
}

// foreignClass is an IngressClass as k3s keeps it.
func foreignClass(name string) string {
	return fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata:
  name: %s
  annotations: { objectset.rio.cattle.io/owner-name: traefik, objectset.rio.cattle.io/owner-namespace: "" }
spec: { controller: traefik.io/ingress-controller }
`, name)
}

// A version that the same apply makes, and a repository that it does, put the checks off: the plan says so, and the apply
// runs them before it writes anything (X1, X2).
func TestKnativeServingUnknown_X1_X2(t *testing.T) {
	t.Parallel()
	b := newServingBench(t, versionsCluster.get(t), unique("unknown"))
	const made = "resource \"terraform_data\" \"made\" {\ninput = \"1.16\"\n}\n"
	b.use(made, fmt.Sprintf("resource \"berth_knative_serving\" \"this\" {\ncrds_source = %q\nversion = terraform_data.made.output\n}\n", b.crds))
	plan := b.MustPlan()
	plan.Warning(t, `^The checks of berth_knative_serving on cluster "shared" are put off to the apply$`, "Because `version` is not known yet, this plan could not settle versions and charts")
	same(t, "what is unknown", row(plan.Change(t, serving).AfterUnknown["version"], plan.Change(t, serving).AfterUnknown["steps"]), row(true, true))
	b.Apply().Error(t, `^There is no operator for Knative 1\.16$`, `It has charts of 1\.15, 1\.14, 1\.13`)
	b.use(made, fmt.Sprintf("resource \"berth_knative_serving\" \"this\" {\ncrds_source = %q\nversion = \"1.15\"\ningress = { trusted_ips = [\"${terraform_data.made.output}.0.0/16\"] }\n}\n", b.crds))
	b.MustPlan("-replace=terraform_data.made").Warning(t, `are put off to the apply$`, "Because `ingress` is not known yet")

	// The same of the provider's own configuration of charts.
	later := newBenchOn(t, b.cluster, unique("unknown"), tofutest.Options{}, fmt.Sprintf("charts = { repository_overrides = { %q = terraform_data.made.output } }", knative.OperatorRepository))
	later.use(made, "resource \"berth_knative_serving\" \"this\" {\n}\n")
	later.MustPlan().Warning(t, `are put off to the apply$`, "Because the provider's .* is not known yet")
	b.unwritten()
}
