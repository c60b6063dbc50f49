package knative

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
	"github.com/berthdev/terraform-provider-berth/internal/release"
)

// Removal says how Serving is taken away.
type Removal struct {
	// Terms name the owner; Held is set where the state's own apply has marked the objects.
	Terms kube.Terms
	// Retain takes berth's marks off and leaves everything else.
	Retain bool
	// RemoveTraefik uninstalls Traefik although it serves Ingresses that are not Serving's (R104).
	RemoveTraefik bool
	// Force takes Serving away although Knative Services are left, which go with it (R105).
	Force bool
}

// mostNamed is how many objects a message lists.
const mostNamed = 20

// PlanRemoval says what a removal will leave or be refused for, without writing anything. What may be gone by the time of
// the destroy is a warning.
func PlanRemoval(ctx context.Context, c *cluster.Cluster, spec Spec, removal Removal) ([]release.Warning, error) {
	live, err := c.Fetch(ctx, Servings, spec.Namespace, spec.Name)
	if err != nil {
		return nil, err
	}
	var warnings []release.Warning
	if refusal, err := spec.checkRemoval(ctx, c, live, removal); err != nil {
		return nil, err
	} else if refusal != nil {
		warnings = append(warnings, release.Warning{Summary: refusal.Summary, Detail: "The destroy will be refused unless they are gone by then. " + refusal.Detail})
	}
	if live != nil && (removal.Retain || !kube.Created(live)) {
		why := "it was adopted, not created"
		if removal.Retain {
			why = "deletion_policy is \"retain\""
		}
		warnings = append(warnings, release.Warning{
			Summary: fmt.Sprintf("%s stays on cluster %q", spec.Describe(), c.Name()),
			Detail:  fmt.Sprintf("Because %s, Serving keeps running without berth's marks, and so does the operator that it needs.", why),
		})
	}
	return warnings, nil
}

// checkRemoval tells why Serving must not be deleted now; nil when it may. Only one that berth created is ever deleted.
func (s Spec) checkRemoval(ctx context.Context, c *cluster.Cluster, live *unstructured.Unstructured, removal Removal) (*cluster.Problem, error) {
	if live == nil || removal.Retain || removal.Force || !kube.Created(live) || !removal.Terms.Ours(live) {
		return nil, nil
	}
	var services []*unstructured.Unstructured
	for _, kind := range running {
		objects, err := listOf(ctx, c, kind)
		if err != nil {
			return nil, err
		}
		services = append(services, slices.DeleteFunc(objects, func(one *unstructured.Unstructured) bool {
			return len(one.GetOwnerReferences()) > 0 || one.GetDeletionTimestamp() != nil
		})...)
	}
	if len(services) > 0 {
		return &cluster.Problem{
			Attribute: "force_destroy", Summary: fmt.Sprintf("%d Knative Service(s) still run on cluster %q", len(services), c.Name()),
			Detail: fmt.Sprintf("refusing: deleting Serving on %s would end %s. Nothing was deleted. Delete them first, set force_destroy = true to have them go with Serving, or deletion_policy = \"retain\" to leave everything.",
				c.Context(), named(services)),
		}, nil
	}
	parts, err := Parts(ctx, c, s.Namespace)
	if err != nil || len(parts) == 0 {
		return nil, err
	}
	return &cluster.Problem{
		Attribute: "force_destroy", Summary: fmt.Sprintf("%d region(s) still use Serving on cluster %q", len(parts), c.Name()),
		Detail: fmt.Sprintf("refusing: %s share Serving on %s. Nothing was deleted. Destroy them first, or set force_destroy = true.", strings.Join(regionsOf(parts), ", "), c.Context()),
	}, nil
}

func named(objects []*unstructured.Unstructured) string {
	names := make([]string, 0, len(objects))
	for _, one := range objects {
		names = append(names, one.GetNamespace()+"/"+one.GetName())
	}
	slices.Sort(names)
	if len(names) > mostNamed {
		names = append(names[:mostNamed], fmt.Sprintf("and %d more", len(names)-mostNamed))
	}
	return strings.Join(names, ", ")
}

