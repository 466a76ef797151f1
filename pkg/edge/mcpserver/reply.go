package mcpserver

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	streamAfter = time.Second // a reply that can be resumed becomes a stream
	resumeWait  = 30 * time.Second
	maxEvents   = 256 // that a client can get again
)

// A reply is the answer to an HTTP request: one message, or a stream of them as
// server-sent events, as soon as there is more to send than the answer, or the
// answer takes long.
//
// A stream of a session of 2025-11-25 can be resumed: a client that lost its connection
// sends a GET request with the id of the last event that it got, within resumeWait.
type reply struct {
	gone func() // called once, when the client does not read

	mu        sync.Mutex
	w         http.ResponseWriter // nil while a client may resume the stream
	streaming bool
	complete  bool // the answer was written or is among events
	ended     bool // nothing may be written
	beat      *time.Timer

	id     string        // of a stream that can be resumed, else ""
	sent   int           // events
	events []string      // the last of them
	wait   *time.Timer   // for a client to resume the stream
	left   chan struct{} // closed when nothing more is written to w, and another one is made
}

// newReply begins an answer. finish must follow. gone may be called by any method.
func newReply(w http.ResponseWriter, resumable bool, gone func()) *reply {
	r := &reply{w: w, gone: gone, left: make(chan struct{})}
	first := beatEvery
	if resumable {
		r.id, first = rand.Text(), streamAfter
	}
	r.beat = time.AfterFunc(time.Hour, r.idle)
	r.beat.Reset(first) // not before idle can see the timer
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

func (r *reply) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(":\n\n")
}

func (r *reply) send(text []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event(text)
}

// event writes a message, under mu.
func (r *reply) event(text []byte) {
	event := "event: message\ndata: " + string(text) + "\n"
	if r.id != "" {
		r.sent++
		event = fmt.Sprintf("id: %s-%d\n%s", r.id, r.sent, event)
		r.events = append(r.events, event)
		r.events = r.events[max(0, len(r.events)-maxEvents):]
	}
	r.write(event)
}

func (r *reply) notify(text []byte) { r.send(text) }

// write writes to the stream, under mu.
func (r *reply) write(text string) {
	if r.ended || r.w == nil {
		return
	}
	control := http.NewResponseController(r.w)
	_ = control.SetWriteDeadline(time.Now().Add(writeWait)) // tests have none
	if !r.streaming {
		r.streaming = true
		r.head()
		if r.id != "" {
			// The first event has no data: it tells the client where to resume.
			text = fmt.Sprintf("id: %s-0\nretry: %d\ndata: \n\n", r.id, time.Second.Milliseconds()) + text
		}
	}
	_, err := r.w.Write([]byte(text))
	if err == nil {
		err = control.Flush()
	}
	if err != nil {
		r.lose()
	}
}

// head begins a stream, under mu.
func (r *reply) head() {
	h := r.w.Header()
	h.Set("Content-Type", kindEvents)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy that holds the events back
	r.w.WriteHeader(http.StatusOK)
}

// lost is called when the client of w has closed its connection.
func (r *reply) lost(w http.ResponseWriter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.w == w {
		r.lose()
	}
}

// lose ends the reply, or lets the client resume it, under mu.
func (r *reply) lose() {
	switch {
	case r.ended:
	case r.id == "" || !r.streaming:
		r.end()
		r.gone()
	default:
		r.w = nil
		var wait *time.Timer
		wait = time.AfterFunc(resumeWait, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.wait == wait && !r.ended {
				r.end()
				r.gone()
			}
		})
		r.wait = wait
	}
}

// end lets nothing more be written, under mu.
func (r *reply) end() {
	r.ended = true
	close(r.left)
}

// abandon lets no client resume the stream.
func (r *reply) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.id = ""
	if r.w == nil && !r.ended {
		r.end()
		r.gone()
	}
}

// resume writes to w what follows the event with the number after, and what is to come. The
// client of an earlier connection gets nothing more. left is closed when nothing more is
// written; lost must follow.
func (r *reply) resume(w http.ResponseWriter, after int) (left <-chan struct{}, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil, false
	}
	close(r.left)
	r.w, r.wait, r.left = w, nil, make(chan struct{})
	r.head()
	first := max(0, len(r.events)-max(0, r.sent-after))
	r.write(":\n\n" + strings.Join(r.events[first:], ""))
	if r.complete && r.w != nil && !r.ended {
		r.end()
	}
	return r.left, true
}

// finish writes the answer, with status if it is the only message. Without a text
// there is none. It returns when the answer was written, or no client can get it any more.
func (r *reply) finish(text []byte, status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beat.Stop()
	switch {
	case r.ended:
	case r.streaming && text != nil:
		r.event(text)
	case r.streaming:
	case text == nil:
		r.w.WriteHeader(http.StatusAccepted) // the client cancelled the request
	default:
		writeJSON(r.w, status, text)
	}
	r.complete = true
	if !r.ended && (r.w != nil || text == nil) {
		r.end()
	}
	for !r.ended {
		left := r.left
		r.mu.Unlock()
		<-left
		r.mu.Lock()
	}
}
