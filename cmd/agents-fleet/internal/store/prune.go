package store

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

const sharedSuffix = "-agents"

// SharedOwner returns the owner of the folders of agents that a run shares with the other runs
// of its day.
func SharedOwner(run string) string {
	day, _, _ := strings.Cut(run, "-")
	return day + sharedSuffix
}

// An Expired is an owner that is no longer needed: a run that has ended, or, if End is nil, the
// folders of the agents of a day.
type Expired struct {
	Owner string
	End   *agent.Event
}

// ExpiredBefore yields the runs that ended before a time, for Store.Remove, according to their
// records: a run whose record has no end may be in the queue or in progress. If all runs of a
// day are yielded, the folders of its agents follow. An error with an owner is about its record,
// which must stay; one without an owner ends the sequence.
func ExpiredBefore(ctx context.Context, s Store, before time.Time) iter.Seq2[Expired, error] {
	const second, day = "20060102-150405", "20060102"
	// A submission that began yesterday may still be storing the folder of its agent.
	shared := before
	if yesterday := time.Now().Add(-24 * time.Hour); yesterday.Before(before) {
		shared = yesterday
	}
	return func(yield func(Expired, error) bool) {
		owners, err := s.Owners(ctx, before.UTC().Format(second)) // an id is the time at which its run began
		if err != nil {
			yield(Expired{}, fmt.Errorf("list the runs: %w", err))
			return
		}
		needed := "" // the shared owner of the last run that stays
		for _, owner := range owners {
			if err := ctx.Err(); err != nil {
				yield(Expired{}, err)
				return
			}
			if of, ok := strings.CutSuffix(owner, sharedSuffix); ok {
				if owner != needed && of < shared.UTC().Format(day) && !yield(Expired{Owner: owner}, nil) {
					return
				}
				continue
			}
			end, err := endOf(ctx, s, owner)
			if expired := end != nil && end.Time.Before(before); !expired {
				needed = SharedOwner(owner)
				if err == nil {
					continue
				}
			}
			if !yield(Expired{owner, end}, err) {
				return
			}
		}
	}
}

// endOf returns the event with which a run ended, nil if it did not.
func endOf(ctx context.Context, s Store, run string) (*agent.Event, error) {
	lines, err := s.Read(ctx, run, 0)
	for i := len(lines) - 1; i >= 0 && err == nil; i-- {
		var e agent.Event
		if err = json.Unmarshal(lines[i], &e); err == nil && e.Kind == agent.EventEnd && e.Session == run {
			return &e, nil
		}
	}
	return nil, err
}
