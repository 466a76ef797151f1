package openaiapi

import (
	"net/http"
	"time"
)

// A stream sends server-sent events. The response begins with the first of them, so that
// an earlier error has a status of its own. One that is not on sends nothing.
type stream struct {
	w     http.ResponseWriter
	on    bool
	begun bool
	err   error // the first
}

// lost is why the client does not get what is sent.
func (s *stream) lost() error { return s.err }

// idle sends what clients ignore.
func (s *stream) idle() { s.write([]byte(": the agent is working\n\n")) }

// send sends v as an event; its name may be "".
func (s *stream) send(name string, v any) {
	if !s.on {
		return
	}
	if name != "" {
		name = "event: " + name + "\n"
	}
	s.write(append(append([]byte(name+"data: "), encode(v)...), '\n')) // encode adds a line end
}

func (s *stream) write(data []byte) {
	if !s.on || s.err != nil {
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
