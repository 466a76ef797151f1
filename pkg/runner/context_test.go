package runner_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// sets is a tool that sets the context to the value of its argument, after wait. It
// closes begun when it begins and done when it ends. Each may be nil.
func sets(name string, begun chan<- struct{}, wait <-chan struct{}, done chan<- struct{}) tool {
	return tool{name, func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
		args, err := inv.Args()
		if err != nil {
			return agent.Result{}, err
		}
		if begun != nil {
			close(begun)
		}
		if wait != nil {
			<-wait
		}
		if done != nil {
			defer close(done)
		}
		was := string(inv.Context)
		return agent.TextResult(was), inv.SetContext(ctx, args["to"])
	}}
}

func contexts(events []agent.Event) (list []string) {
	for _, e := range ofKind(events, agent.EventContext) {
		list = append(list, string(e.Context))
	}
	return list
}

func TestCallsOfOneTurnMergeWhatTheyChange(t *testing.T) {
	late, early := make(chan struct{}), make(chan struct{})
	m := &model{answers: []*agent.Response{
		calls(call("a", "late", `{"to":{"n":1.50,"mine":true,"list":[1]}}`), call("b", "early", `{"to":{"n":2,"list":[],"gone":null,"deep":{"y":1}}}`)),
		calls(call("c", "reads", `{"to":{"n":3}}`)),
		text("done"),
	}}
	a := newAgent(m, sets("late", late, early, nil), sets("early", nil, late, early), sets("reads", nil, nil, nil))
	j := &journal{}
	r := &runner.Runner{Agent: a, Journal: j, Context: json.RawMessage(`{"n":1.50,"list":[]}`)}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	want := []string{`{"n":1.50,"list":[]}`, `{"n":2,"list":[],"gone":null,"deep":{"y":1}}`, `{"deep":{"y":1},"gone":null,"list":[1],"mine":true,"n":2}`, `{"n":3}`}
	if got := strings.Join(contexts(j.events), "\n"); got != strings.Join(want, "\n") {
		t.Errorf("the events say\n%s", got)
	}
	if got := ofKind(j.events, agent.EventContext)[1]; got.Tool != "early" || got.Key == "" {
		t.Errorf("the change is %+v", got)
	}
}

func TestAnAgentsSchemaHoldsForEveryChangeBelowIt(t *testing.T) {
	child := newAgent(&model{answers: []*agent.Response{calls(call("c", "set", `{"to":{"other":1}}`)), calls(call("d", "set", `{"to":{"n":2}}`)), text("done")}}, sets("set", nil, nil, nil))
	child.Slug = "child"
	m := &model{answers: []*agent.Response{calls(call("c", "expert_child", `{"prompt":"go"}`)), text("done")}}
	a := newAgent(m, &agent.Subagent{Name: "expert_child", Agent: child})
	a.ContextSchema, a.Context = needs("n"), json.RawMessage(`{"n":1}`)
	j := &journal{}
	if _, err := (&runner.Runner{Agent: a, Journal: j}).Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if got := contexts(j.events); len(got) != 2 || got[0] != `{"n":1}` || got[1] != `{"n":2}` {
		t.Errorf("the events say %q", got)
	}
	refused := child.Provider.(*model).requests[1].Messages[2].Results[0]
	if !refused.Failed || !strings.Contains(refused.Text(), "invalid context: it does not fit contextSchema of agent "+a.Slug+": it has no n") {
		t.Errorf("the refused change is %+v", refused)
	}
	out, err := (&runner.Runner{Agent: a, Context: json.RawMessage(`{}`)}).Run(t.Context(), agent.UserText("go"))
	if err == nil || out.Status != agent.StatusFailed || !strings.Contains(err.Error(), "it has no n") {
		t.Errorf("a run with another context: %+v, %v", out, err)
	}
}

// TestTheContextOutlastsTheProcess dies at every event: what is resumed has the context
// that the journal had last.
func TestTheContextOutlastsTheProcess(t *testing.T) {
	tree := func(answers ...*agent.Response) *agent.Agent {
		child := newAgent(&script{answers: map[int]*agent.Response{1: calls(call("c", "set", `{"to":{"n":2}}`)), 3: text("done")}}, sets("set", nil, nil, nil))
		child.Slug = "child"
		return newAgent(&script{answers: map[int]*agent.Response{1: calls(call("c", "expert_child", `{"prompt":"go"}`)), 3: text("done")}},
			&agent.Subagent{Name: "expert_child", Agent: child})
	}
	full := &journal{}
	if _, err := (&runner.Runner{Agent: tree(), Journal: full, Context: json.RawMessage(`{"n":1}`)}).Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if got := contexts(full.events); len(got) != 2 || got[1] != `{"n":2}` {
		t.Fatalf("the events say %q", got)
	}
	for at := 3; at < len(full.events); at++ {
		var b runner.Rebuilder
		want := ""
		for _, e := range full.events[:at] {
			if e.Kind == agent.EventContext {
				want = string(e.Context)
			}
			if err := b.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		resume, _ := b.Resume()
		if string(resume.Context) != want {
			t.Errorf("after %d events the context is %s, want %s", at, resume.Context, want)
		}
		var seen string
		probe := tree()
		probe.Toolsets = append(probe.Toolsets, agent.ToolList{tool{"probe", func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
			seen = string(inv.Context)
			return agent.TextResult("ok"), nil
		}}})
		r := &runner.Runner{Agent: probe, From: resume}
		if _, err := r.Call(t.Context(), probe.Toolsets[1].(agent.ToolList)[0], "{}"); err != nil || seen != want {
			t.Errorf("after %d events a call sees %q, %v, want %q", at, seen, err, want)
		}
	}
}
