// Package priority knows PriorityClasses: what one looks like, what may change in it, and who uses it.
package priority

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// The values of preemptionPolicy.
const (
	PreemptLowerPriority = "PreemptLowerPriority"
	Never                = "Never"
)

// HighestUserValue is the highest value that Kubernetes gives to users; above it are its own system classes.
const HighestUserValue = 1_000_000_000

// Class is a PriorityClass as a user states it.
type Class struct {
	Name             string
	Value            int64
	PreemptionPolicy string
	Description      string
	GlobalDefault    bool
}

// Object is the class as it shall be on the cluster.
func (c Class) Object() kube.Object {
	desired := cluster.PriorityClasses.New("", c.Name)
	desired.Object["value"] = c.Value
	desired.Object["preemptionPolicy"] = c.PreemptionPolicy
	desired.Object["globalDefault"] = c.GlobalDefault
	if c.Description != "" {
		desired.Object["description"] = c.Description
	}
	return kube.Object{
		Kind: cluster.PriorityClasses, Desired: desired,
		// Both are immutable in Kubernetes' validation of PriorityClass updates.
		Immutable: []string{"value", "preemptionPolicy"},
		Omitted:   map[string]any{"value": int64(0), "globalDefault": false},
	}
}

// FromLive reads a class from the cluster, with the API's defaults where a field is not served.
func FromLive(live *unstructured.Unstructured) Class {
	class := Class{Name: live.GetName(), PreemptionPolicy: PreemptLowerPriority}
	class.Value, _, _ = unstructured.NestedInt64(live.Object, "value")
	class.Description, _, _ = unstructured.NestedString(live.Object, "description")
	class.GlobalDefault, _, _ = unstructured.NestedBool(live.Object, "globalDefault")
	if policy, found, _ := unstructured.NestedString(live.Object, "preemptionPolicy"); found {
		class.PreemptionPolicy = policy
	}
	return class
}

// Fixed are the fields that Kubernetes never lets change and in which the class on the cluster is not as wanted; they
// can only be had by deleting the class and creating it again.
func (c Class) Fixed(live *unstructured.Unstructured) []kube.Difference {
	object := c.Object()
	return slices.DeleteFunc(object.Compare(live), func(difference kube.Difference) bool {
		return !slices.Contains(object.Immutable, difference.Path)
	})
}

// Users are the pods that have not finished and name the class, as namespace/name, sorted. They are read from one list
// of all pods, whichever classes are asked for; since that may be older than what this run has removed, one of them is
// asked for again.
func Users(ctx context.Context, c *cluster.Cluster, class string) ([]string, error) {
	pods, err := c.List(ctx, cluster.Pods)
	if err != nil {
		return nil, err
	}
	var users []string
	for _, pod := range pods {
		if len(users) == 0 && names(pod, class) {
			if pod, err = c.Fetch(ctx, cluster.Pods, pod.GetNamespace(), pod.GetName()); err != nil {
				return nil, err
			}
		}
		if pod != nil && names(pod, class) {
			users = append(users, pod.GetNamespace()+"/"+pod.GetName())
		}
	}
	return users, nil
}

// names tells whether a pod that has not finished names the class.
func names(pod *unstructured.Unstructured, class string) bool {
	name, _, _ := unstructured.NestedString(pod.Object, "spec", "priorityClassName")
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	return name == class && phase != "Succeeded" && phase != "Failed"
}

// CheckUnused refuses, with a *cluster.Problem that lists them, while pods name the class: Kubernetes would go on
// running them but create no more of their kind.
func CheckUnused(ctx context.Context, c *cluster.Cluster, class string) error {
	users, err := Users(ctx, c, class)
	if err != nil || len(users) == 0 {
		return err
	}
	operator := ""
	if slices.ContainsFunc(users, func(pod string) bool { return strings.Contains(pod, "/berth-operator-") }) {
		operator = " The berth-operator pod is that of the operator that instances share, which stays after the last of them unless it has remove_operator = true."
	}
	return &cluster.Problem{
		Summary: fmt.Sprintf("PriorityClass/%s is in use", class),
		Detail: fmt.Sprintf("refusing: PriorityClass/%s on %s is named by %d pod(s): %s. Without the class Kubernetes creates no more pods that name it. "+
			"Remove them first, or set deletion_policy = \"retain\" to leave the class on the cluster.%s", class, c.Context(), len(users), Some(users), operator),
	}
}

