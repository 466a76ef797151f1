package observe

import (
	"io"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// A Stream writes what the root agent says as it says it: its text, neither its
// reasoning nor what sub-agents say. The text of every turn ends with a newline.
// A text that came in no pieces is written when it is complete, and after a
// broken attempt the next begins on a new line. Observe must not be called
// concurrently with itself.
type Stream struct {
	// W is where the text goes. It is required.
	W io.Writer

	pieces bool // the answer under way came in pieces
	mid    bool // the last line has no end
	err    error
}

// Observe writes the text that e brings.
func (s *Stream) Observe(e agent.Event) {
	if e.Depth > 0 {
		return
	}
	switch e.Kind {
	case agent.EventRequest:
		s.pieces = false
	case agent.EventText:
		s.pieces = s.pieces || e.Text != ""
		s.write(e.Text)
	case agent.EventRetry:
		s.endLine()
		s.pieces = false
	case agent.EventAnswer:
		if !s.pieces && e.Message != nil {
			s.write(e.Message.Text())
		}
		s.endLine()
		s.pieces = false
	case agent.EventEnd:
		s.endLine()
	}
}

// Err is the first error of W; nothing was written after it.
func (s *Stream) Err() error { return s.err }

func (s *Stream) endLine() {
	if s.mid {
		s.write("\n")
	}
}

func (s *Stream) write(text string) {
	if text == "" || s.err != nil {
		return
	}
	if _, s.err = io.WriteString(s.W, text); s.err == nil {
		s.mid = !strings.HasSuffix(text, "\n")
	}
}
