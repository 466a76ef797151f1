package mcpserver

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"n":1.0},"_meta":{"progressToken":"x"}}}`,
		`{"jsonrpc":"2.0","id":"x","method":"ping","Method":"tools/call"}`, `[]`, `{`, `null`, `{"jsonrpc":"2.0","id":1e400,"method":"ping","params":null}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, fault := parse([]byte(s))
		if fault != nil {
			if !json.Valid(jsonrpc.Answer(nil, nil, fault)) {
				t.Fatalf("the refusal of %q is no JSON", s)
			}
			return
		}
		if m == nil || m.ID == nil {
			return
		}
		m.token()
		text, err := m.encode()
		if err != nil {
			t.Fatalf("encode %q: %v", s, err)
		}
		again, fault := parse(text)
		if fault != nil || again.Key != m.Key || again.Method != m.Method || again.name != m.name {
			t.Fatalf("%q became %q: %v", s, text, fault)
		}
	})
}

// TestASessionEndsOnce: of requests that end one session at the same time, each of which has
// found it, the first ends it, and the server answers on.
func TestASessionEndsOnce(t *testing.T) {
	e := New(Options{}).endpoint(t.Context(), HTTPOptions{}, nil)
	conn, err := e.server.connect(e.tasks, "")
	if err != nil {
		t.Fatal(err)
	}
	c := &peer{conn: conn, used: time.Now(), ended: make(chan struct{})}
	if !e.keep(c) {
		t.Fatal("the session was not kept")
	}
	r := httptest.NewRequest(http.MethodDelete, Path, nil)
	r.Header.Set(sessionHeader, c.session.id)
	for range 2 {
		if got := e.session(httptest.NewRecorder(), r, ""); got != c {
			t.Fatalf("session() = %v, want the session", got)
		}
	}
	for range 2 {
		e.drop(func(s *peer) bool { return s == c })
	}
	e.mu.Lock()
	again := e.remove(c)
	e.mu.Unlock()
	if again {
		t.Error("a session is removed twice")
	}
	if got := e.session(httptest.NewRecorder(), r, ""); got != nil {
		t.Error("the session is still there")
	}
}
