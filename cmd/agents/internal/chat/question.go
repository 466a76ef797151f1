package chat

import (
	"context"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// question answers a question of the run. It is withdrawn when its call ends, for
// example because its time has passed, and with the next question: a run asks one at a
// time.
func (t *terminal) question(ctx context.Context, q agent.Event) {
	ctx, cancel := context.WithCancel(ctx)
	for _, before := range t.open {
		before()
	}
	t.open = map[string]context.CancelFunc{q.Key: cancel}
	switch r := t.run.(type) {
	case *run:
		go r.reply(ctx, q)
	case *attached:
		go r.reply(ctx, ask.NewApprover(t.p, t.person, false, nil), q)
	}
}

// withdraw withdraws the question of a call that has ended, or all at the end of the run.
func (t *terminal) withdraw(e agent.Event) {
	for key, cancel := range t.open {
		if e.Kind == agent.EventCallEnded && e.Key == key || e.Kind == agent.EventEnd && e.Depth == 0 {
			cancel()
			delete(t.open, key)
		}
	}
}

// A lineRequest is a question for one line.
type lineRequest struct {
	ctx    context.Context
	prompt string
	reply  chan lineReply
}

type lineReply struct {
	line string
	err  error
}

// answer ends the question that is shown.
func (t *terminal) answer(r lineReply) {
	t.asked.reply <- r
	t.asked = nil
	t.back()
}

// A console shows the questions of the run.
type console struct {
	*terminal
	ctx context.Context
}

func (c console) Write(b []byte) (int, error) { return c.screen.Write(b) }

func (c console) Line(prompt string) (string, error) {
	// What stands in front of the last line is not edited, nor what is too long for one.
	if i := strings.LastIndexByte(prompt, '\n') + 1; i > 0 {
		fmt.Fprint(c.screen, termtext.Clean(prompt[:i]))
		prompt = prompt[i:]
	}
	if columns, _ := size(); termtext.Width(prompt) > columns*2/3 {
		fmt.Fprint(c.screen, wrap(termtext.Clean(prompt), columns-1, 2))
		prompt = "> "
	}
	q := lineRequest{ctx: c.ctx, prompt: prompt, reply: make(chan lineReply, 1)}
	select {
	case c.lines <- q:
	case <-c.ctx.Done():
		return "", context.Cause(c.ctx)
	}
	r := <-q.reply
	return r.line, r.err
}

func (console) Close() error { return nil }
