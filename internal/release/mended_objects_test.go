package release

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// idleDeployment is one that nobody makes ready.
func idleDeployment(name, annotations string) string {
	return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: " + name + ", annotations: {" + annotations + "}}\n" +
		"spec:\n  selector: {matchLabels: {app: a}}\n  template: {metadata: {labels: {app: a}}, spec: {containers: [{name: a, image: example.com/a}]}}\n"
}

// The wait of a repair is not for what is no drift when it is missing or not ready: a Job whose time to live is over, and
// objects that are exempt, by their own word or by ignore_drift (promises 6 and 8).
func testExemptFromWait(b *bench) {
	b.chart("1.0.0", map[string]string{
		"templates/job.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: migrate}\nspec:\n  ttlSecondsAfterFinished: 1\n" +
			"  template: {spec: {restartPolicy: Never, containers: [{name: a, image: example.com/a}]}}\n",
		"templates/exempt.yaml":  idleDeployment("exempt", `berth.dev/ignore-drift: "true"`),
		"templates/ignored.yaml": idleDeployment("ignored", ""),
	})
	b.spec.Wait = false
	b.apply()
	b.kubectl("delete", "job", "migrate", "--cascade=background")
	b.kubectl("delete", "deployment", "exempt", "--cascade=background")
	b.kubectl("patch", "configmap", "exempt-settings", "-p", `{"data":{"text":"by hand"}}`)

	b.spec.Wait, b.spec.IgnoreDrift = true, []Ignore{{Kind: "Deployment", Name: "ignored"}}
	if outlook := b.plan(); outlook.Verdict != Repair {
		b.t.Fatalf("the plan: %+v", outlook)
	}
	if seen, _, err := Apply(b.within(30*time.Second), b.afresh(), b.spec, b.terms); err != nil || seen.Revision != 1 || len(seen.Drift) > 0 {
		b.t.Errorf("after the repair: %+v, %v", seen, err)
	}
	if text := b.kubectl("get", "configmap", "exempt-settings", "-o", "jsonpath={.data.text}"); text != "hello" {
		b.t.Errorf("after the repair the text is %s", text)
	}
	if left := b.names("deployments,jobs"); left != "ignored" {
		b.t.Errorf("after the repair there is %s", left)
	}

	// Everything else is waited for.
	b.spec.IgnoreDrift = nil
	_, _, err := Apply(b.within(3*time.Second), b.afresh(), b.spec, b.terms)
	refused(b.t, err, "", "Deployment/exempt/ignored")
	if strings.Contains(err.Error(), "Deployment/exempt/exempt") || strings.Contains(err.Error(), "migrate") {
		b.t.Errorf("what is exempt is waited for: %v", err)
	}
}

// What is being deleted is made anew once it is gone: a change of it would go with it (promise 5).
func testGoing(b *bench) {
	b.apply()
	b.deleting()
	uid := b.uid("configmap", "going-settings")
	_, _, err := Apply(b.within(3*time.Second), b.afresh(), b.spec, b.terms)
	refused(b.t, err, "", "ConfigMap/going/going-settings", "example.com/hold")
	b.whenLetGo("a repair", uid, "hello")

	b.deleting()
	b.values("text: changed")
	uid = b.uid("configmap", "going-settings")
	b.whenLetGo("an upgrade", uid, "changed")
	if seen := b.noDrift("after the upgrade"); seen.Revision != 2 {
		b.t.Errorf("after the upgrade: %+v", seen)
	}
}

// deleting deletes the release's ConfigMap, which a finalizer holds up.
func (b *bench) deleting() {
	b.t.Helper()
	b.kubectl("patch", "configmap", "going-settings", "-p", `{"metadata":{"finalizers":["example.com/hold"]}}`)
	b.kubectl("delete", "configmap", "going-settings", "--wait=false")
}

