// Package tofutest runs the provider as its users do: through tofu or terraform, as processes, with the provider built
// from this checkout. It knows nothing of what the provider does.
package tofutest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// The runners that tests may name.
const (
	Tofu      = "tofu"
	Terraform = "terraform"
)

// providerName is the name that the runners expect of the executable.
const providerName = "terraform-provider-berth"

// Runners gives the runners that tests have to pass under: tofu, and terraform where it is on the PATH and
// BERTH_SKIP_TERRAFORM is unset.
func Runners() []string {
	runners := []string{Tofu}
	if _, err := exec.LookPath(Terraform); err == nil && os.Getenv("BERTH_SKIP_TERRAFORM") == "" {
		runners = append(runners, Terraform)
	}
	return runners
}

// EachRunner runs the test once for each of Runners, as a subtest of its name.
func EachRunner(t *testing.T, test func(t *testing.T, runner string)) {
	t.Helper()
	for _, runner := range Runners() {
		t.Run(runner, func(t *testing.T) { test(t, runner) })
	}
}

// Executable gives the path of a runner. BERTH_TOFU stands for tofu where it is set; otherwise tofu is built.
func Executable(ctx context.Context, runner string) (string, error) {
	switch runner {
	case Tofu:
		if path := os.Getenv("BERTH_TOFU"); path != "" {
			return exec.LookPath(path)
		}
		paths, err := fleettest.Build(ctx, "tofu")
		return paths["tofu"], err
	case Terraform:
		return exec.LookPath(Terraform)
	}
	return "", fmt.Errorf("tofutest: unknown runner %q: want %q or %q", runner, Tofu, Terraform)
}

// Provider gives the path of the provider's executable: BERTH_PROVIDER_BINARY where it is set, and otherwise what is
// built from this checkout, once for each test process.
func Provider() (string, error) { return provider() }

var provider = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("BERTH_PROVIDER_BINARY"); path != "" {
		return filepath.Abs(path)
	}
	root, err := fleettest.Root()
	if err != nil {
		return "", err
	}
	// Below .bin, which is ignored by git, so that nothing has to be cleaned up and an unchanged provider is not linked
	// again by the next package's tests.
	dir := filepath.Join(root, ".bin", "provider")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	// Test binaries of several packages run at once.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("tofutest: lock %s: %w", lock.Name(), err)
	}
	path := filepath.Join(dir, providerName)
	cmd := exec.Command("go", "build", "-o", path, ".")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("tofutest: build the provider: %w\n%s", err, out)
	}
	return path, nil
})
