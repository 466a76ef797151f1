package tui

import (
	"fmt"

	tea "charm.land/bubbletea/v2"
)

// key does what a key means: for the screen that is open, else for the input.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	keys := m.o.Keys
	m.message = ""
	armed := m.armed
	m.armed = false
	switch {
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

// stop stops the run of the conversation. While none is in progress it empties the input,
// and then leaves if it is pressed again.
func (m *model) stop(armed bool) tea.Cmd {
	t := m.talk()
	switch {
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
