package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// Object is one object that a resource wants, as it shall be: only the fields that we declare, without our marks.
type Object struct {
	Kind    cluster.Kind
	Desired *unstructured.Unstructured
	// Immutable are the top-level fields that the API never lets change, so that an object which differs in one
	// cannot be adopted.
	Immutable []string
	// Omitted are the top-level fields that the API leaves out while they have this value, such as a boolean that is
	// false: without it, their absence would look like a difference.
	Omitted map[string]any
}

// Compare returns the fields that the object sets and that live has otherwise; see the function of that name.
func (o Object) Compare(live *unstructured.Unstructured) []Difference {
	return compareAs(o.Desired, o.Desired, o.complete(live))
}

// complete is an object of the server with the fields that the API leaves out.
func (o Object) complete(live *unstructured.Unstructured) *unstructured.Unstructured {
	if len(o.Omitted) == 0 {
		return live
	}
	whole := &unstructured.Unstructured{Object: maps.Clone(live.Object)}
	for field, value := range o.Omitted {
		if _, served := whole.Object[field]; !served {
			whole.Object[field] = value
		}
	}
	return whole
}

// Describe names the object as messages do.
func (o Object) Describe() string { return Describe(o.Desired) }

// Terms are on whose behalf, and how far, an object may be taken.
type Terms struct {
	Owner Owner
	// Adopt allows taking over a foreign object.
	Adopt bool
	// AdoptFrom names the controllers (`tool/name`) from which it may be taken although they keep it in place.
	AdoptFrom []string
	// Held is set when the state holds the object: it is ours by proof, whatever its marks say.
	Held bool
	// UID is that of the object which the state holds, where it is known: what somebody else made in the place of an
	// object that was deleted is not held.
	UID types.UID
}

func (t Terms) holds(live *unstructured.Unstructured) bool {
	return t.Held && (t.UID == "" || t.UID == live.GetUID())
}

// Marked tells whether a live object carries the resource's own mark, or the one that it had under another `owner`
// where the state holds it.
func (t Terms) Marked(live *unstructured.Unstructured) bool {
	claim := Inspect(live, t.Owner)
	return claim.Standing == Ours || claim.Standing == Others && t.holds(live) && claim.Owner.Resource == t.Owner.Resource
}

// Ours tells whether a live object is the resource's to take away: it is marked, or the state holds it although its
// marks were taken off.
func (t Terms) Ours(live *unstructured.Unstructured) bool {
	return t.Marked(live) || Inspect(live, t.Owner).Standing == Foreign && t.holds(live)
}

// Verdict is what applying an object would do.
type Verdict int

const (
	// Create: there is none yet.
	Create Verdict = iota
	// Resume: it carries our own mark although the state does not hold it: an earlier apply was interrupted.
	Resume
	// Adopt: it is foreign and may be taken over.
	Adopt
	// Update: the state holds it.
	Update
)

// Outlook is the result of a plan-time check of one object.
type Outlook struct {
	Verdict Verdict
	// Changes are the fields that an adoption would change.
	Changes []Difference
}

// Check tells what applying an object would do, without writing anything. The error is a *cluster.Problem when it is
// not ours to take: of another berth resource, foreign without `adopt`, kept by a controller that `adopt_from` does
// not name, or different in a field that cannot change.
func Check(ctx context.Context, c *cluster.Cluster, object Object, terms Terms) (Outlook, error) {
	live, err := c.Exists(ctx, object.Kind, object.Desired.GetNamespace(), object.Desired.GetName())
	if err != nil {
		return Outlook{}, err
	}
	if claim := Inspect(live, terms.Owner); claim.Standing == Foreign && terms.Adopt {
		// Comparing needs the whole object, not just its metadata.
		if live, err = c.Fetch(ctx, object.Kind, object.Desired.GetNamespace(), object.Desired.GetName()); err != nil {
			return Outlook{}, err
		}
	}
	return Judge(c, object, terms, live)
}

