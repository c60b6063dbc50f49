package argocd

import (
	"context"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// annotationSkipReconcile on an Application has Argo CD leave it alone, its deletion included.
const annotationSkipReconcile = "argocd.argoproj.io/skip-reconcile"

// Application is one of Argo CD's, as far as an inventory and a removal look at it.
type Application struct {
	Namespace, Name string
	UID             types.UID
	// Wave is the sync wave that its own annotation names.
	Wave    int
	Project string
	// DestinationName or DestinationServer say which cluster it deploys to, DestinationNamespace the namespace there.
	DestinationName, DestinationServer, DestinationNamespace string
	// Sync and Health are Argo CD's words, such as "OutOfSync" and "Degraded"; "" while it has none.
	Sync, Health string
	// Parent is the Application that this one is a resource of, as the tracking has it: its name, or namespace_name where it
	// is not in Argo CD's own namespace.
	Parent string
	// ApplicationSet is the name of the ApplicationSet that made it.
	ApplicationSet string
	// Zone, Product, Environment and Org are the marks of who placed it; Zone is "" for what is no zone.
	Zone, Product, Environment, Org string
	// Controller tells that it owns cloud resources and is removed last (I83); Why says by what it was recognised.
	Controller bool
	Why        string
	// Resources are what it manages, as its status lists them.
	Resources []Resource
	// Live is the object itself.
	Live *unstructured.Unstructured

	// path are the waves from the root down to it, as belonging finds them.
	path []int
	// nested is set for one that has Applications among its resources; pure, where it has nothing else.
	nested, pure bool
	// last is set for what is taken down with the controllers.
	last bool
}

// Resource is something that an Application manages.
type Resource struct {
	Group, Kind, Namespace, Name string
	// Confirm is set where Argo CD deletes it only after somebody has confirmed (the sync option Delete=confirm).
	Confirm bool
}

// String names the resource as messages do.
func (r Resource) String() string {
	kind := r.Kind
	if r.Group != "" {
		kind += "." + r.Group
	}
	return kube.Name(kind, r.Namespace, r.Name)
}

// String names the Application as messages do.
func (a Application) String() string { return a.Namespace + "/" + a.Name }

// instance is what trackings call an Application: its name, with its namespace before it where that is not Argo CD's.
func (a Application) instance(home string) string {
	if a.Namespace == home {
		return a.Name
	}
	return a.Namespace + "_" + a.Name
}

// destination is where it deploys to, in words.
func (a Application) destination() string {
	where := a.DestinationName
	if where == "" {
		where = a.DestinationServer
	}
	if where == "" {
		where = "no cluster"
	}
	if a.DestinationNamespace != "" {
		where += ", namespace " + a.DestinationNamespace
	}
	return where
}

// home tells whether it deploys to the cluster that Argo CD runs in.
func (a Application) home() bool {
	return a.DestinationName == InClusterName || a.DestinationName == "" && cluster.SameServer(a.DestinationServer, InClusterServer)
}

// state is sync and health, in words.
func (a Application) state() string {
	sync, health := a.Sync, a.Health
	if sync == "" {
		sync = "not compared yet"
	}
	if health == "" {
		health = "health unknown"
	}
	return sync + ", " + health
}

// environment says which environment a zone's Application is.
func (a Application) environment() string {
	environment, product := a.Environment, a.Product
	if environment == "" {
		environment = "unnamed"
	}
	if product == "" {
		product = "unnamed"
	}
	return "zone " + a.Zone + " of product " + product + " (environment " + environment + ", namespace " + a.DestinationNamespace + ", Application " + a.String() + ")"
}

// cascades tells whether its deletion deletes what it deployed.
func (a Application) cascades() bool {
	return slices.ContainsFunc(a.Live.GetFinalizers(), isCascade)
}

// isCascade tells whether a finalizer makes a deletion cascade: with Argo CD's default propagation, or with the one that
// follows a slash.
func isCascade(finalizer string) bool {
	return finalizer == FinalizerCascade || strings.HasPrefix(finalizer, FinalizerCascade+"/")
}

// isOfArgoCD tells whether a finalizer is one that Argo CD's controller works on: those of the cascade, and those of hooks
// that run after a deletion.
func isOfArgoCD(finalizer string) bool {
	return isCascade(finalizer) || strings.HasPrefix(finalizer, "post-delete-finalizer.argocd.argoproj.io")
}

// readApplication reads an Application.
func readApplication(live *unstructured.Unstructured) Application {
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(live.Object, fields...)
		return value
	}
	labels, annotations := live.GetLabels(), live.GetAnnotations()
	wave, err := strconv.Atoi(strings.TrimSpace(annotations[AnnotationWave]))
	if err != nil {
		wave = 0 // as Argo CD takes it
	}
	a := Application{
		Namespace: live.GetNamespace(), Name: live.GetName(), UID: live.GetUID(), Wave: wave, Project: text("spec", "project"),
		DestinationName: text("spec", "destination", "name"), DestinationServer: text("spec", "destination", "server"),
		DestinationNamespace: text("spec", "destination", "namespace"),
		Sync:                 text("status", "sync", "status"), Health: text("status", "health", "status"), Parent: parentOf(live),
		Zone: labels[LabelZone], Product: labels[LabelProduct], Environment: labels[LabelEnvironment], Org: labels[LabelOrg],
		Live: live,
	}
	for _, owner := range live.GetOwnerReferences() {
		if owner.Kind == "ApplicationSet" && strings.HasPrefix(owner.APIVersion, Applications.Group+"/") {
			a.ApplicationSet = owner.Name
		}
	}
	resources, _, _ := unstructured.NestedSlice(live.Object, "status", "resources")
	for _, entry := range resources {
		fields, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		named := func(field string) string { value, _ := fields[field].(string); return value }
		confirm, _ := fields["requiresDeletionConfirmation"].(bool)
		a.Resources = append(a.Resources, Resource{Group: named("group"), Kind: named("kind"), Namespace: named("namespace"), Name: named("name"), Confirm: confirm})
	}
	return a
}

