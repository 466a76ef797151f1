package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/guard"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// tickEvery is how often the elapsed times are redrawn.
const tickEvery = 200 * time.Millisecond

// maxLines limits how many rows of the tree are redrawn.
const maxLines = 10

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
				if guard.Run(t.Panicked, t.elapse) != nil {
					return
				}
			}
		}
	}(t.stop, t.ticked)
}

func (t *Text) elapse() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.redraw("")
	}
	return nil
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
		if t.last == answer {
			printed = "\n" + printed
		}
		t.last = progress
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

// lines returns the lines to draw: the end of the answer that still changes, the rows of the
// tree, the plan.
func (t *Text) lines() []string {
	columns, rows := t.size()
	room := min(max(rows-2, 1), rows-1)
	limit := min(maxLines, room)
	root := t.tree.Root
	if limit < 1 || root == nil {
		return nil
	}
	var lines []string
	if !root.State().Ended() {
		lines = t.tree.Lines(Layout{Width: columns - 1, Height: limit, Now: t.now(), Color: t.Color, ASCII: t.ASCII})
		lines = append(lines, t.plan(limit-len(lines), columns-1)...)
	}
	if t.last == answer && len(t.open) == 0 && len(lines) > 0 {
		lines = slices.Insert(lines, 0, "")
	}
	if len(t.open) > 0 {
		open := t.open
		if t.last == progress {
			open = append([]string{""}, open...)
		}
		lines = append(append(slices.Clone(open), ""), lines...)
	}
	return lines[max(len(lines)-room, 0):]
}

// plan is the plan of the root in at most limit lines; if it has more tasks, only how far it
// came and what is being done.
func (t *Text) plan(limit, columns int) []string {
	plan := t.tree.Root.Plan
	var list []line
	doing := ""
	plan.Walk(func(task agent.Task, depth int) {
		l := line{depth: depth + 1, mark: taskMark(task.State), label: termtext.Line(cmp.Or(task.Title, task.ID), maxLabel, "…"), note: termtext.Line(task.Note, maxNote, "…")}
		if task.State == agent.TaskDoing {
			doing = l.label
		}
		list = append(list, l)
	})
	if len(list) > limit {
		list = []line{{depth: 1, mark: markMore, label: plan.Progress(), note: doing}}
	}
	var lines []string
	for _, l := range list[:min(len(list), max(limit, 0))] {
		lines = append(lines, t.pen().aligned(l, Layout{Width: columns}.columns(nil)))
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

// outcome is a call of the root that ended and what is below it, as lines to print: "" if all
// of it was interrupted.
func (t *Text) outcome(c *Call) string {
	columns, _ := t.size()
	l := Layout{Width: columns - 1, Now: t.now(), Color: t.Color, ASCII: t.ASCII}
	rows := slices.DeleteFunc(c.rows(l), func(r Row) bool { return r.Call != nil && t.cut[r.Call] })
	if t.cut[c] && len(rows) > 0 {
		rows[0].line.note, rows[0].line.state = "", ""
	}
	if t.cut[c] && len(rows) <= 1 {
		return ""
	}
	return strings.Join(append(l.whole(rows), ""), "\n")
}

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
// it is cleaned (see termtext.Cleaner), and written above the lines that are redrawn. The
// errors of w are returned.
func (t *Text) Stdout(w io.Writer) io.Writer {
	s := &stdout{text: t, w: w, clean: &termtext.Cleaner{}}
	t.mu.Lock()
	t.flush = append(t.flush, s.flush)
	t.mu.Unlock()
	return s
}

// Answer is like Stdout, for lines that are clean and may have colors. A call of Open must
// follow each Write: until then nothing is redrawn. Close ends a text; the next one is set apart
// from it.
func (t *Text) Answer(w io.Writer) io.WriteCloser { return &stdout{text: t, w: w} }

// Open shows lines, which are clean, as the end of the answer, until they are replaced.
func (t *Text) Open(lines []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.Live || t.Quiet || t.closed {
		return
	}
	t.open = lines
	t.redraw("")
	t.write(syncEnd)
}

// stdout is a writer of Text.Stdout or Text.Answer. It is guarded by the mutex of its Text.
type stdout struct {
	text  *Text
	w     io.Writer
	clean *termtext.Cleaner // nil for clean lines
	texts int               // that have ended
	begun bool              // the present one
}

func (s *stdout) Close() error {
	s.text.mu.Lock()
	defer s.text.mu.Unlock()
	if s.begun {
		s.texts, s.begun = s.texts+1, false
	}
	return nil
}

func (s *stdout) Write(p []byte) (int, error) {
	t := s.text
	t.mu.Lock()
	defer t.mu.Unlock()
	out := string(p)
	if s.clean != nil {
		out = s.clean.Clean(out)
	}
	if err := s.put(out); err != nil {
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
		t.write(syncStart + t.erase())
	}
	switch {
	case t.last == progress:
		t.write("\n")
	case !s.begun && s.texts > 0:
		out = "\n" + out
	}
	s.begun = true
	if t.Live && !t.Quiet {
		t.last = answer
	}
	_, err := io.WriteString(s.w, out)
	if !shown {
		return err
	}
	t.mid = !strings.HasSuffix(out, "\n")
	if s.clean != nil {
		t.redraw("")
		t.write(syncEnd)
	}
	return err
}
