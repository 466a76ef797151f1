package replay

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/closest"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/trial/standin"
)

// call runs a call of t if it is to be real, and otherwise returns the recorded
// result. Sub-agents always run: their own models and tools are served.
func (p *Player) call(ctx context.Context, inv *agent.Invocation, t agent.Tool) (agent.Result, error) {
	if inv.Spec.Agent != "" || p.realCall(inv) {
		ctx, done := p.enter(ctx, inv)
		defer done()
		return t.Call(ctx, inv)
	}
	c, err := p.take(inv)
	if err != nil {
		p.fail(err)
		return agent.Result{}, err
	}
	if c.result == nil {
		p.leave(p.of(inv.Session))
		return agent.Result{}, ErrUnfinished
	}
	if c.context != nil {
		if err := inv.SetContext(ctx, c.context); err != nil {
			p.fail(err)
		}
	}
	return standin.Result(c.result)
}

// realCall reports whether a tool that is not a sub-agent runs.
func (p *Player) realCall(inv *agent.Invocation) bool {
	return p.LiveTools || p.real(p.of(inv.Session), inv.Turn)
}

// enter gives the sessions that a call starts a context of their own, so that one
// which was interrupted ends alone.
func (p *Player) enter(ctx context.Context, inv *agent.Invocation) (context.Context, func()) {
	ctx, stop := context.WithCancelCause(ctx)
	up := p.of(inv.Session)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[inv.Key] = &running{up: up, at: position{inv.Turn, inv.N}, stop: stop}
	return ctx, func() {
		stop(nil)
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.running, inv.Key)
	}
}

// command is what a real call executes, or what the recorded one executed.
func (p *Player) command(inv *agent.Invocation, t agent.Tool) (argv []string, digest string) {
	if inv.Spec.Agent == "" && !p.realCall(inv) {
		if c := p.recorded(inv); c != nil && c.started != nil {
			return c.started.Argv, c.started.Digest
		}
		return nil, ""
	}
	if c, ok := agent.As[agent.Commander](t); ok {
		return c.Command(inv)
	}
	return nil, ""
}

// replayedRights decide about real calls. The record has the verdicts about others.
type replayedRights struct {
	agent.Rights
	p *Player
}

// Decide implements agent.Rights.
func (r *replayedRights) Decide(inv *agent.Invocation) agent.Verdict {
	if r.p.realCall(inv) || r.p.LiveModel {
		return r.Rights.Decide(inv)
	}
	return agent.Verdict{Decision: agent.Allow}
}

// decide repeats the recorded verdict about a served call. Real calls are up to
// policy.
func (p *Player) decide(ctx context.Context, inv *agent.Invocation, policy agent.Policy) agent.Verdict {
	switch {
	case p.realCall(inv) && policy != nil:
		return policy(ctx, inv)
	case !p.realCall(inv) && !p.LiveModel:
		if c := p.recorded(inv); c != nil && c.verdict != nil {
			return agent.Verdict{Decision: c.verdict.Decision, Reason: c.verdict.Text}
		}
	}
	return agent.Verdict{Decision: agent.Allow}
}

// reserve refuses a served call that did not start when it was recorded, and has a
// served model asked for its answer where it was when it was recorded. Everything else
// is up to next.
func (p *Player) reserve(ctx context.Context, n runner.Need, next runner.Reserver) (func(agent.Usage), error) {
	real := n.Call == nil || p.realCall(n.Call)
	switch {
	case n.Request != nil && p.closing(n.Request) != nil:
		return nil, p.closing(n.Request)
	case real && next != nil:
		return next(ctx, n)
	case !real && !p.LiveModel:
		c := p.recorded(n.Call)
		if c == nil || c.started != nil || c.result == nil {
			break
		}
		if why, ok := strings.CutPrefix(c.result.Text(), "error: not run: "); ok {
			return nil, errors.New(why)
		}
	}
	return func(agent.Usage) {}, nil
}

// closing is a *agent.NearlySpent if the model was asked for its answer before the
// request of this turn, and is not yet.
func (p *Player) closing(req *agent.Request) error {
	s := p.of(req.Session)
	if p.LiveModel || p.real(s, req.Turn) || s.rec == nil || req.Summary {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e := s.rec.closings[req.Turn]
	if e == nil || s.closed == req.Turn {
		return nil
	}
	return &agent.NearlySpent{Reason: e.Error, Text: e.Message.Text()}
}

// recorded is the call at the position of inv, or nil.
func (p *Player) recorded(inv *agent.Invocation) *call {
	if s := p.of(inv.Session); s.rec != nil {
		return s.rec.calls[position{inv.Turn, inv.N}]
	}
	return nil
}

// leaves is runner.Runner.Leaves.
func (p *Player) leaves(inv *agent.Invocation) (leaves, known bool) {
	c := p.recorded(inv)
	if c == nil || c.result == nil {
		return false, false
	}
	return c.result.Handle != "", true
}

// take finds the recorded call that inv is; otherwise the error is a *Miss.
func (p *Player) take(inv *agent.Invocation) (*call, error) {
	if p.LiveModel {
		return p.takeSame(inv)
	}
	c := p.recorded(inv)
	if c == nil || c.call.Name != inv.Call.Name || !slices.Contains(c.args(), inv.Call.Args) {
		return nil, missCall(p.of(inv.Session).path, inv, c)
	}
	return c, nil
}

// args are the arguments that the model sent and those with which the call ran: see
// agent.Verdict.Args and agent.ToolSpec.Aliases.
func (c *call) args() []string {
	if c.started == nil {
		return []string{c.call.Args}
	}
	return []string{c.call.Args, c.started.Args}
}

// takeSame finds a call of the same tool with the same arguments that was not
// served yet, of the same agent before others.
func (p *Player) takeSame(inv *agent.Invocation) (*call, error) {
	path := p.of(inv.Session).path
	p.mu.Lock()
	defer p.mu.Unlock()
	args := jsondoc.Format(inv.Call.Args, "")
	var found, near *call
	nearest := 0
	for _, c := range p.Record.calls {
		if c.call.Name != inv.Call.Name || c.result == nil || p.served[c] {
			continue
		}
		if n := closest.Unlike(jsondoc.Format(c.call.Args, ""), args); near == nil || n < nearest {
			near, nearest = c, n
		}
		if slices.ContainsFunc(c.args(), func(other string) bool { return jsondoc.Format(other, "") == args }) && (found == nil || found.agent != inv.Agent && c.agent == inv.Agent) {
			found = c
		}
	}
	if found == nil {
		return nil, missCall(path, inv, near)
	}
	p.served[found] = true
	return found, nil
}
