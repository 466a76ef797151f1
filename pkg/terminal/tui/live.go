package tui

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/terminal/input"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/agents-exe/agents/pkg/terminal/view"
)

// View implements tea.Model.
func (m *model) View() tea.View {
	if m.screen != nil {
		lines, cursor := m.screen.view(m)
		v := tea.NewView(strings.Join(lines, "\n"))
		v.AltScreen, v.Cursor = true, cursor
		return v
	}
	lines, row := m.live()
	if m.leaving && m.frames.some() { // it ends only after a frame that is not empty
		lines = nil
	}
	for n := m.frames.add(max(len(lines), 1)); len(lines) < n; row++ {
		lines = append([]string{""}, lines...)
	}
	content := strings.Join(lines, "\n")
	if m.printed {
		content += "\x1b[m" // printing moved the cursor, and a view that is the same is not drawn
	}
	v := tea.NewView(content)
	if m.leaving {
		v.Cursor = tea.NewCursor(0, 0)
	} else if v.Cursor = m.input.Cursor(); v.Cursor != nil {
		v.Cursor.Y += row
	}
	shown := frame{lines: lines}
	if v.Cursor != nil {
		shown.row, shown.col = v.Cursor.Y, v.Cursor.X
	}
	m.frames.show(shown)
	return v
}

// liveRows returns how many rows the live region may take: a third of the screen. Rows of running
// agents may make it higher: see agentRows.
func (m *model) liveRows() int { return max(m.height/3, min(6, m.height-1)) }

// live are the lines of the live region; the input begins at row.
func (m *model) live() (lines []string, row int) {
	t := m.talk()
	below := strings.Split(m.input.View(), "\n")
	if q := t.question(); q != nil {
		below = append([]string{m.style("1;33", m.cut(t.offered(q)))}, below...)
		row++
	}
	for _, message := range t.sent[max(0, len(t.sent)-2):] {
		below = append([]string{m.faint(m.cut("> " + input.Typed(message.Text()) + " (read with the next request)"))}, below...)
		row++
	}
	below = append(below, m.footer())
	room := m.liveRows() - len(below)
	if t.busy() && room > 0 {
		tail := t.tail(min(3, room-1))
		room = max(room, min(len(tail)+m.agentRows(t), m.height*3/4-len(below)))
		tree := m.treeLines(t, room-len(tail))
		lines = append(append(lines, t.tail(room-len(tree))...), tree...)
	}
	if len(lines) == 0 && room > 0 {
		lines = []string{m.rule(m.summary(t))}
	}
	return append(lines, below...), row + len(lines)
}

// agentRows returns how many rows the running agents and their questions need, including the row
// that counts calls for which there is no room. The live region may exceed liveRows for them. It
// returns 0 if no sub-agent runs.
func (m *model) agentRows(t *talk) (n int) {
	more, deep := 0, false
	for _, r := range t.tree.Rows(m.layout(0)) {
		switch {
		case r.Call != nil && !r.Call.State.Ended():
			more = 1
		case r.Call == nil && r.Node != nil && !r.Node.State().Ended():
			n, deep = n+1, deep || r.Node.Depth > 0
		}
	}
	if !deep {
		return 0
	}
	return n + more
}

// treeLines are at most n rows of the tree, or without it those of the agent and of what it
// has called.
func (m *model) treeLines(t *talk, n int) (lines []string) {
	if m.tree {
		return t.tree.Lines(m.layout(n))
	}
	for _, r := range t.tree.Rows(m.layout(0)) {
		if len(lines) < n && r.Node != nil && (r.Node.Depth == 0 || r.Node.Depth == 1 && r.Call == nil) {
			lines = append(lines, r.Text)
		}
	}
	return lines
}

// question is the question that waits, nil if there is none.
func (t *talk) question() *agent.Event {
	if n := t.tree.Question(); n != nil {
		return n.Question
	}
	return nil
}

func (m *model) layout(height int) view.Layout {
	return view.Layout{Width: m.width - 1, Height: height, Now: m.now(), Color: m.o.Color, ASCII: m.o.ASCII, Wide: true}
}

// summary is what a conversation in which nothing runs is.
func (m *model) summary(t *talk) string {
	parts := []string{t.agent}
	if t.agent == "" {
		parts = []string{"starting the server"}
	}
	if len(m.talks) > 1 {
		parts = append(parts, fmt.Sprintf("%d/%d", m.at+1, len(m.talks)))
	}
	if s := t.state(); s != "new" {
		parts = append(parts, s)
	} else if t.agent != "" {
		parts = append(parts, "/help lists the commands")
	}
	if root := t.tree.Root; root != nil && root.Total.Requests > 0 {
		parts = append(parts, root.Total.TokenText(), root.Total.CostText())
	}
	return strings.Join(parts, m.dot())
}

