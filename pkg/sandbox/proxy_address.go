package sandbox

import (
	"net/netip"
	"strconv"
	"strings"
)

// permits reports whether an entry of domains names host, which is lower case, and port.
// An entry without a port is for 80 and 443. "*." stands for one or more labels. An
// address fits no entry, however it is written.
func permits(domains []string, host, port string) bool {
	if host == "" || isNumber(host) || strings.ContainsAny(host, ":%/@\\") {
		return false
	}
	for _, d := range domains {
		name, ownPort, _ := strings.Cut(strings.ToLower(d), ":")
		if ownPort != port && (ownPort != "" || port != "80" && port != "443") {
			continue
		}
		below, wild := strings.CutPrefix(name, "*")
		if name == host || wild && strings.HasSuffix(host, below) && len(host) > len(below) {
			return true
		}
	}
	return false
}

// isNumber reports whether host is an IPv4 address as some programs read it: 127.1,
// 0x7f000001 and 2130706433 are all 127.0.0.1.
func isNumber(host string) bool {
	_, err := strconv.ParseUint(host[strings.LastIndexByte(host, '.')+1:], 0, 64)
	return err == nil
}

// notPublic are ranges of the special-purpose registries of IANA that no public server is
// in, apart from those that netip knows. The last ones hold an IPv4 address, which a
// gateway may translate to.
var notPublic = []string{
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"168.63.129.16/32", // metadata of Azure
	"100::/64", "2001:db8::/32", "3fff::/20", "5f00::/16", "fec0::/10", "64:ff9b:1::/48", "2001::/23", "2002::/16", "::/96",
}

// isPublic reports whether an address is one of the public internet: not this machine's, a
// private network's, a metadata service's, or a way to one of these.
func isPublic(a netip.Addr) bool {
	a = a.Unmap()
	if netip.MustParsePrefix("64:ff9b::/96").Contains(a) { // NAT64, where it is the only way to IPv4
		b := a.As16()
		return isPublic(netip.AddrFrom4([4]byte(b[12:])))
	}
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.Zone() != "" {
		return false
	}
	for _, p := range notPublic {
		if netip.MustParsePrefix(p).Contains(a) {
			return false
		}
	}
	return true
}
