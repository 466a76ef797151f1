package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// errNoSummary is the answer to a request for a summary that was not recorded: it
// failed then, as it does now. What follows shows whether it was so.
var errNoSummary = errors.New("the record has no summary of this conversation")

// model serves the answers of one agent's model.
type model struct {
	p    *Player
	real agent.Provider // nil if there is none
}

// Generate gives the answer that was recorded for the request, or ends the replay.
func (m *model) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	pl := m.p.of(req.Session)
	if m.real != nil && m.p.real(pl.path, req.Turn) {
		return m.real.Generate(ctx, req, delta)
	}
	if req.Summary {
		return m.p.summary(pl, req)
	}
	a, err := m.p.ask(pl, req)
	if err != nil {
		m.p.fail(err)
		return nil, err
	}
	switch a.kind {
	case shortened:
		if a.failure != nil {
			return nil, modelError(a.failure, pl.model(a))
		}
		return nil, &agent.ModelError{Message: "the model refused the conversation as too long", TooLong: true}
	case ended:
		if m.p.own {
			m.p.waitEnd(ctx, pl.path)
		}
		return nil, pl.end(a)
	case left:
		m.p.leave(pl)
		return nil, ErrUnfinished
	}
	for _, part := range a.response.Message.Parts {
		switch part.Kind {
		case agent.PartText:
			delta(agent.Delta{Kind: agent.DeltaText, Text: part.Text})
		case agent.PartReasoning:
			delta(agent.Delta{Kind: agent.DeltaReasoning, Text: part.Text})
		}
	}
	if m.p.own {
		m.p.conduct.wait(ctx, step{pl.path, agent.EventAnswer, place{turn: a.turn}})
	}
	copied := *a.response
	return &copied, nil
}

// end is the recorded end of a run. What ended it from outside ends the session's
// context now.
func (pl *playing) end(a *ask) error {
	name := pl.model(a)
	if a.failure != nil && a.failure.TooLong {
		return modelError(a.failure, name)
	}
	if text, ok := strings.CutPrefix(a.end.Error, "ask model "+name+": "); ok || a.end.Status == agent.StatusFailed {
		return &ending{text: text, status: a.end.Status}
	}
	err := &ending{text: a.end.Error, status: a.end.Status, cause: true}
	pl.stop(err)
	return err
}

// model is the model that was asked.
func (pl *playing) model(a *ask) string {
	if a.setup != nil {
		return a.setup.model
	}
	return pl.rec.open.Model
}

// summary is the next summary that was recorded in this turn.
func (p *Player) summary(pl *playing, req *agent.Request) (*agent.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pl.rec == nil || pl.summaries == len(pl.rec.summaries[req.Turn]) {
		return nil, errNoSummary
	}
	pl.summaries++
	s := pl.rec.summaries[req.Turn][pl.summaries-1]
	if s.err != nil {
		return nil, s.err
	}
	copied := *s.response
	return &copied, nil
}

// ask finds the recorded request that req equals; otherwise the error is a *Miss.
func (p *Player) ask(pl *playing, req *agent.Request) (*ask, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var due []*ask
	if pl.rec != nil {
		list := pl.rec.asks[req.Turn]
		due = list[min(pl.cursor, len(list)):]
	}
	for i, a := range due {
		if a.kind == limited || p.LiveTools && a.kind == shortened {
			continue
		}
		if p.same(pl, req, a) {
			pl.cursor += i + 1
			pl.checked, pl.checkedEpoch = len(req.Messages), pl.epoch
			return a, nil
		}
	}
	return nil, p.miss(pl, req, due)
}

// same reports whether a was asked as req is. p.mu is held.
func (p *Player) same(pl *playing, req *agent.Request, a *ask) bool {
	if a.setup != nil {
		// When an agent was changed while its run was interrupted, the run goes on
		// with another system prompt. A Runner asks for that once in a run, so here
		// it is that of the run's beginning.
		system := p.own || req.System == a.setup.system
		if !system || !slices.EqualFunc(req.Tools, a.setup.tools, sameTool) {
			return false
		}
	}
	if p.LiveTools {
		return pl.epoch > 0 || a.epoch > 0 || slices.EqualFunc(req.Messages, a.messages, sameWords)
	}
	from := 0
	if pl.checkedEpoch == pl.epoch && pl.epoch == a.epoch {
		from = min(pl.checked, len(req.Messages), len(a.messages))
	}
	return slices.EqualFunc(req.Messages[from:], a.messages[from:], sameMessage)
}

// miss is the error for a request that is none of due, those that were recorded for
// its turn and are left.
func (p *Player) miss(pl *playing, req *agent.Request, due []*ask) error {
	m := &Miss{Agent: req.Agent, Path: pl.path, Turn: req.Turn}
	near := nearest(p.Record, pl, req, due)
	switch {
	case near == nil:
		m.What = "the agent was not asked anything when the session was recorded"
		return m
	case near.kind == limited && p.same(pl, req, near):
		m.What = "the recorded run ended here: " + near.end.Error
		return m
	case len(due) > 0:
		m.What = "the request is not the recorded one"
	default:
		m.What = fmt.Sprintf("nothing was recorded for this request; the nearest is that of turn %d", near.turn)
		if near.of != pl.rec {
			m.What += " of " + named(near.of.open.Agent, near.of.path)
		}
	}
	m.Diff = diffRequests(near, req)
	return m
}

// nearest is the recorded request that is most like req: of those that are due, else
// of its session, else of its agent in other sessions. It is nil if there is none.
func nearest(rec *Record, pl *playing, req *agent.Request, due []*ask) *ask {
	if len(due) == 0 && pl.rec != nil {
		due = pl.rec.allAsks()
	}
	if len(due) == 0 {
		for _, path := range slices.Sorted(maps.Keys(rec.sessions)) {
			if s := rec.sessions[path]; s.open.Agent == req.Agent {
				due = append(due, s.allAsks()...)
			}
		}
	}
	var best *ask
	like := -1
	for _, a := range due {
		n := 0
		for n < min(len(a.messages), len(req.Messages)) && sameMessage(a.messages[n], req.Messages[n]) {
			n++
		}
		if n > like {
			best, like = a, n
		}
	}
	return best
}
