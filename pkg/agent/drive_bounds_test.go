package agent

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// answersOf is a model that gives these answers.
type answersOf []*Response

func (a *answersOf) Generate(context.Context, *Request, func(Delta)) (*Response, error) {
	r := (*a)[0]
	*a = (*a)[1:]
	return r, nil
}

func said(text string, usage Usage, calls ...ToolCall) *Response {
	return &Response{Message: Message{Parts: []Part{Text(text)}, Calls: calls}, Usage: usage}
}

// TestPiecesOfASummaryAreNotShown, but that it is asked for again.
func TestPiecesOfASummaryAreNotShown(t *testing.T) {
	for _, tt := range []struct {
		d       Delta
		summary bool
		want    Event // without a Kind: nothing
	}{
		{Delta{Kind: DeltaText, Text: "x"}, false, Event{Kind: EventText, Turn: 2, Text: "x"}}, {Delta{Kind: DeltaReasoning, Text: "x"}, false, Event{Kind: EventReasoning, Turn: 2, Text: "x"}},
		{Delta{Kind: DeltaRetry, Text: "x", Attempt: 1, Wait: time.Second}, false, Event{Kind: EventRetry, Turn: 2, Error: "x", Attempt: 1, Millis: 1000}},
		{Delta{Kind: DeltaText, Text: "x"}, true, Event{}}, {Delta{Kind: DeltaReasoning, Text: "x"}, true, Event{}}, {Delta{Kind: DeltaRetry, Text: "x"}, true, Event{Kind: EventRetry, Turn: 2, Error: "x"}},
		{Delta{Kind: "odd", Text: "x"}, false, Event{}}, {Delta{Kind: "odd", Text: "x"}, true, Event{}},
	} {
		tr := newTree(Lease{})
		tr.now = func() time.Time { return time.Time{} }
		var shown Event
		tr.watch = func(e Event) { shown = e }
		(&run{tree: tr, agent: &Agent{}, session: &Session{}}).delta(&Request{Turn: 2, Summary: tt.summary}, tt.d)
		if diff := cmp.Diff(tt.want, shown); diff != "" {
			t.Errorf("%+v of a summary: %t: %s", tt.d, tt.summary, diff)
		}
	}
}

// TestARunCountsFromItsPrompt: not what the run before has consumed.
func TestARunCountsFromItsPrompt(t *testing.T) {
	r := &Runner{Agent: &Agent{Provider: &answersOf{said("one", Usage{})}}, From: &Resume{Total: TotalUsage{Usage: Usage{Requests: 5}}}}
	out, err := r.Run(t.Context(), UserText("go"))
	if err != nil || out.Total.Usage.Requests != 1 {
		t.Errorf("%v, %v, want one request", out.Total, err)
	}
}

// TestAnAnsweredRequestReservesNothing, even if its price is not known.
func TestAnAnsweredRequestReservesNothing(t *testing.T) {
	usage := Usage{InputTokens: 10, OutputTokens: 10}
	p := &answersOf{said("", usage, ToolCall{Name: "t", Args: "{}"}), said("done", usage)}
	a := &Agent{Provider: p, Budget: Budget{Turns: ptr[int64](50)}, Toolsets: []Toolset{ToolList{toolOf(func() (Result, error) { return Result{}, nil })}}}
	out, err := (&Runner{Agent: a}).Run(t.Context(), UserText("go"))
	if u := out.Total.Usage; err != nil || u.ReservedTokens != 0 || u.ReservedCost != 0 || u.OutputTokens != 20 {
		t.Errorf("%+v, %v", u, err)
	}
}

// probe is a tool that notes its call.
type probe struct {
	channel int
	got     *Invocation
}

func (p *probe) Spec() ToolSpec { return ToolSpec{Name: "t", Channel: p.channel} }
func (p *probe) Call(_ context.Context, inv *Invocation) (Result, error) {
	p.got = inv
	return Result{}, nil
}

// TestACallKnowsTheLevelsAboveIt, in all processes, and only one of an agent can be stopped.
func TestACallKnowsTheLevelsAboveIt(t *testing.T) {
	for _, channel := range []int{0, 1} {
		for _, below := range []bool{false, true} {
			p := &probe{channel: channel}
			model := &answersOf{said("", Usage{}, ToolCall{Name: "t", Args: "{}"}), said("done", Usage{})}
			a, want := &Agent{Slug: "a", Provider: model, Toolsets: []Toolset{ToolList{p}}}, 2
			if below {
				outer := &answersOf{said("", Usage{}, ToolCall{Name: "x", Args: `{"prompt":"go"}`}), said("done", Usage{})}
				a, want = &Agent{Slug: "b", Provider: outer, Toolsets: []Toolset{ToolList{&Subagent{Name: "x", Agent: a}}}}, 3
			}
			if _, err := (&Runner{Agent: a, Lease: Lease{Path: []string{"u", "v"}}}).Run(t.Context(), UserText("go")); err != nil {
				t.Fatal(err)
			}
			if p.got.Level != want || (p.got.stop != nil) != (channel > 0) {
				t.Errorf("the channel %d, a sub-agent: %t: the level is %d, want %d; it can be stopped: %t", channel, below, p.got.Level, want, p.got.stop != nil)
			}
		}
	}
}

// hiding offers no tools, but knows one.
type hiding struct{}

func (hiding) Tools(context.Context) ([]Tool, error) { return nil, nil }
func (hiding) Hidden(_ context.Context, _ *State, name string) error {
	if name == "h" {
		return errors.New("activate it")
	}
	return nil
}

