package provider_test

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// awaitRefused waits until the workload cluster takes a token no more; its API server looks into caches.
func (b *argoBench) awaitRefused(token string) {
	b.t.Helper()
	fleettest.Eventually(b.t, func(ctx) error {
		if b.accepted(token) {
			return fmt.Errorf("a token that was revoked is still accepted")
		}
		return nil
	})
}

// A rotation is one apply, in which Argo CD gets the new token before the old one is taken back, and goes on syncing; a token
// that was revoked by hand shows, and is replaced in one apply too (I13, I24, I42, I101, acceptance 1).
func TestClusterRotation(t *testing.T) {
	t.Parallel()
	fleet := newArgoFleet(t, "edge")
	b := newArgoBench(t, fleet, "edge", unique("team"), tofutest.Options{})
	b.git.Commit(t, "the cluster's first Application", map[string]string{
		b.components("app.yaml"): b.application(b.name+"-app", "apps/first", 1),
		"apps/first/config.yaml": configMap("default", "first", "one"),
	})
	b.use(b.accessBlock() + b.clusterBlock(byAccess, b.root()))
	b.MustApply()
	b.awaitOnEdge("default", "first", "one")
	first := b.config().BearerToken

	b.use(b.accessBlock("token_version = 2") + b.clusterBlock(byAccess, b.root()))
	plan := b.MustPlan()
	same(t, "the registration follows", plan.Change(t, edge).Actions, []string{"update"})
	b.MustApply()
	b.PlanIsEmpty().NoWarnings(t)
	second := b.config().BearerToken
	same(t, "the new token", row(second == first, second == string(secretOn(t, b.edge, "kube-system", b.name+"-token-2").Data["token"])), row(false, true))
	same(t, "the old one", secretOn(t, b.edge, "kube-system", b.name+"-token") == nil, true)
	b.awaitRefused(first)
	b.kubeconfigWorks()
	b.git.Commit(t, "a change", map[string]string{"apps/first/config.yaml": configMap("default", "first", "two")})
	b.awaitOnEdge("default", "first", "two")

	// Revoked by hand.
	b.edge.Kubectl(t, "-n", "kube-system", "delete", "secret", b.name+"-token-2")
	broken := b.MustPlan().Change(t, edge)
	same(t, "drift", broken.Before["drift"], map[string]any{"Secret/argocd/cluster-" + b.name + " credential": "the token was revoked → a new one"})
	connected := broken.Before["conditions"].(map[string]any)["Connected"].(map[string]any)
	same(t, "Connected", row(connected["status"], connected["reason"], connected["message"]), row("False", "CredentialRefused", "Secret kube-system/"+b.name+`-token-2 with the token of its ServiceAccount is missing on cluster "edge"`))
	b.use(b.accessBlock("token_version = 3") + b.clusterBlock(byAccess, b.root()))
	b.MustApply()
	b.PlanIsEmpty()
	same(t, "Connected again", b.conditionsOf(edge)["Connected"], "True Reached")
	b.awaitRefused(second)
	b.git.Commit(t, "another change", map[string]string{"apps/first/config.yaml": configMap("default", "first", "three")})
	b.awaitOnEdge("default", "first", "three")
	b.MustDestroy()
	b.gone()
}

