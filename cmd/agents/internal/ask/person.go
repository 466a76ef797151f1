package ask

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/form"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/filelock"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/source/mcpclient"
)

// A Person is the person at a terminal who answers the questions of a run and its MCP
// servers. One question is shown at a time, and none while a tool uses the terminal.
type Person struct {
	p    *program.Env
	path string                                 // of the terminal
	ours bool                                   // this process was started at it
	at   func(context.Context) (Console, error) // opens the terminal for a question
	turn chan struct{}
	far  func(ctx context.Context, q agent.Event, scopes []string) (scope, reason string, err error) // asks in place of a terminal

	mu   sync.Mutex
	hold func() (release func()) // pauses the progress on the terminal; nil if there is none
}

// NewPerson returns nil if there is no terminal. A process that a tool started uses the
// terminal of the agents above only if that tool holds the lock of the terminal.
func NewPerson(p *program.Env) *Person {
	h := &Person{p: p, turn: make(chan struct{}, 1)}
	switch {
	case p.InTerm && p.ErrTerm:
		h.path, h.ours = cmp.Or(program.TerminalName(os.Stdin), "/dev/tty"), true
	case p.Getenv(program.EnvTerminal) != "" && (filelock.Set{Held: toolenv.HeldLocks(p.Environ)}).Holds(program.LockTerminal):
		h.path = p.Getenv(program.EnvTerminal)
	default:
		return nil
	}
	h.at = h.open
	return h
}

// At returns the person whom another part of the program asks. open is called for each
// question; what it returns must end with the context.
func At(p *program.Env, open func(context.Context) (Console, error)) *Person {
	return &Person{p: p, at: open, turn: make(chan struct{}, 1)}
}

// Through returns the person whom approve asks whether calls may run, and nothing else. scopes are
// the answers that are offered, "yes" and "no" included; it returns one of them, and a reason for
// the model.
func Through(approve func(ctx context.Context, q agent.Event, scopes []string) (scope, reason string, err error)) *Person {
	return &Person{far: approve}
}

// A Console shows one question and reads its answers.
type Console interface {
	io.WriteCloser
	// Line asks for a line. The error is io.EOF if the person wants to give none.
	Line(prompt string) (string, error)
}

// Asked returns the function that asks for an MCP server; nil if there is no terminal.
func (h *Person) Asked() func(context.Context, mcpclient.Elicitation) (mcpclient.Answer, error) {
	if h == nil {
		return nil
	}
	return h.elicit
}

// Holds sets the function that pauses the progress while a question is shown.
func (h *Person) Holds(hold func() (release func())) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hold = hold
}

// elicit asks the person what a server wants to know. If the terminal is not
// available, the question is declined.
func (h *Person) elicit(ctx context.Context, q mcpclient.Elicitation) (mcpclient.Answer, error) {
	answer := mcpclient.Answer{Action: mcpclient.Decline}
	err := h.use(ctx, func(c Console) error {
		got, err := (&form.Dialog{Out: c, Line: c.Line}).Ask(q)
		if err == nil {
			answer = got
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		return answer, context.Cause(ctx)
	case errors.Is(err, io.EOF):
		return mcpclient.Answer{Action: mcpclient.Cancel}, nil
	case errors.Is(err, errNoTerminal):
		return answer, nil
	}
	return answer, err
}

// errNoTerminal: the terminal cannot be used now.
var errNoTerminal = errors.New("the terminal is not available")

// use opens the terminal for one question. Others wait until ask returns.
func (h *Person) use(ctx context.Context, ask func(Console) error) error {
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	_, release, err := filelock.Set{Dir: h.p.LockDir(), Held: toolenv.HeldLocks(h.p.Environ)}.Acquire(ctx, program.LockTerminal)
	if err != nil {
		return err
	}
	defer release()
	c, err := h.at(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoTerminal, err)
	}
	defer c.Close()
	h.mu.Lock()
	hold := h.hold
	h.mu.Unlock()
	if hold != nil {
		defer hold()()
	}
	err = ask(c)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(c, "\n(the question was withdrawn)\n")
	case errors.Is(err, io.EOF):
		fmt.Fprintln(c)
	}
	return err
}

// A console is a terminal that is open for one question.
type console struct {
	*os.File
	in   *bufio.Reader
	stop func() bool
}

// open opens the terminal until ctx ends. It drops what was typed before the question.
func (h *Person) open(ctx context.Context) (Console, error) {
	f, err := os.OpenFile(h.path, os.O_RDWR|notControlling, 0)
	if err != nil {
		return nil, err
	}
	if h.ours && background(f) {
		f.Close()
		return nil, errors.New("another program has the terminal")
	}
	old := make([]byte, 4096)
	for err == nil {
		if err = f.SetReadDeadline(time.Now().Add(5 * time.Millisecond)); err == nil {
			_, err = f.Read(old)
		}
	}
	if err := f.SetReadDeadline(time.Time{}); err != nil {
		f.Close()
		return nil, err // a read from it would not end with ctx
	}
	c := &console{File: f, in: bufio.NewReader(f)}
	c.stop = context.AfterFunc(ctx, func() { f.SetReadDeadline(time.Unix(1, 0)) })
	return c, nil
}

func (c *console) Line(prompt string) (string, error) {
	if _, err := io.WriteString(c, prompt); err != nil {
		return "", err
	}
	text, err := c.in.ReadString('\n')
	return strings.TrimSpace(text), err
}

func (c *console) Close() error {
	c.stop()
	return c.File.Close()
}
