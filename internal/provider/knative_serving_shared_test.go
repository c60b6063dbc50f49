package provider_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/knative"
)

// A Serving that regions share, on a cluster like k3s without a load balancer: its version is chosen once and kept (R11,
// R13, R76, R77); the foreign IngressClass is left alone (R47); a missing address is a warning (R25); what regions contribute
// never makes a diff and is never lowered (R79, R80, R108, Y8); an upgrade is for all of them, and leaves one stored
// version in each CRD (R100 to R103, X8); and a destroy leaves what others need (R104 to R106, X7).
func TestKnativeServingShared_R11_R25_R47_R79_R80_R103_R104_R105(t *testing.T) {
	t.Parallel()
	b := newServingBench(t, servingCluster(t, fleettest.LoadBalancerNone), unique("sharing"), "1.13.1", "1.14.2")
	b.cluster.KubectlInput(t, foreignClass("traefik"), "create", "-f", "-")
	theirs := b.kubectlGet("ingressclass", "traefik", "{.metadata.resourceVersion}")
	const quick = `ingress = { address_timeout = "2s" }`

	b.serve(quick)
	b.MustPlan().Warning(t, `^IngressClass "traefik" on cluster "shared" is somebody else's$`, `It is left alone\. Traefik of Serving serves the class "traefik-knative"`)
	b.MustApply().Warning(t, `^Service/knative-serving/traefik has no external address$`,
		`no load balancer has given it an external address`, `The cluster needs a controller that serves Services of type LoadBalancer`, `service_annotations`)
	state := b.Resource(serving)
	same(t, "outputs", row(state["version"], state["operator_version"], state["ingress_class"], state["external_address"]), "1.14 1.14.2 traefik-knative <nil>")
	b.publish("1.15.2")
	b.PlanIsEmpty()
	b.serve(quick, `version = "1.16"`)
	b.Plan().Error(t, `^Knative Serving is not upgraded from 1\.14 to 1\.16$`, `one minor version at a time\. To get to 1\.16: apply 1\.15, then 1\.16\.`)
	b.serve(quick, `version = "1.13"`)
	b.Plan().Error(t, `^Knative Serving is not downgraded from 1\.14 to 1\.13$`, `Set version to 1\.14, or to 1\.15 after it\.`)

	b.serve(quick)
	b.regionsCome()
	b.upgradeOfAll(quick)
	b.regionsGo(quick)
	b.othersStay(quick)
	same(t, "the foreign IngressClass", b.kubectlGet("ingressclass", "traefik", "{.metadata.resourceVersion}"), theirs)
	b.withoutIngress()
}

// kubectlGet reads a field of an object past the proxy.
func (b *bench) kubectlGet(kind, name, path string, more ...string) string {
	b.t.Helper()
	return b.cluster.Kubectl(b.t, append([]string{"get", kind, name, "-o", "jsonpath=" + path}, more...)...)
}

// The regions of a test, and what each wants.
var regionParts = map[string]knative.Part{
	"regions/region.eu-1": {RequestTimeout: 900, Domains: map[string]string{"eu-1.example.com": ""}},
	"regions/region.eu-2": {RequestTimeout: 300, Domains: map[string]string{"eu-2.example.com": "selector:\n  region: eu-2\n"}},
}

// atOnce does something for every region at the same moment, each as a process of its own, and applies what follows.
func (b *servingBench) atOnce(do func(c *cluster.Cluster, region string, part knative.Part) error) {
	b.t.Helper()
	var regions sync.WaitGroup
	for region, part := range regionParts {
		c := b.library()
		regions.Go(func() {
			err := do(c, region, part)
			if err == nil {
				_, err = knative.ApplyShared(b.t.Context(), c, "knative-serving", "knative-serving")
			}
			if err != nil {
				b.t.Error(err)
			}
		})
	}
	regions.Wait()
}

