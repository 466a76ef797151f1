package acpclient

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

	"github.com/agents-exe/agents/pkg/acp"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/process"
)

// Limits of what a program may send during a call.
const (
	maxBytes = 256 << 20
	maxText  = 1 << 20 // text since the last answer of Generate
	maxCalls = 2_000
	maxBad   = 100 // lines that are not messages

	maxStderr = 2 << 10 // the end of it, for an error
)

// A talk is the conversation of one call with a program. It is the Provider of the
// sub-agent.
type talk struct {
	agent   *Agent
	inv     *agent.Invocation
	proc    *process.Process
	conn    *acp.Conn
	serving sync.WaitGroup
	stderr  bounded
	waits   atomic.Int32 // requests that wait for the end of a terminal
	session string
	said    int    // messages of the conversation that the program was sent
	lent    string // where the lent models are; "" if there are none
	lentEnv []string

	mu        sync.Mutex
	changed   chan struct{} // closed when something below changes
	err       error         // why the talk is over
	idle      *time.Timer   // since the last message
	limit     time.Duration
	badLine   int
	bytes     int             // that the program has sent
	text      strings.Builder // since the last answer of Generate
	thought   strings.Builder
	whole     string           // the text of the prompt in progress before that
	calls     map[string]*call // by their id in the protocol
	asked     []*request       // that have not become calls, or whose calls have not started
	grants    map[string]int   // how many requests are covered by permissions, by kind and file or command
	asks      int
	terminals map[string]*terminal // that are not released, by the id of their call
	turn      *acp.PromptResponse  // the answer to the prompt in progress; nil until it comes
	running   bool                 // a prompt is in progress

	usd      *agent.Money // what the run had left when the call began; nil is not limited
	cost     agent.Money  // as the program reports it
	priced   bool
	counted  agent.Usage // what Generate has returned; Requests are those without a price
	consumed agent.Usage
}

// A call is an action of the program.
type call struct {
	acp.Call
	output string
}

func (c *call) over() bool { return c.Status == acp.Completed || c.Status == acp.Failed }

func newTalk(a *Agent, inv *agent.Invocation) *talk {
	lease := inv.Caller.Lease(context.Background(), inv)
	t := &talk{agent: a, inv: inv, usd: lease.USD, changed: make(chan struct{}), calls: map[string]*call{},
		terminals: map[string]*terminal{}, grants: map[string]int{}, stderr: bounded{limit: maxStderr}}
	t.limit = cmp.Or(a.IdleTimeout, DefaultIdleTimeout)
	t.mu.Lock() // until idle is set, which the function uses
	defer t.mu.Unlock()
	t.idle = time.AfterFunc(t.limit, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		switch {
		case t.err != nil:
		case len(t.asked) > 0 || !t.running || t.waits.Load() > 0:
			t.idle.Reset(t.limit)
		default:
			t.end(fmt.Errorf("it sent nothing for %s", t.limit))
		}
	})
	return t
}

// change wakes all waiters. t.mu is held.
func (t *talk) change() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// fail ends the talk. The first error counts.
func (t *talk) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end(err)
}

// end is fail with t.mu held.
func (t *talk) end(err error) {
	if t.err == nil {
		t.err = err
		t.idle.Stop()
	}
	t.change()
}

// seen counts what the program sends, and restarts the idle time limit.
func (t *talk) seen(n int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bytes += n; t.bytes > maxBytes {
		return fmt.Errorf("it sent more than %d bytes", maxBytes)
	}
	if t.err == nil {
		t.idle.Reset(t.limit)
	}
	return t.err
}

// bad ignores a line that is not a message, as some programs log on standard output.
func (t *talk) bad(err error) error {
	if t.badLine++; t.badLine > maxBad {
		return fmt.Errorf("more than %d lines of its output are not messages: %w", maxBad, err)
	}
	return nil
}

// Generate implements agent.Provider: it answers with the calls for which the program wants
// permission, or with what it has said when it has answered all messages.
func (t *talk) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	r, err := t.generate(ctx, req, delta)
	if err != nil && ctx.Err() == nil {
		t.fail(err)
		if errors.Is(err, errEnded) { // then its stderr is complete
			select {
			case <-t.proc.Done():
			case <-time.After(flushWait):
			}
		}
		said, _ := t.stderr.text()
		if said = strings.TrimSpace(said); said != "" {
			err = fmt.Errorf("%w; its stderr ends with:\n%s", err, said)
		}
		err = fmt.Errorf("the agent %s: %w", t.agent.Command.Path, err)
	}
	if r != nil && t.lent == "" {
		r.Usage = r.Usage.OrEstimate(req, &r.Message)
	}
	if err == nil {
		return r, nil
	}
	failed := &agent.ModelError{Message: err.Error(), Err: err}
	switch {
	case r != nil:
		failed.Usage = r.Usage
	case t.said > 0 && t.lent == "": // it was asked, and reports what that cost with its answer, if at all
		t.mu.Lock()
		defer t.mu.Unlock()
		failed.Usage = t.usage().OrEstimate(req, nil)
	}
	return nil, failed
}

