package plan_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/schema"
	"github.com/agents-exe/agents/pkg/source/toolbox/plan"
	"github.com/google/go-cmp/cmp"
)

// turns is a model that makes the calls of one turn after the other, "TOOL ARGS" each.
type turns [][]string

func (l turns) Generate(_ context.Context, req *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	m := agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text("done")}}
	if n := req.Turn - 1; n < len(l) {
		m.Parts = nil
		for _, c := range l[n] {
			name, args, _ := strings.Cut(c, " ")
			m.Calls = append(m.Calls, agent.ToolCall{Name: name, Args: args})
		}
	}
	return &agent.Response{Message: m}, nil
}

func run(t *testing.T, l turns) (s *agent.Session, results []string) {
	t.Helper()
	var tools agent.ToolList
	for _, tool := range append(plan.Tasks(), plan.Think()...) {
		tools = append(tools, schema.Checked(tool))
	}
	r := &runner.Runner{Agent: &agent.Agent{Slug: "a", Provider: l, Toolsets: []agent.Toolset{tools}}}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	for _, m := range r.Session().Messages {
		for _, res := range m.Results {
			results = append(results, res.Text())
		}
	}
	return r.Session(), results
}

func TestThePlanGrowsAndChanges(t *testing.T) {
	s, got := run(t, turns{
		{`add_task {"id":"water","title":"Boil water","parent":"tea"}`, `add_task {"id":"tea","title":"Make tea"}`},
		{`modify_task {"id":"water","state":"done","note":"hot"}`, `think {"text":"next"}`},
		{`modify_task {"id":"tea","state":"doing","title":"Brew tea"}`},
	})
	want := agent.Plan{{ID: "water", Parent: "tea", Title: "Boil water", State: "done", Note: "hot"}, {ID: "tea", Title: "Brew tea", State: "doing"}}
	if d := cmp.Diff(want, s.Plan); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"added task water", "added task tea", "[ ] tea: Make tea\n  [x] water: Boil water (hot)\n1 of 2 tasks are done", "noted",
		"[~] tea: Brew tea\n  [x] water: Boil water (hot)\n1 of 2 tasks are done"}, got); d != "" {
		t.Error(d)
	}
}

func TestWhatThePlanRefuses(t *testing.T) {
	const first = `add_task {"id":"tea","title":"Make tea"}`
	for call, want := range map[string]string{
		`add_task {"id":"tea","title":"Again"}`:              "there is a task tea already; modify_task changes it",
		`add_task {"id":"cup","title":"Cup","parent":"cup"}`: "there is no parent cup; there are: tea, cup",
		`add_task {"id":"cup","title":"Cup","parent":"pot"}`: "there is no parent pot; there are: tea, cup",
		`add_task {"id":"a b","title":"Cup"}`:                "id",
		`add_task {"id":"cup"}`:                              "title",
		`modify_task {"id":"cup","state":"done"}`:            "there is no task cup; there are: tea",
		`modify_task {"id":"tea"}`:                           "there is nothing to change",
		`modify_task {"id":"tea","state":"maybe"}`:           "state",
	} {
		s, got := run(t, turns{{first}, {call}})
		if !strings.HasPrefix(got[1], "error: ") || !strings.Contains(got[1], want) {
			t.Errorf("%s: %s, want %s", call, got[1], want)
		}
		if len(s.Plan) != 1 || s.Plan[0].State != "" {
			t.Errorf("%s: the plan is %v", call, s.Plan)
		}
	}
	// The first call of a turn counts, whichever runs first.
	if s, got := run(t, turns{{first, `add_task {"id":"tea","title":"Second"}`}}); s.Plan[0].Title != "Make tea" || !strings.Contains(got[1], "already") {
		t.Errorf("two of one name give %v, %q", s.Plan, got)
	}
	if _, got := run(t, turns{{`modify_task {"id":"tea","state":"done"}`}}); got[0] != "error: there is no task tea: the plan is empty" {
		t.Errorf("an empty plan gives %q", got)
	}
}

// TestAPlanHasALimit: a turn may have any number of calls.
func TestAPlanHasALimit(t *testing.T) {
	const calls = 1000
	var add, change []string
	for i := range calls {
		add = append(add, fmt.Sprintf(`add_task {"id":"t%d","title":"Task","parent":"t%d"}`, i, max(0, i-1)))
		change = append(change, fmt.Sprintf(`modify_task {"id":"t%d","state":"done"}`, i))
	}
	add[0] = `add_task {"id":"t0","title":"Task"}`
	if s, got := run(t, turns{add}); len(s.Plan) != 500 || got[499] != "added task t499" || got[500] != "error: a plan has at most 500 tasks" {
		t.Errorf("%d tasks, %.100q and %.100q", len(s.Plan), got[499], got[500])
	}
	if s, _ := run(t, turns{add, change}); s.Plan[499].State != "done" {
		t.Errorf("the last task is %q", s.Plan[499].State)
	}
}
