package release

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// TestMended has a test for each fault that releases once had, all on one control plane, each in a namespace and an API
// group of its own.
func TestMended(t *testing.T) {
	plane := fleettest.NewCluster(t, fleettest.ClusterSpec{Name: "mended", ControlPlaneOnly: true, AdmissionWebhooks: true})
	for name, test := range map[string]func(*bench){
		"hook-crd": testHookCRD, "kept-objects": testKeptObjects, "adopted-crd": testAdoptedCRD, "webhook": testBrokenWebhook,
		"adopted-install": testAdoptedInstall, "adopted-upgrade": testAdoptedUpgrade,
		"long-secrets": testLongSecrets, "other-tool": testOtherTool, "secret-since": testSecretSince,
		"orphans": testOrphans, "orphans-at-first": testOrphansAtFirst, "superseded": testAllSuperseded, "renamed": testRenamed,
		"refused-takeover": testRefusedTakeover, "empty-manifest": testEmptyManifest,
		"exempt": testExemptFromWait, "going": testGoing, "hooks-once": testHooksOnce,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBenchOn(t, plane, name, small(t, "1.0.0", nil))
			// Without controllers no namespace ever goes.
			b.spec.CreateNamespace = false
			plane.Kubectl(t, "create", "namespace", name)
			test(b)
		})
	}
}

// broken is a Service that the API server refuses, and that is written after the ConfigMaps.
const broken = "apiVersion: v1\nkind: Service\nmetadata: {name: broken}\nspec: {ports: [{port: 70000}]}\n"

// chart loads a small chart with what files adds to it.
func (b *bench) chart(version string, files map[string]string) string {
	b.t.Helper()
	folder := small(b.t, version, files)
	b.load(folder)
	return folder
}

// brokenChart loads a chart that cannot be installed as a whole: before that is known, it has made its ConfigMaps.
func (b *bench) brokenChart(version string, names ...string) {
	b.t.Helper()
	files := map[string]string{"templates/broken.yaml": broken}
	for _, name := range names {
		files["templates/"+name+".yaml"] = configMap(name, "")
	}
	b.chart(version, files)
}

// configMap is a manifest with annotations as YAML's {a: b}.
func configMap(name, annotations string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, annotations: {%s}}\ndata: {a: b}\n", name, annotations)
}

// applyFails applies what the cluster does not take.
func (b *bench) applyFails(texts ...string) {
	b.t.Helper()
	_, _, err := Apply(b.context(), b.afresh(), b.spec, b.terms)
	refused(b.t, err, "", texts...)
}

// planRemoval plans to take the release away.
func (b *bench) planRemoval(removal Removal) []Warning {
	b.t.Helper()
	warnings, err := PlanRemoval(b.context(), b.afresh(), b.spec.Ref, removal)
	if err != nil {
		b.t.Fatal(err)
	}
	return warnings
}

// helm is Helm itself, as another tool runs it.
func (b *bench) helm() *action.Configuration {
	b.t.Helper()
	flags := genericclioptions.NewConfigFlags(true)
	kubeconfig, namespace := b.plane.Kubeconfig(), b.spec.Namespace
	flags.KubeConfig, flags.Namespace = &kubeconfig, &namespace
	config := &action.Configuration{}
	if err := config.Init(flags, namespace, "secret", func(string, ...any) {}); err != nil {
		b.t.Fatal(err)
	}
	return config
}

// helmInstall installs the chart with Helm itself.
func (b *bench) helmInstall() error {
	b.t.Helper()
	ch, err := fresh(b.spec.Chart.Chart)
	if err != nil {
		b.t.Fatal(err)
	}
	install := action.NewInstall(b.helm())
	install.ReleaseName, install.Namespace, install.Timeout = b.spec.Name, b.spec.Namespace, time.Minute
	_, err = install.Run(ch, deepCopy(b.spec.Values))
	return err
}

// names lists the objects of a kind in the release's namespace.
func (b *bench) names(resource string) string {
	b.t.Helper()
	return strings.Join(strings.Fields(b.kubectl("get", resource, "-o", "jsonpath={.items[*].metadata.name}")), " ")
}

func (b *bench) uid(kind, name string) string {
	b.t.Helper()
	return b.kubectl("get", kind, name, "-o", "jsonpath={.metadata.uid}")
}

// label is a label of the Secret of a revision.
func (b *bench) label(revision int, name string) string {
	b.t.Helper()
	return b.kubectl("get", "secret", secretName(b.spec.Name, revision), "-o", "jsonpath={.metadata.labels."+strings.ReplaceAll(name, ".", `\.`)+"}")
}

// within is a context that ends early, for what may be waited for in vain.
func (b *bench) within(limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(b.context(), limit)
	b.t.Cleanup(cancel)
	return ctx
}

// same compares two maps.
func (b *bench) same(what string, got, want map[string]string) {
	b.t.Helper()
	if !maps.Equal(got, want) {
		b.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// boats is a CRD of a test: as YAML, with fields in its spec.
func boats(group, annotations string, fields ...string) string {
	crd := crdYAML("boat", group, v("!v1", fields...))
	return strings.Replace(crd, "annotations: {", "annotations: {"+annotations, 1)
}

// established waits until objects of a CRD can be made.
func (b *bench) established(name string) {
	b.t.Helper()
	b.plane.Kubectl(b.t, "wait", "--for=condition=Established", "crd/"+name)
}

// nothingLeft checks that of a release nothing is left in its namespace.
func (b *bench) nothingLeft() {
	b.t.Helper()
	if left := b.names("configmaps,secrets,services,deployments"); left != "" {
		b.t.Errorf("there is still %s", left)
	}
}
