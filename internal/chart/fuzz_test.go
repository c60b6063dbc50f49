package chart

import (
	"archive/tar"
	"bytes"
	"fmt"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
)

// FuzzArchive: whatever a repository sends as an archive, it is a chart or an error, and no panic.
func FuzzArchive(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte("<html>"))
	f.Add(pack(f, "demo", chartFiles("demo", "1.2.3")))
	f.Add(nestedIn(f))
	f.Fuzz(func(t *testing.T, data []byte) { tryArchive(t, data) })
}

// FuzzChartFiles fuzzes below the compression, which FuzzArchive seldom gets past.
func FuzzChartFiles(f *testing.F) {
	f.Add("demo/templates/x.yaml", byte(tar.TypeReg), "apiVersion: v2\nname: demo\nversion: 1.2.3\n", "a: b", "x", "dependencies: [{name: x}]")
	f.Add("demo/charts/x.tgz", byte(tar.TypeReg), "name: demo\nversion: 1.2.3\ndependencies: [null]\nmaintainers: [null]\n", "null", "x", "null")
	f.Add("../x", byte(tar.TypeSymlink), "null", "", "", "")
	f.Fuzz(func(t *testing.T, name string, kind byte, chart, values, content, lock string) {
		data := packEntries(t, func(w *tar.Writer) {
			add(t, w, tar.Header{Name: "demo/Chart.yaml"}, chart)
			add(t, w, tar.Header{Name: "demo/values.yaml"}, values)
			add(t, w, tar.Header{Name: "demo/Chart.lock"}, lock)
			add(t, w, tar.Header{Name: "demo/requirements.yaml"}, lock)
			header := tar.Header{Name: name, Typeflag: kind, Mode: 0o644, Size: int64(len(content))}
			if w.WriteHeader(&header) == nil { // else nobody could have made such an archive
				_, _ = fmt.Fprint(w, content)
			}
		})
		tryArchive(t, data)
	})
}

func tryArchive(t *testing.T, data []byte) {
	got, err := verified(demo("https://charts.example.com"), data)
	if err != nil {
		_ = problem(t, err)
		return
	}
	chart, err := got.parse(Ref{})
	if err != nil || chart.Chart == nil || chart.Digest != digestOf(data) {
		t.Errorf("what was verified does not load: %v", err)
	}
	if files, err := loader.LoadArchiveFiles(bytes.NewReader(data)); err == nil {
		contentSum(files, 0)
	}
}

func nestedIn(f *testing.F) []byte {
	files := chartFiles("demo", "1.2.3")
	files["charts/sub.tgz"] = string(pack(f, "sub", chartFiles("sub", "1.0.0")))
	files["charts/folder/Chart.yaml"] = "name: folder\nversion: 1.0.0\n"
	return pack(f, "demo", files)
}

// FuzzIndex: whatever a repository sends as its index, finding a chart in it gives the chart or an error, and no panic.
func FuzzIndex(f *testing.F) {
	for _, text := range []string{
		"", "<html>", "null", "apiVersion: v1", "apiVersion: v1\nentries: {demo: [null, {}, {version: x}, {version: 1.2.3, urls: [a]}]}",
		`{"apiVersion":"v1","entries":{"demo":[{"version":"1.2.3+a","dependencies":[null]}]}}`, "a: &a [*a]", "entries: {demo: 7}",
		indexOf(indexEntry{"demo", "1.2.3", "x.tgz", "00"}, indexEntry{"demo", "v1.0.0", "../x", ""}, indexEntry{"other", "1.2.3", "", ""}),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		listed, err := parseIndex(data)
		if err != nil {
			return
		}
		for _, ref := range []Ref{demo("https://charts.example.com"), {Name: "demi", Version: "9.0.0"}} {
			if found, err := listed.find(ref, "https://charts.example.com"); err == nil && !sameVersion(found.version, ref.Version) {
				t.Errorf("version %s was found for %s", found.version, ref.Version)
			} else if err != nil {
				_ = problem(t, err)
			}
		}
	})
}