func (t *talk) generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	if t.proc == nil {
		if err := t.start(ctx); err != nil {
			return nil, err
		}
	}
	t.refuse(req.Messages[len(req.Messages)-1].Results)
	shown := [2]int{}
	for {
		t.mu.Lock()
		changed, err, text, thought := t.changed, t.err, t.text.String(), t.thought.String()
		asking := t.asking()
		idle, turn := !t.running, t.turn
		t.mu.Unlock()
		for i, piece := range [...]agent.Delta{{Kind: agent.DeltaText, Text: text[shown[0]:]}, {Kind: agent.DeltaReasoning, Text: thought[shown[1]:]}} {
			if shown[i] += len(piece.Text); piece.Text != "" {
				delta(piece)
			}
		}
		switch {
		case asking:
			return t.answer(), nil
		case err != nil:
			return nil, err
		case turn != nil && t.said == len(req.Messages):
			return t.answer(), stopped(turn)
		case idle || turn != nil:
			t.prompt(req)
		default:
			select {
			case <-changed:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
}

// stopped is the error of a turn that did not end with an answer.
func stopped(turn *acp.PromptResponse) error {
	switch turn.StopReason {
	case acp.EndTurn, acp.MaxTokens:
		return nil
	case acp.MaxTurnRequests:
		return &agent.EndError{Status: agent.StatusLimit, Text: "it reached its limit of requests"}
	case acp.Refusal:
		return &agent.EndError{Status: agent.StatusRefused, Text: "it refused to answer"}
	}
	return fmt.Errorf("it stopped with the reason %.100q", turn.StopReason)
}

// prompt sends the messages of the user that the program does not have.
func (t *talk) prompt(req *agent.Request) {
	p := acp.PromptRequest{SessionID: t.session}
	for _, m := range req.Messages[t.said:] {
		if m.Role == agent.RoleUser {
			p.Prompt = append(p.Prompt, *acp.TextBlock(m.Text()))
		}
	}
	t.said = len(req.Messages)
	t.mu.Lock()
	if len(p.Prompt) == 0 && t.turn != nil { // only results, which it knows
		t.mu.Unlock()
		return
	}
	t.turn, t.running = nil, true
	t.idle.Reset(t.limit)
	t.mu.Unlock()
	t.serving.Go(func() {
		var r acp.PromptResponse
		err := t.conn.Call(context.Background(), acp.MethodPrompt, p, &r)
		if err != nil {
			if !errors.Is(err, acp.ErrClosed) { // of which Serve says more
				t.fail(err)
			}
			return
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.turn, t.running = &r, false
		if u := r.Usage; u != nil {
			t.consumed.InputTokens, t.consumed.OutputTokens = max(u.Input, t.consumed.InputTokens), max(u.Output, t.consumed.OutputTokens)
			t.consumed.CachedTokens, t.consumed.ReasoningTokens = max(u.CacheRead, t.consumed.CachedTokens), max(u.Thought, t.consumed.ReasoningTokens)
		}
		t.change()
	})
}

// asking reports whether a request has not become a call. t.mu is held.
func (t *talk) asking() bool {
	return slices.ContainsFunc(t.asked, func(r *request) bool { return !r.toModel })
}

// answer returns what the program has said and requested since the last answer.
func (t *talk) answer() *agent.Response {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &agent.Response{Message: agent.Message{Role: agent.RoleAssistant}, Finish: agent.FinishStop, Usage: t.usage()}
	for _, asked := range t.asked {
		if !asked.toModel {
			asked.toModel = true
			r.Message.Calls = append(r.Message.Calls, agent.ToolCall{ID: asked.id, Name: asked.kind, Args: asked.args})
		}
	}
	text := t.text.String()
	t.whole += text
	if len(r.Message.Calls) == 0 {
		if t.turn.StopReason == acp.MaxTokens {
			r.Finish = agent.FinishLength
		}
		if strings.TrimSpace(text) == "" { // it said all of it before its last call
			text = t.whole
		}
		t.whole = ""
	}
	for _, p := range [...]agent.Part{{Kind: agent.PartReasoning, Text: t.thought.String()}, agent.Text(text)} {
		if p.Text != "" {
			r.Message.Parts = append(r.Message.Parts, p)
		}
	}
	t.text.Reset()
	t.thought.Reset()
	return r
}

// usage is what was consumed since the last answer. t.mu is held.
func (t *talk) usage() agent.Usage {
	if t.lent != "" {
		return agent.Usage{Requests: 1, Priced: 1}
	}
	u := agent.Usage{Requests: 1, InputTokens: t.consumed.InputTokens - t.counted.InputTokens, OutputTokens: t.consumed.OutputTokens - t.counted.OutputTokens,
		CachedTokens: t.consumed.CachedTokens - t.counted.CachedTokens, ReasoningTokens: t.consumed.ReasoningTokens - t.counted.ReasoningTokens}
	unpriced := t.counted.Requests + 1
	if t.priced { // the cost is that of all requests so far
		u.Cost, u.Priced, unpriced = t.cost-t.counted.Cost, unpriced, 0
	}
	t.counted = t.consumed
	t.counted.Cost, t.counted.Requests = t.cost, unpriced
	return u
}
