package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/redact"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/google/go-cmp/cmp"
)

// strict is a tool that wants an argument n.
type strict struct{ tool }

func (s strict) Validate(_ context.Context, inv *agent.Invocation) error {
	if _, ok := inv.Values()["n"]; !ok {
		return errors.New("argument n is missing")
	}
	return nil
}

// part is a tool whose calls with n 1 are part of calls that were allowed.
type part struct{ strict }

func (part) Approved(inv *agent.Invocation) bool { return inv.Call.Args == `{"n":1}` }

func TestTheGateAsksOnceAboutACallAndItsParts(t *testing.T) {
	for name, tc := range map[string]struct {
		args, reviewer string
		asked          int
		wants          bool // Invocation.Asked
	}{
		"a part":             {`{"n":1}`, "", 0, false},
		"another call":       {`{"n":2}`, "", 1, true},
		"only by a person":   {`{"n":1}`, "human", 1, true},
		"not with arguments": {`{"n":"1"}`, "", 1, true},
	} {
		asked := 0
		gate := &runner.Gate{
			Policy: func(context.Context, *agent.Invocation) agent.Verdict {
				return agent.Verdict{Decision: agent.AskPerson, Reviewer: tc.reviewer}
			},
			Ask: func(context.Context, *agent.Invocation, agent.Verdict) agent.Verdict {
				asked++
				return agent.Verdict{Decision: agent.Allow}
			},
		}
		ran := false
		tool := part{strict{tool{"work", func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
			ran = inv.Asked == tc.wants
			return agent.Result{}, nil
		}}}}
		err := gate.Call(t.Context(), tool, &agent.Invocation{Call: call("a", "work", tc.args), Spec: tool.Spec(), Key: "s.1.1"}, func(agent.Event) error { return nil })
		if err != nil || asked != tc.asked || !ran {
			t.Errorf("%s: %v, %d questions, ran as expected: %v", name, err, asked, ran)
		}
	}
}

