package cluster

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigWith is a kubeconfig whose context "eu" has the given cluster and user, in YAML flow style.
func kubeconfigWith(cluster, user string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: eu
contexts:
- {name: eu, context: {cluster: c, user: u, namespace: apps}}
- {name: us-east, context: {cluster: c, user: u}}
- {name: dangling-cluster, context: {cluster: cc, user: u}}
- {name: dangling-user, context: {cluster: c, user: uu}}
- {name: no-user, context: {cluster: c}}
- {name: twice, context: {cluster: c, user: u}}
- {name: twice, context: {cluster: c, user: other}}
clusters:
- {name: c, cluster: {%s}}
users:
- {name: u, user: {%s}}
- {name: other, user: {unknown-to-us: ignored}}
`, cluster, user)
}

const goodServer = "server: 'https://api.example.com:6443'"

func inBase64Of(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

func writeFile(t *testing.T, path, content string, mode os.FileMode) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestKubeconfigContentErrors covers every way in which a kubeconfig can be wrong that does not need a file.
func TestKubeconfigContentErrors(t *testing.T) {
	ca := newAuthority(t, "test-ca")
	certificate, key := ca.issue(t, "me", -time.Hour, time.Hour)
	_, otherKey := ca.issue(t, "me", -time.Hour, time.Hour)
	past, pastKey := ca.issue(t, "me", -2*time.Hour, -time.Hour)
	future, futureKey := ca.issue(t, "me", time.Hour, 2*time.Hour)
	pair := func(certificate, key []byte) string {
		return "client-certificate-data: " + inBase64Of(certificate) + ", client-key-data: " + inBase64Of(key)
	}
	token := "token: " + canary
	expired := time.Now().Add(-time.Hour).Truncate(time.Second)
	plugin := func(more string) string {
		return "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: IfAvailable, " + more + "}"
	}

	for name, test := range map[string]struct {
		content string
		context string
		want    []string
	}{
		"not YAML":          {"a: [" + canary, "", []string{"is not YAML", "line 1", "Correct it"}},
		"odd anchor":        {"a: *" + canary, "", []string{"is not YAML", "unknown anchor"}},
		"base64":            {inBase64Of([]byte(kubeconfigWith(goodServer, token))), "", []string{"is in base64", "base64decode(...)"}},
		"a path":            {"~/.kube/config", "", []string{"is a path, not content", "kubeconfig_path"}},
		"a word":            {canary, "", []string{"not a kubeconfig", "not a mapping"}},
		"another kind":      {"apiVersion: v1\nkind: Secret\ndata: {kubeconfig: " + canary + "}", "", []string{"this is not a kubeconfig", `kind "Secret"`}},
		"nothing in it":     {"foo: bar", "", []string{"no clusters, users and contexts"}},
		"clusters no list":  {"clusters: " + canary, "", []string{"malformed", `"clusters"`}},
		"no such context":   {kubeconfigWith(goodServer, token), "us-esat", []string{"no such context", `"us-esat"`, `contexts: "us-east", "`, "Set context"}},
		"X1 no current":     {strings.Replace(kubeconfigWith(goodServer, token), "current-context: eu", "", 1), "", []string{"no current-context", `"us-east"`, "Set context to one of them"}},
		"dangling cluster":  {kubeconfigWith(goodServer, token), "dangling-cluster", []string{"cluster that is missing", `"cc"`, `Its clusters: "c"`}},
		"dangling user":     {kubeconfigWith(goodServer, token), "dangling-user", []string{"user that is missing", `"uu"`, `Its users: "u", "other"`}},
		"no user":           {kubeconfigWith(goodServer, token), "no-user", []string{"names no user", `"no-user"`, "Add user"}},
		"two of a name":     {kubeconfigWith(goodServer, token), "twice", []string{"two entries with one name", `2 contexts named "twice"`}},
		"misspelt field":    {kubeconfigWith(goodServer+", certificate-authority-date: "+canary, token), "", []string{"malformed", `"certificate-authority-date"`, `cluster "c"`}},
		"wrong type":        {kubeconfigWith(goodServer+", insecure-skip-tls-verify: '"+canary+"'", token), "", []string{"malformed", `"insecure-skip-tls-verify" has a value of the wrong type`}},
		"no server":         {kubeconfigWith("", token), "", []string{"has no server", "default host", "https URL"}},
		"server no URL":     {kubeconfigWith("server: 'https//x'", token), "", []string{`"https//x"`, "neither an https URL nor host:port"}},
		"server http":       {kubeconfigWith("server: 'http://me:"+canary+"@x'", token), "", []string{`"http://***@x"`, "clear text"}},
		"proxy":             {kubeconfigWith(goodServer+", proxy-url: 'ftp://u:"+canary+"@p'", token), "", []string{"the proxy is not a URL", `"ftp://***@p"`, "socks5"}},
		"CA not base64":     {kubeconfigWith(goodServer+", certificate-authority-data: '"+canary+"!'", token), "", []string{"is not base64", `cluster "c"`}},
		"CA not PEM":        {kubeconfigWith(goodServer+", certificate-authority-data: "+inBase64Of([]byte(canary)), token), "", []string{"CA is not a PEM certificate", `cluster "c"`, "once in base64"}},
		"CA base64 twice":   {kubeconfigWith(goodServer+", certificate-authority-data: "+inBase64Of([]byte(inBase64Of(ca.pem))), token), "", []string{"base64 twice"}},
		"CA relative":       {kubeconfigWith(goodServer+", certificate-authority: ca.pem", token), "", []string{"relative path", `"ca.pem"`, "--flatten", "kubeconfig_path"}},
		"CA and insecure":   {kubeconfigWith(goodServer+", insecure-skip-tls-verify: true, certificate-authority-data: "+inBase64Of(ca.pem), token), "", []string{"exclude each other", "Remove insecure-skip-tls-verify"}},
		"token and cert":    {kubeconfigWith(goodServer, token+", "+pair(certificate, key)), "", []string{"more than one credential", "a token and a client certificate", `User "u"`, "Keep one"}},
		"token and exec":    {kubeconfigWith(goodServer, token+", "+plugin("command: sh")), "", []string{"more than one credential", "a token and an exec plugin"}},
		"cert and exec":     {kubeconfigWith(goodServer, pair(certificate, key)+", "+plugin("command: sh")), "", []string{"a client certificate and an exec plugin"}},
		"no credential":     {kubeconfigWith(goodServer, ""), "", []string{"user has no credential", "anonymous", "name another user"}},
		"auth-provider":     {kubeconfigWith(goodServer, "auth-provider: {name: gcp, config: {access-token: "+canary+"}}"), "", []string{"auth-provider is not supported", `"gcp"`, "1.26", "exec plugin"}},
		"basic auth":        {kubeconfigWith(goodServer, "username: me, password: "+canary), "", []string{"basic authentication is gone", "1.19"}},
		"tokenFile":         {kubeconfigWith(goodServer, "tokenFile: token"), "", []string{"relative path", "tokenFile"}},
		"token of lines":    {kubeconfigWith(goodServer, "token: 'a "+canary+"'"), "", []string{"not a bearer token", `user "u"`}},
		"expired JWT":       {kubeconfigWith(goodServer, "token: "+newJWT(t, expired)), "", []string{"the token has expired", "expired at " + moment(expired), "use exec"}},
		"expired EKS token": {kubeconfigWith(goodServer, "token: "+newEKSToken(expired)), "", []string{"the token has expired", "expired at " + moment(expired.Add(15*time.Minute))}},
		"no key":            {kubeconfigWith(goodServer, "client-certificate-data: "+inBase64Of(certificate)), "", []string{"half a client certificate", "no client-key"}},
		"no certificate":    {kubeconfigWith(goodServer, "client-key-data: "+inBase64Of(key)), "", []string{"half a client certificate", "no client-certificate"}},
		"cert not PEM":      {kubeconfigWith(goodServer, pair([]byte(canary), key)), "", []string{"client certificate is not PEM", "client-certificate-data"}},
		"key not PEM":       {kubeconfigWith(goodServer, pair(certificate, []byte(canary))), "", []string{"client key cannot be used", "is not PEM with a private key"}},
		"key encrypted":     {kubeconfigWith(goodServer, pair(certificate, bytes.ReplaceAll(key, []byte("PRIVATE KEY"), []byte("ENCRYPTED PRIVATE KEY")))), "", []string{"encrypted with a passphrase"}},
		"key of another":    {kubeconfigWith(goodServer, pair(certificate, otherKey)), "", []string{"does not belong to the key", "different pairs"}},
		"cert expired":      {kubeconfigWith(goodServer, pair(past, pastKey)), "", []string{"client certificate has expired", "expired at 2", "renewed"}},
		"cert not yet":      {kubeconfigWith(goodServer, pair(future, futureKey)), "", []string{"not valid yet", "valid from 2", "clock"}},
		"exec missing": {
			kubeconfigWith(goodServer, plugin("command: no-such-plugin-of-berth, installHint: 'brew install it', env: [{name: K, value: "+canary+"}]")), "",
			[]string{"not on the PATH", `"no-such-plugin-of-berth"`, "brew install it"},
		},
		"exec missing path": {kubeconfigWith(goodServer, plugin("command: /no/such/plugin")), "", []string{"cannot be run", `"/no/such/plugin"`, "correct the path"}},
		"exec relative":     {kubeconfigWith(goodServer, plugin("command: ./plugin")), "", []string{"relative path", `"./plugin"`}},
		"exec alpha":        {kubeconfigWith(goodServer, "exec: {command: sh, apiVersion: client.authentication.k8s.io/v1alpha1}"), "", []string{"unknown apiVersion", "removed in Kubernetes 1.24", execAPIVersions[0]}},
		"exec version":      {kubeconfigWith(goodServer, "exec: {command: sh, apiVersion: v7}"), "", []string{"unknown apiVersion", `"v7"`}},
		"exec interactive":  {kubeconfigWith(goodServer, "exec: {command: sh, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Always}"), "", []string{"wants to ask questions", "interactiveMode Always"}},
	} {
		t.Run(name, func(t *testing.T) {
			config, _, err := Entry{Kubeconfig: test.content, Context: test.context}.RESTConfig("eu-1")
			if err == nil {
				t.Fatalf("accepted as %s", config.Host)
			}
			requireText(t, err.Error(), append(test.want, `clusters["eu-1"]: `)...)
			if strings.Contains(err.Error(), inBase64Of(key)[40:80]) || strings.Contains(err.Error(), inBase64Of(certificate)[40:80]) {
				t.Errorf("the message shows key or certificate data:\n%s", err)
			}
			var problem *Problem
			if !errors.As(err, &problem) || problem.Attribute == "" {
				t.Errorf("not a *Problem with an attribute: %#v", err)
			}
		})
	}
}

