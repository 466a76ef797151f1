package openapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/httphost"
)

const defaultMaxBytes = 1 << 20

// errPrivate says why a request is not sent.
var errPrivate = errors.New("the address is not public: set allowPrivate in the toolbox to permit it")

// free reports whether address, a host with a port, may be private: the settings permit it, or
// they name the address itself with an IP address or localhost.
func (b *Box) free(address string) bool {
	return b.settings.AllowPrivate || slices.ContainsFunc([]*url.URL{b.base, b.from}, func(u *url.URL) bool {
		return u != nil && httphost.Address(u) == strings.ToLower(address) && !httphost.Outside(u)
	})
}

// newClient makes a client that connects to public addresses, after names are resolved,
// and to those of free hosts.
func (b *Box) newClient(proxy func(*http.Request) (*url.URL, error)) *http.Client {
	var proxies sync.Map // their addresses
	dialer := net.Dialer{Timeout: 20 * time.Second}
	checked := dialer
	checked.Control = func(network, address string, c syscall.RawConn) error {
		if httphost.Control(network, address, c) != nil {
			return errPrivate
		}
		return nil
	}
	t := &http.Transport{TLSHandshakeTimeout: 20 * time.Second, MaxResponseHeaderBytes: 256 << 10, ForceAttemptHTTP2: true}
	t.Proxy = func(req *http.Request) (*url.URL, error) {
		if !b.free(httphost.Address(req.URL)) && !httphost.Outside(req.URL) {
			return nil, errPrivate // the proxy might connect to it
		}
		u, err := proxy(req)
		if u != nil {
			proxies.Store(httphost.Address(u), true)
		}
		return u, err
	}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if _, isProxy := proxies.Load(address); isProxy || b.free(address) {
			return dialer.DialContext(ctx, network, address)
		}
		return checked.DialContext(ctx, network, address)
	}
	return &http.Client{Transport: t, CheckRedirect: httphost.SameHost}
}

// send sends r for op to base. Headers and secrets of the entry go to its own server only.
func (b *Box) send(ctx context.Context, op *operation, base *url.URL, r *request) (*http.Response, error) {
	address := base.Scheme + "://" + base.Host + base.EscapedPath()
	if r.path != "" {
		address = strings.TrimSuffix(address, "/") + r.path
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the path %q is not valid", r.path)
	}
	for _, own := range []string{u.RawQuery, base.RawQuery} {
		if own != "" {
			r.query = append(r.query, own)
		}
	}
	if b.home != nil && strings.EqualFold(b.home.Scheme+"://"+b.home.Host, u.Scheme+"://"+u.Host) {
		for name, value := range b.settings.Headers {
			r.header.Set(name, value)
		}
		if b.settings.Key != "" {
			b.doc.keyFor(op, b.settings.Key).add(r)
		}
		for _, s := range b.secrets {
			s.add(r)
		}
	}
	u.RawQuery = strings.Join(r.query, "&")
	req, err := http.NewRequestWithContext(ctx, op.method, u.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	req.Header = r.header
	res, err := b.client.Do(req)
	if wrapped, ok := errors.AsType[*url.Error](err); ok { // it repeats the address
		err = wrapped.Err
	}
	return res, err
}

// failure returns an error for the status of a response, or nil for a success.
func failure(res *http.Response) error {
	switch {
	case res.StatusCode < 300:
		return nil
	case res.StatusCode < 400 && res.Header.Get("Location") != "":
		return errors.New(httphost.Reason(res))
	}
	return fmt.Errorf("HTTP %d", res.StatusCode)
}

// result is what the model sees of a response.
func (t *tool) result(res *http.Response) (agent.Result, error) {
	limit := cmp.Or(t.box.settings.MaxBytes, defaultMaxBytes)
	body, err := io.ReadAll(io.LimitReader(res.Body, int64(limit)+1))
	lines := []string{fmt.Sprintf("HTTP %d", res.StatusCode), ""}
	failed := failure(res)
	if failed != nil {
		lines[0] = "" // the error has it
	}
	whole := body[:min(len(body), limit)]
	for i := 0; i < utf8.UTFMax && len(whole) < len(body) && !utf8.Valid(whole); i++ { // a character that is cut
		whole = whole[:len(whole)-1]
	}
	media := cmp.Or(res.Header.Get("Content-Type"), "unknown type")
	switch {
	case t.op.method == "HEAD":
		lines[0] += " (HEAD request - no body)"
	case bytes.IndexByte(whole, 0) >= 0 || !utf8.Valid(whole) && !strings.HasPrefix(media, "text/"):
		lines[1] = fmt.Sprintf("(%d bytes of %s; binary data is not shown)", len(body), media)
	default:
		lines[1] = strings.ToValidUTF8(string(whole), "\uFFFD")
	}
	if len(body) > limit {
		lines = append(lines, "", fmt.Sprintf("The response is too long: only its first %d bytes are shown. Request less, with a filter, a limit or fewer fields.", limit))
	}
	if hints := t.hints(res); len(hints) > 0 {
		lines = append(append(lines, ""), hints...)
	}
	result := agent.Result{Parts: []agent.Part{agent.Text(t.box.redact.String(strings.Join(lines, "\n")))}}
	return result, t.failed(cmp.Or(err, failed))
}

// hints returns lines of the response header that matter for the next call.
func (t *tool) hints(res *http.Response) (lines []string) {
	for _, name := range []string{"Content-Range", "X-Total-Count", "Retry-After", "Location"} {
		if v := res.Header.Get(name); v != "" {
			lines = append(lines, name+": "+v)
		}
	}
	for _, link := range strings.Split(strings.Join(res.Header.Values("Link"), ","), "<") { // which no address contains
		address, rel, _ := strings.Cut(link, ">")
		u, err := url.Parse(address)
		if err != nil || !strings.Contains(strings.ReplaceAll(rel, `"`, ""), "rel=next") {
			continue
		}
		for _, p := range t.op.parameters {
			if v := u.Query().Get(p.name); v != "" && p.in == "query" {
				lines = append(lines, fmt.Sprintf("For the next page, set %s to %s.", p.arg, v))
			}
		}
	}
	return lines
}
