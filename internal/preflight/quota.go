package preflight

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/inf.v0"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// Quota is a ResourceQuota of a namespace: what its owner allows there and how much of it is used. berth reads quotas
// and never writes one (J42).
type Quota struct {
	Name      string
	Scopes    []string // what limits it to some pods, in words such as PriorityClass In (batch-low); none counts every pod
	Resources []QuotaResource

	selectors []corev1.ScopedResourceSelectorRequirement
}

// QuotaResource is one line of a quota.
type QuotaResource struct {
	Name     string // as the quota writes it, such as limits.memory
	Hard     resource.Quantity
	Used     *resource.Quantity // nil when the quota's controller has not reported it
	Headroom *resource.Quantity // hard less used, not below zero; nil when used is
}

// Quotas returns the quotas of a namespace, sorted by name, each with its resources sorted by name.
func Quotas(ctx context.Context, c Cluster, namespace string) ([]Quota, error) {
	objects, err := c.ListIn(ctx, cluster.ResourceQuotas, namespace)
	if err != nil {
		return nil, err
	}
	live, err := decode[corev1.ResourceQuota](objects)
	if err != nil {
		return nil, err
	}
	quotas := make([]Quota, len(live))
	for i := range live {
		quotas[i] = quotaOf(&live[i])
	}
	slices.SortFunc(quotas, func(a, b Quota) int { return strings.Compare(a.Name, b.Name) })
	return quotas, nil
}

func quotaOf(live *corev1.ResourceQuota) Quota {
	quota := Quota{Name: live.Name}
	for _, scope := range live.Spec.Scopes {
		quota.selectors = append(quota.selectors, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists})
	}
	if live.Spec.ScopeSelector != nil {
		quota.selectors = append(quota.selectors, live.Spec.ScopeSelector.MatchExpressions...)
	}
	for _, selector := range quota.selectors {
		text := string(selector.ScopeName)
		if selector.Operator != corev1.ScopeSelectorOpExists {
			text += " " + string(selector.Operator)
		}
		if len(selector.Values) > 0 {
			text += " (" + strings.Join(selector.Values, ", ") + ")"
		}
		quota.Scopes = append(quota.Scopes, text)
	}
	// The specification is what holds next; the status, which the controller copies from it, may be older.
	for _, name := range slices.Sorted(maps.Keys(live.Spec.Hard)) {
		line := QuotaResource{Name: string(name), Hard: live.Spec.Hard[name]}
		if used, reported := live.Status.Used[name]; reported {
			headroom := line.Hard.DeepCopy()
			headroom.Sub(used)
			if headroom.Sign() < 0 {
				headroom = resource.Quantity{Format: line.Hard.Format}
			}
			line.Used, line.Headroom = &used, &headroom
		}
		quota.Resources = append(quota.Resources, line)
	}
	return quota
}

// Counts tells whether the quota counts a pod of the given PriorityClass ("" for none) that states its requests and
// has no deadline. A quota with several scopes counts a pod that all of them match.
func (q Quota) Counts(priorityClass string) bool {
	return !slices.ContainsFunc(q.selectors, func(selector corev1.ScopedResourceSelectorRequirement) bool {
		return !matches(selector, priorityClass)
	})
}

func matches(selector corev1.ScopedResourceSelectorRequirement, priorityClass string) bool {
	switch selector.ScopeName {
	case corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeNotBestEffort:
		return true
	case corev1.ResourceQuotaScopePriorityClass:
		switch selector.Operator {
		case corev1.ScopeSelectorOpIn:
			return slices.Contains(selector.Values, priorityClass)
		case corev1.ScopeSelectorOpNotIn:
			return !slices.Contains(selector.Values, priorityClass)
		case corev1.ScopeSelectorOpDoesNotExist:
			return priorityClass == ""
		default:
			return priorityClass != ""
		}
	default: // Terminating, BestEffort, and scopes that are about other things than such a pod
		return false
	}
}

// demand is what one pod of the Size counts for in a quota's resource: it requests all that it is limited to. It is
// zero for resources that a Size says nothing of.
func (s Size) demand(name string) resource.Quantity {
	switch name {
	case "cpu", "requests.cpu", "limits.cpu":
		return s.CPU
	case "memory", "requests.memory", "limits.memory":
		return s.Memory
	case "pods", "count/pods":
		return *resource.NewQuantity(1, resource.DecimalSI)
	}
	return resource.Quantity{}
}

