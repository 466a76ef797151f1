package tui

import (
	"bytes"
	"os"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// Control sequences of a terminal.
const (
	syncStart = "\x1b[?2026h" // synchronized output: the terminal shows all that
	syncEnd   = "\x1b[?2026l" // is between the two at once
	altLeave  = "\x1b[?1049l"
)

// A terminal is the output of the program. It makes every write one synchronized update,
// and reports when the program has left the alternate screen: what is printed before that
// would be lost.
type terminal struct {
	*os.File
	left func()
}

func (t *terminal) Write(p []byte) (int, error) {
	out := p
	if !bytes.HasPrefix(p, []byte(syncStart)) && len(p) > 1 {
		out = append(append([]byte(syncStart), p...), syncEnd...)
	}
	if _, err := t.File.Write(out); err != nil {
		return 0, err
	}
	if bytes.Contains(p, []byte(altLeave)) && t.left != nil {
		t.left()
	}
	return len(p), nil
}

// A printer prints finished lines above the live region, into the scrollback of the
// terminal. Pieces are printed one after another, because commands run in no order, and
// each fits the screen beside the live region, because what does not would push the live
// region into the scrollback.
type printer struct {
	lines []string
	busy  bool // a piece is being printed
}

// printedMsg reports that a piece is printed.
type printedMsg struct{}

func (p *printer) add(lines ...string) { p.lines = append(p.lines, lines...) }

// next returns the command that prints the next piece of at most rows lines, nil if there
// is none or one is being printed.
func (p *printer) next(rows int) tea.Cmd {
	if p.busy || len(p.lines) == 0 {
		return nil
	}
	n := min(len(p.lines), max(rows, 1))
	text := strings.Join(p.lines[:n], "\n")
	p.lines, p.busy = p.lines[n:], true
	if text == "" {
		text = " " // nothing would be printed
	}
	return tea.Sequence(tea.Println(text), func() tea.Msg { return printedMsg{} })
}
