package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// A Delegation is a sub-agent that another Runner runs: its session has begun, with its
// prompt, in the Journal.
type Delegation struct {
	// Key is that of the call, and Session the sub-agent's session, which has it as Parent. Without
	// a Session, the agent may work in the background, nothing of the call has happened yet, and
	// Runner.Aside does all of it: the agent is another program or process, or has a workspace. All
	// that is set then is Key and Background.
	Key     string
	Session string
	// Agent and Source are those of the sub-agent.
	Agent  string
	Source string
	// Depth is that of Session.
	Depth int
	// Lease is for the other Runner. Its Budget is all that the caller has left, its Path
	// names the agents above, and its Rights lack theirs, which that Runner gets from Callers.
	Lease agent.Lease
	// Background says that the call may return before the agent ends: see Leave. Detach says that the
	// agent may then outlive its caller: EventEnd.Left of the caller has its call if it does.
	Background bool
	Detach     bool
}

// Elsewhere gives access to the agents in the background that other Runners run, by their sessions,
// and in Await by the Keys of their calls.
type Elsewhere interface {
	// Send sends a message. If it is called again with the same key, that of the call that sends the
	// message, the agent gets the message only once.
	Send(ctx context.Context, session, key string, m agent.Message) error
	// Stop asks an agent to end, and does not wait for that.
	Stop(ctx context.Context, session, reason string) error
	// Await reports whether StepCall will be called again once one of the agents has ended or the
	// time most is over. The call stays open until then.
	Await(keys []string, most time.Duration) (later bool)
}

// ErrOpen is returned by a Step that would end the run while agents that end with it still work
// elsewhere. Step has then done nothing. The caller stops these agents first, and continues with
// NoNotices, so that the model is not told about their ends.
var ErrOpen = errors.New("agents of this run still work in the background")

// StepCall runs one of the calls that the session needs next (StepCalls): the open call with
// the given Key. Several Runners, in different processes, can run the calls of one turn if
// each has a Journal that writes into the same record. A call that began before is treated as
// in Resume. When StepCall returns, nothing that the call started is running. The
// error is that of the journal or of Delegate.
//
// With Delegate, the call of a sub-agent begins the sub-agent's session, unless the Resume has
// it among Pending or the Delegation has none, and then calls Delegate, whose error is that of
// StepCall. The call stays open. Another Runner continues the session, from Rebuilder.ResumeOf
// with the Lease. Once it has ended, a Runner whose Resume has it among Pending records the result
// when StepCall is called again.
func (r *Runner) StepCall(ctx context.Context, key string) error { return r.stepCall(ctx, key, false) }

// Leave lets the caller of an agent that is delegated with Delegation.Background continue: the
// result of the call is a handle. The first Step after the agent has ended tells the model so. If
// the agent has ended already, Leave does the same as StepCall. If it does not have its
// prompt yet, which is only possible with Aside, Leave calls Delegate again.
func (r *Runner) Leave(ctx context.Context, key string) error { return r.stepCall(ctx, key, true) }

