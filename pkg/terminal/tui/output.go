package tui

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	tea "charm.land/bubbletea/v2"
)

// Control sequences of a terminal.
const (
	syncStart = "\x1b[?2026h" // synchronized output: the terminal shows all that
	syncEnd   = "\x1b[?2026l" // is between the two at once
	altEnter  = "\x1b[?1049h"
	altLeave  = "\x1b[?1049l"

	eraseBelow  = "\x1b[J"
	deleteBelow = "\x1b[999M" // from a cursor in the first column it looks the same
)

// A terminal is the output of the program. It makes every write one synchronized update,
// and reports when the program has left the alternate screen: what is printed before that
// would be lost. Instead of erasing the screen below the cursor it deletes the lines: some
// terminals, such as tmux, copy a screen that is erased from its first row to their
// scrollback.
type terminal struct {
	*os.File
	left func()
	// drawn is called when a frame may have been drawn.
	drawn func()
	alt   atomic.Bool // it shows the alternate screen
}

func (t *terminal) Write(p []byte) (int, error) {
	out := bytes.ReplaceAll(p, []byte(eraseBelow), []byte(deleteBelow))
	if !bytes.HasPrefix(p, []byte(syncStart)) && len(p) > 1 {
		out = append(append([]byte(syncStart), out...), syncEnd...)
	}
	if _, err := t.File.Write(out); err != nil {
		return 0, err
	}
	if enter, leave := bytes.LastIndex(p, []byte(altEnter)), bytes.LastIndex(p, []byte(altLeave)); enter != leave {
		t.alt.Store(enter > leave)
	}
	if t.drawn != nil && !bytes.HasPrefix(p, []byte("\r")) { // which begins what is printed
		t.drawn()
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
	piece []string // that is being printed; nil if none is
}

// printedMsg reports that a piece is printed.
type printedMsg struct{}

func (p *printer) add(lines ...string) { p.lines = append(p.lines, lines...) }

// next returns the command that prints the next piece of at most rows lines, nil if there
// is none or one is being printed.
func (p *printer) next(rows int) tea.Cmd {
	if p.busy() || len(p.lines) == 0 {
		return nil
	}
	n := min(len(p.lines), max(rows, 1))
	p.piece, p.lines = p.lines[:n:n], p.lines[n:]
	text := strings.Join(p.piece, "\n")
	if text == "" {
		text = " " // nothing would be printed
	}
	return tea.Sequence(tea.Println(text), func() tea.Msg { return printedMsg{} })
}

func (p *printer) busy() bool { return p.piece != nil }

// frames are the heights of the live region in views that may be on the screen. The
// renderer of bubbletea draws a frame in the wrong place if it is more than a row lower
// than the one before, with the cursor in the last row but one: what is above it stays.
type frames struct {
	mu            sync.Mutex
	highest       int // of those that may be on the screen
	before, last  int // the last two
	wanted, shown int // by the last view
}

// add takes the height that a view wants and returns the one that it may have.
func (f *frames) add(wanted int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	shown := max(wanted, f.highest-1)
	f.wanted, f.shown = wanted, shown
	f.before, f.last = f.last, shown
	f.highest = max(f.highest, shown)
	return shown
}

// drawn notes that the last view is on the screen, or the one before, which may be just
// being replaced. It reports whether the last one is higher than it should be.
func (f *frames) drawn() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.highest = max(f.before, f.last)
	return f.shown > f.wanted
}

// low reports whether the live region has no more than a row.
func (f *frames) low() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.highest <= 1
}
