package cluster

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// I66: what kind each address is that berth must not dial for somebody else's cluster.
func TestPublicAddress(t *testing.T) {
	for address, want := range map[string]string{
		"0.0.0.0":         "is unspecified, this machine itself (0.0.0.0/32, RFC 1122)",
		"0.1.2.3":         "is of this network itself (0.0.0.0/8, RFC 791)",
		"10.255.0.1":      "is private (10.0.0.0/8, RFC 1918)",
		"172.16.0.1":      "is private (172.16.0.0/12, RFC 1918)",
		"172.31.255.255":  "is private (172.16.0.0/12, RFC 1918)",
		"192.168.1.1":     "is private (192.168.0.0/16, RFC 1918)",
		"100.64.0.1":      "is shared behind a carrier-grade NAT (100.64.0.0/10, RFC 6598)",
		"100.100.100.200": "carrier-grade NAT",
		"127.0.0.1":       "is loopback, this machine itself (127.0.0.0/8, RFC 1122)",
		"127.255.255.254": "is loopback",
		"169.254.169.254": "is link-local, where clouds serve a machine its metadata and credentials (169.254.0.0/16, RFC 3927)",
		"168.63.129.16":   "is the address of Azure's platform",
		"192.0.0.192":     "is reserved for protocols (192.0.0.0/24, RFC 6890)",
		"192.0.2.1":       "is for documentation (192.0.2.0/24, RFC 5737)",
		"198.51.100.1":    "is for documentation",
		"203.0.113.10":    "is for documentation",
		"192.88.99.1":     "is of a 6to4 relay",
		"198.19.255.255":  "is for benchmarks (198.18.0.0/15, RFC 2544)",
		"224.0.0.251":     "is multicast (224.0.0.0/4, RFC 5771)",
		"240.0.0.1":       "is reserved (240.0.0.0/4, RFC 1112)",
		"255.255.255.255": "is broadcast (255.255.255.255/32, RFC 919)",

		"::":                        "is unspecified, this machine itself (::/128, RFC 4291)",
		"::1":                       "is loopback, this machine itself (::1/128, RFC 4291)",
		"::7f00:1":                  "is no address of the public Internet (outside 2000::/3, RFC 4291)",
		"::ffff:0:127.0.0.1":        "is no address of the public Internet",
		"64:ff9b:1::a00:1":          "is for translation within a network (64:ff9b:1::/48, RFC 8215)",
		"100::1":                    "is a sink that discards everything (100::/64, RFC 6666)",
		"2001:2::1":                 "is reserved for protocols (2001::/23, RFC 2928)",
		"2001:20::1":                "is reserved for protocols",
		"2001:db8::1":               "is for documentation (2001:db8::/32, RFC 3849)",
		"3fff:fff::1":               "is for documentation (3fff::/20, RFC 9637)",
		"5f00::1":                   "is for segment routing (5f00::/16, RFC 9602)",
		"fd00:ec2::254":             "is unique local, that is private (fc00::/7, RFC 4193)",
		"fe80::1":                   "is link-local (fe80::/10, RFC 4291)",
		"fec0::1":                   "is site-local, that is private (fec0::/10, RFC 3879)",
		"ff02::1":                   "is multicast (ff00::/8, RFC 4291)",
		"4000::1":                   "outside 2000::/3",
		"fe80::1%eth0":              "has a zone",
		"2a00:1450::1%eth0":         "has a zone",
		"::ffff:8.8.8.8%eth0":       "has a zone",
		"::ffff:127.0.0.1":          "stands for 127.0.0.1 (IPv4-mapped, RFC 4291), which is loopback",
		"::ffff:a9fe:a9fe":          "stands for 169.254.169.254 (IPv4-mapped, RFC 4291), which is link-local",
		"64:ff9b::10.0.0.1":         "stands for 10.0.0.1 (NAT64, RFC 6052), which is private",
		"2002:c0a8:101::1":          "stands for 192.168.1.1 (6to4, RFC 3056), which is private",
		"2001:0:808:808::f5ff:fffe": "stands for 10.0.0.1 (Teredo, RFC 4380), which is private",   // the client, its bits turned over
		"2001:0:7f00:1::f7f7:f7f7":  "stands for 127.0.0.1 (Teredo, RFC 4380), which is loopback", // the server
	} {
		err := PublicAddress(netip.MustParseAddr(address))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", address, err, want)
		}
	}
	if err := PublicAddress(netip.Addr{}); err == nil || err.Error() != "is no IP address" {
		t.Errorf("no address: %v", err)
	}
	for _, address := range []string{
		"1.1.1.1", "8.8.8.8", "93.184.216.34", "172.15.255.255", "172.32.0.1", "100.63.255.255", "100.128.0.1", "169.253.0.1", "192.0.1.1", "198.17.0.1",
		"223.255.255.255", "2a00:1450:4001::1", "2606:4700::1111", "2001:4860:4860::8888", "2001:200::1",
		"::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1", "2001:0:808:808::f7f7:f7f7",
	} {
		if err := PublicAddress(netip.MustParseAddr(address)); err != nil {
			t.Errorf("%s %v", address, err)
		}
	}
}

