package sqlite

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/source/toolbox/companion"
)

// A shed has a versioned database.
type shed struct {
	*testing.T
	path string
	call func(key, name string, args map[string]any) (string, error)
}

func newShed(t *testing.T, sharing string) *shed {
	path := garden(t)
	s := companion.SQLite{Access: companion.Versioned, Path: path, Versions: filepath.Join(t.TempDir(), "versions", "v"), Sharing: sharing, Toolbox: "v"}
	return &shed{t, path, tools(t, s)}
}

// do makes a call that must work.
func (s *shed) do(key, name string, args map[string]any) string {
	s.Helper()
	text, err := s.call(key, name, args)
	if err != nil {
		s.Fatalf("%s %v: %v", name, args, err)
	}
	return text
}

// names checks which names a call sees.
func (s *shed) names(key, want string, from any) {
	s.Helper()
	args := map[string]any{"sql": "SELECT group_concat(name) FROM (SELECT name FROM plants ORDER BY id)"}
	if from != nil {
		args["restore_from"] = from
	}
	if got := rows(s.T, s.do(key, "query", args), nil); got != `[["`+want+`"]]` {
		s.Errorf("%s from %v: names = %s, want %s", key, from, got, want)
	}
}

// add adds a plant, and returns the version.
func (s *shed) add(key, name string) (handle map[string]any) {
	s.Helper()
	var r struct {
		VersionHandle map[string]any
	}
	text := s.do(key, "query", map[string]any{"sql": "INSERT INTO plants(name) VALUES ('" + name + "')"})
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.VersionHandle == nil {
		s.Fatalf("%s: %v", text, err)
	}
	return r.VersionHandle
}

func TestVersions(t *testing.T) {
	s := newShed(t, "conversation")
	first := s.add("one.1.1", "mint")
	if first["name"] != "v1" || first["session_id"] != "one" || first["turn_id"] != "1" || first["toolbox_name"] != "v" {
		t.Errorf("handle = %v", first)
	}
	s.add("one.2.1", "rue")
	s.names("one.3.1", "sage,thyme,mint,rue", nil)
	s.names("one.3.1", "sage,thyme,mint", first)
	delete(first, "name") // as agents-exe has it
	s.names("one.3.1", "sage,thyme,mint", first)
	s.names("one.3.1", "sage,thyme", map[string]any{"name": "base"})
	s.names("two.1.1", "sage,thyme", nil)
	if got, err := query(t, companion.ReadOnly, s.path)("SELECT count(*) FROM plants"); rows(t, got, err) != `[[2]]` {
		t.Errorf("the database has changed: %s", got)
	}
	if _, err := s.call("one.4.1", "query", map[string]any{"sql": "DELETE FROM plants; SELEC"}); err == nil || !strings.Contains(err.Error(), "nothing has changed") {
		t.Errorf("query = %v", err)
	}
	s.names("one.5.1", "sage,thyme,mint,rue", nil)
	for _, bad := range []any{map[string]any{"name": "v99"}, map[string]any{"name": "../v1"}, 7, "v1", map[string]any{}, map[string]any{"tool_call_index": 99}} {
		if _, err := s.call("one.6.1", "query", map[string]any{"sql": "SELECT 1", "restore_from": bad}); err == nil {
			t.Errorf("the version %v is not an error", bad)
		}
	}

	want := `{"changes":[{"type":"table","name":"plants","change":"rows","columns":["id","name"],"rowsAdded":2,"rowsRemoved":0,"addedRows":[[3,"mint"],[4,"rue"]]}],"version":"v2"}`
	if got := s.do("one.7.1", "diff", nil); got != want {
		t.Errorf("diff = %s, want %s", got, want)
	}
	if got := s.do("one.8.1", "discard", nil); got != `{"discarded":"v2"}` {
		t.Errorf("discard = %s", got)
	}
	s.names("one.9.1", "sage,thyme", nil)
	if got := s.do("one.10.1", "promote", map[string]any{"restore_from": first}); !strings.Contains(got, `"promoted_to"`) {
		t.Errorf("promote = %s", got)
	}
	s.names("two.2.1", "sage,thyme,mint", nil)
	s.add("one.11.1", "dill")
	s.do("one.12.1", "promote", nil)
	s.names("two.3.1", "sage,thyme,mint,dill", nil)
	for _, tool := range []string{"discard", "promote"} {
		if _, err := s.call("one.13.1", tool, nil); err == nil || !strings.Contains(err.Error(), "nothing was changed") {
			t.Errorf("%s = %v", tool, err)
		}
	}
}

