package treetest

import (
	"fmt"
	"strings"
)

// The limits of what is shown of a difference.
const (
	maxCells  = 4_000_000 // of the table that compares two lists of lines
	maxShown  = 60        // lines
	maxColumn = 400       // bytes of a line
	around    = 3         // equal lines around a difference
)

// edit is a line of a difference: '-' is expected and missing, '+' is there and
// not expected, ' ' is both.
type edit struct {
	op   byte
	want int // index in the expected list; -1 for '+'
	got  int // index in the other; -1 for '-'
}

// align finds the longest common subsequence of two lists: nWant and nGot are
// their lengths, same compares elements. Where the lists are too long for that,
// what is between their common beginning and end differs as a whole.
func align(nWant, nGot int, same func(want, got int) bool) []edit {
	front := 0
	for front < nWant && front < nGot && same(front, front) {
		front++
	}
	back := 0
	for back < nWant-front && back < nGot-front && same(nWant-1-back, nGot-1-back) {
		back++
	}
	var edits []edit
	for i := range front {
		edits = append(edits, edit{' ', i, i})
	}
	edits = append(edits, middle(front, nWant-back, nGot-back, same)...)
	for i := range back {
		edits = append(edits, edit{' ', nWant - back + i, nGot - back + i})
	}
	return edits
}

// middle aligns want[start:endWant] with got[start:endGot].
func middle(start, endWant, endGot int, same func(want, got int) bool) []edit {
	rows, cols := endWant-start, endGot-start
	length := func(i, j int) int { return 0 }
	if rows*cols <= maxCells {
		table := make([]int32, (rows+1)*(cols+1))
		for i := rows - 1; i >= 0; i-- {
			for j := cols - 1; j >= 0; j-- {
				below, right := table[(i+1)*(cols+1)+j], table[i*(cols+1)+j+1]
				table[i*(cols+1)+j] = max(below, right)
				if same(start+i, start+j) {
					table[i*(cols+1)+j] = max(below, right, table[(i+1)*(cols+1)+j+1]+1)
				}
			}
		}
		length = func(i, j int) int { return int(table[i*(cols+1)+j]) }
	}
	var edits []edit
	i, j := 0, 0
	for i < rows || j < cols {
		switch {
		case i < rows && j < cols && length(i, j) == length(i+1, j+1)+1 && same(start+i, start+j):
			edits = append(edits, edit{' ', start + i, start + j})
			i, j = i+1, j+1
		case i < rows && (j == cols || length(i+1, j) >= length(i, j+1)):
			edits = append(edits, edit{'-', start + i, -1})
			i++
		default:
			edits = append(edits, edit{'+', -1, start + j})
			j++
		}
	}
	return edits
}

// lineDiff shows how got differs from want, line by line.
func lineDiff(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	edits := align(len(a), len(b), func(i, j int) bool { return a[i] == b[j] })
	return render(edits, func(e edit) string {
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
