package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
	"github.com/agents-exe/agents/pkg/leaf/guard"
	"github.com/agents-exe/agents/pkg/leaf/wsconn"
)

// A connection is the holder's end of a channel.
type connection struct {
	client *client
	slug   string
	ws     *wsconn.Conn
	lost   context.CancelCauseFunc
	taken  int64 // the last event that was sent; under run.mu

	mu    sync.Mutex
	run   *held    // nil before it has begun
	early [][]byte // messages before that
}

// maxEarly is how many messages a client may send before its run has begun.
const maxEarly = 100

var errProtocol = errors.New("the holder of the channel broke the protocol")

// channel is GET /v1/agents/SLUG/channel.
func (c *client) channel(w http.ResponseWriter, r *http.Request) {
	slug := r.PathValue("slug")
	s := c.server
	if err := c.known(slug); err != nil {
		refuse(w, err)
		return
	}
	if !s.connect() {
		refuse(w, errDraining)
		return
	}
	defer s.conns.Done()
	ws, err := wsconn.Accept(w, r, s.opts.WebSocket)
	if err != nil {
		return
	}
	defer ws.Abort()
	ctx, cancel := context.WithCancelCause(r.Context())
	conn := &connection{client: c, slug: slug, ws: ws, lost: cancel}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel(nil)
	serving.Go(func() { ws.KeepAlive(ctx) })
	conn.serve(ctx, &serving)
}

// connect counts a connection; false means that the server has ended.
func (s *Server) connect() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.conns.Add(1)
	}
	return !s.closed
}

func (c *connection) serve(ctx context.Context, serving *sync.WaitGroup) {
	first, cancel := context.WithTimeout(ctx, startWait)
	text, err := c.ws.Receive(first)
	cancel()
	var start agent.Start
	if err == nil {
		start, err = channel.DecodeStart(text)
	}
	if err != nil {
		c.fail(ctx, agent.StatusFailed, wsconn.Refused, err)
		return
	}
	serving.Go(func() {
		if err := guard.Run(c.client.server.opts.Warn, func() error { c.receive(ctx); return nil }); err != nil {
			c.broken(err)
			c.lost(err)
		}
	})
	h, err := c.begin(ctx, start)
	if err != nil {
		c.refuse(ctx, err)
		return
	}
	defer context.AfterFunc(ctx, h.wake)()
	c.ready(h)
	if c.send(ctx, h) {
		c.client.server.forget(h)
	} else {
		h.detach(c)
	}
}

// begin starts the run of a start message, or finds the one that it follows: the one in
// progress, or that which an earlier server left. A message without a prompt, or with the
// number of an event, does not begin anything else.
func (c *connection) begin(ctx context.Context, start agent.Start) (*held, error) {
	s := c.client.server
	follows := start.Session != "" && (start.From > 0 || len(start.Args) == 0 && !start.Compact)
	if follows {
		release, err := s.claim(ctx, start.Session)
		if err != nil {
			return nil, err
		}
		defer release()
	}
	h := s.find(c.client, c.slug, start.Session)
	if h != nil && !follows && h.finished() {
		s.forget(h)
	}
	var err error
	switch {
	case h != nil && follows:
	case follows && start.From > 0 && s.opts.Journal != nil:
		h, err = c.client.again(ctx, c.slug, start, false)
	default:
		h = c.client.newHeld(c.slug, &start, 0)
		err = c.client.hold(ctx, h, start, false)
		start.From = 0
	}
	if err != nil {
		return nil, err
	}
	return h, h.attach(c, start.From)
}

// ready passes on what came before the run had begun.
func (c *connection) ready(h *held) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run = h
	for _, text := range c.early {
		c.deliver(text)
	}
	c.early = nil
}

// receive passes messages to the run until the connection ends.
func (c *connection) receive(ctx context.Context) {
	for {
		text, err := c.ws.Receive(ctx)
		if errors.Is(err, wsconn.ErrTooLong) {
			c.broken(err)
		}
		if err != nil {
			c.lost(err)
			return
		}
		c.take(text)
	}
}

// take passes a message to the run, or keeps it until that has begun.
func (c *connection) take(text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.run != nil:
		c.deliver(text)
	case len(c.early) < maxEarly:
		c.early = append(c.early, text)
	default:
		c.lost(fmt.Errorf("%w: more than %d messages before the run has begun", errProtocol, maxEarly))
	}
}

// deliver passes a message to the run. c.mu is held.
func (c *connection) deliver(text []byte) {
	run := c.run.channel()
	if run == nil {
		return // it has ended
	}
	if err := channel.Deliver(run, text); err != nil {
		c.run.broke(err)
		return
	}
	var m struct {
		Kind     string `json:"kind"`
		Seq      int64  `json:"seq"`
		Question string `json:"question"`
		Session  string `json:"session"`
	}
	_ = json.Unmarshal(text, &m) // Deliver has read it
	switch m.Kind {
	case "cancel":
		c.run.cancelled(m.Session)
	case "ack":
		c.run.acked(m.Seq)
	case "reply":
		c.run.answered(m.Question)
	}
}

// broke ends a run whose client broke the protocol.
func (h *held) broke(err error) {
	h.end(&agent.EndError{Status: agent.StatusFailed, Text: fmt.Sprintf("%v: %v", errProtocol, err)})
}

// broken has the run fail for what the client sent, if the run has begun.
func (c *connection) broken(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run != nil {
		c.run.broke(err)
	}
}

// send sends the events of the run until it ends, another connection takes it, or this one
// ends. done means that the client has everything.
func (c *connection) send(ctx context.Context, h *held) (done bool) {
	for {
		lines, code := h.next(ctx, c)
		if ctx.Err() != nil {
			return false
		}
		if len(lines) == 0 {
			reason := ""
			switch code {
			case wsconn.Replaced:
				reason = "another connection holds this run"
			case wsconn.Restart:
				reason = Parked
			case wsconn.Refused:
				reason = "the events of this run can no longer be read"
			}
			return c.ws.End(code, reason) == nil && code == wsconn.Normal
		}
		for _, l := range lines {
			if c.ws.Send(ctx, l.text) != nil {
				return false
			}
			h.took(c, l.seq)
		}
	}
}

// refuse ends a connection whose run did not begin.
func (c *connection) refuse(ctx context.Context, err error) {
	status, code := agent.StatusOf(err), wsconn.Refused
	if e, ok := errors.AsType[*Error](err); ok && e.Retry > 0 {
		status, code = agent.StatusLimit, wsconn.TryLater
		err = fmt.Errorf("%w; try again in %s", err, e.Retry)
	}
	c.fail(ctx, status, code, err)
}

// fail sends an end event: nothing ran.
func (c *connection) fail(ctx context.Context, status agent.Status, code wsconn.Code, err error) {
	e := agent.Event{Kind: agent.EventEnd, Time: time.Now(), Seq: 1, Agent: c.slug, Status: status, Error: err.Error(), Total: &agent.TotalUsage{}}
	if text, err := channel.EncodeEvent(e); err == nil && c.ws.Send(ctx, text) == nil {
		_ = c.ws.End(code, e.Error)
	}
}
