package chart

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/registry"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// image is the reference of a chart in an OCI registry: the folder, the name, and the version as the tag. Helm's client
// writes the + of a version as _.
func (r *remote) image(ref Ref) string {
	return r.url.Host + r.url.Path + "/" + ref.Name + ":" + ref.Version
}

// pull gets a chart's archive from an OCI registry, and the digest of its manifest.
func (r *remote) pull(ctx context.Context, ref Ref, image string) (data []byte, manifest string, err error) {
	q := r.registryRequest()
	client, err := q.registryClient(ctx)
	if err != nil {
		return nil, "", err
	}
	result, err := client.Pull(image)
	if err != nil {
		return nil, "", q.notPulled(ref, image, client, err)
	}
	if ref.Digest == result.Manifest.Digest && ref.Digest != result.Chart.Digest {
		return nil, "", ref.fail("chart.digest", "its digest is that of the manifest", "chart.digest is the digest of the OCI manifest of version %s, which is what `helm push` and `helm pull` print. The digest of the chart's archive is %s. Check that this is the chart you mean, and set chart.digest to the latter. Nothing was kept of it.", ref.Version, result.Chart.Digest)
	}
	return result.Chart.Data, result.Manifest.Digest, nil
}

// registryRequest is what is asked of a registry, for errors.
func (r *remote) registryRequest() request {
	return request{remote: r, url: &url.URL{Scheme: "https", Host: r.url.Host}, what: r.name(), limit: maxArchive}
}

// registryClient is Helm's client for a registry, with our credential and limits. It serves one call.
func (q request) registryClient(ctx context.Context) (*registry.Client, error) {
	r := q.remote
	carried := &http.Client{Transport: carrier{ctx: ctx, base: r.client.Transport, limit: q.limit}}
	authorizer := auth.Client{
		Client: carried,
		Credential: auth.StaticCredential(r.url.Host, auth.Credential{
			Username: r.credential.Username, Password: r.credential.Password, AccessToken: r.credential.Token,
		}),
		Cache: auth.NewCache(),
	}
	authorizer.SetUserAgent(r.agent)
	options := []registry.ClientOption{
		registry.ClientOptHTTPClient(carried),
		registry.ClientOptAuthorizer(authorizer),
		// The credentials that this machine has for Helm and Docker are not ours to use. The client opens its file of them
		// all the same, so it gets one that does not exist.
		registry.ClientOptCredentialsFile(filepath.Join(os.TempDir(), "terraform-provider-berth", "no-credentials.json")),
	}
	if loopback(r.url.Hostname()) {
		plain, err := r.speaksPlainHTTP(ctx)
		if err != nil {
			return nil, q.unreachable(err)
		}
		if plain {
			options = append(options, registry.ClientOptPlainHTTP())
		}
	}
	client, err := registry.NewClient(options...)
	if err != nil {
		return nil, q.fail(nil, "the registry client cannot be made", "%s. Check the Docker configuration of this machine.", reason(err))
	}
	return client, nil
}

// speaksPlainHTTP asks a registry on this machine whether it goes without TLS.
func (r *remote) speaksPlainHTTP(ctx context.Context) (bool, error) {
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.url.Host+"/v2/", nil)
	if err != nil {
		return false, err
	}
	response, err := r.client.Do(ask)
	if err == nil {
		response.Body.Close()
		return false, nil
	}
	if aboutTLS(err) == tlsPlain {
		return true, nil
	}
	return false, err
}

