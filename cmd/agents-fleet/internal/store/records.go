package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
)

// ErrSuperseded is the error of Record.Append when another writer has extended what the
// caller was working on. It must stop without recording anything.
var ErrSuperseded = errors.New("another worker has taken over")

const (
	// largePart is the size above which text or data of a part becomes a blob.
	largePart = 16 << 10
	// eventBytes is about what an event takes in memory beyond its text.
	eventBytes = 1500
	// DefaultCache is the limit of Records without MaxBytes.
	DefaultCache = 256 << 20
)

// Records reads records and keeps them in memory. It is safe for concurrent use.
type Records struct {
	Store Store
	// MaxBytes limits about what the records that are kept take in memory; 0 means
	// DefaultCache. Records that were used longest ago are dropped first.
	MaxBytes int64

	mu    sync.Mutex
	kept  []*Record // in the order of their last use
	bytes int64
}

// A Position is a place in a record: behind the event with a number, from 1. Its Digest
// covers all events up to there.
type Position struct {
	Number int64  `json:"number"`
	Digest string `json:"digest,omitempty"`
}

// A Record is a record in memory, as far as it was read. It is safe for concurrent use.
type Record struct {
	id      string
	records *Records

	mu      sync.Mutex
	events  []agent.Event
	digests [][sha256.Size]byte // of the events up to each

	size int64 // guarded by Records.mu
}

// Get returns a record with all events that it has now: none if it does not exist.
func (c *Records) Get(ctx context.Context, id string) (*Record, error) {
	c.mu.Lock()
	i := slices.IndexFunc(c.kept, func(r *Record) bool { return r.id == id })
	r := &Record{id: id, records: c}
	if i >= 0 {
		r = c.kept[i]
		c.kept = slices.Delete(c.kept, i, i+1)
	}
	c.kept = append(c.kept, r)
	c.mu.Unlock()
	return r, r.Refresh(ctx)
}

// grow counts n more bytes of r, and drops the records that exceed the limit, except r.
func (c *Records) grow(r *Record, n int) {
	limit := cmp.Or(c.MaxBytes, DefaultCache)
	c.mu.Lock()
	defer c.mu.Unlock()
	r.size += int64(n)
	if slices.Contains(c.kept, r) {
		c.bytes += int64(n)
	}
	for c.bytes > limit && len(c.kept) > 0 && c.kept[0] != r {
		c.bytes -= c.kept[0].size
		c.kept = slices.Delete(c.kept, 0, 1)
	}
}

// Refresh reads the events that are new.
func (r *Record) Refresh(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refresh(ctx)
}

func (r *Record) refresh(ctx context.Context) error {
	lines, err := r.records.Store.Read(ctx, r.id, int64(len(r.events)))
	if err != nil {
		return err
	}
	for _, line := range lines {
		var e agent.Event
		err := json.Unmarshal(line, &e)
		size := len(line)
		if err == nil {
			e, err = session.MapParts(e, func(p *agent.Part) error {
				n, err := r.fill(ctx, p)
				size += n
				return err
			})
		}
		if err != nil {
			return fmt.Errorf("read event %d of record %s: %w", len(r.events)+1, r.id, err)
		}
		r.add(line, e, size)
	}
	return nil
}

func (r *Record) add(line []byte, e agent.Event, size int) {
	h := sha256.New()
	if n := len(r.digests); n > 0 {
		h.Write(r.digests[n-1][:])
	}
	h.Write(line)
	r.events = append(r.events, e)
	r.digests = append(r.digests, [sha256.Size]byte(h.Sum(nil)))
	r.records.grow(r, eventBytes+size)
}

// fill puts the content of a part's blob in its place, and returns its size.
func (r *Record) fill(ctx context.Context, p *agent.Part) (int, error) {
	if p.Blob == "" {
		return 0, nil
	}
	b, err := GetBlob(ctx, r.records.Store, p.Blob)
	if p.Blob = ""; p.Kind == agent.PartMedia {
		p.Data = b
	} else {
		p.Text = string(b)
	}
	return len(b), err
}

// An encoded is an event to be added: its line, in which large parts are blobs, a copy of the
// event, and the size of its text.
type encoded struct {
	line  []byte
	event agent.Event
	size  int
}

func (r *Record) encode(ctx context.Context, e agent.Event) (out encoded, err error) {
	out.line, err = json.Marshal(e)
	out.size = len(out.line)
	if err == nil {
		err = json.Unmarshal(out.line, &out.event)
	}
	if err != nil || out.size <= largePart {
		return out, err
	}
	small, err := session.MapParts(out.event, func(p *agent.Part) (err error) {
		switch {
		case p.Kind == agent.PartMedia && len(p.Data) > largePart:
			p.Blob, err = PutBlob(ctx, r.records.Store, r.id, p.Data)
			p.Data = nil
		case p.Kind != agent.PartMedia && len(p.Text) > largePart:
			p.Blob, err = PutBlob(ctx, r.records.Store, r.id, []byte(p.Text))
			p.Text = ""
		}
		return err
	})
	if err == nil {
		out.line, err = json.Marshal(small)
	}
	return out, err
}

// Events returns all events as last read. The caller must not change them.
func (r *Record) Events() []agent.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clip(r.events)
}

// Position returns where the events as last read end.
func (r *Record) Position() Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.position(len(r.events))
}

func (r *Record) position(n int) Position {
	if n == 0 {
		return Position{}
	}
	return Position{Number: int64(n), Digest: hex.EncodeToString(r.digests[n-1][:16])}
}

// Check returns an error if p is not a position in this record.
func (r *Record) Check(p Position) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.check(p)
}

func (r *Record) check(p Position) error {
	if p.Number > int64(len(r.events)) {
		return errMissing(r.id, p.Number)
	}
	if p.Number < 0 || r.position(int(p.Number)) != p {
		return fmt.Errorf("the digest of record %s at event %d is another one: the record was changed, or this is another store", r.id, p.Number)
	}
	return nil
}

// Append adds events for a writer that knows the record up to known, and returns where they
// end. If own accepts an event that the writer does not know, the error is ErrSuperseded;
// other such events do not matter. The events are durable when Append returns. After another
// error they may have been added or not.
func (r *Record) Append(ctx context.Context, known Position, events []agent.Event, own func(*agent.Event) bool) (Position, error) {
	added, lines := make([]encoded, len(events)), make([][]byte, len(events))
	for i, e := range events {
		var err error
		if added[i], err = r.encode(ctx, e); err != nil {
			return known, fmt.Errorf("append to record %s: %w", r.id, err)
		}
		lines[i] = added[i].line
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.check(known); err != nil {
		return known, err
	}
	for seen := known.Number; ; {
		for ; seen < int64(len(r.events)); seen++ {
			if own(&r.events[seen]) {
				return known, ErrSuperseded
			}
		}
		err := r.records.Store.Append(ctx, r.id, seen, lines)
		if err == nil {
			break
		}
		if !errors.Is(err, ErrBehind) {
			return known, err
		}
		if err := r.refresh(ctx); err != nil {
			return known, err
		}
	}
	for _, e := range added {
		r.add(e.line, e.event, e.size)
	}
	return r.position(len(r.events)), nil
}
