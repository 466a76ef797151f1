package remote

import (
	"context"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/channel"
)

// A Held is a run on a server that this program directs. The Conn's Close ends the run;
// Leave does not.
type Held struct {
	*channel.Conn
	stream *stream
	end    context.CancelFunc
}

// Hold starts a run of the agent with a slug, or, if start has a session and no
// arguments, joins or resumes the run of that session. It reconnects after a lost
// connection; notice is called when the connection is lost and when there is a new one. The caller must call
// Close or Leave.
func (s *Server) Hold(ctx context.Context, slug string, start agent.Start, notice func(text string)) *Held {
	alive, end := context.WithCancel(ctx)
	st := newStream(alive, &Agent{Server: s, Description: &Description{Name: slug}}, notice)
	return &Held{Conn: channel.Open(st, st, start), stream: st, end: end}
}

// Leave closes the connection. The run continues for the detachedSeconds of its lease.
func (h *Held) Leave() {
	h.stream.mu.Lock()
	h.stream.over = true // Close does not cancel the run
	h.stream.mu.Unlock()
	h.end()
	_ = h.Conn.Close() // the connection is not used any more
}

// Close ends the run if it has not ended, and the connection.
func (h *Held) Close() error {
	err := h.Conn.Close()
	h.end()
	return err
}

// Cause returns why the connection ended before the run, nil if that is not known. Call
// it after the last of the Events.
func (h *Held) Cause() error { return h.stream.failed }
