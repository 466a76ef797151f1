package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/agents-exe/agents/pkg/agent"
)

// idle is a channel whose run has not begun.
func idle(r *Runner) *Channel {
	c := &Channel{runner: r, starts: map[string]int64{}, replies: map[string]*reply{}, results: map[string]chan clientResult{}}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// TestWhatAStartMayAskFor.
func TestWhatAStartMayAskFor(t *testing.T) {
	prompt := agent.UserText("go")
	known := func(id string) *Resume {
		s := &agent.Session{}
		s.ID = id
		return &Resume{Session: s}
	}
	shape := func(json.RawMessage) (*agent.Output, error) { return &agent.Output{}, nil }
	for name, tt := range map[string]struct {
		r    *Runner
		s    agent.Start
		want string
	}{
		"nothing":                      {},
		"its version":                  {s: agent.Start{Channel: agent.ChannelVersion}},
		"another version":              {s: agent.Start{Channel: 2}, want: "version 2"},
		"a session of nobody":          {s: agent.Start{Session: "s"}, want: "no session"},
		"a session that has not begun": {r: &Runner{From: &Resume{}}, s: agent.Start{Session: "s"}, want: "no session"},
		"another session":              {r: &Runner{From: known("t")}, s: agent.Start{Session: "s"}, want: "no session"},
		"its session":                  {r: &Runner{From: known("s")}, s: agent.Start{Session: "s"}},
		"one process":                  {s: agent.Start{Lease: agent.Lease{Budget: agent.Budget{Processes: ptr(1)}}}},
		"no process":                   {s: agent.Start{Lease: agent.Lease{Budget: agent.Budget{Processes: ptr(0)}}}, want: "processes is 0"},
		"no schema":                    {s: agent.Start{OutputSchema: json.RawMessage("null")}},
		"a schema":                     {r: &Runner{Output: shape}, s: agent.Start{OutputSchema: json.RawMessage("{}")}},
		"a schema, and no checks":      {s: agent.Start{OutputSchema: json.RawMessage("{}")}, want: "cannot check"},
		"a schema that is wrong":       {r: &Runner{Output: func(json.RawMessage) (*agent.Output, error) { return nil, errors.New("wrong") }}, s: agent.Start{OutputSchema: json.RawMessage("{}")}, want: "outputSchema: wrong"},
	} {
		r := cmp.Or(tt.r, &Runner{})
		r.Agent, r.Context, tt.s.Message = &agent.Agent{}, json.RawMessage("1"), &prompt
		m, err := idle(r).prepare(t.Context(), tt.s)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) || err == nil && m == nil {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if err == nil && (string(r.Context) != "1" || (r.Agent.OutputSchema != nil) != (r.Output != nil)) {
			t.Errorf("%s: the context is %s, the schema %v", name, r.Context, r.Agent.OutputSchema)
		}
	}
	r := &Runner{Agent: &agent.Agent{}, Context: json.RawMessage("1")}
	if _, err := idle(r).prepare(t.Context(), agent.Start{Message: &prompt, Context: json.RawMessage("2")}); err != nil || string(r.Context) != "2" {
		t.Errorf("the context is %s, %v", r.Context, err)
	}
	for _, person := range []*bool{nil, ptr(true), ptr(false)} {
		r := &Runner{Agent: &agent.Agent{}}
		if _, err := idle(r).prepare(t.Context(), agent.Start{Message: &prompt, Person: person}); err != nil || (r.Person == nil) != (person != nil && !*person) {
			t.Errorf("a person is there: %t, %v", r.Person != nil, err)
		}
	}
}

// TestSessionsOfAHistoryAreAtTheirPlaces: the first at the top, each other one below another.
func TestSessionsOfAHistoryAreAtTheirPlaces(t *testing.T) {
	begin := func(id, parent string, depth int) agent.Event {
		return agent.Event{Kind: agent.EventSession, Session: id, Parent: parent, Depth: depth}
	}
	for name, tt := range map[string]struct {
		history []agent.Event
		ok      bool
	}{
		"one":                    {[]agent.Event{begin("a", "", 0)}, true},
		"one below":              {[]agent.Event{begin("a", "", 0), begin("b", "a.1.1", 1)}, true},
		"two below":              {[]agent.Event{begin("a", "", 0), begin("b", "a.1.1", 1), begin("c", "b.1.1", 2)}, true},
		"what does not last":     {[]agent.Event{begin("a", "", 0), {Kind: agent.EventWarning, Session: "z"}, {Kind: agent.EventWarning}}, true},
		"no name":                {[]agent.Event{begin("", "", 0)}, false},
		"no name, later":         {[]agent.Event{begin("a", "", 0), {Kind: agent.EventContext}}, false},
		"the first is below":     {[]agent.Event{begin("b", "a.1.1", 1)}, false},
		"the first is too deep":  {[]agent.Event{begin("a", "", 1)}, false},
		"two at the top":         {[]agent.Event{begin("a", "", 0), begin("b", "", 0)}, false},
		"below none":             {[]agent.Event{begin("a", "", 0), begin("c", "b.1.1", 1)}, false},
		"below none, at its top": {[]agent.Event{begin("a", "", 0), begin("c", "b.1.1", 0)}, false},
		"too deep":               {[]agent.Event{begin("a", "", 0), begin("b", "a.1.1", 2)}, false},
		"not deep enough":        {[]agent.Event{begin("a", "", 0), begin("b", "a.1.1", 0)}, false},
	} {
		if _, err := rebuild(tt.history); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWhatWasSpentIsThatOfItsSession: an end of the root counts for nothing new.
func TestWhatWasSpentIsThatOfItsSession(t *testing.T) {
	total := func(n int) agent.TotalUsage { return agent.TotalUsage{Usage: agent.Usage{Requests: n}} }
	for _, running := range []bool{true, false} {
		s := &agent.Session{}
		s.ID, s.Running, s.Ended, s.Messages = "a", running, agent.StatusOK, []agent.Message{{Role: agent.RoleAssistant}}
		below := &agent.Session{}
		below.ID = "b"
		other := &agent.Session{}
		other.ID = "c"
		r := &Resume{Session: s, Total: total(1), Pending: map[string]PendingSession{"a.1.1": {Session: below, Total: total(2)}, "a.1.2": {Session: other, Total: total(3)}}}
		r.spent(map[string]agent.TotalUsage{"a": total(10), "b": total(20)})
		want := 1
		if running {
			want = 10
		}
		if got := r.Total.Usage.Requests; got != want {
			t.Errorf("running: %t: the root has spent %d", running, got)
		}
		if b, c := r.Pending["a.1.1"].Total.Usage.Requests, r.Pending["a.1.2"].Total.Usage.Requests; b != 20 || c != 3 {
			t.Errorf("those below have spent %d and %d", b, c)
		}
		r.spent(nil)
		if got := r.Total.Usage.Requests; got != want {
			t.Errorf("without an entry the root has spent %d", got)
		}
	}
}

// TestAPromptBeginsOrFinishesARun.
func TestAPromptBeginsOrFinishesARun(t *testing.T) {
	m, said, empty := agent.UserText("go"), agent.UserText("on"), agent.Message{}
	for name, tt := range map[string]struct {
		s          agent.Start
		unfinished bool
		none       bool // the run is resumed
		input      int
	}{
		"a prompt":                  {s: agent.Start{Message: &m}},
		"a prompt in a run":         {s: agent.Start{Message: &m}, unfinished: true},
		"a prompt sent before":      {s: agent.Start{Message: &m, History: []agent.Event{{}}}, unfinished: true, none: true},
		"no prompt":                 {unfinished: true, none: true},
		"finish":                    {s: agent.Start{Message: &m, Finish: &said}, unfinished: true, none: true, input: 1},
		"finish with nothing":       {s: agent.Start{Message: &m, Finish: &empty}, unfinished: true, none: true},
		"finish what is over":       {s: agent.Start{Message: &m, Finish: &said}},
		"shorten":                   {s: agent.Start{Compact: true}, none: true},
		"shorten and a prompt":      {s: agent.Start{Compact: true, Message: &m}, input: 1},
		"a prompt, and old history": {s: agent.Start{Message: &m, History: []agent.Event{{}}}},
	} {
		s := &agent.Session{}
		s.Running = tt.unfinished
		c := idle(&Runner{Agent: &agent.Agent{}, From: &Resume{Session: s}})
		got, err := c.prompt(t.Context(), tt.s)
		if err != nil || (got == nil) != tt.none || len(c.runner.inboxes.root.list) != tt.input {
			t.Errorf("%s: %v, %v, and %d directives", name, got, err, len(c.runner.inboxes.root.list))
		}
	}
	for _, from := range []*Resume{nil, {}} {
		if _, err := idle(&Runner{Agent: &agent.Agent{}, From: from}).prompt(t.Context(), agent.Start{}); err == nil {
			t.Error("no prompt begins a new session")
		}
	}
}

// TestTheQueueIsLimited: the run waits for the reader, and warnings are dropped.
func TestTheQueueIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := idle(&Runner{Agent: &agent.Agent{}})
		put := func(n int) {
			go func() {
				for range n {
					c.put(agent.Event{Kind: agent.EventText})
				}
			}()
			synctest.Wait()
		}
		queued := func(want int) {
			t.Helper()
			c.mu.Lock()
			defer c.mu.Unlock()
			if len(c.queue) != want {
				t.Errorf("%d events are queued, want %d", len(c.queue), want)
			}
		}
		put(maxQueued - 2)
		c.Warn("one")
		queued(maxQueued - 1)
		c.Warn("two")
		c.Warn("three")
		queued(maxQueued)
		put(2)
		queued(maxQueued)
		for range c.Events() {
			break
		}
		synctest.Wait()
		queued(maxQueued)
		c.stop()
		synctest.Wait()
		queued(maxQueued + 1)
	})
}

