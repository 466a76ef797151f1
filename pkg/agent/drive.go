package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agents-exe/agents/pkg/leaf/redact"
	"golang.org/x/sync/errgroup"
)

// run is one agent at work in one session: it does what Session.Next says.
type run struct {
	tree    *tree
	up      *run // nil at the root
	agent   *Agent
	session *Session
	accept  func(ctx context.Context, answer string) (string, error)
	secrets *redact.Redactor
	parent  string // Key of the call that this run answers
	depth   int

	tools  toolbox
	warned map[string]bool
	start  time.Time  // of the run
	began  time.Time  // the same if the run is driven by Step, for its time limits
	total  TotalUsage // with all sub-agents; guarded by tree.mu
	cause  error      // of the last EventFailure, as a caller wants it
	end    *Event     // of the run, once it ended

	account    account
	background background
	inbox      *inbox
	compacts   bool // the run only shortens the conversation
	behalf     bool // see OnBehalf
}

// do is Run for one agent of the tree, and Resume if there is no prompt.
func (r *run) do(ctx context.Context, prompt *Message) (*Outcome, error) {
	r.start, r.began = r.tree.now(), time.Time{} // its time limits begin now
	r.end, r.tools.known = nil, nil
	ctx, cancel := r.begun(ctx, prompt != nil || r.compacts)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.open(stop)
	defer r.background.end()
	err := r.begin(ctx, prompt)
	if err == nil && r.compacts {
		err = r.compactAlone(ctx)
	}
	for err == nil && r.end == nil {
		step := r.session.Next()
		if d, ok := r.directed(step); ok {
			err = r.follow(ctx, d)
			continue
		}
		err = r.perform(ctx, step)
	}
	return r.outcome(err)
}

// insert adds a message of the user to the running conversation. An Event is
// large: neither do nor ask has one in its own frame, which stays on the stack
// while the model thinks.
//
//go:noinline
func (r *run) insert(ctx context.Context, m Message) error {
	return r.emit(ctx, r.session.Inserted(m))
}

// begin opens or resumes the run. Calls that an earlier run left open are
// answered before a new prompt.
func (r *run) begin(ctx context.Context, prompt *Message) error {
	if r.tree.refused != nil {
		return r.tree.refused
	}
	if r.tree.above > max(r.tree.maxDepth, 0) {
		return fmt.Errorf("%w: agents are nested %d deep, counted over all processes", ErrDepth, r.tree.maxDepth)
	}
	if err := r.checkContext(ctx, r.tree.currentContext()); err != nil {
		return err
	}
	if prompt == nil {
		if err := r.emit(ctx, append([]Event{r.resumed()}, r.contextEvents()...)...); err != nil || !r.compacts {
			return err
		}
	}
	for r.session.open > 0 {
		if err := r.perform(ctx, r.session.Next()); err != nil {
			return err
		}
	}
	if prompt == nil {
		return nil
	}
	return r.prompt(ctx, *prompt)
}

// resumed returns the event that resumes the run.
func (r *run) resumed() Event {
	e := r.traced(r.session.Resumed(r.limits()))
	e.Summary = r.compacts
	if u := r.session.unanswered(); u != (Usage{}) {
		r.tree.mu.Lock()
		u = r.reserved(priced(r.agent.Provider, u), r.session.estimate())
		r.tree.mu.Unlock()
		e.Usage = &u
	}
	return e
}

// prompt adds a user message, and opens the session if it is new.
func (r *run) prompt(ctx context.Context, prompt Message) error {
	var events []Event
	if r.session.ID == "" {
		events = r.session.Opened(r.agent, r.tree.newID(), r.parent, r.depth)
	}
	events = append(events, r.contextEvents()...)
	return r.emit(ctx, append(events, r.traced(r.session.Prompted(prompt, r.limits())))...)
}

func (r *run) limits() Limits {
	limits := r.agent.Limits()
	if r.accept != nil || r.agent.OutputSchema != nil {
		limits.Answers = MaxAnswers
	}
	return limits
}

