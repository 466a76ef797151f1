package openaiapi

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
)

// A thread collects the messages of a request. Messages of one role that follow each
// other become one. Instructions of the client, whose place is the system prompt of a
// model, follow the next message of the user: an agent has a system prompt of its own.
type thread struct {
	messages []agent.Message // not to be changed: stored responses have the same
	notes    []agent.Part    // instructions for the next message of the user
	open     []agent.ToolCall
	ids      map[string]bool // of all calls
}

// system adds instructions of the client.
func (t *thread) system(parts []agent.Part) {
	if text := textOf(parts); text != "" {
		t.notes = append(t.notes, note(text))
	}
}

// note is the part with instructions of the client.
func note(text string) agent.Part {
	return agent.Text("Instructions of the calling program:\n" + text)
}

// last is the role of the last message, "" without one.
func (t *thread) last() agent.Role {
	if len(t.messages) == 0 {
		return ""
	}
	return t.messages[len(t.messages)-1].Role
}

// add adds m to the last message, if that is of the same role, or behind it.
func (t *thread) add(m agent.Message) {
	if t.last() != m.Role {
		t.messages = append(slices.Clip(t.messages), m)
		return
	}
	end := t.messages[len(t.messages)-1]
	end.Parts = join(end.Parts, m.Parts)
	end.Calls = slices.Concat(end.Calls, m.Calls)
	end.Results = slices.Concat(end.Results, m.Results)
	t.messages = append(slices.Clone(t.messages[:len(t.messages)-1]), end)
}

// join returns a and b, with an empty line between two texts.
func join(a, b []agent.Part) []agent.Part {
	all := slices.Concat(a, b)
	if n := len(a); n > 0 && len(b) > 0 && all[n-1].Kind == agent.PartText && all[n].Kind == agent.PartText {
		all[n].Text = "\n\n" + all[n].Text
	}
	return all
}

func (t *thread) user(parts []agent.Part) error {
	if err := t.answered(); err != nil {
		return err
	}
	t.add(agent.Message{Role: agent.RoleUser, Parts: parts})
	t.flush()
	return nil
}

// flush adds the instructions to the last message of the user.
func (t *thread) flush() {
	for _, p := range t.notes {
		t.add(agent.Message{Role: agent.RoleUser, Parts: []agent.Part{p}})
	}
	t.notes = nil
}

func (t *thread) assistant(parts []agent.Part, calls ...agent.ToolCall) error {
	if t.last() != agent.RoleAssistant {
		if err := t.answered(); err != nil {
			return err
		}
	}
	if len(calls) > 0 && !slices.ContainsFunc(t.messages, func(m agent.Message) bool { return m.Role == agent.RoleUser }) {
		return invalid("", "invalid_value", "a message of the user must precede the first tool call")
	}
	if t.ids == nil {
		t.ids = map[string]bool{}
	}
	for _, c := range calls {
		if c.ID == "" || t.ids[c.ID] {
			return invalid("", "invalid_value", "the id %.100q of a tool call is empty or occurs twice", c.ID)
		}
		t.ids[c.ID] = true
	}
	t.add(agent.Message{Role: agent.RoleAssistant, Parts: parts, Calls: calls})
	t.open = append(t.open, calls...)
	return nil
}

// result adds the result of a call.
func (t *thread) result(id string, parts []agent.Part) error {
	i := slices.IndexFunc(t.open, func(c agent.ToolCall) bool { return c.ID == id })
	switch {
	case i < 0 && t.ids[id]:
		return invalid("", "invalid_value", "there are two results for the tool call %.100q", id)
	case i < 0:
		return invalid("", "invalid_value", "there is a result for the tool call %.100q, and no message before it with this call", id)
	}
	t.add(agent.Message{Role: agent.RoleTool, Results: []agent.ToolResult{{CallID: id, Name: t.open[i].Name, Parts: parts}}})
	t.open = slices.Delete(slices.Clone(t.open), i, i+1)
	return nil
}

// answered checks that every call has a result.
func (t *thread) answered() error {
	if len(t.open) == 0 {
		return nil
	}
	var ids []string
	for _, c := range t.open {
		ids = append(ids, c.ID)
	}
	return invalid("", "invalid_value", "each tool call must be followed by its result; these have none: %.1000s", strings.Join(ids, ", "))
}

// finish checks that the messages end in what an agent can answer.
func (t *thread) finish(param string) error {
	if err := t.answered(); err != nil {
		return err
	}
	t.flush()
	if last := t.last(); last != agent.RoleUser && last != agent.RoleTool {
		return invalid(param, "invalid_value", "%s: the last message must be of the user or the result of a tool", param)
	}
	if m := t.messages[len(t.messages)-1]; m.Role == agent.RoleUser && len(m.Parts) == 0 {
		return invalid(param, "invalid_value", "%s: the last message is empty", param)
	}
	return nil
}

