package chart

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestLoadFromHelmRepository(t *testing.T) {
	server, counted, archive := repository(t, plain)
	s := source(t, nil)
	ref := demo(server.URL + "/charts/")
	got := load(t, s, ref)
	if got.Name() != "demo" || got.Metadata.Version != "1.2.3" || got.AppVersion() != "9" || len(got.Templates) != 2 || got.Digest != digestOf(archive) {
		t.Errorf("loaded %s %s, %d templates, %s", got.Name(), got.Metadata.Version, len(got.Templates), got.Digest)
	}
	if agents := counted.header("User-Agent"); counted.count() != 2 || agents[0] != "terraform-provider-berth" || agents[1] != agents[0] {
		t.Errorf("requests: %v by %v", counted.paths, agents)
	}
	// Whatever spelling of the version and of the URL's end finds the chart; the pinned digest is checked.
	for _, other := range []Ref{
		{Repository: server.URL + "/charts", Name: "demo", Version: "v1.2.3"},
		{Repository: server.URL + "/charts", Name: "demo", Version: "1.2.3", Digest: got.Digest},
	} {
		load(t, s, other)
	}
}

func TestURLsInIndex(t *testing.T) {
	archive := string(pack(t, "demo", chartFiles("demo", "1.2.3")))
	elsewhere, counted := serve(t, files(map[string]string{"/files/demo.tgz": archive}), plain)
	for name, link := range map[string]string{
		"relative": "sub/demo.tgz", "rooted": "/pool/demo.tgz", "another host": elsewhere.URL + "/files/demo.tgz",
	} {
		t.Run(name, func(t *testing.T) {
			server, own := serve(t, files(map[string]string{
				"/charts/index.yaml": indexOf(indexEntry{"demo", "1.2.3", link, ""}), "/charts/sub/demo.tgz": archive, "/pool/demo.tgz": archive,
			}), plain)
			s := source(t, func(settings *Settings) {
				settings.Credentials = map[string]Credential{server.URL + "/charts": {Username: "me", Password: secret}}
			})
			load(t, s, demo(server.URL+"/charts"))
			for _, header := range own.header("Authorization") {
				if !strings.HasPrefix(header, "Basic ") {
					t.Errorf("the repository got %q for a credential", header)
				}
			}
			// A credential is for its repository's server, and for no other.
			for _, header := range counted.header("Authorization") {
				if header != "" {
					t.Errorf("another server got the credential %q", header)
				}
			}
		})
	}
	if counted.count() != 1 {
		t.Errorf("%d requests went to the other host", counted.count())
	}
}

// A redirect takes the credential along within its server only: neither to another port of the same host.
func TestRedirectKeepsCredentialAtHome(t *testing.T) {
	_, _, archive := repository(t, plain)
	other, counted := serve(t, files(map[string]string{"/demo.tgz": string(archive)}), plain)
	mux := http.NewServeMux()
	mux.Handle("/index.yaml", answer(http.StatusOK, indexOf(indexEntry{"demo", "1.2.3", "here", ""})))
	mux.Handle("/here", http.RedirectHandler("/there", http.StatusFound))
	mux.Handle("/there", http.RedirectHandler(other.URL+"/demo.tgz", http.StatusFound))
	server, own := serve(t, mux, plain)
	s := source(t, func(settings *Settings) {
		settings.Credentials = map[string]Credential{server.URL: {Token: secret}}
	})
	load(t, s, demo(server.URL))
	if got := own.header("Authorization"); len(got) != 3 || got[2] != "Bearer "+secret {
		t.Errorf("the repository got %v", got)
	}
	if got := counted.header("Authorization"); len(got) != 1 || got[0] != "" {
		t.Errorf("the server behind the redirect got %v", got)
	}
}

