package tui

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/terminal/view"
)

// An inspector is the screen that shows the tree of a conversation and, below it, what the
// chosen agent did and does. What is typed goes to that agent.
type inspector struct {
	talk *talk
	node string // the session of the chosen agent; "" is the root
	// back is how many lines the conversation is scrolled back. last is the entry that was
	// the last when it was drawn, with lastRows lines: what follows does not move the view.
	back     int
	last     *view.Entry
	lastRows int
	alone    bool // the tree is hidden
	open     bool // results are shown in full

	width int // of the lines in drawn
	drawn map[*view.Entry][]string
}

func newInspector(t *talk) *inspector { return &inspector{talk: t} }

// chosen is the agent that is chosen, nil before the first event.
func (s *inspector) chosen() *view.Node {
	if n := s.talk.tree.Node(s.node); n != nil {
		return n
	}
	return s.talk.tree.Root
}

func (s *inspector) rows(m *model) []view.Row {
	l := m.layout(0)
	l.Ended = true
	return slices.DeleteFunc(s.talk.tree.Rows(l), func(r view.Row) bool { return r.Node == nil || r.Call != nil })
}

func (s *inspector) move(m *model, by int) {
	var nodes []*view.Node
	for _, r := range s.rows(m) {
		if !slices.Contains(nodes, r.Node) {
			nodes = append(nodes, r.Node)
		}
	}
	i := slices.Index(nodes, s.chosen()) + by
	if i >= 0 && i < len(nodes) {
		s.node, s.back, s.last = nodes[i].Session, 0, nil
	}
}

func (s *inspector) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	keys, n := m.o.Keys, s.chosen()
	page := max(m.height/2, 1)
	switch {
	case keys.is(k, "close"), keys.is(k, "tree"):
		m.show(nil)
	case keys.is(k, "sessions"):
		return m.showSessions()
	case keys.is(k, "next"):
		m.at = (m.at + 1) % len(m.talks)
		m.show(newInspector(m.talk()))
	case keys.is(k, "above"):
		s.move(m, -1)
	case keys.is(k, "below"):
		s.move(m, +1)
	case keys.is(k, "back"):
		s.back += page
	case keys.is(k, "forward"):
		s.back = max(s.back-page, 0)
	case keys.is(k, "enter"):
		s.alone = !s.alone
	case keys.is(k, "results"):
		s.open, s.drawn = !s.open, nil
	case keys.is(k, "send"):
		return s.send(m)
	case keys.is(k, "end") && n != nil:
		s.end(m, n)
	case keys.is(k, "fork") && n != nil:
		m.show(m.newTurns(s.talk, n))
	default:
		var cmd tea.Cmd
		m.input, cmd = m.input.Update(k)
		return cmd
	}
	return nil
}

// end stops the chosen agent: the root with the run, another alone.
func (s *inspector) end(m *model, n *view.Node) {
	switch {
	case !s.talk.busy() || n.State().Ended():
		m.message = n.Agent + " is not running"
	case n.Parent == nil:
		s.talk.stop()
	default:
		s.direct(m, agent.Directive{Session: n.Session, Stop: true, Reason: "a person stopped it"})
	}
}

func (s *inspector) send(m *model) tea.Cmd {
	n, text := s.chosen(), m.input.Value()
	switch {
	case n == nil || n.Parent == nil, n.Question != nil:
		return m.send()
	case text == "":
	case !s.talk.busy() || n.State().Ended():
		m.message = n.Agent + " is not running, so nobody would read the message"
	default:
		if s.direct(m, agent.Directive{Session: n.Session, Message: &agent.Message{Role: agent.RoleUser, Parts: []agent.Part{{Kind: agent.PartText, Text: text}}}}) {
			m.remember(text)
			m.input.Reset()
		}
	}
	return nil
}

func (s *inspector) direct(m *model, d agent.Directive) bool {
	if err := s.talk.run.held.Direct(d); err != nil {
		m.message = err.Error()
		return false
	}
	return true
}

func (s *inspector) view(m *model) ([]string, *tea.Cursor) {
	var lines []string
	n, hidden := s.chosen(), 0
	if !s.alone {
		lines, hidden = s.tree(m, max(m.height*2/5, 3))
	}
	title := "nothing has happened yet"
	if n != nil {
		title = n.Agent + m.dot() + n.State().String()
		if n.Model != "" {
			title += m.dot() + n.Model
		}
		if n.Turn > 0 {
			title += m.dot() + fmt.Sprintf("turn %d", n.Turn)
		}
	}
	if s.back > 0 {
		title += m.dot() + "scrolled back"
	}
	if hidden > 0 {
		title += m.dot() + fmt.Sprintf("%d more in the tree", hidden)
	}
	lines = append(lines, m.rule(title))
	below, row := s.below(m, n)
	room := max(m.height-len(lines)-len(below), 1)
	lines = append(lines, s.conversation(m, n, room)...)
	cursor := m.input.Cursor()
	if cursor != nil {
		cursor.Y += len(lines) + row
	}
	return append(lines, below...), cursor
}

