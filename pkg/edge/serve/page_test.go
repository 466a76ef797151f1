package serve_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/serve"
)

func pageServer() *serve.Server {
	return serve.New(serve.Options{Host: &host{agents: map[string]agent.Provider{}}, Link: "the-code", Tokens: []serve.Token{{Name: "a", Secret: "a-token-of-a-client"}, {Name: "b", Secret: "a-token-of-another"}}})
}

func ask(s http.Handler, method, path, host, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = host
	s.ServeHTTP(w, r)
	return w
}

func TestLinkIsForOneSignInWithinAMinute(t *testing.T) {
	for _, c := range []struct {
		name   string
		after  time.Duration
		codes  []string
		status []int
	}{
		{"once", 59 * time.Second, []string{"another", "", "the-code", "the-code"}, []int{401, 401, 200, 401}},
		{"late", time.Minute, []string{"the-code"}, []int{401}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := pageServer()
				time.Sleep(c.after)
				for i, code := range c.codes {
					w := ask(s, "POST", "/v1/signin", "localhost", code)
					if w.Code != c.status[i] {
						t.Errorf("%q: status %d, want %d", code, w.Code, c.status[i])
					}
					if has := strings.Contains(w.Body.String(), `"a-token-of-a-client"`); has != (w.Code == 200) {
						t.Errorf("%q: %s", code, w.Body)
					}
				}
			})
		})
	}
}

// A session that cannot be read at all is no empty page; what could be read is shown.
func TestUnreadableSession(t *testing.T) {
	for name, c := range map[string]struct {
		query, written, want string
		status               int
	}{
		"page":           {"?format=html", "", `"message":"the session cannot be read: it is damaged"`, 500},
		"part of a page": {"?format=html", "<p>what is left", "<p>what is left", 200},
		"events":         {"", "", "The session cannot be read completely: it is damaged", 200},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve.New(serve.Options{Host: &host{agents: map[string]agent.Provider{}}, Sessions: serve.Sessions{
				List: func(context.Context, []string) ([]serve.Listed, error) { return nil, nil },
				Export: func(_ context.Context, w io.Writer, _, _ string) error {
					_, _ = io.WriteString(w, c.written)
					return errors.New("it is damaged")
				}}})
			if w := ask(s, "GET", "/v1/sessions/x"+c.query, "localhost", ""); w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("status %d, %s", w.Code, w.Body)
			}
		})
	}
}

// The files of the page need no token, and nothing else is served without one.
func TestPageNeedsNoTokenAndItsDataDoes(t *testing.T) {
	s := pageServer()
	for path, want := range map[string]int{"/": 200, "/page.js": 200, "/page.css": 200, "/page.html": 401, "/page/page.js": 401, "/../page.go": 401, "/v1/sessions": 401, "/v1/agents": 401} {
		w := ask(s, "GET", path, "localhost", "")
		if w.Code != want {
			t.Errorf("%s: status %d, want %d", path, w.Code, want)
		}
		policy := w.Header().Get("Content-Security-Policy")
		if want == 200 && (!strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") || w.Header().Get("X-Content-Type-Options") != "nosniff") {
			t.Errorf("%s: the headers are %v", path, w.Header())
		}
	}
	for _, path := range []string{"/", "/v1/signin"} { // a name that was made to resolve to this machine
		if w := ask(s, "POST", path, "evil.example", "the-code"); w.Code != http.StatusForbidden {
			t.Errorf("%s of another host: status %d", path, w.Code)
		}
	}
}
