package provider_test

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// argoCDAdds makes what `argocd cluster add` makes: the ServiceAccount argocd-manager with its role and its token on the
// workload cluster, and the Secret on the management cluster, named and written as Argo CD does. It returns the Secret and the ServiceAccount.
func (p *pair) argoCDAdds(name string) (added *corev1.Secret, account string) {
	p.t.Helper()
	account = unique("argocd-manager")
	token := lastingToken(p.t, p.edge, account)
	server := p.edgeProxy.Server()
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(server))
	secret := fmt.Sprintf("cluster-127.0.0.1-%d", hash.Sum32())
	config := fmt.Sprintf(`{"bearerToken":%q,"tlsClientConfig":{"insecure":false,"caData":%q}}`, token, base64.StdEncoding.EncodeToString(p.edge.CA()))
	p.cluster.KubectlInput(p.t, fmt.Sprintf(`apiVersion: v1
kind: Secret
type: Opaque
metadata:
  name: %s
  namespace: %s
  labels: {argocd.argoproj.io/secret-type: cluster}
  annotations: {managed-by: argocd.argoproj.io}
stringData:
  name: %s
  server: %s
  config: '%s'
`, secret, p.space, name, server, config), "create", "-f", "-")
	return secretOn(p.t, p.mgmt, p.space, secret), account
}

// What `argocd cluster add` has made is imported with an empty plan and without a write. Its credential stays through changes,
// and as long as it works; then the one of the entry takes its place, or that of an access (I24, I100, I101, acceptance 3).
func TestClusterImportsArgoCDs(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	found, manager := p.argoCDAdds(p.name)
	live := func() *corev1.Secret { return secretOn(t, p.mgmt, p.space, found.Name) }
	own := p.lastingToken()
	p.entries(clusters{"edge": p.tokenEntry(own)})
	block := func(more ...string) string {
		return p.clusterBlock(append(more, "store_kubeconfig = false", `kubeconfig_namespace = "berth-clusters"`)...)
	}
	p.use(block("deletion_protection = true"))
	p.reset()
	p.MustImport(edge, "mgmt/edge/"+p.name)
	p.PlanIsEmpty().NoWarnings(t)
	p.unwritten()
	same(t, "the Secret", live().ResourceVersion, found.ResourceVersion)
	state := p.Resource(edge)
	same(t, "imported", row(state["secret_name"], state["argocd_secret"], state["secret_annotations"], state["access"], state["cluster_uid"], state["kubernetes_version"], p.conditions()),
		row(found.Name, p.space+"/"+found.Name, nil, nil, p.edge.UID(), p.edge.Version(), map[string]string{"Connected": "True Reached", "Registered": "True SecretOnly"}))

	p.use(block(`secret_labels = { tier = "edge" }`))
	p.MustApply()
	p.PlanIsEmpty()
	changed := live()
	same(t, "a change keeps the credential, in its own words", row(string(changed.Data["config"]) == string(found.Data["config"]), changed.UID == found.UID, changed.Labels["tier"], changed.Annotations["managed-by"], changed.Annotations["berth.dev/credential"]),
		row(true, true, "edge", "argocd.argoproj.io", "found"))
	same(t, "marks", marksOf(changed), p.owned(false))
	same(t, "where it runs is detected by then", row(changed.Labels["berth.dev/region"], p.Resource(edge)["region"]), row("us-east-1", "us-east-1"))

	// It is revoked: that is seen, and the entry's own takes its place.
	p.edge.Kubectl(t, "-n", "kube-system", "delete", "secret", manager+"-token")
	p.edge.Kubectl(t, "-n", "kube-system", "delete", "serviceaccount", manager)
	fleettest.Eventually(t, func(ctx) error {
		if p.accepted(bearer(t, found)) {
			return fmt.Errorf("the token of %s is still accepted", manager)
		}
		return nil
	})
	plan := p.MustPlan()
	change := plan.Change(t, edge)
	same(t, "drift", change.Before["drift"], map[string]any{
		"Secret/" + p.space + "/" + found.Name + " credential":                                  "the credential that was found does not work any more → a new one",
		"Secret/" + p.space + "/" + found.Name + " data.config":                                 "(sensitive value) → (sensitive value)",
		"Secret/" + p.space + "/" + found.Name + " metadata.annotations.[berth.dev/credential]": "found → connection",
	})
	same(t, "Connected", row(change.Before["conditions"].(map[string]any)["Connected"]), row(map[string]any{
		"status": "False", "reason": "CredentialRefused", "message": `Cluster "edge": its API server does not accept the credential (401)`,
	}))
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "the entry's own", row(bearer(t, live()), p.conditions()["Connected"]), row(own, "True Reached"))

	// An access from here on.
	p.use(p.accessBlock() + block(`secret_labels = { tier = "edge" }`, byAccess))
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "the access's", bearer(t, live()), string(secretOn(t, p.edge, "kube-system", p.name+"-token").Data["token"]))

	// What was found stays when the registration is destroyed, and so must the token that it has.
	p.Destroy().Error(t, `^Tokens of ServiceAccount/kube-system/`+p.name+` are in use on cluster "edge"$`, `set deletion_policy = "retain" to leave the access`)
	same(t, "marks", row(marksOf(live()), live().UID == found.UID, p.accepted(bearer(t, live()))), row(noMarks, true, true))
	p.use(p.accessBlock(`deletion_policy = "retain"`))
	p.MustApply()
	p.MustDestroy()
	same(t, "the token", p.accepted(bearer(t, live())), true)

	p.use(block("deletion_protection = true"))
	p.MustImport(edge, "mgmt/edge/"+p.name)
	p.use(block())
	p.MustApply("-refresh=false")
	p.MustDestroy().Warning(t, "^Cluster \""+p.name+"\" stays registered$", "Because it was adopted, not registered by berth")
	same(t, "what stays", row(marksOf(live()), live().UID == found.UID), row(noMarks, true))

	p.use(block("deletion_protection = true"))
	p.Import(edge, "mgmt/edge/"+unique("nobody")).Error(t, "^Cannot import non-existent remote object$")
	p.Import(edge, "mgmt/"+p.name).Error(t, `^"mgmt/`+p.name+`" is not an import ID of berth_cluster$`, "the managing cluster's key, the other cluster's key and the name with slashes between them")
}