// tree returns at most n rows of agents, with the chosen one among them, and how many rows are
// hidden.
func (s *inspector) tree(m *model, n int) (lines []string, hidden int) {
	rows, chosen := s.rows(m), s.chosen()
	at := max(slices.IndexFunc(rows, func(r view.Row) bool { return r.Node == chosen }), 0)
	first := max(0, min(at-n/2, len(rows)-n))
	for i := first; i < min(first+n, len(rows)); i++ {
		mark := " "
		if i == at {
			mark = m.style("1;36", ">")
		}
		lines = append(lines, mark+rows[i].Text)
	}
	return lines, len(rows) - len(lines)
}

// below is the question of the chosen agent, the input and the keys. The input begins at
// row.
func (s *inspector) below(m *model, n *view.Node) (lines []string, row int) {
	rule := ""
	if n != nil {
		rule = "to " + n.Agent
		if q := n.Question; q != nil {
			lines = append([]string{m.rule("question")}, m.questionText(q)...)
			if most := max(m.height/3, 2); len(lines) > most {
				lines = append(lines[:most-1], m.faint(m.cut("  the rest is in the scrollback")))
			}
			rule = s.talk.offered(q)
		}
	}
	lines = append(lines, m.rule(rule))
	row = len(lines)
	lines = append(lines, strings.Split(m.input.View(), "\n")...)
	if m.message != "" {
		return append(lines, m.style("33", m.cut(m.message))), row
	}
	k := m.o.Keys
	up := strings.TrimSpace(k.hint("above", "")) + "/" + k.hint("below", "choose")
	return append(lines, m.hintLine(up, k.hint("close", "close"), k.hint("end", "stop"), k.hint("back", "scroll"), k.hint("fork", "fork"), k.hint("enter", "alone"), k.hint("help", "keys"))), row
}

// conversation renders what an agent did and said on rows lines, to the end or to where it is
// scrolled back. It looks only at the entries that it shows and those after them.
func (s *inspector) conversation(m *model, n *view.Node, rows int) []string {
	if n == nil {
		return make([]string, rows)
	}
	if s.width != m.width || s.drawn == nil {
		s.width, s.drawn, s.last = m.width, map[*view.Entry][]string{}, nil
	}
	var blocks [][]string
	total := 0
	last, lastRows := s.last, s.lastRows
	for i := len(n.Entries) - 1; i >= 0 && (total < rows+s.back || last != nil && s.back > 0); i-- {
		e := n.Entries[i]
		lines, ok := s.drawn[e]
		if !ok {
			lines = m.entry(e, s.open)
			if e.Done {
				s.drawn[e] = lines
			}
		}
		blocks = append(blocks, lines)
		total += len(lines)
		if e == last {
			if s.back > 0 {
				s.back += total - lastRows
			}
			last = nil
		}
		if len(blocks) == 1 {
			s.last, s.lastRows = e, len(lines)
		}
	}
	s.back = max(0, min(s.back, total-rows))
	var lines []string
	for _, b := range slices.Backward(blocks) {
		lines = append(lines, b...)
	}
	end := len(lines) - s.back
	lines = lines[max(0, end-rows):end]
	return append(lines, make([]string, rows-len(lines))...)
}

// newTurns is the list of turns of an agent from which a copy can continue.
func (m *model) newTurns(t *talk, n *view.Node) *list {
	l := &list{title: "continue a copy of " + n.Agent + " after the turn", note: "there is no turn yet"}
	last := 0
	for _, e := range n.Entries {
		if e.Turn == 0 || e.Turn == last && e.Kind != view.EntryAnswer {
			continue
		}
		i := item{text: fmt.Sprintf("%d  %s", e.Turn, brief(e)), value: e.Turn}
		if e.Turn == last {
			l.items[len(l.items)-1] = i
		} else {
			l.items = append(l.items, i)
		}
		last = e.Turn
	}
	l.at = max(len(l.items)-1, 0)
	l.choose = func(i item) tea.Cmd {
		was, apart := t.session, n.Parent != nil || t.apart
		return func() tea.Msg {
			id, err := fork(m.ctx, m.o, was, n, i.value.(int))
			if err != nil {
				return failedMsg{err}
			}
			return m.load(session{ID: id, Agent: n.Agent, apart: apart}, nil)
		}
	}
	return l
}

// brief is an entry on one line.
func brief(e *view.Entry) string {
	if e.Call != nil {
		return e.Call.Tool
	}
	return e.Text
}