// outcome is how the run ended; err is set if that could not be recorded.
func (r *run) outcome(err error) (*Outcome, error) {
	r.tree.mu.Lock()
	out := &Outcome{Status: StatusOf(err), Session: r.session.ID, Agent: r.agent.Slug,
		Turns: r.session.RunTurns, Total: r.total.clone(), Duration: r.tree.now().Sub(r.start)}
	r.tree.mu.Unlock()
	if m, ok := r.session.Answer(); ok && r.session.RunTurns > 0 {
		out.Message, out.Answer = m, m.Text()
	}
	if r.end != nil {
		out.Answer = r.end.Text
		if err == nil {
			out.Status, out.Reason = r.end.Status, r.end.Error
		}
	}
	return out, redactError(r.secrets, err)
}

// perform does one step. The error is why the run ended without an answer.
func (r *run) perform(ctx context.Context, step Step) error {
	switch step.Kind {
	case StepPrompt:
		return nil
	case StepApply:
		return r.apply(ctx, step)
	}
	if ctx.Err() != nil {
		return r.fail(ctx, Step{}, ContextError(ctx), Usage{})
	}
	switch step.Kind {
	case StepCalls:
		return r.callAll(ctx, step)
	case StepAccept:
		text, wrong := r.acceptable(ctx, step.Answer)
		if ctx.Err() != nil { // it may be what is wrong
			return r.fail(ctx, Step{}, ContextError(ctx), Usage{})
		}
		return r.apply(ctx, r.session.Judged(text, wrong))
	}
	return r.ask(ctx, step)
}

// acceptable returns the text that counts as the answer, or what is wrong with it.
func (r *run) acceptable(ctx context.Context, answer string) (string, error) {
	var err error
	if out := r.agent.OutputSchema; out != nil {
		if answer, err = out.Accept(ctx, answer); err != nil {
			return "", err
		}
	}
	if r.accept != nil {
		return r.accept(ctx, answer)
	}
	return answer, nil
}

// apply makes the events of step happen. The end of a run is on disk before it is
// given away.
func (r *run) apply(ctx context.Context, step Step) error {
	if err := r.emit(ctx, step.Events...); err != nil {
		return err
	}
	if r.end == nil {
		return nil
	}
	r.background.end()
	if r.up == nil {
		if err := r.sync(ctx); err != nil {
			return err
		}
	}
	if r.session.Failure != nil && r.cause != nil {
		return r.cause
	}
	return step.Err
}

// fail records why the step failed, and what it has cost.
//
//go:noinline
func (r *run) fail(ctx context.Context, step Step, err error, usage Usage) error {
	e := r.session.Failed(step, err)
	if usage != (Usage{}) {
		e.Usage = &usage
	}
	switch {
	case step.Asked:
		r.cause = err
		r.warn("the conversation could not be shortened: " + err.Error())
	case e.Summary:
		r.warn("the conversation is near the limit of the model's context and could not be summed up: " + err.Error())
	case e.Kind == EventFailure:
		r.cause = err
	}
	return r.emit(ctx, e)
}

func (r *run) ask(ctx context.Context, step Step) error {
	if err := r.prepare(ctx); err != nil {
		return r.fail(ctx, Step{}, err, Usage{})
	}
	if err := r.missingTools(ctx); err != nil {
		return r.fail(ctx, Step{}, err, Usage{})
	}
	if note := r.changedTools(step); note != "" {
		r.warn(note)
		return r.insert(ctx, UserText("["+note+"]"))
	}
	if err := r.setUp(ctx, step); err != nil {
		return err
	}
	settle, err := r.reserveRequest(ctx, step)
	if err != nil {
		return r.fail(ctx, step, err, Usage{})
	}
	var usage Usage
	defer func() { settle(usage) }()
	size := r.session.estimate()
	req := r.session.Request(step, *r.tools.system, r.tools.specs)
	req.Trace = r.tree.requestTrace(req)
	if out := r.agent.OutputSchema; out != nil && !req.Summary {
		req.Output = out.Schema
	}
	req.Again = r.again
	r.asking(req)
	start := r.tree.now()
	synced := r.syncMeanwhile(ctx)
	resp, err := r.tree.gate.Generate(ctx, r.agent.Provider, req, r.depth, func(d Delta) { r.delta(req, d) })
	if syncErr := synced(); syncErr != nil {
		return syncErr
	}
	usage = usageOf(resp, err)
	if err != nil && usage.Unpriced() > 0 {
		r.tree.mu.Lock()
		usage = r.reserved(usage, size)
		r.tree.mu.Unlock()
	}
	return r.answered(ctx, step, resp, usage, err, start)
}

