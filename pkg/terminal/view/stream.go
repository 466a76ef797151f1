package view

import (
	"io"
	"strings"

	"github.com/agents-exe/agents/pkg/agent"
)

// A Stream writes the text of the root agent as it arrives, without its reasoning and
// without sub-agents. The text of every turn ends with a newline. A text that does
// not arrive in pieces is written when it is complete, and the text of a repeated
// request begins on a new line. Observe must not be called concurrently with itself.
type Stream struct {
	// W is where the text goes. It is required.
	W io.Writer
	// End, unless it is nil, is called after the text of each turn, and ends what W
	// holds back.
	End func() error

	pieces bool // the current answer arrives in pieces
	mid    bool // the last line has no newline yet
	err    error
}

// Observe writes the text of e.
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
		s.endTurn()
	case agent.EventAnswer:
		if !s.pieces && e.Message != nil {
			s.write(e.Message.Text())
		}
		s.endTurn()
	case agent.EventEnd:
		s.endTurn()
	}
}

// Err returns the first error of W. Nothing is written after it.
func (s *Stream) Err() error { return s.err }

func (s *Stream) endTurn() {
	if s.mid {
		s.write("\n")
	}
	if s.End != nil && s.err == nil {
		s.err = s.End()
	}
	s.pieces = false
}

func (s *Stream) write(text string) {
	if text == "" || s.err != nil {
		return
	}
	if _, s.err = io.WriteString(s.W, text); s.err == nil {
		s.mid = !strings.HasSuffix(text, "\n")
	}
}
