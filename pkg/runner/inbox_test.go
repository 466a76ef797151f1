package runner

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
)

// TestDirectivesReachTheirAgent, in this process and in others, and only while it runs.
func TestDirectivesReachTheirAgent(t *testing.T) {
	hello := agent.UserText("hello")
	var sent []agent.Directive
	var cause error
	in := &inboxes{}
	stop := func(err error) { cause = err }
	in.add("here", &inbox{stop: stop})
	in.add("below", &inbox{stop: stop, below: func(d agent.Directive) { sent = append(sent, d) }})
	in.add("deeper", &inbox{below: func(d agent.Directive) { sent = append(sent, d) }})
	in.root.over = true
	for _, tt := range []struct {
		d           agent.Directive
		ok          bool
		sent, queue int // for the agents below, and in the list of here
		stopped     string
	}{
		{agent.Directive{Session: "", Message: &hello}, false, 0, 0, ""}, {agent.Directive{Session: "none", Message: &hello}, false, 0, 0, ""},
		{agent.Directive{Session: "here", Message: &hello}, true, 0, 1, ""}, {agent.Directive{Session: "here", Compact: true}, true, 0, 2, ""}, {agent.Directive{Session: "here", Stop: true, Reason: "r"}, true, 0, 2, "a person stopped it: r"},
		{agent.Directive{Session: "below", Message: &hello}, true, 1, 2, ""}, {agent.Directive{Session: "below", Compact: true}, true, 2, 2, ""}, {agent.Directive{Session: "below", Stop: true}, true, 2, 2, "a person stopped it"}, {agent.Directive{Session: "deeper", Stop: true}, true, 3, 2, ""},
	} {
		cause = nil
		if ok := in.send(tt.d); ok != tt.ok || len(sent) != tt.sent || len(in.sessions["here"].list) != tt.queue || (cause == nil) != (tt.stopped == "") || cause != nil && cause.Error() != tt.stopped {
			t.Errorf("send(%+v) = %v, %d sent, %d in the list, stopped by %v; want %+v", tt.d, ok, len(sent), len(in.sessions["here"].list), cause, tt)
		}
	}
	in.arrived("none")
	in.send(agent.Directive{Session: "deeper", Message: &hello})
	in.arrived("deeper")
	in.arrived("deeper") // never below zero
	for session, want := range map[string]int{"here": 1, "below": 1, "deeper": 0, "none": 0} {
		if n := in.close(session); n != want {
			t.Errorf("close(%s) = %d unread, want %d", session, n, want)
		}
		if in.send(agent.Directive{Session: session, Message: &hello}) {
			t.Errorf("%s gets a message after its end", session)
		}
	}
}

// TestMessagesAreReadBeforeARequestOrTheEnd, and by no other step.
func TestMessagesAreReadBeforeARequestOrTheEnd(t *testing.T) {
	end := []agent.Event{{Kind: agent.EventEnd}}
	for name, tt := range map[string]struct {
		step agent.Step
		want bool
	}{
		"a request": {agent.Step{Kind: agent.StepModel}, true}, "a judgment": {agent.Step{Kind: agent.StepAccept}, true}, "calls": {agent.Step{Kind: agent.StepCalls}, false}, "a summary": {agent.Step{Kind: agent.StepSummary, Events: end}, false}, "the end": {agent.Step{Kind: agent.StepApply, Events: end}, true},
		"another event": {agent.Step{Kind: agent.StepApply, Events: []agent.Event{{Kind: agent.EventWarning}}}, false}, "two events": {agent.Step{Kind: agent.StepApply, Events: append(end, end...)}, false}, "no event": {agent.Step{Kind: agent.StepApply}, false}, "a failed end": {agent.Step{Kind: agent.StepApply, Events: end, Err: errors.New("x")}, false},
	} {
		r, _ := ruled(agent.Verdict{}, agent.Verdict{})
		r.inbox = &inbox{list: []agent.Directive{{Compact: true}, {Reason: "next"}}}
		d, ok := r.directed(t.Context(), tt.step)
		if ok != tt.want || ok && !d.Compact || len(r.inbox.list) != map[bool]int{true: 1, false: 2}[ok] {
			t.Errorf("%s: %+v, %v, want %v", name, d, ok, tt.want)
		}
	}
	// A message that is not recorded is not followed by anything.
	full := errors.New("disk full")
	r, _ := ruled(agent.Verdict{}, agent.Verdict{})
	r.tree.broken = full
	hello := agent.UserText("hello")
	if err := r.follow(t.Context(), agent.Directive{Message: &hello}); err != full {
		t.Errorf("follow = %v, want %v", err, full)
	}
}

// TestEveryAgentHasItsOwnInbox: a message to the root is not read by an agent below.
func TestEveryAgentHasItsOwnInbox(t *testing.T) {
	root, _ := ruled(agent.Verdict{}, agent.Verdict{})
	below := &run{node: root.below(&agent.Agent{}, "")}
	below.session.ID = "s"
	stopped := false
	root.open(nil)
	below.open(func(error) { stopped = true })
	in := root.tree.inboxes
	in.send(agent.Directive{Compact: true})
	if len(in.root.list) != 1 || len(below.inbox.list) != 0 || root.inbox != &in.root {
		t.Errorf("the lists are %v and %v", in.root.list, below.inbox.list)
	}
	if in.send(agent.Directive{Session: "s", Stop: true}); !stopped {
		t.Error("the agent below is not stopped")
	}
}

// TestOnlyTheTopWarnsOfUnreadMessages.
func TestOnlyTheTopWarnsOfUnreadMessages(t *testing.T) {
	hello := agent.UserText("hello")
	for n, want := range []string{"", "a message to agent a arrived too late: its run has ended", "2 messages to agent a arrived too late: its run has ended"} {
		for above := range 2 {
			var texts []string
			tr := &tree{inboxes: &inboxes{}, above: above, watch: func(e agent.Event) { texts = append(texts, e.Text) }}
			tr.inboxes.add("s", &inbox{})
			for range n {
				tr.inboxes.send(agent.Directive{Session: "s", Message: &hello})
			}
			tr.unread(agent.Event{Session: "s", Agent: "a"})
			if got := strings.Join(texts, " "); got != want && above == 0 || above > 0 && got != "" {
				t.Errorf("%d unread messages, %d processes above: %q", n, above, got)
			}
		}
	}
}

// TestDirectivesGoDownToAgentsInOtherProcesses: to the agent of the call as to its root.
func TestDirectivesGoDownToAgentsInOtherProcesses(t *testing.T) {
	r, inv := ruled(agent.Verdict{}, agent.Verdict{})
	in := r.tree.inboxes
	r.directBelow(inv, r.away(inv.Key), "early") // nobody reads yet
	var sent []string
	r.Below(inv, func(d agent.Directive) { sent = append(sent, fmt.Sprintf("%q", d.Session)) })
	stopped := false
	callOf(inv).stop = func(error) { stopped = true }
	r.directBelow(inv, r.away(inv.Key), "top")
	r.directBelow(inv, r.away("n.1.1"), "nested")
	for _, session := range []string{"early", "top", "nested"} {
		in.send(agent.Directive{Session: session, Compact: true})
		in.send(agent.Directive{Session: session, Stop: true})
	}
	if got := strings.Join(sent, " "); got != `"" "nested" "nested"` || !stopped {
		t.Errorf("sent to %s, stopped: %v", got, stopped)
	}
	if r.Below(inv, nil); len(in.below) != 0 {
		t.Error("the way down is kept after its end")
	}
}
