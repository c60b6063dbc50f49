package preflight

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// PodSecurityLevels are the levels of Pod Security, from the one that admits most to the one that admits least.
var PodSecurityLevels = []string{"privileged", "baseline", "restricted"}

const (
	ownerAnnotation    = "berth.dev/owner"
	managedByLabel     = "app.kubernetes.io/managed-by"
	podSecurityEnforce = "pod-security.kubernetes.io/enforce"
)

// Namespace is what a namespace has to be.
type Namespace struct {
	Name         string
	MayBeMissing bool   // it is created later, so its absence is no failure
	Owner        string // the owner that its mark must name, if it has a mark; "" takes any
	PodSecurity  string // the level that the pods to come need (privileged, baseline or restricted); "" leaves it unchecked
}

// CheckNamespace tells whether the namespace exists, is not about to go and is not somebody else's (J48), and, where a
// level is asked for, whether the Pod Security level that it enforces admits such pods.
func CheckNamespace(ctx context.Context, c Cluster, wanted Namespace) []Check {
	name, security := "namespaces/"+wanted.Name, "pod_security/"+wanted.Name
	object, err := c.Find(ctx, cluster.Namespaces, "", wanted.Name)
	var checks []Check
	switch {
	case err != nil:
		get := cluster.Permission{Verb: "get", Resource: "namespaces", Name: wanted.Name}
		checks = []Check{unanswered(name, fmt.Sprintf("whether namespace %q exists", wanted.Name), err, &get), skipped(security, "namespace %q could not be read", wanted.Name)}
	case object == nil && (wanted.MayBeMissing || c.Planned(cluster.Namespaces, "", wanted.Name)):
		checks = []Check{passed(name, "namespace %q does not exist yet and will be created", wanted.Name), skipped(security, "namespace %q does not exist yet", wanted.Name)}
	case object == nil:
		checks = []Check{
			{
				Name: name, Status: Fail, Message: fmt.Sprintf("namespace %q does not exist on %s", wanted.Name, c.Context()),
				Remedy: "Create it first: kubectl create namespace " + wanted.Name,
			},
			skipped(security, "namespace %q does not exist", wanted.Name),
		}
	default:
		checks = []Check{checkLiveNamespace(c, name, wanted, object), CheckPodSecurity(security, wanted, object)}
	}
	if wanted.PodSecurity == "" {
		return checks[:1]
	}
	return checks
}

func checkLiveNamespace(c Cluster, name string, wanted Namespace, object *unstructured.Unstructured) Check {
	owner, managedBy := object.GetAnnotations()[ownerAnnotation], object.GetLabels()[managedByLabel]
	switch {
	case object.GetDeletionTimestamp() != nil:
		return Check{
			Name: name, Status: Fail, Message: fmt.Sprintf("namespace %q on %s is terminating, so nothing can be created in it", wanted.Name, c.Context()),
			Remedy: fmt.Sprintf("Wait until it is gone. If it stays, its conditions name what holds it: kubectl get namespace %s -o jsonpath='{.status.conditions}'", wanted.Name),
		}
	case wanted.Owner != "" && owner != "" && owner != wanted.Owner:
		return Check{
			Name: name, Status: Fail, Message: fmt.Sprintf("refusing: namespace %q on %s belongs to another owner (%q)", wanted.Name, c.Context(), owner),
			Remedy: "Give a different namespace, or a different cluster.",
		}
	case owner != "":
		return passed(name, "namespace %q exists and belongs to %q", wanted.Name, owner)
	case managedBy != "":
		return passed(name, "namespace %q exists and is managed by %q", wanted.Name, managedBy)
	}
	return passed(name, "namespace %q exists and has no owner", wanted.Name)
}

