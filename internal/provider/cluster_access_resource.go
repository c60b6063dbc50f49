package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	apitypes "k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/access"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/preflight"
)

func newClusterAccess() resource.Resource {
	return newEnvelope(definition[clusterAccessModel, *clusterAccessModel]{
		name:          "cluster_access",
		schema:        clusterAccessSchema,
		object:        func(m *clusterAccessModel) (types.String, types.String) { return m.Namespace, m.ServiceAccount },
		nameAttribute: "service_account",
		namespaced:    true,
		// A ServiceAccount that was deleted since the plan is made anew by the apply.
		volatile: []string{"uid", "conditions"},
		plan:     planClusterAccess, planDelete: planDeleteClusterAccess,
		create: applyClusterAccess, read: readClusterAccess, update: applyClusterAccess, remove: removeClusterAccess,
		adopt: importClusterAccess,
	})
}

func (m *clusterAccessModel) spec() access.Spec {
	return access.Spec{
		Namespace: m.Namespace.ValueString(), ServiceAccount: m.ServiceAccount.ValueString(), ClusterRole: m.ClusterRole.ValueString(),
		TokenSecret: m.TokenSecret.ValueBool(), TokenVersion: m.TokenVersion.ValueInt64(), UID: apitypes.UID(m.UID.ValueString()),
	}
}

func (m *clusterAccessModel) known() bool {
	return !m.Namespace.IsUnknown() && !m.ServiceAccount.IsUnknown() && !m.ClusterRole.IsUnknown() && !m.TokenSecret.IsUnknown() && !m.TokenVersion.IsUnknown()
}

// heldAccess is the Spec that the state holds, nil at a create.
func heldAccess(call *call[clusterAccessModel]) *access.Spec {
	if call.state == nil {
		return nil
	}
	spec := call.state.spec()
	return &spec
}

func (m *clusterAccessModel) terms(ctx context.Context, owner kube.Owner) kube.Terms {
	return kube.Terms{Owner: owner, Adopt: m.Adopt.ValueBool(), AdoptFrom: m.adoptFrom(ctx)}
}

func planClusterAccess(ctx context.Context, call *call[clusterAccessModel]) error {
	plan := call.plan
	switch {
	case call.replaced:
		return planReplacedClusterAccess(ctx, call)
	case !plan.known():
		return planUnknownClusterAccess(call)
	}
	plan.TokenSecretName = optionalString(plan.spec().SecretName())
	if !call.changing {
		warnAccessUnready(ctx, call)
		return nil
	}
	findings, err := checkClusterAccess(ctx, call)
	warnAccess(call, findings)
	if err != nil {
		return err
	}
	plan.spec().Plan(call.cluster, findings)
	return nil
}

// planUnknownClusterAccess says what could not be checked while arguments are unknown.
func planUnknownClusterAccess(call *call[clusterAccessModel]) error {
	plan := call.plan
	openOutputsNamed(plan, []string{"uid", "conditions", "token_secret_name"})
	if plan.Namespace.IsUnknown() || plan.ServiceAccount.IsUnknown() {
		return nil
	}
	spec := plan.spec()
	call.cluster.Plan(cluster.ServiceAccounts, spec.Namespace, spec.ServiceAccount)
	call.warn(fmt.Sprintf("The checks of %s on cluster %q are put off to the apply", spec.Describe(), call.cluster.Name()),
		"Some of its arguments are not known yet. Ownership, permissions and the role were not checked; the apply checks them before it writes anything.")
	return nil
}

// checkClusterAccess makes all checks, at the plan and again before the first write of the apply.
func checkClusterAccess(ctx context.Context, call *call[clusterAccessModel]) (access.Findings, error) {
	spec := call.plan.spec()
	refused := checkAccessPermissions(ctx, call, spec)
	if _, told := errors.AsType[*cluster.Problem](refused); refused != nil && !told {
		return access.Findings{}, refused
	}
	findings, err := spec.Check(ctx, call.cluster, call.plan.terms(ctx, call.owner), heldAccess(call))
	return findings, errors.Join(refused, err)
}

