package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// A Gate is what every call of a tool and every model request passes, at every
// depth and from every side. Its zero value permits everything and limits what
// tools return. It is safe for concurrent use and must not be copied after its
// first use.
type Gate struct {
	// Policy decides about every call; nil permits all.
	Policy agent.Policy
	// Ask answers a Verdict of AskPerson with one of Allow or Deny; nil denies,
	// since nobody can be asked.
	Ask func(ctx context.Context, inv *agent.Invocation, v agent.Verdict) agent.Verdict
	// Reserve is asked before every call and every model request; nil permits
	// all.
	Reserve Reserver
	// Redact takes secrets out of the text of results before they are cut; nil
	// takes out none.
	Redact func(string) string
	// MaxProcesses limits how many calls run at the same time; 0 means 64.
	// Calls of sub-agents do not count: they wait for calls of their own.
	MaxProcesses int
	// Now tells the time; nil means time.Now.
	Now func() time.Time
	// Commands says that the events of calls tell what is executed.
	Commands bool

	once  sync.Once
	slots chan struct{} // one for each call that may run
}

// MaxResult is how many bytes of text of one result reach the model. The text of
// a tool that has cut its own result may have a notice beside them.
const (
	MaxResult   = 50_000
	maxNotice   = 1_000
	maxMedia    = 20_000_000
	leftOutText = "\n\n[%d of %d bytes are left out here]\n\n"
)

// A Reserver is asked before something is consumed. An error, which wraps
// ErrBudget, refuses it. settle is then called exactly once with what was
// consumed in fact: the zero Usage for a call.
type Reserver func(ctx context.Context, n Need) (settle func(agent.Usage), err error)

// A Need is what a Reserver is asked for: Request or Call, by an agent.
type Need struct {
	Agent   string
	Session string
	Depth   int
	Request *agent.Request
	Call    *agent.Invocation
}

// Generate asks p, within the budget.
func (g *Gate) Generate(ctx context.Context, p agent.Provider, req *agent.Request, depth int, delta func(agent.Delta)) (*agent.Response, error) {
	if p == nil {
		return nil, errors.New("the agent has no Provider")
	}
	settle := func(agent.Usage) {}
	if g.Reserve != nil {
		var err error
		if settle, err = g.Reserve(ctx, Need{Agent: req.Agent, Session: req.Session, Depth: depth, Request: req}); err != nil {
			return nil, err
		}
	}
	resp, err := p.Generate(ctx, req, delta)
	if resp == nil && err == nil {
		err = errors.New("the Provider returned neither a response nor an error")
	}
	if err != nil {
		err = interrupted(ctx, p, req, err)
		usage := usageOf(nil, err)
		usage.Requests = max(usage.Requests, 1)
		settle(usage)
		return nil, err
	}
	settle(usageOf(resp, nil))
	return resp, nil
}

// Call passes one call to tool: its arguments are decoded and compared with the
// schema; the policy and the budget are asked; it waits for a place among the
// running calls; the start is recorded; the tool runs; its result is cut; the
// end is recorded. record is given the events (see EventVerdict,
// EventCallStarted, EventCallEnded) and returns when they are kept; its error is
// that of Call, and nothing happens after it. Whatever goes wrong with the call
// itself becomes the result.
func (g *Gate) Call(ctx context.Context, tool agent.Tool, inv *agent.Invocation, record func(agent.Event) error) error {
	c := callOf(inv)
	if c == nil {
		c = new(call)
	}
	result, err, broken := g.pass(ctx, tool, inv, c, record)
	switch {
	case broken != nil:
		return broken
	case c.delegated:
		return c.delegating
	case err != nil && inv.Again && !c.started:
		err = agent.ErrUnknownOutcome // it may have run before
	}
	e := inv.Ended(result, err)
	e.Millis = c.took.Milliseconds()
	if !c.started {
		e.Args = inv.Call.Args
	}
	return record(e)
}

// A call is what a Gate notes of a call on its way. Those of a run are the Driver of their
// Invocation, which is beside it: one allocation for both.
type call struct {
	run     *run
	inv     agent.Invocation
	stop    context.CancelCauseFunc
	started bool
	took    time.Duration
	// delegated says that another Runner answers the call, and delegating is why that
	// failed: see Runner.Delegate.
	delegated  bool
	delegating error
	// expect is what the caller expects of an agent. judged says that its answer was judged during
	// its run. An answer from another process was judged after a number of events, and is wrong.
	expect   agent.Expect
	judged   bool
	judging  sync.Mutex // held while one is judged
	judgedAt int
	wrong    error
	// tool and record are those of Gate.Call, for hooks.
	tool   agent.Tool
	record func(agent.Event) error
	// leaves says that the call may go on in the background, and left that its agent was started so.
	// ended ends what a checkpoint keeps of the call; nil if there is none.
	leaves, left bool
	ended        func()
	// admitted says that the call holds one of the Gate's slots.
	admitted atomic.Bool
}

