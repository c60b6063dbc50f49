package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// sharedManager applies what all users of a shared object want alike, so that any of them can repair it.
const sharedManager = "berth-shared"

// userLabel is the label by which one resource says that it uses a shared object. The hash keeps two configurations
// with equally named resources apart; the value is for people.
func userLabel(owner Owner) string { return UserPrefix + owner.Hash() }

// userManager is the field manager of one user's label: each has its own, so that concurrent users never overwrite
// each other.
func userManager(owner Owner) string { return "berth-user-" + owner.Hash() }

// Users are the values of the user labels of a shared object: who uses it, sorted.
func Users(object *unstructured.Unstructured) []string {
	var users []string
	for key, value := range object.GetLabels() {
		if strings.HasPrefix(key, UserPrefix) {
			users = append(users, value)
		}
	}
	slices.Sort(users)
	return users
}

// IsShared tells whether an object carries the mark of an object that several resources share.
func IsShared(object *unstructured.Unstructured) bool {
	return object.GetLabels()[LabelShared] == "true"
}

// CheckShared refuses, with a *cluster.Problem, a shared object whose name something else has taken. A foreign object
// is never shared by accident: it has to be named as such instead.
func CheckShared(c *cluster.Cluster, object Object, live *unstructured.Unstructured, remedy string) error {
	if live == nil || IsShared(live) {
		return nil
	}
	whose := "berth did not create it"
	if owner, ok := ParseOwner(live); ok {
		whose = fmt.Sprintf("it is %s of the configuration with owner %q", owner.Resource, owner.Configuration)
	}
	return &cluster.Problem{
		Summary: fmt.Sprintf("%s exists already and is not shared", object.Describe()),
		Detail:  fmt.Sprintf("refusing: %s exists on %s and %s. %s", object.Describe(), c.Context(), whose, remedy),
	}
}

// IsUser tells whether a shared object (nil when there is none) carries the label of a user.
func IsUser(object *unstructured.Unstructured, user Owner) bool {
	if object == nil || !IsShared(object) {
		return false
	}
	_, uses := object.GetLabels()[userLabel(user)]
	return uses
}

// shareAttempts is how often Share begins anew when others change or delete the object at the same moment.
const shareAttempts = 5

// Share makes sure that a shared object exists as all its users want it, and that it carries this user's label. Users
// that come, repair and leave at the same moment end with one object and the labels of those that stay.
func Share(ctx context.Context, c *cluster.Cluster, object Object, user Owner, name, remedy string) (*unstructured.Unstructured, error) {
	for attempt := 1; ; attempt++ {
		live, err := share(ctx, c, object, user, name, remedy)
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) || attempt == shareAttempts {
			return live, err
		}
	}
}

func share(ctx context.Context, c *cluster.Cluster, object Object, user Owner, name, remedy string) (*unstructured.Unstructured, error) {
	live, err := c.Fetch(ctx, object.Kind, object.Desired.GetNamespace(), object.Desired.GetName())
	if err != nil {
		return nil, err
	}
	if live != nil && IsShared(live) && live.GetDeletionTimestamp() != nil {
		// Its last user has just left.
		if err := WaitGone(ctx, c, object.Kind, live.GetNamespace(), live.GetName()); err != nil {
			return nil, err
		}
		live = nil
	}
	if err := CheckShared(c, object, live, remedy); err != nil {
		return nil, err
	}
	wanted := sharedForm(object)
	if live == nil {
		c.Progress(ctx, object.Describe(), "create", "")
		live, err = c.Create(ctx, object.Kind, wanted, sharedManager)
		if apierrors.IsAlreadyExists(err) {
			// Another user was quicker, which is as good.
			live, err = c.Fetch(ctx, object.Kind, wanted.GetNamespace(), wanted.GetName())
		}
		if err != nil {
			return nil, explainWrite(c, object, err)
		}
		if live == nil {
			return nil, fmt.Errorf("%s was deleted by somebody else while it was being created; plan again", object.Describe())
		}
		if err := CheckShared(c, object, live, remedy); err != nil {
			return nil, err
		}
	}
	if len(compareAs(wanted, wanted, object.complete(live))) > 0 {
		if err := c.TakeFields(ctx, object.Kind, live, sharedManager); err != nil {
			return nil, explainWrite(c, object, err)
		}
		wanted.SetUID(live.GetUID())
		if live, err = c.Apply(ctx, object.Kind, wanted, cluster.ApplyOptions{FieldManager: sharedManager, Force: true}); err != nil {
			return nil, explainWrite(c, object, err)
		}
	}
	if live.GetLabels()[userLabel(user)] == name {
		return live, nil
	}
	claim := object.Kind.New(wanted.GetNamespace(), wanted.GetName())
	claim.SetUID(live.GetUID())
	setLabel(claim, userLabel(user), name)
	live, err = c.Apply(ctx, object.Kind, claim, cluster.ApplyOptions{FieldManager: userManager(user), Force: true})
	return live, explainWrite(c, object, err)
}

