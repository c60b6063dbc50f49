package release

import (
	"fmt"
	"os"
	"testing"
)

// exitAfter runs the tests and stops the cluster that they shared.
func exitAfter(m *testing.M) {
	if child() {
		return
	}
	code := m.Run()
	if fleet := booted; fleet != nil {
		if err := fleet.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
