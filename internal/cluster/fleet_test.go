package cluster_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
)

// Which cluster is meant is never guessed: the only one there is, or the one that is named (X1). What is not known yet
// is put off (X2).
func TestFleet(t *testing.T) {
	f := newFixture(t, "fleet")
	entry := cluster.Entry{Kubeconfig: f.proxy.AdminKubeconfig().Content()}
	dead := cluster.Entry{Host: "https://127.0.0.1:1", Token: "abcdefgh", Insecure: true}
	fleet := func(deferred []string, entries map[string]cluster.Entry) *cluster.Fleet {
		return cluster.NewFleet(cluster.Settings{Entries: entries, Deferred: deferred})
	}

	one := fleet(nil, map[string]cluster.Entry{"eu": entry})
	if name, err := one.Default(); name != "eu" || err != nil {
		t.Errorf("the only cluster: %q, %v", name, err)
	}
	for what, err := range map[string]error{
		"several": second(fleet([]string{"new"}, map[string]cluster.Entry{"eu": entry}).Default()),
		"none":    second(fleet(nil, nil).Default()),
		"unknown": second(one.Cluster("us")),
	} {
		var problem *cluster.Problem
		if !errors.As(err, &problem) || problem.Attribute != "cluster" {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, err := range map[string]error{
		"a deferred entry": second(fleet([]string{"new"}, nil).Cluster("new")),
		"an unknown map":   second(cluster.NewFleet(cluster.Settings{AllDeferred: true}).Cluster("new")),
		"its default":      second(cluster.NewFleet(cluster.Settings{AllDeferred: true}).Default()),
	} {
		if !errors.Is(err, cluster.ErrDeferred) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if len(f.proxy.Requests()) != 0 {
		t.Errorf("requests: %v", f.proxy.Requests())
	}

	// By UID, past an entry that does not answer, and the same one of two that lead to it.
	found, err := fleet(nil, map[string]cluster.Entry{"dead": dead, "b": entry, "a": entry}).ByUID(t.Context(), f.plane.UID())
	if err != nil || found == nil || found.Name() != "a" {
		t.Errorf("by UID: %v, %v", found, err)
	}
	if found, err := one.ByUID(t.Context(), "another"); found != nil || err != nil {
		t.Errorf("by a UID that nobody has: %v, %v", found, err)
	}
	if _, err := fleet([]string{"new"}, map[string]cluster.Entry{"eu": entry}).ByUID(t.Context(), "another"); !errors.Is(err, cluster.ErrDeferred) {
		t.Errorf("by a UID that an unknown entry may have: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// The identity is asked for once; a cluster that does not answer is dialled once for all who ask in the next moments,
// and a refused pin names both UIDs (promise 4).
func TestUID(t *testing.T) {
	f := newFixture(t, "uid")
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if uid, err := f.UID(t.Context()); err != nil || uid != f.plane.UID() {
				t.Errorf("UID %q, %v", uid, err)
			}
		})
	}
	group.Wait()
	f.requests("twenty at once", map[string]int{"get namespaces": 1})

	silent := f.as(f.proxy.AdminKubeconfig())
	restore := f.proxy.Fail(nil, fleettest.Unavailable)
	for range 20 {
		group.Go(func() {
			if _, err := silent.UID(t.Context()); !cluster.Unreachable(err) {
				t.Errorf("an unavailable cluster: %v", err)
			}
		})
	}
	group.Wait()
	restore()
	// client-go asks once more by itself where a 503 says when to come back; this one does not.
	f.requests("an unavailable cluster", map[string]int{"get namespaces": 1})

	// One that cuts connections off, as a load balancer without a backend does, is dialled once and not once a second.
	cut := f.as(f.proxy.AdminKubeconfig())
	restore = f.proxy.Fail(nil, fleettest.Cut)
	for range 20 {
		group.Go(func() {
			if _, err := cut.UID(t.Context()); !cluster.Unreachable(err) {
				t.Errorf("a cluster that cuts connections off: %v", err)
			}
		})
	}
	group.Wait()
	restore()
	f.requests("a cluster that cuts connections off", map[string]int{"get namespaces": 1})

	// One that is busy is there: it is asked again.
	var refused atomic.Bool
	f.proxy.Fail(func(fleettest.Request) bool { return refused.CompareAndSwap(false, true) }, fleettest.Failure{Status: http.StatusTooManyRequests})
	if uid, err := f.as(f.proxy.AdminKubeconfig()).UID(t.Context()); err != nil || uid != f.plane.UID() {
		t.Errorf("a busy cluster: %q, %v", uid, err)
	}
	f.requests("a busy cluster", map[string]int{"get namespaces": 2})

	// A caller that gave up says nothing about the cluster.
	interrupted := f.as(f.proxy.AdminKubeconfig())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := interrupted.UID(ended); err == nil {
		t.Error("an interrupted call succeeded")
	}
	if uid, err := interrupted.UID(t.Context()); err != nil || uid != f.plane.UID() {
		t.Errorf("after an interrupt: %q, %v", uid, err)
	}
}

// A permission is asked about once, a narrow one only where the wide answer is no.
func TestMissingPermissions(t *testing.T) {
	f := newFixture(t, "permission")
	const review = "create selfsubjectaccessreviews.authorization.k8s.io"
	questions := []cluster.Permission{
		{Verb: "create", Resource: "configmaps", Namespace: "permission"},
		{Verb: "create", Resource: "configmaps", Namespace: "elsewhere"},
		{Verb: "patch", Group: "scheduling.k8s.io", Resource: "priorityclasses"},
	}
	for range 3 {
		if missing, err := f.Missing(t.Context(), questions); err != nil || len(missing) != 0 {
			t.Errorf("an administrator lacks %v, %v", missing, err)
		}
	}
	f.requests("an administrator", map[string]int{review: 2})

	f.allow("writer", "create")
	writer := f.as(f.proxy.Through(f.plane.UserKubeconfig(t, "writer")))
	missing, err := writer.Missing(t.Context(), questions)
	if err != nil || len(missing) != 2 || missing[0] != questions[1] || missing[1] != questions[2] {
		t.Errorf("the writer lacks %v, %v", missing, err)
	}
	if text := missing[0].String() + "; " + missing[1].String(); text != "create configmaps in namespace elsewhere; patch priorityclasses.scheduling.k8s.io" {
		t.Errorf("in words: %s", text)
	}
	f.requests("a user of one namespace", map[string]int{review: 4})
}

// What a plan is about to create counts as planned, and nothing else does.
func TestPlanned(t *testing.T) {
	f := newFixture(t, "planned")
	f.Plan(cluster.PriorityClasses, "", "batch")
	if !f.Planned(cluster.PriorityClasses, "", "batch") || f.Planned(cluster.PriorityClasses, "", "other") || f.Planned(cluster.ConfigMaps, "", "batch") {
		t.Error("what is planned is mixed up")
	}
}

// Everything written under one context is recorded once, in order, for the message of an apply that fails later (X3).
func TestRecord(t *testing.T) {
	f := newFixture(t, "record")
	ctx, record := cluster.WithRecord(t.Context())
	object := cluster.ConfigMaps.New("record", "settings")
	if _, err := f.Create(ctx, cluster.ConfigMaps, object, "berth"); err != nil {
		t.Fatal(err)
	}
	for _, dryRun := range []bool{true, false, false} {
		if _, err := f.Apply(ctx, cluster.ConfigMaps, object, cluster.ApplyOptions{FieldManager: "berth", Force: true, DryRun: dryRun}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Delete(ctx, cluster.ConfigMaps, "record", "settings", ""); err != nil {
		t.Fatal(err)
	}
	want := []string{"created ConfigMap/record/settings", "changed ConfigMap/record/settings", "deleted ConfigMap/record/settings"}
	if got := record.Lines(); len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("recorded %v", got)
	}
}
