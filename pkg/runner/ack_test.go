package runner

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// A call that is not acknowledged must not start. When the run ends, the channel may see
// it before the context of the call does.
func TestACallWithoutAckWaitsForTheEndOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Channel{starts: map[string]int64{"S.1.1": 1}, patience: time.Hour}
		c.changed = sync.NewCond(&c.mu)
		ctx, cancel := context.WithCancel(t.Context())
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			if err := (acks{c}).started(ctx, "S.1.1"); err != nil {
				t.Error(err)
			}
		}()
		c.stop()
		synctest.Wait()
		select {
		case <-returned:
			t.Error("the call could start without an acknowledgement")
		default:
		}
		cancel()
		<-returned
	})
}

// silent is a Provider that is not asked.
type silent struct{}

func (silent) Generate(context.Context, *agent.Request, func(agent.Delta)) (*agent.Response, error) {
	return nil, context.Canceled
}

// However long a run may continue without a holder, the wait for an acknowledgement does
// not overflow.
func TestTheWaitForAnAckDoesNotOverflow(t *testing.T) {
	for _, d := range []float64{0, 3600, 1e10, 1e300} {
		r := &Runner{Agent: &agent.Agent{Slug: "a", Provider: silent{}}}
		c := r.Start(t.Context(), agent.Start{Channel: agent.ChannelVersion, Args: []byte(`{"prompt":"go"}`), Journal: true, Lease: agent.Lease{DetachedSeconds: &d}})
		for range c.Events() {
		}
		_, _ = c.Wait() // the request fails
		if c.patience < ackTime {
			t.Errorf("detachedSeconds %g: the wait is %s", d, c.patience)
		}
	}
}
