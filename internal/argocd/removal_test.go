package argocd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// resources is a status that lists resources.
func resources(lines ...string) string {
	return "status:\n  resources:\n  - " + strings.Join(lines, "\n  - ") + "\n"
}

func resourceApplication(name string) string {
	return "{group: argoproj.io, kind: Application, namespace: NAMESPACE, name: \"" + name + "\"}"
}

// populate gives the root Applications of every sort: waves, two that bring others, and a controller.
func (x *scene) populate() {
	x.t.Helper()
	root := RootName(x.spec.Name)
	x.add(
		x.application("web", root, 0, resources("{group: apps, kind: Deployment, namespace: web, name: web}")),
		x.application("db", root, -1),
		x.application("external-dns", root, 5),
		x.application("apps", root, 1, bringing, resources(resourceApplication("x"), resourceApplication("y"))),
		x.application("x", "apps", 3), x.application("y", "apps", 0),
		x.application("platform", root, 2, bringing, resources(resourceApplication("z"), "{kind: ConfigMap, namespace: platform, name: settings}")),
		x.application("z", "platform", 0),
	)
}

// inOrder are the events of taking populate's Applications down.
const inOrder = "dropped ROOT, dropped apps, deleted z, deleted platform, deleted x, deleted y, deleted web, deleted db, deleted external-dns"

func (x *scene) inOrder() string { return strings.ReplaceAll(inOrder, "ROOT", RootName(x.spec.Name)) }

// A step counts as stuck after 15 minutes, unless the configuration says otherwise (I93, I103, X10).
func TestStepTimeout(t *testing.T) {
	t.Parallel()
	want(t, "left out", newRemover(Clusters{}, Spec{Name: "edge"}, Removal{}).removal.StepTimeout, 15*time.Minute)
	want(t, "set", newRemover(Clusters{}, Spec{Name: "edge"}, Removal{StepTimeout: time.Minute}).removal.StepTimeout, time.Minute)
}

// A removal in the documented order, and every way in which it is refused, gets stuck, is forced or interrupted.
func TestRemoval(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for name, test := range map[string]func(*scene){
		"InOrder": testInOrder, "Interrupted": testInterrupted, "InterruptedAtEachStep": testInterruptedAtEachStep,
		"RefusedForEnvironments": testEnvironments, "WaitsForEnvironments": testEnvironmentsGoing, "EnvironmentPlacedMeanwhile": testEnvironmentMeanwhile,
		"RefusedForForeign": testForeign, "RefusedForRoot": testRootKept, "CommittedRoot": testCommitted, "RefusedForOwner": testOwner,
		"RefusedForIdentity": testIdentity, "Retained": testRetain, "Adopted": testAdopted, "InCluster": testInCluster,
		"Stuck": testStuck, "Explained": testExplained, "Forced": testForced, "ComesBack": testComesBack, "Changing": testChanging,
		"SecretGone": testSecretGone, "Unreachable": testUnreachable, "Planned": testPlanned, "Given up": testGivenUp, "Inventory": testInventory,
		"NoRoot": testNoRoot, "Clusters": testClusters, "ForceNames": testForceNames,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(s.scene(t))
		})
	}
}

