package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// errNoSummary answers a request for a summary that is not in the record: it failed
// when it was recorded, or was not made. The next request shows which.
var errNoSummary = errors.New("the record has no summary of this conversation")

// model serves the answers of one agent's model.
type model struct {
	p    *Player
	real agent.Provider
}

// Generate returns the recorded answer to the request, or ends the replay.
func (m *model) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	s := m.p.of(req.Session)
	if m.p.real(s, req.Turn) {
		return m.real.Generate(ctx, req, delta)
	}
	if req.Summary {
		return m.p.summary(s, req)
	}
	r, err := m.p.request(s, req)
	if err != nil {
		m.p.fail(err)
		return nil, err
	}
	switch r.outcome {
	case compacted:
		if r.failure != nil {
			return nil, modelError(r.failure, r.model())
		}
		return nil, &agent.ModelError{Message: "the model refused the conversation as too long", TooLong: true}
	case ended:
		if r.stopped() {
			delta(agent.Delta{Kind: agent.DeltaText, Text: r.failure.Message.Parts[0].Text})
		}
		return nil, r.failed(r.endError(s))
	case unfinished:
		m.p.leave(s)
		return nil, &agent.ModelError{Message: ErrUnfinished.Error(), Err: ErrUnfinished}
	}
	for _, part := range r.response.Message.Parts {
		switch part.Kind {
		case agent.PartText:
			delta(agent.Delta{Kind: agent.DeltaText, Text: part.Text})
		case agent.PartReasoning:
			delta(agent.Delta{Kind: agent.DeltaReasoning, Text: part.Text})
		}
	}
	copied := *r.response
	return &copied, nil
}

// stopped reports whether part of the answer had arrived when the run was stopped.
func (r *request) stopped() bool {
	return r.failure != nil && r.failure.Message != nil && len(r.failure.Message.Parts) > 0
}

// failed returns err with the recorded usage of the request, if it was made.
func (r *request) failed(err error) error {
	failed := &agent.ModelError{Message: err.Error(), Err: err}
	if inner, ok := errors.AsType[*agent.ModelError](err); ok {
		failed = inner
	}
	if r.failure != nil && r.failure.Usage != nil {
		failed.Usage = *r.failure.Usage
	}
	return failed
}

// endError is the recorded end of a run. If that was not the model's error, it ends
// the session's context now.
func (r *request) endError(s *progress) error {
	name := r.model()
	if r.failure != nil && r.failure.TooLong {
		return modelError(r.failure, name)
	}
	if text, ok := strings.CutPrefix(r.end.Error, "ask model "+name+": "); ok || r.end.Status == agent.StatusFailed && !r.stopped() {
		return &endError{text: text, status: r.end.Status}
	}
	var err error = &endError{text: r.end.Error, status: r.end.Status, cancelled: true}
	if r.stopped() {
		err = &agent.EndError{Status: r.end.Status, Text: r.end.Error}
	}
	s.stop(err)
	return err
}

func (r *request) model() string {
	if r.setup != nil {
		return r.setup.model
	}
	return r.of.open.Model
}

// summary is the next summary that was recorded in this turn.
func (p *Player) summary(at *progress, req *agent.Request) (*agent.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.rec == nil || at.summaries == len(at.rec.summaries[req.Turn]) {
		return nil, errNoSummary
	}
	at.summaries++
	s := at.rec.summaries[req.Turn][at.summaries-1]
	if s.err != nil {
		return nil, s.err
	}
	copied := *s.response
	return &copied, nil
}

// request finds the recorded request that equals req; otherwise the error is a *Miss.
func (p *Player) request(at *progress, req *agent.Request) (*request, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var due []*request
	if at.rec != nil {
		list := at.rec.requests[req.Turn]
		due = list[min(at.served, len(list)):]
	}
	for i, a := range due {
		if a.outcome == limited || p.LiveTools && a.outcome == compacted {
			continue
		}
		if p.sameRequest(at, req, a) {
			at.served += i + 1
			at.equal, at.equalSince = len(req.Messages), at.compactions
			return a, nil
		}
	}
	return nil, p.miss(at, req, due)
}

