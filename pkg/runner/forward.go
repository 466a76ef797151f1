package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/toolname"
)

// printable reports whether a name that another process sends can be shown on one line.
func printable(name string) bool {
	return len(name) <= agent.MaxName && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar })
}

// A remote is the node of an agent that another process runs for a call.
type remote struct {
	node
	callKey string
	lending *lending    // a model that it borrows, while that answers
	lent    agent.Usage // of lent models, until an event of the session counts it
	served  bool        // the last one has answered, and no event says so yet
	// fallback names the model of the lender that answered last.
	fallback string
	specs    []agent.ToolSpec // of its tools, as it describes them

	events  int    // the number of lasting events that it has sent
	release func() // releases the reservation of its request; nil if there is none
}

// path returns the slugs of the agents from the root to r, including those in other
// processes.
func (r *node) path() []string {
	switch {
	case r.up == nil:
		return append(append([]string{}, r.tree.lease.Path...), r.agent.Slug)
	case r.behalf:
		return r.up.path()
	}
	return append(r.up.path(), r.agent.Slug)
}

// History implements agent.CallingRun.
func (r *run) History(inv *agent.Invocation) (events []agent.Event, spent map[string]agent.TotalUsage) {
	t := r.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	t.interrupted(inv)
	spent = map[string]agent.TotalUsage{}
	events = below(t.pending, inv.Key, spent)
	if len(events) == 0 {
		return nil, nil
	}
	t.forwarded[inv.Key] = slices.Clone(events)
	for i := range events {
		e := &events[i]
		t.remotes[e.Session] = nil
		e.Depth -= inv.Depth + 1 // as the agent itself knows it
		if e.Parent == inv.Key {
			e.Parent = ""
		}
	}
	return events, spent
}

// interrupted keeps the sessions of a call for the next process that answers the call.
// t.mu is held.
func (t *tree) interrupted(inv *agent.Invocation) {
	events := t.forwarded[inv.Key]
	delete(t.forwarded, inv.Key)
	for id, n := range t.remotes {
		if n == nil || n.callKey != inv.Key {
			continue
		}
		t.unreserve(n)
		delete(t.remotes, id)
		t.inboxes.close(id)
		p := PendingSession{Session: n.session, Total: n.total, lent: n.lent}
		for _, e := range events {
			if e.Session == id {
				p.Events = append(p.Events, e)
			}
		}
		if t.pending == nil {
			t.pending = map[string]PendingSession{}
		}
		t.pending[n.session.Parent] = p
	}
}

// forget drops the sessions that answered a call which has ended, and those below it.
// Their ids cannot be used again. t.mu is held.
func (t *tree) forget(inv *agent.Invocation, key string) {
	dropped := false
	for id, n := range t.remotes {
		if n != nil && n.callKey == inv.Key && n.answers(key) {
			t.unreserve(n)
			delete(t.remotes, id)
			t.inboxes.close(id)
			if n.lending != nil {
				n.lending.cancel()
			} else {
				n.countLoan(&agent.Event{Kind: agent.EventEnd})
			}
			t.used[id], dropped = true, true
		}
	}
	if dropped {
		t.forwarded[inv.Key] = slices.DeleteFunc(t.forwarded[inv.Key], func(e agent.Event) bool { return t.used[e.Session] })
	}
}

// answers reports whether r, or a node above it, answers the call with a key.
func (r *node) answers(key string) bool {
	return r != nil && (r.parent == key || r.up.answers(key))
}

// Called implements agent.CallingRun.
func (r *run) Called(ctx context.Context, inv *agent.Invocation, err error) {
	if err == nil {
		err = errors.New("the agent that called it has ended")
	}
	t := r.tree
	_, err = t.gate.limit(agent.Result{}, err)
	t.mu.Lock()
	defer t.mu.Unlock()
	defer delete(t.forwarded, inv.Key)
	defer delete(t.children, inv.Key)
	defer t.forget(inv, inv.Key)
	var left []*remote
	for _, s := range t.remotes {
		if s != nil && s.callKey == inv.Key && s.session.Running {
			left = append(left, s)
		}
	}
	slices.SortStableFunc(left, func(a, b *remote) int { return b.session.Depth - a.session.Depth })
	for _, s := range left {
		var events []agent.Event
		for _, c := range s.session.OpenCalls() {
			events = append(events, s.session.CallEnded(c, agent.Result{}, err))
		}
		if u := s.session.Unanswered(); u != (agent.Usage{}) { // it ended while it waited for the model
			u = r.reserved(u, s.session.Size())
			e := s.session.Failed(agent.Step{}, err)
			e.Usage = &u
			events = append(events, e)
		}
		end := s.session.End(agent.StatusOf(err), err).Events[0]
		end.Text, end.Total = "", &agent.TotalUsage{}
		events = append(events, end)
		for _, e := range events {
			if r.forward(ctx, inv, e) != nil {
				return // the journal is broken
			}
		}
	}
}

