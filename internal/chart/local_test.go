package chart

import (
	"archive/tar"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLoadLocal(t *testing.T) {
	folder := write(t, t.TempDir(), chartFiles("demo", "1.2.3"))
	s := source(t, nil)
	got := load(t, s, Ref{Path: folder})
	if got.Name() != "demo" || len(got.Templates) != 2 || !digestPattern.MatchString(got.Digest) {
		t.Errorf("loaded %s, %d templates, %s", got.Name(), len(got.Templates), got.Digest)
	}
	archive := write(t, t.TempDir(), map[string]string{"demo.tgz": string(pack(t, "demo", chartFiles("demo", "1.2.3")))}) + "/demo.tgz"
	if packed := load(t, s, Ref{Path: archive}); packed.Digest != got.Digest {
		t.Errorf("the archive of the folder has %s, the folder %s", packed.Digest, got.Digest)
	}
	load(t, s, Ref{Path: folder, Digest: got.Digest})
	kept, ok, err := s.Cached(Ref{Path: folder})
	if err != nil || !ok || kept.Digest != got.Digest {
		t.Errorf("without the network: %v %v %s", ok, err, kept.Digest)
	}
	unwritten(t, s)
	// A local chart is what it is now, not what it was.
	write(t, folder, map[string]string{"values.yaml": "color: red\n"})
	if changed := load(t, s, Ref{Path: folder}); changed.Values["color"] != "red" || changed.Digest == got.Digest {
		t.Errorf("after a change: %v, %s", changed.Values, changed.Digest)
	}
	pinned := Ref{Path: folder, Digest: got.Digest}
	wants(t, failure(t, s, pinned), "chart.digest", `Chart "`+folder+`": its digest is another than chart.digest`, got.Digest, "Look at what changed")
}

// The digest is that of names and bytes: it does not change with a copy, and it changes with anything else.
func TestContentDigest(t *testing.T) {
	digest := func(t *testing.T, change func(files map[string]string)) (string, string) {
		t.Helper()
		files := chartFiles("demo", "1.2.3")
		files[".helmignore"] = "*.bak\nnotes/\n"
		change(files)
		folder := write(t, t.TempDir(), files)
		return load(t, source(t, nil), Ref{Path: folder}).Digest, folder
	}
	base, folder := digest(t, func(map[string]string) {})
	for name, change := range map[string]func(map[string]string){
		"ignored file":   func(f map[string]string) { f["old.bak"] = "x" },
		"ignored folder": func(f map[string]string) { f["notes/a"] = "x" },
		"lock":           func(f map[string]string) { f["Chart.lock"] = "generated: \"2026-01-01T00:00:00Z\"\n" },
	} {
		if got, _ := digest(t, change); got != base {
			t.Errorf("%s changes the digest", name)
		}
	}
	for name, change := range map[string]func(map[string]string){
		"byte": func(f map[string]string) { f["values.yaml"] = "color: blue \n" },
		"name": func(f map[string]string) {
			f["templates/two.yaml"] = f["templates/one.yaml"]
			delete(f, "templates/one.yaml")
		},
		"new file":    func(f map[string]string) { f["files/a"] = "" },
		"moved bytes": func(f map[string]string) { f["templates/NOTES.txt"] = "done" },
		".helmignore": func(f map[string]string) { f[".helmignore"] += "#\n" },
	} {
		if got, _ := digest(t, change); got == base {
			t.Errorf("%s does not change the digest", name)
		}
	}
	long := time.Now().Add(-1000 * time.Hour)
	for _, name := range []string{"Chart.yaml", "values.yaml"} {
		path := filepath.Join(folder, name)
		if err := os.Chtimes(path, long, long); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := load(t, source(t, nil), Ref{Path: folder}).Digest; got != base {
		t.Error("times or permissions change the digest")
	}
}

// `helm dependency build` packs a local subchart anew each time, with the time in the archive.
func TestContentDigestOfSubcharts(t *testing.T) {
	digest := func(when time.Time, color string) string {
		sub := packEntries(t, func(w *tar.Writer) {
			add(t, w, tar.Header{Name: "sub/Chart.yaml", ModTime: when}, "apiVersion: v2\nname: sub\nversion: 1.0.0\n")
			add(t, w, tar.Header{Name: "sub/values.yaml", ModTime: when}, "color: "+color+"\n")
		})
		files := chartFiles("demo", "1.2.3")
		files["charts/sub-1.0.0.tgz"] = string(sub)
		return load(t, source(t, nil), Ref{Path: write(t, t.TempDir(), files)}).Digest
	}
	now := time.Now()
	if digest(now, "blue") != digest(now.Add(-time.Hour), "blue") {
		t.Error("the time at which a subchart was packed changes the digest")
	}
	if digest(now, "blue") == digest(now, "red") {
		t.Error("a change in a subchart does not change the digest")
	}
}

func TestBadLocal(t *testing.T) {
	s := source(t, nil)
	at := func(change func(map[string]string)) string {
		files := chartFiles("demo", "1.2.3")
		change(files)
		return write(t, t.TempDir(), files)
	}
	who := func(path string) string { return `Chart "` + path + `": ` }

	gone := filepath.Join(t.TempDir(), "gone")
	wants(t, failure(t, s, Ref{Path: gone}), "chart.path", who(gone)+"there is nothing at its path", gone, "${path.module}")
	working := t.TempDir()
	t.Chdir(working)
	wants(t, failure(t, s, Ref{Path: "charts/demo"}), "chart.path", who("charts/demo")+"there is nothing at its path", filepath.Join(working, "charts", "demo"))

	path := at(func(f map[string]string) { delete(f, "Chart.yaml") })
	wants(t, failure(t, s, Ref{Path: path}), "chart.path", who(path)+"it has no Chart.yaml", "A chart is a folder with Chart.yaml in it")

	path = at(func(f map[string]string) {
		f["Chart.yaml"] += "dependencies: [{name: common, version: 1.0.0, repository: 'file://charts/common'}, {name: redis, version: 1.0.0, repository: 'https://x.example'}]\n"
	})
	wants(t, failure(t, s, Ref{Path: path}), "chart.path", who(path)+"dependencies are missing in it",
		`not in its charts/ folder: "common", "redis", of which "common" are taken from local folders (file://). Run `+"`helm dependency build "+path+"`.")
	path = at(func(f map[string]string) {
		f["Chart.yaml"] += "dependencies: [{name: redis, version: 1.0.0, repository: 'https://x.example'}]\n"
	})
	wants(t, failure(t, s, Ref{Path: path}), "chart.path", who(path)+"dependencies are missing in it", `"redis". Run `+"`helm dependency build "+path+"`.")

	path = at(func(f map[string]string) { f["Chart.yaml"] += "type: library\n" })
	wants(t, failure(t, s, Ref{Path: path}), "chart.path", who(path)+"it is a library chart", "Use the chart that depends on it.")
	path = at(func(f map[string]string) { f["Chart.yaml"] = "apiVersion: v2\nname: demo\n" })
	wants(t, failure(t, s, Ref{Path: path}), "chart.path", who(path)+"Helm cannot load it", "chart.metadata.version is required")

	path = at(func(f map[string]string) {
		for i := range 21 {
			f["files/big"+strings.Repeat("x", i)] = strings.Repeat("0", 5<<20)
		}
	})
	wants(t, failure(t, s, Ref{Path: path}), "chart.path", who(path)+"it is too large", "more than 100 MiB uncompressed")

	path = filepath.Join(t.TempDir(), "big.tgz")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, maxArchive+1); err != nil {
		t.Fatal(err)
	}
	wants(t, failure(t, s, Ref{Path: path}), "chart.path", who(path)+"its archive is too large", "has 20971521 bytes, and at most 20 MiB are read")

	path = write(t, t.TempDir(), map[string]string{"values.yaml": "a: b"}) + "/values.yaml"
	wants(t, failure(t, s, Ref{Path: path}), "chart.path", who(path)+"it is no archive", "`helm package`")
	path = filepath.Join(path, "below")
	wants(t, failure(t, s, Ref{Path: path}), "chart.path", who(path)+"its path cannot be read", "not a directory", "Let the user who runs this read it.")

	path = filepath.Join(t.TempDir(), "s")
	socket, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	wants(t, failure(t, s, Ref{Path: path}), "chart.path", who(path)+"its path is no folder or file", "a socket")
}
