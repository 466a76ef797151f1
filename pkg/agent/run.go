package agent

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"sync"
	"time"
)

// A Runner runs an Agent. Its fields have useful zero values and must not be
// changed once it is in use. A Runner drives one session: Run and Step must not
// be called at the same time.
type Runner struct {
	// Agent is required.
	Agent *Agent
	// Session is the conversation; nil starts a new one at the first Run.
	Session *Session
	// Before is what the unfinished run of a Session that was read from a
	// journal had consumed, with its sub-agents, and Nested are the sessions
	// of those, by the Key of the call that they answer.
	Before Spent
	Nested map[string]Left
	// Parent is the Key of the call of another process that the session
	// answers, if it does; see Event.Parent.
	Parent string
	// Journal keeps the events; nil keeps none.
	Journal Journal
	// Redact, if it is not nil, takes secrets out of the events that last,
	// before they are kept, shown or sent to the model.
	Redact func(Event) Event
	// Policy decides about every call at every depth; nil permits all.
	Policy Policy
	// Observe is told of every event of the run and its sub-agents, one at a
	// time, and must return soon; nil is fine.
	Observe func(Event)
	// MaxDepth limits how deep sub-agents nest; 0 means 8.
	MaxDepth int
	// MaxProcesses limits how many tool calls run at the same time in the
	// whole tree; 0 means 64. Calls of sub-agents do not count: they wait
	// for calls of their own.
	MaxProcesses int
	// Now tells the time; nil means time.Now.
	Now func() time.Time
	// NewID makes the id of a session; nil means a random one.
	NewID func() string

	once sync.Once
	tree *tree
}

// A Left is the session of a sub-agent whose call has no result yet: its process
// came to its end. Before is what it had consumed, with its own sub-agents.
type Left struct {
	Session *Session
	Before  Spent
}

// An Outcome is how a run ended and what it consumed.
type Outcome struct {
	Status Status
	// Message is the answer, and Answer its text. After a failure they hold
	// what there was of an answer that was cut.
	Message Message
	Answer  string
	Session string
	Agent   string
	// Turns is the number of model answers in this run.
	Turns    int
	Spent    Spent
	Duration time.Duration
}

// Run adds prompt to the session and takes turns until the model answers
// without asking for a tool. The Outcome is never nil; the error is nil only if
// there is an answer, and StatusOf tells what kind it is. When Run returns, all
// calls have results and nothing that it started is running.
//
// Calls that an earlier run left open are answered before the prompt is added.
func (r *Runner) Run(ctx context.Context, prompt Message) (*Outcome, error) {
	return r.root().do(ctx, &prompt)
}

// Resume goes on with a session that an earlier process left in the middle of a
// run, until the model answers; for the rest it is as Run. Results that are there
// are used. Calls that did not start are run. Of those that started and have no
// result, sub-agents go on with their own sessions; tools that declare
// EffectsNone or EffectsIdempotent are run again with the same Key; all others
// are not, and the model is told that what they did is unknown.
func (r *Runner) Resume(ctx context.Context) (*Outcome, error) {
	root := r.root()
	if !root.session.Unfinished() {
		return &Outcome{Status: StatusFailed, Session: root.session.ID, Agent: root.agent.Slug}, ErrNothingOpen
	}
	return root.do(ctx, nil)
}

// Step does the one thing that the session needs next, as Session.Next says,
// and returns what it was: one model request, or all calls of one answer. With
// StepPrompt it did nothing: the session waits for a user message. A program
// that drives a session itself opens it with Prompt and calls Step.
func (r *Runner) Step(ctx context.Context) (Step, error) {
	return r.root().step(ctx)
}

// Prompt adds a user message to the session without running anything.
func (r *Runner) Prompt(ctx context.Context, prompt Message) error {
	return r.root().prompt(ctx, prompt)
}

func (r *Runner) root() *run {
	r.once.Do(func() {
		r.tree = &tree{
			journal: r.Journal, policy: r.Policy, watch: r.Observe, redact: r.Redact,
			maxDepth: r.MaxDepth, now: r.Now, newID: r.NewID,
			nested: maps.Clone(r.Nested),
		}
		if r.tree.maxDepth == 0 {
			r.tree.maxDepth = DefaultMaxDepth
		}
		if r.tree.now == nil {
			r.tree.now = time.Now
		}
		if r.tree.newID == nil {
			r.tree.newID = rand.Text
		}
		slots := r.MaxProcesses
		if slots == 0 {
			slots = DefaultMaxProcesses
		}
		r.tree.slots = make(chan struct{}, slots)
		if r.Session == nil {
			r.Session = &Session{}
		}
		r.tree.root = &run{tree: r.tree, agent: r.Agent, session: r.Session, parent: r.Parent, spent: r.Before.clone()}
	})
	return r.tree.root
}

