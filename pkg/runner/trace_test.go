package runner_test

import (
	"context"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/traceid"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/google/go-cmp/cmp"
)

// TestCallsAndRequestsCarryTheTrace: at every depth, a call and a model request get
// the traceparent of their own span, in the trace of the caller or of the root.
func TestCallsAndRequestsCarryTheTrace(t *testing.T) {
	const outside = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	under := func(c traceid.Context, spans ...string) []string {
		var list []string
		for _, c.Span = range spans {
			list = append(list, c.String())
		}
		return list
	}
	spans := []string{
		traceid.Model("S1", 1), traceid.Call("S1.1.1"), // the sub-agent
		traceid.Model("S2", 1), traceid.Call("S2.1.1"), traceid.Model("S2", 2),
		traceid.Model("S1", 2),
	}
	given, _ := traceid.Parse(outside)
	unsampled := given
	unsampled.Sampled = false
	none := make([]string, len(spans))
	for _, test := range []struct {
		name        string
		traced      bool
		traceparent string
		want        []string
		recorded    string // in the prompt's event
	}{
		{name: "no trace", want: none},
		{name: "malformed", traceparent: "00-xyz-01", want: none},
		{name: "of the root", traced: true, want: under(traceid.Root("S1"), spans...)},
		{name: "malformed and traced", traced: true, traceparent: outside + "\n", want: under(traceid.Root("S1"), spans...)},
		{name: "of the caller", traceparent: outside, want: under(given, spans...), recorded: outside},
		{name: "not sampled", traced: true, traceparent: unsampled.String(), want: under(unsampled, spans...), recorded: unsampled.String()},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			note := func(answers ...*agent.Response) agent.Provider {
				m := &model{answers: answers}
				return providerFunc(func(req *agent.Request) (*agent.Response, error) {
					got = append(got, req.Trace)
					return m.Generate(t.Context(), req, nil)
				})
			}
			helper := newAgent(note(calls(call("b", "look", "{}")), text("helped")), tool{"look", func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
				got = append(got, inv.Trace)
				return agent.TextResult("seen"), nil
			}})
			helper.Slug = "helper"
			sub := agent.Wrap(&agent.Subagent{Name: "helper", Agent: helper}, func(ctx context.Context, inv *agent.Invocation, next agent.Tool) (agent.Result, error) {
				got = append(got, inv.Trace)
				return next.Call(ctx, inv)
			})
			j := &journal{}
			r := &runner.Runner{Agent: newAgent(note(calls(call("a", "helper", `{"prompt":"p"}`)), text("done")), sub), Journal: j, NewID: ids(),
				Trace: test.traced, From: &runner.Resume{Traceparent: test.traceparent}}
			if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("traceparents (-want +got):\n%s", diff)
			}
			for _, e := range j.events {
				want := ""
				if e.Kind == agent.EventMessage && e.Depth == 0 {
					want = test.recorded
				}
				if e.Traceparent != want {
					t.Errorf("%s event of %s: traceparent %q, want %q", e.Kind, e.Agent, e.Traceparent, want)
				}
			}
		})
	}
}

// TestARunSaysWithWhichTurnItBegan, so that the span of a run that another process
// resumes is the same.
func TestARunSaysWithWhichTurnItBegan(t *testing.T) {
	j := &journal{}
	a := newAgent(&model{answers: []*agent.Response{text("one"), calls(call("a", "echo", "{}")), text("three")}}, echo("echo"))
	r := &runner.Runner{Agent: a, Journal: j, NewID: ids()}
	for range 2 {
		if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
			t.Fatal(err)
		}
	}
	began := func(kind agent.EventKind) (turns []int) {
		for _, e := range j.events {
			if e.Kind == kind {
				turns = append(turns, e.Turn-e.RunTurns)
			}
		}
		return turns
	}
	if diff := cmp.Diff([]int{0, 1}, began(agent.EventMessage)); diff != "" {
		t.Errorf("turns of the prompts (-want +got):\n%s", diff)
	}
	for i, e := range j.events {
		if e.Kind == agent.EventCallStarted { // the process dies here
			j.events = j.events[:i]
			break
		}
	}
	again := load(t, j.events)
	again.Agent, again.Journal = a, j
	if _, err := again.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{1}, began(agent.EventResume)); diff != "" {
		t.Errorf("turn of the run that is resumed (-want +got):\n%s", diff)
	}
}

func TestASingleCallCarriesTheTrace(t *testing.T) {
	const outside = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	c, _ := traceid.Parse(outside)
	c.Span = traceid.Call("S1.1.1")
	var got string
	look := tool{"look", func(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
		got = inv.Trace
		return agent.TextResult("seen"), nil
	}}
	var events []agent.Event
	r := &runner.Runner{Agent: newAgent(nil), NewID: ids(), From: &runner.Resume{Traceparent: outside}, Observe: func(e agent.Event) { events = append(events, e) }}
	if _, err := r.Call(t.Context(), look, "{}"); err != nil || got != c.String() {
		t.Errorf("Call: %v with the traceparent %q, want %q", err, got, c)
	}
	for _, e := range events {
		if e.Traceparent != outside {
			t.Errorf("%s event with the traceparent %q, want %q", e.Kind, e.Traceparent, outside)
		}
	}
}