// regionsCome has two regions contribute at once: nothing of either is lost, and the plan of Serving stays empty.
func (b *servingBench) regionsCome() {
	b.t.Helper()
	b.atOnce(func(c *cluster.Cluster, region string, part knative.Part) error {
		return knative.Contribute(b.t.Context(), c, "knative-serving", region, part)
	})
	same(b.t, "what the regions share", fieldOf(b.knativeServing(), "spec", "config"), map[string]any{
		"network":  map[string]any{"ingress-class": "traefik.ingress.networking.knative.dev"},
		"defaults": map[string]any{"max-revision-timeout-seconds": "900"},
		"domain":   map[string]any{"eu-1.example.com": "", "eu-2.example.com": "selector:\n  region: eu-2\n"},
	})
	b.PlanIsEmpty()
	b.Refresh()
	same(b.t, "regions", b.Resource(serving)["regions"], "[regions/region.eu-1 regions/region.eu-2]")
	b.PlanIsEmpty()
	b.Destroy().Error(b.t, `^2 region\(s\) still use Serving on cluster "shared"$`,
		`^refusing: regions/region\.eu-1, regions/region\.eu-2 share Serving on serving\. Nothing was deleted\. Destroy them first, or set force_destroy = true\.`)
}

// upgradeOfAll upgrades Serving to 1.15 while regions share it, with a CRD that says of a version which it no longer has
// in 1.15 that it may be stored: it could not be moved as long as it says so.
func (b *servingBench) upgradeOfAll(arguments string) {
	b.t.Helper()
	const images = "images.caching.internal.knative.dev"
	crd, err := b.cluster.Dynamic().Resource(knative.CRDs.GVR()).Get(b.t.Context(), images, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	former, _ := json.Marshal(versions[0])
	var old map[string]any
	_ = json.Unmarshal(former, &old) // of what was marshalled just now
	old["name"], old["served"], old["storage"] = "v1alpha0", false, false
	patch, _ := json.Marshal([]map[string]any{{"op": "add", "path": "/spec/versions/-", "value": old}})
	b.kubectl("patch", "crd", images, "--type=json", "-p", string(patch))
	b.kubectl("patch", "crd", images, "--subresource=status", "--type=merge", "-p", `{"status":{"storedVersions":["v1alpha0","v1alpha1"]}}`)

	b.serve(arguments, `version = "1.15"`)
	b.MustPlan().Warning(b.t, `^Serving on cluster "shared" is upgraded for all its regions$`, `It moves to 1\.15 for regions/region\.eu-1, regions/region\.eu-2\. Their Knative Services keep running\.`)
	b.MustApply()
	b.PlanIsEmpty()
	same(b.t, "installed", row(b.Resource(serving)["installed_version"], b.Resource(serving)["operator_version"]), "1.15.2 1.15.2")
	all, err := b.cluster.Dynamic().Resource(knative.CRDs.GVR()).List(b.t.Context(), metav1.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	moved := 0
	for _, crd := range all.Items {
		if group := fieldOf(&crd, "spec", "group"); !strings.HasSuffix(fmt.Sprint(group), ".knative.dev") || group == "operator.knative.dev" {
			continue
		}
		moved++
		stored, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
		if len(stored) != 1 || stored[0] == "v1alpha0" {
			b.t.Errorf("%s stores %v", crd.GetName(), stored)
		}
	}
	same(b.t, "CRDs of Serving", moved, 12)
	same(b.t, "the timeout of Traefik's entry points", strings.Contains(b.kubectlGet("deployment", "traefik", "{.spec.template.spec.containers[0].args}", "-n", "knative-serving"),
		"--entryPoints.web.transport.respondingTimeouts.readTimeout=910s"), true)
}

// regionsGo has both leave at once: their domains go, and the maximum stays (R80).
func (b *servingBench) regionsGo(arguments string) {
	b.t.Helper()
	b.atOnce(func(c *cluster.Cluster, region string, _ knative.Part) error {
		return knative.Withdraw(b.t.Context(), c, "knative-serving", region)
	})
	b.serve(arguments, `version = "1.15"`)
	b.PlanIsEmpty()
	same(b.t, "what stays of the regions", row(fieldOf(b.knativeServing(), "spec", "config", "defaults"), fieldOf(b.knativeServing(), "spec", "config", "domain")),
		"map[max-revision-timeout-seconds:900] map[]")
}

// othersStay destroys Serving by force while something runs on it, somebody else's Ingress is served by its Traefik, and a
// KnativeEventing needs its operator.
func (b *servingBench) othersStay(arguments string) {
	b.t.Helper()
	b.service("hello")
	b.cluster.KubectlInput(b.t, `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: { name: shop, namespace: default }
spec:
  ingressClassName: traefik-knative
  defaultBackend: { service: { name: shop, port: { number: 80 } } }
---
apiVersion: operator.knative.dev/v1beta1
kind: KnativeEventing
metadata: { name: knative-eventing, namespace: default }
spec: { version: "1.99" }
`, "create", "-f", "-")
	operator, traefik := b.deploymentUID("knative-operator", "knative-operator"), b.deploymentUID("knative-serving", "traefik")
	b.serve(arguments, `version = "1.15"`, "force_destroy = true")
	b.MustApply()
	result := b.MustDestroy()
	result.Warning(b.t, `^Traefik stays on cluster "shared"$`, `^It serves Ingress/default/shop, which are not Serving's\. .*as remove_traefik = true would have\.`)
	result.Warning(b.t, `^The Knative operator stays on cluster "shared"$`, `^It is needed by KnativeEventing/default/knative-eventing: its chart holds their CRD`)
	same(b.t, "what stays", row(b.deploymentUID("knative-operator", "knative-operator"), b.deploymentUID("knative-serving", "traefik"), b.kubectlGet("knativeeventing", "knative-eventing", "{.metadata.name}", "-n", "default")),
		row(operator, traefik, "knative-eventing"))
	if live := b.knativeServing(); live != nil {
		b.t.Errorf("the KnativeServing is still there: %v", live.Object)
	}
	if crds := b.cluster.Kubectl(b.t, "get", "crds", "-o", "name"); strings.Contains(crds, "serving.knative.dev") || strings.Contains(crds, "internal.knative.dev") {
		b.t.Errorf("CRDs of Serving, and the Knative Service with them, are still there:\n%s", crds)
	}
	same(b.t, "what carries a mark", everything(b.t, b.cluster, func(object metav1.Object) bool {
		return anyMark(object) && !strings.HasSuffix(object.GetName(), ".traefik.io")
	}), []string{})
}

// withoutIngress installs Serving anew on what is left, without Traefik: its namespace is created for it. Traefik comes and
// goes later, and Serving stays as it is.
func (b *servingBench) withoutIngress() {
	b.t.Helper()
	b.kubectl("delete", "ingress", "shop", "-n", "default")
	b.kubectl("delete", "namespace", "knative-serving")
	b.kubectl("delete", "clusterrole,clusterrolebinding", "traefik-knative-serving")
	b.kubectl("delete", "ingressclass", "traefik-knative")
	arguments := []string{"adopt = true", `version = "1.15"`}
	b.serve(append(arguments, `ingress = { enabled = false }`)...)
	b.MustApply()
	b.PlanIsEmpty()
	uid, namespace := b.knativeServing().GetUID(), b.mustNamespace("knative-serving").UID
	same(b.t, "outputs", row(b.Resource(serving)["adopted"], b.Resource(serving)["ingress_class"], b.Resource(serving)["external_address"]), "[operator] <nil> <nil>")
	for _, ingress := range []string{`ingress = { address_timeout = "2s" }`, `ingress = { enabled = false }`} {
		b.serve(append(arguments, ingress)...)
		b.MustApply()
		b.PlanIsEmpty()
		same(b.t, "Serving with "+ingress, row(b.knativeServing().GetUID(), b.mustNamespace("knative-serving").UID, b.mustNamespace("knative-serving").DeletionTimestamp), row(uid, namespace, nil))
	}
	b.MustDestroy()
	if left := b.namespace("knative-serving"); left != nil {
		b.t.Errorf("the namespace that was created for Serving is still there: %v", left)
	}
}
