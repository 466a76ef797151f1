package standin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// Limits of a difference: a person reads it.
const (
	MaxDiffLines = 60
	around       = 3      // equal lines around a difference
	maxCompared  = 50_000 // lines of each side
)

// An Edit is a line of a difference: '-' is only in the first list, '+' only in
// the second, ' ' in both.
type Edit struct {
	Op   byte
	Want int // index in the first list; -1 for '+'
	Got  int // index in the second list; -1 for '-'
}

// Align finds what two lists of lines have in common.
func Align(want, got []string) []Edit {
	var edits []Edit
	i, j := 0, 0
	equal := func(until int) {
		for ; i < until; i, j = i+1, j+1 {
			edits = append(edits, Edit{' ', i, j})
		}
	}
	for _, c := range lcs.DiffLines(want, got) {
		for equal(c.Start); i < c.End; i++ {
			edits = append(edits, Edit{'-', i, -1})
		}
		for ; j < c.ReplEnd; j++ {
			edits = append(edits, Edit{'+', -1, j})
		}
	}
	equal(len(want))
	return edits
}

// Diff shows the differences between two lists of lines, each with a few equal
// lines around it, below a line that says where it is. It is empty if there are
// none.
func Diff(want, got []string) string {
	want, got = want[:min(len(want), maxCompared)], got[:min(len(got), maxCompared)]
	edits := Align(want, got)
	near := NearEdits(edits)
	var lines []string
	line := 1 // of want
	for i, e := range edits {
		if near[i] && (i == 0 || !near[i-1]) {
			lines = append(lines, fmt.Sprintf("@@ line %d @@", line))
		}
		if e.Op != '+' {
			line++
		}
		switch {
		case near[i] && e.Op == '+':
			lines = append(lines, "+"+got[e.Got])
		case near[i]:
			lines = append(lines, string(e.Op)+want[e.Want])
		}
	}
	return Join(lines, "")
}

// NearEdits says of each edit whether it is shown: it is a difference or near one.
func NearEdits(edits []Edit) []bool {
	near := make([]bool, len(edits))
	for i, e := range edits {
		if e.Op != ' ' {
			for k := max(0, i-around); k <= min(len(edits)-1, i+around); k++ {
				near[k] = true
			}
		}
	}
	return near
}

// Join joins the first MaxDiffLines lines, and says after indent how many more
// there are.
func Join(lines []string, indent string) string {
	if more := len(lines) - MaxDiffLines; more > 0 {
		lines = append(slices.Clip(lines[:MaxDiffLines]), fmt.Sprintf("%s… and %d more lines", indent, more))
	}
	return strings.Join(lines, "\n")
}
