package treetest

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// A trace is the runs and calls of a tree in an order that does not depend on time:
// the calls of an answer in their order, each followed by those of its sub-agent.
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

	answers []*agent.Event
	byKey   map[string]*call
}

type call struct {
	agent, path string // who called
	tool        string
	args        string
	result      string
	receipt     string // JSON; "" if there is none
	failed      bool
	turn, n     int
	key         string
	start, end  int // events, counted from 1; a call that was answered without running has no start
}

// named reports whether ref names the call, as TOOL, AGENT/TOOL or PATH/TOOL.
func (c *call) named(ref string) bool {
	return ref == c.tool || ref == c.agent+"/"+c.tool || ref == c.path+"/"+c.tool
}

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

func traceOf(events []agent.Event) *trace {
	sessions := map[string]*agentRun{}
	below := map[string][]*agentRun{} // the sessions that answer a call, by its key
	var root *agentRun
	for i := range events {
		e := &events[i]
		r := sessions[e.Session]
		if r == nil {
			r = &agentRun{agent: e.Agent, byKey: map[string]*call{}}
			sessions[e.Session] = r
			switch {
			case e.Parent != "" && e.Depth > 0:
				below[e.Parent] = append(below[e.Parent], r)
			case root == nil:
				root = r
			}
		}
		r.note(e, i+1)
	}
	t := &trace{}
	if root != nil {
		t.add(root, below, "")
	}
	return t
}

// note adds what an event says of its session. at counts the events.
func (r *agentRun) note(e *agent.Event, at int) {
	switch e.Kind {
	case agent.EventMessage:
		if e.Message.Role == agent.RoleUser && !e.Continues() {
			r.prompt = e.Message.Text()
		}
	case agent.EventAnswer:
		r.turns++
		r.answers = append(r.answers, e)
		if e.Usage != nil {
			r.usage = r.usage.Add(*e.Usage)
		}
		r.answer = ""
		if len(e.Message.Calls) == 0 {
			r.answer = e.Message.Text()
		}
	case agent.EventCallStarted:
		r.call(e).start = at
	case agent.EventCallEnded:
		c := r.call(e)
		c.end, c.result, c.failed = at, e.Result.Answer(), e.Result.Failed
		if receipt, err := json.Marshal(e.Receipt); err == nil && e.Receipt != nil {
			c.receipt = string(receipt)
		}
	case agent.EventEnd:
		r.status, r.errors = e.Status, e.Error
		if e.Status == agent.StatusOK || e.Status == agent.StatusPartial {
			r.answer = e.Text
		}
	}
}

// call is the call that an event is about.
func (r *agentRun) call(e *agent.Event) *call {
	c := r.byKey[e.Key]
	if c == nil {
		c = &call{agent: e.Agent, tool: e.Tool, turn: e.Turn, n: e.N, key: e.Key}
		r.byKey[e.Key] = c
		r.calls = append(r.calls, c)
	}
	c.args = cmp.Or(c.args, e.Args)
	return c
}

// add adds a run and those below it. path is that of the run above, with a slash.
func (t *trace) add(r *agentRun, below map[string][]*agentRun, path string) {
	r.path = path + r.agent
	t.runs = append(t.runs, r)
	slices.SortStableFunc(r.calls, func(a, b *call) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.n, b.n))
	})
	for _, c := range r.calls {
		c.path = r.path
		t.calls = append(t.calls, c)
		for _, sub := range below[c.key] {
			t.add(sub, below, r.path+"/")
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
