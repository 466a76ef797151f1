package treetest

import (
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// The limits of what is shown of a difference.
const (
	maxShown  = 60  // lines
	maxColumn = 400 // bytes of a line
	around    = 3   // equal lines around a difference
)

// edit is a line of a difference: '-' is expected and missing, '+' is there and
// not expected, ' ' is both.
type edit struct {
	op   byte
	want int // index in the expected list; -1 for '+'
	got  int // index in the other; -1 for '-'
}

// align finds what two lists of lines have in common.
func align(want, got []string) []edit {
	var edits []edit
	i, j := 0, 0
	both := func(until int) {
		for ; i < until; i, j = i+1, j+1 {
			edits = append(edits, edit{' ', i, j})
		}
	}
	for _, c := range lcs.DiffLines(want, got) {
		for both(c.Start); i < c.End; i++ {
			edits = append(edits, edit{'-', i, -1})
		}
		for ; j < c.ReplEnd; j++ {
			edits = append(edits, edit{'+', -1, j})
		}
	}
	both(len(want))
	return edits
}

// lineDiff shows how got differs from want, line by line.
func lineDiff(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	return render(align(a, b), func(e edit) string {
		if e.op == '+' {
			return b[e.got]
		}
		return a[e.want]
	})
}

// render writes a difference with a few equal lines around each change.
func render(edits []edit, text func(edit) string) string {
	keep := make([]bool, len(edits))
	for i, e := range edits {
		if e.op != ' ' {
			for k := max(0, i-around); k <= min(len(edits)-1, i+around); k++ {
				keep[k] = true
			}
		}
	}
	var lines []string
	for i, e := range edits {
		switch {
		case keep[i]:
			for line := range strings.SplitSeq(text(e), "\n") {
				lines = append(lines, string(e.op)+" "+clip(line))
			}
		case i == 0 || keep[i-1]:
			lines = append(lines, "  …")
		}
	}
	return cut(lines)
}

// shown is a text as part of a failure.
func shown(text string) string {
	if text == "" {
		return "+ (nothing)"
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, "+ "+clip(line))
	}
	return cut(lines)
}

func cut(lines []string) string {
	if n := len(lines) - maxShown; n > 0 {
		lines = append(lines[:maxShown:maxShown], fmt.Sprintf("  … and %d more lines", n))
	}
	return strings.Join(lines, "\n")
}

func clip(line string) string {
	if len(line) <= maxColumn {
		return line
	}
	return strings.ToValidUTF8(line[:maxColumn], "") + fmt.Sprintf("… (%d bytes)", len(line))
}
