package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

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

// OtherUsers are the values of the labels of all users of a shared object but one, sorted.
func OtherUsers(object *unstructured.Unstructured, user Owner) []string {
	rest := &unstructured.Unstructured{Object: map[string]any{}}
	labels := object.GetLabels()
	delete(labels, userLabel(user))
	rest.SetLabels(labels)
	return Users(rest)
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

// Decision is what one user does to a shared object that is there already.
type Decision int

const (
	// Repair makes it as this user wants it.
	Repair Decision = iota
	// Leave changes nothing of it but this user's label.
	Leave
	// Recreate deletes it and creates it as this user wants it, for a field that the API never lets change.
	Recreate
)

// Sharing is on whose behalf, and how far, a shared object may be changed.
type Sharing struct {
	User Owner
	// Name is the value of the user's label, for people.
	Name string
	// Remedy is the way out when something else has taken the object's name.
	Remedy string
	// Decide tells from the live object what to do to it; its error refuses to share it. The write that follows is for the
	// object as it was decided on: when that changed in the meantime, it decides anew. Nil is always Repair.
	Decide func(live *unstructured.Unstructured) (Decision, error)
}

func (s Sharing) decide(live *unstructured.Unstructured) (Decision, error) {
	if s.Decide == nil {
		return Repair, nil
	}
	return s.Decide(live)
}

// Untouched is a Decide that always leaves the object as it is.
func Untouched(*unstructured.Unstructured) (Decision, error) { return Leave, nil }

const (
	// shareAttempts is how often a shared object is looked at anew when others change or delete it at the same moment, its
	// controller's status updates included.
	shareAttempts = 12
	// sharePause is how long to stand back before that, times the attempt, and up to as long again at random.
	sharePause = 20 * time.Millisecond
)

// standBack waits a moment, so that writers who met each other do not meet again.
func standBack(ctx context.Context, attempt int) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait.Jitter(time.Duration(attempt)*sharePause, 1)):
		return nil
	}
}

// Share makes sure that a shared object exists as its users want it, and that it carries this user's label. Users that
// come, repair and leave at the same moment end with one object and the labels of those that stay.
func Share(ctx context.Context, c *cluster.Cluster, object Object, sharing Sharing) (*unstructured.Unstructured, error) {
	for attempt := 1; ; attempt++ {
		live, err := share(ctx, c, object, sharing)
		if err == nil {
			c.Take(ctx, object.Kind, object.Desired.GetNamespace(), object.Desired.GetName(), sharing.User.String())
		}
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) || attempt == shareAttempts {
			return live, err
		}
		if err := standBack(ctx, attempt); err != nil {
			return nil, err
		}
	}
}

func share(ctx context.Context, c *cluster.Cluster, object Object, sharing Sharing) (*unstructured.Unstructured, error) {
	live, err := c.Fetch(ctx, object.Kind, object.Desired.GetNamespace(), object.Desired.GetName())
	if err != nil {
		return nil, err
	}
	if live != nil && IsShared(live) && live.GetDeletionTimestamp() != nil {
		// Its last user has just left.
		if err := WaitGone(ctx, c, object.Kind, live.GetNamespace(), live.GetName(), live.GetUID()); err != nil {
			return nil, err
		}
		live = nil
	}
	if err := CheckShared(c, object, live, sharing.Remedy); err != nil {
		return nil, err
	}
	decision := Repair
	if live != nil {
		if decision, err = sharing.decide(live); err != nil {
			return nil, err
		}
	}
	if decision == Recreate {
		c.Progress(ctx, object.Describe(), "delete", "it is created again, because it differs in what Kubernetes never lets change")
		if err := c.DeleteAsSeen(ctx, object.Kind, live); err != nil {
			return nil, err
		}
		if err := WaitGone(ctx, c, object.Kind, live.GetNamespace(), live.GetName(), live.GetUID()); err != nil {
			return nil, err
		}
		live = nil
	}
	wanted := sharedForm(object)
	switch {
	case live == nil:
		if live, err = createShared(ctx, c, object, sharing); err != nil {
			return nil, err
		}
	case decision == Repair && len(compareAs(wanted, wanted, object.complete(live))) > 0:
		// Where fields are taken, the object is another one afterwards: the apply conflicts, and decides anew.
		if err := c.TakeFields(ctx, object.Kind, live, sharedManager); err != nil {
			return nil, explainWrite(c, object, err)
		}
		wanted.SetUID(live.GetUID())
		wanted.SetResourceVersion(live.GetResourceVersion())
		if live, err = c.Apply(ctx, object.Kind, wanted, cluster.ApplyOptions{FieldManager: sharedManager, Force: true}); err != nil {
			return nil, explainWrite(c, object, err)
		}
	}
	if claimed(live, sharing) {
		return live, nil
	}
	claim := object.Kind.New(wanted.GetNamespace(), wanted.GetName())
	claim.SetUID(live.GetUID())
	setLabel(claim, userLabel(sharing.User), sharing.Name)
	live, err = c.Apply(ctx, object.Kind, claim, cluster.ApplyOptions{FieldManager: userManager(sharing.User), Force: true})
	return live, explainWrite(c, object, err)
}

