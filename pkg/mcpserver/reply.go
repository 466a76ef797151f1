package mcpserver

import (
	"net/http"
	"sync"
	"time"
)

// A reply is the answer to an HTTP request: one message, or a stream of them as
// server-sent events, as soon as there is more to send than the answer, or the
// answer takes long.
type reply struct {
	w       http.ResponseWriter
	control *http.ResponseController
	gone    func() // called once, when the client does not read

	mu        sync.Mutex
	streaming bool
	ended     bool // nothing may be written
	beat      *time.Timer
}

// newReply begins an answer. finish must follow. gone may be called by any method.
func newReply(w http.ResponseWriter, gone func()) *reply {
	r := &reply{w: w, control: http.NewResponseController(w), gone: gone}
	r.beat = time.AfterFunc(time.Hour, r.idle)
	r.beat.Reset(beatEvery) // not before idle can see the timer
	return r
}

// idle writes a comment, so that neither side takes the connection for dead.
func (r *reply) idle() {
	if !r.mu.TryLock() { // something is written
		r.beat.Reset(beatEvery)
		return
	}
	defer r.mu.Unlock()
	r.write(":\n\n")
	if !r.ended {
		r.beat.Reset(beatEvery)
	}
}

// begin makes the answer a stream.
func (r *reply) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(":\n\n")
}

// send implements outlet.
func (r *reply) send(text []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write("event: message\ndata: " + string(text) + "\n")
}

// notify implements outlet.
func (r *reply) notify(text []byte) { r.send(text) }

// write writes to the stream, under mu.
func (r *reply) write(text string) {
	if r.ended {
		return
	}
	_ = r.control.SetWriteDeadline(time.Now().Add(writeWait)) // tests have none
	if !r.streaming {
		r.streaming = true
		h := r.w.Header()
		h.Set("Content-Type", kindEvents)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // a proxy that holds the events back
		r.w.WriteHeader(http.StatusOK)
	}
	_, err := r.w.Write([]byte(text))
	if err == nil {
		err = r.control.Flush()
	}
	if err != nil {
		r.ended = true
		r.gone()
	}
}

// finish writes the answer, with status if it is the only message. Without a text
// there is none.
func (r *reply) finish(text []byte, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beat.Stop()
	switch {
	case r.ended:
	case r.streaming && text != nil:
		r.write("event: message\ndata: " + string(text) + "\n")
	case r.streaming:
	case text == nil:
		r.w.WriteHeader(http.StatusAccepted) // the client cancelled the request
	default:
		writeJSON(r.w, status, text)
	}
	r.ended = true
}