// sharedForm is a shared object with the marks that all its users agree on.
func sharedForm(object Object) *unstructured.Unstructured {
	wanted := object.Desired.DeepCopy()
	setLabel(wanted, LabelManagedBy, ManagedBy)
	setLabel(wanted, LabelShared, "true")
	setAnnotation(wanted, AnnotationCreated, "true")
	return wanted
}

// SharedDrift is Drift for one shared object and one of its users.
func SharedDrift(ctx context.Context, c *cluster.Cluster, object Object, user Owner, name string) (map[string]string, error) {
	drift := map[string]string{}
	live, err := c.Live(ctx, object.Kind, object.Desired.GetNamespace(), object.Desired.GetName())
	if err != nil {
		return nil, err
	}
	if live == nil || live.GetDeletionTimestamp() != nil {
		drift[object.Describe()] = "missing → present"
		return drift, nil
	}
	wanted := sharedForm(object)
	setLabel(wanted, userLabel(user), name)
	for _, difference := range compareAs(wanted, wanted, object.complete(live)) {
		drift[object.Describe()+" "+difference.Path] = difference.change()
	}
	return drift, nil
}

// Unshare takes a user's label off a shared object or, when it is the last one, deletes the object with it, provided that
// mayDelete agrees; it returns why the object stays, empty when it is gone. Either is one write, for the object as it was
// seen: a user that comes or goes at the same moment makes it look again, and an interruption leaves no object without a
// user behind.
func Unshare(ctx context.Context, c *cluster.Cluster, kind cluster.Kind, namespace, name string, user Owner, mayDelete func(context.Context) (reason string, err error)) (stays string, err error) {
	for attempt := 1; ; attempt++ {
		stays, err = unshare(ctx, c, kind, namespace, name, user, mayDelete)
		if !apierrors.IsConflict(err) || attempt == shareAttempts {
			return stays, err
		}
	}
}

func unshare(ctx context.Context, c *cluster.Cluster, kind cluster.Kind, namespace, name string, user Owner, mayDelete func(context.Context) (reason string, err error)) (stays string, err error) {
	live, err := c.Fetch(ctx, kind, namespace, name)
	if err != nil || live == nil {
		return "", err
	}
	if !IsShared(live) {
		return "it is not a shared object of berth's", nil
	}
	rest := live.DeepCopy()
	unstructured.RemoveNestedField(rest.Object, "metadata", "labels", userLabel(user))
	switch users := Users(rest); {
	case len(users) > 0:
		stays = "it is still used by " + strings.Join(users, ", ")
	case !Created(live):
		stays = "berth did not create it"
	default:
		if stays, err = mayDelete(ctx); err != nil {
			return "", err
		}
	}
	if stays == "" {
		c.Progress(ctx, Describe(live), "delete", "")
		return "", c.DeleteAsSeen(ctx, kind, live)
	}
	if !IsUser(live, user) {
		return stays, nil
	}
	patch := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
		"uid": string(live.GetUID()), "resourceVersion": live.GetResourceVersion(), "labels": map[string]any{userLabel(user): nil},
	}}}
	body, err := patch.MarshalJSON()
	if err != nil {
		return "", err
	}
	if _, err = c.MergePatch(ctx, kind, namespace, name, body, userManager(user)); apierrors.IsNotFound(err) {
		return "", nil
	}
	return stays, err
}
