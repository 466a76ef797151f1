package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/agents-exe/agents/pkg/agent"
)

// Call runs inv, a call of an agent that reads from out and writes to in, as a sub-agent
// of the run that makes the call: the agent receives what is left of the run's lease,
// its events become events of the tree, and the person of the tree answers its
// questions. When ctx ends, Call cancels the agent and waits until it ends: callers must
// end an agent that does not end by itself. The error says why there is no answer.
func Call(ctx context.Context, inv *agent.Invocation, in io.Reader, out io.WriteCloser) (agent.Result, error) {
	if inv.Caller == nil {
		return agent.Result{}, errors.New("this call is not part of a run")
	}
	args, err := inv.Args()
	if err != nil {
		return agent.Result{}, err
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return agent.Result{}, err
	}
	s := agent.Start{Args: raw, Lease: inv.Caller.Lease(ctx, inv), Context: inv.Context, Journal: true, Accept: inv.Accepts}
	s.History, s.Spent = inv.Caller.History(inv)
	person := inv.Caller.Person()
	s.Person = &person
	if len(s.History) > 0 {
		s.Session = s.History[0].Session
	}
	h := &holding{inv: inv, conn: Open(in, out, s), slug: inv.Spec.Name}
	defer h.conn.Close()
	stop := context.AfterFunc(ctx, func() {
		_ = h.conn.Cancel(context.Cause(ctx).Error()) // callers end an agent that does not read it
	})
	defer stop()
	inv.Caller.Below(inv, func(d agent.Directive) { _ = h.conn.Direct(d) }) // it may have ended
	defer inv.Caller.Below(inv, nil)
	questions, cancel := context.WithCancel(ctx)
	defer h.asking.Wait()
	defer cancel()
	end, err := h.run(ctx, questions)
	switch {
	case ctx.Err() != nil && (errors.Is(err, ErrProtocol) || err == nil && end.Status == agent.StatusInterrupted):
		err = context.Cause(ctx)
	case err == nil:
		return h.result(end)
	}
	return agent.AnswerOf(&agent.Outcome{Agent: h.slug}, err)
}

// maxQuestions is how many questions of one agent may wait at the same time.
const maxQuestions = 1000

// A holding is a call of an agent in another process.
type holding struct {
	inv    *agent.Invocation
	conn   *Conn
	slug   string
	last   agent.Message // the last of the agent itself
	asking sync.WaitGroup
	asked  atomic.Int32 // questions without a reply
}

// run handles all events and returns the last.
func (h *holding) run(ctx, questions context.Context) (end agent.Event, err error) {
	for e, err := range h.conn.Events() {
		if err == nil {
			err = h.take(ctx, questions, e)
		}
		if err != nil {
			return e, err
		}
		if e.Kind == agent.EventEnd && e.Depth == 0 {
			return e, nil
		}
	}
	return end, ErrProtocol // not reached: Events ends with an end event or an error
}

func (h *holding) take(ctx, questions context.Context, e agent.Event) error {
	switch e.Kind {
	case agent.EventQuestion:
		if h.asked.Add(1) > maxQuestions {
			return fmt.Errorf("%w: more than %d questions wait for a reply", ErrProtocol, maxQuestions)
		}
		h.asking.Go(func() {
			defer h.asked.Add(-1)
			answer := h.answer(questions, e)
			_ = h.conn.Reply(e.Question, answer) // the agent may have ended
		})
		return nil
	case agent.EventClientCall:
		return sent(h.conn.Result(e.Key, []agent.Part{agent.Text("the caller has no tools of its own")}, true))
	case agent.EventAnswer:
		if e.Depth == 0 && e.Message != nil {
			h.last = *e.Message
		}
	case agent.EventEnd:
		if e.Depth == 0 && e.Session == "" {
			return nil // the run ended before its session began
		}
	}
	if err := h.inv.Caller.Forward(ctx, h.inv, e); err != nil {
		return err
	}
	if e.Kind == agent.EventSession && e.Depth == 0 {
		h.slug = e.Agent
	}
	if e.Kind == agent.EventCallStarted && ctx.Err() == nil { // nothing is kept once the run ends
		return sent(h.conn.Ack(e.Seq))
	}
	return nil
}

// answer returns the answer to a question; nil if there is none.
func (h *holding) answer(ctx context.Context, e agent.Event) json.RawMessage {
	if e.What == "model" {
		return h.inv.Caller.Model(ctx, h.inv, e, func(ctx context.Context, d agent.Delta) { h.conn.Delta(ctx, e.Question, d) })
	}
	answer, err := h.inv.Caller.Question(ctx, h.inv, e)
	if err != nil {
		return nil
	}
	return answer
}

// sent returns err if the agent does not read its input, and nil otherwise: other errors
// mean that it has ended, and its last events are still read.
func sent(err error) error {
	if errors.Is(err, ErrProtocol) {
		return err
	}
	return nil
}

// result returns what the caller's model reads.
func (h *holding) result(e agent.Event) (agent.Result, error) {
	out := &agent.Outcome{Status: e.Status, Agent: h.slug, Answer: e.Text, Message: h.last, Reason: e.Error}
	if len(out.Message.Parts) == 0 && e.Text != "" {
		out.Message.Parts = []agent.Part{agent.Text(e.Text)}
	}
	if e.Status == agent.StatusOK || e.Status == agent.StatusPartial {
		return agent.AnswerOf(out, nil)
	}
	return agent.AnswerOf(out, &agent.EndError{Status: e.Status, Text: e.Error})
}
