package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// chartFiles are the files of a small chart.
func chartFiles(name, version string) map[string]string {
	return map[string]string{
		"Chart.yaml":          fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %s\nappVersion: \"9\"\n", name, version),
		"values.yaml":         "color: blue\n",
		"templates/one.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata: {color: \"{{ .Values.color }}\"}\n",
		"templates/NOTES.txt": "done\n",
	}
}

// pack makes an archive of files below a folder of the chart's name.
func pack(t testing.TB, folder string, files map[string]string) []byte {
	t.Helper()
	return packEntries(t, func(w *tar.Writer) {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			add(t, w, tar.Header{Name: folder + "/" + name}, files[name])
		}
	})
}

func packEntries(t testing.TB, write func(*tar.Writer)) []byte {
	t.Helper()
	var buffer bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&buffer, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(zipped)
	write(w)
	if err := errors.Join(w.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

func add(t testing.TB, w *tar.Writer, header tar.Header, content string) {
	t.Helper()
	header.Mode, header.Size = 0o644, int64(len(content))
	if err := w.WriteHeader(&header); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, content); err != nil {
		t.Fatal(err)
	}
}

// write puts files into a folder.
func write(t testing.TB, folder string, files map[string]string) string {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(folder, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// asked is a handler that counts requests and remembers their headers.
type asked struct {
	http.Handler
	mutex   sync.Mutex
	paths   []string
	headers []http.Header
}

func (a *asked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mutex.Lock()
	a.paths = append(a.paths, r.Method+" "+r.URL.Path)
	a.headers = append(a.headers, r.Header.Clone())
	a.mutex.Unlock()
	a.Handler.ServeHTTP(w, r)
}

func (a *asked) count() int {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return len(a.paths)
}

// header gives what each request had for a header.
func (a *asked) header(name string) []string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	var values []string
	for _, header := range a.headers {
		values = append(values, header.Get(name))
	}
	return values
}

// serve starts a server that is silent about broken handshakes.
func serve(t testing.TB, handler http.Handler, start func(*httptest.Server)) (*httptest.Server, *asked) {
	t.Helper()
	counted := &asked{Handler: handler}
	server := httptest.NewUnstartedServer(counted)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	start(server)
	t.Cleanup(server.Close)
	return server, counted
}

func plain(s *httptest.Server)  { s.Start() }
func secure(s *httptest.Server) { s.StartTLS() }

// files is a handler that serves contents by path, and 404 for the rest.
func files(contents map[string]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, ok := contents[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, content)
	})
}

// answer is a handler that answers everything alike.
func answer(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// indexEntry is a line of an index.
type indexEntry struct{ name, version, url, digest string }

func indexOf(entries ...indexEntry) string {
	byName := map[string][]indexEntry{}
	for _, e := range entries {
		byName[e.name] = append(byName[e.name], e)
	}
	var text strings.Builder
	text.WriteString("apiVersion: v1\nentries:\n")
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		fmt.Fprintf(&text, "  %s:\n", name)
		for _, e := range byName[name] {
			fmt.Fprintf(&text, "  - {name: %s, version: %q, apiVersion: v2, digest: %q, urls: [%q]}\n", e.name, e.version, e.digest, e.url)
		}
	}
	return text.String()
}

// repository serves one chart, "demo" 1.2.3, as a Helm repository below /charts.
func repository(t testing.TB, start func(*httptest.Server)) (*httptest.Server, *asked, []byte) {
	t.Helper()
	archive := pack(t, "demo", chartFiles("demo", "1.2.3"))
	server, counted := serve(t, files(map[string]string{
		"/charts/index.yaml":     indexOf(indexEntry{"demo", "1.2.3", "demo-1.2.3.tgz", strings.TrimPrefix(digestOf(archive), "sha256:")}),
		"/charts/demo-1.2.3.tgz": string(archive),
	}), start)
	return server, counted, archive
}

// source makes a Source with a cache of its own, whose retries do not wait.
func source(t testing.TB, change func(*Settings)) *Source {
	t.Helper()
	settings := Settings{CacheDir: filepath.Join(t.TempDir(), "cache")}
	if change != nil {
		change(&settings)
	}
	s := NewSource(settings)
	s.retryWait = time.Microsecond
	return s
}

func certificate(server *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

func demo(repository string) Ref { return Ref{Repository: repository, Name: "demo", Version: "1.2.3"} }

// load loads a chart that has to be there.
func load(t testing.TB, s *Source, ref Ref) Chart {
	t.Helper()
	got, err := s.Load(t.Context(), ref)
	if err != nil {
		t.Fatalf("loading %+v: %v", ref, err)
	}
	return got
}

// failure loads a chart that must not load, and gives the error, which has to be a problem with a remedy and to hold
// nothing secret.
func failure(t testing.TB, s *Source, ref Ref) *cluster.Problem {
	t.Helper()
	got, err := s.Load(t.Context(), ref)
	if err == nil {
		t.Fatalf("%+v loaded as %s", ref, got.Name())
	}
	return problem(t, err)
}

const secret = "s3cr3t-0f-the-repository"

func problem(t testing.TB, err error) *cluster.Problem {
	t.Helper()
	found, ok := err.(*cluster.Problem) //nolint:errorlint // the error itself, not a cause, has to be the diagnostic
	if !ok {
		t.Fatalf("%T is no problem: %v", err, err)
	}
	if found.Attribute == "" || found.Detail == "" || !strings.HasSuffix(found.Detail, ".") {
		t.Errorf("incomplete problem: %+v", found)
	}
	for cause := error(found); cause != nil; cause = errors.Unwrap(cause) {
		if strings.Contains(cause.Error(), secret) {
			t.Errorf("the error %T shows a secret: %v", cause, cause)
		}
	}
	return found
}

// wants checks an error's attribute and summary, and what its detail says.
func wants(t testing.TB, got *cluster.Problem, attribute, summary string, details ...string) {
	t.Helper()
	if got.Attribute != attribute || got.Summary != summary {
		t.Errorf("got %s: %s\nwant %s: %s", got.Attribute, got.Summary, attribute, summary)
	}
	for _, detail := range details {
		if !strings.Contains(got.Detail, detail) {
			t.Errorf("the detail\n%s\ndoes not say\n%s", got.Detail, detail)
		}
	}
}

// unwritten checks that nothing is kept in a Source's cache.
func unwritten(t testing.TB, s *Source) {
	t.Helper()
	if kept := cached(t, s); len(kept) > 0 {
		t.Errorf("the cache holds %v", kept)
	}
}

// cached are the files in a Source's cache.
func cached(t testing.TB, s *Source) []string {
	t.Helper()
	var found []string
	_ = filepath.WalkDir(s.cache.dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			found = append(found, path)
		}
		return nil
	})
	return found
}

func proxyURL(server *httptest.Server) (*url.URL, error) { return url.Parse(server.URL) }

// retrying is the retrying client below a standard one.
func retrying(t testing.TB, client *http.Client) *retryablehttp.Client {
	t.Helper()
	transport, ok := client.Transport.(*retryablehttp.RoundTripper)
	if !ok {
		t.Fatalf("%T does not retry", client.Transport)
	}
	return transport.Client
}
