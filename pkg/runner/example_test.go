package runner_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/source/functool"
)

// parrot is a model that needs no server: it calls the tool shout, then answers
// with the result.
type parrot struct{}

// Generate implements agent.Provider.
func (parrot) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	last := req.Messages[len(req.Messages)-1]
	if last.Role == agent.RoleTool {
		return &agent.Response{Message: agent.Message{Parts: last.Results[0].Parts}}, nil
	}
	call := agent.ToolCall{Name: "shout", Args: fmt.Sprintf(`{"text": %q}`, last.Text())}
	return &agent.Response{Message: agent.Message{Calls: []agent.ToolCall{call}}}, nil
}

type shoutArgs struct {
	Text string `json:"text" jsonschema:"what to shout"`
}

var shout = functool.New("shout", "Shouts a text.", func(_ context.Context, args shoutArgs) (string, error) {
	return strings.ToUpper(args.Text) + "!", nil
})

// An agent with a model and a tool that are both Go code.
func Example() {
	parrot := &agent.Agent{
		Slug:     "parrot",
		Provider: parrot{},
		Toolsets: []agent.Toolset{agent.ToolList{shout}},
	}
	out, err := (&runner.Runner{Agent: parrot}).Run(context.Background(), agent.UserText("hello"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out.Answer, out.Status, out.Turns)
	// Output: HELLO! ok 2
}

// offers has a tool that is there only while it is open.
type offers struct{ open bool }

// Tools implements agent.Toolset. It is asked before every turn.
func (o *offers) Tools(context.Context) ([]agent.Tool, error) {
	if !o.open {
		return nil, fmt.Errorf("the shop is closed")
	}
	return []agent.Tool{shout}, nil
}

// A source of tools that changes; its errors are warnings, and the run goes on.
func ExampleRunner_toolset() {
	shop := &offers{}
	r := &runner.Runner{
		Agent: &agent.Agent{Slug: "parrot", Provider: parrot{}, Toolsets: []agent.Toolset{shop}},
		Observe: func(e agent.Event) {
			if e.Kind == agent.EventWarning {
				fmt.Println("warning:", e.Text)
			}
		},
	}
	for _, prompt := range []string{"hello", "again"} {
		out, err := r.Run(context.Background(), agent.UserText(prompt))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(out.Answer)
		shop.open = true
	}
	// Output:
	// warning: the shop is closed
	// error: there is no tool "shout"; you have no tools
	// AGAIN!
}

// Observe is called with everything that happens in the run and its sub-agents.
func ExampleRunner_observe() {
	r := &runner.Runner{
		Agent: &agent.Agent{Slug: "parrot", Provider: parrot{}, Toolsets: []agent.Toolset{agent.ToolList{shout}}},
		Observe: func(e agent.Event) {
			switch e.Kind {
			case agent.EventCallStarted:
				fmt.Println(e.Agent, "calls", e.Tool, e.Args)
			case agent.EventEnd:
				fmt.Println(e.Agent, "ended:", e.Status)
			}
		},
	}
	if _, err := r.Run(context.Background(), agent.UserText("hello")); err != nil {
		fmt.Println(err)
	}
	// Output:
	// parrot calls shout {"text": "hello"}
	// parrot ended: ok
}

// A program that decides between the steps whether to go on.
func ExampleRunner_Step() {
	ctx := context.Background()
	r := &runner.Runner{Agent: &agent.Agent{Slug: "parrot", Provider: parrot{}, Toolsets: []agent.Toolset{agent.ToolList{shout}}}}
	err := r.Prompt(ctx, agent.UserText("hello"))
	for err == nil {
		switch next := r.Session().Next(); next.Kind {
		case agent.StepModel:
			fmt.Println("the model is asked")
		case agent.StepCalls:
			fmt.Println("calls:", len(next.Calls))
		case agent.StepPrompt:
			answer, _ := r.Session().Answer()
			fmt.Println(answer.Text())
			return
		}
		_, err = r.Step(ctx)
	}
	fmt.Println(err)
	// Output:
	// the model is asked
	// calls: 1
	// the model is asked
	// HELLO!
}

// A policy sees every call at every depth before it runs.
func ExampleRunner_policy() {
	quiet := func(_ context.Context, inv *agent.Invocation) agent.Verdict {
		if inv.Call.Name == "shout" {
			return agent.Verdict{Decision: agent.Deny, Reason: "it is late"}
		}
		return agent.Verdict{Decision: agent.Allow}
	}
	r := &runner.Runner{
		Agent:  &agent.Agent{Slug: "parrot", Provider: parrot{}, Toolsets: []agent.Toolset{agent.ToolList{shout}}},
		Policy: quiet,
	}
	out, err := r.Run(context.Background(), agent.UserText("hello"))
	fmt.Println(out.Answer, err)
	// Output: error: not run: refused by policy: it is late <nil>
}
