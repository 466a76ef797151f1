package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/agents-exe/agents/pkg/agent"
)

// Lent models. An agent that Borrows has no model of its own: its requests are answered by the
// first agent above that has the model and lends it, in this process or behind a question "model"
// of the channel. The usage is that of the borrower's session, as if it had made the request
// itself. What an agent in another process says of the usage of a lent model does not count: its
// lender knows.

// A lentModel is a Loan with the agents above its lender, the nearest first.
type lentModel struct {
	agent.Loan
	above []*agent.Agent
}

// lentBy returns what the first of the agents, the nearest above a borrower, lends to it. The
// caller of the last one lends leased.
func lentBy(agents []*agent.Agent, leased []agent.Loan) (list []lentModel) {
	if len(agents) == 0 {
		for _, l := range leased {
			l.Provider, l.Implied = nil, true
			list = append(list, lentModel{Loan: l})
		}
		return list
	}
	own, above := agents[0].Lend, agents[1:]
	if own == nil {
		list = lentBy(above, leased)
		for i := range list {
			list[i].Implied = true
		}
		return list
	}
	for _, l := range own {
		if l.Provider != nil {
			list = append(list, lentModel{l, above})
			continue
		}
		for _, from := range lentBy(above, leased) {
			if l.Name == "" || l.Name == from.Name || l.Name == from.Model {
				from.Implied = false
				list = append(list, from)
			}
		}
	}
	return list
}

// chosen returns the loan for a wish; ok is false if that is another one.
func chosen(list []lentModel, wish string) (l lentModel, ok bool) {
	for _, name := range []func(*lentModel) string{func(l *lentModel) string { return l.Name }, func(l *lentModel) string { return l.Model }} {
		if i := slices.IndexFunc(list, func(l lentModel) bool { return name(&l) == wish }); i >= 0 && wish != "" {
			return list[i], true
		}
	}
	if len(list) > 0 {
		l = list[0]
	}
	return l, false
}

// agents returns the agents from n to the root, and those above it that this program knows.
func (n *node) agents() (list []*agent.Agent) {
	for ; n != nil; n = n.up {
		if !n.behalf {
			list = append(list, n.agent)
		}
		if n.up == nil {
			for _, a := range slices.Backward(n.tree.callers) {
				list = append(list, a)
			}
		}
	}
	return list
}

// lenders returns the agents above n, the nearest first.
func (n *node) lenders() []*agent.Agent { return n.agents()[1:] }

// lent returns what r lends to the agent that answers inv in another process.
func (r *node) lent(inv *agent.Invocation) []lentModel {
	list := lentBy(r.agents(), r.tree.lease.Models)
	if inv.Spec.Far {
		list = slices.DeleteFunc(list, func(l lentModel) bool { return l.Implied })
	}
	return list
}

// chooseLoan gives an agent that borrows the name and the size of the model that it will get.
func (r *run) chooseLoan() {
	if !r.agent.Borrows {
		return
	}
	l, _ := chosen(lentBy(r.lenders(), r.tree.lease.Models), r.agent.Model)
	if l.Name == "" {
		return
	}
	r.loan = l.Provider
	a := *r.agent
	a.Model, a.Flavor = cmp.Or(l.Model, l.Name), cmp.Or(l.Flavor, a.Flavor)
	a.ContextTokens = min(cmp.Or(a.ContextTokens, agent.DefaultContextTokens), cmp.Or(l.ContextTokens, agent.DefaultContextTokens))
	r.agent = &a
}

// borrow is Request.Borrow of r.
func (r *run) borrow(ctx context.Context, wish string, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	list := lentBy(r.lenders(), r.tree.lease.Models)
	l, ok := chosen(list, wish)
	if !ok && l.Name != "" && wish != "" {
		r.warn(fmt.Sprintf("agent %s asks for the model %s, which is not lent to it; it gets %s", r.agent.Slug, wish, l.Name))
	}
	e := agent.Event{Session: r.session.ID, Agent: r.agent.Slug, Parent: r.parent, Depth: r.depth, Path: r.path()}
	return r.tree.lend(ctx, l, e, req, delta)
}

// lend has a lent model answer a request of the session that e names.
func (t *tree) lend(ctx context.Context, l lentModel, e agent.Event, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	switch {
	case l.Name == "":
		return nil, agent.ErrNoLoan
	case l.Provider == nil:
		return t.borrowAbove(ctx, l.Name, e, req, delta)
	}
	own := *req
	own.Borrow = func(ctx context.Context, wish string, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
		next, _ := chosen(lentBy(l.above, t.lease.Models), wish)
		return t.lend(ctx, next, e, req, delta)
	}
	if fitter, ok := agent.As[agent.ToolFitter](l.Provider); ok {
		own.Tools = slices.DeleteFunc(slices.Clone(own.Tools), func(s agent.ToolSpec) bool {
			_, _, err := fitter.FitTool(s)
			return err != nil
		})
	}
	if secrets := t.root.secrets; secrets != nil {
		show := delta
		delta = func(d agent.Delta) {
			if d.Kind == agent.DeltaRetry {
				d.Text = secrets.String(d.Text)
			}
			show(d)
		}
	}
	resp, err := l.Provider.Generate(ctx, &own, delta)
	if resp != nil && resp.Failed != "" && t.root.secrets != nil {
		clean := *resp
		clean.Failed = t.root.secrets.String(resp.Failed)
		resp = &clean
	}
	if err != nil {
		err = interrupted(ctx, l.Provider, &own, err)
	}
	return resp, err
}

