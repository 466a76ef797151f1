package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// ChannelVersion is the version of the channel's protocol.
const ChannelVersion = 1

// A Start is the first message of a channel's holder: the prompt of the agent, with its
// limits, tools and history.
type Start struct {
	// Channel is the version of the channel's protocol, which messages on the wire must contain;
	// 0 means ChannelVersion.
	Channel int `json:"channel"`
	// Args are the arguments in the agent's description: an object that satisfies
	// Agent.InputSchema, or without a schema has the text "prompt". If Args is empty, a
	// session is resumed.
	Args json.RawMessage `json:"args,omitempty"`
	// Media follow the prompt.
	Media []Part `json:"media,omitempty"`
	Lease Lease  `json:"lease,omitzero"`
	// Tools are tools that only the holder can run.
	Tools []ToolSpec `json:"tools,omitempty"`
	// Context is for the tools of the agent, which may change it: see
	// Invocation.Context and EventContext.
	Context json.RawMessage `json:"context,omitempty"`
	// OutputSchema is the JSON Schema that the answers must satisfy, instead of that of the
	// agent: see Output of package runner.
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
	// Session is the id of the session to continue. History is the list of its events
	// and those of its unfinished sub-agents, if the holder keeps them.
	Session string  `json:"session,omitempty"`
	History []Event `json:"history,omitempty"`
	// Compact shortens the conversation of the session before the first request; without
	// Args and Media, the run does nothing else.
	Compact bool `json:"compact,omitempty"`
	// Spent is what sessions in the History have consumed, with the agents below them,
	// by id. For a session without an entry, the events in the History are counted.
	Spent map[string]TotalUsage `json:"spent,omitempty"`
	// From is the last event that the holder has received.
	From int64 `json:"from,omitempty"`
	// Journal means that the holder keeps the events: a call that must not run twice
	// starts only after the holder has acknowledged its event.
	Journal bool `json:"journal,omitempty"`
	// Accept means that the holder decides whether an answer counts: the runner asks it with a
	// question "accept".
	Accept bool `json:"accept,omitempty"`
	// Person is whether the holder can answer questions; nil means true.
	Person *bool `json:"person,omitempty"`

	// Message is the complete prompt, in place of Args and Media, from a holder in this program.
	Message *Message `json:"-"`
	// Finish, if it is not nil and the last run of the session is unfinished, is what the
	// person says in that run, which is resumed, in place of the prompt.
	Finish *Message `json:"-"`
}

// Prompt returns the message for an agent: Message, or Args and Media.
func (s *Start) Prompt(ctx context.Context, of *Agent) (m Message, err error) {
	if s.Message != nil {
		return *s.Message, nil
	}
	if of.InputSchema != nil {
		if m, err = of.Prompt(ctx, string(s.Args)); err != nil {
			return m, fmt.Errorf("args: %w", err)
		}
		m.Parts = append(m.Parts, s.Media...)
		return m, nil
	}
	args := struct {
		Prompt *string `json:"prompt"`
	}{}
	if len(s.Args) > 0 {
		values, err := DecodeArgs(string(s.Args))
		if err == nil && values["prompt"] != nil && json.Unmarshal(values["prompt"], &args.Prompt) != nil {
			err = errors.New("prompt: want a string")
		}
		if err != nil {
			return m, fmt.Errorf("args: %w", err)
		}
	}
	m.Role = RoleUser
	if args.Prompt != nil {
		m.Parts = append(m.Parts, Text(*args.Prompt))
	}
	m.Parts = append(m.Parts, s.Media...)
	if len(m.Parts) == 0 {
		return m, errors.New("args: the prompt is missing")
	}
	return m, nil
}
