package mcpclient

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A patience is the time that a server has for a call. It stands still while the
// server waits for us: a person may think as long as they like.
type patience struct {
	mu    sync.Mutex
	timer *time.Timer // ends the call
	left  time.Duration
	since time.Time // when left began to pass
	stops int       // how many wait for it to go on
	over  bool
}

type patienceKey struct{}

// patient is ctx with an end when the server has used up limit.
func patient(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	p := &patience{left: limit, since: time.Now()}
	p.timer = time.AfterFunc(limit, func() { cancel(fmt.Errorf("timed out after %s", seconds(limit))) })
	return context.WithValue(ctx, patienceKey{}, p), func() {
		p.end()
		cancel(nil)
	}
}

// patienceOf is the one of ctx, nil if it has none.
func patienceOf(ctx context.Context) *patience {
	p, _ := ctx.Value(patienceKey{}).(*patience)
	return p
}

func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.timer.Stop()
}

// stop makes the time stand still until resume. Both may be called several times.
func (p *patience) stop() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stops++; p.stops == 1 && p.timer.Stop() {
		p.left -= time.Since(p.since)
	}
}

func (p *patience) resume() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stops--; p.stops == 0 && !p.over {
		p.since = time.Now()
		p.timer.Reset(p.left)
	}
}
