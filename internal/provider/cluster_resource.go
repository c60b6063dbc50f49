package provider

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/berthdev/terraform-provider-berth/internal/argocd"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

func newRegistered() resource.Resource {
	return newEnvelope(definition[registeredModel, *registeredModel]{
		name:   "cluster",
		schema: clusterSchema,
		object: func(m *registeredModel) (types.String, types.String) { return m.ArgoCDNamespace, m.Name },
		manager: func(m *registeredModel) seat {
			return seat{attribute: "management", key: &m.Management, uid: &m.ManagementUID}
		},
		memberDefault: func(m *registeredModel) string {
			if m.InCluster.ValueBool() {
				return m.Management.ValueString()
			}
			return ""
		},
		memberGuard: guardRegistered,
		findMember:  findRegistered,
		// Eight steps of 15 minutes (I93).
		deleteTimeout: 2 * time.Hour,
		knobs:         []string{"deletion_protection", "removal", "force_steps", "token_lifetime"},
		volatile:      movingClusterOutputs,
		settle:        settleRegistered,
		plan:          planRegistered, planDelete: planDeleteRegistered,
		create: applyRegistered, read: readRegistered, update: applyRegistered, remove: removeRegistered,
		adopt: importRegistered,
	})
}

// movingClusterOutputs are the outputs that follow from what moves by itself.
var movingClusterOutputs = []string{"kubernetes_version", "node_count", "conditions", "last_transitions", "token_expires_at", "removal_step"}

// guardRegistered keeps berth from dialling a private address for an organization's cluster (I66).
func guardRegistered(ctx context.Context, m *registeredModel, management, c *cluster.Cluster) error {
	org := m.Org.ValueString()
	if org == "" && m.ClusterUID.IsNull() && management != c {
		// An import does not know yet whose it is.
		secret, err := argocd.FindSecret(ctx, management, "", m.Name.ValueString())
		if err != nil {
			return err
		}
		if secret != nil {
			org = secret.GetLabels()[argocd.LabelOrg]
		}
	}
	if org == "" {
		return nil
	}
	return c.RequirePublic(ctx)
}

// clusters are the two clusters of a call as the domain wants them.
func clustersOf(call *call[registeredModel]) argocd.Clusters {
	return argocd.Clusters{Management: call.cluster, Workload: call.member.cluster, Unreachable: call.member.err}
}

func domainWarnings(call *call[registeredModel], warnings []argocd.Warning) {
	for _, warning := range warnings {
		call.diagnostics.AddWarning(warning.Summary, warning.Detail)
	}
}

func planRegistered(ctx context.Context, call *call[registeredModel]) error {
	plan := call.plan
	if call.stateOnly {
		return nil
	}
	if err := refuseRegisteredChange(call); err != nil || call.replaced {
		return err
	}
	if err := followAccess(ctx, call); err != nil || !call.changing {
		return err
	}
	placeFromConfig(ctx, call)
	if unknown := plan.unknown(ctx, call.config); len(unknown) > 0 {
		openOutputsNamed(plan, []string{"secret_name", "argocd_secret", "kubeconfig_secret", "root_application", "gitops_files", "argocd_server"})
		if !plan.SecretName.IsUnknown() && call.config.SecretName.IsNull() && call.state != nil {
			plan.SecretName = call.state.SecretName
		}
		called := "a cluster"
		if name := plan.Name.ValueString(); name != "" {
			called = fmt.Sprintf("cluster %q", name)
		}
		call.warn(fmt.Sprintf("The checks of %s are put off to the apply", called),
			"Because %s is not known yet, this plan could not check it. The apply does so before it writes anything.", strings.Join(unknown, ", "))
		return nil
	}
	spec, err := plan.spec(ctx)
	if err != nil {
		return err
	}
	spec.Placed = placed(call)
	if err := checkInCluster(call.config, spec); err != nil {
		return err
	}
	if err := plan.fill(spec); err != nil {
		return err
	}
	if call.member.cluster == nil {
		return nil // the envelope has said that the checks are put off
	}
	if call.member.err != nil {
		return call.member.err
	}
	if err := checkAccessPlace(ctx, call, spec); err != nil {
		return err
	}
	before, err := heldSpec(ctx, call)
	if err != nil {
		return err
	}
	outlook, err := argocd.Plan(ctx, clustersOf(call), spec, before, plan.terms(ctx, call))
	domainWarnings(call, outlook.Warnings)
	if err != nil {
		return err
	}
	plan.ArgoCDServer = optionalString(outlook.Server)
	for _, one := range []struct {
		value    *types.String
		detected string
	}{{&plan.ProviderName, outlook.Provider}, {&plan.Flavor, outlook.Flavor}, {&plan.Region, outlook.Region}} {
		if one.value.IsUnknown() && one.detected != "" {
			*one.value = types.StringValue(one.detected)
		}
	}
	return nil
}

