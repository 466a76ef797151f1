package runner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// Models for the programs of tools. Each request that a program makes is a session of its own
// below the call, of one answer: so it is reserved, counted, journalled, traced and redacted as a
// request of a sub-agent, in this process or in those above.

// Lent returns the models that the program of a call may use: those that its agent lends, if it
// lends them to the tool.
func Lent(inv *agent.Invocation) []agent.Loan {
	c := callOf(inv)
	if c == nil || !slices.Contains(c.run.agent.LendTools, inv.Spec.Name) {
		return nil
	}
	var list []agent.Loan
	for _, l := range lentBy(c.run.agents(), c.run.tree.lease.Models) {
		list = append(list, l.Loan)
	}
	return list
}

// A ProgramRequest is one that the program of a call makes.
type ProgramRequest struct {
	// Model is the Name of a Loan.
	Model string
	*agent.Request
	// Prompt says in short what is asked, for the journal.
	Prompt string
}

// AskLent has a model that is Lent to the program of a call answer a request. If a budget does
// not permit it, the error wraps ErrBudget.
func AskLent(ctx context.Context, inv *agent.Invocation, p ProgramRequest, delta func(agent.Delta)) (resp *agent.Response, err error) {
	c := callOf(inv)
	if c == nil {
		return nil, errors.New("this call is not part of a run")
	}
	r := c.run
	l, ok := chosen(lentBy(r.agents(), r.tree.lease.Models), p.Model)
	if !ok {
		return nil, fmt.Errorf("%w: the model %.100q is not lent", agent.ErrNoLoan, p.Model)
	}
	a := &agent.Agent{Slug: inv.Spec.Name, Source: inv.Spec.Source, Model: l.Model, Flavor: l.Flavor, NoCompaction: true, LoopWarn: -1, LoopEnd: -1, MaxTurns: math.MaxInt32}
	child := &run{node: r.below(a, inv.Key)}
	child.behalf, child.program = true, true
	var failed error
	a.Provider = lender(func(ctx context.Context, own *agent.Request, show func(agent.Delta)) (*agent.Response, error) {
		req := *p.Request
		req.Session, req.Agent, req.Turn, req.Trace, req.Again = own.Session, own.Agent, own.Turn, own.Trace, own.Again
		e := agent.Event{Session: own.Session, Agent: a.Slug, Parent: inv.Key, Depth: child.depth, Path: child.path()}
		resp, failed = r.tree.lend(ctx, l, e, &req, func(d agent.Delta) {
			show(d)
			delta(d)
		})
		if failed != nil {
			return nil, failed
		}
		noted := *resp
		noted.Message, noted.Finish = noCalls(resp.Message), agent.FinishStop
		return &noted, nil
	})
	err = r.tree.guard(func() error {
		_, err := child.do(ctx, new(agent.UserText(p.Prompt)))
		return err
	})
	if failed != nil {
		return nil, failed
	}
	return resp, err
}

// noCalls returns m with its calls as text: the program runs them.
func noCalls(m agent.Message) agent.Message {
	var b strings.Builder
	b.WriteString(m.Text())
	for _, c := range m.Calls {
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "[calls %s with %s]", c.Name, c.Args)
	}
	if b.Len() == 0 {
		b.WriteString("[no text]")
	}
	return agent.Message{Role: agent.RoleAssistant, Parts: []agent.Part{agent.Text(strings.ToValidUTF8(b.String(), "\uFFFD"))}}
}