// Remove takes Serving apart in order (R104, R105): the KnativeServing, while its operator still runs; Traefik, unless it
// serves others; the namespace, where berth created it and nothing foreign is in it; the CRDs of Serving that berth created;
// and last the operator, unless another Serving or an Eventing needs it. What was adopted stays. It
// returns what stays and why.
func Remove(ctx context.Context, c *cluster.Cluster, spec Spec, removal Removal) ([]release.Warning, error) {
	live, err := c.Fetch(ctx, Servings, spec.Namespace, spec.Name)
	if err != nil {
		return nil, err
	}
	if refusal, err := spec.checkRemoval(ctx, c, live, removal); err != nil || refusal != nil {
		if err == nil {
			err = refusal
		}
		return nil, err
	}
	var warnings []release.Warning
	stays := live != nil && (removal.Retain || !kube.Created(live))
	for _, remove := range []func() ([]release.Warning, error){
		func() ([]release.Warning, error) { return spec.removeServing(ctx, c, removal, live) },
		func() ([]release.Warning, error) { return spec.removeTraefik(ctx, c, removal, stays) },
		func() ([]release.Warning, error) { return spec.removeNamespace(ctx, c, removal, stays) },
		func() ([]release.Warning, error) { return spec.removeCRDs(ctx, c, removal, stays) },
		func() ([]release.Warning, error) { return spec.removeOperator(ctx, c, removal, stays) },
	} {
		more, err := remove()
		warnings = append(warnings, more...)
		if err != nil {
			return warnings, err
		}
	}
	return warnings, nil
}

func (s Spec) removeServing(ctx context.Context, c *cluster.Cluster, removal Removal, live *unstructured.Unstructured) ([]release.Warning, error) {
	if live == nil {
		return nil, s.removeShared(ctx, c, removal)
	}
	if kube.Created(live) && !removal.Retain && removal.Terms.Ours(live) {
		if err := end(ctx, c, removal.Force); err != nil {
			return nil, err
		}
	}
	what, err := kube.Remove(ctx, c, Servings, s.Namespace, s.Name, removal.Terms, removal.Retain)
	if err != nil {
		return nil, err
	}
	if what == kube.Kept || what == kube.NotOurs {
		why := "it was adopted, not created"
		switch {
		case removal.Retain:
			why = "deletion_policy is \"retain\""
		case what == kube.NotOurs:
			why = "it does not carry this configuration's mark"
		}
		return []release.Warning{{Summary: fmt.Sprintf("%s stays on cluster %q", s.Describe(), c.Name()), Detail: "Because " + why + "."}}, nil
	}
	return nil, s.removeShared(ctx, c, removal)
}

// running are the kinds of what runs on Serving. What its controllers made of another of them is counted with that.
var running = []cluster.Kind{
	Services,
	{Group: "serving.knative.dev", Version: "v1beta1", Resource: "domainmappings", Kind: "DomainMapping", Namespaced: true},
	{Group: "serving.knative.dev", Version: "v1", Resource: "routes", Kind: "Route", Namespaced: true},
	{Group: "serving.knative.dev", Version: "v1", Resource: "configurations", Kind: "Configuration", Namespaced: true},
}

// end deletes what runs on Serving, where that is asked for, and waits until it is gone: Serving's controllers have to see
// it go, or their finalizers keep it, and its CRDs with it, for good. What is being deleted already is waited for too.
func end(ctx context.Context, c *cluster.Cluster, force bool) error {
	var targets []kube.Target
	for _, kind := range running {
		objects, err := listOf(ctx, c, kind)
		if err != nil {
			return err
		}
		for _, one := range objects {
			if force && one.GetDeletionTimestamp() == nil && len(one.GetOwnerReferences()) == 0 {
				c.Progress(ctx, kube.Describe(one), "delete", "")
				if err := c.Delete(ctx, kind, one.GetNamespace(), one.GetName(), one.GetUID()); err != nil {
					return err
				}
			}
			targets = append(targets, kube.Target{Kind: kind, Namespace: one.GetNamespace(), Name: one.GetName(), UID: one.GetUID()})
		}
	}
	if len(targets) == 0 {
		return nil
	}
	return kube.WaitAllGone(ctx, c, "what runs on Serving", targets)
}

// removeShared deletes what held the regions' contributions, which nothing reads any more.
func (s Spec) removeShared(ctx context.Context, c *cluster.Cluster, removal Removal) error {
	if removal.Retain {
		return nil
	}
	return removeShared(ctx, c, s.Namespace)
}

