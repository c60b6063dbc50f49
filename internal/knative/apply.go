package knative

import (
	"context"
	"fmt"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/release"
)

// Apply makes Serving what it shall be, in the documented order (R65, R101): the operator, Serving's CRDs, Traefik, the
// KnativeServing, and the external address. The checks of Plan are repeated before the first write, and each step finds
// what an interrupted apply left of it by its marks. Of the wait for an address that does not come, only a warning remains.
func Apply(ctx context.Context, c *cluster.Cluster, spec Spec, charts Charts, terms kube.Terms) (Seen, []release.Warning, error) {
	p, err := prepare(ctx, c, spec, charts, terms, false)
	if err != nil {
		return Seen{}, nil, err
	}
	for _, one := range p.steps {
		if one.run == nil {
			continue
		}
		c.Progress(ctx, kube.Name(Servings.Kind, spec.Namespace, spec.Name), "step", one.text)
		if err := one.run(ctx); err != nil {
			return Seen{}, p.outlook.Warnings, err
		}
	}
	if err := p.awaitAddress(ctx); err != nil {
		return Seen{}, p.outlook.Warnings, err
	}
	seen, err := Read(ctx, c, p.Spec, terms, true)
	switch {
	case err != nil:
		return Seen{}, p.outlook.Warnings, err
	case seen == nil:
		return Seen{}, p.outlook.Warnings, &cluster.Problem{
			Summary: fmt.Sprintf("Serving on cluster %q is gone again", c.Name()),
			Detail:  fmt.Sprintf("It was applied on %s, and somebody has deleted it since. Apply again.", c.Context()),
		}
	}
	seen.Steps = p.texts()
	return *seen, p.outlook.Warnings, nil
}

func (p *prepared) awaitAddress(ctx context.Context) error {
	if p.Ingress == nil {
		return nil
	}
	_, warning, err := WaitAddress(ctx, p.c, p.Namespace, serviceName, p.AddressTimeout)
	if warning != nil {
		p.outlook.Warnings = append(p.outlook.Warnings, *warning)
	}
	return err
}

// applyShared merges what the regions contribute into the KnativeServing.
func (p *prepared) applyShared(ctx context.Context) error {
	outcome, err := ApplyShared(ctx, p.c, p.Namespace, p.Name)
	p.outlook.Warnings = append(p.outlook.Warnings, outcome.Warnings...)
	return err
}

// applyTraefik brings Traefik's release to what it shall be. Where regions may share it, what they want together is
// computed under their Lease, so that it is no less than what one of them has just asked for.
func (p *prepared) applyTraefik(ctx context.Context, spec func(Shared) release.Spec, terms kube.Terms) error {
	return UnderLease(ctx, p.c, p.Namespace, func(ctx context.Context) error {
		parts, err := Parts(ctx, p.c, p.Namespace)
		if err != nil {
			return err
		}
		return p.applyPart(ctx, PartIngress, spec(Aggregate(parts)), terms)
	})
}
