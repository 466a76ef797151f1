package openaiapi

import (
	"bytes"
	"net/http"
	"time"
)

// A stream sends server-sent events. The response begins with the first of them, so that
// an earlier error has a status of its own. A nil stream sends nothing.
type stream struct {
	w     http.ResponseWriter
	begun bool
	err   error // the first
}

// lost is why the client does not get what is sent.
func (s *stream) lost() error {
	if s == nil {
		return nil
	}
	return s.err
}

// send sends v as an event; its name may be "".
func (s *stream) send(name string, v any) {
	var b bytes.Buffer
	if name != "" {
		b.WriteString("event: " + name + "\n")
	}
	b.WriteString("data: ")
	b.Write(encode(v)) // with a line end
	b.WriteByte('\n')
	s.write(b.Bytes())
}

// comment sends what clients ignore.
func (s *stream) comment() { s.write([]byte(": the agent is working\n\n")) }

// done sends what ends a stream of chat completions.
func (s *stream) done() { s.write([]byte("data: [DONE]\n\n")) }

func (s *stream) write(data []byte) {
	if s == nil || s.err != nil {
		return
	}
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		s.w.Header().Set("Cache-Control", "no-store")
		s.w.Header().Set("X-Accel-Buffering", "no") // nginx would keep the events back
		s.w.WriteHeader(http.StatusOK)
	}
	c := http.NewResponseController(s.w)
	_ = c.SetWriteDeadline(time.Now().Add(writeWait)) // tests have none
	if _, s.err = s.w.Write(data); s.err == nil {
		s.err = c.Flush()
	}
}
