package chart

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// Settings are the provider's `charts`.
type Settings struct {
	// RepositoryOverrides maps the URL of a repository to what is used in its place: another URL (https, oci), or a local
	// folder that holds <name>-<version>.tgz or the chart's own folder <name>.
	RepositoryOverrides map[string]string
	// CacheDir is where archives are kept from run to run; empty for terraform-provider-berth/charts in the user's cache
	// folder. Where it cannot be written to, charts are kept in memory only.
	CacheDir string
	// Credentials are used for repositories whose URL, after overrides, begins with the key; the longest key wins.
	Credentials map[string]Credential
	// UserAgent is how requests present themselves; empty for the provider's name.
	UserAgent string
}

// Credential is what a repository asks for.
type Credential struct {
	// Username and Password are for basic authentication, and for the token service of an OCI registry.
	Username, Password string
	// Token is a bearer token.
	Token string
	// CACertificate is PEM; it is trusted in addition to what the machine trusts.
	CACertificate string
}

// Source fetches charts and keeps what it fetched. It is safe for concurrent use.
type Source struct {
	settings Settings
	cache    cache
	// retryWait is how long the first retry waits; each later one waits twice as long.
	retryWait time.Duration

	flights  singleflight.Group
	mutex    sync.Mutex
	archives map[string]archive      // by what is wanted of which place; see key
	indexes  map[string]index        // by the URL of the repository
	tags     map[string][]string     // of a chart in an OCI registry: its versions, by URL and name
	clients  map[string]*http.Client // by CA certificate
}

// archive is a chart's archive that was checked: it is what its digest says, and it can be loaded.
type archive struct {
	data   []byte
	digest string
}

// fetchTimeout bounds the fetching of one chart, which a plan does not bound by itself. Our choice: long enough for the
// largest archive (maxArchive) and the largest index (maxIndex) over 2 Mbit/s.
const fetchTimeout = 5 * time.Minute

// NewSource makes a Source. It touches neither the network nor the disk.
func NewSource(settings Settings) *Source {
	if settings.UserAgent == "" {
		settings.UserAgent = "terraform-provider-berth"
	}
	dir := settings.CacheDir
	if dir == "" {
		if user, err := os.UserCacheDir(); err == nil {
			dir = filepath.Join(user, "terraform-provider-berth", "charts")
		}
	}
	return &Source{
		settings:  settings,
		cache:     cache{dir: dir},
		retryWait: 500 * time.Millisecond,
		archives:  map[string]archive{},
		indexes:   map[string]index{},
		tags:      map[string][]string{},
		clients:   map[string]*http.Client{},
	}
}

// Load gives a chart: a local one as it now is, any other from memory or the cache, or else from its repository. Each
// caller gets a copy of its own, to change as Helm does. However many callers want a chart at once, it is fetched once.
// Errors are *cluster.Problem: Validate's, and one for each way in which a repository, an archive or a local folder can
// be wrong. When there is one, nothing was cached.
func (s *Source) Load(ctx context.Context, ref Ref) (Chart, error) {
	where, err := s.locate(ref)
	if err != nil {
		return Chart{}, err
	}
	if where.remote == nil {
		return where.load(ref)
	}
	got, err := once(ctx, &s.flights, ref.subject(), key(ref, where), func() (archive, error) {
		if known, ok := s.known(ref, where); ok {
			return known, nil
		}
		ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
		defer cancel()
		data, err := s.fetch(ctx, where.remote, ref)
		if err != nil {
			return archive{}, err
		}
		got, err := verified(ref, data)
		if err != nil {
			return archive{}, err
		}
		s.cache.write(entryOf(ref, where), got)
		s.remember(ref, where, got)
		return got, nil
	})
	if err != nil {
		return Chart{}, err
	}
	return got.parse(ref)
}

// Cached gives a chart without touching the network: a local one, or one that is in memory or in the cache. It tells
// whether there was one; an error means that the Ref is wrong, or that a local chart is.
func (s *Source) Cached(ref Ref) (Chart, bool, error) {
	where, err := s.locate(ref)
	if err != nil {
		return Chart{}, false, err
	}
	if where.remote == nil {
		chart, err := where.load(ref)
		return chart, err == nil, err
	}
	known, ok := s.known(ref, where)
	if !ok {
		return Chart{}, false, nil
	}
	chart, err := known.parse(ref)
	return chart, err == nil, err
}

// known is what memory or the cache has of a chart.
func (s *Source) known(ref Ref, where place) (archive, bool) {
	s.mutex.Lock()
	got, ok := s.archives[key(ref, where)]
	s.mutex.Unlock()
	if ok {
		return got, true
	}
	if got, ok = s.cache.read(entryOf(ref, where), ref.Digest); ok {
		s.remember(ref, where, got)
	}
	return got, ok
}

func (s *Source) remember(ref Ref, where place, got archive) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.archives[key(ref, where)] = got
}

// fetch downloads a chart's archive, which nobody has checked yet.
func (s *Source) fetch(ctx context.Context, from *remote, ref Ref) ([]byte, error) {
	if from.url.Scheme == "oci" {
		data, _, err := from.pull(ctx, ref, from.image(ref))
		return data, err
	}
	listed, err := s.index(ctx, from)
	if err != nil {
		return nil, err
	}
	return s.download(ctx, from, ref, listed)
}

// index is the index of a repository, which is read once for all the charts that come from it.
func (s *Source) index(ctx context.Context, from *remote) (index, error) {
	return once(ctx, &s.flights, from.name(), "index\x00"+from.url.String(), func() (index, error) {
		s.mutex.Lock()
		listed, ok := s.indexes[from.url.String()]
		s.mutex.Unlock()
		if ok {
			return listed, nil
		}
		listed, err := from.index(ctx)
		if err != nil {
			return nil, err
		}
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.indexes[from.url.String()] = listed
		return listed, nil
	})
}

// key is the same for two callers who want the same of the same place.
func key(ref Ref, where place) string {
	return strings.Join([]string{"chart", where.remote.url.String(), ref.Name, ref.Version, ref.Digest}, "\x00")
}

// abandoned is the error of somebody whose context ended, which says nothing about the chart.
type abandoned struct{ error }

// once does something for all who want it at the same time, and gives each the result. Who is cancelled stops waiting;
// where the one who does it is cancelled, another of them does it.
func once[T any](ctx context.Context, group *singleflight.Group, what, key string, do func() (T, error)) (T, error) {
	for {
		done := group.DoChan(key, func() (any, error) {
			value, err := do()
			if err != nil && ctx.Err() != nil {
				err = abandoned{err}
			}
			return value, err
		})
		select {
		case <-ctx.Done():
			var none T
			return none, interrupted(what, ctx.Err())
		case result := <-done:
			value, _ := result.Val.(T)
			if _, given := errors.AsType[abandoned](result.Err); !given {
				return value, result.Err
			}
			if ctx.Err() != nil {
				return value, interrupted(what, ctx.Err())
			}
		}
	}
}