// Judge is Check for an object that was read already; live is nil when there is none.
func Judge(c *cluster.Cluster, object Object, terms Terms, live *unstructured.Unstructured) (Outlook, error) {
	claim := Inspect(live, terms.Owner)
	switch claim.Standing {
	case Absent:
		return Outlook{Verdict: Create}, nil
	case Ours:
		if terms.holds(live) {
			return Outlook{Verdict: Update}, nil
		}
		return Outlook{Verdict: Resume}, nil
	case Others:
		if terms.holds(live) && claim.Owner.Resource == terms.Owner.Resource {
			// The configuration's `owner` changed, or the resource moved here from another state.
			return Outlook{Verdict: Update}, nil
		}
		return Outlook{}, belongsToOther(c, object, claim.Owner)
	case Shared:
		return Outlook{}, &cluster.Problem{
			Summary: fmt.Sprintf("%s is shared", object.Describe()),
			Detail: fmt.Sprintf("refusing: %s on %s is shared by resources of berth (%s) and can be no single one's, not even with adopt. "+
				"Choose another name.", object.Describe(), c.Context(), strings.Join(Users(live), ", ")),
		}
	}
	if terms.holds(live) {
		return Outlook{Verdict: Update}, nil
	}
	if !terms.Adopt {
		return Outlook{}, foreign(c, object, claim)
	}
	if refused := NotIn(claim.Keepers, terms.AdoptFrom); len(refused) > 0 {
		return Outlook{}, kept(c, object, refused)
	}
	changes := object.Compare(live)
	if fixed := touching(changes, object.Immutable); len(fixed) > 0 {
		return Outlook{}, &cluster.Problem{
			Attribute: "adopt",
			Summary:   fmt.Sprintf("%s cannot be adopted", object.Describe()),
			Detail: fmt.Sprintf("refusing: %s on %s differs in fields that Kubernetes never lets change: %s. "+
				"Set the configuration to what is there, or choose another name.", object.Describe(), c.Context(), join(fixed)),
		}
	}
	if label := live.GetLabels()[LabelManagedBy]; label != "" && label != ManagedBy {
		changes = append(changes, Difference{Path: "metadata.labels.[" + LabelManagedBy + "]", Found: label, Wanted: ManagedBy})
	}
	return Outlook{Verdict: Adopt, Changes: changes}, nil
}

func belongsToOther(c *cluster.Cluster, object Object, owner Owner) error {
	return &cluster.Problem{
		Summary: fmt.Sprintf("%s belongs to another owner", object.Describe()),
		Detail: fmt.Sprintf("refusing: %s on %s is marked as %s of the configuration with owner %q. "+
			"Choose another name, or remove it from that configuration first (with deletion_policy = \"retain\" the object stays and loses its mark).",
			object.Describe(), c.Context(), owner.Resource, owner.Configuration),
	}
}

func foreign(c *cluster.Cluster, object Object, claim Claim) error {
	remedy := "Set adopt = true to take it over as it is, or choose another name."
	if len(claim.Keepers) > 0 {
		remedy = fmt.Sprintf("It is kept in place by %s, which would revert what berth changes: choose another name, or take it out of that first. "+
			"To take it over all the same, set adopt = true and adopt_from = [%s].", strings.Join(claim.Keepers, ", "), QuoteAll(claim.Keepers))
	}
	return &cluster.Problem{
		Attribute: "adopt",
		Summary:   fmt.Sprintf("%s exists already and is not berth's", object.Describe()),
		Detail:    fmt.Sprintf("refusing: %s exists on %s and berth did not create it. %s", object.Describe(), c.Context(), remedy),
	}
}

func kept(c *cluster.Cluster, object Object, keepers []string) error {
	return &cluster.Problem{
		Attribute: "adopt_from",
		Summary:   fmt.Sprintf("%s is kept in place by %s", object.Describe(), strings.Join(keepers, ", ")),
		Detail: fmt.Sprintf("refusing: %s on %s is kept in place by %s, which would revert what berth changes. "+
			"Take it out of that first, or name it in adopt_from = [%s].", object.Describe(), c.Context(), strings.Join(keepers, ", "), QuoteAll(keepers)),
	}
}