// notPulled is about a chart that Helm's registry client did not get.
func (q request) notPulled(ref Ref, image string, client *registry.Client, err error) error {
	repository := image[:strings.LastIndex(image, ":")]
	page, isPage := errors.AsType[webPageError](err)
	answer, answered := errors.AsType[*errcode.ErrorResponse](err)
	switch {
	case isPage:
		return q.webPage(page.from)
	case errors.Is(err, errTooLarge):
		return q.tooLarge()
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return q.denied("401 Unauthorized")
	case strings.Contains(err.Error(), "missing username or password for basic auth"): // the error of auth.Client has no type
		return q.fail(nil, "it wants a user name and a password", "%s takes basic authentication, and the provider's charts.credentials have no username and password for %s. Set both.", q.url.Host, quoted(shown(q.remote.url.String())))
	case answered && answer.StatusCode != http.StatusNotFound:
		return q.refused(answer.StatusCode)
	case answered, errors.Is(err, errdef.ErrNotFound):
		return q.noTag(ref, repository, client)
	case errors.Is(err, errdef.ErrInvalidReference):
		return ref.fail("chart.repository", "there can be no such chart in an OCI registry", "%q is no reference of the OCI: a host, then lower-case letters, digits and . _ - between slashes. Correct chart.repository and chart.name.", cut(image))
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrTrailingData), strings.Contains(err.Error(), "mismatch Content-Length"):
		return q.fail(nil, "it sent other content than it promised", "What %s sent for %s does not have the digest or size that its manifest says: it is damaged there, or something in between changed it. Nothing was kept of it. Push the chart again, or name a mirror in the provider's charts.repository_overrides.", q.url.Host, quoted("oci://"+image))
	case strings.Contains(err.Error(), "manifest does not contain"), strings.Contains(err.Error(), "could not load config"): // no types either
		return ref.fail("chart.name", "what its repository has is no chart", "%s is there, and is something else than a Helm chart, such as a container image. Correct chart.repository and chart.name.", quoted("oci://"+image))
	}
	return q.unreachable(err)
}

// noTag finds out why a chart is not in a registry: for want of the repository, or of the tag.
func (q request) noTag(ref Ref, repository string, client *registry.Client) error {
	versions, err := client.Tags(repository)
	answer, answered := errors.AsType[*errcode.ErrorResponse](err)
	switch where := quoted("oci://" + repository); {
	case answered && answer.StatusCode == http.StatusNotFound, errors.Is(err, errdef.ErrNotFound):
		return ref.notInRegistry(repository)
	case err != nil:
		return ref.fail("chart.version", fmt.Sprintf("version %s is not in its repository", ref.Version), "%s has no such tag, and does not tell which it has. Correct chart.version, chart.repository or chart.name.", where)
	case slices.ContainsFunc(versions, func(version string) bool { return version == ref.Version }):
		return q.fail(nil, "it has lost a chart's content", "%s has the tag for version %s, but not what the tag stands for. Push the chart again, or set chart.version to another version.", where, ref.Version)
	default:
		return ref.noVersion(versions, where)
	}
}

// notInRegistry is the error for a chart of which a registry has nothing.
func (r Ref) notInRegistry(repository string) error {
	return r.fail("chart.name", "it is not in its registry", "There is no %s. Correct chart.repository, which is the folder that the chart is in, or chart.name.", quoted("oci://"+repository))
}

var errTooLarge = errors.New("the answer is too large")

// webPageError is HTML in place of a registry's answer.
type webPageError struct{ from *url.URL }

func (e webPageError) Error() string { return e.from.Host + " answered with a web page" }

// carrier brings into Helm's registry client what it has no option for: a context, and limits on what is read.
type carrier struct {
	ctx   context.Context
	base  http.RoundTripper
	limit int64
}

// RoundTrip sends a request under the carrier's context.
func (c carrier) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.base.RoundTrip(request.WithContext(c.ctx))
	if err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch {
	case response.StatusCode == http.StatusOK && kind == "text/html":
		response.Body.Close()
		return nil, webPageError{from: response.Request.URL}
	case response.ContentLength > c.limit && request.Method != http.MethodHead:
		response.Body.Close()
		return nil, errTooLarge
	}
	response.Body = &limited{ReadCloser: response.Body, left: c.limit}
	return response, nil
}

// limited is an answer that ends in an error where it is too long.
type limited struct {
	io.ReadCloser
	left int64
}

// Read reads on until the limit is passed.
func (l *limited) Read(buffer []byte) (int, error) {
	n, err := l.ReadCloser.Read(buffer)
	if l.left -= int64(n); l.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}
