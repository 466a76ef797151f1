package tui

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
	"github.com/agents-exe/agents/pkg/source/remote"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// A list is a screen with lines of which one is chosen. What is typed filters them, or is
// searched.
type list struct {
	title  string
	items  []item
	at     int
	typed  string
	search func(words string) tea.Cmd // instead of the filter
	note   string                     // while there are no items
	choose func(i item) tea.Cmd
}

type item struct {
	text, note string
	value      any
}

// shown are the items that the filter lets through.
func (l *list) shown() []item {
	if l.search != nil || l.typed == "" {
		return l.items
	}
	var shown []item
	for _, i := range l.items {
		if strings.Contains(strings.ToLower(i.text+" "+i.note), strings.ToLower(l.typed)) {
			shown = append(shown, i)
		}
	}
	return shown
}

func (l *list) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	keys, shown := m.o.Keys, l.shown()
	switch {
	case keys.is(k, "close"), keys.is(k, "sessions") && l.search != nil:
		m.show(nil)
	case keys.is(k, "above"):
		l.at = max(l.at-1, 0)
	case keys.is(k, "below"):
		l.at = min(l.at+1, max(len(shown)-1, 0))
	case keys.is(k, "back"):
		l.at = max(l.at-m.height+4, 0)
	case keys.is(k, "forward"):
		l.at = min(l.at+m.height-4, max(len(shown)-1, 0))
	case keys.is(k, "send"):
		if l.choose != nil && l.at < len(shown) {
			m.show(nil)
			return l.choose(shown[l.at])
		}
	case k.String() == "ctrl+u":
		return l.type_("")
	case k.Code == tea.KeyBackspace:
		if r := []rune(l.typed); len(r) > 0 {
			return l.type_(string(r[:len(r)-1]))
		}
	case k.Text != "":
		return l.type_(l.typed + k.Text)
	}
	return nil
}

func (l *list) type_(text string) tea.Cmd {
	l.typed, l.at = text, 0
	if l.search != nil {
		l.items, l.note = nil, "searching"
		return l.search(text)
	}
	return nil
}

