package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// canDetach reports whether agents may outlive r: not the root, and not what a program waits for.
// The tools of an agent in a workspace end with it.
func (r *run) canDetach() bool {
	if r.up == nil {
		return r.tree.delegate != nil && r.parent != ""
	}
	return !r.up.behalf && !r.agent.Here
}

// detaches reports whether the agent that tool i is may outlive r.
func (r *run) detaches(i int) bool {
	if i < 0 {
		return false
	}
	spec := &r.tools.specs[i]
	return spec.Detach && (r.tree.delegate == nil || delegable(r.tools.byName[spec.Name], spec))
}

// detach keeps the agents that outlive r, which ends so, for its caller, and returns their calls.
// What is stopped leaves nothing.
func (r *run) detach(ctx context.Context, ends agent.Status) (calls []agent.LeftCall) {
	if !r.canDetach() || ends == agent.StatusInterrupted || r.tree.delegate != nil && ctx.Err() != nil {
		return nil
	}
	d := &background{}
	r.background.pass(d)
	for _, l := range r.session.Left { // which the run alone changes
		if slices.ContainsFunc(d.agents, func(a *leftAgent) bool { return a.Key == l.Key }) {
			calls = append(calls, l)
		}
	}
	if len(calls) > 0 {
		r.tree.keepDetached(r.parent, d)
	}
	return calls
}

// keepDetached keeps what outlives the agent that has answered a call, until its caller has the answer.
func (t *tree) keepDetached(key string, d *background) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.detached == nil {
		t.detached = map[string]*background{}
	}
	t.detached[key] = d
}

// pass moves the agents that outlive their caller, and what is to be told of them.
func (b *background) pass(to *background) {
	b.mu.Lock()
	defer b.mu.Unlock()
	to.mu.Lock()
	defer to.mu.Unlock()
	b.agents = slices.DeleteFunc(b.agents, func(a *leftAgent) bool {
		if !a.left || !a.detach {
			return false
		}
		a.owner.Store(to)
		to.agents = append(to.agents, a)
		if a.ended {
			b.notices = slices.DeleteFunc(b.notices, func(d agent.Directive) bool { return d.Key == a.Key })
			to.tell(a)
		}
		return true
	})
}

// lock locks the background that has a.
func (a *leftAgent) lock() *background {
	for {
		b := a.owner.Load()
		b.mu.Lock()
		if a.owner.Load() == b {
			return b
		}
		b.mu.Unlock()
	}
}

// takenOver returns what the agent has left at work whose answer e gives to its caller, and says so
// in e. Handles get the place of the call, so that they differ from others. t.mu is held.
func (t *tree) takenOver(e *agent.Event) *background {
	d := t.detached[e.Key]
	if d == nil || e.Kind == agent.EventEnd || e.Result != nil && e.Result.Handle != "" {
		return nil
	}
	delete(t.detached, e.Key)
	d.mu.Lock()
	defer d.mu.Unlock()
	place := "." + strings.ReplaceAll(e.Key[len(agent.CallSession(e.Key))+1:], ".", "-")
	var names []string
	for _, a := range d.agents {
		a.Handle += place
		names, e.Left = append(names, a.Handle), append(e.Left, a.LeftCall)
	}
	text := agent.Text(fmt.Sprintf("\n\n[the runtime: this agent has ended, and agents that it started work on. They are now yours, as if you had started them: %s]", strings.Join(names, ", ")))
	if e.Message != nil {
		m := *e.Message
		m.Parts = append(slices.Clone(m.Parts), text)
		e.Message = &m
	} else {
		result := *e.Result
		result.Parts = append(slices.Clone(result.Parts), text)
		e.Result = &result
	}
	return d
}

// takeUpAll continues agents that worked in the background when the process ended, for b.
func (r *run) takeUpAll(ctx context.Context, list []agent.LeftCall, b *background) {
	runs := map[string]*run{r.session.ID: r}
	for _, l := range list {
		if r.goesOn(l, b) {
			continue
		}
		c, err := r.callerOf(ctx, agent.CallSession(l.Key), runs)
		if err != nil {
			a := newLeft(l, b)
			a.left = true
			b.add(a)
			a.finish(agent.Result{}, fmt.Errorf("it was not continued: %w: %w", agent.ErrUnknownOutcome, err))
			continue
		}
		c.takeUp(ctx, l, b)
	}
}

// goesOn adds an agent that another Runner runs, and reports whether it did.
func (r *run) goesOn(l agent.LeftCall, b *background) bool {
	t := r.tree
	t.mu.Lock()
	p := t.pending[l.Key]
	t.mu.Unlock()
	if t.delegate == nil || p.Session == nil || p.Session.Ended != "" || slices.Contains(r.agent.LendTools, p.Session.Agent) { // as in takeUp
		return false
	}
	a := newLeft(l, b)
	a.left, a.elsewhere, a.session = true, true, p.Session.ID
	a.detach = agent.CallSession(l.Key) != r.session.ID || // it has outlived its caller
		r.detaches(agent.ToolIndex(r.tools.specs, l.Call.Name))
	b.add(a)
	return true
}

// callerOf returns the run of a session at or below r, which may have ended; runs are known.
func (r *run) callerOf(ctx context.Context, session string, runs map[string]*run) (*run, error) {
	if c := runs[session]; c != nil {
		return c, nil
	}
	t := r.tree
	t.mu.Lock()
	var p PendingSession
	for _, other := range t.pending {
		if other.Session != nil && other.Session.ID == session {
			p = other
		}
	}
	t.mu.Unlock()
	if p.Session == nil || len(runs) > maxLeft {
		return nil, fmt.Errorf("the session %.100q is not known", session)
	}
	up, err := r.callerOf(ctx, agent.CallSession(p.Session.Parent), runs)
	if err != nil {
		return nil, err
	}
	for _, tool := range up.tools.byName {
		sub, ok := agent.As[*agent.Subagent](tool)
		if !ok || sub.Agent.Slug != p.Session.Agent {
			continue
		}
		c := &run{node: up.below(sub.Agent, p.Session.Parent), start: r.tree.now()}
		c.session, c.total = p.Session, p.Total.Clone()
		c.chooseLoan()
		runs[session] = c
		return c, c.refreshTools(ctx)
	}
	return nil, fmt.Errorf("agent %.100q, which started it, is not there", p.Session.Agent)
}
