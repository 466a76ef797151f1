// Package background has the tools of an agent whose sub-agents may work in the background:
// agent_list, agent_wait, agent_send and agent_stop. See agent.ToolSpec.Background.
package background

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// Source is the Source in the specs of the tools.
const Source = "background"

// How long agent_wait waits, in seconds.
const (
	defaultWait = 300
	maxWait     = 3600
)

type tool struct {
	spec agent.ToolSpec
	call func(ctx context.Context, agents agent.Background, a args) (string, error)
}

type args struct {
	Agent   string   `json:"agent"`
	Agents  []string `json:"agents"`
	Seconds float64  `json:"seconds"`
	Message string   `json:"message"`
	Reason  string   `json:"reason"`
}

// Tools returns the four tools. They change nothing but agents that the caller itself has
// started, so no person is asked about them.
func Tools() agent.ToolList {
	const handle = `"agent":{"type":"string","description":"its handle"}`
	return agent.ToolList{
		newTool("agent_list", "Lists the agents that work for you in the background.", `{}`, ``, list),
		newTool("agent_wait", "Waits until one of the agents in the background has ended. You then read its answer.",
			fmt.Sprintf(`{"agents":{"type":"array","items":{"type":"string"},"description":"their handles; default: all of them"},"seconds":{"type":"number","exclusiveMinimum":0,"maximum":%d,"description":"how long to wait; default: %d"}}`, maxWait, defaultWait), ``, wait),
		newTool("agent_send", "Sends a message to an agent in the background, which reads it before its next step.",
			`{`+handle+`,"message":{"type":"string","minLength":1}}`, `"agent","message"`, send),
		newTool("agent_stop", "Ends an agent in the background. You then read what there is of its work.",
			`{`+handle+`,"reason":{"type":"string","description":"for the agent's record"}}`, `"agent"`, stop),
	}
}

func newTool(name, description, properties, required string, call func(context.Context, agent.Background, args) (string, error)) *tool {
	return &tool{agent.ToolSpec{Name: name, Description: description, Source: Source, Effects: agent.EffectsNone,
		Schema: json.RawMessage(`{"type":"object","properties":` + properties + `,"required":[` + required + `],"additionalProperties":false}`)}, call}
}

// Spec implements agent.Tool.
func (t *tool) Spec() agent.ToolSpec { return t.spec }

// Call implements agent.Tool.
func (t *tool) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	var a args
	if err := json.Unmarshal([]byte(inv.Call.Args), &a); err != nil {
		return agent.Result{}, err
	}
	if inv.Caller == nil {
		return agent.Result{}, fmt.Errorf("this call is not part of a run")
	}
	text, err := t.call(ctx, inv.Caller.Agents(inv), a)
	return agent.TextResult(text), err
}

func list(_ context.Context, agents agent.Background, _ args) (string, error) {
	var lines []string
	for _, a := range agents.List() {
		state := "works"
		if a.Ended {
			state = "has ended"
		}
		lines = append(lines, fmt.Sprintf("%s (%s): %s", a.Handle, a.Tool, state))
	}
	if len(lines) == 0 {
		return "no agent works in the background", nil
	}
	return strings.Join(lines, "\n"), nil
}

func wait(ctx context.Context, agents agent.Background, a args) (string, error) {
	if a.Seconds == 0 {
		a.Seconds = defaultWait
	}
	ended, err := agents.Await(ctx, a.Agents, time.Duration(a.Seconds*float64(time.Second)))
	switch {
	case err != nil:
		return "", err
	case ctx.Err() != nil:
		return "", agent.ContextError(ctx)
	case len(ended) > 0:
		return "ended: " + strings.Join(ended, ", ") + "; the answer follows", nil
	case len(agents.List()) > 0:
		return fmt.Sprintf("none has ended within %g s", a.Seconds), nil
	}
	return "no agent works in the background", nil
}

func send(ctx context.Context, agents agent.Background, a args) (string, error) {
	if err := agents.Send(ctx, a.Agent, a.Message); err != nil {
		return "", err
	}
	return "sent", nil
}

func stop(ctx context.Context, agents agent.Background, a args) (string, error) {
	if err := agents.Stop(ctx, a.Agent, a.Reason); err != nil {
		return "", err
	}
	return a.Agent + " has ended", nil
}
