// Package finish has the tools with which a model ends its run: finish with an answer and
// the outcome ok, reject with a reason and the outcome refused. Models that do not stop
// by themselves, and callers that must tell an answer from a refusal, need them.
package finish

import (
	"context"
	"encoding/json"

	"github.com/agents-exe/agents/pkg/agent"
)

type tool struct {
	spec agent.ToolSpec
	end  agent.Status
}

// Tools returns finish and reject.
func Tools() agent.ToolList {
	return agent.ToolList{
		newTool("finish", "Ends your work with an answer. Nothing follows this call.", "the whole answer", agent.StatusOK),
		newTool("reject", "Ends your work without an answer, because the task must not or cannot be done. Nothing follows this call.", "the reason, for the caller", agent.StatusRefused),
	}
}

func newTool(name, description, text string, end agent.Status) *tool {
	return &tool{agent.ToolSpec{Name: name, Description: description, Source: "FinishToolbox", Effects: agent.EffectsNone,
		Schema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string","minLength":1,"description":"` + text + `"}},"required":["text"],"additionalProperties":false}`)}, end}
}

// Spec implements agent.Tool.
func (t *tool) Spec() agent.ToolSpec { return t.spec }

// Call implements agent.Tool.
func (t *tool) Call(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
	var args struct{ Text string }
	if err := json.Unmarshal([]byte(inv.Call.Args), &args); err != nil {
		return agent.Result{}, err
	}
	r := agent.TextResult(args.Text)
	r.End = t.end
	return r, nil
}
