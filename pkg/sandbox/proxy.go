package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/httphost"
)

const (
	proxyConnections = 256              // at the same time; more wait
	proxyHeader      = 64 << 10         // bytes of a request's header
	proxyFirst       = 10 * time.Second // for a header or a TLS hello, and for a connection to the server
	proxyIdle        = 10 * time.Minute // without a byte
)

// A Proxy is an HTTP proxy that reaches the servers of a list of domains and nothing else.
// It speaks HTTP, and TLS in a tunnel whose hello names the server that the tunnel is for.
// It resolves names itself and connects to the address that it checked, which must be of
// the public internet. What a permitted server does with a request is not its business: one
// that serves other names too (a content delivery network) can be asked for them inside of
// TLS.
//
// The fields must not change once Serve runs.
type Proxy struct {
	// Domains are names, or "*." and a name for all below it, each with ":PORT" if the
	// port is neither 80 nor 443.
	Domains []string
	// Refused, if not nil, is called with what was refused and why, once for each such
	// text: `sandbox: evil.example is not in "network"`. It must be safe for concurrent use.
	Refused func(note string)

	// Resolve is net.DefaultResolver.LookupNetIP if nil, Dial that of a net.Dialer.
	Resolve func(ctx context.Context, network, host string) ([]netip.Addr, error)
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
	// Idle is how long a connection may be silent; 0 is ten minutes. First is how long a
	// client may take to say what it wants; 0 is ten seconds.
	Idle, First time.Duration

	once      sync.Once
	done      chan struct{} // closed by Close
	forward   *httputil.ReverseProxy
	transport *http.Transport
	requests  sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	servers []*http.Server
	said    map[string]bool
}

// proxyNotes is how many different refusals are said.
const proxyNotes = 20

// ProxyEnviron returns the environment variables with which programs use a proxy at
// address, such as 127.0.0.1:3128, except for their own servers on this machine.
func ProxyEnviron(address string) []string {
	var environ []string
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		environ = append(environ, name+"=http://"+address)
	}
	local := "localhost,.localhost,127.0.0.1,::1"
	return append(environ, "NO_PROXY="+local, "no_proxy="+local, "NODE_USE_ENV_PROXY=1")
}

// Serve accepts connections of l until Close is called or l fails, and closes l. It may be
// called for more than one listener.
func (p *Proxy) Serve(l net.Listener) error {
	p.start()
	s := p.server(p.serve)
	p.mu.Lock()
	closed := p.closed
	p.servers = append(p.servers, s)
	p.mu.Unlock()
	if closed {
		return errors.Join(http.ErrServerClosed, l.Close())
	}
	return s.Serve(&limited{Listener: l, slots: make(chan struct{}, proxyConnections), done: p.done})
}

// Close ends all connections and every Serve, and returns when the last is gone.
func (p *Proxy) Close() error {
	p.start()
	p.mu.Lock()
	servers, first := p.servers, !p.closed
	p.closed = true
	p.mu.Unlock()
	if first {
		close(p.done)
	}
	var errs []error
	for _, s := range servers {
		errs = append(errs, s.Close())
	}
	p.requests.Wait()
	p.transport.CloseIdleConnections()
	return errors.Join(errs...)
}

func (p *Proxy) start() {
	p.once.Do(func() {
		p.done, p.said = make(chan struct{}), map[string]bool{}
		p.transport = &http.Transport{
			DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
				host, port, err := net.SplitHostPort(address)
				if err != nil {
					return nil, err
				}
				return p.connect(ctx, host, port)
			},
			DisableCompression: true, MaxResponseHeaderBytes: 1 << 20, ResponseHeaderTimeout: p.idle(), IdleConnTimeout: time.Minute,
		}
		p.forward = &httputil.ReverseProxy{
			Transport: p.transport, ErrorLog: log.New(io.Discard, "", 0),
			Rewrite:      func(r *httputil.ProxyRequest) { r.Out.URL.RawQuery = r.In.URL.RawQuery }, // as it came
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { refuse(w, err) },
		}
	})
}

// server is an HTTP server with the limits of the proxy.
func (p *Proxy) server(serve http.HandlerFunc) *http.Server {
	return &http.Server{
		Handler: serve, MaxHeaderBytes: proxyHeader, ReadHeaderTimeout: p.first(), IdleTimeout: p.idle(),
		ErrorLog: log.New(io.Discard, "", 0), // what clients do wrong
	}
}