// over ends what a checkpoint keeps of the call, which has ended.
func (c *call) over() {
	if c.ended != nil {
		c.ended()
	}
}

// callOf returns the call of a run that inv is; nil if it is none.
func callOf(inv *agent.Invocation) *call {
	if inv == nil {
		return nil
	}
	c, _ := inv.Driver.(*call)
	return c
}

// pass is Call without the record of the end. broken is the error of record.
func (g *Gate) pass(ctx context.Context, tool agent.Tool, inv *agent.Invocation, c *call, record func(agent.Event) error) (result agent.Result, err, broken error) {
	if err, broken := g.permit(ctx, tool, inv, c, record); err != nil || broken != nil {
		return agent.Result{}, err, broken
	}
	release, err := g.admit(ctx, inv, c)
	if err != nil {
		return agent.Result{}, agent.NotRun(err), nil
	}
	defer release()
	if err := record(g.starting(tool, inv)); err != nil {
		return agent.Result{}, nil, err
	}
	c.started = true
	if ctx.Err() != nil { // it ended while the start was recorded
		return agent.Result{}, agent.NotRun(agent.ContextError(ctx)), nil
	}
	start := g.now()
	result, err = tool.Call(ctx, inv)
	c.took = g.now().Sub(start)
	result, err = g.limit(result, err)
	if c.run != nil && !c.delegated && !c.left && c.run.hasHooks(agent.HookAfterCall) {
		return c.run.hookAfterCall(ctx, inv, c, result, err)
	}
	return result, err, nil
}

// permit checks the arguments of a call, and asks the policy and the hooks. err is why the call
// does not run, and broken the error of record.
func (g *Gate) permit(ctx context.Context, tool agent.Tool, inv *agent.Invocation, c *call, record func(agent.Event) error) (err, broken error) {
	if err := g.check(ctx, tool, inv); err != nil {
		return fmt.Errorf("nothing ran: %w", err), nil
	}
	if l, ok := agent.As[agent.Located](tool); ok {
		inv.Dir = l.WorkDir()
	}
	if s, ok := agent.As[agent.Sandboxed](tool); ok {
		inv.Sandbox = s.Sandbox()
	}
	sent := inv.Call.Args
	c.tool, c.record = tool, record
	if err, broken := g.decide(ctx, tool, inv, record); err != nil || broken != nil {
		return agent.NotRun(err), broken
	}
	if inv.Call.Args != sent { // see Verdict.Args
		return agent.NotRun(g.check(ctx, tool, inv)), nil
	}
	return nil, nil
}

func (g *Gate) now() time.Time {
	if g.Now != nil {
		return g.Now()
	}
	return time.Now()
}

func (g *Gate) check(ctx context.Context, tool agent.Tool, inv *agent.Invocation) error {
	if err := inv.ReplaceAliases(); err != nil {
		return err
	}
	if v, ok := agent.As[agent.Validator](tool); ok {
		return v.Validate(ctx, inv)
	}
	return nil
}

// decide asks the policy, and who else must be asked.
func (g *Gate) decide(ctx context.Context, tool agent.Tool, inv *agent.Invocation, record func(agent.Event) error) (err, broken error) {
	if ctx.Err() != nil {
		return agent.ContextError(ctx), nil
	}
	if g.Policy == nil {
		return nil, nil
	}
	v := g.Policy(ctx, inv)
	if v.Decision == agent.AskPerson {
		asked := v
		if a, ok := agent.As[agent.Approved](tool); ok && v.Reviewer == "" && a.Approved(inv) {
			v = agent.Verdict{Decision: agent.Allow, Reason: "it is part of a call that was allowed"}
		} else if g.Ask != nil {
			if t, ok := agent.As[agent.Identified](tool); ok {
				inv.ToolSource, inv.ToolDigest = t.Identity()
			}
			v = g.Ask(ctx, inv, v)
			inv.Asked = v.Decision == agent.Allow
		} else {
			v = agent.Verdict{Decision: agent.Deny, Reason: strings.TrimPrefix(v.Reason+": nobody can be asked", ": ")}
		}
		v.Rule, v.Approval, v.Reviewer = cmp.Or(v.Rule, asked.Rule), cmp.Or(v.Approval, asked.Approval), asked.Reviewer
	}
	if v.Decision != agent.Allow || v.Reason != "" || v.Rule != "" {
		e := inv.Event(agent.EventVerdict)
		e.Decision, e.Text, e.Rule, e.Approval, e.Reviewer = v.Decision, v.Reason, v.Rule, v.Approval, v.Reviewer
		if broken := record(e); broken != nil {
			return nil, broken
		}
	}
	if v.Decision != agent.Allow {
		return fmt.Errorf("%w: %s", agent.ErrRefused, cmp.Or(v.Reason, "this call is not permitted")), nil
	}
	return nil, nil
}

