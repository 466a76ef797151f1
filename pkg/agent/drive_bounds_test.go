package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
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