// CheckPodSecurity tells whether the Pod Security level that a live namespace enforces admits pods that need the level of
// wanted. name is the check's.
func CheckPodSecurity(name string, wanted Namespace, object *unstructured.Unstructured) Check {
	enforced, labeled := object.GetLabels()[podSecurityEnforce]
	if !labeled {
		return passed(name, "namespace %q has no label %s, so the cluster's default holds, which is privileged unless its administrator chose another", wanted.Name, podSecurityEnforce)
	}
	level := enforced
	if !slices.Contains(PodSecurityLevels, level) {
		level = "restricted" // how the API server reads a value that it doesn't know
	}
	if slices.Index(PodSecurityLevels, level) <= slices.Index(PodSecurityLevels, wanted.PodSecurity) {
		return passed(name, "namespace %q enforces the Pod Security level %q, which admits pods of level %q", wanted.Name, enforced, wanted.PodSecurity)
	}
	return Check{
		Name: name, Status: Fail,
		Message: fmt.Sprintf("namespace %q enforces the Pod Security level %q, which refuses pods that need %q", wanted.Name, enforced, wanted.PodSecurity),
		Remedy:  fmt.Sprintf("Use another namespace, or have the level changed: kubectl label --overwrite namespace %s %s=%s", wanted.Name, podSecurityEnforce, wanted.PodSecurity),
	}
}

// ObjectRef is an object that a configuration names and somebody else creates.
type ObjectRef struct {
	Attribute string // the attribute that names it, such as priority_classes.sandbox
	Name      string
}

// CheckPriorityClass tells whether the PriorityClass exists or is created by the same run (J39): Kubernetes creates no
// pod that names a class that the cluster does not have.
func CheckPriorityClass(ctx context.Context, c Cluster, ref ObjectRef) Check {
	check := checkExists(ctx, c, "priority_classes/"+ref.Name, cluster.PriorityClasses, ref)
	if check.Status == Fail {
		check.Message += ": Kubernetes creates no pod that names a class that the cluster does not have"
	}
	return check
}

// CheckStorageClass tells whether the StorageClass exists or is created by the same run.
func CheckStorageClass(ctx context.Context, c Cluster, ref ObjectRef) Check {
	return checkExists(ctx, c, "storage_classes/"+ref.Name, cluster.StorageClasses, ref)
}

func checkExists(ctx context.Context, c Cluster, name string, kind cluster.Kind, ref ObjectRef) Check {
	if c.Planned(kind, "", ref.Name) {
		return passed(name, "%s %q is created by this run", kind.Kind, ref.Name)
	}
	object, err := c.Find(ctx, kind, "", ref.Name)
	switch {
	case err != nil:
		get := cluster.Permission{Verb: "get", Group: kind.Group, Resource: kind.Resource, Name: ref.Name}
		return unanswered(name, fmt.Sprintf("whether %s %q exists", kind.Kind, ref.Name), err, &get)
	case object != nil:
		return passed(name, "%s %q exists", kind.Kind, ref.Name)
	}
	return Check{
		Name: name, Status: Fail,
		Message: fmt.Sprintf("%s names %s %q, which %s does not have", ref.Attribute, kind.Kind, ref.Name, c.Context()),
		Remedy:  fmt.Sprintf("Create it first, name it by reference to the resource that creates it, or name another one: kubectl get %s", kind.Resource),
	}
}

// CheckDefaultStorageClass tells whether exactly one StorageClass is the default. With none, a volume claim that names
// no class stays Pending; with several, Kubernetes takes the newest, which is seldom what was meant.
func CheckDefaultStorageClass(ctx context.Context, c Cluster) Check {
	const name, annotation = "default_storage_class", "storageclass.kubernetes.io/is-default-class"
	classes, err := c.List(ctx, cluster.StorageClasses)
	if err != nil {
		return unanswered(name, "which StorageClass is the default", err, &cluster.Permission{Verb: "list", Group: "storage.k8s.io", Resource: "storageclasses"})
	}
	var all, defaults []string
	for _, class := range classes {
		all = append(all, class.GetName())
		if class.GetAnnotations()[annotation] == "true" {
			defaults = append(defaults, class.GetName())
		}
	}
	slices.Sort(all)
	slices.Sort(defaults)
	switch len(defaults) {
	case 1:
		return passed(name, "StorageClass %q is the default", defaults[0])
	case 0:
		have := "has no StorageClass"
		if len(all) > 0 {
			have = "has the StorageClasses " + quoted(all) + ", none of which is the default"
		}
		return Check{
			Name: name, Status: Fail, Message: fmt.Sprintf("%s %s: a volume claim that names no class would stay Pending", c.Context(), have),
			Remedy: "Name a class, or make one the default: kubectl annotate storageclass <name> " + annotation + "=true",
		}
	}
	return Check{
		Name: name, Status: Warn, Message: fmt.Sprintf("%s has several default StorageClasses (%s): Kubernetes takes the newest of them", c.Context(), quoted(defaults)),
		Remedy: "Name a class, or leave one default: kubectl annotate storageclass <name> " + annotation + "-",
	}
}

