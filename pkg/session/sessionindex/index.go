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

// version is the version of the tables and their contents. A file with another
// version is rebuilt.
const version = 2

// Each text is a row of words. The rows of session n begin at n<<rowBits, so that no
// second index is needed to find them.
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

// Open opens the index in the file at path. It creates the file, readable by its
// owner only, if it does not exist.
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

// How long a process waits for others.
const (
	busyLimit = 20 * time.Second
	busyPause = 20 * time.Millisecond
)

var errVersion = errors.New("the index has a different version")

// open opens the file. If several processes create it at the same time, some get a
// busy error and try again.
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
	path := filepath.ToSlash(x.path)
	if filepath.VolumeName(path) != "" {
		path = "/" + path // file:///C:/…
	}
	address := url.URL{Scheme: "file", Path: path, RawQuery: fmt.Sprintf("_pragma=busy_timeout(%d)", busyLimit.Milliseconds()) + "&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_txlock=immediate"}
	if x.db, err = sql.Open("sqlite", address.String()); err != nil {
		return err
	}
	x.db.SetMaxOpenConns(1)
	if err := x.prepare(ctx); err != nil {
		return errors.Join(err, x.db.Close())
	}
	return nil
}

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

// unusable reports whether an error says that the file is not a valid index.
func unusable(err error) bool {
	if errors.Is(err, errVersion) {
		return true
	}
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return false
	}
	code := e.Code() & 0xff
	// If a table is missing or was changed, the query fails.
	return code == codeCorrupt || code == codeNotADatabase || code == codeError
}

func (x *Index) renew(ctx context.Context) error {
	if x.db != nil {
		x.db.Close()
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

// A Query selects texts. All of its conditions must hold.
type Query struct {
	// Words must all be in one text. An element with several words ("a lease") is
	// a phrase; an element that ends in * matches words with that prefix. Case and
	// accents are ignored.
	Words []string `json:"words"`
	// Folders are the folders of the sessions to search.
	Folders []string `json:"folders"`
	// Agent and Tool are names; empty means any. Since and Until limit the time
	// of a text, in milliseconds since 1970, if they are not 0.
	Agent string `json:"agent,omitempty"`
	Tool  string `json:"tool,omitempty"`
	Since int64  `json:"since,omitempty"`
	Until int64  `json:"until,omitempty"`
	// Limit is the maximum number of hits; 0 means 100.
	Limit int `json:"limit,omitempty"`
}

// ErrNoWords is the error for a Query without any letter or digit in its words.
var ErrNoWords = errors.New("nothing to search for: a word needs a letter or a digit")

// A Hit is a text that matches a Query.
type Hit struct {
	// Session is the id of the session, Path its folder, Prompt the first line of its
	// first prompt.
	Session string `json:"session"`
	Path    string `json:"path"`
	Root    string `json:"root_agent"`
	Prompt  string `json:"prompt"`
	Began   int64  `json:"began"`
	// Kind is prompt, answer, thinking, call or result. Agent is the agent of the
	// text, Tool the called tool, Turn the turn of the root session (of a prompt, the
	// one that answers it), Time in milliseconds since 1970.
	Kind  string `json:"kind"`
	Agent string `json:"agent"`
	Tool  string `json:"tool,omitempty"`
	Turn  int    `json:"turn"`
	Time  int64  `json:"time"`
	// Snippet is a part of the text.
	Snippet []Piece `json:"snippet"`
}

// A Piece of a snippet is a match, or the text between matches.
type Piece struct {
	Text  string `json:"text"`
	Match bool   `json:"match,omitempty"`
}

// Marks around a match. plain removes them from texts.
const startMark, endMark = "\x02", "\x03"

// Search returns the best hits first, and newer ones first if they are equal. It
// rebuilds a damaged index.
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
	args := []any{match}
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
SELECT w.rowid, s.id, s.path, s.agent, s.prompt, s.began, w.kind, w.agent, w.tool, w.turn, w.time
FROM words w JOIN sessions s ON s.n = w.rowid >> 24
WHERE `+strings.Join(where, " AND ")+`
ORDER BY rank, w.time DESC, w.rowid LIMIT ?`, append(args, limit)...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var hits []Hit
	var found []int64
	for rows.Next() {
		var h Hit
		var row int64
		if err := rows.Scan(&row, &h.Session, &h.Path, &h.Root, &h.Prompt, &h.Began, &h.Kind, &h.Agent, &h.Tool, &h.Turn, &h.Time); err != nil {
			return nil, err
		}
		hits, found = append(hits, h), append(found, row)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	for i, row := range found {
		var marked string
		err := x.db.QueryRowContext(ctx, "SELECT highlight(words, 0, ?, ?) FROM words WHERE words MATCH ? AND rowid = ?", startMark, endMark, match, row).Scan(&marked)
		switch {
		case errors.Is(err, sql.ErrNoRows): // another process has removed it
		case err != nil:
			return nil, err
		default:
			hits[i].Snippet = snippet(marked)
		}
	}
	return hits, nil
}