func (l *list) view(m *model) ([]string, *tea.Cursor) {
	prompt := m.cut("> " + l.typed)
	lines := []string{m.rule(l.title), prompt}
	room := m.height - 3
	shown := l.shown()
	first := max(0, min(l.at-room/2, len(shown)-room))
	for i := first; i < min(first+room, len(shown)); i++ {
		text := m.cut("  " + shown[i].text)
		left := m.width - 3 - termtext.Width(text)
		if i == l.at {
			text = m.style("7", m.cut("> "+shown[i].text))
		}
		if left > 8 && shown[i].note != "" {
			text += m.faint("  " + termtext.Line(shown[i].note, left, m.more()))
		}
		lines = append(lines, text)
	}
	if len(shown) == 0 {
		lines = append(lines, m.faint(m.cut("  "+cmp.Or(l.note, "nothing found"))))
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	k := m.o.Keys
	choose := ""
	if l.choose != nil {
		choose = k.hint("send", "choose")
	}
	lines = append(lines, m.hintLine(choose, k.hint("close", "close")))
	return lines, tea.NewCursor(min(termtext.Width(prompt), m.width-1), 1)
}

func (m *model) newHelp() *list {
	l := &list{title: "keys"}
	below := false
	for _, a := range actions {
		if a.where == inTree && !below {
			below = true
			l.items = append(l.items, item{text: "in the tree and in lists:"})
		}
		keys := m.o.Keys.bindings[a.name].Keys()
		name := "(none)"
		if len(keys) > 0 {
			name = keys[0]
			keys = keys[1:]
		}
		note := a.name
		if len(keys) > 0 {
			note += ", also " + strings.Join(keys, ", ")
		}
		l.items = append(l.items, item{text: fmt.Sprintf("%-10s %s", name, a.about), note: note})
	}
	return l
}

// showAgents begins a conversation, with an agent that the person chooses if there are
// several.
func (m *model) showAgents() tea.Cmd {
	if m.server == nil {
		m.message = "the server is starting"
		return nil
	}
	begin := func(i item) tea.Cmd {
		m.talks = append(m.talks, m.newTalk(i.value.(string), ""))
		m.next(len(m.talks) - 1)
		return nil
	}
	l := &list{title: "agents", choose: begin}
	for _, d := range m.server.agents {
		l.items = append(l.items, item{text: d.Name, note: d.Description, value: d.Name})
	}
	if len(l.items) == 1 {
		return begin(l.items[0])
	}
	m.show(l)
	return nil
}

type (
	sessionsMsg struct {
		words string
		items []item
		err   error
	}
	// searchMsg are words that have rested.
	searchMsg string
	// openMsg is a session to show. in is the conversation that it replaces, if it is a copy
	// of that one, with what is said about it.
	openMsg struct {
		session
		events []agent.Event
		err    error
		in     *talk
		said   string
	}
	// itemsMsg are the items of a list.
	itemsMsg struct {
		list  *list
		items []item
		err   error
	}
)

// searchPause is how long the words of a search rest before it begins.
const searchPause = 200 * time.Millisecond

// showSessions lists the runs of the server and the sessions.
func (m *model) showSessions() tea.Cmd {
	l := &list{title: "runs and sessions; type words to search", note: "searching", choose: func(i item) tea.Cmd {
		return m.join(i.value.(session))
	}}
	l.search = func(words string) tea.Cmd {
		return tea.Tick(searchPause, func(time.Time) tea.Msg { return searchMsg(words) })
	}
	m.show(l)
	return m.find("")
}

// find lists sessions: with no words, runs of servers first.
func (m *model) find(words string) tea.Cmd {
	own, now := m.server, m.now()
	return func() tea.Msg {
		var running []session
		if words == "" {
			running = runs(m.ctx, m.o, own)
		}
		kept, err := sessions(m.ctx, m.o, words)
		var items []item
		for _, s := range append(running, kept...) {
			if s.server == nil && slices.ContainsFunc(running, func(r session) bool { return r.ID == s.ID }) {
				continue
			}
			items = append(items, s.item(now))
		}
		return sessionsMsg{words, items, err}
	}
}

// item is the session in a list.
func (s session) item(now time.Time) item {
	text := fmt.Sprintf("%4s  %-10s  %s  %s", age(now.Sub(s.Changed)), termtext.Line(cmp.Or(s.State, "-"), 10, "…"), s.Agent, cmp.Or(s.Text, s.Prompt))
	note := strings.TrimSpace(s.Cost + "  " + s.ID)
	if here, _ := os.Getwd(); s.Folder != "" && s.Folder != here {
		note = s.Folder + "  " + note
	}
	return item{text: text, note: note, value: s}
}

// age is a time since something, in short.
func age(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// found takes the result of a search, if its words are still wanted.
func (l *list) found(m *model, msg sessionsMsg) {
	if l.search == nil || msg.words != l.typed {
		return
	}
	l.items, l.note = msg.items, ""
	if msg.err != nil {
		l.note = msg.err.Error()
	}
	l.at = min(l.at, max(len(l.items)-1, 0))
}

// join shows the conversation of a session: that which is shown already, a run in
// progress, or one that is kept.
func (m *model) join(s session) tea.Cmd {
	if i := slices.IndexFunc(m.talks, func(t *talk) bool { return t.session == s.ID }); i >= 0 {
		m.next(i)
		return nil
	}
	own := m.server
	return func() tea.Msg { return m.load(s, own) }
}

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
	msg.events, msg.err = events(m.ctx, m.o, s.ID)
	if s.server != nil {
		msg.err = nil // a session of another host is not kept here
		msg.events = earlier(msg.events)
	}
	return msg
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

func (m *model) open(msg openMsg) tea.Cmd {
	if msg.err != nil {
		m.message = msg.err.Error()
		return nil
	}
	if msg.in != nil {
		m.reopened(msg)
		return nil
	}
	t := m.newTalk(msg.Agent, msg.ID)
	t.apart, t.of = msg.apart, msg.ID
	for _, e := range msg.events {
		t.tree.Apply(e)
	}
	if root := t.tree.Root; root != nil {
		t.agent, t.session = root.Agent, root.Session
	}
	if fresh := m.talk(); fresh.tree.Root == nil && !fresh.busy() && fresh.waiting == nil {
		m.talks[m.at] = t
	} else {
		m.talks = append(m.talks, t)
		m.at = len(m.talks) - 1
	}
	m.next(m.at)
	if m.server != nil && !slices.ContainsFunc(m.server.agents, func(d remote.Description) bool { return d.Name == t.agent }) {
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
	default:
		return nil
	}
	return m.begin(t, agent.Start{Session: t.session})
}
