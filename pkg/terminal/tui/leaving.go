package tui

import (
	"fmt"
	"slices"
)

// leave ends the program, after everything is printed: runs continue on the server. How to
// return is the last that is printed.
func (m *model) leave() {
	m.show(nil)
	var back []string
	for i, t := range m.talks {
		if i != m.at && t.tree.Root != nil && t.printed < len(t.tree.Root.Entries) {
			m.print.add(m.rule(fmt.Sprintf("%d/%d %s", i+1, len(m.talks), t.agent)))
		}
		m.printTalk(t)
		switch {
		case t.busy():
			back = append(back, fmt.Sprintf("%s continues to run: agents tui --attach %s", t.agent, t.session))
		case t.session != "" && !slices.Contains(m.o.Serve, "--no-session"):
			dir := ""
			if m.o.SessionDir != "" {
				dir = " --session-dir " + m.o.SessionDir
			}
			back = append(back, fmt.Sprintf("`agents cli --session %s%s` continues this conversation", t.session, dir))
		}
	}
	for _, line := range back {
		m.print.add(m.wrapped("", line)...)
	}
	if m.job != nil {
		m.job.cancel()
	}
	m.leaving = true
}

// leaveAll leaves the runs, which continue, and waits until nothing of a command of the shell runs.
func (m *model) leaveAll() {
	if m.job != nil {
		m.job.cancel()
		<-m.job.ended
	}
	for _, t := range m.talks {
		t.leave()
	}
}

func (m *model) next(to int) {
	m.at = to % len(m.talks)
	m.shown("")
}

// shown prints what is missing of the conversation that is now shown, with a note above it.
func (m *model) shown(note string) {
	t := m.talk()
	if _, ok := m.front().(*inspector); ok {
		m.show(newInspector(t))
	}
	m.print.add(m.rule(fmt.Sprintf("%d/%d %s", m.at+1, len(m.talks), t.agent)))
	if note != "" {
		m.print.add(m.faint(m.cut("  " + note)))
	}
	m.printTalk(t)
}
