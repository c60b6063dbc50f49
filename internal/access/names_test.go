package access

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// The ID of an access is its cluster, namespace and ServiceAccount.
func TestRef(t *testing.T) {
	t.Parallel()
	ref, err := ParseRef("edge/kube-system/berth")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "parsed", fmt.Sprintf("%+v", ref), "edge/kube-system/berth")
	for _, id := range []string{"", "edge", "edge/berth", "edge/kube-system/berth/more", "edge//berth", "/kube-system/berth", "edge/kube-system/"} {
		_, err := ParseRef(id)
		problem(t, err, fmt.Sprintf("%q names no access", id), "id of a berth_cluster_access")
	}
}

// The Secret of each version has a name of its own, from which the version can be read back; names that no version has are
// read as none.
func TestSecretNames(t *testing.T) {
	t.Parallel()
	for version, want := range map[int64]string{1: "berth-token", 2: "berth-token-2", 31: "berth-token-31"} {
		spec := Spec{ServiceAccount: "berth", TokenSecret: true, TokenVersion: version}
		same(t, "name", spec.SecretName(), want)
		same(t, "version of "+want, versionOf("berth", want), version)
	}
	same(t, "without a token", Spec{ServiceAccount: "berth", TokenVersion: 3}.SecretName(), "")
	for _, name := range []string{"", "berth", "berth-token-", "berth-token-1", "berth-token-0", "berth-token--2", "berth-token-02", "berth-token-x", "berth-token2", "other-token", "berth-token-99999999999999999999"} {
		same(t, "version of "+name, versionOf("berth", name), 0)
	}
}

// Two of the longest names that there can be lead to two bindings, each with a name that the API takes.
func TestBindingNames(t *testing.T) {
	t.Parallel()
	same(t, "usual", Spec{Namespace: "kube-system", ServiceAccount: "berth"}.BindingName(), "berth-kube-system-berth")
	long := Spec{Namespace: strings.Repeat("n", 63), ServiceAccount: strings.Repeat("s", 240)}
	longer := long
	longer.ServiceAccount += "s"
	for _, spec := range []Spec{long, longer} {
		if wrong := validation.IsDNS1123Subdomain(spec.BindingName()); len(wrong) > 0 {
			t.Errorf("%s: %v", spec.BindingName(), wrong)
		}
	}
	if long.BindingName() == longer.BindingName() {
		t.Error("two ServiceAccounts have one binding")
	}
}

// The Secret of a minted token belongs to one ServiceAccount, however others are called.
func TestMintedNames(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name, account string
		minted        bool
	}{
		{"berth-minted-0123abcd", "berth", true},
		{"berth-minted-0123abcd", "", false},
		{"berth-minted-0123ABCD", "berth", false},
		{"berth-minted-0123abcd-token", "berth", false},
		{"berth-minted-0123abcd-minted-0123abcd", "berth", false},
		{"other-minted-0123abcd", "berth", false},
	} {
		secret := cluster.Secrets.New("team", one.name)
		if one.account != "" {
			kube.SetAnnotation(secret, AnnotationServiceAccount, one.account)
		}
		same(t, one.name+" of "+one.account, isMinted(secret, "berth"), one.minted)
	}
}

// Whatever a consumer is called, its name is a value that a label can have.
func FuzzUseLabel(f *testing.F) {
	for _, seed := range []string{"cluster.edge", "worker_enrollment.tenant/edge", strings.Repeat("x", 62) + "-y", "..", "", "ü/ü"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		label := useLabel(kube.Owner{Configuration: "platform", Resource: name})
		if wrong := validation.IsValidLabelValue(label); len(wrong) > 0 {
			t.Errorf("%q becomes %q: %v", name, label, wrong)
		}
	})
}

// A token is due in the last third of its life.
func TestRenewAt(t *testing.T) {
	t.Parallel()
	issued := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	same(t, "of three hours", RenewAt(issued, issued.Add(3*time.Hour)), issued.Add(2*time.Hour))
	same(t, "of none", RenewAt(issued, issued), issued)
}

// What holds a token does not show it, by whichever verb it is printed (X9).
func TestTokensAreNotPrinted(t *testing.T) {
	t.Parallel()
	const canary = "canary"
	for _, value := range []any{Token{Value: canary, SecretName: "s"}, Handout{Token: canary, SecretName: "s"}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			if text := fmt.Sprintf(verb, value); strings.Contains(text, canary) || !strings.Contains(text, "s") {
				t.Errorf("%s: %s", verb, text)
			}
		}
	}
}
