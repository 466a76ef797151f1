package channel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/jsondoc"
)

// A Conn is the holder's side of a channel. Its methods are safe for concurrent use.
// Messages are queued; if the run does not read them, the channel ends with an error.
type Conn struct {
	in    *lines
	max   int64 // bytes that may be read
	bytes int64 // read so far
	seq   int64 // of the last event
	any   bool  // the next event may have any number: those before it are another Conn's
	over  bool

	out    io.WriteCloser
	queue  chan []byte
	pieces chan []byte // of answers of lent models: they wait, and take no place in the queue
	closed chan struct{}
	once   sync.Once
	done   chan struct{} // the writing goroutine has ended
	mu     sync.Mutex
	err    error // of a write
	unsent error // why the start message was not sent
}

// Limits of what a run may send.
const (
	maxBytes   = 4 << 30 // in total
	maxPending = 1000    // messages in the queue
)

// ErrProtocol: the run sent something that the protocol does not permit.
var ErrProtocol = errors.New("the agent broke the protocol of the channel")

// Open sends s to the run that reads from out and writes to in. The caller must close
// the Conn. If s cannot be sent, Events yields the error. With s.Session and without
// s.Args it follows a run of a server that began before (docs/serve.md): the first event has
// the number s.From + 1, or is the first of all that the server has.
func Open(in io.Reader, out io.WriteCloser, s agent.Start) *Conn {
	s.Channel = Version
	c := &Conn{in: newLines(in), max: maxBytes, any: s.Session != "" && len(s.Args) == 0 && len(s.History) == 0, out: out, queue: make(chan []byte, maxPending), pieces: make(chan []byte), closed: make(chan struct{}), done: make(chan struct{})}
	if line, err := encodeStart(s); err != nil {
		c.unsent = fmt.Errorf("send the start message: %w", err)
		c.fail(c.unsent)
	} else {
		c.queue <- line
	}
	go c.write()
	return c
}

// write sends queued messages until the Conn is closed.
func (c *Conn) write() {
	defer close(c.done)
	for {
		var line []byte
		select {
		case line = <-c.queue:
		case line = <-c.pieces:
		case <-c.closed:
			return
		}
		if _, err := c.out.Write(line); err != nil {
			c.fail(err)
			return
		}
	}
}

func (c *Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

// Close ends the input of the run, which ends the run.
func (c *Conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	err := c.out.Close() // ends a write in progress
	<-c.done
	return err
}

// send queues a message. It never waits.
func (c *Conn) send(m message) error {
	c.mu.Lock()
	err := c.err
	c.mu.Unlock()
	if err != nil {
		return err
	}
	line, err := encode(m)
	if err != nil {
		return err
	}
	select {
	case c.queue <- line:
		return nil
	default:
		c.fail(fmt.Errorf("%w: it does not read its input", ErrProtocol))
		return c.send(m)
	}
}

// Direct sends d to an agent of the run; see runner.Runner.Direct. Its Message is a text,
// media or both.
func (c *Conn) Direct(d agent.Directive) error {
	if m := d.Message; m != nil && len(m.Parts) > 0 {
		text, media := "", m.Parts
		if first := media[0]; first.Kind == agent.PartText {
			text, media = first.Text, media[1:]
		}
		if err := c.send(message{Kind: kindInput, Session: d.Session, Text: text, Media: media}); err != nil {
			return err
		}
	}
	if d.Compact {
		if err := c.send(message{Kind: kindCompact, Session: d.Session}); err != nil {
			return err
		}
	}
	if d.Stop {
		return c.send(message{Kind: kindCancel, Session: d.Session, Reason: d.Reason})
	}
	return nil
}

// Reply answers the question with the given id.
func (c *Conn) Reply(question string, answer json.RawMessage) error {
	return c.send(message{Kind: kindReply, Question: question, Answer: answer})
}

// Delta sends a piece of the answer to a question "model". It waits until the one before is
// written, or ctx ends.
func (c *Conn) Delta(ctx context.Context, question string, d agent.Delta) {
	line, err := encode(message{Kind: kindDelta, Question: question, Delta: &d})
	if err != nil {
		return // the reply has it too
	}
	select {
	case c.pieces <- line:
	case <-c.done:
	case <-ctx.Done():
	}
}

// Result sends the result of the call with the given Key of one of the holder's tools.
func (c *Conn) Result(key string, parts []agent.Part, failed bool) error {
	return c.send(message{Kind: kindResult, Key: key, Parts: parts, Failed: failed})
}

// Ack acknowledges that all events up to seq are stored.
func (c *Conn) Ack(seq int64) error { return c.send(message{Kind: kindAck, Seq: seq}) }

// Cancel ends the run; its status is interrupted.
func (c *Conn) Cancel(reason string) error { return c.send(message{Kind: kindCancel, Reason: reason}) }

// Events yields the events of the run. The last has Kind EventEnd and Depth 0, or comes
// with an error: a read error, or one that wraps ErrProtocol.
func (c *Conn) Events() iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		for !c.over {
			e, err := c.next()
			if err != nil {
				c.over = true
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// An EndedError says that the output of the run ended without an end event. It wraps
// ErrProtocol.
type EndedError struct {
	Seq int64 // of the last event
}

func (e *EndedError) Error() string { return ErrProtocol.Error() + ": its output ended before the run" }
func (e *EndedError) Unwrap() error { return ErrProtocol }

func (c *Conn) next() (agent.Event, error) {
	var e agent.Event
	if c.unsent != nil {
		return e, c.unsent
	}
	line, err := c.in.next()
	if c.bytes += int64(len(line)); err == nil && c.bytes > c.max {
		return e, fmt.Errorf("%w: after event %d: it sent more than %d bytes", ErrProtocol, c.seq, c.max)
	}
	switch {
	case err == io.EOF, errors.Is(err, errHalf):
		return e, &EndedError{c.seq}
	case errors.Is(err, errLong):
		return e, fmt.Errorf("%w: after event %d: %w", ErrProtocol, c.seq, err)
	case err != nil:
		return e, err
	}
	if err := jsondoc.Measure(line); err != nil {
		return agent.Event{}, fmt.Errorf("%w: after event %d: %w", ErrProtocol, c.seq, err)
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return agent.Event{}, fmt.Errorf("%w: after event %d: a line is not an event: %w", ErrProtocol, c.seq, jsonError(line, err))
	}
	if e.Seq != c.seq+1 && (!c.any || e.Seq < 1) {
		return agent.Event{}, fmt.Errorf("%w: event %d follows event %d", ErrProtocol, e.Seq, c.seq)
	}
	if e.Kind == agent.EventEnd && !e.Status.Known() {
		return agent.Event{}, fmt.Errorf("%w: event %d: a run does not end with the status %.50q", ErrProtocol, e.Seq, e.Status)
	}
	c.seq, c.any = e.Seq, false
	c.over = e.Kind == agent.EventEnd && e.Depth == 0
	return e, nil
}
