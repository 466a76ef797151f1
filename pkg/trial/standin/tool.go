package standin

import (
	"context"
	"errors"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// A Tool answers calls in place of the embedded tool, which provides the description
// for the model and, if it is an agent.Validator, checks arguments.
type Tool struct {
	agent.Tool
	// Answer answers a call.
	Answer func(ctx context.Context, inv *agent.Invocation) (agent.Result, error)
	// Executes is the Command of a call; nil means that it executes nothing.
	Executes func(inv *agent.Invocation) (argv []string, digest string)
}

// Call implements agent.Tool.
func (t *Tool) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	return t.Answer(ctx, inv)
}

// Command implements agent.Commander. It hides that of the embedded tool.
func (t *Tool) Command(inv *agent.Invocation) (argv []string, digest string) {
	if t.Executes == nil {
		return nil, ""
	}
	return t.Executes(inv)
}

// Unwrap returns the embedded tool; see agent.As.
func (t *Tool) Unwrap() any { return t.Tool }

// failed begins the result of a call that failed.
const failed = "error: "

// Result is what a tool returned, so that a runner.Gate makes r of it again: the
// first part of a failed result is the error, on a line of its own if others
// follow.
func Result(r *agent.ToolResult) (agent.Result, error) {
	parts := agent.WithoutReceipts(r.Parts)
	if !r.Failed || len(parts) == 0 {
		return agent.Result{Parts: parts, End: r.End, Task: r.Task, Toolgroups: r.Toolgroups, Handle: r.Handle}, nil
	}
	text := strings.TrimPrefix(parts[0].Text, failed)
	rest := parts[1:]
	if len(rest) > 0 {
		text = strings.TrimSuffix(text, "\n")
	}
	return agent.Result{Parts: rest}, errors.New(text)
}