// admit reserves what the call needs and waits for a place among the running
// calls.
func (g *Gate) admit(ctx context.Context, inv *agent.Invocation, c *call) (release func(), err error) {
	settle := func(agent.Usage) {}
	if g.Reserve != nil {
		if settle, err = g.Reserve(ctx, Need{Agent: inv.Agent, Session: inv.Session, Depth: inv.Depth, Call: inv}); err != nil {
			return nil, err
		}
	}
	if inv.Spec.IsAgent() {
		return func() { settle(agent.Usage{}) }, nil
	}
	g.once.Do(func() { g.slots = make(chan struct{}, cmp.Or(g.MaxProcesses, agent.DefaultMaxProcesses)) })
	select {
	case g.slots <- struct{}{}:
		c.admitted.Store(true)
		return func() {
			if c.admitted.CompareAndSwap(true, false) {
				<-g.slots
			}
			settle(agent.Usage{})
		}, nil
	case <-ctx.Done():
		settle(agent.Usage{})
		return nil, agent.ContextError(ctx)
	}
}

func (g *Gate) starting(tool agent.Tool, inv *agent.Invocation) agent.Event {
	e := inv.Event(agent.EventCallStarted)
	e.Args = inv.Call.Args
	if c, ok := agent.As[agent.Commander](tool); ok && g.Commands {
		e.Argv, e.Digest = c.Command(inv)
	}
	e.Sandbox, e.Effects = inv.Sandbox, inv.Spec.Effects
	return e
}

// A cutError is an error whose text was cut.
type cutError struct {
	text string
	err  error
}

func (e *cutError) Error() string { return e.text }

func (e *cutError) Unwrap() error { return e.err }

// limit cuts what a result and the text of its error, which precedes it, have together more
// than a model gets. Secrets go first: a cut must not leave a part of one.
func (g *Gate) limit(r agent.Result, err error) (agent.Result, error) {
	total, left := 0, MaxResult
	if err != nil {
		text := strings.ToValidUTF8(err.Error(), "\uFFFD")
		if len(text) > MaxResult {
			if g.Redact != nil {
				text = g.Redact(text)
			}
			text = cutMiddle(text, MaxResult)
			err = &cutError{text, err}
		}
		total, left = len(text), max(0, MaxResult-len(text))
	}
	for _, p := range r.Parts {
		total += len(p.Text)
		if len(p.Data) > maxMedia {
			total += MaxResult + maxNotice + 1
		}
	}
	if total <= MaxResult+maxNotice {
		return r, err
	}
	r.Parts = slices.Clone(r.Parts)
	for i := range r.Parts {
		p := &r.Parts[i]
		if len(p.Data) > maxMedia {
			*p = agent.Text(fmt.Sprintf("[an attachment of %d bytes (%s) is left out; one can have %d]", len(p.Data), p.MIME, maxMedia))
			continue
		}
		if left == 0 {
			p.Text = "" // a notice in each of many parts would be too long, too
			continue
		}
		if g.Redact != nil {
			p.Text = g.Redact(p.Text)
		}
		p.Text = cutMiddle(p.Text, left)
		left = max(0, left-len(p.Text))
	}
	return r, err
}

// cutMiddle is s if it has at most limit bytes, else its beginning and its end
// with a notice between them.
func cutMiddle(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	half := max(0, limit-len(leftOutText)-20) / 2
	head, tail := strings.ToValidUTF8(s[:half], ""), strings.ToValidUTF8(s[len(s)-half:], "")
	return head + fmt.Sprintf(leftOutText, len(s)-len(head)-len(tail), len(s)) + tail
}
