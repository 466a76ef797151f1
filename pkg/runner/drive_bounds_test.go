package runner

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"

	"github.com/google/go-cmp/cmp"
)

// answersOf is a model that gives these answers.
type answersOf []*agent.Response

func (a *answersOf) Generate(context.Context, *agent.Request, func(agent.Delta)) (*agent.Response, error) {
	r := (*a)[0]
	*a = (*a)[1:]
	return r, nil
}

func said(text string, usage agent.Usage, calls ...agent.ToolCall) *agent.Response {
	return &agent.Response{Message: agent.Message{Parts: []agent.Part{agent.Text(text)}, Calls: calls}, Usage: usage}
}

// TestPiecesOfASummaryAreNotShown, but that it is asked for again.
func TestPiecesOfASummaryAreNotShown(t *testing.T) {
	for _, tt := range []struct {
		d       agent.Delta
		summary bool
		want    agent.Event // without a Kind: nothing
	}{
		{agent.Delta{Kind: agent.DeltaText, Text: "x"}, false, agent.Event{Kind: agent.EventText, Turn: 2, Text: "x"}}, {agent.Delta{Kind: agent.DeltaReasoning, Text: "x"}, false, agent.Event{Kind: agent.EventReasoning, Turn: 2, Text: "x"}},
		{agent.Delta{Kind: agent.DeltaRetry, Text: "x", Attempt: 1, Wait: time.Second}, false, agent.Event{Kind: agent.EventRetry, Turn: 2, Error: "x", Attempt: 1, Millis: 1000}},
		{agent.Delta{Kind: agent.DeltaText, Text: "x"}, true, agent.Event{}}, {agent.Delta{Kind: agent.DeltaReasoning, Text: "x"}, true, agent.Event{}}, {agent.Delta{Kind: agent.DeltaRetry, Text: "x"}, true, agent.Event{Kind: agent.EventRetry, Turn: 2, Error: "x"}},
		{agent.Delta{Kind: "odd", Text: "x"}, false, agent.Event{}}, {agent.Delta{Kind: "odd", Text: "x"}, true, agent.Event{}},
	} {
		tr := newTree(agent.Lease{})
		tr.now = func() time.Time { return time.Time{} }
		var shown agent.Event
		tr.watch = func(e agent.Event) { shown = e }
		(&run{node: node{tree: tr, agent: &agent.Agent{}, session: &agent.Session{}}}).delta(&agent.Request{Turn: 2, Summary: tt.summary}, tt.d)
		if diff := cmp.Diff(tt.want, shown); diff != "" {
			t.Errorf("%+v of a summary: %t: %s", tt.d, tt.summary, diff)
		}
	}
}

// TestARunCountsFromItsPrompt: not what the run before has consumed.
func TestARunCountsFromItsPrompt(t *testing.T) {
	r := &Runner{Agent: &agent.Agent{Provider: &answersOf{said("one", agent.Usage{})}}, From: &Resume{Total: agent.TotalUsage{Usage: agent.Usage{Requests: 5}}}}
	out, err := r.Run(t.Context(), agent.UserText("go"))
	if err != nil || out.Total.Usage.Requests != 1 {
		t.Errorf("%v, %v, want one request", out.Total, err)
	}
}

// TestAnAnsweredRequestReservesNothing, even if its price is not known.
func TestAnAnsweredRequestReservesNothing(t *testing.T) {
	usage := agent.Usage{InputTokens: 10, OutputTokens: 10}
	p := &answersOf{said("", usage, agent.ToolCall{Name: "t", Args: "{}"}), said("done", usage)}
	a := &agent.Agent{Provider: p, Budget: agent.Budget{Turns: ptr[int64](50)}, Toolsets: []agent.Toolset{agent.ToolList{toolOf(func() (agent.Result, error) { return agent.Result{}, nil })}}}
	out, err := (&Runner{Agent: a}).Run(t.Context(), agent.UserText("go"))
	if u := out.Total.Usage; err != nil || u.ReservedTokens != 0 || u.ReservedCost != 0 || u.OutputTokens != 20 {
		t.Errorf("%+v, %v", u, err)
	}
}

// probe is a tool that notes its call.
type probe struct {
	channel int
	got     *agent.Invocation
}