// Converge makes one object as it shall be and returns it as the server has it. The checks of Check are repeated on the
// object as it is now; creating it fails when somebody else was quicker, and an update is for the object that was
// checked and no other. Running it again after an interruption converges.
func Converge(ctx context.Context, c *cluster.Cluster, object Object, terms Terms) (*unstructured.Unstructured, error) {
	live, err := c.Fetch(ctx, object.Kind, object.Desired.GetNamespace(), object.Desired.GetName())
	if err != nil {
		return nil, err
	}
	return ConvergeFrom(ctx, c, object, terms, live)
}

// ConvergeFrom is Converge for an object that was read just now; live is nil when there is none.
func ConvergeFrom(ctx context.Context, c *cluster.Cluster, object Object, terms Terms, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	outlook, err := Judge(c, object, terms, live)
	if err != nil {
		return nil, err
	}
	namespace, name := object.Desired.GetNamespace(), object.Desired.GetName()
	if outlook.Verdict == Resume && c.TakenByOther(ctx, object.Kind, namespace, name, terms.Owner.String()) {
		return nil, &cluster.Problem{
			Summary: fmt.Sprintf("Two resources want %s", object.Describe()),
			Detail: fmt.Sprintf("refusing: another resource of this configuration has just applied %s on %s, and both would change and delete it. "+
				"Take one of them out, or give it another name.", object.Describe(), c.Context()),
		}
	}
	if live != nil && live.GetDeletionTimestamp() != nil {
		// What is being deleted cannot be kept: it is made anew as soon as it is gone.
		if err := WaitGone(ctx, c, object.Kind, namespace, name, live.GetUID()); err != nil {
			return nil, err
		}
		live, outlook.Verdict = nil, Create
	}
	applied, err := write(ctx, c, object, terms, live, outlook.Verdict)
	if err == nil {
		c.Take(ctx, object.Kind, namespace, name, terms.Owner.String())
	}
	return applied, err
}

func write(ctx context.Context, c *cluster.Cluster, object Object, terms Terms, live *unstructured.Unstructured, verdict Verdict) (*unstructured.Unstructured, error) {
	wanted := object.Desired.DeepCopy()
	if verdict == Create {
		c.Progress(ctx, object.Describe(), "create", "")
		mark(wanted, terms.Owner, true)
		created, err := c.Create(ctx, object.Kind, wanted, FieldManager)
		if apierrors.IsAlreadyExists(err) {
			return nil, &cluster.Problem{
				Summary: fmt.Sprintf("%s was created by somebody else at the same moment", object.Describe()),
				Detail: fmt.Sprintf("%s did not exist on %s when it was checked, and did when it was to be created. It was left as it is. "+
					"Plan again to see whose it is.", object.Describe(), c.Context()),
			}
		}
		return created, explainWrite(c, object, err)
	}
	c.Progress(ctx, object.Describe(), "apply", "")
	if err := c.TakeFields(ctx, object.Kind, live, FieldManager); err != nil {
		return nil, explainWrite(c, object, err)
	}
	// What is adopted was not created by this resource, whatever the marks of one before it say.
	mark(wanted, terms.Owner, Created(live) && verdict != Adopt)
	carry(wanted, live, verdict == Adopt)
	wanted.SetUID(live.GetUID())
	applied, err := c.Apply(ctx, object.Kind, wanted, cluster.ApplyOptions{FieldManager: FieldManager, Force: true})
	return applied, explainWrite(c, object, err)
}