// checkAccessPermissions refuses what the credential may not do, with the role that grants it.
func checkAccessPermissions(ctx context.Context, call *call[clusterAccessModel], spec access.Spec) error {
	needed, err := spec.Permissions(ctx, call.cluster)
	if err != nil {
		return err
	}
	may, err := spec.MayBind(ctx, call.cluster)
	if err != nil {
		return err
	}
	if !may {
		needed = append(needed, spec.ToBind())
	}
	summary := fmt.Sprintf("%s on cluster %q: permissions", spec.Describe(), call.cluster.Name())
	switch check := preflight.CheckPermissions(ctx, call.cluster, needed); check.Status {
	case preflight.Fail:
		return &cluster.Problem{Summary: summary, Detail: "refusing: " + check.Message + "\n" + nothingApplied + " " + check.Remedy}
	case preflight.Warn:
		call.warn(summary, "%s", check.Detail())
	}
	return nil
}

// warnAccess says what an apply will find and do.
func warnAccess(call *call[clusterAccessModel], findings access.Findings) {
	c, resumed := call.cluster, false
	for _, one := range findings.Objects {
		switch {
		case one.Verdict == kube.Adopt:
			call.warn(one.Object+" exists and will be adopted", "It is on %s and keeps its UID.%s Destroying the resource leaves it there.", c.Context(), changesOf(one.Outlook))
		case one.Verdict == kube.Resume && call.state == nil && !resumed:
			warnResume(call.diagnostics, c, one.Object)
			resumed = true
		}
	}
	if findings.Leaving {
		call.warn(fmt.Sprintf("Namespace %q of %s on cluster %q is being deleted", call.plan.Namespace.ValueString(), call.plan.spec().Describe(), c.Name()),
			"The access goes with it. An apply waits until it is gone where berth had created it, and is refused otherwise.")
	}
	if findings.Recreate != "" {
		call.warn(fmt.Sprintf("%s will be deleted and created again", call.plan.spec().DescribeBinding()),
			"Kubernetes never lets this change: %s. For the moment in between, the tokens of the ServiceAccount can do nothing.", findings.Recreate)
	}
	if findings.Lost != "" {
		call.warn(fmt.Sprintf("%s is gone and will be created again", findings.Lost),
			"Somebody deleted it on %s. The token in it can be the same as before, because Kubernetes derives it from names and the ServiceAccount alone. If it was deleted to revoke the token, raise token_version instead.", c.Context())
	}
	if findings.Unread != "" {
		call.warn(fmt.Sprintf("Whether the role of %s exists on cluster %q could not be checked", call.plan.spec().Describe(), c.Name()), "%s", findings.Unread)
	}
}

// warnAccessUnready says of an access that the plan leaves as it is why its tokens are of no use.
func warnAccessUnready(ctx context.Context, call *call[clusterAccessModel]) {
	conditions := map[string]condition{}
	// The element type is that of the schema, so the conversion cannot fail.
	call.state.Conditions.ElementsAs(ctx, &conditions, false)
	if ready, seen := conditions["Ready"]; seen && ready.Status == "False" {
		call.warn(fmt.Sprintf("%s on cluster %q is not ready", call.state.spec().Describe(), call.cluster.Name()), "%s", ready.Message)
	}
}

// applyClusterAccess is create and update alike: it makes of whatever is there what shall be.
func applyClusterAccess(ctx context.Context, call *call[clusterAccessModel]) error {
	if _, err := checkClusterAccess(ctx, call); err != nil {
		return err
	}
	spec := call.plan.spec()
	account, err := spec.Converge(ctx, call.cluster, call.plan.terms(ctx, call.owner), heldAccess(call))
	if err != nil {
		return err
	}
	call.plan.UID = types.StringValue(string(account.GetUID()))
	call.plan.TokenSecretName = optionalString(spec.SecretName())
	return call.plan.observe(ctx, call.cluster)
}

