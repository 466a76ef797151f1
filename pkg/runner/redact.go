package runner

import (
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/redact"
)

// Redact returns an observer that passes events on to next without the secrets
// that r knows, as RedactEvent does. A chunk of an answer that may be the
// beginning of a secret is held back until the next event of its session, so that
// a secret split over chunks is found too. The observer must not be called
// concurrently with itself.
func Redact(r *redact.Redactor, next func(agent.Event)) func(agent.Event) {
	if r == nil || next == nil {
		return next
	}
	o := &redactor{secrets: r, next: next, held: map[string]*heldText{}}
	return o.observe
}

// RedactEvent returns a function that returns an event with redact.Mark in place
// of every secret that r knows, in every text of the event. The event that it is
// given does not change. It is nil if r is nil.
func RedactEvent(r *redact.Redactor) func(agent.Event) agent.Event {
	if r == nil {
		return nil
	}
	return (&redactor{secrets: r}).event
}

type redactor struct {
	secrets *redact.Redactor
	next    func(agent.Event)
	held    map[string]*heldText // by session
}

// A heldText is a text that arrives in chunks, of events of one kind.
type heldText struct {
	last   agent.Event
	stream *redact.Stream
}

func (r *redactor) observe(e agent.Event) {
	held := r.held[e.Session]
	if held != nil && held.last.Kind != e.Kind {
		delete(r.held, e.Session)
		held.pass(held.stream.Rest(), r.next)
		held = nil
	}
	if e.Kind != agent.EventText && e.Kind != agent.EventReasoning {
		r.next(r.event(e))
		return
	}
	if held == nil {
		held = &heldText{stream: r.secrets.Stream()}
		r.held[e.Session] = held
	}
	chunk := e.Text
	e.Text = ""
	held.last = r.event(e)
	held.pass(held.stream.Next(chunk), r.next)
}

// pass passes on text, if there is any, in the last event.
func (h *heldText) pass(text string, next func(agent.Event)) {
	if text != "" {
		e := h.last
		e.Text = text
		next(e)
	}
}

// event is a copy of e without secrets. It shares with e only what has not
// changed.
func (r *redactor) event(e agent.Event) agent.Event {
	for _, s := range []*string{&e.Session, &e.Agent, &e.Parent, &e.Source, &e.Model, &e.CallID, &e.Tool, &e.Args, &e.Key, &e.Text, &e.Error, &e.Code, &e.System, &e.Question, &e.URL} {
		*s = r.secrets.String(*s)
	}
	for _, list := range []*[]string{&e.Argv, &e.Path, &e.Choices} {
		*list = mapped(*list, r.secrets.String)
	}
	e.Schema, e.Context = r.secrets.Bytes(e.Schema), r.secrets.Bytes(e.Context)
	e.Specs, e.Messages, e.Plan = mapped(e.Specs, r.spec), mapped(e.Messages, r.message), mapped(e.Plan, r.task)
	e.Left = mapped(e.Left, func(l agent.LeftCall) agent.LeftCall {
		l.Handle, l.Call = r.secrets.String(l.Handle), r.call(l.Call)
		return l
	})
	if e.Message != nil {
		m := r.message(*e.Message)
		e.Message = &m
	}
	if e.Result != nil {
		res := r.result(*e.Result)
		e.Result = &res
	}
	if e.Receipt != nil {
		e.Receipt = r.receipt(*e.Receipt)
	}
	if e.Request != nil {
		q := *e.Request
		q.System, q.Output = r.secrets.String(q.System), r.secrets.Bytes(q.Output)
		q.Messages, q.Tools = mapped(q.Messages, r.message), mapped(q.Tools, r.spec)
		e.Request = &q
	}
	if e.Total != nil {
		s := *e.Total
		s.Agents, s.Tools = redactKeys(r, s.Agents), redactKeys(r, s.Tools)
		e.Total = &s
	}
	return e
}

// mapped returns a copy of list with f applied to each element.
func mapped[T any](list []T, f func(T) T) []T {
	list = slices.Clone(list)
	for i, v := range list {
		list[i] = f(v)
	}
	return list
}

