package main

import (
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/redact"
)

// maxHeld is how many lines of servers wait for the logs to be opened.
const maxHeld = 100

// A serverLog passes on what MCP servers write, from when there is somewhere to.
type serverLog struct {
	mu   sync.Mutex
	to   func(server, line string)
	held [][2]string
}

// line is told of a line.
func (l *serverLog) line(server, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.to != nil:
		l.to(server, line)
	case len(l.held) < maxHeld:
		l.held = append(l.held, [2]string{server, line})
	}
}

// open passes on what was held, and then every line. nil drops them.
func (l *serverLog) open(to func(server, line string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = to
	if to == nil {
		l.to = func(string, string) {}
	}
	for _, h := range l.held {
		l.to(h[0], h[1])
	}
	l.held = nil
}

// logs are the log sinks of a run: they take events and lines of servers, one at
// a time.
type logs struct {
	secrets *redact.Redactor
	to      func(agent.Event)

	mu      sync.Mutex
	session string // of the root
	agent   string
}

// event logs e.
func (l *logs) event(e agent.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Depth == 0 {
		l.session, l.agent = e.Session, e.Agent
	}
	l.to(e)
}

// line logs what a server wrote.
func (l *logs) line(server, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to(agent.Event{Time: time.Now(), Kind: agent.EventLog, Session: l.session, Agent: l.agent,
		Tool: server, Text: l.secrets.String(line)})
}
