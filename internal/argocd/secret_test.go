package argocd

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berthdev/terraform-provider-berth/internal/access"
	"github.com/berthdev/terraform-provider-berth/internal/cluster"
	"github.com/berthdev/terraform-provider-berth/internal/kube"
)

// The config of a Secret is the JSON that Argo CD reads, with the certificates in base64 of PEM, and nothing that is not set
// (I6).
func TestConnection(t *testing.T) {
	t.Parallel()
	stored := cluster.Stored{Token: "abc", CAData: []byte("CA"), TLSServerName: "api.internal", ProxyURL: "http://proxy:3128", DisableCompression: true}
	for text, one := range map[string]cluster.Stored{
		`{"bearerToken":"abc","tlsClientConfig":{"insecure":false,"serverName":"api.internal","caData":"Q0E="},"disableCompression":true,"proxyUrl":"http://proxy:3128"}`: stored,
		`{"tlsClientConfig":{"insecure":true,"certData":"Qw==","keyData":"Sw=="}}`:                                                                                        {CertData: []byte("C"), KeyData: []byte("K"), Insecure: true},
	} {
		body, err := json.Marshal(connectionOf(one))
		if err != nil {
			t.Fatal(err)
		}
		want(t, "config", string(body), text)
		back, ok := connectionOf(one).stored("https://a")
		one.Server = "https://a"
		want(t, "read back", fmt.Sprint(back, ok), fmt.Sprint(one, true))
	}
}

// What only Argo CD can sign in with is no credential for anybody else; a null is as good as nothing.
func TestConnectionOfArgoCDAlone(t *testing.T) {
	t.Parallel()
	for config, usable := range map[string]bool{
		`{"bearerToken":"a"}`: true,
		`{"bearerToken":"a","awsAuthConfig":null,"execProviderConfig":null}`:         true,
		`{"tlsClientConfig":{"certData":"Qw==","keyData":"Sw=="}}`:                   true,
		`{"awsAuthConfig":{"clusterName":"edge"}}`:                                   false,
		`{"execProviderConfig":{"command":"argocd-k8s-auth"}}`:                       false,
		`{"username":"a","password":"b"}`:                                            false,
		`{"bearerToken":"a","tlsClientConfig":{"certData":"Qw==","keyData":"Sw=="}}`: true,
		`{"bearerToken":"a","tlsClientConfig":{"certData":"Qw==","keyData":""}}`:     true,
		`{"tlsClientConfig":{"certData":"","keyData":"Sw=="}}`:                       false,
		`{}`: false,
	} {
		read, readable := configOf(secretWith(map[string]string{"config": config}))
		_, ok := read.stored("https://a")
		want(t, config, []bool{readable, ok}, []bool{true, usable})
	}
	for _, config := range []string{``, `{`, `[]`, `7`, `{"bearerToken":7}`} {
		if _, readable := configOf(secretWith(map[string]string{"config": config})); readable {
			t.Errorf("%q can be read", config)
		}
	}
}

// Argo CD signs in with both a token and a certificate where it has both, and takes no notice of half a certificate: what is
// tried, and stored as a kubeconfig, is the same (I100).
func TestConnectionWithBoth(t *testing.T) {
	t.Parallel()
	for config, stored := range map[string]cluster.Stored{
		`{"bearerToken":"a","tlsClientConfig":{"certData":"Qw==","keyData":"Sw=="}}`: {Server: "https://a", Token: "a", CertData: []byte("C"), KeyData: []byte("K")},
		`{"bearerToken":"a","tlsClientConfig":{"certData":"Qw=="}}`:                  {Server: "https://a", Token: "a"},
		`{"bearerToken":"a","tlsClientConfig":{"keyData":"Sw=="}}`:                   {Server: "https://a", Token: "a"},
	} {
		read, _ := configOf(secretWith(map[string]string{"config": config}))
		found, usable := read.stored("https://a")
		want(t, config, fmt.Sprint(found, usable), fmt.Sprint(stored, true))
	}
}

// A Secret that says the same in other words is left in its own: Argo CD's order of keys, spaces between namespaces, the
// spelling of the server (I100).
func TestSecretKeepsItsWords(t *testing.T) {
	t.Parallel()
	data := map[string]string{
		"name": "edge", "server": "HTTPS://API.example.com:443/", "namespaces": "shop, web ,", "shard": "01",
		"config": `{ "tlsClientConfig": {"caData":"Q0E=","insecure":false}, "bearerToken":"abc" }`,
	}
	live := secretWith(data)
	live.SetLabels(map[string]string{LabelSecretType: SecretTypeCluster})
	var spec Spec
	spec.readSecret(live)
	spec.Name = "edge"
	want(t, "namespaces", spec.Namespaces, []string{"shop", "web"})
	cred := credential{source: fromConnection, config: connectionOf(cluster.Stored{Token: "abc", CAData: []byte("CA")})}
	object, err := spec.secretObject("https://api.example.com", cred, facts{}, live)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "differences", unwritten(object, false).Compare(live), []kube.Difference(nil))
	// Something else is written anew.
	cred.config.BearerToken, spec.Namespaces = "def", []string{"shop"}
	if object, err = spec.secretObject("https://other.example.com", cred, facts{}, live); err != nil {
		t.Fatal(err)
	}
	want(t, "config", secretField(object.Desired, "config"), `{"bearerToken":"def","tlsClientConfig":{"insecure":false,"caData":"Q0E="}}`)
	want(t, "fields", []string{secretField(object.Desired, "server"), secretField(object.Desired, "namespaces")}, []string{"https://other.example.com", "shop"})
}

