package cluster

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
)

// canary stands for every credential in the tests: no message may ever hold it (X9).
const canary = "CANARY-d41d8cd98f00"

// requireText checks that a message names and advises what it should, and shows no credential.
func requireText(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, part := range want {
		if !strings.Contains(text, part) {
			t.Errorf("the message lacks %q:\n%s", part, text)
		}
	}
	if strings.Contains(text, canary) {
		t.Errorf("the message shows a credential:\n%s", text)
	}
}

func TestValidateEntry(t *testing.T) {
	ca := newAuthority(t, "test-ca")
	base := func(change func(*Entry)) Entry {
		entry := Entry{Host: "https://api.example.com:6443", Token: canary}
		change(&entry)
		return entry
	}
	for name, test := range map[string]struct {
		entry     Entry
		attribute string
		want      []string
	}{
		"nothing": {Entry{UID: "x"}, "", []string{"no connection", "KUBECONFIG", "Set exactly one"}},
		"blank":   {Entry{Kubeconfig: " \n", KubeconfigPath: "", Host: ""}, "", []string{"no connection", "empty string"}},
		"two connections": {
			Entry{Kubeconfig: canary, KubeconfigPath: "/x", Context: "x"},
			"kubeconfig_path",
			[]string{"more than one connection", "kubeconfig and kubeconfig_path", "Keep exactly one"},
		},
		"X1 path without context": {
			Entry{KubeconfigPath: "~/.kube/config"},
			"context",
			[]string{"kubeconfig_path needs a context", "current-context", `"~/.kube/config"`, "Set context"},
		},
		"token with kubeconfig": {Entry{Kubeconfig: "x: y", Token: canary}, "token", []string{"token does not go with kubeconfig", "host instead"}},
		"exec with path":        {Entry{KubeconfigPath: "/x", Context: "x", Exec: &Exec{}}, "exec", []string{"exec does not go with kubeconfig_path"}},
		"context with host":     {base(func(e *Entry) { e.Context = "x" }), "context", []string{"context does not go with host", "Remove context"}},
		"http":                  {base(func(e *Entry) { e.Host = "http://127.0.0.1:8001" }), "host", []string{`"http://127.0.0.1:8001" uses http`, "clear text", "https URL"}},
		"other scheme":          {base(func(e *Entry) { e.Host = "ftp://x" }), "host", []string{"scheme other than https"}},
		"no URL":                {base(func(e *Entry) { e.Host = "https//api.example.com" }), "host", []string{"neither an https URL nor host:port"}},
		"space in host":         {base(func(e *Entry) { e.Host = "https://api example" }), "host", []string{"neither an https URL nor host:port"}},
		"port":                  {base(func(e *Entry) { e.Host = "api.example.com:70000" }), "host", []string{"port outside 1 to 65535"}},
		"user in host":          {base(func(e *Entry) { e.Host = "https://me:" + canary + "@api.example.com" }), "host", []string{"***@api.example.com", "has a user name"}},
		"query in host":         {base(func(e *Entry) { e.Host = "https://api.example.com/?token=" + canary }), "host", []string{"query or a fragment"}},
		"insecure with CA": {
			base(func(e *Entry) { e.Insecure, e.ClusterCACertificate = true, string(ca.pem) }), "insecure",
			[]string{"exclude each other", "Remove insecure"},
		},
		"CA is text": {base(func(e *Entry) { e.ClusterCACertificate = canary + "!" }), "cluster_ca_certificate", []string{"neither PEM nor base64", "-----BEGIN CERTIFICATE-----"}},
		"CA is base64 of text": {
			base(func(e *Entry) { e.ClusterCACertificate = base64.StdEncoding.EncodeToString([]byte(canary)) }), "cluster_ca_certificate",
			[]string{"is not PEM"},
		},
		"CA is base64 twice": {base(func(e *Entry) {
			e.ClusterCACertificate = base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString(ca.pem)))
		}), "cluster_ca_certificate", []string{"in base64 twice"}},
		"CA is a key":        {base(func(e *Entry) { e.ClusterCACertificate = string(ca.keyPEM(t)) }), "cluster_ca_certificate", []string{`type "PRIVATE KEY"`, "not CERTIFICATE"}},
		"proxy scheme":       {base(func(e *Entry) { e.ProxyURL = "ftp://u:" + canary + "@proxy" }), "proxy_url", []string{`"ftp://***@proxy"`, "http, https or socks5"}},
		"proxy unparseable":  {base(func(e *Entry) { e.ProxyURL = "http://u:" + canary + "%zz@proxy:x" }), "proxy_url", []string{"is not a URL"}},
		"no credential":      {Entry{Host: "api.example.com"}, "host", []string{"host needs a credential", "token, client_certificate with client_key, and exec"}},
		"two credentials":    {base(func(e *Entry) { e.Exec = &Exec{Command: "x", APIVersion: execAPIVersions[0]} }), "exec", []string{"more than one credential", "token and exec"}},
		"no key":             {Entry{Host: "a", ClientCertificate: canary}, "client_key", []string{"client_certificate needs client_key"}},
		"no certificate":     {Entry{Host: "a", ClientKey: canary}, "client_certificate", []string{"client_key needs client_certificate"}},
		"token with Bearer":  {base(func(e *Entry) { e.Token = "Bearer " + canary }), "token", []string{"not a bearer token", `without "Bearer "`}},
		"no command":         {Entry{Host: "a", Exec: &Exec{APIVersion: execAPIVersions[1]}}, "exec.command", []string{"exec needs a command"}},
		"exec api_version":   {Entry{Host: "a", Exec: &Exec{Command: "x", APIVersion: "v1"}}, "exec.api_version", []string{`"v1" is not supported`, execAPIVersions[0] + " or " + execAPIVersions[1]}},
		"exec variable name": {Entry{Host: "a", Exec: &Exec{Command: "x", APIVersion: execAPIVersions[0], Env: map[string]string{"A=B": canary}}}, "exec.env", []string{`"A=B"`}},
	} {
		t.Run(name, func(t *testing.T) {
			problems := test.entry.Validate()
			index := slices.IndexFunc(problems, func(p Problem) bool { return p.Attribute == test.attribute })
			if index < 0 {
				t.Fatalf("no problem with %q in %+v", test.attribute, problems)
			}
			if len(problems) != 1 {
				t.Errorf("one mistake gave %d problems: %+v", len(problems), problems)
			}
			requireText(t, problems[index].Error(), test.want...)
			if _, _, err := test.entry.RESTConfig("eu-1"); err == nil || !strings.Contains(err.Error(), `clusters["eu-1"]: `+problems[index].Summary) {
				t.Errorf("RESTConfig does not refuse it by name: %v", err)
			}
		})
	}
}