func TestKubeconfigFileErrors(t *testing.T) {
	folder := t.TempDir()
	good := kubeconfigWith(goodServer, "token: "+canary)
	file := func(name, content string) string { return writeFile(t, filepath.Join(folder, name), content, 0o600) }
	file("blank", " \n")
	empty := file("empty", "")
	writeFile(t, filepath.Join(folder, "ca.txt"), canary, 0o600)
	writeFile(t, filepath.Join(folder, "token"), canary, 0o600)
	loop := filepath.Join(folder, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}

	for name, test := range map[string]struct {
		path string
		want []string
	}{
		"missing":           {filepath.Join(folder, "none"), []string{"file does not exist", filepath.Join(folder, "none"), "correct the path"}},
		"a list":            {empty + ":" + empty, []string{"does not exist", "is not a list"}},
		"a directory":       {folder, []string{"is a directory", folder, "Name the file in it"}},
		"unreadable":        {loop, []string{"cannot be read", loop}},
		"empty":             {empty, []string{"file is empty", empty}},
		"content":           {good, []string{"holds a kubeconfig, not a path", "Set kubeconfig to it"}},
		"no such context":   {file("good", strings.ReplaceAll(good, "name: eu,", "name: eu-1,")), []string{"no such context", filepath.Join(folder, "good"), `contexts: "eu-1"`}},
		"CA missing":        {file("a", kubeconfigWith(goodServer+", certificate-authority: none.pem", "token: "+canary)), []string{"certificate-authority file does not exist", filepath.Join(folder, "none.pem"), "put the content into the kubeconfig"}},
		"CA not PEM":        {file("b", kubeconfigWith(goodServer+", certificate-authority: ca.txt", "token: "+canary)), []string{"CA is not a PEM certificate", filepath.Join(folder, "ca.txt")}},
		"two tokens":        {file("c", kubeconfigWith(goodServer, "token: other, tokenFile: token")), []string{"the user has two tokens", filepath.Join(folder, "token"), "Keep one"}},
		"token file empty":  {file("d", kubeconfigWith(goodServer, "tokenFile: blank")), []string{"token file is empty", filepath.Join(folder, "blank")}},
		"cert file missing": {file("e", kubeconfigWith(goodServer, "client-certificate: none.crt, client-key: none.key")), []string{"client-certificate file does not exist", filepath.Join(folder, "none.crt")}},
		"plugin missing":    {file("f", kubeconfigWith(goodServer, "exec: {apiVersion: client.authentication.k8s.io/v1, command: bin/plugin}")), []string{"cannot be run", filepath.Join(folder, "bin/plugin")}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Entry{KubeconfigPath: test.path, Context: "eu"}.RESTConfig("eu-1")
			if err == nil {
				t.Fatal("accepted")
			}
			requireText(t, err.Error(), append(test.want, `clusters["eu-1"]: `)...)
		})
	}
	if reason, remedy := fileTrouble(empty, os.ErrPermission); reason != "cannot be read: permission denied" || !strings.Contains(remedy, "user that runs the apply") {
		t.Errorf("permission denied reads %q, %q", reason, remedy)
	}
}