// parentOf is the Application that an object belongs to by its tracking. An annotation that was copied from another object
// names that one, and does not count; nor does the label beside an annotation.
func parentOf(live *unstructured.Unstructured) string {
	tracking := live.GetAnnotations()[AnnotationTracking]
	if tracking == "" {
		return live.GetLabels()[LabelInstance]
	}
	// application:group/kind:namespace/name
	parts := strings.SplitN(tracking, ":", 3)
	gvk := live.GroupVersionKind()
	if len(parts) != 3 || parts[1] != gvk.Group+"/"+gvk.Kind || parts[2] != live.GetNamespace()+"/"+live.GetName() {
		return ""
	}
	return parts[0]
}

// objectLister lists objects of a kind, in one namespace or ("") in all.
type objectLister func(ctx context.Context, kind cluster.Kind, namespace string) ([]*unstructured.Unstructured, error)

// fromSnapshot lists as the process has seen it, for a plan and for what is only shown.
func fromSnapshot(c *cluster.Cluster) objectLister {
	return func(ctx context.Context, kind cluster.Kind, namespace string) ([]*unstructured.Unstructured, error) {
		if namespace == "" {
			return c.List(ctx, kind)
		}
		return c.ListIn(ctx, kind, namespace)
	}
}

// asOfNow lists past the snapshot, for a removal: Argo CD changes its Applications all the time.
func asOfNow(c *cluster.Cluster) objectLister {
	return func(ctx context.Context, kind cluster.Kind, namespace string) ([]*unstructured.Unstructured, error) {
		return c.Select(ctx, kind, namespace, "", "")
	}
}

// listApplications gives all Applications, those of other namespaces than Argo CD's own (home) included where the credential may
// list them. served is false where the cluster knows no such kind.
func listApplications(ctx context.Context, list objectLister, home string) (all []Application, served bool, err error) {
	objects, err := list(ctx, Applications, "")
	if apierrors.IsForbidden(err) {
		objects, err = list(ctx, Applications, home)
	}
	if apierrors.IsNotFound(err) {
		// The kind went, and its objects with it.
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	for _, object := range objects {
		all = append(all, readApplication(object))
	}
	return all, true, nil
}
