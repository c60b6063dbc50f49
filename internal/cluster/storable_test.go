package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	lasting = 48 * time.Hour
	// whyStored is what every refusal of a credential says.
	whyStored = "Argo CD needs a credential that it can store"
)

func edge(entry Entry) *Cluster { return newCluster("edge", entry, Settings{}) }

// TestUnstorable is I12: what others cannot store is refused, each with its own reason and the same remedy.
func TestUnstorable(t *testing.T) {
	ca := newAuthority(t, "test-ca")
	certificate, key := ca.issue(t, "me", -time.Hour, lasting)
	brief, briefKey := ca.issue(t, "me", -time.Hour, time.Hour)
	folder := t.TempDir()
	for name, content := range map[string][]byte{"ca.pem": ca.pem, "me.crt": certificate, "me.key": key, "token": []byte(canary)} {
		writeFile(t, filepath.Join(folder, name), string(content), 0o600)
	}
	content := func(cluster, user string) Entry { return Entry{Kubeconfig: kubeconfigWith(cluster, user)} }
	file := func(cluster, user string) Entry {
		path := writeFile(t, filepath.Join(t.TempDir(), "config"), kubeconfigWith(cluster, user), 0o600)
		return Entry{KubeconfigPath: path, Context: "eu"}
	}
	pair := func(certificate, key []byte) string {
		return "client-certificate-data: " + inBase64Of(certificate) + ", client-key-data: " + inBase64Of(key)
	}
	soon, past := time.Now().Add(23*time.Hour).Truncate(time.Second), time.Now().Add(-time.Hour).Truncate(time.Second)
	plugin := &Exec{APIVersion: execAPIVersions[0], Command: "no-such-plugin-of-berth", Args: []string{canary}}
	here := func(name string) string { return filepath.Join(folder, name) }

	for name, test := range map[string]struct {
		entry   Entry
		summary string
		want    []string
	}{
		"exec plugin": {
			content(goodServer, "exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, args: [eks, get-token, "+canary+"]}"), "it comes from an exec plugin",
			[]string{`User "u" in the kubeconfig of clusters["edge"] has the exec plugin "aws"`, "runs on this machine"},
		},
		"exec of a host": {Entry{Host: "a", Exec: plugin}, "it comes from an exec plugin", []string{`clusters["edge"] has the exec plugin "no-such-plugin-of-berth"`}},
		"exec and token": {content(goodServer, "token: "+canary+", exec: {apiVersion: client.authentication.k8s.io/v1, command: aws}"), "it comes from an exec plugin", nil},
		"auth-provider":  {content(goodServer, "auth-provider: {name: gcp, config: {access-token: "+canary+"}}"), "it comes from an auth-provider plugin", []string{`the auth-provider "gcp"`}},
		"token file":     {content(goodServer, "tokenFile: "+here("token")), "it is in a token file", []string{quoted(here("token")), "a file of this machine"}},
		"no token file":  {content(goodServer, "tokenFile: /no/such/token, token: "+canary), "it is in a token file", []string{`"/no/such/token"`}},
		"basic auth":     {content(goodServer, "username: me, password: "+canary), "it is a user name and password", []string{"refused since Kubernetes 1.19"}},
		"impersonation":  {content(goodServer, "token: "+canary+", as: admin"), "it acts as another user", []string{"only the credential itself could be stored"}},
		"groups":         {content(goodServer, "token: "+canary+", as-groups: [admins]"), "it acts as another user", nil},
		"certificate path": {
			content(goodServer, "client-certificate: "+here("me.crt")+", client-key: "+here("me.key")), "client-certificate is the path of a file",
			[]string{quoted(here("me.crt")), "--flatten", "(client-certificate-data)"},
		},
		"key path": {
			content(goodServer, "client-certificate-data: "+inBase64Of(certificate)+", client-key: "+here("me.key")), "client-key is the path of a file",
			[]string{quoted(here("me.key")), "(client-key-data)"},
		},
		"CA path": {
			content(goodServer+", certificate-authority: "+here("ca.pem"), "token: "+canary), "certificate-authority is the path of a file",
			[]string{`Cluster "c" in the kubeconfig of clusters["edge"]`, quoted(here("ca.pem")), "(certificate-authority-data)"},
		},
		"CA path in a file": {
			file(goodServer+", certificate-authority: ca.pem", "token: "+canary), "certificate-authority is the path of a file",
			[]string{`Cluster "c" in the kubeconfig file "`, `"ca.pem"`},
		},
		"certificate path in a file": {file(goodServer, "client-certificate: me.crt, client-key: me.key"), "client-certificate is the path of a file", []string{`User "u" in the kubeconfig file "`}},
		"no credential":              {content(goodServer, ""), "there is none", []string{"neither a token nor a client certificate"}},
		"blank token":                {content(goodServer, "token: ' '"), "there is none", nil},
		"AWS":                        {content(goodServer, "token: "+newEKSToken(time.Now())), "it is a sign-in token of AWS", []string{"15 minutes", "aws eks get-token"}},
		"AWS, ended":                 {content(goodServer, "token: "+newEKSToken(past)), "it is a sign-in token of AWS", nil},
		"Google":                     {Entry{Host: "a", Token: "ya29." + canary + "\n"}, "it is a sign-in token of Google Cloud", []string{`The token of clusters["edge"]`, "about an hour"}},
		"JWT":                        {content(goodServer, "token: "+newJWT(t, soon)), "it ends at " + moment(soon), []string{`The token of clusters["edge"] ends at ` + moment(soon), "more than a day"}},
		"JWT, ended":                 {Entry{Host: "a", Token: newJWT(t, past)}, "it ended at " + moment(past), []string{"ended at " + moment(past)}},
		"brief certificate":          {content(goodServer, pair(brief, briefKey)), "it ends at 2", []string{`The client certificate of clusters["edge"] ends at 2`}},
		"brief certificate of a host": {
			Entry{Host: "a", ClientCertificate: string(brief), ClientKey: string(briefKey)}, "it ends at 2", []string{"The client certificate"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			stored, err := edge(test.entry).StoredCredential()
			var problem *Problem
			if !errors.As(err, &problem) || problem.Attribute != "access" {
				t.Fatalf("%+v, %v", stored.Server, err)
			}
			if want := `The credential of cluster "edge" cannot be stored: ` + test.summary; !strings.HasPrefix(problem.Summary, want) {
				t.Errorf("summary %q, want %q", problem.Summary, want)
			}
			requireText(t, problem.Error(), append(test.want, "refusing: ", whyStored, "Kueue", "Create a berth_cluster_access on the cluster and set access to its id", `clusters["edge"]`)...)
		})
	}
	// What is wrong with the entry itself is told as everywhere.
	for want, entry := range map[string]Entry{
		"no such context":              {Kubeconfig: kubeconfigWith(goodServer, "token: "+canary), Context: "nope"},
		"more than one credential":     content(goodServer, "token: "+canary+", "+pair(certificate, key)),
		"has no server":                content("", "token: "+canary),
		"The entry has no connection":  {},
		"not a bearer token":           content(goodServer, "token: 'a "+canary+"'"),
		"half a client certificate":    content(goodServer, "client-key-data: "+inBase64Of(key)),
		"does not belong to the key":   content(goodServer, pair(certificate, briefKey)),
		"kubeconfig file does not exi": {KubeconfigPath: "/no/such/file", Context: "eu"},
	} {
		_, err := edge(entry).StoredCredential()
		if err == nil {
			t.Errorf("%s: accepted", want)
			continue
		}
		requireText(t, err.Error(), want, `clusters["edge"]: `)
	}
}

