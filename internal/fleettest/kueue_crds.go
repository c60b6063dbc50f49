package fleettest

import (
	"context"
	"path/filepath"
	"testing"
)

// InstallKueueCRDs creates the kinds of Kueue and JobSet without their managers, for tests that need none of what they do,
// and waits until they are served. They are those of the modules that the tests' charts are from.
func (c *Cluster) InstallKueueCRDs(t testing.TB) {
	t.Helper()
	for _, module := range []string{"sigs.k8s.io/kueue", "sigs.k8s.io/jobset"} {
		folder, err := ModuleDir(t.Context(), "charts", module)
		if err != nil {
			t.Fatal(err)
		}
		c.Kubectl(t, "create", "-f", filepath.Join(folder, "config", "components", "crd", "bases"))
	}
	c.Kubectl(t, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
	// One that is established is served a moment later.
	Eventually(t, func(context.Context) error {
		for _, version := range []string{"kueue.x-k8s.io/v1beta2", "jobset.x-k8s.io/v1alpha2"} {
			if _, err := c.client.Discovery().ServerResourcesForGroupVersion(version); err != nil {
				return err
			}
		}
		return nil
	})
}
