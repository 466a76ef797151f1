package sandbox

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// tunnel answers CONNECT: with a connection to the server for TLS, with another HTTP proxy
// for HTTP, and for anything else with the end of the connection.
func (p *Proxy) tunnel(w http.ResponseWriter, r *http.Request) {
	host, port := split(r.URL.Host, "443")
	if r.URL.User != nil {
		host = r.URL.User.String() + "@" + host // is in no list
	}
	if err := p.check(host, port); err != nil {
		refuse(w, err)
		return
	}
	server, err := p.connect(r.Context(), host, port)
	if err != nil {
		refuse(w, err)
		return
	}
	defer server.Close()
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		refuse(w, err)
		return
	}
	defer conn.Close()
	ended := make(chan struct{})
	var closer sync.WaitGroup
	closer.Go(func() {
		select {
		case <-ended:
		case <-p.done:
			conn.Close()
			server.Close()
		}
	})
	defer closer.Wait()
	defer close(ended)

	_ = conn.SetReadDeadline(time.Now().Add(p.first()))
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	client := &buffered{Conn: conn, r: rw.Reader}
	switch start, _ := rw.Reader.Peek(len("GET / HTTP/1.1\r\n")); {
	case len(start) > 0 && start[0] == 0x16: // a TLS record with a handshake
		hello, err := p.hello(client, host)
		if err == nil {
			_, err = server.Write(hello)
		}
		if err == nil {
			relay(client, server, p.idle())
		}
	case looksLikeHTTP(start):
		server.Close()
		p.serveOne(client, host, port)
	case len(start) > 0:
		_ = p.refused("%s:%s: a connection that is neither TLS nor HTTP", host, port)
	}
}

// looksLikeHTTP reports whether a request can begin with start: with a method.
func looksLikeHTTP(start []byte) bool {
	method, _, found := bytes.Cut(start, []byte(" "))
	return found && len(bytes.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")) == 0 && len(method) > 0
}

// hello reads the first message of TLS and returns all that was read, if it is for host.
func (p *Proxy) hello(client net.Conn, host string) ([]byte, error) {
	read, name, hidden, err := readHello(client)
	switch {
	case err != nil:
		return nil, p.refused("%s: a TLS connection that does not begin with a valid hello", host)
	case hidden:
		return nil, p.refused("%s: a TLS hello with an encrypted part, which may name another server", host)
	case name == "":
		return nil, p.refused("%s: a TLS hello without a server's name", host)
	case name != host:
		return nil, p.refused("%s: a TLS hello for another server, %s", host, name)
	}
	return read, nil
}

// serveOne serves the requests of a tunnel that are HTTP, as if each had been sent to the
// proxy itself.
func (p *Proxy) serveOne(client net.Conn, host, port string) {
	s := p.server(func(w http.ResponseWriter, r *http.Request) {
		if h, n := split(r.Host, port); r.Method == http.MethodConnect || r.URL.User != nil || h != host || n != port {
			refuse(w, p.refused("%s:%s: an HTTP request for another server, %s", host, port, r.Host))
			return
		}
		p.plain(w, r, host, port)
	})
	l := &single{conn: client, closed: make(chan struct{})}
	s.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(l.closed)
		}
	}
	_ = s.Serve(l)
}

// relay copies in both directions until both end, one fails, or nothing comes for the time
// idle.
func relay(a, b net.Conn, idle time.Duration) {
	extend := func() {
		_ = a.SetDeadline(time.Now().Add(idle))
		_ = b.SetDeadline(time.Now().Add(idle))
	}
	extend()
	oneWay := func(dst, src net.Conn) {
		buf := make([]byte, 32<<10)
		for {
			n, err := src.Read(buf)
			extend()
			if n > 0 {
				if _, err := dst.Write(buf[:n]); err != nil {
					src.Close()
					return
				}
			}
			switch {
			case errors.Is(err, io.EOF):
				if c, ok := dst.(interface{ CloseWrite() error }); ok {
					_ = c.CloseWrite()
				}
				return
			case err != nil:
				dst.Close()
				return
			}
		}
	}
	var back sync.WaitGroup
	back.Go(func() { oneWay(a, b) })
	oneWay(b, a)
	back.Wait()
}

