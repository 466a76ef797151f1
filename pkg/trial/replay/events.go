package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// An emitter repeats the events of a Record in their order. It applies each to the
// session that it belongs to, so that a record of what cannot have happened is an
// error.
type emitter struct {
	runner   *runner.Runner
	now      func() time.Time
	redact   func(agent.Event) agent.Event // of what the journal keeps; nil changes nothing
	observe  func(agent.Event)             // redacts by itself
	sessions []*agent.Session              // in the order in which they began
	started  map[string]bool               // calls, by key
	tools    map[string]int                // number of tools of a setup, by digest
	total    agent.TotalUsage              // of the run
	end      *agent.Event                  // of the last run of the root
}

// emitAll repeats the record without any agent.
func (p *Player) emitAll(ctx context.Context, r *runner.Runner) (*agent.Outcome, error) {
	m := &emitter{runner: r, now: r.Now, redact: runner.RedactEvent(r.Secrets), observe: runner.Redact(r.Secrets, r.Observe),
		started: map[string]bool{}, tools: map[string]int{}}
	if m.observe == nil {
		m.observe = func(agent.Event) {}
	}
	if m.now == nil {
		m.now = time.Now
	}
	start := m.now()
	byID := map[string]*agent.Session{}
	var err error
	for _, e := range p.Record.events {
		s := byID[e.Session]
		if s == nil {
			s = &agent.Session{}
			byID[e.Session], m.sessions = s, append(m.sessions, s)
		}
		if err = context.Cause(ctx); err == nil {
			err = m.repeat(ctx, s, e)
		}
		if err != nil {
			break
		}
	}
	root := m.sessions[0]
	p.conversation = root
	unfinished := root.Running || m.end == nil
	if err == nil || ctx.Err() != nil {
		err = errors.Join(err, m.close(ctx, cmp.Or(err, ErrUnfinished)))
	}
	out := &agent.Outcome{Session: root.ID, Agent: root.Agent, Turns: root.RunTurns, Total: m.total, Duration: m.now().Sub(start)}
	if answer, ok := root.Answer(); ok && root.RunTurns > 0 {
		out.Message, out.Answer = answer, answer.Text()
	}
	if m.end != nil {
		out.Status, out.Answer = m.end.Status, m.end.Text
	}
	switch {
	case err != nil:
		out.Status = agent.StatusOf(err)
	case out.Status == agent.StatusOK:
	case out.Status == agent.StatusPartial:
		out.Reason = m.end.Error
	case unfinished:
		out.Status, err = agent.StatusFailed, ErrUnfinished
	default:
		err = &endError{text: m.end.Error, status: m.end.Status}
	}
	return out, err
}

// repeat emits an event of the record. A run that another process resumed is
// repeated as if its process had not ended: it is resumed and fails once, and its
// calls start once.
func (m *emitter) repeat(ctx context.Context, s *agent.Session, e agent.Event) error {
	switch e.Kind {
	case agent.EventResume:
		if s.Running {
			return nil
		}
	case agent.EventCallStarted:
		if m.started[e.Key] {
			return nil
		}
		m.started[e.Key] = true
	case agent.EventSetup:
		if m.tools[e.Digest] == 0 {
			m.tools[e.Digest] = len(e.Specs)
		}
	case agent.EventMessage:
		if s != m.sessions[0] || e.Continues() {
			break
		}
		if s.Setup.Digest != "" { // what came before was not the opening
			if err := m.close(ctx, ErrUnfinished); err != nil {
				return err
			}
		}
		m.total = agent.TotalUsage{}
	case agent.EventFailure:
		if s.Failure != nil && !e.Summary {
			return nil
		}
		m.showRequest(s)
		if e.Message != nil && len(e.Message.Parts) > 0 {
			m.showAnswer(s, &agent.Message{Parts: e.Message.Parts[:1]})
		}
	case agent.EventCompaction:
		m.showRequest(s)
	case agent.EventAnswer:
		m.showRequest(s)
		m.showAnswer(s, e.Message)
	}
	return m.emit(ctx, s, e)
}

// emit makes an event happen: journal, session, observer.
func (m *emitter) emit(ctx context.Context, s *agent.Session, e agent.Event) error {
	e.Time = m.now()
	if m.redact != nil {
		e = m.redact(e)
	}
	if m.runner.Journal != nil {
		if err := m.runner.Journal.Append(context.WithoutCancel(ctx), e); err != nil {
			return fmt.Errorf("%w: %w", agent.ErrJournal, err)
		}
	}
	if err := s.Apply(e); err != nil {
		return err
	}
	m.total.Note(&e)
	if e.Kind == agent.EventEnd && s == m.sessions[0] {
		m.end = &e
	}
	m.observe(e)
	return nil
}

// close ends the runs of which the record has no end, inner ones first.
func (m *emitter) close(ctx context.Context, why error) error {
	for _, s := range slices.Backward(m.sessions) {
		for s.Running {
			step := s.Next()
			if step.Kind != agent.StepApply {
				step.Events = []agent.Event{s.Failed(agent.Step{}, interrupted(why))}
			}
			for _, e := range step.Events {
				if e.Kind == agent.EventEnd {
					total := m.total.Add(agent.TotalUsage{})
					e.Turn, e.Total = s.Turn, &total
				}
				if err := m.emit(ctx, s, e); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// showRequest shows the request of which the next event is the result, if it is
// one of the model.
func (m *emitter) showRequest(s *agent.Session) {
	if kind := s.Next().Kind; kind == agent.StepModel || kind == agent.StepSummary {
		m.show(s, agent.Event{Kind: agent.EventRequest, Tools: m.tools[s.Setup.Digest], Model: s.Model, Fallback: s.Fallback})
	}
}

// showAnswer shows the parts of an answer in one piece each.
func (m *emitter) showAnswer(s *agent.Session, answer *agent.Message) {
	for _, part := range answer.Parts {
		switch part.Kind {
		case agent.PartText:
			m.show(s, agent.Event{Kind: agent.EventText, Text: part.Text})
		case agent.PartReasoning:
			m.show(s, agent.Event{Kind: agent.EventReasoning, Text: part.Text})
		}
	}
}

// show shows an event that is not in the record.
func (m *emitter) show(s *agent.Session, e agent.Event) {
	e.Time, e.Session, e.Agent, e.Parent, e.Depth, e.Turn = m.now(), s.ID, s.Agent, s.Parent, s.Depth, s.Turn+1
	m.observe(e)
}
