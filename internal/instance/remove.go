package instance

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// Removal is how an instance is taken apart.
type Removal struct {
	Owner kube.Owner
	// Held is set when the state's own apply has marked the objects: they are the instance's by proof, even when their
	// marks were taken off or name another `owner` since.
	Held bool
	// Retain leaves everything on the cluster and only takes the marks off.
	Retain bool
	// Force deletes the namespace with whatever else is in it.
	Force bool
	// RemoveOperator uninstalls the shared operator when this was its last instance.
	RemoveOperator bool
}

// terms are on whose behalf objects are taken away; uid is that of the object in the state, where it is known.
func (r Removal) terms(uid types.UID) kube.Terms {
	return kube.Terms{Owner: r.Owner, Held: r.Held, UID: uid}
}

// Foreign lists what a removal would delete with the namespace although berth did not create it, volume claims
// included, each as Kind/name; nothing where the namespace stays.
func (s Spec) Foreign(ctx context.Context, c *cluster.Cluster, removal Removal) ([]string, error) {
	live, err := c.Fetch(ctx, cluster.Namespaces, "", s.Namespace)
	if err != nil || live == nil || live.GetDeletionTimestamp() != nil {
		return nil, err
	}
	if removal.Retain || removal.Force || !kube.Created(live) || !removal.terms(s.NamespaceUID).Ours(live) {
		return nil, nil
	}
	if c.TakenByOther(ctx, cluster.Namespaces, "", s.Namespace, removal.Owner.String()) {
		return nil, nil
	}
	return kube.Leftovers(ctx, c, s.Namespace, removal.terms(""))
}

// CheckRemove refuses, with a *cluster.Problem that lists it, to delete a namespace in which something foreign is left.
func (s Spec) CheckRemove(ctx context.Context, c *cluster.Cluster, removal Removal) error {
	foreign, err := s.Foreign(ctx, c, removal)
	if err != nil || len(foreign) == 0 {
		return err
	}
	return &cluster.Problem{
		Attribute: "force_destroy", Summary: s.Left(),
		Detail: fmt.Sprintf("refusing: namespace %q on %s would be deleted with %d object(s) that berth did not create: %s. %s",
			s.Namespace, c.Context(), len(foreign), strings.Join(foreign, ", "), WaysOut),
	}
}

// Left is the summary of what is said about foreign objects in the namespace.
func (s Spec) Left() string {
	return fmt.Sprintf("Namespace %q still has objects that are not the instance's", s.Namespace)
}

// WaysOut is what to do about foreign objects in a namespace that is to be deleted.
const WaysOut = "Remove them, or set force_destroy = true to delete them with the namespace, or deletion_policy = \"retain\" to leave the namespace."

// Remove takes the instance apart in order: its components, its settings, its part in the shared operator, its
// namespace, and last the default classes, which its pods named. It returns what stays and why.
func (s Spec) Remove(ctx context.Context, c *cluster.Cluster, removal Removal) (stays []string, err error) {
	if err := s.CheckRemove(ctx, c, removal); err != nil {
		return nil, err
	}
	namespace, err := c.Fetch(ctx, cluster.Namespaces, "", s.Namespace)
	if err != nil {
		return nil, err
	}
	if namespace != nil {
		if stays, err = s.removeOwn(ctx, c, removal, stays); err != nil {
			return stays, err
		}
	}
	if stays, err = s.leaveOperator(ctx, c, removal, stays); err != nil {
		return stays, err
	}
	for _, class := range s.managedClasses() {
		reason, err := releaseClass(ctx, c, class.Name, removal.Owner, removal.Retain)
		if err != nil {
			return stays, err
		}
		if reason != "" {
			stays = append(stays, fmt.Sprintf("PriorityClass/%s: %s", class.Name, reason))
		}
	}
	return stays, nil
}

func (s Spec) removeOwn(ctx context.Context, c *cluster.Cluster, removal Removal, stays []string) ([]string, error) {
	own := s.own()
	for _, object := range slices.Backward(own) {

		name, namespace := object.Desired.GetName(), object.Desired.GetNamespace()
		terms := removal.terms("")
		if object.Kind == cluster.Namespaces {
			// The waits before this may have taken minutes, in which anything can have come into the namespace.
			if err := s.CheckRemove(ctx, c, removal); err != nil {
				return stays, err
			}
			terms = removal.terms(s.NamespaceUID)
		}
		what, err := kube.Remove(ctx, c, object.Kind, namespace, name, terms, removal.Retain)
		if err != nil {
			return stays, err
		}
		switch what {
		case kube.Kept:
			reason := "it was adopted, not created"
			if removal.Retain {
				reason = "deletion_policy is \"retain\""
			}
			stays = append(stays, object.Describe()+": "+reason)
		case kube.NotOurs:
			stays = append(stays, object.Describe()+": it does not carry this configuration's mark")
		case kube.Replaced:
			stays = append(stays, object.Describe()+": the resource that takes this one's place has it now")
		}
	}
	return stays, nil
}
