package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/leaf/filelock"
	"github.com/agents-exe/agents/pkg/leaf/wholefile"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// A handle names a version to the model; agents-exe has the fields besides the name.
type handle struct {
	Name    string `json:"name"`
	Session string `json:"session_id"`
	Turn    string `json:"turn_id"`
	Index   int    `json:"tool_call_index"`
	Toolbox string `json:"toolbox_name"`
	Time    string `json:"timestamp"`
}

// base is the name of the database itself among its versions.
const base = "base"

// A history is the file with what is known of the versions of a database.
type history struct {
	Next int `json:"next"`
	// Versions has the stamp of the database that each was made from, by way of others.
	Versions map[string]string `json:"versions"`
	// Heads are the current versions of sessions and turns, and that of "global".
	Heads map[string]string `json:"heads"`
}

// with calls f with the history and the selected version, or the current one, under a lock;
// then it writes the history.
func (b *box) with(ctx context.Context, inv *agent.Invocation, a *arguments, f func(h *history, name, path string) error) error {
	if err := os.MkdirAll(b.Versions, 0o700); err != nil {
		return err
	}
	release, err := filelock.Acquire(ctx, filepath.Join(b.Versions, "lock"))
	if err != nil {
		return err
	}
	defer release()
	h := &history{Next: 1, Versions: map[string]string{}, Heads: map[string]string{}}
	file := filepath.Join(b.Versions, "versions.json")
	before, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(before, h)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read the list of versions: %w", err)
	}
	name, path := cmp.Or(h.Heads[b.scope(inv)], base), b.Path
	if a.From != nil {
		name = cmp.Or(a.From.Name, "v"+strconv.Itoa(a.From.Index))
	}
	if name != base {
		if _, ok := h.Versions[name]; !ok {
			return fmt.Errorf("there is no version %.100q: it was discarded or never existed", name)
		}
		path = b.version(name)
	}
	if err := f(h, name, path); err != nil {
		return err
	}
	after, err := json.Marshal(h)
	if err != nil || string(before) == string(after) {
		return err
	}
	return wholefile.Write(file, after)
}

func (b *box) version(name string) string { return filepath.Join(b.Versions, name+".sqlite") }

// position splits a Key, SESSION.TURN.N, into session and turn.
func position(key string) (session, turn string) {
	words := strings.Split(key, ".")
	if len(words) < 3 {
		return "", ""
	}
	return strings.Join(words[:len(words)-2], "."), words[len(words)-2]
}

// scope returns the session or turn whose current version a call uses, or "" for none.
func (b *box) scope(inv *agent.Invocation) string {
	session, turn := position(inv.Key)
	switch {
	case b.Sharing == "global":
		return b.Sharing
	case b.Sharing == "conversation":
		return session
	case b.Sharing == "turn" && session != "":
		return session + "." + turn
	}
	return ""
}

// versioned is the tool query of a versioned database.
func (b *box) versioned(ctx context.Context, inv *agent.Invocation, a *arguments) (r *result, err error) {
	err = b.with(ctx, inv, a, func(h *history, from, path string) error {
		if _, missing := os.Stat(path); missing == nil {
			var wants bool
			if r, wants, err = b.at(ctx, path, a.SQL, reading); !wants {
				return err
			}
		}
		stamp := h.Versions[from]
		if from == base {
			stamp = b.stamp()
		}
		name := "v" + strconv.Itoa(h.Next)
		if err := errors.Join(remove(b.version(name)), replace(path, b.version(name))); err != nil { // a killed program may have left it
			return fmt.Errorf("copy the database: %w", err)
		}
		if r, _, err = b.at(ctx, b.version(name), a.SQL, writing); err != nil {
			return errors.Join(fmt.Errorf("nothing has changed: %w", err), remove(b.version(name)))
		}
		h.Versions[name] = stamp
		if scope := b.scope(inv); scope != "" {
			h.Heads[scope] = name
		}
		session, turn := position(inv.Key)
		r.Version = &handle{name, session, turn, h.Next, b.Toolbox, time.Now().UTC().Format(time.RFC3339)}
		h.Next++
		return nil
	})
	return r, err
}

func (b *box) promote(ctx context.Context, inv *agent.Invocation, a *arguments) (any, error) {
	var done map[string]string
	err := b.with(ctx, inv, a, func(h *history, name, path string) error {
		switch {
		case name == base:
			return errors.New("there is no version to promote, because nothing was changed")
		case b.stamp() != h.Versions[name]:
			return fmt.Errorf(`the database has changed since %s was copied from it, and promoting this version would undo that: repeat your changes with restore_from {"name":"base"}`, name)
		}
		if err := replace(path, b.Path); err != nil {
			return fmt.Errorf("promote %s: %w", name, err)
		}
		h.Versions[name] = b.stamp()
		done = map[string]string{"promoted_from": path, "promoted_to": b.Path}
		h.forget(name)
		return nil
	})
	return done, err
}

func (b *box) discard(ctx context.Context, inv *agent.Invocation, a *arguments) (any, error) {
	var done map[string]string
	err := b.with(ctx, inv, a, func(h *history, name, path string) error {
		if name == base {
			return errors.New("there is no version to discard, because nothing was changed")
		}
		delete(h.Versions, name)
		done = map[string]string{"discarded": name}
		h.forget(name)
		return remove(path)
	})
	return done, err
}

