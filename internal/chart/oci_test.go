package chart

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	images "github.com/google/go-containerregistry/pkg/registry"
	"helm.sh/helm/v3/pkg/registry"
)

// registryHandler is a real registry, in memory.
func registryHandler() http.Handler { return images.New(images.Logger(log.New(io.Discard, "", 0))) }

// push puts charts into a registry's folder "team/charts" as `helm push` does, and gives the last archive and the
// digest of its manifest.
func push(t testing.TB, server *httptest.Server, name string, versions ...string) (archive []byte, manifest string) {
	t.Helper()
	options := []registry.ClientOption{registry.ClientOptHTTPClient(server.Client())}
	if server.TLS == nil {
		options = append(options, registry.ClientOptPlainHTTP())
	}
	client, err := registry.NewClient(options...)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		archive = pack(t, name, chartFiles(name, version))
		pushed, err := client.Push(archive, hostOf(server)+"/team/charts/"+name+":"+version)
		if err != nil {
			t.Fatal(err)
		}
		manifest = pushed.Manifest.Digest
	}
	return archive, manifest
}

func hostOf(server *httptest.Server) string { return server.Listener.Addr().String() }

// guarded is a handler behind basic authentication.
func guarded(inner http.Handler, username, password string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, _ := r.BasicAuth(); u != username || p != password {
			w.Header().Set("Www-Authenticate", `Basic realm="charts"`)
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED","message":"wrong: `+p+`"}]}`)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

func TestLoadFromRegistry(t *testing.T) {
	for name, start := range map[string]func(*httptest.Server){"plain HTTP on loopback": plain, "TLS": secure} {
		t.Run(name, func(t *testing.T) {
			server, counted := serve(t, registryHandler(), start)
			archive, manifest := push(t, server, "demo", "1.0.0", "1.2.3+build.7")
			s := source(t, func(settings *Settings) {
				settings.UserAgent = "berth/test"
				if server.TLS != nil {
					settings.Credentials = map[string]Credential{"oci://" + hostOf(server): {CACertificate: certificate(server)}}
				}
			})
			before := counted.count()
			// The tag of a version with a + is written with _.
			ref := Ref{Repository: "oci://" + hostOf(server) + "/team/charts", Name: "demo", Version: "1.2.3+build.7"}
			got := load(t, s, ref)
			if got.Metadata.Version != "1.2.3+build.7" || got.Digest != digestOf(archive) {
				t.Errorf("loaded %s %s", got.Metadata.Version, got.Digest)
			}
			for _, agent := range counted.header("User-Agent")[before:] {
				if agent != "berth/test" && agent != "Go-http-client/1.1" { // the latter asks whether there is TLS
					t.Errorf("a request came from %q", agent)
				}
			}
			ref.Digest = manifest
			wants(t, failure(t, s, ref), "chart.digest", `Chart "demo": its digest is that of the manifest`, "is "+digestOf(archive), "`helm push`", "set chart.digest to the latter")
			ref.Digest = "sha256:" + strings.Repeat("0", 64)
			wants(t, failure(t, s, ref), "chart.digest", `Chart "demo": its digest is another than chart.digest`, ref.Digest, digestOf(archive))
		})
	}
}

func TestNotInRegistry(t *testing.T) {
	server, _ := serve(t, registryHandler(), plain)
	push(t, server, "demo", "1.0.0", "1.1.0", "1.2.0", "1.2.2", "1.2.4+k3s1", "2.0.0")
	s := source(t, nil)
	folder := "oci://" + hostOf(server) + "/team/charts"
	wants(t, failure(t, s, demo(folder)), "chart.version", `Chart "demo": version 1.2.3 is not in its repository`,
		`"`+folder+`/demo" has 6 versions of this chart. The nearest: "2.0.0", "1.2.4+k3s1", "1.2.2", "1.2.0", "1.1.0".`)
	wants(t, failure(t, s, Ref{Repository: folder, Name: "other", Version: "1.0.0"}), "chart.name", `Chart "other": it is not in its registry`,
		`There is no "`+folder+`/other".`, "Correct chart.repository, which is the folder that the chart is in")
	wants(t, failure(t, s, Ref{Repository: folder, Name: "Demo", Version: "1.0.0"}), "chart.repository", `Chart "Demo": there can be no such chart in an OCI registry`, "lower-case")
	unwritten(t, s)
}

func TestRegistryCredentials(t *testing.T) {
	inner := registryHandler()
	open, _ := serve(t, inner, plain)
	push(t, open, "demo", "1.2.3")
	server, _ := serve(t, guarded(inner, "me", secret), plain)
	folder := "oci://" + hostOf(server) + "/team/charts"
	with := func(credential Credential) *Source {
		return source(t, func(settings *Settings) { settings.Credentials = map[string]Credential{folder: credential} })
	}
	load(t, with(Credential{Username: "me", Password: secret}), demo(folder))
	who := `Chart repository "` + folder + `": `
	wants(t, failure(t, source(t, nil), demo(folder)), "chart.repository", who+"access is denied (401)", "have nothing for", "Set username and password, or token", "Some also answer so where the chart does not exist")
	wants(t, failure(t, with(Credential{Username: "you", Password: secret}), demo(folder)), "chart.repository", who+"access is denied (401)", "to the credential that the provider's charts.credentials have")
	wants(t, failure(t, with(Credential{Token: secret}), demo(folder)), "chart.repository", who+"it wants a user name and a password", "takes basic authentication")

	// A bearer token, as the registry's token service would give one.
	bearer, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+secret {
			w.Header().Set("Www-Authenticate", `Bearer realm="http://`+r.Host+`/token",service="charts"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}), plain)
	folder = "oci://" + hostOf(bearer) + "/team/charts"
	load(t, with(Credential{Token: secret}), demo(folder))

	denied, _ := serve(t, answer(http.StatusForbidden, `{"errors":[{"code":"DENIED"}]}`), plain)
	folder = "oci://" + hostOf(denied)
	wants(t, failure(t, with(Credential{Token: secret}), demo(folder)), "chart.repository", `Chart repository "`+folder+`": access is denied (403)`, "answered 403 Forbidden to the credential")
}

func TestBadRegistry(t *testing.T) {
	tls, _ := serve(t, registryHandler(), secure)
	folder := "oci://" + hostOf(tls) + "/team/charts"
	wants(t, failure(t, source(t, nil), demo(folder)), "chart.repository", `Chart repository "`+folder+`": its certificate is signed by an unknown authority`, `Set ca_certificate for "`+folder+`"`)

	page, _ := serve(t, answer(http.StatusOK, "<html>Welcome"), plain)
	folder = "oci://" + hostOf(page) + "/team/charts"
	wants(t, failure(t, source(t, nil), demo(folder)), "chart.repository", `Chart repository "`+folder+`": a web page came in its place`, hostOf(page)+" answered")

	down, counted := serve(t, answer(http.StatusInternalServerError, ""), plain)
	folder = "oci://" + hostOf(down) + "/team/charts"
	wants(t, failure(t, source(t, nil), demo(folder)), "chart.repository", `Chart repository "`+folder+`": it is out of order (500)`, "500 Internal Server Error, also when asked again")
	if counted.count() != 1+maxRetries {
		t.Errorf("a broken registry was asked %d times", counted.count())
	}
}

// spoiled serves a registry with one answer changed.
func spoiled(t *testing.T, path string, change func(http.ResponseWriter, *http.Request, http.Handler)) string {
	t.Helper()
	inner := registryHandler()
	open, _ := serve(t, inner, plain)
	push(t, open, "demo", "1.2.3")
	server, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, path) && r.Method == http.MethodGet {
			change(w, r, inner)
			return
		}
		inner.ServeHTTP(w, r)
	}), plain)
	return "oci://" + hostOf(server) + "/team/charts"
}

func TestSpoiledRegistry(t *testing.T) {
	zeros := strings.Repeat("0", 1<<20)
	huge := spoiled(t, "/blobs/", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.(http.Flusher).Flush() // so that no Content-Length gives it away
		for range maxArchive>>20 + 2 {
			_, _ = io.WriteString(w, zeros)
		}
	})
	got := failure(t, source(t, nil), demo(huge))
	// Which of the two is seen first depends on how much the client reads at once.
	if got.Summary != `Chart repository "`+huge+`": it is too large` {
		wants(t, got, "chart.repository", `Chart repository "`+huge+`": it sent other content than it promised`, "Nothing was kept of it.")
	}
	announced := spoiled(t, "/blobs/", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Length", "99999999")
	})
	wants(t, failure(t, source(t, nil), demo(announced)), "chart.repository", `Chart repository "`+announced+`": it is too large`, "sends more than 20 MiB")

	damaged := spoiled(t, "/blobs/", func(w http.ResponseWriter, r *http.Request, inner http.Handler) {
		recorder := httptest.NewRecorder()
		inner.ServeHTTP(recorder, r)
		body := recorder.Body.Bytes()
		body[len(body)/2] ^= 1
		_, _ = w.Write(body)
	})
	wants(t, failure(t, source(t, nil), demo(damaged)), "chart.repository", `Chart repository "`+damaged+`": it sent other content than it promised`, "does not have the digest or size that its manifest says", "Nothing was kept of it.")

	lost := spoiled(t, "/blobs/", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(http.StatusNotFound) })
	wants(t, failure(t, source(t, nil), demo(lost)), "chart.repository", `Chart repository "`+lost+`": it has lost a chart's content`, "has the tag for version 1.2.3, but not what the tag stands for")

	missing := demo(spoiled(t, "/tags/list", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(http.StatusForbidden) }))
	missing.Version = "9.9.9"
	wants(t, failure(t, source(t, nil), missing), "chart.version", `Chart "demo": version 9.9.9 is not in its repository`, "does not tell which it has")
}

// What is in the registry may be something else than a chart.
func TestImageInRegistry(t *testing.T) {
	server, _ := serve(t, registryHandler(), plain)
	upload(t, server, "/v2/team/charts/demo/manifests/1.2.3", "application/vnd.oci.image.manifest.v1+json",
		`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"`+digestOf([]byte("{}"))+`","size":2},"layers":[]}`)
	folder := "oci://" + hostOf(server) + "/team/charts"
	wants(t, failure(t, source(t, nil), demo(folder)), "chart.name", `Chart "demo": what its repository has is no chart`, `"`+folder+`/demo:1.2.3" is there`, "container image")
}

func upload(t *testing.T, server *httptest.Server, path, kind, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", kind)
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		t.Fatalf("the registry answered %s", response.Status)
	}
}

// The index of a Helm repository may list archives that lie in an OCI registry. The repository's credential is not for it.
func TestIndexListsRegistry(t *testing.T) {
	registry, counted := serve(t, registryHandler(), plain)
	archive, manifest := push(t, registry, "demo", "1.2.3")
	before := counted.count()
	link := "oci://" + hostOf(registry) + "/team/charts/demo"
	for _, entry := range []indexEntry{
		{"demo", "1.2.3", link + ":1.2.3", digestOf(archive)}, {"demo", "1.2.3", link, manifest}, {"demo", "1.2.3", link, ""},
	} {
		server, _ := serve(t, answer(http.StatusOK, indexOf(entry)), plain)
		s := source(t, func(settings *Settings) {
			settings.Credentials = map[string]Credential{server.URL: {Username: "me", Password: secret}}
		})
		if got := load(t, s, demo(server.URL)); got.Digest != digestOf(archive) {
			t.Errorf("loaded %s", got.Digest)
		}
	}
	for _, header := range counted.header("Authorization")[before:] {
		if header != "" {
			t.Errorf("the registry got the repository's credential %q", header)
		}
	}
	server, _ := serve(t, answer(http.StatusOK, indexOf(indexEntry{"demo", "1.2.3", link, strings.Repeat("1", 64)})), plain)
	wants(t, failure(t, source(t, nil), demo(server.URL)), "chart.repository", `Chart "demo": its archive is not the one that the index lists`, digestOf(archive))
}

func TestPlainHTTPOnLoopbackOnly(t *testing.T) {
	for host, want := range map[string]bool{"localhost": true, "LOCALHOST": true, "127.0.0.1": true, "127.1.2.3": true, "::1": true, "10.0.0.1": false, "localhost.example.com": false, "": false} {
		if got := loopback(host); got != want {
			t.Errorf("%q is loopback: %v", host, got)
		}
	}
}
