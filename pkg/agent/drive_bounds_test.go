package agent

import (
	"context"
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

// TestWhatIsSentMeanwhile comes before the next request or the end of a run, and not otherwise.
func TestWhatIsSentMeanwhile(t *testing.T) {
	end := (&Session{}).end(StatusOK, nil)
	failed := (&Session{}).end(StatusFailed, ErrLength)
	for _, tt := range []struct {
		step Step
		want bool
	}{
		{Step{Kind: StepModel}, true}, {Step{Kind: StepAccept}, true}, {end, true}, {failed, false}, {Step{Kind: StepCalls}, false}, {Step{Kind: StepSummary}, false}, {Step{Kind: StepPrompt}, false},
		{Step{Kind: StepApply, Events: []Event{{Kind: EventCallEnded}}}, false}, {Step{Kind: StepApply, Events: []Event{{Kind: EventCallEnded}, {Kind: EventEnd}}}, false},
	} {
		for _, source := range []string{"meanwhile", "inbox", "none"} {
			tr := newTree(Lease{})
			r := &run{tree: tr, session: &Session{}, inbox: &inbox{}}
			r.session.ID, r.session.Turn = "s", 3
			tr.meanwhile = func(session string, turn int) (Directive, bool) {
				if session != "s" || turn != 4 {
					t.Errorf("asked about %s, turn %d", session, turn)
				}
				return Directive{Reason: "meanwhile"}, source == "meanwhile"
			}
			if source == "inbox" {
				r.inbox.list = []Directive{{Reason: "inbox"}, {Reason: "later"}}
			}
			d, ok := r.directed(tt.step)
			if want := tt.want && source != "none"; ok != want || ok && d.Reason != source || source == "inbox" && len(r.inbox.list) != 2-map[bool]int{true: 1}[ok] {
				t.Errorf("%+v from %s: %+v, %t", tt.step, source, d, ok)
			}
		}
	}
}

// TestMessagesThatWereSentAndNotRead are counted, orders are not.
func TestMessagesThatWereSentAndNotRead(t *testing.T) {
	m := UserText("x")
	for _, remote := range []bool{false, true} {
		in, sent := &inboxes{}, 0
		b := &inbox{}
		if remote {
			b.below = func(Directive) { sent++ }
		}
		in.add("s", b)
		for _, d := range []Directive{{Session: "s", Message: &m}, {Session: "s", Compact: true}, {Session: "s", Message: &m}, {Session: "s", Message: &m}} {
			if !in.send(d) {
				t.Error("it was not sent")
			}
		}
		if in.send(Directive{Session: "t", Message: &m}) {
			t.Error("it was sent to nobody")
		}
		want := 3
		if remote {
			in.arrived("s")
			want--
		}
		if got := in.close("s"); got != want || (sent == 4) != remote {
			t.Errorf("in another process: %t: %d were not read, want %d; %d were sent", remote, got, want, sent)
		}
		if in.send(Directive{Session: "s", Message: &m}) || in.close("s") != 0 {
			t.Error("it is not closed")
		}
	}
}

// TestOnlyAMessageToAnAgentThatIsGoneIsAWarning: after the end of the run, it is not.
func TestOnlyAMessageToAnAgentThatIsGoneIsAWarning(t *testing.T) {
	m := UserText("x")
	for _, tt := range []struct {
		session string
		over    bool
		want    int
	}{{"", false, 0}, {"", true, 0}, {"s", false, 1}, {"s", true, 1}} {
		c := idle(&Runner{Agent: &Agent{}})
		c.runner.inboxes.root.over = tt.over
		if c.Direct(Directive{Session: tt.session, Message: &m}); len(c.queue) != tt.want {
			t.Errorf("%+v: the events are %v", tt, c.queue)
		}
	}
}
