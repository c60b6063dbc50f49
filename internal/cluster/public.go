package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"
	"syscall"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// reach is where the connections of a cluster may lead, and have led.
type reach struct {
	// public is the attribute for whose sake no address but a public one is dialled; nil while every one may be.
	public atomic.Pointer[string]
	// private is the first address that was dialled although it is not public.
	private atomic.Pointer[netip.AddrPort]
	// resolver and environment are the system's resolver (nil) and the proxy that the environment names; tests have
	// their own.
	resolver    *net.Resolver
	environment func(*http.Request) (*url.URL, error)
}

// refusedDial is a connection that was not made, because it would not have led to a public address.
type refusedDial struct{ problem *Problem }

func (r *refusedDial) Error() string { return r.problem.Error() }
func (r *refusedDial) Unwrap() error { return r.problem }

// RequirePublic makes the cluster one that only public addresses are dialled for (I66), as `public_only` of its entry
// does, for the rest of the process and whether or not it succeeds. The error is a *Problem about `org` (about `cluster`
// where the entry has public_only) when the API server's URL does not lead to public addresses alone, when a proxy would
// dial in our place, or when another address was dialled earlier; a name that does not resolve is a *ConnectionError.
// What the name leads to later is judged again whenever it is dialled.
func (c *Cluster) RequirePublic(ctx context.Context) error {
	attribute := "org"
	c.reach.public.CompareAndSwap(nil, &attribute)
	if err := c.connect(); err != nil {
		return err
	}
	if err := c.checkServer(c.config.Host, c.proxied); err != nil {
		return err
	}
	if err := c.checkPast(); err != nil {
		return c.classify(err)
	}
	return c.checkNames(ctx)
}

// checkServer judges what can be told of the API server's URL without asking anybody.
func (c *Cluster) checkServer(server string, proxied bool) error {
	if proxied {
		return c.proxyOfEntry()
	}
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, server, nil)
	if err != nil {
		return err
	}
	host := request.URL.Hostname()
	if proxy, err := c.reach.environment(request); err != nil || proxy != nil {
		return c.proxyOfEnvironment(host)
	}
	if err := publicHost(host); err != nil {
		return c.notPublic(server, host, err)
	}
	return nil
}

// checkPast refuses a cluster of which an address that is not public was dialled before only public ones were asked for:
// its connection may still be there.
func (c *Cluster) checkPast() error {
	if past := c.reach.private.Load(); past != nil {
		return &refusedDial{c.notPublic(c.config.Host, past.Addr().String(), PublicAddress(past.Addr()))}
	}
	return nil
}

// checkNames judges every address that the API server's name leads to at this moment.
func (c *Cluster) checkNames(ctx context.Context) error {
	server, err := url.Parse(c.config.Host)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	addresses, err := c.reach.resolver.LookupNetIP(ctx, "ip", server.Hostname())
	if err != nil {
		return c.classify(&net.OpError{Op: "dial", Net: "tcp", Err: err})
	}
	for _, address := range addresses {
		if err := PublicAddress(address); err != nil {
			return c.notPublic(c.config.Host, address.String(), err)
		}
	}
	return nil
}

// dial is what all connections of the cluster are made by. Each address is judged when it is really dialled: what a name
// led to when it was checked says nothing about what it leads to now.
func (c *Cluster) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var refused atomic.Pointer[refusedDial]
	dialer := &net.Dialer{
		Timeout: dialTimeout, KeepAlive: 30 * time.Second, Resolver: c.reach.resolver,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			err := c.mayDial(address)
			if refusal, ok := errors.AsType[*refusedDial](err); ok {
				refused.Store(refusal)
			}
			return err
		},
	}
	connection, err := dialer.DialContext(ctx, network, address)
	if refusal := refused.Load(); err != nil && refusal != nil {
		return nil, refusal // whatever came of the name's other addresses
	}
	return connection, err
}

