package finish_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/source/toolbox/finish"
)

// caller is a model that calls a tool once, and answers if it is asked again.
type caller agent.ToolCall

func (c caller) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	m := agent.Message{Calls: []agent.ToolCall{agent.ToolCall(c)}}
	if req.Turn > 1 {
		m = agent.Message{Parts: []agent.Part{agent.Text("asked again")}}
	}
	return &agent.Response{Message: m}, nil
}

func TestTheToolsEndTheRun(t *testing.T) {
	for _, c := range []struct {
		call   caller
		status agent.Status
		want   string
	}{
		{caller{Name: "finish", Args: `{"text":"It is 42."}`}, agent.StatusOK, "It is 42. <nil>"},
		{caller{Name: "reject", Args: `{"text":"not my task"}`}, agent.StatusRefused, " not my task"},
		{caller{Name: "finish", Args: `{"text":""}`}, agent.StatusOK, "asked again <nil>"},
		{caller{Name: "reject", Args: `{}`}, agent.StatusOK, "asked again <nil>"},
	} {
		var tools agent.ToolList
		for _, tool := range finish.Tools() {
			tools = append(tools, schema.Checked(tool))
		}
		r := &runner.Runner{Agent: &agent.Agent{Slug: "a", Provider: c.call, Toolsets: []agent.Toolset{tools}}}
		out, err := r.Run(t.Context(), agent.UserText("go"))
		if got := fmt.Sprint(out.Answer, " ", err); out.Status != c.status || got != c.want {
			t.Errorf("%s %s: %s %q, want %s %q", c.call.Name, c.call.Args, out.Status, got, c.status, c.want)
		}
	}
}
