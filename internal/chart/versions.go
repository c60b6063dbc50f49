package chart

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v3/pkg/chartutil"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// Versions gives the versions that there are of a chart, the newest first and each as it is written there: those that
// the index of its repository lists, the tags of its OCI registry, or what a local folder has that overrides it. Only
// ref.Repository and ref.Name count. What is no semantic version is left out. A repository is asked once, and what it
// said is kept in memory; a local folder is read each time. Errors are *cluster.Problem, as Load's: also where the
// repository has no such chart.
func (s *Source) Versions(ctx context.Context, ref Ref) ([]string, error) {
	// Any version does for the checks of the rest.
	ref = Ref{Repository: ref.Repository, Name: ref.Name, Version: "0.0.0"}
	if problems := ref.Validate(); len(problems) > 0 {
		return nil, problems[0]
	}
	from, folder, err := s.repository(ref.Repository)
	if err != nil {
		return nil, err
	}
	if from == nil {
		return localVersions(ref, folder)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	if from.url.Scheme == "oci" {
		return s.tagsOf(ctx, from, ref)
	}
	listed, err := s.index(ctx, from)
	if err != nil {
		return nil, err
	}
	listings, err := listed.listings(ref, shown(from.url.String()))
	if err != nil {
		return nil, err
	}
	versions := make([]string, 0, len(listings))
	for _, listing := range listings {
		versions = append(versions, listing.version)
	}
	return newestFirst(versions), nil
}

// tagsOf are the versions of a chart in a registry, which is asked once for them.
func (s *Source) tagsOf(ctx context.Context, from *remote, ref Ref) ([]string, error) {
	key := strings.Join([]string{"tags", from.url.String(), ref.Name}, "\x00")
	versions, err := once(ctx, &s.flights, from.name(), key, func() ([]string, error) {
		s.mutex.Lock()
		known, ok := s.tags[key]
		s.mutex.Unlock()
		if ok {
			return known, nil
		}
		tags, err := from.tags(ctx, ref)
		if err != nil {
			return nil, err
		}
		tags = newestFirst(tags)
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.tags[key] = tags
		return tags, nil
	})
	return slices.Clone(versions), err
}

// tags asks an OCI registry which versions it has of a chart.
func (r *remote) tags(ctx context.Context, ref Ref) ([]string, error) {
	q := r.registryRequest()
	client, err := q.registryClient(ctx)
	if err != nil {
		return nil, err
	}
	repository := r.url.Host + r.url.Path + "/" + ref.Name
	tags, err := client.Tags(repository)
	answer, answered := errors.AsType[*errcode.ErrorResponse](err)
	switch {
	case answered && answer.StatusCode == http.StatusNotFound, errors.Is(err, errdef.ErrNotFound):
		return nil, ref.notInRegistry(repository)
	case err != nil:
		return nil, q.notPulled(ref, r.image(ref), client, err)
	}
	return tags, nil
}

// localVersions are the versions of a chart in a folder that stands for its repository: of the archives
// <name>-<version>.tgz and of the chart's own folder <name>, which are what localOverride looks for.
func localVersions(ref Ref, folder string) ([]string, error) {
	var versions []string
	base := path.Base(ref.Name)
	entries, failed := os.ReadDir(folder)
	for _, entry := range entries {
		version, archive := strings.CutSuffix(entry.Name(), ".tgz")
		if version, named := strings.CutPrefix(version, base+"-"); archive && named {
			versions = append(versions, version)
		}
	}
	if meta, err := chartutil.LoadChartfile(filepath.Join(folder, base, chartutil.ChartfileName)); err == nil {
		versions = append(versions, meta.Version)
	}
	if versions = newestFirst(versions); len(versions) > 0 {
		return versions, nil
	}
	why := fmt.Sprintf("neither an archive %q nor a chart's folder %q is there", base+"-<version>.tgz", base)
	if failed != nil {
		why = fmt.Sprintf("it cannot be read: %s", failed)
	}
	return nil, ref.fail("charts.repository_overrides", "it is not in the folder that overrides its repository",
		"The provider's charts.repository_overrides has the folder %q in place of %s, and %s. Put the archives there (helm pull), or take the override away.",
		folder, quoted(shown(ref.Repository)), why)
}

// newestFirst sorts versions and drops what is none and what is there twice. Two that mean the same stay in their order.
func newestFirst(versions []string) []string {
	var parsed []*semver.Version
	for _, text := range versions {
		if v, err := semver.NewVersion(text); err == nil {
			parsed = append(parsed, v)
		}
	}
	slices.SortStableFunc(parsed, func(a, b *semver.Version) int { return b.Compare(a) })
	sorted := make([]string, 0, len(parsed))
	for _, v := range parsed {
		if !slices.Contains(sorted, v.Original()) {
			sorted = append(sorted, v.Original())
		}
	}
	return sorted
}
