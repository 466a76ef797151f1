package channel

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/agents-exe/agents/pkg/agent"
)

// resumed rebuilds what events leave for a caller that resumes.
func resumed(t *testing.T, events []agent.Event) *agent.Resume {
	t.Helper()
	var b agent.Rebuilder
	for _, e := range events {
		if err := b.Apply(e); e.Kind.Lasting() && err != nil {
			t.Fatal(err)
		}
	}
	from, _ := b.Resume()
	return from
}

// upTo returns the events up to the first for which last is true.
func upTo(events []agent.Event, last func(agent.Event) bool) []agent.Event {
	return slices.Clone(events[:slices.IndexFunc(events, last)+1])
}

// A caller that died after its agent had ended, and before it recorded the result, does
// not ask the agent again.
func TestAnAgentThatHadEndedIsNotAskedAgain(t *testing.T) {
	for status, want := range map[agent.Status]string{
		agent.StatusOK:      "hi",
		agent.StatusPartial: "[partial] agent inner answered early: the budget is nearly spent\nhi",
		agent.StatusBudget:  "[budget] agent inner did not answer: budget turns 2 is spent",
	} {
		synctest.Test(t, func(t *testing.T) {
			play := func(p *peer) {
				m := agent.UserText("the budget is nearly spent")
				last := end(status, "hi")
				p.send(session(), prompt())
				switch status {
				case agent.StatusPartial:
					last.Error = "the budget is nearly spent"
					p.send(of(agent.Event{Kind: agent.EventMessage, Message: &m, Closing: true, Error: last.Error}), answer(says("hi"), one))
				case agent.StatusBudget:
					last.Error = "budget turns 2 is spent"
				default:
					p.send(answer(says("hi"), one))
				}
				p.send(last)
			}
			_, events := callChild(t, play, nil)
			before := upTo(events, func(e agent.Event) bool { return e.Kind == agent.EventEnd })
			asked := 0
			_, events = resumeChild(t, before, func(p *peer) { asked++; play(p) }, nil)
			var got string
			for _, e := range events {
				if e.Kind == agent.EventCallEnded {
					got = e.Result.Text()
				}
			}
			if asked != 0 || got != want {
				t.Errorf("%s: asked %d times again; the result is %q, want %q", status, asked, got, want)
			}
		})
	}
}

// resumeChild resumes a caller whose process ended after some events.
func resumeChild(t *testing.T, before []agent.Event, play func(*peer), change func(*agent.Runner)) (*child, []agent.Event) {
	t.Helper()
	c := &child{play: play}
	var events []agent.Event
	r := &agent.Runner{
		From:    resumed(t, before),
		Agent:   &agent.Agent{Slug: "outer", Provider: &answers{says("done")}, Toolsets: []agent.Toolset{agent.ToolList{c}}},
		Observe: func(e agent.Event) { events = append(events, e) },
	}
	if change != nil {
		change(r)
	}
	if _, err := r.Resume(t.Context()); err != nil {
		t.Error(err)
	}
	return c, events
}

// A summary of an agent in another process is counted once when a process resumes it.
func TestASummaryIsCountedOnceAfterAResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := agent.UserText("what was before")
		_, events := callChild(t, func(p *peer) {
			total := &agent.TotalUsage{Usage: one}
			p.send(session(), prompt(), answer(calls("t", "{}"), one), started("S.1.1"),
				of(agent.Event{Kind: agent.EventCallEnded, CallID: "call", Tool: "t", Key: "S.1.1", N: 1, Result: &agent.ToolResult{CallID: "call", Name: "t"}}),
				of(agent.Event{Kind: agent.EventCompaction, Turn: 1, Messages: []agent.Message{m}, Usage: &one, Total: total}))
		}, nil)
		before := upTo(events, func(e agent.Event) bool { return e.Kind == agent.EventCompaction })
		var start agent.Start
		resumeChild(t, before, func(p *peer) {
			p.in.Buffer(nil, MaxLine)
			p.in.Scan()
			if err := json.Unmarshal(p.in.Bytes(), &start); err != nil {
				t.Error(err)
			}
			p.send(answer(says("hi"), one), end(agent.StatusOK, "hi"))
		}, nil)
		if total := resumed(t, start.History).Total; total.Usage.Requests != 2 {
			t.Errorf("the agent resumes with %d requests, want 2", total.Usage.Requests)
		}
	})
}