func TestTheGateDecidesBeforeAnythingRuns(t *testing.T) {
	deny := func(context.Context, *agent.Invocation) agent.Verdict {
		return agent.Verdict{Decision: agent.Deny, Reason: "rule 7"}
	}
	allow := func(context.Context, *agent.Invocation) agent.Verdict { return agent.Verdict{Decision: agent.Allow} }
	ask := func(context.Context, *agent.Invocation) agent.Verdict {
		return agent.Verdict{Decision: agent.AskPerson, Reason: "it deletes"}
	}
	odd := func(context.Context, *agent.Invocation) agent.Verdict { return agent.Verdict{} }
	yes := func(_ context.Context, _ *agent.Invocation, v agent.Verdict) agent.Verdict {
		return agent.Verdict{Decision: agent.Allow, Reason: "the person agreed: " + v.Reason}
	}
	empty := func(context.Context, runner.Need) (func(agent.Usage), error) {
		return nil, fmt.Errorf("%w: calls 0 of root", agent.ErrBudget)
	}
	for name, tc := range map[string]struct {
		gate   *runner.Gate
		args   string
		events string
		want   string
	}{
		"arguments":     {&runner.Gate{}, `{"n":1,"n":2}`, "call_ended", `error: nothing ran: the arguments are refused: 1:8: the key "n" is there twice`},
		"schema":        {&runner.Gate{}, `{}`, "call_ended", "error: nothing ran: argument n is missing"},
		"schema first":  {&runner.Gate{Policy: deny}, `{}`, "call_ended", "error: nothing ran: argument n is missing"},
		"denied":        {&runner.Gate{Policy: deny}, `{"n":1}`, "verdict call_ended", "error: not run: refused by policy: rule 7"},
		"allowed":       {&runner.Gate{Policy: allow}, `{"n":1}`, "call_started call_ended", `{"n":1}`},
		"nobody to ask": {&runner.Gate{Policy: ask}, `{"n":1}`, "verdict call_ended", "error: not run: refused by policy: it deletes: nobody can be asked"},
		"the person":    {&runner.Gate{Policy: ask, Ask: yes}, `{"n":1}`, "verdict call_started call_ended", `{"n":1}`},
		"no decision":   {&runner.Gate{Policy: odd}, `{"n":1}`, "verdict call_ended", "error: not run: refused by policy: this call is not permitted"},
		"budget":        {&runner.Gate{Reserve: empty}, `{"n":1}`, "call_ended", "error: not run: budget spent: calls 0 of root"},
	} {
		t.Run(name, func(t *testing.T) {
			ran := false
			tool := strict{tool{"work", func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
				ran = true
				return agent.TextResult(inv.Call.Args), nil
			}}}
			var kinds []string
			var last agent.Event
			inv := &agent.Invocation{Call: call("a", "work", tc.args), Spec: tool.Spec(), Key: "s.1.1"}
			err := tc.gate.Call(t.Context(), agent.Wrap(tool, func(ctx context.Context, inv *agent.Invocation, next agent.Tool) (agent.Result, error) {
				return next.Call(ctx, inv)
			}), inv, func(e agent.Event) error {
				kinds, last = append(kinds, string(e.Kind)), e
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(kinds, " "); got != tc.events || last.Result.Text() != tc.want {
				t.Errorf("events %s, result %q; want %s, %q", got, last.Result.Text(), tc.events, tc.want)
			}
			if ran != strings.Contains(tc.events, "call_started") {
				t.Errorf("the tool ran: %v", ran)
			}
		})
	}
}

// TestBudgetsReserveAndSettle counts what a run asks for and what it gave back.
func TestBudgetsReserveAndSettle(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	settled := agent.Usage{}
	open := 0
	budget := func(_ context.Context, n runner.Need) (func(agent.Usage), error) {
		mu.Lock()
		defer mu.Unlock()
		what := "model"
		if n.Call != nil {
			what = n.Call.Call.Name
		}
		asked = append(asked, fmt.Sprint(n.Agent, n.Depth, " ", what))
		open++
		if len(asked) > 6 {
			open--
			return nil, fmt.Errorf("%w: 6 of agent %s", agent.ErrBudget, n.Agent)
		}
		return func(u agent.Usage) {
			mu.Lock()
			defer mu.Unlock()
			open--
			settled = settled.Add(u)
		}, nil
	}
	child := newAgent(&model{answers: []*agent.Response{calls(call("1", "echo", "{}")), text("inner")}}, echo("echo"))
	child.Slug = "child"
	m := &model{answers: []*agent.Response{calls(call("1", "child", `{"prompt":"p"}`)), calls(call("2", "echo", "{}")), text("never")}}
	r := &runner.Runner{Agent: newAgent(m, echo("echo"), &agent.Subagent{Name: "child", Agent: child}), Reserve: budget}
	out, err := r.Run(t.Context(), agent.UserText("go"))
	if !errors.Is(err, agent.ErrBudget) || out.Status != agent.StatusBudget {
		t.Fatalf("Run = %+v, %v", out, err)
	}
	want := []string{"root0 model", "root0 child", "child1 model", "child1 echo", "child1 model", "root0 model", "root0 echo", "root0 model"}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if open != 0 || settled.Requests != 4 || settled.OutputTokens != 8 {
		t.Errorf("%d reservations are open; settled %+v, want the 4 requests that were made", open, settled)
	}
	if got := r.Session().Messages[4].Results[0].Text(); got != "error: not run: budget spent: 6 of agent root" {
		t.Errorf("the refused call was answered %q", got)
	}
}

// TestNoSecretPassesTheGate puts a key where tools, models and errors can bring it.
func TestNoSecretPassesTheGate(t *testing.T) {
	const key = "sk-0123456789abcdef0123456789abcdef"
	leaks := tool{"leaks", func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
		inv.Progress("with " + key)
		// The cut falls into the key.
		return agent.TextResult(strings.Repeat("x", 24_940) + key + strings.Repeat("y", 60_000)), errors.New("bad key " + key)
	}}
	m := &model{answers: []*agent.Response{calls(call("1", "leaks", "{}")), text("the key is " + key)}, err: errors.New("refused " + key)}
	j := &journal{}
	var seen []string
	r := &runner.Runner{Agent: newAgent(m, leaks), Journal: j, Secrets: redact.New([]string{key}),
		Observe: func(e agent.Event) { seen = append(seen, fmt.Sprintf("%+v %+v %+v", e, e.Message, e.Result)) }}
	out, err := r.Run(t.Context(), agent.UserText("go"))
	if err != nil {
		t.Fatal(err)
	}
	_, failed := r.Run(t.Context(), agent.UserText("again"))
	result, callErr := r.Call(t.Context(), leaks, "{}")
	all := fmt.Sprintf("%v %+v %v %v %+v %+v %+v", seen, out, failed, callErr, result, j.events, m.requests)
	if i := strings.Index(all, key[:12]); i >= 0 {
		t.Errorf("the key passed: …%s…", all[max(0, i-60):i+40])
	}
	if failed == nil || !strings.Contains(failed.Error(), redact.Mark) || out.Answer != "the key is "+redact.Mark {
		t.Errorf("answer %q, error %v", out.Answer, failed)
	}
}

