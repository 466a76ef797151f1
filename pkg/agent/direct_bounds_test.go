package agent

import (
	"testing"
)

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
