package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/source/toolbox/companion"
)

// tools opens a toolbox over the database at path; key is the Key of the calls.
func tools(t *testing.T, s companion.SQLite) func(key, name string, args map[string]any) (string, error) {
	t.Helper()
	s.TimeoutSeconds = cmp.Or(s.TimeoutSeconds, 30)
	s.MaxRows, s.MaxBytes = cmp.Or(s.MaxRows, 1000), cmp.Or(s.MaxBytes, 64<<10)
	settings, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := Open(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	return func(key, name string, args map[string]any) (string, error) {
		t.Helper()
		for _, tool := range list {
			if tool.Spec().Name == name {
				text, err := json.Marshal(args)
				if err != nil {
					t.Fatal(err)
				}
				result, err := tool.Call(t.Context(), &agent.Invocation{Key: key, Call: agent.ToolCall{Name: name, Args: string(text)}})
				if err != nil {
					return "", err
				}
				return result.Parts[0].Text, nil
			}
		}
		t.Fatalf("there is no tool %s", name)
		return "", nil
	}
}

// query opens a toolbox and runs SQL in it.
func query(t *testing.T, access, path string) func(sql string) (string, error) {
	call := tools(t, companion.SQLite{Access: access, Path: path})
	return func(sql string) (string, error) { return call("s.1.1", "query", map[string]any{"sql": sql}) }
}

// garden is a database with the table plants.
func garden(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "it's a garden.db")
	if planted != nil {
		if err := os.WriteFile(path, planted, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if _, err := query(t, companion.ReadWrite, path)(`CREATE TABLE plants(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO plants VALUES (1, 'sage'), (2, 'thyme')`); err != nil {
		t.Fatal(err)
	}
	var err error
	if planted, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

var planted []byte // the database once it was made

// rows is the part of a result that does not depend on the time.
func rows(t *testing.T, text string, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Rows    json.RawMessage
		Changes *int
		Note    string
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	got := string(r.Rows)
	if r.Changes != nil {
		got += fmt.Sprintf(" %d changed", *r.Changes)
	}
	return strings.TrimSpace(got + " " + r.Note)
}

func TestValues(t *testing.T) {
	path := garden(t)
	run := query(t, companion.ReadOnly, path)
	for sql, want := range map[string]string{
		`SELECT name FROM plants ORDER BY id`:                         `[["sage"],["thyme"]]`,
		`SELECT NULL, 9223372036854775807, -0.5, 1e999, 'a"b'`:        `[[null,9223372036854775807,-0.5,"+Inf","a\"b"]]`,
		`SELECT x'00FF', x'', CAST(x'61ff62' AS TEXT), char(97,0,98)`: `[["x'00FF'","","a` + "\uFFFD" + `b","a\u0000b"]]`,
		`-- a comment` + "\n" + `SELECT 1; /* and */ ; SELECT 2; ;`:   `[[2]]`,
		`SELECT 1 AS a, 2 AS a`:                                       `[[1,2]]`,
		`PRAGMA table_info(plants)`:                                   `[[0,"id","INTEGER",0,null,1],[1,"name","TEXT",0,null,0]]`,
		`SELECT name FROM pragma_table_info('plants')`:                `[["id"],["name"]]`,
		`BEGIN; SELECT 3; COMMIT; SELECT count(*) FROM sqlite_schema`: `[[1]]`,
		`EXPLAIN QUERY PLAN SELECT 1`:                                 `[[1,0,0,"SCAN CONSTANT ROW"]]`,
		`PRAGMA user_version`:                                         `[[0]]`,
		`PRAGMA integrity_check`:                                      `[["ok"]]`,
	} {
		text, err := run(sql)
		if got := rows(t, text, err); got != want {
			t.Errorf("%s = %s, want %s", sql, got, want)
		}
	}
}

// TestOnlyTheDatabaseIsUsed: what a statement may not do, with each access. The first word of
// a statement says nothing about it.
func TestOnlyTheDatabaseIsUsed(t *testing.T) {
	const changes, other = "the statement would change the database", "only the database itself may be used"
	for _, c := range []struct{ sql, reading, writing string }{
		{"DELETE FROM plants", changes, ""},
		{"WITH x AS (SELECT 1) DELETE FROM plants WHERE id IN x", changes, ""},
		{"SELECT 1; INSERT INTO plants VALUES (3, 'x')", changes, ""},
		{"EXPLAIN DELETE FROM plants", changes, ""},
		{"REPLACE INTO plants VALUES (1, 'x') RETURNING id", changes, ""},
		{"CREATE TEMP TABLE x(a)", changes, ""},
		{"CREATE VIRTUAL TABLE words USING fts5(a)", changes, ""},
		{"DROP TABLE plants", changes, ""},
		{"ALTER TABLE plants ADD COLUMN x", changes, ""},
		{"VACUUM", other, ""},
		{"PRAGMA user_version = 7", changes, ""},
		{"ATTACH 'FOLDER/other.db' AS other", other, other},
		{"ATTACH 'FOLDER/' || 'other.db' AS other", other, other},
		{"VACUUM INTO 'FOLDER/other.db'", other, other},
		{"DETACH main", "is not allowed", "is not allowed"},
		{"SELECT load_extension('x')", "load_extension", "load_extension"},
		{"PRAGMA writable_schema = ON", "is not allowed", "is not allowed"},
		{"PRAGMA temp_store_directory = 'FOLDER'", "is not allowed", "is not allowed"},
		{"PRAGMA journal_mode = MEMORY", "is not allowed", "is not allowed"},
		{"PRAGMA query_only = OFF", "is not allowed", "is not allowed"},
		{"PRAGMA trusted_schema = ON", "is not allowed", "is not allowed"},
		{"BEGIN; SELECT 1", "must be in one call", "must be in one call"},
		{"", "contains no statement", "contains no statement"},
		{" ; -- nothing", "contains no statement", "contains no statement"},
		{"SELEC 1", "syntax error", "syntax error"},
		{"SELECT 1\x00; DROP TABLE plants", "NUL", "NUL"},
		{"SELECT * FROM nowhere", "no such table: nowhere", "no such table: nowhere"},
		{"SELECT 1; SELECT zeroblob(100000000)", "too big", "too big"},
	} {
		for access, want := range map[string]string{companion.ReadOnly: c.reading, companion.ReadWrite: c.writing} {
			t.Run(access+" "+c.sql, func(t *testing.T) {
				path := garden(t)
				before, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				_, err = query(t, access, path)(strings.ReplaceAll(c.sql, "FOLDER", filepath.Dir(path)))
				if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
					t.Errorf("query = %v, want %q in it", err, want)
				}
				after, err := os.ReadFile(path)
				if err != nil || want != "" && string(before) != string(after) {
					t.Errorf("the database has changed: %v", err)
				}
				if _, err := os.Stat(filepath.Join(filepath.Dir(path), "other.db")); err == nil {
					t.Error("another file was created")
				}
			})
		}
	}
}

func TestChanges(t *testing.T) {
	run := query(t, companion.ReadWrite, garden(t))
	text, err := run(`UPDATE plants SET name = upper(name); DELETE FROM plants WHERE id = 2`)
	if got, want := rows(t, text, err), `[] 3 changed`; got != want {
		t.Errorf("query = %s, want %s", got, want)
	}
	text, err = run(`INSERT INTO plants VALUES (5, 'a'), (6, 'b') RETURNING id`)
	if got, want := rows(t, text, err), `[[5],[6]] 2 changed`; got != want {
		t.Errorf("query = %s, want %s", got, want)
	}
	if _, err := run(`DELETE FROM plants WHERE id = 5; INSERT INTO plants VALUES (1, 'twice')`); err == nil || !strings.Contains(err.Error(), "UNIQUE") || !strings.Contains(err.Error(), "statements before it have run") {
		t.Errorf("query = %v", err)
	}
	if _, err := run(`BEGIN; DELETE FROM plants`); err == nil {
		t.Error("an open transaction is not an error")
	}
	text, err = run(`SELECT id FROM plants`)
	if got, want := rows(t, text, err), `[[1],[6]]`; got != want {
		t.Errorf("query = %s, want %s", got, want)
	}
}

func TestLimits(t *testing.T) {
	path := garden(t)
	const numbers = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100) `
	call := tools(t, companion.SQLite{Access: companion.ReadWrite, Path: path, MaxRows: 3, MaxBytes: 40000})
	for name, c := range map[string]struct{ sql, want string }{
		"rows":             {numbers + `SELECT i FROM n`, `[[1],[2],[3]] only the first 3 rows are shown: use LIMIT and OFFSET`},
		"bytes":            {numbers + `SELECT hex(zeroblob(8000)) IS NULL, hex(zeroblob(8100)) FROM n`, `only the first 2 rows are shown`},
		"a value":          {`SELECT replace(hex(zeroblob(10000)), '00', 'é')`, `[the first 16384 of 20000 bytes]`},
		"a value in half":  {`SELECT 'x' || replace(hex(zeroblob(10000)), '00', 'é')`, `[the first 16383 of 20001 bytes]`},
		"a binary value":   {`SELECT randomblob(2000) || x'ff'`, ``},
		"a large blob":     {`SELECT CAST(x'ff' || randomblob(4000000) AS BLOB)`, `[the first 1024 of 4000001 bytes]`},
		"rows of a change": {numbers + `INSERT INTO plants SELECT i + 10, 'x' FROM n RETURNING id`, `[[11],[12],[13]] 100 changed only the first 3 rows`},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := call("s.1.1", "query", map[string]any{"sql": c.sql})
			if got := rows(t, text, err); !strings.Contains(got, c.want) {
				t.Errorf("query = %.200s… %s, want %q in it", got, got[max(0, len(got)-200):], c.want)
			}
			if len(text) > 60000 {
				t.Errorf("the result has %d bytes", len(text))
			}
		})
	}
}

// TestEndlessStatements: a statement ends at its time limit, or when the call is cancelled,
// and leaves nothing.
func TestEndlessStatements(t *testing.T) {
	const endless = `INSERT INTO plants(name) VALUES ('x'); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n`
	path := garden(t)
	call := tools(t, companion.SQLite{Access: companion.ReadWrite, Path: path, TimeoutSeconds: 0.2})
	if _, err := call("s.1.1", "query", map[string]any{"sql": "BEGIN;" + endless}); err == nil || !strings.Contains(err.Error(), "longer than 200ms") {
		t.Errorf("query = %v", err)
	}
	list, _, err := Open(t.Context(), []byte(fmt.Sprintf(`{"access":"read-only","path":%q,"timeoutSeconds":60}`, path)))
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancel(stop) })
	inv := &agent.Invocation{Call: agent.ToolCall{Args: `{"sql":"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"}`}}
	if _, err := list[0].Call(ctx, inv); !errors.Is(err, stop) {
		t.Errorf("query = %v, want %v", err, stop)
	}
	text, err := query(t, companion.ReadOnly, path)(`SELECT count(*) FROM plants`)
	if got := rows(t, text, err); got != `[[2]]` {
		t.Errorf("plants = %s, want 2", got)
	}
}

func TestFilesThatAreNotDatabases(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		text:                             "is not a SQLite database",
		dir:                              "is not a file",
		filepath.Join(dir, "gone.db"):    "does not exist",
		filepath.Join(text, "inside.db"): "cannot be opened",
		filepath.Join(dir, "no", "x.db"): "does not exist",
	} {
		if _, err := query(t, companion.ReadOnly, path)("SELECT count(*) FROM sqlite_schema"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("query %s = %v, want %q in it", path, err, want)
		}
	}
	if _, err := query(t, companion.ReadWrite, filepath.Join(dir, "no", "x.db"))("SELECT 1"); err == nil {
		t.Error("a database in a folder that does not exist was opened")
	}
	if _, err := query(t, companion.ReadWrite, filepath.Join(dir, "new.db"))("CREATE TABLE t(a)"); err != nil {
		t.Errorf("a new database: %v", err)
	}
	for _, settings := range []string{`{}`, `{"access":"all"}`, `[]`} {
		if _, _, err := Open(t.Context(), []byte(settings)); err == nil {
			t.Errorf("Open(%s) is not an error", settings)
		}
	}
	if _, err := tools(t, companion.SQLite{Access: companion.ReadOnly, Path: text})("s.1.1", "query", map[string]any{"sql": 1}); err == nil || !strings.Contains(err.Error(), "nothing ran") {
		t.Errorf("a number as sql: %v", err)
	}
}

// TestLockedDatabase: a statement waits for another program, and then says so; one that only
// reads does not wait for a writer that has not committed.
func TestLockedDatabase(t *testing.T) {
	path := garden(t)
	c, err := open(path, writing)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if _, err := c.query(t.Context(), "BEGIN EXCLUSIVE", limits{}); err == nil {
		t.Fatal("the transaction is finished") // query reports it; it stays open
	}
	call := tools(t, companion.SQLite{Access: companion.ReadOnly, Path: path, TimeoutSeconds: 0.4})
	if _, err := call("s.1.1", "query", map[string]any{"sql": "SELECT * FROM plants"}); err == nil || !strings.Contains(err.Error(), "the database is locked") {
		t.Errorf("query = %v", err)
	}
}
