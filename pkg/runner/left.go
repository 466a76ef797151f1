package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// leaveAfter is how long a caller waits for an agent before the agent works in the background.
const leaveAfter = 2 * time.Second

// maxLeft is how many agents work in the background for one agent. Calls beyond that wait for
// the answer.
const maxLeft = 32

// A leftAgent is the agent of a call that may go on in the background.
type leftAgent struct {
	agent.LeftCall
	detach      bool // it outlives its caller
	stop        context.CancelCauseFunc
	began, done chan struct{} // closed when its session has begun, and when it has ended, with its hooks
	elsewhere   bool          // another Runner runs it: see Runner.Elsewhere
	held        chan struct{} // closed when it may begin to work, nil if it may at once: see Runner.Held
	over        chan struct{} // closed when it has ended, and hooks may still run

	session string // guarded by tree.mu

	owner atomic.Pointer[background] // changes with the mu of both held; see lock
	// These are guarded by the owner's mu, as is Handle.
	left   bool // its caller has the handle
	ended  bool
	result agent.Result
	err    error
}

// handleOf names a call for the model: by its agent and its place in the conversation.
func handleOf(inv *agent.Invocation) string {
	name := strings.TrimPrefix(strings.TrimPrefix(inv.Spec.Name, agent.ExpertPrefix+"_"), agent.CompatPrefix+"_")
	return fmt.Sprintf("%s-%d-%d", name, inv.Turn, inv.N)
}

func newLeft(l agent.LeftCall, owner *background) *leftAgent {
	a := &leftAgent{LeftCall: l, stop: func(error) {}, began: make(chan struct{}), done: make(chan struct{}), over: make(chan struct{})}
	a.owner.Store(owner)
	return a
}

// leave starts the agent of a call in the background b.
func (r *run) leave(ctx context.Context, inv *agent.Invocation, tool agent.Tool, l agent.LeftCall, b *background) *leftAgent {
	a := newLeft(l, b)
	t, home := r.tree, b
	if t.holds {
		a.held = make(chan struct{})
	}
	if a.detach = inv.Spec.Detach; a.detach {
		home = &t.root.background
	}
	if c := callOf(inv); c != nil {
		c.left = true
	}
	t.mu.Lock()
	if t.leaving == nil {
		t.leaving = map[string]*leftAgent{}
	}
	t.leaving[inv.Key] = a
	if p := t.pending[inv.Key]; p.Session != nil && p.Session.ID != "" {
		t.begun(inv.Key, p.Session.ID)
	}
	t.mu.Unlock()
	deadline, limited := ctx.Deadline()
	home.mu.Lock()
	inside := home.open(ctx)
	home.mu.Unlock()
	hooks := inside // they also see what a stopped agent leaves
	cancel := context.CancelFunc(func() {})
	if limited {
		inside, cancel = context.WithDeadlineCause(inside, deadline, r.lateness(deadline))
	}
	inside, a.stop = context.WithCancelCause(inside)
	if c := callOf(inv); c != nil {
		c.stop = a.stop // a person ends the agent, and not the call that is over
	}
	b.add(a)
	home.tasks.Go(func() {
		defer cancel()
		defer a.stop(nil)
		var result agent.Result
		err := fmt.Errorf("%w: the program failed", agent.ErrUnknownOutcome) // in case of a panic
		_ = t.guard(func() error { result, err = tool.Call(inside, inv); return nil })
		result, err = t.gate.limit(result, err)
		close(a.over)
		if c := callOf(inv); c != nil {
			if c.started && !c.delegated {
				result, err = r.hookLeft(hooks, inv, c, result, err)
			}
			c.over()
		}
		r.ending(inv)
		a.finish(result, err)
		t.mu.Lock()
		delete(t.leaving, inv.Key)
		t.mu.Unlock()
	})
	return a
}

// hookLeft runs the hooks after a call on what its agent has done, and not on the handle.
func (r *run) hookLeft(ctx context.Context, inv *agent.Invocation, c *call, result agent.Result, err error) (agent.Result, error) {
	if !r.hasHooks(agent.HookAfterCall) {
		return result, err
	}
	failure := r.tree.guard(func() (broken error) {
		result, err, broken = r.hookAfterCall(ctx, inv, c, result, err)
		return broken
	})
	if failure != nil { // the journal is broken: nothing may be told that it does not have
		return agent.Result{}, failure
	}
	return result, err
}

// begun notes the session that answers a call, for messages to an agent in the background. t.mu
// is held.
func (t *tree) begun(key, session string) {
	if a := t.leaving[key]; a != nil && a.session == "" {
		if a.session = session; a.held == nil {
			close(a.began)
		}
	}
}

