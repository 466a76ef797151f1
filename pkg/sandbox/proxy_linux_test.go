package sandbox

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/process"
)

// clientFlag makes the test binary a program that uses the network.
const clientFlag = "--client"

// client does what each argument says and prints how that ended, a line each.
func client(steps []string) int {
	http.DefaultTransport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	c := &http.Client{Timeout: 20 * time.Second}
	for _, step := range steps {
		how, address, _ := strings.Cut(step, " ")
		text := "ok"
		var err error
		switch how {
		case "get":
			var res *http.Response
			if res, err = c.Get(address); err == nil {
				data, _ := io.ReadAll(res.Body)
				text = fmt.Sprintf("%d %s", res.StatusCode, bytes.TrimSpace(data))
			}
		case "own": // a server of its own
			s := httptest.NewServer(http.NotFoundHandler())
			_, err = c.Get(s.URL)
		default:
			var conn net.Conn
			if conn, err = net.DialTimeout(how, address, 20*time.Second); err == nil && how == "udp" {
				_, err = conn.Write([]byte("x"))
			}
		}
		if err != nil {
			text = "failed: " + err.Error()
		}
		fmt.Println(text)
	}
	return 7 // so that what was refused matters
}

// TestDomains uses the network in a sandbox: only through the proxy, and only to the
// domains of the list.
func TestDomains(t *testing.T) {
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello from %s", r.Host) })
	plain, secure := httptest.NewServer(hello), httptest.NewTLSServer(hello)
	defer plain.Close()
	defer secure.Close()
	onEach(t, func(t *testing.T, l *Ladder) {
		b := box(t, l, Config{Workspace: true, Read: []string{"/"}, Network: &Network{Domains: []string{"example.com"}}})
		var mu sync.Mutex
		var log []string
		b.place.Log = func(line string) { mu.Lock(); defer mu.Unlock(); log = append(log, line) }
		b.adjust = func(p *Proxy) {
			p.Resolve = func(context.Context, string, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
			}
			p.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				to := plain.Listener
				if strings.HasSuffix(address, ":443") {
					to = secure.Listener
				}
				return new(net.Dialer).DialContext(ctx, network, to.Addr().String())
			}
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		steps := []string{"get http://example.com/", "get https://example.com/", "get http://evil.example/", "get https://evil.example/",
			"tcp " + plain.Listener.Addr().String(), "tcp 1.1.1.1:80", "udp 1.1.1.1:53", "own"}
		var out, errs bytes.Buffer
		e, err := process.Run(t.Context(), &process.Command{
			Path: self, Args: append([]string{clientFlag}, steps...), Dir: b.place.Dir, Env: append(b.place.Environ, "https_proxy=http://127.0.0.1:1"),
			Stdout: &out, Stderr: &errs, Sandbox: b, Mark: t.Name(),
		})
		if err != nil || e.Code != 7 {
			t.Fatalf("%v, %v: %s", e, err, &errs)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		for i, want := range []string{"200 hello from example.com", "200 hello from example.com", `403 sandbox: evil.example is not in "network"`,
			"failed: ", "failed: ", "failed: ", "failed: ", "ok"} {
			if i == 7 && l.Rung() == Landlock {
				want = "failed: " // its ports are those of the machine
			}
			if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
				t.Fatalf("%s:\n%s\nwant %q", steps[i], &out, want)
			}
		}
		const refused = `sandbox: evil.example is not in "network"`
		mu.Lock()
		defer mu.Unlock()
		if e.Refused != refused {
			t.Errorf("Exit.Refused = %q, want %q", e.Refused, refused)
		}
		if !strings.Contains(strings.Join(log, "\n"), refused) {
			t.Errorf("the person reads %q, want %q", log, refused)
		}
	}, Namespaces, Bubblewrap, Landlock)
}

// TestALocalAddressIsReached has a program without network reach the one address on this machine
// that its command names, and keep the variables that name it.
func TestALocalAddressIsReached(t *testing.T) {
	local := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "the endpoint") }))
	other := httptest.NewServer(http.NotFoundHandler())
	defer local.Close()
	defer other.Close()
	onEach(t, func(t *testing.T, l *Ladder) {
		for _, domains := range [][]string{nil, {"example.com"}} {
			b := box(t, l, Config{Workspace: true, Read: []string{"/"}, Network: &Network{Domains: domains}, Environment: []string{}})
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			address := local.Listener.Addr().String()
			var out bytes.Buffer
			e, err := process.Run(t.Context(), &process.Command{
				Path: self, Args: []string{clientFlag, "get http://" + address, "tcp " + other.Listener.Addr().String(), "tcp 1.1.1.1:80", "get http://" + address}, Dir: b.place.Dir,
				Env: append(b.place.Environ, "OPENAI_BASE_URL=x"), Stdout: &out, Sandbox: b, Mark: t.Name(), Local: address,
			})
			if err != nil || e.Code != 7 {
				t.Fatalf("%v, %v: %s", e, err, &out)
			}
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			for i, want := range []string{"200 the endpoint", "failed: ", "failed: ", "200 the endpoint"} {
				if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
					t.Errorf("with the domains %q: line %d of\n%s\nwant %q", domains, i+1, &out, want)
				}
			}
			if !slices.Contains(b.environ(&process.Command{Env: []string{"OPENAI_BASE_URL=x"}, Local: address}), "OPENAI_BASE_URL=x") ||
				len(b.environ(&process.Command{Env: []string{"OPENAI_BASE_URL=x"}})) > 0 {
				t.Error("the variables of an endpoint are not those of a command with one")
			}
		}
	}, Namespaces, Bubblewrap, Landlock)
}