// minted are the Secrets that minted tokens of the test's ServiceAccount are bound to.
func (p *pair) minted() []string {
	p.t.Helper()
	all, err := p.edge.Client().CoreV1().Secrets("kube-system").List(p.t.Context(), metav1.ListOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	var names []string
	for _, one := range all.Items {
		if one.Annotations["berth.dev/service-account"] == p.name {
			names = append(names, one.Name)
		}
	}
	return names
}

// age makes the token look as if two thirds of its life were over.
func (p *pair) age() {
	p.t.Helper()
	at := func(from time.Duration) string { return time.Now().Add(from).UTC().Format(time.RFC3339) }
	p.kubectl("-n", p.space, "annotate", "--overwrite", "secret", "cluster-"+p.name, "berth.dev/token-issued="+at(-21*time.Hour), "berth.dev/token-expires="+at(10*time.Hour))
}

// Without a long-lived token the registration mints its own, says when it ends, and renews it in the last third of its life:
// the new one is with Argo CD before the old one is refused. Nobody else's end of it goes unseen (I13, I24, I101).
func TestClusterMinted(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	config := p.accessBlock("token_secret = false") + p.clusterBlock(byAccess, `token_lifetime = "30h"`)
	p.use(config)
	p.MustApply()
	p.PlanIsEmpty().NoWarnings(t)
	first := p.argo().BearerToken
	expires, err := time.Parse(time.RFC3339, p.Resource(edge)["token_expires_at"].(string))
	if left := time.Until(expires); err != nil || left < 29*time.Hour || left > 30*time.Hour {
		t.Errorf("token_expires_at is in %s: %v", left, err)
	}
	same(t, "what the Secret says of it", row(p.secret().Annotations["berth.dev/credential"], []string{p.secret().Annotations["berth.dev/token"]}), row("access", p.minted()))
	if !p.accepted(first) || !strings.Contains(string(p.kubeconfig().Data["kubeconfig"]), first) {
		t.Error("the token is not accepted, or not the one in the kubeconfig")
	}

	p.age()
	bound := p.minted()
	aged := p.MustPlan().Change(t, edge)
	drift := aged.Before["drift"].(map[string]any)
	same(t, "drift", len(drift), 1)
	if text := fmt.Sprint(drift["Secret/"+p.space+"/cluster-"+p.name+" credential"]); !strings.HasPrefix(text, "the token expires at 20") || !strings.HasSuffix(text, "Z on → a new one") {
		t.Errorf("drift: %v", drift)
	}
	same(t, "plan", row(aged.Actions, aged.AfterUnknown["token_expires_at"]), row([]string{"update"}, true))
	// The new one is with Argo CD before the old one goes.
	p.edgeProxy.OnWrite(func(_ int, request fleettest.Request) {
		if request.Verb == "delete" && request.Name == bound[0] && p.argo().BearerToken == first {
			t.Error("the old token was revoked while Argo CD still had it")
		}
	}, nil)
	p.MustApply()
	p.edgeProxy.OnWrite(nil, nil)
	p.PlanIsEmpty().NoWarnings(t)
	second := p.argo().BearerToken
	if second == first || !p.accepted(second) || !strings.Contains(string(p.kubeconfig().Data["kubeconfig"]), second) || len(p.minted()) != 1 {
		t.Errorf("not renewed: the same %t, in use %v", second == first, p.minted())
	}
	p.awaitRefused(first)

	// Revoked by hand.
	p.edge.Kubectl(t, "-n", "kube-system", "delete", "secret", p.minted()[0])
	revoked := p.MustPlan().Change(t, edge)
	same(t, "drift", revoked.Before["drift"], map[string]any{"Secret/" + p.space + "/cluster-" + p.name + " credential": "the token was revoked → a new one"})
	same(t, "Connected", row(revoked.Before["conditions"].(map[string]any)["Connected"].(map[string]any)["reason"]), "CredentialRefused")
	p.MustApply()
	p.PlanIsEmpty()
	third := p.argo().BearerToken
	same(t, "replaced", row(third == second, p.conditions()["Connected"], len(p.minted())), row(false, "True Reached", 1))

	// With its ServiceAccount every token goes, though the Secret that this one was bound to is still there.
	p.edge.Kubectl(t, "-n", "kube-system", "delete", "serviceaccount", p.name)
	p.MustApply("-target=berth_cluster_access.edge")
	p.awaitRefused(third)
	revoked = p.MustPlan().Change(t, edge)
	same(t, "drift", revoked.Before["drift"], map[string]any{"Secret/" + p.space + "/cluster-" + p.name + " credential": "the token was revoked → a new one"})
	p.MustApply()
	p.PlanIsEmpty()
	if fourth := p.argo().BearerToken; !p.accepted(fourth) || len(p.minted()) != 1 {
		t.Errorf("not replaced; in use: %v", p.minted())
	}

	// To a long-lived one and back, each by one apply.
	minted := p.argo().BearerToken
	p.use(p.accessBlock() + p.clusterBlock(byAccess, `token_lifetime = "30h"`))
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "a long-lived one", row(p.argo().BearerToken == string(secretOn(t, p.edge, "kube-system", p.name+"-token").Data["token"]), p.minted(), p.Resource(edge)["token_expires_at"]), row(true, []string(nil), nil))
	p.awaitRefused(minted)
	p.use(config)
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "minted again", row(len(p.minted()), secretOn(t, p.edge, "kube-system", p.name+"-token") == nil), row(1, true))
	p.MustDestroy()
	same(t, "tokens at the end", p.minted(), []string(nil))
}

