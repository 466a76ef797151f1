package agent

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agents-exe/agents/pkg/leaf/closest"
)

// The methods of this file turn what came of a step into the event that records
// it. They change nothing: the driver gives the event its Time and what it knows
// beside (Millis, Total, Argv, Digest), keeps it, and applies it.

// event is e, with what all events of the session have in common.
func (s *Session) event(e Event) Event {
	e.Session, e.Agent, e.Parent, e.Depth = s.ID, s.Agent, s.Parent, s.Depth
	return e
}

// Opened begins a new session for a, with the messages of a.Opening. parent is
// the Key of the call that it answers and depth the number of calls above it.
func (s *Session) Opened(a *Agent, id, parent string, depth int) []Event {
	in := func(e Event) Event {
		e.Session, e.Agent, e.Parent, e.Depth = id, a.Slug, parent, depth
		return e
	}
	events := []Event{in(Event{Kind: EventSession, Source: a.Source, Model: a.Model})}
	for _, m := range a.Opening {
		events = append(events, in(Event{Kind: EventMessage, Message: &m, Opening: true}))
	}
	return events
}

// Prompted begins a run with a message of the user.
func (s *Session) Prompted(prompt Message, limits Limits) Event {
	return s.event(Event{Kind: EventMessage, Message: &prompt, Limits: &limits, Turn: s.Turn})
}

// Inserted adds a message that the user sent while the run is going on. With a key it is the
// runtime that tells what came of the call with that key, which an agent has answered in the
// background, with this outcome.
func (s *Session) Inserted(m Message, key, outcome string) Event {
	m.Role = RoleUser
	return s.event(Event{Kind: EventMessage, Message: &m, Input: true, Key: key, Status: Status(outcome)})
}

// Resumed takes up an unfinished run.
func (s *Session) Resumed(limits Limits) Event {
	e := Event{Kind: EventResume, Limits: &limits, Turn: s.Turn, RunTurns: s.RunTurns}
	if s.Ended != "" { // see applyResume
		e.RunTurns = 0
	}
	return s.event(e)
}

// SetUp says with what the model is asked from now on. digest is that of [SetupDigest], and not
// the one in s.Setup.
func (s *Session) SetUp(model, system string, tools []ToolSpec, digest string) Event {
	return s.event(Event{Kind: EventSetup, Model: model, Digest: digest, System: system, Specs: tools})
}

// Request is what the model is asked at a StepModel or StepSummary.
func (s *Session) Request(step Step, system string, tools []ToolSpec) *Request {
	return &Request{
		System: system, Messages: step.Messages, Tools: tools,
		Session: s.ID, Agent: s.Agent, Turn: s.Turn + 1, Summary: step.Kind == StepSummary, Fallback: s.Fallback,
	}
}

// Answered records what the model answered at a StepModel or StepSummary. Calls
// whose ids are empty or taken get new ones.
func (s *Session) Answered(step Step, resp *Response) Event {
	m := resp.Message
	m.Role = RoleAssistant
	usage := resp.Usage
	usage.Requests = max(usage.Requests, 1)
	if step.Kind == StepSummary {
		if strings.TrimSpace(m.Text()) == "" {
			return s.Failed(step, &ModelError{Message: "the model answered without a text", Usage: usage})
		}
		e := s.summarized(step, &m, &usage)
		e.Fallback = resp.Fallback
		return e
	}
	m.Calls = slices.Clone(m.Calls)
	s.repair(m.Calls)
	return s.event(Event{Kind: EventAnswer, Turn: s.Turn + 1, Model: resp.Model, Message: &m,
		Finish: cmp.Or(resp.Finish, FinishStop), Usage: &usage, Fallback: resp.Fallback, Error: resp.Failed})
}

// MaxName is the length in bytes to which the name and the id of a call are cut.
const MaxName = 256

// repair makes a model's calls fit for the session. A call whose id is empty,
// too long or taken gets a new one: nine letters and digits, which every
// provider accepts. Arguments that are not UTF-8 could not be kept as they are;
// they become a text that is not JSON, so that the call is refused and not run
// with other bytes.
func (s *Session) repair(calls []ToolCall) {
	here := make(map[string]bool, len(calls))
	next := len(s.ids)
	for i := range calls {
		c := &calls[i]
		for c.ID == "" || len(c.ID) > MaxName || s.ids[c.ID] || here[c.ID] {
			next++
			c.ID = fmt.Sprintf("c%08d", next)
		}
		here[c.ID] = true
		if len(c.Name) > MaxName {
			c.Name = strings.ToValidUTF8(c.Name[:MaxName], "")
		}
		if !utf8.ValidString(c.Args) {
			c.Args = "not valid UTF-8: " + strings.ToValidUTF8(c.Args, "\uFFFD")
		}
	}
}

