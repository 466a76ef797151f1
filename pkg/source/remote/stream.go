package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
)

// patience is how long a stream tries to connect again, which is how long the server
// continues a run without a connection.
const patience = 300 * time.Second

// firstWait is the wait after the first failure to connect; each further one is twice as
// long, up to lastWait.
const (
	firstWait = 100 * time.Millisecond
	lastWait  = 10 * time.Second
)

// maxKept limits the replies that are kept to be sent again: more questions do not wait at
// the same time.
const maxKept = 1000

// A stream is the output and the input of a run on a server, over one connection after
// another. One goroutine reads and one writes.
type stream struct {
	agent    *Agent
	alive    context.Context // its end ends the stream
	progress func(text string)
	begun    chan struct{} // closed when there is a start message

	session string // of the root
	seq     int64  // of the last event that was received
	number  int64  // of the last event that was read, which differs after renumber
	rest    []byte // of it
	had     map[eventID]bool
	again   bool  // the server was restarted, and sends again what it had sent before
	failed  error // why there is no connection; written by Read

	mu     sync.Mutex
	shift  int64 // from number to seq
	ws     *wsconn.Conn
	start  []byte
	kept   [][]byte // replies and results, which may not have arrived
	unsent [][]byte // directives, which must not arrive twice
	ack    []byte   // the last
	cancel []byte
	over   bool // the end event was read
	closed bool
}

func newStream(alive context.Context, a *Agent, progress func(text string)) *stream {
	return &stream{agent: a, alive: alive, progress: progress, begun: make(chan struct{}), had: map[eventID]bool{}}
}

// Read implements io.Reader. Its error is io.EOF when the run has ended, or cannot be
// reached any more.
func (s *stream) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		text, err := s.next()
		if err != nil {
			return 0, err
		}
		s.rest = append(text, '\n')
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *stream) next() ([]byte, error) {
	for {
		ws, err := s.connection()
		if err != nil {
			s.failed = err
			return nil, io.EOF
		}
		text, err := ws.Receive(s.alive)
		switch {
		case err == nil:
			if text, err = s.note(text); text != nil || err != nil {
				return text, err
			}
			continue
		case s.done() || s.alive.Err() != nil || wsconn.CodeOf(err) == wsconn.Replaced || s.session == "":
			s.failed = err
			return nil, io.EOF
		}
		s.drop(ws)
		s.progress(fmt.Sprintf("the connection to %s was lost (%v); connecting again", s.agent.Server.URL, err))
	}
}

// An eventID identifies a stored event of a run.
type eventID struct {
	kind          agent.EventKind
	session, time string
}

// note remembers what a new connection needs to know, and returns the event, or nil if it was
// read before. Event 1 after other events means that the server no longer has the run.
func (s *stream) note(text []byte) ([]byte, error) {
	var e struct {
		Kind          agent.EventKind
		Session, Time string
		Depth         int
		Seq           int64
		Error         string
	}
	if json.Unmarshal(text, &e) != nil {
		return text, nil // what reads the stream says so
	}
	if s.seq > 0 && e.Kind == agent.EventEnd && e.Seq == 1 {
		s.failed = errors.New(e.Error)
		return nil, io.EOF
	}
	text = s.renumber(text, eventID{e.Kind, e.Session, e.Time}, e.Seq)
	if e.Depth == 0 && s.session == "" {
		s.session = e.Session
	}
	if e.Kind == agent.EventEnd && e.Depth == 0 {
		s.mu.Lock()
		s.over = true
		s.mu.Unlock()
	}
	return text, nil
}

// renumber makes the events of a restarted server continue the numbers from before the
// restart: the server sends the stored events of the run again, with higher numbers.
func (s *stream) renumber(text []byte, id eventID, seq int64) []byte {
	if s.seq == 0 {
		s.number = seq - 1
	}
	s.again = s.again || s.seq > 0 && seq > s.seq+1
	s.seq = seq
	if id.kind.Lasting() {
		if s.again && s.had[id] {
			return nil
		}
		s.had[id] = true
	}
	s.number++
	s.mu.Lock()
	s.shift = seq - s.number
	s.mu.Unlock()
	return setSeq(text, seq, s.number)
}

// setSeq changes the number of an event or of an acknowledgement: the first "seq" of its
// JSON.
func setSeq(text []byte, from, to int64) []byte {
	if from == to {
		return text
	}
	return bytes.Replace(text, fmt.Appendf(nil, `"seq":%d`, from), fmt.Appendf(nil, `"seq":%d`, to), 1)
}

