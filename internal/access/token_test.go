package access

import (
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berthdev/terraform-provider-berth/internal/fleettest"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// A long-lived token is replaced without a moment in which a consumer has none: the new one is there, each consumer moves
// to it and leaves the old one, and with the last of them the old one is revoked (I13, I24).
func TestRotation(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "rotation")
	f.converge(f.spec, nil)
	old := f.take(first)
	same(t, "the other one's", f.take(other).Value == old.Value, true)
	same(t, "long-lived", fmt.Sprint(old.SecretName, " ", old.SecretUID, " ", old.Issued.Unix(), " ", old.Expires.IsZero()),
		fmt.Sprint("berth-token ", f.secret("berth-token").UID, " ", f.secret("berth-token").CreationTimestamp.Unix(), " true"))
	same(t, "in use by", f.inUse(), []string{other.String(), first.String()})
	labels := f.secret("berth-token").Labels
	same(t, "marks", labels[kube.UserPrefix+first.Hash()]+" "+labels[kube.UserPrefix+other.Hash()], "cluster.edge-1 worker_enrollment.tenant.edge-1")
	f.accepted(old.Value)
	// Taking it again changes nothing, and neither does leaving what is kept.
	version := f.secret("berth-token").ResourceVersion
	f.proxy.Reset()
	f.take(first)
	f.leave(first, "berth-token")
	same(t, "writes of what is so already", f.proxy.Writes(), 0)
	if got := f.secret("berth-token").ResourceVersion; got != version {
		t.Logf("the API server has noted the token's use: %s → %s", version, got)
	}

	second := f.spec
	second.TokenVersion = 2
	f.converge(second, &f.spec)
	same(t, "Secrets while the old token is in use", f.secrets(), []string{"berth-token", "berth-token-2"})
	handout, err := Look(t.Context(), f.afresh(), f.ref)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "what is handed out", fmt.Sprint(handout), fmt.Sprintf("exists true, pending false, long-lived true, secret berth-token-2 (%s)", f.secret("berth-token-2").UID))
	f.accepted(old.Value)

	moved := f.take(first)
	if moved.SecretName != "berth-token-2" || moved.Value == old.Value {
		t.Errorf("the new token is the old one, or not of berth-token-2: %s", moved.SecretName)
	}
	f.accepted(moved.Value)
	f.leave(first, moved.SecretName)
	same(t, "Secrets while another one uses the old token", f.secrets(), []string{"berth-token", "berth-token-2"})
	f.take(other)
	f.leave(other, moved.SecretName)
	same(t, "Secrets when nobody does", f.secrets(), []string{"berth-token-2"})
	f.refused(old.Value)
	f.accepted(moved.Value)

	f.leave(first, "")
	f.leave(other, "")
	same(t, "in use at the end", f.inUse(), []string(nil))
	same(t, "the current one stays", f.secrets(), []string{"berth-token-2"})
	same(t, "marks at the end", usersOf(unstructuredOf(t, f.secret("berth-token-2"))), []string(nil))
}

// A Secret by the name of an earlier version brings its token back: what the token says is the same, so it is the same
// where the cluster signs with RSA, as most do. That is why versions only go up.
func TestSameNameSameToken(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "resurrected")
	f.converge(f.spec, nil)
	before := f.take(first)
	if err := f.plane.Client().CoreV1().Secrets(f.spec.Namespace).Delete(t.Context(), "berth-token", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.Cluster = f.afresh()
	f.converge(f.spec, &f.spec)
	after := f.take(first)
	same(t, "another Secret", after.SecretUID == before.SecretUID, false)
	same(t, "what the token says", claims(t, after.Value), claims(t, before.Value))

	lower := f.spec
	f.spec.TokenVersion = 3
	f.converge(f.spec, &lower)
	same(t, "what a new version says", claims(t, f.take(first).Value) == claims(t, before.Value), false)
	_, err := lower.Check(t.Context(), f.Cluster, kube.Terms{Owner: us}, &f.spec)
	problem(t, err, "The token version of ServiceAccount/resurrected/berth cannot go down", "token_version is 3 in the state and 1 in the configuration", "Set token_version to 3, or higher")
}

func claims(t *testing.T, token string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("a token of %d parts", len(parts))
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	return string(payload)
}

