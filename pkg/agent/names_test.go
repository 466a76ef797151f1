package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestACallOfAnAgentHasTheNamesItWasShown: models use both names of a sub-agent and of its argument.
func TestACallOfAnAgentHasTheNamesItWasShown(t *testing.T) {
	plain, compat := &Subagent{Name: "expert_x", Agent: &Agent{Slug: "x"}}, &Subagent{Name: "io_prompt_agent_y", Agent: &Agent{Slug: "y"}, Compat: true}
	shaped := &Subagent{Name: "expert_z", Agent: &Agent{Slug: "z", InputSchema: &Shape{json.RawMessage(`{"type":"object"}`), func(_ context.Context, v json.RawMessage) error {
		if strings.Contains(string(v), "bad") {
			return errors.New(" bad")
		}
		return nil
	}}}, Compat: true}
	tools := []ToolSpec{plain.Spec(), compat.Spec(), shaped.Spec(), {Name: "what", Schema: json.RawMessage(promptSchema)}, {Name: "io_prompt_agent_t"}}
	if string(tools[0].Schema) != promptSchema || string(tools[1].Schema) != compatSchema || string(tools[2].Schema) != `{"type":"object"}` {
		t.Errorf("the schemas are %s, %s and %s", tools[0].Schema, tools[1].Schema, tools[2].Schema)
	}
	for _, tt := range [][4]string{
		{"expert_x", `{"what":"a"}`, "expert_x", `{"prompt":"a"}`}, {"io_prompt_agent_x", `{"prompt":"a"}`, "expert_x", `{"prompt":"a"}`}, {"io_prompt_agent_x", `{"what":"a"}`, "expert_x", `{"prompt":"a"}`}, {"expert_y", `{"prompt":"a"}`, "io_prompt_agent_y", `{"what":"a"}`}, {"expert_y", `{"what":"a"}`, "io_prompt_agent_y", `{"what":"a"}`},
		{"expert_x", `{"what":"a","b":1}`, "expert_x", `{"what":"a","b":1}`}, {"expert_x", `{"other":"what"}`, "expert_x", `{"other":"what"}`}, {"expert_x", `{"what"`, "expert_x", `{"what"`}, {"expert_z", `{"what":"a"}`, "expert_z", `{"what":"a"}`}, {"what", `{"what":"a"}`, "what", `{"what":"a"}`}, {"expert_t", "{}", "expert_t", "{}"}, {"none", "{}", "none", "{}"},
	} {
		calls := []ToolCall{{Name: tt[0], Args: tt[1]}}
		if Restate(calls, tools); calls[0].Name != tt[2] || calls[0].Args != tt[3] {
			t.Errorf("%s(%s) is restated as %s(%s), want %s(%s)", tt[0], tt[1], calls[0].Name, calls[0].Args, tt[2], tt[3])
		}
	}
	for _, tt := range []struct {
		s    *Subagent
		args string
		want string // "" is an error
	}{
		{plain, `{"prompt":"a"}`, "a"}, {plain, `{"what":"a"}`, "a"}, {plain, `{"prompt":"a","what":"b"}`, "a"}, {plain, `{}`, ""}, {plain, `{"prompt":1}`, ""}, {plain, `{`, ""}, {plain, ``, ""},
		{shaped, `{"prompt":"a"}`, "a"}, {shaped, `{"what":"a"}`, `{"what":"a"}`}, {shaped, `{"prompt":"a","n":1}`, "a\n\n" + `{"n":1}`}, {shaped, `{"prompt":1}`, `{"prompt":1}`}, {shaped, `{"prompt":"bad"}`, ""},
	} {
		m, err := tt.s.Agent.Prompt(t.Context(), tt.args)
		if got := m.Text(); (err == nil) != (tt.want != "") || err == nil && got != tt.want {
			t.Errorf("the prompt of %s from %s is %q, %v; want %q", tt.s.Agent.Slug, tt.args, got, err, tt.want)
		}
	}
	end := &outcomeError{text: "the agent failed"}
	if NotRun(end) != error(end) || NotRun(nil) != nil || NotRun(errors.New("x")).Error() != "not run: x" {
		t.Errorf("NotRun = %v, %v", NotRun(end), NotRun(nil))
	}
}