func (s Spec) removeTraefik(ctx context.Context, c *cluster.Cluster, removal Removal, stays bool) ([]release.Warning, error) {
	claim, err := release.ClaimOf(ctx, c, s.traefikRef(), removal.Terms)
	if err != nil || claim.Standing != kube.Ours {
		return nil, err
	}
	retain := removal.Retain || stays
	if !retain && !removal.RemoveTraefik && !claim.Adopted {
		foreign, err := s.servedByTraefik(ctx, c)
		if err != nil {
			return nil, err
		}
		if len(foreign) > 0 {
			warning := release.Warning{
				Summary: fmt.Sprintf("Traefik stays on cluster %q", c.Name()),
				Detail:  fmt.Sprintf("It serves %s, which are not Serving's. It stays without berth's marks, and its namespace with it. `helm uninstall %s -n %s` removes it, as remove_traefik = true would have.", strings.Join(foreign, ", "), TraefikRelease, s.Namespace),
			}
			_, err := release.Remove(ctx, c, s.traefikRef(), s.partRemoval(removal, true, true))
			return []release.Warning{warning}, err
		}
	}
	return release.Remove(ctx, c, s.traefikRef(), s.partRemoval(removal, retain, true))
}

// partRemoval is the Removal of one of the releases, which is ours.
func (s Spec) partRemoval(removal Removal, retain, keepNamespace bool) release.Removal {
	return release.Removal{Terms: removal.Terms, Retain: retain, Force: removal.Force, KeepNamespace: keepNamespace}
}

const (
	// settlingTime is how long what belonged to Serving may take to go after it, by the cluster's garbage collection; a
	// namespace in which nothing moves for quietTime has something foreign in it.
	settlingTime, quietTime = 2 * time.Minute, 15 * time.Second
	settlingLook            = time.Second
)

// removeNamespace deletes Serving's namespace where berth created it, once Serving and Traefik are gone and nothing foreign
// is left in it.
func (s Spec) removeNamespace(ctx context.Context, c *cluster.Cluster, removal Removal, stays bool) ([]release.Warning, error) {
	live, err := c.Fetch(ctx, cluster.Namespaces, "", s.Namespace)
	if err != nil || live == nil || !kube.Created(live) || !removal.Terms.Marked(live) {
		return nil, err
	}
	traefik, err := release.ClaimOf(ctx, c, s.traefikRef(), removal.Terms)
	if err != nil {
		return nil, err
	}
	if removal.Retain || stays || traefik.Standing != kube.Absent {
		return nil, kube.Unmark(ctx, c, cluster.Namespaces, live)
	}
	left, err := s.settled(ctx, c, removal)
	if err != nil {
		return nil, err
	}
	if len(left) > 0 && !removal.Force {
		return []release.Warning{{
			Summary: fmt.Sprintf("Namespace %q stays on cluster %q", s.Namespace, c.Name()),
			Detail: fmt.Sprintf("berth created it, but there are %d object(s) in it that are not Serving's: %s. It stays without berth's marks. Delete it by hand, or set force_destroy = true beforehand.",
				len(left), strings.Join(left[:min(len(left), mostNamed)], ", ")),
		}}, kube.Unmark(ctx, c, cluster.Namespaces, live)
	}
	_, err = kube.Remove(ctx, c, cluster.Namespaces, "", s.Namespace, removal.Terms, false)
	return nil, err
}

// orphaned tells whether an object belongs to the KnativeServing, which is gone: the cluster collects it, by and by.
func (s Spec) orphaned(object *unstructured.Unstructured) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		return owner.Kind == Servings.Kind && owner.Name == s.Name && strings.HasPrefix(owner.APIVersion, Servings.Group+"/")
	})
}

