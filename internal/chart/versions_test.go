package chart

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// versions lists a chart that has to be there.
func versions(t *testing.T, s *Source, ref Ref) string {
	t.Helper()
	found, err := s.Versions(t.Context(), ref)
	if err != nil {
		t.Fatalf("the versions of %+v: %v", ref, err)
	}
	return strings.Join(found, " ")
}

// unlisted lists a chart that cannot be listed, and gives the error.
func unlisted(t *testing.T, s *Source, ref Ref) *cluster.Problem {
	t.Helper()
	found, err := s.Versions(t.Context(), ref)
	if err == nil || found != nil {
		t.Fatalf("%+v has the versions %v (%v)", ref, found, err)
	}
	return problem(t, err)
}

// What the index of a repository lists (R11): newest first, as it is written there, and asked for once.
func TestVersionsOfRepository(t *testing.T) {
	server, counted := serve(t, files(map[string]string{"/charts/index.yaml": indexOf(
		indexEntry{"demo", "1.9.0", "a.tgz", ""}, indexEntry{"demo", "v1.15.2", "b.tgz", ""}, indexEntry{"demo", "latest", "c.tgz", ""},
		indexEntry{"demo", "1.15.10", "d.tgz", ""}, indexEntry{"demo", "1.16.0-rc.1", "e.tgz", ""}, indexEntry{"demo", "1.9.0", "f.tgz", ""},
		indexEntry{"other", "3.0.0", "g.tgz", ""},
	)}), plain)
	s := source(t, nil)
	ref := Ref{Repository: server.URL + "/charts/", Name: "demo"}
	const all = "1.16.0-rc.1 1.15.10 v1.15.2 1.9.0"
	if got := versions(t, s, ref); got != all {
		t.Errorf("got %s\nwant %s", got, all)
	}
	// Neither what a caller does to its list nor a version in the Ref matters to another, and nobody asks again.
	kept, err := s.Versions(t.Context(), Ref{Repository: ref.Repository, Name: "demo", Version: "7"})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(kept)
	if got := versions(t, s, ref); got != all {
		t.Errorf("a caller's change shows: %s", got)
	}
	wants(t, unlisted(t, s, Ref{Repository: ref.Repository, Name: "dem"}), "chart.name", `Chart "dem": it is not in its repository`, `The nearest: "demo", "other".`)
	if counted.count() != 1 {
		t.Errorf("requests: %v", counted.paths)
	}
}

// The tags of a registry, which is asked once for them; its credential and its errors are those of a chart.
func TestVersionsOfRegistry(t *testing.T) {
	inner := registryHandler()
	open, _ := serve(t, inner, plain)
	push(t, open, "demo", "1.9.0", "1.15.2", "1.15.10+build.7")
	server, counted := serve(t, guarded(inner, "me", secret), plain)
	folder := "oci://" + hostOf(server) + "/team/charts"
	s := source(t, func(settings *Settings) {
		settings.Credentials = map[string]Credential{folder: {Username: "me", Password: secret}}
	})
	ref := Ref{Repository: folder, Name: "demo"}
	const all = "1.15.10+build.7 1.15.2 1.9.0"
	if got := versions(t, s, ref); got != all {
		t.Errorf("got %s\nwant %s", got, all)
	}
	before := counted.count()
	kept, err := s.Versions(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(kept)
	if got := versions(t, s, ref); got != all || counted.count() != before {
		t.Errorf("asked again: %s after %v", got, counted.paths[before:])
	}
	wants(t, unlisted(t, s, Ref{Repository: folder, Name: "other"}), "chart.name", `Chart "other": it is not in its registry`, `There is no "`+folder+`/other".`)
	wants(t, unlisted(t, s, Ref{Repository: folder, Name: "Demo"}), "chart.repository", `Chart "Demo": there can be no such chart in an OCI registry`, "lower-case")
	wants(t, unlisted(t, source(t, nil), ref), "chart.repository", `Chart repository "`+folder+`": access is denied (401)`, "Set username and password, or token")
}

// What was not listed is not remembered: it may be there the next time.
func TestVersionsAfterAFailure(t *testing.T) {
	broken := true
	server, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		answer(http.StatusOK, indexOf(indexEntry{"demo", "1.2.3", "a.tgz", ""})).ServeHTTP(w, r)
	}), plain)
	s := source(t, nil)
	ref := Ref{Repository: server.URL, Name: "demo"}
	wants(t, unlisted(t, s, ref), "chart.repository", `Chart repository "`+server.URL+`": access is denied (403)`)
	broken = false
	if got := versions(t, s, ref); got != "1.2.3" {
		t.Errorf("got %s", got)
	}
}

// A local folder in the place of a repository has what Load would find there, as it is now.
func TestVersionsOfFolder(t *testing.T) {
	const upstream = "https://charts.invalid/stable"
	folder := t.TempDir()
	s := source(t, func(settings *Settings) { settings.RepositoryOverrides = map[string]string{upstream: folder} })
	ref := Ref{Repository: upstream + "/", Name: "demo"}
	wants(t, unlisted(t, s, ref), "charts.repository_overrides", `Chart "demo": it is not in the folder that overrides its repository`,
		`in place of "https://charts.invalid/stable/"`, `neither an archive "demo-<version>.tgz" nor a chart's folder "demo" is there`, "helm pull")
	write(t, folder, map[string]string{
		"demo-1.9.0.tgz": "", "demo-1.15.2.tgz": "", "demo-extra-2.0.0.tgz": "", "demo-1.16.0.zip": "", "notes": "",
	})
	if got := versions(t, s, ref); got != "1.15.2 1.9.0" {
		t.Errorf("the archives are %s", got)
	}
	write(t, folder, prefixed("demo/", chartFiles("demo", "1.10.0")))
	if got := versions(t, s, ref); got != "1.15.2 1.10.0 1.9.0" {
		t.Errorf("with the chart's own folder: %s", got)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	wants(t, unlisted(t, s, ref), "charts.repository_overrides", `Chart "demo": it is not in the folder that overrides its repository`, "it cannot be read: ", filepath.Base(folder))
}

// A Ref that names no repository or no chart is refused before anything is asked, and who is cancelled waits no longer.
func TestVersionsOfNothing(t *testing.T) {
	s := source(t, nil)
	wants(t, unlisted(t, s, Ref{Name: "demo"}), "chart", `Chart "demo": it is not said where it is`)
	wants(t, unlisted(t, s, Ref{Repository: "https://charts.invalid"}), "chart.name", "Chart: its name is not usable")
	wants(t, unlisted(t, s, Ref{Repository: "ftp://charts.invalid", Name: "demo"}), "chart.repository", `Chart "demo": the URL of its repository is not usable`)
	server, _, _ := repository(t, plain)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Versions(ctx, demo(server.URL+"/charts"))
	if wants(t, problem(t, err), "chart.repository", `Chart repository "`+server.URL+`/charts": fetching it was cancelled`); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