// followAccess makes an update of a plan that changes nothing, when the access hands out another token than the one that
// the refresh has compared: it was, or is about to be, rotated by the same run.
func followAccess(ctx context.Context, call *call[registeredModel]) error {
	if call.changing || !call.member.answers() || call.plan.Access.IsUnknown() {
		return nil
	}
	spec, err := call.plan.spec(ctx)
	if err != nil {
		return err
	}
	outdated, err := argocd.Outdated(ctx, clustersOf(call), spec)
	if err != nil || !outdated {
		return err
	}
	call.changing = true
	openOutputsNamed(call.plan, movingClusterOutputs)
	return nil
}

// placed tells whether it was settled where the cluster runs: by the apply that registered it, or the first one after an
// import.
func placed(call *call[registeredModel]) bool { return call.state != nil && call.marked }

// placeFromConfig lets go of where the cluster runs as the state has it, when that is not settled yet or a registration
// that has come since says it.
func placeFromConfig(ctx context.Context, call *call[registeredModel]) {
	if call.state == nil || hasUnknown(ctx, call.plan.Registration) {
		return
	}
	now, _ := objectAs[registrationModel](ctx, call.plan.Registration)
	was, _ := objectAs[registrationModel](ctx, call.state.Registration)
	for _, one := range []struct{ written, planned, says, said *types.String }{
		{&call.config.ProviderName, &call.plan.ProviderName, &now.ProviderName, &was.ProviderName},
		{&call.config.Flavor, &call.plan.Flavor, &now.Flavor, &was.Flavor},
		{&call.config.Region, &call.plan.Region, &now.Region, &was.Region},
	} {
		news := one.says.ValueString() != "" && !one.says.Equal(*one.said)
		if one.written.IsNull() && (one.planned.IsNull() && !placed(call) || news) {
			*one.planned = types.StringUnknown()
		}
	}
}

// checkInCluster refuses what the management cluster itself cannot have: Argo CD knows it without a Secret (I23, Y13).
func checkInCluster(config *registeredModel, spec argocd.Spec) error {
	if !spec.InCluster {
		return nil
	}
	if spec.AppOfApps == nil {
		return &cluster.Problem{
			Attribute: "app_of_apps", Summary: fmt.Sprintf("%q would be nothing at all", spec.Name),
			Detail: "refusing: with in_cluster the registration is an app-of-apps and nothing else, because Argo CD knows the cluster that it runs in by itself. Set app_of_apps.",
		}
	}
	var without []string
	for _, one := range []struct {
		name  string
		value attr.Value
	}{
		{"secret_name", config.SecretName},
		{"server", config.Server},
		{"access", config.Access},
		{"secret_labels", config.SecretLabels},
		{"secret_annotations", config.SecretAnnotations},
		{"project", config.Project},
		{"namespaces", config.Namespaces},
		{"cluster_resources", config.ClusterResources},
		{"shard", config.Shard},
	} {
		if !one.value.IsNull() {
			without = append(without, one.name)
		}
	}
	if len(without) == 0 {
		return nil
	}
	return &cluster.Problem{
		Attribute: without[0], Summary: fmt.Sprintf("%q has no Secret that could have %s", spec.Name, strings.Join(without, ", ")),
		Detail: "refusing: Argo CD knows the cluster that it runs in by itself, and in_cluster makes no Secret for it. Take out " + strings.Join(without, ", ") + ".",
	}
}

