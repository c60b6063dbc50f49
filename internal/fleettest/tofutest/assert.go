package tofutest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// MustPlan is Plan that fails the test on an error.
func (w *Workspace) MustPlan(args ...string) *Result {
	w.t.Helper()
	return w.Plan(args...).must(w.t)
}

// MustApply is Apply that fails the test on an error.
func (w *Workspace) MustApply(args ...string) *Result {
	w.t.Helper()
	return w.Apply(args...).must(w.t)
}

// MustDestroy is Destroy that fails the test on an error, or when the state still holds something.
func (w *Workspace) MustDestroy(args ...string) *Result {
	w.t.Helper()
	result := w.Destroy(args...).must(w.t)
	if left := w.Instances(); len(left) > 0 && len(args) == 0 {
		w.t.Fatalf("destroy left %v in the state", left)
	}
	return result
}

// MustImport is Import that fails the test on an error.
func (w *Workspace) MustImport(address, id string, args ...string) *Result {
	w.t.Helper()
	return w.Import(address, id, args...).must(w.t)
}

// PlanIsEmpty plans and fails the test unless the plan holds nothing at all, output changes included.
func (w *Workspace) PlanIsEmpty(args ...string) *Result {
	w.t.Helper()
	result := w.MustPlan(args...)
	if result.ExitCode != 0 || len(result.Changes) > 0 || len(result.OutputChanges) > 0 {
		w.t.Fatalf("the plan is not empty:\n%s", result.Describe())
	}
	return result
}

// NoTaint fails the test where an instance in the state is tainted.
func (w *Workspace) NoTaint() {
	w.t.Helper()
	for _, i := range w.Instances() {
		if i.Tainted {
			w.t.Fatalf("%s is tainted", i.Address)
		}
	}
}

func (r *Result) must(t testing.TB) *Result {
	t.Helper()
	if r.ExitCode != 0 && (r.ExitCode != 2 || !strings.HasPrefix(r.Command, "plan ")) {
		t.Fatalf("%s failed with %d:\n%s", r.Command, r.ExitCode, r.Log)
	}
	return r
}

// Change gives the change of one resource, and fails the test where there is none.
func (r *Result) Change(t testing.TB, address string) Change {
	t.Helper()
	for _, c := range r.Changes {
		if c.Address == address {
			return c
		}
	}
	t.Fatalf("%s has no change for %s:\n%s", r.Command, address, r.Describe())
	return Change{}
}

// Errors gives the errors.
func (r *Result) Errors() []Diagnostic { return r.severity(Error) }

// Warnings gives the warnings.
func (r *Result) Warnings() []Diagnostic { return r.severity(Warning) }

func (r *Result) severity(s Severity) []Diagnostic {
	var found []Diagnostic
	for _, d := range r.Diagnostics {
		if d.Severity == s {
			found = append(found, d)
		}
	}
	return found
}

// Error gives the error whose summary matches the first pattern and whose detail matches all others (regular
// expressions, in which a blank stands for any white space). It fails the test where there is none, or where the
// command did not fail.
func (r *Result) Error(t testing.TB, summary string, details ...string) Diagnostic {
	t.Helper()
	if r.ExitCode == 0 {
		t.Fatalf("%s succeeded; want the error %q:\n%s", r.Command, summary, r.Log)
	}
	return r.find(t, Error, summary, details)
}

// Warning is Error for warnings; the command may have succeeded.
func (r *Result) Warning(t testing.TB, summary string, details ...string) Diagnostic {
	t.Helper()
	return r.find(t, Warning, summary, details)
}

// NoWarnings fails the test where there is a warning.
func (r *Result) NoWarnings(t testing.TB) {
	t.Helper()
	if warnings := r.Warnings(); len(warnings) > 0 {
		t.Fatalf("%s warned:\n%s", r.Command, list(warnings))
	}
}

func (r *Result) find(t testing.TB, severity Severity, summary string, details []string) Diagnostic {
	t.Helper()
candidates:
	for _, d := range r.severity(severity) {
		if !matches(t, summary, d.Summary) {
			continue
		}
		for _, detail := range details {
			if !matches(t, detail, d.Detail) {
				continue candidates
			}
		}
		return d
	}
	t.Fatalf("%s gave no %s with summary %q and detail %q; it gave:\n%s", r.Command, severity, summary, details, list(r.Diagnostics))
	return Diagnostic{}
}

// matches treats any white space in the text as one blank: where lines break is the runner's choice for some commands.
func matches(t testing.TB, pattern, text string) bool {
	t.Helper()
	expression, err := regexp.Compile(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return expression.MatchString(text) || expression.MatchString(strings.Join(strings.Fields(text), " "))
}

func list(diagnostics []Diagnostic) string {
	if len(diagnostics) == 0 {
		return "nothing"
	}
	var lines []string
	for _, d := range diagnostics {
		lines = append(lines, d.String())
	}
	return strings.Join(lines, "\n")
}

// Describe lists changes and diagnostics, for failure messages.
func (r *Result) Describe() string {
	var text strings.Builder
	for _, c := range r.Changes {
		fmt.Fprintf(&text, "%s: %s %s\n", c.Address, strings.Join(c.Actions, ", "), c.Reason)
		for _, name := range slices.Sorted(maps.Keys(c.After)) {
			if before, after := fmt.Sprint(c.Before[name]), fmt.Sprint(c.After[name]); before != after {
				fmt.Fprintf(&text, "  %s: %s -> %s\n", name, before, after)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(c.AfterUnknown)) {
			if c.AfterUnknown[name] == true {
				fmt.Fprintf(&text, "  %s: %v -> (known after apply)\n", name, c.Before[name])
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.OutputChanges)) {
		actions := r.OutputChanges[name]
		fmt.Fprintf(&text, "output %s: %s\n", name, strings.Join(actions, ", "))
	}
	text.WriteString(list(r.Diagnostics))
	return text.String()
}
