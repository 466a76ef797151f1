package mcpclient

import (
	"bytes"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	// maxLastLines is how many lines of stderr an error shows. The message of
	// Node.js about an uncaught error has up to 18, and says why near its top.
	maxLastLines = 20
	// maxLogLine is how many bytes of a line are kept.
	maxLogLine = 1000
)

// lastLines is an io.Writer that keeps the last lines of what is written and
// passes each to log.
type lastLines struct {
	log func(line string)

	mu      sync.Mutex
	partial []byte
	lines   []string
}

// Write implements io.Writer. It never fails.
func (l *lastLines) Write(p []byte) (int, error) {
	n := len(p)
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		line, rest, found := bytes.Cut(p, []byte{'\n'})
		if room := maxLogLine + utf8.UTFMax - len(l.partial); room > 0 {
			l.partial = append(l.partial, line[:min(room, len(line))]...)
		}
		if !found {
			return n, nil
		}
		l.end()
		p = rest
	}
}

func (l *lastLines) end() {
	line := clip(strings.TrimRight(string(l.partial), "\r"), maxLogLine)
	l.partial = l.partial[:0]
	if strings.TrimSpace(line) == "" {
		return
	}
	if len(l.lines) == maxLastLines {
		l.lines = append(l.lines[:0], l.lines[1:]...)
	}
	l.lines = append(l.lines, line)
	l.log(line)
}

// flush ends a line that has no newline.
func (l *lastLines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end()
}

// String is "" or a clause with the last lines, for the end of an error.
func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) == 0 {
		return ""
	}
	return "; the last lines of its stderr:\n  " + strings.Join(l.lines, "\n  ")
}

// clip cuts s to at most max bytes of valid UTF-8.
func clip(s string, max int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= max {
		return s
	}
	return strings.ToValidUTF8(s[:max], "") + "…"
}
