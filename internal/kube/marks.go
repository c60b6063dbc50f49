// Package kube works on objects of a cluster: whose they are, applying and removing them, what drifted, and waiting
// for them with reasons.
package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The marks by which ownership is written on the objects themselves (promise 3 of the design).
const (
	// LabelManagedBy is Kubernetes' recommended label for the tool that manages an object; ManagedBy is our value.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "berth"
	// MarkOwner is both a label, which holds a hash that a selector can use, and an annotation, which holds the name.
	MarkOwner = "berth.dev/owner"
	// AnnotationCreated stands on what berth created and did not find: only that is ever deleted.
	AnnotationCreated = "berth.dev/created-by-berth"
	// AnnotationManagedBefore keeps the value that LabelManagedBy had before an adoption, so that it can be put back.
	AnnotationManagedBefore = "berth.dev/managed-by-before"
	// AnnotationStep stands on an object while a resource of several steps is being worked on, and names the step.
	AnnotationStep = "berth.dev/step"
	// LabelShared stands on an object that several resources use; each has a label below UserPrefix.
	LabelShared = "berth.dev/shared"
	UserPrefix  = "users.berth.dev/"
	// markPrefix begins every mark of ours that is not shared with other tools.
	markPrefix = "berth.dev/"
	// FieldManager is the one server-side-apply field manager of what berth applies.
	FieldManager = "berth"
)

// Owner is who a mark names: the provider configuration's `owner`, and the resource as `type.name`.
type Owner struct {
	Configuration string
	Resource      string
}

// String is the full name that the annotation holds, such as "platform-prod/priority_class.batch-low".
func (o Owner) String() string { return o.Configuration + "/" + o.Resource }

// Hash is the 16 hexadecimal digits that the label holds: label values end at 63 characters, names do not.
func (o Owner) Hash() string {
	sum := sha256.Sum256([]byte(o.String()))
	return hex.EncodeToString(sum[:8])
}

// ParseOwner reads the annotation back; ok is false when there is none.
func ParseOwner(object *unstructured.Unstructured) (owner Owner, ok bool) {
	configuration, resource, ok := strings.Cut(object.GetAnnotations()[MarkOwner], "/")
	return Owner{Configuration: configuration, Resource: resource}, ok
}

// Created tells whether berth created the object, rather than finding it.
func Created(object *unstructured.Unstructured) bool {
	return object.GetAnnotations()[AnnotationCreated] == "true"
}

// mark writes the marks of an owner on an object that is about to be applied.
func mark(object *unstructured.Unstructured, owner Owner, created bool) {
	setLabel(object, LabelManagedBy, ManagedBy)
	setLabel(object, MarkOwner, owner.Hash())
	SetAnnotation(object, MarkOwner, owner.String())
	if created {
		SetAnnotation(object, AnnotationCreated, "true")
	}
}

// carry takes over from the live object what its marks remember: who managed it before it was adopted, and the step
// that an interrupted apply was in. An adoption itself begins to remember.
func carry(object, live *unstructured.Unstructured, adopting bool) {
	before := live.GetAnnotations()[AnnotationManagedBefore]
	if label := live.GetLabels()[LabelManagedBy]; adopting && before == "" && label != ManagedBy {
		before = label
	}
	if before != "" {
		SetAnnotation(object, AnnotationManagedBefore, before)
	}
	if step := live.GetAnnotations()[AnnotationStep]; step != "" {
		SetAnnotation(object, AnnotationStep, step)
	}
}

func setLabel(object *unstructured.Unstructured, key, value string) {
	labels := maps.Clone(object.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	object.SetLabels(labels)
}

// SetAnnotation sets an annotation on an object that is about to be written.
func SetAnnotation(object *unstructured.Unstructured, key, value string) {
	annotations := maps.Clone(object.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	object.SetAnnotations(annotations)
}

// Standing is how an object stands to a resource that wants it.
type Standing int

const (
	// Absent: there is no such object.
	Absent Standing = iota
	// Ours: it carries the resource's own mark.
	Ours
	// Others: it carries the mark of another berth resource or configuration.
	Others
	// Foreign: berth did not put it there.
	Foreign
	// Shared: several resources use it, so it can be no one's own.
	Shared
)

// Claim is what the marks of a live object say.
type Claim struct {
	Standing Standing
	// Owner is whose mark it carries, when the standing is Others.
	Owner Owner
	// Keepers are the controllers that would revert a change of ours, such as "argocd/guestbook"; see Keepers.
	Keepers []string
}

// Inspect reads how a live object (nil when there is none) stands to a resource.
func Inspect(live *unstructured.Unstructured, owner Owner) Claim {
	if live == nil {
		return Claim{Standing: Absent}
	}
	claim := Claim{Standing: Foreign, Keepers: Keepers(live)}
	named, ok := ParseOwner(live)
	switch {
	case IsShared(live):
		claim.Standing = Shared
	case ok && named == owner:
		claim.Standing = Ours
	case ok:
		claim.Standing, claim.Owner = Others, named
	case live.GetLabels()[MarkOwner] == owner.Hash():
		// The annotation was taken off, the label still names us.
		claim.Standing = Ours
	}
	return claim
}

// keeperMarks are the marks that other tools leave on what they keep in place, and the word that names the tool.
// Sources: Argo CD's resource tracking, Flux's kustomize and helm controllers, Helm 3's release annotations, and k3s'
// objectset (wrangler).
var keeperMarks = []struct {
	tool        string
	label       bool
	key, within string // within: the key that holds a namespace to put before the name
}{
	{tool: "argocd", key: "argocd.argoproj.io/tracking-id"},
	{tool: "flux", label: true, key: "kustomize.toolkit.fluxcd.io/name", within: "kustomize.toolkit.fluxcd.io/namespace"},
	{tool: "flux-helm", label: true, key: "helm.toolkit.fluxcd.io/name", within: "helm.toolkit.fluxcd.io/namespace"},
	{tool: "helm", key: "meta.helm.sh/release-name", within: "meta.helm.sh/release-namespace"},
	{tool: "k3s", key: "objectset.rio.cattle.io/owner-name", within: "objectset.rio.cattle.io/owner-namespace"},
}

// Keepers names the controllers that keep an object in place and would revert what we change, each as `tool/name`:
// Argo CD, Flux, Helm, k3s, and the controller in its ownerReferences. The same words are what `adopt_from` takes.
func Keepers(object *unstructured.Unstructured) []string {
	var keepers []string
	for _, mark := range keeperMarks {
		values := object.GetAnnotations()
		if mark.label {
			values = object.GetLabels()
		}
		name := values[mark.key]
		if name == "" {
			continue
		}
		if mark.tool == "argocd" {
			// The tracking id is application:group/kind:namespace/name.
			name, _, _ = strings.Cut(name, ":")
		}
		if namespace := values[mark.within]; mark.within != "" && namespace != "" {
			name = namespace + "/" + name
		}
		keepers = append(keepers, mark.tool+"/"+name)
	}
	for _, reference := range object.GetOwnerReferences() {
		if reference.Controller != nil && *reference.Controller {
			keepers = append(keepers, strings.ToLower(reference.Kind)+"/"+reference.Name)
		}
	}
	sort.Strings(keepers)
	return keepers
}

// Describe names an object as messages do: kind, then namespace and name.
func Describe(object *unstructured.Unstructured) string {
	return Name(object.GetKind(), object.GetNamespace(), object.GetName())
}

// Name is Describe for an object that is not at hand.
func Name(kind, namespace, name string) string {
	if namespace == "" {
		return kind + "/" + name
	}
	return kind + "/" + namespace + "/" + name
}
