package tui

import (
	"slices"
	"strings"

	"github.com/agents-exe/agents/pkg/terminal/input"
	"github.com/agents-exe/agents/pkg/terminal/markdown"
	"github.com/agents-exe/agents/pkg/terminal/view"
)

// An answerStream prints an answer while it arrives: each block when it is finished.
type answerStream struct {
	text   string // that was written
	lines  []string
	open   []string // of the block that is not finished
	writer markdown.Writer
}

// printTalk prints what is finished in a conversation and not yet printed.
func (m *model) printTalk(t *talk) {
	if root := t.tree.Root; root != nil {
		m.printEntries(t, root.Entries)
	}
	if q := t.question(); q != nil && q.Question != t.asked {
		t.asked = q.Question
		m.print.add("")
		m.print.add(m.questionText(q)...)
	}
}

func (m *model) printEntries(t *talk, entries []*view.Entry) {
	for i := t.printed; i < len(entries); i++ {
		e := entries[i]
		switch {
		case e.Kind == view.EntryReasoning: // the inspector shows it
		case e.Kind == view.EntryAnswer:
			m.printAnswer(t, e)
		case !e.Done:
			return
		default:
			m.endAnswer(t)
			m.print.add(m.entry(e, false)...)
			if e.Call != nil {
				if _, hidden := m.callLines(e.Call, false); hidden > 0 {
					m.folds = append(m.folds, e.Call)
				}
			}
			if e.Call != nil && slices.Contains(t.lacking, e.Call.Tool) {
				m.print.add(m.styled("33", m.wrapped("! ", e.Call.Tool+" needs the terminal for itself: it works with agents cli --plain"))...)
			}
		}
		if e.Done && i == t.printed {
			t.printed++
		}
	}
}

// printAnswer prints the finished blocks of an answer. The text that arrived may differ
// from the message at its end, which counts.
func (m *model) printAnswer(t *talk, e *view.Entry) {
	if t.stream != nil && !strings.HasPrefix(e.Text, t.stream.text) {
		m.endAnswer(t)
	}
	if t.stream == nil {
		s := &answerStream{}
		s.writer = markdown.Writer{W: s, Format: m.format, Open: func(lines []string) { s.open = lines }}
		t.stream = s
		m.print.add("")
	}
	_, _ = t.stream.writer.Write([]byte(e.Text[len(t.stream.text):])) // it does not fail
	t.stream.text = e.Text
	if e.Done {
		m.endAnswer(t)
		return
	}
	m.print.add(t.stream.take()...)
}

func (m *model) endAnswer(t *talk) {
	if t.stream != nil {
		_ = t.stream.writer.Close()
		m.print.add(t.stream.take()...)
		t.stream = nil
	}
}

// Write takes finished lines.
func (s *answerStream) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		s.lines = append(s.lines, strings.TrimSuffix(line, "\n"))
	}
	return len(p), nil
}

func (s *answerStream) take() []string {
	lines := s.lines
	s.lines = nil
	return lines
}

// tail are the last lines of the answer that arrives.
func (t *talk) tail(rows int) []string {
	if t.stream == nil {
		return nil
	}
	return t.stream.open[max(0, len(t.stream.open)-max(rows, 0)):]
}

func (m *model) format() markdown.Format {
	return markdown.Format{Width: m.width - 1, Color: m.o.Color, ASCII: m.o.ASCII}
}

// entry are the lines of an entry of a conversation; the result of a call is open or folded.
func (m *model) entry(e *view.Entry, open bool) []string {
	switch e.Kind {
	case view.EntryPrompt, view.EntryInput:
		return append([]string{""}, m.styled("1", m.wrapped("> ", input.Typed(e.Text)))...)
	case view.EntryAnswer:
		text := markdown.Render(e.Text, m.format())
		return append([]string{""}, strings.Split(strings.TrimRight(text, "\n"), "\n")...)
	case view.EntryReasoning:
		return append([]string{""}, m.styled("2", m.wrapped("  ", strings.TrimSpace(e.Text)))...)
	case view.EntryCall:
		lines, _ := m.callLines(e.Call, open)
		return lines
	case view.EntryEnd:
		return append([]string{""}, m.failure(e.Text)...)
	}
	return m.styled("33", m.wrapped("! ", e.Text))
}

// answered are the lines that repeat the answer to a question.
func (m *model) answered(text string) []string {
	return m.styled("1", m.wrapped("> ", text))
}
