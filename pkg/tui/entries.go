package tui

import (
	"strings"

	"github.com/agents-exe/agents/pkg/view"
)

// printTalk prints what is finished in a conversation and not yet printed.
func (m *model) printTalk(t *talk) {
	if q := t.question(); q != nil && q.Question != t.asked {
		t.asked = q.Question
		m.print.add("")
		for _, line := range questionLines(q) {
			m.print.add(m.styled("33", m.wrapped("", line))...)
		}
	}
	if t.tree.Root == nil {
		return
	}
	for ; t.printed < len(t.tree.Root.Entries); t.printed++ {
		e := t.tree.Root.Entries[t.printed]
		if !e.Done {
			break
		}
		if e.Kind != view.EntryReasoning {
			m.print.add(m.entry(e)...)
		}
	}
}

// entry are the lines of an entry of a conversation.
func (m *model) entry(e *view.Entry) []string {
	switch e.Kind {
	case view.EntryPrompt, view.EntryInput:
		return append([]string{""}, m.styled("1", m.wrapped("> ", e.Text))...)
	case view.EntryAnswer:
		return append([]string{""}, m.wrapped("", e.Text)...)
	case view.EntryReasoning:
		return m.styled("2", m.wrapped("  ", strings.TrimSpace(e.Text)))
	case view.EntryCall:
		return []string{e.Call.Line(m.layout(0))}
	case view.EntryEnd:
		return m.failure(e.Text)
	}
	return m.styled("33", m.wrapped("! ", e.Text))
}

// answered are the lines that repeat the answer to a question.
func (m *model) answered(text string) []string {
	return m.styled("1", m.wrapped("> ", text))
}
