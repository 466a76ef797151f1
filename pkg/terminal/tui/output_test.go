package tui

import (
	"fmt"
	"os"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
)

// TestTheCursorFindsTheLiveRegion: after a window has become narrower, the first row of the live
// region is as far above the cursor as the terminal shows it, whatever the renderer drew between the
// new size and the view for it.
func TestTheCursorFindsTheLiveRegion(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "terminal")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := func(width int) frame { // as a view for a window
		return frame{lines: []string{strings.Repeat("-", width-1), "> " + strings.Repeat("x", width-4), "keys"}, row: 1, col: width - 2}
	}
	for from := 20; from <= 120; from += 7 {
		for to := 10; to < from; to += 3 {
			for stale := range 3 { // writes for the new size that draw the old view
				for _, early := range []bool{false, true} { // one is on its way when the size has rested
					size := from
					shown := lines(from)
					out := &terminal{File: file, view: func() frame { return shown }, size: func() (int, int, error) { return size, 30, nil }}
					filter := out.resized(func() *tea.Program { return tea.NewProgram(nil) })
					up := func(text string) (n int) {
						written := string(out.fitted([]byte(text), false))
						_, _ = fmt.Sscanf(written, "\x1b[%dA", &n) // without it n is 0
						return n
					}
					filter(nil, tea.WindowSizeMsg{Width: from, Height: 30})
					up("frame")
					size = to
					if filter(nil, tea.WindowSizeMsg{Width: to, Height: 30}) != nil {
						t.Fatal("a size is not held back until it has rested")
					}
					if filter(nil, settledMsg{}) != (tea.WindowSizeMsg{Width: to, Height: 30}) {
						t.Fatal("the size that has rested is not sent")
					}
					if early && out.fitted([]byte("frame"), false) != nil {
						t.Fatal("a frame for the old size is drawn")
					}
					want := (from-2)/to + (from-2)/to // what is above the row of the cursor, and that row
					for i := range stale + 1 {
						if i == stale {
							shown = lines(to)
						}
						if got := up(eraseBelow + "frame"); got != want {
							t.Fatalf("from %d to %d columns, write %d of %d: %d rows up, want %d", from, to, i+1, stale+1, got, want)
						}
						want = 0 // it is cut to the window
					}
				}
			}
		}
	}
}
