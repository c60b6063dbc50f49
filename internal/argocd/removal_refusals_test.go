package argocd

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// secret is the cluster's Secret as it is.
func (x *scene) secret() *unstructured.Unstructured {
	x.t.Helper()
	secret, err := x.client.Resource(cluster.Secrets.GVR()).Namespace(x.spec.Namespace).Get(x.t.Context(), x.spec.SecretName, metav1.GetOptions{})
	if err != nil {
		x.t.Fatal(err)
	}
	return secret
}

const zoned = `metadata: {labels: {berth.dev/zone: eu, berth.dev/product: shop, berth.dev/environment: release}}`

// Environments go first, whoever placed them, and no force changes that (I82, I95).
func testEnvironments(x *scene) {
	x.register()
	x.populate()
	x.add(x.application("shop-eu", "", 0, zoned), x.application("shop-us", RootName(x.spec.Name), 0, zoned, `metadata: {labels: {berth.dev/zone: us}}`))
	x.removal.Force = ForceableSteps
	x.refused(fmt.Sprintf("2 environment(s) are placed on cluster %q", x.spec.Name), "refusing: environments go first. Nothing was deleted.",
		"zone eu of product shop (environment release, namespace shop-eu, Application "+x.spec.Namespace+"/shop-eu)", "zone us of product shop",
		"Move each to another cluster, or remove it with its data, and destroy again. force_steps never skips them.")
	x.spec.Built, x.removal.BackupDisks = true, true
	x.refused(fmt.Sprintf("2 environment(s) are placed on cluster %q", x.spec.Name), "The disks are backed up after they have gone")
}