// TestAnEmptyReplyIsNone.
func TestAnEmptyReplyIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for reply, ok := range map[string]bool{"": false, "null": false, "0": true, `""`: true} {
			c := idle(&Runner{Agent: &agent.Agent{}})
			go func() {
				synctest.Wait()
				c.Reply("other", json.RawMessage(`"x"`))
				c.Reply("q", json.RawMessage(reply))
				c.Reply("q", json.RawMessage(`"x"`))
			}()
			answer, err := c.ask(t.Context(), agent.Event{Question: "q"}, nil)
			if (err == nil) != ok || ok && string(answer) != reply || !ok && err != agent.ErrNobody {
				t.Errorf("after %q, ask = %s, %v", reply, answer, err)
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		cancel(gone)
		if _, err := idle(&Runner{Agent: &agent.Agent{}}).ask(ctx, agent.Event{Question: "q"}, nil); err != gone {
			t.Errorf("ask = %v", err)
		}
	})
}

// TestSchemasOfAHolderAreLimitedTogether.
func TestSchemasOfAHolderAreLimitedTogether(t *testing.T) {
	list := func(n int) json.RawMessage { // has n values
		return json.RawMessage("[" + strings.Repeat(",0", n)[1:] + "]")
	}
	for name, tt := range map[string]struct {
		schemas []json.RawMessage
		want    string
	}{
		"few":      {[]json.RawMessage{list(10), list(10)}, ""},
		"the most": {[]json.RawMessage{list(maxHolderValues - 10), list(10)}, ""},
		"too many": {[]json.RawMessage{list(maxHolderValues - 10), list(11)}, `tool "t1"`},
		"none":     {[]json.RawMessage{nil}, "schema is missing"},
	} {
		var specs []agent.ToolSpec
		for i, schema := range tt.schemas {
			specs = append(specs, agent.ToolSpec{Name: fmt.Sprint("t", i), Schema: schema})
		}
		c := idle(&Runner{Agent: &agent.Agent{}})
		if err := c.addTools(specs); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
