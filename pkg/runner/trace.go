package runner

import (
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/traceid"
)

// trace makes the tree part of the span that a caller set.
func (t *tree) trace(traceparent string) {
	if c, ok := traceid.Parse(traceparent); ok {
		t.outside, t.traced = c, true
	}
}

// context returns the trace of the tree whose root is the given session.
func (t *tree) context(session string) traceid.Context {
	if t.outside.Trace != "" {
		return t.outside
	}
	return traceid.Root(session)
}

// traced returns the event e that opens a run. At the root it gets the span of the
// caller, if a caller set one.
func (r *run) traced(e agent.Event) agent.Event {
	if r.up == nil {
		e.Traceparent = r.tree.outside.String()
	}
	return e
}

// callTrace returns the traceparent that a call passes on.
func (t *tree) callTrace(session, key string) string {
	if !t.traced {
		return ""
	}
	c := t.context(session)
	c.Span = traceid.Call(key)
	return c.String()
}

// requestTrace returns the traceparent that is sent with a model request.
func (t *tree) requestTrace(req *agent.Request) string {
	if !t.traced {
		return ""
	}
	c := t.context(t.root.session.ID)
	c.Span = traceid.Model(req.Session, req.Turn)
	if req.Summary {
		c.Span = traceid.Summary(req.Session, req.Turn)
	}
	return c.String()
}
