package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
		Name: s.Name, Description: s.Agent.Announce, Schema: json.RawMessage(promptSchema),
		Source: s.Source, Agent: s.Agent.Slug,
	}
}

// Call runs the agent and answers as AnswerOf does.
func (s *Subagent) Call(ctx context.Context, inv *Invocation) (Result, error) {
	args, err := DecodeArgs(inv.Call.Args)
	if err != nil {
		return Result{}, err
	}
	raw, ok := args["prompt"]
	if !ok {
		return Result{}, errors.New("the argument prompt is missing")
	}
	var prompt string
	if err := json.Unmarshal(raw, &prompt); err != nil {
		return Result{}, fmt.Errorf("the argument prompt: %w", err)
	}
	return AnswerOf(inv.Run(ctx, s.Agent, UserText(prompt)))
}
