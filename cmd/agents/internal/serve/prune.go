package serve

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/agents-exe/agents/cmd/agents/internal/program"
	"github.com/agents-exe/agents/pkg/session"
)

// pruneEvery is how often the server looks for sessions beyond --keep-sessions.
const pruneEvery = time.Hour

// prune removes the sessions of clients that exceed k, at once and every hour, until stop is
// called.
func (h *agentServer) prune(ctx context.Context, k session.Keep, limit string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	said := map[string]bool{}
	once := func() {
		removed, left, err := k.Prune(ctx, h.dirs[0], func(id string) bool {
			_, err := os.Stat(filepath.Join(h.notes, id+noteSuffix)) // a server may have to continue it
			return err == nil
		})
		if ctx.Err() != nil {
			return
		}
		if removed > 0 {
			h.say(fmt.Sprintf("--keep-sessions %s: %d %s of clients removed", limit, removed, program.Plural(removed, "session")))
		}
		for _, path := range left {
			if id := filepath.Base(path); !said[id] {
				said[id] = true
				h.say(fmt.Sprintf("session %s is beyond --keep-sessions %s and is kept: its last run has no end, so it is not known what its calls did", id, limit))
			}
		}
		if err != nil {
			h.say("warning: --keep-sessions: " + err.Error())
		}
	}
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(pruneEvery)
		defer tick.Stop()
		for {
			once()
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}