func TestValidEntries(t *testing.T) {
	ca := newAuthority(t, "test-ca")
	for name, entry := range map[string]Entry{
		"content":       {Kubeconfig: "apiVersion: v1"},
		"path":          {KubeconfigPath: "~/.kube/config", Context: "hub"},
		"host and port": {Host: "203.0.113.10:6443", Token: "t"},
		"address":       {Host: "203.0.113.10", Token: "t"},
		"IPv6":          {Host: "[2001:db8::1]:6443", Token: "t"},
		"path in URL":   {Host: "https://rancher.example.com/k8s/clusters/c-1", Token: "t", ProxyURL: "socks5://u:p@127.0.0.1:1080"},
		"CA in base64":  {Host: "a", Token: "t", ClusterCACertificate: base64.StdEncoding.EncodeToString(ca.pem)},
		"insecure SNI":  {Host: "a", Insecure: true, TLSServerName: "b", Exec: &Exec{Command: "x", APIVersion: execAPIVersions[1]}},
	} {
		if problems := entry.Validate(); len(problems) > 0 {
			t.Errorf("%s: %+v", name, problems)
		}
	}
}

func TestNearestNameComesFirst(t *testing.T) {
	if got := nearest("EU-1", []string{"us-1", "production", "eu-1"}); !slices.Equal(got, []string{"eu-1", "us-1", "production"}) {
		t.Errorf("got %v", got)
	}
}

func TestMaskURL(t *testing.T) {
	for raw, want := range map[string]string{
		"https://u:" + canary + "@h:1/p?q=" + canary + "#" + canary: "https://***@h:1/p",
		"http://u:p/" + canary + "@h":                               "http://***@h",
		"u:" + canary + "@h:1":                                      "***@h:1",
		"https://h:6443":                                            "https://h:6443",
	} {
		if got := maskURL(raw); got != want {
			t.Errorf("maskURL(%q) = %q, want %q", raw, got, want)
		}
	}
}
