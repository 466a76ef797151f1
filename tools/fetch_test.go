package tools_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A site answers on loopback. The tools may fetch from it only with its
// permission.
type site struct {
	*httptest.Server
	hits atomic.Int64
}

func newSite(t *testing.T, answer http.HandlerFunc) *site {
	s := &site{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.hits.Add(1)
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// permission is the variable that lets fetch-url connect to the site.
func (s *site) permission() string {
	return "FETCH_URL_ALLOW_HOSTS=" + strings.TrimPrefix(s.URL, "http://")
}

func TestFetchHTML(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	page, err := os.ReadFile("testdata/page.html")
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/old" {
			http.Redirect(w, r, "/docs/page.html?x=1#part", http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		w.Write(page)
	})
	b := newBox(t, s.permission())
	got := strings.ReplaceAll(b.ok("fetch_url", args{"url": s.URL + "/old"}), s.URL, "http://site")
	golden := filepath.Join("testdata", "page.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	if raw := b.ok("fetch_url", args{"url": s.URL + "/docs/", "raw": true}); !strings.Contains(raw, string(page)) {
		t.Errorf("raw = %s", raw)
	}
}

func TestFetchNeedsPermission(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "secret") })
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, env := range []string{"FETCH_URL_ALLOW_PRIVATE=no", "FETCH_URL_ALLOW_HOSTS=127.0.0.1:1,example.com"} {
		newBox(t, env).fails("fetch_url", args{"url": s.URL}, 1, "127.0.0.1 is no public address and is refused", "FETCH_URL_ALLOW_HOSTS")
	}
	b := newBox(t)
	for _, host := range []string{"localhost", "2130706433", "[::ffff:127.0.0.1]", "0.0.0.0"} {
		text, err := b.call("fetch_url", args{"url": "http://" + host + ":" + u.Port()})
		if err == nil || !strings.Contains(text, "no public address") && !strings.Contains(text, "not known") && !strings.Contains(text, "not supported") {
			t.Errorf("%s: %v %s", host, err, text)
		}
	}
	if n := s.hits.Load(); n != 0 {
		t.Errorf("the server was asked %d times", n)
	}
	for _, env := range []string{"FETCH_URL_ALLOW_PRIVATE=1", "FETCH_URL_ALLOW_HOSTS=example.com, 127.0.0.1"} {
		if got := newBox(t, env).ok("fetch_url", args{"url": s.URL}); !strings.Contains(got, "secret") {
			t.Errorf("%s: %s", env, got)
		}
	}
}

// Every hop is checked as the first one is.
func TestFetchRedirects(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	inner := newSite(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "secret") })
	targets := map[string]string{
		"/inner": inner.URL, "/file": "file:///etc/passwd", "/user": "http://a:b@example.com/", "/meta": "http://169.254.169.254/latest/",
		"/circle": "/circle", "/slash": `http:\\127.0.0.1`, "/scheme": "gopher://127.0.0.1/",
	}
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		var n int
		if _, err := fmt.Sscanf(r.URL.Path, "/count/%d", &n); err == nil {
			w.Header().Set("Location", fmt.Sprintf("/count/%d", n+1))
		} else {
			w.Header().Set("Location", targets[r.URL.Path])
		}
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	b := newBox(t, s.permission())
	for path, want := range map[string]string{
		"/inner": "127.0.0.1 is no public address", "/file": "only http:// and https:// are fetched", "/user": "user name or password",
		"/meta": "169.254.169.254 is no public address", "/circle": "redirects in a circle", "/count/0": "more than 5 redirects",
		"/slash": "white space, control characters", "/scheme": "only http:// and https://",
	} {
		b.fails("fetch_url", args{"url": s.URL + path}, 1, want)
	}
	if n := inner.hits.Load(); n != 0 {
		t.Errorf("the server that is not permitted was asked %d times", n)
	}
}

