package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// acks is the Journal of a run whose holder stores the events.
type acks struct{ *Channel }

func (acks) Append(context.Context, agent.Event) error { return nil }

// Sync does nothing: the holder decides when it writes.
func (acks) Sync(context.Context) error { return nil }

// started waits until the holder acknowledges the start of the call with the given Key. If
// the run ends first, started waits for ctx, the context of the call, to end too and returns
// nil: the caller checks ctx and does not start the call.
func (c acks) started(ctx context.Context, key string) error {
	begin := time.Now()
	late := time.AfterFunc(c.patience, func() {
		c.mu.Lock() // a waiter either waits already or sees that the time has passed
		defer c.mu.Unlock()
		c.changed.Broadcast()
	})
	defer late.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for seq := c.starts[key]; c.acked < seq; c.changed.Wait() {
		switch {
		case c.stopped:
			c.mu.Unlock()
			<-ctx.Done()
			c.mu.Lock()
			return nil
		case c.drop:
			return errors.New("the holder of the channel does not acknowledge calls")
		case time.Since(begin) >= c.patience:
			return fmt.Errorf("the holder of the channel did not acknowledge a call within %s", c.patience)
		}
	}
	return nil
}
