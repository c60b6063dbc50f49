package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

const (
	// dialTimeout bounds one TCP connection attempt: an address that swallows packets must not stop a plan for the
	// two minutes that an operating system would wait.
	dialTimeout = 10 * time.Second
	// requestTimeout bounds one request, a page of 500 objects over a slow line included.
	requestTimeout = 60 * time.Second
	// unreachableFor is how long a failed first contact is believed, so that a hundred resources of a dead cluster
	// wait for one time-out and not for a hundred: longer than the plan of a large fleet takes, which is to dial it once.
	unreachableFor = 2 * time.Minute
	// retriesOfFirstContact is how often a server that is too busy is asked again, which is client-go's own number.
	retriesOfFirstContact = 10
)

// Cluster is one entry of the provider's `clusters`. All resources of a process share it, and with it one HTTP client,
// one snapshot and one set of memoized answers. It is safe for concurrent use.
type Cluster struct {
	name     string
	entry    Entry
	settings Settings

	connectOnce sync.Once
	connectErr  error
	context     string
	config      *rest.Config
	proxied     bool // the entry has a proxy of its own
	transport   http.RoundTripper
	dynamic     dynamic.Interface
	metadata    metadata.Interface
	discovery   discovery.CachedDiscoveryInterface
	mapper      *restmapper.DeferredDiscoveryRESTMapper
	// askedAt is when the API server was last asked again for its kinds.
	asked   sync.Mutex
	askedAt time.Time

	reach    reach
	identity identity
	version  memo[*version.Info]
	allowed  memoMap[Permission, bool]
	snapshot snapshot
	planned  planned
	answers  memoMap[string, any]
	taken    taken
	claims   claims
}

func newCluster(name string, entry Entry, settings Settings) *Cluster {
	c := &Cluster{name: name, entry: entry, settings: settings}
	c.snapshot.listings = map[scope]*listing{}
	c.snapshot.lookups = map[Kind]int{}
	c.reach.environment = proxyFromEnvironment()
	if entry.PublicOnly {
		attribute := "cluster"
		c.reach.public.Store(&attribute)
	}
	return c
}

// Name is the cluster's key in the provider's `clusters`.
func (c *Cluster) Name() string { return c.name }

// Owner names the provider configuration on every ownership mark.
func (c *Cluster) Owner() string { return c.settings.Owner }

// Context is the kubeconfig context that leads to the cluster, or the key when the entry has no kubeconfig.
func (c *Cluster) Context() string {
	if err := c.connect(); err != nil || c.context == "" {
		return c.name
	}
	return c.context
}

// Server is the URL of the API server, empty when the entry is not usable.
func (c *Cluster) Server() string {
	if err := c.connect(); err != nil {
		return ""
	}
	return c.config.Host
}

// Progress reports a step of long work on this cluster to whoever follows it.
func (c *Cluster) Progress(ctx context.Context, object, action, reason string) {
	if c.settings.Progress != nil {
		c.settings.Progress(ctx, Step{Cluster: c.name, Object: object, Action: action, Reason: reason})
	}
}

// connect builds the one client. It reads files but sends nothing; what is wrong with an entry is wrong for good, so
// the error is kept.
func (c *Cluster) connect() error {
	c.connectOnce.Do(func() { c.connectErr = c.build() })
	return c.connectErr
}

func (c *Cluster) build() error {
	config, contextName, err := c.entry.RESTConfig(c.name)
	if err != nil {
		return err
	}
	config.UserAgent = c.settings.UserAgent
	config.QPS = -1 // the server's priority and fairness is the limit, not ours
	config.Timeout = requestTimeout
	config.Dial = c.dial
	c.proxied = config.Proxy != nil
	if c.reach.public.Load() != nil {
		if err := c.checkServer(config.Host, c.proxied); err != nil {
			return err
		}
	}
	config.Proxy = c.throughProxy(config.Proxy)
	config.WarningHandler = rest.NoWarnings{}
	config.Wrap(WrapTransport)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &tracer{next: next, cluster: c} })

	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return Classify(c.name, config, err)
	}
	c.transport = client.Transport
	if c.dynamic, err = dynamic.NewForConfigAndClient(config, client); err != nil {
		return Classify(c.name, config, err)
	}
	if c.metadata, err = metadata.NewForConfigAndClient(config, client); err != nil {
		return Classify(c.name, config, err)
	}
	plain, err := discovery.NewDiscoveryClientForConfigAndClient(config, client)
	if err != nil {
		return Classify(c.name, config, err)
	}
	c.discovery = memory.NewMemCacheClient(plain)
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(c.discovery)
	c.config, c.context = config, contextName
	return nil
}

// identity is the pinned UID of a cluster, and the last failure to learn it.
type identity struct {
	mutex    sync.Mutex
	uid      string
	err      error
	failedAt time.Time
}

