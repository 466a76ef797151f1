package sandbox

import (
	"bufio"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A proxyTest is a proxy for example.com, *.example.net and example.com:8443, whose names
// all have public addresses, behind which two servers of the test answer.
type proxyTest struct {
	*Proxy
	address string

	mu     sync.Mutex
	addrs  map[string][]string // of names; example.com has one anyway
	dialed []string
	notes  []string
	seen   []string // method, host and path of the requests that arrived
}

func newProxyTest(t *testing.T) *proxyTest {
	pt := &proxyTest{addrs: map[string][]string{}}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pt.mu.Lock()
		pt.seen = append(pt.seen, fmt.Sprintf("%s %s %s", r.Method, r.Host, r.RequestURI))
		pt.mu.Unlock()
		for _, name := range []string{"Upgrade", "Proxy-Authorization", "X-Forwarded-For", "User-Agent"} {
			if r.TLS == nil && r.Header.Get(name) != "" {
				t.Errorf("the server reads the header %s: %s", name, r.Header.Get(name))
			}
		}
		_, _ = io.Copy(w, io.MultiReader(strings.NewReader("hello "), r.Body))
	})
	plain, secure := httptest.NewServer(h), httptest.NewUnstartedServer(h)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	pt.Proxy = &Proxy{
		Domains: []string{"example.com", "*.Example.net", "example.com:8443"},
		Refused: func(note string) { pt.mu.Lock(); defer pt.mu.Unlock(); pt.notes = append(pt.notes, note) },
		Resolve: func(_ context.Context, _, host string) ([]netip.Addr, error) {
			pt.mu.Lock()
			defer pt.mu.Unlock()
			list := pt.addrs[host]
			if list == nil {
				list = []string{"93.184.215.14"}
			}
			var addrs []netip.Addr
			for _, a := range list {
				addrs = append(addrs, netip.MustParseAddr(a))
			}
			return addrs, nil
		},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			pt.mu.Lock()
			pt.dialed = append(pt.dialed, address)
			pt.mu.Unlock()
			to := plain.Listener
			if strings.HasSuffix(address, "443") {
				to = secure.Listener
			}
			return new(net.Dialer).DialContext(ctx, network, to.Addr().String())
		},
	}
	pt.address = serve(t, pt.Proxy)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	return pt
}