// Remove takes an object away: deleted, and waited for until it is gone, when berth created it; stripped of our marks when
// it was adopted; left alone when it is not ours, or when another resource of the same apply has it now. It returns what
// became of it, for the caller to tell; an object that is gone already is Gone.
func Remove(ctx context.Context, c *cluster.Cluster, kind cluster.Kind, namespace, name string, terms Terms, retain bool) (Removal, error) {
	live, err := c.Fetch(ctx, kind, namespace, name)
	if err != nil {
		return Kept, err
	}
	if live == nil {
		return Gone, nil
	}
	if c.TakenByOther(ctx, kind, namespace, name, terms.Owner.String()) {
		return Replaced, nil
	}
	if !terms.Ours(live) {
		return NotOurs, nil
	}
	if Created(live) && !retain {
		c.Progress(ctx, Describe(live), "delete", "")
		if err := c.Delete(ctx, kind, namespace, name, live.GetUID()); err != nil {
			return Kept, err
		}
		return Deleted, WaitGone(ctx, c, kind, namespace, name, live.GetUID())
	}
	c.Progress(ctx, Describe(live), "release", "it stays on the cluster without berth's marks")
	return Kept, Unmark(ctx, c, kind, live)
}

// Removal is what became of an object that a resource no longer wants.
type Removal int

const (
	// Gone: the cluster answered NotFound.
	Gone Removal = iota
	// Deleted: it was deleted.
	Deleted
	// Kept: it stays, without our marks.
	Kept
	// NotOurs: it carries somebody else's mark, or none, and was left alone.
	NotOurs
	// Replaced: the resource that takes this one's place has it now.
	Replaced
)

// Unmark takes our marks, every label and annotation below berth.dev/, off an object, says again who managed it before
// it was adopted, and leaves everything else as it is.
func Unmark(ctx context.Context, c *cluster.Cluster, kind cluster.Kind, live *unstructured.Unstructured) error {
	labels, annotations := map[string]any{}, map[string]any{}
	for key, value := range live.GetLabels() {
		if strings.HasPrefix(key, markPrefix) || (key == LabelManagedBy && value == ManagedBy) {
			labels[key] = nil
		}
	}
	if before := live.GetAnnotations()[AnnotationManagedBefore]; before != "" {
		labels[LabelManagedBy] = before
	}
	for key := range live.GetAnnotations() {
		if strings.HasPrefix(key, markPrefix) {
			annotations[key] = nil
		}
	}
	patch := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
		"uid": string(live.GetUID()), "labels": labels, "annotations": annotations,
	}}}
	body, err := patch.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = c.MergePatch(ctx, kind, live.GetNamespace(), live.GetName(), body, FieldManager)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Annotate sets one annotation of ours on an object, or removes it when the value is empty, and returns the object. The
// error satisfies apierrors.IsNotFound when it is gone.
func Annotate(ctx context.Context, c *cluster.Cluster, kind cluster.Kind, namespace, name, key, value string) (*unstructured.Unstructured, error) {
	var set any
	if value != "" {
		set = value
	}
	patch := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: set}}}}
	body, err := patch.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return c.MergePatch(ctx, kind, namespace, name, body, FieldManager)
}

// explainWrite puts the object before a refusal of the API server, so that the message says what could not be written.
func explainWrite(c *cluster.Cluster, object Object, err error) error {
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	return &cluster.Problem{
		Summary: fmt.Sprintf("%s could not be written", object.Describe()),
		Detail:  fmt.Sprintf("The API server of %s refused %s: %s", c.Context(), object.Describe(), sentence(err.Error())),
		Err:     err,
	}
}

// NotIn are those that are not among the allowed, such as keepers that adopt_from does not name.
func NotIn(have, allowed []string) []string {
	return slices.DeleteFunc(slices.Clone(have), func(one string) bool { return slices.Contains(allowed, one) })
}

func touching(changes []Difference, fields []string) []Difference {
	return slices.DeleteFunc(slices.Clone(changes), func(change Difference) bool {
		field, _, _ := strings.Cut(change.Path, ".")
		return !slices.Contains(fields, field)
	})
}

func join(changes []Difference) string {
	texts := make([]string, len(changes))
	for i, change := range changes {
		texts[i] = change.String()
	}
	return strings.Join(texts, "; ")
}

// QuoteAll puts names in quotes, with commas between them, as a list in HCL has them.
func QuoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(quoted, ", ")
}

func sentence(text string) string {
	if strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}
