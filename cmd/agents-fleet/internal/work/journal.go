package work

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/pkg/agent"
)

// A journal is the agent.Journal of an activity: it appends to the record of the run. It
// also takes the events that do not last, for those who watch. Events are written by Sync;
// those that do not last are written soon, with others where possible.
type journal struct {
	record *store.Record
	own    func(*agent.Event) bool // see store.Record.Append

	mu      sync.Mutex
	pending []agent.Event
	timer   *time.Timer     // until events that do not last are written; nil without any
	closed  error           // nothing is written any more
	count   int             // of the events that were appended
	end     *agent.Event    // of the run
	working map[string]bool // the sessions below it that have begun and not ended

	writing sync.Mutex // held while events are written
	known   store.Position
	started map[string]bool // the calls whose start was written
}

const (
	// showTime is how long events that do not last may wait for others.
	showTime = 200 * time.Millisecond
	// storeTime is how long the store may fail before an activity gives up.
	storeTime = time.Minute
)

// Append implements agent.Journal.
func (j *journal) Append(_ context.Context, e agent.Event) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed != nil {
		return j.closed
	}
	j.pending = append(j.pending, e)
	j.count++
	j.follow(&e)
	if e.Kind == agent.EventEnd && e.Key == "" {
		j.end = &e
	}
	return nil
}

// follow notes which agents below that of the run work. j.mu is held, or nothing else has j.
func (j *journal) follow(e *agent.Event) {
	switch {
	case e.Kind == agent.EventSession && e.Depth > 0:
		if j.working == nil {
			j.working = map[string]bool{}
		}
		j.working[e.Session] = true
	case e.Kind == agent.EventEnd:
		delete(j.working, e.Session)
	}
}

// agents returns the sessions of these agents.
func (j *journal) agents() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Collect(maps.Keys(j.working))
}

// observe takes the events that do not last. Pieces of the same text are joined.
func (j *journal) observe(e agent.Event) {
	if e.Kind.Lasting() {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed != nil {
		return
	}
	if n := len(j.pending); n > 0 && (e.Kind == agent.EventText || e.Kind == agent.EventReasoning) {
		if last := &j.pending[n-1]; last.Kind == e.Kind && last.Session == e.Session && last.Turn == e.Turn {
			last.Text += e.Text
			return
		}
	}
	j.pending = append(j.pending, e)
	if j.timer == nil {
		j.timer = time.AfterFunc(showTime, func() { _ = j.Sync(context.Background()) }) // the next Sync has the error too
	}
}

// Sync implements agent.Journal: it writes what is pending.
func (j *journal) Sync(ctx context.Context) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mu.Lock()
	events, err := j.pending, j.closed
	j.pending = nil
	if j.timer != nil {
		j.timer.Stop()
		j.timer = nil
	}
	j.mu.Unlock()
	if err != nil || len(events) == 0 {
		return err
	}
	if err := j.write(ctx, events); err != nil {
		j.close(err)
	}
	for i := range events {
		if e := &events[i]; e.Kind == agent.EventCallStarted {
			if j.started == nil {
				j.started = map[string]bool{}
			}
			j.started[e.Key] = true
		}
	}
	return j.why()
}

// write appends events, and tries again for a while if the store fails.
func (j *journal) write(ctx context.Context, events []agent.Event) error {
	ctx = context.WithoutCancel(ctx) // a cancelled run records how it ended
	since := time.Now()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		at, err := j.record.Append(ctx, j.known, events, j.own)
		if err == nil {
			j.known = at
			return nil
		}
		if errors.Is(err, store.ErrSuperseded) || errors.Is(err, store.ErrLost) || time.Since(since) > storeTime || j.why() != nil {
			return err
		}
		time.Sleep(wait)
		if j.record.Refresh(ctx) == nil && j.stored(events) {
			return nil
		}
	}
}

// stored reports whether the record has events after all, although the store said that it
// could not append them.
func (j *journal) stored(events []agent.Event) bool {
	at := j.record.Position()
	for _, e := range j.record.Events()[j.known.Number:at.Number] {
		first := &events[0]
		if e.Kind == first.Kind && e.Session == first.Session && e.Key == first.Key && e.Time.Equal(first.Time) {
			j.known = at
			return true
		}
	}
	return false
}

func (j *journal) close(why error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed == nil {
		j.closed = why
	}
	if j.timer != nil {
		j.timer.Stop()
		j.timer = nil
	}
}

func (j *journal) why() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.closed
}

// finish writes what is pending and returns how far the record is known. Nothing of the
// journal runs after it.
func (j *journal) finish(ctx context.Context) (store.Position, error) {
	err := j.Sync(ctx)
	j.close(errors.New("the activity is over"))
	j.writing.Lock()
	defer j.writing.Unlock()
	return j.known, err
}

// appended is how many events were appended so far.
func (j *journal) appended() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.count
}