func (r *redactor) spec(s agent.ToolSpec) agent.ToolSpec {
	s.Name, s.Description, s.Source = r.secrets.String(s.Name), r.secrets.String(s.Description), r.secrets.String(s.Source)
	s.Schema = r.secrets.Bytes(s.Schema)
	return s
}

func (r *redactor) message(m agent.Message) agent.Message {
	m.Parts, m.Calls, m.Results = mapped(m.Parts, r.part), mapped(m.Calls, r.call), mapped(m.Results, r.result)
	return m
}

func (r *redactor) call(c agent.ToolCall) agent.ToolCall {
	c.ID, c.Name, c.Args = r.secrets.String(c.ID), r.secrets.String(c.Name), r.secrets.String(c.Args)
	c.Extra = r.secrets.Bytes(c.Extra)
	return c
}

func (r *redactor) result(res agent.ToolResult) agent.ToolResult {
	res.CallID, res.Name = r.secrets.String(res.CallID), r.secrets.String(res.Name)
	res.Parts = mapped(res.Parts, r.part)
	if res.Task != nil {
		t := r.task(*res.Task)
		res.Task = &t
	}
	if res.Workspace != nil {
		w := *res.Workspace
		w.Path, w.Branch, w.Stat = r.secrets.String(w.Path), r.secrets.String(w.Branch), r.secrets.String(w.Stat)
		w.Commits, w.Uncommitted = mapped(w.Commits, r.secrets.String), mapped(w.Uncommitted, r.secrets.String)
		res.Workspace = &w
	}
	return res
}

func (r *redactor) receipt(c agent.Receipt) *agent.Receipt {
	c.Agent, c.Refused = r.secrets.String(c.Agent), r.secrets.String(c.Refused)
	c.Calls = mapped(c.Calls, func(n agent.CallCount) agent.CallCount { n.Tool = r.secrets.String(n.Tool); return n })
	c.Commands = mapped(c.Commands, func(n agent.CommandRun) agent.CommandRun {
		n.Tool, n.Command = r.secrets.String(n.Tool), r.secrets.String(n.Command)
		return n
	})
	if c.Files != nil {
		f := *c.Files
		f.Dir, f.Partial = r.secrets.String(f.Dir), r.secrets.String(f.Partial)
		f.Changes = mapped(f.Changes, func(n agent.FileChange) agent.FileChange { n.Path = r.secrets.String(n.Path); return n })
		c.Files = &f
	}
	return &c
}

func (r *redactor) task(t agent.Task) agent.Task {
	for _, s := range []*string{&t.ID, &t.Parent, &t.Title, &t.State, &t.Note} {
		*s = r.secrets.String(*s)
	}
	return t
}

func (r *redactor) part(p agent.Part) agent.Part {
	p.Text, p.MIME, p.Name = r.secrets.String(p.Text), r.secrets.String(p.MIME), r.secrets.String(p.Name)
	p.Data, p.Extra = r.secrets.Bytes(p.Data), r.secrets.Bytes(p.Extra)
	return p
}

// redactKeys redacts the keys of m: tools are counted under the names that models
// gave them.
func redactKeys[V any](r *redactor, m map[string]V) map[string]V {
	if m == nil {
		return nil
	}
	clean := make(map[string]V, len(m))
	for k, v := range m {
		clean[r.secrets.String(k)] = v
	}
	return clean
}

func redactParts(r *redact.Redactor, list []agent.Part) []agent.Part {
	return mapped(list, (&redactor{secrets: r}).part)
}

// redactError is err with a text without secrets.
func redactError(r *redact.Redactor, err error) error {
	if err == nil || r == nil {
		return err
	}
	if text := r.String(err.Error()); text != err.Error() {
		return &redactedError{err, text}
	}
	return err
}

type redactedError struct {
	err  error
	text string
}

func (e *redactedError) Error() string { return e.text }

func (e *redactedError) Unwrap() error { return e.err }