// A modelReply answers a question "model".
type modelReply struct {
	Response *agent.Response `json:"response,omitempty"`
	Error    *modelFault     `json:"error,omitempty"`
}

// A modelFault is a ModelError, or with Budget the text of a budget that is spent.
type modelFault struct {
	Status    int         `json:"status,omitempty"`
	Code      string      `json:"code,omitempty"`
	Message   string      `json:"message"`
	Temporary bool        `json:"temporary,omitempty"`
	TooLong   bool        `json:"tooLong,omitempty"`
	Budget    bool        `json:"budget,omitempty"`
	Usage     agent.Usage `json:"usage"`
}

// faultOf returns err for the borrower.
func faultOf(err error) *modelFault {
	f := &modelFault{Message: err.Error(), Budget: errors.Is(err, agent.ErrBudget), Usage: usageOf(nil, err)}
	if e, ok := errors.AsType[*agent.ModelError](err); ok {
		f.Status, f.Code, f.Temporary, f.TooLong = e.Status, e.Code, e.Temporary, e.TooLong
		if e.Status != 0 {
			f.Message = e.Message
		}
	}
	return f
}

func (f *modelFault) err() error {
	e := &agent.ModelError{Status: f.Status, Code: f.Code, Message: f.Message, Temporary: f.Temporary, TooLong: f.TooLong}
	if f.Usage.Possible() {
		e.Usage = f.Usage
	}
	if f.Budget {
		e.Err = &budgetError{text: f.Message}
	}
	return e
}

// borrowAbove asks the caller in another process.
func (t *tree) borrowAbove(ctx context.Context, name string, e agent.Event, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	if t.caller == nil {
		return nil, agent.ErrNoLoan
	}
	t.mu.Lock()
	t.questions++
	e.Question = fmt.Sprintf("%s.m%d", e.Session, t.questions)
	t.mu.Unlock()
	e.Kind, e.What, e.Time, e.Turn, e.Model, e.Request = agent.EventQuestion, "model", t.now(), req.Turn, name, req
	answer, err := t.caller(ctx, e, delta)
	switch {
	case ctx.Err() != nil:
		return nil, agent.ContextError(ctx)
	case err != nil:
		return nil, fmt.Errorf("ask the caller's model: %w", err)
	}
	var reply modelReply
	if err := json.Unmarshal(answer, &reply); err != nil {
		return nil, fmt.Errorf("ask the caller's model: %w", err)
	}
	switch resp := reply.Response; {
	case reply.Error != nil:
		return nil, reply.Error.err()
	case resp == nil || !resp.Usage.Possible():
		return nil, errors.New("ask the caller's model: the reply is not an answer")
	default:
		resp.Message.Role, resp.Message.Results = agent.RoleAssistant, nil
		resp.Usage = resp.Usage.OrEstimate(req, &resp.Message)
		resp.Finish = cmp.Or(resp.Finish, agent.FinishStop)
		return resp, nil
	}
}

// A lending is a lent model that answers an agent in another process.
type lending struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// Model implements agent.CallingRun.
func (r *run) Model(ctx context.Context, inv *agent.Invocation, e agent.Event, delta func(context.Context, agent.Delta)) json.RawMessage {
	var reply modelReply
	err := r.tree.guard(func() (err error) {
		reply.Response, err = r.answerModel(ctx, inv, e, delta)
		return err
	})
	if err != nil {
		reply = modelReply{Error: faultOf(err)}
		if secrets := r.tree.root.secrets; secrets != nil {
			reply.Error.Message, reply.Error.Code = secrets.String(reply.Error.Message), secrets.String(reply.Error.Code)
		}
	}
	answer, _ := json.Marshal(reply) // what has been JSON, or is text
	const longest = 15 << 20         // of a message of the channel
	if len(answer) > longest {
		answer, _ = json.Marshal(modelReply{Error: &modelFault{Message: "the answer of the lent model is too long for the channel"}})
	}
	return answer
}