// whenLetGo applies, and takes the finalizer off while the apply waits.
func (b *bench) whenLetGo(what, uid, text string) {
	b.t.Helper()
	ctx, c := b.context(), b.afresh()
	done := make(chan error, 1)
	b.proxy.Reset()
	go func() {
		_, _, err := Apply(ctx, c, b.spec, b.terms)
		done <- err
	}()
	fleettest.Eventually(b.t, func(context.Context) error {
		if len(done) == 0 && b.proxy.Count("get configmaps") < 3 {
			return errors.New("the apply has not begun to wait")
		}
		return nil
	})
	if len(done) > 0 {
		b.t.Fatalf("%s did not wait: %v", what, <-done)
	}
	b.kubectl("patch", "configmap", "going-settings", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	if err := <-done; err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
	if now := b.uid("configmap", "going-settings"); now == uid {
		b.t.Errorf("%s left the object that was being deleted", what)
	}
	if now := b.kubectl("get", "configmap", "going-settings", "-o", "jsonpath={.data.text}{.metadata.finalizers}"); now != text {
		b.t.Errorf("after %s the object holds %s", what, now)
	}
	b.noDrift("after " + what)
}

// The hooks before an uninstall that came to their end run no second time when it is gone on with, however often that is:
// what they need may be gone. One that did not come to its end does (promise 10).
func testHooksOnce(b *bench) {
	hook := func(name, weight string) string {
		return configMap(name, `helm.sh/hook: "pre-delete,pre-upgrade", helm.sh/hook-weight: "`+weight+`"`)
	}
	b.chart("1.0.0", map[string]string{"templates/hooks.yaml": hook("down-1", "1") + "---\n" + hook("down-2", "2")})
	b.apply()
	b.values("text: changed")
	b.apply()
	uids := func() [2]string { return [2]string{b.uid("configmap", "down-1"), b.uid("configmap", "down-2")} }
	upgraded := uids()

	// No hook can be made: what ran before the uninstall does not count.
	restore := b.proxy.Fail(func(r fleettest.Request) bool { return r.Verb == "create" && r.Resource == "configmaps" }, fleettest.Forbidden)
	_, err := Remove(b.context(), b.afresh(), b.spec.Ref, Removal{Terms: b.terms})
	refused(b.t, err, "", "ConfigMap/hooks-once/down-1 of release hooks-once/hooks-once cannot be created")
	restore()

	// The second hook cannot be made.
	var creates int
	restore = b.proxy.Fail(func(r fleettest.Request) bool {
		if r.Verb == "create" && r.Resource == "configmaps" {
			creates++
			return creates == 2
		}
		return false
	}, fleettest.Forbidden)
	_, err = Remove(b.context(), b.afresh(), b.spec.Ref, Removal{Terms: b.terms})
	refused(b.t, err, "", "ConfigMap/hooks-once/down-2 of release hooks-once/hooks-once cannot be created")
	restore()
	first := b.uid("configmap", "down-1")
	if first == upgraded[0] {
		b.t.Error("the first hook did not run")
	}
	if names := b.names("configmaps"); names != "down-1 hooks-once-settings" {
		b.t.Fatalf("after the first attempt there is %s", names)
	}

	// What is to be uninstalled cannot be deleted.
	restore = b.proxy.Fail(func(r fleettest.Request) bool { return r.Verb == "delete" && r.Name == "hooks-once-settings" }, fleettest.Forbidden)
	b.proxy.Reset()
	for range 2 {
		_, err = Remove(b.context(), b.afresh(), b.spec.Ref, Removal{Terms: b.terms})
		refused(b.t, err, "", "ConfigMap/hooks-once/hooks-once-settings of release hooks-once/hooks-once cannot be deleted")
	}
	restore()
	if n := b.proxy.Count("create configmaps"); n != 1 {
		b.t.Errorf("in two more attempts hooks ran %d times, want the second hook once", n)
	}
	second := uids()
	if second[0] != first {
		b.t.Error("the first hook ran again")
	}
	b.proxy.Reset()
	b.remove(Removal{Terms: b.terms})
	if n := b.proxy.Count("create configmaps"); n > 0 {
		b.t.Errorf("%d hooks ran again", n)
	}
	if now := uids(); now != second {
		b.t.Errorf("the hooks are %v, were %v", now, second)
	}
	if left := b.names("configmaps,secrets"); left != "down-1 down-2" {
		b.t.Errorf("there is still %s", left)
	}
}
