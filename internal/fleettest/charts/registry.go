package charts

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	oci "github.com/google/go-containerregistry/pkg/registry"
	helm "helm.sh/helm/v3/pkg/registry"
)

// OCIRegistry is an OCI registry that has charts.
type OCIRegistry struct {
	*Server

	registry http.Handler
}

// Registry serves the archives, as Package gives them, from the folder oci://127.0.0.1:<port>/charts of a registry
// without TLS, which a client has to be told.
func Registry(t testing.TB, archives ...string) *OCIRegistry {
	t.Helper()
	return newRegistry(t, false, archives)
}

// RegistryTLS is Registry with TLS, which a client trusts that trusts the server's CA.
func RegistryTLS(t testing.TB, archives ...string) *OCIRegistry {
	t.Helper()
	return newRegistry(t, true, archives)
}

func newRegistry(t testing.TB, tls bool, archives []string) *OCIRegistry {
	t.Helper()
	r := &OCIRegistry{registry: oci.New(oci.Logger(log.New(io.Discard, "", 0)))}
	r.Server = serve(t, r.registry, tls)
	r.URL = "oci://" + r.Host() + "/charts"
	for _, archive := range archives {
		r.Add(t, archive)
	}
	return r
}

// Host is the registry's address, 127.0.0.1:<port>.
func (r *OCIRegistry) Host() string { return r.http.Listener.Addr().String() }

// Add pushes one more archive, with Helm's own client; one of the same name and version is replaced. It is no request in
// the log, and needs no credentials.
func (r *OCIRegistry) Add(t testing.TB, file string) {
	t.Helper()
	client, err := helm.NewClient(
		helm.ClientOptPlainHTTP(),
		helm.ClientOptHTTPClient(&http.Client{Transport: within{r.registry}}),
		helm.ClientOptCredentialsFile(filepath.Join(t.TempDir(), "credentials.json")),
	)
	if err != nil {
		t.Fatal(err)
	}
	added := open(t, file)
	ref := strings.TrimPrefix(r.URL, "oci://") + "/" + added.meta.Name + ":" + added.meta.Version
	if _, err := client.Push(added.content, ref); err != nil {
		t.Fatalf("charts: pushing %s: %v", ref, err)
	}
}

// within sends requests to a handler without a network.
type within struct{ http.Handler }

// RoundTrip makes the request a server's and answers it.
func (w within) RoundTrip(r *http.Request) (*http.Response, error) {
	request := r.Clone(r.Context())
	if request.Body == nil {
		request.Body = http.NoBody
	}
	recorder := httptest.NewRecorder()
	w.ServeHTTP(recorder, request)
	response := recorder.Result()
	response.Request = r
	return response, nil
}