// hold waits until the agent that answers a call may work: see Runner.Held.
func (t *tree) hold(ctx context.Context, key string) {
	t.mu.Lock()
	a := t.leaving[key]
	t.mu.Unlock()
	if a == nil || a.held == nil {
		return
	}
	close(a.began)
	select {
	case <-a.held:
	case <-ctx.Done():
	}
}

// release lets a held agent work. The mu of its owner is locked.
func (a *leftAgent) release() {
	if a.held == nil {
		return
	}
	select {
	case <-a.held:
	default:
		close(a.held)
	}
}

// finish notes the end of an agent, and tells the model of it if its caller has left it.
func (a *leftAgent) finish(result agent.Result, err error) {
	b := a.lock()
	defer b.mu.Unlock()
	a.result, a.err, a.ended = result, err, true
	if a.left {
		b.tell(a)
	}
	close(a.done)
}

// tell adds the end of an agent to the messages for the model. b.mu is held.
func (b *background) tell(a *leftAgent) {
	var inv agent.Invocation
	parts := inv.Ended(a.result, a.err).Result.Parts
	m := agent.Message{Role: agent.RoleUser, Parts: append([]agent.Part{agent.Text("[agent " + a.Handle + " has ended]\n")}, parts...)}
	b.notices = append(b.notices, agent.Directive{Message: &m, Key: a.Key, Outcome: outcomeOf(a.err), Notice: true})
	b.arrive()
}

func outcomeOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, agent.ErrRefused):
		return "denied"
	case errors.Is(err, agent.ErrUnknownOutcome):
		return "unknown"
	}
	return "failed"
}

// callLeft is the call of an agent that may go on in the background: its result is that of the
// agent, or soon a handle.
func (r *run) callLeft(ctx context.Context, inv *agent.Invocation, tool agent.Tool) (agent.Result, error) {
	soon, decided := false, false
	if r.tree.leaves != nil {
		soon, decided = r.tree.leaves(inv)
	}
	b := &r.background
	reserved := !decided && b.reserve()
	decided = decided || !reserved
	soon = soon || r.tree.holds && !decided
	a := r.leave(ctx, inv, tool, agent.LeftCall{Key: inv.Key, Handle: handleOf(inv), Call: inv.Call, Turn: inv.Turn, N: inv.N - 1}, b)
	if !soon { // its caller waits for it
		b.mu.Lock()
		a.release()
		b.mu.Unlock()
	}
	wait := ctx
	if soon || !decided {
		after := leaveAfter
		if soon {
			after = 0
		}
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, after)
		defer cancel()
	}
	select {
	case <-a.done:
	case <-wait.Done():
		if inv.Spec.IsAgent() { // its session must have begun: whoever reads the events expects it
			select {
			case <-a.done:
			case <-a.began:
			case <-ctx.Done():
			}
		}
	}
	if ctx.Err() != nil {
		a.stop(context.Cause(ctx))
		<-a.done
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if reserved {
		b.reserved--
	}
	if a.ended && !soon {
		b.forget(a.Key)
		return a.result, a.err
	}
	if a.left = true; a.ended {
		b.tell(a)
	}
	return handleResult(a.Handle), nil
}

func handleResult(handle string) agent.Result {
	return agent.Result{Handle: handle, Parts: []agent.Part{agent.Text(fmt.Sprintf(
		"The agent works in the background as %s. You are told when it has ended. agent_wait waits for that, agent_send sends it a message, agent_stop ends it.", handle))}}
}

// forget drops an agent whose answer the model has. b.mu is held.
func (b *background) forget(key string) {
	b.agents = slices.DeleteFunc(b.agents, func(a *leftAgent) bool { return a.Key == key })
}

// relaunch continues the agents that worked in the background when the process ended. If other
// Runners run them, it only adds them to r.background, once.
func (r *run) relaunch(ctx context.Context) error {
	if len(r.session.Left) == 0 || r.compacts || r.tree.delegate != nil && len(r.background.agents) > 0 {
		return nil
	}
	if err := r.refreshTools(ctx); err != nil {
		return err
	}
	r.takeUpAll(ctx, r.session.Left, &r.background)
	return nil
}

