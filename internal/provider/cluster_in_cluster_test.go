package provider_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// The management cluster itself under a name of its own, with the real Argo CD: a root Application and nothing else, whose
// file somebody else commits, and which berth watches until it is there; its children go to the cluster that Argo CD runs in
// (I7, I8, I23, I105, I106, Y13, Y15).
func TestClusterInCluster(t *testing.T) {
	t.Parallel()
	fleet := fleettest.New(t, fleettest.ClusterSpec{Name: "mgmt", Engines: []fleettest.Engine{fleettest.EngineArgoCD}})
	mgmt := fleet.Cluster("mgmt")
	proxy := mgmt.Proxy(t, fleettest.ProxyOptions{})
	b := &argoBench{
		bench: &bench{Workspace: tofutest.New(t, tofutest.Options{}), t: t, cluster: mgmt, proxy: proxy, owner: unique("team")},
		mgmt:  mgmt, edge: mgmt, edgeProxy: proxy, git: fleettest.NewGitRepository(t), name: unique("home"),
	}
	b.block = providerBlock(b.owner, clusters{"mgmt": byPath(t, proxy.AdminKubeconfig())})
	block := func(more ...string) string {
		return fmt.Sprintf("resource \"berth_cluster\" \"edge\" {\nmanagement = \"mgmt\"\nname = %q\nin_cluster = true\n%s\n}\n", b.name, strings.Join(more, "\n"))
	}
	root := func(more string) string {
		return fmt.Sprintf("app_of_apps = {\nrepo_url = %q\nrevision = \"main\"\n%s\n}", b.git.URL(), more)
	}
	same := func(what string, got, want any) { t.Helper(); same(t, what, got, want) }

	b.use(block(root("commit = true")))
	b.MustApply()
	b.PlanIsEmpty()
	state := b.Resource(edge)
	same("outputs", row(state["cluster"], state["cluster_uid"], state["management_uid"], state["id"], state["argocd_secret"], state["kubeconfig_secret"], state["argocd_server"], state["root_application"], state["kubernetes_version"]),
		row("mgmt", mgmt.UID(), mgmt.UID(), "mgmt/mgmt/"+b.name, nil, nil, "https://kubernetes.default.svc", "argocd/registry-"+b.name, mgmt.Version()))
	same("conditions", b.conditionsOf(edge), map[string]string{"Connected": "True Reached", "Registered": "False AwaitingCommit"})
	same("what Argo CD has", row(b.app("registry-"+b.name) == nil, b.clusterSecret() == nil), row(true, true))

	// Somebody commits the files, beside the cluster's first Application, which names its destination as the README says.
	files := map[string]string{
		"apps/first/config.yaml": configMap("default", b.name, "one"),
		// Argo CD never prunes the last object of an Application.
		"registry/clusters/mgmt/components/other.yaml": configMap("argocd", "other", "kept"),
	}
	for path, content := range state["gitops_files"].(map[string]any) {
		files[path] = content.(string)
	}
	readme := files[b.components("README.md")]
	if !strings.Contains(readme, "server: https://kubernetes.default.svc\n") {
		t.Errorf("the README does not name the destination:\n%s", readme)
	}
	files[b.components("app.yaml")] = strings.Replace(b.application(b.name+"-app", "apps/first", 0), "name: "+b.name+", namespace: default", `server: "https://kubernetes.default.svc", namespace: default`, 1)
	b.git.Commit(t, "register the cluster", files)
	// What brings the management cluster's own Applications.
	b.cluster.KubectlInput(t, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: registry, namespace: argocd}
spec:
  project: default
  source: {repoURL: %q, targetRevision: main, path: registry/clusters/mgmt/components}
  destination: {server: "https://kubernetes.default.svc", namespace: argocd}
  syncPolicy: {automated: {prune: true, selfHeal: true}}
`, b.git.URL()), "create", "-f", "-")
	b.awaitSynced("registry-" + b.name)
	b.awaitSynced(b.name + "-app")
	b.awaitOnEdge("default", b.name, "one")
	b.PlanIsEmpty()
	b.Refresh()
	same("conditions", b.conditionsOf(edge), map[string]string{"Connected": "True Reached", "Registered": "True Applied", "Synced": "True Synced"})
	same("a registration that was committed is imported", importedPlan(b, block(root("commit = true"))), "empty")

	// As long as the repository has the file, nobody else can have the Application.
	b.use(block(root(""), "deletion_protection = false"))
	b.Plan().Error(t, "^Application/argocd/registry-"+b.name+" exists already and is not berth's$", "It is kept in place by argocd/registry, which would revert what berth changes")
	b.use(block(root("commit = true"), "deletion_protection = false"))
	b.MustApply()
	gone := map[string]string{}
	for path := range state["gitops_files"].(map[string]any) {
		if strings.HasSuffix(path, "/registry-"+b.name+".yaml") {
			gone[path] = ""
		}
	}
	b.git.Commit(t, "take the root out again", gone)
	fleettest.Eventually(t, func(context.Context) error {
		if b.app("registry-"+b.name) != nil {
			return fmt.Errorf("Argo CD has not pruned the root yet")
		}
		return nil
	})
	b.Refresh()
	same("conditions", b.conditionsOf(edge)["Registered"], "False AwaitingCommit")

	// From here on berth applies it.
	b.use(block(root(""), "deletion_protection = false"))
	b.MustApply()
	b.awaitSynced("registry-" + b.name)
	b.PlanIsEmpty()
	same("marks", marksOf(b.app("registry-"+b.name)), fmt.Sprintf("managed-by=berth owner=%s/cluster.%s created=true", b.owner, b.name))
	same("a registration that was applied is imported", importedPlan(b, block(root(""))), "empty")
	b.MustDestroy()
	same("what is left", row(b.app("registry-"+b.name) == nil, b.app(b.name+"-app") == nil, b.onEdge("default", b.name), b.app("registry") == nil), row(true, true, "", false))
}

// importedPlan imports the registration into a workspace of its own and tells what the plan then is.
func importedPlan(b *argoBench, config string) string {
	b.t.Helper()
	imported := &bench{Workspace: tofutest.New(b.t, tofutest.Options{}), t: b.t, cluster: b.mgmt, proxy: b.proxy, owner: b.owner, block: b.block}
	imported.use(config)
	imported.MustImport(edge, "mgmt/mgmt/"+b.name)
	imported.PlanIsEmpty()
	return "empty"
}

// The root Application and its files: exactly as documented, changed, handed over and taken back, and taken out (I7, I8, I98,
// I105, Y15).
func TestClusterRoot(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	name := "registry-" + p.name
	p.use(p.clusterBlock())
	p.MustApply()
	same(t, "without", row(p.app(name) == nil, p.conditions()["Registered"], p.Resource(edge)["gitops_files"]), row(true, "True SecretOnly", nil))

	p.use(p.clusterBlock(p.root()))
	planned := p.MustPlan().Change(t, edge)
	p.MustApply()
	p.PlanIsEmpty()
	path := "registry/clusters/" + p.name + "/components"
	spec := map[string]any{
		"project":     "default",
		"source":      map[string]any{"repoURL": "https://git.example.com/platform/gitops.git", "targetRevision": "HEAD", "path": path},
		"destination": map[string]any{"server": "https://kubernetes.default.svc", "namespace": p.space},
		"syncPolicy": map[string]any{
			"automated": map[string]any{"prune": true, "selfHeal": true}, "syncOptions": []any{"RespectIgnoreDifferences=true"},
			"retry": map[string]any{"limit": 5, "backoff": map[string]any{"duration": "10s", "factor": 2, "maxDuration": "3m"}},
		},
		"ignoreDifferences": []any{map[string]any{"group": "argoproj.io", "kind": "Application", "jsonPointers": []any{"/metadata/finalizers"}}},
	}
	live := p.app(name)
	same(t, "the root", live.Object["spec"], spec)
	same(t, "no finalizer", len(live.GetFinalizers()), 0)
	same(t, "conditions", p.conditions(), map[string]string{"Connected": "True Reached", "Registered": "True Applied", "Synced": "Unknown NotSeen"})
	file := `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: ` + name + `
  namespace: ` + p.space + `
spec:
  destination:
    namespace: ` + p.space + `
    server: https://kubernetes.default.svc
  ignoreDifferences:
  - group: argoproj.io
    jsonPointers:
    - /metadata/finalizers
    kind: Application
  project: default
  source:
    path: ` + path + `
    repoURL: https://git.example.com/platform/gitops.git
    targetRevision: HEAD
  syncPolicy:
    automated:
      prune: true
      selfHeal: true
    retry:
      backoff:
        duration: 10s
        factor: 2
        maxDuration: 3m
      limit: 5
    syncOptions:
    - RespectIgnoreDifferences=true
`
	files := p.Resource(edge)["gitops_files"].(map[string]any)
	same(t, "known at plan", planned.After["gitops_files"], files)
	same(t, "the file of the root", files["registry/clusters/mgmt/components/"+name+".yaml"], file)
	readme, _ := files[path+"/README.md"].(string)
	for _, part := range []string{"# " + p.name + "\n", "root Application `" + name + "`", "    name: " + p.name + "\n", "argocd.argoproj.io/sync-wave", "berth.dev/remove-last: \"true\"", "berth.dev/zone"} {
		if !strings.Contains(readme, part) {
			t.Errorf("the README lacks %q:\n%s", part, readme)
		}
	}
	same(t, "files", len(files), 2)

	// Changed in place.
	p.kubectl("-n", p.space, "create", "-f", p.project("fleet"))
	p.use(p.clusterBlock(p.root(`revision = "v2"`, `path = "somewhere/else"`, `project = "fleet"`, `management_path = "platform/apps"`)))
	p.MustApply()
	p.PlanIsEmpty()
	changed := p.app(name)
	same(t, "changed", row(fieldOf(changed, "spec", "source", "targetRevision"), fieldOf(changed, "spec", "source", "path"), fieldOf(changed, "spec", "project"), changed.GetUID()), row("v2", "somewhere/else", "fleet", live.GetUID()))
	files = p.Resource(edge)["gitops_files"].(map[string]any)
	same(t, "the files move", row(files["platform/apps/"+name+".yaml"] != nil, files["somewhere/else/README.md"] != nil), row(true, true))

	// Handed over to the repository: it stays, without berth's marks, and is no longer looked after.
	p.use(p.clusterBlock(p.root("commit = true")))
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "handed over", row(p.app(name).GetUID(), marksOf(p.app(name)), fieldOf(p.app(name), "spec", "source", "path"), p.conditions()["Registered"]), row(live.GetUID(), noMarks, "somewhere/else", "True Applied"))
	p.kubectl("-n", p.space, "delete", "application", name)
	p.PlanIsEmpty()
	p.Refresh()
	same(t, "awaited", p.conditions()["Registered"], "False AwaitingCommit")
	same(t, "what it says", strings.Contains(fmt.Sprint(p.Resource(edge)["conditions"]), "commit gitops_files to https://git.example.com/platform/gitops.git"), true)

	// Taken back from what keeps it, when that is named.
	p.application(p.name, "registry")
	p.use(p.clusterBlock(p.root(), "adopt = true"))
	p.Plan().Error(t, "^Application/"+p.space+"/"+name+" is kept in place by argocd/registry$", `name it in adopt_from = \["argocd/registry"\]`)
	p.use(p.clusterBlock(p.root(), "adopt = true", `adopt_from = ["argocd/registry"]`))
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "taken back", row(marksOf(p.app(name)), fieldOf(p.app(name), "spec", "source", "path")), row(p.owned(false), path))
	p.kubectl("-n", p.space, "delete", "application", name)
	same(t, "drift", p.MustPlan().Change(t, edge).Before["drift"], map[string]any{"Application/" + p.space + "/" + name: "missing → present"})
	p.MustApply()

	// Taken out: the root goes, and nothing of what it deploys, with a finalizer that somebody gave it too.
	p.kubectl("-n", p.space, "patch", "application", name, "--type=merge", "-p", `{"metadata":{"finalizers":["resources-finalizer.argocd.argoproj.io"]}}`)
	p.use(p.clusterBlock())
	plan := p.MustPlan()
	plan.Warning(t, `^The root Application of "`+p.name+`" goes$`, "is deleted without what it deploys. Its Applications stay, and no longer follow the repository")
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "taken out", row(p.app(name) == nil, p.secret() != nil, p.Resource(edge)["root_application"]), row(true, true, nil))
	p.MustDestroy()
}

// project is a file with an AppProject.
func (p *pair) project(name string) string {
	p.t.Helper()
	p.Write(name+".yaml", "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: "+name+"}\nspec: {}\n")
	return p.Dir + "/" + name + ".yaml"
}

// What a module of ours has built says where it runs, also when it says so later (I18, I25, I26, I44, I45).
func TestClusterRegistration(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	placed := func() string {
		labels := p.secret().Labels
		state := p.Resource(edge)
		return row(labels["berth.dev/provider"], labels["berth.dev/flavor"], labels["berth.dev/region"], state["provider_name"], state["flavor"], state["region"])
	}
	p.use(p.clusterBlock())
	p.MustApply()
	same(t, "as its nodes say", placed(), row("", "", "us-east-1", nil, nil, "us-east-1"))
	p.use(p.clusterBlock(`registration = { module = "eks-cluster", provider_name = "aws", flavor = "eks", region = "eu-central-1" }`))
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "as the module says", placed(), row("aws", "eks", "eu-central-1", "aws", "eks", "eu-central-1"))
	p.use(p.clusterBlock(`registration = { module = "eks-cluster", provider_name = "aws", flavor = "eks", region = "eu-central-1" }`, `region = "elsewhere"`))
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "as the configuration says", placed(), row("aws", "eks", "elsewhere", "aws", "eks", "elsewhere"))
	p.use(p.clusterBlock())
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "what is left out stays (I26)", placed(), row("aws", "eks", "elsewhere", "aws", "eks", "elsewhere"))
	p.MustDestroy()
	p.use(p.clusterBlock(`registration = { module = "gke-cluster", provider_name = "gcp" }`, `removal = { release_cloud_resources = true }`))
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "new, by a module", placed(), row("gcp", "", "us-east-1", "gcp", nil, "us-east-1"))
}

// What the registration is called, or whose it is, can only be changed by a replacement, which is one apply, and which
// deletion_protection refuses; the name of its Secret can't (I15, I16, I79).
func TestClusterReplaced(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	p.use(p.clusterBlock(p.root(), "deletion_protection = true"))
	p.MustApply()
	old := p.name
	renamed := unique("edge")
	p.use(p.clusterBlock(p.root(), "deletion_protection = true", fmt.Sprintf("name = %q", renamed)))
	p.reset()
	protected := `^Cluster "` + old + `" is protected from being removed$`
	p.Plan().Error(t, protected, "^refusing: The plan replaces it, which takes its Applications down first, and deletion_protection is true. Nothing was deleted. Set deletion_protection = false and apply that first")
	p.use(p.clusterBlock(p.root(), "deletion_protection = true", `argocd_namespace = "elsewhere"`))
	p.Plan().Error(t, protected)
	p.use(p.clusterBlock(p.root(), "deletion_protection = true", `secret_name = "another"`))
	p.Plan().Error(t, `^The Secret of "`+old+`" cannot be renamed$`, `^refusing: it is "cluster-`+old+`", and "another" is asked for\..*Set .?secret_name.? back, or leave it out\. Nothing was applied`)
	p.unwritten()

	// The knobs of the destruction are the state's alone (promise 5).
	p.use(p.clusterBlock(p.root(), "deletion_protection = false", `removal = { step_timeout = "1m", controllers = ["dns"] }`, `force_steps = ["applications"]`, `token_lifetime = "48h"`, `deletion_policy = "retain"`))
	p.reset()
	p.MustApply("-refresh=false")
	same(t, "requests", row(len(p.proxy.Requests()), len(p.edgeProxy.Requests())), row(0, 0))
	p.use(p.clusterBlock(p.root()))
	p.MustApply()

	p.use(p.clusterBlock(p.root(), fmt.Sprintf("name = %q", renamed)))
	plan := p.MustPlan()
	if change := plan.Change(t, edge); !change.Is("delete", "create") || change.After["id"] != "mgmt/edge/"+renamed {
		t.Fatalf("another name: %v", change.Actions)
	}
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "the old one", row(p.secret() == nil, p.kubeconfig() == nil, p.app("registry-"+old) == nil), row(true, true, true))
	p.name = renamed
	same(t, "the new one", row(p.secret() != nil, p.kubeconfig() != nil, p.app("registry-"+renamed) != nil), row(true, true, true))

	// The same name in another Argo CD, which is nothing that an earlier apply has left.
	uid := p.secret().UID
	next := unique("argo")
	p.mgmt.CreateArgoCDNamespace(t, next)
	p.use(p.clusterBlock(p.root(), fmt.Sprintf("argocd_namespace = %q", next)))
	for _, warning := range p.MustPlan().Warnings() {
		if strings.Contains(warning.Summary, "carries berth's mark") {
			t.Errorf("a replacement is no interrupted apply: %s", warning)
		}
	}
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "the old one", p.secret() == nil, true)
	p.space = next
	same(t, "the new one", row(p.secret() != nil, p.secret().UID == uid), row(true, false))
	p.MustDestroy()
}
