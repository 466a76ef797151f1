package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/ask"
	"github.com/agents-exe/agents/cmd/agents/internal/edit"
	"github.com/agents-exe/agents/cmd/agents/internal/failure"
	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/host"
	"github.com/agents-exe/agents/pkg/observe"
	"github.com/agents-exe/agents/pkg/process"
	"github.com/agents-exe/agents/pkg/runner"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// tickEvery is how often the elapsed times are redrawn.
const tickEvery = 200 * time.Millisecond

// A terminal is a chat at a terminal. One goroutine runs it; others reach it through its
// channels and the Screen.
type terminal struct {
	*chat
	tty    *edit.Terminal
	screen *edit.Screen
	editor *edit.Editor
	show   *show

	run      held                          // in progress; nil if there is none
	events   chan agent.Event              // of the run; closed at its end
	display  func(agent.Event)             // shows an event of the run
	stopping bool                          // the person stopped what is in progress
	leaving  bool                          // the next Ctrl-C leaves
	queued   []agent.Message               // said during the run, and not taken up yet
	sent     []string                      // what was typed for them
	job      *job                          // a command of the shell
	lines    chan lineRequest              // questions for a line
	asked    *lineRequest                  // that which is shown
	open     map[string]context.CancelFunc // withdraw the questions of calls, by key
	back     func()                        // puts back what was edited before it
	lent     string                        // the key of the call that uses the terminal
	places   []place                       // the runs of servers that were listed
	quit     bool
}

// held is what the chat holds: a run of this process or of a server.
type held interface {
	Input(agent.Message)
	Cancel(reason string)
}

// A job is a command of the shell in progress.
type job struct {
	cancel context.CancelFunc
	done   chan error
}

// interactive holds the conversation at a terminal with a line editor.
func (c *chat) interactive(ctx context.Context) error {
	in, ok := c.p.In.(*os.File)
	if !ok {
		return c.plain(ctx)
	}
	t := &terminal{chat: c, lines: make(chan lineRequest), editor: &edit.Editor{Prompt: "> "}}
	c.person = ask.At(c.p, func(ctx context.Context) (ask.Console, error) { return console{t, ctx}, nil })
	if err := c.open(ctx); err != nil {
		return err
	}
	defer c.close()
	var err error
	if t.tty, err = edit.Open(in); err != nil {
		return failure.NothingRan(fmt.Errorf("edit at this terminal: %w", err), "--plain reads lines")
	}
	defer t.tty.Close()
	t.screen = &edit.Screen{W: c.p.Out, Size: size}
	errs := c.p.Err
	c.out, c.p.Err = t.screen, t.screen
	defer func() { c.out, c.p.Err = c.p.Out, errs }()
	ignore := func() bool { return true } // while another program has the terminal
	c.p.Interrupt.Store(&ignore)
	defer c.p.Interrupt.Store(nil)
	t.show = &show{w: t.screen, color: c.p.Color(true), ascii: c.p.ASCII()}
	t.history()
	t.editor.Complete = t.complete
	t.greet()
	err = t.loop(ctx)
	t.screen.Hide()
	t.tty.Close()
	if id := c.id(); id != "" {
		fmt.Fprintf(c.p.Out, "`agents cli --session %s` continues this conversation\n", id)
	}
	return err
}

// size is the size of the terminal, with a default where it is not known.
func size() (columns, rows int) {
	columns, rows = program.Size()
	if columns <= 0 || rows <= 0 {
		return 80, 24
	}
	return columns, rows
}

// history opens the history of what was typed.
func (t *terminal) history() {
	path := ""
	if dir := t.p.StateDir(); dir != "" {
		path = filepath.Join(dir, "chat-history")
	}
	var err error
	if t.editor.History, err = edit.OpenHistory(path); err != nil {
		t.p.Warn(fmt.Sprintf("the history of what you type is not saved: %v", err))
	}
}

// greet says with whom the person talks, and finishes a run that a crash left.
func (t *terminal) greet() {
	root := t.tree.Root
	name := root.Slug
	if root.Model != "" {
		name += " (" + root.Model + ")"
	}
	t.say("%s · /help lists the commands, Ctrl-D leaves", name)
	if t.path != "" {
		t.say("session %s", t.id())
	}
}

