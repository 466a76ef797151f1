package tui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/terminal/input"
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
		if !continuable() {
			m.message = "cannot suspend here: no shell could continue this program"
			return nil
		}
		return tea.Suspend
	case keys.is(k, "stop"):
		return m.stop(armed)
	case keys.is(k, "leave") && (m.input.Value() == "" || k.Code != 'd'):
		m.leave()
		return nil
	case keys.is(k, "help") && (m.input.Value() == "" || k.Text == ""):
		m.show(m.newHelp())
		return nil
	case m.front() != nil:
		return m.front().key(m, k)
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
	if l, ok := m.front().(*list); ok {
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

// send sends what the person typed: as the answer to a question, as a message for the run
// in progress, or as the prompt of a new run.
func (m *model) send() tea.Cmd {
	t, text := m.talk(), m.input.Value()
	if n := m.asks(); n != nil {
		if text != "" && m.begun != n.Question.Question {
			m.begun, m.message = n.Question.Question, m.o.Keys.hint("send", "again answers the question, which came while you typed")
			return nil
		}
		if err := t.answer(n.Question, text); err != nil {
			m.message = err.Error()
			return nil
		}
		m.input.Reset()
		m.print.add(m.answered(text)...)
		return nil
	}
	if rest, ok := strings.CutSuffix(text, `\`); ok {
		m.input.SetValue(rest + "\n")
		return nil
	}
	if strings.TrimSpace(text) == "" {
		if t.reason != "" && !t.busy() && t.session != "" {
			return m.begin(t, agent.Start{Session: t.session})
		}
		return nil
	}
	name, args, slash := input.Slash(text)
	line, shell := strings.CutPrefix(text, "!")
	switch {
	case t.loading && (slash || shell || t.session == "" || t.waiting != nil):
		m.message, m.entered = "the session is being read", true
		return nil
	case slash || shell:
		if shell && m.job != nil {
			m.message = "a command is running"
			return nil
		}
		m.remember(text)
		m.input.Reset()
		m.print.add(append([]string{""}, m.answered(text)...)...)
		if shell {
			return m.shell(line)
		}
		return m.command(name, args)
	case t.waiting != nil:
		m.message, m.entered = "the server is starting", true
		return nil
	case m.job != nil:
		m.message = "a command is running; its output goes along with the next message"
		return nil
	}
	message, err := input.Message(text, t.outputs)
	if err != nil {
		m.message = err.Error()
		return nil
	}
	t.outputs = nil
	m.remember(text)
	m.input.Reset()
	if t.busy() {
		t.sent = append(t.sent, message)
		if err := t.run.held.Direct(agent.Directive{Message: &message}); err != nil {
			m.message = err.Error()
		}
		return nil
	}
	return m.begin(t, m.prompt(t, message))
}

// sendEntered is called when something has happened that send may wait for.
func (m *model) sendEntered(cmd tea.Cmd) tea.Cmd {
	if !m.entered {
		return cmd
	}
	m.entered, m.message = false, ""
	return tea.Batch(cmd, m.send())
}
