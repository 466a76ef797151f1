package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/terminal/termtext"
)

// Footer writes one line on a run that is over: how it ended, what it took and what it
// cost with all its sub-agents, and its session if that is kept. Call it after Close.
// It writes nothing about a run that asked no model, and nothing if Quiet is set.
func (t *Text) Footer(out *agent.Outcome, kept bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := out.Total.Usage
	if t.Quiet || t.broken || u.Requests == 0 {
		return
	}
	var parts []string
	l := line{mark: markOK}
	if out.Status != agent.StatusOK {
		parts = append(parts, termtext.Visible(string(out.Status))) // another server may have said it
		l.mark = markFailed
	}
	if out.Status == agent.StatusPartial {
		l.mark = markNotice
	}
	turns := fmt.Sprintf("%d turns", out.Turns)
	if out.Turns == 1 {
		turns = "1 turn"
	}
	parts = append(parts, seconds(out.Duration), turns, u.TokenText(), u.CostText())
	if n := len(t.lost); n > 0 {
		tokens := 0
		for _, l := range t.lost {
			tokens += l.Tokens
		}
		parts = append(parts, agent.Brief(tokens)+" cached tokens paid for again: "+flat(t.lost[0].Cause, maxNote, t.pen().more()))
		if n > 1 {
			parts[len(parts)-1] += fmt.Sprintf(" (and %d more)", n-1)
		}
	}
	if out.Receipt != nil {
		for _, text := range out.Receipt.Left() {
			parts = append(parts, flat(text, maxNote, t.pen().more()))
		}
	}
	if kept {
		parts = append(parts, "session "+termtext.Visible(out.Session))
	}
	between := " · "
	if t.ASCII {
		between = ", "
	}
	l.label = strings.Join(parts, between)
	if t.last == answer {
		t.write("\n")
	}
	if columns, _ := t.size(); t.Live && 2+termtext.Width(l.label) >= columns {
		l.label = strings.Join(termtext.Wrap(l.label, max(columns-3, 1)), "\n  ")
	}
	t.write(t.pen().plain(l) + "\n")
}

// seconds is a duration like elapsed, with a decimal up to a minute.
func seconds(d time.Duration) string {
	if d < 0 || d >= time.Minute {
		return termtext.Elapsed(d)
	}
	return fmt.Sprintf("%d.%d s", d/time.Second, d%time.Second/(100*time.Millisecond))
}