// The credential of the entry is replaced in the configuration, by one of another kind too: both Secrets follow in place. One
// that leads to another cluster is an error that names both (I12, I24, promise 4).
func TestClusterEntryReplaced(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	first, second := p.lastingToken(), p.lastingToken()
	has := func(what, token string) {
		t.Helper()
		same(t, what, row(p.argo().BearerToken == token, strings.Contains(string(p.kubeconfig().Data["kubeconfig"]), token), p.secret().Annotations["berth.dev/credential"]), row(true, true, "connection"))
	}
	p.entries(clusters{"edge": p.tokenEntry(first)})
	p.use(p.clusterBlock())
	p.MustApply().NoWarnings(t)
	p.PlanIsEmpty()
	has("the first token", first)
	uids := row(p.secret().UID, p.kubeconfig().UID)

	p.entries(clusters{"edge": p.tokenEntry(second)})
	p.use(p.clusterBlock())
	change := p.MustPlan().Change(t, edge)
	same(t, "plan", row(change.Actions, change.Before["drift"]), row([]string{"update"}, map[string]any{
		"Secret/" + p.space + "/cluster-" + p.name + " data.config":                "(sensitive value) → (sensitive value)",
		"Secret/" + p.store + "/cluster-" + p.name + "-kubeconfig data.kubeconfig": "(sensitive value) → (sensitive value)",
	}))
	p.MustApply()
	p.PlanIsEmpty()
	has("the second token", second)

	admin := p.edgeProxy.AdminKubeconfig()
	p.entries(nil)
	p.use(p.clusterBlock())
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "the certificate", row(string(p.argo().TLSClientConfig.CertData) == string(admin.ClientCertificate), string(p.argo().TLSClientConfig.KeyData) == string(admin.ClientKey), p.argo().BearerToken), row(true, true, ""))
	same(t, "in place", row(p.secret().UID, p.kubeconfig().UID), uids)

	// By hand: the annotation that says where the credential is from does not make it somebody else's.
	p.kubectl("-n", p.space, "annotate", "secret", "cluster-"+p.name, "berth.dev/credential-")
	same(t, "drift", p.MustPlan().Change(t, edge).Before["drift"], map[string]any{"Secret/" + p.space + "/cluster-" + p.name + " metadata.annotations.[berth.dev/credential]": "(none) → connection"})
	p.MustApply()
	p.PlanIsEmpty()

	// Another cluster.
	p.entries(clusters{"edge": byPath(t, p.proxy.AdminKubeconfig())})
	p.use(p.clusterBlock())
	p.reset()
	for _, result := range []*tofutest.Result{p.Plan(), p.Plan("-refresh=false"), p.Apply("-refresh=false")} {
		result.Error(t, `^Cluster "edge" is another cluster now$`, "the cluster with UID "+p.edge.UID(), "leads to the one with UID "+p.mgmt.UID(), "Nothing was applied")
	}
	p.unwritten()
	// Known only at the apply.
	p.entries(clusters{"edge": "kubeconfig = terraform_data.kubeconfig.output"})
	p.use(fmt.Sprintf("resource \"terraform_data\" \"kubeconfig\" {\ninput = %q\n}\n", p.proxy.AdminKubeconfig().Content()) + p.clusterBlock(`secret_labels = { tier = "edge" }`))
	p.reset()
	p.Apply().Error(t, `^Cluster "edge" is another cluster now$`, "UID "+p.edge.UID(), "UID "+p.mgmt.UID())
	p.unwritten()
	p.entries(nil)
	p.use(p.clusterBlock())
	p.MustApply()
	p.PlanIsEmpty()
	p.MustDestroy()
}

// From the entry's own credential to an access, to another one, and back: the new one is tried and given to Argo CD, and the
// use is taken off the old one (I13, I24, I25).
func TestClusterAccessSwitched(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	other := unique("other")
	accesses := p.accessBlock() + fmt.Sprintf("resource \"berth_cluster_access\" \"other\" {\ncluster = \"edge\"\nservice_account = %q\n}\n", other)
	users := func(account string) int {
		n := 0
		for key := range secretOn(t, p.edge, "kube-system", account+"-token").Labels {
			if strings.HasPrefix(key, "users.berth.dev/") {
				n++
			}
		}
		return n
	}
	token := func(account string) string {
		return string(secretOn(t, p.edge, "kube-system", account+"-token").Data["token"])
	}
	for _, step := range []struct{ what, argument, account string }{
		{"the entry's", "", ""},
		{"an access", byAccess, p.name},
		{"another one", "access = berth_cluster_access.other.id", other},
		{"the entry's again", "", ""},
	} {
		p.use(accesses + p.clusterBlock(step.argument))
		p.MustApply().NoWarnings(t)
		p.PlanIsEmpty().NoWarnings(t)
		for _, account := range []string{p.name, other} {
			want := 0
			if account == step.account {
				want = 1
			}
			same(t, step.what+": users of the token of "+account, users(account), want)
		}
		if step.account != "" {
			same(t, step.what, row(p.argo().BearerToken == token(step.account), len(p.argo().TLSClientConfig.CertData)), row(true, 0))
		} else {
			same(t, step.what, row(p.argo().BearerToken, string(p.argo().TLSClientConfig.CertData) == string(p.edgeProxy.AdminKubeconfig().ClientCertificate)), row("", true))
		}
	}
	// Runners destroy before they update, unless they are told otherwise: then the run that switches can also take away.
	p.use(accesses + p.clusterBlock(byAccess))
	p.MustApply()
	p.use(p.clusterBlock())
	p.Apply().Error(t, "^Tokens of ServiceAccount/kube-system/"+p.name+` are in use on cluster "edge"$`, "Nothing was deleted")
	same(t, "the token", p.accepted(p.argo().BearerToken), true)
	p.use(p.accessBlock("lifecycle {\ncreate_before_destroy = true\n}") + p.clusterBlock(byAccess))
	p.MustApply()
	p.use(p.clusterBlock())
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "the access is gone", secretOn(t, p.edge, "kube-system", p.name+"-token") == nil, true)
	p.MustDestroy()
}

