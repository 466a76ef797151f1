package runner_test

import (
	"context"
	"slices"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/functool"
)

// onBehalf is a tool that runs a model on behalf of its agent.
type onBehalf struct{ model agent.Provider }

func (onBehalf) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: "behalf", Schema: []byte(`{"type":"object"}`)}
}

func (b onBehalf) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	offers := func(s agent.ToolSpec) bool { return s.Name != "behalf" && s.Name != "hidden" }
	return agent.AnswerOf(runner.OnBehalf(ctx, inv, runner.Behalf{Model: "m", Provider: b.model, Offers: offers}, agent.UserText("go")))
}

// calling is a model that makes one call and answers with its result.
type calling struct {
	name  string
	asked *[]string // the tools of the requests
}

func (c calling) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	for _, t := range req.Tools {
		*c.asked = append(*c.asked, t.Name)
	}
	m := agent.Message{Calls: []agent.ToolCall{{Name: c.name, Args: `{"prompt":"x"}`}}}
	if last := req.Messages[len(req.Messages)-1]; last.Role == agent.RoleTool {
		m = agent.Message{Parts: []agent.Part{agent.Text(last.Results[0].Text())}}
	}
	return &agent.Response{Message: m}, nil
}

// A run on behalf of an agent is no level of sub-agents, nor a part of the path that rules
// see; only what is offered can be called.
func TestOnBehalfIsNotAnAgent(t *testing.T) {
	var outer, inner, below, paths []string
	leaf := &agent.Agent{Slug: "leaf", Provider: calling{"pwd", &below}, Toolsets: []agent.Toolset{agent.ToolList{
		functool.New("pwd", "", func(context.Context, struct {
			Prompt string `json:"prompt"`
		}) (string, error) {
			return "deep", nil
		})}}}
	hidden := functool.New("hidden", "", func(context.Context, struct{}) (string, error) { return "", nil })
	r := &runner.Runner{MaxDepth: 1, Agent: &agent.Agent{Slug: "root", System: "not for the program", Provider: calling{"behalf", &outer}, Toolsets: []agent.Toolset{
		agent.ToolList{onBehalf{calling{"expert_leaf", &inner}}, &agent.Subagent{Name: "expert_leaf", Agent: leaf}, hidden}}}}
	r.Policy = func(_ context.Context, inv *agent.Invocation) agent.Verdict {
		lease := inv.Caller.Lease(t.Context(), inv)
		paths = append(paths, inv.Call.Name)
		paths = append(paths, lease.Path...)
		return agent.Verdict{Decision: agent.Allow}
	}
	out, err := r.Run(t.Context(), agent.UserText("go"))
	if err != nil || out.Answer != "deep" {
		t.Errorf("Run = %+v, %v", out, err)
	}
	if want := []string{"expert_leaf", "expert_leaf"}; !slices.Equal(inner, want) {
		t.Errorf("the program has the tools %q, want %q", inner, want)
	}
	if want := []string{"behalf", "root", "expert_leaf", "root", "pwd", "root", "leaf"}; !slices.Equal(paths, want) {
		t.Errorf("the paths are %q, want %q", paths, want)
	}
}

// A program waits for the agents that it calls, so they are not delegated.
func TestAgentsOfAProgramAreNotDelegated(t *testing.T) {
	var asked []string
	leaf := &agent.Agent{Slug: "leaf", Provider: calling{"none", &asked}}
	r := &runner.Runner{Agent: &agent.Agent{Slug: "root", Provider: calling{"behalf", &asked}, Toolsets: []agent.Toolset{
		agent.ToolList{onBehalf{calling{"expert_leaf", &asked}}, &agent.Subagent{Name: "expert_leaf", Agent: leaf}}}}}
	r.Delegate = func(_ context.Context, d runner.Delegation) error {
		t.Errorf("%s was delegated", d.Agent)
		return nil
	}
	ends := map[string]agent.Status{}
	r.Observe = func(e agent.Event) {
		if e.Kind == agent.EventEnd {
			ends[e.Agent] = e.Status
		}
	}
	if err := r.Prompt(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.StepCall(t.Context(), r.Session().Next().Calls[0].Key); err != nil || ends["leaf"] != agent.StatusOK {
		t.Errorf("StepCall = %v, and the agents ended with %v", err, ends)
	}
}