func (p *probe) Spec() agent.ToolSpec { return agent.ToolSpec{Name: "t", Channel: p.channel} }
func (p *probe) Call(_ context.Context, inv *agent.Invocation) (agent.Result, error) {
	p.got = inv
	return agent.Result{}, nil
}

// TestACallKnowsTheLevelsAboveIt, in all processes, and only one of an agent can be stopped.
func TestACallKnowsTheLevelsAboveIt(t *testing.T) {
	for _, channel := range []int{0, 1} {
		for _, below := range []bool{false, true} {
			p := &probe{channel: channel}
			model := &answersOf{said("", agent.Usage{}, agent.ToolCall{Name: "t", Args: "{}"}), said("done", agent.Usage{})}
			a, want := &agent.Agent{Slug: "a", Provider: model, Toolsets: []agent.Toolset{agent.ToolList{p}}}, 2
			if below {
				outer := &answersOf{said("", agent.Usage{}, agent.ToolCall{Name: "x", Args: `{"prompt":"go"}`}), said("done", agent.Usage{})}
				a, want = &agent.Agent{Slug: "b", Provider: outer, Toolsets: []agent.Toolset{agent.ToolList{&agent.Subagent{Name: "x", Agent: a}}}}, 3
			}
			if _, err := (&Runner{Agent: a, Lease: agent.Lease{Path: []string{"u", "v"}}}).Run(t.Context(), agent.UserText("go")); err != nil {
				t.Fatal(err)
			}
			if p.got.Level != want || (callOf(p.got).stop != nil) != (channel > 0) {
				t.Errorf("the channel %d, a sub-agent: %t: the level is %d, want %d; it can be stopped: %t", channel, below, p.got.Level, want, callOf(p.got).stop != nil)
			}
		}
	}
}

// hiding offers no tools, but knows one.
type hiding struct{}

func (hiding) Tools(context.Context) ([]agent.Tool, error) { return nil, nil }
func (hiding) Hidden(_ context.Context, _ *agent.State, name string) error {
	if name == "h" {
		return errors.New("activate it")
	}
	return nil
}

// read reads the State of s, which computes what follows from it.
func read(t *testing.T, s *agent.Session) {
	t.Helper()
	text, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(text, s)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestACallOfAHiddenToolSaysHowToGetIt, unless it had started: then its outcome is not known.
func TestACallOfAHiddenToolSaysHowToGetIt(t *testing.T) {
	for name, want := range map[string]string{"h": "activate it", "i": "there is no tool"} {
		for _, state := range []string{"", "started"} {
			s := &agent.Session{}
			s.ID, s.Running, s.Finish, s.Turn, s.RunTurns = "s", true, agent.FinishStop, 1, 1
			s.Messages = []agent.Message{agent.UserText("go"), {Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "a", Name: name, Args: "{}"}, {ID: "b", Name: name, Args: "{}"}}}}
			s.Calls = []agent.CallState{{State: state}, {State: state}}
			read(t, s)
			r := &Runner{Agent: &agent.Agent{Provider: &answersOf{said("done", agent.Usage{})}, Toolsets: []agent.Toolset{hiding{}}}, From: &Resume{Session: s}}
			if _, err := r.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			if state == "started" {
				want = "not run again"
			}
			for _, result := range r.Session().Messages[2].Results {
				if !strings.Contains(result.Text(), want) {
					t.Errorf("%s, %q: the result is %q, want %q", name, state, result.Text(), want)
				}
			}
		}
	}
}

// TestACallCountsOnceWhileItRuns: the last two of a budget run at the same time.
func TestACallCountsOnceWhileItRuns(t *testing.T) {
	var once sync.Once
	over := make(chan struct{})
	running := atomic.Int32{}
	tool := toolOf(func() (agent.Result, error) {
		if running.Add(1) == 2 {
			once.Do(func() { close(over) })
		}
		<-over
		return agent.Result{}, nil
	})
	model := &answersOf{said("", agent.Usage{}, agent.ToolCall{Name: "t", Args: "{}"}, agent.ToolCall{Name: "t", Args: "{}"}), said("done", agent.Usage{})}
	a := &agent.Agent{Provider: model, Toolsets: []agent.Toolset{agent.ToolList{tool}}, Budget: agent.Budget{Calls: ptr[int64](2)}}
	r := &Runner{Agent: a, Observe: func(e agent.Event) {
		if e.Kind == agent.EventCallEnded && e.Result.Failed {
			t.Errorf("a call failed: %s", e.Result.Text())
			once.Do(func() { close(over) })
		}
	}}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Error(err)
	}
}

