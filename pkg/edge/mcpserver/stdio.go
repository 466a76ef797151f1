package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/agents-exe/agents/pkg/leaf/jsonrpc"
)

// flushWait is how long a client that does not read is waited for at the end.
const flushWait = 2 * time.Second

// A pipe is a client on a pair of streams.
type pipe struct {
	*conn
	writer    *lineWriter
	open      chan struct{}
	large     chan struct{}
	answering sync.WaitGroup
}

// Serve answers the messages of in, one a line, until the end of in or of ctx, and
// returns when every call has ended. At the end of in the calls that run have
// Options.Linger; then, and at the end of ctx at once, they are ended. All requests are
// answered except those that the client cancelled. Only messages are written to out,
// one Write each.
//
// The error is that of a write. A Read that waits when ctx ends is not waited for: the
// owner of in closes it; nor is a Write that still waits two seconds after the end.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c, err := s.connect(newTasks(maxTasks), "")
	if err != nil {
		return err
	}
	p := &pipe{
		conn: c, writer: &lineWriter{ended: ctx.Done(), lines: make(chan []byte), gone: make(chan struct{})},
		open: make(chan struct{}, maxOpen), large: make(chan struct{}, maxLarge),
	}
	written := make(chan error, 1)
	go func() { written <- p.writer.run(out, cancel) }()
	stop := c.startForward(p.writer)

	p.read(ctx, in)
	p.linger(ctx, cancel)
	c.disconnect()
	stop()
	close(p.writer.lines)
	select {
	case err := <-written:
		return err
	case <-time.After(flushWait):
		return errors.New("the client does not read its answers")
	}
}

type lineWriter struct {
	ended <-chan struct{} // closed at the end of the connection
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

func (w *lineWriter) send(text []byte) {
	select {
	case w.lines <- text:
		return
	case <-w.gone:
		return
	case <-w.ended:
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
	case <-w.ended:
	}
}

// read handles messages until the end of in or of the connection.
func (p *pipe) read(ctx context.Context, in io.Reader) {
	lines := make(chan jsonrpc.Line)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		defer close(lines)
		from := bufio.NewReaderSize(in, 64<<10)
		for {
			l, err := jsonrpc.ReadLine(from, MaxLine)
			select {
			case lines <- l:
			case <-stop:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case l, ok := <-lines:
			if !ok {
				return
			}
			p.take(ctx, l)
		}
	}
}

// take begins to answer a line.
func (p *pipe) take(ctx context.Context, l jsonrpc.Line) {
	if l.TooLong {
		p.refuse(ctx, l.ID, invalid("the message is longer than %d bytes", MaxLine))
		return
	}
	m, bad := parse(l.Text)
	switch {
	case bad != nil && m == nil:
		p.refuse(ctx, nil, bad)
	case bad != nil:
		p.refuse(ctx, m.ID, bad)
	case m == nil:
	case m.ID == nil || m.IsAnswer():
		p.receive(m)
	case !p.session.greeted.Load() && !m.modern && !first(m.Method):
		p.refuse(ctx, m.ID, invalid("the connection begins with initialize, not with %s", m.Method))
	case m.Method == string(mcp.MethodInitialize) && !m.modern:
		// At once: what follows may depend on it.
		text, _ := p.initialize(ctx, m)
		p.writer.send(text)
	default:
		p.begin(ctx, m, len(l.Text) > largeLine)
	}
}

func first(method string) bool {
	switch method {
	case string(mcp.MethodInitialize), string(mcp.MethodPing), string(mcp.MethodServerDiscover):
		return true
	}
	return false
}

func (p *pipe) refuse(ctx context.Context, id json.RawMessage, e *jsonrpc.Error) {
	p.spawn(ctx, func() { p.writer.send(jsonrpc.Answer(id, nil, e)) })
}

// spawn runs f in a goroutine, and waits while too many are open.
func (p *pipe) spawn(ctx context.Context, f func()) {
	select {
	case p.open <- struct{}{}:
	case <-ctx.Done():
		return
	}
	p.answering.Go(func() {
		defer func() { <-p.open }()
		f()
	})
}

func (p *pipe) begin(ctx context.Context, m *message, large bool) {
	release := func() {}
	if large {
		select {
		case p.large <- struct{}{}:
			release = func() { <-p.large }
		case <-ctx.Done():
			return
		}
	}
	own, cancel := context.WithCancelCause(ctx)
	r, bad := p.enter(m, p.writer, nil, cancel)
	p.spawn(ctx, func() {
		defer cancel(nil)
		defer release()
		text := jsonrpc.Answer(m.ID, nil, bad)
		if bad == nil {
			text, _ = r.answer(own)
		}
		if text != nil {
			p.writer.send(text)
		}
	})
}

// linger waits for open requests and tasks, and ends them after Options.Linger.
func (p *pipe) linger(ctx context.Context, cancel context.CancelCauseFunc) {
	p.stopListening()
	p.tasks.close()
	done := make(chan struct{})
	go func() { p.answering.Wait(); p.tasks.running.Wait(); close(done) }()
	timer := time.NewTimer(p.server.opts.Linger)
	defer timer.Stop()
	select {
	case <-done:
	case <-ctx.Done():
	case <-timer.C:
	}
	cancel(errEnded)
	p.tasks.end()
	<-done
}
