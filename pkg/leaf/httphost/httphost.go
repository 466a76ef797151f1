// Package httphost decides to which hosts requests go that may carry a key.
//
//   - [SameHost] is the CheckRedirect of a client, and [Reason] says why it did not
//     follow a redirect.
//   - [Public] reports whether an address is on the public internet.
//   - [Directs] is the rule for addresses that come from a server's document, and [Control]
//     the same for what a name resolves to.
//   - [Local] reports whether a URL is on this machine, where no key is needed.
package httphost

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
)

const maxRedirects = 10

// SameHost lets an http.Client follow a redirect that keeps the scheme, the host and the
// method. Otherwise the response is the redirect itself.
func SameHost(req *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > maxRedirects || req.Method != first.Method || req.URL.Host != first.URL.Host || req.URL.Scheme != first.URL.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// Reason returns why SameHost did not follow the redirect in res, such as "a.example
// redirects to another server, https://b.example; this is not followed, so that no key
// goes there". Of another server's address only scheme and host are shown: the rest may
// hold a key.
func Reason(res *http.Response) string {
	from := res.Request.URL
	to, err := res.Location()
	switch {
	case err != nil:
		return "the server sent a redirect without a place to go to"
	case to.Host != from.Host || to.Scheme != from.Scheme:
		return fmt.Sprintf("%s redirects to another server, %s://%s; this is not followed, so that no key goes there", from.Host, to.Scheme, to.Host)
	default:
		return fmt.Sprintf("%s redirects to %s in a way that drops the request", from.Host, to.Path)
	}
}

// Local reports whether the host of u is this machine: localhost, a name below it, or a
// loopback address.
func Local(u *url.URL) bool {
	host := strings.ToLower(u.Hostname())
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}

// Outside reports whether the host of u is not written as one of this machine or of a private
// network. A name may still resolve to one: see Control.
func Outside(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	return !Local(u) && (err != nil || Public(ip))
}

// Address returns the host and the port of u, or the port of its scheme if u has none.
func Address(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "ws": "80", "socks5": "1080"}[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), cmp.Or(port, "443"))
}

// Same reports whether a and b have the same Address. The names of the loopback count as one:
// servers on this machine call themselves localhost even to clients that know them as 127.0.0.1.
func Same(a, b *url.URL) bool {
	of := func(u *url.URL) string {
		host, port, _ := net.SplitHostPort(Address(u))
		if host == "127.0.0.1" || host == "::1" {
			host = "localhost"
		}
		return net.JoinHostPort(host, port)
	}
	return of(a) == of(b)
}

// Directs reports whether a document of a server, such as a description, a card or metadata,
// may direct requests to the address to: from are the addresses that a person configured.
// Others are reached only outside of this machine and of private networks, and a configured
// address with one port opens no other port.
func Directs(to *url.URL, from ...*url.URL) bool {
	return Outside(to) || slices.ContainsFunc(from, func(u *url.URL) bool { return u != nil && Same(u, to) })
}

// ErrPrivate is the error of Control.
var ErrPrivate = errors.New("the address is not public")

// Control is the Control of a net.Dialer that connects only to public addresses. It checks them
// after names are resolved.
func Control(_, address string, _ syscall.RawConn) error {
	if at, err := netip.ParseAddrPort(address); err != nil || !Public(at.Addr()) {
		return ErrPrivate
	}
	return nil
}

// notPublic are ranges of the special-purpose registries of IANA that no public server is
// in, apart from those that netip knows. The last ones hold an IPv4 address, which a
// gateway may translate to.
var notPublic = []string{
	"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"168.63.129.16/32", // metadata of Azure
	"100::/64", "2001:db8::/32", "3fff::/20", "5f00::/16", "fec0::/10", "64:ff9b:1::/48", "2001::/23", "2002::/16", "::/96",
}

// Public reports whether an address is on the public internet: it does not belong to this
// machine, a private network or a metadata service, and does not translate to such an address.
func Public(a netip.Addr) bool {
	a = a.Unmap()
	if netip.MustParsePrefix("64:ff9b::/96").Contains(a) { // NAT64, where it is the only way to IPv4
		b := a.As16()
		return Public(netip.AddrFrom4([4]byte(b[12:])))
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
