package chat

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/terminal/markdown"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/agents-exe/agents/pkg/terminal/view"
)

// widest is the longest line of an answer that is easy to read.
const widest = 100

// A show prints what happens in a conversation.
type show struct {
	w            io.Writer
	color, ascii bool
	all          bool // also what the person said, and how the run ended

	tree   view.Tree
	turns  int      // of the run
	pieces bool     // the answer arrives in pieces
	open   []string // the lines of the answer that are not complete
	answer *markdown.Writer
}

func (s *show) layout(columns int) view.Layout {
	return view.Layout{Width: columns, Now: time.Now(), Color: s.color, ASCII: s.ascii}
}

// live are the lines of what is going on.
func (s *show) live(columns, rows int) []string {
	l := s.layout(columns)
	l.Height = rows
	lines := s.tree.Lines(l)
	return append(slices.Clip(s.open[max(len(s.open)-rows, 0):]), lines...)
}

func (s *show) dim(text string) string { return s.style(text, "2") }

func (s *show) style(text, code string) string {
	if !s.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// prompt prints what the person said.
func (s *show) prompt(text string) {
	fmt.Fprintln(s.w)
	mark := "> "
	for line := range strings.Lines(termtext.Clean(text)) {
		fmt.Fprintln(s.w, s.style(mark+strings.TrimSuffix(line, "\n"), "1"))
		mark = "  "
	}
}

// event prints what an event says.
func (s *show) event(e agent.Event) {
	node := s.tree.Apply(e)
	if e.Depth > 0 {
		return
	}
	switch e.Kind {
	case agent.EventMessage:
		if m := e.Message; s.all && m != nil && m.Role == agent.RoleUser && (!e.Continues() || e.Input) {
			s.prompt(m.Text())
			if !e.Input {
				s.turns = 0
			}
		}
	case agent.EventEnd:
		if s.all {
			s.ended(e)
		}
	case agent.EventRequest:
		s.pieces = false
	case agent.EventText:
		s.pieces = s.pieces || e.Text != ""
		s.text(e.Text)
	case agent.EventAnswer:
		s.turns++
		if !s.pieces && e.Message != nil {
			s.text(e.Message.Text())
		}
		s.endText()
	case agent.EventRetry, agent.EventWarning, agent.EventCompaction:
		s.endText()
		if n := len(node.Entries); n > 0 {
			s.note(node.Entries[n-1].Text)
		}
	case agent.EventCallEnded:
		s.endText()
		if c := find(node, e.Key); c != nil {
			s.call(c)
		}
	}
}

// find returns a call of a node.
func find(n *view.Node, key string) *view.Call {
	for i := len(n.Entries) - 1; i >= 0; i-- {
		if c := n.Entries[i].Call; c != nil && c.Key == key {
			return c
		}
	}
	return nil
}

// call prints a call that has ended, with those of the sub-agent that answered it.
func (s *show) call(c *view.Call) {
	columns, _ := size()
	for _, line := range c.Lines(s.layout(columns - 1)) {
		fmt.Fprintln(s.w, line)
	}
}

// text adds a piece to the answer and prints the blocks that are complete.
func (s *show) text(text string) {
	if s.answer == nil {
		s.answer = &markdown.Writer{W: s.w, Open: func(lines []string) { s.open = lines }, Format: func() markdown.Format {
			columns, _ := size()
			return markdown.Format{Width: min(columns-1, widest), Color: s.color, ASCII: s.ascii}
		}}
	}
	_, _ = io.WriteString(s.answer, text) // nothing is left to be done without the terminal
}

// endText prints what is left of the answer.
func (s *show) endText() {
	if s.answer != nil {
		_ = s.answer.Close() // as above
	}
	s.pieces = false
}

func (s *show) note(text string) { s.lines("! "+text, "33") }

// end prints how a run ended.
func (s *show) end(out *agent.Outcome, err error) {
	s.endText()
	if err != nil {
		s.lines(termtext.Clean("error: "+err.Error()), "31")
	}
	var footer strings.Builder
	(&view.Text{W: &footer, ASCII: s.ascii}).Footer(out, false)
	s.lines(strings.TrimSuffix(footer.String(), "\n"), "2")
}

// lines prints a text in a color, wrapped at the width of the terminal.
func (s *show) lines(text, color string) {
	columns, _ := size()
	for line := range strings.Lines(wrap(text, columns-1, 2)) {
		fmt.Fprintln(s.w, s.style(strings.TrimSuffix(line, "\n"), color))
	}
}

// wrap breaks a line between words; those that follow are indented.
func wrap(text string, columns, indent int) string {
	var b strings.Builder
	used, start := 0, true
	for word := range strings.SplitAfterSeq(text, " ") {
		width := termtext.Width(strings.TrimRight(word, " "))
		if !start && width > 0 && used+width > columns {
			b.WriteString("\n" + strings.Repeat(" ", indent))
			used = indent
		}
		b.WriteString(word)
		used += termtext.Width(word)
		start = start && width == 0 // of the indent
	}
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// ended prints how a run ended, as its last event says.
func (s *show) ended(e agent.Event) {
	out := &agent.Outcome{Status: e.Status, Turns: s.turns, Duration: time.Duration(e.Millis) * time.Millisecond}
	if e.Total != nil {
		out.Total = *e.Total
	}
	var err error
	if e.Error != "" {
		err = errors.New(e.Error)
	}
	s.end(out, err)
}