// Aside runs the call of an agent that Delegate got without a Session, here and until the agent has
// ended; meanwhile Leave can let its caller continue. A call that began before is treated as in
// Resume. With a ctx that has ended, nothing runs. When Aside returns nil, the end of the agent's
// session is recorded, and StepCall, or the next Step if the caller has the handle, delivers what came
// of it; if no session began, the result is recorded.
func (r *Runner) Aside(ctx context.Context, key string) error {
	root := r.root()
	t, s := root.tree, root.session
	p := t.pending[key]
	t.stepped, t.delegate, t.aside = true, nil, &aside{key: key, began: p.began()} // the agents below it work here
	if p.Session != nil && p.Session.Ended != "" {
		return nil
	}
	calls := slices.DeleteFunc(s.Next().Calls, func(c agent.PendingCall) bool { return c.Key != key })
	err := agent.ContextError(ctx)
	if err == nil {
		var cancel context.CancelFunc
		ctx, cancel = root.timed(ctx)
		defer cancel()
		defer root.background.end(t)
		err = root.refreshTools(ctx)
	}
	if err != nil && len(calls) > 0 && !p.began() {
		if err = agent.NotRun(err); calls[0].Started {
			err = agent.ErrUnknownOutcome // it may have run
		}
		return root.emit(ctx, s.CallEnded(calls[0], agent.Result{}, err))
	}
	if err != nil {
		return root.endUnfinished(ctx, key, err)
	}
	i := slices.IndexFunc(s.Left, func(l agent.LeftCall) bool { return l.Key == key })
	switch {
	case i >= 0:
		root.takeUp(ctx, s.Left[i], &root.background)
		t.aside.err = root.background.settled(ctx, key)
	case len(calls) > 0:
		if err := root.callAll(ctx, agent.Step{Kind: agent.StepCalls, Calls: calls}); err != nil {
			return err
		}
	}
	if t.broken != nil {
		return t.broken
	}
	return root.endUnfinished(ctx, key, cmp.Or(t.aside.err, agent.ErrUnknownOutcome))
}

// aside is the call of Runner.Aside.
type aside struct {
	key   string
	began bool  // its agent has its prompt; guarded by tree.mu
	err   error // of the call
}

// endUnfinished records the ends of the session that answers a call, and of those below it, unless
// they were continued: then they have ended by themselves.
func (r *node) endUnfinished(ctx context.Context, key string, why error) error {
	p := r.tree.takePending(key)
	if !p.began() || p.Session.Ended != "" {
		return nil
	}
	c := &run{node: r.below(&agent.Agent{Slug: p.Session.Agent}, key)}
	c.session, c.total, c.depth, c.start = p.Session, p.Total.Clone(), p.Session.Depth, r.tree.now()
	for _, l := range p.Session.Left {
		if err := c.endUnfinished(ctx, l.Key, why); err != nil {
			return err
		}
	}
	for _, open := range p.Session.OpenCalls() {
		if err := cmp.Or(c.endUnfinished(ctx, open.Key, why), c.emit(ctx, p.Session.CallEnded(open, agent.Result{}, why))); err != nil {
			return err
		}
	}
	if u := p.Session.Unanswered(); u != (agent.Usage{}) { // its process ended while it waited for the model
		e := p.Session.Failed(agent.Step{}, why)
		e.Usage = &u
		if err := c.emit(ctx, e); err != nil {
			return err
		}
	}
	return c.emit(ctx, p.Session.End(agent.StatusOf(why), why).Events...)
}

// isAside reports whether Aside is to run a call, whose agent cannot be delegated.
func (r *run) isAside(tool agent.Tool, spec *agent.ToolSpec) bool {
	if r.tree.delegate == nil || r.up != nil || !spec.Background {
		return false
	}
	return !delegable(tool, spec) && r.background.working() < maxLeft
}

// delegable reports whether another Runner can run the agent that a tool is.
func delegable(tool agent.Tool, spec *agent.ToolSpec) bool {
	_, here := agent.As[agent.Workspaced](tool)
	_, sub := agent.As[*agent.Subagent](tool)
	return sub && !here && spec.Agent != ""
}

// began reports whether an agent has its prompt.
func (p *PendingSession) began() bool {
	return p.Session != nil && (p.Session.Running || p.Session.Ended != "")
}

// unrecorded is the tool of the call of Aside: once its agent has a session, what came of it is
// recorded later.
func (r *run) unrecorded(tool agent.Tool, k *call) agent.Tool {
	return agent.Wrap(tool, func(ctx context.Context, inv *agent.Invocation, next agent.Tool) (agent.Result, error) {
		result, err := next.Call(ctx, inv)
		r.tree.mu.Lock()
		defer r.tree.mu.Unlock()
		k.delegated, r.tree.aside.err = r.tree.aside.began, err
		return result, err
	})
}