// asking shows that a request is made.
//
//go:noinline
func (r *run) asking(req *Request) {
	model, flavor := r.agent.Model, r.agent.Flavor
	if of, ok := As[Chooser](r.agent.Provider); ok {
		model, flavor = of.Choice(req.Fallback)
	}
	r.observe(Event{Kind: EventRequest, Turn: req.Turn, Tools: len(req.Tools), Model: model, Flavor: flavor, Fallback: req.Fallback, Summary: req.Summary})
}

func (r *run) answered(ctx context.Context, step Step, resp *Response, usage Usage, err error, start time.Time) error {
	var spent *budgetError // between two attempts
	switch {
	case err != nil && ctx.Err() != nil:
		return r.fail(ctx, step, ContextError(ctx), usage)
	case err != nil && step.Kind == StepSummary:
		return r.fail(ctx, step, err, usage)
	case err != nil && errors.As(err, &spent):
		return r.fail(ctx, step, spent, usage)
	case err != nil:
		return r.fail(ctx, step, fmt.Errorf("ask model %s: %w", cmp.Or(r.agent.Model, "of "+r.agent.Slug), err), usage)
	}
	e := r.session.Answered(step, resp)
	if e.Kind == EventAnswer {
		restate(e.Message.Calls, r.tools.specs)
	}
	if e.Kind == EventFailure {
		return r.fail(ctx, step, errors.New(e.Error), usage)
	}
	e.Millis = r.tree.now().Sub(start).Milliseconds()
	return r.emit(ctx, e)
}

func (r *run) delta(req *Request, d Delta) {
	e := Event{Turn: req.Turn, Text: d.Text}
	switch d.Kind {
	case DeltaText:
		e.Kind = EventText
	case DeltaReasoning:
		e.Kind = EventReasoning
	case DeltaRetry:
		e.Kind, e.Text, e.Error = EventRetry, "", d.Text
		e.Attempt, e.Millis, e.Fallback, e.Model = d.Attempt, d.Wait.Milliseconds(), d.Fallback, d.Model
	}
	if e.Kind != "" && (e.Kind == EventRetry || !req.Summary) {
		r.observe(e)
	}
}