// loop runs until the person leaves.
func (t *terminal) loop(ctx context.Context) error {
	if t.unfinished() {
		t.say("the last run did not end; it continues")
		t.begin(ctx, agent.Message{})
	}
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for !t.quit {
		t.draw()
		jobDone, lines, withdrawn := t.waits()
		select {
		case <-ctx.Done():
			t.stop()
			return context.Cause(ctx)
		case b, ok := <-t.tty.Keys:
			if !ok {
				t.stop()
				return nil
			}
			t.keys(ctx, b)
		case e, ok := <-t.events:
			t.event(ctx, e, ok)
		case err := <-jobDone:
			t.job, t.stopping = nil, false
			if err != nil && !errors.Is(err, context.Canceled) {
				t.say("error: %v", err)
			}
		case q := <-lines:
			t.asked = &q
			t.back = t.editor.Swap(termtext.Clean(q.prompt))
		case <-withdrawn:
			t.answer(lineReply{err: context.Cause(t.asked.ctx)})
		case <-t.tty.Resized:
		case <-ticker.C:
		}
	}
	t.stop()
	return nil
}

// waits are the channels that depend on what is going on: a command of the shell, and
// questions, which are shown one after the other.
func (t *terminal) waits() (jobDone <-chan error, lines <-chan lineRequest, withdrawn <-chan struct{}) {
	if t.job != nil {
		jobDone = t.job.done
	}
	if t.asked != nil {
		return jobDone, nil, t.asked.ctx.Done()
	}
	return jobDone, t.lines, nil
}

// draw shows what is going on, and the line that is edited.
func (t *terminal) draw() {
	if t.lent != "" {
		return
	}
	columns, rows := size()
	var lines []string
	if t.run != nil && t.asked == nil {
		lines = t.show.live(columns-1, max(rows/3, 2))
	}
	for _, text := range t.sent {
		lines = append(lines, t.show.dim(termtext.Line("queued: "+text, columns-1, "…")))
	}
	input, row, column := t.editor.Lines(columns, max(rows-len(lines)-1, 3))
	t.screen.Draw(append(lines, input...), len(lines)+row, column)
}

// keys processes what was typed.
func (t *terminal) keys(ctx context.Context, b []byte) {
	t.editor.Feed(b)
	for !t.quit {
		action, ok := t.editor.Next()
		if !ok {
			return
		}
		if action != edit.Interrupt {
			t.leaving = false
		}
		switch action {
		case edit.Submit:
			t.submit(ctx)
		case edit.Interrupt:
			t.interrupt()
		case edit.End:
			t.endOfInput()
		case edit.Suspend:
			t.screen.Hide()
			if err := t.tty.Stop(); err != nil {
				t.say("error: %v", err)
			}
			t.screen.Show()
		case edit.Redraw:
			t.screen.Clear()
		}
	}
}

// endOfInput is Ctrl-D in an empty line: it declines a question, or ends an attachment or
// the chat.
func (t *terminal) endOfInput() {
	a, ok := t.run.(*attached)
	switch {
	case t.asked != nil:
		t.answer(lineReply{err: io.EOF})
	case ok:
		t.detach(a, nil)
	default:
		t.quit = true
	}
}

// submit takes what was typed.
func (t *terminal) submit(ctx context.Context) {
	text := t.editor.Take()
	if t.asked != nil {
		fmt.Fprintln(t.out, termtext.Clean(t.asked.prompt+text))
		t.answer(lineReply{line: strings.TrimSpace(text)})
		return
	}
	if strings.TrimSpace(text) == "" {
		return
	}
	if err := t.editor.History.Add(text); err != nil {
		t.p.Warn(fmt.Sprintf("the history of what you type is not saved: %v", err))
		t.editor.History, _ = edit.OpenHistory("")
	}
	if name, rest, ok := slash(text); ok {
		t.show.prompt(text)
		if err := t.command(ctx, name, rest); err != nil {
			t.say("%v", err)
		}
		return
	}
	if line, ok := strings.CutPrefix(text, "!"); ok {
		t.shellJob(ctx, line)
		return
	}
	m, err := t.message(ctx, text)
	switch {
	case err != nil:
		t.say("error: %v", err)
		t.editor.Set(text)
	case t.job != nil:
		t.say("a command is running; Ctrl-C stops it")
		t.editor.Set(text)
	case t.run != nil:
		t.run.Input(m)
		t.queued, t.sent = append(t.queued, m), append(t.sent, text)
	default:
		t.show.prompt(text)
		t.begin(ctx, m)
	}
}

// interrupt is Ctrl-C: it withdraws a question with its run, stops what is in progress,
// clears the line, or leaves.
func (t *terminal) interrupt() {
	switch {
	case t.stopping:
		t.end()
	case t.job != nil:
		t.stopping = true
		t.job.cancel()
	case t.run != nil:
		t.stopping = true
		t.run.Cancel("a person stopped it")
		t.say("stopping; Ctrl-C again ends at once")
	case t.editor.Text() != "":
		t.editor.Take()
	case t.leaving:
		t.quit = true
	default:
		t.leaving = true
		t.say("Ctrl-C again leaves")
	}
}