// No token, key or kubeconfig is in a plan, a state, a diagnostic or a log, whatever the level and whatever goes wrong (I17,
// X9, promise 7).
func TestClusterKeepsCredentialsOut(t *testing.T) {
	t.Parallel()
	tofutest.EachRunner(t, func(t *testing.T, runner string) {
		log := filepath.Join(t.TempDir(), "provider.log")
		p := newPair(t, tofutest.Options{Runner: runner, Env: map[string]string{"TF_LOG_PROVIDER": "TRACE", "TF_LOG_PATH": log}})
		robot := unique("robot")
		own := lastingToken(t, p.edge, robot)
		block, _ := pem.Decode(p.edgeProxy.AdminKubeconfig().ClientKey)
		if block == nil {
			t.Fatal("the administrator's key is not PEM")
		}
		key := strings.Split(string(p.edgeProxy.AdminKubeconfig().ClientKey), "\n")[1]
		canaries := map[string]string{"the administrator's key": key, "the entry's token": own, "the signature of the entry's token": own[strings.LastIndex(own, ".")+1:]}
		searched := map[string]string{}
		note := func(result *tofutest.Result) *tofutest.Result {
			searched[result.Command] += result.Log + string(result.Raw)
			if result.ExitCode != 1 && strings.HasPrefix(result.Command, "plan ") {
				searched["the plan"] += string(withoutConfiguration(t, p.Command("show", "-json", "tofutest.plan").Raw))
			}
			searched["the state"] += string(p.StatePull())
			return result
		}
		remember := func(what string) {
			t.Helper()
			token := p.argo().BearerToken
			if token == "" {
				t.Fatalf("%s: Argo CD has no token", what)
			}
			canaries[what], canaries["the signature of "+what] = token, token[strings.LastIndex(token, ".")+1:]
		}

		p.use(p.accessBlock("token_secret = false") + p.clusterBlock(byAccess))
		note(p.MustPlan())
		note(p.MustApply())
		remember("the minted token")
		p.age()
		note(p.MustPlan())
		note(p.MustApply())
		remember("the renewed token")
		p.use(p.accessBlock() + p.clusterBlock(byAccess))
		note(p.MustApply())
		remember("the long-lived token")
		p.entries(clusters{"edge": p.tokenEntry(own)})
		p.use(p.accessBlock() + p.clusterBlock())
		note(p.MustPlan())
		note(p.MustApply())
		p.use(p.clusterBlock())
		note(p.MustApply())
		remember("the entry's token with Argo CD")
		// What goes wrong while it is handed on.
		p.kubectl("-n", p.space, "label", "secret", "cluster-"+p.name, "berth.dev/region=elsewhere", "--overwrite")
		restore := p.proxy.Fail(func(r fleettest.Request) bool { return r.Verb == "patch" && r.Resource == "secrets" && !r.DryRun }, fleettest.Forbidden)
		note(p.Apply()).Error(t, "could not be written")
		restore()
		p.edge.Kubectl(t, "-n", "kube-system", "delete", "secret", robot+"-token")
		p.awaitRefused(own)
		note(p.Plan()).Error(t, `does not accept the credential \(401\)`)
		p.entries(nil)
		p.use(p.clusterBlock())
		note(p.MustApply())
		note(p.MustDestroy())

		trace, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		searched["the provider's log"] = string(trace)
		if !strings.Contains(searched["the provider's log"], "request to the API server") {
			t.Error("the provider logged no request at TRACE, so there was nothing to search")
		}
		for where, text := range searched {
			for what, canary := range canaries {
				for _, form := range forms(canary) {
					if at := strings.Index(text, form); at >= 0 {
						t.Errorf("%s is in %s: …%s…", what, where, text[max(0, at-200):min(len(text), at+len(form)+80)])
					}
				}
			}
		}
	})
}

// forms are a secret as it is, and as a Secret has it.
func forms(secret string) []string {
	return []string{secret, base64.StdEncoding.EncodeToString([]byte(secret))}
}
