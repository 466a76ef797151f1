package runner

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
)

// TooLate is the end of the EventWarning about a message that was not read: who sent it may
// begin the next run with it.
const TooLate = "arrived too late: its run has ended"

// An inbox is what was sent to one agent and has not taken effect.
type inbox struct {
	list []agent.Directive
	over bool
	stop context.CancelCauseFunc
	// below sends directives to an agent in another process; nil for those in this one.
	below func(agent.Directive)
	// passed is how many messages were sent there and are not yet in the conversation.
	passed int
}

// inboxes are those of a tree. They have their own lock, because the goroutine that sends
// a directive may also be the one that reads the events, and the tree may be waiting for
// that.
type inboxes struct {
	mu       sync.Mutex
	root     inbox
	sessions map[string]*inbox // of the agents that run, by session
	below    map[string]func(agent.Directive)
}

// send reports whether the session of d runs. d takes effect later.
func (in *inboxes) send(d agent.Directive) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	b := in.sessions[d.Session]
	if d.Session == "" {
		b = &in.root
	}
	switch {
	case b == nil || b.over:
		return false
	case d.Stop && b.stop != nil:
		b.stop(d.End())
	case b.below != nil:
		if d.Message != nil {
			b.passed++
		}
		b.below(d)
	case !d.Stop:
		b.list = append(b.list, d)
	}
	return true
}

// add makes an agent known by its session.
func (in *inboxes) add(session string, b *inbox) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.sessions == nil {
		in.sessions = map[string]*inbox{}
	}
	in.sessions[session] = b
}

// close takes the inbox of an agent that ends, and returns how many messages were not
// read.
func (in *inboxes) close(session string) (unread int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	b := in.sessions[session]
	if b == nil {
		return 0
	}
	delete(in.sessions, session)
	for _, d := range b.list {
		if d.Message != nil {
			unread++
		}
	}
	unread += b.passed
	b.list, b.passed, b.over = nil, 0, true
	return unread
}

// arrived counts a message that an agent in another process has read.
func (in *inboxes) arrived(session string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if b := in.sessions[session]; b != nil {
		b.passed = max(b.passed-1, 0)
	}
}

func (r *run) open(stop context.CancelCauseFunc) {
	in := r.tree.inboxes
	r.inbox = &in.root
	if r.up != nil {
		r.inbox = &inbox{}
	}
	in.mu.Lock()
	r.inbox.over, r.inbox.stop = false, stop
	in.mu.Unlock()
	if r.session.ID != "" {
		in.add(r.session.ID, r.inbox)
	}
}

// unread warns about messages that a session which ends has not read; the agent at the
// top of all processes does. t.mu is held.
func (t *tree) unread(e agent.Event) {
	n := t.inboxes.close(e.Session)
	if n == 0 || t.above > 0 || t.watch == nil {
		return
	}
	e = agent.Event{Kind: agent.EventWarning, Time: e.Time, Session: e.Session, Agent: e.Agent, Parent: e.Parent, Depth: e.Depth}
	e.Text = fmt.Sprintf("%d messages to agent %s %s", n, e.Agent, TooLate)
	if n == 1 {
		e.Text = fmt.Sprintf("a message to agent %s %s", e.Agent, TooLate)
	}
	t.watch(e)
}

// Input sends a message of the user to the run in progress. The model sees it with the
// next request; an answer that arrives before that does not end the run.
// It is safe for concurrent use. After the end it does nothing.
func (r *Runner) Input(m agent.Message) { r.inboxes.send(agent.Directive{Message: &m}) }

// Direct sends d to an agent of the run in progress, at any depth and in whatever process.
// It never waits. It reports false if no agent with that session runs. An agent may end
// before it reads d; a message that it has not read is then an EventWarning.
func (r *Runner) Direct(d agent.Directive) bool { return r.inboxes.send(d) }

// Direct is Runner.Direct; a session that does not run is an EventWarning.
func (c *Channel) Direct(d agent.Directive) {
	switch {
	case d.Stop && d.Session == "":
		c.Cancel(d.Reason)
	case !c.runner.Direct(d) && d.Session != "":
		c.Warn(fmt.Sprintf("a message is ignored: no agent of this run has the session %.100q, or it has ended", d.Session))
	}
}

