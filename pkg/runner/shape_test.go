package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// needs is a shape that an object with the given member fits.
func needs(member string) *agent.Shape {
	return &agent.Shape{Schema: json.RawMessage(`{"type":"object","required":["` + member + `"]}`), Check: func(_ context.Context, value json.RawMessage) error {
		var object map[string]any
		if err := json.Unmarshal(value, &object); err != nil || object[member] == nil {
			return errors.New(" it has no " + member)
		}
		return nil
	}}
}

func TestArgumentsBecomeTheFirstMessage(t *testing.T) {
	for _, tc := range []struct {
		name, args, want, wrong string
		input                   *agent.Shape
	}{
		{name: "prompt", args: `{"prompt":"go"}`, want: "go"},
		{name: "no prompt", args: `{}`, wrong: "the argument prompt is missing"},
		{name: "another type", args: `{"prompt":1}`, wrong: "the argument prompt: "},
		{name: "object", args: ` {"city": "Rome", "n":1.50}`, input: needs("city"), want: `{"city":"Rome","n":1.50}`},
		{name: "prompt and others", args: `{"prompt":"go","city":"<Rome>"}`, input: needs("city"), want: "go\n\n{\"city\":\"<Rome>\"}"},
		{name: "prompt alone", args: `{"prompt":"go"}`, input: needs("prompt"), want: "go"},
		{name: "a prompt that is no text", args: `{"prompt":["go"]}`, input: needs("prompt"), want: `{"prompt":["go"]}`},
		{name: "misfit", args: `{"town":"Rome"}`, input: needs("city"), wrong: "do not fit the agent's inputSchema: it has no city"},
		{name: "no object", args: `[]`, input: needs("city"), wrong: "must be one JSON object"},
		{name: "nothing", args: ``, input: needs("city"), wrong: "it has no city"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := (&agent.Agent{InputSchema: tc.input}).Prompt(t.Context(), tc.args)
			if m.Text() != tc.want || (err == nil) != (tc.wrong == "") || err != nil && !strings.Contains(err.Error(), tc.wrong) {
				t.Errorf("Prompt(%s) = %q, %v; want %q, %q", tc.args, m.Text(), err, tc.want, tc.wrong)
			}
		})
	}
}

func TestAHolderGivesTheArgumentsOfTheInputSchema(t *testing.T) {
	m := &model{answers: []*agent.Response{text("done")}}
	a := newAgent(m)
	a.InputSchema = needs("city")
	s := agent.Start{Channel: agent.ChannelVersion, Args: json.RawMessage(`{"city":"Rome"}`)}
	read(t, (&runner.Runner{Agent: a}).Start(t.Context(), s), nil)
	if got := m.requests[0].Messages[0].Text(); got != `{"city":"Rome"}` {
		t.Errorf("the model reads %q", got)
	}
	s.Args = json.RawMessage(`{"prompt":"go"}`)
	events := read(t, (&runner.Runner{Agent: a}).Start(t.Context(), s), nil)
	if end := events[len(events)-1]; end.Status != agent.StatusFailed || !strings.Contains(end.Error, "args: the arguments do not fit") {
		t.Errorf("the end is %+v", end)
	}
}

func TestAnswersFitTheOutputSchema(t *testing.T) {
	child := newAgent(&model{answers: []*agent.Response{text("a"), text("good")}})
	child.Slug, child.OutputSchema = "child", &agent.Output{Schema: json.RawMessage(`{"type":"object"}`), Instructions: "Be good.", Accept: fits}
	sub := &agent.Subagent{Name: "expert_child", Agent: child}
	m := &model{answers: []*agent.Response{calls(call("c", "expert_child", `{"prompt":"go"}`)), text("done")}}
	a := newAgent(m, sub)
	out, err := (&runner.Runner{Agent: a}).Run(t.Context(), agent.UserText("go"))
	if err != nil || out.Answer != "done" {
		t.Fatalf("Run = %+v, %v", out, err)
	}
	if got := m.requests[1].Messages[2].Results[0]; got.Failed || got.Text() != "GOOD" {
		t.Errorf("the caller's result is %+v, want what was accepted", got)
	}
	asked := child.Provider.(*model).requests
	if len(asked) != 2 || !strings.HasSuffix(asked[0].System, "Be good.") || string(asked[0].Output) != `{"type":"object"}` {
		t.Errorf("the child's requests are %+v", asked)
	}
	if m.requests[0].Output != nil {
		t.Errorf("the parent's request has the schema %s", m.requests[0].Output)
	}
}

func TestARunDoesNotBeginWithoutTheToolsItRequires(t *testing.T) {
	m := &model{answers: []*agent.Response{text("done"), text("done")}}
	a := newAgent(m, echo("echo"))
	a.RequiredTools = []string{"echo", "clock"}
	out, err := (&runner.Runner{Agent: a}).Run(t.Context(), agent.UserText("go"))
	if !errors.Is(err, agent.ErrTools) || out.Status != agent.StatusFailed || !strings.Contains(err.Error(), "requires clock, which no source offers") || len(m.requests) != 0 {
		t.Errorf("Run = %+v, %v after %d requests", out, err, len(m.requests))
	}
	s := startOf()
	s.Tools = []agent.ToolSpec{{Name: "clock", Schema: json.RawMessage(`{"type":"object"}`)}}
	events := read(t, (&runner.Runner{Agent: a}).Start(t.Context(), s), nil)
	if end := events[len(events)-1]; end.Status != agent.StatusOK {
		t.Errorf("with the holder's tool the end is %+v", end)
	}
}