func (m *clusterAccessModel) observe(ctx context.Context, c *cluster.Cluster) error {
	seen, err := m.spec().Observe(ctx, c)
	if err != nil {
		return err
	}
	conditions := map[string]condition{}
	for _, one := range seen {
		conditions[one.Type] = condition{Status: one.Status, Reason: one.Reason, Message: one.Message}
	}
	m.setConditions(ctx, conditions)
	return nil
}

func readClusterAccess(ctx context.Context, call *call[clusterAccessModel]) (bool, error) {
	state := call.state
	account, left, err := state.spec().Live(ctx, call.cluster, call.owner)
	if err != nil || !left {
		return false, err
	}
	if account != nil {
		state.UID = types.StringValue(string(account.GetUID()))
	}
	drift, err := state.spec().Drift(ctx, call.cluster, call.owner, call.marked)
	if err != nil {
		return false, err
	}
	if state.Drift, err = driftValue(ctx, drift); err != nil {
		return false, err
	}
	state.TokenSecretName = optionalString(state.spec().SecretName())
	return true, state.observe(ctx, call.cluster)
}

func (m *clusterAccessModel) removal(owner kube.Owner, marked bool) access.Removal {
	return access.Removal{Owner: owner, Held: marked, Retain: m.DeletionPolicy.ValueString() == retain}
}

// warnInUse says what a destroy would be refused for. It is no error at plan: the consumers may be destroyed before the
// access in the same run.
func warnInUse(ctx context.Context, call *call[clusterAccessModel], owner kube.Owner) error {
	refusal, err := call.state.spec().CheckRemove(ctx, call.cluster, call.state.removal(owner, call.marked))
	if refusal != nil {
		call.warn(refusal.Summary, "The destroy will be refused unless they are gone by then. %s", strings.ReplaceAll(refusal.Detail, " Nothing was deleted.", ""))
	}
	return err
}

// planReplacedClusterAccess checks the first half of a replacement, in which what is there goes. What comes is planned by a
// call of its own.
func planReplacedClusterAccess(ctx context.Context, call *call[clusterAccessModel]) error {
	if !call.plan.Cluster.Equal(call.state.Cluster) {
		// The call is on the cluster of the replacement.
		return nil
	}
	name := call.state.Namespace.ValueString() + "/" + call.state.ServiceAccount.ValueString()
	return warnInUse(ctx, call, kube.Owner{Configuration: call.cluster.Owner(), Resource: "cluster_access." + name})
}

func planDeleteClusterAccess(ctx context.Context, call *call[clusterAccessModel]) error {
	return warnInUse(ctx, call, call.owner)
}

func removeClusterAccess(ctx context.Context, call *call[clusterAccessModel]) error {
	spec := call.state.spec()
	stays, err := spec.Remove(ctx, call.cluster, call.state.removal(call.owner, call.marked))
	if len(stays) > 0 {
		call.warn(fmt.Sprintf("Something of %s stays on cluster %q", spec.Describe(), call.cluster.Name()), "%s.", strings.Join(stays, ".\n"))
	}
	return err
}

func importClusterAccess(ctx context.Context, call *call[clusterAccessModel]) (bool, error) {
	state := call.state
	spec, found, err := access.Find(ctx, call.cluster, state.Namespace.ValueString(), state.ServiceAccount.ValueString())
	if err != nil || !found {
		return false, err
	}
	state.ClusterRole = types.StringValue(spec.ClusterRole)
	state.TokenSecret, state.TokenVersion = types.BoolValue(spec.TokenSecret), types.Int64Value(spec.TokenVersion)
	state.UID = types.StringValue(string(spec.UID))
	return true, nil
}