// TestStoredCredential is I12, I14 and I104: the current context's server, trust and credential, and nothing else.
func TestStoredCredential(t *testing.T) {
	ca := newAuthority(t, "test-ca")
	certificate, key := ca.issue(t, "me", -time.Hour, lasting)
	leaf, err := firstCertificate(certificate)
	if err != nil {
		t.Fatal(err)
	}
	late := time.Now().Add(lasting).Truncate(time.Second)
	full := goodServer + ", certificate-authority-data: " + inBase64Of(ca.pem) + ", certificate-authority: /ignored, tls-server-name: kube, proxy-url: 'http://u:p@proxy:1', disable-compression: true"
	whole := Stored{Server: "https://api.example.com:6443", CAData: ca.pem, TLSServerName: "kube", ProxyURL: "http://u:p@proxy:1", DisableCompression: true}
	with := func(stored Stored, change func(*Stored)) Stored { change(&stored); return stored }
	path := writeFile(t, filepath.Join(t.TempDir(), "config"), kubeconfigWith(full, "token: "+canary), 0o600)

	for name, test := range map[string]struct {
		entry Entry
		want  Stored
	}{
		"token": {Entry{Kubeconfig: kubeconfigWith(full, "token: '"+canary+" '")}, with(whole, func(s *Stored) { s.Token = canary })},
		"path":  {Entry{KubeconfigPath: path, Context: "us-east"}, with(whole, func(s *Stored) { s.Token = canary })},
		"lasting JWT": {Entry{Kubeconfig: kubeconfigWith(goodServer, "token: "+newJWT(t, late))}, Stored{
			Server: whole.Server, Token: newJWT(t, late), Expires: late,
		}},
		"certificate": {
			Entry{Kubeconfig: kubeconfigWith(full, "client-certificate-data: "+inBase64Of(certificate)+", client-key-data: "+inBase64Of(key)+", client-key: /ignored")},
			with(whole, func(s *Stored) { s.CertData, s.KeyData, s.Expires = certificate, key, leaf.NotAfter }),
		},
		"host": {Entry{Host: "10.0.0.1:6443", Insecure: true, Token: canary}, Stored{Server: "https://10.0.0.1:6443", Insecure: true, Token: canary}},
		"host with certificate": {
			Entry{Host: "a", ClusterCACertificate: inBase64Of(ca.pem), ClientCertificate: string(certificate), ClientKey: string(key), TLSServerName: "b", ProxyURL: "socks5://p:1"},
			Stored{Server: "https://a", CAData: ca.pem, TLSServerName: "b", ProxyURL: "socks5://p:1", CertData: certificate, KeyData: key, Expires: leaf.NotAfter},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := edge(test.entry).StoredCredential()
			if err != nil {
				t.Fatal(err)
			}
			if !sameStored(got, test.want) {
				t.Errorf("got  %s\nwant %s", told(got), told(test.want))
			}

			written, err := got.Kubeconfig("edge")
			if err != nil {
				t.Fatal(err)
			}
			if again, err := got.Kubeconfig("edge"); err != nil || !bytes.Equal(written, again) {
				t.Errorf("not the same twice (%v)", err)
			}
			config, err := clientcmd.Load(written)
			if err != nil {
				t.Fatal(err)
			}
			if len(config.Clusters) != 1 || len(config.AuthInfos) != 1 || len(config.Contexts) != 1 || config.CurrentContext != "edge" || config.Contexts["edge"].Cluster != "edge" {
				t.Errorf("not minimal:\n%s", written)
			}
			back, err := edge(Entry{Kubeconfig: string(written)}).StoredCredential()
			if err != nil {
				t.Fatal(err)
			}
			if !sameStored(back, got) {
				t.Errorf("the kubeconfig says\n%s\nnot\n%s", told(back), told(got))
			}
		})
	}
}

