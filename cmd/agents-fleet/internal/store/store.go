// Package store keeps what all workers of a fleet share: records, which hold the events of
// runs, and objects, which are files under a name. Each belongs to an owner, the first element
// of its name: a run, or a day, which owns the folders of the agents that were submitted on it.
// Everything of an owner is removed together: see [ExpiredBefore].
//
// A [Store] has three forms: a folder, which may be on NFS, a bucket of an S3-compatible
// server, and a Postgres database. [Open] opens the form that a URL names, and [Encrypt]
// puts AES-256-GCM around any of them. [Records] reads records as events of agents, keeps
// them in memory, and appends to them.
//
//	s, err := store.Open(ctx, "/srv/fleet")
//	records := &store.Records{Store: s}
//	r, err := records.Get(ctx, id)
//	known := r.Position()
//	known, err = r.Append(ctx, known, events, func(e *agent.Event) bool { return e.Session == mine })
//
// At most one writer at a time extends a record: an append names the number of events that
// the writer knows, and fails with [ErrBehind] if the record has more. What a method has
// written when it returns survives a loss of power.
package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"sync"
)

// ErrBehind is the error of Append when the record has more events than the writer knows.
var ErrBehind = errors.New("the record has more events")

// A Store keeps records and objects. It is safe for concurrent use by several processes. A
// failed write may have happened or not, except one that fails with ErrBehind.
type Store interface {
	// Append adds all events after number after, or none. An event is one line of JSON. The
	// error is ErrBehind if the record has more than after events.
	Append(ctx context.Context, record string, after int64, events [][]byte) error
	// Read returns the events that follow number after, in order: none for a record that does
	// not exist.
	Read(ctx context.Context, record string, after int64) ([][]byte, error)
	// Put stores an object if there is none of that name, and reports whether it did. A name
	// has elements separated by slashes: RUN/replies/QUESTION.
	Put(ctx context.Context, name string, data []byte) (bool, error)
	// Get returns an object, or an error that is fs.ErrNotExist.
	Get(ctx context.Context, name string) ([]byte, error)
	// Owners returns, in order, the owners of all records and objects whose names sort before
	// a text. No name may begin with this text. It first completes interrupted removals.
	Owners(ctx context.Context, before string) ([]string, error)
	// Remove removes everything that belongs to an owner. No process may be writing it, not
	// even one that is suspended.
	Remove(ctx context.Context, owner string) error
	// Close releases what the store holds open. Nothing may be running.
	Close() error
}

// Open opens the store that a URL names: the path of a folder, file:///folder,
// s3://bucket/prefix?endpoint=URL&region=NAME, or postgres://user@host/database. Passwords
// and keys are better given where the client libraries look for them: PGPASSWORD or
// ~/.pgpass, AWS_ACCESS_KEY_ID and the other sources of the AWS SDK.
func Open(ctx context.Context, location string) (Store, error) {
	scheme, _, found := strings.Cut(location, "://")
	if !found {
		return openFolder(location)
	}
	switch scheme {
	case "postgres", "postgresql":
		return openPostgres(ctx, location)
	case "s3", "file":
	default:
		return nil, fmt.Errorf("open store: %q is not file, s3 or postgres", scheme)
	}
	u, err := url.Parse(location)
	switch {
	case err != nil:
		return nil, fmt.Errorf("open store: the %s URL is not valid", scheme) // err contains the URL
	case scheme == "s3":
		return openS3(ctx, u)
	case u.Host != "" || u.Path == "":
		return nil, errors.New("open store: want file:/// and an absolute path")
	}
	return openFolder(filepath.FromSlash(u.Path))
}

// maxName limits names: file systems allow 255 bytes.
const maxName = 200

// checkName returns an error for a name that not every form can store. A name has elements of
// letters, digits and -_.: that do not begin with a dot.
func checkName(name string) error {
	valid := len(name) <= maxName
	for e := range strings.SplitSeq(name, "/") {
		other := func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.:", r)
		}
		valid = valid && e != "" && e[0] != '.' && !strings.ContainsFunc(e, other)
	}
	if !valid {
		return fmt.Errorf("%q is not a valid name of an object", name)
	}
	return nil
}

// entry returns where a form keeps the record or the object with a name: the owner, and a
// name within all that the owner has.
func entry(kind, name string) (owner, base string) {
	owner, rest, _ := strings.Cut(name, "/")
	return owner, strings.ReplaceAll(strings.TrimSuffix(kind+"/"+rest, "/"), "/", ",")
}

// The kinds of entries.
const (
	kindRecord = "record"
	kindObject = "object"
)

func checkAppend(record string, after int64, events [][]byte) error {
	if after < 0 || len(events) == 0 {
		return fmt.Errorf("append %d events after event %d of record %s: not possible", len(events), after, record)
	}
	for _, e := range events {
		if len(e) == 0 || e[0] == '@' || bytes.IndexByte(e, '\n') >= 0 {
			return fmt.Errorf("append to record %s: an event is not one line of JSON", record)
		}
	}
	return checkName(record)
}

// ErrLost is the error when something that must be in the store is missing.
var ErrLost = errors.New("the store has lost a part of the run, or it is a different store")

func errMissing(record string, number int64) error {
	return fmt.Errorf("%w: record %s does not have event %d", ErrLost, record, number)
}

// An ends holds the ends of records, as last read or written by this process. Reading
// continues there.
type ends struct {
	mu     sync.Mutex
	places map[string]place
}

// A place is behind a number of events, and in a file at an offset.
type place struct{ number, offset int64 }

// find returns a place from which the events behind a number can be read.
func (e *ends) find(record string, number int64) place {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p := e.places[record]; p.number <= number {
		return p
	}
	return place{}
}

func (e *ends) note(record string, end place) {
	const limit = 100_000 // records
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.places == nil || len(e.places) >= limit {
		e.places = map[string]place{}
	}
	e.places[record] = end
}

// blobPrefix begins the last element of a blob's name; the digest follows.
const blobPrefix = "sha256-"

// PutBlob stores data for an owner under its digest, and returns the name of the object.
func PutBlob(ctx context.Context, s Store, owner string, data []byte) (name string, err error) {
	sum := sha256.Sum256(data)
	name = owner + "/" + blobPrefix + hex.EncodeToString(sum[:])
	_, err = s.Put(ctx, name, data)
	return name, err
}

// GetBlob returns what PutBlob stored under name.
func GetBlob(ctx context.Context, s Store, name string) ([]byte, error) {
	digest, ok := strings.CutPrefix(path.Base(name), blobPrefix)
	if !ok || len(digest) != 2*sha256.Size {
		return nil, fmt.Errorf("%q is not a valid name of a blob", name)
	}
	data, err := s.Get(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: there is no blob %s", ErrLost, name)
	}
	if err != nil {
		return nil, fmt.Errorf("read blob %s: %w", name, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != digest {
		return nil, fmt.Errorf("blob %s is damaged: its content has a different digest", name)
	}
	return data, nil
}
