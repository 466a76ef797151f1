package scripted_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider/scripted"
)

func parse(t *testing.T, text string) *scripted.Script {
	t.Helper()
	s, err := scripted.Parse("script.json", []byte(text))
	if err != nil {
		t.Fatalf("Parse: %v\n%s", err, text)
	}
	return s
}

// rules is a script of these rules.
func rules(rules ...string) string { return `{"rules":[` + strings.Join(rules, ",\n") + `]}` }

// ask plays one request of a new provider.
func ask(t *testing.T, script string, req *agent.Request) (*agent.Response, error) {
	t.Helper()
	return (&scripted.Provider{Script: parse(t, script)}).Generate(t.Context(), req, nil)
}

// answer is ask for a request that is answered.
func answer(t *testing.T, script string, req *agent.Request) *agent.Response {
	t.Helper()
	resp, err := ask(t, script, req)
	if err != nil {
		t.Fatalf("Generate: %v\n%s", err, script)
	}
	return resp
}

func user(texts ...string) *agent.Request {
	req := &agent.Request{Session: "s1", Agent: "helper", Turn: 1}
	for _, text := range texts {
		req.Messages = append(req.Messages, agent.UserText(text))
	}
	return req
}

type res struct {
	tool, text string
	failed     bool
}

// results adds a turn with calls and their results to req.
func results(req *agent.Request, list ...res) *agent.Request {
	call, result := agent.Message{Role: agent.RoleAssistant}, agent.Message{Role: agent.RoleTool}
	for i, r := range list {
		id := string(rune('a' + i))
		call.Calls = append(call.Calls, agent.ToolCall{ID: id, Name: r.tool, Args: "{}"})
		result.Results = append(result.Results, agent.ToolResult{CallID: id, Name: r.tool, Parts: []agent.Part{agent.Text(r.text)}, Failed: r.failed})
	}
	req.Messages = append(req.Messages, call, result)
	req.Turn++
	return req
}

func modelError(t *testing.T, err error) *agent.ModelError {
	t.Helper()
	var e *agent.ModelError
	if !errors.As(err, &e) {
		t.Fatalf("error = %v (%T), want an *agent.ModelError", err, err)
	}
	return e
}

// A collect keeps what was shown.
type collect struct{ text, reasoning []string }

func (c *collect) delta(d agent.Delta) {
	switch d.Kind {
	case agent.DeltaText:
		c.text = append(c.text, d.Text)
	case agent.DeltaReasoning:
		c.reasoning = append(c.reasoning, d.Text)
	}
}

// A tool is an agent.Tool made of a function.
type tool struct {
	name string
	run  func(ctx context.Context, inv *agent.Invocation) (agent.Result, error)
}

func (t tool) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: t.name, Schema: []byte(`{"type":"object"}`)}
}

func (t tool) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	return t.run(ctx, inv)
}
