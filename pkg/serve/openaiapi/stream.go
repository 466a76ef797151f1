package openaiapi

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// A stream sends server-sent events. The response begins with the first of them, so that
// an earlier error has a status of its own.
type stream struct {
	w     http.ResponseWriter
	begun bool
}

func (s *stream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	s.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	s.w.Header().Set("Cache-Control", "no-store")
	s.w.Header().Set("X-Accel-Buffering", "no") // nginx would keep the events back
	s.w.WriteHeader(http.StatusOK)
}

// send sends v as an event; its name may be "".
func (s *stream) send(name string, v any) error {
	var b bytes.Buffer
	if name != "" {
		b.WriteString("event: " + name + "\n")
	}
	b.WriteString("data: ")
	b.Write(encode(v)) // with a line end
	b.WriteByte('\n')
	return s.write(b.Bytes())
}

// comment sends what clients ignore.
func (s *stream) comment() error { return s.write([]byte(": the agent is working\n\n")) }

// done sends what ends a stream of chat completions.
func (s *stream) done() error { return s.write([]byte("data: [DONE]\n\n")) }

func (s *stream) write(data []byte) error {
	s.begin()
	c := http.NewResponseController(s.w)
	_ = c.SetWriteDeadline(time.Now().Add(writeWait)) // tests have none
	if _, err := s.w.Write(data); err != nil {
		return err
	}
	return c.Flush()
}

// instead returns the text of a reply, and the reason for a run that was refused.
func (r *reply) instead(short string) (answer, refusal string) {
	if short == withheld && r.end.Status == agent.StatusRefused {
		return r.text, strings.TrimSpace(r.end.Error)
	}
	return r.text, ""
}
