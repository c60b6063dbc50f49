package argocd

import (
	"context"
	"fmt"
	"strings"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// PlanRemoval says what a removal will take apart, in what order, and what stands against it, without writing anything. What
// can never work is an error; what may have been put right by the time of the destroy is a warning.
func PlanRemoval(ctx context.Context, clusters Clusters, spec Spec, removal Removal) ([]Warning, error) {
	if err := CheckForce(removal.Force); err != nil {
		return nil, err
	}
	r := newRemover(clusters, spec, removal)
	r.server = InClusterServer
	if !spec.InCluster {
		secret, err := r.management().LiveBy(ctx, cluster.Secrets, r.spec.Namespace, r.spec.SecretName, clusterSelector)
		if err != nil {
			return nil, err
		}
		r.know(secret)
	}
	all, _, err := listApplications(ctx, fromSnapshot(r.management()), spec.Namespace)
	if err != nil {
		return nil, err
	}
	t := belonging(spec.Name, spec.Namespace, all, removal.Controllers)
	if why := r.stays(t); why != "" {
		return []Warning{r.staying(why)}, nil
	}
	if err := r.checkIdentity(ctx); err != nil {
		return nil, err
	}
	inventory, err := TakeInventory(ctx, clusters, r.spec, removal.Controllers)
	if err != nil {
		return nil, err
	}
	r.open(t)
	warnings := []Warning{r.preview(t, inventory)}
	for _, problem := range r.refusals(t) {
		warnings = append(warnings, Warning{
			Summary: problem.Summary,
			Detail:  "The destroy will be refused unless this is put right by then. " + strings.TrimPrefix(problem.Detail, "refusing: "),
		})
	}
	if warning, needed := r.rootKeeps(t); needed {
		warnings = append(warnings, warning)
	}
	if !r.releases() {
		warnings = append(warnings, r.keepsRunning())
	}
	if warning, needed := r.serviceAccount(); needed {
		warnings = append(warnings, warning)
	}
	return warnings, nil
}

// preview is the warning that shows what goes (I78), and in which order.
func (r *remover) preview(t tree, inventory Inventory) Warning {
	var lines []string
	steps := r.steps(t)
	if n := len(t.members); n > 0 {
		lines = append(lines, fmt.Sprintf("%d Application(s) go with what they deployed.", n))
	}
	lines = append(lines, inventory.Lines()...)
	lines = append(lines, "The steps, each with a time limit of "+r.removal.StepTimeout.String()+":")
	for i, one := range steps {
		text := fmt.Sprintf("  %d. %s: %s", i+1, one.name, one.does)
		if one.abandon != nil && r.removal.forces(one.name) {
			text += "; moved on from when its time is up, because force_steps names it"
		}
		lines = append(lines, text)
	}
	return Warning{
		Summary: fmt.Sprintf("Destroying cluster %q takes this apart", r.spec.Name),
		Detail:  strings.Join(lines, "\n"),
	}
}
