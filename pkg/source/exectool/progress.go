package exectool

import (
	"bytes"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/spool"
)

// The limits of the progress of one call: lines, and the bytes of a line.
const (
	maxProgressLines = 1000
	maxProgressLine  = 2000
)

// A stderrWriter keeps what a tool writes to stderr, and reports each line as progress while
// the tool runs. A carriage return ends a line too, as in a bar that is redrawn.
type stderrWriter struct {
	keep     *spool.Output
	inv      *agent.Invocation
	line     []byte // what was written of the next line, up to maxProgressLine
	reported int
}

// Write implements io.Writer.
func (t *stderrWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && t.reported < maxProgressLines; {
		piece := rest
		i := bytes.IndexAny(rest, "\r\n")
		if i >= 0 {
			piece = rest[:i]
		}
		t.line = append(t.line, piece[:min(len(piece), maxProgressLine-len(t.line))]...)
		if i < 0 {
			break
		}
		rest = rest[i+1:]
		if text := strings.TrimSpace(strings.ToValidUTF8(string(t.line), "\uFFFD")); text != "" {
			t.reported++
			t.inv.Progress(text)
		}
		t.line = t.line[:0]
	}
	return t.keep.Write(p)
}