// TestPromotionDoesNotLoseChanges: a version is not promoted over what others have changed.
func TestPromotionDoesNotLoseChanges(t *testing.T) {
	s := newShed(t, "conversation")
	s.add("one.1.1", "mint")
	s.add("two.1.1", "rue")
	s.do("one.2.1", "promote", nil)
	if _, err := s.call("two.2.1", "promote", nil); err == nil || !strings.Contains(err.Error(), "has changed since v2") {
		t.Errorf("promote = %v", err)
	}
	s.names("three.1.1", "sage,thyme,mint", nil)
}

func TestSharing(t *testing.T) {
	for sharing, want := range map[string][3]string{ // for the same turn, the same session, another session
		"global":    {"sage,thyme,mint", "sage,thyme,mint", "sage,thyme,mint"},
		"turn":      {"sage,thyme,mint", "sage,thyme", "sage,thyme"},
		"tool-call": {"sage,thyme", "sage,thyme", "sage,thyme"},
	} {
		t.Run(sharing, func(t *testing.T) {
			s := newShed(t, sharing)
			s.add("one.1.1", "mint")
			for i, key := range []string{"one.1.2", "one.2.1", "two.1.1"} {
				s.names(key, want[i], nil)
			}
		})
	}
}

func TestDiff(t *testing.T) {
	s := newShed(t, "conversation")
	s.do("one.1.1", "query", map[string]any{"sql": `CREATE TABLE "a ""b'"(x); CREATE VIEW w AS SELECT 1; CREATE VIRTUAL TABLE words USING fts5(word); CREATE TABLE gone(a)`})
	s.do("one.2.1", "promote", nil)
	s.do("one.3.1", "query", map[string]any{"sql": `DROP TABLE gone; ALTER TABLE plants ADD COLUMN height; CREATE INDEX i ON plants(name);
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000) INSERT INTO "a ""b'" SELECT i FROM n`})
	got := s.do("one.4.1", "diff", nil)
	for _, want := range []string{
		`{"type":"table","name":"a \"b'","change":"rows","columns":["x"],"rowsAdded":1000,"rowsRemoved":0,"addedRows":[[1],[2],[3],`,
		`{"type":"table","name":"plants","change":"schema","rowsAdded":0,"rowsRemoved":0}`,
		`{"type":"table","name":"gone","change":"removed","rowsAdded":0,"rowsRemoved":0}`,
		`{"type":"index","name":"i","change":"added","rowsAdded":0,"rowsRemoved":0}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("diff = %s, want %s in it", got, want)
		}
	}
	if strings.Count(got, "],[") != sample-1 || strings.Contains(got, `"w"`) {
		t.Errorf("diff = %s", got)
	}
}

// TestVersionsOfManyCalls: calls at the same time each make a version of the one before.
func TestVersionsOfManyCalls(t *testing.T) {
	s := newShed(t, "global")
	var g sync.WaitGroup
	for range 8 {
		g.Go(func() {
			if _, err := s.call("one.1.1", "query", map[string]any{"sql": "INSERT INTO plants(name) VALUES ('x')"}); err != nil {
				t.Error(err)
			}
		})
	}
	g.Wait()
	if got, err := s.call("one.2.1", "query", map[string]any{"sql": "SELECT count(*) FROM plants"}); rows(t, got, err) != `[[10]]` {
		t.Errorf("plants = %s, want 10", got)
	}
}

// TestVersionsOfNothing: the first change makes the database; a list of versions that cannot
// be read is an error.
func TestVersionsOfNothing(t *testing.T) {
	dir := t.TempDir()
	s := companion.SQLite{Access: companion.Versioned, Path: filepath.Join(dir, "new.db"), Versions: filepath.Join(dir, "versions"), Sharing: "global"}
	call := tools(t, s)
	if _, err := call("a.1.1", "query", map[string]any{"sql": "CREATE TABLE t(a)"}); err != nil {
		t.Fatal(err)
	}
	if _, err := call("a.2.1", "promote", nil); err != nil {
		t.Fatal(err)
	}
	if got, err := query(t, companion.ReadOnly, s.Path)("SELECT name FROM sqlite_schema"); rows(t, got, err) != `[["t"]]` {
		t.Errorf("the database has %s", got)
	}
	if err := os.WriteFile(filepath.Join(s.Versions, "versions.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := call("a.3.1", "query", map[string]any{"sql": "SELECT 1"}); err == nil || !strings.Contains(err.Error(), "list of versions") {
		t.Errorf("query = %v", err)
	}
}