// delegating is a tool that has a program make the agent's calls.
type delegating struct{}

func (delegating) Spec() agent.ToolSpec { return agent.ToolSpec{Name: "program"} }
func (delegating) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	p := &answersOf{said("", agent.Usage{}, agent.ToolCall{Name: "t", Args: "{}"}), said("done", agent.Usage{})}
	_, err := OnBehalf(ctx, inv, Behalf{Model: "m", Provider: p, Offers: func(s agent.ToolSpec) bool { return s.Name == "t" }}, agent.UserText("go"))
	return agent.Result{}, err
}

// TestAProgramThatCallsIsNoRunningCall, so that its calls can run.
func TestAProgramThatCallsIsNoRunningCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := false
		tool := toolOf(func() (agent.Result, error) { ran = true; return agent.Result{}, nil })
		model := &answersOf{said("", agent.Usage{}, agent.ToolCall{Name: "program", Args: "{}"}), said("done", agent.Usage{})}
		r := &Runner{Agent: &agent.Agent{Provider: model, Toolsets: []agent.Toolset{agent.ToolList{tool, delegating{}}}}, MaxProcesses: 1}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := r.Run(ctx, agent.UserText("go")); err != nil || !ran {
			t.Errorf("%v, its call ran: %t", err, ran)
		}
	})
}

// breaking is a model whose second request fails.
type breaking struct {
	answersOf
	usage agent.Usage
}

func (b *breaking) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	if len(b.answersOf) == 0 {
		return nil, &agent.ModelError{Message: "broke", Usage: b.usage}
	}
	return b.answersOf.Generate(ctx, req, delta)
}

// TestAFailedRequestReservesIfItsPriceIsNotKnown.
func TestAFailedRequestReservesIfItsPriceIsNotKnown(t *testing.T) {
	for priced, want := range map[int]bool{0: true, 1: false} {
		usage := agent.Usage{Requests: 1, InputTokens: 10, OutputTokens: 10, Priced: priced}
		p := &breaking{answersOf{said("", usage, agent.ToolCall{Name: "t", Args: "{}"})}, agent.Usage{Requests: 1, InputTokens: 1, Priced: priced}}
		a := &agent.Agent{Provider: p, Budget: agent.Budget{Turns: ptr[int64](50)}, Toolsets: []agent.Toolset{agent.ToolList{toolOf(func() (agent.Result, error) { return agent.Result{}, nil })}}}
		out, err := (&Runner{Agent: a}).Run(t.Context(), agent.UserText("go"))
		if got := out.Total.Usage.ReservedTokens > 0; err == nil || got != want {
			t.Errorf("priced: %d: %+v, %v", priced, out.Total.Usage, err)
		}
	}
}

// TestWhatARunAddsToItsEvents: totals to those that say how far it came, and the context to a
// compaction.
func TestWhatARunAddsToItsEvents(t *testing.T) {
	for _, tt := range []struct {
		e              agent.Event
		total, context bool
	}{{agent.Event{Kind: agent.EventCompaction}, true, true}, {agent.Event{Kind: agent.EventResume}, true, false}, {agent.Event{Kind: agent.EventEnd}, true, false}, {agent.Event{Kind: agent.EventMessage}, false, false}, {agent.Event{Kind: agent.EventMessage, Input: true}, true, false}, {agent.Event{Kind: agent.EventAnswer}, false, false}} {
		tr := newTree(agent.Lease{})
		tr.shared = []byte("1")
		r := &run{node: node{tree: tr, agent: &agent.Agent{Slug: "a"}, session: &agent.Session{}}}
		if r.fill(&tt.e); (tt.e.Total != nil) != tt.total || (tt.e.Context != nil) != tt.context || tt.e.Agent != "a" {
			t.Errorf("%+v", tt.e)
		}
	}
}
