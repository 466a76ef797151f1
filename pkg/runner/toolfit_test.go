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

// A choosy model refuses the tools without a description, and answers with the names of those
// that it is offered.
type choosy struct{ schema *string }

func (c choosy) FitTool(t agent.ToolSpec) (agent.ToolSpec, []string, error) {
	if t.Description == "" {
		return t, nil, errors.New("it has no description")
	}
	t.Schema = json.RawMessage(`{"type":"object"}`)
	return t, []string{"shorter"}, nil
}

func (c choosy) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	var names []string
	for _, t := range req.Tools {
		names = append(names, t.Name)
		*c.schema = string(t.Schema)
	}
	return &agent.Response{Finish: agent.FinishStop, Message: agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(strings.Join(names, " "))}}}, nil
}

type described struct{ spec agent.ToolSpec }

func (d described) Spec() agent.ToolSpec { return d.spec }
func (d described) Call(context.Context, *agent.Invocation) (agent.Result, error) {
	return agent.TextResult(""), nil
}

// A tool that the server of the model refuses is left out with a warning, and others stay as
// they are.
func TestToolsThatTheServerRefusesAreLeftOut(t *testing.T) {
	var warnings []string
	schema := ""
	tools := agent.ToolList{described{agent.ToolSpec{Name: "bad", Source: "here", Schema: json.RawMessage(`{}`)}}, described{agent.ToolSpec{Name: "good", Description: "d", Schema: json.RawMessage(`{"oneOf":[]}`)}}}
	r := &runner.Runner{Agent: &agent.Agent{Slug: "a", Model: "m", Provider: choosy{&schema}, Toolsets: []agent.Toolset{tools}},
		Observe: func(e agent.Event) {
			if e.Kind == agent.EventWarning {
				warnings = append(warnings, e.Text)
			}
		}}
	end, err := r.Run(t.Context(), agent.UserText("go"))
	if err != nil || end.Answer != "good" || schema != `{"oneOf":[]}` {
		t.Errorf("%+v, %v, schema %s", end, err, schema)
	}
	want := "the tool bad of here is left out, because the server of the model m would refuse it: it has no description"
	if len(warnings) != 1 || warnings[0] != want {
		t.Errorf("warnings %q", warnings)
	}
}
