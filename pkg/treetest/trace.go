package treetest

import (
	"cmp"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// A trace is what happened in a run, in an order that does not depend on time:
// the calls of an answer in their order, and what a sub-agent did behind the call
// that it answers.
type trace struct {
	runs  []*agentRun
	calls []*call
}

// An agentRun is one run of an agent of the tree; the first of a trace is the
// root's.
type agentRun struct {
	agent  string
	path   string // slugs from the root, with slashes
	prompt string
	answer string
	errors string
	status agent.Status
	turns  int
	usage  agent.Usage
	calls  []*call
}

// A call is one call of a tool.
type call struct {
	agent, path string // who called
	tool        string
	args        string
	result      string
	failed      bool
	turn, n     int
	key         string
	start, end  int // events, counted from 1; a call that was answered without running has no start
}

// names reports whether a reference means the call: TOOL, AGENT/TOOL or
// PATH/TOOL.
func (c *call) named(ref string) bool {
	return ref == c.tool || ref == c.agent+"/"+c.tool || ref == c.path+"/"+c.tool
}

// overlaps reports whether c and d ran at the same time.
func (c *call) overlaps(d *call) bool {
	return c.start > 0 && d.start > 0 && c.start < d.end && d.start < c.end
}

// String is "AGENT: TOOL ARGS".
func (c *call) String() string {
	s := c.agent + ": " + c.tool + " " + argsText(c.args)
	if c.failed {
		s += " (failed)"
	}
	return s
}

// recorded is a session while its events are read.
type recorded struct {
	run   *agentRun
	calls map[string]*call
}

// traceOf reads the events of a run in the order in which they happened.
func traceOf(events []agent.Event) *trace {
	sessions := map[string]*recorded{}
	below := map[string]string{} // the session that answers a call, by its key
	root := ""
	for i := range events {
		e := &events[i]
		s := sessions[e.Session]
		if s == nil {
			s = &recorded{run: &agentRun{agent: e.Agent}, calls: map[string]*call{}}
			sessions[e.Session] = s
			if e.Parent != "" {
				below[e.Parent] = e.Session
			} else if root == "" {
				root = e.Session
			}
		}
		s.note(e, i+1)
	}
	t := &trace{}
	t.walk(sessions, below, root, "")
	return t
}

// note takes in what an event says of its session. at counts the events.
func (s *recorded) note(e *agent.Event, at int) {
	r := s.run
	switch e.Kind {
	case agent.EventMessage:
		if e.Message.Role == agent.RoleUser && e.Attempt == 0 {
			r.prompt = e.Message.Text()
		}
	case agent.EventAnswer:
		r.turns++
		if e.Usage != nil {
			r.usage = r.usage.Add(*e.Usage)
		}
		r.answer = ""
		if len(e.Message.Calls) == 0 {
			r.answer = e.Message.Text()
		}
	case agent.EventCallStarted:
		s.call(e).start = at
	case agent.EventCallEnded:
		c := s.call(e)
		c.end, c.result, c.failed = at, e.Result.Text(), e.Result.Failed
	case agent.EventEnd:
		r.status, r.errors = e.Status, e.Error
		if e.Status == agent.StatusOK {
			r.answer = e.Text
		}
	}
}

// call is the call that an event speaks of.
func (s *recorded) call(e *agent.Event) *call {
	c := s.calls[e.Key]
	if c == nil {
		c = &call{agent: e.Agent, tool: e.Tool, turn: e.Turn, n: e.N, key: e.Key}
		s.calls[e.Key] = c
		s.run.calls = append(s.run.calls, c)
	}
	c.args = cmp.Or(c.args, e.Args)
	return c
}

// walk adds a session and those below it.
func (t *trace) walk(sessions map[string]*recorded, below map[string]string, id, above string) {
	s := sessions[id]
	if s == nil {
		return
	}
	r := s.run
	r.path = r.agent
	if above != "" {
		r.path = above + "/" + r.agent
	}
	t.runs = append(t.runs, r)
	slices.SortFunc(r.calls, func(a, b *call) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.n, b.n))
	})
	for _, c := range r.calls {
		c.path = r.path
		t.calls = append(t.calls, c)
		if next, ok := below[c.key]; ok {
			t.walk(sessions, below, next, r.path)
		}
	}
}

// of are the runs of an agent, by slug or path.
func (t *trace) of(ref string) []*agentRun {
	var list []*agentRun
	for _, r := range t.runs {
		if ref == r.path || !strings.Contains(ref, "/") && ref == r.agent {
			list = append(list, r)
		}
	}
	return list
}