// Forward implements agent.CallingRun.
func (r *run) Forward(ctx context.Context, inv *agent.Invocation, e agent.Event) error {
	e.Depth += inv.Depth + 1
	e.Seq = 0
	if e.Parent == "" {
		e.Parent = inv.Key
	}
	t := r.tree
	if !e.Kind.Lasting() {
		return r.show(inv, e)
	}
	r.endLoan(inv, &e)
	err := func() error {
		t.mu.Lock()
		defer t.mu.Unlock()
		return r.forward(ctx, inv, e)
	}()
	if err == nil && e.Kind == agent.EventCallStarted {
		err = r.syncStart(ctx, e.Key, nil)
	}
	return err
}

// show shows an event of another process that is not stored. Events that precede its
// session have no session.
func (r *run) show(inv *agent.Invocation, e agent.Event) error {
	t := r.tree
	t.mu.Lock()
	defer t.mu.Unlock()
	s, known := t.remotes[e.Session]
	if e.Session != "" && !known || s != nil && (s.callKey != inv.Key || s.session.Depth != e.Depth) {
		return fmt.Errorf("%w: a %.50s event is of session %.100q, which is not a session of this agent", agent.ErrChild, e.Kind, e.Session)
	}
	if t.watch != nil {
		e.Time, e.Agent = t.now(), inv.Spec.Name
		if s != nil {
			e.Agent = s.session.Agent
		}
		t.watch(e)
	}
	return nil
}

// forward applies, stores and shows an event of another process. r.tree.mu is held.
func (r *run) forward(ctx context.Context, inv *agent.Invocation, e agent.Event) error {
	t := r.tree
	if t.broken != nil {
		return t.broken
	}
	s, err := r.remote(inv, &e)
	if err != nil {
		return fmt.Errorf("%w: %w", agent.ErrChild, err)
	}
	e.Time = t.now()
	if s.session.ID != "" {
		e.Agent = s.session.Agent // it has one name
	}
	if e.Kind == agent.EventAnswer { // it is at least one request, whatever the agent sent
		var usage agent.Usage
		if e.Usage != nil {
			usage = *e.Usage
		}
		usage.Requests = max(usage.Requests, 1)
		e.Usage = &usage
	}
	s.countLoan(&e)
	if e.Kind == agent.EventContext {
		err := r.setContext(ctx, inv, e.Context, func(json.RawMessage) error { return nil })
		if err != nil {
			return fmt.Errorf("%w: %w", agent.ErrChild, err)
		}
		e.Context = t.shared
	}
	if e.Kind == agent.EventCompaction {
		e.Context = t.shared // its own copy does not have what others have changed
	}
	if e.Receipt != nil || e.Kind == agent.EventCallEnded {
		t.remoteReceipt(&e)
	}
	if t.redact != nil {
		e = t.redact(e)
	}
	beyond := cmp.Or(r.withinLease(s, &e), r.permitted(inv, s, &e))
	if beyond != nil && e.Usage == nil { // what was consumed must be counted
		return beyond
	}
	err = s.session.Possible(&e)
	if err == nil {
		err = s.session.Apply(e)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", agent.ErrChild, err)
	}
	if e.Total != nil { // without the usage of e itself, see fill
		total := s.total.Clone()
		e.Total = &total
	}
	t.keep(inv, e)
	for n := &s.node; n != nil; n = n.up {
		n.total.Note(&e)
		if e.Usage != nil {
			n.account.note(*e.Usage)
		}
	}
	t.noteFacts(&s.node, &e)
	s.settle(&e)
	if t.journal != nil && inv.Session == r.session.ID { // see Runner.Call
		if err := t.journal.Append(context.WithoutCancel(ctx), e); err != nil {
			t.broken = fmt.Errorf("%w: %w", agent.ErrJournal, err)
			return t.broken
		}
	}
	switch {
	case e.Kind == agent.EventEnd:
		t.unread(e)
	case e.Kind == agent.EventMessage && e.Input:
		t.inboxes.arrived(e.Session)
	}
	if t.watch != nil {
		t.watch(e)
	}
	return beyond
}

