package tui

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
	"github.com/agents-exe/agents/pkg/terminal/view"
)

type (
	// recentMsg is the end of a session: what is shown while all of it is read.
	recentMsg struct {
		id     string
		events []agent.Event
	}
	// openMsg is a session to show. in is the conversation that it replaces, if it is a copy
	// of that one, with what is said about it.
	openMsg struct {
		session
		tree *view.Tree
		err  error
		in   *talk
		said string
	}
)

// screens is how much of a conversation is printed when it is opened: the rest would only push
// out of the scrollback what the person has there.
const screens = 3

// join shows the conversation of a session: that which is shown already, a run in
// progress, or one that is kept.
func (m *model) join(s session) tea.Cmd {
	if i := slices.IndexFunc(m.talks, func(t *talk) bool { return t.session == s.ID }); i >= 0 {
		m.next(i)
		return nil
	}
	own := m.server
	return tea.Sequence(m.recent(s.ID), func() tea.Msg { return m.load(s, own) })
}

// recent reads the end of a session.
func (m *model) recent(id string) tea.Cmd {
	return func() tea.Msg {
		list, _ := events(m.ctx, m.o, id, "--recent") // reading all of it says what is wrong
		return recentMsg{id, list}
	}
}

// load reads a session.
func (m *model) load(s session, own *server) tea.Msg {
	if s.server == nil {
		for _, r := range runs(m.ctx, m.o, own) {
			if strings.HasPrefix(r.ID, s.ID) {
				s = r
				break
			}
		}
	}
	msg := openMsg{session: s}
	list, err := events(m.ctx, m.o, s.ID)
	if s.server != nil {
		list, err = earlier(list), nil // a session of another host is not kept here
	}
	msg.tree, msg.err = treeOf(list), err
	return msg
}

func treeOf(events []agent.Event) *view.Tree {
	t := &view.Tree{}
	for _, e := range events {
		t.Apply(e)
	}
	return t
}

// earlier are the events before the last run, which the server sends.
func earlier(events []agent.Event) []agent.Event {
	last, runs := 0, 0
	for i, e := range events {
		if e.Depth == 0 && (e.Kind == agent.EventMessage && !e.Opening && !e.Continues() || e.Kind == agent.EventResume) {
			last = i
			runs++
		}
	}
	if runs < 2 {
		return nil
	}
	return events[:last]
}

// openRecent shows the end of a session, without a run that has not ended: what is left of it is
// known when all of it is read.
func (m *model) openRecent(msg recentMsg) {
	tree := treeOf(msg.events)
	if tree.Root != nil && !tree.Root.State().Ended() {
		tree = treeOf(earlier(msg.events))
	}
	root := tree.Root
	if root == nil || slices.ContainsFunc(m.talks, func(t *talk) bool { return t.session == root.Session }) {
		return
	}
	t := m.newTalk(root.Agent, root.Session)
	t.tree, t.of, t.loading = tree, msg.id, true
	m.place(t, msg.events[0].Kind == agent.EventSession)
}

// place shows a conversation, in the place of one in which nothing has happened. begins means
// that its tree has the beginning of the session.
func (m *model) place(t *talk, begins bool) {
	if fresh := m.talk(); fresh.tree.Root == nil && !fresh.busy() && fresh.waiting == nil {
		m.talks[m.at] = t
	} else {
		m.talks = append(m.talks, t)
		m.at = len(m.talks) - 1
	}
	note := ""
	if root := t.tree.Root; root != nil {
		i, rows := len(root.Entries), 0
		for i > 0 && rows < screens*m.height {
			i--
			rows += len(m.entry(root.Entries[i], false))
		}
		if t.printed = i; i > 0 || !begins {
			note = "earlier: " + m.o.Keys.hint("tree", "tree") + ", " + m.o.Keys.hint("back", "scrolls back")
		}
	}
	m.shown(note)
}

// complete gives a conversation of which the end is shown the whole of its session.
func (t *talk) complete(tree *view.Tree) {
	was, root := t.tree.Root.Entries, tree.Root
	t.tree, t.loading = tree, false
	left := len(was) - t.printed
	last := was[len(was)-1]
	i := len(root.Entries) - 1
	for i >= 0 && !same(root.Entries[i], last) {
		i--
	}
	t.printed = max(i+1-left, 0)
}

func (m *model) open(msg openMsg) tea.Cmd {
	if msg.err != nil {
		for _, t := range m.talks {
			t.loading = t.loading && t.session != "" && t.of != msg.ID
		}
		m.message = msg.err.Error()
		return nil
	}
	if msg.in != nil {
		m.reopened(msg)
		return nil
	}
	t := m.opened(msg)
	if m.server != nil && m.agentIndex(t.agent) < 0 {
		t.apart = true
	}
	root := t.tree.Root
	switch {
	case msg.server != nil:
		if t.server = msg.server; !strings.HasPrefix(t.server.URL, wsconn.Socket) {
			t.approvals = Approvals{}
		}
	case msg.ID == m.o.Session && root != nil && !root.State().Ended():
		m.print.add(m.styled("33", m.wrapped("! ", "the last run did not end; it continues"))...)
	case t.waiting != nil:
		return m.begin(t, *t.waiting)
	default:
		return nil
	}
	if t.waiting != nil && m.input.Value() == "" { // the run in progress was not known
		m.input.SetValue(m.history.At(m.history.Len() - 1))
	}
	return m.begin(t, agent.Start{Session: t.session})
}

// opened returns the conversation of a session that was read: that of which the end is shown, or
// a new one.
func (m *model) opened(msg openMsg) *talk {
	root := msg.tree.Root
	i := slices.IndexFunc(m.talks, func(t *talk) bool { return t.loading && root != nil && t.session == root.Session })
	if i >= 0 {
		t := m.talks[i]
		t.apart, t.of = msg.apart, msg.ID
		t.complete(msg.tree)
		if s, ok := m.front().(*inspector); ok {
			s.last = nil
		}
		if i == m.at {
			m.printTalk(t)
		}
		return t
	}
	t := m.newTalk(msg.Agent, msg.ID)
	t.apart, t.of, t.tree = msg.apart, msg.ID, msg.tree
	if root != nil {
		t.agent, t.session = root.Agent, root.Session
	}
	m.place(t, true)
	return t
}

// same reports whether two trees of a session have an entry in common.
func same(a, b *view.Entry) bool {
	if a.Call != nil && b.Call != nil {
		return a.Call.Key == b.Call.Key
	}
	return a.Kind == b.Kind && a.Turn == b.Turn && a.Text == b.Text && a.Call == b.Call
}
