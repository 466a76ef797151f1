// Package provider decorates models: what it holds wraps an agent.Provider and
// is one itself.
//
// [Retry] repeats requests that failed for a passing reason:
//
//	p := &provider.Retry{Provider: &openai.Provider{ … }}
package provider

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// The limits of Retry, used where a field is 0.
const (
	DefaultMaxRetries = 5
	DefaultMaxTime    = 3 * time.Minute
)

const (
	firstWait = time.Second
	// longestWait caps every single wait, also one that a server asked for.
	longestWait = time.Minute
)

// Retry repeats requests whose error is a temporary *agent.ModelError. Every
// other error, and a success, is passed on as it is. It is safe for concurrent
// use as long as nobody changes its fields.
//
// The wait before retry n is random between 0 and 2ⁿ⁻¹ seconds (full jitter), so
// that many agents which failed together do not come back together. If the
// server said how long to wait (Retry-After), that is the least wait, up to a
// minute.
//
// Each retry is told by an agent.DeltaRetry before the wait. A wait that would
// end after ctx's deadline is not begun: the failure is returned at once.
type Retry struct {
	// Provider answers the requests. It is required.
	Provider agent.Provider
	// MaxRetries limits how often one request is repeated; 0 means 5, a
	// negative number never.
	MaxRetries int
	// MaxTime limits the time from the first failure to the start of the last
	// attempt; 0 means 3 minutes. The time of the first attempt does not count:
	// a long answer that breaks off is worth another try.
	MaxTime time.Duration
	// Now and Random replace time.Now and rand.Float64.
	Now    func() time.Time
	Random func() float64
	// Sleep waits, or until ctx ends, and then returns its error; nil means real
	// time.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Generate asks the Provider, again if needed. After the last attempt its error
// is returned with the number of attempts; errors.As finds the
// *agent.ModelError in it. If ctx ends during a wait, that is ctx's error.
func (r *Retry) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	var first time.Time
	for attempt := 1; ; attempt++ {
		resp, err := r.Provider.Generate(ctx, req, delta)
		if err == nil {
			return resp, nil
		}
		var failure *agent.ModelError
		if ctx.Err() != nil || !errors.As(err, &failure) || !failure.Temporary {
			return nil, err
		}
		now := r.now()
		if attempt == 1 {
			first = now
		}
		wait := r.wait(attempt, failure.RetryAfter)
		if attempt > r.maxRetries() || now.Add(wait).Sub(first) > r.maxTime() || late(ctx, wait) {
			return nil, gaveUp(err, attempt)
		}
		if delta != nil {
			delta(agent.Delta{Kind: agent.DeltaRetry, Text: err.Error(), Attempt: attempt, Wait: wait})
		}
		if err := r.sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

func gaveUp(err error, attempts int) error {
	if attempts == 1 {
		return err
	}
	return fmt.Errorf("%w (gave up after %d attempts)", err, attempts)
}

// wait is the time until the attempt after the given one.
func (r *Retry) wait(attempt int, asked time.Duration) time.Duration {
	random := rand.Float64
	if r.Random != nil {
		random = r.Random
	}
	ceiling := longestWait
	if attempt < 7 { // 2⁶ seconds are more than longestWait
		ceiling = min(ceiling, firstWait<<(attempt-1))
	}
	jitter := time.Duration(random() * float64(ceiling))
	return max(jitter, min(asked, longestWait))
}

// late reports whether ctx's deadline passes before a wait that begins now. The
// deadline is on the real clock, whatever Now says.
func late(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= wait
}

func (r *Retry) sleep(ctx context.Context, d time.Duration) error {
	if r.Sleep != nil {
		return r.Sleep(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return ctx.Err()
	}
}

func (r *Retry) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

func (r *Retry) maxRetries() int {
	if r.MaxRetries == 0 {
		return DefaultMaxRetries
	}
	return max(r.MaxRetries, 0)
}

func (r *Retry) maxTime() time.Duration {
	if r.MaxTime == 0 {
		return DefaultMaxTime
	}
	return r.MaxTime
}
