package charts

import (
	"bytes"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"helm.sh/helm/v3/pkg/repo"
)

// HTTPRepository is a chart repository: an index.yaml, and archives beside it.
type HTTPRepository struct {
	*Server

	content   sync.Mutex
	index     *repo.IndexFile
	indexFile []byte // what is served of it
	archives  map[string][]byte
}

// Repository serves the archives, as Package gives them, at http://127.0.0.1:<port>/charts.
func Repository(t testing.TB, archives ...string) *HTTPRepository {
	t.Helper()
	return newRepository(t, false, archives)
}

// RepositoryTLS is Repository at an https:// URL, which a client trusts that trusts the server's CA.
func RepositoryTLS(t testing.TB, archives ...string) *HTTPRepository {
	t.Helper()
	return newRepository(t, true, archives)
}

func newRepository(t testing.TB, tls bool, archives []string) *HTTPRepository {
	t.Helper()
	r := &HTTPRepository{index: repo.NewIndexFile(), archives: map[string][]byte{}}
	handler := http.NewServeMux()
	handler.HandleFunc("GET /charts/index.yaml", func(w http.ResponseWriter, _ *http.Request) {
		r.content.Lock()
		index := r.indexFile
		r.content.Unlock()
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(index)
	})
	handler.HandleFunc("GET /charts/{archive}", func(w http.ResponseWriter, request *http.Request) {
		r.content.Lock()
		archive, found := r.archives[request.PathValue("archive")]
		r.content.Unlock()
		if !found {
			http.NotFound(w, request)
			return
		}
		http.ServeContent(w, request, request.PathValue("archive"), time.Time{}, bytes.NewReader(archive))
	})
	r.Server = serve(t, handler, tls)
	r.URL = r.http.URL + "/charts"
	r.EditIndex(t, func(*repo.IndexFile) {})
	for _, archive := range archives {
		r.Add(t, archive)
	}
	return r
}

// Add publishes one more archive; one of the same name and version is replaced.
func (r *HTTPRepository) Add(t testing.TB, file string) {
	t.Helper()
	added := open(t, file)
	r.EditIndex(t, func(index *repo.IndexFile) {
		var others repo.ChartVersions
		for _, other := range index.Entries[added.meta.Name] {
			if other.Version != added.meta.Version {
				others = append(others, other)
			}
		}
		index.Entries[added.meta.Name] = others
		if err := index.MustAdd(added.meta, added.name, "", digest.FromBytes(added.content).Encoded()); err != nil {
			t.Fatal(err)
		}
		index.SortEntries()
		r.archives[added.name] = added.content
	})
}

// EditIndex changes what index.yaml says, for an index that is wrong about its archives. The archives' URLs in it are
// relative.
func (r *HTTPRepository) EditIndex(t testing.TB, edit func(*repo.IndexFile)) {
	t.Helper()
	r.content.Lock()
	defer r.content.Unlock()
	edit(r.index)
	r.indexFile = marshal(t, r.index)
}