// The root goes without what it brought, its Applications by descending waves with what they deployed, controllers last, and
// the Secrets at the end (I83, I87, I92, I98, Y3).
func testInOrder(x *scene) {
	x.register()
	x.populate()
	// A finalizer that cascades must not take everything down with the root, in whatever propagation.
	x.patch(RootName(x.spec.Name), `{"metadata":{"finalizers":["resources-finalizer.argocd.argoproj.io/background"]}}`)
	x.patch(RootName(x.spec.Name), `{"status":{"resources":[{"group":"argoproj.io","kind":"Application","namespace":"NAMESPACE","name":"web"},{"group":"argoproj.io","kind":"AppProject","namespace":"NAMESPACE","name":"shop"}]}}`)
	var steps []string
	x.progress = func(step cluster.Step) {
		if name, is := strings.CutPrefix(step.Action, "remove: "); is {
			steps = append(steps, name)
		}
	}
	warnings, err := x.remove(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	want(x.t, "what happened", x.happened(), x.inOrder())
	want(x.t, "what is left", x.left(), []string(nil))
	want(x.t, "the steps", strings.Join(steps, " "), "root applications controllers disconnect")
	warned(x.t, warnings, fmt.Sprintf("Cluster %q keeps its disks and load balancers", x.spec.Name), "CustomResourceDefinitions")
	warned(x.t, warnings, fmt.Sprintf("The account that Argo CD used stays on cluster %q", x.spec.Name), "Delete ServiceAccount berth-access/berth there")
	warned(x.t, warnings, fmt.Sprintf("The root Application of cluster %q leaves 1 object(s) on mgmt", x.spec.Name), "AppProject.argoproj.io/"+x.spec.Namespace+"/shop")
	want(x.t, "warnings", len(warnings), 3)
	// All of it again finds nothing to do.
	writes := x.proxy.Writes()
	x.removal.RemovedServiceAccount = true
	if warnings, err = x.remove(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
	want(x.t, "writes of a second removal", x.proxy.Writes()-writes, 0)
	want(x.t, "warnings of a second removal", len(warnings), 1)
}

// Interrupted after every single write (which is before the next one, too), the next removal goes on and ends the same way,
// with nothing orphaned and nothing brought back (I80, I97, X11).
func testInterrupted(x *scene) {
	for n := 1; ; n++ {
		y := x.stage.scene(x.t)
		y.register()
		root := RootName(y.spec.Name)
		y.add(
			y.application("web", root, 0), y.application("external-dns", root, 5),
			y.application("apps", root, 1, bringing, resources(resourceApplication("x"))), y.application("x", "apps", 3),
			y.application("platform", root, 2, bringing, resources(resourceApplication("z"), "{kind: ConfigMap, namespace: platform, name: settings}")),
			y.application("z", "platform", 0),
		)
		ctx, cancel := context.WithCancel(x.t.Context())
		y.proxy.Reset()
		reached := false
		y.proxy.OnWrite(nil, func(write int, _ fleettest.Request) {
			if write == n {
				reached = true
				cancel()
			}
		})
		_, first := y.remove(ctx)
		cancel()
		y.proxy.OnWrite(nil, nil)
		if _, err := y.remove(x.t.Context()); err != nil {
			x.t.Fatalf("the removal after one that ended with write %d: %v", n, err)
		}
		what := fmt.Sprintf("interrupted after write %d", n)
		want(x.t, what+": what happened", y.happened(), "dropped "+root+", dropped apps, deleted z, deleted platform, deleted x, deleted web, deleted external-dns")
		want(x.t, what+": what is left", y.left(), []string(nil))
		if !reached {
			if first != nil || n < 20 {
				x.t.Errorf("a removal took only %d writes, and then: %v", n-1, first)
			}
			return
		}
	}
}

// Interrupted at the beginning of each step, the error names it, and where it goes on is written on the cluster (I80).
func testInterruptedAtEachStep(x *scene) {
	for _, name := range []string{StepRoot, StepApplications, StepControllers, StepDisconnect} {
		y := x.stage.scene(x.t)
		y.register()
		y.populate()
		ctx, cancel := context.WithCancel(x.t.Context())
		y.progress = func(step cluster.Step) {
			if step.Action == "remove: "+name {
				cancel()
			}
		}
		_, err := y.remove(ctx)
		told(x.t, err, fmt.Sprintf("Removing cluster %q was interrupted at the step %q", y.spec.Name, name), "Destroy again: it goes on from this step.")
		y.progress = nil
		if _, err := y.remove(x.t.Context()); err != nil {
			x.t.Errorf("after %s: %v", name, err)
		}
		want(x.t, "what is left after "+name, y.left(), []string(nil))
	}
	x.register()
	x.populate()
	x.hold("web", true)
	x.removal.StepTimeout = stuckAfter
	if _, err := x.remove(x.t.Context()); err == nil {
		x.t.Fatal("it did not get stuck")
	}
	secret := x.secret()
	want(x.t, "the step on the Secret", secret.GetAnnotations()[AnnotationRemovalStep], StepApplications)
	started := secret.GetAnnotations()[AnnotationRemovalStarted]
	if at, err := time.Parse(time.RFC3339, started); err != nil || time.Since(at) > time.Hour {
		x.t.Errorf("it began at %q: %v", started, err)
	}
	inventory, err := TakeInventory(x.t.Context(), x.clusters(), x.spec, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	want(x.t, "the step in the inventory", inventory.Step, StepApplications)
	contains(x.t, strings.Join(inventory.Lines(), "\n"), "A removal of it was begun and has got to the step applications.")
	x.hold("web", false)
	x.removal.StepTimeout = time.Minute
	if _, err := x.remove(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
	want(x.t, "what happened", x.happened(), x.inOrder())
}

// Without a root there is nothing that belongs to the cluster, so only the Secrets go; what deploys to it blocks (Y25).
func testNoRoot(x *scene) {
	x.spec.AppOfApps = nil
	x.register()
	if _, err := x.remove(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
	want(x.t, "what is left", x.left(), []string(nil))
}

// What force_steps may name (I94, I95).
func testForceNames(x *scene) {
	x.register()
	for name, why := range map[string]string{
		"environments": "environments are never taken down for their cluster's sake", "controllers": `forced together with "applications"`,
		"root": "leaves nothing undone", "everything": "there is no such step",
	} {
		x.removal.Force = []string{"release", name}
		x.refused(fmt.Sprintf("force_steps can't name %q", name), why, `The steps that can be forced are "backup", "applications", "release", "confirm".`)
		_, err := PlanRemoval(x.t.Context(), x.clusters(), x.spec, x.removal)
		told(x.t, err, fmt.Sprintf("force_steps can't name %q", name))
	}
}
