package tui

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
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
	back   screen // is shown when the list is closed
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

// fill replaces the items. An item that the person has moved to stays chosen.
func (l *list) fill(items []item) {
	shown := l.shown()
	l.items, l.note = items, ""
	if l.at > 0 && l.at < len(shown) {
		was := shown[l.at].text
		l.at = max(0, slices.IndexFunc(l.shown(), func(i item) bool { return i.text == was }))
	}
}

func (l *list) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	keys, shown := m.o.Keys, l.shown()
	switch {
	case keys.is(k, "close"), keys.is(k, "sessions") && l.search != nil:
		m.show(l.back)
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
	if tree, ok := m.front().(*inspector); ok {
		l.back = tree
	}
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
