package chart

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A plan fetches nothing where the chart is in the cache.
func TestCache(t *testing.T) {
	server, counted, archive := repository(t, plain)
	registry, inRegistry := serve(t, registryHandler(), plain)
	push(t, registry, "demo", "1.2.3")
	for repository, requests := range map[string]*asked{server.URL + "/charts": counted, "oci://" + hostOf(registry) + "/team/charts": inRegistry} {
		s, ref := source(t, nil), demo(repository)
		before := requests.count()
		if _, ok, err := s.Cached(ref); ok || err != nil {
			t.Fatalf("before: %v %v", ok, err)
		}
		if requests.count() != before {
			t.Error("looking into the cache made a request")
		}
		first := load(t, s, ref)
		after := requests.count()
		if after == before {
			t.Error("the first load made no request")
		}
		second := load(t, s, ref)
		again := source(t, func(settings *Settings) { settings.CacheDir = s.cache.dir })
		third := load(t, again, ref)
		fourth, ok, err := source(t, func(settings *Settings) { settings.CacheDir = s.cache.dir }).Cached(ref)
		if !ok || err != nil {
			t.Fatalf("a new Source over the same cache: %v %v", ok, err)
		}
		pinned := ref
		pinned.Digest = first.Digest
		load(t, source(t, func(settings *Settings) { settings.CacheDir = s.cache.dir }), pinned)
		for _, got := range []Chart{second, third, fourth} {
			if got.Digest != first.Digest || got.Name() != "demo" {
				t.Errorf("the cache gave %s %s", got.Name(), got.Digest)
			}
		}
		if requests.count() != after {
			t.Errorf("%d requests after the first load", requests.count()-after)
		}
		// Helm changes a chart that it works with: that must not reach another caller.
		second.Values["color"] = "red"
		second.Metadata.Name = "spoiled"
		if first.Values["color"] != "blue" || load(t, s, ref).Name() != "demo" {
			t.Error("two callers share one chart")
		}
		kept, err := os.ReadFile(filepath.Join(s.cache.dir, "sha256", strings.TrimPrefix(first.Digest, "sha256:")+".tgz"))
		if err != nil || !bytes.Equal(kept, archive) {
			t.Errorf("the archive in the cache: %v", err)
		}
		if found := cached(t, s); len(found) != 2 {
			t.Errorf("the cache holds %v", found)
		}
	}
}

// With another digest the cache's archive is not the one that is wanted, whatever the reference says; and an archive is
// found by its digest alone, without a reference, if it is that chart's.
func TestCacheByDigest(t *testing.T) {
	server, counted, archive := repository(t, plain)
	s, ref := source(t, nil), demo(server.URL+"/charts")
	load(t, s, ref)
	wrong := ref
	wrong.Digest = "sha256:" + strings.Repeat("0", 64)
	if _, ok, err := s.Cached(wrong); ok || err != nil {
		t.Errorf("another digest: %v %v", ok, err)
	}
	before := counted.count()
	mirror := Ref{Repository: "https://mirror.invalid", Name: "demo", Version: "1.2.3", Digest: digestOf(archive)}
	load(t, source(t, func(settings *Settings) { settings.CacheDir = s.cache.dir }), mirror)
	mirror.Name = "other"
	if _, ok, err := s.Cached(mirror); ok || err != nil {
		t.Errorf("another chart's digest: %v %v", ok, err)
	}
	mirror.Name, mirror.Version = "demo", "1.2.4"
	if _, ok, err := s.Cached(mirror); ok || err != nil {
		t.Errorf("another version's digest: %v %v", ok, err)
	}
	if counted.count() != before {
		t.Error("a request was made")
	}
}