// TestNothingAmbient is X1: neither KUBECONFIG, nor the service account of a pod, nor a file's current-context counts.
func TestNothingAmbient(t *testing.T) {
	folder := t.TempDir()
	path := writeFile(t, filepath.Join(folder, "config"), kubeconfigWith(goodServer, "token: "+canary), 0o600)
	t.Setenv("KUBECONFIG", path)
	t.Setenv("KUBERNETES_MASTER", "https://ambient.example.com")
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	for _, entry := range []Entry{{}, {KubeconfigPath: path}, {Kubeconfig: "apiVersion: v1\nkind: Config\n"}, {Kubeconfig: kubeconfigWith("", "token: t")}} {
		if config, _, err := entry.RESTConfig("eu-1"); err == nil {
			t.Errorf("%+v led to %s", entry, config.Host)
		}
	}
}

func TestRESTConfig(t *testing.T) {
	ca := newAuthority(t, "test-ca")
	certificate, key := ca.issue(t, "me", -time.Hour, time.Hour)
	home := t.TempDir()
	t.Setenv("HOME", home)
	for name, content := range map[string]string{"ca.pem": string(ca.pem), "me.crt": string(certificate), "me.key": string(key), "token": canary + "\n"} {
		writeFile(t, filepath.Join(home, name), content, 0o600)
	}
	writeFile(t, filepath.Join(home, "plugin"), "#!/bin/sh\n", 0o700)
	atHome := func(name, cluster, user string) Entry {
		writeFile(t, filepath.Join(home, name), kubeconfigWith(goodServer+", "+cluster, user), 0o600)
		return Entry{KubeconfigPath: "~/" + name, Context: "us-east"}
	}

	for name, test := range map[string]struct {
		entry   Entry
		context string
		check   func(*rest.Config) bool
	}{
		"content by its current-context": {Entry{Kubeconfig: kubeconfigWith(goodServer, "token: "+canary)}, "eu", func(c *rest.Config) bool {
			return c.Host == "https://api.example.com:6443" && c.BearerToken == canary
		}},
		"files beside the kubeconfig": {atHome("a", "certificate-authority: ca.pem, tls-server-name: kube", "client-certificate: me.crt, client-key: me.key"), "us-east", func(c *rest.Config) bool {
			return bytes.Equal(c.CAData, ca.pem) && bytes.Equal(c.CertData, certificate) && bytes.Equal(c.KeyData, key) && c.ServerName == "kube"
		}},
		"token file is read again": {atHome("b", "disable-compression: true", "tokenFile: token, as: someone"), "us-east", func(c *rest.Config) bool {
			return c.BearerTokenFile == filepath.Join(home, "token") && c.BearerToken == canary && c.DisableCompression && c.Impersonate.UserName == "someone"
		}},
		"plugin beside the kubeconfig": {atHome("c", "extensions: [{name: client.authentication.k8s.io/exec, extension: {audience: x}}]",
			"exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: ./plugin, provideClusterInfo: true}"), "us-east", func(c *rest.Config) bool {
			config, err := rest.ConfigToExecCluster(c)
			return pluginOf(c).Command == filepath.Join(home, "plugin") && err == nil && config.Config != nil &&
				c.ExecProvider.InteractiveMode == clientcmdapi.NeverExecInteractiveMode && c.ExecProvider.ProvideClusterInfo
		}},
		"host": {Entry{Host: "10.0.0.1:6443", Token: canary + "\n", ClusterCACertificate: inBase64Of(ca.pem), TLSServerName: "kube", ProxyURL: "http://u:p@proxy:1"}, "", func(c *rest.Config) bool {
			return c.Host == "https://10.0.0.1:6443" && c.BearerToken == canary && bytes.Equal(c.CAData, ca.pem) && c.ServerName == "kube" && proxyOf(c).Host == "proxy:1"
		}},
		"host with plugin": {Entry{Host: "a", Insecure: true, Exec: &Exec{APIVersion: execAPIVersions[0], Command: "sh", Args: []string{"-c"}, Env: map[string]string{"B": "2", "A": "1"}}}, "", func(c *rest.Config) bool {
			return c.Insecure && c.ExecProvider.Env[0] == clientcmdapi.ExecEnvVar{Name: "A", Value: "1"} && slices.Equal(pluginOf(c).Args, []string{"-c"}) && pluginOf(c).Command == "sh"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			config, context, err := test.entry.RESTConfig("eu-1")
			if err != nil {
				t.Fatal(err)
			}
			if context != test.context || config.QPS != -1 || !test.check(config) {
				t.Errorf("context %q, config %v", context, config)
			}
			if _, err := rest.HTTPClientFor(config); err != nil {
				t.Errorf("client-go does not take it: %v", err)
			}
		})
	}
}

