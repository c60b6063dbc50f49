package preflight

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// Spec is what a configuration needs of a cluster. What is left out is not checked.
type Spec struct {
	KubernetesVersion string               // a floor ("1.35") or a constraint (">= 1.35, < 1.38")
	Namespaces        []Namespace          //
	Features          []string             // of Features()
	Permissions       []cluster.Permission //

	// Platforms replaces what the nodes would say. The nodes are then not read, and what depends on them (nodes,
	// container runtime, sizes against allocatable) is skipped and says so (J24, J25).
	Platforms        []string
	DerivePlatforms  bool       // read the platforms from the nodes
	Placement        *Placement // report which nodes it admits; nil is the ordinary pod, unreported
	ContainerRuntime bool       // of the nodes that the placement admits
	Sizes            map[string]Size

	QuotaNamespace     string // compare the sizes with the quotas of this namespace too
	QuotaPriorityClass string // the PriorityClass of the pods, which may decide which quotas count them

	StorageClasses      []ObjectRef
	DefaultStorageClass bool
	PriorityClasses     []ObjectRef
	Secrets             []SecretRef
	Endpoints           []Endpoint
}

// Validate returns everything that is wrong with the Spec itself, whatever the cluster.
func (s Spec) Validate() error {
	problems := []error{ValidatePlatforms(s.Platforms)}
	if s.KubernetesVersion != "" {
		_, err := ParseConstraint(s.KubernetesVersion)
		problems = append(problems, err)
	}
	for _, gate := range s.Features {
		if _, known := features[gate]; !known {
			problems = append(problems, fmt.Errorf("berth has no test for the feature %q; it knows %s", gate, quoted(Features())))
		}
	}
	if s.Placement != nil {
		problems = append(problems, s.Placement.Validate())
	}
	for _, namespace := range s.Namespaces {
		if namespace.PodSecurity != "" && !slices.Contains(PodSecurityLevels, namespace.PodSecurity) {
			problems = append(problems, fmt.Errorf("%q is no Pod Security level: write one of %s", namespace.PodSecurity, quoted(PodSecurityLevels)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Sizes)) {
		if size := s.Sizes[name]; size.Memory.Sign() <= 0 || size.CPU.Sign() <= 0 {
			problems = append(problems, fmt.Errorf("size %q (%s) needs a memory and a cpu above zero", name, size))
		}
	}
	for _, endpoint := range s.Endpoints {
		_, err := endpoint.shown()
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// section is some checks that are made together. Their names are known without asking anyone.
type section struct {
	names []string
	run   func(context.Context, Cluster) []Check
}

// Run makes the checks of the Spec, all at once, and reports them in the order in which an apply depends on them (J9).
// It fails only when there is nothing to report on: the Spec is wrong, the cluster does not answer or the context ends.
func Run(ctx context.Context, c Cluster, spec Spec) (Report, error) {
	if err := spec.Validate(); err != nil {
		return Report{}, err
	}
	// A cluster that forbids even its version has answered; one that answers nothing gets no report of warnings.
	if _, err := c.Version(ctx); err != nil && !apierrors.IsForbidden(err) {
		return Report{}, err
	}
	sections := spec.sections()
	answers := make([][]Check, len(sections))
	var group sync.WaitGroup
	for i, section := range sections {
		group.Go(func() { answers[i] = section.run(ctx, c) })
	}
	group.Wait()
	return Report{Checks: slices.Concat(answers...)}, ctx.Err()
}

// Skip reports every check of the Spec as skipped for the reason given, which is what a cluster whose connection is not
// known yet, or that is unreachable, gets (X2).
func (s Spec) Skip(why string) Report {
	var report Report
	for _, section := range s.sections() {
		for _, name := range section.names {
			report.Checks = append(report.Checks, skipped(name, "%s", why))
		}
	}
	return report
}

func (s Spec) sections() []section {
	var sections []section
	add := func(run func(context.Context, Cluster) []Check, names ...string) {
		sections = append(sections, section{names, run})
	}
	one := func(name string, run func(context.Context, Cluster) Check) {
		add(func(ctx context.Context, c Cluster) []Check { return []Check{run(ctx, c)} }, name)
	}
	if s.KubernetesVersion != "" {
		one("kubernetes_version", func(ctx context.Context, c Cluster) Check { return CheckVersion(ctx, c, s.KubernetesVersion) })
	}
	for _, namespace := range s.Namespaces {
		names := []string{"namespaces/" + namespace.Name}
		if namespace.PodSecurity != "" {
			names = append(names, "pod_security/"+namespace.Name)
		}
		add(func(ctx context.Context, c Cluster) []Check { return CheckNamespace(ctx, c, namespace) }, names...)
	}
	if len(s.Features) > 0 {
		add(func(ctx context.Context, c Cluster) []Check { return CheckFeatures(ctx, c, s.Features) }, prefixed("features/", s.Features)...)
	}
	if len(s.Permissions) > 0 {
		one("permissions", func(ctx context.Context, c Cluster) Check { return CheckPermissions(ctx, c, s.Permissions) })
	}
	if names := s.nodeChecks(); len(names) > 0 {
		add(s.checkNodes, names...)
	}
	if s.QuotaNamespace != "" && len(s.Sizes) > 0 {
		add(func(ctx context.Context, c Cluster) []Check {
			return CheckQuota(ctx, c, s.QuotaNamespace, s.QuotaPriorityClass, s.Sizes)
		}, prefixed("quota/", slices.Sorted(maps.Keys(s.Sizes)))...)
	}
	for _, ref := range s.StorageClasses {
		one("storage_classes/"+ref.Name, func(ctx context.Context, c Cluster) Check { return CheckStorageClass(ctx, c, ref) })
	}
	if s.DefaultStorageClass {
		one("default_storage_class", CheckDefaultStorageClass)
	}
	for _, ref := range s.PriorityClasses {
		one("priority_classes/"+ref.Name, func(ctx context.Context, c Cluster) Check { return CheckPriorityClass(ctx, c, ref) })
	}
	for _, ref := range s.Secrets {
		one(fmt.Sprintf("secrets/%s/%s", ref.Namespace, ref.Name), func(ctx context.Context, c Cluster) Check { return CheckSecret(ctx, c, ref) })
	}
	for _, endpoint := range s.Endpoints {
		shown, _ := endpoint.shown() // Validate has refused what is no address
		one("endpoints/"+shown, func(ctx context.Context, _ Cluster) Check { return CheckEndpoint(ctx, endpoint) })
	}
	return sections
}

// nodeChecks are the names of the checks that depend on the nodes, in their order.
func (s Spec) nodeChecks() (names []string) {
	if s.DerivePlatforms || len(s.Platforms) > 0 {
		names = append(names, "platforms")
	}
	if s.Placement != nil {
		names = append(names, "nodes")
	}
	if s.ContainerRuntime {
		names = append(names, "container_runtime")
	}
	return append(names, prefixed("sizes/", slices.Sorted(maps.Keys(s.Sizes)))...)
}

// checkNodes makes the checks that depend on the nodes, from one list of them.
func (s Spec) checkNodes(ctx context.Context, c Cluster) []Check {
	names := s.nodeChecks()
	checks := make([]Check, len(names))
	if len(s.Platforms) > 0 {
		for i, name := range names {
			checks[i] = skipped(name, "not checked: `platforms` is set, so the nodes were not read")
			if name == "platforms" {
				checks[i] = passed(name, "platforms: %s (set; not read from the nodes)", strings.Join(s.Platforms, ", "))
			}
		}
		return checks
	}
	nodes, err := Nodes(ctx, c)
	if err != nil {
		for i, name := range names {
			checks[i] = unanswered(name, "which nodes "+c.Context()+" has", err, &listNodes)
		}
		return checks
	}
	var placement Placement
	if s.Placement != nil {
		placement = *s.Placement
	}
	admitted, _ := placement.Partition(nodes)
	for i, name := range names {
		switch size, isSize := strings.CutPrefix(name, "sizes/"); {
		case isSize:
			checks[i] = CheckSize(placement, size, s.Sizes[size], admitted)
		case name == "platforms":
			checks[i] = checkPlatforms(placement, nodes)
		case name == "nodes":
			checks[i] = CheckNodes(placement, nodes)
		default:
			checks[i] = CheckRuntimes(admitted)
		}
	}
	return checks
}

func prefixed(prefix string, names []string) []string {
	with := make([]string, len(names))
	for i, name := range names {
		with[i] = prefix + name
	}
	return with
}
