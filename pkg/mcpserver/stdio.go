package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// flushWait is how long a client that does not read is waited for at the end.
const flushWait = 2 * time.Second

// A pipe is a client on a pair of streams.
type pipe struct {
	*conn
	writer  *lineWriter
	greeted bool // initialize was answered; for the loop of Serve alone

	open  chan struct{}
	large chan struct{}
	tasks sync.WaitGroup
}

// Serve answers the messages that come in, a line each, until the end of in or of
// ctx, and returns when every call has ended. At the end of in the calls that run
// have Options.Linger; then, and at the end of ctx at once, they are ended.
// All requests are answered except those that the client cancelled. Nothing but
// messages is written to out, one Write each.
//
// The error is that of a write. A Read that waits when ctx ends is left behind:
// whoever owns in closes it; so is a Write that still waits two seconds after all.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c, err := s.connect(ctx)
	if err != nil {
		return err
	}
	p := &pipe{
		conn: c, writer: &lineWriter{ctx: ctx, lines: make(chan []byte), gone: make(chan struct{})},
		open: make(chan struct{}, maxOpen), large: make(chan struct{}, maxLarge),
	}
	written := make(chan error, 1)
	go func() { written <- p.writer.run(out, cancel) }()
	forwarded := make(chan struct{})
	stop := make(chan struct{})
	go func() { defer close(forwarded); c.forward(p.writer, stop) }()

	p.read(in)
	p.linger(cancel)
	c.disconnect()
	close(stop)
	<-forwarded
	close(p.writer.lines)
	select {
	case err := <-written:
		return err
	case <-time.After(flushWait):
		return errors.New("the client does not read its answers")
	}
}

// A lineWriter writes messages to a stream.
type lineWriter struct {
	ctx   context.Context // of the connection
	lines chan []byte
	gone  chan struct{} // closed when nothing can be written any more
}

// run writes lines until there are no more. A failure ends the connection.
func (w *lineWriter) run(out io.Writer, cancel context.CancelCauseFunc) error {
	for l := range w.lines {
		if _, err := out.Write(l); err != nil {
			cancel(errEnded)
			close(w.gone)
			return err
		}
	}
	return nil
}

// send writes a line if that is still possible.
func (w *lineWriter) send(text []byte) {
	select {
	case w.lines <- text:
		return
	case <-w.gone:
		return
	case <-w.ctx.Done():
	}
	timer := time.NewTimer(flushWait)
	defer timer.Stop()
	select {
	case w.lines <- text:
	case <-w.gone:
	case <-timer.C:
	}
}

// notify writes a line, unless the connection is at its end.
func (w *lineWriter) notify(text []byte) {
	select {
	case w.lines <- text:
	case <-w.gone:
	case <-w.ctx.Done():
	}
}

// read takes in messages until the end of in or of the connection.
func (p *pipe) read(in io.Reader) {
	lines := make(chan line)
	stop := make(chan struct{})
	defer close(stop)
	go readLines(in, lines, stop)
	for {
		select {
		case <-p.ctx.Done():
			return
		case l, ok := <-lines:
			if !ok {
				return
			}
			p.take(l)
		}
	}
}

// take begins to answer a line.
func (p *pipe) take(l line) {
	if l.tooLong {
		p.refuse(l.id, invalid("the message is longer than %d bytes", MaxLine))
		return
	}
	m, f := parse(l.text)
	switch {
	case f != nil && m == nil:
		p.refuse(nil, f)
	case f != nil:
		p.refuse(m.id, f)
	case m == nil:
	case m.id == nil || m.answers():
		p.told(m)
	case !p.greeted && !m.modern && !first(m.method):
		p.refuse(m.id, invalid("the connection begins with initialize, not with %s", m.method))
	case m.method == string(mcp.MethodInitialize) && !m.modern:
		// At once: what follows may depend on it.
		text, ok := p.initialize(m)
		p.greeted = p.greeted || ok
		p.writer.send(text)
	default:
		p.begin(m, len(l.text) > largeLine)
	}
}

// first reports whether a connection may begin with a request.
func first(method string) bool {
	switch method {
	case string(mcp.MethodInitialize), string(mcp.MethodPing), string(mcp.MethodServerDiscover):
		return true
	}
	return false
}

// refuse answers with an error.
func (p *pipe) refuse(id json.RawMessage, f *fault) {
	p.spawn(func() { p.writer.send(refusal(id, f)) })
}

// spawn runs f at the same time as the rest, and waits while too much is open.
func (p *pipe) spawn(f func()) {
	select {
	case p.open <- struct{}{}:
	case <-p.ctx.Done():
		return
	}
	p.tasks.Go(func() {
		defer func() { <-p.open }()
		f()
	})
}

// begin starts to answer a request.
func (p *pipe) begin(m *message, large bool) {
	if large {
		select {
		case p.large <- struct{}{}:
		case <-p.ctx.Done():
			return
		}
	}
	ctx, cancel := context.WithCancelCause(p.ctx)
	r, f := p.enter(m, p.writer, nil, cancel)
	p.spawn(func() {
		defer cancel(nil)
		if large {
			defer func() { <-p.large }()
		}
		text := refusal(m.id, f)
		if f == nil {
			text, _ = r.answer(ctx)
		}
		if text != nil {
			p.writer.send(text)
		}
	})
}

// linger waits for what is open, and ends it when its time is over.
func (p *pipe) linger(cancel context.CancelCauseFunc) {
	p.stopListening()
	done := make(chan struct{})
	go func() { p.tasks.Wait(); close(done) }()
	timer := time.NewTimer(p.server.opts.Linger)
	defer timer.Stop()
	select {
	case <-done:
	case <-p.ctx.Done():
	case <-timer.C:
	}
	cancel(errEnded)
	<-done
}