// I66: hosts that say by themselves where they lead, in every spelling that some resolver takes.
func TestPublicHost(t *testing.T) {
	for host, want := range map[string]string{
		"127.0.0.1": "is loopback", "127.0.0.1.": "is loopback", "10.0.0.1..": "is private", "::1": "is loopback", "::FFFF:7F00:1": "stands for 127.0.0.1",
		"0:0:0:0:0:0:0:1": "is loopback", "fe80::1%eth0": "has a zone",
		"localhost": "is this machine itself (RFC 6761)", "LOCALHOST.": "is this machine itself", "a.localhost": "is this machine itself",
		"0x7f000001": "is a number that some programs read as an IPv4 address", "2130706433": "is a number", "017700000001": "is a number", "0177.0.0.1": "is a number",
		"0x7f.1": "is a number", "127.1": "is a number", "127.0.1.": "is a number", "0X7F.0.0.0x1": "is a number", "0": "is a number", "0x": "is a number", "a.0x1": "is a number", "8.8.8": "is a number",
		"1.2.3.4.5": "is a number",
	} {
		if err := publicHost(host); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", host, err, want)
		}
	}
	for _, host := range []string{"edge.example.com", "8.8.8.8", "8.8.8.8.", "2606:4700::1111", "localhost.example.com", "notlocalhost", "1.example", "0xg", "fe80", "0x7f.example"} {
		if err := publicHost(host); err != nil {
			t.Errorf("%s %v", host, err)
		}
	}
}

// I102: Argo CD knows a cluster by its server, so two spellings of one would be registered twice.
func TestSameServer(t *testing.T) {
	for _, same := range [][]string{
		{"https://api.example.com", "HTTPS://API.example.COM:443/", "https://api.example.com.", "api.example.com", "https://api.example.com:0443//"},
		{"https://api.example.com:6443", "api.example.com:6443", "https://api.example.com.:6443/"},
		{"https://rancher.example.com/k8s/clusters/c-1", "https://Rancher.example.com:443/k8s/clusters/c-1/", "https://rancher.example.com//k8s/clusters//c-1"},
		{"https://[2606:4700::1111]:6443", "https://[2606:4700:0:0:0:0:0:1111]:6443/", "[2606:4700:0::1111]:6443"},
		{"https://1.2.3.4", "https://1.2.3.4./"},
		{"http://api.example.com", "http://api.example.com"},
		{"", ""},
		{"not a URL", "not a URL"},
	} {
		for _, a := range same {
			for _, b := range same {
				if !SameServer(a, b) {
					t.Errorf("%q and %q are not the same", a, b)
				}
			}
		}
	}
	for _, different := range [][2]string{
		{"https://api.example.com", "https://api.example.com:6443"},
		{"https://api.example.com", "https://api2.example.com"},
		{"https://api.example.com/a", "https://api.example.com/A"},
		{"https://api.example.com/a", "https://api.example.com"},
		{"https://api.example.com/a%2Fb", "https://api.example.com/a/b"},
		{"http://api.example.com", "https://api.example.com"},
		{"http://api.example.com", "http://api.example.com/"},
		{"", "https://api.example.com"},
	} {
		if SameServer(different[0], different[1]) || SameServer(different[1], different[0]) {
			t.Errorf("%q and %q are the same", different[0], different[1])
		}
	}
}

// I21: the server that Argo CD is told is written in the same way as an entry's.
func TestParseServer(t *testing.T) {
	for raw, want := range map[string]string{" API.example.com:6443 ": "https://API.example.com:6443", "HTTPS://10.0.0.1/": "https://10.0.0.1", "https://a/b/": "https://a/b"} {
		if got, err := ParseServer(raw); err != nil || got != want {
			t.Errorf("%q became %q, %v; want %q", raw, got, err, want)
		}
	}
	if _, err := ParseServer("http://u:" + canary + "@a"); err == nil || strings.Contains(err.Error(), canary) || !strings.Contains(err.Error(), "uses http") {
		t.Errorf("plain HTTP: %v", err)
	}
}

// notPublicByNet is what the standard library knows of addresses that are not public, apart from our table.
func notPublicByNet(ip netip.Addr) bool {
	ip = ip.Unmap()
	return ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || !net.IP(ip.AsSlice()).IsGlobalUnicast()
}

func FuzzPublicAddress(f *testing.F) {
	for _, seed := range []string{"127.0.0.1", "8.8.8.8", "::1", "fe80::1%eth0", "::ffff:10.0.0.1", "64:ff9b::1", "2002:7f00:1::", "2001::1", "255.255.255.255"} {
		ip := netip.MustParseAddr(seed)
		f.Add(ip.AsSlice(), ip.Zone())
	}
	f.Fuzz(func(t *testing.T, bytes []byte, zone string) {
		ip, ok := netip.AddrFromSlice(bytes)
		if ok && ip.Is6() {
			ip = ip.WithZone(zone)
		}
		err := PublicAddress(ip)
		if err == nil && (!ok || ip.Zone() != "" || notPublicByNet(ip)) {
			t.Errorf("%s counts as public", ip)
		}
		if ip.Is4() {
			mapped := netip.AddrFrom16(ip.As16())
			if (PublicAddress(mapped) == nil) != (err == nil) {
				t.Errorf("%s and %s are judged differently: %v, %v", ip, mapped, err, PublicAddress(mapped))
			}
		}
	})
}

// A URL is the same server as itself and as what it is written as, and SameServer takes sides with nobody.
func FuzzSameServer(f *testing.F) {
	for _, seed := range [][2]string{{"https://a", "a:443"}, {"https://[::1%25eth0]:1/", "https://[::1]"}, {"https://a/%2f", "https://a//"}, {"", "%"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if !SameServer(a, a) {
			t.Errorf("%q is not itself", a)
		}
		if SameServer(a, b) != SameServer(b, a) {
			t.Errorf("%q and %q depend on their order", a, b)
		}
		server, err := ParseServer(a)
		if err != nil {
			return
		}
		if !SameServer(a, server) {
			t.Errorf("%q is not %q", a, server)
		}
		if parsed, err := url.Parse(server); err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" {
			t.Errorf("%q became %q, which is no https URL (%v)", a, server, err)
		}
	})
}