func TestCredentialsByLongestPrefix(t *testing.T) {
	s := NewSource(Settings{Credentials: map[string]Credential{
		"https://Charts.example.com/": {Token: "all"}, "https://charts.example.com/team": {Token: "team"}, "oci://charts.example.com": {Token: "oci"},
	}})
	for url, want := range map[string]string{
		"https://charts.example.com": "all", "https://charts.example.com/other": "all", "https://charts.example.com/team/a": "team",
		"https://charts.example.com/teams": "all", "https://charts.example.com.evil.org": "", "oci://charts.example.com/team": "oci", "http://charts.example.com": "",
	} {
		if got := s.credentialFor(canonical(url)).Token; got != want {
			t.Errorf("%s gets the credential %q, not %q", url, got, want)
		}
	}
}

func TestRepositoryOverrides(t *testing.T) {
	server, _, archive := repository(t, plain)
	const upstream = "https://charts.invalid/stable"
	over := func(target string) *Source {
		return source(t, func(settings *Settings) { settings.RepositoryOverrides = map[string]string{upstream + "/": target} })
	}
	if got := load(t, over(server.URL+"/charts"), demo(upstream)); got.Digest != digestOf(archive) {
		t.Errorf("the mirror's chart has %s", got.Digest)
	}
	folder := write(t, t.TempDir(), map[string]string{"demo-1.2.3.tgz": string(archive)})
	pinned := demo(upstream)
	pinned.Digest = digestOf(archive)
	if got := load(t, over(folder), pinned); got.Digest != digestOf(archive) {
		t.Errorf("the folder's archive has %s", got.Digest)
	}
	unpacked := write(t, t.TempDir(), prefixed("demo/", chartFiles("demo", "1.2.4")))
	wants(t, failure(t, over(unpacked), demo(upstream)), "chart.version", `Chart "demo": what overrides its repository has another version`,
		"in place of \"https://charts.invalid/stable\", where the chart has version 1.2.4 and not 1.2.3.", "set chart.version to the one that is there")
	wants(t, failure(t, over(t.TempDir()), demo(upstream)), "charts.repository_overrides", `Chart "demo": it is not in the folder that overrides its repository`,
		"demo-1.2.3.tgz", "helm pull")
	wants(t, failure(t, over("ftp://me:"+secret+"@mirror"), demo(upstream)), "charts.repository_overrides", `Chart repository "https://charts.invalid/stable": the URL that overrides it is not usable`,
		`"ftp://mirror" is neither https:// nor oci://`)
	wants(t, failure(t, over("https://me:"+secret+"@mirror"), demo(upstream)), "charts.repository_overrides", `Chart repository "https://charts.invalid/stable": the URL that overrides it is not usable`,
		`"https://mirror" has a user name or password in it`, "charts.credentials")
}

func prefixed(prefix string, files map[string]string) map[string]string {
	result := map[string]string{}
	for name, content := range files {
		result[prefix+name] = content
	}
	return result
}

// Many charts of one repository need its index once.
func TestIndexIsReadOnce(t *testing.T) {
	contents := map[string]string{}
	var entries []indexEntry
	for i := range 10 {
		name := fmt.Sprintf("demo%d", i)
		contents["/"+name+".tgz"] = string(pack(t, name, chartFiles(name, "1.0.0")))
		entries = append(entries, indexEntry{name, "1.0.0", name + ".tgz", ""})
	}
	contents["/index.yaml"] = indexOf(entries...)
	server, counted := serve(t, files(contents), plain)
	s := source(t, nil)
	for i := range 10 {
		load(t, s, Ref{Repository: server.URL, Name: fmt.Sprintf("demo%d", i), Version: "1.0.0"})
	}
	if counted.count() != 11 {
		t.Errorf("%d requests for ten charts: %v", counted.count(), counted.paths)
	}
}