// serve lets a proxy listen until the test ends, and returns where.
func serve(t *testing.T, p *Proxy) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.start()
	served := make(chan error)
	go func() { served <- p.Serve(l) }()
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != http.ErrServerClosed {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// happened is what was noted, where connections went, and which requests arrived.
func (pt *proxyTest) happened() (notes, dialed, seen []string) {
	pt.mu.Lock()
	defer pt.mu.Unlock()
	return slices.Clone(pt.notes), slices.Clone(pt.dialed), slices.Clone(pt.seen)
}

// reset forgets what was noted and dialed.
func (pt *proxyTest) reset() {
	pt.mu.Lock()
	defer pt.mu.Unlock()
	pt.notes, pt.dialed = nil, nil
	pt.Proxy.mu.Lock()
	defer pt.Proxy.mu.Unlock()
	pt.said = map[string]bool{}
}

// talk opens a connection to the proxy, on which nothing takes longer than ten seconds.
func (pt *proxyTest) talk(t *testing.T, send string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", pt.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, send); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// answer reads one response.
func answer(t *testing.T, r *bufio.Reader) (status int, body string) {
	t.Helper()
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(data)
}

// connect opens a tunnel.
func (pt *proxyTest) open(t *testing.T, hostport string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, r := pt.talk(t, "CONNECT "+hostport+" HTTP/1.1\r\nHost: "+hostport+"\r\n\r\n")
	res, err := http.ReadResponse(r, &http.Request{Method: "CONNECT"})
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("CONNECT %s: %v, %v", hostport, res, err)
	}
	return conn, r
}

// ended fails the test unless the proxy ends the connection without another byte.
func ended(t *testing.T, r io.Reader) {
	t.Helper()
	if data, err := io.ReadAll(r); len(data) > 0 || err != nil && strings.Contains(err.Error(), "timeout") {
		t.Errorf("the connection goes on: %q, %v", data, err)
	}
}

func TestProxyForwardsRequests(t *testing.T) {
	pt := newProxyTest(t)
	for _, tt := range []struct{ request, body, seen string }{
		{"GET http://example.com/a%2Fb?x=1;y=2 HTTP/1.1\r\nHost: example.com\r\n\r\n", "hello ", "GET example.com /a%2Fb?x=1;y=2"},
		{"POST http://EXAMPLE.com.:80/ HTTP/1.1\r\nHost: example.com\r\nContent-Length: 4\r\nProxy-Authorization: x\r\n\r\nbody", "hello body", "POST example.com /"},
		{"GET http://a.b.example.net HTTP/1.1\r\nHost: a.b.example.net\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n", "hello ", "GET a.b.example.net /"},
		// RFC 9112, 3.2.2: the address counts, not the header.
		{"GET http://example.com/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", "hello ", "GET example.com /"},
	} {
		_, r := pt.talk(t, tt.request)
		if status, body := answer(t, r); status != 200 || body != tt.body {
			t.Errorf("%q: %d %q, want 200 %q", tt.request, status, body, tt.body)
		}
		if _, _, seen := pt.happened(); seen[len(seen)-1] != tt.seen {
			t.Errorf("%q: the server reads %q, want %q", tt.request, seen[len(seen)-1], tt.seen)
		}
	}
	if notes, _, _ := pt.happened(); notes != nil {
		t.Errorf("notes: %q", notes)
	}
}

func TestProxyRefuses(t *testing.T) {
	pt := newProxyTest(t)
	notIn := func(name string) string { return "sandbox: " + name + ` is not in "network"` }
	otherPort := func(name string) string { return notIn(name) + ": another port than 80 and 443 is named with it" }
	for _, tt := range []struct{ target, note string }{
		{"http://evil.example/", notIn("evil.example")},
		{"http://example.com.evil.example/", notIn("example.com.evil.example")},
		{"http://notexample.com/", notIn("notexample.com")},
		{"http://example.net/", notIn("example.net")},
		{"http://.example.net/", notIn(".example.net")},
		{"http://example.com:22/", otherPort("example.com:22")},
		{"http://example.com@evil.example/", `sandbox: http://example.com@evil.example/: want an address that starts with http:// and the server's name`},
		{"http://evil.example@example.com/", `sandbox: http://evil.example@example.com/: want an address that starts with http:// and the server's name`},
		{"https://example.com/", `sandbox: https://example.com/: want an address that starts with http:// and the server's name`},
		{"/etc/passwd", "sandbox: a request without a server: this is a proxy for HTTP"},
		{"http://93.184.215.14/", notIn("93.184.215.14")},
		{"http://127.0.0.1/", notIn("127.0.0.1")},
		{"http://127.1/", notIn("127.1")},
		{"http://2130706433/", notIn("2130706433")},
		{"http://0x7f000001/", notIn("0x7f000001")},
		{"http://[::1]/", notIn("::1")},
		{"http://[::ffff:127.0.0.1]/", notIn("::ffff:127.0.0.1")},
		{"http://[::ffff:7f00:1]:80/", notIn("::ffff:7f00:1")},
		{"http://[fe80::1%25example.com]/", notIn("fe80::1%example.com")},
		{"http://localhost/", notIn("localhost")},
		{"CONNECT evil.example:443", notIn("evil.example")},
		{"CONNECT example.com:22", otherPort("example.com:22")},
		{"CONNECT a@example.com:443", notIn("a@example.com")},
		{"CONNECT example.com:443@evil.example:443", notIn("example.com:443@evil.example")},
		{"CONNECT [::ffff:169.254.169.254]:80", notIn("::ffff:169.254.169.254")},
	} {
		t.Run(tt.target, func(t *testing.T) {
			pt.reset()
			method, target, ok := strings.Cut(tt.target, " ")
			if !ok {
				method, target = "GET", tt.target
			}
			_, r := pt.talk(t, method+" "+target+" HTTP/1.1\r\nHost: example.com\r\n\r\n")
			if status, body := answer(t, r); status != 403 || body != tt.note+"\n" {
				t.Errorf("%d %q, want 403 %q", status, body, tt.note)
			}
			if notes, _, _ := pt.happened(); !slices.Equal(notes, []string{tt.note}) {
				t.Errorf("notes = %q, want %q", notes, tt.note)
			}
		})
	}
	for _, request := range []string{
		"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\nHost: evil.example\r\n\r\n",
		"GET http://example.com\x00.evil.example/ HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\nX: " + strings.Repeat("x", 2*proxyHeader) + "\r\n\r\n",
		"POST http://example.com/ HTTP/1.1\r\nHost: example.com\r\nContent-Length: 3\r\nContent-Length: 30\r\n\r\nabc",
		"SSH-2.0-OpenSSH_9.2\r\n\r\n",
	} {
		_, r := pt.talk(t, request)
		if status, body := answer(t, r); status < 400 {
			t.Errorf("%.100q: %d %q", request, status, body)
		}
	}
	if _, dialed, seen := pt.happened(); seen != nil || dialed != nil {
		t.Errorf("connections to %q, requests %q", dialed, seen)
	}
}

// Once a name was checked, what it resolves to next does not count; an answer with both
// kinds of addresses gives only the public one.
func TestProxyChecksTheAddressItDials(t *testing.T) {
	pt := newProxyTest(t)
	for _, tt := range []struct {
		addrs  []string
		dialed []string
		note   string
	}{
		{[]string{"127.0.0.1"}, nil, "127.0.0.1"},
		{[]string{"::ffff:10.0.0.1"}, nil, "::ffff:10.0.0.1"},
		{[]string{"169.254.169.254", "fd00:ec2::254"}, nil, "169.254.169.254"},
		{[]string{"192.168.1.1", "93.184.215.14"}, []string{"93.184.215.14:80"}, "192.168.1.1"},
		{[]string{"2606:2800:21f:cb07:6820:80da:af6b:8b2c"}, []string{"[2606:2800:21f:cb07:6820:80da:af6b:8b2c]:80"}, ""},
	} {
		pt.reset()
		pt.transport.CloseIdleConnections()
		pt.mu.Lock()
		pt.addrs["example.com."] = tt.addrs
		pt.mu.Unlock()
		for _, request := range []string{"GET http://example.com/", "CONNECT example.com:80"} {
			_, r := pt.talk(t, request+" HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n")
			res, err := http.ReadResponse(r, nil)
			if want := map[bool]int{true: 200, false: 403}[tt.dialed != nil]; err != nil || res.StatusCode != want {
				t.Errorf("%q: %s: %v, %v, want %d", tt.addrs, request, res, err, want)
			}
		}
		notes, dialed, _ := pt.happened()
		for _, address := range dialed {
			if !slices.Contains(tt.dialed, address) {
				t.Errorf("%q: connected to %s", tt.addrs, address)
			}
		}
		if (len(dialed) > 0) != (tt.dialed != nil) || tt.note != "" && !strings.Contains(strings.Join(notes, "\n"), "example.com has the address "+tt.note+", which is not of the public internet") {
			t.Errorf("%q: connected to %q, notes %q", tt.addrs, dialed, notes)
		}
	}
}

func TestProxyTunnelsTLS(t *testing.T) {
	pt := newProxyTest(t)
	for _, port := range []string{"443", "8443"} {
		client := http.Client{Transport: &http.Transport{
			Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: pt.address}),
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
		}}
		big := strings.Repeat("0123456789", 100_000)
		res, err := client.Post("https://Example.com:"+port+"/x", "text/plain", strings.NewReader(big))
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || string(data) != "hello "+big {
			t.Errorf("port %s: %d bytes, %v", port, len(data), err)
		}
	}
	if notes, _, _ := pt.happened(); notes != nil {
		t.Errorf("notes: %q", notes)
	}
}

