package mcpserver

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// hosts are the names by which the server may be reached. A page of another site
// that has its name resolve to this machine (DNS rebinding) sends that name.
type hosts struct {
	name string // in addition to those of the loopback; "" if there is none
	any  bool   // listens on all addresses; unlike a name, an address cannot be redirected
}

func newHosts(name string, addr net.Addr) hosts {
	h := hosts{name: plainHost(name)}
	if tcp, ok := addr.(*net.TCPAddr); ok {
		h.any = tcp.IP.IsUnspecified()
		if h.name == "" && !h.any {
			h.name = plainHost(tcp.IP.String())
		}
	}
	return h
}

// plainHost is a host as it is compared.
func plainHost(name string) string {
	return strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
}

// check says why the request's Host or Origin is refused, "" if neither is.
func (h hosts) check(r *http.Request) string {
	if !h.known(r.Host, h.any) {
		return fmt.Sprintf("the host %q is not this server's", r.Host)
	}
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || !h.known(u.Host, false) {
			return fmt.Sprintf("a page of %q may not call this server", origin)
		}
	}
	return ""
}

// known reports whether host, which may have a port, is a name of this server.
func (h hosts) known(host string, address bool) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = plainHost(host)
	if host == "localhost" || host != "" && host == h.name {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (address || ip.IsLoopback())
}

// A tokenSet has the hashes of bearer tokens: how long a comparison takes says nothing
// about them, not even their length.
type tokenSet [][sha256.Size]byte

func newTokenSet(tokens []string) tokenSet {
	var g tokenSet
	for _, t := range tokens {
		g = append(g, sha256.Sum256([]byte(t)))
	}
	return g
}

// check reports whether the value of an Authorization header has one of the tokens,
// and names that one.
func (g tokenSet) check(authorization string) (token string, ok bool) {
	if len(g) == 0 {
		return "", true
	}
	scheme, value, _ := strings.Cut(authorization, " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(value)))
	found := 0
	for _, known := range g {
		found |= subtle.ConstantTimeCompare(known[:], sum[:])
	}
	return hex.EncodeToString(sum[:]), found == 1 && strings.EqualFold(scheme, "Bearer")
}

// accepts reports whether a client takes answers of a media type.
func accepts(r *http.Request, kind string) bool {
	values := r.Header.Values("Accept")
	if len(values) == 0 {
		return true
	}
	main, _, _ := strings.Cut(kind, "/")
	for _, item := range strings.Split(strings.Join(values, ","), ",") {
		name, params, err := mime.ParseMediaType(item)
		if err == nil && params["q"] != "0" && (name == kind || name == main+"/*" || name == "*/*") {
			return true
		}
	}
	return false
}
