package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// promptSchema is the schema of every sub-agent's arguments.
const promptSchema = `{"type":"object","properties":{"prompt":{"type":"string","description":"what you ask of this agent; it knows nothing of your conversation"}},"required":["prompt"],"additionalProperties":false}`

// A Subagent offers an agent to another as a tool. Every call is a new session
// that is run by the Runner of the calling agent.
type Subagent struct {
	// Name is the tool's name.
	Name   string
	Agent  *Agent
	Source string
}

// Spec describes the agent by its announcement.
func (s *Subagent) Spec() ToolSpec {
	return ToolSpec{
		Name: s.Name, Description: s.Agent.Announce, Schema: s.Agent.ArgsSchema(),
		Source: s.Source, Agent: s.Agent.Slug,
	}
}

// Call runs the agent and answers as AnswerOf does.
func (s *Subagent) Call(ctx context.Context, inv *Invocation) (Result, error) {
	prompt, err := s.Agent.Prompt(ctx, inv.Call.Args)
	if err != nil {
		return Result{}, err
	}
	return AnswerOf(inv.Run(ctx, s.Agent, prompt))
}

// ArgsSchema is the JSON Schema of the arguments of a as a tool.
func (a *Agent) ArgsSchema() json.RawMessage {
	if a.InputSchema != nil {
		return a.InputSchema.Schema
	}
	return json.RawMessage(promptSchema)
}

// Prompt makes of the arguments of a as a tool, a JSON object, the message that begins a
// run: the text "prompt", if there is one, and below it the other arguments as JSON. The
// error says what does not fit InputSchema.
func (a *Agent) Prompt(ctx context.Context, args string) (Message, error) {
	values, err := DecodeArgs(args)
	if err != nil {
		return Message{}, err
	}
	if len(values) == 0 {
		args = "{}"
	}
	if a.InputSchema != nil {
		if err := a.InputSchema.Check(ctx, json.RawMessage(args)); err != nil {
			return Message{}, fmt.Errorf("the arguments do not fit the agent's inputSchema:%w", err)
		}
	}
	raw, ok := values["prompt"]
	var prompt string
	err = json.Unmarshal(raw, &prompt)
	switch {
	case a.InputSchema == nil && !ok:
		return Message{}, errors.New("the argument prompt is missing")
	case a.InputSchema == nil && err != nil:
		return Message{}, fmt.Errorf("the argument prompt: %w", err)
	case err == nil && (a.InputSchema == nil || len(values) == 1):
		return UserText(prompt), nil
	case err == nil:
		delete(values, "prompt")
	}
	var rest bytes.Buffer
	enc := json.NewEncoder(&rest)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(values); err != nil {
		return Message{}, err
	}
	return UserText(joined(prompt, strings.TrimSpace(rest.String()))), nil
}
