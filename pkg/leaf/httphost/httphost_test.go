package httphost_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/leaf/httphost"
)

func TestRedirects(t *testing.T) {
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	defer elsewhere.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, to, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		n, _ := strconv.Atoi(status)
		switch {
		case to == "end":
		case to == "elsewhere":
			http.Redirect(w, r, elsewhere.URL+"/?token=secret", n)
		case to == "nowhere":
			w.WriteHeader(n)
		default:
			http.Redirect(w, r, "/"+status+"/"+to, n)
		}
	}))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	client := http.Client{CheckRedirect: httphost.SameHost}
	for _, tt := range []struct{ method, path, want string }{
		{"POST", "/307/elsewhere", host + " redirects to another server, " + elsewhere.URL + "; this is not followed, so that no key goes there"},
		{"GET", "/302/elsewhere", host + " redirects to another server, " + elsewhere.URL + "; this is not followed, so that no key goes there"},
		{"POST", "/302/loop", host + " redirects to /302/loop in a way that drops the request"},
		{"GET", "/302/loop", host + " redirects to /302/loop in a way that drops the request"},
		{"POST", "/300/nowhere", "the server sent a redirect without a place to go to"},
	} {
		req, err := http.NewRequest(tt.method, s.URL+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got := httphost.Reason(res); got != tt.want {
			t.Errorf("%s %s: %q, want %q", tt.method, tt.path, got, tt.want)
		}
	}
}

// The rule of addresses that a server's document names.
func TestDirects(t *testing.T) {
	for _, c := range []struct {
		to, from string
		want     bool
	}{
		{"https://api.example/x", "https://a.example", true},
		{"http://93.184.216.34", "https://a.example", true},
		{"http://127.0.0.1:8080/x", "http://127.0.0.1:8080/y", true},
		{"http://127.0.0.1", "http://127.0.0.1:80", true},
		{"https://10.0.0.1:443", "https://10.0.0.1/card", true},
		{"http://LOCALHOST:1", "http://localhost:1", true},
		{"http://localhost:1", "http://127.0.0.1:1", true},
		{"http://127.0.0.1:1", "http://localhost:1", true},
		{"http://[::1]:1", "http://localhost:1", true},
		{"http://127.0.0.2:1", "http://localhost:1", false},
		{"http://127.0.0.1:2", "http://localhost:1", false},
		{"https://localhost", "http://127.0.0.1", false},
		{"http://127.0.0.1:8081", "http://127.0.0.1:8080", false},
		{"http://localhost:8081", "http://localhost:8080", false},
		{"http://10.0.0.1:6379", "http://10.0.0.1", false},
		{"https://10.0.0.1", "http://10.0.0.1", false},
		{"http://10.0.0.1", "https://a.example", false},
		{"http://169.254.169.254/latest", "https://a.example", false},
		{"http://[fe80::1]", "https://a.example", false},
		{"http://[::ffff:10.0.0.1]", "https://a.example", false},
		{"http://a.localhost", "https://a.example", false},
	} {
		to, err := url.Parse(c.to)
		if err != nil {
			t.Fatal(err)
		}
		from, err := url.Parse(c.from)
		if err != nil {
			t.Fatal(err)
		}
		if got := httphost.Directs(to, nil, from); got != c.want {
			t.Errorf("Directs(%s, %s) = %v, want %v", c.to, c.from, got, c.want)
		}
	}
}

func TestControl(t *testing.T) {
	for address, want := range map[string]error{"93.184.216.34:80": nil, "127.0.0.1:80": httphost.ErrPrivate, "[fe80::1%eth0]:80": httphost.ErrPrivate, "169.254.169.254:80": httphost.ErrPrivate, "nonsense": httphost.ErrPrivate} {
		if err := httphost.Control("tcp", address, nil); err != want {
			t.Errorf("Control(%q) = %v, want %v", address, err, want)
		}
	}
}

func TestLocal(t *testing.T) {
	for raw, want := range map[string]bool{
		"http://localhost:1": true, "http://LOCALHOST": true, "http://a.localhost/x": true, "http://127.8.0.1:2": true, "http://[::1]:3": true,
		"http://localhost.example": false, "http://10.0.0.1": false, "http://notlocalhost": false, "http://0.0.0.0": false, "": false,
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := httphost.Local(u); got != want {
			t.Errorf("Local(%q) = %v, want %v", raw, got, want)
		}
	}
}

func TestPublicAddresses(t *testing.T) {
	for a, want := range map[string]bool{
		"93.184.215.14": true, "1.1.1.1": true, "2606:4700::1111": true, "::ffff:1.1.1.1": true, "64:ff9b::101:101": true, "172.32.0.1": true, "100.128.0.1": true,
		"0.0.0.0": false, "0.1.2.3": false, "10.1.2.3": false, "127.9.9.9": false, "169.254.169.254": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.0.1": false,
		"100.64.0.1": false, "100.100.100.200": false, "192.0.0.192": false, "198.18.0.1": false, "224.0.0.1": false, "240.0.0.1": false, "255.255.255.255": false, "168.63.129.16": false,
		"::": false, "::1": false, "::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "::127.0.0.1": false, "fe80::1": false, "fe80::1%eth0": false, "fec0::1": false, "fc00::1": false,
		"fd00:ec2::254": false, "ff02::1": false, "64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::1": false, "2002:7f00:1::1": false, "2001::1": false, "2001:db8::1": false,
	} {
		if got := httphost.Public(netip.MustParseAddr(a)); got != want {
			t.Errorf("Public(%s) = %v, want %v", a, got, want)
		}
	}
}
