//go:build linux

package once

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// An action is a call that has an effect. Its arguments are compact JSON with sorted keys.
type action struct {
	Name string          `json:"name"`
	Args json.RawMessage `json:"arguments"`
}

func (a action) String() string { return a.Name + " " + string(a.Args) }

// A task is the actions that a model makes in turn, and the database that they change.
type task struct {
	set, domain, id string
	actions         []action
	database        []byte // JSON
}

// tasks reads the domains of a folder in the format of tau2-bench. A domain without db.json
// begins with an empty database.
func tasks(t *testing.T, set, dir string, domains ...string) (list []task) {
	t.Helper()
	for _, domain := range domains {
		text, err := os.ReadFile(filepath.Join(dir, domain, "tasks.json"))
		database, dbErr := os.ReadFile(filepath.Join(dir, domain, "db.json"))
		if errors.Is(dbErr, fs.ErrNotExist) {
			database, dbErr = []byte("{}"), nil
		}
		var read []struct {
			ID       string
			Criteria *struct{ Actions []action } `json:"evaluation_criteria"`
		}
		if err := errors.Join(err, dbErr, json.Unmarshal(text, &read)); err != nil {
			t.Fatal(err)
		}
		for _, r := range read {
			if r.Criteria == nil || len(r.Criteria.Actions) == 0 {
				continue
			}
			for i, a := range r.Criteria.Actions {
				r.Criteria.Actions[i].Args = canonical(a.Args)
			}
			list = append(list, task{set, domain, r.ID, r.Criteria.Actions, database})
		}
	}
	return list
}

// canonical returns JSON that is equal for equal values. Like encoding/json for tools, it does
// not escape HTML.
func canonical(text []byte) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil || v == nil {
		v = map[string]any{}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // it was JSON
	return bytes.TrimSpace(b.Bytes())
}

// An outcome is what a ledger says of a task.
type outcome struct {
	lost, doubled int
	equal         bool // the database is that of the actions made once, in their order
}

func (k task) outcome(ledger []action) (o outcome) {
	left := map[string]int{}
	for _, a := range k.actions {
		left[a.String()]++
	}
	for _, a := range ledger {
		left[a.String()]--
	}
	for _, n := range left {
		o.lost += max(n, 0)
		o.doubled += max(-n, 0)
	}
	o.equal = reflect.DeepEqual(k.after(k.actions), k.after(ledger))
	return o
}

// after returns the database after the actions.
func (k task) after(list []action) map[string]any {
	var db map[string]any
	if err := json.Unmarshal(k.database, &db); err != nil {
		panic(err)
	}
	for _, a := range list {
		var args map[string]any
		if err := json.Unmarshal(a.Args, &args); err != nil {
			panic(err)
		}
		row := func(key string) map[string]any {
			if found := rows(db, args[key]); len(found) > 0 {
				return found[0]
			}
			return map[string]any{}
		}
		amount, _ := args["amount"].(float64)
		balance := func(row map[string]any, by float64) {
			old, _ := row["balance"].(float64)
			row["balance"] = old + by
		}
		switch a.Name {
		case "add_money":
			balance(row("card_id"), amount)
			balance(row("account_id"), amount)
		case "move_money":
			balance(row("from"), -amount)
			balance(row("to"), amount)
		case "lend_book":
			copies, _ := row("book_id")["copies"].(float64)
			row("book_id")["copies"] = copies - 1
			loans, _ := row("reader_id")["loans"].([]any)
			row("reader_id")["loans"] = append(loans, args["book_id"])
		default:
			note(db, a, args)
		}
	}
	return db
}

// note adds the action to the history of every row that its arguments name, else to that of the
// database.
func note(db map[string]any, a action, args map[string]any) {
	found := []map[string]any{}
	for _, v := range args {
		found = append(found, rows(db, v)...)
	}
	if len(found) == 0 {
		found = append(found, db)
	}
	for _, row := range found {
		history, _ := row["history"].([]any)
		row["history"] = append(history, a.String())
	}
}

// rows returns the objects that have the key, in a table or one level below it.
func rows(db map[string]any, key any) (found []map[string]any) {
	name, _ := key.(string)
	for _, table := range db {
		t, _ := table.(map[string]any)
		data, _ := t["data"].(map[string]any)
		for _, m := range []map[string]any{t, data} {
			if row, ok := m[name].(map[string]any); ok {
				found = append(found, row)
			}
		}
	}
	return found
}

// readLedger returns the effects that took place.
func readLedger(t *testing.T, file string) (list []action) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var a action
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("%s: %v: %q", file, err, line)
		}
		a.Args = canonical(a.Args)
		list = append(list, a)
	}
	return list
}

// TestWhatIsCounted: an effect that is missing, repeated or in another order is seen.
func TestWhatIsCounted(t *testing.T) {
	for _, k := range small(t) {
		twice := append(slices.Clone(k.actions), k.actions[0])
		for _, c := range []struct {
			name   string
			ledger []action
			want   outcome
		}{
			{"all", k.actions, outcome{0, 0, true}},
			{"none", nil, outcome{len(k.actions), 0, false}},
			{"twice", twice, outcome{0, 1, false}},
		} {
			if got := k.outcome(c.ledger); got != c.want {
				t.Errorf("%s %s, %s: %+v, want %+v", k.domain, k.id, c.name, got, c.want)
			}
		}
	}
}

func small(t *testing.T) []task {
	t.Helper()
	list := tasks(t, "own", "testdata", "shop", "library", "bank")
	if len(list) < 12 {
		t.Fatalf("only %d tasks", len(list))
	}
	return list
}
