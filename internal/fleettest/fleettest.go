// Package fleettest boots real Kubernetes control planes as ordinary processes on loopback, so that tests,
// benchmarks and the demo run against the thing itself: etcd, kube-apiserver and, unless told otherwise,
// kube-controller-manager, kube-scheduler and kwok, which plays the kubelets.
//
// Everything that is started is stopped and every file is removed when the fleet is stopped, and also when the
// process that started it panics, times out, is interrupted or is killed: see Guard.
package fleettest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// bootTimeout is how long the clusters of one fleet may take to boot. A cluster needs about 5 s on an idle machine
// with two cores; a dozen of them at once on a busy one stay well below.
const bootTimeout = 3 * time.Minute

// Fleet is a set of running clusters.
type Fleet struct {
	// Dir holds everything that the clusters write: data, certificates, kubeconfigs, logs. Stop removes it.
	Dir string

	clusters   []*Cluster
	supervisor *supervisor
	stop       sync.Once
	stopErr    error
}

// Start boots one cluster for each spec, in parallel, and returns when all of them serve and hold what their specs
// ask for. Missing programs are built first, which takes minutes on a cold cache and is said on standard error.
// ctx bounds the boot only. When one cluster fails, the others are stopped and the error tells what the failed
// process logged last.
func Start(ctx context.Context, specs ...ClusterSpec) (*Fleet, error) {
	return start(ctx, "", specs)
}

// StartIn is Start with all files in dir, which must not exist yet and is removed by Stop.
func StartIn(ctx context.Context, dir string, specs ...ClusterSpec) (*Fleet, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("fleettest: the fleet's directory must be new, because it is removed at the end: %w", err)
	}
	return start(ctx, dir, specs)
}

func start(ctx context.Context, dir string, specs []ClusterSpec) (*Fleet, error) {
	if err := validate(specs); err != nil {
		return nil, err
	}
	// Programs come before the clock starts: a first build takes longer than any boot.
	programs, err := buildFor(ctx, specs)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		if dir, err = os.MkdirTemp("", "fleettest-"); err != nil {
			return nil, fmt.Errorf("fleettest: %w", err)
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("fleettest: %w", err)
	}
	g, err := NewGuard(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	fleet := &Fleet{Dir: dir, supervisor: &supervisor{Guard: g}, clusters: make([]*Cluster, len(specs))}

	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	errs := make([]error, len(specs))
	var wait sync.WaitGroup
	for i, spec := range specs {
		wait.Go(func() {
			fleet.clusters[i], errs[i] = boot(ctx, fleet.supervisor, programs, filepath.Join(dir, spec.Name), spec)
			if errs[i] != nil {
				errs[i] = fmt.Errorf("fleettest: cluster %q did not boot: %w", spec.Name, errs[i])
				cancel()
			}
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, fleet.Stop())
	}
	return fleet, nil
}

// New is Start for a test: it fails the test when a cluster does not boot, stops the fleet when the test ends, and,
// when the test failed and BERTH_KEEP_LOGS names a directory, copies the clusters' logs there first.
func New(t testing.TB, specs ...ClusterSpec) *Fleet {
	t.Helper()
	fleet, err := Start(t.Context(), specs...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if to := os.Getenv("BERTH_KEEP_LOGS"); t.Failed() && to != "" {
			if err := fleet.CopyLogs(filepath.Join(to, filepath.FromSlash(t.Name()))); err != nil {
				t.Errorf("keeping the logs: %v", err)
			}
		}
		if err := fleet.Stop(); err != nil {
			t.Error(err)
		}
	})
	return fleet
}

// NewCluster is New for one cluster, which is called "shared" where the spec gives no name.
func NewCluster(t testing.TB, spec ClusterSpec) *Cluster {
	t.Helper()
	if spec.Name == "" {
		spec.Name = "shared"
	}
	return New(t, spec).Cluster(spec.Name)
}

// Clusters gives the clusters in the order of their specs.
func (f *Fleet) Clusters() []*Cluster { return f.clusters }

// Cluster gives the cluster of that name. It panics where there is none: the name is a constant of the test.
func (f *Fleet) Cluster(name string) *Cluster {
	for _, c := range f.clusters {
		if c.Name() == name {
			return c
		}
	}
	panic(fmt.Sprintf("fleettest: no cluster %q in this fleet", name))
}

// Stop ends every process of the fleet and removes its directory. Only the first call does anything; every call
// returns what the first one did.
func (f *Fleet) Stop() error {
	f.stop.Do(func() {
		for _, c := range f.clusters {
			if c != nil {
				c.close()
			}
		}
		f.stopErr = f.supervisor.stop()
	})
	return f.stopErr
}

// CopyLogs copies the log files of all clusters into dir, as <cluster>/<program>.log.
func (f *Fleet) CopyLogs(dir string) error {
	logs, err := filepath.Glob(filepath.Join(f.Dir, "*", "*.log"))
	if err != nil {
		return err
	}
	for _, log := range logs {
		content, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.Base(filepath.Dir(log)), filepath.Base(log))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
