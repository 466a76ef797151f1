package edit

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// A Screen is a terminal with output that stays and, below it, lines that are redrawn.
// Its methods are safe for concurrent use.
type Screen struct {
	W    io.Writer
	Size func() (columns, rows int)

	mu       sync.Mutex
	lines    []string // wanted
	row      int      // of the cursor in them
	column   int
	drawn    []string // on the terminal, when it had this many columns
	columns  int
	drawnRow int
	hidden   bool
	mid      string // printed text without a newline
}

// Control sequences of a terminal. Only lines are erased: some terminals copy the screen
// to their scrollback when all of it is erased.
const (
	eraseLine = "\x1b[K"
	noWrap    = "\x1b[?7l" // a line that is wider than it seems takes one row
	wrap      = "\x1b[?7h"
	syncStart = "\x1b[?2026h" // the terminal shows all that is between the two at once
	syncEnd   = "\x1b[?2026l"
)

// Draw replaces the lines. The cursor is in line row, at column.
func (s *Screen) Draw(lines []string, row, column int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines, s.row, s.column = lines, row, column
	s.redraw("")
}

// Write prints text above the lines. Text without a newline at its end waits for the
// rest of its line.
func (s *Screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.mid + string(b)
	end := strings.LastIndexByte(text, '\n') + 1
	s.mid = text[end:]
	if end > 0 {
		s.redraw(text[:end])
	}
	return len(b), nil
}

// Hide removes the lines until Show, for another program at the terminal.
func (s *Screen) Hide() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = true
	s.redraw("")
}

// Show draws the lines again.
func (s *Screen) Show() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hidden = false
	s.redraw("")
}

func (s *Screen) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drawn, s.drawnRow = nil, 0
	_, _ = io.WriteString(s.W, "\x1b[H\x1b[2J")
	s.redraw("")
}

// redraw prints text in place of the drawn lines, followed by the wanted lines, in one
// write.
func (s *Screen) redraw(printed string) {
	var lines []string
	if !s.hidden {
		lines = s.lines
	}
	columns, _ := s.Size()
	rows, above := s.occupied(columns)
	var b strings.Builder
	b.WriteString(syncStart + "\r" + up(above) + eraseLine)
	for range rows - 1 {
		b.WriteString("\r\n" + eraseLine)
	}
	b.WriteString("\r" + up(rows-1))
	b.WriteString(strings.ReplaceAll(printed, "\n", "\r\n"))
	b.WriteString(noWrap + strings.Join(lines, "\r\n") + wrap)
	row := 0
	if len(lines) > 0 {
		row = min(s.row, len(lines)-1)
		b.WriteString("\r" + up(len(lines)-1-row))
		if s.column > 0 {
			fmt.Fprintf(&b, "\x1b[%dC", s.column)
		}
	}
	b.WriteString(syncEnd)
	s.drawn, s.drawnRow, s.columns = lines, row, columns
	_, _ = io.WriteString(s.W, b.String()) // nothing is left to be done without the terminal
}

// occupied is how many rows the drawn lines take, and how many of these are above the
// cursor: a terminal that has become narrower wraps them.
func (s *Screen) occupied(columns int) (rows, above int) {
	for i, line := range s.drawn {
		n := 1
		if columns > 0 && columns < s.columns {
			n = max(1, (min(termtext.Width(termtext.Clean(line)), s.columns)+columns-1)/columns)
		}
		rows += n
		if i < s.drawnRow {
			above += n
		}
	}
	return rows, above
}

func up(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA", n)
}