// Whose a cluster is and where it runs stand on its Secret, for whatever selects clusters by it; what is not known leaves no
// label behind (I16, I18, I19).
func TestSecretSaysWhatItIs(t *testing.T) {
	t.Parallel()
	of := func(spec Spec) (labels, annotations map[string]string) {
		object, err := spec.secretObject("https://a", credential{source: fromConnection}, facts{uid: "u-1", version: "v1.33.1", nodes: 3}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return object.Desired.GetLabels(), object.Desired.GetAnnotations()
	}
	labels, annotations := of(Spec{Name: "edge", Org: "acme", Provider: "gcp", Region: "europe-west1", Labels: map[string]string{"tier": "edge"}})
	want(t, "labels", labels, map[string]string{LabelSecretType: "cluster", LabelOrg: "acme", LabelProvider: "gcp", LabelRegion: "europe-west1", "tier": "edge"})
	want(t, "annotations", annotations, map[string]string{AnnotationClusterUID: "u-1", annotationCredential: fromConnection})
	labels, _ = of(Spec{Name: "edge"})
	want(t, "labels of the platform's", labels, map[string]string{LabelSecretType: "cluster"})
}

// jwt is a token that says these claims; nobody has signed it.
func jwt(payload string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".x"
}

// The token itself tells whose it is, and for which ServiceAccount and Secret it was issued (I100, I101).
func TestTokenClaims(t *testing.T) {
	t.Parallel()
	account, secret := types.UID("sa-1"), types.UID("se-1")
	bound := jwt(`{"sub":"system:serviceaccount:kube-system:berth","kubernetes.io":{"serviceaccount":{"uid":"sa-1"},"secret":{"uid":"se-1"}}}`)
	for what, one := range map[string]struct {
		token           string
		account, secret types.UID
		good            bool
	}{
		"its own":              {bound, account, secret, true},
		"another account":      {bound, "sa-2", secret, false},
		"another Secret":       {bound, account, "se-2", false},
		"without such claims":  {jwt(`{"sub":"system:serviceaccount:kube-system:berth"}`), account, secret, true},
		"no token at all":      {"abc", account, secret, true},
		"nothing readable":     {"a.%.c", account, secret, true},
		"a token of an object": {jwt(`[]`), account, secret, true},
	} {
		want(t, what, issuedFor(one.token, one.account, one.secret), one.good)
	}
	of := func(token string) *access.Ref {
		return accessOf(secretWith(map[string]string{"config": fmt.Sprintf(`{"bearerToken":%q}`, token)}), "edge")
	}
	want(t, "the access", of(bound), &access.Ref{Cluster: "edge", Namespace: "kube-system", Name: "berth"})
	for _, token := range []string{"", "abc", jwt(`{"sub":"somebody"}`), jwt(`{"sub":"system:serviceaccount:berth"}`), jwt(`{`)} {
		if ref := of(token); ref != nil {
			t.Errorf("%q is of %s", token, ref)
		}
	}
}

// The annotations remember where a credential is from, and when it ends, without the token; what they say is read back.
func TestCredentialAnnotations(t *testing.T) {
	t.Parallel()
	issued := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cred := credential{source: fromAccess, token: access.Token{Value: "secret", SecretName: "berth-minted-1", Issued: issued, Expires: issued.Add(time.Hour)}}
	annotations := cred.annotations()
	want(t, "annotations", annotations, map[string]string{
		"berth.dev/credential": "access", "berth.dev/token": "berth-minted-1", "berth.dev/token-issued": "2026-01-01T00:00:00Z", "berth.dev/token-expires": "2026-01-01T01:00:00Z",
	})
	live := secretWith(map[string]string{"config": `{"bearerToken":"secret"}`})
	live.SetAnnotations(annotations)
	read := written(live)
	want(t, "read back", []any{read.source, read.token.Value, read.token.SecretName, read.token.Issued, read.token.Expires}, []any{fromAccess, "secret", "berth-minted-1", issued, issued.Add(time.Hour)})
	cred.token.Expires = time.Time{}
	want(t, "one without an end", cred.annotations(), map[string]string{"berth.dev/credential": "access", "berth.dev/token": "berth-minted-1"})
	want(t, "the entry's own", credential{source: fromConnection}.annotations(), map[string]string{"berth.dev/credential": "connection"})
}