// mayDial judges an address and port before it is dialled.
func (c *Cluster) mayDial(address string) error {
	to, _ := netip.ParseAddrPort(address) // what is no address is no public one
	reason := PublicAddress(to.Addr())
	if reason == nil {
		return nil
	}
	if c.reach.public.Load() == nil {
		c.reach.private.CompareAndSwap(nil, &to)
		// Asked once more: RequirePublic forbids it before it looks for what was noted, so one of the two sees the other.
		if c.reach.public.Load() == nil {
			return nil
		}
	}
	return &refusedDial{c.notPublic(c.config.Host, to.Addr().String(), reason)}
}

// mayAsk judges the connections that are there already, before a request goes over one of them.
func (c *Cluster) mayAsk() error {
	if c.reach.public.Load() == nil {
		return nil
	}
	return c.checkPast()
}

// throughProxy gives the proxy of a request, as the entry or else the environment names it, and refuses one where only
// public addresses may be dialled: it would dial in our place.
func (c *Cluster) throughProxy(ofEntry func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(request *http.Request) (*url.URL, error) {
		find, refusal := ofEntry, c.proxyOfEntry
		if find == nil {
			find, refusal = c.reach.environment, func() *Problem { return c.proxyOfEnvironment(request.URL.Hostname()) }
		}
		proxy, err := find(request)
		if err != nil || proxy == nil || c.reach.public.Load() == nil {
			return proxy, err
		}
		return nil, &refusedDial{refusal()}
	}
}

// besides refuses connections that a library makes by itself where only public addresses may be dialled: client-go's
// streams for exec, attach and port-forward dial without us, but ask for a proxy first.
func (c *Cluster) besides(request *http.Request) (*url.URL, error) {
	if c.reach.public.Load() != nil {
		return nil, &refusedDial{c.notDirect("A connection beside the cluster's one client has a dialer of its own", "Report this as a bug of berth")}
	}
	return c.config.Proxy(request)
}

// proxyFromEnvironment is the proxy that HTTPS_PROXY and its like name for a request, unless NO_PROXY takes it out, by
// its network too.
func proxyFromEnvironment() func(*http.Request) (*url.URL, error) {
	return utilnet.NewProxierWithNoProxyCIDR(http.ProxyFromEnvironment)
}

// notPublic is the refusal of an address or a host for the reason that PublicAddress or publicHost gives.
func (c *Cluster) notPublic(server, at string, reason error) *Problem {
	where := fmt.Sprintf("and %s %s", at, reason)
	if parsed, err := url.Parse(server); err == nil && parsed.Hostname() != at {
		where = fmt.Sprintf("and that to %s, which %s", at, reason)
	}
	return c.refuse(fmt.Sprintf("Cluster %q has no public address", c.name),
		fmt.Sprintf("clusters[%q] leads to %s, %s.", c.name, maskURL(server), where), "Give the entry the API server's public address")
}

// notDirect is the refusal of a connection that somebody else would make in our place, whose address we could not see.
func (c *Cluster) notDirect(reason, remedy string) *Problem {
	return c.refuse(fmt.Sprintf("Cluster %q is not dialled by berth itself", c.name),
		reason+", which would dial in berth's place, so berth could not see to which address.", remedy)
}

func (c *Cluster) proxyOfEntry() *Problem {
	return c.notDirect(fmt.Sprintf("clusters[%q] has a proxy (proxy_url, or proxy-url in its kubeconfig)", c.name), "Take the proxy off the entry")
}

func (c *Cluster) proxyOfEnvironment(host string) *Problem {
	return c.notDirect("The environment names a proxy for it (HTTPS_PROXY)", "Add "+quoted(host)+" to NO_PROXY")
}

func (c *Cluster) refuse(summary, reason, remedy string) *Problem {
	attribute := *c.reach.public.Load()
	rule, otherwise := "An organization's cluster must have a public https address, and berth dials no other for it.", "leave `org` out if it is not an organization's own"
	if attribute == "cluster" {
		rule, otherwise = "The entry has public_only, so berth dials no address that is not public.", "take public_only off it"
	}
	return &Problem{Attribute: attribute, Summary: summary, Detail: fmt.Sprintf("refusing: %s %s %s, or %s.", reason, rule, remedy, otherwise)}
}
