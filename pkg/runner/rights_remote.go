package runner

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agents-exe/agents/pkg/agent"
)

// A child is what a run knows about the calls of an agent in another process.
type child struct {
	specs   map[string][]agent.ToolSpec // by the digest of their setup
	answers map[answered]bool
}

// An answered call is one that a person or the external policies permitted.
type answered struct{ by, tool, args string }

// What permitted a call.
const (
	approved  = "a person"
	agreed    = "the external policies"
	undecided = "the external policies, if a person agrees too"
	hooked    = "the hooks"
)

// child returns what r knows about the agent that answers inv. r.tree.mu is held.
func (r *run) child(inv *agent.Invocation) *child {
	t := r.tree
	if t.children[inv.Key] == nil {
		if t.children == nil {
			t.children = map[string]*child{}
		}
		t.children[inv.Key] = &child{map[string][]agent.ToolSpec{}, map[answered]bool{}}
	}
	return t.children[inv.Key]
}

// note remembers how a question about a call of another process was answered.
func (r *run) note(inv *agent.Invocation, question agent.Event, by string) {
	if !inv.Spec.IsAgent() {
		return
	}
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	r.child(inv).answers[answered{by, question.Tool, question.Args}] = true
}

// noteSetup remembers the tools of an agent in another process. r.tree.mu is held.
func (r *run) noteSetup(inv *agent.Invocation, s *remote, e *agent.Event) {
	if e.Kind != agent.EventSetup || len(r.rights()) == 0 {
		return
	}
	known := r.child(inv).specs
	if len(e.Specs) > 0 {
		known[e.Digest] = e.Specs
	}
	s.specs = known[e.Digest]
}

// permitted returns an error if an agent in another process has started a call that the
// rights in its lease do not permit. r.tree.mu is held.
func (r *run) permitted(inv *agent.Invocation, s *remote, e *agent.Event) error {
	r.noteSetup(inv, s, e)
	if e.Kind != agent.EventCallStarted || len(r.rights()) == 0 {
		return nil
	}
	call := r.remoteCall(s, e, s.path())
	if _, err := call.Args(); err != nil {
		return fmt.Errorf("%w: it called %.100q: %w", agent.ErrChild, e.Tool, err)
	}
	v := r.judge(call)
	has := func(by string) bool { return r.child(inv).answers[answered{by, e.Tool, e.Args}] }
	switch {
	case v.Denies():
		return fmt.Errorf("%w: it called %.100q: %s", agent.ErrChild, e.Tool, v.Reason)
	case r.hasHooks(agent.HookBeforeCall) && !has(hooked):
		return fmt.Errorf("%w: it called %.100q with other arguments than the hooks of its caller gave it, or without asking them", agent.ErrChild, e.Tool)
	case v.External && !has(agreed) && !has(undecided):
		return fmt.Errorf("%w: it called %.100q without the consent of its caller's policy", agent.ErrChild, e.Tool)
	case (v.Decision == agent.AskPerson || v.External && !has(agreed)) && !has(approved):
		return fmt.Errorf("%w: it called %.100q without the consent of a person: %s", agent.ErrChild, e.Tool, v.Reason)
	}
	return nil
}

// remoteCall is a call that an agent in another process makes, as e describes it. s is the
// session of the agent; nil if it is not known.
func (r *run) remoteCall(s *remote, e *agent.Event, path []string) *agent.Invocation {
	c := &call{run: r, inv: agent.Invocation{Call: agent.ToolCall{ID: e.CallID, Name: e.Tool, Args: e.Args}, Spec: agent.ToolSpec{Name: e.Tool}, Key: e.Key,
		Session: e.Session, Agent: path[len(path)-1], Turn: e.Turn, Depth: e.Depth, Parent: e.Parent, Path: path, Remote: true}}
	c.inv.Caller, c.inv.Driver = r, c
	if s != nil {
		if i := agent.ToolIndex(s.specs, e.Tool); i >= 0 {
			c.inv.Spec = s.specs[i]
		}
	}
	return &c.inv
}

// askedAbout is the call that a question of another process is about. It redacts e.
func (r *run) askedAbout(inv *agent.Invocation, e *agent.Event) *agent.Invocation {
	t := r.tree
	if t.redact != nil {
		*e = t.redact(*e)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.remotes[e.Session]
	if s != nil && s.callKey != inv.Key {
		s = nil
	}
	return r.remoteCall(s, e, r.pathOf(inv, *e))
}

// answerPolicy asks the external policies about a call that another process is about to
// make.
func (r *run) answerPolicy(ctx context.Context, inv *agent.Invocation, e agent.Event) (json.RawMessage, error) {
	call := r.askedAbout(inv, &e)
	v := agent.Verdict{Decision: agent.Deny, Reason: "the arguments cannot be read"}
	if _, err := call.Args(); err == nil {
		v = r.consult(ctx, call, agent.Verdict{Decision: agent.Allow})
	}
	switch v.Decision {
	case agent.Allow:
		r.note(inv, e, agreed)
	case agent.AskPerson:
		r.note(inv, e, undecided)
	}
	return json.Marshal(v)
}

// Consult implements agent.CallingRun.
func (r *run) Consult(ctx context.Context, inv *agent.Invocation) agent.Verdict {
	deny := func(reason string) agent.Verdict {
		return agent.Verdict{Decision: agent.Deny, Reason: "the policy of the caller " + reason}
	}
	if r.tree.caller == nil {
		return deny("cannot be asked")
	}
	q := inv.Event(agent.EventQuestion)
	q.What, q.Args, q.Path = "policy", inv.Call.Args, inv.Path
	answer, err := r.askCaller(ctx, inv.Key, q)
	if err != nil {
		return deny("did not answer: " + err.Error())
	}
	return readDecision(answer)
}

// askCaller puts a question to the program that holds the channel. about begins its id.
func (r *run) askCaller(ctx context.Context, about string, q agent.Event) (json.RawMessage, error) {
	t := r.tree
	t.mu.Lock()
	t.questions++
	q.Question, q.Time = fmt.Sprintf("%s.p%d", about, t.questions), t.now()
	t.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, t.questionTime, fmt.Errorf("no reply within %s", t.questionTime))
	defer cancel()
	return t.caller(ctx, q, nil)
}
