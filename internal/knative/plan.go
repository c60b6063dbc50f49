package knative

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/chart"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/preflight"
	"github.com/berthdev/terraform-provider-berth/internal/release"
)

// Outlook is what a plan says of Serving.
type Outlook struct {
	// Version is Serving's minor version, and OperatorVersion that of the operator's chart, or of the operator that was
	// found; both as the apply will leave them.
	Version, OperatorVersion string
	// Steps are what the apply will do, in order, in words.
	Steps []string
	// Warnings are what the user should know before the apply.
	Warnings []release.Warning
}

// step is one step of an apply.
type step struct {
	text string
	run  func(ctx context.Context) error
}

// prepared is what is known before the first write; plan and apply prepare alike.
type prepared struct {
	Spec
	c     *cluster.Cluster
	terms kube.Terms
	facts facts
	whole bool
	// upgrades is set where Serving moves to another minor version.
	upgrades bool
	// installs is set where a part with roles for the whole cluster is installed or upgraded.
	installs bool
	shared   Shared
	outlook  Outlook
	steps    []step
	planning bool
}

// Plan checks Serving against the cluster and says what its apply will do, without writing anything: which version, whose
// the operator, Serving and the ingress are, and the steps. The error is a *cluster.Problem when it must not be applied,
// and a *PutOff when what it needs is known only at the apply.
func Plan(ctx context.Context, c *cluster.Cluster, spec Spec, charts Charts, terms kube.Terms) (Outlook, error) {
	p, err := prepare(ctx, c, spec, charts, terms, true)
	if err != nil {
		return Outlook{}, err
	}
	p.outlook.Steps = p.texts()
	return p.outlook, nil
}

func (p *prepared) texts() []string {
	texts := make([]string, 0, len(p.steps))
	for _, one := range p.steps {
		texts = append(texts, one.text)
	}
	return texts
}

// makesSure begins the text of a step that changes nothing where all is as it shall be.
const makesSure = "make sure of "

// Moves are the steps of an outlook that do more than put right what drifted.
func (o Outlook) Moves() bool {
	return slices.ContainsFunc(o.Steps, func(text string) bool { return !strings.HasPrefix(text, makesSure) })
}

