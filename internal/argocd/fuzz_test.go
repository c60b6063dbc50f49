package argocd

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/netip"
	"net/url"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// secretWith is a cluster's Secret with these fields.
func secretWith(data map[string]string) *unstructured.Unstructured {
	secret := cluster.Secrets.New("argocd", "cluster-edge")
	encoded := map[string]any{}
	for key, value := range data {
		encoded[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	secret.Object["data"] = encoded
	return secret
}

// checkKubeconfig fails the test unless a kubeconfig that was made of a credential is one with nothing else in it.
func checkKubeconfig(t *testing.T, content []byte, stored cluster.Stored) {
	t.Helper()
	config, err := clientcmd.Load(content)
	if err != nil {
		t.Fatalf("%v\n%s", err, content)
	}
	if len(config.Clusters) != 1 || len(config.AuthInfos) != 1 || len(config.Contexts) != 1 || config.CurrentContext != "edge" {
		t.Fatalf("it holds more or less than one cluster:\n%s", content)
	}
	user := config.AuthInfos["edge"]
	if user.TokenFile != "" || user.ClientCertificate != "" || user.ClientKey != "" || user.Exec != nil || config.Clusters["edge"].CertificateAuthority != "" {
		t.Errorf("it leads to something of this machine:\n%s", content)
	}
	if stored.Token != "" && user.Token == "" || !bytes.Equal(user.ClientCertificateData, stored.CertData) || !bytes.Equal(user.ClientKeyData, stored.KeyData) {
		t.Errorf("it has another credential than it was made of:\n%s", content)
	}
}

// Whatever stands in the Secret of a cluster, an import, a refresh and an apply read it without a panic, and what they
// understand they leave in its own words (I6, I100).
func FuzzArgoConfig(f *testing.F) {
	for _, config := range []string{
		`{"bearerToken":"abc","tlsClientConfig":{"insecure":false,"caData":"LS0t"}}`, `{"tlsClientConfig":{"certData":"YQ==","keyData":"Yg=="}}`,
		`{"awsAuthConfig":{"clusterName":"edge"},"tlsClientConfig":{"insecure":true}}`, `{"execProviderConfig":null,"bearerToken":"e30.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6YTpiIn0.x"}`,
		`{"username":"a","password":"b"}`, `{"tlsClientConfig":7}`, `null`, `[]`, `"`, ``, `{"bearerToken":"a.b.c","proxyUrl":"socks5://x"}`,
		`{"bearerToken":"abc","tlsClientConfig":{"insecure":true,"certData":"YQ==","keyData":"Yg=="}}`,
	} {
		f.Add(config, "https://203.0.113.10:6443", "a, b,", "02", "edge")
	}
	like, err := cluster.NewFleet(cluster.Settings{Entries: map[string]cluster.Entry{"edge": {Host: "https://203.0.113.10", Token: "abcdefgh"}}}).Cluster("edge")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, config, server, namespaces, shard, name string) {
		live := secretWith(map[string]string{"config": config, "server": server, "namespaces": namespaces, "shard": shard, "name": name})
		live.SetAnnotations(map[string]string{annotationCredential: fromAccess, annotationTokenExpires: shard, annotationToken: name})
		var spec Spec
		spec.readSecret(live)
		spec.Name = "edge"
		accessOf(live, "edge")
		cred := written(live)
		object, err := spec.secretObject(server, cred, facts{uid: "u"}, live)
		if err != nil {
			t.Fatal(err)
		}
		if _, readable := configOf(live); readable && secretField(object.Desired, "config") != config {
			t.Errorf("%q became %q", config, secretField(object.Desired, "config"))
		}
		for _, field := range []string{"namespaces", "shard"} {
			if have := secretField(object.Desired, field); have != "" && have != secretField(live, field) {
				t.Errorf("%s: %q became %q", field, secretField(live, field), have)
			}
		}
		if stored, ok := cred.config.stored(server); ok {
			if kubeconfig, err := spec.kubeconfigObject(server, cred); err == nil {
				checkKubeconfig(t, []byte(secretField(kubeconfig.Desired, kubeconfigKey)), stored)
			}
			if _, err := stored.Cluster("edge", like); err == nil && server == "" {
				t.Error("a cluster without an address")
			}
		}
	})
}

