package load

import (
	"sync"
)

// maxHeld is how many lines are kept until Open.
const maxHeld = 100

// A ServerLog passes on what MCP servers write, and keeps the first lines until Open.
type ServerLog struct {
	mu   sync.Mutex
	to   func(server, line string)
	held [][2]string
}

func (l *ServerLog) line(server, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.to != nil:
		l.to(server, line)
	case len(l.held) < maxHeld:
		l.held = append(l.held, [2]string{server, line})
	}
}

// Open passes the kept lines to a function, and then every line. nil drops them.
func (l *ServerLog) Open(to func(server, line string)) {
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
