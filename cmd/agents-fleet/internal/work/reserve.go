package work

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/flow"
	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/runner"
)

// A ledger is the runner.Ledger of an attempt, with the list of reservations in the store.
type ledger struct {
	mu       sync.Mutex
	of       *runner.Ledger // nil until something is reserved
	reserved *store.Record
	known    int64 // events of the record that it has
	held     int64 // reservations that it has
}

// The time between two checks whether a reservation fits.
const (
	firstTry = 10 * time.Millisecond
	lastTry  = 250 * time.Millisecond
)

func (a *attempt) reserve(ctx context.Context, e agent.Event) (left, total agent.Budget, err error) {
	if err := a.journal.Sync(ctx); err != nil { // the end of the session's last reservation
		return left, total, err
	}
	worked := time.Now()
	for wait := firstTry; ; wait = min(2*wait, lastTry) {
		done, err := a.tryReserve(ctx, &e, &left, &total)
		switch {
		case err == nil:
			worked = time.Now()
		case errors.Is(err, agent.ErrBudget) || errors.Is(err, store.ErrLost) || ctx.Err() != nil || time.Since(worked) > storeTime:
			return left, total, err
		}
		if done {
			return left, total, nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return left, total, context.Cause(ctx)
		}
	}
}

func (a *attempt) tryReserve(ctx context.Context, e *agent.Event, left, total *agent.Budget) (done bool, err error) {
	l := &a.shared
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		if err := a.openLedger(ctx); err != nil {
			return false, err
		}
	} else if err := l.reserved.Refresh(ctx); err != nil {
		return false, err
	}
	at := l.reserved.Position() // before the record is read, so that no reservation ends unseen
	for _, other := range l.reserved.Events()[l.held:at.Number] {
		l.of.Reserved(&other)
	}
	l.held = at.Number
	if err := a.record.Refresh(ctx); err != nil {
		return false, err
	}
	events := a.record.Events()
	for ; l.known < int64(len(events)); l.known++ {
		l.of.Note(l.known+1, &events[l.known])
	}
	if done, err = l.of.Fits(e); !done || err != nil {
		return false, err
	}
	e.Seq = l.known
	*left, *total = l.of.Left()
	_, err = l.reserved.Append(ctx, at, []agent.Event{*e}, func(*agent.Event) bool { return true })
	if errors.Is(err, store.ErrSuperseded) { // another reservation was made meanwhile
		return false, nil
	}
	return err == nil, err
}

func (a *attempt) openLedger(ctx context.Context) (err error) {
	var lease agent.Lease
	if from := a.task.Root; from != "" || len(a.task.Path) == 0 {
		root := a.start
		if from != "" {
			if root, err = a.w.starts.read(ctx, a.w.store, from); err != nil {
				return err
			}
		}
		lease = root.Lease
	}
	if a.shared.reserved, err = a.w.records.Get(ctx, flow.ReservedName(a.task.Record)); err != nil {
		return fmt.Errorf("read the reservations of run %s: %w", a.task.Record, err)
	}
	a.shared.of = runner.NewLedger(lease, append(a.above[:len(a.above):len(a.above)], a.agent), a.record.Events(), a.task.Session)
	return nil
}
