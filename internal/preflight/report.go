// Package preflight asks a cluster whether it can take what a configuration is about to put on it, and reports the
// answers as checks. It only reads: the one write that it sends is a dry run, which the API server stores nowhere.
//
// A fact that stays as it is until somebody changes it (a version, a feature gate, a missing Secret) fails. A fact
// that moves by itself (nodes, capacity, quota, DNS) warns, because it may be different by the time it matters. What
// could not be found out is never passed over: it warns or is skipped, with the reason.
package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/version"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// Cluster is what the checks need of a cluster. *cluster.Cluster satisfies it; each kind is listed at most once,
// because the cluster remembers its lists.
type Cluster interface {
	// Context is the kubeconfig context, or the name of the cluster when it has none: what messages call it.
	Context() string
	// Version is what the API server says of its version.
	Version(ctx context.Context) (*version.Info, error)
	// List returns every object of a kind; the objects are shared and must not be changed.
	List(ctx context.Context, kind cluster.Kind) ([]*unstructured.Unstructured, error)
	// ListIn returns the objects of a kind in one namespace.
	ListIn(ctx context.Context, kind cluster.Kind, namespace string) ([]*unstructured.Unstructured, error)
	// Find returns an object, or nil without an error when the cluster answered NotFound.
	Find(ctx context.Context, kind cluster.Kind, namespace, name string) (*unstructured.Unstructured, error)
	// Missing returns those of the permissions that the credential lacks.
	Missing(ctx context.Context, permissions []cluster.Permission) ([]cluster.Permission, error)
	// DryRunCreate has the API server admit and default an object without storing it.
	DryRunCreate(ctx context.Context, object *unstructured.Unstructured, kind cluster.Kind) (*unstructured.Unstructured, error)
	// Planned tells whether the plan that runs now is about to create the object.
	Planned(kind cluster.Kind, namespace, name string) bool
}

// Status is the outcome of a check.
type Status string

// The outcomes of a check.
const (
	Pass    Status = "pass"    // asked, and it is so
	Fail    Status = "fail"    // asked, and it is not so: refuse
	Warn    Status = "warn"    // it is not so now but moves by itself, or it could not be found out: go on, and say so
	Skipped Status = "skipped" // not asked, for the reason in the message
)

// Check is one question about a cluster and its answer.
type Check struct {
	Name    string // the setting that is checked and, after a slash, its key, such as sizes/hold
	Status  Status
	Message string // what was found; never a secret value
	Remedy  string // what to do about it; empty when there is nothing to do
}

// Detail is the message and the remedy, as the body of a diagnostic.
func (c Check) Detail() string {
	if c.Remedy == "" {
		return c.Message
	}
	return c.Message + "\n\n" + c.Remedy
}

// Report is the outcome of all the checks, in the order in which an apply depends on them (J9).
type Report struct {
	Checks []Check
}

// Passed tells whether no check failed. Warnings and skipped checks don't count against it.
func (r Report) Passed() bool { return len(r.Failures()) == 0 }

// Failures are the checks that refuse.
func (r Report) Failures() []Check { return r.having(Fail) }

// Warnings are the checks that a plan has to mention and go on: those that warn, and those that were not made, so
// that silence is never read as success.
func (r Report) Warnings() []Check { return r.having(Warn, Skipped) }

// Check returns the check of that name.
func (r Report) Check(name string) (Check, bool) {
	i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		return Check{}, false
	}
	return r.Checks[i], true
}

func (r Report) having(statuses ...Status) (checks []Check) {
	for _, check := range r.Checks {
		if slices.Contains(statuses, check.Status) {
			checks = append(checks, check)
		}
	}
	return checks
}

func passed(name, format string, args ...any) Check {
	return Check{Name: name, Status: Pass, Message: fmt.Sprintf(format, args...)}
}

func skipped(name, format string, args ...any) Check {
	return Check{Name: name, Status: Skipped, Message: fmt.Sprintf(format, args...)}
}

// unanswered is the check whose question the cluster did not answer. Where a permission was missing, the remedy
// grants it; nil when none could help.
func unanswered(name, question string, err error, needed *cluster.Permission) Check {
	check := Check{Name: name, Status: Warn, Message: fmt.Sprintf("unknown: could not find out %s: %v", question, err)}
	if apierrors.IsForbidden(err) && needed != nil {
		check.Remedy = toAsk(*needed)
	}
	return check
}

// decode turns objects as the cluster serves them into their typed form. Its errors name the object.
func decode[T any](objects []*unstructured.Unstructured) ([]T, error) {
	typed := make([]T, len(objects))
	for i, object := range objects {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &typed[i]); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", object.GetKind(), strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/"), err)
		}
	}
	return typed, nil
}

// quoted is a list of names for a sentence: "a", "b".
func quoted(names []string) string {
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf("%q", name)
	}
	return strings.Join(parts, ", ")
}
