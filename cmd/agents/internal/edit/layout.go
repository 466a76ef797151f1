package edit

import (
	"fmt"
	"strings"

	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// maxCandidates limits the lines of completion candidates.
const maxCandidates = 5

// Lines returns the text as lines of a terminal, at most rows of them around the
// cursor, and where the cursor is. No line fills the last column.
func (e *Editor) Lines(columns, rows int) (lines []string, row, column int) {
	room := max(columns-1, 4)
	line := termtext.Cut(e.Prompt, room*3/4, "> ")
	indent := strings.Repeat(" ", termtext.Width(line))
	width := len(indent)
	wrap := func() {
		lines = append(lines, line)
		line, width = indent, len(indent)
	}
	for i, r := range e.text {
		shown := string(r)
		switch {
		case r == '\t':
			shown = "    "
		case r != '\n' && termtext.Hidden(r):
			shown = "" // it would change the order of what follows
		}
		cells := termtext.Width(shown)
		if r == '\n' {
			shown, cells = "", 0
		}
		if width+cells > room {
			wrap()
		}
		if i == e.at {
			row, column = len(lines), width
		}
		line += shown
		width += cells
		if r == '\n' {
			wrap()
		}
	}
	if e.at == len(e.text) {
		if width >= room {
			wrap()
		}
		row, column = len(lines), width
	}
	lines = append(lines, line)
	candidates := e.candidateLines(room)
	rows = max(rows-len(candidates), 3)
	if len(lines) > rows {
		from := min(max(row-rows/2, 0), len(lines)-rows)
		note := fmt.Sprintf("%s(%d lines)", indent, len(lines))
		lines = append([]string{note}, lines[from+1:from+rows]...)
		row = max(row-from, 1)
	}
	return append(lines, candidates...), row, column
}

// candidateLines shows the candidates in columns, or as many as there is room for.
func (e *Editor) candidateLines(room int) []string {
	var lines []string
	line := " "
	for i, c := range e.candidates {
		c = termtext.Clean(c)
		if termtext.Width(line)+termtext.Width(c)+2 > room && line != " " {
			lines = append(lines, line)
			line = " "
			if len(lines) == maxCandidates-1 {
				return append(lines, fmt.Sprintf("  and %d more", len(e.candidates)-i))
			}
		}
		line += " " + c
	}
	if line != " " {
		lines = append(lines, termtext.Cut(line, room, "…"))
	}
	return lines
}
