package view

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// A screen understands as much of a terminal as Text uses, and fails the test on
// anything else: on erasing the screen, too, which some terminals copy to their
// history first. Lines that leave it at the top stay readable.
type screen struct {
	t             *testing.T
	mu            sync.Mutex
	columns, rows int
	lines         [][]rune // all lines since the beginning
	row, column   int
	noWrap        bool
	wide          rune // takes two cells here
	synced        bool
	writes        int
}

func newScreen(t *testing.T, columns, rows int) *screen {
	return &screen{t: t, columns: columns, rows: rows, lines: [][]rune{nil}}
}

func (s *screen) size() (int, int) { return s.columns, s.rows }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	text := string(p)
	for text != "" {
		if text[0] == '\x1b' {
			n := s.sequence(text)
			text = text[n:]
			continue
		}
		r := []rune(text)[0]
		text = text[len(string(r)):]
		s.put(r)
	}
	return len(p), nil
}

// sequence carries out the control sequence that text starts with.
func (s *screen) sequence(text string) int {
	end := strings.IndexFunc(text[2:], func(r rune) bool { return r >= '@' && r <= '~' })
	if text[1] != '[' || end < 0 {
		s.t.Fatalf("unknown sequence %q", text)
	}
	body, final := text[2:2+end], text[2+end]
	switch {
	case final == 'm':
	case body == "?7" && final == 'l':
		s.noWrap = true
	case body == "?7" && final == 'h':
		s.noWrap = false
	case body == "?2026" && final == 'h':
		s.synced = true
	case body == "?2026" && final == 'l':
		s.synced = false
	case body == "" && final == 'K':
		s.lines[s.row] = s.lines[s.row][:min(s.column, len(s.lines[s.row]))]
	case final == 'A':
		var n int
		fmt.Sscan(body, &n)
		top := max(0, len(s.lines)-s.rows)
		if s.row-n < top {
			s.t.Errorf("cursor up %d from row %d leaves the screen, which begins at %d", n, s.row, top)
		}
		s.row = max(top, s.row-n)
	default:
		s.t.Fatalf("unknown sequence %q", text[:end+3])
	}
	return end + 3
}

func (s *screen) put(r rune) {
	switch {
	case r == '\n':
		s.row, s.column = s.row+1, 0
		if s.row == len(s.lines) {
			s.lines = append(s.lines, nil)
		}
		return
	case r == '\r':
		s.column = 0
		return
	case termtext.Hidden(r):
		s.t.Fatalf("control character %U", r)
	}
	width := termtext.Cell(r)
	if r == s.wide {
		width = 2
	}
	if s.column+width > s.columns {
		if s.noWrap {
			return
		}
		s.put('\n')
	}
	line := s.lines[s.row]
	for len(line) < s.column+width {
		line = append(line, ' ')
	}
	line[s.column] = r
	if width == 2 {
		line[s.column+1] = 0
	}
	s.lines[s.row] = line
	s.column += width
}

// resize makes the screen smaller, as a terminal does that wraps its lines anew.
// What is below the cursor must be blank.
func (s *screen) resize(columns, rows int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines [][]rune
	for _, line := range s.lines[:s.row+1] {
		for len(line) > columns {
			lines = append(lines, line[:columns:columns])
			line = line[columns:]
		}
		lines = append(lines, line)
	}
	s.lines, s.columns, s.rows = lines, columns, rows
	s.row = len(lines) - 1
}

// String is what can be seen.
func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.synced {
		s.t.Error("synchronized output does not end")
	}
	var b strings.Builder
	for _, line := range s.lines {
		b.WriteString(strings.TrimRight(strings.ReplaceAll(string(line), "\x00", ""), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func (s *screen) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}
