package sessionindex

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
)

// version is that of the tables and of what is in them. A file with another one is
// made anew.
const version = 2

// Tables. A text has a row in words; rows of one session follow each other from
// n<<rowBits on, so that they are found without an index of their own.
const (
	rowBits = 24
	tables  = `
CREATE TABLE sessions (
	n INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, folder TEXT NOT NULL, size INTEGER NOT NULL, changed INTEGER NOT NULL,
	id TEXT NOT NULL, agent TEXT NOT NULL, prompt TEXT NOT NULL, began INTEGER NOT NULL, damage TEXT NOT NULL
);
CREATE VIRTUAL TABLE words USING fts5(
	text, kind UNINDEXED, agent UNINDEXED, tool UNINDEXED, turn UNINDEXED, time UNINDEXED,
	tokenize = "unicode61 remove_diacritics 2"
);`
)

// An Index is an open index. Several processes may have it open.
type Index struct {
	path string
	db   *sql.DB
}

// Open opens the index in the file at path, which is made if it is not there,
// readable for its owner alone.
func Open(ctx context.Context, path string) (*Index, error) {
	x := &Index{path: path}
	err := x.open(ctx)
	if unusable(err) {
		err = x.renew(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("open index %s: %w", path, err)
	}
	return x, nil
}

// SQLite's result codes.
const codeError, codeBusy, codeCorrupt, codeNotADatabase = 1, 5, 11, 26

// How long one process waits for others.
const (
	busyLimit = 20 * time.Second
	busyPause = 20 * time.Millisecond
)

var errVersion = errors.New("the index has another version")

// open opens the file. Of several processes that make it at the same time SQLite
// makes one wait and tells the others that it is busy.
func (x *Index) open(ctx context.Context) error {
	for start := time.Now(); ; {
		err := x.tryOpen(ctx)
		if e, ok := errors.AsType[*sqlite.Error](err); !ok || e.Code()&0xff != codeBusy || time.Since(start) > busyLimit {
			return err
		}
		select {
		case <-time.After(busyPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (x *Index) tryOpen(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(x.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(x.path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	address := url.URL{Scheme: "file", Path: x.path, RawQuery: fmt.Sprintf("_pragma=busy_timeout(%d)", busyLimit.Milliseconds()) + "&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_txlock=immediate"}
	if x.db, err = sql.Open("sqlite", address.String()); err != nil {
		return err
	}
	x.db.SetMaxOpenConns(1)
	if err := x.prepare(ctx); err != nil {
		return errors.Join(err, x.db.Close())
	}
	return nil
}

// prepare makes the tables of a new file.
func (x *Index) prepare(ctx context.Context) error {
	return x.change(ctx, func(tx *sql.Tx) error {
		var found int
		if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&found); err != nil {
			return err
		}
		switch found {
		case version:
			return nil
		case 0:
			var n int
			if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&n); err != nil {
				return err
			}
			if n > 0 {
				return errVersion
			}
		default:
			return errVersion
		}
		if _, err := tx.ExecContext(ctx, tables); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version))
		return err
	})
}

// change makes a change as a whole or not at all.
func (x *Index) change(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := x.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// unusable reports whether an error says that the file is no index of ours.
func unusable(err error) bool {
	if errors.Is(err, errVersion) {
		return true
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	code := e.Code() & 0xff
	// A table that is not there, or not as it was made, is an error of the query.
	return code == codeCorrupt || code == codeNotADatabase || code == codeError
}

// renew puts an empty index in the place of the file.
func (x *Index) renew(ctx context.Context) error {
	if x.db != nil {
		x.db.Close() // it is given up
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(x.path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return x.open(ctx)
}

// Close closes the index.
func (x *Index) Close() error { return x.db.Close() }

// A Query is what is looked for. Everything in it must hold.
type Query struct {
	// Words must all be in one text. A word of several, as "a lease", is looked
	// for as it stands, and one that ends in * finds what begins so. Case and
	// accents do not count.
	Words []string `json:"words"`
	// Folders are where the sessions lie.
	Folders []string `json:"folders"`
	// Agent and Tool are names; empty means any. Since and Until limit the time
	// of a text, in milliseconds since 1970, if they are not 0.
	Agent string `json:"agent,omitempty"`
	Tool  string `json:"tool,omitempty"`
	Since int64  `json:"since,omitempty"`
	Until int64  `json:"until,omitempty"`
	// Limit is the most texts; 0 means 100.
	Limit int `json:"limit,omitempty"`
}

// ErrNoWords refuses a Query in whose words there is no letter and no digit.
var ErrNoWords = errors.New("there is nothing to look for: a word needs a letter or a digit")

// A Hit is a text in which everything was found.
type Hit struct {
	// Session is the id, Path where it lies, Prompt the first line of it.
	Session string `json:"session"`
	Path    string `json:"path"`
	Root    string `json:"root_agent"`
	Prompt  string `json:"prompt"`
	Began   int64  `json:"began"`
	// Kind is what the text is: prompt, answer, thinking, call or result. Agent is
	// whose, Tool whose call, Turn the turn of the root session (of a prompt, that
	// which answers it), Time when, in milliseconds since 1970.
	Kind  string `json:"kind"`
	Agent string `json:"agent"`
	Tool  string `json:"tool,omitempty"`
	Turn  int    `json:"turn"`
	Time  int64  `json:"time"`
	// Snippet is a piece of the text.
	Snippet []Piece `json:"snippet"`
}

// A Piece is a part of a snippet: a word that was looked for, or what is around it.
type Piece struct {
	Text  string `json:"text"`
	Match bool   `json:"match,omitempty"`
}

// Marks of a match. They are not in texts: see plain.
const startMark, endMark = "\x02", "\x03"

// Search returns the best hits first; of equal ones the newer. A damaged index is
// made anew.
func (x *Index) Search(ctx context.Context, q *Query) ([]Hit, error) {
	match, err := expression(q.Words)
	if err != nil {
		return nil, err
	}
	hits, err := x.search(ctx, q, match)
	if unusable(err) {
		if err = x.renew(ctx); err == nil {
			err = x.update(ctx, q.Folders)
		}
		if err == nil {
			hits, err = x.search(ctx, q, match)
		}
	}
	if err != nil {
		err = fmt.Errorf("search %s: %w", x.path, err)
	}
	return hits, err
}

func (x *Index) search(ctx context.Context, q *Query, match string) ([]Hit, error) {
	where := []string{"words MATCH ?"}
	args := []any{startMark, endMark, match}
	add := func(condition string, arg ...any) { where, args = append(where, condition), append(args, arg...) }
	if q.Agent != "" {
		add("w.agent = ?", q.Agent)
	}
	if q.Tool != "" {
		add("w.tool = ?", q.Tool)
	}
	if q.Since != 0 {
		add("w.time >= ?", q.Since)
	}
	if q.Until != 0 {
		add("w.time < ?", q.Until)
	}
	var folders []any
	for _, f := range absolute(q.Folders) {
		folders = append(folders, f)
	}
	if len(folders) == 0 {
		return nil, nil
	}
	add("s.folder IN (?"+strings.Repeat(",?", len(folders)-1)+")", folders...)
	limit := q.Limit
	if limit == 0 {
		limit = 100
	}
	rows, err := x.db.QueryContext(ctx, `
SELECT s.id, s.path, s.agent, s.prompt, s.began, w.kind, w.agent, w.tool, w.turn, w.time, snippet(words, 0, ?, ?, '…', 24)
FROM words w JOIN sessions s ON s.n = w.rowid >> 24
WHERE `+strings.Join(where, " AND ")+`
ORDER BY rank, w.time DESC, w.rowid LIMIT ?`, append(args, limit)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var hits []Hit
	for rows.Next() {
		var h Hit
		var snippet string
		if err := rows.Scan(&h.Session, &h.Path, &h.Root, &h.Prompt, &h.Began, &h.Kind, &h.Agent, &h.Tool, &h.Turn, &h.Time, &snippet); err != nil {
			return nil, err
		}
		h.Snippet = pieces(snippet)
		hits = append(hits, h)
	}
	return hits, rows.Err()
}

func pieces(snippet string) []Piece {
	var list []Piece
	for i, s := range strings.Split(snippet, startMark) {
		found, rest, ok := strings.Cut(s, endMark)
		if i == 0 || !ok {
			found, rest = "", s
		}
		if found != "" {
			list = append(list, Piece{found, true})
		}
		if rest != "" {
			list = append(list, Piece{Text: rest})
		}
	}
	return list
}
