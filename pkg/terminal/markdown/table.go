package markdown

import (
	"slices"
	"strings"
)

// isTable reports whether a line is the delimiter row of a table with that head.
func isTable(head, line string) bool {
	if !strings.Contains(head, "|") && !strings.Contains(line, "|") || strings.Trim(line, " |:-\t") != "" || !strings.Contains(line, "-") {
		return false
	}
	rows := row(line)
	for _, c := range rows {
		if c = strings.TrimPrefix(strings.TrimSuffix(c, ":"), ":"); c == "" || strings.Trim(c, "-") != "" {
			return false
		}
	}
	return len(rows) <= maxColumns && len(rows) == len(row(head))
}

func row(line string) []string {
	line = strings.TrimPrefix(strings.TrimSpace(line), "|")
	var list []string
	start := 0
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\\':
			i++
		case line[i] == '|':
			list = append(list, line[start:i])
			start = i + 1
		}
	}
	if rest := line[start:]; !isBlank(rest) {
		list = append(list, rest)
	}
	for i, c := range list {
		list[i] = strings.ReplaceAll(strings.TrimSpace(c), `\|`, "|")
	}
	return list
}

// maxColumns is how many columns a table has at most. More are text.
const maxColumns = 100

// minColumn is the width that a column of a table has at least.
const minColumn = 6

// table draws a table: the first line is its head, the second gives the alignment.
func (b *blocks) table(lines []string) []string {
	align := row(lines[1])
	n := len(align)
	var rows [][][]cell
	for i, l := range lines {
		if i == 1 {
			continue
		}
		texts := row(l)
		cols := make([][]cell, min(len(texts), n)) // those that are missing are empty
		for j, t := range texts[:len(cols)] {
			var s style
			if i == 0 {
				s = bold
			}
			cols[j] = b.inline(t, s)
		}
		rows = append(rows, cols)
	}
	widths := fit(rows, n, b.room()-3*(n-1))
	if widths == nil {
		return b.records(rows)
	}
	var out []string
	for i, r := range rows {
		out = append(out, b.tableRow(r, widths, align)...)
		if i == 0 {
			var parts []string
			for _, w := range widths {
				parts = append(parts, strings.Repeat(b.pick("─", "-"), w))
			}
			out = append(out, b.paint(strings.Join(parts, b.pick("─┼─", "-+-")), dim))
		}
	}
	return out
}

// fit returns the widths of columns whose sum is at most room; nil if there is not enough
// for all. The widest columns shrink first.
func fit(rows [][][]cell, n, room int) []int {
	widths := make([]int, n)
	sum := 0
	for j := range n {
		widths[j] = 1
		for _, r := range rows {
			if j >= len(r) {
				continue
			}
			for _, l := range wrap(r[j], 1<<30) {
				widths[j] = max(widths[j], width(l))
			}
		}
		sum += widths[j]
	}
	for sum > room {
		widest := slices.Index(widths, slices.Max(widths))
		second := minColumn
		for j, w := range widths {
			if j != widest {
				second = max(second, min(w, widths[widest]-1))
			}
		}
		if widths[widest] <= minColumn {
			return nil
		}
		less := max(min(widths[widest]-second, sum-room), 1)
		widths[widest] -= less
		sum -= less
	}
	return widths
}

func width(line []cell) int {
	n := 0
	for _, c := range line {
		n += c.width
	}
	return n
}

// tableRow draws a row, whose cells can have several lines.
func (b *blocks) tableRow(r [][]cell, widths []int, align []string) []string {
	height := 1
	lines := make([][][]cell, len(r))
	for j, c := range r {
		lines[j] = wrap(c, widths[j])
		height = max(height, len(lines[j]))
	}
	var out []string
	for i := range height {
		var s strings.Builder
		for j := range widths {
			var l []cell
			if j < len(r) && i < len(lines[j]) {
				l = lines[j][i]
			}
			left, right := padding(widths[j]-width(l), align[j])
			if j > 0 {
				s.WriteString(b.paint(b.pick(" │ ", " | "), dim))
			}
			s.WriteString(strings.Repeat(" ", left) + b.render(l) + strings.Repeat(" ", right))
		}
		out = append(out, strings.TrimRight(s.String(), " "))
	}
	return out
}

// padding divides the free cells of a column.
func padding(free int, align string) (left, right int) {
	free = max(free, 0)
	start, end := strings.HasPrefix(align, ":"), strings.HasSuffix(align, ":")
	switch {
	case start && end:
		return free / 2, free - free/2
	case end:
		return free, 0
	}
	return 0, free
}

// records draws a table that is too wide as a list: a line "head: value" for each cell.
func (b *blocks) records(rows [][][]cell) []string {
	var out []string
	for i, r := range rows[1:] {
		if i > 0 {
			out = append(out, "")
		}
		for j, c := range r {
			text := slices.Concat(rows[0][j], cells(": ", 0, ""), c)
			for _, l := range wrap(text, b.room()) {
				out = append(out, b.render(l))
			}
		}
	}
	return out
}