func sameStored(a, b Stored) bool { return told(a) == told(b) }

// told is a connection as text, in which white space around a PEM bundle makes no difference.
func told(s Stored) string {
	return fmt.Sprintf("%s %q insecure=%t name=%q proxy=%q plain=%t token=%q %q %q %s",
		s.Server, bytes.TrimSpace(s.CAData), s.Insecure, s.TLSServerName, s.ProxyURL, s.DisableCompression, s.Token, s.CertData, s.KeyData, moment(s.Expires))
}

// The server and its trust go with another credential, whatever the entry's own is, and whether or not that works.
func TestStoredConnection(t *testing.T) {
	ca := newAuthority(t, "test-ca")
	past, pastKey := ca.issue(t, "me", -2*time.Hour, -time.Hour)
	path := writeFile(t, filepath.Join(t.TempDir(), "ca.pem"), string(ca.pem), 0o600)
	want := Stored{Server: "https://api.example.com:6443", CAData: ca.pem, TLSServerName: "kube"}
	cluster := goodServer + ", tls-server-name: kube, certificate-authority-data: " + inBase64Of(ca.pem)
	for name, entry := range map[string]Entry{
		"exec":          {Kubeconfig: kubeconfigWith(cluster, "exec: {apiVersion: client.authentication.k8s.io/v1, command: no-such-plugin-of-berth}")},
		"auth-provider": {Kubeconfig: kubeconfigWith(cluster, "auth-provider: {name: gcp}")},
		"token file":    {Kubeconfig: kubeconfigWith(cluster, "tokenFile: /no/such/file")},
		"ended JWT":     {Kubeconfig: kubeconfigWith(cluster, "token: "+newJWT(t, time.Now().Add(-time.Hour)))},
		"ended":         {Kubeconfig: kubeconfigWith(cluster, "client-certificate-data: "+inBase64Of(past)+", client-key-data: "+inBase64Of(pastKey))},
		"impersonation": {Kubeconfig: kubeconfigWith(cluster, "token: "+canary+", as: admin")},
		"none":          {Kubeconfig: kubeconfigWith(cluster, "")},
		"CA in a file":  {Kubeconfig: kubeconfigWith(goodServer+", tls-server-name: kube, certificate-authority: "+path, "token: "+canary)},
		"host":          {Host: "api.example.com:6443", TLSServerName: "kube", ClusterCACertificate: string(ca.pem), Token: canary},
	} {
		got, err := edge(entry).StoredConnection()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !sameStored(got, want) {
			t.Errorf("%s: got  %s\nwant %s", name, told(got), told(want))
		}
		if _, err := got.Kubeconfig("edge"); err == nil || !strings.Contains(err.Error(), "host needs a credential") {
			t.Errorf("%s: a kubeconfig without a credential: %v", name, err)
		}
		got.Token = canary
		if _, err := got.Kubeconfig("edge"); err != nil {
			t.Errorf("%s: with a token: %v", name, err)
		}
	}
	_, err := edge(Entry{Kubeconfig: kubeconfigWith(goodServer+", certificate-authority: /no/such/file", "token: "+canary)}).StoredConnection()
	if err == nil || !strings.Contains(err.Error(), "certificate-authority file does not exist") {
		t.Errorf("a CA that is not there: %v", err)
	}
}

