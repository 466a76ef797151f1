package channel

import (
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// resumed rebuilds what events leave for a caller that resumes.
func resumed(t *testing.T, events []agent.Event) *runner.Resume {
	t.Helper()
	var b runner.Rebuilder
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
func resumeChild(t *testing.T, before []agent.Event, play func(*peer), change func(*runner.Runner)) (*child, []agent.Event) {
	t.Helper()
	c := &child{play: play}
	var events []agent.Event
	r := &runner.Runner{
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

// An agent that continues knows what its earlier processes and their sub-agents consumed,
// whether its caller died too or not. It does not need the events of a sub-agent that
// answered.
func TestWhatWasSpentOutlivesTheProcess(t *testing.T) {
	deep := func(e agent.Event) agent.Event {
		e.Session, e.Agent, e.Parent, e.Depth = "T", "sub", "S.1.1", 1
		return e
	}
	ended := of(agent.Event{Kind: agent.EventCallEnded, CallID: "call", Tool: "t", Key: "S.1.1", N: 1, Result: &agent.ToolResult{CallID: "call", Name: "t"}})
	first := func(p *peer) {
		p.send(session(), prompt(), answer(calls("t", "{}"), one), started("S.1.1"),
			deep(session()), deep(prompt()), deep(answer(says("sub"), one)), deep(end(agent.StatusOK, "sub")), ended)
	}
	second := func(start *agent.Start) func(p *peer) {
		return func(p *peer) {
			p.in.Buffer(nil, MaxLine)
			p.in.Scan()
			if err := json.Unmarshal(p.in.Bytes(), start); err != nil {
				t.Error(err)
			}
			p.send(of(agent.Event{Kind: agent.EventResume}), answer(says("hi"), one), end(agent.StatusOK, "hi"))
		}
	}
	check := func(t *testing.T, name string, start agent.Start, result string) {
		t.Helper()
		r := &runner.Runner{Agent: &agent.Agent{Slug: "inner", Provider: &answers{says("hi")}}}
		out, err := r.Start(t.Context(), start).Wait()
		if err != nil || out.Total.Usage.Requests != 3 || out.Total.Calls != 1 {
			t.Errorf("%s: Wait = %+v, %v", name, out, err)
		}
		for _, e := range start.History {
			if e.Session != "S" {
				t.Errorf("%s: the history has the event %s of session %s", name, e.Kind, e.Session)
			}
		}
		if start.Session != "S" || result != "hi" {
			t.Errorf("%s: session %q continues; the result is %q", name, start.Session, result)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var start agent.Start
		c, events := callChild(t, first, func(r *runner.Runner) { // and again without an event
			r.Agent.Toolsets[0].(agent.ToolList)[0].(*child).again = []func(*peer){func(*peer) {}, second(&start)}
		})
		check(t, "restarted", start, c.result.Text())
		before := upTo(events, func(e agent.Event) bool { return e.Kind == agent.EventCallEnded })
		c, _ = resumeChild(t, before, second(&start), nil)
		check(t, "resumed", start, c.result.Text())
	})
}

// What an agent said is not in memory once its call has ended.
func TestAnAgentThatEndedIsForgotten(t *testing.T) {
	const size, turns = 1 << 20, 20
	text := strings.Repeat("x", size)
	var list []agent.Message
	for range turns {
		list = append(list, agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{Name: "child", Args: `{"prompt":"go"}`}}})
	}
	n := 0
	c := &child{play: func(p *peer) {
		n++
		id := func(e agent.Event) agent.Event {
			e.Session = "S" + string(rune('A'+n))
			return e
		}
		first := answer(agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(text)}, Calls: []agent.ToolCall{{ID: "call", Name: "t", Args: "{}"}}}, one)
		key := id(agent.Event{}).Session + ".1.1"
		p.send(id(session()), id(prompt()), id(first), id(started(key)),
			id(agent.Event{Kind: agent.EventCallEnded, CallID: "call", Tool: "t", Key: key, N: 1, Result: &agent.ToolResult{CallID: "call", Name: "t"}}),
			id(answer(says("hi"), one)), id(end(agent.StatusOK, "hi")))
	}}
	model := append(answers(list), says("done"))
	var grown uint64
	before := heap()
	r := &runner.Runner{Agent: &agent.Agent{Slug: "outer", LoopWarn: -1, LoopEnd: -1, Provider: &model, Toolsets: []agent.Toolset{agent.ToolList{c}}}, Observe: func(e agent.Event) {
		if e.Kind == agent.EventEnd && e.Depth == 0 {
			grown = heap() - min(before, heap())
		}
	}}
	if _, err := r.Run(t.Context(), agent.UserText("go")); err != nil {
		t.Fatal(err)
	}
	if n != turns || grown > size*turns/2 {
		t.Errorf("%d calls, and %d bytes of memory for them", n, grown)
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what was pooled
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