func TestNotInIndex(t *testing.T) {
	var entries []indexEntry
	for _, version := range []string{"0.9.0", "1.0.0", "1.1.0", "1.2.0", "v1.2.2", "1.2.4", "1.3.0-rc.1", "1.3.0", "2.0.0", "nonsense"} {
		entries = append(entries, indexEntry{"demo", version, "x.tgz", ""})
	}
	for _, name := range []string{"dema", "kueue", "knative-operator", "prometheus", "demo-two"} {
		entries = append(entries, indexEntry{name, "1.0.0", "x.tgz", ""})
	}
	server, _ := serve(t, answer(http.StatusOK, indexOf(entries...)), plain)
	s := source(t, nil)
	wants(t, failure(t, s, demo(server.URL)), "chart.version", `Chart "demo": version 1.2.3 is not in its repository`,
		`"`+server.URL+`" has 10 versions of this chart. The nearest: "1.3.0-rc.1", "1.2.4", "v1.2.2", "1.2.0", "1.1.0". Set chart.version to one of them.`)
	wants(t, failure(t, s, Ref{Repository: server.URL, Name: "demo", Version: "9.0.0"}), "chart.version", `Chart "demo": version 9.0.0 is not in its repository`,
		`The nearest: "2.0.0", "1.3.0", "1.3.0-rc.1", "1.2.4", "v1.2.2".`)
	wants(t, failure(t, s, Ref{Repository: server.URL, Name: "demo", Version: "0.0.1"}), "chart.version", `Chart "demo": version 0.0.1 is not in its repository`,
		`The nearest: "v1.2.2", "1.2.0", "1.1.0", "1.0.0", "0.9.0".`)
	wants(t, failure(t, s, Ref{Repository: server.URL, Name: "Demos", Version: "1.0.0"}), "chart.name", `Chart "Demos": it is not in its repository`,
		`has no chart of this name among its 6. The nearest: "demo", "dema", `, "Correct chart.name or chart.repository.")
	unwritten(t, s)
	empty, _ := serve(t, answer(http.StatusOK, "apiVersion: v1\nentries: {}\n"), plain)
	wants(t, failure(t, s, demo(empty.URL)), "chart.name", `Chart "demo": it is not in its repository`, "lists no chart at all")
	// Helm would take 1.2.3+other for 1.2.3; an exact version means what it says.
	build, _ := serve(t, answer(http.StatusOK, indexOf(indexEntry{"demo", "1.2.3+k3s1", "x.tgz", ""})), plain)
	wants(t, failure(t, s, demo(build.URL)), "chart.version", `Chart "demo": version 1.2.3 is not in its repository`, `has 1 version of this chart. The nearest: "1.2.3+k3s1".`)
}