// SecretRef is a Secret that a configuration names and somebody else creates.
type SecretRef struct {
	Attribute string // the attribute that names it, with its index, such as required_secrets[0]
	Namespace string
	Name      string
	Keys      []string // keys that it must have; none when any will do
}

// CheckSecret tells whether the Secret exists and has its keys (J59 to J62). It is skipped while the namespace does not
// exist yet or when the same run creates the Secret; then it has to be made again at apply. Values are never read into
// a message.
func CheckSecret(ctx context.Context, c Cluster, ref SecretRef) Check {
	name := fmt.Sprintf("secrets/%s/%s", ref.Namespace, ref.Name)
	object, err := c.Find(ctx, cluster.Secrets, ref.Namespace, ref.Name)
	switch {
	case err != nil:
		get := cluster.Permission{Verb: "get", Resource: "secrets", Namespace: ref.Namespace, Name: ref.Name}
		return unanswered(name, fmt.Sprintf("whether Secret %q exists in namespace %q", ref.Name, ref.Namespace), err, &get)
	case object != nil:
		return checkKeys(name, ref, object)
	case c.Planned(cluster.Secrets, ref.Namespace, ref.Name):
		return skipped(name, "Secret %q in namespace %q is created by this run; it is checked when the run applies", ref.Name, ref.Namespace)
	}
	if namespace, err := c.Find(ctx, cluster.Namespaces, "", ref.Namespace); err == nil && namespace == nil {
		return skipped(name, "namespace %q does not exist yet, so Secret %q is checked when the run applies", ref.Namespace, ref.Name)
	}
	return Check{
		Name: name, Status: Fail,
		Message: fmt.Sprintf("%s names Secret %q, which does not exist in namespace %q", ref.Attribute, ref.Name, ref.Namespace),
		Remedy:  fmt.Sprintf("Create it first: kubectl -n %s create secret generic %s%s", ref.Namespace, ref.Name, literals(ref.Keys)),
	}
}

func checkKeys(name string, ref SecretRef, object *unstructured.Unstructured) Check {
	data, _, _ := unstructured.NestedMap(object.Object, "data")
	missing := slices.DeleteFunc(slices.Clone(ref.Keys), func(key string) bool {
		_, found := data[key]
		return found
	})
	if len(missing) == 0 {
		return passed(name, "Secret %q exists in namespace %q%s", ref.Name, ref.Namespace, having(ref.Keys))
	}
	patch := make([]string, len(missing))
	for i, key := range missing {
		patch[i] = fmt.Sprintf("%q:\"...\"", key)
	}
	return Check{
		Name: name, Status: Fail,
		Message: fmt.Sprintf("%s names %s of Secret %q in namespace %q, which it lacks; it has %s", ref.Attribute, quotedKeys(missing), ref.Name, ref.Namespace,
			cmp.Or(quotedKeys(slices.Sorted(maps.Keys(data))), "none")),
		Remedy: fmt.Sprintf("Add it: kubectl -n %s patch secret %s --type=merge -p '{\"stringData\":{%s}}'", ref.Namespace, ref.Name, strings.Join(patch, ",")),
	}
}

func literals(keys []string) string {
	if len(keys) == 0 {
		keys = []string{"KEY"}
	}
	flags := make([]string, len(keys))
	for i, key := range keys {
		flags[i] = fmt.Sprintf(" --from-literal=%s=...", key)
	}
	return strings.Join(flags, "")
}

func having(keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	return " with " + quotedKeys(keys)
}

func quotedKeys(keys []string) string {
	switch len(keys) {
	case 0:
		return ""
	case 1:
		return "key " + quoted(keys)
	}
	return "keys " + quoted(keys)
}
