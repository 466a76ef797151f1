package tui

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
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
	// drawn is called when a frame may have been drawn, and began when the first one has.
	drawn, began func()
	alt          atomic.Bool // it shows the alternate screen

	// held means that the window is being resized, and the live region is not drawn. settled means
	// that the size has rested: the next write that erases the live region is the first for the new
	// size, and it ends both.
	held, settled atomic.Bool
	rested        *time.Timer // sends a settledMsg
	// view returns the last view of the live region, and width is that for which the renderer
	// draws it: what is wider is not drawn.
	view  func() frame
	width atomic.Int64
	// size returns that of the window.
	size func() (columns, rows int, err error)
	// cuts means that the terminal cuts rows that are wider than it becomes, and does not wrap
	// them.
	cuts   bool
	screen frame // the live region that is on the main screen
	row    int   // of the live region in which the renderer has the cursor
}

func (t *terminal) Write(p []byte) (int, error) {
	prints := bytes.HasPrefix(p, []byte("\r")) // above the live region
	out := t.fitted(p, prints)
	if out == nil {
		return len(p), nil
	}
	out = bytes.ReplaceAll(out, []byte(eraseBelow), []byte(deleteBelow))
	if !bytes.HasPrefix(p, []byte(syncStart)) && len(p) > 1 {
		out = append(append([]byte(syncStart), out...), syncEnd...)
	}
	if _, err := t.File.Write(out); err != nil {
		return 0, err
	}
	if enter, leave := bytes.LastIndex(p, []byte(altEnter)), bytes.LastIndex(p, []byte(altLeave)); enter != leave {
		t.alt.Store(enter > leave)
	}
	if t.began != nil && !prints && strings.TrimSpace(termtext.Clean(string(p))) != "" {
		t.began()
		t.began = nil
	}
	if t.drawn != nil && !prints {
		t.drawn()
	}
	if bytes.Contains(p, []byte(altLeave)) && t.left != nil {
		t.left()
	}
	return len(p), nil
}

// WriteString is Write: that of the file would pass by it.
func (t *terminal) WriteString(s string) (int, error) { return t.Write([]byte(s)) }

// settleTime is how long the size of a window rests before the live region is drawn for it. The
// terminal may be narrower already than it says: tmux says so up to 250 ms later.
const settleTime = 300 * time.Millisecond

// fitted is what is written so that it fits the main screen, nil for nothing. A terminal that
// becomes narrower wraps the rows of the live region, so that the cursor is further below its
// first row than the renderer believes, which would leave rows that nothing removes.
func (t *terminal) fitted(p []byte, prints bool) []byte {
	at := bytes.LastIndex(p, []byte(altLeave)) + len(altLeave)
	if leaves := at >= len(altLeave); !leaves && t.alt.Load() || t.view == nil {
		return p
	} else if !leaves {
		at = 0
	}
	width, _, err := t.size()
	if err != nil {
		return p // such as a pipe
	}
	shown := frame{lines: t.screen.lines, width: t.screen.width}
	if !prints {
		shown = t.view()
		shown.width = cmp.Or(int(t.width.Load()), width)
	}
	if t.settled.Load() && bytes.Contains(p, []byte(eraseBelow)) {
		t.settled.Store(false)
		t.held.Store(false)
	}
	modes := bytes.Count(p, []byte("\x1b[?")) - bytes.Count(p, []byte("\x1b[?25")) - bytes.Count(p, []byte(syncStart)) - bytes.Count(p, []byte(syncEnd))
	if holds := t.held.Load() && !t.settled.Load(); !holds && !prints && modes == 0 && shown.width != width {
		t.hold() // the message with the new size is on its way
	}
	if t.held.Load() && !prints && modes == 0 {
		t.row = shown.row
		return nil
	}
	up := t.screen.row - t.row
	if !t.cuts {
		up += t.screen.wrapped(width)
	}
	t.screen, t.row = shown, shown.row
	switch {
	case up > 0:
		p = slices.Insert(slices.Clone(p), at, []byte(fmt.Sprintf("\x1b[%dA", up))...)
	case up < 0:
		p = slices.Insert(slices.Clone(p), at, []byte(fmt.Sprintf("\x1b[%dB", -up))...)
	}
	return p
}

