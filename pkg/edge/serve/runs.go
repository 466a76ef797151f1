package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/remote"
)

const (
	lookEvery = 250 * time.Millisecond // for changes of runs, and whether the server is idle
	sayAlive  = 15 * time.Second       // to clients that follow the runs
	firstIdle = 30 * time.Second       // for the first client to come
	lastIdle  = time.Second            // after the last has gone
	maxTitle  = 200                    // bytes of a prompt's first line
)

// about is what its events say of a run. It is under held.mu.
type about struct {
	started   time.Time
	prompt    string
	status    agent.Status
	usage     agent.Usage
	questions []agent.Event // without a reply
}

func (a *about) note(e *agent.Event) {
	if a.started.IsZero() {
		a.started = e.Time
	}
	if e.Usage != nil && e.Kind != agent.EventEnd {
		a.usage = a.usage.Add(*e.Usage)
	}
	switch e.Kind {
	case agent.EventMessage:
		if e.Depth == 0 && !e.Opening && !e.Continues() && e.Message != nil {
			a.prompt, _, _ = strings.Cut(strings.TrimSpace(e.Message.Text()), "\n")
			a.prompt = strings.Clone(strings.ToValidUTF8(a.prompt[:min(len(a.prompt), maxTitle)], "")) // not the whole
		}
	case agent.EventQuestion:
		if e.Asks() {
			a.questions = append(a.questions, *e)
		}
	case agent.EventCallEnded: // its question was not answered in time, perhaps
		a.forget(func(q agent.Event) bool { return q.Key == e.Key && q.Session == e.Session })
	case agent.EventEnd:
		a.forget(func(q agent.Event) bool { return q.Session == e.Session || e.Depth == 0 })
		if e.Depth == 0 {
			a.status = e.Status
		}
	}
}

func (a *about) forget(which func(q agent.Event) bool) {
	a.questions = slices.DeleteFunc(a.questions, which)
}

func (h *held) answered(question string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.about.forget(func(q agent.Event) bool { return q.Question == question })
}

// list returns the runs that clients with the token may connect to.
func (c *client) list() []remote.Run {
	list := []remote.Run{}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	for key, h := range c.server.held {
		if h.client != c {
			continue
		}
		h.mu.Lock()
		a := &h.about
		r := remote.Run{Session: key.session, Agent: h.slug, Prompt: a.prompt, State: remote.RunGoing, Started: a.started, Held: h.holder != nil, Cost: a.usage.Cost, Unpriced: a.usage.Unpriced()}
		switch {
		case a.status != "":
			r.State = string(a.status)
		case len(a.questions) > 0:
			first := a.questions[0]
			r.State, r.Question = remote.RunAsks, &first
		}
		h.mu.Unlock()
		list = append(list, r)
	}
	slices.SortStableFunc(list, func(a, b remote.Run) int {
		return cmp.Or(b.Started.Compare(a.Started), strings.Compare(a.Session, b.Session))
	})
	return list
}

// runs is GET /v1/runs. With "follow" the answer has a line whenever a run has changed.
func (c *client) runs(w http.ResponseWriter, r *http.Request) {
	s := c.server
	if r.URL.Query().Get("follow") != "true" {
		writeJSON(w, http.StatusOK, map[string]any{"runs": c.list()})
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	out := &slowWriter{w, http.NewResponseController(w)}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var last string
	var said time.Time
	for !s.isDraining() {
		text, err := json.Marshal(map[string]any{"runs": c.list()})
		if err != nil {
			return
		}
		line := "\n"
		if string(text) != last {
			last = string(text)
			line = last + line
		}
		if len(line) > 1 || time.Since(said) >= sayAlive {
			if _, err := out.Write([]byte(line)); err != nil {
				return
			}
			out.Flush()
			said = time.Now()
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// untilIdle calls end when no client is connected and no run is in progress.
func (s *Server) untilIdle(ctx context.Context, end func()) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	used, wait := time.Now(), firstIdle
	for time.Since(used) < wait {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		busy := len(s.runs) + s.listener.Open()
		s.mu.Unlock()
		s.places.mu.Lock()
		busy += len(s.places.line)
		s.places.mu.Unlock()
		if s.visited.Swap(false) || busy > 0 {
			used, wait = time.Now(), lastIdle
		}
	}
	end()
}
