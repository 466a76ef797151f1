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
//	r := &agent.Runner{Agent: a, Observe: text.Observe}
package view

import (
	"cmp"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/termtext"
)

// Text shows a person what a run does, usually on stderr.
//
// On a terminal (Live) every running tool call and sub-agent has a line with
// its elapsed time, calls of a sub-agent indented under the call that started it.
// The lines are redrawn in place; when a call of the root ends, its outcome and
// those of the calls below it are printed above them. Elsewhere every event is at
// most one plain line and no control character is written.
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
	// Color permits colours.
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
	// MaxLines limits how many lines are redrawn; 0 means 10. There are never
	// more than the terminal has rows.
	MaxLines int
	// Now returns the time; nil means time.Now.
	Now func() time.Time

	mu     sync.Mutex
	calls  map[string]*node // by Key: running, or below a running one
	roots  []*node          // running calls of the root, in order
	ended  int              // counts calls that ended, for their order
	model  *node            // the root's model request, while it runs
	plan   agent.Plan       // of the root, as far as the run has changed it
	drawn  []string         // the lines that are redrawn, as they were last drawn
	mid    bool             // the cursor is within a line of stdout
	asking int              // running calls that ask the person something
	broken bool             // W failed
	closed bool
	flush  []func() // flush the writers of Stdout
	stop   chan struct{}
	ticked chan struct{} // closed when the ticker's goroutine ends
}

// A node is a call that is shown. Its mark is markRunning until it ends.
type node struct {
	line
	start    time.Time
	order    int // among those that ended
	children []*node
	dropped  int // children that are no longer kept
	asks     bool
}

// keptChildren limits how many ended calls of a sub-agent are kept until it
// ends itself.
const keptChildren = 50

// Observe shows e.
func (t *Text) Observe(e agent.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Quiet || t.closed || t.broken {
		return
	}
	if t.calls == nil {
		t.calls = map[string]*node{}
	}
	switch e.Kind {
	case agent.EventCallStarted:
		t.started(e)
	case agent.EventCallEnded:
		t.finished(e)
	case agent.EventRetry:
		t.notice(e, retryText(e, t.more()))
	case agent.EventWarning:
		t.notice(e, flat(e.Text, maxNote, t.more()))
	case agent.EventCompaction:
		t.notice(e, "the conversation was shortened: "+flat(e.Text, maxNote, t.more()))
	default:
		if t.Live {
			t.state(e)
			t.redraw("")
		}
	}
}

// state applies an event that only changes the lines that are redrawn.
func (t *Text) state(e agent.Event) {
	if e.Kind == agent.EventProgress {
		if n := t.calls[e.Key]; n != nil {
			n.note = firstLine(e.Text, maxNote, t.more())
		}
		return
	}
	if e.Depth > 0 {
		return
	}
	switch e.Kind {
	case agent.EventRequest:
		t.model = t.node(0, cmp.Or(termtext.Line(e.Model, maxLabel, t.more()), "model"))
		t.tick()
	case agent.EventReasoning:
		if t.model != nil {
			t.model.note = "reasoning"
		}
	case agent.EventText:
		if t.model != nil {
			t.model.note = "answering"
		}
	case agent.EventAnswer:
		t.model = nil
	case agent.EventEnd:
		t.model, t.roots, t.plan = nil, nil, nil
		clear(t.calls)
	}
}

// started adds a running call.
func (t *Text) started(e agent.Event) {
	n := t.callNode(e)
	t.calls[e.Key] = n
	begins := line{depth: e.Depth, mark: markStart, label: t.who(e) + n.label}
	if !t.Live {
		t.print(begins)
		return
	}
	if parent := t.calls[e.Parent]; parent != nil {
		parent.children = append(parent.children, n)
	} else {
		t.roots = append(t.roots, n)
	}
	t.tick()
	t.endLine()
	if t.Asks != nil && t.Asks(e.Tool) {
		n.asks = true
		t.asking++
		t.print(begins)
		return
	}
	t.redraw("")
}

// node is something that begins now.
func (t *Text) node(depth int, label string) *node {
	return &node{line: line{depth: depth, mark: markRunning, label: label}, start: t.now()}
}

func (t *Text) callNode(e agent.Event) *node {
	return t.node(e.Depth, words(termtext.Line(e.Tool, maxLabel, t.more()), shortArgs(e.Args, t.more())))
}

