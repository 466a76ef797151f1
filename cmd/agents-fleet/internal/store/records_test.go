package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/google/go-cmp/cmp"
)

func event(session, text string) agent.Event {
	m := agent.UserText(text)
	return agent.Event{Time: time.Unix(1, 0).UTC(), Kind: agent.EventMessage, Session: session, Message: &m}
}

func get(t *testing.T, s Store, id string) *Record {
	t.Helper()
	r, err := (&Records{Store: s}).Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func never(*agent.Event) bool { return false }

func TestRecordIsWhatWasAppended(t *testing.T) {
	s := opened(t, t.TempDir())
	r := get(t, s, "r")
	if p := r.Position(); p != (Position{}) {
		t.Errorf("Position of a new record = %v", p)
	}
	large := strings.Repeat("large & <odd> ", 5000)
	events := []agent.Event{event("a", "x"), event("a", large), {
		Kind: agent.EventCallEnded, Session: "a", Result: &agent.ToolResult{CallID: "1", Parts: []agent.Part{
			{Kind: agent.PartMedia, MIME: "image/png", Data: []byte(large)}, agent.Text("small")}},
	}}
	p, err := r.Append(t.Context(), Position{}, events, never)
	if err != nil || p.Number != 3 || p != r.Position() {
		t.Fatalf("Append = %v, %v; Position = %v", p, err, r.Position())
	}
	for _, r := range []*Record{r, get(t, s, "r")} {
		if diff := cmp.Diff(events, r.Events()); diff != "" {
			t.Errorf("Events (-want +got):\n%s", diff)
		}
		if err := r.Check(p); err != nil {
			t.Error(err)
		}
	}
	lines, err := s.Read(t.Context(), "r", 0)
	for _, l := range lines {
		if len(l) > 1000 {
			t.Errorf("a line has %d bytes: its large part is not a blob", len(l))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAppendIsSupersededByOwnEvents(t *testing.T) {
	s := opened(t, t.TempDir())
	one, two := get(t, s, "r"), get(t, s, "r")
	own := func(session string) func(*agent.Event) bool {
		return func(e *agent.Event) bool { return e.Session == session }
	}
	start, err := one.Append(t.Context(), Position{}, []agent.Event{event("root", "x")}, own("root"))
	if err != nil {
		t.Fatal(err)
	}
	if err := two.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, err := one.Append(t.Context(), start, []agent.Event{event("a", "1")}, own("a"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := two.Append(t.Context(), start, []agent.Event{event("b", "1")}, own("b"))
	if err != nil || b.Number != 3 {
		t.Fatalf("Append of another session = %v, %v, want number 3", b, err)
	}
	for _, r := range []*Record{one, two} { // has not read it, has read it
		if _, err := r.Append(t.Context(), a, []agent.Event{event("b", "again")}, own("b")); !errors.Is(err, ErrSuperseded) {
			t.Errorf("Append of a writer that was overtaken = %v, want ErrSuperseded", err)
		}
	}
	if _, err := one.Append(t.Context(), a, []agent.Event{event("a", "2")}, own("a")); err != nil {
		t.Errorf("Append of a writer that knows its own events = %v", err)
	}
	var got []string
	for _, e := range get(t, s, "r").Events() {
		got = append(got, e.Session+" "+e.Message.Text())
	}
	if want := []string{"root x", "a 1", "b 1", "a 2"}; cmp.Diff(want, got) != "" {
		t.Errorf("the record has %q, want %q", got, want)
	}
}

func TestPositionIsOfOneRecord(t *testing.T) {
	s := opened(t, t.TempDir())
	r := get(t, s, "r")
	p, err := r.Append(t.Context(), Position{}, []agent.Event{event("a", "x")}, never)
	if err != nil {
		t.Fatal(err)
	}
	other := p
	other.Digest = strings.Repeat("0", len(p.Digest))
	for _, bad := range []Position{other, {Number: 2, Digest: p.Digest}, {Number: -1}, {Number: 1}, {Digest: p.Digest}} {
		if err := r.Check(bad); err == nil {
			t.Errorf("Check(%v) succeeded", bad)
		}
		if _, err := r.Append(t.Context(), bad, []agent.Event{event("a", "y")}, never); err == nil {
			t.Errorf("Append behind %v succeeded", bad)
		}
	}
}

// A thousand sub-agents may write into the record of their root.
func TestManyWritersOfOneRecord(t *testing.T) {
	s := opened(t, t.TempDir())
	caches := []*Records{{Store: s}, {Store: opened(t, s.(*folder).root)}}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			session := fmt.Sprint("s", i)
			r, err := caches[i%2].Get(t.Context(), "r")
			p := Position{}
			for n := 0; n < 5 && err == nil; n++ {
				p, err = r.Append(t.Context(), p, []agent.Event{event(session, fmt.Sprint(n))}, func(e *agent.Event) bool {
					return e.Session == session
				})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	counts := map[string]int{}
	for _, e := range get(t, s, "r").Events() {
		if want := fmt.Sprint(counts[e.Session]); e.Message.Text() != want {
			t.Fatalf("session %s has %s, want %s", e.Session, e.Message.Text(), want)
		}
		counts[e.Session]++
	}
	if len(counts) != 20 {
		t.Errorf("%d sessions are in the record, want 20", len(counts))
	}
}

func TestRecordsKeepsWithinItsLimit(t *testing.T) {
	s := opened(t, t.TempDir())
	c := &Records{Store: s, MaxBytes: 100_000}
	for i, size := range append(slices.Repeat([]int{14_000}, 16), 40_000, 40_000, 40_000, 14_000) {
		r, err := c.Get(t.Context(), fmt.Sprint("r", i))
		if err == nil {
			_, err = r.Append(t.Context(), Position{}, []agent.Event{event("a", strings.Repeat("x", size))}, never)
		}
		if err != nil {
			t.Fatal(err)
		}
		if want := map[int]int{15: 6, 18: 2, 19: 3}[i]; want > 0 && len(c.kept) != want {
			t.Errorf("%d records are kept in 100 kB after record %d, want %d", len(c.kept), i, want)
		}
	}
	for i := range 20 {
		r, err := c.Get(t.Context(), fmt.Sprint("r", i))
		if err != nil || len(r.Events()) != 1 {
			t.Errorf("record %d has %d events, %v, want 1", i, len(r.Events()), err)
		}
	}
	if c.bytes > c.MaxBytes {
		t.Errorf("%d bytes are kept, more than %d", c.bytes, c.MaxBytes)
	}
}
