package openaiapi

import (
	"errors"
	"net/http"
	"strconv"
	"time"
)

// A stream sends server-sent events. The response begins with the first of them, so that
// an earlier error has a status of its own. One that is not on sends nothing.
type stream struct {
	w      http.ResponseWriter
	frame  func(text []byte) error // sends it over WebSocket instead; nil if there is none
	on     bool
	begun  bool
	failed bool  // the client got an error
	err    error // the first
}

// lost is why the client does not get what is sent.
func (s *stream) lost() error { return s.err }

// idle sends what clients ignore.
func (s *stream) idle() { s.write([]byte(": the agent is working\n\n")) }

// send sends v as an event; its name may be "".
func (s *stream) send(name string, v any) {
	if s.frame != nil {
		if s.begun = true; s.err == nil {
			s.err = s.frame(encode(v))
		}
		return
	}
	if !s.on {
		return
	}
	if name != "" {
		name = "event: " + name + "\n"
	}
	s.write(append(append([]byte(name+"data: "), encode(v)...), '\n')) // encode adds a line end
}

// refuse answers with an error, when nothing was sent before.
func (s *stream) refuse(err error) {
	if s.failed = true; s.frame == nil {
		writeError(s.w, err)
		return
	}
	e := asAPIError(err)
	code := e.Type
	if e.Code != nil {
		code = *e.Code
	}
	s.send("", object{"type": "error", "status": e.status, "error": object{"type": e.Type, "code": code, "message": e.Text, "param": e.Param}})
}

// reply sends v as the whole response, not as an event.
func (s *stream) reply(v any) {
	data := encode(v)
	s.w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	if s.err = writeBody(s.w, http.StatusOK, data); s.err != nil {
		return
	}
	if err := http.NewResponseController(s.w).Flush(); !errors.Is(err, http.ErrNotSupported) {
		s.err = err
	}
}

// write sends what only a stream of server-sent events has.
func (s *stream) write(data []byte) {
	if !s.on || s.err != nil || s.frame != nil {
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
