package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/edge/serve"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/leaf/wholefile"
	"github.com/agents-exe/agents/pkg/session"
)

// A note is what a server needs to know about a run that an earlier one left. It is a file
// beside the sessions from the first event of the run to its end.
type note struct {
	Agent  string      `json:"agent"`
	Source string      `json:"source"`
	Token  string      `json:"token"`
	Until  time.Time   `json:"until,omitzero"` // the end of the lease's seconds
	Start  agent.Start `json:"start"`
}

// leaveNote makes a run store a note that exists until the run has ended, so that the next
// server can resume it.
func (h *agentServer) leaveNote(ctx context.Context, slug string, start agent.Start, o *host.Options) {
	a := h.offerOf(slug)
	if a == nil {
		return
	}
	n, id, parked, observe := newNote(ctx, a, start), "", false, o.Observe
	o.Observe = func(e agent.Event) {
		observe(e)
		if e.Depth > 0 {
			return
		}
		parked = isEnd(e) && e.Status == agent.StatusInterrupted && strings.Contains(e.Error, serve.Parked)
		if id == "" && e.Session != "" {
			id = e.Session
			if err := n.write(h.notes, id); err != nil {
				h.say("warning: a server that starts with --resume will not find session " + id + ": " + err.Error())
			}
		}
	}
	o.Closed = func() {
		if id != "" && !parked {
			n.remove(h.notes, id)
		}
	}
}

// offerOf returns the agent with a name, nil if there is none.
func (h *agentServer) offerOf(slug string) *host.Agent {
	i := slices.IndexFunc(h.host.Offers, func(a host.Agent) bool { return a.Name == slug })
	if i < 0 {
		return nil
	}
	return &h.host.Offers[i]
}

func newNote(ctx context.Context, a *host.Agent, start agent.Start) *note {
	n := &note{Agent: a.Name, Source: a.Agent.Source, Token: serve.TokenName(ctx), Start: start}
	n.Start.Args, n.Start.Media, n.Start.From = nil, nil, 0
	if d, ok := start.Lease.Time(); ok {
		n.Until = time.Now().Add(d)
	}
	return n
}

const noteSuffix = ".json"

func (n *note) write(dir, id string) error {
	n.Start.Session = id
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return wholefile.Write(filepath.Join(dir, id+noteSuffix), text)
}

func (n *note) remove(dir, id string) { _ = os.Remove(filepath.Join(dir, id+noteSuffix)) } // the next server finds nothing to do

// resume continues the runs of notes. What cannot be continued is said, and its note stays
// unless its session is gone.
func (h *agentServer) resume(server *serve.Server) {
	paths, _ := filepath.Glob(filepath.Join(h.notes, "*"+noteSuffix)) // the pattern is well-formed
	for _, path := range paths {
		id := strings.TrimSuffix(filepath.Base(path), noteSuffix)
		if err := h.resumeOne(server, id); err != nil {
			h.say(fmt.Sprintf("warning: session %s is not continued: %v", id, err))
		}
	}
}

func (h *agentServer) resumeOne(server *serve.Server, id string) error {
	text, err := os.ReadFile(filepath.Join(h.notes, id+noteSuffix))
	var n note
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	if err != nil {
		return err
	}
	if a := h.offerOf(n.Agent); a == nil || a.Agent.Source != n.Source {
		return nil // of another server
	}
	events, err := h.lastRun(context.Background(), n.Agent, id) // of any owner
	if errors.Is(err, fs.ErrNotExist) || err == nil && ended(events) {
		n.remove(h.notes, id) // the server died between the end of the run and this
		return nil
	}
	if err != nil {
		return err
	}
	if !n.Until.IsZero() {
		left := max(time.Until(n.Until).Seconds(), 0)
		n.Start.Lease.Seconds = &left
	}
	return server.Resume(n.Token, n.Agent, n.Start)
}

// ended reports whether events are those of a run that has ended.
func ended(events []agent.Event) bool {
	return len(events) > 0 && isEnd(events[len(events)-1])
}

func isEnd(e agent.Event) bool { return e.Kind == agent.EventEnd && e.Depth == 0 }

// lastRun implements serve.Options.Journal.
func (h *agentServer) lastRun(ctx context.Context, slug, id string) ([]agent.Event, error) {
	unknown := fmt.Errorf("%s has no session %.100q: %w", slug, id, fs.ErrNotExist)
	a := h.offerOf(slug)
	path := h.sessionOf(id, serve.Owner(ctx))
	if a == nil || path == "" {
		return nil, unknown
	}
	var events []agent.Event
	runs := 0
	for e, err := range session.Events(path) {
		if err != nil {
			return nil, err
		}
		if e.Kind == agent.EventSession && e.Depth == 0 && (e.Session != id || e.Agent != a.Agent.Slug || e.Source != a.Agent.Source) {
			return nil, unknown
		}
		if e.Kind == agent.EventMessage && e.Depth == 0 && !e.Opening && !e.Continues() {
			if runs++; runs > 1 {
				events = nil
			}
		}
		if ended(events) {
			events = events[:len(events)-1] // the run continued
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		return nil, unknown
	}
	if last := events[len(events)-1]; isEnd(last) && last.Status == agent.StatusInterrupted && strings.Contains(last.Error, serve.Parked) {
		events = events[:len(events)-1]
	}
	return events, nil
}
