package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// special are the blocks of addresses that no host of the public Internet has. Sources: the IANA IPv4 and IPv6
// Special-Purpose Address Registries (RFC 6890, RFC 8190), of which these are what is not "Globally Reachable", and the
// blocks for multicast, both of them. 168.63.129.16 is in neither: it is Azure's, and leads from a machine there to the
// platform below it.
var special = []struct {
	block  netip.Prefix
	kind   string
	source string
}{
	{netip.MustParsePrefix("0.0.0.0/32"), "unspecified, this machine itself", "RFC 1122"},
	{netip.MustParsePrefix("0.0.0.0/8"), "of this network itself", "RFC 791"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private", "RFC 1918"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared behind a carrier-grade NAT", "RFC 6598"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback, this machine itself", "RFC 1122"},
	{netip.MustParsePrefix("168.63.129.16/32"), "the address of Azure's platform", "Azure documentation"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local, where clouds serve a machine its metadata and credentials", "RFC 3927"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private", "RFC 1918"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved for protocols", "RFC 6890"},
	{netip.MustParsePrefix("192.0.2.0/24"), "for documentation", "RFC 5737"},
	{netip.MustParsePrefix("192.88.99.0/24"), "of a 6to4 relay", "RFC 7526"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private", "RFC 1918"},
	{netip.MustParsePrefix("198.18.0.0/15"), "for benchmarks", "RFC 2544"},
	{netip.MustParsePrefix("198.51.100.0/24"), "for documentation", "RFC 5737"},
	{netip.MustParsePrefix("203.0.113.0/24"), "for documentation", "RFC 5737"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast", "RFC 5771"},
	{netip.MustParsePrefix("255.255.255.255/32"), "broadcast", "RFC 919"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved", "RFC 1112"},

	{netip.MustParsePrefix("::/128"), "unspecified, this machine itself", "RFC 4291"},
	{netip.MustParsePrefix("::1/128"), "loopback, this machine itself", "RFC 4291"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "for translation within a network", "RFC 8215"},
	{netip.MustParsePrefix("100::/64"), "a sink that discards everything", "RFC 6666"},
	{netip.MustParsePrefix("2001::/23"), "reserved for protocols", "RFC 2928"},
	{netip.MustParsePrefix("2001:db8::/32"), "for documentation", "RFC 3849"},
	{netip.MustParsePrefix("3fff::/20"), "for documentation", "RFC 9637"},
	{netip.MustParsePrefix("5f00::/16"), "for segment routing", "RFC 9602"},
	{netip.MustParsePrefix("fc00::/7"), "unique local, that is private", "RFC 4193"},
	{netip.MustParsePrefix("fe80::/10"), "link-local", "RFC 4291"},
	{netip.MustParsePrefix("fec0::/10"), "site-local, that is private", "RFC 3879"},
	{netip.MustParsePrefix("ff00::/8"), "multicast", "RFC 4291"},
}

var (
	globalUnicast = netip.MustParsePrefix("2000::/3") // all that IANA assigns to hosts
	nat64         = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour     = netip.MustParsePrefix("2002::/16")
	teredo        = netip.MustParsePrefix("2001::/32")
)

// PublicAddress tells whether an address is one of the public Internet: nil when it is. The error completes a sentence
// about the address and names its kind (I66). An IPv6 address that stands for an IPv4 one is what that is.
func PublicAddress(ip netip.Addr) error {
	if !ip.IsValid() {
		return errors.New("is no IP address")
	}
	if ip.Zone() != "" {
		return errors.New("has a zone, as only addresses of this machine's own networks have")
	}
	if form, insides := embedded(ip); form != "" {
		for _, inside := range insides {
			if err := PublicAddress(inside); err != nil {
				return fmt.Errorf("stands for %s (%s), which %w", inside, form, err)
			}
		}
		return nil
	}
	for _, one := range special {
		if one.block.Contains(ip) {
			return fmt.Errorf("is %s (%s, %s)", one.kind, one.block, one.source)
		}
	}
	if ip.Is6() && !globalUnicast.Contains(ip) {
		return fmt.Errorf("is no address of the public Internet (outside %s, RFC 4291)", globalUnicast)
	}
	return nil
}

// embedded gives the IPv4 addresses that an IPv6 address stands for, and the name of its form; "" when it stands for
// none. Whoever sends to it, or a gateway on the way, sends to these.
func embedded(ip netip.Addr) (form string, insides []netip.Addr) {
	if !ip.Is6() {
		return "", nil
	}
	bytes := ip.As16()
	at := func(offset int, mask byte) netip.Addr {
		var four [4]byte
		for i := range four {
			four[i] = bytes[offset+i] ^ mask
		}
		return netip.AddrFrom4(four)
	}
	switch {
	case ip.Is4In6():
		return "IPv4-mapped, RFC 4291", []netip.Addr{ip.Unmap()}
	case nat64.Contains(ip):
		return "NAT64, RFC 6052", []netip.Addr{at(12, 0)}
	case sixToFour.Contains(ip):
		return "6to4, RFC 3056", []netip.Addr{at(2, 0)}
	case teredo.Contains(ip):
		// The server, and the client, which is written with its bits turned over.
		return "Teredo, RFC 4380", []netip.Addr{at(4, 0), at(12, 0xff)}
	}
	return "", nil
}

// publicHost refuses a host of a URL that says by itself that it is not public. Of a name that has to be resolved it
// says nothing. The error completes a sentence about the host.
func publicHost(host string) error {
	host = strings.TrimRight(strings.ToLower(host), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		return PublicAddress(ip)
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return errors.New("is this machine itself (RFC 6761)")
	}
	// The C library reads 127.1, 0177.0.0.1, 2130706433 and 0x7f000001 as 127.0.0.1; Go and others do not.
	if last := host[strings.LastIndexByte(host, '.')+1:]; isNumber(last) {
		return errors.New("is a number that some programs read as an IPv4 address and others as a name, so where it leads cannot be told. Write the address in its four decimal parts")
	}
	return nil
}

// isNumber tells whether the C library reads a part of a host as a number. No top-level domain is one.
func isNumber(part string) bool {
	digits, hexadecimal := strings.CutPrefix(part, "0x")
	if hexadecimal {
		return !strings.ContainsFunc(digits, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) })
	}
	return part != "" && !strings.ContainsFunc(part, func(r rune) bool { return r < '0' || r > '9' })
}

// ParseServer turns the address of an API server, an https URL or host:port, into an https URL. The error completes a
// sentence about the value and quotes none of it.
func ParseServer(raw string) (string, error) { return parseServer(raw) }

// SameServer tells whether two texts are the URL of one API server (I102): the letter case of scheme and host, a port
// that is 443 anyway, a slash at the end and a dot after the host make no difference. What is no such URL is the same
// only where the text is.
func SameServer(a, b string) bool {
	one, errOne := canonicalServer(a)
	other, errOther := canonicalServer(b)
	if errOne != nil || errOther != nil {
		return a == b
	}
	return one == other
}

// canonicalServer is the URL of an API server in the one form in which it can be compared.
func canonicalServer(raw string) (string, error) {
	server, err := parseServer(raw)
	if err != nil {
		return "", err
	}
	parsed, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	host := strings.TrimRight(strings.ToLower(parsed.Hostname()), ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.String()
	}
	port, err := strconv.Atoi(parsed.Port())
	if err != nil {
		port = 443 // there is none: parseServer lets only numbers pass
	}
	segments := slices.DeleteFunc(strings.Split(parsed.EscapedPath(), "/"), func(segment string) bool { return segment == "" })
	return net.JoinHostPort(host, strconv.Itoa(port)) + "/" + strings.Join(segments, "/"), nil
}