func TestTheResultOfEveryToolIsCut(t *testing.T) {
	huge := tool{"huge", func(context.Context, *agent.Invocation) (agent.Result, error) {
		return agent.Result{Parts: []agent.Part{agent.Text(strings.Repeat("ü", 5_000_000)), {Kind: agent.PartMedia, MIME: "image/png", Data: make([]byte, 30_000_000)}}}, nil
	}}
	m := &model{answers: []*agent.Response{calls(call("1", "huge", "{}")), text("done")}}
	if _, err := (&runner.Runner{Agent: newAgent(m, huge)}).Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	got := m.requests[1].Messages[2].Results[0]
	if n := len(got.Text()); n > runner.MaxResult+1000 || !strings.Contains(got.Text(), "of 10000000 bytes are left out here") || !strings.Contains(got.Text(), "an attachment of 30000000 bytes (image/png) is left out") {
		t.Errorf("the result has %d bytes: %.100q", n, got.Text())
	}
	if strings.Contains(got.Text(), "\uFFFD") {
		t.Error("a character was cut")
	}
}

func TestDecoratorsKeepWhatToolsCanDo(t *testing.T) {
	set := agent.WrapToolset(&server{name: "a", says: "be brief"}, func(_ context.Context, list []agent.Tool, err error) ([]agent.Tool, error) {
		for i, t := range list {
			list[i] = agent.Wrap(t, func(ctx context.Context, inv *agent.Invocation, next agent.Tool) (agent.Result, error) {
				res, err := next.Call(ctx, inv)
				res.Parts = append(res.Parts, agent.Text(" wrapped"))
				return res, err
			})
		}
		return list, err
	})
	m := &model{answers: []*agent.Response{calls(call("1", "a", "{}")), text("done")}}
	a := newAgent(m)
	a.Toolsets = []agent.Toolset{set}
	if _, err := (&runner.Runner{Agent: a}).Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if got := m.requests[1]; got.System != "be brief" || got.Messages[2].Results[0].Text() != "{} wrapped" {
		t.Errorf("system %q, result %q", got.System, got.Messages[2].Results[0].Text())
	}
}

// TestARunThatEndedIsOver: nothing is asked after the end of a run.
func TestARunThatEndedIsOver(t *testing.T) {
	a := newAgent(byTurn("", calls(call("", "echo", "{}"))), echo("echo"))
	a.MaxTurns = 2
	r := &runner.Runner{Agent: a}
	if err := r.Prompt(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	requests, ends := 0, 0
	for range 30 {
		step, err := r.Step(t.Context())
		if step.Kind == agent.StepModel {
			requests++
		}
		if errors.Is(err, agent.ErrTurns) {
			ends++
		}
	}
	if requests != 3 || ends != 1 {
		t.Errorf("%d requests and %d ends in 30 steps, want 3 and 1", requests, ends)
	}
}

// TestStepDeliversMessagesThatArriveMeanwhile: a program that drives the session itself
// need not look for them.
func TestStepDeliversMessagesThatArriveMeanwhile(t *testing.T) {
	m := &model{answers: []*agent.Response{calls(call("", "begin", "{}")), text("done")}}
	a := newAgent(m, tool{"begin", func(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
		err := inv.Background(ctx, func(context.Context) string { return "the command has ended" })
		inv.AwaitNotice(ctx)
		return agent.TextResult("begun"), err
	}})
	r := &runner.Runner{Agent: a}
	if err := r.Prompt(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if _, err := r.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	last := m.requests[len(m.requests)-1].Messages
	if got := last[len(last)-1].Text(); got != "the command has ended" {
		t.Errorf("the last message of the last request is %q", got)
	}
}
