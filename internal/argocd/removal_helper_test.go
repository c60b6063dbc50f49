package argocd

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

func want(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// told fails the test unless one of the problems in an error has this summary and these parts of its detail.
func told(t testing.TB, err error, summary string, details ...string) {
	t.Helper()
	var all []error
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	} else {
		all = []error{err}
	}
	for _, one := range all {
		if problem, ok := errors.AsType[*cluster.Problem](one); ok && problem.Summary == summary {
			contains(t, problem.Detail, details...)
			return
		}
	}
	t.Errorf("got %v\nwant the problem %q", err, summary)
}

// warned is told for warnings.
func warned(t testing.TB, warnings []Warning, summary string, details ...string) {
	t.Helper()
	for _, one := range warnings {
		if one.Summary == summary {
			contains(t, one.Detail, details...)
			return
		}
	}
	t.Errorf("got %v\nwant the warning %q", warnings, summary)
}

func contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("it lacks %q:\n%s", part, text)
		}
	}
}
