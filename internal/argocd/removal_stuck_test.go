package argocd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

var errDead = errors.New("Cluster \"work\": the connection is refused")

// A step that takes longer than its limit says what it waits for, that nothing else was taken down, and the way on (I93);
// the next removal goes on from there.
func testStuck(x *scene) {
	x.register()
	x.populate()
	x.hold("y", true)
	x.removal.StepTimeout = stuckAfter
	_, err := x.remove(x.t.Context())
	told(x.t, err, fmt.Sprintf(`Removing cluster %q is stuck at the step "applications"`, x.spec.Name),
		`1 of 1 objects of Applications of wave 1/0 on cluster "`+x.spec.Name+`" are still there`, "finalizers: resources-finalizer.argocd.argoproj.io",
		"/y: nothing yet; the log of its application controller may tell",
		"Nothing else was taken down; after this step come controllers, disconnect.",
		`removal.step_timeout gives it more time than 6s. Or set force_steps = ["applications"], apply that, which changes the state alone, and destroy again`,
		"keeps running on the cluster")
	want(x.t, "what is left", x.left(), []string{"Secret/", "Secret/-kubeconfig", "db", "external-dns", "web", "y"})
	x.hold("y", false)
	x.removal.StepTimeout = time.Minute
	if _, err := x.remove(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
	want(x.t, "what happened", x.happened(), x.inOrder())
}

// Why an Application does not go is told in Argo CD's words.
func testExplained(x *scene) {
	x.register()
	x.add(
		x.application("web", RootName(x.spec.Name), 0, `metadata: {annotations: {argocd.argoproj.io/skip-reconcile: "true"}}`),
		x.application("db", RootName(x.spec.Name), 0, `
status:
  conditions: [{type: DeletionError, message: the project was not found}]
  resources: [{kind: PersistentVolumeClaim, namespace: db, name: data, requiresDeletionConfirmation: true}]
`))
	x.hold("web", true)
	x.hold("db", true)
	x.removal.StepTimeout = stuckAfter
	_, err := x.remove(x.t.Context())
	told(x.t, err, fmt.Sprintf(`Removing cluster %q is stuck at the step "applications"`, x.spec.Name),
		"2 of 2 objects of Applications of wave 0", "/db: DeletionError: the project was not found",
		"/db: PersistentVolumeClaim/db/data is deleted only when somebody confirms it (Delete=confirm): set the annotation argocd.argoproj.io/deletion-approved",
		"/web: the annotation argocd.argoproj.io/skip-reconcile has Argo CD leave it alone")
}

// Forced, a stuck step is moved on from when its time is up, and one warning lists what each Application may leave (I94).
func testForced(x *scene) {
	x.register()
	x.populate()
	for _, name := range []string{"web", "db", "external-dns"} {
		x.hold(name, true)
	}
	x.patch("web", `{"metadata":{"finalizers":["post-delete-finalizer.argocd.argoproj.io/cleanup"]}}`)
	x.removal.Force, x.removal.StepTimeout = []string{StepApplications}, stuckAfter
	// Killed right after it was written what may be left, it is told by the call that ends the removal.
	warnings, err := x.remove(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	warned(x.t, warnings, fmt.Sprintf("3 thing(s) of cluster %q may be left behind", x.spec.Name), "Steps were forced, so nothing made sure that these went.",
		"Application "+x.spec.Namespace+"/web (to "+x.spec.Name+", namespace web): Deployment.apps/web/web",
		"Application "+x.spec.Namespace+"/db (to "+x.spec.Name+", namespace db): no resource that Argo CD knew of", "/external-dns (to")
	contains(x.t, x.happened(), "deleted x, deleted y")
	for _, name := range []string{"web", "db", "external-dns"} {
		contains(x.t, x.happened(), "dropped "+name)
	}
	want(x.t, "what is left", x.left(), []string(nil))

	// What an earlier call may have left is told by the one that ends the removal.
	y := x.stage.scene(x.t)
	y.register()
	y.add(y.application("web", RootName(y.spec.Name), 1), y.application("db", RootName(y.spec.Name), 0, `metadata: {finalizers: [example.com/theirs]}`))
	y.hold("web", true)
	y.removal.Force, y.removal.StepTimeout = []string{StepApplications}, stuckAfter
	_, err = y.remove(y.t.Context())
	told(y.t, err, fmt.Sprintf(`Removing cluster %q is stuck at the step "applications"`, y.spec.Name), "finalizers: example.com/theirs", "Mend this and destroy again")
	y.patch("db", `{"metadata":{"finalizers":null}}`)
	if warnings, err = y.remove(y.t.Context()); err != nil {
		y.t.Fatal(err)
	}
	warned(y.t, warnings, fmt.Sprintf("2 thing(s) of cluster %q may be left behind", y.spec.Name), y.spec.Namespace+"/web", y.spec.Namespace+"/db")
}

// What is brought back by somebody that no tracking names is told, not deleted for ever.
func testComesBack(x *scene) {
	x.register()
	x.add(x.application("web", RootName(x.spec.Name), 0))
	var times atomic.Int64
	x.proxy.OnWrite(nil, func(_ int, request fleettest.Request) {
		if request.Verb != "delete" || request.Name != "web" {
			return
		}
		again := x.application("web", RootName(x.spec.Name), 0, `metadata: {labels: {kustomize.toolkit.fluxcd.io/name: apps}}`)
		fleettest.Eventually(x.t, func(ctx context.Context) error {
			_, err := x.apps().Create(ctx, again.DeepCopy(), metav1.CreateOptions{})
			return err
		})
		times.Add(1)
	})
	_, err := x.remove(x.t.Context())
	told(x.t, err, fmt.Sprintf("Removing cluster %q failed at the step \"applications\"", x.spec.Name),
		"Application "+x.spec.Namespace+"/web comes back as often as it is deleted", "It was deleted 3 times", "It is kept by argocd/"+RootName(x.spec.Name)+", flux/apps: take it out there.")
	want(x.t, "how often it came back", times.Load(), int64(3))
}

// Argo CD writes into an Application all the time: a write that was overtaken is done again.
func testChanging(x *scene) {
	x.register()
	x.add(x.application("web", RootName(x.spec.Name), 0))
	n := 0
	x.proxy.OnWrite(func(_ int, request fleettest.Request) {
		if request.Verb == "patch" && request.Name == "web" && n < 3 {
			n++
			x.patch("web", fmt.Sprintf(`{"status":{"reconciledAt":"2025-01-01T00:00:0%dZ"}}`, n))
		}
	}, nil)
	if _, err := x.remove(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
	want(x.t, "what happened", x.happened(), "dropped "+RootName(x.spec.Name)+", deleted web")
	want(x.t, "how often it was overtaken", n, 3)
}

// With its Secret gone Argo CD would drop Applications and orphan what they deployed: nothing is deleted, unless that is
// forced and told.
func testSecretGone(x *scene) {
	x.register()
	x.populate()
	x.stage.management.Kubectl(x.t, "delete", "secret", "-n", x.spec.Namespace, x.spec.SecretName)
	x.refused(fmt.Sprintf("Cluster %q can't be taken apart in order", x.spec.Name),
		fmt.Sprintf("Argo CD does not know it: Secret %s/%s is not there", x.spec.Namespace, x.spec.SecretName),
		"Apply, so that it is registered again, and destroy then.", `set force_steps = ["applications"]`, "/web (to "+x.spec.Name+", namespace web): Deployment.apps/web/web")
	x.removal.Force = []string{StepApplications}
	warnings, err := x.remove(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	// Everything that deploys to it is forgotten; those that only deploy to the management cluster go in order.
	warned(x.t, warnings, fmt.Sprintf("6 thing(s) of cluster %q may be left behind", x.spec.Name), "/web (to", "/db (to", "/x (to", "/y (to", "/z (to", "/external-dns (to")
	contains(x.t, x.happened(), "dropped z, deleted platform, dropped x")
	want(x.t, "what is left", x.left(), []string(nil))

	// It goes while the removal is under way.
	y := x.stage.scene(x.t)
	y.register()
	y.add(y.application("web", RootName(y.spec.Name), 0))
	y.progress = func(step cluster.Step) {
		if step.Action == "remove: "+StepApplications {
			y.progress = nil
			y.stage.management.Kubectl(y.t, "delete", "secret", "-n", y.spec.Namespace, y.spec.SecretName)
		}
	}
	_, err = y.remove(y.t.Context())
	told(y.t, err, fmt.Sprintf("Removing cluster %q failed at the step \"applications\"", y.spec.Name),
		"Application "+y.spec.Namespace+"/web deploys to a cluster that Argo CD does not know", "Argo CD would drop it and leave what it deployed", "Register that cluster again")
	want(y.t, "what happened", y.happened(), "dropped "+RootName(y.spec.Name))
}

// A cluster that does not answer is refused before its root is touched; forced, it is forgotten in order, and what it may
// still run is told from what Argo CD knew.
func testUnreachable(x *scene) {
	x.register()
	x.populate()
	x.spec.Built, x.removal.ReleaseCloudResources, x.removal.BackupDisks = true, true, true
	dead := func() Clusters { c := x.clusters(); c.Unreachable = errDead; return c }
	refused := func(summary string, details ...string) {
		x.t.Helper()
		before, writes := x.left(), x.proxy.Writes()
		_, err := Remove(x.t.Context(), dead(), x.spec, x.removal)
		told(x.t, err, summary, details...)
		want(x.t, "writes", x.proxy.Writes()-writes, 0)
		want(x.t, "what is there", x.left(), before)
	}
	x.add(x.application("shop-eu", "", 0, zoned))
	refused(fmt.Sprintf("1 environment(s) are placed on cluster %q", x.spec.Name))
	x.stage.management.Kubectl(x.t, "delete", "applications.argoproj.io", "-n", x.spec.Namespace, "shop-eu")
	summary := fmt.Sprintf("Cluster %q can't be taken apart in order", x.spec.Name)
	refused(summary, "refusing: it does not answer: "+errDead.Error()+". So nothing can be deleted on it in order, and nothing was.", "Bring it back and destroy again.",
		`set force_steps = ["backup", "applications", "release", "confirm"]`, "Argo CD then forgets these Applications", "Deployment.apps/web/web")
	x.removal.Force = []string{StepRelease, StepConfirm}
	refused(summary, `set force_steps = ["release", "confirm", "backup", "applications"]`)
	x.spec.Built = false
	refused(summary, `set force_steps = ["release", "confirm", "applications"]`)

	x.spec.Built, x.removal.Force = true, ForceableSteps
	stop := x.work()
	defer stop()
	warnings, err := Remove(x.t.Context(), dead(), x.spec, x.removal)
	if err != nil {
		x.t.Fatal(err)
	}
	warned(x.t, warnings, fmt.Sprintf("9 thing(s) of cluster %q may be left behind", x.spec.Name),
		fmt.Sprintf("No backup of the volumes of cluster %q: it does not answer", x.spec.Name),
		fmt.Sprintf("Whatever volumes and load balancers cluster %q holds: it does not answer (step \"release\")", x.spec.Name), "/web (to "+x.spec.Name+", namespace web): Deployment.apps/web/web")
	want(x.t, "what is left", x.left(), []string(nil))
	// What deploys to the cluster that answers went in order.
	stop()
	contains(x.t, x.happened(), "dropped z, deleted platform, dropped x")
}

// The plan of a destroy shows what goes, in which order, and what stands against it, and writes nothing (I78).
func testPlanned(x *scene) {
	x.register()
	x.populate()
	x.add(x.application("shop-eu", "", 0, zoned), x.application("stray", "", 0))
	writes := x.proxy.Writes()
	x.removal.Force = []string{StepApplications}
	warnings, err := PlanRemoval(x.t.Context(), x.clusters(), x.spec, x.removal)
	if err != nil {
		x.t.Fatal(err)
	}
	want(x.t, "writes", x.proxy.Writes()-writes, 0)
	warned(x.t, warnings, fmt.Sprintf("Destroying cluster %q takes this apart", x.spec.Name), "8 Application(s) go with what they deployed.",
		"Environments (1):\n  zone eu of product shop", "Applications of wave -1 (1):\n  "+x.spec.Namespace+"/db, to "+x.spec.Name+", namespace db: not compared yet, health unknown",
		"Applications of wave 1/3 (1):", "Controllers of wave 5, removed last (1):\n  "+x.spec.Namespace+"/external-dns", "Applications from elsewhere (1):\n  "+x.spec.Namespace+"/stray",
		"The steps, each with a time limit of 1m0s:\n", "root: delete the root Application",
		"applications: delete the Applications with what they deployed, wave by wave from the highest down; moved on from when its time is up", "disconnect: delete the Secrets")
	warned(x.t, warnings, fmt.Sprintf("1 environment(s) are placed on cluster %q", x.spec.Name), "The destroy will be refused unless this is put right by then. environments go first.")
	warned(x.t, warnings, fmt.Sprintf("1 Application(s) and 0 ApplicationSet(s) on cluster %q are not its root's to take down", x.spec.Name))
	warned(x.t, warnings, fmt.Sprintf("Cluster %q keeps its disks and load balancers", x.spec.Name))
	warned(x.t, warnings, fmt.Sprintf("The account that Argo CD used stays on cluster %q", x.spec.Name))
	want(x.t, "warnings", len(warnings), 5)
}

// A removal that was given up leaves no mark that would take an Application along later (I80).
func testGivenUp(x *scene) {
	x.register()
	x.populate()
	x.hold("x", true)
	x.removal.StepTimeout = stuckAfter
	if _, err := x.remove(x.t.Context()); err == nil {
		x.t.Fatal("it did not get stuck")
	}
	want(x.t, "the mark", x.app("web").GetAnnotations()[AnnotationRemoval], x.spec.Name)
	if err := forgetRemoval(x.t.Context(), x.clusters(), x.spec); err != nil {
		x.t.Fatal(err)
	}
	for _, key := range removalAnnotations {
		for _, live := range []annotated{x.secret(), x.app("web"), x.app("external-dns")} {
			if value, has := live.GetAnnotations()[key]; has {
				x.t.Errorf("%s=%s is left", key, value)
			}
		}
	}
	if x.secret().GetAnnotations()[AnnotationClusterUID] == "" {
		x.t.Error("other marks went too")
	}
}

type annotated interface{ GetAnnotations() map[string]string }

// What is there is told for every part, and what could not be looked at with why (I72, I74, I75, I78).
func testInventory(x *scene) {
	x.register()
	x.populate()
	x.add(x.application("shop-eu", "", 0, zoned, "status: {sync: {status: Synced}, health: {status: Healthy}}"))
	inventory, err := TakeInventory(x.t.Context(), x.clusters(), x.spec, []string{"db"})
	if err != nil {
		x.t.Fatal(err)
	}
	want(x.t, "server", inventory.Server, x.server())
	want(x.t, "version", inventory.Version, x.stage.workload.Version())
	want(x.t, "nodes", inventory.Nodes, 2)
	want(x.t, "root", inventory.Root.Name, RootName(x.spec.Name))
	want(x.t, "skipped", inventory.Skipped, []string(nil))
	want(x.t, "zones", len(inventory.Zones), 1)
	want(x.t, "the zone's state", inventory.Zones[0].state(), "Synced, Healthy")
	var waves []string
	for _, wave := range inventory.Waves {
		names := make([]string, len(wave.Applications))
		for i, one := range wave.Applications {
			names[i] = one.Name
		}
		waves = append(waves, fmt.Sprintf("%s:%s:%v", wave, strings.Join(names, ","), wave.Last))
	}
	want(x.t, "waves", strings.Join(waves, " "), "-1:db:true 5:external-dns:true 0:web:false 1:apps:false 1/0:y:false 1/3:x:false 2:platform:false 2/0:z:false")

	for what, change := range map[string]func(*Clusters){
		errDead.Error():                          func(c *Clusters) { c.Unreachable = errDead },
		"no connection to the cluster was given": func(c *Clusters) { c.Workload = nil },
	} {
		clusters := x.clusters()
		change(&clusters)
		if inventory, err = TakeInventory(x.t.Context(), clusters, x.spec, nil); err != nil {
			x.t.Fatal(err)
		}
		want(x.t, "skipped", inventory.Skipped, []string{"version, nodes, volumes and load balancers: " + what})
		want(x.t, "waves all the same", len(inventory.Waves), 8)
		want(x.t, "version and nodes", fmt.Sprint(inventory.Version, inventory.Nodes), "-1")
	}
	x.spec.SecretName = "another"
	if inventory, err = TakeInventory(x.t.Context(), x.clusters(), x.spec, nil); err != nil {
		x.t.Fatal(err)
	}
	want(x.t, "skipped", inventory.Skipped, []string{fmt.Sprintf(`the registration: Secret %s/another is not on cluster "mgmt"`, x.spec.Namespace)})
}
