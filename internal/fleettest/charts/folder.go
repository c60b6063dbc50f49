package charts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// The versions of the charts that Serving writes: one minor version of the operator, and the next one, to upgrade to;
// and the version of Traefik's chart that berth installs where the configuration names none.
var (
	ServingOperators = []string{"1.14.2", "1.15.2"}
	ServingTraefik   = "40.3.0"
)

// Serving writes the charts of Knative Serving into a folder, which it creates where it is missing, as the archives
// <name>-<version>.tgz: the Knative operator's in the versions ServingOperators (see KnativeOperator), and the stand-in
// for Traefik's in the version ServingTraefik (see TraefikFolder). The folder can take the place of the charts'
// repositories. It is for who has no test, such as the demo.
func Serving(ctx context.Context, folder string) error {
	return writeArchives(ctx, folder, func(t tester) []string {
		return append(KnativeOperator(t, ServingOperators...), Traefik(t, ServingTraefik)...)
	})
}

// writeArchives writes the archives that made gives into a folder.
func writeArchives(ctx context.Context, folder string, made func(t tester) []string) (err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	// Beside what it writes, so that an archive is moved and not copied.
	work, err := os.MkdirTemp(folder, ".making-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	defer func() {
		if failed := recover(); failed != nil {
			made, ours := failed.(failure)
			if !ours {
				panic(failed)
			}
			err = made
		}
	}()
	t := &outside{ctx: ctx, work: work}
	for _, archive := range made(t) {
		chart, err := loader.LoadFile(archive)
		if err != nil {
			return err
		}
		if err := os.Rename(archive, filepath.Join(folder, archiveName(chart.Metadata))); err != nil {
			return err
		}
	}
	return nil
}

// archiveName is how a folder that takes a repository's place calls an archive: without the v that the operator's own
// releases have.
func archiveName(of *chart.Metadata) string { return fmt.Sprintf("%s-%s.tgz", of.Name, of.Version) }

// tester is what making a chart needs of a testing.TB.
type tester interface {
	Context() context.Context
	TempDir() string
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// outside is a tester without a test. Its Fatal panics with a failure, and whoever has made it removes its folders.
type outside struct {
	ctx  context.Context
	work string
}

// failure is the error that making a chart ended with.
type failure struct{ text string }

// Error is part of error.
func (f failure) Error() string { return f.text }

// Context is part of tester.
func (o *outside) Context() context.Context { return o.ctx }

// TempDir is part of tester.
func (o *outside) TempDir() string {
	dir, err := os.MkdirTemp(o.work, "")
	if err != nil {
		o.Fatal(err)
	}
	return dir
}

// Helper is part of tester.
func (o *outside) Helper() {}

// Fatal is part of tester.
func (o *outside) Fatal(args ...any) { panic(failure{fmt.Sprint(args...)}) }

// Fatalf is part of tester.
func (o *outside) Fatalf(format string, args ...any) { panic(failure{fmt.Sprintf(format, args...)}) }
