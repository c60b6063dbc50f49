package knative

import (
	"context"
	"fmt"
	"strings"

	"github.com/berthdev/terraform-provider-berth/internal/chart"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

func (p *prepared) operatorVersions(ctx context.Context, charts Charts) ([]string, error) {
	versions, err := charts.Versions(ctx, chart.Ref{Repository: p.Operator.Repository, Name: OperatorRelease})
	return versions, ofPart(PartOperator, err)
}

// prepareOperator settles what becomes of the operator: installed, upgraded before Serving is (R101), put right, or, where
// it is somebody else's and installs this version, left as it is (R97).
func (p *prepared) prepareOperator(ctx context.Context, charts Charts, operators []string, planning bool) error {
	found := p.facts
	absent := found.deployment == nil && found.claim.Standing == kube.Absent
	if absent {
		elsewhere, err := p.operatorElsewhere(ctx, p.c)
		if err != nil {
			return err
		}
		if len(elsewhere) > 0 {
			return &cluster.Problem{
				Attribute: "operator.namespace", Summary: fmt.Sprintf("The Knative operator runs in namespace %q already", elsewhere[0]),
				Detail: fmt.Sprintf("refusing: %s has an operator in namespace %s, and a second one would fight with it. Nothing was applied. Set operator.namespace to that, and adopt = true to use it.", p.c.Context(), strings.Join(elsewhere, ", ")),
			}
		}
	}
	ours := found.claim.Standing == kube.Ours
	serves := OperatorServes(found.operator, p.Version)
	pinned := p.Operator.ChartVersion != "" && minorOf(p.Operator.ChartVersion) != (Version{})
	p.outlook.OperatorVersion = bare(found.claim.ChartVersion)
	if p.outlook.OperatorVersion == "" && found.deployment != nil {
		p.outlook.OperatorVersion = found.operator.String()
	}
	switch {
	case absent, ours:
	case found.claim.Standing == kube.Others:
		return p.operatorOfOther()
	case !p.terms.Adopt && !p.terms.Held:
		return p.operatorForeign()
	case found.operator == (Version{}):
		p.warn(fmt.Sprintf("The version of the Knative operator on cluster %q is not known", p.c.Name()),
			"Deployment/%s/%s carries neither the label %s nor an image tag that is a version. It is used as it is; whether it installs Serving %s shows at the apply.", p.Operator.Namespace, OperatorRelease, labelVersion, p.Version)
		return nil
	case serves:
		if !p.terms.Held {
			p.add(nil, "adopt the operator %s in namespace %s as it is", p.outlook.OperatorVersion, p.Operator.Namespace)
		}
		return nil
	case p.Version.Less(found.operator):
		return p.operatorTooNew()
	case found.claim.Standing == kube.Absent:
		return &cluster.Problem{
			Attribute: "version", Summary: fmt.Sprintf("The operator is too old for Serving %s, and no Helm release", p.Version),
			Detail: fmt.Sprintf("refusing: the operator in namespace %q on %s has version %s and was installed without Helm, so berth cannot upgrade it. Nothing was applied. Upgrade it to %s by the way it was installed, then apply again.",
				p.Operator.Namespace, p.c.Context(), found.operator, p.Version),
		}
	}
	if ours && p.Version.Less(found.operator) && !serves {
		return p.operatorTooNew()
	}
	wanted := found.claim.ChartVersion
	switch {
	case pinned:
		wanted = p.Operator.ChartVersion
		if minor := minorOf(wanted); minor.Less(found.operator) {
			return &cluster.Problem{
				Attribute: "operator.chart_version", Summary: "The Knative operator is never downgraded",
				Detail: fmt.Sprintf("refusing: version %s runs on %s, and operator.chart_version is %s. Nothing was applied. Set it to %s or newer, or leave it out.", found.operator, p.c.Context(), wanted, found.operator),
			}
		}
		if !OperatorServes(minorOf(wanted), p.Version) {
			return &cluster.Problem{
				Attribute: "operator.chart_version", Summary: fmt.Sprintf("Operator %s does not install Serving %s", wanted, p.Version),
				Detail: fmt.Sprintf("refusing: an operator installs its own minor version and the three before it. Nothing was applied. Set operator.chart_version to a %s, or leave it out.", p.Version),
			}
		}
	case absent || !serves:
		if operators == nil {
			var err error
			if operators, err = p.operatorVersions(ctx, charts); err != nil {
				return err
			}
		}
		var err error
		if wanted, err = ChartFor(p.Version, operators); err != nil {
			return err
		}
	}
	return p.operatorRelease(ctx, charts, wanted, absent, planning)
}

// operatorRelease plans the operator's Helm release at a version of its chart.
func (p *prepared) operatorRelease(ctx context.Context, charts Charts, wanted string, absent, planning bool) error {
	p.outlook.OperatorVersion = bare(wanted)
	loaded, err := load(ctx, charts, PartOperator, chart.Ref{Repository: p.Operator.Repository, Name: OperatorRelease, Version: wanted})
	if err != nil {
		return err
	}
	spec := partOf(p.operatorRef(), loaded, nil)
	terms := p.partTerms(p.facts.claim)
	if err := p.planPart(ctx, spec, terms, planning); err != nil {
		return err
	}
	run := func(ctx context.Context) error { return p.applyPart(ctx, spec, terms) }
	switch {
	case absent:
		p.add(run, "install the operator %s in namespace %s", bare(wanted), p.Operator.Namespace)
	case bare(wanted) != bare(p.facts.claim.ChartVersion):
		p.add(run, "upgrade the operator from %s to %s", bare(p.facts.claim.ChartVersion), bare(wanted))
	default:
		p.add(run, "make sure of the operator %s", bare(wanted))
	}
	return nil
}

// bare is a version without the v that the operator's repository puts before it, and its charts do not.
func bare(version string) string { return strings.TrimPrefix(version, "v") }

func (p *prepared) operatorOfOther() error {
	return &cluster.Problem{
		Attribute: "operator.namespace", Summary: fmt.Sprintf("The operator on cluster %q belongs to another resource of berth", p.c.Name()),
		Detail: fmt.Sprintf("refusing: %s carries the mark of another configuration or resource. Nothing was applied. One berth_knative_serving for each cluster sees to Serving for all its regions: use that one.", p.operatorRef()),
	}
}

func (p *prepared) operatorForeign() error {
	how := "without Helm"
	if p.facts.claim.Standing != kube.Absent {
		how = "as " + p.operatorRef().String()
	}
	return &cluster.Problem{
		Attribute: "adopt", Summary: fmt.Sprintf("The Knative operator runs on cluster %q already", p.c.Name()),
		Detail: fmt.Sprintf("refusing: Deployment/%s/%s is there, installed %s, and berth did not create it. Nothing was applied. Set adopt = true to use it as it is; it is then never uninstalled.", p.Operator.Namespace, OperatorRelease, how),
	}
}

func (p *prepared) operatorTooNew() error {
	return &cluster.Problem{
		Attribute: "version", Summary: fmt.Sprintf("The operator on cluster %q is too new for Serving %s", p.c.Name(), p.Version),
		Detail: fmt.Sprintf("refusing: the operator has version %s, which installs that minor version and the three before it, and an operator is never downgraded. Nothing was applied. Set `version` to %s or one of those before it.", p.facts.operator, p.facts.operator),
	}
}
