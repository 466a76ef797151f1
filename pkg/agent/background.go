package agent

import (
	"context"
	"slices"
	"time"
)

// A LeftCall is a call that an agent answers in the background: the caller's model has a handle
// as its result, and not yet what came of it.
type LeftCall struct {
	Key    string   `json:"key"`
	Handle string   `json:"handle"`
	Call   ToolCall `json:"call"`
	Turn   int      `json:"turn"`
	N      int      `json:"n"`
}

// Background is what a run tells its tools of the agents that work in the background for it.
// Handles that are not known are errors.
type Background interface {
	// List returns them in the order of their calls, without those whose answer is in the
	// conversation.
	List() []BackgroundAgent
	// Await waits until one of the agents has ended, ctx is done, or the time most is over. Without
	// handles, it waits for all agents. It returns the handles of those that have ended.
	Await(ctx context.Context, handles []string, most time.Duration) (ended []string, err error)
	// Send sends a message to an agent that works.
	Send(ctx context.Context, handle, text string) error
	// Stop ends an agent and waits for that.
	Stop(ctx context.Context, handle, reason string) error
}

// A BackgroundAgent is an agent that works in the background. One that has ended is listed
// until the model has been told.
type BackgroundAgent struct {
	Handle string
	Tool   string
	Ended  bool
}

// leave notes that the open call i was answered with a handle.
func (s *Session) leave(i int, e *Event) {
	c := s.last().Calls[i]
	c.Extra = nil
	s.Left = append(slices.Clip(s.Left), LeftCall{Key: s.key(i), Handle: e.Result.Handle, Call: c, Turn: s.Turn, N: i})
}

// told notes that a message has the end of an agent in the background.
func (s *Session) told(key string) {
	if key != "" {
		s.Left = slices.DeleteFunc(slices.Clone(s.Left), func(l LeftCall) bool { return l.Key == key })
	}
}