// takeUp continues the agent of a call of r, for b.
func (r *run) takeUp(ctx context.Context, l agent.LeftCall, b *background) {
	t := r.tree
	c := agent.PendingCall{ToolCall: l.Call, N: l.N, Key: l.Key, Started: true}
	a := newLeft(l, b)
	a.left = true
	i := agent.ToolIndex(r.tools.specs, l.Call.Name)
	a.detach = r.detaches(i)
	t.mu.Lock()
	p := t.pending[l.Key]
	t.mu.Unlock()
	switch {
	case p.Session == nil, slices.Contains(r.agent.LendTools, p.Session.Agent): // none, or a request of its program
		a.err = fmt.Errorf("it was not continued: %w", agent.ErrUnknownOutcome)
	case p.Session.Ended != "":
		told := !t.calling && !(t.noNotices && a.detach && r.canDetach()) // or others are
		if a.result, a.err, _ = r.endOf(ctx, c); told {
			a.result, a.err, _ = r.hookEnded(ctx, c, l.Turn, a.result, a.err) // what is broken is the journal, and stays so
		}
	case i < 0:
		a.err = fmt.Errorf("it was not continued: there is no tool %s any more", l.Call.Name)
	default:
		tool := r.tools.byName[r.tools.specs[i].Name]
		k := r.invocation(c, tool.Spec())
		inv := &k.inv
		inv.Turn = l.Turn
		if at, ok := agent.As[agent.Located](tool); ok {
			inv.Dir = at.WorkDir()
		}
		k.record = func(e agent.Event) error { return r.emit(ctx, e) }
		k.ended = r.checkpoint(ctx, &inv.Spec)
		k.delegated = t.aside != nil && t.aside.key == l.Key // what came of it is recorded later
		expect := expects(tool)
		expect.Dir = cmp.Or(expect.Dir, inv.Dir)
		t.mu.Lock()
		t.collect(l.Key, expect)
		t.mu.Unlock()
		if inv.Accepts = len(expect.Accept) > 0; inv.Accepts {
			k.expect = expect
			tool = r.accepting(tool, k)
		}
		a = r.leave(ctx, inv, r.judgedAgain(tool, k), l, b)
		b.mu.Lock()
		defer b.mu.Unlock()
		if a.left = true; a.ended {
			b.tell(a)
		}
		return
	}
	b.add(a)
	a.finish(a.result, a.err)
}

// judgedAgain returns tool with the checks that a call passes before it starts: what was permitted
// when an earlier process started it may be denied by now.
func (r *run) judgedAgain(tool agent.Tool, k *call) agent.Tool {
	return agent.Wrap(tool, func(ctx context.Context, inv *agent.Invocation, next agent.Tool) (agent.Result, error) {
		err, broken := r.tree.gate.permit(ctx, tool, inv, k, k.record)
		if err = cmp.Or(broken, err); err != nil {
			return agent.Result{}, agent.NotRun(fmt.Errorf("it was not continued: %w", err))
		}
		k.started = true
		return next.Call(ctx, inv)
	})
}

// add inserts an agent in the order of the calls: those of one answer may begin in any order.
func (b *background) add(a *leftAgent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := len(b.agents)
	for i > 0 && agent.CallSession(b.agents[i-1].Key) == agent.CallSession(a.Key) &&
		cmp.Or(cmp.Compare(b.agents[i-1].Turn, a.Turn), cmp.Compare(b.agents[i-1].N, a.N)) > 0 {
		i--
	}
	b.agents = slices.Insert(b.agents, i, a)
}

// reserve reserves a place for an agent in the background, and reports whether there is one: the
// calls of one answer start at the same time.
func (b *background) reserve() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count()+b.reserved >= maxLeft {
		return false
	}
	b.reserved++
	return true
}

// working returns how many agents work in the background.
func (b *background) working() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count()
}

// count is working, with b.mu locked.
func (b *background) count() (n int) {
	for _, a := range b.agents {
		if a.left && !a.ended {
			n++
		}
	}
	return n
}

// staying returns the handles of the agents that work for r and end with it.
func (r *run) staying() (handles []string) {
	b, detach := &r.background, r.canDetach()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.agents {
		if a.left && !a.ended && !(detach && a.detach) {
			handles = append(handles, a.Handle)
		}
	}
	return handles
}

// lastCall returns the message for a model that is about to end its run while agents work for it.
// Each agent is mentioned only once, and agents that outlive the run are not.
func (r *run) lastCall() (agent.Directive, bool) {
	const begins, ends = "[still at work for you: ", ". Wait for them with agent_wait. If you answer again without that, they are ended.]"
	open := r.staying()
	if len(open) == 0 {
		return agent.Directive{}, false
	}
	told := map[string]bool{} // read from the session, as another process may have told the model
	for _, m := range r.session.Messages {
		if names, ok := strings.CutPrefix(m.Text(), begins); ok && m.Role == agent.RoleUser {
			for _, handle := range strings.Split(strings.TrimSuffix(names, ends), ", ") {
				told[handle] = true
			}
		}
	}
	if !slices.ContainsFunc(open, func(handle string) bool { return !told[handle] }) {
		return agent.Directive{}, false
	}
	m := agent.UserText(begins + strings.Join(open, ", ") + ends)
	return agent.Directive{Message: &m, Notice: true}, true
}