// Whatever the kubeconfig of an entry says, its credential is refused, or is one that Argo CD's Secret and the stored
// kubeconfig hold whole (I12, I14, I17, I104).
func FuzzKubeconfig(f *testing.F) {
	const content = `apiVersion: v1
kind: Config
current-context: edge
clusters: [{name: edge, cluster: {server: "https://203.0.113.10:6443", insecure-skip-tls-verify: true}}]
users: [{name: me, user: {%s}}]
contexts: [{name: edge, context: {cluster: edge, user: me}}]
`
	for _, user := range []string{"token: abcdefgh", "tokenFile: /nowhere", "exec: {command: x}", "auth-provider: {name: gcp}", "username: a, password: b", "client-certificate: /a, client-key: /b", "as: you, token: abcdefgh", "client-certificate-data: YQ==, client-key-data: YQ=="} {
		f.Add(fmt.Appendf(nil, content, user))
	}
	f.Add([]byte("current-context: a"))
	f.Add([]byte("clusters: [{}]"))
	f.Fuzz(func(t *testing.T, content []byte) {
		entry := cluster.Entry{Kubeconfig: string(content)}
		if len(entry.Validate()) > 0 {
			return
		}
		c, err := cluster.NewFleet(cluster.Settings{Entries: map[string]cluster.Entry{"edge": entry}}).Cluster("edge")
		if err != nil {
			t.Fatal(err)
		}
		stored, err := c.StoredCredential()
		if err != nil {
			return
		}
		spec := Spec{Name: "edge", Namespace: "argocd", SecretName: "cluster-edge", KubeconfigNamespace: "kept", StoreKubeconfig: true}
		cred := credential{source: fromConnection, config: connectionOf(stored)}
		secret, err := spec.secretObject(spec.argoServer(c), cred, facts{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, readable := configOf(secret.Desired); !readable {
			t.Errorf("Argo CD could not read %s", secretField(secret.Desired, "config"))
		}
		back, ok := written(secret.Desired).config.stored(stored.Server)
		if !ok || back.Token != stored.Token || !bytes.Equal(back.CertData, stored.CertData) || !bytes.Equal(back.KeyData, stored.KeyData) || !bytes.Equal(back.CAData, stored.CAData) {
			t.Errorf("Argo CD's Secret holds another credential than the entry")
		}
		kubeconfig, err := spec.kubeconfigObject(stored.Server, cred)
		if err != nil {
			t.Fatalf("no kubeconfig of what can be stored: %v", err)
		}
		checkKubeconfig(t, []byte(secretField(kubeconfig.Desired, kubeconfigKey)), stored)
	})
}

// The address that Argo CD is given for an organization's cluster is public, or refused (I21, I66); a Secret that means the
// same one keeps its words.
func FuzzArgoServer(f *testing.F) {
	for _, seed := range [][2]string{{"https://10.0.0.1", "https://10.0.0.1:443/"}, {"https://[::1]:6443", ""}, {"https://[fe80::1%25eth0]", "x"}, {"https://1.1.1.1", "HTTPS://1.1.1.1"}, {"https://[::ffff:7f00:1]", "%"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, server, have string) {
		words := inItsWords(server, secretWith(map[string]string{"server": have}))
		if words != server && (words != have || !cluster.SameServer(words, server)) {
			t.Errorf("%q in the words of %q is %q", server, have, words)
		}
		parsed, err := url.Parse(server)
		if err != nil {
			return
		}
		// A name would be asked of DNS.
		ip, err := netip.ParseAddr(parsed.Hostname())
		if err != nil {
			return
		}
		p := prepared{Spec: Spec{Name: "edge", Org: "acme", Server: server}}
		if refused := p.checkServer(t.Context()); refused == nil && cluster.PublicAddress(ip) != nil {
			t.Errorf("%q counts as public", server)
		}
	})
}
