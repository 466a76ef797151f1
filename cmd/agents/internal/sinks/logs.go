package sinks

import (
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// logs are the log sinks of a run: they take events and lines of servers, one at
// a time.
type logs struct {
	hide func(string) string
	to   func(agent.Event)

	mu      sync.Mutex
	session string // of the root
	agent   string
}

func (l *logs) event(e agent.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Depth == 0 {
		l.session, l.agent = e.Session, e.Agent
	}
	l.to(e)
}

func (l *logs) line(server, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to(agent.Event{Time: time.Now(), Kind: agent.EventLog, Session: l.session, Agent: l.agent,
		Tool: server, Text: l.hide(line)})
}