// Environments that are being deleted are waited for, and what is told when that takes too long is what Argo CD says.
func testEnvironmentsGoing(x *scene) {
	x.register()
	x.add(
		x.application("shop-eu", "", 0, zoned, `{metadata: {finalizers: [resources-finalizer.argocd.argoproj.io]}, status: {conditions: [{type: DeletionError, message: the shop is open}]}}`),
		x.application("web", RootName(x.spec.Name), 0),
	)
	x.stage.management.Kubectl(x.t, "delete", "applications.argoproj.io", "-n", x.spec.Namespace, "shop-eu", "--wait=false")
	x.hold("shop-eu", true)
	x.removal.StepTimeout, x.removal.Force = stuckAfter, ForceableSteps
	_, err := x.remove(x.t.Context())
	told(x.t, err, fmt.Sprintf(`Removing cluster %q is stuck at the step "environments"`, x.spec.Name), "1 of 1 objects of what is in the way", "DeletionError: the shop is open",
		"Nothing else was taken down; after this step come root, applications, controllers, disconnect.", "Mend this and destroy again: it goes on from this step.")
	want(x.t, "what is there after it", x.left(), x.everything("shop-eu", "web"))
	x.hold("shop-eu", false)
	x.removal.StepTimeout = time.Minute
	if _, err := x.remove(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
	want(x.t, "what happened", x.happened(), "deleted shop-eu, dropped "+RootName(x.spec.Name)+", deleted web")
}

// An environment that is placed while the removal goes on stops it.
func testEnvironmentMeanwhile(x *scene) {
	x.register()
	x.populate()
	x.progress = func(step cluster.Step) {
		if step.Action == "remove: "+StepApplications {
			x.progress = nil
			x.add(x.application("late", "", 0, zoned))
		}
	}
	x.removal.Force = ForceableSteps
	_, err := x.remove(x.t.Context())
	told(x.t, err, fmt.Sprintf("Removing cluster %q failed at the step \"applications\"", x.spec.Name), "1 environment(s) are placed on cluster", "Application "+x.spec.Namespace+"/late")
	want(x.t, "what happened", x.happened(), "dropped "+RootName(x.spec.Name)+", dropped apps")
}

// What does not belong to the root, and what ApplicationSets make, blocks before anything is deleted (Y25).
func testForeign(x *scene) {
	x.register()
	x.populate()
	x.add(
		x.application("stray", "", 0), x.application("theirs", "elsewhere", 0),
		x.application("made", RootName(x.spec.Name), 0, `metadata: {ownerReferences: [{apiVersion: argoproj.io/v1alpha1, kind: ApplicationSet, name: everywhere, uid: 1-2-3}]}`),
	)
	x.patch("platform", `{"status":{"resources":[{"group":"argoproj.io","kind":"Application","namespace":"NAMESPACE","name":"z"},{"group":"argoproj.io","kind":"ApplicationSet","namespace":"NAMESPACE","name":"generated"}]}}`)
	x.removal.Force = ForceableSteps
	ns := x.spec.Namespace
	x.refused(fmt.Sprintf("3 Application(s) and 1 ApplicationSet(s) on cluster %q are not its root's to take down", x.spec.Name),
		"refusing: a removal takes down only what belongs to the root Application "+RootName(x.spec.Name)+". Nothing was deleted.",
		ns+"/stray, of no other Application, to "+x.spec.Name, ns+"/theirs, of Application elsewhere", ns+"/made, of ApplicationSet "+ns+"/everywhere",
		"These ApplicationSets come with the root, and could make Applications at any time (1):\n  "+ns+"/generated", "This can't be forced.")
	// All refusals at once: what has to be put right is put right once.
	x.add(x.application("shop-eu", "", 0, zoned))
	x.refused(fmt.Sprintf("1 environment(s) are placed on cluster %q", x.spec.Name))
	x.refused(fmt.Sprintf("3 Application(s) and 1 ApplicationSet(s) on cluster %q are not its root's to take down", x.spec.Name))
}

// A root Application that something else would bring back is refused, with what to take away where (Y25, I83).
func testRootKept(x *scene) {
	x.register()
	x.populate()
	root := RootName(x.spec.Name)
	x.add(x.application("everything", "", 0, bringing))
	x.patch(root, `{"metadata":{"annotations":{"argocd.argoproj.io/tracking-id":"everything:argoproj.io/Application:NAMESPACE/`+root+`"},"finalizers":["resources-finalizer.argocd.argoproj.io"]}}`)
	x.refused(fmt.Sprintf("The root Application of cluster %q is kept by argocd/everything", x.spec.Name),
		"Remove registry/clusters/mgmt/components/"+root+".yaml from the repository of Application everything",
		"but take its finalizer off before", "kubectl --context mgmt -n "+x.spec.Namespace+" patch applications.argoproj.io "+root+" --type merge -p '{\"metadata\":{\"finalizers\":null}}'",
		"what it brought stays and is taken down when you destroy again")
	// What the annotation names is gone: nothing brings the root back.
	x.stage.management.Kubectl(x.t, "delete", "applications.argoproj.io", "-n", x.spec.Namespace, "everything")
	x.patch(root, `{"metadata":{"labels":{"kustomize.toolkit.fluxcd.io/name":"infra","kustomize.toolkit.fluxcd.io/namespace":"flux-system"},"finalizers":null}}`)
	x.refused(fmt.Sprintf("The root Application of cluster %q is kept by flux/flux-system/infra", x.spec.Name), "Take it out of that first; what it brought stays")
	x.patch(root, `{"metadata":{"labels":{"kustomize.toolkit.fluxcd.io/name":null}}}`)
	if _, err := x.remove(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
	want(x.t, "what happened", strings.ReplaceAll(x.happened(), "dropped everything, ", ""), x.inOrder())
}

// A root that was committed is the repository's; once it has left from there, what it brought is taken down all the same (I7).
func testCommitted(x *scene) {
	x.spec.AppOfApps.Commit = true
	x.register()
	root := RootName(x.spec.Name)
	x.add(x.application("everything", "", 0, bringing), x.application(root, "everything", 0, bringing))
	x.populate()
	x.refused(fmt.Sprintf("The root Application of cluster %q is kept by argocd/everything", x.spec.Name), "Remove registry/clusters/mgmt/components/"+root+".yaml from the repository")
	// The file is removed, and Argo CD prunes the Application.
	x.mu.Lock()
	delete(x.brings, "everything")
	x.mu.Unlock()
	x.stage.management.Kubectl(x.t, "delete", "applications.argoproj.io", "-n", x.spec.Namespace, root)
	if _, err := x.remove(x.t.Context()); err != nil {
		x.t.Fatal(err)
	}
	want(x.t, "what happened", x.happened(), strings.TrimPrefix(x.inOrder(), "dropped "+root+", "))
	want(x.t, "what is left", x.left(), []string{"everything"})
}

// Nothing of another configuration's is taken apart, nor what was imported and never applied (promise 3).
func testOwner(x *scene) {
	x.register()
	x.populate()
	mine := x.removal.Terms
	stays := func(why string, unmarked int) {
		x.t.Helper()
		before, writes := x.left(), x.proxy.Writes()
		planned, err := PlanRemoval(x.t.Context(), x.clusters(), x.spec, x.removal)
		if err != nil {
			x.t.Fatal(err)
		}
		warnings, err := x.remove(x.t.Context())
		if err != nil {
			x.t.Fatal(err)
		}
		want(x.t, "the plan's warnings", planned, warnings)
		warned(x.t, warnings, fmt.Sprintf("Cluster %q stays registered", x.spec.Name), fmt.Sprintf("Because Secret %s/%s %s, its Applications", x.spec.Namespace, x.spec.SecretName, why))
		want(x.t, "writes", x.proxy.Writes()-writes, unmarked)
		want(x.t, "what is left", x.left(), before)
	}
	x.removal.Terms = Terms{Owner: kube.Owner{Configuration: "rivals", Resource: "cluster.edge"}, Held: true}
	stays("is marked as "+mine.Owner.Resource+` of the configuration with owner "platform"`, 0)
	// The root alone is somebody else's.
	x.removal.Terms = mine
	x.patch(RootName(x.spec.Name), `{"metadata":{"labels":{"berth.dev/owner":"0123456789abcdef"},"annotations":{"berth.dev/owner":"rivals/cluster.edge"}}}`)
	x.refused(fmt.Sprintf("The root Application of cluster %q is not this configuration's", x.spec.Name), `is marked as cluster.edge of the configuration with owner "rivals". Nothing was deleted.`)
	// What somebody made anew under the name is not what the state holds.
	x.removal.Terms.UID = "of-another-one"
	secret := x.secret()
	secret.SetLabels(map[string]string{LabelSecretType: SecretTypeCluster})
	secret.SetAnnotations(nil)
	if _, err := x.client.Resource(cluster.Secrets.GVR()).Namespace(x.spec.Namespace).Update(x.t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		x.t.Fatal(err)
	}
	stays("carries no mark of this configuration", 1) // the kubeconfig's Secret is still ours
}

// Neither the management cluster (I76) nor another cluster than the registered one (I24) is taken apart.
func testIdentity(x *scene) {
	x.register()
	x.populate()
	apart := func(change func(*Clusters), uid string) error {
		secret := x.secret()
		annotations := secret.GetAnnotations()
		annotations[AnnotationClusterUID] = uid
		secret.SetAnnotations(annotations)
		if _, err := x.client.Resource(cluster.Secrets.GVR()).Namespace(x.spec.Namespace).Update(x.t.Context(), secret, metav1.UpdateOptions{}); err != nil {
			x.t.Fatal(err)
		}
		clusters := x.clusters()
		change(&clusters)
		writes := x.proxy.Writes()
		_, err := Remove(x.t.Context(), clusters, x.spec, x.removal)
		want(x.t, "writes", x.proxy.Writes()-writes, 0)
		_, planned := PlanRemoval(x.t.Context(), clusters, x.spec, x.removal)
		want(x.t, "the plan's error", fmt.Sprint(planned), fmt.Sprint(err))
		return err
	}
	management := fmt.Sprintf("Cluster %q is the management cluster", x.spec.Name)
	told(x.t, apart(func(c *Clusters) { c.Workload = c.Management }, ""), management, "which can't be taken apart. Nothing was deleted.", "in_cluster = true")
	// One that does not answer is known by what the Secret says.
	told(x.t, apart(func(c *Clusters) { c.Unreachable = errDead }, x.stage.management.UID()), management)
	told(x.t, apart(func(*Clusters) {}, "of-another-cluster"), fmt.Sprintf("Cluster %q is not the one that is registered", x.spec.Name),
		"registers the cluster with UID of-another-cluster, and work leads to one with UID "+x.stage.workload.UID(), `Point clusters["work"] at the registered cluster.`)
	want(x.t, "what happened", x.happened(), "")
}

// With deletion_policy = "retain" only the marks go, those of a removal that was begun included.
func testRetain(x *scene) {
	x.register()
	x.populate()
	x.patch("web", `{"metadata":{"annotations":{"berth.dev/removal":"`+x.spec.Name+`","berth.dev/removal-path":"0"}}}`)
	x.patch("db", `{"metadata":{"annotations":{"berth.dev/removal":"another","berth.dev/removal-path":"0"}}}`)
	x.removal.Retain = true
	before := x.left()
	warnings, err := x.remove(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	want(x.t, "what is left", x.left(), before)
	want(x.t, "what happened", x.happened(), "")
	warned(x.t, warnings, fmt.Sprintf("Cluster %q stays registered", x.spec.Name), `Because deletion_policy is "retain"`, "without the marks of this configuration")
	x.unmarked("")
	want(x.t, "the mark of another cluster's removal", x.app("db").GetAnnotations()[AnnotationRemoval], "another")
}

func (x *scene) app(name string) *unstructured.Unstructured {
	x.t.Helper()
	app, err := x.apps().Get(x.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		x.t.Fatal(err)
	}
	return app
}

// unmarked fails the test where a mark of berth is left on the Secret, the root, or web; removal is the mark that web may have.
func (x *scene) unmarked(removal string) {
	x.t.Helper()
	objects := []*unstructured.Unstructured{x.app(RootName(x.spec.Name)), x.app("web")}
	if !x.spec.InCluster {
		objects = append(objects, x.secret())
	}
	for _, one := range objects {
		for key, value := range one.GetAnnotations() {
			if strings.HasPrefix(key, "berth.dev/") && (key != AnnotationRemoval || value != removal) {
				x.t.Errorf("%s still carries %s=%s", kube.Describe(one), key, value)
			}
		}
		if one.GetLabels()[kube.LabelManagedBy] != "" {
			x.t.Errorf("%s is still managed by %s", kube.Describe(one), one.GetLabels()[kube.LabelManagedBy])
		}
	}
}

// A registration that berth adopted stays, as everything does that was adopted (Y1); the plan says so.
func testAdopted(x *scene) {
	x.register()
	x.populate()
	secret := x.secret()
	annotations := secret.GetAnnotations()
	delete(annotations, kube.AnnotationCreated)
	secret.SetAnnotations(annotations)
	if _, err := x.client.Resource(cluster.Secrets.GVR()).Namespace(x.spec.Namespace).Update(x.t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		x.t.Fatal(err)
	}
	planned, err := PlanRemoval(x.t.Context(), x.clusters(), x.spec, x.removal)
	if err != nil {
		x.t.Fatal(err)
	}
	before := x.left()
	warnings, err := x.remove(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	want(x.t, "the plan's warnings", planned, warnings)
	warned(x.t, warnings, fmt.Sprintf("Cluster %q stays registered", x.spec.Name), "Because it was adopted, not registered by berth")
	want(x.t, "what is left", x.left(), before)
	x.unmarked("")
}

// A second registration of the management cluster is ended without touching anything else there (I23, I76, I80, I106).
func testInCluster(x *scene) {
	x.spec.InCluster = true
	x.spec.Built, x.removal.ReleaseCloudResources, x.removal.BackupDisks = true, true, true // all without effect here
	x.register()
	x.populate()
	x.add(x.application("beside", "", 0))
	x.add(x.application("shop-eu", RootName(x.spec.Name), 0, zoned))
	on := func() Clusters { c := x.clusters(); c.Workload = c.Management; return c }
	_, err := Remove(x.t.Context(), on(), x.spec, x.removal)
	told(x.t, err, fmt.Sprintf("1 environment(s) are placed on cluster %q", x.spec.Name))
	x.mu.Lock()
	x.brings[RootName(x.spec.Name)] = x.brings[RootName(x.spec.Name)][:len(x.brings[RootName(x.spec.Name)])-1]
	x.mu.Unlock()
	x.stage.management.Kubectl(x.t, "delete", "applications.argoproj.io", "-n", x.spec.Namespace, "shop-eu")
	// The removal is noted on the root, and on what is left without it.
	x.hold("web", true)
	x.removal.StepTimeout = stuckAfter
	stop := x.work()
	defer stop()
	_, err = Remove(x.t.Context(), on(), x.spec, x.removal)
	told(x.t, err, fmt.Sprintf(`Removing cluster %q is stuck at the step "applications"`, x.spec.Name))
	inventory, err := TakeInventory(x.t.Context(), on(), x.spec, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	want(x.t, "the step in the inventory", inventory.Step, StepApplications)
	// Nothing else of the registration is there, and a refresh must not lose it (I80).
	seen, err := Read(x.t.Context(), on(), x.spec, x.removal.Terms, true)
	if err != nil || seen == nil || seen.RemovalStep != StepApplications {
		x.t.Fatalf("a refresh sees %+v, %v", seen, err)
	}
	x.hold("web", false)
	x.removal.StepTimeout = time.Minute
	warnings, err := Remove(x.t.Context(), on(), x.spec, x.removal)
	if err != nil {
		x.t.Fatal(err)
	}
	stop()
	want(x.t, "what happened", x.happened(), x.inOrder())
	want(x.t, "what is left", x.left(), []string{"beside"})
	want(x.t, "warnings", len(warnings), 1)
	if seen, err = Read(x.t.Context(), on(), x.spec, x.removal.Terms, true); err != nil || seen != nil {
		x.t.Errorf("when all of it is gone a refresh sees %+v, %v", seen, err)
	}
}
