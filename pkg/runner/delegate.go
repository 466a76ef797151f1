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
	// that is set then is Key, Agent and Background.
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

// Elsewhere gives access to the agents in the background that other Runners run, by their sessions.
type Elsewhere interface {
	// Send sends a message. If it is called again with the same key, that of the call that sends the
	// message, the agent gets the message only once.
	Send(ctx context.Context, session, key string, m agent.Message) error
	// Stop asks an agent to end, and does not wait for that.
	Stop(ctx context.Context, session, reason string) error
	// Await reports whether StepCall will be called again once one of the agents, by the Keys of
	// their calls, has ended or the time most is over. The call stays open until then.
	Await(keys []string, most time.Duration) (later bool)
}

// ErrOpen is returned by a Step that would end the run while agents still work in the background
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
// it among Pending, and then calls Delegate, whose error is that of StepCall. The call stays
// open. Another Runner continues the session, from Rebuilder.ResumeOf with the Lease. Once
// it has ended, a Runner whose Resume has it among Pending records the
// result when StepCall is called again.
func (r *Runner) StepCall(ctx context.Context, key string) error { return r.stepCall(ctx, key, false) }

// Leave lets the caller of an agent that is delegated with Delegation.Background continue: the
// result of the call is a handle. The first Step after the agent has ended tells the model so. If
// the agent has ended already, Leave does the same as StepCall. If its session has not begun,
// which is only possible with Aside, Leave calls Delegate again.
func (r *Runner) Leave(ctx context.Context, key string) error { return r.stepCall(ctx, key, true) }

// Aside runs the call of an agent that Delegate got without a Session, here and until the agent has
// ended; meanwhile Leave can let its caller continue. A call that began before is treated as in
// Resume. The result is not recorded, which StepCall does afterwards, unless no session began.
func (r *Runner) Aside(ctx context.Context, key string) error {
	root := r.root()
	t, b := root.tree, &root.background
	p := t.pending[key]
	t.stepped, t.delegate, t.aside = true, nil, &aside{key, p.Session != nil} // the agents below it work here
	ctx, cancel := root.timed(ctx)
	defer cancel()
	defer b.end(t)
	s := root.session
	if p.Session != nil && p.Session.Ended != "" {
		return nil
	}
	if i := slices.IndexFunc(s.Left, func(l agent.LeftCall) bool { return l.Key == key }); i >= 0 {
		if err := root.refreshTools(ctx); err != nil {
			return err
		}
		root.takeUp(ctx, s.Left[i], b)
		b.settled(ctx, key)
		return t.broken
	}
	step := s.Next()
	step.Calls = slices.DeleteFunc(step.Calls, func(c agent.PendingCall) bool { return c.Key != key })
	return cmp.Or(root.callAll(ctx, step), t.broken)
}

// aside is the call of Runner.Aside.
type aside struct {
	key   string
	began bool // its agent has a session; guarded by tree.mu
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

// unrecorded is the tool of the call of Aside: once its agent has a session, what came of it is
// recorded later.
func (r *run) unrecorded(tool agent.Tool, k *call) agent.Tool {
	return agent.Wrap(tool, func(ctx context.Context, inv *agent.Invocation, next agent.Tool) (agent.Result, error) {
		result, err := next.Call(ctx, inv)
		r.tree.mu.Lock()
		defer r.tree.mu.Unlock()
		k.delegated = r.tree.aside.began
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
	begun := r.tree.pending[key].Session != nil
	r.tree.mu.Unlock()
	if !begun {
		return r.tree.delegate(ctx, Delegation{Key: key, Agent: list[0].Name, Background: true})
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