// keep keeps an event for the next process that answers the call, in case this one ends
// early. It drops events that a summary replaces, and those of agents whose calls have
// ended. t.mu is held.
func (t *tree) keep(inv *agent.Invocation, e agent.Event) {
	switch e.Kind {
	case agent.EventCompaction:
		t.forwarded[inv.Key] = unreplaced(t.forwarded[inv.Key], &e)
	case agent.EventCallEnded:
		if e.Result.Handle == "" {
			t.forget(inv, e.Key)
		}
	case agent.EventMessage:
		if e.Key != "" { // what came of a call in the background
			t.forget(inv, e.Key)
		}
	}
	t.forwarded[inv.Key] = append(t.forwarded[inv.Key], e)
}

// withinLease returns an error for an event with which the agent exceeds its limits. It
// permits the answer that first exceeds a limit, after which the agent must end by itself,
// and everything that has a reservation. r.tree.mu is held.
func (r *run) withinLease(s *remote, e *agent.Event) error {
	switch e.Kind {
	case agent.EventSession:
		if e.Depth-r.session.Depth > r.levels() {
			return r.errDepth()
		}
	case agent.EventAnswer, agent.EventCompaction:
		if s.release == nil {
			return r.spent()
		}
	case agent.EventCallStarted:
		if left, of := r.left(true); left[amountCalls] <= 0 && !r.tree.admitted[e.Key] {
			return of[amountCalls].spentError(amountCalls)
		}
	}
	return nil
}

// remote returns the session of e, which must be that of the agent that answers inv or
// of an agent below it. r.tree.mu is held.
func (r *run) remote(inv *agent.Invocation, e *agent.Event) (*remote, error) {
	t := r.tree
	s, known := t.remotes[e.Session]
	switch {
	case s != nil && s.callKey == inv.Key && s.session.Depth == e.Depth && s.session.Parent == e.Parent:
		return s, nil
	case s != nil:
		return nil, fmt.Errorf("a %s event is of session %.100q, which is not a session of this agent", e.Kind, e.Session)
	case e.Kind != agent.EventSession && !known:
		return nil, fmt.Errorf("a %s event of session %.100q, which has not begun", e.Kind, e.Session)
	case !validID(e.Session) || t.used[e.Session]:
		return nil, fmt.Errorf("%.100q cannot be the id of its session", e.Session)
	case !printable(e.Agent):
		return nil, fmt.Errorf("%.100q cannot be the name of an agent", e.Agent)
	}
	n := &remote{node: r.below(&agent.Agent{Slug: e.Agent}, e.Parent), callKey: inv.Key}
	if e.Parent != inv.Key {
		up := t.remotes[agent.CallSession(e.Parent)]
		if up == nil || up.callKey != inv.Key || e.Depth != up.session.Depth+1 || !up.calls(e.Parent) && e.Parent != up.session.JudgeKey() {
			return nil, fmt.Errorf("session %s answers the call %.100q, which its caller did not make", e.Session, e.Parent)
		}
		n.up, n.depth = &up.node, up.depth+1
	} else if e.Depth != inv.Depth+1 {
		return nil, fmt.Errorf("session %s has depth %d, not %d", e.Session, e.Depth-inv.Depth-1, 0)
	}
	if e.Parent != inv.Key && !e.Judging() {
		t.collect(e.Parent, agent.Expect{})
	}
	if known { // it continues a session whose process ended
		if p, ok := t.pending[e.Parent]; ok && p.Session.ID == e.Session {
			n.session, n.total, n.lent, n.agent.Slug = p.Session, p.Total.Clone(), p.lent, p.Session.Agent
			for _, earlier := range p.Events {
				r.noteSetup(inv, n, &earlier)
			}
			delete(t.pending, e.Parent)
		}
	}
	t.remotes[e.Session] = n
	r.directBelow(inv, n, e.Session)
	t.begun(e.Parent, e.Session)
	return n, nil
}

func (n *remote) calls(key string) bool {
	return slices.ContainsFunc(n.session.OpenCalls(), func(c agent.PendingCall) bool { return c.Key == key && c.Started })
}