// Failed records that a model request failed for good, or why the driver must
// end the run: the end of its ctx, or a budget that is spent. What err wraps decides
// the Status. Of a *NearlySpent at a StepModel it is the message that asks the model for
// its answer, once in a run. The event keeps the text of a *Stopped.
func (s *Session) Failed(step Step, err error) Event {
	if near, ok := errors.AsType[*NearlySpent](err); ok && step.Kind == StepModel && s.Closing == "" {
		return s.closed(near)
	}
	e := s.event(Event{Kind: EventFailure, Turn: s.Turn + 1, Status: StatusOf(err), Error: err.Error()})
	model, ok := errors.AsType[*ModelError](err)
	e.Summary = step.Kind == StepSummary && (step.Asked || e.Status == StatusFailed)
	e.Input = step.Asked
	e.TooLong = ok && model.TooLong && !e.Summary
	if ok {
		e.Code = model.code()
	}
	if ok && model.Usage != (Usage{}) {
		e.Usage = &model.Usage
	}
	if stopped, ok := errors.AsType[*Stopped](err); ok && step.Kind == StepModel {
		e.Message = partial(stopped.Text)
	}
	return e
}

// Judged records what Accept said at a StepAccept: the text that counts as the
// answer, or what is wrong with it, which the model reads. The last of
// Limits.Answers ends the run.
func (s *Session) Judged(text string, wrong error) Step {
	attempt := max(s.Attempt, 1)
	switch {
	case wrong == nil:
		step := s.answered()
		step.Events[0].Text = text
		return step
	case attempt >= s.Limits.Answers:
		return s.End(StatusInvalid, fmt.Errorf("%w after %d attempts: %w", ErrAnswer, attempt, wrong))
	}
	say := "Your answer was not accepted: " + wrong.Error() + "\nAnswer again, with the corrected answer and nothing else."
	if unmet, ok := errors.AsType[*Unmet](wrong); ok {
		say = "Your answer was not accepted. The runtime has checked what was done:\n- " + strings.Join(unmet.Reasons, "\n- ") + "\nDo what is missing, then answer again."
	}
	again := UserText(say)
	return Step{Kind: StepApply, Events: []Event{s.event(Event{Kind: EventMessage, Message: &again, Attempt: attempt + 1, Error: wrong.Error()})}}
}

// CallEnded records what came of a call that did not pass the Gate. err is a
// failure, which the model sees in front of the result.
func (s *Session) CallEnded(c PendingCall, result Result, err error) Event {
	var inv Invocation
	s.Invoke(&inv, c, ToolSpec{})
	e := inv.Ended(result, err)
	e.Args = c.Args
	return e
}

func toolResult(c ToolCall, result Result, err error) *ToolResult {
	out := &ToolResult{CallID: c.ID, Name: c.Name, Parts: result.Parts, End: result.End, Task: result.Task, Toolgroups: result.Toolgroups, Handle: result.Handle, Workspace: result.Workspace}
	if err != nil {
		out.End, out.Task, out.Toolgroups, out.Handle = "", nil, nil, ""
		text := strings.ToValidUTF8(err.Error(), "\uFFFD")
		if _, ok := errors.AsType[*outcomeError](err); !ok {
			text = "error: " + text
		}
		if len(result.Parts) > 0 {
			text += "\n"
		}
		out.Failed, out.Parts = true, append([]Part{Text(text)}, result.Parts...)
	}
	return out
}

// Refuse is the result of a call that cannot run: its tool is not among tools,
// or it started once and may not be repeated. ok is false if it can run.
func (s *Session) Refuse(c PendingCall, tools []ToolSpec) (e Event, ok bool) {
	i := ToolIndex(tools, c.Name)
	switch {
	case c.Started && (i < 0 || !repeatable(tools[i])):
		return s.CallEnded(c, Result{}, ErrUnknownOutcome), true
	case i < 0:
		return s.CallEnded(c, Result{}, unknownTool(c.Name, tools)), true
	}
	return Event{}, false
}

// repeatable reports whether a call that started once may be run again.
func repeatable(spec ToolSpec) bool {
	return spec.IsAgent() || spec.Effects == EffectsNone || spec.Effects == EffectsIdempotent
}

// unknownTool is the error for a tool that does not exist, with those that do.
func unknownTool(name string, tools []ToolSpec) error {
	const most = 20
	var names []string
	for _, s := range tools {
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return fmt.Errorf("there is no tool %.100q; you have no tools", name)
	}
	slices.SortStableFunc(names, func(a, b string) int { return closest.Unlike(a, name) - closest.Unlike(b, name) })
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	return fmt.Errorf("there is no tool %.100q; there are: %s%s", name, strings.Join(names, ", "), more)
}
