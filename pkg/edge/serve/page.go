package serve

import (
	"bufio"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/webpage"
)

// pageFiles are the page for people: see docs/serve.md. It contains nothing of the server, so it
// needs no token; its script reads everything from the routes that do.
//
//go:embed page
var pageFiles embed.FS

// linkTime is how long Options.Link can be exchanged for a token.
const linkTime = time.Minute

// Sessions are the sessions on disk. A session that the Owner of ctx may not continue is one
// that does not exist.
type Sessions struct {
	// List returns the sessions of the Owner of ctx, the last changed first; those that
	// contain all words, if there are any.
	List func(ctx context.Context, words []string) ([]Listed, error)
	// Export writes a session in a format: its events as JSON lines, "" or "json", or a page,
	// "html". An error before anything was written that is fs.ErrNotExist is status 404.
	Export func(ctx context.Context, w io.Writer, id, format string) error
	// Sources are what such a page needs in a content security policy.
	Sources struct{ Style, Script string }
}

// A Listed is a session in a list.
type Listed struct {
	ID      string       `json:"session"`
	Agent   string       `json:"agent"`
	Prompt  string       `json:"prompt"`
	State   agent.Status `json:"state,omitempty"`
	Turns   int          `json:"turns"`
	Cost    agent.Money  `json:"cost,omitempty"`
	Started time.Time    `json:"started"`
	Changed time.Time    `json:"changed"`
	// Found is the text around the words of a search.
	Found string `json:"found,omitempty"`
}

// pagePolicy permits what the page contains itself, and the pages of sessions, which inherit
// the policy of the page that shows them. No text can become a script or an element
// (require-trusted-types-for).
func pagePolicy(sessions struct{ Style, Script string }) string {
	return "default-src 'none'; connect-src 'self'; img-src data:; frame-src blob:; base-uri 'none'; form-action 'none'; " +
		"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'; " +
		"style-src 'self' " + sessions.Style + "; script-src 'self' " + sessions.Script
}

// page answers requests for the page, and those of people who sign in. They need no token.
func (s *Server) page(w http.ResponseWriter, r *http.Request) bool {
	if s.hosts.Check(r) != "" {
		return false // the request is refused
	}
	if r.Method == http.MethodPost && r.URL.Path == "/v1/signin" {
		s.signIn(w, r)
		return true
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	name = cmp.Or(name, "page.html")
	if r.Method != http.MethodGet || path.Base(name) != name || name == "page.html" && r.URL.Path != "/" {
		return false
	}
	text, err := pageFiles.ReadFile("page/" + name)
	if err != nil {
		return false
	}
	before := map[string]string{"page.css": webpage.Style, "page.js": webpage.Script}[name]
	kind := map[string]string{".html": "text/html", ".css": "text/css", ".js": "text/javascript"}[path.Ext(name)]
	for key, value := range map[string]string{
		"Content-Type": kind + "; charset=utf-8", "Content-Security-Policy": s.policy, "Cache-Control": "no-cache",
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
	} {
		w.Header().Set(key, value)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWait)) // tests have none
	_, _ = io.WriteString(w, before+string(text))                                 // a client that is gone reads nothing
	return true
}

// signIn is POST /v1/signin: it exchanges Options.Link for the first token, once, within a
// minute of the server's start.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request) {
	code, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxTitle))
	s.mu.Lock()
	ok := err == nil && time.Since(s.began) < linkTime && s.link.Find(string(code)) >= 0
	if ok {
		s.link = nil
	}
	s.mu.Unlock()
	if !ok {
		refuse(w, &Error{Status: http.StatusUnauthorized, Text: "the link was used before, or is older than a minute"})
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"token": s.tokens[0].Secret})
}

// sessions is GET /v1/sessions.
func (c *client) sessions(w http.ResponseWriter, r *http.Request) {
	list, err := c.server.opts.Sessions.List(c.own(r.Context()), strings.Fields(r.URL.Query().Get("words")))
	if err != nil {
		refuse(w, &Error{Status: http.StatusInternalServerError, Text: err.Error()})
		return
	}
	if list == nil {
		list = []Listed{}
	}
	writeJSON(w, http.StatusOK, map[string]any{"sessions": list})
}

// session is GET /v1/sessions/ID.
func (c *client) session(w http.ResponseWriter, r *http.Request) {
	format := r.URL.Query().Get("format")
	kind := map[string]string{"": "application/x-ndjson", "json": "application/x-ndjson", "html": "text/html; charset=utf-8"}[format]
	if kind == "" {
		refuse(w, &Error{Status: http.StatusBadRequest, Text: "the formats are json and html"})
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Security-Policy", "sandbox allow-scripts allow-popups")
	slow := &slowWriter{w, http.NewResponseController(w)}
	out := bufio.NewWriterSize(slow, 64<<10)
	err := c.server.opts.Sessions.Export(c.own(r.Context()), out, r.PathValue("id"), format)
	switch {
	case err == nil:
		_ = out.Flush() // a client that is gone reads nothing
	case errors.Is(err, fs.ErrNotExist):
		refuse(w, &Error{Status: http.StatusNotFound, Text: err.Error()})
	case format == "html" && out.Buffered() == 0: // nothing was written: a page ends with text
		refuse(w, &Error{Status: http.StatusInternalServerError, Text: "the session cannot be read: " + err.Error()})
	default: // a damaged session has what can be read, and the page says what cannot
		if format != "html" {
			_ = json.NewEncoder(out).Encode(agent.Event{Kind: agent.EventWarning, Time: time.Now(), Text: "The session cannot be read completely: " + err.Error()})
		}
		_ = out.Flush()
	}
}