// buffered is a connection of which a part was read already.
type buffered struct {
	net.Conn
	r *bufio.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.r.Read(p) }

// CloseWrite ends what the other side reads.
func (b *buffered) CloseWrite() error { return closeWrite(b.Conn) }

// single is a listener with one connection.
type single struct {
	conn   net.Conn
	taken  bool
	closed chan struct{}
}

func (l *single) Accept() (net.Conn, error) {
	if l.taken {
		<-l.closed
		return nil, net.ErrClosed
	}
	l.taken = true
	return l.conn, nil
}

func (l *single) Addr() net.Addr { return l.conn.LocalAddr() }
func (l *single) Close() error   { return nil }

// errHello is what is wrong with a hello. The library's own reader would make the binary
// larger by a TLS server.
var errHello = errors.New("not a TLS hello")

// Extensions of a hello.
const (
	serverNameExtension = 0
	encryptedExtension  = 0xfe0d // RFC 9849
)

// readHello reads the first message of a TLS client, RFC 8446, 4.1.2, and nothing behind
// it. name is the server's, in lower case, and hidden reports an encrypted part.
func readHello(r io.Reader) (read []byte, name string, hidden bool, err error) {
	var message []byte
	for size := 4; len(message) < size; {
		header := make([]byte, 5)
		if _, err := io.ReadFull(r, header); err != nil {
			return nil, "", false, err
		}
		length := int(header[3])<<8 | int(header[4])
		if header[0] != 22 || header[1] != 3 || length == 0 || length > 1<<14 {
			return nil, "", false, errHello
		}
		record := make([]byte, length)
		if _, err := io.ReadFull(r, record); err != nil {
			return nil, "", false, err
		}
		read, message = append(append(read, header...), record...), append(message, record...)
		if len(message) >= 4 {
			size = 4 + int(message[1])<<16 + int(message[2])<<8 + int(message[3])
		}
		if message[0] != 1 || size > 1<<16 || len(message) > size && size > 4 {
			return nil, "", false, errHello
		}
	}
	name, hidden, err = parseHello(message[4:])
	return read, name, hidden, err
}

func parseHello(body []byte) (name string, hidden bool, err error) {
	m := &fields{rest: body}
	m.take(2 + 32) // version and random
	m.vector(1)    // session
	m.vector(2)    // ciphers
	m.vector(1)    // compression
	extensions := m.vector(2)
	if m.short || len(m.rest) > 0 {
		return "", false, errHello
	}
	seen := map[int]bool{}
	for len(extensions.rest) > 0 && !extensions.short {
		kind := extensions.number(2)
		data := extensions.vector(2)
		if seen[kind] {
			return "", false, errHello
		}
		seen[kind] = true
		switch kind {
		case encryptedExtension:
			hidden = true
		case serverNameExtension:
			list := data.vector(2)
			isHost := list.number(1) == 0
			host := list.vector(2)
			if data.short || list.short || len(data.rest)+len(list.rest) > 0 || !isHost {
				return "", false, errHello
			}
			name = strings.ToLower(string(host.rest))
		}
	}
	if extensions.short {
		return "", false, errHello
	}
	return name, hidden, nil
}

// fields reads the encoding of TLS. short says that there was less than was to be read.
type fields struct {
	rest  []byte
	short bool
}

func (f *fields) take(n int) []byte {
	if n > len(f.rest) {
		f.rest, f.short = nil, true
		return nil
	}
	data := f.rest[:n]
	f.rest = f.rest[n:]
	return data
}

// number reads a number of so many bytes.
func (f *fields) number(size int) (n int) {
	for _, b := range f.take(size) {
		n = n<<8 | int(b)
	}
	return n
}

// vector reads what has its length, of so many bytes, before it.
func (f *fields) vector(size int) *fields { return &fields{rest: f.take(f.number(size))} }