func TestFetchRefusesURLs(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	newBox(t).fails("fetch_url", args{"url": "--url=http://h"}, 2, "only http:// and https:// are fetched")
	tests := []struct{ url, want string }{
		{"", "only http:// and https:// are fetched"},
		{"example.com", "only http:// and https:// are fetched"},
		{"file:///etc/passwd", "only http:// and https:// are fetched"},
		{"http://u:p@127.0.0.1/", "a URL with a user name or password is refused"},
		{"http:///path", "the host is missing"},
		{"http://h:99999/", "Port out of range"},
		{"http://h:0/", "port 0 is none"},
		{"http://[::1/", "Invalid IPv6 URL"},
		{"http://h/a b", "must be written as %20"},
		{"http://h/\r\nX: y", "must be written as %20"},
		{"http://h\\@127.0.0.1/", "must be written as %20"},
		{"http://" + strings.Repeat("x", 9000), "more than 8,192 characters"},
		{"http://" + strings.Repeat("ü", 200), "is no valid host name"},
	}
	var urls []string
	for _, test := range tests {
		urls = append(urls, test.url)
	}
	out, err := python(t, nil, `
import fetch_url, tool
for url in sys.argv[1:]:
    try: print(fetch_url.URL(url).text)
    except tool.Failure as e: print(e)`, urls...)
	lines := strings.Split(out, "\n")
	if err != nil || len(lines) != len(tests)+1 {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, test := range tests {
		if !strings.Contains(lines[i], test.want) {
			t.Errorf("%q: %s, want %q", test.url, lines[i], test.want)
		}
	}
}

func TestFetchContent(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	var wants, urls []string
	answers := map[string]struct{ kind, body string }{
		"/json":     {"application/json", `{"a": "é"}`},
		"/latin1":   {"text/plain; charset=ISO-8859-1", "caf\xe9 \x80"},
		"/meta":     {"text/html", "<meta charset=shift_jis><p>\x93\xfa\x96\x7b"},
		"/none":     {"text/plain", "caf\xe9"},
		"/odd":      {"text/plain; charset=rot13", "plain"},
		"/utf16":    {"text/html", "\xff\xfe<\x00p\x00>\x00\xe9\x00"},
		"/escape":   {"text/plain", "a\x1b[31mred\x07"},
		"/empty":    {"text/html", "<script>all()</script>"},
		"/image":    {"image/png", "\x89PNG"},
		"/binary":   {"text/plain", "a\x00b"},
		"/unclosed": {"text/html", strings.Repeat("<p>a<li>b<svg><div>", 3000) + "<script>x</script></div></svg><!-- <![ <b"},
		"/deep":     {"text/html", strings.Repeat("<div>", 5000) + "deep" + strings.Repeat("</div>", 5000) + "after"},
		"/section":  {"text/html", "<![if !x]><p>in</p><![endif]><![CDATA[ <![ > <p>out"},
		"/comments": {"text/html", "before" + strings.Repeat("<!-- <![", 100_000)},
		"/long":     {"text/plain", strings.Repeat("äöü\n", 20_000)},
	}
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		a, ok := answers[r.URL.Path]
		switch {
		case r.URL.Path == "/packed":
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, "unpacked "+strings.Repeat("x", 2<<20))
			z.Close()
		case ok:
			w.Header().Set("Content-Type", a.kind)
			io.WriteString(w, a.body)
		default:
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, "<p>Not <b>here</b>")
		}
	})
	for path, want := range map[string]string{
		"/json": `{"a": "é"}`, "/latin1": "café €", "/meta": "日本", "/none": "café", "/odd": "plain", "/utf16": "é",
		"/escape": "a[31mred\n", "/empty": "the page has no text", "/unclosed": "a\n", "/deep": "after", "/comments": "before",
		"/section": "in\n\nout",
		"/packed":  "of 1,048,576; go on with",
	} {
		wants = append(wants, want)
		urls = append(urls, s.URL+path)
	}
	out, err := python(t, []string{s.permission()}, `
import fetch_url
fetch_url.MOST_BYTES = 1 << 20
for url in sys.argv[1:]:
    fetch_url.fetch(url, None, None)
    fetch_url.say("=====")`, urls...)
	texts := strings.Split(out, "=====\n")
	if err != nil || len(texts) != len(wants)+1 {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, got := range texts[:len(wants)] {
		if !strings.HasPrefix(got, "URL: "+urls[i]+"\n") || !strings.Contains(got, wants[i]) || strings.Contains(got, "\x1b") {
			t.Errorf("%s = %.300q, want %q in it", urls[i], got, wants[i])
		}
	}
	b := newBox(t, s.permission())
	b.fails("fetch_url", args{"url": s.URL + "/image"}, 1, "is image/png (4 bytes), not text")
	b.fails("fetch_url", args{"url": s.URL + "/binary"}, 1, "is binary (3 bytes), not text")
	b.fails("fetch_url", args{"url": s.URL + "/missing"}, 1, "HTTP 404 Not Found", "Not here")
	b.fails("fetch_url", args{"url": s.URL + "/json", "offset": 99}, 1, "offset 99 is behind its end")

	first := b.ok("fetch_url", args{"url": s.URL + "/long"})
	_, hint, _ := strings.Cut(first, "go on with offset=")
	var next int
	fmt.Sscanf(hint, "%d]", &next)
	second := b.ok("fetch_url", args{"url": s.URL + "/long", "offset": next})
	if n := strings.Count(first, "äöü") + strings.Count(second, "äöü"); n < 13_000 || strings.Contains(first+second, "�") {
		t.Errorf("two parts of a long text have %d lines", n)
	}
}

