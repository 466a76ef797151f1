package channel

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// answers is a model that answers with a list of messages in turn, and then with the
// last again.
type answers []agent.Message

func (a *answers) Generate(ctx context.Context, _ *agent.Request, _ func(agent.Delta)) (*agent.Response, error) {
	m := (*a)[0]
	if len(*a) > 1 {
		*a = (*a)[1:]
	}
	return &agent.Response{Message: m, Usage: agent.Usage{Requests: 1, InputTokens: 10, OutputTokens: 2}}, nil
}

func says(text string) agent.Message {
	return agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(text)}}
}

func calls(tool, args string) agent.Message {
	return agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "call", Name: tool, Args: args}}}
}

// A child is a tool that plays an agent in another process.
type child struct {
	play   func(p *peer)
	again  []func(p *peer) // what plays next, if the output of one before ends early
	result agent.Result
	err    error
}

func (c *child) Spec() agent.ToolSpec {
	return agent.ToolSpec{Name: "child", Schema: json.RawMessage(`{"type":"object"}`), Channel: Version}
}

// grace is how long a child lives after its call was cancelled.
const grace = 2 * time.Second

func (c *child) Call(ctx context.Context, inv *agent.Invocation) (agent.Result, error) {
	c.process(ctx, inv, c.play)
	for _, play := range c.again {
		if _, early := errors.AsType[*EndedError](c.err); early {
			c.process(ctx, inv, play)
		}
	}
	inv.Caller.Called(ctx, inv, c.err)
	return c.result, c.err
}

// process is one process of the agent.
func (c *child) process(ctx context.Context, inv *agent.Invocation, play func(p *peer)) {
	childIn, toChild := io.Pipe()
	fromChild, childOut := io.Pipe()
	alive, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, kill) })
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		play(&peer{in: bufio.NewScanner(childIn), out: childOut, alive: alive})
		childOut.Close()
		childIn.Close()
	}()
	killed := context.AfterFunc(alive, func() { childOut.Close(); childIn.Close() })
	defer killed()
	c.result, c.err = Call(ctx, inv, fromChild, toChild)
	fromChild.Close()
	kill()
	<-ended
}

// A peer is the side of the agent, played by a test.
type peer struct {
	in    *bufio.Scanner
	out   io.Writer
	alive context.Context
	seq   int64
}

// raw writes text as it is.
func (p *peer) raw(text string) { _, _ = io.WriteString(p.out, text) }

// send writes events with the next numbers.
func (p *peer) send(events ...agent.Event) {
	for _, e := range events {
		p.seq++
		e.Seq = p.seq
		line, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		p.raw(string(line) + "\n")
	}
}

// Events of a run without mistakes.
func session() agent.Event {
	return agent.Event{Kind: agent.EventSession, Session: "S", Agent: "inner"}
}

func of(e agent.Event) agent.Event {
	if e.Session == "" {
		e.Session = "S"
	}
	return e
}

func prompt() agent.Event {
	m := agent.UserText("go")
	return of(agent.Event{Kind: agent.EventMessage, Message: &m})
}

func answer(m agent.Message, u agent.Usage) agent.Event {
	return of(agent.Event{Kind: agent.EventAnswer, Message: &m, Finish: agent.FinishStop, Usage: &u})
}

func started(key string) agent.Event {
	return of(agent.Event{Kind: agent.EventCallStarted, CallID: "call", Tool: "t", Key: key, N: 1})
}

func end(status agent.Status, text string) agent.Event {
	return of(agent.Event{Kind: agent.EventEnd, Status: status, Text: text})
}

var one = agent.Usage{Requests: 1, InputTokens: 10, OutputTokens: 2, Cost: agent.Dollar, Priced: 1}

