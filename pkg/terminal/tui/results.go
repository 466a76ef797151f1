package tui

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agents-exe/agents/pkg/terminal/termtext"
	"github.com/agents-exe/agents/pkg/terminal/view"
	"github.com/aymanbagabas/go-udiff"
)

// folded is how many lines of a result are shown until the person asks for all.
const folded = 3

// changes are the names that tools use for what a text was and what it becomes.
var changes = [][2]string{{"old_text", "new_text"}, {"old_string", "new_string"}, {"old_str", "new_str"}, {"old", "new"}}

// callLines are a call that has ended and below it what it changed, or else its result: the
// first lines, or all if it is open. hidden is how many lines are not shown.
func (m *model) callLines(c *view.Call, open bool) (lines []string, hidden int) {
	lines = []string{c.Line(m.layout(0))}
	if m.screen == nil && !m.tree {
		lines = c.Lines(m.layout(0))
	}
	text, isDiff := diffOf(c), true
	if text == "" {
		text, isDiff = c.Result, false
	}
	text = strings.Trim(termtext.Clean(text), "\n")
	if text == "" || !open && c.State == view.Failed && strings.Count(text, "\n") < folded { // the line says it
		return lines, 0
	}
	all := strings.Split(text, "\n")
	shown := all
	if !open && len(all) > folded+1 {
		shown, hidden = all[:folded], len(all)-folded
	}
	for _, line := range shown {
		rows := m.wrapped("  ", line)
		if !open && len(rows) > folded { // such as JSON on one line
			rows, hidden = append(rows[:folded-1:folded-1], m.cut(rows[folded-1]+m.more())), hidden+1
		}
		lines = append(lines, m.styled(colorOf(line, isDiff), rows)...)
	}
	switch {
	case hidden > 0 && hidden == len(all)-folded:
		lines = append(lines, m.faint(fmt.Sprintf("  %s %d more lines (%s)", m.more(), hidden, m.o.Keys.hint("results", "all"))))
	case hidden > 0:
		lines = append(lines, m.faint(fmt.Sprintf("  %s (%s)", m.more(), m.o.Keys.hint("results", "all"))))
	}
	return lines, hidden
}

func colorOf(line string, isDiff bool) string {
	switch {
	case isDiff && strings.HasPrefix(line, "+"):
		return "32"
	case isDiff && strings.HasPrefix(line, "-"):
		return "31"
	}
	return "2"
}

// diffOf is how a call changes a text, "" if its arguments do not say.
func diffOf(c *view.Call) string {
	var args map[string]json.RawMessage
	if c.State != view.Done || json.Unmarshal([]byte(c.Args), &args) != nil {
		return ""
	}
	text := func(name string) (s string, ok bool) {
		return s, args[name] != nil && json.Unmarshal(args[name], &s) == nil
	}
	if patch, ok := text("patch"); ok {
		return patch
	}
	for _, pair := range changes {
		was, ok := text(pair[0])
		becomes, also := text(pair[1])
		if !ok || !also {
			continue
		}
		_, diff, _ := strings.Cut(udiff.Unified("was", "is", lineEnded(was), lineEnded(becomes)), "\n") // without the names
		_, diff, _ = strings.Cut(diff, "\n")
		return diff
	}
	return ""
}

func lineEnded(text string) string { return strings.TrimSuffix(text, "\n") + "\n" }

// unfold prints the last call whose result is folded in full, and then the one before it.
func (m *model) unfold() {
	n := len(m.folds)
	if n == 0 {
		m.message = "no result is folded"
		return
	}
	c := m.folds[n-1]
	m.folds = m.folds[:n-1]
	lines, _ := m.callLines(c, true)
	m.print.add(append([]string{""}, lines...)...)
}