// Room is how many pods of a Size the quotas of a namespace have headroom for.
type Room struct {
	Limited  bool     // whether any quota counts such a pod; otherwise the rest says nothing
	Count    int64    // how many more fit, by what is reported
	By       []string // the quota lines that set this count, such as: quota "team" limits.memory
	Unknown  []string // the quota lines that would count but report no use yet
	Problems []string // when none fits, each line that is in the way, with its numbers
}

// RoomFor works out how many pods of the Size, with the PriorityClass ("" for none), the quotas have headroom for.
func RoomFor(quotas []Quota, size Size, priorityClass string) Room {
	var room Room
	known := false
	for _, quota := range quotas {
		if !quota.Counts(priorityClass) {
			continue
		}
		for _, line := range quota.Resources {
			demand := size.demand(line.Name)
			if demand.Sign() <= 0 {
				continue
			}
			room.Limited = true
			label := fmt.Sprintf("quota %q %s", quota.Name, line.Name)
			if line.Headroom == nil {
				room.Unknown = append(room.Unknown, label)
				continue
			}
			count := quotient(*line.Headroom, demand)
			if !known || count < room.Count {
				known, room.Count, room.By = true, count, nil
			}
			if count == room.Count {
				room.By = append(room.By, label)
			}
			if count == 0 {
				room.Problems = append(room.Problems, fmt.Sprintf("%s: requested %s, used %s, limited %s (%s left)",
					label, demand.String(), line.Used.String(), line.Hard.String(), line.Headroom.String()))
			}
		}
	}
	return room
}

// quotient is how often the part goes into the whole, in decimals: a large memory in thousandths would not fit 64 bits.
func quotient(whole, part resource.Quantity) int64 {
	count, _ := new(inf.Dec).QuoRound(whole.AsDec(), part.AsDec(), 0, inf.RoundDown).Unscaled()
	return count
}

// CheckQuota tells for each Size, in the order of their names, whether the quotas of the namespace have headroom for one
// pod of it and the PriorityClass ("" for none), and warns when not: the pod waits until there is some (J42).
func CheckQuota(ctx context.Context, c Cluster, namespace, priorityClass string, sizes map[string]Size) []Check {
	checks := make([]Check, 0, len(sizes))
	names := slices.Sorted(maps.Keys(sizes))
	each := func(check func(name string) Check) []Check {
		for _, size := range names {
			checks = append(checks, check(size))
		}
		return checks
	}
	if object, err := c.Find(ctx, cluster.Namespaces, "", namespace); err == nil && object == nil {
		return each(func(size string) Check {
			return skipped("quota/"+size, "namespace %q does not exist yet, so it has no quota to compare with", namespace)
		})
	}
	quotas, err := Quotas(ctx, c, namespace)
	if err != nil {
		return each(func(size string) Check {
			return unanswered("quota/"+size, fmt.Sprintf("the quotas of namespace %q", namespace), err, &cluster.Permission{Verb: "list", Resource: "resourcequotas", Namespace: namespace})
		})
	}
	return each(func(size string) Check {
		return checkRoom(namespace, size, sizes[size], RoomFor(quotas, sizes[size], priorityClass))
	})
}

func checkRoom(namespace, name string, size Size, room Room) Check {
	check := "quota/" + name
	switch {
	case !room.Limited:
		return passed(check, "no ResourceQuota of namespace %q limits size %q (%s)", namespace, name, size)
	case len(room.Problems) > 0:
		return Check{
			Name: check, Status: Warn,
			Message: fmt.Sprintf("size %q (%s) does not fit the quota of namespace %q right now — a pod of it waits until it does:\n  %s",
				name, size, namespace, strings.Join(room.Problems, "\n  ")),
			Remedy: "Free some of the quota, ask the owner of the cluster for more, or make the size smaller.",
		}
	case len(room.Unknown) > 0:
		return Check{Name: check, Status: Warn, Message: fmt.Sprintf("unknown: whether size %q (%s) fits the quota of namespace %q: no use is reported yet for %s",
			name, size, namespace, strings.Join(room.Unknown, ", "))}
	}
	return passed(check, "the quota of namespace %q has room for %d more of size %q (%s), by %s", namespace, room.Count, name, size, strings.Join(room.By, ", "))
}
