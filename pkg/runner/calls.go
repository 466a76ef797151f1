package runner

import (
	"cmp"
	"context"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
	"golang.org/x/sync/errgroup"
)

// callAll answers the calls of step: result i belongs to call i. Those that
// cannot be run, or whose agent had ended, are answered first, in their order. The others run at the same
// time, up to the agent's limit, and no failure of one touches another. Only a
// failing journal is an error.
func (r *run) callAll(ctx context.Context, step agent.Step) error {
	if len(r.tools.byName) == 0 {
		if err := r.refreshTools(ctx); err != nil {
			return r.fail(ctx, agent.Step{}, err, agent.Usage{})
		}
	}
	list, err := r.due(ctx, step)
	if err != nil {
		return err
	}
	var g errgroup.Group
	calls, stop := context.WithCancel(ctx)
	defer stop()
	g.SetLimit(cmp.Or(r.agent.MaxParallelTools, agent.DefaultMaxParallelTools))
	for _, c := range list {
		g.Go(func() error {
			err := r.tree.guard(func() error { return r.call(calls, c) })
			if err != nil {
				stop() // nothing may happen that cannot be recorded
			}
			return err
		})
	}
	return g.Wait()
}

// due ends the calls that need not run, and returns the others.
//
//go:noinline
func (r *run) due(ctx context.Context, step agent.Step) (list []agent.PendingCall, err error) { // see insert
	for _, c := range step.Calls {
		e, over := r.session.Refuse(c, r.tools.specs)
		if over && !c.Started {
			if why := r.hidden(ctx, c.Name); why != nil {
				e = r.session.CallEnded(c, agent.Result{}, why)
			}
		}
		if !over {
			if e, over, err = r.endedBefore(ctx, c); err != nil {
				return nil, err
			}
		}
		if !over {
			list = append(list, c)
		} else if err := r.emit(ctx, e); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// call runs one call. Whatever goes wrong with the tool becomes the result.
func (r *run) call(ctx context.Context, c agent.PendingCall) error {
	tool := r.tools.byName[r.tools.specs[agent.ToolIndex(r.tools.specs, c.Name)].Name]
	k := r.invocation(c, tool.Spec())
	inv := &k.inv
	if r.isAside(tool, &inv.Spec) {
		return r.tree.delegate(ctx, Delegation{Key: c.Key, Background: true})
	}
	if inv.Spec.Channel > 0 {
		ctx, k.stop = context.WithCancelCause(ctx)
		defer k.stop(nil)
	}
	if inv.Spec.IsAgent() {
		k.expect = expects(tool)
		if inv.Accepts = len(k.expect.Accept) > 0; inv.Accepts {
			tool = r.accepting(tool, k)
		}
	}
	switch a := r.tree.aside; {
	case a != nil && a.key == c.Key:
		tool = r.unrecorded(tool, k)
	case inv.Spec.Background && r.tree.delegate == nil:
		k.leaves = true
		tool = agent.Wrap(tool, r.callLeft)
	}
	defer func() {
		if !k.left { // otherwise the call is over when its agent is
			k.over()
		}
	}()
	return r.tree.gate.Call(ctx, tool, inv, func(e agent.Event) error {
		switch e.Kind {
		case agent.EventCallStarted:
			k.ended = r.checkpoint(ctx, &inv.Spec)
			r.starting(inv, k)
		case agent.EventCallEnded:
			if !k.left { // its agent may still work, and has its files compared at its end
				r.ending(inv)
			}
		}
		if err := r.emit(ctx, e); err != nil || e.Kind != agent.EventCallStarted || inv.Spec.IsAgent() {
			return err // of a sub-agent, nothing happens but what is recorded on its own
		}
		return r.syncStart(ctx, e.Key, &inv.Spec)
	})
}

// checkpoint makes a checkpoint before a call, if there are any; see Runner.Checkpoint.
func (r *run) checkpoint(ctx context.Context, spec *agent.ToolSpec) (ended func()) {
	t := r.tree
	if t.checkpoint == nil || spec.Effects == agent.EffectsNone || spec.Agent != "" && spec.Channel == 0 {
		return nil
	}
	t.mu.Lock()
	turn := t.root.session.Turn
	t.mu.Unlock()
	ended, err := t.checkpoint(ctx, turn)
	if err != nil && ctx.Err() == nil {
		r.observe(agent.Event{Kind: agent.EventWarning, Text: "what this call changes is not kept: " + err.Error()})
	}
	return ended
}

// invocation makes a call of the session ready for the gate.
func (r *run) invocation(c agent.PendingCall, spec agent.ToolSpec) *call {
	k := &call{run: r}
	r.session.Invoke(&k.inv, c, spec)
	k.inv.Trace = r.tree.callTrace(r.tree.root.session.ID, k.inv.Key)
	k.inv.Caller, k.inv.Driver, k.inv.Level, k.inv.Context = r, k, r.tree.above+r.depth, r.tree.currentContext()
	return k
}

// Progress implements agent.CallingRun.
func (r *run) Progress(inv *agent.Invocation, text string) {
	e := inv.Event(agent.EventProgress)
	e.N, e.Text = 0, text
	r.observe(e)
}

// Run implements agent.CallingRun.
func (r *run) Run(ctx context.Context, inv *agent.Invocation, a *agent.Agent, prompt agent.Message) (*agent.Outcome, error) {
	if r.levels() < 1 {
		return &agent.Outcome{Status: agent.StatusLimit, Agent: a.Slug}, r.errDepth()
	}
	if r.tree.delegate != nil && r.up == nil && inv.Spec.Agent != "" && !a.Here { // a program that calls agents waits for them
		return r.delegate(ctx, inv, a, prompt)
	}
	child := &run{node: r.below(a, inv.Key), conditions: a.Accept}
	child.chooseLoan()
	if k := callOf(inv); k != nil && k.inv.Spec.IsAgent() {
		k.judged, child.conditions = true, slices.Concat(a.Accept, k.expect.Accept)
		r.tree.worksIn(inv.Key, a)
	}
	if inv.Spec.Agent != "" {
		if p := r.tree.takePending(inv.Key); p.Session != nil {
			child.session, child.total = p.Session, p.Total.Clone()
			return child.resume(ctx, prompt)
		}
	}
	return child.do(ctx, &prompt)
}

// below returns the node of an agent that answers the call with a key.
func (r *node) below(a *agent.Agent, key string) node {
	return node{tree: r.tree, up: r, agent: a, session: &agent.Session{}, parent: key, depth: r.depth + 1}
}
