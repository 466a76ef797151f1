package chat

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/cmd/agents/internal/runs"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/terminal/input"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/agents-exe/agents/pkg/terminal/view"
)

// Plain holds a conversation without control sequences until the end of standard input: a
// line is a message, and the next is read when the answer is there. The error is that of the
// last run.
func Plain(ctx context.Context, p *program.Env, f runs.Flags) error {
	c := &chat{p: p, Flags: f, out: p.Out, person: ask.NewPerson(p)}
	if err := c.open(ctx); err != nil {
		return err
	}
	defer c.close()
	answer := c.stoppable(ctx)
	defer c.p.Interrupt.Store(nil)
	if c.unfinished() {
		c.p.Note("the last run did not end; it continues")
		_ = c.report(answer(agent.Message{})) // c.last is the same
	}
	in := bufio.NewReader(c.p.In)
	for {
		if c.p.InTerm && c.p.ErrTerm {
			fmt.Fprint(c.p.Err, "> ")
		}
		text, err := program.Await(ctx, func() (string, error) { return readMessage(in) })
		if err != nil && c.p.InTerm && c.p.ErrTerm {
			fmt.Fprintln(c.p.Err)
		}
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return failure.NotRead(ctx, "read standard input", err)
		case strings.TrimSpace(text) != "":
			leave, err := c.line(ctx, text, answer)
			if err != nil {
				c.last = c.report(err)
			}
			if leave {
				return failure.Silent(c.last)
			}
		}
		if err != nil {
			return failure.Silent(c.last)
		}
		if failure.BrokenPipe(c.last) {
			return c.last
		}
	}
}

// stoppable returns what answers a message. A SIGINT during the run stops it, and a second
// one ends the program at once.
func (c *chat) stoppable(ctx context.Context) (answer func(agent.Message) error) {
	var current atomic.Pointer[run]
	var stopping atomic.Bool
	interrupt := func() bool {
		r := current.Load()
		if r == nil {
			return false
		}
		if stopping.Swap(true) {
			process.EndAll()
			os.Exit(failure.ExitInterrupted)
		}
		r.Cancel("a person stopped it")
		return true
	}
	c.p.Interrupt.Store(&interrupt)
	return func(m agent.Message) error {
		r, err := c.start(ctx, m, host.Options{})
		if err != nil {
			return err
		}
		stopping.Store(false)
		current.Store(r)
		defer current.Store(nil)
		return c.hold(ctx, r)
	}
}

// readMessage reads a line, and those after it while they end in a backslash. With
// io.EOF there may be a text.
func readMessage(in *bufio.Reader) (string, error) {
	text := ""
	for {
		line, err := in.ReadString('\n')
		text += strings.ToValidUTF8(strings.TrimRight(line, "\r\n"), "\uFFFD")
		if err != nil || !strings.HasSuffix(text, `\`) {
			return text, err
		}
		text = strings.TrimSuffix(text, `\`) + "\n"
	}
}

// line does what a line says. Only a person's line names files and commands of the shell:
// what comes through a pipe may be somebody else's text.
func (c *chat) line(ctx context.Context, text string, answer func(agent.Message) error) (leave bool, err error) {
	if answer := c.answer; answer != nil {
		c.answer = nil
		shown, err := answer(ctx, text)
		if shown != "" {
			c.say("%s", shown)
		}
		return false, err
	}
	if name, rest, ok := input.Slash(text); ok {
		if name == "quit" && rest == "" {
			return true, nil
		}
		shown, err := c.command(ctx, name, rest)
		if err == nil {
			c.say("%s", shown)
		}
		return false, err
	}
	if !c.p.InTerm {
		return false, answer(agent.UserText(text))
	}
	if line, ok := strings.CutPrefix(text, "!"); ok {
		output, note, err := input.Shell(ctx, line, c.out)
		if err == nil {
			c.outputs = append(c.outputs, output)
		}
		if note != "" {
			c.say("\n%s", note)
		}
		return false, err
	}
	m, err := input.Message(text, c.outputs)
	if err != nil {
		return false, err
	}
	c.outputs = nil
	return false, answer(m)
}

// report writes an error of a run or a command.
func (c *chat) report(err error) error {
	if err != nil && !failure.BrokenPipe(err) {
		fmt.Fprintf(c.p.Err, "error: %s\n", termtext.Clean(err.Error()))
	}
	return err
}

// undrawn reports a panic in code that shows a run; the run continues.
func (c *chat) undrawn(text string) {
	c.p.Warn("the run continues, but is not shown in full: " + c.logs.Hide(text))
}

// An asking is a question of a run that a person is asked while the run continues: it may end
// before there is an answer.
type asking struct {
	question agent.Event
	cancel   context.CancelFunc
	done     chan struct{}
	held     []agent.Event // what happened meanwhile
}

func (r *run) ask(ctx context.Context, q agent.Event) *asking {
	ctx, cancel := context.WithCancel(ctx)
	a := &asking{question: q, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(a.done)
		r.reply(ctx, q)
	}()
	return a
}

// over reports whether the question is answered, or e shows that nobody waits for the answer any
// more.
func (a *asking) over(e *agent.Event) bool {
	select {
	case <-a.done:
		return true
	default:
	}
	ended := e.Kind == agent.EventCallEnded && e.Session == a.question.Session && e.Key == a.question.Key
	return ended || e.Kind == agent.EventQuestion || e.Kind == agent.EventEnd && e.Depth == 0
}

// end withdraws the question, if it is not answered, and then draws what happened meanwhile.
func (a *asking) end(draw func(agent.Event)) {
	a.cancel()
	<-a.done
	for _, e := range a.held {
		draw(e)
	}
}

// hold shows a run until it ends: progress on stderr, the answer on stdout.
func (c *chat) hold(ctx context.Context, r *run) error {
	progress := &view.Text{W: c.p.Err, Quiet: c.p.Global.Quiet, ASCII: c.p.ASCII(), Asks: c.asks}
	draw := observe.GuardedTee(c.undrawn, progress.Observe)
	var a *asking
	for e := range r.Events() {
		if a != nil && a.over(&e) {
			a.end(draw)
			a = nil
		}
		switch {
		case e.Kind == agent.EventQuestion:
			a = r.ask(ctx, e)
		case a != nil:
			a.held = append(a.held, e)
		default:
			draw(e)
		}
	}
	if a != nil {
		a.end(draw)
	}
	out, err := c.finish(r)
	progress.Close()
	if answer := c.logs.Hide(out.Answer); answer != "" && (err == nil || out.Status == agent.StatusPartial) {
		if printErr := c.p.Print(strings.TrimSuffix(answer, "\n") + "\n"); printErr != nil {
			r.cancel(printErr)
			return printErr
		}
	}
	progress.Footer(out, false)
	return err
}
