package preflight

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// resourceQuota is a quota of namespace my-instance; each line is "resource hard used", without used where it is not
// reported.
func resourceQuota(t *testing.T, name string, lines ...string) *corev1.ResourceQuota {
	t.Helper()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "my-instance", Name: name}}
	q.Spec.Hard, q.Status.Used = corev1.ResourceList{}, corev1.ResourceList{}
	for _, line := range lines {
		fields := strings.Fields(line)
		q.Spec.Hard[corev1.ResourceName(fields[0])] = resource.MustParse(fields[1])
		if len(fields) == 3 {
			q.Status.Used[corev1.ResourceName(fields[0])] = resource.MustParse(fields[2])
		}
	}
	return q
}

func scoped(q *corev1.ResourceQuota, scope corev1.ResourceQuotaScope, operator corev1.ScopeSelectorOperator, values ...string) *corev1.ResourceQuota {
	q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{ScopeName: scope, Operator: operator, Values: values}}}
	return q
}

func oneGi() Size { return Size{Memory: resource.MustParse("1Gi"), CPU: resource.MustParse("1")} }

func TestQuotas_J42_X12(t *testing.T) {
	other := resourceQuota(t, "other", "pods 1 1")
	other.Namespace = "elsewhere"
	c := newFake(t, resourceQuota(t, "team-quota", "limits.memory 2560Mi 2Gi", "pods 10 3", "requests.cpu 4"), resourceQuota(t, "a", "limits.cpu 1 1500m"), other)
	quotas, err := Quotas(t.Context(), c, "my-instance")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, quota := range quotas {
		for _, line := range quota.Resources {
			used, headroom := "?", "?"
			if line.Used != nil {
				used, headroom = line.Used.String(), line.Headroom.String()
			}
			lines = append(lines, strings.Join([]string{quota.Name, line.Name, line.Hard.String(), used, headroom}, " "))
		}
	}
	equal(t, lines, []string{
		"a limits.cpu 1 1500m 0",
		"team-quota limits.memory 2560Mi 2Gi 512Mi",
		"team-quota pods 10 3 7",
		"team-quota requests.cpu 4 ? ?",
	})
	equal(t, c.requests, map[string]int{"list resourcequotas": 1})
}

func TestQuotaScopes_J42(t *testing.T) {
	bare := func() *corev1.ResourceQuota { return resourceQuota(t, "q", "pods 1 0") }
	withScopes := func(scopes ...corev1.ResourceQuotaScope) *corev1.ResourceQuota {
		q := bare()
		q.Spec.Scopes = scopes
		return q
	}
	for _, test := range []struct {
		name      string
		quota     *corev1.ResourceQuota
		scopes    []string
		batch, no bool // whether it counts a pod of batch-low, and one of no class
	}{
		{"none", bare(), nil, true, true},
		{"In", scoped(bare(), "PriorityClass", "In", "batch-low", "batch"), []string{"PriorityClass In (batch-low, batch)"}, true, false},
		{"In another", scoped(bare(), "PriorityClass", "In", "critical"), []string{"PriorityClass In (critical)"}, false, false},
		{"NotIn", scoped(bare(), "PriorityClass", "NotIn", "batch-low"), []string{"PriorityClass NotIn (batch-low)"}, false, true},
		{"Exists", scoped(bare(), "PriorityClass", "Exists"), []string{"PriorityClass"}, true, false},
		{"DoesNotExist", scoped(bare(), "PriorityClass", "DoesNotExist"), []string{"PriorityClass DoesNotExist"}, false, true},
		{"scopes PriorityClass", withScopes("PriorityClass"), []string{"PriorityClass"}, true, false},
		{"NotBestEffort and NotTerminating", withScopes("NotBestEffort", "NotTerminating"), []string{"NotBestEffort", "NotTerminating"}, true, true},
		{"BestEffort", withScopes("BestEffort"), []string{"BestEffort"}, false, false},
		{"Terminating", withScopes("Terminating"), []string{"Terminating"}, false, false},
		{"CrossNamespacePodAffinity", withScopes("CrossNamespacePodAffinity"), []string{"CrossNamespacePodAffinity"}, false, false},
		{"all must match", scoped(withScopes("BestEffort"), "PriorityClass", "In", "batch-low"), []string{"BestEffort", "PriorityClass In (batch-low)"}, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			quota := quotaOf(test.quota)
			equal(t, quota.Scopes, test.scopes)
			equal(t, quota.Counts("batch-low"), test.batch)
			equal(t, quota.Counts(""), test.no)
		})
	}
}

