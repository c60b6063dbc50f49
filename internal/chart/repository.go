package chart

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/agext/levenshtein"
	"helm.sh/helm/v3/pkg/repo"
	"sigs.k8s.io/yaml"
)

const (
	// maxIndex is the most that is read of an index. Helm sets no limit; the indexes of the largest public repositories
	// stay well below it, so this is for a server whose answer does not end.
	maxIndex = 50 << 20
	// mostNamed is how many names or versions an error lists.
	mostNamed = 5
)

// index is what an index.yaml says of each chart, as far as we need it: a parsed index of a large repository, kept
// whole, would take hundreds of megabytes.
type index map[string][]listing

// listing is one version of a chart in an index.
type listing struct {
	version, url, digest string
}

// index reads the index of a Helm repository.
func (r *remote) index(ctx context.Context) (index, error) {
	address, err := repo.ResolveReferenceURL(r.url.String(), "index.yaml")
	if err != nil {
		return nil, err // unreachable: the URL was parsed before
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, err // unreachable: it was made from a URL
	}
	q := request{
		remote: r, url: u, what: r.name(), limit: maxIndex,
		absent:  "it has no index (404)",
		missing: fmt.Sprintf("There is no %s, so this is no Helm repository. Correct chart.repository to the URL that `helm repo add` takes, or to oci://… for an OCI registry.", quoted(shown(address))),
	}
	body, err := q.do(ctx)
	if err != nil {
		return nil, err
	}
	listed, err := parseIndex(body)
	if err != nil {
		return nil, q.fail(err, "its index cannot be read", "%s is no index of a Helm repository: %s. Correct chart.repository, or have the repository's index built again (helm repo index).", quoted(shown(address)), cut(err.Error()))
	}
	return listed, nil
}

// parseIndex reads an index as Helm does, except that a malformed entry of one chart does not matter to another.
func parseIndex(data []byte) (index, error) {
	var file repo.IndexFile
	decode := func(data []byte, into any) error { return yaml.Unmarshal(data, into) }
	if json.Valid(data) { // a hundred times as fast where a repository writes JSON
		decode = json.Unmarshal
	}
	switch err := decode(data, &file); {
	case len(data) == 0:
		return nil, errors.New("it is empty")
	case err != nil:
		return nil, err
	case file.APIVersion == "":
		return nil, errors.New("it has no apiVersion")
	}
	listed := index{}
	for name, versions := range file.Entries {
		for _, version := range versions {
			if version == nil || version.Metadata == nil || version.Version == "" {
				continue
			}
			entry := listing{version: version.Version, digest: version.Digest}
			if len(version.URLs) > 0 {
				entry.url = version.URLs[0] // the one that Helm takes
			}
			listed[name] = append(listed[name], entry)
		}
	}
	return listed, nil
}

// listings are the versions of a chart that an index has, in its order.
func (i index) listings(ref Ref, repository string) ([]listing, error) {
	if versions, ok := i[ref.Name]; ok {
		return versions, nil
	}
	if len(i) == 0 {
		return nil, ref.fail("chart.name", "it is not in its repository", "%s lists no chart at all. Correct chart.repository.", quoted(repository))
	}
	return nil, ref.fail("chart.name", "it is not in its repository", "%s has no chart of this name among its %d. The nearest: %s. Correct chart.name or chart.repository.", quoted(repository), len(i), list(nearestNames(ref.Name, i)))
}

// find gives the chart's version that is wanted.
func (i index) find(ref Ref, repository string) (listing, error) {
	versions, err := i.listings(ref, repository)
	if err != nil {
		return listing{}, err
	}
	// The same text first: a repository may hold both 1.2.3 and v1.2.3.
	for _, same := range []func(string) bool{
		func(version string) bool { return version == ref.Version },
		func(version string) bool { return sameVersion(version, ref.Version) },
	} {
		if at := slices.IndexFunc(versions, func(l listing) bool { return same(l.version) }); at >= 0 {
			return versions[at], nil
		}
	}
	var names []string
	for _, l := range versions {
		names = append(names, l.version)
	}
	return listing{}, ref.noVersion(names, quoted(repository))
}