func (p *Proxy) idle() time.Duration  { return cmp.Or(p.Idle, proxyIdle) }
func (p *Proxy) first() time.Duration { return cmp.Or(p.First, proxyFirst) }

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.requests.Add(1)
	p.mu.Unlock()
	defer p.requests.Done()
	switch {
	case r.Method == http.MethodConnect:
		p.tunnel(w, r)
	case r.URL.Host == "":
		refuse(w, p.refused("a request without a server: this is a proxy for HTTP"))
	case r.URL.Scheme != "http" || r.URL.User != nil:
		refuse(w, p.refused("%s: want an address that starts with http:// and the server's name", r.URL.Redacted()))
	default:
		host, port := split(r.URL.Host, "80")
		p.plain(w, r, host, port)
	}
}

// plain forwards one request for the server at host and port, whatever its header says.
func (p *Proxy) plain(w http.ResponseWriter, r *http.Request, host, port string) {
	if err := p.check(host, port); err != nil {
		refuse(w, err)
		return
	}
	out := r.Clone(r.Context())
	out.URL = &url.URL{Scheme: "http", Host: host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}
	if port != "80" {
		out.URL.Host = net.JoinHostPort(host, port)
	}
	out.Host = out.URL.Host
	out.Header.Del("Upgrade") // to what is not HTTP
	p.forward.ServeHTTP(w, out)
}

// split returns the name of a server in lower case and its port.
func split(hostport, usual string) (host, port string) {
	u := url.URL{Host: hostport}
	return strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), cmp.Or(u.Port(), usual)
}

// check returns an error if no domain of the list names the server.
func (p *Proxy) check(host, port string) error {
	switch {
	case permits(p.Domains, host, port):
		return nil
	case permits(p.Domains, host, "80") || permits(p.Domains, host, "443"):
		return p.refused(`%s:%s is not in "network": another port than 80 and 443 is named with it`, host, port)
	default:
		return p.refused(`%s is not in "network"`, host)
	}
}

// connect resolves a name that is permitted and connects to the first of its addresses
// that answers and is public.
func (p *Proxy) connect(ctx context.Context, host, port string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, proxyFirst)
	defer cancel()
	resolve, dial := p.Resolve, p.Dial
	if resolve == nil {
		resolve = net.DefaultResolver.LookupNetIP
	}
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	addrs, err := resolve(ctx, "ip", host+".") // the dot: no suffix of the local network
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", host, err)
	}
	err = fmt.Errorf("resolve %s: there is no address", host)
	var private error
	for _, a := range addrs {
		if !httphost.Public(a) {
			private = p.refused(`%s has the address %s, which is not of the public internet`, host, a)
			continue
		}
		var conn net.Conn
		if conn, err = dial(ctx, "tcp", net.JoinHostPort(a.Unmap().String(), port)); err == nil {
			return conn, nil
		}
	}
	return nil, cmp.Or(private, err)
}

// A refusal is the error of what the proxy does not permit.
type refusal struct{ note string }

func (r *refusal) Error() string { return r.note }

// refused makes a refusal and says it.
func (p *Proxy) refused(format string, args ...any) error {
	note := "sandbox: " + fmt.Sprintf(format, args...)
	p.mu.Lock()
	say := p.Refused != nil && !p.said[note] && len(p.said) < proxyNotes
	if say {
		p.said[note] = true
	}
	p.mu.Unlock()
	if say {
		p.Refused(note)
	}
	return &refusal{note}
}

// refuse answers a request that failed: with 403 if it is not permitted.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	if errors.As(err, new(*refusal)) {
		status = http.StatusForbidden
	}
	http.Error(w, err.Error(), status)
}

// A refusals keeps what the proxy of one process has refused.
type refusals struct {
	log   func(line string) // of the person
	mu    sync.Mutex
	lines []string
}

func (r *refusals) add(line string) {
	r.mu.Lock()
	r.lines = append(r.lines, line)
	r.mu.Unlock()
	r.log(line)
}

// take returns a line for each, once.
func (r *refusals) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := strings.Join(r.lines, "\n")
	r.lines = nil
	return text
}

func (b *Box) proxyFor(domains []string, r *refusals) *Proxy {
	r.log = b.log
	p := &Proxy{Domains: domains, Refused: r.add}
	if b.adjust != nil {
		b.adjust(p)
	}
	return p
}

// limited is a listener that accepts only so many connections at the same time.
type limited struct {
	net.Listener
	slots chan struct{}
	done  <-chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.done:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &slot{Conn: conn, free: sync.OnceFunc(func() { <-l.slots })}, nil
}

// slot is a connection that frees its place once it is closed.
type slot struct {
	net.Conn
	free func()
}

func (s *slot) Close() error {
	defer s.free()
	return s.Conn.Close()
}

// CloseWrite ends what the other side reads.
func (s *slot) CloseWrite() error { return closeWrite(s.Conn) }

func closeWrite(conn net.Conn) error {
	if c, ok := conn.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return conn.Close()
}

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
