package exectool

import (
	"bytes"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// The limits of what is told of a running tool: lines, and the bytes of one.
const (
	maxTold     = 1000
	maxToldLine = 2000
)

// A talk keeps what a tool writes to stderr, and tells each line as progress while
// the tool runs. A carriage return ends a line too, as in a bar that is redrawn.
type talk struct {
	keep *output
	inv  *agent.Invocation
	line []byte // what was written of the next line, up to maxToldLine
	told int
}

// Write implements io.Writer.
func (t *talk) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && t.told < maxTold; {
		piece := rest
		i := bytes.IndexAny(rest, "\r\n")
		if i >= 0 {
			piece = rest[:i]
		}
		t.line = append(t.line, piece[:min(len(piece), maxToldLine-len(t.line))]...)
		if i < 0 {
			break
		}
		rest = rest[i+1:]
		if text := strings.TrimSpace(strings.ToValidUTF8(string(t.line), "\uFFFD")); text != "" {
			t.told++
			t.inv.Progress(text)
		}
		t.line = t.line[:0]
	}
	return t.keep.Write(p)
}
