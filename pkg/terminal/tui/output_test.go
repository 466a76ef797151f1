package tui

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
				for moment := range 4 {
					early, unsaid := moment&1 > 0, moment&2 > 0 // a frame is on its way when the size has rested, or before it is known
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
					if unsaid && out.fitted([]byte("frame"), false) != nil {
						t.Fatal("a frame is drawn that is wider than the window")
					}
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

// Frames that are held back do not put off the moment in which the live region is drawn again.
func TestTheLiveRegionIsHeldForAMoment(t *testing.T) {
	for _, pause := range []time.Duration{time.Millisecond, settleTime / 10, settleTime - 1, 2 * settleTime} {
		synctest.Test(t, func(t *testing.T) {
			size, settled := 80, atomic.Bool{}
			out := &terminal{view: func() frame { return frame{lines: []string{"> "}} }, size: func() (int, int, error) { return size, 30, nil }}
			filter := out.resized(func() *tea.Program { return nil })
			out.rested = time.AfterFunc(settleTime, func() { settled.Store(true) })
			out.rested.Stop()
			filter(nil, tea.WindowSizeMsg{Width: size, Height: 30})
			size = 60
			for end := time.Now().Add(2 * settleTime); time.Now().Before(end); time.Sleep(pause) {
				if !settled.Load() && out.fitted([]byte("frame"), false) != nil {
					t.Fatal("a frame is drawn that is wider than the window")
				}
			}
			if !settled.Load() {
				t.Errorf("with a frame each %v, the live region is not drawn again", pause)
			}
		})
	}
}

// The live region gets its height although the renderer writes nothing for a view that is on the
// screen already, so that nobody hears that it was drawn.
func TestTheLiveRegionIsNotHigherForEver(t *testing.T) {
	for _, wanted := range [][2]int{{5, 3}, {9, 3}, {4, 1}} {
		var f frames
		f.add(wanted[0])
		f.drawn()
		f.add(wanted[1])
		f.drawn() // and while this is reported, the same is drawn again
		for n := wanted[0] - 1; n > wanted[1]; n-- {
			for range 3 {
				if got := f.add(wanted[1]); got != n || !f.high() {
					t.Fatalf("%v: %d rows are shown, want %d", wanted, got, n)
				}
			}
			f.rest(time.Time{}) // the last view may not be on the screen yet
			if got := f.add(wanted[1]); got != n {
				t.Fatalf("%v: %d rows are shown too soon, want %d", wanted, got, n)
			}
			f.rest(time.Now().Add(time.Second))
		}
		if got := f.add(wanted[1]); got != wanted[1] || f.high() {
			t.Errorf("%v: %d rows are shown at last", wanted, got)
		}
	}
}
