package view

import (
	"strings"

	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// A pen writes lines for a terminal.
type pen struct{ Color, ASCII bool }

// A line is the content of one line.
type line struct {
	depth int
	mark  mark
	name  string // of an agent
	label string
	note  string
	// The figures are aligned at the right where a width is given.
	state, tokens, cost, took string
}

type mark int

const (
	markStart mark = iota
	markRunning
	markOK
	markFailed
	markNotice
	markMore
	markTask
	markDropped
	markAsk
)

// marks are the marks as Unicode and ASCII, and their colors.
var marks = [...]struct{ sign, ascii, color string }{
	markStart:   {"→", ">", "36"},
	markRunning: {"•", "*", "36"},
	markOK:      {"✓", "+", "32"},
	markFailed:  {"✗", "x", "31"},
	markNotice:  {"!", "!", "33"},
	markMore:    {" ", " ", "2"},
	markTask:    {"○", "o", "2"},
	markDropped: {"-", "-", "2"},
	markAsk:     {"?", "?", "33"},
}

// Lines wider than this keep their figures near the text; see Layout.Wide.
const widest = 100

// columns are the widths of the figures, and of the whole line.
type columns struct{ state, tokens, cost, took, all int }

// columns measures the figures of rows. Narrow terminals show fewer of them: the time and
// the cost stay longest.
func (l Layout) columns(rows []Row) columns {
	c, text := columns{}, 0
	for _, r := range rows {
		own := r.line
		if l.Wide && own.name != "" {
			text = max(text, 2*min(own.depth, 10)+len("• ")+termtext.Width(own.name)+2+termtext.Width(own.label))
		}
		c.state, c.tokens = max(c.state, len(own.state)), max(c.tokens, len(own.tokens))
		c.cost, c.took = max(c.cost, len(own.cost)), max(c.took, len(own.took))
	}
	if c.took > 0 {
		c.took = max(c.took, len("9.9 s"))
	}
	if c.state > 0 {
		c.state = max(c.state, len("answering")) // the columns stay where they are
	}
	c.all = min(l.width(), max(widest, text+c.state+c.tokens+c.cost+c.took+len("        "))) // two spaces before each
	if c.all < 76 {
		c.tokens = 0
	}
	if c.all < 56 {
		c.state = 0
	}
	if c.all < 32 {
		c.cost = 0
	}
	return c
}

func (l Layout) width() int {
	if l.Width <= 0 {
		return 80
	}
	return l.Width
}

// figures are the figures of a line, from the first that it has, and the cells that they take.
func (p pen) figures(l line, c columns) (text string, width int) {
	var b strings.Builder
	for _, f := range []struct {
		text  string
		width int
	}{{l.state, -c.state}, {l.tokens, c.tokens}, {l.cost, c.cost}, {l.took, c.took}} {
		pad := strings.Repeat(" ", max(max(f.width, -f.width)-len(f.text), 0))
		switch {
		case f.text == "" && width == 0:
			continue
		case f.width < 0:
			b.WriteString("  " + p.color(f.text, "2") + pad)
		case f.width > 0:
			b.WriteString("  " + pad + p.color(f.text, "2"))
		default:
			continue
		}
		width += 2 + max(f.width, -f.width)
	}
	return strings.TrimRight(b.String(), " "), width
}

// room is the number of cells for the label and the note of a line.
func (p pen) room(l line, c columns) int {
	_, figures := p.figures(l, c)
	room := c.all - figures - 2*min(l.depth, 10) - 2
	if l.name != "" {
		room -= termtext.Width(p.ascii(l.name)) + 2
	}
	return room
}

// mark is the sign of a line, its color, and that of the line's note.
func (p pen) mark(m mark) (sign, color, noteColor string) {
	sign, color, noteColor = marks[m].sign, marks[m].color, "2"
	if p.ASCII {
		sign = marks[m].ascii
	}
	if m == markFailed {
		noteColor = color
	}
	return sign, color, noteColor
}

// aligned is a line with its figures at the right, never wider than c.all.
func (p pen) aligned(l line, c columns) string {
	sign, color, noteColor := p.mark(l.mark)
	indent := strings.Repeat("  ", min(l.depth, 10))
	figures, _ := p.figures(l, c)
	room := p.room(l, c)
	if room < 8 {
		return p.narrow(indent+sign+" ", words(p.ascii(l.name), p.ascii(l.label)), l.took, c)
	}
	name, label, note := p.ascii(l.name), p.ascii(l.label), p.ascii(l.note)
	if name != "" {
		name = p.color(name, "1") + "  "
	}
	if note != "" && label != "" {
		note = "  " + note
	}
	note = termtext.Cut(note, max(room/2, room-termtext.Width(label)), p.more())
	label = termtext.Cut(label, room-termtext.Width(note), p.more())
	room -= termtext.Width(label) + termtext.Width(note)
	left := indent + p.color(sign, color) + " " + name + label + p.color(note, noteColor)
	if figures == "" {
		return strings.TrimRight(left, " ")
	}
	return left + strings.Repeat(" ", room) + figures
}

// narrow is a line that has hardly any room: its text and, if that fits too, its time.
func (p pen) narrow(start, text, took string, c columns) string {
	if room := c.all - termtext.Width(start) - c.took - 2; room >= 8 && c.took > 0 {
		text = termtext.Cut(text, room, p.more())
		return start + text + strings.Repeat(" ", room-termtext.Width(text)+2+c.took-len(took)) + took
	}
	return termtext.Cut(start+text, c.all, p.more())
}

// plain is a line of any width.
func (p pen) plain(l line) string {
	sign, color, noteColor := p.mark(l.mark)
	var took, note string
	if l.took != "" {
		took = "  " + l.took
	}
	if l.note != "" {
		note = "  " + l.note
	}
	return strings.Repeat("  ", min(l.depth, 10)) + p.color(sign, color) + " " + p.ascii(l.label) + p.color(took, "2") + p.color(p.ascii(note), noteColor)
}

func (p pen) more() string {
	if p.ASCII {
		return "..."
	}
	return "…"
}

// ascii replaces characters that a terminal without Unicode cannot show.
func (p pen) ascii(s string) string {
	if !p.ASCII {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r == '…':
			b.WriteString("...")
		case r == '·':
			b.WriteString("-")
		default:
			b.WriteByte('?')
		}
	}
	return b.String()
}

func (p pen) color(s, code string) string {
	if !p.Color || strings.TrimSpace(s) == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}