// clientHello returns the first bytes that a TLS client sends.
func clientHello(t *testing.T, c *tls.Config) string {
	t.Helper()
	client, server := net.Pipe()
	c.InsecureSkipVerify = true
	go func() { _ = tls.Client(client, c).Handshake(); client.Close() }()
	buf := make([]byte, 16<<10)
	n, err := server.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	return string(buf[:n])
}

func TestProxyRefusesInTunnels(t *testing.T) {
	good := clientHello(t, &tls.Config{ServerName: "example.com"})
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	// RFC 9849, 4: a list of one configuration of X25519, HKDF-SHA256 and AES-128-GCM.
	config := "\x01\x00\x20\x00\x20" + string(key.PublicKey().Bytes()) + "\x00\x04\x00\x01\x00\x01" + "\x00\x0bexample.com" + "\x00\x00"
	config = "\xfe\x0d\x00" + string(rune(len(config))) + config
	config = "\x00" + string(rune(len(config))) + config
	hidden := clientHello(t, &tls.Config{ServerName: "evil.example", EncryptedClientHelloConfigList: []byte(config), MinVersion: tls.VersionTLS13})
	if !strings.Contains(hidden, "example.com") || strings.Contains(hidden, "evil.example") {
		t.Fatalf("not an encrypted hello: %q", hidden)
	}
	for _, tt := range []struct{ name, send, note string }{
		{"another server", clientHello(t, &tls.Config{ServerName: "evil.example"}), "example.com: a TLS hello for another server, evil.example"},
		{"a server of the list for which the tunnel is not", clientHello(t, &tls.Config{ServerName: "a.example.net"}), "example.com: a TLS hello for another server, a.example.net"},
		{"no server", clientHello(t, &tls.Config{}), "example.com: a TLS hello without a server's name"},
		{"an address", clientHello(t, &tls.Config{ServerName: "127.0.0.1"}), "example.com: a TLS hello without a server's name"},
		{"an encrypted hello", hidden, "example.com: a TLS hello with an encrypted part, which may name another server"},
		{"a record that is no hello", "\x16\x03\x01\x00\x10" + strings.Repeat("x", 16), "example.com: a TLS connection that does not begin with a valid hello"},
		{"the first byte of TLS alone", "\x16" + strings.Repeat("raw protocol", 10), "example.com: a TLS connection that does not begin with a valid hello"},
		{"half a hello", good[:100], "example.com: a TLS connection that does not begin with a valid hello"},
		{"SSH", "SSH-2.0-OpenSSH_9.2\r\n", "example.com:443: a connection that is neither TLS nor HTTP"},
		{"binary", "\x00\x01\x02\x03 raw protocol", "example.com:443: a connection that is neither TLS nor HTTP"},
		{"short", "x", "example.com:443: a connection that is neither TLS nor HTTP"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pt := newProxyTest(t)
			conn, r := pt.open(t, "example.com:443")
			if _, err := io.WriteString(conn, tt.send); err != nil {
				t.Fatal(err)
			}
			_ = conn.(*net.TCPConn).CloseWrite()
			ended(t, r)
			notes, _, _ := pt.happened()
			if want := []string{"sandbox: " + tt.note}; !slices.Equal(notes, want) {
				t.Errorf("notes = %q, want %q", notes, want)
			}
		})
	}
}