// callChild runs an agent whose model calls a child, for at most an hour.
func callChild(t *testing.T, play func(*peer), change func(*runner.Runner)) (*child, []agent.Event) {
	t.Helper()
	c := &child{play: play}
	model := &answers{calls("child", `{"prompt":"go"}`), says("done")}
	var events []agent.Event
	r := &runner.Runner{
		Agent:   &agent.Agent{Slug: "outer", Provider: model, Toolsets: []agent.Toolset{agent.ToolList{c}}},
		NewID:   func() string { return "OUTER" },
		Observe: func(e agent.Event) { events = append(events, e) },
	}
	if change != nil {
		change(r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	_, _ = r.Run(ctx, agent.UserText("go"))
	return c, events
}

// Whatever an agent in another process sends, the call of it ends, with an error that
// says what it is, and nothing of the call is left.
func TestAnAgentThatBreaksTheProtocolIsAToolThatFails(t *testing.T) {
	none := agent.Usage{}
	tool := calls("t", `{}`)
	sub := func(parent, id string, depth int) agent.Event {
		return agent.Event{Kind: agent.EventSession, Session: id, Agent: "sub", Parent: parent, Depth: depth}
	}
	for _, tt := range []struct {
		name string
		play func(*peer)
		kind error
		text string
	}{
		{"nothing", func(*peer) {}, ErrProtocol, "its output ended before the run"},
		{"ends before the end", func(p *peer) { p.send(session(), prompt()) }, ErrProtocol, "its output ended before the run"},
		{"never ends", func(p *peer) { p.send(session()); <-p.alive.Done() }, context.DeadlineExceeded, "deadline exceeded"},
		{"never ends and reads", func(p *peer) {
			for p.in.Scan() {
			}
		}, context.DeadlineExceeded, "deadline exceeded"},
		{"no JSON", func(p *peer) { p.raw("Welcome to the agent!\n") }, ErrProtocol, "after event 0: a line is not an event"},
		{"no JSON later", func(p *peer) { p.send(session()); p.raw("{\"kind\":\n") }, ErrProtocol, "after event 1: a line is not an event"},
		{"a value that is no event", func(p *peer) { p.raw("[1]\n") }, ErrProtocol, "a line is not an event"},
		{"half a line", func(p *peer) { p.send(session()); p.raw(`{"kind":"end","seq":2,"status":"ok"}`) }, ErrProtocol, "its output ended before the run"},
		{"a line that is too long", func(p *peer) {
			for p.alive.Err() == nil {
				if _, err := io.WriteString(p.out, strings.Repeat("x", 1<<20)); err != nil {
					return
				}
			}
		}, ErrProtocol, "a line has more than 16777216 bytes"},
		{"no numbers", func(p *peer) { p.raw(`{"kind":"session","session":"S"}` + "\n") }, ErrProtocol, "event 0 follows event 0"},
		{"a gap", func(p *peer) { p.send(session()); p.seq++; p.send(prompt()) }, ErrProtocol, "event 3 follows event 1"},
		{"a number again", func(p *peer) { p.send(session()); p.seq--; p.send(prompt()) }, ErrProtocol, "event 1 follows event 1"},
		{"an answer before the session", func(p *peer) { p.send(answer(says("hi"), none)) }, agent.ErrChild, `answer event of session "S", which has not begun`},
		{"an answer of another session", func(p *peer) {
			e := answer(says("hi"), none)
			e.Session = "X"
			p.send(session(), prompt(), e)
		}, agent.ErrChild, `session "X"`},
		{"an answer of its caller", func(p *peer) {
			e := answer(says("hi"), none)
			e.Session = "OUTER"
			p.send(session(), prompt(), e)
		}, agent.ErrChild, `session "OUTER"`},
		{"text of its caller", func(p *peer) {
			p.send(session(), agent.Event{Kind: agent.EventText, Session: "OUTER", Text: "I am the caller"})
		}, agent.ErrChild, `a text event is of session "OUTER", which is not a session of this agent`},
		{"the session of its caller", func(p *peer) {
			e := session()
			e.Session = "OUTER"
			p.send(e)
		}, agent.ErrChild, `"OUTER" cannot be the id of its session`},
		{"an id with slashes", func(p *peer) {
			e := session()
			e.Session = "../../etc/passwd"
			p.send(e)
		}, agent.ErrChild, `"../../etc/passwd" cannot be the id of its session`},
		{"a session twice", func(p *peer) { p.send(session(), session()) }, agent.ErrChild, "the session has begun already"},
		{"a deeper root", func(p *peer) {
			e := session()
			e.Depth = 3
			p.send(e)
		}, agent.ErrChild, "session S has depth 3, not 0"},
		{"a root above its caller", func(p *peer) {
			e := session()
			e.Depth = -1
			p.send(e)
		}, agent.ErrChild, "session S has depth -1, not 0"},
		{"another depth later", func(p *peer) {
			e := prompt()
			e.Depth = 1
			p.send(session(), e)
		}, agent.ErrChild, "which is not a session of this agent"},
		{"a session below a call that it does not make", func(p *peer) {
			p.send(session(), prompt(), answer(tool, one), sub("S.1.1", "T", 1))
		}, agent.ErrChild, `session T answers the call "S.1.1", which its caller did not make`},
		{"a session below a call of its caller", func(p *peer) {
			p.send(session(), prompt(), sub("OUTER.1.1", "T", 1))
		}, agent.ErrChild, "session T has depth 1, not 0"},
		{"a depth that is not the caller's plus one", func(p *peer) {
			p.send(session(), prompt(), answer(tool, one), started("S.1.1"), sub("S.1.1", "T", 2))
		}, agent.ErrChild, "session T answers the call"},
		{"an unknown call", func(p *peer) {
			e := started("S.1.1")
			e.CallID = "other"
			p.send(session(), prompt(), answer(tool, one), e)
		}, agent.ErrChild, "no call other is open"},
		{"the key of another call", func(p *peer) {
			p.send(session(), prompt(), answer(tool, one), started("OUTER.1.1"))
		}, agent.ErrChild, `the event call_started has the key "OUTER.1.1", not S.1.1`},
		{"an end with an open call", func(p *peer) {
			p.send(session(), prompt(), answer(tool, one), end(agent.StatusOK, "hi"))
		}, agent.ErrChild, "1 calls have no result"},
		{"a resume without a message", func(p *peer) {
			p.send(session(), of(agent.Event{Kind: agent.EventResume, Summary: true}), of(agent.Event{Kind: agent.EventMessage, Attempt: 1, Message: &agent.Message{Role: agent.RoleUser}}))
		}, agent.ErrChild, "the session has no unfinished run"},
		{"a compaction without a message", func(p *peer) {
			p.send(session(), prompt(), of(agent.Event{Kind: agent.EventCompaction}), answer(says("hi"), one))
		}, agent.ErrChild, "compaction event: without a message"},
		{"a compaction with half a turn", func(p *peer) {
			p.send(session(), prompt(), of(agent.Event{Kind: agent.EventCompaction, Messages: []agent.Message{agent.UserText("go"), tool}}))
		}, agent.ErrChild, "compaction event: with 1 calls that have no result"},
		{"an unknown status", func(p *peer) {
			p.send(session(), prompt(), end("splendid", "hi"))
		}, ErrProtocol, `event 3: a run does not end with the status "splendid"`},
		{"no status", func(p *peer) { p.send(agent.Event{Kind: agent.EventEnd}) }, ErrProtocol, `a run does not end with the status ""`},
		{"it gives back what it consumed", func(p *peer) {
			p.send(session(), prompt(), answer(says("hi"), agent.Usage{Requests: 1, Cost: -agent.Dollar}))
		}, agent.ErrChild, "the usage in the event answer is not possible: {Requests:1"},
		{"it consumes more than there is", func(p *peer) {
			p.send(session(), prompt(), answer(says("hi"), agent.Usage{Requests: 1, InputTokens: 1 << 62}))
		}, agent.ErrChild, "the usage in the event answer is not possible"},
		{"more questions than anyone answers", func(p *peer) {
			p.send(session(), prompt())
			for i := range 2 * maxQuestions {
				p.send(of(agent.Event{Kind: agent.EventQuestion, Question: fmt.Sprint(i), What: "ask"}))
			}
		}, ErrProtocol, "more than 1000 questions wait for a reply"},
		{"it does not read", func(p *peer) {
			p.send(session(), prompt())
			for range 3 * maxPending {
				p.send(of(agent.Event{Kind: agent.EventClientCall, Key: "S.1.1", Tool: "t"}))
			}
		}, ErrProtocol, "it does not read its input"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, events := callChild(t, tt.play, func(r *runner.Runner) {
					r.Person = func(ctx context.Context, _ agent.Event) (json.RawMessage, error) {
						<-ctx.Done()
						return nil, context.Cause(ctx)
					}
				})
				if c.err == nil || !errors.Is(c.err, tt.kind) || !strings.Contains(c.err.Error(), tt.text) {
					t.Errorf("Call = %.100v, %.500v, want an error %q: %s", c.result, c.err, tt.kind, tt.text)
				}
				for _, e := range events {
					if e.Kind == agent.EventText && e.Session == "OUTER" {
						t.Errorf("shown as the caller's: %+v", e)
					}
				}
			})
		})
	}
}

func TestWhatComesAfterTheEndIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, events := callChild(t, func(p *peer) {
			p.send(session(), prompt(), answer(says("hi"), one), end(agent.StatusOK, "hi"), of(agent.Event{Kind: agent.EventText, Text: "one more thing"}))
		}, nil)
		if c.err != nil || c.result.Text() != "hi" {
			t.Errorf("Call = %v, %v", c.result, c.err)
		}
		for _, e := range events {
			if e.Text == "one more thing" {
				t.Errorf("shown: %+v", e)
			}
		}
	})
}

// An agent that closes its input is not an agent that fails.
func TestAnAgentNeedNotReadItsInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := callChild(t, func(p *peer) {
			p.send(session(), prompt(), answer(calls("t", `{}`), one), started("S.1.1"))
			synctest.Wait()
			ended := of(agent.Event{Kind: agent.EventCallEnded, CallID: "call", Tool: "t", Key: "S.1.1", N: 1, Result: &agent.ToolResult{CallID: "call", Name: "t"}})
			p.send(ended, answer(says("hi"), one), end(agent.StatusPartial, "hi"))
		}, nil)
		if c.err != nil || !strings.HasSuffix(c.result.Text(), "hi") {
			t.Errorf("Call = %v, %v", c.result, c.err)
		}
	})
}

