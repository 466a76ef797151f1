// Package provider holds providers that wrap other agent.Providers.
//
// [Retry] repeats requests that failed temporarily:
//
//	p := &provider.Retry{Provider: &openai.Provider{ … }}
//
// [Fallback] asks another model when one fails.
package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
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
	// longestWait limits every single wait, also one that a server asked for.
	longestWait = time.Minute
)

// Retry repeats requests whose error is a temporary *agent.ModelError, if the request's
// Again permits it. It returns every other error, and a success, unchanged, but for the
// usage of attempts that failed: it is added to that of the answer or of the last error,
// which then is an *agent.ModelError. It is safe for concurrent use if
// its fields do not change.
//
// The wait before retry n is random between 0 and 2ⁿ⁻¹ seconds (full jitter), so
// that agents which failed together do not all retry together. If the server
// asked to wait (Retry-After), that is the shortest wait, up to a minute.
//
// Each retry is reported by an agent.DeltaRetry before the wait. A wait that would
// end after ctx's deadline does not start: the error is returned at once. So it is
// when a server on this machine refuses the connection twice (see [Refused]).
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
	// Sleep waits until d has passed or ctx ends, and then returns ctx's error;
	// nil means real time.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Unwrap returns the Provider: see agent.As.
func (r *Retry) Unwrap() any { return r.Provider }

// Generate asks the Provider, and asks again if needed. After the last attempt it
// returns the attempt's error with the number of attempts; errors.As finds the
// *agent.ModelError in it. If ctx ends during a wait, the error wraps ctx's.
func (r *Retry) Generate(ctx context.Context, req *agent.Request, delta func(agent.Delta)) (*agent.Response, error) {
	clock, maxRetries := r.Now, max(cmp.Or(r.MaxRetries, DefaultMaxRetries), 0)
	if clock == nil {
		clock = time.Now
	}
	var first time.Time
	var failed agent.Usage // what the attempts consumed that failed
	for attempt := 1; ; attempt++ {
		resp, err := r.Provider.Generate(ctx, req, delta)
		if err == nil && failed != (agent.Usage{}) {
			with := *resp
			with.Usage = resp.Usage.Add(failed)
			with.Usage.Requests = max(resp.Usage.Requests, 1) + failed.Requests
			return &with, nil
		}
		if err == nil {
			return resp, nil
		}
		failure, ok := errors.AsType[*agent.ModelError](err)
		if ok {
			failed = failed.Add(failure.Usage)
		}
		if ctx.Err() != nil || !ok || !failure.Temporary || req.Pass != nil && req.Pass.Begun {
			return nil, consumed(err, failed)
		}
		now := clock()
		if attempt == 1 {
			first = now
		}
		if Refused(err) {
			maxRetries = min(maxRetries, 1)
		}
		wait := r.wait(attempt, failure.RetryAfter)
		if attempt > maxRetries || now.Add(wait).Sub(first) > cmp.Or(r.MaxTime, DefaultMaxTime) || late(ctx, wait) {
			if attempt > 1 {
				err = fmt.Errorf("%w (gave up after %d attempts)", err, attempt)
			}
			return nil, consumed(err, failed)
		}
		if req.Again != nil {
			if err := req.Again(failed); err != nil {
				return nil, consumed(err, failed)
			}
		}
		if delta != nil {
			delta(agent.Delta{Kind: agent.DeltaRetry, Text: err.Error(), Attempt: attempt, Wait: wait})
		}
		if err := r.sleep(ctx, wait); err != nil { // no request is in progress
			return nil, &agent.ModelError{Message: err.Error(), Err: err, Usage: failed}
		}
	}
}

// consumed returns err with the usage of all attempts.
func consumed(err error, usage agent.Usage) error {
	failure, ok := errors.AsType[*agent.ModelError](err)
	switch {
	case ok:
		failure.Usage = usage
	case usage != (agent.Usage{}):
		return &agent.ModelError{Message: err.Error(), Err: err, Usage: usage}
	}
	return err
}

// Refused reports whether err comes from a connection that this machine refused:
// no server listens at the address, and waiting does not start one.
func Refused(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	const windowsRefused = syscall.Errno(10061) // which is not syscall.ECONNREFUSED there
	if !ok || !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, windowsRefused) {
		return false
	}
	addr, ok := op.Addr.(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
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

// late reports whether ctx's deadline passes before a wait that starts now. The
// deadline is on the real clock, not on that of Now.
func late(ctx context.Context, wait time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= wait
}

func (r *Retry) sleep(ctx context.Context, d time.Duration) error {
	if r.Sleep != nil {
		return r.Sleep(ctx, d)
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err()
}
