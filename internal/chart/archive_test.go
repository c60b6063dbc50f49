package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// fetched is what comes of an archive that a repository serves; nothing of a bad one may be kept.
func fetched(t *testing.T, archive []byte) *cluster.Problem {
	t.Helper()
	server, _ := serve(t, files(map[string]string{"/index.yaml": indexOf(indexEntry{"demo", "1.2.3", "x.tgz", ""}), "/x.tgz": string(archive)}), plain)
	s := source(t, nil)
	got := failure(t, s, demo(server.URL))
	unwritten(t, s)
	return got
}

// with is a chart with another entry.
func with(t *testing.T, header tar.Header) []byte {
	t.Helper()
	return packEntries(t, func(w *tar.Writer) {
		for name, content := range chartFiles("demo", "1.2.3") {
			add(t, w, tar.Header{Name: "demo/" + name}, content)
		}
		content := ""
		if header.Typeflag == 0 {
			content = "root:x:0:0"
		}
		add(t, w, header, content)
	})
}

func TestEscapingPaths(t *testing.T) {
	for name, c := range map[string]struct {
		header tar.Header
		why    string
	}{
		"parent":             {tar.Header{Name: "demo/../../evil"}, `has "..\" in it`},
		"parent, Windows":    {tar.Header{Name: `demo\..\..\evil`}, `has ".."`},
		"absolute":           {tar.Header{Name: "/etc/passwd"}, "is an absolute path"},
		"drive":              {tar.Header{Name: `C:\evil`}, "is an absolute path"},
		"symbolic link":      {tar.Header{Name: "demo/templates/link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, `is a link to "/etc/passwd"`},
		"hard link":          {tar.Header{Name: "demo/link", Typeflag: tar.TypeLink, Linkname: "../../evil"}, `is a link to "../../evil"`},
		"pipe":               {tar.Header{Name: "demo/pipe", Typeflag: tar.TypeFifo}, "is a device and no file"},
		"character device":   {tar.Header{Name: "demo/null", Typeflag: tar.TypeChar}, "is a device and no file"},
		"parent at the root": {tar.Header{Name: "../evil/Chart.yaml"}, `has ".." in it`},
	} {
		t.Run(name, func(t *testing.T) {
			wants(t, fetched(t, with(t, c.header)), "chart.repository", `Chart "demo": a path in it leads out of it`, strings.ReplaceAll(c.why, `\"`, `"`), "nothing was unpacked")
		})
	}
}

func TestBadArchives(t *testing.T) {
	good := pack(t, "demo", chartFiles("demo", "1.2.3"))
	only := func(change func(map[string]string)) []byte {
		files := chartFiles("demo", "1.2.3")
		change(files)
		return pack(t, "demo", files)
	}
	var gzipped bytes.Buffer
	w := gzip.NewWriter(&gzipped)
	_, _ = w.Write(bytes.Repeat([]byte("no tar "), 1000))
	_ = w.Close()
	for name, c := range map[string]struct {
		archive []byte
		summary string
		details []string
	}{
		"text":             {[]byte("hello"), "it is no archive", []string{"a tar file compressed by gzip", "Correct where"}},
		"empty":            {nil, "it is no archive", nil},
		"gzip without tar": {gzipped.Bytes(), "it is no archive", nil},
		"cut off":          {good[:len(good)/2], "its archive is cut off", []string{"Fetch or package it again."}},
		"no Chart.yaml":    {only(func(f map[string]string) { delete(f, "Chart.yaml") }), "it has no Chart.yaml", []string{"an archive of such a folder"}},
		"Chart.yaml at the root": {packEntries(t, func(w *tar.Writer) {
			add(t, w, tar.Header{Name: "Chart.yaml"}, "name: demo")
		}), "its files lie in no folder", []string{"holds one folder", "Package it again."}},
		"bad Chart.yaml":  {only(func(f map[string]string) { f["Chart.yaml"] = "a: [" }), "Helm cannot load it", []string{"Helm says: cannot load Chart.yaml", "use another version"}},
		"bad values.yaml": {only(func(f map[string]string) { f["values.yaml"] = "a: [" }), "Helm cannot load it", []string{"Helm says: cannot load values.yaml"}},
		"library": {
			only(func(f map[string]string) { f["Chart.yaml"] += "type: library\n" }), "it is a library chart",
			[]string{"installs nothing by itself", "Use the chart that depends on it."},
		},
		"missing dependencies": {only(func(f map[string]string) {
			f["Chart.yaml"] += "dependencies: [{name: redis, version: 1.0.0, repository: https://x.example}, {name: common, version: 1.0.0, repository: 'file://../common'}]\n"
		}), "dependencies are missing in it", []string{`not in its charts/ folder: "redis", "common".`, "helm pull --untar"}},
		"large file": {
			only(func(f map[string]string) { f["files/big"] = strings.Repeat("0", 5<<20+1) }), "a file in it is too large",
			[]string{`"demo/files/big" has 5242881 bytes, and Helm reads at most 5 MiB of a file`, ".helmignore"},
		},
		"large in all": {only(func(f map[string]string) {
			for i := range 21 {
				f[fmt.Sprintf("files/big%d", i)] = strings.Repeat("0", 5<<20)
			}
		}), "it is too large", []string{"more than 100 MiB uncompressed", ".helmignore"}},
		"large subcharts": {only(func(f map[string]string) {
			for i := range 3 {
				big := map[string]string{"Chart.yaml": "apiVersion: v2\nname: sub\nversion: 1.0.0\n"}
				for j := range 8 {
					big[fmt.Sprintf("big%d", j)] = strings.Repeat("0", 5<<20)
				}
				f[fmt.Sprintf("charts/sub%d.tgz", i)] = string(pack(t, "sub", big))
			}
		}), "it is too large", []string{"more than 100 MiB uncompressed"}},
		"link in a subchart": {only(func(f map[string]string) {
			f["charts/sub.tgz"] = string(with(t, tar.Header{Name: "demo/link", Typeflag: tar.TypeSymlink, Linkname: "/etc"}))
		}), "a path in it leads out of it", []string{`"demo/charts/sub.tgz/demo/link" is a link to "/etc"`}},
		"endless nesting": {nested(t, maxNesting+2), "its archives are nested too deep", []string{"lies in more than 10 archives", "Vendor the subcharts as folders."}},
	} {
		t.Run(name, func(t *testing.T) {
			wants(t, fetched(t, c.archive), "chart.repository", `Chart "demo": `+c.summary, c.details...)
		})
	}
	// A page by its first bytes alone is already noticed at the download; in a folder, only when it is loaded.
	path := write(t, t.TempDir(), map[string]string{"x.tgz": "<!doctype html>"}) + "/x.tgz"
	got := failure(t, source(t, nil), Ref{Path: path})
	wants(t, got, "chart.path", `Chart "`+path+`": it is a web page and no archive`, "HTML came in place of a chart's archive")
}

// nested is a chart in a chart in a chart, as archives.
func nested(t *testing.T, depth int) []byte {
	files := chartFiles("demo", "1.2.3")
	if depth > 0 {
		files["charts/demo.tgz"] = string(nested(t, depth-1))
	}
	return pack(t, "demo", files)
}

func TestGoodArchives(t *testing.T) {
	files := chartFiles("demo", "1.2.3")
	files["Chart.yaml"] += "deprecated: true\ndependencies: [{name: sub, version: 1.0.0}, {name: folder, version: 1.0.0}]\n"
	files["charts/sub-1.0.0.tgz"] = string(pack(t, "sub", chartFiles("sub", "1.0.0")))
	files["charts/folder/Chart.yaml"] = "apiVersion: v2\nname: folder\nversion: 1.0.0\n"
	// What tar on a Mac adds, and what Helm does not load.
	files["charts/._sub-1.0.0.tgz"] = "AppleDouble"
	archive := packEntries(t, func(w *tar.Writer) {
		// `git archive` begins with such a header.
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header", PAXRecords: map[string]string{"comment": "x"}}); err != nil {
			t.Fatal(err)
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "demo/", Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
		for name, content := range files {
			add(t, w, tar.Header{Name: "demo/" + name}, content)
		}
	})
	server, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/index.yaml" {
			_, _ = w.Write([]byte(indexOf(indexEntry{"demo", "1.2.3", "x.tgz", ""})))
			return
		}
		// Some servers take the archive's own compression for that of the transfer.
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(archive)
	}), plain)
	got := load(t, source(t, nil), demo(server.URL))
	if got.Digest != digestOf(archive) || len(got.Dependencies()) != 2 || !got.Metadata.Deprecated {
		t.Errorf("loaded %s with %d subcharts", got.Digest, len(got.Dependencies()))
	}
}
