package view

import (
	"strings"

	"github.com/agents-exe/agents/pkg/termtext"
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

// marks are the marks as Unicode and ASCII, and their colours.
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

// Lines wider than this keep their figures near the text.
const widest = 110

// columns are the widths of the figures, and of the whole line.
type columns struct{ state, tokens, cost, took, all int }

// columns measures the figures of lines. Narrow terminals show fewer of them: the time and
// the cost stay longest.
func (l Layout) columns(lines []line) columns {
	c := columns{all: min(l.width(), widest)}
	for _, l := range lines {
		c.state, c.tokens = max(c.state, len(l.state)), max(c.tokens, len(l.tokens))
		c.cost, c.took = max(c.cost, len(l.cost)), max(c.took, len(l.took))
	}
	if c.state > 0 {
		c.state = max(c.state, len("answering")) // the columns stay where they are
	}
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

// aligned is a line with its figures at the right, never wider than c.all.
func (p pen) aligned(l line, c columns) string {
	m := marks[l.mark]
	sign := m.sign
	if p.ASCII {
		sign = m.ascii
	}
	var right string
	last := 0 // of the cells on the right that are not blank
	for _, f := range []struct {
		text, color string
		width       int
		left        bool
	}{{l.state, "2", c.state, true}, {l.tokens, "2", c.tokens, false}, {l.cost, "2", c.cost, false}, {l.took, "2", c.took, false}} {
		if f.width == 0 {
			continue
		}
		pad := strings.Repeat(" ", max(f.width-len(f.text), 0))
		if f.left {
			right += "  " + p.color(f.text, f.color) + pad
		} else {
			right += "  " + pad + p.color(f.text, f.color)
		}
		last += 2 + f.width
	}
	indent := strings.Repeat("  ", min(l.depth, 10))
	room := c.all - last - termtext.Width(indent) - 2
	if room < 1 {
		return p.ascii(termtext.Cut(indent+sign+" "+words(l.name, l.label), c.all, p.more()))
	}
	name := termtext.Cut(p.ascii(l.name), room, p.more())
	room -= termtext.Width(name)
	between := ""
	if name != "" && l.label != "" && room > 4 {
		between = "  "
	}
	label, note := p.ascii(l.label), p.ascii(l.note)
	if note != "" {
		note = "  " + note
	}
	room -= len(between)
	if between == "" && name != "" {
		label = ""
	}
	note = termtext.Cut(note, max(room/2, room-termtext.Width(label)), p.more())
	label = termtext.Cut(label, room-termtext.Width(note), p.more())
	room -= termtext.Width(label) + termtext.Width(note)
	noteColor := "2"
	if l.mark == markFailed {
		noteColor = m.color
	}
	left := indent + p.color(sign, m.color) + " " + p.color(name, "1") + between + label + p.color(note, noteColor)
	if strings.TrimSpace(right) == "" {
		return left
	}
	return strings.TrimRight(left+strings.Repeat(" ", max(room, 0))+right, " ")
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
