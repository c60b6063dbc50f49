package charts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
)

// The folder holds what stands for both repositories, under the names by which a local folder is searched, and nothing
// that was needed to make it.
func TestServing(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "charts")
	if err := Serving(t.Context(), folder); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
		loaded, err := loader.LoadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if want := loaded.Metadata.Name + "-" + loaded.Metadata.Version + ".tgz"; entry.Name() != want {
			t.Errorf("the archive of %s is called %s", want, entry.Name())
		}
	}
	if have, want := strings.Join(names, " "), "knative-operator-1.14.2.tgz knative-operator-1.15.2.tgz traefik-40.3.0.tgz"; have != want {
		t.Errorf("the folder has %s, want %s", have, want)
	}
}

// Without a test, what goes wrong is an error and no panic, and nothing half made is left.
func TestServingFails(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "traefik-40.3.0.tgz"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Serving(t.Context(), folder); err == nil || !strings.Contains(err.Error(), "traefik-40.3.0.tgz") {
		t.Errorf("the error is %v", err)
	}
	ended := &outside{ctx: t.Context(), work: filepath.Join(folder, "missing")}
	func() {
		defer func() {
			if failed, ours := recover().(failure); !ours || !strings.Contains(failed.Error(), "missing") {
				t.Errorf("the failure is %v", failed)
			}
		}()
		ended.TempDir()
	}()
	if left, err := filepath.Glob(filepath.Join(folder, ".making-*")); err != nil || len(left) > 0 {
		t.Errorf("left is %v: %v", left, err)
	}
}