// end leaves at once. The session can be continued, as after a crash.
func (t *terminal) end() {
	t.screen.Hide()
	t.tty.Close()
	process.EndAll()
	if t.path != "" || t.kept != nil {
		fmt.Fprintln(t.p.Out, "`agents cli --continue` continues this conversation")
	}
	os.Exit(failure.ExitInterrupted)
}

// stop ends what is going on, and waits for it, unless the person presses Ctrl-C.
func (t *terminal) stop() {
	if t.job != nil {
		t.job.cancel()
		<-t.job.done
	}
	if t.run == nil {
		return
	}
	if a, ok := t.run.(*attached); ok {
		t.detach(a, nil)
		return
	}
	t.run.Cancel("the chat ended")
	for keys := t.tty.Keys; t.run != nil; {
		for action, ok := t.editor.Next(); ok; action, ok = t.editor.Next() {
			if action == edit.Interrupt {
				t.end()
			}
		}
		t.draw()
		select {
		case b, ok := <-keys:
			if !ok {
				keys = nil
			}
			t.editor.Feed(b)
		case e, ok := <-t.events:
			t.event(context.Background(), e, ok)
		case q := <-t.lines:
			q.reply <- lineReply{err: io.EOF}
		}
	}
}

// begin begins a run with a message.
func (t *terminal) begin(ctx context.Context, m agent.Message) {
	r, err := t.chat.start(ctx, m, host.Options{})
	if err != nil {
		t.say("error: %v", err)
		return
	}
	events := make(chan agent.Event)
	t.run, t.events, t.stopping = r, events, false
	t.display = observe.GuardedTee(t.undrawn, t.show.event)
	go func() {
		defer close(events)
		for e := range r.Events() {
			events <- e
		}
	}()
}

// event shows an event of the run; ok is false when there are no more.
func (t *terminal) event(ctx context.Context, e agent.Event, ok bool) {
	if !ok {
		t.ended(ctx)
		return
	}
	switch {
	case e.Kind == agent.EventQuestion:
		t.question(ctx, e)
	case e.Kind == agent.EventMessage && e.Input && e.Depth == 0 && len(t.sent) > 0:
		if !t.show.all {
			t.show.prompt(t.sent[0])
		}
		t.queued, t.sent = t.queued[1:], t.sent[1:]
	case e.Kind == agent.EventWarning && e.Depth == 0 && len(t.sent) > 0 && strings.HasSuffix(e.Text, runner.TooLate):
		return // the next run has it
	case e.Kind == agent.EventCallStarted && t.lent == "" && t.asks(e.Tool) && !t.show.all:
		t.screen.Hide()
		t.tty.Pause()
		t.lent = e.Key
	}
	t.display(e)
	t.withdraw(e)
	if e.Kind == agent.EventCallEnded && t.lent != "" && e.Key == t.lent {
		t.lent = ""
		if err := t.tty.Resume(); err != nil {
			t.quit = true
		}
		t.screen.Show()
	}
}

// ended closes a run, and begins the next with what was said too late for it.
func (t *terminal) ended(ctx context.Context) {
	if a, ok := t.run.(*attached); ok {
		t.detach(a, a.err)
		return
	}
	r, ok := t.run.(*run)
	t.run, t.events = nil, nil
	stopped := t.stopping
	t.stopping = false
	if ok {
		out, err := t.finish(r)
		if stopped && out.Status == agent.StatusInterrupted {
			err = nil // the person knows
		}
		t.show.end(out, err)
	}
	if t.asked != nil {
		t.answer(lineReply{err: io.EOF})
	}
	late, texts := t.queued, t.sent
	t.queued, t.sent = nil, nil
	switch {
	case len(late) == 0:
	case stopped || t.quit:
		t.editor.Set(strings.Join(append(texts, slices.DeleteFunc([]string{t.editor.Text()}, func(s string) bool { return s == "" })...), "\n"))
	default:
		m := late[0]
		for _, more := range late[1:] {
			m.Parts = append(m.Parts, agent.Text("\n\n"))
			m.Parts = append(m.Parts, more.Parts...)
		}
		t.show.prompt(strings.Join(texts, "\n"))
		t.begin(ctx, m)
	}
}

// shellJob runs a command of the shell.
func (t *terminal) shellJob(ctx context.Context, line string) {
	if t.run != nil || t.job != nil {
		t.say("something is running; Ctrl-C stops it")
		t.editor.Set("!" + line)
		return
	}
	t.show.prompt("!" + line)
	ctx, cancel := context.WithCancel(ctx)
	t.job = &job{cancel: cancel, done: make(chan error, 1)}
	j := t.job
	go func() {
		defer cancel()
		j.done <- t.shell(ctx, line)
	}()
}