// answers are the results that the client sends for calls of the last answer, and what
// the user says after them.
func (t *thread) answers() (results []agent.ToolResult, said *agent.Message) {
	i := len(t.messages) - 1
	if t.last() == agent.RoleUser && i > 0 {
		said = &t.messages[i]
		i--
	}
	return t.messages[i].Results, said
}

// start is the start of a run that continues the messages.
func (t *thread) start(spec agent.ToolSpec, tools []agent.ToolSpec) (agent.Start, error) {
	nobody := false
	s := agent.Start{Channel: agent.ChannelVersion, Tools: tools, Person: &nobody}
	past := t.messages
	if results, _ := t.answers(); len(results) == 0 {
		n := len(past) - 1
		past = past[:n]
		var err error
		if s.Args, s.Media, err = arguments(spec, t.messages[n].Parts); err != nil {
			return s, err
		}
	}
	if len(past) > 0 {
		s.History = history(spec.Name, past)
	}
	return s, nil
}

// arguments returns the parts of the prompt as the arguments of an agent and what
// follows them. An agent that needs other arguments than a prompt gets those in a JSON
// object.
func arguments(spec agent.ToolSpec, parts []agent.Part) (json.RawMessage, []agent.Part, error) {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
	}
	other := func(name string) bool { return name != "prompt" }
	if json.Unmarshal(spec.Schema, &schema) == nil && (schema.Properties != nil && schema.Properties["prompt"] == nil || slices.ContainsFunc(schema.Required, other)) {
		args := strings.TrimSpace(textOf(parts))
		if !strings.HasPrefix(args, "{") || !json.Valid([]byte(args)) {
			return nil, nil, invalid("", "invalid_value", "the agent %s takes arguments: the last message must be one JSON object that fits this schema, and nothing else: %.2000s", spec.Name, spec.Schema)
		}
		media := slices.DeleteFunc(slices.Clone(parts), func(p agent.Part) bool { return p.Kind == agent.PartText })
		return json.RawMessage(args), media, nil
	}
	rest := slices.Clone(parts)
	prompt := ""
	if i := slices.IndexFunc(rest, func(p agent.Part) bool { return p.Kind == agent.PartText }); i >= 0 {
		prompt = rest[i].Text
		rest = slices.Delete(rest, i, i+1)
	}
	return bytes.TrimSpace(encode(map[string]string{"prompt": prompt})), rest, nil
}

// history are the events of a session with these messages. It has no run that is in
// progress, unless the messages end in results of tools, or in what the user says after
// them: then the run is resumed.
func history(slug string, messages []agent.Message) []agent.Event {
	h := pastSession{slug: slug, id: session.NewID(), now: time.Now()}
	h.add(agent.Event{Kind: agent.EventSession})
	for i, m := range messages {
		switch {
		case m.Role == agent.RoleUser && i > 0 && messages[i-1].Role == agent.RoleTool:
			h.add(agent.Event{Kind: agent.EventMessage, Message: &m, Input: true})
		case m.Role == agent.RoleUser:
			h.add(agent.Event{Kind: agent.EventMessage, Message: &m, Turn: h.turn})
		case m.Role == agent.RoleAssistant && i == 0:
			h.add(agent.Event{Kind: agent.EventMessage, Message: &m, Opening: true})
		case m.Role == agent.RoleAssistant:
			h.answer(m)
		case m.Role == agent.RoleTool:
			h.results(messages[i-1].Calls, m.Results)
		}
	}
	return h.events
}

// A pastSession makes events.
type pastSession struct {
	slug, id string
	now      time.Time
	turn     int
	events   []agent.Event
}

func (h *pastSession) add(e agent.Event) {
	e.Session, e.Agent, e.Time = h.id, h.slug, h.now
	h.events = append(h.events, e)
}

func (h *pastSession) answer(m agent.Message) {
	h.turn++
	h.add(agent.Event{Kind: agent.EventAnswer, Message: &m, Finish: agent.FinishStop, Turn: h.turn})
	if len(m.Calls) == 0 {
		h.add(agent.Event{Kind: agent.EventEnd, Status: agent.StatusOK, Text: m.Text()})
	}
}

func (h *pastSession) results(calls []agent.ToolCall, results []agent.ToolResult) {
	for _, r := range results {
		n := 1 + slices.IndexFunc(calls, func(c agent.ToolCall) bool { return c.ID == r.CallID })
		h.add(agent.Event{Kind: agent.EventCallEnded, CallID: r.CallID, Tool: r.Name, Turn: h.turn, N: n, Result: &r})
	}
}
