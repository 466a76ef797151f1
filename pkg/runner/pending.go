package runner

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
)

// takePending is the session that an earlier process left for the call key.
func (t *tree) takePending(key string) PendingSession {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pending[key]
	delete(t.pending, key)
	return p
}

// resume finishes the session of a sub-agent that an earlier process began.
func (r *run) resume(ctx context.Context, prompt agent.Message) (*agent.Outcome, error) {
	if r.session.Running {
		return r.do(ctx, nil)
	}
	return r.do(ctx, &prompt) // its prompt was not recorded
}

// endedBefore returns the end of a call whose agent ended in an earlier process, in this
// one or in another: only the result was not recorded. ok is false for other calls.
// The hooks after the call see it now. broken is the error of the journal.
func (r *run) endedBefore(ctx context.Context, c agent.PendingCall) (e agent.Event, ok bool, broken error) {
	result, err, ok := r.endOf(ctx, c)
	if !ok {
		return agent.Event{}, false, nil
	}
	result, err, broken = r.hookEnded(ctx, c, r.session.Turn, result, err)
	return r.session.CallEnded(c, result, err), true, broken
}

// hookEnded runs the hooks after a call of an earlier process.
func (r *run) hookEnded(ctx context.Context, c agent.PendingCall, turn int, result agent.Result, err error) (_ agent.Result, failed, broken error) {
	i := agent.ToolIndex(r.tools.specs, c.Name)
	if i < 0 || !r.hasHooks(agent.HookAfterCall) {
		return result, err, nil
	}
	tool := r.tools.byName[r.tools.specs[i].Name]
	k := r.invocation(c, tool.Spec())
	k.record = func(e agent.Event) error { return r.emit(ctx, e) }
	k.inv.Turn = turn
	if at, ok := agent.As[agent.Located](tool); ok {
		k.inv.Dir = at.WorkDir()
	}
	return r.hookAfterCall(ctx, &k.inv, k, result, err)
}

// endOf returns what came of such a call.
func (r *run) endOf(ctx context.Context, c agent.PendingCall) (result agent.Result, err error, ok bool) {
	t := r.tree
	t.mu.Lock()
	p := t.pending[c.Key]
	ok = p.Session != nil && p.Session.Ended != "" && !slices.Contains(r.agent.LendTools, p.Session.Agent) // which is a request of its program
	if ok && len(p.Session.Left) == 0 {
		delete(t.pending, c.Key)
	}
	t.mu.Unlock()
	if !ok {
		return agent.Result{}, nil, false
	}
	s := p.Session
	if i := agent.ToolIndex(r.tools.specs, c.Name); len(s.Left) > 0 && i >= 0 && r.tools.specs[i].Channel == 0 {
		d := &background{}
		r.takeUpAll(ctx, s.Left, d)
		t.keepDetached(c.Key, d)
	}
	out := &agent.Outcome{Status: s.Ended, Agent: s.Agent, Reason: s.Closing}
	if m, ok := s.Answer(); ok {
		out.Message, out.Answer = m, m.Text()
		if n := len(p.Events); n > 0 { // what counts of the message
			out.Answer = cmp.Or(p.Events[n-1].Text, out.Answer)
		}
	}
	if s.Ended != agent.StatusOK && s.Ended != agent.StatusPartial {
		why := fmt.Sprintf("it had ended without an answer (%s)", s.Ended)
		if n := len(p.Events); n > 0 {
			why = cmp.Or(p.Events[n-1].Error, why)
		}
		err = &agent.EndError{Status: s.Ended, Text: why}
	}
	dir, complete := r.reopen(ctx, c)
	if err = cmp.Or(err, r.collectEnded(ctx, c, p, dir)); err != nil && agent.StatusOf(err) != s.Ended {
		out.Answer = ""
	}
	if result, err = agent.AnswerOf(out, err); complete != nil {
		result, err = complete(result, err)
	}
	result, err = t.gate.limit(result, err)
	return result, err, true
}

// reopen returns the workspace in which the agent of a call worked that has ended.
func (r *run) reopen(ctx context.Context, c agent.PendingCall) (dir string, complete func(agent.Result, error) (agent.Result, error)) {
	if i := agent.ToolIndex(r.tools.specs, c.Name); i >= 0 {
		if w, ok := agent.As[agent.Workspaced](r.tools.byName[r.tools.specs[i].Name]); ok {
			return w.Reopen(ctx, c.Key)
		}
	}
	return "", nil
}
