package mcpserver

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestASessionEndsOnce: of requests that end one session at the same time, each of which has
// found it, the first ends it, and the server answers on.
func TestASessionEndsOnce(t *testing.T) {
	e := New(Options{}).endpoint(nil, HTTPOptions{}, nil)
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
