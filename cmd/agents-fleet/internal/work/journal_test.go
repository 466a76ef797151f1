package work

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/agents-exe/agents/cmd/agents/fleet/internal/store"
	"github.com/agents-exe/agents/pkg/agent"
)

// A flaky store fails a number of appends, before or after it has done them.
type flaky struct {
	store.Store
	before, after int
}

func (s *flaky) Append(ctx context.Context, record string, after int64, events [][]byte) error {
	if s.before > 0 {
		s.before--
		return errors.New("the link is down")
	}
	err := s.Store.Append(ctx, record, after, events)
	if err == nil && s.after > 0 {
		s.after--
		return errors.New("the link is down")
	}
	return err
}

func open(t *testing.T, s store.Store, own func(*agent.Event) bool) *journal {
	t.Helper()
	record, err := (&store.Records{Store: s}).Get(t.Context(), "R")
	if err != nil {
		t.Fatal(err)
	}
	return &journal{record: record, own: own, known: record.Position()}
}

func folder(t *testing.T) store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func started(key string) agent.Event {
	return agent.Event{Kind: agent.EventCallStarted, Session: "R", Key: key, Time: time.Now()}
}

// A store that fails for a moment loses nothing and adds nothing twice.
func TestAStoreThatFails(t *testing.T) {
	for _, s := range []*flaky{{before: 2}, {after: 1}, {before: 1, after: 1}} {
		s.Store = folder(t)
		j := open(t, s, func(*agent.Event) bool { return true })
		for _, key := range []string{"one", "two"} {
			if err := j.Append(t.Context(), started(key)); err != nil {
				t.Fatal(err)
			}
			if err := j.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if lines, err := s.Read(t.Context(), "R", 0); err != nil || len(lines) != 2 {
			t.Errorf("the record has %d events, %v", len(lines), err)
		}
	}
}

// The second of two workers that start the same call starts nothing; another call does not
// matter.
func TestTheSecondWorkerIsSuperseded(t *testing.T) {
	s := folder(t)
	one := open(t, s, func(e *agent.Event) bool { return e.Key == "one" })
	again := open(t, s, func(e *agent.Event) bool { return e.Key == "one" })
	other := open(t, s, func(e *agent.Event) bool { return e.Key == "two" })
	for _, c := range []struct {
		j    *journal
		key  string
		want error
	}{{one, "one", nil}, {again, "one", store.ErrSuperseded}, {other, "two", nil}} {
		_ = c.j.Append(t.Context(), started(c.key))
		if err := c.j.Sync(t.Context()); !errors.Is(err, c.want) {
			t.Errorf("start of %s: %v, want %v", c.key, err, c.want)
		}
	}
	if err := again.Append(t.Context(), started("one")); !errors.Is(err, store.ErrSuperseded) {
		t.Errorf("the next event: %v", err)
	}
}

// What does not last is written with the next event, pieces of text as one.
func TestPiecesOfText(t *testing.T) {
	s := folder(t)
	j := open(t, s, func(*agent.Event) bool { return false })
	for _, text := range []string{"a", "b", "c"} {
		j.observe(agent.Event{Kind: agent.EventText, Session: "R", Text: text})
	}
	_ = j.Append(t.Context(), agent.Event{Kind: agent.EventAnswer, Session: "R"})
	if _, err := j.finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	events := j.record.Events()
	if len(events) != 2 || events[0].Text != "abc" || events[1].Kind != agent.EventAnswer {
		t.Errorf("the events %v", events)
	}
	if err := j.Append(t.Context(), started("late")); err == nil {
		t.Error("a journal that is finished takes events")
	}
}
