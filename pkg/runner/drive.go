package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/redact"
)

// A node is one agent at work in one session: that of a run of this process, or of a remote.
type node struct {
	tree    *tree
	up      *node // nil at the root
	agent   *agent.Agent
	session *agent.Session
	parent  string // Key of the call that it answers
	depth   int
	total   agent.TotalUsage // with all sub-agents; guarded by tree.mu
	account account
	behalf  bool // see OnBehalf
	program bool // see AskLent
}

// A run does what Session.Next says.
type run struct {
	node
	accept  func(ctx context.Context, answer string) (string, error)
	secrets *redact.Redactor
	// conditions must hold before an answer counts.
	conditions []agent.Condition

	tools  toolbox
	warned map[string]bool
	start  time.Time    // of the run
	began  time.Time    // the same if the run is driven by Step, for its time limits
	cause  error        // of the last EventFailure, as a caller wants it
	end    *agent.Event // of the run, once it ended
	said   []byte       // the text of an answer that has arrived so far

	loan       agent.Provider // the lent model of an agent that borrows, if it is in this process
	background background
	inbox      *inbox
	compacts   bool // the run only shortens the conversation
}

// do is Run for one agent of the tree, and Resume if there is no prompt.
func (r *run) do(ctx context.Context, prompt *agent.Message) (*agent.Outcome, error) {
	r.start, r.began = r.tree.now(), time.Time{} // its time limits begin now
	r.end, r.tools.known = nil, nil
	r.collectOwn(prompt != nil)
	ctx, cancel := r.begun(ctx, prompt != nil || r.compacts)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.open(stop)
	if r.up == nil {
		defer r.tree.endLooks()
	}
	defer r.background.end(r.tree)
	err := r.begin(ctx, prompt)
	if err == nil && r.tree.holds && r.up != nil {
		r.tree.hold(ctx, r.parent)
	}
	if err == nil && r.compacts {
		err = r.compactAlone(ctx)
	}
	for err == nil && r.end == nil {
		step := r.session.Next()
		if d, ok := r.directed(ctx, step); ok {
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
func (r *run) insert(ctx context.Context, d agent.Directive) error {
	m := *d.Message
	if !d.Notice {
		events, denied := r.hookPrompt(ctx, &m, r.session.ID, false)
		for i := range events {
			events[i].N = d.N
		}
		if err := r.emit(ctx, events...); err != nil {
			return err
		}
		if denied != nil {
			r.warn("a message is not sent to the model: " + denied.Error())
			return nil
		}
	}
	e := r.session.Inserted(m, d.Key, d.Outcome)
	e.N = d.N
	return r.emit(ctx, e)
}

// begin opens or resumes the run. Calls that an earlier run left open are
// answered before a new prompt.
func (r *run) begin(ctx context.Context, prompt *agent.Message) error {
	if r.tree.refused != nil {
		return r.tree.refused
	}
	if r.tree.above > max(r.tree.maxDepth, 0) {
		return fmt.Errorf("%w: agents are nested %d deep, counted over all processes", agent.ErrDepth, r.tree.maxDepth)
	}
	if err := r.checkContext(ctx, r.tree.currentContext()); err != nil {
		return err
	}
	if prompt == nil {
		if err := r.continues(ctx); err != nil {
			return err
		}
	}
	if err := r.relaunch(ctx); err != nil || prompt == nil && !r.compacts {
		return err
	}
	for len(r.session.OpenCalls()) > 0 {
		if err := r.perform(ctx, r.session.Next()); err != nil {
			return err
		}
	}
	if prompt == nil {
		return nil
	}
	return r.prompt(ctx, *prompt)
}

//go:noinline
func (r *run) continues(ctx context.Context) error { // see insert
	return r.emit(ctx, append([]agent.Event{r.resumed()}, r.contextEvents()...)...)
}

// resumed returns the event that resumes the run.
func (r *run) resumed() agent.Event {
	e := r.traced(r.session.Resumed(r.limits()))
	e.Summary = r.compacts
	if u := r.session.Unanswered(); u != (agent.Usage{}) {
		r.tree.mu.Lock()
		p := r.agent.Provider
		if r.loan != nil {
			p = r.loan
		}
		u = r.reserved(priced(p, u), r.session.Size())
		r.tree.mu.Unlock()
		e.Usage = &u
	}
	return e
}

// prompt adds a user message, and opens the session if it is new.
func (r *run) prompt(ctx context.Context, prompt agent.Message) error {
	var events []agent.Event
	id, begins := r.session.ID, r.session.ID == ""
	if begins {
		id = r.tree.newID()
		events = r.session.Opened(r.agent, id, r.parent, r.depth)
		if r.program {
			events[0].What = agent.ProgramRequest
		}
	}
	hooks, denied := r.hookPrompt(ctx, &prompt, id, begins)
	if denied != nil {
		if begins { // there is no conversation without a prompt
			return denied
		}
		return cmp.Or(r.emit(ctx, hooks...), denied)
	}
	return r.prompted(ctx, slices.Concat(events, r.contextEvents(), hooks), prompt)
}

//go:noinline
func (r *run) prompted(ctx context.Context, before []agent.Event, prompt agent.Message) error { // see insert
	return r.emit(ctx, append(before, r.traced(r.session.Prompted(prompt, r.limits())))...)
}

func (r *run) limits() agent.Limits {
	limits := r.agent.Limits()
	if r.accept != nil || r.agent.OutputSchema != nil || len(r.conditions) > 0 {
		limits.Answers = agent.MaxAnswers
	}
	return limits
}

// outcome is how the run ended; err is set if that could not be recorded.
func (r *run) outcome(err error) (*agent.Outcome, error) {
	r.tree.mu.Lock()
	out := &agent.Outcome{Status: agent.StatusOf(err), Session: r.session.ID, Agent: r.agent.Slug,
		Turns: r.session.RunTurns, Total: r.total.Clone(), Duration: r.tree.now().Sub(r.start)}
	r.tree.mu.Unlock()
	if m, ok := r.session.Answer(); ok && r.session.RunTurns > 0 {
		out.Message, out.Answer = m, m.Text()
	}
	if r.end != nil {
		out.Answer = r.end.Text
		out.Receipt = r.end.Receipt
		if err == nil {
			out.Status, out.Reason = r.end.Status, r.end.Error
		}
	}
	return out, redactError(r.secrets, err)
}

// perform does one step. The error is why the run ended without an answer.
func (r *run) perform(ctx context.Context, step agent.Step) error {
	switch step.Kind {
	case agent.StepPrompt:
		return nil
	case agent.StepApply:
		return r.apply(ctx, step)
	}
	if ctx.Err() != nil {
		return r.fail(ctx, agent.Step{}, agent.ContextError(ctx), agent.Usage{})
	}
	switch step.Kind {
	case agent.StepCalls:
		return r.callAll(ctx, step)
	case agent.StepAccept:
		text, wrong := r.acceptable(ctx, step.Answer)
		if ctx.Err() != nil { // it may be what is wrong
			return r.fail(ctx, agent.Step{}, agent.ContextError(ctx), agent.Usage{})
		}
		if no, ok := errors.AsType[*judgeError](wrong); ok {
			return r.fail(ctx, agent.Step{}, no.err, agent.Usage{})
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
	if err = r.unmet(ctx, r.collector(), r.conditions); err == nil && r.accept != nil {
		return r.accept(ctx, answer)
	}
	return answer, err
}

// apply makes the events of step happen. The end of a run is on disk before it is
// given away.
func (r *run) apply(ctx context.Context, step agent.Step) error {
	if n := len(step.Events); n > 0 && step.Events[n-1].Kind == agent.EventEnd {
		if r.tree.delegate != nil && !r.tree.noNotices && len(r.staying()) > 0 {
			return ErrOpen
		}
		end := &step.Events[n-1]
		end.Left = r.detach(ctx, end.Status)
		r.background.settle(ctx, r.tree, r.tree.leaves != nil)
		if err := r.hookEnd(ctx, step.Events[n-1]); err != nil {
			return err
		}
		r.lookAtOwn()
	}
	if err := r.emit(ctx, step.Events...); err != nil {
		return err
	}
	if r.end == nil {
		return nil
	}
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
func (r *run) fail(ctx context.Context, step agent.Step, err error, usage agent.Usage) error {
	e := r.session.Failed(step, err)
	if usage != (agent.Usage{}) {
		e.Usage = &usage
	}
	switch {
	case step.Asked:
		r.cause = err
		r.warn("the conversation could not be shortened: " + err.Error())
	case e.Summary:
		r.warn("the conversation is near the limit of the model's context and could not be summed up: " + err.Error())
	case e.Kind == agent.EventFailure:
		r.cause = err
	}
	return r.emit(ctx, e)
}

func (r *run) ask(ctx context.Context, step agent.Step) error {
	if err := r.prepare(ctx); err != nil {
		return r.fail(ctx, agent.Step{}, err, agent.Usage{})
	}
	if err := r.missingTools(ctx); err != nil {
		return r.fail(ctx, agent.Step{}, err, agent.Usage{})
	}
	if note := r.changedTools(step); note != "" {
		r.warn(note)
		m := agent.UserText("[" + note + "]")
		return r.insert(ctx, agent.Directive{Message: &m, Notice: true})
	}
	if err := r.setUp(ctx, step); err != nil {
		return err
	}
	settle, err := r.reserveRequest(ctx, step)
	if err != nil {
		return r.fail(ctx, step, err, agent.Usage{})
	}
	var usage agent.Usage
	defer func() { settle(usage) }()
	size := r.session.Size()
	req := r.session.Request(step, *r.tools.system, r.tools.specs)
	req.Trace = r.tree.requestTrace(req)
	if out := r.agent.OutputSchema; out != nil && !req.Summary {
		req.Output = out.Schema
	}
	req.Again = r.again
	if r.agent.Borrows {
		req.Borrow = r.borrow
	}
	r.asking(req)
	r.foresee()
	start := r.tree.now()
	synced := r.syncMeanwhile(ctx)
	r.said = r.said[:0]
	resp, err := r.tree.gate.Generate(ctx, r.agent.Provider, req, r.depth, func(d agent.Delta) { r.delta(req, d) })
	if syncErr := synced(); syncErr != nil {
		return syncErr
	}
	usage = usageOf(resp, err)
	if err != nil && usage.Unpriced() > 0 {
		r.tree.mu.Lock()
		usage = r.reserved(usage, size)
		r.tree.mu.Unlock()
	}
	if err != nil && ctx.Err() != nil {
		return r.fail(ctx, step, &agent.Stopped{Err: agent.ContextError(ctx), Text: string(r.said)}, usage)
	}
	return r.answered(ctx, step, resp, usage, err, start)
}

// asking shows that a request is made.
//
//go:noinline
func (r *run) asking(req *agent.Request) {
	model, flavor := r.model(req.Fallback)
	r.observe(agent.Event{Kind: agent.EventRequest, Turn: req.Turn, Tools: len(req.Tools), Model: model, Flavor: flavor, Fallback: req.Fallback, Summary: req.Summary})
}

// model returns the model that a request with this Fallback asks first, and its flavor.
func (r *run) model(fallback string) (model, flavor string) {
	if of, ok := agent.As[agent.Chooser](r.agent.Provider); ok {
		return of.Choice(fallback)
	}
	return r.agent.Model, r.agent.Flavor
}

func (r *run) answered(ctx context.Context, step agent.Step, resp *agent.Response, usage agent.Usage, err error, start time.Time) error {
	var spent *budgetError // between two attempts
	switch {
	case err != nil && step.Kind == agent.StepSummary:
		return r.fail(ctx, step, err, usage)
	case err != nil && errors.As(err, &spent):
		return r.fail(ctx, step, spent, usage)
	case err != nil:
		return r.fail(ctx, step, fmt.Errorf("ask model %s: %w", cmp.Or(r.agent.Model, "of "+r.agent.Slug), err), usage)
	}
	e := r.session.Answered(step, resp)
	if e.Kind == agent.EventAnswer {
		agent.Restate(e.Message.Calls, r.tools.specs)
	}
	if e.Kind == agent.EventFailure {
		return r.fail(ctx, step, errors.New(e.Error), usage)
	}
	e.Millis = r.tree.now().Sub(start).Milliseconds()
	return r.emit(ctx, e)
}

func (r *run) delta(req *agent.Request, d agent.Delta) {
	e := agent.Event{Turn: req.Turn, Text: d.Text}
	switch d.Kind {
	case agent.DeltaText:
		r.said = append(r.said, d.Text...)
		e.Kind = agent.EventText
	case agent.DeltaReasoning:
		e.Kind = agent.EventReasoning
	case agent.DeltaRetry:
		r.said = r.said[:0]
		e.Kind, e.Text, e.Error = agent.EventRetry, "", d.Text
		e.Attempt, e.Millis, e.Fallback, e.Model = d.Attempt, d.Wait.Milliseconds(), d.Fallback, d.Model
	}
	if e.Kind != "" && (e.Kind == agent.EventRetry || !req.Summary) {
		r.observe(e)
	}
}

// SessionState implements agent.CallingRun.
func (r *run) SessionState() agent.State {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	s := r.session.State
	s.Calls = slices.Clone(s.Calls)
	return s
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
	r.observe(agent.Event{Kind: agent.EventWarning, Text: text})
}