// hold holds the live region back until the size of the window has rested.
func (t *terminal) hold() {
	t.settled.Store(false)
	t.held.Store(true)
	if t.rested != nil {
		t.rested.Reset(settleTime)
	}
}

// resized is a filter of messages: it holds the size of the window back until it has rested, and
// then sends it to a program.
func (t *terminal) resized(p func() *tea.Program) func(tea.Model, tea.Msg) tea.Msg {
	t.rested = time.AfterFunc(settleTime, func() { p().Send(settledMsg{}) })
	t.rested.Stop()
	return func(_ tea.Model, msg tea.Msg) tea.Msg {
		switch size := msg.(type) {
		case settledMsg:
			columns, rows, err := t.size()
			if err != nil {
				t.held.Store(false)
				return nil
			}
			t.width.Store(int64(columns))
			if t.alt.Load() { // the main screen is drawn again when it is back
				t.held.Store(false)
			} else {
				t.settled.Store(true)
			}
			return tea.WindowSizeMsg{Width: columns, Height: rows}
		case tea.WindowSizeMsg:
			if size.Width <= 0 || size.Height <= 0 {
				columns, rows, err := t.size()
				if err != nil {
					return nil
				}
				size = tea.WindowSizeMsg{Width: columns, Height: rows}
			}
			width := t.width.Load()
			if (!t.held.Load() || t.settled.Load()) && (width == 0 || width == int64(size.Width) || t.alt.Load()) {
				t.width.Store(int64(size.Width))
				return size
			}
			t.hold()
			return nil
		}
		return msg
	}
}

// settledMsg reports that the size of the window has rested.
type settledMsg struct{}

// cuts reports whether the terminal cuts rows that are wider than it becomes: xterm itself, the
// console of Linux and GNU screen do.
func cuts(environ []string) bool {
	return slices.ContainsFunc(environ, func(v string) bool {
		return strings.HasPrefix(v, "XTERM_VERSION=") || strings.HasPrefix(v, "TERM=linux") || strings.HasPrefix(v, "STY=")
	})
}

// A frame is what the live region shows, with the place of the cursor.
type frame struct {
	lines    []string
	width    int // to which the lines were cut
	row, col int
}

// wrapped returns how many more rows are above the cursor when the terminal wraps them.
func (f frame) wrapped(width int) (rows int) {
	for i, line := range f.lines {
		if i == f.row {
			return rows + min(f.col, f.width-1)/width
		}
		line = termtext.Clean(line)
		cut, _ := row(line, f.width)
		line = strings.TrimRight(line[:cut], " ")
		for cut, _ := row(line, width); cut < len(line); cut, _ = row(line, width) {
			rows, line = rows+1, line[cut:]
		}
	}
	return rows
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
	highest       int       // of those that may be on the screen
	before, after int       // the last two
	wanted, shown int       // by the last view
	changed       time.Time // when the last view that shows another number of rows was made
	view          frame
	begun         bool // one is on the screen
}

// show notes what the last view shows, and last returns it.
func (f *frames) show(view frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.view = view
}

func (f *frames) last() frame {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view
}

// begin notes that the first frame is on the screen.
func (f *frames) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun = true
}

// some reports whether a frame is on the screen. What bubbletea prints above one that is not
// there yet replaces rows of the shell.
func (f *frames) some() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.begun
}

// add takes the height that a view wants and returns the one that it may have.
func (f *frames) add(wanted int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	shown := max(wanted, f.highest-1)
	if shown != f.shown {
		f.changed = time.Now()
	}
	f.wanted, f.shown = wanted, shown
	f.before, f.after = f.after, shown
	f.highest = max(f.highest, shown)
	return shown
}

// drawn notes that the last view is on the screen, or the one before, which may be just
// being replaced. It reports whether the last one is higher than it should be.
func (f *frames) drawn() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.highest = max(f.before, f.after)
	return f.shown > f.wanted
}

// high reports whether the last view is higher than it should be.
func (f *frames) high() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shown > f.wanted
}

// rest notes that views have had this number of rows since before a moment, so that the last one
// is on the screen: the renderer writes nothing if it is there already.
func (f *frames) rest(since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed.Before(since) {
		f.highest = f.shown
	}
}

// low reports whether the live region has no more than a row.
func (f *frames) low() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.highest <= 1
}
