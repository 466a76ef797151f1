package runner_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// two is a Chooser whose first model fails at some requests, counted from 1.
type two struct {
	counting
	fails []int
	from  []string // Request.Fallback of each request
}

func (m *two) Choice(fallback string) (string, string) {
	if fallback == "" {
		return "m1", "f1"
	}
	return "m2", "f2"
}

func (m *two) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	m.from = append(m.from, req.Fallback)
	fails := req.Fallback == "" && slices.Contains(m.fails, len(m.from))
	if fails {
		delta(agent.Delta{Kind: agent.DeltaRetry, Text: "first: busy", Fallback: "fast", Model: "m2"})
	}
	resp, err := m.counting.Generate(ctx, req, delta)
	if err == nil && (fails || req.Fallback != "") {
		resp.Fallback = "fast"
	}
	if err == nil && fails {
		resp.Failed = "first: busy"
	}
	return resp, err
}

// A model that answered in place of the first does so until the next prompt, also after the
// conversation was shortened or its process died.
func TestTheFallbackStaysUntilTheNextPrompt(t *testing.T) {
	m := &two{counting: counting{turns: 3}, fails: []int{2}}
	j := &journal{}
	var shown []string
	r := &runner.Runner{Agent: newAgent(m, reader(10)), Journal: j, Observe: func(e agent.Event) {
		if e.Kind == agent.EventRequest || e.Kind == agent.EventRetry {
			shown = append(shown, strings.TrimSpace(string(e.Kind)+" "+e.Model+" "+e.Flavor+" "+e.Fallback+" "+e.Error))
		}
	}}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(t.Context(), agent.UserText("again")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"", "", "fast", "fast", ""}, m.from); diff != "" {
		t.Errorf("requests began with (-want +got):\n%s", diff)
	}
	want := []string{"request m1 f1", "request m1 f1", "retry m2  fast first: busy", "request m2 f2 fast", "request m2 f2 fast", "request m1 f1"}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
	var said []string
	for i, e := range j.events {
		if e.Kind == agent.EventAnswer {
			said = append(said, strings.TrimSpace(e.Fallback+" "+e.Error))
		}
		s := load(t, j.events[:i+1]).Session()
		if s.Fallback == "fast" && s.Running && s.Request(s.Next(), "", nil).Fallback != "fast" {
			t.Errorf("after event %d, a resumed run asks the first model", i)
		}
	}
	if diff := cmp.Diff([]string{"", "fast first: busy", "fast", "fast", ""}, said); diff != "" {
		t.Errorf("answers say (-want +got):\n%s", diff)
	}
}

func TestTheFallbackOutlastsACompaction(t *testing.T) {
	m := &two{counting: counting{turns: 60, context: 20_000, summary: "read a lot"}, fails: []int{1}}
	j := &journal{}
	a := newAgent(m, reader(3000))
	a.ContextTokens, a.MaxTurns = 20_000, 1000
	r := &runner.Runner{Agent: a, Journal: j}
	if _, err := r.Run(t.Context(), agent.UserText("read everything")); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(j.kinds(), "compaction") || slices.Contains(m.from[1:], "") {
		t.Errorf("requests began with %q; %s", m.from, j.kinds())
	}
	if diff := cmp.Diff(r.Session(), load(t, j.events).Session(), everything, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("replay differs (-live +replayed):\n%s", diff)
	}
	if s := load(t, lastCompaction(j.events)).Session(); s.Fallback != "fast" {
		t.Errorf("a session read from the last compaction on continues with %q", s.Fallback)
	}
}

// The model whose price is not known is named.
func TestABudgetNamesTheModelWithoutAPrice(t *testing.T) {
	m := &two{fails: []int{1}}
	a := newAgent(m)
	a.Model = "m1"
	usd := agent.Dollar
	a.Budget.USD = &usd
	warning := ""
	r := &runner.Runner{Agent: a, Observe: func(e agent.Event) {
		if e.Kind == agent.EventWarning {
			warning = e.Text
		}
	}}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil || warning != "budget usd cannot be enforced for model m2: its price is unknown" {
		t.Errorf("%v, warning %q", err, warning)
	}
}