// A cluster that is made to try a connection has its settings, and may dial no more than the one it stands for (I66).
func TestStoredCluster(t *testing.T) {
	here := newLoopback(t)
	_, resolver := newDNS(t, addresses("127.0.0.1"))
	stored := Stored{Server: "https://edge.berth-test.example:" + here.port, Insecure: true, Token: canary, DisableCompression: true}
	like := publicCluster(stored.Server, resolver, publicOnly)
	like.settings.Owner = "team"
	tried, err := stored.Cluster("edge", like)
	if err != nil {
		t.Fatal(err)
	}
	if tried.Owner() != "team" || tried.Server() != stored.Server || !tried.config.DisableCompression || tried.config.BearerToken != canary {
		t.Errorf("owner %q, server %q, %v", tried.Owner(), tried.Server(), tried.config)
	}
	requireRefused(t, errorOf(tried.UID(t.Context())), "cluster", noPublicAddress)
	if n := here.accepted.Load(); n != 0 {
		t.Errorf("%d connections to this machine", n)
	}
	for want, broken := range map[string]Stored{
		"host needs a credential": {Server: stored.Server}, "uses http": {Server: "http://a", Token: canary},
		"host is not the address of an API server": {Token: canary, Server: "https://"},
	} {
		if _, err := broken.Cluster("edge", publicCluster(stored.Server, nil, nil)); err == nil {
			t.Errorf("%s: accepted", want)
		} else {
			requireText(t, err.Error(), want, `clusters["edge"]`)
		}
	}
}