// TestMinimizeKubeconfig is I104: one cluster, one user, one context, everything in it, the same bytes every time.
func TestMinimizeKubeconfig(t *testing.T) {
	ca := newAuthority(t, "test-ca")
	path := writeFile(t, filepath.Join(t.TempDir(), "ca.pem"), string(ca.pem), 0o600)
	expired := newJWT(t, time.Now().Add(-time.Hour))
	content := kubeconfigWith(goodServer+", certificate-authority: "+path+", extensions: [{name: minikube.sigs.k8s.io, extension: {x: y}}]", "token: "+expired)

	first, err := MinimizeKubeconfig(content, "us-east")
	if err != nil {
		t.Fatal(err)
	}
	again, err := MinimizeKubeconfig(content, "us-east")
	if err != nil || !bytes.Equal(first, again) {
		t.Fatalf("not the same twice (%v)", err)
	}
	config, err := clientcmd.Load(first)
	if err != nil {
		t.Fatal(err)
	}
	if len(config.Clusters) != 1 || len(config.AuthInfos) != 1 || len(config.Contexts) != 1 || config.CurrentContext != "us-east" {
		t.Errorf("not minimal:\n%s", first)
	}
	if cluster := config.Clusters["c"]; !bytes.Equal(cluster.CertificateAuthorityData, ca.pem) || cluster.CertificateAuthority != "" || len(cluster.Extensions) != 0 {
		t.Errorf("the CA is not in it, or something else is:\n%s", first)
	}
	if config.AuthInfos["u"].Token != expired {
		t.Errorf("the token is not in it:\n%s", first)
	}
	if second, err := MinimizeKubeconfig(string(first), ""); err != nil || !bytes.Equal(first, second) {
		t.Errorf("minimizing what is minimal changes it: %v\n%s", err, second)
	}

	plugin := kubeconfigWith(goodServer+", extensions: [{name: client.authentication.k8s.io/exec, extension: {audience: x}}]",
		"exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Always, command: not-here, args: [a], env: [{name: A, value: b}]}")
	kept, err := MinimizeKubeconfig(plugin, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"command: not-here", "interactiveMode: Always", "value: b", "audience: x", "namespace: apps"} {
		if !strings.Contains(string(kept), want) {
			t.Errorf("lacks %q:\n%s", want, kept)
		}
	}

	_, err = MinimizeKubeconfig(kubeconfigWith(goodServer+", certificate-authority: ca.pem", "token: "+canary), "")
	if err == nil {
		t.Fatal("a relative path was accepted")
	}
	requireText(t, err.Error(), "kubeconfig: a relative path", `"ca.pem"`)
}