func (s *stream) done() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over || s.closed
}

// drop forgets a connection that is lost.
func (s *stream) drop(ws *wsconn.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ws.Abort()
	s.ws = nil
}

// connection returns the connection, and makes one if there is none.
func (s *stream) connection() (*wsconn.Conn, error) {
	s.mu.Lock()
	ws := s.ws
	s.mu.Unlock()
	if ws != nil {
		return ws, nil
	}
	wait, deadline := firstWait, time.Now().Add(patience)
	for {
		ws, err := s.agent.Server.Dial(s.alive, s.agent.Description.Name)
		if err == nil {
			again := s.seq > 0
			if err = s.open(ws); err == nil && again {
				s.progress("connected to " + s.agent.Server.URL + " again")
			}
			return ws, err
		}
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op // what is around it says nothing more
		}
		if s.seq == 0 || forGood(err) || Gone(err) || time.Now().Add(wait).After(deadline) {
			return nil, err
		}
		select {
		case <-s.alive.Done():
			return nil, context.Cause(s.alive)
		case <-time.After(wait):
		}
		wait = min(2*wait, lastWait)
	}
}

// forGood reports whether a server refuses connections for a reason that does not pass.
func forGood(err error) bool {
	refused, ok := errors.AsType[*wsconn.RefusedError](err)
	return ok && refused.Status < http.StatusInternalServerError && refused.Status != http.StatusTooManyRequests
}

// Gone reports whether err says that a server on a socket of this machine has ended: nobody
// listens there any more.
func Gone(err error) bool {
	const windowsRefused = syscall.Errno(10061) // which is not syscall.ECONNREFUSED there
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Net == "unix" && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, windowsRefused) || errors.Is(err, syscall.ENOENT))
}

// open begins or resumes the run on a new connection.
func (s *stream) open(ws *wsconn.Conn) error {
	select {
	case <-s.begun:
	case <-s.alive.Done():
		ws.Abort()
		return context.Cause(s.alive)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		ws.Abort()
		return io.EOF
	}
	messages := [][]byte{s.start}
	if s.seq > 0 {
		again, err := json.Marshal(map[string]any{"kind": "start", "channel": agent.ChannelVersion, "session": s.session, "from": s.seq})
		if err != nil {
			return err
		}
		messages = append([][]byte{again}, s.kept...)
		messages = append(messages, s.ack, s.cancel)
	}
	messages = append(messages, s.unsent...)
	s.unsent = nil
	for _, text := range messages {
		if text == nil {
			continue
		}
		if err := ws.Send(s.alive, text); err != nil {
			break // Receive fails too
		}
	}
	s.ws = ws
	go ws.KeepAlive(s.alive)
	return nil
}

// Write implements io.Writer: p is a message. One that does not arrive because the
// connection is lost is sent again on the next, where it has no effect twice. A directive
// is sent once.
func (s *stream) Write(p []byte) (int, error) {
	text := bytes.Clone(p)
	var m struct {
		Kind, Session string
		Seq           int64
	}
	_ = json.Unmarshal(p, &m) // it comes from this program
	s.mu.Lock()
	switch {
	case m.Kind == "input", m.Kind == "compact", m.Session != "" && m.Kind == "cancel":
		if s.ws == nil {
			s.unsent = append(s.unsent, text)
		}
	case m.Kind == "start":
		s.start = text
		close(s.begun)
		s.mu.Unlock()
		return len(p), nil // the reader connects
	case m.Kind == "ack":
		text = setSeq(text, m.Seq, m.Seq+s.shift)
		s.ack = text
	case m.Kind == "cancel":
		s.cancel = text
	default:
		s.kept = append(s.kept, text)
		if len(s.kept) > maxKept {
			s.kept = s.kept[1:]
		}
	}
	ws := s.ws
	s.mu.Unlock()
	if ws != nil {
		_ = ws.Send(s.alive, text) // see above
	}
	return len(p), nil
}

// Close ends the run if it has not ended, and the connection.
func (s *stream) Close() error {
	s.mu.Lock()
	ws, over := s.ws, s.over
	s.closed = true
	s.mu.Unlock()
	if ws == nil {
		return nil
	}
	for i := 0; !over && i < 2; i++ { // the second ends it at once
		_ = ws.Send(s.alive, []byte(`{"kind":"cancel","reason":"the caller has ended the call"}`))
	}
	return ws.Close()
}