// What somebody else stored may have a token beside a certificate (I24, I100): both are sent, both are in a kubeconfig of it,
// and one of them may have ended, since the API server takes the other. An entry of ours has one.
func TestStoredWithBoth(t *testing.T) {
	ca := newAuthority(t, "test-ca")
	good, goodKey := ca.issue(t, "me", -time.Hour, lasting)
	ended, endedKey := ca.issue(t, "me", -2*time.Hour, -time.Hour)
	past := newJWT(t, time.Now().Add(-time.Hour))
	like := edge(Entry{Host: "a", Token: canary})
	both := func(token string, certificate, key []byte) Stored {
		return Stored{Server: "https://api.example.com:6443", CAData: ca.pem, Token: token, CertData: certificate, KeyData: key}
	}
	for name, stored := range map[string]Stored{
		"both good": both(canary, good, goodKey), "an ended token": both(past, good, goodKey), "an ended certificate": both(canary, ended, endedKey),
	} {
		tried, err := stored.Cluster("edge", like)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if config := tried.config; config.BearerToken != stored.Token || !bytes.Equal(config.CertData, stored.CertData) || !bytes.Equal(config.KeyData, stored.KeyData) {
			t.Errorf("%s: it is tried with another credential", name)
		}
		written, err := stored.Kubeconfig("edge")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(written)
		if err != nil || config.BearerToken != stored.Token || !bytes.Equal(config.CertData, stored.CertData) || !bytes.Equal(config.KeyData, stored.KeyData) {
			t.Errorf("%s: the kubeconfig has another credential: %v", name, err)
		}
		if _, _, err := (Entry{Kubeconfig: string(written)}).RESTConfig("edge"); err == nil || !strings.Contains(err.Error(), "more than one credential") {
			t.Errorf("%s: as an entry: %v", name, err)
		}
	}
	// What is wrong with one of them is wrong for client-go, too.
	for want, stored := range map[string]Stored{
		"not a bearer token": both("a "+canary, good, goodKey), "does not belong to the key": both(canary, good, endedKey), "certificate is not PEM": both(canary, []byte("C"), goodKey),
	} {
		if _, err := stored.Cluster("edge", like); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// No content of a kubeconfig makes it panic, a refusal is a *Problem, and what is stored is a kubeconfig of one context
// that leads to the same place as the entry itself.
func FuzzStoredCredential(f *testing.F) {
	for _, user := range []string{"token: abc", "tokenFile: /x", "exec: {command: x}", "as: a, token: b", "client-certificate: /x", "client-key-data: eA==", "auth-provider: {}", "token: ya29.x", "exec: null, token: a.e30.c"} {
		f.Add(kubeconfigWith(goodServer, user))
		f.Add(kubeconfigWith("server: 'https://[::1]:1', proxy-url: 'socks5://a:1', certificate-authority: x", user))
	}
	f.Add("{}")
	f.Fuzz(func(t *testing.T, content string) {
		c := edge(Entry{Kubeconfig: content})
		stored, err := c.StoredCredential()
		if err != nil {
			if _, ok := errors.AsType[*Problem](err); !ok {
				t.Errorf("%T %v", err, err)
			}
			return
		}
		written, err := stored.Kubeconfig("edge")
		if err != nil {
			t.Fatalf("it cannot be written: %v", err)
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(written)
		if err != nil {
			t.Fatal(err)
		}
		direct, _, err := Entry{Kubeconfig: content}.RESTConfig("edge")
		if err != nil {
			t.Fatalf("it is stored, but not usable: %v", err)
		}
		if config.Host != direct.Host || config.BearerToken != direct.BearerToken || config.ServerName != direct.ServerName || config.Insecure != direct.Insecure ||
			!bytes.Equal(config.CertData, direct.CertData) || !bytes.Equal(config.KeyData, direct.KeyData) || config.ExecProvider != nil || config.Impersonate.UserName != "" {
			t.Errorf("it leads elsewhere:\n%s", written)
		}
		if _, err := rest.HTTPClientFor(config); err != nil {
			t.Errorf("client-go does not take it: %v", err)
		}
	})
}