func TestCheckQuota_J42(t *testing.T) {
	for _, test := range []struct {
		name    string
		quotas  []runtime.Object
		size    Size
		status  Status
		message string
		remedy  string
	}{
		{"no quota", nil, oneGi(), Pass, `no ResourceQuota of namespace "my-instance" limits size "hold" (memory 1Gi, cpu 1)`, ""},
		{
			"nothing that a size uses",
			[]runtime.Object{resourceQuota(t, "objects", "configmaps 1 1", "requests.storage 1Gi 1Gi")},
			oneGi(), Pass,
			`no ResourceQuota of namespace "my-instance" limits size "hold" (memory 1Gi, cpu 1)`, "",
		},
		{
			"room",
			[]runtime.Object{resourceQuota(t, "team-quota", "limits.memory 10Gi 2Gi", "requests.cpu 4 1", "pods 50 3")},
			oneGi(), Pass,
			`the quota of namespace "my-instance" has room for 3 more of size "hold" (memory 1Gi, cpu 1), by quota "team-quota" requests.cpu`, "",
		},
		{
			"the tightest of several",
			[]runtime.Object{resourceQuota(t, "a", "memory 9Gi 1Gi"), resourceQuota(t, "b", "pods 5 3", "cpu 8 6")},
			oneGi(), Pass,
			`the quota of namespace "my-instance" has room for 2 more of size "hold" (memory 1Gi, cpu 1), by quota "b" cpu, quota "b" pods`, "",
		},
		{
			"fractions",
			[]runtime.Object{resourceQuota(t, "a", "limits.cpu 1 250m")},
			Size{Memory: resource.MustParse("1Gi"), CPU: resource.MustParse("250m")},
			Pass,
			`the quota of namespace "my-instance" has room for 3 more of size "hold" (memory 1Gi, cpu 250m), by quota "a" limits.cpu`, "",
		},
		{
			"huge",
			[]runtime.Object{resourceQuota(t, "a", "memory 7Ei 0")},
			oneGi(), Pass,
			`the quota of namespace "my-instance" has room for 7516192768 more of size "hold" (memory 1Gi, cpu 1), by quota "a" memory`, "",
		},
		{
			"J43's quota",
			[]runtime.Object{resourceQuota(t, "team-quota", "limits.memory 2560Mi 2Gi", "pods 10 10", "limits.cpu 9 1")},
			oneGi(), Warn,
			"size \"hold\" (memory 1Gi, cpu 1) does not fit the quota of namespace \"my-instance\" right now — a pod of it waits until it does:\n" +
				"  quota \"team-quota\" limits.memory: requested 1Gi, used 2Gi, limited 2560Mi (512Mi left)\n" +
				"  quota \"team-quota\" pods: requested 1, used 10, limited 10 (0 left)",
			"Free some of the quota",
		},
		{
			"not reported",
			[]runtime.Object{resourceQuota(t, "team-quota", "limits.memory 10Gi", "pods 10 1")},
			oneGi(), Warn,
			`unknown: whether size "hold" (memory 1Gi, cpu 1) fits the quota of namespace "my-instance": no use is reported yet for quota "team-quota" limits.memory`, "",
		},
		{
			"of another class",
			[]runtime.Object{scoped(resourceQuota(t, "critical", "pods 0 0"), "PriorityClass", "In", "critical")},
			oneGi(), Pass,
			`no ResourceQuota of namespace "my-instance" limits size "hold" (memory 1Gi, cpu 1)`, "",
		},
		{
			"of this class",
			[]runtime.Object{scoped(resourceQuota(t, "batch", "pods 0 0"), "PriorityClass", "In", "batch-low")},
			oneGi(), Warn,
			"size \"hold\" (memory 1Gi, cpu 1) does not fit the quota of namespace \"my-instance\" right now — a pod of it waits until it does:\n" +
				"  quota \"batch\" pods: requested 1, used 0, limited 0 (0 left)", "Free some",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newFake(t, append(test.quotas, namespace("my-instance"))...)
			checks := CheckQuota(t.Context(), c, "my-instance", "batch-low", map[string]Size{"hold": test.size})
			equal(t, len(checks), 1)
			expect(t, checks[0], "quota/hold", test.status, test.message, test.remedy)
		})
	}
}

func TestCheckQuotaOrderAndUnknown_J42(t *testing.T) {
	sizes := map[string]Size{"b": oneGi(), "a": oneGi(), "c": oneGi()}
	for i, check := range CheckQuota(t.Context(), newFake(t), "later", "", sizes) {
		expect(t, check, "quota/"+string("abc"[i]), Skipped, `namespace "later" does not exist yet, so it has no quota to compare with`, "")
	}
	c := newFake(t, namespace("my-instance"))
	c.refuse["list resourcequotas"] = forbidden("resourcequotas")
	for _, check := range CheckQuota(t.Context(), c, "my-instance", "", sizes) {
		if check.Status != Warn || !strings.HasPrefix(check.Message, `unknown: could not find out the quotas of namespace "my-instance": `) {
			t.Errorf("got %+v", check)
		}
	}
}

func TestRoomOfASizeThatStatesNothing(t *testing.T) {
	room := RoomFor([]Quota{quotaOf(resourceQuota(t, "q", "limits.memory 1Gi 0", "pods 2 0"))}, Size{}, "")
	equal(t, room, Room{Limited: true, Count: 2, By: []string{`quota "q" pods`}})
}
