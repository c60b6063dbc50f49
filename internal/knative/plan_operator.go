package knative

import (
	"context"
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"

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
func (p *prepared) prepareOperator(ctx context.Context, charts Charts, operators []string) error {
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
	serves := OperatorServes(found.operator, p.Version)
	p.outlook.OperatorVersion = bare(found.claim.ChartVersion)
	if p.outlook.OperatorVersion == "" && found.operator != (Version{}) {
		p.outlook.OperatorVersion = found.operator.String()
	}
	if !absent && found.claim.Standing != kube.Ours {
		if done, err := p.useForeignOperator(serves); done || err != nil {
			return err
		}
	}
	if p.Version.Less(found.operator) && !serves {
		return p.operatorTooNew()
	}
	wanted := found.claim.ChartVersion
	switch {
	case p.Operator.ChartVersion != "":
		wanted = p.Operator.ChartVersion
		if err := p.checkPinned(wanted); err != nil {
			return err
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
	return p.operatorRelease(ctx, charts, wanted, absent)
}

// useForeignOperator tells whether an operator that berth did not install is used as it is (R97); otherwise its release is
// taken over, to upgrade it.
func (p *prepared) useForeignOperator(serves bool) (done bool, err error) {
	found, pinned := p.facts, p.Operator.ChartVersion
	withoutHelm := found.claim.Standing == kube.Absent
	switch {
	case found.claim.Standing == kube.Others:
		return false, p.operatorOfOther()
	case !p.terms.Adopt && !p.terms.Held:
		return false, p.operatorForeign()
	case found.operator == (Version{}):
		p.warn(fmt.Sprintf("The version of the Knative operator on cluster %q is not known", p.c.Name()),
			"Deployment/%s/%s carries neither the label %s nor an image tag that is a version. It is used as it is; whether it installs Serving %s shows at the apply.", p.Operator.Namespace, OperatorRelease, labelVersion, p.Version)
		return true, nil
	case serves && pinned != "" && withoutHelm && minorOf(pinned) != found.operator:
		return false, &cluster.Problem{
			Attribute: "operator.chart_version", Summary: "The operator is no Helm release, so berth cannot upgrade it",
			Detail: fmt.Sprintf("refusing: the operator in namespace %q on %s has version %s, was installed without Helm, and operator.chart_version is %s. Nothing was applied. Leave it out, or upgrade the operator by the way it was installed.",
				p.Operator.Namespace, p.c.Context(), found.operator, pinned),
		}
	case serves && (pinned == "" || withoutHelm || bare(pinned) == bare(found.claim.ChartVersion)):
		if !p.terms.Held {
			p.add(nil, "adopt the operator %s in namespace %s as it is", p.outlook.OperatorVersion, p.Operator.Namespace)
		}
		return true, nil
	case !serves && p.Version.Less(found.operator):
		return false, p.operatorTooNew()
	case withoutHelm:
		return false, &cluster.Problem{
			Attribute: "version", Summary: fmt.Sprintf("The operator is too old for Serving %s, and no Helm release", p.Version),
			Detail: fmt.Sprintf("refusing: the operator in namespace %q on %s has version %s and was installed without Helm, so berth cannot upgrade it. Nothing was applied. Upgrade it to %s by the way it was installed, then apply again.",
				p.Operator.Namespace, p.c.Context(), found.operator, p.Version),
		}
	}
	return false, nil
}

// checkPinned refuses a version of the operator's chart that is older than what runs, or that does not install Serving's.
func (p *prepared) checkPinned(wanted string) error {
	have := p.facts.operator.String()
	if p.facts.claim.ChartVersion != "" {
		have = bare(p.facts.claim.ChartVersion)
	}
	if minorOf(wanted).Less(p.facts.operator) || older(wanted, p.facts.claim.ChartVersion) {
		return &cluster.Problem{
			Attribute: "operator.chart_version", Summary: "The Knative operator is never downgraded",
			Detail: fmt.Sprintf("refusing: version %s runs on %s, and operator.chart_version is %s. Nothing was applied. Set it to %s or newer, or leave it out.", have, p.c.Context(), wanted, have),
		}
	}
	if !OperatorServes(minorOf(wanted), p.Version) {
		return &cluster.Problem{
			Attribute: "operator.chart_version", Summary: fmt.Sprintf("Operator %s does not install Serving %s", wanted, p.Version),
			Detail: fmt.Sprintf("refusing: an operator installs its own minor version and the three before it. Nothing was applied. Set operator.chart_version to a %s, or leave it out.", p.Version),
		}
	}
	return nil
}

// older tells whether a version of a chart is older than another, patches included; false where one is no version.
func older(version, than string) bool {
	one, err := semver.NewVersion(version)
	other, wrong := semver.NewVersion(than)
	return err == nil && wrong == nil && one.LessThan(other)
}

// operatorRelease plans the operator's Helm release at a version of its chart.
func (p *prepared) operatorRelease(ctx context.Context, charts Charts, wanted string, absent bool) error {
	p.outlook.OperatorVersion = bare(wanted)
	loaded, err := load(ctx, charts, PartOperator, chart.Ref{Repository: p.Operator.Repository, Name: OperatorRelease, Version: wanted})
	if err != nil {
		return err
	}
	spec := partOf(p.operatorRef(), loaded, nil)
	terms := p.partTerms(p.facts.claim)
	if err := p.planPart(ctx, PartOperator, spec, terms); err != nil {
		return err
	}
	have := p.facts.claim.ChartVersion
	if live := p.facts.serving; live != nil && minorOf(specVersion(live)) == (Version{}) && minorOf(have) != minorOf(wanted) {
		// Without a version of its own, Serving would go along with the operator.
		p.add(p.pinVersion, "set spec.version of %s to %s", p.Describe(), minorOf(installedVersion(live)))
	}
	run := func(ctx context.Context) error { return p.applyPart(ctx, PartOperator, spec, terms) }
	p.installs = p.installs || bare(wanted) != bare(have)
	switch {
	case absent:
		p.add(run, "install the operator %s in namespace %s", bare(wanted), p.Operator.Namespace)
	case bare(wanted) != bare(have):
		p.add(run, "upgrade the operator from %s to %s", bare(have), bare(wanted))
	default:
		p.add(run, makesSure+"the operator %s", bare(wanted))
	}
	return nil
}

// pinVersion writes the version that is installed into a KnativeServing that names none.
func (p *prepared) pinVersion(ctx context.Context) error {
	body := fmt.Sprintf(`{"spec":{"version":%q}}`, minorOf(installedVersion(p.facts.serving)))
	_, err := p.c.MergePatch(ctx, Servings, p.Namespace, p.Name, []byte(body), kube.FieldManager)
	return err
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
