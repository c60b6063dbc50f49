package provider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest/tofutest"
)

// For an organization's cluster no private address is ever dialled: not at plan, not when what its connection is becomes
// known only at the apply, and not by an import, which learns whose it is from the Secret (I16, I66, promise 2).
func TestClusterOrg(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	admin := p.edgeProxy.AdminKubeconfig()
	refused := func(result *tofutest.Result, details ...string) {
		t.Helper()
		result.Error(t, `^Cluster "edge" has no public address$`, append(details, "^refusing: ", "An organization's cluster must have a public https address, and berth dials no other for it", "leave .?org.? out if it is not an organization's own", "Nothing was applied")...)
		same(t, "requests to the workload cluster", len(p.edgeProxy.Requests())+p.edgeProxy.Connections(), 0)
		same(t, "writes to the management cluster", p.proxy.Writes(), 0)
	}
	org := p.clusterBlock(`org = "acme"`)
	// Neither is it a cluster that does not answer.
	for _, unreachable := range []string{"error", "warn"} {
		p.entries(nil, fmt.Sprintf("on_unreachable = %q", unreachable))
		p.use(org)
		refused(p.Plan(), `clusters\["edge"\] leads to `+quoted(admin.Server)+`, and 127\.0\.0\.1 is loopback, this machine itself`)
		refused(p.Apply())
	}
	for server, reason := range map[string]string{
		"https://10.20.30.40:6443":                                 `10\.20\.30\.40 is private \(10\.0\.0\.0/8, RFC 1918\)`,
		"https://169.254.169.254":                                  `169\.254\.169\.254 is link-local`,
		"https://100.64.0.1:6443":                                  `100\.64\.0\.1 is shared behind a carrier-grade NAT`,
		"https://[::ffff:127.0.0.1]:443":                           `stands for 127\.0\.0\.1`,
		strings.Replace(admin.Server, "127.0.0.1", "localhost", 1): `localhost is this machine itself`,
	} {
		config := admin
		config.Server = server
		p.entries(clusters{"edge": byContent(config)})
		p.use(org)
		refused(p.Plan(), reason)
	}
	// A proxy would dial in berth's place.
	through := admin
	through.ProxyURL = "http://127.0.0.1:9"
	p.entries(clusters{"edge": byContent(through)})
	p.use(org)
	p.Plan().Error(t, `^Cluster "edge" is not dialled by berth itself$`, `has a proxy \(proxy_url, or proxy-url in its kubeconfig\), which would dial in berth's place`, "Nothing was applied")

	// Known only at the apply.
	p.entries(clusters{"edge": "kubeconfig = terraform_data.kubeconfig.output"})
	p.use(fmt.Sprintf("resource \"terraform_data\" \"kubeconfig\" {\ninput = %q\n}\n", admin.Content()) + org)
	p.MustPlan().Warning(t, `^The checks of berth_cluster "`+p.name+`" on cluster "mgmt" are put off to the apply$`, `Because the connection of cluster "edge" is not known yet`)
	refused(p.Apply(), `127\.0\.0\.1 is loopback`)
	same(t, "instances", len(p.Instances()), 1) // terraform_data

	// What an import finds.
	p.entries(nil)
	p.bySomebody(p.space, "cluster-"+p.name, p.name, admin.Server)
	p.kubectl("-n", p.space, "label", "secret", "cluster-"+p.name, "berth.dev/org=acme")
	p.use(org)
	p.reset()
	refused(p.Import(edge, "mgmt/edge/"+p.name))
	same(t, "instances", len(p.Instances()), 1)

	// The platform's own may be anywhere.
	p.kubectl("-n", p.space, "delete", "secret", "cluster-"+p.name)
	p.use(p.clusterBlock())
	p.MustApply()
	p.PlanIsEmpty()
	p.reset()
	p.use(org)
	refused(p.Plan("-refresh=false"))

	// To give it to an organization is to replace it, which shows where nothing is dialled.
	p.entries(clusters{"edge": "kubeconfig = terraform_data.late.output"})
	late := fmt.Sprintf("resource \"terraform_data\" \"late\" {\ninput = %q\n}\n", admin.Content())
	p.use(late + org)
	p.reset()
	if change := p.MustPlan().Change(t, edge); !change.Is("delete", "create") {
		t.Errorf("to an organization: %v", change.Actions)
	}
	same(t, "requests to the workload cluster", len(p.edgeProxy.Requests()), 0)
	p.entries(nil)
	p.use(p.clusterBlock())
	p.MustDestroy()
}

// What is not known yet is put off, and said so; the apply then makes the checks before it writes anything (X2).
func TestClusterUnknown(t *testing.T) {
	t.Parallel()
	p := newPair(t, tofutest.Options{})
	unknown := func(value string) string {
		return fmt.Sprintf("resource \"terraform_data\" \"late\" {\ninput = %q\n}\n", value)
	}
	p.use(unknown(p.name) + p.blockOf("edge", "name = terraform_data.late.output", "secret_labels = { tier = terraform_data.late.output }"))
	plan := p.MustPlan()
	plan.Warning(t, "^The checks of a cluster are put off to the apply$", "Because .?name.?, .?secret_labels.? is not known yet, this plan could not check it")
	p.MustApply()
	p.PlanIsEmpty()
	same(t, "the Secret", row(p.secret().Labels["tier"], p.Resource(edge)["id"]), row(p.name, "mgmt/edge/"+p.name))

	// Now a label that is unknown again, and one that turns out not to be one.
	p.use(strings.Replace(unknown("no label!"), `"late"`, `"later"`, 1) + unknown(p.name) + p.blockOf("edge", "name = terraform_data.late.output", "secret_labels = { tier = terraform_data.later.output }"))
	p.MustPlan().Warning(t, "are put off to the apply$", "secret_labels")
	p.reset()
	p.Apply().Error(t, "is not valid$", `"no label!" is not a value that a label can have`)
	p.unwritten()
	same(t, "the label", p.secret().Labels["tier"], p.name)
	p.use(unknown(p.name) + p.blockOf("edge", "name = terraform_data.late.output", "secret_labels = { tier = terraform_data.late.output }"))
	p.MustDestroy()

	// Built in the same run: its connection is known only then.
	p.entries(clusters{"edge": "kubeconfig = terraform_data.late.output"})
	p.use(unknown(p.edgeProxy.AdminKubeconfig().Content()) + p.clusterBlock())
	p.reset()
	plan = p.MustPlan()
	plan.Warning(t, `^The checks of berth_cluster "`+p.name+`" on cluster "mgmt" are put off to the apply$`, `the connection of cluster "edge" is not known yet`)
	same(t, "known at plan", row(plan.Change(t, edge).After["argocd_secret"], plan.Change(t, edge).AfterUnknown["cluster_uid"]), row(p.space+"/cluster-"+p.name, true))
	same(t, "requests to the workload cluster", len(p.edgeProxy.Requests()), 0)
	p.MustApply()
	p.PlanIsEmpty()
	p.MustDestroy("-target=" + edge)
}