func TestFetchWantsValidCertificates(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains of the client
	s.StartTLS()
	defer s.Close()
	newBox(t, "FETCH_URL_ALLOW_PRIVATE=1").fails("fetch_url", args{"url": s.URL}, 1, "the certificate is not valid")
}

// python runs code with the modules of the tools.
func python(t *testing.T, env []string, code string, argv ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "python3", append([]string{"-ISB", "-X", "utf8", "-c",
		"import sys; sys.path.insert(0, sys.argv.pop(1))\n" + code, filepath.Join(folder, "lib")}, argv...)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Numbers of a server that no computer has use for are no defect of the tool.
func TestFetchGiantNumbers(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	nines := strings.Repeat("9", 5000)
	for name, test := range map[string]struct{ answer, want string }{
		"character": {"200 OK\r\nContent-Type: text/html\r\n\r\n<p title='&#" + nines + ";'>x&#" + nines + ";y", "x\uFFFDy"},
		"chunk":     {"200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nx", "the answer broke off"},
		"address":   {"302 Found\r\nLocation: http://[" + nines + "]/\r\n\r\n", "redirects to what is not fetched"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				io.WriteString(conn, "HTTP/1.1 "+test.answer)
			})
			text, err := newBox(t, s.permission()).call("fetch_url", args{"url": s.URL})
			if strings.Contains(text, "Traceback") || !strings.Contains(text, test.want) {
				t.Errorf("%v %.500s; want %q", err, text, test.want)
			}
		})
	}
}

// A server that sends a byte now and then does not hold the tool for ever.
func TestFetchHasATimeLimit(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, "x"); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-time.After(20 * time.Millisecond):
			case <-r.Context().Done():
			}
		}
	})
	out, err := python(t, []string{s.permission()}, "import fetch_url; fetch_url.SECONDS = 1; fetch_url.main(sys.argv[1:])", "--url="+s.URL)
	if err == nil || !strings.Contains(out, "not there and read within 1 s") {
		t.Errorf("%v %s", err, out)
	}
}

// A name is resolved once for each hop: what was checked is what is connected to.
func TestFetchResolvesOnce(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "host "+r.Host) })
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	const code = `
import address, fetch_url, socket
asked = []
def once(host, port, **_):
    asked.append(host)
    if len(asked) > 1: sys.exit("asked again")
    return [(socket.AF_INET, 0, 0, "", ("10.0.0.1", port)), (socket.AF_INET, 0, 0, "", ("127.0.0.1", port))]
socket.getaddrinfo = once
address.is_public = lambda text: text == "127.0.0.1"
fetch_url.main(sys.argv[1:])`
	out, err := python(t, nil, code, "--url=http://rebind.test:"+u.Port())
	if err != nil || !strings.Contains(out, "host rebind.test:"+u.Port()) {
		t.Errorf("%v %s", err, out)
	}
}

func TestPublicAddresses(t *testing.T) {
	needs(t, "python3")
	t.Parallel()
	public := "1.1.1.1 8.8.8.8 172.15.255.255 172.32.0.1 100.63.255.255 100.128.0.1 169.253.0.1 2606:4700::1111 2a00:1450::1 64:ff9b::8.8.8.8"
	private := "0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 100.127.255.255 127.0.0.1 127.255.255.255 169.254.169.254 172.16.0.1 172.31.255.255 " +
		"192.0.0.1 192.0.2.1 192.168.0.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255 " +
		":: ::1 ::7f00:1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 fe80::1 fe80::1%eth0 fec0::1 fc00::1 fd00::1 ff02::1 2001::1 2001:db8::1 2002:7f00:1:: " +
		"64:ff9b::127.0.0.1 64:ff9b::a00:1 64:ff9b:1::1 100::1 3fff::1 no-address"
	out, err := python(t, nil, `
import address
for want, names in ((True, sys.argv[1]), (False, sys.argv[2])):
    for name in names.split():
        if address.is_public(name) != want: print("is_public(%s) = %s" % (name, not want))`, public, private)
	if err != nil || out != "" {
		t.Errorf("%v\n%s", err, out)
	}
}