// A credential that was found may be a token and a client certificate at once, as Argo CD takes it: it is imported, tried as it
// is, kept, and stored as a kubeconfig that has both; so it stays while one of the two is refused (I24, I100).
func TestClusterFoundBoth(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	found, manager := p.argoCDAdds(p.name)
	live := func() *corev1.Secret { return secretOn(t, p.mgmt, p.space, found.Name) }
	certificate := p.edge.UserKubeconfig(t, "found-too", "system:masters")
	encoded := func(data []byte) string { return base64.StdEncoding.EncodeToString(data) }
	config := fmt.Sprintf(`{"bearerToken":%q,"tlsClientConfig":{"insecure":false,"caData":%q,"certData":%q,"keyData":%q}}`, bearer(t, found), encoded(p.edge.CA()), encoded(certificate.ClientCertificate), encoded(certificate.ClientKey))
	// Past the proxy, which passes on one credential of a request.
	entry := p.edge.AdminKubeconfig()
	entry.ClientCertificate, entry.ClientKey, entry.Token = nil, nil, p.lastingToken()
	p.kubectl("-n", p.space, "patch", "secret", found.Name, "--type=merge", "-p", fmt.Sprintf(`{"data":{"server":%q,"config":%q}}`, encoded([]byte(entry.Server)), encoded([]byte(config))))
	p.entries(clusters{"edge": byContent(entry)})
	p.use(p.clusterBlock("store_kubeconfig = false", `kubeconfig_namespace = "berth-clusters"`, "deletion_protection = true"))
	p.MustImport(edge, "mgmt/edge/"+p.name)
	p.PlanIsEmpty().NoWarnings(t)
	same(t, "Connected", p.conditions()["Connected"], "True Reached")

	p.use(p.clusterBlock())
	p.MustApply().NoWarnings(t)
	p.PlanIsEmpty().NoWarnings(t)
	same(t, "it is kept", row(string(live().Data["config"]), live().Annotations["berth.dev/credential"]), row(config, "found"))
	stored, err := clientcmd.RESTConfigFromKubeConfig(p.kubeconfig().Data["kubeconfig"])
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the kubeconfig", row(stored.BearerToken == bearer(t, found), string(stored.CertData) == string(certificate.ClientCertificate), string(stored.KeyData) == string(certificate.ClientKey)), row(true, true, true))
	if _, err := whoIs(t.Context(), p.kubeconfig().Data["kubeconfig"]); err != nil {
		t.Errorf("it is not accepted: %v", err)
	}

	// The token is revoked: the certificate is still good.
	p.edge.Kubectl(t, "-n", "kube-system", "delete", "secret", manager+"-token")
	p.awaitRefused(bearer(t, found))
	p.PlanIsEmpty()
	p.Refresh()
	same(t, "Connected", p.conditions()["Connected"], "True Reached")
	p.MustDestroy()
}

