package redirect_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/redirect"
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
	client := http.Client{CheckRedirect: redirect.SameHost}
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
		if got := redirect.Reason(res); got != tt.want {
			t.Errorf("%s %s: %q, want %q", tt.method, tt.path, got, tt.want)
		}
	}
}