// sameRequest reports whether a is the request that req is. p.mu is held.
func (p *Player) sameRequest(at *progress, req *agent.Request, a *request) bool {
	if a.setup != nil {
		if req.System != a.setup.system || !slices.EqualFunc(req.Tools, a.setup.tools, sameTool) {
			return false
		}
	}
	if p.LiveTools {
		return at.compactions > 0 || a.compactions > 0 || slices.EqualFunc(req.Messages, a.messages, sameButResults)
	}
	from := 0
	if at.equalSince == at.compactions && at.compactions == a.compactions {
		from = min(at.equal, len(req.Messages), len(a.messages))
	}
	return slices.EqualFunc(req.Messages[from:], a.messages[from:], sameMessage)
}

// miss is the error for a request that differs from all of due, the recorded requests
// of its turn that were not served.
func (p *Player) miss(at *progress, req *agent.Request, due []*request) error {
	m := &Miss{Agent: req.Agent, Path: at.path, Turn: req.Turn}
	near := nearest(p.Record, at, req, due)
	switch {
	case near == nil:
		m.What = "the record has no request of this agent"
		return m
	case near.outcome == limited && p.sameRequest(at, req, near):
		m.What = "the recorded run ended here: " + near.end.Error
		return m
	case len(due) > 0:
		m.What = "the request is not the recorded one"
	default:
		m.What = fmt.Sprintf("the record has no request for this turn; the most similar is that of turn %d", near.turn)
		if near.of != at.rec {
			m.What += " of " + named(near.of.open.Agent, near.of.path)
		}
	}
	m.Diff = diffRequests(near, req)
	return m
}

// nearest is the recorded request most similar to req: of those that are due, else
// of its session, else of its agent in other sessions. It is nil if there is none.
func nearest(rec *Record, at *progress, req *agent.Request, due []*request) *request {
	if len(due) == 0 && at.rec != nil {
		due = at.rec.allRequests()
	}
	if len(due) == 0 {
		for _, path := range slices.Sorted(maps.Keys(rec.sessions)) {
			if s := rec.sessions[path]; s.open.Agent == req.Agent {
				due = append(due, s.allRequests()...)
			}
		}
	}
	var best *request
	most := -1
	for _, a := range due {
		n := 0
		for n < min(len(a.messages), len(req.Messages)) && sameMessage(a.messages[n], req.Messages[n]) {
			n++
		}
		if n > most {
			best, most = a, n
		}
	}
	return best
}

// sameTool reports whether a model sees no difference between two tools.
func sameTool(a, b agent.ToolSpec) bool {
	return a.Name == b.Name && a.Description == b.Description && same(a.Schema, b.Schema)
}

// sameMessage leaves out receipts: they have the costs, times and files of another run.
func sameMessage(a, b agent.Message) bool {
	return same(withoutReceipts(a), withoutReceipts(b))
}

func withoutReceipts(m agent.Message) agent.Message {
	if m.Role == agent.RoleUser { // with the answer of an agent in the background
		m.Parts = agent.WithoutReceipts(m.Parts)
	}
	if m.Role == agent.RoleTool {
		m.Results = slices.Clone(m.Results)
		for i := range m.Results {
			m.Results[i].Parts = agent.WithoutReceipts(m.Results[i].Parts)
		}
	}
	return m
}

// sameButResults is sameMessage without the results of tools.
func sameButResults(a, b agent.Message) bool {
	if a.Role == agent.RoleTool && b.Role == agent.RoleTool {
		return len(a.Results) == len(b.Results)
	}
	return same(a, b)
}

// same reports whether two values are the same JSON: a journal does not keep the
// spaces and escapes of JSON inside them.
func same[T any](a, b T) bool {
	if reflect.DeepEqual(a, b) {
		return true // much faster
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
