package openaiapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// A thread collects the messages of a request. Messages of one role that follow each
// other become one. Instructions of the client, whose place is the system prompt of a
// model, follow the next message of the user: an agent has a system prompt of its own.
type thread struct {
	messages []agent.Message
	notes    []agent.Part // instructions for the next message of the user
	// prompt gets the instructions instead if they are forModel.
	prompt   []string
	forModel bool
}

// newThread begins with the messages of a stored response, which others may read: what the
// last of them has is copied when something is added to it.
func newThread(earlier []agent.Message) *thread {
	t := &thread{messages: slices.Clone(earlier)}
	if n := len(t.messages); n > 0 {
		end := &t.messages[n-1]
		end.Parts, end.Calls, end.Results = slices.Clip(end.Parts), slices.Clip(end.Calls), slices.Clip(end.Results)
	}
	return t
}

// note is the part with instructions of the client.
func note(text string) agent.Part {
	return agent.Text("Instructions of the calling program:\n" + text)
}

// system adds instructions of the client.
func (t *thread) system(text string) {
	switch {
	case text == "":
	case t.forModel:
		t.prompt = append(t.prompt, text)
	default:
		t.notes = append(t.notes, note(text))
	}
}

// add adds m to the last message, if that is of the same role, or behind it.
func (t *thread) add(m agent.Message) {
	n := len(t.messages)
	if n == 0 || t.messages[n-1].Role != m.Role {
		t.messages = append(t.messages, m)
		return
	}
	end := &t.messages[n-1]
	i := len(end.Parts)
	end.Parts = append(end.Parts, m.Parts...)
	if i > 0 && len(m.Parts) > 0 && end.Parts[i-1].Kind == agent.PartText && m.Parts[0].Kind == agent.PartText {
		end.Parts[i].Text = "\n\n" + end.Parts[i].Text
	}
	end.Calls = append(end.Calls, m.Calls...)
	end.Results = append(end.Results, m.Results...)
}

func (t *thread) user(parts ...agent.Part) {
	t.add(agent.Message{Role: agent.RoleUser, Parts: parts})
	for _, p := range t.notes {
		t.add(agent.Message{Role: agent.RoleUser, Parts: []agent.Part{p}})
	}
	t.notes = nil
}

// finish checks that the messages are a conversation, and end in what an agent can
// answer.
func (t *thread) finish() error {
	if err := t.check(); err != nil {
		return err
	}
	if n := len(t.messages); n == 0 || t.messages[n-1].Role == agent.RoleAssistant || t.messages[n-1].Role == agent.RoleUser && len(t.messages[n-1].Parts) == 0 {
		return invalid("", "invalid_value", "the last message must be a tool result or a non-empty user message")
	}
	return nil
}

// check checks that the messages are a conversation without open calls. It adds the names of
// tools to results.
func (t *thread) check() error {
	if len(t.notes) > 0 {
		t.user()
	}
	asked := false
	seen := map[string]bool{}
	open := map[string]string{} // the names of the calls without a result, by id
	for _, m := range t.messages {
		for i, r := range m.Results {
			name, ok := open[r.CallID]
			switch {
			case !ok && seen[r.CallID]:
				return invalid("", "invalid_value", "there are two results for the tool call %.100q", r.CallID)
			case !ok:
				return invalid("", "invalid_value", "there is a result for the tool call %.100q, and no message before it with this call", r.CallID)
			case r.Name == "":
				m.Results[i].Name = name
			}
			delete(open, r.CallID)
		}
		if err := answered(open); err != nil {
			return err
		}
		for _, c := range m.Calls {
			if c.ID == "" || seen[c.ID] || !asked {
				return invalid("", "invalid_value", "the id %.100q of a tool call is empty or occurs twice, or no message of the user precedes it", c.ID)
			}
			seen[c.ID] = true
			open[c.ID] = c.Name
		}
		asked = asked || m.Role == agent.RoleUser
	}
	return answered(open)
}

// answered checks that no call is without a result.
func answered(open map[string]string) error {
	if len(open) == 0 {
		return nil
	}
	ids := slices.Sorted(maps.Keys(open))
	return invalid("", "invalid_value", "each tool call must be followed by its result; these have none: %.1000s", strings.Join(ids, ", "))
}

// answers are the results that the client sends for calls of the last answer, and what
// the user says after them.
func (t *thread) answers() (results []agent.ToolResult, said *agent.Message) {
	i := len(t.messages) - 1
	if t.messages[i].Role == agent.RoleUser && i > 0 {
		said = &t.messages[i]
		i--
	}
	return t.messages[i].Results, said
}

// start is the start of a run that continues the messages.
func (t *thread) start(spec agent.ToolSpec, o options) (agent.Start, error) {
	nobody := false
	s := agent.Start{Tools: o.tools, Person: &nobody, Compact: o.compact}
	past := t.messages
	if results, _ := t.answers(); len(results) == 0 && !o.compact {
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
	isText := func(p agent.Part) bool { return p.Kind == agent.PartText }
	rest := slices.Clone(parts)
	if json.Unmarshal(spec.Schema, &schema) == nil && (schema.Properties != nil && schema.Properties["prompt"] == nil || slices.ContainsFunc(schema.Required, other)) {
		args := strings.TrimSpace(textOf(parts))
		if !strings.HasPrefix(args, "{") || !json.Valid([]byte(args)) {
			return nil, nil, invalid("", "invalid_value", "the agent %s takes arguments: the last message must be one JSON object that fits this schema, and nothing else: %.2000s", spec.Name, spec.Schema)
		}
		return json.RawMessage(args), slices.DeleteFunc(rest, isText), nil
	}
	prompt := ""
	if i := slices.IndexFunc(rest, isText); i >= 0 {
		prompt = rest[i].Text
		rest = slices.Delete(rest, i, i+1)
	}
	return bytes.TrimSpace(encode(object{"prompt": prompt})), rest, nil
}

// history returns the events of a session, which has no id yet, with these messages. It has no
// run that is in progress, unless the messages end in results of tools, or in what the user says
// after them: then the run is resumed.
func history(slug string, messages []agent.Message) (events []agent.Event) {
	now, turn := time.Now(), 0
	add := func(e agent.Event) {
		e.Agent, e.Time = slug, now
		events = append(events, e)
	}
	add(agent.Event{Kind: agent.EventSession})
	place := map[string]int{} // of the calls of the last answer
	for i, m := range messages {
		switch {
		case m.Role == agent.RoleUser && i > 0 && messages[i-1].Role == agent.RoleTool:
			add(agent.Event{Kind: agent.EventMessage, Message: &m, Input: true})
		case m.Role == agent.RoleUser:
			add(agent.Event{Kind: agent.EventMessage, Message: &m, Turn: turn})
		case m.Role == agent.RoleAssistant && i == 0:
			add(agent.Event{Kind: agent.EventMessage, Message: &m, Opening: true})
		case m.Role == agent.RoleAssistant:
			turn++
			add(agent.Event{Kind: agent.EventAnswer, Message: &m, Finish: agent.FinishStop, Turn: turn})
			if len(m.Calls) == 0 {
				add(agent.Event{Kind: agent.EventEnd, Status: agent.StatusOK, Text: m.Text()})
			}
		}
		if len(m.Calls) > 0 {
			clear(place)
		}
		for n, c := range m.Calls {
			place[c.ID] = n + 1
		}
		for _, r := range m.Results {
			add(agent.Event{Kind: agent.EventCallEnded, CallID: r.CallID, Tool: r.Name, Turn: turn, N: place[r.CallID], Result: &r})
		}
	}
	return events
}
