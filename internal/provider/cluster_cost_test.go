package provider_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// What a plan without a change asks of 50 clusters that are registered with one Argo CD: the management cluster one list
// for each use of a kind (the Secrets that Argo CD reads as clusters, and those that are ours), and each workload cluster
// who it is, its version and its nodes. An access adds one list of each of its kinds.
var (
	ofManagement = map[string]int{"get namespaces": 1, "list secrets": 2, "list applications.argoproj.io": 1}
	ofEntry      = map[string]int{"get namespaces": 1, "get /version": 1, "list nodes": 1}
	ofAccess     = plus(ofEntry, map[string]int{
		"list serviceaccounts": 1, "list secrets": 1,
		"list clusterrolebindings.rbac.authorization.k8s.io": 1, "list clusterroles.rbac.authorization.k8s.io": 1,
	})
)

// plus adds up requests.
func plus(all ...map[string]int) map[string]int {
	sum := map[string]int{}
	for _, one := range all {
		for key, n := range one {
			sum[key] += n
		}
	}
	return sum
}

// Fifty registered clusters, five of them out of reach, under on_unreachable = "warn": a plan dials each of the five once,
// asks the others and the management cluster what it would ask without them, over one connection each, and says of each of
// the five that it is not connected. What changes is the one registration that somebody has changed (I101; promises 11 and
// 12 of the design).
func TestCostOfFiftyClusters(t *testing.T) {
	t.Parallel()
	m := newManyClusters(t, 50)
	m.Write("main.tf", m.provider()+m.resources())
	m.MustApply().NoWarnings(t)

	m.reset()
	m.PlanIsEmpty().NoWarnings(t)
	m.asked(t, "the management cluster", m.management, ofManagement, 1)
	m.othersAsked(t, nil)

	dead, changed := []int{5, 14, 23, 32, 41}, 7
	ends := m.end(t, dead...)
	ends[0].silent.Store(true)
	secret := "cluster-" + edgeName(changed)
	m.mgmt.Kubectl(t, "-n", "argocd", "label", "secret", secret, "tier=core", "--overwrite")
	versions := m.versions(t)
	dialledOnce := func(what string) {
		t.Helper()
		for i, end := range ends {
			same(t, what+" dials "+edgeName(dead[i]), end.dials.Swap(0), 1)
		}
	}

	m.reset()
	plan := m.MustPlan()
	dialledOnce("a plan")
	same(t, "changes", len(plan.Changes), 1)
	change := plan.Change(t, registrationOf(changed))
	same(t, "the change", row(change.Actions, change.Before["drift"]), row([]string{"update"}, map[string]any{"Secret/argocd/" + secret + " metadata.labels.tier": "core → edge"}))
	warnings := len(dead)
	for _, i := range dead {
		plan.Warning(t, `^Cluster "`+edgeName(i)+`" does not answer$`, "What Argo CD has of it was read from mgmt; its credential, version and nodes were not")
		if hasAccess(i) {
			warnings++
			plan.Warning(t, `^berth_cluster_access "kube-system/`+edgeName(i)+`" on cluster "`+edgeName(i)+`" was not refreshed$`, `on_unreachable is "warn": the state is kept as it was`)
		}
	}
	same(t, "warnings", len(plan.Warnings()), warnings)
	var seen []string
	for _, one := range plan.Drift {
		if conditionOf(one.After, "Connected") == "False Unreachable" {
			seen = append(seen, one.Address)
		}
	}
	slices.Sort(seen)
	var want []string
	for _, i := range dead {
		want = append(want, registrationOf(i))
	}
	slices.Sort(want)
	same(t, "not connected any more", seen, want)
	// Beside what all cost, the one that changes has its drift confirmed and is checked.
	m.asked(t, "the management cluster", m.management, plus(ofManagement, map[string]int{"patch secrets": 1, "get appprojects.argoproj.io": 1, "get namespaces": 1, review: 11}), 1)
	m.asked(t, edgeName(changed), m.workloads[changed], plus(ofAccess, map[string]int{"list nodes": 1, "get serviceaccounts": 1, review: 6}), 1)
	m.othersAsked(t, append(dead, changed))
	m.nothingWritten(t, nil)

	m.reset()
	m.MustApply()
	dialledOnce("an apply")
	m.othersAsked(t, append(dead, changed))
	m.nothingWritten(t, []string{"applications argocd/registry-" + edgeName(changed), "secrets argocd/" + secret, "secrets berth-clusters/" + secret + "-kubeconfig"})
	same(t, "the label", secretOn(t, m.mgmt, "argocd", secret).Labels["tier"], "edge")
	for name, version := range m.versions(t) {
		if name != "argocd/"+secret && name != "berth-clusters/"+secret+"-kubeconfig" {
			same(t, "the version of Secret "+name, version, versions[name])
		}
	}
	for _, i := range dead {
		same(t, edgeName(i)+" in the state", conditionOf(m.Resource(registrationOf(i)), "Connected"), "False Unreachable")
	}
	same(t, edgeName(changed)+" in the state", conditionOf(m.Resource(registrationOf(changed)), "Connected"), "True Reached")

	m.reset()
	same(t, "drift after the apply", len(m.PlanIsEmpty().Drift), 0)
	dialledOnce("a plan after the apply")
	m.asked(t, "the management cluster", m.management, ofManagement, 1)
	m.othersAsked(t, dead)
}

// conditionOf is the status and the reason of a condition in the values of a resource.
func conditionOf(values map[string]any, name string) string {
	conditions, _ := values["conditions"].(map[string]any)
	one, _ := conditions[name].(map[string]any)
	return row(one["status"], one["reason"])
}

func (m *manyClusters) reset() {
	m.management.Reset()
	for _, proxy := range m.workloads {
		proxy.Reset()
	}
}

// asked fails the test unless exactly these requests have come over so many connections since the last reset.
func (m *manyClusters) asked(t *testing.T, what string, proxy *fleettest.Proxy, want map[string]int, connections int) {
	t.Helper()
	if got := proxy.Counts(); !maps.Equal(got, want) {
		t.Errorf("requests to %s:\n got %v\nwant %v\nthe request log:\n%v", what, got, want, requestLines(proxy))
	}
	same(t, "connections to "+what, proxy.Connections(), connections)
}

// othersAsked fails the test unless each workload cluster but these was asked what a plan without a change asks.
func (m *manyClusters) othersAsked(t *testing.T, but []int) {
	t.Helper()
	for i, proxy := range m.workloads {
		if slices.Contains(but, i) {
			continue
		}
		want := ofEntry
		if hasAccess(i) {
			want = ofAccess
		}
		m.asked(t, edgeName(i), proxy, want, 1)
	}
}

// nothingWritten fails the test where something was written since the last reset but these objects of the management
// cluster, all of them.
func (m *manyClusters) nothingWritten(t *testing.T, but []string) {
	t.Helper()
	var written []string
	for _, request := range m.management.Requests() {
		if request.IsWrite() {
			written = append(written, request.Resource+" "+request.Namespace+"/"+request.Name)
		}
	}
	slices.Sort(written)
	same(t, "objects written on the management cluster", slices.Compact(written), but)
	for i, proxy := range m.workloads {
		same(t, "writes on "+edgeName(i), proxy.Writes(), 0)
	}
}

// versions are the resource versions of all Secrets of the management cluster.
func (m *manyClusters) versions(t *testing.T) map[string]string {
	t.Helper()
	all, err := m.mgmt.Client().CoreV1().Secrets(corev1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, one := range all.Items {
		versions[fmt.Sprintf("%s/%s", one.Namespace, one.Name)] = one.ResourceVersion
	}
	return versions
}