func (r *Runner) stepCall(ctx context.Context, key string, leave bool) error {
	root := r.root()
	root.tree.stepped, root.tree.calling = true, true
	step := root.session.Next()
	i := slices.IndexFunc(step.Calls, func(c agent.PendingCall) bool { return c.Key == key })
	if i < 0 {
		return fmt.Errorf("session %s waits for no call %.100q", root.session.ID, key)
	}
	step.Calls = step.Calls[i : i+1]
	ctx, cancel := root.timed(ctx)
	defer cancel()
	defer root.background.end(root.tree)
	if root.tree.delegate != nil {
		if err := root.relaunch(ctx); err != nil {
			return err
		}
	}
	if leave {
		return root.leaveElsewhere(ctx, step)
	}
	return root.callAll(ctx, step)
}

func (r *run) leaveElsewhere(ctx context.Context, step agent.Step) error {
	if err := r.refreshTools(ctx); err != nil {
		return err
	}
	list, err := r.due(ctx, step)
	if err != nil || len(list) == 0 {
		return err
	}
	key := list[0].Key
	r.tree.mu.Lock()
	p := r.tree.pending[key]
	r.tree.mu.Unlock()
	if !p.began() {
		return r.tree.delegate(ctx, Delegation{Key: key, Background: true})
	}
	k := r.invocation(list[0], agent.ToolSpec{Name: list[0].Name})
	return r.emit(ctx, r.session.CallEnded(list[0], handleResult(handleOf(&k.inv)), nil))
}

// stopTime is how long agent_stop waits for an agent elsewhere to end.
const stopTime = time.Minute

// stopElsewhere stops an agent that another Runner runs, and waits until it has ended.
func (s agents) stopElsewhere(ctx context.Context, a *leftAgent, reason string) error {
	if err := s.r.tree.elsewhere.Stop(ctx, a.session, reason); err != nil || s.later([]*leftAgent{a}, stopTime) {
		return err
	}
	return fmt.Errorf("agent %s has not ended after %s", a.Handle, stopTime)
}

// later reports whether the call stays open because agents elsewhere still work: see
// Elsewhere.Await.
func (s agents) later(list []*leftAgent, most time.Duration) bool {
	var keys []string
	for _, a := range list {
		if a.elsewhere {
			keys = append(keys, a.Key)
		}
	}
	c := callOf(s.inv)
	if len(keys) == 0 || c == nil || !s.r.tree.elsewhere.Await(keys, most) {
		return false
	}
	c.delegated = true
	return true
}

// delegate begins the session of a sub-agent, or takes up the one that began, for another
// Runner.
func (r *run) delegate(ctx context.Context, inv *agent.Invocation, a *agent.Agent, prompt agent.Message) (*agent.Outcome, error) {
	child := &run{node: r.below(a, inv.Key)}
	child.depth = r.session.Depth + 1
	if p := r.tree.takePending(inv.Key); p.Session != nil {
		child.session = p.Session
	}
	out := &agent.Outcome{Status: agent.StatusFailed, Agent: a.Slug}
	c := callOf(inv)
	c.delegated = true
	if !child.session.Running {
		if c.delegating = child.prompt(ctx, prompt); c.delegating != nil {
			return out, c.delegating
		}
	}
	lease := r.Lease(ctx, inv)
	lease.Shared = false               // see Runner.Shared: the caller is not there to be asked
	lease.Rights = r.tree.lease.Rights // the others are those of Callers
	lease.Models = r.tree.lease.Models // the same
	c.delegating = r.tree.delegate(ctx, Delegation{Key: inv.Key, Session: child.session.ID, Agent: a.Slug, Source: a.Source, Depth: child.session.Depth, Lease: lease,
		Background: inv.Spec.Background && r.background.working() < maxLeft, Detach: inv.Spec.Detach})
	return out, c.delegating
}

// Left returns what is left of b after total was consumed. Times, depth and processes stay.
func Left(b agent.Budget, total agent.TotalUsage) agent.Budget {
	left, used := limitsOf(&b), consumed(&total)
	for kind, n := range left {
		if n != unlimited {
			left[kind] = max(n-used[kind], 0)
		}
	}
	setAmounts(&b, left)
	return b
}