func TestTheCallerReadsTheWordAndTheReason(t *testing.T) {
	for status, want := range map[agent.Status]string{
		agent.StatusPartial: "[partial] agent inner answered early: budget turns 2 is nearly spent\nhalf of it",
		agent.StatusBudget:  "[budget] agent inner did not answer: budget turns 2 is nearly spent",
		agent.StatusInvalid: "[invalid] agent inner did not answer: budget turns 2 is nearly spent",
	} {
		synctest.Test(t, func(t *testing.T) {
			c, _ := callChild(t, func(p *peer) {
				e := end(status, "half of it")
				e.Error = "budget turns 2 is nearly spent"
				p.send(session(), prompt(), answer(says("half of it"), one), e)
			}, nil)
			got := c.result.Text()
			if c.err != nil {
				got = c.err.Error()
			}
			if got != want {
				t.Errorf("%s: Call = %q, %v, want %q", status, c.result.Text(), c.err, want)
			}
		})
	}
}

// The holder counts itself what an agent consumes and does.
func TestAnAgentThatGoesBeyondItsLeaseIsEnded(t *testing.T) {
	two, four, dollars, level := int64(2), int64(4), 3*agent.Dollar, 1
	turn := func(p *peer, n int, u agent.Usage) {
		id, key := fmt.Sprint("call", n), fmt.Sprintf("S.%d.1", n)
		p.send(answer(agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: id, Name: "t", Args: "{}"}}}, u),
			of(agent.Event{Kind: agent.EventCallStarted, CallID: id, Tool: "t", Key: key, N: 1}),
			of(agent.Event{Kind: agent.EventCallEnded, CallID: id, Tool: "t", Key: key, N: 1, Result: &agent.ToolResult{CallID: id, Name: "t"}}))
	}
	turns := func(p *peer) {
		for n := 1; p.alive.Err() == nil; n++ {
			turn(p, n, one)
		}
	}
	for _, tt := range []struct {
		name  string
		lease agent.Lease
		play  func(*peer)
		kind  error
		text  string
	}{
		{"usd", agent.Lease{Budget: agent.Budget{USD: &dollars}}, turns, agent.ErrBudget, "budget usd 3.00 of agent outer spent (3.00"},
		{"calls", agent.Lease{Budget: agent.Budget{Calls: &two}}, turns, agent.ErrBudget, "budget calls 2 of agent outer spent (2"},
		{"turns that it does not count", agent.Lease{Budget: agent.Budget{Turns: &four}}, func(p *peer) {
			for n := 1; p.alive.Err() == nil; n++ {
				turn(p, n, agent.Usage{})
			}
		}, agent.ErrBudget, "budget turns 4 of agent outer spent (4"},
		{"depth", agent.Lease{Budget: agent.Budget{Depth: &level}}, func(p *peer) {
			call := agent.Message{Role: agent.RoleAssistant, Calls: []agent.ToolCall{{ID: "call", Name: "t", Args: "{}"}}}
			p.send(answer(call, one), started("S.1.1"), agent.Event{Kind: agent.EventSession, Session: "T", Agent: "deep", Parent: "S.1.1", Depth: 1})
		}, agent.ErrDepth, "depth"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := callChild(t, func(p *peer) {
					p.send(session(), prompt())
					tt.play(p)
				}, func(r *runner.Runner) { r.Lease = tt.lease })
				if !errors.Is(c.err, tt.kind) || !strings.Contains(c.err.Error(), tt.text) {
					t.Errorf("Call = %v, %v, want an error %q: %s", c.result, c.err, tt.kind, tt.text)
				}
			})
		})
	}
}

