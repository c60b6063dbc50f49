package release

import (
	"strings"
	"sync/atomic"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/charts"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// adopts takes a release of Helm's over, fails at first, and then does not: it is theirs all the same, and stays (promise 3,
// Y1).
func (b *bench) adopts(deployed bool) {
	b.t.Helper()
	uid := b.uid("configmap", b.spec.Name+"-settings")
	b.terms.Adopt = true
	b.brokenChart("1.1.0")
	b.applyFails("Service/"+b.spec.Namespace+"/broken of "+b.spec.String()+" cannot be created", "apply again")
	if adopted := b.label(2, labelAdopted); adopted != "true" {
		b.t.Errorf("after the first attempt the mark is %q", adopted)
	}
	b.chart("1.2.0", nil)
	if outlook := b.plan(); (outlook.Verdict == Upgrade) != deployed {
		b.t.Errorf("the plan of the second attempt: %+v", outlook)
	}
	if seen := b.apply(); seen.Revision != 3 || seen.Status != "deployed" {
		b.t.Errorf("after the second attempt: %+v", seen)
	}
	if adopted := b.label(3, labelAdopted); adopted != "true" {
		b.t.Errorf("after the second attempt the mark is %q", adopted)
	}
	why := "it was adopted, and berth uninstalls only what it installed"
	if planned := b.planRemoval(Removal{Terms: b.terms}); len(planned) != 1 || !strings.Contains(planned[0].Detail, why) {
		b.t.Errorf("plan of the removal: %v", planned)
	}
	if stays := b.remove(Removal{Terms: b.terms}); len(stays) != 1 || !strings.Contains(stays[0].Detail, why) {
		b.t.Errorf("what stays: %v", stays)
	}
	if now := b.uid("configmap", b.spec.Name+"-settings"); now != uid {
		b.t.Errorf("the object is %s, was %s", now, uid)
	}
	if labels := b.kubectl("get", "secrets", "-o", "jsonpath={.items[*].metadata.labels}{.items[*].metadata.annotations}"); strings.Contains(labels, "berth.dev/") || !strings.Contains(labels, `"status":"deployed"`) {
		b.t.Errorf("the records after the removal: %s", labels)
	}
}

// A release of Helm's that never came to its end is adopted by another install, which carries no labels over by itself.
func testAdoptedInstall(b *bench) {
	b.brokenChart("1.0.0")
	if err := b.helmInstall(); err == nil {
		b.t.Fatal("Helm installed a broken chart")
	}
	b.adopts(false)
}

func testAdoptedUpgrade(b *bench) {
	if err := b.helmInstall(); err != nil {
		b.t.Fatal(err)
	}
	b.adopts(true)
}

const willGo = "will be deleted (an unfinished revision left it)"

// What failed upgrades made and nobody wants goes with the next one that succeeds, also where the cluster is to keep just
// one revision; the plan says so (promises 1 and 5).
func testOrphans(b *bench) {
	b.spec.KeepHistory = 1
	b.apply()
	cannot := "Service/orphans/broken of release orphans/orphans cannot be created"
	b.brokenChart("1.1.0", "first", "kept")
	b.chartWith("templates/kept.yaml", configMap("kept", "helm.sh/resource-policy: keep"))
	b.applyFails(cannot)
	b.brokenChart("1.2.0", "second", "stays")
	b.applyFails(cannot)
	if made := b.names("configmaps"); made != "first kept orphans-settings second stays" {
		b.t.Fatalf("after two failures there is %s", made)
	}
	b.chart("1.3.0", map[string]string{"templates/stays.yaml": configMap("stays", "")})
	outlook := b.plan()
	if outlook.Verdict != Upgrade {
		b.t.Errorf("verdict %v", outlook.Verdict)
	}
	b.same("changes", outlook.Changes, map[string]string{
		"ConfigMap/orphans/first": willGo, "ConfigMap/orphans/second": willGo, "Service/orphans/broken": willGo,
		"ConfigMap/orphans/stays": "will be created",
	})
	if seen := b.apply(); seen.Revision != 4 {
		b.t.Errorf("after the success: %+v", seen)
	}
	if left := b.names("configmaps"); left != "kept orphans-settings stays" {
		b.t.Errorf("after the success there is %s", left)
	}
	// The one that was current until now is kept by Helm at this point, and forgotten at the next.
	if records := b.names("secrets"); records != secretName("orphans", 1)+" "+secretName("orphans", 4) {
		b.t.Errorf("records: %s", records)
	}
	b.noDrift("after the success")

	b.brokenChart("1.4.0", "third")
	b.applyFails(cannot)
	b.remove(Removal{Terms: b.terms})
	if left := b.names("configmaps"); left != "kept" {
		b.t.Errorf("after the uninstall there is %s", left)
	}
}

// The same where no install has ever come to its end, and the next one makes none of the objects that are there.
func testOrphansAtFirst(b *bench) {
	b.brokenChart("1.0.0", "first")
	b.applyFails("cannot be created")
	b.brokenChart("1.1.0", "second")
	b.applyFails("cannot be created")
	if made := b.names("configmaps"); made != "first orphans-at-first-settings second" {
		b.t.Fatalf("after two failures there is %s", made)
	}
	b.load(charts.Folder(b.t, "small", "1.2.0", map[string]string{"templates/other.yaml": configMap("other", "")}))
	if outlook := b.plan(); outlook.Verdict != Resume {
		b.t.Errorf("the plan: %+v", outlook)
	}
	b.apply()
	if left := b.names("configmaps"); left != "other" {
		b.t.Errorf("after the success there is %s", left)
	}
	b.remove(Removal{Terms: b.terms})
	b.nothingLeft()
}

// An upgrade that was cut between its last two writes leaves every earlier revision superseded: the plan looks at them all,
// as the apply does.
func testAllSuperseded(b *bench) {
	b.apply()
	b.chart("1.1.0", map[string]string{"templates/more.yaml": configMap("more", "")})
	var superseded atomic.Bool
	restore := b.proxy.Fail(func(r fleettest.Request) bool {
		if r.Verb != "patch" || r.Resource != "secrets" {
			return false
		}
		if r.Name == secretName("superseded", 1) {
			superseded.Store(true)
		}
		return superseded.Load() && r.Name == secretName("superseded", 2)
	}, fleettest.Forbidden)
	if _, _, err := Apply(b.context(), b.afresh(), b.spec, b.terms); err == nil {
		b.t.Fatal("the apply says nothing of a record that was not stored")
	}
	restore()
	if one, two := b.label(1, labelStatus), b.label(2, labelStatus); one != "superseded" || two != "pending-upgrade" {
		b.t.Fatalf("the revisions are %s and %s", one, two)
	}
	b.chart("1.2.0", nil)
	outlook := b.plan()
	if outlook.Verdict != Upgrade || outlook.Changes["ConfigMap/superseded/more"] != "will be deleted" {
		b.t.Errorf("the plan: %+v", outlook)
	}
	if seen := b.apply(); seen.Revision != 3 || seen.Status != "deployed" {
		b.t.Errorf("after the apply: %+v", seen)
	}
	if left := b.names("configmaps"); left != "superseded-settings" {
		b.t.Errorf("after the apply there is %s", left)
	}
}

// A release that is renamed makes room for itself, where what it made really goes (promise 3).
func testRenamed(b *bench) {
	fixed := func(annotations string) {
		b.chart("1.0.0", map[string]string{
			"templates/settings.yaml": configMap("fixed", annotations), "templates/release.yaml": configMap("{{ .Release.Name }}", ""),
		})
	}
	fixed("")
	b.apply()
	b.brokenChart("1.1.0", "left-by-a-failure")
	b.applyFails("cannot be created")
	before, removal := b.spec.Ref, Removal{Terms: b.terms}
	renamed := b.spec
	renamed.Name = "other"
	terms := kube.Terms{Owner: b.terms.Owner}
	plan := func(c *cluster.Cluster, removal Removal) error {
		b.t.Helper()
		if err := PlanReplacement(b.context(), c, before, removal); err != nil {
			b.t.Fatal(err)
		}
		_, err := Plan(b.context(), c, renamed, terms)
		return err
	}
	b.chart("1.0.0", map[string]string{"templates/settings.yaml": configMap("fixed", ""), "templates/left.yaml": configMap("left-by-a-failure", "")})
	renamed.Chart = b.spec.Chart
	_, err := Plan(b.context(), b.afresh(), renamed, terms)
	refused(b.t, err, "adopt", "Release renamed/other wants 2 object(s) that are somebody else's",
		"ConfigMap/renamed/fixed is kept in place by helm/renamed/renamed", "ConfigMap/renamed/left-by-a-failure is kept in place by helm/renamed/renamed")
	// What stays on the cluster makes no room.
	refused(b.t, plan(b.afresh(), Removal{Terms: b.terms, Retain: true}), "adopt", "wants 2 object(s) that are somebody else's")

	c := b.afresh()
	if err := plan(c, removal); err != nil {
		b.t.Fatalf("the replacement is refused: %v", err)
	}
	if _, err := Remove(b.context(), c, before, removal); err != nil {
		b.t.Fatal(err)
	}
	if _, _, err := Apply(b.context(), c, renamed, terms); err != nil {
		b.t.Fatal(err)
	}
	b.spec = renamed
	b.noDrift("after the replacement")
	if left := b.names("configmaps"); left != "fixed left-by-a-failure" {
		b.t.Errorf("after the replacement there is %s", left)
	}
}

// chartWith changes a file of the chart that is loaded.
func (b *bench) chartWith(name, content string) {
	b.t.Helper()
	ch := b.spec.Chart.Chart
	for _, file := range ch.Raw {
		if file.Name == name {
			file.Data = []byte(content)
			b.spec.Chart.Digest += "-" + name
			return
		}
	}
	b.t.Fatalf("the chart has no %s", name)
}

// An apply that goes on from an interrupted one and is refused has written nothing, not even that it was interrupted
// (promise 1).
func testRefusedTakeover(b *bench) {
	b.apply()
	hook := configMap("hook", "helm.sh/hook: pre-upgrade, helm.sh/hook-delete-policy: hook-succeeded")
	folder := b.chart("1.1.0", map[string]string{"templates/hook.yaml": hook, "templates/more.yaml": configMap("more", "")})
	// The record, the start of the hook, the hook, and then its removal.
	if !b.killedAt(4, fleettest.BeforeWrite, "apply", folder) {
		b.t.Fatal("the upgrade had fewer writes")
	}
	if made := b.names("configmaps"); made != "hook refused-takeover-settings" {
		b.t.Fatalf("the killed upgrade made %s", made)
	}
	version := func() string {
		return b.kubectl("get", "secret", secretName("refused-takeover", 2), "-o", "jsonpath={.metadata.labels.status} {.metadata.resourceVersion}")
	}
	before := version()
	b.create(strings.Replace(configMap("theirs", ""), "metadata: {", "metadata: {namespace: refused-takeover, ", 1))
	b.chart("1.2.0", map[string]string{"templates/theirs.yaml": configMap("theirs", "")})
	b.proxy.Reset()
	refused(b.t, b.planError(), "adopt", "ConfigMap/refused-takeover/theirs exists, and was put there by somebody else")
	if n := b.proxy.Writes(); n > 0 {
		b.t.Errorf("a refused apply wrote %d times:\n%s", n, b.proxy.Summary())
	}
	if now := version(); now != before || !strings.HasPrefix(now, "pending-upgrade ") {
		b.t.Errorf("the interrupted revision is %s, was %s", now, before)
	}
	b.chart("1.3.0", nil)
	if seen := b.apply(); seen.Revision != 3 || seen.Status != "deployed" {
		b.t.Errorf("after the apply: %+v", seen)
	}
	if left := b.names("configmaps"); left != "refused-takeover-settings theirs" {
		b.t.Errorf("after the apply there is %s", left)
	}
}

// An uninstall takes away what the current revision made, also where the newest one, which failed, has no object at all:
// of those Helm itself deletes nothing (promise 10).
func testEmptyManifest(b *bench) {
	b.apply()
	b.load(charts.Folder(b.t, "small", "1.1.0", map[string]string{
		"templates/hook.yaml": strings.Replace(broken, "name: broken", "name: broken, annotations: {helm.sh/hook: pre-upgrade}", 1),
	}))
	b.applyFails("Service/empty-manifest/broken of release empty-manifest/empty-manifest cannot be created")
	if left := b.names("configmaps"); left != "empty-manifest-settings" {
		b.t.Fatalf("after the failure there is %s", left)
	}
	b.remove(Removal{Terms: b.terms})
	b.nothingLeft()
}