func TestBuildKubeconfig(t *testing.T) {
	ca := newAuthority(t, "test-ca")
	certificate, key := ca.issue(t, "me", -time.Hour, time.Hour)
	for name, entry := range map[string]Entry{
		"token":       {Host: "a:6443", ClusterCACertificate: inBase64Of(ca.pem), Token: canary, TLSServerName: "kube", ProxyURL: "http://proxy:1"},
		"certificate": {Host: "a:6443", Insecure: true, ClientCertificate: string(certificate), ClientKey: string(key)},
		"exec":        {Host: "a:6443", Exec: &Exec{APIVersion: execAPIVersions[0], Command: "sh", Args: []string{"x"}, Env: map[string]string{"A": "b", "C": "d"}}},
	} {
		t.Run(name, func(t *testing.T) {
			parts := KubeconfigParts{Name: "eu-1", Namespace: "apps", Entry: entry}
			built, err := BuildKubeconfig(parts)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := BuildKubeconfig(parts); err != nil || !bytes.Equal(built, again) {
				t.Errorf("not the same twice (%v)", err)
			}
			direct, _, err := entry.RESTConfig("eu-1")
			if err != nil {
				t.Fatal(err)
			}
			read, context, err := Entry{Kubeconfig: string(built)}.RESTConfig("eu-1")
			if err != nil {
				t.Fatalf("%v\n%s", err, built)
			}
			direct.Proxy, read.Proxy = nil, nil // functions do not compare
			want, _ := json.Marshal([]any{direct.Host, direct.BearerToken, direct.TLSClientConfig, direct.ExecProvider})
			got, _ := json.Marshal([]any{read.Host, read.BearerToken, read.TLSClientConfig, read.ExecProvider})
			if context != "eu-1" || !bytes.Equal(want, got) {
				t.Errorf("what was built leads elsewhere:\n%s\nwant %s\ngot  %s", built, want, got)
			}
		})
	}
	for name, parts := range map[string]KubeconfigParts{
		"needs a name":               {Entry: Entry{Host: "a", Token: canary}},
		"not built from another":     {Name: "a", Entry: Entry{Kubeconfig: canary}},
		"uses http":                  {Name: "a", Entry: Entry{Host: "http://a", Token: canary}},
		"does not belong to the key": {Name: "a", Entry: Entry{Host: "a", ClientCertificate: string(certificate), ClientKey: string(ca.keyPEM(t))}},
	} {
		_, err := BuildKubeconfig(parts)
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		requireText(t, err.Error(), name, "kubeconfig: ")
	}
}

func TestTokenExpiry(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	for token, want := range map[string]time.Time{newJWT(t, now): now, newEKSToken(now): now.Add(15 * time.Minute)} {
		if got, known := tokenExpiry(token); !known || !got.Equal(want) {
			t.Errorf("%s: %v %v", token, got, known)
		}
	}
	for _, token := range []string{"", "opaque", "a.b.c", "k8s-aws-v1.!", "k8s-aws-v1." + base64.RawURLEncoding.EncodeToString([]byte("https://x")), "eyJh.e30.x"} {
		if _, known := tokenExpiry(token); known {
			t.Errorf("%q has an expiry", token)
		}
	}
}