// An agent for which the depth has no level left is not started: it would pay for a request
// before its caller learns that it runs.
func TestAnAgentBelowTheDepthIsNotStarted(t *testing.T) {
	for _, tt := range []struct {
		name    string
		levels  int
		of      func(*runner.Runner, *int)
		started bool
		want    string
	}{
		{"budget of the lease, none", 0, func(r *runner.Runner, n *int) { r.Lease.Depth = n }, false, "[limit] agent child did not answer: depth limit reached: the depth budget allows no agent below outer"},
		{"budget of the lease, negative", -1, func(r *runner.Runner, n *int) { r.Lease.Depth = n }, false, "[limit] agent child did not answer: depth limit reached: the depth budget allows no agent below outer"},
		{"budget of the lease, one", 1, func(r *runner.Runner, n *int) { r.Lease.Depth = n }, true, "done"},
		{"budget of the agent, none", 0, func(r *runner.Runner, n *int) { r.Agent.Budget.Depth = n }, false, "[limit] agent child did not answer: depth limit reached: the depth budget allows no agent below outer"},
		{"budget of the agent, one", 1, func(r *runner.Runner, n *int) { r.Agent.Budget.Depth = n }, true, "done"},
		{"all processes, none", 3, func(r *runner.Runner, n *int) { r.MaxDepth, r.From = *n, &runner.Resume{Depth: *n} }, false, "[limit] agent child did not answer: depth limit reached: sub-agents are nested 3 deep"},
		{"all processes, one", 3, func(r *runner.Runner, n *int) { r.MaxDepth, r.From = *n, &runner.Resume{Depth: *n - 1} }, true, "done"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			started := false
			_, events := callChild(t, func(p *peer) {
				started = true
				p.send(session(), prompt(), answer(says("done"), one), end(agent.StatusOK, "done"))
			}, func(r *runner.Runner) { tt.of(r, &tt.levels) })
			var got []string
			for _, e := range events {
				if e.Kind == agent.EventCallStarted && e.Tool == "child" {
					got = append(got, "started")
				}
				if e.Kind == agent.EventCallEnded {
					got = append(got, e.Result.Text())
				}
			}
			want := []string{tt.want}
			if tt.started {
				want = []string{"started", tt.want}
			}
			if started != tt.started || !slices.Equal(got, want) {
				t.Errorf("started %t, events %q; want %t, %q", started, got, tt.started, want)
			}
		})
	}
}

