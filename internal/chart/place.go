package chart

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/berthdev/terraform-provider-berth/internal/cluster"
)

// place is where a chart is, after overrides: in a remote repository, or in the local folder or archive at path.
type place struct {
	remote *remote
	path   string
	// overrides is the URL of the repository in whose place path is.
	overrides string
}

// remote is a repository that requests go to.
type remote struct {
	url        *url.URL
	credential Credential
	client     *http.Client
	agent      string
}

// name is how errors name the repository.
func (r *remote) name() string { return "Chart repository " + quoted(shown(r.url.String())) }

// locate checks a Ref and says where its chart is.
func (s *Source) locate(ref Ref) (place, error) {
	if problems := ref.Validate(); len(problems) > 0 {
		return place{}, problems[0]
	}
	if ref.Path != "" {
		return place{path: ref.Path}, nil
	}
	from, folder, err := s.repository(ref.Repository)
	if err != nil {
		return place{}, err
	}
	if from == nil {
		return localOverride(ref, folder)
	}
	return place{remote: from}, nil
}

// repository is what is used of a repository, after overrides: one that requests go to, or else a local folder.
func (s *Source) repository(name string) (*remote, string, error) {
	repository := canonical(name)
	target := repository
	for from, to := range s.settings.RepositoryOverrides {
		if canonical(from) == repository {
			target = to
		}
	}
	if !strings.Contains(target, "://") {
		return nil, target, nil
	}
	if why := badRepository(target); why != "" {
		return nil, "", &cluster.Problem{
			Attribute: "charts.repository_overrides",
			Summary:   "Chart repository " + quoted(shown(repository)) + ": the URL that overrides it is not usable",
			Detail:    why,
		}
	}
	target = canonical(target)
	u, err := url.Parse(target)
	if err != nil {
		return nil, "", err // unreachable: badRepository has parsed it
	}
	credential := s.credentialFor(target)
	client, err := s.client(target, credential)
	if err != nil {
		return nil, "", err
	}
	return &remote{url: u, credential: credential, client: client, agent: s.settings.UserAgent}, "", nil
}

// localOverride finds a chart in a local folder that stands for a repository.
func localOverride(ref Ref, folder string) (place, error) {
	base := path.Base(ref.Name)
	candidates := []string{filepath.Join(folder, base+"-"+ref.Version+".tgz"), filepath.Join(folder, base)}
	for _, candidate := range candidates {
		if _, err := os.Stat(candidate); err == nil {
			return place{path: candidate, overrides: ref.Repository}, nil
		}
	}
	return place{}, &cluster.Problem{
		Attribute: "charts.repository_overrides",
		Summary:   ref.subject() + ": it is not in the folder that overrides its repository",
		Detail: fmt.Sprintf("The provider's charts.repository_overrides has the folder %q in place of %s, and neither %q nor %q is there. Put the archive there (helm pull), or take the override away.",
			folder, quoted(shown(ref.Repository)), candidates[0], candidates[1]),
	}
}

// credentialFor is the credential with the longest key that a URL begins with, in whole parts: a key of
// https://example.com is not for https://example.com.elsewhere.org.
func (s *Source) credentialFor(repository string) Credential {
	var found Credential
	longest := -1
	for prefix, credential := range s.settings.Credentials {
		prefix = canonical(prefix)
		if len(prefix) > longest && (repository == prefix || strings.HasPrefix(repository, prefix+"/") || strings.HasPrefix(repository, prefix+"?")) {
			found, longest = credential, len(prefix)
		}
	}
	return found
}

// canonical is one spelling of a URL for all that mean the same: scheme and host in lower case, no slash at the end.
func canonical(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return strings.TrimRight(raw, "/")
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	u.Path, u.RawPath, u.Fragment = strings.TrimRight(u.Path, "/"), "", ""
	return u.String()
}

// shown is a URL as errors show it: without user information and without a query, either of which may be a secret.
func shown(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(not a URL)"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// sameOrigin tells whether two URLs lead to the same server, so that a credential for one may go to the other.
func sameOrigin(a, b *url.URL) bool {
	port := func(u *url.URL) string {
		if u.Port() == "" {
			return map[string]string{"http": "80", "https": "443"}[u.Scheme]
		}
		return u.Port()
	}
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

// loopback tells whether a host is this machine.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
