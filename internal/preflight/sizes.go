package preflight

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Size is what one pod reserves as a whole: its requests and its limits alike.
type Size struct {
	Memory resource.Quantity
	CPU    resource.Quantity
}

// DefaultSize is the Size of a sandbox that states none (J34).
var DefaultSize = Size{Memory: resource.MustParse("2Gi"), CPU: resource.MustParse("1")}

// ParseSize reads a Size from Kubernetes quantities such as "8Gi" and "4" or "500m". It refuses what is no quantity
// and what is not above zero, naming which of the two it was.
func ParseSize(memory, cpu string) (Size, error) {
	var size Size
	for _, part := range []struct {
		name, text string
		into       *resource.Quantity
	}{{"memory", memory, &size.Memory}, {"cpu", cpu, &size.CPU}} {
		quantity, err := resource.ParseQuantity(part.text)
		if err != nil {
			return Size{}, fmt.Errorf("%s %q is not a quantity such as \"8Gi\" or \"500m\"", part.name, part.text)
		}
		if quantity.Sign() <= 0 {
			return Size{}, fmt.Errorf("%s %q is not above zero", part.name, part.text)
		}
		*part.into = quantity
	}
	return size, nil
}

// String is the Size as messages write it: memory 8Gi, cpu 4.
func (s Size) String() string {
	return fmt.Sprintf("memory %s, cpu %s", s.Memory.String(), s.CPU.String())
}

// Fits returns the names of the nodes whose allocatable holds the whole Size, memory and cpu on the same node (J34),
// and of those that report no allocatable: of them it is not known, which is not a no. What already runs on a node is
// not counted, because it moves.
func (s Size) Fits(nodes []corev1.Node) (fits, unknown []string) {
	for i := range nodes {
		memory, hasMemory := nodes[i].Status.Allocatable[corev1.ResourceMemory]
		cpu, hasCPU := nodes[i].Status.Allocatable[corev1.ResourceCPU]
		tooSmall := hasMemory && memory.Cmp(s.Memory) < 0 || hasCPU && cpu.Cmp(s.CPU) < 0
		switch {
		case tooSmall:
		case hasMemory && hasCPU:
			fits = append(fits, nodes[i].Name)
		default:
			unknown = append(unknown, nodes[i].Name)
		}
	}
	return fits, unknown
}

// CheckSize tells whether one of the nodes, those that the placement admits, can hold the Size of that name. It warns
// when none can right now (J34); the pod then waits without a limit, for example for an autoscaler (J35).
func CheckSize(placement Placement, name string, size Size, admitted []corev1.Node) Check {
	check := "sizes/" + name
	if len(admitted) == 0 {
		return skipped(check, "there is no %snode right now to compare the size %q (%s) with", placement.adjective(), name, size)
	}
	fits, unknown := size.Fits(admitted)
	switch {
	case len(fits) > 0:
		return passed(check, "size %q (%s) fits %s", name, size, strings.Join(fits, ", "))
	case len(unknown) > 0:
		return skipped(check, "whether size %q (%s) fits is unknown: %s reports no allocatable, and no other %snode is large enough",
			name, size, strings.Join(unknown, ", "), placement.adjective())
	}
	return Check{
		Name: check, Status: Warn,
		Message: fmt.Sprintf("no %snode right now has the allocatable for a size of %s (size %q) — its %s stays Pending until one does",
			placement.adjective(), size, name, placement.subject()),
		Remedy: fmt.Sprintf("Add a node that is large enough to the pool, or make the size smaller. The %snodes are: %s.", placement.adjective(), allocatable(admitted)),
	}
}

func allocatable(nodes []corev1.Node) string {
	parts := make([]string, len(nodes))
	for i := range nodes {
		parts[i] = fmt.Sprintf("%s (memory %s, cpu %s)", nodes[i].Name,
			nodes[i].Status.Allocatable.Memory(), nodes[i].Status.Allocatable.Cpu())
	}
	return strings.Join(parts, ", ")
}
