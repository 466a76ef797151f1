package transcript

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// ATIF writes events as a trajectory of Harbor's Agent Trajectory Interchange Format, v1.7
// (rfcs/0001-trajectory-format.md in github.com/harbor-framework/harbor): one JSON object, with
// the sessions of sub-agents as subagent_trajectories. It has the whole conversation, including
// what a compaction removed. Images and other media are named in the text, because the format
// refers to files for them. version is that of the program that ran the agents. The events are
// read twice.
func ATIF(w io.Writer, version string, events iter.Seq2[agent.Event, error]) error {
	x := atifWriter{version: version, figures: map[string]*CostNode{}}
	var costs Costs
	if err := costs.Add(events); err != nil {
		return err
	}
	root := costs.Tree()
	if root == nil {
		return errors.New("the session has no events")
	}
	x.note(root)
	x.session = root.Session
	var turns []*Turn
	for t, err := range Turns(events) {
		if err != nil {
			return err
		}
		turns = append(turns, t)
	}
	out := x.trajectory(&Conversation{ID: root.Session, Agent: root.Agent, Turns: turns})
	if len(out.Steps) == 0 {
		return errors.New("the session has no messages: a trajectory needs a step")
	}
	_, err := fmt.Fprintf(w, "%s\n", encoded(out))
	return err
}

type atifWriter struct {
	version, session string
	figures          map[string]*CostNode // by session
}

func (x *atifWriter) note(n *CostNode) {
	x.figures[n.Session] = n
	for _, child := range n.Children {
		x.note(child)
	}
}

type atifTrajectory struct {
	Schema       string            `json:"schema_version"`
	Session      string            `json:"session_id"`
	ID           string            `json:"trajectory_id"`
	Agent        atifAgent         `json:"agent"`
	Steps        []*atifStep       `json:"steps"`
	FinalMetrics *atifFinal        `json:"final_metrics,omitempty"`
	Extra        map[string]any    `json:"extra,omitempty"`
	Subagents    []*atifTrajectory `json:"subagent_trajectories,omitempty"`
}

type atifAgent struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Model   string `json:"model_name,omitempty"`
	Tools   []any  `json:"tool_definitions,omitempty"`
}

type atifStep struct {
	ID          int              `json:"step_id"`
	Time        string           `json:"timestamp,omitempty"`
	Source      string           `json:"source"`
	Model       string           `json:"model_name,omitempty"`
	Message     string           `json:"message"`
	Reasoning   string           `json:"reasoning_content,omitempty"`
	Calls       []atifCall       `json:"tool_calls,omitempty"`
	Observation *atifObservation `json:"observation,omitempty"`
	Metrics     *atifMetrics     `json:"metrics,omitempty"`
	Requests    *int             `json:"llm_call_count,omitempty"`
	Extra       map[string]any   `json:"extra,omitempty"`
}

type atifCall struct {
	ID    string          `json:"tool_call_id"`
	Name  string          `json:"function_name"`
	Args  json.RawMessage `json:"arguments"`
	Extra map[string]any  `json:"extra,omitempty"`
}

type atifObservation struct {
	Results []atifResult `json:"results"`
}

type atifResult struct {
	Call    string         `json:"source_call_id"`
	Content string         `json:"content"`
	Refs    []atifRef      `json:"subagent_trajectory_ref,omitempty"`
	Extra   map[string]any `json:"extra,omitempty"`
}

type atifRef struct {
	ID      string `json:"trajectory_id"`
	Session string `json:"session_id"`
}

type atifMetrics struct {
	Prompt     int            `json:"prompt_tokens"`
	Completion int            `json:"completion_tokens"`
	Cached     int            `json:"cached_tokens"`
	Cost       *agent.Money   `json:"cost_usd,omitempty"`
	Extra      map[string]any `json:"extra,omitempty"`
}

// The tokens are those of the trajectory, the cost is also that of its sub-agents, and both
// count requests without an answer.
type atifFinal struct {
	Prompt     int            `json:"total_prompt_tokens"`
	Completion int            `json:"total_completion_tokens"`
	Cached     int            `json:"total_cached_tokens"`
	Cost       *agent.Money   `json:"total_cost_usd,omitempty"`
	Steps      int            `json:"total_steps"`
	Extra      map[string]any `json:"extra,omitempty"`
}

