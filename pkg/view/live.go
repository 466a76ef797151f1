package view

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/termtext"
)

// tickEvery is how often the elapsed times are redrawn.
const tickEvery = 200 * time.Millisecond

// tick starts the goroutine that redraws the elapsed times, unless it is running.
// Close stops it.
func (t *Text) tick() {
	if t.stop != nil {
		return
	}
	t.stop, t.ticked = make(chan struct{}), make(chan struct{})
	go func(stop <-chan struct{}, done chan<- struct{}) {
		defer close(done)
		ticker := time.NewTicker(tickEvery)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				t.mu.Lock()
				if !t.closed {
					t.redraw("")
				}
				t.mu.Unlock()
			}
		}
	}(t.stop, t.ticked)
}

// Control sequences of a terminal. Only lines are erased: some terminals copy the
// screen to their scrollback when it is erased from the first row, at every redrawing.
const (
	eraseLine = "\x1b[K"
	noWrap    = "\x1b[?7l" // a line that is wider than it seems still takes one row
	wrap      = "\x1b[?7h"
	syncStart = "\x1b[?2026h" // synchronized output: the terminal shows all that
	syncEnd   = "\x1b[?2026l" // is between the two at once
)

// redraw updates the screen: it prints printed in place of the drawn lines, followed
// by the new lines. It makes one write, or none if nothing changed.
func (t *Text) redraw(printed string) {
	if !t.Live || t.broken {
		return
	}
	if printed != "" {
		t.endLine()
	}
	var lines []string
	if !t.mid && t.asking == 0 {
		lines = t.lines()
	}
	if printed == "" && slices.Equal(lines, t.drawn) {
		return
	}
	rows := t.drawnRows()
	out := syncStart + up(rows)
	if printed != "" {
		out += blank(rows) + printed
		rows = 0
	}
	if len(lines) > 0 {
		out += noWrap + strings.Join(lines, eraseLine+"\n") + eraseLine + "\n" + wrap
	}
	t.drawn = lines
	t.write(out + blank(rows-len(lines)) + syncEnd)
}

// drawnRows is how many rows of the screen the drawn lines take: a terminal that
// became narrower since has wrapped them.
func (t *Text) drawnRows() int {
	columns, rows := t.size()
	n := 0
	for _, line := range t.drawn {
		n += 1 + max(0, termtext.Width(termtext.Clean(line))-1)/columns
	}
	return min(n, rows-1)
}

// up moves the cursor to the beginning of the row that is n rows above.
func up(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("\r\x1b[%dA", n)
}

// blank erases n rows from the cursor on, which stays, and what the terminal echoed
// on the row below them, such as ^C.
func blank(n int) string {
	if n <= 0 {
		return ""
	}
	return strings.Repeat(eraseLine+"\n", n) + eraseLine + up(n)
}

// erase removes the drawn lines from the screen.
func (t *Text) erase() string {
	n := t.drawnRows()
	t.drawn = nil
	return up(n) + blank(n)
}

// Hold stops the redrawing until release is called, while the same terminal is used
// for something else. Holds may overlap.
func (t *Text) Hold() (release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLine()
	t.asking++
	t.redraw("")
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.asking--
		t.redraw("")
	})
}

// endLine moves the cursor to the next line if it is within a line of stdout.
func (t *Text) endLine() {
	if t.mid {
		t.mid = false
		t.write("\n")
	}
}

// lines returns the lines to draw: the calls in the order of the tree. If there are
// too many, those that ended first are omitted first.
func (t *Text) lines() []string {
	columns, rows := t.size()
	limit := t.MaxLines
	if limit <= 0 {
		limit = 10
	}
	limit = min(limit, max(rows-2, 1), rows-1)
	if limit < 1 {
		return nil
	}
	var nodes []*node
	for _, n := range t.roots {
		nodes = append(nodes, n.all(nil)...)
	}
	if t.model != nil {
		nodes = append(nodes, t.model)
	}
	hidden := 0
	if len(nodes) > limit {
		nodes, hidden = fit(nodes, limit-1)
	}
	var lines []string
	for _, n := range nodes {
		lines = append(lines, t.render(n.now(t.now()), columns-1))
	}
	if hidden > 0 {
		lines = append(lines, t.render(line{mark: markMore, label: fmt.Sprintf("and %d more", hidden)}, columns-1))
	}
	return append(lines, t.planLines(limit-len(lines), columns-1)...)
}