// heldSpec is what the state holds; nil for a new registration.
func heldSpec(ctx context.Context, call *call[registeredModel]) (*argocd.Spec, error) {
	if call.state == nil {
		return nil, nil
	}
	spec, err := call.state.spec(ctx)
	return &spec, err
}

// refuseRegisteredChange refuses what can neither be changed in place nor be worth a removal.
func refuseRegisteredChange(call *call[registeredModel]) error {
	if call.state == nil {
		return nil
	}
	plan, state := call.plan, call.state
	replaced := call.replaced || !plan.Org.Equal(state.Org) || !plan.ArgoCDNamespace.Equal(state.ArgoCDNamespace) || !plan.InCluster.Equal(state.InCluster)
	call.replaced = replaced
	if replaced && state.DeletionProtection.ValueBool() {
		return protected(state, "The plan replaces it, which takes its Applications down first")
	}
	if replaced {
		// Before what takes its place is planned, in a call of its own.
		management, namespace, name := call.cluster, state.ArgoCDNamespace.ValueString(), state.Name.ValueString()
		management.PlanRemoval(cluster.Secrets, namespace, state.SecretName.ValueString())
		management.PlanRemoval(cluster.Secrets, state.KubeconfigNamespace.ValueString(), argocd.KubeconfigSecretName(name))
		management.PlanRemoval(argocd.Applications, namespace, argocd.RootName(name))
	}
	if written := call.config.SecretName; !replaced && !written.IsNull() && !written.IsUnknown() && !written.Equal(state.SecretName) {
		return &cluster.Problem{
			Attribute: "secret_name", Summary: fmt.Sprintf("The Secret of %q cannot be renamed", state.Name.ValueString()),
			Detail: fmt.Sprintf("refusing: it is %q, and %q is asked for. While Argo CD had none, or two for one server, Applications could be orphaned. Set `secret_name` back, or leave it out.", state.SecretName.ValueString(), written.ValueString()),
		}
	}
	return nil
}

// protected is the refusal of a destroy that nobody has confirmed (I79).
func protected(state *registeredModel, why string) error {
	return &cluster.Problem{
		Attribute: "deletion_protection", Summary: fmt.Sprintf("Cluster %q is protected from being removed", state.Name.ValueString()),
		Detail: fmt.Sprintf("refusing: %s, and deletion_protection is true. Nothing was deleted. Set deletion_protection = false and apply that first.", why),
	}
}

// checkAccessPlace refuses an access on another cluster.
func checkAccessPlace(ctx context.Context, call *call[registeredModel], spec argocd.Spec) error {
	if spec.Access == nil {
		return nil
	}
	uid, err := call.member.cluster.UID(ctx)
	if err != nil {
		return err
	}
	if at := call.member.cluster.Name(); spec.Access.Cluster != at && spec.Access.Cluster != call.plan.Cluster.ValueString() {
		other, err := call.fleet.Cluster(spec.Access.Cluster)
		if errors.Is(err, cluster.ErrDeferred) {
			return nil
		}
		if err != nil {
			return err
		}
		if there, err := other.UID(ctx); err != nil || there == uid {
			return err
		}
		return &cluster.Problem{
			Attribute: "access", Summary: fmt.Sprintf("%q is on another cluster than %q", call.plan.Access.ValueString(), spec.Name),
			Detail: fmt.Sprintf("refusing: the token of a ServiceAccount is good for its own cluster only, and %q is on %q. Set access to the id of a berth_cluster_access on %q.", call.plan.Access.ValueString(), spec.Access.Cluster, at),
		}
	}
	return nil
}

