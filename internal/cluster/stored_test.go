package cluster_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// What is stored leads to the cluster that it was taken of, and can be tried before anybody stores it (I24): with the
// entry's own certificate, and with the token of a ServiceAccount at the same server.
func TestStoredLeadsBack(t *testing.T) {
	f := newFixture(t, "stored")
	certificate, err := f.StoredCredential()
	if err != nil {
		t.Fatal(err)
	}
	token, err := f.StoredConnection()
	if err != nil {
		t.Fatal(err)
	}
	f.allow("reader", "get")
	account := f.plane.ServiceAccountKubeconfig(t, "stored/account")
	token.Token = account.Token
	f.requests("nothing is sent", map[string]int{})

	tried, err := certificate.Cluster("plane", f.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	if uid, err := tried.UID(t.Context()); err != nil || uid != f.plane.UID() {
		t.Errorf("UID %q, %v; want %q", uid, err, f.plane.UID())
	}
	if _, err := tried.Version(t.Context()); err != nil {
		t.Error(err)
	}
	// It has a snapshot of its own: what the one has read, the other has not.
	for _, one := range []*cluster.Cluster{tried, f.Cluster} {
		if _, err := one.List(t.Context(), cluster.PriorityClasses); err != nil {
			t.Error(err)
		}
	}
	f.requests("one list each", map[string]int{"get namespaces": 1, "get /version": 1, "list priorityclasses.scheduling.k8s.io": 2})

	bearer, err := token.Cluster("plane", f.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	missing, err := bearer.Missing(t.Context(), []cluster.Permission{{Verb: "get", Resource: "nodes"}})
	if err != nil || len(missing) != 1 {
		t.Errorf("a ServiceAccount without a role lacks %v, %v", missing, err)
	}
	if _, err := bearer.UID(t.Context()); err == nil || !strings.Contains(err.Error(), `user "system:serviceaccount:stored:account" may not get namespaces`) {
		t.Errorf("its UID: %v", err)
	}

	// With both, as somebody else may have stored them (I24, I100), the API server takes the one that is good.
	admin := f.plane.AdminKubeconfig()
	ended := f.plane.ExpiringKubeconfig(t, time.Now().Add(-time.Hour), "ended")
	for lacks, both := range map[int]cluster.Stored{
		0: {Token: "of-nobody", CertData: admin.ClientCertificate, KeyData: admin.ClientKey},
		1: {Token: account.Token, CertData: ended.ClientCertificate, KeyData: ended.ClientKey},
	} {
		both.Server, both.CAData = admin.Server, f.plane.CA()
		tried, err := both.Cluster("plane", f.Cluster)
		if err != nil {
			t.Fatal(err)
		}
		if missing, err := tried.Missing(t.Context(), []cluster.Permission{{Verb: "get", Resource: "nodes"}}); err != nil || len(missing) != lacks {
			t.Errorf("it lacks %v, not %d; %v", missing, lacks, err)
		}
	}

	// As a kubeconfig, which is what Kueue stores, it leads there as well.
	content, err := certificate.Kubeconfig("worker")
	if err != nil {
		t.Fatal(err)
	}
	again, err := cluster.NewFleet(cluster.Settings{Entries: map[string]cluster.Entry{"worker": {Kubeconfig: string(content), UID: f.plane.UID()}}}).Cluster("worker")
	if err != nil {
		t.Fatal(err)
	}
	if uid, err := again.UID(t.Context()); err != nil || uid != f.plane.UID() || again.Context() != "worker" {
		t.Errorf("UID %q of context %q, %v", uid, again.Context(), err)
	}
}

// A real cluster on this machine is no public one: with `org` nothing more is sent to it (I66).
func TestPrivatePlaneIsRefused(t *testing.T) {
	f := newFixture(t, "private")
	var problem *cluster.Problem
	err := f.RequirePublic(t.Context())
	if !errors.As(err, &problem) || problem.Attribute != "org" || problem.Summary != `Cluster "plane" has no public address` || cluster.Unreachable(err) {
		t.Fatalf("%v", err)
	}
	if _, err := f.UID(t.Context()); !errors.As(err, &problem) || problem.Attribute != "org" || cluster.Unreachable(err) {
		t.Errorf("its UID: %v", err)
	}
	if _, err := f.List(t.Context(), cluster.ConfigMaps); !errors.As(err, &problem) || problem.Attribute != "org" {
		t.Errorf("a list: %v", err)
	}
	f.requests("nothing is sent", map[string]int{})
}