// An import without any other credential is refused a change once the one that was found is of no use.
func TestClusterFoundAndLost(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	secret, _ := p.argoCDAdds(p.name)
	plugin := script(t, `printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}' "`+p.lastingToken()+`"`)
	config := p.edgeProxy.AdminKubeconfig()
	p.entries(clusters{"edge": fmt.Sprintf("host = %q\ncluster_ca_certificate = %q\nexec = {\napi_version = \"client.authentication.k8s.io/v1\"\ncommand = %q\n}", config.Server, config.CA, plugin)})
	block := func(more ...string) string {
		return p.clusterBlock(append(more, "store_kubeconfig = false", `kubeconfig_namespace = "berth-clusters"`)...)
	}
	p.use(block("deletion_protection = true"))
	p.MustImport(edge, "mgmt/edge/"+p.name)
	// What nobody can read is of no use either.
	p.kubectl("-n", p.space, "patch", "secret", secret.Name, "--type=merge", "-p", `{"stringData":{"config":"{"}}`)
	p.reset()
	refused := p.Plan()
	refused.Error(t, `^The credential of "`+p.name+`" does not work, and there is no other$`,
		"^refusing: the one in Secret "+p.space+"/"+secret.Name+" was there before berth, and is refused: the config in Secret .* is not what Argo CD reads. Set access to a berth_cluster_access, or give the cluster's entry a token or a client certificate. Nothing was applied")
	p.unwritten()
	p.use(p.accessBlock() + block("deletion_protection = true", byAccess))
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "the access's", bearer(t, secretOn(t, p.mgmt, p.space, secret.Name)), string(secretOn(t, p.edge, "kube-system", p.name+"-token").Data["token"]))
}