// The name of an agent in another process is shown to people and models, in what the runtime
// says about it.
func TestAnAgentHasOneNameThatCanBeShown(t *testing.T) {
	for _, name := range []string{"\x1b[2J", "a\nb", "a\u2028b", "a\u202eb", "a\u200bb", "\x00", "\u0085", "\t", "a\x7f", "\xff", strings.Repeat("x", 257)} {
		c, events := callChild(t, func(p *peer) {
			s := session()
			s.Agent = name
			p.send(s, prompt(), answer(says("done"), one), end(agent.StatusOK, "done"))
		}, nil)
		if !errors.Is(c.err, agent.ErrChild) || !strings.Contains(c.err.Error(), "[failed] agent child did not answer") {
			t.Errorf("an agent with the name %q: %v", name, c.err)
		}
		for _, e := range events {
			if e.Agent == name {
				t.Errorf("the event %s has the name %q", e.Kind, name)
			}
		}
	}
	_, events := callChild(t, func(p *peer) {
		other := func(e agent.Event) agent.Event { e.Agent = "\x1b[2J"; return e }
		p.send(agent.Event{Kind: agent.EventWarning, Agent: "\x1b[2J", Text: "soon"}, session(), other(prompt()),
			other(of(agent.Event{Kind: agent.EventText, Text: "do"})), other(answer(says("done"), one)), other(end(agent.StatusOK, "done")))
	}, nil)
	var names []string
	for _, e := range events {
		names = append(names, e.Agent)
		if e.Kind == agent.EventEnd && e.Depth == 0 {
			names = append(names, slices.Sorted(maps.Keys(e.Total.Agents))...)
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); !slices.Equal(names, []string{"child", "inner", "outer"}) {
		t.Errorf("the events have the names %q", names)
	}
}

func TestALeaseWithoutAProcessIsRefused(t *testing.T) {
	for n, want := range map[int]agent.Status{-1: agent.StatusFailed, 0: agent.StatusFailed, 1: agent.StatusOK, 100: agent.StatusOK} {
		r := &runner.Runner{Agent: &agent.Agent{Slug: "outer", Provider: &answers{says("done")}}}
		_, err := r.Start(t.Context(), agent.Start{Channel: Version, Args: json.RawMessage(`{"prompt":"go"}`), Lease: agent.Lease{Budget: agent.Budget{Processes: &n}}}).Wait()
		if got := agent.StatusOf(err); got != want || err != nil && !strings.Contains(err.Error(), fmt.Sprintf("processes is %d; at least 1 is needed", n)) {
			t.Errorf("processes %d: %s, %v, want %s", n, got, err, want)
		}
	}
}

func TestAFloodEnds(t *testing.T) {
	in, out := io.Pipe()
	go func() {
		p := &peer{out: out}
		for {
			p.send(of(agent.Event{Kind: agent.EventText, Text: "all work and no play"}))
			if p.seq > 1e6 {
				return
			}
		}
	}()
	c := Open(in, nopCloser{io.Discard}, agent.Start{})
	c.max = 1 << 20
	var last error
	for _, err := range c.Events() {
		last = err
	}
	in.Close()
	if err := c.Close(); !errors.Is(last, ErrProtocol) || !strings.Contains(last.Error(), "it sent more than 1048576 bytes") || err != nil {
		t.Errorf("the events end with %v; Close = %v", last, err)
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// TestAQuestionNamesThePathToItsAgent: an agent below cannot ask in another's name.
func TestAQuestionNamesThePathToItsAgent(t *testing.T) {
	for _, test := range []struct{ says, want string }{
		{"outer/inner/deep", "outer/inner/deep"}, {"boss", "outer/child"}, {"", "outer/child"}, {"out/er", "outer/child"},
	} {
		var path []string
		callChild(t, func(p *peer) {
			p.in.Scan()
			p.send(session(), prompt(), of(agent.Event{Kind: agent.EventQuestion, Question: "q", What: "ask", Text: "?", Path: strings.Split(test.says, "/")}))
			p.in.Scan()
			p.send(answer(says("done"), agent.Usage{}), end(agent.StatusOK, "done"))
		}, func(r *runner.Runner) {
			r.Person = func(_ context.Context, q agent.Event) (json.RawMessage, error) {
				path = q.Path
				return json.RawMessage(`"yes"`), nil
			}
		})
		if got := strings.Join(path, "/"); got != test.want {
			t.Errorf("an agent that says it is %q asks as %q, want %q", test.says, got, test.want)
		}
	}
}

// A start message that is too long for the channel is an error, and no agent waits for it.
func TestAStartThatIsTooLong(t *testing.T) {
	in, toAgent := io.Pipe()
	fromAgent, out := io.Pipe()
	out.Close()
	c := Open(fromAgent, toAgent, agent.Start{Args: json.RawMessage(`"` + strings.Repeat("x", MaxLine) + `"`)})
	for _, err := range c.Events() {
		if err == nil || !strings.Contains(err.Error(), "the start message") || !strings.Contains(err.Error(), "16777216 bytes") {
			t.Errorf("Events = %v", err)
		}
	}
	_ = c.Close()
	if n, err := in.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the agent reads %d bytes, %v", n, err)
	}
}
