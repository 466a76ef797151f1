package agent

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
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