// validID reports whether a session's id is safe in keys and file names.
func validID(id string) bool { return len(id) <= toolname.Max && toolname.Valid(id) }

// Person implements agent.CallingRun.
func (r *run) Person() bool { return r.tree.person != nil }

// Question implements agent.CallingRun. The tree asks one question at a time.
func (r *run) Question(ctx context.Context, inv *agent.Invocation, e agent.Event) (answer json.RawMessage, err error) {
	err = r.tree.guard(func() (err error) {
		answer, err = r.question(ctx, inv, e)
		return err
	})
	return answer, err
}

func (r *run) question(ctx context.Context, inv *agent.Invocation, e agent.Event) (json.RawMessage, error) {
	t := r.tree
	switch e.What {
	case "policy":
		return r.answerPolicy(ctx, inv, e)
	case "hook":
		return r.answerHook(ctx, inv, e)
	case "budget":
		return r.answerBudget(ctx, inv, e)
	case "accept":
		return r.answerAccept(ctx, inv)
	}
	if t.person == nil {
		return nil, agent.ErrNobody
	}
	select {
	case t.asking <- struct{}{}:
		defer func() { <-t.asking }()
	case <-ctx.Done():
		return nil, agent.ContextError(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, t.questionTime, fmt.Errorf("%w: no reply within %s", agent.ErrNobody, t.questionTime))
	defer cancel()
	t.mu.Lock()
	t.questions++
	id := fmt.Sprintf("%s.q%d", inv.Key, t.questions)
	t.mu.Unlock()
	path := r.pathOf(inv, e)
	question := inv.Event(agent.EventQuestion)
	question.Tool, question.Args, question.Time = e.Tool, e.Args, t.now()
	question.Question, question.What, question.Path, question.Text = id, e.What, path, e.Text
	question.Schema, question.Choices, question.URL = e.Schema, e.Choices, e.URL
	question.Rule, question.Reviewer, question.Approval = e.Rule, e.Reviewer, e.Approval
	question.Sandbox, question.Source, question.Digest = e.Sandbox, e.Source, e.Digest
	if len(e.Path) > 0 { // an agent in another process says where its tool comes from
		question.Source = inv.Spec.Source + ": " + e.Source
	}
	if t.redact != nil {
		question = t.redact(question)
	}
	answer, err := t.person(ctx, question)
	if err == nil && e.What == "approve" && readDecision(answer).Decision == agent.Allow {
		r.note(inv, question, approved)
	}
	return answer, err
}

// pathOf returns the path of the agent that asks a question. It always begins with the path
// of r, even if an agent in another process sends another one.
func (r *run) pathOf(inv *agent.Invocation, e agent.Event) []string {
	own := r.path()
	switch {
	case len(e.Path) >= len(own) && slices.Equal(e.Path[:len(own)], own) && !slices.ContainsFunc(e.Path, func(name string) bool { return !printable(name) }):
		return e.Path
	case inv.Spec.IsAgent():
		return append(own, inv.Spec.Name)
	}
	return own
}

// defaultQuestionTime is how long a question waits if the lease does not set it.
const defaultQuestionTime = 300 * time.Second

// askPerson asks a person to decide about a call, as the policy requires.
func (t *tree) askPerson(ctx context.Context, inv *agent.Invocation, v agent.Verdict) agent.Verdict {
	answer, err := inv.Question(ctx, agent.Event{What: "approve", Tool: inv.Call.Name, Args: inv.Call.Args, Text: v.Reason, Choices: []string{string(agent.Allow), string(agent.Deny)},
		Source: cmp.Or(inv.ToolSource, inv.Spec.Source), Digest: inv.ToolDigest, Sandbox: inv.Sandbox, Rule: v.Rule, Reviewer: v.Reviewer, Approval: v.Approval})
	if err != nil {
		return agent.Verdict{Decision: agent.Deny, Reason: strings.TrimPrefix(v.Reason+": "+err.Error(), ": ")}
	}
	answered := readDecision(answer)
	if answered.Decision == agent.Allow {
		return agent.Verdict{Decision: agent.Allow, Reason: cmp.Or(answered.Reason, "a person allowed it")}
	}
	return agent.Verdict{Decision: agent.Deny, Reason: cmp.Or(answered.Reason, "a person denied it")}
}
