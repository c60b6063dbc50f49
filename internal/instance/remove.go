package instance

import (
	"context"
	"fmt"
	"strings"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// Removal is how an instance is taken apart.
type Removal struct {
	Owner kube.Owner
	// Retain leaves everything on the cluster and only takes the marks off.
	Retain bool
	// Force deletes the namespace with whatever else is in it.
	Force bool
	// RemoveOperator uninstalls the shared operator when this was its last instance.
	RemoveOperator bool
}

// CheckRemove refuses, with a *cluster.Problem that lists it, to delete a namespace in which something foreign is left,
// volume claims included.
func (s Spec) CheckRemove(ctx context.Context, c *cluster.Cluster, removal Removal) error {
	live, err := c.Fetch(ctx, cluster.Namespaces, "", s.Namespace)
	if err != nil || live == nil || live.GetDeletionTimestamp() != nil {
		return err
	}
	if removal.Retain || removal.Force || !kube.Created(live) || kube.Inspect(live, removal.Owner).Standing != kube.Ours {
		return nil
	}
	foreign, err := kube.Leftovers(ctx, c, s.Namespace, removal.Owner)
	if err != nil || len(foreign) == 0 {
		return err
	}
	return &cluster.Problem{
		Attribute: "force_destroy", Summary: fmt.Sprintf("Namespace %q still has objects that are not the instance's", s.Namespace),
		Detail: fmt.Sprintf("refusing: namespace %q on %s would be deleted with %d object(s) that berth did not create: %s. "+
			"Remove them, or set force_destroy = true to delete them with the namespace, or deletion_policy = \"retain\" to leave the namespace.",
			s.Namespace, c.Context(), len(foreign), strings.Join(foreign, ", ")),
	}
}

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
	for i := len(own) - 1; i >= 0; i-- {
		object := own[i]
		name, namespace := object.Desired.GetName(), object.Desired.GetNamespace()
		what, err := kube.Remove(ctx, c, object.Kind, namespace, name, removal.Owner, removal.Retain)
		if err != nil {
			return stays, err
		}
		switch what {
		case kube.Deleted:
			if err := kube.WaitGone(ctx, c, object.Kind, namespace, name); err != nil {
				return stays, err
			}
		case kube.Kept:
			reason := "it was adopted, not created"
			if removal.Retain {
				reason = "deletion_policy is \"retain\""
			}
			stays = append(stays, object.Describe()+": "+reason)
		case kube.NotOurs:
			stays = append(stays, object.Describe()+": it does not carry this configuration's mark")
		}
	}
	return stays, nil
}

// leaveOperator takes the instance's label off the shared operator, and uninstalls it after its last instance when
// that was asked for.
func (s Spec) leaveOperator(ctx context.Context, c *cluster.Cluster, removal Removal, stays []string) ([]string, error) {
	objects := s.operator()
	for i := len(objects) - 1; i >= 0; i-- {
		object := objects[i]
		reason, err := kube.Unshare(ctx, c, object.Kind, object.Desired.GetNamespace(), object.Desired.GetName(), removal.Owner,
			func(ctx context.Context) (string, error) {
				if removal.Retain || !removal.RemoveOperator {
					return "remove_operator is false", nil
				}
				if object.Kind != cluster.Namespaces {
					return "", nil
				}
				foreign, err := kube.Leftovers(ctx, c, object.Desired.GetName(), removal.Owner)
				if err != nil || len(foreign) == 0 {
					return "", err
				}
				return "it still has " + strings.Join(foreign, ", "), nil
			})
		if err != nil {
			return stays, err
		}
		if reason != "" {
			stays = append(stays, object.Describe()+": "+reason)
			continue
		}
		if err := kube.WaitGone(ctx, c, object.Kind, object.Desired.GetNamespace(), object.Desired.GetName()); err != nil {
			return stays, err
		}
	}
	return stays, nil
}
