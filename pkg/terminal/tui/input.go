package tui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// key does what a key means: for the screen that is open, else for the input.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	keys := m.o.Keys
	m.message = ""
	armed := m.armed
	m.armed = false
	switch {
	case m.search != nil && m.searching(k):
		return nil
	case keys.is(k, "suspend"):
		return tea.Suspend
	case keys.is(k, "stop"):
		return m.stop(armed)
	case keys.is(k, "leave") && (m.input.Value() == "" || k.Code != 'd'):
		m.leave()
		return nil
	case keys.is(k, "help") && (m.input.Value() == "" || k.Text == ""):
		m.show(m.newHelp())
		return nil
	case m.screen != nil:
		return m.screen.key(m, k)
	case keys.is(k, "tree"):
		m.show(newInspector(m.talk()))
		return nil
	case keys.is(k, "sessions"):
		return m.showSessions()
	case keys.is(k, "new"):
		return m.showAgents()
	case keys.is(k, "results"):
		m.unfold()
		return nil
	case keys.is(k, "rows"):
		m.tree = !m.tree
		return nil
	case keys.is(k, "search"):
		m.search = &search{was: m.input.Value(), at: m.history.Len()}
		return nil
	case keys.is(k, "next") && m.complete():
		return nil
	case keys.is(k, "next"):
		m.next(m.at + 1)
		return nil
	case keys.is(k, "send"):
		return m.send()
	case keys.is(k, "decline") && m.talk().question() != nil:
		m.talk().decline(m.talk().question())
		m.print.add(m.answered("(declined)")...)
		return nil
	case keys.is(k, "earlier") && m.recalled(-1), keys.is(k, "later") && m.recalled(+1):
		return nil
	}
	var cmd tea.Cmd
	m.input, cmd = m.input.Update(k)
	return cmd
}

// paste adds a text to what is typed: to the words of a search or of a list, else to the input.
func (m *model) paste(text tea.PasteMsg) tea.Cmd {
	words := strings.Join(strings.Fields(text.Content), " ")
	if m.search != nil {
		m.search.words += words
		m.found(m.history.Len())
		return nil
	}
	if l, ok := m.screen.(*list); ok {
		return l.type_(l.typed + words)
	}
	var cmd tea.Cmd
	m.input, cmd = m.input.Update(text)
	return cmd
}

// stop stops the run of the conversation. While none is in progress it empties the input,
// and then leaves if it is pressed again.
func (m *model) stop(armed bool) tea.Cmd {
	t := m.talk()
	switch {
	case m.job != nil:
		m.job.stopped = true
		m.job.cancel()
		return nil
	case t.busy() && t.cancels == 0:
		t.stop()
		m.message = "the run is stopped; the conversation is kept"
	case t.busy() && t.cancels == 1:
		t.stop() // at once
	case armed || m.leaving:
		m.leave()
		return nil
	case m.input.Value() != "":
		m.input.Reset()
	default:
		m.message = fmt.Sprintf("%s again to leave", m.o.Keys.hint("stop", ""))
	}
	m.armed = true
	return nil
}

// A search looks for earlier prompts that contain words, the latest first.
type search struct {
	words string
	was   string // typed before the search
	at    int    // of the history
}

// searching does what a key means for the search. It reports false if the key ends the search
// and is meant for the input.
func (m *model) searching(k tea.KeyPressMsg) bool {
	s := m.search
	switch {
	case m.o.Keys.is(k, "search"):
		m.found(s.at)
	case k.Code == tea.KeyEscape, m.o.Keys.is(k, "stop"):
		m.input.SetValue(s.was)
		m.search = nil
	case k.Code == tea.KeyBackspace:
		if words := []rune(s.words); len(words) > 0 {
			s.words = string(words[:len(words)-1])
		}
		m.found(m.history.Len())
	case k.Text != "":
		s.words += k.Text
		m.found(min(s.at+1, m.history.Len()))
	default:
		m.search = nil
		return k.Code == tea.KeyEnter // which takes what was found
	}
	return true
}

// found shows the last prompt before place i that has the words of the search.
func (m *model) found(i int) {
	if i = m.history.Find(m.search.words, i); i >= 0 {
		m.search.at = i
		m.input.SetValue(m.history.At(i))
	}
}

func (m *model) remember(text string) {
	if err := m.history.Add(text); err != nil {
		m.message = "what you type is not saved: " + err.Error()
	}
	m.recall, m.draft = m.history.Len(), ""
}

// recalled shows the prompt of the history that is by places further, if the cursor is on
// the first or last line.
func (m *model) recalled(by int) bool {
	edge := m.input.Line() == 0
	if by > 0 {
		edge = m.input.Line() == m.input.LineCount()-1
	}
	i := m.recall + by
	if !edge || i < 0 || i > m.history.Len() {
		return false
	}
	if m.recall == m.history.Len() {
		m.draft = m.input.Value()
	}
	m.recall = i
	if i == m.history.Len() {
		m.input.SetValue(m.draft)
	} else {
		m.input.SetValue(m.history.At(i))
	}
	return true
}