// planLines are the tasks of the root's plan, at most limit; if there are more, only how
// far it came and what is being done.
func (t *Text) planLines(limit, columns int) []string {
	var list []line
	doing := ""
	t.plan.Walk(func(task agent.Task, depth int) {
		l := line{depth: depth, mark: taskMark(task.State), label: termtext.Line(cmp.Or(task.Title, task.ID), maxLabel, t.more()), note: termtext.Line(task.Note, maxNote, t.more())}
		if task.State == agent.TaskDoing {
			doing = l.label
		}
		list = append(list, l)
	})
	if len(list) > limit {
		list = []line{{mark: markMore, label: t.plan.Progress(), note: doing}}
	}
	var lines []string
	for _, l := range list[:min(len(list), max(limit, 0))] {
		lines = append(lines, t.render(l, columns))
	}
	return lines
}

func taskMark(state string) mark {
	switch state {
	case agent.TaskDoing:
		return markStart
	case agent.TaskDone:
		return markOK
	case agent.TaskDropped:
		return markDropped
	}
	return markTask
}

// fit chooses n nodes: the running ones, from the top, then those that ended last.
// hidden counts the running ones that are left out.
func fit(nodes []*node, n int) (chosen []*node, hidden int) {
	ranked := slices.Clone(nodes)
	slices.SortStableFunc(ranked, func(a, b *node) int { return cmp.Compare(b.rank(), a.rank()) })
	keep := map[*node]bool{}
	for i, c := range ranked {
		if i < n {
			keep[c] = true
		} else if c.mark == markRunning {
			hidden++
		}
	}
	for _, c := range nodes {
		if keep[c] {
			chosen = append(chosen, c)
		}
	}
	return chosen, hidden
}

// rank is the order in which calls are kept: the running ones before those that
// ended, and the later before the earlier.
func (n *node) rank() int {
	if n.mark == markRunning {
		return math.MaxInt
	}
	return n.order
}

// all is n and everything below it, in order.
func (n *node) all(list []*node) []*node {
	list = append(list, n)
	for _, c := range n.children {
		list = c.all(list)
	}
	return list
}

// now is the line of n with its elapsed time.
func (n *node) now(at time.Time) line {
	l := n.line
	if l.mark == markRunning {
		l.took = elapsed(at.Sub(n.start))
	}
	return l
}

// tree is n and what is below it, as lines to print. A failure is shown in full,
// even if it takes more than one row.
func (t *Text) tree(n *node) string {
	limit := 0
	if n.mark != markFailed {
		columns, _ := t.size()
		limit = columns - 1
	}
	var b strings.Builder
	b.WriteString(t.render(n.now(t.now()), limit) + "\n")
	if n.dropped > 0 {
		b.WriteString(t.render(line{depth: n.depth + 1, mark: markMore, label: fmt.Sprintf("%d calls before", n.dropped)}, 0) + "\n")
	}
	for _, c := range n.children {
		b.WriteString(t.tree(c))
	}
	return b.String()
}

// size is the terminal's size.
func (t *Text) size() (columns, rows int) {
	if t.Size != nil {
		columns, rows = t.Size()
	}
	if columns <= 0 {
		columns = 80
	}
	if rows <= 0 {
		rows = 24
	}
	return columns, rows
}

// Stdout returns a writer to w, the same terminal, for text that a person reads:
// it is cleaned (see Cleaner), and written above the lines that are redrawn. The
// errors of w are returned.
func (t *Text) Stdout(w io.Writer) io.Writer {
	s := &stdout{text: t, w: w}
	t.mu.Lock()
	t.flush = append(t.flush, s.flush)
	t.mu.Unlock()
	return s
}

// stdout is a writer of Text.Stdout. It is guarded by the mutex of its Text.
type stdout struct {
	text  *Text
	w     io.Writer
	clean termtext.Cleaner
}

func (s *stdout) Write(p []byte) (int, error) {
	t := s.text
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := s.put(s.clean.Clean(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *stdout) flush() { s.put(s.clean.Flush()) }

func (s *stdout) put(out string) error {
	t := s.text
	if out == "" {
		return nil
	}
	shown := t.Live && !t.Quiet && !t.closed
	if shown {
		t.model = nil // the person sees its text arrive
		if len(t.drawn) > 0 {
			t.write(syncStart + t.erase())
			defer t.write(syncEnd)
		}
	}
	_, err := io.WriteString(s.w, out)
	if shown {
		t.mid = !strings.HasSuffix(out, "\n")
		t.redraw("")
	}
	return err
}