// What is there by the names is refused, and taken over when asked: with a list of what changes, with its UIDs, and left there
// by a destroy (X5, X6).
func TestClusterAdoption(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	found, _ := p.argoCDAdds(p.name)
	p.kubectl("create", "namespace", p.store)
	p.kubectl("-n", p.store, "create", "secret", "generic", "cluster-"+p.name+"-kubeconfig", "--from-literal=kubeconfig=theirs")
	p.application(p.name, "")
	kubeconfig, root := p.kubeconfig(), p.app("registry-"+p.name)
	named := fmt.Sprintf("secret_name = %q", found.Name)
	p.use(p.clusterBlock(named, p.root()))
	p.reset()
	p.Plan().Error(t, "^Secret/"+p.space+"/"+found.Name+" exists already and is not berth's$", "Set adopt = true")
	p.unwritten()
	// Somebody keeps it in place.
	p.kubectl("-n", p.space, "annotate", "secret", found.Name, "meta.helm.sh/release-name=clusters", "meta.helm.sh/release-namespace=argocd")
	p.use(p.clusterBlock(named, p.root(), "adopt = true"))
	p.Plan().Error(t, "^Secret/"+p.space+"/"+found.Name+" is kept in place by helm/argocd/clusters$", "name it in adopt_from")
	p.kubectl("-n", p.space, "annotate", "secret", found.Name, "meta.helm.sh/release-name-", "meta.helm.sh/release-namespace-")

	p.use(p.clusterBlock(named, p.root(), "adopt = true", `secret_labels = { tier = "edge" }`))
	plan := p.MustPlan()
	p.unwritten()
	for _, object := range []string{"Secret/" + p.space + "/" + found.Name, "Secret/" + p.store + "/" + kubeconfig.Name, "Application/" + p.space + "/registry-" + p.name} {
		plan.Warning(t, "^"+object+" exists and will be adopted$", "^It is on mgmt, keeps its UID, and stays there when the registration is destroyed")
	}
	plan.Warning(t, "^What adopting Secret/"+p.space+"/"+found.Name+" changes$", `metadata\.labels\.tier: \(none\) → edge`)
	plan.Warning(t, "^What adopting Secret/"+p.store+"/"+kubeconfig.Name+" changes$", `data\.kubeconfig: \(sensitive value\) → \(sensitive value\)`)
	plan.Warning(t, "^Application/"+p.space+"/registry-"+p.name+" exists and will be adopted$", `spec\.source\.path: there → registry/clusters/`+p.name+`/components`, `spec\.source\.repoURL: https://git\.example\.com/theirs\.git → `)
	if token := bearer(t, found); strings.Contains(plan.Log, token) {
		t.Error("the token is in a warning (X9)")
	}
	p.MustApply()
	p.PlanIsEmpty().NoWarnings(t)
	adopted := secretOn(t, p.mgmt, p.space, found.Name)
	same(t, "UIDs", row(adopted.UID, p.kubeconfig().UID, p.app("registry-"+p.name).GetUID()), row(found.UID, kubeconfig.UID, root.GetUID()))
	same(t, "marks", row(marksOf(adopted), marksOf(p.kubeconfig()), marksOf(p.app("registry-"+p.name))), row(p.owned(false), p.owned(false), p.owned(false)))
	same(t, "the credential works, and stays", row(string(adopted.Data["config"]), strings.Contains(string(p.kubeconfig().Data["kubeconfig"]), bearer(t, found))), row(string(found.Data["config"]), true))

	// Taken out of the configuration, an adopted root goes its own way.
	p.use(p.clusterBlock(named, "adopt = true", `secret_labels = { tier = "edge" }`))
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "the root", row(p.app("registry-"+p.name).GetUID(), marksOf(p.app("registry-"+p.name))), row(root.GetUID(), noMarks))
	// And what stands where the configuration asks for one now is not taken because the rest is ours.
	p.use(p.clusterBlock(named, `secret_labels = { tier = "edge" }`, p.root()))
	p.reset()
	p.Plan().Error(t, "^Application/"+p.space+"/registry-"+p.name+" exists already and is not berth's$", "Set adopt = true", "Nothing was applied")
	second := p.store + "-2"
	p.kubectl("create", "namespace", second)
	p.kubectl("-n", second, "create", "secret", "generic", kubeconfig.Name, "--from-literal=kubeconfig=theirs")
	p.use(p.clusterBlock(named, `secret_labels = { tier = "edge" }`, fmt.Sprintf("kubeconfig_namespace = %q", second)))
	p.Plan().Error(t, "^Secret/"+second+"/"+kubeconfig.Name+" exists already and is not berth's$", "Set adopt = true", "Nothing was applied")
	p.unwritten()

	p.use(p.clusterBlock(named, `secret_labels = { tier = "edge" }`))
	p.MustDestroy().Warning(t, "^Cluster \""+p.name+"\" stays registered$")
	same(t, "what stays", row(marksOf(secretOn(t, p.mgmt, p.space, found.Name)), marksOf(p.kubeconfig())), row(noMarks, noMarks))
}

// A lost state is no loss: the next apply goes on from what carries the marks, and a registration of berth's own is imported
// with an empty plan, whatever the namespace of its Argo CD (I100, X11).
func TestClusterStateLost(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	config := p.accessBlock() + p.clusterBlock(byAccess, p.root(), "deletion_protection = true", `secret_labels = { tier = "edge" }`, `namespaces = ["shop"]`, "cluster_resources = true", "shard = 1", `project = "p"`)
	p.use(config)
	p.MustApply()
	first := p.secret()
	p.Remove("terraform.tfstate")
	p.MustPlan().Warning(t, "^Secret/"+p.space+"/"+first.Name+" is there already and carries berth's mark$", "An earlier apply was interrupted, or its state was lost; this one goes on from it")
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "the Secret", row(p.secret().UID, marksOf(p.secret())), row(first.UID, p.owned(true)))

	p.Remove("terraform.tfstate")
	p.MustImport("berth_cluster_access.edge", "edge/kube-system/"+p.name)
	p.MustImport(edge, "mgmt/edge/"+p.name)
	p.PlanIsEmpty()
	// With the key of another cluster it is not the same registration.
	p.Remove("terraform.tfstate")
	p.entries(clusters{"another": byPath(t, p.proxy.AdminKubeconfig())})
	p.use(p.accessBlock() + p.clusterBlock(`cluster = "another"`, "deletion_protection = true"))
	p.Import(edge, "mgmt/another/"+p.name).Error(t, `^"another" is not the cluster that is registered as "`+p.name+`"$`,
		`was made for the cluster with UID `+p.edge.UID()+`, and clusters\["another"\] leads to the one with UID `+p.mgmt.UID()+`\. Import it with the key of the first one`)
}