func TestSpoiledCache(t *testing.T) {
	server, counted, archive := repository(t, plain)
	ref := demo(server.URL + "/charts")
	for name, spoil := range map[string]func(path string) error{
		"changed": func(path string) error { return os.WriteFile(path, append(bytes.Clone(archive), 0), 0o600) },
		"cut off": func(path string) error { return os.Truncate(path, 10) },
		"deleted": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			s := source(t, nil)
			load(t, s, ref)
			path := s.cache.archive(digestOf(archive))
			if err := spoil(path); err != nil {
				t.Fatal(err)
			}
			next := source(t, func(settings *Settings) { settings.CacheDir = s.cache.dir })
			if _, ok, err := next.Cached(ref); ok || err != nil {
				t.Errorf("the spoiled archive is used: %v %v", ok, err)
			}
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the spoiled archive is still there: %v", err)
			}
			before := counted.count()
			load(t, next, ref)
			if kept, err := os.ReadFile(path); err != nil || !bytes.Equal(kept, archive) || counted.count() != before+2 {
				t.Errorf("it was not fetched again: %v", err)
			}
		})
	}
	s := source(t, nil)
	load(t, s, ref)
	if err := os.WriteFile(s.cache.reference(entry{repository: ref.Repository, name: ref.Name, version: ref.Version}), []byte("../../etc/passwd"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := source(t, func(settings *Settings) { settings.CacheDir = s.cache.dir }).Cached(ref); ok || err != nil {
		t.Errorf("the spoiled reference is used: %v %v", ok, err)
	}
}

// Without a folder to write to, charts are kept in memory. A file where the folder should be stops even root.
func TestNoCache(t *testing.T) {
	server, counted, _ := repository(t, plain)
	ref := demo(server.URL + "/charts")
	file := write(t, t.TempDir(), map[string]string{"file": ""}) + "/file"
	s := source(t, func(settings *Settings) { settings.CacheDir = filepath.Join(file, "charts") })
	load(t, s, ref)
	load(t, s, ref)
	if _, ok, err := s.Cached(ref); !ok || err != nil {
		t.Errorf("it is not in memory: %v %v", ok, err)
	}
	if counted.count() != 2 {
		t.Errorf("%d requests", counted.count())
	}
	for _, variable := range []string{"HOME", "XDG_CACHE_HOME"} {
		t.Setenv(variable, "")
	}
	if s := NewSource(Settings{}); s.cache.dir != "" {
		t.Errorf("without a home the cache is in %q", s.cache.dir)
	}
	homeless := NewSource(Settings{})
	load(t, homeless, ref)
	load(t, homeless, ref)
	t.Setenv("XDG_CACHE_HOME", "/var/cache/me")
	if s := NewSource(Settings{}); s.cache.dir != "/var/cache/me/terraform-provider-berth/charts" {
		t.Errorf("by default the cache is in %q", s.cache.dir)
	}
}

// However many want a chart at once, it is fetched once.
func TestLoadAtOnce(t *testing.T) {
	server, counted, _ := repository(t, plain)
	s := source(t, nil)
	var group sync.WaitGroup
	charts := make([]Chart, 50)
	for i := range charts {
		group.Go(func() {
			got, err := s.Load(t.Context(), demo(server.URL+"/charts"))
			if err != nil {
				t.Error(err)
				return
			}
			got.Metadata.Name = "mine" // a shared chart would be a data race
			charts[i] = got
		})
	}
	group.Wait()
	if counted.count() != 2 {
		t.Errorf("%d requests", counted.count())
	}
}

// Who waits for another's fetch does not fail because that one was cancelled.
func TestCancelledFetchIsTakenOver(t *testing.T) {
	good, _, _ := repository(t, plain)
	arrived, held := make(chan struct{}), make(chan struct{})
	var asked atomic.Bool
	server, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !asked.Swap(true) {
			close(arrived)
			<-held
		}
		response, err := http.Get(good.URL + r.URL.Path)
		if err != nil {
			t.Error(err)
			return
		}
		defer response.Body.Close()
		_, _ = io.Copy(w, response.Body)
	}), plain)
	t.Cleanup(func() { close(held) })
	s, ref := source(t, nil), demo(server.URL+"/charts")
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error, 2)
	go func() {
		_, err := s.Load(ctx, ref)
		results <- err
	}()
	<-arrived
	go func() {
		_, err := s.Load(t.Context(), ref)
		results <- err
	}()
	cancel()
	failed, succeeded := <-results, <-results
	if failed == nil {
		failed, succeeded = succeeded, failed
	}
	if !errors.Is(failed, context.Canceled) || succeeded != nil {
		t.Errorf("the cancelled one: %v; the other: %v", failed, succeeded)
	}
}

// Processes share the cache: each sees whole files only. The processes are this test's binary.
func TestProcessesShareCache(t *testing.T) {
	if dir := os.Getenv("BERTH_TEST_CHART_CACHE"); dir != "" {
		deadline := time.Now().Add(time.Second)
		for time.Now().Before(deadline) {
			s := source(t, func(settings *Settings) { settings.CacheDir = dir })
			load(t, s, demo(os.Getenv("BERTH_TEST_CHART_REPOSITORY")))
			if err := os.Remove(s.cache.archive(load(t, s, demo(os.Getenv("BERTH_TEST_CHART_REPOSITORY"))).Digest)); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
		return
	}
	server, _, _ := repository(t, plain)
	dir := t.TempDir()
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProcessesShareCache$")
			other.Env = append(os.Environ(), "BERTH_TEST_CHART_CACHE="+dir, "BERTH_TEST_CHART_REPOSITORY="+server.URL+"/charts")
			if out, err := other.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	group.Wait()
	s := source(t, func(settings *Settings) { settings.CacheDir = dir })
	load(t, s, demo(server.URL+"/charts"))
	for _, path := range cached(t, s) {
		if strings.HasPrefix(filepath.Base(path), ".new-") {
			t.Errorf("%s is left", path)
		}
	}
}