func prepare(ctx context.Context, c *cluster.Cluster, spec Spec, charts Charts, terms kube.Terms, planning bool) (*prepared, error) {
	p := &prepared{Spec: spec, c: c, terms: terms, planning: planning}
	var err error
	if p.facts, err = spec.look(ctx, c, terms); err != nil {
		return nil, err
	}
	if err := CheckFloor(p.facts.kubernetes, spec.MinKubernetes); err != nil {
		return nil, err
	}
	if err := spec.servingElsewhere(c, p.facts); err != nil {
		return nil, err
	}
	operators, err := p.chooseVersion(ctx, charts)
	if err != nil {
		return nil, err
	}
	p.outlook.Version = p.Version.String()
	parts, err := Parts(ctx, c, spec.Namespace)
	if err != nil {
		return nil, err
	}
	p.shared = Aggregate(parts)
	p.whole = isWhole(p.facts.serving, terms)
	for _, prepare := range []func() error{
		func() error { return p.prepareOperator(ctx, charts, operators) },
		func() error { return p.prepareCRDs(ctx) },
		func() error { return p.prepareNamespace(ctx) },
		func() error { return p.prepareIngress(ctx, charts) },
		func() error { return p.prepareServing(ctx, parts) },
	} {
		if err := prepare(); err != nil {
			return nil, err
		}
	}
	if p.installs {
		if err := p.checkPermissions(ctx); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *prepared) add(run func(ctx context.Context) error, format string, args ...any) {
	p.steps = append(p.steps, step{text: fmt.Sprintf(format, args...), run: run})
}

// warn is for the plan: the apply, which prepares anew, does not say it again.
func (p *prepared) warn(summary, format string, args ...any) {
	if !p.planning {
		return
	}
	p.outlook.Warnings = append(p.outlook.Warnings, release.Warning{Summary: summary, Detail: fmt.Sprintf(format, args...)})
}

// checkPermissions refuses a credential that cannot install Serving: both the operator and Traefik come with roles for the
// whole cluster, which only one who has their permissions, or may escalate, can grant.
func (p *prepared) checkPermissions(ctx context.Context) error {
	verbs := func(group, resource, namespace string) []cluster.Permission {
		var all []cluster.Permission
		for _, verb := range []string{"get", "list", "create", "patch", "delete"} {
			all = append(all, cluster.Permission{Verb: verb, Group: group, Resource: resource, Namespace: namespace})
		}
		return all
	}
	var wanted []cluster.Permission
	wanted = append(wanted, verbs("", "namespaces", "")...)
	wanted = append(wanted, verbs(CRDs.Group, CRDs.Resource, "")...)
	wanted = append(wanted, verbs(cluster.ClusterRoles.Group, cluster.ClusterRoles.Resource, "")...)
	wanted = append(wanted, verbs(cluster.ClusterRoleBindings.Group, cluster.ClusterRoleBindings.Resource, "")...)
	wanted = append(wanted, verbs("", "secrets", p.Operator.Namespace)...)
	wanted = append(wanted, verbs("", "secrets", p.Namespace)...)
	wanted = append(wanted, verbs(Servings.Group, Servings.Resource, p.Namespace)...)
	wanted = append(wanted, verbs(cluster.Deployments.Group, cluster.Deployments.Resource, p.Operator.Namespace)...)
	check := preflight.CheckPermissions(ctx, p.c, wanted)
	switch check.Status {
	case preflight.Fail:
		return &cluster.Problem{Attribute: "cluster", Summary: fmt.Sprintf("The credential of cluster %q may not install Serving", p.c.Name()), Detail: "refusing: " + check.Message + "\nNothing was applied. " + check.Remedy}
	case preflight.Warn:
		p.warn(fmt.Sprintf("The permissions on cluster %q could not be checked", p.c.Name()), "%s %s", check.Message, check.Remedy)
	case preflight.Pass, preflight.Skipped:
	}
	return nil
}

// chooseVersion settles which version of Serving it shall be, and refuses one that the cluster cannot run or that is no
// single step from what is there (R10, R11, R100). It gives the versions of the operator's chart where it had to ask.
func (p *prepared) chooseVersion(ctx context.Context, charts Charts) (operators []string, err error) {
	// Of an upgrade that was cut short, the spec is ahead: going back would be a downgrade half-way.
	installed, asked := minorOf(installedVersion(p.facts.serving)), minorOf(specVersion(p.facts.serving))
	reached := installed
	if installed == (Version{}) || asked == installed.next() {
		installed = asked
	}
	switch {
	case p.Version != (Version{}):
	case installed != (Version{}):
		p.Version = installed
	default:
		if p.facts.deployment == nil && p.Operator.ChartVersion == "" {
			if operators, err = p.operatorVersions(ctx, charts); err != nil {
				return nil, err
			}
		}
		offered := Offered(p.facts.kubernetes, operators)
		if len(offered) == 0 {
			return nil, p.nothingOffered(operators)
		}
		p.Version = offered[0]
		if p.facts.operator != (Version{}) {
			// An operator that is there already installs its own version, or one of those before it.
			p.Version = p.facts.operator
		} else if minor := minorOf(p.Operator.ChartVersion); minor != (Version{}) {
			p.Version = minor
		}
	}
	if installed == (Version{}) {
		return operators, CheckSupported(p.Version, p.facts.kubernetes)
	}
	p.upgrades = reached != p.Version
	return operators, CheckUpgrade(installed, p.Version, p.facts.kubernetes)
}

func (p *prepared) nothingOffered(operators []string) error {
	detail := fmt.Sprintf("refusing: no version of Knative is known to run on Kubernetes %s.", p.facts.kubernetes)
	if operators != nil {
		detail = fmt.Sprintf("refusing: of the versions of Knative that run on Kubernetes %s, %s has no chart of the operator.", p.facts.kubernetes, p.Operator.Repository)
	}
	return &cluster.Problem{Attribute: "version", Summary: "There is no version of Serving to choose", Detail: detail + " Nothing was applied. Set `version` to one that you know to work."}
}

// load loads the chart of a part.
func load(ctx context.Context, charts Charts, part string, ref chart.Ref) (chart.Chart, error) {
	loaded, err := charts.Load(ctx, ref)
	return loaded, ofPart(part, err)
}

// ofPart names the attribute of a part in what is said of its chart.
func ofPart(part string, err error) error {
	problem, told := asProblem(err)
	if !told {
		return err
	}
	switch problem.Attribute {
	case "chart.version":
		problem.Attribute = part + ".chart_version"
	case "chart.repository", "chart.name", "chart.path":
		problem.Attribute = part + ".repository"
	case "name", "namespace", "values", "chart", "crds":
		problem.Attribute = part // of the release, not of this resource
	}
	problem.Detail = strings.NewReplacer("chart.version", part+".chart_version", "chart.repository", part+".repository").Replace(problem.Detail)
	return problem
}

// keptHistory is how many revisions of its parts' releases the cluster keeps, as Helm itself does.
const keptHistory = 10

// partOf is the Spec of one of the releases. The operator's namespace comes and goes with its release; Serving's is a part of
// its own, since more than Traefik lives in it.
func partOf(ref release.Ref, loaded chart.Chart, values map[string]any) release.Spec {
	return release.Spec{
		Ref: ref, CreateNamespace: true, Chart: loaded, Values: values, Wait: true, KeepHistory: keptHistory,
		Watch: watch,
	}
}

// watch is how the releases are looked at for drift.
var watch = release.Watch{CRDs: release.CRDsUpgrade, ExtraFields: release.ExtraWarn}

// partTerms are the terms for one of the releases: the state holds the resource, and not each of its parts.
func (p *prepared) partTerms(claim release.Claim) kube.Terms {
	terms := p.terms
	terms.Held = p.terms.Held && claim.Standing == kube.Ours
	// What was imported or adopted is the user's to change.
	imported := p.terms.Held && p.facts.serving != nil && !p.terms.Marked(p.facts.serving)
	terms.Adopt = p.terms.Adopt || imported && claim.Standing == kube.Foreign
	return terms
}

// planPart checks one of the releases, at the apply too: all parts are checked before the first of them is written.
func (p *prepared) planPart(ctx context.Context, part string, spec release.Spec, terms kube.Terms) error {
	outlook, err := release.Plan(ctx, p.c, spec, terms)
	if p.planning {
		p.outlook.Warnings = append(p.outlook.Warnings, outlook.Warnings...)
	}
	if outlook.Adopts && len(outlook.Changes) > 0 {
		lines := make([]string, 0, len(outlook.Changes))
		for _, key := range slices.Sorted(maps.Keys(outlook.Changes)) {
			lines = append(lines, key+": "+outlook.Changes[key])
		}
		p.warn(fmt.Sprintf("Taking over %s changes it", spec.Ref), "%s", strings.Join(lines, "\n"))
	}
	return ofPart(part, err)
}

// applyPart applies one of the releases. What it warns of, the plan has said.
func (p *prepared) applyPart(ctx context.Context, part string, spec release.Spec, terms kube.Terms) error {
	_, _, err := release.Apply(ctx, p.c, spec, terms)
	p.c.Forget()
	return ofPart(part, err)
}

// prepareCRDs settles what is done about Serving's CRDs, which come after the operator and before all that needs them. An
// apply reads them here, before the first write, so that a wrong source leaves nothing half done.
func (p *prepared) prepareCRDs(ctx context.Context) error {
	if p.CRDSource == CRDsOfOperator {
		return nil
	}
	missing, err := missingCRDs(ctx, p.c)
	if err != nil {
		return err
	}
	var crds []*unstructured.Unstructured
	if !p.planning && (len(missing) > 0 || p.upgrades) {
		if crds, err = ReadCRDs(ctx, p.CRDSource, p.Version); err != nil {
			return err
		}
	}
	run := func(ctx context.Context) error { return p.applyCRDs(ctx, p.c, p.terms, crds) }
	switch {
	case len(missing) == len(crdNames):
		p.add(run, "apply the CRDs of Serving %s", p.Version)
	case len(missing) > 0:
		p.add(run, "apply the CRDs of Serving %s that are missing: %s", p.Version, strings.Join(missing, ", "))
	case p.upgrades:
		p.add(run, "move the CRDs of Serving to %s", p.Version)
	}
	return nil
}

// prepareIngress settles what becomes of Traefik, and which IngressClass it serves (R47).
func (p *prepared) prepareIngress(ctx context.Context, charts Charts) error {
	if p.Ingress == nil {
		if p.facts.traefik.Standing == kube.Ours {
			p.add(p.dropTraefik, "take Traefik away, because ingress.enabled is false")
		}
		return nil
	}
	class, err := CheckIngress(ctx, p.c, p.traefikRef())
	if err != nil {
		return err
	}
	if class != TraefikRelease {
		p.warn(fmt.Sprintf("IngressClass %q on cluster %q is somebody else's", TraefikRelease, p.c.Name()),
			"It is left alone. Traefik of Serving serves the class %q; Knative's own routes do not depend on it.", class)
	}
	loaded, err := load(ctx, charts, PartIngress, chart.Ref{Repository: p.Ingress.Repository, Name: TraefikRelease, Version: p.Ingress.ChartVersion})
	if err != nil {
		return err
	}
	spec := func(shared Shared) release.Spec {
		part := partOf(p.traefikRef(), loaded, p.Ingress.Values(class, p.Namespace, shared.EntryPointTimeout()))
		part.CreateNamespace = false
		// Its Service is ready only with an address, which may never come (R25).
		part.Wait = false
		return part
	}
	terms := p.partTerms(p.facts.traefik)
	if err := p.planPart(ctx, PartIngress, spec(p.shared), terms); err != nil {
		return err
	}
	run := func(ctx context.Context) error {
		if err := p.applyTraefik(ctx, spec, terms); err != nil {
			return err
		}
		deployment := kube.Target{Kind: cluster.Deployments, Namespace: p.Namespace, Name: serviceName}
		return kube.WaitAll(ctx, p.c, p.traefikRef().String(), []kube.Target{deployment}, "")
	}
	p.installs = p.installs || p.facts.traefik.ChartVersion != p.Ingress.ChartVersion
	switch have := p.facts.traefik; {
	case have.Standing == kube.Absent:
		p.add(run, "install Traefik %s in namespace %s", p.Ingress.ChartVersion, p.Namespace)
	case have.Standing == kube.Foreign:
		p.add(run, "adopt Traefik %s in namespace %s and make it %s", have.ChartVersion, p.Namespace, p.Ingress.ChartVersion)
	case have.ChartVersion != p.Ingress.ChartVersion:
		p.add(run, "upgrade Traefik from %s to %s", have.ChartVersion, p.Ingress.ChartVersion)
	default:
		p.add(run, makesSure+"Traefik %s", p.Ingress.ChartVersion)
	}
	return nil
}

// dropTraefik uninstalls a Traefik that is ours and no longer wanted.
func (p *prepared) dropTraefik(ctx context.Context) error {
	warnings, err := p.removeTraefik(ctx, p.c, Removal{Terms: p.terms}, false)
	p.outlook.Warnings = append(p.outlook.Warnings, warnings...)
	return err
}

// prepareServing settles what becomes of the KnativeServing, and what follows it.
func (p *prepared) prepareServing(ctx context.Context, parts map[string]Part) error {
	live := p.facts.serving
	object := p.serving(live, p.whole)
	if _, err := kube.Judge(p.c, object, p.terms, live); err != nil {
		return err
	}
	if class := ingressClassOf(live); live != nil && !p.whole && p.Ingress != nil && class != ingressClassOfTraefik {
		p.warn(fmt.Sprintf("Traefik will not serve %s", p.Describe()),
			"It is adopted as it is, and its ingress class is %q. Traefik is installed beside it and serves none of its routes. Set ingress.enabled = false to do without, or set its spec.config.network.ingress-class to %q by hand to switch over.", class, ingressClassOfTraefik)
	}
	name := p.Describe()
	converge := func(ctx context.Context) error { return p.converge(ctx) }
	marked := live != nil && p.terms.Marked(live)
	switch {
	case live == nil:
		p.add(converge, "create %s with version %s and wait until it is ready", name, p.Version)
	case p.upgrades:
		p.add(converge, "upgrade %s from %s to %s and wait until it is ready", name, minorOf(installedVersion(live)), p.Version)
		p.regionsKeepRunning(parts)
	case !marked && isReady(live):
		p.add(converge, "adopt %s (version %s) as it is", name, installedVersion(live))
	default:
		p.add(converge, makesSure+"%s and wait until it is ready", name)
	}
	former, err := former(ctx, p.c)
	if err != nil {
		return err
	}
	if p.upgrades || len(former) > 0 {
		p.add(func(ctx context.Context) error { return migrate(ctx, p.c) }, "migrate the stored versions of Serving's CRDs")
	}
	if len(parts) > 0 {
		p.add(func(ctx context.Context) error { return p.applyShared(ctx) }, makesSure+"what %d region(s) contribute to %s", len(parts), name)
	}
	return nil
}

// regionsKeepRunning warns that an upgrade is one for all regions of the cluster (R103).
func (p *prepared) regionsKeepRunning(parts map[string]Part) {
	if len(parts) == 0 {
		return
	}
	p.warn(fmt.Sprintf("Serving on cluster %q is upgraded for all its regions", p.c.Name()),
		"It moves to %s for %s. Their Knative Services keep running.", p.Version, strings.Join(regionsOf(parts), ", "))
}

// converge applies the KnativeServing and waits for the operator.
func (p *prepared) converge(ctx context.Context) error {
	live, err := p.c.Fetch(ctx, Servings, p.Namespace, p.Name)
	if err != nil {
		return err
	}
	if p.upgrades {
		// A version that is still said to be stored could not leave a CRD with the upgrade.
		if err := migrate(ctx, p.c); err != nil {
			return err
		}
	}
	// Decided before the first write: while the operator is upgraded, what is adopted may not be Ready for a moment.
	object := p.serving(live, p.whole)
	if live == nil {
		p.c.Forget() // the operator's chart brought the kind just now
	}
	if _, err := kube.ConvergeFrom(ctx, p.c, object, p.terms, live); err != nil {
		return err
	}
	if err := p.awaitServing(ctx, p.c); err != nil {
		return err
	}
	return p.claimCRDs(ctx, p.c, p.terms)
}

// prepareNamespace settles that Serving has a namespace. It comes before Traefik and the KnativeServing.
func (p *prepared) prepareNamespace(ctx context.Context) error {
	live, err := p.c.Exists(ctx, cluster.Namespaces, "", p.Namespace)
	if err != nil || live != nil && live.GetDeletionTimestamp() == nil {
		return err
	}
	p.c.Plan(cluster.Namespaces, "", p.Namespace)
	ensure := func(ctx context.Context) error {
		return release.EnsureNamespace(ctx, p.c, p.Namespace, p.terms.Owner)
	}
	p.add(ensure, "create Namespace/%s", p.Namespace)
	return nil
}

// live is the KnativeServing as it is now; nil also where its kind is gone, which goes with the operator.
func (s Spec) live(ctx context.Context, c *cluster.Cluster) (*unstructured.Unstructured, error) {
	live, err := c.Live(ctx, Servings, s.Namespace, s.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return live, err
}
