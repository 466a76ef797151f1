package sessionindex

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/session"
)

// maxText is how many bytes of one text are indexed.
const maxText = 1 << 20

// journalName is the file of a session in its folder.
const journalName = "journal.jsonl"

// A found is a session on disk.
type found struct {
	path, folder  string
	size, changed int64
}

// Update brings the index up to date with the sessions in folders. After an error, the
// changes before it remain. A damaged session is indexed up to the damage.
func (x *Index) Update(ctx context.Context, folders []string) error {
	err := x.update(ctx, folders)
	if unusable(err) {
		if err = x.renew(ctx); err == nil {
			err = x.update(ctx, folders)
		}
	}
	if err != nil {
		return fmt.Errorf("update index %s: %w", x.path, err)
	}
	return nil
}

func (x *Index) update(ctx context.Context, folders []string) error {
	folders = absolute(folders)
	known, err := x.known(ctx)
	if err != nil {
		return err
	}
	for _, f := range list(folders) {
		old, ok := known[f.path]
		delete(known, f.path)
		if ok && old.size == f.size && old.changed == f.changed {
			continue
		}
		if err := x.add(ctx, f); err != nil {
			return err
		}
	}
	for path, old := range known {
		// Sessions in other folders stay in the index as long as they exist.
		if _, err := os.Stat(filepath.Join(path, journalName)); err == nil && !slices.Contains(folders, filepath.Dir(path)) {
			continue
		}
		if err := x.change(ctx, func(tx *sql.Tx) error { return remove(ctx, tx, old.n) }); err != nil {
			return err
		}
	}
	return nil
}

func absolute(folders []string) []string {
	var list []string
	for _, f := range folders {
		if a, err := filepath.Abs(f); err == nil {
			list = append(list, a)
		}
	}
	return list
}

type indexed struct{ n, size, changed int64 }

func (x *Index) known(ctx context.Context) (map[string]indexed, error) {
	rows, err := x.db.QueryContext(ctx, "SELECT path, n, size, changed FROM sessions")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	known := map[string]indexed{}
	for rows.Next() {
		var path string
		var i indexed
		if err := rows.Scan(&path, &i.n, &i.size, &i.changed); err != nil {
			return nil, err
		}
		known[path] = i
	}
	return known, rows.Err()
}

// list finds the sessions. It skips folders that cannot be read.
func list(folders []string) []found {
	var all []found
	for _, folder := range folders {
		entries, _ := os.ReadDir(folder)
		for _, e := range entries {
			path := filepath.Join(folder, e.Name())
			info, err := os.Stat(filepath.Join(path, journalName))
			if err == nil && info.Mode().IsRegular() && session.ValidID(e.Name()) {
				all = append(all, found{path, folder, info.Size(), info.ModTime().UnixNano()})
			}
		}
	}
	return all
}

func remove(ctx context.Context, tx *sql.Tx, n int64) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM words WHERE rowid >= ? AND rowid < ?", n<<rowBits, (n+1)<<rowBits); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM sessions WHERE n = ?", n)
	return err
}

// add indexes a session, unless another process has just done so.
func (x *Index) add(ctx context.Context, f found) error {
	return x.change(ctx, func(tx *sql.Tx) error {
		var old indexed
		err := tx.QueryRowContext(ctx, "SELECT n, size, changed FROM sessions WHERE path = ?", f.path).Scan(&old.n, &old.size, &old.changed)
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return err
		case old.size == f.size && old.changed == f.changed:
			return nil
		default:
			if err := remove(ctx, tx, old.n); err != nil {
				return err
			}
		}
		var n int64
		if err := tx.QueryRowContext(ctx, "SELECT coalesce(max(n), 0) + 1 FROM sessions").Scan(&n); err != nil {
			return err
		}
		insert, err := tx.PrepareContext(ctx, "INSERT INTO words (rowid, text, kind, agent, tool, turn, time) VALUES (?, ?, ?, ?, ?, ?, ?)")
		if err != nil {
			return err
		}
		defer insert.Close()
		a := &adder{row: n << rowBits, last: (n+1)<<rowBits - 1, insert: func(values ...any) error {
			_, err := insert.ExecContext(ctx, values...)
			return err
		}}
		damage := ""
		for e, err := range session.Events(f.path) {
			if err != nil {
				damage = err.Error()
				break
			}
			if err := a.event(&e); err != nil {
				return err
			}
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO sessions (n, path, folder, size, changed, id, agent, prompt, began, damage) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			n, f.path, f.folder, f.size, f.changed, filepath.Base(f.path), a.agent, a.prompt, a.began, damage)
		return err
	})
}

// An adder adds the texts of one session.
type adder struct {
	insert    func(values ...any) error
	row, last int64

	root, agent, prompt string
	began               int64
	turn                int // of the root session
}

func (a *adder) event(e *agent.Event) error {
	if a.root == "" {
		a.root, a.agent, a.began = e.Session, e.Agent, e.Time.UnixMilli()
	}
	switch e.Kind {
	case agent.EventMessage, agent.EventFailure:
		if e.Message == nil {
			return nil
		}
		kind := "prompt"
		if e.Message.Role == agent.RoleAssistant {
			kind = "answer"
		}
		if a.prompt == "" && e.Session == a.root {
			a.prompt = session.FirstLine(e.Message)
		}
		if e.Session == a.root {
			a.turn++ // the turn that answers the prompt
			defer func() { a.turn-- }()
		}
		return a.parts(e, kind, "", e.Message.Parts)
	case agent.EventAnswer:
		if e.Session == a.root {
			a.turn = max(a.turn+1, e.Turn)
		}
		if e.Message != nil {
			return a.answer(e)
		}
	case agent.EventCompaction:
		if e.Session == a.root {
			a.turn = max(a.turn, e.Turn)
		}
	case agent.EventCallEnded:
		if e.Result != nil {
			return a.parts(e, "result", e.Tool, e.Result.Parts)
		}
	}
	return nil
}

func (a *adder) answer(e *agent.Event) error {
	if err := a.parts(e, "answer", "", e.Message.Parts); err != nil {
		return err
	}
	for _, c := range e.Message.Calls {
		if err := a.text(e, "call", c.Name, c.Name+" "+c.Args); err != nil {
			return err
		}
	}
	return nil
}

func (a *adder) parts(e *agent.Event, kind, tool string, parts []agent.Part) error {
	for _, p := range parts {
		text, of := p.Text, kind
		switch p.Kind {
		case agent.PartReasoning:
			of = "thinking"
		case agent.PartMedia:
			text = p.Name
		}
		if err := a.text(e, of, tool, text); err != nil {
			return err
		}
	}
	return nil
}

func (a *adder) text(e *agent.Event, kind, tool, text string) error {
	if text = plain(text); text == "" || a.row >= a.last {
		return nil
	}
	a.row++
	return a.insert(a.row-1, text, kind, e.Agent, tool, a.turn, e.Time.UnixMilli())
}

// plain removes control characters, which include the marks of matches, from a text.
func plain(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "")))
}

// expression returns an FTS5 query for the words, which are quoted so that none is an
// operator.
func expression(words []string) (string, error) {
	var list []string
	for _, w := range words {
		prefix := strings.HasSuffix(w, "*")
		if !strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
			continue
		}
		quoted := `"` + strings.ReplaceAll(plain(strings.TrimRight(w, "*")), `"`, `""`) + `"`
		if prefix {
			quoted += "*"
		}
		list = append(list, quoted)
	}
	if len(list) == 0 {
		return "", ErrNoWords
	}
	return strings.Join(list, " AND "), nil
}
