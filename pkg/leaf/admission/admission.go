// Package admission decides which clients an HTTP server serves.
//
//   - [Hosts] checks the Host and Origin of requests.
//   - [Tokens] checks bearer tokens.
//   - [Listener] limits the open connections, and [LimitBody] the time of a body.
package admission

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Hosts are the names by which a server may be reached. A page of another site
// that has its name resolve to this machine (DNS rebinding) sends that name.
type Hosts struct {
	// Origins are pages of other sites that may use the server, and their hosts names
	// of it, as behind a proxy: "https://agents.example".
	Origins []string

	name string // in addition to those of the loopback; "" if there is none
	any  bool   // listens on all addresses; unlike a name, an address cannot be redirected
}

// NewHosts returns the names of a server that listens on addr. name is the one that
// clients use, without a port; "" is the address.
func NewHosts(name string, addr net.Addr) Hosts {
	h := Hosts{name: plainHost(name)}
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

// Check returns why the Host or Origin of a request is refused, "" if neither is.
func (h Hosts) Check(r *http.Request) string {
	if !h.known(r.Host, h.any) {
		return fmt.Sprintf("the host %q is not this server's", r.Host)
	}
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		if slices.Contains(h.Origins, origin) {
			continue
		}
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || !h.known(u.Host, false) {
			return fmt.Sprintf("a page of %q may not call this server", origin)
		}
	}
	return ""
}

// known reports whether host, which may have a port, is a name of this server.
func (h Hosts) known(host string, address bool) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = plainHost(host)
	for _, origin := range h.Origins {
		if u, err := url.Parse(origin); err == nil && host != "" && plainHost(u.Hostname()) == host {
			return true
		}
	}
	if host == "localhost" || host != "" && host == h.name {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (address || ip.IsLoopback())
}

// Tokens are hashes of bearer tokens: how long a comparison takes says nothing about
// them, not even their length.
type Tokens [][sha256.Size]byte

// NewTokens returns the hashes of tokens.
func NewTokens(tokens []string) Tokens {
	var list Tokens
	for _, t := range tokens {
		list = append(list, sha256.Sum256([]byte(t)))
	}
	return list
}

// Find returns the index of a token, -1 if it is none of these.
func (t Tokens) Find(token string) int {
	sum := sha256.Sum256([]byte(token))
	found := -1
	for i, known := range t {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(known[:], sum[:]), i, found)
	}
	return found
}

// Bearer returns the token in an Authorization header, "" if there is none.
func Bearer(authorization string) string {
	scheme, value, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(value)
}