func TestBadIndex(t *testing.T) {
	at := func(t *testing.T, handler http.Handler) (*httptest.Server, string) {
		server, _ := serve(t, handler, plain)
		return server, `Chart repository "` + server.URL + `": `
	}
	t.Run("no index", func(t *testing.T) {
		server, who := at(t, http.NotFoundHandler())
		wants(t, failure(t, source(t, nil), demo(server.URL)), "chart.repository", who+"it has no index (404)", server.URL+"/index.yaml", "helm repo add")
	})
	t.Run("web page", func(t *testing.T) {
		server, who := at(t, answer(http.StatusOK, "\n<!DOCTYPE html><html><title>Charts</title>"))
		wants(t, failure(t, source(t, nil), demo(server.URL)), "chart.repository", who+"a web page came in its place", server.URL[7:]+" answered", "login page")
	})
	t.Run("captive portal", func(t *testing.T) {
		portal, _ := serve(t, answer(http.StatusOK, "<html>Please log in"), plain)
		server, who := at(t, http.RedirectHandler(portal.URL+"/login?token="+secret, http.StatusFound))
		wants(t, failure(t, source(t, nil), demo(server.URL)), "chart.repository", who+"a web page came in its place",
			server.URL[7:]+" redirects to "+portal.URL[7:]+", which answered", "log in to the network")
	})
	for name, c := range map[string]struct{ body, why string }{
		"empty": {"", "it is empty"}, "no version": {"entries: {}", "it has no apiVersion"}, "not YAML": {"a: [", "yaml"}, "other types": {"apiVersion: v1\nentries: 7", "entries"},
	} {
		t.Run(name, func(t *testing.T) {
			server, who := at(t, answer(http.StatusOK, c.body))
			wants(t, failure(t, source(t, nil), demo(server.URL)), "chart.repository", who+"its index cannot be read", c.why, "helm repo index")
		})
	}
	t.Run("endless", func(t *testing.T) {
		server, who := at(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			line := strings.Repeat("#", 1<<20)
			for range maxIndex>>20 + 1 {
				_, _ = io.WriteString(w, line)
			}
		}))
		wants(t, failure(t, source(t, nil), demo(server.URL)), "chart.repository", who+"it is too large", "sends more than 50 MiB")
	})
	t.Run("no URL", func(t *testing.T) {
		server, _ := at(t, answer(http.StatusOK, "apiVersion: v1\nentries: {demo: [{version: 1.2.3}, null, {}]}"))
		wants(t, failure(t, source(t, nil), demo(server.URL)), "chart.version", `Chart "demo": its repository names no archive`, "lists version 1.2.3 without a URL", "helm repo index")
	})
	t.Run("odd URL", func(t *testing.T) {
		server, _ := at(t, answer(http.StatusOK, indexOf(indexEntry{"demo", "1.2.3", "file:///etc/passwd", ""})))
		wants(t, failure(t, source(t, nil), demo(server.URL)), "chart.version", `Chart "demo": the URL of its archive is not usable`, `"file:///etc/passwd"`, "chart.path")
	})
	t.Run("archive gone", func(t *testing.T) {
		server, _ := at(t, files(map[string]string{"/index.yaml": indexOf(indexEntry{"demo", "1.2.3", "gone.tgz?sig=" + secret, ""})}))
		wants(t, failure(t, source(t, nil), demo(server.URL)), "chart.repository", `Archive of chart "demo": it is not where the index says (404)`, server.URL+"/gone.tgz", "another version")
	})
	t.Run("archive is a web page", func(t *testing.T) {
		server, _ := at(t, files(map[string]string{"/index.yaml": indexOf(indexEntry{"demo", "1.2.3", "page", ""}), "/page": "<html>"}))
		wants(t, failure(t, source(t, nil), demo(server.URL)), "chart.repository", `Archive of chart "demo": a web page came in its place`, server.URL+"/page")
	})
	t.Run("archive elsewhere is denied", func(t *testing.T) {
		other, _ := serve(t, answer(http.StatusForbidden, ""), plain)
		server, _ := at(t, files(map[string]string{"/index.yaml": indexOf(indexEntry{"demo", "1.2.3", other.URL + "/x.tgz", ""})}))
		s := source(t, func(settings *Settings) { settings.Credentials = map[string]Credential{server.URL: {Token: secret}} })
		wants(t, failure(t, s, demo(server.URL)), "chart.repository", `Archive of chart "demo": access is denied (403)`, "so no credential was sent to it", "charts.repository_overrides")
	})
	t.Run("archive too large", func(t *testing.T) {
		server, _ := at(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/index.yaml" {
				_, _ = io.WriteString(w, indexOf(indexEntry{"demo", "1.2.3", "x.tgz", ""}))
				return
			}
			w.Header().Set("Content-Length", fmt.Sprint(maxArchive+1))
		}))
		wants(t, failure(t, source(t, nil), demo(server.URL)), "chart.repository", `Archive of chart "demo": it is too large`, "sends more than 20 MiB")
	})
}

func TestDigests(t *testing.T) {
	server, _, archive := repository(t, plain)
	s := source(t, nil)
	ref := demo(server.URL + "/charts")
	ref.Digest = "sha256:" + strings.Repeat("0", 64)
	wants(t, failure(t, s, ref), "chart.digest", `Chart "demo": its digest is another than chart.digest`, ref.Digest, digestOf(archive), "Nothing was kept of it.")
	unwritten(t, s)
	if _, ok, err := s.Cached(demo(server.URL + "/charts")); ok || err != nil {
		t.Errorf("the chart with the wrong digest is cached: %v %v", ok, err)
	}
	lying, _ := serve(t, files(map[string]string{
		"/index.yaml": indexOf(indexEntry{"demo", "1.2.3", "x.tgz", strings.Repeat("1", 64)}), "/x.tgz": string(archive),
	}), plain)
	wants(t, failure(t, s, demo(lying.URL)), "chart.repository", `Chart "demo": its archive is not the one that the index lists`, "sha256:"+strings.Repeat("1", 64), digestOf(archive), "Nothing was kept of it.")
	unwritten(t, s)
}