// Without a long-lived token each consumer mints its own, which the API server refuses as soon as the consumer leaves it.
func TestMinted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "minted")
	f.spec.TokenSecret = false
	f.converge(f.spec, nil)
	same(t, "Secrets of an access without a token", f.secrets(), []string{})
	handout, err := Await(t.Context(), f.Cluster, f.ref)
	if err != nil || fmt.Sprint(handout) != "exists true, pending false, long-lived false, secret  ()" {
		t.Fatalf("%v, %v", handout, err)
	}

	token, err := Take(t.Context(), f.Cluster, f.ref, first, 20*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "lifetime", token.Expires.Sub(token.Issued), 20*time.Minute)
	if late := time.Since(token.Issued); late < -time.Minute || late > time.Minute {
		t.Errorf("issued %s ago", late)
	}
	secret := f.secret(token.SecretName)
	same(t, "bound to", fmt.Sprint(secret.UID, " ", secret.Type, " ", len(secret.Data), " ", secret.Annotations[kube.MarkOwner]), fmt.Sprint(token.SecretUID, " Opaque 0 ", first))
	f.accepted(token.Value)
	same(t, "in use by", f.inUse(), []string{first.String()})

	// The next one, and the end of the one before.
	next := f.take(first)
	theirs := f.take(other)
	f.leave(first, next.SecretName)
	same(t, "the one before", f.secret(token.SecretName), (*corev1.Secret)(nil))
	f.refused(token.Value)
	f.accepted(next.Value)
	f.accepted(theirs.Value)
	f.leave(first, "")
	f.refused(next.Value)
	f.accepted(theirs.Value)
	same(t, "in use by", f.inUse(), []string{other.String()})
	f.leave(other, "")
	same(t, "Secrets at the end", f.secrets(), []string{})
}

// What the API server gives counts, not what was asked for; and less than it ever gives is refused.
func TestLifetimes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "lifetimes")
	f.spec.TokenSecret = false
	f.converge(f.spec, nil)
	token, err := Take(t.Context(), f.Cluster, f.ref, first, 30*24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "capped", token.Expires.Sub(token.Issued), longestToken)
	_, err = Take(t.Context(), f.Cluster, f.ref, first, 9*time.Minute)
	problem(t, err, "cannot be minted for 9m0s", "no token for less than 10m0s")
}

// An apply that was killed between the Secret and its token leaves an empty Secret, which the next Leave takes away. One
// that could not get a token takes its Secret back itself.
func TestMintedAndKilled(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "killed")
	f.spec.TokenSecret = false
	f.converge(f.spec, nil)
	tokens := func(r fleettest.Request) bool { return r.Subresource == "token" }
	restore := f.proxy.Fail(tokens, fleettest.Forbidden)
	_, err := Take(t.Context(), f.Cluster, f.ref, first, longestToken)
	problem(t, err, "minting a token of ServiceAccount/killed/berth", "forbidden by the test")
	same(t, "Secrets after a refusal", f.secrets(), []string{})
	restore()

	// As a kill does it: neither the token nor the clean-up gets through.
	restore = f.proxy.Fail(func(r fleettest.Request) bool { return tokens(r) || r.Verb == "delete" }, fleettest.Cut)
	if _, err := Take(t.Context(), f.Cluster, f.ref, first, longestToken); err == nil {
		t.Fatal("there is a token although no request for one got through")
	}
	restore()
	same(t, "Secrets after a kill", f.secrets(), []string{"berth-minted"})
	f.Cluster = f.afresh()
	token := f.take(first)
	f.leave(first, token.SecretName)
	same(t, "Secrets after the next apply", f.secrets(), []string{"berth-minted"})
	f.accepted(token.Value)
	f.leave(first, "")
}

// Consumers that come and go at the same moment never lose each other's marks.
func TestConcurrentConsumers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "crowd")
	f.converge(f.spec, nil)
	const crowd = 12
	consumers := make([]kube.Owner, crowd)
	for i := range consumers {
		consumers[i] = kube.Owner{Configuration: "platform", Resource: fmt.Sprintf("cluster.edge-%02d", i)}
	}
	at := func(do func(i int) error) {
		t.Helper()
		var group sync.WaitGroup
		failures := make([]error, crowd)
		for i := range consumers {
			group.Go(func() { failures[i] = do(i) })
		}
		group.Wait()
		for i, err := range failures {
			if err != nil {
				t.Errorf("%s: %v", consumers[i], err)
			}
		}
	}
	at(func(i int) error {
		_, err := Take(t.Context(), f.Cluster, f.ref, consumers[i], longestToken)
		return err
	})
	same(t, "in use by", len(f.inUse()), crowd)
	second := f.spec
	second.TokenVersion = 2
	f.converge(second, &f.spec)
	at(func(i int) error {
		token, err := Take(t.Context(), f.Cluster, f.ref, consumers[i], longestToken)
		if err != nil {
			return err
		}
		return Leave(t.Context(), f.Cluster, f.ref, consumers[i], token.SecretName)
	})
	same(t, "Secrets", f.secrets(), []string{"berth-token-2"})
	same(t, "in use by", len(f.inUse()), crowd)
	at(func(i int) error { return Leave(t.Context(), f.Cluster, f.ref, consumers[i], "") })
	same(t, "in use by", f.inUse(), []string(nil))
}