// tree is what a run shares with all its sub-agents.
type tree struct {
	root     *run
	journal  Journal
	policy   Policy
	watch    func(Event)
	redact   func(Event) Event
	maxDepth int
	slots    chan struct{} // one for each tool call that may run
	now      func() time.Time
	newID    func() string

	mu     sync.Mutex // held while an event takes effect
	broken error      // the journal failed; nothing may happen any more
	setups map[string]bool
	nested map[string]Left // of an earlier process, not yet taken up
}

// run is one agent at work in one session.
type run struct {
	tree    *tree
	up      *run // nil at the root
	agent   *Agent
	session *Session
	parent  string // Key of the call that this run answers
	depth   int

	system *string         // with what the toolsets say; nil before the first turn
	tools  []ToolSpec      // of this turn
	byName map[string]Tool // of this turn
	asked  []ToolSpec      // the tools of the last setup; nil before the first
	warned map[string]bool
	spent  Spent // with all sub-agents; guarded by tree.mu

	accepted *string // what Accept made of the answer, if it did
}

// emit makes events happen, one behind the other.
func (r *run) emit(ctx context.Context, events ...Event) error {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	for _, e := range events {
		if err := r.happen(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// happen makes e happen: journal, then session, then whoever watches. r.tree.mu is
// held.
func (r *run) happen(ctx context.Context, e Event) error {
	t := r.tree
	if t.broken != nil {
		return t.broken
	}
	r.fill(&e)
	if e.Kind.Lasting() {
		if t.redact != nil {
			e = t.redact(e)
		}
		if t.journal != nil {
			// A cancelled run still records how it ended.
			if err := t.journal.Append(context.WithoutCancel(ctx), e); err != nil {
				t.broken = fmt.Errorf("%w: %w", ErrJournal, err)
				return t.broken
			}
		}
		if err := r.session.Apply(e); err != nil {
			return err
		}
		for up := r; up != nil; up = up.up {
			up.spent.Note(&e)
		}
	}
	if t.watch != nil {
		t.watch(e)
	}
	return nil
}

// sync makes what was recorded outlast a loss of power.
func (r *run) sync(ctx context.Context) error {
	t := r.tree
	if t.journal == nil {
		return nil
	}
	t.mu.Lock()
	broken := t.broken
	t.mu.Unlock()
	if broken != nil {
		return broken
	}
	err := t.journal.Sync(context.WithoutCancel(ctx))
	if err == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.broken == nil {
		t.broken = fmt.Errorf("%w: %w", ErrJournal, err)
	}
	return t.broken
}

// syncMeanwhile syncs while the model thinks. The function that it returns must
// be called before the answer counts.
func (r *run) syncMeanwhile(ctx context.Context) (wait func() error) {
	if r.tree.journal == nil {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() { done <- r.sync(ctx) }()
	return func() error { return <-done }
}

// observe shows an event that does not last.
func (r *run) observe(e Event) {
	t := r.tree
	if t.watch == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r.fill(&e)
	t.watch(e)
}

func (r *run) fill(e *Event) {
	e.Time = r.tree.now()
	e.Session, e.Agent, e.Parent, e.Depth = r.session.ID, r.agent.Slug, r.parent, r.depth
}

// warn reports something once.
func (r *run) warn(text string) {
	if r.warned[text] {
		return
	}
	if r.warned == nil {
		r.warned = map[string]bool{}
	}
	r.warned[text] = true
	r.observe(Event{Kind: EventWarning, Text: text})
}

// prompt adds a user message, and opens the session if it is new.
func (r *run) prompt(ctx context.Context, prompt Message) error {
	var events []Event
	if r.session.ID == "" {
		r.session.ID = r.tree.newID()
		open := Event{Kind: EventSession, Source: r.agent.Source, Model: r.agent.Model, ContextTokens: r.agent.ContextTokens}
		if r.agent.NoCompaction {
			open.ContextTokens = -1
		}
		events = append(events, open)
		for _, m := range r.agent.Opening {
			events = append(events, Event{Kind: EventMessage, Message: &m})
		}
	}
	return r.emit(ctx, append(events, Event{Kind: EventMessage, Message: &prompt})...)
}

// do is Run for one agent of the tree, and Resume if there is no prompt.
func (r *run) do(ctx context.Context, prompt *Message) (*Outcome, error) {
	start := r.tree.now()
	r.accepted = nil
	var err error
	if prompt != nil {
		r.tree.mu.Lock()
		r.spent = Spent{}
		r.tree.mu.Unlock()
		err = r.begin(ctx, *prompt)
	}
	for over := false; err == nil && !over; {
		var step Step
		if step, err = r.step(ctx); step.Kind == StepPrompt {
			over, err = r.accept(ctx)
		}
	}
	return r.end(ctx, start, err)
}

// accept asks the agent's Accept about the answer. If it is not what is wanted, the
// model is told why and the run is not over, up to MaxAnswers.
func (r *run) accept(ctx context.Context) (over bool, err error) {
	m, ok := r.session.Answer()
	if !ok || r.agent.Accept == nil {
		return true, nil
	}
	text, wrong := r.agent.Accept(ctx, m.Text())
	attempt := max(r.session.attempt, 1)
	switch {
	case wrong == nil:
		r.accepted = &text
		return true, nil
	case attempt >= MaxAnswers:
		return true, fmt.Errorf("%w after %d attempts: %w", ErrAnswer, attempt, wrong)
	}
	r.tree.mu.Lock()
	spent := r.spent.clone()
	r.tree.mu.Unlock()
	again := UserText("Your answer was not accepted: " + wrong.Error() + "\nAnswer again, with the corrected answer and nothing else.")
	return false, r.emit(ctx, Event{Kind: EventMessage, Message: &again, Attempt: attempt + 1, Error: wrong.Error(), Spent: &spent})
}

// begin adds the prompt of a run. Calls that an earlier run left open are
// answered before.
func (r *run) begin(ctx context.Context, prompt Message) error {
	for step := r.session.Next(); step.Kind == StepCalls; step = r.session.Next() {
		if err := r.callAll(ctx, step); err != nil {
			return err
		}
	}
	return r.prompt(ctx, prompt)
}

func (r *run) end(ctx context.Context, start time.Time, err error) (*Outcome, error) {
	out := &Outcome{
		Status: StatusOf(err), Session: r.session.ID, Agent: r.agent.Slug,
		Turns: r.session.RunTurns, Duration: r.tree.now().Sub(start),
	}
	if m, ok := r.session.Answer(); ok && r.session.RunTurns > 0 {
		out.Message, out.Answer = m, m.Text()
	}
	if r.accepted != nil {
		out.Answer = *r.accepted
	}
	r.tree.mu.Lock()
	out.Spent = r.spent.clone()
	r.tree.mu.Unlock()
	e := Event{Kind: EventEnd, Turn: r.session.Turn, Status: out.Status, Text: out.Answer,
		Spent: &out.Spent, Millis: out.Duration.Milliseconds()}
	if err != nil {
		e.Error = err.Error()
	}
	endErr := r.emit(ctx, e)
	if endErr == nil && r.up == nil {
		endErr = r.sync(ctx) // before the answer is given away
	}
	if endErr != nil && err == nil {
		out.Status, err = StatusOf(endErr), endErr
	}
	return out, err
}

// step does what the session needs next.
func (r *run) step(ctx context.Context) (Step, error) {
	step := r.session.Next()
	switch step.Kind {
	case StepModel:
		return step, r.turn(ctx)
	case StepCalls:
		return step, r.callAll(ctx, step)
	default:
		return step, nil
	}
}

// sub runs a as a sub-agent for the call inv.
func (r *run) sub(ctx context.Context, inv *Invocation, a *Agent, prompt Message) (*Outcome, error) {
	if r.depth+1 > r.tree.maxDepth {
		return &Outcome{Status: StatusLimit, Agent: a.Slug}, fmt.Errorf("%w: sub-agents are nested %d deep", ErrDepth, r.tree.maxDepth)
	}
	child := &run{
		tree: r.tree, up: r, agent: a, session: &Session{},
		parent: inv.Key, depth: r.depth + 1,
	}
	if inv.Spec.Agent != "" {
		if left := r.tree.takeUp(inv.Key); left.Session != nil {
			child.session, child.spent = left.Session, left.Before.clone()
			return child.goOn(ctx, &prompt)
		}
	}
	return child.do(ctx, &prompt)
}

// takeUp is the session that an earlier process left for the call key.
func (t *tree) takeUp(key string) Left {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := t.nested[key]
	delete(t.nested, key)
	return left
}

// goOn finishes the session of a sub-agent that an earlier process began. One that
// had ended is over: nothing but the result of its call was not recorded.
func (r *run) goOn(ctx context.Context, prompt *Message) (*Outcome, error) {
	switch {
	case len(r.session.Messages) == 0: // its prompt was not recorded
		return r.do(ctx, prompt)
	case r.session.Ended == "":
		return r.do(ctx, nil)
	}
	out := &Outcome{Status: r.session.Ended, Session: r.session.ID, Agent: r.agent.Slug, Turns: r.session.RunTurns, Spent: r.spent.clone()}
	out.Message, _ = r.session.Answer()
	out.Answer = out.Message.Text()
	if out.Status != StatusOK {
		return out, fmt.Errorf("it had ended without an answer (%s)", out.Status)
	}
	return out, nil
}