// createShared creates a shared object with the label of its first user, so that whoever comes a moment later sees that
// it has one. The error satisfies apierrors.IsConflict when somebody else was quicker, which is as good.
func createShared(ctx context.Context, c *cluster.Cluster, object Object, sharing Sharing) (*unstructured.Unstructured, error) {
	c.Progress(ctx, object.Describe(), "create", "")
	wanted := sharedForm(object)
	setLabel(wanted, userLabel(sharing.User), sharing.Name)
	live, err := c.Create(ctx, object.Kind, wanted, sharedManager)
	if apierrors.IsAlreadyExists(err) {
		return nil, apierrors.NewConflict(object.Kind.GVR().GroupResource(), wanted.GetName(), err)
	}
	return live, explainWrite(c, object, err)
}

// claimed tells whether the user's label is there by the user's own field manager. One that came with the creation would
// go with the next repair.
func claimed(live *unstructured.Unstructured, sharing Sharing) bool {
	return live.GetLabels()[userLabel(sharing.User)] == sharing.Name &&
		slices.ContainsFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool { return entry.Manager == userManager(sharing.User) })
}

// sharedForm is a shared object with the marks that all its users agree on.
func sharedForm(object Object) *unstructured.Unstructured {
	wanted := object.Desired.DeepCopy()
	setLabel(wanted, LabelManagedBy, ManagedBy)
	setLabel(wanted, LabelShared, "true")
	SetAnnotation(wanted, AnnotationCreated, "true")
	return wanted
}

// SharedDrift is Drift for one shared object and one of its users: of an object that it would leave as it is, only the
// user's label counts.
func SharedDrift(ctx context.Context, c *cluster.Cluster, object Object, sharing Sharing) (map[string]string, error) {
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
	// What is refused is for an apply to say; here it is a difference like any other.
	if decision, err := sharing.decide(live); err == nil && decision == Leave {
		wanted = object.Kind.New(object.Desired.GetNamespace(), object.Desired.GetName())
	}
	setLabel(wanted, userLabel(sharing.User), sharing.Name)
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
		if err := standBack(ctx, attempt); err != nil {
			return "", err
		}
	}
}

// replacedUser is why a part in a shared object stays: both resources write the same user label.
const replacedUser = "the resource that takes this one's place uses it"

func unshare(ctx context.Context, c *cluster.Cluster, kind cluster.Kind, namespace, name string, user Owner, mayDelete func(context.Context) (reason string, err error)) (stays string, err error) {
	live, err := c.Fetch(ctx, kind, namespace, name)
	if err != nil || live == nil {
		return "", err
	}
	if c.TakenByOther(ctx, kind, namespace, name, user.String()) {
		return replacedUser, nil
	}
	if !IsShared(live) {
		return "it is not a shared object of berth's", nil
	}
	switch users := OtherUsers(live, user); {
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