// settleRegistered keeps an app-of-apps that says the same in other words.
func settleRegistered(ctx context.Context, call *call[registeredModel]) error {
	plan, state := call.plan, call.state
	if hasUnknown(ctx, plan.AppOfApps) || hasUnknown(ctx, plan.Name) {
		return nil
	}
	now, was := plan.appOfApps(ctx), state.appOfApps(ctx)
	if now != nil && was != nil && reflect.DeepEqual(now, was) {
		plan.AppOfApps = state.AppOfApps
	}
	return nil
}

// applyRegistered is create and update alike.
func applyRegistered(ctx context.Context, call *call[registeredModel]) error {
	plan := call.plan
	spec, err := plan.spec(ctx)
	if err != nil {
		return err
	}
	spec.Placed = placed(call)
	if err := checkAccessPlace(ctx, call, spec); err != nil {
		return err
	}
	before, err := heldSpec(ctx, call)
	if err != nil {
		return err
	}
	seen, warnings, err := argocd.Apply(ctx, clustersOf(call), spec, before, plan.terms(ctx, call))
	domainWarnings(call, warnings)
	if err != nil {
		return err
	}
	promised := *plan
	if call.state != nil {
		plan.Conditions, plan.LastTransitions = call.state.Conditions, call.state.LastTransitions
	}
	plan.observe(ctx, &seen)
	if err := plan.fill(spec); err != nil {
		return err
	}
	plan.placeFrom(&seen)
	keepPromises(&promised, plan)
	return nil
}

// placeFrom fills in where the cluster runs from what its Secret says.
func (m *registeredModel) placeFrom(seen *argocd.Seen) {
	m.ProviderName, m.Flavor, m.Region = optionalString(seen.Provider), optionalString(seen.Flavor), optionalString(seen.Region)
}

func readRegistered(ctx context.Context, call *call[registeredModel]) (bool, error) {
	state := call.state
	spec, err := state.spec(ctx)
	if err != nil {
		return false, err
	}
	clusters := clustersOf(call)
	if clusters.Workload == nil {
		return true, nil // its connection is not known yet: the state stays as it is
	}
	terms := state.terms(ctx, call)
	terms.Held = call.marked
	seen, err := argocd.Read(ctx, clusters, spec, terms, call.marked)
	if err != nil || seen == nil {
		return false, err
	}
	if seen.Marked && !call.marked {
		call.private.remember(keyMarked, yes)
	}
	if clusters.Unreachable != nil {
		call.warn(fmt.Sprintf("Cluster %q does not answer", spec.Name), "What Argo CD has of it was read from %s; its credential, version and nodes were not. %s", call.cluster.Context(), clusters.Unreachable)
	}
	state.observe(ctx, seen)
	state.Drift = stringsValue(seen.Drift)
	return true, state.fill(spec)
}

func planDeleteRegistered(ctx context.Context, call *call[registeredModel]) error {
	if call.state.DeletionProtection.ValueBool() {
		return protected(call.state, "The plan destroys it")
	}
	spec, err := call.state.spec(ctx)
	if err != nil {
		return err
	}
	warnings, err := argocd.PlanRemoval(ctx, clustersOf(call), spec, call.state.removal(ctx, call))
	domainWarnings(call, warnings)
	return err
}

func removeRegistered(ctx context.Context, call *call[registeredModel]) error {
	if call.state.DeletionProtection.ValueBool() {
		return protected(call.state, "This would destroy it")
	}
	spec, err := call.state.spec(ctx)
	if err != nil {
		return err
	}
	warnings, err := argocd.Remove(ctx, clustersOf(call), spec, call.state.removal(ctx, call))
	domainWarnings(call, warnings)
	return err
}