// forget makes the database itself current wherever the version name is.
func (h *history) forget(name string) {
	for scope, head := range h.Heads {
		if head == name {
			delete(h.Heads, scope)
		}
	}
}

// replace copies the database at from over the database at to. Other programs may use both
// at the same time: SQLite copies the pages under its locks. A database that does not exist
// counts as empty.
func replace(from, to string) error {
	m := reading
	if _, err := os.Stat(from); errors.Is(err, os.ErrNotExist) {
		from, m = ":memory:", creating
	}
	source, err := open(from, m)
	if err != nil {
		return err
	}
	defer source.close()
	target, err := open(to, creating)
	if err != nil {
		return err
	}
	defer target.close()
	name, err := libc.CString("main")
	if err != nil {
		return err
	}
	defer libc.Xfree(source.tls, name)
	step := sqlite3.Xsqlite3_errcode(target.tls, target.db)
	if backup := sqlite3.Xsqlite3_backup_init(target.tls, target.db, name, source.db, name); backup != 0 {
		step = sqlite3.Xsqlite3_backup_step(target.tls, backup, -1)
		sqlite3.Xsqlite3_backup_finish(target.tls, backup)
	}
	if step != sqlite3.SQLITE_DONE {
		return target.failure(step)
	}
	return nil
}

func remove(path string) error {
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// stamp returns a text that changes when the database changes.
func (b *box) stamp() string {
	var text string
	for _, path := range []string{b.Path, b.Path + "-wal"} {
		if info, err := os.Stat(path); err == nil && info.Size() > 0 {
			text += fmt.Sprintf("%d %d;", info.Size(), info.ModTime().UnixNano())
		}
	}
	return text
}

// sample is how many rows of a table diff shows, of those that were added and of those that
// were removed.
const sample = 20

// A difference describes the change of one table, view, index or trigger.
type difference struct {
	Type   string `json:"type"`
	Name   string `json:"name"`
	Change string `json:"change"` // added, removed, schema or rows
	// A changed row is removed and added. Fewer rows may be shown than there are.
	Columns []string `json:"columns,omitempty"`
	Added   int64    `json:"rowsAdded"`
	Removed int64    `json:"rowsRemoved"`
	New     [][]any  `json:"addedRows,omitempty"`
	Old     [][]any  `json:"removedRows,omitempty"`
}

// schemas lists what differs in both schemas, or is a table in both.
const schemas = `SELECT coalesce(n.type, o.type), coalesce(n.name, o.name),
 CASE WHEN o.name IS NULL THEN 'added' WHEN n.name IS NULL THEN 'removed' WHEN n.sql IS NOT o.sql THEN 'schema' ELSE 'rows' END
FROM main.sqlite_schema n FULL JOIN old.sqlite_schema o ON n.type = o.type AND n.name = o.name
WHERE coalesce(n.name, o.name) NOT LIKE 'sqlite\_%' ESCAPE '\'
 AND (n.sql IS NOT o.sql OR n.type = 'table' AND n.sql NOT LIKE 'CREATE VIRTUAL%') ORDER BY 1, 2`

func (b *box) diff(ctx context.Context, inv *agent.Invocation, a *arguments) (any, error) {
	changes := []difference{}
	var version string
	err := b.with(ctx, inv, a, func(_ *history, name, path string) error {
		version = name
		c, err := open(path, reading)
		if err != nil {
			return err
		}
		defer c.close()
		if _, err := c.query(ctx, "ATTACH "+quoted(b.Path, `'`)+" AS old", limits{}); err != nil {
			return err
		}
		c.restrict(false)
		list, err := c.query(ctx, schemas, limits{rows: 10000})
		if err != nil {
			return err
		}
		left := b.MaxBytes
		for _, row := range list.Rows {
			d := difference{Type: row[0].(string), Name: row[1].(string), Change: row[2].(string)}
			if d.Change == "rows" {
				if err := d.compare(ctx, c, &left); err != nil {
					return fmt.Errorf("compare the table %s: %w", d.Name, err)
				}
			}
			if d.Change != "rows" || d.Added+d.Removed > 0 {
				changes = append(changes, d)
			}
		}
		return nil
	})
	return map[string]any{"version": version, "changes": changes}, err
}

// compare counts and shows the rows that are in only one of two tables with the same columns.
// left is how many bytes the rows may still take.
func (d *difference) compare(ctx context.Context, c *conn, left *int) error {
	newer, older := "SELECT * FROM main."+quoted(d.Name, `"`), "SELECT * FROM old."+quoted(d.Name, `"`)
	show := func(rows string, count *int64, shown *[][]any) error {
		r, err := c.query(ctx, "SELECT count(*) FROM ("+rows+")", limits{})
		if err != nil {
			return err
		}
		if *count = r.Rows[0][0].(int64); *count == 0 || *left <= 0 {
			return nil
		}
		if r, err = c.query(ctx, rows, limits{sample, *left}); err == nil {
			*shown, d.Columns = r.Rows, r.Columns
			*left -= r.size
		}
		return err
	}
	if err := show(newer+" EXCEPT "+older, &d.Added, &d.New); err != nil {
		return err
	}
	return show(older+" EXCEPT "+newer, &d.Removed, &d.Old)
}

func quoted(name, quote string) string {
	return quote + strings.ReplaceAll(name, quote, quote+quote) + quote
}