// footer is the line below the input: a message, or what other conversations want, and
// the keys.
func (m *model) footer() string {
	if m.message != "" {
		return m.style("33", m.cut(m.message))
	}
	k := m.o.Keys
	var parts []string
	for i, t := range m.talks {
		if i != m.at && (t.question() != nil || t.busy()) {
			parts = append(parts, fmt.Sprintf("%d %s %s", i+1, t.agent, t.state()))
		}
	}
	stop := ""
	switch {
	case m.search != nil:
		return m.style("33", m.cut(fmt.Sprintf("search: %s", m.search.words)))
	case m.talk().question() != nil:
		stop = k.hint("decline", "decline")
	case m.talk().busy():
		stop = k.hint("stop", "stop")
	}
	next := ""
	if len(m.talks) > 1 {
		next = k.hint("next", "next")
	}
	parts = append(parts, stop, k.hint("help", "keys"), k.hint("tree", "tree"), next, k.hint("sessions", "sessions"), k.hint("leave", "leave"))
	return m.hintLine(parts...)
}

// hintLine is a line of hints: as many as fit.
func (m *model) hintLine(parts ...string) string {
	var shown []string
	width := 0
	for _, p := range parts {
		if p == "" {
			continue
		}
		if width += termtext.Width(p) + 3; width > m.width+2 && len(shown) > 0 {
			break
		}
		shown = append(shown, p)
	}
	return m.faint(m.cut(strings.Join(shown, m.dot())))
}

// rule is a line with a text in it.
func (m *model) rule(text string) string {
	line := m.pick("─", "-")
	text = termtext.Cut(termtext.Visible(text), m.width-5, m.more())
	n := max(m.width-1-termtext.Width(text)-4, 0)
	return m.faint(line+line+" ") + text + m.faint(" "+strings.Repeat(line, n))
}

func (m *model) pick(unicode, ascii string) string {
	if m.o.ASCII {
		return ascii
	}
	return unicode
}

func (m *model) dot() string  { return m.pick(" · ", " - ") }
func (m *model) more() string { return m.pick("…", "...") }

// cut is a text on one line of the screen.
func (m *model) cut(text string) string {
	return termtext.Line(text, m.width-1, m.more())
}

// wrapped is a text on lines of the screen, with a prefix before the first and as many
// blanks before the others.
func (m *model) wrapped(prefix, text string) []string {
	n := termtext.Width(prefix)
	var lines []string
	for line := range strings.SplitSeq(strings.TrimRight(termtext.Clean(text), "\n"), "\n") {
		for _, part := range wrap(strings.ReplaceAll(line, "\t", "    "), max(m.width-1-n, 8)) {
			lines = append(lines, prefix+part)
			prefix = strings.Repeat(" ", n)
		}
	}
	return lines
}

// wrap divides a line into lines of at most n cells, between words where it can. The time that it
// takes grows with the line alone: a result can be a megabyte on one line.
func wrap(line string, n int) (lines []string) {
	for {
		cut, space := row(line, n)
		switch {
		case cut == len(line):
			return append(lines, line)
		case space < 0:
			lines, line = append(lines, line[:cut]), line[cut:]
		default:
			lines, line = append(lines, strings.TrimRight(line[:space], " ")), strings.TrimLeft(line[space:], " ")
		}
	}
}

// row returns the end of what fits n cells, and the last blank at which a longer line can be
// divided, -1 if there is none.
func row(line string, n int) (cut, space int) {
	cells, blank := 0, true
	space = -1
	for i, r := range line {
		if cells += termtext.Cell(r); cells > n && i > 0 {
			if r == ' ' {
				space = i
			}
			return cut, space
		}
		cut = i + utf8.RuneLen(r)
		if r == ' ' && !blank {
			space = i
		}
		blank = blank && unicode.IsSpace(r)
	}
	return len(line), space
}

// style gives a text one of the 16 colors of the terminal, or a weight.
func (m *model) style(code, text string) string {
	if text == "" || !m.o.Color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (m *model) faint(text string) string { return m.style("2", text) }

func (m *model) failure(text string) []string {
	return m.styled("31", m.wrapped("! ", text))
}

func (m *model) styled(code string, lines []string) []string {
	for i := range lines {
		lines[i] = m.style(code, lines[i])
	}
	return lines
}
