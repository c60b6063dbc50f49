package cluster

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
)

// loopback is an address of this machine that somebody else's DNS may try to lead berth to. It accepts, counts, and
// says no.
type loopback struct {
	accepted atomic.Int64
	port     string
}

func newLoopback(t testing.TB) *loopback {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	l := &loopback{port: strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			l.accepted.Add(1)
			_, _ = connection.Write([]byte("HTTP/1.1 403 Forbidden\r\n\r\n"))
			_ = connection.Close()
		}
	}()
	return l
}

func errorOf[T any](_ T, err error) error { return err }

func addresses(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// publicCluster is cluster "edge" at a host, with a resolver of the test's own and no proxy in the environment.
func publicCluster(host string, resolver *net.Resolver, change func(*Entry)) *Cluster {
	entry := Entry{Host: host, Token: canary, Insecure: true}
	if change != nil {
		change(&entry)
	}
	c := newCluster("edge", entry, Settings{})
	c.reach.resolver = resolver
	c.reach.environment = func(*http.Request) (*url.URL, error) { return nil, nil }
	return c
}

func publicOnly(entry *Entry) { entry.PublicOnly = true }

// requireRefused checks that an error is the refusal of an address: not one that on_unreachable would pass over.
func requireRefused(t *testing.T, err error, attribute string, want ...string) {
	t.Helper()
	problem, ok := err.(*Problem) //nolint:errorlint // without the request around it, which says less
	if !ok {
		t.Fatalf("not a *Problem: %T %v", err, err)
	}
	if problem.Attribute != attribute || Unreachable(err) {
		t.Errorf("attribute %q, unreachable %t; want %q: %v", problem.Attribute, Unreachable(err), attribute, err)
	}
	requireText(t, err.Error(), append(want, "refusing: ")...)
}

const noPublicAddress = `Cluster "edge" has no public address: `

// TestRebinding is I66: a name that leads to a public address when it is checked, and to this machine when it is dialled,
// leads nowhere. Whatever sends a request says so, and nothing connects.
func TestRebinding(t *testing.T) {
	for name, send := range map[string]func(*Cluster) error{
		"metadata": func(c *Cluster) error { return errorOf(c.UID(t.Context())) },
		"dynamic":  func(c *Cluster) error { return errorOf(c.Fetch(t.Context(), ConfigMaps, "default", "a")) },
		"write": func(c *Cluster) error {
			return errorOf(c.Create(t.Context(), ConfigMaps, ConfigMaps.New("default", "a"), "berth"))
		},
		"version": func(c *Cluster) error { return errorOf(c.Version(t.Context())) },
		"mapper": func(c *Cluster) error {
			return errorOf(c.KindOf(t.Context(), schema.GroupVersionKind{Group: "example.com", Kind: "Widget"}))
		},
		"kinds": func(c *Cluster) error { return errorOf(c.Kinds(t.Context())) },
		"client of a library": func(c *Cluster) error {
			config, err := c.ToRESTConfig()
			if err != nil {
				return err
			}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			return c.classify(errorOf(client.Discovery().ServerVersion()))
		},
		"library with a transport of its own": func(c *Cluster) error {
			config, err := c.ToRESTConfig()
			if err != nil {
				return err
			}
			config.Transport, config.Insecure, config.Proxy = nil, true, nil
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			return c.classify(errorOf(client.Discovery().ServerVersion()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			here := newLoopback(t)
			dns, resolver := newDNS(t, addresses("93.184.216.34"), addresses("127.0.0.1"))
			c := publicCluster("https://edge.berth-test.example:"+here.port, resolver, nil)
			if err := c.RequirePublic(t.Context()); err != nil {
				t.Fatalf("a public address: %v", err)
			}
			requireRefused(t, send(c), "org", noPublicAddress, `clusters["edge"] leads to https://edge.berth-test.example:`+here.port+", and that to 127.0.0.1, which is loopback",
				"An organization's cluster must have a public https address", "Give the entry the API server's public address, or leave `org` out")
			if dns.questions() < 2 {
				t.Errorf("the name was asked for %d times, so it was not resolved anew to be dialled", dns.questions())
			}
			if n := here.accepted.Load(); n != 0 {
				t.Errorf("%d connections to this machine", n)
			}
			requireRefused(t, c.RequirePublic(t.Context()), "org", noPublicAddress, "127.0.0.1")

			// What was refused was not dialled, so it is no stain once the name is right again.
			dns.say(addresses("93.184.216.34")...)
			if err := errors.Join(c.RequirePublic(t.Context()), c.mayAsk()); err != nil {
				t.Errorf("a public address again: %v", err)
			}
		})
	}
}

// Without public_only and org the same cluster is dialled: it is the requirement that stops it.
func TestPrivateClustersAreDialled(t *testing.T) {
	here := newLoopback(t)
	dns, resolver := newDNS(t, addresses("127.0.0.1"))
	c := publicCluster("https://edge.berth-test.example:"+here.port, resolver, nil)
	if _, err := c.UID(t.Context()); err == nil || here.accepted.Load() == 0 {
		t.Fatalf("%d connections, %v", here.accepted.Load(), err)
	}

	// What was connected before stays: nothing more is sent over it, whatever the name leads to now.
	dns.say(addresses("93.184.216.34")...)
	before := here.accepted.Load()
	requireRefused(t, c.RequirePublic(t.Context()), "org", noPublicAddress, "and that to 127.0.0.1, which is loopback")
	requireRefused(t, errorOf(c.Version(t.Context())), "org", noPublicAddress, "127.0.0.1")
	if after := here.accepted.Load(); after != before {
		t.Errorf("%d more connections", after-before)
	}
}

// A connection that is open already is not used any more, though nothing is dialled for it (I66).
func TestOpenConnectionsAreLeft(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"major":"1","minor":"36"}`))
	}))
	defer server.Close()
	c := publicCluster(server.URL, nil, nil)
	if _, err := c.Version(t.Context()); err != nil || requests.Load() != 1 {
		t.Fatalf("%d requests, %v", requests.Load(), err)
	}
	requireRefused(t, c.RequirePublic(t.Context()), "org", noPublicAddress, "and 127.0.0.1 is loopback")
	_, err := c.Create(t.Context(), ConfigMaps, ConfigMaps.New("default", "a"), "berth")
	requireRefused(t, err, "org", noPublicAddress)
	if requests.Load() != 1 {
		t.Errorf("%d requests", requests.Load())
	}
}

// public_only judges each dial without being asked to; among several addresses of a name it takes no private one.
func TestPublicOnly(t *testing.T) {
	for name, answers := range map[string][]netip.Addr{
		"loopback":    addresses("127.0.0.1"),
		"IPv6":        addresses("::1"),
		"IPv4-mapped": addresses("::ffff:127.0.0.1"),
		"both":        addresses("127.0.0.1", "::1"),
		"unspecified": addresses("0.0.0.0"),
		"NAT64":       addresses("64:ff9b::7f00:1"),
	} {
		t.Run(name, func(t *testing.T) {
			here := newLoopback(t)
			_, resolver := newDNS(t, answers)
			c := publicCluster("https://edge.berth-test.example.:"+here.port, resolver, publicOnly)
			requireRefused(t, errorOf(c.UID(t.Context())), "cluster", noPublicAddress, "https://edge.berth-test.example.:", "The entry has public_only", "or take public_only off it")
			requireRefused(t, c.RequirePublic(t.Context()), "cluster", noPublicAddress)
			if n := here.accepted.Load(); n != 0 {
				t.Errorf("%d connections to this machine", n)
			}
		})
	}
	for _, address := range []string{"93.184.216.34:443", "[2606:4700::1111]:6443"} {
		if err := publicCluster("https://edge.berth-test.example", nil, publicOnly).mayDial(address); err != nil {
			t.Errorf("%s may not be dialled: %v", address, err)
		}
	}
}

// RequirePublic judges every address of a name, and tells one that does not resolve from one that is private.
func TestRequirePublicResolves(t *testing.T) {
	_, mixed := newDNS(t, addresses("93.184.216.34", "2606:4700::1111", "fd00::1"))
	requireRefused(t, publicCluster("https://edge.berth-test.example", mixed, nil).RequirePublic(t.Context()), "org", noPublicAddress, "fd00::1, which is unique local")

	_, public := newDNS(t, addresses("93.184.216.34", "2606:4700::1111"))
	for _, change := range []func(*Entry){nil, publicOnly} {
		if err := publicCluster("https://edge.berth-test.example", public, change).RequirePublic(t.Context()); err != nil {
			t.Errorf("public addresses: %v", err)
		}
	}

	_, nothing := newDNS(t, nil)
	err := publicCluster("https://edge.berth-test.example", nothing, nil).RequirePublic(t.Context())
	var failure *ConnectionError
	if !errors.As(err, &failure) || failure.Cause != CauseDNS || !Unreachable(err) {
		t.Errorf("a name without addresses: %v", err)
	}
}

// hostsOfThisMachine are spellings of 127.0.0.1 and ::1, and names of this machine.
var hostsOfThisMachine = []string{
	"127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "0177.0.0.1", "0x7f000001", "0x7f.1", "0X7F.0.0.0X1", "2130706433", "017700000001", "127.0.0.01",
	"[::1]", "[0:0:0:0:0:0:0:1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[::1%25lo]", "[::]", "0.0.0.0", "0",
	"localhost", "LOCALHOST", "localhost.", "api.localhost",
}

// No spelling of this machine's address is dialled, not by the system's resolver either, which reads more of them than
// Go does, and none gets past the check of the entry (I66).
func TestSpellings(t *testing.T) {
	here := newLoopback(t)
	for _, host := range hostsOfThisMachine {
		server := "https://" + host + ":" + here.port
		problems := Entry{Host: server, Token: "t", PublicOnly: true}.Validate()
		if len(problems) != 1 || problems[0].Attribute != "host" || problems[0].Summary != "host is not a public address" {
			t.Errorf("%s as host: %+v", host, problems)
		}
		kubeconfig := func(entry *Entry) {
			*entry = Entry{Kubeconfig: kubeconfigWith("server: '"+server+"'", "token: "+canary)}
		}
		for what, change := range map[string]func(*Entry){"org": kubeconfig, "cluster": func(entry *Entry) { kubeconfig(entry); entry.PublicOnly = true }} {
			c := publicCluster(server, nil, change)
			requireRefused(t, c.RequirePublic(t.Context()), what, noPublicAddress, "clusters[\"edge\"] leads to "+server)
		}
		// The dialer itself, as if none of these checks had been made.
		c := publicCluster("https://edge.berth-test.example", nil, publicOnly)
		if err := c.connect(); err != nil {
			t.Fatal(err)
		}
		if connection, err := c.dial(t.Context(), "tcp", net.JoinHostPort(strings.Trim(strings.ReplaceAll(host, "%25", "%"), "[]"), here.port)); err == nil {
			t.Errorf("%s was dialled at %s", host, connection.RemoteAddr())
		}
	}
	if n := here.accepted.Load(); n != 0 {
		t.Errorf("%d connections to this machine", n)
	}
}

// A proxy would dial in our place, so public_only and org go with none, wherever it is named.
func TestPublicThroughProxies(t *testing.T) {
	here := newLoopback(t)
	proxy := "http://me:" + canary + "@127.0.0.1:" + here.port
	_, resolver := newDNS(t, addresses("93.184.216.34"))
	const server = "https://edge.berth-test.example"
	const notDirect = `Cluster "edge" is not dialled by berth itself: `

	if problems := (Entry{Host: server, Token: "t", PublicOnly: true, ProxyURL: proxy}).Validate(); len(problems) != 1 || problems[0].Attribute != "proxy_url" {
		t.Errorf("proxy_url: %+v", problems)
	}
	withProxy := func(entry *Entry) {
		*entry = Entry{Kubeconfig: kubeconfigWith("server: '"+server+"', proxy-url: '"+proxy+"'", "token: "+canary)}
	}
	wanted := []string{notDirect, `clusters["edge"] has a proxy (proxy_url, or proxy-url in its kubeconfig)`, "Take the proxy off the entry"}
	c := publicCluster(server, resolver, func(entry *Entry) { withProxy(entry); entry.PublicOnly = true })
	requireRefused(t, errorOf(c.UID(t.Context())), "cluster", wanted...)
	requireRefused(t, publicCluster(server, resolver, withProxy).RequirePublic(t.Context()), "org", wanted...)

	environment := func(c *Cluster) *Cluster {
		c.reach.environment = func(request *http.Request) (*url.URL, error) {
			if request.URL.Hostname() != "edge.berth-test.example" {
				return nil, nil
			}
			return url.Parse(proxy)
		}
		return c
	}
	wanted = []string{notDirect, "The environment names a proxy for it (HTTPS_PROXY)", `Add "edge.berth-test.example" to NO_PROXY`}
	requireRefused(t, errorOf(environment(publicCluster(server, resolver, publicOnly)).UID(t.Context())), "cluster", wanted...)
	c = environment(publicCluster(server, resolver, nil))
	requireRefused(t, c.RequirePublic(t.Context()), "org", wanted...)
	if n := here.accepted.Load(); n != 0 {
		t.Errorf("%d connections to the proxy", n)
	}

	// One that is connected through a proxy before is not used any more.
	c = environment(publicCluster(server, resolver, nil))
	if _, err := c.UID(t.Context()); err == nil || here.accepted.Load() == 0 {
		t.Fatalf("%d connections to the proxy, %v", here.accepted.Load(), err)
	}
	requireRefused(t, c.RequirePublic(t.Context()), "org", wanted...)
	before := here.accepted.Load()
	requireRefused(t, errorOf(c.Version(t.Context())), "org")
	if here.accepted.Load() != before {
		t.Error("the proxy was used again")
	}
}

// A proxy that is there before anything was sent through it is refused by the transport too, not by RequirePublic alone.
func TestProxyRefusedByTransport(t *testing.T) {
	c := publicCluster("https://edge.berth-test.example", nil, nil)
	if err := c.connect(); err != nil {
		t.Fatal(err)
	}
	attribute := "org"
	c.reach.public.Store(&attribute)
	c.reach.environment = func(*http.Request) (*url.URL, error) { return url.Parse("http://192.0.2.1:3128") }
	requireRefused(t, errorOf(c.Version(t.Context())), "org", "The environment names a proxy for it")
}

// The streams of client-go (exec, attach, port-forward) dial by themselves, but ask the configuration for a proxy first:
// for such a cluster that is where they end (I66).
func TestStreamsAreRefused(t *testing.T) {
	for what, change := range map[string]func(*Entry){"cluster": publicOnly, "": nil} {
		c := publicCluster("https://edge.berth-test.example", nil, change)
		config, err := c.ToRESTConfig()
		if err != nil {
			t.Fatal(err)
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host, nil)
		if err != nil {
			t.Fatal(err)
		}
		proxy, err := config.Proxy(request)
		if what == "" {
			if proxy != nil || err != nil {
				t.Errorf("a cluster that may be private: %v, %v", proxy, err)
			}
			continue
		}
		requireRefused(t, c.classify(err), what, "not dialled by berth itself", "Report this as a bug of berth")
	}
}

// FuzzPublicDial dials every host that can be written, over UDP, which sends nothing by being dialled: what the socket
// leads to must be public by the standard library's own judgement.
func FuzzPublicDial(f *testing.F) {
	for i, host := range append(hostsOfThisMachine, "8.8.8.8", "edge.berth-test.example", "", "a..b", "%", "[", "169.254.169.254", "metadata.google.internal") {
		f.Add(host, byte(i))
	}
	inner := addresses("127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "100.64.0.1", "0.0.0.0")
	dns, resolver := newDNS(f, inner)
	f.Fuzz(func(t *testing.T, host string, which byte) {
		dns.say(inner[int(which)%len(inner)])
		c := publicCluster("https://edge.berth-test.example", resolver, publicOnly)
		if err := c.connect(); err != nil {
			t.Fatal(err)
		}
		connection, err := c.dial(t.Context(), "udp", net.JoinHostPort(strings.Trim(host, "[]"), "443"))
		if err != nil {
			return
		}
		defer func() { _ = connection.Close() }()
		to, err := netip.ParseAddrPort(connection.RemoteAddr().String())
		if err != nil || notPublicByNet(to.Addr()) {
			t.Errorf("%q led to %s (%v)", host, connection.RemoteAddr(), err)
		}
	})
}

// FuzzPublicEntry gives whole entries: no host makes the checks panic, and what they pass is an https URL.
func FuzzPublicEntry(f *testing.F) {
	for _, host := range hostsOfThisMachine {
		f.Add("https://" + host + ":6443")
	}
	_, resolver := newDNS(f, addresses("127.0.0.1"))
	f.Fuzz(func(t *testing.T, host string) {
		c := publicCluster(host, resolver, publicOnly)
		err := c.RequirePublic(t.Context())
		if err != nil {
			if text := err.Error(); text == "" || strings.Contains(text, canary) {
				t.Errorf("%q gave %v", host, err)
			}
			return
		}
		// Every name leads to this machine, so only a literal can have passed.
		server, err := url.Parse(c.config.Host)
		if err != nil || server.Scheme != "https" {
			t.Fatalf("%q passed as %q", host, c.config.Host)
		}
		if ip, err := netip.ParseAddr(strings.TrimRight(server.Hostname(), ".")); err != nil || notPublicByNet(ip) {
			t.Errorf("%q passed (%v)", host, err)
		}
	})
}
