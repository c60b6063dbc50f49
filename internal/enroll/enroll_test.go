package enroll

import (
	"strings"
	"testing"
)

// A worker's identity has the documented format, and ends where a label's value does (K58, Y11).
func TestIdentity(t *testing.T) {
	got, err := Identity("forecasting", "forecasting-us")
	if err != nil || got != "11-forecasting-forecasting-us" {
		t.Fatalf("got %q, %v", got, err)
	}
	tenant := "forecasting"
	longest := strings.Repeat("w", 63-len("11-forecasting-"))
	if got, err = Identity(tenant, longest); err != nil || len(got) != 63 {
		t.Fatalf("the longest: got %q, %v", got, err)
	}
	_, err = Identity(tenant, longest+"ww")
	if err == nil || !strings.Contains(err.Error(), "2 character(s) too long") || !strings.Contains(err.Error(), "at most 48") {
		t.Fatalf("one that is too long: %v", err)
	}
}