// The requests of one connection through a tunnel are checked each for itself.
func TestProxyChecksHTTPInTunnels(t *testing.T) {
	pt := newProxyTest(t)
	const refused = "sandbox: example.com:80: an HTTP request for another server, "
	conn, r := pt.open(t, "example.com:80")
	for _, tt := range []struct {
		request string
		status  int
		body    string
	}{
		{"GET /a HTTP/1.1\r\nHost: example.com\r\n\r\n", 200, "hello "},
		{"GET /b HTTP/1.1\r\nHost: Example.com:80\r\n\r\n", 200, "hello "},
		{"GET /c HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, refused + "evil.example\n"},
		{"GET /d HTTP/1.1\r\nHost: example.com:8443\r\n\r\n", 403, refused + "example.com:8443\n"},
		{"GET http://evil.example/e HTTP/1.1\r\nHost: example.com\r\n\r\n", 403, refused + "evil.example\n"},
		{"GET http://a@example.com/e HTTP/1.1\r\nHost: example.com\r\n\r\n", 403, refused + "example.com\n"},
		{"CONNECT evil.example:443 HTTP/1.1\r\nHost: example.com\r\n\r\n", 403, refused + "evil.example:443\n"},
		{"POST /f HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", 200, "hello body"},
		{"GET /g HTTP/1.0\r\n\r\n", 403, refused + "\n"},
	} {
		if _, err := io.WriteString(conn, tt.request); err != nil {
			t.Fatal(err)
		}
		if status, body := answer(t, r); status != tt.status || body != tt.body {
			t.Errorf("%q: %d %q, want %d %q", tt.request, status, body, tt.status, tt.body)
		}
	}
	_, _, seen := pt.happened()
	if want := []string{"GET example.com /a", "GET example.com /b", "POST example.com /f"}; !slices.Equal(seen, want) {
		t.Errorf("the server reads %q, want %q", seen, want)
	}
	conn, r = pt.open(t, "example.com:80")
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if status, body := answer(t, r); status < 400 {
		t.Errorf("HTTP/2: %d %q", status, body)
	}
}

func TestProxyEndsSlowClients(t *testing.T) {
	pt := newProxyTest(t)
	slow := &Proxy{Domains: pt.Domains, Resolve: pt.Resolve, Dial: pt.Dial, First: 50 * time.Millisecond, Idle: 50 * time.Millisecond}
	pt.address = serve(t, slow)
	_, r := pt.talk(t, "GET http://example.com/ HTTP/1.1\r\nHost:")
	ended(t, r)
	_, r = pt.open(t, "example.com:443")
	ended(t, r)
	for idle := 50 * time.Millisecond; ; idle *= 4 { // on a busy machine the server's hello takes longer
		pt.address = serve(t, &Proxy{Domains: pt.Domains, Resolve: pt.Resolve, Dial: pt.Dial, First: time.Minute, Idle: idle})
		conn, r := pt.open(t, "example.com:443")
		if _, err := io.WriteString(conn, clientHello(t, &tls.Config{ServerName: "example.com"})); err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err == nil && len(data) > 0 && data[0] == 0x16 {
			return
		}
		if err != nil || len(data) > 0 || idle > 10*time.Second {
			t.Fatalf("read %d bytes, %v, want the server's hello and then the end", len(data), err)
		}
	}
}

func TestProxyCloseEndsTunnels(t *testing.T) {
	pt := newProxyTest(t)
	_, r := pt.open(t, "example.com:443")
	if err := pt.Close(); err != nil {
		t.Fatal(err)
	}
	ended(t, r)
}

func TestProxyLimitsConnections(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	l := &limited{Listener: inner, slots: make(chan struct{}, 1), done: done}
	for range 2 {
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if len(l.slots) != cap(l.slots) {
		t.Error("a connection takes no place")
	}
	first.Close()
	if second, err := l.Accept(); err != nil {
		t.Error(err)
	} else {
		defer second.Close()
	}
	close(done) // no place is free
	if _, err := l.Accept(); err != net.ErrClosed {
		t.Errorf("Accept: %v, want %v", err, net.ErrClosed)
	}
}

// A hello is read the same way however its records cut it, and no part of it, and no
// change of a length, is one too.
func TestReadHello(t *testing.T) {
	good := clientHello(t, &tls.Config{ServerName: "Example.com"})
	message := good[5:]
	var cut strings.Builder
	for part := range slices.Chunk([]byte(message), 100) {
		cut.WriteString("\x16\x03\x01" + string([]byte{0, byte(len(part))}) + string(part))
	}
	for _, text := range []string{good, cut.String(), cut.String() + "more"} {
		read, name, hidden, err := readHello(strings.NewReader(text))
		if string(read) != strings.TrimSuffix(text, "more") || name != "example.com" || hidden || err != nil {
			t.Errorf("readHello: %d of %d bytes, %q, %v, %v", len(read), len(text), name, hidden, err)
		}
	}
	for i := range message {
		if _, _, _, err := readHello(strings.NewReader(good[:i+5])); err == nil {
			t.Fatalf("the first %d bytes are a hello", i+5)
		}
		if _, _, err := parseHello([]byte(message[4:max(4, i)])); err == nil {
			t.Fatalf("the first %d bytes are a message", i)
		}
	}
	at := strings.Index(message, "\x00\x00\x00\x10\x00\x0e\x00\x00\x0bexample.com")
	if at < 0 {
		at = strings.Index(message, "\x00\x00\x00\x10\x00\x0e\x00\x00\x0bExample.com")
	}
	if at < 0 {
		t.Fatal("no server name extension in the hello")
	}
	for _, i := range []int{at + 3, at + 5, at + 6, at + 8} {
		bad := []byte(message[4:])
		bad[i-4]++
		if name, _, err := parseHello(bad); err == nil {
			t.Errorf("with another byte %d it names %q", i-at, name)
		}
	}
}

func FuzzReadHello(f *testing.F) {
	f.Add([]byte("\x16\x03\x01\x00\x04\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		read, _, _, err := readHello(strings.NewReader(string(data)))
		if err == nil && !strings.HasPrefix(string(data), string(read)) {
			t.Errorf("read %q of %q", read, data)
		}
	})
}
