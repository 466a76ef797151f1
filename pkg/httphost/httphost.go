// Package httphost decides to which hosts requests go that may carry a key.
//
//   - [SameHost] is the CheckRedirect of a client, and [Reason] says why it did not
//     follow a redirect.
//   - [Local] reports whether a URL is on this machine, where no key is needed.
package httphost

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
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