// finished sets the outcome of a call. A call that was answered without running has
// no node yet.
func (t *Text) finished(e agent.Event) {
	n := t.calls[e.Key]
	parent := t.calls[e.Parent]
	ran := n != nil
	if !ran {
		n = t.callNode(e)
		if parent != nil && t.Live {
			parent.children = append(parent.children, n)
		}
	}
	if n.asks {
		t.asking--
	}
	if e.Depth == 0 && e.Result != nil && e.Result.Task != nil {
		t.plan = t.plan.With(*e.Result.Task)
	}
	t.ended++
	n.mark, n.note, n.order = markOK, "", t.ended
	if ran {
		n.took = elapsed(millis(e.Millis))
	}
	if e.Result != nil && e.Result.Failed {
		n.mark, n.note = markFailed, reason(e.Result, t.more())
	}
	delete(t.calls, e.Key)
	interrupted := n.mark == markFailed && t.Interrupted != nil && t.Interrupted()
	if interrupted {
		n.note = ""
	}
	switch {
	case interrupted && len(n.children) == 0:
		if parent != nil {
			parent.children = without(parent.children, n)
		}
		t.roots = without(t.roots, n)
		t.redraw("")
	case !t.Live:
		n.label = t.who(e) + n.label
		t.print(n.line)
	case parent != nil:
		parent.drop()
		t.redraw("")
	default:
		t.roots = without(t.roots, n)
		t.redraw(t.tree(n))
	}
}

// drop removes the oldest ended calls of n beyond keptChildren.
func (n *node) drop() {
	for len(n.children) > keptChildren {
		oldest := slices.MinFunc(n.children, func(a, b *node) int { return cmp.Compare(a.rank(), b.rank()) })
		if oldest.mark == markRunning {
			return
		}
		n.children = without(n.children, oldest)
		n.dropped++
	}
}

func without(list []*node, n *node) []*node {
	return slices.DeleteFunc(list, func(other *node) bool { return other == n })
}

// who names the sub-agent of an event, for lines that are not under its call.
func (t *Text) who(e agent.Event) string {
	if e.Depth == 0 {
		return ""
	}
	return termtext.Line(e.Agent, maxValue, t.more()) + ": "
}

// Close erases the lines that are redrawn, ends the texts of Stdout and waits
// for the ticker. Observe does nothing afterwards, and Stdout only cleans. Closing
// twice is harmless.
func (t *Text) Close() {
	t.mu.Lock()
	stop := t.stop
	t.stop = nil
	for _, f := range t.flush {
		f()
	}
	t.flush = nil
	t.model, t.roots, t.plan = nil, nil, nil
	if !t.closed {
		t.redraw("")
	}
	t.closed = true
	t.mu.Unlock()
	if stop != nil {
		close(stop)
		<-t.ticked
	}
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
		t.redraw(t.render(l, 0) + "\n")
		return
	}
	t.write(t.render(l, 0) + "\n")
}

func (t *Text) notice(e agent.Event, text string) {
	t.print(line{depth: e.Depth, mark: markNotice, label: t.who(e) + text})
}

func (t *Text) more() string {
	if t.ASCII {
		return "..."
	}
	return "…"
}

// render is a line in at most the given columns; 0 means any number.
func (t *Text) render(l line, columns int) string {
	m := marks[l.mark]
	sign := m.sign
	if t.ASCII {
		sign = m.ascii
	}
	indent := strings.Repeat("  ", min(l.depth, 10))
	var took, note string
	if l.took != "" {
		took = "  " + l.took
	}
	if l.note != "" {
		note = "  " + l.note
	}
	if columns > 0 {
		room := columns - termtext.Width(indent+sign+" "+took)
		note = termtext.Cut(note, max(room/2, room-termtext.Width(l.label)), t.more())
		l.label = termtext.Cut(l.label, room-termtext.Width(note), t.more())
	}
	if all := indent + sign + " " + l.label + took + note; columns > 0 && termtext.Width(all) > columns {
		return t.ascii(termtext.Cut(all, columns, t.more()))
	}
	noteColor := "2"
	if l.mark == markFailed {
		noteColor = m.color
	}
	return indent + t.color(sign, m.color) + " " + t.ascii(l.label) + t.color(took, "2") + t.color(t.ascii(note), noteColor)
}

// ascii replaces characters that a terminal without Unicode cannot show.
func (t *Text) ascii(s string) string {
	if !t.ASCII {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r >= 0x80 {
			return '?'
		}
		return r
	}, s)
}

func (t *Text) color(s, code string) string {
	if !t.Color || strings.TrimSpace(s) == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