// noVersion is the error for a version that is not among those that there are.
func (r Ref) noVersion(versions []string, where string) error {
	if len(versions) == 0 {
		return r.fail("chart.version", fmt.Sprintf("version %s is not in its repository", r.Version), "%s has no version of this chart. Correct chart.repository or chart.name.", where)
	}
	return r.fail("chart.version", fmt.Sprintf("version %s is not in its repository", r.Version), "%s has %s of this chart. The nearest: %s. Set chart.version to one of them.", where, count(len(versions), "version"), list(nearestVersions(r.Version, versions)))
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// nearestNames are the names of charts that differ least from a name.
func nearestNames(name string, among index) []string {
	distance := make(map[string]int, len(among))
	names := make([]string, 0, len(among))
	for other := range among {
		names = append(names, other)
		distance[other] = levenshtein.Distance(strings.ToLower(name), strings.ToLower(other), nil)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(distance[a]-distance[b], strings.Compare(a, b))
	})
	return names[:min(mostNamed, len(names))]
}

// nearestVersions are the versions on both sides of a version, the newest first. What is no semantic version is left out.
func nearestVersions(version string, among []string) []string {
	var sorted []*semver.Version
	for _, text := range among {
		if v, err := semver.NewVersion(text); err == nil {
			sorted = append(sorted, v)
		}
	}
	slices.SortFunc(sorted, func(a, b *semver.Version) int { return b.Compare(a) })
	first := 0
	if wanted, err := semver.NewVersion(version); err == nil {
		above, _ := slices.BinarySearchFunc(sorted, wanted, func(a, b *semver.Version) int { return b.Compare(a) })
		first = max(0, min(above-mostNamed/2, len(sorted)-mostNamed))
	}
	var nearest []string
	for _, v := range sorted[first:min(first+mostNamed, len(sorted))] {
		nearest = append(nearest, v.Original())
	}
	return nearest
}

// download gets the archive that an index lists.
func (s *Source) download(ctx context.Context, from *remote, ref Ref, listed index) ([]byte, error) {
	repository := shown(from.url.String())
	found, err := listed.find(ref, repository)
	if err != nil {
		return nil, err
	}
	if found.url == "" {
		return nil, ref.fail("chart.version", "its repository names no archive", "The index of %s lists version %s without a URL. Set chart.version to another version, or have the index built again (helm repo index).", quoted(repository), found.version)
	}
	address, err := repo.ResolveReferenceURL(from.url.String(), found.url)
	var u *url.URL
	if err == nil {
		u, err = url.Parse(address)
	}
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "oci" {
		return nil, ref.fail("chart.version", "the URL of its archive is not usable", "The index of %s lists version %s with %s as its archive, which is neither a relative URL nor one of https:// or oci://. Have the index built again (helm repo index), or put the chart into a folder and set chart.path.", quoted(repository), found.version, quoted(shown(found.url)))
	}
	var data []byte
	var manifest string
	if u.Scheme == "oci" {
		data, manifest, err = s.pullListed(ctx, ref, found, u)
	} else {
		q := request{
			remote: from, url: u, what: "Archive of chart " + quoted(ref.Name), limit: maxArchive,
			absent:  "it is not where the index says (404)",
			missing: fmt.Sprintf("The index of %s lists %s for version %s, and nothing is there. Set chart.version to another version, or have the repository mended.", quoted(repository), quoted(shown(address)), found.version),
		}
		data, err = q.do(ctx)
	}
	if err != nil {
		return nil, err
	}
	// Of an archive in an OCI registry, an index may give the digest of the manifest.
	if want := strings.TrimPrefix(found.digest, "sha256:"); want != "" && digestOf(data) != "sha256:"+want && manifest != "sha256:"+want {
		return nil, ref.fail("chart.repository", "its archive is not the one that the index lists", "The index of %s gives version %s the digest sha256:%s, and %s has %s: it was replaced, or something in between changed it. Nothing was kept of it. Have the repository's index built again, or set chart.version to another version.", quoted(repository), found.version, cut(want), quoted(shown(address)), digestOf(data))
	}
	return data, nil
}

// pullListed gets an archive that the index of a Helm repository lists in an OCI registry. The repository's credential
// is not for that registry: only one for the registry's own URL is used.
func (s *Source) pullListed(ctx context.Context, ref Ref, found listing, u *url.URL) (data []byte, manifest string, err error) {
	folder := canonical(u.String())
	credential := s.credentialFor(folder)
	client, err := s.client(folder, credential)
	if err != nil {
		return nil, "", err
	}
	registry := &remote{url: u, credential: credential, client: client, agent: s.settings.UserAgent}
	image := u.Host + u.Path
	if !strings.Contains(path.Base(u.Path), ":") {
		image += ":" + found.version
	}
	return registry.pull(ctx, ref, image)
}