// mostListed is how many names a message lists before it only counts.
const mostListed = 10

// Some joins names for a message, the first ten of them.
func Some(names []string) string {
	if len(names) <= mostListed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:mostListed], ", "), len(names)-mostListed)
}

// Apply makes a class as it shall be and returns it as the server has it. A class of ours that differs in a field that
// Kubernetes never lets change is deleted and created again. Killed in between, the next apply finds no class and
// creates it.
func Apply(ctx context.Context, c *cluster.Cluster, class Class, terms kube.Terms) (*unstructured.Unstructured, error) {
	live, err := c.Fetch(ctx, cluster.PriorityClasses, "", class.Name)
	if err != nil {
		return nil, err
	}
	outlook, err := kube.Judge(c, class.Object(), terms, live)
	if err != nil {
		return nil, err
	}
	if outlook.Verdict == kube.Create || len(class.Fixed(live)) == 0 {
		return kube.ConvergeFrom(ctx, c, class.Object(), terms, live)
	}
	if err := CheckRecreate(c, class, live); err != nil {
		return nil, err
	}
	c.Progress(ctx, class.Object().Describe(), "delete", "it is created again, because Kubernetes never lets this change: "+Describe(class.Fixed(live)))
	if err := c.Delete(ctx, cluster.PriorityClasses, "", class.Name, live.GetUID()); err != nil {
		return nil, err
	}
	if err := kube.WaitGone(ctx, c, cluster.PriorityClasses, "", class.Name, live.GetUID()); err != nil {
		return nil, err
	}
	return kube.Converge(ctx, c, class.Object(), terms)
}

// CheckRecreate refuses, with a *cluster.Problem, to delete and create again a class that berth found and did not
// create.
func CheckRecreate(c *cluster.Cluster, class Class, live *unstructured.Unstructured) error {
	if kube.Created(live) {
		return nil
	}
	return &cluster.Problem{
		Attribute: "value", Summary: fmt.Sprintf("PriorityClass/%s was adopted and cannot be replaced", class.Name),
		Detail: fmt.Sprintf("refusing: PriorityClass/%s on %s was found, not created, by berth, so it is never deleted; but the change needs that: %s. "+
			"Use a new name for a class with the new values.", class.Name, c.Context(), Describe(class.Fixed(live))),
	}
}

// Describe joins differences for a message.
func Describe(differences []kube.Difference) string {
	texts := make([]string, len(differences))
	for i, difference := range differences {
		texts[i] = difference.String()
	}
	return strings.Join(texts, "; ")
}

// CheckDefault refuses, with a *cluster.Problem, a second class that is the default of pods without one: Kubernetes
// admits only one.
func CheckDefault(ctx context.Context, c *cluster.Cluster, class Class) error {
	if !class.GlobalDefault {
		return nil
	}
	classes, err := c.List(ctx, cluster.PriorityClasses)
	if err != nil {
		return err
	}
	for _, live := range classes {
		if other := FromLive(live); other.GlobalDefault && other.Name != class.Name {
			return &cluster.Problem{
				Attribute: "global_default", Summary: fmt.Sprintf("PriorityClass/%s cannot be the default too", class.Name),
				Detail: fmt.Sprintf("refusing: PriorityClass/%s on %s is the default already, and Kubernetes admits only one. Leave global_default out, or take it from the other class first.", other.Name, c.Context()),
			}
		}
	}
	return nil
}