// findRegistered finds the key of a registered cluster by the server that Argo CD has of it.
func findRegistered(ctx context.Context, fleet *cluster.Fleet, management *cluster.Cluster, namespace, name string) (string, error) {
	secret, err := argocd.FindSecret(ctx, management, namespace, name)
	if err != nil {
		return "", err
	}
	if secret == nil {
		return management.Name(), nil // registered in_cluster, or not at all, which the import will say
	}
	if uid := secret.GetAnnotations()[argocd.AnnotationClusterUID]; uid != "" {
		switch c, err := fleet.ByUID(ctx, uid); {
		case err != nil && !errors.Is(err, cluster.ErrDeferred):
			return "", err
		case c != nil:
			return c.Name(), nil
		}
	}
	for _, key := range fleet.Names() {
		if c, err := fleet.Cluster(key); err == nil && cluster.SameServer(c.Server(), argocd.ServerOf(secret)) {
			return key, nil
		}
	}
	return "", &cluster.Problem{
		Summary: fmt.Sprintf("No entry leads to cluster %q", name),
		Detail:  fmt.Sprintf("Argo CD on %s knows it at %s, and none of the provider's `clusters` does: %s. Add an entry for it, or import it by its ID, management/cluster/name.", management.Context(), argocd.ServerOf(secret), kube.QuoteAll(fleet.Names())),
	}
}

// importRegistered fills in the arguments as a configuration has them that says no more than what is there (I100).
func importRegistered(ctx context.Context, call *call[registeredModel]) (bool, error) {
	state := call.state
	state.DeletionProtection, state.TokenLifetime = types.BoolValue(true), types.StringValue(defaultTokenLifetime)
	state.Removal, state.ForceSteps = types.ObjectNull(removalType.AttrTypes), types.ListNull(types.StringType)
	state.Registration = types.ObjectNull(registrationType.AttrTypes)
	found, err := argocd.ReadArguments(ctx, clustersOf(call), state.Name.ValueString())
	if err != nil || found == nil {
		return false, err
	}
	spec := *found
	state.ArgoCDNamespace, state.InCluster = types.StringValue(spec.Namespace), types.BoolValue(spec.InCluster)
	state.SecretName, state.Server, state.Org = types.StringValue(spec.SecretName), optionalString(spec.Server), optionalString(spec.Org)
	state.ProviderName, state.Flavor, state.Region = optionalString(spec.Provider), optionalString(spec.Flavor), optionalString(spec.Region)
	state.SecretLabels, state.SecretAnnotations = mapValue(ctx, types.StringType, spec.Labels), mapValue(ctx, types.StringType, spec.Annotations)
	state.Project, state.Namespaces = optionalString(spec.Project), listValue(ctx, types.StringType, spec.Namespaces)
	state.ClusterResources, state.Shard = types.BoolPointerValue(spec.ClusterResources), types.Int64PointerValue(spec.Shard)
	state.StoreKubeconfig, state.KubeconfigNamespace = types.BoolValue(spec.StoreKubeconfig), types.StringValue(spec.KubeconfigNamespace)
	state.Access = types.StringNull()
	if spec.Access != nil {
		state.Access = types.StringValue(spec.Access.String())
	}
	state.AppOfApps = types.ObjectNull(appOfAppsType.AttrTypes)
	if app := spec.AppOfApps; app != nil {
		commit := types.BoolNull()
		if app.Commit {
			commit = types.BoolValue(true)
		}
		state.AppOfApps = types.ObjectValueMust(appOfAppsType.AttrTypes, map[string]attr.Value{
			"repo_url": types.StringValue(app.RepoURL), "revision": optionalString(app.Revision), "path": optionalString(app.Path),
			"management_path": types.StringNull(), "project": optionalString(app.Project), "commit": commit,
		})
	}
	return true, nil
}