// UID is the UID of the cluster's kube-system namespace, by which a cluster is known whatever its name or address
// (promise 4 of the design). It is asked for once. When the entry pins a `uid` and another cluster answers, the error
// is a *Problem that names both. A failure to connect is a *ConnectionError.
func (c *Cluster) UID(ctx context.Context) (string, error) {
	c.identity.mutex.Lock()
	defer c.identity.mutex.Unlock()
	if c.identity.uid != "" {
		return c.identity.uid, nil
	}
	if c.identity.err != nil && time.Since(c.identity.failedAt) < unreachableFor {
		return "", c.identity.err
	}
	uid, err := c.askUID(ctx)
	if err != nil {
		if ctx.Err() == nil {
			c.identity.err, c.identity.failedAt = err, time.Now()
		}
		return "", err
	}
	c.identity.uid, c.identity.err = uid, nil
	return uid, nil
}

func (c *Cluster) askUID(ctx context.Context) (string, error) {
	if err := c.connect(); err != nil {
		return "", err
	}
	system, err := c.askSystem(ctx, 0)
	if apierrors.IsTooManyRequests(err) {
		// It is there, and busy.
		system, err = c.askSystem(ctx, retriesOfFirstContact)
	}
	if err != nil {
		return "", c.classify(err)
	}
	uid := string(system.UID)
	if uid == "" {
		return "", &Problem{
			Summary: fmt.Sprintf("Cluster %q has no identity", c.name),
			Detail: fmt.Sprintf("%s answered for namespace kube-system without a UID, so it is not a Kubernetes API server that berth can recognise again. "+
				"Check where clusters[%q] leads.", c.config.Host, c.name),
		}
	}
	if c.entry.UID != "" && c.entry.UID != uid {
		return "", &Problem{
			Summary: fmt.Sprintf("Cluster %q is not the cluster that `uid` names", c.name),
			Detail: fmt.Sprintf("clusters[%q].uid says kube-system has UID %s, but the cluster at %s has %s. Nothing was read or applied. "+
				"Point the entry at the right cluster, or, when the cluster was rebuilt, set `uid` to %s.", c.name, c.entry.UID, c.config.Host, uid, uid),
		}
	}
	return uid, nil
}

// askSystem asks for the metadata of kube-system. Without retries a connection that is cut off counts as what it is:
// client-go would dial anew ten times, a second after another, before it says so.
func (c *Cluster) askSystem(ctx context.Context, retries int) (*metav1.PartialObjectMetadata, error) {
	result := c.discovery.RESTClient().Get().AbsPath("/api/v1/namespaces", metav1.NamespaceSystem).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json").
		MaxRetries(retries).Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	body, err := result.Raw()
	if err != nil {
		return nil, err
	}
	var system metav1.PartialObjectMetadata
	return &system, decodeJSON(body, &system)
}

// PinnedUID is the `uid` of the entry, empty when it has none.
func (c *Cluster) PinnedUID() string { return c.entry.UID }

// Version is what the API server says of its version. It is asked for once.
func (c *Cluster) Version(ctx context.Context) (*version.Info, error) {
	return c.version.get(ctx, func() (*version.Info, error) {
		if err := c.connect(); err != nil {
			return nil, err
		}
		var info version.Info
		body, err := c.discovery.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
		if err == nil {
			err = decodeJSON(body, &info)
		}
		if err != nil {
			return nil, c.classify(err)
		}
		return &info, nil
	})
}

// Unreachable tells whether an error means that the cluster could not be reached, which is what `on_unreachable` is
// about: wrong credentials, a wrong certificate and a wrong cluster are never that.
func Unreachable(err error) bool {
	var connection *ConnectionError
	return errors.As(err, &connection) && connection.Unreachable()
}

// classify makes an error of a client one that says which cluster it is about and what to do.
func (c *Cluster) classify(err error) error {
	if text, ok := Forbidden(c.name, err); ok {
		return &forbidden{text: text, err: err}
	}
	return Classify(c.name, c.config, err)
}

// forbidden is a 403 of the API server that names the cluster and the rule that would allow it. It still satisfies
// apierrors.IsForbidden.
type forbidden struct {
	text string
	err  error
}

func (f *forbidden) Error() string { return f.text }
func (f *forbidden) Unwrap() error { return f.err }

// tracer reports each request, without headers and bodies, where tokens and Secrets are.
type tracer struct {
	next    http.RoundTripper
	cluster *Cluster
}

func (t *tracer) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := t.cluster.mayAsk(); err != nil {
		if request.Body != nil {
			_ = request.Body.Close() // whoever is given a request closes it, whatever comes of it
		}
		return nil, err
	}
	start := time.Now()
	response, err := t.next.RoundTrip(request)
	if trace := t.cluster.settings.Trace; trace != nil {
		fields := map[string]any{
			"cluster": t.cluster.name, "method": request.Method, "path": request.URL.Path,
			"milliseconds": time.Since(start).Milliseconds(),
		}
		if response != nil {
			fields["status"] = response.StatusCode
		}
		trace(request.Context(), "request to the API server", fields)
	}
	return response, err
}
