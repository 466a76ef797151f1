package ask

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/agents-exe/agents/cmd/agents/internal/form"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/filelock"
	"github.com/agents-exe/agents/pkg/leaf/toolenv"
	"github.com/agents-exe/agents/pkg/source/mcpclient"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// A Person is the person at a terminal who answers the questions of a run and its MCP
// servers. One question is shown at a time, and none while a tool uses the terminal.
type Person struct {
	p    *program.Env
	path string // of the terminal
	ours bool   // this process was started at it
	turn chan struct{}
	far  func(ctx context.Context, q agent.Event, scopes []string) (scope, reason string, err error) // asks in place of a terminal

	mu   sync.Mutex
	hold func() (release func()) // pauses the progress on the terminal; nil if there is none
}

// NewPerson returns nil if there is no terminal. A process that a tool started uses the
// terminal of the agents above only if that tool holds the lock of the terminal.
func NewPerson(p *program.Env) *Person {
	h := &Person{p: p, turn: make(chan struct{}, 1)}
	above := p.Getenv(toolenv.Terminal)
	h.path = p.Terminal()
	switch {
	case h.path != "":
		h.ours = true
	case above != "" && (filelock.Set{Held: toolenv.HeldLocks(p.Environ)}).Holds(toolenv.LockOf(toolenv.TerminalLock, above)):
		h.path = above
	default:
		return nil
	}
	return h
}

// Through returns the person whom approve asks whether calls may run, and nothing else. scopes are
// the answers that are offered, "yes" and "no" included; it returns one of them, and a reason for
// the model.
func Through(approve func(ctx context.Context, q agent.Event, scopes []string) (scope, reason string, err error)) *Person {
	return &Person{far: approve}
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
	err := h.use(ctx, func(c *console) error {
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
func (h *Person) use(ctx context.Context, ask func(*console) error) error {
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	locks := filelock.Set{Dir: h.p.LockDir(), Held: toolenv.HeldLocks(h.p.Environ), Waits: h.waits,
		Holder: fmt.Sprintf("%s, process %d, at %s", filepath.Base(os.Args[0]), os.Getpid(), cmp.Or(h.path, "a terminal"))}
	_, release, err := locks.Acquire(ctx, toolenv.LockOf(toolenv.TerminalLock, h.path))
	if err != nil {
		return err
	}
	defer release()
	c, err := h.open(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoTerminal, err)
	}
	defer c.Close()
	defer h.pause()()
	err = ask(c)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(c, "\n(the question was withdrawn)\n")
	case errors.Is(err, io.EOF):
		fmt.Fprintln(c)
	}
	return err
}

// pause stops the progress on the terminal until resume is called.
func (h *Person) pause() (resume func()) {
	h.mu.Lock()
	hold := h.hold
	h.mu.Unlock()
	if hold == nil {
		return func() {}
	}
	return hold()
}

// waits tells the person that a question is not shown yet, and why.
func (h *Person) waits(_, holder string) {
	defer h.pause()()
	fmt.Fprintf(h.p.Err, "note: a question waits for the terminal, which is used by %s\n", visible(cmp.Or(holder, "another program")))
}

// A console is a terminal that is open for one question.
type console struct {
	*os.File
	in   *bufio.Reader
	ctx  context.Context // of the question
	stop func() bool
}

// open opens the terminal until ctx ends. It drops what was typed before the question.
func (h *Person) open(ctx context.Context) (*console, error) {
	f, err := os.OpenFile(h.path, os.O_RDWR|notControlling, 0)
	if err != nil && h.ours { // after su, the terminal still belongs to the other user
		f, err = os.OpenFile("/dev/tty", os.O_RDWR, 0)
	}
	if err != nil {
		return nil, err
	}
	if h.ours && background(f) {
		f.Close()
		return nil, errors.New("another program has the terminal")
	}
	c := &console{File: f, in: bufio.NewReader(f), ctx: ctx}
	if err := c.drop(5 * time.Millisecond); err != nil {
		f.Close()
		return nil, err // a read from it would not end with ctx
	}
	c.stop = context.AfterFunc(ctx, func() { f.SetReadDeadline(time.Unix(1, 0)) })
	return c, nil
}

// drop discards what is typed until nothing came for a time.
func (c *console) drop(quiet time.Duration) error {
	c.in.Reset(c.File)
	old := make([]byte, 4096)
	for err := error(nil); err == nil; {
		if err = c.within(quiet); err == nil {
			_, err = c.Read(old)
		}
	}
	return c.within(0)
}

// within limits the next read to a time; 0 is no limit but that of the context.
func (c *console) within(d time.Duration) error {
	end := time.Time{}
	if d > 0 {
		end = time.Now().Add(d)
	}
	err := c.SetReadDeadline(end)
	if c.ctx.Err() != nil { // the end of the context may have come before
		err = cmp.Or(err, c.SetReadDeadline(time.Unix(1, 0)))
	}
	return err
}

// Line asks for a line. The error is io.EOF if the person wants to give none.
func (c *console) Line(prompt string) (string, error) {
	if _, err := io.WriteString(c, prompt); err != nil {
		return "", err
	}
	text, err := c.in.ReadString('\n')
	return strings.TrimSpace(text), err
}

// unhurried is how long no key must have been pressed before a prompt for a key is shown: what
// somebody is typing to something else is not an answer. together is the longest time between
// two keys of one answer.
const unhurried, together = 300 * time.Millisecond, 150 * time.Millisecond

// Key asks for a key, or for a line whose keys come quickly or end with Enter.
func (c *console) Key(prompt string) (string, error) {
	restore, err := c.typing()
	if err != nil {
		return c.Line(prompt)
	}
	defer restore()
	if err := c.drop(unhurried); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, prompt); err != nil {
		return "", err
	}
	var line []byte
	for {
		b, err := c.in.ReadByte()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && len(line) > 0 && c.ctx.Err() == nil:
			fmt.Fprintln(c)
			return strings.TrimSpace(string(line)), c.within(0)
		case err != nil:
			return "", err
		case b == '\n':
			fmt.Fprintln(c)
			return strings.TrimSpace(string(line)), c.within(0)
		case b == 4: // Ctrl-D
			return "", io.EOF
		case b == 0x7f || b == '\b':
			r, n := utf8.DecodeLastRune(line)
			line = line[:len(line)-n]
			io.WriteString(c, strings.Repeat("\b \b", min(n, termtext.Cell(r))))
		case b >= ' ':
			line = append(line, b)
			c.Write([]byte{b})
		}
		limit := together
		if len(line) == 0 {
			limit = 0
		}
		if err := c.within(limit); err != nil {
			return "", err
		}
	}
}

// typing makes the terminal send each key. File.Fd would end the limits of reads.
func (c *console) typing() (restore func(), err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	control := func(do func(fd int)) error { return raw.Control(func(fd uintptr) { do(int(fd)) }) }
	var back func()
	if failed := control(func(fd int) { back, err = program.KeyTyping(fd) }); failed != nil || err != nil {
		return nil, cmp.Or(failed, err)
	}
	return func() { _ = control(func(int) { back() }) }, nil
}

func (c *console) Close() error {
	c.stop()
	return c.File.Close()
}
