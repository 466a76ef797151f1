package runner

import (
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

// TestWhatIsSentMeanwhile comes before the next request or the end of a run, and not otherwise.
func TestWhatIsSentMeanwhile(t *testing.T) {
	end := (&agent.Session{}).End(agent.StatusOK, nil)
	failed := (&agent.Session{}).End(agent.StatusFailed, agent.ErrLength)
	for _, tt := range []struct {
		step agent.Step
		want bool
	}{
		{agent.Step{Kind: agent.StepModel}, true}, {agent.Step{Kind: agent.StepAccept}, true}, {end, true}, {failed, false}, {agent.Step{Kind: agent.StepCalls}, false}, {agent.Step{Kind: agent.StepSummary}, false}, {agent.Step{Kind: agent.StepPrompt}, false},
		{agent.Step{Kind: agent.StepApply, Events: []agent.Event{{Kind: agent.EventCallEnded}}}, false}, {agent.Step{Kind: agent.StepApply, Events: []agent.Event{{Kind: agent.EventCallEnded}, {Kind: agent.EventEnd}}}, false},
	} {
		for _, source := range []string{"meanwhile", "inbox", "none"} {
			tr := newTree(agent.Lease{})
			r := &run{node: node{tree: tr, session: &agent.Session{}}, inbox: &inbox{}}
			r.session.ID, r.session.Turn = "s", 3
			tr.meanwhile = func(session string, turn int) (agent.Directive, bool) {
				if session != "s" || turn != 4 {
					t.Errorf("asked about %s, turn %d", session, turn)
				}
				return agent.Directive{Reason: "meanwhile"}, source == "meanwhile"
			}
			if source == "inbox" {
				r.inbox.list = []agent.Directive{{Reason: "inbox"}, {Reason: "later"}}
			}
			d, ok := r.directed(t.Context(), tt.step)
			if want := tt.want && source != "none"; ok != want || ok && d.Reason != source || source == "inbox" && len(r.inbox.list) != 2-map[bool]int{true: 1}[ok] {
				t.Errorf("%+v from %s: %+v, %t", tt.step, source, d, ok)
			}
		}
	}
}

// TestMessagesThatWereSentAndNotRead are counted, orders are not.
func TestMessagesThatWereSentAndNotRead(t *testing.T) {
	m := agent.UserText("x")
	for _, remote := range []bool{false, true} {
		in, sent := &inboxes{}, 0
		b := &inbox{}
		if remote {
			b.below = func(agent.Directive) { sent++ }
		}
		in.add("s", b)
		for _, d := range []agent.Directive{{Session: "s", Message: &m}, {Session: "s", Compact: true}, {Session: "s", Message: &m}, {Session: "s", Message: &m}} {
			if !in.send(d) {
				t.Error("it was not sent")
			}
		}
		if in.send(agent.Directive{Session: "t", Message: &m}) {
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
		if in.send(agent.Directive{Session: "s", Message: &m}) || in.close("s") != 0 {
			t.Error("it is not closed")
		}
	}
}

// TestOnlyAMessageToAnAgentThatIsGoneIsAWarning: after the end of the run, it is not.
func TestOnlyAMessageToAnAgentThatIsGoneIsAWarning(t *testing.T) {
	m := agent.UserText("x")
	for _, tt := range []struct {
		session string
		over    bool
		want    int
	}{{"", false, 0}, {"", true, 0}, {"s", false, 1}, {"s", true, 1}} {
		c := idle(&Runner{Agent: &agent.Agent{}})
		c.runner.inboxes.root.over = tt.over
		if c.Direct(agent.Directive{Session: tt.session, Message: &m}); len(c.queue) != tt.want {
			t.Errorf("%+v: the events are %v", tt, c.queue)
		}
	}
}