// A consumer that leaves while the token is being replaced does not leave the old one behind, whichever is first.
func TestLeavingWhileItIsReplaced(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, "leaving-"+when)
			f.converge(f.spec, nil)
			f.take(first)
			second := f.spec
			second.TokenVersion = 2
			replace := func(n int, _ fleettest.Request) {
				if n == 1 {
					past := f.as(f.plane.AdminKubeconfig())
					if _, err := second.Converge(t.Context(), past, kube.Terms{Owner: us}, &f.spec); err != nil {
						t.Error(err)
					}
				}
			}
			f.proxy.Reset()
			if when == "before" {
				f.proxy.OnWrite(replace, nil)
			} else {
				f.proxy.OnWrite(nil, replace)
			}
			f.leave(first, "")
			f.proxy.OnWrite(nil, nil)
			same(t, "Secrets", f.secrets(), []string{"berth-token-2"})
		})
	}
}

// A consumer learns at the apply what is not there.
func TestAwaitRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "missing")
	_, err := Take(t.Context(), f.Cluster, f.ref, first, longestToken)
	problem(t, err, `ServiceAccount/missing/berth does not exist on cluster "plane"`, "access names plane/missing/berth", "Create it with berth_cluster_access")
	_, err = Lend(t.Context(), f.Cluster, f.ref, first, longestToken)
	problem(t, err, `ServiceAccount/missing/berth does not exist on cluster "plane"`)
	handout, err := Look(t.Context(), f.Cluster, f.ref)
	if err != nil || handout.Exists || handout.Pending || handout.LongLived {
		t.Errorf("%v, %v", handout, err)
	}

	f.converge(f.spec, nil)
	f.plane.Kubectl(t, "-n", "missing", "delete", "secret", "berth-token")
	_, err = Await(t.Context(), f.Cluster, f.ref)
	problem(t, err, `The token of ServiceAccount/missing/berth is gone from cluster "plane"`, "its token is in Secret/missing/berth-token, which does not exist", "Apply its berth_cluster_access")
	handout, err = Look(t.Context(), f.afresh(), f.ref)
	if err != nil || !handout.LongLived || handout.Token != "" || handout.SecretUID != "" {
		t.Errorf("%v, %v", handout, err)
	}
}

// What is lent for one run stands in nobody's way, and is swept when its token has expired and nobody gave it back.
func TestLent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "lent")
	f.converge(f.spec, nil)
	token, err := Lend(t.Context(), f.Cluster, f.ref, first, 10*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(token.SecretName, "berth-minted-") {
		t.Errorf("lent is %s", token.SecretName)
	}
	f.accepted(token.Value)
	same(t, "in use by", f.inUse(), []string(nil))
	f.leave(other, "")
	same(t, "Secrets while it is lent", f.secrets(), []string{"berth-minted", "berth-token"})
	f.leave(first, "")
	f.refused(token.Value)

	forgotten, err := Lend(t.Context(), f.Cluster, f.ref, first, 10*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	expire := func(name string) {
		f.plane.Kubectl(t, "-n", "lent", "annotate", "--overwrite", "secret", name, AnnotationExpires+"=2020-01-01T00:00:00Z")
	}
	expire(forgotten.SecretName)
	f.leave(other, "")
	same(t, "Secrets when it has expired", f.secrets(), []string{"berth-token"})

	// A token that its consumer has not renewed is in nobody's use, but its Secret is the consumer's to take away.
	f.spec.TokenSecret = false
	f.converge(f.spec, &f.spec)
	same(t, "Secrets of an access that went over to minting", f.secrets(), []string{})
	stored := f.take(first)
	same(t, "in use by", f.inUse(), []string{first.String()})
	expire(stored.SecretName)
	same(t, "in use by", f.inUse(), []string(nil))
	f.leave(other, "")
	same(t, "Secrets", f.secrets(), []string{"berth-minted"})
	f.leave(first, "")
}
