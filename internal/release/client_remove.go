package release

import (
	"fmt"
	"slices"
	"strings"

	helmkube "helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// Delete takes away objects of a hook.
func (k *client) Delete(list helmkube.ResourceList) (*helmkube.Result, []error) {
	for _, one := range objectsOf(list) {
		live, err := k.cluster.Fetch(k.ctx, one.kind, one.GetNamespace(), one.GetName())
		if err == nil && live != nil {
			err = k.deleteHook(one, live)
		}
		if err != nil {
			return nil, []error{k.note(err)}
		}
	}
	return &helmkube.Result{Deleted: list}, nil
}

// DeleteWithPropagationPolicy takes away the objects of a release: custom resources first, while the controllers that
// finish their removal still run.
func (k *client) DeleteWithPropagationPolicy(list helmkube.ResourceList, _ metav1.DeletionPropagation) (*helmkube.Result, []error) {
	all := objectsOf(list)
	for _, one := range k.unfinished {
		if !slices.ContainsFunc(all, one.same) {
			all = append(all, one)
		}
	}
	var custom, rest []object
	for _, one := range all {
		if scheme.Scheme.Recognizes(one.GroupVersionKind()) {
			rest = append(rest, one)
		} else {
			custom = append(custom, one)
		}
	}
	if err := k.remove(custom); err != nil {
		return nil, []error{err}
	}
	if err := k.awaitGone(custom); err != nil {
		return nil, []error{err}
	}
	if err := k.remove(rest); err != nil {
		return nil, []error{err}
	}
	k.removed = true
	return &helmkube.Result{Deleted: list}, nil
}

// awaitGone waits until the cluster has none of the objects any more, but those that a removal left on purpose.
func (k *client) awaitGone(objects []object) error {
	going := slices.DeleteFunc(slices.Clone(objects), k.left)
	return k.note(kube.WaitAllGone(k.ctx, k.cluster, k.ref.String(), targetsOf(going)))
}

// remove deletes objects that are the release's, in their order.
func (k *client) remove(objects []object) error {
	return k.each(objects, func(one object) error {
		live, err := k.cluster.Fetch(k.ctx, one.kind, one.GetNamespace(), one.GetName())
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || live == nil {
			return ignoreNotFound(err)
		}
		switch {
		case keeps(one.Unstructured) || keeps(live):
			return k.leave(one, "its manifest asks to be kept (helm.sh/resource-policy: keep)")
		case !belongs(live, k.ref):
			return k.leave(one, "it carries the marks of another owner, or none")
		case live.GetAnnotations()[labelAdopted] == "true":
			if err := k.disown(one); err != nil {
				return err
			}
			return k.leave(one, "it was there before the release was")
		}
		return k.refused(one, "deleted", k.cluster.Delete(k.ctx, one.kind, one.GetNamespace(), one.GetName(), live.GetUID()))
	}, func([]object) error { return nil })
}

// disown takes the release's marks off an object.
func (k *client) disown(one object) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null},"annotations":{%q:null,%q:null,%q:null}}}`,
		kube.LabelManagedBy, helmName, helmNamespace, labelAdopted)
	_, err := k.cluster.MergePatch(k.ctx, one.kind, one.GetNamespace(), one.GetName(), patch, kube.FieldManager)
	return err
}

func (k *client) leave(one object, why string) error {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.stays = append(k.stays, one.key()+": "+why)
	return nil
}

func (k *client) left(one object) bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return slices.ContainsFunc(k.stays, func(line string) bool { return strings.HasPrefix(line, one.key()+": ") })
}