// settled waits until the cluster has collected what belonged to Serving, and lists what is left.
func (s Spec) settled(ctx context.Context, c *cluster.Cluster, removal Removal) ([]string, error) {
	var left []string
	changed := time.Now()
	err := wait.PollUntilContextTimeout(ctx, settlingLook, settlingTime, true, func(ctx context.Context) (bool, error) {
		now, err := kube.Leftovers(ctx, c, s.Namespace, removal.Terms, s.orphaned)
		if !slices.Equal(now, left) {
			left, changed = now, time.Now()
		}
		return len(left) == 0 || removal.Force || time.Since(changed) > quietTime, err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = nil
	}
	return left, err
}

// servedByTraefik lists the Ingresses of the class that Traefik serves.
func (s Spec) servedByTraefik(ctx context.Context, c *cluster.Cluster) ([]string, error) {
	class, err := CheckIngress(ctx, c, s.traefikRef())
	if _, told := asProblem(err); told {
		class, err = ingressClassSecond, nil // its own class was deleted, and somebody else has both names
	}
	if err != nil {
		return nil, err
	}
	foreign, err := ForeignIngresses(ctx, c, class, s.traefikRef())
	if err != nil {
		return nil, err
	}
	for _, kind := range ingressRoutes {
		routes, err := listOf(ctx, c, kind)
		if err != nil {
			return nil, err
		}
		for _, one := range routes {
			if one.GetAnnotations()[annotationIngressClass] == routeClass(class) && !belongsTo(one, s.traefikRef()) {
				foreign = append(foreign, kube.Describe(one))
			}
		}
	}
	return foreign, nil
}

// ingressRoutes are Traefik's own kinds of routes.
var ingressRoutes = []cluster.Kind{
	{Group: "traefik.io", Version: "v1alpha1", Resource: "ingressroutes", Kind: "IngressRoute", Namespaced: true},
	{Group: "traefik.io", Version: "v1alpha1", Resource: "ingressroutetcps", Kind: "IngressRouteTCP", Namespaced: true},
	{Group: "traefik.io", Version: "v1alpha1", Resource: "ingressrouteudps", Kind: "IngressRouteUDP", Namespaced: true},
}

func (s Spec) removeOperator(ctx context.Context, c *cluster.Cluster, removal Removal, stays bool) ([]release.Warning, error) {
	claim, err := release.ClaimOf(ctx, c, s.operatorRef(), removal.Terms)
	if err == nil && claim.Standing == kube.Absent {
		// Its namespace may be left of an uninstall that was cut short.
		return release.Remove(ctx, c, s.operatorRef(), s.partRemoval(removal, removal.Retain || stays, false))
	}
	if err != nil || claim.Standing != kube.Ours {
		return nil, err
	}
	retain := removal.Retain || stays
	if !retain {
		others, err := s.needOperator(ctx, c)
		if err != nil {
			return nil, err
		}
		if len(others) > 0 {
			warning := release.Warning{
				Summary: fmt.Sprintf("The Knative operator stays on cluster %q", c.Name()),
				Detail:  fmt.Sprintf("It is needed by %s: its chart holds their CRD, so that uninstalling it would delete them. It stays without berth's marks.", strings.Join(others, ", ")),
			}
			_, err := release.Remove(ctx, c, s.operatorRef(), s.partRemoval(removal, true, false))
			return []release.Warning{warning}, err
		}
	}
	return release.Remove(ctx, c, s.operatorRef(), s.partRemoval(removal, retain, false))
}

// needOperator lists what else the operator installs from.
func (s Spec) needOperator(ctx context.Context, c *cluster.Cluster) ([]string, error) {
	var others []string
	for _, kind := range []cluster.Kind{Servings, Eventings} {
		objects, err := listOf(ctx, c, kind)
		if err != nil {
			return nil, err
		}
		for _, one := range objects {
			others = append(others, kube.Describe(one))
		}
	}
	slices.Sort(others)
	return others, nil
}

// removeCRDs deletes the CRDs of Serving that berth created, once Serving is gone and no object of them is left.
func (s Spec) removeCRDs(ctx context.Context, c *cluster.Cluster, removal Removal, stays bool) ([]release.Warning, error) {
	retain := removal.Retain || stays
	var left []string
	for _, name := range crdNames {
		keep := retain
		live, err := c.Fetch(ctx, CRDs, "", name)
		if err != nil {
			return nil, err
		}
		if live == nil || !removal.Terms.Marked(live) {
			continue
		}
		if !retain {
			kind, _ := storageOf(live)
			objects, err := listOf(ctx, c, kind)
			if err != nil {
				return nil, err
			}
			if len(objects) > 0 && !removal.Force {
				left = append(left, fmt.Sprintf("%s (%s)", name, named(objects)))
			}
			keep = len(objects) > 0 && !removal.Force
		}
		if _, err := kube.Remove(ctx, c, CRDs, "", name, removal.Terms, keep); err != nil {
			return nil, err
		}
	}
	c.Forget()
	if len(left) == 0 {
		return nil, nil
	}
	return []release.Warning{{
		Summary: fmt.Sprintf("CRDs of Serving stay on cluster %q", c.Name()),
		Detail:  fmt.Sprintf("Objects of them are left: %s. They stay without berth's marks. Delete these, and then the CRDs, by hand.", strings.Join(left, "; ")),
	}}, nil
}
