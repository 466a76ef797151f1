package serve

import (
	"context"
	"fmt"
	"html"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/sessions"
	"github.com/agents-exe/agents/pkg/edge/serve"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
	"github.com/agents-exe/agents/pkg/leaf/wholefile"
	"github.com/agents-exe/agents/pkg/session"
	"github.com/agents-exe/agents/pkg/session/transcript"
)

// The limits of a list of sessions, and of the texts in which a search finds words.
const maxSessions, maxFound = 100, 1000

func (h *agentServer) kept() serve.Sessions {
	s := serve.Sessions{List: h.listSessions, Export: h.exportSession}
	s.Sources.Style, s.Sources.Script = transcript.PageSources()
	return s
}

func (h *agentServer) listSessions(ctx context.Context, words []string) ([]serve.Listed, error) {
	owner := serve.Owner(ctx)
	mine := func(path string) bool { return h.sessionOf(filepath.Base(path), owner) == path }
	var list []serve.Listed
	if len(words) == 0 {
		found, err := session.List(session.Filter{Limit: maxSessions, Pick: mine}, h.dirs...)
		for _, i := range found {
			list = append(list, h.listed(i))
		}
		return list, err
	}
	words[len(words)-1] += "*" // it may not be complete
	hits, err := sessions.Search(ctx, h.p, sessions.Query{Words: words, Folders: h.dirs, Limit: maxFound})
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, hit := range hits {
		path := h.sessionOf(hit.Session, owner)
		if path == "" || seen[path] || len(list) == maxSessions {
			continue
		}
		seen[path] = true
		i, _ := session.Inspect(path) // a damaged one is listed too
		l := h.listed(i)
		for _, piece := range hit.Snippet {
			l.Found += piece.Text
		}
		list = append(list, l)
	}
	return list, nil
}

// listed describes a session with the name of its agent on this server.
func (h *agentServer) listed(i session.Info) serve.Listed {
	name := toolname.Join("", i.Agent)
	for _, a := range h.host.Offers {
		if a.Agent.Slug == i.Agent && a.Agent.Source == i.Source {
			name = a.Name
		}
	}
	l := serve.Listed{ID: i.ID, Agent: name, Prompt: i.Prompt, State: i.Status, Turns: i.Turns, Cost: i.Usage.Cost, Started: i.Started, Changed: i.Changed}
	if i.Err != nil {
		l.State = "damaged"
	} else if i.Status == "" && i.PID == 0 {
		l.State = "unfinished"
	}
	return l
}

func (h *agentServer) exportSession(ctx context.Context, w io.Writer, id, format string) error {
	path := h.sessionOf(id, serve.Owner(ctx))
	if path == "" {
		return fmt.Errorf("session %.100q: %w", id, fs.ErrNotExist)
	}
	events := session.Events(path)
	if format != "html" {
		return transcript.Write(w, events)
	}
	sum, err := sessions.Summary(events)
	if err != nil {
		return err
	}
	return transcript.HTML(w, sum, events)
}

// openPage opens the page in the browser, and prints the link. A file that only this user can
// read leads the browser to it: other users could see the arguments of its process.
func (h *agentServer) openPage(ctx context.Context, link string) (remove func()) {
	fmt.Fprintf(h.p.Err, "the page for this minute: %s\n", link)
	dir := h.p.StateDir()
	if dir == "" {
		return func() {}
	}
	path := filepath.Join(dir, "open.html")
	text := `<!doctype html><meta http-equiv="refresh" content="0;url=` + html.EscapeString(link) + `"><title>agents</title>`
	if err := wholefile.Write(path, []byte(text)); err != nil {
		h.say("warning: open the page: " + err.Error())
		return func() {}
	}
	h.p.OpenBrowser(ctx, "file://"+filepath.ToSlash(path))
	gone := time.AfterFunc(time.Minute, func() { _ = os.Remove(path) })
	return func() { gone.Stop(); _ = os.Remove(path) }
}