// TestACallOfAHiddenToolSaysHowToGetIt, unless it had started: then its outcome is not known.
func TestACallOfAHiddenToolSaysHowToGetIt(t *testing.T) {
	for name, want := range map[string]string{"h": "activate it", "i": "there is no tool"} {
		for _, state := range []string{"", callStarted} {
			s := &Session{}
			s.ID, s.Running, s.Finish, s.Turn, s.RunTurns = "s", true, FinishStop, 1, 1
			s.Messages = []Message{UserText("go"), {Role: RoleAssistant, Calls: []ToolCall{{ID: "a", Name: name, Args: "{}"}, {ID: "b", Name: name, Args: "{}"}}}}
			s.Calls = []CallState{{State: state}, {State: state}}
			s.derive()
			r := &Runner{Agent: &Agent{Provider: &answersOf{said("done", Usage{})}, Toolsets: []Toolset{hiding{}}}, From: &Resume{Session: s}}
			if _, err := r.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			if state == callStarted {
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
	tool := toolOf(func() (Result, error) {
		if running.Add(1) == 2 {
			once.Do(func() { close(over) })
		}
		<-over
		return Result{}, nil
	})
	model := &answersOf{said("", Usage{}, ToolCall{Name: "t", Args: "{}"}, ToolCall{Name: "t", Args: "{}"}), said("done", Usage{})}
	a := &Agent{Provider: model, Toolsets: []Toolset{ToolList{tool}}, Budget: Budget{Calls: ptr[int64](2)}}
	r := &Runner{Agent: a, Observe: func(e Event) {
		if e.Kind == EventCallEnded && e.Result.Failed {
			t.Errorf("a call failed: %s", e.Result.Text())
			once.Do(func() { close(over) })
		}
	}}
	if _, err := r.Run(t.Context(), UserText("go")); err != nil {
		t.Error(err)
	}
}

// delegating is a tool that has a program make the agent's calls.
type delegating struct{}

func (delegating) Spec() ToolSpec { return ToolSpec{Name: "program"} }
func (delegating) Call(ctx context.Context, inv *Invocation) (Result, error) {
	p := &answersOf{said("", Usage{}, ToolCall{Name: "t", Args: "{}"}), said("done", Usage{})}
	_, err := inv.OnBehalf(ctx, Behalf{Model: "m", Provider: p, Offers: func(s ToolSpec) bool { return s.Name == "t" }}, UserText("go"))
	return Result{}, err
}

// TestAProgramThatCallsIsNoRunningCall, so that its calls can run.
func TestAProgramThatCallsIsNoRunningCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := false
		tool := toolOf(func() (Result, error) { ran = true; return Result{}, nil })
		model := &answersOf{said("", Usage{}, ToolCall{Name: "program", Args: "{}"}), said("done", Usage{})}
		r := &Runner{Agent: &Agent{Provider: model, Toolsets: []Toolset{ToolList{tool, delegating{}}}}, MaxProcesses: 1}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := r.Run(ctx, UserText("go")); err != nil || !ran {
			t.Errorf("%v, its call ran: %t", err, ran)
		}
	})
}

// breaking is a model whose second request fails.
type breaking struct {
	answersOf
	usage Usage
}

func (b *breaking) Generate(ctx context.Context, req *Request, delta func(Delta)) (*Response, error) {
	if len(b.answersOf) == 0 {
		return nil, &ModelError{Message: "broke", Usage: b.usage}
	}
	return b.answersOf.Generate(ctx, req, delta)
}

// TestAFailedRequestReservesIfItsPriceIsNotKnown.
func TestAFailedRequestReservesIfItsPriceIsNotKnown(t *testing.T) {
	for priced, want := range map[int]bool{0: true, 1: false} {
		usage := Usage{Requests: 1, InputTokens: 10, OutputTokens: 10, Priced: priced}
		p := &breaking{answersOf{said("", usage, ToolCall{Name: "t", Args: "{}"})}, Usage{Requests: 1, InputTokens: 1, Priced: priced}}
		a := &Agent{Provider: p, Budget: Budget{Turns: ptr[int64](50)}, Toolsets: []Toolset{ToolList{toolOf(func() (Result, error) { return Result{}, nil })}}}
		out, err := (&Runner{Agent: a}).Run(t.Context(), UserText("go"))
		if got := out.Total.Usage.ReservedTokens > 0; err == nil || got != want {
			t.Errorf("priced: %d: %+v, %v", priced, out.Total.Usage, err)
		}
	}
}

// TestWhatARunAddsToItsEvents: totals to those that say how far it came, and the context to a
// compaction.
func TestWhatARunAddsToItsEvents(t *testing.T) {
	for _, tt := range []struct {
		e              Event
		total, context bool
	}{{Event{Kind: EventCompaction}, true, true}, {Event{Kind: EventResume}, true, false}, {Event{Kind: EventEnd}, true, false}, {Event{Kind: EventMessage}, false, false}, {Event{Kind: EventMessage, Input: true}, true, false}, {Event{Kind: EventAnswer}, false, false}} {
		tr := newTree(Lease{})
		tr.shared = []byte("1")
		r := &run{tree: tr, agent: &Agent{Slug: "a"}, session: &Session{}}
		if r.fill(&tt.e); (tt.e.Total != nil) != tt.total || (tt.e.Context != nil) != tt.context || tt.e.Agent != "a" {
			t.Errorf("%+v", tt.e)
		}
	}
}
