package kube

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
)

var (
	us   = Owner{Configuration: "platform", Resource: "priority_class.batch"}
	them = Owner{Configuration: "apps", Resource: "priority_class.batch"}
)

func marked(owner Owner, created bool) *unstructured.Unstructured {
	found := &unstructured.Unstructured{Object: map[string]any{}}
	mark(found, owner, created)
	return found
}

// The marks say whose an object is; the label has a hash because names are longer than labels, the annotation the name
// (X5).
func TestMarks(t *testing.T) {
	found := marked(us, true)
	if owner, ok := ParseOwner(found); !ok || owner != us || !Created(found) {
		t.Errorf("the annotations say %v %v", owner, found.GetAnnotations())
	}
	long := Owner{Configuration: strings.Repeat("c", 200), Resource: "priority_class." + strings.Repeat("n", 253)}
	for _, value := range marked(long, false).GetLabels() {
		if wrong := validation.IsValidLabelValue(value); len(wrong) > 0 {
			t.Errorf("label value %q: %v", value, wrong)
		}
	}
	if us.Hash() == them.Hash() {
		t.Error("two owners have one hash")
	}
	if Created(marked(us, false)) {
		t.Error("an adopted object counts as created")
	}
}

func TestInspect(t *testing.T) {
	stripped := marked(us, true)
	stripped.SetAnnotations(nil)
	unlabelled := marked(us, true)
	unlabelled.SetLabels(nil)
	managed := &unstructured.Unstructured{Object: map[string]any{}}
	managed.SetLabels(map[string]string{LabelManagedBy: ManagedBy})
	for name, one := range map[string]struct {
		live *unstructured.Unstructured
		want Standing
	}{
		"none":                      {nil, Absent},
		"our mark":                  {marked(us, true), Ours},
		"our mark, adopted":         {marked(us, false), Ours},
		"our label alone":           {stripped, Ours},
		"our annotation alone":      {unlabelled, Ours},
		"another configuration's":   {marked(them, true), Others},
		"another resource of ours":  {marked(Owner{us.Configuration, "instance.a"}, true), Others},
		"no mark":                   {&unstructured.Unstructured{Object: map[string]any{}}, Foreign},
		"managed-by without a name": {managed, Foreign},
	} {
		claim := Inspect(one.live, us)
		if claim.Standing != one.want {
			t.Errorf("%s: %v, want %v", name, claim.Standing, one.want)
		}
		if one.want == Others && claim.Owner == us {
			t.Errorf("%s: the claim names us", name)
		}
	}
}

// Each controller that keeps an object in place is known by what it leaves there, and named as adopt_from takes it (X6).
func TestKeepers(t *testing.T) {
	for text, want := range map[string]string{
		"metadata: {}": "[]",
		"metadata: {annotations: {argocd.argoproj.io/tracking-id: 'guestbook:apps/Deployment:web/ui'}}":                                                "[argocd/guestbook]",
		"metadata: {labels: {kustomize.toolkit.fluxcd.io/name: apps, kustomize.toolkit.fluxcd.io/namespace: flux-system}}":                             "[flux/flux-system/apps]",
		"metadata: {labels: {helm.toolkit.fluxcd.io/name: web, helm.toolkit.fluxcd.io/namespace: web}}":                                                "[flux-helm/web/web]",
		"metadata: {annotations: {meta.helm.sh/release-name: traefik, meta.helm.sh/release-namespace: kube-system}}":                                   "[helm/kube-system/traefik]",
		"metadata: {annotations: {objectset.rio.cattle.io/owner-name: traefik, objectset.rio.cattle.io/owner-namespace: kube-system}}":                 "[k3s/kube-system/traefik]",
		"metadata: {ownerReferences: [{kind: ApplicationSet, name: fleet, controller: true}, {kind: ConfigMap, name: just-a-reference}]}":              "[applicationset/fleet]",
		"metadata: {annotations: {meta.helm.sh/release-name: a, meta.helm.sh/release-namespace: b, argocd.argoproj.io/tracking-id: 'c:/Service:x/y'}}": "[argocd/c helm/b/a]",
	} {
		if got := fmt.Sprint(Keepers(object(t, text))); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

// The state is proof of ownership, but only for the object that it holds.
func TestTermsHold(t *testing.T) {
	live := &unstructured.Unstructured{Object: map[string]any{}}
	live.SetUID("1")
	for terms, want := range map[*Terms]bool{
		{}: false, {UID: "1"}: false, {Held: true}: true, {Held: true, UID: "1"}: true, {Held: true, UID: "2"}: false,
	} {
		if got := terms.holds(live); got != want {
			t.Errorf("%+v holds %v, want %v", *terms, got, want)
		}
	}
}

// Users of a shared object are named by their labels, and told apart where their names are the same.
func TestUsers(t *testing.T) {
	found := &unstructured.Unstructured{Object: map[string]any{}}
	setLabel(found, userLabel(us), "batch")
	setLabel(found, userLabel(them), "batch")
	setLabel(found, LabelShared, "true")
	if users := Users(found); len(users) != 2 {
		t.Errorf("users: %v", users)
	}
	for key := range found.GetLabels() {
		if wrong := validation.IsQualifiedName(key); len(wrong) > 0 {
			t.Errorf("label %q: %v", key, wrong)
		}
	}
	if !IsShared(found) || IsShared(marked(us, true)) {
		t.Error("the shared mark is not read")
	}
}