func (x *atifWriter) trajectory(c *Conversation) *atifTrajectory {
	t := &atifTrajectory{Schema: "ATIF-v1.7", Session: x.session, ID: c.ID, Agent: atifAgent{Name: c.Agent, Version: x.version, Model: c.Model}}
	for _, turn := range c.Turns {
		x.turn(t, turn)
	}
	n := x.figures[c.ID]
	if n == nil {
		return t
	}
	t.FinalMetrics = &atifFinal{Prompt: n.InputTokens, Completion: n.OutputTokens, Cached: n.CachedTokens, Cost: n.Total.Cost, Steps: len(t.Steps)}
	if n.Total.Unpriced > 0 {
		t.FinalMetrics.Extra = map[string]any{"unpriced_requests": n.Total.Unpriced}
	}
	if n.Status != "" {
		t.Extra = map[string]any{"status": n.Status}
	}
	return t
}

func (t *atifTrajectory) add(s *atifStep, at time.Time) {
	s.ID = len(t.Steps) + 1
	if !at.IsZero() {
		s.Time = at.UTC().Format(time.RFC3339Nano)
	}
	t.Steps = append(t.Steps, s)
}

func (x *atifWriter) turn(t *atifTrajectory, turn *Turn) {
	if turn.Compaction != nil {
		t.add(&atifStep{Source: "system", Message: turn.Compaction.Text, Extra: map[string]any{"compaction": true}}, turn.Compaction.Time)
	}
	if s := turn.Setup; s != nil {
		if s.System != "" {
			t.add(&atifStep{Source: "system", Message: s.System}, s.Time)
		}
		if s.Specs != nil {
			t.Agent.Tools = nil
		}
		for _, spec := range s.Specs {
			t.Agent.Tools = append(t.Agent.Tools, exportedFunction(spec))
		}
	}
	for _, p := range turn.Prompts {
		source := "user"
		if p.Role == agent.RoleAssistant {
			source = "agent"
		}
		t.add(&atifStep{Source: source, Message: plainText(p.Parts)}, time.Time{})
	}
	a := turn.Answer
	if a == nil || a.Message == nil {
		return
	}
	t.Agent.Model = a.Model
	s := &atifStep{Source: "agent", Model: a.Model, Message: plainText(a.Message.Parts), Reasoning: reasoning(a.Message)}
	if u := a.Usage; u != nil {
		s.Requests = &u.Requests
		s.Metrics = &atifMetrics{Prompt: u.InputTokens, Completion: u.OutputTokens, Cached: u.CachedTokens}
		if u.Priced > 0 {
			s.Metrics.Cost = &u.Cost
		}
		if u.ReasoningTokens > 0 {
			s.Metrics.Extra = map[string]any{"reasoning_tokens": u.ReasoningTokens}
		}
	}
	for _, c := range turn.Calls {
		x.call(t, s, c)
	}
	t.add(s, a.Time)
}

// call adds a call with its result and the trajectories of the sub-agents that answered it.
func (x *atifWriter) call(t *atifTrajectory, s *atifStep, c *Call) {
	call := atifCall{ID: c.ID, Name: c.Name, Args: json.RawMessage(c.Args)}
	var object map[string]json.RawMessage
	if json.Unmarshal(call.Args, &object) != nil || object == nil { // the model wrote something else
		call.Args, call.Extra = json.RawMessage("{}"), map[string]any{"arguments": c.Args}
	}
	s.Calls = append(s.Calls, call)
	if c.Result == nil && len(c.Nested) == 0 {
		return
	}
	r := atifResult{Call: c.ID}
	if c.Result != nil {
		r.Content = plainText(c.Result.Parts)
	}
	if c.Failed() {
		r.Extra = map[string]any{"failed": true}
	}
	for _, nested := range c.Nested {
		if sub := x.trajectory(nested); len(sub.Steps) > 0 {
			t.Subagents = append(t.Subagents, sub)
			r.Refs = append(r.Refs, atifRef{ID: sub.ID, Session: x.session})
		}
	}
	if s.Observation == nil {
		s.Observation = &atifObservation{}
	}
	s.Observation.Results = append(s.Observation.Results, r)
}

// plainText returns the texts of parts, with the names of media.
func plainText(parts []agent.Part) string {
	var text string
	for _, p := range parts {
		switch p.Kind {
		case agent.PartText:
			text += p.Text
		case agent.PartMedia:
			text += "[" + media(p) + "]"
		}
	}
	return text
}

// exportedFunction returns a tool as chat completions has it.
func exportedFunction(s agent.ToolSpec) any {
	f := map[string]any{"name": s.Name, "description": s.Description}
	if len(s.Schema) > 0 {
		f["parameters"] = s.Schema
	}
	return map[string]any{"type": "function", "function": f}
}