func (r *run) answerModel(ctx context.Context, inv *agent.Invocation, e agent.Event, delta func(context.Context, agent.Delta)) (*agent.Response, error) {
	t := r.tree
	l, ok := chosen(r.lent(inv), e.Model)
	if !ok {
		return nil, fmt.Errorf("the model %.100q is not lent to agent %s", e.Model, inv.Spec.Name)
	}
	if e.Request == nil {
		return nil, fmt.Errorf("%w: the question has no request", agent.ErrChild)
	}
	if t.redact != nil {
		e = t.redact(e)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t.mu.Lock()
	n := t.remotes[e.Session]
	err := r.mayBorrow(inv, n)
	if err != nil {
		t.mu.Unlock()
		return nil, err
	}
	own := &lending{cancel, make(chan struct{})}
	n.lending = own
	req := *e.Request
	if req.Fallback != n.fallback { // the lender chooses
		req.Fallback = ""
	}
	t.mu.Unlock()

	req.Session, req.Agent, req.Again = e.Session, n.agent.Slug, n.again
	question := agent.Event{Session: e.Session, Agent: n.agent.Slug, Parent: e.Parent, Depth: e.Depth + inv.Depth + 1, Path: r.pathOf(inv, e)}
	if question.Parent == "" {
		question.Parent = inv.Key
	}
	var resp *agent.Response
	defer func() { // after a panic too: who waits for own.done would wait for ever
		t.mu.Lock()
		defer t.mu.Unlock()
		n.lending, n.served = nil, err == nil && resp != nil
		if resp != nil || err != nil {
			n.lent = n.lent.Add(usageOf(resp, err))
		}
		if resp != nil {
			n.fallback = resp.Fallback
		}
		if !n.session.Running || t.remotes[e.Session] != n { // no event will count it
			n.countLoan(&agent.Event{Kind: agent.EventEnd})
		}
		close(own.done)
	}()
	resp, err = t.gate.Generate(ctx, lender(func(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
		return t.lend(ctx, l, question, req, delta)
	}), &req, n.depth, func(d agent.Delta) { delta(ctx, d) })
	return resp, err
}

// A lender is a Provider that is a function.
type lender func(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error)

// Generate implements agent.Provider.
func (f lender) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	return f(ctx, req, delta)
}

// mayBorrow returns an error if the session n cannot ask a model now: each request must be
// reserved, and counted before the next one. r.tree.mu is held.
func (r *run) mayBorrow(inv *agent.Invocation, n *remote) error {
	switch left, _ := r.left(false); {
	case n == nil || n.callKey != inv.Key || !n.session.Running:
		return fmt.Errorf("%w: it asks a model in a session that does not run", agent.ErrChild)
	case n.lending != nil || n.served:
		return fmt.Errorf("%w: it asks a model before it has recorded the answer of the last one", agent.ErrChild)
	case limited(left[:amountCalls]) && n.release == nil:
		return fmt.Errorf("%w: it asks a model without a reservation in the budget", agent.ErrChild)
	}
	return n.beyond(n.lent) // of requests that failed, after which it may ask another model
}

// endLoan ends the request to a lent model for which a session no longer waits, so that what it
// consumed is known.
func (r *run) endLoan(inv *agent.Invocation, e *agent.Event) {
	switch e.Kind {
	case agent.EventAnswer, agent.EventFailure, agent.EventCompaction, agent.EventResume, agent.EventEnd:
	default:
		return
	}
	t := r.tree
	t.mu.Lock()
	var own *lending
	if n := t.remotes[e.Session]; n != nil && n.callKey == inv.Key {
		own = n.lending
	}
	t.mu.Unlock()
	if own != nil {
		own.cancel()
		<-own.done
	}
}

// countLoan has e, an event that tells usage, tell at least that of the lent model. The agent may
// have asked a model of its own too. A usage that the session does not tell is counted when it
// ends. The tree's mu is held.
func (n *remote) countLoan(e *agent.Event) {
	if n.lent == (agent.Usage{}) {
		return
	}
	switch e.Kind {
	case agent.EventAnswer, agent.EventFailure, agent.EventCompaction, agent.EventResume:
		u := n.lent
		if e.Usage != nil && e.Usage.Possible() && (e.Usage.Estimated == 0 || e.Kind == agent.EventAnswer) { // else it guesses what n.lent knows
			u = most(*e.Usage, u)
		}
		e.Usage = &u
		return // it is settled when the event has taken effect
	case agent.EventEnd:
		counted := agent.Event{Kind: agent.EventFailure, Agent: n.agent.Slug, Usage: &n.lent}
		for up := &n.node; up != nil; up = up.up {
			up.total.Note(&counted)
			up.account.note(n.lent)
		}
	default:
		return
	}
	n.lent, n.served = agent.Usage{}, false
}

// most returns the larger of each number of u and v.
func most(u, v agent.Usage) agent.Usage {
	return agent.Usage{
		Requests: max(u.Requests, v.Requests), InputTokens: max(u.InputTokens, v.InputTokens), CachedTokens: max(u.CachedTokens, v.CachedTokens),
		CacheWriteTokens: max(u.CacheWriteTokens, v.CacheWriteTokens), CacheHourTokens: max(u.CacheHourTokens, v.CacheHourTokens),
		OutputTokens: max(u.OutputTokens, v.OutputTokens), ReasoningTokens: max(u.ReasoningTokens, v.ReasoningTokens),
		Cost: max(u.Cost, v.Cost), Priced: max(u.Priced, v.Priced), Estimated: max(u.Estimated, v.Estimated),
		ReservedCost: max(u.ReservedCost, v.ReservedCost), ReservedTokens: max(u.ReservedTokens, v.ReservedTokens),
	}
}