// directed takes the next message or order if the run is about to ask the model, or to
// end. Messages about background commands come first.
func (r *run) directed(ctx context.Context, step agent.Step) (agent.Directive, bool) {
	ends := step.Kind == agent.StepAccept ||
		step.Kind == agent.StepApply && step.Err == nil && len(step.Events) == 1 && step.Events[0].Kind == agent.EventEnd
	if step.Kind != agent.StepModel && !ends {
		return agent.Directive{}, false
	}
	if ends {
		r.background.hooked(ctx)
	}
	kept := r.tree.noNotices && r.canDetach()
	for d, ok := r.background.notice(step, r.tree.leaves == nil, kept); ok; d, ok = r.background.notice(step, r.tree.leaves == nil, kept) {
		if !r.tree.noNotices {
			return d, true
		}
	}
	if ends && r.session.Closing == "" && r.tree.leaves == nil {
		if d, ok := r.lastCall(); ok {
			return d, true
		}
	}
	if f := r.tree.meanwhile; f != nil {
		if d, ok := f(r.session.ID, r.session.Turn+1); ok {
			if d.Key != "" && r.tree.leaves != nil {
				r.background.told(ctx, d.Key)
			}
			return d, true
		}
	}
	in := r.tree.inboxes
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(r.inbox.list) == 0 {
		return agent.Directive{}, false
	}
	d := r.inbox.list[0]
	r.inbox.list = slices.Delete(r.inbox.list, 0, 1)
	return d, true
}

// Below implements agent.CallingRun.
func (r *run) Below(inv *agent.Invocation, send func(agent.Directive)) {
	in := r.tree.inboxes
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.below == nil {
		in.below = map[string]func(agent.Directive){}
	}
	if in.below[inv.Key] = send; send == nil {
		delete(in.below, inv.Key)
	}
}

// directBelow opens the inbox of an agent in another process. The one that the call runs
// ends with the call.
func (r *run) directBelow(inv *agent.Invocation, n *remote, session string) {
	b := &inbox{}
	in := r.tree.inboxes
	in.mu.Lock()
	send := in.below[inv.Key]
	in.mu.Unlock()
	if send == nil {
		return
	}
	b.below = send
	if n.parent == inv.Key {
		if c := callOf(inv); c != nil {
			b.stop = c.stop
		}
		b.below = func(d agent.Directive) {
			d.Session = "" // any runner reads that
			send(d)
		}
	}
	in.add(session, b)
}

// Compact shortens the conversation of a session that no run continues, and does nothing
// else. The Outcome has no answer.
func (r *Runner) Compact(ctx context.Context) (*agent.Outcome, error) {
	root := r.root()
	if len(root.session.Messages) == 0 {
		return &agent.Outcome{Status: agent.StatusFailed, Agent: root.agent.Slug}, fmt.Errorf("there is no conversation to shorten")
	}
	root.compacts = true
	defer func() { root.compacts = false }()
	return root.do(ctx, nil)
}

func (r *run) follow(ctx context.Context, d agent.Directive) error {
	if d.Message != nil {
		if err := r.insert(ctx, d); err != nil {
			return err
		}
	}
	if !d.Compact {
		return nil
	}
	step, ok := r.session.Shorten()
	if !ok {
		r.warn("the conversation is too short to be shortened")
		return nil
	}
	return r.perform(ctx, step)
}

// compactAlone shortens the conversation and ends the run, unless a message arrived.
func (r *run) compactAlone(ctx context.Context) error {
	r.cause = nil
	if err := r.follow(ctx, agent.Directive{Compact: true}); err != nil || r.session.Failure != nil {
		return err
	}
	in := r.tree.inboxes
	in.mu.Lock()
	more := len(r.inbox.list) > 0
	in.mu.Unlock()
	switch {
	case more:
		return nil
	case r.cause != nil:
		return r.apply(ctx, r.session.End(agent.StatusOf(r.cause), r.cause))
	}
	return r.apply(ctx, r.session.End(agent.StatusOK, nil))
}
