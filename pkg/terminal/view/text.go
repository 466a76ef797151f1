// Package view shows a run to a person, made from the events of the run and nothing else:
// events from another process look like those of this one.
//
//   - [Tree] is what a run and its sub-agents do, [Tree.Rows] its lines.
//   - [Text] is the progress on stderr: lines that are redrawn in place on a
//     terminal, one plain line per event elsewhere.
//   - [Stream] is the text of the answer, as it arrives.
//   - [LogText] is a readable log with times.
//
// All that comes from models, tools and servers is shown without control sequences.
//
//	text := &view.Text{W: os.Stderr}
//	defer text.Close()
//	r := &runner.Runner{Agent: a, Observe: text.Observe}
package view

import (
	"io"
	"slices"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// Text shows a person what a run does, usually on stderr.
//
// On a terminal (Live) the rows of a Tree are redrawn in place; when a call of the root ends,
// its outcome and those of the calls below it are printed above them. Elsewhere every event is
// at most one plain line and no control character is written.
//
// The fields must not change after the first call of Observe. The methods are safe
// for concurrent use. Output of models, tools and servers is shown cleaned. An
// error of W ends only the display.
type Text struct {
	// W is where the lines go. It is required.
	W io.Writer
	// Live is set if W is a terminal.
	Live bool
	// Quiet shows nothing at all.
	Quiet bool
	// Color permits colors.
	Color bool
	// ASCII is set if W can show only ASCII.
	ASCII bool
	// Size is the size of the terminal, asked at every redrawing; nil, or a
	// size of 0, means 80 columns and 24 rows.
	Size func() (columns, rows int)
	// Asks reports whether a tool asks the person something at the same
	// terminal: while it runs nothing is redrawn. Nil means that none does.
	Asks func(tool string) bool
	// Interrupted reports whether the person has interrupted the run: calls
	// that fail afterwards are not shown, since all fail for the same reason.
	// Nil means never.
	Interrupted func() bool
	// Now returns the time; nil means time.Now.
	Now func() time.Time
	// Panicked gets the text and the stack of a panic while the elapsed times are redrawn,
	// which ends that; nil lets it end the program.
	Panicked func(text string)

	mu     sync.Mutex
	tree   Tree
	caches agent.CacheLosses
	lost   []agent.CacheLoss
	cut    map[*Call]bool  // calls that ended because of an interruption
	asks   map[string]bool // keys of running calls that ask the person something
	open   []string        // the end of the answer, which still changes
	drawn  []string        // the lines that are redrawn, as they were last drawn
	last   output          // what is above them
	mid    bool            // the cursor is within a line of stdout
	asking int             // running calls that ask the person something, and holds
	broken bool            // W failed
	closed bool
	flush  []func() // flush the writers of Stdout
	stop   chan struct{}
	ticked chan struct{} // closed when the ticker's goroutine ends
}

// An output is a kind of what was written: progress and answers are set apart.
type output int

const (
	nothing output = iota
	progress
	answer
)

// Observe shows e.
func (t *Text) Observe(e agent.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Quiet || t.closed || t.broken {
		return
	}
	t.tree.Brief = true
	e.Time = t.now()
	if loss := t.caches.Note(&e); loss != nil {
		t.lost = append(t.lost, *loss)
	}
	switch e.Kind {
	case agent.EventCallStarted:
		t.tree.Apply(e)
		t.started(&e)
	case agent.EventCallEnded:
		t.ended(&e)
	case agent.EventRetry:
		t.tree.Apply(e)
		t.notice(&e, retryText(e, t.pen().more()))
	case agent.EventWarning:
		t.notice(&e, flat(e.Text, maxNote, t.pen().more()))
	case agent.EventHook:
		t.tree.Apply(e)
		if text := e.HookText(); text != "" {
			t.notice(&e, flat(text, maxNote, t.pen().more()))
		}
	case agent.EventCompaction:
		t.tree.Apply(e)
		t.notice(&e, "the conversation was shortened: "+flat(e.Text, maxNote, t.pen().more()))
	default:
		if t.Live && t.tree.Apply(e) != nil {
			t.tick()
			t.redraw("")
		}
	}
}

func (t *Text) started(e *agent.Event) {
	begins := line{depth: e.Depth, mark: markStart, label: t.who(e) + t.tree.calls[e.Key].label}
	if !t.Live {
		t.print(begins)
		return
	}
	t.tick()
	t.endLine()
	if t.Asks == nil || !t.Asks(e.Tool) {
		t.redraw("")
		return
	}
	if t.asks == nil {
		t.asks = map[string]bool{}
	}
	t.asks[e.Key] = true
	t.asking++
	t.print(begins)
}

// ended shows the outcome of a call. One that was answered without running has no start.
func (t *Text) ended(e *agent.Event) {
	t.tree.Apply(*e)
	n := t.tree.node(e)
	c := n.calls[slices.IndexFunc(n.calls, func(c *Call) bool { return c.Key == e.Key })]
	if t.asks[e.Key] {
		delete(t.asks, e.Key)
		t.asking--
	}
	interrupted := c.State == Failed && t.Interrupted != nil && t.Interrupted()
	if interrupted {
		if t.cut == nil {
			t.cut = map[*Call]bool{}
		}
		t.cut[c] = true
	}
	switch {
	case !t.Live && !interrupted:
		l := c.line(t.now())
		l.depth, l.label = e.Depth, t.who(e)+l.label
		t.print(l)
	case t.Live && n == t.tree.Root:
		t.redraw(t.outcome(c))
	case t.Live:
		t.redraw("")
	}
}

// who names the sub-agent of an event, for lines that are not under its call.
func (t *Text) who(e *agent.Event) string {
	if e.Depth == 0 {
		return ""
	}
	return termtext.Line(e.Agent, maxValue, t.pen().more()) + ": "
}

// Close erases the lines that are redrawn, ends the texts of Stdout and waits
// for the ticker. Observe does nothing afterwards, and Stdout only cleans. Closing
// twice is harmless.
func (t *Text) Close() {
	if stop := t.end(); stop != nil {
		close(stop)
		<-t.ticked
	}
}

// end returns what stops the ticker, nil if it does not run.
func (t *Text) end() (stop chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer func() { t.closed = true }()
	stop, t.stop = t.stop, nil
	for _, f := range t.flush {
		f()
	}
	t.flush, t.open, t.tree = nil, nil, Tree{}
	if !t.closed {
		t.redraw("")
	}
	return stop
}

func (t *Text) now() time.Time {
	if t.Now != nil {
		return t.Now()
	}
	return time.Now()
}

// write writes to W until that fails.
func (t *Text) write(s string) {
	if s == "" || t.broken {
		return
	}
	if _, err := io.WriteString(t.W, s); err != nil {
		t.broken = true
	}
}

// print writes a line that is not redrawn.
func (t *Text) print(l line) {
	if t.Live {
		t.redraw(t.pen().plain(l) + "\n")
		return
	}
	t.write(t.pen().plain(l) + "\n")
}

func (t *Text) notice(e *agent.Event, text string) {
	t.print(line{depth: e.Depth, mark: markNotice, label: t.who(e) + text})
}

func (t *Text) pen() pen { return pen{Color: t.Color, ASCII: t.ASCII} }
