package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// atifKeys are the members that ATIF v1.7 permits in each kind of object; those with ! are
// required.
var atifKeys = map[string]string{
	"trajectory":  "schema_version! session_id trajectory_id agent! steps! notes final_metrics continued_trajectory_ref extra subagent_trajectories",
	"agent":       "name! version! model_name tool_definitions extra",
	"step":        "step_id! timestamp source! model_name reasoning_effort message! reasoning_content tool_calls observation metrics is_copied_context llm_call_count extra",
	"call":        "tool_call_id! function_name! arguments! extra",
	"observation": "results!",
	"result":      "source_call_id content subagent_trajectory_ref extra",
	"ref":         "trajectory_id trajectory_path session_id extra",
	"metrics":     "prompt_tokens completion_tokens cached_tokens cost_usd prompt_token_ids completion_token_ids logprobs extra",
	"final":       "total_prompt_tokens total_completion_tokens total_cached_tokens total_cost_usd total_steps extra",
}

// An atifCheck applies the rules of the format to decoded JSON, as Harbor's validator does.
type atifCheck struct{ faults []string }

func (c *atifCheck) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

func (c *atifCheck) object(v any, kind, at string) map[string]any {
	m, ok := v.(map[string]any)
	if !ok {
		c.fault("%s: %T is not an object", at, v)
	}
	known := strings.Fields(atifKeys[kind])
	for _, key := range known {
		if name, required := strings.CutSuffix(key, "!"); required && m[name] == nil {
			c.fault("%s: %s is missing", at, name)
		}
	}
	for key := range m {
		if !slices.Contains(known, key) && !slices.Contains(known, key+"!") {
			c.fault("%s: %s is unknown", at, key)
		}
	}
	return m
}

func (c *atifCheck) trajectory(v any, at string) {
	m := c.object(v, "trajectory", at)
	if m["schema_version"] != "ATIF-v1.7" {
		c.fault("%s: version %v", at, m["schema_version"])
	}
	c.object(m["agent"], "agent", at+".agent")
	ids := map[any]bool{}
	subs, _ := m["subagent_trajectories"].([]any)
	for i, sub := range subs {
		place := fmt.Sprintf("%s.subagent_trajectories[%d]", at, i)
		c.trajectory(sub, place)
		id := sub.(map[string]any)["trajectory_id"]
		if id == nil || ids[id] {
			c.fault("%s: trajectory_id %v", place, id)
		}
		ids[id] = true
	}
	steps, _ := m["steps"].([]any)
	if len(steps) == 0 {
		c.fault("%s: no steps", at)
	}
	for i, step := range steps {
		c.step(step, i+1, ids, fmt.Sprintf("%s.steps[%d]", at, i))
	}
	if final := m["final_metrics"]; final != nil {
		if n := c.object(final, "final", at+".final_metrics")["total_steps"]; n != float64(len(steps)) {
			c.fault("%s: %v steps, want %d", at, n, len(steps))
		}
	}
}

func (c *atifCheck) step(v any, id int, trajectories map[any]bool, at string) {
	m := c.object(v, "step", at)
	if m["step_id"] != float64(id) {
		c.fault("%s: step_id %v, want %d", at, m["step_id"], id)
	}
	if text, ok := m["timestamp"].(string); ok {
		if _, err := time.Parse(time.RFC3339Nano, text); err != nil {
			c.fault("%s: %v", at, err)
		}
	}
	if m["source"] != "agent" {
		for _, key := range []string{"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics", "observation"} {
			if m[key] != nil {
				c.fault("%s: %s in a step of %v", at, key, m["source"])
			}
		}
		if m["source"] != "user" && m["source"] != "system" {
			c.fault("%s: source %v", at, m["source"])
		}
	}
	if m["metrics"] != nil {
		c.object(m["metrics"], "metrics", at+".metrics")
	}
	calls := map[any]bool{}
	list, _ := m["tool_calls"].([]any)
	for _, v := range list {
		call := c.object(v, "call", at+".tool_calls")
		if _, ok := call["arguments"].(map[string]any); !ok || calls[call["tool_call_id"]] {
			c.fault("%s: call %v", at, call)
		}
		calls[call["tool_call_id"]] = true
	}
	if m["observation"] == nil {
		return
	}
	results, _ := c.object(m["observation"], "observation", at)["results"].([]any)
	for _, v := range results {
		result := c.object(v, "result", at+".results")
		if !calls[result["source_call_id"]] {
			c.fault("%s: result of %v", at, result["source_call_id"])
		}
		refs, _ := result["subagent_trajectory_ref"].([]any)
		for _, ref := range refs {
			if r := c.object(ref, "ref", at+".ref"); !trajectories[r["trajectory_id"]] {
				c.fault("%s: %v is not embedded", at, r)
			}
		}
	}
}

func TestATIFSatisfiesTheFormat(t *testing.T) {
	var b bytes.Buffer
	if err := ATIF(&b, "v1.2.3", all(sample())); err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	var c atifCheck
	if c.trajectory(v, "root"); len(c.faults) > 0 {
		t.Errorf("%s\n%s", strings.Join(c.faults, "\n"), b.Bytes())
	}
	var got atifTrajectory
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Subagents) != 1 || got.Subagents[0].ID != "sub-1" || len(got.Subagents[0].Subagents) != 1 || got.Subagents[0].Subagents[0].ID != "deep-1" {
		t.Fatalf("sub-agents: %s", b.Bytes())
	}
	final, sub := got.FinalMetrics, got.Subagents[0].FinalMetrics
	if final.Prompt != 4*1200 || final.Completion != 4*80 || final.Cost == nil || *final.Cost != 7*agent.Dollar/1000*4 || sub.Prompt != 2*1200 || *sub.Cost != 3*agent.Dollar/1000*4 {
		t.Errorf("final metrics %s", encoded([]any{final, sub}))
	}
	if got.Agent.Name != "lead" || got.Agent.Version != "v1.2.3" || got.Agent.Model != "gpt-lead" || len(got.Agent.Tools) != 1 || got.Extra["status"] != "ok" {
		t.Errorf("agent %s, extra %v", encoded(got.Agent), got.Extra)
	}
	step := got.Steps[3]
	if step.Calls[1].Extra["arguments"] != hostile || string(step.Calls[1].Args) != "{}" || step.Observation.Results[0].Content != "Ada wrote it." || step.Observation.Results[1].Extra["failed"] != true {
		t.Errorf("step %s", encoded(step))
	}
}

func TestATIFNeedsAStep(t *testing.T) {
	if err := ATIF(&bytes.Buffer{}, "v", all(nil)); err == nil {
		t.Error("ATIF of nothing is not an error")
	}
	if err := ATIF(&bytes.Buffer{}, "v", all(sample()[:1])); err == nil {
		t.Error("ATIF of a session without messages is not an error")
	}
}
