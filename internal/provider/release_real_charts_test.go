package provider_test

import (
	"strings"
	"testing"
	"time"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// The rhythm of three charts as their projects publish them. Kueue comes last: as long as its aggregated API does not
// answer, the cluster finishes the deletion of no namespace.
func TestReleaseRhythmOfRealCharts(t *testing.T) {
	t.Parallel()
	c := fleettest.NewCluster(t, charts.Cluster("shared"))
	kueue, jobset, knative := realRhythms(t)
	for _, one := range []rhythm{jobset, knative, kueue} {
		t.Run(one.name, func(t *testing.T) {
			one.lives(newBenchOn(t, c, unique("team"), tofutest.Options{}), tofutest.Tofu)
		})
	}
}

// engineWrites is what the components of the real charts write into objects of their releases once they run: who, as
// what the API server knows them, and how. Source: the certificate rotation in each component.
var engineWrites = []struct{ manager, namespace, object, patch string }{
	{"kueue", "kueue", "secret/kueue-webhook-server-cert", `{"data":{"ca.crt":"Q0E=","tls.crt":"Q0E=","tls.key":"S0VZ"}}`},
	{"kueue", "", "validatingwebhookconfiguration/kueue-validating-webhook-configuration", caBundlePatch},
	{"kueue", "", "mutatingwebhookconfiguration/kueue-mutating-webhook-configuration", caBundlePatch},
	{"manager", "jobset", "secret/jobset-webhook-server-cert", `{"data":{"ca.crt":"Q0E=","tls.crt":"Q0E=","tls.key":"S0VZ"}}`},
	{"manager", "", "validatingwebhookconfiguration/jobset-validating-webhook-configuration", caBundlePatch},
	{"manager", "", "mutatingwebhookconfiguration/jobset-mutating-webhook-configuration", caBundlePatch},
	{"webhook", "knative-operator", "secret/operator-webhook-certs", `{"data":{"ca-cert.pem":"Q0E=","server-cert.pem":"Q0E=","server-key.pem":"S0VZ"}}`},
}

// caBundlePatch sets the authority of a configuration's first webhook.
const caBundlePatch = `[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"Q0E="}]`

// There is no false drift on any chart: not while controllers work on what was installed, nor after an upgrade that
// changes no manifest (promises 6 and 9).
func TestReleaseNoFalseDrift(t *testing.T) {
	t.Parallel()
	c := fleettest.NewCluster(t, charts.Cluster("shared"))
	b := newBenchOn(t, c, "team", tofutest.Options{})
	kueue, jobset, knative := realRhythms(t)
	// Kueue goes first: as long as its aggregated API is there and silent, nothing is known of what is in a namespace.
	kueue.body = append(kueue.body, "depends_on = [berth_release.standin, berth_release.jobset, berth_release.knative-operator]")
	all := []rhythm{standinRhythm(t, "standin"), kueue, jobset, knative}
	use := func(more map[string]string) {
		t.Helper()
		var blocks []string
		for _, one := range all {
			blocks = append(blocks, one.block(one.name, more[one.name]))
		}
		b.use(blocks...)
	}
	use(nil)
	b.MustApply().NoWarnings(t)

	b.proxy.Reset()
	plans := 0
	for end := time.Now().Add(time.Minute); time.Now().Before(end); plans++ {
		b.PlanIsEmpty().NoWarnings(t)
		if plans > 0 {
			continue
		}
		// From the second plan on the components are at work, too.
		for _, write := range engineWrites {
			kind := "--type=merge"
			if strings.HasPrefix(write.patch, "[") {
				kind = "--type=json"
			}
			args := []string{"patch", write.object, kind, "-p", write.patch, "--field-manager=" + write.manager}
			if write.namespace != "" {
				args = append(args, "-n", write.namespace)
			}
			b.kubectl(args...)
		}
	}
	same(t, "writes of the plans", b.proxy.Writes(), 0)
	if plans < 2 {
		t.Errorf("there was time for %d plans", plans)
	}
	scaled := c.Kubectl(t, "-n", "standin", "get", "deployment", "standin-worker", "-o", "jsonpath={.spec.replicas}")
	same(t, "replicas, by the autoscaler", scaled, "2")

	// The same values as the charts have.
	use(map[string]string{
		"standin": `values = ["replicas: 2"]`, "kueue": `values = ["controllerManager: {replicas: 1}"]`,
		"jobset": `values = ["controller: {replicas: 1}"]`, "knative-operator": `values = ["knative_operator: {kubernetes_min_version: v1.25.0}"]`,
	})
	upgrade := b.MustPlan()
	upgrade.NoWarnings(t)
	same(t, "releases that are upgraded", len(upgrade.Changes), len(all))
	for _, change := range upgrade.Changes {
		same(t, change.Address+": changes", change.After["changes"], map[string]any{})
	}
	b.MustApply().NoWarnings(t)
	for _, one := range all {
		state := b.Resource("berth_release." + one.name)
		same(t, one.name, row(state["revision"], state["status"], state["drift"], state["changes"]), row(2, "deployed", map[string]any{}, map[string]any{}))
	}
	b.PlanIsEmpty().NoWarnings(t)
	same(t, "the certificate of the engine", c.Kubectl(t, "-n", "kueue", "get", "secret", "kueue-webhook-server-cert", "-o", `jsonpath={.data.tls\.crt}`), "Q0E=")

	b.MustDestroy()
	left := c.Kubectl(t, "get", "clusterroles,clusterrolebindings,crds,apiservices,validatingwebhookconfigurations,mutatingwebhookconfigurations,priorityclasses,ingressclasses",
		"-l", "app.kubernetes.io/managed-by=Helm", "-o", "name")
	same(t, "what is left for the whole cluster", left, "")
}