// callAll answers the calls of step: result i belongs to call i. Those that
// cannot be run, or whose agent had ended, are answered first, in their order. The others run at the same
// time, up to the agent's limit, and no failure of one touches another. Only a
// failing journal is an error.
func (r *run) callAll(ctx context.Context, step Step) error {
	if len(r.tools.byName) == 0 {
		if err := r.refreshTools(ctx); err != nil {
			return r.fail(ctx, Step{}, err, Usage{})
		}
	}
	var g errgroup.Group
	var list []PendingCall
	for _, c := range step.Calls {
		e, over := r.session.Refuse(c, r.tools.specs)
		if over && !c.Started {
			if why := r.hidden(ctx, c.Name); why != nil {
				e = r.session.CallEnded(c, Result{}, why)
			}
		}
		if !over {
			e, over = r.endedBefore(c)
		}
		if !over {
			list = append(list, c)
		} else if err := r.emit(ctx, e); err != nil {
			return err
		}
	}
	calls, stop := context.WithCancel(ctx)
	defer stop()
	g.SetLimit(cmp.Or(r.agent.MaxParallelTools, DefaultMaxParallelTools))
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

// call runs one call. Whatever goes wrong with the tool becomes the result.
func (r *run) call(ctx context.Context, c PendingCall) error {
	tool := r.tools.byName[r.tools.specs[toolIndex(r.tools.specs, c.Name)].Name]
	inv := r.session.Invocation(c, tool.Spec())
	inv.Trace = r.tree.callTrace(r.tree.root.session.ID, inv.Key)
	inv.Host, inv.run, inv.Level, inv.Context = r, r, r.tree.above+r.depth, r.tree.currentContext()
	if inv.Spec.Channel > 0 {
		ctx, inv.stop = context.WithCancelCause(ctx)
		defer inv.stop(nil)
	}
	return r.tree.gate.Call(ctx, tool, inv, func(e Event) error {
		if err := r.emit(ctx, e); err != nil || e.Kind != EventCallStarted || inv.Spec.IsAgent() {
			return err // of a sub-agent, nothing happens but what is recorded on its own
		}
		return r.syncStart(ctx, e.Key, &inv.Spec)
	})
}

// Progress implements Host.
func (r *run) Progress(inv *Invocation, text string) {
	e := inv.event(EventProgress)
	e.N, e.Text = 0, text
	r.observe(e)
}

// Run implements Host.
func (r *run) Run(ctx context.Context, inv *Invocation, a *Agent, prompt Message) (*Outcome, error) {
	if r.levels() < 1 {
		return &Outcome{Status: StatusLimit, Agent: a.Slug}, r.errDepth()
	}
	if r.tree.delegate != nil && r.up == nil && inv.Spec.Agent != "" { // a program that calls agents waits for them
		return r.delegate(ctx, inv, a, prompt)
	}
	child := &run{tree: r.tree, up: r, agent: a, session: &Session{}, parent: inv.Key, depth: r.depth + 1}
	if inv.Spec.Agent != "" {
		if p := r.tree.takePending(inv.Key); p.Session != nil {
			child.session, child.total = p.Session, p.Total.clone()
			return child.resume(ctx, prompt)
		}
	}
	return child.do(ctx, &prompt)
}

// takePending is the session that an earlier process left for the call key.
func (t *tree) takePending(key string) PendingSession {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.pending[key]
	delete(t.pending, key)
	return p
}

// resume finishes the session of a sub-agent that an earlier process began.
func (r *run) resume(ctx context.Context, prompt Message) (*Outcome, error) {
	if r.session.Running {
		return r.do(ctx, nil)
	}
	return r.do(ctx, &prompt) // its prompt was not recorded
}

// endedBefore returns the end of a call whose agent ended in an earlier process, in this
// one or in another: only the result was not recorded. ok is false for other calls.
func (r *run) endedBefore(c PendingCall) (e Event, ok bool) {
	t := r.tree
	t.mu.Lock()
	p := t.pending[c.Key]
	ok = p.Session != nil && p.Session.Ended != ""
	if ok {
		delete(t.pending, c.Key)
	}
	t.mu.Unlock()
	if !ok {
		return Event{}, false
	}
	s := p.Session
	out := &Outcome{Status: s.Ended, Agent: s.Agent, Reason: s.Closing}
	if m, ok := s.Answer(); ok {
		out.Message, out.Answer = m, m.Text()
		if n := len(p.Events); n > 0 { // what counts of the message
			out.Answer = cmp.Or(p.Events[n-1].Text, out.Answer)
		}
	}
	var err error
	if s.Ended != StatusOK && s.Ended != StatusPartial {
		why := fmt.Sprintf("it had ended without an answer (%s)", s.Ended)
		if n := len(p.Events); n > 0 {
			why = cmp.Or(p.Events[n-1].Error, why)
		}
		err = &EndError{s.Ended, why}
	}
	result, err := t.gate.limit(AnswerOf(out, err))
	return r.session.CallEnded(c, result, err), true
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
