package treetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/provider"
	"github.com/agents-exe/agents/pkg/provider/scripted"
)

// A clock is the time of a test. It advances by waits alone, and a wait takes no
// real time.
type clock struct {
	limit time.Duration // 0 means none
	late  func()        // called when more than limit has passed

	mu     sync.Mutex
	passed time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Unix(0, 0).UTC().Add(c.passed)
}

// left returns the time until the limit, if there is one.
func (c *clock) left() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.limit - c.passed, c.limit > 0
}

// sleep advances the clock by d. The error is that of ctx, which ends when the limit
// is exceeded.
func (c *clock) sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	c.passed += max(d, 0)
	late := c.limit > 0 && c.passed > c.limit
	c.mu.Unlock()
	if late {
		c.late()
	}
	return ctx.Err()
}

// A model answers the requests of one agent from a script. Requests that fail with a
// temporary error are repeated as in a real run, on the clock of the test.
type model struct {
	scripted.Provider
	clock *clock
}

func newModel(script *scripted.Script, c *clock) *model {
	return &model{scripted.Provider{Script: script, Sleep: c.sleep}, c}
}

// Generate answers one request.
func (m *model) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	var waited time.Duration // by this request alone: others wait at the same time
	most := provider.DefaultMaxTime
	if left, limited := m.clock.left(); limited {
		most = min(most, max(left, 1)) // as a wait that would end after ctx's deadline
	}
	retry := &provider.Retry{
		Provider: &m.Provider, MaxTime: most,
		Now:    func() time.Time { return time.Unix(0, 0).Add(waited) },
		Random: func() float64 { return 0 },
		Sleep: func(ctx context.Context, d time.Duration) error {
			waited += d
			return m.clock.sleep(ctx, d)
		},
	}
	return retry.Generate(ctx, req, delta)
}

// noModel is the model of an agent without one in the test: every request fails.
type noModel struct{ slug string }

func (m noModel) Generate(context.Context, *agent.Request, func(agent.Delta)) (*agent.Response, error) {
	return nil, &agent.ModelError{Message: fmt.Sprintf("the test has no model for the agent %s", m.slug)}
}
